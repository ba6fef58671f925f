"""Exact numbers: rationals with a sign on zero, infinities and NaN, and their rounding to any scalar format.

This is the slow half of the model. Nothing here knows of NumPy; every operation is exact, and rounding happens only
where `encode_real` is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mxspec.formats import ScalarFormat, floor_log2, power_of_two
from mxspec.rounding import MAGNITUDE_RULES, MagnitudeRule, NanPolicy, Overflow, Rounding


@dataclass(frozen=True, slots=True)
class Real:
    """A rational, an infinity or a NaN, with a sign.

    `magnitude` is None for an infinity; it means nothing for a NaN.
    """

    sign: int
    magnitude: Fraction | None
    nan: bool = False

    @property
    def is_finite(self) -> bool:
        """Neither infinite nor NaN."""
        return not self.nan and self.magnitude is not None

    @property
    def is_infinite(self) -> bool:
        """An infinity of either sign."""
        return not self.nan and self.magnitude is None

    @property
    def is_zero(self) -> bool:
        """A zero of either sign."""
        return not self.nan and self.magnitude == 0

    @property
    def value(self) -> Fraction:
        """The rational; the sign of zero is lost. Raises ValueError for infinities and NaN."""
        if not self.is_finite or self.magnitude is None:
            raise ValueError(f"{self} has no rational value")
        return -self.magnitude if self.sign else self.magnitude

    def __str__(self) -> str:
        sign = "-" if self.sign else "+"
        if self.nan:
            return f"{sign}nan"
        return f"{sign}inf" if self.magnitude is None else f"{sign}{self.magnitude}"


NAN = Real(0, Fraction(0), nan=True)
INFINITY = Real(0, None)
ZERO = Real(0, Fraction(0))


def make_real(value: Fraction | int, *, negative_zero: bool = False) -> Real:
    """A finite Real."""
    fraction = Fraction(value)
    return Real(int(fraction < 0 or (fraction == 0 and negative_zero)), abs(fraction))


def negate(a: Real) -> Real:
    """-a; flips the sign of zeros and NaN too."""
    return Real(1 - a.sign, a.magnitude, a.nan)


def absolute(a: Real) -> Real:
    """|a|."""
    return Real(0, a.magnitude, a.nan)


def add(a: Real, b: Real) -> Real:
    """a + b exactly. Opposite infinities give NaN; x + (-x) is +0, as IEEE 754 has it for round to nearest."""
    if a.nan or b.nan:
        return NAN
    if a.is_infinite or b.is_infinite:
        if a.is_infinite and b.is_infinite and a.sign != b.sign:
            return NAN
        return a if a.is_infinite else b
    if a.is_zero and b.is_zero:
        return Real(a.sign & b.sign, Fraction(0))
    return make_real(a.value + b.value)


def multiply(a: Real, b: Real) -> Real:
    """a * b exactly. 0 * Inf is NaN."""
    if a.nan or b.nan:
        return NAN
    sign = a.sign ^ b.sign
    if a.magnitude is None or b.magnitude is None:
        return NAN if a.is_zero or b.is_zero else Real(sign, None)
    return Real(sign, a.magnitude * b.magnitude)


def divide(a: Real, b: Real) -> Real:
    """a / b exactly. x / 0 is an infinity, 0 / 0 and Inf / Inf are NaN."""
    if a.nan or b.nan:
        return NAN
    sign = a.sign ^ b.sign
    if b.magnitude is None:
        return NAN if a.magnitude is None else Real(sign, Fraction(0))
    if a.magnitude is None:
        return Real(sign, None)
    if b.magnitude == 0:
        return NAN if a.magnitude == 0 else Real(sign, None)
    return Real(sign, a.magnitude / b.magnitude)


def less(a: Real, b: Real) -> bool:
    """a < b; false when either is NaN."""
    if a.nan or b.nan:
        return False
    if a.is_infinite:
        return bool(a.sign) and not (b.is_infinite and b.sign)
    if b.is_infinite:
        return not b.sign
    return a.value < b.value


def decode_real(code: int, fmt: ScalarFormat) -> Real:
    """The exact value of a code.

    Raises ValueError for a code with bits beyond the format's width.
    """
    sign, magnitude_code = fmt.split(code)
    if magnitude_code > fmt.max_code and not fmt.twos_complement:
        if magnitude_code == fmt.inf_code:
            return Real(sign, None)
        return Real(sign, Fraction(0), nan=True)
    return Real(sign, fmt.magnitude(magnitude_code))


def neighbours(magnitude: Fraction, fmt: ScalarFormat) -> tuple[int, int]:
    """Magnitude codes lo, hi of the values around a magnitude, as if the exponent range had no upper end.

    lo == hi when the magnitude is a value of the format. Below the smallest value of a format without zero, both are 0.
    """
    if not fmt.has_zero and magnitude <= fmt.min_subnormal:
        return 0, 0
    if fmt.exponent_bits == 0:
        exponent = fmt.emax
    else:
        exponent = floor_log2(magnitude) if magnitude else 1 - fmt.bias
        if fmt.has_zero:
            exponent = max(exponent, 1 - fmt.bias)
    step = exponent - fmt.mantissa_bits
    if fmt.exponent_bits == 0:
        step = 1 - fmt.bias - fmt.mantissa_bits
    steps = magnitude / power_of_two(step)
    floor, rest = divmod(steps.numerator, steps.denominator)
    if fmt.exponent_bits == 0 or (fmt.has_zero and floor < (1 << fmt.mantissa_bits)):
        code = floor
    else:
        code = ((exponent + fmt.bias) << fmt.mantissa_bits) + floor - (1 << fmt.mantissa_bits)
    return code, code + (rest != 0)


def round_magnitude(magnitude: Fraction, fmt: ScalarFormat, rule: MagnitudeRule) -> int:
    """The magnitude code that a magnitude rounds to, as if the exponent range had no upper end."""
    lo, hi = neighbours(magnitude, fmt)
    if lo == hi or rule is MagnitudeRule.DOWN:
        return lo
    if rule is MagnitudeRule.UP:
        return hi
    twice = 2 * magnitude - fmt.magnitude(lo) - fmt.magnitude(hi)
    if twice != 0:
        return hi if twice > 0 else lo
    if rule is MagnitudeRule.EVEN:
        return lo if lo % 2 == 0 else hi
    return hi if rule is MagnitudeRule.TIES_AWAY else lo


def round_magnitude_stochastic(magnitude: Fraction, fmt: ScalarFormat, random: int, random_bits: int) -> int:
    """The magnitude code under the integer rule of stochastic rounding: up iff floor(frac 2^n) + r >= 2^n."""
    lo, hi = neighbours(magnitude, fmt)
    if lo == hi:
        return lo
    low, high = fmt.magnitude(lo), fmt.magnitude(hi)
    scaled = (magnitude - low) / (high - low) * (1 << random_bits)
    return hi if scaled.numerator // scaled.denominator + random >= 1 << random_bits else lo


_NEEDS_NAN = (NanPolicy.NAN, NanPolicy.NAN_POSITIVE, NanPolicy.NAN_NEGATIVE)


def nan_codes(fmt: ScalarFormat, policy: NanPolicy) -> tuple[int, int]:
    """The codes that a NaN becomes, for a positive and a negative NaN.

    Raises ValueError where the policy needs a NaN and the format has none, and for `NanPolicy.RAISE`.
    """
    if policy is NanPolicy.RAISE:
        raise ValueError(f"the input holds a NaN and nan='raise' forbids it for {fmt.name}")
    if policy in _NEEDS_NAN:
        if fmt.nan_code is None:
            raise ValueError(
                f"{fmt.name} has no NaN, so nan={policy.value!r} cannot be honoured; choose one of "
                f"{', '.join(p.value for p in NanPolicy if p not in _NEEDS_NAN)}"
            )
        magnitude, positive = fmt.nan_code, policy is NanPolicy.NAN_POSITIVE
    elif policy in (NanPolicy.MAX_POSITIVE, NanPolicy.MAX_SIGNED):
        magnitude, positive = fmt.max_code, policy is NanPolicy.MAX_POSITIVE
    elif policy is NanPolicy.AS_NUMBER:
        rebiased = (128 + fmt.bias << fmt.mantissa_bits) + (1 << fmt.mantissa_bits >> 1)
        magnitude, positive = rebiased & 0xFF, False
    else:
        magnitude, positive = 0, policy is NanPolicy.ZERO
    codes = fmt.join(0, magnitude), fmt.join(0 if positive else 1, magnitude)
    if policy in (NanPolicy.ZERO_NEGATIVE, NanPolicy.NAN_NEGATIVE):
        return codes[1], codes[1]
    return codes[::-1] if policy is NanPolicy.ZERO_FLIPPED else codes


def overflow_code(fmt: ScalarFormat, sign: int, overflow: Overflow, *, infinite: bool, toward_zero: bool) -> int:
    """The code of a value beyond the largest finite one.

    Raises ValueError where the policy needs an Inf or NaN and the format has neither.
    """
    if overflow is Overflow.SATURATE or (overflow is Overflow.SATURATE_FINITE and not infinite):
        return fmt.join(sign, fmt.max_code)
    own = fmt.inf_code if fmt.inf_code is not None else fmt.nan_code
    if own is None:
        raise ValueError(f"{fmt.name} has neither Inf nor NaN, so overflow={overflow.value!r} cannot be honoured; use overflow='saturate'")
    if toward_zero and not infinite:
        return fmt.join(sign, fmt.max_code)
    return fmt.join(sign, own)


def encode_real(
    x: Real,
    fmt: ScalarFormat,
    *,
    rounding: Rounding = Rounding.RNE,
    overflow: Overflow = Overflow.SATURATE,
    nan: NanPolicy = NanPolicy.NAN,
    random: int | None = None,
    random_bits: int = 32,
) -> int:
    """The code of a real number: the definition of every encoder in the project.

    `random` holds the random bits of stochastic rounding, `random_bits` says how many there are.
    Unsigned formats encode the magnitude. Raises ValueError as `nan_codes` and `overflow_code` do.
    """
    if x.nan:
        return nan_codes(fmt, nan)[x.sign]
    sign = x.sign if fmt.signed else 0
    if x.magnitude is None:
        return overflow_code(fmt, sign, overflow, infinite=True, toward_zero=False)
    if rounding is Rounding.SR:
        if random is None:
            raise ValueError("stochastic rounding needs explicit random bits; pass random_bits")
        code = round_magnitude_stochastic(x.magnitude, fmt, random, random_bits)
        toward_zero = False
    else:
        rule = MAGNITUDE_RULES[rounding][sign]
        code = round_magnitude(x.magnitude, fmt, rule)
        toward_zero = rule is MagnitudeRule.DOWN
    if toward_zero and x.magnitude > fmt.max_value:
        return overflow_code(fmt, sign, overflow, infinite=False, toward_zero=True)
    if code > fmt.max_code:
        return overflow_code(fmt, sign, overflow, infinite=False, toward_zero=False)
    return fmt.join(sign, code)


def round_real(x: Real, fmt: ScalarFormat) -> Real:
    """x rounded to nearest even in a float format, with its own infinities and NaN: one IEEE 754 operation's result."""
    if x.nan:
        return NAN
    return decode_real(encode_real(x, fmt, overflow=Overflow.OWN), fmt)


def flush_subnormal(x: Real, fmt: ScalarFormat) -> Real:
    """x with a magnitude below the format's smallest normal replaced by a zero of the same sign."""
    if x.is_finite and x.magnitude is not None and x.magnitude < fmt.min_normal:
        return Real(x.sign, Fraction(0))
    return x
