"""Which rows, tiles and scales each expert's call is given. The kernels are replaced by the model: no GPU is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import layouts
from mxspec.tensorscale import TensorScale, TensorScaleKind
from mxspec_gpu import experts
from mxspec_gpu.api import Quantized
from mxspec_gpu.experts import quantize_experts

from tests.support import seed

CODES = {"mxfp4": "nibble-low", "nvfp4": "nibble-low", "mxfp8_e4m3": "bytes", "mxfp6_e2m3": "fp6-le"}


def quantize_on_host(x: Any, fmt: Any, *, profile: Any, tensor_scale: Any, scale_layout: str, out: Any = None) -> Quantized:
    if tensor_scale == "auto":
        tensor_scale = mxspec.tensor_scale(x, fmt.name)
    q = mxspec.quantize(x, fmt.name, profile=profile, tensor_scale=tensor_scale)
    codes = layouts.pack(q.codes, CODES[fmt.name]).reshape(len(x), x.shape[1] * fmt.element.bits // 8)
    scales = layouts.pack(q.scales, "128x4").reshape(-1) if scale_layout == "128x4" else q.scales
    if out is not None:
        assert all(array.base is not None and array.flags.c_contiguous for array in out)
        assert all(array.ctypes.data % 16 == array.base.ctypes.data % 16 for array in out), "the kernels write 16 bytes at once"
        out[0][:], out[1][:] = codes, scales
        codes, scales = out
    return Quantized(q.format, q.profile, codes, scales, tensor_scale, x.shape, scale_layout)


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def view(array: Any, name: str = "x") -> Any:
        return SimpleNamespace(dtype=array.dtype.name, shape=array.shape, library="numpy", device=0)

    monkeypatch.setattr(experts, "view_array", view)
    monkeypatch.setattr(experts, "empty_array", lambda shape, dtype, library, device: np.full(shape, 0xAA, dtype))
    monkeypatch.setattr(experts, "quantize", quantize_on_host)


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
    assert got.tensor_scales == tuple(given)
    assert np.array_equal(got.expert(2).codes, quantize_on_host(
        x[20:], got.format, profile=None, tensor_scale=given[2], scale_layout="128x4").codes)  # fmt: skip
    auto = quantize_experts(x, rows, "nvfp4", tensor_scales="auto")
    assert auto.tensor_scales == (mxspec.tensor_scale(x[:20], "nvfp4"), None, mxspec.tensor_scale(x[20:], "nvfp4"))


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
        ({"tensor_scales": "own"}, ValueError, "tensor_scales = 'own'; allowed are None, 'auto'"),
        ({"tensor_scales": "own", "x": draw(0), "rows": (0, 0)}, ValueError, "tensor_scales = 'own'; allowed are None, 'auto'"),
        ({"tensor_scales": 1.0}, TypeError, "tensor_scales is of type float and holds no sequence; pass one for each of 2 experts"),
        ({"tensor_scales": np.array(1, np.float32)}, TypeError, "tensor_scales is of type ndarray and holds no sequence"),
        ({"tensor_scales": TensorScale.from_float(TensorScaleKind.DECODE, 1.0)}, TypeError, "is of type TensorScale and holds no"),
        ({"x": draw(4).reshape(2, 2, 512)}, ValueError, "pass a matrix [rows, K]"),
    ],
)
def test_wrong_calls_are_refused_in_words(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"x": draw(4), "rows": (2, 2), "fmt": "mxfp4"} | arguments
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
