"""bitsandbytes on the CPU: which nibble of a byte is the first, by the values that it gives; both ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from bitsandbytes import functional

from mxspec import layouts

from tests.peers.layouts.compare import Bytes, Comparison, compare_unpacked, number_items

PACKAGES = ("torch", "bitsandbytes")
_BLOCK = 64


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for kind in ("nf4", "fp4"):
        table = _read_table(kind)
        known = {bits: code for code, bits in reversed(list(enumerate(table.view(np.uint32).tolist())))}
        distinct = sorted(known.values())
        largest = int(np.argmax(table))
        for shape in ((1, 64), (8, 128), (127, 64), (129, 192), (300, 448)):
            yield from compare_unpacked("nibble-high", shape, lambda d, s=shape, k=kind, n=known: _unpack(k, n, d, s), codes=distinct)
            for plane, codes in enumerate(number_items(shape, distinct)):
                for place in range(plane, _BLOCK, 23):
                    kept = codes.copy()
                    kept[:, place::_BLOCK] = largest
                    data, state = functional.quantize_4bit(torch.from_numpy(table[kept]), blocksize=_BLOCK, quant_type=kind)
                    assert (state.absmax == 1).all()
                    found = np.ascontiguousarray(data.numpy()).reshape(-1)
                    yield Comparison("nibble-high", "pack", shape, layouts.pack(kept, "nibble-high"), found)


def _state(kind: str, shape: tuple[int, int]) -> functional.QuantState:
    ones = torch.ones(shape[0] * shape[1] // _BLOCK)
    code = functional.get_4bit_type(kind, device="cpu")
    return functional.QuantState(ones, torch.Size(shape), code, _BLOCK, kind, torch.float32)


def _read_table(kind: str) -> np.ndarray:
    """The value of every code, from blocks that hold it in both nibbles, so that their order plays no part."""
    data = np.repeat(np.arange(16, dtype=np.uint8) * 17, _BLOCK // 2)
    values = functional.dequantize_4bit(torch.from_numpy(data[:, None]), _state(kind, (16, _BLOCK))).numpy()
    table: np.ndarray = values[:, 0].copy()
    return table


def _unpack(kind: str, known: dict[int, int], data: Bytes, shape: tuple[int, int]) -> Bytes:
    values = functional.dequantize_4bit(torch.from_numpy(data[:, None]), _state(kind, shape)).numpy()
    found, inverse = np.unique(np.ascontiguousarray(values).view(np.uint32), return_inverse=True)
    return np.array([known.get(b, 255) for b in found.tolist()], np.uint8)[inverse].reshape(shape)
