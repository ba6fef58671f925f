"""SGLang's Triton kernels for FP8 in groups of 128: name a checkout, or a folder with its wheel, in MXSPEC_SGLANG_SOURCE.

One file is loaded by itself, with stand-ins for what it imports of the package. Triton's interpreter on a CPU is no witness: a
division is exact there and an approximation on the chip, and its casts to FP8 are its own.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any

from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library, Source

_SOURCE = Source("MXSPEC_SGLANG_SOURCE", "a checkout of sgl-project/sglang, or a folder where its wheel is unpacked")
_LIBRARY = Library(name="sglang", requires=f"{_SOURCE.what}, and triton", imports="triton", source=_SOURCE, packages=(TORCH,))
_FILE = "sglang/kernels/ops/quantization/fp8_kernel.py"


class _Groups:
    """The kernels with scales by rows or by columns."""

    FORMATS = ("fp8_e4m3-128-f32",)
    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self, *, columns: bool, device: str = "cpu") -> None:
        if device == "cpu":
            os.environ.setdefault("TRITON_INTERPRET", "1")
        root = _SOURCE.find()
        path = next((p for p in (root / _FILE, root / "python" / _FILE) if p.is_file()), None)
        if path is None:
            raise ImportError(f"{_SOURCE.variable} has to name {_SOURCE.what}; there is no {root / _FILE}")
        self._kernels, self._columns, self._device = _load(str(path)), columns, device
        found = re.search(r"\d+\.\d+\.\d+", "".join(p.name for p in root.glob("sglang-*.dist-info")))
        self.VERSION = found[0] if found else "unknown"

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k] and float32 scales [rows, k/128]."""
        given = to_torch(x, self._device).contiguous()
        codes, scales = self._kernels._per_token_group_quant_8bit_raw(given, 128, column_major_scales=self._columns)
        return from_torch(codes.view(self._kernels.torch.uint8)), from_torch(scales)


def _load(path: str) -> Any:
    name = "sglang_fp8_kernel"
    if name in sys.modules:
        return sys.modules[name]

    def no(*_: object) -> bool:
        return False

    stubs: dict[str, dict[str, Any]] = {
        "sglang": {}, "sglang.kernels": {}, "sglang.kernels.jit": {}, "sglang.kernels.jit.utils": {"is_arch_support_pdl": no},
        "sglang.kernels.ops": {}, "sglang.kernels.ops.quantization": {},
        "sglang.kernels.ops.quantization.fp8_utils": {"fp8_dtype_to_triton": None}, "sglang.srt": {},
        "sglang.srt.environ": {"envs": SimpleNamespace(SGLANG_USE_AITER=SimpleNamespace(get=no))},
        "sglang.srt.utils": {"ceil_align": None, "is_cuda": no, "is_hip": no, "is_musa": no, "is_xpu": no},
        "sglang.srt.utils.patch_torch": {"register_fake_if_exists": None},
    }  # fmt: skip
    for stub, attributes in stubs.items():
        module = ModuleType(stub)
        module.__dict__.update({"__path__": [], **attributes})
        sys.modules.setdefault(stub, module)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    kernels = module_from_spec(spec)
    sys.modules[name] = kernels
    spec.loader.exec_module(kernels)
    return kernels


_CPU = tuple(
    _LIBRARY.target(name, f"SGLang's FP8 in groups of 128, scales by {words}", partial(_Groups, columns=columns))
    for name, words, columns in (("sglang-fp8", "rows", False), ("sglang-fp8-columns", "columns", True))
)  # fmt: skip
ADAPTERS = (*_CPU, *(on_gpu(adapter, profiles={"fp8_e4m3-128-f32": "sglang-0.5/fp8-128/triton"}) for adapter in _CPU))
