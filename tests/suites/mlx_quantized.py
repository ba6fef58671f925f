"""MLX's python/tests/test_quantized.py: makers for `--replace mlx.core.NAME=tests/suites/mlx_quantized.py::MAKER`.

Calls that MLX refuses, and modes that are not asked about, go to MLX itself. Codes are packed as MLX packs them: into 32-bit words, the
first code in the low bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

_QUANTIZE, _DEQUANTIZE = mx.quantize, mx.dequantize
_FORMATS = {"mxfp4": "mxfp4", "mxfp8": "mxfp8_e4m3", "nvfp4": "nvfp4"}


def _options(impl: Any, global_scale: Any) -> dict[str, float]:
    """MLX hands over the largest magnitude; so does `nvfp4-te`, and `nvfp4-paper` takes S."""
    if global_scale is None:
        return {}
    amax = float(global_scale.item())
    return {"tensor_scale": amax if impl.TENSOR_SCALE == "amax" else float(np.float32(2688) / np.float32(amax))}


def quantize(impl: Any) -> Callable[..., Any]:
    """mx.quantize in one mode."""

    def call(w: Any, *args: Any, **options: Any) -> Any:
        answer = _QUANTIZE(w, *args, **options)  # refuses what MLX refuses
        if _FORMATS.get(options.get("mode", "affine")) != impl.fmt:
            return answer
        x = np.array(w.astype(mx.float32))
        codes, scales = impl.quantize(x.reshape(-1, x.shape[-1]), **_options(impl, options.get("global_scale")))
        bits = 4 if impl.fmt != "mxfp8_e4m3" else 8
        if bits == 4:
            codes = codes[:, ::2] | codes[:, 1::2] << 4
        words = np.ascontiguousarray(codes).view(np.uint32)
        return mx.array(words.reshape(answer[0].shape)), mx.array(scales.reshape(answer[1].shape))

    return call


def dequantize(impl: Any) -> Callable[..., Any]:
    """mx.dequantize in one mode."""

    def call(w: Any, scales: Any, *args: Any, **options: Any) -> Any:
        answer = _DEQUANTIZE(w, scales, *args, **options)
        if _FORMATS.get(options.get("mode", "affine")) != impl.fmt:
            return answer
        codes = np.array(w).view(np.uint8).reshape(-1, w.shape[-1] * 4)
        if impl.fmt != "mxfp8_e4m3":
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)
        values = impl.dequantize(codes, np.array(scales).reshape(len(codes), -1), **_options(impl, options.get("global_scale")))
        return mx.array(values.reshape(answer.shape)).astype(answer.dtype)

    return call
