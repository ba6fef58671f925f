"""A shared library with the functions of `mxspec_target.h`, as a module; the judge loads it in a child process."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.attention import parse_attention, parse_cache
from mxspec.formats import get_block
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.errors import BadReturn, RemoteError, TargetError
from mxspec_conformance.targets.forms import TargetArray
from mxspec_conformance.targets.interface import OPERATIONS, SIDE_PARTS, Call, Form, Operation, Shape
from mxspec_conformance.targets.operand_words import UNPACKED
from mxspec_conformance.transports import abi
from mxspec_conformance.transports.abi import header_path as header_path
from mxspec_conformance.transports.description import describe_surroundings, read_description
from mxspec_conformance.transports.wire import parse_line

#: Bytes of a description.
MAX_DESCRIPTION = 1 << 20
#: Bytes before and behind each output; what a function writes there is beyond its bounds.
_FENCE = 64
_FENCE_BYTE = 0xC5


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

    def __init__(self, dtype: Any, shape: Shape, before: Any = None) -> None:
        self.size = math.prod(shape) * np.dtype(dtype).itemsize
        self._shape, self._dtype = shape, dtype
        self._whole = np.full(self.size + 2 * _FENCE, _FENCE_BYTE, np.uint8)
        self.pointer = self._whole.ctypes.data + _FENCE
        if before is not None:
            self._whole[_FENCE : _FENCE + self.size] = np.frombuffer(np.ascontiguousarray(before).tobytes(), np.uint8)

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
            raise TargetError(
                f"{spec} describes quantize with scales, for which mxspec_quantize_call has no field; leave scales out, or use a process"
            )
        for function in self.MXSPEC_CAPABILITIES.functions:
            if not hasattr(handle, f"mxspec_{function}"):
                raise TargetError(f"{spec} describes {function}, but does not export mxspec_{function}")
        if hasattr(handle, "mxspec_message"):
            handle.mxspec_message.restype = ctypes.c_char_p

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS or name not in self.MXSPEC_CAPABILITIES.functions:
            raise AttributeError(name)
        return partial(self._run, name)

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

    def _run(self, function: str, /, *args: Any, **options: Any) -> Any:
        """One call of a function; the fields of its structure are its arguments, options and outputs."""
        operation = OPERATIONS[function]
        call = operation.name_call(args, options)
        shape = self._measure(operation, call)
        wanted = operation.expect(call, shape)
        arrays = [TargetArray(operation, w.name, call, self.MXSPEC_CAPABILITIES) for w in wanted]
        # A cache is written in place.
        before = [call.get(w.name) if array.form is Form.ROWS else None for array, w in zip(arrays, wanted, strict=True)]
        outputs = [_Output(*array.expect(w.dtype, w.shape, shape), held) for array, w, held in zip(arrays, wanted, before, strict=True)]
        # Codes that are pruned come in and go out.
        names = ["pruned"] if function == "prune" else [w.name for w in wanted]
        held: list[Any] = []
        fields = call | _list_numbers(call, shape) | dict(zip(names, outputs, strict=True))
        self._call(function, _fill(abi.CALLS[function], fields, held))
        found = tuple(output.read(array.word) for output, array in zip(outputs, arrays, strict=True))
        return found[0] if len(found) == 1 else found

    def _measure(self, operation: Operation, call: Call) -> Shape:
        """The shape of a call's numbers, whose codes may be packed."""
        match operation.name:
            case "matmul" | "grouped_matmul":
                return call["a"].shape[-2], call["b"].shape[-2]
            case "dequantize" if self.MXSPEC_CAPABILITIES.layout_of(call["format"]) != UNPACKED:
                rows, size = call["codes"].shape
                return rows, 8 * size // get_block(call["format"]).element.bits
            case "dequantize_affine":
                rows, groups = call["scales"].shape
                return rows, groups * read_operand(call["affine"]).format.group
        return operation.measure(call)


def _list_numbers(call: Call, shape: Shape) -> dict[str, Any]:
    """Fields of structures that are neither text nor an array of the call: sizes, dtypes, options and operands of a product."""
    count, axis = math.prod(shape), call.get("axis", -1)
    rows, columns = shape if len(shape) == 2 else (1, count)
    fields = {
        "rows": rows, "columns": columns, "count": count, "rank": len(shape), "shape": shape, "axis": axis % max(len(shape), 1),
        "block_rows": 1 if call.get("block") is None else 16,
    }  # fmt: skip
    if "x" in call:
        fields["dtype"] = abi.DTYPE_NUMBERS.get(call["x"].dtype.name)
    if "a" in call:
        added = [call[name].dtype.name for name in ("c", "bias") if call.get(name) is not None]
        fields |= {"m": rows, "n": columns, "k": call["a"].shape[-1], "out_dtype": abi.DTYPE_NUMBERS[call["out_dtype"]]}
        fields["experts"] = call["b"].shape[0]
        fields["added_dtype"] = abi.DTYPE_NUMBERS[added[0] if added else "float32"]
        for side in "ab":
            fields[side] = fields[f"{side}_more"] = {part: getattr(call[side], part) for part in SIDE_PARTS}
    if "cache" in call or "attention" in call:
        fields |= _list_sizes(call)
    return fields


def _list_sizes(call: Call) -> dict[str, Any]:
    """The sizes of a call on a cache."""
    spec = parse_cache(call["cache"]) if "cache" in call else parse_attention(call["attention"])
    pages = call["k_cache"] if "cache" in call else call["k"]
    first, second = (1, 2) if spec.heads_first else (2, 1)
    fields = {"k_width": pages.shape[-1], "d": spec.k.columns(pages.shape[-1]), "kv_heads": pages.shape[1 if spec.ragged else first]}
    fields |= {} if spec.ragged else {"pages": pages.shape[0], "page": pages.shape[second]}
    fields["v_width"] = spec.v.width(fields["d"])
    fields["sequences"] = len(call.get("lengths", ()))
    fields["pages_each"] = 0 if (table := call.get("page_table")) is None else table.shape[1]
    if "attention" in call:
        fields |= {"tokens": call["q"].shape[0], "heads": call["q"].shape[1], "out_dtype": abi.DTYPE_NUMBERS[call["out_dtype"]]}
    elif "slots" in call:
        fields |= {"tokens": len(call["slots"]), "dtype": abi.DTYPE_NUMBERS[call["k"].dtype.name]}
    return fields


def _fill(structure: type[abi.Structure], fields: Mapping[str, Any], held: list[Any]) -> abi.Structure:
    """A structure with the known fields that are not None; it points at arrays that are held."""
    filled = structure()
    for name, kind in structure.fields.items():
        of = name.removesuffix("_size")
        value = fields.get(of)
        if isinstance(value, _Output):
            value = value.pointer if of == name else value.size
        elif value is not None and of in structure.arrays:
            is_float_scale = structure.arrays[of] == np.uint8 and value.dtype == np.float32
            array = np.ascontiguousarray(value.view(np.uint8) if is_float_scale else value, structure.arrays[of])
            held.append(array)
            value = array.ctypes.data if of == name else array.nbytes
        elif isinstance(value, str):
            value = value.encode()
        elif isinstance(value, Mapping):
            value = _fill(kind, value, held)
        if value is not None:
            setattr(filled, name, value)
    return filled
