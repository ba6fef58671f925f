"""Where a target answers nothing at all."""

from __future__ import annotations

import re

from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.observations.format import Observations


def find_no_answer(observations: Observations) -> Found | None:
    """The one reason for which no case of `quantize` has an answer; None where one has, or where reasons differ."""
    lost = [item.reason for item in observations.unanswered if not item.reason.is_unsupported]
    shown = [reason.message for reason in lost if not reason.given_up]
    # Targets put shapes and counts into their messages.
    if observations.answered or not shown or len({re.sub(r"\d+", "0", message) for message in shown}) > 1:
        return None
    return Found(KnownCause.NO_ANSWER, f"none of {len(lost)} blocks has an answer: {shown[0]}")
