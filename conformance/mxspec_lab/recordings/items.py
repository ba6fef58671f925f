"""A call as items: the blocks or numbers that it hands over, and what came back for each.

Vectors are asked in batches, and batches grow; an item is asked again as it is. Where an answer hangs on more than its
item (an axis, a ragged end, a tile), the call is kept as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block

#: One item to a row, as bytes.
Rows = npt.NDArray[np.uint8]
#: Bytes of what names an item among those of its class.
KEY_BYTES = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """How the arrays of a function consist of items: of blocks in rows, or of single numbers."""

    #: Dtypes of the arrays that come back.
    outputs: tuple[type, ...]
    of_blocks: bool = False
    #: Options under which each item is answered for itself.
    options: frozenset[str] = frozenset()


SHAPES: Mapping[str, Shape] = {
    "quantize": Shape((np.uint8, np.uint8), of_blocks=True, options=frozenset({"tensor_scale"})),
    "dequantize": Shape((np.float32,), of_blocks=True, options=frozenset({"tensor_scale"})),
    "encode": Shape((np.uint8,), options=frozenset({"rounding", "overflow"})),
    "decode": Shape((np.float32,)),
    "encode_stochastic": Shape((np.uint8,)),
}


@dataclass(frozen=True, slots=True)
class Items:
    """The items of one call."""

    #: Function, format or element, dtype and options, of numbers the names alone: one profile answers a class.
    name: str
    shape: Shape
    #: Shapes of the arrays that come back.
    sizes: tuple[tuple[int, ...], ...]
    #: Names of the items: `_name_rows`.
    keys: npt.NDArray[np.uint64]

    def split(self, answer: Any) -> Rows | None:
        """The bytes [n, w] of an answer, an item to a row; None where other arrays came back than the interface has."""
        parts = answer if isinstance(answer, tuple) else (answer,)
        found = [(getattr(p, "shape", None), getattr(p, "dtype", None)) for p in parts]
        if found != [(s, np.dtype(d)) for s, d in zip(self.sizes, self.shape.outputs, strict=True)]:
            return None
        return np.hstack([_to_rows(p, len(self.keys)) for p in parts])

    def join(self, rows: Rows) -> Any:
        """The answer whose items have these bytes."""
        parts: list[npt.NDArray[Any]] = []
        start = 0
        for size, dtype in zip(self.sizes, self.shape.outputs, strict=True):
            width = int(np.prod(size)) // len(rows) * np.dtype(dtype).itemsize
            parts.append(np.ascontiguousarray(rows[:, start : start + width]).view(dtype).reshape(size))
            start += width
        return parts[0] if len(parts) == 1 else tuple(parts)


def list_items(function: str, args: Sequence[Any], options: Mapping[str, Any]) -> Items | None:
    """The items of a call; None where it is kept as a whole."""
    shape = SHAPES.get(function)
    if shape is None or not shape.options.issuperset(options):
        return None
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    text = next(a for a in args if isinstance(a, str))
    x, k = arrays[0], get_block(text).k if shape.of_blocks else 1
    count = x.size // k
    if not count or (shape.of_blocks and (x.ndim != 2 or x.shape[1] % k)) or any(a.size % count for a in arrays):
        return None
    floats = {name: float(v).hex() for name, v in sorted(options.items()) if isinstance(v, float)}
    words = [f"{name}={v}" for name, v in sorted(options.items()) if name not in floats]
    sizes = (x.shape, (x.shape[0], count // x.shape[0]))[: len(shape.outputs)]
    keys = _name_rows(np.hstack([_to_rows(a, count) for a in arrays]), " ".join(floats.values()))
    return Items(" ".join([function, text, x.dtype.name, *floats, *words]), shape, sizes, keys)


def digest_answers(keys: npt.NDArray[np.uint64], rows: Rows) -> str:
    """A digest of items, ascending, and their answers."""
    return hashlib.blake2b(keys.astype("<u8").tobytes() + rows.tobytes(), digest_size=16).hexdigest()


def _to_rows(a: npt.NDArray[Any], count: int) -> Rows:
    return np.ascontiguousarray(a).reshape(count, -1).view(np.uint8)


def _name_rows(rows: Rows, given: str) -> npt.NDArray[np.uint64]:
    """Keys of items: their own bytes where these are few, or a digest of them and of options that are numbers."""
    if given or rows.shape[1] > KEY_BYTES:
        return np.array(_digest_rows(rows, hashlib.blake2b(given.encode(), digest_size=KEY_BYTES)), np.uint64)
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide.view("<u8").reshape(-1).astype(np.uint64)


def _digest_rows(rows: Rows, head: Any) -> list[int]:
    data, width, found = rows.tobytes(), rows.shape[1], []
    for start in range(0, len(data), width):
        digest = head.copy()
        digest.update(data[start : start + width])
        found.append(int.from_bytes(digest.digest(), "little"))
    return found
