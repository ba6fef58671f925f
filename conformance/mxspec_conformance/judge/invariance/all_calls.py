"""The calls of a function of blocks beyond the vectors, in order; what the function does not offer is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mxspec.formats import BlockFormat, Extent
from mxspec_conformance.judge.invariance import block_ways, blocks, extents, refusals
from mxspec_conformance.judge.invariance.blocks import BlockCalls
from mxspec_conformance.judge.invariance.places import judge_places
from mxspec_conformance.judge.invariance.pools import Pool
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession


def judge_calls(session: TargetSession, fmt: BlockFormat, pools: Sequence[Pool], scorecard: Scorecard) -> dict[str, Failure]:
    """Enter the calls of `quantize` or `dequantize` with answered blocks; returns the first one that differs, by requirement."""
    if not pools:
        return {}
    calls = blocks.start_calls(session, scorecard, pools)
    for topics, judge in _list_parts(calls, fmt):
        if scorecard.wants(*topics):
            judge(calls)
    return calls.first


def _list_parts(calls: BlockCalls, fmt: BlockFormat) -> Iterator[tuple[tuple[str, ...], Callable[[BlockCalls], None]]]:
    """(topics, what judges them), in order."""
    stored = calls.session.transport == "results-file"  # every call
    if calls.function == "quantize":
        yield ("position", "tail"), judge_places
    yield ("call-size", "memory"), blocks.judge_sizes
    if calls.extent is not Extent.BLOCK and not stored:
        yield ("call-size",), extents.judge_extents
    if not stored:
        yield ("memory",), blocks.judge_memory
        yield ("state", "memory"), blocks.judge_state
    if calls.offers("axis"):
        yield ("axis",), block_ways.judge_axes
    if calls.offers("pad"):
        for axis in (-1, 0, 1, -2) if calls.offers("axis") else (-1,):
            yield ("tail",), partial(block_ways.judge_ragged, axis=axis)
    if calls.offers("block") and len(fmt.shapes) > 1:
        yield ("position", "memory", "axis"), block_ways.judge_grids
        if calls.offers("pad"):
            yield ("tail",), block_ways.judge_cut_grids
    if calls.function == "quantize":
        if calls.extent is Extent.BLOCK:
            yield ("refusal", "state"), refusals.judge_ragged_refusal
        yield ("refusal", "state"), refusals.judge_other_dtypes
    elif calls.extent is not Extent.TENSOR:  # whose one scale fits any codes
        yield ("refusal", "state"), refusals.judge_scale_shapes
    if not stored and calls.extent is Extent.BLOCK:  # a row of nothing has no scale, or any
        yield ("refusal", "state"), refusals.judge_empty
    yield ("state",), blocks.judge_first_call
