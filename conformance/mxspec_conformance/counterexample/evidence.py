"""Failures of single numbers and of calls without an answer, ready to be shown: what was given, both answers, the bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxspec.elements import decode_table
from mxspec.formats import ScalarFormat
from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.texts import clean_text
from mxspec_vectors.topics import TOPICS

#: Lines of a traceback that are shown.
MAX_LINES = 8


def show_code(code: int, fmt: ScalarFormat) -> str:
    """A code and what it means."""
    if code >= fmt.code_count:
        return f"{code:02x}, more than {fmt.bits} bits"
    return f"{code:02x} = {float(decode_table(fmt)[code])!r}"


def show_conversion(
    case: str, number: np.float32, expected: int, returned: int, fmt: ScalarFormat, *, how: dict[str, str], snippet: str
) -> Failure:
    """A number that was converted to another code than the rule gives."""
    steps, x = [], float(number)  # which makes a NaN a quiet one
    if np.isfinite(x) and fmt.code_count > expected:
        values = np.sort(np.unique(np.abs(decode_table(fmt).astype(np.float64))))
        values = values[np.isfinite(values)]
        above = int(np.searchsorted(values, abs(x)))
        if 0 < above < len(values) and values[above] != abs(x):
            low, high = float(values[above - 1]), float(values[above])
            middle = (low + high) / 2
            place = "on" if abs(x) == middle else "below" if abs(x) < middle else "above"
            steps.append(f"|x| lies between {low!r} and {high!r}, {place} their midpoint {middle!r}")
    return Failure(
        case=case,
        given={"number": describe_bits(number), **how},
        expected={"code": show_code(expected, fmt)},
        returned={"code": show_code(returned, fmt)},
        steps=steps,
        snippet=snippet,
    )


def show_value(case: str, given: dict[str, Any], expected: float, returned: float, *, steps: list[str], snippet: str = "") -> Failure:
    """A value that is another one."""
    return Failure(
        case=case, given=given, expected={"value": describe_bits(expected)}, returned={"value": describe_bits(returned)},
        steps=steps, snippet=snippet,
    )  # fmt: skip


def show_no_answer(case: str, no_answer: NoAnswer, given: dict[str, Any]) -> Failure:
    """A call that gave no answer: its input, and the end of the traceback or of what the process said."""
    if no_answer.topic:
        wanted, got = {"answer": TOPICS[no_answer.topic]}, {"answer": clean_text(no_answer.message)}
        return Failure(case=case, given=given, expected=wanted, returned=got, steps=[])
    lines = [line.rstrip() for line in clean_text(no_answer.detail).splitlines() if line.strip()]
    steps = [f"alone in its call it gave no answer ({no_answer.kind.value})" if not no_answer.among else _among(no_answer)]
    return Failure(
        case=case, given=given | ({"call": no_answer.call} if no_answer.call else {}), expected={"answer": "codes, scales or values, as the interface says"},
        returned={"answer": f"{no_answer.kind.value}: {clean_text(no_answer.message)}"},
        steps=steps + lines[-MAX_LINES:],
    )  # fmt: skip


def _among(no_answer: NoAnswer) -> str:
    return f"no answer ({no_answer.kind.value}) to a call of {no_answer.among} cases, of which this is the first"


def describe_number(x: np.float32, element: str, how: dict[str, str]) -> dict[str, Any]:
    """What a conversion was given: a float32 with its bits, the scalar format, and how it is rounded."""
    return {"number": describe_bits(x), "element": element, **how}
