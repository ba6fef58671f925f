"""Operands at the sizes of tiles: few products in each sum, so that every class of additions gives one result, however long k is.

Kernels change their path at such sizes: whole tiles take another one than tails, a single row another one than many, a long k is
split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.products.operand_writer import OperandWriter
from mxspec_conformance.targets.operands import Numbers
from mxspec_conformance.targets.product_sizes import Sizes

#: Products of a sum, and how large each may be: together they have the eight bits of the narrowest class.
_PRODUCTS, _MOST = 8, 31
#: m and n at which tiles are whole, and which side has few numbers.
_TILES = (
    (8, 8, "a"), (16, 16, "b"), (32, 32, "a"), (64, 64, "b"), (128, 128, "a"), (4, 256, "a"), (256, 4, "b"), (2, 512, "b"), (512, 2, "a"),
    (2, 1024, "a"), (1024, 2, "b"),
)  # fmt: skip
#: Vectors of a long k, and which side has few numbers.
_VECTORS = ((1, 40, 2048, "b"), (40, 1, 2048, "a"))
#: k at which tiles are whole or loops are split, and which side has few numbers.
_LENGTHS = ((384, "a"), (768, "a"), (1024, "a"), (1024, "b"), (1536, "a"), (2048, "b"), (4096, "a"), (4128, "b"))
#: A sum longer than any above, and its rows.
_LONGEST = 12288, 6
#: Rows of the side of few numbers where k is long: together they have some in every tile.
_ROWS = 32
#: Rows up to which as many blocks as rows are drawn.
_SQUARE = 16

#: Label, a and b.
Sides = tuple[str, Numbers, Numbers]


def draw_tiles(a: OperandWriter, b: OperandWriter, sizes: Sizes) -> Iterator[Sides]:
    """Sums of few products, in all sizes of tiles that a target takes; each once."""
    run = math.lcm(a.run, b.run)
    wanted = [(m, n, 2 * run, side) for m, n, side in _TILES]
    wanted += [(_ROWS, 3, k, side) if side == "a" else (3, _ROWS, k, side) for k, side in _LENGTHS]
    wanted += _VECTORS
    drawn = set()
    for m_least, n_least, k_least, side in wanted:
        m, n, k = sizes.fit(m_least, n_least, k_least)
        if (m, n, k, side) in drawn:
            continue
        drawn.add((m, n, k, side))
        few, many = (a, b) if side == "a" else (b, a)
        pair = _draw_few(few, many, *((m, n) if side == "a" else (n, m)), k)
        yield f"{m} x {n} x {k}, few products", *(pair if side == "a" else pair[::-1])


def draw_longest(a: OperandWriter, b: OperandWriter, sizes: Sizes) -> Sides:
    """The longest sum, of few products: a class whose other long sums nothing bounds is asked for it."""
    k_least, rows = _LONGEST
    m, n, k = sizes.fit(rows, 3, k_least)
    return f"{m} x {n} x {k}, few products", *_draw_few(a, b, m, n, k)


def _draw_few(few: OperandWriter, many: OperandWriter, rows: int, across: int, k: int) -> tuple[Numbers, Numbers]:
    """Rows with a one in each eighth of k, the first row's at the ends; scales along k of the two sides take each other back."""
    edges = np.linspace(0, k, _PRODUCTS + 1).astype(int)
    places = np.stack(
        [edges[i + 1] - 1 - (np.arange(rows) * max((edges[i + 1] - edges[i]) // rows, 1) + np.arange(rows) // 7) % (edges[i + 1] - edges[i])
         for i in range(_PRODUCTS)], axis=1,
    )  # fmt: skip
    codes = np.full((rows, k), few.code_of(0.0))
    codes[np.arange(rows)[:, None], places] = few.code_of(1.0)
    codes[0, 0] = few.code_of(1.0)
    chosen = many.lattice(_MOST - 4)
    # Zeros are aligned near one: of as many codes whole numbers leave a narrow sum nothing to cut.
    whole = np.flatnonzero((many.values == np.rint(many.values)) & (np.abs(many.values) <= _MOST - 4))
    chosen = whole if len(whole) == len(chosen) else chosen
    return few.numbers(codes, _take_powers(few, many, rows, k, 1)), many.numbers(
        many.pick(chosen, across, k), _take_powers(few, many, across, k, -1, of_many=True)
    )


def _take_powers(few: OperandWriter, many: OperandWriter, rows: int, k: int, sign: int, *, of_many: bool = False) -> npt.NDArray[np.intp]:
    """Exponents of runs along k that both sides have with opposite signs, and one of its own for each row."""
    run = math.lcm(few.run, many.run)
    low, high = max(few.powers[0], -many.powers[1]), min(few.powers[1], -many.powers[0])
    turn = np.arange(-(-k // run))
    powers = sign * (low + 1 + turn * 5 % (high - low - 1))
    own = (many if of_many else few).run
    repeated: npt.NDArray[np.intp] = np.repeat(powers, run // own)[: -(-k // own)] + (np.arange(rows) % 3 - 1)[:, None]
    return repeated


def draw_square(a: OperandWriter, b: OperandWriter, sizes: Sizes, bits: int) -> Iterator[Sides]:
    """As many rows as blocks on both sides, each block of each row another scale: scales read by columns have the same shape.

    bits: of sums that are certain.
    """
    run = math.lcm(a.run, b.run)
    most = max(math.isqrt((1 << bits) // (2 * run)), 1)
    rows = math.lcm(sizes.m, sizes.n, 8)
    if rows > _SQUARE or sizes.fit(1, 1, rows * run)[2] != rows * run:
        return
    k = rows * run
    turn, at = np.mgrid[0:rows, 0:rows]
    sides = []
    for writer, (by_row, by_run) in ((a, (3, 1)), (b, (1, 5))):
        low, high = writer.powers
        powers = low + (turn * by_row + at * by_run) % (high - low + 1)
        codes = writer.pick(writer.lattice(most), rows, k)
        if writer is a:
            codes[np.arange(k) // run != np.arange(rows)[:, None]] = writer.code_of(0.0)
        sides.append(writer.numbers(codes, np.repeat(powers, run // writer.run, axis=1)))
    yield f"as many rows as blocks, {rows} x {rows} x {k}", sides[0], sides[1]
