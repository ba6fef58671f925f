"""Blocks that a target has answered, to be asked again in other calls: drawn by place, so that no two places are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan_codes, is_open
from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance.answered import Answered
from mxspec_conformance.judge.invariance.history import Drawn
from mxspec_conformance.judge.invariance.misplaced import Displacement, classify, describe_places
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.quantize import Observed, group_rows, tensor_argument
from mxspec_conformance.observations.tables import ObservedTable, rotated_table, same_values
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import cast_input

#: Tensor scales, for each dtype, under which blocks are moved: those of the most cases.
TENSORS = 2

Array = npt.NDArray[Any]
Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pool:
    """Blocks of one dtype and tensor scale with their answers."""

    name: str
    fmt: BlockFormat
    answered: Answered
    #: (places in the pool, answers) -> which answers are legal although they are others.
    accept: Callable[[Places, npt.NDArray[Any]], Flags] | None = None
    #: Places of blocks of which nothing is open, and of those with the largest number in the first lane, and in the last; empty: of none.
    pinned: Places = field(default_factory=lambda: np.zeros(0, np.intp))
    leading: Places = field(default_factory=lambda: np.zeros(0, np.intp))
    trailing: Places = field(default_factory=lambda: np.zeros(0, np.intp))

    def __len__(self) -> int:
        return len(self.answered.before)

    def draw(self, count: int, salt: int, rows: int = 1) -> Places:
        """Blocks for a call; the first and the last one, which are lost most often, and the one in the middle are such whose answer is
        pinned, the first with its largest number first, the last with it last."""
        place = draw_places(count, len(self), salt)
        across = count // rows if rows else 0
        for at, chosen in ((0, self.leading), (rows // 2 * across + across // 2, self.pinned), (-1, self.trailing)) if count else ():
            chosen = chosen if len(chosen) else self.pinned
            if len(chosen):
                place[at] = chosen[place[at] % len(chosen)]
        return place

    def extend(self, answers: Array, *further: Array) -> Pool:
        """The pool with further blocks behind its own; further: what the function takes of them."""
        joined = tuple(np.concatenate([a, b]) for a, b in zip(self.answered.inputs, further, strict=True))
        answered = replace(self.answered, inputs=joined, before=np.concatenate([self.answered.before, answers]))
        accept = partial(flag_open_at, joined[0], self.fmt) if answered.function == "quantize" else None
        return replace(self, answered=answered, accept=accept)

    def find_wrong(self, place: Places, got: npt.NDArray[Any]) -> Flags:
        """Which of the answers [n, m] differ from those that these blocks were given alone."""
        wrong: Flags = np.asarray(self.answered.differ(got, self.answered.before[place]).any(axis=1))
        if self.accept is not None and wrong.any():
            wrong[wrong] = ~self.accept(place[wrong], got[wrong])
        return wrong


def fill_blocks(pool: Pool, place: Places, *, end: int = 0, **options: Any) -> Drawn:
    """The call of blocks at places [lines, blocks of a line].

    end: elements that are given of the last block of a line; 0: all. options: axis, pad, block.
    """
    flat, answered, lines = place.reshape(-1), pool.answered, len(place)
    x, *rest = whole = answered.arguments(flat, rows=lines)
    upright = options.get("axis") in (0, -2)
    cut = x[:, : x.shape[1] - pool.fmt.k + end] if end else x
    given = (np.ascontiguousarray(cut.T if upright else cut), *rest)

    def rows_of(answer: Any) -> Array:
        return answered.rows(tuple(np.ascontiguousarray(a.T) for a in answer) if upright else answer)

    def find_mistake(answer: Any) -> str:
        wrong = pool.find_wrong(flat, rows_of(answer))
        return f"{int(wrong.sum())} of {wrong.size} blocks got other bits than in another call" if wrong.any() else ""

    def show(label: str, answer: Any, view: str) -> Failure:
        got = rows_of(answer)
        wrong = pool.find_wrong(flat, got)
        at, axis = int(np.argmax(wrong)), 0 if upright and len(options) == 1 else -1
        failure = show_blocks(label, pool, flat, got, wrong, lines)
        return answered.keep_call(failure, flat, at, got[at], width=place.shape[1], axis=axis, arrangement=view.partition("@")[0])

    plain = Drawn(whole, answered.kwargs) if options else None
    return Drawn(given, answered.kwargs | options, find_mistake, show, plain)


def show_blocks(label: str, pool: Pool, place: Places, got: Array, wrong: Flags, lines: int) -> Failure:
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
    return Failure(
        case=label, given={"call": label, **_show_inputs([a[place[first]] for a in pool.answered.inputs])},
        expected=_show_answer(want[first]), returned=_show_answer(got[first]), steps=steps,
    )  # fmt: skip


def _show_inputs(inputs: Sequence[Array]) -> dict[str, str]:
    if len(inputs) == 2:
        return {"codes": inputs[0].tobytes().hex(), "scale": inputs[1].tobytes().hex()}
    bits = inputs[0].view(f"u{inputs[0].dtype.itemsize}")
    return {"x": " ".join(f"{int(b):0{2 * bits.dtype.itemsize}x}" for b in bits)}


def _show_answer(row: Array) -> dict[str, str]:
    if row.dtype == np.uint8:
        return {"scale": f"{int(row[0]):02x}", "codes": row[1:].tobytes().hex()}
    return {"values": " ".join(f"{int(b):08x}" for b in row.view(np.uint32))}


def draw_places(count: int, size: int, salt: int) -> Places:
    """`count` places in a pool of `size`: a hash of each position, so that no displacement maps one call onto itself."""
    z = np.arange(count, dtype=np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ z >> np.uint64(shift)) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return (z % np.uint64(size)).astype(np.intp)


@lru_cache(maxsize=8)
def list_neighbours(count: int, group: int) -> npt.NDArray[np.uint8]:
    """Rows of codes in which each of `count` codes stands before each, at every place of four, or of two where they fill a byte."""
    # Each ordered pair once around: i, then i and j for every j above it.
    around = np.array([code for i in range(count) for code in (i, *(c for j in range(i + 1, count) for c in (i, j)))], np.uint8)
    return np.stack([np.resize(np.roll(around, turn), (count * count // group + 1) * group) for turn in range(4 if count < 256 else 2)])


def list_quantize_pools(fmt: BlockFormat, seen: Sequence[Observed], capabilities: Capabilities) -> Iterator[Pool]:
    """The answered blocks by dtype and tensor scale, in the order in which the target lists its dtypes."""
    for dtype in capabilities.dtypes:
        groups = group_rows(seen, dtype)
        tensors = sorted((t for t in groups if t is not None), key=lambda t: (-len(groups[t]), t.amax))[:TENSORS]
        for tensor in ([None] if None in groups else []) + tensors:
            members = groups[tensor]
            x = cast_input(np.concatenate([m.case.x for m in members]), dtype)
            yield Pool(
                name=f"{dtype}, " + ("one-level" if tensor is None else f"tensor {tensor.amax:08x}"),
                fmt=fmt,
                answered=Answered(
                    function="quantize",
                    inputs=(x,),
                    name=fmt.name,
                    kwargs=dict(tensor_argument(tensor, capabilities)),
                    before=np.concatenate([np.concatenate([m.scales, m.codes], axis=1) for m in members]),
                    rows=partial(join_answer, k=fmt.k),
                    differ=np.not_equal,
                    tensor=tensor,
                ),
                accept=partial(flag_open_at, x, fmt),
                pinned=_find_pinned(x),
                leading=_find_pinned(x, 0),
                trailing=_find_pinned(x, -1),
            )


def _find_pinned(x: npt.NDArray[Any], lane: int | None = None) -> Places:
    """Blocks of ordinary numbers: neither zero, nor infinite, nor so small or large that their scale is at an end.

    lane: where the largest number lies, which is twice as large as all others.
    """
    with np.errstate(invalid="ignore"):  # signalling NaN
        magnitudes = np.abs(x.astype(np.float32))
    largest = magnitudes.max(axis=1)
    chosen = (largest > 2.0**-100) & (largest < 2.0**100)
    if lane is not None:
        chosen &= np.partition(magnitudes, -2, axis=1)[:, -2] < magnitudes[:, lane] / 2
    return np.flatnonzero(chosen)


def list_dequantize_pools(fmt: BlockFormat, tables: Sequence[ObservedTable], capabilities: Capabilities) -> Iterator[Pool]:
    """Every code under every scale byte, by tensor scale."""
    for item in tables:
        if isinstance(item.returned, NoAnswer):
            continue
        codes, scales = (a[item.answered] for a in rotated_table(fmt))
        tensor = item.case.tensor
        yield Pool(
            name="one-level" if tensor is None else f"tensor {tensor.amax:08x}",
            fmt=fmt,
            answered=Answered(
                function="dequantize",
                inputs=(codes, scales[:, None]),
                name=fmt.name,
                kwargs=dict(tensor_argument(tensor, capabilities)),
                before=item.returned[item.answered],
                rows=lambda answer: answer.reshape(-1, fmt.k),
                differ=lambda a, b: ~same_values(a, b),
            ),
        )


def join_answer(answer: Any, k: int) -> npt.NDArray[np.uint8]:
    """(codes, scales) -> rows [n, 1 + k] of a scale byte and its codes."""
    codes, scales = answer
    return np.concatenate([scales.reshape(-1, 1), codes.reshape(-1, k)], axis=1)


def flag_open_at(x: npt.NDArray[Any], fmt: BlockFormat, place: Places, got: npt.NDArray[Any]) -> Flags:
    """`flag_open` for blocks at places of a pool."""
    return flag_open(x[place], got, fmt)


def flag_open(x: npt.NDArray[Any], got: npt.NDArray[np.uint8], fmt: BlockFormat) -> Flags:
    """Answers [n, 1 + k] to blocks [n, k] that are legal, whatever the same block was answered elsewhere.

    Codes under a scale that is NaN are open; so is what OCP MX leaves open, for its own formats.
    """
    lost: Flags = flag_nan_codes(got[:, 0], fmt.scale)
    lost = lost & ~np.isfinite(x.astype(np.float32)).all(axis=1)
    if fmt.is_mx:
        with np.errstate(invalid="ignore"):  # signalling NaN
            lost = lost | is_open(x.astype(np.float32), got[:, 0], got[:, 1:], fmt)
    return lost
