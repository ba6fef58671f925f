"""The normative profiles: what OCP MX v1.0 and the NVFP4 definition say, with every open choice pinned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from mxspec.expressions import (
    AMAX,
    FLT_MAX,
    ONE,
    ONE_SIXTH,
    SF,
    TMAX,
    ZERO,
    Const,
    Expr,
    G,
    M,
    Q,
    S,
    X,
    const,
    exact,
    f32,
    if_equal,
    minimum,
    substitute,
)  # fmt: skip
from mxspec.formats import BLOCKS
from mxspec.profiles.schema import (
    ElementRule,
    Evidence,
    Kind,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
)  # fmt: skip
from mxspec.rounding import Rounding


class MxFormats(Sequence[str]):
    """The names of all MX formats as they are known now (`BlockFormat.is_mx`): a format that is registered later counts.

    Equal to every other of its kind, and to nothing else.
    """

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._names()[index]

    def __len__(self) -> int:
        return len(self._names())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MxFormats)

    def __hash__(self) -> int:
        return hash(MxFormats)

    def __repr__(self) -> str:
        return f"MxFormats{self._names()}"

    @staticmethod
    def _names() -> tuple[str, ...]:
        return tuple(f.name for f in BLOCKS.values() if f.is_mx)


#: Under a NaN scale every value is NaN whatever its code; the canonical code is 00.
_MX_ELEMENT = ElementRule(under_nan_scale=0x00)
_OCP = "OCP MX v1.0 section 6.3 (quoted by three independent readers)"


def _mx(name: str, summary: str, source: str, scale: ScaleRule) -> Profile:
    return Profile(
        id=name,
        kind=Kind.NORMATIVE,
        formats=MxFormats(),
        summary=summary,
        source=source,
        evidence=Evidence.READ,
        one_level=QuantizationSteps(scale=scale, scaled=exact.div(X, SF), dequantize=exact.mul(Q, SF), element=_MX_ELEMENT),
    )


_TWO_LEVEL_MAX = const(2688)  # 6 (e2m1) * 448 (e4m3)


def _tensor_encode_scale() -> Expr:
    finite = minimum(f32.div(_TWO_LEVEL_MAX, TMAX), FLT_MAX)
    return if_equal(TMAX, ZERO, ONE, if_equal(finite, ZERO, ONE, finite))


_TE_SCALE = ScaleRule(value=minimum(f32.mul(AMAX, f32.mul(S, ONE_SIXTH)), FLT_MAX), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E))
_TE_SCALED = f32.mul(X, minimum(f32.div(ONE, f32.mul(SF, f32.div(ONE, S))), FLT_MAX))
#: float32(1 / 2688)
_RECIPROCAL_2688 = Const(0x39C30C31)

_PAPER_SCALE = ScaleRule(value=f32.mul(f32.div(AMAX, const(6)), S), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E))
# The paper leaves a stored scale of zero open; its block becomes zeros here, which is what it decodes to anyway.
_PAPER_SCALED = f32.mul(X, if_equal(SF, ZERO, ZERO, f32.div(ONE, f32.mul(SF, G))))
_NV_ELEMENT = ElementRule()

#: Where the division, or the product on the way back, leaves float32. The bits stay: they are what the definitions give.
_PAPER_ZEROS = "zeros decode to their block's maximum where that is below about 1.8e-38, since 1 / (sf * g) overflows"
_TE_ZEROS = "zeros decode to NaN where sf * amax overflows: tensor maxima from 7.6e35 on"
_DECODE_ZEROS = "everything decodes to NaN where g is zero and so is amax / 6: tensor maxima up to 4.2e-45"


#: Scale and scaled element without a tensor scale, of the exact variants.
_EXACT_PLAIN = (exact.div(AMAX, const(6)), exact.div(X, SF))


def _nvfp4_variant(
    name: str, summary: str, kind: TensorScaleKind, *, scale: Expr, scaled: Expr, dequantize: Expr, plain: tuple[Expr, Expr],
    lost_zeros: str = "",
) -> Profile:  # fmt: skip
    """A profile of NVFP4 in which zeros divide nothing: blocks of zeros stay zeros, and so do blocks whose scale is zero."""

    def steps(value: Expr, quotient: Expr, back: Expr) -> QuantizationSteps:
        return QuantizationSteps(
            scale=ScaleRule(value=if_equal(AMAX, ZERO, ZERO, minimum(value, FLT_MAX)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=if_equal(SF, ZERO, ZERO, quotient),
            dequantize=back,
            element=_NV_ELEMENT,
        )

    decode = f32.div(TMAX, _TWO_LEVEL_MAX)
    return Profile(
        id=name,
        kind=Kind.NORMATIVE,
        formats=("nvfp4",),
        summary=summary,
        source="NVFP4 as defined in arXiv 2509.25149 appendix B, which names no order of operations for a kernel of one's own",
        evidence=Evidence.READ,
        one_level=steps(plain[0], plain[1], exact.mul(Q, SF)),
        two_level=steps(scale, scaled, dequantize),
        tensor=TensorRule(native=kind, from_amax=decode if kind is TensorScaleKind.DECODE else _tensor_encode_scale()),
        unspecified=(
            "a tensor scale of zero, of an infinity or a NaN: the division is that of IEEE 754",
            "a block whose scale rounds to zero: its codes are zeros here",
        ),
        unspecified_codes_under_zero=True,
        lost_zeros=lost_zeros,
    )


PROFILES: tuple[Profile, ...] = (
    _mx(
        "mx-floor",
        "scale exponent floor(log2 amax) - emax, from the exponent field",
        _OCP,
        ScaleRule(value=AMAX, step=ScaleStep.FLOOR, subtract_emax=True),
    ),
    _mx(
        "mx-rceil",
        "scale amax / max rounded up to a power of two: no element saturates",
        "arXiv 2506.08027; PTX cvt.rp.satfinite.ue8m0x2.f32",
        ScaleRule(value=exact.div(AMAX, M), step=ScaleStep.ENCODE, rounding=Rounding.RTP),
    ),
    _mx(
        "mx-even",
        "amax rounded half up to the element's precision, then floor (called EVEN in the field; it never ties to even)",
        "AMD Quark, torchao ScaleCalculationMode.EVEN",
        ScaleRule(value=AMAX, step=ScaleStep.HALF_UP, subtract_emax=True),
    ),
    _mx(
        "mx-ceil",
        "scale exponent ceil(log2 amax) - emax",
        "torchao ScaleCalculationMode.CEIL",
        ScaleRule(value=AMAX, step=ScaleStep.CEIL, subtract_emax=True),
    ),
    Profile(
        id="nvfp4-paper",
        kind=Kind.NORMATIVE,
        formats=("nvfp4",),
        summary=f"the published definition: scale (amax / 6) * S, elements times 1 / (sf * g), every operation in float32; {_PAPER_ZEROS}",
        lost_zeros=_PAPER_ZEROS,
        source="arXiv 2509.25149 appendix B",
        evidence=Evidence.READ,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(AMAX, const(6)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, if_equal(SF, ZERO, ZERO, f32.div(ONE, SF))),
            dequantize=exact.mul(Q, SF),
            element=_NV_ELEMENT,
        ),
        two_level=QuantizationSteps(scale=_PAPER_SCALE, scaled=_PAPER_SCALED, dequantize=f32.mul(f32.mul(Q, SF), G), element=_NV_ELEMENT),
        tensor=TensorRule(native=TensorScaleKind.ENCODE, from_amax=_tensor_encode_scale(), derived=((G, f32.div(ONE, S)),)),
        unspecified=(
            "a tensor of zeros: the definition divides by zero; the encode scale is 1 here, as in Transformer Engine",
            "a block whose scale rounds to zero: the definition divides by zero; its codes are zeros here",
        ),
        unspecified_codes_under_zero=True,
    ),
    Profile(
        id="nvfp4-te",
        kind=Kind.NORMATIVE,
        formats=("nvfp4",),
        summary=f"Transformer Engine's order of 2026: scale amax * (S * fl(1/6)), elements * min(1 / (sf * (1 / S)), FLT_MAX); {_TE_ZEROS}",
        lost_zeros=_TE_ZEROS,
        source="NVIDIA/TransformerEngine@d0067d0d core_nvfp4.cuh and custom_recipes/reference_nvfp4.py",
        evidence=Evidence.READ,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=substitute(_TE_SCALE.value, {S: ONE}), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=substitute(_TE_SCALED, {S: ONE}),
            dequantize=exact.mul(Q, SF),
            element=_NV_ELEMENT,
        ),
        two_level=QuantizationSteps(
            scale=_TE_SCALE, scaled=_TE_SCALED, dequantize=f32.mul(Q, f32.mul(f32.mul(SF, TMAX), _RECIPROCAL_2688)), element=_NV_ELEMENT
        ),
        tensor=TensorRule(native=TensorScaleKind.AMAX, from_amax=TMAX, derived=((S, _tensor_encode_scale()),)),
    ),
    _nvfp4_variant(
        "nvfp4-exact",
        "the values themselves decide: scale amax / (6 g), elements x / (sf g), dequantized q sf g, nothing rounded on the way",
        TensorScaleKind.DECODE,
        scale=exact.div(AMAX, exact.mul(const(6), G)),
        scaled=exact.div(X, exact.mul(SF, G)),
        dequantize=exact.mul(exact.mul(Q, SF), G),
        plain=_EXACT_PLAIN,
    ),
    _nvfp4_variant(
        "nvfp4-exact-encode",
        "the same of the encode scale: scale amax S / 6, elements x S / sf, dequantized q sf / S, nothing rounded on the way",
        TensorScaleKind.ENCODE,
        scale=exact.div(exact.mul(AMAX, S), const(6)),
        scaled=exact.div(exact.mul(X, S), SF),
        dequantize=exact.div(exact.mul(Q, SF), S),
        plain=_EXACT_PLAIN,
    ),
    _nvfp4_variant(
        "nvfp4-decode",
        f"the decode form in float32: scale (amax / 6) / g, elements x / (sf * g), dequantized (q * sf) * g; {_DECODE_ZEROS}",
        TensorScaleKind.DECODE,
        scale=f32.div(f32.div(AMAX, const(6)), G),
        scaled=f32.div(X, f32.mul(SF, G)),
        dequantize=f32.mul(f32.mul(Q, SF), G),
        plain=(f32.div(AMAX, const(6)), f32.div(X, SF)),
        lost_zeros=_DECODE_ZEROS,
    ),
)
