"""Bugs in the shared scale of MX: maximum, exponent, bump, clamp, special blocks, division."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpora.independent.catalogue import Bug, Stage
from tests.corpora.independent.implementation import BLOCKS, bits_of

Array = Any
MX = tuple(f for f in BLOCKS if f != "nvfp4")


def one(id_: str, story: str, fmt: str, profile: str, **change: Stage) -> Bug:
    """A bug of `quantize`."""
    return Bug(id_, story, "quantize", fmt, profile, change)


def mask(pick: Callable[[Array], Array]) -> Stage:
    """The maximum is taken of changed bits."""
    return lambda right, b: pick(bits_of(b))


def without_lane(lane: int, *, block: int | None = None) -> Stage:
    """A lane is missing in the reduction, in all blocks or from one on."""

    def amax(right: Stage, b: Array) -> Array:
        kept = b.copy()
        kept[:, block or 0 :, lane] = 0
        return right(kept)

    return amax


def lossy(change: Callable[[Array], Array]) -> Stage:
    """The maximum is changed afterwards."""
    return lambda right, b: change(right(b)).astype(np.float32)


def nan_lost(lost: Callable[[Array], Array]) -> Stage:
    """Some NaN lanes are passed over."""
    return lambda right, b: right(np.where(np.isnan(b) & lost(bits_of(b)), np.float32(0), b))


def _maximum() -> Iterator[Bug]:
    for fmt, lane in (("mxfp4", 31), ("mxfp4", 16), ("mxfp8_e4m3", 15), ("mxint8", 0), ("mxfp6_e2m3", 7)):
        yield one(f"lane-{lane}", f"lane {lane} is not reduced", fmt, "mx-floor", amax=without_lane(lane))
    for fmt, block in (("mxfp4", 1), ("mxfp4", 8), ("mxfp8_e5m2", 33), ("mxfp4", 64), ("mxint8", 127)):
        yield one(f"lane-31-from-block-{block}", "the last lane is missing in the unrolled loop's rest", fmt, "mx-floor",
                  amax=without_lane(31, block=block))  # fmt: skip
    yield one("signed", "integer maximum of signed bits", "mxfp4", "mx-floor",
              magnitude_bits=mask(lambda i: np.where(i >> 31 == 1, 0, i)))  # fmt: skip
    yield one("max-of-bf16", "the maximum is taken in bfloat16, rounded", "mxfp8_e4m3", "mx-floor",
              amax=lossy(lambda a: a.astype(ml_dtypes.bfloat16)))  # fmt: skip
    for p in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil"):
        yield one(f"max-cut-to-bf16-{p}", "the maximum is taken of the upper 16 bits", "mxfp4", p,
                  magnitude_bits=mask(lambda i: i & 0x7FFF0000))  # fmt: skip
        yield one(f"max-23-bits-{p}", "the maximum loses its last bit", "mxfp6_e3m2", p,
                  magnitude_bits=mask(lambda i: i & 0x7FFFFFFE))  # fmt: skip
    for fmt in ("mxfp4", "mxfp8_e5m2"):
        yield one("nan-negative-lost", "isnan compares raw bits as signed: negative NaN is missed", fmt, "mx-floor",
                  amax=nan_lost(lambda i: i >> 31 == 1))  # fmt: skip
        yield one("nan-signalling-lost", "only quiet NaN counts", fmt, "mx-floor",
                  amax=nan_lost(lambda i: i & 0x400000 == 0))  # fmt: skip
        yield one("nan-payload-lost", "only the canonical NaN 7fc00000 counts", fmt, "mx-floor",
                  amax=nan_lost(lambda i: i & 0x7FFFFFFF != 0x7FC00000))  # fmt: skip
        yield one("nan-low-payload-is-inf", "a NaN with payload in the low half only is cut to Inf", fmt, "mx-floor",
                  magnitude_bits=mask(lambda i: np.where(i & 0x7FFFFFFF == 0x7F800001, 0x7F800000, i & 0x7FFFFFFF)))  # fmt: skip
        yield one("nan-all-ones-lost", "7fffffff is used as `empty` in the reduction", fmt, "mx-floor",
                  amax=nan_lost(lambda i: i & 0x7FFFFFFF == 0x7FFFFFFF))  # fmt: skip
        yield one("two-nan-cancel", "two NaN lanes in neighbouring lanes are lost", fmt, "mx-floor", amax=two_nan)
        yield one("nan-and-inf", "a block with both counts as Inf", fmt, "mx-floor", special_scale=keep_scale,
                  amax=inf_first)  # fmt: skip


def keep_scale(right: Stage, byte: Array, amax: Array) -> Array:
    """The right stage, named so that the table says which stages run."""
    return right(byte, amax)


def inf_first(right: Stage, b: Array) -> Array:
    """Inf is looked for before NaN."""
    return np.where(np.isinf(b).any(axis=-1), np.float32(np.inf), right(b))


def two_nan(right: Stage, b: Array) -> Array:
    """max(NaN, NaN) of a lane pair gives 0."""
    pairs = np.isnan(b).reshape(*b.shape[:-1], -1, 2).all(axis=-1)
    return right(np.where(np.repeat(pairs, 2, axis=-1), np.float32(0), b))


def field(right: Stage, amax: Array) -> Array:
    """The exponent field as it is, subnormals too."""
    return np.where(np.isfinite(amax), (bits_of(amax) >> 23).reshape(amax.shape) - 127, right(amax))


def raw_mantissa(right: Stage, amax: Array) -> Array:
    """The mantissa field as it is, subnormals too."""
    return (bits_of(amax) & 0x7FFFFF).reshape(amax.shape).astype(np.float64)


def at_byte(byte: int, other: int) -> Stage:
    """One scale byte becomes another."""
    return lambda right, values: np.where(right(values) == byte, other, right(values))


def bump_misses(gap: int) -> Stage:
    """One significand above the limit is not bumped."""

    def bump(right: Stage, significand: Array, block: Any) -> Array:
        limit = block.top if gap >= 0 else 0
        return right(significand, block) & (significand != limit + abs(gap))

    return bump


def _exponents() -> Iterator[Bug]:
    for fmt in MX:
        for p in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil"):
            yield one(f"subnormal-field-{p}", "exponent and mantissa are fields, of subnormals too", fmt, p,
                      exponent=field, significand=raw_mantissa)  # fmt: skip
    for fmt in ("mxfp4", "mxfp8_e4m3", "mxint8"):
        yield one("rceil-top-plus-1", "limit of the significand one too large", fmt, "mx-rceil", bump=bump_misses(1))
        for bit in (5, 8, 12, 16):
            yield one(f"rceil-lacks-{bit}", f"compare of the significand with M ignores bit {bit} of the difference", fmt,
                      "mx-rceil", bump=bump_misses(1 << bit))  # fmt: skip
            yield one(f"ceil-lacks-{bit}", f"`mantissa != 0` by a mask without bit {bit}", fmt, "mx-ceil",
                      bump=bump_misses(-(1 << bit)))  # fmt: skip
        for byte, other in ((0, 1), (1, 0), (254, 253), (253, 254), (1, 2), (0, 255), (127, 126), (252, 251)):
            yield one(f"byte-{byte}-is-{other}", f"clamping gives {other} for {byte}", fmt, "mx-floor",
                      clamp=at_byte(byte, other))  # fmt: skip
    for fmt in ("mxfp4", "mxint8", "mxfp8_e5m2"):
        yield one("low-end-wraps", "the exponent below 0 wraps to 255 and is clamped", fmt, "mx-floor",
                  clamp=lambda right, byte: np.minimum(np.where(byte < 0, byte + 256, byte), 254))  # fmt: skip
        yield one("rceil-bump-after-clamp", "the bump comes after clamping: byte 0 becomes 1", fmt, "mx-rceil",
                  mx_scale=clamp_first)  # fmt: skip
        yield one("even-adds-to-inf", "half up of the largest numbers overflows to Inf and is called so", fmt, "mx-even",
                  special_scale=even_inf)  # fmt: skip


def clamp_first(right: Stage, amax: Array, block: Any) -> Array:
    """Exponent clamped, then bumped."""
    code = right(amax, block).astype(np.int64)
    small = (amax > 0) & (amax < 2.0 ** (block.emax - 127))
    significand = np.where(np.isfinite(amax), np.frexp(amax.astype(np.float64))[0] * 2 - 1, 0)
    return np.where(small & (significand * 2.0**23 > block.top), 1, code).astype(np.uint8)


def even_inf(right: Stage, byte: Array, amax: Array) -> Array:
    """FE for maxima whose rounding leaves the range."""
    over = np.isfinite(amax) & (amax >= np.float32(1.875 * 2.0**127))
    return np.where(over, 0xFE, right(byte, amax))


def flushed(low: float) -> Stage:
    """Numbers of scale bytes below a limit count as something else."""
    return lambda right, byte: np.where(byte == 0, low, right(byte))


def reciprocal_flushed(right: Stage, b: Array, sf: Array) -> Array:
    """x * 2^(127 - byte), where 2^-127 is subnormal and flushed."""
    return np.where(sf[..., None] == 2.0**127, np.copysign(0.0, b), right(b, sf))


def daz(right: Stage, b: Array, sf: Array) -> Array:
    """Subnormal lanes count as zeros when divided, but not in the maximum."""
    tiny = np.abs(b) < np.float32(2.0**-126)
    return right(np.where(tiny, np.copysign(np.float32(0), b), b), sf)


def daz_positive(right: Stage, b: Array, sf: Array) -> Array:
    """The same, and the sign goes with it."""
    return right(np.where(np.abs(b) < np.float32(2.0**-126), np.float32(0), b), sf)


def ftz_quotient(right: Stage, b: Array, sf: Array) -> Array:
    """Subnormal quotients are flushed, sign kept."""
    v = right(b, sf)
    return np.where(np.abs(v) < 2.0**-126, np.copysign(0.0, v), v)


def ftz_positive(right: Stage, b: Array, sf: Array) -> Array:
    """Subnormal quotients become +0."""
    v = right(b, sf)
    return np.where(np.abs(v) < 2.0**-126, 0.0, v)


def load_only(dtype: Any, change: Callable[[Array], Array]) -> Stage:
    """Something happens to inputs of one dtype."""
    return lambda right, x: change(right(x)) if np.asarray(x).dtype == dtype else right(x)


def flush_below(limit: float) -> Callable[[Array], Array]:
    """Zeros for what lies below."""
    return lambda x: np.where(np.abs(x) < np.float32(limit), np.copysign(np.float32(0), x), x)


def half_quotient(right: Stage, b: Array, sf: Array) -> Array:
    """The quotient in float16, where every input is a float16 number and the quotient is below its normal range."""
    v = right(b, sf)
    exact = b.astype(np.float16).astype(np.float32) == b
    with np.errstate(all="ignore"):
        return np.where(exact.all(axis=-1, keepdims=True), v.astype(np.float16).astype(np.float64), v)


def _division() -> Iterator[Bug]:
    for fmt in ("mxfp4", "mxfp6_e3m2", "mxfp8_e5m2", "mxint8"):
        yield one("byte-00-is-zero", "scale byte 00 divides as 0", fmt, "mx-floor", power=flushed(0.0))
        yield one("byte-00-is-2-126", "scale byte 00 divides as 2^-126", fmt, "mx-floor", power=flushed(2.0**-126))
        yield one("reciprocal-ftz", "the reciprocal of byte FE is flushed", fmt, "mx-floor", divide=reciprocal_flushed)
        yield one("daz-lanes", "subnormal lanes count as zero, not in the maximum", fmt, "mx-floor", divide=daz)
        yield one("daz-lanes-sign", "negative subnormal lanes become +0", fmt, "mx-floor", divide=daz_positive)
        yield one("ftz-quotient", "subnormal quotients flushed", fmt, "mx-floor", divide=ftz_quotient)
        yield one("ftz-quotient-sign", "negative subnormal quotients become +0", fmt, "mx-floor", divide=ftz_positive)
        yield one("bf16-daz", "bfloat16 subnormals are flushed on load", fmt, "mx-floor",
                  load=load_only(ml_dtypes.bfloat16, flush_below(2.0**-126)))  # fmt: skip
        yield one("fp16-daz", "float16 subnormals are flushed on load", fmt, "mx-floor",
                  load=load_only(np.float16, flush_below(2.0**-14)))  # fmt: skip
        yield one("fp16-smallest", "the smallest float16 number is lost on load", fmt, "mx-floor",
                  load=load_only(np.float16, flush_below(2.0**-23)))  # fmt: skip
        yield one("fp16-largest", "float16 of exponent 30 and all mantissa bits becomes Inf", fmt, "mx-floor",
                  load=load_only(np.float16, lambda x: np.copysign(np.where(np.abs(x) == 65504, np.float32(np.inf), np.abs(x)), x)))  # fmt: skip
        yield one("bf16-largest", "the largest bfloat16 becomes Inf", fmt, "mx-floor",
                  load=load_only(ml_dtypes.bfloat16, lambda x: np.copysign(np.where(np.abs(x) > 3.38e38, np.float32(np.inf), np.abs(x)), x)))  # fmt: skip
        yield one("fp16-inf", "float16 Inf widens to 65536", fmt, "mx-floor",
                  load=load_only(np.float16, lambda x: np.where(np.isinf(x), np.copysign(np.float32(65536), x), x)))  # fmt: skip
        yield one("fp16-nan", "float16 NaN with the lowest payload widens to Inf", fmt, "mx-floor",
                  load=fp16_nan)  # fmt: skip
        yield one("bf16-nan", "bfloat16 7f81 widens to Inf", fmt, "mx-floor", load=bf16_nan)
        yield one("fp16-quotient", "float16 inputs are divided in float16", fmt, "mx-floor", divide=half_quotient)


def fp16_nan(right: Stage, x: Array) -> Array:
    """7c01 read as Inf."""
    if np.asarray(x).dtype != np.float16:
        return right(x)
    low = np.ascontiguousarray(x).view(np.uint16) & 0x7FFF == 0x7C01
    return np.where(low, np.float32(np.inf), right(x))


def bf16_nan(right: Stage, x: Array) -> Array:
    """7f81 read as Inf."""
    if np.asarray(x).dtype != ml_dtypes.bfloat16:
        return right(x)
    low = np.ascontiguousarray(x).view(np.uint16) & 0x7FFF == 0x7F81
    return np.where(low, np.float32(np.inf), right(x))


BUGS = tuple(bug for make in (_maximum, _exponents, _division) for bug in make())
