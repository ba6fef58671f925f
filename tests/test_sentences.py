"""The page that leads from OCP's sentences to cases and implementations: current, complete, and only as strict as OCP."""

from __future__ import annotations

from mxspec_conformance.results.report import Requirement, Verdict
from mxspec_vectors.topics import Level, topic_level

from tests.pages.sentences import MX, PAGE, SENTENCES, Asked, Sentence, count_cases, describe_cases, differ, render


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == render(), "run: python -m tests.pages.sentences --page reports/peers/ocp.md"


def test_every_sentence_with_requirements_has_cases() -> None:
    counts = count_cases()
    for sentence in SENTENCES:
        for asked in sentence.asked:
            for topic in asked.topics:
                if topic not in ("mixture", "position", "low-end"):  # single numbers have none; a requirement without a topic of cases
                    assert any(asked.covers(o, f, t) and t == topic for o, f, t in counts), (sentence.words, asked.operation, topic)
        assert sentence.asked or sentence.note
        assert " 0 of" not in f" {describe_cases(sentence)}"


def test_no_sentence_is_stricter_than_its_requirements() -> None:
    for sentence in SENTENCES:
        levels = {topic_level(t, a.operation, f) for a in sentence.asked if a.operation != "matmul" for f in a.formats for t in a.topics}
        if sentence.level is Level.OPEN and levels:
            assert levels <= {Level.OPEN, Level.MUST}, sentence.words
        elif sentence.level is Level.MUST:
            assert Level.OPEN not in levels, sentence.words


def test_every_topic_that_ocp_requires_belongs_to_a_sentence() -> None:
    for operation, fmt, topic in count_cases():
        if fmt in MX and operation in ("quantize", "dequantize") and topic_level(topic, operation, fmt) in (Level.MUST, Level.SHOULD):
            assert any(a.covers(operation, fmt, topic) for s in SENTENCES for a in s.asked), (operation, fmt, topic)


def test_what_passes_and_what_is_open_differs_not() -> None:
    def requirement(verdict: Verdict, failing: int) -> Requirement:
        return Requirement(id="quantize/mxfp4/nan", level=Level.OPEN, text="", verdict=verdict, cases=2, failing=failing)

    assert differ([requirement(Verdict.PASS, 0), requirement(Verdict.OPEN, 1)]) == ""
    assert differ([requirement(Verdict.DEVIATION, 1)]) == "mxfp4"
    assert describe_cases(Sentence("0", Level.OPEN, "", (Asked("quantize", ("mxfp4",), ("no-topic",)),))).startswith("0 of")
