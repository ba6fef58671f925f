"""Mistakes that a grouped kernel makes and a plain one cannot: what of another expert is used for one's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot import Accumulator, OperandContract
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.grouped.cases import Answered, GroupedCase
from mxspec_conformance.judge.products.editing import take_rows
from mxspec_conformance.targets.grouped import GroupForm, list_experts

Places = npt.NDArray[np.intp]
#: Which experts have rows -> which one's part is used in the place of each one's own.
_ORDERS: tuple[tuple[str, Callable[[Places], Places]], ...] = (
    ("the first expert", lambda used: used * 0),
    ("the expert before it", lambda used: np.arange(len(used)) - 1),
    ("the expert behind it", lambda used: np.arange(len(used)) + 1),
    ("the expert that is half of all experts away", lambda used: np.arange(len(used)) + len(used) // 2),
    ("an expert that is counted among those with rows", lambda used: np.cumsum(used) - used),
)
#: By the expert of every row, -1 of padding, and the number of experts, that to which each row is given; -1: it comes out as zeros.
_GIVEN: tuple[tuple[str, Callable[[Places, int], Places]], ...] = (
    ("the rows of each expert begin one early", lambda ids, count: np.append(ids[1:], -1)),
    ("the rows of experts lie in order and without padding", lambda ids, count: np.append(np.sort(ids[ids >= 0]), ids[ids < 0])),
    ("all rows of a tile of 16 are those of the first one's expert", lambda ids, count: np.repeat(ids[::16], 16)[: len(ids)]),
)
#: By the same, the rows that come out as zeros.
_LEFT_OUT: tuple[tuple[str, Callable[[Places, int], Any]], ...] = (
    ("the last expert is left out", lambda ids, count: ids == count - 1),
    ("experts of one row are left out", lambda ids, count: np.bincount(ids + 1)[ids + 1] == 1),
    *(
        (f"experts of fewer than {least} rows are left out", lambda ids, count, least=least: np.bincount(ids + 1)[ids + 1] < least)
        for least in (16, 32, 64, 128)
    ),
)


def _exchange(part: str, find: Callable[[Places], Places], case: GroupedCase) -> GroupedCase:
    order = find(np.array([len(places) > 0 for places in case.placing.places], np.intp)) % len(case.placing.places)
    rows = np.arange(len(case.b.held)).reshape(len(order), -1)[order].reshape(-1)
    scales = None if case.scales is None else tuple(np.array(case.scales)[order].tolist())
    if part in ("alpha", "bias"):
        return replace(case, options={name: x[order] if name == part else x for name, x in case.options.items()})
    if part == "tensor scale":
        return replace(case, scales=scales)
    if part == "block scales":
        return replace(case, b=replace(case.b, scales=None if case.b.scales is None else case.b.scales[rows]))
    return replace(case, b=take_rows(case.b, rows), scales=scales)


def _give(change: Callable[[Places, int], Places], case: GroupedCase) -> GroupedCase:
    count, ids = len(case.placing.places), list_experts(case.placing.places, case.placing.rows)
    given = ids if case.placing.form is GroupForm.MASKED else np.where(ids < 0, -1, change(ids, count))
    return _place(given, case)


def _leave_out(find: Callable[[Places, int], Any], case: GroupedCase) -> GroupedCase:
    ids = list_experts(case.placing.places, case.placing.rows)
    return _place(np.where(find(ids, len(case.placing.places)), -1, ids), case)


def _overwrite(tile: int, zeros: bool, case: GroupedCase) -> GroupedCase:
    """Whole tiles are written, those of the first expert last; zeros: rows behind an expert's own count as zeros."""
    placing, ids = case.placing, list_experts(case.placing.places, case.placing.rows)
    given = ids.copy()
    for expert, places in reversed(list(enumerate(placing.places)) if placing.form is not GroupForm.INDEXED else []):
        if len(places):
            start = placing.rows // len(placing.places) * expert if placing.form is GroupForm.MASKED else places[0]
            given[start : start - len(places) // -tile * tile] = expert
    return _place(np.where((ids < 0) | (zeros & (given != ids)), -1, given), case)


def _place(given: Places, case: GroupedCase) -> GroupedCase:
    count = len(case.placing.places)
    return replace(case, placing=replace(case.placing, places=tuple(np.flatnonzero(given == expert) for expert in range(count))))


def name_mistakes(
    wrong: Sequence[Answered], right: Sequence[Answered], accumulator: Accumulator, contract: OperandContract
) -> frozenset[Explanation]:
    """The mistakes that give the answers of all wrong calls, and show in no right one. What becomes of a NaN may have other reasons."""
    mistakes: list[tuple[str, Callable[[GroupedCase], GroupedCase]]] = [
        (f"each expert has the {part} of {whose}", partial(_exchange, part, find))
        for part in ("matrix", "block scales", "tensor scale", "alpha", "bias") for whose, find in _ORDERS
    ]  # fmt: skip
    mistakes += [(text, partial(_give, change)) for text, change in _GIVEN]
    mistakes += [(text, partial(_leave_out, find)) for text, find in _LEFT_OUT]
    mistakes += [
        (f"whole tiles of {tile} rows are written, and overwrite rows of the next experts{' with zeros' * zeros}", partial(_overwrite, tile, zeros))
        for zeros in (False, True) for tile in (16, 32, 64, 128)
    ]  # fmt: skip

    def fits(change: Callable[[GroupedCase], GroupedCase], x: Answered) -> bool:
        changed = change(x.case)
        lost: Any = np.setdiff1d(np.concatenate(x.case.placing.places), np.concatenate(changed.placing.places))
        zeros = x.output.reshape(changed.placing.rows, -1)[lost] == 0
        return bool(zeros.all()) and Answered(changed, x.answer).is_right(accumulator, contract)

    plain = sorted([x for x in wrong if x.case.topic != "nan"] or wrong, key=lambda x: int(x.output.size))
    named = (text for text, change in mistakes if plain and all(fits(change, x) for x in (*plain, *right)))
    return frozenset(Explanation(Cause.PRODUCT_MISTAKE, text) for text in named)
