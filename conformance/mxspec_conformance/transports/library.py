"""A shared library with the functions of `mxspec_target.h`, as a module; the judge loads it in a child process."""

from __future__ import annotations

import ctypes
import math
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import Offset
from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec.sparsity import get_sparse
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.arrays import laid_size
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import BadReturn, RemoteError, TargetError
from mxspec_conformance.targets.interface import OPERATIONS, quantized_shapes
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.operands import Side
from mxspec_conformance.transports import abi
from mxspec_conformance.transports.description import describe_surroundings, read_description
from mxspec_conformance.transports.wire import parse_line

#: Bytes of a description.
MAX_DESCRIPTION = 1 << 20
#: Bytes before and behind each output; what a function writes there is beyond its bounds.
_FENCE = 64
_FENCE_BYTE = 0xC5


def header_path() -> Path:
    """Where `mxspec_target.h` lies."""
    return Path(str(files("mxspec_conformance").joinpath("transports/include/mxspec_target.h")))


def load_library(path: Path) -> Library:
    """The library at a path.

    Raises TargetError where it does not load, is of another ABI, or lacks what it describes.
    """
    if not path.is_file():
        raise TargetError(f"{path} does not exist; pass the path of a shared library")
    try:
        handle = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise TargetError(f"{path} does not load: {error}") from error
    for name in ("mxspec_abi", "mxspec_describe"):
        if not hasattr(handle, name):
            raise TargetError(f"{path} does not export {name}; it is declared in {header_path()}")
    version = handle.mxspec_abi()
    if version not in abi.ABIS:
        raise TargetError(f"{path} was compiled for ABI {version}; this judge speaks ABI {abi.ABI}")
    handle.mxspec_describe.restype = ctypes.c_char_p
    text = handle.mxspec_describe() or b""
    if len(text) > MAX_DESCRIPTION:
        raise TargetError(f"{path}: mxspec_describe returned {len(text)} bytes; at most {MAX_DESCRIPTION} are read")
    try:
        document = parse_line(text)
    except ValueError as error:
        raise TargetError(f"{path}: mxspec_describe returned no JSON ({error})") from None
    return Library(handle, document, str(path))


class _Output:
    """An array that a function writes, with fences around it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.size = math.prod(shape) * np.dtype(dtype).itemsize
        self._shape, self._dtype = shape, dtype
        self._whole = np.full(self.size + 2 * _FENCE, _FENCE_BYTE, np.uint8)
        self.pointer = self._whole.ctypes.data + _FENCE

    def read(self, what: str) -> npt.NDArray[Any]:
        """What was written. Raises BadReturn where a fence is broken."""
        before, behind = self._whole[:_FENCE], self._whole[_FENCE + self.size :]
        for fence, side in ((before, "before the start"), (behind, "past the end")):
            if (fence != _FENCE_BYTE).any():
                raise BadReturn(f"wrote {side} of {what} ({self.size} bytes)")
        written: npt.NDArray[Any] = self._whole[_FENCE : _FENCE + self.size].view(self._dtype).reshape(self._shape)
        return written


class Library:
    """Has the functions that the library describes, with the signatures of the Python interface."""

    MXSPEC_TAKES_SIDES = True

    def __init__(self, handle: Any, document: Any, spec: str) -> None:
        self.MXSPEC_CAPABILITIES = read_description(document, spec)
        self.MXSPEC_SURROUNDINGS = describe_surroundings(document)
        self._handle = handle
        if self.MXSPEC_CAPABILITIES.has("quantize", "scales"):
            raise TargetError(f"{spec} describes quantize with scales, for which mxspec_quantize_call has no field; leave scales out, or use a process")
        for function in self.MXSPEC_CAPABILITIES.functions:
            if not hasattr(handle, f"mxspec_{function}"):
                raise TargetError(f"{spec} describes {function}, but does not export mxspec_{function}")
        if hasattr(handle, "mxspec_message"):
            handle.mxspec_message.restype = ctypes.c_char_p

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS or name not in self.MXSPEC_CAPABILITIES.functions:
            raise AttributeError(name)
        return partial(getattr(self, f"_{name}"))

    def _call(self, function: str, call: ctypes.Structure) -> None:
        status = getattr(self._handle, f"mxspec_{function}")(ctypes.byref(call))
        if status == abi.OK:
            return
        text = self._handle.mxspec_message() if hasattr(self._handle, "mxspec_message") else None
        message = text.decode("utf-8", errors="replace") if text else f"mxspec_{function} gave no message"
        if status == abi.UNSUPPORTED:
            raise NotImplementedError(message)
        if status == abi.ERROR:
            raise RemoteError(message)
        raise BadReturn(f"mxspec_{function} returned status {status}; allowed are 0, 1 and 2")

    def _quantize(self, x: Any, fmt: str, **options: Any) -> tuple[Any, Any]:
        capabilities, block = self.MXSPEC_CAPABILITIES, get_block(fmt)
        x = np.ascontiguousarray(x)
        axis, square = options.get("axis", -1) % x.ndim, options.get("block") is not None
        codes_shape, scales_shape = quantized_shapes(x.shape, block, axis=axis, square=square)
        if (layout := capabilities.layout_of(fmt)) != UNPACKED:
            codes_shape = (codes_shape[0], laid_size(codes_shape, layout) // max(codes_shape[0], 1))
        if capabilities.scale_layout != ROW_MAJOR:
            scales_shape = (laid_size(scales_shape, capabilities.scale_layout),)
        codes, scales = _Output(codes_shape, np.uint8), _Output(scales_shape, np.uint8)
        tensor_scale = _pointed(options.get("tensor_scale"))
        words, seed = options.get("random_bits"), options.get("seed")
        words = None if words is None else np.ascontiguousarray(words, np.uint32)
        seed = None if seed is None else np.array([seed], np.uint64)
        call = abi.QuantizeCall(
            format=fmt.encode(), x=x.ctypes.data, dtype=abi.DTYPE_NUMBERS[x.dtype.name], axis=axis, rows=x.shape[0],
            columns=x.shape[1], pad=int(options.get("pad", False)), block_rows=16 if square else 1,
            tensor_scale=_address(tensor_scale), codes=codes.pointer, codes_size=codes.size, scales=scales.pointer,
            scales_size=scales.size, random_bits=None if words is None else words.ctypes.data,
            seed=None if seed is None else seed.ctypes.data,
        )  # fmt: skip
        self._call("quantize", call)
        return codes.read("codes"), scales.read("scales")

    def _dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        codes, scales, scale = np.ascontiguousarray(codes), np.ascontiguousarray(scales), _pointed(tensor_scale)
        packed = self.MXSPEC_CAPABILITIES.layout_of(fmt) != UNPACKED
        shape = (codes.shape[0], 8 * codes.shape[1] // get_block(fmt).element.bits if packed else codes.shape[1])
        values = _Output(shape, np.float32)
        call = abi.DequantizeCall(
            format=fmt.encode(), codes=codes.ctypes.data, codes_size=codes.size, scales=scales.ctypes.data,
            scales_size=scales.size, rows=shape[0], columns=shape[1], tensor_scale=_address(scale),
            values=values.pointer,
        )  # fmt: skip
        self._call("dequantize", call)
        return values.read("values")

    def _quantize_affine(self, x: Any, affine: str) -> tuple[Any, Any, Any]:
        x, operand = np.ascontiguousarray(x), read_operand(affine)
        codes_shape, shared = operand.shapes(x.shape)
        is_bias = operand.format.offset is Offset.BIAS
        codes = _Output(codes_shape, np.uint32 if operand.words else np.uint8)
        scales = _Output(shared, operand.format.numpy_dtype)
        offsets = _Output(shared, operand.format.numpy_dtype if is_bias else np.uint8)
        call = abi.QuantizeAffineCall(
            affine=affine.encode(), x=x.ctypes.data, rows=x.shape[0], columns=x.shape[1], codes=codes.pointer,
            codes_size=codes.size, scales=scales.pointer, scales_size=scales.size, offsets=offsets.pointer,
            offsets_size=offsets.size,
        )  # fmt: skip
        self._call("quantize_affine", call)
        return codes.read("codes"), scales.read("scales"), offsets.read("biases" if is_bias else "zero points")

    def _dequantize_affine(self, codes: Any, scales: Any, offsets: Any, affine: str) -> Any:
        given = [np.ascontiguousarray(a) for a in (codes, scales, offsets)]
        rows, columns = scales.shape[0], scales.shape[1] * read_operand(affine).format.group
        values = _Output((rows, columns), np.float32)
        call = abi.DequantizeAffineCall(
            affine=affine.encode(), codes=given[0].ctypes.data, codes_size=given[0].nbytes, scales=given[1].ctypes.data,
            scales_size=given[1].nbytes, offsets=given[2].ctypes.data, offsets_size=given[2].nbytes, rows=rows,
            columns=columns, values=values.pointer,
        )  # fmt: skip
        self._call("dequantize_affine", call)
        return values.read("values")

    def _encode(self, x: Any, element: str, rounding: str | None = None, overflow: str | None = None) -> Any:
        x = np.ascontiguousarray(x, np.float32)
        codes = _Output(x.shape, np.uint8)
        call = abi.EncodeCall(
            element=element.encode(), x=x.ctypes.data, count=x.size, rounding=rounding and rounding.encode(),
            overflow=overflow and overflow.encode(), codes=codes.pointer,
        )  # fmt: skip
        self._call("encode", call)
        return codes.read("codes")

    def _decode(self, codes: Any, element: str) -> Any:
        codes = np.ascontiguousarray(codes)
        values = _Output(codes.shape, np.float32)
        self._call(
            "decode",
            abi.DecodeCall(element=element.encode(), codes=codes.ctypes.data, count=codes.size, values=values.pointer),
        )
        return values.read("values")

    def _encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        x, words = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(random_bits, np.uint32)
        codes = _Output(x.shape, np.uint8)
        call = abi.EncodeStochasticCall(
            element=element.encode(), x=x.ctypes.data, random_bits=words.ctypes.data, count=x.size, codes=codes.pointer
        )
        self._call("encode_stochastic", call)
        return codes.read("codes")

    def _tensor_scale(self, x: Any, fmt: str) -> Any:
        x = np.ascontiguousarray(x, np.float32)
        rows, columns = x.shape if x.ndim == 2 else (1, x.size)
        scale = _Output((1,), np.float32)
        call = abi.TensorScaleCall(
            format=fmt.encode(), x=x.ctypes.data, rows=rows, columns=columns, scale=scale.pointer
        )
        self._call("tensor_scale", call)
        return scale.read("scale")

    def _prune(self, codes: Any, fmt: str) -> Any:
        codes = np.ascontiguousarray(codes)
        pruned = _Output(codes.shape, np.uint8)
        self._call_sparse("prune", fmt, codes.shape, codes=codes.ctypes.data, pruned=pruned.pointer)
        return pruned.read("codes")

    def _compress(self, codes: Any, fmt: str) -> tuple[Any, Any]:
        codes = np.ascontiguousarray(codes)
        rows, k = codes.shape
        layouts = self.MXSPEC_CAPABILITIES.sparse_layout or ("unpacked", "unpacked")
        shapes = (rows, k // 2), (rows, k // get_sparse(fmt).group)
        kept, metadata = (
            _Output(shape if layout == "unpacked" else (get_layout(layout).size(shape),), np.uint8)
            for shape, layout in zip(shapes, layouts, strict=True)
        )
        parts = {"kept": kept.pointer, "kept_size": kept.size, "metadata": metadata.pointer, "metadata_size": metadata.size}
        self._call_sparse("compress", fmt, codes.shape, codes=codes.ctypes.data, **parts)
        return kept.read("kept"), metadata.read("metadata")

    def _decompress(self, kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
        kept, metadata = np.ascontiguousarray(kept), np.ascontiguousarray(metadata)
        codes = _Output(tuple(shape), np.uint8)
        parts = {"kept": kept.ctypes.data, "kept_size": kept.nbytes, "metadata": metadata.ctypes.data}
        self._call_sparse("decompress", fmt, tuple(shape), codes=codes.pointer, metadata_size=metadata.nbytes, **parts)
        return codes.read("codes")

    def _call_sparse(self, function: str, fmt: str, shape: tuple[int, ...], **fields: Any) -> None:
        rows, columns = shape
        self._call(function, abi.SparseCall(format=fmt.encode(), rows=rows, columns=columns, **fields))

    def _to_layout(self, function: str, parts: dict[str, Any], layout: str) -> Any:
        """parts: codes, scales or both, codes first."""
        arrays = {name: np.ascontiguousarray(a) for name, a in parts.items()}
        shape = next(iter(arrays.values())).shape
        data = _Output((get_layout(layout).size(shape),), np.uint8)
        pointers = {name: a.ctypes.data for name, a in arrays.items()}
        self._call_layout(function, layout, shape, data=data.pointer, data_size=data.size, **pointers)
        return data.read("data")

    def _from_layout(self, function: str, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        data = np.ascontiguousarray(data)
        outputs = {
            f.part.value: _Output((*shape[:-1], shape[-1] // f.covers), np.uint8) for f in get_layout(layout).fields
        }
        pointers = {name: output.pointer for name, output in outputs.items()}
        self._call_layout(function, layout, shape, data=data.ctypes.data, data_size=data.size, **pointers)
        found = [outputs[name].read(name) for name in ("codes", "scales") if name in outputs]
        return found[0] if len(found) == 1 else tuple(found)

    def _call_layout(self, function: str, layout: str, shape: tuple[int, ...], **fields: Any) -> None:
        sizes = np.array(shape, np.int64)
        call = abi.LayoutCall(layout=layout.encode(), rank=len(shape), shape=sizes.ctypes.data, **fields)
        self._call(function, call)

    def _pack(self, codes: Any, layout: str) -> Any:
        return self._to_layout("pack", {"codes": codes}, layout)

    def _swizzle(self, scales: Any, layout: str) -> Any:
        return self._to_layout("swizzle", {"scales": scales}, layout)

    def _pack_blocks(self, codes: Any, scales: Any, layout: str) -> Any:
        return self._to_layout("pack_blocks", {"codes": codes, "scales": scales}, layout)

    def _unpack(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        return self._from_layout("unpack", data, layout, shape)

    def _unswizzle(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        return self._from_layout("unswizzle", data, layout, shape)

    def _unpack_blocks(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        return self._from_layout("unpack_blocks", data, layout, shape)

    def _matmul(
        self,
        a: Side,
        b: Side,
        out_dtype: str,
        alpha: float | None = None,
        beta: float | None = None,
        c: Any = None,
        bias: Any = None,
    ) -> Any:
        (m, k), n = a.shape, b.shape[0]
        values = _Output((m, n), DTYPES[out_dtype])
        held = [_held_arrays(side) for side in (a, b)]
        factors = _pointed(alpha), _pointed(beta)
        added = [None if x is None else np.ascontiguousarray(x) for x in (c, bias)]
        dtypes = {x.dtype.name for x in added if x is not None}
        call = abi.MatmulCall(
            m=m, n=n, k=k, a=_describe_operand(a, held[0]), b=_describe_operand(b, held[1]), alpha=_address(factors[0]),
            beta=_address(factors[1]), c=_address(added[0]), bias=_address(added[1]), out_dtype=abi.DTYPE_NUMBERS[out_dtype],
            added_dtype=abi.DTYPE_NUMBERS[next(iter(dtypes), "float32")], values=values.pointer, a_more=_describe_more(held[0]),
            b_more=_describe_more(held[1]),
        )  # fmt: skip
        self._call("matmul", call)
        return values.read("values")


def _held_arrays(side: Side) -> dict[str, npt.NDArray[Any]]:
    """The arrays of one side of a product, dense."""
    parts = {name: getattr(side, name) for name in ("values", "codes", "scales", "offsets", "metadata")}
    found = {name: np.ascontiguousarray(part) for name, part in parts.items() if part is not None}
    if side.tensor_scale is not None:
        found["tensor_scale"] = np.array([side.tensor_scale], np.float32)
    return found


def _describe_operand(side: Side, held: dict[str, npt.NDArray[Any]]) -> abi.Operand:
    mine = [name for name in ("values", "codes", "scales", "tensor_scale") if name in held]
    sizes = {f"{name}_size": held[name].nbytes for name in ("codes", "scales") if name in held}
    return abi.Operand(spec=side.spec.encode(), **{name: held[name].ctypes.data for name in mine}, **sizes)


def _describe_more(held: dict[str, npt.NDArray[Any]]) -> abi.OperandMore:
    mine = {name: held[name] for name in ("offsets", "metadata") if name in held}
    sizes = {f"{name}_size": array.nbytes for name, array in mine.items()}
    return abi.OperandMore(**{name: array.ctypes.data for name, array in mine.items()}, **sizes)


def _pointed(value: float | None) -> npt.NDArray[np.float32] | None:
    return None if value is None else np.array([value], np.float32)


def _address(array: npt.NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data
