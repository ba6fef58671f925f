"""Campaigns in pieces: kept, counted once, tried again where a worker dies, refused where the file is another's."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mxspec_conformance.campaign import StateError, Workers, WorkItem, open_state, open_workers, run_work_items

IDENTITY = {"command": "test", "target": "none", "seed": 1}
HERE = Workers(None, 1, lambda: None, "here")


def square(n: int) -> dict[str, Any]:
    return {"square": n * n}


def die_once(folder: str, n: int) -> dict[str, Any]:
    """The first worker to reach piece 3 is killed."""
    mark = Path(folder) / "died"
    if n == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": n * n}


def interrupt_at_three(n: int) -> dict[str, Any]:
    if n == 3:
        raise KeyboardInterrupt
    return square(n)


def pieces(count: int) -> list[WorkItem]:
    return [WorkItem(f"piece/{n}", (n,)) for n in range(count)]


def test_pieces_that_are_finished_are_kept_and_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with open_state(path, IDENTITY) as state:
        run_work_items(pieces(3), square, state, HERE)
    with open_state(path, IDENTITY) as state:
        outcome = run_work_items(pieces(5), square, state, HERE)
        assert (outcome.kept, outcome.done) == (3, 2)
        assert state.finished == {f"piece/{n}": square(n) for n in range(5)}


def test_a_line_that_was_cut_short_is_dropped_and_its_piece_run_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with open_state(path, IDENTITY) as state:
        run_work_items(pieces(3), square, state, HERE)
    path.write_bytes(path.read_bytes()[:-7])
    with open_state(path, IDENTITY) as state:
        assert set(state.finished) == {"piece/0", "piece/1"}
        run_work_items(pieces(3), square, state, HERE)
    with open_state(path, IDENTITY) as state:
        assert state.finished == {f"piece/{n}": square(n) for n in range(3)}


def test_another_campaigns_file_is_refused_by_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with open_state(path, IDENTITY):
        pass
    with pytest.raises(StateError, match="differs in seed"), open_state(path, {**IDENTITY, "seed": 2}):
        pass
    with open_state(path, {**IDENTITY, "seed": 2}, fresh=True) as state:
        assert not state.finished


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    with pytest.raises(StateError, match="not the state file of a campaign"), open_state(path, IDENTITY):
        pass
    assert path.read_text() == "notes"


def test_a_key_that_comes_twice_counts_once() -> None:
    with open_state(None, IDENTITY) as state:
        assert state.enter("a", {"n": 1})
        assert not state.enter("a", {"n": 1})
        assert (len(state.finished), state.repeated) == (1, 1)


def test_calls_without_an_answer_are_made_again_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with open_state(path, IDENTITY) as state:
        state.enter("a", {"no_answer": {"kind": "crash"}})
        state.enter("b", {"n": 1})
        assert set(state.finished) == {"a", "b"}
    with open_state(path, IDENTITY) as state:
        assert set(state.finished) == {"b"}


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", IDENTITY) as state, open_workers(2) as workers:
        work = [WorkItem(f"piece/{n}", (str(tmp_path), n)) for n in range(8)]
        outcome = run_work_items(work, die_once, state, workers)
        assert (tmp_path / "died").exists()
        assert outcome.retried >= 1
        assert not outcome.lost
        assert state.finished == {f"piece/{n}": square(n) for n in range(8)}


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with open_state(path, IDENTITY) as state:
        outcome = run_work_items(pieces(6), interrupt_at_three, state, HERE)
    assert outcome.interrupted
    with open_state(path, IDENTITY) as state:
        assert set(state.finished) == {"piece/0", "piece/1", "piece/2"}


def test_ctrl_c_keeps_what_is_being_worked_on() -> None:
    both, interrupted = threading.Barrier(2), threading.Event()

    def work(n: int) -> dict[str, Any]:
        both.wait(20)
        return square(n) if n == 0 or interrupted.wait(20) else {}

    def interrupt(*_: Any) -> bool:
        interrupted.set()
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool, open_state(None, IDENTITY) as state, open_workers(1, pool=pool) as workers:
        assert run_work_items(pieces(2), work, state, workers, on_result=interrupt).interrupted
        assert state.finished == {"piece/0": square(0), "piece/1": square(1)}


def test_no_piece_begins_after_the_deadline() -> None:
    with open_state(None, IDENTITY) as state:
        outcome = run_work_items(pieces(3), square, state, HERE, deadline=time.monotonic() - 1)
        assert (outcome.stopped, state.finished) == ("time", {})


def test_the_caller_can_end_a_run() -> None:
    with open_state(None, IDENTITY) as state:
        outcome = run_work_items(pieces(9), square, state, HERE, on_result=lambda _, result: result["square"] < 4)
        assert (outcome.stopped, len(state.finished)) == ("stop", 3)


@pytest.mark.skipif(importlib.util.find_spec("distributed") is not None, reason="distributed is installed")
def test_dask_that_is_missing_says_what_to_install() -> None:
    with pytest.raises(ImportError, match="pip install distributed"), open_workers(2, "tcp://127.0.0.1:1"):
        pass
