"""Cases by which mistakes were found that all others let pass; drawn by numbers of their own, so that those of the others stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.making import ListCases, Maker
from mxspec_conformance.judge.products.spoiling import write_positive
from mxspec_conformance.judge.products.variety import list_options
from mxspec_conformance.targets.operands import Numbers, OperandKind

#: k at which kernels split a sum among their units.
_SPLIT = 4096
#: How many powers of two lie between one number and those that follow: more than the bits of FP8 units.
_APART = 14
#: So many small ones are more than what a class that promotes may lose of the large one, and of the zeros in its block.
_MANY = 12288
#: Bits of the numbers of a plain side.
_BITS = {"float32": 24, "bfloat16": 8, "float16": 11, "float8_e4m3fn": 4, "float8_e5m2": 3}


def _list_split(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """What is added to a long sum is added once; the next long sum of the same shape starts from zero."""
    m, n, k = maker.sizes.fit(3, 5, _SPLIT)
    for name in ("a long sum", "a long sum of other numbers"):
        a, b = (writer.numbers(maker.short(writer, rows, k)) for writer, rows in ((maker.a, m), (maker.b, n)))
        yield ProductCase(topic="state", label=f"{name}, k = {k}", a=a, b=b)
    for label, options in list_options(m, n, maker.takes, dtype):
        yield ProductCase(topic="epilogue", label=f"{label}, k = {k}", a=a, b=b, options=options)


def list_memory(maker: Maker, rows_of_a: int = 7, rows_of_b: int = 9) -> Iterator[ProductCase]:
    """Scales of which each row has its own, next to memory that is not theirs."""
    m, n, k = maker.sizes.fit(rows_of_a, rows_of_b, 128)
    among = "" if rows_of_a == 7 else f", {m} x {n}"
    sides = [
        writer.numbers(maker.integers(writer, rows, k), np.tile((np.arange(rows) % 7 - 3)[:, None], (1, -(-k // writer.run))))
        for writer, rows in ((maker.a, m), (maker.b, n))
    ]
    for arrangement in ("offset", "rows", "padded", "columns", "fortran", "reversed"):
        label = f"every row another scale{among}, in memory: {arrangement}"
        yield ProductCase(topic="memory", label=label, a=sides[0], b=sides[1], before=("arranged", arrangement))


def _list_zeros_under_nan(maker: Maker) -> Iterator[ProductCase]:
    """A block of zeros whose scale is NaN: all of its numbers are. Nothing else is in its row, however wide a tile is."""
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        if writer.spec.kind is not OperandKind.BLOCK or any(
            p.spec.kind is OperandKind.AFFINE or p.spec.sparsity is not None for p in (writer, other)
        ):
            continue
        code = writer.spec.block.scale.nan_code
        if code is None:
            continue
        m, n, k = maker.sizes.fit(5, 6, 128)
        rows, across = (m, n) if side == "a" else (n, m)
        numbers, back = write_positive(writer, rows, k), write_positive(other, across, k)
        assert numbers.codes is not None
        assert numbers.scales is not None
        codes, scales, row = numbers.codes.copy(), numbers.scales.copy(), min(1, rows - 1)
        codes[row] = writer.code_of(0.0)
        scales[row, 0] = code
        injected = replace(numbers, codes=codes, scales=scales)
        a, b = (injected, back) if side == "a" else (back, injected)
        yield ProductCase(topic="nan", label=f"a NaN scale of zeros in {side}", a=a, b=b)


def _list_one_large(maker: Maker) -> Iterator[ProductCase]:
    """A large number and thousands of small ones: a narrow sum that is not promoted in time loses all of these."""
    m, n, k = maker.sizes.fit(2, 3, _MANY)
    sides, left = [], _APART
    for writer, rows in ((maker.a, m), (maker.b, n)):
        if writer.spec.kind is OperandKind.AFFINE or writer.spec.sparsity is not None:
            return
        low = max(writer.powers[0], -_APART // 2)
        high = min(writer.powers[1], low + left)
        left -= high - low
        codes = np.full((rows, k), writer.code_of(1.0))
        codes[:, 1 : writer.run] = writer.code_of(0.0)
        powers = np.full((rows, -(-k // writer.run)), low)
        powers[:, 0] = high
        sides.append(writer.numbers(codes, powers))
    if not left:
        yield ProductCase(topic="interval", label=f"one large number among small ones, k = {k}", a=sides[0], b=sides[1])


def list_every_bit(maker: Maker, least_rows: int = 12) -> Iterator[ProductCase]:
    """One-hot rows against floats of as many bits as they have: a kernel that splits or converts them loses some."""
    for side, writer, hot in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        if writer.spec.kind is not OperandKind.PLAIN or hot.spec.kind is OperandKind.AFFINE or writer.spec.sparsity or hot.spec.sparsity:
            continue
        k = maker.sizes.fit(1, 1, 32)[2]
        m, n, _ = maker.sizes.fit(least_rows, k, k) if side == "a" else maker.sizes.fit(k, least_rows, k)
        rows, across = (m, n) if side == "a" else (n, m)
        bits = _BITS[writer.spec.format]
        odd = maker.draw.integers(1 << (bits - 2), 1 << (bits - 1), (rows, k)) * 2 + 1
        signed = odd * maker.draw.choice([-1.0, 1.0], (rows, k)) * 2.0 ** (1 - bits)
        numbers: Numbers = writer.quantized(signed)
        ones = hot.one_hot(across, k, np.where(np.arange(across) < k, np.arange(across), -1))
        a, b = (numbers, ones) if side == "a" else (ones, numbers)
        yield ProductCase(
            topic="identity", label=f"one-hot rows, every bit of {side}{'' if least_rows == 12 else f', {rows} rows'}", a=a, b=b
        )


#: Groups of cases, asked in the first dtype of outputs.
FIRST: dict[str, ListCases] = {
    "long sums in turn": _list_split,
    "rows of other scales in memory": lambda maker, _: list_memory(maker),
    "zeros under NaN": lambda maker, _: _list_zeros_under_nan(maker),
    "every bit": lambda maker, _: list_every_bit(maker),
    "one large": lambda maker, _: _list_one_large(maker),
}
