"""What a hypothesis says that codes and scales of some blocks are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.calibration import RunningAmax
from mxspec.elements_given_scale import encode_given_scale
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles import Profile, list_profiles
from mxspec.profiles.schema import Kind, TensorScaleKind
from mxspec.rounding import NanPolicy, Rounding
from mxspec.tensorscale import TWO_LEVEL_MAX, TensorScale, bind_arrays, convert_tensor_scale
from mxspec_conformance.lint.against.material import Codes, Float32s
from mxspec_conformance.lint.hypotheses import CASTS

Flags = npt.NDArray[np.bool_]
#: Nearest, with ties to even, away from zero and toward zero: whichever way a tie went, the code is a nearest one.
_NEAREST = (Rounding.RNE, Rounding.RNA, Rounding.RNZ)


@lru_cache(maxsize=32)
def zero_table(fmt: BlockFormat) -> Codes:
    """Every element code, -0 as +0: the sign of zero is no difference of values."""
    table = np.arange(256, dtype=np.uint8)
    if not fmt.element.twos_complement:
        table[fmt.element.sign_bit] = 0
    return table


def expect(x: Float32s, fmt: BlockFormat, profile: Profile, scale: TensorScale | None) -> tuple[Codes, Codes] | None:
    """Codes [n, k], without -0, and scales [n] that a profile gives for blocks [n, k]; None where it refuses NaN among them."""
    policy = profile.steps(with_tensor_scale=scale is not None).element
    refuses = (policy.nan if fmt.element.nan_code is None else policy.nan_own) is NanPolicy.RAISE
    if refuses and not np.isfinite(x).all():
        return None
    found = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    return zero_table(fmt)[found.codes], found.scales.reshape(-1)


def is_nearest(x: Float32s, codes: Codes, scales: Codes, fmt: BlockFormat, profile: Profile, scale: TensorScale | None) -> Flags:
    """Whether each code [n, k] is a nearest one to x divided by the stored scales [n], in the profile's arithmetic."""
    steps = profile.steps(with_tensor_scale=scale is not None)
    bindings = {} if scale is None else bind_arrays(profile, scale)
    table, right = zero_table(fmt), np.zeros(codes.shape, np.bool_)
    known = scales < fmt.scale.code_count  # a byte with a sign, where scales have none, gives no block a value
    for rounding in _NEAREST:
        due, _ = encode_given_scale(x, np.where(known, scales, 0), fmt, profile, steps, bindings, steps.element.with_rounding(rounding))
        right |= (table[due] == codes) & known[:, None]
    return right


def suits(profile: Profile, *, with_tensor_scale: bool) -> bool:
    """Whether a profile can have made a tensor: it has the form, and takes numbers that were not transformed first."""
    steps = profile.two_level if with_tensor_scale else profile.one_level
    return steps is not None and profile.transform is None


def list_suited(fmt: BlockFormat, *, with_tensor_scale: bool, kind: Kind | None = None) -> list[Profile]:
    """The profiles of a format that can have made a tensor."""
    return [p for p in list_profiles(fmt, kind=kind) if suits(p, with_tensor_scale=with_tensor_scale)]


def in_native_kind(scale: TensorScale, profile: Profile) -> TensorScale | None:
    """The scale as a profile uses it, or None for one that is not positive and finite there."""
    if not 0 < scale.bits < 0x7F800000:
        return None
    native = convert_tensor_scale(scale, profile)
    return native if 0 < native.bits < 0x7F800000 else None


#: A quotient by 2688 in one step or two, and a reciprocal of that: three roundings, of at most one float32 number each.
_ROUNDINGS = 3


def is_same_scale(one: TensorScale, other: TensorScale) -> bool:
    """Whether two scales, of whatever kind, can come from one maximum."""
    if one.kind is other.kind:
        return abs(one.bits - other.bits) <= _ROUNDINGS
    first, second = _decode_bits(one), _decode_bits(other)
    return first is not None and second is not None and abs(first - second) <= _ROUNDINGS


def _decode_bits(scale: TensorScale) -> int | None:
    """float32 bits of the scale as one of kind decode."""
    if not 0 < scale.bits < 0x7F800000:
        return None
    value = np.float64(scale.value)
    exact = {
        TensorScaleKind.DECODE: value, TensorScaleKind.ENCODE: 1 / value, TensorScaleKind.AMAX: value / TWO_LEVEL_MAX,
    }[scale.kind]  # fmt: skip
    with np.errstate(over="ignore"):
        return int(np.float32(exact).view(np.uint32))


@dataclass(frozen=True, slots=True)
class Between:
    """Something that the original may have been quantized to before."""

    name: str
    fmt: BlockFormat | None = None
    profile: Profile | None = None
    #: Elements whose scale is amax / `largest`; 0: none.
    element: str | None = None
    largest: int = 0

    def apply(self, x: Float32s, amax: RunningAmax) -> Float32s:
        """The numbers after going there and back, in the shape of x; whole blocks of 32 lie together."""
        if self.fmt is not None and self.profile is not None:
            native = self.profile.tensor
            scale = None if native is None else amax.tensor_scale(self.fmt, self.profile)
            there = mxspec.quantize(x.reshape(-1, self.fmt.k), self.fmt, profile=self.profile, tensor_scale=scale)
            return there.dequantize(np.float32).reshape(x.shape)
        with np.errstate(all="ignore"):
            if self.element is None:
                return x.astype(ml_dtypes.bfloat16 if self.name == "bfloat16" else np.float16).astype(np.float32)
            one = np.float32(1)
            scale_value = np.float32(np.float32(amax.value) / np.float32(self.largest)) if self.largest else one
            if not np.isfinite(scale_value) or scale_value == 0:
                return x
            codes = mxspec.encode(x / scale_value, self.element)
            return mxspec.decode(codes, self.element) * scale_value


def list_between(columns: int) -> Iterator[Between]:
    """What tensors are known to have been quantized to first: 16-bit floats, FP8 with one scale, block formats."""
    yield from map(Between, CASTS)
    for element, largest in (("e4m3", 448), ("e5m2", 57344)):
        yield Between(f"{element} with the scale amax / {largest}", element=element, largest=largest)
        yield Between(f"{element} without a scale", element=element)
    for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "nvfp4"):
        block = get_block(name)
        if columns % block.k == 0:
            for profile in list_suited(block, with_tensor_scale=block.has_tensor_scale, kind=Kind.NORMATIVE):
                yield Between(f"{name} by {profile.id}", block, profile)


__all__ = [
    "Between", "Flags", "expect", "in_native_kind", "is_nearest", "is_same_scale", "list_between",
    "list_suited", "suits", "zero_table",
]  # fmt: skip
