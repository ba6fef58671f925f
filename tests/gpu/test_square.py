"""Blocks of 16 x 16 against the model: every profile of nvfp4, ragged, pitched, unaligned and transposed matrices, batches, seeds."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec_gpu

from tests.gpu.arithmetic import (
    DTYPES,
    LEVELS,
    Level,
    level_id,
    native_values,
    random_blocks,
    rules_of,
    sixteen_bit_blocks,
    threshold_blocks,
)
from tests.gpu.compare import LAYOUTS, compare, compare_arrays, expect, gpu_tensor, message_of, normal
from tests.gpu.device import LIBRARIES, SEED, Array, Tally, bits_of, require_gpu, to_gpu, to_host
from tests.test_gpu_arithmetic import counter_bytes

pytestmark = pytest.mark.gpu
require_gpu()

SQUARE = {"block": (16, 16)}
NVFP4 = tuple(level for level in LEVELS if level[1] == "nvfp4")
NORMATIVE = tuple(level for level in NVFP4 if level[0] == "nvfp4-te")
SHAPES: tuple[tuple[int, ...], ...] = (
    (16, 16), (1, 16), (16, 1), (17, 33), (32, 64), (48, 80), (144, 512), (250, 1000), (128, 2064), (2, 32, 64), (3, 2, 16, 33), (1, 1, 7, 64),
)  # fmt: skip


def across(blocks: Array, width: int) -> Array:
    """Blocks [n, 16] as whole tiles, so many beside each other."""
    return blocks[: len(blocks) // (16 * width) * 16 * width].reshape(-1, 16 * width)


@pytest.mark.parametrize("level", NVFP4, ids=level_id)
def test_every_profile(level: Level, tally: Tally) -> None:
    for native in native_values(rules_of(level)):
        for dtype in DTYPES:
            compare(tally, level, across(random_blocks(dtype, 16, 2400, SEED), 5), native, options=SQUARE, label="random")
            if dtype != "float32":
                compare(tally, level, across(sixteen_bit_blocks(dtype, 16), 8), native, options=SQUARE, label="16 bits")
        compare(tally, level, across(threshold_blocks(level, native), 1), native, options=SQUARE, label="thresholds")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", NORMATIVE, ids=level_id)
def test_shapes(level: Level, dtype: str, tally: Tally) -> None:
    native = native_values(rules_of(level))[0]
    for shape in SHAPES:
        x = normal(shape, dtype)
        wide = normal((*shape[:-1], shape[-1] + 24), dtype)
        shifted = to_gpu(np.concatenate([x.reshape(-1)[:1], x.reshape(-1)]))[1:].reshape(shape)
        for layout in LAYOUTS:
            compare(tally, level, x, native, layout, options=SQUARE)
            compare(tally, level, x, native, layout, given=shifted, options=SQUARE, label="off by one element")
            for first in (0, 8, 1):
                host, given = (a[..., first : first + shape[-1]] for a in (wide, to_gpu(wide)))
                compare(tally, level, host, native, layout, given=given, options=SQUARE, label=f"from {first}")
            if len(shape) == 2:
                compare(tally, level, x, native, layout, 0, options=SQUARE)
                compare(tally, level, x[::-1], native, layout, given=to_gpu(x)[::-1], options=SQUARE, label="reversed")
                compare(tally, level, x.T, native, layout, given=to_gpu(x).T, options=SQUARE, label="transposed")


@pytest.mark.parametrize("level", NVFP4, ids=level_id)
def test_stochastic(level: Level, tally: Tally) -> None:
    native = native_values(rules_of(level))[0]
    for dtype in DTYPES:
        blocks = random_blocks(dtype, 16, 1000, SEED)
        x = across(np.where(np.isnan(blocks.astype(np.float32)), 1, blocks).astype(blocks.dtype), 3)
        for seed in (0x0123456789ABCDEF, (1 << 64) - 1):
            words = counter_bytes(seed, x.size).astype(np.uint32).reshape(x.shape)
            want = expect(level, x, native, random_bits=words, sr_bits=8, **SQUARE)
            shifted = to_gpu(np.concatenate([x.reshape(-1)[:1], x.reshape(-1)]))[1:].reshape(x.shape)
            for layout in LAYOUTS:
                for given in (to_gpu(x), shifted):
                    q = mxspec_gpu.quantize(
                        given,
                        level[1],
                        profile=level[0],
                        tensor_scale=gpu_tensor(level, native),
                        seed=seed,
                        scale_layout=layout,
                        block=(16, 16),
                    )
                    compare_arrays(tally, (q.codes, q.scales), want, layout, f"{level_id(level)} {dtype} {layout} seed")


def test_more_rows_than_a_grid_has(tally: Tally) -> None:
    compare(tally, NORMATIVE[0], normal(((65535 + 3) * 16, 16), "bfloat16"), options=SQUARE)


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_and_auto(library: str, tally: Tally) -> None:
    """What comes back has x's shape; the tensor scale is that of rows; a tile's byte is written for each of its rows."""
    x = to_gpu(np.nan_to_num(normal((40, 72), "bfloat16").astype(np.float32), posinf=4).astype(DTYPES["bfloat16"]), library)
    q = mxspec_gpu.quantize(x, "nvfp4", tensor_scale="auto", block=(16, 16), pad=True)
    tally.require(q.shape == (40, 72) and tuple(q.codes.shape) == (48, 40), "shapes")
    scales = to_host(q.scales).reshape(3, 16, 5)
    tally.equal(scales, np.broadcast_to(scales[:, :1], scales.shape).copy(), "a byte for each row")
    whole = mxspec_gpu.dequantize(q.codes, q.scales, "nvfp4", tensor_scale=q.tensor_scale)
    tally.equal(bits_of(to_host(q.dequantize())), bits_of(to_host(whole)[:40, :72].copy()), "values")
    rows = mxspec_gpu.quantize(x, "nvfp4", tensor_scale="auto", pad=True)
    tally.equal(to_host(q.tensor_scale).view("u4"), to_host(rows.tensor_scale).view("u4"), "tensor scale")
    tally.require(not np.array_equal(to_host(rows.scales), to_host(q.scales)[:40]), "other scales than those of rows")


def test_wrong_calls(tally: Tally) -> None:
    x = to_gpu(normal((32, 32), "bfloat16"))
    words = to_gpu(np.zeros((32, 32), np.uint32))
    rht = {"fmt": "nvfp4", "profile": "te-2.14/nvfp4/kernel-rht", "tensor_scale": "auto", "signs": 1}
    for given, options, text in (
        (x, {"fmt": "mxfp4"}, "is not a block shape of mxfp4; allowed are (1, 32)"),
        (x, {"fmt": "nvfp4", "block": 16}, "block = 16 is not a block shape of nvfp4; allowed are (1, 16), (16, 16)"),
        (x[0], {"fmt": "nvfp4"}, "pass a matrix"),
        (x.reshape(2, 16, 32), {"fmt": "nvfp4", "axis": 1}, "pass a matrix, or blocks along the last axis"),
        (x[:20], {"fmt": "nvfp4"}, "k = 20 is not a multiple of the 16-element block of nvfp4; pad axis 0 to 32"),
        (x.reshape(4, 8, 32), {"fmt": "nvfp4", "pad": True}, "k = 8 is not a multiple"),
        (x, {"fmt": "nvfp4", "random_bits": words}, "pass seed"),
        (x, rht, "no transform"),
    ):
        message = message_of(lambda g=given, o=options: mxspec_gpu.quantize(g, **(SQUARE | o)), (ValueError, TypeError))  # type: ignore[misc]
        tally.require(text in message, f"{options}: {message}")
