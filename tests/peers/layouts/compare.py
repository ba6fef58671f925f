"""Comparisons of one layout with one library: data in which every item says where it belongs, and what differs.

A code has too few values to number the items of a matrix, so each shape is packed several times: once for every digit of
the items' numbers (in the base that the code can hold), and once with codes of no order. A library that puts one item
elsewhere differs in at least one of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec import layouts
from mxspec.elements import decode_table
from mxspec.formats import ElementFormat
from mxspec.layouts import Layout, Padding

Bytes = npt.NDArray[np.uint8]
#: Shapes that lie in, on and across tiles both ways.
STRADDLING: tuple[tuple[int, int], ...] = ((1, 1), (1, 4), (8, 8), (31, 5), (127, 3), (128, 4), (129, 9), (300, 7))
#: The same for layouts that pack along the columns.
WIDE = (*STRADDLING, (1, 63), (31, 96), (127, 40), (128, 127), (129, 129), (300, 56))


@dataclass(frozen=True)
class Comparison:
    """What we and the library made of the same input."""

    layout: str
    #: "pack" (bytes are compared), "unpack" (items are) or "offsets" (places of items are).
    direction: str
    shape: tuple[int, ...]
    ours: npt.NDArray[np.generic]
    theirs: npt.NDArray[np.generic]
    #: Bits that mean something; None: all.
    mask: Bytes | None = None

    @property
    def size(self) -> int:
        """How many bytes, items or places are compared."""
        return int(self.ours.size)

    @property
    def different(self) -> int:
        """How many of them differ; all where their number does."""
        if self.ours.size != self.theirs.size:
            return max(self.ours.size, self.theirs.size)
        ours, theirs = self.ours.reshape(-1), self.theirs.reshape(-1)
        wrong = (ours ^ theirs) & self.mask.reshape(-1) if self.mask is not None else ours != theirs
        return int(np.count_nonzero(wrong))

    @property
    def first(self) -> str:
        """Where the two part."""
        if self.ours.size != self.theirs.size:
            return f"{self.ours.size} against {self.theirs.size}"
        ours, theirs = self.ours.reshape(-1), self.theirs.reshape(-1)
        wrong = (ours ^ theirs) & self.mask.reshape(-1) if self.mask is not None else ours != theirs
        place = int(np.flatnonzero(wrong)[0])
        return f"at {place}: {ours[place]} against {theirs[place]}"


def number_items(shape: tuple[int, ...], codes: Sequence[int] | int) -> Iterator[Bytes]:
    """Matrices of codes that together tell the items of a shape apart: their numbers' digits, then no order at all."""
    allowed = np.arange(codes, dtype=np.uint8) if isinstance(codes, int) else np.array(codes, np.uint8)
    count, base = int(np.prod(shape)), len(allowed)
    numbers = np.arange(count, dtype=np.int64)
    power = 1
    while power < max(count, 2):
        yield allowed[numbers // power % base].reshape(shape)
        power *= base
    # A multiplicative hash; its upper bits pass any test of order that matters here.
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    yield allowed[(mixed % np.uint64(base)).astype(np.int64)].reshape(shape)


def fit_shapes(layout: str, shapes: Iterable[tuple[int, int]] = STRADDLING, *, tile: tuple[int, int] = (1, 1)) -> list[tuple[int, int]]:  # fmt: skip
    """The shapes, each rounded up to what the layout or the library (`tile`) takes, without repetitions."""
    chosen = layouts.get_layout(layout)
    own = chosen.tile if chosen.padding is Padding.REFUSED else (1, 1)
    rows, columns = (int(np.lcm(a, b)) for a, b in zip(own, tile, strict=True))
    return list(dict.fromkeys((-(-m // rows) * rows, -(-k // columns) * columns) for m, k in shapes))


def compare_packed(
    layout: str, shape: tuple[int, int], theirs: Callable[[Bytes], npt.NDArray[np.generic]], *, codes: Sequence[int] | int,
) -> Iterator[Comparison]:  # fmt: skip
    """Our bytes of each matrix and theirs."""
    chosen = layouts.get_layout(layout)
    mask = chosen.mask(shape) if chosen.padding is Padding.UNSPECIFIED or chosen.gap is None else None
    for items in number_items(shape, codes):
        yield Comparison(layout, "pack", shape, chosen.pack(items), view_bytes(theirs(items)), mask)


def compare_unpacked(
    layout: str, shape: tuple[int, int], theirs: Callable[[Bytes], npt.NDArray[np.generic]], *, codes: Sequence[int] | int,
) -> Iterator[Comparison]:  # fmt: skip
    """Our items and theirs of the same bytes."""
    chosen = layouts.get_layout(layout)
    for items in number_items(shape, codes):
        data = chosen.pack(items)
        yield Comparison(layout, "unpack", shape, chosen.unpack(data, shape)[-1], np.asarray(theirs(data)))


def compare_offsets(
    layout: str, shape: tuple[int, int], places: Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.int64]],
) -> Iterator[Comparison]:  # fmt: skip
    """The bit where each item lies, by our formula and by theirs."""
    m, k = (axis.reshape(-1).astype(np.int64) for axis in np.indices(shape))
    byte, bit = layouts.get_layout(layout).locate(m, k, shape)
    yield Comparison(layout, "offsets", shape, np.asarray(8 * byte + bit), np.asarray(places(m, k), np.int64))


def view_bytes(array: npt.NDArray[np.generic]) -> Bytes:
    """The bytes of an array, flat."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def decode_codes(codes: Bytes, fmt: ElementFormat) -> npt.NDArray[np.float32]:
    """The values of codes as float32."""
    return decode_table(fmt)[codes].astype(np.float32)


def encode_values(values: npt.NDArray[np.generic], fmt: ElementFormat) -> Bytes:
    """The codes of values that the format holds exactly, sign of zero included; 255 where it does not hold one."""
    table = decode_table(fmt).astype(np.float32)
    known = {bits: code for code, bits in reversed(list(enumerate(table.view(np.uint32).tolist())))}
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    found, inverse = np.unique(bits, return_inverse=True)
    return np.array([known.get(b, 255) for b in found.tolist()], np.uint8)[inverse].reshape(np.shape(values))


def digest_layout(layout: Layout) -> str:
    """A digest of everything that decides where bits go: what a report names, so that a test can tell it is stale."""
    facts = {
        "name": layout.name,
        "fields": [
            [f.part, f.packing.width, f.packing.size, f.packing.places, f.pattern, f.byte.text, f.bit.text, f.covers, f.stored]
            for f in layout.fields
        ],
        "padding": [layout.padding, layout.pad_to, layout.fill, layout.gap, layout.flat, layout.word],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("ascii")).hexdigest()[:16]
