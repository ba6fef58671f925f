"""Answers that depend on the call: the same call made again, and wrong blocks asked in calls of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.invariance.answered import ORDINARY, Answered
from mxspec_conformance.observations.answers import answer_matches
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.quantize import Observed, tensor_argument
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Codes

#: What is said where nothing but the requirement about calls fails, and where wrong blocks are right in calls of their own.
CALL_ALONE = Found(KnownCause.CALL_ALONE, "right block by block; the answer depends on the call that a block stands in")
#: Blocks that are asked again, drawn evenly from all that are wrong.
_ASKED = 8


def find_chance(session: TargetSession, again: Answered) -> Found | None:
    """The same call three times; one block stands beyond a multiple of 64, as tails have paths of their own."""
    count = len(again.before)
    place = np.arange(count - (count - 1) % 64)
    answers = [run_once(lambda: again.rows(session.call(again.function, *again.arguments(place), **again.kwargs))) for _ in range(3)]
    given = [a for a in answers if not isinstance(a, NoAnswer)]
    if len(given) < 2:
        return None
    differ = np.zeros(len(place), bool)
    for other in given[1:]:
        differ |= again.differ(given[0], other).any(axis=1)
    if not differ.any():
        return None
    text = f"not deterministic: the same call, made three times, gives {int(differ.sum())} of {len(place)} blocks other bits"
    return Found(KnownCause.NOT_DETERMINISTIC, f"{text} (chance, a race, or state that a call leaves behind)")


def are_right_alone(session: TargetSession, fmt: BlockFormat, profile: Profile, answered: Sequence[Observed]) -> bool:
    """Whether some ordinary blocks are wrong, and each of those that are asked again, in a call of one block, is right."""
    dtype = session.capabilities.dtypes[0]
    wrong = [
        item for item in answered
        if item.case.is_row and item.dtype == dtype and item.case.topic in ORDINARY and profile.id in item.case.answers
        and not _is_right(item, item.scales, item.codes, fmt, profile)
    ]  # fmt: skip
    places = np.unique(np.linspace(0, len(wrong) - 1, min(len(wrong), _ASKED)).astype(int)).tolist()
    for item in (wrong[place] for place in places):
        arguments = (item.case.x.reshape(1, -1).astype(DTYPES[dtype]), fmt.name)
        options = tensor_argument(item.case.tensor, session.capabilities)
        answer = run_once(partial(session.call, "quantize", *arguments, **options))
        if isinstance(answer, NoAnswer) or not _is_right(item, answer[1], answer[0], fmt, profile):
            return False
    return bool(wrong)


def _is_right(item: Observed, scales: Codes, codes: Codes, fmt: BlockFormat, profile: Profile) -> bool:
    legal = item.case.answers[profile.id]
    return any(answer_matches(one, scales, codes, fmt.element, signs=False) for one in legal)
