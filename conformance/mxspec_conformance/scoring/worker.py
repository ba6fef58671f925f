"""A process that loads a test once and runs it on one implementation after another, each in a child of its own.

It reads one line of JSON for each question from its standard input, and writes one for each answer; the first line says whether the test
loaded. The test's output is discarded. A child that hangs is killed with its process group; one that ends without a verdict is reported as that.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO

from mxspec_conformance.scoring.asking import RULE, Ask, load_test
from mxspec_conformance.scoring.finding import find_subject
from mxspec_conformance.scoring.outcomes import Outcome, Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.sessions import message_of
from mxspec_conformance.targets.texts import MESSAGE

#: Whether each question has a process of its own that starts as a copy of this one; elsewhere it is run here.
FORKS = hasattr(os, "fork")


def main() -> None:
    """Serve on the standard streams."""
    questions, answers = _own_streams()
    try:
        first = json.loads(questions.readline())
        ask = load_test(first["test"], first["replace"])
    except TargetError as error:
        _say(answers, {"broken": str(error)})
        return
    except BaseException as error:
        _say(answers, {"broken": f"the test does not load: {message_of(error, MESSAGE)}"})
        return
    # What is loaded stays: a child, and pytest at its end, need not walk through all of a framework to find that nothing of it is garbage.
    gc.freeze()
    _say(answers, {"loaded": True})
    # Rules are ours: they need no process of their own, and keep what is right for their data.
    answer = _ask_apart if FORKS and not first["test"].startswith(RULE) else _ask_here
    for line in questions:
        question = json.loads(line)
        _say(answers, answer(ask, question).as_dict())


def _own_streams() -> tuple[BinaryIO, BinaryIO]:
    """The streams to the parent, out of a test's reach by number; its own lead nowhere."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    return questions, answers


def _say(answers: BinaryIO, message: Mapping[str, Any]) -> None:
    answers.write(json.dumps(message).encode("ascii") + b"\n")
    answers.flush()


def _ask_here(ask: Ask, question: Mapping[str, Any]) -> Outcome:
    started = time.perf_counter()
    warnings.simplefilter("ignore")
    try:
        outcome = ask(find_subject(question["subject"]), question["profile"])
    except TargetError as error:
        outcome = Outcome(Verdict.BROKEN, str(error))
    except BaseException as error:
        outcome = Outcome(Verdict.BROKEN, message_of(error, MESSAGE))
    return replace(outcome, seconds=time.perf_counter() - started)


#: (kind, operation) of the subjects whose modules are imported here.
_IMPORTED: set[tuple[str, str]] = set()


def _import_for(subject: str) -> None:
    """Import what a subject of a new kind needs, here and not in each child; a child says what is wrong with it."""
    kind, operation, _ = subject.split("/", 2)
    if (kind, operation) not in _IMPORTED:
        _IMPORTED.add((kind, operation))
        with suppress(Exception):
            find_subject(subject)


def _ask_apart(ask: Ask, question: Mapping[str, Any]) -> Outcome:
    _import_for(question["subject"])
    reading, writing = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        try:
            outcome = _ask_here(ask, question)
            os.write(writing, json.dumps(outcome.as_dict()).encode("ascii"))
        finally:
            os._exit(0)
    os.close(writing)
    said = _read_until(reading, started + question["timeout"])
    os.close(reading)
    seconds = time.monotonic() - started
    if said is None:
        _kill(child)
        os.waitpid(child, 0)
        return Outcome(Verdict.TIMEOUT, f"no answer within {question['timeout']:g} s", seconds=seconds)
    _kill(child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        return Outcome.from_dict(json.loads(said))
    except (ValueError, KeyError, TypeError):
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        return Outcome(Verdict.ENDED, f"the test ended its process: {how}", seconds=seconds)


def _kill(child: int) -> None:
    """The child and what it started in its group; it may be gone."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _read_until(fd: int, deadline: float) -> bytes | None:
    """All that is written until the other end closes, or a line is whole; None if that takes too long."""
    said = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return None
        part = os.read(fd, 1 << 16)
        if not part:
            return said
        said += part
        if said.endswith(b"}"):
            return said


if __name__ == "__main__":
    main()
    sys.exit(0)
