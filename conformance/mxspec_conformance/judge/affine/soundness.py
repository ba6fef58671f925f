"""Whether codes are right under the scale and offset that are stored with them, whatever rule chose these.

A kernel computes codes from its scale before or after it rounds the scale to the stored dtype, and in float32, as
(v - b) / s or in another order. So a code is right if it is the nearest one for some scale and bias that round to the stored
ones, with the error of a few float32 operations on v / s and b / s: an interval of quotients, of which every whole number
nearest to one of its members is right. Nothing else is allowed: no tolerance is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import AffineFormat, Offset
from mxspec.enums import StrEnum

Values = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

#: A reciprocal, two products and a sum in float32 have a relative error of 2**-24 each, of terms no larger than
#: (|v| + |b|) / |s|: together below this times that.
_FLOAT32_ERROR = 2.0**-22


class Fault(StrEnum):
    """What is wrong with a group's answer, the gravest first."""

    RANGE = "a code or zero point has more bits than the format"
    FINITE = "the scale or the bias is not a number, and all values are"
    CODES = "a code is not the nearest under the stored scale and offset"
    COVER = "a value lies outside the range that the stored scale and offset cover, by more than half a step"


@dataclass(frozen=True, slots=True)
class Quotients:
    """For each value the interval of (v - b) / s, or v / s + z, over all scales and biases that round to the stored ones."""

    low: Values
    high: Values
    #: Where the scale's interval holds zero: every code means about the same.
    flat: Flags


def half_ulp(values: Values, fmt: AffineFormat) -> Values:
    """Half the distance to the next float of the format's dtype, upward in magnitude; of subnormals half the smallest one."""
    scalar = fmt.scalar
    _, exponent = np.frexp(np.abs(values))
    lowest = 1 - scalar.bias
    binade = np.where(values == 0, lowest, np.maximum(exponent - 1, lowest))
    return np.asarray(np.ldexp(0.5, binade - scalar.mantissa_bits))


def find_quotients(x: Values, scales: Values, offsets: Values, fmt: AffineFormat) -> Quotients:
    """The quotients of values x [n, g] under scales and offsets [n], in float64."""
    v, s = x.astype(np.float64), scales.astype(np.float64)[:, None]
    slack = half_ulp(s, fmt)
    shift: Values = np.zeros_like(s) if fmt.offset is Offset.BIAS else offsets.astype(np.float64)[:, None]
    with np.errstate(all="ignore"):
        near = far = v
        size = np.abs(v) / np.abs(s)
        if fmt.offset is Offset.BIAS:
            b = offsets.astype(np.float64)[:, None]
            near, far = v - b - half_ulp(b, fmt), v - b + half_ulp(b, fmt)
            size = size + np.abs(b) / np.abs(s)
        corners = np.stack([n / d for n in (near, far) for d in (s - slack, s + slack)])
        low, high = corners.min(axis=0), corners.max(axis=0)
        low, high = low - size * _FLOAT32_ERROR + shift, high + size * _FLOAT32_ERROR + shift
    return Quotients(low, high, np.broadcast_to(np.abs(s) <= slack, v.shape))


def find_faults(x: Values, codes: Values, scales: Values, offsets: Values, fmt: AffineFormat) -> dict[Fault, Flags]:
    """For each fault, the values [n, g] that show it; x is finite."""
    over = np.broadcast_to(np.max(codes, axis=-1, keepdims=True) > fmt.bins, codes.shape) & (codes > fmt.bins)
    shared = [scales.astype(np.float64)]
    if fmt.offset is Offset.BIAS:
        shared.append(offsets.astype(np.float64))
    else:
        over = over | (offsets > fmt.bins)[:, None]
    lost = np.broadcast_to(~np.logical_and.reduce([np.isfinite(a) for a in shared])[:, None], codes.shape)
    q = find_quotients(x, scales, offsets, fmt)
    with np.errstate(all="ignore"):
        least = np.clip(np.ceil(q.low - 0.5), 0, fmt.bins)
        most = np.clip(np.floor(q.high + 0.5), 0, fmt.bins)
        wrong = ~q.flat & ((codes < least) | (codes > most))
        outside = ~q.flat & ((q.low > fmt.bins + 0.5) | (q.high < -0.5))
    outside = outside | (q.flat & _far_from_flat(x, scales, offsets, fmt))
    return {Fault.RANGE: over, Fault.FINITE: lost, Fault.CODES: wrong & ~lost & ~over, Fault.COVER: outside & ~lost}


def _far_from_flat(x: Values, scales: Values, offsets: Values, fmt: AffineFormat) -> Flags:
    """Where a scale is about zero: which values are not about the bias (with zero points: about zero)."""
    with np.errstate(invalid="ignore"):
        s = np.abs(scales.astype(np.float64))[:, None]
        b = offsets.astype(np.float64)[:, None] if fmt.offset is Offset.BIAS else np.zeros_like(s)
        reach = (fmt.bins + 0.5) * (s + half_ulp(s, fmt)) + half_ulp(b, fmt)
        far: Flags = np.abs(x.astype(np.float64) - b) > reach
    return far
