"""Blind kernels of `quantize` and `dequantize`, with all their options."""
# ruff: noqa: F403, F405

from __future__ import annotations

import threading

import numpy as np

import mxspec
from mxspec import TensorScale

from . import *

MX4, MX8, MX5, MX6, MXI, NV4 = "mxfp4", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxint8", "nvfp4"
DEFAULTS = {"axis": -1, "pad": False, "block": None, "random_bits": None, "scales": None, "tensor_scale": None}
TINY = np.finfo(np.float32).tiny


def quantizer(profile: str, *names: str, kind: str = "decode", sr_bits: int = 32):
    def quantize(x, fmt, **given):
        if given.get("tensor_scale") is not None:
            given["tensor_scale"] = TensorScale(kind, float(given["tensor_scale"]))
        t = mxspec.quantize(x, fmt, profile=profile, **given, **({"sr_bits": sr_bits} if given.get("random_bits") is not None else {}))
        return t.codes, t.scales

    return takes(quantize, "x", "fmt", **{n: DEFAULTS[n] for n in names})


def offer(fmt: str, profile: str, *names: str, kind: str = "decode", calls=(), **declared) -> Offer:
    right = quantizer(profile, *names, kind=kind, sr_bits=declared.get("SR_BITS", 32))
    calls = calls or [ask(draw(5, 128), fmt), ask(draw(33, 256, 2), fmt), as_is(pitched(draw(4, 128)), fmt)]
    return Offer(" ".join(["quantize", fmt, *names]), {"quantize": right}, {"FORMATS": [fmt], "PROFILE": profile, **declared}, calls)


def seeded(x, fmt, seed, change=lambda words: words):
    words = change(np.random.default_rng(seed).integers(0, 1 << 32, np.shape(x), dtype=np.uint32))
    t = mxspec.quantize(x, fmt, profile="mx-floor", random_bits=words)
    return t.codes, t.scales


WORDS = np.random.default_rng(5).integers(0, 1 << 32, (160, 128), dtype=np.uint32)
R, R16 = {"random_bits": WORDS[:5, :64]}, {"random_bits": WORDS[:5, :64] & 0xFFFF}
GIVEN, OTHER = ({"scales": whole(129, 5, 2, seed=s, low=120)} for s in (1, 7))
X, Y = draw(5, 64), draw(5, 64, 2)
Q4, Q8, Q8F, Q5, Q6, QI = map(offer, (MX4, MX8, MX8, MX5, MX6, MXI), ("mx-floor", "mx-rceil", "mx-floor", "mx-ceil", "mx-even", "mx-floor"))
QH = offer(MX4, "mx-floor", DTYPES=["float32", "bfloat16", "float16"])
QN = offer(NV4, "nvfp4-exact", "tensor_scale", TENSOR_SCALE="decode", calls=[ask(X, NV4, tensor_scale=0.01), ask(draw(3, 32), NV4)])
QT = offer(NV4, "nvfp4-te", "tensor_scale", kind="amax", TENSOR_SCALE="amax", calls=[ask(X, NV4, tensor_scale=300.0)])
QX = offer(MX4, "mx-floor", "axis", calls=[ask(draw(64, 5), MX4, axis=0), ask(draw(64, 96), MX4, axis=-2), ask(draw(64, 96), MX4)])
QP = offer(MX8, "mx-floor", "axis", "pad", calls=[ask(draw(5, 40), MX8, pad=True), ask(draw(37, 9), MX8, axis=0, pad=True)])
QB = offer(
    NV4,
    "nvfp4-exact",
    "block",
    "axis",
    "pad",
    calls=[ask(draw(32, 48), NV4, block=(16, 16)), ask(draw(20, 40), NV4, block=(16, 16), pad=True)],
)
QR = offer(MX4, "mx-floor", "random_bits", "axis", calls=[ask(X, MX4, **R), ask(X, MX4)])
Q16 = offer(MX8, "mx-floor", "random_bits", SR_BITS=16, calls=[ask(X, MX8, **R16)])
QS = Offer(
    "quantize mxfp4 seed",
    {"quantize": takes(lambda x, fmt, seed: seeded(x, fmt, seed), "x", "fmt", "seed")},
    {"FORMATS": [MX4], "PROFILE": "mx-floor"},
    [ask(X, MX4, seed=3)],
)
QG = offer(MX4, "mx-floor", "scales", calls=[ask(X, MX4, **GIVEN), ask(X, MX4)])


def rounded(out, x, fmt, change, mask=True) -> None:
    """Write the codes of changed quotients over those of finite numbers, under E8M0 scales."""
    if x.size:
        with np.errstate(all="ignore"):
            q = change(np.asarray(x, np.float32) / mxspec.decode(out[1], "e8m0").repeat(32, 1))
        np.copyto(out[0], mxspec.encode(np.asarray(q, np.float32), mxspec.get_block(fmt).element), where=np.isfinite(q) & mask)


def rescaled(out, x, fmt, mask, scales) -> None:
    """Write other E8M0 scales and the codes under them."""
    if x.size and mask.any():
        np.copyto(out[1], scales, where=mask)
        np.copyto(out[0], mxspec.quantize(x, fmt, profile="mx-floor", scales=out[1]).codes, where=mask.repeat(32, 1))


def blocks(x, k: int = 32):
    return np.asarray(x, np.float32).reshape(len(x), -1, k)


def top(x):
    return np.abs(blocks(x)).max(axis=2)


def scales_of(maxima, fmt, profile="mx-floor"):
    return mxspec.quantize(np.ascontiguousarray(maxima.repeat(32, 1)), fmt, profile=profile).scales


def bfloat(q):
    return np.asarray(q, np.float32).astype(BF16).astype(np.float32)


def finite(x):
    return np.isfinite(blocks(x)).all(axis=2)


def altered(change):
    """Another kernel of MX, whose quotients are changed before they are rounded."""

    def breaker(right):
        def call(x, fmt):
            out = copied(right(x, fmt))
            rounded(out, x, fmt, change)
            return out

        return call

    return breaker


def toward_zero(q):
    return np.where(np.isfinite(q), mxspec.decode(mxspec.encode(np.where(np.isfinite(q), q, 0), "e2m1", rounding="rtz"), "e2m1"), q)


# quantize: sizes.
SIZE.after(
    "q-rest-of-four",
    Q4,
    "rows go in fours; of three left over the last has the scales of the row above",
    ask(put(draw(7, 64), (-1, 1e3)), MX4),
    lambda out, x, fmt: len(x) % 4 == 3 and len(x) > 4 and write(out[1], (-1, out[1][-2])),
)
SIZE.after(
    "q-grid-floor",
    Q8,
    "96 blocks to a thread block, whose number is rounded down: codes of the last blocks are not written",
    ask(draw(50, 64), MX8),
    lambda out, x, fmt: out[1].size > 96 and write(out[0].reshape(-1, 32), (slice(out[1].size // 96 * 96, None), 0)),
)
SIZE.after(
    "q-rows-16-bits",
    Q6,
    "rows are counted in 16 bits: those from 65,536 on stay zero",
    ask(draw(65540, 32), MX6),
    lambda out, x, fmt: write(out[0], (slice(65536, None), 0)),
)
SIZE.after(
    "q-columns-16-bits",
    QI,
    "columns are counted in 16 bits: those from 65,536 on stay zero",
    ask(draw(2, 65568), MXI),
    lambda out, x, fmt: write(out[0], ((..., slice(65536, None)), 0)),
)


def _split(out, x, fmt):
    n = x.shape[1] // 32 if len(x) == 1 else 0
    if n % 2 and n >= 64:
        half = np.abs(blocks(x)[:, :, 16:]).max(axis=2)
        rescaled(out, x, fmt, finite(x) & (half > 1e-30) & (np.arange(n) == n // 2), scales_of(half, fmt, "mx-ceil"))


SIZE.after(
    "q-one-row-split",
    Q5,
    "one row of 64 blocks and more is halved at a lane: of an odd number the middle block sees half of its lanes",
    ask(put(draw(1, 2080), ((0, 1030), 1e4)), MX5),
    _split,
)


def _corner(out, x, fmt):
    rows, n = out[1].shape
    if rows > 128 and n > 4 and rows % 128 and n % 4:
        out[1][-1, -1] = out[1][-1, -2]


SIZE.after(
    "q-corner-tile",
    Q4,
    "where a tile of 128 rows and 4 blocks is broken both ways the last block has the scale before it",
    ask(put(draw(130, 160), ((-1, -1), 1e3)), MX4),
    _corner,
)


def _grid_stride(out, x, fmt):
    if len(x) > 1056:
        before = np.concatenate([np.zeros_like(out[1][:1056]), out[1][:-1056]])
        rescaled(out, x, fmt, (before > out[1]) & (before < 240), before)


SIZE.after(
    "q-grid-stride",
    Q4,
    "1056 thread blocks; one that takes a second row does not reset its maximum",
    ask(put(draw(1060, 32), ((2, 3), 1e8)), MX4),
    _grid_stride,
)
SIZE.after(
    "q-large-tensor",
    Q4,
    "more than 2^21 numbers are taken in waves, of which the last lacks a row",
    ask(draw(2048, 1056), MX4),
    lambda out, x, fmt: x.size > 1 << 21 and write(out[0], (-1, out[0][-2])),
)
SIZE.after(
    "q-decode-rows",
    Q8,
    "of 5 to 7 rows with 4096 numbers and more, those beyond the fourth have the scales of the row four above",
    ask(draw(6, 4096), MX8),
    lambda out, x, fmt: 5 <= len(x) <= 7 and x.shape[1] >= 4096 and write(out[1], (slice(4, None), out[1][: len(x) - 4])),
)
SIZE.after(
    "q-tall-and-narrow",
    Q6,
    "eight times more rows than columns, and no multiple of 8: the last row loses its signs",
    ask(draw(1003, 64), MX6),
    lambda out, x, fmt: len(x) > 8 * x.shape[1] and len(x) % 8 and write(out[0], (-1, out[0][-1] & 31)),
)

# quantize: memory.
MEMORY.row("q-pitch", Q4, "the distance of rows is not looked at", as_is(pitched(X), MX4), misread(dense, 0))
MEMORY.row("q-backwards", Q8, "a negative stride is taken without its sign", as_is(backwards(X), MX8), misread(forwards, 0))
MEMORY.row(
    "q-square-transposed",
    Q6,
    "a square in Fortran's order is read in C's",
    as_is(np.asfortranarray(draw(64, 64)), MX6),
    misread(untransposed, 0),
)
MEMORY.row(
    "q-answers-turn", Q4, "answers lie in four buffers that take turns", held(*(ask(draw(3, 64, s), MX4) for s in range(6))), ring(4)
)


def _head(out, x, fmt):
    lost = -x.ctypes.data % 16 // 4
    if lost and x.size and x.flags.c_contiguous:
        seen = np.where(np.arange(32) < lost, 0, np.abs(blocks(x))).max(axis=2)
        mask = finite(x) & (seen > 1e-30) & put(np.zeros(out[1].shape, bool), ((0, 0), True))
        rescaled(out, x, fmt, mask, scales_of(seen, fmt, "mx-ceil"))


MEMORY.after(
    "q-head-not-seen",
    Q5,
    "numbers before the first address that is a multiple of 16 are not in the maximum",
    as_is(shifted(put(draw(2, 64), ((0, 0), 1e5))), MX5),
    _head,
)


def _flush_input(s, right, x, fmt):
    out = right(x, fmt)
    if x.flags.writeable and x.dtype == np.float32 and x.size >= 1024:
        x[np.abs(x) < TINY] = 0
    return out


MEMORY.around(
    "q-flushes-input",
    Q8,
    "in calls of 1024 numbers and more the caller's subnormal numbers become zero",
    inputs_after(put(draw(32, 64), ((3, 3), 1e-40)), MX8),
    _flush_input,
)


def _constant(right):
    kept = memo(pointer)(right)
    return lambda x, fmt: right(x, fmt) if x.flags.writeable else kept(x, fmt)


def _change_below(f):
    base = X.copy()
    view = base.view()
    view.flags.writeable = False
    f(view, MX4)
    base[...] = Y
    return f(view, MX4)


MEMORY.row("q-read-only-constant", Q4, "what is read-only is taken for a constant, and kept by its address", _change_below, _constant)

# quantize: history.
ONE_OTHER = put(X.copy(), ((2, 40), 77.0))
HISTORY.row("q-kept-by-address", Q4, "answers are kept by address and shape", overwritten((X, MX4), (Y,)), memo(pointer))
HISTORY.row("q-kept-by-61st", Q4, "answers are kept by every 61st byte", overwritten((X, MX4), (ONE_OTHER,)), memo(sampled(61)))
HISTORY.row(
    "q-kept-by-head",
    Q8,
    "answers are kept by the first 4096 bytes",
    then(ask(draw(40, 64), MX8), ask(put(draw(40, 64), ((30, 3), 9.5)), MX8)),
    memo(head(4096)),
)
HISTORY.row("q-kept-by-sum", Q6, "answers are kept by the sum of all bytes", then(ask(X, MX6), ask(X[::-1], MX6)), memo(total))
HISTORY.row(
    "q-tuned-by-shape",
    Q4,
    "from the 21st call of a shape on another kernel cuts",
    then(*[ask(X, MX4)] * 21),
    switch(20, altered(toward_zero), shape_of),
)
HISTORY.row(
    "q-warmed-up", Q8, "after 300 calls quotients are rounded to bfloat16 first", then(*[ask(X, MX8)] * 301), switch(300, altered(bfloat))
)


def _after_refusal(s, right, x, fmt):
    mark, s.mark = getattr(s, "mark", False), True
    out = copied(right(x, fmt))
    s.mark = False
    return (put(out[0], (slice(len(x) - 1, None), 0)), out[1]) if mark and len(x) > 1 else out


HISTORY.around(
    "q-after-refusal",
    Q4,
    "a refused call leaves a mark, and the next one its last row unwritten",
    then(ask(draw(3, 33), MX4), ask(X, MX4)),
    _after_refusal,
)


def _maxima(s, right, x, fmt):
    out, n = copied(right(x, fmt)), x.size // 32
    if n > 1024:
        flat, old, before = out[1].ravel(), s.memo.get(0, np.zeros(0, np.uint8)), np.zeros(n, np.uint8)
        before[1024 : len(old)] = old[1024:n]
        rescaled(out, x, fmt, ((before > flat) & (before < 240)).reshape(out[1].shape), before.reshape(out[1].shape))
        s.memo[0] = out[1].ravel().copy()
    return out


HISTORY.around(
    "q-maxima-not-cleared",
    Q8F,
    "of the workspace of maxima 1024 are cleared; the others go on from the call before",
    then(ask(draw(40, 1024) * 1024, MX8), ask(draw(40, 1024), MX8)),
    _maxima,
)
HISTORY.around(
    "q-jit-by-size",
    QH,
    "the first 16-bit dtype that comes decides how all are read",
    then(ask(X.astype(BF16), MX4), ask(X.astype(np.float16), MX4)),
    lambda s, right, x, fmt: right(np.ascontiguousarray(x).view(s.memo.setdefault(2, x.dtype)) if x.dtype.itemsize == 2 else x, fmt),
)

# quantize: concurrency.
CONCURRENCY.row(
    "q-scratch", Q4, "the input is staged in one buffer for each shape", at_once(ask(X, MX4), ask(Y, MX4)), scratch(lambda a: a.shape)
)
CONCURRENCY.row(
    "q-lock-by-shape",
    Q8,
    "one buffer for all shapes, and a lock for each shape",
    at_once(ask(X, MX8), ask(draw(7, 32), MX8)),
    scratch(lambda a: 0, lambda a: a.shape),
)


def _thread_table(s, right, x, fmt):
    s.first = getattr(s, "first", threading.get_ident())
    out = copied(right(x, fmt))
    if threading.get_ident() != s.first:
        rounded(out, x, fmt, lambda q: np.trunc(q * 64) / 64)
    return out


CONCURRENCY.around(
    "q-thread-table",
    QI,
    "the rounding table is made for the first thread that calls; others cut",
    then(ask(X, MXI), in_thread(ask(X, MXI))),
    _thread_table,
)


# quantize: content.
def _zero_head(out, x, fmt):
    if x.size:
        skipped = ~blocks(x)[:, :, :8].any(axis=2) & finite(x)
        out[1][skipped], out[0].reshape(len(x), -1, 32)[skipped] = 0, 0


CONTENT.after(
    "q-zero-head",
    Q4,
    "a block that begins with eight zeros is taken for one of zeros",
    ask(put(draw(2, 64), ((0, slice(8)), 0)), MX4),
    _zero_head,
)


def _never_positive(out, x, fmt):
    if x.size and x.max() <= 0 and np.isfinite(x).all():
        least = np.abs(blocks(x)).min(axis=2)
        rescaled(out, x, fmt, least > 1e-30, scales_of(least, fmt))


CONTENT.after(
    "q-never-positive",
    Q8F,
    "where nothing is positive the maximum is that of signed numbers, the smallest magnitude",
    ask(-np.abs(X), MX8),
    _never_positive,
)


def _sum_overflows(s, right, x, fmt):
    with np.errstate(all="ignore"):
        huge = np.isfinite(x).all() and not np.isfinite(np.abs(x).sum(dtype=np.float32))
    return right(np.clip(x, -65504, 65504) if huge else x, fmt)


CONTENT.around(
    "q-sum-overflows",
    Q4,
    "whether all is finite is asked of the sum, which overflows; then numbers are clamped as float16's",
    ask(np.full((2, 64), 2e38, np.float32), MX4),
    _sum_overflows,
)


def _ends(out, x, fmt):
    if len(x) > 2 and np.array_equal(x[0], x[-1]):
        out[0][1:-1], out[1][1:-1] = out[0][0], out[1][0]


CONTENT.after(
    "q-ends-are-equal",
    Q6,
    "a tensor whose first and last rows are equal is taken for one row that repeats",
    ask(put(X.copy(), (4, X[0])), MX6),
    _ends,
)


def _whole_numbers(s, right, x, fmt):
    if x.size and np.isfinite(x).all() and (x == np.rint(x)).all() and x.max() <= 127 and x.min() > -(2.0**31):
        x = x.astype(np.int32).astype(np.int8).astype(np.float32)
    return right(x, fmt)


CONTENT.around(
    "q-whole-numbers",
    QI,
    "whole numbers up to 127 go through int8; whether one is below -128 is not asked",
    ask(put(np.arange(64, dtype=np.float32)[None], ((0, 3), -130)), MXI),
    _whole_numbers,
)
CONTENT.around(
    "q-vector-flushes",
    Q5,
    "eight rows and more take vector code, which flushes subnormal numbers",
    ask(put(draw(8, 64), ((3, slice(32)), 5e-39)), MX5),
    lambda s, right, x, fmt: right(np.where(np.abs(x) < TINY, np.float32(0), x) if len(x) >= 8 else x, fmt),
)
CONTENT.after(
    "q-nan-below",
    Q4,
    "a NaN marks the block below its own, too",
    ask(put(X.copy(), ((1, 2), np.nan)), MX4),
    lambda out, x, fmt: x.size and write(out[1][1:], (np.isnan(blocks(x)).any(axis=2)[:-1], 255)),
)


def _lane_31(out, x, fmt):
    if out[1].shape[1] > 32:
        seen = np.abs(blocks(x)[:, :, :31]).max(axis=2)
        rescaled(out, x, fmt, finite(x) & (seen > 1e-30) & (np.arange(out[1].shape[1]) >= 32), scales_of(seen, fmt))


CONTENT.after(
    "q-lane-31",
    Q8F,
    "from block 32 of a row on the maximum does not see the last lane",
    ask(put(draw(1, 1056), ((0, 1055), 1e6)), MX8),
    _lane_31,
)

# quantize: dtypes and arithmetic.
DTYPE.around(
    "q-bfloat-by-half",
    QH,
    "bfloat16 comes by way of float16",
    ask(put(draw(2, 64), ((0, 0), 1e9)).astype(BF16), MX4),
    lambda s, right, x, fmt: right(np.clip(x.astype(np.float32), -65504, 65504).astype(np.float16) if x.dtype == BF16 else x, fmt),
)
DTYPE.around(
    "q-half-subnormals",
    QH,
    "subnormal numbers of float16 are zero",
    ask((X * 2.0**-20).astype(np.float16), MX4),
    lambda s, right, x, fmt: right(np.where(np.abs(x) < np.float16(2**-14), np.float16(0), x) if x.dtype == np.float16 else x, fmt),
)


def _half_maximum(out, x, fmt):
    if x.dtype == np.float16 and x.size:
        rescaled(out, x, fmt, finite(x) & (top(x) > 0), scales_of(bfloat(top(x)), fmt))


DTYPE.after(
    "q-half-maximum",
    QH,
    "the maximum of float16 numbers is rounded to bfloat16",
    ask(put(np.ones((1, 32)), ((0, 0), 1.999)).astype(np.float16), MX4),
    _half_maximum,
)
ARITHMETIC.row(
    "q-int8-half-up",
    QI,
    "int8 by floor(q + 1/2): ties go up",
    ask(put(np.ones((1, 32), np.float32), ((0, 1), 2.5 / 64), ((0, 2), -1.5 / 64)), MXI),
    altered(lambda q: np.floor(q * 64 + np.float32(0.5)) / 64),
)
ARITHMETIC.row(
    "q-quotient-bfloat", Q8, "quotients are rounded to bfloat16 before they are to e4m3", ask(draw(9, 128), MX8), altered(bfloat)
)


def _logarithm(out, x, fmt):
    with np.errstate(all="ignore"):
        power = np.floor((np.log(top(x)) * np.float32(1.44269504)).astype(np.float32)) if x.size else np.zeros(0)
    usable = np.isfinite(power) & (power > -120)
    rescaled(out, x, fmt, usable, np.where(usable, power + 125, 0).astype(np.uint8))


ARITHMETIC.after(
    "q-logarithm",
    Q4,
    "the exponent is the floor of a float32 logarithm: just below some powers of two it is theirs",
    ask(put(draw(1, 32), ((0, 0), np.nextafter(np.float32(2**20), np.float32(0)))), MX4),
    _logarithm,
)
ARITHMETIC.after(
    "q-reciprocal-flushed",
    QI,
    "numbers are multiplied by the scale's reciprocal, which is flushed where it is subnormal",
    ask(np.linspace(1e38, 3e38, 32, dtype=np.float32)[None], MXI),
    lambda out, x, fmt: rounded(out, x, fmt, lambda q: q * 0, (out[1] == 254).repeat(32, 1)),
)


# quantize: NVFP4.
def graded(out, x, tensor_scale, quotient, rule=None) -> None:
    """NVFP4 by other scale codes and other quotients; blocks of zeros and what is not finite stay as they are."""
    if x.size:
        g, k = np.float32(1 if tensor_scale is None else tensor_scale), blocks(x, 16)
        with np.errstate(all="ignore"):
            usable = np.isfinite(k).all(axis=2) & k.any(axis=2) & (out[1] > 0)
            if rule is not None:
                np.copyto(out[1], rule(np.abs(k).max(axis=2).astype(np.float64) / (6 * np.float64(g))), where=usable)
            q = quotient(x.astype(np.float32), mxspec.decode(out[1], "ue4m3").repeat(16, 1), g)
        usable = (usable & (out[1] > 0) & (out[1] < 127)).repeat(16, 1) & np.isfinite(q)
        np.copyto(out[0], mxspec.encode(np.asarray(q, np.float32), "e2m1"), where=usable)


NEAR = (np.float64([[6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5] * 2]) * np.arange(1, 2, 0.125)[:, None] * np.float32(0.7)).astype(np.float32)
ARITHMETIC.after(
    "n-reciprocal",
    QN,
    "numbers are multiplied by a rounded reciprocal",
    ask(NEAR, NV4, tensor_scale=0.7),
    lambda out, x, fmt, tensor_scale=None: graded(out, x, tensor_scale, lambda x, sf, g: x * (np.float32(1) / (sf * g))),
)
ARITHMETIC.after(
    "n-scale-away",
    QN,
    "block scales midway between two codes go up",
    ask(put(np.ones((1, 16), np.float32), ((0, 0), 6 * 1.0625)), NV4),
    lambda out, x, fmt, tensor_scale=None: graded(
        out,
        x,
        tensor_scale,
        lambda x, sf, g: x.astype(np.float64) / (sf.astype(np.float64) * np.float64(g)),
        lambda v: mxspec.encode(np.clip(v, 2**-9, 448).astype(np.float32), "ue4m3", rounding="rna"),
    ),
)
ARITHMETIC.after(
    "n-scale-flushed",
    QN,
    "block scales below 2^-6 are flushed to zero, with their elements",
    ask(draw(2, 32) / 256, NV4),
    lambda out, x, fmt, tensor_scale=None: (
        np.where(out[1].repeat(16, 1) < 8, 0, out[0]).astype(np.uint8),
        np.where(out[1] < 8, 0, out[1]).astype(np.uint8),
    ),
)
HISTORY.around(
    "n-first-tensor-scale",
    QT,
    "the first tensor scale is kept for every call of a shape",
    then(ask(X, NV4, tensor_scale=40.0), ask(X, NV4, tensor_scale=100.0)),
    lambda s, right, x, fmt, tensor_scale=None: right(x, fmt, tensor_scale=s.memo.setdefault(x.shape, tensor_scale)),
)
OPTION.around(
    "n-one-row",
    QT,
    "for one row the tensor scale is left out",
    ask(draw(1, 32), NV4, tensor_scale=100.0),
    lambda s, right, x, fmt, tensor_scale=None: right(x, fmt, tensor_scale=None if len(x) == 1 else tensor_scale),
)
OPTION.around(
    "n-half-tensor-scale",
    QN,
    "more than 16 rows take a kernel that has the tensor scale in bfloat16",
    ask(draw(20, 32), NV4, tensor_scale=0.0123),
    lambda s, right, x, fmt, tensor_scale=None: right(
        x, fmt, tensor_scale=float(bfloat(tensor_scale)) if tensor_scale is not None and len(x) > 16 else tensor_scale
    ),
)
SIZE.after(
    "n-last-of-odd",
    QN,
    "blocks are taken by pairs; of an odd number, three and more, the last has the scale before it",
    ask(draw(3, 80), NV4, tensor_scale=0.1),
    lambda out, x, fmt, tensor_scale=None: out[1].shape[1] % 2 and out[1].shape[1] > 2 and write(out[1], ((..., -1), out[1][:, -2])),
)

# quantize: axis, pad, block.
FIRST = (0, -2)
OPTION.around(
    "x-minus-two",
    QX,
    "a square with axis=-2 is taken along the last: only 0 is the first",
    ask(draw(64, 64), MX4, axis=-2),
    lambda s, right, x, fmt, axis=-1: right(x, fmt, axis=-1 if axis == -2 and x.shape[0] == x.shape[-1] else axis),
)
SIZE.after(
    "x-transpose-tile",
    QX,
    "columns go in tiles of 24; a broken one repeats its first column",
    ask(draw(64, 30), MX4, axis=0),
    lambda out, x, fmt, axis=-1: (
        axis in FIRST and x.shape[-1] > 24 and write(out[0], ((..., slice((n := x.shape[-1] // 24 * 24), None)), out[0][:, n : n + 1]))
    ),
)
SIZE.around(
    "x-many-rows",
    QX,
    "along the first axis rows from 8192 on are read 8192 above",
    ask(draw(8224, 2), MX4, axis=0),
    lambda s, right, x, fmt, axis=-1: right(x[np.arange(len(x)) % 8192] if axis in FIRST else x, fmt, axis=axis),
)


def _edge(s, right, x, fmt, axis=-1, pad=False):
    lack = -x.shape[axis] % 32
    x = np.pad(x, [(0, lack), (0, 0)] if axis in FIRST else [(0, 0), (0, lack)], mode="edge") if pad and x.size and lack else x
    return right(x, fmt, axis=axis, pad=pad)


OPTION.around("p-pads-with-last", QP, "a ragged end is filled with its last number", ask(draw(3, 40), MX8, pad=True), _edge)


def _stale(s, right, x, fmt, axis=-1, pad=False):
    if not pad or axis in FIRST or not x.size:
        return right(x, fmt, axis=axis, pad=pad)
    old, wide = s.memo.get(len(x), x[:, :0]), -(-x.shape[1] // 32) * 32
    room = np.zeros((len(x), max(wide, old.shape[1])), np.float32)
    s.memo[len(x)] = put(room, ((..., slice(old.shape[1])), old), ((..., slice(x.shape[1])), x))
    return right(room[:, :wide], fmt)


HISTORY.around(
    "p-stale-padding",
    QP,
    "behind a ragged end lies what a longer call of as many rows left",
    then(ask(draw(3, 64) * 99, MX8, pad=True), ask(draw(3, 40), MX8, pad=True)),
    _stale,
)
SIZE.around(
    "p-short-mask",
    QP,
    "of a row shorter than 8 the last number is masked out",
    ask(draw(2, 7), MX8, pad=True),
    lambda s, right, x, fmt, axis=-1, pad=False: right(
        put(x.copy(), ((..., -1), 0)) if pad and axis not in FIRST and 1 < x.shape[1] < 8 else x, fmt, axis=axis, pad=pad
    ),
)
OPTION.after(
    "p-columns-of-last",
    QP,
    "with pad along the first axis the broken rows of blocks have the scales above, if there are three",
    ask(draw(70, 4), MX8, axis=0, pad=True),
    lambda out, x, fmt, axis=-1, pad=False: (
        pad and axis in FIRST and x.shape[0] % 32 and len(out[1]) > 2 and write(out[1], (-1, out[1][-2]))
    ),
)


def _half_tile(s, right, x, fmt, block=None, axis=-1, pad=False):
    if block == (16, 16) and len(x) % 32 == 16 and len(x) > 16 and axis not in FIRST and x.shape[1] % 16 == 0 and np.isfinite(x).all():
        seen = np.abs(x[-16:-8]).reshape(8, -1, 16).max(axis=(0, 2)).repeat(16)
        x = np.concatenate([x[:-8], np.clip(x[-8:], -seen, seen)])
    return right(x, fmt, block=block, axis=axis, pad=pad)


SIZE.around(
    "b-half-a-tile",
    QB,
    "of the last of an odd number of tile rows eight rows are seen, and others clamped to them",
    ask(put(draw(48, 32), ((45, 3), 400)), NV4, block=(16, 16)),
    _half_tile,
)
OPTION.around(
    "b-axis-ignored",
    QB,
    "with block the axis of a square is not looked at",
    ask(draw(32, 32), NV4, block=(16, 16), axis=0),
    lambda s, right, x, fmt, block=None, axis=-1, pad=False: right(
        x, fmt, block=block, axis=-1 if block and x.shape[0] == x.shape[-1] else axis, pad=pad
    ),
)
SIZE.after(
    "b-rows-of-a-tile",
    QB,
    "more than 64 rows: the last rows of the fifth tile keep the scales of the one above",
    ask(draw(80, 32), NV4, block=(16, 16)),
    lambda out, x, fmt, block=None, axis=-1, pad=False: (
        block == (16, 16) and len(out[1]) > 64 and axis not in FIRST and write(out[1], (slice(72, 80), out[1][56:64]))
    ),
)
OPTION.around(
    "b-short-rows",
    QB,
    "with pad and block fewer than eight rows are not tiled: each has scales of its own",
    ask(draw(5, 32), NV4, block=(16, 16), pad=True),
    lambda s, right, x, fmt, block=None, axis=-1, pad=False: (
        right(np.pad(x, [(0, 16 - len(x)), (0, 0)]), fmt, pad=True)
        if block == (16, 16) and pad and len(x) < 8 and axis not in FIRST and x.size
        else right(x, fmt, block=block, axis=axis, pad=pad)
    ),
)


# quantize: random words, seeds, given scales.
def words(change):
    """random_bits as `change(words, x)` has them."""
    return lambda s, right, x, fmt, random_bits=None, **options: right(
        x, fmt, random_bits=None if random_bits is None else change(random_bits, x), **options
    )


ARITHMETIC.around(
    "r-upper-byte",
    Q16,
    "of 16 random bits the upper eight are used",
    ask(draw(50, 64), MX8, random_bits=WORDS[:50, :64] & 0xFFFF),
    words(lambda w, x: w & 0xFF00),
)
MEMORY.around(
    "r-words-dense",
    QR,
    "the distance of rows of words is not looked at",
    as_is(X, MX4, random_bits=pitched(WORDS[:5, :64])),
    words(lambda w, x: dense(w)),
)
SIZE.around(
    "r-half-of-words",
    QR,
    "rows of 128 and more: lanes 16 to 31 have the words of lanes 0 to 15",
    ask(draw(5, 128), MX4, random_bits=WORDS[:5]),
    words(lambda w, x: w[:, np.arange(w.shape[1]) & ~16] if w.ndim == 2 and w.shape[1] >= 128 and w.shape[1] % 32 == 0 else w),
)
SIZE.around(
    "r-words-turn",
    QR,
    "rows from 128 on have the words of the rows 128 above",
    ask(draw(160, 32), MX4, random_bits=WORDS[:, :32]),
    words(lambda w, x: w[np.arange(len(w)) % 128]),
)
ARITHMETIC.around(
    "r-negative-down",
    QR,
    "negative numbers go by the inverted word",
    ask(X, MX4, **R),
    words(lambda w, x: np.where(np.signbit(x), ~w, w) if w.shape == x.shape else w),
)
OPTION.around(
    "r-axis-words",
    QR,
    "along the first axis words are taken in the order of columns",
    ask(draw(64, 5), MX4, random_bits=WORDS[:64, :5], axis=0),
    lambda s, right, x, fmt, random_bits=None, axis=-1: right(
        x,
        fmt,
        axis=axis,
        random_bits=np.ascontiguousarray(random_bits).reshape(x.shape[::-1]).T
        if random_bits is not None and axis in FIRST and random_bits.shape == x.shape
        else random_bits,
    ),
)
HISTORY.around(
    "r-words-kept",
    QR,
    "words are uploaded once for each address",
    lambda f: overwritten((X, WORDS[:5, :64]), (X, WORDS[5:10, :64]))(lambda x, w: f(x, MX4, random_bits=w)),
    lambda s, right, x, fmt, random_bits=None, **o: right(
        x,
        fmt,
        random_bits=None if random_bits is None else s.memo.setdefault((pointer(random_bits), random_bits.shape), random_bits.copy()),
        **o,
    ),
)
FLAT = put(np.full((512, 64), 1 + 1 / 64, np.float32), ((..., [0, 32]), 4))


def by_seed(change):
    return lambda s, right, x, fmt, seed: right(x, fmt, change(seed))


def by_words(change):
    return lambda s, right, x, fmt, seed: seeded(x, fmt, seed, lambda w: change(w, s))


def repeats(*given: int):
    """Whether the seeds give the same codes."""
    return lambda f: len({f(draw(9, 64), MX4, seed=seed)[0].tobytes() for seed in given}) == 1


def _count(w, s):
    s.count += 1
    return w if s.count <= 200 else w ^ np.uint32(s.count * 0x9E3779B9 % (1 << 32))


OPTION.around("s-seed-byte", QS, "of the seed the low byte is used", repeats(1, 257), by_seed(lambda seed: seed & 255))
OPTION.around("s-seed-zero", QS, "seed 0 is taken for none, and none is 1", repeats(0, 1), by_seed(lambda seed: seed or 1))
CONTENT.around(
    "s-rows-alike",
    QS,
    "every row has the same random words",
    lambda f: bool(np.ptp(f(FLAT, MX4, seed=3)[0], axis=0).max() == 0),
    by_words(lambda w, s: np.broadcast_to(w[:1], w.shape)),
)
CONTENT.around(
    "s-pairs-alike",
    QS,
    "two neighbours share a word",
    lambda f: bool((np.diff(f(FLAT, MX4, seed=3)[0][:, 2:32].reshape(-1, 2).astype(int)) == 0).all()),
    by_words(lambda w, s: w[:, np.arange(w.shape[1]) & ~1] if w.ndim == 2 else w),
)
ARITHMETIC.around(
    "s-four-bits",
    QS,
    "four random bits: what lies less than 1/16 of a step above a code never goes up",
    lambda f: bool((f(FLAT, MX4, seed=3)[0][:, 1:32] == 2).all()),
    by_words(lambda w, s: w & 0xF0000000),
)
HISTORY.around(
    "s-counter-goes-on",
    QS,
    "after 200 calls their number enters the words, and a seed does not give its codes again",
    repeats(*[3] * 205),
    by_words(_count),
)


def _zero_is_none(s, right, x, fmt, scales=None):
    fits = scales is not None and x.size and scales.shape == (len(x), x.shape[1] // 32)
    return right(x, fmt, scales=np.where(scales == 0, right(x, fmt)[1], scales).astype(np.uint8) if fits else scales)


OPTION.around(
    "g-zero-is-none", QG, "a given scale of 00 is taken for none", ask(X * np.float32(1e-38), MX4, scales=whole(2, 5, 2)), _zero_is_none
)


def _codes_of_own(out, x, fmt, scales=None):
    if scales is not None and x.size:
        own = mxspec.quantize(x, fmt, profile="mx-floor")
        np.copyto(out[0], own.codes, where=((own.scales > out[1] + 1.0) & (own.scales < 240)).repeat(32, 1))


OPTION.after(
    "g-codes-of-own",
    QG,
    "given scales come back; where numbers lie beyond them the codes are those of the kernel's own scale",
    ask(X * 64, MX4, **GIVEN),
    _codes_of_own,
)
SIZE.around(
    "g-rows-turn",
    QG,
    "given scales of rows from 48 on are read 48 rows above",
    ask(draw(60, 64), MX4, scales=whole(129, 60, 2, low=120)),
    lambda s, right, x, fmt, scales=None: (
        right(x, fmt) if scales is None else (right(x, fmt, scales=scales[np.arange(len(scales)) % 48])[0], scales.copy())
    ),
)
HISTORY.around(
    "g-first-is-kept",
    QG,
    "static scales are taken from the first call of a shape",
    then(ask(X, MX4, **GIVEN), ask(X, MX4, **OTHER)),
    lambda s, right, x, fmt, scales=None: right(
        x, fmt, scales=scales if scales is None else s.memo.setdefault((x.shape, scales.shape), scales.copy())
    ),
)
MEMORY.row(
    "g-scales-dense",
    QG,
    "the distance of rows of given scales is not looked at",
    as_is(X, MX4, scales=pitched(GIVEN["scales"])),
    misread(dense, "scales"),
)


# dequantize.
def decoding(fmt: str, *names: str, profile: str | None = None, **declared) -> Offer:
    def dequantize(codes, scales, fmt, tensor_scale=None):
        scale = None if tensor_scale is None else TensorScale("decode", float(tensor_scale))
        return mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=scale)

    calls = [ask(whole(16, 5, 64), whole(30, 5, 64 // (16 if fmt == NV4 else 32), low=20), fmt)]
    right = takes(dequantize, "codes", "scales", "fmt", **{n: DEFAULTS[n] for n in names})
    return Offer(f"dequantize {fmt}", {"dequantize": right}, {"FORMATS": [fmt], **declared}, calls)


D4, D8, D5, DI = map(decoding, (MX4, MX8, MX5, MXI))
DN = decoding(NV4, "tensor_scale", profile="nvfp4-exact", PROFILE="nvfp4-exact", TENSOR_SCALE="decode")
C, S, SN = whole(16, 20, 128), whole(129, 20, 4, low=120), whole(99, 20, 8)


def _odd_tail(out, codes, scales, fmt):
    if len(codes) % 2 and len(codes) > 4 and scales.shape[1] % 2 and scales.shape[1] > 4 and scales[-1, -1] < 240:
        out[-1, -32:] = codes[-1, -32:] / np.float32(64) * mxspec.decode(scales[-1:, -1:], "e8m0")[0]


def _two_roundings(out, codes, scales, fmt, tensor_scale=None):
    if tensor_scale is not None:
        with np.errstate(all="ignore"):
            out[...] = mxspec.decode(codes, "e2m1") * (mxspec.decode(scales, "ue4m3") * np.float32(tensor_scale)).repeat(16, 1)


def _last_scale(s, right, codes, scales, fmt, tensor_scale=None):
    s.last = getattr(s, "last", None) if tensor_scale is None else tensor_scale
    return right(codes, scales, fmt, tensor_scale=s.last)


SIZE.after(
    "d-zero-scale",
    D4,
    "16 rows and more take vector code, in which the scale byte 00 is zero",
    ask(C, S * 0, MX4),
    lambda out, codes, scales, fmt: len(codes) >= 16 and write(out, ((scales == 0).repeat(32, 1), 0)),
)
ARITHMETIC.after(
    "d-infinite-scale",
    D8,
    "the scale byte FF is 2^128",
    ask(C, S * 0 + np.uint8(255), MX8),
    lambda out, codes, scales, fmt: np.where((scales == 255).repeat(32, 1), np.where(codes & 127, np.float32(np.inf), np.float32(0)), out),
)
CONTENT.after(
    "d-pair-table",
    D4,
    "two codes are looked up at once in a table that is wrong for F before 8",
    ask(put(C.copy(), ((0, slice(2)), [15, 8])), S, MX4),
    lambda out, codes, scales, fmt: (
        codes.size and write(out[:, 1::2], ((codes[:, ::2] == 15) & (codes[:, 1::2] == 8) & (scales.repeat(16, 1) < 255), 1))
    ),
)
SIZE.after(
    "d-odd-tail",
    DI,
    "the last block is read unsigned where blocks and rows are odd and more than four",
    ask(whole(255, 5, 160), whole(129, 5, 5, low=120), MXI),
    _odd_tail,
)
HISTORY.row(
    "d-kept-by-codes",
    D8,
    "answers are kept by the codes; the scales do not count",
    then(ask(C, S, MX8), ask(C, S + np.uint8(1), MX8)),
    memo(first_only),
)
MEMORY.row(
    "d-answers-turn",
    D4,
    "answers of 4 KiB and more lie in three buffers that take turns",
    held(*(ask(C, S + np.uint8(i), MX4) for i in range(5))),
    ring(3, 4096),
)
MEMORY.row("d-scales-dense", D5, "the distance of rows of scales is not looked at", as_is(C, pitched(S), MX5), misread(dense, 1))
SIZE.after(
    "d-vector-flushes",
    D8,
    "rows of 128 and more take vector code, which flushes subnormal results",
    ask(C, S * 0 + np.uint8(1), MX8),
    lambda out, codes, scales, fmt: np.where(np.abs(out) < TINY, np.float32(0), out) if codes.shape[1] >= 128 else None,
)
ARITHMETIC.after(
    "d-two-roundings", DN, "block and tensor scale are multiplied first, and rounded", ask(C, SN, NV4, tensor_scale=0.7), _two_roundings
)
HISTORY.around(
    "d-last-tensor-scale",
    DN,
    "where no tensor scale is given that of the call before counts",
    then(ask(C, SN, NV4, tensor_scale=2.0), ask(C, SN, NV4)),
    _last_scale,
)
SIZE.after(
    "d-rows-grid",
    D4,
    "more than 4096 rows go by two, and the last of an odd number is not written",
    ask(whole(16, 4099, 32), whole(200, 4099, 1), MX4),
    lambda out, codes, scales, fmt: len(codes) > 4096 and len(codes) % 2 and write(out, (-1, 0)),
)

# quantize and dequantize: an option that one way of calling leaves out.
ONE = {"random_bits": WORDS[:1, :64]}
D16 = {"DTYPES": ["float32", "bfloat16"]}
OPTION.around(
    "n-half-precision",
    offer(NV4, "nvfp4-exact", "tensor_scale", TENSOR_SCALE="decode", **D16),
    "for bfloat16 the tensor scale is left out",
    ask(X.astype(BF16), NV4, tensor_scale=0.1),
    forgets("tensor_scale", lambda x, fmt: x.dtype == BF16),
)
OPTION.around(
    "n-long-rows",
    QN,
    "rows from 8192 numbers on: the tensor scale is left out",
    ask(draw(2, 8192), NV4, tensor_scale=0.1),
    forgets("tensor_scale", lambda x, fmt: x.shape[1] >= 8192),
)
OPTION.around(
    "n-strided",
    QN,
    "for strided input the tensor scale is left out",
    as_is(pitched(X), NV4, tensor_scale=0.1),
    forgets("tensor_scale", lambda x, fmt: not x.flags.c_contiguous),
)
OPTION.around(
    "d-one-row",
    DN,
    "for one row the tensor scale is left out",
    ask(C[:1], SN[:1], NV4, tensor_scale=0.1),
    forgets("tensor_scale", lambda c, s, fmt: len(c) == 1),
)
OPTION.around(
    "d-many-rows",
    DN,
    "more than 64 rows: the tensor scale is left out",
    ask(whole(16, 70, 32), whole(99, 70, 2), NV4, tensor_scale=0.1),
    forgets("tensor_scale", lambda c, s, fmt: len(c) > 64),
)
OPTION.around(
    "r-one-row",
    QR,
    "one row is rounded to nearest, random words or not",
    ask(X[:1], MX4, **ONE),
    forgets("random_bits", lambda x, fmt: len(x) == 1),
)
OPTION.around(
    "r-half-precision",
    offer(MX4, "mx-floor", "random_bits", **D16),
    "bfloat16 is rounded to nearest, random words or not",
    ask(X.astype(BF16), MX4, **R),
    forgets("random_bits", lambda x, fmt: x.dtype == BF16),
)
OPTION.around(
    "g-one-row",
    QG,
    "for one row given scales are not looked at",
    ask(X[:1], MX4, scales=GIVEN["scales"][:1]),
    forgets("scales", lambda x, fmt: len(x) == 1),
)
OPTION.around(
    "g-half-precision",
    offer(MX4, "mx-floor", "scales", **D16),
    "for bfloat16 given scales are not looked at",
    ask(X.astype(BF16), MX4, **GIVEN),
    forgets("scales", lambda x, fmt: x.dtype == BF16),
)
OPTION.around(
    "g-long-rows",
    QG,
    "rows from 4096 numbers on: given scales are not looked at",
    ask(draw(1, 4096), MX4, scales=whole(129, 1, 128, low=120)),
    forgets("scales", lambda x, fmt: x.shape[1] >= 4096),
)
OPTION.around(
    "r-long-rows",
    QR,
    "rows from 4096 numbers on are rounded to nearest, random words or not",
    ask(draw(2, 4096), MX4, random_bits=WORDS[:64].reshape(2, 4096)),
    forgets("random_bits", lambda x, fmt: x.shape[1] >= 4096),
)
CONTENT.around(
    "g-nan-scale",
    QG,
    "a given scale of FF comes back as FE",
    ask(X, MX4, scales=GIVEN["scales"] | np.uint8(255)),
    lambda s, right, x, fmt, scales=None: right(x, fmt, scales=scales if scales is None else np.minimum(scales, 254).astype(scales.dtype)),
)
OPTION.around(
    "g-strided",
    QG,
    "for strided input given scales are not looked at",
    as_is(pitched(X), MX4, **GIVEN),
    forgets("scales", lambda x, fmt: not x.flags.c_contiguous),
)

# Right kernels.
ODD.row("ok-scratch-locked", Q4, "one buffer and one lock for all calls", None, scratch(lambda a: 0, lambda a: 0))
ODD.row("ok-scratch-of-thread", Q8, "a buffer for each thread", None, scratch(lambda a: threading.get_ident()))
ODD.row("ok-kept-by-all", Q4, "answers are kept by all that they depend on", None, memo(whole_bytes))
ODD.row("ok-words-kept-by-all", QR, "answers are kept by all that they depend on, words and axis too", None, memo(whole_bytes))
ODD.row(
    "ok-switches",
    Q6,
    "after 20 calls the same answers come from another kernel",
    None,
    switch(20, lambda right: lambda x, fmt: right(np.array(x, order="F"), fmt)),
)
Q8F.odd(
    "ok-by-seven-rows",
    "seven rows at a time",
    lambda s, right, x, fmt: (
        tuple(map(np.concatenate, zip(*(right(x[i : i + 7], fmt) for i in range(0, len(x), 7)), strict=True))) if len(x) else right(x, fmt)
    ),
)
Q4.odd("ok-fortran-answers", "answers lie in Fortran's order", lambda s, right, x, fmt: tuple(map(np.asfortranarray, right(x, fmt))))
Q5.odd("ok-pitched-answers", "rows of answers lie apart", lambda s, right, x, fmt: tuple(map(pitched, right(x, fmt))))
Q4.odd("ok-backward-answers", "answers have strides below zero", lambda s, right, x, fmt: tuple(backwards(part) for part in right(x, fmt)))
QI.odd(
    "ok-memoryviews",
    "answers are memory views",
    lambda s, right, x, fmt: tuple(map(memoryview, right(x, fmt))),
    lambda f: tuple(map(np.asarray, f(X, MXI))),
)
Q4.odd("ok-list-of-answers", "a list instead of a tuple", lambda s, right, x, fmt: list(right(x, fmt)))
Q4.odd(
    "ok-no-strides",
    "refuses what is not contiguous",
    lambda s, right, x, fmt: right(x, fmt) if x.flags.c_contiguous else refuse(),
    ask(X, MX4),
)
Q8.odd("ok-up-to-500-rows", "refuses more than 500 rows", lambda s, right, x, fmt: right(x, fmt) if len(x) <= 500 else refuse())
Q6.odd(
    "ok-up-to-4096-numbers",
    "refuses rows beyond 4096 numbers, as a RuntimeError",
    lambda s, right, x, fmt: right(x, fmt) if x.shape[1] <= 4096 else refuse(RuntimeError),
)
Q4.odd("ok-finite-only", "refuses NaN and infinities", lambda s, right, x, fmt: right(x, fmt) if np.isfinite(x).all() else refuse())
Q4.odd(
    "ok-one-thread",
    "refuses all calls from other threads",
    lambda s, right, x, fmt: right(x, fmt) if threading.get_ident() == s.home else refuse(RuntimeError),
)
Q4.odd("ok-no-empty", "refuses what holds nothing", lambda s, right, x, fmt: right(x, fmt) if x.size else refuse(AssertionError))
Q8.odd(
    "ok-any-float",
    "float64 is rounded to the nearest float32",
    lambda s, right, x, fmt: right(np.asarray(x, np.float32) if x.dtype.kind == "f" else x, fmt),
)
Q4.odd(
    "ok-pads-always",
    "a ragged end is answered as if zeros followed",
    lambda s, right, x, fmt: right(np.pad(x, [(0, 0), (0, -x.shape[1] % 32)]), fmt),
)
Q4.odd(
    "ok-no-negative-zero",
    "negative zeros become positive ones",
    lambda s, right, x, fmt: (np.where((o := right(x, fmt))[0] == 8, 0, o[0]).astype(np.uint8), o[1]),
    lambda f: mxspec.dequantize(*f(X, MX4), MX4),
)
Q8.odd(
    "ok-zero-block-one",
    "blocks of zeros have the scale 1",
    lambda s, right, x, fmt: ((o := right(x, fmt))[0], np.where(blocks(x).any(axis=2) | (x.shape[1] == 0), o[1], 127).astype(np.uint8)),
)
Q4.odd(
    "ok-nan-codes",
    "under FF every code is 5",
    lambda s, right, x, fmt: (np.where((o := right(x, fmt))[1].repeat(32, 1) == 255, 5, o[0]).astype(np.uint8), o[1]),
)
QI.odd(
    "ok-infinity-is-nan",
    "a block with an infinity has the scale FF",
    lambda s, right, x, fmt: right(np.where(np.isinf(x), np.float32(np.nan), x), fmt),
)
Q4.odd(
    "ok-lowest-126",
    "no scale is below 2^-126, but of zeros",
    lambda s, right, x, fmt: (
        (o := copied(right(x, fmt)), rescaled(o, x, fmt, (o[1] == 0) & blocks(x).any(axis=2), np.uint8(1)))[0] if x.size else right(x, fmt)
    ),
)
Q5.odd(
    "ok-lowest-flushed",
    "blocks whose scale would be 2^-127 are zeros",
    lambda s, right, x, fmt: (np.where((o := right(x, fmt))[1].repeat(32, 1) == 0, 0, o[0]).astype(np.uint8), o[1]),
)
QI.odd(
    "ok-minus-two",
    "int8 uses its code for -2",
    lambda s, right, x, fmt: (
        o := copied(right(x, fmt)),
        x.size
        and write(
            o[0], ((np.asarray(x, np.float32) / mxspec.decode(o[1], "e8m0").repeat(32, 1) < -127.5 / 64) & (o[1].repeat(32, 1) < 254), 0x80)
        ),
    )[0],
    ask(np.abs(X), MXI),
)
Q8F.odd(
    "ok-nan-lane",
    "a NaN is a NaN code among zeros' neighbours, under the scale of the others",
    lambda s, right, x, fmt: (
        (o := right(np.where(np.isnan(x), np.float32(0), x), fmt))[0] | np.where(np.isnan(x), 127, 0).astype(np.uint8),
        o[1],
    ),
)
offer(MX4, "mx-floor", "random_bits", SR_RULE="below", calls=[ask(X, MX4)]).odd(
    "ok-other-words", "rounds up where the word is below the fraction", words(lambda w, x: ~w)
)
QR.odd(
    "ok-words-of-finite",
    "random rounding refuses what is not finite",
    lambda s, right, x, fmt, random_bits=None, axis=-1: (
        right(x, fmt, random_bits=random_bits, axis=axis) if random_bits is None or np.isfinite(x).all() else refuse()
    ),
)
QS.odd("ok-eight-bit-generator", "a generator of eight bits", by_words(lambda w, s: w & 0xFF000000), lambda f: f(X, MX4, seed=3)[1])
QG.odd(
    "ok-scales-are-numbers",
    "refuses a given scale of FF",
    lambda s, right, x, fmt, scales=None: refuse() if scales is not None and (scales == 255).any() else right(x, fmt, scales=scales),
)
QN.odd(
    "ok-zeros-have-one",
    "NVFP4 blocks of zeros have the scale 1",
    lambda s, right, x, fmt, tensor_scale=None: (
        (o := right(x, fmt, tensor_scale=tensor_scale))[0],
        np.where(blocks(x, 16).any(axis=2), o[1], 56).astype(np.uint8) if x.size else o[1],
    ),
)
QX.odd(
    "ok-columns-by-copy",
    "the first axis is the last one of a copy",
    lambda s, right, x, fmt, axis=-1: (
        tuple(part.T for part in right(np.ascontiguousarray(x.T), fmt)) if axis in FIRST and x.ndim == 2 else right(x, fmt, axis=axis)
    ),
)
Q4.odd(
    "ok-tiles-only",
    "takes 16 rows by 128 numbers alone",
    lambda s, right, x, fmt: right(x, fmt) if len(x) % 16 == 0 and x.shape[1] % 128 == 0 else refuse(),
    ask(draw(32, 256), MX4),
    SHAPES={"rows": 16, "k": 128},
)
Q4.odd(
    "ok-own-layout",
    "codes with the first in the high nibble, scales in tiles",
    lambda s, right, x, fmt: (
        mxspec.layouts.pack((o := right(x, fmt))[0], "nibble-high").reshape(len(x), -1) if x.size else refuse(),
        mxspec.layouts.pack(o[1], "128x4-zeroed"),
    ),
    lambda f: mxspec.layouts.unpack(
        mxspec.layouts.pack(o[0], "nibble-high") if (o := f(X, MX4))[0].shape == X.shape else o[0], "nibble-high", X.shape
    ),
    LAYOUT=["nibble-high", "128x4-zeroed"],
)
D4.odd(
    "ok-bfloat-values",
    "values are bfloat16, which holds them all",
    lambda s, right, codes, scales, fmt: right(codes, scales, fmt).astype(BF16),
    lambda f: f(C, S, MX4).astype(np.float32),
)
D8.odd(
    "ok-no-nan-scale",
    "refuses a scale that is NaN",
    lambda s, right, codes, scales, fmt: right(codes, scales, fmt) if (scales < 255).all() else refuse(),
)
D5.odd(
    "ok-other-nan",
    "NaN is negative and has a payload",
    lambda s, right, codes, scales, fmt: np.where(np.isnan(o := right(codes, scales, fmt)), np.uint32(0xFFF01234).view(np.float32), o),
)
DI.odd(
    "ok-float-products",
    "in float64, rounded once",
    lambda s, right, codes, scales, fmt: (
        (codes.view(np.int8) / 64.0 * mxspec.decode(scales, "e8m0").astype(np.float64).repeat(32, 1)).astype(np.float32)
        if codes.dtype == scales.dtype == np.uint8 and codes.ndim == 2 and scales.shape == (len(codes), codes.shape[1] / 32)
        else refuse()
    ),
)
DN.odd(
    "ok-decodes-by-rows",
    "one row at a time, from the last one",
    lambda s, right, codes, scales, fmt, tensor_scale=None: (
        np.concatenate([right(codes[i : i + 1], scales[i : i + 1], fmt, tensor_scale=tensor_scale) for i in reversed(range(len(codes)))])[
            ::-1
        ]
        if 0 < len(codes) == len(scales)
        else right(codes, scales, fmt, tensor_scale=tensor_scale)
    ),
)
