"""Kernels wrong in one narrow condition: one size of a tile or loop, one row or column, one scale, one epilogue, one dtype of outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_lab.products.kernels import OUTPUTS, Floats, Kernel, add_float32, finish_float32

MX = ("mxfp4", "mxfp4")


def lose_last(axis: str, size: int, a: Floats, b: Floats, *, beyond: bool = False) -> Floats:
    """At one size of m, n or k, or from it on, the last row, column or product is lost."""
    total = add_float32(a, b)
    found = {"m": len(a), "n": len(b), "k": a.shape[1]}[axis]
    if found != size and not (beyond and found > size):
        return total
    if axis == "k":
        return add_float32(a[:, :-1], b[:, :-1])
    total[(-1, slice(None)) if axis == "m" else (slice(None), -1)] = 0
    return total


def _corner(a: Floats, b: Floats) -> Floats:
    """The last output of products of whole tiles is not written."""
    total = add_float32(a, b)
    if min(total.shape) >= 64:
        total[-1, -1] = 0
    return total


def _upper_rows(a: Floats, b: Floats) -> Floats:
    """Of 32 rows the upper half are the lower ones'."""
    total = add_float32(a, b)
    if len(a) == 32:
        total[16:] = total[:16]
    return total


def _not_below(a: Floats, b: Floats) -> Floats:
    return np.maximum(add_float32(a, b), -1e30)


def turn_square(x: Any) -> Any:
    """The transpose of what has as many rows as columns."""
    return np.ascontiguousarray(x.T) if x.shape[0] == x.shape[1] else x


def _flush_half(y: Any) -> Any:
    return y if y.dtype != np.float16 else np.where(np.abs(y) < 2.0**-14, 0, y).astype(y.dtype)


def _clip_scales(most: int, table: Floats, fmt: str) -> Floats:
    return np.clip(table, 2.0**-most, 2.0**most)


def _scales_in_half(table: Floats, fmt: str) -> Floats:
    with np.errstate(all="ignore"):
        return table.astype(np.float16).astype(np.float64)


def _second_as_first(table: Floats, fmt: str) -> Floats:
    return np.concatenate([table[:1], table[:1], table[2:]])


def _round_c(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    held = None if c is None else c.astype(ml_dtypes.bfloat16)
    return finish_float32(total, scale, alpha, beta, held, bias, out_dtype)


def _round_factor(
    cast: Callable[[float], float], which: str, total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str
) -> Any:
    if which == "alpha" and alpha is not None:
        alpha = cast(alpha)
    if which == "beta" and beta is not None:
        beta = cast(beta)
    return finish_float32(total, scale, alpha, beta, c, bias, out_dtype)


def _bias_beyond(width: int, total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    """Columns beyond the first tile have the first one's bias."""
    if bias is not None and len(bias) > width:
        bias = np.concatenate([bias[:width], np.repeat(bias[:1], len(bias) - width)])
    return finish_float32(total, scale, alpha, beta, c, bias, out_dtype)


def _round_first(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    """The sum is rounded to the output's dtype before it is scaled."""
    held = total.astype(np.float32).astype(OUTPUTS[out_dtype]).astype(np.float64)
    return finish_float32(held, scale, alpha, beta, c, bias, out_dtype)


def _whole(x: float) -> float:
    return float(int(x)) if abs(x) >= 1 else x


def _float8(x: float) -> float:
    return float(np.float32(x).astype(ml_dtypes.float8_e4m3fn))


NARROW: tuple[Kernel, ...] = (
    *(Kernel(name=f"the last is lost at {axis} = {size}", add=partial(lose_last, axis, size), product=MX)
      for axis, size in (("m", 8), ("m", 64), ("m", 1024), ("n", 16), ("n", 32), ("n", 512), ("k", 384), ("k", 768))),
    *(Kernel(name=f"the last is lost from {axis} = {size} on", add=partial(lose_last, axis, size, beyond=True), product=MX)
      for axis, size in (("m", 200), ("n", 256), ("k", 4096))),
    Kernel(name="last output of whole tiles", add=_corner, product=MX),
    Kernel(name="upper half of 32 rows", add=_upper_rows, product=MX),
    Kernel(name="no sum below -1e30", add=_not_below),
    Kernel(name="square scales transposed", place_scales=turn_square, product=MX),
    Kernel(name="subnormal float16 outputs flushed", returned=_flush_half, out_dtypes=("float32", "float16")),
    Kernel(name="scales within 2^-64 and 2^64", scales=partial(_clip_scales, 64), product=MX),
    Kernel(name="scales in float16", scales=_scales_in_half, product=MX),
    Kernel(name="scale 01 is 2^-127", scales=_second_as_first, product=MX),
    Kernel(name="epilogue: C in bfloat16", finish=_round_c),
    Kernel(name="epilogue: alpha a whole number", finish=partial(_round_factor, _whole, "alpha")),
    Kernel(name="epilogue: beta in float8", finish=partial(_round_factor, _float8, "beta")),
    *(Kernel(name=f"epilogue: bias beyond {width} columns", finish=partial(_bias_beyond, width)) for width in (16, 128)),
    Kernel(name="sum rounded before alpha", finish=_round_first, out_dtypes=("float32", "float16")),
)  # fmt: skip


def _sums_first(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    """All in float64, rounded once."""
    with np.errstate(all="ignore"):
        y = total * (scale * (1.0 if alpha is None else float(np.float32(alpha))))
        if c is not None:
            y = y + float(np.float32(beta)) * c.astype(np.float64)
        if bias is not None:
            y = y + bias.astype(np.float64)
        return y.astype(np.float32).astype(OUTPUTS[out_dtype]) if out_dtype == "bfloat16" else y.astype(OUTPUTS[out_dtype])


def _interleave(parts: int, a: Floats, b: Floats) -> Floats:
    """Every n-th product summed apart, then these sums from the last to the first."""
    with np.errstate(all="ignore"):
        sums = [a[:, i::parts].astype(np.float32) @ b[:, i::parts].astype(np.float32).T for i in range(parts)]
        total = sums.pop()
        while sums:
            total = total + sums.pop()
    return np.asarray(total.astype(np.float64))


def _negative_zeros(y: Any) -> Any:
    return np.where(y == 0, -np.zeros_like(y), y)


#: Right kernels of unusual forms.
UNUSUAL: tuple[Kernel, ...] = (
    *(Kernel(name=f"{parts} sums interleaved", add=partial(_interleave, parts)) for parts in (3, 32)),
    Kernel(name="epilogue in float64", finish=_sums_first, out_dtypes=("float32", "bfloat16", "float16")),
    Kernel(name="zeros are negative", returned=_negative_zeros),
    Kernel(name="columns first in memory", returned=np.asfortranarray),
    Kernel(name="float16 outputs alone", product=("mxfp8_e5m2", "mxfp8_e4m3"), out_dtypes=("float16",)),
    Kernel(name="bfloat16 outputs alone, of float16 numbers", product=("nvfp4", "nvfp4"), fold="float16", out_dtypes=("bfloat16",)),
    Kernel(name="MXFP4 with NVFP4", product=("mxfp4", "nvfp4")),
)  # fmt: skip
