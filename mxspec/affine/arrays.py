"""Affine profiles and contracts on arrays, equal to `mxspec.affine.exact` bit for bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.certain import is_real, round_certainly
from mxspec.affine.contracts import AffineContract
from mxspec.affine.formats import AffineFormat, Offset
from mxspec.affine.schema import AffineProfile, Step
from mxspec.arrays import ARRAYS
from mxspec.elements import output_dtype, round_to
from mxspec.expressions import Domain, Expr, Op, evaluate
from mxspec.formats import FloatFormat
from mxspec.profiles.schema import AmaxNan
from mxspec.reals import encode_real, make_real
from mxspec.rounding import Overflow
from mxspec.roundoff import sum_errors

Values = npt.NDArray[Any]
Codes = npt.NDArray[np.uint8]
Float32s = npt.NDArray[np.float32]


def find_ends(x: Float32s, nan: AmaxNan = AmaxNan.PROPAGATE) -> tuple[Float32s, Float32s]:
    """The smallest and the largest value along the last axis; of equal ones (zeros of both signs) the first.

    A group of NaN alone gives +Inf and -Inf where they are skipped.
    """
    missing = np.isnan(x)
    low = np.where(missing, np.float32(np.inf), x) if nan is not AmaxNan.PROPAGATE else x
    high = np.where(missing, np.float32(-np.inf), x) if nan is not AmaxNan.PROPAGATE else x
    lo, hi = low.min(axis=-1), high.max(axis=-1)
    first_zero = np.take_along_axis(x, np.argmax(x == 0, axis=-1)[..., None], axis=-1)[..., 0]
    return np.where(lo == 0, first_zero, lo), np.where(hi == 0, first_zero, hi)


def _round_whole(value: Values) -> Values:
    return np.asarray(np.rint(value))


def _store(expr: Expr, bound: dict[str, Values], fmt: AffineFormat) -> Values:
    """An expression's value rounded once to the format's dtype."""
    if is_real(expr):
        return round_certainly(expr, bound, lambda v: round_to(v, fmt.dtype), lambda f: _nearest(f, fmt.scalar))
    return round_to(evaluate(expr, bound, ARRAYS).astype(np.float64), fmt.dtype)


def _nearest(value: Fraction, scalar: FloatFormat) -> Any:
    bits = encode_real(make_real(value), scalar, overflow=Overflow.OWN)
    return np.array(bits, f"u{scalar.bits // 8}").view(output_dtype(scalar.name))


def _evaluate(step: Step, bound: dict[str, Values]) -> Values:
    if step.whole and is_real(step.value):
        return round_certainly(step.value, bound, _round_whole, lambda f: float(round(f)))
    value = np.asarray(evaluate(step.value, bound, ARRAYS))
    with np.errstate(invalid="ignore"):
        return _round_whole(value) if step.whole else value


def _cut(value: Values, bins: int, nan_code: int) -> Codes:
    filled = np.where(np.isnan(value), nan_code, value)
    return np.asarray(np.clip(filled, 0, bins)).astype(np.uint8)


def quantize_groups(x: Float32s, fmt: AffineFormat, profile: AffineProfile) -> tuple[Codes, Values, Values]:
    """Codes [..., g], scales [...] and offsets [...] of groups x [..., g] of float32 values."""
    lo, hi = find_ends(x, profile.nan)
    bound: dict[str, Values] = {"lo": lo, "hi": hi, "bins": np.array(fmt.bins, np.float32)}
    scales = offsets = None
    for step in profile.group:
        if step.name == "scale":
            scales = _store(step.value, bound, fmt)
        if step.name == "bias":
            offsets = _store(step.value, bound, fmt)
        if step.name in ("scale", "bias") and is_real(step.value):
            continue  # only what is stored is checked again: no array holds the real number
        bound[step.name] = _evaluate(step, bound)
    assert scales is not None
    shared = bound | {"s": scales.astype(np.float32)}
    if fmt.offset is Offset.ZERO:
        offsets = _cut(np.broadcast_to(bound["zero"], lo.shape), fmt.bins, 0)
        shared["z"] = offsets.astype(np.float32)
    else:
        assert offsets is not None
        shared["b"] = offsets.astype(np.float32)
    own = {name: np.asarray(value)[..., None] if np.ndim(value) else value for name, value in shared.items()} | {"x": x}
    for step in profile.element:
        own[step.name] = _evaluate(step, own)
    codes = _cut(np.broadcast_to(own["code"], x.shape), fmt.bins, profile.nan_code)
    return codes, scales, offsets


class _Odd:
    """Arithmetic in which real sums are float64 rounded to odd: a later rounding to 24 bits or fewer sees the truth."""

    def constant(self, bits: int) -> Values:
        return ARRAYS.constant(bits)

    def apply(self, op: Op, domain: Domain, args: tuple[Values, ...]) -> Values:
        if domain is not Domain.EXACT or op not in (Op.ADD, Op.SUB):
            return ARRAYS.apply(op, domain, args)
        left, right = (a.astype(np.float64) for a in args)
        return add_to_odd(left, -right if op is Op.SUB else right)

    def choose(self, left: Values, test: Any, right: Values, then: Values, otherwise: Values) -> Values:
        return ARRAYS.choose(left, test, right, then, otherwise)


def add_to_odd(a: Values, b: Values) -> Values:
    """a + b in float64; where that is not exact, the neighbour with an odd last bit (rounding to odd)."""
    with np.errstate(all="ignore"):
        total = np.asarray(a + b)
        error = sum_errors(a, b, total)
        inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
        # Where the sum was rounded away from the truth, go one back toward it; then set the last bit.
        away = inexact & ((error < 0) == (total > 0)) & (total != 0)
    bits = np.array(total, np.float64).view(np.int64)
    bits = np.where(away, bits - 1, bits)
    bits = np.where(inexact, bits | 1, bits)
    return np.asarray(bits.view(np.float64))


_ODD = _Odd()


def dequantize_groups(codes: Codes, scales: Values, offsets: Values, fmt: AffineFormat, contract: AffineContract, dtype: str) -> Values:
    """Values [..., g] in `dtype` of codes [..., g] under scales and offsets [...]: the contract's, rounded once more to
    `dtype` where that is another."""
    bound = {"q": codes.astype(np.float32), "s": scales.astype(np.float32)[..., None]}
    bound["b" if fmt.offset is Offset.BIAS else "z"] = offsets.astype(np.float32)[..., None]
    value = np.broadcast_to(evaluate(contract.value, bound, _ODD), codes.shape).astype(np.float64)
    if contract.dtype is not None:
        value = round_to(value, contract.dtype).astype(np.float64)
    return round_to(value, dtype)
