"""Tensor scales between conventions: exact reciprocals, which scales a form stores, and which decoded values change."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mxspec import reals
from mxspec.containers.checkpoint import StoredScales
from mxspec.containers.conventions import Form, Scalar, Scalars
from mxspec.containers.problems import ContainerError
from mxspec.elements import decode_table
from mxspec.formats import FLOAT32, BlockFormat
from mxspec.profiles import Profile, list_profiles
from mxspec.profiles.schema import Kind, TensorScaleKind
from mxspec.rounding import Overflow
from mxspec.tensorscale import TWO_LEVEL_MAX

ONE = 0x3F800000

_DECODE, _ENCODE, _AMAX = TensorScaleKind.DECODE, TensorScaleKind.ENCODE, TensorScaleKind.AMAX
_LIMIT = reals.make_real(Fraction(TWO_LEVEL_MAX))


def is_usable(bits: int) -> bool:
    """Whether a float32 is positive and finite: what a scale must be to have a reciprocal."""
    return 0 < bits < 0x7F800000


@lru_cache(maxsize=65536)
def convert_bits(bits: int, source: TensorScaleKind, target: TensorScaleKind) -> int:
    """float32 bits of a scale in another kind: the exact reciprocal, product or quotient, rounded once to nearest even.

    Raises ContainerError for a scale that is not positive and finite, or whose counterpart is not.
    """
    if source is target:
        return bits
    if not is_usable(bits):
        raise ContainerError(
            f"the scale 0x{bits:08x} ({to_float(bits)!r}) of kind {source.value} has no counterpart of kind "
            f"{target.value}; a scale is positive and finite"
        )
    value = reals.decode_real(bits, FLOAT32)
    if _AMAX not in (source, target):
        value = reals.divide(reals.make_real(1), value)
    elif _DECODE in (source, target):
        value = reals.divide(value, _LIMIT) if source is _AMAX else reals.multiply(value, _LIMIT)
    else:
        value = reals.divide(_LIMIT, value)
    found = reals.encode_real(value, FLOAT32, overflow=Overflow.OWN)
    if not is_usable(found):
        raise ContainerError(
            f"the scale 0x{bits:08x} ({to_float(bits)!r}) of kind {source.value} becomes {to_float(found)!r} as "
            f"{target.value}: float32 cannot hold it"
        )
    return found


def to_float(bits: int) -> float:
    """The float32 with these bits."""
    return float(np.uint32(bits).view(np.float32))


def alpha_bits(input_scale: int, tensor_scale: int) -> int:
    """float32 bits of 1 / (input x tensor), the product rounded first, as LightX2V computes it."""
    pair = np.array([input_scale, tensor_scale], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        return int((np.float32(1) / (pair[0] * pair[1])).view(np.uint32))


def derive_scalars(form: Form, scales: StoredScales, base: str) -> Scalars:
    """The float32 scales of a form, from those of another: same bits where the kind is the same.

    Raises ContainerError where the form has no place for one.
    """
    place, found = form.tensor_scale, dict[str, tuple[tuple[int, ...], tuple[int, ...]]]()
    if place is not None:
        if scales.tensor is not None:
            found[place.suffix] = _convert(place, *scales.tensor)
        elif not place.optional:
            found[place.suffix] = (place.shape, (ONE,))
    # A scale of 1 leaves every value as it is, so that a form without one loses nothing.
    elif scales.tensor is not None and (scales.tensor[0] is _AMAX or set(scales.tensor[1]) != {ONE}):
        raise ContainerError(f"{base} has a tensor scale; {form.convention} {form.format_name} has no place for it")
    if scales.inputs is None:
        return found
    if not form.input_scales:
        raise ContainerError(f"{base} has an input scale; {form.convention} {form.format_name} has no place for it")
    # In its own kind, else in one that is no maximum.
    kind = scales.inputs[0]
    inputs = min(form.input_scales, key=lambda s: (s.kind is not kind, s.kind is _AMAX))
    found[inputs.suffix] = _convert(inputs, *scales.inputs)
    if form.alpha and place is not None and inputs.kind is _ENCODE:
        found[form.alpha] = ((), (alpha_bits(found[inputs.suffix][1][0], found[place.suffix][1][0]),))
    return found


def _convert(place: Scalar, kind: TensorScaleKind, bits: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = place.shape if len(bits) == 1 else (len(bits),)
    return shape, tuple(convert_bits(b, kind, place.kind) for b in bits)


def check_kind(form: Form, profile: Profile, *, convert: bool) -> None:
    """Raise ContainerError where a form stores tensor scales of another kind than the profile's, unless conversion was requested."""
    place, rule = form.tensor_scale, profile.tensor
    if convert or place is None or rule is None or rule.native is place.kind:
        return
    native = [p.id for p in list_profiles(form.format, kind=Kind.NORMATIVE) if p.tensor is not None and p.tensor.native is place.kind]
    raise ContainerError(
        f"profile {profile.id} has a tensor scale of kind {rule.native.value}, and {form.convention} {form.format_name} stores "
        f"{place.kind.value}; choose a profile that has this kind ({', '.join(dict.fromkeys((form.profile, *native)))}), or pass "
        "convert=True (--convert): the scale is then rounded once more, and values can change in the last bit"
    )


def decode_values(bits: int, kind: TensorScaleKind, fmt: BlockFormat) -> npt.NDArray[np.float64]:
    """float64 holding float32 values [scale codes, element codes]: code x block scale x scale, rounded once to float32.

    float64 is wide enough: the product of code and block scale has at most 6 significant bits, so its product with a float32
    is exact in float64, and its quotient by one lies no nearer than 2^-49 to a midpoint of float32 unless it is one.
    """
    q = decode_table(fmt.element).astype(np.float64)
    sf = decode_table(fmt.scale).astype(np.float64)
    product = sf[:, None] * q[None, :]
    scale = np.float64(to_float(bits))
    with np.errstate(all="ignore"):
        exact = product * scale if kind is _DECODE else product / scale
        return exact.astype(np.float32).astype(np.float64)


def find_changes(bits: int, kind: TensorScaleKind, new_bits: int, new_kind: TensorScaleKind, fmt: BlockFormat) -> npt.NDArray[np.int64]:
    """How many float32 numbers lie between what (scale code, element code) decodes to under the old and the new scale.

    int64 [scale codes, element codes]; 0 where the value is the same, and under a NaN scale.
    """
    if (bits, kind) == (new_bits, new_kind):
        return np.zeros((fmt.scale.code_count, fmt.element.code_count), np.int64)
    before, after = (
        decode_values(b, k, fmt).astype(np.float32) for b, k in ((bits, kind), (new_bits, new_kind))
    )  # fmt: skip
    # Both have the sign of the element, so that the difference of their bits counts the floats between them.
    distance = np.abs(before.view(np.int32).astype(np.int64) - after.view(np.int32))
    return np.where(np.isnan(before) & np.isnan(after), 0, distance)
