"""Inputs for a quantizer with a generator of its own: numbers of which it is known how often they have to go up.

Every block holds its format's largest element once, so that scales are one and the same; which they are is read off the
answer. All other elements lie so many 256ths of the way between two codes: then every generator of 8 bits and more, by either
convention, goes up exactly as often as the fraction says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat, ElementFormat
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import is_representable, preferred_dtype

Floats = npt.NDArray[np.float32]

#: 256ths of the way from a code to the next.
PARTS = (0, 1, 32, 64, 96, 128, 160, 192, 255)
#: Of those, the ones in calls that are about independence.
HALVES, QUARTERS = (128,), (64, 128, 192)
#: Blocks in a row.
BLOCKS_IN_ROW = 12


@dataclass(frozen=True, slots=True)
class Draws:
    """One call."""

    name: str
    seed: int
    x: Floats
    #: Whether frequencies are tested, and dependence of what lies apart.
    frequencies: bool = False
    independence: bool = False
    #: The dtype of x, where it is not the one of most calls; and options: "axis": blocks lie along the first axis; "pad": the
    #: last block of each line lacks `MISSING` numbers, which are zeros in x; "tensor_scale": there is one; "block": it is square.
    dtype: str = ""
    options: frozenset[str] = frozenset()

    @property
    def is_other_way(self) -> bool:
        """Whether it is a small call in another dtype or with an option."""
        return bool(self.dtype)


def draw_words(count: int, salt: int) -> npt.NDArray[np.uint64]:
    """Numbers that look random, the same on any platform: a hash of position and salt (splitmix64)."""
    with np.errstate(over="ignore"):
        z = (np.arange(count, dtype=np.uint64) + np.uint64(salt << 32)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def list_values(element: ElementFormat, parts: tuple[int, ...], dtype: str) -> Floats:
    """Magnitudes so many 256ths above each code, as far as a dtype holds them."""
    steps = [element.magnitude(m) for m in range(element.max_code + 1)]
    values = [low + (high - low) * part / 256 for low, high in pairwise(steps) for part in parts]
    found = np.array([float(v) for v in values], np.float32)
    return np.asarray(found[is_representable(found, dtype)])


def fill_blocks(values: Floats, fmt: BlockFormat, numbers: int, salt: int) -> Floats:
    """A matrix of about so many numbers drawn from values, with both signs, and in each block the largest element."""
    columns = BLOCKS_IN_ROW * fmt.k
    rows = max(numbers // columns, 1)
    drawn = draw_words(rows * columns, salt)
    x = values[(drawn >> np.uint64(8)) % np.uint64(len(values))]
    x = np.where(drawn & np.uint64(1) == 1, -x, x).astype(np.float32).reshape(-1, fmt.k)
    place = np.arange(len(x))
    x[place, 7 * place % fmt.k] = np.where(place % 2 == 0, 1, -1) * np.float32(float(fmt.element.max_value))
    return np.ascontiguousarray(x.reshape(rows, columns))


def special_blocks(fmt: BlockFormat, dtype: str) -> Floats:
    """Blocks of zeros of either sign; of values of the format; and with numbers beyond the largest element."""
    element, columns = fmt.element, BLOCKS_IN_ROW * fmt.k
    zeros = np.zeros((4, columns), np.float32)
    zeros[1] = -0.0
    zeros[2, ::2] = -0.0
    exact = fill_blocks(list_values(element, (0,), dtype), fmt, 16 * columns, 5)
    # Up to the next power of two a scale by the exponent alone stays the same.
    top = float(element.max_value)
    end = 2.0 ** math.frexp(top)[1]
    beyond = np.array([top + (end - top) * part / 8 for part in range(1, 8)], np.float32)
    beyond = beyond[is_representable(beyond, dtype)]
    large = fill_blocks(beyond, fmt, 8 * columns, 6) if beyond.size else exact[:1]
    return np.concatenate([zeros, exact, large])


def list_draws(fmt: BlockFormat, dtype: str, numbers: int, *, seeded: bool) -> list[Draws]:
    """The calls for a format, in order; `numbers` are those of the largest ones, of which fewer than eight are made."""
    all_parts, halves, quarters = (list_values(fmt.element, parts, dtype) for parts in (PARTS, HALVES, QUARTERS))
    small = numbers // 2
    draws = [
        Draws("values of the format and zeros, seed 0", 0, special_blocks(fmt, dtype)),
        Draws("every fraction, seed 0", 0, fill_blocks(all_parts, fmt, numbers, 1), frequencies=True),
        Draws("every fraction, seed 1", 1, fill_blocks(all_parts, fmt, numbers, 2), frequencies=True),
        # Rows that come again: words made of the numbers alone would come again with them.
        Draws("halves, seed 5", 5, np.tile(fill_blocks(halves, fmt, numbers // 2, 3), (2, 1)), frequencies=True, independence=True),
        Draws(
            "halves in many rows, seed 7",
            7,
            fill_blocks(halves, fmt, small // 2, 8).reshape(-1, fmt.k),
            frequencies=True,
            independence=True,
        ),
        Draws("quarters, seed 6", 6, fill_blocks(quarters, fmt, numbers, 4), frequencies=True, independence=True),
    ]
    if seeded:
        x = fill_blocks(halves, fmt, small, 3)
        draws += [Draws(f"halves, seed {n}", n, x, frequencies=True, independence=n == 0) for n in SEEDS]
    return draws


def list_other_ways(fmt: BlockFormat, capabilities: Capabilities, numbers: int) -> list[Draws]:
    """Smaller calls in other dtypes and with options, for which a kernel may have another way to its random numbers."""
    few, used = numbers // 16, preferred_dtype(capabilities.dtypes)
    ways: list[tuple[str, str, frozenset[str]]] = [(f"in {dtype}", dtype, frozenset()) for dtype in capabilities.dtypes if dtype != used]
    offered = [option for option in ("axis", "pad", "tensor_scale", "block") if capabilities.has("quantize", option)]
    if not (capabilities.one_level and fmt.has_tensor_scale):
        offered = [option for option in offered if option != "tensor_scale"]
    if len(fmt.shapes) < 2:
        offered = [option for option in offered if option != "block"]
    ways += [(WAYS[option], used, frozenset({option})) for option in offered]
    if {"axis", "pad"} <= set(offered):
        ways.append((f"{WAYS['axis']}, {WAYS['pad']}", used, frozenset({"axis", "pad"})))
    draws = []
    for number, (name, dtype, options) in enumerate(ways):
        x = fill_blocks(list_values(fmt.element, HALVES, dtype), fmt, few, 20 + number)
        if "pad" in options:
            x[:, -MISSING:] = 0
        if "block" in options:
            x = x[: len(x) // fmt.shapes[1][0] * fmt.shapes[1][0]]
        draws.append(Draws(f"halves {name}, seed {11 + number}", 11 + number, x, True, True, dtype, options))
    return draws


#: What calls with an option are named, and the numbers that a last block lacks.
WAYS = {"axis": "along the first axis", "pad": "before a ragged end", "tensor_scale": "with a tensor scale", "block": "in square blocks"}
MISSING = 3
#: Seeds whose draws are compared: with themselves, and with each other.
SEEDS = (0, 1, 2, 3)
#: Of those, the ones that are asked again.
AGAIN = (0, 1)
