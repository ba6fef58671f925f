"""Judging that a block's answer does not depend on where it lies: in columns, before a ragged end, in long rows, in tiles.

All topics take part, in all dtypes, with and without a tensor scale. What a block has to return is what the target returned
for it in a call that was judged against the vectors, or returns for the same numbers where nothing is ragged; where OCP MX
leaves a block open, any legal answer will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan_bytes, is_open
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.invariance.answered import block_failure, keep_call
from mxspec_conformance.judge.tally import LIMITED, Scorecard
from mxspec_conformance.observations.answers import is_legal
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.observations.quantize import Observed, group_rows, tensor_argument
from mxspec_conformance.observations.selection import CALLS, keeps
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import list_blocks
from mxspec_vectors.tensor_scales import TensorScales

#: Blocks along the first axis, rows before each ragged end, blocks of a long row.
COLUMNS, BEFORE_END, LONG = 256, 12, 300
#: Tensor scales, for each dtype, under which blocks are moved: those of the most cases.
TENSORS = 2
#: Numbers of the largest call with tiles that are rolled.
ROLLED = 1 << 22

#: Scale bytes [n, 1] beside codes [n, k].
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
    return [_set_apart(session, fmt, item, scorecard) if item.case.topic in PLACES and not is_legal(item, fmt, profile.id) else item for item in seen]


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
    got = _join(codes, scales, k)
    alone = session.call("quantize", cast_input(x, item.dtype), fmt.name, **tensor_argument(case.tensor, session.capabilities))
    want = _join(alone[0], alone[1], k)
    if case.block is None:
        return not _differ(x, got, want, fmt).any()
    side = case.block[0]
    tiles = np.arange(len(x)).reshape(-1, side, scales.shape[1]).swapaxes(1, 2).reshape(-1, side)
    largest = np.abs(x).max(axis=1)[tiles].argmax(axis=1)
    same = got[:, 0] == want[:, 0]
    alike = got[tiles, 0] == want[tiles[np.arange(len(tiles)), largest], 0][:, None]
    return bool(alike.all()) and np.array_equal(got[same], want[same])


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks of one dtype and tensor scale that were answered."""

    name: str
    fmt: BlockFormat
    x: npt.NDArray[Any]
    before: Answers
    extra: dict[str, Any]
    tensor: TensorScales | None


def judge_placement(
    session: TargetSession, fmt: BlockFormat, seen: Sequence[Observed], scorecard: Scorecard
) -> dict[str, Failure]:
    """Enter calls with blocks in other places; returns the first one that differs, by requirement."""
    capabilities = session.capabilities
    first: dict[str, Failure] = {}

    def enter(
        group: Group, topic: str, label: str, ask: Callable[[], Asked], *, may_refuse: bool = False, width: int = 1, axis: int = -1,
        arrangement: str = "contiguous",
    ) -> None:  # fmt: skip
        if not scorecard.wants(topic) or not keeps(CALLS, f"quantize/{fmt.name}", label):
            return
        answer = run_once(ask)
        if isinstance(answer, NoAnswer):
            if not may_refuse:
                limited = topic not in LIMITED and _is_limit(session, group, answer)
                scorecard.count_no_answer(topic, label, unsupported(answer.message) if limited else answer)
            return
        x, got, want = answer
        wrong = _differ(x, got, want, fmt)
        scorecard.count(topic, label, ok=not wrong.any())
        if wrong.any():
            words = (
                f"{int(wrong.sum())} of {len(wrong)} blocks got other bits; the first is number {int(np.argmax(wrong))}"
            )
            at = int(np.argmax(wrong))
            failure = block_failure(label, words, x[at], want[at], got[at])
            kept = keep_call(failure, x, group.tensor, at, width=width, axis=axis, arrangement=arrangement)
            first.setdefault(scorecard.tally(topic).id, kept)

    for group in _list_groups(session, fmt, seen):
        enter(group, "call-size", f"{group.name}: long rows", partial(_in_long_rows, session, group), width=LONG)
        for name in ("rows", "columns"):
            label = f"{group.name}: {name} of another array"
            enter(group, "call-size", label, partial(_apart, session, group, name), may_refuse=True, arrangement=name)
        if capabilities.has("quantize", "axis"):
            for count in (1, 2):
                label = f"{group.name}: columns of {count}"
                enter(group, "axis", label, partial(_in_columns, session, group, count), width=count, axis=0)
        if capabilities.has("quantize", "pad"):
            for length in range(1, fmt.k):
                label = f"{group.name}: {length} before the end"
                enter(group, "tail", label, partial(_before_end, session, group, length))
        if capabilities.has("quantize", "block") and len(fmt.shapes) > 1:
            for kind in ("largest", "NaN") if _turns_with_lanes(session, group) else ():
                label = f"{group.name}: {kind} in each place of a tile"
                enter(group, "position", label, partial(_in_tiles, session, group, kind))
            enter(group, "position", f"{group.name}: tiles of one block", partial(_tiles_of_blocks, session, group))
    return first


def _is_limit(session: TargetSession, group: Group, refused: NoAnswer) -> bool:
    """Whether a refusal says nothing of a call but its size: the same blocks as plain rows are refused, too, and one of them is not."""
    if not refused.is_refusal:
        return False
    whole, one = (run_once(partial(_ask, session, group, x)) for x in (group.x, group.x[:1]))
    return isinstance(whole, NoAnswer) and whole.is_refusal and not isinstance(one, NoAnswer)


def _list_groups(session: TargetSession, fmt: BlockFormat, seen: Sequence[Observed]) -> Iterator[Group]:
    for dtype in session.capabilities.dtypes:
        groups = group_rows(seen, dtype)
        tensors = sorted((t for t in groups if t is not None), key=lambda t: (-len(groups[t]), t.amax))[:TENSORS]
        for tensor in ([None] if None in groups else []) + tensors:
            members = groups[tensor]
            yield Group(
                name=f"{dtype}, " + ("one-level" if tensor is None else f"tensor {tensor.amax:08x}"),
                fmt=fmt,
                x=cast_input(np.concatenate([m.case.x for m in members]), dtype),
                before=np.concatenate([np.concatenate([m.scales, m.codes], axis=1) for m in members]),
                extra=tensor_argument(tensor, session.capabilities),
                tensor=tensor,
            )


def _differ(x: npt.NDArray[Any], got: Answers, want: Answers, fmt: BlockFormat) -> npt.NDArray[np.bool_]:
    """Blocks [n] that differ; codes under a scale that is NaN are open, and so is its sign where it has one."""
    wrong: npt.NDArray[np.bool_] = (got != want).any(axis=1)
    lost = flag_nan_bytes(fmt.scale)
    wrong &= ~(lost[got[:, 0]] & lost[want[:, 0]])
    if wrong.any() and fmt.is_mx:
        with np.errstate(invalid="ignore"):  # signalling NaN
            rows = x[wrong].astype(np.float32)
        wrong[wrong] = ~is_open(rows, got[wrong, 0], got[wrong, 1:], fmt)
    return wrong


def _ask(session: TargetSession, group: Group, x: npt.NDArray[Any], **options: Any) -> tuple[Answers, Answers]:
    """Codes and scales."""
    codes, scales = session.call("quantize", x, group.fmt.name, **options, **group.extra)
    return codes, scales


def _join(codes: Answers, scales: Answers, k: int) -> Answers:
    return np.concatenate([scales.reshape(-1, 1), codes.reshape(-1, k)], axis=1)


def _spread(group: Group, count: int) -> npt.NDArray[np.intp]:
    """`count` of the blocks; a stride that is prime to most numbers takes them from everywhere."""
    return 37 * np.arange(count) % len(group.x)


def _in_long_rows(session: TargetSession, group: Group) -> Asked:
    place = _spread(group, 2 * LONG)
    codes, scales = _ask(session, group, group.x[place].reshape(2, -1))
    return group.x[place], _join(codes, scales, group.fmt.k), group.before[place]


def _apart(session: TargetSession, group: Group, arrangement: str) -> Asked:
    """Blocks in every second row or column of a larger array."""
    place = _spread(group, min(COLUMNS, len(group.x)))
    codes, scales = session.call("arranged", arrangement, "quantize", group.x[place], group.fmt.name, **group.extra)
    return group.x[place], _join(codes, scales, group.fmt.k), group.before[place]


def _in_columns(session: TargetSession, group: Group, count: int) -> Asked:
    """Blocks along the first axis, `count` of them below each other."""
    k = group.fmt.k
    place = _spread(group, COLUMNS)
    x = np.ascontiguousarray(group.x[place].reshape(-1, count * k).T)
    codes, scales = _ask(session, group, x, axis=0)
    got = _join(np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T), k)
    return group.x[place], got, group.before[place]


def _before_end(session: TargetSession, group: Group, length: int) -> Asked:
    """A ragged end of `length` elements, the largest the last of them; every other time behind a whole block.

    The same numbers with the zeros written out are asked as well.
    """
    k = group.fmt.k
    rows = group.x[(_spread(group, BEFORE_END) + length) % len(group.x)]
    order = np.nan_to_num(np.abs(rows.astype(np.float32)), nan=np.inf).argmax(axis=1)
    turned = np.stack([np.roll(row, length - 1 - int(i)) for row, i in zip(rows, order, strict=True)])
    turned[:, length:] = 0
    if length % 2:
        turned = np.concatenate([rows, turned], axis=1)
    end = turned.shape[1] - k + length
    whole = _ask(session, group, turned)
    cut = _ask(session, group, np.ascontiguousarray(turned[:, :end]), pad=True)
    return turned.reshape(-1, k), _join(*cut, k), _join(*whole, k)


def _turns_with_lanes(session: TargetSession, group: Group) -> bool:
    """Whether the codes of blocks turn with their lanes, as they do unless lanes are mixed."""
    place = _spread(group, 64)
    try:
        codes, scales = _ask(session, group, np.roll(group.x[place], 1, axis=1))
    except CallError:
        return False
    want = np.concatenate([group.before[place, :1], np.roll(group.before[place, 1:], 1, axis=1)], axis=1)
    return not _differ(group.x[place], _join(codes, scales, group.fmt.k), want, group.fmt).any()


def _in_tiles(session: TargetSession, group: Group, kind: str) -> Asked:
    """A tile rolled so that its largest number, or its NaN, comes to lie in each place: the answer rolls with it.

    Every second tile is another one, so that neighbours differ. Where a row with a NaN alone has a scale that is NaN, so
    has the tile.
    """
    k = group.fmt.k
    side = group.fmt.shapes[1][0]
    values = (np.arange(side * k).reshape(side, k) * 37 % 97 + 1).astype(np.float32) / 16
    values[::3] *= -1
    values[1, 2] = np.nan if kind == "NaN" else -13.0
    unit = np.float32(1)
    if group.extra:  # numbers that the tensor scale was made for
        unit = np.float32(2.0 ** np.floor(np.frexp(float(np.nanmax(np.abs(group.x.astype(np.float32)))))[1] - 5))
    base = (values * unit).astype(group.x.dtype)
    # Large tiles come to lie in every row and in every lane, but not in every pair of them.
    across = max(1, min(k, ROLLED // (side * side * k)))
    lane = (np.arange(side)[:, None] * across + np.arange(across)) % k
    rolled = [
        [np.roll(base if (i + j) % 2 == 0 else base[::-1] / 2, (i, lane[i, j]), (0, 1)) for j in range(across)] for i in range(side)
    ]
    x: npt.NDArray[Any] = np.block(rolled)
    codes, scales = _ask(session, group, x, block=(side, k))
    got, want = [], []
    for i in range(side):
        for j in range(across):
            part = codes[i * side : (i + 1) * side, j * k : (j + 1) * k]
            back = np.roll(part, (-i, -lane[i, j]), (0, 1))
            got.append(_join(back, scales[i * side : (i + 1) * side, j], k))
            want.append(got[(i + j) % 2])
    if kind == "NaN":
        _, alone = _ask(session, group, base[1:2])
        if flag_nan_bytes(group.fmt.scale)[alone].all():
            want = [np.concatenate([np.broadcast_to(alone, (side, 1)), rows[:, 1:]], axis=1) for rows in want]
    return x.reshape(-1, k), np.concatenate(got), np.concatenate(want)


def _tiles_of_blocks(session: TargetSession, group: Group) -> Asked:
    """Tiles whose rows are one answered block, its lanes turned from row to row: where each row alone has the same scale, the
    tile's answer is the rows'."""
    k = group.fmt.k
    side = group.fmt.shapes[1][0]
    tiles = np.stack([[np.roll(group.x[i], r) for r in range(side)] for i in _spread(group, 64)])
    x = np.ascontiguousarray(tiles.reshape(8, 8, side, k).transpose(0, 2, 1, 3)).reshape(8 * side, 8 * k)
    alone = _join(*_ask(session, group, x), k)
    together = _join(*_ask(session, group, x, block=(side, k)), k)
    scales = alone[:, 0].reshape(8, side, 8)
    same = np.broadcast_to((scales == scales[:, :1]).all(axis=1, keepdims=True), scales.shape).reshape(-1)
    return x.reshape(-1, k)[same], together[same], alone[same]
