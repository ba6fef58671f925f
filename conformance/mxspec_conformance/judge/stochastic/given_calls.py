"""Calls with random bits that are large, follow another one, or come at once: each word stays with its number there, too.

`quantize` may take another way with words than without, so that what the call matrix asks without them says nothing of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance.history import Drawn, Twin, Verb, Workload, judge_history
from mxspec_conformance.judge.invariance.items import Items, judge_items
from mxspec_conformance.judge.invariance.pools import Places
from mxspec_conformance.judge.stochastic.words import Flags, Words
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.targets.sessions import TargetSession

Codes = npt.NDArray[np.uint8]

TOPIC = "random-bits"
#: (rows, blocks in a row) of calls that are made for memory and history.
SHAPES = ((12, 4), (160, 4))


@dataclass(frozen=True, slots=True)
class Asked:
    """Blocks [n, k] with a word for each number, which the target has answered."""

    x: npt.NDArray[Any]
    words: Words
    scales: Codes
    #: (codes, places) -> which of them are right for the blocks at these places.
    find_right: Callable[[Codes, Places], Flags]
    kwargs: dict[str, Any]


def judge_given_calls(session: TargetSession, fmt: BlockFormat, asked: Asked, label: str, scorecard: Scorecard) -> None:
    """Enter calls of blocks that were answered; label: what the labels say of them."""
    if session.transport == "results-file":  # every call of which is stored
        return

    def fill(places: Places) -> Drawn:
        flat, rows = places.reshape(-1), len(places)
        options = {"random_bits": asked.words[flat].reshape(rows, -1), **asked.kwargs}
        return Drawn((asked.x[flat].reshape(rows, -1), fmt.name), options, partial(_find_mistake, fmt, asked, flat))

    items = Items(width=fmt.k, fill=fill, ordinary=np.arange(len(asked.x)))
    sizes = {f"{label}: {rows} x {wide * fmt.k}": (rows, wide) for rows, wide in SHAPES}
    work = Workload(
        session=session, function="quantize", scorecard=scorecard, draw=items.draw, sizes=sizes, quick=sizes,
        list_twins=partial(_list_twins, session), memory=TOPIC, state=TOPIC, size=TOPIC, prefix=f"{label}: ",
        turn=session.capabilities.formats.index(fmt.name),
    )  # fmt: skip
    judge_items(work, items)
    judge_history(work, set(Verb) - {Verb.OTHERS})


def _find_mistake(fmt: BlockFormat, asked: Asked, place: Places, answer: Any) -> str:
    codes, scales = (np.ascontiguousarray(a) for a in answer)
    right = asked.find_right(codes.reshape(-1, fmt.k), place).all(axis=1) & (scales.reshape(-1) == asked.scales[place])
    wrong = f"{int((~right).sum())} of {len(place)} blocks, in {len(answer[0])} rows, are not rounded by their own words"
    return "" if right.all() else f"{wrong}; the first is number {int(np.argmin(right))}"


def _list_twins(session: TargetSession, drawn: Drawn) -> Iterator[Twin]:
    """The same numbers without words, and numbers and words under another tensor scale."""
    plain = {option: value for option, value in drawn.options.items() if option != "random_bits"}
    if not session.capabilities.stochastic:
        yield "the words", drawn.arguments, plain
    if plain.get("tensor_scale"):
        yield "the tensor scale", drawn.arguments, {**drawn.options, "tensor_scale": plain["tensor_scale"] / 2}
