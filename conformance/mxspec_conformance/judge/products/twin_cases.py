"""Calls that follow one which is the same but for one thing, and what only a long, a wide or an empty part shows.

A kernel keeps prepared sides by something, takes sides of equal codes for one tensor, passes the dtype of the call before; takes
a factor of zero for none; adds long sums in fewer bits; leaves out what is multiplied by zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.making import ListCases, Maker
from mxspec_conformance.judge.products.operand_writer import OperandWriter
from mxspec_conformance.judge.products.spoiling import find_place, write_positive
from mxspec_conformance.judge.products.variety import list_options
from mxspec_conformance.targets.operands import Numbers, OperandKind

#: (m, n, k) of long sums: small in the others, beyond what is kept on a chip, whole and not.
_LONG = ((2, 3, 4096), (3, 2, 5152), (1, 2, 12288))
#: One row and one column as wide as several tiles, under an epilogue.
_WIDE = ((1, 131), (131, 1))


def _list_kept(maker: Maker) -> Iterator[ProductCase]:
    """Other codes under the same scales, but for the first row."""
    m, n, k = maker.sizes.fit(5, 12, 160)
    x, w = maker.integers(maker.a, m, k), maker.integers(maker.b, n, k)
    for side, writer, codes, back in (("b", maker.b, w, maker.a.numbers(x)), ("a", maker.a, x, maker.b.numbers(w))):
        other = np.concatenate([codes[:1], np.roll(codes[1:], 1, axis=1)]) if len(codes) > 1 else codes
        for which, given in (("", codes), (", all but the first row other", other)):
            numbers = writer.numbers(given)
            a, b = (back, numbers) if side == "b" else (numbers, back)
            yield ProductCase(topic="state", label=f"{side} under the same scales{which}", a=a, b=b)


def _list_equal_codes(maker: Maker) -> Iterator[ProductCase]:
    """Both sides of the same codes, under scales that differ from row to row."""
    if maker.a.spec.text != maker.b.spec.text or OperandKind.BLOCK is not maker.a.spec.kind:
        return
    m, n, k = maker.sizes.fit(12, 12, 128)
    if m != n:
        return
    codes = maker.integers(maker.a, m, k)
    powers = np.arange(m) % 3
    yield ProductCase(
        topic="block-scale",
        label="equal codes under other scales",
        a=maker.a.numbers(codes, np.repeat(powers[:, None], k // maker.a.run, axis=1)),
        b=maker.b.numbers(codes),
    )


def _list_long(maker: Maker) -> Iterator[ProductCase]:
    """Sums of thousands of numbers, of as many bits as are certain."""
    for m, n, k in dict.fromkeys(maker.sizes.fit(*size) for size in _LONG):
        a, b = (writer.numbers(maker.integers(writer, rows, k)) for writer, rows in ((maker.a, m), (maker.b, n)))
        yield ProductCase(topic="sum", label=f"long integers, k = {k}", a=a, b=b)


def _list_factors(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Factors of zero with C, negative ones with what is added; one wide row, one tall column."""
    m, n, k = maker.sizes.fit(6, 10, 128)
    options = dict(list_options(m, n, maker.takes, dtype))
    sides = [writer.numbers(maker.short(writer, rows, k)) for writer, rows in ((maker.a, m), (maker.b, n))]
    if {"beta", "c"} <= maker.takes:
        c = options["C"]["c"]
        yield ProductCase(topic="epilogue", label="beta 0 and C", a=sides[0], b=sides[1], options={"beta": 0.0, "c": c})
        if "alpha" in maker.takes:
            for alpha in (-2.0, 0.0):
                given = {"alpha": alpha, "beta": 1.0, "c": c}
                yield ProductCase(topic="epilogue", label=f"alpha {alpha:g} and C", a=sides[0], b=sides[1], options=given)
    if {"alpha", "bias"} <= maker.takes:
        given = {"alpha": -2.0, "bias": options["bias"]["bias"]}
        yield ProductCase(topic="epilogue", label="alpha -2 and bias", a=sides[0], b=sides[1], options=given)
    for m, n, k in dict.fromkeys(maker.sizes.fit(rows, columns, 64) for rows, columns in _WIDE):
        wide = [writer.numbers(maker.short(writer, rows, k)) for writer, rows in ((maker.a, m), (maker.b, n))]
        for label, given in list_options(m, n, maker.takes, dtype):
            yield ProductCase(topic="epilogue", label=f"{label}, {m} x {n}", a=wide[0], b=wide[1], options=given)


def _list_against_zeros(maker: Maker) -> Iterator[ProductCase]:
    """A NaN or an infinity against zeros alone: zero times either is NaN. Kernels leave out tiles of zeros, whatever their size."""
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        if any(p.spec.kind is OperandKind.AFFINE or p.spec.sparsity is not None for p in (writer, other)):
            continue
        m, n, k = maker.sizes.fit(5, 6, 128)
        rows, across = (m, n) if side == "a" else (n, m)
        numbers = write_positive(writer, rows, k)
        row = min(1, rows - 1)
        place = find_place(numbers, row)
        back = other.numbers(np.full((across, k), other.code_of(0.0)))
        for topic, label, changed in writer.spoil(numbers, row, place, place // writer.run):
            a, b = (changed, back) if side == "a" else (back, changed)
            yield ProductCase(topic=topic, label=f"{label} in {side}, against zeros", a=a, b=b)
            opposite = _spoil_opposite(writer, changed, row, place) if topic == "inf" else None
            if opposite is not None:
                ones = other.numbers(np.full((across, k), other.code_of(1.0)))
                a, b = (opposite, ones) if side == "a" else (ones, opposite)
                yield ProductCase(topic=topic, label=f"{label} and its negative in {side}", a=a, b=b)


def _spoil_opposite(writer: OperandWriter, numbers: Numbers, row: int, place: int) -> Numbers | None:
    """The side with the negative of what a row has at a place at the next place, too; None where the format has no codes of its own."""
    held = numbers.held.copy()
    if writer.spec.kind is OperandKind.PLAIN:
        held[row, place + 1] = -held[row, place]
    elif writer.spec.kind is OperandKind.BLOCK:
        held[row, place + 1] = held[row, place] ^ np.uint8(1 << (writer.spec.block.element.bits - 1))
    else:
        return None
    return numbers.with_held(held)


def list_other_outputs(maker: Maker, dtypes: Sequence[str]) -> Iterator[ProductCase]:
    """The same product in another dtype, and then in the first: sums of more bits than either narrow one holds."""
    for number, dtype in enumerate(dtypes[1:]):
        m, n, k = maker.sizes.fit(5 + 2 * number, 7, 192)
        a, b = (writer.numbers(maker.integers(writer, rows, k)) for writer, rows in ((maker.a, m), (maker.b, n)))
        for own in (dtype, dtypes[0], dtype):
            yield ProductCase(topic="state", label=f"the same product in {dtype} and in {dtypes[0]}: {own}", a=a, b=b, out_dtype=own)


#: Groups of cases, asked in the first dtype of outputs.
FIRST: dict[str, ListCases] = {
    "same scales": lambda maker, _: _list_kept(maker),
    "equal codes": lambda maker, _: _list_equal_codes(maker),
    "long": lambda maker, _: _list_long(maker),
    "factors": _list_factors,
    "against zeros": lambda maker, _: _list_against_zeros(maker),
}
