"""Descriptive profiles of oneDNN's dynamic destination scales, as its reference matmul on the CPU computes them.

Elements reach the 8-bit formats through float16 and do not saturate there: under the floor rule magnitudes above 464 scales
become NaN in E4M3, and those above 61440 infinities in E5M2. Main saturates since 1d5bcd9029 (read).
"""

from __future__ import annotations

from mxspec.expressions import AMAX, ONE, SF, ZERO, Const, M, Q, X, const, exact, f16, f32, if_equal, if_less
from mxspec.profiles.schema import AmaxNan, ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Overflow

_SOURCE = "oneDNN v3.13.2 (c852e73), the library of the onednn 2026.1.0 wheel, matmul with destination scales"
_RAN = "onednn 2026.1.0 (oneDNN v3.13.2) on the CPU, Linux x86-64: reports/peers/onednn.json"
#: The block scale on its way to E4M3; beyond 464 it becomes NaN. A block of zeros has the scale 1.
_HALF, _NAN = f16.round(f32.div(AMAX, M)), Const(0x7FC00000)
_BLOCK_SCALE = if_equal(AMAX, ZERO, ONE, if_less(const(464), _HALF, _NAN, _HALF))
#: The sum of one term, to which a negative zero is lost.
_SUM = f32.add(ZERO, X)


def _mx(fmt: str) -> Profile:
    fp4, e5m2 = fmt == "mxfp4", fmt == "mxfp8_e5m2"
    return Profile(
        id=f"onednn-3.13/{fmt}",
        formats=(fmt,),
        summary="floor scale" + ("" if fp4 else "; elements through float16, and no saturation"),
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=AMAX, step=ScaleStep.FLOOR, subtract_emax=True, on_inf=0xFF),
            scaled=f32.div(X, SF) if fp4 else f16.round(f32.div(X, SF)),
            dequantize=exact.mul(Q, SF),
            element=ElementRule(nan=NanPolicy.MAX_SIGNED, invalid_sign=1) if fp4 else ElementRule(overflow=Overflow.OWN),
            normalize=_SUM,
        ),
        amax_nan=AmaxNan.SKIP,
        dtypes=("float32", "bfloat16"),
        unspecified=("the code of a NaN in E5M2 has the two upper bits of its payload",) if e5m2 else (),
        unspecified_nan_input_scales=e5m2,
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = (
    *(_mx(fmt) for fmt in ("mxfp4", "mxfp8_e4m3", "mxfp8_e5m2")),
    Profile(
        id="onednn-3.13/nvfp4",
        formats=("nvfp4",),
        summary="one level: scale e4m3(amax / 6) through float16, NaN beyond 464; elements times 1 / scale",
        source=_SOURCE,
        evidence=Evidence.MEASURED,
        witness=_RAN,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=_BLOCK_SCALE, step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, f32.div(ONE, SF)),
            dequantize=exact.mul(Q, SF),
            element=ElementRule(nan=NanPolicy.MAX_SIGNED, invalid_sign=1),
            normalize=_SUM,
        ),
        amax_nan=AmaxNan.SKIP,
        dtypes=("float32", "bfloat16"),
        unspecified_nan_block_codes=True,
    ),
)
