"""torchao 0.18: `to_mx` with its four scale modes, and `nvfp4_quantize`."""

from __future__ import annotations

from fractions import Fraction

from mxspec.expressions import AMAX, ONE, SF, TMAX, Const, Expr, G, M, Q, X, clamp, const, exact, f32, if_equal, if_inf, if_nan, maximum
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep, TensorRule, TensorScaleKind
from mxspec.rounding import NanPolicy, Rounding

_MX = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2")
_FP8 = ("mxfp8_e4m3", "mxfp8_e5m2")
_DTYPES = ("float32", "bfloat16")
_TO_MX = "torchao 0.18.0 wheel, torchao/prototype/mx_formats/mx_tensor.py: to_mx, to_dtype"
_NVFP4 = "torchao 0.18.0 wheel, torchao/prototype/mx_formats/nvfp4_tensor.py: nvfp4_quantize, NVFP4Tensor"
_WITNESS = (
    "torchao 0.18.0 on torch 2.13.0+cpu, Linux x86-64 (AVX-512, AVX2 and SSE dispatch), about 320000 blocks "
    "for each format and rule, every code under every scale byte"
)

_INFINITY = Const(0x7F800000)
_TWO_TO_MINUS_126 = const(Fraction(1, 1 << 126))
_TWO_TO_MINUS_127 = const(Fraction(1, 1 << 127))
#: Infinity by its exponent field: 2**128.
_TOP = exact.mul(const(1 << 127), const(2))

_UNDER_NAN = (
    "codes under the scale FF: they depend on the NaN's payload, on the sign of an Inf / Inf and, for RCEIL, on the instruction set",
    "float16 output: the scale is cast to float16 before the product: Inf from byte 8F on, 0 below 67",
)


def _by_exponent_field(mode: str, step: ScaleStep, summary: str) -> Profile:
    """FLOOR, CEIL and EVEN: integer arithmetic on the bits of amax, then a division by max(2^e, 2^-126)."""
    return Profile(
        id=f"torchao-0.18/mx/{mode}/eager",
        formats=_MX,
        summary=f"{summary}; Inf counts as 2^128; byte 00 is stored and 2^-126 divided by",
        source=f"{_TO_MX} with ScaleCalculationMode.{mode.upper()}",
        evidence=Evidence.MEASURED,
        witness=_WITNESS,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=if_inf(AMAX, _TOP, AMAX), step=step, subtract_emax=True),
            scaled=f32.div(X, if_nan(SF, _INFINITY, maximum(SF, _TWO_TO_MINUS_126))),
            dequantize=f32.mul(Q, SF),
            element=ElementRule(nan=NanPolicy.AS_NUMBER, invalid_sign=1),
        ),
        dtypes=_DTYPES,
        unspecified=_UNDER_NAN,
        unspecified_nan_block_codes=True,
    )


def _rceil(path: str, formats: tuple[str, ...], code: int, summary: str, scale: ScaleRule, witness: str, *open_points: str) -> Profile:
    family = formats[0] if len(formats) == 1 else "mxfp8"
    return Profile(
        id=f"torchao-0.18/{family}/rceil/{path}",
        formats=formats,
        summary=f"{summary}; elements times 2^(127 - byte), but times 1 when the byte is 00",
        source=f"{_TO_MX}, _to_mx_rceil",
        evidence=Evidence.MEASURED if witness else Evidence.READ,
        witness=witness,
        one_level=QuantizationSteps(
            scale=scale,
            scaled=f32.mul(X, if_equal(SF, _TWO_TO_MINUS_127, ONE, f32.div(ONE, SF))),
            dequantize=f32.mul(Q, SF),
            element=ElementRule(under_nan_scale=code),
        ),
        dtypes=_DTYPES,
        unspecified=(*open_points, *_UNDER_NAN),
        unspecified_nan_block_codes=True,
    )


def _rceil_family(path: str, summary: str, scale: ScaleRule, witness: str, *open_points: str) -> list[Profile]:
    """One profile for each code that a NaN scale leaves in the elements; witness: what was run, nothing for what was only read."""
    codes = ((("mxfp4",), 0x03), (("mxfp6_e2m3",), 0x0C), (("mxfp6_e3m2",), 0x0E), (_FP8, 0x7F))
    return [_rceil(path, formats, code, summary, scale, witness, *open_points) for formats, code in codes]


#: NVFP4 on a GPU stays provisional for this.
_NEARLY = (
    "torchao 0.18.0 with torch 2.11.0 on an NVIDIA H200: every bit of one level; of two levels 275 of 13,416 blocks differ, with "
    "elements that are 0 times infinity: reports/gpu/peers-h200.json"
)


def _nvfp4(path: str, divided: tuple[Expr, Expr], evidence: Evidence, invalid_sign: int, *open_points: str) -> Profile:
    """divided: amax / 6 and tmax / 2688 as the path computes them."""
    block, tensor = divided
    low, high = const(Fraction(1, 64)), const(448)
    return Profile(
        id=f"torchao-0.18/nvfp4/{path}",
        formats=("nvfp4",),
        summary="block scales are at least 2^-6 (byte 08), of zero blocks too; elements times (1 / g) / sf",
        source=_NVFP4,
        evidence=evidence,
        witness=_WITNESS if evidence is Evidence.MEASURED else _NEARLY,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=clamp(block, low, high), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, f32.div(ONE, SF)),
            dequantize=f32.mul(Q, SF),
            element=ElementRule(nan=NanPolicy.AS_NUMBER, invalid_sign=invalid_sign, under_nan_scale=0x4),
        ),
        two_level=QuantizationSteps(
            scale=ScaleRule(value=clamp(f32.div(block, G), low, high), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, f32.div(f32.div(ONE, G), SF)),
            dequantize=f32.mul(Q, f32.mul(SF, G)),
            element=ElementRule(nan=NanPolicy.AS_NUMBER, invalid_sign=invalid_sign, under_nan_scale=0x4),
        ),
        tensor=TensorRule(native=TensorScaleKind.DECODE, from_amax=tensor),
        dtypes=_DTYPES,
        unspecified=(
            "the sign bit of a NaN scale byte: x86 sets it (FF) where 0 / 0 or Inf / Inf made the NaN, as "
            "in a tensor of zeros with its own tensor scale",
            "codes under a NaN scale: 4 or C with the sign of that NaN, 3 on some instruction sets",
            *open_points,
        ),
        unspecified_nan_block_codes=True,
    )


#: Every bit of all five formats, in float32 and bfloat16.
_GPU_WITNESS = "torchao 0.18.0 with torch 2.11.0 on an NVIDIA H200: reports/gpu/torchao-rceil-cuda.json"

PROFILES: tuple[Profile, ...] = (
    _by_exponent_field("floor", ScaleStep.FLOOR, "scale exponent floor(log2 amax) - emax from the exponent"),
    _by_exponent_field("ceil", ScaleStep.CEIL, "scale exponent ceil(log2 amax) - emax from the bit fields"),
    _by_exponent_field("even", ScaleStep.HALF_UP, "amax rounded half up to the element's precision, floor"),
    *_rceil_family(
        "eager",
        "scale exponent ceil(log2f(amax / max)), one too low just above max * 2^k away from k = 0",
        ScaleRule(value=f32.div(AMAX, M), step=ScaleStep.LOG2F_CEIL),
        _WITNESS,
    ),
    *_rceil_family(
        "eager-cuda",
        "scale exponent ceil(log2f(amax * fl(1 / max)))",
        ScaleRule(value=f32.mul(AMAX, f32.div(ONE, M)), step=ScaleStep.LOG2F_CEIL),
        _GPU_WITNESS,
        "CUDA's log2f is taken as correctly rounded next to powers of two; away from the vectors its last place is not known",
    ),
    *_rceil_family(
        "compiled-sm100",
        "torch.compile on compute capability 10.0 and later: cvt.rp.satfinite.ue8m0x2.f32 of amax / max",
        ScaleRule(value=f32.div(AMAX, M), step=ScaleStep.ENCODE, rounding=Rounding.RTP),
        "",
        "read only: whether the compiled division is exact, approximate or by a reciprocal was not seen",
    ),
    _nvfp4("eager", (f32.div(AMAX, const(6)), f32.div(TMAX, const(2688))), Evidence.MEASURED, 1),
    _nvfp4(
        "eager-cuda",
        (f32.mul(AMAX, f32.div(ONE, const(6))), f32.mul(TMAX, f32.div(ONE, const(2688)))),
        Evidence.READ,
        0,
        "CUDA makes the NaN 7fffffff of 0 * Inf, whose code would be 4; here it is 7fc00000 and 3",
    ),
)
