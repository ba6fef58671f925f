"""Wrong kernels with affine and sparse sides: mistakes as public kernels, issues and notes show them, one step replaced in each."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec_lab.products.kernels import Floats
from mxspec_lab.products.kinds import Array, KindKernel, rounded, scatter, spread
from mxspec_lab.products.kinds_right import BIAS, SPARSE, simulate, zero_steps
from mxspec_lab.products.wrong import lose_last, turn_square

_AWQ, _AWQ_BACK = [0, 2, 4, 6, 1, 3, 5, 7], [0, 4, 1, 5, 2, 6, 3, 7]
AFFINE_SPARSE = ("float16", "int4-g32-bias-float16-2to4")
PAIRS = ("nvfp4", "nvfp4-4to8")


def _next(x: Array) -> Array:
    return np.roll(x, -1, axis=1)


def _next_row(x: Array) -> Array:
    return np.concatenate([x[1:], x[-1:]])


def _columns(x: Array) -> Array:
    return np.ascontiguousarray(x.T).reshape(x.shape)


def _last_ignored(x: Floats) -> Floats:
    changed = x.copy()
    changed[:, -1] = 0
    return changed


def _reordered(order: list[int], axis: int, q: Array) -> Array:
    each = q if axis else q.T
    if each.shape[1] % 8:
        return q
    moved = each.reshape(len(each), -1, 8)[:, :, order].reshape(each.shape)
    return moved if axis else moved.T


def _swapped(q: Array) -> Array:
    return q.reshape(len(q), -1, 2)[:, :, ::-1].reshape(q.shape)


def _signed_bias(bits: int, q: Floats, s: Floats, o: Floats) -> Floats:
    return np.where(q >= 1 << (bits - 1), q - (1 << bits), q) * s + o


def _length(numerator: int, denominator: int, x: Array, k: int) -> Array:
    """Groups of another length."""
    length = max(k // x.shape[1] * numerator // denominator, 1)
    return np.asarray(x[:, np.minimum(np.arange(k) // length, x.shape[1] - 1)])


def _offset_of_all(a: Floats, q: Floats, s: Floats, o: Floats, group: int) -> Floats:
    """The sum of all activations for that of each group."""
    groups = a.shape[1] // group
    return rounded(a @ (q * s).T + a.sum(axis=1)[:, None] * o[:, ::group].sum(axis=1)[None, :] / groups, "float32")


def _sums_in_half(a: Floats, q: Floats, s: Floats, o: Floats, group: int) -> Floats:
    """Each group's sum in float16."""
    total = np.zeros((len(a), len(q)))
    for start in range(0, a.shape[1], group):
        run = slice(start, start + group)
        part = (a[:, run] @ (q[:, run] - o[:, run]).T).astype(np.float16).astype(np.float64)
        total = (total + part * s[:, start]).astype(np.float32).astype(np.float64)
    return total


def _view(other: Any, x: Array) -> Array:
    return np.ascontiguousarray(x).view(other)


# Sparse.

Placed = tuple[Array, npt.NDArray[np.bool_]]


def _place_first(kept: Array, nibbles: Array, unit: int) -> Placed:
    return scatter(kept, np.full_like(nibbles, 4), unit)


def _place_half(kept: Array, nibbles: Array, unit: int) -> Placed:
    """Metadata ignored: what is kept is the first half of k."""
    where = np.arange(2 * kept.shape[1]) < kept.shape[1]
    return np.concatenate([kept, np.zeros_like(kept)], axis=1), np.broadcast_to(where, (len(kept), 2 * kept.shape[1]))


def _exchanged(unit: int, kept: Array) -> Array:
    return kept.reshape(len(kept), -1, 2, unit)[:, :, ::-1].reshape(kept.shape)


def _two_bits(nibbles: Array) -> Array:
    """The second place is read from bits 1 and 2."""
    second = (nibbles >> 1) & 3
    first = nibbles & 3
    return np.where(second == first, nibbles, second << 2 | first)


def _half_index(x: Array, k: int) -> Array:
    """Scales by the place among what is kept."""
    group = k // x.shape[1]
    return np.asarray(x[:, np.arange(k) // 4 * 2 // group])


def _single(kept: Array, nibbles: Array, unit: int) -> Placed:
    """Of two that are kept the second is dropped where it stands last."""
    dense, where = scatter(kept, nibbles, unit)
    dropped = where.reshape(len(kept), -1, 4, unit).copy()
    dropped[:, :, 3] = False
    return np.where(dropped.reshape(where.shape), dense, 0), dropped.reshape(where.shape)


def _groups_beyond(count: int, x: Floats) -> Floats:
    """Groups beyond a tile have the scale or offset of its last one."""
    return np.asarray(x[:, np.minimum(np.arange(x.shape[1]), count - 1)])


def _rows_beyond(count: int, x: Floats) -> Floats:
    return np.asarray(x[np.minimum(np.arange(len(x)), count - 1)])


#: Wrong in one narrow condition.
NARROW_KINDS: tuple[KindKernel, ...] = (
    KindKernel(name="square scales transposed", scales=turn_square),
    KindKernel(name="square biases transposed", offsets=turn_square),
    KindKernel(name="square zero points transposed", **zero_steps(offsets=turn_square)),
    KindKernel(name="subnormal biases flushed", offsets=lambda x: np.where(np.abs(x) < 2.0**-14, 0, x)),
    KindKernel(name="scales of groups beyond 64", scales=partial(_groups_beyond, 64)),
    KindKernel(name="biases of groups beyond 64", offsets=partial(_groups_beyond, 64)),
    KindKernel(name="scales of rows beyond 200", scales=partial(_rows_beyond, 200)),
    KindKernel(name="biases of rows beyond 200", offsets=partial(_rows_beyond, 200)),
    *(KindKernel(name=f"affine, the last is lost at {axis} = {size}", add=partial(lose_last, axis, size))
      for axis, size in (("m", 8), ("m", 256), ("n", 16), ("n", 512), ("k", 4096))),
    *(KindKernel(name=f"2:4, the last is lost at {axis} = {size}", add=partial(lose_last, axis, size), product=SPARSE)
      for axis, size in (("m", 256), ("n", 16), ("n", 64))),
    KindKernel(name="square metadata of pairs transposed", nibbles=turn_square, product=("nvfp4", "nvfp4-4to8")),
    KindKernel(name="metadata of rows beyond 128", nibbles=partial(_rows_beyond, 128), product=SPARSE),
)  # fmt: skip

WRONG_KINDS: tuple[KindKernel, ...] = (
    KindKernel(name="zero point one too large", **zero_steps(offsets=lambda o: o + 1)),
    KindKernel(name="zero point one too small", **zero_steps(offsets=lambda o: o - 1)),
    KindKernel(name="zero point 8 throughout", **zero_steps(offsets=lambda o: np.full_like(o, 8))),
    KindKernel(name="zero points ignored", **zero_steps(offsets=np.zeros_like)),
    KindKernel(name="zero points added", **zero_steps(offsets=np.negative)),
    KindKernel(name="zero points not scaled", **zero_steps(number=lambda q, s, o: q * s - o)),
    KindKernel(name="q - z wraps", **zero_steps(number=lambda q, s, o: ((q - o) % 256) * s)),
    KindKernel(name="zero point of the next group", **zero_steps(offsets=_next)),
    KindKernel(name="zero points by columns", **zero_steps(offsets=_columns)),
    KindKernel(name="scale after the sum", **zero_steps(whole=lambda a, q, s, o, group: rounded(a @ (q - o).T * s[:, 0][None, :], "float32"))),
    KindKernel(name="group sums in float16", **zero_steps(whole=_sums_in_half, product=("float16", "int8-g32-zero-float16"))),
    KindKernel(name="GPTQ v1 zeros taken as v2", **zero_steps(product=("float16", "int4-g32-zero-float16/gptq+gptq-v1-zeros+transposed"), offsets=lambda o: (o - 1) % 16)),
    KindKernel(name="AWQ's order not undone", **zero_steps(product=("float16", "int4-g32-zero-float16/awq+awq-zeros+transposed"), codes=partial(_reordered, _AWQ, 0))),
    KindKernel(name="AWQ's order inverted", **zero_steps(product=("float16", "int4-g32-zero-float16/awq+awq-zeros+transposed"), codes=partial(_reordered, _AWQ_BACK, 0))),
    KindKernel(name="codes of zero points signed", **zero_steps(number=lambda q, s, o: (np.where(q >= 8, q - 16, q) - o) * s)),
    KindKernel(name="bias subtracted", offsets=np.negative),
    KindKernel(name="biases ignored", offsets=np.zeros_like),
    KindKernel(name="bias of the next group", offsets=_next),
    KindKernel(name="bias of the next row", offsets=_next_row),
    KindKernel(name="last bias ignored", offsets=_last_ignored),
    KindKernel(name="biases scaled", number=lambda q, s, o: (q + o) * s),
    KindKernel(name="bias to whole steps", number=lambda q, s, o: np.where(np.isfinite(o / s), (q + np.rint(o / s)) * s, q * s + o)),
    KindKernel(name="bias once a group", whole=lambda a, q, s, o, group: rounded(a @ (q * s).T + o[:, ::group].sum(axis=1)[None, :], "float32")),
    KindKernel(name="bias times the sum of all activations", whole=_offset_of_all),
    KindKernel(name="scale of the next group", scales=_next),
    KindKernel(name="scale of the first group", scales=lambda x: np.repeat(x[:, :1], x.shape[1], axis=1)),
    KindKernel(name="scale of the next row", scales=_next_row),
    KindKernel(name="scales by columns", scales=_columns),
    KindKernel(name="scale and bias of the next group", scales=_next, offsets=_next),
    KindKernel(name="scales of groups beyond the fourth", spread=lambda x, k: spread(np.concatenate([x[:, :4], np.repeat(x[:, 3:4], max(x.shape[1] - 4, 0), axis=1)], axis=1) if x.shape[1] > 4 else x, k)),
    KindKernel(name="groups half as long", spread=partial(_length, 1, 2)),
    KindKernel(name="groups twice as long", spread=partial(_length, 2, 1)),
    KindKernel(name="float16 scales read as bfloat16", stored_scales=partial(_view, ml_dtypes.bfloat16)),
    KindKernel(name="float16 biases read as bfloat16", stored_offsets=partial(_view, ml_dtypes.bfloat16)),
    KindKernel(name="bfloat16 scales and biases read as float16", stored_scales=partial(_view, np.float16), stored_offsets=partial(_view, np.float16),
               product=("bfloat16", "int4-g32-bias-bfloat16")),
    KindKernel(name="scales divide", scales=lambda s: 1 / s),
    KindKernel(name="negative scales taken as positive", scales=np.abs),
    KindKernel(name="subnormal scales flushed", scales=lambda s: np.where(np.abs(s) < 2.0**-14, 0, s)),
    KindKernel(name="nibbles exchanged", codes=_swapped, product=("float16", "int4-g32-bias-float16/nibble-low")),
    KindKernel(name="AWQ's order along k", codes=partial(_reordered, _AWQ, 1)),
    KindKernel(name="codes signed", number=partial(_signed_bias, 4)),
    KindKernel(name="codes of 8 bits signed", number=partial(_signed_bias, 8), product=("float16", "int8-g32-bias-float16")),
    KindKernel(name="numbers in float8", number=lambda q, s, o: np.asarray((q * s + o).astype(ml_dtypes.float8_e4m3fn).astype(np.float64))),
    KindKernel(name="float16 additions, not declared", add=partial(simulate, "float16")),
    KindKernel(name="float16 numbers, declared as float32", number=lambda q, s, o: (q * s + o).astype(np.float16).astype(np.float64), contract="float32"),
    KindKernel(name="bias of a subtracted", offsets=np.negative, product=BIAS[::-1], side="a"),
    KindKernel(name="metadata of the next group", nibbles=_next, product=SPARSE),
    KindKernel(name="metadata of the next row", nibbles=_next_row, product=SPARSE),
    KindKernel(name="nibbles of a byte of metadata exchanged", nibbles=_swapped, product=SPARSE),
    KindKernel(name="the two kept exchanged", kept=partial(_exchanged, 1), product=SPARSE),
    KindKernel(name="kept at the first two places", place=_place_first, product=SPARSE),
    KindKernel(name="kept at places 0 and 2", place=lambda kept, nibbles, unit: scatter(kept, np.full_like(nibbles, 8), unit), product=SPARSE),
    KindKernel(name="metadata ignored", place=_place_half, product=SPARSE),
    KindKernel(name="places from the other end", place=lambda kept, nibbles, unit: scatter(kept, (3 - (nibbles >> 2)) << 2 | (3 - (nibbles & 3)), unit), product=SPARSE),
    KindKernel(name="second place from the wrong bits", nibbles=_two_bits, product=SPARSE),
    KindKernel(name="the last place is dropped", place=_single, product=SPARSE),
    KindKernel(name="scales by kept places", spread=_half_index, product=SPARSE),
    KindKernel(name="scales and biases by kept places", spread=_half_index, product=AFFINE_SPARSE),
    KindKernel(name="dropped codes count with their bias", drop=False, product=AFFINE_SPARSE),
    KindKernel(name="metadata of the next group, affine", nibbles=_next, product=AFFINE_SPARSE),
    KindKernel(name="bias of the next group, sparse", offsets=_next, product=AFFINE_SPARSE),
    KindKernel(name="the numbers of each pair exchanged", kept=_swapped, product=PAIRS),
    KindKernel(name="the numbers of each pair exchanged, of floats", kept=_swapped, product=("bfloat16", "nvfp4-4to8")),
    KindKernel(name="pairs exchanged", kept=partial(_exchanged, 2), product=PAIRS),
    KindKernel(name="pairs read as single numbers", place=lambda kept, nibbles, unit: scatter(kept, np.repeat(nibbles, 2, axis=1), 1), product=PAIRS),
    KindKernel(name="float16 2:4, metadata of the next group", nibbles=_next, product=("float16", "float16-2to4")),
    KindKernel(name="metadata of a ignored", place=_place_first, product=("mxfp4-2to4", "bfloat16"), side="a"),
    *NARROW_KINDS,
)  # fmt: skip
