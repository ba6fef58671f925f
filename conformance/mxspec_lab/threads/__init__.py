"""Public bug threads replayed: `python -m tests.threads` judges each as a pair of targets, broken and mended.

A thread is data, written from what the thread says. `judging` asks the public `check`. The command prints a table and
writes reports/atlas/threads.json, of which the site makes a page each, and threads.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from mxspec_lab.threads import numbers, operations
from mxspec_lab.threads.refused import REFUSED
from mxspec_lab.threads.schema import Thread

__all__ = ["REFUSED", "list_threads"]


def list_threads(more: Sequence[Thread] = ()) -> tuple[Thread, ...]:
    """All threads, family by family, and more of them.

    Raises ValueError where an id or a reference stands twice.
    """
    found: dict[str, Thread] = {}
    seen: set[str] = set()
    for thread in (*numbers.THREADS, *operations.THREADS, *more):
        references = {thread.reference, *thread.also}
        if thread.id in found or references & seen:
            raise ValueError(f"{thread.id}: its id, or one of {', '.join(sorted(references))}, stands twice")
        found[thread.id] = thread
        seen |= references
    return tuple(found.values())
