"""The call matrix: the blocks that were judged alone, asked in calls of other shapes, in other memory, along other axes.

What a block has to return is what the target returned for it in the calls that were judged against the vectors; where OCP MX
leaves a block open, any legal answer will do. So this needs no profile, and says nothing about arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.calls import (
    CUT_GRIDS,
    GRIDS,
    LAID,
    LARGE_GRIDS,
    LARGE_STRIDED,
    STRIDED,
    Laid,
    Size,
    list_compiled,
    list_laid,
    list_ragged,
    list_scattered,
    list_sizes,
    list_small,
    list_squares,
    list_weights,
)
from mxspec_conformance.judge.invariance.misplaced import Displacement, classify, describe_places
from mxspec_conformance.judge.invariance.pace import CHEAP_OF, LARGEST_OF, OTHERS, Speed, measure_speed
from mxspec_conformance.judge.invariance.pools import Places, Pool, draw_places, flag_open, flag_open_at
from mxspec_conformance.judge.tally import LIMITED, Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.observations.selection import CALLS, keeps_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import ARRANGEMENTS, MATRIX_ARRANGEMENTS, WINDOWS
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession

Array = npt.NDArray[Any]
#: Square tiles that are answered alone, and blocks that are cut short.
TILES, CUT = 12, 256
#: Arrangements of inputs that are asked along other axes, with ragged ends, and in tiles.
REARRANGED = ("fortran", "rows", "columns", "padded", "reversed")
#: Those that are asked of a large matrix; those that the quick level asks of a small one as well.
VIEWS = ("rows", "columns", "padded", "fortran", "reversed", "slice")
QUICK_ARRANGEMENTS = ("far-slice", "fortran-padded", "fortran@1", "columns@1", "padded@0")
#: Calls that a part of the matrix has at most.
PART = 100_000
#: Numbers of a call from which on not every format is asked in every size.
LARGE = 1 << 16


@dataclass(slots=True)
class Matrix:
    """One function of a target, asked in call after call."""

    session: TargetSession
    scorecard: Scorecard
    speed: Speed
    #: The largest call that is made, in numbers, and that among those of the quick level.
    largest: int
    largest_chosen: int
    #: The first call that failed each requirement.
    first: dict[str, Failure] = field(default_factory=dict)
    #: Calls so far, so that each draws other blocks.
    calls: int = 0
    #: The quick level makes every call of so many numbers: of pools with these names, and of others.
    cheap: int = 0
    cheap_of_others: int = 0
    main_pools: frozenset[str] = frozenset()

    @classmethod
    def start(cls, session: TargetSession, scorecard: Scorecard, pools: Sequence[Pool]) -> Matrix:
        """A matrix without a call yet; measures the target's speed on the first pool's blocks."""
        pool = pools[0]

        def call(count: int) -> Any:
            given = pool.answered.arguments(draw_places(count // pool.fmt.k, len(pool), 0), rows=8)
            return run_once(partial(session.call, "timed", pool.answered.function, *given, **pool.answered.kwargs))

        speed = Speed.FAST if session.transport in LARGEST_OF else measure_speed(call)
        limit = LARGEST_OF.get(session.transport, Speed.FAST.largest)
        matrix = cls(session, scorecard, speed, min(speed.largest, limit), min(speed.largest_chosen, limit))
        cheap = min(speed.cheap, CHEAP_OF.get(session.transport, speed.cheap))
        matrix.cheap_of_others = cheap // OTHERS
        matrix.cheap = cheap if matrix.is_first_format else matrix.cheap_of_others
        scaled = [p.name for p in pools if p.answered.kwargs]
        matrix.main_pools = frozenset((pool.name, *scaled[:1]))
        return matrix

    @property
    def asks_largest(self) -> bool:
        """Whether the calls are made that take long: of the first format of a fast target."""
        return self.is_first_format and self.speed is Speed.FAST

    @property
    def is_first_format(self) -> bool:
        """Whether this is the first format that the target lists: what hangs on no format is asked in it alone."""
        return self.session.capabilities.formats[:1] == (self.scorecard.format,)

    def begin(self, part: int) -> None:
        """Start a part, which draws the same blocks whatever was asked before."""
        self.calls = PART * part

    def cheap_for(self, pool: Pool) -> int:
        """The quick level makes every call of so many numbers of a pool."""
        return self.cheap if pool.name in self.main_pools else self.cheap_of_others

    def asks(self, pool: Pool, label: str, elements: int, *, quick: bool = False) -> bool:
        """Whether a call of so many numbers is made. The quick level makes the cheap ones; quick: it makes this one, too."""
        chosen = quick or elements <= self.cheap_for(pool)
        return keeps_call(CALLS, f"{self.scorecard.operation}/{self.scorecard.format}", label, quick=chosen)

    def draw(self, pool: Pool, count: int, rows: int = 1) -> Places:
        """Blocks for the next call."""
        self.calls += 1
        return pool.draw(count, self.calls, rows)

    def enter(
        self,
        topic: str,
        label: str,
        pool: Pool,
        place: Places,
        call: Callable[[], Array],
        *,
        lines: int = 1,
        quick: bool = False,
        may_refuse: bool = False,
        axis: int = -1,
        arrangement: str = "contiguous",
    ) -> bool:
        """Make one call and count it; whether every block was right. `call` returns rows like the pool's.

        axis, arrangement: how the lines lie.
        """
        elements = len(place) * pool.answered.inputs[0].shape[1]
        if not self.asks(pool, label, elements, quick=quick):
            return True
        if not self.scorecard.wants(topic):
            return True
        if elements > (self.largest_chosen if quick else self.largest):
            return True
        got = run_once(call)
        if isinstance(got, NoAnswer):
            if not may_refuse:
                limited = topic not in LIMITED and self._is_limit(pool, place, lines, got)
                self.scorecard.count_no_answer(topic, label, unsupported(got.message) if limited else got)
            return may_refuse
        wrong = pool.find_wrong(place, got)
        ok = not wrong.any()
        self.scorecard.count(topic, label, ok=ok)
        requirement = self.scorecard.tally(topic).id
        if not ok and requirement not in self.first:
            failure, across = draw_call(label, pool, place, got, wrong, lines), max(len(place) // lines, 1)
            at = int(np.argmax(wrong))
            kept = pool.answered.keep_call(failure, place, at, got[at], width=across, axis=axis, arrangement=arrangement)
            self.first[requirement] = kept
        return ok

    def _is_limit(self, pool: Pool, place: Places, lines: int, refused: NoAnswer) -> bool:
        """Whether a refusal says nothing of a call but its size: the same blocks are refused alone, too, and one of them is not.

        What raises only after another call, or from then on for every call, is no limit.
        """
        if not refused.is_refusal or len(place) % lines or int(place.max(initial=0)) >= len(pool):
            return False
        whole = run_once(partial(_call, self.session, pool, place, lines))
        if not isinstance(whole, NoAnswer) or not whole.is_refusal:
            return False
        return not isinstance(run_once(partial(_call, self.session, pool, place[:1], 1)), NoAnswer)

    def settle(self, topic: str, label: str, *, ok: bool, text: str) -> None:
        """Count what one call did beside its answer, or what many calls showed together; the text says what is wrong."""
        self.scorecard.count(topic, label, ok=ok)
        if not ok:
            self.first.setdefault(self.scorecard.tally(topic).id, call_failure(label, text))


def draw_call(label: str, pool: Pool, place: Places, got: Array, wrong: npt.NDArray[np.bool_], lines: int) -> Failure:
    """A failure in which the first wrong block is shown, and what became of all of them."""
    want = pool.answered.before[place]
    first = int(np.flatnonzero(wrong)[0])
    kind, distance = classify(got, want, wrong, lines)
    steps = [describe_places(wrong, lines)]
    if kind is Displacement.MOVED:
        away = "one place" if abs(distance) == 1 else f"{abs(distance)} places"
        steps.append(f"each holds the answer of the block {away} {'on' if distance > 0 else 'back'}")
    elif kind is not Displacement.OTHER:
        steps.append(kind.value)
    inputs = [a[place[first]] for a in pool.answered.inputs]
    return Failure(
        case=label,
        given={"call": label, **_show_inputs(inputs)},
        expected=_show_answer(want[first]),
        returned=_show_answer(got[first]),
        steps=steps,
    )


def _show_inputs(inputs: Sequence[Array]) -> dict[str, str]:
    if len(inputs) == 2:
        return {"codes": inputs[0].tobytes().hex(), "scale": inputs[1].tobytes().hex()}
    bits = inputs[0].view(f"u{inputs[0].dtype.itemsize}")
    return {"x": " ".join(f"{int(b):0{2 * bits.dtype.itemsize}x}" for b in bits)}


def _show_answer(row: Array) -> dict[str, str]:
    if row.dtype == np.uint8:
        return {"scale": f"{int(row[0]):02x}", "codes": row[1:].tobytes().hex()}
    return {"values": " ".join(f"{int(b):08x}" for b in row.view(np.uint32))}


def judge_sizes(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Calls of all sizes: every one in the first dtype and tensor scale, some in the others."""
    for number, pool in enumerate(pools):
        k = pool.fmt.k
        listed = list_scattered(number) if number else []
        if number and not pool.answered.kwargs and matrix.speed is Speed.FAST:
            listed += [*list_small(k), *list_compiled()]  # another dtype has tails, and instances, of its own
        others = [size.in_blocks(k) for size in listed]
        for size in (*list_sizes(k), *others):
            rest = size.elements <= LARGE and matrix.speed is Speed.FAST
            everywhere = not number and (matrix.is_first_format or rest)
            if not everywhere and not size.common and size not in others:
                continue
            if size.elements > LARGE and not matrix.is_first_format and matrix.speed is not Speed.FAST:
                continue
            label, quick = f"{pool.name}: {size.rows} x {size.columns}", size.quick and not number
            if not matrix.asks(pool, label, size.elements, quick=quick):
                matrix.calls += 1  # what is left out changes no other call
                continue
            place = matrix.draw(pool, size.elements // k, size.rows)
            matrix.enter(
                "call-size",
                label,
                pool,
                place,
                partial(_call, matrix.session, pool, place, size.rows),
                lines=size.rows,
                quick=quick,
            )


def _call(session: TargetSession, pool: Pool, place: Places, rows: int, *before: str, **options: Any) -> Array:
    answered = pool.answered
    arguments = answered.arguments(place, rows=rows)
    return answered.rows(session.call(*before, answered.function, *arguments, **answered.kwargs, **options))


def judge_strides(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """The same matrices, lying in memory in every way; a target may refuse what is not contiguous."""
    for number, pool in enumerate(pools):
        k = pool.fmt.k
        *sizes, large = (size.in_blocks(k) for size in (*STRIDED, LARGE_STRIDED))
        everything = (*ARRANGEMENTS[1:-1], *MATRIX_ARRANGEMENTS)
        # Of two inputs one may be a view, and the other whole.
        inputs = range(len(pool.answered.inputs)) if len(pool.answered.inputs) > 1 else ()
        alone = tuple(f"{name}@{i}" for i in inputs for name in everything)
        for size in [*sizes, *((large,) if not number and matrix.asks_largest else ())]:
            chosen = (*everything, *alone) if size is sizes[0] else ARRANGEMENTS[1:-1]
            for arrangement in VIEWS if size is large else chosen:
                rows = size.rows
                place = matrix.draw(pool, size.elements // k)
                if arrangement.startswith("broadcast"):  # its rows are one row
                    place = np.tile(place[: size.columns // k], rows)
                if arrangement.startswith("windows"):  # each row begins a third of a row on
                    place = _overlap(place, rows)
                matrix.enter(
                    "memory",
                    f"{pool.name}: {rows} x {size.columns}, {_name_arrangement(arrangement)}",
                    pool,
                    place,
                    partial(_call, matrix.session, pool, place, rows, "arranged", arrangement),
                    lines=rows,
                    quick=size.quick or arrangement in QUICK_ARRANGEMENTS,
                    may_refuse=arrangement != "offset",
                    arrangement=arrangement,
                )
            if pool.answered.function == "quantize" and size is not large:
                _judge_one_column(matrix, pool, size)


def _overlap(place: Places, rows: int) -> Places:
    """Rows of blocks as windows on one row; as they are where a row has no thirds."""
    across = len(place) // rows
    if across % WINDOWS:
        return place
    starts = across // WINDOWS * np.arange(rows)
    windows: Places = place[(starts[:, None] + np.arange(across)).reshape(-1) % len(place)]
    return windows


def _name_arrangement(arrangement: str) -> str:
    name, _, alone = arrangement.partition("@")
    return f"{name}, {('codes', 'scales')[int(alone)]} alone" if alone else name


def _judge_one_column(matrix: Matrix, pool: Pool, size: Size) -> None:
    """Rows of one number each, which lies in memory once."""
    place = matrix.draw(pool, size.rows)
    x = np.repeat(pool.answered.inputs[0][place][:, :1], pool.fmt.k, axis=1)
    session = matrix.session
    try:
        answer = session.call("quantize", x, pool.fmt.name, **pool.answered.kwargs)
    except CallError:  # judged elsewhere
        return
    blocks = size.columns // pool.fmt.k
    rows = extend_pool(pool, pool.answered.rows(answer), x)
    where = len(pool) + np.repeat(np.arange(size.rows), blocks)
    call = partial(_call, session, rows, where, size.rows, "arranged", "one-column")
    label = f"{pool.name}: {size.rows} x {size.columns}, one-column"
    matrix.enter("memory", label, rows, where, call, lines=size.rows, may_refuse=True)


def _along(session: TargetSession, pool: Pool, x: Array, axis: int, *before: str, **options: Any) -> Array:
    """The answer for lines [lines, n] that lie along an axis, as rows of blocks."""
    answered = pool.answered
    given = x if axis in (-1, 1) else np.ascontiguousarray(x.T)
    if axis != -1:
        options["axis"] = axis
    codes, scales = session.call(*before, "quantize", given, pool.fmt.name, **answered.kwargs, **options)
    if axis not in (-1, 1):
        codes, scales = np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)
    return answered.rows((codes, scales))


def judge_axes(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Blocks along the first axis, by either of its names, and along the last one by its other name."""
    for number, pool in enumerate(pools):
        all_laid = list_laid(pool.fmt.k)[:: 1 if not number else 4]
        if not number and matrix.asks_largest:
            all_laid += list_weights(pool.fmt.k)
        for i, laid in enumerate(all_laid):
            axis = (0, -2)[i % 3 == 1]
            _lay(matrix, pool, laid, axis)
        for laid in (*LAID[2:12:3], *list_squares(pool.fmt.k)[::2]):
            _lay(matrix, pool, laid, 1)
        for arrangement in REARRANGED:
            _lay(matrix, pool, Laid(67, 5), 0, arrangement)
            side = max(64, pool.fmt.k)
            _lay(matrix, pool, Laid(side, side // pool.fmt.k), 0, arrangement)


def _lay(matrix: Matrix, pool: Pool, laid: Laid, axis: int, arrangement: str | None = None) -> None:
    place = matrix.draw(pool, laid.lines * laid.count)
    x = pool.answered.inputs[0][place].reshape(laid.lines, -1)
    before = () if arrangement is None else ("arranged", arrangement)
    told = "" if arrangement is None else f", {arrangement}"
    shape = f"{x.shape[0]} x {x.shape[1]}" if axis == 1 else f"{x.shape[1]} x {x.shape[0]}"
    matrix.enter(
        "axis",
        f"{pool.name}: {shape}, axis {axis}{told}",
        pool,
        place,
        partial(_along, matrix.session, pool, x, axis, *before),
        lines=laid.lines,
        quick=laid.quick and arrangement is None,
        may_refuse=arrangement is not None,
        axis=0 if axis in (0, -2) else -1,
        arrangement=arrangement or "contiguous",
    )


def judge_ragged(matrix: Matrix, pools: Sequence[Pool], *, axis: int) -> None:
    """Lines that end within a block: as if zeros followed."""
    for number, pool in enumerate(pools):
        # By its two names an axis is one path or two; a few calls tell.
        asked: list[tuple[Laid, str | None]] = [
            (laid, None) for laid in list_ragged(pool.fmt.k)[:: 1 if not number and axis in (-1, 0) else 4]
        ]
        if axis in (-1, 0) and matrix.session.transport != "results-file":
            asked += [(Laid(6, 3, pool.fmt.k // 4), arrangement) for arrangement in REARRANGED]
        for laid, arrangement in asked:
            short = _cut_pool(matrix, pool, laid.end)
            if short is None:
                continue
            place = matrix.draw(pool, laid.lines * laid.count)
            last = np.arange(len(place)) % laid.count == laid.count - 1
            place[last] = len(pool) + place[last] % CUT  # in the joined pool the cut blocks come second
            columns = laid.count * pool.fmt.k - (pool.fmt.k - laid.end if laid.end else 0)
            x = short.answered.inputs[0][place].reshape(laid.lines, -1)[:, :columns]
            shape = f"{x.shape[0]} x {x.shape[1]}" if axis in (-1, 1) else f"{x.shape[1]} x {x.shape[0]}"
            shape += f", axis {axis}" if axis != -1 else ""
            shape += f", {arrangement}" if arrangement else ""
            before = ("arranged", arrangement) if arrangement else ()
            matrix.enter(
                "tail",
                f"{pool.name}: {shape}, padded",
                short,
                place,
                partial(_along, matrix.session, pool, np.ascontiguousarray(x), axis, *before, pad=True),
                lines=laid.lines,
                quick=laid.quick,
                may_refuse=arrangement is not None,
            )


def _cut_pool(matrix: Matrix, pool: Pool, end: int) -> Pool | None:
    """The pool, and behind it the same blocks with zeros from lane `end` on, answered alone; None where they are not."""
    x = pool.answered.inputs[0][draw_places(CUT, len(pool), end)]
    x[:, end or pool.fmt.k :] = 0
    try:
        answer = matrix.session.call("quantize", x, pool.fmt.name, **pool.answered.kwargs)
    except CallError:  # judged elsewhere
        return None
    return extend_pool(pool, pool.answered.rows(answer), x)


def extend_pool(pool: Pool, answers: Array, *further: Array) -> Pool:
    """The pool with further blocks behind its own; further: what the function takes of them."""
    joined = tuple(np.concatenate([a, b]) for a, b in zip(pool.answered.inputs, further, strict=True))
    answered = replace(pool.answered, inputs=joined, before=np.concatenate([pool.answered.before, answers]))
    accept = partial(flag_open_at, joined[0], pool.fmt) if answered.function == "quantize" else None
    return replace(pool, answered=answered, accept=accept)


def judge_grids(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Square tiles in grids of every shape, each tile as it was answered alone."""
    for number, pool in enumerate(pools):
        k = pool.fmt.k
        side = pool.fmt.shapes[1][0]
        alone = _answer_tiles(matrix, pool, side)
        if alone is None:
            continue
        tiles, pool_of_rows = alone
        for down, across in (*GRIDS, *(LARGE_GRIDS if not number and matrix.asks_largest else ())):
            chosen = matrix.draw(pool, down * across) % len(tiles)
            x = tiles[chosen].reshape(down, across, side, k).transpose(0, 2, 1, 3).reshape(down * side, across * k)
            label = f"{pool.name}: {down} x {across} tiles"
            place = (chosen.reshape(down, 1, across) * side + np.arange(side)[:, None]).reshape(-1)
            call = partial(_call_tiles, matrix.session, pool, np.ascontiguousarray(x))
            matrix.enter("position", label, pool_of_rows, place, call, lines=down * side, quick=down * across == 9)
            if (down, across) in ((2, 5), (3, 3)) and matrix.session.transport != "results-file":
                _judge_tiles_written(matrix, pool, label, np.ascontiguousarray(x))
                for arrangement in REARRANGED:
                    call = partial(_call_tiles, matrix.session, pool, np.ascontiguousarray(x), "arranged", arrangement)
                    name = f"{label}, {arrangement}"
                    matrix.enter("memory", name, pool_of_rows, place, call, lines=down * side, may_refuse=True)
            if matrix.session.capabilities.has("quantize", "axis") and (down, across) in GRIDS:
                call = partial(_call_tiles_upright, matrix.session, pool, np.ascontiguousarray(x))
                matrix.enter("axis", f"{label}, axis 0", pool_of_rows, place, call, lines=down * side)


def judge_cut_grids(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Square tiles of which the last ones are cut short, with padding: as if zeros followed; a target may refuse them.

    What lies in the rows that padding adds is not looked at.
    """
    for pool in pools:
        k, side = pool.fmt.k, pool.fmt.shapes[1][0]
        alone = _answer_tiles(matrix, pool, side)
        if alone is None:
            continue
        for down, across, rows, columns in CUT_GRIDS:
            tiles = alone[0][matrix.draw(pool, down * across) % len(alone[0])]
            whole = tiles.reshape(down, across, side, k).transpose(0, 2, 1, 3).reshape(down * side, across * k).copy()
            kept = len(whole) - rows
            whole[kept:] = 0
            whole[:, whole.shape[1] - columns :] = 0
            cut = np.ascontiguousarray(whole[:kept, : whole.shape[1] - columns])
            for axis in (-1, 0) if matrix.session.capabilities.has("quantize", "axis") else (-1,):
                told = f"{pool.name}: {down} x {across} tiles less {rows} rows and {columns} columns" + (", axis 0" if axis == 0 else "")
                want = run_once(partial(_call_tiles, matrix.session, pool, whole))
                if isinstance(want, NoAnswer):  # judged elsewhere
                    continue
                grid = extend_pool(pool, want, whole.reshape(-1, k))
                call = partial(_call_cut_tiles, matrix.session, pool, cut, kept * across, axis)
                place = len(pool) + np.arange(kept * across)
                matrix.enter("tail", told, grid, place, call, lines=kept, quick=(down, across, axis) == (8, 8, -1), may_refuse=True)


def _call_cut_tiles(session: TargetSession, pool: Pool, x: Array, count: int, axis: int) -> Array:
    """The first blocks of the padded answer."""
    options: dict[str, Any] = {} if axis == -1 else {"axis": axis}
    given = x if axis == -1 else np.ascontiguousarray(x.T)
    codes, scales = session.call("quantize", given, pool.fmt.name, block=pool.fmt.shapes[1], pad=True, **pool.answered.kwargs, **options)
    if axis != -1:
        codes, scales = np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)
    return pool.answered.rows((codes, scales))[:count]


def _judge_tiles_written(matrix: Matrix, pool: Pool, label: str, x: Array) -> None:
    """Whether a call with tiles writes into its input."""
    name = f"{label}: input afterwards"
    if not matrix.asks(pool, name, x.size):
        return
    call = partial(matrix.session.call, "wrote", "quantize", x, pool.fmt.name, block=pool.fmt.shapes[1], **pool.answered.kwargs)
    wrote = run_once(call)
    if not isinstance(wrote, NoAnswer):  # judged elsewhere
        matrix.settle("memory", name, ok=not wrote, text="the call wrote into its input")


def _call_tiles(session: TargetSession, pool: Pool, x: Array, *before: str) -> Array:
    answer = session.call(*before, "quantize", x, pool.fmt.name, block=pool.fmt.shapes[1], **pool.answered.kwargs)
    return pool.answered.rows(answer)


def _call_tiles_upright(session: TargetSession, pool: Pool, x: Array) -> Array:
    """The same tiles turned on their side, and called along the first axis: what comes back is turned back."""
    side, given = pool.fmt.shapes[1], np.ascontiguousarray(x.T)
    codes, scales = session.call("quantize", given, pool.fmt.name, block=side, axis=0, **pool.answered.kwargs)
    return pool.answered.rows((np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)))


def _answer_tiles(matrix: Matrix, pool: Pool, side: int) -> tuple[Array, Pool] | None:
    """Some tiles [n, side, k], and a pool of their rows as each tile was answered alone."""
    finite = np.flatnonzero(np.isfinite(pool.answered.inputs[0].astype(np.float32)).all(axis=1))
    if len(finite) < side:
        return None
    place = finite[draw_places(TILES * side, len(finite), 7)]
    tiles = pool.answered.inputs[0][place].reshape(TILES, side, -1)
    try:
        answers = [_call_tiles(matrix.session, pool, tile) for tile in tiles]
    except CallError:  # judged elsewhere
        return None
    rows = tiles.reshape(TILES * side, -1)
    answered = replace(pool.answered, inputs=(rows,), before=np.concatenate(answers))
    return tiles, replace(pool, answered=answered, accept=lambda place, got: flag_open(rows[place], got, pool.fmt))
