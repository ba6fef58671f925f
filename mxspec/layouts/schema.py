"""What a layout is, and how data are moved by it.

A layout is data: a pattern (the order of the items), a packing (their bits within a few bytes), a padding rule, and,
stated separately, the index formula that its users document. `pack` and `unpack` use pattern and packing, `locate` uses
the formula; the tests hold the two to each other on every item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec.inputs import as_array
from mxspec.layouts.folding import Folding, plan_folding
from mxspec.layouts.formula import Formula
from mxspec.layouts.packing import NIBBLES_LOW, Bytes, Packing
from mxspec.layouts.pattern import Pattern, parse_pattern
from mxspec.layouts.tuned import pack_items, pack_split_nibbles, unpack_items, unpack_split_nibbles


class Part(StrEnum):
    """What the items are."""

    CODES = "codes"
    SCALES = "scales"
    ZEROS = "zeros"
    METADATA = "metadata"
    BYTES = "bytes"


class Padding(StrEnum):
    """What is done with rows and columns that do not fill a tile."""

    #: The shape is refused.
    REFUSED = "refused"
    #: The shape is rounded up, and the bytes between are part of the layout.
    SPECIFIED = "specified"
    #: The shape is rounded up, and the bytes between are undefined.
    UNSPECIFIED = "unspecified"


class Evidence(StrEnum):
    """How the layout is known."""

    #: Compared with the library itself, run on a CPU.
    MEASURED = "measured"
    #: An upstream function, restated and run.
    TRANSCRIBED = "transcribed"
    #: Only read in the source or the documentation.
    READ = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One kind of item in a layout."""

    part: Part
    packing: Packing
    pattern: str
    #: Where an item lies: its byte, and the bit of that byte that holds bit 0 (or, where b occurs, bit b) of its code.
    byte: Formula
    bit: Formula
    #: Columns of the matrix of codes that one item covers: 1 for codes, the block for scales.
    covers: int = 1
    #: Stored code of each logical code, where they differ; -1 where a code cannot be stored.
    stored: tuple[int, ...] | None = None

    @property
    def parsed(self) -> Pattern:
        """The pattern, parsed."""
        return parse_pattern(self.pattern)

    @property
    def split(self) -> int:
        """Half the block, where nibbles j and j + half of a block share a byte; else 0."""
        columns, order = self.parsed.columns, self.parsed.order
        if self.packing != NIBBLES_LOW or len(columns) < 3 or columns[-2][1] != 2 or columns[-1][1] not in (8, 16):
            return 0
        # Rows and the other column digits stay in place.
        names = [name for name, _ in (*self.parsed.rows, *columns)]
        return columns[-1][1] if list(order) == [*names[:-2], names[-1], names[-2]] else 0

    @property
    def folding(self) -> Folding | None:
        """How nibbles become words before they are moved, where that is quicker."""
        return plan_folding(self.parsed) if self.packing == NIBBLES_LOW and not self.split else None

    def pack_matrices(self, matrices: Bytes) -> Bytes:
        """Bytes [batch, records, bytes of a record] of stored codes [batch, rows, columns]."""
        if self.split:
            records = self.parsed.records(*matrices.shape[1:])
            return pack_split_nibbles(np.ascontiguousarray(matrices).reshape(-1), self.split).reshape(len(matrices), records, -1)
        if self.folding is not None:
            return _each(self.folding.pack, matrices)
        return pack_items(_each(self.parsed.arrange, matrices), self.packing)

    def unpack_matrices(self, data: Bytes, rows: int, columns: int) -> Bytes:
        """Stored codes [batch, rows, columns]; inverts `pack_matrices`."""
        if self.split:
            return unpack_split_nibbles(np.ascontiguousarray(data).reshape(-1), self.split).reshape(len(data), rows, columns)
        folding = self.folding
        if folding is not None:
            return _each(lambda line: folding.unpack(line, rows, columns), data)
        return _each(lambda line: self.parsed.restore(line, rows, columns), unpack_items(data, self.packing))

    def store(self, codes: Bytes, layout: str) -> Bytes:
        """Stored codes of logical ones."""
        if self.stored is None:
            return codes
        table = np.array(self.stored, np.int16)
        found = table[codes]
        if (found < 0).any():
            code = int(codes[found < 0].flat[0])
            raise ValueError(f"{layout} cannot hold the {self.part} code {code:#04x}; it has no stored form there")
        return found.astype(np.uint8)

    def load(self, codes: Bytes) -> Bytes:
        """Logical codes of stored ones; stored codes that mean nothing become 0."""
        if self.stored is None:
            return codes
        table = np.zeros(1 << self.packing.width, np.uint8)
        # From the last to the first, so that the lowest logical code wins.
        for logical in range(len(self.stored) - 1, -1, -1):
            if self.stored[logical] >= 0:
                table[self.stored[logical]] = logical
        return table[codes]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A named way to store a matrix, or a matrix of codes together with its scales."""

    name: str
    #: Other names under which the very same map is known.
    aliases: tuple[str, ...] = ()
    summary: str
    fields: tuple[Field, ...]
    #: Rows and columns (of the first field's items) are rounded up to multiples of these where padding is allowed.
    pad_to: tuple[int, int] | None = None
    padding: Padding = Padding.REFUSED
    #: What `pack` writes as the code of padding items.
    fill: int = 0
    #: What lies in bits that hold no code at all; None: they are undefined.
    gap: int | None = None
    #: The matrix is stored as one row, so that rows may begin within a byte.
    flat: bool = False
    #: A row ends with the word of so many bytes that holds its last item; 0: with a whole group of the packing.
    word: int = 0
    source: str
    evidence: Evidence
    users: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def main(self) -> Field:
        """The field whose shape is the layout's shape: the codes of a block layout, else the only one."""
        return self.fields[-1]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What `pack` takes and `unpack` returns, in order."""
        return tuple(f.part for f in self.fields)

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Rows and columns are multiples of these, after padding."""
        field = self.main
        columns = np.lcm(field.parsed.column_tile, 1)
        # A group of the packing that runs along the columns must be whole within a row or record.
        if field.parsed.order[-1] == field.parsed.columns[-1][0] and field.parsed.columns[-1][1] == 0:
            columns = np.lcm(columns, field.packing.codes)
        for other in self.fields[:-1]:
            columns = np.lcm(columns, other.parsed.column_tile * other.covers)
        return field.parsed.row_tile, int(columns)

    def pad_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """The stored shape.

        Raises ValueError where the layout does not pad and the shape is not a whole number of tiles.
        """
        rows, columns = self.pad_to or self.tile
        padded = (-(-shape[0] // rows) * rows, -(-shape[1] // columns) * columns)
        if self.padding is Padding.REFUSED and padded != tuple(shape):
            raise ValueError(
                f"{shape[0]} x {shape[1]} {self.main.part} do not fit the {rows} x {columns} tiles of {self.name}, which "
                f"does not pad; pad to {padded[0]} x {padded[1]} first"
            )
        return padded

    def size(self, shape: tuple[int, ...]) -> int:
        """Bytes that a matrix of this shape takes; leading axes are stored one after the other."""
        batch, matrix = self._split_shape(_check_shape(shape))
        rows, columns = self.pad_shape(matrix)
        if self.word:
            return batch * rows * self._row_size(matrix[1])
        return batch * sum(
            rows * columns // f.covers // f.packing.codes * f.packing.size for f in self.fields
        )  # fmt: skip

    def pack(self, *parts: npt.ArrayLike) -> Bytes:
        """The bytes, as a flat uint8 array, of one uint8 array for each of `parts`.

        Codes lie in the low bits; the last two axes are rows and columns, axes before them are stored one after the other.
        Raises TypeError or ValueError on a wrong number of arrays, dtype, shape, or a code with too many bits.
        """
        arrays = self._check_parts(parts)
        main = arrays[-1]
        batch, matrix = self._split_shape(main.shape)
        padded = self.pad_shape(matrix)
        if main.size == 0:
            return np.empty(0, np.uint8)
        records = []
        for field, array in zip(self.fields, arrays, strict=True):
            stored = field.store(array.reshape(batch, *self._item_shape(field, matrix)), self.name)
            wanted = self._item_shape(field, padded)
            if stored.shape[1:] != wanted:
                whole = np.full((batch, *wanted), self.fill, np.uint8)
                whole[:, : stored.shape[1], : stored.shape[2]] = stored
                stored = whole
            packed = field.pack_matrices(stored)
            records.append(self._fill_gaps(packed, field.packing) if self.gap else packed)
        data = records[0] if len(records) == 1 else np.concatenate(records, axis=-1)
        return self._cut_rows(data, batch * padded[0], matrix[1])

    def unpack(self, data: npt.ArrayLike, shape: tuple[int, ...]) -> tuple[Bytes, ...]:
        """One uint8 array for each of `parts`, the codes in this shape; inverts `pack`.

        Raises ValueError where the number of bytes is not `size(shape)`.
        """
        if isinstance(data, bytes):
            data = np.frombuffer(data, np.uint8)
        flat = np.ascontiguousarray(as_array(data, name="data"))
        if flat.dtype.itemsize != 1 or flat.dtype.kind in "SUO":
            raise TypeError(f"data are {flat.dtype}; pass bytes as uint8, for wider words view them: data.view(numpy.uint8)")
        flat = flat.view(np.uint8).reshape(-1)
        if flat.size != self.size(shape):
            raise ValueError(f"{flat.size} bytes are not the {self.size(shape)} that {self.name} takes for shape {shape}")
        shape = _check_shape(shape)
        batch, matrix = self._split_shape(shape)
        padded = self.pad_shape(matrix)
        wanted = [(*shape[:-1], shape[-1] // field.covers) for field in self.fields]
        if not flat.size:
            return tuple(np.empty(logical, np.uint8) for logical in wanted)
        records = self.main.parsed.records(*padded)
        if self.word:
            kept_bytes = flat.reshape(batch * padded[0], -1)
            missing = padded[1] // self.main.packing.codes * self.main.packing.size - kept_bytes.shape[1]
            flat = np.pad(kept_bytes, ((0, 0), (0, missing)))
        lines = flat.reshape(batch, records, -1)
        found, start = [], 0
        for field, logical in zip(self.fields, wanted, strict=True):
            rows, columns = self._item_shape(field, padded)
            width = rows * columns // field.packing.codes * field.packing.size // records
            items = field.unpack_matrices(lines[..., start : start + width], rows, columns)
            start += width
            kept = self._item_shape(field, matrix)
            found.append(field.load(np.ascontiguousarray(items[:, : kept[0], : kept[1]])).reshape(logical))
        return tuple(found)

    def mask(self, shape: tuple[int, ...], *, items_only: bool = False) -> Bytes:
        """Which bits of the packed bytes mean something: 0 bits are padding or gaps of undefined content.

        items_only: leave out padding and gaps that are specified, too.
        """
        batch, matrix = self._split_shape(_check_shape(shape))
        padded = self.pad_shape(matrix)
        records = []
        for field in self.fields:
            every = np.uint8((1 << field.packing.width) - 1)
            whole = np.full(self._item_shape(field, padded), every)
            if self.padding is Padding.UNSPECIFIED or items_only:
                rows, columns = self._item_shape(field, matrix)
                whole[rows:], whole[:, columns:] = 0, 0
            packed = field.packing.pack(field.parsed.arrange(whole))
            if self.gap is not None and not items_only:
                packed = packed.reshape(-1, field.packing.size) | ~np.array(field.packing.used, np.uint8)
            records.append(packed.reshape(self.main.parsed.records(*padded), -1))
        return np.tile(self._cut_rows(np.concatenate(records, axis=-1), padded[0], matrix[1]), batch)

    def locate(self, m: Any, k: Any, shape: tuple[int, ...], *, part: Part | None = None, b: Any = 0) -> tuple[Any, Any]:
        """Byte and bit of bit `b` of the code of item (m, k), by the documented formula.

        m, k and b are integers of any size, or int64 arrays. For scales, k counts scales.
        """
        field = next((f for f in self.fields if part in (None, f.part) and (part or f is self.main)), None)
        if field is None:
            raise ValueError(f"{self.name} holds no {part}; it holds {' and '.join(self.parts)}")
        shape = _check_shape(shape)
        self._split_shape(shape)
        for name, at, count in (("m", m, shape[-2]), ("k", k, shape[-1] // field.covers)):
            if isinstance(at, (bool, np.bool_)) or not (isinstance(at, int) or np.asarray(at).dtype.kind in "iu"):
                raise TypeError(f"{name} is {at!r}, a {type(at).__name__}; pass an integer, or an array of integers")
            if np.size(at) and not (np.min(at) >= 0 and np.max(at) < count):
                raise ValueError(f"{name} = {at} lies outside {field.part} of shape {shape}; {name} is 0 to {count - 1}")
        sizes = {"rows": shape[-2], "columns": shape[-1] // field.covers}
        first = field.byte.evaluate(m=m, k=k, b=b, **sizes)
        bit = field.bit.evaluate(m=m, k=k, b=b, **sizes)
        place = 8 * first + bit + (0 if "b" in field.bit.names else b)
        return place // 8, place % 8

    def _row_size(self, columns: int) -> int:
        """Bytes of a row, where rows end with a word."""
        return -(-columns * self.main.packing.width // (8 * self.word)) * self.word

    def _cut_rows(self, data: Bytes, rows: int, columns: int) -> Bytes:
        """Flat bytes, without what follows the last word of a row."""
        return (data.reshape(rows, -1)[:, : self._row_size(columns)] if self.word else data).reshape(-1)

    def _fill_gaps(self, packed: Bytes, packing: Packing) -> Bytes:
        gaps = ~np.array(packing.used, np.uint8) & np.uint8(self.gap or 0)
        return (packed.reshape(-1, packing.size) | gaps).reshape(packed.shape)

    def _split_shape(self, shape: tuple[int, ...]) -> tuple[int, tuple[int, int]]:
        if len(shape) < 2:
            raise ValueError(f"shape {shape} has {len(shape)} axes; {self.name} stores rows and columns: give at least two")
        if self.flat:
            return 1, (1, int(np.prod(shape, dtype=np.int64)))
        return int(np.prod(shape[:-2], dtype=np.int64)), (shape[-2], shape[-1])

    def _item_shape(self, field: Field, matrix: tuple[int, int]) -> tuple[int, int]:
        return matrix[0], matrix[1] // field.covers

    def _check_parts(self, parts: tuple[npt.ArrayLike, ...]) -> list[Bytes]:
        if len(parts) != len(self.fields):
            raise TypeError(f"{self.name} stores {', '.join(self.parts)}; {len(parts)} arrays were given")
        arrays = [as_array(p, name=field.part) for field, p in zip(self.fields, parts, strict=True)]
        for field, array in zip(self.fields, arrays, strict=True):
            if array.dtype != np.uint8:
                raise TypeError(f"{field.part} are {array.dtype}; {self.name} takes uint8, one code in the low bits of each")
            limit = len(field.stored) if field.stored is not None else 1 << field.packing.width
            if limit < 256 and array.size and int(array.max()) >= limit:
                raise ValueError(f"{field.part} hold {int(array.max()):#04x}; {self.name} stores codes below {limit:#x}")
            wanted = (*arrays[-1].shape[:-1], arrays[-1].shape[-1] // field.covers)
            if array.shape != wanted or arrays[-1].shape[-1] % field.covers:
                raise ValueError(
                    f"{field.part} have shape {array.shape}; for codes of shape {arrays[-1].shape} {self.name} needs one for each {field.covers} columns"
                )
        return arrays


def _check_shape(shape: object) -> tuple[int, ...]:
    """A shape as a tuple of integers.

    Raises TypeError for something else, and ValueError for negative lengths.
    """
    try:
        lengths = tuple(index(n) for n in shape)  # type: ignore[attr-defined]  # what is no shape is refused in words
    except TypeError:
        raise TypeError(f"shape is {shape!r}; pass a tuple of integers, rows and columns last") from None
    if any(n < 0 for n in lengths):
        raise ValueError(f"shape {lengths} has a negative length; nothing is deduced, pass all lengths")
    return lengths


def _each(move: Callable[[Bytes], Bytes], batch: Bytes) -> Bytes:
    """`move` of each matrix of a batch; a batch of one, the usual case, is not copied again."""
    return move(batch[0])[None] if len(batch) == 1 else np.stack([move(matrix) for matrix in batch])


def make_registry(layouts: tuple[Layout, ...]) -> Mapping[str, Layout]:
    """Layouts by name and alias.

    Raises ValueError where a name is taken twice.
    """
    found: dict[str, Layout] = {}
    for layout in layouts:
        for name in (layout.name, *layout.aliases):
            if name in found:
                raise ValueError(f"two layouts are named {name!r}")
            found[name] = layout
    return found
