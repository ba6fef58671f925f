"""How fast a target is, and how long it is asked again, does not hang on what else the machine does."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxspec.formats import BLOCKS
from mxspec_conformance.judge.invariance.answered import Answered
from mxspec_conformance.judge.invariance.blocks import Way
from mxspec_conformance.judge.invariance.pace import Speed, measure_speed
from mxspec_conformance.judge.invariance.pools import Pool, _find_pinned
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.targets import marshalling
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.transports.in_process import InProcessSession


class Machine:
    """A clock of the process's own, and one on the wall, of which the process gets a share."""

    def __init__(self, share: float) -> None:
        self.own, self.share = 0.0, share

    def work(self, seconds: float) -> None:
        self.own += seconds

    def monotonic(self) -> float:
        return self.own / self.share

    def process_time(self) -> float:
        return self.own


def make_session(machine: Machine, cost: float) -> InProcessSession:
    def encode(x: Any, element: str) -> Any:
        machine.work(cost)
        return np.zeros(len(x), np.uint8)

    return InProcessSession(SimpleNamespace(NAME="slow", VERSION="1", ELEMENTS=["e2m1"], encode=encode), "slow")


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_busy_machine_asks_as_much(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(share)
    monkeypatch.setattr(marshalling, "time", machine)
    session, x = make_session(machine, 2.0**-10), np.ones(40, np.float32)
    assert session.call("timed", "encode", x, "e2m1") == 2.0**-10
    assert session.call("repeated", 3200, 1.0, "encode", x, "e2m1") == (-1, 1025)


def test_waiting_counts_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(2.0**-7)
    monkeypatch.setattr(marshalling, "time", machine)
    session = make_session(machine, 2.0**-10)
    assert session.call("timed", "encode", np.ones(4, np.float32), "e2m1") == 2.0**-3 / 8


def test_the_wall_is_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads work more than passes on the wall."""
    machine = Machine(4.0)
    monkeypatch.setattr(marshalling, "time", machine)
    assert make_session(machine, 2.0**-6).call("timed", "encode", np.ones(4, np.float32), "e2m1") == 2.0**-8


def test_time_that_passes_is_measured() -> None:
    clock, started = marshalling._Clock(), time.monotonic()
    time.sleep(0.02)
    assert 0.02 / 8 <= clock.seconds <= time.monotonic() - started + 0.02


@pytest.mark.parametrize(("rate", "speed"), [(6e6, Speed.FAST), (5e5, Speed.STEADY), (1e5, Speed.SLOW), (1e3, Speed.CRAWLING)])
def test_speeds(rate: float, speed: Speed) -> None:
    assert measure_speed(lambda count: count / rate) is speed


def test_what_does_not_answer_is_asked_everything() -> None:
    assert measure_speed(lambda count: NoAnswer(FailureKind.ERROR, "no")) is Speed.FAST


def test_the_last_block_of_a_call_is_one_of_which_nothing_is_open() -> None:
    x = np.zeros((64, 32), np.float32)
    x[::7, 3] = 5
    x[3], x[4] = np.inf, 2.0**-120
    answered = Answered("quantize", (x,), "mxfp4", {}, np.zeros((64, 33), np.uint8), lambda answer: answer, np.not_equal)
    pool = Pool("pool", BLOCKS["mxfp4"], answered, pinned=_find_pinned(x))
    assert {int(Way(pool).place((3, 4), salt)[-1, -1]) for salt in range(200)} == set(range(0, 64, 7))
