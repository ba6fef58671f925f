"""Mutants of the MX scales (amax to byte), and of what special values do to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.decode_mutants import MX
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_conformance.mutants.rounding_mutants import FLOATS, MX_FLOATS
from mxspec_conformance.mutants.schema import Family, Mutant
from mxspec_conformance.mutants.staged import Step

EVERY = (*MX, "nvfp4")
NAN_BITS = np.uint32(0x7FC00000)


def exponent(change: Callable[[Context, Array, Array], Any]) -> Step:
    """The profile's exponent, changed: (c, amax, right exponent)."""
    return lambda c, amax: change(c, amax, reference.find_exponent(c, amax))


def amax_of(choose: Callable[[Array], Array]) -> Step:
    """The maximum over some lanes."""
    return lambda c, x: reference.find_amax(c, choose(x))


def amax_as(change: Callable[[Array], Array]) -> Step:
    """The maximum, changed afterwards."""
    return lambda c, x: change(reference.find_amax(c, x))


def rounded_log2(amax: Array) -> Array:
    """log2 in double precision, rounded to float32: what a good log2f returns."""
    return np.array([_log2f(x) for x in amax.tolist()], np.float32)


def _log2f(x: float) -> float:
    fraction, e = np.frexp(x)
    # log2(x) = e + log2(fraction); log1p keeps what lies just below a power of two.
    return float(e) + float(np.log1p(fraction - 1)) / float(np.log(2.0))


def log2f_floor(c: Context, amax: Array) -> Array:
    return np.floor(rounded_log2(amax)).astype(np.int64) - c.element.emax


def amax_without_sign(c: Context, x: Array) -> Array:
    signed = x.max(axis=1)
    return np.where(np.isnan(signed), signed, np.maximum(signed, 0))


def ratio_floor(c: Context, amax: Array) -> Array:
    """floor(log2(amax / max)) with the quotient in float32."""
    return reference.exponent_of((amax.astype(np.float32) / np.float32(reference.largest(c.element))).astype(np.float64))


def ratio_round(c: Context, amax: Array) -> Array:
    """Nearest power of two of amax / max, by log2."""
    ratio = amax / reference.largest(c.element)
    e = reference.exponent_of(ratio)
    return e + (np.ldexp(ratio, -e) > np.sqrt(2.0))


def clamped(low: int, high: int) -> Step:
    return lambda c, e: np.clip(e + 127, low, high)


def special(zero: int = 0, inf: int = 254, nan: int = 255) -> Step:
    def step(c: Context, stored: Array, amax: Array) -> Array:
        stored = np.where(amax == 0, zero, stored)
        return np.where(np.isnan(amax), nan, np.where(np.isinf(amax), inf, stored))

    return step


def exact_ratio_scale(c: Context, stored: Array, amax: Array) -> Array:
    """The number by which elements are divided is amax / max itself."""
    ratio = (amax.astype(np.float32) / np.float32(reference.largest(c.element))).astype(np.float64)
    return np.where((stored == 255) | (amax == 0) | np.isinf(amax), reference.use_scale(c, stored, amax), ratio)


def unclamped_scale(c: Context, stored: Array, amax: Array) -> Array:
    """The number by which elements are divided comes from the exponent before it was clamped."""
    ordinary = np.isfinite(amax) & (amax > 0)
    e = reference.find_exponent(c, np.where(ordinary, amax, 1).astype(np.float64))
    return np.where(ordinary, np.ldexp(1.0, e), reference.use_scale(c, stored, amax))


def scale_when(condition: Callable[[Array], Array], value: float) -> Step:
    return lambda c, stored, amax: np.where(condition(stored), value, reference.use_scale(c, stored, amax))


def reciprocal_in_float32(c: Context, x: Array, scale: Array) -> Array:
    """x * (1 / scale), with the reciprocal 2^-127 of the byte FE flushed to zero."""
    factor = (1 / scale).astype(np.float32)
    factor = np.where(np.abs(factor) < 2.0**-126, np.float32(0), factor)
    return (x * factor[:, None]).astype(np.float64)


def flush_small(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def at_least(limit: float) -> Step:
    return amax_as(lambda a: np.maximum(a, np.float32(limit)))


def nan_as(value: float) -> Step:
    return lambda c, x: np.where(np.isnan(x), np.float32(value), x)


def nan_only_quiet(c: Context, x: Array) -> Array:
    """Only the NaN 7fc00000 counts as one; others become the largest number."""
    quiet = (x.view(np.uint32) & np.uint32(0x7FFFFFFF)) == NAN_BITS
    return np.where(np.isnan(x) & ~quiet, np.copysign(reference.FLT_MAX, x), x)


def running(replaces: Callable[[Array, Array], Array]) -> Step:
    """A maximum over the lanes, one after the other: replaces(value, maximum so far)."""

    def step(c: Context, x: Array) -> Array:
        m = np.abs(x[:, 0])
        for value in np.abs(x[:, 1:]).T:
            m = np.where(replaces(value, m), value, m)
        return m

    return step


def minus_zero(c: Context, codes: Array, negative: Array) -> Array:
    return reference.join_sign(c, codes, negative | (codes == 0))


def codes_when(condition: Callable[[Context, Array, Array], Array], code: Callable[[Context], int]) -> Step:
    """Other codes in some blocks: condition(c, stored, x) of shape [n]."""

    def step(c: Context, codes: Array, stored: Array, x: Array) -> tuple[Array, Array]:
        codes, stored = reference.finish(c, codes, stored, x)
        return np.where(condition(c, stored, x)[:, None], code(c), codes), stored

    return step


def zero_block_codes(c: Context) -> int:
    if c.element.twos_complement:
        return 127
    return c.element.nan_code or c.element.max_code


def zeros(c: Context, stored: Array, x: Array) -> Array:
    return ~x.any(axis=1)


def infinity_unsigned(c: Context, codes: Array, stored: Array, x: Array) -> tuple[Array, Array]:
    codes, stored = reference.finish(c, codes, stored, x)
    return np.where(np.isneginf(x) & (stored != 255)[:, None], c.element.max_code, codes), stored


_S, _Z, _I, _E = Family.SHARED, Family.SPECIAL, Family.INT8, Family.E8M0
RCEIL, EVEN, CEIL = "mx-rceil", "mx-even", "mx-ceil"

_RULES = tuple(reference.EXPONENTS)


MUTANTS: tuple[Mutant, ...] = (
    *(
        Mutant(id=f"{other}-for-{asked}", source="own", family=_S, formats=MX, profile=asked, what=f"the scale rule of {other} where {asked} is claimed", change={"find_exponent": reference.EXPONENTS[other]})
        for asked in _RULES for other in _RULES if other != asked
    ),
    Mutant(id="exponent-ceil", source="P18", family=_S, formats=MX, what="ceil(log2 amax) where the rule is floor", change={"find_exponent": lambda c, a: reference.exponent_ceil(c, a)}),
    Mutant(id="exponent-of-quotient", source="P19", family=_S, formats=MX_FLOATS, what="floor(log2(amax / max)) instead of floor(log2 amax) - emax", change={"find_exponent": ratio_floor}),
    Mutant(id="emax-not-subtracted", source="P20", family=_S, formats=MX_FLOATS, what="emax is not subtracted", change={"find_exponent": exponent(lambda c, a, e: e + c.element.emax)}),
    Mutant(id="emax-subtracted-twice", source="P21", family=_S, formats=MX_FLOATS, what="the stored byte is emax too small, the codes are not", change={"finish": lambda c, k, s, x: (reference.finish(c, k, s, x)[0], np.where(s == 255, s, np.maximum(s - c.element.emax, 0)))}),
    Mutant(id="float-log2", source="P22", family=_S, formats=MX, what="the exponent is floor of a float32 log2", change={"find_exponent": log2f_floor}),
    Mutant(id="amax-first-half", source="P23", family=_S, formats=EVERY, what="the maximum of the first half of the block", change={"find_amax": amax_of(lambda x: x[:, : x.shape[1] // 2])}),
    Mutant(id="amax-signed", source="P24", family=_S, formats=EVERY, what="the signed maximum", change={"find_amax": amax_without_sign}),
    Mutant(id="byte-wraps", source="P25", family=_S, formats=MX, what="exponent + 127 modulo 256 instead of clamped", change={"store_exponent": lambda c, e: (e + 127) & 0xFF}),
    Mutant(id="amax-fp16", source="P26", family=_S, formats=MX, what="the maximum is held in float16", change={"find_amax": amax_as(lambda a: a.astype(np.float16).astype(np.float32))}),
    Mutant(id="rceil-nearest", source="P27", family=_S, formats=MX, profile=RCEIL, what="rceil: nearest power of two instead of the next one up", change={"find_exponent": ratio_round}),
    Mutant(id="rceil-scale-afterwards", source="P28", family=_S, formats=MX_FLOATS, profile=RCEIL, what="rceil: elements are divided by amax / max itself, the scale is rounded afterwards", change={"use_scale": exact_ratio_scale}),
    Mutant(id="zero-block-nan", source="P34", family=_Z, formats=MX, what="a block of zeros gives NaN codes, or the largest", change={"finish": codes_when(zeros, zero_block_codes)}),
    Mutant(id="nv-zero-block-nan", source="P34", family=_Z, formats=("nvfp4",), what="a block of zeros gives the largest codes", change={"code_nan": lambda c, codes, x, scaled: np.where(~x.any(axis=1)[:, None], 7, reference.code_nan(c, codes, x, scaled))}),
    Mutant(id="nan-ignored", source="P35", family=_Z, formats=MX, what="fmax drops NaN: the scale is finite, the lane becomes the largest number", change={"find_amax": lambda c, x: np.fmax.reduce(np.abs(x), axis=1, initial=0), "code_nan": lambda c, k, x, s: np.where(np.isnan(s), c.element.max_code, k)}),
    Mutant(id="input-ftz", source="P36", family=_Z, formats=EVERY, what="subnormal inputs are flushed to zero", change={"load": lambda c, x: flush_small(x)}),
    Mutant(id="eps-1e-5", source="P37", family=_Z, formats=EVERY, what="the maximum is at least 1e-5", change={"find_amax": at_least(1e-5)}),
    Mutant(id="int8-truncate", source="P64", family=_I, formats=("mxint8",), what="the cast to integers cuts", change={"round_magnitude": lambda c, m, n, _: reference.round_magnitude(c, m, n, "rtz")}),
    Mutant(id="ocp-blocks-of-16", source="S0", family=_S, formats=MX, what="halves of 16 have scales of their own; the first one's is stored", change={"find_amax": amax_of(lambda x: x[:, :16]), "use_scale": lambda c, s, a: reference.use_scale(c, s, a)}),
    Mutant(id="amax-second-half", source="own", family=_S, formats=EVERY, what="the maximum of the second half of the block", change={"find_amax": amax_of(lambda x: x[:, x.shape[1] // 2 :])}),
    Mutant(id="amax-but-last", source="own", family=_S, formats=EVERY, what="the last lane is left out of the maximum", change={"find_amax": amax_of(lambda x: x[:, :-1])}),
    Mutant(id="amax-but-first", source="own", family=_S, formats=EVERY, what="the first lane is left out of the maximum", change={"find_amax": amax_of(lambda x: x[:, 1:])}),
    Mutant(id="amax-even-lanes", source="own", family=_S, formats=EVERY, what="only even lanes are searched", change={"find_amax": amax_of(lambda x: x[:, ::2])}),
    Mutant(id="amax-but-lane-17", source="own", family=_S, formats=MX, what="lane 17 is left out of the maximum", change={"find_amax": amax_of(lambda x: np.delete(x, 17, axis=1))}),
    Mutant(id="amax-negative-only", source="own", family=_S, formats=EVERY, what="the magnitude of the minimum alone", change={"find_amax": lambda c, x: amax_without_sign(c, -x)}),
    Mutant(id="amax-bf16", source="own", family=_S, formats=EVERY, what="the maximum is rounded to bfloat16", change={"find_amax": amax_as(lambda a: np.where(np.isnan(a), a, ((a.view(np.uint32).astype(np.uint64) + 0x7FFF + (a.view(np.uint32) >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)))}),
    Mutant(id="amax-is-sum-of-halves", source="own", family=_S, formats=EVERY, what="the maxima of both halves are added instead of compared", change={"find_amax": lambda c, x: np.abs(x[:, : x.shape[1] // 2]).max(axis=1) + np.abs(x[:, x.shape[1] // 2 :]).max(axis=1)}),
    Mutant(id="power-of-two-one-down", source="own", family=_S, formats=MX, what="exact powers of two get the exponent below: frexp without the correction", change={"find_exponent": exponent(lambda c, a, e: e - (np.frexp(a)[0] == 0.5))}),
    Mutant(id="exponent-plus-one", source="own", family=_S, formats=MX, what="the exponent of frexp, one too high", change={"find_exponent": exponent(lambda c, a, e: e + 1)}),
    Mutant(id="emax-of-another-format", source="own", family=_S, formats=("mxfp6_e3m2", "mxfp8_e5m2"), what="the emax of the format with the same width is subtracted", change={"find_exponent": exponent(lambda c, a, e: e + c.element.emax - (2 if c.element.name == "e3m2" else 8))}),
    Mutant(id="even-adds-quarter", source="own", family=_S, formats=MX, profile=EVEN, what="even: a quarter of a unit is added instead of half", change={"find_exponent": lambda c, a: _even(c, a, 1)}),
    Mutant(id="even-adds-unit", source="own", family=_S, formats=MX, profile=EVEN, what="even: a whole unit is added instead of half", change={"find_exponent": lambda c, a: _even(c, a, -1)}),
    Mutant(id="even-exclusive", source="own", family=_S, formats=MX, profile=EVEN, what="even: the bound itself is not rounded up", change={"find_exponent": lambda c, a: _even(c, a, 0, exclusive=True)}),
    Mutant(id="even-of-e2m1", source="own", family=_S, formats=("mxfp6_e2m3", "mxfp8_e4m3"), profile=EVEN, what="even: the rounding bit of e2m1 whatever the format", change={"find_exponent": lambda c, a: reference.exponent_of(a) + (np.ldexp(a, -reference.exponent_of(a)) >= 1.75) - c.element.emax}),
    Mutant(id="rceil-exclusive", source="own", family=_S, formats=MX, profile=RCEIL, what="rceil: a maximum that just fits gets the next scale", change={"find_exponent": lambda c, a: reference.exponent_of(a) - c.element.emax + (a >= np.ldexp(reference.largest(c.element), reference.exponent_of(a) - c.element.emax))}),
    Mutant(id="rceil-reciprocal", source="own", family=_S, formats=MX, profile=RCEIL, what="rceil: amax * fl(1 / max) in float32, then rounded up", change={"find_exponent": lambda c, a: _ceil32(a.astype(np.float32) * (reference.ONE / np.float32(reference.largest(c.element))))}),
    Mutant(id="rceil-float32-quotient", source="own", family=_S, formats=MX_FLOATS, profile=RCEIL, what="rceil: the quotient is rounded to float32 before it is rounded up", change={"find_exponent": lambda c, a: _ceil32(a.astype(np.float32) / np.float32(reference.largest(c.element)))}),
    Mutant(id="ceil-mantissa-upper-half", source="own", family=_S, formats=MX, profile=CEIL, what="ceil: only the upper 16 bits of the word are tested for a remainder", change={"find_exponent": lambda c, a: reference.exponent_of(a) + ((a.astype(np.float32).view(np.uint32) & 0x7F0000) != 0) - c.element.emax}),
    Mutant(id="byte-ceiling-255", source="own", family=_E, formats=("mxint8",), profile=CEIL, what="exponents are clamped at byte FF: the largest blocks become NaN", change={"store_exponent": clamped(0, 255)}),
    Mutant(id="byte-floor-1", source="own", family=_E, formats=MX, what="scale byte 00 is never written", change={"store_exponent": clamped(1, 254)}),
    Mutant(id="byte-floor-nan", source="ROCm/rocm-systems#2461", family=_E, formats=MX, what="an exponent below the range underflows to FF", change={"store_exponent": lambda c, e: np.where(e < -127, 255, reference.store_exponent(c, e))}),
    Mutant(id="scale-before-clamp", source="own", family=_S, formats=MX_FLOATS, what="elements are divided by the scale as it was before it was clamped", change={"use_scale": unclamped_scale}),
    Mutant(id="byte-0-divides-by-min-normal", source="own", family=_E, formats=MX, what="while quantizing byte 00 counts as 2^-126", change={"use_scale": scale_when(lambda s: s == 0, 2.0**-126)}),
    Mutant(id="byte-0-divides-by-one", source="own", family=_E, formats=MX, what="while quantizing byte 00 counts as 1", change={"use_scale": scale_when(lambda s: s == 0, 1.0)}),
    Mutant(id="reciprocal-flushed", source="own", family=_E, formats=("mxint8",), what="the reciprocal of the largest scale is flushed to zero", change={"divide": reciprocal_in_float32}),
    Mutant(id="scale-one-off-stored", source="own", family=_E, formats=MX, what="the stored byte is one too large, the codes are not", change={"finish": lambda c, k, s, x: (reference.finish(c, k, s, x)[0], np.where((s < 254) & x.any(axis=1), s + 1, s))}),
    Mutant(id="infinity-ignored", source="own", family=_Z, formats=EVERY, what="infinities count as zeros", change={"load": lambda c, x: np.where(np.isinf(x), np.float32(0), x)}),
    Mutant(id="infinity-as-scale-one", source="own", family=_Z, formats=MX, what="a block with an infinity gets scale 7F", change={"store_special": special(inf=127)}),
    Mutant(id="infinity-scale-00", source="own", family=_Z, formats=MX, what="a block with an infinity gets scale 00: the exponent wrapped", change={"store_special": special(inf=0)}),
    Mutant(id="infinity-sign-lost", source="own", family=_Z, formats=MX, what="-Inf becomes the positive largest value", change={"finish": infinity_unsigned}),
    Mutant(id="nan-is-zero", source="own", family=_Z, formats=EVERY, what="NaN counts as zero", change={"load": nan_as(0.0)}),
    Mutant(id="nan-is-infinity", source="own", family=_Z, formats=MX, what="a NaN makes the scale that of an infinity", change={"store_special": special(nan=254)}),
    Mutant(id="nan-not-quiet-missed", source="own", family=_Z, formats=EVERY, what="only the NaN 7fc00000 is recognised", change={"load": nan_only_quiet}),
    Mutant(id="nan-first-lane-only", source="own", family=_Z, formats=EVERY, what="a NaN is noticed in lane 0 only: a running maximum by >", change={"find_amax": running(lambda value, m: value > m)}),
    Mutant(id="nan-resets-maximum", source="own", family=_Z, formats=EVERY, what="a NaN is forgotten if a lane follows: a running maximum by not <=", change={"find_amax": running(lambda value, m: ~(value <= m))}),
    Mutant(id="zero-sign-plus", source="own", family=_Z, formats=FLOATS, what="zeros lose their sign", change={"join_sign": lambda c, codes, negative: reference.join_sign(c, codes, negative & (codes != 0))}),
    Mutant(id="zero-sign-minus", source="own", family=_Z, formats=FLOATS, what="zeros become negative", change={"join_sign": minus_zero}),
    Mutant(id="zero-sign-flipped", source="jax-ml/ml_dtypes", family=_Z, formats=FLOATS, what="zeros flip their sign", change={"join_sign": lambda c, codes, negative: reference.join_sign(c, codes, negative ^ (codes == 0))}),
    Mutant(id="zero-block-scale-ff", source="own", family=_Z, formats=MX, what="a block of zeros is stored as NaN", change={"store_special": special(zero=255)}),
    Mutant(id="zero-block-codes-one", source="own", family=_Z, formats=MX, what="a block of zeros gets the smallest element", change={"finish": codes_when(zeros, lambda c: 1)}),
    Mutant(id="eps-1e-30", source="own", family=_Z, formats=EVERY, what="the maximum is at least 1e-30", change={"find_amax": at_least(1e-30)}),
    Mutant(id="eps-min-normal", source="own", family=_Z, formats=("mxint8",), what="the maximum is at least 2^-100", change={"find_amax": at_least(2.0**-100)}),
    Mutant(id="eps-added", source="own", family=_Z, formats=EVERY, what="1e-8 is added to the maximum", change={"find_amax": amax_as(lambda a: a + np.float32(1e-8))}),
    Mutant(id="int8-half-away", source="own", family=_I, formats=("mxint8",), what="ties away from zero", change={"round_magnitude": lambda c, m, n, _: reference.round_magnitude(c, m, n, "rna")}),
    Mutant(id="int8-half-up-signed", source="own", family=_I, formats=("mxint8",), what="floor(x + 0.5): ties go up", change={"round_magnitude": lambda c, m, n, _: reference.round_magnitude(c, m, n, "rnu")}),
    Mutant(id="int8-floor", source="own", family=_I, formats=("mxint8",), what="an arithmetic shift: toward -infinity", change={"round_magnitude": lambda c, m, n, _: reference.round_magnitude(c, m, n, "rtn")}),
    Mutant(id="int8-wraps", source="own", family=_I, formats=("mxint8",), what="128 wraps to -128", change={"saturate": lambda c, r, m: np.minimum(r, 2.0)}),
    Mutant(id="int8-clamp-126", source="own", family=_I, formats=("mxint8",), what="clamped at 126", change={"saturate": lambda c, r, m: np.minimum(r, 126 / 64)}),
    Mutant(id="int8-sign-magnitude-out", source="own", family=_I, formats=("mxint8",), what="negative codes are sign and magnitude", change={"join_sign": lambda c, k, n: np.where(n, k | 128, k)}),
    Mutant(id="int8-ones-complement", source="own", family=_I, formats=("mxint8",), what="negative codes are the complement of the magnitude", change={"join_sign": lambda c, k, n: np.where(n, ~k & 255, k)}),
    Mutant(id="int8-scale-127", source="own", family=_I, formats=("mxint8",), what="elements are multiplied by 127/2 instead of 64", change={"divide": lambda c, x, s: reference.divide(c, x, s) * (63.5 / 64)}),
)  # fmt: skip


def _even(c: Context, amax: Array, shift: int, *, exclusive: bool = False) -> Array:
    bits = c.element.mantissa_bits - (c.element.exponent_bits == 0)
    e = reference.exponent_of(amax)
    total = np.ldexp(amax, -e) + 2.0 ** -(bits + 1 + shift)
    return e + (total > 2 if exclusive else total >= 2) - c.element.emax


def _ceil32(ratio: Array) -> Array:
    value = ratio.astype(np.float64)
    return reference.exponent_of(value) + (np.frexp(value)[0] != 0.5)
