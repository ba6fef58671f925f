"""Stochastic rounding rules other than the integer rule of `elements.encode(rounding="sr")`.

PTX `cvt.rs` is left out: which random bits serve which element of a pair is drawn only in a figure of the PTX manual,
and no chip that has the instruction was at hand to establish it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mxspec.elements import Codes, as_float32
from mxspec.formats import E2M1, FLOAT32
from mxspec.reals import Real, make_real, round_real

_GRID = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float64)


def unpack_random_words(words: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """The random byte of each element from Transformer Engine's packing: one uint32 serves four neighbours, the lowest
    byte the first of them. Shape [..., n] becomes [..., 4 n].

    Raises TypeError for words that are not uint32.
    """
    array = np.asarray(words)
    if array.dtype != np.uint32:
        raise TypeError(f"words have dtype {array.dtype}; pass uint32, one word for four elements")
    little = np.ascontiguousarray(array.astype("<u4")).view(np.uint8)
    return little.reshape(*array.shape[:-1], array.shape[-1] * 4) if array.ndim else little


def encode_te_stochastic(x: npt.ArrayLike, random_bytes: npt.ArrayLike) -> Codes:
    """e2m1 codes by Transformer Engine's software rule; random_bytes: uint8, x's shape.

    With u = r / 256 and step = 0.5 below 2, 1 below 4, 2 from there, t = fma(u, step, |x|) rounds to float32 and is then
    cut down to the grid. The rounding of t makes this differ from the integer rule just below a threshold. Values of 6
    and more, infinities and NaN give 6; NaN is positive. Source: TransformerEngine ptx.cuh, stochastic_round_fp4_e2m1.
    """
    values = as_float32(x)
    r = np.asarray(random_bytes)
    if r.dtype != np.uint8 or r.shape != values.shape:
        raise ValueError(
            f"random_bytes have dtype {r.dtype} and shape {r.shape}; pass uint8 of shape {values.shape} "
            "(unpack_random_words makes them from packed words)"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.abs(values.astype(np.float64))
        step = np.where(magnitude < 2, 0.5, np.where(magnitude < 4, 1.0, 2.0))
        addend = r.astype(np.float64) / 256 * step
        total = _add_to_float32(magnitude, addend)
        index = np.searchsorted(_GRID, np.where(np.isnan(total), np.inf, total), side="right") - 1
    negative = np.signbit(values) & ~np.isnan(values)
    return (index.astype(np.uint8) | np.where(negative, np.uint8(E2M1.sign_bit), np.uint8(0))).astype(np.uint8)


def _add_to_float32(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """a + b rounded once to float32: the sum in float64 is made odd where it is inexact, so that it does not round twice."""
    total = a + b
    lost = (a - (total - b)) + (b - (total - (total - b)))
    inexact = (lost != 0) & np.isfinite(total)
    bits = total.view(np.int64).copy()
    bits = np.where(inexact & (lost < 0), bits - 1, bits)
    bits = np.where(inexact, bits | 1, bits)
    return bits.view(np.float64).astype(np.float32).astype(np.float64)


def encode_te_stochastic_exact(x: Real, random_byte: int) -> int:
    """The same rule for one exact number: the definition."""
    if x.nan or x.magnitude is None:
        return 7 if x.nan else E2M1.join(x.sign, 7)
    step = Fraction(1, 2) if x.magnitude < 2 else Fraction(1 if x.magnitude < 4 else 2)
    total = round_real(make_real(x.magnitude + Fraction(random_byte, 256) * step), FLOAT32)
    if total.magnitude is None:
        return E2M1.join(x.sign, 7)
    return E2M1.join(x.sign, max(c for c in range(8) if E2M1.magnitude(c) <= total.magnitude))
