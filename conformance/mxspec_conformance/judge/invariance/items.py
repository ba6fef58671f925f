"""The axes of size and content: calls filled with items that were answered before, in every shape, and alike in every way.

An item is what is answered by itself: a group, or a code. What it is answered hangs neither on the shape of a call nor on the items
adjacent to it. Each operation says how a call is filled; which calls are made is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from mxspec_conformance.judge.invariance.calls import Size, list_sizes
from mxspec_conformance.judge.invariance.history import Drawn, Workload
from mxspec_conformance.judge.invariance.pace import LARGEST_OF, Speed, measure_speed
from mxspec_conformance.judge.invariance.placed import PLACED, list_repeated
from mxspec_conformance.judge.invariance.pools import Places, draw_places
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported

#: Rows, and items in a row.
Shape = tuple[int, int]

#: Of the formats after the first a function is asked every so many of the sizes, others of each. Of sizes beyond so many numbers the
#: first format is asked the common ones and the largest, and the others none.
SIZE_SHARE, LARGE = 6, 1 << 18
#: Numbers up to which the quick level makes every call of the first format, and the ones that it chooses.
CHEAP, CHOSEN = 1 << 12, 1 << 17
#: Shapes of the calls of one content, of which the first that is taken is asked.
CONTENTS = ((40, 8), (40, 32), (128, 16), (256, 128))
#: From this number on calls are drawn for this axis.
FIRST = 2000


@dataclass(frozen=True, kw_only=True)
class Items:
    """Items that a target has answered."""

    #: Numbers of one, along a row; and those of which a row holds a multiple, if more.
    width: int
    unit: int = 1
    #: Places [rows, items of a row] -> the call that they fill.
    fill: Callable[[Places], Drawn]
    #: Those that calls are filled with.
    ordinary: Places
    #: Kind -> items that kernels pass over: zeros, NaN.
    special: Mapping[str, Places] = field(default_factory=dict)
    #: Whether there are calls of a shape.
    takes: Callable[[Shape], bool] = lambda _: True

    def draw(self, shape: Shape, number: int) -> Drawn:
        """A call of ordinary items, others for each number."""
        return self.fill(self.place(shape, number))

    def shape(self, size: Size) -> Shape:
        """The shape of a call of a size."""
        return size.rows, size.columns // self.width

    def place(self, shape: Shape, number: int) -> Places:
        """Which items such a call is filled with."""
        return self.ordinary[draw_places(shape[0] * shape[1], len(self.ordinary), number)].reshape(shape)


def judge_items(work: Workload, items: Items) -> None:
    """Enter calls of every size and of every content."""
    if not work.scorecard.wants(work.size):
        return
    transport = work.session.transport
    sizes = [size for size in list_sizes(max(items.width, items.unit)) if _is_taken(work, items, items.shape(size))]
    speed = Speed.FAST if transport in LARGEST_OF or not sizes else measure_speed(partial(_time, work, items, sizes))
    largest = min(speed.largest, LARGEST_OF.get(transport, speed.largest))
    # Every call of a results file is stored.
    every = not work.turn and transport != "results-file"
    for size in sizes:
        if size.elements > LARGE:
            chosen = every and (size.common or size is sizes[-1])
        else:
            chosen = every or size.common or size.salt % SIZE_SHARE == work.turn % SIZE_SHARE
        if chosen and size.elements <= largest:
            quick = (size.quick and size.elements <= CHOSEN) or (not work.turn and size.elements <= CHEAP)
            label, shape = f"{work.prefix}{size.rows} x {size.columns}", items.shape(size)
            answered = _enter(work, label, items.place(shape, FIRST + size.salt), items, quick=quick)
            if answered and size.common and size.elements <= LARGE:  # a kernel may keep what it made for a shape
                _enter(work, f"{label}, again", items.place(shape, FIRST + size.salt + 1), items, quick=quick, may_refuse=False)
    if transport != "results-file":
        _judge_contents(work, items, largest)


def _judge_contents(work: Workload, items: Items, largest: int) -> None:
    taken = (s for s in CONTENTS if s[0] * s[1] * items.width <= largest and _is_taken(work, items, s))
    shape = next(taken, None)
    if shape is not None:
        for name, place in _list_contents(items, shape):
            _enter(work, f"{work.prefix}{shape[0]} x {shape[1] * items.width}, {name}", place, items, quick=True)


def _list_contents(items: Items, shape: Shape) -> Iterator[tuple[str, Places]]:
    place = items.place(shape, FIRST - 1)
    yield from list_repeated(place, int(items.ordinary[len(items.ordinary) // 2]))
    for kind, chosen in items.special.items():
        for where, flag in PLACED if len(chosen) else ():
            mixed, flags = place.copy(), flag(*shape)
            mixed[flags] = np.resize(chosen, int(flags.sum()))
            yield f"{kind} {where}", mixed


def _is_taken(work: Workload, items: Items, shape: Shape) -> bool:
    rows, wide = shape
    return work.session.capabilities.limits.allow((rows, wide * items.width)) and items.takes(shape)


def _enter(work: Workload, label: str, place: Places, items: Items, *, quick: bool, may_refuse: bool = True) -> bool:
    """Count one call; whether it was answered. may_refuse: a function ends somewhere, and says so."""
    if not work.keeps(work.size, label, quick=quick):
        return False
    drawn = items.fill(place)
    answer = run_once(partial(work.session.call, work.function, *drawn.arguments, **drawn.options))
    if isinstance(answer, NoAnswer):
        work.scorecard.count_no_answer(work.size, label, unsupported(answer.message) if may_refuse and answer.is_refusal else answer)
        return False
    work.judge(label, drawn, answer, topic=work.size)
    return True


def _time(work: Workload, items: Items, sizes: Sequence[Size], count: int) -> float | NoAnswer:
    """The seconds that a call of so many numbers takes, by one of about as many."""
    size = min(sizes, key=lambda size: abs(size.elements - count))
    drawn = items.draw(items.shape(size), FIRST - 2)
    seconds: float | NoAnswer = run_once(partial(work.session.call, "timed", work.function, *drawn.arguments, **drawn.options))
    return seconds if isinstance(seconds, NoAnswer) else seconds * count / size.elements
