"""What a report shows, computed from the JSON of a result: matrix, formats, deviations, provenance."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxspec_conformance.render.bits import Word, draw_code, draw_float, formats_of
from mxspec_conformance.render.clean import clean
from mxspec_conformance.render.headline import pick_lanes
from mxspec_conformance.render.impact import describe_impact
from mxspec_conformance.results.conclusion import Conclusion, conclude, is_provisional, list_unmet
from mxspec_conformance.results.report import FormatResult, Report, Requirement, Verdict, read_report
from mxspec_vectors.topics import TOPICS

#: What stands for the verdict of a failure that the baseline knows.
KNOWN = "known"
#: Verdict -> its mark, which alone has to tell verdicts apart; colour only helps.
MARKS: dict[str, str] = {
    "pass": "✓",
    "deviation": "≠",
    "fail": "✗",
    "open": "○",
    "error": "!",
    "timeout": "⏱",
    "waived": "w",
    KNOWN: "k",
    "stale waiver": "w!",
    "unsupported": "·",
}

#: Lanes of a block that are drawn; the rest is counted.
MAX_LANES = 16
#: Lanes that are named where there is no answer.
_FEW_LANES = 4


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a failing block; scale lanes have no input."""

    label: str
    given: Word | None
    expected: Word | None
    returned: Word | None

    @property
    def differs(self) -> bool:
        """Whether expected and returned differ."""
        return self.returned is not None and self.returned.differs


@dataclass(frozen=True, slots=True)
class Deviation:
    """One requirement that is not passed, with what is drawn of it."""

    requirement: Requirement
    anchor: str
    mark: str
    lanes: tuple[Lane, ...]
    more_lanes: int
    #: Further facts of the case: tensor scale, other lanes.
    facts: tuple[tuple[str, str], ...]
    #: The key of `mark`.
    stand: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix; requirement None: not in this run."""

    requirement: Requirement | None
    mark: str
    anchor: str
    stand: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Topics by formats, of one operation."""

    operation: str
    formats: tuple[str, ...]
    rows: tuple[tuple[str, str, str, tuple[Cell, ...]], ...]
    #: Whether anything of it was judged.
    offered: bool


@dataclass(frozen=True, slots=True)
class FormatView:
    """One format in a few words and bars."""

    result: FormatResult
    conclusion: Conclusion
    good: bool
    #: (profile, failing cases, share of the worst in percent).
    distances: tuple[tuple[str, int, float], ...]
    others: tuple[str, ...]
    #: What differences mean on ordinary data, in sentences.
    impact: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResultView:
    """One result."""

    document: Mapping[str, Any]
    report: Report
    title: str
    headline: str
    anchor: str
    counts: tuple[tuple[str, int], ...]
    formats: tuple[FormatView, ...]
    matrices: tuple[Matrix, ...]
    deviations: tuple[Deviation, ...]
    provenance: tuple[tuple[str, str], ...]


HEADLINES = {0: "All supported requirements pass", 1: "Not all requirements pass", 2: "Nothing could be judged"}


def view_result(document: Mapping[str, Any], number: int = 0) -> ResultView:
    """Everything that is shown of a result; number: its place among several, for anchors.

    Raises ValueError for what is no result.
    """
    document = clean(dict(document))
    return view_report(document, read_report(document), number)


def view_report(document: Mapping[str, Any], report: Report, number: int = 0, *, lanes: int = MAX_LANES) -> ResultView:
    """Everything that is shown of a result that was read, and its texts cleaned, before; lanes: of a failing block, at most."""
    prefix = f"r{number}-" if number else ""
    target = report.target
    headline = HEADLINES[document["exit_code"]]
    requested = f" of {report.details['only']}" if "only" in report.details else ""
    if document["exit_code"] == 0 and requested:
        headline = f"All requested requirements pass: {report.details['only']}"
    if document["exit_code"] == 0 and report.excuse:
        headline = report.excuse.capitalize() + requested
    elif document["exit_code"] == 0 and (waived := document["counts"].get("waived")):
        headline += f", or are waived ({waived})"
    if fewer := report.details.get("fewer_cases"):
        headline += f"; of {len(fewer)} requirements a results file stores fewer cases than a live target gets"
    known = frozenset(r.id for r in report.requirements if report.is_known(r))
    count = Counter(_find_stand(r, known) for r in report.requirements)
    return ResultView(
        document=document,
        report=report,
        title=f"{target['name']} {target['version']}",
        headline=headline,
        anchor=f"{prefix}result",
        counts=tuple((v, count[v]) for v in MARKS if count[v]),
        formats=tuple(_view_format(f, report.requirements) for f in report.formats),
        matrices=_view_matrices(report.requirements, prefix, known),
        deviations=tuple(view_deviation(r, prefix, lanes, known) for r in list_unmet(report)),
        provenance=tuple(_view_provenance(document)),
    )


def _view_format(result: FormatResult, requirements: Sequence[Requirement]) -> FormatView:
    worst = max([1, *result.distances.values()])
    named = {r.explained_by for r in requirements if r.format == result.format}

    def rank(profile: str) -> tuple[bool, bool]:
        """What deviations are explained by comes first, what no run has confirmed last."""
        return profile not in named, is_provisional(profile)

    conclusion = conclude(result, list(requirements))
    distances = sorted(result.distances.items(), key=lambda item: item[1])
    return FormatView(
        result=result,
        impact=tuple(describe_impact(result)),
        conclusion=conclusion,
        good=conclusion.failing == 0,
        distances=tuple((name, count, 100 * count / worst) for name, count in distances),
        others=tuple(sorted((i for i in result.identical_to if i != result.judged_against), key=rank)),
    )


def _anchor(prefix: str, requirement: str) -> str:
    return prefix + requirement.replace("/", "-")


def _find_stand(requirement: Requirement, known: Collection[str]) -> str:
    return KNOWN if requirement.id in known else requirement.verdict.value


def _view_matrices(requirements: Sequence[Requirement], prefix: str, known: Collection[str]) -> tuple[Matrix, ...]:
    order = {topic: i for i, topic in enumerate(TOPICS)}
    table: dict[str, dict[tuple[str, str], Requirement]] = {}
    for r in requirements:
        table.setdefault(r.operation, {})[r.topic, r.format] = r
    matrices = []
    for operation, cells in table.items():
        formats = tuple(dict.fromkeys(fmt for _, fmt in cells))
        topics = sorted({topic for topic, _ in cells}, key=lambda t: order.get(t, len(order)))
        rows = []
        for topic in topics:
            members = [cells.get((topic, fmt)) for fmt in formats]
            any_of = next(m for m in members if m is not None)
            stands = ["" if m is None else _find_stand(m, known) for m in members]
            drawn = tuple(
                Cell(None, "", "") if m is None else Cell(m, MARKS[stand], _anchor(prefix, m.id), stand)
                for m, stand in zip(members, stands, strict=True)
            )
            rows.append((topic, any_of.level, any_of.text, drawn))
        offered = any(r.verdict is not Verdict.UNSUPPORTED for r in cells.values())
        matrices.append(Matrix(operation, formats, tuple(rows), offered))
    return tuple(matrices)


def view_deviation(requirement: Requirement, prefix: str, most: int = MAX_LANES, known: Collection[str] = ()) -> Deviation:
    """What is drawn of a requirement that is not passed; known: ids of failures that the baseline knows."""
    lanes: list[Lane] = []
    facts: list[tuple[str, str]] = []
    failure = requirement.first
    more = 0
    if failure is not None:
        given = failure.given.get("x")
        if isinstance(given, dict) and "answer" in failure.returned:  # of codes nothing is known
            facts.append(("input", ", ".join(f"{label} {given[label]}" for label in pick_lanes(failure, _FEW_LANES))))
        elif isinstance(given, dict):
            more = max(0, len(given) - most)
            lanes = _view_lanes(requirement, {label: given[label] for label in pick_lanes(failure, most)})
        for key, value in failure.given.items():
            if key != "x":
                facts.append((key, _plain(value)))
        if not lanes:
            facts += [(f"expected {k}", _plain(v)) for k, v in failure.expected.items()]
            facts += [(f"returned {k}", _plain(v)) for k, v in failure.returned.items()]
    stand = _find_stand(requirement, known)
    return Deviation(requirement, _anchor(prefix, requirement.id), MARKS[stand], tuple(lanes), more, tuple(facts), stand)


def _view_lanes(requirement: Requirement, given: Mapping[str, str]) -> list[Lane]:
    failure = requirement.first
    assert failure is not None
    element, scale = formats_of(requirement.format)
    lanes = []
    if "scale" in failure.expected and scale is not None:
        want, got = int(failure.expected["scale"], 16), int(failure.returned["scale"], 16)
        lanes.append(Lane("scale", None, draw_code(want, scale), draw_code(got, scale, want)))
    wanted, gotten = failure.expected.get("codes", {}), failure.returned.get("codes", {})
    for label, text in given.items():
        bits = text.partition(" = ")[0]
        codes = [None if c is None else int(c, 16) for c in (wanted.get(label), gotten.get(label))]
        lanes.append(
            Lane(
                label,
                draw_float(int(bits, 16)),
                None if codes[0] is None or element is None else draw_code(codes[0], element),
                None if codes[1] is None or element is None else draw_code(codes[1], element, codes[0]),
            )
        )
    return lanes


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _view_provenance(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Suite, target, surroundings, machine: what a claim rests on."""
    environment = dict(document["environment"])
    capabilities = document["target"]["capabilities"]
    rows = [
        ("suite", f"mxspec {document['suite']['version']}"),
        ("vectors", document["suite"]["vectors"]),
        ("target", f"{document['target']['name']} {document['target']['version']}"),
        ("transport", document["target"]["transport"]),
    ]
    libraries = environment.pop("libraries", {})
    if libraries:
        rows.append(("libraries", ", ".join(f"{k} {v}" for k, v in libraries.items())))
    git = environment.pop("git", None)
    if git:
        rows.append(("git", git["commit"] + (", with changes" if git["changed"] else "")))
    rows += [
        ("functions", "; ".join(f + (f" ({', '.join(o)})" if o else "") for f, o in capabilities.get("functions", {}).items())),
        ("dtypes", ", ".join(capabilities.get("dtypes", []))),
        ("layout", ", ".join(capabilities.get("layout", []))),
    ]  # fmt: skip
    if document.get("seconds"):
        rows.append(("judged in", f"{document['seconds']:.1f} s"))
    order = ("time", "device", "processor", "cores", "machine", "platform", "python", "numpy", "ml_dtypes")
    rows += [(key, str(environment.pop(key))) for key in order if key in environment]
    rows += [(key, _plain(value)) for key, value in environment.items() if key != "mxspec"]
    return rows
