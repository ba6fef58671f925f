"""Transformer Engine's Python reference of NVFP4 (`NVFP4QuantizerRef`) as a target; it runs on a CPU.

The environment variable MXSPEC_TE_SOURCE names the root of a Transformer Engine source tree, from 2.10 on.
Only the reference's own file and its two pure Python neighbours are imported; the rest of the package needs
CUDA and is absent. The tensor scale is the tensor's largest magnitude. The reference has no form without one
and no dequantizer.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import torch

NAME = "te-reference"
FORMATS = ["mxfp4", "nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "amax"

_VARIABLE = "MXSPEC_TE_SOURCE"
#: The reference's module by release: 2.19 and later, 2.16 to 2.18, 2.10 to 2.15.
_MODULES = ("reference_nvfp4", "quantization_ref_nvfp4", "quantization_nvfp4")


def _source() -> Path:
    root = os.environ.get(_VARIABLE)
    if not root:
        raise ImportError(f"{_VARIABLE} is not set; point it at the root of a Transformer Engine source tree")
    recipes = Path(root) / "transformer_engine" / "pytorch" / "custom_recipes"
    if not any((recipes / f"{name}.py").is_file() for name in _MODULES):
        raise ImportError(f"{_VARIABLE} is {root}, where {recipes} holds none of {', '.join(_MODULES)}")
    return Path(root)


def _stub(name: str, path: Path | None = None, **attributes: Any) -> None:
    module = ModuleType(name)
    if path is not None:
        module.__path__ = [str(path)]
    module.__dict__.update(attributes)
    sys.modules[name] = module


class _Quantizer:
    """What the reference's base class stores; the real one imports CUDA extensions."""

    def __init__(self, *, rowwise: bool, columnwise: bool) -> None:
        self.rowwise_usage, self.columnwise_usage = rowwise, columnwise


def load() -> ModuleType:
    """The reference's module, with stand-ins for the packages around it that need CUDA."""
    root = _source() / "transformer_engine"
    if "transformer_engine" not in sys.modules:
        _stub("transformer_engine", root)
        _stub("transformer_engine.pytorch", root / "pytorch")
        _stub("transformer_engine.pytorch.custom_recipes", root / "pytorch" / "custom_recipes")
        _stub("transformer_engine.pytorch.tensor")
        _stub("transformer_engine.pytorch.tensor.utils", is_custom=lambda _: True)
        storage = type("QuantizedTensorStorage", (), {})
        _stub(
            "transformer_engine.pytorch.quantized_tensor",
            QuantizedTensorStorage=storage,
            Quantizer=_Quantizer,
        )
    for name in _MODULES:
        if (root / "pytorch" / "custom_recipes" / f"{name}.py").is_file():
            return import_module(f"transformer_engine.pytorch.custom_recipes.{name}")
    raise AssertionError("unreachable: _source checked")


_reference = load()
VERSION = (_source() / "build_tools" / "VERSION.txt").read_text().strip()
_RELEASE = tuple(int(part) for part in VERSION.split(".")[:2])
#: The order of the block scale's operations changed in 2.14.
PROFILES = {
    "nvfp4": "te-2.14/nvfp4/reference" if _RELEASE >= (2, 14) else "te-2.8/nvfp4/reference",
    "mxfp4": "te-2.8/mxfp4/reference-pow2",
}


def to_torch(x: Any) -> torch.Tensor:
    """The same values as a tensor; bfloat16 arrays of ml_dtypes become torch.bfloat16."""
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x).copy())


def unpack_nibbles(packed: torch.Tensor) -> Any:
    """One code per byte from two per byte, the low nibble first."""
    data = packed.numpy()
    return np.stack([data & 0x0F, data >> 4], axis=-1).reshape(data.shape[0], -1)


def run(x: Any, tensor_scale: float, tile: tuple[int, int] = (1, 16), **options: Any) -> tuple[Any, Any]:
    """The reference's NVFP4 arithmetic on tiles of 1 x 16 or 16 x 16."""
    packed, scales = _reference.NVFP4QuantizerRef._quantize_blockwise_reference(
        to_torch(x),
        torch.tensor([tensor_scale], dtype=torch.float32),
        tile[1],
        tile[0],
        pow_2_scales=False,
        eps=0.0,
        **options,
    )
    return unpack_nibbles(packed), scales.contiguous().view(torch.uint8).numpy()


def quantize(
    x: Any, fmt: str, tensor_scale: float | None = None, block: tuple[int, int] | None = None
) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/block]. mxfp4 is the option `pow_2_scales`."""
    if fmt == "nvfp4":
        if tensor_scale is None:
            raise NotImplementedError("the reference has no form without a tensor scale")
        return run(x, tensor_scale, block or (1, 16))
    if tensor_scale is not None or block not in (None, (1, 32)):
        raise NotImplementedError("mxfp4 has neither a tensor scale nor other blocks than 1 x 32")
    data = to_torch(x)
    packed, scales = _reference.NVFP4QuantizerRef._quantize_blockwise_reference(
        data, torch.zeros(1), 32, 1, pow_2_scales=True, eps=0.0
    )
    return unpack_nibbles(packed), scales.to(torch.float8_e8m0fnu).view(torch.uint8).numpy()


def tensor_scale(x: Any, fmt: str) -> float:
    """The tensor's largest magnitude, as the quantizer takes it."""
    if fmt != "nvfp4":
        raise NotImplementedError("only nvfp4 has a tensor scale")
    quantizer = _reference.NVFP4QuantizerRef(dtype=None, rowwise=True, columnwise=False)
    amax: torch.Tensor = quantizer.quantize(to_torch(x)).global_amax_row
    return float(amax.item())


def encode(x: Any, element: str) -> Any:
    """Code of each value."""
    if element != "e2m1":
        raise NotImplementedError(f"the reference has no encoder for {element}")
    flat = np.ravel(x)
    even = np.concatenate([flat, np.zeros(len(flat) % 2, flat.dtype)])
    return (
        unpack_nibbles(_reference.cast_to_fp4x2(to_torch(even.reshape(1, -1))))
        .reshape(-1)[: len(flat)]
        .reshape(x.shape)
    )


def decode(codes: Any, element: str) -> Any:
    """float32 value of each code."""
    if element != "e2m1":
        raise NotImplementedError(f"the reference has no decoder for {element}")
    flat = np.ravel(codes)
    even = np.concatenate([flat, np.zeros(len(flat) % 2, np.uint8)]).reshape(1, -1)
    packed = torch.from_numpy(even[:, 0::2] | (even[:, 1::2] << 4))
    values = _reference.cast_from_fp4x2(packed, torch.float32).numpy().reshape(-1)
    return values[: len(flat)].reshape(codes.shape)
