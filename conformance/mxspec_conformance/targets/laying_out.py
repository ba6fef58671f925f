"""The numbers of an operand as the arrays that a kernel takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine import Offset, pack_words
from mxspec.layouts import Layout, Part, get_layout
from mxspec_conformance.targets.arrays import pack_nibbles
from mxspec_conformance.targets.operand_words import ROW_MAJOR, SQUARE, UNPACKED, WORDS
from mxspec_conformance.targets.operands import Numbers, OperandKind, Side, read_numbers

Values = npt.NDArray[Any]


def lay_out(numbers: Numbers) -> dict[str, Values]:
    """The arrays of an operand by the part's name: values, or codes, scales, offsets and metadata as far as it has them apart."""
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


def hand_over(numbers: Numbers, *, convert: Callable[[Values], Any] = np.asarray, only_sides: bool = False) -> Any:
    """An operand of a product as a target takes it.

    Args:
        numbers: The operand.
        convert: Makes the target's own array of each part.
        only_sides: Whether a plain operand, too, is passed as a `Side`.

    Returns:
        A `Side`; the array alone of a plain operand that is not sparse, unless `only_sides`.
    """
    given = {name: convert(part) for name, part in lay_out(numbers).items()}
    spec = numbers.spec
    if set(given) == {"values"} and not only_sides:
        return given["values"]
    offsets = given.pop("offsets", None)
    if offsets is not None:
        given["biases" if spec.affine.offset is Offset.BIAS else "zeros"] = offsets
    parts: dict[str, Any] = {"codes": None, "scales": None} | given
    return Side(**parts, tensor_scale=numbers.tensor_scale, format=spec.name, shape=numbers.shape, spec=spec.text)


def hand_over_data(data: Any, *, convert: Callable[[Values], Any] = np.asarray, only_sides: bool = False) -> Any:
    """As `hand_over`, of what `Numbers.as_data` gave; of a stack, such as a matrix for each expert, every array has an axis of members."""
    text, *parts = data
    count = next(len(p) if p.ndim == 3 else 0 for p in parts if isinstance(p, np.ndarray))
    if not count:
        return hand_over(read_numbers(data), convert=convert, only_sides=only_sides)
    each = [hand_over(read_numbers((text, *(None if p is None else p[i] for p in parts))), only_sides=True) for i in range(count)]
    names = [name for name in ("values", "codes", "scales", "tensor_scale") if getattr(each[0], name) is not None]
    given = {name: convert(np.stack([getattr(side, name) for side in each])) for name in names}
    if set(given) == {"values"} and not only_sides:
        return given["values"]
    return replace(each[0], **given, shape=(count, *each[0].shape))


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
    if spec.kind is OperandKind.BLOCK and spec.block.scale.bits > 8:
        scales = scales.view(np.float32)
    if spec.scales == SQUARE:
        return np.ascontiguousarray(scales[::128])
    if spec.scales == ROW_MAJOR:
        return _turn(scales, spec.transposed)
    return get_layout(spec.scales).pack(scales)


def _pack_record(layout: Layout, codes: Values, scales: Values) -> Values:
    parts = {Part.CODES: codes, Part.SCALES: scales}
    return layout.pack(*(parts[field.part] for field in layout.fields))
