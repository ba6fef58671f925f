"""Everything that the call matrix asks of one function, in order: what the function does not offer is not asked."""

from __future__ import annotations

from collections.abc import Sequence

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance.matrix import (
    Matrix,
    judge_axes,
    judge_cut_grids,
    judge_grids,
    judge_ragged,
    judge_sizes,
    judge_strides,
)
from mxspec_conformance.judge.invariance.pools import Pool
from mxspec_conformance.judge.invariance.refusals import (
    judge_empty,
    judge_other_dtypes,
    judge_ragged_refusal,
    judge_scale_shapes,
)
from mxspec_conformance.judge.invariance.states import (
    judge_gaps,
    judge_memory,
    judge_repetition,
    judge_samples,
    judge_states,
    judge_threads,
)
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession


def judge_calls(
    session: TargetSession, fmt: BlockFormat, pools: Sequence[Pool], scorecard: Scorecard
) -> dict[str, Failure]:
    """Enter the calls of `quantize` or `dequantize`; returns the first one that differs, by requirement.

    pools: the answered blocks; what the target was never asked alone is not asked here.
    """
    if not pools:
        return {}
    matrix = Matrix.start(session, scorecard, pools[0])
    function, offers = pools[0].answered.function, session.capabilities.has
    judge_sizes(matrix, pools)
    if session.transport != "results-file":  # every call of which is stored
        judge_strides(matrix, pools)
        judge_memory(matrix, pools)
        judge_gaps(matrix, pools[0])
        judge_states(matrix, pools)
        judge_samples(matrix, pools[0])
    if offers(function, "axis"):
        judge_axes(matrix, pools)
    if offers(function, "pad"):
        for axis in (-1, 0, 1, -2) if offers(function, "axis") else (-1,):
            judge_ragged(matrix, pools, axis=axis)
    if offers(function, "block") and len(fmt.shapes) > 1:
        judge_grids(matrix, pools)
        if offers(function, "pad"):
            judge_cut_grids(matrix, pools)
    if function == "quantize":
        judge_ragged_refusal(matrix, pools)
        judge_other_dtypes(matrix, pools[0])
    else:
        judge_scale_shapes(matrix, pools)
    if session.transport != "results-file":
        judge_empty(matrix, pools[0])
    judge_repetition(matrix, pools[0])
    judge_threads(matrix, pools)
    return matrix.first
