"""Rounding modes, defined once.

A rounding mode chooses between the two neighbours lo <= x <= hi of a real number. With the sign taken apart, every
mode but the stochastic one is one of five rules on magnitudes; `MAGNITUDE_RULES` is that table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn


class Choice(StrEnum):
    """Named choices; an unknown name is refused with those that there are."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"{value!r} is not a valid {cls.__name__}; allowed are {', '.join(cls)}")


class Rounding(Choice):
    """How a real number becomes one of its two neighbours in a format."""

    #: To the nearest; a tie goes to the neighbour whose code is even (OCP's roundTiesToEven).
    RNE = "rne"
    #: To the nearest; a tie goes away from zero.
    RNA = "rna"
    #: To the nearest; a tie goes toward zero.
    RNZ = "rnz"
    #: To the nearest; a tie goes up, toward +infinity.
    RNU = "rnu"
    #: Toward zero.
    RTZ = "rtz"
    #: Toward -infinity.
    RTN = "rtn"
    #: Toward +infinity.
    RTP = "rtp"
    #: Stochastic, with n explicit random bits r: away from zero if and only if floor(frac * 2**n) + r >= 2**n, where frac
    #: is the exact distance to the neighbour nearer zero in units of their gap.
    SR = "sr"


class MagnitudeRule(StrEnum):
    """What a deterministic rounding does to the magnitude."""

    EVEN = "even"
    TIES_AWAY = "ties-away"
    TIES_TO_ZERO = "ties-to-zero"
    DOWN = "down"
    UP = "up"


#: Rounding -> (rule for x >= 0, rule for x < 0).
MAGNITUDE_RULES: dict[Rounding, tuple[MagnitudeRule, MagnitudeRule]] = {
    Rounding.RNE: (MagnitudeRule.EVEN, MagnitudeRule.EVEN),
    Rounding.RNA: (MagnitudeRule.TIES_AWAY, MagnitudeRule.TIES_AWAY),
    Rounding.RNZ: (MagnitudeRule.TIES_TO_ZERO, MagnitudeRule.TIES_TO_ZERO),
    Rounding.RNU: (MagnitudeRule.TIES_AWAY, MagnitudeRule.TIES_TO_ZERO),
    Rounding.RTZ: (MagnitudeRule.DOWN, MagnitudeRule.DOWN),
    Rounding.RTN: (MagnitudeRule.DOWN, MagnitudeRule.UP),
    Rounding.RTP: (MagnitudeRule.UP, MagnitudeRule.DOWN),
}

#: The modes that need no random bits.
DETERMINISTIC: tuple[Rounding, ...] = tuple(MAGNITUDE_RULES)


class Overflow(Choice):
    """What an encoder writes when the rounded value lies beyond the largest finite one."""

    #: The largest finite value, sign kept; infinities too.
    SATURATE = "saturate"
    #: The format's own infinity, or its NaN where it has none (OFP8's non-saturating mode). A directed rounding that points
    #: toward zero still stops at the largest finite value, as in IEEE 754 section 7.4.
    OWN = "own"
    #: Finite values saturate, infinities become the format's own Inf or NaN.
    SATURATE_FINITE = "saturate-finite"


class NanPolicy(Choice):
    """What an encoder writes for NaN."""

    #: The format's NaN, sign kept. Formats without one refuse.
    NAN = "nan"
    #: The format's NaN with a positive sign (cuda_fp8.h).
    NAN_POSITIVE = "nan-positive"
    #: The format's NaN with a negative sign (a NaN that x86 made of an invalid operation).
    NAN_NEGATIVE = "nan-negative"
    #: The largest finite value, positive whatever the NaN's sign (PTX, cuda_fp4.h, cuda_fp6.h).
    MAX_POSITIVE = "max-positive"
    #: The largest finite value with the NaN's sign.
    MAX_SIGNED = "max-signed"
    #: Positive zero.
    ZERO = "zero"
    #: Zero with the NaN's sign.
    ZERO_SIGNED = "zero-signed"
    #: Zero with the NaN's sign inverted (ml_dtypes' fp4 and fp6).
    ZERO_FLIPPED = "zero-flipped"
    #: Negative zero (a NaN whose sign an array library set, or that failed every comparison).
    ZERO_NEGATIVE = "zero-negative"
    #: The NaN's sign and what the bits of the quiet NaN 7fc00000 give when they are rebiased like a number's,
    #: low byte: 3 in e2m1, 0C in e2m3, 0E in e3m2 (torchao).
    AS_NUMBER = "as-number"
    #: ValueError.
    RAISE = "raise"


class ZeroPolicy(StrEnum):
    """The sign of a code whose value is zero."""

    #: As the input's, underflow included.
    SIGNED = "signed"
    #: Always positive.
    PLUS = "plus"
    #: A zero becomes positive, what rounds to zero keeps its sign (microxcaling multiplies by torch.sign).
    PLUS_UNLESS_UNDERFLOW = "plus-unless-underflow"
    #: Always negative (ModelOpt's mxfp4: the sign bit is set unless x > 0, and underflow keeps the input's sign).
    MINUS_UNLESS_POSITIVE = "minus-unless-positive"
