"""What a contract lets a function return: for each element an interval, before and after its last rounding.

In the forms `PLAIN` and `RECIPROCAL` every step is one operation of float32, rounded to nearest: applied to both ends it gives both ends,
for it never turns an order round; exp, erf and tanh lie within their enclosure and the contract's ulps. In the form `ANY` the interval is
the true value with the sum of the errors that float32 operations make: U for each, where the functions say how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.fused.contracts import FAST, Contract, Form, get_contract, list_contracts
from mxspec.fused.enclosures import Floats, Interval, enclose_erf, enclose_exp, enclose_tanh, make_point
from mxspec.fused.functions import ALPHA, EPS, FUNCTIONS, FusedFunction, Kind

#: Half a unit in the last place of float32, relative to the number; and half of its smallest subnormal.
U, TINY = 2.0**-24, 2.0**-150
#: exp beyond here, and its reciprocal below, leave float32 or its normal numbers.
_UNDERFLOWS = 87.0
_ONE, _HALF, _MINUS = make_point(1), make_point(0.5), make_point(-1)


def evaluate(
    function: FusedFunction, contract: Contract, given: Mapping[str, npt.NDArray[Any]], eps: float = EPS
) -> tuple[Interval, Interval]:
    """Where f lies for arrays by name (`FusedFunction.take`), rows along the first axis: what is quantized, and what amax is taken of."""
    points = {name: make_point(array) for name, array in given.items()}
    with np.errstate(all="ignore"):
        if function.kind is Kind.HADAMARD:
            plain = _mix(points["x"].lo, function)
        else:
            plain = _normalize(function, contract, points, eps) if function.kind is Kind.RMSNORM else _activate(function, contract, points)
        rounded = plain if contract.product == "float32" else plain.rounded(contract.product)
    return rounded, plain if contract.amax_unrounded else rounded


def compute(x: npt.NDArray[Any], function: str, *, contract: str = "", eps: float = EPS, **arrays: Any) -> npt.NDArray[np.float32]:
    """f(x) of a function by its name, by a contract (the first, which leaves least open); of an interval its lower end.

    x is [rows, columns] in float32, float16 or bfloat16; arrays: up, residual or weight. Raises ValueError for an unknown contract.
    """
    f = FUNCTIONS[function]
    chosen = get_contract(contract, f) if contract else next(iter(list_contracts(f)))
    return evaluate(f, chosen, f.take(x, arrays), eps)[0].lo.astype(np.float32)


def _activate(function: FusedFunction, contract: Contract, given: Mapping[str, Interval]) -> Interval:
    x, up = given["x"], given.get("up")
    if function.kind is Kind.SWIGLU_OAI:
        limit = function.limit
        x, up = x.clamped(-np.inf, limit), (given["up"].clamped(-limit, limit) + _ONE).rounded()
    if function.kind in (Kind.SILU, Kind.SWIGLU_OAI):
        alpha = 1.0 if function.kind is Kind.SILU else ALPHA
        a = _silu_by_tanh(x, alpha) if function.by_tanh else _silu(x, contract, alpha)
    else:
        a = _gelu(x, contract, function.cubic, has_tanh=function.kind is Kind.GELU_TANH)
    a = a if contract.inner == "float32" else a.rounded(contract.inner)
    if up is None:
        return a
    # up + 1 may be fused with the product.
    return (a * up).widened(U * (1 + (function.kind is Kind.SWIGLU_OAI)), TINY) if contract.form is Form.ANY else (a * up).rounded()


def _silu(x: Interval, contract: Contract, alpha: float) -> Interval:
    """x sigmoid(alpha x).

    Any order: exp with n ulp is off by n 2^-23 of itself, and the sigmoid by that times 1 - sigmoid; for a rounded alpha, and alpha x, by
    |alpha x| 2 U more; the sum, the division or reciprocal and the product by U each, and one more. Where exp overflows, or its reciprocal is subnormal,
    the result may be anything between 0 and itself.
    """
    z = x * make_point(alpha)
    ulps: Any = contract.ulps if contract.ulps != FAST else 2 + np.floor(1.173 * np.abs(z.lo))
    if contract.form is not Form.ANY:
        below = (_ONE + enclose_exp(z.rounded() * _MINUS).widened_by_ulps(ulps).rounded()).rounded()
        if contract.form is Form.PLAIN:
            return (x / below).rounded()
        return (x * (_ONE / below).rounded().rounded(contract.sigmoid)).rounded()
    below = _ONE + enclose_exp(z * _MINUS)
    error = (1 - 1 / below.hi) * (ulps * 2 * U + (alpha != 1) * np.abs(z.lo) * 2 * U) + 4 * U
    sigmoid = (_ONE / below).widened(np.where(np.isnan(error), 1, error), TINY)
    sigmoid = Interval(np.where(z.lo < -_UNDERFLOWS, 0, sigmoid.lo), sigmoid.hi)
    return x * sigmoid if contract.sigmoid == "float32" else (x * sigmoid.rounded(contract.sigmoid)).widened(U, TINY)


def _silu_by_tanh(x: Interval, alpha: float) -> Interval:
    """x (1 + tanh(alpha x / 2)) / 2 by `tanh.approx`: off by 2^-10.98 of the tanh and, as `_gelu`, by the operations around it."""
    t = enclose_tanh(x * make_point(alpha) * _HALF)
    return (x * _HALF * (_ONE + t.widened(0, np.abs(t.hi) * 2.0**-10.98 + 6 * U))).widened(3 * U, TINY)


def _gelu(x: Interval, contract: Contract, cubic: float, *, has_tanh: bool) -> Interval:
    """x / 2 (1 + t), t = erf(x / sqrt(2)) or tanh(sqrt(2 / pi) (x + cubic x^3)).

    Any order: t, of at most 1, is off by n 2^-24, by 4 U for its argument, which is off by at most 7 U of itself (|z erf'(z)| < 0.49,
    |z tanh'(z)| < 0.45), and 1 + t by 2 U; the products by U each.
    """
    plain = contract.form is not Form.ANY

    def step(i: Interval) -> Interval:
        return i.rounded() if plain else i

    root, kappa, beta = (step(make_point(c)) for c in (0.7071067811865476, cubic, 0.7978845608028654))
    if has_tanh:
        t = enclose_tanh(step(beta * step(x + step(kappa * step(step(x * x) * x)))))
    else:
        t = enclose_erf(step(x * root))
    if plain:
        t = t.widened_by_ulps(contract.ulps).clamped(-1, 1).rounded()
        return ((x * _HALF).rounded() * (_ONE + t).rounded()).rounded()
    error = np.maximum(np.abs(t.hi) * 2.0**-10.98, 2 * U) if contract.ulps == FAST else contract.ulps * U
    return (x * _HALF * (_ONE + t.widened(0, error + 6 * U))).widened(3 * U, TINY)


def _normalize(function: FusedFunction, contract: Contract, given: Mapping[str, Interval], eps: float) -> Interval:
    """h / sqrt(mean(h^2) + eps) times the weight.

    The sum of n squares in any order is off by n U of itself, or not at all where it is exact in every order; the mean by 2 U, eps by 2 U,
    the root and its reciprocal, or rsqrt of 2 ulp, by 4 U; each product by U, in either order.
    """
    h = (given["x"] + given["residual"]).rounded().rounded(contract.total) if function.adds else given["x"]
    n = h.lo.shape[-1]
    squares = h.lo * h.lo if function.add is None else function.add(h.lo * h.lo)
    total = make_point(squares.sum(axis=-1, keepdims=True)).widened(0, _bound_sum(squares, squares.shape[-1]))
    below = ((total / make_point(n)).widened(2 * U, TINY) + make_point(eps)).widened(2 * U)
    root = Interval(np.sqrt(np.maximum(below.lo, 0)), np.sqrt(below.hi))
    y = (h * (_ONE / root).widened(4 * U)).widened(U, TINY)
    y = y if contract.inner == "float32" else y.rounded(contract.inner)
    weight = given.get("weight", _ONE)
    return (y * ((weight + _ONE).rounded() if function.plus_one else weight)).widened(U, TINY)


def _mix(x: Floats, function: FusedFunction) -> Interval:
    """A Hadamard matrix (Sylvester's: -1 where i & j has an odd number of bits) times each group of numbers.

    A sum of n numbers in any order is off by (n - 1) U of the sum of their magnitudes, or not at all where it is exact in every order;
    scaled by a number that is no power of two, before or after, by 3 U of it more; TINY for each subnormal.
    """
    n = function.size
    groups = x.reshape(*x.shape[:-1], -1, n)
    signs = np.array([[(-1.0) ** (i & j).bit_count() for j in range(n)] for i in range(n)])
    error = _bound_sum(groups, n - 1)
    if function.scaled and n not in (16, 64):
        error = error + np.abs(groups).sum(axis=-1, keepdims=True) * 3 * U
    y, (factor, below) = groups @ signs, (n**-0.5, n * TINY) if function.scaled else (1.0, 0.0)
    return Interval(((y - error) * factor - below).reshape(x.shape), ((y + error) * factor + below).reshape(x.shape))


def _bound_sum(terms: Floats, steps: int) -> Floats:
    """By how much a float32 sum along the last axis may be off: nothing where all terms are multiples of some 2^e, 2^-149 or more, and
    their magnitudes add up to 2^24 of it at most, so that every partial sum is exact."""
    magnitudes = np.abs(terms).sum(axis=-1, keepdims=True)
    unit = np.ldexp(1.0, np.maximum(np.frexp(magnitudes)[1] - 24, -149))
    exact = (np.rint(terms / unit) * unit == terms).all(axis=-1, keepdims=True)
    return np.where(exact | np.isinf(magnitudes), 0, magnitudes * (steps * U / (1 - steps * U)) + steps * TINY)
