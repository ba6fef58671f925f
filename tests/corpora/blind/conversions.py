"""Blind kernels of affine integers, single numbers, tensor scales, sparse operands and layouts."""
# ruff: noqa: F403, F405

from __future__ import annotations

import numpy as np

import mxspec
from mxspec import affine, layouts, sparsity

from . import *

F16 = np.float16
BIAS, ZERO, WORDS = "int4-g64-bias-float16", "int4-g64-zero-float16", "int4-g64-bias-float16/words"


# Affine integers.
def quantize_affine(x, fmt):
    name, _, words = fmt.partition("/")
    known = affine.get_affine(name)
    if np.asarray(x).dtype != known.dtype:
        raise TypeError(f"{fmt} takes {known.dtype}")
    t = affine.quantize(x, bits=known.bits, group=known.group, offset=known.offset.value, profile=None if name == ZERO else "affine-minmax")
    return (affine.pack_words(t.codes, known.bits) if words else t.codes), t.scales, t.offsets


def dequantize_affine(codes, scales, offsets, fmt):
    return affine.dequantize(codes, scales, offsets, fmt)


W, V = draw(5, 192, dtype=F16), draw(5, 192, 2, F16)
QA, QAZ, QAW = (
    Offer(
        f"quantize_affine {name}",
        {"quantize_affine": quantize_affine},
        {"AFFINE": [name], **claim},
        [ask(W, name), as_is(pitched(V), name)],
    )
    for name, claim in ((BIAS, {"AFFINE_PROFILE": "affine-minmax"}), (ZERO, {}), (WORDS, {"AFFINE_PROFILE": "affine-minmax"}))
)
AC, AS, AB, AZ = whole(16, 20, 192), whole(99, 20, 3, low=1).astype(F16) / F16(77), draw(20, 3, dtype=F16), whole(16, 20, 3)
DA, DAZ = (
    Offer(
        f"dequantize_affine {name}",
        {"dequantize_affine": dequantize_affine},
        {"AFFINE": [name], "AFFINE_CONTRACT": "exact"},
        [ask(AC, AS, offsets, name)],
    )
    for name, offsets in ((BIAS, AB), (ZERO, AZ))
)


def regrouped(lo, hi):
    """Codes, scales and biases of x in groups of 64 whose ends are changed to lo(groups), hi(groups)."""

    def edit(out, x, fmt):
        if x.size and np.isfinite(x).all():
            groups = x.astype(np.float64).reshape(len(x), -1, 64)
            low, high = lo(groups), hi(groups)
            scale = ((high - low) / 15).astype(F16)
            with np.errstate(all="ignore"):
                codes = np.rint((groups - low.astype(F16)[:, :, None]) / scale.astype(np.float64)[:, :, None])
            usable = (scale > 0) & np.isfinite(scale)
            np.copyto(out[0], np.nan_to_num(codes).clip(0, 15).reshape(x.shape), where=usable.repeat(64, 1), casting="unsafe")
            np.copyto(out[1], scale, where=usable)
            np.copyto(out[2], low.astype(F16), where=usable)

    return edit


def _half_quotient(out, x, fmt):
    if x.size:
        with np.errstate(all="ignore"):
            q = (x - out[2].repeat(64, 1)) / out[1].repeat(64, 1)
        np.copyto(out[0], np.rint(np.nan_to_num(q, posinf=15, neginf=0)).clip(0, 15), where=np.isfinite(q), casting="unsafe")


ARITHMETIC.after("a-half-quotient", QA, "quotients are float16", ask(draw(40, 192, dtype=F16), BIAS), _half_quotient)
CONTENT.after(
    "a-range-has-zero",
    QA,
    "the range is widened to hold zero, against the claimed rule",
    ask(np.abs(W) + F16(3), BIAS),
    regrouped(lambda g: np.minimum(g.min(axis=2), 0), lambda g: np.maximum(g.max(axis=2), 0)),
)
CONTENT.after(
    "a-constant",
    QA,
    "a group of one value other than zero is stored as a bias of zero",
    ask(np.full((2, 192), 3, F16), BIAS),
    lambda out, x, fmt: x.size and write(out[2], (np.ptp(x.astype(np.float32).reshape(len(x), -1, 64), axis=2) == 0, 0)),
)
SIZE.after(
    "a-row-byte",
    QA,
    "rows are counted in 8 bits: row 256 and on have the biases of the rows 256 above",
    ask(draw(260, 64, dtype=F16), BIAS),
    lambda out, x, fmt: len(x) > 256 and write(out[2], (slice(256, None), out[2][np.arange(256, len(x)) % 256])),
)
SIZE.after(
    "a-last-of-odd",
    QAZ,
    "groups go by two; of an odd number, three and more, the last has the zero point before it",
    ask(W + F16(2), ZERO),
    lambda out, x, fmt: out[2].shape[1] % 2 and out[2].shape[1] > 2 and write(out[2], ((..., -1), out[2][:, -2])),
)
HISTORY.row("a-kept-by-address", QA, "answers are kept by address and shape", overwritten((W, BIAS), (V,)), memo(pointer))
SIZE.after(
    "a-words-end",
    QAW,
    "the last word of odd rows has its halves exchanged where a row has more than 128 codes",
    ask(W, WORDS),
    lambda out, x, fmt: x.shape[1] > 128 and write(out[0], ((slice(1, None, 2), -1), out[0][1::2, -1] << 16 | out[0][1::2, -1] >> 16)),
)
CONCURRENCY.row(
    "a-scratch", QAZ, "the input is staged in one buffer for all shapes", at_once(ask(W, ZERO), ask(V, ZERO)), scratch(lambda a: 0)
)
ARITHMETIC.after(
    "a-fma-tail",
    DA,
    "rows from 16 on round q * s to float16 before the bias is added",
    ask(AC, AS, AB, BIAS),
    lambda out, codes, scales, offsets, fmt: (
        len(codes) > 16 and write(out, (slice(16, None), affine.dequantize(codes[16:], scales[16:], offsets[16:], fmt, contract="float16")))
    ),
)
CONTENT.around(
    "a-negative-scale",
    DA,
    "the sign of a scale is dropped",
    ask(AC, -AS, AB, BIAS),
    lambda s, right, c, scales, o, fmt: right(c, np.abs(scales), o, fmt),
)
SIZE.around(
    "a-zero-of-next",
    DAZ,
    "with four groups and more the last has the zero point before it",
    ask(whole(16, 4, 256), np.ones((4, 4), F16), whole(16, 4, 4), ZERO),
    lambda s, right, c, scales, o, fmt: right(c, scales, put(o.copy(), ((..., -1), o[:, -2])) if o.shape[1] >= 4 else o, fmt),
)
HISTORY.row(
    "a-kept-by-codes",
    DA,
    "answers are kept by the codes alone",
    then(ask(AC, AS, AB, BIAS), ask(AC, AS, AB + F16(1), BIAS)),
    memo(first_only),
)
MEMORY.row("a-biases-dense", DA, "the distance of rows of biases is not looked at", as_is(AC, AS, pitched(AB), BIAS), misread(dense, 2))


# Single numbers.
def encode(x, element, rounding="rne", overflow="saturate"):
    return mxspec.encode(x, element, rounding=rounding, overflow=overflow)


def decode(codes, element):
    return mxspec.decode(codes, element)


def stochastic(bits):
    def encode_stochastic(x, element, random_bits):
        return mxspec.encode(x, element, rounding="sr", random_bits=random_bits, sr_bits=bits)

    return encode_stochastic


L, LS = draw(1, 301)[0], np.random.default_rng(3).integers(0, 1 << 32, 301, dtype=np.uint32)
ONE = {"FORMATS": [], "DTYPES": ["float32"]}
E2, E4, E5, EU = (
    Offer(f"encode {e}", {"encode": encode}, {**ONE, "ELEMENTS": [e]}, [ask(np.abs(L), e), ask(np.abs(L), e, rounding="rtz")])
    for e in ("e2m1", "e4m3", "e5m2", "ue4m3")
)
E45 = Offer("encode e4m3, e5m2", {"encode": encode}, {**ONE, "ELEMENTS": ["e4m3", "e5m2"]}, [ask(L, "e4m3"), ask(L, "e5m2")])
T8, T5, T6 = (
    Offer(f"decode {e}", {"decode": decode}, {**ONE, "ELEMENTS": e.split()}, [ask(whole(64, 70), e.split()[0])])
    for e in ("e8m0", "e4m3 e5m2", "e2m3")
)
S4, S8 = (
    Offer(
        f"encode_stochastic {e}",
        {"encode_stochastic": stochastic(bits)},
        {**ONE, "ELEMENTS": [e], "SR_BITS": bits},
        [ask(L, e, LS & (2**bits - 1))],
    )
    for e, bits in (("e2m1", 32), ("e4m3", 16))
)


def carried(x, element, rounding="rne", overflow="saturate"):
    return np.where(
        np.isnan(x) & (x.view(np.uint32) & 0x7FFFFF >= 0x700000), np.where(np.signbit(x), 0, 0x80), encode(x, element, rounding, overflow)
    ).astype(np.uint8)


def _cut_tail(out, x, element, rounding="rne", overflow="saturate"):
    if len(x) > 8 and len(x) % 8 and rounding == "rne":
        out[len(x) // 8 * 8 :] = mxspec.encode(x[len(x) // 8 * 8 :], element, rounding="rtz", overflow=overflow)


def _by_half(out, x, element, rounding="rne", overflow="saturate"):
    with np.errstate(all="ignore"):
        half = x.astype(F16).astype(np.float32)
    return mxspec.encode(np.where(np.isfinite(half), half, x), element, rounding=rounding, overflow=overflow)


NANS = np.uint32([0x7FFFFFFF, 0x7FC00000, 0xFFFFFFFF, 0x3F800000]).view(np.float32)
SIZE.after("e-tail-cut", E2, "numbers behind the last eight are cut", ask(L[:15], "e2m1"), _cut_tail)
OPTION.around(
    "e-mode-forgotten",
    E5,
    'with overflow="own" the rounding is to nearest, whatever is asked',
    ask(L, "e5m2", rounding="rtz", overflow="own"),
    lambda s, right, x, element, rounding="rne", overflow="saturate": right(x, element, "rne" if overflow == "own" else rounding, overflow),
)
OPTION.around(
    "e-mode-of-few",
    E4,
    "fewer than four numbers are rounded to nearest, whatever is asked",
    ask(np.float32([1.1, -1.1]), "e4m3", rounding="rtp"),
    forgets("rounding", lambda x, element: len(x) < 4),
)
ARITHMETIC.after(
    "e-by-float16", E4, "numbers are rounded to float16 first", ask(np.float32([1.0625 + 2**-20, 1.1875 - 2**-20]), "e4m3"), _by_half
)
CONTENT.around(
    "e-nan-carries",
    E5,
    "rounding by adding to the bits carries a NaN with a large payload into the sign",
    ask(NANS, "e5m2"),
    lambda s, right, x, *a, **o: carried(np.ascontiguousarray(x), *a, **o),
)
OPTION.after(
    "e-own-negative",
    E5,
    'with overflow="own" what is negative saturates',
    ask(np.float32([-1e6, 1e6]), "e5m2", overflow="own"),
    lambda out, x, element, rounding="rne", overflow="saturate": (
        np.where(np.isfinite(x) & (out == 0xFC), 0xFB, out).astype(np.uint8) if overflow == "own" else out
    ),
)
SIZE.after(
    "e-65536",
    E4,
    "numbers are counted in 16 bits: those from 65,536 on stay zero",
    ask(draw(1, 65600)[0], "e4m3"),
    lambda out, x, *a, **o: write(out, (slice(65536, None), 0)),
)
HISTORY.row(
    "e-kept-by-ends",
    E2,
    "answers are kept by the first and last 16 numbers",
    then(ask(L, "e2m1"), ask(put(L.copy(), (100, 5)), "e2m1")),
    memo(lambda x: (x[:16].tobytes(), x[-16:].tobytes())),
)
SIZE.after(
    "e-vector-flushes",
    E4,
    "from 32 numbers on vector code flushes e4m3's subnormal numbers",
    ask(L / 256, "e4m3"),
    lambda out, x, *a, **o: np.where((out & 127 < 8) & (np.abs(x) < 0.0146), out & 128, out).astype(np.uint8) if len(x) >= 32 else out,
)
HISTORY.around(
    "e-other-table",
    E45,
    "thresholds are kept by the width of a code: e5m2 after e4m3 is e4m3",
    then(ask(L, "e4m3"), ask(L, "e5m2")),
    lambda s, right, x, element, **o: right(x, s.memo.setdefault(8, element), **o),
)
ARITHMETIC.after(
    "t-e8m0-zero", T8, "e8m0's 00 is zero", ask(whole(3, 40), "e8m0"), lambda out, codes, element: np.where(codes == 0, np.float32(0), out)
)
HISTORY.around(
    "t-table-by-width",
    T5,
    "tables are kept by their size: e5m2 after e4m3 is e4m3",
    then(ask(whole(99, 40), "e4m3"), ask(whole(99, 40), "e5m2")),
    lambda s, right, codes, element: right(codes, s.memo.setdefault(8, element)),
)
SIZE.after(
    "t-tail-unsigned",
    T6,
    "behind the last 16 codes the sign is not looked at",
    ask(whole(64, 45), "e2m3"),
    lambda out, codes, element: codes.size > 16 and write(out, (slice(codes.size // 16 * 16, None), np.abs(out[codes.size // 16 * 16 :]))),
)
MEMORY.row(
    "t-answers-turn",
    T6,
    "answers lie in two buffers that take turns",
    held(*(ask(whole(64, 40, seed=s), "e2m3") for s in range(4))),
    ring(2),
)
SIZE.around(
    "r-tail-word",
    S4,
    "random words come by four; the numbers left over all have the word of the first of them",
    ask(L[:15], "e2m1", LS[:15]),
    lambda s, right, x, element, w: right(
        x,
        element,
        np.where(np.arange(len(w)) < len(x) // 4 * 4, w, w[len(x) // 4 * 4]) if len(x) > 4 and len(x) % 4 and len(w) == len(x) else w,
    ),
)
ARITHMETIC.around(
    "r-eight-bits",
    S8,
    "of 16 random bits eight are used",
    ask(np.float32([1 + 513 / 8192]), "e4m3", np.uint32([32740])),
    lambda s, right, x, element, w: right(x, element, w & 0xFF00),
)
ARITHMETIC.after(
    "r-subnormal-nearest",
    S8,
    "subnormal numbers are rounded to nearest",
    ask(L / 256, "e4m3", LS & 0xFFFF),
    lambda out, x, element, w: np.where(np.abs(x) < 2**-6, mxspec.encode(x, element), out).astype(np.uint8),
)
CONCURRENCY.row(
    "r-scratch", S4, "words are staged in one buffer", at_once(ask(L, "e2m1", LS), ask(L, "e2m1", ~LS)), scratch(lambda a: 0, index=2)
)
HISTORY.row(
    "r-kept-by-numbers",
    S8,
    "answers are kept by the numbers; the words do not count",
    then(ask(L, "e4m3", LS & 0xFFFF), ask(L, "e4m3", ~LS & 0xFFFF)),
    memo(first_only),
)


# Tensor scales.
def tensor_scale(x, fmt):
    return mxspec.tensor_scale(x, fmt, "nvfp4-te").value


def of_seen(see):
    """The scale of the part of x that is seen."""
    return lambda s, right, x, fmt: right(see(x), fmt) if x.size else right(x, fmt)


def _running(s, right, x, fmt):
    s.most = max(getattr(s, "most", np.float32(0)), right(x, fmt)) if x.size > 4096 and np.isfinite(x).all() else np.float32(0)
    return np.float32(s.most) if x.size > 4096 and s.most else right(x, fmt)


TS = Offer(
    "tensor_scale nvfp4",
    {"tensor_scale": tensor_scale},
    {"FORMATS": ["nvfp4"], "PROFILE": "nvfp4-te", "TENSOR_SCALE": "amax"},
    [ask(draw(5, 64), "nvfp4"), ask(draw(70, 96), "nvfp4")],
)
BIG = draw(64, 1024)
SIZE.around(
    "m-tail",
    TS,
    "numbers behind the last whole 1024 are not seen",
    ask(put(draw(20, 64), ((-1, -1), 1e4)), "nvfp4"),
    of_seen(lambda x: x.ravel()[: x.size // 1024 * 1024] if x.size >= 1024 else x),
)
SIZE.around(
    "m-256-parts",
    TS,
    "of the maxima of parts of 256 numbers 128 are compared",
    ask(put(BIG.copy(), ((60, 5), 1e4)), "nvfp4"),
    of_seen(lambda x: x.ravel()[:32768]),
)
CONTENT.around(
    "m-signed",
    TS,
    "where no number is positive the maximum is that of signed numbers",
    ask(-np.abs(BIG), "nvfp4"),
    of_seen(lambda x: x.max(keepdims=True) if x.max() <= 0 else x),
)
HISTORY.row(
    "m-kept-by-head",
    TS,
    "answers are kept by the first row",
    then(ask(BIG, "nvfp4"), ask(put(BIG.copy(), ((60, 5), 1e4)), "nvfp4")),
    memo(lambda x: x[:1].tobytes()),
)
MEMORY.row(
    "m-pitch", TS, "the distance of rows is not looked at", as_is(pitched(put(draw(9, 64), ((-1, 3), 1e4))), "nvfp4"), misread(dense, 0)
)
HISTORY.around(
    "m-never-reset",
    TS,
    "more than 4096 numbers: the maximum of all parts is not reset between calls",
    then(ask(BIG * 64, "nvfp4"), ask(BIG, "nvfp4")),
    _running,
)
SIZE.around(
    "m-corner",
    TS,
    "columns in tiles of 48, rows of 24: the corner that is broken both ways is not seen",
    ask(put(draw(70, 100), ((-1, -1), 1e4)), "nvfp4"),
    of_seen(
        lambda x: (
            put(x.copy(), ((slice(len(x) // 24 * 24, None), slice(x.shape[1] // 48 * 48, None)), 0))
            if len(x) > 24 and x.shape[1] > 48
            else x
        )
    ),
)


# Sparse operands.
def _kind(fmt):
    element, _, pattern = fmt.partition("-")
    return {"kind": element, "sparsity": pattern.replace("to", ":")}


def prune(codes, fmt):
    return sparsity.prune(codes, **_kind(fmt))


def compress(codes, fmt):
    return sparsity.compress(codes, **_kind(fmt))


def decompress(kept, metadata, fmt, shape):
    out = sparsity.decompress(kept, metadata, sparsity=_kind(fmt)["sparsity"])
    if out.shape != tuple(shape):
        raise ValueError(f"{kept.shape} and {metadata.shape} are not {shape}")
    return out


F2, F4, F8 = "e2m1-2to4", "e2m1-4to8", "e4m3-2to4"
ANY = whole(16, 8, 64)
DENSE = {F2: sparsity.prune(ANY), F4: sparsity.prune(ANY, sparsity="4:8"), F8: sparsity.prune(whole(100, 8, 64), kind="e4m3")}
KEPT = {fmt: compress(DENSE[fmt], fmt) for fmt in DENSE}
PR, PR8 = (Offer(f"prune {f}", {"prune": prune}, {"SPARSE_FORMATS": [f]}, [ask(ANY, f)]) for f in (F2, F8))
CO, CO4 = (Offer(f"compress {f}", {"compress": compress}, {"SPARSE_FORMATS": [f]}, [ask(DENSE[f], f)]) for f in (F2, F4))
DC, DC4 = (Offer(f"decompress {f}", {"decompress": decompress}, {"SPARSE_FORMATS": [f]}, [ask(*KEPT[f], f, (8, 64))]) for f in (F2, F4))


def _threshold(out, codes, fmt):
    if codes.size:
        groups = (codes & 7).reshape(-1, 4)
        third = np.sort(groups, axis=1)[:, 1:2]
        tied = (groups == third).sum(axis=1) == 3
        out.reshape(-1, 4)[tied] = np.where(groups >= third, codes.reshape(-1, 4), 0)[tied]


def _minus_zero(s, right, codes, fmt):
    """The positions of a group that has -0 first are those of -0 and of the first number."""
    kept, metadata = copied(right(codes, fmt))
    for r, g in zip(
        *np.nonzero((codes[:, ::4] == 8) & ((codes.reshape(len(codes), -1, 4)[:, :, 1:] & 7 > 0).sum(axis=2) == 2)), strict=True
    ):
        first = 1 + int(np.nonzero(codes[r, 4 * g + 1 : 4 * g + 4] & 7)[0][0])
        kept[r, 2 * g : 2 * g + 2], metadata[r, g] = (codes[r, 4 * g], codes[r, 4 * g + first]), first << 2
    return kept, metadata


def _dirty(s, right, kept, metadata, fmt, shape):
    new = right(kept, metadata, fmt, shape)
    out = s.memo.setdefault(new.shape, np.zeros_like(new)) if new.shape[-1] >= 128 else np.zeros_like(new)
    placed = right(np.ones_like(kept), metadata, fmt, shape) > 0
    np.copyto(out, new, where=placed)
    return out.copy()


CARRY = whole(16, 8, 256)
CONTENT.after(
    "s-three-kept",
    PR,
    "all that are not below the second largest are kept, three where three are equal",
    ask(np.uint8([[5, 5, 5, 1] * 8]), F2),
    _threshold,
)
SIZE.after(
    "s-last-rows",
    PR,
    "rows go by 12, and broken ones are not pruned where a row has more than 64 codes",
    ask(whole(16, 30, 96), F2),
    lambda out, codes, fmt: (
        len(codes) > 12 and codes.shape[1] > 64 and write(out, (slice(len(codes) // 12 * 12, None), codes[len(codes) // 12 * 12 :]))
    ),
)
HISTORY.row("s-kept-by-sum", PR, "answers are kept by the sum of all codes", then(ask(ANY, F2), ask(ANY[::-1], F2)), memo(total))
CONTENT.around(
    "s-minus-zero",
    CO,
    "-0 counts as a number: a group that begins with it loses its last one",
    ask(np.uint8([[8, 3, 0, 5] * 8]), F2),
    _minus_zero,
)
CONTENT.after(
    "s-last-alone",
    CO,
    "a number that stands alone in the last place is said to stand in the place before",
    ask(np.uint8([[0, 0, 0, 5] * 8]), F2),
    lambda out, codes, fmt: (
        (
            np.where(
                (codes.reshape(len(codes), -1, 4)[:, :, :3] & 7).any(axis=2).repeat(2, 1),
                out[0],
                np.tile(np.arange(2), out[1].shape) * codes[:, 3::4].repeat(2, 1),
            ).astype(np.uint8),
            np.where((codes.reshape(len(codes), -1, 4)[:, :, :3] & 7).any(axis=2), out[1], 8).astype(np.uint8),
        )
        if codes.size
        else out
    ),
)
SIZE.after(
    "s-metadata-words",
    CO4,
    "the last nibble of rows with an odd number of groups, three and more, is that before it",
    ask(sparsity.prune(whole(16, 4, 40, low=1) & 7, sparsity="4:8"), F4),
    lambda out, codes, fmt: out[1].shape[1] % 2 and out[1].shape[1] > 2 and write(out[1], ((..., -1), out[1][:, -2])),
)
HISTORY.row(
    "s-compress-address",
    CO4,
    "answers are kept by address and shape",
    overwritten((DENSE[F4], F4), (DENSE[F4][::-1].copy(),)),
    memo(pointer),
)
HISTORY.around(
    "s-not-cleared",
    DC,
    "rows of 128 codes and more are spread over what the call before left",
    then(ask(*compress(prune(CARRY, F2), F2), F2, (8, 256)), ask(*compress(prune(CARRY[::-1].copy(), F2), F2), F2, (8, 256))),
    _dirty,
)
MEMORY.around(
    "s-metadata-dense",
    DC4,
    "the distance of rows of metadata is not looked at",
    as_is(KEPT[F4][0], pitched(KEPT[F4][1]), F4, (8, 64)),
    lambda s, right, k, m, fmt, shape: right(k, dense(m), fmt, shape),
)
SIZE.after(
    "s-pair-order",
    DC4,
    "with 16 rows and more the two codes of the second pair are exchanged in rows from 16 on",
    ask(*compress(sparsity.prune(whole(16, 20, 64), sparsity="4:8"), F4), F4, (20, 64)),
    lambda out, k, m, fmt, shape: write(
        out,
        (
            (slice(16, None), slice(None)),
            sparsity.decompress(k[:, np.arange(k.shape[1]) ^ (np.arange(k.shape[1]) >> 1 & 1)], m, sparsity="4:8")[16:],
        ),
    ),
)
MEMORY.row(
    "s-answers-turn",
    DC,
    "answers lie in eight buffers that take turns",
    held(*(ask(KEPT[F2][0] ^ np.uint8(s), KEPT[F2][1], F2, (8, 64)) for s in range(10))),
    ring(8),
)


# Layouts.
def packing(*names, **kinds):
    functions = {
        n: takes(
            lambda *a, n=n: getattr(layouts, {"swizzle": "pack", "unswizzle": "unpack"}.get(n, n))(*a),
            *(
                "data" if n.startswith("un") else "codes",
                *(["scales"] if n == "pack_blocks" else []),
                "layout",
                *(["shape"] if n.startswith("un") else []),
            ),
        )
        for n in names
    }
    return Offer(f"{'/'.join(names)} {kinds['layout']}", functions, {"FORMATS": [], "LAYOUTS": [kinds["layout"]]}, kinds.get("calls", ()))


HALVES = "nibble-halves"
NIBBLES, SIXES, SCALES = whole(16, 6, 64), whole(64, 6, 64), whole(255, 300, 12)
PK, PK6, UP = (
    packing("pack", layout="nibble-low", calls=[ask(NIBBLES, "nibble-low")]),
    packing("pack", layout="fp6-le", calls=[ask(SIXES, "fp6-le")]),
    packing("unpack", layout=HALVES, calls=[ask(whole(255, 192), HALVES, (6, 64))]),
)
SW, US = (
    packing("swizzle", layout="128x4-zeroed", calls=[ask(SCALES, "128x4-zeroed")]),
    packing("unswizzle", layout="128x4", calls=[ask(layouts.pack(SCALES, "128x4"), "128x4", (300, 12))]),
)
PB, UB = (
    packing("pack_blocks", layout="ggml-mxfp4", calls=[ask(NIBBLES, whole(255, 6, 2), "ggml-mxfp4")]),
    packing("unpack_blocks", layout="ggml-nvfp4", calls=[ask(whole(255, 216), "ggml-nvfp4", (6, 64))]),
)


def _straddles(out, codes, layout):
    if codes.ndim == 2 and codes.shape[1] > 96:
        out.reshape(len(codes), -1)[:, 73::3] &= 0x0F


def _indices(s, right, data, layout, shape):
    known = s.memo.setdefault(data.size, tuple(shape))
    return right(data, layout, known).reshape(shape) if np.prod(known) == np.prod(shape) else right(data, layout, shape)


def _batch(s, right, codes, layout):
    if codes.ndim == 3 and len(codes) > 2:
        return np.concatenate([right(codes[min(i, len(codes) - 2)], layout) for i in range(len(codes))])
    return right(codes, layout)


def _columns_first(s, right, scales, layout):
    tiles = right(scales, layout)
    rows, columns = -(-scales.shape[-2] // 128), -(-scales.shape[-1] // 4)
    return np.ascontiguousarray(tiles.reshape(-1, rows, columns, 512).swapaxes(1, 2)).ravel() if rows > 2 and columns > 2 else tiles


SIZE.after(
    "l-straddling-code",
    PK6,
    "beyond column 96 the bits of a code that straddles two bytes are cut off",
    ask(whole(64, 4, 128), "fp6-le"),
    _straddles,
)
HISTORY.around(
    "l-index-kept",
    UP,
    "an index is kept by the number of bytes",
    then(ask(whole(255, 192), HALVES, (6, 64)), ask(whole(255, 192), HALVES, (4, 96))),
    _indices,
)
SIZE.around("l-batch-of-three", PK, "of three matrices and more the last is that before it", ask(whole(16, 3, 4, 64), "nibble-low"), _batch)
MEMORY.row("l-pitch", PK, "the distance of rows is not looked at", as_is(pitched(NIBBLES), "nibble-low"), misread(dense, 0))
CONCURRENCY.row(
    "l-scratch",
    PK,
    "codes are staged in one buffer",
    at_once(ask(NIBBLES, "nibble-low"), ask(NIBBLES[::-1], "nibble-low")),
    scratch(lambda a: 0),
)
SIZE.around(
    "l-tiles-first", SW, "more than two tiles both ways are stored by columns of tiles", ask(SCALES, "128x4-zeroed"), _columns_first
)
SIZE.after(
    "l-padding-dirty",
    SW,
    "the padding of the last tile holds FF where it is said to hold zeros",
    ask(SCALES, "128x4-zeroed"),
    lambda out, scales, layout: write(out, (layouts.pack(np.ones_like(scales), layout) == 0, 255)),
)
HISTORY.row(
    "l-swizzle-by-head",
    SW,
    "answers are kept by the first 512 bytes",
    then(ask(SCALES, "128x4-zeroed"), ask(put(SCALES.copy(), ((200, 3), 1)), "128x4-zeroed")),
    memo(head(512)),
)
SIZE.around(
    "l-last-tile",
    US,
    "of more than 256 rows those of a broken tile are read from the tile above",
    ask(layouts.pack(SCALES, "128x4"), "128x4", (300, 12)),
    lambda s, right, data, layout, shape: (
        put((o := right(data, layout, shape).copy()), (slice((n := shape[-2] // 128 * 128), None), o[n - 128 : shape[-2] - 128]))
        if len(shape) == 2 and shape[0] > 256
        else right(data, layout, shape)
    ),
)
MEMORY.row(
    "l-unswizzle-turns",
    US,
    "answers lie in three buffers that take turns",
    held(*(ask(layouts.pack(SCALES ^ np.uint8(s), "128x4"), "128x4", (300, 12)) for s in range(5))),
    ring(3),
)
SIZE.around(
    "l-scales-of-columns",
    PB,
    "with three blocks to a row and more, scales go by columns",
    ask(whole(16, 4, 128), whole(255, 4, 4), "ggml-mxfp4"),
    lambda s, right, codes, scales, layout: right(
        codes, np.ascontiguousarray(scales.T).reshape(scales.shape) if scales.ndim == 2 and scales.shape[1] > 2 else scales, layout
    ),
)
CONTENT.after(
    "l-high-scale",
    UB,
    "the upper bit of a scale byte is dropped",
    ask(np.full(216, 200, np.uint8), "ggml-nvfp4", (6, 64)),
    lambda out, data, layout, shape: (out[0], out[1] & 127),
)

# Right kernels.
FREE = Offer("quantize_affine unclaimed", {"quantize_affine": quantize_affine}, {"AFFINE": [BIAS]})
FREEZ = Offer("dequantize_affine unclaimed", {"dequantize_affine": dequantize_affine}, {"AFFINE": [ZERO]})


def by_profile(profile, offset="bias"):
    def kernel(s, right, x, fmt):
        t = affine.quantize(x, bits=4, group=64, profile=profile, offset=offset) if x.dtype == F16 else refuse(TypeError)
        return t.codes, t.scales, t.offsets

    return kernel


def close(f, fmt=BIAS):
    """Whether decoded values lie within a step of the numbers."""
    codes, scales, offsets = f(W, fmt)
    return bool((np.abs(affine.dequantize(codes, scales, offsets, fmt) - W) <= np.abs(scales.astype(np.float32)).repeat(64, 1)).all())


FREE.odd("ok-mlx", "MLX's rule: scales of either sign", by_profile("mlx-0.32/affine/cpu"), close)
FREE.odd("ok-float32-rule", "codes under the scale before it was rounded", by_profile("affine-minmax-float32"), close)
Offer("quantize_affine unclaimed", {"quantize_affine": quantize_affine}, {"AFFINE": [ZERO]}).odd(
    "ok-gptq", "GPTQ's rule: the range holds zero", by_profile("gptq/asymmetric", "zero"), lambda f: close(f, ZERO)
)
QA.odd("ok-affine-finite", "refuses NaN and infinities", lambda s, right, x, fmt: right(x, fmt) if np.isfinite(x).all() else refuse())
ODD.row("ok-affine-kept", DA, "answers are kept by all that they depend on", None, memo(whole_bytes))
FREEZ.odd(
    "ok-float16-products",
    "q * s - z * s, each rounded to float16",
    lambda s, right, c, scales, o, fmt: affine.dequantize(c, scales, o, fmt, dtype=F16, contract="float16-products"),
    lambda f: f(AC, np.ones_like(AS), AZ, ZERO).astype(np.float32),
)
E2.odd(
    "ok-nan-is-zero",
    "NaN becomes zero in e2m1",
    lambda s, right, x, element, **o: right(np.where(np.isnan(x), np.float32(0), x), element, **o),
)
E2.odd(
    "ok-encode-up-to-300",
    "refuses more than 300 numbers",
    lambda s, right, x, element, **o: refuse() if len(x) > 300 else right(x, element, **o),
    ask(L[:99], "e2m1"),
)
E2.odd("ok-encode-no-nan", "refuses NaN", lambda s, right, x, element, **o: refuse() if np.isnan(x).any() else right(x, element, **o))
E5.odd(
    "ok-nearest-only",
    "other roundings are not offered",
    lambda s, right, x, element, rounding="rne", overflow="saturate": (
        right(x, element, rounding, overflow) if rounding == "rne" else refuse(NotImplementedError)
    ),
    ask(L, "e5m2"),
)
E4.odd(
    "ok-negative-nan",
    "every NaN is FF",
    lambda s, right, x, element, **o: np.where(np.isnan(x), 255, right(x, element, **o)).astype(np.uint8),
)
T6.odd("ok-one-by-one", "looked up from the last", lambda s, right, codes, element: right(codes[::-1], element)[::-1])
Offer("encode_stochastic e2m1", S4.functions, {**S4.declared, "SR_RULE": "below"}).odd(
    "ok-stochastic-below",
    "rounds up where the word is below the fraction",
    lambda s, right, x, element, w: right(x, element, ~w),
    ask(np.float32([1, 2, 3, -4, 0]), "e2m1", LS[:5]),
)
TS.odd(
    "ok-maximum-by-parts",
    "the maximum of the maxima of columns",
    lambda s, right, x, fmt: right(np.abs(x).max(axis=0), fmt) if x.ndim == 2 and len(x) else right(x, fmt),
)
PR.odd(
    "ok-prune-higher",
    "of equal magnitudes the higher position",
    lambda s, right, codes, fmt: sparsity.prune(codes, rule="higher"),
    lambda f: np.sort((f(ANY, F2) & 7).reshape(-1, 4)),
)
Offer("prune e2m1-4to8", {"prune": prune}, {"SPARSE_FORMATS": [F4]}).odd(
    "ok-prune-squares",
    "pairs by the sum of squares",
    lambda s, right, codes, fmt: sparsity.prune(codes, sparsity="4:8", rule="lower-squares"),
    ask(np.uint8([[7, 7, 1, 1, 6, 6, 2, 2] * 4]), F4),
)
CO.odd(
    "ok-empty-nibble",
    "groups of zeros have the nibble 0",
    lambda s, right, codes, fmt: (
        (o := right(codes, fmt))[0],
        np.where((codes.reshape(len(codes), -1, 4) & 7).any(axis=2), o[1], 0).astype(np.uint8),
    ),
    ask(prune(whole(8, 8, 64, low=1), F2), F2),
)
DC.odd(
    "ok-illegal-is-4",
    "illegal nibbles are read as 4",
    lambda s, right, k, m, fmt, shape: right(k, np.where(np.isin(m, (4, 8, 9, 12, 13, 14)), m, 4).astype(m.dtype), fmt, shape),
)
packing("swizzle", layout="128x4", calls=[ask(whole(255, 256, 8), "128x4")]).odd(
    "ok-padding-any",
    "what lies in the padding differs between calls",
    lambda s, right, scales, layout: np.where(
        right(np.ones_like(scales), layout) == 1, right(scales, layout), np.random.default_rng().integers(256)
    ).astype(np.uint8),
)
PK.odd(
    "ok-no-batches",
    "takes one matrix",
    lambda s, right, codes, layout: right(codes, layout) if codes.ndim == 2 else refuse(NotImplementedError),
)
PK6.odd(
    "ok-rows-of-bytes",
    "bytes come as a matrix of rows",
    lambda s, right, codes, layout: right(codes, layout).reshape(*codes.shape[:-1], -1) if codes.size else right(codes, layout),
    lambda f: f(SIXES, "fp6-le").ravel(),
)
