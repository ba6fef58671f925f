"""Expressions on NumPy arrays.

float32 domains compute in float32, where NumPy is IEEE 754 (one rounding, subnormals kept). The exact domain computes
in float64, which holds a product of a float32 and a format's value exactly; `apply` refuses what it could not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import round_to_bfloat16
from mxspec.environment import check_environment
from mxspec.expressions import Domain, Op, Test
from mxspec.rcp_table import load_rcp_table

Values = npt.NDArray[Any]

check_environment()  # modules may be imported long after `mxspec`
_MIN_NORMAL = np.float32(2.0**-126)
#: Results below this are flushed: rounded to 24 bits with any exponent they are less than 2**-126 (`Domain.F32_FTZ`).
_FLUSHED_BELOW = 2.0**-126 * (1 - 2.0**-25)


def flush_to_zero(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """x with subnormals replaced by zeros of their sign."""
    return np.where(np.abs(x) < _MIN_NORMAL, np.copysign(np.float32(0), x), x)


def rcp_approx(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """`rcp.approx.ftz.f32` of float32 values, bit for bit as measured on sm_90.

    Subnormal operands count as zeros (their reciprocal is an infinity), subnormal results become zeros.
    """
    x = np.asarray(x, np.float32)
    flushed = flush_to_zero(x)
    bits = flushed.view(np.uint32)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        reciprocal = np.float32(1) / flushed
    delta = load_rcp_table()[bits & np.uint32(0x7FFFFF)].astype(np.int32)
    finite = np.isfinite(reciprocal) & np.isfinite(flushed)
    moved = (reciprocal.view(np.int32) + np.where(finite, delta, 0)).view(np.float32)
    return flush_to_zero(moved)


def ceil_pow2(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Magnitudes of float32 values rounded up to powers of two; zeros, infinities and NaN as they are."""
    fraction, exponent = np.frexp(x)
    up = np.ldexp(np.copysign(1.0, x), exponent - (np.abs(fraction) == 0.5))
    return np.where(np.isfinite(x) & (x != 0), up, x)


class ArrayArithmetic:
    """`expressions.Arithmetic` over NumPy arrays."""

    def constant(self, bits: int) -> Values:
        """The float32 with these bits, as a 0-d array."""
        return np.asarray(np.uint32(bits)).view(np.float32)

    def apply(self, op: Op, domain: Domain, args: tuple[Values, ...]) -> Values:
        """One operation, rounded in its domain.

        Raises ValueError for a rounded operation on an operand that is not float32, since two roundings would hide in it.
        """
        with np.errstate(all="ignore"):
            if op is Op.ROUND:
                return self._round(args[0], domain)
            if op in _SELECTIONS:
                return np.asarray(_SELECTIONS[op](*args))
            if op is Op.CEIL_POW2:
                return ceil_pow2(args[0].astype(np.float64))
            if domain is Domain.EXACT:
                wide = [a.astype(np.float64) for a in args]
                return np.asarray(_OPERATIONS[op](*wide))
            if any(a.dtype != np.float32 for a in args):
                raise ValueError(f"{op.value} in {domain.value} takes float32 operands; round the exact one first")
            if op is Op.RCP:
                return rcp_approx(args[0])
            if domain is Domain.F32_FTZ:  # float64 shows what is tiny; rounding its result again to float32 changes nothing
                args = tuple(flush_to_zero(a).astype(np.float64) for a in args)
            return self._round(np.asarray(_OPERATIONS[op](*args)), domain)

    def _round(self, x: Values, domain: Domain) -> Values:
        if domain is Domain.EXACT:
            return x
        narrow = np.asarray(x.astype(np.float32))
        if domain is Domain.F32_FTZ:
            tiny = np.abs(x.astype(np.float64)) < _FLUSHED_BELOW
            return np.asarray(np.where(tiny, np.copysign(np.float32(0), narrow), narrow))
        if domain is Domain.BF16:
            return np.asarray(round_to_bfloat16(narrow.astype(np.float64)).astype(np.float32))
        if domain is Domain.F16:
            return np.asarray(narrow.astype(np.float16).astype(np.float32))
        return narrow

    def choose(self, left: Values, test: Test, right: Values, then: Values, otherwise: Values) -> Values:
        """then where the test holds, else otherwise."""
        with np.errstate(invalid="ignore"):
            if test is Test.EQUAL:
                condition = left == right
            elif test is Test.LESS:
                condition = left < right
            else:
                condition = np.isnan(left) if test is Test.IS_NAN else np.isinf(left)
        return np.asarray(np.where(condition, then, otherwise))


_OPERATIONS: dict[Op, Any] = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide}


def _select(*, larger: bool, skip_nan: bool) -> Callable[[Values, Values], Values]:
    """min, max, fmin or fmax; of equal operands the first (NumPy's own choice between 0 and -0 varies by position)."""

    def select(a: Values, b: Values) -> Values:
        chosen = np.where(a < b if larger else b < a, b, a)
        a_nan, b_nan = np.isnan(a), np.isnan(b)
        if skip_nan:
            return np.where(a_nan, b, chosen)
        return np.where(b_nan & ~a_nan, b, chosen)

    return select


#: Operations that return one of their operands: nothing is rounded.
_SELECTIONS: dict[Op, Any] = {
    Op.MIN: _select(larger=False, skip_nan=False),
    Op.MAX: _select(larger=True, skip_nan=False),
    Op.FMIN: _select(larger=False, skip_nan=True),
    Op.FMAX: _select(larger=True, skip_nan=True),
    Op.ABS: np.abs,
}

ARRAYS = ArrayArithmetic()
