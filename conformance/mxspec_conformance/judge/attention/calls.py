"""Calls of `attention` of every size, in every memory, and next to others: each query of each head looks at a key of one sequence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from mxspec.attention import CacheSpec, list_sequences
from mxspec_conformance.judge.attention.batch import Batch
from mxspec_conformance.judge.attention.cases import OPERATION, AttentionCase
from mxspec_conformance.judge.attention.writing import point_at, spell_words
from mxspec_conformance.judge.invariance.changes import list_changed
from mxspec_conformance.judge.invariance.history import Drawn, Twin, Workload, judge_history
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pools import Places
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.targets.sessions import TargetSession

#: (queries or tokens, heads) of the calls that are made for memory and history.
SHAPES = ((4, 2), (32, 8), (130, 6))
#: Keys of the sequence, heads that a call may have, and outputs of one with more heads than one.
KEYS, MOST_HEADS, MOST = 40, 32, 1 << 14


def judge_attention_calls(session: TargetSession, spec: CacheSpec, scorecard: Scorecard, page: int) -> None:
    """Enter calls of other sizes, in other memory, and after others."""
    # In 16 bits outputs have one right value; in float32 what follows the sum may round.
    dtype = min(session.capabilities.out_dtypes, key="float32".__eq__)
    fill = partial(_fill, spec, page, dtype)
    items = Items(width=spec.d, fill=fill, ordinary=np.arange(KEYS), takes=_takes)
    turn = session.capabilities.attention.index(spec.text)
    judge_places(session, OPERATION, scorecard, items, turn=turn, rows="queries", changed=3)


def judge_places(session: TargetSession, function: str, scorecard: Scorecard, items: Items, *, turn: int, rows: str, changed: int) -> None:
    """Enter calls filled with items; rows: what a call has rows of; changed: how many of its first arrays may be others."""

    def list_twins(drawn: Drawn) -> Iterator[Twin]:
        for what, given in list_changed(drawn.arguments[:changed]):
            yield what, (*given, *drawn.arguments[changed:]), drawn.options

    work = Workload(
        session=session, function=function, scorecard=scorecard, draw=items.draw, turn=turn,
        sizes={f"{count} {rows}, {heads} heads": (count, heads) for count, heads in SHAPES},
        # Places that are changed name none, or some twice.
        changes_arrays=False,
        list_twins=list_twins,
    )  # fmt: skip
    judge_items(work, items)
    judge_history(work)


def _takes(shape: tuple[int, int]) -> bool:
    queries, heads = shape
    return heads == 1 or (heads <= MOST_HEADS and queries * heads <= MOST)


def _fill(spec: CacheSpec, page: int, dtype: str, places: Places) -> Drawn:
    queries, heads = places.shape
    batch = Batch(
        spec=spec, lengths=[KEYS], queries=[queries], spell=spell_words, point=point_at, aim=lambda *_: places, heads=heads, step=16,
        shared=2 if heads % 2 == 0 else 1, page=page, seed=int(places.sum()),
    )  # fmt: skip
    call = batch.make()
    case = AttentionCase(topic="state", label="", call=call, out_dtype=dtype)
    groups = np.arange(heads) // (heads // batch.shared)

    def find_mistake(output: Any) -> str:
        (part,) = list_sequences(call)
        wanted = part.values[places, groups]
        slack = np.abs(wanted) * 2.0**-18  # as `mxspec.attention.bounds` proves
        low, high = ((wanted + by).astype(output.dtype) for by in (-slack, slack))
        wrong = ~((low <= output) & (output <= high)).all(-1)
        return (
            f"{int(wrong.sum())} of {wrong.size} outputs differ; the first is query {int(np.argmax(wrong)) // heads}" if wrong.any() else ""
        )

    return Drawn(case.arguments, case.options, find_mistake)
