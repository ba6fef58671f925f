"""Descriptive profiles of gfloat."""

from __future__ import annotations

from mxspec.expressions import AMAX, SF, Q, X, exact, f32
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy

_SCALE = ScaleRule(value=AMAX, step=ScaleStep.LOG2F_FLOOR, subtract_emax=True)
_LOG2 = "a block maximum a few ulps below a power of two: the last ulp of NumPy's float32 log2 decides"


def _profile(name: str, formats: tuple[str, ...], summary: str, witness: str, element: ElementRule) -> Profile:
    return Profile(
        id=f"gfloat-0.5/{name}",
        formats=formats,
        summary=summary,
        source="gfloat 0.5.2 wheel: compute_scale_amax, round_ndarray, encode_ndarray, decode_block",
        evidence=Evidence.MEASURED,
        witness=f"gfloat 0.5.2 with NumPy 2.4.6 on Linux x86-64: {witness}",
        one_level=QuantizationSteps(scale=_SCALE, scaled=f32.div(X, SF), dequantize=exact.mul(Q, SF), element=element),
        dtypes=("float32",),
        unspecified=(_LOG2,),
    )


PROFILES: tuple[Profile, ...] = (
    _profile(
        "mx",
        ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxint8"),
        "floor of a float32 log2, exact nearest-even elements, int8 down to 80; a NaN raises",
        "214,955 blocks or more of each format, every scale byte and code",
        ElementRule(nan=NanPolicy.RAISE, int8_lowest=-128),
    ),
    _profile(
        "mxfp8",
        ("mxfp8_e4m3", "mxfp8_e5m2"),
        "floor of a float32 log2, exact nearest-even elements; a NaN makes scale and all codes FF",
        "216,699 blocks of each format, every scale byte and code",
        ElementRule(under_nan_scale=0xFF),
    ),
)
