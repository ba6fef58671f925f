"""What is wrong, in a sentence for each operation: what a maintainer reads first. Causes come as types from the judge, never from words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mxspec
from mxspec.expressions import put_in_words
from mxspec_conformance.judge.behaviour import TraitName
from mxspec_conformance.judge.explanation import LEAF_NAMES, ROUNDING_TEXT
from mxspec_conformance.results.conclusion import NO_ANSWER, list_unmet
from mxspec_conformance.results.report import Failure, FormatResult, Report, Requirement, Verdict

#: Formats of one sentence that are named.
_MOST_NAMED = 3


def list_headlines(report: Report) -> list[str]:
    """Sentences on what counts as wrong, each with the operation and formats that it is of; none where nothing counts."""
    return [f"{operation} {formats}: {sentence}" for operation, formats, sentence in find_headlines(report)]


def find_headlines(report: Report) -> list[tuple[str, str, str]]:
    """Operation, formats and sentence of what counts as wrong."""
    found: dict[tuple[str, str], list[Requirement]] = {}
    for r in list_unmet(report):
        if report.counts_as_wrong(r):
            # Cases of `scale` ask for the scales of `quantize`.
            found.setdefault(("quantize" if r.operation == "scale" else r.operation, r.format), []).append(r)
    results = {f.format: f for f in report.formats}
    alike: dict[tuple[str, str], list[str]] = {}
    for (operation, name), group in found.items():
        for sentence in _list_sentences(group, results.get(name) if operation == "quantize" else None):
            if operation == "dequantize" and group[0].explained_by and name in results:
                sentence += _compare_products(group[0], results[name].judged_against)
            alike.setdefault((operation, sentence), []).append(name)
    return [(operation, _name(formats), sentence) for (operation, sentence), formats in alike.items()]


def _compare_products(r: Requirement, judged: str) -> str:
    """Which operations a profile that explains values decodes by, and those of the judged one, in the first form in which they differ."""
    profiles = [p for name in (r.explained_by, judged) for p in mxspec.list_profiles() if p.id == name and r.format in p.formats]
    for level in ("two_level", "one_level") if r.topic == "tensor-scale" else ("one_level", "two_level"):
        steps = [getattr(p, level) for p in profiles if len(profiles) == 2] or [None, None]  # a format that is not registered here has none
        theirs, ours = ("" if one is None else put_in_words(one.dequantize, LEAF_NAMES) for one in steps)
        if theirs and ours and theirs != ours:
            return f" ({theirs}); {judged}: {ours}"
    return ""


def _name(formats: Sequence[str]) -> str:
    more = len(formats) - _MOST_NAMED
    return ", ".join(formats[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _list_sentences(group: Sequence[Requirement], result: FormatResult | None) -> Iterator[str]:
    """What is wrong with one operation in one format."""
    if result is not None and NO_ANSWER in result.causes:
        yield result.deviations[0]
        return
    lost = [r for r in group if r.verdict in (Verdict.ERROR, Verdict.TIMEOUT)]
    if lost:
        yield f"{lost[0].verdict} in {lost[0].note}"
    wrong = [r for r in group if r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    if wrong:
        yield _describe(wrong[0], result)
    if stale := [r for r in group if r.verdict is Verdict.STALE_WAIVER]:
        yield f"{stale[0].topic} passes, although a list of known failures names it; take it out of the file"


def _describe(first: Requirement, result: FormatResult | None) -> str:
    """The cause of wrong answers; the rule that they break where none is known."""
    call = "" if first.first is None else first.first.given.get("call", "")
    where = f"; smallest case: {call}" if call else ""
    if result is not None and result.deviations:
        text = result.deviations[0]
        if text == result.behaviour.get(TraitName.ELEMENTS.value):
            judged = [p.one_level or p.two_level for p in mxspec.list_profiles() if p.id == result.judged_against]
            if judged and judged[0] is not None and text in ROUNDING_TEXT.values():  # of all elements
                text += f"; {result.judged_against} rounds {ROUNDING_TEXT[judged[0].element.rounding]}"
            text = f"elements are rounded {text}"
        return text + where
    if first.explained_by and result is not None:
        return f"it has the bits of {first.explained_by}, and not those of {result.judged_against}{where}"
    if first.note:
        return first.note + where
    return f"in {first.failing} of {first.cases} cases this does not hold: {first.text}{where}"


def pick_lanes(failure: Failure, most: int) -> list[str]:
    """Labels of the lanes that are shown, in order: first those that differ, then the largest, then those that are not zero."""
    given: dict[str, str] = failure.given["x"]
    wanted, returned = failure.expected.get("codes", {}), failure.returned.get("codes", {})
    magnitude = {label: int(text.partition(" = ")[0], 16) & 0x7FFFFFFF for label, text in given.items()}
    largest = max(magnitude.values(), default=0)
    ranked = sorted(given, key=lambda n: (wanted.get(n) == returned.get(n), magnitude[n] != largest, not magnitude[n]))
    chosen = set(ranked[:most])
    return [label for label in given if label in chosen]
