"""What is fuzzed: jobs, batches, findings and files, which blocks, products and other functions have alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec_conformance.campaign.verdicts import Count, judge_count, judge_no_answers
from mxspec_conformance.judge.explanation import Explanation
from mxspec_conformance.results.report import Failure, FormatResult, Report, Requirement
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import Level

if TYPE_CHECKING:
    from typing import Self

Progress = Callable[[str], None]
Result = dict[str, Any]
#: Loads a target anew.
Restart = Callable[[], TargetSession]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long, from which seed, of what."""

    seed: int = 0
    minutes: float = 1.0
    #: Stop after so many batches of each job instead of after a time.
    batches: int | None = None
    formats: tuple[str, ...] = ()
    profile: str | None = None
    #: Only these products, by name; formats are then left out.
    products: tuple[str, ...] = ()
    #: Only these functions of affine integers and sparse operands, `function` or `function.format`; formats are then left out.
    operations: tuple[str, ...] = ()
    #: The class by which products are judged; None: the declared one, or float32.
    accumulator: str | None = None
    #: End with the first batch in which something is wrong.
    first: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What jobs are planned from, and reductions are made with."""

    session: TargetSession
    #: What workers open: a `Named` target, or the session of an object.
    spec: Any
    settings: Settings
    timeout: float = 60.0
    in_process: bool = True
    progress: Progress = lambda _: None

    @property
    def common(self) -> dict[str, Any]:
        """What all jobs are given."""
        return {"target": self.spec, "seed": self.settings.seed, "timeout": self.timeout, "in_process": self.in_process}


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """What batches are drawn from, and the target that gets them."""

    #: Added to the stream of each draw, so that no two kinds of jobs share one.
    STREAM: ClassVar[int] = 0

    target: Any
    seed: int
    timeout: float = 60.0
    in_process: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """For keys."""

    @property
    @abstractmethod
    def identity(self) -> list[Any]:
        """What names the job in a state file."""

    @property
    def pace(self) -> int:
        """Every which batch is run."""
        return 1

    def generator(self, number: int, stream: int = 0) -> np.random.Generator:
        """The random numbers of one batch; the same on every machine."""
        return np.random.Generator(np.random.PCG64([self.seed, number, self.STREAM + stream]))


def note_no_answer(no_answers: Result, failure: CallError, words: str, number: int, call: int, *, job: str, row: int = 0) -> None:
    """Keep one call that had no answer, of each kind."""
    key = f"{failure.kind}: {str(failure)[:120]}"
    known = no_answers.setdefault(
        key, {"count": 0, "kind": failure.kind.value, "call": words, "batch": number, "number": call, "job": job, "row": row}
    )
    known["count"] += 1


def add_up(total: Result, result: Mapping[str, Any], *names: str) -> None:
    """Enter a batch into a total: these numbers, and calls without an answer."""
    total["batches"] += 1
    for name in names:
        total[name] += result[name]
    for words, no_answer in result["no_answers"].items():
        total["no_answers"].setdefault(words, {**no_answer, "count": 0})["count"] += no_answer["count"]


@dataclass(slots=True)
class Coverage:
    """Flags of what was hit, by class."""

    hit: dict[str, npt.NDArray[np.bool_]]

    @classmethod
    def of_sizes(cls, sizes: Mapping[str, int]) -> Self:
        """Nothing hit yet."""
        return cls({str(name): np.zeros(size, np.bool_) for name, size in sizes.items()})

    def merge(self, packed: Mapping[str, str]) -> None:
        """Add what `pack` wrote."""
        for name, text in packed.items():
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))
            self.hit[name] |= bits[: len(self.hit[name])].astype(np.bool_)

    def pack(self) -> dict[str, str]:
        """As hex, for a result."""
        return {name: np.packbits(flags).tobytes().hex() for name, flags in self.hit.items()}

    def counts(self) -> dict[str, list[int]]:
        """Class -> [hit, of]."""
        return {name: [int(flags.sum()), len(flags)] for name, flags in self.hit.items()}


class Dependence(StrEnum):
    """What a wrong product or group depends on, in addition to its own values."""

    NOTHING = "alone"
    #: The call alone is right: it is wrong after the call before it.
    LAST_CALL = "only after another call"
    #: It was wrong in its batch, and is neither alone nor after the call before it.
    EARLIER_CALLS = "only after earlier calls"
    NEIGHBOURS = "only next to other groups"
    CALL = "only in some calls"


@dataclass(slots=True, kw_only=True)
class Finding:
    """One cause, with the smallest input that shows it."""

    #: What `nonzero` counts, as reports call it.
    MEASURE: ClassVar[str] = "nonzero_lanes"

    job: Any
    topic: str
    words: str
    #: How often it was seen, among what was examined again.
    mismatches: int
    #: How it is called, or what it depends on, in words.
    how: str
    #: How much of what is wrong in the input that shows it is not zero: lanes, codes, or products of a sum.
    nonzero: int
    failure: Failure

    def describe(self, **more: Any) -> Result:
        """As reports have it."""
        return {
            "format": self.job.fmt, "topic": self.topic, "cause": self.words, "mismatches": self.mismatches, "pattern": self.how,
            self.MEASURE: self.nonzero, **more,
        }  # fmt: skip


@dataclass(slots=True)
class Reduced:
    """What was wrong, reduced to causes."""

    findings: list[Any] = field(default_factory=list)
    #: What was not seen again, and what was not tried: mismatches, products or batches.
    lost: int = 0
    left: int = 0
    #: Of blocks: (format, topic) -> how many of those that were not tried.
    left_topics: Counter[tuple[str, str]] = field(default_factory=Counter)
    lost_words: list[str] = field(default_factory=list)
    #: What makes everything that is wrong a deviation; None where something is wrong for another reason.
    deviation: Explanation | None = None


def count_findings(own: Sequence[Finding], cases: int, left: int = 0) -> Count:
    """The count of one topic's findings; left: wrong ones of it whose cause was not searched for."""
    words = [f.words for f in own] + [f"{left} wrong blocks were not minimized"] * bool(left)
    return Count(
        cases=cases, failing=sum(f.mismatches for f in own) + left, labels=[f.failure.case[:120] for f in own],
        note="; ".join(words)[:400], first=own[0].failure if own else None,
    )  # fmt: skip


def judge_answers(fmt: str, cases: int, no_answers: Mapping[str, Any], first: Failure | None = None) -> Requirement:
    """The requirement that there are answers."""
    count = Count(cases=cases, first=first)
    if no_answers:
        count.unanswered = judge_no_answers([n["kind"] for n in no_answers.values()])
        count.unanswered_cases = sum(n["count"] for n in no_answers.values())
        count.no_answer_note = "; ".join(f"{words} ({n['call']}, {n['count']} times)" for words, n in no_answers.items())[:400]
    return judge_count(f"fuzz/{fmt}/answers", Level.CONTRACT, "the target answers", count)


@dataclass(slots=True)
class Campaign:
    """The outcome of a campaign."""

    report: Report
    #: Causes of wrong blocks.
    findings: list[Any] = field(default_factory=list)
    coverage: dict[str, Coverage] = field(default_factory=dict)
    #: Causes of wrong products.
    products: list[Any] = field(default_factory=list)
    #: Causes of wrong groups of affine integers and sparse operands.
    operations: list[Any] = field(default_factory=list)

    def enter(
        self, result: FormatResult, total: Result, reduced: Reduced, requirements: Iterable[Requirement], described: Iterable[Result]
    ) -> None:
        """The outcome of one product or function; described: its causes as reports have them."""
        details = self.report.details
        self.report.formats.append(result)
        self.report.requirements += requirements
        details["totals"][result.format] = total
        details["findings"] += described
        details["not_reduced"] += reduced.left


@dataclass(frozen=True, slots=True)
class Replayed:
    """One case, run again."""

    id: str
    #: `differs`, `right`, `outdated`, or why there is no answer.
    verdict: str
    words: str


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of functions that are fuzzed."""

    job: type[Job]
    finding: type[Finding]
    #: (target, job, number of the batch) -> its result, as plain data: the same for the same seed and number.
    ask: Callable[[TargetSession, Any, int], Result]
    #: Enters the batches of all jobs into the campaign: (request, jobs, (job, number, result) in order, campaign).
    conclude: Callable[[Request, Sequence[Any], Sequence[tuple[Any, int, Result]], Campaign], None]
    #: Findings -> name of a file and its content.
    write: Callable[[Sequence[Any]], Mapping[str, bytes]]
    #: Whether a file's content is of this kind.
    owns: Callable[[Any], bool]
    #: (path, its content, target, how it is loaded anew) -> its cases run again. Raises ValueError where a case is none.
    replay: Callable[[Path, Any, TargetSession, Restart | None], list[Replayed]]
