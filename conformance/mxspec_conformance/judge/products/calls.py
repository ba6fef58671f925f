"""Calls of `matmul` about calls: what is written, what is remembered, and what happens in several threads at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mxspec.dot import Accumulator, OperandContract
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.invariance.states import ROUNDS, THREADS, refuses_threads
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.judge.products.variety import find_taken, list_options
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.targets.sessions import TargetSession

OPERATION = "matmul"


def judge_product_calls(
    session: TargetSession, cases: Sequence[ProductCase], accumulator: Accumulator, contract: OperandContract, scorecard: Scorecard,
    *, among: str = "",
) -> None:  # fmt: skip
    """Enter into `memory` and `state` what several calls of one shape tell of each other.

    cases: at least two, of one shape and with different operands, all of whose outputs have one right result: bits may be
    compared however a kernel orders its additions.
    """
    if session.transport not in LOCAL:
        return

    def settle(topic: str, label: str, ok: bool, text: str) -> None:
        told = f"{label}{among}"
        scorecard.count(topic, told, ok=ok, show=partial(call_failure, told, text))

    def ask(topic: str, label: str, call: Callable[[], Any]) -> Any:
        answer = run_once(call)
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer(topic, f"{label}{among}", answer)
            return None
        return answer

    first, second = (_arguments(case) for case in cases[:2])
    alone = ask("memory", "a call alone", partial(session.call, OPERATION, *second))
    if alone is None:
        return
    probed = ask("memory", "a call, another, and the first again", partial(session.call, "probe", OPERATION, first, second))
    if probed is not None:
        wrote, changed, _ = probed
        settle("memory", "operands after a call", not wrote, "the call wrote into its operands")
        settle("memory", "a result after another call", not changed, "a later call changed what an earlier one had returned")
    _probe_added(session, cases[0], cases[1], settle, ask)
    for dtype in session.capabilities.out_dtypes[1:]:
        probed = ask("memory", f"calls in {dtype}", partial(session.call, "probe", OPERATION, *((*x[:-1], dtype) for x in (first, second))))
        if probed is not None:
            settle("memory", f"a result in {dtype} after another call", not probed[1], "a later call changed what an earlier one had returned")
    label = "other operands where those of the last call lay"
    output = ask("state", label, partial(session.call, "reused", OPERATION, first, second))
    if output is not None:
        # Additions of another class than the judged one are judged elsewhere.
        same = output.tobytes() == alone.tobytes() or allow(refer_case(cases[1], contract), cases[1], accumulator).accepts(output).all()
        settle("state", label, bool(same), "the call returned something else than the product of what it was given")
    label = f"{THREADS} threads at once"
    calls = [(OPERATION, _arguments(cases[i % len(cases)]), _add_own(session, cases[0], i)) for i in range(THREADS)]
    made = run_once(partial(session.call, "threads", ROUNDS // 4, calls))
    if refuses_threads(made):
        return
    if isinstance(made, NoAnswer):
        scorecard.count_no_answer("state", f"{label}{among}", made)
    else:
        wrong, total = made
        settle("state", label, not wrong, f"{wrong} of {total} calls returned other bits when {THREADS} threads called at once")


def _probe_added(
    session: TargetSession, first: ProductCase, second: ProductCase, settle: Callable[[str, str, bool, str], None],
    ask: Callable[[str, str, Callable[[], Any]], Any],
) -> None:  # fmt: skip
    """Whether C and bias are written into, or what is returned is one of them."""
    shape = first.a.shape[0], first.b.shape[0]
    for what, options in list_options(*shape, find_taken(session.capabilities), first.out_dtype)[-1:]:
        probed = ask(
            "memory", f"{what}, a call and another",
            partial(session.call, "probe", OPERATION, _arguments(first), _arguments(second), **options),
        )  # fmt: skip
        if probed is not None:
            wrote, changed, _ = probed
            settle("memory", f"{what} after a call", not wrote, "the call wrote into what it was given, C or bias among it")
            settle("memory", f"a result with {what} after another call", not changed, "a later call changed what an earlier one had returned")


def _add_own(session: TargetSession, case: ProductCase, thread: int) -> dict[str, Any]:
    """What one thread adds, unlike every other; half of them add nothing."""
    options = list_options(case.a.shape[0], case.b.shape[0], find_taken(session.capabilities), case.out_dtype)
    if thread % 2 or not options:
        return {}
    return {name: x + x.dtype.type(thread) if name in ("c", "bias") else x for name, x in options[-1][1].items()}


def _arguments(case: ProductCase) -> tuple[Any, ...]:
    return case.a.as_data(), case.b.as_data(), case.out_dtype
