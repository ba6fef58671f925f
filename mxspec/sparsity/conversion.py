"""From one storage of sparse operands to another: torch's reordered metadata, linear words; and what does not convert."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import layouts
from mxspec.enums import StrEnum
from mxspec.inputs import as_array
from mxspec.sparsity.patterns import Codes, Sparsity, check_fit, check_metadata, get_sparsity

#: Bits of kept items -> (layout of their metadata, type of its words, nibbles in a word).
_TORCH: dict[int, tuple[str, np.dtype[Any], int]] = {
    16: ("torch-metadata-16", np.dtype("<i2"), 4),
    8: ("torch-metadata-32", np.dtype("<i4"), 8),
}
_TYPES = {np.dtype(np.float16): 16, np.dtype(ml_dtypes.bfloat16): 16, np.dtype(np.int8): 8, np.dtype(np.uint8): 8}


class Form(StrEnum):
    """What `convert` makes."""

    #: torch's `SparseSemiStructuredTensorCUTLASS`: packed and meta.
    TORCH = "torch"
    TWO_OF_FOUR = "2:4"
    PAIRS = "4:8 pairs"

    @classmethod
    def _missing_(cls, value: object) -> Form | None:
        return cls.PAIRS if value == "4:8" else None


def convert(
    kept: npt.ArrayLike, metadata: npt.ArrayLike, *, to: str | Form, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Kept items and metadata in another form.

    Args:
        kept: [M, K / 2]. For torch float16, bfloat16 or int8 (uint8 is taken by its bits).
        metadata: uint8 [M, K / 4], one nibble to a byte.
        to: "torch": the two parts of `SparseSemiStructuredTensorCUTLASS(shape, packed, meta, ...)`, metadata as int16
            words [M, K / 16] (16-bit items) or int32 words [M, K / 32] (8-bit items), rows and words interleaved.
        sparsity: What the operand is.

    Raises:
        TypeError: torch has no such operands: float32 is kept 1:2 there.
        ValueError: 2:4 to 4:8, or back: the one keeps two of every four codes, the other whole pairs, so that no metadata of one
            stand for the other: prune the dense codes again. Also for illegal metadata and shapes that the form does not take.
    """
    if to not in {*Form, "4:8"}:
        raise ValueError(f'unknown form {to!r}; known are "torch", "2:4" and "4:8"')
    form, pattern = Form(to), get_sparsity(sparsity)
    items, nibbles = as_array(kept, name="kept items"), as_array(metadata, name="metadata")
    check_metadata(nibbles)
    check_fit(items, nibbles, pattern)
    if form is not Form.TORCH:
        if form.value == pattern.value:
            return items, nibbles
        raise ValueError(
            f"{pattern} does not convert to {form}: the one keeps two of four {'pairs' if pattern is Sparsity.PAIRS else 'codes'}, "
            f"the other two of four {'codes' if pattern is Sparsity.PAIRS else 'pairs'}; decompress, prune again and compress"
        )
    if pattern is Sparsity.PAIRS:
        raise ValueError("torch has no 4:8 pairs; its operands are 2:4 of float16, bfloat16 and int8")
    if items.dtype not in _TYPES:
        raise TypeError(f"kept items are {items.dtype}; torch keeps 2:4 of float16, bfloat16 and int8 (float32 is 1:2 there)")
    layout, word, count = _TORCH[_TYPES[items.dtype]]
    if nibbles.ndim != 2:
        raise ValueError(f"metadata have shape {nibbles.shape}; torch takes a matrix")
    _check_torch(nibbles.shape, layout, count)
    data = layouts.pack(nibbles, layout).view(word)
    return (items.view(np.int8) if items.dtype == np.uint8 else items), data.reshape(nibbles.shape[0], nibbles.shape[1] // count)


def convert_from_torch(packed: npt.ArrayLike, meta: npt.ArrayLike) -> tuple[npt.NDArray[Any], Codes]:
    """Kept items [M, K / 2] and nibbles uint8 [M, K / 4] of torch's packed and meta.

    Raises TypeError or ValueError for other types and shapes than torch's.
    """
    items, words = as_array(packed, name="packed"), as_array(meta, name="meta")
    if items.dtype not in _TYPES:
        raise TypeError(f"packed is {items.dtype}; torch keeps 2:4 of float16, bfloat16 and int8 (float32 is 1:2 there)")
    layout, word, count = _TORCH[_TYPES[items.dtype]]
    if words.dtype != word or words.ndim != 2:
        raise TypeError(f"meta is {words.dtype} of shape {words.shape}; of {items.dtype} it is a matrix of {word.name}")
    shape = (words.shape[0], words.shape[1] * count)
    _check_torch(shape, layout, count)
    nibbles = layouts.unpack(np.ascontiguousarray(words).reshape(-1).view(np.uint8), layout, shape)
    check_fit(items, nibbles, Sparsity.TWO_OF_FOUR)
    return items, nibbles


def _check_torch(shape: tuple[int, ...], layout: str, count: int) -> None:
    """Raise ValueError, in terms of K, for a shape of nibbles that torch's interleaving does not take."""
    rows = layouts.get_layout(layout).tile[0]
    if shape[0] % rows:
        raise ValueError(f"m = {shape[0]} is not a multiple of the {rows} rows of torch's metadata; pad the rows")
    if shape[1] % (2 * count):
        raise ValueError(
            f"k = {4 * shape[1]} is not a multiple of the {8 * count} that two words of torch's metadata speak of; pad K with zeros "
            f"to {-(-shape[1] // (2 * count)) * 8 * count}"
        )
