"""NNCF, OpenVINO's compressor of weights, on the CPU: its NumPy reference of MXFP4, MXFP8 and NVFP4.

NNCF takes the reference for weights of fewer than 10,000 elements, and OpenVINO's operators for larger ones; here the reference
is called whatever the size. It returns elements as floats, whose codes are found exactly, and a float32 scale, which is a power
of two for MX. The tensor scale of NVFP4 is NNCF's `global_scale` (the decode kind), which it derives from the block scales; given
from outside it enters as the scale of the block scales' own quantization.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.adapters._convert import find_codes
from mxspec_conformance.adapters.registry import Library

_MODES = {"mxfp4": "MXFP4", "mxfp8_e4m3": "MXFP8_E4M3", "nvfp4": "FP4"}


class _Reference:
    FORMATS = tuple(_MODES)
    DTYPES = ("float32", "float16")
    TENSOR_SCALE = "decode"

    def __init__(self) -> None:
        from nncf.parameters import CompressWeightsMode
        from nncf.quantization.algorithms.weight_compression import weight_lowering
        from nncf.quantization.algorithms.weight_compression.config import WeightCompressionConfig
        from nncf.tensor import Tensor

        self.VERSION = version("nncf")
        self._library: Any = weight_lowering
        self._mode: Any = CompressWeightsMode
        self._config: Any = WeightCompressionConfig
        self._tensor: Any = Tensor
        weight_lowering._can_run_optimized = _never

    def _compress(self, x: Any, mode: str, group: int, scale: Any = None) -> Any:
        config = self._config(mode=self._mode[mode], group_size=group)
        return self._library._do_float_quantization_single_scale(self._tensor(x), config, None if group == -1 else (x.ndim - 1,), scale)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        if (tensor_scale is None) is (fmt == "nvfp4"):
            raise NotImplementedError("NNCF has a tensor scale for nvfp4, and for no other format")
        found = self._compress(x, _MODES[fmt], get_block(fmt).k)
        element = get_block(fmt).element.name
        values, scales = found.tensor.data.reshape(x.shape), found.scale.data.reshape(len(x), -1)
        if fmt == "nvfp4":
            given = self._tensor(np.array([[tensor_scale]], np.float32))
            scales = _e4m3_codes(self._compress(scales, "FP8_E4M3", -1, given).tensor.data)
            return find_codes(values, element), scales
        codes = _e4m3_codes(values) if element == "e4m3" else find_codes(values, element)
        return codes, scales.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        block = get_block(fmt)
        kinds = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e8m0": ml_dtypes.float8_e8m0fnu}
        stored = kinds["e4m3" if fmt == "nvfp4" else "e8m0"]
        compressed = self._library.CompressedWeight(
            self._tensor(codes.view(kinds[block.element.name]).astype(np.float32).reshape(len(codes), -1, block.k)),
            self._tensor(scales.view(stored).astype(np.float32)[..., None]),
            global_scale=None if tensor_scale is None else self._tensor(np.array([[[tensor_scale]]], np.float32)),
        )
        with np.errstate(all="ignore"):
            return self._library.do_float_dequantization(compressed).data.reshape(codes.shape)


def _never(*_: Any) -> bool:
    """Stands in for the choice of OpenVINO's operators."""
    return False


def _e4m3_codes(values: Any) -> Any:
    """The codes of numbers on the grid of e4m3, NaN among them."""
    return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


ADAPTERS = (
    Library(name="nncf", requires="nncf", imports="nncf", packages=("nncf==3.4.0", "openvino==2026.4.1")).target(
        "nncf", "NNCF's weight compression, NumPy reference", _Reference, {fmt: f"nncf-3.4/{fmt}" for fmt in _MODES}
    ),
)
