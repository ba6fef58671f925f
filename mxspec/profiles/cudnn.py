"""What cuDNN's documentation says of `block_scale_quantize`. It was not run."""

from __future__ import annotations

from mxspec.expressions import AMAX, SF, ZERO, M, Q, X, exact, f32, if_equal
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Rounding

_SOURCE = "docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/BlockScaling.html"


def _documented(fmt_name: str, formats: tuple[str, ...], largest: int, summary: str) -> Profile:
    return Profile(
        id=f"cudnn-9/{fmt_name}/documented",
        formats=formats,
        summary=summary,
        source=_SOURCE,
        evidence=Evidence.SECOND_HAND,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=exact.div(AMAX, M), step=ScaleStep.ENCODE, rounding=Rounding.RTP, byte_range=(0x00, largest)),
            # A scale of zero (no e8m0 has one) makes zeros.
            scaled=if_equal(SF, ZERO, f32.mul(X, ZERO), exact.div(X, SF)),
            dequantize=f32.mul(Q, SF),
            element=ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
        ),
        unspecified=("everything but the two roundings: the documentation gives the formula and no edge case",),
    )


PROFILES: tuple[Profile, ...] = (
    _documented("mxfp8", ("mxfp8_e4m3", "mxfp8_e5m2"), 0xFE, "amax / M rounded up to a power of two; elements to nearest even"),
    _documented("nvfp4", ("nvfp4",), 0x7E, "one level: amax / 6 rounded up to e4m3; elements to nearest even"),
)
