"""What can be asked over which transport, and what counts as a refusal."""

from __future__ import annotations

from mxspec_conformance.targets.errors import REFUSALS as REFUSALS

#: Transports with the target's memory and threads within reach.
LOCAL = ("python", "python-child", "library", "library-child")
#: Transports on which a target sees the shapes of what it is given. Elsewhere the judge hands over buffers for whole blocks.
SEES_SHAPES = ("python", "python-child")
