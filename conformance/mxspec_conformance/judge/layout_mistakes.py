"""Ways in which bytes go to the wrong place, so that a wrong buffer can be named: other layouts, and mistakes within one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mxspec.layouts import Layout, list_layouts
from mxspec.layouts.packing import NIBBLES_LOW, SIX_BITS, Bytes, Packing
from mxspec.layouts.schema import Padding
from mxspec_conformance.judge.explanation import Cause, Explanation, Mistake


@dataclass(frozen=True, slots=True)
class LayoutMistake:
    """A mistake made within a layout."""

    #: What the bytes look like.
    what: Mistake
    #: (layout, its parts, the right bytes) -> the wrong bytes, or None where it cannot happen.
    make: Callable[[Layout, tuple[Bytes, ...], Bytes], Bytes | None]
    #: The layout that is taken for the asked one, where the mistake is one: whoever reads can make it, too.
    meant: Callable[[Layout], Layout | None] | None = None
    #: (layout, bytes, shape of the items) -> the bytes that are read instead; None where it cannot happen.
    read: Callable[[Layout, Bytes, tuple[int, ...]], Bytes | None] | None = None


def _swap_nibbles(layout: Layout, parts: tuple[Bytes, ...], right: Bytes) -> Bytes | None:
    four = np.uint8(4)
    return right << four | right >> four if layout.main.packing.width == 4 and len(parts) == 1 else None


def _swap_words(_: Layout, __: tuple[Bytes, ...], right: Bytes) -> Bytes | None:
    return right.view("<u4").byteswap().view(np.uint8) if right.size % 4 == 0 else None


def _transpose(layout: Layout, parts: tuple[Bytes, ...], _: Bytes) -> Bytes | None:
    return layout.pack(np.ascontiguousarray(parts[0].swapaxes(-1, -2))) if len(parts) == 1 else None


def _drop_padding(layout: Layout, parts: tuple[Bytes, ...], right: Bytes) -> Bytes | None:
    bits = sum(p.size * f.packing.width for p, f in zip(parts, layout.fields, strict=True))
    return right[: bits // 8] if bits // 8 < right.size else None


def _put_scales_last(layout: Layout, parts: tuple[Bytes, ...], right: Bytes) -> Bytes | None:
    if len(parts) != 2:
        return None
    records = layout.main.parsed.records(parts[1].size // parts[1].shape[-1], parts[1].shape[-1])
    lines = right.reshape(records, -1)
    first = parts[0].size // records
    return np.concatenate([lines[:, first:], lines[:, :first]], axis=1).reshape(-1)


def _repack(what: Mistake, packing: Packing, pattern: str | None = None, *, only: str | None = None) -> LayoutMistake:
    def meant(layout: Layout) -> Layout | None:
        main = layout.main
        if main.packing.width != packing.width or (only is not None and main.pattern != only):
            return None
        field = replace(main, packing=packing, pattern=pattern or main.pattern)
        return replace(layout, fields=(*layout.fields[:-1], field))

    return _mistake_for(what, meant)


def _mistake_for(what: Mistake, meant: Callable[[Layout], Layout | None]) -> LayoutMistake:
    """The mistake of whoever takes a layout for the asked one."""

    def make(layout: Layout, parts: tuple[Bytes, ...], _: Bytes) -> Bytes | None:
        other = meant(layout)
        return None if other is None else other.pack(*parts)

    return LayoutMistake(what, make, meant)


def _store_plainly(layout: Layout) -> Layout | None:
    if all(f.stored is None for f in layout.fields):
        return None
    return replace(layout, fields=tuple(replace(f, stored=None) for f in layout.fields))


def _order_rows_in_tiles(layout: Layout, parts: tuple[Bytes, ...], _: Bytes) -> Bytes | None:
    rows, columns = layout.tile
    if len(parts) != 1 or rows == 1 or layout.main.packing.width != 8:
        return None
    plain = replace(layout.main, pattern=f"(M r:{rows}) (C c:{columns}) -> M C r c")
    return replace(layout, fields=(plain,)).pack(*parts)


def _order_tiles_by_columns(layout: Layout, parts: tuple[Bytes, ...], right: Bytes) -> Bytes | None:
    rows, columns = layout.tile
    if len(parts) != 1 or rows * columns == 1 or parts[0].ndim != 2:
        return None
    high, wide = layout.pad_shape((parts[0].shape[0], parts[0].shape[1]))
    tiles = right.reshape(high // rows, wide // columns, -1) if right.size % (high // rows * (wide // columns)) == 0 else None
    return None if tiles is None else np.ascontiguousarray(tiles.swapaxes(0, 1)).reshape(-1)


def _number_unpadded(layout: Layout, parts: tuple[Bytes, ...], _: Bytes) -> Bytes | None:
    """The running number of a scale counts by the width before padding, and is taken apart by the padded one."""
    if len(parts) != 1 or parts[0].ndim != 2 or layout.main.packing.width != 8:
        return None
    shape = layout.pad_shape((parts[0].shape[0], parts[0].shape[1]))
    if shape[1] == parts[0].shape[1]:
        return None
    held = np.zeros(shape, np.uint8)
    held.reshape(-1)[: parts[0].size] = parts[0].reshape(-1)
    return layout.pack(held)


def _place_by_whole_tiles(layout: Layout, shape: tuple[int, ...]) -> npt.NDArray[np.intp] | None:
    """Where the bytes of one matrix lie if its row of tiles is as long as the whole tiles in it; None where no tile is cut."""
    tile = layout.tile[0] * layout.tile[1]
    if len(layout.fields) > 1 or tile == 1 or layout.main.packing.width != 8:
        return None
    high, wide = layout.pad_shape((shape[-2], shape[-1]))
    across, whole = wide // layout.tile[1], max(shape[-1] // layout.tile[1], 1)
    byte = np.arange(high * wide)
    return byte - byte // (tile * across) * (across - whole) * tile if whole < across else None


def _write_by_whole_tiles(layout: Layout, parts: tuple[Bytes, ...], right: Bytes) -> Bytes | None:
    """What lies in the cut tile is written where the next row of tiles begins, which is written later."""
    place = _place_by_whole_tiles(layout, parts[0].shape)
    if place is None:
        return None
    out = np.zeros_like(right).reshape(-1, place.size)
    used = layout.mask(parts[0].shape, items_only=True).reshape(out.shape) != 0
    for line, data, items in zip(out, right.reshape(out.shape), used, strict=True):
        line[place[items]] = data[items]
    return out.reshape(-1)


def _read_by_whole_tiles(layout: Layout, data: Bytes, shape: tuple[int, ...]) -> Bytes | None:
    place = _place_by_whole_tiles(layout, shape)
    return None if place is None else data.reshape(-1, place.size)[:, place].reshape(-1)


def _leave_cut_tiles_out(layout: Layout, parts: tuple[Bytes, ...], right: Bytes) -> Bytes | None:
    whole = parts[0].shape[-1] // layout.tile[1] * layout.tile[1]
    return None if _place_by_whole_tiles(layout, parts[0].shape) is None or not whole else layout.pack(parts[0][..., :whole])


#: Six-bit codes from the top of three big-endian bytes down.
_SIX_FROM_TOP = Packing(
    "6-bit, highest bit first", 6, 4, 3, tuple(8 * ((23 - q) // 8) + q % 8 for i in range(4) for q in range(18 - 6 * i, 24 - 6 * i))
)

MISTAKES = (
    LayoutMistake(Mistake.NIBBLES_SWAPPED, _swap_nibbles),
    _repack(Mistake.NEIGHBOURS_SHARED, NIBBLES_LOW, "M (B j:32) -> M B | j", only="M (B h:2 j:16) -> M B | j h"),
    _repack(Mistake.NEIGHBOURS_SHARED, NIBBLES_LOW, "M (B s:4 j:16) -> M B | s j", only="M (B s:4 h:2 j:8) -> M B | s j h"),
    _repack(Mistake.AWQ_ORDER, NIBBLES_LOW, "M (K j:4 h:2) -> M K h j", only="M K -> M K"),
    _repack(Mistake.PLAIN_ORDER, NIBBLES_LOW, "(N j:4 h:2) K -> K N j h", only="(N j:4 h:2) K -> K N h j"),
    _repack(Mistake.HALVES_OF_16, NIBBLES_LOW, "M (K h:2 j:16) -> M K j h", only="M K -> M K"),
    _repack(Mistake.HALVES_OF_8, NIBBLES_LOW, "M (K h:2 j:8) -> M K j h", only="M K -> M K"),
    _repack(Mistake.HIGHEST_BIT_FIRST, _SIX_FROM_TOP),
    _repack(Mistake.LOWEST_BIT_FIRST, SIX_BITS),
    LayoutMistake(Mistake.SCALE_LAST, _put_scales_last),
    _mistake_for(Mistake.STORED_PLAINLY, _store_plainly),
    LayoutMistake(Mistake.PADDING_CUT, _drop_padding),
    LayoutMistake(Mistake.ROWS_IN_ORDER, _order_rows_in_tiles),
    LayoutMistake(Mistake.TILES_BY_COLUMN, _order_tiles_by_columns),
    LayoutMistake(Mistake.UNPADDED_WIDTH, _number_unpadded),
    LayoutMistake(Mistake.TILES_ROUNDED_DOWN, _write_by_whole_tiles, read=_read_by_whole_tiles),
    LayoutMistake(Mistake.TILES_ROUNDED_DOWN, _leave_cut_tiles_out),
    LayoutMistake(Mistake.TRANSPOSED, _transpose),
    LayoutMistake(Mistake.BIG_ENDIAN, _swap_words),
)  # fmt: skip


def name_bytes(layout: Layout, parts: tuple[Bytes, ...], right: Bytes, returned: Bytes) -> list[Explanation]:
    """What the returned bytes equal: other layouts, then mistakes. Padding that a layout leaves open is not compared."""
    names = []
    for other, data, mask in list_alternatives(layout, parts, right):
        if data.shape == returned.shape and not ((data ^ returned) & mask).any():
            names.append(other)
    return names


def name_items(layout: Layout, data: Bytes, shape: tuple[int, ...], returned: tuple[Bytes, ...]) -> list[Explanation]:
    """As what the bytes were read: as other layouts, of which a smaller one takes the first bytes, or with a mistake."""
    kind = [f.part for f in layout.fields]
    same = (other for other in list_layouts() if other is not layout and [f.part for f in other.fields] == kind)
    others = [(other, Explanation(Cause.LAYOUT, other.name), data) for other in same]
    for mistake in MISTAKES:
        meant = None if mistake.meant is None else mistake.meant(layout)
        if meant is not None and meant.fields != layout.fields:
            others.append((meant, Explanation(Cause.LAYOUT_MISTAKE, mistake=mistake.what), data))
        if mistake.read is not None and (seen := mistake.read(layout, data, shape)) is not None:
            others.append((layout, Explanation(Cause.LAYOUT_MISTAKE, mistake=mistake.what), seen))
    names = []
    for other, explanation, seen in others:
        try:
            read = other.unpack(seen[: other.mask(shape).size], shape)
        except (ValueError, TypeError):
            continue
        if len(read) == len(returned) and all(np.array_equal(a, b) for a, b in zip(read, returned, strict=True)):
            names.append(explanation)
    return names


def list_alternatives(layout: Layout, parts: tuple[Bytes, ...], right: Bytes) -> Iterator[tuple[Explanation, Bytes, Bytes]]:
    """Other layouts and mistakes: what they are, the bytes, and the bits of them that hold something."""
    shape = parts[-1].shape
    for other in _same_kind(layout):
        try:
            data = other.pack(*parts)
        except ValueError:  # the shape does not fit, or a code has no stored form
            continue
        yield Explanation(Cause.LAYOUT, other.name), data, other.mask(shape)
    for mistake in MISTAKES:
        try:
            made = mistake.make(layout, parts, right)
        except ValueError:
            continue
        if made is not None and not np.array_equal(made, right):
            yield Explanation(Cause.LAYOUT_MISTAKE, mistake=mistake.what), made, np.full(made.shape, 0xFF, np.uint8)


@lru_cache(maxsize=128)
def _same_kind(layout: Layout) -> tuple[Layout, ...]:
    """Other layouts of the same parts and widths; of two that differ in padding alone the stricter one goes unnamed."""
    kind = [(f.part, f.packing.width) for f in layout.fields]
    found = []
    for other in list_layouts():
        same_map = [f.pattern for f in other.fields] == [f.pattern for f in layout.fields] and other.tile == layout.tile
        if other is layout or [(f.part, f.packing.width) for f in other.fields] != kind:
            continue
        if same_map and other.padding is not layout.padding and other.padding is Padding.UNSPECIFIED:
            continue
        found.append(other)
    return tuple(found)
