"""Targets: implementations under test, and the capabilities that they declare.

A target is a Python file, a module, the name of a known library, or any object with the functions of the interface. A
function's presence is the capability; a keyword in its signature (`axis`, `pad`, `rounding`, `block`) is a further one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mxspec.enums import StrEnum
from mxspec.formats import get_block
from mxspec.layouts import Layout, Part, get_layout, list_layouts
from mxspec_conformance.targets.grouped import parse_grouped
from mxspec_conformance.targets.interface import LAYOUT_FUNCTIONS, OPERATIONS
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.operands import parse_product

FUNCTIONS = tuple(OPERATIONS)
#: What a Python target may have in place of `quantize`, and the options that it may take.
FAKE, FAKE_OPTIONS = "fake_quantize", ("tensor_scale",)

#: How the names of shared libraries end.
LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")

#: How an input lies in memory: as a whole, in every second row or column of a larger array, one element into one, with
#: rows one element farther apart than they are long, column by column, backwards, as one row that is all rows, or as one
#: column that is all columns.
ARRANGEMENTS = ("contiguous", "rows", "columns", "offset", "padded", "fortran", "reversed", "broadcast", "one-column")
#: More of them, for whole matrices alone: columns of a matrix that is many times as wide, or so wide that 16 bits do not hold its
#: pitch, rows of a transposed one, one axis that runs backwards, memory that must not be written; every second row and column, every third
#: column, a transposed one that runs backwards, rows that overlap, an address that is a multiple of 8 bytes and not of 16.
MATRIX_ARRANGEMENTS = (
    "slice", "far-slice", "fortran-padded", "rows-reversed", "columns-reversed", "read-only", "rows-and-columns", "third-columns",
    "fortran-reversed", "windows", "8-bytes",
)  # fmt: skip
#: Those of all these in which numbers lie one behind the other, and those of them whose address is no multiple of 16 bytes.
DENSE, UNALIGNED = ("contiguous", "offset", "read-only", "8-bytes"), ("offset", "8-bytes")
#: How many rows of `windows` hold each of its numbers.
WINDOWS = 3
#: Bytes from row to row beyond which that matrix reaches.
FAR_PITCH = 1 << 17
#: Columns of the matrix of which `slice` is a part, in multiples of its own.
SLICED_OF = 8


class SrRule(StrEnum):
    """When stochastic rounding goes up, of a fraction and n random bits."""

    #: Where floor(fraction * 2**n) + word carries into bit n.
    CARRY = "carry"
    #: Where the word is less than fraction * 2**n.
    BELOW = "below"


#: Forms of scales: bytes, or the numbers that they mean.
SCALE_FORMS = ("uint8", "float32")
#: Random bits that a word may hold.
SR_BITS = (32, 16, 8)


@dataclass(frozen=True, slots=True)
class ShapeLimits:
    """The matrices that a target takes."""

    #: Columns are a multiple of this, rows of that, and there are so many rows at least.
    columns: int = 1
    rows: int = 1
    least_rows: int = 1

    @property
    def are_none(self) -> bool:
        """Whether every matrix of whole blocks is taken."""
        return self == ShapeLimits()

    @property
    def text(self) -> str:
        """In words."""
        parts = [f"columns a multiple of {self.columns}"] * (self.columns > 1) + [f"rows a multiple of {self.rows}"] * (self.rows > 1)
        return ", ".join(parts + [f"at least {self.least_rows} rows"] * (self.least_rows > 1))

    def allow(self, shape: tuple[int, ...]) -> bool:
        """Whether a matrix is taken as it is."""
        rows, columns = shape
        return columns % self.columns == 0 and rows % self.rows == 0 and rows >= self.least_rows

    def fit(self, blocks: int, k: int) -> tuple[int, int]:
        """The shape of a small matrix that is taken and holds so many blocks of k."""
        columns = math.lcm(self.columns, k)
        rows = max(-(-blocks * k // columns), self.least_rows)
        return -(-rows // self.rows) * self.rows, columns


#: Name in a target's SHAPES -> the limit.
SHAPE_NAMES = {"k": "columns", "rows": "rows", "min_rows": "least_rows"}
#: Names in a target's PRODUCT_SHAPES: multiples of each size of a product.
PRODUCT_SHAPE_NAMES = ("m", "n", "k")
#: Function -> the name of its declaration in Python and in descriptions, and what reads one of its products.
PRODUCTS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "matmul": ("OPERANDS", "products", parse_product), "grouped_matmul": ("GROUPED", "grouped", parse_grouped),
}  # fmt: skip
#: The largest of these multiples: products of larger ones take minutes to judge.
MOST_MULTIPLE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a target says of itself; one shape for every transport."""

    name: str
    version: str
    formats: tuple[str, ...]
    functions: tuple[str, ...]
    #: function -> the interface's options that it takes, by keyword.
    keywords: dict[str, tuple[str, ...]]
    elements: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32",)
    arrays: str = "numpy"
    code_layout: str = UNPACKED
    scale_layout: str = ROW_MAJOR
    tensor_scale: str = "decode"
    #: Whether the target has `fake_quantize` in place of `quantize`: values, of which the codes are found.
    fake: bool = False
    #: How scales of one byte are handed over, one of SCALE_FORMS; "": as bytes.
    scales: str = ""
    #: Random bits that `encode_stochastic`, and `quantize` with `random_bits`, use.
    sr_bits: int = 32
    sr_rule: SrRule = SrRule.CARRY
    #: Whether `quantize` always rounds stochastically: no answer is the only right one.
    stochastic: bool = False
    #: Profiles that the target says it follows, at most one for each format; what is claimed is checked.
    claimed_profiles: tuple[str, ...] = ()
    #: Whether quantize and dequantize can be called without a tensor scale.
    one_level: bool = True
    #: The matrices that quantize and dequantize take: (columns, rows, rows at least), as `ShapeLimits`.
    shapes: tuple[int, int, int] = (1, 1, 1)
    #: Storage layouts that pack, unpack, swizzle and unswizzle know.
    layouts: tuple[str, ...] = ()
    #: Affine integer formats of `quantize_affine` and `dequantize_affine`: int4-g64-bias-float16, with /words where codes are
    #: 32-bit words.
    affine: tuple[str, ...] = ()
    #: The affine profile and dequantization contract that the target says it follows; what is claimed is checked.
    affine_profile: str | None = None
    affine_contract: str | None = None
    #: Sparse formats that prune, compress and decompress know.
    sparse_formats: tuple[str, ...] = ()
    #: What quantize_fused computes, as `silu_mul-mxfp8_e4m3`, and the contract that it says it follows; what is claimed is checked.
    fused: tuple[str, ...] = ()
    fused_contract: str = ""
    #: Layouts of kept codes and of metadata that compress returns and decompress takes; none: one to a byte.
    sparse_layout: tuple[str, ...] = ()
    #: The rule by which `prune` decides between equal magnitudes; "": none is claimed. What is claimed is checked.
    prune_rule: str = ""
    #: Caches of append_cache and read_cache, and what attention computes (`mxspec.attention.CacheSpec`).
    caches: tuple[str, ...] = ()
    attention: tuple[str, ...] = ()
    #: Where the arrays lie, such as `cuda:0`; None: the array library's default.
    device: str | None = None
    #: Products that matmul computes, as `operands.Product` writes them.
    products: tuple[str, ...] = ()
    #: Grouped products that grouped_matmul computes, as `grouped.GroupedProduct` writes them; what follows is said of both functions.
    grouped: tuple[str, ...] = ()
    #: Dtypes that matmul returns.
    out_dtypes: tuple[str, ...] = ("float32",)
    #: The class of accumulations that matmul says it follows (`mxspec.dot.ACCUMULATORS`); empty: none is claimed.
    accumulator: str = ""
    #: How matmul says it rounds each number before it multiplies (`mxspec.dot.CONTRACT_TEXTS`); empty: nothing is claimed.
    contract: str = ""
    #: Multiples of m, n and k that matmul takes.
    product_shapes: tuple[int, int, int] = (1, 1, 1)
    #: Whether matmul is compiled for each shape of b, as calls have shown: it gets few of them.
    few_shapes: bool = False

    def has(self, function: str, keyword: str | None = None) -> bool:
        """Whether the target has the function, and takes the keyword."""
        return function in self.functions and (keyword is None or keyword in self.keywords[function])

    @property
    def repeats(self) -> bool:
        """Whether `quantize` is there and has one answer to a call."""
        return self.has("quantize") and not self.stochastic

    @property
    def has_generator(self) -> bool:
        """Whether `quantize` rounds stochastically by random numbers of its own."""
        return self.has("quantize", "seed") or (self.stochastic and not self.has("quantize", "random_bits"))

    @property
    def limits(self) -> ShapeLimits:
        """The matrices that quantize and dequantize take."""
        return ShapeLimits(*self.shapes)

    def may_stray(self, fmt: str) -> bool:
        """Whether what `quantize` returns is read as codes and scales, and may be none."""
        return self.repeats and (self.fake or self.scales == "float32") and get_block(fmt).scale.bits <= 8

    def layout_of(self, fmt: str) -> str:
        """The layout in which codes of a block format are handed over; one to a byte where they are of another width than it holds."""
        fits = get_layout(self.code_layout).main.packing.width == get_block(fmt).element.bits
        return self.code_layout if fits else UNPACKED

    def layouts_of(self, function: str) -> list[Layout]:
        """The layouts that a layout function is tested with: those that the target lists, else all of the function's kind."""
        scales, several, _ = LAYOUT_FUNCTIONS[function]
        chosen = map(get_layout, self.layouts) if self.layouts else list_layouts()
        return [x for x in chosen if (len(x.fields) > 1) == several and (several or (x.main.part is Part.SCALES) == scales)]

    def as_dict(self) -> dict[str, Any]:
        """For the JSON result."""
        return {
            "formats": list(self.formats),
            "functions": {f: list(self.keywords[f]) for f in self.functions},
            "elements": list(self.elements),
            "dtypes": list(self.dtypes),
            "arrays": self.arrays,
            "layout": [self.code_layout, self.scale_layout],
            "layouts": list(self.layouts),
            "tensor_scale": self.tensor_scale,
            **({"fake_quantize": True} if self.fake else {}),
            **({"scales": self.scales} if self.scales else {}),
            "one_level": self.one_level,
            "shapes": dict(zip(SHAPE_NAMES, self.shapes, strict=True)),
            "sr_bits": self.sr_bits,
            **({} if self.sr_rule is SrRule.CARRY else {"sr_rule": self.sr_rule.value}),
            **({"stochastic": True} if self.stochastic else {}),
            **({"sparse_formats": list(self.sparse_formats)} if self.sparse_formats else {}),
            **({"sparse_layout": list(self.sparse_layout)} if self.sparse_layout else {}),
            **({"prune_rule": self.prune_rule} if self.prune_rule else {}),
            **({"fused": list(self.fused)} if self.fused else {}),
            **({"fused_contract": self.fused_contract} if self.fused_contract else {}),
            "profile": list(self.claimed_profiles),
            **({"affine": list(self.affine)} if self.affine else {}),
            **({} if self.affine_profile is None else {"affine_profile": self.affine_profile}),
            **({} if self.affine_contract is None else {"affine_contract": self.affine_contract}),
            **(self._describe_products() if self.products or self.grouped else {}),
            **({"caches": list(self.caches)} if self.caches else {}),
            **({"attention": list(self.attention), "out_dtypes": list(self.out_dtypes)} if self.attention else {}),
        }

    def _describe_products(self) -> dict[str, Any]:
        return {
            **({"products": list(self.products)} if self.products else {}),
            **({"grouped": list(self.grouped)} if self.grouped else {}),
            "out_dtypes": list(self.out_dtypes),
            **({"accumulator": self.accumulator} if self.accumulator else {}),
            **({"contract": self.contract} if self.contract else {}),
            "product_shapes": dict(zip(PRODUCT_SHAPE_NAMES, self.product_shapes, strict=True)),
        }
