"""Processes for long work on this machine: they end when the work does, however that ends."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from mxspec_conformance.campaign.workers import begin_work, shielded


def _nothing() -> None:
    pass


def _begin(initialize: Callable[..., object] | None, given: tuple[Any, ...]) -> None:
    begin_work()
    if initialize is not None:
        initialize(*given)


@contextmanager
def forked_pool(
    jobs: int | None = None, initialize: Callable[..., object] | None = None, given: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """Forked workers, which have at once what this process has read and may hold functions that cannot be sent.

    jobs: None, one for each core. After an exception, Ctrl-C and signals that end a command among them, the workers are killed: what they
    are at is lost, and nobody waits for it. They leave signals to this process, and end when it is gone.
    """
    fork = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(jobs, mp_context=fork, initializer=_begin, initargs=(initialize, given))
    try:
        with shielded():  # all are forked with the first task, and never get a signal that is meant for this process
            pool.submit(_nothing)
        yield pool
    except BaseException:
        _kill(pool)
        raise
    else:
        pool.shutdown()


def _kill(pool: ProcessPoolExecutor) -> None:
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        with suppress(OSError, ValueError):
            worker.kill()
    for worker in workers:
        with suppress(OSError, ValueError, AssertionError):
            worker.join(5)
