"""Why bugs survive: the first row whose pattern matches `operation/format/profile/id` speaks."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase


class Survival(StrEnum):
    """What a survivor says of the vectors."""

    #: The same output on every legal input.
    EQUIVALENT = "equivalent"
    #: The interface or the specification leaves it open.
    NOT_ASKED = "not-asked"
    #: A wrong kernel that passes.
    GAP = "gap"


EQUAL, OPEN, GAP = Survival.EQUIVALENT, Survival.NOT_ASKED, Survival.GAP

REASONS: tuple[tuple[str, Survival, str], ...] = (
    # Rounding.
    ("*/sticky-lacks-*", GAP, "no input is a tie (of an even code) plus exactly this bit; walking ones above ties are missing"),
    ("*/scale-sticky-lacks-*", GAP, "no scale value is an e4m3 tie plus exactly this bit"),
    ("*/*-sticky", GAP, "no input of this path is a tie plus exactly this bit"),
    ("encode/*/lut-*", GAP, "numbers with few mantissa bits are not enumerated over all exponents"),
    ("quantize/mxint8/*/lut-402", EQUAL, "quotients lie below 2 in magnitude; the entry is 2.5"),
    ("encode/e2m1//number-1.4013e-45", GAP, "the smallest float32 is not among the numbers"),
    ("quantize/mxint8/*/carry-lost", EQUAL, "fixed point: there is no second binade"),
    # Scale.
    ("*/lane-31-from-block-*", GAP, "rows have 67 blocks at most, and their maxima rarely lie in the last lane"),
    ("quantize/mxfp8_*/nan-*", OPEN, "a lane NaN under the scale of the other lanes is legal for fp8"),
    ("quantize/mxfp8_*/two-nan-cancel", OPEN, "a lane NaN under the scale of the other lanes is legal for fp8"),
    ("quantize/mxfp8_*/*-nan", OPEN, "a lane NaN under the scale of the other lanes is legal for fp8, block by block"),
    ("*/subnormal-field-*", EQUAL, "same byte for all 2^23 subnormal maxima (run)"),
    ("*/rceil-lacks-*", GAP, "no maximum is M 2^k plus exactly this bit of the significand"),
    ("*/ceil-lacks-*", GAP, "no maximum is 2^k plus exactly this bit of the significand"),
    ("*/byte-25?-is-25?", EQUAL, "finite maxima do not reach these bytes: the largest is 254 - emax; Inf is set afterwards"),
    ("quantize/mxint8/mx-even/even-adds-to-inf", EQUAL, "byte 254 comes out either way: 2^127 and 2^128 are clamped to it"),
    ("*/ftz-quotient*", EQUAL, "a quotient below 2^-126 rounds to zero; its sign is kept, or int8 has none"),
    ("*/fp16-smallest", GAP, "the smallest float16 numbers are not asked as float16 where they decide a code"),
    ("*/fp16-largest", GAP, "65504 is not asked as float16"),
    ("*/bf16-largest", GAP, "7f7f is not asked as bfloat16"),
    ("*/bf16-nan", GAP, "7f81, the bfloat16 NaN with the lowest payload, is not asked as bfloat16"),
    ("*/fp16-quotient", EQUAL, "x is a multiple of 2^-24 and the scale at most 1: the quotient is a float16 number"),
    # Two levels.
    ("*/nvfp4-te/scale-threshold-240-1", GAP, "no scale value is 240 and one ulp (one number)"),
    ("*/scale-threshold-464-*", GAP, "no block maximum without tensor scale is 6 * 464 or its neighbour"),
    ("*/ftz-scale-value", EQUAL, "a value below 2^-126 gives byte 00 either way"),
    ("*/ftz-multiplier", EQUAL, "sf / S is at most 448 FLT_MAX / 2688 < 2^126: the multiplier is normal"),
    ("*/ftz-lanes", EQUAL, "a lane below 2^-126 rounds to a zero of its sign"),
    ("*/sf-times-g-flushed", GAP, "no block has sf / S subnormal but above 1 / FLT_MAX: tensors below about 2^-106"),
    ("*/one-level-sixth", GAP, "no maximum without tensor scale parts fl(a / 6) from fl(a fl(1/6)): one for each binade, 1.781249881 2^k"),
    ("*/tile-misses-row-15", GAP, "two tiles' rows are the only ones that hold a maximum: one case, 32 x 32"),
    ("*/tile-*", GAP, "16 x 16 tiles have one case, with maxima in rows 0 and 11 and no NaN"),
    ("*/zero-sf-multiplier-one", GAP, "a scale of zero under a tensor scale so small that lanes reach 0.25 unscaled (tmax above about 2^18)"),
    ("*/nvfp4-te/scale-value-not-clamped", EQUAL, "the cast saturates Inf to 7E"),
    ("tensor_scale/*/tail-of-32", GAP, "all tensors have a multiple of 32 elements"),
    ("tensor_scale/*/from-65536", GAP, "the largest tensor has 4160 elements"),
    ("tensor_scale/*/nvfp4-paper/inf-lost", GAP, "Inf is asked among zeros only, where passing over it gives 1, too"),
    # Outputs.
    ("dequantize/*/truncates", EQUAL, "every product is a multiple of 2^-149: nothing is rounded (all codes and bytes run)"),
    ("dequantize/*/away", EQUAL, "every product is a multiple of 2^-149: nothing is rounded (all codes and bytes run)"),
    ("dequantize/mx*/bf16", EQUAL, "every product is a bfloat16 number (all codes and bytes run)"),
    ("dequantize/*/fp16-element", EQUAL, "every element is a float16 number"),
    ("dequantize/*/overflow-saturates", OPEN, "products beyond float32 are left open by the specification"),
    ("dequantize/mxint8/*/minus-zero", EQUAL, "int8 has no -0"),
    ("dequantize/nvfp4/*/scale-top-bit", OPEN, "bytes with bit 7 are no UE4M3 codes"),
    ("dequantize/nvfp4/*/one-level", EQUAL, "every product is a float16 number (all codes and bytes run)"),
    ("dequantize/nvfp4/nvfp4-paper/order-*", EQUAL, "code times block scale is exact: one rounding either way, in this order"),
    ("*/zero-word", EQUAL, "parts for fractions of at least 1 - 2^-32, which no float32 has"),
    ("*/not-floored", GAP, "no fraction n + 1 - 2^-22 in units of 2^-32 with the word 2^32 - 1 - n: a float64 sum rounds up"),
    # Calls and paths.
    ("*/rows-from-65535", GAP, "no call has more than 4357 rows; the largest second dimension of a CUDA grid is 65535"),
    ("*/blocks-from-*", GAP, "no row is longer than 67 blocks (2144 elements of 32)"),
    ("quantize/mxint8/*/pad-minus-zero", EQUAL, "int8 has no -0"),
    ("*/every-64th-call", GAP, "about a hundred calls, and the 64th has no maximum in that lane"),
    ("quantize/mx*/float16-one-bit-short", EQUAL, "quotients of float16 numbers have 11 significant bits"),
    ("quantize/mx*/bfloat16-one-bit-short", EQUAL, "quotients of bfloat16 numbers have 8 significant bits"),
    ("*/bfloat16-bf16-maximum", EQUAL, "the maximum is a bfloat16 number already"),
    ("quantize/mx*/float16-byte-00", EQUAL, "the smallest float16 maximum gives a byte above 00"),
    ("quantize/mx*/float16-daz", EQUAL, "no float16 number is a float32 subnormal"),
    ("*/axis-0-*", GAP, "axis 0 has two cases for each dtype, without NaN, underflow, exact thresholds, lanes in turn or tensor scale"),
    ("*/pad-*", GAP, "padding has seven cases for each dtype, without NaN, exact thresholds, lanes in turn or tensor scale"),
    ("*/long-rows-*", GAP, "NaN blocks and scale ties are not asked within longer rows"),
    ("*/no-copy-*", GAP, "NaN blocks and scale ties are not asked in strided memory"),
    ("quantize/nvfp4/*/*float16-*", GAP, "16-bit inputs of NVFP4 lack quotients and scale values one ulp from a tie"),
)  # fmt: skip


def explain_survival(key: str) -> tuple[Survival, str] | None:
    """Kind and reason; None if nobody has given one."""
    return next(((kind, reason) for pattern, kind, reason in REASONS if fnmatchcase(key, pattern)), None)
