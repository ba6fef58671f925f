"""vLLM's Python code that runs on a CPU: its emulation of NVFP4 and its torch code for MXFP8.

The environment variable MXSPEC_VLLM_SOURCE names the root of a vLLM source tree. The emulation's file, the
MXFP8 file and the file of scalar types are imported from it with stand-ins for the platform and Triton modules.

The emulation (`ref_nvfp4_quant`) takes a tensor scale of the encode kind and returns values and float32 scales,
which are written as bytes by exact look-up. Its `dequantize_to_dtype` takes one of the decode kind (a
multiplier), so it is a target of its own. The MXFP8 functions are `_mxfp8_e4m3_quantize_torch` and
`dequant_mxfp8_to_bf16`, whose values come back as bfloat16, which holds all but the smallest.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from mxspec_conformance.adapters._convert import decode_in_pairs, find_codes, from_torch, pack_nibbles, to_torch
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Kept, Library, Source

_SOURCE = Source("MXSPEC_VLLM_SOURCE", "a checkout of vllm-project/vllm, or a folder where its wheel is unpacked")
_QUANTIZATION = Path("vllm/model_executor/layers/quantization")
_UTILITIES = _QUANTIZATION / "utils"
#: Module -> its file.
_FILES = {
    "vllm.scalar_type": Path("vllm/scalar_type.py"),
    "vllm_nvfp4_emulation_utils": _UTILITIES / "nvfp4_emulation_utils.py",
    "vllm_mxfp8_utils": _UTILITIES / "mxfp8_utils.py",
    "vllm_input_quant_fp8": _QUANTIZATION / "input_quant_fp8.py",
}
_BLOCK = 16


class _Vllm:
    """What the three targets share."""

    DTYPES: tuple[str, ...] = ("float32", "float16", "bfloat16")

    def __init__(self) -> None:
        import torch

        self._torch = torch
        root = _find_root()
        self.VERSION = _version(root)
        modules = _import_modules(root)
        self._emulation: Any = modules["vllm_nvfp4_emulation_utils"]
        self._mxfp8: Any = modules["vllm_mxfp8_utils"]

    def _scalar(self, tensor_scale: float | None) -> Any:
        if tensor_scale is None:
            raise NotImplementedError("the emulation has no form without a tensor scale")
        return self._torch.tensor(tensor_scale, dtype=self._torch.float32)


class _Emulation(_Vllm):
    """The quantizer of the emulation, and its casts."""

    FORMATS = ("nvfp4",)
    TENSOR_SCALE = "encode"

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/16]."""
        values, scales = self._emulation.ref_nvfp4_quant(to_torch(x), self._scalar(tensor_scale), _BLOCK)
        stored = scales.to(self._torch.float8_e4m3fn).view(self._torch.uint8)
        return find_codes(values.numpy(), "e2m1"), stored.numpy()

    def encode(self, x: Any, element: str) -> Any:
        """Code of each value."""
        if element != "e2m1":
            raise NotImplementedError(f"the emulation has no encoder for {element}")
        return find_codes(self._emulation.cast_to_fp4(to_torch(x).to(self._torch.float32)).numpy(), "e2m1")

    def decode(self, codes: Any, element: str) -> Any:
        """float32 value of each code."""
        if element != "e2m1":
            raise NotImplementedError(f"the emulation has no decoder for {element}")
        return decode_in_pairs(lambda packed: self._emulation.break_fp4_bytes(packed, self._torch.float32), codes)


class _Dequantizer(_Vllm):
    """The dequantizer of the emulation."""

    FORMATS = ("nvfp4",)
    DTYPES = ("float32",)
    TENSOR_SCALE = "decode"

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values [rows, k]."""
        values = self._emulation.dequantize_to_dtype(
            to_torch(pack_nibbles(codes)),
            to_torch(scales),
            self._scalar(tensor_scale),
            self._torch.float32,
            block_size=_BLOCK,
            swizzle=False,
        )
        return values.numpy()


class _Mxfp8(_Vllm):
    """The torch code for MXFP8."""

    FORMATS = ("mxfp8_e4m3",)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k] and scale bytes [rows, k/32]."""
        codes, scales = self._mxfp8._mxfp8_e4m3_quantize_torch(to_torch(x))
        return codes.view(self._torch.uint8).numpy(), scales.numpy()

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """The bfloat16 values as float32 [rows, k]."""
        stored = to_torch(codes).view(self._torch.float8_e4m3fn)
        return self._mxfp8.dequant_mxfp8_to_bf16(stored, to_torch(scales)).to(self._torch.float32).numpy()


class _Triton(_Vllm):
    """The Triton kernel for FP8 in groups of 128, which takes activations that are not contiguous."""

    FORMATS = ("fp8_e4m3-128-f32",)

    def __init__(self, *, power: bool = False, device: str = "cpu") -> None:
        super().__init__()
        self._kernels = _import_kernels()
        self._power, self._device = power, device

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k] and scales [rows, k/128]."""
        codes, scales = self._kernels.per_token_group_quant_fp8(to_torch(x, self._device), 128, use_ue8m0=self._power)
        return from_torch(codes.view(self._torch.uint8)), from_torch(scales)


class _BlockProduct(_Vllm):
    """The Triton product of FP8 groups of 128 with tiles of 128 x 128, in its batch-invariant configuration."""

    OPERANDS: ClassVar = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128"}
    OUT_DTYPES = ("bfloat16", "float16", "float32")
    ACCUMULATOR = "fused-f13-32-promoted-128"

    def __init__(self, *, device: str = "cpu") -> None:
        super().__init__()
        self._kernels, self._device = _import_kernels(), device
        self._kernels.envs = SimpleNamespace(VLLM_BATCH_INVARIANT=True)

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] in the output's dtype."""
        codes = [to_torch(side.codes, self._device).view(self._torch.float8_e4m3fn) for side in (a, b)]
        scales = [to_torch(side.scales, self._device) for side in (a, b)]
        product = self._kernels.w8a8_triton_block_scaled_mm(*codes, *scales, [128, 128], getattr(self._torch, out_dtype))
        return from_torch(product)


class _Groups(_Vllm):
    """The torch code for FP8 in groups of 128, with float32 scales or with those that are powers of two."""

    FORMATS = ("fp8_e4m3-128-f32",)

    def __init__(self, *, power: bool = False) -> None:
        super().__init__()
        self._quantize: Any = sys.modules["vllm_input_quant_fp8"].QuantFP8._quantize_group_native
        self._layer = SimpleNamespace(group_size=128, use_ue8m0=power, column_major_scales=False)

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k] and scales [rows, k/128]."""
        codes, scales = self._quantize(self._layer, to_torch(x))
        return codes.view(self._torch.uint8).numpy(), scales.numpy()


class _Whole(_Vllm):
    """The torch code for FP8 with a float32 scale for each token, or for the tensor."""

    FORMATS = ("fp8_e4m3-row-f32", "fp8_e4m3-tensor-f32")

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k] and scales [rows, 1], or the one of the tensor."""
        module: Any = sys.modules["vllm_input_quant_fp8"]
        shape = module.GroupShape.PER_TOKEN if "row" in fmt else module.GroupShape.PER_TENSOR
        layer = SimpleNamespace(is_group_quant=False, static=False, group_shape=shape, num_token_padding=None)
        codes, scales = module.QuantFP8.forward_native(layer, to_torch(x))
        return codes.view(self._torch.uint8).numpy(), scales.numpy()


def _find_root() -> Path:
    root = _SOURCE.find()
    for needed in _FILES.values():
        if not (root / needed).is_file():
            raise ImportError(f"{_SOURCE.variable} is {root}, which holds no {needed}")
    return root


def _import_kernels() -> Any:
    """The file of FP8 kernels, with Triton."""
    import triton

    sys.modules["vllm.triton_utils"].__dict__.update(triton=triton, tl=triton.language)
    return _import_file("vllm_fp8_utils", _find_root() / _UTILITIES / "fp8_utils.py")


def _import_modules(root: Path) -> dict[str, ModuleType]:
    if "vllm" not in sys.modules:
        for package in ("vllm", "vllm.utils"):
            _stub(package, __path__=[])
        import torch

        limits = torch.finfo(torch.float8_e4m3fn)
        no = dict.fromkeys(("is_cuda_alike", "is_xpu", "is_rocm"), lambda: False)
        platform = SimpleNamespace(**no, fp8_dtype=lambda: torch.float8_e4m3fn)
        _stub("vllm.platforms", current_platform=platform)
        for unused in (
            "envs", "_aiter_ops", "_custom_ops", "utils.deep_gemm", "utils.platform_utils", "model_executor.parameter",
            "model_executor.utils", "model_executor.layers.quantization.utils.w8a8_utils",
        ):  # fmt: skip
            _stub(f"vllm.{unused}", __getattr__=lambda name: None)
        _stub("vllm.logger", init_logger=lambda name: None)
        _stub("vllm.model_executor.custom_op", CustomOp=type("CustomOp", (), {"register": lambda _: lambda layer: layer}))
        _stub(
            "vllm.model_executor.layers.quantization.utils.quant_utils",
            __getattr__=lambda name: None, get_fp8_min_max=lambda: (limits.min, limits.max),
            # One scale for a row or tensor is repeated by torch as well.
            group_broadcast=lambda scale, _: scale, GroupShape=SimpleNamespace(PER_TOKEN="token", PER_TENSOR="tensor"),
        )  # fmt: skip
        constexpr = type("constexpr", (), {})
        _stub(
            "vllm.triton_utils",
            triton=SimpleNamespace(jit=lambda function: function),
            tl=SimpleNamespace(constexpr=constexpr, tensor=object),
        )
        _stub("vllm.utils.torch_utils", direct_register_custom_op=lambda *_, **__: None)
    return {name: _import_file(name, root / path) for name, path in _FILES.items()}


def _import_file(name: str, path: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _stub(name: str, **attributes: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(attributes)
    sys.modules[name] = module


def _version(root: Path) -> str:
    for name in ("vllm/_version.py", "PKG-INFO"):
        path = root / name
        if path.is_file():
            found = re.search(r"(?m)^(?:__version__.*= '|Version: )([^'\n]+)", path.read_text())
            if found:
                return found.group(1)
    return "unknown"


_LIBRARY = Library(name="vllm-emulation", requires="vllm sources", source=_SOURCE, packages=(TORCH,))

_TRITON = _LIBRARY.target(
    "vllm-fp8-triton", "vLLM's Triton kernel for FP8 in groups of 128", _Triton, {"fp8_e4m3-128-f32": "vllm-0.33/fp8-128/triton"}
)

_PRODUCT = _LIBRARY.target("vllm-fp8-product", "vLLM's Triton product of FP8 groups of 128 with tiles of 128 x 128", _BlockProduct)

ADAPTERS = (
    replace(on_gpu(_TRITON), counterpart="vllm-fp8-native"),
    replace(on_gpu(_PRODUCT), kept=Kept.PRODUCTS),
    _LIBRARY.target("vllm-emulation", "vLLM's Python emulation", _Emulation, {"nvfp4": "vllm-0.33/nvfp4/emulation"}),
    _LIBRARY.target(
        "vllm-emulation-dequantize", "vLLM's Python emulation, dequantization", _Dequantizer, {"nvfp4": "vllm-0.33/nvfp4/dequantize"}
    ),
    _LIBRARY.target("vllm-mxfp8", "vLLM's torch code for MXFP8", _Mxfp8, {"mxfp8_e4m3": "vllm-0.33/mxfp8/torch"}),
    _LIBRARY.target(
        "vllm-fp8-native", "vLLM's torch code for FP8 in groups of 128", _Groups, {"fp8_e4m3-128-f32": "vllm-0.33/fp8-128/native"}
    ),
    _LIBRARY.target(
        "vllm-fp8-whole",
        "vLLM's torch code for FP8 by tokens and tensors",
        _Whole,
        {f"fp8_e4m3-{w}-f32": f"vllm-0.33/fp8-{w}/native" for w in ("row", "tensor")},
    ),
    _LIBRARY.target(
        "vllm-fp8-native-ue8m0",
        "vLLM's torch code for FP8 in groups of 128, scales that are powers of two",
        partial(_Groups, power=True),
        {"fp8_e4m3-128-f32": "vllm-0.33/fp8-128/native-ue8m0"},
    ),
)
