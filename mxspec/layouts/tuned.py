"""Fast ways to pack and unpack the common packings; everything else goes the general way. Equal to `Packing`'s own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.layouts.packing import BYTES, NIBBLES_HIGH, NIBBLES_LOW, SIX_BITS, Bytes, Packing

#: Items handled at once, small enough for the cache.
_CHUNK = 1 << 16
#: The same in words of eight bytes, where several arrays are at hand.
_SMALL = 1 << 12
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
    """Pairs of codes of bytes: each byte next to itself, shifted by these numbers of bits, less what is not a nibble."""
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
    count = codes.size // 4
    data = np.empty(count * 3, np.uint8)
    fours = codes.view("<u4")
    # Words of four bytes, three apart: each one's highest byte is zero, and is written over by the next word, which NumPy copies
    # after it. The last would reach beyond the end.
    words = np.ndarray((max(count - 1, 0),), "<u4", data.data, 0, (3,))
    kept, other = np.empty((2, min(2 * _SMALL, words.size)), "<u4")
    for start in range(0, words.size, 2 * _SMALL):
        source = fours[start : min(start + 2 * _SMALL, words.size)]
        v, moved = kept[: source.size], other[: source.size]
        np.copyto(v, source)
        # Twelve bits of two codes, 24 of four: what lies too high is taken off and put back lower.
        for word, high, over in (("<u2", 8, 256 - 64), ("<u4", 16, 65536 - 4096)):
            part, upper = v.view(word), moved.view(word)
            np.right_shift(part, part.dtype.type(high), out=upper)
            upper *= part.dtype.type(over)
            part -= upper
        words[start : start + v.size] = v
    if count:
        data[-3:] = SIX_BITS.pack(codes[-4:])
    return data


def _unpack_sixes(data: Bytes) -> Bytes:
    count = data.size // 3
    fours = np.empty(count, "<u4")
    # Words of four bytes, three apart; the last would reach beyond the end.
    words = np.ndarray((max(count - 1, 0),), "<u4", data.data, 0, (3,))
    kept, other = np.empty((2, min(2 * _SMALL, words.size)), "<u4")
    for start in range(0, words.size, 2 * _SMALL):
        v = fours[start : min(start + 2 * _SMALL, words.size)]
        low, moved = kept[: v.size], other[: v.size]
        np.copyto(low, words[start : start + v.size])
        np.left_shift(low, np.uint32(4), out=v)
        v &= np.uint32(0x0FFF0000)
        low &= np.uint32(0xFFF)
        v |= low
        pairs, lower = v.view("<u2"), moved.view("<u2")
        np.bitwise_and(pairs, np.uint16(0x3F), out=lower)
        pairs <<= np.uint16(2)
        pairs &= np.uint16(0x3F00)
        pairs |= lower
    codes = fours.view(np.uint8)
    if count:
        codes[-4:] = SIX_BITS.unpack(data[-3:])
    return codes


_TUNED: dict[Packing, tuple[Callable[[Bytes], Bytes], Callable[[Bytes], Bytes]]] = {
    NIBBLES_LOW: (lambda codes: _pack_nibbles(codes, lambda pair: pair | pair >> 4), lambda data: _unpack_nibbles(data, 4, 0)),
    NIBBLES_HIGH: (lambda codes: _pack_nibbles(codes, lambda pair: pair << 4 | pair >> 8), lambda data: _unpack_nibbles(data, 8, 4)),
    SIX_BITS: (_pack_sixes, _unpack_sixes),
}
