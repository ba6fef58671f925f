"""Running the pieces: a few at a time, those that a broken worker took with it again, until done or stopped."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mxspec_conformance.campaign.state import Result, State
from mxspec_conformance.campaign.workers import Workers, shielded
from mxspec_conformance.targets.errors import InternalError, without_frames

#: How often a piece is tried whose worker died or which raised.
MAX_TRIES = 3


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One piece of work: a key that names its result, and what the work function is given."""

    key: str
    arguments: tuple[Any, ...]


@dataclass(slots=True)
class Outcome:
    """What a run did."""

    #: Pieces that were finished before, and now.
    kept: int = 0
    done: int = 0
    interrupted: bool = False
    #: Why there were pieces left: `time`, `stop`, `interrupt`, or empty.
    stopped: str = ""
    #: Key -> why a piece has no result.
    lost: dict[str, str] = field(default_factory=dict)
    #: Pieces that were tried again.
    retried: int = 0


def describe_work(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Which pieces runs have done and found done: a part of a report's environment, as an interrupted run does others."""
    given = list(outcomes)
    return {"done": sum(o.done for o in given), "kept": sum(o.kept for o in given), "retried": sum(o.retried for o in given)}


def run_work_items(
    pieces: Iterable[WorkItem],
    work: Callable[..., Result],
    state: State,
    workers: Workers,
    *,
    deadline: float | None = None,
    on_result: Callable[[str, Result], bool] = lambda _key, _result: True,
) -> Outcome:
    """Run what the state does not hold, and enter the results.

    deadline: by `time.monotonic`; no piece is started after it. on_result: called with each new result; False ends the run.
    Ctrl-C ends it too; what is finished is in the state.
    """
    outcome = Outcome()
    waiting = iter(pieces)
    again: deque[WorkItem] = deque()
    tries: Counter[str] = Counter()
    running: dict[Future[Result], WorkItem] = {}

    def next_piece() -> WorkItem | None:
        if again:
            return again.popleft()
        for piece in waiting:
            if piece.key in state.finished:
                outcome.kept += 1
            else:
                return piece
        return None

    def take(piece: WorkItem, result: Result) -> None:
        if state.enter(piece.key, result):
            outcome.done += 1
            if not on_result(piece.key, result):
                outcome.stopped = "stop"

    def fail(piece: WorkItem, error: BaseException) -> None:
        tries[piece.key] += 1
        if tries[piece.key] < MAX_TRIES:
            outcome.retried += 1
            again.append(piece)
        else:
            outcome.lost[piece.key] = f"{type(error).__name__}: {error}"

    def start() -> None:
        while len(running) < 2 * workers.count and not outcome.stopped:
            if deadline is not None and time.monotonic() >= deadline:
                outcome.stopped = "time"
                return
            piece = next_piece()
            if piece is None:
                return
            if workers.pool is None:
                take(piece, work(*piece.arguments))
                continue
            try:
                with shielded():
                    future = workers.pool.submit(_work_apart, work, *piece.arguments)
                running[future] = piece
            except RuntimeError as error:  # the pool has broken since
                fail(piece, error)
                workers.renew()

    try:
        start()
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            broken = False
            for future in finished:
                piece = running.pop(future)
                try:
                    result = future.result()
                except CancelledError as error:
                    fail(piece, error)
                except Exception as error:
                    if isinstance(error, _FINAL):
                        raise
                    broken = broken or type(error).__name__ == "BrokenProcessPool"
                    fail(piece, error)
                else:
                    take(piece, result)
            if broken:  # what else ran there is lost too
                for piece in running.values():
                    fail(piece, RuntimeError("the pool of processes broke"))
                running.clear()
                workers.renew()
            start()
    except KeyboardInterrupt:
        outcome.interrupted, outcome.stopped = True, "interrupt"
        with suppress(KeyboardInterrupt):  # a second one; what is being worked on is waited for in any case, and kept
            for future in [future for future in running if not future.cancel()]:
                if future.exception() is None:
                    take(running[future], future.result())
    return outcome


#: Errors of a piece that trying again does not mend: bad input and bugs.
_FINAL = (ValueError, TypeError, AssertionError, KeyError, IndexError, InternalError)


def _work_apart(work: Callable[..., Result], *arguments: Any) -> Result:
    """The work of a piece in a process of its own."""
    try:
        return work(*arguments)
    except _FINAL as error:
        raise without_frames(error) from None
