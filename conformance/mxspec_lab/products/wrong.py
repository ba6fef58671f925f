"""Wrong kernels: mistakes of products as public kernels, reviews and notes show them, each one step of a right kernel replaced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from mxspec import dot
from mxspec.dot import ACCUMULATORS, Order
from mxspec_lab.products.kernels import (
    OUTPUTS,
    Bytes,
    Floats,
    Kernel,
    add_float32,
    finish_float32,
    unswizzle,
)
from mxspec_lab.products.narrow import NARROW
from mxspec_lab.products.right import ALL, NVFP4

MX = ("mxfp4", "mxfp4")
INT8 = ("mxint8", "mxint8")
E5M2 = ("mxfp8_e5m2", "mxfp8_e4m3")
NVFP4_PLAIN = ("nvfp4", "nvfp4")


def _set(table: Floats, places: Any, value: Any) -> Floats:
    changed = table.copy()
    changed[places] = value
    return changed


def _linear(table: Floats, fmt: str) -> Floats:
    return np.concatenate([np.arange(8) / 2, -np.arange(8) / 2]) if len(table) == 16 else table


def _small(table: Floats, fmt: str) -> Floats:
    least = np.abs(table[np.isfinite(table) & (table != 0)]).min() * 1.5
    return np.where(np.abs(table) <= least, 0, table)


def _next(x: Bytes) -> Bytes:
    return np.roll(x, -1, axis=1)


def _drop(start: int | None, stop: int | None, step: int | None, x: Floats, run: int) -> Floats:
    changed = x.copy()
    changed[:, start:stop:step] = 0
    return changed


def _tail(multiple: int, x: Floats, run: int) -> Floats:
    changed = x.copy()
    changed[:, x.shape[1] // multiple * multiple :] = 0
    return changed


def _twice_last(x: Floats, run: int) -> Floats:
    changed = x.copy()
    changed[:, -run:] *= 2
    return changed


def _long(limit: int, x: Floats, run: int) -> Floats:
    changed = x.copy()
    changed[:, limit:] = 0
    return changed


def _reverse(x: Bytes, run: int) -> Bytes:
    return x.reshape(len(x), -1, run)[:, :, ::-1].reshape(x.shape)


def _swap(x: Bytes, run: int) -> Bytes:
    return x.reshape(len(x), -1, 2)[:, :, ::-1].reshape(x.shape)


def _halves(x: Bytes, run: int) -> Bytes:
    pairs = x.reshape(len(x), -1, run // 2, 2)
    return np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1).reshape(x.shape)


def _rows_of_16(x: Bytes) -> Bytes:
    """Rows beyond 16 read the scales of rows 0 to 15."""
    return x[np.arange(len(x)) % 16] if len(x) > 16 else x


def _linear_tiles(data: Bytes, rows: int, columns: int) -> Bytes:
    return data[: rows * columns].reshape(rows, columns)


def _wrong_tiles(data: Bytes, rows: int, columns: int) -> Bytes:
    """Rows in order within a tile, without the interleave of 32."""
    r, c = np.mgrid[0:rows, 0:columns]
    place = (r // 128 * -(-columns // 4) + c // 4) * 512 + r % 128 * 4 + c % 4
    found: Bytes = data[place]
    return found


def _first_tile(data: Bytes, rows: int, columns: int) -> Bytes:
    """The second tile of columns is read from the first."""
    r, c = np.mgrid[0:rows, 0:columns]
    found: Bytes = unswizzle(data, rows, columns)[r, c % 4]
    return found


def _add_simulated(name: str, a: Floats, b: Floats, order: Order = Order.FORWARD) -> Floats:
    sides = [dot.exact_factor(np.asarray(x, np.float64), least=-140) for x in (a, b)]
    return np.concatenate(
        [
            dot.simulate_product(
                sides[0], dot.Factor(values=sides[1].values[j : j + 8], exponents=sides[1].exponents[j : j + 8]),
                ACCUMULATORS[name], order=order,
            )
            for j in range(0, len(b), 8)
        ],
        axis=1,
    )  # fmt: skip


def _add_each_block_in_half(a: Floats, b: Floats) -> Floats:
    """Sums of 32 rounded to float16, then added in float32."""
    total = np.zeros((len(a), len(b)))
    with np.errstate(all="ignore"):
        for start in range(0, a.shape[1], 32):
            total = total + (a[:, start : start + 32] @ b[:, start : start + 32].T).astype(np.float16).astype(np.float64)
    return total


def _round_products(a: Floats, b: Floats) -> Floats:
    """Each product rounded to float16 before it is added."""
    with np.errstate(all="ignore"):
        total = np.zeros((len(a), len(b)))
        for i in range(a.shape[1]):
            total = total + (a[:, i][:, None] * b[:, i][None, :]).astype(np.float16).astype(np.float64)
        return total.astype(np.float32).astype(np.float64)


def _operands_in(dtype: Any, x: Floats, run: int) -> Floats:
    """Numbers cut to a narrower float, as a wrong intermediate dtype does."""
    with np.errstate(all="ignore"):
        narrow: Floats = x.astype(np.float32).astype(dtype).astype(np.float64)
    return narrow


class Stale:
    """An accumulator that is not cleared between calls."""

    def __init__(self) -> None:
        self.held: Floats = np.zeros((0, 0))

    def __call__(self, a: Floats, b: Floats) -> Floats:
        total = add_float32(a, b)
        if self.held.shape == total.shape:
            with np.errstate(all="ignore"):
                total = total + np.nan_to_num(self.held, posinf=0, neginf=0)
        self.held = total
        return total


def _stale_workspace() -> Callable[[Floats, Floats], Floats]:
    """Split-k into a buffer that keeps the sums of larger calls beyond the rows of this one."""
    held: dict[str, Floats] = {"largest": np.zeros((0, 0))}

    def add(a: Floats, b: Floats) -> Floats:
        total = add_float32(a, b)
        before = held["largest"]
        if before.size > total.size and before.shape[0] >= total.shape[0] and before.shape[1] >= total.shape[1]:
            with np.errstate(all="ignore"):
                total[-1, -1] = np.nan_to_num(before[total.shape[0] - 1, total.shape[1] - 1]) + total[-1, -1]
        else:
            held["largest"] = total
        return total

    return add


def _split_without_last(a: Floats, b: Floats) -> Floats:
    """Four splits of k // 4: what is left over is nobody's."""
    k = a.shape[1] // 4 * 4 if a.shape[1] % 128 == 0 else a.shape[1] // 64 * 64
    return add_float32(a[:, :k], b[:, :k])


def _tile_of_rows(tile: int, a: Floats, b: Floats) -> Floats:
    """Rows beyond whole tiles are left zero."""
    total = add_float32(a, b)
    if len(a) > tile:
        total[len(a) // tile * tile :] = 0
    return total


def _tile_of_columns(tile: int, a: Floats, b: Floats) -> Floats:
    total = add_float32(a, b)
    if len(b) > tile and len(b) % tile:
        total[:, len(b) // tile * tile :] = total[:, :1]
    return total


def _overlap(a: Floats, b: Floats) -> Floats:
    """The last tile of 64 begins early, so that its first k count twice."""
    k = a.shape[1]
    total = add_float32(a, b)
    if k > 64 and k % 64:
        with np.errstate(all="ignore"):
            total = total + add_float32(a[:, k - 64 : k // 64 * 64], b[:, k - 64 : k // 64 * 64])
    return total


def _transposed(y: Any) -> Any:
    return np.ascontiguousarray(y.T).reshape(y.shape)


def _epilogue(kind: str, total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    """One epilogue mistake by name."""
    one = 1.0 if alpha is None else alpha
    if kind == "no alpha":
        alpha = None
    elif kind == "alpha twice":
        alpha = one * one
    elif kind == "no beta":
        beta = 1.0
    elif kind == "no c":
        c = None
    elif kind == "no bias":
        bias = None
    elif kind == "bias before alpha" and bias is not None:
        bias = bias.astype(np.float32) * np.float32(one)
    elif kind == "c before alpha" and c is not None:
        beta = beta * one
    elif kind == "alpha for beta" and c is not None:
        beta = one
    elif kind == "bias by rows" and bias is not None:
        bias = np.resize(bias, total.shape[0])[:, None]
    elif kind == "bias of next" and bias is not None:
        bias = np.roll(bias, -1)
    elif kind == "first bias" and bias is not None:
        bias = bias[:1]
    elif kind == "c transposed" and c is not None:
        c = np.ascontiguousarray(c.T).reshape(c.shape)
    elif kind == "first row of c" and c is not None:
        c = np.repeat(c[:1], len(c), axis=0)
    elif kind == "negative beta" and beta is not None:
        beta = abs(beta)
    elif kind == "bias in half" and bias is not None:
        return (finish_float32(total, scale, alpha, beta, c, None, "float16").astype(np.float32) + bias).astype(OUTPUTS[out_dtype])
    return finish_float32(total, scale, alpha, beta, c, bias, out_dtype)


def _finish_through(dtype: str, total: Floats, *rest: Any) -> Any:
    scale, alpha, beta, c, bias, out_dtype = rest
    with np.errstate(all="ignore"):
        return finish_float32(total, scale, alpha, beta, c, bias, dtype).astype(np.float32).astype(OUTPUTS[out_dtype])


def _finish_cut(total: Floats, *rest: Any) -> Any:
    scale, alpha, beta, c, bias, out_dtype = rest
    y = finish_float32(total, scale, alpha, beta, c, bias, "float32")
    drop = {"float32": 0, "bfloat16": 16, "float16": 13}[out_dtype]
    return (y.view(np.uint32) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32).astype(OUTPUTS[out_dtype])


def _finish_half_up(total: Floats, *rest: Any) -> Any:
    """Ties away from zero into bfloat16."""
    scale, alpha, beta, c, bias, out_dtype = rest
    y = finish_float32(total, scale, alpha, beta, c, bias, "float32")
    if out_dtype != "bfloat16":
        return y.astype(OUTPUTS[out_dtype])
    finite = np.isfinite(y)
    bits = np.where(finite, (y.view(np.uint32) + 0x8000) & 0xFFFF0000, y.view(np.uint32)).astype(np.uint32)
    return bits.view(np.float32).astype(OUTPUTS[out_dtype])


def _clean_nan(y: Any) -> Any:
    return np.where(np.isnan(y), 0, y).astype(y.dtype)


def _finish_without_inf(total: Floats, *rest: Any) -> Any:
    """Infinite sums of infinite operands become the largest number."""
    y = finish_float32(total, *rest)
    return np.where(np.isinf(y), np.copysign(np.float32(65504), y), y).astype(y.dtype)


ONE_SIDED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("next block's scale", {"place_scales": _next}),
    ("previous block's scale", {"place_scales": lambda x: np.concatenate([x[:, :1], x[:, :-1]], axis=1)}),
    ("first block's scale", {"place_scales": lambda x: np.repeat(x[:, :1], x.shape[1], axis=1)}),
    ("next row's scale", {"place_scales": lambda x: np.concatenate([x[1:], x[-1:]])}),
    ("scales by columns", {"place_scales": lambda x: np.ascontiguousarray(x.T).reshape(x.shape)}),
    ("scale of two blocks shared", {"place_scales": lambda x: np.repeat(x[:, ::2], 2, axis=1)[:, : x.shape[1]]}),
    ("scales of 16 rows repeat", {"place_scales": _rows_of_16}),
    ("last block's scale is its neighbour's", {"place_scales": lambda x: np.concatenate([x[:, :-1], x[:, -2:-1] if x.shape[1] > 1 else x[:, -1:]], axis=1)}),
    ("nibbles swapped", {"place_codes": _swap, "product": MX}),
    ("block reversed", {"place_codes": _reverse}),
    ("halves of a block interleaved", {"place_codes": _halves}),
    ("linear e2m1", {"elements": _linear, "product": MX}),
    ("smallest subnormal flushed", {"elements": _small}),
    ("last k dropped", {"numbers": partial(_drop, -1, None, None)}),
    ("last block dropped", {"numbers": partial(_drop, -32, None, None)}),
    ("odd k dropped", {"numbers": partial(_drop, 1, None, 2)}),
    ("k beyond 64s dropped", {"numbers": partial(_tail, 64)}),
    ("k beyond 128s dropped", {"numbers": partial(_tail, 128)}),
    ("k beyond 1024 dropped", {"numbers": partial(_long, 1024)}),
    ("last block twice", {"numbers": _twice_last}),
)  # fmt: skip

WHOLE: tuple[Kernel, ...] = (
    Kernel(name="scale 00 is zero", scales=lambda t, f: _set(t, 0, 0.0), product=MX),
    Kernel(name="scale 00 of b is zero", scales=lambda t, f: _set(t, 0, 0.0), product=MX, sides="b"),
    Kernel(name="scale FF is infinite", scales=lambda t, f: _set(t, 255, np.inf), product=MX),
    Kernel(name="scale FF is 2^128", scales=lambda t, f: _set(t, 255, 2.0**128), product=MX),
    Kernel(name="scale bias 126", scales=lambda t, f: t * 2, product=MX),
    Kernel(name="scale exponents wrap at 128", scales=lambda t, f: np.where(np.arange(256) >= 200, t[np.arange(256) & 127], t), product=MX),
    Kernel(name="scales of bias 8", scales=lambda t, f: t / 2, product=NVFP4_PLAIN),
    Kernel(name="subnormal scales flushed", scales=lambda t, f: _set(t, slice(1, 8), 0.0), product=NVFP4_PLAIN),
    Kernel(name="scale 7F is 480", scales=lambda t, f: _set(t, 0x7F, 480.0), product=NVFP4_PLAIN),
    Kernel(name="scale read as e8m0", scales=lambda t, f: np.append(np.ldexp(1.0, np.arange(-127, 128)), np.nan), product=NVFP4_PLAIN),
    Kernel(name="scale's mantissa ignored", scales=lambda t, f: np.where(np.isfinite(t), np.ldexp(1.0, np.frexp(np.nan_to_num(t))[1] - 1), t), product=NVFP4_PLAIN, sides="b"),
    Kernel(name="tiles read as rows", read_tiles=_linear_tiles),
    Kernel(name="tiles without interleave", read_tiles=_wrong_tiles),
    Kernel(name="first tile of columns for all", read_tiles=_first_tile),
    Kernel(name="int8 80 is -127/64", elements=lambda t, f: _set(t, 128, -127 / 64), product=INT8),
    Kernel(name="int8 over 128", elements=lambda t, f: t / 2, product=INT8),
    Kernel(name="int8 unsigned", elements=lambda t, f: np.arange(256) / 64, product=INT8, sides="a"),
    Kernel(name="e4m3 NaN is 480", elements=lambda t, f: np.where(np.isnan(t), 480.0, t)),
    Kernel(name="e4m3 bias 8", elements=lambda t, f: t / 2 if len(t) == 256 else t),
    Kernel(name="e5m2 Inf is its largest", elements=lambda t, f: np.clip(t, -57344, 57344), product=E5M2, sides="a"),
    Kernel(name="e5m2 NaN is zero", elements=lambda t, f: np.where(np.isnan(t), 0, t), product=E5M2, sides="a"),
    Kernel(name="e3m2 read as e2m3", elements=lambda t, f: _as_e2m3(t), product=("mxfp6_e3m2", "mxfp6_e3m2")),
    Kernel(name="signs of a dropped", elements=lambda t, f: np.abs(t), sides="a"),
    Kernel(name="NaN becomes zero", returned=_clean_nan),
    Kernel(name="Inf becomes a number", finish=_finish_without_inf, product=E5M2),
    Kernel(name="no tensor scale of a", scale=lambda a, b: b, product=NVFP4),
    Kernel(name="no tensor scale of b", scale=lambda a, b: a, product=NVFP4),
    Kernel(name="no tensor scale", scale=lambda a, b: 1.0, product=NVFP4),
    Kernel(name="tensor scale of a twice", scale=lambda a, b: a * a * b, product=NVFP4),
    Kernel(name="tensor scale of b for both", scale=lambda a, b: b * b, product=NVFP4),
    Kernel(name="tensor scale divides", scale=lambda a, b: 1 / (a * b), product=NVFP4),
    Kernel(name="tensor scales in bfloat16", scale=lambda a, b: float(np.float32(a * b).astype(OUTPUTS["bfloat16"])), product=NVFP4),
    Kernel(name="float16 additions, not declared", add=partial(_add_simulated, "float16"), product=MX),
    Kernel(name="bfloat16 additions, not declared", add=partial(_add_simulated, "bfloat16"), product=MX),
    Kernel(name="13 bits below the largest exponent, not declared", add=partial(_add_simulated, "fused-f13-32"), product=("mxfp8_e4m3", "mxfp8_e4m3")),
    Kernel(name="13 bits, declared as 25", add=partial(_add_simulated, "fused-f13-32"), accumulator="fused-f25-32", product=("mxfp8_e4m3", "mxfp8_e4m3")),
    Kernel(name="block sums in float16", add=_add_each_block_in_half),
    Kernel(name="products in float16", add=_round_products, product=INT8),
    Kernel(name="numbers cut to float8", numbers=partial(_operands_in, ml_dtypes.float8_e4m3fn), product=INT8),
    Kernel(name="accumulator not cleared", add=Stale()),
    Kernel(name="workspace of a larger call", add=_stale_workspace()),
    Kernel(name="left-over split", add=_split_without_last),
    Kernel(name="rows beyond tiles of 16", add=partial(_tile_of_rows, 16)),
    Kernel(name="rows beyond tiles of 64", add=partial(_tile_of_rows, 64)),
    Kernel(name="rows beyond tiles of 128", add=partial(_tile_of_rows, 128)),
    Kernel(name="columns beyond tiles of 8", add=partial(_tile_of_columns, 8)),
    Kernel(name="columns beyond tiles of 32", add=partial(_tile_of_columns, 32)),
    Kernel(name="columns beyond tiles of 128", add=partial(_tile_of_columns, 128)),
    Kernel(name="last tile of k overlaps", add=_overlap),
    Kernel(name="output written transposed", returned=_transposed),
    Kernel(name="all zeros", returned=np.zeros_like),
    *(
        Kernel(name=f"epilogue: {kind}", finish=partial(_epilogue, kind))
        for kind in (
            "no alpha", "alpha twice", "no beta", "no c", "no bias", "bias before alpha", "c before alpha", "alpha for beta",
            "bias by rows", "bias of next", "first bias", "c transposed", "first row of c", "negative beta", "bias in half",
        )
        if kind != "bias by rows"
    ),
    Kernel(name="output through float16", finish=partial(_finish_through, "float16"), out_dtypes=ALL[:2]),
    Kernel(name="output through bfloat16", finish=partial(_finish_through, "bfloat16"), out_dtypes=("float32", "float16")),
    Kernel(name="bfloat16 output cut", finish=_finish_cut, out_dtypes=ALL[:2]),
    Kernel(name="float16 output cut", finish=_finish_cut, out_dtypes=("float32", "float16")),
    Kernel(name="bfloat16 ties away", finish=_finish_half_up, out_dtypes=ALL[:2]),
)  # fmt: skip


def _as_e2m3(table: Floats) -> Floats:
    from mxspec_lab.products.kernels import element_table

    return element_table("mxfp6_e2m3")


def list_wrong() -> list[Kernel]:
    """Every wrong kernel; a mistake on one side is made on either."""
    found = [Kernel(name=f"{name}, {side}", sides=side, **steps) for name, steps in ONE_SIDED for side in "ab"]
    return [*found, *WHOLE, *NARROW]
