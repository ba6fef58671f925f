"""Replayed bug threads: the rows of a result of `python -m tests.threads`, ready for a page each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxspec.formats import ScalarFormat, get_scalar
from mxspec_conformance.render.bits import Word, draw_code, draw_float
from mxspec_conformance.render.view import Deviation, Lane, view_deviation
from mxspec_conformance.results.report import Failure, Requirement, Verdict

SCHEMA = "mxspec-threads/1"
_FLOAT = re.compile(r"(?:^0x|\()([0-9a-f]{8})\b")
_CODE = re.compile(r"^([0-9a-f]{1,2})(?= =|$)")


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of the smallest failing case: what was due and what came, as words of bits where they are some."""

    label: str
    expected: Word | None
    returned: Word | None
    expected_text: str
    returned_text: str


@dataclass(frozen=True, slots=True)
class ShownThread:
    """A thread for its page."""

    row: Mapping[str, Any]
    requirement: Requirement | None
    #: A failing block, lane by lane.
    lanes: Sequence[Lane]
    #: What else failed: a value, a code, a byte.
    answers: Sequence[Answer]
    #: The input, without what the lanes show.
    facts: Sequence[tuple[str, str]]

    @property
    def id(self) -> str:
        """The name of its page."""
        return str(self.row["id"])


def link_of(reference: str) -> str:
    """The address of owner/repository#number."""
    owner, _, number = reference.partition("#")
    return f"https://github.com/{owner}/issues/{number}"


def list_shown(document: Mapping[str, Any]) -> list[ShownThread]:
    """All threads of a result."""
    return [_show(row) for row in document["threads"]]


def _show(row: Mapping[str, Any]) -> ShownThread:
    smallest = row["smallest"]
    if smallest is None:
        return ShownThread(row, None, (), (), ())
    first = smallest["first"]
    requirement = Requirement(**{**smallest, "verdict": Verdict(smallest["verdict"]), "first": Failure(**first)})
    deviation: Deviation = view_deviation(requirement, "")
    answers = () if deviation.lanes else tuple(_list_answers(requirement))
    facts = deviation.facts if deviation.lanes else [(key, _as_text(value)) for key, value in first["given"].items()]
    return ShownThread(row, requirement, deviation.lanes, answers, tuple((k, str(v)) for k, v in facts))


def _list_answers(requirement: Requirement) -> Iterator[Answer]:
    assert requirement.first is not None
    expected, returned = requirement.first.expected, requirement.first.returned
    for label in dict.fromkeys((*expected, *returned)):
        due, came = (_as_text(part.get(label, "")) for part in (expected, returned))
        fmt = _format_of(requirement, label)
        yield Answer(label, _draw(due, fmt, came), _draw(came, fmt, due), due, came)


def _format_of(requirement: Requirement, label: str) -> ScalarFormat | None:
    """The format of the codes of a conversion; None where texts are no codes."""
    if requirement.operation not in ("encode", "stochastic") or label != "code":
        return None
    return get_scalar(requirement.format)


def _draw(text: str, fmt: ScalarFormat | None, other: str) -> Word | None:
    """The bits that a text holds: a code of a format, or a float32."""
    if fmt is not None:
        found, compared = _CODE.match(text), _CODE.match(other)
        return None if found is None else draw_code(int(found[1], 16), fmt, None if compared is None else int(compared[1], 16))
    number = _FLOAT.search(text)
    return None if number is None else draw_float(int(number[1], 16))


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_as_text(inner)}" for key, inner in value.items())
    return str(value)
