"""A result that is to join the atlas: what it must say, and a random tenth of its cases run again."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxspec.formats import BLOCKS
from mxspec_conformance.atlas.entries import Entry, is_current, make_entry
from mxspec_conformance.judge.check import check
from mxspec_conformance.observations.selection import Selection
from mxspec_conformance.results.report import Report, Verdict
from mxspec_vectors.cases import load_decode_cases, load_encode_cases, load_quantize_cases, load_scale_cases
from mxspec_vectors.files import list_result_digests

#: One case of so many is run again.
SHARE = 10
#: What every result says of where it was made.
_SURROUNDINGS = ("time", "python", "platform", "machine", "mxspec", "numpy", "ml_dtypes")
_LOADERS: tuple[tuple[str, Callable[[str], Sequence[Any]]], ...] = (
    ("quantize", load_quantize_cases), ("scale", load_scale_cases), ("encode", load_encode_cases), ("decode", load_decode_cases),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A requirement to which the target gives another answer now."""

    requirement: str
    stated: Verdict
    found: Verdict
    case: str


def read_submission(document: Mapping[str, Any], source: str) -> Entry:
    """The entry of a result.

    Raises ValueError with everything that it lacks: other vectors, a reduced level, a format that was left out, no version.
    """
    entry = make_entry(document, source=source, current=is_current(document, list_result_digests()))
    lacking = list(_list_lacking(entry))
    if lacking:
        raise ValueError(f"{source} cannot join:\n" + "\n".join(f"- {line}" for line in lacking))
    return entry


def _list_lacking(entry: Entry) -> Iterator[str]:
    report = entry.report
    if report.kind != "check":
        yield f"it is a result of {report.kind}; allowed are those of `mxspec check --json`"
        return
    if not entry.current:
        yield f"it was made by the vectors {report.vectors[:12]}, which are not installed here; run `mxspec check` again"
    if report.details.get("level") == "quick":
        yield "it holds the quick level; run `mxspec check` without --quick"
    if "only" in report.details:
        yield f"it holds the requirements {report.details['only']} alone; run `mxspec check` without --only"
    if entry.version.strip() in ("", "unknown"):
        yield "the target names no version; set VERSION in it"
    for name in _SURROUNDINGS:
        if not report.environment.get(name):
            yield f"its environment does not say {name}; run `mxspec check` again"
    ids = Counter(r.id for r in report.requirements)
    for name in (name for name, count in ids.items() if count > 1):
        yield f"it has {name} {ids[name]} times; run `mxspec check` again"
    for r in report.requirements:
        if r.failing > r.cases or (r.verdict is Verdict.PASS and r.failing):
            yield f"{r.id} says {r.verdict} with {r.failing} of {r.cases} failing, which no run says; run `mxspec check` again"
    judged = {r.format for r in report.requirements}
    for fmt in report.target["capabilities"].get("formats", ()):
        if fmt in BLOCKS and fmt not in judged:
            yield f"{fmt} is offered and was not judged; run `mxspec check` without --format and --only"
    for operation in report.target["capabilities"].get("functions", ()):
        if not any(r.operation == operation for r in report.requirements):
            yield f"{operation} is offered and was not judged; run `mxspec check` without --format and --only"
    for waiver in report.waivers:
        if not str(waiver.get("reason", "")).strip() or str(waiver["reason"]).startswith("TODO"):
            yield f"waiver {waiver['id']} says no reason"


def choose_tenth(document: Mapping[str, Any]) -> Selection:
    """A tenth of the cases of every file: drawn by the result itself, so that its author cannot choose them."""
    seed = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
    chance = random.Random(seed)
    labels: dict[tuple[str, str], frozenset[str]] = {}
    formats = [f for f in document["target"]["capabilities"].get("formats", ()) if f in BLOCKS]
    elements = document["target"]["capabilities"].get("elements", ())
    for operation, load in _LOADERS:
        for fmt in elements if operation in ("encode", "decode") else formats:
            labels[operation, fmt] = frozenset(_draw(load(fmt), chance))
    return Selection(labels)


def _draw(cases: Sequence[Any], chance: random.Random) -> Iterator[str]:
    for case in cases:
        lanes = getattr(case, "x", None) if not hasattr(case, "axis") else None
        if lanes is None or getattr(lanes, "size", 1) == 1:
            if chance.randrange(SHARE) == 0:
                yield case.id
        else:  # single numbers are labelled by lane
            yield from (f"{case.id}[{i}]" for i in range(lanes.size) if chance.randrange(SHARE) == 0)


def ask_again(entry: Entry, target: Any, *, timeout: float = 60.0) -> tuple[Report, list[Disagreement]]:
    """The report of a new run of the tenth, and where it contradicts the result.

    Raises TargetError where the target does not load.
    """
    again = check(target, selection=choose_tenth(entry.document), timeout=timeout, data=())
    stated = {r.id: r for r in entry.report.requirements}
    found = []
    for requirement in again.requirements:
        held = stated.get(requirement.id)
        case = requirement.failing_cases[0] if requirement.failing_cases else ""
        if held is None:
            found.append(Disagreement(requirement.id, Verdict.UNSUPPORTED, requirement.verdict, case))
        elif held.verdict in (Verdict.PASS, Verdict.UNSUPPORTED) and requirement.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED):
            found.append(Disagreement(requirement.id, held.verdict, requirement.verdict, case))
        elif held.failing and held.failing == held.cases and requirement.cases and not requirement.failing:
            found.append(Disagreement(requirement.id, held.verdict, requirement.verdict, ""))
    return again, found
