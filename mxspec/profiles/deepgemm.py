"""DeepGEMM's casts to FP8 in groups of 128 with UE8M0 scales: torch code, for the CPU and for the GPU."""

from __future__ import annotations

from mxspec.expressions import AMAX, ONE, SF, Const, M, Q, X, f32, maximum
from mxspec.profiles.schema import Evidence, Kind, Profile, QuantizationSteps, ScaleRule, ScaleStep

#: float32(1e-4)
_FLOOR = Const(0x38D1B717)

PROFILES = (
    Profile(
        id="deepgemm-2.6/fp8-128/ue8m0",
        kind=Kind.DESCRIPTIVE,
        formats=("fp8_e4m3-128",),
        summary="a maximum below 1e-4 counts as 1e-4; amax / 448 in float32, up to a power of two within bytes 01 to FE; elements times 1 / scale",
        source="deepseek-ai/DeepGEMM@54e22612:deep_gemm/utils/math.py per_token_cast_to_fp8, per_channel_cast_to_fp8, ceil_to_ue8m0",
        evidence=Evidence.MEASURED,
        witness="deep_gemm/utils/math.py at 54e22612 on torch 2.13.0+cpu, Linux x86-64, 7616 blocks: reports/peers/deepgemm.json",
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(maximum(AMAX, _FLOOR), M), step=ScaleStep.CEIL, byte_range=(0x01, 0xFE), on_nan=0xFE),
            scaled=f32.mul(X, f32.div(ONE, SF)),
            dequantize=f32.mul(Q, SF),
        ),
    ),
)
