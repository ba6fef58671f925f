"""The call matrix as data: sizes at which kernels change their path, places in memory, axes, ragged ends.

Sizes are rows and columns of elements. Each has a reason; those that are drawn stand in for the ones nobody thought of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from zlib import crc32

from mxspec_vectors.points import Stream


@dataclass(frozen=True, slots=True)
class Size:
    """The shape of a call, in rows and columns of elements."""

    rows: int
    columns: int
    why: str
    #: Whether every dtype and tensor scale is asked in it, not the first alone.
    common: bool = False
    #: Whether the quick level makes it: of the first format, and of every other one those that are common and of few numbers.
    quick: bool = False

    @property
    def elements(self) -> int:
        """How many numbers a call holds."""
        return self.rows * self.columns

    @property
    def salt(self) -> int:
        """What is drawn for the size, and which formats share it: no other size moves it."""
        return crc32(b"%d x %d" % (self.rows, self.columns)) >> 12

    def in_blocks(self, k: int) -> Size:
        """The size with its columns raised to whole blocks of k."""
        return replace(self, columns=-(-self.columns // k) * k)


#: Rows, and columns of models.
MODELS = (
    (2, 2880), (64, 2880), (16, 2048), (16, 4096), (3, 5120), (4, 6144), (1, 7168), (17, 7168), (8, 2560),
    (5, 3072), (2, 11008), (1, 14336), (33, 1536), (2, 3584), (2, 13824), (2, 18944), (1, 28672),
)  # fmt: skip
#: Matrices.
SIZES: tuple[Size, ...] = (
    Size(3, 96, "fewer rows than blocks"),
    Size(16, 512, "a row of 512, small", quick=True),
    Size(64, 64, "square", common=True, quick=True),
    Size(31, 1056, "odd rows, odd blocks", common=True, quick=True),
    Size(33, 992, "odd rows, odd blocks, just below 1024 columns"),
    Size(32, 1024, "as many rows as blocks of 32, or half as many as blocks of 16", common=True, quick=True),
    Size(64, 1024, "as many rows as blocks of 16"),
    Size(1, 2048, "one row of a power of two", common=True),
    Size(1, 4096, "one row of a power of two"),
    Size(2, 8224, "more than 256 blocks a row, odd"),
    Size(7, 8160, "odd rows, 8192 columns less a block"),
    Size(5, 9600, "odd rows, 300 blocks"),
    Size(4, 8192, "8192 columns", common=True, quick=True),
    Size(128, 128, "one aligned tile of 128 x 128", quick=True),
    Size(128, 256, "two aligned tiles side by side", common=True, quick=True),
    Size(256, 128, "two aligned tiles below each other"),
    Size(129, 128, "one row more than a tile"),
    Size(127, 160, "one row less than a tile, a column of tiles broken"),
    Size(130, 288, "three columns of scale tiles, the last one broken"),
    Size(384, 384, "aligned by 128 and by nothing larger", quick=True),
    Size(256, 512, "2^17 elements", common=True, quick=True),
    Size(1, 12288, "384 blocks of 32"),
    Size(3, 16384, "16,384 columns", quick=True),
    Size(1, 32768, "1024 blocks of 32"),
    Size(300, 2048, "more rows than a tile, many columns"),
    Size(512, 512, "square, 2^18 elements"),
    Size(1000, 992, "no power of two"),
    Size(1, 131072, "2^17 elements in one row"),
    Size(2048, 64, "2^17 elements"),
    *(Size(rows, columns, "columns of models that people run") for rows, columns in MODELS),
    Size(4096, 128, "thousands of rows of several blocks"),
    Size(5000, 160, "thousands of rows of several blocks, no power of two"),
    Size(9000, 160, "many thousands of rows of several blocks", common=True),
    Size(67, 4128, "a prime number of rows, wide"),
    Size(101, 4096, "a prime number of rows, wide"),
    Size(2, 524288, "half a million columns"),
    Size(128, 8192, "2^20 elements, 8192 columns"),
    Size(1024, 1024, "2^20 elements, square", common=True, quick=True),
    Size(16384, 64, "2^20 elements"),
    Size(1, 1048576, "2^20 elements in one row"),
    Size(2048, 2048, "2^22 elements, whole tiles: weights are powers of two"),
    Size(2049, 2080, "more than 2^22 elements, odd rows, blocks next to those of tiles"),
)

#: Rows of one block each.
TALL: tuple[Size, ...] = tuple(
    Size(rows, 0, why, common, quick)
    for rows, why, common, quick in (
        (257, "256 blocks and one", True, False),
        (383, "one row less than 384", False, False),
        (384, "384 blocks", False, True),
        (512, "512 blocks", False, False),
        (1023, "one row less than 1024", False, False),
        (1024, "1024 blocks", False, True),
        (1025, "one row more than 1024", False, True),
        (4096, "4096 rows", False, True),
        (4097, "4096 blocks and one", True, True),
        (16384, "16,384 blocks", True, False),
        (16385, "16,384 blocks and one", False, False),
        (32768, "32,768 rows", False, False),
        (65535, "the largest grid in y and z", False, False),
        (65536, "one more than the largest grid in y and z", True, True),
        (70001, "beyond 65,536 rows", False, False),
    )
)

#: Rows, in steps of a warp, that no power of two is near; and squares of elements.
STEPS, SQUARES = (96, 160, 192, 224, 320, 448, 640, 768, 896), (96, 160, 192, 256, 320)
#: How many times as long one side of a matrix is as the other.
RATIOS = (3, 5, 6, 7)
#: Every number of rows, and of blocks in a row, up to this one is asked once.
FEW = 24
#: Rows, columns, or items along a row, at which kernels change their path: the sizes of tiles and vectors, and the adjacent ones.
EDGES = (2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 129, 255, 256, 257, 511, 513)


def list_small(k: int) -> list[Size]:
    """Calls of few rows and blocks, and of whole warps of rows."""
    alone = [Size(rows, k, "every small number of items", common=rows <= 3) for rows in range(1, FEW + 1)]
    few = [Size(rows, (1 + rows * 7 % FEW) * k, "every number of rows and of blocks, small") for rows in range(1, FEW + 1)]
    steps = [Size(rows, 3 * k, "whole warps of rows, no power of two") for rows in STEPS]
    ratios = [(64, 64 * n) for n in RATIOS] + [(64 * n, 64) for n in RATIOS]
    return [
        *alone,
        *few,
        *steps,
        *(Size(n, n, "square") for n in SQUARES),
        *(Size(r, c, "one side a multiple of the other") for r, c in ratios),
    ]


#: Columns for which kernels are compiled alone, in each dtype.
COMPILED = (1536, 2048, 3072, 4096, 5120, 7168, 8192)


def list_compiled() -> list[Size]:
    """Calls of a few rows with such columns."""
    return [Size(3, columns, "columns of models that people run") for columns in COMPILED]


def list_adjacent_powers(k: int) -> list[Size]:
    """Rows a block longer and a block shorter than a power of two."""
    powers = [1 << n for n in range(9, 14) if 1 << n > 2 * k]
    return [size for n in powers for size in (Size(3, n + k, "a power of two and a block"), Size(5, n - k, "a power of two less a block"))]


def list_edges(k: int) -> list[Size]:
    """Calls with each of the larger edges as rows, and as items of k along a row."""
    edges = [edge for edge in EDGES if edge > FEW]
    rows, wide = "rows at the edge of a tile", "items of a row at the edge of a tile"
    return [size for edge in edges for size in (Size(edge, 3 * k, rows), Size(3, edge * k, wide), Size(1, edge * k, wide))]


def list_scattered() -> list[Size]:
    """Sizes drawn by binades, as many small as large ones, tall as wide."""
    stream, sizes = Stream(41), []
    for _ in range(SCATTERED):
        bits = stream.below(15)
        rows, blocks = 1 << bits, 1 << stream.below(15 - bits)
        sizes.append(Size(rows + stream.below(rows), 32 * (blocks + stream.below(blocks)), "drawn by binades"))
    return sizes


#: How many sizes are drawn, evenly and by binades.
DRAWN, SCATTERED = 8, 20


def list_sizes(k: int) -> list[Size]:
    """The sizes of calls with items of k numbers along a row, small ones first."""
    tall = [Size(s.rows, k, s.why, s.common, s.quick) for s in TALL]
    stream = Stream(40)
    drawn = [Size(1 + stream.below(600), 32 * (1 + stream.below(70)), "drawn") for _ in range(DRAWN)]
    drawn += list_scattered()
    square = [Size(n, n * k, "as many rows as blocks", common=n == 3, quick=n == 128) for n in (2, 3, 16, 32, 64, 128, 200)]
    listed = (*list_small(k), *list_compiled(), *list_edges(k), *list_adjacent_powers(k), *drawn, *square, *tall, *SIZES)
    known = {(s.rows, s.columns): s for s in (size.in_blocks(k) for size in listed)}
    return sorted(known.values(), key=lambda s: s.elements)


@dataclass(frozen=True, slots=True)
class Laid:
    """A call along an axis, or with a ragged end: `count` blocks, one behind the other, in each of `lines` lines."""

    lines: int
    count: int
    #: Elements of the last block that are given; 0: all.
    end: int = 0
    quick: bool = False


#: Blocks along the first axis: columns that are few, many, odd, aligned and not.
LAID = (
    Laid(1, 3), Laid(2, 1), Laid(3, 2, quick=True), Laid(7, 40), Laid(8, 8), Laid(16, 32), Laid(31, 5), Laid(32, 4),
    Laid(33, 3), Laid(64, 64, quick=True), Laid(65, 2), Laid(100, 9), Laid(128, 4, quick=True), Laid(129, 4), Laid(256, 8),
    Laid(300, 1), Laid(384, 3), Laid(1000, 2), Laid(1024, 4), Laid(4096, 1), Laid(2, 300), Laid(1, 512), Laid(8192, 1),
)  # fmt: skip
#: Columns that vectors and tiles do not divide, and very many.
UNEVEN = (Laid(47, 3), Laid(66, 4), Laid(127, 2), Laid(255, 3), Laid(4098, 2), Laid(8197, 1))
#: How many more are drawn by binades; lines times blocks of each are less than 2 to this and two.
DRAWN_LAID, LAID_BITS = 8, 12


def list_laid(k: int) -> list[Laid]:
    """Those, square matrices, every small number of lines, and some that are drawn."""
    few = [Laid(lines, 1 + lines * 5 % 7) for lines in range(1, FEW + 1)]
    return [*LAID, *list_squares(k), *UNEVEN, *few, *_draw_laid()]


def _draw_laid() -> list[Laid]:
    """As many few lines as many, long as short."""
    stream, drawn = Stream(43), []
    for _ in range(DRAWN_LAID):
        bits = stream.below(LAID_BITS + 1)
        lines, count = 1 << bits, 1 << stream.below(LAID_BITS + 1 - bits)
        drawn.append(Laid(lines + stream.below(lines), count + stream.below(count)))
    return drawn


def list_weights(k: int) -> list[Laid]:
    """Weights of models along the first axis: thousands of rows, hundreds of columns. For fast targets."""
    return [Laid(256, 4096 // k), Laid(512, 2304 // k)]


def list_squares(k: int) -> list[Laid]:
    """As many lines as elements of each: which axis is which does not show in the shape."""
    sides = sorted({max(n, k) for n in (32, 64, 256, 512)})  # a side holds at least one block
    return [Laid(n, n // k, quick=n == max(64, k)) for n in sides]


def list_ragged(k: int) -> list[Laid]:
    """Lines with a ragged end: short and long, few and many, at every size of end that matters."""
    return [
        Laid(1, 1, 1), Laid(1, 1, k - 1), Laid(2, 2, k // 2, quick=True), Laid(3, 3, 1), Laid(5, 4, k - 1), Laid(1, 64, 2),
        Laid(128, 4, k // 2, quick=True), Laid(128, 5, 1), Laid(129, 5, k - 1), Laid(64, 64, 3), Laid(2, 300, 7),
        Laid(300, 3, k // 2 + 1), Laid(1000, 1, k // 4), Laid(16, 33, k - 2), Laid(1, 513, 1), Laid(4097, 1, 5),
        Laid(256, 32, k // 2), Laid(2, 1024 // k), Laid(128, 4), Laid(3, 5),
    ]  # fmt: skip


#: Grids of square tiles whose edges are cut short: tiles below each other and side by side, rows and columns that are missing.
CUT_GRIDS = (
    (1, 1, 5, 3), (1, 2, 11, 0), (1, 2, 15, 3), (2, 3, 1, 0), (2, 3, 0, 1), (3, 2, 15, 15), (1, 5, 8, 4), (5, 1, 3, 9), (4, 19, 7, 0), (9, 9, 0, 11), (8, 8, 4, 8),
)  # fmt: skip

#: Grids of square tiles: tiles below each other, tiles side by side.
GRIDS = (
    (1, 1), (1, 2), (1, 3), (3, 1), (2, 5), (5, 2), (3, 3), (4, 4), (8, 8), (1, 17), (2, 33), (17, 1), (33, 2), (7, 9), (3, 64), (16, 24),
)  # fmt: skip

#: The same for fast targets: as many numbers as a weight has, and as wide.
LARGE_GRIDS = ((3, 128), (64, 64))

#: Sizes of calls whose inputs lie in memory in another way.
STRIDED = (Size(5, 96, "odd"), Size(128, 128, "aligned", quick=True), Size(67, 2080, "wide"))
#: The same for fast targets.
LARGE_STRIDED = Size(259, 1056, "more than 2^18 elements, odd rows")
