"""Kernels of affine and sparse sides that are wrong in one narrow condition."""

from __future__ import annotations

from functools import partial

import numpy as np

from mxspec_lab.products.kernels import Floats
from mxspec_lab.products.kinds import Array, KindKernel
from mxspec_lab.products.kinds_right import SPARSE, zero_steps
from mxspec_lab.products.narrow import lose_last, turn_square


def _groups_beyond(count: int, x: Floats) -> Floats:
    """Groups beyond a tile have the scale or offset of its last one."""
    return np.asarray(x[:, np.minimum(np.arange(x.shape[1]), count - 1)])


def _rows_beyond(count: int, x: Floats) -> Floats:
    return np.asarray(x[np.minimum(np.arange(len(x)), count - 1)])


def _flush(x: Floats) -> Floats:
    return np.where(np.abs(x) < 2.0**-14, 0, x)


def _metadata_beyond(rows: int, nibbles: Array) -> Array:
    return np.asarray(nibbles[np.minimum(np.arange(len(nibbles)), rows - 1)])


NARROW_KINDS: tuple[KindKernel, ...] = (
    KindKernel(name="square scales transposed", scales=turn_square),
    KindKernel(name="square biases transposed", offsets=turn_square),
    KindKernel(name="square zero points transposed", **zero_steps(offsets=turn_square)),
    KindKernel(name="subnormal biases flushed", offsets=_flush),
    KindKernel(name="scales of groups beyond 64", scales=partial(_groups_beyond, 64)),
    KindKernel(name="biases of groups beyond 64", offsets=partial(_groups_beyond, 64)),
    KindKernel(name="scales of rows beyond 200", scales=partial(_rows_beyond, 200)),
    KindKernel(name="biases of rows beyond 200", offsets=partial(_rows_beyond, 200)),
    *(KindKernel(name=f"affine, the last is lost at {axis} = {size}", add=partial(lose_last, axis, size))
      for axis, size in (("m", 8), ("m", 256), ("n", 16), ("n", 512), ("k", 4096))),
    *(KindKernel(name=f"2:4, the last is lost at {axis} = {size}", add=partial(lose_last, axis, size), product=SPARSE)
      for axis, size in (("m", 256), ("n", 16), ("n", 64))),
    KindKernel(name="square metadata of pairs transposed", nibbles=turn_square, product=("nvfp4", "nvfp4-4to8")),
    KindKernel(name="metadata of rows beyond 128", nibbles=partial(_metadata_beyond, 128), product=SPARSE),
)  # fmt: skip
