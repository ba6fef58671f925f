"""Bugs of one code path: column-wise, padded, tiled and 16-bit kernels are often kernels of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpora.independent.bugs_rounding import carry_lost, drop_bits, lose_sticky, subnormal_carry_lost, zero_of_tiny
from tests.corpora.independent.bugs_scale import daz, without_lane
from tests.corpora.independent.catalogue import Bug, Stage
from tests.corpora.independent.implementation import Kernel

Array = Any


def in_path(taken: Callable[[Array, int, bool, Any], bool], **change: Stage) -> Stage:
    """Stages that are broken in one path only; its sign: (x, axis, pad, block)."""

    def quantize(
        right: Stage, x: Array, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False,
        block: tuple[int, int] | None = None,
    ) -> Any:  # fmt: skip
        kernel: Any = right.__self__  # type: ignore[attr-defined]
        if taken(x, axis, pad, block):
            kernel = Kernel(kernel.profile)
            for stage, broken in change.items():
                setattr(kernel, stage, partial(broken, getattr(kernel, stage)))
            return kernel.quantize(x, fmt, tensor_scale, axis, pad, block)
        return right(x, fmt, tensor_scale, axis, pad, block)

    return quantize


def without_tensor_scale(taken: Callable[[Array, int, bool, Any], bool]) -> Stage:
    """One path forgets the tensor scale."""

    def quantize(
        right: Stage, x: Array, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False,
        block: tuple[int, int] | None = None,
    ) -> Any:  # fmt: skip
        return right(x, fmt, None if taken(x, axis, pad, block) else tensor_scale, axis, pad, block)

    return quantize


def ties_away(right: Stage, q: Array, r: Array, negative: Array, rounding: str) -> Array:
    """Half up."""
    return r >= 0.5


def nan_lost(right: Stage, b: Array) -> Array:
    """NaN is passed over."""
    return right(np.where(np.isnan(b), np.float32(0), b))


def bf16_maximum(right: Stage, b: Array) -> Array:
    """The maximum rounded to bfloat16."""
    return right(b).astype(ml_dtypes.bfloat16).astype(np.float32)


def signed_maximum(right: Stage, b: Array) -> Array:
    """Negative lanes do not count."""
    return right(np.maximum(b, np.float32(0)))


def row_missing(row: int) -> Stage:
    """One row of a tile is not reduced."""

    def tile(right: Stage, amax: Array, rows: int) -> Array:
        return right(np.where((np.arange(amax.shape[0]) % rows == row)[:, None], np.float32(0), amax), rows)

    return tile


def even_rows(right: Stage, amax: Array, rows: int) -> Array:
    """Odd rows of a tile are not reduced."""
    return right(np.where((np.arange(amax.shape[0]) % 2 == 1)[:, None], np.float32(0), amax), rows)


def tile_nan_lost(right: Stage, amax: Array, rows: int) -> Array:
    """A row whose maximum is NaN is passed over."""
    return right(np.where(np.isnan(amax), np.float32(0), amax), rows)


PATHS: dict[str, Callable[[Array, int, bool, Any], bool]] = {
    "axis-0": lambda x, axis, pad, block: axis == 0,
    "pad": lambda x, axis, pad, block: pad,
    "tile": lambda x, axis, pad, block: block is not None,
    "float16": lambda x, axis, pad, block: x.dtype == np.float16,
    "bfloat16": lambda x, axis, pad, block: x.dtype == ml_dtypes.bfloat16,
    "many-rows": lambda x, axis, pad, block: x.shape[0] > 1,
    "long-rows": lambda x, axis, pad, block: axis == -1 and x.shape[-1] > 32,
    "no-copy": lambda x, axis, pad, block: not x.flags.c_contiguous,
}

CHANGES: dict[str, tuple[str, dict[str, Stage]]] = {
    "lane-3": ("lane 3 is not reduced", {"amax": without_lane(3)}),
    "last-lane": ("the last lane is not reduced", {"amax": without_lane(-1)}),
    "signed": ("the maximum is signed", {"amax": signed_maximum}),
    "ties-away": ("ties go away from zero", {"round_up": ties_away}),
    "sticky": ("the sticky bit lacks bit 3 below the kept ones", {"split": lose_sticky(3)}),
    "one-bit-short": ("the quotient's last bit is cut off", {"encode_value": drop_bits(1)}),
    "carry": ("a carry is lost in one binade", {"carry": carry_lost}),
    "subnormal-carry": ("the carry from subnormals to normals is lost", {"carry": subnormal_carry_lost}),
    "nan": ("NaN is passed over", {"amax": nan_lost}),
    "bf16-maximum": ("the maximum is rounded to bfloat16", {"amax": bf16_maximum}),
    "zero-sign": ("what rounds to zero loses its sign", {"join": zero_of_tiny}),
    "byte-00": ("scale byte 00 is stored as 01", {"clamp": lambda right, byte: np.maximum(right(byte), 1)}),
    "daz": ("subnormal lanes count as zeros", {"divide": daz}),
}  # fmt: skip


def _paths() -> Iterator[Bug]:
    for fmt in ("mxfp4", "mxfp8_e4m3", "nvfp4"):
        profile = "nvfp4-te" if fmt == "nvfp4" else "mx-floor"
        for path, taken in PATHS.items():
            if (path == "tile") > (fmt == "nvfp4"):
                continue
            for name, (story, change) in CHANGES.items():
                if fmt == "nvfp4" and name in ("byte-00", "daz"):
                    continue
                yield Bug(f"{path}-{name}", f"in the path {path}: {story}", "quantize", fmt, profile,
                          {"quantize": in_path(taken, **change)})  # fmt: skip
    for path in ("axis-0", "pad", "tile"):
        for profile in ("nvfp4-te", "nvfp4-paper"):
            yield Bug(f"{path}-no-tensor-scale", f"in the path {path}: the tensor scale is not passed on", "quantize", "nvfp4",
                      profile, {"quantize": without_tensor_scale(PATHS[path])})  # fmt: skip
    for name, story, tile in (
        ("row-1", "row 1 of a tile is not reduced", row_missing(1)), ("row-8", "row 8 of a tile is not reduced", row_missing(8)),
        ("row-11", "row 11 of a tile is not reduced", row_missing(11)), ("row-0", "row 0 of a tile is not reduced", row_missing(0)),
        ("even", "odd rows of a tile are not reduced", even_rows), ("nan", "NaN rows are passed over", tile_nan_lost),
    ):  # fmt: skip
        for profile in ("nvfp4-te", "nvfp4-paper"):
            yield Bug(f"tile-rows-{name}", story, "quantize", "nvfp4", profile, {"tile": tile})


BUGS = tuple(_paths())
