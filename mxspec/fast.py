"""Tuned array paths; each is held to the profile's expressions, bit for bit, by the tests.

Quantizing: where the element encoder is given x times (or divided by) one float32 for each block, the block's scale and
that float32 follow from tables or from the expressions on one number a block, and every element's code from the table
of its encoder. Whole blocks for which that would not be the expression (NaN, Inf, subnormal maxima, a factor that is
not finite) are left to the caller.

Dequantizing: a value is a function of two small codes, whatever the profile's expression, so it is tabulated once.

Both go through cache-sized chunks, on threads when there are many; no result depends on either.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mxspec import elements
from mxspec.arrays import ARRAYS
from mxspec.elements import Codes, Float32s, ScaleCodes
from mxspec.expressions import AMAX, ONE, SF, Apply, Domain, Expr, M, Op, X, evaluate, exact, f32, leaves
from mxspec.formats import BlockFormat, ElementFormat, ScaleFormat
from mxspec.profiles.schema import Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import Rounding
from mxspec.scales import encode_scale

#: Elements of a chunk: its arrays stay in a core's cache, and NumPy's cost of a call is spread over many elements.
CHUNK_ELEMENTS = 1 << 17
#: Chunks that a thread takes at a time, which lie together: threads that touch new memory within the same large page
#: wait for each other. A thread's own arrays are as large as four or five chunks of float32.
CHUNKS_OF_A_SHARE = 16
#: Codes for each entry of a table of values, below which building the table costs more than it saves.
CODES_PER_ENTRY = 4

#: Threads at most; None: one for each processor. Measurements set it.
most_threads: int | None = None

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_SMALLEST_NORMAL = np.uint32(0x00800000)
_LOW_HALF = np.uint32(0x7FFF)

Flags = npt.NDArray[np.bool_]
T = TypeVar("T")


def _thread_count(shares: int) -> int:
    return max(1, min(most_threads or os.cpu_count() or 1, shares))


def _chunk_blocks(blocks: int, k: int) -> int:
    return min(max(1, CHUNK_ELEMENTS // k), blocks)


def _spread(work: Callable[[Iterator[slice]], T], blocks: int, k: int) -> list[T]:
    """Results of `work`, run once on each thread; each run takes shares of chunks of blocks until none is left."""
    step = max(1, _chunk_blocks(blocks, k))
    share = step * CHUNKS_OF_A_SHARE
    waiting = deque(range(0, blocks, share))
    threads = _thread_count(blocks // share)

    def chunks() -> Iterator[slice]:
        while True:
            try:
                first = waiting.popleft()
            except IndexError:
                return
            end = min(first + share, blocks)
            for start in range(first, end, step):
                yield slice(start, min(start + step, end))

    if threads == 1:
        return [work(chunks())]
    from concurrent.futures import ThreadPoolExecutor  # costs import time that small inputs need not pay

    with ThreadPoolExecutor(threads) as pool:
        return [f.result() for f in [pool.submit(work, chunks()) for _ in range(threads)]]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one call of `quantize` computes with."""

    fmt: BlockFormat
    rule: ScaleRule
    #: Tensor leaves and M.
    bindings: dict[str, Any]
    #: Scale code of every table index of the float32 `scale_argument`; None: `encode_scale` of the rule's value.
    scale_table: Codes | None
    scale_argument: Expr
    #: np.multiply or np.divide of an element and its block's factor.
    combine: np.ufunc
    factor: Expr
    #: The factor of every scale code, and whether it is unusual; None: it depends on the block's maximum too.
    factors: tuple[Float32s, Flags] | None
    #: Element code of every table index of a scaled element.
    element_table: Codes

    def find_scales(self, amax: Float32s) -> tuple[ScaleCodes, Flags]:
        """Scale codes of blocks, and the blocks whose codes the table does not tell apart."""
        argument = evaluate(self.scale_argument, {**self.bindings, "amax": amax}, ARRAYS)
        argument = np.ascontiguousarray(np.broadcast_to(argument, amax.shape))
        if self.scale_table is None:
            return encode_scale(argument, self.rule, self.fmt.scale, self.fmt.element), np.zeros(amax.shape, np.bool_)
        magnitude = argument.view(np.uint32) & _MAGNITUDE
        subnormal = (magnitude != 0) & (magnitude < _SMALLEST_NORMAL)
        return self.scale_table.take(elements.table_index(argument)), subnormal

    def find_factors(self, amax: Float32s, scales: ScaleCodes) -> tuple[Float32s, Flags]:
        """Factors of blocks, and the blocks where one is unusual."""
        if self.factors is not None:
            factor, unusual = self.factors
            return factor.take(scales), unusual.take(scales)
        sf = elements.decode_codes(scales, self.fmt.scale)
        factor = evaluate(self.factor, {**self.bindings, "amax": amax, "sf": sf}, ARRAYS)
        return np.broadcast_to(factor, amax.shape), _is_unusual(self.combine, factor, sf)


def _is_unusual(combine: np.ufunc, factor: npt.NDArray[Any], sf: Float32s) -> Flags:
    """Whether a factor could make NaN of a number, or the scale is NaN."""
    unusual: Flags = ~np.isfinite(factor) | np.isnan(sf)
    return unusual | (factor == 0) if combine is np.divide else unusual


def quantize(
    x: Float32s,
    fmt: BlockFormat,
    profile: Profile,
    steps: QuantizationSteps,
    bindings: dict[str, Any],
    element_table: Codes,
    scales: ScaleCodes,
    codes: Codes,
) -> npt.NDArray[np.intp] | None:
    """Fill scales [n, 1] and codes [n, k] of blocks x [n, k], all contiguous, but for the rows that are returned.

    element_table: the code of every table index under the steps' element rule.
    Returns None, having written nothing, where no tuned path applies.
    """
    plan = None if profile.flush_inputs else _make_plan(fmt, steps, bindings, element_table)
    if plan is None:
        return None

    def work(chunks: Iterator[slice]) -> list[npt.NDArray[np.intp]]:
        return _quantize_chunks(plan, x, chunks, scales, codes)

    left = [rows for part in _spread(work, x.shape[0], fmt.k) for rows in part]
    return np.sort(np.concatenate(left)) if left else np.empty(0, np.intp)


def _quantize_chunks(plan: _Plan, x: Float32s, chunks: Iterator[slice], scales: Codes, codes: Codes) -> list[npt.NDArray[np.intp]]:
    """Work through chunks; the rows that the plan does not cover, a list for each chunk that has some."""
    k = x.shape[1]
    size = _chunk_blocks(len(x), k) * k
    numbers, sticky, index = np.empty(size, np.uint32), np.empty(size, np.uint32), np.empty(size, np.intp)
    left = []
    with np.errstate(all="ignore"):
        for chunk in chunks:
            block = x[chunk]
            n = block.size
            scaled = numbers[:n]
            np.bitwise_and(block.reshape(-1).view(np.uint32), _MAGNITUDE, out=scaled)
            amax = _find_maxima(scaled, k)
            found, unresolved = plan.find_scales(amax.view(np.float32))
            factor, unusual = plan.find_factors(amax.view(np.float32), found)
            scales[chunk, 0] = found
            plan.combine(block, factor[:, np.newaxis], out=scaled.view(np.float32).reshape(block.shape))
            _fill_table_index(scaled, sticky[:n], index[:n])
            np.take(plan.element_table, index[:n], out=codes[chunk].reshape(-1), mode="wrap")
            rows = np.flatnonzero(unresolved | unusual | (amax >= _INFINITY))
            if rows.size:
                left.append(rows + chunk.start)
    return left


def _find_maxima(magnitudes: npt.NDArray[np.uint32], k: int) -> npt.NDArray[np.uint32]:
    """The largest of every k numbers. Neighbours are compared first: to start a reduction of a few costs more."""
    while k % 2 == 0:
        magnitudes, k = np.maximum(magnitudes[::2], magnitudes[1::2]), k // 2
    largest: npt.NDArray[np.uint32] = magnitudes if k == 1 else magnitudes.reshape(-1, k).max(axis=1)
    return largest


def _fill_table_index(bits: npt.NDArray[np.uint32], scratch: npt.NDArray[np.uint32], index: npt.NDArray[np.intp]) -> None:
    """`elements.table_index` of float32 bits, without new arrays."""
    np.bitwise_and(bits, _LOW_HALF, out=scratch)
    np.add(scratch, _LOW_HALF, out=scratch)  # sets bit 15 if any of the 15 bits below is set
    np.bitwise_or(scratch, bits, out=scratch)
    np.right_shift(scratch, np.uint32(15), out=scratch)
    np.copyto(index, scratch, casting="unsafe")


def _make_plan(fmt: BlockFormat, steps: QuantizationSteps, bindings: dict[str, Any], element_table: Codes) -> _Plan | None:
    if steps.alternative is not None or steps.normalize is not None or not steps.element.has_table:
        return None
    split = _split_scaled(steps.scaled, fmt, element_table)
    if split is None:
        return None
    combine, factor = split
    known = {**bindings, "M": np.asarray(np.float32(float(fmt.element.max_value)))}
    factors = None
    if "amax" not in leaves(factor) and fmt.scale.bits <= 8:
        sf = elements.decode_table(fmt.scale)
        values = np.ascontiguousarray(np.broadcast_to(evaluate(factor, {**known, "sf": sf}, ARRAYS), sf.shape))
        factors = values, _is_unusual(combine, values, sf)
        kind = values.dtype
    else:
        one = np.ones(1, np.float32)
        kind = evaluate(factor, {**known, "sf": one, "amax": one}, ARRAYS).dtype
    if kind != np.float32:
        return None
    argument, table = _find_scale_table(steps.scale, fmt, known)
    return _Plan(fmt, steps.scale, known, table, argument, combine, factor, factors, element_table)


def _split_scaled(scaled: Expr, fmt: BlockFormat, element_table: Codes) -> tuple[np.ufunc, Expr] | None:
    """`scaled` as one float32 operation on x and something that a block's elements share."""
    if scaled == exact.div(X, SF):
        return (np.multiply, f32.div(ONE, SF)) if _power_scale_is_float32(fmt.scale, element_table) else None
    if not isinstance(scaled, Apply) or scaled.domain is not Domain.F32 or scaled.op not in (Op.MUL, Op.DIV):
        return None
    left, right = scaled.args
    if scaled.op is Op.MUL and right == X:
        left, right = right, left
    if left != X or "x" in leaves(right):
        return None
    return (np.multiply if scaled.op is Op.MUL else np.divide), right


def _power_scale_is_float32(scale: ScaleFormat, element_table: Codes) -> bool:
    """Whether the float32 product of x and 1 / sf has the code of the exact quotient.

    So it is if every sf is a power of two whose reciprocal float32 holds, and neither underflow nor overflow matters:
    all that lies below the smallest normal number has one code, and so have the largest finite number and infinity.
    """
    if scale.bits > 8:
        return False
    sf = elements.decode_table(scale)
    fraction, exponent = np.frexp(sf[np.isfinite(sf)])
    if not ((fraction == 0.5) & (exponent >= -126) & (exponent <= 128)).all():
        return False
    smallest, infinity = int(_SMALLEST_NORMAL) >> 15, int(_INFINITY) >> 15
    for half in element_table.reshape(2, -1):
        if (half[: smallest + 1] != half[0]).any() or half[infinity - 1] != half[infinity]:
            return False
    return True


def _find_scale_table(rule: ScaleRule, fmt: BlockFormat, bindings: dict[str, Any]) -> tuple[Expr, Codes | None]:
    """What the scale's table is indexed by and the table; without one, the rule's value."""
    if not rule.step.has_table or fmt.scale.bits > 8:
        return rule.value, None
    if rule.value == AMAX:
        return AMAX, _scale_table(rule, fmt.scale, fmt.element)
    if rule.step is ScaleStep.ENCODE:
        power = fmt.scale.is_power_of_two
        if rule.value == exact.div(AMAX, M) and rule.rounding is Rounding.RTP and power:
            return AMAX, _scale_table(rule, fmt.scale, fmt.element)
        one = np.ones(1, np.float32)
        if evaluate(rule.value, {**bindings, "amax": one}, ARRAYS).dtype == np.float32:
            return rule.value, _scale_table(rule, fmt.scale, fmt.element)
    return rule.value, None


@lru_cache(maxsize=32)
def _scale_table(rule: ScaleRule, scale: ScaleFormat, element: ElementFormat) -> Codes:
    """The scale code of every table index: of amax where the rule encodes amax or amax / M, else of the rule's value.

    For normal numbers these decide (`ScaleStep.has_table`; amax / M is a power of two where amax is M times one, and M has no
    more than eight significand bits).
    """
    index = np.arange(1 << 17, dtype=np.uint32)
    one_of_each = (index >> np.uint32(1) << np.uint32(16) | index & np.uint32(1)).view(np.float32)
    with np.errstate(all="ignore"):
        value: npt.NDArray[Any] = one_of_each
        if rule.value == exact.div(AMAX, M):
            value = value.astype(np.float64) / float(element.max_value)
        table = encode_scale(value, rule, scale, element)
    table.flags.writeable = False
    return table


def dequantize(
    codes: Codes, scales: ScaleCodes, fmt: BlockFormat, steps: QuantizationSteps, bindings: dict[str, Any], out: npt.NDArray[Any]
) -> bool:
    """Fill out [n, k] from codes [n, k] and scales [n, 1], all contiguous; False where the table would not pay.

    Codes have no bits beyond their formats' widths.
    """
    paired = fmt.element.bits == 4 and fmt.k % 2 == 0 and 4 <= fmt.scale.bits <= 8
    entries = fmt.scale.code_count << (fmt.element.bits * (2 if paired else 1))
    if fmt.scale.bits > 8 or codes.size < CODES_PER_ENTRY * entries:
        return False
    values = _tabulate_values(fmt, steps, bindings, out.dtype)
    if paired:
        pairs, positions = _tabulate_pairs(values)

        def work(chunks: Iterator[slice]) -> None:
            _dequantize_pairs(codes, scales, pairs, positions, chunks, out)

    else:

        def work(chunks: Iterator[slice]) -> None:
            _dequantize_single(codes, scales, values, chunks, out)

    _spread(work, codes.shape[0], fmt.k)
    return True


def _tabulate_values(fmt: BlockFormat, steps: QuantizationSteps, bindings: dict[str, Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The value of every scale code (rows) with every element code (columns)."""
    q, sf = elements.decode_table(fmt.element)[np.newaxis, :], elements.decode_table(fmt.scale)[:, np.newaxis]
    values = evaluate(steps.dequantize, {**bindings, "q": q, "sf": sf}, ARRAYS)
    every = np.broadcast_to(values, (sf.size, q.size)).astype(np.float64)
    return elements.round_to(every, dtype)


def _tabulate_pairs(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint16]]:
    """Two values for every scale code and pair of 4-bit codes, as one integer each, and the position of a scale code.

    A pair of codes, read as one 16-bit integer, leaves eight bits free; the scale code fills them.
    """
    scale = np.arange(len(values), dtype=np.uint16)
    positions = (scale & np.uint16(0xF)) << np.uint16(4) | scale >> np.uint16(4) << np.uint16(12)
    rows = values.reshape(-1, 16, 16)  # by upper and lower half of the scale code, and code
    table = np.empty((len(rows), 16, 16, 16, 2), values.dtype)  # by upper half, high byte, lower half, low byte
    low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
    table[..., low] = rows[:, np.newaxis]
    table[..., high] = rows.transpose(0, 2, 1)[..., np.newaxis]
    return table.reshape(-1, 2).view(f"u{2 * values.dtype.itemsize}")[:, 0], positions


def _dequantize_pairs(
    codes: Codes, scales: Codes, table: npt.NDArray[Any], positions: npt.NDArray[np.uint16], chunks: Iterator[slice], out: npt.NDArray[Any]
) -> None:
    k = codes.shape[1]
    index = np.empty(_chunk_blocks(len(codes), k) * k // 2, np.intp)
    for chunk in chunks:
        pairs = codes[chunk].reshape(-1).view(np.uint16)
        place = np.repeat(positions.take(scales[chunk, 0]), k // 2)
        np.bitwise_or(place, pairs, out=place)
        np.copyto(index[: pairs.size], place)
        np.take(table, index[: pairs.size], out=out[chunk].reshape(-1).view(table.dtype), mode="wrap")


def _dequantize_single(codes: Codes, scales: Codes, values: npt.NDArray[Any], chunks: Iterator[slice], out: npt.NDArray[Any]) -> None:
    k = codes.shape[1]
    index = np.empty((_chunk_blocks(len(codes), k), k), np.intp)
    for chunk in chunks:
        place = index[: len(codes[chunk])]
        np.copyto(place, codes[chunk])
        place += scales[chunk].astype(np.intp) * values.shape[1]
        np.take(values.reshape(-1), place, out=out[chunk], mode="wrap")
