"""Known mistakes in rounding by given random bits: what each would return, so that wrong codes can be named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.elements_given_scale import find_neighbours
from mxspec.formats import ElementFormat, ScalarFormat
from mxspec_conformance.judge.explanation import Cause, ConversionMistake, Explanation
from mxspec_conformance.judge.stochastic.words import Words, goes_up
from mxspec_conformance.targets.capabilities import SrRule

Codes = npt.NDArray[np.uint8]
#: Places by which a word may be too low: the fewest that explain all are named, since more may give the same codes.
_PLACES = range(1, 10)
#: Bits of a word that may be all that is used: a float32's fraction holds 24 or 23, of which an element keeps one to three.
_USED = (24, 23, 22, 21, 20, 16, 8)


def list_known(x: npt.NDArray[np.float32], words: Words, fmt: ScalarFormat, bits: int, rule: SrRule) -> list[tuple[Explanation, Codes]]:
    """Explanations, and the codes [n] that a target with the mistake returns for numbers [n] and words [n]; NaN has no meaning."""
    return list(_list_known(x, words, fmt, bits, rule)) if isinstance(fmt, ElementFormat) else []


def _list_known(
    x: npt.NDArray[np.float32], words: Words, fmt: ElementFormat, bits: int, rule: SrRule
) -> Iterator[tuple[Explanation, Codes]]:
    low, high, fractions = find_neighbours(x, fmt)
    up, _ = goes_up(fractions, words, bits, rule)
    sign = np.where(np.signbit(x), fmt.sign_bit, 0).astype(np.uint8)
    yield _explain(ConversionMistake.ALL_ZERO), np.zeros_like(low) if fmt.twos_complement else sign
    if fmt.mantissa_bits and not fmt.twos_complement:
        fraction = np.uint8((1 << fmt.mantissa_bits) - 1)
        carries = up & (high != low) & ((low & fraction) == fraction) & ((low & (fmt.sign_bit - 1)) > fraction)
        yield _explain(ConversionMistake.CARRY_DROPPED), np.where(carries, low & ~fraction, np.where(up, high, low))
    for explanation, read, used in list_misread_words(bits):
        shifted, _ = goes_up(fractions, read(words), used, rule)
        yield explanation, np.where(shifted, high, low)
    if rule is SrRule.CARRY:
        noise = np.ldexp(words.astype(np.float64), -bits).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
        yield _explain(ConversionMistake.NOISE_BFLOAT16), np.where(fractions + noise >= 1, _next(low, np.signbit(x), fmt), low)


def list_misread_words(bits: int) -> Iterator[tuple[Explanation, Callable[[Words], Words], int]]:
    """What words of so many bits are taken for: other words, and how many bits these have."""
    for places in _PLACES:
        text = f"the random bits were added too low, by {places} or more places"
        yield Explanation(Cause.CONVERSION_MISTAKE, text), partial(_shift, places), bits
    for used in (n for n in _USED if n < bits):
        for end, read in (("upper", partial(_shift, bits - used)), ("lower", partial(_keep, used))):
            yield Explanation(Cause.CONVERSION_MISTAKE, f"only the {end} {used} bits of a random word were used"), read, used


def _shift(places: int, words: Words) -> Words:
    return words >> np.uint32(places)


def _keep(used: int, words: Words) -> Words:
    return words & np.uint32((1 << used) - 1)


def _next(low: Codes, negative: npt.NDArray[np.bool_], fmt: ElementFormat) -> Codes:
    """The codes one further from zero; the largest stay."""
    tables = np.tile(np.arange(256, dtype=np.uint8), (2, 1))
    for sign in (0, 1):
        for m in range(fmt.max_code):
            tables[sign, fmt.join(sign, m)] = fmt.join(sign, m + 1)
    return tables[negative.astype(np.intp), low]


def _explain(mistake: ConversionMistake) -> Explanation:
    return Explanation(Cause.CONVERSION_MISTAKE, mistake=mistake)
