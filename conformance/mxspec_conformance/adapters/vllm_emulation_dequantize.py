"""vLLM's `dequantize_to_dtype` on the CPU as a target; its tensor scale is of the decode kind (a multiplier).

MXSPEC_VLLM_SOURCE as for `vllm_emulation`.
"""

from __future__ import annotations

from typing import Any

import torch

from mxspec_conformance.adapters import vllm_emulation

NAME, VERSION = "vllm-emulation-dequantize", vllm_emulation.VERSION
FORMATS = ["nvfp4"]
TENSOR_SCALE = "decode"
PROFILES = {"nvfp4": "vllm-0.33/nvfp4/dequantize"}


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """float32 values [rows, k]."""
    if tensor_scale is None:
        raise NotImplementedError("the emulation has no form without a tensor scale")
    packed = torch.from_numpy(codes[:, 0::2] | (codes[:, 1::2] << 4))
    stored = torch.from_numpy(scales.copy())
    factor = torch.tensor(tensor_scale, dtype=torch.float32)
    values = vllm_emulation._emulation.dequantize_to_dtype(
        packed, stored, factor, torch.float32, block_size=16, swizzle=False
    )
    return values.numpy()
