"""What a target says of itself decides what it is asked: keywords, dtypes, layouts."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.layouts import get_layout
from mxspec_conformance.judge.check import check
from mxspec_conformance.targets.arrays import to_target_array
from mxspec_conformance.transports.smoke import try_target

from tests.bugs import find
from tests.bugs.building import Answer, Array, make, right
from tests.bugs.judging import judge
from tests.judge.reading import failing, passed, requirement


@pytest.mark.parametrize("name", ["codes two to a byte", "scales in tiles", "nibbles and tiles"])
def test_quantize_may_return_its_layout(name: str) -> None:
    assert {"quantize/mxfp4/call-size", "quantize/nvfp4/call-size"} <= passed(judge(find(name)))


@pytest.mark.parametrize("name", ["dequantize of nibbles", "dequantize of tiles", "dequantize of nibbles and tiles"])
def test_dequantize_gets_its_inputs_in_its_layout(name: str) -> None:
    """Also with more than one tile of scales, and with tensor scales."""
    topics = ("code", "scale-code", "call-size")
    found = passed(judge(find(name)))
    assert {f"dequantize/{f}/{t}" for f in ("mxfp4", "nvfp4") for t in topics} <= found
    assert "dequantize/nvfp4/tensor-scale" in found


def test_a_wrong_nibble_order_is_no_matter_of_scales() -> None:
    assert not any("scale" in i for i in failing(judge(find("nibbles the wrong way round"))))


def test_keywords_are_capabilities() -> None:
    """axis, pad and block are asked for only where the signature takes them."""

    def with_axis_and_pad(x: Array, fmt: str, axis: int = -1, pad: bool = False) -> Answer:
        return right(x, fmt, axis=axis, pad=pad)

    def with_block(x: Array, fmt: str, tensor_scale: float | None = None, block: Any = None) -> Answer:
        return right(x, fmt, tensor_scale, block=block)

    plain = check(make(["mxfp4"], quantize=lambda x, fmt: right(x, fmt)))
    unsupported = {r.id: r.note for r in plain.requirements if r.verdict == "unsupported"}
    assert unsupported == {"quantize/mxfp4/tail": "quantize takes no pad"}
    assert plain.exit_code == 0
    both = check(make(["mxfp4"], quantize=with_axis_and_pad))
    assert (failing(both), both.exit_code) == ({}, 0)
    assert {"quantize/mxfp4/axis", "quantize/mxfp4/tail"} <= passed(both)
    axis = "quantize/mxfp4/axis"
    assert requirement(plain, axis).cases < requirement(both, axis).cases
    tiles = check(make(["nvfp4"], TENSOR_SCALE="amax", quantize=with_block))
    assert (failing(tiles), tiles.exit_code) == ({}, 0)


@pytest.mark.parametrize("dtypes", [["float32", "float16", "bfloat16"], ["bfloat16"], "float16"])
def test_a_target_is_called_with_the_dtypes_that_it_declares(dtypes: Any) -> None:
    def quantize(x: Array, fmt: str) -> Answer:
        assert x.dtype.name in dtypes, x.dtype
        return right(x, fmt)

    report = check(make(["mxfp4"], DTYPES=dtypes, quantize=quantize))
    assert (failing(report), report.exit_code) == ({}, 0)
    assert "scale/mxfp4/scale-boundary" in passed(report)


def test_arrays_that_are_no_copies_are_answers() -> None:
    """Signed bytes, read-only, strided: see the catalogue; here a view of a larger array."""

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = right(x, fmt)
        larger = np.zeros((len(codes), codes.shape[1] + 3), np.uint8)
        larger[:, 3:] = codes
        return larger[:, 3:], scales

    assert failing(check(make(["mxfp4"], quantize=quantize))) == {}


@pytest.mark.parametrize("layout", ["nibble-low", "nibble-high"])
def test_codes_two_to_a_byte_in_either_order(layout: str) -> None:
    """Those of 4 bits, returned and taken; the other order is found."""

    def pack(codes: Any, name: str) -> Any:
        return get_layout(name).pack(codes[None]).reshape(len(codes), -1)

    def target(name: str) -> Any:
        def quantize(x: Any, fmt: str) -> Any:
            t = mxspec.quantize(x, fmt)
            return pack(t.codes, name), t.scales

        def dequantize(codes: Any, scales: Any, fmt: str) -> Any:
            shape = (len(codes), 2 * codes.shape[1])
            return mxspec.dequantize(get_layout(name).unpack(codes, (1, *shape))[0].reshape(shape), scales, fmt)

        return SimpleNamespace(FORMATS=["mxfp4"], LAYOUT=layout, quantize=quantize, dequantize=dequantize)

    right = check(target(layout), quick=True, data=[])
    assert {r.verdict.value for r in right.requirements} <= {"pass", "unsupported"}
    other = check(
        target("nibble-low" if layout == "nibble-high" else "nibble-high"), quick=True, data=[], only="*/tie-even"
    )
    assert {r.verdict.value for r in other.requirements} == {"fail"}


class StandIn:
    """As much of torch as is needed to hand over a float that NumPy does not have."""

    bfloat16, float8_e4m3fn, float8_e5m2, float8_e8m0fnu = "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"

    def __init__(self, array: Any = None) -> None:
        self.array, self.seen_as = array, ""

    @classmethod
    def from_numpy(cls, array: Any) -> Any:
        if array.dtype.isbuiltin != 1:
            raise TypeError(f"can't convert np.ndarray of type {array.dtype.type}")
        return cls(array)

    def view(self, dtype: str) -> Any:
        self.seen_as = dtype
        return self


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
@pytest.mark.parametrize("real", [False, True], ids=["stand-in", "torch"])
def test_torch_is_given_floats_that_numpy_does_not_have(name: str, real: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their bits: `torch.from_numpy` takes none of them."""
    x = np.arange(64, dtype=np.uint8).view(np.dtype(getattr(ml_dtypes, name))).reshape(2, -1)
    if real:
        torch = pytest.importorskip("torch")
        given = to_target_array(x, "torch")
        assert (given.dtype, tuple(given.shape)) == (getattr(torch, name), x.shape)
        assert given.view(torch.uint8).numpy().tobytes() == x.tobytes()
        return
    monkeypatch.setitem(sys.modules, "torch", cast(ModuleType, StandIn))
    given = to_target_array(x, "torch")
    assert (given.seen_as, given.array.tobytes(), given.array.dtype.kind) == (name, x.tobytes(), "u")


def test_smoke_calls_in_the_target_s_dtype_and_twice() -> None:
    """The first dtype that it takes, and an answer that changes is none."""
    dtypes: list[str] = []
    changes = [False]

    def quantize(x: Any, fmt: str) -> Any:
        dtypes.append(x.dtype.name)
        t = mxspec.quantize(x, fmt)
        return t.codes ^ np.uint8(changes[0] and len(dtypes) % 2 == 0), t.scales

    target = SimpleNamespace(FORMATS=["mxfp4"], DTYPES=["bfloat16", "float16"], quantize=quantize)
    steps = list(try_target(target))
    assert all(step.ok for step in steps)
    assert set(dtypes) == {"bfloat16"}
    dtypes.clear()
    changes[0] = True
    wrong = [step for step in try_target(target) if not step.ok]
    assert [step.name for step in wrong] == [
        "quantize mxfp4, zeros",
        "quantize mxfp4, halves",
        "quantize mxfp4, 16 rows",
    ]
    assert {step.note for step in wrong} == {"the same call again was answered with other bits"}
