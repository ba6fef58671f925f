"""Where the pieces of a campaign run: here, in processes, or on a Dask cluster."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor as Pool, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

from mxspec_conformance.targets.capabilities import ShapeLimits
from mxspec_conformance.targets.fitting import FittedSession
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target


@dataclass(slots=True)
class Workers:
    """A pool, or None for this process, and how to get another one where it broke."""

    pool: Pool | None
    count: int
    renew: Callable[[], Pool | None]
    name: str


@contextmanager
def shielded() -> Iterator[None]:
    """Within it signals wait. A process that is started within it never gets them: Ctrl-C goes to all of a terminal, and one
    that is just starting would tell of it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_work() -> None:
    """Workers leave Ctrl-C to their parent, which keeps what is finished, and end when it is gone, however it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


@contextmanager
def open_workers(jobs: int = 1, dask: str | None = None, pool: Pool | None = None) -> Iterator[Workers]:
    """Workers: a pool that the caller has, and keeps; those of the Dask scheduler at an address; or `jobs` processes (1: this
    one).

    Raises ImportError, saying what to install, where Dask is requested and missing.
    """
    if pool is not None:
        own = pool
        yield Workers(own, max(jobs, 1), lambda: own, f"the workers of a {type(own).__name__}")
        return
    if dask is not None:
        with _open_dask(dask) as workers:
            yield workers
        return
    if jobs <= 1:
        yield Workers(None, 1, lambda: None, "this process")
        return
    workers = Workers(None, jobs, lambda: None, f"{jobs} processes")

    def renew() -> Pool:
        if workers.pool is not None:
            workers.pool.shutdown(wait=False, cancel_futures=True)
        context = multiprocessing.get_context("spawn")
        workers.pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=begin_work)
        return workers.pool

    workers.renew = renew
    renew()
    try:
        yield workers
    finally:
        if workers.pool is not None:
            workers.pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _open_dask(address: str) -> Iterator[Workers]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("--dask needs the package distributed; pip install distributed") from None
    with Client(address, set_as_default=False) as client:
        count = sum(client.ncores().values()) or 1
        pool = client.get_executor()
        yield Workers(pool, count, lambda: pool, f"{count} Dask workers' cores at {address}")


@dataclass(frozen=True, slots=True)
class Named:
    """A target that workers open by its name, each for itself."""

    name: str
    #: By function, the only matrices that it takes: found in another session, so that a worker's first call is the work's own.
    limits: Mapping[str, ShapeLimits] = field(default_factory=dict)

    def open(self, timeout: float, *, in_process: bool | None = None) -> TargetSession:
        """A session in which no call was made yet; in_process: default where the target is a Python file."""
        in_process = self.name.endswith(".py") if in_process is None else in_process
        session = open_target(self.name, in_process=in_process, timeout=timeout, total=math.inf)
        if not self.limits:
            return session
        return FittedSession(session.inner if isinstance(session, FittedSession) else session, self.limits)


class _Opened(threading.local):
    """The targets that a thread has opened: one session takes one call at a time."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[str, float], TargetSession] = {}


_OPENED = _Opened()
_ALL: list[TargetSession] = []


def call_target(target: Any, timeout: float, *, in_process: bool = False) -> TargetSession:
    """The session of a target in this thread of this worker, opened once and kept."""
    if not isinstance(target, Named):
        return open_target(target)
    key, opened = (target.name, timeout), _OPENED.sessions
    if key not in opened:
        opened[key] = target.open(timeout, in_process=in_process)
        _ALL.append(opened[key])
    return opened[key]


def close_targets() -> None:
    """End what `call_target` has opened in this process."""
    _OPENED.sessions.clear()
    while _ALL:
        _ALL.pop().close()
