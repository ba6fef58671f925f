"""torch: the metadata of semi-structured sparsity on the CPU, both ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch.sparse import _semi_structured_conversions as conversions

from mxspec import layouts

from tests.peers.layouts.compare import Bytes, Comparison, number_items

PACKAGES = ("torch",)
_KINDS = (
    ("torch-metadata-16", torch.float16, 4), ("torch-metadata-16", torch.bfloat16, 4), ("torch-metadata-32", torch.int8, 4),
    ("torch-metadata-16", torch.float32, 2),
)  # fmt: skip


def compare() -> Iterator[Comparison]:
    """Nibbles that are legal for the type: six of them, two where one of two elements is kept."""
    for layout, dtype, group in _KINDS:
        legal = (4, 8, 9, 12, 13, 14) if group == 4 else (4, 14)
        for shape in ((32, 16), (32, 32), (64, 48), (96, 16), (160, 112), (288, 64)):
            for nibbles in number_items(shape, legal):
                data = layouts.pack(nibbles, layout)
                dense = _spread(nibbles, group)
                kept, theirs = conversions.sparse_semi_structured_from_dense_cutlass(torch.from_numpy(dense).to(dtype))
                yield Comparison(layout, "pack", shape, data, np.ascontiguousarray(theirs.numpy()).reshape(-1).view(np.uint8))
                words = torch.from_numpy(data.view(np.int32 if dtype is torch.int8 else np.int16).reshape(theirs.shape).copy())
                back = conversions.sparse_semi_structured_to_dense_cutlass(torch.ones_like(kept), words).float().numpy()
                found = _gather(back, group)
                yield Comparison(layout, "unpack", shape, layouts.unpack(data, layout, shape), found)


def _spread(nibbles: Bytes, group: int) -> Bytes:
    """Ones where the metadata say that an element is kept."""
    dense = np.zeros((*nibbles.shape, group), np.uint8)
    first, second = (nibbles & 3, nibbles >> 2) if group == 4 else (nibbles // 8, nibbles // 8)
    np.put_along_axis(dense, first[..., None].astype(np.int64), 1, axis=-1)
    np.put_along_axis(dense, second[..., None].astype(np.int64), 1, axis=-1)
    return dense.reshape(nibbles.shape[0], -1)


def _gather(dense: np.ndarray, group: int) -> Bytes:
    """The nibble of each group of a dense matrix of ones and zeros; 255 where it has too many or too few ones."""
    ones = dense.reshape(dense.shape[0], -1, group) != 0
    number = (ones * (1 << np.arange(group))).sum(axis=-1)
    table = np.full(16, 255, np.uint8)
    for nibble in (4, 8, 9, 12, 13, 14):
        table[1 << (nibble & 3) | 1 << (nibble >> 2)] = nibble
    if group == 2:
        table[1], table[2] = 4, 14
    return table[number]
