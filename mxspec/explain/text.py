"""Numbers, codes and expressions as text."""

from __future__ import annotations

from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction

import numpy as np

from mxspec.expressions import Apply, Choose, Const, Expr, Leaf, Op, Test
from mxspec.formats import FLOAT32, ScalarFormat, floor_log2, power_of_two
from mxspec.reals import Real, decode_real, encode_real, make_real
from mxspec.rounding import Overflow


def exact_text(x: Real | Fraction) -> str:
    """The number exactly: a terminating decimal, or p/q where the decimal does not end."""
    real = make_real(x) if isinstance(x, Fraction) else x
    if not real.is_finite or real.magnitude is None or real.is_zero:
        return _special_text(real)
    n, d = real.magnitude.numerator, real.magnitude.denominator
    sign = "-" if real.sign else ""
    twos, fives = _count_factor(d, 2), _count_factor(d, 5)
    if d != 2**twos * 5**fives:
        return f"{sign}{n}/{d}"
    places = max(twos, fives)
    digits = str(n * 10**places // d).rjust(places + 1, "0")
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def number_text(x: Real | Fraction, width: int = 17) -> str:
    """The number in at most `width` characters (at least 8).

    A float32 is written by the shortest digits that no other float32 has, anything else by its first digits;
    "…" says that digits were left out.
    """
    real = make_real(x) if isinstance(x, Fraction) else x
    if not real.is_finite or real.magnitude is None or real.is_zero:
        return _special_text(real)
    if float32_bits(real) is not None:
        value = np.float32(float(real.value))
        shortest = (
            np.format_float_positional(value, unique=True, trim="-"),
            np.format_float_scientific(value, unique=True, trim="-", exp_digits=1),
        )
        plain = Fraction(1, 10**5) <= real.magnitude < 10**9
        for text in shortest if plain else shortest[::-1]:
            if len(text) <= width:
                return text
    whole = exact_text(real)
    if len(whole) <= width and "/" not in whole:
        return whole
    return _first_digits(real, width)


def _first_digits(real: Real, width: int) -> str:
    """As many significant digits as fit, cut toward zero; scientific for large and small numbers."""
    assert real.magnitude is not None
    sign = "-" if real.sign else ""
    text = ""
    for digits in range(width, 0, -1):
        context = Context(prec=digits, rounding=ROUND_DOWN, Emin=-9999, Emax=9999)
        cut = context.divide(Decimal(real.magnitude.numerator), Decimal(real.magnitude.denominator))
        dots = "" if Fraction(cut) == real.magnitude else "…"
        exponent = cut.adjusted()
        if -5 <= exponent < digits:
            text = f"{sign}{cut:f}{dots}"
        else:
            text = f"{sign}{cut.scaleb(-exponent, context):f}{dots}e{exponent:+d}"
        if len(text) <= width:
            break
    return text


def _special_text(real: Real) -> str:
    sign = "-" if real.sign else ""
    if real.nan:
        return f"{sign}nan"
    return f"{sign}inf" if real.magnitude is None else f"{sign}0"


def _count_factor(n: int, factor: int) -> int:
    count = 0
    while n % factor == 0:
        n, count = n // factor, count + 1
    return count


def power_text(x: Real | Fraction) -> str:
    """A power of two as 2^k; any other number as `number_text` has it."""
    real = make_real(x) if isinstance(x, Fraction) else x
    if real.is_finite and real.magnitude:
        exponent = floor_log2(real.magnitude)
        if real.magnitude == power_of_two(exponent):
            return f"{'-' if real.sign else ''}2^{exponent}"
    return number_text(real)


def code_text(code: int, fmt: ScalarFormat) -> str:
    """A code in hex, as many digits as the format's width takes."""
    return f"{code:0{(fmt.bits + 3) // 4}x}"


def value_text(x: Real, fmt: ScalarFormat) -> str:
    """A value of a format: powers of two for e8m0, decimals for all others."""
    return power_text(x) if fmt.mantissa_bits == 0 else number_text(x)


def float32_bits(x: Real) -> int | None:
    """Bits of a number that float32 holds exactly, else None; of a NaN the canonical ones with its sign."""
    if x.nan:
        assert FLOAT32.nan_code is not None
        return FLOAT32.join(x.sign, FLOAT32.nan_code)
    bits = encode_real(x, FLOAT32, overflow=Overflow.OWN)
    return bits if decode_real(bits, FLOAT32) == x else None


#: Names of float32 constants by their bits.
CONSTANT_NAMES = {0x7F7FFFFF: "FLT_MAX", 0x7F800000: "Inf", 0x3E2AAAAB: "fl(1/6)", 0x39C30C31: "fl(1/2688)"}


def plain_text(expr: Expr) -> str:
    """An expression without its rounding domains, constants by name."""
    if isinstance(expr, Leaf):
        return expr.name
    if isinstance(expr, Const):
        return CONSTANT_NAMES.get(expr.bits, str(expr))
    if isinstance(expr, Apply):
        if expr.op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV):
            left, right = (_bracketed(a) for a in expr.args)
            return f"{left} {expr.op.value} {right}"
        return f"{expr.op.value}({', '.join(plain_text(a) for a in expr.args)})"
    condition = f"{_bracketed(expr.left)} {expr.test.value}"
    if expr.test not in (Test.IS_NAN, Test.IS_INF):
        condition += f" {_bracketed(expr.right)}"
    return f"{_bracketed(expr.then)} if {condition} else {_bracketed(expr.otherwise)}"


def _bracketed(expr: Expr) -> str:
    text = plain_text(expr)
    infix = isinstance(expr, Choose) or (isinstance(expr, Apply) and expr.op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV))
    return f"({text})" if infix else text
