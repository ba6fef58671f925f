"""The layout of what `quantize` returns, found from the bytes of numbered blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import BlockFormat
from mxspec.layouts import Layout, Part, list_layouts
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession

#: Rows and blocks of a row: beyond one tile of 128 rows and 4 scales.
_ROWS, _BLOCKS = 256, 8


def numbered_input(fmt: BlockFormat) -> npt.NDArray[np.float32]:
    """Blocks [256, 8 k] whose codes and scales differ from place to place, and on which ordinary profiles agree."""
    index = np.arange(_ROWS * _BLOCKS)
    blocks = np.empty((index.size, fmt.k), np.float32)
    # Values of the format under a power-of-two scale: exact in every rounding.
    grid = np.unique(np.abs(mxspec.decode(np.arange(fmt.element.max_code + 1, dtype=np.uint8), fmt.element.name)))
    lanes = (index[:, None] * 7919 + np.arange(fmt.k)[None] * 104729 + 13) % (2 * len(grid))
    # No negative zeros: some profiles keep their sign, some do not.
    blocks[:] = np.where(lanes < len(grid), grid[lanes % len(grid)], 0 - grid[lanes % len(grid)])
    blocks[:, 0] = grid[-1]
    exponents = (index * 2654435761 % 2**32 >> 20) % (12 if fmt.has_tensor_scale else 200)
    scaled: npt.NDArray[np.float32] = np.ldexp(blocks, (exponents - exponents.max() // 2)[:, None]).astype(np.float32)
    return scaled.reshape(_ROWS, -1)


def find_layouts(session: TargetSession, fmt: BlockFormat) -> dict[str, str]:
    """`codes` and `scales`: the layout that the returned bytes are in, or what is known of them. Empty: it raised."""
    x = numbered_input(fmt)
    # One, or the maximum of which the decode scale is one.
    one = float(fmt.element.max_value * fmt.scale.max_value) if session.capabilities.tensor_scale == "amax" else 1.0
    extra: dict[str, Any] = {} if session.capabilities.one_level else {"tensor_scale": one}
    try:
        returned = session.call("raw_quantize", x, fmt.name, **extra)
    except CallError:
        return {}
    t = mxspec.quantize(x, fmt)
    found = {}
    for part, items, data in zip(("codes", "scales"), (t.codes, t.scales), returned, strict=True):
        if items.dtype != np.uint8:
            found[part] = "float32 by rows" if len(data) == items.nbytes else f"no layout known ({len(data)} bytes)"
            continue
        kind = Part.CODES if part == "codes" else Part.SCALES
        bits = fmt.element.bits if part == "codes" else 8
        found[part] = _name(kind, bits, items, np.frombuffer(data, np.uint8))
    return found


def _name(kind: Part, bits: int, items: npt.NDArray[np.uint8], data: npt.NDArray[np.uint8]) -> str:
    best, share = "", 0.0
    for layout in _candidates(kind, bits):
        try:
            expected = layout.pack(items)
        except ValueError:
            continue
        if expected.size == data.size:
            equal = float((expected == data).mean())
            if equal > share:
                best, share = layout.name, equal
    if share == 1:
        return best
    # A profile that rounds otherwise still puts most codes where they belong.
    return f"{best} ({share:.0%} of the bytes)" if share > 0.6 else f"no layout known ({data.size} bytes)"


def _candidates(kind: Part, bits: int) -> list[Layout]:
    single = [x for x in list_layouts() if len(x.fields) == 1 and x.main.stored is None]
    return [x for x in single if x.main.part is kind and (x.main.packing.width == bits or x.name == "bytes")]
