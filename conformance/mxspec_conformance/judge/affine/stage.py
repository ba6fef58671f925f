"""The requirements of one affine function in one format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mxspec_conformance.judge.affine.dequantize import judge_dequantize
from mxspec_conformance.judge.affine.quantize import Standing, judge_quantize
from mxspec_conformance.judge.explanation import Cause
from mxspec_conformance.judge.tally import Scorecard, common_explanation, judge_tally
from mxspec_conformance.results.report import Requirement, Verdict
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.affine_cases import load_affine_groups, load_affine_stored

_Judge = Callable[..., Standing | None]
#: Function -> its judge.
JUDGES: dict[str, _Judge] = {"quantize_affine": judge_quantize, "dequantize_affine": judge_dequantize}


def list_affine(function: str, fmt: str) -> Iterator[str]:
    """Ids of the requirements of a function in a format."""
    if function == "quantize_affine":
        topics = dict.fromkeys((*(c.topic for c in load_affine_groups(fmt)), "affine-profile", "call-size", "memory", "state"))
    else:
        topics = dict.fromkeys((*(c.topic for c in load_affine_stored(fmt)), "call-size", "memory", "state"))
    yield from (f"{function}/{fmt}/{topic}" for topic in topics)


def judge_affine(
    session: TargetSession, function: str, name: str, claimed: str | None = None, given: Sequence[Any] | None = None, *,
    calls: bool = True,
) -> tuple[list[Requirement], Standing | None]:  # fmt: skip
    """The requirements, and how the target stands to the profile or contract that it was judged by.

    name: as the target declares it. claimed: the profile or contract that it has to follow; None: the nearest one.
    given: the cases of the function; None: those of the vectors. calls: whether calls of other sizes and in other memory are made as
    well.
    """
    fmt = read_operand(name).format
    scorecard = Scorecard(function, fmt.name)
    standing = JUDGES[function](session, name, claimed, scorecard, given, calls=calls)
    explanation = common_explanation(scorecard.tallies.values(), lambda e: (int(e.cause),))
    # A profile that agrees with every failing case of one topic explains nothing where another is judged.
    requirements = []
    for tally in scorecard.tallies.values():
        requirement = judge_tally(tally, explanation, lambda t: None if t.show is None else t.show(), described=claimed is not None)
        if requirement.verdict is Verdict.FAIL and requirement.note and explanation is not None:
            requirement.note = f"as if {explanation.text}" if explanation.cause is Cause.AFFINE_MISTAKE else requirement.note
        if tally.topic == "affine-profile" and standing is not None and not requirement.note:
            count = f": {standing.failing} of {standing.cases} groups differ" if standing.failing else ""
            requirement.note = f"{'nearest is ' if standing.failing else ''}{standing.profile}{count}"
        if tally.topic == "affine-profile" and requirement.verdict is Verdict.OPEN:
            requirement.first = None  # what is wrong in itself is shown by the other requirements
        requirements.append(requirement)
    return requirements, standing
