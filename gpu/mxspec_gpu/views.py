"""What an array's shape and strides say: which matrix of rows it is, whether it must be copied, how launches cut it.

Pure functions of integers; strides are in elements. Nothing here knows of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

#: Rows and columns of a tile of scales, and its bytes.
TILE_ROWS, TILE_COLUMNS, TILE_BYTES = 128, 4, 512


@dataclass(frozen=True, slots=True)
class Matrix:
    """Element (row, column) lies `row * row_stride + column * column_stride` elements from the first."""

    rows: int
    columns: int
    row_stride: int
    column_stride: int

    @property
    def packed(self) -> bool:
        """Whether the elements follow one another without gaps, row by row."""
        return (self.columns == 1 or self.column_stride == 1) and (self.rows == 1 or self.row_stride == self.columns)


def find_matrix(shape: Sequence[int], strides: Sequence[int], axis: int) -> Matrix | None:
    """The array with `axis` as columns and all other axes, in order, as rows. None where no one stride leads from each row
    to the next: then only a copy is a matrix. No axis is empty."""
    kept = [(n, stride) for i, (n, stride) in enumerate(zip(shape, strides, strict=True)) if i != axis and n != 1]
    for (_, outer), (n, inner) in pairwise(kept):
        if outer != n * inner:
            return None
    return Matrix(prod(n for n, _ in kept), shape[axis], kept[-1][1] if kept else 0, strides[axis])


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements follow one another without gaps, the last axis fastest."""
    if 0 in shape:
        return True
    step = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def find_extent(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The least element that a view touches and the one after its last, counted from its first; (0, 0) of an empty one."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + 1


def count_tiles(columns: int) -> int:
    """Adjacent tiles for this many columns of scales."""
    return -(-columns // TILE_COLUMNS)


def pad_column(rows: int) -> int:
    """From a column of column-major scales to the next: whole 16 bytes, as DeepGEMM's `get_mn_major_tma_aligned_tensor` has them."""
    return -(-rows // 4) * 4


def tiled_bytes(rows: int, columns: int) -> int:
    """Bytes of a matrix of scales in tiles, padding included."""
    return -(-rows // TILE_ROWS) * count_tiles(columns) * TILE_BYTES


@dataclass(frozen=True, slots=True)
class Launch:
    """A run of whole blocks for one launch. With tiled scales it is whole rows, and its first row is row 0 of a tile as seen
    from `scale_offset`."""

    first_block: int
    blocks: int
    rows: int
    #: Of the launch's first scale, in bytes.
    scale_offset: int


def split_launches(rows: int, blocks_of_row: int, most: int, *, tiled: int, scale_bytes: int = 1) -> Iterator[Launch]:
    """Launches of at most `most` blocks each, which together are the matrix; tiled: of `arguments.find_layout`.

    Raises ValueError for a row that is longer whose scales do not follow one another: it cannot be cut.
    """
    total = rows * blocks_of_row
    if not tiled:
        for first in range(0, total, most):
            yield Launch(first, min(most, total - first), rows, first * scale_bytes)
        return
    if blocks_of_row > most:
        layout = "128x4" if tiled == 1 else "column-major"
        raise ValueError(f"rows have {blocks_of_row} blocks; in scale_layout='{layout}' at most {most} can be done, pass 'row-major'")
    # All rows, or whole tiles of rows, or where not even 128 rows fit, one row at a time.
    step = rows if total <= most else most // blocks_of_row // TILE_ROWS * TILE_ROWS or 1
    for row in range(0, rows, step):
        tile_row, in_tile = divmod(row, TILE_ROWS)
        in_tiles = tile_row * count_tiles(blocks_of_row) * TILE_BYTES + in_tile % 32 * 16 + in_tile // 32 * 4
        offset = in_tiles if tiled == 1 else row * scale_bytes
        count = min(step, rows - row)
        yield Launch(row * blocks_of_row, count * blocks_of_row, count, offset)
