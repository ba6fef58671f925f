"""What is added to sums: numbers of every bit that their dtype has, factors that are no powers of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.dtypes import DTYPES

#: Bits of a dtype's numbers, as far as float32 adds three of them and the sixteenths of a short sum exactly, in any order: kernels
#: may begin their sums with what is added.
_BITS = {"float32": 17, "bfloat16": 8, "float16": 11}
#: Of more bits than float16 has, few enough for a product with one of bfloat16 and a short sum to be exact.
_BETA = 2457 / 8192
#: Bits of the sums to which something of many bits is added, and of those that a factor scales.
_SHORT, _LONG = 10, 18


def draw_wide_epilogues(m: int, n: int, dtype: str, draw: np.random.Generator) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Labels, bits of the sums, and options of `matmul`; C is [m, n] and bias [n], both of the dtype."""
    c, bias = (_draw_odd(shape, dtype, draw) for shape in ((m, n), (n,)))
    yield "C of every bit", _SHORT, {"beta": 1.0, "c": c}
    yield "bias of every bit", _SHORT, {"bias": bias}
    # What is scaled must not drown in what is added.
    small, shift = ((draw.integers(-3, 4, shape) / 4).astype(DTYPES[dtype]) for shape in ((m, n), (n,)))
    yield "alpha 2.5, beta -0.6875 and C", _LONG, {"alpha": 2.5, "beta": -0.6875, "c": small}
    yield "alpha 1/3, beta 0.3, C and bias", _LONG, {"alpha": 1 / 3, "beta": 0.3, "c": small, "bias": shift}


def draw_many_bits(m: int, n: int, dtype: str, draw: np.random.Generator) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The same, all at once: what is added has every bit, scaled or not, or what is scaled has."""
    c, bias = (_draw_odd(shape, dtype, draw) for shape in ((m, n), (n,)))
    yield "C and bias of every bit", _SHORT, {"beta": 1.0, "c": c, "bias": bias}
    yield "beta of every bit and C", _SHORT, {"beta": _BETA, "c": _draw_odd((m, n), "bfloat16", draw).astype(DTYPES[dtype])}
    small, shift = ((draw.integers(-3, 4, shape) / 4).astype(DTYPES[dtype]) for shape in ((m, n), (n,)))
    yield "alpha 1/3, beta 0.3, C and bias", _LONG, {"alpha": 1 / 3, "beta": 0.3, "c": small, "bias": shift}


def _draw_odd(shape: tuple[int, ...], dtype: str, draw: np.random.Generator) -> npt.NDArray[Any]:
    """Odd whole numbers of as many bits as the dtype has, of either sign."""
    most = 1 << (_BITS[dtype] - 1)
    odd = draw.integers(most // 2, most, shape) * 2 + 1
    return np.asarray((odd * draw.choice([-1, 1], shape)).astype(np.float32).astype(DTYPES[dtype]))
