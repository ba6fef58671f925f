"""Blocks in other calls than those that were judged by the vectors: of other shapes, in other memory, along other axes, in tiles.

What a block has to return is what the target returned for it in the calls that were judged; where OCP MX leaves a block open, any legal
answer will do. So this needs no profile, and says nothing about arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from mxspec.formats import Extent, get_block
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.calls import LARGE_STRIDED, STRIDED
from mxspec_conformance.judge.invariance.changes import narrow
from mxspec_conformance.judge.invariance.contents import list_contents
from mxspec_conformance.judge.invariance.history import THREADS, Drawn, Twin, Verb, Workload, judge_history
from mxspec_conformance.judge.invariance.items import Items, Shape, judge_items
from mxspec_conformance.judge.invariance.others import ROWS, find_width
from mxspec_conformance.judge.invariance.pace import OTHERS, Budget, Speed, find_budget
from mxspec_conformance.judge.invariance.placed import list_passed_over
from mxspec_conformance.judge.invariance.pools import Array, Places, Pool, draw_places, fill_blocks
from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.shapes import find_first_calls
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession

#: Calls of which it is checked what they do to inputs and earlier answers: odd ones, tiles, one long row, and powers of two, of which a
#: kernel may keep a buffer each. From 2^18 numbers on those of fast targets.
PROBED: tuple[Shape, ...] = (
    (1, 1), (1, 7), (5, 3), (128, 4), (130, 9), (64, 64), (600, 2), (8, 4), (16, 8), (32, 8), (64, 16), (256, 8), (1, 256),
)  # fmt: skip
LARGE_PROBED: Shape = (512, 32)
#: Calls that are made again and again, or whose answers are held; in the memory of an earlier one; from several threads; after ones that
#: are the same but for one thing, the last so many blocks that one number may tell.
HELD: tuple[Shape, ...] = ((1, 3), (16, 4), (64, 4), (1, 128))
REUSED: tuple[Shape, ...] = ((4, 3), (128, 8))
THREADED: tuple[Shape, ...] = ((4, 3), (64, 8), (256, 16))
SEVERAL: tuple[Shape, ...] = ((4, 3), (16, 8), (1, 40), (64, 2))
MANY: Shape = (64, 16)
#: Speeds of targets that are asked so in their smallest calls alone.
SLOW = (Speed.SLOW, Speed.CRAWLING)
#: Factor of a tensor scale that is another one, and the same in three digits.
NEAR = np.float32(1 + 2.0**-12)


@dataclass(frozen=True, slots=True)
class Way:
    """How blocks lie in calls."""

    pool: Pool
    #: What labels say of it.
    name: str = ""
    #: axis, pad, block.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Elements that are given of the last block of a line; 0: all.
    end: int = 0
    #: Blocks that lines end in, in order; tiles, as rows of blocks. None: whatever blocks.
    ends: Places | None = None
    tiles: Places | None = None

    def place(self, shape: Shape, salt: int) -> Places:
        """Blocks [lines, blocks of a line] for a call of a shape in blocks, or in tiles."""
        rows, wide = shape
        if self.tiles is not None:
            chosen = self.tiles[draw_places(rows * wide, len(self.tiles), salt)].reshape(rows, wide, -1)
            return chosen.transpose(0, 2, 1).reshape(-1, wide)
        place = self.pool.draw(rows * wide, salt, rows).reshape(shape)
        if self.ends is not None and self.end:
            place[:, -1] = self.ends[draw_places(rows, len(self.ends), salt)]
        return place

    def draw(self, shape: Shape, salt: int) -> Drawn:
        """A call."""
        return fill_blocks(self.pool, self.place(shape, salt), end=self.end, **self.options)


@dataclass(frozen=True, slots=True)
class BlockCalls:
    """`quantize` or `dequantize`, asked for blocks that it has answered."""

    session: TargetSession
    scorecard: Scorecard
    pools: Sequence[Pool]
    budget: Budget
    #: The first call that failed each requirement.
    first: dict[str, Failure] = field(default_factory=dict)

    @property
    def function(self) -> str:
        """Its name."""
        return self.pools[0].answered.function

    @property
    def is_first_format(self) -> bool:
        """Whether this is the first format that the target lists: what hangs on no format is asked in it alone."""
        return self.session.capabilities.formats[:1] == (self.scorecard.format,)

    @property
    def asks_largest(self) -> bool:
        """Whether the calls are made that take long: of the first format of a fast target."""
        return self.is_first_format and self.budget.speed is Speed.FAST

    @property
    def extent(self) -> Extent:
        """What shares one scale."""
        return get_block(self.pools[0].fmt.name).extent

    def offers(self, option: str) -> bool:
        """Whether the function takes an option, and it says anything: a whole row needs no padding, a tensor no axis."""
        if (option in ("pad", "block") and self.extent is not Extent.BLOCK) or (option == "axis" and self.extent is Extent.TENSOR):
            return False
        return self.session.capabilities.has(self.function, option)

    def is_cheap(self, pool: Pool, elements: int) -> bool:
        """Whether the quick level makes every call of so many numbers of a pool."""
        scaled = [p.name for p in self.pools if p.answered.kwargs]
        main = self.is_first_format and pool.name in (self.pools[0].name, *scaled[:1])
        return elements <= (self.budget.cheap if main else self.budget.cheap_of_others)

    def make_workload(self, ways: Sequence[Way], shapes: Collection[Shape] = ((1, 1),), **changed: Any) -> Workload:
        """Calls of one way, or of each in turn."""
        way, card = ways[0], self.scorecard
        pool, tiled = way.pool, way.tiles is not None
        label = pool.name if len(ways) == 1 else f"{len({w.pool.name for w in ways})} kinds of input"
        size = pool.fmt.k * (pool.fmt.shapes[1][0] if tiled else 1)
        taken = {
            f"{label}: {rows} rows of {wide} {'tiles' if tiled else 'blocks'}{way.name}": (rows, wide)
            for rows, wide in shapes if rows * wide * size <= self.budget.largest
        }  # fmt: skip
        given: dict[str, Any] = {
            "draw": lambda shape, number: ways[number % len(ways)].draw(shape, 1000 + number), "sizes": taken,
            "quick": {name for name, (rows, wide) in taken.items() if self.is_cheap(pool, rows * wide * size)},
            "list_twins": partial(_list_twins, self, pool), "first": self.first,
        }  # fmt: skip
        return Workload(function=self.function, scorecard=card, **{"session": self.session} | given | changed)

    def enter(
        self, topic: str, label: str, way: Way, shape: Shape, *before: str, quick: bool = False, may_refuse: bool = False,
        drawn: Callable[[], Drawn] | None = None,
    ) -> None:  # fmt: skip
        """Make a call of a shape, unless it is larger than this target's; drawn: another call of about as many numbers."""
        elements = shape[0] * shape[1] * way.pool.fmt.k * (1 if way.tiles is None else way.pool.fmt.shapes[1][0])
        work = self.make_workload([way])
        quick = quick or self.is_cheap(way.pool, elements)
        if elements <= (self.budget.largest_chosen if quick else self.budget.largest):
            drawn = drawn or partial(way.draw, shape, crc32(label.encode()))
            work.enter(topic, label, drawn, *before, quick=quick, may_refuse=may_refuse)

    def settle(self, topic: str, label: str, *, ok: bool, text: str, expected: str = "as in every other call") -> None:
        """Count what a call did besides its answer; text: what is wrong."""
        self.scorecard.count(topic, label, ok=ok)
        if not ok:
            self.first.setdefault(self.scorecard.tally(topic).id, call_failure(label, text, expected))


def measure_budget(session: TargetSession, pool: Pool) -> Budget:
    """How large the calls of a target may be, by its speed on a pool's blocks."""

    def call(count: int) -> Any:
        given = pool.answered.arguments(draw_places(count // pool.fmt.k, len(pool), 0), rows=8)
        return run_once(partial(session.call, "timed", pool.answered.function, *given, **pool.answered.kwargs))

    return find_budget(session.transport, call)


def start_calls(session: TargetSession, scorecard: Scorecard, pools: Sequence[Pool]) -> BlockCalls:
    """No call yet; measures the target's speed on the first pool's blocks."""
    if get_block(pools[0].fmt.name).extent is Extent.TENSOR:  # each is a call of its own
        few = Speed.CRAWLING
        return BlockCalls(session, scorecard, pools, Budget(few, few.largest, few.largest_chosen, few.cheap, few.cheap // OTHERS))
    return BlockCalls(session, scorecard, pools, measure_budget(session, pools[0]))


def judge_sizes(calls: BlockCalls) -> None:
    """Calls of all sizes and contents."""
    for number, pool in enumerate(calls.pools):
        made = pool
        special = {}
        for name, block in list_passed_over(pool):
            answered = answer_among_others(calls, made, *block)
            if answered is not None:
                special[name], made = np.array([len(made)]), answered
        items = Items(
            width=pool.fmt.k, fill=partial(fill_blocks, made), ordinary=np.arange(len(pool)), pinned=pool.pinned, pick=pool.draw, special=special,
            list_contents=partial(_list_contents, calls, pool), own_path=not number or not pool.answered.kwargs, budget=calls.budget,
        )  # fmt: skip
        formats = calls.session.capabilities.formats
        turn = number + (formats.index(calls.scorecard.format) if calls.scorecard.format in formats else 0)
        judge_items(calls.make_workload([Way(pool)], prefix=f"{pool.name}: ", turn=turn), items)


def _list_contents(calls: BlockCalls, pool: Pool, shape: Shape) -> Iterator[tuple[str, Drawn]]:
    """Calls of one content; of fast targets larger ones, too."""
    if pool.answered.function != "quantize":
        return
    large = [(LARGE_PROBED[0], shape[1])] if calls.budget.speed is Speed.FAST and pool is calls.pools[0] else []
    for each in (shape, *large):
        for name, made, place in list_contents(pool, each, partial(answer_among_others, calls, pool)):
            yield name + f" in {each[0]} rows" * (each is not shape), fill_blocks(made, place)


def answer_among_others(calls: BlockCalls, pool: Pool, *made: Array) -> Pool | None:
    """The pool, and behind it further blocks as they were answered between its own; None where they were not.

    made: what the function takes, each with a block in each row.
    """
    answered = pool.answered
    between = draw_places(len(made[0]), len(pool), 6)
    mixed = tuple(np.stack([m, a[between]], axis=1).reshape(2 * len(m), -1) for m, a in zip(made, answered.inputs, strict=True))
    asked = replace(answered, inputs=mixed)
    try:
        answer = calls.session.call(answered.function, *asked.arguments(np.arange(2 * len(between))), **answered.kwargs)
    except CallError:  # judged elsewhere
        return None
    return pool.extend(answered.rows(answer)[::2], *made)


def answer_rows(calls: BlockCalls, pool: Pool, x: Array, **options: Any) -> Array | None:
    """Rows of blocks of an answer; None where there is none, which is judged elsewhere."""
    try:
        return pool.answered.rows(calls.session.call("quantize", x, pool.fmt.name, **pool.answered.kwargs, **options))
    except CallError:
        return None


def judge_memory(calls: BlockCalls) -> None:
    """What calls do to their inputs and to earlier answers, and inputs that lie in memory in every way."""
    for number, pool in enumerate(calls.pools):
        large = (LARGE_PROBED,) if not number and calls.budget.speed is Speed.FAST else ()
        shapes = PROBED[:: 2 if number else 1]
        for axis in (-1, 0) if calls.offers("axis") else (-1,):
            way = along(pool, axis)
            judge_history(calls.make_workload([way], (*shapes, *large), settled=()), {Verb.PROBE})
            if calls.offers("pad"):
                padded = replace(way, name=f"{way.name}, padded", options={**way.options, "pad": True}, end=pool.fmt.k - 3)
                judge_history(calls.make_workload([padded], shapes, settled=()), {Verb.PROBE})
        # Under further tensor scales a part of the sizes, by turns.
        chosen = STRIDED[number % 2 :: 2] if number and pool.answered.kwargs else STRIDED
        for size in (*chosen, LARGE_STRIDED) if not number and calls.asks_largest else chosen:
            shape = size.rows, size.in_blocks(pool.fmt.k).columns // pool.fmt.k
            judge_history(calls.make_workload([Way(pool)], [shape]), {Verb.VIEWS})
            if pool.answered.function == "quantize" and size is not LARGE_STRIDED:
                _judge_one_column(calls, pool, shape)
    _judge_gaps(calls)


def _judge_one_column(calls: BlockCalls, pool: Pool, shape: Shape) -> None:
    """Rows of one number each, which lies in memory once."""
    x = np.repeat(pool.answered.inputs[0][pool.draw(shape[0], crc32(b"one-column"))][:, :1], pool.fmt.k, axis=1)
    rows = answer_rows(calls, pool, x)
    if rows is not None:
        place = np.repeat(np.arange(len(pool), len(pool) + shape[0]), shape[1]).reshape(shape)
        label = f"{pool.name}: {shape[0]} x {shape[1] * pool.fmt.k}, one-column"
        drawn = partial(fill_blocks, pool.extend(rows, x), place)
        calls.enter("memory", label, Way(pool), shape, "arranged", "one-column", may_refuse=True, drawn=drawn)


def _judge_gaps(calls: BlockCalls) -> None:
    """Calls that write into the memory between the numbers of a view."""
    pool = calls.pools[0]
    for view in ("padded", "rows", "columns"):
        label = f"{pool.name}: between the numbers of 6 rows of 3 blocks, {view}"
        work = calls.make_workload([Way(pool)])
        drawn = Way(pool).draw((6, 3), crc32(label.encode()))
        call = "arranged", view, "wrote", calls.function, *drawn.arguments
        if work.keeps("memory", quick=calls.is_cheap(pool, 18 * pool.fmt.k)):
            wrote = run_once(partial(calls.session.call, *call, **drawn.options))
            if not isinstance(wrote, NoAnswer):  # a target may refuse it
                calls.settle("memory", label, ok=not wrote, text="the call wrote into its input, or between its numbers")


def judge_state(calls: BlockCalls) -> None:
    """What calls do to the ones after them, and at the same time."""
    speed, make = calls.budget.speed, calls.make_workload
    for number, pool in enumerate(calls.pools):
        plain = [Way(pool)]
        judge_history(make(plain, REUSED), {Verb.REUSE})
        judge_history(make(plain, SEVERAL[: 1 if speed in SLOW else 2]), {Verb.TWINS})
        turned, near = partial(_list_turned_twins, calls, pool), partial(_list_near_twins, pool)
        judge_history(make(plain, [(2 * pool.fmt.k, 2)], list_twins=turned, changes_arrays=False), {Verb.TWINS})
        judge_history(make(plain, [] if speed in SLOW else [MANY], list_twins=near, changes_arrays=False), {Verb.TWINS})
        if not number:
            judge_history(make(plain, [(ROWS, find_width(calls.session.capabilities) // pool.fmt.k)]), {Verb.OTHERS})
            if calls.is_first_format and speed is not Speed.CRAWLING:
                judge_history(make(plain, HELD), {Verb.HOLD})
                judge_history(make(plain, HELD[:1]), {Verb.REPEAT})
    # What loops in an interpreter shares little between formats, and takes long.
    brief = speed is not Speed.FAST and not calls.is_first_format
    first = calls.pools[0]
    judge_history(make([Way(first)], THREADED[: 1 if brief else None]), {Verb.THREADS})
    if not brief:
        judge_history(make([Way(first)], SEVERAL), {Verb.SIZES})
        if calls.offers("axis"):
            judge_history(make([along(first, 0)], THREADED[1:2]), {Verb.THREADS})
        if len(calls.pools) > 1:
            kinds = [Way(calls.pools[i * len(calls.pools) // THREADS]) for i in range(THREADS)]
            judge_history(make(kinds, [(8, 5)]), {Verb.THREADS})


def _list_twins(calls: BlockCalls, pool: Pool, drawn: Drawn) -> Iterator[Twin]:
    """Calls whose bytes are the same."""
    x, *rest = drawn.arguments
    for dtype in calls.session.capabilities.dtypes if pool.answered.function == "quantize" else ():
        if np.dtype(DTYPES[dtype]).itemsize == x.dtype.itemsize and np.dtype(DTYPES[dtype]) != x.dtype:
            yield f"the dtype {dtype}", (x.view(DTYPES[dtype]), *rest), drawn.options


def _list_turned_twins(calls: BlockCalls, pool: Pool, drawn: Drawn) -> Iterator[Twin]:
    """Calls whose shapes are the same, in blocks that lie otherwise."""
    if calls.offers("axis"):
        yield "the axis", drawn.arguments, {**drawn.options, "axis": 0}
    if calls.offers("block") and len(pool.fmt.shapes) > 1:
        yield "square blocks", drawn.arguments, {**drawn.options, "block": pool.fmt.shapes[1]}


def _list_near_twins(pool: Pool, drawn: Drawn) -> Iterator[Twin]:
    """Calls that differ so little that few blocks tell."""
    (x, *rest), options = drawn.arguments, drawn.options
    if options.get("tensor_scale"):
        with np.errstate(over="ignore"):
            near = float(np.float32(options["tensor_scale"]) * NEAR)
        if np.isfinite(near):
            yield "a tensor scale next to it", drawn.arguments, {**options, "tensor_scale": near}
    for dtype in ("float16", "bfloat16") if pool.answered.function == "quantize" and x.dtype == np.float32 else ():
        yield f"what {dtype} does not hold", (narrow(dtype, x), *rest), options


def judge_first_call(calls: BlockCalls) -> None:
    """The first calls of all once more: what is set up by one may be set up too late for it, or may be wrong in the next."""
    first = [call for call in find_first_calls(calls.session) if call.function == calls.function]
    if not first or not calls.is_first_format or calls.session.transport not in LOCAL:
        return
    label, text = "the first calls of all, again", ""
    if calls.make_workload([Way(calls.pools[0])]).keeps("state", quick=True):
        session = getattr(calls.session, "inner", calls.session)  # as they were made, before any was laid into other shapes
        for call in first:
            answer = run_once(partial(session.call, call.function, *call.arguments, **call.options))
            if isinstance(answer, NoAnswer):
                calls.scorecard.count_no_answer("state", label, answer)
                return
            if not text and _as_bytes(answer) != _as_bytes(call.answer):
                shape = " x ".join(map(str, np.shape(call.arguments[0])))
                text = f"one of the first calls of the process, of {shape}, returned other bits than the same call now"
        calls.settle("state", label, ok=not text, text=text)


def _as_bytes(answer: Any) -> list[bytes]:
    return [np.asarray(part).tobytes() for part in (answer if isinstance(answer, (tuple, list)) else (answer,))]


def along(pool: Pool, axis: int) -> Way:
    """Blocks along an axis."""
    return Way(pool) if axis == -1 else Way(pool, f", axis {axis}", {"axis": axis})
