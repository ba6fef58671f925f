"""Mutants judged within a selection of cases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from mxspec_conformance.mutants.instance import Instance
from mxspec_conformance.observations.selection import EVERYTHING, Selection, use_selection
from mxspec_lab.mutants.judging import Found, judge_instance, share
from mxspec_lab.pools import forked_pool

Progress = Callable[[str], None]


@dataclass(slots=True)
class Level:
    """All instances, judged at one level."""

    found: dict[str, Found] = field(default_factory=dict)
    #: Processor seconds.
    seconds: float = 0.0

    @property
    def survivors(self) -> list[str]:
        """Instances that no case finds out."""
        return [name for name, found in self.found.items() if not found.kills]


def judge_level(
    instances: Sequence[Instance], selection: Selection = EVERYTHING, *, progress: Progress = lambda _: None,
    stop: bool = False, jobs: int | None = 1,
) -> Level:  # fmt: skip
    """Judge instances within a selection; stop: each only until it is killed; jobs: processes, None one for each core."""
    level = Level()
    with ExitStack() as stack:
        results: Iterable[tuple[Found, float]]
        if jobs == 1:
            results = (_judge_one(instance, selection, stop) for instance in instances)
        else:
            # Instances hold functions that cannot be sent to a process; forked ones have them.
            pool = stack.enter_context(forked_pool(jobs, _keep, (instances, selection, stop)))
            results = pool.map(_judge_kept, range(len(instances)))
        for number, (instance, (found, seconds)) in enumerate(zip(instances, results, strict=True), 1):
            found.asked = share(found.asked)
            level.found[instance.name] = found
            level.seconds += seconds
            progress(f"{number} of {len(instances)}, {len(level.survivors)} alive: {instance.name}")
    return level


#: What a worker judges.
_kept: list[tuple[Sequence[Instance], Selection, bool]] = []


def _keep(instances: Sequence[Instance], selection: Selection, stop: bool) -> None:
    _kept[:] = [(instances, selection, stop)]


def _judge_kept(number: int) -> tuple[Found, float]:
    instances, selection, stop = _kept[0]
    return _judge_one(instances[number], selection, stop)


def _judge_one(instance: Instance, selection: Selection, stop: bool) -> tuple[Found, float]:
    """An instance's verdict, and its seconds of one core."""
    started = time.process_time()
    with use_selection(selection):
        found = judge_instance(instance, stop=stop)
    return found, time.process_time() - started
