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
    ("quantize/mxint8/*/lut-402", EQUAL, "quotients lie below 2 in magnitude; the entry is 2.5"),
    ("quantize/mxint8/*/carry-lost", EQUAL, "fixed point: there is no second binade"),
    # Scale.
    ("quantize/mxfp8_*/nan-*", OPEN, "a lane NaN under the scale of the other lanes is legal for fp8"),
    ("quantize/mxfp8_*/two-nan-cancel", OPEN, "a lane NaN under the scale of the other lanes is legal for fp8"),
    ("quantize/mxfp8_*/*-nan", OPEN, "a lane NaN under the scale of the other lanes is legal for fp8, block by block"),
    ("*/subnormal-field-*", EQUAL, "same byte for all 2^23 subnormal maxima (run)"),
    ("*/byte-25?-is-25?", EQUAL, "finite maxima do not reach these bytes: the largest is 254 - emax; Inf is set afterwards"),
    ("quantize/mxint8/mx-even/even-adds-to-inf", EQUAL, "byte 254 comes out either way: 2^127 and 2^128 are clamped to it"),
    ("*/ftz-quotient*", EQUAL, "a quotient below 2^-126 rounds to zero; its sign is kept, or int8 has none"),
    ("*/fp16-quotient", EQUAL, "x is a multiple of 2^-24 and the scale at most 1: the quotient is a float16 number"),
    ("quantize/mxint8/*/bf16-largest", EQUAL, "the largest bfloat16 number gives byte FE and code 7F either way"),
    # Two levels.
    ("*/nvfp4-te/scale-threshold-*-1", GAP, "one number: no maximum without tensor scale has this value, few tensor scales have one that does"),
    ("*/nvfp4-paper/zero-sf-multiplier-one", OPEN, "the paper divides by a stored scale of zero: codes under one, which all decode to zero, are open"),
    ("*/ftz-scale-value", EQUAL, "a value below 2^-126 gives byte 00 either way"),
    ("*/ftz-multiplier", EQUAL, "sf / S is at most 448 FLT_MAX / 2688 < 2^126: the multiplier is normal"),
    ("*/ftz-lanes", EQUAL, "a lane below 2^-126 rounds to a zero of its sign"),
    ("*/nvfp4-te/scale-value-not-clamped", EQUAL, "the cast saturates Inf to 7E"),
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
    # Calls and paths.
    ("quantize/mxint8/*/pad-minus-zero", EQUAL, "int8 has no -0"),
    ("quantize/mx*/float16-one-bit-short", EQUAL, "quotients of float16 numbers have 11 significant bits"),
    ("quantize/mx*/bfloat16-one-bit-short", EQUAL, "quotients of bfloat16 numbers have 8 significant bits"),
    ("*/bfloat16-bf16-maximum", EQUAL, "the maximum is a bfloat16 number already"),
    ("quantize/mx*/float16-byte-00", EQUAL, "the smallest float16 maximum gives a byte above 00"),
    ("quantize/mx*/float16-daz", EQUAL, "no float16 number is a float32 subnormal"),
)  # fmt: skip


def explain_survival(key: str) -> tuple[Survival, str] | None:
    """Kind and reason; None if nobody has given one."""
    return next(((kind, reason) for pattern, kind, reason in REASONS if fnmatchcase(key, pattern)), None)
