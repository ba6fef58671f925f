"""Right kernels: every order, tree, split and accumulator class that OCP leaves open, each under the class that it declares."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mxspec import dot
from mxspec.dot import ACCUMULATORS, Direction, Order
from mxspec_lab.products.kernels import OUTPUTS, Floats, Kernel, add_double, finish_float32

NVFP4 = ("nvfp4", "nvfp4/nibble-low+128x4")


def simulate(
    name: str, a: Floats, b: Floats, order: Order = Order.FORWARD, direction: Direction = Direction.NEAREST, least: int | None = None
) -> Floats:
    """One accumulation of a class; least: the exponent of the last bit that operands keep."""
    if least is None:
        least = -140 if ACCUMULATORS[name].group else -14 if name == "float16" else -126
    sides = [dot.exact_factor(np.asarray(x, np.float64), least=least) for x in (a, b)]
    # Columns at a time: the products of all outputs at once would not fit a cache.
    return np.concatenate(
        [dot.simulate_product(sides[0], _rows(sides[1], j), ACCUMULATORS[name], order=order, direction=direction) for j in range(0, len(b), 8)],
        axis=1,
    )  # fmt: skip


def _rows(side: dot.Factor, start: int) -> dot.Factor:
    return dot.Factor(values=side.values[start : start + 8], exponents=side.exponents[start : start + 8])


def _split(parts: int, a: Floats, b: Floats) -> Floats:
    """Runs of k in float32, their sums added in float32."""
    pieces = [
        x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(np.array_split(a, parts, 1), np.array_split(b, parts, 1), strict=True)
    ]
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    return total.astype(np.float64)


def _compensated(a: Floats, b: Floats) -> Floats:
    """Kahan's sum in float32."""
    total = np.zeros((len(a), len(b)), np.float32)
    lost = np.zeros_like(total)
    for i in range(a.shape[1]):
        term = (a[:, i].astype(np.float32)[:, None] * b[:, i].astype(np.float32)[None, :]) - lost
        new = total + term
        lost = np.where(np.isfinite(new), (new - total) - term, 0).astype(np.float32)
        total = new
    return total.astype(np.float64)


def _flushed(a: Floats, b: Floats) -> Floats:
    """Subnormal float32 sums become zero."""
    total = add_double(a, b)
    return np.where(np.abs(total) < 2.0**-126, 0.0, total)


def _flush_numbers(x: Floats, run: int) -> Floats:
    """Numbers that are subnormal in float32 become zero."""
    return np.where(np.abs(x) < 2.0**-126, 0.0, x)


def _saturate(total: Floats, *rest: Any) -> Any:
    out_dtype = rest[-1]
    y = finish_float32(total, *rest)
    largest = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}.get(out_dtype, 3.4028234663852886e38)
    return np.where(np.isinf(y), np.copysign(np.float32(largest), y), y).astype(OUTPUTS[out_dtype])


def _bias_first(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    """The sum starts from C and bias."""
    y = np.zeros(total.shape, np.float32)
    if bias is not None:
        y = y + bias.astype(np.float32)
    if c is not None:
        y = y + np.float32(beta) * c.astype(np.float32)
    y = y + total.astype(np.float32) * np.float32(scale) * np.float32(1 if alpha is None else alpha)
    return y.astype(OUTPUTS[out_dtype])


def _in_double(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any) -> Floats:
    """Every step of the epilogue in float64."""
    y = total * (scale * float(np.float32(1 if alpha is None else alpha)))
    if c is not None:
        y = y + float(np.float32(beta)) * c.astype(np.float64)
    return y if bias is None else y + bias.astype(np.float64)


def _fused(total: Floats, *rest: Any) -> Any:
    """Every step of the epilogue fused: rounded once to float32."""
    return _in_double(total, *rest[:-1]).astype(np.float32).astype(OUTPUTS[rest[-1]])


ALL = ("float32", "bfloat16", "float16")


def _sums_first(total: Floats, *rest: Any) -> Any:
    """All in float64, rounded once; bfloat16 by way of float32."""
    y = _in_double(total, *rest[:-1])
    return (y.astype(np.float32) if rest[-1] == "bfloat16" else y).astype(OUTPUTS[rest[-1]])


def _interleave(parts: int, a: Floats, b: Floats) -> Floats:
    """Every n-th product summed apart, then these sums from the last to the first."""
    sums = [a[:, i::parts].astype(np.float32) @ b[:, i::parts].astype(np.float32).T for i in range(parts)]
    total = sums.pop()
    while sums:
        total = total + sums.pop()
    return np.asarray(total.astype(np.float64))


#: Right kernels of unusual forms.
UNUSUAL: tuple[Kernel, ...] = (
    *(Kernel(name=f"{parts} sums interleaved", add=partial(_interleave, parts)) for parts in (3, 32)),
    Kernel(name="epilogue in float64", finish=_sums_first, out_dtypes=("float32", "bfloat16", "float16")),
    Kernel(name="zeros are negative", returned=lambda y: np.where(y == 0, -np.zeros_like(y), y)),
    Kernel(name="columns first in memory", returned=np.asfortranarray),
    Kernel(name="float16 outputs alone", product=("mxfp8_e5m2", "mxfp8_e4m3"), out_dtypes=("float16",)),
    Kernel(name="bfloat16 outputs alone, of float16 numbers", product=("nvfp4", "nvfp4"), fold="float16", out_dtypes=("bfloat16",)),
    Kernel(name="MXFP4 with NVFP4", product=("mxfp4", "nvfp4")),
)  # fmt: skip

RIGHT: tuple[Kernel, ...] = (
    Kernel(name="NumPy's float32 product", out_dtypes=ALL),
    Kernel(name="float64, rounded to float32", add=add_double, out_dtypes=ALL),
    *(Kernel(name=f"float32, {order.value}", add=partial(simulate, "float32-nearest", order=order), accumulator="float32-nearest")
      for order in Order),
    *(Kernel(name=f"float32, each addition {direction.value}", add=partial(simulate, "float32", direction=direction), out_dtypes=ALL[:2])
      for direction in (Direction.ZERO, Direction.DOWN, Direction.UP)),
    Kernel(name="pairs, toward zero", add=partial(simulate, "float32", order=Order.PAIRS, direction=Direction.ZERO)),
    *(Kernel(name=f"split-k of {parts}", add=partial(_split, parts)) for parts in (2, 4, 7)),
    Kernel(name="Kahan's sum", add=_compensated),
    Kernel(name="subnormal sums flushed", add=_flushed, product=("mxfp4", "mxfp4")),
    *(Kernel(name=name, add=partial(simulate, name), accumulator=name) for name in ACCUMULATORS if ACCUMULATORS[name].group),
    Kernel(name="float16 additions", add=partial(simulate, "float16"), accumulator="float16", product=("mxfp4", "mxfp4")),
    Kernel(name="bfloat16 additions", add=partial(simulate, "bfloat16"), accumulator="bfloat16", product=("mxfp4", "mxfp4")),
    Kernel(name="overflow saturates", finish=_saturate, out_dtypes=ALL),
    Kernel(name="C and bias first", finish=_bias_first),
    Kernel(name="epilogue fused", finish=_fused),
    Kernel(name="other NaN bits", returned=lambda y: np.where(np.isnan(y), -np.abs(y), y).astype(y.dtype)),
    Kernel(name="NVFP4, tensor scales on the sum", product=NVFP4, out_dtypes=ALL),
    *(Kernel(name=f"NVFP4, dequantized to {dtype}", fold=dtype, contract=declared, product=NVFP4)
      for dtype in ("float32", "bfloat16", "float16") for declared in ("", dtype)),
    Kernel(name="bfloat16 operands", fold="bfloat16"),
    Kernel(name="float16 operands", fold="float16", product=("mxfp4", "mxfp4")),
    Kernel(name="subnormal operands flushed", numbers=_flush_numbers),
    Kernel(name="subnormal operands flushed, MXINT8", numbers=_flush_numbers, product=("mxint8", "mxint8")),
    *UNUSUAL,
    *(Kernel(name=f"{fmt} by itself", product=(fmt, fmt)) for fmt in ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e5m2", "mxint8")),
)  # fmt: skip
