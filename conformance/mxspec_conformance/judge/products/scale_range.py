"""Every scale code in turn: one block of a row has the code, the other side's scale brings the product near to one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_table
from mxspec_conformance.judge.products.draw import BlockWriter
from mxspec_conformance.judge.products.operand_writer import OperandWriter
from mxspec_conformance.targets.operands import Numbers
from mxspec_conformance.targets.product_sizes import Sizes

#: Scales of e8m0 that share one scale of the other side, and how many numbers of a block are not zero.
_SHARED, _USED = 32, 3
#: Exponents of scales under which float16 holds some elements, though not each of the scales.
_HALF = (-26, 16)
#: Exponents between which float16 holds the scales themselves, as normal numbers.
_NORMAL = (-14, 15)
#: Exponents between which e8m0 has scales of zeros.
_ENDS = (-126, 126)


def draw_every_scale(writer: OperandWriter, other: OperandWriter, sizes: Sizes, *, first: bool) -> Iterator[tuple[str, Numbers, Numbers]]:
    """Label, the side of every scale code, and the other side. first: whether the side is a."""
    if not isinstance(writer, BlockWriter):
        return
    codes, powers = _list_codes(writer)
    side = "a" if first else "b"
    is_mx, has_scales = writer.spec.block.is_mx, isinstance(other, BlockWriter)
    shares = is_mx and isinstance(other, BlockWriter) and other.spec.block.is_mx
    if shares:
        yield f"{len(codes)} scale codes of {side}", *_draw_shared(writer, other, sizes, codes, powers, first=first)
    # Where one kernel has float16 numbers, the blocks above are infinite and zero: it is asked for what it can hold.
    if shares or (is_mx and not has_scales and not other.reaches_far):
        kept = (powers >= _HALF[0]) & (powers <= _HALF[1])
        codes, powers = codes[kept], powers[kept]
    yield f"{len(codes)} scale codes of {side}, a row each", *_draw_alone(writer, other, sizes, codes, powers, first=first)


def _draw_shared(
    writer: BlockWriter, other: OperandWriter, sizes: Sizes, codes: npt.NDArray[Any], powers: npt.NDArray[np.intp], *, first: bool
) -> tuple[Numbers, Numbers]:
    """Each row has one of the codes, in the block that the other side's scale brings near to one."""
    centers = np.arange(powers.min() + _SHARED // 2, powers.max() + _SHARED // 2, _SHARED)
    run = max(writer.run, other.run)
    rows, across, k = _fit(sizes, len(codes), len(centers) * run, first=first)
    at = _turn(len(codes), rows)
    block = (powers[at] - powers.min()) // _SHARED
    written = _write_few(writer, powers[at], rows, k, block * run)
    # Zeros lie under scales that no unit aligns by.
    own = np.concatenate([centers, np.zeros(k // run - len(centers), int)])
    scales = writer.power_scales(np.tile(np.repeat(np.clip(own - _SHARED // 2, *_ENDS), run // writer.run), (rows, 1)))
    scales[np.arange(rows), block * run // writer.run] = codes[at]
    back = np.tile(np.repeat(-own, run // other.run), (across, 1))
    return _thin(writer, written, scales), _draw_small(other, across, k, back)


def _draw_alone(
    writer: BlockWriter, other: OperandWriter, sizes: Sizes, codes: npt.NDArray[Any], powers: npt.NDArray[np.intp], *, first: bool
) -> tuple[Numbers, Numbers]:
    """Each row has one of the codes in its first block, and the scale one elsewhere."""
    rows, across, k = _fit(sizes, len(codes), max(writer.run, other.run), first=first)
    at = _turn(len(codes), rows)
    written = _write_few(writer, powers[at], rows, k, np.zeros(rows, int))
    scales = writer.power_scales(np.zeros((rows, k // writer.run), int))
    scales[:, 0] = codes[at]
    return _thin(writer, written, scales), _draw_small(other, across, k, 0)


def _fit(sizes: Sizes, rows: int, k: int, *, first: bool) -> tuple[int, int, int]:
    """Rows of the side, rows of the other one, and k."""
    m, n, fitted = sizes.fit(*((rows, 2) if first else (2, rows)), k)
    return (m, n, fitted) if first else (n, m, fitted)


def _turn(codes: int, rows: int) -> npt.NDArray[np.intp]:
    """Which code each row has, all of them in turn: neighbours are far from each other."""
    step = next(step for step in range(7, codes + 7) if math.gcd(step, codes) == 1)
    turns: npt.NDArray[np.intp] = np.resize(np.arange(codes) * step % codes, rows)
    return turns


def _write_few(writer: BlockWriter, powers: npt.NDArray[np.intp], rows: int, k: int, starts: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Codes of zero, but for a few numbers of one block of each row."""
    written = np.full((rows, k), writer.code_of(0.0))
    for turn in range(_USED):
        written[np.arange(rows), starts + (np.arange(rows) * 3 + turn * 5) % writer.run] = _choose(writer, powers, turn)
    return written


def _thin(writer: BlockWriter, written: npt.NDArray[np.intp], scales: npt.NDArray[Any]) -> Numbers:
    return writer.thin(Numbers(spec=writer.dense, codes=written.astype(np.uint8), scales=scales), writer.values[written] != 0)


def _draw_small(other: OperandWriter, rows: int, k: int, powers: npt.NDArray[np.intp] | int) -> Numbers:
    """Numbers of at most one, none of them zero."""
    small = other.finite[(np.abs(other.values[other.finite]) <= 1) & (other.values[other.finite] != 0)]
    return other.numbers(other.pick(small, rows, k), powers)


def _list_codes(writer: BlockWriter) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """The finite scale codes under which an element is a normal float32 number, or zero, and the exponents of their values."""
    if writer.is_float:  # a power of two of each binade that is far from the ends
        binades = np.arange(-60, 61)
        return writer.power_scales(binades), binades
    table = decode_table(writer.spec.block.scale).astype(np.float64)
    codes = np.flatnonzero(np.isfinite(table) & (table >= 0) & ~np.signbit(table))
    powers = np.frexp(table[codes])[1] - 1
    if np.abs(writer.values[writer.finite]).max() < 2:
        codes, powers = codes[powers > -127], powers[powers > -127]
    return codes.astype(np.uint8), powers.astype(np.intp)


def _choose(writer: BlockWriter, powers: npt.NDArray[np.intp], turn: int) -> npt.NDArray[np.intp]:
    """An element for each row: at least two, or one, under scales below one, at most one under the others.

    float32 then holds the numbers under the ends of e8m0 as normal ones, and float16 numbers under scales that it does not hold.
    """
    values = np.abs(writer.values[writer.finite])
    least = 2.0 if values.max() >= 2 else 1.0
    large, small, half = writer.finite[values >= least], writer.finite[(values <= 1) & (values >= 0.5)], writer.finite[values == 0.5]
    at = np.arange(len(powers)) + turn
    downward: npt.NDArray[np.intp] = np.where(powers > _NORMAL[1], half[at % len(half)], small[at % len(small)])
    return np.where(powers < _NORMAL[0], large[at % len(large)], downward)
