"""Calls of `matmul` one after another and at once: what is written, what is remembered, and what happens in several threads at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from mxspec.dot import Accumulator, OperandContract
from mxspec_conformance.judge.invariance.history import Drawn, Size, Verb, Workload, judge_history
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.editing import take_rows
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.judge.products.variety import find_taken, list_options
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.targets.operands import Product
from mxspec_conformance.targets.product_sizes import find_sizes
from mxspec_conformance.targets.sessions import TargetSession

OPERATION = "matmul"


def judge_product_calls(
    session: TargetSession, cases: Sequence[ProductCase], accumulator: Accumulator, contract: OperandContract, scorecard: Scorecard,
    *, verbs: Collection[Verb] = tuple(Verb),
) -> None:  # fmt: skip
    """Enter into `memory` and `state` what several calls of one shape show of each other.

    cases: at least two, of one shape and with different operands, all of whose outputs have one right result: bits may be
    compared however a kernel orders its additions.
    """
    (m, k), n = cases[0].a.shape, cases[0].b.shape[0]
    name, dtype = f"{m} x {n} x {k}", cases[0].out_dtype
    added = list_options(m, n, find_taken(session.capabilities), dtype)[-1:]

    @cache
    def answer_alone(number: int) -> Any:
        return run_once(partial(session.call, OPERATION, *_arguments(cases[number])))

    def turn(number: int) -> tuple[int, int]:
        """How far the rows of a and of b are turned: so each number has operands of its own."""
        return number // len(cases) % m, number // len(cases) // m % n

    def make_case(number: int) -> ProductCase:
        case, (rows, columns) = cases[number % len(cases)], turn(number)
        a, b = (take_rows(side, np.roll(np.arange(size), by)) for side, size, by in ((case.a, m, rows), (case.b, n, columns)))
        return replace(case, a=a, b=b)

    def is_right(case: ProductCase, output: Any) -> bool:
        return bool(allow(refer_case(case, contract), case, accumulator).accepts(output).all())

    @cache
    def is_right_alone(number: int) -> bool:
        return not isinstance(answer_alone(number), NoAnswer) and is_right(cases[number], answer_alone(number))

    def find_mistake(number: int, output: Any) -> str:
        alone, case = answer_alone(number % len(cases)), make_case(number)
        same = not isinstance(alone, NoAnswer) and output.tobytes() == np.roll(alone, turn(number), (0, 1)).tobytes()
        if not same and not is_right_alone(number % len(cases)):  # judged elsewhere, as additions of another class are
            again = run_once(partial(session.call, OPERATION, *_arguments(case)))
            same = not isinstance(again, NoAnswer) and output.tobytes() == again.tobytes()
        elif not same:
            same = is_right(case, output)
        return "" if same else "the call returned something else than the product of what it was given"

    def draw(_: Size, number: int) -> Drawn:
        return Drawn(_arguments(make_case(number)), find_mistake=partial(find_mistake, number))

    def draw_in(out_dtype: str, _: Size, number: int) -> Drawn:
        return Drawn(_arguments(replace(cases[number % len(cases)], out_dtype=out_dtype)))

    def draw_added(options: Mapping[str, Any], _: Size, number: int) -> Drawn:
        return Drawn(_arguments(cases[number % len(cases)]), options)

    def draw_own(_: Size, number: int) -> Drawn:
        """Every second call adds something, unlike each other."""
        options = {} if number % 2 or not added else {
            option: x + x.dtype.type(number) if option in ("c", "bias") else x for option, x in added[0][1].items()
        }  # fmt: skip
        return Drawn(_arguments(cases[number % len(cases)]), options)

    def draw_rows(rows: Size, number: int) -> Drawn:
        case = cases[number % len(cases)]
        return Drawn(_arguments(replace(case, a=take_rows(case.a, np.arange(rows)))))

    def judge(name: str, draw: Callable[[Size, int], Drawn], *verbs: Verb, sizes: Mapping[str, Size] | None = None) -> None:
        work = Workload(session=session, function=OPERATION, scorecard=scorecard, draw=draw, sizes=sizes or {name: None})
        judge_history(work, verbs)

    for number in range(len(cases)):
        answer_alone(number)  # before anything else is asked
    if isinstance(answer_alone(1), NoAnswer):
        scorecard.count_no_answer("memory", f"{name}: a call alone", answer_alone(1))
        return
    judge(name, draw, *(set(verbs) - {Verb.THREADS, Verb.SIZES}))
    for label, options in added if Verb.PROBE in verbs else ():
        judge(f"{name}, {label}", partial(draw_added, options), Verb.PROBE, Verb.HOLD)
    for other in session.capabilities.out_dtypes[1:] if Verb.PROBE in verbs else ():
        judge(f"{name} in {other}", partial(draw_in, other), Verb.PROBE, Verb.HOLD)
    if Verb.THREADS in verbs:
        judge(name, draw_own, Verb.THREADS)
    step = find_sizes(Product(a=cases[0].a.spec, b=cases[0].b.spec), session.capabilities.product_shapes).m
    if Verb.SIZES in verbs and (fewer := (m // 2 // step or (m - 1) // step) * step):
        judge(name, draw_rows, Verb.SIZES, sizes={f"{fewer} x {n} x {k}": fewer, name: m})


def _arguments(case: ProductCase) -> tuple[Any, ...]:
    return case.a.as_data(), case.b.as_data(), case.out_dtype
