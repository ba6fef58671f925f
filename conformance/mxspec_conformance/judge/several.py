"""Judging several targets, one after the other or at the same time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from mxspec_conformance.judge.check import check
from mxspec_conformance.results.report import Report
from mxspec_conformance.targets.errors import TargetError, without_frames


def check_several(targets: Sequence[Any], jobs: int = 1, **options: Any) -> Iterator[Report | TargetError]:
    """A report for each target, in their order; an error for those that do not load.

    jobs: so many are judged at a time, each by a process of its own; 1: here. options: of `check`. With several jobs `progress` and
    `begun` are not called, and targets have to be paths or names.

    Raises what `check` raises of its own arguments.
    """
    if jobs <= 1 or len(targets) <= 1:
        yield from map(partial(_check_one, options=options), targets)
        return
    loaded = options.get("loaded")
    options = {name: value for name, value in options.items() if name not in ("progress", "begun", "loaded")}
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, len(targets)), initializer=_begin) as pool:  # what is left at an interrupt is ended
        for result, files in pool.imap(partial(_check_apart, options=options), targets):
            if loaded is not None and files is not None:
                loaded(files)
            yield result


def _check_apart(target: Any, options: dict[str, Any]) -> tuple[Report | TargetError, Sequence[str] | None]:
    """The result, and the files that the target's process has loaded, if it tells."""
    found: list[Sequence[str]] = []
    result = _check_one(target, {**options, "loaded": found.append})
    return result, found[0] if found else None


def _check_one(target: Any, options: dict[str, Any]) -> Report | TargetError:
    try:
        return check(target, **options)
    except TargetError as error:
        return error
    except Exception as error:
        raise without_frames(error) from None


def _begin() -> None:
    """Ctrl-C is the parent's, and nobody outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
