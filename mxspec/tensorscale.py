"""The float32 scale of a whole NVFP4 tensor, in its three kinds.

`decode`, `encode` and `amax` are not interchangeable: a float32 reciprocal fails to return in 14 to 28 % of cases. A
profile names the kind that its stack stores; another kind is refused unless conversion is requested, and then recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from operator import index
from typing import Literal

import numpy as np
import numpy.typing as npt

from mxspec import reals
from mxspec.arrays import ARRAYS
from mxspec.elements import as_float32
from mxspec.environment import check_environment
from mxspec.expressions import evaluate
from mxspec.formats import BLOCKS, FLOAT32, BlockFormat, BlockName, get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import TENSOR_LEAF, AmaxNan, Profile, TensorScaleKind
from mxspec.rounding import Overflow

#: The names of the kinds, for type checkers and editors.
TensorScaleKindName = Literal["decode", "encode", "amax"]

#: 6 (the largest e2m1) times 448 (the largest e4m3).
TWO_LEVEL_MAX = 2688


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TensorScale:
    """The float32 scale of a whole NVFP4 tensor, by its bits.

    `TensorScale("decode", 0x3a83126f)` and `TensorScale("decode", 0.001)` are the same.

    Raises TypeError for something else than an integer or a float, and ValueError for an unknown kind, bits that are not those
    of a float32, or a finite number beyond float32.
    """

    #: What the number means; the three kinds are not interchangeable.
    kind: TensorScaleKind
    #: The bits of the float32, 0 to 0xffffffff. An integer given here is bits; a float (0.001, numpy.float32(0.001)) is the number
    #: itself, rounded to the nearest float32, of which the bits are kept.
    bits: int
    #: The kind and bits that this was converted from, if it was.
    converted_from: tuple[TensorScaleKind, int] | None = None

    def __init__(
        self, kind: TensorScaleKindName | TensorScaleKind, bits: float, converted_from: tuple[TensorScaleKind, int] | None = None
    ) -> None:
        object.__setattr__(self, "kind", TensorScaleKind(kind))
        object.__setattr__(self, "bits", _find_bits(bits))
        object.__setattr__(self, "converted_from", None if converted_from is None else _check_origin(converted_from))

    @classmethod
    def from_float(cls, kind: TensorScaleKindName | TensorScaleKind, value: float) -> TensorScale:
        """A tensor scale from a number; nothing is rounded.

        Args:
            kind: "decode", "encode" or "amax".
            value: A number that is exactly a float32.

        Raises:
            TypeError: The value is not a number.
            ValueError: The kind is unknown, or the value is not exactly a float32.
        """
        try:
            number = float(value)
        except OverflowError:
            number = np.inf
        except (TypeError, ValueError):
            raise TypeError(f"value is {value!r}, a {type(value).__name__}; pass a number") from None
        with np.errstate(over="ignore"):
            near = np.float32(number)
        if not np.isnan(number) and (float(near) != number or number != value):
            raise ValueError(
                f"value = {number!r} is not exactly a float32; round it yourself (numpy.float32({number!r})), or call "
                f"TensorScale({str(kind)!r}, {number!r}), which takes the nearest"
            )
        return cls(kind, int(near.view(np.uint32)))

    @property
    def value(self) -> float:
        """The scale as a Python float."""
        return float(np.uint32(self.bits).view(np.float32))

    @property
    def real(self) -> reals.Real:
        """The scale as an exact number."""
        return reals.decode_real(self.bits, FLOAT32)

    def __repr__(self) -> str:
        origin = "" if self.converted_from is None else f", converted_from={self.converted_from!r}"
        return f"TensorScale({self.kind.value!r}, 0x{self.bits:08x}{origin})"

    def __str__(self) -> str:
        text = f"{self.kind.value} 0x{self.bits:08x} = {self.value!r}"
        if self.converted_from is None:
            return text
        kind, bits = self.converted_from
        return f"{text}, converted from {kind.value} 0x{bits:08x}"


def _find_bits(given: object) -> int:
    """The bits that an integer is, or of the float32 nearest to a float."""
    if not isinstance(given, np.generic) and getattr(given, "shape", None) == ():  # an array or tensor of one number
        given = given.item()  # type: ignore[attr-defined]
    if isinstance(given, (float, np.floating)):
        check_environment()
        with np.errstate(over="ignore"):
            near = np.float32(given)
        if np.isinf(near) and not np.isinf(given):
            raise ValueError(f"{given!r} is beyond float32, whose largest number is 3.4028235e+38")
        return int(near.view(np.uint32))
    if isinstance(given, (bool, np.bool_)) or not hasattr(given, "__index__") or getattr(given, "shape", ()) != ():
        raise TypeError(
            f"bits is {given!r}, a {type(given).__name__}; pass the number as a float (0.001), or its bits as an integer (0x3a83126f)"
        )
    bits = index(given)
    if not 0 <= bits < 1 << 32:
        raise ValueError(f"bits = {bits:#x} are not those of a float32; pass 0 to 0xffffffff, or the number as a float")
    return bits


def _check_origin(given: object) -> tuple[TensorScaleKind, int]:
    """A kind and bits, from which a scale was converted."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"converted_from is {given!r}; pass None, or the kind and the bits")
    return TensorScaleKind(given[0]), _find_bits(given[1])


def find_tensor_amax(x: object, *, nan: AmaxNan = AmaxNan.PROPAGATE) -> int:
    """float32 bits of the largest magnitude of a tensor; of an empty one, 0."""
    values = as_float32(x)
    if values.size == 0:
        return 0
    # The extremes of both signs need no array of magnitudes. (fmin and fmax would not pass over a signalling NaN.)
    with np.errstate(invalid="ignore"):
        ends = np.abs(np.stack([np.minimum.reduce(values, axis=None), np.maximum.reduce(values, axis=None)]))
    if not np.isnan(ends).any():
        return int(ends.max().view(np.uint32))
    if nan is AmaxNan.SKIP:
        return find_tensor_amax(values[~np.isnan(values)])
    assert FLOAT32.nan_code is not None
    return FLOAT32.nan_code


def derive_tensor_scale(amax_bits: int, profile: Profile) -> TensorScale:
    """The profile's native tensor scale of a tensor with this largest magnitude (float32 bits).

    Raises ValueError for a profile without one.
    """
    check_environment()
    if profile.tensor is None:
        raise ValueError(f"profile {profile.id} has no tensor scale")
    native = evaluate(profile.tensor.from_amax, {"tmax": ARRAYS.constant(amax_bits)}, ARRAYS).astype(np.float32)
    bits = int(native.view(np.uint32))
    if np.isnan(native):  # NaN is the quiet one, with the sign of the maximum's
        assert FLOAT32.nan_code is not None
        bits = FLOAT32.join(amax_bits >> 31 if np.isnan(ARRAYS.constant(amax_bits)) else 0, FLOAT32.nan_code)
    return TensorScale(profile.tensor.native, bits)


def tensor_scale(x: object, fmt: BlockName | str | BlockFormat = "nvfp4", profile: str | Profile | None = None) -> TensorScale:
    """The tensor scale that a profile computes for a tensor.

    Args:
        x: float32, float16 or bfloat16, or float64 whose values are exactly float32; any shape. An array, or a tensor of torch
            or CuPy.
        fmt: A block format with a tensor scale, or its name.
        profile: A profile or its name; default: `default_profile` of the format.

    Returns:
        The scale in the profile's native kind (`Profile.tensor.native`), computed from the largest magnitude of x.

    Raises:
        TypeError: x has another dtype.
        ValueError: The format or the profile has no tensor scale.

    Source: the profile's `source`.
    """
    fmt, profile = get_block(fmt), get_profile(profile, fmt)
    if profile.tensor is None:
        raise ValueError(
            f"profile {profile.id} of {fmt.name} has no tensor scale; "
            + (
                "pass tensor_scale=None"
                if fmt.has_tensor_scale
                else f"only {', '.join(f.name for f in BLOCKS.values() if f.has_tensor_scale)} has one"
            )
        )
    return derive_tensor_scale(find_tensor_amax(x, nan=profile.tensor.amax_nan), profile)


def convert_tensor_scale(scale: TensorScale, profile: Profile) -> TensorScale:
    """The scale in the profile's native kind.

    decode <-> encode: the correctly rounded reciprocal. amax -> native: the profile's own steps. decode or encode ->
    amax: the correctly rounded product or quotient with 2688. The result records what it came from.
    """
    if profile.tensor is None:
        raise ValueError(f"profile {profile.id} has no tensor scale; pass tensor_scale=None")
    native = profile.tensor.native
    if scale.kind is native:
        return scale
    if scale.kind is TensorScaleKind.AMAX:
        return replace(derive_tensor_scale(scale.bits, profile), converted_from=(scale.kind, scale.bits))
    limit = reals.make_real(Fraction(TWO_LEVEL_MAX))
    if native is not TensorScaleKind.AMAX:
        value = reals.divide(reals.make_real(1), scale.real)
    elif scale.kind is TensorScaleKind.DECODE:
        value = reals.multiply(scale.real, limit)
    else:
        value = reals.divide(limit, scale.real)
    bits = reals.encode_real(value, FLOAT32, overflow=Overflow.OWN)
    return TensorScale(native, bits, converted_from=(scale.kind, scale.bits))


def check_tensor_scale(scale: TensorScale, profile: Profile, *, convert: bool) -> TensorScale:
    """The scale, in the profile's native kind.

    Raises ValueError for another kind unless `convert`, and TypeError for something else than a TensorScale.
    """
    if not isinstance(scale, TensorScale):
        raise TypeError(
            f"tensor_scale is of type {type(scale).__name__}; pass a TensorScale (decode, encode or amax: a bare number does "
            "not say which), None, or for quantize 'auto'"
        )
    if profile.tensor is None:
        raise ValueError(f"profile {profile.id} has no tensor scale; pass tensor_scale=None")
    if scale.kind is not profile.tensor.native and not convert:
        raise ValueError(
            f"tensor_scale is of kind {scale.kind.value}, profile {profile.id} stores {profile.tensor.native.value}; "
            "pass convert=True to convert it (a float32 reciprocal does not always return)"
        )
    return convert_tensor_scale(scale, profile)


def bind_arrays(profile: Profile, scale: TensorScale) -> dict[str, npt.NDArray[np.float32]]:
    """The leaves that a native tensor scale gives, as 0-d float32 arrays."""
    assert profile.tensor is not None
    bindings = {TENSOR_LEAF[profile.tensor.native]: ARRAYS.constant(scale.bits)}
    for leaf, expr in profile.tensor.derived:
        bindings[leaf.name] = evaluate(expr, bindings, ARRAYS)
    return bindings
