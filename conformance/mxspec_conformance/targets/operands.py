"""The sides of a product as data: what a kernel really takes, and how the judge lays numbers out for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec.layouts import Layout, Part, get_layout, list_layouts
from mxspec_conformance.targets.arrays import pack_nibbles, swizzle_128x4
from mxspec_conformance.targets.dtypes import DTYPES

#: Products that a target may list.
_MOST_PRODUCTS = 1000
#: Words of a layout beside the names of `mxspec.layouts`.
UNPACKED, ROW_MAJOR, TRANSPOSED = "unpacked", "row-major", "transposed"


class OperandKind(StrEnum):
    """What the numbers of a side are."""

    #: Element codes and block scales.
    BLOCK = "block"
    #: float32, float16 or bfloat16.
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandSpec:
    """One side of a product: [rows, k], rows being m of a and n of b, blocks along k."""

    kind: OperandKind
    #: A block format, or a dtype.
    format: str
    #: Where codes lie: one to a byte, or a layout; a layout that holds scales too is the whole side.
    codes: str = UNPACKED
    scales: str = ROW_MAJOR
    #: Whether the array is handed over as [k, rows].
    transposed: bool = False

    @property
    def text(self) -> str:
        """As a target writes it."""
        if self.transposed:
            return f"{self.format}/{TRANSPOSED}"
        layout = "+".join(name for name in (self.codes, self.scales) if name not in (UNPACKED, ROW_MAJOR))
        return f"{self.format}/{layout}" if layout else self.format

    @property
    def block(self) -> BlockFormat:
        """The block format of a block side."""
        return get_block(self.format)


@dataclass(frozen=True, slots=True)
class Product:
    """Both sides of a product that a target computes."""

    a: OperandSpec
    b: OperandSpec

    @property
    def text(self) -> str:
        """As a description writes it."""
        return f"{self.a.text} @ {self.b.text}"

    @property
    def name(self) -> str:
        """The formats of both sides, as requirement ids have them."""
        return f"{self.a.format}@{self.b.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of one side before they are laid out."""

    spec: OperandSpec
    #: A plain side's [rows, k].
    values: npt.NDArray[Any] | None = None
    #: A block side's codes [rows, k] and scales [rows, k / block].
    codes: npt.NDArray[np.uint8] | None = None
    scales: npt.NDArray[np.uint8] | None = None
    tensor_scale: float | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, k)."""
        held = self.values if self.codes is None else self.codes
        assert held is not None
        return int(held.shape[0]), int(held.shape[1])

    def as_data(self) -> tuple[Any, ...]:
        """As it crosses the wire to a process of the judge's."""
        return self.spec.text, self.values, self.codes, self.scales, self.tensor_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a target is handed for a block side; a plain side is its array."""

    #: uint8: [rows, k] one code to a byte, [rows, k / 2] for nibble-low, else the layout's bytes.
    codes: Any
    #: uint8: [rows, k / block], or the layout's bytes; None where the layout of the codes holds them.
    scales: Any
    #: NVFP4's float32 scale of this side, which multiplies; None: there is none.
    tensor_scale: float | None = None
    format: str = ""
    #: (rows, k).
    shape: tuple[int, int] = (0, 0)
    #: A plain side's array, for roads that do not hand over arrays alone.
    values: Any = None
    #: The declaration's text.
    spec: str = ""


def read_numbers(data: Any) -> Numbers:
    """Inverts `Numbers.as_data`."""
    text, values, codes, scales, tensor_scale = data
    return Numbers(spec=parse_operand(text), values=values, codes=codes, scales=scales, tensor_scale=tensor_scale)


def parse_operand(text: str) -> OperandSpec:
    """A side from its text: a block format or a dtype, then / and its layouts.

    Raises ValueError, saying what is allowed.
    """
    name, _, layout = text.partition("/")
    if name not in BLOCKS and name not in DTYPES:
        raise ValueError(f"{name!r} is neither a block format nor a dtype; known are {', '.join((*BLOCKS, *DTYPES))}")
    kind = OperandKind.BLOCK if name in BLOCKS else OperandKind.PLAIN
    if layout == TRANSPOSED:
        return OperandSpec(kind=kind, format=name, transposed=True)
    if kind is OperandKind.PLAIN:
        if layout:
            raise ValueError(f"{text!r} names a layout; a side of {name} is row-major, or {name}/{TRANSPOSED}")
        return OperandSpec(kind=kind, format=name)
    places = {"codes": UNPACKED, "scales": ROW_MAJOR}
    for word in filter(None, layout.split("+")):
        part = _part_of(word, text, get_block(name))
        places[part] = word
    return OperandSpec(kind=kind, format=name, **places)  # type: ignore[arg-type]


def _part_of(word: str, text: str, fmt: BlockFormat) -> str:
    """Whether a layout's name is one of codes or of scales."""
    if word in (UNPACKED, ROW_MAJOR):
        return "codes" if word == UNPACKED else "scales"
    known = {name: x for x in list_layouts() for name in (x.name, *x.aliases)}
    if word not in known:
        raise ValueError(
            f"{text!r} names the layout {word!r}, which is none; see `mxspec layouts`, or write {TRANSPOSED}"
        )
    parts = {field.part: field for field in known[word].fields}
    if not set(parts) <= {Part.CODES, Part.SCALES}:
        raise ValueError(f"{text!r}: {word} holds {' and '.join(parts)}, and a side of a product is codes and scales")
    for part, scalar in ((Part.CODES, fmt.element), (Part.SCALES, fmt.scale)):
        stored = parts[part].stored if part in parts else None
        if stored is not None and any(code < 0 for code in stored[: scalar.code_count]):
            raise ValueError(f"{text!r}: {word} has no place for some of the {part} of {fmt.name}")
    if Part.CODES not in parts:
        return "scales"
    width = parts[Part.CODES].packing.width
    if width < fmt.element.bits:
        raise ValueError(
            f"{text!r}: {word} holds codes of {width} bits, and those of {fmt.name} have {fmt.element.bits}"
        )
    if Part.SCALES in parts and parts[Part.SCALES].covers != fmt.k:
        raise ValueError(
            f"{text!r}: {word} has a scale for {parts[Part.SCALES].covers} codes, and {fmt.name} one for {fmt.k}"
        )
    return "codes"


def parse_product(given: Any) -> Product:
    """A product from {"a": text, "b": text} or from "A @ B".

    Raises ValueError for anything else.
    """
    sides: list[Any] = []
    if isinstance(given, Mapping) and set(given) == {"a", "b"}:
        sides = [given["a"], given["b"]]
    elif isinstance(given, str):
        sides = str.split(given, " @ ")
    if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
        shown = repr(str.__str__(given)[:60]) if isinstance(given, str) else f"a {type(given).__name__}"
        raise ValueError(f'{shown} is no product; write {{"a": "mxfp8_e4m3", "b": "mxfp4/nibble-low+128x4"}}')
    a, b = (parse_operand(str.__str__(side)) for side in sides)
    return Product(a, b)


def parse_products(given: Any) -> tuple[Product, ...]:
    """One product or several. Raises ValueError where one is none, or where there are none."""
    several = given if isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping)) else [given]
    members = list(islice(several, _MOST_PRODUCTS + 1))  # an iterator may have no end
    if len(members) > _MOST_PRODUCTS:
        raise ValueError(f"it holds more than {_MOST_PRODUCTS} products; list each once")
    found = tuple(dict.fromkeys(map(parse_product, members)))
    if not found:
        raise ValueError("it is empty; name both sides of one product at least")
    return found


def lay_out(numbers: Numbers) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8] | None]:
    """The arrays that a kernel takes for a side: the numbers or codes, and the scales where they lie apart."""
    spec = numbers.spec
    if spec.kind is OperandKind.PLAIN:
        assert numbers.values is not None
        return (np.ascontiguousarray(numbers.values.T) if spec.transposed else numbers.values), None
    codes, scales = numbers.codes, numbers.scales
    assert codes is not None
    assert scales is not None
    if spec.transposed:
        return np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)
    if spec.codes not in (UNPACKED, "nibble-low"):
        layout = get_layout(spec.codes)
        if len(layout.fields) > 1:
            return _pack_record(layout, codes, scales), None
        given: npt.NDArray[Any] = layout.pack(codes)
    else:
        given = pack_nibbles(codes) if spec.codes == "nibble-low" else codes
    if spec.scales == ROW_MAJOR:
        return given, scales
    return given, swizzle_128x4(scales) if spec.scales == "128x4" else get_layout(spec.scales).pack(scales)


def _pack_record(layout: Layout, codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    parts = {Part.CODES: codes, Part.SCALES: scales}
    return layout.pack(*(parts[field.part] for field in layout.fields))
