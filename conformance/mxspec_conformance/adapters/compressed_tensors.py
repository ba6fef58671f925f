"""compressed-tensors: its dynamic scales, then its compressors; its `dequantize`.

Scales come from `compute_dynamic_scales_and_zp` under the library's preset scheme of each format, the bytes
from that scheme's compressor. Its tensor scale is of the encode kind (about 2688 / amax); without one the
block scale is amax / 6 alone. MXFP8 compression is given the zero points that the library itself returns, as
its modules do. `dequantize` unpacks to float32 and calls the library's `dequantize`; `decompress` would
return bfloat16. In bfloat16 and float16 it computes most steps in that dtype: other answers than for the
same float32 values, so these are targets of their own.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec_conformance.adapters._convert import from_torch, pack_nibbles, pack_six_bits, to_torch, unpack_nibbles, unpack_six_bits
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library

_PRESETS = {"mxfp4": "MXFP4A16", "mxfp6_e2m3": "MXFP6A16", "mxfp8_e4m3": "MXFP8A16", "nvfp4": "NVFP4A16"}


class _Quantizer:
    """Quantization in some input dtypes."""

    FORMATS = tuple(_PRESETS)
    TENSOR_SCALE = "encode"

    def __init__(self, *dtypes: str, device: str = "cpu") -> None:
        import torch
        from compressed_tensors.compressors.mxfp4 import MXFP4PackedCompressor
        from compressed_tensors.compressors.mxfp6.base import MXFP6PackedCompressor
        from compressed_tensors.compressors.mxfp8 import MXFP8QuantizationCompressor
        from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor
        from compressed_tensors.quantization import QuantizationScheme, quant_scheme, utils

        self.VERSION = version("compressed-tensors")
        self.DTYPES = dtypes
        self._device = device
        self._torch, self._utils = torch, utils
        self._compressors: dict[str, Any] = {
            "mxfp4": MXFP4PackedCompressor,
            "mxfp6_e2m3": MXFP6PackedCompressor,
            "mxfp8_e4m3": MXFP8QuantizationCompressor,
            "nvfp4": NVFP4PackedCompressor,
        }
        self._schemes: dict[str, Any] = {
            fmt: QuantizationScheme(targets=["Linear"], **getattr(quant_scheme, preset)) for fmt, preset in _PRESETS.items()
        }

    def _global_scale(self, fmt: str, tensor_scale: float | None) -> Any:
        if tensor_scale is None:
            return None
        _require_nvfp4(fmt)
        return self._torch.tensor([tensor_scale], dtype=self._torch.float32, device=self._device)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        scheme = self._schemes[fmt]
        weight = to_torch(x, self._device)
        global_scale = self._global_scale(fmt, tensor_scale)
        scale, zero_point = self._utils.compute_dynamic_scales_and_zp(weight, scheme.weights, None, global_scale)
        state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero_point}
        if global_scale is not None:
            state["weight_global_scale"] = global_scale
        state = self._compressors[fmt].compress(state, scheme)
        scales = from_torch(state["weight_scale"].view(self._torch.uint8))
        if fmt == "mxfp8_e4m3":
            return from_torch(state["weight"].view(self._torch.uint8)), scales
        unpack = unpack_six_bits if fmt == "mxfp6_e2m3" else unpack_nibbles
        return unpack(from_torch(state["weight_packed"])).reshape(x.shape), scales

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The library's global scale of a whole tensor, from `generate_gparam`."""
        _require_nvfp4(fmt)
        values = to_torch(x, self._device)
        return float(self._utils.generate_gparam(values.min(), values.max()).item())


class _CompressedTensors(_Quantizer):
    """Quantization, and dequantization in float32."""

    def __init__(self, *dtypes: str, device: str = "cpu") -> None:
        super().__init__(*dtypes, device=device)
        from compressed_tensors.compressors.mxfp6 import helpers
        from compressed_tensors.compressors.nvfp4 import unpack_fp4_from_uint8
        from compressed_tensors.quantization.lifecycle import forward

        self._forward: Any = forward
        self._unpack_fp4: Any = unpack_fp4_from_uint8
        self._unpack_fp6: Any = helpers.unpack_fp6_from_uint8

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        torch = self._torch
        stored = to_torch(scales, self._device)
        if fmt == "nvfp4":
            stored = stored.view(torch.float8_e4m3fn)
        # The E8M0 scales of all MX formats are decompressed alike.
        compressor = self._compressors["nvfp4" if fmt == "nvfp4" else "mxfp4"]
        out = self._forward.dequantize(
            x_q=self._values(np.ascontiguousarray(codes), fmt),
            scale=compressor._decompress_scale(stored, torch.float32),
            args=self._schemes[fmt].weights,
            dtype=torch.float32,
            global_scale=self._global_scale(fmt, tensor_scale),
        )
        return from_torch(out)

    def _values(self, codes: Any, fmt: str) -> Any:
        rows, k = codes.shape
        if fmt == "mxfp8_e4m3":
            return to_torch(codes, self._device).view(self._torch.float8_e4m3fn)
        if fmt == "mxfp6_e2m3":
            return self._unpack_fp6(to_torch(pack_six_bits(codes), self._device), rows, k, dtype=self._torch.float32)
        return self._unpack_fp4(to_torch(pack_nibbles(codes), self._device), rows, k, dtype=self._torch.float32)


def _require_nvfp4(fmt: str) -> None:
    if fmt != "nvfp4":
        raise NotImplementedError("compressed-tensors has a tensor scale for nvfp4 only")


_LIBRARY = Library(
    name="compressed-tensors", requires="compressed_tensors", imports="compressed_tensors", packages=(TORCH, "compressed-tensors==0.20.0")
)

_ON_CPU = (
    _LIBRARY.target(
        "compressed-tensors",
        "vLLM's checkpoint library",
        partial(_CompressedTensors, "float32", "float16", "bfloat16"),
        {fmt: f"compressed-tensors-0.20/{fmt}/eager" for fmt in _PRESETS},
        profiles_one_level={"nvfp4": "compressed-tensors-0.20/nvfp4/eager"},
    ),
    *(
        _LIBRARY.target(
            f"compressed-tensors-{dtype}",
            f"vLLM's checkpoint library, in {dtype}",
            partial(_Quantizer, dtype),
            {fmt: f"compressed-tensors-0.20/{fmt}/eager/{dtype}" for fmt in _PRESETS},
            profiles_one_level={"nvfp4": f"compressed-tensors-0.20/nvfp4/eager/{dtype}"},
        )
        for dtype in ("bfloat16", "float16")
    ),
)

ADAPTERS = (*_ON_CPU, *map(on_gpu, _ON_CPU))
