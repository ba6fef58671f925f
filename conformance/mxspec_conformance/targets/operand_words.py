"""The words behind an operand's format: which layout its codes, scales, zero points and metadata have."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.affine import AffineFormat, Offset
from mxspec.formats import ElementFormat, ScaleFormat
from mxspec.layouts import Layout, Part, list_layouts

#: Words of a layout in addition to the names of `mxspec.layouts`.
UNPACKED, ROW_MAJOR, TRANSPOSED, WORDS = "unpacked", "row-major", "transposed", "words"
#: One scale for 128 rows, too.
SQUARE = "128x128"
#: What the alias of a layout ends in that is used for something else than codes.
_USES = {"-zeros": Part.ZEROS, "-metadata": Part.METADATA}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What the layouts of an operand have to hold."""

    #: The format's name, sparsity included.
    name: str
    sparse: bool
    #: Of a block operand.
    element: ElementFormat | None
    scale: ScaleFormat | None
    #: Of an affine operand.
    affine: AffineFormat | None
    #: Numbers that share a scale.
    group: int
    #: Whether 128 rows may share a scale, too.
    square: bool = False

    @property
    def bits(self) -> int:
        """Bits of a code; 0: there are none."""
        if self.affine is not None:
            return self.affine.bits
        return self.element.bits if self.element is not None else 0


@dataclass(frozen=True, slots=True)
class Places:
    """The layout of each part."""

    codes: str = UNPACKED
    scales: str = ROW_MAJOR
    offsets: str = ROW_MAJOR
    metadata: str = UNPACKED


def read_words(given: str, text: str, fit: Fit) -> tuple[Places, bool]:
    """The layouts that the words name, joined by +, and whether what has none is transposed.

    Raises ValueError, saying what is allowed, for a word that is no layout or does not fit the format.
    """
    found: dict[str, str] = {}
    words = [word for word in given.split("+") if word]
    mixed = fit.affine is not None or fit.sparse
    transposed = TRANSPOSED in words and (mixed or words == [TRANSPOSED])
    for word in words:
        if word == TRANSPOSED and transposed:
            continue
        if not fit.bits and not fit.sparse:
            raise ValueError(f"{text!r} names a layout; an operand of {fit.name} is row-major, or {fit.name}/{TRANSPOSED}")
        part = _part_of(word, text, fit)
        if part in found:
            raise ValueError(f"{text!r} says twice where the {part} lie: {found[part]} and {word}; name one")
        found[part] = word
    return Places(**found), transposed


def _part_of(word: str, text: str, fit: Fit) -> str:
    """Whether a word says where codes, scales, offsets or metadata lie."""
    if word in (UNPACKED, ROW_MAJOR):
        return "codes" if word == UNPACKED else "scales"
    if word == SQUARE:
        if not fit.square:
            raise ValueError(f"{text!r}: blocks of {fit.name} have no tiles of 128 rows; omit {SQUARE}")
        return "scales"
    if word == WORDS and fit.affine is not None:
        if fit.group * fit.bits % 32:
            raise ValueError(f"{text!r}: a group of {fit.group} codes of {fit.bits} bits does not fill whole 32-bit words")
        return "codes"
    known = {name: x for x in list_layouts() for name in (x.name, *x.aliases)}
    if word not in known:
        raise ValueError(f"{text!r} names the layout {word!r}, which is none; see `mxspec layouts`, or write {TRANSPOSED}")
    layout = known[word]
    parts = {field.part for field in layout.fields}
    use = next((part for ending, part in _USES.items() if word.endswith(ending)), None)
    if use is Part.ZEROS or Part.ZEROS in parts:
        return _check_zeros(word, layout, text, fit)
    if use is Part.METADATA or Part.METADATA in parts:
        if not fit.sparse:
            raise ValueError(f"{text!r}: {word} holds metadata, and {fit.name} is not sparse; write {fit.name}-2to4")
        return "metadata"
    if not parts <= {Part.CODES, Part.SCALES}:
        raise ValueError(f"{text!r}: {word} holds {' and '.join(sorted(parts))}, and an operand of a product is codes and scales")
    return _check_codes(word, layout, text, fit)


def _check_zeros(word: str, layout: Layout, text: str, fit: Fit) -> str:
    if fit.affine is None or fit.affine.offset is not Offset.ZERO:
        raise ValueError(f"{text!r}: {word} holds zeros, and {fit.name} has no zero points")
    width = layout.fields[0].packing.width
    if width != fit.bits:
        raise ValueError(f"{text!r}: {word} holds zero points of {width} bits, and those of {fit.name} have {fit.bits}")
    return "offsets"


def _check_codes(word: str, layout: Layout, text: str, fit: Fit) -> str:
    """Whether a layout of codes, scales or both fits the format."""
    parts = {field.part: field for field in layout.fields}
    if Part.SCALES in parts and fit.scale is None:
        what = f"those of {fit.affine.name} are {fit.affine.dtype}" if fit.affine is not None else f"{fit.name} has none"
        raise ValueError(f"{text!r}: {word} holds scales of one byte, and {what}; leave them row-major")
    if not fit.bits:
        raise ValueError(f"{text!r}: {word} holds codes, and the kept numbers of {fit.name} are plain; omit it")
    if fit.sparse and len(parts) > 1:
        raise ValueError(f"{text!r}: {word} holds codes next to their scales, and kept codes are stored apart; name a layout for each")
    if Part.SCALES in parts and fit.scale is not None and fit.scale.bits > 8:
        raise ValueError(f"{text!r}: {word} holds scales of one byte, and those of {fit.name} are float32; leave them row-major")
    for part, scalar in ((Part.CODES, fit.element), (Part.SCALES, fit.scale)):
        stored = parts[part].stored if part in parts else None
        if stored is not None and scalar is not None and any(code < 0 for code in stored[: scalar.code_count]):
            raise ValueError(f"{text!r}: {word} has no place for some of the {part} of {fit.name}")
    if Part.CODES not in parts:
        return "scales"
    width = parts[Part.CODES].packing.width
    if width < fit.bits:
        raise ValueError(f"{text!r}: {word} holds codes of {width} bits, and those of {fit.name} have {fit.bits}")
    if Part.SCALES in parts and parts[Part.SCALES].covers != fit.group:
        raise ValueError(f"{text!r}: {word} has a scale for {parts[Part.SCALES].covers} codes, and {fit.name} one for {fit.group}")
    return "codes"
