"""compressed-tensors 0.20 on the CPU: scales from `calculate_qparams`, codes from its compressors.

Tensors keep the dtype of the input through most steps, so that float32, float16 and bfloat16 inputs are three
profiles. `decompress` returns bfloat16: the float32 value of `dequantize` here, rounded once.
"""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import (
    AMAX,
    ONE,
    SF,
    TMAX,
    ZERO,
    Const,
    Domained,
    Expr,
    Q,
    S,
    X,
    bf16,
    const,
    exact,
    f16,
    f32,
    if_inf,
    if_less,
    if_nan,
    maximum,
)
from mxspec.formats import get_block
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep, TensorRule, TensorScaleKind
from mxspec.rounding import NanPolicy, ZeroPolicy

_SOURCE = "compressed-tensors 0.20.0 wheel: quantization/utils/helpers.py calculate_qparams; "
_WITNESS = "compressed-tensors 0.20.0 on torch 2.13.0+cpu, Linux x86-64 (AVX-512 and AVX2 dispatch): "
#: Blocks that were compared, for each input dtype.
_COMPARED = {"mxfp4": "148,807 blocks", "mxfp6_e2m3": "150,895 blocks", "mxfp8_e4m3": "153,019 blocks", "nvfp4": "745,602 blocks"}
_INF = Const(0x7F800000)
_NAN_INPUT = (
    "a block with a NaN: torch's SIMD minimum makes ffffffff of it, whose rounding wraps to zero, its "
    "scalar code 7fc00000, whose rounding gives Inf; so the block's position decides: the last blocks of a "
    "tensor, n mod 16 of n in float32 and n mod 32 else, have the byte 7F and elements divided by Inf"
)
_CAST = "the byte 7F of a block beyond the range: a float Inf is cast to int32, which C++ leaves undefined; this is the answer of x86-64"
_INVALID_SIGN = "codes FF of Inf lanes in a block beyond the range: the sign of Inf / Inf is the machine's"
_NAN_SIGN = "the sign bit of a NaN scale's byte: by position in the tensor, as torch's SIMD and scalar code differ"
_BFLOAT16_SIGN = "e2m1 codes of NaN lanes (Inf / Inf too): 8 where torch computes bfloat16 in SIMD code, 0 in scalar code"

#: Elements that are lost beyond the range are Inf / Inf or zeros; NaN lanes take these codes.
_ELEMENTS = {
    "mxfp4": ElementRule(nan=NanPolicy.ZERO, zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW),
    "mxfp6_e2m3": ElementRule(nan=NanPolicy.ZERO_NEGATIVE),
    "mxfp8_e4m3": ElementRule(nan_own=NanPolicy.NAN, invalid_sign=1),
}
_BFLOAT16_ELEMENTS = {
    "mxfp4": ElementRule(nan=NanPolicy.ZERO_NEGATIVE, zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW),
    "mxfp6_e2m3": _ELEMENTS["mxfp6_e2m3"],
    "mxfp8_e4m3": ElementRule(nan_own=NanPolicy.NAN_POSITIVE),
}
#: Mantissa bits that amax is rounded half up to (one for e4m3 too).
_MANTISSA = {"mxfp4": 1, "mxfp6_e2m3": 3, "mxfp8_e4m3": 1}


def _name(fmt: str, dtype: str) -> str:
    return _main_name(fmt) + ("" if dtype == "float32" else f"/{dtype}")


def _main_name(fmt: str) -> str:
    return f"compressed-tensors-0.20/{fmt}/eager"


def _variant_of(fmt: str, dtype: str) -> str | None:
    return None if dtype == "float32" else _main_name(fmt)


def _mx(fmt: str, dtype: str, domain: Domained) -> Profile:
    emax = get_block(fmt).element.emax
    # The significand from which amax rounds up to a power of two.
    bump = 2 - Fraction(1, 1 << (_MANTISSA[fmt] + 1))
    top, precision = {"float32": (127, 23), "float16": (15, 10), "bfloat16": (127, 7)}[dtype]
    # The dtype's last number that does not round up to 2^(top + 1), an Inf in arithmetic on its bits.
    last = bump * Fraction(2) ** top - Fraction(2) ** (top - precision)
    amax: Expr = AMAX
    if dtype == "float16":
        # A subnormal amax rounds to 2^-14 or to zero. A zero's scale, 2^-127, is 0 in float16 and becomes 1.
        smallest = const((bump - 1) * Fraction(1, 1 << 14))
        amax = if_less(AMAX, smallest, const(1 << emax), maximum(AMAX, const(Fraction(1, 1 << 14))))
    value = if_less(const(last), AMAX, _INF, amax)
    half_up = exact.div(value, const(bump))  # below 2^e for a significand below `bump`
    scaled = domain.div(X, if_less(const(last), AMAX, _INF, SF))
    elements = _BFLOAT16_ELEMENTS if dtype == "bfloat16" else _ELEMENTS
    open_points = [_NAN_INPUT, _CAST]
    if fmt == "mxfp4" and dtype == "bfloat16":
        open_points.append(_BFLOAT16_SIGN)
    if fmt == "mxfp8_e4m3" and dtype != "bfloat16":
        open_points.append(_INVALID_SIGN)
    return Profile(
        id=_name(fmt, dtype),
        formats=(fmt,),
        summary=f"amax rounded half up to {_MANTISSA[fmt]} mantissa bits, then floor; elements x / sf in "
        f"{dtype}; an amax that rounds beyond the range loses the block (byte 7F, zero codes)",
        source=f"{_SOURCE}quantization/utils/mxfp_utils.py generate_mx_scales; compressors/{fmt[:5]}/base.py",
        evidence=Evidence.MEASURED,
        witness=_WITNESS + _COMPARED[fmt],
        one_level=QuantizationSteps(
            scale=ScaleRule(
                value=half_up, step=ScaleStep.FLOOR, subtract_emax=True, offset=1, on_inf=0x7F, on_nan=0x7F if dtype == "float16" else 0x00
            ),
            # The zero point of mxfp8 is added: -0 becomes +0.
            scaled=domain.add(scaled, ZERO) if fmt == "mxfp8_e4m3" else scaled,
            # Byte FF is 2**128, an infinity.
            dequantize=f32.mul(Q, if_nan(SF, _INF, SF)),
            element=elements[fmt],
        ),
        dtypes=(dtype,),
        variant_of=_variant_of(fmt, dtype),
        unspecified=tuple(open_points),
        unspecified_nan_input_scales=True,
    )


def _nvfp4(dtype: str, domain: Domained) -> Profile:
    sixth = domain.div(AMAX, const(6))
    tiny = Fraction(1, 1 << (14 if dtype == "float16" else 126))
    reciprocal = domain.div(ONE, maximum(TMAX, const(tiny)))
    tensor = domain.mul(reciprocal, const(2688))
    divisor = f32.div(SF, S)
    nan = NanPolicy.ZERO_NEGATIVE if dtype == "bfloat16" else NanPolicy.ZERO
    element = ElementRule(nan=nan, zero=ZeroPolicy.PLUS_UNLESS_UNDERFLOW)

    def scale(value: Expr) -> ScaleRule:
        # Up to 2^-10 the value rounds to zero, and a zero is replaced by 0.125.
        kept = if_less(value, Const(0x3A800001), const(Fraction(1, 8)), value)
        return ScaleRule(value=kept, step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E))

    return Profile(
        id=_name("nvfp4", dtype),
        formats=("nvfp4",),
        summary="scale S * (amax / 6), a scale that rounds to zero becomes 0.125 (byte 20); elements x / "
        "(sf / S); the tensor scale is 2688 times the rounded reciprocal of the maximum, and 1 where that "
        "is Inf or NaN",
        source=_SOURCE + "generate_gparam; compressors/nvfp4/base.py, helpers.py quantize_and_pack_fp4",
        evidence=Evidence.MEASURED,
        witness=_WITNESS + _COMPARED["nvfp4"],
        one_level=QuantizationSteps(scale=scale(sixth), scaled=domain.div(X, SF), dequantize=f32.mul(Q, SF), element=element),
        two_level=QuantizationSteps(
            scale=scale(f32.mul(S, sixth)), scaled=f32.div(X, divisor), dequantize=f32.mul(Q, divisor), element=element
        ),
        tensor=TensorRule(native=TensorScaleKind.ENCODE, from_amax=if_nan(tensor, ONE, if_inf(tensor, ONE, tensor))),
        dtypes=(dtype,),
        variant_of=_variant_of("nvfp4", dtype),
        unspecified=(_NAN_SIGN, _BFLOAT16_SIGN) if dtype == "bfloat16" else (_NAN_SIGN,),
        unspecified_nan_block_codes=True,
    )


_DOMAINS = {"float32": f32, "float16": f16, "bfloat16": bf16}

PROFILES: tuple[Profile, ...] = (
    *(_mx(fmt, dtype, domain) for fmt in _ELEMENTS for dtype, domain in _DOMAINS.items()),
    *(_nvfp4(dtype, domain) for dtype, domain in _DOMAINS.items()),
)
