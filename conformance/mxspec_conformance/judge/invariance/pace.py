"""How large the calls may be for a target of some speed and transport."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any

#: Numbers in the calls by which speed is measured, and how often each is made; the fastest counts.
SMALL, MEDIUM, TRIES = 1 << 11, 1 << 15, 3


class Speed(Enum):
    """How fast a target is: numbers a second, and the largest call that is asked of a target as fast."""

    #: Vectorised code. Real libraries lie a factor of four or more away from the limit to the next class.
    FAST = (4_000_000, 1 << 22)
    #: Many passes, or a loop in an interpreter over whole blocks.
    SLOW = (64_000, 1 << 15)
    #: A loop in an interpreter over numbers.
    CRAWLING = (0, 1 << 11)

    def __init__(self, rate: int, largest: int) -> None:
        self.rate, self.largest = rate, largest


#: Numbers in a call where arrays travel as text, and where every call is stored.
LARGEST_OF = {"process": 1 << 17, "results-file": 1 << 12}


def measure_speed(call: Callable[[int], Any]) -> Speed:
    """The speed of a target; `call` makes a call with so many numbers."""
    for count, too_slow in ((SMALL, Speed.CRAWLING), (MEDIUM, Speed.SLOW)):
        faster = Speed.SLOW if too_slow is Speed.CRAWLING else Speed.FAST
        if not any(_time(call, count) * faster.rate <= count for _ in range(TRIES)):
            return too_slow
    return Speed.FAST


def _time(call: Callable[[int], Any], count: int) -> float:
    started = time.monotonic()
    call(count)
    return time.monotonic() - started
