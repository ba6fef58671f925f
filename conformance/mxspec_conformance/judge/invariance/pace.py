"""How large the calls may be for a target of some speed and transport, and which the quick level makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from mxspec_conformance.observations.bisection import NoAnswer

#: Numbers in the calls by which speed is measured, and how often each is made; the fastest counts.
SMALL, MEDIUM, TRIES = 1 << 11, 1 << 15, 6


class Speed(Enum):
    """How fast a target is: numbers a second, and the largest calls of a target that fast."""

    #: Vectorised code, most of which does ten millions and more.
    FAST = (5_000_000, 1 << 23, 1 << 22, 1 << 17)
    #: Many passes over the numbers.
    STEADY = (400_000, 1 << 16, 1 << 20, 1 << 13)
    #: A loop in an interpreter over blocks.
    SLOW = (64_000, 1 << 15, 1 << 15, 1 << 11)
    #: A loop in an interpreter over numbers.
    CRAWLING = (0, 1 << 11, 1 << 11, 1 << 9)

    def __init__(self, rate: int, largest: int, largest_chosen: int, cheap: int) -> None:
        self.rate, self.largest = rate, largest
        #: The largest call among the sizes that the quick level has as well.
        self.largest_chosen = largest_chosen
        #: The quick level makes every call of so many numbers: of the first format, with and without a tensor scale, in the first dtype.
        self.cheap = cheap


#: Items (numbers, codes or bytes) in a call where arrays travel as text, and where every call is stored.
LARGEST_OF = {"process": 1 << 17, "results-file": 1 << 12}
#: What counts as cheap there.
CHEAP_OF = {"process": 1 << 10, "results-file": 0}
#: Of other formats, dtypes and tensor scales, which mostly share the way through a kernel, a call is cheap up to this part of it.
OTHERS = 8


def measure_speed(call: Callable[[int], float | NoAnswer]) -> Speed:
    """The speed of a target; `call` makes a call with so many numbers, and returns the seconds that it took.

    What gives no answer is as fast as anything: it is judged by what it says.
    """
    best = 0.0
    for count in (SMALL, MEDIUM):
        for _ in range(TRIES):
            seconds = call(count)
            best = max(best, count / (1e-9 if isinstance(seconds, NoAnswer) else max(seconds, 1e-9)))
            if best >= Speed.FAST.rate:
                return Speed.FAST
        if best < Speed.SLOW.rate:
            break
    return next(speed for speed in Speed if best >= speed.rate)


@dataclass(frozen=True, slots=True)
class Budget:
    """How large the calls of a function are."""

    speed: Speed
    #: Numbers of the largest call, and of the largest among the sizes that the quick level has as well.
    largest: int
    largest_chosen: int
    #: The quick level makes every call of so many numbers: of what a function is asked first, and of all else.
    cheap: int
    cheap_of_others: int


def find_budget(transport: str, call: Callable[[int], float | NoAnswer]) -> Budget:
    """The budget of a function; call: as `measure_speed` takes it, where arrays do not travel as text."""
    speed = Speed.FAST if transport in LARGEST_OF else measure_speed(call)
    limit = LARGEST_OF.get(transport, Speed.FAST.largest)
    cheap = min(speed.cheap, CHEAP_OF.get(transport, speed.cheap))
    return Budget(speed, min(speed.largest, limit), min(speed.largest_chosen, limit), cheap, cheap // OTHERS)
