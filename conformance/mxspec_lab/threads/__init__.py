"""Public bug threads replayed: `python -m mxspec_lab.threads` judges each as a pair of targets, broken and mended.

A thread is data, written from what the thread says. `judging` asks the public `check`; `__main__` prints
the table and writes reports/atlas/threads.json, of which the site makes a page each.
"""

from __future__ import annotations

from functools import cache

from mxspec_lab.threads import numbers, operations
from mxspec_lab.threads.refused import REFUSED
from mxspec_lab.threads.schema import Thread

__all__ = ["REFUSED", "list_threads"]


@cache
def list_threads() -> tuple[Thread, ...]:
    """All threads, family by family.

    Raises ValueError where an id or a reference stands twice.
    """
    found: dict[str, Thread] = {}
    seen: set[str] = set()
    for thread in (*numbers.THREADS, *operations.THREADS):
        references = {thread.reference, *thread.also}
        if thread.id in found or references & seen:
            raise ValueError(f"{thread.id}: its id, or one of {', '.join(sorted(references))}, stands twice")
        found[thread.id] = thread
        seen |= references
    return tuple(found.values())
