"""transformers: its reader of gpt-oss blocks and scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from mxspec import layouts
from mxspec.formats import E2M1

from tests.peers.layouts.compare import Comparison, encode_values, number_items

PACKAGES = ("torch", "transformers")


def compare() -> Iterator[Comparison]:
    """Values [experts, columns, rows] of blocks [experts, rows, columns / 32, 16] and scales."""
    for shape in ((1, 32), (127, 64), (129, 96), (300, 224)):
        own = (shape[0], shape[1] // 32)
        for codes in number_items(shape, 16):
            data = layouts.pack(codes, "nibble-low")
            values = _read(data.reshape(1, *own, 16), np.full((1, *own), 127, np.uint8))
            yield Comparison("nibble-low", "unpack", shape, layouts.unpack(data, "nibble-low", shape), encode_values(values, E2M1))
        for scales in number_items(own, range(1, 254)):
            data = layouts.pack(scales, "row-major")
            values = _read(np.full((1, *own, 16), 0x22, np.uint8), data.reshape(1, *own))
            found = (values.view(np.uint32) >> 23).astype(np.uint8)
            yield Comparison("row-major", "unpack", shape, np.repeat(layouts.unpack(data, "row-major", own), 32, axis=1), found)


def _read(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    values = convert_moe_packed_tensors(torch.from_numpy(blocks), torch.from_numpy(scales), dtype=torch.float32)
    return np.ascontiguousarray(values.numpy()[0].T)
