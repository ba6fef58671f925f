"""One block, step by step: what a profile does to it, and where two of them part.

Every number comes from the exact model: stages from `exact.quantize_block`, operations from
`expressions.evaluate` with an arithmetic that delegates to `exact.EXACT` and keeps what it did. Nothing is
rounded anywhere else.

Neighbours are ordered by magnitude: `lower` is the code next toward zero, `upper` the next one away from it,
whatever the sign; "below" a midpoint is nearer zero.
"""

from __future__ import annotations

from mxspec.explain.compare import Divergence, Stage, compare_blocks
from mxspec.explain.difference import explain_difference
from mxspec.explain.plain import block_dict, scalar_dict
from mxspec.explain.records import BlockExplanation, Candidate, LaneExplanation, ScalarExplanation, ScaleExplanation
from mxspec.explain.steps import explain_block, explain_scalar
from mxspec.explain.trace import Neighbour, Place, Step, Where, locate
from mxspec.explain.words import lane_words, scalar_words, scale_words

__all__ = [
    "BlockExplanation",
    "Candidate",
    "Divergence",
    "LaneExplanation",
    "Neighbour",
    "Place",
    "ScalarExplanation",
    "ScaleExplanation",
    "Stage",
    "Step",
    "Where",
    "block_dict",
    "compare_blocks",
    "explain_block",
    "explain_difference",
    "explain_scalar",
    "lane_words",
    "locate",
    "scalar_dict",
    "scalar_words",
    "scale_words",
]
