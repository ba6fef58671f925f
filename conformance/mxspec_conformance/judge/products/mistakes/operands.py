"""Mistakes in reading one operand or both: scales of other blocks, codes and tables read wrongly, tensor scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from mxspec.dot import OperandContract
from mxspec.elements import decode_codes, decode_table
from mxspec.layouts import get_layout
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.editing import place_dense
from mxspec_conformance.judge.products.mistakes.mistake import Codes, Floats, Mistake, keep_case, replace_side
from mxspec_conformance.judge.products.mistakes.other_places import OTHER_PLACES
from mxspec_conformance.judge.products.mistakes.sides import SIDES
from mxspec_conformance.judge.products.reference import Sides, change_values
from mxspec_conformance.targets.operand_words import SQUARE
from mxspec_conformance.targets.operands import Numbers, OperandKind

#: Element codes or scale codes, and their side -> others; None where the mistake cannot be made.
CodeChange = Callable[[Codes, Numbers], Codes | None]
#: NVIDIA's tiles of scales.
TILES = get_layout("128x4")

# Scales of other places.


def _elsewhere(place: Callable[[Codes], Codes | None], scales: Codes, numbers: Numbers) -> Codes | None:
    if numbers.spec.scales != SQUARE:
        return place(scales)
    tiles = place(scales[::128])
    return None if tiles is None else np.repeat(tiles, 128, axis=0)[: len(scales)]


def _read_linear(scales: Codes, numbers: Numbers) -> Codes | None:
    if numbers.spec.scales != "128x4":
        return None
    return TILES.pack(scales)[: scales.size].reshape(scales.shape)


def _read_padded(scales: Codes, numbers: Numbers) -> Codes | None:
    """Rows as wide as the tiles, which are four scales wide."""
    rows, blocks = scales.shape
    return None if numbers.spec.scales != "128x4" else TILES.pack(scales).reshape(-1, -(-blocks // 4) * 4)[:rows, :blocks]


def _read_swizzled(scales: Codes, numbers: Numbers) -> Codes | None:
    if numbers.spec.scales != "row-major" or scales.dtype != np.uint8 or scales.shape[0] % 128 or scales.shape[1] % 4:
        return None
    return TILES.unpack(np.ascontiguousarray(scales).reshape(-1), scales.shape)[0]


def _pairs_of_blocks(scales: Codes, _: Numbers) -> Codes | None:
    return np.repeat(scales[:, ::2], 2, axis=1)[:, : scales.shape[1]] if scales.shape[1] > 1 else None


def _one_for_all(scales: Codes, numbers: Numbers) -> Codes | None:
    scale = numbers.spec.block.scale
    return np.full_like(scales, scale.bias << scale.mantissa_bits)


def _to_float(change: Callable[[Any], Any], scales: Codes, numbers: Numbers) -> Codes | None:
    """Scales that are float32 numbers, changed and back."""
    if numbers.spec.block.scale.bits <= 8:
        return None
    held = scales.view(np.float32)
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(held), np.asarray(change(held), np.float32), held).view(scales.dtype)


def _cut_to_power(scales: Any) -> Any:
    return (scales.view(np.uint32) & np.uint32(0xFF800000)).view(np.float32)


def _raise_to_power(scales: Any) -> Any:
    return _cut_to_power((scales.view(np.uint32) + np.uint32(0x7FFFFF)).view(np.float32))


SCALE_MISTAKES: tuple[tuple[str, CodeChange], ...] = (
    *((words.format(what="scale", unit="block", side="{side}"), partial(_elsewhere, place)) for words, place in OTHER_PLACES),
    ("the 128x4 tiles of {side}'s scales are read as rows", _read_linear),
    ("the 128x4 tiles of {side}'s scales are read as rows, padded to four scales", _read_padded),
    ("the rows of {side}'s scales are read as 128x4 tiles", _read_swizzled),
    ("two blocks of {side} share the first one's scale", _pairs_of_blocks),
    ("the block scales of {side} are ignored", _one_for_all),
    ("the scales of {side} are cut to powers of two", partial(_to_float, _cut_to_power)),
    ("the scales of {side} are rounded up to powers of two", partial(_to_float, _raise_to_power)),
    ("the scales of {side} are rounded to bfloat16", partial(_to_float, lambda s: s.astype(ml_dtypes.bfloat16))),
)

# Scale codes as numbers.

TableChange = Callable[[Numbers], Floats | None]


def _table(numbers: Numbers) -> Floats:
    return decode_table(numbers.spec.block.scale).astype(np.float64)


def _zero_scale(numbers: Numbers) -> Floats | None:
    if not numbers.spec.block.is_mx:
        return None
    table = _table(numbers).copy()
    table[0] = 0
    return table


def _infinite_scale(numbers: Numbers) -> Floats | None:
    if not numbers.spec.block.is_mx:
        return None
    table = _table(numbers).copy()
    table[0xFF] = np.inf
    return table


def _largest_scale(numbers: Numbers) -> Floats | None:
    return _finite_scale(numbers) if numbers.spec.block.is_mx else None


def _finite_scale(numbers: Numbers) -> Floats | None:
    table = _table(numbers).copy()
    if numbers.spec.block.is_mx:
        table[0xFF] = 2.0**128
    else:
        table[0x7F] = 480
    return table


def _bias_off(numbers: Numbers, by: int) -> Floats | None:
    return np.ldexp(_table(numbers), by)


def _no_subnormal_scales(numbers: Numbers) -> Floats | None:
    if numbers.spec.block.is_mx:
        return None
    table = _table(numbers).copy()
    table[1:8] = 0
    return table


TABLE_MISTAKES: tuple[tuple[str, TableChange], ...] = (
    ("the scale code 00 of {side} is taken as zero", _zero_scale),
    ("the scale code FF of {side} is taken as infinity", _infinite_scale),
    ("the NaN scale of {side} is taken as a number", _finite_scale),
    ("numbers of {side} are half their value, as if a bias were one too large", partial(_bias_off, by=-1)),
    ("numbers of {side} are twice their value, as if a bias were one too small", partial(_bias_off, by=1)),
    ("subnormal scales of {side} are taken as zero", _no_subnormal_scales),
)

# Element codes.


def _swap_nibbles(codes: Codes, numbers: Numbers) -> Codes | None:
    if numbers.metadata is not None:  # of a sparse side these are the two that are kept
        return None
    return codes.reshape(len(codes), -1, 2)[:, :, ::-1].reshape(codes.shape) if codes.shape[1] % 2 == 0 else None


def _drop_signs(codes: Codes, numbers: Numbers) -> Codes | None:
    return codes & np.uint8((1 << (numbers.spec.block.element.bits - 1)) - 1)


def _flip_signs(codes: Codes, numbers: Numbers) -> Codes | None:
    return codes ^ np.uint8(1 << (numbers.spec.block.element.bits - 1))


def _reverse_blocks(codes: Codes, numbers: Numbers) -> Codes | None:
    if numbers.metadata is not None:
        return None
    k = numbers.spec.block.k
    return codes.reshape(len(codes), -1, k)[:, :, ::-1].reshape(codes.shape)


def _halves_of_blocks(codes: Codes, numbers: Numbers) -> Codes | None:
    """Codes j and j + half of a block share a byte."""
    if numbers.metadata is not None:
        return None
    k = numbers.spec.block.k
    pairs = codes.reshape(len(codes), -1, k // 2, 2)
    return np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1).reshape(codes.shape)


def _first_row_codes(codes: Codes, _: Numbers) -> Codes | None:
    return np.repeat(codes[:1], len(codes), axis=0) if len(codes) > 1 else None


CODE_MISTAKES: tuple[tuple[str, CodeChange], ...] = (
    ("the two nibbles of a byte are swapped on {place}", _swap_nibbles),
    ("the signs of {side} are dropped", _drop_signs),
    ("the signs of {side} are turned round", _flip_signs),
    ("the elements of each block are reversed on {place}", _reverse_blocks),
    ("each byte of {side} is read as elements j and j + half of the block", _halves_of_blocks),
    ("the first row of {side} is used for all rows", _first_row_codes),
)


def _linear_e2m1(numbers: Numbers) -> Floats | None:
    if numbers.spec.block.element.name != "e2m1":
        return None
    steps = np.arange(8) / 2
    return np.concatenate([steps, -steps])


def _no_subnormals(numbers: Numbers) -> Floats:
    element = numbers.spec.block.element
    table = decode_table(element).astype(np.float64).copy()
    table[np.abs(table) < 2.0 ** (1 - element.bias)] = 0
    return table


def _implicit_one(numbers: Numbers) -> Floats | None:
    """Subnormals decoded as if they had the implicit one."""
    element = numbers.spec.block.element
    if not element.mantissa_bits or element.name == "int8":
        return None
    table = decode_table(element).astype(np.float64).copy()
    small = np.abs(table) < 2.0 ** (1 - element.bias)
    magnitudes = np.arange(len(table)) & ((1 << element.mantissa_bits) - 1)
    table[small] = (np.copysign(1 + magnitudes * 2.0**-element.mantissa_bits, table) * 2.0**-element.bias)[small]
    return table


def _nan_as_number(numbers: Numbers) -> Floats | None:
    table = decode_table(numbers.spec.block.element).astype(np.float64)
    if np.isfinite(table).all():
        return None
    return np.where(np.isnan(table), np.where(np.arange(len(table)) < 128, 480.0, -480.0), table)


def _clamp_inf(numbers: Numbers) -> Floats | None:
    table = decode_table(numbers.spec.block.element).astype(np.float64)
    largest = np.abs(table[np.isfinite(table)]).max()
    return np.clip(table, -largest, largest) if np.isinf(table).any() else None


def _zero_special(numbers: Numbers) -> Floats | None:
    table = decode_table(numbers.spec.block.element).astype(np.float64)
    return np.nan_to_num(table, nan=0, posinf=0, neginf=0) if not np.isfinite(table).all() else None


ELEMENT_MISTAKES: tuple[tuple[str, TableChange], ...] = (
    ("the codes of {side} are taken as steps of one half", _linear_e2m1),
    ("subnormal elements of {side} are taken as zero", _no_subnormals),
    ("subnormal elements of {side} are read with an implicit one", _implicit_one),
    ("NaN elements of {side} are taken as numbers", _nan_as_number),
    ("infinite elements of {side} are taken as the largest number", _clamp_inf),
    ("elements of {side} that are no numbers are taken as zero", _zero_special),
)

# Tensor scales.


def _tensor_scale(case: ProductCase, sides: str, change: Callable[[float], float | None]) -> ProductCase | None:
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.tensor_scale is None:
            return None
        changed = replace_side(case, side, replace(numbers, tensor_scale=change(numbers.tensor_scale)))
        assert changed is not None
        case = changed
    return case


def _swap_tensor_scales(case: ProductCase, keep: str) -> ProductCase | None:
    if case.a.tensor_scale is None or case.b.tensor_scale is None:
        return None
    kept = case.a.tensor_scale if keep == "a" else case.b.tensor_scale
    return replace(case, a=replace(case.a, tensor_scale=kept), b=replace(case.b, tensor_scale=kept))


# All of them.


def _change_part(part: str, change: CodeChange, sides: str, case: ProductCase) -> ProductCase | None:
    """The case with other codes or other scales; a side where the change has nothing to change stays as it is."""
    for side in sides:
        numbers = case.a if side == "a" else case.b
        held = getattr(numbers, part)
        if held is None or numbers.spec.kind is not OperandKind.BLOCK:
            return None
        found = change(held, numbers)
        if found is not None:
            changed: dict[str, Any] = {part: np.ascontiguousarray(found)}
            case = replace_side(case, side, replace(numbers, **changed)) or case
    return case


def _change_table(
    change: TableChange, sides: str, scales: bool, case: ProductCase, found: Sides, _: OperandContract, *, in_float32: bool = False
) -> Sides | None:
    """in_float32: a number is stored in float32 before it is multiplied, so that one beyond it is infinite."""
    factors = dict(zip("ab", found, strict=True))
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.spec.kind is not OperandKind.BLOCK or (scales and numbers.spec.block.scale.bits > 8):
            return None
        assert numbers.codes is not None
        assert numbers.scales is not None
        table = change(numbers)
        if table is None:
            return None
        q = decode_table(numbers.spec.block.element).astype(np.float64) if scales else table
        sf = table[numbers.scales] if scales else decode_codes(numbers.scales, numbers.spec.block.scale).astype(np.float64)
        with np.errstate(all="ignore"):
            values = q[place_dense(numbers)] * np.repeat(sf, numbers.spec.block.k, axis=1)
            if in_float32:
                values = values.astype(np.float32).astype(np.float64)
        kept = factors[side].kept
        factors[side] = change_values(factors[side], values if kept is None else np.where(kept, values, 0))
    return factors["a"], factors["b"]


def list_operand_mistakes() -> Iterator[Mistake]:
    """Mistakes on either side and on both, the more common ones first."""
    for sides, words in SIDES:
        for text, change in SCALE_MISTAKES:
            yield Mistake(text.format(side=words), partial(_change_part, "scales", change, sides))
        for text, change_table in TABLE_MISTAKES:
            yield Mistake(text.format(side=words), keep_case, partial(_change_table, change_table, sides, True))
        beyond = f"the scale code FF of {words} is taken as 2^128, and numbers beyond float32 as infinite"
        yield Mistake(beyond, keep_case, partial(_change_table, _largest_scale, sides, True, in_float32=True))
        for text, change_codes in CODE_MISTAKES:
            place = "both sides" if len(sides) > 1 else "one side"  # which one, no sum tells
            yield Mistake(text.format(side=words, place=place), partial(_change_part, "codes", change_codes, sides))
        for text, change_table in ELEMENT_MISTAKES:
            yield Mistake(text.format(side=words), keep_case, partial(_change_table, change_table, sides, False))
        for what, value in (
            ("is ignored", lambda _: 1.0),
            ("is applied twice", lambda g: g * g),
            ("divides", lambda g: 1 / g if g else math.inf),
        ):
            yield Mistake(f"the tensor scale of {words} {what}", partial(_tensor_scale, sides=sides, change=value))
    for side in "ab":
        yield Mistake(f"the tensor scale of {side} is used for both sides", partial(_swap_tensor_scales, keep=side))
