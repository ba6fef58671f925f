"""ModelOpt: the bytes of its NVFP4 and MXFP4 tensors under a scale of 1, both ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from modelopt.torch.quantization.qtensor import MXFP4QTensor, NVFP4QTensor

from mxspec import layouts
from mxspec.formats import E2M1

from tests.peers.layouts.compare import Bytes, Comparison, compare_unpacked, decode_codes, encode_values, number_items

PACKAGES = ("torch", "nvidia-modelopt")
_NO_MINUS_ZERO = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for shape in ((1, 32), (31, 64), (127, 96), (128, 128), (129, 32), (300, 224)):
        # The NVFP4 reader gives code 8 no sign.
        yield from compare_unpacked("nibble-low", shape, lambda d, s=shape: _unpack(NVFP4QTensor, d, s), codes=_NO_MINUS_ZERO)
        yield from compare_unpacked("nibble-low", shape, lambda d, s=shape: _unpack(MXFP4QTensor, d, s), codes=16)
        # NVFP4 stores a zero of either sign as 0; MXFP4 stores it as 8.
        for codes in number_items(shape, _NO_MINUS_ZERO):
            ones = torch.ones((shape[0], shape[1] // 16))
            found, _, _ = NVFP4QTensor.quantize(torch.from_numpy(decode_codes(codes, E2M1)), 16, ones, torch.tensor(1.0))
            yield Comparison("nibble-low", "pack", shape, layouts.pack(codes, "nibble-low"), _bytes(found))
        for plane, codes in enumerate(number_items(shape, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))):
            for place in range(plane, 32, 11):
                kept = codes.copy()
                kept[:, place::32] = np.where(kept[:, place::32] < 8, 7, 15)
                found, scales = MXFP4QTensor.quantize(torch.from_numpy(decode_codes(kept, E2M1)), 32)
                assert (scales == 127).all()
                yield Comparison("nibble-low", "pack", shape, layouts.pack(kept, "nibble-low"), _bytes(found))


def _bytes(tensor: MXFP4QTensor | NVFP4QTensor) -> Bytes:
    return np.ascontiguousarray(tensor._quantized_data.numpy()).reshape(-1)


def _unpack(kind: type, data: Bytes, shape: tuple[int, int]) -> Bytes:
    tensor = kind(torch.Size(shape), torch.float32, torch.from_numpy(data.reshape(shape[0], -1)))
    if kind is NVFP4QTensor:
        ones = torch.ones((shape[0], shape[1] // 16))
        values = tensor.dequantize(torch.float32, scale=ones, double_scale=torch.tensor(1.0), block_sizes={-1: 16})
    else:
        ones = torch.full((shape[0], shape[1] // 32), 127, dtype=torch.uint8)
        values = tensor.dequantize(torch.float32, scale=ones, block_sizes={-1: 32})
    return encode_values(values.numpy(), E2M1)
