"""The operands of a product as data: what a kernel takes, how a declaration says it, and the numbers before they are laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.adjacent import register_named
from mxspec.affine import AffineFormat, get_affine
from mxspec.dot import PLAIN_DTYPES
from mxspec.enums import StrEnum
from mxspec.formats import BLOCKS, BlockFormat, get_block, refuse_whole
from mxspec.sparsity import Sparsity, check_group
from mxspec_conformance.targets.operand_words import ROW_MAJOR, SQUARE, TRANSPOSED, UNPACKED, Fit, Places, read_words
from mxspec_conformance.targets.texts import name_with_article

#: Products that a target may list.
_MOST_PRODUCTS = 1000
#: Numbers of the largest group that an operand may have: sums of many groups are judged, in seconds.
MOST_GROUP = 512
#: The suffix of a format of which two of four numbers, or pairs, are kept, as in `mxspec.sparsity`'s names.
SPARSITIES: dict[str, Sparsity] = {"2to4": Sparsity.TWO_OF_FOUR, "4to8": Sparsity.PAIRS}


class OperandKind(StrEnum):
    """What the numbers of an operand are."""

    #: Element codes and block scales.
    BLOCK = "block"
    #: float32, float16, bfloat16, or FP8 numbers without block scales.
    PLAIN = "plain"
    #: Unsigned codes with a float scale and an offset for each group.
    AFFINE = "affine"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandSpec:
    """One operand of a product: [rows, k], rows being m of a and n of b, blocks and groups along k."""

    kind: OperandKind
    #: A block format, an affine format, or a dtype.
    format: str
    #: What is kept along k; None: all.
    sparsity: Sparsity | None = None
    #: Where codes lie: one to a byte, 32-bit words, or a layout; a layout that holds scales too is the whole operand.
    codes: str = UNPACKED
    scales: str = ROW_MAJOR
    #: Zero points of an affine operand.
    offsets: str = ROW_MAJOR
    #: Nibbles of a sparse operand.
    metadata: str = UNPACKED
    #: Whether what has no layout is handed over as [k, rows].
    transposed: bool = False

    @property
    def name(self) -> str:
        """The format with its sparsity: `mxfp4`, `mxfp4-2to4`."""
        suffix = next((word for word, rule in SPARSITIES.items() if rule is self.sparsity), "")
        return f"{self.format}-{suffix}" if suffix else self.format

    @property
    def text(self) -> str:
        """As a target writes it."""
        given = (self.codes, self.scales, self.offsets, self.metadata)
        words = [word for word in given if word not in (UNPACKED, ROW_MAJOR)]
        layout = "+".join([*words, *([TRANSPOSED] if self.transposed else [])])
        return f"{self.name}/{layout}" if layout else self.name

    @property
    def block(self) -> BlockFormat:
        """The block format of a block operand."""
        return get_block(self.format)

    @property
    def affine(self) -> AffineFormat:
        """The affine format of an affine operand."""
        return get_affine(self.format)

    @property
    def group(self) -> int:
        """Numbers that share a scale; 1 of a plain operand."""
        if self.kind is OperandKind.PLAIN:
            return 1
        return self.block.k if self.kind is OperandKind.BLOCK else self.affine.group

    @property
    def stored(self) -> int:
        """Numbers along k for each that is stored."""
        return 1 if self.sparsity is None else 2

    @property
    def places(self) -> Places:
        """The layouts of all parts."""
        return Places(self.codes, self.scales, self.offsets, self.metadata)


@dataclass(frozen=True, slots=True)
class Product:
    """Both operands of a product that a target computes."""

    a: OperandSpec
    b: OperandSpec

    @property
    def text(self) -> str:
        """As a description writes it."""
        return f"{self.a.text} @ {self.b.text}"

    @property
    def name(self) -> str:
        """The formats of both operands, as requirement ids have them."""
        return f"{self.a.name}@{self.b.name}"

    def has_format(self, names: Iterable[str]) -> bool:
        """Whether an operand's format is among some names, sparse or not."""
        return bool({name for side in (self.a, self.b) for name in (side.format, side.name)} & set(names))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """The numbers of one operand before they are laid out. Equal only to itself, so that what is computed from it can be cached."""

    spec: OperandSpec
    #: A plain operand's [rows, k]; of a sparse one the kept [rows, k / 2].
    values: npt.NDArray[Any] | None = None
    #: Codes [rows, k], of a sparse operand the kept [rows, k / 2]; and scales: uint8 [rows, k / block], or floats [rows, k / group].
    codes: npt.NDArray[np.uint8] | None = None
    scales: npt.NDArray[Any] | None = None
    tensor_scale: float | None = None
    #: An affine operand's biases or zero points [rows, k / group].
    offsets: npt.NDArray[Any] | None = None
    #: A sparse operand's nibbles [rows, k / 4], of pairs [rows, k / 8].
    metadata: npt.NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        if self.spec.scales == SQUARE and self.scales is not None:
            object.__setattr__(self, "scales", share_scales(self.scales))

    @property
    def held(self) -> npt.NDArray[Any]:
        """The numbers or codes that are stored."""
        held = self.values if self.codes is None else self.codes
        assert held is not None
        return held

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, k)."""
        return int(self.held.shape[0]), int(self.held.shape[1]) * self.spec.stored

    def with_held(self, held: npt.NDArray[Any]) -> Numbers:
        """The operand with other numbers or codes stored."""
        return replace(self, values=held) if self.codes is None else replace(self, codes=held)

    def as_data(self) -> tuple[Any, ...]:
        """As it crosses the wire to a process of the judge's."""
        return self.spec.text, self.values, self.codes, self.scales, self.tensor_scale, self.offsets, self.metadata


def share_scales(scales: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scales [..., rows, blocks] of which 128 rows share one: of the tile's rows the first that differs from its first one has it."""
    shared = scales.copy()
    for start in range(0, scales.shape[-2], 128):
        tile = scales[..., start : start + 128, :]
        chosen = np.argmax(tile != tile[..., :1, :], axis=-2)[..., None, :]
        shared[..., start : start + 128, :] = np.take_along_axis(tile, chosen, axis=-2)
    return shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a target receives for an operand; a plain operand that is not sparse is its array."""

    #: uint8: [rows, k] one code to a byte (of a sparse operand those kept, [rows, k / 2]), two to a byte for nibble-low, else the
    #: layout's bytes; uint32 for words.
    codes: Any
    #: uint8 [rows, k / block], floats [rows, k / group], or the layout's bytes; None where the layout of the codes holds them.
    scales: Any
    #: NVFP4's float32 scale of this operand, which multiplies, of a stack one for each; None: there is none.
    tensor_scale: Any = None
    format: str = ""
    #: (rows, k), of a stack (members, rows, k).
    shape: tuple[int, ...] = (0, 0)
    #: The array of a plain operand that is sparse, or is passed on a transport that takes `Side` alone.
    values: Any = None
    #: The declaration's text.
    spec: str = ""
    #: Of an affine operand, [rows, k / group] or the layout's bytes: floats that are added, or codes that are subtracted.
    biases: Any = None
    zeros: Any = None
    #: A sparse operand's nibbles.
    metadata: Any = None

    @property
    def offsets(self) -> Any:
        """Biases or zero points, whichever the operand has."""
        return self.biases if self.zeros is None else self.zeros


def read_numbers(data: Any) -> Numbers:
    """Inverts `Numbers.as_data`."""
    text, values, codes, scales, tensor_scale, offsets, metadata = data
    return Numbers(
        spec=parse_operand(text), values=values, codes=codes, scales=scales, tensor_scale=tensor_scale, offsets=offsets,
        metadata=metadata,
    )  # fmt: skip


def parse_operand(text: str) -> OperandSpec:
    """An operand from its text: a block format, an affine format or a dtype, sparse or not, then / and its layouts.

    Raises ValueError, saying what is allowed.
    """
    name, _, layout = text.partition("/")
    base, _, word = name.rpartition("-")
    sparsity = SPARSITIES.get(word) if base else None
    fmt = name if sparsity is None else base
    kind = _kind_of(fmt)
    if kind is None:
        raise ValueError(
            f"{name!r} is neither a block format nor a dtype; known are {', '.join((*BLOCKS, *PLAIN_DTYPES))}, affine integers such as "
            f"int4-g64-bias-float16, and any of these with -{' or -'.join(SPARSITIES)} behind it"
        )
    spec = OperandSpec(kind=kind, format=fmt, sparsity=sparsity)
    if kind is OperandKind.BLOCK:
        refuse_whole(spec.block, "products that are judged")
    if spec.group > MOST_GROUP:
        raise ValueError(f"{text!r}: a group has {spec.group} numbers; products are judged up to groups of {MOST_GROUP}")
    if sparsity is not None and kind is not OperandKind.PLAIN:
        try:
            check_group(spec.group, spec.group, sparsity)
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from None
    if sparsity is Sparsity.PAIRS and _code_bits(spec) != 4:
        raise ValueError(f"{text!r}: {sparsity} are pairs of 4-bit codes that share a byte; {fmt} is kept 2:4: write {fmt}-2to4")
    fit = Fit(
        name=spec.name, sparse=sparsity is not None, element=spec.block.element if kind is OperandKind.BLOCK else None,
        scale=spec.block.scale if kind is OperandKind.BLOCK else None, affine=spec.affine if kind is OperandKind.AFFINE else None,
        group=spec.group, square=kind is OperandKind.BLOCK and (128, 128) in spec.block.shapes,
    )  # fmt: skip
    places, transposed = read_words(layout, text, fit)
    return OperandSpec(
        kind=kind, format=fmt, sparsity=sparsity, transposed=transposed, codes=places.codes, scales=places.scales,
        offsets=places.offsets, metadata=places.metadata,
    )  # fmt: skip


def _code_bits(spec: OperandSpec) -> int:
    """Bits of a code; 0: there are none."""
    if spec.kind is OperandKind.PLAIN:
        return 0
    return spec.block.element.bits if spec.kind is OperandKind.BLOCK else spec.affine.bits


def _kind_of(fmt: str) -> OperandKind | None:
    register_named([fmt])
    if fmt in BLOCKS:
        return OperandKind.BLOCK
    if fmt in PLAIN_DTYPES:
        return OperandKind.PLAIN
    try:
        get_affine(fmt)
    except ValueError:
        return None
    return OperandKind.AFFINE


def parse_product(given: Any) -> Product:
    """A product from {"a": text, "b": text} or from "A @ B", with blanks or as requirement ids have it.

    Raises ValueError for anything else.
    """
    sides: list[Any] = []
    if isinstance(given, Mapping) and set(given) == {"a", "b"}:
        sides = [given["a"], given["b"]]
    elif isinstance(given, str):
        sides = [side.strip() for side in str.split(given, "@")]
    if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
        shown = repr(str.__str__(given)[:60]) if isinstance(given, str) else name_with_article(given)
        raise ValueError(f'{shown} is no product; write {{"a": "mxfp8_e4m3", "b": "mxfp4/nibble-low+128x4"}}')
    a, b = (parse_operand(str.__str__(side)) for side in sides)
    return Product(a, b)


def parse_products(given: Any, parse: Callable[[Any], Any]) -> tuple[Any, ...]:
    """One product or several. Raises ValueError where one is none, or where there are none."""
    several = given if isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping)) else [given]
    members = list(islice(several, _MOST_PRODUCTS + 1))  # an iterator may have no end
    if len(members) > _MOST_PRODUCTS:
        raise ValueError(f"it holds more than {_MOST_PRODUCTS} products; list each once")
    found = tuple(dict.fromkeys(map(parse, members)))
    if not found:
        raise ValueError("it is empty; name both operands of one product at least")
    return found
