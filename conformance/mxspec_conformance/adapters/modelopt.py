"""NVIDIA ModelOpt: `MXFP4QTensor`, `MXFP8QTensor` and `NVFP4QTensor`.

With dynamic scales NVFP4 takes and returns the tensor scale as `weights_scaling_factor_2`, of the decode kind
(amax / 2688). On the static path a calibrated quantizer holds the largest magnitude of each block
(`reduce_block_amax`) and of the tensor (`global_amax`, the amax kind of tensor scale); scales and codes are
those of the weight export.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from mxspec_conformance.adapters._convert import from_torch, pack_nibbles, to_torch, unpack_nibbles
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library

_FORMATS = ("mxfp4", "mxfp8_e4m3", "nvfp4")
_STATIC: dict[Any, Any] = {-1: 16, "type": "static", "scale_bits": (4, 3)}


class _Dynamic:
    """Scales from the tensor that is quantized."""

    FORMATS: tuple[str, ...] = _FORMATS
    DTYPES = ("float32", "float16", "bfloat16")
    TENSOR_SCALE = "decode"

    def __init__(self, device: str = "cpu") -> None:
        import torch
        from modelopt.torch.quantization import qtensor

        self.VERSION = version("nvidia-modelopt")
        self._torch, self._device = torch, device
        self._qtensor: Any = qtensor

    def _factor2(self, fmt: str, tensor_scale: float | None) -> Any:
        if tensor_scale is None:
            raise NotImplementedError("NVFP4QTensor has no form without a tensor scale")
        _require_nvfp4(fmt)
        return self._torch.tensor(tensor_scale, dtype=self._torch.float32, device=self._device)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        weight = to_torch(x, self._device)
        if fmt == "nvfp4":
            factor2 = self._factor2(fmt, tensor_scale)
            qtensor, scales, _ = self._qtensor.NVFP4QTensor.quantize(weight, 16, weights_scaling_factor_2=factor2)
            return _codes(qtensor, x.shape), from_torch(scales.view(self._torch.uint8))
        if tensor_scale is not None:
            _require_nvfp4(fmt)
        if fmt == "mxfp4":
            qtensor, scales = self._qtensor.MXFP4QTensor.quantize(weight, 32)
            return _codes(qtensor, x.shape), from_torch(scales).reshape(x.shape[0], -1)
        qtensor, scales = self._qtensor.MXFP8QTensor.quantize(weight)
        return from_torch(qtensor._quantized_data.view(self._torch.uint8)), from_torch(scales)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        torch, stored = self._torch, to_torch(scales, self._device)
        if fmt == "mxfp8_e4m3":
            elements = to_torch(codes, self._device).view(torch.float8_e4m3fn)
            return from_torch(self._qtensor.MXFP8QTensor(codes.shape, torch.float32, elements).dequantize(scale=stored))
        packed = to_torch(pack_nibbles(codes), self._device)
        if fmt == "mxfp4":
            tensor = self._qtensor.MXFP4QTensor(codes.shape, torch.float32, packed)
            return from_torch(tensor.dequantize(scale=stored.reshape(-1, 1), block_sizes={-1: 32}))
        out = self._qtensor.NVFP4QTensor(codes.shape, torch.float32, packed).dequantize(
            scale=stored.view(torch.float8_e4m3fn), double_scale=self._factor2(fmt, tensor_scale), block_sizes={-1: 16}
        )
        return from_torch(out)

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """`weights_scaling_factor_2` of a whole tensor."""
        _require_nvfp4(fmt)
        return float(self._qtensor.NVFP4QTensor.get_weights_scaling_factor_2(to_torch(x, self._device)).item())


class _Static(_Dynamic):
    """NVFP4 with the maxima that a calibrated quantizer holds."""

    FORMATS = ("nvfp4",)
    TENSOR_SCALE = "amax"

    def __init__(self, device: str = "cpu") -> None:
        super().__init__(device)
        from modelopt.torch.quantization import nn, utils
        from modelopt.torch.quantization.config import QuantizerAttributeConfig

        self._nn: Any = nn
        self._utils: Any = utils
        self._config: Any = QuantizerAttributeConfig

    def _quantizer(self, tensor_scale: float | None, block_amax: Any = None) -> Any:
        global_amax = self._factor2("nvfp4", tensor_scale)
        quantizer = self._nn.TensorQuantizer(self._config(num_bits=(2, 1), block_sizes=_STATIC))
        if block_amax is not None:
            quantizer.amax = block_amax
        return self._nn.NVFP4StaticQuantizer.from_tensor_quantizer(quantizer, global_amax=global_amax)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/16]; the tensor scale is the tensor's amax."""
        nvfp4, weight = self._qtensor.NVFP4QTensor, to_torch(x, self._device)
        quantizer = self._quantizer(tensor_scale, self._utils.reduce_block_amax(weight, block_sizes={-1: 16}))
        scales, factor2 = nvfp4.get_weights_scaling_factor_from_quantizer(quantizer, weight)
        qtensor, _, _ = nvfp4.quantize(weight, 16, scales, factor2)
        return _codes(qtensor, x.shape), from_torch(scales.view(self._torch.uint8))

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        quantizer = self._quantizer(tensor_scale)
        factor2 = self._qtensor.NVFP4QTensor.get_weights_scaling_factor_2_from_quantizer(quantizer)
        return super().dequantize(codes, scales, fmt, factor2.item())

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """Largest magnitude of a whole tensor, as ModelOpt's `reduce_amax` finds it."""
        return float(self._utils.reduce_amax(to_torch(x, self._device)).float().item())


def _require_nvfp4(fmt: str) -> None:
    if fmt != "nvfp4":
        raise NotImplementedError("ModelOpt has a tensor scale for nvfp4 only")


def _codes(qtensor: Any, shape: tuple[int, ...]) -> Any:
    return unpack_nibbles(from_torch(qtensor._quantized_data)).reshape(shape)


_LIBRARY = Library(
    name="modelopt",
    requires="nvidia-modelopt",
    imports="modelopt",
    packages=(TORCH, "nvidia-modelopt==0.47.0", "requests", "huggingface_hub"),
)

_ON_CPU = (
    _LIBRARY.target(
        "modelopt",
        "NVIDIA ModelOpt, dynamic",
        _Dynamic,
        {"mxfp4": "modelopt-0.47/mxfp4", "mxfp8_e4m3": "modelopt-0.47/mxfp8_e4m3", "nvfp4": "modelopt-0.47/nvfp4/dynamic"},
    ),
    _LIBRARY.target("modelopt-static", "NVIDIA ModelOpt, calibrated", _Static, {"nvfp4": "modelopt-0.47/nvfp4/static"}),
)

ADAPTERS = (*_ON_CPU, *map(on_gpu, _ON_CPU))
