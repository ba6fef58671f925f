"""What differs between two BlockTensors, in a few lines: facts first, then the first blocks with their bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxspec import BlockTensor
from mxspec.formats import ScalarFormat
from mxspec_conformance.render.bits import Word, draw_code

#: Blocks and lanes that are drawn.
MAX_BLOCKS = 3
MAX_LANES = 8


def explain_difference(left: Any, right: Any) -> list[str]:
    """Lines for people: what a test's assertion shows. The first line sums up."""
    assert isinstance(left, BlockTensor)
    assert isinstance(right, BlockTensor)
    facts = [
        f"{name}: {a} != {b}"
        for name, a, b in (
            ("format", left.format.name, right.format.name),
            ("profile", left.profile.id, right.profile.id),
            ("shape", left.shape, right.shape),
            ("axis", left.axis, right.axis),
            ("tensor scale", left.tensor_scale, right.tensor_scale),
        )
        if a != b
    ]
    title = f"BlockTensor {left.format.name} == BlockTensor {right.format.name}"
    if left.format != right.format or left.axis != right.axis or left.codes.shape != right.codes.shape:
        return [title, *facts]
    return [title, *facts, *_explain_blocks(left, right)]


def _explain_blocks(left: BlockTensor, right: BlockTensor) -> list[str]:
    k, axis = left.format.k, left.axis
    codes = [np.moveaxis(t.codes, axis, -1).reshape(-1, k) for t in (left, right)]
    scales = [np.moveaxis(t.scales, axis, -1).reshape(-1) for t in (left, right)]
    other_scale = scales[0] != scales[1]
    other_lanes = codes[0] != codes[1]
    differing = np.flatnonzero(other_scale | other_lanes.any(axis=1))
    if not len(differing):
        return []
    lines = [f"{len(differing)} of {len(scales[0])} blocks differ: {int(other_scale.sum())} in the scale, {int(other_lanes.sum())} codes"]
    outer = np.moveaxis(left.scales, axis, -1).shape
    for block in differing[:MAX_BLOCKS]:
        place = tuple(int(i) for i in np.unravel_index(block, outer))
        lines.append(f"block {place}:")
        rows = []
        if other_scale[block]:
            rows.append(_row("scale", int(scales[0][block]), int(scales[1][block]), left.format.scale))
        lanes = np.flatnonzero(other_lanes[block])
        for lane in lanes[:MAX_LANES]:
            a, b = int(codes[0][block, lane]), int(codes[1][block, lane])
            rows.append(_row(f"lane {lane}", a, b, left.format.element))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        if len(lanes) > MAX_LANES:
            lines.append(f"  and {len(lanes) - MAX_LANES} more lanes")
    if len(differing) > MAX_BLOCKS:
        lines.append(f"and {len(differing) - MAX_BLOCKS} more blocks")
    return lines


def _row(label: str, left: int, right: int, fmt: ScalarFormat) -> tuple[str, ...]:
    a, b = draw_code(left, fmt), draw_code(right, fmt)
    return label, _bits(a), a.meaning, f"!= {_bits(b)}", b.meaning


def _bits(word: Word) -> str:
    return f"{word.hex} {' '.join(''.join(bit.value for bit in f.bits) for f in word.fields)}"
