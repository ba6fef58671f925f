"""Real-number steps on arrays: float64 where it is certain to round as the real number does, rationals where it is not.

Certain is what stays the same within float64's error, and what float64 computed without any: ties, most of all.
"""

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
from mxspec.roundoff import product_errors, sum_errors

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
        raise ValueError(f"{expr} has more than {_MOST_OPERATIONS} operations; float64's error is not known to be small")
    with np.errstate(all="ignore"):
        value = evaluate(expr, dict(bound), ARRAYS).astype(np.float64)
        result = np.array(rounding(value))
        unsure = rounding(value * (1 - _MARGIN)) != rounding(value * (1 + _MARGIN))
        unsure &= np.isfinite(value)
        if unsure.any():
            near = {name: np.broadcast_to(bound[name], value.shape)[unsure] for name in leaves(expr)}
            unsure[unsure] = ~_trace(expr, near)[1]
    if unsure.any():
        names = sorted(leaves(expr))
        whole = {n: np.broadcast_to(bound[n], value.shape)[unsure] for n in names}
        result[unsure] = [exactly(_rational(expr, {n: Fraction(float(whole[n][i])) for n in names})) for i in range(int(unsure.sum()))]
    return result


def _trace(expr: Expr, bound: Mapping[str, Values]) -> tuple[Values, npt.NDArray[np.bool_] | np.bool_]:
    """The expression in float64, and where no operation of it was rounded."""
    if not isinstance(expr, Apply):
        return evaluate(expr, dict(bound), ARRAYS).astype(np.float64), np.True_
    (left, left_exact), (right, right_exact) = (_trace(a, bound) for a in expr.args)
    value = ARRAYS.apply(expr.op, Domain.EXACT, (left, right))
    if expr.op is Op.DIV:
        back = value * right
        exact = (back == left) & (product_errors(value, right, back) == 0)
    elif expr.op is Op.MUL:
        exact = product_errors(left, right, value) == 0
    else:
        exact = sum_errors(left, -right if expr.op is Op.SUB else right, value) == 0
    return value, exact & left_exact & right_exact


def _rational(expr: Expr, bound: Mapping[str, Fraction]) -> Fraction:
    if isinstance(expr, Apply):
        left, right = (_rational(a, bound) for a in expr.args)
        return _RATIONAL[expr.op](left, right)
    return decode_real(expr.bits, FLOAT32).value if isinstance(expr, Const) else bound[str(expr)]
