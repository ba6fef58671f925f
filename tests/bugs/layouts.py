"""Targets that return or take packed codes and swizzled scales, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import BLOCKS

from tests.bugs.building import Answer, Array, by_amax, make, right
from tests.bugs.entry import Entry, Kind

FORMATS = ("mxfp4", "nvfp4")


def low_nibble_first(codes: Array) -> Array:
    packed: Array = codes[:, ::2] | codes[:, 1::2] << 4
    return packed


def high_nibble_first(codes: Array) -> Array:
    packed: Array = codes[:, 1::2] | codes[:, ::2] << 4
    return packed


def in_tiles(scales: Array, order: tuple[int, ...] = (0, 3, 2, 1, 4)) -> Array:
    """Scales in tiles of 128 x 4, [bytes]."""
    rows, columns = -(-scales.shape[0] // 128), -(-scales.shape[1] // 4)
    padded = np.zeros((rows * 128, columns * 4), np.uint8)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    return np.ascontiguousarray(padded.reshape(rows, 4, 32, columns, 4).transpose(order)).reshape(-1)


def in_padded_tiles(scales: Array) -> Array:
    """The same bytes, as rows and columns of the padded matrix."""
    return in_tiles(scales).reshape(-(-scales.shape[0] // 128) * 128, -1)


def tiles_by_column(scales: Array) -> Array:
    """Tiles lie column by column, their rows in order of groups of 32."""
    return in_tiles(scales, (3, 0, 2, 1, 4))


def unchanged(a: Array) -> Array:
    return a


def packing(codes: Callable[[Array], Array], scales: Callable[[Array], Array]) -> Callable[[Array, str], Answer]:
    """`quantize` with its answer in another layout."""

    def quantize(x: Array, fmt: str) -> Answer:
        answer = right(x, fmt)
        return codes(answer[0]), scales(answer[1])

    return quantize


def read_low_nibble_first(data: Array) -> Array:
    return np.stack([data & 15, data >> 4], axis=-1).reshape(len(data), -1)


def read_high_nibble_first(data: Array) -> Array:
    return np.stack([data >> 4, data & 15], axis=-1).reshape(len(data), -1)


def read_tiles(data: Array, rows: int, columns: int) -> Array:
    """Scales [rows, columns] from tiles of 128 x 4; their padding must be zero."""
    tiles = -(-rows // 128), -(-columns // 4)
    assert data.size == 512 * tiles[0] * tiles[1]
    whole = data.reshape(*tiles, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(tiles[0] * 128, tiles[1] * 4)
    assert not whole[rows:].any(), "padding is zero"
    assert not whole[:, columns:].any(), "padding is zero"
    return np.ascontiguousarray(whole[:rows, :columns])


def unpacking(layout: tuple[str, ...], read_codes: Callable[[Array], Array] = unchanged) -> SimpleNamespace:
    """A target whose `dequantize` takes what is laid out so, and checks that it is."""

    def dequantize(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
        assert codes.dtype == scales.dtype == np.uint8
        assert "nibble-low" in layout or codes.max(initial=0) < 16
        codes = read_codes(codes)
        shape = len(codes), codes.shape[1] // BLOCKS[fmt].k
        if "128x4" in layout:
            scales = read_tiles(scales, *shape)
        assert scales.shape == shape
        scale = None if tensor_scale is None else by_amax(tensor_scale)
        return mxspec.dequantize(codes, scales, fmt, tensor_scale=scale)

    return make(FORMATS, LAYOUT=list(layout), TENSOR_SCALE="amax", dequantize=dequantize)


def _packed(
    id_: str, what: str, layout: tuple[str, ...], quantize: Callable[[Array, str], Answer], *must: str,
    formats: tuple[str, ...] = ("mxfp4",),
) -> Entry:  # fmt: skip
    return Entry(
        id=id_, what=what, formats=formats, target=lambda: make(formats, LAYOUT=list(layout), quantize=quantize),
        kind=Kind.BUG if must else Kind.UNUSUAL, must_fail=must,
    )  # fmt: skip


def _unpacked(id_: str, what: str, layout: tuple[str, ...], read_codes: Any = unchanged, *must: str) -> Entry:
    return Entry(
        id=id_, what=what, formats=FORMATS, target=lambda: unpacking(layout, read_codes),
        kind=Kind.BUG if must else Kind.UNUSUAL, must_fail=must,
    )  # fmt: skip


NIBBLES, TILES, BOTH = ("nibble-low",), ("128x4",), ("nibble-low", "128x4")

ENTRIES: tuple[Entry, ...] = (
    _packed("codes two to a byte", "quantize returns nibbles", NIBBLES, packing(low_nibble_first, unchanged), formats=FORMATS),
    _packed("scales in tiles", "quantize returns swizzled scales", TILES, packing(unchanged, in_tiles), formats=FORMATS),
    _packed("nibbles and tiles", "quantize returns nibbles, and swizzled scales as a matrix", BOTH, packing(low_nibble_first, in_padded_tiles), formats=FORMATS),
    _unpacked("dequantize of nibbles", "dequantize takes nibbles", NIBBLES, read_low_nibble_first),
    _unpacked("dequantize of tiles", "dequantize takes swizzled scales", TILES),
    _unpacked("dequantize of nibbles and tiles", "dequantize takes nibbles and swizzled scales", BOTH, read_low_nibble_first),
    _packed("tiles of swizzled scales in the wrong order", "tiles lie column by column", BOTH, packing(low_nibble_first, tiles_by_column), "quantize/call-size"),
    _packed("nibbles the wrong way round", "the even code is in the high nibble", NIBBLES, packing(high_nibble_first, unchanged), "quantize/above-tie,below-tie,choice,exact,inf,mixture,overflow,subnormal,tie-even,zero-sign"),
    _unpacked("dequantize of nibbles the wrong way round", "the high nibble is read first", NIBBLES, read_high_nibble_first, "dequantize/code,scale-code"),
)  # fmt: skip
