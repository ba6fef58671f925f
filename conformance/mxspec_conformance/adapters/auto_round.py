"""auto-round on the CPU: its fake quantizers (`quant_mx` and `nv_fp4`, RTN, no tuning), and its checkpoint export.

The fake quantizers return dequantized floats. The element values are those that the library's own
`quant_element` and `cast_to_fp4` return inside the call; the scale bytes are the returned shared exponents and
block scales. A block whose shared exponent is NaN is all NaN: scale FF, codes 00.

The export quantizes RTN weights and packs them in its linear layer. MX formats take the library's model-free
route (`quant_mx`, then `QuantLinear.pack`); NVFP4 takes `nv_fp4`, then `QuantLinear.pack`, as its layer wrapper
and exporter do. `pack` is given weights that are quantized already.

The tensor scale is of the encode kind, 2688 / amax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.adapters._convert import find_codes, pack_nibbles, refuse_tensor_scale, to_torch, unpack_nibbles
from mxspec_conformance.adapters._watching import WATCHING
from mxspec_conformance.adapters.registry import TORCH, Library

_DATA_TYPES: dict[str, tuple[str, int]] = {
    "mxfp4": ("mx_fp4", 4),
    "mxfp6_e2m3": ("mx_fp6e2m3", 6),
    "mxfp6_e3m2": ("mx_fp6e3m2", 6),
    "mxfp8_e4m3": ("mx_fp8e4m3", 8),
    "mxfp8_e5m2": ("mx_fp8e5m2", 8),
    "mxint8": ("mx_int8", 8),
}
_LAYER = "layer"


class _AutoRound:
    """What both ways share."""

    DTYPES = ("float32", "float16", "bfloat16")
    TENSOR_SCALE = "encode"

    def __init__(self) -> None:
        import torch
        from auto_round.data_type import mxfp, nvfp

        self.VERSION = version("auto-round")
        self._torch = torch
        self._mxfp: Any = mxfp
        self._nvfp: Any = nvfp

    def _require_tensor_scale(self, tensor_scale: float | None) -> float:
        if tensor_scale is None:
            raise NotImplementedError("nv_fp4 has no form without a tensor scale")
        return tensor_scale

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The library's NVFP4 global scale of a whole tensor, from `calculate_gparam`."""
        if fmt != "nvfp4":
            raise NotImplementedError("auto-round has a tensor scale for nvfp4 only")
        return float(self._nvfp.calculate_gparam(to_torch(x)).item())


class _Fake(_AutoRound):
    """The fake quantizers."""

    FORMATS = (*_DATA_TYPES, "nvfp4")

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        torch, data = self._torch, to_torch(x)
        rows = data.shape[0]
        if fmt == "nvfp4":
            given = torch.tensor(self._require_tensor_scale(tensor_scale), dtype=torch.float32)
            with _record(self._nvfp, "cast_to_fp4") as seen:
                _, scale, _ = self._nvfp.nv_fp4(data, global_scale=given)
            stored = scale.to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        else:
            refuse_tensor_scale(tensor_scale, "quant_mx has")
            data_type, bits = _DATA_TYPES[fmt]
            with _record(self._mxfp, "quant_element") as seen:
                _, exponent, _ = self._mxfp.quant_mx(data, bits=bits, group_size=32, data_type=data_type)
            biased = exponent.float().numpy() + 127
            stored = np.where(np.isnan(biased), 255, np.nan_to_num(biased)).astype(np.uint8)
        values = seen[0].numpy()
        # NaN, nearly always in whole blocks, gets code 00.
        codes = find_codes(np.where(np.isnan(values), np.float32(0), values), get_block(fmt).element.name)
        return codes.reshape(data.shape), stored.reshape(rows, -1)


class _Export(_AutoRound):
    """The packed linear layer."""

    FORMATS = ("mxfp4", "mxfp8_e4m3", "nvfp4")

    def __init__(self) -> None:
        super().__init__()
        from auto_round.experimental.qmodules.nvfp4 import NVFP4QuantLinear
        from auto_round.export.export_to_autoround.qlinear_fp import QuantLinear
        from auto_round.schemes import QuantizationScheme
        from auto_round.utils import model_free_utils

        self._scheme: Any = QuantizationScheme
        self._quant_linear: Any = QuantLinear
        self._nvfp4_linear: Any = NVFP4QuantLinear
        self._model_free: Any = model_free_utils

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        torch, data = self._torch, to_torch(x)
        rows, k = data.shape
        if fmt == "nvfp4":
            global_scale = torch.tensor([self._require_tensor_scale(tensor_scale)], dtype=torch.float32)
            weight, scale, _ = self._nvfp.nv_fp4(data, global_scale=global_scale)
            linear = torch.nn.Linear(k, rows, bias=False)
            linear.weight = torch.nn.Parameter(weight, requires_grad=False)
            layer = self._quant_linear(4, 16, k, rows, False, data_type="nv_fp", act_bits=16)
            layer.pack(linear, scale.reshape(rows, -1), global_scale=global_scale, device="cpu")
            stored = layer.weight_scale.view(torch.uint8).numpy()
            return unpack_nibbles(layer.weight_packed.numpy()).reshape(data.shape), stored.reshape(rows, -1)
        refuse_tensor_scale(tensor_scale, "quant_mx has")
        data_type, bits = _DATA_TYPES[fmt]
        out = self._model_free._quantize_weight_mxfp(data, _LAYER, bits, 32, data_type, disable_opt_rtn=True)
        stored = out[f"{_LAYER}.weight_scale"].numpy()
        if fmt == "mxfp4":
            return unpack_nibbles(out[f"{_LAYER}.weight_packed"].numpy()).reshape(data.shape), stored
        return out[f"{_LAYER}.weight"].view(torch.uint8).numpy(), stored

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k], by the library's checkpoint dequantizers."""
        torch, stored = self._torch, to_torch(scales)
        rows, k = codes.shape
        if fmt == "mxfp8_e4m3":
            data = to_torch(codes).view(torch.float8_e4m3fn)
            return self._model_free.dequant_mx_fp8(data, stored, 32, torch.float32).numpy()
        packed = to_torch(pack_nibbles(codes))
        if fmt == "mxfp4":
            return self._model_free.dequant_mxfp4(packed, stored, "fp4_e2m1", 32, torch.float32).numpy()
        if tensor_scale is None:
            raise NotImplementedError("auto-round's NVFP4 layers have a tensor scale")
        config = self._scheme(bits=4, group_size=16, act_bits=4, act_group_size=16, data_type="nv_fp")
        layer = self._nvfp4_linear(k, rows, config, weight=packed, weight_scale=stored.view(torch.float8_e4m3fn))
        layer.weight_global_scale = torch.tensor([tensor_scale], dtype=torch.float32)
        return layer.dequant_weight_online().numpy()


@contextmanager
def _record(module: Any, function: str) -> Iterator[list[Any]]:
    """What one of the library's functions returns while the context is open."""
    seen: list[Any] = []

    def recorder(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        seen.append(result.clone())
        return result

    with WATCHING:
        original: Callable[..., Any] = getattr(module, function)
        setattr(module, function, recorder)
        try:
            yield seen
        finally:
            setattr(module, function, original)


_LIBRARY = Library(
    name="auto-round",
    requires="auto-round",
    imports="auto_round",
    packages=(TORCH, "transformers==5.23.0", "accelerate==1.15.0", "datasets==5.2.0", "py-cpuinfo", "scipy"),
    bare_packages=("auto-round==0.16.1",),
)

ADAPTERS = (
    _LIBRARY.target(
        "auto-round",
        "Intel AutoRound, fake quantization",
        _Fake,
        {**dict.fromkeys(_DATA_TYPES, "auto-round-0.16/mx/fake"), "nvfp4": "auto-round-0.16/nvfp4/fake"},
    ),
    _LIBRARY.target(
        "auto-round-export", "Intel AutoRound, exported codes", _Export, {fmt: f"auto-round-0.16/{fmt}/export" for fmt in _Export.FORMATS}
    ),
)
