"""Numbers in float64 that lie nearer to a tie than any float32 does.

A target that was not promised float64 may convert it to the nearest float32, which is the tie, or compute with the number as
it is, which lies next to it; it does the same with all numbers. One that cuts bits off does neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import ScalarFormat
from mxspec_conformance.judge.invariance.history import Workload
from mxspec_conformance.observations.bisection import NoAnswer, run_once

LABEL = "numbers in float64, which is not offered, next to ties"
TEXT = "codes are neither those of the nearest float32 numbers, nor those of the numbers as they are"


def list_near_ties(element: ScalarFormat) -> tuple[npt.NDArray[Any], ...]:
    """Eight numbers [8], below and above a tie that goes down to even, and one that goes up, of either sign: in float64, then in
    float32 the ties, and the numbers next to them on the side where the exact ones lie."""
    top = element.max_code
    ties = [float(element.magnitude(m) + element.magnitude(m + 1)) / 2 for m in (top - 2, top - 3)]
    signs = (1, -1) if element.signed else (1, 1)
    points = np.array([sign * tie for tie in ties for sign in signs for _ in range(2)])
    side = np.where(np.arange(len(points)) % 2 == 0, -1.0, 1.0)
    nearest = points.astype(np.float32)
    adjacent = np.nextafter(nearest, ((1 + side) * points).astype(np.float32))
    return points * (1 + side * 2.0**-30), nearest, adjacent


def judge_near_ties(work: Workload, calls: Sequence[Callable[[], Any]], read: Callable[[Any], npt.NDArray[Any]]) -> None:
    """Count whether the call in float64 is answered as one of those in float32; read: answer -> what is compared."""
    answers = [run_once(call) for call in calls]
    if not any(isinstance(a, NoAnswer) for a in answers):  # judged elsewhere
        found, *wanted = map(read, answers)
        work.settle("refusal", LABEL, ok=any(np.array_equal(found, rows) for rows in wanted), text=TEXT)
