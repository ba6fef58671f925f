"""The numbers of a side as the arrays that a kernel takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine import pack_words
from mxspec.layouts import Layout, Part, get_layout
from mxspec_conformance.targets.arrays import pack_nibbles, swizzle_128x4
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED, WORDS
from mxspec_conformance.targets.operands import Numbers

Values = npt.NDArray[Any]


def lay_out(numbers: Numbers) -> dict[str, Values]:
    """The arrays of a side by the part's name: values, or codes, scales, offsets and metadata as far as it has them apart."""
    spec = numbers.spec
    parts: dict[str, Values] = {}
    if numbers.values is not None:
        parts["values"] = _turn(numbers.values, spec.transposed)
    if numbers.codes is not None:
        assert numbers.scales is not None
        layout = None if spec.codes in (UNPACKED, WORDS, "nibble-low") else get_layout(spec.codes)
        if layout is not None and len(layout.fields) > 1:
            return {"codes": _pack_record(layout, numbers.codes, numbers.scales)}
        parts["codes"] = _lay_codes(numbers.codes, numbers, layout)
        parts["scales"] = _lay_scales(numbers.scales, numbers)
    if numbers.offsets is not None:
        # Checkpoints hold zero points [groups, rows].
        apart = spec.offsets != ROW_MAJOR
        held = np.ascontiguousarray(numbers.offsets.T) if apart else numbers.offsets
        parts["offsets"] = get_layout(spec.offsets).pack(held) if apart else _turn(held, spec.transposed)
    if numbers.metadata is not None:
        apart = spec.metadata != UNPACKED
        parts["metadata"] = get_layout(spec.metadata).pack(numbers.metadata) if apart else _turn(numbers.metadata, spec.transposed)
    return parts


def _turn(x: Values, transposed: bool) -> Values:
    return np.ascontiguousarray(x.T) if transposed else x


def _lay_codes(codes: npt.NDArray[np.uint8], numbers: Numbers, layout: Layout | None) -> Values:
    spec = numbers.spec
    if layout is not None:
        return layout.pack(codes)
    if spec.codes == WORDS:
        return pack_words(codes, spec.affine.bits)
    return pack_nibbles(codes) if spec.codes == "nibble-low" else _turn(codes, spec.transposed)


def _lay_scales(scales: Values, numbers: Numbers) -> Values:
    spec = numbers.spec
    if spec.scales == ROW_MAJOR:
        return _turn(scales, spec.transposed)
    return swizzle_128x4(scales) if spec.scales == "128x4" else get_layout(spec.scales).pack(scales)


def _pack_record(layout: Layout, codes: Values, scales: Values) -> Values:
    parts = {Part.CODES: codes, Part.SCALES: scales}
    return layout.pack(*(parts[field.part] for field in layout.fields))
