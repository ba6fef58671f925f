"""What is wrong, in a sentence for each operation: what a maintainer reads first. Causes come as types from the judge, never from words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mxspec
from mxspec.expressions import put_in_words
from mxspec.formats import BLOCKS
from mxspec.profiles.schema import QuantizationSteps
from mxspec_conformance.judge.behaviour import TraitName
from mxspec_conformance.judge.explanation import LEAF_NAMES, ROUNDING_TEXT
from mxspec_conformance.judge.wanted import OF_CALLS
from mxspec_conformance.results.conclusion import NO_ANSWER, SHOWN_BY, list_unmet
from mxspec_conformance.results.report import Failure, FormatResult, Report, Requirement, Verdict

#: Characters of a step that is shown.
_LONGEST_STEP = 160
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
        product = results.get(name) if operation in ("matmul", "grouped_matmul") else None
        for sentence in _list_sentences(group, results.get(name) if operation == "quantize" else None, product):
            by = next((r for r in group if r.explained_by), None)
            if operation in ("quantize", "dequantize") and by is not None and name in results and by.explained_by in sentence:
                sentence += _compare_steps(by, results[name].judged_against)
            alike.setdefault((operation, sentence), []).append(name)
    return [(operation, _name(formats), sentence) for (operation, sentence), formats in alike.items()]


def _compare_steps(r: Requirement, judged: str) -> str:
    """The operations of the profile that explains a requirement, and those of the judged one, in the first form in which they differ;
    "" where they differ in no expression, or in a long one."""
    if r.format not in BLOCKS:  # a result alone registers nothing
        return ""
    known = {p.id: p for p in mxspec.list_profiles(r.format)}
    if not {r.explained_by, judged} <= known.keys():  # of another version's result
        return ""
    profiles = [known[name] for name in (r.explained_by, judged)]
    for level in ("two_level", "one_level") if r.topic == "tensor-scale" else ("one_level", "two_level"):
        steps = [getattr(p, level) for p in profiles]
        theirs, ours = ("" if one is None else _put_step(one, r) for one in steps)
        if theirs and ours and theirs != ours and len(theirs) < _LONGEST_STEP:
            return f" (it computes {theirs}; {judged}: {ours})"
    return ""


def _put_step(steps: QuantizationSteps, r: Requirement) -> str:
    """The step that decides a requirement, in words."""
    if r.operation == "dequantize":
        return put_in_words(steps.dequantize, LEAF_NAMES)
    if r.operation == "scale" or r.topic.startswith("scale-"):
        return f"the scale as {steps.scale.step.value} of {put_in_words(steps.scale.value, LEAF_NAMES)}"
    return f"scaled x as {put_in_words(steps.scaled, LEAF_NAMES)}"


def describe_requirement(report: Report, r: Requirement) -> str:
    """Why one requirement has its verdict: the sentence on what is wrong, then verdict and cases, unless the sentence counts them."""
    result = next((f for f in report.formats if f.format == r.format), None) if r.operation in ("quantize", "scale") else None
    if result is not None and r.topic in OF_CALLS and not any(c == NO_ANSWER or r.topic in SHOWN_BY.get(c, ()) for c in result.causes[:1]):
        result = None  # what no profile decides fails for a reason of its own
    sentence = next(_list_sentences([r], result), r.note or r.text)
    if r.verdict in (Verdict.FAIL, Verdict.DEVIATION) and r.note not in sentence:
        sentence += f"; {r.note}"
    cases = f"{r.failing} of {r.cases} cases"
    return sentence if cases in sentence else f"{sentence} ({r.verdict}: {cases})"


def _name(formats: Sequence[str]) -> str:
    more = len(formats) - _MOST_NAMED
    return ", ".join(formats[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _list_sentences(group: Sequence[Requirement], result: FormatResult | None, product: FormatResult | None = None) -> Iterator[str]:
    """What is wrong with one operation in one format, or with a product."""
    if result is not None and NO_ANSWER in result.causes:
        yield result.deviations[0]
        return
    lost = [r for r in group if r.verdict in (Verdict.ERROR, Verdict.TIMEOUT)]
    if lost:
        yield f"{lost[0].verdict} in {lost[0].note}"
    wrong = [r for r in group if r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    if wrong:
        yield _describe(wrong[0], result, product)
    if stale := [r for r in group if r.verdict is Verdict.STALE_WAIVER]:
        more = f"; {len(stale) - 1} more of its kind" if len(stale) > 1 else ""
        yield f"{stale[0].topic} {stale[0].note}{more}"


def _describe(first: Requirement, result: FormatResult | None, product: FormatResult | None) -> str:
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
    if product is not None and product.deviations:
        return product.deviations[0] + where
    return f"{first.failing} of {first.cases} cases break the rule: {first.text}{where}"


def pick_lanes(failure: Failure, most: int) -> list[str]:
    """Labels of the lanes that are shown, in order: first those that differ, then the largest, then those that are not zero."""
    given: dict[str, str] = failure.given["x"]
    wanted, returned = failure.expected.get("codes", {}), failure.returned.get("codes", {})
    magnitude = {label: int(text.partition(" = ")[0], 16) & 0x7FFFFFFF for label, text in given.items()}
    largest = max(magnitude.values(), default=0)
    ranked = sorted(given, key=lambda n: (wanted.get(n) == returned.get(n), magnitude[n] != largest, not magnitude[n]))
    chosen = set(ranked[:most])
    return [label for label in given if label in chosen]
