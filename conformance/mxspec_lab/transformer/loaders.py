"""Two loaders of a stored matrix: one makes plain numbers of it and multiplies them, one multiplies what is stored.

Both take a matrix as `mxspec check` hands an operand to a target, so that the functions that run the transformer are the ones judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import layouts, sparsity
from mxspec.affine import AffineTensor, get_affine
from mxspec.affine.words import unpack_words
from mxspec.elements import decode_table
from mxspec.formats import BLOCKS, get_block

Floats = npt.NDArray[np.float32]
_SPARSE = "-2to4"
#: Metal Marlin's words of kept codes and of nibbles.
SPARSE_LAYOUTS = ("metal-marlin-values", "metal-marlin-metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A stored matrix; the fields are those of an operand of `mxspec check`."""

    format: str
    layout: str
    shape: tuple[int, int]
    codes: npt.NDArray[Any]
    scales: npt.NDArray[Any] | None = None
    biases: npt.NDArray[Any] | None = None
    metadata: npt.NDArray[Any] | None = None
    tensor_scale: float | None = None

    @property
    def bytes(self) -> int:
        """Bytes in the container."""
        parts = (self.codes, self.scales, self.biases, self.metadata)
        return sum(p.nbytes for p in parts if p is not None) + (4 if self.tensor_scale is not None else 0)

    @property
    def operand(self) -> str:
        """Its name among a target's OPERANDS."""
        if self.biases is not None:
            return f"{self.format}/words"
        if self.metadata is not None:
            return f"{self.format}/{'+'.join(SPARSE_LAYOUTS)}"
        return self.format if self.layout == "bytes" else f"{self.format}/{self.layout}"


def _unpack(w: Packed, layout: str, first: int, count: int) -> npt.NDArray[np.uint8]:
    """The codes [rows, count] of columns from `first`; both are multiples of a block."""
    rows, k = w.shape
    if w.format.endswith(_SPARSE):
        assert w.metadata is not None
        values, nibbles = w.codes.reshape(-1), w.metadata.reshape(-1)  # K runs slowest in both
        kept = layouts.unpack(values[first * rows // 4 : (first + count) * rows // 4], SPARSE_LAYOUTS[0], (rows, count // 2))
        where = layouts.unpack(nibbles[first * rows // 8 : (first + count) * rows // 8], SPARSE_LAYOUTS[1], (rows, count // 4))
        found: npt.NDArray[np.uint8] = sparsity.decompress(kept, where)
        return found
    data = w.codes.reshape(rows, -1)
    width = data.shape[1]
    part = np.ascontiguousarray(data[:, first * width // k : (first + count) * width // k])
    return unpack_words(part, 4) if part.dtype == np.uint32 else layouts.unpack(part.reshape(-1), layout, (rows, count))


def dequantize(w: Packed, layout: str) -> Floats:
    """The matrix as float32 [rows, k]: code times scale, exact, then times the tensor scale, rounded; affine numbers rounded once."""
    codes = _unpack(w, layout, 0, w.shape[1])
    name = w.format.removesuffix(_SPARSE)
    if name not in BLOCKS:
        assert w.scales is not None
        assert w.biases is not None
        tensor = AffineTensor(format=get_affine(name), codes=codes, scales=w.scales, offsets=w.biases)
        return np.asarray(tensor.dequantize("float32"), np.float32)
    fmt = get_block(name)
    with np.errstate(all="ignore"):
        numbers = decode_table(fmt.element)[codes] * np.repeat(decode_table(fmt.scale)[w.scales], fmt.k, axis=1)
        return np.asarray(numbers * np.float32(1 if w.tensor_scale is None else w.tensor_scale), np.float32)


def multiply_dequantized(x: Floats, w: Packed, layout: str) -> Floats:
    """x W^T [m, rows] of x [m, k], with all of W as float32."""
    with np.errstate(all="ignore"):
        return np.asarray(x @ dequantize(w, layout).T, np.float32)


def multiply_packed(x: Floats, w: Packed, layout: str) -> Floats:
    """x W^T [m, rows] of x [m, k], block by block: sums of numbers times codes, then times the block's scale.

    No number of W is made: codes of one block are unpacked at a time. An affine group adds its bias times the sum of its numbers.
    """
    name = w.format.removesuffix(_SPARSE)
    total = np.zeros((len(x), w.shape[0]), np.float32)
    fmt = get_block(name) if name in BLOCKS else None
    block = fmt.k if fmt else get_affine(name).group
    assert w.scales is not None
    scales = decode_table(fmt.scale)[w.scales] if fmt else w.scales.astype(np.float32)
    with np.errstate(all="ignore"):
        for number, first in enumerate(range(0, w.shape[1], block)):
            codes, part = _unpack(w, layout, first, block), x[:, first : first + block]
            numbers = decode_table(fmt.element)[codes] if fmt else codes.astype(np.float32)
            total += (part @ numbers.T) * scales[:, number]
            if w.biases is not None:
                total += part.sum(1, keepdims=True) * w.biases[:, number].astype(np.float32)
        return np.asarray(total * np.float32(1 if w.tensor_scale is None else w.tensor_scale), np.float32)


#: Loaders by the word that results have for them.
LOADERS = {"dequantizes": multiply_dequantized, "multiplies packed": multiply_packed}
