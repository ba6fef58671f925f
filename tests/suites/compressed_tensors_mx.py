"""compressed-tensors' test_mxfp4_utils.py, test_fp4_quant.py and test_mxfp8_quant.py: makers for `--replace compressed_tensors....NAME=...::MAKER`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from compressed_tensors.compressors.mxfp8 import MXFP8QuantizationCompressor
from compressed_tensors.compressors.nvfp4 import helpers
from compressed_tensors.quantization import utils

_SCALES, _PACK, _UNPACK = utils.generate_mx_scales, helpers.pack_fp4_to_uint8, helpers.unpack_fp4_from_uint8
_BITS = {"mxfp4": 4, "mxfp8_e4m3": 8}
_K, _ANCHOR, _ONE = 32, 4.0, 127


def generate_mx_scales(impl: Any) -> Callable[..., Any]:
    """The scale bytes of the largest magnitudes, each in a block of its own; equal magnitudes are asked once."""

    def call(amax: Any, num_bits: int = 4) -> Any:
        if num_bits != _BITS[impl.fmt]:
            return _SCALES(amax, num_bits)
        values, at = torch.unique(amax.to(torch.float32), return_inverse=True)
        blocks = torch.zeros((values.numel(), _K))
        blocks[:, 0] = values
        return impl.quantize(blocks)[1].reshape(-1)[at].to(amax.dtype)

    return call


def pack_fp4_to_uint8(impl: Any) -> Callable[..., Any]:
    """Values to pairs of codes: each in a block whose largest magnitude is at least 4, which every rule gives the scale 1 up to 6."""

    def call(x: Any) -> Any:
        packed = _PACK(x)  # refuses what the library refuses
        blocks = torch.zeros((x.numel(), _K))
        blocks[:, 0], blocks[:, 1] = x.reshape(-1), _ANCHOR
        codes, scales = impl.quantize(blocks)
        codes = codes[:, 0].masked_fill(scales.reshape(-1) != _ONE, 0).reshape(-1, 2)
        return (codes[:, 0] | codes[:, 1] << 4).reshape(packed.shape)

    return call


def unpack_fp4_from_uint8(impl: Any) -> Callable[..., Any]:
    """Pairs of codes to values, under the scale 1."""

    def call(packed: Any, m: int, n: int, dtype: Any = torch.bfloat16) -> Any:
        codes = torch.stack([packed & 15, packed >> 4], -1).reshape(-1, 1)
        values = impl.dequantize(torch.nn.functional.pad(codes, (0, _K - 1)), torch.full((len(codes), 1), _ONE, dtype=torch.uint8))
        return values[:, 0].reshape(m, n).to(dtype)

    return call


def compressor(impl: Any) -> type:
    """MXFP8: codes and scale bytes of a weight, and back; the scale that is handed over is not used."""

    class Compressor(MXFP8QuantizationCompressor):
        @classmethod
        def compress(cls, state: dict[str, Any], scheme: Any) -> dict[str, Any]:
            codes, scales = impl.quantize(state["weight"].float())
            return {"weight": codes.view(torch.float8_e4m3fn), "weight_scale": scales}

        @classmethod
        def decompress(cls, state: dict[str, Any], scheme: Any) -> dict[str, Any]:
            return {"weight": impl.dequantize(state["weight"].view(torch.uint8), state["weight_scale"])}

    return Compressor
