"""What can be said of a format in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from mxspec.profiles import list_profiles
from mxspec_conformance.results.report import FormatResult, Report, Requirement, Verdict
from mxspec_vectors.topics import Level

#: The cause of a target that searches its scales.
SCALE_SEARCH = "scale-search"
#: The cause of a target that answers no case, each time for the same reason.
NO_ANSWER = "no-answer"


_CALLS, _SCALES, _TENSOR = (
    frozenset({"call-size", "memory", "state"}),
    frozenset({"scale-boundary", "scale-tie"}),
    frozenset({"tensor-scale"}),
)
_POSITION, _SUBNORMAL = frozenset({"position"}), frozenset({"subnormal"})
#: A cause -> the topics whose cases show it best; of causes that are not listed any case does.
SHOWN_BY: Mapping[str, frozenset[str]] = {
    "not-deterministic": _CALLS, "call-alone": _CALLS, "scales-transposed": frozenset({"axis", "call-size"}),
    "scale-offset": _SCALES, "scale-bias": _SCALES, "narrow-maximum": _SCALES, "subnormals-flushed": _SUBNORMAL,
    "subnormals-cut": _SUBNORMAL, "signed-maximum": _POSITION, "lanes-not-looked-at": _POSITION, "tensor-scale-kind": _TENSOR,
    "tensor-scale-left-out": _TENSOR,
}  # fmt: skip
#: What a reader wants to see first: what has no excuse, then what has one, then what no text requires.
_URGENCY = {Verdict.WAIVED: 1, Verdict.OPEN: 2}


def list_unmet(report: Report) -> list[Requirement]:
    """The requirements that are neither passed nor unsupported: failures before what is open, of each format first those that show
    the cause that is named, then what binds most."""
    formats = list(dict.fromkeys(r.format for r in report.requirements))
    topics = {f.format: frozenset[str]().union(*(SHOWN_BY.get(cause, ()) for cause in f.causes[:1])) for f in report.formats}

    def key(r: Requirement) -> tuple[int, int, bool, int]:
        return (_URGENCY.get(r.verdict, 0), formats.index(r.format), r.topic not in topics.get(r.format, ()), Level(r.level).rank)

    return sorted((r for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED)), key=key)


#: Verdicts of requirements that nothing fails: a stale waiver is one that passes.
_MET = (Verdict.PASS, Verdict.OPEN, Verdict.STALE_WAIVER)


class Stand(Enum):
    """How a format stands to the profile that it was judged by."""

    CONFORMS = "conforms to"
    #: Nothing fails, but no run has confirmed the profile itself.
    MATCHES = "matches (provisional)"
    NEAREST = "nearest"
    #: Something fails, against a profile that was requested or claimed.
    DIFFERS = "differs from"
    #: The scales are searched; the elements are right under them.
    ELEMENTS = "elements as"
    #: Nothing fails of the requested requirements; there are others.
    PART = "passes the requested part of"
    #: No call of the vectors has an answer: no bit could be compared with any profile's.
    SILENT = "answers nothing"
    #: The target supports nothing of it.
    UNSUPPORTED = "not supported"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict on one format."""

    stand: Stand
    profile: str
    #: Whether `dequantize` alone was judged.
    only_dequantize: bool
    #: Failing cases of so many: of the vectors, or where these agree of all requirements, calls among them.
    failing: int
    cases: int

    @property
    def text(self) -> str:
        """For people."""
        if self.stand in (Stand.UNSUPPORTED, Stand.SILENT):
            return str(self.stand.value)
        return f"{self.stand.value} {self.profile}" + (" (dequantize alone)" if self.only_dequantize else "")


def conclude(result: FormatResult, requirements: Sequence[Requirement]) -> Conclusion:
    """The conclusion on a format from all requirements of a report."""
    judged = [r for r in requirements if r.format == result.format]
    own = [r for r in judged if r.verdict is not Verdict.UNSUPPORTED]
    stand = Stand.NEAREST if result.chosen == "nearest" else Stand.DIFFERS
    if not own:  # requirements of its own, or functions of blocks
        stand = Stand.UNSUPPORTED
    elif NO_ANSWER in result.causes:
        stand = Stand.SILENT
    elif own and all(r.verdict in _MET for r in own):
        stand = Stand.MATCHES if result.provisional else Stand.CONFORMS
        if SCALE_SEARCH in result.causes:
            stand = Stand.ELEMENTS
        elif result.partial:
            stand = Stand.PART
    unmet = [r for r in own if r.verdict not in _MET]
    failing, cases = result.failing, result.cases
    if stand is Stand.PART:  # the cases of others say nothing of it
        failing, cases = 0, sum(r.cases for r in own)
    elif unmet and not failing:  # "0" would deny them
        failing, cases = sum(r.failing for r in unmet), sum(r.cases for r in own)
    return Conclusion(stand, result.judged_against, result.operations == ["dequantize"], failing, cases)


def is_provisional(profile: str) -> bool:
    """Whether no run has confirmed a profile."""
    return any(p.id == profile and p.provisional for p in list_profiles())
