"""vLLM's Python emulation of NVFP4 (`ref_nvfp4_quant`) as a target; it runs on a CPU.

The environment variable MXSPEC_VLLM_SOURCE names the root of a vLLM source tree. The emulation's file and the
file of scalar types are imported from it with stand-ins for the platform and Triton modules. The tensor scale
is of the encode kind. The emulation returns values and float32 scales; they are written as bytes by exact
look-up.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import torch

NAME = "vllm-emulation"
FORMATS = ["nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "encode"
PROFILES = {"nvfp4": "vllm-0.33/nvfp4/emulation"}

_VARIABLE = "MXSPEC_VLLM_SOURCE"
_EMULATION = Path("vllm/model_executor/layers/quantization/utils/nvfp4_emulation_utils.py")
_SCALAR_TYPE = Path("vllm/scalar_type.py")
_MXFP8 = Path("vllm/model_executor/layers/quantization/utils/mxfp8_utils.py")
_BLOCK = 16


def _source() -> Path:
    root = os.environ.get(_VARIABLE)
    if not root:
        raise ImportError(f"{_VARIABLE} is not set; point it at the root of a vLLM source tree")
    for needed in (_EMULATION, _SCALAR_TYPE, _MXFP8):
        if not (Path(root) / needed).is_file():
            raise ImportError(f"{_VARIABLE} is {root}, which holds no {needed}")
    return Path(root)


def _load(name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _stub(name: str, **attributes: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(attributes)
    sys.modules[name] = module


def load() -> ModuleType:
    """The emulation's module."""
    root = _source()
    if "vllm" not in sys.modules:
        for package in ("vllm", "vllm.utils"):
            _stub(package, __path__=[])
        _stub("vllm.platforms", current_platform=SimpleNamespace(is_cuda_alike=lambda: False))
        constexpr = type("constexpr", (), {})
        _stub(
            "vllm.triton_utils",
            triton=SimpleNamespace(jit=lambda function: function),
            tl=SimpleNamespace(constexpr=constexpr, tensor=object),
        )
        _stub("vllm.utils.torch_utils", direct_register_custom_op=lambda *_, **__: None)
        _load("vllm.scalar_type", root / _SCALAR_TYPE)
    return _load("vllm_nvfp4_emulation_utils", root / _EMULATION)


def load_mxfp8() -> ModuleType:
    """The module of the MXFP8 functions, beside the emulation and behind the same stand-ins."""
    return _load("vllm_mxfp8_utils", _source() / _MXFP8)


def _version() -> str:
    for name in ("vllm/_version.py", "PKG-INFO"):
        path = _source() / name
        if path.is_file():
            found = re.search(r"(?m)^(?:__version__.*= '|Version: )([^'\n]+)", path.read_text())
            if found:
                return found.group(1)
    return "unknown"


_emulation = load()
VERSION = _version()
_E2M1 = np.arange(8, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def to_torch(x: Any) -> torch.Tensor:
    """The same values as a tensor; bfloat16 arrays of ml_dtypes become torch.bfloat16."""
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x).copy())


def _codes(values: Any) -> Any:
    """Codes of e2m1 values, the sign of zero kept; a NaN, which e2m1 has no code for, raises."""
    magnitude = np.abs(values)
    codes = np.minimum(np.searchsorted(_E2M1, magnitude), 7).astype(np.uint8)
    if not np.array_equal(_E2M1[codes], magnitude):
        raise ValueError("the emulation returned an element value without an e2m1 code (NaN)")
    return codes | (np.signbit(values).astype(np.uint8) << 3)


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/16]."""
    if tensor_scale is None:
        raise NotImplementedError("the emulation has no form without a tensor scale")
    values, scales = _emulation.ref_nvfp4_quant(to_torch(x), torch.tensor(tensor_scale, dtype=torch.float32), _BLOCK)
    return _codes(values.numpy()), scales.to(torch.float8_e4m3fn).view(torch.uint8).numpy()


def encode(x: Any, element: str) -> Any:
    """Code of each value."""
    if element != "e2m1":
        raise NotImplementedError(f"the emulation has no encoder for {element}")
    return _codes(_emulation.cast_to_fp4(to_torch(x).to(torch.float32)).numpy())


def decode(codes: Any, element: str) -> Any:
    """float32 value of each code."""
    if element != "e2m1":
        raise NotImplementedError(f"the emulation has no decoder for {element}")
    flat = np.ravel(codes)
    even = np.concatenate([flat, np.zeros(len(flat) % 2, np.uint8)]).reshape(1, -1)
    values = _emulation.break_fp4_bytes(torch.from_numpy(even[:, 0::2] | (even[:, 1::2] << 4)), torch.float32)
    return values.numpy().reshape(-1)[: len(flat)].reshape(codes.shape)
