"""Results as JUnit XML: a suite for each target, a test for each requirement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from mxspec_conformance.render.clean import clean
from mxspec_conformance.render.terminal import failure_text
from mxspec_conformance.results.report import STALE_STATES, Requirement, Verdict, read_report

_FAILURES = (Verdict.FAIL, Verdict.DEVIATION, Verdict.STALE_WAIVER)
_ERRORS = (Verdict.ERROR, Verdict.TIMEOUT)
_SKIPPED = (Verdict.UNSUPPORTED, Verdict.WAIVED, Verdict.OPEN)


def render_junit(documents: Sequence[Mapping[str, Any]]) -> bytes:
    """One XML document; requirements that are unsupported or waived are skipped tests with the reason."""
    root = Xml.Element("testsuites", name="mxspec")
    for document in documents:
        _add_suite(root, document)
    Xml.indent(root, " ")
    text: str = Xml.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _add_suite(root: Xml.Element, document: Mapping[str, Any]) -> None:
    document = clean(dict(document))
    report = read_report(document)
    stale = [w for w in report.waivers if w["state"] in STALE_STATES]
    attributes = {
        "name": f"mxspec {report.target['name']} {report.target['version']}",
        "tests": str(len(report.requirements) + len(stale)),
        "failures": str(sum(r.verdict in _FAILURES for r in report.requirements) + len(stale)),
        "errors": str(sum(r.verdict in _ERRORS for r in report.requirements)),
        "skipped": str(sum(r.verdict in _SKIPPED for r in report.requirements)),
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
    for requirement in report.requirements:
        _add_case(suite, requirement)
    for waiver in stale:
        case = Xml.SubElement(suite, "testcase", classname="mxspec.waivers", name=waiver["id"], time="0")
        Xml.SubElement(case, "failure", message=f"stale waiver: {waiver['state']}", type="stale waiver")


def _add_case(suite: Xml.Element, r: Requirement) -> None:
    operation, fmt, topic = r.operation, r.format, r.topic
    case = Xml.SubElement(suite, "testcase", classname=f"mxspec.{operation}.{fmt}", name=topic, time="0")
    message = f"{r.failing} of {r.cases} cases" + (f": {r.note}" if r.note else "")
    if r.verdict in _SKIPPED:
        Xml.SubElement(case, "skipped", message=f"{r.verdict}: {r.note}")
    elif r.verdict in (*_FAILURES, *_ERRORS):
        kind = "failure" if r.verdict in _FAILURES else "error"
        element = Xml.SubElement(case, kind, message=message, type=r.verdict.value)
        element.text = failure_text(r)
