"""Where each expert's rows, tiles and scales begin. The kernels are replaced by the model: no GPU is needed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import layouts
from mxspec.tensorscale import TensorScale, TensorScaleKind
from mxspec_gpu import experts
from mxspec_gpu.experts import quantize_experts

from tests.support import seed

CODES = {"mxfp4": "nibble-low", "nvfp4": "nibble-low", "mxfp8_e4m3": "bytes", "mxfp6_e2m3": "fp6-le"}


@dataclass(frozen=True)
class Address:
    """Stands for the address of an array; all are aligned."""

    array: Any

    def __mod__(self, other: int) -> int:
        return 0


def quantize_on_host(x: Any, fmt: Any, tensor_scale: Any, scale_layout: str) -> tuple[Any, Any]:
    """Packed codes, and scales as bytes."""
    q = mxspec.quantize(x, fmt.name, tensor_scale=tensor_scale)
    codes = layouts.pack(q.codes, CODES[fmt.name]).reshape(len(x), x.shape[1] * fmt.element.bits // 8)
    return codes, layouts.pack(q.scales, "128x4").reshape(-1) if scale_layout == "128x4" else q.scales


def launch_on_host(view: Any, rules: Any, starts: Any, outputs: Any, tensors: Any, *, tuning: Any, tiled: bool, auto: bool) -> None:
    """What the kernels do with the table that they are given."""
    assert (starts[:, 0] == np.append(0, np.cumsum(-(-np.diff(starts[:, 1]) * view.shape[1] // (tuning.values * tuning.threads))))).all()
    codes, scales = (address.array for address in outputs)
    tensors = tensors.array if rules.two_level else None
    for number, (first, end) in enumerate(pairwise(starts)):
        rows = view.owner[first[1] : end[1]]
        if auto:
            scale = mxspec.tensor_scale(rows, rules.fmt.name)
            tensors[number] = np.uint32(scale.bits).view(np.float32)
        scale = TensorScale(rules.native, int(tensors[number : number + 1].view(np.uint32)[0])) if rules.two_level else None
        codes[first[1] : end[1]], part = quantize_on_host(rows, rules.fmt, scale, "128x4" if tiled else "row-major")
        scales.reshape(-1)[first[2] : end[2]] = part.reshape(-1)


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def view(array: Any, name: str = "x") -> Any:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} is a {type(array).__name__}")
        return SimpleNamespace(
            dtype=array.dtype.name, shape=array.shape, size=array.size, library="numpy", device=0, owner=array,
            pointer=Address(array), contiguous=True,
        )  # fmt: skip

    monkeypatch.setattr(experts, "view_array", view)
    monkeypatch.setattr(experts, "empty_array", lambda shape, dtype, library, device: np.full(shape, 0xAA, dtype))
    monkeypatch.setattr(experts, "upload_array", lambda data, library, device: data)
    monkeypatch.setattr(experts, "OnDevice", lambda device: nullcontext())
    monkeypatch.setattr(experts, "_launch", launch_on_host)


def draw(rows: int, columns: int = 512) -> Any:
    return np.random.default_rng(seed() + rows).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize("rows", [(5, 0, 128, 130, 1), (256,), (1,) * 9, (0, 3)])
@pytest.mark.parametrize("fmt", CODES)
def test_tiles_are_those_of_pack_groups(fmt: str, rows: tuple[int, ...]) -> None:
    x = draw(sum(rows))
    got, want = quantize_experts(x, rows, fmt), mxspec.quantize(x, fmt)
    assert np.array_equal(got.codes, layouts.pack(want.codes, CODES[fmt]).reshape(len(x), -1))
    assert np.array_equal(got.scales, layouts.pack_groups(want.scales, "128x4", rows))
    row_major = quantize_experts(x, rows, fmt, scale_layout="row-major")
    assert np.array_equal(row_major.scales, want.scales)
    last = got.expert(len(rows) - 1)
    assert (len(last.codes), last.shape) == (rows[-1], (rows[-1], 512))


def test_each_expert_has_its_own_tensor_scale() -> None:
    x, rows = draw(40) * np.repeat([1, 100], 20)[:, None].astype(np.float32), (20, 0, 20)
    kind = mxspec.tensor_scale(x, "nvfp4").kind
    given = [TensorScale.from_float(kind, value) for value in (0.5, 1.0, 2.0)]
    got = quantize_experts(x, rows, "nvfp4", tensor_scales=given)
    assert got.tensor_scales.tolist() == [0.5, 1.0, 2.0]
    for number, part in ((0, x[:20]), (2, x[20:])):
        assert np.array_equal(got.expert(number).codes, quantize_on_host(part, got.format, given[number], "128x4")[0])
    for others in (np.float32([0.5, 1, 2]), [np.float32([value]) for value in (0.5, 1, 2)]):
        again = quantize_experts(x, rows, "nvfp4", tensor_scales=others)
        assert np.array_equal(again.codes, got.codes)
        assert np.array_equal(again.scales, got.scales)
    auto = quantize_experts(x, rows, "nvfp4", tensor_scales="auto")
    bits = [mxspec.tensor_scale(part, "nvfp4").bits for part in (x[:20], x[20:20], x[20:])]
    assert auto.tensor_scales.view(np.uint32).tolist() == bits


def test_no_rows_at_all() -> None:
    got = quantize_experts(draw(0), (0, 0), "mxfp4")
    assert (got.codes.shape, got.scales.shape, got.profile.id) == ((0, 256), (0,), "mx-floor")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"rows": (1, 2)}, ValueError, "rows = [1, 2] make 3 rows; x has 4"),
        ({"rows": (5, -1)}, ValueError, "none below 0"),
        ({"rows": (2.0, 2)}, TypeError, "rows[0] = 2.0 is of type float"),
        ({"tensor_scales": [TensorScale.from_float(TensorScaleKind.DECODE, 1.0)]}, ValueError, "1 tensor scales were given for 2 experts"),
        ({"fmt": "mxfp6_e2m3", "x": draw(4, 96)}, ValueError, "x has 96 columns, no multiple of 64"),
        ({"scale_layout": "row-major", "x": draw(4, 256)}, ValueError, "would not begin at 16 bytes; pad x to 512 columns"),
        ({"rows": 4}, TypeError, "rows is of type int; pass how many rows each expert has, such as [4] for one"),
        (
            {"tensor_scales": [TensorScale.from_float(TensorScaleKind.ENCODE, 1.0)] * 2},
            ValueError,
            "tensor_scales[0] is of kind encode, profile",
        ),
        ({"tensor_scales": np.ones(2)}, ValueError, "tensor_scales have dtype float64 and shape (2,)"),
        ({"tensor_scales": [np.ones(1, np.float32), np.ones(2, np.float32)]}, ValueError, "tensor_scales[1] is a numpy array of float32"),
        ({"tensor_scales": [1.0, 2.0]}, TypeError, "tensor_scales[0] is a float"),
        ({"tensor_scales": "own"}, ValueError, "tensor_scales = 'own'; allowed are None, 'auto'"),
        ({"tensor_scales": "own", "x": draw(0), "rows": (0, 0)}, ValueError, "tensor_scales = 'own'; allowed are None, 'auto'"),
        ({"tensor_scales": 1.0}, TypeError, "tensor_scales is of type float and holds no sequence; pass one for each of 2 experts"),
        ({"tensor_scales": np.array(1, np.float32)}, TypeError, "tensor_scales is of type ndarray and holds no sequence"),
        ({"tensor_scales": TensorScale.from_float(TensorScaleKind.DECODE, 1.0)}, TypeError, "is of type TensorScale and holds no"),
        ({"x": draw(4).reshape(2, 2, 512)}, ValueError, "pass a matrix [rows, K]"),
    ],
)
def test_wrong_calls_are_refused_in_words(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"x": draw(4), "rows": (2, 2), "fmt": "nvfp4" if "tensor_scales" in arguments else "mxfp4"} | arguments
    with pytest.raises(error) as raised:
        quantize_experts(given.pop("x"), given.pop("rows"), given.pop("fmt"), **given)
    assert message in str(raised.value)


def test_an_expert_that_is_not_there() -> None:
    q = quantize_experts(draw(4), (2, 2), "mxfp4")
    with pytest.raises(IndexError, match="expert 2 of 2; the first is 0"):
        q.expert(2)
    with pytest.raises(TypeError, match=r"number = 1\.0 is of type float; pass the number of an expert"):
        q.expert(1.0)  # type: ignore[arg-type]


def test_six_bits_fit_in_64_columns() -> None:
    x = draw(5, 192)
    assert np.array_equal(quantize_experts(x, (1, 4), "mxfp6_e2m3").expert(1).codes, quantize_experts(x[1:], (4,), "mxfp6_e2m3").codes)
