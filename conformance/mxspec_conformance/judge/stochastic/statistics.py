"""What is counted in the answers of a right generator, and with which probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_codes
from mxspec.elements_given_scale import find_neighbours
from mxspec.formats import BlockFormat
from mxspec_conformance.judge.stochastic.binomial import SLACK, BinomialTest
from mxspec_conformance.judge.stochastic.inputs import Draws

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8]

#: The fewest draws of which a count is tested.
LEAST = 32
#: Distances within which every one is tested.
NEAR, NEAR_MIXED = 128, 16


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one call, element by element [rows, columns]."""

    draws: Draws
    codes: Codes
    #: Scale bytes, one for each element.
    scales: Codes
    quotients: npt.NDArray[np.float64]
    low: Codes
    high: Codes
    fractions: npt.NDArray[np.float64]
    #: Where the quotient is known exactly enough to say which two codes it lies between.
    clear: Flags
    #: The codes of zero.
    zeros: tuple[int, ...]

    @property
    def is_low(self) -> Flags:
        """Where the lower code came; of zeros the sign does not count."""
        return self._is(self.low)

    @property
    def is_high(self) -> Flags:
        """Where the upper code came."""
        return self._is(self.high)

    @property
    def is_open(self) -> Flags:
        """Where chance decided, between two codes."""
        return self.clear & (self.fractions > 0) & (self.is_low | self.is_high)

    def _is(self, wanted: Codes) -> Flags:
        # A zero is the only value with two codes, and the two are the only ones of magnitude zero.
        return np.asarray((self.codes == wanted) | (self._is_zero(self.codes) & self._is_zero(wanted)))

    def _is_zero(self, codes: Codes) -> Flags:
        return np.isin(codes, self.zeros)


def read_answer(draws: Draws, codes: Codes, scales: Codes, fmt: BlockFormat) -> Answer:
    """The answer, with the codes on either side of every quotient by the scales that came back.

    The tensor scale, where there is one, is 1.
    """
    element = fmt.element
    each = np.repeat(scales, fmt.k, axis=-1)
    divisors = decode_codes(np.minimum(each, fmt.scale.code_count - 1), fmt.scale).astype(np.float64)
    with np.errstate(all="ignore"):
        quotients = draws.x / divisors
        usable = np.isfinite(divisors) & (divisors > 0) & (each < fmt.scale.code_count)
        low, high, fractions = find_neighbours(np.where(usable, quotients, 0), element)
        mantissa, _ = np.frexp(np.where(usable, divisors, 1))
    # Another divisor than a power of two may round the quotient to a value of the format, or past it.
    apart = (fractions > 1 / 4096) & (fractions < 4095 / 4096)
    apart |= np.abs(quotients) > float(element.max_value) * 4097 / 4096
    zeros = (0,) if element.twos_complement else (0, element.sign_bit)
    return Answer(draws, codes, each, quotients, low, high, fractions, usable & ((mantissa == 0.5) | apart), zeros)


def list_frequencies(answer: Answer, fmt: BlockFormat) -> Iterator[BinomialTest]:
    """How often each fraction goes up: alone, by sign and binade, and by the place in block, row and column."""
    chosen, up = answer.is_open, answer.is_high
    rows, columns = (np.asarray(a, np.int64) for a in np.indices(answer.codes.shape))
    magnitude = answer.low & np.uint8((1 << fmt.element.bits - 1) - 1)
    binade = (magnitude >> fmt.element.mantissa_bits if fmt.element.exponent_bits else np.zeros_like(magnitude)).astype(np.int64)
    sign: npt.NDArray[Any] = np.asarray(np.signbit(answer.draws.x), np.int64)
    fractions, kinds = np.unique(answer.fractions[chosen], return_inverse=True)
    places: list[tuple[str, npt.NDArray[Any]]] = [
        ("", np.zeros_like(sign)), ("sign", sign), ("sign and exponent", np.asarray(sign * 64 + binade)),
    ]  # fmt: skip
    if len(fractions) == 1:
        places += [("lane", columns % fmt.k), ("row", rows), ("column", columns)]
    for name, keys in places:
        width = int(keys.max()) + 1
        cells = kinds * width + keys[chosen]
        trials = np.bincount(cells, minlength=len(fractions) * width)
        counts = np.bincount(cells[up[chosen]], minlength=len(trials))
        for cell in np.flatnonzero(trials >= LEAST).tolist():
            fraction, key = Fraction(float(fractions[cell // width])), cell % width
            low, high = bound_share(fraction)
            where = f", {name} {_name_key(name, key)}" if name else ""
            yield BinomialTest(
                "probability", f"{answer.draws.name}, {_text(fraction)} of a step{where}", int(counts[cell]), int(trials[cell]),
                low, high, f"numbers {_text(fraction)} of a step above a code that went up",
            )  # fmt: skip


def _text(fraction: Fraction) -> str:
    return str(fraction) if fraction.denominator <= 1 << 12 else f"{float(fraction):.6g}"


def _name_key(name: str, key: int) -> str:
    if not name.startswith("sign"):
        return str(key)
    sign = "-" if key >= (64 if "exponent" in name else 1) else "+"
    return f"{sign} and {key % 64}" if "exponent" in name else sign


def bound_share(fraction: Fraction) -> tuple[Fraction, Fraction]:
    """The probabilities with which a right generator of 8 bits and more may go up."""
    steps = fraction * 256
    return max(Fraction(steps.__floor__(), 256) - SLACK, Fraction(0)), min(Fraction(steps.__ceil__(), 256) + SLACK, Fraction(1))


def list_dependences(answer: Answer) -> Iterator[BinomialTest]:
    """How often two numbers so far apart both go up, of pairs that share no number."""
    chosen, up = answer.is_open.reshape(-1), answer.is_high.reshape(-1)
    fractions, inverse = np.unique(answer.fractions[answer.is_open], return_inverse=True)
    kinds = np.zeros(len(up), np.int64)
    kinds[chosen] = inverse
    columns, size, many = answer.codes.shape[1], len(up), len(fractions)
    near = NEAR if many == 1 and not answer.draws.is_other_way else NEAR_MIXED
    powers = [1 << n for n in range(size.bit_length() - 1)]
    distances = {*range(1, near + 1), *powers, *(columns * n for n in powers)}
    for distance in sorted(d for d in distances if 2 * d <= size):
        whole = size // (2 * distance) * 2 * distance
        pairs = [a[:whole].reshape(-1, 2, distance) for a in (chosen, up, kinds)]
        (mine, theirs), (my_up, their_up), (my_kind, their_kind) = ((a[:, 0], a[:, 1]) for a in pairs)
        both, cells = mine & theirs, my_kind * many + their_kind
        trials = np.bincount(cells[both], minlength=many * many)
        counts = np.bincount(cells[both & my_up & their_up], minlength=many * many)
        for cell in np.flatnonzero(trials >= LEAST).tolist():
            first, second = (Fraction(float(fractions[n])) for n in divmod(cell, many))
            label = f"{answer.draws.name}, {distance} apart"
            if many > 1:
                label += f", {_text(first)} and {_text(second)} of a step"
            low, high = _bound_both(first, second)
            yield BinomialTest(
                "independence", label, int(counts[cell]), int(trials[cell]), low, high,
                f"pairs of numbers {distance} apart that both went up",
            )  # fmt: skip


def _bound_both(first: Fraction, second: Fraction) -> tuple[Fraction, Fraction]:
    (a, b), (c, d) = bound_share(first), bound_share(second)
    return a * c, b * d


def list_dependences_of_seeds(answers: Sequence[Answer]) -> Iterator[BinomialTest]:
    """How often numbers of two calls with other seeds both go up, at the distance at which it is least what it should be.

    At every distance, round the end of the calls: the draws of a seed may be those of another one, any number of places on.
    """
    for first, second in combinations(answers, 2):
        label = f"seeds {first.draws.seed} and {second.draws.seed}, at any distance"
        for shift, size, test in _compare(_Part.of(first), _Part.of(second)):
            away = shift if 2 * shift <= size else shift - size
            yield test("seed", label, f"numbers {away} places apart that went up with both seeds")


def list_dependences_of_halves(answer: Answer) -> Iterator[BinomialTest]:
    """The same of the two halves of a call: draws may come again after any number of them."""
    whole, half = _Part.of(answer), answer.codes.size // 2
    for shift, size, test in _compare(whole.cut(0, half), whole.cut(half, 2 * half)):
        apart = f"{size - shift}" + f" or {2 * size - shift}" * bool(shift)
        yield test("independence", f"{answer.draws.name}, at any distance", f"pairs of numbers {apart} apart that both went up")


@dataclass(frozen=True, slots=True)
class _Part:
    """Numbers one behind the other: where chance decided, which went up, and their fractions."""

    is_open: Flags
    is_high: Flags
    fractions: npt.NDArray[np.float64]

    @classmethod
    def of(cls, answer: Answer) -> _Part:
        return cls(answer.is_open.reshape(-1), answer.is_high.reshape(-1), answer.fractions.reshape(-1))

    def cut(self, start: int, stop: int) -> _Part:
        return _Part(self.is_open[start:stop], self.is_high[start:stop], self.fractions[start:stop])


def _compare(first: _Part, second: _Part) -> Iterator[tuple[int, int, Callable[[str, str, str], BinomialTest]]]:
    """(places, how many there are, the test by topic, label and text): where numbers of the most frequent fraction went up together."""
    if not first.is_open.any():
        return
    values, counts = np.unique(first.fractions[first.is_open], return_counts=True)
    fraction = values[counts.argmax()]
    chosen = [part.is_open & (part.fractions == fraction) for part in (first, second)]
    trials = _count_at_all_distances(*chosen)
    both = _count_at_all_distances(chosen[0] & first.is_high, chosen[1] & second.is_high)
    low, high = _bound_both(Fraction(float(fraction)), Fraction(float(fraction)))
    mean = trials * float(low + high) / 2
    # Which distance stands out is no matter of proof; what is proven of it holds for all of them together.
    spread = np.where(trials >= LEAST, np.abs(both - mean) / np.sqrt(np.maximum(trials, 1)), -1)
    shift = int(spread.argmax())
    if spread[shift] >= 0:
        yield shift, len(spread), lambda topic, label, text: BinomialTest(
            topic, label, int(both[shift]), int(trials[shift]), low, high, text, looks=len(spread)
        )  # fmt: skip


def _count_at_all_distances(first: Flags, second: Flags) -> npt.NDArray[np.int64]:
    """At how many places n both `first[n]` and `second[n - distance]` hold, for each distance, round the end.

    Sums of so few ones are exact after rounding: a transform of 2^17 numbers is off by far less than a half.
    """
    product = np.fft.rfft(first.astype(np.float64)) * np.conj(np.fft.rfft(second.astype(np.float64)))
    return np.asarray(np.rint(np.fft.irfft(product, len(first))), np.int64)
