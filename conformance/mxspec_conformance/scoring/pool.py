"""Running a test on many implementations at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

from mxspec_conformance.scoring.outcomes import Outcome, Verdict
from mxspec_conformance.scoring.subjects import Subject
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.texts import MESSAGE, clean_text
from mxspec_conformance.transports.launching import Launched, launch_program

#: Seconds that loading a test may take: frameworks are slow to import.
LOADING = 180.0
#: Seconds beyond a question's own limit after which the worker itself is taken for lost.
GRACE = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """A test is run on this."""

    subject: Subject
    #: The rule that the subject is compared with.
    profile: str
    timeout: float


class Worker:
    """A process that has loaded the test."""

    def __init__(self, test: str, replace: Sequence[str]) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._launched: Launched = launch_program(
            [sys.executable, "-m", "mxspec_conformance.scoring.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        first = self._exchange({"test": test, "replace": list(replace)}, LOADING)
        if first is None or "loaded" not in first:
            self.close()
            reason = "it ended the process, or took too long, while it was loaded" if first is None else first["broken"]
            raise TargetError(f"{test}: {clean_text(str(reason), MESSAGE)}")

    def ask(self, question: Question) -> Outcome | None:
        """Its outcome; None if the worker is gone."""
        sent = {"subject": question.subject.name, "profile": question.profile, "timeout": question.timeout}
        answer = self._exchange(sent, question.timeout + GRACE)
        try:
            return None if answer is None else Outcome.from_dict(answer)
        except (KeyError, ValueError, TypeError):
            return None

    def close(self) -> None:
        """End it and all that it started."""
        self._launched.kill()
        for stream in (self._launched.process.stdin, self._launched.process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue

    def _exchange(self, message: Any, seconds: float) -> Any:
        """Send a line and read one; None if there is none in time."""
        process = self._launched.process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(seconds, self._launched.kill)
        late.start()
        try:
            process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
            process.stdin.flush()
            line = process.stdout.readline(1 << 20)
            return json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None
        finally:
            late.cancel()


def ask_all(
    test: str,
    questions: Iterable[Question],
    *,
    replace: Sequence[str] = (),
    jobs: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """The outcomes in the order of the questions. jobs: processes; 0: one for each core.

    Raises TargetError if the test does not load.
    """
    listed = list(questions)
    outcomes: list[Outcome | None] = [None] * len(listed)
    waiting: Queue[int] = Queue()
    for number in range(len(listed)):
        waiting.put(number)
    first = Worker(test, replace)  # says what is wrong before there are many
    failures: list[BaseException] = []

    def run(worker: Worker | None) -> None:
        try:
            while True:
                try:
                    number = waiting.get_nowait()
                except Empty:
                    return
                worker = worker or Worker(test, replace)
                outcomes[number] = worker.ask(listed[number])
                if outcomes[number] is None:
                    worker.close()
                    worker = None
                    outcomes[number] = Outcome(Verdict.ENDED, "the test ended the process that runs it")
                progress(f"{len(listed) - waiting.qsize()} of {len(listed)}")
        except BaseException as error:
            failures.append(error)
        finally:
            if worker is not None:
                worker.close()

    count = min(jobs or os.cpu_count() or 1, max(len(listed), 1))
    threads = [threading.Thread(target=run, args=(first if n == 0 else None,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [outcome or Outcome(Verdict.BROKEN, "it was not run") for outcome in outcomes]
