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
        one_level=QuantizationSteps(
            scale=scale,
            scaled=exact.div(X, SF),
            dequantize=exact.mul(Q, SF),
            element=_MX_ELEMENT,
        ),
    )


_TWO_LEVEL_MAX = const(2688)  # 6 (e2m1) * 448 (e4m3)


def _tensor_encode_scale() -> Expr:
    finite = minimum(f32.div(_TWO_LEVEL_MAX, TMAX), FLT_MAX)
    return if_equal(TMAX, ZERO, ONE, if_equal(finite, ZERO, ONE, finite))


_TE_SCALE = ScaleRule(
    value=minimum(f32.mul(AMAX, f32.mul(S, ONE_SIXTH)), FLT_MAX),
    step=ScaleStep.ENCODE,
    byte_range=(0x00, 0x7E),
)
_TE_SCALED = f32.mul(X, minimum(f32.div(ONE, f32.mul(SF, f32.div(ONE, S))), FLT_MAX))
#: float32(1 / 2688)
_RECIPROCAL_2688 = Const(0x39C30C31)

_PAPER_SCALE = ScaleRule(value=f32.mul(f32.div(AMAX, const(6)), S), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E))
# The paper leaves a stored scale of zero open; its block becomes zeros here, which is what it decodes to anyway.
_PAPER_SCALED = f32.mul(X, if_equal(SF, ZERO, ZERO, f32.div(ONE, f32.mul(SF, G))))
_NV_ELEMENT = ElementRule()


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
        summary="the published definition: scale (amax / 6) * S, elements times 1 / (sf * g), every operation in float32",
        source="arXiv 2509.25149 appendix B",
        evidence=Evidence.READ,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=f32.div(AMAX, const(6)), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)),
            scaled=f32.mul(X, if_equal(SF, ZERO, ZERO, f32.div(ONE, SF))),
            dequantize=exact.mul(Q, SF),
            element=_NV_ELEMENT,
        ),
        two_level=QuantizationSteps(
            scale=_PAPER_SCALE,
            scaled=_PAPER_SCALED,
            dequantize=f32.mul(f32.mul(Q, SF), G),
            element=_NV_ELEMENT,
        ),
        tensor=TensorRule(
            native=TensorScaleKind.ENCODE,
            from_amax=_tensor_encode_scale(),
            derived=((G, f32.div(ONE, S)),),
        ),
        unspecified=(
            "a tensor of zeros: the definition divides by zero; the encode scale is 1 here, as in Transformer Engine",
            "a block whose scale rounds to zero: the definition divides by zero; its codes are zeros here",
        ),
    ),
    Profile(
        id="nvfp4-te",
        kind=Kind.NORMATIVE,
        formats=("nvfp4",),
        summary="Transformer Engine's order of 2026: scale amax * (S * fl(1/6)), elements * min(1 / (sf * (1 / S)), FLT_MAX)",
        source="NVIDIA/TransformerEngine@d0067d0d core_nvfp4.cuh and custom_recipes/reference_nvfp4.py",
        evidence=Evidence.READ,
        one_level=QuantizationSteps(
            scale=ScaleRule(
                value=substitute(_TE_SCALE.value, {S: ONE}), step=ScaleStep.ENCODE, byte_range=(0x00, 0x7E)
            ),
            scaled=substitute(_TE_SCALED, {S: ONE}),
            dequantize=exact.mul(Q, SF),
            element=_NV_ELEMENT,
        ),
        two_level=QuantizationSteps(
            scale=_TE_SCALE,
            scaled=_TE_SCALED,
            dequantize=f32.mul(Q, f32.mul(f32.mul(SF, TMAX), _RECIPROCAL_2688)),
            element=_NV_ELEMENT,
        ),
        tensor=TensorRule(
            native=TensorScaleKind.AMAX,
            from_amax=TMAX,
            derived=((S, _tensor_encode_scale()),),
        ),
    ),
)
