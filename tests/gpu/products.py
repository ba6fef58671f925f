"""Inputs of products and of stored weights, and what the model says of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import affine
from mxspec.affine import AffineFormat, Offset
from mxspec.elements import decode_table
from mxspec.formats import get_block
from mxspec_gpu.gemv_tunings import SharedMemory

from tests.gpu.arithmetic import DTYPES, pack

Array = npt.NDArray[Any]
BF16 = ml_dtypes.bfloat16

#: Shared memory of compute capability 8.0, and of 8.6, 8.9 and 12.0.
LESS_MEMORY = tuple(SharedMemory(block=most << 10, multiprocessor=most + 1 << 10, system=1 << 10) for most in (163, 99))


def draw_codes(fmt: str, rows: int, k: int, seed: int, *, spread: int = 4, special: bool = False) -> tuple[Array, Array]:
    """Codes [rows, k] and scales [rows, k / block] of any codes. spread: binades of e8m0 scales, around 1; special: some scales
    are NaN, zeros and the largest, and elements may be NaN or infinite; otherwise half of the rows have elements near 1 only."""
    rng = np.random.default_rng(seed)
    block = get_block(fmt)
    codes = rng.integers(0, block.element.code_count, (rows, k), dtype=np.uint8)
    if not special:
        codes = np.where(np.isin(codes, find_specials(fmt)), 1, codes).astype(np.uint8)
        codes[: rows // 2] = rng.choice(find_moderate(fmt), (rows // 2, k))
    shape = rows, k // block.k
    if block.scale.name == "e8m0":
        scales = rng.integers(127 - spread // 2, 128 + spread // 2, shape, dtype=np.uint8)
    else:
        scales = rng.integers(1, 0x7F, shape, dtype=np.uint8)
    if special:
        where = rng.random(shape)
        scales[where < 0.004] = block.scale.nan_code
        scales[(where > 0.01) & (where < 0.05)] = 0
        scales[(where > 0.05) & (where < 0.08)] = block.scale.nan_code - 1
        codes[rng.random(codes.shape) < 0.2] = 0
        codes[: rows // 4] = np.where(np.isin(codes[: rows // 4], find_specials(fmt)), 0, codes[: rows // 4])
        scales[: rows // 4] = np.where(scales[: rows // 4] == block.scale.nan_code, 0, scales[: rows // 4])
    return codes, scales


def find_specials(fmt: str) -> Array:
    """Codes that are no finite numbers."""
    return np.flatnonzero(~np.isfinite(decode_table(get_block(fmt).element))).astype(np.uint8)


def find_moderate(fmt: str) -> Array:
    """Codes of zero and of magnitudes from 1/4 to 8."""
    values = np.abs(decode_table(get_block(fmt).element).astype(np.float64))
    return np.flatnonzero((values == 0) | ((values >= 0.25) & (values <= 8))).astype(np.uint8)


def pack_codes(codes: Array, fmt: str) -> Array:
    """As the kernels take them."""
    return pack(codes, get_block(fmt).element.bits)


def draw_affine(fmt: AffineFormat, rows: int, k: int, seed: int, *, exact: bool = False) -> tuple[Array, Array, Array]:
    """Codes [rows, k], scales and offsets [rows, k / group]: ordinary ones, or (exact) small whole numbers."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 16, (rows, k), dtype=np.uint8)
    shape = rows, k // fmt.group
    dtype = DTYPES[fmt.dtype]
    if exact:
        scales = rng.choice(np.array([0.5, 1.0, -1.0, 2.0]), shape).astype(dtype)
        biases = rng.integers(-8, 9, shape).astype(dtype)
    else:
        scales = (rng.standard_normal(shape) / 64).astype(dtype)
        biases = rng.standard_normal(shape).astype(dtype)
    offsets = biases if fmt.offset is Offset.BIAS else rng.integers(0, 16, shape, dtype=np.uint8)
    return codes, scales, offsets


def every_scale(fmt: AffineFormat, seed: int) -> tuple[Array, Array, Array]:
    """All 65,536 scales of a 16-bit dtype, each with all codes under an offset: any number, or one of the scale's own size,
    where sums cancel and tie. Groups of 16."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[fmt.dtype]
    bits = np.arange(1 << 16, dtype=np.uint16)
    scales = bits.view(dtype)
    codes = np.tile(np.arange(16, dtype=np.uint8), (1 << 16, 1))
    if fmt.offset is Offset.ZERO:
        return codes, scales[:, None], rng.integers(0, 16, (1 << 16, 1), dtype=np.uint8)
    any_bias = rng.permutation(bits).view(dtype).astype(np.float32)
    with np.errstate(all="ignore"):
        near = scales.astype(np.float32) * rng.integers(-15, 16, 1 << 16) * np.float32(1 + 1 / 64)
        biases = np.where(rng.random(1 << 16) < 0.5, any_bias, near).astype(dtype)
    return codes, scales[:, None], biases[:, None]


def expect_affine(codes: Array, scales: Array, offsets: Array, fmt: AffineFormat, contract: str, dtype: str) -> Array:
    """The model's values."""
    with np.errstate(all="ignore"):
        return np.asarray(affine.dequantize(codes, scales, offsets, fmt, dtype=dtype, contract=contract))
