"""Short spellings for the catalogue."""

from __future__ import annotations

from mxspec.layouts.formula import Formula
from mxspec.layouts.packing import BYTES, Packing
from mxspec.layouts.schema import Field, Part


def codes(
    pattern: str, packing: Packing, *, byte: str, bit: str = "0", part: Part = Part.CODES,
    stored: tuple[int, ...] | None = None,
) -> Field:  # fmt: skip
    """A field of element codes, or of anything else that has one item for each column."""
    return Field(part=part, packing=packing, pattern=pattern, byte=Formula(byte), bit=Formula(bit), stored=stored)


def scales(pattern: str, *, byte: str, covers: int = 1, stored: tuple[int, ...] | None = None) -> Field:
    """A field of scale bytes: one for each `covers` columns of codes."""
    return Field(
        part=Part.SCALES, packing=BYTES, pattern=pattern, byte=Formula(byte), bit=Formula("0"), covers=covers, stored=stored
    )  # fmt: skip
