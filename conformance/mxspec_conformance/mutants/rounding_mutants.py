"""Mutants of element rounding: what becomes of a quotient."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_conformance.mutants.schema import Family, Mutant
from mxspec_conformance.mutants.staged import Step

MX_FLOATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2")
FLOATS = (*MX_FLOATS, "nvfp4")
FP4 = ("mxfp4", "nvfp4")


def always(mode: str) -> Step:
    """Another rounding mode than the one requested."""
    return lambda c, magnitude, negative, _: reference.round_magnitude(c, magnitude, negative, mode)


def after(change: Any) -> Step:
    """Round to nearest even, then change (c, rounded, magnitude, negative)."""
    return lambda c, magnitude, negative, mode: change(c, reference.round_magnitude(c, magnitude, negative, mode), magnitude, negative)


def before(change: Any) -> Step:
    """Change (c, magnitude), then round to nearest even."""
    return lambda c, magnitude, negative, mode: reference.round_magnitude(c, change(c, magnitude), negative, mode)


def min_normal(c: Context) -> float:
    return float(c.element.min_normal)


def to_bfloat16(magnitude: Array, *, truncate: bool) -> Array:
    bits = np.minimum(magnitude, reference.FLT_MAX).astype(np.float32).view(np.uint32).astype(np.uint64)
    if not truncate:
        bits = bits + 0x7FFF + (bits >> 16 & 1)
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def to_float16(magnitude: Array, *, truncate: bool) -> Array:
    narrow = magnitude.astype(np.float16)
    if truncate:
        narrow = np.where(narrow.astype(np.float64) > magnitude, np.nextafter(narrow, np.float16(0)), narrow)
    return narrow.astype(np.float64)


def one_tie(place: Any, *, up: bool) -> Step:
    """One tie alone goes to the wrong side; place: c -> the tie and half the spacing around it."""

    def change(c: Context, rounded: Array, magnitude: Array, _: Array) -> Array:
        tie, half = place(c)
        return np.where(magnitude == tie, tie + half if up else tie - half, rounded)

    return after(change)


def above_one(c: Context) -> tuple[float, float]:
    half = 2.0 ** -(c.element.mantissa_bits + 1)
    return 1 + half, half


def lowest_tie(c: Context) -> tuple[float, float]:
    half = float(c.element.min_subnormal) / 2
    return half, half


def highest_tie(c: Context) -> tuple[float, float]:
    top, below = c.element.max_value, c.element.magnitude(c.element.max_code - 1)
    return float(top + below) / 2, float(top - below) / 2


def normal_tie(c: Context) -> tuple[float, float]:
    half = float(c.element.min_subnormal) / 2
    return min_normal(c) - half, half


def lose_carry(c: Context, rounded: Array, magnitude: Array, negative: Array) -> Array:
    """Codes cut, then rounded up by ORing the carry into the exponent field."""
    cut = reference.round_magnitude(c, magnitude, negative, "rtz")
    bits = c.element.mantissa_bits
    low = reference.code_magnitude(c, np.minimum(cut, 2.0**40))
    high = low + (rounded > cut)
    carried = (high >> bits) != (low >> bits)
    lost = carried & ((low >> bits & 1) == 1)
    return np.where(lost, cut - (cut - np.ldexp(1.0, reference.exponent_of(cut))) * (cut >= min_normal(c)), rounded)


def lose_subnormal_carry(c: Context, rounded: Array, magnitude: Array, _: Array) -> Array:
    bound = min_normal(c)
    return np.where((magnitude < bound) & (rounded >= bound), bound - float(c.element.min_subnormal), rounded)


def guard_only(c: Context, magnitude: Array) -> Array:
    half = float(c.element.min_subnormal) / 2
    return np.where(magnitude < min_normal(c), np.floor(magnitude / half) * half, magnitude)


def add_half_in_float32(c: Context, magnitude: Array, negative: Array, _: str) -> Array:
    step = reference.spacing(c.element, magnitude)
    total = (magnitude / step).astype(np.float32) + np.float32(0.5)
    low = np.floor(total)
    return (low - ((total == low) & (low % 2 == 1))).astype(np.float64) * step


def to_odd(c: Context, magnitude: Array, negative: Array, _: str) -> Array:
    step = reference.spacing(c.element, magnitude)
    count = magnitude / step
    low = np.floor(count)
    rest = count - low
    return (low + ((rest > 0.5) | ((rest == 0.5) & (low % 2 == 0)))) * step


def by_small_constant(c: Context, magnitude: Array, negative: Array, _: str) -> Array:
    """The nearer neighbour, the even one favoured by 1e-6."""
    step = reference.spacing(c.element, magnitude)
    low = np.floor(magnitude / step)
    to_low, to_high = magnitude - low * step, (low + 1) * step - magnitude
    even = low % 2 == 0
    return (low + (to_high - ~even * 1e-6 < to_low - even * 1e-6)) * step


def in_table(*values: float) -> Step:
    """The nearest of a table's values; the table's index is the code."""
    table = np.array(values)

    def step(c: Context, magnitude: Array, negative: Array, _: str) -> Array:
        index = np.abs(np.minimum(magnitude, 1e30)[..., None] - table).argmin(axis=-1)
        return np.array([float(c.element.magnitude(i)) for i in range(8)])[index]

    return step


def clamp(limit: float | dict[str, float]) -> Step:
    """Saturation at another constant."""
    return lambda c, rounded, magnitude: np.minimum(rounded, limit[c.element.name] if isinstance(limit, dict) else limit)


def clamp_from(threshold: float) -> Step:
    """Everything from a threshold on becomes the largest value."""
    return lambda c, rounded, magnitude: np.where(
        magnitude >= threshold, reference.largest(c.element), reference.saturate(c, rounded, magnitude)
    )


def overflow_to(code: int, beyond: float) -> Step:
    """Magnitudes that round beyond the largest value get another code."""
    return lambda c, value: np.where(value > beyond, code, reference.code_magnitude(c, np.minimum(value, beyond)))


def no_saturation(c: Context, rounded: Array, magnitude: Array) -> Array:
    return rounded


def _drop_top_odd(c: Context, value: Array) -> Array:
    codes = reference.code_magnitude(c, value)
    return np.where(codes == c.element.max_code, codes - 1, codes)


_F = Family.ROUNDING

MUTANTS: tuple[Mutant, ...] = (
    Mutant(id="ties-away", source="P01", family=_F, formats=FLOATS, what="every exact tie rounds away from zero", change={"round_magnitude": always("rna")}),
    Mutant(id="truncate", source="P02", family=_F, formats=FLOATS, what="low bits are dropped", change={"round_magnitude": always("rtz")}),
    Mutant(id="element-subnormal-flush", source="P03", family=_F, formats=FLOATS, what="results below the smallest normal element become zero", change={"round_magnitude": after(lambda c, rounded, magnitude, _: np.where(rounded < min_normal(c), 0, rounded))}),
    Mutant(id="one-tie-above-one", source="P04", family=_F, formats=FLOATS, what="the tie just above 1 alone goes up", change={"round_magnitude": one_tie(above_one, up=True)}),
    Mutant(id="carry-lost", source="P05", family=_F, formats=FLOATS, what="the rounding carry is ORed into the exponent field and lost where that bit is set", change={"round_magnitude": after(lose_carry)}),
    Mutant(id="double-round-fp16", source="P06", family=_F, formats=FLOATS, what="quotients are rounded to float16 first", change={"round_magnitude": before(lambda c, m: to_float16(m, truncate=False))}),
    Mutant(id="e4m3-overflow-nan", source="P07", family=_F, formats=("mxfp8_e4m3",), what="beyond 464 the code is NaN", change={"saturate": no_saturation, "code_magnitude": overflow_to(0x7F, 448)}),
    Mutant(id="subnormal-guard-only", source="P08", family=_F, formats=FLOATS, what="below the smallest normal only one guard bit is kept", change={"round_magnitude": before(guard_only)}),
    Mutant(id="e4m3-clamp-224", source="P09", family=_F, formats=("mxfp8_e4m3",), what="clamped at 224, half the range of the fnuz type's neighbour", change={"saturate": clamp(224)}),
    Mutant(id="linear-table", source="S0", family=_F, formats=FP4, what="the codes of e2m1 are taken for 0, 0.5, 1, ... 3.5", change={"round_magnitude": in_table(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5)}),
    Mutant(id="table-without-1.5", source="S1", family=_F, formats=FP4, what="the fourth e2m1 value is taken for 1, so that 1.5 is never written", change={"round_magnitude": in_table(0, 0.5, 1, 1, 2, 3, 4, 6)}),
    Mutant(id="table-to-3", source="S3", family=_F, formats=FP4, what="the largest e2m1 value is taken for 3", change={"round_magnitude": in_table(0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3)}),
    Mutant(id="ties-to-zero", source="ROCm/aiter#2247 and others", family=_F, formats=FLOATS, what="a search for the nearest code keeps the lower one of a tie", change={"round_magnitude": always("rnz")}),
    Mutant(id="ties-up", source="ROCm/aiter#2247", family=_F, formats=FLOATS, what="ties go toward +infinity", change={"round_magnitude": always("rnu")}),
    Mutant(id="floor-signed", source="own", family=_F, formats=FLOATS, what="floor() of the signed quotient", change={"round_magnitude": always("rtn")}),
    Mutant(id="ceil-signed", source="own", family=_F, formats=FLOATS, what="ceil() of the signed quotient", change={"round_magnitude": always("rtp")}),
    Mutant(id="ties-to-odd", source="own", family=_F, formats=FLOATS, what="the parity test is inverted: ties go to the odd code", change={"round_magnitude": to_odd}),
    Mutant(id="add-half-float32", source="own", family=_F, formats=FLOATS, what="floor(steps + 0.5) in float32 rounds up just below a tie", change={"round_magnitude": add_half_in_float32}),
    Mutant(id="tie-by-constant", source="triton tools/mxfp", family=_F, formats=FP4, what="the even neighbour is favoured by 1e-6, which moves values just above a tie too", change={"round_magnitude": by_small_constant}),
    Mutant(id="fp16-truncated-first", source="FlashML-org/FreeToken#85", family=_F, formats=FLOATS, what="quotients are cut to float16, which makes ties of what lay just above them", change={"round_magnitude": before(lambda c, m: to_float16(m, truncate=True))}),
    Mutant(id="bf16-truncated-first", source="onnx/onnx#5456", family=_F, formats=FLOATS, what="the sticky bit sees the upper half of the word only", change={"round_magnitude": before(lambda c, m: to_bfloat16(m, truncate=True))}),
    Mutant(id="double-round-bf16", source="ROCm/aiter#3147", family=_F, formats=FLOATS, what="quotients are rounded to bfloat16 first", change={"round_magnitude": before(lambda c, m: to_bfloat16(m, truncate=False))}),
    Mutant(id="lowest-tie-up", source="own", family=_F, formats=FLOATS, what="half the smallest element alone goes up", change={"round_magnitude": one_tie(lowest_tie, up=True)}),
    Mutant(id="highest-tie-wrong", source="own", family=_F, formats=MX_FLOATS, what="the tie below the largest value alone goes to the other side", change={"round_magnitude": after(lambda c, r, m, n: np.where(m == highest_tie(c)[0], highest_tie(c)[0] * 2 - r, r))}),
    Mutant(id="normal-tie-down", source="own", family=_F, formats=FLOATS, what="the tie below the smallest normal value alone goes down", change={"round_magnitude": one_tie(normal_tie, up=False)}),
    Mutant(id="flush-by-input", source="tenstorrent/tt-metal#29734", family=_F, formats=FLOATS, what="quotients below the smallest normal become zero before they are rounded", change={"round_magnitude": after(lambda c, rounded, magnitude, _: np.where(magnitude < min_normal(c), 0, rounded))}),
    Mutant(id="subnormal-carry-lost", source="own", family=_F, formats=FLOATS, what="a subnormal that rounds up to the smallest normal stays the largest subnormal", change={"round_magnitude": after(lose_subnormal_carry)}),
    Mutant(id="clamp-one-short", source="own", family=_F, formats=FLOATS, what="the largest code is never written", change={"code_magnitude": _drop_top_odd}),
    Mutant(id="e4m3-clamp-240", source="own", family=_F, formats=("mxfp8_e4m3",), what="clamped at 240, the largest value of the fnuz type", change={"saturate": clamp(240)}),
    Mutant(id="e4m3-from-256", source="tenstorrent/tt-metal#29734", family=_F, formats=("mxfp8_e4m3",), what="exponent 8 counts as overflow: from 256 on all is 448", change={"saturate": clamp_from(256)}),
    Mutant(id="e4m3-overflow-late", source="stillwater-sc/universal#1302", family=_F, formats=("mxfp8_e4m3",), what="only what rounds to 512 or more saturates, 480 becomes NaN", change={"saturate": lambda c, r, m: np.where(r > 480, 448, r)}),
    Mutant(id="e5m2-overflow-inf", source="own", family=_F, formats=("mxfp8_e5m2",), what="beyond the largest value the code is Inf", change={"saturate": no_saturation, "code_magnitude": overflow_to(0x7C, 57344)}),
    Mutant(id="code-wraps", source="own", family=_F, formats=("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2"), what="an overflowing code is cut to its field: it wraps to zero", change={"saturate": no_saturation, "code_magnitude": lambda c, value: reference.code_magnitude(c, np.minimum(value, 2.0**20)) & ((1 << c.element.magnitude_bits) - 1)}),
    Mutant(id="overflow-to-sign", source="own", family=_F, formats=("mxfp4", "nvfp4"), what="an overflowing code sets the sign bit", change={"saturate": lambda c, r, m: np.minimum(r, 8), "code_magnitude": lambda c, v: reference.code_magnitude(c, v)}),
    Mutant(id="subnormal-sign-lost", source="own", family=_F, formats=FLOATS, what="negative subnormals lose their sign", change={"join_sign": lambda c, codes, negative: reference.join_sign(c, codes, negative & (codes > (1 << c.element.mantissa_bits) - 1))}),
)  # fmt: skip
