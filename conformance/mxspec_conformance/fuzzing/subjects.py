"""All that is fuzzed: one batch of any of it, and its findings as files that replay."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mxspec_conformance.campaign import call_target
from mxspec_conformance.fuzzing.blocks.subject import BLOCKS
from mxspec_conformance.fuzzing.operations.subject import OPERATIONS
from mxspec_conformance.fuzzing.products.subject import PRODUCTS
from mxspec_conformance.fuzzing.subject import Finding, Job, Replayed, Restart, Result
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import NotJson, UnreadableFile, read_json

#: Any file that is not of another kind is read as one of blocks, which says what is wrong with it.
SUBJECTS = (PRODUCTS, OPERATIONS, BLOCKS)


def run_batch(job: Job, number: int) -> Result:
    """One batch in a worker: draw, call, judge."""
    session = call_target(job.target, job.timeout, in_process=job.in_process)
    started = time.perf_counter()
    result = next(s for s in SUBJECTS if isinstance(job, s.job)).ask(session, job, number)
    return {"memory": {}, **result, "seconds": round(time.perf_counter() - started, 3)}


def save(folder: Path, findings: Sequence[Finding]) -> list[Path]:
    """Write what was found into a folder, each kind in files of its own; those that hold the same bytes already are left."""
    written = []
    for subject in reversed(SUBJECTS):
        for name, data in subject.write([f for f in findings if isinstance(f, subject.finding)]).items():
            path = folder / name
            if not path.exists() or path.read_bytes() != data:
                write_file(path, data)
            written.append(path)
    return written


def replay(path: Path, session: TargetSession, restart: Restart | None = None) -> list[Replayed]:
    """Every case of a file, asked again.

    restart: loads the target anew, for what depends on the number of a call. Raises ValueError where the file is none of cases.
    """
    document: Any = None
    with suppress(NotJson, UnreadableFile, OSError):  # said by what reads it as one of blocks
        document = read_json(path)
    return next(s for s in SUBJECTS if s.owns(document)).replay(path, document, session, restart)
