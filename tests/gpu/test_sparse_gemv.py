"""Products of 2:4 sparse weights with a few vectors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec import dot, sparsity

from tests.gpu.arithmetic import pack
from tests.gpu.compare import message_of
from tests.gpu.device import LIBRARIES, SEED, Array, Guarded, Tally, bits_of, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

BF16 = ml_dtypes.bfloat16
#: Legal nibbles.
NIBBLES = np.flatnonzero(~sparsity.find_illegal(np.arange(16, dtype=np.uint8))).astype(np.uint8)


def draw(fmt: str, n: int, k: int, *, exact: bool, seed: int) -> tuple[Array, Array, Array]:
    """Kept codes and nibbles, one to a byte, and scales. exact: weights are multiples of 1/32 up to 6."""
    rng = np.random.default_rng(seed)
    low, high = ((126, 128) if exact else (100, 140)) if fmt == "mxfp4" else ((0x30, 0x39) if exact else (0, 0x7F))
    kept, scales = rng.integers(0, 16, (n, k // 2), dtype=np.uint8), rng.integers(low, high, (n, k // mxspec.BLOCKS[fmt].k), dtype=np.uint8)
    return kept, rng.choice(NIBBLES, (n, k // 4)), scales


def send(parts: tuple[Array, Array, Array], library: str = "cupy") -> tuple[Any, Any, Any]:
    kept, nibbles, scales = parts
    return to_gpu(pack(kept, 4), library), to_gpu(pack(nibbles, 4), library), to_gpu(scales, library)


def dense(parts: tuple[Array, Array, Array], fmt: str) -> Array:
    """The weights."""
    codes = sparsity.decompress(parts[0], parts[1])
    return np.asarray(mxspec.dequantize(codes, parts[2], fmt, dtype=np.float32)).astype(np.float64)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_whole_numbers(fmt: str, library: str, tally: Tally) -> None:
    """Sums that no order rounds: one right answer. The dense product of the same weights has the same bits."""
    for number, (n, k) in enumerate(((1, 64), (16, 128), (40, 192), (1000, 1024), (129, 4096), (31, 4160), (2048, 8192))):
        parts = draw(fmt, n, k, exact=True, seed=number)
        weights = dense(parts, fmt)
        arrays = send(parts, library)
        packed = to_gpu(pack(sparsity.decompress(parts[0], parts[1]), 4), library)
        for m in (1, 2, 7, 8, 9, 16):
            x = np.random.default_rng(SEED + m).integers(-2, 3, (m, k)).astype(BF16)
            want = x.astype(np.float64) @ weights.T
            given = to_gpu(x[0] if m == 1 else x, library)
            for alpha in (1.0, 0.5):
                y = mxspec_gpu.sparse_gemv(given, *arrays, fmt, alpha=alpha, dtype="float32")
                expected = ((want[0] if m == 1 else want) * alpha).astype(np.float32)
                tally.equal(to_host(y), expected, f"{fmt} {n} x {k}, {m} vectors, alpha {alpha} {library}")
            plain = mxspec_gpu.gemv(given, packed, arrays[2], fmt, dtype="float32")
            again = mxspec_gpu.sparse_gemv(given, *arrays, fmt, dtype="float32")
            tally.equal(to_host(again), to_host(plain), f"{fmt} {n} x {k}, {m} vectors: dense")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_every_nibble_at_every_place(fmt: str, tally: Tally) -> None:
    """One-hot vectors read the weights themselves."""
    n, k = 96, 512
    rng = np.random.default_rng(SEED)
    kept, _, scales = draw(fmt, n, k, exact=True, seed=3)
    nibbles = NIBBLES[(np.arange(n)[:, None] + np.arange(k // 4) + rng.integers(0, 6, (1, k // 4))) % 6]
    weights = dense((kept, nibbles, scales), fmt).astype(np.float32)
    arrays = send((kept, nibbles, scales))
    for first in range(0, k, 16):
        x = np.zeros((16, k), BF16)
        x[np.arange(16), first + np.arange(16)] = 1
        got = to_host(mxspec_gpu.sparse_gemv(to_gpu(x), *arrays, fmt, dtype="float32"))
        tally.equal(got, weights[:, first : first + 16].T.copy(), f"{fmt} columns from {first}")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_any_numbers(fmt: str, tally: Tally) -> None:
    """Within the legal interval of float32 sums, as `mxspec check` judges products; infinities across from dropped weights do not
    count; every number of vectors gives the same bits."""
    for n, k in ((256, 4096), (1000, 960)):
        parts = draw(fmt, n, k, exact=False, seed=n)
        arrays = send(parts)
        x = np.random.default_rng(2).standard_normal((16, k)).astype(BF16)
        sums = dot.sum_products(dot.plain_factor(x), dot.sparse_factor(*parts[:2], fmt, parts[2]))
        bound = dot.get_accumulator(dot.DEFAULT_ACCUMULATOR).bound_error(sums)
        y = {d: to_host(mxspec_gpu.sparse_gemv(to_gpu(x), *arrays, fmt, dtype=d)) for d in ("float32", "bfloat16", "float16")}
        error = np.abs(y["float32"].astype(np.float64) - sums.nearest)
        tally.require(bool((error <= bound).all()), f"{fmt} {n} x {k}: beyond the interval")
        tally.compared += error.size
        with np.errstate(over="ignore"):
            tally.equal(bits_of(y["bfloat16"]), bits_of(y["float32"].astype(BF16)), f"{fmt} rounded to bfloat16")
            tally.equal(bits_of(y["float16"]), bits_of(y["float32"].astype(np.float16)), f"{fmt} rounded to float16")
        for m in (1, 3, 8, 11):
            part = mxspec_gpu.sparse_gemv(to_gpu(x[:m]), *arrays, fmt, dtype="float32")
            tally.equal(bits_of(to_host(part)), bits_of(y["float32"][:m]), f"{fmt}: {m} vectors against 16")
        guarded = Guarded((16 * n * 4,))
        out = guarded.arrays[0].view(np.float32).reshape(16, n)
        mxspec_gpu.sparse_gemv(to_gpu(x), *arrays, fmt, dtype="float32", out=out)
        tally.equal(bits_of(to_host(out)), bits_of(y["float32"]), f"{fmt}: again")
        tally.require(guarded.intact(), f"{fmt}: wrote outside its output")
        one = np.zeros((1, k), BF16)
        one[0, 0] = np.inf
        keeps = (parts[1][:, 0] & 3) == 0
        codes = parts[0].copy()
        codes[:, 0] = 2
        got = to_host(mxspec_gpu.sparse_gemv(to_gpu(one), *send((codes, *parts[1:])), fmt, dtype="float32"))[0]
        zero = mxspec.decode(parts[2][:, 0], mxspec.BLOCKS[fmt].scale.name) == 0
        want = np.where(keeps, np.where(zero, np.nan, np.inf), 0).astype(np.float32)
        tally.equal(bits_of(got), bits_of(want), f"{fmt}: an infinity")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_what_is_no_number(fmt: str, tally: Tally) -> None:
    """A NaN scale and an illegal nibble make their row NaN, and no other; every illegal nibble, at every place of a run."""
    n, k = 64, 576
    parts = draw(fmt, n, k, exact=True, seed=5)
    x = np.ones((3, k), BF16)
    plain = to_host(mxspec_gpu.sparse_gemv(to_gpu(x), *send(parts), fmt, dtype="float32"))
    scales = parts[2].copy()
    scales[9, -1] = 0xFF if fmt == "mxfp4" else 0x7F
    got = to_host(mxspec_gpu.sparse_gemv(to_gpu(x), *send((*parts[:2], scales)), fmt, dtype="float32"))
    tally.equal(np.isnan(got), np.broadcast_to(np.arange(n) == 9, got.shape), "NaN scale")
    bad = np.setdiff1d(np.arange(16, dtype=np.uint8), NIBBLES)
    for place in range(k // 4):
        nibbles = parts[1].copy()
        rows = np.arange(bad.size) * 5 + place % 5
        nibbles[rows, place] = bad
        got = to_host(mxspec_gpu.sparse_gemv(to_gpu(x), *send((parts[0], nibbles, parts[2])), fmt, dtype="float32"))
        want = np.isin(np.arange(n), rows)
        tally.equal(np.isnan(got), np.broadcast_to(want, got.shape), f"illegal nibbles at {place}")
        tally.equal(np.where(want, 0, got), np.where(want, 0, plain).astype(np.float32), f"rows beside illegal nibbles at {place}")


def test_wrong_calls(tally: Tally) -> None:
    kept, nibbles, scales = (to_gpu(np.zeros((4, n), np.uint8)) for n in (16, 8, 2))
    x = to_gpu(np.ones((2, 64), BF16))
    call = mxspec_gpu.sparse_gemv
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: call(x, kept, nibbles, scales, "mxfp8_e4m3"), ValueError, "sparse_gemv takes mxfp4 and nvfp4"),
        (lambda: call(x, kept, nibbles[:, :4], scales, "mxfp4"), ValueError, "pass metadata of shape (4, 8)"),
        (lambda: call(x, kept[:, :8], nibbles[:, :4], scales[:, :1], "mxfp4"), ValueError, "K a multiple of 64"),
        (lambda: call(x[:, :32], kept, nibbles, scales, "mxfp4"), ValueError, "do not match"),
        (lambda: call(x.astype("float32"), kept, nibbles, scales, "mxfp4"), TypeError, "pass bfloat16"),
        (lambda: call(x, kept.view("int8"), nibbles, scales, "mxfp4"), TypeError, "all are uint8"),
        (lambda: call(x, kept, nibbles, scales, "mxfp4", out=kept), ValueError, "out has dtype uint8"),
    )
    for wrong, kind, words in calls:
        message = message_of(wrong, kind)
        tally.require(words in message, message)
