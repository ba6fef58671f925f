"""What the documentation of AWS Neuron says of `nki.isa.quantize_mx`. It was not run."""

from __future__ import annotations

from mxspec.expressions import AMAX, SF, Q, X, exact, f32
from mxspec.profiles.schema import Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep

PROFILES: tuple[Profile, ...] = (
    Profile(
        id="aws-neuron-2.32/mxfp8/documented",
        formats=("mxfp8_e4m3", "mxfp8_e5m2"),
        summary="twice the scale of OCP's sample algorithm, so that rounding the largest value does not saturate",
        source="awsdocs-neuron.readthedocs-hosted.com/en/v2.32.0/nki/api/generated/nki.isa.quantize_mx.html",
        evidence=Evidence.SECOND_HAND,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=AMAX, step=ScaleStep.FLOOR, subtract_emax=True, offset=1),
            scaled=exact.div(X, SF),
            dequantize=f32.mul(Q, SF),
        ),
        dtypes=("float16", "bfloat16"),
        unspecified=("rounding of elements (nearest even here), zero blocks, NaN, Inf and the ends of the scale's range: not documented",),
    ),
)
