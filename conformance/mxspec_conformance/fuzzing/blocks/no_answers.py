"""Calls that had no answer: halved until one block is left, where one is to blame."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.counterexample.sample_space import Float32s
from mxspec_conformance.fuzzing.blocks.batch import find_block
from mxspec_conformance.fuzzing.blocks.job import BlockJob
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.targets.sessions import TargetSession

#: Time-outs are not halved: each costs as long as the time-out is.
HALVED = (FailureKind.ERROR, FailureKind.CRASH, FailureKind.BAD_RETURN)


def reduce_no_answer(job: BlockJob, no_answer: dict[str, Any], session: TargetSession) -> Failure | None:
    """The smallest part of the call that still has no answer, as a failure; None where it is answered now."""
    if job.decodes or no_answer["kind"] not in HALVED:
        return None
    call, blocks, _ = find_block(job, no_answer["batch"], no_answer["number"], no_answer["row"])

    def fails(blocks: Float32s) -> CallError | None:
        try:
            call.ask(session, job.space, blocks)
        except CallError as failure:
            return failure
        return None

    failure = fails(blocks)
    if failure is None or failure.final:
        return None
    while len(blocks) > call.width:
        half = -(-len(blocks) // call.width // 2) * call.width
        for part in (blocks[:half], blocks[half:]):
            again = fails(part)
            if again is not None and len(part):
                blocks, failure = part, again
                break
        else:
            break
    lanes = [slice(0, None, 2), slice(1, None, 2), *(slice(i, i + 1) for i in range(blocks.shape[1]))]
    for some in lanes if len(blocks) == 1 else ():  # those that do not matter become +0
        tried = blocks.copy()
        tried[0, some] = 0
        if (tried.view(np.uint32) == blocks.view(np.uint32)).all():
            continue
        again = fails(tried)
        if again is not None and again.kind is failure.kind and not again.final:
            blocks, failure = tried, again
    shown = {f"lane {i}": describe_bits(v) for i, v in enumerate(blocks[0]) if v.view(np.uint32)}
    words = f"{failure.kind}: {failure}"
    return Failure(
        case=f"{call.words}, {len(blocks)} block{'s' * (len(blocks) != 1)}",
        given={"block": shown, "other lanes": "+0", "call": call.words, "blocks": len(blocks)},
        expected={"answer": "codes and scales"}, returned={"answer": words},
        steps=[words, *([failure.detail.strip().splitlines()[-1]] if failure.detail.strip() else [])],
    )  # fmt: skip
