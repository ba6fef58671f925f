"""What can be asked over which transport, and what counts as a refusal."""

from __future__ import annotations

from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.targets.errors import REFUSALS as REFUSALS, FailureKind

#: Transports with the target's memory and threads within reach.
LOCAL = ("python", "python-child", "library", "library-child")
#: Transports on which a target sees the shapes of what it is given. Elsewhere the judge hands over buffers for whole blocks.
SEES_SHAPES = ("python", "python-child")


def hides_memory(answer: NoAnswer) -> bool:
    """Whether a look at a target's memory shows nothing: the call was refused, or bytes or a filled buffer came back, which have no
    array to look at."""
    return answer.is_refusal or answer.kind is FailureKind.BAD_RETURN
