"""What a target says of itself decides what it is asked: keywords, dtypes, layouts."""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.formats import get_block
from mxspec.layouts import Part, get_layout, list_layouts
from mxspec_conformance.judge.check import check
from mxspec_conformance.targets.arrays import to_target_array
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.opening import open_target
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


#: A format of each width; layouts that hold elements of others go with none.
BY_WIDTH = {get_block(f).element.bits: f for f in ("mxfp4", "mxfp6_e2m3", "mxint8")}
#: Layouts of codes and of scales that a target may declare, and the format to try them with.
LAID = [
    (x.name, ("mxfp4" if x.main.stored is None else "nvfp4") if x.main.part is Part.SCALES else BY_WIDTH[x.main.packing.width]) for x in list_layouts()
    if len(x.fields) == 1 and (x.main.part is Part.SCALES or (x.main.part is Part.CODES and x.main.packing.width in BY_WIDTH))
]  # fmt: skip


def laid(name: str, spoil: bool = False) -> Any:
    """A target that hands over codes, or scales, in a layout; spoil: the first of each row is another."""
    layout, fmt = get_layout(name), dict(LAID)[name]
    which = int(layout.main.part is Part.SCALES)

    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        parts = [t.codes.copy(), t.scales.copy()]
        if spoil:  # another scale that every layout holds
            parts[which][..., 0] = 0x38 if which else parts[which][..., 0] ^ 1
        if name not in ("bytes", "row-major"):
            parts[which] = layout.pack(parts[which]).reshape(*((len(x), -1) if name.startswith("nibble") and not layout.flat else (-1,)))
        return tuple(parts)

    def dequantize(codes: Any, scales: Any, fmt: str) -> Any:
        k = get_block(fmt).k
        shape = (len(codes), codes.shape[-1] // k) if which else (len(scales), k * scales.shape[-1])
        parts = [codes, scales]
        if name not in ("bytes", "row-major"):
            parts[which] = layout.unpack(parts[which].reshape(-1), shape)[0].reshape(shape)
        return mxspec.dequantize(*parts, fmt)

    return SimpleNamespace(FORMATS=[fmt], LAYOUT=name, quantize=quantize, dequantize=dequantize)


@pytest.mark.parametrize("name", dict(LAID))
def test_codes_and_scales_in_any_layout(name: str) -> None:
    """Returned and taken in whole tiles; of each row the one element that is wrong comes back wrong."""
    fmt = dict(LAID)[name]
    session, spoilt = (open_target(laid(name, spoil)) for spoil in (False, True))
    limits = session.capabilities.limits
    k = math.lcm(get_block(fmt).k * 3, limits.columns)
    x = np.random.default_rng(1).standard_normal((max(limits.rows, 3), k), np.float32)
    t = mxspec.quantize(x, fmt)
    codes, scales = session.call("quantize", x, fmt)
    assert np.array_equal(codes, t.codes)
    assert np.array_equal(scales, t.scales)
    assert np.array_equal(session.call("dequantize", codes, scales, fmt), t.dequantize())
    differing = [(a != b).sum() for a, b in zip(spoilt.call("quantize", x, fmt), (codes, scales), strict=True)]
    assert sorted(differing) == [0, len(x)]


@pytest.mark.parametrize("name", ["fp6-le", "marlin", "128x8"])
def test_a_target_with_a_layout_conforms(name: str) -> None:
    """In calls of all sizes: marlin does not pad, and gets whole tiles."""
    found = check(laid(name), quick=True, data=[], only="*antize/*/*o[wd]*")
    assert {r.id.split("/")[2]: r.verdict.value for r in found.requirements} == dict.fromkeys(
        ("below-tie", "overflow", "code", "scale-code"), "pass"
    )
    wrong = check(laid(name, spoil=True), quick=True, data=[], only="quantize/*/below-tie")
    assert [r.verdict.value for r in wrong.requirements] == ["fail"]


def test_a_layout_of_another_width_is_refused() -> None:
    with pytest.raises(TargetError, match=r"LAYOUT names 'fp6-le'; allowed for mxfp4 are unpacked, nibble-low, .*, row-major, .*128x4"):
        check(make(["mxfp4"], LAYOUT="fp6-le", quantize=right))
    with pytest.raises(TargetError, match="names nibble-low and gptq; name one layout of codes"):
        check(make(["mxfp4"], LAYOUT=["nibble-low", "gptq"], quantize=right))


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
    assert [step.name for step in wrong] == ["quantize mxfp4, zeros", "quantize mxfp4, halves", "quantize mxfp4, 16 rows"]
    assert {step.note for step in wrong} == {"the same call again was answered with other bits"}


def test_no_rows_are_handed_over_in_rows() -> None:
    """Of a layout that lies by rows, as of codes one to a byte."""
    shapes: list[Any] = []

    def dequantize(codes: Any, scales: Any, fmt: str) -> Any:
        shapes.append(codes.shape)
        return np.zeros((len(codes), 2 * codes.shape[1]), np.float32)

    target = SimpleNamespace(NAME="rows", VERSION="1", FORMATS=["mxfp4"], LAYOUT="nibble-low", dequantize=dequantize)
    for rows in (0, 3):
        open_target(target).call("dequantize", np.zeros((rows, 96), np.uint8), np.zeros((rows, 3), np.uint8), "mxfp4")
    assert shapes[-2:] == [(0, 48), (3, 48)]
