"""microsoft/microxcaling, its Python path: `mx_ops._quantize_mx`."""

from __future__ import annotations

from mxspec.expressions import AMAX, SF, Const, Domain, Q, X, bf16, f32, if_less
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import Rounding, ZeroPolicy

_FLOATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2")
_SOURCE = "microsoft/microxcaling@7bc41952:mx/mx_ops.py _quantize_mx, mx/elemwise_ops.py"
_WITNESS = (
    "microxcaling 7bc4195 on torch 2.13.0+cpu, Linux x86-64, about 220000 blocks for each format, rounding "
    "and dtype: shared exponents and element values read on the way"
)
_INFINITY = Const(0x7F800000)
#: The smallest float32 whose float32 log2 is 128, and the smallest bfloat16 whose bfloat16 log2 is.
_LOG2_IS_128_F32 = Const(0x7F7FFFD4)
_LOG2_IS_128_BF16 = Const(0x7F580000)

_ROUNDINGS = {
    "nearest": (ElementRule(rounding=Rounding.RNA, add_half_floor_f32=True), "nearest, ties away"),
    "even": (ElementRule(rounding=Rounding.RNE, add_half_floor_f32=True), "nearest even"),
    "floor": (ElementRule(rounding=Rounding.RTZ, binade_log2f=True), "toward zero, in the binade of a float32 log2"),
}


def _profile(mode: str, *, int8: bool, bfloat16: bool = False) -> Profile:
    rule, words = _ROUNDINGS[mode]
    dtype = "bfloat16" if bfloat16 else "float32"
    limit = _LOG2_IS_128_BF16 if bfloat16 else _LOG2_IS_128_F32
    element = ElementRule(
        rounding=rule.rounding,
        add_half_floor_f32=rule.add_half_floor_f32,
        half_floor_domain=Domain.BF16 if bfloat16 else Domain.F32,
        binade_log2f=rule.binade_log2f and not int8,
        zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW,
        under_nan_scale=0x00,
    )
    main = f"microxcaling-7bc4195/{'mxint8' if int8 else 'mxfp'}/{mode}"
    return Profile(
        id=main + ("/bfloat16" if bfloat16 else ""),
        formats=("mxint8",) if int8 else _FLOATS,
        summary=f"floor of a {dtype} log2, one too high just below powers of two; {words}, by float "
        "arithmetic; Inf and NaN lose the block; the sign of a zero is lost, that of an underflow kept",
        source=f'{_SOURCE}, round="{mode}"',
        evidence=Evidence.MEASURED,
        witness=_WITNESS,
        one_level=QuantizationSteps(
            scale=ScaleRule(
                # Above the limit the shared exponent is 128: for int8, whose emax is 0, out of range and NaN.
                value=if_less(AMAX, limit, AMAX, _INFINITY) if int8 else AMAX,
                step=ScaleStep.LOG2BF16_FLOOR if bfloat16 else ScaleStep.LOG2F_FLOOR,
                subtract_emax=True,
                # A zero block is given amax 2^-126.
                on_zero=0x01 if int8 else 0x00,
                on_inf=0xFF,
            ),
            scaled=bf16.div(X, SF) if bfloat16 else f32.div(X, SF),
            dequantize=f32.mul(Q, SF),
            element=element,
        ),
        dtypes=(dtype,),
        variant_of=main if bfloat16 else None,
        unspecified=("codes under a NaN scale: the library stores none, it returns NaN",),
        unspecified_nan_block_codes=True,
    )


PROFILES: tuple[Profile, ...] = (
    *(_profile(mode, int8=int8) for mode in _ROUNDINGS for int8 in (False, True)),
    *(_profile(mode, int8=int8, bfloat16=True) for mode in ("nearest", "even") for int8 in (False, True)),
)
