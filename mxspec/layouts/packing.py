"""Packing: which bits of a few bytes hold which bits of a few codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lcm

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Packing:
    """`codes` codes of `width` bits in `size` bytes."""

    name: str
    width: int
    codes: int
    size: int
    #: Bit b of code i lies at bit `places[i * width + b]` of the group; bit 0 is the lowest of the first byte.
    places: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """For each byte of a group the bits that hold codes."""
        held = set(self.places)
        return tuple(sum(1 << b for b in range(8) if 8 * n + b in held) for n in range(self.size))

    def pack(self, codes: Bytes) -> Bytes:
        """Bytes [..., groups * size] of codes [..., groups * codes]. Unused bits are zero."""
        lead, groups = codes.shape[:-1], codes.shape[-1] // self.codes
        grouped = codes.reshape(-1, self.codes)
        data = np.zeros((len(grouped), self.size), np.uint8)
        for code, low, count, byte, bit in _runs(self):
            data[:, byte] |= ((grouped[:, code] >> np.uint8(low)) & np.uint8((1 << count) - 1)) << np.uint8(bit)
        return data.reshape(*lead, groups * self.size)

    def unpack(self, data: Bytes) -> Bytes:
        """Codes [..., groups * codes] of bytes [..., groups * size]; inverts `pack` and ignores unused bits."""
        lead, groups = data.shape[:-1], data.shape[-1] // self.size
        grouped = data.reshape(-1, self.size)
        codes = np.zeros((len(grouped), self.codes), np.uint8)
        for code, low, count, byte, bit in _runs(self):
            codes[:, code] |= ((grouped[:, byte] >> np.uint8(bit)) & np.uint8((1 << count) - 1)) << np.uint8(low)
        return codes.reshape(*lead, groups * self.codes)


@lru_cache(maxsize=64)
def _runs(packing: Packing) -> tuple[tuple[int, int, int, int, int], ...]:
    """Runs of bits that move together: (code, its lowest bit, bits, byte, the byte's lowest bit)."""
    runs: list[tuple[int, int, int, int, int]] = []
    for i in range(packing.codes):
        for b in range(packing.width):
            place = packing.places[i * packing.width + b]
            if runs:
                code, low, count, byte, bit = runs[-1]
                if code == i and low + count == b and place == 8 * byte + bit + count and bit + count < 8:
                    runs[-1] = (code, low, count + 1, byte, bit)
                    continue
            runs.append((i, b, 1, *divmod(place, 8)))
    return tuple(runs)


def dense(width: int, *, word_bits: int = 8) -> Packing:
    """Codes one after the other from the lowest bit up, in whole words."""
    bits = lcm(width, word_bits)
    return Packing(f"{width}-bit, lowest bit first", width, bits // width, bits // 8, tuple(range(bits)))


def boxed(width: int, *, codes: int, size: int, shift: int = 0) -> Packing:
    """Codes one after the other from bit `shift` of `size` bytes, the rest of which is a gap."""
    places = tuple(range(shift, shift + width * codes))
    return Packing(f"{codes} x {width} bits in {size} bytes", width, codes, size, places)


BYTES = dense(8)
NIBBLES_LOW = dense(4)
NIBBLES_HIGH = Packing("4-bit, high nibble first", 4, 2, 1, (4, 5, 6, 7, 0, 1, 2, 3))
SIX_BITS = dense(6)
