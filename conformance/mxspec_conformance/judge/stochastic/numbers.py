"""Judging `encode_stochastic`: single numbers, rounded by random bits that are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import ScalarFormat, get_scalar
from mxspec_conformance.counterexample.evidence import describe_number, show_conversion
from mxspec_conformance.judge.explanation import Explanation
from mxspec_conformance.judge.stochastic.mistakes import list_known
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import kept_lanes
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import SrRule
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import StochasticRule, load_stochastic_cases


def judge_stochastic(session: TargetSession, element: str, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter the cases of the integer rule with as many random bits as the target says that it uses, by the rule that it names.

    The vectors hold words of 32 and 8 bits and the carry rule. Words of 16 bits are the upper halves of those of 32, whose lower half
    is then zero. By the other rule, up where the word is less than the fraction, a word stands for its complement.
    """
    fmt, bits, rule = get_scalar(element), session.capabilities.sr_bits, session.capabilities.sr_rule
    stored = 8 if bits == 8 else 32
    judged: list[tuple[str, bool, frozenset[Explanation], Callable[[], Failure]]] = []
    contradicted: set[Explanation] = set()
    for case in load_stochastic_cases(element):
        if case.rule is not StochasticRule.INTEGER or case.sr_bits != stored:
            continue
        x, words = case.x, case.random_bits >> np.uint32(stored - bits)
        if rule is SrRule.BELOW:
            words = ~words & np.uint32((1 << bits) - 1)
        expected = case.codes if bits == stored else _round_stochastically(x, words, element, bits, rule)
        places, zeros = kept_lanes("stochastic", element, case.id, len(x)), {0, fmt.sign_bit if fmt.has_minus_zero else 0}

        def call(lanes: Sequence[int], x: Any = x, words: Any = words) -> list[Any]:
            return list(session.call("encode_stochastic", x[list(lanes)], element, words[list(lanes)]))

        known, answers = list_known(x, words, fmt, bits, rule), run_bisected(places, call)
        # What a mistake returns for all numbers, also where it is right, says more than what it does to those that are wrong.
        given = [(i, a) for i, a in zip(places, answers, strict=True) if not isinstance(a, NoAnswer) and not np.isnan(x[i])]
        known = [(e, codes) for e, codes in known if all(codes[i] == a for i, a in given)] or known
        for i, code in zip(places, answers, strict=True):
            label = f"{case.id}[{i}]"
            how = {"element": element, "word": f"0x{int(words[i]):0{bits // 4}x}", "rule": f"{rule.value}, {bits} bits"}
            if np.isnan(x[i]):  # it may be refused; FP8 elements have a NaN to give
                if fmt.nan_code is not None and not isinstance(code, NoAnswer):
                    show = partial(show_conversion, label, x[i], fmt.nan_code, int(code), fmt, how=how, snippet="")
                    scorecard.count("nan", label, ok=fmt.is_nan(int(code)), show=show)
                continue
            if isinstance(code, NoAnswer):
                scorecard.count_no_answer("random-bits", label, code, given=partial(describe_number, x[i], element, how))
                continue
            if {int(code), int(expected[i])} == zeros:
                code = expected[i]  # which sign a zero has is open
            carried = int(words[i]) ^ ((1 << bits) - 1) if rule is SrRule.BELOW else int(words[i])
            lowest = fmt.twos_complement and int(code) == fmt.sign_bit and int(expected[i]) == fmt.sign_bit + 1
            ok = _may_be_lowest(float(x[i]), carried, bits) if lowest else code == expected[i]
            if not ok and rule is SrRule.BELOW:
                ok = int(code) == _round_below_exactly(float(x[i]), int(words[i]), bits, fmt)
            snippet = (
                "import numpy as np, mxspec\n"
                f"x = np.array([0x{int(x.view(np.uint32)[i]):08x}], np.uint32).view(np.float32)\n"
                f"word = np.array([0x{carried << (32 - bits):08x}], np.uint32)  # in the upper bits, by the carry rule\n"
                f'print(mxspec.encode(x, "{element}", rounding="sr", random_bits=word))'
            )
            show = partial(show_conversion, label, x[i], int(expected[i]), int(code), fmt, how=how, snippet=snippet)
            equals = frozenset(e for e, codes in known if codes[i] == code)
            if ok and not lowest:
                contradicted |= {e for e, codes in known if codes[i] != code}
            judged.append((label, bool(ok), equals, show))
    for label, right, explained, shown in judged:
        scorecard.count("random-bits", label, ok=right, equals=explained - contradicted, show=shown)
    return {}


def _round_stochastically(
    x: npt.NDArray[np.float32], words: npt.NDArray[np.uint32], element: str, bits: int, rule: SrRule
) -> npt.NDArray[np.uint8]:
    """The codes under words of so many bits: n bits of a word are the upper n of one of 32."""
    carried = words ^ np.uint32((1 << bits) - 1) if rule is SrRule.BELOW else words
    codes: npt.NDArray[np.uint8] = mxspec.encode(x, element, rounding="sr", random_bits=carried << np.uint32(32 - bits))
    return codes


def _round_below_exactly(x: float, word: int, bits: int, fmt: ScalarFormat) -> int:
    """The code where a word is compared with the exact fraction, not with its first bits; int8 ends at -127 steps."""
    magnitude = min(Fraction(abs(x)), fmt.max_value) if math.isfinite(x) else fmt.max_value
    low = max(m for m in range(fmt.max_code + 1) if fmt.magnitude(m) <= magnitude)
    if low < fmt.max_code:
        step = fmt.magnitude(low + 1) - fmt.magnitude(low)
        low += word < (magnitude - fmt.magnitude(low)) / step * 2**bits
    return fmt.join(int(math.copysign(1, x) < 0), low)


def _may_be_lowest(x: float, word: int, sr_bits: int) -> bool:
    """Whether int8's lowest code, which may be left out, is where the random bits round a number below -127/64."""
    beyond = -x * 64 - 127
    return beyond >= 1 or math.floor(beyond * 2**sr_bits) + word % 2**sr_bits >= 2**sr_bits
