"""A profile's whole answer as a table of thresholds, computed from the profile alone.

A profile whose lanes depend only on themselves and on the block's maximum is two families of step functions of float32 bit
patterns: maximum -> scale byte, and, under each scale byte, element -> code. Both rise with the magnitude, so the few
hundred places where they change, found by bisection, are the function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.blocks import quantize_rows
from mxspec.exact import choose_level
from mxspec.expressions import leaves
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Arithmetic, Profile
from mxspec.tensorscale import bind_arrays
from mxspec_vectors.tensor_scales import TensorScales

Bits = npt.NDArray[np.int64]
#: Arguments from which on a step function has the next value, and the values.
Step = tuple[Bits, Bits]
#: float32 bits of blocks [n, k] -> scale bytes [n] and codes [n, k].
Ask = Callable[[npt.NDArray[np.uint32]], tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]
#: The largest finite float32.
FLT_MAX = 0x7F7FFFFF
SIGN = 0x80000000
#: Blocks of numbers that are no step function's business: zeros, infinities, NaN, alone and among ordinary numbers.
_SPECIAL = (
    (0,), (SIGN,), (0x7F800000,), (SIGN | 0x7F800000,), (0x7FC00000,), (SIGN | 0x7FC00000,), (0x3F800000, 0x7F800000),
    (0x3F800000, 0x7FC00000), (0x7F800000, 0x7FC00000), (0x3F800000, SIGN), (0x7F7FFFFF, 0x7F800000),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionTable:
    """What a profile does in one form, with or without a tensor scale."""

    #: float32 bits of maxima from which on the scale byte is the next of `scales`; the first is 0.
    maxima: Bits
    scales: Bits
    #: For each step of the scale and sign (0, 1): float32 bits of magnitudes from which on the code is the next, and the
    #: codes, in blocks whose maximum is the step's last.
    elements: dict[tuple[int, int], Step]
    #: The same in blocks whose maximum is the step's first, where elements see more of the maximum than its scale byte.
    at_start: dict[tuple[int, int], Step]
    #: Scale byte and codes of each special block; empty where the profile refuses it.
    special: tuple[bytes, ...]

    @property
    def ends(self) -> Bits:
        """The last maximum of each step."""
        return np.concatenate([self.maxima[1:] - 1, [FLT_MAX]])

    def digest(self, step: int = 1) -> str:
        """SHA-256 of the function on the patterns that are multiples of `step` (65536: bfloat16)."""
        found = hashlib.sha256()
        first, last = self.maxima + (-self.maxima % step), self.ends // step * step
        for i in np.flatnonzero(first <= last).tolist():
            found.update(np.array([first[i], self.scales[i]], np.int64).tobytes())
            for sign in (0, 1):
                for tables, limit in ((self.elements, last[i]), (self.at_start, first[i])):
                    if (i, sign) in tables:
                        found.update(b"".join(a.tobytes() for a in _coarsen(*tables[i, sign], step, int(limit))) + b"|")
        for block in self.special:
            found.update(block + b"|")
        return found.hexdigest()


def _coarsen(first: Bits, values: Bits, step: int, limit: int) -> Step:
    """A step function on the multiples of `step` up to a limit."""
    up = first + (-first % step)
    # Of several changes within one step of the coarse grid the last one shows.
    shown = np.append(up[1:] != up[:-1], True) & (up <= limit)
    up, values = up[shown], values[shown]
    changed = np.insert(values[1:] != values[:-1], 0, True)
    return up[changed], values[changed]


def why_no_table(level: Arithmetic) -> str | None:
    """Why a profile's form is no pair of step functions, or None."""
    if level.alternative is not None:
        return "tries two scales and compares the errors of all lanes"
    if level.element.unbounded_fields:
        return "lets bits of one lane fall into the next"
    return None


@lru_cache(maxsize=1024)
def tabulate_scale(profile_id: str, fmt_name: str, tensor_amax: int | None) -> Step | None:
    """Maximum -> scale byte, as a step function; None where the profile has no such form or no table."""
    fmt = mxspec.get_block(fmt_name)
    ask = _ask_steps(profile_id, fmt, tensor_amax)
    if ask is None:
        return None

    def scale_of(bits: Bits) -> Bits:
        blocks = np.zeros((len(bits), fmt.k), np.uint32)
        blocks[:, 0] = bits
        return ask(blocks)[0].astype(np.int64)

    whole = np.zeros(1, np.int64), np.full(1, FLT_MAX, np.int64)
    return find_changes(scale_of, *whole, _coarse(0, FLT_MAX)[None])[0]


@lru_cache(maxsize=1024)
def tabulate_elements(
    profile_id: str, fmt_name: str, tensor_amax: int | None, maxima: tuple[int, ...], sign: int
) -> tuple[Step, ...]:
    """Element -> code in blocks with each of these maxima, as step functions. Only for forms that have a table."""
    fmt = mxspec.get_block(fmt_name)
    ask = _ask_steps(profile_id, fmt, tensor_amax)
    if ask is None:
        raise ValueError(f"{profile_id} has no table of this form of {fmt_name}")
    return tuple(_element_changes(ask, fmt, np.array(maxima, np.int64), sign))


@lru_cache(maxsize=512)
def tabulate(profile_id: str, fmt_name: str, tensor_amax: int | None) -> FunctionTable | None:
    """The table of a profile's form: one-level (None), or two-level for a tensor with this maximum (float32 bits).

    None where the profile has no such form, or the form is no pair of step functions (`why_no_table`).
    """
    fmt = mxspec.get_block(fmt_name)
    ask, scale = _ask_steps(profile_id, fmt, tensor_amax), tabulate_scale(profile_id, fmt_name, tensor_amax)
    if ask is None or scale is None:
        return None
    table = FunctionTable(*scale, {}, {}, tuple(_ask_special(ask, fmt)))
    level = choose_level(mxspec.get_profile(profile_id, fmt), with_tensor_scale=tensor_amax is not None)
    for sign in (0, 1):
        given = profile_id, fmt_name, tensor_amax
        found = tabulate_elements(*given, tuple(table.ends.tolist()), sign)
        table.elements.update(((i, sign), t) for i, t in enumerate(found))
        if "amax" in leaves(level.scaled):
            found = tabulate_elements(*given, tuple(table.maxima.tolist()), sign)
            table.at_start.update(((i, sign), t) for i, t in enumerate(found))
    return table


def _ask_steps(profile_id: str, fmt: BlockFormat, tensor_amax: int | None) -> Ask | None:
    """`ask_profile` of a form that is a pair of step functions."""
    profile = mxspec.get_profile(profile_id, fmt)
    ask = ask_profile(profile, fmt, tensor_amax)
    if ask is None or why_no_table(choose_level(profile, with_tensor_scale=tensor_amax is not None)) is not None:
        return None
    return ask


def ask_profile(profile: Profile, fmt: BlockFormat, tensor_amax: int | None) -> Ask | None:
    """float32 bits of blocks [n, k] -> scale bytes [n] and codes [n, k]; None where the profile has no such form."""
    try:
        level = choose_level(profile, with_tensor_scale=tensor_amax is not None)
        bindings: dict[str, Any] = {}
        if tensor_amax is not None:
            bindings = dict(bind_arrays(profile, TensorScales.from_amax(tensor_amax).native(profile)))
    except ValueError:
        return None

    def ask(blocks: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        with np.errstate(all="ignore"):
            scales, codes = quantize_rows(blocks.view(np.float32), fmt, profile, level, bindings)
        return scales.reshape(-1), codes

    return ask


def find_changes(
    function: Callable[..., Bits], low: Bits, high: Bits, grid: Bits, *, queries: bool = False
) -> list[Step]:
    """Where step functions change: for each of n functions the first argument of every step, and the value there.

    function: arguments (with `queries`, function numbers and arguments) -> values.
    low, high: each function's domain. grid: arguments [n, points] to start from, clipped to the domain.
    """
    count = len(low)
    number = np.repeat(np.arange(count), grid.shape[1])
    points = np.clip(grid, low[:, None], high[:, None]).reshape(-1)

    def ask(of: Bits, at: Bits) -> Bits:
        return function(of, at) if queries else function(at)

    values = ask(number, points)
    found: list[list[Step]] = [[] for _ in range(count)]
    for i in range(count):
        own = number == i
        found[i].append((points[own][:1], values[own][:1]))
    same = number[1:] == number[:-1]
    open_ = same & (values[1:] != values[:-1])
    of, left, right, value_left, value_right = (
        number[1:][open_],
        points[:-1][open_],
        points[1:][open_],
        values[:-1][open_],
        values[1:][open_],
    )
    while of.size:
        near = right - left <= 1
        for i in np.unique(of[near]).tolist():
            own = near & (of == i)
            found[i].append((right[own], value_right[own]))
        of, left, right, value_left, value_right = (a[~near] for a in (of, left, right, value_left, value_right))
        if not of.size:
            break
        middle = (left + right) // 2
        value = ask(of, middle)
        halves = [(of, left, middle, value_left, value), (of, middle, right, value, value_right)]
        kept = [tuple(a[h[3] != h[4]] for a in h) for h in halves]
        of, left, right, value_left, value_right = (np.concatenate([k[j] for k in kept]) for j in range(5))
    tables = []
    for parts in found:
        at = np.concatenate([p for p, _ in parts])
        order = np.argsort(at, kind="stable")
        tables.append((at[order], np.concatenate([v for _, v in parts])[order]))
    return tables


def _coarse(low: int, high: int) -> Bits:
    """Every binade's start and three points within."""
    return np.unique(np.clip(np.append(np.arange(0, FLT_MAX, 1 << 21, dtype=np.int64), FLT_MAX), low, high))


def _element_changes(ask: Ask, fmt: BlockFormat, top: Bits, sign: int) -> list[Step]:
    """The element step function in blocks with each of these maxima."""
    room = fmt.k - 1

    def codes_of(of: Bits, at: Bits) -> Bits:
        order = np.argsort(of, kind="stable")
        counts = np.bincount(of, minlength=len(top))
        rows = -(-counts // room)
        first_row, first_item = np.cumsum(rows) - rows, np.cumsum(counts) - counts
        place = np.arange(len(of)) - first_item[of[order]]
        row, lane = first_row[of[order]] + place // room, 1 + place % room
        blocks = np.zeros((int(rows.sum()), fmt.k), np.uint32)
        blocks[:, 0] = np.repeat(top, rows)
        blocks[row, lane] = (at[order] | (SIGN if sign else 0)).astype(np.uint32)
        codes = np.empty(len(of), np.int64)
        codes[order] = ask(blocks)[1][row, lane]
        return codes

    # Elements down to where nothing but zero is left, and the subnormals.
    span = (fmt.element.emax - (1 - fmt.element.bias - fmt.element.mantissa_bits) + 4) << 23
    steps = np.arange(0, span + (1 << 23), 1 << 22, dtype=np.int64)
    grid = np.concatenate([np.zeros((len(top), 1), np.int64), np.sort(top[:, None] - steps, axis=1)], axis=1)
    return find_changes(codes_of, np.zeros(len(top), np.int64), top, np.maximum(grid, 0), queries=True)


def _ask_special(ask: Ask, fmt: BlockFormat) -> list[bytes]:
    found = []
    for numbers in _SPECIAL:
        block = np.zeros((1, fmt.k), np.uint32)
        block[0, : len(numbers)] = numbers
        try:
            scales, codes = ask(block)
        except ValueError:
            found.append(b"")
            continue
        found.append(scales.tobytes() + codes.tobytes())
    return found
