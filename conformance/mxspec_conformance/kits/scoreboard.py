"""A scoreboard for cocotb, or any Python test bench: a profile as a shared library, and a name for what differs.

cc -std=c99 -O2 -shared -fPIC mxspec_dpi.c -o libmxspec.so
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path


def read_blocks(path: str | Path) -> list[list[int]]:
    """The float32 words of each block of a FORMAT.x.hex, lane 0 first."""
    lines = [line.split("//")[0].strip() for line in Path(path).read_text("ascii").splitlines()]
    return [[int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)][::-1] for digits in lines if digits]


class Scoreboard:
    """Compares what a design returned with a profile. The library keeps the counts of all blocks: a new board starts them anew for every board on
    the same file; load a copy of the file for a second board at the same time.

    library: path of the shared library. tensor_scale: float32 bits, in the profile's own kind; None for the one-level form.

    Raises ValueError for a profile that the library does not have.
    """

    def __init__(self, library: str | Path, profile: str, fmt: str, tensor_scale: int | None = None) -> None:
        self._library = ctypes.CDLL(str(Path(library).resolve()))
        self._library.mxspec_name.restype = ctypes.c_char_p
        self._library.mxspec_bin.restype = self._library.mxspec_covered.restype = ctypes.c_char_p
        self._row = self._library.mxspec_find(profile.encode(), fmt.encode(), int(tensor_scale is not None))
        if self._row < 0:
            raise ValueError(
                f"the library has no profile {profile!r} of {fmt!r} {'with' if tensor_scale is not None else 'without'} a tensor scale"
            )
        self._tensor = ctypes.c_uint32(tensor_scale or 0)
        self._library.mxspec_reset()
        self.blocks = 0
        #: Blocks that are wrong, and those that differ where OCP leaves the answer open.
        self.failed = self.open = 0
        self.first = ""

    def check(self, x: Sequence[int], codes: Sequence[int], scale: int) -> bool:
        """Whether a block is not wrong. x: float32 words; codes: one number a lane; scale: the byte."""
        words = (ctypes.c_uint32 * len(x))(*x)
        packed = bytes(codes).ljust(4 * -(-len(codes) // 4), b"\0")
        given = (ctypes.c_uint32 * (len(packed) // 4)).from_buffer_copy(packed)
        verdict = self._library.mxspec_judge(self._row, words, self._tensor, given, ctypes.c_uint32(scale))
        self.cover(x)
        if verdict == 2 and not self.failed:
            wanted = (ctypes.c_uint32 * len(given))()
            byte = self._library.mxspec_expect(self._row, words, self._tensor, wanted)
            self.first = _describe(x, bytes(wanted), byte, codes, scale)
        self.blocks += 1
        self.failed += verdict == 2
        self.open += verdict == 1
        return bool(verdict != 2)

    def cover(self, x: Sequence[int]) -> None:
        """Count the bins that a block fills; `check` does so, too."""
        words = (ctypes.c_uint32 * len(x))(*x)
        self._library.mxspec_cover(self._row, words, self._tensor, (ctypes.c_uint32 * len(x))())

    def covered(self) -> str:
        """For each point of coverage how many of its bins were filled: what the blocks are about (topic), whether their scale is the lowest or
        highest one or differs for the next amax (scale), the exponent field and the lane of amax (binade, largest), what numbers are (input),
        and the threshold between two codes that they are on or one float32 from (threshold)."""
        text: bytes = self._library.mxspec_covered(self._row)
        return text.decode()

    def bins(self) -> dict[str, int]:
        """How often each bin was filled, by name: "threshold +03|04 on" is the tie between these codes, "below" the float32 before it."""
        found: dict[str, int] = {}
        while name := self._library.mxspec_bin(self._row, len(found)).decode():
            found[name] = self._library.mxspec_hits(len(found))
        return found

    def define_unit(
        self, group: int, fraction: int, aligned: int, output: int, normalised: int, least: int, most: int, promoted: int = 0
    ) -> int:
        """The number of a unit with the parameters of `mx_unit` in mxspec_dot.h, for `dot`, until others are given. aligned, normalised: 0 cut,
        1 to nearest even, 2 sticky.

        Raises ValueError for one whose sums 63 bits do not hold.
        """
        number: int = self._library.mxspec_define_unit(group, fraction, aligned, output, normalised, least, most, promoted)
        if number < 0:
            raise ValueError(
                f"no unit of {group} products with {fraction} bits; group + 1 is at most 2^(59 - fraction) and 65, output at most 55, roundings 0 to 2"
            )
        return number

    def dot(self, unit: int | str, a_codes: Sequence[int], a_scales: Sequence[int], b_codes: Sequence[int], b_scales: Sequence[int]) -> int:
        """The float32 bits of a sum of up to 256 products in this format by a unit of mxspec_dot.h, or the one that `define_unit` returned.

        Raises ValueError for an unknown unit, or more products.
        """
        number = self._library.mxspec_unit(unit.encode()) if isinstance(unit, str) else unit
        if number < 0 or not len(a_codes) == len(b_codes) <= 256:
            raise ValueError(
                f"unit {unit!r} with {len(a_codes)} and {len(b_codes)} products; there have to be as many, at most 256, and a unit of mxspec_dot.h"
            )
        words = [(ctypes.c_uint32 * 64).from_buffer_copy(bytes(x).ljust(256, b"\0")) for x in (a_codes, a_scales, b_codes, b_scales)]
        self._library.mxspec_dot.restype = ctypes.c_uint32
        return int(self._library.mxspec_dot(number, self._row, self._row, len(a_codes), *words))

    def name(self) -> str:
        """The rule, and the mistake in it, that explains all blocks."""
        name: bytes = self._library.mxspec_name(self._row)
        return name.decode()

    def summary(self) -> str:
        """One line for a log."""
        text = f"{self.failed} of {self.blocks} blocks are wrong, {self.open} differ where the answer is open; what was returned follows {self.name()}"
        return f"{text}; first: {self.first}" if self.failed else text


def _describe(x: Sequence[int], wanted: bytes, byte: int, codes: Sequence[int], scale: int) -> str:
    if byte != scale:
        return f"scale: expected {byte:02x}, returned {scale:02x}"
    lane = next(i for i, (a, b) in enumerate(zip(wanted, codes, strict=False)) if a != b)
    return f"lane {lane}: x = {x[lane]:08x}, scale {scale:02x}: expected {wanted[lane]:02x}, returned {codes[lane]:02x}"


if __name__ == "__main__":  # LIBRARY PROFILE FORMAT FORMAT.x.hex: what a file of blocks covers, and the bins that it leaves empty
    if len(sys.argv) != 5:
        sys.exit(f"use: python {sys.argv[0]} libmxspec.so PROFILE FORMAT FORMAT.x.hex; the library: {__doc__.splitlines()[2]}")
    library, profile, fmt, file = sys.argv[1:]
    board = Scoreboard(library, profile, fmt)
    for block in read_blocks(file):
        board.cover(block)
    print(board.covered(), *(f"  not met: {name}" for name, hits in board.bins().items() if not hits), sep="\n")
