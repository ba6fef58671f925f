"""What an answer has to be, of whatever process it comes: the judge's own look at types, dtypes and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxspec.affine.formats import Offset
from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec.sparsity import get_sparse
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.arrays import quantized_shapes
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.operands import read_numbers

Arguments = tuple[Any, ...]
Options = Mapping[str, Any]


def is_answer(function: str, args: Arguments, kwargs: Options, value: Any) -> bool:
    """Whether a value can be what `Marshaller.call` returns; True for calls that this module does not know.

    The process that answers runs the target: what it sends need not be what the marshaller made.
    """
    check = _CHECKS.get(function)
    return check is None or check(args, kwargs, value)


def _is_array(value: Any, dtype: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == shape


def _quantized(args: Arguments, kwargs: Options, value: Any) -> bool:
    x, fmt = args[:2]
    shapes = quantized_shapes(
        x.shape, get_block(fmt), axis=kwargs.get("axis", -1), square=kwargs.get("block") is not None
    )
    return isinstance(value, tuple) and len(value) == 2 and all(
        _is_array(a, np.uint8, shape) for a, shape in zip(value, shapes, strict=True)
    )  # fmt: skip


def _quantized_affine(args: Arguments, _: Options, value: Any) -> bool:
    x, affine = args
    fmt = read_operand(affine).format
    shared = (*x.shape[:-1], x.shape[-1] // fmt.group)
    offsets = fmt.numpy_dtype if fmt.offset is Offset.BIAS else np.uint8
    wanted = ((np.uint8, x.shape), (fmt.numpy_dtype, shared), (offsets, shared))
    return isinstance(value, tuple) and len(value) == 3 and all(
        _is_array(a, *w) for a, w in zip(value, wanted, strict=True)
    )  # fmt: skip


def _values(args: Arguments, _: Options, value: Any) -> bool:
    return _is_array(value, np.float32, args[0].shape)


def _codes(args: Arguments, _: Options, value: Any) -> bool:
    return _is_array(value, np.uint8, args[0].shape)


def _product(args: Arguments, _: Options, value: Any) -> bool:
    a, b, out_dtype = args
    return _is_array(value, DTYPES[out_dtype], (read_numbers(a).shape[0], read_numbers(b).shape[0]))


def _packed(_args: Arguments, _: Options, value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1


def _items(args: Arguments, _: Options, value: Any) -> bool:
    _data, layout, shape = args
    wanted = [(*shape[:-1], shape[-1] // part.covers) for part in get_layout(layout).fields]
    return isinstance(value, tuple) and len(value) == len(wanted) and all(
        _is_array(a, np.uint8, shape) for a, shape in zip(value, wanted, strict=True)
    )  # fmt: skip


def _compressed(args: Arguments, _: Options, value: Any) -> bool:
    rows, k = args[0].shape
    return isinstance(value, tuple) and len(value) == 2 and all(
        _is_array(a, np.uint8, (rows, n)) for a, n in zip(value, (k // 2, k // get_sparse(args[1]).group), strict=True)
    )  # fmt: skip


def _decompressed(args: Arguments, _: Options, value: Any) -> bool:
    return _is_array(value, np.uint8, tuple(args[3]))


def _raw(_args: Arguments, _: Options, value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, bytes) for v in value)


def _arranged(args: Arguments, kwargs: Options, value: Any) -> bool:
    return is_answer(args[1], args[2:], kwargs, value)


def _probe(args: Arguments, kwargs: Options, value: Any) -> bool:
    function, first, _second = args
    if not (isinstance(value, tuple) and len(value) == 3 and all(isinstance(v, bool) for v in value[:2])):
        return False
    return is_answer(function, first, kwargs, value[2])


def _reused(args: Arguments, kwargs: Options, value: Any) -> bool:
    return is_answer(args[0], args[2], kwargs, value)


def _counts(_args: Arguments, _: Options, value: Any) -> bool:
    """Two numbers, such as how many of how many."""
    return isinstance(value, tuple) and len(value) == 2 and all(type(v) is int for v in value)


def _trimmed(args: Arguments, _: Options, value: Any) -> bool:
    return value is None or _is_array(value, np.uint8, args[0].shape)


_CHECKS: dict[str, Callable[[Arguments, Options, Any], bool]] = {
    "quantize": _quantized,
    "raw_quantize": _raw,
    "dequantize": _values,
    "matmul": _product,
    "quantize_affine": _quantized_affine,
    "dequantize_affine": _values,
    "decode": _values,
    "encode": _codes,
    "encode_stochastic": _codes,
    "tensor_scale": lambda _args, _, value: isinstance(value, float),
    "prune": _codes,
    "compress": _compressed,
    "decompress": _decompressed,
    "pack": _packed,
    "swizzle": _packed,
    "pack_blocks": _packed,
    "unpack": _items,
    "unswizzle": _items,
    "unpack_blocks": _items,
    "arranged": _arranged,
    "probe": _probe,
    "reused": _reused,
    "held": _counts,
    "covered": lambda _args, _, value: type(value) is int,
    "output_dtype": lambda _args, _, value: isinstance(value, str) and value in DTYPES,
    "repeated": _counts,
    "threads": _counts,
    "trimmed": _trimmed,
    "wrote": lambda _args, _, value: isinstance(value, bool),
    "float_environment": lambda _args, _, value: isinstance(value, str),
    "timed": lambda _args, _, value: isinstance(value, float),
}
