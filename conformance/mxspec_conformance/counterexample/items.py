"""Calls of `dequantize`, `encode` and `decode` in which one item is answered wrongly, made smaller as calls of blocks are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block
from mxspec_conformance.counterexample.calls import Call
from mxspec_conformance.counterexample.failure import can_write, describe_bits, write_array
from mxspec_conformance.counterexample.kinds import CallKind, PatternKind
from mxspec_conformance.counterexample.probe import CallPattern, CallProber, Rows
from mxspec_conformance.counterexample.shrink import LARGEST, drop_lanes, find_pattern
from mxspec_conformance.observations.tables import same_values
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession


@dataclass(frozen=True, slots=True)
class Operation:
    """How items, the rows of one array, become the arrays of a call."""

    item: str
    #: Arguments before the format's name.
    arguments: tuple[str, ...]
    #: (items, name of the format) -> the arguments.
    lay: Callable[[Rows, str], tuple[Rows, ...]]


def _split_blocks(items: Rows, fmt: str) -> tuple[Rows, ...]:
    k = get_block(fmt).k
    return items[:, :k], items[:, k:]


#: An item is k codes and their scale byte, a number, or a code.
OPERATIONS = {
    "dequantize": Operation("block", ("codes", "scales"), _split_blocks),
    "encode": Operation("number", ("x",), lambda items, _: (items[:, 0],)),
    "decode": Operation("code", ("codes",), lambda items, _: (items[:, 0],)),
}


@dataclass(slots=True)
class ItemFailure(Failure):
    """An item that is answered wrongly, with the call in which it was seen: `show_smallest_item` makes the call smaller."""

    function: str = ""
    #: The format or element.
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Rows of the call as `OPERATIONS` has them, the wrong one, and the lane of its wrong answer.
    items: Rows | None = None
    row: int = 0
    lane: int = 0
    #: Whether an answer to the item is wrong, and how answers are written.
    is_wrong: Callable[[Any], bool] = lambda _: True
    write: Callable[[Any], str] = str

    @property
    def as_seen(self) -> Failure:
        """The failure alone."""
        return Failure(self.case, self.given, self.expected, self.returned, self.steps, self.also, self.snippet)


def keep_items(failure: Failure, function: str, name: str, items: Rows, row: int, **details: Any) -> ItemFailure:
    """A failure with the call in which it was seen; details: further fields of `ItemFailure`."""
    return ItemFailure(
        failure.case, failure.given, failure.expected, failure.returned, failure.steps, failure.also, failure.snippet,
        function=function, name=name, items=items, row=row, **details,
    )  # fmt: skip


def write_value(value: Any) -> str:
    """A float as a report has it."""
    return describe_bits(float(value))


def is_other_value(want: Any, value: Any, *, signs: bool) -> bool:
    """Whether a value is another one than is wanted; signs: whether the sign of zero counts."""
    return not same_values(np.array(value, np.float32), np.array(want, np.float32), signs=signs)


class ItemProber(CallProber[npt.NDArray[Any]]):
    """Calls a target with one item of a function."""

    def __init__(self, session: TargetSession, seen: ItemFailure) -> None:
        self.session, self.seen = session, seen

    def answer(self, items: Rows, place: int) -> npt.NDArray[Any] | None:
        """The answer to one item of a call, of its lane; None where there is none."""
        seen = self.seen
        try:
            arrays = OPERATIONS[seen.function].lay(items, seen.name)
            answer = self.session.call(seen.function, *arrays, seen.name, **seen.options)
        except CallError:
            return None
        found: npt.NDArray[Any] = np.asarray(answer).reshape(len(items), -1)[place, seen.lane]
        return found

    def look_at(self, x: Rows, place: int, pattern: CallPattern) -> npt.NDArray[Any] | None:
        """The wrong answer to item `place` of a call; None where it is right, or there is none."""
        found = None if pattern.kind is PatternKind.HISTORY else self.answer(x, place)
        return found if found is not None and self.seen.is_wrong(found) else None


def show_smallest_item(session: TargetSession, seen: ItemFailure) -> Failure:
    """The failure in the smallest call in which the item is still answered wrongly, alone if it is so; as it was seen where that is
    all there is to see, or it is not seen again."""
    if seen.items is None or seen.items.size > LARGEST:
        return seen.as_seen
    prober = ItemProber(session, seen)
    found = find_pattern(prober, Call(CallKind.SIZE, np.arange(len(seen.items))), seen.items, seen.row)
    if found is None:
        return seen.as_seen
    pattern, item = found
    kept = [seen.lane, len(item) - 1]  # the code and its scale
    plain = np.zeros_like(item)
    plain[kept] = item[kept]
    if prober.look(plain, pattern) is not None:
        item = plain
    item = drop_lanes(prober, item, pattern, kept)
    others = {f"lane {i}": f"{int(item[i]):02x}" for i in np.flatnonzero(item) if i not in kept}
    x, place = prober.lay(item, pattern)
    wrong, alone = prober.look_at(x, place, pattern), prober.answer(plain[None], 0)
    if wrong is None or (pattern.kind is PatternKind.BLOCK and not others and seen.snippet):
        return seen.as_seen
    steps = []
    if (others or len(x) > 1) and alone is not None and not seen.is_wrong(alone):
        steps.append(f"alone{' among codes 00' if others else ''} the target returns what is expected here")
    else:
        alone = None
        steps += ["alone it is answered so, too"] * (len(x) == 1 and not others)
    call = replace(pattern, item=OPERATIONS[seen.function].item).words
    return replace(
        seen.as_seen,
        given=seen.given | ({"other codes": others} if others else {}) | ({} if len(x) == 1 else {"call": f"only {call}"}),
        returned=dict.fromkeys(seen.returned, seen.write(wrong)),
        steps=[*steps, *seen.steps],
        snippet=_make_snippet(seen, [(x, place), *([] if alone is None else [(plain[None], 0)])]) or seen.snippet,
    )


def _make_snippet(seen: ItemFailure, calls: list[tuple[Rows, int]]) -> str:
    """NumPy lines that call the target with each of some arrays of items; empty where there are too many numbers to be read."""
    operation = OPERATIONS[seen.function]
    if not can_write(calls[0][0]):
        return ""
    narrow = calls[0][0].dtype.kind == "V"  # bfloat16
    lines = [f"import {'ml_dtypes, ' if narrow else ''}numpy as np  # k: the target"]
    options = "".join(f", {key}={value!r}" for key, value in seen.options.items())
    for number, (items, place) in enumerate(calls):
        for name, array in zip(operation.arguments, operation.lay(items, seen.name), strict=True):
            lines += write_array(name, array)
        index = f"{place}, {seen.lane}" if len(operation.arguments) > 1 else place
        lines.append(f'values = k.{seen.function}({", ".join(operation.arguments)}, "{seen.name}"{options})')
        lines.append(f"print(values[{index}])  # {'alone' if number else f'expected {next(iter(seen.expected.values()))}'}")
    return "\n".join(lines)
