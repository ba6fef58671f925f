"""NVIDIA ModelOpt's static NVFP4 path on the CPU as a target: block maxima held by a calibrated quantizer.

The quantizer holds the largest magnitude of each block (`reduce_block_amax`) and of the tensor
(`global_amax`, the amax kind of tensor scale); scales and codes are those of the weight export.
"""

from typing import Any

import torch
from modelopt.torch.quantization.config import QuantizerAttributeConfig
from modelopt.torch.quantization.nn import NVFP4StaticQuantizer, TensorQuantizer
from modelopt.torch.quantization.qtensor import NVFP4QTensor
from modelopt.torch.quantization.utils import reduce_amax, reduce_block_amax

from mxspec_conformance.adapters import modelopt_py

NAME = "modelopt-static"
VERSION = modelopt_py.VERSION
FORMATS = ["nvfp4"]
DTYPES = modelopt_py.DTYPES
TENSOR_SCALE = "amax"
PROFILES = {"nvfp4": "modelopt-0.47/nvfp4/static"}

_CONFIG: dict[Any, Any] = {-1: 16, "type": "static", "scale_bits": (4, 3)}


def _quantizer(tensor_scale: float | None, block_amax: torch.Tensor | None = None) -> Any:
    if tensor_scale is None:
        raise NotImplementedError("NVFP4QTensor has no form without a tensor scale")
    quantizer = TensorQuantizer(QuantizerAttributeConfig(num_bits=(2, 1), block_sizes=_CONFIG))
    if block_amax is not None:
        quantizer.amax = block_amax
    global_amax = torch.tensor(tensor_scale, dtype=torch.float32)
    return NVFP4StaticQuantizer.from_tensor_quantizer(quantizer, global_amax=global_amax)


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/16]; the tensor scale is the tensor's amax."""
    weight = modelopt_py.to_torch(x)
    quantizer = _quantizer(tensor_scale, reduce_block_amax(weight, block_sizes={-1: 16}))
    scales, factor2 = NVFP4QTensor.get_weights_scaling_factor_from_quantizer(quantizer, weight)
    qtensor, _, _ = NVFP4QTensor.quantize(weight, 16, scales, factor2)
    return modelopt_py.unpack_nibbles(qtensor._quantized_data, x.shape), scales.view(torch.uint8).numpy()


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k]."""
    factor2 = NVFP4QTensor.get_weights_scaling_factor_2_from_quantizer(_quantizer(tensor_scale))
    return modelopt_py.dequantize(codes, scales, fmt, factor2.item())


def tensor_scale(x: Any, fmt: str) -> float:
    """Largest magnitude of a whole tensor, as ModelOpt's `reduce_amax` finds it."""
    return float(reduce_amax(modelopt_py.to_torch(x)).float().item())
