"""How far numbers are from others: figures to read, never to judge by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isnan, log10, nan, sqrt

import numpy as np

from mxspec.elements import as_float32

#: Elements that are taken to float64 at a time.
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ErrorMeasures:
    """The error of numbers against their originals, summed in float64."""

    #: Elements compared: those whose original is finite.
    elements: int
    #: Elements left out, because their original is NaN or infinite.
    left_out: int
    #: The sum of the squares of the originals.
    signal: float
    #: The sum of the squares of the errors.
    noise: float
    #: The largest |original - number|.
    largest: float

    @property
    def sqnr(self) -> float:
        """10 log10(signal / noise), in decibels: inf without an error, NaN where all originals are zero, or none is there."""
        if not self.signal or np.isnan(self.noise):
            return nan
        if self.noise == 0:
            return inf
        return -inf if np.isinf(self.noise) else 10 * log10(self.signal / self.noise)

    @property
    def rms(self) -> float:
        """The root of the mean square error; NaN without elements."""
        return sqrt(self.noise / self.elements) if self.elements else nan


def measure_error(x: object, y: object) -> ErrorMeasures:
    """The error of y against x.

    Args:
        x: The originals: float32, float16, bfloat16, or float64 whose values are exactly float32. An array or a tensor.
        y: Numbers of the same shape and of these dtypes.

    Raises:
        TypeError: Another dtype.
        ValueError: The shapes differ.
    """
    original, number = as_float32(x), as_float32(y, name="y")
    if original.shape != number.shape:
        raise ValueError(f"x has shape {original.shape} and y {number.shape}; pass arrays of one shape")
    flat, other = original.reshape(-1), number.reshape(-1)
    count, signal, noise, largest = 0, 0.0, 0.0, 0.0
    for start in range(0, flat.size, _CHUNK):
        a, b = flat[start : start + _CHUNK], other[start : start + _CHUNK]
        kept = np.isfinite(a)
        wide = a[kept].astype(np.float64)
        with np.errstate(all="ignore"):
            error = np.abs(wide - b[kept].astype(np.float64))
            count += wide.size
            signal += float((wide * wide).sum())
            noise += float((error * error).sum())
            largest = max(largest, float(error.max(initial=0))) if not np.isnan(error).any() else nan
    return ErrorMeasures(count, flat.size - count, signal, noise, largest)


def join_measures(measures: Iterable[ErrorMeasures]) -> ErrorMeasures:
    """The error over several tensors together."""
    found = list(measures)
    largest = [m.largest for m in found]
    return ErrorMeasures(
        elements=sum(m.elements for m in found),
        left_out=sum(m.left_out for m in found),
        signal=sum(m.signal for m in found),
        noise=sum(m.noise for m in found),
        largest=nan if any(map(isnan, largest)) else max(largest, default=0.0),
    )
