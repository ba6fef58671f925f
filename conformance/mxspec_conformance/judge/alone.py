"""Wrong blocks, asked again in calls of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.invariance.answered import ORDINARY
from mxspec_conformance.observations.answers import answer_matches
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.quantize import Observed, tensor_argument
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Codes

#: Blocks that are asked again, drawn evenly from all that are wrong.
ASKED = 8


def are_right_alone(session: TargetSession, fmt: BlockFormat, profile: Profile, answered: Sequence[Observed]) -> bool:
    """Whether some ordinary blocks are wrong, and each of those that are asked again, in a call of one block, is right."""
    dtype = session.capabilities.dtypes[0]
    wrong = [
        item for item in answered
        if item.case.is_row and item.dtype == dtype and item.case.topic in ORDINARY and profile.id in item.case.answers
        and not _is_right(item, item.scales, item.codes, fmt, profile)
    ]  # fmt: skip
    places = np.unique(np.linspace(0, len(wrong) - 1, min(len(wrong), ASKED)).astype(int)).tolist()
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
