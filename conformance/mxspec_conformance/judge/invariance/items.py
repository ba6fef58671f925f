"""The axes of size and content: calls filled with items that were answered before, in every shape, and alike in every way.

An item is what is answered by itself: a block, a group, a number, or a code. Its answer depends neither on the shape of a call nor on
the items adjacent to it. Each operation says how a call is filled; which calls are made is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from mxspec_conformance.judge.invariance.calls import Size, list_sizes
from mxspec_conformance.judge.invariance.history import Drawn, Workload
from mxspec_conformance.judge.invariance.pace import Budget, Speed, find_budget
from mxspec_conformance.judge.invariance.placed import PLACED, list_repeated
from mxspec_conformance.judge.invariance.pools import Places, draw_places
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.targets.capabilities import WINDOWS

#: Rows, and items in a row.
Shape = tuple[int, int]

#: Of the formats after the first a function is asked every so many of the sizes, others of each. Of sizes beyond so many numbers the
#: first format is asked the common ones and the largest, and the others none. A fast path of its own is asked every size up to that.
SIZE_SHARE, LARGE, OWN_PATH = 6, 1 << 18, 1 << 16
#: Numbers up to which the quick level makes every call of the first format, and the ones that it chooses.
CHEAP, CHOSEN = 1 << 12, 1 << 17
#: Shapes of the calls of one content, of which the first that is taken is asked.
CONTENTS = ((40, 8), (40, 32), (128, 16), (256, 128), (8, 8))
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
    #: Those that calls are filled with; those of which nothing is open; and (how many, number, rows) -> which of them fill a call.
    ordinary: Places
    pinned: Places = field(default_factory=lambda: np.zeros(0, np.intp))
    pick: Callable[[int, int, int], Places] | None = None
    #: Kind -> items that kernels pass over: zeros, NaN.
    special: Mapping[str, Places] = field(default_factory=dict)
    #: Shape -> (content, calls of it) beyond those.
    list_contents: Callable[[Shape], Iterable[tuple[str, Drawn]]] = lambda _: ()
    #: Whether there are calls of a shape.
    takes: Callable[[Shape], bool] = lambda _: True
    #: Whether they are all in one row.
    flat: bool = False
    #: Whether the path through a kernel may be their own: one of a dtype, or without a tensor scale.
    own_path: bool = False
    #: None: measured.
    budget: Budget | None = None

    def draw(self, shape: Shape, number: int) -> Drawn:
        """A call of ordinary items, others for each number."""
        return self.fill(self.place(shape, number))

    def shape(self, size: Size) -> Shape:
        """The shape of a call of a size."""
        return size.rows, size.columns // self.width

    def name(self, shape: Shape) -> str:
        """A shape in labels."""
        rows, wide = shape
        return f"{rows * wide} numbers" if self.flat else f"{rows} x {wide * self.width}"

    def place(self, shape: Shape, number: int) -> Places:
        """Which items such a call is filled with."""
        count = shape[0] * shape[1]
        place = self.ordinary[draw_places(count, len(self.ordinary), number)] if self.pick is None else self.pick(count, number, shape[0])
        return place.reshape(shape)


def judge_items(work: Workload, items: Items) -> None:
    """Enter calls of every size and of every content."""
    if not work.scorecard.wants(work.size, work.memory):
        return
    listed = (size for size in list_sizes(max(items.width, items.unit)) if _is_taken(work, items, items.shape(size)))
    sizes = list({(size.elements if items.flat else size): size for size in listed}.values())
    budget = items.budget or find_budget(work.session.transport, partial(_time, work, items, sizes))
    stored = work.session.transport == "results-file"  # every call
    cheap = (0 if work.turn else CHEAP) if items.budget is None else budget.cheap_of_others if work.turn else budget.cheap
    for size in sizes:
        if not _is_chosen(size, work, items, budget, first=not work.turn and not stored, last=size is sizes[-1]):
            continue
        of_others = size.common and items.own_path and size.elements <= LARGE
        of_first = size.elements <= CHOSEN or items.budget is not None
        quick = (size.quick and (of_others if work.turn else of_first)) or size.elements <= cheap
        if size.elements <= (budget.largest_chosen if quick else budget.largest):
            shape = items.shape(size)
            label = work.prefix + items.name(shape)
            answered = work.enter(work.size, label, partial(items.draw, shape, FIRST + size.salt), quick=quick)
            if answered and size.common and size.elements <= LARGE:  # a kernel may keep what it made for a shape
                twice = (2 * shape[0], shape[1])
                if size.quick and not stored and not items.flat and _is_taken(work, items, twice):  # or what is large enough
                    larger = items.draw(twice, FIRST + size.salt)
                    run_once(partial(work.session.call, work.function, *larger.arguments, **larger.options))
                work.enter(work.size, f"{label}, again", partial(items.draw, shape, FIRST + size.salt + 1), quick=quick, again=True)
    if not stored:
        _judge_contents(work, items, budget)


def _is_chosen(size: Size, work: Workload, items: Items, budget: Budget, *, first: bool, last: bool) -> bool:
    if size.elements > LARGE:
        return (first and (items.own_path or last)) or (size.common and (first or (items.own_path and budget.speed is Speed.FAST)))
    everywhere = items.own_path and size.elements <= OWN_PATH and budget.speed is Speed.FAST
    return first or everywhere or size.common or size.salt % SIZE_SHARE == work.turn % SIZE_SHARE


def _judge_contents(work: Workload, items: Items, budget: Budget) -> None:
    shape = next((s for s in CONTENTS if s[0] * s[1] * items.width <= budget.largest and _is_taken(work, items, s)), None)
    if shape is None:
        return
    label = f"{work.prefix}{items.name(shape)}" + f" as {shape[0]} x {shape[1]}" * items.flat
    for name, place in _list_contents(items, shape):
        work.enter(work.size, f"{label}, {name}", partial(items.fill, place), quick=True)
    for name, drawn in items.list_contents(shape):
        work.enter(work.size, f"{label}, {name}", drawn, quick=not work.turn)
    place = items.place(shape, FIRST - 3)
    for view, shared in _list_shared(place, flat=items.flat):
        if not _is_taken(work, items, (len(shared), shared.shape[1])):
            continue
        work.enter(work.memory, f"{label}, {view}", partial(items.fill, shared), "arranged", view, quick=True, may_refuse=True)


def _list_contents(items: Items, shape: Shape) -> Iterator[tuple[str, Places]]:
    place = items.place(shape, FIRST - 1)
    known = items.pinned if len(items.pinned) else items.ordinary
    yield from list_repeated(known[place % len(known)], int(known[len(known) // 2]))
    for kind, chosen in items.special.items():
        for where, flag in PLACED if len(chosen) else ():
            flags = flag(*shape)
            mixed = np.full_like(place, known[len(known) // 2]) if where == PLACED[-1][0] else place.copy()
            mixed[flags] = np.resize(chosen, int(flags.sum()))
            yield f"{kind} {where}", mixed


def _is_taken(work: Workload, items: Items, shape: Shape) -> bool:
    """Whether a target takes a shape. Blocks are laid into such as it takes."""
    laid = work.function in ("quantize", "dequantize")
    return (laid or work.session.capabilities.limits.allow((shape[0], shape[1] * items.width))) and items.takes(shape)


def _list_shared(place: Places, *, flat: bool) -> Iterator[tuple[str, Places]]:
    """Items that lie in memory once: a row that is all rows, and rows as windows on one row."""
    yield "broadcast", np.full_like(place, place[0, 0]) if flat else np.repeat(place[:1], len(place), axis=0)
    wide = place.shape[1] // WINDOWS * WINDOWS
    if wide and not flat:
        starts = wide // WINDOWS * np.arange(len(place))
        yield "windows", place.reshape(-1)[(starts[:, None] + np.arange(wide)) % place.size]


def _time(work: Workload, items: Items, sizes: Sequence[Size], count: int) -> float | NoAnswer:
    """The seconds that a call of so many numbers takes, by one of about as many."""
    if not sizes:
        return 0.0
    size = min(sizes, key=lambda size: abs(size.elements - count))
    drawn = items.draw(items.shape(size), FIRST - 2)
    seconds: float | NoAnswer = run_once(partial(work.session.call, "timed", work.function, *drawn.arguments, **drawn.options))
    return seconds if isinstance(seconds, NoAnswer) else seconds * count / size.elements
