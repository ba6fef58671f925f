"""The interface of targets as data: every operation with its arguments, options and outputs, the same on every transport.

Marshalling, the check of answers, the fields of the C structures, and the protocol's schema follow from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np

from mxspec.affine.formats import AffineFormat, Offset
from mxspec.attention import CacheSpec, parse_cache
from mxspec.formats import BlockFormat, Extent, get_block
from mxspec.fused.functions import FUNCTIONS as FUSED_FUNCTIONS
from mxspec.layouts import get_layout
from mxspec.sparsity import get_sparse
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.grouped import GroupForm
from mxspec_conformance.targets.operands import read_numbers

Shape = tuple[int, ...]
#: Arguments and options of one call by their names.
Call = Mapping[str, Any]


class Kind(Enum):
    """What an argument is."""

    ARRAY = auto()
    #: One float32.
    FLOAT = auto()
    #: One float32, or one for each expert of a grouped product.
    FLOATS = auto()
    TEXT = auto()
    FLAG = auto()
    #: A whole number; of a count none is negative.
    WHOLE = auto()
    COUNT = auto()
    #: A list of sizes, one of counts, places or experts, and one of two sizes.
    SIZES = auto()
    GROUPS = auto()
    PAIR = auto()


class Form(Enum):
    """How an array lies where the target has it (`targets/forms.py`)."""

    #: One item to a byte.
    ITEMS = auto()
    #: Decoded numbers: float32, or a narrower float.
    FLOATS = auto()
    #: Codes and scales of a block format, and kept codes and metadata of a sparse one, in the layouts that a target declares.
    BLOCK_CODES = auto()
    BLOCK_SCALES = auto()
    KEPT = auto()
    METADATA = auto()
    #: Affine integers: one code to a byte or 32-bit words; scales in the format's dtype; biases or zero points.
    AFFINE_CODES = auto()
    AFFINE_SCALES = auto()
    AFFINE_OFFSETS = auto()
    #: The bytes of a named layout.
    DATA = auto()
    #: One number.
    NUMBER = auto()
    #: The values of a product, in the dtype that was requested.
    PRODUCT = auto()
    #: Rows of a cache: bytes, or plain numbers.
    ROWS = auto()


class Expected(NamedTuple):
    """One array of an answer."""

    name: str
    #: `float`: a Python float and no array.
    dtype: Any
    #: None: one axis of any length, which is judged.
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class Output:
    """One array that an operation returns."""

    name: str
    form: Form = Form.ITEMS
    #: Its dtype, as the judge has it.
    dtype: Callable[[Call], Any] = lambda _: np.uint8
    #: Its shape, by the shape of the call's numbers (`Operation.measure`).
    shape: Callable[[Shape, Call], Shape | None] = lambda shape, _: shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One function that a target may have."""

    name: str
    #: Positional arguments in order; `a` and `b` are the operands of a product (`targets/operands.py`), `ARGUMENTS` has all others.
    arguments: tuple[str, ...]
    outputs: tuple[Output, ...]
    #: Keywords; a target that takes one has a further capability.
    options: tuple[str, ...] = ()
    #: What the arguments are called where each array travels by a name of its own; empty: as here.
    parts: tuple[str, ...] = ()
    #: Arguments, options and outputs that a target has in another form than the judge; outputs are entered by themselves.
    forms: dict[str, Form] = field(default_factory=dict)
    #: Whether it reads the bytes of a layout, whose parts are its outputs.
    unpacks: bool = False
    #: What a target that has such functions alone is said to be judged in.
    subject: str = "elements"

    def __post_init__(self) -> None:
        self.forms.update({o.name: o.form for o in self.outputs})

    def name_call(self, args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments and options by name, in the table's order."""
        call = dict(zip(self.arguments, args, strict=True))
        return call | {n: options[n] for n in dict.fromkeys((*self.options, *options)) if n in options} if options else call

    def measure(self, call: Call) -> Shape:
        """The shape of a call's numbers, or items: of x, of the codes, of what is unpacked, [m, n] of a product."""
        if "shape" in self.arguments:
            return tuple(call["shape"])
        if "a" in self.arguments:
            return tuple(read_numbers(call[side]).held.shape[-2] for side in "ab")
        return tuple(call[self.arguments[0]].shape)

    def expect(self, call: Call, shape: Shape | None = None) -> list[Expected]:
        """The arrays that a target returns for a call, in its order; shape: that of the call's numbers where it is known."""
        shape = self.measure(call) if shape is None else shape
        if self.unpacks:
            fields = get_layout(call["layout"]).fields
            return [Expected(f.part.value, np.uint8, (*shape[:-1], shape[-1] // f.covers)) for f in reversed(fields)]
        return [Expected(o.name, o.dtype(call), o.shape(shape, call)) for o in self.outputs]

    def join(self, arrays: Sequence[Any]) -> Any:
        """An answer of its arrays: the only one, or a tuple; parts of a layout are a tuple in the layout's own order."""
        if self.unpacks:
            return tuple(reversed(arrays))
        return tuple(arrays) if len(self.outputs) > 1 else arrays[0]


def quantized_shapes(shape: Shape, block: BlockFormat, *, axis: int = -1, square: bool = False) -> tuple[Shape, Shape]:
    """The shapes of codes (one to an element) and of scales that `quantize` gives for x; square: 16 x 16 blocks."""
    axis %= len(shape)
    block = block.sized(shape[axis])
    padded = tuple(-(-n // block.k) * block.k if a == axis else n for a, n in enumerate(shape))
    if square:
        padded = tuple(-(-n // 16) * 16 for n in padded)
    return padded, tuple(n // block.k if a == axis else n for a, n in enumerate(padded))


def _blocks(part: int) -> Callable[[Shape, Call], Shape]:
    def shape_of(shape: Shape, call: Call) -> Shape:
        square = call.get("block") is not None
        return quantized_shapes(shape, get_block(call["format"]), axis=call.get("axis", -1), square=square)[part]

    return shape_of


def has_one_scale(fmt: str) -> bool:
    """Whether a tensor has one scale: the judge has it for each row, a target once."""
    return get_block(fmt).extent is Extent.TENSOR


def has_float_scales(fmt: str) -> bool:
    """Whether a block format's scales are float32; the judge has their bits, a target the numbers."""
    return get_block(fmt).scale.bits > 8


def _scale_dtype(call: Call) -> type[np.generic]:
    return np.uint32 if has_float_scales(call["format"]) else np.uint8


def _fused(part: int) -> Callable[[Shape, Call], Shape]:
    def shape_of(shape: Shape, call: Call) -> Shape:
        columns = FUSED_FUNCTIONS[call["function"]].count_columns(shape[1])
        return quantized_shapes((shape[0], columns), get_block(call["format"]))[part]

    return shape_of


def _affine(call: Call) -> AffineFormat:
    return read_operand(call["affine"]).format


def _cache(call: Call) -> CacheSpec:
    return parse_cache(call["cache"])


def _gathered(part: str) -> Callable[[Shape, Call], Shape]:
    """The shape of the numbers of K or V that `read_cache` returns."""

    def shape_of(_: Shape, call: Call) -> Shape:
        pages, spec = call[f"{part}_cache"].shape, _cache(call)
        return int(call["lengths"].sum()), pages[1 if spec.heads_first else 2], getattr(spec, part).columns(pages[3])

    return shape_of


def _groups(shape: Shape, call: Call) -> Shape:
    return (*shape[:-1], shape[-1] // _affine(call).group)


#: What an argument or option is; the operands of a product by the names of their arrays. In the order of the protocol's schema.
ARGUMENTS: dict[str, Kind] = {
    name: kind
    for kind, names in (
        (Kind.ARRAY, "x codes scales offsets"), (Kind.TEXT, "affine"),
        (Kind.ARRAY, "random_bits kept metadata data a_codes a_scales b_codes b_scales"), (Kind.TEXT, "format element layout function"),
        (Kind.SIZES, "shape"), (Kind.FLOAT, "tensor_scale"), (Kind.FLOATS, "a_tensor_scale b_tensor_scale"), (Kind.WHOLE, "axis"),
        (Kind.FLAG, "pad"), (Kind.PAIR, "block"), (Kind.COUNT, "seed"), (Kind.TEXT, "rounding overflow a_spec"),
        (Kind.ARRAY, "a_values"), (Kind.TEXT, "b_spec"), (Kind.ARRAY, "b_values"), (Kind.TEXT, "out_dtype"),
        (Kind.FLOATS, "alpha"), (Kind.FLOAT, "beta"), (Kind.ARRAY, "c bias a_offsets a_metadata b_offsets b_metadata"),
        (Kind.GROUPS, "groups"), (Kind.TEXT, "form"),
        (Kind.ARRAY, "up residual weight"), (Kind.FLOAT, "eps"),
        (Kind.ARRAY, "q k v slots k_cache v_cache starts lengths page_table q_scale k_scale v_scale"), (Kind.TEXT, "cache attention"),
        (Kind.FLAG, "causal"), (Kind.COUNT, "window"), (Kind.FLOAT, "scale"),
    )
    for name in names.split()
}  # fmt: skip

#: What one operand of a product consists of: its text, and its arrays as far as it has them.
SIDE_PARTS = ("spec", "values", "codes", "scales", "tensor_scale", "offsets", "metadata")

#: Operations on caches, whose names are those of many a helper: a target offers them by listing CACHES, and ATTENTION.
CACHE_FUNCTIONS = ("append_cache", "read_cache")
ATTENTION = "attention"
#: Arguments and outputs that are rows of a cache.
_ROWS = dict.fromkeys(("k_cache", "v_cache", "k", "v"), Form.ROWS)


def _written(part: str) -> Output:
    """The cache of K or V that `append_cache` returns."""
    return Output(
        f"{part}_cache", Form.ROWS, lambda call: getattr(_cache(call), part).dtype, lambda _, call: tuple(call[f"{part}_cache"].shape)
    )


#: Operations on sparse formats. Their names are those of many a helper: a target offers them by naming sparse formats.
SPARSE_FUNCTIONS = ("prune", "compress", "decompress")

#: Function -> whether it handles scales, whether several parts, and whether it reads bytes.
LAYOUT_FUNCTIONS = {
    "pack": (False, False, False),
    "unpack": (False, False, True),
    "swizzle": (True, False, False),
    "unswizzle": (True, False, True),
    "pack_blocks": (False, True, False),
    "unpack_blocks": (False, True, True),
}

_CODES, _SCALES = Output("codes"), Output("scales")
_VALUES = Output("values", Form.FLOATS, lambda _: np.float32)
_DATA = Output("data", Form.DATA, shape=lambda *_: None)

OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        Operation(
            name="quantize", arguments=("x", "format"),
            options=("tensor_scale", "axis", "pad", "block", "random_bits", "seed", "scales"),
            outputs=(
                Output("codes", Form.BLOCK_CODES, shape=_blocks(0)), Output("scales", Form.BLOCK_SCALES, _scale_dtype, _blocks(1)),
            ),
        ),
        Operation(
            name="quantize_fused", arguments=("x", "function", "format"), subject="quantize_fused",
            options=("up", "residual", "weight", "eps", "tensor_scale"),
            outputs=(
                Output("codes", Form.BLOCK_CODES, shape=_fused(0)), Output("scales", Form.BLOCK_SCALES, _scale_dtype, _fused(1)),
            ),
        ),
        Operation(
            name="dequantize", arguments=("codes", "scales", "format"), outputs=(_VALUES,), options=("tensor_scale",),
            forms={"codes": Form.BLOCK_CODES, "scales": Form.BLOCK_SCALES},
        ),
        Operation(
            name="quantize_affine", arguments=("x", "affine"),
            outputs=(
                Output("codes", Form.AFFINE_CODES),
                Output("scales", Form.AFFINE_SCALES, lambda call: _affine(call).numpy_dtype, _groups),
                Output(
                    "offsets", Form.AFFINE_OFFSETS,
                    lambda call: _affine(call).numpy_dtype if _affine(call).offset is Offset.BIAS else np.uint8, _groups,
                ),
            ),
        ),
        Operation(
            name="dequantize_affine", arguments=("codes", "scales", "offsets", "affine"), outputs=(_VALUES,),
            forms={"codes": Form.AFFINE_CODES},
        ),
        Operation(name="encode", arguments=("x", "element"), outputs=(_CODES,), options=("rounding", "overflow")),
        Operation(name="decode", arguments=("codes", "element"), outputs=(_VALUES,)),
        Operation(name="encode_stochastic", arguments=("x", "element", "random_bits"), outputs=(_CODES,)),
        Operation(
            name="tensor_scale", arguments=("x", "format"), outputs=(Output("scale", Form.NUMBER, lambda _: float, lambda *_: ()),)
        ),
        Operation(name="prune", arguments=("codes", "format"), outputs=(_CODES,), subject="sparse"),
        Operation(
            name="compress", arguments=("codes", "format"), subject="sparse",
            outputs=(
                Output("kept", Form.KEPT, shape=lambda shape, _: (shape[0], shape[1] // 2)),
                Output("metadata", Form.METADATA, shape=lambda shape, call: (shape[0], shape[1] // get_sparse(call["format"]).group)),
            ),
        ),
        Operation(
            name="decompress", arguments=("kept", "metadata", "format", "shape"), outputs=(_CODES,), subject="sparse",
            forms={"kept": Form.KEPT, "metadata": Form.METADATA},
        ),
        Operation(name="pack", arguments=("codes", "layout"), outputs=(_DATA,), subject="layouts"),
        Operation(name="unpack", arguments=("data", "layout", "shape"), outputs=(_CODES,), unpacks=True, subject="layouts"),
        Operation(name="swizzle", arguments=("scales", "layout"), outputs=(_DATA,), subject="layouts"),
        Operation(name="unswizzle", arguments=("data", "layout", "shape"), outputs=(_SCALES,), unpacks=True, subject="layouts"),
        Operation(name="pack_blocks", arguments=("codes", "scales", "layout"), outputs=(_DATA,), subject="layouts"),
        Operation(name="unpack_blocks", arguments=("data", "layout", "shape"), outputs=(_CODES, _SCALES), unpacks=True, subject="layouts"),
        Operation(
            name="matmul", arguments=("a", "b", "out_dtype"), options=("alpha", "beta", "c", "bias"),
            outputs=(Output("values", Form.PRODUCT, lambda call: DTYPES[call["out_dtype"]]),),
            parts=(*(f"{side}_{part}" for side in "ab" for part in SIDE_PARTS), "out_dtype", "shape"),
        ),
        Operation(
            name="grouped_matmul", arguments=("a", "b", "groups", "form", "out_dtype"), options=("alpha", "bias"),
            outputs=(
                Output(
                    "values", Form.PRODUCT, lambda call: DTYPES[call["out_dtype"]],
                    lambda shape, call: (len(call["groups"]), *shape) if call["form"] == GroupForm.MASKED else shape,
                ),
            ),
            parts=(*(f"{side}_{part}" for side in "ab" for part in SIDE_PARTS), "groups", "form", "out_dtype", "shape"),
        ),
        Operation(
            name="append_cache", arguments=("k", "v", "slots", "k_cache", "v_cache", "cache"), options=("k_scale", "v_scale"), forms=dict(_ROWS),
            outputs=tuple(map(_written, "kv")),
        ),
        Operation(
            name="read_cache", arguments=("k_cache", "v_cache", "page_table", "lengths", "cache"), options=("k_scale", "v_scale"), forms=dict(_ROWS),
            outputs=tuple(Output(p, Form.FLOATS, lambda _: np.float32, _gathered(p)) for p in "kv"),
        ),
        Operation(
            name=ATTENTION, arguments=("q", "k", "v", "starts", "lengths", "attention", "out_dtype"), forms=dict(_ROWS), subject=ATTENTION,
            options=("page_table", "causal", "window", "scale", "q_scale", "k_scale", "v_scale"),
            outputs=(Output("values", Form.PRODUCT, lambda call: DTYPES[call["out_dtype"]]),),
        ),
    )
}  # fmt: skip
