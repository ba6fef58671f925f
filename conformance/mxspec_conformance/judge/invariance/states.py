"""Judging that an answer does not depend on what was called before, on who calls at the same time, or on whose memory it is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat, get_block
from mxspec_conformance.judge.invariance.matrix import Matrix
from mxspec_conformance.judge.invariance.pace import Speed
from mxspec_conformance.judge.invariance.pools import Places, Pool, flag_open_at
from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.shapes import find_first_call
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import CALLS, keeps_call, selects
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession

Array = npt.NDArray[Any]
#: A call among others at once: function, arguments, options.
AtOnce = tuple[str, tuple[Any, ...], dict[str, Any]]

#: Rows and blocks of the calls that are looked at for what they do to memory: odd ones, tiles, one long row, and powers of two, of
#: which a kernel may keep a buffer each.
PROBED = ((1, 1), (1, 7), (5, 3), (128, 4), (130, 9), (64, 64), (600, 2), (8, 4), (16, 8), (32, 8), (64, 16), (256, 8), (1, 256))
#: The same for fast targets: from 2^18 numbers on in every format.
LARGE_PROBED = (512, 32)
#: The same call so many times, and the seconds that it may take.
REPEATS, REPEAT_SECONDS = 3200, 1.0
#: The same at the quick level: more than a byte counts.
QUICK_REPEATS, QUICK_REPEAT_SECONDS = 300, 0.2
#: Calls whose answers are held, and the seconds that they may take; and of rows and blocks of which a kernel may keep a few buffers.
HELD, HELD_SECONDS = 300, 0.1
FEW_HELD, HELD_SHAPES = 16, ((16, 4), (64, 4), (1, 128))
#: Threads, calls of each, and blocks of a call; and of calls of several shapes at once.
THREADS, ROUNDS, THREAD_SHAPES = 4, 24, ((4, 3), (64, 8), (256, 16))
SEVERAL_SHAPES = ((4, 3), (16, 8), (1, 40), (64, 2))


def find_width(capabilities: Capabilities) -> int:
    """Columns of the call before, and of that after it, which has as many: whole blocks of every format."""
    return math.lcm(160, *(get_block(name).k for name in capabilities.formats))


def judge_memory(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Calls that write into their input, and answers that a later call changes: in every dtype, small and large, special
    values among them."""
    for number, pool in enumerate(pools):
        large = (LARGE_PROBED,) if not number and matrix.speed is Speed.FAST else ()
        for rows, blocks in (*PROBED[:: 1 if not number else 2], *large):
            label = f"{pool.name}: {rows} rows of {blocks} blocks"
            for axis in (-1, 0) if matrix.session.capabilities.has(pool.answered.function, "axis") else (-1,):
                told = label if axis == -1 else f"{label}, axis 0"
                pair = [_arguments(pool, matrix.draw(pool, rows * blocks), rows, axis) for _ in range(2)]
                options: dict[str, Any] = {} if axis == -1 else {"axis": axis}
                _probe(matrix, pool, told, pair, options, quick=rows == 128 and not number)
                if (rows, blocks) != LARGE_PROBED and matrix.session.capabilities.has(pool.answered.function, "pad"):
                    ragged = [(_cut(x, axis), *rest) for x, *rest in pair]
                    _probe(matrix, pool, f"{told}, padded", ragged, {**options, "pad": True}, quick=False)


def judge_gaps(matrix: Matrix, pool: Pool) -> None:
    """Calls that write into the memory between the numbers of a view."""
    session = matrix.session
    if session.transport not in LOCAL:
        return
    for arrangement in ("padded", "rows", "columns"):
        label = f"{pool.name}: between the numbers of 6 rows of 3 blocks, {arrangement}"
        if not matrix.asks(pool, label, 18 * pool.fmt.k):
            continue
        arguments = _arguments(pool, matrix.draw(pool, 18), 6, -1)
        answer = run_once(
            partial(session.call, "arranged", arrangement, "wrote", pool.answered.function, *arguments, **pool.answered.kwargs)
        )
        if not isinstance(answer, NoAnswer):  # a target may refuse it
            matrix.settle("memory", label, ok=not answer, text="the call wrote into its input, or between its numbers")


def _cut(x: Array, axis: int) -> Array:
    """A matrix whose lines end within a block."""
    return np.ascontiguousarray(x[:, :-3] if axis == -1 else x[:-3])


def _arguments(pool: Pool, place: Places, rows: int, axis: int) -> tuple[Any, ...]:
    arguments = pool.answered.arguments(place, rows=rows)
    return arguments if axis == -1 else (np.ascontiguousarray(arguments[0].T), *arguments[1:])


def _probe(
    matrix: Matrix, pool: Pool, label: str, pair: Sequence[tuple[Any, ...]], options: dict[str, Any], *, quick: bool
) -> None:
    card = matrix.scorecard
    if not matrix.asks(pool, f"{label}: memory", int(pair[0][0].size), quick=quick):
        return
    if int(pair[0][0].size) > matrix.largest:
        return
    kwargs = {**pool.answered.kwargs, **options}
    call = partial(matrix.session.call, "probe", pool.answered.function, *pair, **kwargs)
    answer = run_once(call)
    if isinstance(answer, NoAnswer):
        card.count_no_answer("memory", f"{label}: memory", answer)
        return
    wrote, changed, _ = answer
    for told, bad, text in (
        ("input afterwards", wrote, "the call wrote into its input"),
        ("earlier answer", changed, "a later call changed what an earlier one had returned"),
    ):
        matrix.settle("memory", f"{label}: {told}", ok=not bad, text=text)


def judge_states(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """The same call after others: in other formats, of other functions, refused ones, ones that lay where this one lies."""
    session = matrix.session
    for number, pool in enumerate(pools):
        for name, before in _list_earlier(session, pool) if not number else ():
            place = matrix.draw(pool, 8 * find_width(session.capabilities) // pool.fmt.k)
            call = partial(_after, session, pool, place, 8, before)
            matrix.enter("state", f"{pool.name}: after {name}", pool, place, call, lines=8, quick=name.startswith(("format", "quantize")))
        for rows, blocks in ((4, 3), (128, 8)):
            count = rows * blocks
            zeros, place = np.zeros(count, np.intp) + _find_zero(pool), matrix.draw(pool, count)
            mixed = np.where(np.arange(count) % 3 == 1, zeros, place)
            swapped = place.reshape(rows, blocks)[:, ::-1].reshape(-1)
            one = place.copy()
            one[count // 2 + 1] = (one[count // 2 + 1] + 1) % len(pool)
            for name, first, second in (
                ("one block exchanged", place, one),
                ("zeros where numbers lay", place, mixed),
                ("numbers where zeros lay", mixed, place),
                ("other numbers where some lay", matrix.draw(pool, count), place),
                ("the same blocks in another order", place, swapped),
            ):
                call = partial(_reused, session, pool, first, second, rows)
                label = f"{pool.name}: {rows} x {blocks} blocks, {name}"
                matrix.enter("state", label, pool, second, call, lines=rows, quick=rows < 8 and not number)


def judge_samples(matrix: Matrix, pool: Pool) -> None:
    """Other numbers but for every sixteenth, and other codes under the same scales: what is remembered by a part is wrong."""
    session, answered = matrix.session, pool.answered
    first = matrix.draw(pool, 24)
    inputs = [a[first] for a in answered.inputs]
    if answered.function == "dequantize":
        other = [np.roll(inputs[0], 1, axis=1), inputs[1]]
    else:
        x = inputs[0].copy()
        changed = np.arange(x.size).reshape(x.shape) % 16 != 0
        x[changed] = inputs[0][::-1][changed]
        other = [x]
    asked = replace(answered, inputs=tuple(other))
    try:
        answers = answered.rows(session.call(answered.function, *asked.arguments(np.arange(24)), **answered.kwargs))
    except CallError:  # judged elsewhere
        return
    joined = tuple(np.concatenate([a, b]) for a, b in zip(answered.inputs, other, strict=True))
    both = replace(answered, inputs=joined, before=np.concatenate([answered.before, answers]))
    accept = None if answered.function == "dequantize" else partial(flag_open_at, joined[0], pool.fmt)
    whole = replace(pool, answered=both, accept=accept)
    second = len(pool) + np.arange(24)
    for name, place, before in (("first", first, second), ("second", second, first)):
        call = partial(_after, session, whole, place, 4, partial(_ask_again, session, whole, before, 4))
        matrix.enter("state", f"{pool.name}: after a call that is the same in part, the {name}", whole, place, call, lines=4)


def _ask_again(session: TargetSession, pool: Pool, place: Places, rows: int) -> Any:
    answered = pool.answered
    return session.call(answered.function, *answered.arguments(place, rows=rows), **answered.kwargs)


def _find_zero(pool: Pool) -> int:
    """The place of a block of zeros, or of the one with the fewest other numbers."""
    magnitudes = pool.answered.inputs[0].astype(np.float32).view(np.uint32) << 1
    return int((magnitudes != 0).sum(axis=1).argmin())


def _reused(session: TargetSession, pool: Pool, first: Places, second: Places, rows: int) -> Array:
    answered = pool.answered
    pair = answered.arguments(first, rows=rows), answered.arguments(second, rows=rows)
    return answered.rows(session.call("reused", answered.function, *pair, **answered.kwargs))


def _after(session: TargetSession, pool: Pool, place: Places, rows: int, before: Callable[[], Any]) -> Array:
    with contextlib.suppress(CallError):  # judged elsewhere
        before()
    answered = pool.answered
    return answered.rows(session.call(answered.function, *answered.arguments(place, rows=rows), **answered.kwargs))


def _list_earlier(session: TargetSession, pool: Pool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that may leave something behind."""
    capabilities, function = session.capabilities, pool.answered.function
    wide = find_width(capabilities)
    x = (np.arange(8 * wide, dtype=np.float32).reshape(8, wide) - 300) / 7
    for dtype in capabilities.dtypes[1:] if function == "quantize" else ():
        given = cast_input(x.astype(np.float32), dtype)
        yield f"dtype {dtype}", partial(session.call, "quantize", given, pool.fmt.name, **pool.answered.kwargs)
    for name in capabilities.formats:
        fmt = get_block(name)
        if name != pool.fmt.name:
            extra = {} if capabilities.one_level or not fmt.has_tensor_scale else {"tensor_scale": 0.5}
            if function == "quantize":
                yield f"format {name}", partial(session.call, "quantize", x, name, **extra)
            else:
                yield f"format {name}", partial(session.call, "dequantize", *_make_codes(fmt, wide), name, **extra)
    element = pool.fmt.element.name
    if capabilities.has("encode") and element in capabilities.elements:
        options = [{"rounding": r} for r in ("rtz", "rtp", "rtn")] if capabilities.has("encode", "rounding") else [{}]
        for option in options:
            told = " ".join(["encode", *option.values()])
            yield told, partial(session.call, "encode", x.reshape(-1), element, **option)
    if capabilities.has("decode") and element in capabilities.elements:
        yield "decode", partial(session.call, "decode", np.arange(8, dtype=np.uint8), element)
    if capabilities.has("encode_stochastic") and element in capabilities.elements:
        words = (np.arange(x.size, dtype=np.uint64) * np.uint64(2654435761) & np.uint64(0xFF)).astype(np.uint32)
        yield "encode_stochastic", partial(session.call, "encode_stochastic", x.reshape(-1), element, words)
    if capabilities.has("tensor_scale") and pool.fmt.has_tensor_scale:
        yield "tensor_scale", partial(session.call, "tensor_scale", x, pool.fmt.name)
    if function == "dequantize":
        if capabilities.has("quantize"):
            extra = pool.answered.kwargs if capabilities.has("quantize", "tensor_scale") else {}
            yield "quantize", partial(session.call, "quantize", np.ones((8, 5 * pool.fmt.k), np.float32), pool.fmt.name, **extra)
    else:
        if capabilities.has("dequantize"):
            extra = pool.answered.kwargs if capabilities.has("dequantize", "tensor_scale") else {}
            yield "dequantize", partial(session.call, "dequantize", *_make_codes(pool.fmt, wide), pool.fmt.name, **extra)
        yield "infinities and NaN", partial(
            session.call, "quantize", np.resize(np.array([np.inf, np.nan, -np.inf], np.float32), (3, 3 * pool.fmt.k)), pool.fmt.name,
            **pool.answered.kwargs,
        )  # fmt: skip
        if session.transport in LOCAL:
            yield "a ragged row", partial(
                session.call, "quantize", np.ones((3, pool.fmt.k + 1), np.float32), pool.fmt.name, **pool.answered.kwargs
            )
        if capabilities.has("quantize", "axis"):
            yield "another axis", partial(
                session.call, "quantize", np.ones((3 * pool.fmt.k, 8), np.float32), pool.fmt.name, axis=0, **pool.answered.kwargs
            )


def _make_codes(fmt: BlockFormat, wide: int) -> tuple[Array, Array]:
    """Eight rows of codes under one scale."""
    codes = (np.arange(8 * wide).reshape(8, wide) % fmt.element.code_count).astype(np.uint8)
    return codes, np.full((8, wide // fmt.k), fmt.scale.max_code // 2, np.uint8)


def judge_repetition(matrix: Matrix, pool: Pool) -> None:
    """The same small call thousands of times: something that counts, or fills, ends somewhere."""
    session, card = matrix.session, matrix.scorecard
    # What counts calls rarely counts them by format.
    if not matrix.is_first_format or matrix.speed is Speed.CRAWLING or session.transport not in LOCAL:
        return
    repeats, seconds = REPEATS, REPEAT_SECONDS
    label = f"{pool.name}: the same call {REPEATS} times"
    if not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=False):
        repeats, seconds = QUICK_REPEATS, QUICK_REPEAT_SECONDS
        label = f"{pool.name}: the same call {repeats} times"
    answered = pool.answered
    arguments = answered.arguments(matrix.draw(pool, 3))
    call = partial(
        session.call, "repeated", repeats, seconds, answered.function, *arguments, **answered.kwargs
    )
    answer = run_once(call)
    if isinstance(answer, NoAnswer):
        card.count_no_answer("state", label, answer)
        return
    differs, made = answer
    text = f"call {differs + 1} of {made} equal ones returned other bits than the first"
    matrix.settle("state", label, ok=differs < 0, text=text)


def judge_held(matrix: Matrix, pool: Pool) -> None:
    """Hundreds of small calls whose answers are all held, and some of several shapes: memory that is given out in turn comes round."""
    session, card = matrix.session, matrix.scorecard
    if not matrix.is_first_format or matrix.speed is Speed.CRAWLING or session.transport not in LOCAL:
        return
    shapes = [(FEW_HELD, rows, blocks, f"{FEW_HELD} answers of {rows} x {blocks} blocks held") for rows, blocks in HELD_SHAPES]
    for times, rows, blocks, told in ((HELD, 1, 3, f"{HELD} answers held"), *shapes):
        label = f"{pool.name}: {told}"
        if not matrix.asks(pool, label, rows * blocks * pool.fmt.k) or rows * blocks * pool.fmt.k > matrix.largest:
            continue
        pair = [pool.answered.arguments(matrix.draw(pool, rows * blocks), rows=rows) for _ in range(2)]
        answer = run_once(partial(session.call, "held", times, HELD_SECONDS, pool.answered.function, *pair, **pool.answered.kwargs))
        if isinstance(answer, NoAnswer):
            card.count_no_answer("memory", label, answer)
        else:
            matrix.settle("memory", label, ok=answer[0] < 0, text=describe_held(*answer))


def describe_held(changed: int, made: int) -> str:
    """What is wrong where the answer or input of a call did not stay as it was."""
    return f"a later one of {made} calls changed the answer or the input of call {changed + 1}"


def judge_first_call(matrix: Matrix, pool: Pool) -> None:
    """The first call of all once more: what is set up by it may be set up too late for it."""
    session, card = matrix.session, matrix.scorecard
    label = "the first call of all, again"
    first = find_first_call(session)
    if first is None or first.function != pool.answered.function or not matrix.is_first_format or session.transport not in LOCAL:
        return
    if not matrix.asks(pool, label, 0):
        return
    answer = run_once(partial(session.call, first.function, *first.arguments, **first.options))
    if isinstance(answer, NoAnswer):
        card.count_no_answer("state", label, answer)
        return
    ok = _as_bytes(answer) == _as_bytes(first.answer)
    matrix.settle("state", label, ok=ok, text="a small matrix was answered otherwise in the first call of the process than now")


def _as_bytes(answer: Any) -> list[bytes]:
    return [np.asarray(part).tobytes() for part in (answer if isinstance(answer, (tuple, list)) else (answer,))]


def judge_threads(matrix: Matrix, pools: Sequence[Pool]) -> None:
    """Several threads calling at once, of one dtype, of all dtypes and tensor scales, of two formats: each gets its answers."""
    session, pool = matrix.session, pools[0]
    if session.transport not in LOCAL:
        return
    # What loops in an interpreter shares little between formats, and takes long.
    brief = matrix.speed is not Speed.FAST and not matrix.is_first_format
    for rows, blocks in THREAD_SHAPES[: 1 if brief else None]:
        label = f"{pool.name}: {THREADS} threads, {rows} x {blocks} blocks"
        calls = [_threaded(matrix, pool, rows, blocks) for _ in range(THREADS)]
        _call_at_once(matrix, label, rows, calls)
    if brief:
        return
    several = [_threaded(matrix, pool, *shape) for shape in SEVERAL_SHAPES]
    _call_at_once(matrix, f"{pool.name}: {THREADS} threads, {THREADS} shapes", 4, several)
    _call_beside_others(matrix, pool)
    if matrix.session.capabilities.has(pool.answered.function, "axis"):
        rows, blocks = THREAD_SHAPES[1]
        upright = [
            (function, (np.ascontiguousarray(x.T), *rest), {**options, "axis": 0})
            for function, (x, *rest), options in (_threaded(matrix, pool, rows, blocks) for _ in range(THREADS))
        ]
        _call_at_once(matrix, f"{pool.name}: {THREADS} threads, {rows} x {blocks} blocks, axis 0", rows, upright)
    mixed = [pools[i * len(pools) // THREADS] for i in range(THREADS)]
    if len(pools) > 1:
        _call_at_once(matrix, f"{THREADS} threads, {len({p.name for p in mixed})} kinds of input", 8, [_threaded(matrix, p, 8, 5) for p in mixed])
    others = [name for name in session.capabilities.formats if not get_block(name).has_tensor_scale and name != pool.fmt.name]
    if others and pool.answered.function == "quantize" and not pool.answered.kwargs:
        wide = find_width(session.capabilities)
        x = (np.arange(8 * wide, dtype=np.float32).reshape(8, wide) - 300) / np.float32(7)
        own = [_threaded(matrix, pool, 8, wide // pool.fmt.k) for _ in range(2)]
        _call_at_once(matrix, f"{THREADS} threads, two formats", 8, [own[0], ("quantize", (x, others[0]), {}), own[1], ("quantize", (x, others[-1]), {})])


def refuses_threads(answer: Any) -> bool:
    """Whether calls from threads of their own were refused, all of them: a handle may belong to the thread that made it."""
    return isinstance(answer, NoAnswer) and answer.is_refusal


def _threaded(matrix: Matrix, pool: Pool, rows: int, blocks: int) -> AtOnce:
    answered = pool.answered
    return answered.function, answered.arguments(matrix.draw(pool, rows * blocks), rows=rows), answered.kwargs


def _call_beside_others(matrix: Matrix, pool: Pool) -> None:
    """A function and the others that the target offers, at once: they may share a workspace."""
    others = list_other_functions(_list_earlier(matrix.session, pool), pool.answered.function)
    # Of two functions one is asked beside the other, not each beside each.
    if not others or (pool.answered.function != "quantize" and "quantize" in {name for name, *_ in others}):
        return
    own = [_threaded(matrix, pool, 8, 5) for _ in range(max(THREADS - len(others), 1))]
    told = ", ".join(name for name, *_ in others)
    _call_at_once(matrix, f"{pool.name}: {len(own) + len(others)} threads, beside {told}", 4, [*own, *others])


def list_other_functions(earlier: Iterable[tuple[str, Callable[[], Any]]], function: str) -> list[AtOnce]:
    """One call of each other function among calls that may come before."""
    calls = {call.args[0]: call for _, call in earlier if isinstance(call, partial)}
    return [(name, call.args[1:], call.keywords) for name, call in calls.items() if name != function]


def _call_at_once(matrix: Matrix, label: str, rows: int, calls: Sequence[AtOnce]) -> None:
    session, card = matrix.session, matrix.scorecard
    if not keeps_call(CALLS, f"{card.operation}/{card.format}", label, quick=rows < 8 or (rows < 256 and matrix.is_first_format)):
        return
    if sum(int(args[0].size) for _, args, _ in calls) <= matrix.largest:
        rounds = ROUNDS if rows < 256 else ROUNDS // 4
        if rows > 8 and selects():  # the quick level, or another choice of cases
            rounds //= 4
        answer = run_once(partial(session.call, "threads", rounds, calls))
        if refuses_threads(answer):
            return
        if isinstance(answer, NoAnswer):
            card.count_no_answer("state", label, answer)
            return
        wrong, made = answer
        text = f"{wrong} of {made} calls returned other bits when {THREADS} threads called at once"
        matrix.settle("state", label, ok=not wrong, text=text)
