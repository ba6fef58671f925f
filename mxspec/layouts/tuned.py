"""Fast ways to pack and unpack the common packings; everything else goes the general way. Equal to `Packing`'s own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.layouts.packing import BYTES, NIBBLES_HIGH, NIBBLES_LOW, SIX_BITS, Bytes, Packing

#: Items handled at once, small enough for the cache.
_CHUNK = 1 << 16
_LOW_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
#: NumPy moves sixteen bytes at once as one of these.
_SIXTEEN_BYTES = np.complex128


def pack_items(codes: Bytes, packing: Packing) -> Bytes:
    """`packing.pack(codes)`."""
    if packing == BYTES:
        return np.ascontiguousarray(codes)
    if packing in _TUNED:
        flat = np.ascontiguousarray(codes).reshape(-1)
        return _TUNED[packing][0](flat).reshape(*codes.shape[:-1], -1 if codes.size else 0)
    return packing.pack(codes)


def unpack_items(data: Bytes, packing: Packing) -> Bytes:
    """`packing.unpack(data)`."""
    if packing == BYTES:
        return np.ascontiguousarray(data)
    if packing in _TUNED:
        flat = np.ascontiguousarray(data).reshape(-1)
        return _TUNED[packing][1](flat).reshape(*data.shape[:-1], -1 if data.size else 0)
    return packing.unpack(data)


def pack_split_nibbles(codes: Bytes, half: int) -> Bytes:
    """Flat codes in blocks of 2 `half` (8 or 16): byte j of a block holds codes j (low) and j + half (high)."""
    words, step = codes.view(np.uint64), half // 8
    data = np.empty(codes.size // 2, np.uint8)
    halves = data.view(_wide(half))
    for start in range(0, words.size, _CHUNK):
        part = words[start : start + _CHUNK]
        both = np.empty_like(part)
        # Every other half of this is what is wanted; whole rows of words are faster than halves all the same.
        np.left_shift(part[step:], np.uint64(4), out=both[:-step])
        both[:-step] |= part[:-step]
        place = start // step // 2
        halves[place : place + part.size // step // 2] = both.view(_wide(half))[::2]
    return data


def unpack_split_nibbles(data: Bytes, half: int) -> Bytes:
    """Inverts `pack_split_nibbles`."""
    words, step = data.view(np.uint64), half // 8
    codes = np.empty(data.size * 2, np.uint8)
    halves = codes.view(_wide(half)).reshape(-1, 2)
    for start in range(0, words.size, _CHUNK):
        part = words[start : start + _CHUNK]
        rows = slice(start // step, (start + part.size) // step)
        halves[rows, 0] = (part & _LOW_NIBBLES).view(_wide(half))
        halves[rows, 1] = (part >> np.uint64(4) & _LOW_NIBBLES).view(_wide(half))
    return codes


def _wide(half: int) -> type[np.generic]:
    return _SIXTEEN_BYTES if half == 16 else np.uint64


def _pack_nibbles(codes: Bytes, combine: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Bytes:
    pairs = codes.view("<u2")
    data = np.empty(pairs.size, np.uint8)
    for start in range(0, pairs.size, _CHUNK):
        data[start : start + _CHUNK] = combine(pairs[start : start + _CHUNK])
    return data


def _unpack_nibbles(data: Bytes, left: int, right: int) -> Bytes:
    """Pairs of codes of bytes: each byte beside itself, moved by these numbers of bits, less what is not a nibble."""
    pairs = np.empty(data.size, "<u2")
    moved = np.empty(min(_CHUNK, data.size), "<u2")
    for start in range(0, data.size, _CHUNK):
        pair = pairs[start : start + _CHUNK]
        other = moved[: pair.size]
        pair[...] = data[start : start + _CHUNK]
        np.left_shift(pair, np.uint16(left), out=other)
        pair >>= np.uint16(right)
        pair |= other
        pair &= np.uint16(0x0F0F)
    return pairs.view(np.uint8)


def _pack_sixes(codes: Bytes) -> Bytes:
    fours = codes.view("<u4")
    data = np.empty((fours.size, 3), np.uint8)
    for start in range(0, fours.size, _CHUNK):
        v = fours[start : start + _CHUNK]
        joined = v & 0x3F | v >> 2 & 0xFC0 | v >> 4 & 0x3F000 | v >> 6 & 0xFC0000
        data[start : start + _CHUNK] = joined.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]
    return data.reshape(-1)


def _unpack_sixes(data: Bytes) -> Bytes:
    threes = data.reshape(-1, 3)
    fours = np.empty(len(threes), "<u4")
    for start in range(0, len(threes), _CHUNK):
        part = threes[start : start + _CHUNK]
        padded = np.zeros((len(part), 4), np.uint8)
        padded[:, :3] = part
        v = padded.view("<u4").reshape(-1)
        fours[start : start + _CHUNK] = v & 0x3F | (v & 0xFC0) << 2 | (v & 0x3F000) << 4 | (v & 0xFC0000) << 6
    return fours.view(np.uint8)


_TUNED: dict[Packing, tuple[Callable[[Bytes], Bytes], Callable[[Bytes], Bytes]]] = {
    NIBBLES_LOW: (
        lambda codes: _pack_nibbles(codes, lambda pair: pair | pair >> 4),
        lambda data: _unpack_nibbles(data, 4, 0),
    ),
    NIBBLES_HIGH: (
        lambda codes: _pack_nibbles(codes, lambda pair: pair << 4 | pair >> 8),
        lambda data: _unpack_nibbles(data, 8, 4),
    ),
    SIX_BITS: (_pack_sixes, _unpack_sixes),
}
