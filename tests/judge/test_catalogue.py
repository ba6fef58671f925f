"""Every target of the catalogue gets the verdict that its entry states: what must fail, what may, and nothing else."""

from __future__ import annotations

import pytest

import mxspec
from mxspec.formats import BLOCKS
from mxspec_conformance.mutants import list_mutants
from mxspec_conformance.results.conclusion import Stand, conclude
from mxspec_vectors.topics import TOPICS

from tests.bugs import Entry, Kind, list_entries, no_answer
from tests.bugs.judging import judge, list_departures
from tests.judge.reading import passed


def _is_of_calls(entry: Entry) -> bool:
    """Whether it must fail what large calls, other memory or other states show, of which tests ask few."""
    return bool({i.rsplit("/", 1)[1] for i in entry.musts} & {"call-size", "memory", "state"})


BUGS = [e for e in list_entries(Kind.BUG) if e not in no_answer.ENTRIES]


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.id, marks=[pytest.mark.all_calls] if _is_of_calls(e) else []) for e in BUGS])
def test_a_bug_fails_what_it_must_and_nothing_that_it_may_not(entry: Entry) -> None:
    assert list_departures(entry, judge(entry)) == []


@pytest.mark.share(8)
@pytest.mark.all_calls
@pytest.mark.parametrize("entry", list_entries(Kind.UNUSUAL), ids=lambda e: e.id)
def test_right_but_unusual_passes(entry: Entry) -> None:
    assert list_departures(entry, judge(entry)) == []


@pytest.mark.parametrize("entry", list_entries(Kind.OPEN), ids=lambda e: e.id)
def test_what_ocp_leaves_open_passes(entry: Entry) -> None:
    report = judge(entry)
    assert list_departures(entry, report) == []
    for result in report.formats:
        assert conclude(result, report.requirements).stand is Stand.CONFORMS
        assert result.judged_against == mxspec.default_profile(result.format).id


@pytest.mark.parametrize("entry", no_answer.NO_ANSWER, ids=lambda e: e.id)
def test_a_target_that_answers_nothing_is_right_nowhere(entry: Entry) -> None:
    report = judge(entry)
    assert list_departures(entry, report) == []
    assert passed(report) == set()
    for requirement in report.requirements:
        if requirement.id in entry.musts:
            assert requirement.failing == requirement.cases > 0
            assert requirement.verdict == "error", "who answers nothing refuses nothing in particular"
    (result,) = report.formats
    assert result.failing == result.distance == result.cases > 0
    assert result.identical_to == []


@pytest.mark.parametrize("entry", no_answer.BAD_VALUES, ids=lambda e: e.id)
def test_a_target_with_bad_values_is_identical_to_no_profile(entry: Entry) -> None:
    report = judge(entry)
    assert list_departures(entry, report) == []
    assert all(not result.identical_to for result in report.formats)


def test_entries_name_what_there_is() -> None:
    mutants = {mutant.id for mutant in list_mutants()}
    for entry in list_entries():
        assert entry.what, entry.id
        assert set(entry.formats) <= {*BLOCKS, *mxspec.ELEMENTS, *mxspec.SCALES}, entry.id
        assert {i.split("/")[2] for i in entry.musts | entry.mays} <= set(TOPICS), entry.id
        assert not entry.mutant or entry.mutant in mutants, entry.id
