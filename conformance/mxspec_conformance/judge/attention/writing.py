"""Rows and queries by which each output of attention is one row of V, or the mean of some, whatever the order of additions and exp are.

Numbers of K are KAPPA or zero, or of either sign; each block or token stores them under a scale of its own, so that a scale of another
one changes logits. Queries are powers of two times one number, so that multiplying them by any factor in 16 bits changes all alike.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.attention import RowFormat, Scaling, join_rows
from mxspec.elements import decode, encode
from mxspec.formats import get_scalar

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

#: The magnitude of numbers of K, and its logarithm.
KAPPA, LOG_KAPPA = 32.0, 5
#: Numbers that a key's place has as bits, and the last place.
BITS = 9
LAST = (1 << BITS) - 1
#: Exponents of scales, relative to those under which a code is 1.
_EXPONENTS = range(-3, 4)


def write_exactly(units: Doubles, fmt: RowFormat, draw: np.random.Generator, center: int = 0) -> Array:
    """Rows [..., width] that hold numbers [..., d] exactly, each block or token under one of the powers of two that allow it.

    center: the logarithm of what is near the magnitude of the numbers.
    """
    if fmt.scaling is Scaling.NONE:
        return units.astype(fmt.dtype)
    if fmt.scaling is Scaling.GIVEN:
        return encode(units.astype(np.float32), fmt.element)
    k = units.shape[-1] if fmt.block is None else fmt.block.k
    groups = units.reshape(*units.shape[:-1], -1, k)
    best, codes, exponents = np.zeros(groups.shape[:-1]), np.zeros(groups.shape, np.uint8), np.zeros(groups.shape[:-1], int)
    for exponent in (center + e for e in _EXPONENTS):
        quotient = (groups / 2.0**exponent).astype(np.float32)
        tried, back = _write_codes(quotient, fmt)
        luck = (back == quotient).all(-1) * draw.uniform(0.1, 1, best.shape)
        wins = luck > best
        best = np.maximum(best, luck)
        codes[wins], exponents[wins] = tried[wins], exponent
    assert best.all()
    return join_rows(codes.reshape(units.shape), _write_scales(exponents, fmt), fmt)


def _write_codes(x: npt.NDArray[np.float32], fmt: RowFormat) -> tuple[Array, Array]:
    """Codes, and what they mean."""
    if fmt.element == "int8" and fmt.block is None:
        whole = np.clip(np.rint(x), -127, 127).astype(np.int8)
        return whole.view(np.uint8), whole.astype(np.float32)
    codes = encode(x, fmt.element)
    return codes, decode(codes, fmt.element)


def _write_scales(exponents: Array, fmt: RowFormat) -> Array:
    if fmt.block is None:
        return (2.0**exponents).astype(np.float32)
    return encode((2.0**exponents).astype(np.float32), fmt.block.scale)


@cache
def _list_codes(element: str, *, whole: bool) -> npt.NDArray[np.uint8]:
    """Codes of numbers between 1/8 and 16, of either sign."""
    codes = np.arange(256 if whole else get_scalar(element).code_count, dtype=np.uint8)
    values = np.abs(codes.view(np.int8).astype(np.float32) / 8 if whole else decode(codes, element))
    return codes[(values >= 0.125) & (values < 15.9)]


def draw_rows(shape: tuple[int, ...], d: int, fmt: RowFormat, draw: np.random.Generator) -> Array:
    """Rows [*shape, width] of any codes under any scales near 1: numbers of at most six bits, or seven under a power of two."""
    if fmt.scaling is Scaling.NONE:
        return (draw.choice([-1, 1], (*shape, d)) * draw.integers(1, 128, (*shape, d)) / 16).astype(fmt.dtype)
    codes = draw.choice(_list_codes(fmt.element, whole=fmt.element == "int8" and fmt.block is None), (*shape, d))
    if fmt.scaling is Scaling.GIVEN:
        return codes
    count = 1 if fmt.block is None else d // fmt.block.k
    if fmt.block is None or fmt.block.scale.is_power_of_two:
        return join_rows(codes, _write_scales(draw.integers(-3, 4, (*shape, count)), fmt), fmt)
    one = int(encode(np.ones(1, np.float32), fmt.block.scale)[0])
    return join_rows(codes, draw.integers(one - 16, one + 16, (*shape, count)).astype(np.uint8), fmt)


def lose_rows(rows: Array, fmt: RowFormat) -> Array:
    """The same rows as NaN where the format has one: no query sees what follows."""
    lost = rows.copy()
    if fmt.scaling is Scaling.NONE:
        lost[...] = np.nan
    elif fmt.scaling is Scaling.TOKEN:
        lost[..., -4:] = np.array([np.nan], np.float32).view(np.uint8)
    elif fmt.block is not None:
        first = fmt.count_codes(fmt.columns(rows.shape[-1]))
        lost[..., first:] = fmt.block.scale.nan_code
    else:
        lost[...] = get_scalar(fmt.element).nan_code
    return lost


def spell_places(places: Array, d: int, first: int = 0) -> Doubles:
    """Units [..., d] of K, of which `count_to` makes logits that grow by one from key to key: bits of the place, and ones.

    first: the place that counts as 0, as do those before it; those behind the last that bits can say are alike.
    """
    places = np.clip(places - first, 0, LAST)
    units = np.zeros((*places.shape, d))
    units[..., :BITS] = places[..., None] >> np.arange(BITS) & 1
    units[..., BITS : 2 * BITS + 1] = 1
    units[..., 2 * BITS + 1 :] = (places[..., None] * 7 + np.arange(d - 2 * BITS - 1) * 5) % 3 == 0
    return units * KAPPA


def count_to(places: Array, d: int, sign: int, more: int = 0) -> Doubles:
    """Units of queries [..., d]: the logit of key j is sign (j - place), plus more."""
    weights, units = 2.0 ** np.arange(BITS), np.zeros((*places.shape, d))
    units[..., :BITS] = sign * weights
    units[..., BITS : 2 * BITS] = -sign * weights * (places[..., None] >> np.arange(BITS) & 1)
    units[..., 2 * BITS] = more
    return units


def spell_words(places: Array, d: int) -> Doubles:
    """Units [..., d] of +1 and -1, any two of which differ in 8 of 32: words of the Reed-Muller code RM(2, 5); and as many ones.

    With a word and as many minus ones as a query the logit of its own key is 0, of every other one at most -16.
    """
    x = (np.arange(32)[None] >> np.arange(5)[:, None]) & 1
    basis = np.array([np.ones(32, int), *x, *(x[i] & x[j] for i in range(5) for j in range(i))])
    bits = (places[..., None] * 40503 % 65536 >> np.arange(16)) & 1  # an odd factor: adjacent places get words unlike each other
    words = 1.0 - 2 * (bits @ basis % 2)
    return KAPPA * np.tile(np.concatenate([words, np.ones_like(words)], -1), d // 64)


def point_at(places: Array, d: int) -> Doubles:
    """The queries to these words."""
    units = spell_words(places, d).reshape(*places.shape, d // 64, 64)
    units[..., 32:] *= -1
    return units.reshape(*places.shape, d) / KAPPA
