"""Counts that a right generator does not give: tests with a proven error probability, without approximations.

A count of n independent events of probability p has a tail P(X >= k) of at most T / (1 - r), where T is the probability of k
itself and r the ratio of the next probability to it: from there on the ratios fall. T is taken in logarithms of 50 digits, the
binomial coefficient rounded up, so that what is called refuted is refuted. What is far off needs no coefficient: Chernoff's
bound, (np / k)^k ((n - np) / (n - k))^(n - k), is small enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

#: The probability that a right target is accused in a run, all formats together.
FALSE_ALARM = Fraction(1, 10**9)
#: How far the probability of a right generator may lie from the one asked for: `<=` for `<` on floats of 24 bits is 2**-24.
SLACK = Fraction(1, 1 << 16)
#: Logarithms are right to far more digits than this.
_MARGIN = Decimal(1).scaleb(-20)
#: Standard deviations within which no tail is computed: it cannot be small enough, and if it were, nobody is accused.
_NEAR = 5


@dataclass(frozen=True, slots=True)
class BinomialTest:
    """So many of so many independent draws, whose probability lies in an interval."""

    topic: str
    label: str
    count: int
    trials: int
    low: Fraction
    high: Fraction
    #: What was counted.
    text: str
    #: Of how many counts this is the one that stands out: each may be refuted with a share of the probability.
    looks: int = 1

    def is_refuted(self, chance: Fraction) -> bool:
        """Whether a right target gives such a count, or one farther off, with at most this probability."""
        return is_too_many(self.count, self.trials, self.high, chance / 2) or is_too_many(
            self.trials - self.count, self.trials, 1 - self.low, chance / 2
        )


@lru_cache(maxsize=1 << 14)
def is_too_many(count: int, trials: int, p: Fraction, chance: Fraction) -> bool:
    """Whether it is proven that P(X >= count) <= chance, for X of so many trials of probability p."""
    mean = trials * p
    if count <= mean:
        return False
    if p <= 0:
        return True
    if float(count - mean) ** 2 < _NEAR**2 * float(mean * (1 - p)):
        return False
    ratio = Fraction(trials - count, count + 1) * p / (1 - p)
    if ratio >= 1:
        return False
    with localcontext() as context:
        context.prec = 50
        limit, rest = _log(chance) - _MARGIN, trials - count
        chernoff = count * _log(mean / count) + (rest * _log((trials - mean) / rest) if rest else 0)
        if chernoff <= limit:
            return True
        tail = _log_of_choices(trials, count) + count * _log(p) + (rest * _log(1 - p) if rest else 0)
        return tail - _log(1 - ratio) <= limit


def _log_of_choices(n: int, k: int) -> Decimal:
    """The logarithm of at least n over k."""
    choices = math.comb(n, k)
    shift = max(choices.bit_length() - 128, 0)
    return Decimal((choices >> shift) + 1).ln() + shift * Decimal(2).ln()


def _log(x: Fraction) -> Decimal:
    return Decimal(x.numerator).ln() - Decimal(x.denominator).ln()


def find_refuted(tests: list[BinomialTest], chance: Fraction) -> list[BinomialTest]:
    """Those that are refuted, where all tests together may accuse a right target with at most this probability."""
    share = chance / max(sum(test.looks for test in tests), 1)
    return [test for test in tests if test.is_refuted(share)]
