"""Real-number steps on arrays: float64 where it is certain to round as the real number does, rationals where it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.arrays import ARRAYS
from mxspec.expressions import Apply, Const, Domain, Expr, Op, evaluate, leaves, walk
from mxspec.formats import FLOAT32
from mxspec.reals import decode_real

Values = npt.NDArray[Any]

#: A chain of at most this many float64 operations has a relative error below 2**-50: each has 2**-53.
_MOST_OPERATIONS = 4
_MARGIN = 2.0**-50


def is_real(expr: Expr) -> bool:
    """Whether an expression's operations are on real numbers, so that float64 may not hold their results."""
    return any(isinstance(e, Apply) and e.domain is Domain.EXACT and e.op in _RATIONAL for e in walk(expr))


_RATIONAL: dict[Op, Callable[[Fraction, Fraction], Fraction]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.DIV: lambda a, b: a / b,
}


def round_certainly(
    expr: Expr, bound: Mapping[str, Values], rounding: Callable[[Values], Values], exactly: Callable[[Fraction], Any]
) -> Values:
    """The expression's value, as a real number, rounded once.

    Args:
        expr: Operations on real numbers in which no two inexact terms are added or subtracted, so that the relative error
            of float64 stays small.
        bound: Leaf -> float32 values; shapes broadcast.
        rounding: float64 -> the rounded values; monotone.
        exactly: The same for one rational.

    Raises ValueError for an expression that is too long for the certificate.
    """
    if sum(isinstance(e, Apply) for e in walk(expr)) > _MOST_OPERATIONS:
        raise ValueError(
            f"{expr} has more than {_MOST_OPERATIONS} operations; float64's error is not known to be small"
        )
    with np.errstate(all="ignore"):
        value = evaluate(expr, dict(bound), ARRAYS).astype(np.float64)
        result = np.array(rounding(value))
        unsure = rounding(value * (1 - _MARGIN)) != rounding(value * (1 + _MARGIN))
    unsure &= np.isfinite(value)
    if unsure.any():
        names = sorted(leaves(expr))
        whole = {n: np.broadcast_to(bound[n], value.shape)[unsure] for n in names}
        result[unsure] = [
            exactly(_rational(expr, {n: Fraction(float(whole[n][i])) for n in names})) for i in range(int(unsure.sum()))
        ]
    return result


def _rational(expr: Expr, bound: Mapping[str, Fraction]) -> Fraction:
    if isinstance(expr, Apply):
        left, right = (_rational(a, bound) for a in expr.args)
        return _RATIONAL[expr.op](left, right)
    return decode_real(expr.bits, FLOAT32).value if isinstance(expr, Const) else bound[str(expr)]
