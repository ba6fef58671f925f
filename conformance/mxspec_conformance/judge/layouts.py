"""Judging `pack`, `unpack`, `swizzle` and `unswizzle`: is every code where the layout puts it, and nothing else there?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxspec.layouts import Layout
from mxspec.layouts.packing import Bytes
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.invariance.layout_calls import judge_layout_calls
from mxspec_conformance.judge.layout_mistakes import name_bytes, name_items
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.judge.wanted import EVERYTHING, Wanted
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected, unsupported
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.interface import LAYOUT_FUNCTIONS
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import LayoutCase, load_layout_file


def judge_layout(session: TargetSession, function: str, layout: Layout, wanted: Wanted = EVERYTHING) -> list[Requirement]:
    """The requirements of one function for one layout; those that are wanted, and what explains them."""
    file = load_layout_file(layout.name)
    scorecard = Scorecard(function, layout.name, wanted)
    asked = scorecard.wants("padding", *(c.topic for c in file.cases))
    cases = [c for c in file.cases if keeps("layout", layout.name, c.id)] if asked else []
    reads = LAYOUT_FUNCTIONS[function][2]
    drawn: dict[str, Failure] = {}
    failures, sized = Counter[FailureKind](), False
    for case in cases:
        # Each by itself: a target that takes matrices alone says so of one case, not of all.
        answer = run_bisected([case], lambda batch: [_call(session, function, layout, case) for case in batch], failures=failures)[0]
        sized |= answer.kind is not FailureKind.BAD_RETURN if isinstance(answer, NoAnswer) else reads or answer.shape == case.data.shape
        if isinstance(answer, NoAnswer):
            # Matrices are what is asked for; several at once may be refused by any exception that refuses.
            refused = case.topic == "batch" and answer.is_refusal
            scorecard.count_no_answer(case.topic, case.id, unsupported(answer.message) if refused else answer)
        elif reads:
            _judge_items(layout, case, answer, scorecard, drawn)
        else:
            _judge_bytes(layout, case, answer, scorecard, drawn, padding=file.padding_is_specified)
    explanation = common_explanation(scorecard.tallies.values(), lambda e: (e.cause is not Cause.LAYOUT,))
    if sized or not cases:  # else calls of other sizes are no better
        judge_layout_calls(session, function, layout, scorecard, reads=reads)
    return [_finish(tally, explanation, drawn) for tally in scorecard.tallies.values()]


def _finish(tally: Tally, explanation: Explanation | None, drawn: dict[str, Failure]) -> Requirement:
    requirement = judge_tally(tally, explanation, lambda t: drawn.get(t.topic) or (t.show() if t.show is not None else None))
    if requirement.note and requirement.verdict is Verdict.FAIL and explanation is not None:
        is_layout = explanation.cause is Cause.LAYOUT
        requirement.note = f"these are the bytes of {explanation.text}" if is_layout else f"as if {explanation.text}"
    return requirement


def _call(session: TargetSession, function: str, layout: Layout, case: LayoutCase) -> Any:
    if LAYOUT_FUNCTIONS[function][2]:
        return session.call(function, _soil(layout, case), layout.name, case.shape)
    # Blocks take codes first.
    return session.call(function, *reversed(case.parts), layout.name)


def _soil(layout: Layout, case: LayoutCase) -> Bytes:
    """The bytes of a case, in which what nobody may look at holds something."""
    return np.asarray(case.data | (0xA5 & ~layout.mask(case.shape)), np.uint8)


def _judge_bytes(
    layout: Layout, case: LayoutCase, returned: Bytes, scorecard: Scorecard, drawn: dict[str, Failure], *, padding: bool
) -> None:
    right = returned.shape == case.data.shape
    placed = right and not ((returned ^ case.data) & case.mask).any()
    names = [] if placed else name_bytes(layout, case.parts, case.data, returned)
    scorecard.count(case.topic, case.id, ok=placed, equals=names)
    if not placed and case.topic not in drawn:
        drawn[case.topic] = _draw_bytes(layout, case, returned, case.mask, names)
    outside = ~case.mask
    if padding and right and outside.any():
        clean = not ((returned ^ case.data) & outside).any()
        scorecard.count("padding", case.id, ok=clean)
        if not clean and "padding" not in drawn:
            drawn["padding"] = _draw_bytes(layout, case, returned, outside, [])


def _judge_items(layout: Layout, case: LayoutCase, returned: tuple[Bytes, ...], scorecard: Scorecard, drawn: dict[str, Failure]) -> None:
    placed = all((a == b).all() for a, b in zip(returned, case.parts, strict=True))
    names = [] if placed else name_items(layout, _soil(layout, case), case.shape, returned)
    scorecard.count(case.topic, case.id, ok=placed, equals=names)
    if not placed and case.topic not in drawn:
        drawn[case.topic] = _draw_items(layout, case, returned)


def _draw_bytes(layout: Layout, case: LayoutCase, returned: Bytes, mask: Bytes, names: Sequence[Explanation]) -> Failure:
    failure = Failure(
        case=case.id, given={"layout": layout.name, "shape": "x".join(map(str, case.shape))},
        expected={"bytes": f"{case.data.size}"}, returned={"bytes": f"{returned.size}"}, also=[e.text for e in names],
        snippet=_make_snippet(layout, case, "layout.pack(*case.parts)"),
    )  # fmt: skip
    if returned.shape != case.data.shape:
        failure.steps.append(f"{returned.size} bytes came back; {layout.name} takes {case.data.size} for this shape")
        return failure
    wrong = np.flatnonzero((returned ^ case.data) & mask)
    first = int(wrong[0])
    failure.expected[f"byte {first:#x}"] = f"{int(case.data[first]):02x}"
    failure.returned[f"byte {first:#x}"] = f"{int(returned[first]):02x}"
    failure.steps.append(f"{wrong.size} of {returned.size} bytes differ; the first is byte {first:#x}")
    if len(case.shape) == 2:
        from mxspec.layouts.picture import label_run, map_bytes

        runs = map_bytes(layout, (case.shape[0], case.shape[1]))[first]
        several = len(layout.fields) > 1
        held = "|".join(label_run(run, rows=True, several=several) for run in runs)
        failure.steps.append(f"it holds row,column {held} (high bits left)" if held != "." else "it holds padding")
    return failure


def _make_snippet(layout: Layout, case: LayoutCase, call: str) -> str:
    """Lines that give the expected answer."""
    return "\n".join(
        [
            "from mxspec.layouts import get_layout",
            "from mxspec_vectors.cases import load_layout_file",
            f'layout, name = get_layout("{layout.name}"), "{case.id}"',
            "cases = load_layout_file(layout.name).cases",
            "case = next(c for c in cases if c.id == name)",
            f"print({call})",
        ]
    )


def _draw_items(layout: Layout, case: LayoutCase, returned: tuple[Bytes, ...]) -> Failure:
    part, right, got = next((f.part.value, a, b) for f, a, b in zip(layout.fields, case.parts, returned, strict=True) if (a != b).any())
    place = tuple(int(i) for i in np.argwhere(right != got)[0])
    item = ",".join(map(str, place))
    return Failure(
        case=case.id, given={"layout": layout.name, "shape": "x".join(map(str, case.shape)), "bytes": f"{case.data.size}"},
        expected={f"{part} {item}": f"{int(right[place]):02x}"}, returned={f"{part} {item}": f"{int(got[place]):02x}"},
        steps=[f"{int((right != got).sum())} of {right.size} {part} differ; the first is row,column {item}"],
        snippet=_make_snippet(layout, case, "layout.unpack(case.data, case.shape)"),
    )  # fmt: skip
