"""Where a target answers nothing at all, or by what its format does not have."""

from __future__ import annotations

from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.targets.texts import plain_text


def find_no_answer(observations: Observations) -> Found | None:
    """The one reason for which no case of `quantize` has an answer; None where one has, or where reasons differ."""
    lost = [item.reason for item in observations.unanswered if not item.reason.is_unsupported]
    shown = [reason.message for reason in lost if not reason.given_up]
    if observations.answered or not shown or len(set(map(plain_text, shown))) > 1:
        return None
    return Found(KnownCause.NO_ANSWER, f"none of {len(lost)} blocks has an answer: {shown[0]}")


def find_no_numbers(observations: Observations) -> tuple[Found, bool] | None:
    """That answers hold numbers which the format does not have, and whether most do: then the others show nothing; None where none does."""
    lost = [item.reason for item in observations.unanswered if not item.reason.is_unsupported]
    of_maxima = [(item.returned, len(item.case.amax)) for item in observations.scales]
    odd = [reason for reason in (*lost, *(r for r, _ in of_maxima if isinstance(r, NoAnswer))) if reason.topic]
    total = len(observations.answered) + len(lost) + sum(n for _, n in of_maxima)
    return (Found(KnownCause.NO_NUMBER, f"{odd[0].message}: so in {len(odd)} of {total} blocks"), 2 * len(odd) > total) if odd else None
