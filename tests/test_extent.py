"""Formats with one scale for a whole row, of whatever length, or a whole tensor, of whatever shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mxspec
from mxspec import exact

from tests.support import reals_of

ROW, TENSOR = "fp8_e4m3-row-f32", "fp8_e4m3-tensor-f32"


def draw(*shape: int) -> np.ndarray:
    generator = np.random.default_rng(len(shape))
    return (generator.standard_normal(shape) * 2.0 ** generator.integers(-9, 9, shape)).astype(np.float32)


@pytest.mark.parametrize("columns", [1, 7, 128, 129, 384])
@pytest.mark.parametrize("profile", ["vllm-0.33/fp8-row/native", "torchao-0.18/fp8-row/torch"])
def test_a_row_of_any_length_is_a_block(columns: int, profile: str) -> None:
    """By the exact model of a block of that length."""
    fmt = replace(mxspec.register_adjacent(ROW), k=columns, shapes=((1, columns),))
    x = draw(5, columns)
    t = mxspec.quantize(x, ROW, profile=profile)
    assert (t.codes.shape, t.scales.shape, t.format) == ((5, columns), (5, 1), fmt)
    for row, codes, scale in zip(x, t.codes, t.scales, strict=True):
        wanted = exact.quantize_block(reals_of(row), fmt, profile=profile)
        assert (int(scale[0]), codes.tolist()) == (wanted.scale_code, list(wanted.codes))
    values = mxspec.dequantize(t.codes, t.scales, ROW, profile=profile)
    assert np.array_equal(values, t.dequantize())
    assert np.array_equal(mxspec.BlockTensor.from_codes(t.codes, t.scales, ROW, profile=profile).dequantize(), values)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_axis_is_the_row(axis: int) -> None:
    mxspec.register_adjacent(ROW)
    x = draw(4, 6, 10)
    t = mxspec.quantize(x, ROW, axis=axis)
    assert t.scales.shape == tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    moved = mxspec.quantize(np.moveaxis(x, axis, -1), ROW)
    assert np.array_equal(np.moveaxis(t.codes, axis, -1), moved.codes)
    assert np.array_equal(np.moveaxis(t.scales, axis, -1), moved.scales)
    assert np.array_equal(t.dequantize(), mxspec.dequantize(t.codes, t.scales, ROW, axis=axis))


@pytest.mark.parametrize("shape", [(1,), (300,), (7, 33), (3, 2, 64)])
@pytest.mark.parametrize("profile", ["vllm-0.33/fp8-tensor/native", "torchao-0.18/fp8-tensor/torch"])
def test_a_tensor_of_any_shape_is_a_block(shape: tuple[int, ...], profile: str) -> None:
    """As one row of all its numbers; its scale is there for each row."""
    for fmt in (ROW, TENSOR):
        mxspec.register_adjacent(fmt)
    x = draw(*shape)
    t = mxspec.quantize(x, TENSOR, profile=profile)
    row = mxspec.quantize(x.reshape(-1), ROW, profile=profile.replace("tensor", "row"))
    assert (t.scales.shape, set(t.scales.reshape(-1))) == ((*shape[:-1], 1), {int(row.scales[0])})
    assert np.array_equal(t.codes.reshape(-1), row.codes)
    assert np.array_equal(t.dequantize().reshape(-1), row.dequantize())
    given = mxspec.quantize(x, TENSOR, profile=profile, scales=t.scales)
    assert np.array_equal(given.codes, t.codes)
    if len(shape) > 1:
        t.scales.flags.writeable = True
        t.scales[(0,) * len(shape)] += 1
        with pytest.raises(ValueError, match=f"scales differ within a tensor of {TENSOR}, which has one"):
            mxspec.quantize(x, TENSOR, profile=profile, scales=t.scales)


def test_a_nan_stays_in_its_row_and_fills_its_tensor() -> None:
    for fmt in (ROW, TENSOR):
        mxspec.register_adjacent(fmt)
    x = draw(3, 40)
    x[1, 5] = np.nan
    assert [hex(s) for s in mxspec.quantize(x, ROW).scales[:, 0]].count("0x7fc00000") == 1
    assert set(mxspec.quantize(x, TENSOR).scales.reshape(-1).tolist()) == {0x7FC00000}


def test_rows_of_nothing() -> None:
    for fmt in (ROW, TENSOR):
        mxspec.register_adjacent(fmt)
        for shape in ((0, 5), (3, 0)):
            t = mxspec.quantize(np.zeros(shape, np.float32), fmt)
            assert (t.codes.shape, t.scales.shape) == (shape, (shape[0], min(shape[1], 1)))


def test_whole_rows_are_cut_by_rows() -> None:
    mxspec.register_adjacent(ROW)
    t = mxspec.quantize(draw(6, 50), ROW)
    assert np.array_equal(t[2:4].dequantize(), t.dequantize()[2:4])
    with pytest.raises(ValueError, match="axis 1 holds blocks of 50"):
        t[:, :25]
    with pytest.raises(ValueError, match=r"block = \(1, 128\) is not a block shape"):
        mxspec.quantize(draw(6, 50), ROW, block=(1, 128))
    with pytest.raises(ValueError, match="scales of shape"):
        mxspec.dequantize(t.codes, np.repeat(t.scales, 2, axis=1), ROW)
