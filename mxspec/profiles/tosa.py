"""Descriptive profiles of TOSA 1.1's CAST_TO_BLOCK_SCALED, as Arm's reference model computes it.

The scale is the smallest with which the block's maximum, rounded to the element format without an upper bound, is no larger
than the largest element. With ties to even the tie above the largest element goes up where that has an odd code: in every format
but E4M3, whose code 7F is a NaN. There the maximum may be 464 scales (`mx-even`: less than 496).

MXINT8 has no profile: its scales are those of `mx-even`, but numbers below 2^-48 scales become 1/64 or 0 as their lowest
bits say, which no rule of a profile expresses.
"""

from __future__ import annotations

from mxspec.expressions import AMAX, SF, Q, X, const, exact
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep

_SOURCE = "arm/tosa-specification cd5acdd pseudocode/library/numeric_conversion_helpers.tosac calc_block_scale"
_RAN = "tosa-tools 2026.8.0, Linux x86-64: reports/peers/tosa.json"


_EVEN = ScaleRule(value=AMAX, step=ScaleStep.HALF_UP, subtract_emax=True, on_inf=0xFF)
_LAST_464 = ScaleRule(value=exact.div(AMAX, const(464)), step=ScaleStep.CEIL, on_inf=0xFF)

#: The code of every element of a block that holds a NaN or an infinity: what the bits of float32's NaN are cut to.
_LOST = {"mxfp4": 0x6, "mxfp6_e2m3": 0x18, "mxfp6_e3m2": 0x1C, "mxfp8_e4m3": 0x7F, "mxfp8_e5m2": 0x7E}


def _mx(fmt: str) -> Profile:
    e4m3 = fmt == "mxfp8_e4m3"
    return Profile(
        id=f"tosa-1.1/{fmt}",
        formats=(fmt,),
        summary=("the scale steps just above 464, where e4m3 rounds beyond 448" if e4m3 else "the scale of `mx-even`")
        + "; NaN and Inf give byte FF",
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=_LAST_464 if e4m3 else _EVEN,
            scaled=exact.div(X, SF),
            dequantize=exact.mul(Q, SF),
            element=ElementRule(under_nan_scale=_LOST[fmt]),
        ),
        dtypes=("float32", "bfloat16"),
        unspecified=("a NaN's own code has the NaN's sign",),
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = tuple(_mx(fmt) for fmt in _LOST)
