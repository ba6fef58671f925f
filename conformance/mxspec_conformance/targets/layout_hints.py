"""Which declaration would make the shapes right that a target returned: a hint, where one fits."""

from __future__ import annotations

from mxspec.formats import BlockFormat
from mxspec.layouts import get_layout


def suggest_code_layout(returned: tuple[int, ...], expected: tuple[int, ...], block: BlockFormat) -> str:
    """Words that follow "codes have shape ...", where they may be packed two to a byte; else nothing."""
    if block.element.bits == 4 and returned == (*expected[:-1], expected[-1] // 2):
        return '; if they are packed two to a byte, declare LAYOUT = "nibble-low", or "nibble-high" where the even element lies in the high nibble'
    return ""


def suggest_scale_layout(size: int, returned: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Words that follow "scales have shape ...", where their number is that of a layout in tiles; else nothing."""
    if len(expected) != 2 or returned == expected:
        return ""
    if returned == expected[::-1]:
        return "; they may be transposed: return [rows, k / block]"
    tiled = size == get_layout("128x4").size(expected)
    return '; if they lie in NVIDIA\'s tiles of 128 x 4, declare LAYOUT = "128x4"' if tiled else ""
