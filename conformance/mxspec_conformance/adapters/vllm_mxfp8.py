"""vLLM's torch code for MXFP8 (`_mxfp8_e4m3_quantize_torch`, `dequant_mxfp8_to_bf16`) as a target, on a CPU.

MXSPEC_VLLM_SOURCE as for `vllm_emulation`. Values come back as bfloat16, which holds all but the smallest.
"""

from __future__ import annotations

from typing import Any

import torch

from mxspec_conformance.adapters import vllm_emulation

NAME, VERSION = "vllm-mxfp8", vllm_emulation.VERSION
FORMATS = ["mxfp8_e4m3"]
DTYPES = ["float32", "float16", "bfloat16"]
PROFILES = {"mxfp8_e4m3": "vllm-0.33/mxfp8/torch"}

_mxfp8 = vllm_emulation.load_mxfp8()


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k] and scale bytes [rows, k/32]."""
    codes, scales = _mxfp8._mxfp8_e4m3_quantize_torch(vllm_emulation.to_torch(x))
    return codes.view(torch.uint8).numpy(), scales.numpy()


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """The bfloat16 values as float32 [rows, k]."""
    stored = torch.from_numpy(codes.copy()).view(torch.float8_e4m3fn)
    values: torch.Tensor = _mxfp8.dequant_mxfp8_to_bf16(stored, torch.from_numpy(scales.copy()))
    return values.to(torch.float32).numpy()
