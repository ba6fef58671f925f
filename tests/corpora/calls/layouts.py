"""Right packing of codes and swizzling of scales, written from the documents of the layouts."""

from __future__ import annotations

import numpy as np

from tests.corpora.calls.formats import Array

#: Layouts of this set: codes in nibbles, four 6-bit codes in three bytes, NVIDIA's tiles of scales.
CODES = ("nibble-low", "nibble-high", "fp6-le")
SCALES = ("128x4",)


def up_to(n: int, multiple: int) -> int:
    """n rounded up."""
    return -(-n // multiple) * multiple


def pack(codes: Array, layout: str) -> Array:
    """uint8 [rows, bytes of a row] of codes uint8 [rows, k]."""
    if layout == "fp6-le":
        if codes.shape[-1] % 4:
            raise ValueError(f"k = {codes.shape[-1]} is not a multiple of 4")
        a, b, c, d = (codes[..., i::4].astype(np.uint32) for i in range(4))
        word = a | b << 6 | c << 12 | d << 18
        return np.stack([word >> s & 255 for s in (0, 8, 16)], axis=-1).astype(np.uint8).reshape(*codes.shape[:-1], -1)
    if codes.shape[-1] % 2:
        raise ValueError(f"k = {codes.shape[-1]} is odd")
    low, high = codes[..., 0::2], codes[..., 1::2]
    if layout == "nibble-high":
        low, high = high, low
    return np.asarray(low | high << 4, np.uint8)


def unpack(data: Array, layout: str, shape: tuple[int, ...]) -> Array:
    """Inverts `pack`; data is flat."""
    if layout == "fp6-le":
        a, b, c = (data.reshape(-1, 3)[:, i].astype(np.uint32) for i in range(3))
        word = a | b << 8 | c << 16
        return np.stack([word >> s & 63 for s in (0, 6, 12, 18)], axis=-1).astype(np.uint8).reshape(shape)
    parts = [data & 15, data >> 4]
    return np.stack(parts[::-1] if layout == "nibble-high" else parts, axis=-1).reshape(shape)


def tile_places(rows: int, columns: int) -> Array:
    """int64 [rows, columns]: the byte of each scale in tiles of 128 rows and 4 columns."""
    r, c = np.arange(rows)[:, None], np.arange(columns)[None]
    tile = (r // 128) * (up_to(columns, 4) // 4) + c // 4
    return np.asarray(tile * 512 + (r % 32) * 16 + (r % 128) // 32 * 4 + c % 4)


def swizzle(scales: Array) -> Array:
    """Flat uint8, zeros between; matrices of a batch one after the other."""
    if scales.ndim > 2:
        return np.concatenate([swizzle(part) for part in scales])
    rows, columns = scales.shape
    data = np.zeros(up_to(rows, 128) * up_to(columns, 4), np.uint8)
    data[tile_places(rows, columns)] = scales
    return data


def unswizzle(data: Array, shape: tuple[int, ...]) -> Array:
    """Inverts `swizzle`."""
    if len(shape) > 2:
        return np.stack([unswizzle(part, shape[1:]) for part in data.reshape(shape[0], -1)])
    return np.asarray(data.reshape(-1)[tile_places(*shape)])
