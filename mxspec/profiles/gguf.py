"""Descriptive profiles of gguf, the Python package of llama.cpp."""

from __future__ import annotations

from mxspec.expressions import AMAX, SF, ZERO, Const, Q, X, absolute, const, exact, f32, if_nan
from mxspec.profiles.schema import ElementRule, Evidence, ExponentUnderflow, Profile, QuantizationSteps, ScaleRule, ScaleStep

#: 2**127; the value of byte FF is 2**128, reached in two steps.
_TWO_TO_127 = Const(0x7F000000)
_DEQUANTIZED = if_nan(SF, f32.mul(f32.mul(Q, _TWO_TO_127), const(2)), f32.mul(Q, SF))

PROFILES: tuple[Profile, ...] = (
    Profile(
        id="gguf-0.19/mxfp4",
        formats=("mxfp4",),
        summary="floor of a float32 log2, bytes wrap, code by float32 search: ties toward zero, no -0",
        source="gguf 0.19.0 wheel: gguf.quants.MXFP4.quantize_blocks, dequantize_blocks",
        evidence=Evidence.MEASURED,
        witness="gguf 0.19.0 with NumPy 2.4.6 on Linux x86-64: 385,049 blocks, every scale byte and code",
        one_level=QuantizationSteps(
            scale=ScaleRule(
                value=AMAX,
                step=ScaleStep.LOG2F_FLOOR,
                subtract_emax=True,
                underflow=ExponentUnderflow.WRAP,
                on_zero=0x00,
                on_inf=0x00,
                on_nan=0x00,
            ),
            scaled=exact.div(X, SF),
            # Code 8 decodes to +0; byte FF to 2**128, not NaN.
            dequantize=f32.add(_DEQUANTIZED, ZERO),
            element=ElementRule(error=absolute(f32.sub(f32.mul(Q, SF), X)), under_nan_scale=0x00),
        ),
        unspecified=(
            "a block maximum below 2**-125: a negative float cast to uint8, undefined in C; x86-64 wraps",
            "an infinity in the block: the float Inf cast to uint8, undefined in C; 00 on x86-64",
            "a block maximum a few ulps below a power of two: the last ulp of NumPy's float32 log2 decides",
        ),
    ),
)
