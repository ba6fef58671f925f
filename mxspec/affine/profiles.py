"""Affine profiles: the rule of the documents, and what libraries compute."""

from __future__ import annotations

from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.affine.schema import AffineProfile, Step
from mxspec.expressions import (
    ZERO,
    Const,
    Domained,
    Expr,
    Leaf,
    X,
    absolute,
    bf16,
    clamp,
    const,
    exact,
    f16,
    f32,
    if_equal,
    if_less,
    maximum,
    minimum,
)
from mxspec.profiles.schema import AmaxNan, Evidence, Kind
from mxspec.suggestions import refuse_name

LO, HI, BINS, S, B, Z = (Leaf(n) for n in ("lo", "hi", "bins", "s", "b", "z"))
_SCALE, _BIAS, _ZERO = Leaf("scale"), Leaf("bias"), Leaf("zero")
#: float32(1e-7) and float32(1e-5).
_TINY, _SMALL = Const(0x33D6BF95), Const(0x3727C5AC)
_MINUS_ONE = const(-1)
#: The domain in which a framework computes on tensors of a dtype.
_DOMAINS = {"float32": f32, "float16": f16, "bfloat16": bf16}


def _negative(a: Expr) -> Expr:
    return f32.mul(_MINUS_ONE, a)


_DOCUMENT = "tiny-llm, week 2 day 2-3: scale = (max - min) / (2^bits - 1), bias = min, code = round((value - bias) / scale)"

MINMAX = AffineProfile(
    id="affine-minmax",
    kind=Kind.NORMATIVE,
    offset=Offset.BIAS,
    summary="the min/max rule in real numbers: the scale is rounded once when it is stored, codes are nearest under what is stored, ties to even",
    source=f"{_DOCUMENT}; where it rounds is not said: nothing is rounded here but what is stored",
    evidence=Evidence.READ,
    group=(Step("scale", exact.div(exact.sub(HI, LO), BINS)), Step("bias", LO)),
    element=(Step("code", exact.div(exact.sub(X, B), S), whole=True),),
)

MINMAX_FLOAT32 = AffineProfile(
    id="affine-minmax-float32",
    kind=Kind.NORMATIVE,
    offset=Offset.BIAS,
    summary="the min/max rule in float32 operations; codes are computed from the scale before it is rounded for storage",
    source=f"{_DOCUMENT}; each operation in float32",
    evidence=Evidence.READ,
    group=(Step("scale", f32.div(f32.sub(HI, LO), BINS)), Step("bias", LO)),
    element=(Step("code", f32.div(f32.sub(X, _BIAS), _SCALE), whole=True),),
)

MLX = AffineProfile(
    id="mlx-0.32/affine/cpu",
    kind=Kind.DESCRIPTIVE,
    offset=Offset.BIAS,
    summary="the end of larger magnitude is a whole number of steps from zero and is the bias; the scale is negative where that is the maximum",
    source="mlx 0.32.4 wheel, and mlx/backend/cpu/quantized.cpp at 846d1762: quantize",
    evidence=Evidence.MEASURED,
    witness="mlx 0.32.4 on Linux x86-64: reports/affine/mlx.json",
    nan=AmaxNan.SKIP,
    group=(
        Step("wide", maximum(f32.div(f32.sub(HI, LO), BINS), _TINY)),
        Step("first", if_less(absolute(HI), absolute(LO), Leaf("wide"), _negative(Leaf("wide")))),
        Step("edge", if_less(absolute(HI), absolute(LO), LO, HI)),
        Step("whole", f32.div(Leaf("edge"), Leaf("first")), whole=True),
        Step("scale", if_equal(Leaf("whole"), ZERO, Leaf("first"), f32.div(Leaf("edge"), Leaf("whole")))),
        Step("bias", if_equal(Leaf("whole"), ZERO, ZERO, Leaf("edge"))),
    ),
    element=(Step("code", f32.div(f32.sub(X, _BIAS), _SCALE), whole=True),),
    unspecified=("a NaN is converted to an integer, which C++ leaves undefined: code 0 on x86-64", "1-bit codes follow another rule"),
)

_GPTQ = "IST-DASLab/gptq at 2d65066e, quant.py: Quantizer.find_params (mse off), quantize"
_TORCH_WITNESS = "torch 2.13.0 on Linux x86-64: reports/affine/torch.json"
_OVERFLOW = ("a range beyond the dtype: the zero point is NaN, which no integer is",)
_LOW, _HIGH, _LEVEL = Leaf("low"), Leaf("high"), Leaf("level")
_GPTQ_CODE = (Step("level", f32.div(X, _SCALE), whole=True), Step("code", clamp(f32.add(_LEVEL, _ZERO), ZERO, BINS)))

GPTQ = AffineProfile(
    id="gptq/asymmetric",
    kind=Kind.DESCRIPTIVE,
    offset=Offset.ZERO,
    summary="float32; the range is widened to hold 0, a group of zeros has the range -1 .. 1; codes from the scale before storage",
    source=_GPTQ,
    evidence=Evidence.MEASURED,
    witness=_TORCH_WITNESS,
    unspecified=_OVERFLOW,
    group=(
        Step("below", minimum(LO, ZERO)),
        Step("above", maximum(HI, ZERO)),
        Step("low", if_equal(Leaf("above"), ZERO, if_equal(Leaf("below"), ZERO, _MINUS_ONE, Leaf("below")), Leaf("below"))),
        Step("high", if_equal(Leaf("below"), ZERO, if_equal(Leaf("above"), ZERO, const(1), Leaf("above")), Leaf("above"))),
        Step("scale", f32.div(f32.sub(_HIGH, _LOW), BINS)),
        Step("zero", f32.div(_negative(_LOW), _SCALE), whole=True),
    ),
    element=_GPTQ_CODE,
)

GPTQ_SYMMETRIC = AffineProfile(
    id="gptq/symmetric",
    kind=Kind.DESCRIPTIVE,
    offset=Offset.ZERO,
    summary="float32; the range is -max|x| .. max|x| where a value is negative, else 0 .. max, and the zero point is always 2^(bits - 1)",
    source=f"{_GPTQ}, sym=True",
    evidence=Evidence.MEASURED,
    witness=_TORCH_WITNESS,
    group=(
        Step("below", minimum(LO, ZERO)),
        Step("above", maximum(absolute(minimum(LO, ZERO)), maximum(HI, ZERO))),
        Step("mirrored", if_less(Leaf("below"), ZERO, _negative(Leaf("above")), Leaf("below"))),
        Step("low", if_equal(Leaf("above"), ZERO, _MINUS_ONE, Leaf("mirrored"))),
        Step("high", if_equal(Leaf("above"), ZERO, const(1), Leaf("above"))),
        Step("scale", f32.div(f32.sub(_HIGH, _LOW), BINS)),
        Step("zero", f32.div(f32.add(BINS, const(1)), const(2))),
    ),
    element=_GPTQ_CODE,
)


def _awq(dtype: str, domain: Domained) -> AffineProfile:
    return AffineProfile(
        id=f"awq/{dtype}",
        kind=Kind.DESCRIPTIVE,
        offset=Offset.ZERO,
        dtypes=(dtype,),
        summary=f"every operation in {dtype}; a range below 1e-5 counts as 1e-5, the zero point is cut to the codes' range, so that a group without 0 is clipped",
        source="mit-han-lab/llm-awq at d6e797a4, awq/quantize/quantizer.py: pseudo_quantize_tensor(zero_point=True)",
        evidence=Evidence.MEASURED,
        witness=_TORCH_WITNESS,
        unspecified=_OVERFLOW,
        group=(
            Step("range", domain.round(maximum(domain.sub(HI, LO), _SMALL))),
            Step("scale", domain.div(Leaf("range"), BINS)),
            Step("level", domain.div(LO, _SCALE), whole=True),
            Step("zero", clamp(_negative(_LEVEL), ZERO, BINS)),
        ),
        element=(Step("level", domain.div(X, _SCALE), whole=True), Step("code", clamp(domain.add(_LEVEL, _ZERO), ZERO, BINS))),
    )


_PROFILES = {p.id: p for p in (MINMAX, MINMAX_FLOAT32, MLX, GPTQ, GPTQ_SYMMETRIC, *(_awq(n, d) for n, d in _DOMAINS.items()))}


def list_affine_profiles(fmt: str | AffineFormat | None = None) -> tuple[AffineProfile, ...]:
    """All affine profiles, or those that cover a format; normative ones first.

    Raises ValueError for an unknown format.
    """
    wanted = None if fmt is None else get_affine(fmt)
    return tuple(p for p in _PROFILES.values() if wanted is None or p.covers(wanted))


def get_affine_profile(name: str | AffineProfile, fmt: str | AffineFormat | None = None) -> AffineProfile:
    """A profile by its id.

    Raises ValueError for an unknown id, and for one that does not cover the format.
    """
    if isinstance(name, AffineProfile):
        profile = name
    elif name in _PROFILES:
        profile = _PROFILES[name]
    else:
        raise refuse_name(name, f"unknown affine profile {name!r}", _PROFILES)
    if fmt is not None and not profile.covers(get_affine(fmt)):
        covering = ", ".join(p.id for p in list_affine_profiles(fmt))
        raise ValueError(
            f"profile {profile.id} stores a {profile.offset.value} with scales in {', '.join(profile.dtypes)}, and so does not "
            f"cover {get_affine(fmt).name}; choose one of {covering}"
        )
    return profile


def default_affine_profile(fmt: str | AffineFormat) -> AffineProfile:
    """The profile that is used where none is named: `affine-minmax` with biases, `gptq/asymmetric` with zero points."""
    return MINMAX if get_affine(fmt).offset is Offset.BIAS else GPTQ
