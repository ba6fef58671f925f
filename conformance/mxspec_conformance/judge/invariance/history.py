"""The axis of history: an answer depends on no call before it, none at the same time, and on nobody else's memory.

Each operation describes its calls as a `Workload`; what is done with them is the same for all. A value that is added here is
judged of every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.reach import LOCAL, hides_memory
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import keeps_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession

#: Equal calls, more than 8 and 10 bits count, and the seconds that they may take.
REPEATS, REPEAT_SECONDS = 1100, 0.3
#: Calls whose answers are held, of the smallest size, and the seconds; and of each size, of which a kernel may keep a few buffers.
HELD, HELD_SECONDS, FEW_HELD = 300, 0.1, 16
#: Threads, and calls of each.
THREADS, ROUNDS = 4, 6

#: Rows and columns, or whatever else tells a workload how large a call is.
Size = Any


class Verb(Enum):
    """What is done with the calls of a workload."""

    #: A call, another, and the first again: neither writes into an input, or into the answer of the other.
    PROBE = "probe"
    #: Other numbers where those of the last call lay.
    REUSE = "reuse"
    #: Many calls whose inputs and answers are held, and stay as they are.
    HOLD = "hold"
    #: The same call, again and again.
    REPEAT = "repeat"
    #: Calls at once.
    THREADS = "threads"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A call."""

    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    #: What is wrong with an answer, in words; empty: nothing.
    find_mistake: Callable[[Any], str] = lambda _: ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An operation's calls, and where what they show is entered."""

    session: TargetSession
    function: str
    scorecard: Scorecard
    #: (size, number) -> a call of that size: of other items for each number. Calls 0 and 1 have the same options.
    draw: Callable[[Size, int], Drawn]
    #: Sizes by name, the smallest first.
    sizes: Mapping[str, Size]
    #: Sizes of which every byte of an answer is specified; None: all.
    settled: Collection[str] | None = None
    #: By what the quick level chooses calls: an operation, and a name.
    chosen_by: tuple[str, str]
    #: Topics of what concerns memory, and of what concerns other calls.
    memory: str = "memory"
    state: str = "state"
    show: Callable[[str, str], Failure] = call_failure
    #: By requirement, the first call that failed it.
    first: dict[str, Failure] = field(default_factory=dict)

    def call(self, topic: str, label: str, *call: Any, quick: bool = False, **options: Any) -> Any:
        """The answer to a call; None where there is none, which is counted, or where it is not made."""
        if not self.scorecard.wants(topic) or not keeps_call(*self.chosen_by, label, quick=quick):
            return None
        answer = run_once(partial(self.session.call, *call, **options))
        if not isinstance(answer, NoAnswer):
            return answer
        if not hides_memory(answer):
            self.scorecard.count_no_answer(topic, label, answer)
        return None

    def settle(self, topic: str, label: str, *, ok: bool, text: str) -> None:
        """Count what a call showed."""
        self.scorecard.count(topic, label, ok=ok, show=partial(self.show, label, text))
        if not ok:
            self.first.setdefault(self.scorecard.tally(topic).id, self.show(label, text))


def judge_history(work: Workload, verbs: Collection[Verb] = tuple(Verb)) -> None:
    """Enter what the calls of a workload show of each other."""
    near = work.session.transport in LOCAL
    if work.session.transport == "results-file":
        return
    equal: str | None = None  # the size of equal calls: the smallest that is settled
    for number, (name, size) in enumerate(work.sizes.items()):
        settled = work.settled is None or name in work.settled
        equal = equal or (name if settled else None)
        pair = work.draw(size, 0), work.draw(size, 1)
        if Verb.PROBE in verbs:
            _probe(work, name, *pair, settled=settled, quick=number < 2)
        if not near:
            continue
        if Verb.REUSE in verbs and settled:
            _reuse(work, name, *pair)
        if Verb.HOLD in verbs:
            _hold(work, name, *pair, times=FEW_HELD if number else HELD)
        if Verb.REPEAT in verbs and name == equal:
            _repeat(work, name, pair[0])
        if Verb.THREADS in verbs and settled:
            _call_at_once(work, name, [work.draw(size, turn) for turn in range(THREADS)], ROUNDS if number < 2 else ROUNDS // 3)


def _probe(work: Workload, name: str, first: Drawn, second: Drawn, *, settled: bool, quick: bool) -> None:
    label = f"{name}: memory"
    found = work.call(work.memory, label, "probe", work.function, first.arguments, second.arguments, quick=quick, **first.options)
    if found is None:
        return
    wrote, changed, again = found
    work.settle(work.memory, f"{name}: input afterwards", ok=not wrote, text="the call wrote into its input")
    work.settle(work.memory, f"{name}: earlier answer", ok=not changed, text="a later call changed what an earlier one had returned")
    text = first.find_mistake(again)
    if settled:
        work.settle(work.state, f"{name}: after another call", ok=not text, text=f"the same call, after another one: {text}")


def _reuse(work: Workload, name: str, first: Drawn, second: Drawn) -> None:
    label = f"{name}: other numbers where those of the last call lay"
    answer = work.call(work.state, label, "reused", work.function, first.arguments, second.arguments, **second.options)
    if answer is not None:
        text = second.find_mistake(answer)
        work.settle(work.state, label, ok=not text, text=text)


def _hold(work: Workload, name: str, first: Drawn, second: Drawn, *, times: int) -> None:
    label = f"{name}: {times} answers held"
    call = "held", times, HELD_SECONDS, work.function, first.arguments, second.arguments
    found = work.call(work.memory, label, *call, **first.options)
    if found is not None:
        changed, made = found
        text = f"a later one of {made} calls changed the answer or the input of call {changed + 1}"
        work.settle(work.memory, label, ok=changed < 0, text=text)


def _repeat(work: Workload, name: str, drawn: Drawn) -> None:
    label = f"{name}: the same call {REPEATS} times"
    found = work.call(work.state, label, "repeated", REPEATS, REPEAT_SECONDS, work.function, *drawn.arguments, **drawn.options)
    if found is not None:
        differs, made = found
        text = f"call {differs + 1} of {made} equal ones returned other bits than the first"
        work.settle(work.state, label, ok=differs < 0, text=text)


def _call_at_once(work: Workload, name: str, drawn: Sequence[Drawn], rounds: int) -> None:
    """A handle may belong to the thread that made it: where calls from other threads are refused, nothing is said."""
    label = f"{name}: {THREADS} threads"
    calls = [(work.function, d.arguments, dict(d.options)) for d in drawn]
    found = work.call(work.state, label, "threads", rounds, calls)
    if found is not None:
        wrong, made = found
        text = f"{wrong} of {made} calls returned other bits when {THREADS} threads called at once"
        work.settle(work.state, label, ok=not wrong, text=text)
