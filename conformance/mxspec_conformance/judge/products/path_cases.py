"""Everything again in the shapes by which kernels choose another path: scales, what is added, roundings, NaN and Inf.

A vector, a few rows and many columns, whole tiles, a split k: each is a path of its own, with its own epilogue, its own rounding
of outputs and its own idea of scales. What is right in one of them says nothing of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.draw import takes_tensor_scale, with_tensor_scale
from mxspec_conformance.judge.products.epilogue_cases import list_added_ends, list_added_specials, list_key_sets
from mxspec_conformance.judge.products.epilogues import draw_many_bits
from mxspec_conformance.judge.products.extreme_cases import list_overflows, list_subnormals
from mxspec_conformance.judge.products.late_cases import list_every_bit, list_memory
from mxspec_conformance.judge.products.making import ListCases, Maker
from mxspec_conformance.judge.products.operand_writer import OperandWriter
from mxspec_conformance.judge.products.scale_cases import list_scale_codes
from mxspec_conformance.judge.products.spoiling import find_place, has_one_infinity, write_few, write_positive
from mxspec_conformance.judge.products.variety import draw_added_memory
from mxspec_conformance.targets.operands import Numbers

#: (m, n, least k): vectors of either side, short and long, few rows and many columns, several small tiles both ways, a long k under
#: several tiles of columns, a longer one. None is whole tiles in every direction.
_PATHS = (
    (1, 40, 352), (40, 1, 352), (1, 20, 96), (20, 1, 96), (68, 72, 64), (4, 300, 64), (17, 32, 352), (3, 132, 4224), (2, 3, 8192),
)  # fmt: skip
#: Tiles of a long k, in the first dtype of outputs alone: their sums take the judge most of its time.
_LONG_TILES = 33, 34, 800
#: Exponents of a block's scale, by row and block, of either side; and the bits that their products take from the sums.
_STEPS, _SPREAD, _BITS = ((1, 1), (2, 1)), 3, 4
_TENSOR_SCALES = 0.3712, 1.9045
#: Shapes in which one number or block of the last row is NaN or infinite; whole tiles along k, whose tail may be lost for another reason.
_SPOILT = ((1, 40, 384), (40, 1, 384), (36, 40, 256))
#: Shapes under which scales, and outputs, lie at their ends.
_UNDER_ENDS, _OUTPUTS = ((1, 7), (7, 1), (17, 20)), ((1, 9), (9, 1), (17, 20))
#: Exponent of products whose sums float16 rounds.
_ROUNDED = -26
#: Vectors, small tiles, and more rows than a large one, of every code, scale and offset, and of ordinary numbers.
_ORDINARY = ((1, 40, 64), (40, 1, 64), (36, 40, 64), (132, 8, 64), (8, 132, 64))
#: Products of a sum that has numbers of every code, few enough to be certain.
_PRODUCTS = 8
#: Rows and columns that lie in other memory.
_LAID = 40, 48


def write_by_block(maker: Maker, writer: OperandWriter, rows: int, k: int, bits: int) -> Numbers:
    """Integers of sums of so many bits; no block has the scale of its neighbours along k or in other rows."""
    run = math.lcm(maker.a.run, maker.b.run)
    by_row, by_block = _STEPS[writer is maker.b]
    turn = (np.arange(rows)[:, None] * by_row + np.arange(-(-k // run))[None, :] * by_block) % _SPREAD
    powers = np.repeat(turn - 1, run // writer.run, axis=1)[:, : -(-k // writer.run)]
    return writer.numbers(maker.integers(writer, rows, k, bits=max(bits - _BITS, 1)), powers)


def _list_sums(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Sums of as many bits as are certain, alone, under tensor scales and under an epilogue."""
    for m, n, k in dict.fromkeys(maker.sizes.fit(*path) for path in _PATHS):
        yield from _list_path(maker, dtype, m, n, k)


def _list_path(maker: Maker, dtype: str, m: int, n: int, k: int) -> Iterator[ProductCase]:
    where = f"{m} x {n} x {k}"
    sides = [write_by_block(maker, writer, rows, k, maker.bits) for writer, rows in ((maker.a, m), (maker.b, n))]
    yield ProductCase(topic="block-scale", label=f"every block another scale, {where}", a=sides[0], b=sides[1])
    scaled = [takes_tensor_scale(writer.spec) for writer in (maker.a, maker.b)]
    if any(scaled):
        given = [with_tensor_scale(x, v) if s else x for x, v, s in zip(sides, _TENSOR_SCALES, scaled, strict=True)]
        yield ProductCase(topic="tensor-scale", label=f"any tensor scales, {where}", a=given[0], b=given[1])
    for label, bits, options in draw_many_bits(m, n, dtype, maker.draw):
        taken = _take(maker, options)
        if taken:
            short = [write_by_block(maker, writer, rows, k, min(maker.bits, bits)) for writer, rows in ((maker.a, m), (maker.b, n))]
            yield ProductCase(topic="epilogue", label=f"{label}, {where}", a=short[0], b=short[1], options=taken)


def _take(maker: Maker, options: dict[str, Any]) -> dict[str, Any]:
    """What of an epilogue the target takes; C goes with beta."""
    has_c = {"beta", "c"} <= maker.takes
    return {name: x for name, x in options.items() if name in maker.takes and (has_c or name not in ("beta", "c"))}


def _list_ends(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Sums beyond the output's numbers, and among its smallest."""
    for rows, columns in _OUTPUTS:
        shape = rows, columns
        for case in (*list_overflows(maker, dtype, shape=shape), *list_subnormals(maker, dtype, shape=shape)):
            yield replace(case, label=f"{case.label}, {len(case.a.held)} x {len(case.b.held)}")
        for case in list_subnormals(maker, dtype, shape=shape, power=_ROUNDED):
            yield replace(case, label=f"rounded {case.label}, {len(case.a.held)} x {len(case.b.held)}")


def _list_spoilt(maker: Maker) -> Iterator[ProductCase]:
    """NaN and Inf in the last row and its last block; not of sparse sides, where wrong metadata may drop them again."""
    if maker.a.spec.sparsity is not None or maker.b.spec.sparsity is not None:
        return
    for path in _SPOILT:
        for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
            m, n, k = maker.sizes.fit(*path)
            place = k - 2
            # Of a kernel that sums in few bits, too, nothing but that row may be wrong here.
            a, b = ((write_few if p is writer else write_positive)(p, size, k, place) for p, size in ((maker.a, m), (maker.b, n)))
            chosen = a if side == "a" else b
            row = len(chosen.held) - 1
            for topic, label, changed in writer.spoil(chosen, row, find_place(chosen, row, place), -1):
                if topic == "inf" and not has_one_infinity(writer, other):
                    continue
                pair = (changed, b) if side == "a" else (a, changed)
                yield ProductCase(topic=topic, label=f"{label} at the end of {side}, {m} x {n} x {k}", a=pair[0], b=pair[1])


def _list_scale_ends(maker: Maker) -> Iterator[ProductCase]:
    for rows, columns in _UNDER_ENDS:
        for case in list_scale_codes(maker, rows, columns):
            yield replace(case, label=f"{case.label}, {len(case.a.held)} x {len(case.b.held)}")


def _list_laid(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Operands, C and bias of more rows and columns than a tile, in memory next to what is not theirs."""
    yield from list_memory(maker, *_LAID)
    yield from draw_added_memory(maker.a, maker.b, maker.sizes, maker.short, maker.takes, dtype, shape=_LAID)


def _list_every_code(maker: Maker) -> Iterator[ProductCase]:
    """Every code, scale and offset of one side in turn, times few ones."""
    for path in _ORDINARY:
        m, n, k = maker.sizes.fit(*path)
        for side, writer, few in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
            rows, across = (m, n) if side == "a" else (n, m)
            codes = np.full((across, k), few.code_of(0.0))
            places = (np.arange(across)[:, None] * 3 + np.arange(_PRODUCTS)[None, :] * (k // _PRODUCTS)) % k
            codes[np.arange(across)[:, None], places] = few.code_of(1.0)
            pair = writer.positions(rows, k), few.numbers(codes)
            a, b = pair if side == "a" else pair[::-1]
            yield ProductCase(topic="interval", label=f"every code of {side}, few products, {m} x {n} x {k}", a=a, b=b)


def _list_ordinary(maker: Maker) -> Iterator[ProductCase]:
    """Short sums of numbers as they come: what rounds them on their way rounds more than the sum may."""
    for path in _ORDINARY:
        m, n, k = maker.sizes.fit(*path)
        x, w = (maker.draw.standard_normal((rows, k)) for rows in (m, n))
        yield ProductCase(topic="interval", label=f"normal, {m} x {n} x {k}", a=maker.a.quantized(x), b=maker.b.quantized(w))


def _list_equal_rows(maker: Maker) -> Iterator[ProductCase]:
    """Rows of the same codes, each under scales of its own."""
    m, n, k = maker.sizes.fit(6, 10, 128)
    sides = []
    for writer, rows in ((maker.a, m), (maker.b, n)):
        powers = np.tile((np.arange(rows) % 3)[:, None], (1, -(-k // writer.run)))
        sides.append(writer.numbers(np.tile(maker.integers(writer, 1, k, bits=max(maker.bits - _BITS, 1)), (rows, 1)), powers))
    yield ProductCase(topic="block-scale", label="rows of equal codes under other scales", a=sides[0], b=sides[1])


#: Groups of cases: in every dtype of outputs, each in every shape; what does not depend on it in the first one.
EVERY: dict[str, ListCases] = {
    "paths": _list_sums, "paths at the ends": _list_ends, "sets of keys": list_key_sets, "added at the ends": list_added_ends,
    "added specials": list_added_specials,
}  # fmt: skip
FIRST: dict[str, ListCases] = {
    "long tiles": lambda maker, dtype: _list_path(maker, dtype, *maker.sizes.fit(*_LONG_TILES)),
    "specials at the end": lambda maker, _: _list_spoilt(maker),
    "scales of paths": lambda maker, _: _list_scale_ends(maker),
    "tiles in memory": _list_laid,
    "every code": lambda maker, _: _list_every_code(maker),
    "ordinary paths": lambda maker, _: _list_ordinary(maker),
    "every bit of tiles": lambda maker, _: list_every_bit(maker, 20),
    "equal rows": lambda maker, _: _list_equal_rows(maker),
}
