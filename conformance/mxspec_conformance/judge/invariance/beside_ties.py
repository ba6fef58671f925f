"""Numbers in float64 that lie nearer to a tie than any float32 does.

A target that was not promised float64 may convert it to the nearest float32, which is the tie, or compute with the number as
it is, which lies beside it; it does the same with all numbers. One that cuts bits off does neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import ScalarFormat

LABEL = "numbers in float64, which is not offered, next to ties"
TEXT = "codes are neither those of the nearest float32 numbers, nor those of the numbers as they are"


@dataclass(frozen=True, slots=True)
class BesideTies:
    """The same numbers in three ways."""

    #: float64.
    exact: npt.NDArray[Any]
    #: float32: the ties.
    nearest: npt.NDArray[Any]
    #: float32: the numbers next to the ties, on the side where the exact ones lie.
    beside: npt.NDArray[Any]


def list_beside_ties(element: ScalarFormat) -> BesideTies:
    """Eight numbers [8]: below and above a tie that goes down to even, and one that goes up, of either sign."""
    top = element.max_code
    ties = [float(element.magnitude(m) + element.magnitude(m + 1)) / 2 for m in (top - 2, top - 3)]
    signs = (1, -1) if element.signed else (1, 1)
    points = np.array([sign * tie for tie in ties for sign in signs for _ in range(2)])
    side = np.where(np.arange(len(points)) % 2 == 0, -1.0, 1.0)
    nearest = points.astype(np.float32)
    beside = np.nextafter(nearest, ((1 + side) * points).astype(np.float32))
    return BesideTies(points * (1 + side * 2.0**-30), nearest, beside)
