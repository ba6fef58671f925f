"""Everything that the call matrix asks of one function, in order: what the function does not offer is not asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance.contents import judge_contents
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
from mxspec_conformance.judge.invariance.states import judge_first_call, judge_gaps, judge_history_of_blocks
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession

#: A part of the matrix.
Part = Callable[[Matrix], None]


def judge_calls(
    session: TargetSession, fmt: BlockFormat, pools: Sequence[Pool], scorecard: Scorecard
) -> dict[str, Failure]:
    """Enter the calls of `quantize` or `dequantize`; returns the first one that differs, by requirement.

    pools: the answered blocks; what the target was never asked alone is not asked here.
    """
    if not pools:
        return {}
    matrix = Matrix.start(session, scorecard, pools)
    for number, (topics, judge) in enumerate(_list_parts(session, fmt, pools)):
        if scorecard.wants(*topics):
            matrix.begin(number)
            judge(matrix)
    return matrix.first


def _list_parts(session: TargetSession, fmt: BlockFormat, pools: Sequence[Pool]) -> Iterator[tuple[tuple[str, ...], Part]]:
    """(topics, what is asked of them), in order."""
    function, offers = pools[0].answered.function, session.capabilities.has
    stored = session.transport == "results-file"  # every call
    yield ("call-size",), partial(judge_sizes, pools=pools)
    yield ("call-size",), partial(judge_contents, pools=pools)
    if not stored:
        yield ("memory",), partial(judge_strides, pools=pools)
        yield ("memory",), lambda matrix: judge_history_of_blocks(matrix, pools, "memory")
        yield ("memory",), partial(judge_gaps, pool=pools[0])
        yield ("state",), lambda matrix: judge_history_of_blocks(matrix, pools, "state")
    if offers(function, "axis"):
        yield ("axis",), partial(judge_axes, pools=pools)
    if offers(function, "pad"):
        for axis in (-1, 0, 1, -2) if offers(function, "axis") else (-1,):
            yield ("tail",), partial(judge_ragged, pools=pools, axis=axis)
    if offers(function, "block") and len(fmt.shapes) > 1:
        yield ("position", "memory", "axis"), partial(judge_grids, pools=pools)
        if offers(function, "pad"):
            yield ("tail",), partial(judge_cut_grids, pools=pools)
    if function == "quantize":
        yield ("refusal", "state"), partial(judge_ragged_refusal, pools=pools)
        yield ("refusal", "state"), partial(judge_other_dtypes, pool=pools[0])
    else:
        yield ("refusal", "state"), partial(judge_scale_shapes, pools=pools)
    if not stored:
        yield ("refusal", "state"), partial(judge_empty, pool=pools[0])
    yield ("state",), partial(judge_first_call, pool=pools[0])
