"""Layouts: which byte and bit of a buffer holds which code or scale. Pure index maps on uint8 arrays.

>>> import numpy as np
>>> from mxspec import layouts
>>> layouts.pack(np.arange(16, dtype=np.uint8)[None], "nibble-low").tobytes().hex()
'1032547698badcfe'
>>> layouts.get_layout("128x4").locate(200, 3, (300, 5))
(1163, 0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mxspec.inputs import as_array
from mxspec.layouts.catalogue import ALL
from mxspec.layouts.packing import Bytes
from mxspec.layouts.schema import Evidence, Field, Layout, Padding, Part, make_registry
from mxspec.suggestions import refuse_name

__all__ = [
    "Evidence", "Field", "Layout", "Padding", "Part", "get_layout", "list_layouts", "pack", "pack_blocks", "pack_groups",
    "unpack", "unpack_blocks", "unpack_groups",
]  # fmt: skip


@lru_cache(maxsize=1)
def _registry() -> Mapping[str, Layout]:
    return make_registry(ALL)


def list_layouts() -> tuple[Layout, ...]:
    """All layouts, by family."""
    return ALL


def get_layout(layout: str | Layout) -> Layout:
    """The layout of this name or alias.

    Raises ValueError, listing the names, when there is none.
    """
    if isinstance(layout, Layout):
        return layout
    if not isinstance(layout, str) or layout not in _registry():
        raise refuse_name(layout, f"unknown layout {layout!r}; known are {', '.join(x.name for x in ALL)}", _registry())
    return _registry()[layout]


def pack(items: npt.ArrayLike, layout: str | Layout) -> Bytes:
    """The bytes of codes (or scales, metadata ...) in a layout, as a flat uint8 array.

    items: uint8, one code in the low bits of each; the last two axes are rows and columns, axes before them are stored one
    after the other. Raises TypeError or ValueError on a wrong dtype, shape, or a code with too many bits.
    """
    chosen = get_layout(layout)
    if len(chosen.fields) > 1:
        raise TypeError(f"{chosen.name} stores {' and '.join(chosen.parts)} together; use pack_blocks(codes, scales, layout)")
    return chosen.pack(items)


def unpack(data: npt.ArrayLike, layout: str | Layout, shape: tuple[int, ...]) -> Bytes:
    """The codes (or scales, metadata ...) of this shape that `data` hold; inverts `pack`.

    Raises ValueError where the number of bytes is not that of the shape.
    """
    chosen = get_layout(layout)
    if len(chosen.fields) > 1:
        raise TypeError(f"{chosen.name} holds {' and '.join(chosen.parts)}; use unpack_blocks(data, layout, shape)")
    return chosen.unpack(data, shape)[0]


def pack_blocks(codes: npt.ArrayLike, scales: npt.ArrayLike, layout: str | Layout) -> Bytes:
    """The bytes of codes and their block scales in a layout that stores them together, such as `ggml-mxfp4`."""
    chosen = get_layout(layout)
    if len(chosen.fields) != 2:
        raise TypeError(f"{chosen.name} stores {chosen.parts[0]} alone; use pack(items, layout)")
    return chosen.pack(scales, codes)


def unpack_blocks(data: npt.ArrayLike, layout: str | Layout, shape: tuple[int, ...]) -> tuple[Bytes, Bytes]:
    """Codes of this shape, and their scales; inverts `pack_blocks`."""
    chosen = get_layout(layout)
    if len(chosen.fields) != 2:
        raise TypeError(f"{chosen.name} holds {chosen.parts[0]} alone; use unpack(data, layout, shape)")
    scales, codes = chosen.unpack(data, shape)
    return codes, scales


def pack_groups(matrix: npt.ArrayLike, layout: str | Layout, rows: Sequence[int]) -> Bytes:
    """Ragged groups (the rows of experts): each group of `rows` packed, and padded, by itself, one after the other.

    Raises ValueError where the groups do not add up to the matrix.
    """
    array = as_array(matrix, name="matrix")
    if array.ndim < 2:
        raise ValueError(f"the matrix has shape {array.shape}; pass rows and columns")
    _check_groups(rows)
    if sum(rows) != array.shape[0]:
        raise ValueError(f"groups of {list(rows)} rows make {sum(rows)}; the matrix has {array.shape[0]}")
    starts = np.cumsum([0, *rows])
    found = [get_layout(layout).pack(array[a:b]) for a, b in pairwise(starts)]
    return np.concatenate(found) if found else np.empty(0, np.uint8)


def unpack_groups(data: npt.ArrayLike, layout: str | Layout, rows: Sequence[int], columns: int) -> Bytes:
    """The matrix whose groups of rows were packed by `pack_groups`."""
    chosen, flat = get_layout(layout), as_array(data, name="data").reshape(-1)
    _check_groups(rows)
    found, start = [], 0
    for count in rows:
        size = chosen.size((count, columns))
        found.append(chosen.unpack(flat[start : start + size], (count, columns))[-1])
        start += size
    if start != flat.size:
        raise ValueError(f"groups of {list(rows)} rows take {start} bytes; {flat.size} were given")
    return np.concatenate(found) if found else np.empty((0, columns), np.uint8)


def _check_groups(rows: Sequence[int]) -> None:
    if any(isinstance(count, bool) or not hasattr(count, "__index__") for count in rows):
        raise TypeError(f"groups of {list(rows)} rows; pass integers")
    if any(count < 0 for count in rows):
        raise ValueError(f"groups of {list(rows)} rows; a group has none or more")
