"""Calls as JSON: arrays as hex or base64 of raw bytes, requests with ids that depend on their content alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.errors import BadReturn
from mxspec_conformance.targets.interface import ARGUMENTS, OPERATIONS, SIDE_PARTS, Kind
from mxspec_conformance.targets.operands import Side
from mxspec_vectors.reading import parse_json

DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "uint8": np.dtype("u1"),
    "uint32": np.dtype("<u4"),
    "int32": np.dtype("<i4"),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

#: Sizes with more bytes than this are a mistake, not an answer.
MAX_BYTES = 1 << 31
#: Values of one message's JSON; arrays are text or bytes, so that no message needs many.
MAX_VALUES = 100_000


def write_array(a: npt.NDArray[Any], encoding: str = "base64") -> dict[str, Any]:
    """An array as JSON, its bytes in hex or base64."""
    name = a.dtype.name
    data = np.ascontiguousarray(a, DTYPES[name]).tobytes()
    text = data.hex() if encoding == "hex" else base64.b64encode(data).decode("ascii")
    return {"dtype": name, "shape": list(a.shape), encoding: text}


def read_array(document: Mapping[str, Any], what: str) -> npt.NDArray[Any]:
    """The array that a document of the schema's `array` holds.

    Raises BadReturn where bytes and shape do not fit together.
    """
    try:
        if "hex" in document:
            data = bytes.fromhex(document["hex"])
        else:
            data = base64.b64decode(document["base64"], validate=True)
    except (ValueError, binascii.Error) as error:
        raise BadReturn(f"{what}: the bytes cannot be read ({error})") from None
    # To JSON Schema, and to languages with one kind of number, 32.0 is an integer.
    dtype, shape = DTYPES[document["dtype"]], tuple(int(n) for n in document["shape"])
    size = count_bytes(dtype, shape)
    if len(data) != size:
        raise BadReturn(f"{what}: {len(data)} bytes came; {document['dtype']} {list(shape)} takes {size}")
    return np.frombuffer(data, dtype).reshape(shape)


def count_bytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    """The bytes of an array; MAX_BYTES for all that have more."""
    size = dtype.itemsize
    for n in shape:
        size = min(size * n, MAX_BYTES)
    return size


#: Dtypes of arrays between the judge and its own processes: those of the protocol, and what NumPy makes of a number.
PLAIN_DTYPES = {n: np.dtype(n) for n in ("bool", "int8", "int16", "int64", "uint16", "uint64", "float64")} | DTYPES
#: Axes that NumPy's arrays can have in all versions.
_MAX_AXES = 32


def take_array(data: memoryview, described: Any) -> npt.NDArray[Any] | None:
    """The array that a description [dtype, shape] says to be at the start of the data; None where it is not."""
    if not (isinstance(described, list) and len(described) == 2):
        return None
    name, shape = described
    if not (isinstance(name, str) and name in PLAIN_DTYPES and isinstance(shape, list) and len(shape) <= _MAX_AXES):
        return None
    if not all(type(n) is int and 0 <= n <= MAX_BYTES for n in shape):
        return None
    size = count_bytes(PLAIN_DTYPES[name], shape)
    if size > len(data):
        return None
    return np.frombuffer(data[:size], PLAIN_DTYPES[name]).reshape(shape)


def write_float(value: float) -> dict[str, str]:
    """A float32 by its bits."""
    return {"float32": f"{int(np.float32(value).view(np.uint32)):08x}"}


def name_arguments(function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call by the interface's names; options that are None are left out."""
    named: dict[str, Any] = {}
    for name, value in zip(OPERATIONS[function].arguments, args, strict=True):
        named |= _name_side(name, value) if isinstance(value, Side) else {name: value}
    if "a" in OPERATIONS[function].arguments:  # (m, n, k), with the number of experts before them where there are some
        named["shape"] = (*args[1].shape[:-2], args[0].shape[-2], *args[1].shape[-2:])
    return named | {k: v for k, v in kwargs.items() if v is not None}


def _name_side(name: str, side: Side) -> dict[str, Any]:
    """The arrays of one operand of a product, each by a name of its own."""
    return {f"{name}_{part}": value for part in SIDE_PARTS if (value := getattr(side, part)) is not None}


def digest_call(function: str, arguments: Mapping[str, Any]) -> str:
    """16 hex digits that name a call: of the function and the bytes of all arguments, however they are encoded."""
    digest = hashlib.sha256(function.encode("ascii"))
    for name in sorted(arguments):
        value = arguments[name]
        if isinstance(value, np.ndarray):
            digest.update(f"\0{name}:{value.dtype.name}:{value.shape}:".encode("ascii"))
            digest.update(np.ascontiguousarray(value, DTYPES[value.dtype.name]).tobytes())
        else:
            digest.update(f"\0{name}={json.dumps(_plain(name, value))}".encode("ascii"))
    return digest.hexdigest()[:16]


def write_request(identifier: str, function: str, arguments: Mapping[str, Any], encoding: str) -> dict[str, Any]:
    """The request line of a call."""
    return {
        "cmd": "run",
        "id": identifier,
        "function": function,
        "arguments": {k: write_array(v, encoding) if isinstance(v, np.ndarray) else _plain(k, v) for k, v in arguments.items()},
    }


def _plain(name: str, value: Any) -> Any:
    kind = ARGUMENTS.get(name)  # None: of a call that is no operation
    if kind in (Kind.FLOAT, Kind.FLOATS):
        return write_float(value)
    if kind in (Kind.SIZES, Kind.GROUPS, Kind.PAIR):
        return [int(n) for n in value]
    return value


def dump_line(document: Any) -> bytes:
    """One line of JSON."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def parse_line(line: bytes) -> Any:
    """A line's JSON.

    Raises ValueError, with the place, for what is not JSON; NaN and Infinity are not, nor is an object that holds a name twice. So
    for what is nested deeply, or holds more values than any message needs: a short text can become a thousand times as much memory.
    """
    return parse_json(line, values=MAX_VALUES, constants=False, twice=False)
