"""From numbers back to codes: the scale and the codes of blocks of which only the dequantized values are known.

Several scales may explain a block: 1 and 2 are codes of 1 and 2 under the scale 1, of 2 and 4 under 1/2. Of those that explain all
values, the one is taken under which the fewest elements are rounded otherwise than to nearest, ties to even.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan_codes
from mxspec.elements import Codes, Float32s, decode_codes, decode_table, encode
from mxspec.formats import BlockFormat, BlockName, ElementFormat, get_block


@dataclass(frozen=True, slots=True)
class FoundCodes:
    """Codes [..., n], scale codes [..., n / k], and the values that no code explains; zero where one does, and for a lost zero."""

    codes: Codes
    scales: Codes
    unexplained: Float32s
    #: Of each block how many elements are not the nearest, ties to even, of x; 0 where x is not known.
    misrounded: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Grid:
    """The magnitudes of an element format by their codes, and the midpoints between them."""

    values: npt.NDArray[np.float64]
    midpoints: npt.NDArray[np.float64]
    #: [sign, magnitude code] -> code; NaN and infinity, or -1.
    codes: Codes
    nan: int
    infinity: int

    def nearest(self, q: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """The magnitude code of the nearest value of each number, ties to even, the largest one beyond it."""
        low, high = (np.searchsorted(self.midpoints, np.abs(q), side) for side in ("left", "right"))
        return np.where(low % 2 == 0, low, high)


@cache
def _grid(element: ElementFormat) -> _Grid:
    values = np.array([float(element.magnitude(m)) for m in range(element.max_code + 1)])
    codes = [[element.join(s, m) for m in range(element.max_code + 1)] for s in (0, 1)]
    if element.twos_complement:  # one negative number more
        values = np.append(values, 2 * values[-1] - values[-2])
        codes = [[*codes[0], element.max_code], [*codes[1], element.sign_bit]]
    infinity = np.flatnonzero(decode_table(element) == np.inf)
    nan = -1 if element.nan_code is None else element.nan_code
    return _Grid(values, (values[1:] + values[:-1]) / 2, np.array(codes, np.uint8), nan, int(infinity[0]) if infinity.size else -1)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Values [n, k] that are to be explained, and the numbers [n, k] that they were made of, if known."""

    values: npt.NDArray[np.float64]
    x: npt.NDArray[np.float64] | None
    fmt: BlockFormat
    tensor_scale: float
    dtype: np.dtype[np.generic]

    def part(self, rows: npt.NDArray[np.intp]) -> _Blocks:
        return _Blocks(self.values[rows], None if self.x is None else self.x[rows], self.fmt, self.tensor_scale, self.dtype)

    def are_products(self, codes: Codes, scales: Codes) -> npt.NDArray[np.bool_]:
        """Which values are those of codes [n, k] under scale codes [n], whatever the sign of zero."""
        value = decode_table(self.fmt.element)[codes].astype(np.float64)
        scale = decode_codes(scales, self.fmt.scale).astype(np.float64)[:, None]
        ok = np.zeros(codes.shape, np.bool_)
        # Both factors and the tensor scale have 40 bits at most, so that one product is exact; in another order float32 rounds twice.
        for product in (value * scale * self.tensor_scale, value * (scale * self.tensor_scale).astype(np.float32)):
            rounded = product.astype(np.float32).astype(self.dtype).astype(np.float64)
            ok |= (rounded == self.values) | (np.isnan(rounded) & np.isnan(self.values))
        return ok

    def explain(self, scales: Codes) -> tuple[Codes, npt.NDArray[np.bool_], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Under scale codes [n]: codes and whether they explain each value; how many elements of each block are not rounded to
        nearest, and whether each is one of the two codes between which its number lies."""
        grid, v = _grid(self.fmt.element), self.values
        step = decode_codes(scales, self.fmt.scale).astype(np.float64)[:, None] * self.tensor_scale
        found, sign = grid.nearest(np.where(step == 0, 0, v / step)), np.signbit(v).astype(np.intp)
        if self.x is not None:  # where float32 overflows or underflows several codes have the value, and the right one may be among them
            want = grid.nearest(np.where(step == 0, 0, self.x / step))
            found = np.where(self.are_products(grid.codes[sign, want], scales), want, found)
        codes = grid.codes[sign, found]
        ok = self.are_products(codes, scales)
        for special, code in ((np.isnan(v), grid.nan), (np.isinf(v) & ~ok, grid.infinity)):
            codes = np.where(special & (code >= 0), np.where(np.signbit(v), code | self.fmt.element.sign_bit, code), codes).astype(np.uint8)
            ok |= special & (code >= 0)
        if self.x is None:
            return codes, ok, np.zeros(len(v), np.int64), np.ones(len(v), np.bool_)
        counts = np.isfinite(self.x) & (step != 0)
        turned = (want > 0) & (found > 0) & (np.signbit(v) != np.signbit(self.x))
        wrong = ((want != found) | turned) & counts
        size = np.abs(self.x / step)
        low = np.searchsorted(grid.values, size, "right") - 1
        far = ((found != low) & ((found != low + 1) | (grid.values[low] == size)) | turned) & counts
        return codes, ok, wrong.sum(axis=1), ~far.any(axis=1)

    def candidates(self) -> Iterator[Codes]:
        """Scale codes [n] that may explain the largest value of each block, which is not zero."""
        grid, scale = _grid(self.fmt.element), self.fmt.scale
        sizes = self.values if self.x is None else np.where(np.isinf(self.values), self.x, self.values)
        largest = np.abs(np.where(np.isfinite(sizes), sizes, 0)).max(axis=1)
        if self.x is not None:  # of a block that became zeros, the scales at which it may
            numbers = np.abs(np.where(np.isfinite(self.x), self.x, 0)).max(axis=1)
            largest = np.where(largest == 0, numbers * 4 * grid.values[-1] / grid.values[1], largest)
        if scale.is_power_of_two:
            exponent = np.frexp(largest / self.tensor_scale)[1] - 1
            ends = (np.frexp(v)[1] - 1 for v in (grid.values[-1], grid.values[1]))
            high, low = (int(e) for e in ends)
            for e in range(low, high + 1):
                yield np.clip(exponent - e + scale.bias, 0, scale.max_code).astype(np.uint8)
        else:
            for size in grid.values[1:]:
                yield encode(np.nan_to_num(largest / (size * self.tensor_scale)).astype(np.float32), scale)


def find_codes(
    values: npt.NDArray[np.floating],
    fmt: BlockName | str | BlockFormat,
    *,
    x: npt.NDArray[np.floating] | None = None,
    scales: Codes | None = None,
    expected: tuple[Codes, Codes] | None = None,
    trust: int = 0,
    tensor_scale: float = 1.0,
) -> FoundCodes:
    """The scales and codes that give the values of dequantized blocks, bit for bit.

    Args:
        values: float32, float16 or bfloat16 [..., n], blocks along the last axis, n a multiple of the block.
        fmt: A block format with scales of one byte.
        x: The numbers that were quantized, in the same shape, by which one of several explanations is chosen.
        scales: The scale codes [..., n / k], where they are known.
        expected: Codes [..., n] and scale codes [..., n / k] that are taken where they give a block's values, and whose scales are
            preferred where several explain it.
        trust: How many more elements than under another scale may be rounded wrongly under an expected one, each to one of the two codes
            next to its number; from the block's length on, an expected scale is taken wherever it explains a block.
        tensor_scale: The float32 that multiplies besides a block's scale.

    Returns:
        The codes and scales. A block of NaN has the scale's NaN. `unexplained` holds the values that are no element times the scale.

    Raises:
        ValueError: Scales that are wider than a byte, or values that are no whole number of blocks.

    Source: OCP MX v1.0 section 6.2, a value is a code's times the scale's.
    """
    fmt = get_block(fmt)
    if fmt.scale.bits > 8 or values.shape[-1] % fmt.k:
        raise ValueError(
            f"values of shape {values.shape} in {fmt.name}; codes are found of whole blocks of {fmt.k} with scales of one byte"
        )
    shape = (*values.shape[:-1], values.shape[-1] // fmt.k)
    with np.errstate(all="ignore"):
        rows = values.astype(np.float64).reshape(-1, fmt.k)
        numbers = None if x is None else x.astype(np.float64).reshape(-1, fmt.k)
        blocks = _Blocks(rows, numbers, fmt, float(np.float32(tensor_scale)), values.dtype)
        if expected is None:
            likely, same = None, np.zeros(len(rows), np.bool_)
        else:
            likely, wanted = expected[1].reshape(-1), expected[0].reshape(-1, fmt.k)
            signs = (rows == 0) & (np.signbit(rows) != (wanted & fmt.element.sign_bit > 0)) & (not fmt.element.twos_complement)
            same = (blocks.are_products(wanted, likely) & ~signs).all(axis=1)
        if scales is not None:
            chosen = scales.reshape(-1).copy()
        else:
            chosen = np.zeros(len(rows), np.uint8) if likely is None else likely.copy()
            chosen[~same] = _choose_scales(blocks.part(np.flatnonzero(~same)), None if likely is None else likely[~same], trust)
        codes, ok, wrong, _ = blocks.explain(chosen)
        if expected is not None:
            same &= chosen == likely
            codes, ok = np.where(same[:, None], wanted, codes), ok | same[:, None]
    nan = np.isnan(rows).all(axis=1) & (fmt.scale.nan_code is not None) & ~same
    if scales is None and fmt.scale.nan_code is not None:
        chosen = np.where(nan, fmt.scale.nan_code, chosen).astype(np.uint8)
    nan &= flag_nan_codes(chosen, fmt.scale)
    codes[nan], ok[nan] = 0, True
    odd = np.where(ok, 0, rows).astype(np.float32)
    return FoundCodes(codes.reshape(values.shape), chosen.reshape(shape), odd.reshape(values.shape), wrong.reshape(shape))


def _choose_scales(blocks: _Blocks, expected: Codes | None, trust: int) -> Codes:
    """The scale code [n] of each block; trust: elements by which an expected one may be worse."""
    if expected is None:  # as large as the largest code allows
        expected = np.stack(list(blocks.candidates())).min(axis=0)
    _, ok, wrong, near = blocks.explain(expected)
    fits = ok.all(axis=1)
    chosen = expected.copy()
    rest = np.flatnonzero(~fits | (wrong > 0))
    part = blocks.part(rest)
    best = np.full(len(rest), np.inf)
    for scales in part.candidates() if len(rest) else ():
        _, ok, missed, _ = part.explain(scales)
        cost = ((~ok).sum(axis=1) * 1000.0 + missed) * 1000 + np.abs(scales.astype(int) - expected[rest])
        better = cost < best
        best, chosen[rest] = np.where(better, cost, best), np.where(better, scales, chosen[rest])
    near |= np.bool_(trust >= blocks.fmt.k)
    kept = rest[(fits & near)[rest] & (wrong[rest] * 1000 <= best + 1000 * trust)]
    chosen[kept] = expected[kept]
    return chosen
