"""Targets in a child process: crashes, hangs, noise, and modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mxspec_conformance.judge.check import check
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.targets import sessions as sessions
from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.transports.child import SubprocessSession

from tests.judge.reading import TARGETS, failing


def process(name: str) -> str:
    """The target file of a name."""
    return str(TARGETS / "processes" / f"{name}.py")


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Counts the processes that are started; functions that never answer are given up sooner than usual."""
    started: list[float] = []
    start = SubprocessSession._start

    def counted(self: SubprocessSession) -> Any:
        started.append(1)
        return start(self)

    monkeypatch.setattr(SubprocessSession, "_start", counted)
    monkeypatch.setattr(sessions, "MAX_UNANSWERED", {"timeout": 2, "crash": 3})
    return started


def test_a_crash_is_an_error(starts: list[float]) -> None:
    report = check(process("crashes"))
    assert set(failing(report).values()) == {"error"}
    assert report.exit_code == 1
    notes = {r.note.split(": ", 1)[1] for r in report.requirements if r.verdict == "error"}
    assert notes == {"quantize was given up after 3 crashes: the process died (exit code -11, SIGSEGV)"}
    assert len(starts) <= 4, "a target that always crashes is not started for every case"


def test_a_hang_is_a_timeout(starts: list[float]) -> None:
    report = check(process("hangs"), timeout=0.3)
    assert set(failing(report).values()) == {"timeout"}
    assert report.exit_code == 1
    assert len(starts) <= 3
    assert report.formats[0].distance == report.formats[0].cases > 0


def test_a_crash_on_nan_spoils_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Special values are batched apart, and the process is started again."""
    monkeypatch.setattr("mxspec_conformance.observations.bisection.MAX_IN_BATCH", {FailureKind.TIMEOUT: 3, FailureKind.CRASH: 5})
    report = check(process("dies_on_nan"))
    assert (failing(report), report.exit_code) == ({"quantize/mxfp4/nan": "error"}, 1), "what NaN means is open, not whether the call ends"
    assert "the process died (exit code 7)" in report.formats[0].deviations[0]


def test_a_hang_on_infinity_spoils_nothing_else(starts: list[float]) -> None:
    report = check(process("hangs_on_infinity"), timeout=1.5)
    assert (failing(report), report.exit_code) == ({"quantize/mxfp4/inf": "timeout"}, 1)
    assert len(starts) <= 5


def test_garbage_on_stdout_is_not_ours(capfd: pytest.CaptureFixture[str]) -> None:
    report = check(process("prints"))
    assert (failing(report), report.exit_code) == ({}, 0)
    captured = capfd.readouterr()
    assert "garbage" not in captured.out + captured.err
    assert "noise" not in captured.err


def test_what_a_target_imports_of_its_own_is_found() -> None:
    assert check(process("imports_its_own"), only="scale/*").exit_code == 0


def test_a_process_that_ends_while_loading() -> None:
    with pytest.raises(TargetError, match=r"ended the process while it was loaded \(exit code 4\)"):
        check(process("ends_while_loading"))


def test_a_process_that_hangs_while_loading() -> None:
    with pytest.raises(TargetError, match=r"did not load within 1 s"):
        SubprocessSession(process("hangs_while_loading"), start_timeout=1.0)


@pytest.mark.parametrize("kind", [FailureKind.CRASH, FailureKind.GARBAGE])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_batch_that_crashed_is_not_forgotten(kind: FailureKind, count: int) -> None:
    """Its parts may be answered by the next process: a crash is no answer, whenever it comes."""
    calls = []

    def call(items: Sequence[int]) -> Sequence[int]:
        calls.append(len(items))
        if len(calls) == 1:
            raise CallError(kind, "the process died")
        return items

    first, *others = run_bisected(range(count), call)
    assert isinstance(first, NoAnswer)
    assert (first.kind, first.among) == (kind, 0 if count == 1 else count)
    assert others == [*range(1, count)]


@pytest.mark.parametrize("kind", [FailureKind.ERROR, FailureKind.BAD_RETURN])
@pytest.mark.parametrize("right", [range(0), range(1, 1000, 2), range(125)])
def test_what_every_call_fails_with_is_asked_of_a_few(kind: FailureKind, right: range) -> None:
    """Of a thousand items, where the target fails with all in the same words; each where one of them is answered."""
    calls = []

    def call(items: Sequence[int]) -> Sequence[int]:
        calls.append(len(items))
        if set(right).issuperset(items):
            return items
        raise CallError(kind, f"shape ({len(items)},)")

    found = run_bisected(range(1000), call)
    assert [n for n, answer in enumerate(found) if not isinstance(answer, NoAnswer)] == [*right]
    assert {(n.kind, n.among, n.message) for n in found if isinstance(n, NoAnswer)} == {(kind, 0, "shape (1,)")}
    assert (len(calls) < 20) == (not right)


@pytest.mark.parametrize("ends", ["os.closerange(3, 5000)", "os._exit(0)"])
def test_a_process_that_ends_once_does_not_pass(tmp_path: Path, ends: str) -> None:
    """In a batch of cases, each of which the next process answers."""
    target = tmp_path / "once.py"
    target.write_text(
        f"import os, pathlib, mxspec\nFORMATS, calls, mark = ['mxfp4'], [], pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "def quantize(x, fmt):\n    calls.append(1)\n    if len(calls) == 4 and not mark.exists():\n        mark.touch()\n"
        f"        {ends}\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n"
    )
    report = check(target, quick=True, data=[])
    assert (tmp_path / "mark").exists()
    assert [r.verdict for r in report.requirements if r.verdict not in ("pass", "unsupported")] == ["error"]
