"""Wrong kernels: mistakes of products as public kernels, reviews and notes show them, each one step of a right kernel replaced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_lab.products.kernels import OUTPUTS, Bytes, Floats, Kernel, add_float32, element_table, finish_float32, unswizzle
from mxspec_lab.products.right import ALL, NVFP4, simulate

MX = ("mxfp4", "mxfp4")
INT8 = ("mxint8", "mxint8")
E5M2 = ("mxfp8_e5m2", "mxfp8_e4m3")
NVFP4_PLAIN = ("nvfp4", "nvfp4")


def _set(table: Floats, places: Any, value: Any) -> Floats:
    changed = table.copy()
    changed[places] = value
    return changed


def _small(table: Floats, fmt: str) -> Floats:
    least = np.abs(table[np.isfinite(table) & (table != 0)]).min() * 1.5
    return np.where(np.abs(table) <= least, 0, table)


def _without(lost: Callable[[Any, int], Any]) -> Callable[[Floats, int], Floats]:
    """Numbers at some places along k are zero: lost(places, k)."""
    return lambda x, run: np.where(lost(np.arange(x.shape[1]), x.shape[1]), 0, x)


def _halves(x: Bytes, run: int) -> Bytes:
    pairs = x.reshape(len(x), -1, run // 2, 2)
    return np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1).reshape(x.shape)


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


def _add_each_block_in_half(a: Floats, b: Floats) -> Floats:
    """Sums of 32 rounded to float16, then added in float32."""
    total = np.zeros((len(a), len(b)))
    for start in range(0, a.shape[1], 32):
        total = total + (a[:, start : start + 32] @ b[:, start : start + 32].T).astype(np.float16).astype(np.float64)
    return total


def _round_products(a: Floats, b: Floats) -> Floats:
    """Each product rounded to float16 before it is added."""
    total = np.zeros((len(a), len(b)))
    for i in range(a.shape[1]):
        total = total + (a[:, i][:, None] * b[:, i][None, :]).astype(np.float16).astype(np.float64)
    return total.astype(np.float32).astype(np.float64)


def _operands_in(dtype: Any, x: Floats, run: int) -> Floats:
    """Numbers cut to a narrower float, as a wrong intermediate dtype does."""
    narrow: Floats = x.astype(np.float32).astype(dtype).astype(np.float64)
    return narrow


class Stale:
    """An accumulator that is not cleared between calls."""

    def __init__(self) -> None:
        self.held: Floats = np.zeros((0, 0))

    def __call__(self, a: Floats, b: Floats) -> Floats:
        total = add_float32(a, b)
        if self.held.shape == total.shape:
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
        total = total + add_float32(a[:, k - 64 : k // 64 * 64], b[:, k - 64 : k // 64 * 64])
    return total


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


def turn_square(x: Any) -> Any:
    """The transpose of what has as many rows as columns."""
    return np.ascontiguousarray(x.T) if x.shape[0] == x.shape[1] else x


def _round_first(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    """The sum is rounded to the output's dtype before it is scaled."""
    held = total.astype(np.float32).astype(OUTPUTS[out_dtype]).astype(np.float64)
    return finish_float32(held, scale, alpha, beta, c, bias, out_dtype)


#: Mistakes of epilogues: name, the argument without which there is none, and what other arguments become: change(alpha, beta, c, bias).
EPILOGUES: tuple[tuple[str, str, Callable[[Any, Any, Any, Any], dict[str, Any]]], ...] = (
    ("no alpha", "", lambda alpha, beta, c, bias: {"alpha": None}),
    ("alpha twice", "", lambda alpha, beta, c, bias: {"alpha": alpha * alpha}),
    ("no beta", "", lambda alpha, beta, c, bias: {"beta": 1.0}),
    ("no c", "", lambda alpha, beta, c, bias: {"c": None}),
    ("no bias", "", lambda alpha, beta, c, bias: {"bias": None}),
    ("bias before alpha", "bias", lambda alpha, beta, c, bias: {"bias": bias.astype(np.float32) * np.float32(alpha)}),
    ("c before alpha", "c", lambda alpha, beta, c, bias: {"beta": beta * alpha}),
    ("alpha for beta", "c", lambda alpha, beta, c, bias: {"beta": alpha}),
    ("bias of next", "bias", lambda alpha, beta, c, bias: {"bias": np.roll(bias, -1)}),
    ("first bias", "bias", lambda alpha, beta, c, bias: {"bias": bias[:1]}),
    ("c transposed", "c", lambda alpha, beta, c, bias: {"c": np.ascontiguousarray(c.T).reshape(c.shape)}),
    ("first row of c", "c", lambda alpha, beta, c, bias: {"c": np.repeat(c[:1], len(c), axis=0)}),
    ("negative beta", "beta", lambda alpha, beta, c, bias: {"beta": abs(beta)}),
)  # fmt: skip


def _epilogue(needs: str, change: Callable[[Any, Any, Any, Any], dict[str, Any]]) -> Callable[..., Any]:
    """An epilogue with some arguments changed."""

    def finish(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
        given = {"alpha": alpha, "beta": beta, "c": c, "bias": bias}
        if not needs or given[needs] is not None:
            given |= change(1.0 if alpha is None else alpha, beta, c, bias)
        return finish_float32(total, scale, **given, out_dtype=out_dtype)

    return finish


def _bias_beyond(width: int) -> Callable[[Any, Any, Any, Any], dict[str, Any]]:
    """Columns beyond the first tile have the first one's bias."""
    return lambda alpha, beta, c, bias: {"bias": np.concatenate([bias[:width], np.repeat(bias[:1], max(len(bias) - width, 0))])}


def _bias_in_half(total: Floats, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    if bias is None:
        return finish_float32(total, scale, alpha, beta, c, bias, out_dtype)
    return (finish_float32(total, scale, alpha, beta, c, None, "float16").astype(np.float32) + bias).astype(OUTPUTS[out_dtype])


def _then(change: Callable[[Any, str], Any]) -> Callable[..., Any]:
    """The right outputs in float32, made others: change(outputs, the dtype that is asked for)."""
    return lambda total, scale, alpha, beta, c, bias, out_dtype: change(
        finish_float32(total, scale, alpha, beta, c, bias, "float32"), out_dtype
    )


def _cut(y: Any, out_dtype: str) -> Any:
    drop = {"float32": 0, "bfloat16": 16, "float16": 13}[out_dtype]
    return (y.view(np.uint32) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32).astype(OUTPUTS[out_dtype])


def _half_up(y: Any, out_dtype: str) -> Any:
    """Ties away from zero into bfloat16."""
    if out_dtype != "bfloat16":
        return y.astype(OUTPUTS[out_dtype])
    bits = np.where(np.isfinite(y), (y.view(np.uint32) + 0x8000) & 0xFFFF0000, y.view(np.uint32)).astype(np.uint32)
    return bits.view(np.float32).astype(OUTPUTS[out_dtype])


def _finish_without_inf(total: Floats, *rest: Any) -> Any:
    """Infinite sums of infinite operands become the largest number."""
    y = finish_float32(total, *rest)
    return np.where(np.isinf(y), np.copysign(np.float32(65504), y), y).astype(y.dtype)


ONE_SIDED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("next block's scale", {"place_scales": lambda x: np.roll(x, -1, axis=1)}),
    ("previous block's scale", {"place_scales": lambda x: np.concatenate([x[:, :1], x[:, :-1]], axis=1)}),
    ("first block's scale", {"place_scales": lambda x: np.repeat(x[:, :1], x.shape[1], axis=1)}),
    ("next row's scale", {"place_scales": lambda x: np.concatenate([x[1:], x[-1:]])}),
    ("scales by columns", {"place_scales": lambda x: np.ascontiguousarray(x.T).reshape(x.shape)}),
    ("scale of two blocks shared", {"place_scales": lambda x: np.repeat(x[:, ::2], 2, axis=1)[:, : x.shape[1]]}),
    ("scales of 16 rows repeat", {"place_scales": lambda x: x[np.arange(len(x)) % 16] if len(x) > 16 else x}),
    ("last block's scale is its neighbour's", {"place_scales": lambda x: np.concatenate([x[:, :-1], x[:, -2:-1] if x.shape[1] > 1 else x[:, -1:]], axis=1)}),
    ("nibbles swapped", {"place_codes": lambda x, run: x.reshape(len(x), -1, 2)[:, :, ::-1].reshape(x.shape), "product": MX}),
    ("block reversed", {"place_codes": lambda x, run: x.reshape(len(x), -1, run)[:, :, ::-1].reshape(x.shape)}),
    ("halves of a block interleaved", {"place_codes": _halves}),
    ("linear e2m1", {"elements": lambda table, fmt: np.concatenate([np.arange(8) / 2, -np.arange(8) / 2]) if len(table) == 16 else table, "product": MX}),
    ("smallest subnormal flushed", {"elements": _small}),
    ("last k dropped", {"numbers": _without(lambda i, k: i == k - 1)}),
    ("last block dropped", {"numbers": _without(lambda i, k: i >= k - 32)}),
    ("odd k dropped", {"numbers": _without(lambda i, k: i % 2 == 1)}),
    ("k beyond 64s dropped", {"numbers": _without(lambda i, k: i >= k // 64 * 64)}),
    ("k beyond 128s dropped", {"numbers": _without(lambda i, k: i >= k // 128 * 128)}),
    ("k beyond 1024 dropped", {"numbers": _without(lambda i, k: i >= 1024)}),
    ("last block twice", {"numbers": lambda x, run: np.where(np.arange(x.shape[1]) >= x.shape[1] - run, 2 * x, x)}),
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
    Kernel(name="tiles read as rows", read_tiles=lambda data, rows, columns: data[: rows * columns].reshape(rows, columns)),
    Kernel(name="tiles without interleave", read_tiles=_wrong_tiles),
    Kernel(name="first tile of columns for all", read_tiles=_first_tile),
    Kernel(name="int8 80 is -127/64", elements=lambda t, f: _set(t, 128, -127 / 64), product=INT8),
    Kernel(name="int8 over 128", elements=lambda t, f: t / 2, product=INT8),
    Kernel(name="int8 unsigned", elements=lambda t, f: np.arange(256) / 64, product=INT8, sides="a"),
    Kernel(name="e4m3 NaN is 480", elements=lambda t, f: np.where(np.isnan(t), 480.0, t)),
    Kernel(name="e4m3 bias 8", elements=lambda t, f: t / 2 if len(t) == 256 else t),
    Kernel(name="e5m2 Inf is its largest", elements=lambda t, f: np.clip(t, -57344, 57344), product=E5M2, sides="a"),
    Kernel(name="e5m2 NaN is zero", elements=lambda t, f: np.where(np.isnan(t), 0, t), product=E5M2, sides="a"),
    Kernel(name="e3m2 read as e2m3", elements=lambda t, f: element_table("mxfp6_e2m3"), product=("mxfp6_e3m2", "mxfp6_e3m2")),
    Kernel(name="signs of a dropped", elements=lambda t, f: np.abs(t), sides="a"),
    Kernel(name="NaN becomes zero", returned=lambda y: np.where(np.isnan(y), 0, y).astype(y.dtype)),
    Kernel(name="Inf becomes a number", finish=_finish_without_inf, product=E5M2),
    Kernel(name="no tensor scale of a", scale=lambda a, b: b, product=NVFP4),
    Kernel(name="no tensor scale of b", scale=lambda a, b: a, product=NVFP4),
    Kernel(name="no tensor scale", scale=lambda a, b: 1.0, product=NVFP4),
    Kernel(name="tensor scale of a twice", scale=lambda a, b: a * a * b, product=NVFP4),
    Kernel(name="tensor scale of b for both", scale=lambda a, b: b * b, product=NVFP4),
    Kernel(name="tensor scale divides", scale=lambda a, b: 1 / (a * b), product=NVFP4),
    Kernel(name="tensor scales in bfloat16", scale=lambda a, b: float(np.float32(a * b).astype(OUTPUTS["bfloat16"])), product=NVFP4),
    Kernel(name="float16 additions, not declared", add=partial(simulate, "float16", least=-140), product=MX),
    Kernel(name="bfloat16 additions, not declared", add=partial(simulate, "bfloat16", least=-140), product=MX),
    Kernel(name="13 bits below the largest exponent, not declared", add=partial(simulate, "fused-f13-32"), product=("mxfp8_e4m3", "mxfp8_e4m3")),
    Kernel(name="13 bits, declared as 25", add=partial(simulate, "fused-f13-32"), accumulator="fused-f25-32", product=("mxfp8_e4m3", "mxfp8_e4m3")),
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
    Kernel(name="output written transposed", returned=lambda y: np.ascontiguousarray(y.T).reshape(y.shape)),
    Kernel(name="all zeros", returned=np.zeros_like),
    *(Kernel(name=f"epilogue: {name}", finish=_epilogue(needs, change)) for name, needs, change in EPILOGUES),
    Kernel(name="epilogue: bias in half", finish=_bias_in_half),
    Kernel(name="output through float16", finish=_then(lambda y, out_dtype: y.astype(np.float16).astype(np.float32).astype(OUTPUTS[out_dtype])), out_dtypes=ALL[:2]),
    Kernel(name="output through bfloat16", finish=_then(lambda y, out_dtype: y.astype(OUTPUTS["bfloat16"]).astype(np.float32).astype(OUTPUTS[out_dtype])), out_dtypes=("float32", "float16")),
    Kernel(name="bfloat16 output cut", finish=_then(_cut), out_dtypes=ALL[:2]),
    Kernel(name="float16 output cut", finish=_then(_cut), out_dtypes=("float32", "float16")),
    Kernel(name="bfloat16 ties away", finish=_then(_half_up), out_dtypes=ALL[:2]),
)  # fmt: skip


#: Wrong in one narrow condition: one size of a tile or loop, one row or column, one scale, one epilogue, one dtype of outputs.
NARROW: tuple[Kernel, ...] = (
    *(Kernel(name=f"the last is lost at {axis} = {size}", add=partial(lose_last, axis, size), product=MX)
      for axis, size in (("m", 8), ("m", 64), ("m", 1024), ("n", 16), ("n", 32), ("n", 512), ("k", 384), ("k", 768))),
    *(Kernel(name=f"the last is lost from {axis} = {size} on", add=partial(lose_last, axis, size, beyond=True), product=MX)
      for axis, size in (("m", 200), ("n", 256), ("k", 4096))),
    Kernel(name="last output of whole tiles", add=_corner, product=MX),
    Kernel(name="upper half of 32 rows", add=_upper_rows, product=MX),
    Kernel(name="no sum below -1e30", add=lambda a, b: np.maximum(add_float32(a, b), -1e30)),
    Kernel(name="square scales transposed", place_scales=turn_square, product=MX),
    Kernel(name="subnormal float16 outputs flushed", returned=lambda y: y if y.dtype != np.float16 else np.where(np.abs(y) < 2.0**-14, 0, y).astype(y.dtype), out_dtypes=("float32", "float16")),
    Kernel(name="scales within 2^-64 and 2^64", scales=lambda table, fmt: np.clip(table, 2.0**-64, 2.0**64), product=MX),
    Kernel(name="scales in float16", scales=lambda table, fmt: table.astype(np.float16).astype(np.float64), product=MX),
    Kernel(name="scale 01 is 2^-127", scales=lambda table, fmt: np.concatenate([table[:1], table[:1], table[2:]]), product=MX),
    Kernel(name="epilogue: C in bfloat16", finish=_epilogue("c", lambda alpha, beta, c, bias: {"c": c.astype(ml_dtypes.bfloat16)})),
    Kernel(name="epilogue: alpha a whole number", finish=_epilogue("", lambda alpha, beta, c, bias: {"alpha": float(int(alpha)) if abs(alpha) >= 1 else alpha})),
    Kernel(name="epilogue: beta in float8", finish=_epilogue("beta", lambda alpha, beta, c, bias: {"beta": float(np.float32(beta).astype(ml_dtypes.float8_e4m3fn))})),
    *(Kernel(name=f"epilogue: bias beyond {width} columns", finish=_epilogue("bias", _bias_beyond(width))) for width in (16, 128)),
    Kernel(name="sum rounded before alpha", finish=_round_first, out_dtypes=("float32", "float16")),
)  # fmt: skip


def list_wrong() -> list[Kernel]:
    """Every wrong kernel; a mistake on one side is made on either."""
    found = [Kernel(name=f"{name}, {side}", sides=side, **steps) for name, steps in ONE_SIDED for side in "ab"]
    return [*found, *WHOLE, *NARROW]
