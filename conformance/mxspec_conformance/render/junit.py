"""Results as JUnit XML: a suite for each target, a test for each requirement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from mxspec_conformance.render.clean import clean
from mxspec_conformance.render.headline import describe_requirement
from mxspec_conformance.render.terminal import failure_text
from mxspec_conformance.results.report import STALE_STATES, Report, Requirement, Verdict, read_report
from mxspec_conformance.targets.texts import clean_text

_ERRORS = (Verdict.ERROR, Verdict.TIMEOUT)


def render_junit(documents: Sequence[Mapping[str, Any]], lost: Sequence[str] = ()) -> bytes:
    """One XML document. What sets the exit code is a failure or an error; what else is no pass is a skipped test with the reason.

    lost: what could not be judged, which is a suite of errors.
    """
    root = Xml.Element("testsuites", name="mxspec")
    for document in documents:
        _add_suite(root, document)
    if lost:
        count = str(len(lost))
        suite = Xml.SubElement(root, "testsuite", name="mxspec not judged", tests=count, failures="0", errors=count, skipped="0")
        for number, reason in enumerate(lost, 1):
            case = Xml.SubElement(suite, "testcase", classname="mxspec.not-judged", name=str(number), time="0")
            Xml.SubElement(case, "error", message=clean_text(reason), type="not judged")
    Xml.indent(root, " ")
    text: str = Xml.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _add_suite(root: Xml.Element, document: Mapping[str, Any]) -> None:
    document = clean(dict(document))
    report = read_report(document)
    stale = [w for w in report.waivers if w["state"] in STALE_STATES]
    outcomes = [_find_outcome(report, r) for r in report.requirements]
    attributes = {
        "name": f"mxspec {report.target['name']} {report.target['version']}",
        "tests": str(len(report.requirements) + len(stale)),
        "failures": str(outcomes.count("failure") + len(stale)),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("skipped")),
        "time": f"{report.seconds:.3f}",
    }
    if "time" in report.environment:
        attributes["timestamp"] = str(report.environment["time"])
    suite = Xml.SubElement(root, "testsuite", attributes)
    properties = Xml.SubElement(suite, "properties")
    facts = {"suite": document["suite"]["version"], "vectors": report.vectors, "transport": report.target["transport"]}
    if fewer := report.details.get("fewer_cases"):
        facts["fewer cases"] = ", ".join(fewer)
    for name, value in {**facts, **report.environment}.items():
        Xml.SubElement(properties, "property", name=name, value=str(value))
    for requirement, outcome in zip(report.requirements, outcomes, strict=True):
        _add_case(suite, report, requirement, outcome)
    for waiver in stale:
        case = Xml.SubElement(suite, "testcase", classname="mxspec.waivers", name=waiver["id"], time="0")
        Xml.SubElement(case, "failure", message=f"stale waiver: {waiver['state']}", type="stale waiver")


def _find_outcome(report: Report, r: Requirement) -> str:
    """The element of a test's case; "" where it passes."""
    if r.verdict is Verdict.PASS:
        return ""
    if not report.counts_as_wrong(r):
        return "skipped"
    return "error" if r.verdict in _ERRORS else "failure"


def _add_case(suite: Xml.Element, report: Report, r: Requirement, outcome: str) -> None:
    operation, fmt, topic = r.operation, r.format, r.topic
    case = Xml.SubElement(suite, "testcase", classname=f"mxspec.{operation}.{fmt}", name=topic, time="0")
    if outcome == "skipped":
        known = report.is_known(r)
        message = f"known to the baseline: {describe_requirement(report, r)}" if known else f"{r.verdict}: {r.note or r.text}"
        Xml.SubElement(case, "skipped", message=message)
    elif outcome:
        element = Xml.SubElement(case, outcome, message=describe_requirement(report, r), type=r.verdict.value)
        element.text = failure_text(r)
