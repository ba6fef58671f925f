"""Rounding float64 arrays to narrower floats in every direction, exactly."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec.environment import check_environment
from mxspec.formats import BFLOAT16, FLOAT16, FLOAT32, FloatFormat, ScalarFormat

Float64s = npt.NDArray[np.float64]

#: Output dtypes of products.
OUTPUTS: dict[str, FloatFormat] = {f.name: f for f in (FLOAT32, BFLOAT16, FLOAT16)}
#: The dtype of each.
DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}


class Direction(StrEnum):
    """Where a number between two representable ones goes."""

    NEAREST = "nearest even"
    ZERO = "toward zero"
    DOWN = "down"
    UP = "up"


_ROUND: dict[Direction, Any] = {Direction.NEAREST: np.rint, Direction.ZERO: np.trunc, Direction.DOWN: np.floor, Direction.UP: np.ceil}


@lru_cache
def _largest_of(fmt: ScalarFormat) -> float:
    """The largest finite number of a format."""
    return float(fmt.max_value)


def round_floats(x: Float64s, fmt: ScalarFormat, direction: Direction = Direction.NEAREST) -> Float64s:
    """Each number of x rounded once to a float format, as float64; beyond the largest finite one as IEEE 754 says."""
    check_environment()
    precision = fmt.mantissa_bits + 1
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(x)
        step = np.maximum(exponent - precision, 2 - fmt.bias - precision)
        rounded: Float64s = np.ldexp(_ROUND[direction](np.ldexp(x, -step)), step)
    largest = _largest_of(fmt)
    beyond = np.isfinite(x) & (np.abs(rounded) > largest)
    if beyond.any():
        stays = {Direction.NEAREST: False, Direction.ZERO: True}.get(direction)
        keep = (x > 0) == (direction is Direction.DOWN) if stays is None else np.full(x.shape, stays)
        rounded = np.where(beyond, np.copysign(np.where(keep, largest, np.inf), x), rounded)
    return np.where(np.isfinite(x), rounded, x)


def lowest_bit(x: Float64s) -> npt.NDArray[np.int16]:
    """The exponent of the lowest set bit of each finite number; 8192 for zero."""
    _, exponent = np.frexp(x)
    whole = np.ldexp(np.abs(x), 53 - exponent).astype(np.int64)
    low = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    result: npt.NDArray[np.int16] = np.where(whole == 0, 8192, exponent - 53 + low).astype(np.int16)
    return result


def step_to_odd(nearest: Float64s, remainder: npt.NDArray[np.int8]) -> Float64s:
    """float64 rounded to odd: of the two neighbours of a number that is no float64, the one whose last bit is set.

    remainder: sign of the number minus the nearest float64. What has been rounded to odd can be rounded once more, to at most
    51 bits, without having been rounded twice.
    """
    even = (nearest.view(np.int64) & 1) == 0
    towards = np.where(remainder > 0, np.inf, -np.inf)
    return np.where((remainder != 0) & even, np.nextafter(nearest, towards), nearest)


def add_to_odd(x: Float64s, y: Float64s) -> Float64s:
    """x + y rounded to odd."""
    with np.errstate(invalid="ignore"):
        total = x + y
        back = total - x
        lost = (x - (total - back)) + (y - back)
    known = np.where(np.isfinite(total), np.sign(lost), 0)
    return step_to_odd(total, known.astype(np.int8))
