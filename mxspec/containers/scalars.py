"""Tensor scales between conventions: exact reciprocals, and which decoded values they change."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mxspec import reals
from mxspec.containers.problems import ContainerError
from mxspec.elements import decode_table
from mxspec.formats import FLOAT32, BlockFormat
from mxspec.profiles.schema import TensorScaleKind
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


def find_changes(
    bits: int, kind: TensorScaleKind, new_bits: int, new_kind: TensorScaleKind, fmt: BlockFormat
) -> npt.NDArray[np.int64]:
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
