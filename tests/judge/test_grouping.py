"""What is one thing, and which of equal explanations is named, is decided by types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mxspec import Rounding
from mxspec_conformance.counterexample.diagnose import Cause, Neighbour, Parity, ShownCalls, Stand, describe_lanes, group_lanes
from mxspec_conformance.counterexample.mismatch import Part
from mxspec_conformance.counterexample.probe import CallPattern
from mxspec_conformance.judge.explanation import Cause as Kind, Explanation, Mistake
from mxspec_conformance.judge.tally import Scorecard, common_explanation


def name(*explanations: Explanation) -> Explanation | None:
    """The one that is named of several that explain the same failure."""
    card = Scorecard("pack", "nibble-low")
    card.count("place", "case", ok=False, equals=explanations)
    return common_explanation(card.tallies.values(), lambda _: ())


def test_a_tie_is_broken_by_order_and_not_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    late, early = (Explanation(Kind.LAYOUT_MISTAKE, mistake=m) for m in (Mistake.BIG_ENDIAN, Mistake.NIBBLES_SWAPPED))
    nearest, down = (Explanation(Kind.ROUNDING, rounding=r) for r in (Rounding.RNE, Rounding.RTZ))
    other = Explanation(Kind.LAYOUT, "nibble-high")
    assert name(late, early, other) == other
    monkeypatch.setattr(Explanation, "text", property(lambda self: {late: "a", early: "b", nearest: "b", down: "a"}[self]))
    assert name(late, early) == early
    assert name(down, nearest) == nearest


WRONG = Cause(part=Part.CODE, pattern=CallPattern(), lanes=None, scales=None, codes=None, calls=None, sign="")


def test_findings_are_one_where_what_is_told_is() -> None:
    even = replace(WRONG, lanes=(0, 2, 4, 6, 8, 10))
    assert even.facts(1, 2) == replace(even, lanes=(0, 2, 4, 6, 8, 12)).facts(1, 2)
    assert even.facts(1, 2) != even.facts(1, 3)
    others = (
        replace(WRONG, calls=ShownCalls(Stand.LAST)), replace(WRONG, calls=ShownCalls(Stand.LAST, (3, 5))),
        replace(WRONG, neighbour=Neighbour(before=True, code=3)), replace(WRONG, sign="negative"), even, WRONG,
    )  # fmt: skip
    assert len({other.facts(1, 2) for other in others}) == len(others)


def test_lanes_in_words() -> None:
    assert group_lanes((1, 3, 5, 7, 9, 13)) is Parity.ODD
    assert [describe_lanes(lanes) for lanes in ((4,), (0, 2), (1, 2, 3, 4), (0, 2, 4, 6, 8, 10), tuple(range(6)))] == [
        "lane 4", "lanes 0, 2", "lanes 1 to 4", "even lanes", "lanes 0 to 5",
    ]  # fmt: skip


def test_calls_in_words() -> None:
    assert ShownCalls(Stand.LAST).words == "as the last block of a call"
    assert ShownCalls(Stand.ANYWHERE, (2, 5)).words == "in calls of 2, 5 blocks"
