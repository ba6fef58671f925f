"""Mistakes that kernels are known to make in products: what each would return, so that wrong outputs can be named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import Accumulator, Direction
from mxspec.elements import decode_table
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.reference import (
    Reference,
    allow,
    change_values,
    make_factor,
    refer,
    round_exactly,
)
from mxspec_conformance.targets.arrays import swizzle_128x4, unswizzle_128x4
from mxspec_conformance.targets.operands import Numbers, OperandKind

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: its words, and the case that a right kernel would have been given to return the same."""

    text: str
    #: The case as the mistaken kernel computes it; None where the mistake cannot be made there.
    change: Callable[[ProductCase], ProductCase | None]
    #: What becomes of the sides' numbers.
    factors: Callable[[ProductCase, Reference], Reference | None] | None = None
    #: What becomes of the correctly rounded outputs.
    outputs: Callable[[ProductCase, Floats], Floats | None] | None = None

    def explains(self, case: ProductCase, output: npt.NDArray[Any], accumulator: Accumulator) -> bool:
        """Whether a kernel of the class that makes this mistake returns these outputs."""
        return self._returns(case, output, accumulator, elsewhere=False)

    def fits(self, case: ProductCase, output: npt.NDArray[Any], accumulator: Accumulator) -> bool:
        """Whether it may return these outputs: also where the mistake cannot be made."""
        return self._returns(case, output, accumulator, elsewhere=True)

    def _returns(self, case: ProductCase, output: npt.NDArray[Any], accumulator: Accumulator, *, elsewhere: bool) -> bool:
        changed = self.change(case)
        if changed is None:
            return elsewhere
        reference = refer(make_factor(changed.a), make_factor(changed.b))
        if self.factors is not None:
            found = self.factors(changed, reference)
            if found is None:
                return elsewhere
            reference = found
        if self.outputs is None:
            return bool(allow(reference, changed, accumulator).accepts(output).all())
        exact = round_exactly(reference, replace(changed, out_dtype="float32")).astype(np.float64)
        want = self.outputs(changed, exact)
        if want is None:
            return elsewhere
        if elsewhere and accumulator.decides(reference.sums).all() is np.False_:
            return True  # what is returned need not be the exactly rounded sum
        y = output.astype(np.float64)
        largest = float(dot.OUTPUTS[case.out_dtype].max_value)  # beyond it a kernel may saturate or not
        return bool(((want == y) | (np.isnan(want) & np.isnan(y)) | (np.abs(exact) > largest)).all())


def _same(case: ProductCase) -> ProductCase | None:
    return case


def _side(case: ProductCase, side: str, numbers: Numbers | None) -> ProductCase | None:
    if numbers is None:
        return None
    return replace(case, a=numbers) if side == "a" else replace(case, b=numbers)


# One side's scales.

ScaleChange = Callable[[Codes, Numbers], Codes | None]


def _next_block(scales: Codes, _: Numbers) -> Codes | None:
    return None if scales.shape[1] < 2 else np.concatenate([scales[:, 1:], scales[:, -1:]], axis=1)


def _next_block_around(scales: Codes, _: Numbers) -> Codes | None:
    return None if scales.shape[1] < 2 else np.roll(scales, -1, axis=1)


def _next_in_memory(scales: Codes, _: Numbers) -> Codes | None:
    flat = scales.reshape(-1)
    return np.append(flat[1:], flat[-1:]).reshape(scales.shape) if scales.size > 1 else None


def _previous_block(scales: Codes, _: Numbers) -> Codes | None:
    return None if scales.shape[1] < 2 else np.concatenate([scales[:, :1], scales[:, :-1]], axis=1)


def _first_block(scales: Codes, _: Numbers) -> Codes | None:
    return np.repeat(scales[:, :1], scales.shape[1], axis=1) if scales.shape[1] > 1 else None


def _next_row(scales: Codes, _: Numbers) -> Codes | None:
    return np.concatenate([scales[1:], scales[-1:]]) if len(scales) > 1 else None


def _first_row(scales: Codes, _: Numbers) -> Codes | None:
    return np.repeat(scales[:1], len(scales), axis=0) if len(scales) > 1 else None


def _by_columns(scales: Codes, _: Numbers) -> Codes | None:
    return np.ascontiguousarray(scales.T).reshape(scales.shape) if min(scales.shape) > 1 else None


def _read_linear(scales: Codes, numbers: Numbers) -> Codes | None:
    if numbers.spec.scales != "128x4":
        return None
    return swizzle_128x4(scales)[: scales.size].reshape(scales.shape)


def _read_swizzled(scales: Codes, numbers: Numbers) -> Codes | None:
    if numbers.spec.scales != "row-major" or scales.shape[0] % 128 or scales.shape[1] % 4:
        return None
    return unswizzle_128x4(np.ascontiguousarray(scales).reshape(-1), scales.shape)


def _pairs_of_blocks(scales: Codes, _: Numbers) -> Codes | None:
    return np.repeat(scales[:, ::2], 2, axis=1)[:, : scales.shape[1]] if scales.shape[1] > 1 else None


def _one_for_all(scales: Codes, numbers: Numbers) -> Codes | None:
    one = float(1)
    table = decode_table(numbers.spec.block.scale)
    return np.full_like(scales, int(np.flatnonzero(table == one)[0]))


SCALE_MISTAKES: tuple[tuple[str, ScaleChange], ...] = (
    ("the scale of the next block of {side} is used", _next_block),
    ("the scale of the next block of {side} is used, the first one's for the last", _next_block_around),
    ("the scale of the next block of {side} in memory is used", _next_in_memory),
    ("the scale of the block before is used in {side}", _previous_block),
    ("the scale of the first block of a row of {side} is used for the whole row", _first_block),
    ("the scale of the next row of {side} is used", _next_row),
    ("the scales of the first row of {side} are used for all rows", _first_row),
    ("the scales of {side} are read column by column", _by_columns),
    ("the 128x4 tiles of {side}'s scales are read as rows", _read_linear),
    ("the rows of {side}'s scales are read as 128x4 tiles", _read_swizzled),
    ("two blocks of {side} share the first one's scale", _pairs_of_blocks),
    ("the block scales of {side} are ignored", _one_for_all),
)

# One side's scale codes as numbers.

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

# One side's element codes.


def _swap_nibbles(codes: Codes, _: Numbers) -> Codes | None:
    return codes.reshape(len(codes), -1, 2)[:, :, ::-1].reshape(codes.shape) if codes.shape[1] % 2 == 0 else None


def _drop_signs(codes: Codes, numbers: Numbers) -> Codes | None:
    return codes & np.uint8((1 << (numbers.spec.block.element.bits - 1)) - 1)


def _flip_signs(codes: Codes, numbers: Numbers) -> Codes | None:
    return codes ^ np.uint8(1 << (numbers.spec.block.element.bits - 1))


def _reverse_blocks(codes: Codes, numbers: Numbers) -> Codes | None:
    k = numbers.spec.block.k
    return codes.reshape(len(codes), -1, k)[:, :, ::-1].reshape(codes.shape)


def _halves_of_blocks(codes: Codes, numbers: Numbers) -> Codes | None:
    """Codes j and j + half of a block share a byte."""
    k = numbers.spec.block.k
    pairs = codes.reshape(len(codes), -1, k // 2, 2)
    return np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1).reshape(codes.shape)


def _first_row_codes(codes: Codes, _: Numbers) -> Codes | None:
    return np.repeat(codes[:1], len(codes), axis=0) if len(codes) > 1 else None


CODE_MISTAKES: tuple[tuple[str, Callable[[Codes, Numbers], Codes | None]], ...] = (
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
    return np.where(np.isnan(table), np.copysign(480.0, np.arange(len(table)) < 128), table)


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

# Places along k.


def _zero_places(where: Callable[[int, int], slice | npt.NDArray[np.intp]], _case: ProductCase, found: Reference) -> Reference | None:
    run = 32
    values = found.a.values.copy()
    if found.a.k < 2:
        return None
    values[:, where(found.a.k, run)] = 0
    return refer(change_values(found.a, values), found.b)


def _twice_places(where: Callable[[int, int], slice], _case: ProductCase, found: Reference) -> Reference | None:
    values = found.a.values.copy()
    values[:, where(found.a.k, 32)] *= 2
    return refer(change_values(found.a, values), found.b)


PLACES: tuple[tuple[str, Callable[[int, int], slice]], ...] = (
    ("the last k", lambda k, _: slice(k - 1, k)),
    ("the first k", lambda k, _: slice(0, 1)),
    ("the last block", lambda k, run: slice(max(k - run, 0), k)),
    ("the last half block", lambda k, run: slice(max(k - run // 2, 0), k)),
    ("the first block", lambda k, run: slice(0, min(run, k))),
    ("every odd k", lambda k, _: slice(1, k, 2)),
    ("every even k", lambda k, _: slice(0, k, 2)),
    ("the second half of k", lambda k, _: slice(k // 2, k)),
    ("the first half of k", lambda k, _: slice(0, k // 2)),
    ("what lies beyond a multiple of 64", lambda k, _: slice(k // 64 * 64, k)),
    ("what lies beyond a multiple of 128", lambda k, _: slice(k // 128 * 128, k)),
    ("what lies beyond a multiple of 256", lambda k, _: slice(k // 256 * 256, k)),
)

# Products and epilogues.


def _options(case: ProductCase, **changed: object) -> ProductCase | None:
    kept = {k: v for k, v in (case.options | changed).items() if v is not None}
    given = {k: v for k, v in case.options.items() if v is not None}
    same = set(kept) == set(given) and all(kept[k] is given[k] for k in kept)
    return None if same else replace(case, options=kept)


def _without(name: str, case: ProductCase) -> ProductCase | None:
    return _options(case, **{name: None}) if name in case.options else None


def _no_c(case: ProductCase) -> ProductCase | None:
    return _options(case, c=None, beta=None) if "c" in case.options else None


def _beta_one(case: ProductCase) -> ProductCase | None:
    return _options(case, beta=1.0) if "c" in case.options else None


def _alpha_on_all(case: ProductCase) -> ProductCase | None:
    alpha = case.options.get("alpha")
    if alpha is None or not {"c", "bias"} & set(case.options):
        return None
    changed = {}
    if "c" in case.options:
        changed["beta"] = case.options["beta"] * alpha
    if "bias" in case.options:
        changed["bias"] = (case.options["bias"].astype(np.float32) * np.float32(alpha)).astype(np.float32)
    return _options(case, **changed)


def _alpha_on_bias(case: ProductCase) -> ProductCase | None:
    if "alpha" not in case.options or "bias" not in case.options:
        return None
    return _options(case, bias=(case.options["bias"].astype(np.float32) * np.float32(case.options["alpha"])).astype(np.float32))


def _bias_twice(case: ProductCase) -> ProductCase | None:
    return _options(case, bias=case.options["bias"] * 2) if "bias" in case.options else None


def _shift_bias(case: ProductCase) -> ProductCase | None:
    return _options(case, bias=np.roll(case.options["bias"], -1)) if "bias" in case.options else None


def _first_bias(case: ProductCase) -> ProductCase | None:
    return _options(case, bias=np.full_like(case.options["bias"], case.options["bias"][0])) if "bias" in case.options else None


def _bias_of_rows(case: ProductCase) -> ProductCase | None:
    if "bias" not in case.options or "c" in case.options:
        return None
    m, n = case.a.shape[0], case.b.shape[0]
    by_row = np.resize(case.options["bias"], m)[:, None] * np.ones((1, n), np.float32)
    return _options(case, bias=None, c=by_row.astype(np.float32), beta=1.0)


def _transposed_c(case: ProductCase) -> ProductCase | None:
    if "c" not in case.options:
        return None
    c = case.options["c"]
    return _options(case, c=np.ascontiguousarray(c.T).reshape(c.shape))


def _tensor_scale(case: ProductCase, sides: str, change: Callable[[float], float | None]) -> ProductCase | None:
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.tensor_scale is None:
            return None
        changed = _side(case, side, replace(numbers, tensor_scale=change(numbers.tensor_scale)))
        assert changed is not None
        case = changed
    return case


def _swap_tensor_scales(case: ProductCase, keep: str) -> ProductCase | None:
    if case.a.tensor_scale is None or case.b.tensor_scale is None:
        return None
    kept = case.a.tensor_scale if keep == "a" else case.b.tensor_scale
    return replace(case, a=replace(case.a, tensor_scale=kept), b=replace(case.b, tensor_scale=kept))


def _transposed(_case: ProductCase, exact: Floats) -> Floats | None:
    return np.ascontiguousarray(exact.T).reshape(exact.shape) if min(exact.shape) > 1 else None


def _transposed_square(_case: ProductCase, exact: Floats) -> Floats | None:
    return exact.T if exact.shape[0] == exact.shape[1] else None


def _zeros(_case: ProductCase, exact: Floats) -> Floats:
    return np.zeros_like(exact)


def _cut_outputs(case: ProductCase, exact: Floats) -> Floats:
    return dot.round_floats(exact, dot.OUTPUTS[case.out_dtype], Direction.ZERO)


def _ties_away(case: ProductCase, exact: Floats) -> Floats | None:
    """A tie of float32 numbers is none after a step of 2**-40 away from zero."""
    return dot.round_floats(exact * (1 + 2.0**-40), dot.OUTPUTS[case.out_dtype]) if case.out_dtype != "float32" else None


def _through(dtype: str, case: ProductCase, exact: Floats) -> Floats | None:
    if dtype == case.out_dtype:
        return None
    return dot.round_floats(dot.round_floats(exact, dot.OUTPUTS[dtype]), dot.OUTPUTS[case.out_dtype])


def _doubled(_case: ProductCase, exact: Floats) -> Floats:
    return exact * 2


def _change_scales(change: ScaleChange, sides: str, case: ProductCase) -> ProductCase | None:
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.scales is None:
            return None
        found = change(numbers.scales, numbers)
        if found is not None:
            case = _side(case, side, replace(numbers, scales=found)) or case
    return case


def _change_codes(change: Callable[[Codes, Numbers], Codes | None], sides: str, case: ProductCase) -> ProductCase | None:
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.codes is None:
            return None
        found = change(numbers.codes, numbers)
        if found is not None:
            case = _side(case, side, replace(numbers, codes=np.ascontiguousarray(found))) or case
    return case


def _change_table(change: TableChange, sides: str, scales: bool, case: ProductCase, found: Reference) -> Reference | None:
    factors = {"a": found.a, "b": found.b}
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.spec.kind is not OperandKind.BLOCK:
            return None
        assert numbers.codes is not None
        assert numbers.scales is not None
        table = change(numbers)
        if table is None:
            return None
        q = decode_table(numbers.spec.block.element).astype(np.float64) if scales else table
        sf = table if scales else _table(numbers)
        with np.errstate(all="ignore"):
            values = q[numbers.codes] * np.repeat(sf[numbers.scales], numbers.spec.block.k, axis=1)
        factors[side] = change_values(factors[side], values)
    return refer(factors["a"], factors["b"])


#: Sides on which a mistake may be made, and how they are called.
SIDES = (("b", "b"), ("a", "a"), ("ab", "a and b"))


def list_mistakes() -> Iterator[Mistake]:
    """Every known mistake, the more common ones first."""
    for text, places in PLACES:
        yield Mistake(f"{text} is dropped" if "what" not in text else f"{text} along k is dropped", _same, partial(_zero_places, places))
    for sides, words in SIDES:
        for text, change in SCALE_MISTAKES:
            yield Mistake(text.format(side=words), partial(_change_scales, change, sides))
        for text, change_table in TABLE_MISTAKES:
            yield Mistake(text.format(side=words), _same, partial(_change_table, change_table, sides, True))
        for text, change_codes in CODE_MISTAKES:
            place = "both sides" if len(sides) > 1 else "one side"  # which one, no sum tells
            yield Mistake(text.format(side=words, place=place), partial(_change_codes, change_codes, sides))
        for text, change_table in ELEMENT_MISTAKES:
            yield Mistake(text.format(side=words), _same, partial(_change_table, change_table, sides, False))
        for what, value in (("is ignored", lambda _: 1.0), ("is applied twice", lambda g: g * g), ("divides", lambda g: 1 / g)):
            yield Mistake(f"the tensor scale of {words} {what}", partial(_tensor_scale, sides=sides, change=value))
    for side in "ab":
        yield Mistake(f"the tensor scale of {side} is used for both sides", partial(_swap_tensor_scales, keep=side))
    for text, places in PLACES:
        yield Mistake(f"{text} counts twice", _same, partial(_twice_places, places))
    for name in ("alpha", "bias"):
        yield Mistake(f"{name} is ignored", partial(_without, name))
    for text, change_case in (
        ("C is ignored", _no_c), ("beta is taken as one", _beta_one), ("alpha multiplies what is added, too", _alpha_on_all),
        ("alpha multiplies the bias, too", _alpha_on_bias), ("the bias is added twice", _bias_twice),
        ("the bias of the next column is added", _shift_bias), ("the first bias is added to every column", _first_bias),
        ("the bias is added along rows", _bias_of_rows), ("C is read transposed", _transposed_c),
    ):  # fmt: skip
        yield Mistake(text, change_case)
    for text, outputs in (
        ("the output is written transposed", _transposed), ("the output is transposed", _transposed_square),
        ("outputs are cut, not rounded", _cut_outputs), ("outputs midway are rounded away from zero", _ties_away), ("outputs are rounded to float16 on the way", partial(_through, "float16")),
        ("outputs are rounded to bfloat16 on the way", partial(_through, "bfloat16")), ("nothing is computed: all outputs are zero", _zeros),
        ("every product counts twice", _doubled),
    ):  # fmt: skip
        yield Mistake(text, _same, None, outputs)
