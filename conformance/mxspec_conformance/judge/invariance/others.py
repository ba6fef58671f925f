"""One small call of everything that a target offers: what may leave something behind for the next call, or run at the same time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine import Offset
from mxspec.elements import code_dtype
from mxspec.formats import BLOCKS, SCALES, get_block, get_scalar
from mxspec.fused.functions import read_fused
from mxspec.layouts import get_layout
from mxspec.sparsity import get_sparse
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.cache_calls import make_cache_call
from mxspec_conformance.targets.capabilities import PRODUCTS, Capabilities
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.grouped import make_call, parse_grouped
from mxspec_conformance.targets.interface import ATTENTION, CACHE_FUNCTIONS, SPARSE_FUNCTIONS
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.targets.product_fitting import FIRST_TWO, make_ordinary
from mxspec_conformance.targets.product_sizes import find_sizes
from mxspec_conformance.targets.sessions import TargetSession

Array = npt.NDArray[Any]
#: Rows of most calls; items of a matrix for layouts, of which the first that one takes is asked.
ROWS, LAID = 8, ((16, 64), (128, 128), (256, 256))
#: Other formats of a function, in addition to as many as there are block formats.
MOST = 3


@dataclass(frozen=True, slots=True)
class Other:
    """A call, and what labels say of it."""

    name: str
    function: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it takes a path of its own: another rounding, dtype or axis, or numbers that are none.
    special: bool = False

    @property
    def call(self) -> tuple[Any, ...]:
        """The function and its arguments."""
        return self.function, *self.arguments


def find_width(capabilities: Capabilities) -> int:
    """Columns that are whole blocks of every format that a target lists: calls in several of them are of one shape."""
    return math.lcm(160, *(get_block(name).k for name in capabilities.formats))


def list_others(session: TargetSession, function: str, name: str) -> Iterator[Other]:
    """Calls of every other function, and of this one in its other formats; name: the format, element or layout of this one.

    Of another function the same format if it has it, else one that goes with it, and another one.
    """
    capabilities = session.capabilities
    for other in capabilities.functions:
        make, names = _MAKERS[other], _list_names(capabilities, other)
        alike = [n for n in names if name in (n, read_name(n))]
        unlike = [n for n in names if n not in alike]
        chosen = unlike if other == function else [*(alike or _related(names, name)), *unlike[:1]]
        # Many layouts and formats of groups share their ways: a few of them are enough.
        few = list(dict.fromkeys(chosen))[: len(capabilities.formats) + MOST]
        for one in few:
            yield from make(capabilities, other, one)
        if other == function and name in names:
            yield from (replace(call, special=True) for call in _list_own(capabilities, function, name))
        elif other != function and few:
            own = _list_own(capabilities, other, few[0])
            yield from (replace(call, name=f"{other} {few[0]}: {call.name}", special=True) for call in own)


def read_name(name: str) -> str:
    """The format of a declared name."""
    return name.partition("/")[0]


def _list_names(capabilities: Capabilities, function: str) -> tuple[str, ...]:
    if function in SPARSE_FUNCTIONS:
        return capabilities.sparse_formats
    if function == "tensor_scale":
        return tuple(n for n in capabilities.formats if get_block(n).has_tensor_scale)
    if function in PRODUCTS:
        return tuple(getattr(capabilities, PRODUCTS[function][1]))
    if function == "quantize_fused":
        return capabilities.fused
    if function in CACHE_FUNCTIONS:
        return capabilities.caches
    if function == ATTENTION:
        return capabilities.attention
    if function.endswith("_affine"):
        return capabilities.affine
    if function in ("quantize", "dequantize"):
        return capabilities.formats
    if function in ("encode", "decode", "encode_stochastic"):
        return capabilities.elements
    return tuple(layout.name for layout in capabilities.layouts_of(function))


def _related(names: tuple[str, ...], name: str) -> list[str]:
    """The format of which it is the element, or the element of the format; else the first."""
    alike = [n for n in names for block, one in ((n, name), (name, n)) if block in BLOCKS and get_block(block).element.name == one]
    return [*alike, *names][:1]


def _numbers(capabilities: Capabilities) -> npt.NDArray[np.float32]:
    wide = find_width(capabilities)
    return (np.arange(ROWS * wide, dtype=np.float32).reshape(ROWS, wide) - 300) / np.float32(7)


def _scaled(capabilities: Capabilities, function: str, fmt: str) -> dict[str, Any]:
    """A tensor scale where there may be one: another than most tensors have."""
    return {"tensor_scale": 0.5} if get_block(fmt).has_tensor_scale and capabilities.has(function, "tensor_scale") else {}


def _of_blocks(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    fmt, x, extra = get_block(name), _numbers(capabilities), _scaled(capabilities, function, name)
    arguments: tuple[Any, ...] = (cast_input(x, capabilities.dtypes[0]), name)
    if function == "dequantize":
        codes = (np.arange(x.size) % fmt.element.code_count).astype(np.uint8).reshape(x.shape)
        arguments = codes, np.full((ROWS, x.shape[1] // fmt.k), fmt.scale.max_code // 2, code_dtype(fmt.scale)), name
    yield Other(f"{function} {name}", function, arguments, extra)


def _of_fused(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    fused, fmt = read_fused(name)
    # As many columns as calls of other functions have, and whole groups of its own.
    x = np.resize(_numbers(capabilities), (ROWS, math.lcm(find_width(capabilities), 2 * fmt.k, 2 * fused.size)))
    x = cast_input(np.ascontiguousarray(x) / np.float32(64), capabilities.dtypes[0])
    yield Other(
        f"{function} {name}", function, (x, fused.name, fmt.name), dict.fromkeys(fused.needs, x) | _scaled(capabilities, function, fmt.name)
    )


def _of_tensor(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    yield Other(f"{function} {name}", function, (_numbers(capabilities), name))


def _of_numbers(capabilities: Capabilities, function: str, element: str) -> Iterator[Other]:
    x = _numbers(capabilities).reshape(-1)
    x = np.abs(x) if element in SCALES else x
    if function == "decode":
        yield Other(f"decode {element}", function, ((np.arange(x.size) % get_scalar(element).code_count).astype(np.uint8), element))
    elif function == "encode":
        yield Other(f"encode {element}", function, (x, element))
    else:
        words = (np.arange(x.size, dtype=np.uint64) * np.uint64(2654435761) & np.uint64(0xFF)).astype(np.uint32)
        yield Other(f"encode_stochastic {element}", function, (x, element, words))


def _of_groups(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    operand = read_operand(name)
    fmt = operand.format
    x = ((np.arange(ROWS * 3 * fmt.group) % 61 - 30).reshape(ROWS, -1) / 8).astype(fmt.numpy_dtype)
    if function == "quantize_affine":
        yield Other(f"{function} {name}", function, (x, name))
        return
    codes = (np.arange(x.size) % (1 << fmt.bits)).astype(np.uint8).reshape(x.shape)
    offsets = np.ones((ROWS, 3), fmt.numpy_dtype if fmt.offset is Offset.BIAS else np.uint8)
    yield Other(f"{function} {name}", function, (codes, np.ones((ROWS, 3), fmt.numpy_dtype), offsets, name))


def _of_sparse(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    group = get_sparse(name).group
    shape = 4 * ROWS, ROWS * group
    kept, metadata = (np.ones((shape[0], shape[1] // 2), np.uint8), np.full((shape[0], shape[1] // group), FIRST_TWO, np.uint8))
    if function != "decompress":
        # What is to be compressed has been pruned: of zeros nothing is kept.
        codes = np.zeros(shape, np.uint8) if function == "compress" else (np.arange(math.prod(shape)) % 4).astype(np.uint8).reshape(shape)
        yield Other(f"{function} {name}", function, (codes, name))
    elif not any(n != "unpacked" for n in capabilities.sparse_layout):
        yield Other(f"{function} {name}", function, (kept, metadata, name, shape))


def _of_layout(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    layout = get_layout(name)
    for shape in LAID:
        try:
            items = [np.zeros((shape[0], shape[1] // field.covers), np.uint8) for field in layout.fields]
            data = layout.pack(*items)
        except ValueError:
            continue
        reads = function.startswith("un")
        yield Other(f"{function} {name}", function, (data, name, shape) if reads else (*reversed(items), name))
        return


def _of_cache(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    arguments, options = make_cache_call(capabilities, function, name)
    yield Other(f"{function} {name}", function, arguments, options)


def _of_product(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    product = parse_product(name)
    m, n, k = find_sizes(product, capabilities.product_shapes).fit(16, 24, 256)
    sides = make_ordinary(product.a, m, k), make_ordinary(product.b, n, k)
    yield Other(f"matmul {product.name}", function, (sides[0].as_data(), sides[1].as_data(), capabilities.out_dtypes[0]))


def _of_grouped(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    dtype, grouped = capabilities.out_dtypes[0], parse_grouped(name)
    yield Other(f"{function} {grouped.name}", function, make_call(grouped, make_ordinary, capabilities.product_shapes, dtype))


def _list_own(capabilities: Capabilities, function: str, name: str) -> Iterator[Other]:
    """Calls of a function and format that leave another path behind: other dtypes, roundings, special numbers, another axis."""
    x = _numbers(capabilities)
    if function == "encode":
        flat = x.reshape(-1)
        for rounding in ("rtz", "rtp", "rtn") if capabilities.has("encode", "rounding") else ():
            yield Other(f"encode {rounding}", function, (flat, name), {"rounding": rounding})
        yield Other("infinities and NaN", function, (np.resize(_SPECIAL, flat.size), name))
    if function == "quantize":
        fmt, extra = get_block(name), _scaled(capabilities, function, name)
        for dtype in capabilities.dtypes[1:]:
            yield Other(f"dtype {dtype}", function, (cast_input(x, dtype), name), extra)
        yield Other("infinities and NaN", function, (np.resize(_SPECIAL, (3, 3 * fmt.k)), name), extra)
        yield Other("a ragged row", function, (np.ones((3, fmt.k + 1), np.float32), name), extra)
        if capabilities.has("quantize", "axis"):
            yield Other("another axis", function, (np.ones((3 * fmt.k, 8), np.float32), name), {**extra, "axis": 0})


_SPECIAL = np.array([np.inf, np.nan, -np.inf], np.float32)
_MAKERS: dict[str, Callable[[Capabilities, str, str], Iterator[Other]]] = {
    **dict.fromkeys(("quantize", "dequantize"), _of_blocks), **dict.fromkeys(("encode", "decode", "encode_stochastic"), _of_numbers),
    **dict.fromkeys(("quantize_affine", "dequantize_affine"), _of_groups), **dict.fromkeys(SPARSE_FUNCTIONS, _of_sparse),
    **dict.fromkeys(("pack", "unpack", "swizzle", "unswizzle", "pack_blocks", "unpack_blocks"), _of_layout),
    "tensor_scale": _of_tensor, "matmul": _of_product, "grouped_matmul": _of_grouped, "quantize_fused": _of_fused,
    ATTENTION: _of_cache, **dict.fromkeys(CACHE_FUNCTIONS, _of_cache),
}  # fmt: skip
