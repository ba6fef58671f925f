"""What a random word says of a fraction, by either convention and with any number of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.capabilities import SrRule

Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]


def model_words(words: Words, bits: int, rule: SrRule) -> Words:
    """The words of 32 bits with which the model, whose rule is `carry`, does what words of fewer bits say by a rule."""
    carried = words ^ np.uint32((1 << bits) - 1) if rule is SrRule.BELOW else words
    return np.asarray(carried << np.uint32(32 - bits), np.uint32)


def turning_words(fractions: npt.NDArray[np.float64], bits: int, rule: SrRule) -> tuple[Words, Words]:
    """For each fraction the last word that keeps the lower code and the first one that gives the upper, in the order of
    the carry rule; where there is none of either, its neighbour twice."""
    top = (1 << bits) - 1
    first_up = (1 << bits) - np.floor(fractions * 2.0**bits).astype(np.int64)
    pair = (np.minimum(first_up - 1, top), np.minimum(first_up, top))
    low, high = (np.asarray(w.astype(np.uint32) ^ np.uint32(top if rule is SrRule.BELOW else 0)) for w in pair)
    return low, high


def goes_up(fractions: npt.NDArray[np.float64], words: Words, bits: int, rule: SrRule) -> tuple[Flags, Flags]:
    """Whether each number has to take the upper code, and whether it may.

    The two differ by the rule `below` where a word lies between a fraction cut to so many bits and the fraction itself.
    """
    scaled = fractions * 2.0**bits
    steps = np.floor(scaled)
    if rule is SrRule.CARRY:
        up = np.asarray(steps + words >= 2.0**bits)
        return up, up
    return np.asarray(words < steps), np.asarray(words < scaled)


def may_be_lowest(scaled: npt.NDArray[Any], words: Words, bits: int, rule: SrRule) -> Flags:
    """Whether int8's lowest code, which may be left out, is where the random bits round a number below -127/64."""
    beyond = -scaled.astype(np.float64) * 64 - 127
    _, may = goes_up(np.clip(beyond, 0, 1), words, bits, rule)
    return np.asarray((beyond >= 1) | ((beyond > 0) & may))
