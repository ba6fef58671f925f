"""Where a block lies that is judged by the vectors, and by calls made for its place: with its largest number, or a NaN, in each lane, in
each place of a tile, and before each ragged end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan, flag_nan_codes
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.invariance.answered import block_failure, keep_call
from mxspec_conformance.judge.invariance.blocks import BlockCalls, Way
from mxspec_conformance.judge.invariance.pools import Pool, fill_blocks, flag_open, join_answer
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.answers import is_legal
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.quantize import Observed, tensor_argument
from mxspec_conformance.observations.selection import makes_call
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import list_blocks

#: Rows before each ragged end; numbers of the largest call with tiles that are rolled.
BEFORE_END, ROLLED = 12, 1 << 22

#: Scale bytes [n, 1], then codes [n, k].
Answers = npt.NDArray[np.uint8]
#: The blocks that were asked [n, k], what was returned, and what has to be.
Asked = tuple[npt.NDArray[Any], Answers, Answers]


#: Topics about where a block lies, of cases of the vectors.
PLACES = ("position", "axis", "tail")


def set_places_apart(
    session: TargetSession, fmt: BlockFormat, profile: Profile, seen: Sequence[Observed], scorecard: Scorecard
) -> list[Observed]:
    """The answers, of which those about a place that are not the profile's count as ordinary blocks where the target answers the
    same blocks alike elsewhere: the place is right, and what is wrong is something else.
    """
    return [
        _set_apart(session, fmt, item, scorecard) if item.case.topic in PLACES and not is_legal(item, fmt, profile.id) else item
        for item in seen
    ]


def _set_apart(session: TargetSession, fmt: BlockFormat, item: Observed, scorecard: Scorecard) -> Observed:
    case = item.case
    alike = run_once(partial((_turns_with_its_lanes if case.is_row else _is_as_rows), session, fmt, item))
    if isinstance(alike, NoAnswer) or not alike:
        return item
    scorecard.count(case.topic, item.label, origin=case.id, ok=True)
    return replace(item, case=replace(case, topic="mixture"))


def _turns_with_its_lanes(session: TargetSession, fmt: BlockFormat, item: Observed) -> bool:
    """Whether a block has the same codes, in whatever order, with its lanes turned, and the same scale under either sign."""
    x = np.roll(cast_input(item.case.x, item.dtype), fmt.k // 2 + 1, axis=1)
    codes, scales = session.call("quantize", np.concatenate([x, -x]), fmt.name, **tensor_argument(item.case.tensor, session.capabilities))
    return bool((scales == item.scales).all()) and np.array_equal(np.sort(codes[0]), np.sort(item.codes[0]))


def _is_as_rows(session: TargetSession, fmt: BlockFormat, item: Observed) -> bool:
    """Whether the blocks of a tensor are answered as they are as plain rows: those of a tile as its row with the largest number."""
    case, k = item.case, fmt.k
    widths = [(0, n - m) for n, m in zip(item.codes.shape, case.x.shape, strict=True)]
    x, codes = list_blocks(case, fmt, np.pad(case.x, widths)), list_blocks(case, fmt, item.codes)
    scales = np.moveaxis(item.scales, case.axis, -1)
    got = join_answer((codes, scales), k)
    alone = session.call("quantize", cast_input(x, item.dtype), fmt.name, **tensor_argument(case.tensor, session.capabilities))
    want = join_answer(alone, k)
    if case.block is None:
        return not _differ(x, got, want, fmt).any()
    side = case.block[0]
    tiles = np.arange(len(x)).reshape(-1, side, scales.shape[1]).swapaxes(1, 2).reshape(-1, side)
    largest = np.abs(x).max(axis=1)[tiles].argmax(axis=1)
    same = got[:, 0] == want[:, 0]
    alike = got[tiles, 0] == want[tiles[np.arange(len(tiles)), largest], 0][:, None]
    return bool(alike.all()) and np.array_equal(got[same], want[same])


def judge_places(calls: BlockCalls) -> None:
    """Enter calls of `quantize` in which a number lies in every place."""
    for number, pool in enumerate(calls.pools):
        if not number:
            _judge_nan_lanes(calls, pool)
        if calls.offers("pad"):
            for length in range(1, pool.fmt.k):
                label = f"{pool.name}: {length} before the end"
                if makes_call(quick=length in (1, pool.fmt.k // 2, pool.fmt.k - 1)):
                    _judge_before_end(calls, pool, label, length)
        if calls.offers("block") and len(pool.fmt.shapes) > 1:
            for kind in ("largest", "NaN") if _turns_with_lanes(calls, pool) else ():
                _enter(calls, pool, f"{pool.name}: {kind} in each place of a tile", partial(_in_tiles, calls.session, pool, kind))
            _enter(calls, pool, f"{pool.name}: tiles of one block", partial(_tiles_of_blocks, calls.session, pool))


def _enter(calls: BlockCalls, pool: Pool, label: str, ask: Callable[[], Asked]) -> None:
    card = calls.scorecard
    if not card.wants("position"):
        return
    answer = run_once(ask)
    if isinstance(answer, NoAnswer):
        card.count_no_answer("position", label, answer)
        return
    x, got, want = answer
    wrong = _differ(x, got, want, pool.fmt)
    card.count("position", label, ok=not wrong.any())
    if wrong.any():
        at = int(np.argmax(wrong))
        text = f"{int(wrong.sum())} of {len(wrong)} blocks got other bits; the first is number {at}"
        failure = keep_call(block_failure(label, text, x[at], want[at], got[at]), x, pool.answered.tensor, at)
        calls.first.setdefault(card.tally("position").id, failure)


def _judge_nan_lanes(calls: BlockCalls, pool: Pool) -> None:
    """A NaN is found in every lane: the block's scale, and the lane's code, are the same wherever it lies.

    Codes under a NaN scale are open, and so is which of its NaN codes an element format gives.
    """
    label, card, fmt = "a NaN in each lane", calls.scorecard, pool.fmt
    seen = np.isnan(pool.answered.inputs[0].astype(np.float32)).any()
    if not seen or not card.wants("position"):
        return
    x = np.ones((fmt.k, fmt.k), pool.answered.inputs[0].dtype)
    np.fill_diagonal(x, np.nan)
    try:
        codes, scales = calls.session.call("quantize", x, fmt.name, **pool.answered.kwargs)
    except CallError:  # refused: judged elsewhere
        return
    lanes = codes[np.arange(fmt.k), np.arange(fmt.k)]
    scales = scales.reshape(-1)
    is_nan = flag_nan(fmt.element)
    open_lanes = flag_nan_codes(scales, fmt.scale) | (is_nan[lanes] & is_nan[lanes[0]])
    wrong = (scales != scales[0]) | ((lanes != lanes[0]) & ~open_lanes)
    card.count("position", label, ok=not wrong.any())
    if wrong.any():
        at = int(np.argmax(wrong))
        text = f"a NaN in lane {at} is treated otherwise than in lane 0"
        answers = join_answer((codes, scales), fmt.k)
        # The block with its NaN in lane 0, turned so that the lanes correspond.
        want = np.concatenate([answers[0, :1], np.roll(answers[0, 1:], at)])
        calls.first.setdefault(card.tally("position").id, block_failure(label, text, x[at], want, answers[at]))


def _differ(x: npt.NDArray[Any], got: Answers, want: Answers, fmt: BlockFormat) -> npt.NDArray[np.bool_]:
    """Blocks [n] that differ; codes under a scale that is NaN are open, and so is its sign where it has one."""
    wrong: npt.NDArray[np.bool_] = (got != want).any(axis=1)
    wrong &= ~(flag_nan_codes(got[:, 0], fmt.scale) & flag_nan_codes(want[:, 0], fmt.scale))
    wrong[wrong] = ~flag_open(x[wrong], got[wrong], fmt)
    return wrong


def _spread(pool: Pool, count: int) -> npt.NDArray[np.intp]:
    """`count` of the blocks; a stride that is prime to most numbers takes them from everywhere."""
    return 37 * np.arange(count) % len(pool)


def _ask(session: TargetSession, pool: Pool, x: npt.NDArray[Any], **options: Any) -> Any:
    """Codes and scales."""
    return session.call("quantize", x, pool.fmt.name, **options, **pool.answered.kwargs)


def _judge_before_end(calls: BlockCalls, pool: Pool, label: str, length: int) -> None:
    """A ragged end of `length` elements, the largest the last of them; every other time behind a whole block.

    What has to come back is what comes back where the zeros are written out.
    """
    rows = pool.answered.inputs[0][(_spread(pool, BEFORE_END) + length) % len(pool)]
    order = np.nan_to_num(np.abs(rows.astype(np.float32)), nan=np.inf).argmax(axis=1)
    turned = np.stack([np.roll(row, length - 1 - int(i)) for row, i in zip(rows, order, strict=True)])
    turned[:, length:] = 0
    x = np.concatenate([rows, turned], axis=1) if length % 2 else turned
    whole = run_once(partial(_ask, calls.session, pool, x))
    if isinstance(whole, NoAnswer):
        calls.scorecard.count_no_answer("tail", label, whole)
        return
    blocks = pool.extend(pool.answered.rows(whole), x.reshape(-1, pool.fmt.k))
    place = np.arange(len(pool), len(blocks)).reshape(len(x), -1)
    drawn = partial(fill_blocks, blocks, place, end=length, pad=True)
    calls.enter("tail", label, Way(pool), (len(place), place.shape[1]), drawn=drawn)


def _turns_with_lanes(calls: BlockCalls, pool: Pool) -> bool:
    """Whether the codes of blocks turn with their lanes, as they do unless lanes are mixed."""
    place = _spread(pool, 64)
    x, before = pool.answered.inputs[0][place], pool.answered.before[place]
    answer = run_once(partial(_ask, calls.session, pool, np.roll(x, 1, axis=1)))
    if isinstance(answer, NoAnswer):
        return False
    want = np.concatenate([before[:, :1], np.roll(before[:, 1:], 1, axis=1)], axis=1)
    return not _differ(x, pool.answered.rows(answer), want, pool.fmt).any()


def _in_tiles(session: TargetSession, pool: Pool, kind: str) -> Asked:
    """A tile rolled so that its largest number, or its NaN, lies in each place: the answer rolls with it.

    Every second tile is another one, so that neighbours differ. Where a row with a NaN alone has a scale that is NaN, so
    has the tile.
    """
    k = pool.fmt.k
    side = pool.fmt.shapes[1][0]
    values = (np.arange(side * k).reshape(side, k) * 37 % 97 + 1).astype(np.float32) / 16
    values[::3] *= -1
    values[1, 2] = np.nan if kind == "NaN" else -13.0
    unit = np.float32(1)
    if pool.answered.kwargs:  # numbers that the tensor scale was made for
        unit = np.float32(2.0 ** np.floor(np.frexp(float(np.nanmax(np.abs(pool.answered.inputs[0].astype(np.float32)))))[1] - 5))
    base = (values * unit).astype(pool.answered.inputs[0].dtype)
    # Large tiles come to lie in every row and in every lane, but not in every pair of them.
    across = max(1, min(k, ROLLED // (side * side * k)))
    lane = (np.arange(side)[:, None] * across + np.arange(across)) % k
    rolled = [[np.roll(base if (i + j) % 2 == 0 else base[::-1] / 2, (i, lane[i, j]), (0, 1)) for j in range(across)] for i in range(side)]
    x: npt.NDArray[Any] = np.block(rolled)
    codes, scales = _ask(session, pool, x, block=(side, k))
    got, want = [], []
    for i in range(side):
        for j in range(across):
            part = codes[i * side : (i + 1) * side, j * k : (j + 1) * k]
            back = np.roll(part, (-i, -lane[i, j]), (0, 1))
            got.append(join_answer((back, scales[i * side : (i + 1) * side, j]), k))
            want.append(got[(i + j) % 2])
    if kind == "NaN":
        _, alone = _ask(session, pool, base[1:2])
        if flag_nan_codes(alone, pool.fmt.scale).all():
            want = [np.concatenate([np.broadcast_to(alone, (side, 1)), rows[:, 1:]], axis=1) for rows in want]
    return x.reshape(-1, k), np.concatenate(got), np.concatenate(want)


def _tiles_of_blocks(session: TargetSession, pool: Pool) -> Asked:
    """Tiles whose rows are one answered block, its lanes turned from row to row: where each row alone has the same scale, the
    tile's answer is the rows'."""
    k = pool.fmt.k
    side = pool.fmt.shapes[1][0]
    given = pool.answered.inputs[0]
    tiles = np.stack([[np.roll(given[i], r) for r in range(side)] for i in _spread(pool, 64)])
    x = np.ascontiguousarray(tiles.reshape(8, 8, side, k).transpose(0, 2, 1, 3)).reshape(8 * side, 8 * k)
    alone = join_answer(_ask(session, pool, x), k)
    together = join_answer(_ask(session, pool, x, block=(side, k)), k)
    scales = alone[:, 0].reshape(8, side, 8)
    same = np.broadcast_to((scales == scales[:, :1]).all(axis=1, keepdims=True), scales.shape).reshape(-1)
    return x.reshape(-1, k)[same], together[same], alone[same]
