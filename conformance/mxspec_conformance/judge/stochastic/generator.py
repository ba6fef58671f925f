"""Judging `quantize` where it rounds by random numbers of its own.

What has to hold in every draw is a contract: one of the two codes adjacent to the quotient, a value of the format as it is, zeros as
zeros, the largest element beyond it. What has to hold on average is tested with binomial bounds, so that a right target is
accused with a probability of at most `FALSE_ALARM` in a run.
"""

from __future__ import annotations

import time
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_codes
from mxspec.formats import BlockFormat
from mxspec_conformance.counterexample.evidence import show_code
from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.judge.invariance.history import Drawn, Verb, Workload, judge_history
from mxspec_conformance.judge.stochastic.binomial import FALSE_ALARM, BinomialTest, find_refuted
from mxspec_conformance.judge.stochastic.inputs import AGAIN, MISSING, SEEDS, Draws, list_draws, list_other_ways
from mxspec_conformance.judge.stochastic.statistics import (
    Answer,
    list_dependences,
    list_dependences_of_halves,
    list_dependences_of_seeds,
    list_frequencies,
    read_answer,
)
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import cast_input, preferred_dtype
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.points import float_bits
from mxspec_vectors.tensor_scales import TensorScales

#: Numbers in the largest calls. All calls of a format together draw fewer than 2**20 times.
NUMBERS = 1 << 17
#: Those of results files, in which every call is stored, and of targets that need this many seconds for a small call.
NUMBERS_STORED, NUMBERS_SLOW, SLOW = 1 << 14, 1 << 13, 0.5
#: Rows of the calls for seeds that differ in one bit, of so many bits: few, for seeds are small.
FEW_ROWS, SEED_BITS = 1, 12
#: What is done with seeded calls; a generator may be one for all threads.
WATCHED = (Verb.PROBE, Verb.REUSE, Verb.HOLD, Verb.REPEAT)
#: The maximum with which a tensor scale of any kind is 1, or stands for it.
UNIT_MAXIMUM = TensorScales.from_amax(float_bits(2688))


def judge_generator(session: TargetSession, fmt: BlockFormat, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter the draws of a quantizer with a generator of its own."""
    capabilities = session.capabilities
    seeded = capabilities.has("quantize", "seed")
    numbers = _choose_numbers(session, fmt)
    draws = list_draws(fmt, preferred_dtype(capabilities.dtypes), numbers, seeded=seeded)
    ways = list_other_ways(fmt, capabilities, numbers) if numbers == NUMBERS else []
    found = [_ask(session, fmt, call, scorecard) for call in (*draws, *ways)]
    answers = [answer for answer in found if answer is not None]
    for answer in answers:
        _enter_contract(answer, fmt, scorecard)
    tests = [t for a in answers if a.draws.frequencies for t in list_frequencies(a, fmt)]
    tests += [t for a in answers if a.draws.independence for t in list_dependences(a)]
    tests += [t for a in [a for a in answers if a.draws.independence][:1] for t in list_dependences_of_halves(a)]
    if seeded:
        of_seeds = _find_seeded(answers, draws)
        tests += list_dependences_of_seeds(of_seeds)
        _enter_repeats(session, fmt, of_seeds, scorecard)
        _enter_bits_of_seeds(session, fmt, of_seeds, scorecard)
        judge_history(_make_workload(session, fmt, scorecard), WATCHED)
    _enter_tests(tests, capabilities, scorecard)
    return {}


def _find_seeded(answers: list[Answer], draws: list[Draws]) -> list[Answer]:
    """The answers to the last calls, which differ in their seeds alone."""
    last = draws[-len(SEEDS) :]
    return [a for a in answers if any(a.draws is call for call in last)]


def _choose_numbers(session: TargetSession, fmt: BlockFormat) -> int:
    if session.transport == "results-file":
        return NUMBERS_STORED
    x = np.ones((64, fmt.k), np.float32)
    # The first call may compile, or load what it needs.
    run_once(partial(_call, session, fmt, x, 0))
    started = time.monotonic()
    run_once(partial(_call, session, fmt, x, 0))
    return NUMBERS if time.monotonic() - started < SLOW else NUMBERS_SLOW


def _arguments(
    session: TargetSession, fmt: BlockFormat, x: npt.NDArray[np.float32], seed: int, dtype: str = "", **options: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:  # fmt: skip
    """The arguments and options of a call."""
    capabilities = session.capabilities
    extra: dict[str, Any] = options | ({"seed": seed} if capabilities.has("quantize", "seed") else {})
    if not capabilities.one_level:
        extra |= tensor_argument(UNIT_MAXIMUM, capabilities)
    return (cast_input(np.ascontiguousarray(x), dtype or preferred_dtype(capabilities.dtypes)), fmt.name), extra


def _call(
    session: TargetSession, fmt: BlockFormat, x: npt.NDArray[np.float32], seed: int, dtype: str = "", **options: Any
) -> Any:  # fmt: skip
    arguments, extra = _arguments(session, fmt, x, seed, dtype, **options)
    return session.call("quantize", *arguments, **extra)


def _make_workload(session: TargetSession, fmt: BlockFormat, scorecard: Scorecard) -> Workload:
    """Seeded calls, each with numbers and a seed of its own: what is answered then is what the first such call was answered."""
    numbers = (np.arange(fmt.k, dtype=np.float32).reshape(-1, fmt.k) % 61 + np.float32(0.3)) / 8

    @cache
    def ask_first(number: int) -> Any:
        return run_once(partial(_call, session, fmt, np.roll(numbers, number), 40 + number))

    def draw(_: Any, number: int) -> Drawn:
        first = ask_first(number)

        def find_mistake(answer: Any) -> str:
            same = isinstance(first, NoAnswer) or all(map(np.array_equal, first, answer))
            return "" if same else "a call with the same numbers and the same seed was answered otherwise before"

        return Drawn(*_arguments(session, fmt, np.roll(numbers, number), 40 + number), find_mistake)

    return Workload(
        session=session, function="quantize", scorecard=scorecard, draw=draw, sizes={f"seeded, 1 x {fmt.k}": None},
        memory="seed", state="seed",
    )  # fmt: skip


def _ask(session: TargetSession, fmt: BlockFormat, draws: Draws, scorecard: Scorecard) -> Answer | None:
    got = run_once(partial(_call_one_way, session, fmt, draws))
    if isinstance(got, NoAnswer):
        scorecard.count_no_answer("neighbour", draws.name, got)
        return None
    codes, scales = got
    return read_answer(draws, codes, scales, fmt)


def _call_one_way(session: TargetSession, fmt: BlockFormat, draws: Draws) -> tuple[Any, Any]:
    """Codes and scales of a call in its dtype and with its options, as if it had neither."""
    x, options = draws.x, draws.options
    extra: dict[str, Any] = {}
    if "pad" in options:
        x, extra["pad"] = x[:, :-MISSING], True
    if "block" in options:
        extra["block"] = fmt.shapes[1]
    if "tensor_scale" in options:
        extra |= tensor_argument(UNIT_MAXIMUM, session.capabilities)
    if "axis" not in options:
        codes, scales = _call(session, fmt, x, draws.seed, draws.dtype, **extra)
        return codes, scales
    codes, scales = _call(session, fmt, x.T, draws.seed, draws.dtype, axis=0, **extra)
    return codes.T, scales.T


def _enter_contract(answer: Answer, fmt: BlockFormat, scorecard: Scorecard) -> None:
    """Every row once for each kind of number that it holds."""
    element = fmt.element
    right = answer.is_low | answer.is_high
    beyond = np.abs(answer.quotients) > float(element.max_value)
    if element.twos_complement:  # the lowest code may be used from -127/64 down
        right |= (answer.codes == element.sign_bit) & beyond & (answer.quotients < 0)
    zero_blocks = np.repeat(~answer.draws.x.reshape(len(answer.codes), -1, fmt.k).any(axis=-1), fmt.k, axis=-1)
    zeros = np.isin(answer.codes, answer.zeros)
    clear = answer.clear
    kinds = {
        "zero-block": (zero_blocks, zeros & ~np.isnan(decode_codes(np.minimum(answer.scales, fmt.scale.code_count - 1), fmt.scale))),
        "overflow": (clear & beyond & ~zero_blocks, right),
        "exact": (clear & ~beyond & (answer.fractions == 0) & ~zero_blocks, right),
        "neighbour": (clear & ~beyond & (answer.fractions > 0) & ~zero_blocks, right),
    }
    # Under a scale of zero, or of none, no quotient is known; a block of numbers has another one.
    kinds["neighbour"] = kinds["neighbour"][0] | (~clear & ~np.isfinite(answer.quotients) & ~zero_blocks), right & clear
    for topic, (asked, ok) in kinds.items():
        for row in np.flatnonzero(asked.any(axis=1)).tolist():
            wrong = np.flatnonzero(asked[row] & ~ok[row])
            label = f"{answer.draws.name}, row {row}"
            show = partial(_show_lane, label, answer, row, int(wrong[0]), fmt) if wrong.size else None
            scorecard.count(topic, label, ok=not wrong.size, show=show)


def _show_lane(label: str, answer: Answer, row: int, lane: int, fmt: BlockFormat) -> Failure:
    low, high, code = (int(a[row, lane]) for a in (answer.low, answer.high, answer.codes))
    allowed = show_code(low, fmt.element) if low == high else f"{show_code(low, fmt.element)}, or {show_code(high, fmt.element)}"
    return Failure(
        case=label,
        given={
            "number": describe_bits(float(answer.draws.x[row, lane])), "lane": str(lane), "seed": str(answer.draws.seed),
            "scale byte": f"{int(answer.scales[row, lane]):02x}", "quotient": repr(float(answer.quotients[row, lane])),
        },
        expected={"code": allowed}, returned={"code": show_code(code, fmt.element)},
    )  # fmt: skip


def _enter_repeats(session: TargetSession, fmt: BlockFormat, answers: list[Answer], scorecard: Scorecard) -> None:
    """The same seed gives the same bits, another one others."""
    for answer in answers:
        if answer.draws.seed not in AGAIN:
            continue
        label = f"seed {answer.draws.seed} again"
        got = run_once(partial(_call, session, fmt, answer.draws.x, answer.draws.seed))
        if isinstance(got, NoAnswer):
            scorecard.count_no_answer("seed", label, got)
            continue
        differs = int((got[0] != answer.codes).sum() + (np.repeat(got[1], fmt.k, axis=-1) != answer.scales).sum())
        _settle(scorecard, label, differs == 0, "the same bits", f"{differs} other ones", "two calls with one seed differ")
    for first, second in pairwise(answers):
        label = f"seeds {first.draws.seed} and {second.draws.seed}"
        differs = int((first.codes != second.codes).sum())
        _settle(scorecard, label, differs > 0, "other codes", "the same codes", "the seed does not change the codes")


def _enter_bits_of_seeds(session: TargetSession, fmt: BlockFormat, answers: list[Answer], scorecard: Scorecard) -> None:
    """Seeds that differ in one bit give other codes."""
    if session.transport == "results-file" or not answers:
        return
    x = answers[0].draws.x[:FEW_ROWS]
    known: dict[bytes, int] = {}
    for seed in (0, *(1 << bit for bit in range(SEED_BITS))):
        got = run_once(partial(_call, session, fmt, x, seed))
        if isinstance(got, NoAnswer):
            scorecard.count_no_answer("seed", f"seed {seed} among its likes", got)
            continue
        first = known.setdefault(np.ascontiguousarray(got[0]).tobytes(), seed)
        text = f"seed {first} gives the same codes"
        _settle(scorecard, f"seed {seed} among its likes", first == seed, "other codes", "the same codes", text)


def _settle(scorecard: Scorecard, label: str, ok: bool, expected: str, returned: str, text: str) -> None:
    show = partial(
        Failure, case=label, given={"calls": "two, of the same numbers"}, expected={"answer": expected},
        returned={"answer": returned}, steps=[text],
    )  # fmt: skip
    scorecard.count("seed", label, ok=ok, show=show)


def _enter_tests(tests: list[BinomialTest], capabilities: Capabilities, scorecard: Scorecard) -> None:
    chance = FALSE_ALARM / max(len(capabilities.formats), 1)
    refuted = {id(test) for test in find_refuted(tests, chance)}
    for test in tests:
        show = partial(_show_test, test, sum(t.looks for t in tests), len(capabilities.formats))
        scorecard.count(test.topic, test.label, ok=id(test) not in refuted, show=show)


def _show_test(test: BinomialTest, tests: int, formats: int) -> Failure:
    share = (test.low + test.high) / 2
    return Failure(
        case=test.label,
        given={"counted": test.text, "draws": str(test.trials)},
        expected={"count": f"about {float(share * test.trials):.0f}"},
        returned={"count": str(test.count)},
        steps=[
            test.text,
            f"a right target gives such a count with a probability of less than 1 in {1 / (FALSE_ALARM / formats / tests)!s}",
        ],
    )  # fmt: skip
