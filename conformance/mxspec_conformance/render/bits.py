"""Codes and floats as fields of bits, for drawing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mxspec.formats import BLOCKS, FLOAT32, ScalarFormat, get_block, get_scalar

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Bit:
    """One bit, and whether it differs from that of the code compared with."""

    value: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Field:
    """Bits that belong together. kind: `sign`, `exponent`, `fraction`, `integer` or `surplus`."""

    kind: str
    bits: tuple[Bit, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """A code or a float: hex, fields, and the number that it means."""

    hex: str
    fields: tuple[Field, ...]
    meaning: str
    differs: bool


@lru_cache(maxsize=1 << 14)
def draw_code(code: int, fmt: ScalarFormat, other: int | None = None) -> Word:
    """A code's fields; bits that are not those of another code are marked."""
    width = max(fmt.bits, code.bit_length())
    changed = 0 if other is None else code ^ other
    fields, position = [], width
    for kind, count in _widths(fmt, width):
        if count:
            bits = tuple(Bit(str(code >> p & 1), bool(changed >> p & 1)) for p in range(position - 1, position - count - 1, -1))
            fields.append(Field(kind, bits))
            position -= count
    digits = -(-width // 4)
    return Word(f"{code:0{digits}x}", tuple(fields), describe_code(code, fmt), bool(changed))


#: Classes of fields in words, which are in a page by the thousand.
_CLASSES = {"sign": "s", "exponent": "e", "fraction": "f", "integer": "f", "surplus": "x"}


@lru_cache(maxsize=1 << 14)
def write_word(word: Word) -> Markup:
    """A word as HTML: <b> its hex digits, <i> each field, <em> what it means; in a field <b> is a bit that differs."""
    from markupsafe import Markup, escape  # comes with jinja2

    fields = []
    for f in word.fields:
        bits = "".join(f"<b>{b.value}</b>" if b.differs else b.value for b in f.bits)
        fields.append(f"<i class={_CLASSES[f.kind]}>{bits}</i>")
    meaning = f"<em>{escape(word.meaning)}</em>" if word.meaning else ""
    kind = '"word wrong"' if word.differs else "word"
    return Markup(f"<span class={kind}><b>{word.hex}</b><span>{''.join(fields)}</span>{meaning}</span>")


def draw_float(bits: int) -> Word:
    """A float32's fields."""
    return draw_code(bits, FLOAT32)


def _widths(fmt: ScalarFormat, width: int) -> list[tuple[str, int]]:
    sign = int(fmt.signed)
    rest = fmt.bits - sign - fmt.exponent_bits
    inner = "integer" if fmt.exponent_bits == 0 else "fraction"
    return [("surplus", width - fmt.bits), ("sign", sign), ("exponent", fmt.exponent_bits), (inner, rest)]


def describe_code(code: int, fmt: ScalarFormat) -> str:
    """The number that a code means, short: exact where that is short, else with five digits."""
    if code >= fmt.code_count:
        return "no code"
    if fmt.is_nan(code):
        return "NaN"
    sign, magnitude = fmt.split(code)
    mark = "−" if sign else ""
    if fmt.inf_code is not None and magnitude == fmt.inf_code:
        return f"{mark}∞"
    if fmt.is_power_of_two:
        return f"2{_superscript(code - fmt.bias)}"
    return mark + _short(fmt.magnitude(magnitude))


def _short(value: Fraction) -> str:
    if value == 0:
        return "0"
    text = repr(float(value)).removesuffix(".0")
    if len(text) <= 9 and Fraction(text) == value:
        return text
    return np.format_float_scientific(float(value), precision=4, trim="-")


def _superscript(n: int) -> str:
    return str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def formats_of(name: str) -> tuple[ScalarFormat | None, ScalarFormat | None]:
    """The element and scale format of a block format, or (the format, None) of a scalar one; None where there is none."""
    if name in BLOCKS:
        block = get_block(name)
        return block.element, block.scale
    try:
        return get_scalar(name), None
    except (KeyError, ValueError):
        return None, None
