"""Drawing blocks: first a maximum, where scales change or in any binade; then lanes, where its scale makes quotients round."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.counterexample.sample_space import LAST_FINITE, Float32s, SampleSpace

Bits = npt.NDArray[Any]
_SIGN = 1 << 31
_INF = 0x7F800000
#: How often each recipe for lanes is used; the order is that of `_lanes`.
_RECIPES = ("points", "sparse", "anything", "fractions", "alike", "values", "zeros", "tiny", "powers", "short")
_WEIGHTS = np.array([30, 12, 8, 8, 5, 15, 6, 4, 6, 6], float)


#: float32 bits of each dtype's smallest and largest numbers, and of the ends of its subnormals.
_ENDS = {
    "float32": (1, 2, 0x7FFFFF, 0x800000, 0x800001, LAST_FINITE - 1, LAST_FINITE),
    "bfloat16": (0x10000, 0x7F0000, 0x800000, 0x7F7E0000, 0x7F7F0000),
    "float16": (0x33800000, 0x387FC000, 0x38800000, 0x477FC000, 0x477FE000),
}


def draw_maxima(space: SampleSpace, n: int, rng: np.random.Generator) -> Any:
    """float32 bits of n maxima."""
    low, high = space.exponents
    field: Any = rng.integers(low, high + 1, n)
    ordinary = np.clip(127 + rng.integers(-8, 9, n), low, high)
    field = np.where(rng.random(n) < 0.25, ordinary, field)
    kind = rng.random(n)
    fixed = space.significands[rng.integers(0, len(space.significands), n)]
    drawn = rng.integers(0, 1 << 23, n)
    short = drawn >> 16 << 16
    significand = np.where(kind < 0.45, fixed, np.where(kind < 0.75, drawn, short))
    bits = (field << 23) + significand + np.where(kind < 0.45, rng.integers(-1, 2, n), 0)
    if space.changes.size:
        at_change = rng.random(n) < 0.2
        bits = np.where(at_change, space.changes[rng.integers(0, space.changes.size, n)] + rng.integers(-1, 2, n), bits)
    ends = np.array(_ENDS[space.dtype], np.int64)
    bits = np.where(rng.random(n) < 0.02, ends[rng.integers(0, len(ends), n)], bits)
    return np.clip(bits, 0, space.largest)


def _bits_of(values: npt.NDArray[np.float64]) -> Bits:
    with np.errstate(all="ignore"):
        bits: Bits = values.astype(np.float32).view(np.uint32).astype(np.int64)
    return bits


def _lanes(recipe: int, space: SampleSpace, maxima: Bits, units: Any, rng: np.random.Generator) -> Any:
    """float32 bits [n, k], signs included, of the lanes of blocks with one recipe; not yet below the maxima."""
    n, k = len(maxima), space.fmt.k
    shape = (n, k)
    points, unit = space.points, units[:, None]
    near = rng.choice(np.array([-1, 0, 0, 0, 1]), shape)
    sign = rng.integers(0, 2, shape) << 31
    name = _RECIPES[recipe]
    if name in ("points", "sparse", "alike"):
        index = rng.integers(0, len(points), (n, 1) if name == "alike" else shape)
        bits = np.maximum(_bits_of(points[index] * unit) + (near if name != "alike" else near[:, :1]), 0)
        bits = np.broadcast_to(bits, shape)
        if name == "sparse":
            bits = np.where(rng.random(shape) < 2 / k, bits, 0)
        return bits | sign
    if name == "anything":
        return (rng.random(shape) * (maxima[:, None] + 1)).astype(np.int64) | sign
    if name == "fractions":
        largest = maxima.astype(np.uint32).view(np.float32).astype(np.float64)[:, None]
        return _bits_of(rng.random(shape) * largest) | sign
    if name == "values":
        return _bits_of(space.values[rng.integers(0, len(space.values), shape)] * unit) | sign
    if name == "zeros":
        return np.where(rng.random(shape) < 0.15, maxima[:, None], 0) | sign
    if name == "tiny":
        return rng.choice(np.array([0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x400000]), shape) | sign
    if name == "powers":
        down = rng.integers(0, 40, shape)
        return np.maximum((maxima[:, None] >> 23) - down, 0) << 23 | sign
    return ((rng.random(shape) * (maxima[:, None] + 1)).astype(np.int64) >> 16 << 16) | sign


def draw_blocks(space: SampleSpace, n: int, rng: np.random.Generator) -> Float32s:
    """n blocks [n, k] of finite numbers that the space's dtype holds."""
    k = space.fmt.k
    maxima = draw_maxima(space, n, rng)
    alone = np.zeros((n, k), np.float32)
    alone[:, 0] = space.cast(maxima)
    units = space.units(space.expect(alone)[0][:, 0])
    recipes = rng.choice(len(_RECIPES), n, p=_WEIGHTS / _WEIGHTS.sum())
    bits = np.zeros((n, k), np.int64)
    for recipe in range(len(_RECIPES)):
        rows = np.flatnonzero(recipes == recipe)
        bits[rows] = _lanes(recipe, space, maxima[rows], units[rows], rng)
    magnitude = np.minimum(bits & (_SIGN - 1), maxima[:, None])
    bits = magnitude | bits & _SIGN
    place = rng.integers(0, k, n)
    bits[np.arange(n), place] = maxima | rng.integers(0, 2, n) << 31
    # Packing can damage neighbouring codes: a fifth of the blocks repeats one pair.
    pairs = np.flatnonzero(rng.random(n) < 0.05)
    bits[pairs, 1::2] = bits[pairs, ::2] ^ (rng.integers(0, 2, (len(pairs), 1)) << 31)
    x = space.cast(bits)
    if space.dtype != "float32":  # rounding to the dtype may have gone beyond its largest number
        x = np.where(np.isfinite(x), x, np.float32(0)).astype(np.float32)
    return x


def draw_special(space: SampleSpace, n: int, rng: np.random.Generator) -> Float32s:
    """n blocks with NaN, infinities or nothing but zeros."""
    x = draw_blocks(space, n, rng)
    k = space.fmt.k
    kind = rng.integers(0, 5, n)
    nan = np.array([0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0x7FE00000], np.uint32).view(np.float32)
    place, second = rng.integers(0, k, n), rng.integers(0, k, n)
    index = np.arange(n)
    x[index, place] = np.where(kind < 2, nan[rng.integers(0, 4, n)], x[index, place])
    infinite = np.where(rng.integers(0, 2, n), np.inf, -np.inf).astype(np.float32)
    x[index, second] = np.where((kind == 1) | (kind == 2) | (kind == 3), infinite, x[index, second])
    zero = kind == 4
    x[zero] = np.where(rng.integers(0, 2, (int(zero.sum()), k)) == 1, np.float32(-0.0), np.float32(0))
    return x
