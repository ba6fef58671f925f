"""The axes of history and memory: an answer depends on no call before it, none at the same time, and not on where inputs lie.

Each operation describes its calls as a `Workload`; what is done with them is the same for all. A value that is added here is
judged of every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.changes import find_arrays, list_changed, list_spliced
from mxspec_conformance.judge.invariance.others import list_others
from mxspec_conformance.judge.invariance.reach import LOCAL, REFUSALS, hides_memory
from mxspec_conformance.judge.tally import LIMITED, Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.observations.selection import makes_call, selects
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import ARRANGEMENTS, MATRIX_ARRANGEMENTS
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.targets.sessions import TargetSession

#: Equal calls, more than 8 and 10 bits count, and the seconds that they may take.
REPEATS, REPEAT_SECONDS = 1100, 0.3
#: The same at the quick level: more than a byte counts.
QUICK_REPEATS, QUICK_REPEAT_SECONDS = 300, 0.2
#: Calls whose answers are held, of the smallest size, and the seconds; and of each size, of which a kernel may keep a few buffers.
HELD, HELD_SECONDS, FEW_HELD = 300, 0.1, 16
#: Threads, and calls of each.
THREADS, ROUNDS = 4, 6
#: How inputs lie in memory: all of them, and of several inputs each alone.
VIEWS = (*ARRANGEMENTS[1:-2], *(name for name in MATRIX_ARRANGEMENTS if name != "windows"))
#: Calls by which number one is drawn: each follows others, so that what is kept by less than all of a call is not kept yet.
TWIN_CALLS, OTHER_CALLS, THREAD_CALLS = 100, 300, 400

#: The first formats of a function are asked every verb; each of those behind them every so many, other ones of each.
FORMATS_IN_FULL, VERB_SHARE = 3, 3
#: What is expected of a call that may be refused.
REFUSED = "refused, or answered rightly"
#: Rows and columns, or whatever else tells a workload how large a call is.
Size = Any
#: A call among others at once: function, arguments, options.
AtOnce = tuple[str, tuple[Any, ...], dict[str, Any]]
#: A call that is the same as another but for something: what, its arguments, its options.
Twin = tuple[str, tuple[Any, ...], Mapping[str, Any]]


class Verb(Enum):
    """What is done with the calls of a workload."""

    #: A call, another, and the first again: neither writes into an input, or into the answer of the other.
    PROBE = "probe"
    #: Inputs that are views of larger arrays, or of others' memory.
    VIEWS = "views"
    #: Other numbers where those of the last call lay.
    REUSE = "reuse"
    #: Many calls whose inputs and answers are held, and stay as they are.
    HOLD = "hold"
    #: The same call, again and again.
    REPEAT = "repeat"
    #: Calls at once, of one size.
    THREADS = "threads"
    #: Calls at once, of several sizes.
    SIZES = "sizes"
    #: A call after one that is the same but for one thing, and where such a one lay.
    TWINS = "twins"
    #: A call after calls of other functions and formats, and at the same time as such.
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A call."""

    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    #: What is wrong with an answer, in words; empty: nothing.
    find_mistake: Callable[[Any], str] = lambda _: ""
    #: (label, wrong answer, how inputs lay) -> the failure, where there is more to see than words; None: as the workload shows it.
    show: Callable[[str, Any, str], Failure] | None = None
    #: The same items without options that say how they lie; None: this call is that.
    plain: Drawn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An operation's calls, and where what they show is entered."""

    session: TargetSession
    function: str
    scorecard: Scorecard
    #: (size, number) -> a call of that size: of other items for each number, for what is kept of a call answers it for ever. Calls 0 and
    #: 1 have the same options.
    draw: Callable[[Size, int], Drawn]
    #: Sizes by name, the smallest first.
    sizes: Mapping[str, Size]
    #: Sizes of which every byte of an answer is specified; None: all. Those for which the quick level makes every call; None: two.
    settled: Collection[str] | None = None
    quick: Collection[str] | None = None
    #: Calls that are the same as a given one but for something: (what, arguments, options), in addition to those with other arrays.
    list_twins: Callable[[Drawn], Iterable[Twin]] = lambda _: ()
    #: Whether calls with other arrays are made.
    changes_arrays: bool = True
    #: By how many formats of the function this one follows the first.
    turn: int = 0
    #: Topics of what concerns memory, other calls, and sizes and contents; and what stands before a size in labels.
    memory: str = "memory"
    state: str = "state"
    size: str = "call-size"
    prefix: str = ""
    show: Callable[[str, str], Failure] = call_failure
    #: By requirement, the first call that failed it.
    first: dict[str, Failure] = field(default_factory=dict)

    def call(self, topic: str, label: str, *call: Any, quick: bool = False, **options: Any) -> Any:
        """The answer to a call; None where there is none, which is counted, or where it is not made."""
        if not self.keeps(topic, quick=quick):
            return None
        answer = run_once(partial(self.session.call, *call, **options))
        if not isinstance(answer, NoAnswer):
            return answer
        if not hides_memory(answer):
            self.scorecard.count_no_answer(topic, label, answer)
        return None

    def keeps(self, topic: str, *, quick: bool = False) -> bool:
        """Whether a call is made."""
        return self.scorecard.wants(topic) and makes_call(quick=quick)

    def is_quick(self, name: str) -> bool:
        """Whether the quick level makes every call of a size."""
        return name in (list(self.sizes)[:2] if self.quick is None else self.quick)

    def settle(self, topic: str, label: str, *, ok: bool, text: str) -> None:
        """Count what a call showed."""
        show = partial(call_failure, label, text, REFUSED) if topic == "refusal" else partial(self.show, label, text)
        self.scorecard.count(topic, label, ok=ok, show=show)
        if not ok:
            self.first.setdefault(self.scorecard.tally(topic).id, show())

    def enter(
        self, topic: str, label: str, drawn: Drawn | Callable[[], Drawn], *before: str, quick: bool = False, may_refuse: bool = False,
        again: bool = False,
    ) -> bool:  # fmt: skip
        """Make a call and count it; whether it was answered.

        drawn: drawn now where it is made. before: a verb that holds the call, and its argument. may_refuse: nobody promised such calls.
        again: a call of this size was answered, so that the size is not why this one is refused.
        """
        if not self.keeps(topic, quick=quick):
            return False
        if not isinstance(drawn, Drawn):
            drawn = drawn()
        answer = run_once(partial(self.session.call, *before, self.function, *drawn.arguments, **drawn.options))
        if not isinstance(answer, NoAnswer):
            self.judge(label, drawn, answer, topic=topic, view=before[1] if before[:1] == ("arranged",) else "contiguous")
            return True
        if again and answer.is_refusal:
            self.scorecard.count_no_answer(self.state, label, answer)
        elif not (may_refuse and answer.is_refusal):
            limited = topic not in LIMITED and self._is_limit(drawn, answer)
            self.scorecard.count_no_answer(topic, label, unsupported(answer.message) if limited else answer)
        return False

    def _is_limit(self, drawn: Drawn, refused: NoAnswer) -> bool:
        """Whether a refusal says nothing of a call but its size: the same items are refused in a plain call, too, and few are not.

        What raises only after another call, or from then on for every call, is no limit.
        """
        if not refused.is_refusal or not self.sizes:
            return False
        few = self.draw(next(iter(self.sizes.values())), 0)
        whole, one = (
            run_once(partial(self.session.call, self.function, *d.arguments, **d.options)) for d in (drawn.plain or drawn, few.plain or few)
        )
        return isinstance(whole, NoAnswer) and whole.is_refusal and not isinstance(one, NoAnswer)

    def judge(self, label: str, drawn: Drawn, answer: Any, *, before: str = "", topic: str = "", view: str = "contiguous") -> None:
        """Count the answer to a call; view: how its inputs lay."""
        text = drawn.find_mistake(answer)
        text = text and before + text
        shown = self.show(label, text) if drawn.show is None or not text else drawn.show(label, answer, view)
        self.scorecard.count(topic or self.state, label, ok=not text, show=lambda: shown, view=view)
        if text:
            self.first.setdefault(self.scorecard.tally(topic or self.state).id, shown)


def judge_refusable(
    work: Workload, label: str, *call: Any, after: Drawn | None = None, find_mistake: Callable[[Any], str] = lambda _: "",
    malformed: str | None = None, lost: bool = True, quick: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Count a call that may be refused, and the call after it, which is as any other.

    after: that call. find_mistake: what is wrong with an answer. malformed: what is wrong where one of another form comes back; None: it
    is noticed by whoever gets it, and nothing is counted. lost: whether what is neither answered nor refused is counted.

    Returns:
        The answer, or why there is none; None where the call is not made.
    """
    if not work.scorecard.wants("refusal", work.state) or not makes_call(quick=quick):
        return None
    answer = run_once(partial(work.session.call, *call, **options))
    text = ""
    if not isinstance(answer, NoAnswer):
        text = find_mistake(answer)
    elif answer.kind is FailureKind.BAD_RETURN:
        if malformed is None:
            return answer
        text = malformed
    elif answer.kind not in REFUSALS:
        if lost:
            work.scorecard.count_no_answer("refusal", label, answer)
        return answer
    work.settle("refusal", label, ok=not text, text=text)
    if isinstance(answer, NoAnswer) and after is not None and not text:
        work.enter(work.state, f"{work.prefix}after a refusal, {label}", after, quick=True)
    return answer


def judge_nothing(work: Workload, label: str, what: str, drawn: Drawn, after: Drawn) -> None:
    """Count a call with nothing in it, which returns nothing or is refused, and the call after it. Code that fails refuses nothing."""
    if not work.scorecard.wants("refusal", work.state):
        return
    answer = run_once(partial(work.session.call, work.function, *drawn.arguments, **drawn.options))
    if isinstance(answer, NoAnswer) and answer.kind not in (*REFUSALS, FailureKind.BAD_RETURN):
        work.scorecard.count_no_answer("refusal", label, answer)
    else:
        failed = isinstance(answer, NoAnswer) and (answer.kind is FailureKind.BAD_RETURN or answer.is_defect)
        text = f"{answer.message}; return {what}, or refuse such a call" if failed else ""
        work.settle("refusal", label, ok=not failed, text=text)
    work.enter(work.state, f"{work.prefix}after a call with {what}", after, quick=True)


def judge_history(work: Workload, verbs: Collection[Verb] = tuple(Verb)) -> None:
    """Enter what the calls of a workload show of each other."""
    near = work.session.transport in LOCAL
    if work.session.transport == "results-file" or not work.sizes:
        return
    if work.turn >= FORMATS_IN_FULL:
        shared = [verb for verb in Verb if verb not in (Verb.PROBE, Verb.REUSE)]
        verbs = {verb for verb in verbs if verb not in shared or (shared.index(verb) + work.turn) % VERB_SHARE == 0}
    settled = [name for name in work.sizes if work.settled is None or name in work.settled]
    for number, (name, size) in enumerate(work.sizes.items()):
        pair = work.draw(size, 0), work.draw(size, 1)
        if Verb.PROBE in verbs:
            _probe(work, name, *pair, settled=name in settled, quick=number < 2 or work.is_quick(name))
        if not near:
            continue
        if Verb.VIEWS in verbs and number in (min(1, len(work.sizes) - 1), len(work.sizes) - 1):
            _view(work, name, pair[0], small=number < 2)
        if Verb.REUSE in verbs and name in settled:
            _reuse(work, name, *pair)
        if Verb.HOLD in verbs:
            _hold(work, name, *pair, times=FEW_HELD if number else HELD, settled=name in settled)
        if Verb.REPEAT in verbs and [name] == settled[:1]:
            _repeat(work, name, pair[0])
        if Verb.THREADS in verbs and name in settled:
            _call_at_once(work, f"{name}: {THREADS} threads", [size] * THREADS, quick=work.is_quick(name), part=1 if number < 2 else 3)
    if not settled:
        return
    if Verb.TWINS in verbs:
        _call_after_twins(work, settled[min(1, len(settled) - 1)], near=near)
    if Verb.OTHERS in verbs:
        _call_after_others(work, settled[0])
        if near:
            _call_with_others(work, settled[0])
    if Verb.SIZES in verbs and near and len(settled) > 1:
        sizes = [work.sizes[settled[number % len(settled)]] for number in range(THREADS)]
        _call_at_once(work, f"{settled[0]}: {THREADS} threads, {min(len(settled), THREADS)} sizes", sizes, quick=work.is_quick(settled[0]))


def _probe(work: Workload, name: str, first: Drawn, second: Drawn, *, settled: bool, quick: bool) -> None:
    label = f"{name}: memory"
    of_memory, of_state = (work.keeps(topic, quick=quick) for topic in (work.memory, work.state))
    if not of_memory and not (of_state and settled):
        return
    call = partial(work.session.call, "probe", work.function, first.arguments, second.arguments, **first.options)
    found: Any = run_once(call)
    if isinstance(found, NoAnswer):
        if of_memory and not hides_memory(found):
            work.scorecard.count_no_answer(work.memory, label, found)
        return
    wrote, changed, again = found
    if of_memory:
        work.settle(work.memory, f"{name}: input afterwards", ok=not wrote, text="the call wrote into its input")
        text = "a later call changed what an earlier one had returned"
        work.settle(work.memory, f"{name}: earlier answer", ok=not changed, text=text)
    if of_state and settled:
        work.judge(f"{name}: after another call", first, again, before="the same call, after another one: ")


def _view(work: Workload, name: str, drawn: Drawn, *, small: bool) -> None:
    """small: each of several inputs is a view alone, too, and rows lie far apart."""
    if not work.scorecard.wants(work.memory) or not _is_right(work, drawn):
        return
    count = len(find_arrays(drawn.arguments)) + len(find_arrays(tuple(drawn.options.values())))
    for view in VIEWS:
        for alone in (None, *range(count)) if small and count > 1 else (None,):
            label = f"{name}, {view}" + ("" if alone is None else f", input {alone + 1} alone")
            if view == "far-slice" and not small:
                continue
            which = view if alone is None else f"{view}@{alone}"
            quick = small and alone is None
            # A target may refuse what is not contiguous.
            work.enter(work.memory, label, drawn, "arranged", which, quick=quick, may_refuse=view != "offset")


def _reuse(work: Workload, name: str, first: Drawn, second: Drawn) -> None:
    for before, where in (((), ""), (("arranged", "read-only"), ", which the function must not write")):
        label, quick = f"{name}: other numbers where those of the last call lay{where}", work.is_quick(name) and not before
        call = *before, "reused", work.function, first.arguments, second.arguments
        answer = work.call(work.state, label, *call, quick=quick, **second.options)
        if answer is not None:
            work.judge(label, second, answer)


def _hold(work: Workload, name: str, first: Drawn, second: Drawn, *, times: int, settled: bool) -> None:
    """settled: equal calls have equal answers."""
    label = f"{name}: {times} answers held"
    call = "held", times, HELD_SECONDS, work.function, first.arguments, second.arguments
    quick = work.is_quick(name)
    topic = work.state if settled and not work.keeps(work.memory, quick=quick) else work.memory
    found = work.call(topic, label, *call, quick=quick, **first.options)
    if found is not None:
        changed, differs, made = found
        if settled:
            text = f"call {differs + 1} of {made}, in which two calls alternate, returned other bits than the same call before"
            work.settle(work.state, label, ok=differs < 0, text=text)
        text = f"a later one of {made} calls changed the answer or the input of call {changed + 1}"
        work.settle(work.memory, label, ok=changed < 0, text=text)


def _repeat(work: Workload, name: str, drawn: Drawn) -> None:
    times, seconds = REPEATS, REPEAT_SECONDS
    if not work.keeps(work.state) and work.is_quick(name):
        times, seconds = QUICK_REPEATS, QUICK_REPEAT_SECONDS
    label = f"{name}: the same call {times} times"
    found = work.call(
        work.state, label, "repeated", times, seconds, work.function, *drawn.arguments, quick=work.is_quick(name), **drawn.options
    )
    if found is not None:
        differs, made = found
        text = f"call {differs + 1} of {made} equal ones returned other bits than the first"
        work.settle(work.state, label, ok=differs < 0, text=text)


def _call_at_once(work: Workload, label: str, sizes: Sequence[Size], others: Sequence[AtOnce] = (), *, quick: bool, part: int = 1) -> None:
    """A handle may belong to the thread that made it: where calls from other threads are refused, nothing is said."""
    drawn = [work.draw(size, THREAD_CALLS + number) for number, size in enumerate(sizes)]
    calls = [*((work.function, d.arguments, dict(d.options)) for d in drawn), *others]
    rounds = max(ROUNDS // part // (4 if selects() else 1), 2)
    found = work.call(work.state, label, "threads", rounds, calls, quick=quick)
    if found is not None:
        wrong, made = found
        text = f"{wrong} of {made} calls returned other bits when {len(calls)} threads called at once"
        work.settle(work.state, label, ok=not wrong, text=text)


def _ask_after(work: Workload, label: str, drawn: Drawn, *call: Any, quick: bool, **options: Any) -> None:
    """The answer to a call that was answered before, which may not be refused now."""
    if work.keeps(work.state, quick=quick):
        answer = run_once(partial(work.session.call, *call, **options))
        if isinstance(answer, NoAnswer):
            work.scorecard.count_no_answer(work.state, label, answer)
        else:
            work.judge(label, drawn, answer)


def _is_right(work: Workload, drawn: Drawn) -> bool:
    """Whether a call by itself is answered as it has to be: what is wrong whatever came before is judged elsewhere."""
    answer = run_once(partial(work.session.call, work.function, *drawn.arguments, **drawn.options))
    return not isinstance(answer, NoAnswer) and not drawn.find_mistake(answer)


def _call_after_twins(work: Workload, name: str, *, near: bool) -> None:
    """What is kept by less than all of a call, or of where its inputs lie, is wrong."""
    size, quick = work.sizes[name], work.is_quick(name)
    if not work.scorecard.wants(work.state) or not _is_right(work, work.draw(size, TWIN_CALLS)):
        return
    for turn, (what, *_) in enumerate(_list_twins(work, size, TWIN_CALLS)):
        drawn = work.draw(size, TWIN_CALLS + 1 + turn)
        _, given, options = next(islice(_list_twins(work, size, TWIN_CALLS + 1 + turn), turn, None))
        label = f"{name}: after a call that is the same except for {what}"
        if work.keeps(work.state, quick=quick):
            run_once(partial(work.session.call, work.function, *given, **options))  # what it returns is judged elsewhere
            _ask_after(work, label, drawn, work.function, *drawn.arguments, quick=quick, **drawn.options)
        if near and options is drawn.options and _lie_alike(given, drawn.arguments):
            label = f"{name}: where a call lay that is the same except for {what}"
            if work.keeps(work.state, quick=quick):
                answer = run_once(partial(work.session.call, "reused", work.function, given, drawn.arguments, **drawn.options))
                # Where the twin is refused, its memory tells nothing.
                if not isinstance(answer, NoAnswer):
                    work.judge(label, drawn, answer)


def _list_twins(work: Workload, size: Size, number: int) -> Iterator[Twin]:
    """Twins of a call, as many of each."""
    drawn = work.draw(size, number)
    yield from work.list_twins(drawn)
    if not work.changes_arrays:
        return
    other = work.draw(size, number + TWIN_CALLS)
    # Whole rows of another call: whatever arrays mean together, they mean still.
    yield from ((what, given, drawn.options) for what, given in list_spliced(drawn.arguments, other.arguments))
    yield from ((what, given, drawn.options) for what, given in list_changed(drawn.arguments))
    arrays = {option: value for option, value in drawn.options.items() if isinstance(value, np.ndarray)}
    for what, changed in list_changed(tuple(arrays.values())):
        yield f"{what} of {' and '.join(arrays)}", drawn.arguments, {**drawn.options, **dict(zip(arrays, changed, strict=True))}


def _lie_alike(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether inputs may lie in the same memory."""
    shapes = [[(a.shape, a.dtype) for _, a in find_arrays(part)] for part in (first, second)]
    return shapes[0] == shapes[1]


def _call_after_others(work: Workload, name: str) -> None:
    size, quick = work.sizes[name], work.is_quick(name)
    if not work.scorecard.wants(work.state) or not _is_right(work, work.draw(size, OTHER_CALLS)):
        return
    for turn, other in enumerate(list_others(work.session, work.function, work.scorecard.format)):
        drawn, label = work.draw(size, OTHER_CALLS + 1 + turn), f"{name}: after {other.name}"
        if work.keeps(work.state, quick=quick):
            run_once(partial(work.session.call, *other.call, **other.options))  # what it returns is judged elsewhere
            _ask_after(work, label, drawn, work.function, *drawn.arguments, quick=quick, **drawn.options)


def _call_with_others(work: Workload, name: str) -> None:
    """A function, in others of its formats, and the others that the target offers, at once: they may share a workspace, or a word.

    The other functions are called once, with the first of them.
    """
    first = min(work.session.capabilities.functions, key=list(OPERATIONS).index) == work.function
    plain = {o.name: o for o in list_others(work.session, work.function, work.scorecard.format) if not o.special}
    own_formats = [o for o in plain.values() if o.function == work.function][:1]
    others = own_formats + [o for o in plain.values() if first and o.function != work.function]
    answered = [o for o in others if not isinstance(run_once(partial(work.session.call, *o.call, **o.options)), NoAnswer)]
    if answered:
        own = [work.sizes[name]] * max(THREADS - len(answered), 1)
        label = f"{name}: {len(own) + len(answered)} threads, with calls of {', '.join(dict.fromkeys(o.function for o in answered))}"
        _call_at_once(work, label, own, [(o.function, o.arguments, dict(o.options)) for o in answered], quick=work.is_quick(name))
