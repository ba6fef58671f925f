"""Rounding modes, defined once.

A rounding mode chooses between the two neighbours lo <= x <= hi of a real number. With the sign taken apart, every
mode but the stochastic one is one of five rules on magnitudes; `MAGNITUDE_RULES` is that table.
"""

from __future__ import annotations

from typing import Literal, NoReturn

from mxspec.enums import StrEnum
from mxspec.suggestions import refuse_name


class Choice(StrEnum):
    """Named choices; an unknown name is refused with those that there are."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise refuse_name(value, f"{value!r} is not a valid {cls.__name__}; allowed are {', '.join(cls)}")


class Rounding(Choice):
    """How a real number x becomes a value v of a format.

    The values are those of the format, continued beyond the largest one with its step; what is rounded to such a value
    has overflowed, and `Overflow` decides. Source of `rne`: OCP MX v1.0, which requires roundTiesToEven of IEEE 754, clause 4.3.
    """

    #: The v nearest to x; of two equally near ones, that with the even code.
    RNE = "rne"
    #: The v nearest to x; of two equally near ones, that with the larger magnitude.
    RNA = "rna"
    #: The v nearest to x; of two equally near ones, that with the smaller magnitude.
    RNZ = "rnz"
    #: The v nearest to x; of two equally near ones, the larger.
    RNU = "rnu"
    #: The v of the largest magnitude with |v| <= |x|, with the sign of x.
    RTZ = "rtz"
    #: The largest v with v <= x.
    RTN = "rtn"
    #: The smallest v with v >= x.
    RTP = "rtp"
    #: Stochastic, with n random bits r, 0 <= r < 2**n. Let a and b be the neighbouring values with |a| <= |x| <= |b|, and
    #: f = (|x| - |a|) / (|b| - |a|). Then v is b if floor(f * 2**n) + r >= 2**n, else a.
    SR = "sr"


#: The names of the modes, for type checkers and editors; so are the next two.
RoundingName = Literal["rne", "rna", "rnz", "rnu", "rtz", "rtn", "rtp", "sr"]
OverflowName = Literal["saturate", "own", "saturate-finite"]
NanName = Literal[
    "nan", "nan-positive", "nan-negative", "max-positive", "max-signed", "zero", "zero-signed", "zero-flipped",
    "zero-negative", "as-number", "raise",
]  # fmt: skip


class MagnitudeRule(StrEnum):
    """What a deterministic rounding does to the magnitude |x|."""

    #: The nearest; of two equally near ones, that with the even code.
    EVEN = "even"
    #: The nearest; of two equally near ones, the larger.
    TIES_AWAY = "ties-away"
    #: The nearest; of two equally near ones, the smaller.
    TIES_TO_ZERO = "ties-to-zero"
    #: The largest that is not above |x|.
    DOWN = "down"
    #: The smallest that is not below |x|.
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
    """What an encoder writes for a rounded value v with |v| > max, the largest finite value, and for infinities."""

    #: max with the sign of v, for infinities too.
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
