"""Roundoff errors are what rationals say; what is traced as exact is the real number."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mxspec.affine.certain import _rational, _trace, round_certainly
from mxspec.expressions import Leaf, exact
from mxspec.roundoff import product_errors, sum_errors

from tests.support import seed

A, B, C = Leaf("a"), Leaf("b"), Leaf("c")
EXPRESSIONS = {
    "code with a bias": exact.div(exact.sub(A, B), C),
    "code with a zero": exact.add(exact.div(A, C), B),
    "scale": exact.mul(exact.div(A, B), C),
}


def draw(rng: np.random.Generator, bits: int, size: int = 4000) -> np.ndarray:
    """Float32 values of at most so many bits under exponents near one another."""
    whole = rng.integers(-(1 << bits) + 1, 1 << bits, size)
    return np.ldexp(whole.astype(np.float64), rng.integers(-4, 5, size) - bits).astype(np.float32)


@pytest.mark.parametrize("far", [3, 40, 300])
def test_errors_are_those_of_rationals(far: int) -> None:
    rng = np.random.default_rng(seed())
    x, y = (np.ldexp(rng.standard_normal(500), rng.integers(-far, far, 500)) for _ in range(2))
    total, product = x + y, x * y
    for i in range(500):
        p, q = Fraction(x[i]), Fraction(y[i])
        assert Fraction(sum_errors(x, y, total)[i]) == p + q - Fraction(total[i])
        assert Fraction(product_errors(x, y, product)[i]) == p * q - Fraction(product[i])


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("bits", [3, 11, 24])
def test_what_is_traced_as_exact_is_the_real_number(name: str, bits: int) -> None:
    rng = np.random.default_rng(seed())
    bound = {leaf: draw(rng, bits) for leaf in "abc"}
    divisor = "b" if name == "scale" else "c"
    bound[divisor][bound[divisor] == 0] = 1
    value, certain = _trace(EXPRESSIONS[name], bound)
    reals = [_rational(EXPRESSIONS[name], {n: Fraction(float(v[i])) for n, v in bound.items()}) for i in range(value.size)]
    is_real = np.array([Fraction(v) == r for v, r in zip(value.tolist(), reals, strict=True)])
    assert not (certain & ~is_real).any()
    if bits == 3:
        assert np.count_nonzero(certain) > value.size // 8  # ties of small numbers take this way
    rounded = round_certainly(EXPRESSIONS[name], bound, lambda v: np.asarray(np.rint(v)), lambda f: float(round(f)))
    assert rounded.tolist() == [float(round(r)) for r in reals]


def test_ties_need_no_rationals() -> None:
    x = np.arange(-64, 64, dtype=np.float32) / 2
    expr = EXPRESSIONS["code with a bias"]
    bound = {"a": x, "b": np.zeros_like(x), "c": np.ones_like(x)}

    def refuse(value: Fraction) -> float:
        raise AssertionError(f"{value} was rounded as a rational")

    assert round_certainly(expr, bound, lambda v: np.asarray(np.rint(v)), refuse).tolist() == np.rint(x).tolist()
