"""Wrong kernels of the calls kind: right for single blocks, wrong in the size, the memory, the order or the company of a call.

`HELD_OUT` was written before the calls of the quick level were chosen (`judge/invariance`), and is not looked at when they are
chosen anew: what is found of it estimates what is found of bugs that nobody told. Add to it, but do not choose by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import mxspec

Array = Any
K = 32


def right(x: Array, fmt: str = "mxfp4", axis: int = -1) -> tuple[Array, Array]:
    """Codes and scales that are the caller's own."""
    t = mxspec.quantize(np.ascontiguousarray(x), fmt, axis=axis)
    return np.array(t.codes), np.array(t.scales)


@dataclass(frozen=True)
class Wrong:
    """A wrong kernel and what is wrong with it; `build` makes a fresh target."""

    name: str
    story: str
    make: Callable[[], dict[str, Any]]

    def build(self) -> Any:
        """The target."""
        offers = {"NAME": self.name, "VERSION": "1", "FORMATS": ["mxfp4"], **self.make()}
        return SimpleNamespace(**offers)


HELD_OUT: list[Wrong] = []


def held_out(story: str) -> Callable[[Callable[[], dict[str, Any]]], Callable[[], dict[str, Any]]]:
    """Enter a function that makes what a target offers."""

    def enter(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        HELD_OUT.append(Wrong(make.__name__.replace("_", "-"), story, make))
        return make

    return enter


@held_out("workgroups of 256 blocks: the blocks of the last one, which is not full, are not written, where there are others")
def last_workgroup() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        whole = scales.size // 256 * 256
        if whole:
            codes.reshape(-1, K)[whole:] = 0
            scales.reshape(-1)[whole:] = 0
        return codes, scales

    return {"quantize": quantize}


@held_out("rows are counted in int16: those from 32,768 on are not written")
def rows_int16() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        codes[32768:], scales[32768:] = 0, 0
        return codes, scales

    return {"quantize": quantize}


@held_out("four rows at a time above 1024 rows: what is left gets the scales of the row before")
def four_rows() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        n = len(x)
        if n > 1024 and n % 4:
            scales[n // 4 * 4 :] = scales[n // 4 * 4 - 1]
        return codes, scales

    return {"quantize": quantize}


@held_out("columns in tiles of 2048: in the last tile, where it is not full, codes come from the column before")
def column_tiles() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        start = x.shape[1] // 2048 * 2048
        if start and start < x.shape[1]:
            codes[:, start:] = np.roll(codes[:, start:], 1, axis=1)
        return codes, scales

    return {"quantize": quantize}


@held_out("an odd number of blocks a row, two at a time: from 16 rows on the last block takes the scale of the one before")
def pairs_of_blocks() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        if len(x) >= 16 and scales.shape[1] > 1 and scales.shape[1] % 2:
            scales[:, -1] = scales[:, -2]
        return codes, scales

    return {"quantize": quantize}


@held_out("a persistent kernel of 108 groups: the second wave begins one block late, where blocks fill whole waves")
def second_wave() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        if scales.size > 108 * 8:
            codes.reshape(-1, K)[108 * 8] = 0
        return codes, scales

    return {"quantize": quantize}


@held_out("offsets in bytes of 24 bits: numbers from 2^22 bytes on are read from the start")
def byte_offsets() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        first = (1 << 22) // 4 // K
        if scales.size > first:
            codes.reshape(-1, K)[first:] = np.resize(codes.reshape(-1, K)[:first], (scales.size - first, K))
        return codes, scales

    return {"quantize": quantize}


@held_out("a slice of columns is read as if its rows followed each other in memory")
def pitch_ignored() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        if x.base is not None and x.strides[1] == 4 and x.strides[0] > 4 * x.shape[1]:
            count = min(x.size, (len(x) - 1) * x.strides[0] // 4 + x.shape[1])
            flat = np.lib.stride_tricks.as_strided(x, (count,), (4,))
            x = np.resize(flat, x.shape)
        return right(x)

    return {"quantize": quantize}


@held_out("Fortran order is read as memory lies, where a matrix has 64 rows and more")
def fortran_large() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        if x.flags.f_contiguous and not x.flags.c_contiguous and len(x) >= 64:
            x = x.T.reshape(x.shape)
        return right(x)

    return {"quantize": quantize}


@held_out("rows backwards: the stride is taken without its sign")
def backwards() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        return right(x[::-1] if x.strides[0] < 0 else x)

    return {"quantize": quantize}


@held_out("the last row of a large writeable input is clamped in place")
def clamped_in_place() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        answer = right(x)
        if x.size > 16384 and x.flags.writeable:
            np.clip(x[-1], -6, 6, out=x[-1])
        return answer

    return {"quantize": quantize}


@held_out("answers of up to 2^15 numbers lie in one workspace, which the next call writes")
def workspace() -> dict[str, Any]:
    space = np.zeros(1 << 15, np.uint8)

    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        if 1 << 13 <= codes.size <= space.size:
            view = space[: codes.size].reshape(codes.shape)
            view[...] = codes
            codes = view
        return codes, scales

    return {"quantize": quantize}


@held_out("the third call in a shape is recorded, and replayed with its numbers from then on")
def replayed() -> dict[str, Any]:
    seen: dict[Any, int] = {}
    recorded: dict[Any, Any] = {}

    def quantize(x: Array, fmt: str) -> Any:
        seen[x.shape] = seen.get(x.shape, 0) + 1
        if seen[x.shape] == 3:
            recorded[x.shape] = right(x)
        codes, scales = recorded[x.shape] if x.shape in recorded else right(x)
        return codes.copy(), scales.copy()

    return {"quantize": quantize}


@held_out("answers are kept by where the input lies and by its first row")
def kept_by_place() -> dict[str, Any]:
    kept: dict[Any, Any] = {}

    def quantize(x: Array, fmt: str) -> Any:
        key = (x.ctypes.data, x.shape, x[:1].tobytes())
        if key not in kept:
            if len(kept) > 8:
                kept.clear()
            kept[key] = right(x)
        codes, scales = kept[key]
        return codes.copy(), scales.copy()

    return {"quantize": quantize}


@held_out("scratch grows and is never cleared: scales of zero blocks, which are not written, are those of an earlier call")
def stale_scratch() -> dict[str, Any]:
    scratch = np.zeros(0, np.uint8)

    def quantize(x: Array, fmt: str) -> Any:
        nonlocal scratch
        codes, scales = right(x)
        if scratch.size < scales.size:
            scratch = np.zeros(scales.size, np.uint8)
        mine = scratch[: scales.size].reshape(scales.shape)
        zero = (codes.reshape(*scales.shape, K) & 7 == 0).all(axis=2)
        np.copyto(mine, scales, where=~zero)
        if zero.any():
            codes.reshape(*scales.shape, K)[zero & (mine != 0), 0] = 1  # what divides by the stale scale leaves something
        return codes, mine.copy()

    return {"quantize": quantize}


@held_out("two threads share the array of scales between two steps")
def shared_scales() -> dict[str, Any]:
    held: dict[str, Any] = {}

    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        if threading.current_thread() is threading.main_thread():
            return codes, scales
        held["scales"] = scales
        time.sleep(0.0003)
        return codes, held["scales"] if held["scales"].shape == scales.shape else scales

    return {"quantize": quantize}


@held_out("along axis 0 the last columns, beyond a multiple of 8, are not written")
def columns_in_eights() -> dict[str, Any]:
    def quantize(x: Array, fmt: str, axis: int = -1) -> Any:
        codes, scales = right(x, axis=axis)
        if axis in (0, -2):
            codes[:, x.shape[1] // 8 * 8 :] = 0
        return codes, scales

    return {"quantize": quantize}


@held_out("along axis 0 of a square matrix scales come as they lie along axis 1")
def square_scales() -> dict[str, Any]:
    def quantize(x: Array, fmt: str, axis: int = -1) -> Any:
        codes, scales = right(x, axis=axis)
        if axis in (0, -2) and x.shape[0] == x.shape[1]:
            scales = np.ascontiguousarray(scales.reshape(scales.shape[::-1]).T)
        return codes, scales

    return {"quantize": quantize}


@held_out("a tensor without a negative number takes a table of eight codes, and there 5 becomes 6")
def unsigned_table() -> dict[str, Any]:
    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x)
        if x.size >= 1024 and not np.signbit(x).any():
            codes[codes == 5] = 6
        return codes, scales

    return {"quantize": quantize}


@held_out("dequantize: from 512 rows on the scale of a block is that of the row above")
def scales_of_the_row_above() -> dict[str, Any]:
    def dequantize(codes: Array, scales: Array, fmt: str) -> Any:
        if len(codes) >= 512:
            scales = np.concatenate([scales[:1], scales[:-1]])
        return np.array(mxspec.dequantize(np.ascontiguousarray(codes), np.ascontiguousarray(scales), fmt))

    return {"quantize": lambda x, fmt: right(x), "dequantize": dequantize}
