"""Where the pieces of a campaign run: here, in processes, or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor as Pool
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mxspec_conformance.executors import Executor, open_target


@dataclass(slots=True)
class Workers:
    """A pool, or None for this process, and how to get another one where it broke."""

    pool: Pool | None
    count: int
    renew: Callable[[], Pool | None]
    name: str


def _ignore_interrupt() -> None:
    """Workers leave Ctrl-C to their parent, which keeps what is finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def open_workers(jobs: int = 1, dask: str | None = None) -> Iterator[Workers]:
    """Workers: `jobs` processes (1: this one), or those of the Dask scheduler at an address.

    Raises ImportError, saying what to install, where Dask is asked for and missing.
    """
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
        workers.pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupt)
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
        raise ImportError("--dask needs the package distributed; install mxspec[dask]") from None
    with Client(address, set_as_default=False) as client:
        count = sum(client.ncores().values()) or 1
        pool = client.get_executor()
        yield Workers(pool, count, lambda: pool, f"{count} Dask workers' cores at {address}")


_OPENED: dict[tuple[str, float], Executor] = {}


def call_target(target: Any, timeout: float, *, in_process: bool = False) -> Executor:
    """The executor of a target in this worker, opened once and kept.

    A worker that may have no children of its own (Dask's are daemons) loads the target into itself.
    """
    if not isinstance(target, str):
        return open_target(target)
    key = (target, timeout)
    if key not in _OPENED:
        alone = in_process or bool(multiprocessing.current_process().daemon)
        _OPENED[key] = open_target(target, in_process=alone, timeout=timeout)
    return _OPENED[key]


def close_targets() -> None:
    """End what `call_target` has opened in this process."""
    while _OPENED:
        _OPENED.popitem()[1].close()
