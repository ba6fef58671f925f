"""Results: verdicts and the one JSON form that check, and later fuzz, proofs and GPU runs, share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from mxspec.enums import StrEnum
from mxspec_vectors.schemas import Check, compile_schema, first_violation
from mxspec_vectors.topics import Level

SCHEMA = "mxspec-result/1"
#: Levels of a run: the cases of the quick set, or all.
QUICK, FULL = "quick", "full"


class Verdict(StrEnum):
    """The result of a requirement."""

    #: Every case is right.
    PASS = "pass"
    #: At least one case is wrong.
    FAIL = "fail"
    #: Every failing case has the bits of one other profile, the same for the whole format.
    DEVIATION = "deviation"
    #: The answers are not the profile's, and no text says that they have to be.
    OPEN = "open"
    #: The target does not offer it.
    UNSUPPORTED = "unsupported"
    #: The target raised, crashed, or returned something malformed.
    ERROR = "error"
    #: The target did not answer in time.
    TIMEOUT = "timeout"
    #: It fails, and a waiver lists it.
    WAIVED = "waived"
    #: It passes although a waiver or a baseline's list names it, which counts as a failure.
    STALE_WAIVER = "stale waiver"


#: Verdicts with which a run passes.
GOOD = (Verdict.PASS, Verdict.OPEN, Verdict.UNSUPPORTED, Verdict.WAIVED)


class WaiverState(StrEnum):
    """What became of a waiver."""

    USED = "used"
    #: Of another version or device than the one judged.
    ELSEWHERE = "not for this target"
    EXPIRED = "expired"
    UNMATCHED = "matches nothing"
    NOT_NEEDED = "covers what passes"
    OTHER_COUNT = "covers another number of failing cases"
    #: Written at the full level: the fewer cases of a quick run do not fail what it covers.
    OTHER_LEVEL = "covers what the quick level does not fail"


#: States that make a run fail.
STALE_STATES = (WaiverState.EXPIRED, WaiverState.UNMATCHED, WaiverState.NOT_NEEDED, WaiverState.OTHER_COUNT)


@dataclass(slots=True)
class Failure:
    """The smallest failing case of a requirement, ready to be shown."""

    case: str
    #: The call and its answer, field by field, as text.
    given: dict[str, Any]
    expected: dict[str, Any]
    returned: dict[str, Any]
    #: The step at which the answer parts from the profile, in words.
    steps: list[str] = field(default_factory=list)
    #: Profiles that would have returned these bits.
    also: list[str] = field(default_factory=list)
    #: A NumPy snippet that reproduces the expected answer.
    snippet: str = ""
    #: A product's operands and output, whole, as `mxspec explain` reads them (`judge/products/stored.py`); None: it is none.
    product: dict[str, Any] | None = None


@dataclass(slots=True)
class Requirement:
    """One requirement, judged."""

    id: str
    level: str
    text: str
    verdict: Verdict
    cases: int = 0
    failing: int = 0
    #: What the deviation equals, or why there is no verdict.
    note: str = ""
    #: Ids of failing cases, at most 20.
    failing_cases: list[str] = field(default_factory=list)
    first: Failure | None = None
    #: The profile that gives the bits of every failing case; empty where there is none.
    explained_by: str = ""

    @property
    def operation(self) -> str:
        """The first part of the id."""
        return self.id.split("/")[0]

    @property
    def format(self) -> str:
        """The second part of the id: a block, scalar or layout format."""
        return self.id.split("/")[1]

    @property
    def topic(self) -> str:
        """The third part of the id."""
        return self.id.split("/")[2]


@dataclass(slots=True, kw_only=True)
class Impact:
    """The errors of a target on ordinary data, next to the profile's. No verdict depends on it."""

    #: "N(0, 1)", or the name of a file.
    data: str
    #: Element codes compared, and those that differ.
    codes: int = 0
    codes_differ: int = 0
    #: Elements whose values differ; the two zeros are one value, and two scales may give one value.
    values_differ: int = 0
    #: Block scales compared, and those that differ.
    scales: int = 0
    scales_differ: int = 0
    #: Signal-to-quantization-noise ratio in decibels of the target and of the profile; None where it is not finite.
    sqnr: float | None = None
    sqnr_profile: float | None = None
    #: The largest |x - value| of the target and of the profile; None where it is not finite.
    largest: float | None = None
    largest_profile: float | None = None
    #: Why nothing was measured.
    note: str = ""


@dataclass(slots=True)
class FormatResult:
    """One format: which profile it was judged by, and what it is like."""

    format: str
    judged_against: str
    #: How the profile was chosen.
    chosen: str
    provisional: bool
    #: Failing cases under the profile, of all.
    distance: int
    cases: int
    #: Failing cases under every normative profile, and under the closest one where the nearest normative one was judged by and fails.
    distances: dict[str, int] = field(default_factory=dict)
    #: Operations that were judged.
    operations: list[str] = field(default_factory=list)
    #: Profiles that agree in every bit of every case.
    identical_to: list[str] = field(default_factory=list)
    #: Leaf behaviour in words: scale rule, rounding, sign of zero, NaN, Inf, zero block.
    behaviour: dict[str, str] = field(default_factory=dict)
    #: Ways in which it parts from the profile, in words.
    deviations: list[str] = field(default_factory=list)
    #: The same where OCP leaves it open.
    open_choices: list[str] = field(default_factory=list)
    #: Causes that are known of many failures at once (`judge/causes`), by name; deviations say them in words.
    causes: list[str] = field(default_factory=list)
    #: Of the failing cases under the profile, those that fail requirements whose verdict is `open` alone.
    open_cases: int = 0
    #: Cases that are not among `cases`: the target was called for them, and says that it does not offer them.
    declined: int = 0

    #: What that means on ordinary data.
    impact: list[Impact] = field(default_factory=list)
    #: Whether some of its requirements alone were requested.
    partial: bool = False

    @property
    def failing(self) -> int:
        """Failing cases under the profile, without what is open."""
        return self.distance - self.open_cases

    @property
    def unanswered(self) -> str:
        """What is not known of the target, for people; empty where it declined nothing."""
        if not self.declined:
            return ""
        return f"not known: {self.declined:,} of {self.declined + self.cases:,} cases, which it declines"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What an earlier result had of this one's failures."""

    version: str
    vectors: str
    #: Ids of requirements that failed before, that fail only now, and that failed before and do not now.
    known: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    #: The level of the earlier result, where it is not this one's; empty otherwise.
    level: str = ""
    #: Of a list of ids: those that no judged requirement has.
    unmatched: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """The result of `check`, `prove` or `fuzz`; `as_dict` gives its JSON form."""

    #: Name, version, transport and capabilities of the target.
    target: dict[str, Any]
    #: SHA-256 digest of the vectors, in hex.
    vectors: str
    #: One entry for each block format that was judged.
    formats: list[FormatResult] = field(default_factory=list)
    #: All requirements, in the order in which they were judged.
    requirements: list[Requirement] = field(default_factory=list)
    #: Machine, operating system, versions of packages, commit.
    environment: dict[str, Any] = field(default_factory=dict)
    #: Duration of the run.
    seconds: float = 0.0
    #: What made it: `check`, `proof` or `fuzz`.
    kind: str = "check"
    #: What became of each waiver: id, reason, link, expires, state, requirements.
    waivers: list[dict[str, Any]] = field(default_factory=list)
    #: What a proof or a fuzzing campaign adds: statements, chunks and digests, coverage, findings.
    details: dict[str, Any] = field(default_factory=dict)
    #: Requirements of this level, and of more binding ones, set the exit code.
    exit_level: Level = Level.CONTRACT
    baseline: Baseline | None = None

    @property
    def exit_code(self) -> int:
        """0: all supported requirements pass, are open or waived, and no waiver is stale; 1: not; 2: nothing could be judged, or
        nothing of some format at the level that sets the code.

        Those of a less binding level than `exit_level`, and those that the baseline knows, do not count. At level open,
        what is open counts too.
        """
        judged = [r for r in self.requirements if r.verdict is not Verdict.UNSUPPORTED]
        if not judged or self.too_mild:
            return 2
        return 1 if any(map(self.counts_as_wrong, judged)) or any(w["state"] in STALE_STATES for w in self.waivers) else 0

    @property
    def too_mild(self) -> list[str]:
        """Formats that were judged, but in no requirement as binding as `exit_level`, must or should: their code would stand for nothing."""
        if self.exit_level.rank >= Level.CONTRACT.rank:
            return []
        judged = [r for r in self.requirements if r.verdict is not Verdict.UNSUPPORTED]
        bound = {r.format for r in judged if Level(r.level).rank <= self.exit_level.rank}
        names = {f.format for f in self.formats} or {r.format for r in judged if not bound}
        return [name for name in dict.fromkeys(r.format for r in judged) if name in names - bound]

    def counts_as_wrong(self, requirement: Requirement) -> bool:
        """Whether a requirement sets the exit code to 1."""
        if self.baseline is not None and requirement.id in self.baseline.known:
            return False
        if requirement.verdict is Verdict.OPEN:
            return self.exit_level is Level.OPEN
        return requirement.verdict not in GOOD and Level(requirement.level).rank <= self.exit_level.rank

    def is_known(self, requirement: Requirement) -> bool:
        """Whether a requirement fails, and the baseline knows it."""
        return self.baseline is not None and requirement.id in self.baseline.known and requirement.verdict not in GOOD

    def name_verdict(self, requirement: Requirement) -> str:
        """The verdict for people, who see whether it is a known one."""
        return f"known {requirement.verdict}" if self.is_known(requirement) else requirement.verdict.value

    @property
    def excuse(self) -> str:
        """Why the exit code is 0 although something fails, for people; empty where nothing does."""
        bad = [r for r in self.requirements if r.verdict not in GOOD]
        if all(map(self.is_known, bad)):
            return "nothing new fails" if bad else ""
        return "nothing fails that counts" + ("" if self.exit_level is Level.CONTRACT else f" at level {self.exit_level}")

    @property
    def level(self) -> str:
        """How many cases were used: quick or full."""
        return QUICK if self.details.get("level") == QUICK else FULL

    @property
    def counts(self) -> dict[str, int]:
        """Requirements for each verdict."""
        return {v.value: n for v in Verdict if (n := sum(r.verdict is v for r in self.requirements))}

    @property
    def counts_text(self) -> str:
        """The same for people, with what the baseline knows apart: one count for the screen, Markdown and the badge."""
        found = Counter(r.verdict for r in self.requirements if not self.is_known(r))
        known = len(self.requirements) - found.total()
        return ", ".join(
            [*(f"{found[v]} {v}" for v in Verdict if v in found), *[f"{known} known failure{'s' * (known > 1)}"] * bool(known)]
        )

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, by the schema in `schema/result.schema.json`."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "suite": {"version": _own_version(), "vectors": self.vectors},
            "target": self.target,
            "environment": self.environment,
            "seconds": round(self.seconds, 3),
            "exit_code": self.exit_code,
            "counts": self.counts,
            "formats": [_format_dict(f) for f in self.formats],
            "requirements": [_requirement_dict(r) for r in self.requirements],
            **({"exit_level": self.exit_level.value} if self.exit_level is not Level.CONTRACT else {}),
            **(
                {"baseline": {k: v for k, v in asdict(self.baseline).items() if v or k not in ("level", "unmatched")}}
                if self.baseline is not None
                else {}
            ),
            **({"waivers": self.waivers} if self.waivers else {}),
            **({"details": self.details} if self.details else {}),
        }

    def to_json(self) -> str:
        """Canonical text apart from time and environment."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=True) + "\n"


def explain_level(what: str, level: str, run: str) -> str:
    """What follows from a file of another level than the run's, for people; empty where they are one level, or the file names none."""
    return (
        f"{what} was written at the {level} level; this run is {run}: counts differ, so failures are matched by id"
        if level not in ("", run)
        else ""
    )


#: Fields of a format that came after the first results.
_LATER = ("open_choices", "open_cases", "declined", "causes", "impact", "partial")


def _format_dict(result: FormatResult) -> dict[str, Any]:
    """What came later is left out where it says nothing."""
    document = asdict(result)
    return {k: v for k, v in document.items() if v or k not in _LATER}


def _requirement_dict(requirement: Requirement) -> dict[str, Any]:
    """What products alone have is left out of all others."""
    document = asdict(requirement)
    first = document["first"]
    if first is not None and first["product"] is None:
        del first["product"]
    return document


def _own_version() -> str:
    import mxspec

    return mxspec.__version__


def load_result_schema() -> dict[str, Any]:
    """The JSON Schema of a result."""
    schema: dict[str, Any] = json.loads(files("mxspec_conformance").joinpath("schema/result.schema.json").read_text("utf-8"))
    return schema


@lru_cache(maxsize=1)
def _check_result() -> Check:
    return compile_schema(load_result_schema())


def read_report(document: Mapping[str, Any]) -> Report:
    """The report that a result's JSON holds.

    Raises ValueError, naming the place, for what is no result.
    """
    violation = first_violation(_check_result(), document)
    if violation is not None:
        raise ValueError(f"this is no result of {SCHEMA}: {str(violation)[:200]}")
    return Report(
        target=document["target"],
        vectors=document["suite"]["vectors"],
        formats=[FormatResult(**{**f, "impact": [Impact(**i) for i in f.get("impact", [])]}) for f in document["formats"]],
        requirements=[
            Requirement(**{**r, "verdict": Verdict(r["verdict"]), "first": None if r["first"] is None else Failure(**r["first"])})
            for r in document["requirements"]
        ],
        environment=document["environment"],
        seconds=document["seconds"],
        kind=document["kind"],
        waivers=document.get("waivers", []),
        details=document.get("details", {}),
        exit_level=Level(document.get("exit_level", Level.CONTRACT.value)),
        baseline=None if document.get("baseline") is None else Baseline(**document["baseline"]),
    )
