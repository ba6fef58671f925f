"""torchao's test/prototype/mx_formats/test_kernels.py: makers for `--replace torchao.prototype.mx_formats.kernels.NAME=...::MAKER`.

torchao casts elements without a block. Here each is asked inside a block whose maximum is at least 4, which every rule gives the scale 1 up to
6; the code is that of the value which the block then stands for, so that another scale is right where the value is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchao.prototype.mx_formats.kernels as kernels

_ENCODE, _DECODE = kernels.f32_to_f4_unpacked, kernels.f4_unpacked_to_f32
_ANCHOR, _K = 4.0, 32
#: The byte of the scale 1.
_ONE = 127


def f32_to_f4_unpacked(impl: Any) -> Callable[..., Any]:
    """float32 to codes."""

    def encode(x: Any) -> Any:
        blocks = torch.zeros((x.numel(), _K), dtype=torch.float32)
        blocks[:, 0], blocks[:, 1] = x.reshape(-1), _ANCHOR
        codes, scales = impl.quantize(blocks)
        code, byte = codes[:, 0], scales.reshape(-1).to(torch.int32)
        other = _ENCODE(torch.ldexp(_DECODE(code), byte - _ONE))
        return torch.where(byte == _ONE, code, other).reshape(x.shape)

    return encode


def f4_unpacked_to_f32(impl: Any) -> Callable[..., Any]:
    """Codes to float32, under the scale 1."""

    def decode(codes: Any) -> Any:
        blocks = torch.zeros((codes.numel(), _K), dtype=torch.uint8)
        blocks[:, 0] = codes.reshape(-1)
        return impl.dequantize(blocks, torch.full((codes.numel(), 1), _ONE, dtype=torch.uint8))[:, 0].reshape(codes.shape)

    return decode
