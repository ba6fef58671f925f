"""Replayed bug threads: the data are whole, the committed result is theirs, and every pair is separated again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mxspec.profiles import get_profile
from mxspec_conformance.atlas.threads import list_shown
from mxspec_lab.threads import list_threads
from mxspec_lab.threads.judging import Outcome, judge
from mxspec_lab.threads.schema import Family, Refused, Thread

from tests import threads
from tests.threads.__main__ import count, describe, format_line, main, render_page

#: What a target registers is gone after the test.
pytestmark = pytest.mark.usefixtures("restored_registry")
COMMITTED = Path(__file__).resolve().parents[1] / "reports" / "atlas" / "threads.json"
THREADS, REFUSED = list_threads(threads.THREADS), threads.NOT_PAIRS


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(COMMITTED.read_text("ascii"))
    return found


def test_there_are_many_and_each_has_its_thread_alone() -> None:
    assert len(THREADS) >= 120
    shipped = [t for t in THREADS if t.family in (Family.GROUPED, Family.FUSED, Family.CACHES) or t.format.endswith("-f32")]
    assert len(shipped) >= 30
    references = [r for t in THREADS for r in (t.reference, *t.also)] + [r.reference for r in REFUSED]
    assert len(set(references)) == len(references)
    assert len({t.id for t in THREADS}) == len(THREADS)


@pytest.mark.parametrize("thread", THREADS, ids=lambda t: t.id)
def test_a_thread_says_what_it_is(thread: Thread) -> None:
    assert thread.id.endswith("-" + thread.reference.rpartition("#")[2])
    for text in (thread.title, thread.wrong, thread.differs or "x."):
        assert text == text.strip()
        assert "  " not in text
    assert thread.wrong.endswith((".", "?"))
    assert not thread.title.endswith(".")
    assert thread.format
    assert thread.operation
    if thread.profile and not thread.format.endswith("-f32"):
        assert thread.profile in {get_profile(thread.profile, thread.format).id}


@pytest.mark.parametrize("reference", ["vllm#1", "a/b#0", "a/b", "a/b#x", "https://github.com/a/b/issues/1"])
def test_a_reference_is_owner_repository_and_number(reference: str) -> None:
    with pytest.raises(ValueError, match="owner/repository#number"):
        Refused(reference=reference, what="x", reason="x")


def test_the_committed_result_is_of_these_threads(document: dict[str, Any]) -> None:
    rows = {row["id"]: row for row in document["threads"]}
    assert list(rows) == [t.id for t in THREADS]
    assert document["counts"] == count(list(rows.values()))
    assert [r["reference"] for r in document["refused"]] == [r.reference for r in REFUSED]
    for thread in THREADS:
        row = rows[thread.id]
        assert (row["reference"], row["title"], row["wrong"]) == (thread.reference, thread.title, thread.wrong)
        assert row["separated"] is True
        assert set(thread.fails) <= set(row["broken"]["requirements"])
        assert not row["fixed"]["accused"]
        assert (row["cause"] is not None) == bool(thread.names)
        if thread.names:
            assert thread.names in row["cause"]["text"]


def test_the_page_is_that_of_the_result(document: dict[str, Any]) -> None:
    assert render_page(document).decode("utf-8") == COMMITTED.with_suffix(".md").read_text("utf-8")


def test_nearly_all_are_separated_and_named(document: dict[str, Any]) -> None:
    assert document["counts"]["separated"] == len(THREADS)
    assert document["counts"]["separated and named"] >= len(THREADS) - 7


def test_every_page_has_its_bits(document: dict[str, Any]) -> None:
    for shown in list_shown(document):
        assert shown.requirement is not None, shown.id
        assert shown.lanes or shown.answers, shown.id
        words = [a.expected for a in shown.answers] + [lane.expected for lane in shown.lanes]
        texts = [a.expected_text + a.returned_text for a in shown.answers]
        # The words of an adjacent format are not drawn.
        assert any(words) or any(texts) or shown.row["formats"][0].endswith("-f32"), shown.id


def test_a_broken_target_that_passes_is_not_separated() -> None:
    thread = THREADS[0]
    row = describe(thread, Outcome(passed=3))
    assert (row["separated"], row["cause"], row["smallest"]) == (False, None, None)
    assert count([row])["separated and named"] == 0


def test_the_command() -> None:
    done = CliRunner().invoke(main, ["mlx-4376"])
    assert done.exit_code == 0, done.output
    assert "1 separated, 1 causes named" in done.output
    assert CliRunner().invoke(main, ["mlx-1"]).exit_code == 2
    assert max(map(len, done.output.splitlines()[:2])) <= len(format_line(["x" * 99] * 6))


@pytest.mark.parametrize("thread", THREADS, ids=lambda t: t.id)
def test_a_pair_is_separated_again(thread: Thread) -> None:
    outcome = judge(thread)
    assert set(thread.fails) <= set(outcome.failing)
    assert outcome.accused == ()
    assert outcome.passed
    cause = outcome.find_cause(thread.names)
    assert (cause is not None) == bool(thread.names)
    if thread.profile:
        assert outcome.profile == thread.profile
        assert outcome.identical
