"""Products with a few vectors, and rows of a table by their numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec_gpu import lookup

from tests.gpu.arithmetic import FORMAT_LEVELS, Level, level_id, native_values, rules_of
from tests.gpu.compare import LAYOUTS, gpu_tensor, message_of, normal
from tests.gpu.device import LIBRARIES, SEED, Array, Tally, bits_of, require_gpu, to_gpu, to_host
from tests.gpu.products import LESS_MEMORY

pytestmark = pytest.mark.gpu
require_gpu()

BF16 = ml_dtypes.bfloat16


def draw_weights(fmt: str, n: int, k: int, *, exact: bool, seed: int) -> tuple[Array, Array, Array]:
    """Packed codes, scales, and the weights as float64. exact: multiples of 1/32 up to 6."""
    rng = np.random.default_rng(seed)
    block = mxspec.BLOCKS[fmt]
    codes = rng.integers(0, 256, (n, k // 2), dtype=np.uint8)
    low, high = ((126, 128) if exact else (100, 140)) if fmt == "mxfp4" else ((0x30, 0x39) if exact else (0, 0x7F))
    scales = rng.integers(low, high, (n, k // block.k), dtype=np.uint8)
    both = np.stack([codes & 15, codes >> 4], axis=-1).reshape(n, k)
    values = mxspec.decode(both, "e2m1").astype(np.float64)
    factors = mxspec.decode(scales, block.scale.name).astype(np.float64)
    return codes, scales, values * np.repeat(factors, block.k, axis=1)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_gemv_of_whole_numbers(fmt: str, library: str, tally: Tally) -> None:
    """Sums that no order rounds: below 2**23 of their unit, which the tensor cores keep."""
    for number, (n, k) in enumerate(((1, 32), (16, 128), (40, 160), (1000, 1024), (129, 4096), (4096, 16384), (8200, 512))):
        codes, scales, weights = draw_weights(fmt, n, k, exact=True, seed=number)
        for m in (1, 2, 7, 8, 9, 16, 17, 33, 64) if n * k < 1 << 25 else (1, 2, 9, 64):
            x = np.random.default_rng(SEED + m).integers(-2, 3, (m, k)).astype(BF16)
            want = x.astype(np.float64) @ weights.T
            given = to_gpu(x[0] if m == 1 else x, library)
            for alpha in (1.0, 0.5):
                y = mxspec_gpu.gemv(given, to_gpu(codes, library), to_gpu(scales, library), fmt, alpha=alpha, dtype="float32")
                expected = (want[0] if m == 1 else want) * alpha
                tally.equal(to_host(y), expected.astype(np.float32), f"{fmt} {n} x {k}, {m} vectors, alpha {alpha}")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_gemv_of_any_numbers(fmt: str, tally: Tally) -> None:
    """Within what the sums may round: each of k / 16 steps adds 16 products to a sum and keeps 23 bits below the largest."""
    for n, k in ((256, 4096), (1000, 992)):
        codes, scales, weights = draw_weights(fmt, n, k, exact=False, seed=n)
        arrays = to_gpu(codes), to_gpu(scales)
        x = normal((64, k), "bfloat16", seed=2)
        x = np.where(np.isfinite(x.astype(np.float32)), x, 1).astype(BF16)
        alpha = np.array([0.37], np.float32)
        y = {d: to_host(mxspec_gpu.gemv(to_gpu(x), *arrays, fmt, alpha=to_gpu(alpha), dtype=d)) for d in ("float32", "bfloat16", "float16")}
        products = float(alpha[0]) * (x.astype(np.float64) @ weights.T)
        bound = (k / 16 + 8) * 17 * 2.0**-23 * float(alpha[0]) * (np.abs(x.astype(np.float64)) @ np.abs(weights.T))
        tally.require(bool((np.abs(y["float32"] - products) <= bound).all()), f"{fmt} {n} x {k}: beyond the bound")
        tally.compared += y["float32"].size
        with np.errstate(over="ignore"):
            tally.equal(bits_of(y["bfloat16"]), bits_of(y["float32"].astype(BF16)), f"{fmt} rounded to bfloat16")
            tally.equal(bits_of(y["float16"]), bits_of(y["float32"].astype(np.float16)), f"{fmt} rounded to float16")
        for m in (1, 3, 8, 11, 16, 29, 48):
            part = mxspec_gpu.gemv(to_gpu(x[:m]), *arrays, fmt, alpha=0.37, dtype="float32")
            tally.equal(bits_of(to_host(part)), bits_of(y["float32"][:m]), f"{fmt}: {m} vectors against 64")
        shifted = to_gpu(np.concatenate([np.zeros(1, BF16), x.reshape(-1)]))[1:].reshape(x.shape)
        wide = to_gpu(np.concatenate([codes, codes], axis=1))[:, : k // 2]
        again = mxspec_gpu.gemv(shifted, wide, arrays[1], fmt, alpha=0.37, dtype="float32")
        tally.equal(bits_of(to_host(again)), bits_of(y["float32"]), f"{fmt}: views")
        nans = scales.copy()
        nans[3, 1] = 0xFF if fmt == "mxfp4" else 0x7F
        y_nan = to_host(mxspec_gpu.gemv(to_gpu(x), arrays[0], to_gpu(nans), fmt, dtype="float32"))
        tally.require(bool(np.isnan(y_nan[:, 3]).all() and np.isfinite(np.delete(y_nan, 3, axis=1)).all()), f"{fmt}: NaN scale")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_gemv_in_every_way(fmt: str, tally: Tally) -> None:
    """Bits do not depend on how many rows a block of threads takes, nor on whether scales travel with their codes."""
    n, k = 8200, 1280
    codes, scales, _ = draw_weights(fmt, n, k, exact=False, seed=3)
    x = np.random.default_rng(SEED).standard_normal((64, k)).astype(BF16)
    shifted = to_gpu(np.concatenate([np.zeros(2, np.uint8), scales.reshape(-1)]))[2:].reshape(scales.shape)
    whole = to_host(mxspec_gpu.gemv(to_gpu(x), to_gpu(codes), to_gpu(scales), fmt, dtype="float32"))
    for m in (1, 2, 16, 32, 40, 64):
        away = mxspec_gpu.gemv(to_gpu(x[:m]), to_gpu(codes), shifted, fmt, dtype="float32")
        tally.equal(bits_of(to_host(away)), bits_of(whole[:m]), f"{fmt}: scales elsewhere, {m} vectors")
        for rows in (7, 4100, 8192):
            part = mxspec_gpu.gemv(to_gpu(x[:m]), to_gpu(codes[:rows]), to_gpu(scales[:rows]), fmt, dtype="float32")
            tally.equal(bits_of(to_host(part)), bits_of(whole[:m, :rows]), f"{fmt}: {rows} rows, {m} vectors")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_gemv_on_chips_with_less_shared_memory(fmt: str, monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    """The same bits by several launches."""
    for n, k in ((300, 1024), (8200, 1280)):
        codes, scales, _ = draw_weights(fmt, n, k, exact=False, seed=4)
        x = np.random.default_rng(SEED).standard_normal((64, k)).astype(BF16)
        parts = to_gpu(codes), to_gpu(scales)
        for dtype in ("float32", "bfloat16"):
            whole = to_host(mxspec_gpu.gemv(to_gpu(x), *parts, fmt, dtype=dtype))
            for memory in LESS_MEMORY:
                with monkeypatch.context() as patch:
                    patch.setattr(lookup, "read_shared_memory", lambda device, memory=memory: memory)
                    for m in (1, 8, 16, 17, 48, 49, 64):
                        part = mxspec_gpu.gemv(to_gpu(x[:m]), *parts, fmt, dtype=dtype)
                        tally.equal(bits_of(to_host(part)), bits_of(whole[:m]), f"{fmt} {n} x {k}, {m} vectors, {memory}")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("level", FORMAT_LEVELS, ids=level_id)
def test_embedding(level: Level, library: str, tally: Tally) -> None:
    """The rows of the dequantized table, bit for bit; NaN for rows that it does not have."""
    fmt = rules_of(level).fmt
    rng = np.random.default_rng(SEED)
    native = native_values(rules_of(level))[0]
    tensor = gpu_tensor(level, native)
    table = rng.standard_normal((300, 10 * fmt.k)).astype(np.float32)
    for layout in LAYOUTS:
        q = mxspec_gpu.quantize(to_gpu(table), level[1], profile=level[0], tensor_scale=tensor, scale_layout=layout)
        codes, scales = to_gpu(to_host(q.codes), library), to_gpu(to_host(q.scales), library)
        scale = None if tensor is None else to_gpu(to_host(tensor), library)
        for dtype in ("float32", "float16", "bfloat16"):
            whole = to_host(q.dequantize(dtype))
            for ids in (
                rng.integers(0, 300, (7, 33)),
                rng.integers(0, 300, 1001).astype(np.int32),
                np.array(5),
                np.zeros((0, 3), np.int64),
            ):
                rows = mxspec_gpu.embedding(
                    to_gpu(ids, library), codes, scales, level[1], profile=level[0], tensor_scale=scale, scale_layout=layout,
                    dtype=dtype,
                )  # fmt: skip
                tally.equal(bits_of(to_host(rows)), bits_of(whole[ids]), f"{level_id(level)} {library} {layout} {dtype} {ids.shape}")
            wrong = np.array([0, -1, 300, 299, 1 << 40, -(1 << 63)])
            rows = to_host(
                mxspec_gpu.embedding(
                    to_gpu(wrong, library), codes, scales, level[1], profile=level[0], tensor_scale=scale, scale_layout=layout,
                    dtype=dtype,
                )
            )  # fmt: skip
            tally.equal(bits_of(rows[[0, 3]]), bits_of(whole[[0, 299]]), f"{level_id(level)} beside wrong numbers")
            tally.require(bool(np.isnan(rows[[1, 2, 4, 5]].astype(np.float32)).all()), f"{level_id(level)}: rows that are not there")


def test_wrong_calls(tally: Tally) -> None:
    codes, scales, _ = draw_weights("mxfp4", 64, 128, exact=True, seed=1)
    c, s, x = to_gpu(codes), to_gpu(scales), to_gpu(np.ones((2, 128), BF16))
    ids = to_gpu(np.arange(4))
    gemv, embedding = mxspec_gpu.gemv, mxspec_gpu.embedding
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: gemv(x.astype("float32"), c, s, "mxfp4"), TypeError, "x has dtype float32; pass bfloat16"),
        (lambda: gemv(to_gpu(np.ones((65, 128), BF16)), c, s, "mxfp4"), ValueError, "x has 65 vectors; pass 1 to 64"),
        (lambda: gemv(x[:, :96], c, s, "mxfp4"), ValueError, "do not match; pass codes [N, K / 2]"),
        (lambda: gemv(x, c, s, "mxfp8_e4m3"), ValueError, "gemv takes mxfp4 and nvfp4"),
        (lambda: gemv(x, c, s[:, :2], "mxfp4"), ValueError, "do not match for packed mxfp4"),
        (lambda: gemv(x, c, s, "mxfp4", dtype="int8"), TypeError, "allowed are the names"),
        (lambda: gemv(x, c, s, "mxfp4", alpha=x), ValueError, "alpha has dtype bfloat16"),
        (lambda: gemv(x, c, s, "mxfp4", out=c), ValueError, "out has dtype uint8"),
        (lambda: gemv(x.reshape(2, 1, 128), c, s, "mxfp4"), ValueError, "pass [K] or [M, K]"),
        (lambda: embedding(x, c, s, "mxfp4"), TypeError, "ids have dtype bfloat16; pass int64 or int32"),
        (lambda: embedding(ids, c[None], s[None], "mxfp4"), ValueError, "pass a table"),
        (lambda: embedding(ids, c, s, "nvfp4"), ValueError, "do not match for packed nvfp4"),
        (lambda: embedding(ids, c, s, "mxfp4", out=c), ValueError, "out has dtype uint8"),
    )
    for call, kind, words in calls:
        message = message_of(call, kind)
        tally.require(words in message, message)
