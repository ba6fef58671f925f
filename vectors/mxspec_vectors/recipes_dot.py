"""Operands of products that are computed instead of stored: entries of tables, chosen by integers and bit operations.

vectors/README.md specifies the recipe `sides`; conformance/examples/cpp/expand.cpp computes it once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_vectors.document import VectorError

Words = npt.NDArray[np.uint32]
#: [kind, name of a table, numbers].
Choice = Sequence[Any]

#: The parts of a case's operands, in the order of a recipe's choices.
PARTS = ("a", "a_scales", "b", "b_scales")
#: The power of two of a plain side's run is that of an E8M0 code.
_ONE = 127
_GOLDEN, _FIRST, _SECOND = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a product, as a file states it."""

    format: str
    #: Elements that share a scale; of a plain side those that share a power of two.
    run: int
    #: Hex digits of a code, or of a float's bits.
    digits: int
    #: Bits of a plain side's significand below the leading one; None: codes under scales.
    fraction: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """As it stands in files."""
        entry: dict[str, Any] = {"format": self.format, "run": self.run, "digits": self.digits}
        return entry | ({} if self.fraction is None else {"fraction": self.fraction})

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Side:
        """The inverse of `as_dict`."""
        return cls(**entry)


def mix(seed: int, count: int) -> Words:
    """Numbers without a pattern, the same for the same seed: 32-bit words hashed twice."""
    h = np.arange(count, dtype=np.uint32) + np.uint32(seed * _GOLDEN & 0xFFFFFFFF)
    h = (h ^ h >> np.uint32(16)) * np.uint32(_FIRST)
    h = (h ^ h >> np.uint32(13)) * np.uint32(_SECOND)
    found: Words = h ^ h >> np.uint32(16)
    return found


def choose(choice: Choice, table: Words, rows: int, columns: int) -> Words:
    """A matrix [rows, columns] of a table's entries.

    choice: ["draw", table, seed]: by `mix`; ["turn", table, i, j]: entry i * row + j * column in turn;
    ["hot", table, i, j]: entry 1 at column i * row + j in turn, elsewhere entry 0;
    ["head", table, i, j]: entry 1 in the first i * row + j columns, then entry 0.
    Raises VectorError for another kind.
    """
    kind, _, *numbers = choice
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if kind == "draw":
        place = (mix(numbers[0], rows * columns) % np.uint32(len(table))).reshape(rows, columns)
    elif kind == "turn":
        place = ((numbers[0] * row + numbers[1] * column) % len(table)).astype(np.uint32)
    elif kind == "hot":
        place = (column == (numbers[0] * row + numbers[1]) % columns).astype(np.uint32)
    elif kind == "head":
        place = (column < numbers[0] * row + numbers[1]).astype(np.uint32)
    else:
        raise VectorError(f"unknown choice {kind!r}; known are draw, turn, hot and head")
    found: Words = table[place]
    return found


def make_operands(
    sides: Mapping[str, Side], tables: Mapping[str, Mapping[str, str]], shape: Sequence[int], recipe: Sequence[Any]
) -> dict[str, str]:
    """The operands of a case as hex: `a` [m, k], `b` [n, k], and the scales of the sides that have them.

    recipe: "sides", the choices of all four parts, then replacements [part, row, column, entry].
    Raises VectorError for another recipe.
    """
    name, *rest = recipe
    if name != "sides":
        raise VectorError(f"unknown recipe {name!r}; known is sides")
    choices, replaced = rest[: len(PARTS)], rest[len(PARTS) :]
    made: dict[str, str] = {}
    for number, which in enumerate("ab"):
        side, rows, k = sides[which], shape[number], shape[2]
        found = []
        for part, choice, columns in zip(PARTS[2 * number :], choices[2 * number : 2 * number + 2], (k, -(-k // side.run)), strict=False):
            digits = side.digits if part == which else 2
            text = tables[part][choice[1]]
            table = np.array([int(text[i : i + digits], 16) for i in range(0, len(text), digits)], np.uint32)
            words = choose(choice, table, rows, columns)
            for where, row, column, entry in replaced:
                if where == part:
                    words[row, column] = int(entry, 16)
            found.append(words)
        words, scales = found
        if side.fraction is None:
            made[f"{which}_scales"] = _hex(scales, 2)
        else:
            words = _shift(words, np.repeat(scales, side.run, axis=1)[:, :k], side)
        made[which] = _hex(words, side.digits)
    return made


def _shift(words: Words, powers: Words, side: Side) -> Words:
    """Floats times powers of two, by their exponent fields; zeros, infinities and NaN stay."""
    assert side.fraction is not None
    ones = (1 << 4 * side.digits - 1) - (1 << side.fraction)
    moved = (words != 0) & (words & np.uint32(ones) != ones)
    shifted = words.astype(np.int64) + (powers.astype(np.int64) - _ONE) * (1 << side.fraction)
    return np.where(moved, shifted, words).astype(np.uint32)


def _hex(words: Words, digits: int) -> str:
    return "".join(f"{w:0{digits}x}" for w in words.reshape(-1).tolist())


__all__ = ["PARTS", "Choice", "Side", "choose", "make_operands", "mix"]
