"""Hypothesis strategies: floats and blocks that lie where some rule changes its answer.

A block has a few lanes at thresholds of its own scale; the rest repeats one filler, so that a failing example
shrinks to what matters.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from mxspec.formats import BlockFormat, ElementFormat, get_block, power_of_two
from mxspec.scales import log2f_thresholds, significand_bits
from mxspec_vectors.points import TENSOR_AMAXES

from tests.support import FLOAT_TYPES, FLT_MAX, INF, MIN_NORMAL, NAN_BITS, SIGN, Array, around, float_bits, floats, magnitudes, real

_SPECIAL = (0, 1, MIN_NORMAL - 1, MIN_NORMAL, FLT_MAX - 1, FLT_MAX, INF)
#: Powers of two by which blocks are moved: ordinary ones, and those where float32 or the scale's range ends.
EXPONENTS = (0, -1, 1, -6, 7, -20, 33, 60, 100, 119, 126, -60, -100, -118, -124, -126, -130, -140)


@st.composite
def float32_bits(draw: st.DrawFn) -> int:
    """Any float32, special ones often."""
    magnitude = draw(st.one_of(st.sampled_from(_SPECIAL), st.integers(0, INF), st.integers(0x3F000000, 0x40FFFFFF)))
    sign = draw(st.sampled_from((0, SIGN)))
    return draw(st.sampled_from(NAN_BITS)) if draw(st.integers(0, 19)) == 19 else magnitude | sign


@cache
def element_points(element: ElementFormat) -> tuple[int, ...]:
    """float32 bits of an element's positive values and midpoints, and of points beyond the largest."""
    grid = magnitudes(element)
    middles = [(a + b) / 2 for a, b in pairwise(grid)]
    step = grid[-1] - grid[-2]
    beyond = [grid[-1] + step / 4, grid[-1] + step / 2, grid[-1] + step * Fraction(3, 4)]
    return tuple(sorted({float_bits(v) for v in [*grid[1:], *middles, *beyond]}))


@cache
def maximum_points(fmt: BlockFormat) -> tuple[int, ...]:
    """float32 bits of the maxima in [1, 8) at which scale rules change their answer."""
    element = fmt.element
    top = element.max_value / power_of_two(element.emax)
    half_up = 2 - Fraction(1, 1 << (significand_bits(element) + 1))
    grid = magnitudes(fmt.scale) if fmt.has_tensor_scale else ()
    ties = [(a + b) / 2 * 6 for a, b in pairwise(grid) if 1 <= a <= 2]
    values = [Fraction(1), Fraction(2), top, half_up, Fraction(3, 2), Fraction(6), Fraction(7), *ties]
    return tuple(sorted({float_bits(v) for v in values}))


def _moved(bits: int, exponent: int) -> int:
    value = real(bits).value * power_of_two(exponent)
    return min(float_bits(value), FLT_MAX)


@st.composite
def maxima(draw: st.DrawFn, fmt: BlockFormat) -> int:
    """float32 bits of a block's largest magnitude: a rule's threshold in some binade, or a step from it."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from(_SPECIAL))
    if kind == 1:
        return draw(st.integers(0, FLT_MAX))
    exponent = draw(st.sampled_from(EXPONENTS))
    if kind == 2:
        first, last = log2f_thresholds()
        value = draw(st.sampled_from((float(first[exponent + 149]), float(last[exponent + 149]))))
        bits = float_bits(value)
    else:
        bits = _moved(draw(st.sampled_from(maximum_points(fmt))), exponent)
    return min(draw(st.sampled_from(around(bits))), FLT_MAX)


@st.composite
def blocks(draw: st.DrawFn, fmt_name: str, dtype: str = "float32") -> Array:
    """One block of a format [k] in a dtype."""
    fmt = get_block(fmt_name)
    largest = draw(maxima(fmt))
    magnitude = real(largest)
    # The scale's exponent is that of the maximum less the element's, or one next to it: lanes are chosen for all three.
    exponent = 0
    if magnitude.is_finite and not magnitude.is_zero:
        exponent = (largest >> 23) - 127 - fmt.element.emax
    points = element_points(fmt.element)
    lane = st.one_of(
        st.builds(
            lambda point, shift, side: around(_moved(point, exponent + shift))[side],
            st.sampled_from(points),
            st.sampled_from((0, 1, -1)),
            st.sampled_from((0, 1, -1)),
        ),
        st.builds(lambda n: n * (largest // 64) if largest < INF else n << 20, st.integers(0, 64)),
        float32_bits(),
    )
    interesting = draw(st.lists(st.tuples(st.integers(0, fmt.k - 1), lane, st.booleans()), max_size=6))
    filler = draw(st.sampled_from((0, SIGN, largest if largest <= FLT_MAX else 0, max(largest - (1 << 22), 0))))
    row = [filler] * fmt.k
    row[draw(st.integers(0, fmt.k - 1))] = largest | draw(st.sampled_from((0, SIGN)))
    for position, bits, negative in interesting:
        row[position] = bits ^ (SIGN if negative else 0)
    numpy_dtype = FLOAT_TYPES[dtype][0]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(floats(row).astype(numpy_dtype))


def tensor_maxima() -> st.SearchStrategy[int]:
    """float32 bits of a tensor's largest magnitude: ordinary, tiny, huge, zero, Inf, NaN, any."""
    return st.one_of(st.sampled_from(tuple(TENSOR_AMAXES.values())), st.integers(0, INF))
