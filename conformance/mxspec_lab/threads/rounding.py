"""Threads about casts to element formats: which neighbour, and what beyond the largest."""

from __future__ import annotations

from functools import partial

import numpy as np

from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_conformance.mutants.rounding_mutants import (
    always,
    before,
    clamp_from,
    guard_only,
    lose_carry,
    no_saturation,
    overflow_to,
    to_bfloat16,
    to_float16,
)
from mxspec_lab.threads.building import changed, right
from mxspec_lab.threads.schema import Family, Level, Source, Thread

#: Marks magnitudes that become NaN: beyond every value of the format.
_NAN = 2.0**40


def to_nearest_away(c: Context, magnitude: Array, negative: Array, mode: str) -> Array:
    """Ties away where ties to even are asked for; other modes as they are."""
    return reference.round_magnitude(c, magnitude, negative, "rna" if mode == "rne" else mode)


def carry_lost(c: Context, magnitude: Array, negative: Array, mode: str) -> Array:
    """To nearest: the carry into the exponent field is ORed."""
    rounded = reference.round_magnitude(c, magnitude, negative, mode)
    return lose_carry(c, rounded, magnitude, negative) if mode == "rne" else rounded


def through_float16(c: Context, magnitude: Array, negative: Array, mode: str) -> Array:
    """To nearest: rounded to float16 first."""
    narrow = to_float16(magnitude, truncate=False) if mode == "rne" else magnitude
    return reference.round_magnitude(c, narrow, negative, mode)


def cut_and_flushed(c: Context, magnitude: Array, negative: Array, mode: str) -> Array:
    """To nearest: bits below the last are dropped, and so is what lies below the smallest normal number."""
    cut = reference.round_magnitude(c, magnitude, negative, "rtz" if mode == "rne" else mode)
    return np.where((magnitude < 2.0**-6) & (mode == "rne"), 0, cut)


def rounded_twice_below(c: Context, magnitude: Array, negative: Array, mode: str) -> Array:
    """To nearest: subnormals are rounded to four significant bits first."""
    step = np.ldexp(1.0, reference.exponent_of(magnitude) - 3)
    count = np.floor(magnitude / step)
    once = (count + reference.goes_up(magnitude / step, negative, "rne")) * step
    small = (magnitude < 2.0**-6) & (magnitude > 0) & (mode == "rne")
    return reference.round_magnitude(c, np.where(small, once, magnitude), negative, mode)


def finite_overflow_is_nan(c: Context, rounded: Array, magnitude: Array) -> Array:
    """What ends at or above 512 and is below 57344 becomes NaN, what lies beyond saturates."""
    return np.where((rounded >= 512) & (magnitude < 57344), _NAN, reference.saturate(c, rounded, magnitude))


def coarse_below(c: Context, magnitude: Array, negative: Array, mode: str) -> Array:
    """To nearest: below 2^-6 codes count steps of 2^-6, not of 2^-9."""
    coarse = np.rint(magnitude / 2.0**-6) * 2.0**-9
    right_values = reference.round_magnitude(c, magnitude, negative, mode)
    return np.where((magnitude < 2.0**-6) & (mode == "rne"), coarse, right_values)


def largest_code(c: Context, values: Array) -> Array:
    """The largest finite number where the format's own code is asked for."""
    return reference.join_sign(c, np.full(np.shape(values), c.element.max_code), np.signbit(values))


_encode = partial(
    Thread, family=Family.ROUNDING, operations=("encode",), formats=("e4m3",), only="encode/e4m3/*", fixed=right()
)
_quantize = partial(Thread, family=Family.ROUNDING, operations=("quantize",), level=Level.QUICK)

THREADS = (
    _quantize(
        id="aiter-3992", reference="ROCm/aiter#3992", also=("ROCm/aiter#4030", "ROCm/aiter#2247"), formats=("mxfp4",), judged=("mxfp4",), only="*/mxfp4/*", profile="mx-even",
        title="The FP4 cast that is named after even rounding sends ties away from zero",
        wrong="All seven thresholds are inclusive, so that 0.25, 1.25, 2.5 and 5 go up to an odd code.",
        broken=changed("mx-even", round_magnitude=always("rna")), fixed=right("mx-even"), fails=("quantize/mxfp4/tie-even",), names="ties away from zero",
    ),
    _quantize(
        id="tt-metal-51971", reference="tenstorrent/tt-metal#51971", also=("tenstorrent/tt-metal#51975",), formats=("mxfp4",), judged=("mxfp4",), only="*/mxfp4/*", profile="mx-floor",
        title="The MX element encoder rounds subnormals at the wrong bit",
        wrong="Below the smallest normal number bits beyond the first dropped one are lost: 0.25000006 counts as the tie 0.25 and becomes 0.",
        differs="Of three defects in the report this is the one about sticky bits.",
        broken=changed(round_magnitude=before(guard_only)), fixed=right(), fails=("quantize/mxfp4/above-tie",), names="more than a tie counts as a tie",
    ),
    _quantize(
        id="freetoken-85", reference="FlashML-org/FreeToken#85", formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="*/mxfp8_e4m3/*", profile="mx-floor",
        title="E4M3 codes are too small by one for a few numbers in a thousand, never too large",
        wrong="float32 is cut to float16 first, which makes a tie of what lies just above one.",
        differs="The report is of a cast under a float32 scale; here it stands in MXFP8.",
        broken=changed(round_magnitude=before(lambda c, m: to_float16(m, truncate=True))), fixed=right(), fails=("quantize/mxfp8_e4m3/above-tie",), names="held in float16 by cutting",
    ),
    _quantize(
        id="aiter-3147", reference="ROCm/aiter#3147", source=Source.NOTE, formats=("mxfp4",), judged=("mxfp4",), only="*/mxfp4/*", profile="mx-floor",
        title="Scaled values pass through bfloat16 before they become FP4 codes", wrong="The quotient is rounded to bfloat16 first, and so rounded twice.",
        broken=changed(round_magnitude=before(lambda c, m: to_bfloat16(m, truncate=False))), fixed=right(), fails=("quantize/mxfp4/above-tie",), names="held in bfloat16",
    ),
    _quantize(
        id="pytorch-178817", reference="pytorch/pytorch#178817", also=("pytorch/ao#4364", "jax-ml/ml_dtypes#400"), formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="*/mxfp8_e4m3/*",
        profile="mx-floor", title="A cast to E4M3 gives NaN for finite numbers beyond 448", wrong="What rounds beyond the largest value becomes NaN in place of 448.",
        differs="The thread is about the cast; here it stands in a quantizer that relies on it to saturate.",
        broken=changed(saturate=no_saturation, code_magnitude=overflow_to(0x7F, 448)), fixed=right(), fails=("quantize/mxfp8_e4m3/overflow",), names="overflow gave the format's own Inf or NaN",
    ),
    _encode(
        id="triton-9808", reference="triton-lang/triton#9808", also=("triton-lang/triton#8322", "triton-lang/triton#5925", "triton-lang/triton#6102"),
        title="The interpreter's downcast rounds up wherever the first dropped bit is set", wrong="Neither the bits below it nor the last kept bit are asked, so that ties go away from zero.",
        broken=changed(round_magnitude=to_nearest_away), fails=("encode/e4m3/tie-even",), names="rounding rna",
    ),
    _encode(
        id="triton-11897", reference="triton-lang/triton#11897", title="126.24 becomes 64 in E4M3",
        wrong="A carry out of the fraction is ORed into the exponent field, and lost where that bit is set.",
        differs="Of the defects that the change names this is the carry alone.",
        broken=changed(round_magnitude=carry_lost), fails=("encode/e4m3/mixture",), names="ORed into the exponent field",
    ),
    _encode(
        id="triton-11753", reference="triton-lang/triton#11753", also=("triton-lang/triton#10846", "triton-lang/triton#2583"), title="1.0625001 becomes 1 in E4M3",
        wrong="float32 is rounded to float16 on the way, where it becomes a tie.",
        broken=changed(round_magnitude=through_float16), fails=("encode/e4m3/above-tie",), names="numbers were held in float16",
    ),
    _encode(
        id="sglang-40581", reference="sgl-project/sglang#40581", also=("tile-ai/tilelang-metax#140",), title="The software cast to E4M3 saturates from 256 on",
        wrong="Exponent field 15 counts as overflow, so that 256 becomes 448; ties go up beside that.",
        broken=changed(round_magnitude=to_nearest_away, saturate=clamp_from(256)), fails=("encode/e4m3/exact", "encode/e4m3/tie-even"), names="the largest exponent held no numbers",
    ),
    _encode(
        id="tt-metal-29734", reference="tenstorrent/tt-metal#29734", title="A test's E4M3 type cuts, and has no subnormals",
        wrong="Bits below the last are dropped, and everything below 2^-6 becomes 0.", differs="Without its treatment of numbers from 256 on.",
        broken=changed(round_magnitude=cut_and_flushed), fails=("encode/e4m3/above-tie", "encode/e4m3/exact"), names="below the smallest normal number were zero, and rounding were toward zero",
    ),
    _encode(
        id="openvino-30057", reference="openvinotoolkit/openvino#30057", title="Subnormal E4M3 results are rounded twice",
        wrong="The fraction is rounded as that of a normal number, and again when it is shifted.",
        differs="The report is of the step from float16.",
        broken=changed(round_magnitude=rounded_twice_below), fails=("encode/e4m3/above-tie",), names="rounded as normal numbers first",
    ),
    _encode(
        id="universal-1351", reference="stillwater-sc/universal#1351", also=("stillwater-sc/universal#1302",), title="An E4M3 cast that should overflow to NaN saturates",
        wrong="Numbers are clamped to the largest value before they are rounded, whatever the overflow mode.",
        broken=changed(own_code=largest_code), fails=("encode/e4m3/overflow",), names="overflow saturated",
    ),
    _encode(
        id="saturn-vectors-101", reference="ucb-bar/saturn-vectors#101", title="A saturating cast gives NaN for 672, and 448 for 448512",
        wrong="Finite numbers from 512 to 57344 share the exponent codes by which NaN is told.",
        differs="Without the report's second bug, directed modes at overflow.",
        broken=changed(saturate=finite_overflow_is_nan, code_magnitude=overflow_to(0x7F, 448)), fails=("encode/e4m3/overflow",), names="NaN in a range of numbers",
    ),
    _encode(
        id="supernpubench-49", reference="PTO-ISA/SuperNPUBench#49", title="A generator of golden data writes E4M3 subnormals as zero",
        wrong="Below 2^-6 it counts steps of 2^-6, where the format's are 2^-9.", differs="Said in a review.",
        broken=changed(round_magnitude=coarse_below), fails=("encode/e4m3/exact",), names="steps of the smallest normal number",
    ),
)  # fmt: skip
