"""torchao's MX and NVFP4 quantizers (eager), one target for each scale rule of MX.

The library's own functions do all arithmetic; this file converts arrays, unpacks nibbles with the library's
unpacker and chooses the element type. Arrays may be NumPy (bfloat16 from ml_dtypes) or torch tensors; results
are NumPy arrays. The rules: FLOOR, the library's default, is the exponent field of amax minus emax; CEIL rounds
that exponent up; EVEN first rounds amax half up to the element's precision; RCEIL is the float32 log2 of
amax / max, rounded up.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Adapter, Kept, Library, Profiles
from mxspec_conformance.targets.interface import quantized_shapes

_MX_FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2")
_BLOCK, _NVFP4_BLOCK = 32, 16
#: Blocks of one call of what is compiled for shapes.
_PART = 256


class _Mx:
    """MX formats under one scale rule; the library's own casts and layouts."""

    FORMATS: tuple[str, ...] = _MX_FORMATS
    DTYPES = ("float32", "bfloat16")

    def __init__(self, mode: str, device: str = "cpu") -> None:
        import torch
        from torchao.prototype.mx_formats import constants, kernels, mx_tensor, nvfp4_tensor, utils
        from torchao.prototype.mx_formats.config import ScaleCalculationMode

        self.VERSION = version("torchao")
        self._torch, self._utils, self._device = torch, utils, device
        self._kernels: Any = kernels
        self._mx: Any = mx_tensor
        self._nvfp4: Any = nvfp4_tensor
        self._to_mx: Any = mx_tensor.to_mx
        self._to_dtype: Any = mx_tensor.to_dtype
        self._nvfp4_quantize: Any = nvfp4_tensor.nvfp4_quantize
        self._mode: Any = ScaleCalculationMode(mode)
        self._types: dict[str, Any] = {
            "mxfp4": torch.float4_e2m1fn_x2,
            "mxfp6_e2m3": constants.DTYPE_FP6_E2M3,
            "mxfp6_e3m2": constants.DTYPE_FP6_E3M2,
            "mxfp8_e4m3": torch.float8_e4m3fn,
            "mxfp8_e5m2": torch.float8_e5m2,
        }
        self._encoders: dict[str, Any] = {
            "e2m1": kernels.f32_to_f4_unpacked,
            "e2m3": kernels.f32_to_f6_e2m3_unpacked,
            "e3m2": kernels.f32_to_f6_e3m2_unpacked,
        }
        self._decoders: dict[str, Any] = {
            "e2m1": kernels.f4_unpacked_to_f32,
            "e2m3": kernels.f6_e2m3_unpacked_to_f32,
            "e3m2": kernels.f6_e3m2_unpacked_to_f32,
            "e8m0": mx_tensor.get_fp_scale,
        }

    def _bytes(self, x: Any) -> Any:
        return from_torch(x.contiguous().view(self._torch.uint8))

    def _scalar(self, value: float | None) -> Any:
        return None if value is None else self._torch.tensor(value, dtype=self._torch.float32, device=self._device)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        data = to_torch(x, self._device)
        if fmt == "nvfp4":
            scales, packed = self._nvfp4_quantize(data, _NVFP4_BLOCK, self._scalar(tensor_scale))
            return self._bytes(self._kernels.unpack_uint4(packed)), self._bytes(scales)
        scales, codes = self._to_mx(data, self._types[fmt], _BLOCK, self._mode)
        if fmt == "mxfp4":
            codes = self._kernels.unpack_uint4(codes)
        return self._bytes(codes), self._bytes(scales)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None, dtype: str = "float32") -> Any:
        """The library's dequantization to `dtype`; the result is widened to float32 (exact) for the caller."""
        torch = self._torch
        target = getattr(torch, dtype)
        data, scale = to_torch(codes, self._device), to_torch(scales, self._device)
        if fmt == "nvfp4":
            packed, stored = self._kernels.pack_uint4(data), scale.view(torch.float8_e4m3fn)
            tensor = self._nvfp4.NVFP4Tensor(packed, stored, _NVFP4_BLOCK, target, self._scalar(tensor_scale))
            return from_torch(tensor.dequantize(target).to(torch.float32))
        if fmt == "mxfp4":
            data = self._kernels.pack_uint4(data)
        elif fmt in ("mxfp8_e4m3", "mxfp8_e5m2"):
            data = data.view(self._types[fmt])
        result = self._to_dtype(data, scale.view(torch.float8_e8m0fnu), self._types[fmt], _BLOCK, target)
        return from_torch(result.to(torch.float32))

    def encode(self, x: Any, element: str) -> Any:
        """The library's own casts: fp4 and fp6 (its fp8 casts are torch's)."""
        if element not in self._encoders:
            raise NotImplementedError(f"torchao has no cast of its own to {element}")
        return self._bytes(self._encoders[element](to_torch(x, self._device)))

    def decode(self, codes: Any, element: str) -> Any:
        """The library's own decoders: fp4, fp6 and the e8m0 scale."""
        if element not in self._decoders:
            raise NotImplementedError(f"torchao has no decoder of its own for {element}")
        return from_torch(self._decoders[element](to_torch(codes, self._device)))

    def pack(self, codes: Any, layout: str) -> Any:
        """Two codes per byte, first code in the low nibble."""
        _require_layout(layout, "nibble-low")
        return self._bytes(self._kernels.pack_uint4(to_torch(codes, self._device)))

    def unpack(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        """The inverse of `pack`."""
        _require_layout(layout, "nibble-low")
        packed = to_torch(data, self._device).reshape(*shape[:-1], shape[-1] // 2).contiguous()
        return self._bytes(self._kernels.unpack_uint4(packed))

    def swizzle(self, scales: Any, layout: str) -> Any:
        """Row-major scale bytes to flat 128x4 tiles; the library takes one matrix."""
        _require_layout(layout, "128x4")
        if scales.ndim != 2:
            raise NotImplementedError(f"to_blocked takes two dimensions, not {scales.ndim}")
        return self._bytes(self._utils.to_blocked(to_torch(scales, self._device), use_triton_kernel=False)).reshape(-1)

    def unswizzle(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        """The inverse of `swizzle`, cropped to `shape`."""
        _require_layout(layout, "128x4")
        if len(shape) != 2:
            raise NotImplementedError(f"from_blocked takes two dimensions, not {len(shape)}")
        return self._bytes(self._utils.from_blocked(to_torch(data, self._device), shape[0], shape[1]))


class _MxAndNvfp4(_Mx):
    """The same, and NVFP4, which has one rule."""

    FORMATS: tuple[str, ...] = (*_MX_FORMATS, "nvfp4")
    TENSOR_SCALE = "decode"

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The NVFP4 tensor scale (decode kind) of a tensor, as the library's dynamic path computes it."""
        if fmt != "nvfp4":
            raise NotImplementedError(f"{fmt} has no tensor scale")
        return float(self._nvfp4.per_tensor_amax_to_scale(self._torch.max(self._torch.abs(to_torch(x, self._device)))))


class _Compiled(_MxAndNvfp4):
    """The library's functions under torch.compile, whole graphs; calls of one shape, since another is compiled anew."""

    encode = decode = pack = unpack = swizzle = unswizzle = tensor_scale = None  # type: ignore[assignment]  # not offered

    def __init__(self, mode: str, formats: tuple[str, ...], device: str = "cpu") -> None:
        super().__init__(mode, device)
        self.FORMATS = formats
        # One graph for each format and dtype; torch gives up after eight of one function.
        self._torch._dynamo.config.recompile_limit = 64
        self._to_mx, self._to_dtype, self._nvfp4_quantize = (
            self._torch.compile(f, fullgraph=True, dynamic=False) for f in (self._to_mx, self._to_dtype, self._nvfp4_quantize)
        )

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        run = super().quantize
        k = get_block(fmt).k
        found = [run(part, fmt, tensor_scale) for part in _cut(x, k)]
        codes, scales = (_join([part[i] for part in found], x.size // k, len(x)) for i in (0, 1))
        return codes, scales

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None, dtype: str = "float32") -> Any:
        """The compiled dequantization of MX formats."""
        if fmt == "nvfp4":
            raise NotImplementedError("torchao dequantizes NVFP4 by a method of its tensors, which is not compiled here")
        if scales.size * _BLOCK != codes.size:  # filled up, the parts would fit each other
            raise ValueError(f"{scales.size} scales do not fit {codes.size} codes; there is one for {_BLOCK} of them")
        run, parts = super().dequantize, zip(_cut(codes, _BLOCK), _cut(scales, 1), strict=True)
        return _join([run(*part, fmt, tensor_scale, dtype) for part in parts], scales.size, len(codes))


def _cut(x: Any, width: int) -> list[Any]:
    """Blocks [n, width] in parts of one shape, the last filled with zeros."""
    blocks = np.ascontiguousarray(x).reshape(-1, width)
    padded = np.concatenate([blocks, np.zeros((-len(blocks) % _PART, width), blocks.dtype)])
    return list(padded.reshape(-1, _PART, width))


def _join(parts: list[Any], blocks: int, rows: int) -> Any:
    """The first of the blocks of all parts, as [rows, ...]."""
    return np.concatenate(parts)[:blocks].reshape(rows, -1)


class _Float8:
    """FP8 with float32 scales for groups of 128, each row, or column, and the tensor; the library's quantizer for weights and activations."""

    FORMATS = tuple(f"fp8_{e}-{w}-f32" for w in ("row", "tensor", "128") for e in ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"))
    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self) -> None:
        import torch
        from torchao import quantization
        from torchao.quantization import granularity, quant_primitives

        self.VERSION = version("torchao")
        self._torch, self._library, self._primitives = torch, quantization, quant_primitives
        self._granularity: Any = granularity

    def _type(self, fmt: str) -> Any:
        name = get_block(fmt).element.name
        return getattr(self._torch, f"float8_{name}fn" if name == "e4m3" else f"float8_{name}")

    def quantize(self, x: Any, fmt: str, axis: int = -1) -> tuple[Any, Any]:
        """Codes, and the scales of rows [rows, 1] or along another axis, or the one of the tensor."""
        whole = fmt.split("-")[1]
        if axis not in (-2, -1, 0, 1):
            raise ValueError(f"axis = {axis}; a matrix has the axes 0 and 1")
        if whole == "128":
            kind = self._granularity.PerBlock([1, 128] if axis in (-1, 1) else [128, 1])
        else:
            kind = self._granularity.PerTensor() if whole == "tensor" else self._granularity.PerRow(dim=axis)
        made = self._library.Float8Tensor.from_hp(to_torch(x), self._type(fmt), kind)
        scales = made.scale.reshape(-1) if whole == "tensor" else made.scale
        return from_torch(made.qdata.view(self._torch.uint8)), from_torch(scales)

    def dequantize(self, codes: Any, scales: Any, fmt: str) -> Any:
        """float32 values. The library's function takes scales of groups of any size; these are the format's."""
        if "tensor" not in fmt and scales.shape != quantized_shapes(codes.shape, get_block(fmt))[1]:
            raise ValueError(f"scales have shape {scales.shape}, which is not {fmt}'s for codes of shape {codes.shape}")
        return from_torch(self._primitives._dequantize_affine_float8(to_torch(codes).view(self._type(fmt)), to_torch(scales)))


class _Products:
    """`torch.mm` of two MX tensors, emulated: both are dequantized in one dtype; NVFP4 weights with plain activations."""

    def __init__(self, dtype: str) -> None:
        import torch
        from torchao.prototype.mx_formats import mx_tensor, nvfp4_tensor
        from torchao.quantization.quantize_.common import KernelPreference

        self.VERSION = version("torchao")
        self._torch, self._mx, self._nvfp4 = torch, mx_tensor, nvfp4_tensor
        self._emulated: Any = KernelPreference.EMULATED
        self._name, self._dtype = dtype, getattr(torch, dtype)
        self._types: dict[str, Any] = {
            "mxfp4": torch.float4_e2m1fn_x2, "mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2,
        }  # fmt: skip
        both = ("mxfp4/nibble-low", "mxfp8_e4m3", "mxfp8_e5m2")
        self.OPERANDS = [
            *({"a": fmt, "b": fmt} for fmt in both),
            {"a": "mxfp8_e4m3", "b": "mxfp4/nibble-low"},
            {"a": dtype, "b": "nvfp4/nibble-low"},
        ]
        self.OUT_DTYPES = (dtype,)
        self.CONTRACT = dtype

    def _tensor(self, side: Any) -> Any:
        if not hasattr(side, "codes"):
            return to_torch(side)
        codes, scales = to_torch(side.codes), to_torch(side.scales)
        if side.format == "nvfp4":
            scale = None if side.tensor_scale is None else self._torch.tensor(side.tensor_scale, dtype=self._torch.float32)
            return self._nvfp4.NVFP4Tensor(codes, scales.view(self._torch.float8_e4m3fn), _NVFP4_BLOCK, self._dtype, scale)
        kind = self._types[side.format]
        data = codes if side.format == "mxfp4" else codes.view(kind)
        stored = scales.view(self._torch.float8_e8m0fnu)
        return self._mx.MXTensor(data, stored, kind, _BLOCK, self._dtype, self._emulated, None, False)

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] in the dtype that the tensors stand for."""
        x, w = self._tensor(a), self._tensor(b)
        if b.format == "nvfp4":
            return from_torch(self._torch.nn.functional.linear(x, w))
        return from_torch(self._torch.mm(x, w.t()))


def _require_layout(layout: str, known: str) -> None:
    if layout != known:
        raise NotImplementedError(f"layout {layout}")


_LIBRARY = Library(name="torchao", requires="torchao", imports="torchao", packages=(TORCH, "torchao==0.18.0"))

#: In this commit EVEN gives some finite blocks the scale byte FF. The C++ kernels are not used: USE_CPP=0 leaves them out.
_LATER = (TORCH, "torchao @ git+https://github.com/pytorch/ao@36027d82d1")

_MODES = ("floor", "rceil", "even", "ceil")


def _follow(mode: str, path: str) -> Profiles:
    """The profiles of a scale mode; RCEIL and NVFP4 divide by numbers, which each path does in its own way."""
    if mode == "rceil":
        fp8 = dict.fromkeys(("mxfp8_e4m3", "mxfp8_e5m2"), f"torchao-0.18/mxfp8/rceil/{path}")
        return {fmt: f"torchao-0.18/{fmt}/rceil/{path}" for fmt in _MX_FORMATS[:3]} | fp8
    found = dict.fromkeys(_MX_FORMATS, f"torchao-0.18/mx/{mode}/eager")
    return found | (_follow_nvfp4(path) if mode == "floor" else {})


def _follow_nvfp4(path: str) -> dict[str, str]:
    return {"nvfp4": f"torchao-0.18/nvfp4/{path}"}


def _follow_float8(fmt: str) -> str:
    element, whole, _ = fmt.removeprefix("fp8_").split("-")
    return f"torchao-0.18/fp8-{whole}/torch" + f"/{element}" * (element != "e4m3")


def _adapter(mode: str) -> Adapter:
    """A scale mode; NVFP4, which has none, is called in one of them."""
    main = mode == "floor"
    return _LIBRARY.target(
        "torchao" if main else f"torchao-{mode}",
        f"torchao, scale mode {mode.upper()}, eager",
        partial(_MxAndNvfp4 if main else _Mx, mode),
        _follow(mode, "eager"),
        later=_LATER if mode == "even" else (),
        profiles_one_level=_follow_nvfp4("eager") if main else {},
    )


def _on_gpu(mode: str) -> tuple[Adapter, ...]:
    """The same on a GPU: eager, and under torch.compile, but for EVEN, which was not through in minutes with torch 2.11."""
    adapter = _adapter(mode)
    one_level = _follow_nvfp4("eager-cuda") if mode == "floor" else {}
    followed = partial(on_gpu, adapter, profiles=_follow(mode, "eager-cuda"), profiles_one_level=one_level)
    formats = _MX_FORMATS + tuple(one_level)
    eager = followed()
    if mode == "even":
        return (eager,)
    return eager, followed(
        name=adapter.name.replace("torchao", "torchao-compiled"),
        about=f"torchao, scale mode {mode.upper()}, under torch.compile",
        make=partial(_Compiled, mode, formats),
    )


ADAPTERS = (
    *map(_adapter, _MODES),
    _LIBRARY.target(
        "torchao-float8", "torchao, FP8 by rows, tensors and groups, eager", _Float8, {fmt: _follow_float8(fmt) for fmt in _Float8.FORMATS}
    ),
    *(
        _LIBRARY.target(
            f"torchao-products-{dtype}",
            f"torchao, emulated products of MX tensors in {dtype}",
            partial(_Products, dtype),
            kept=Kept.PRODUCTS,
        )
        for dtype in ("float32", "bfloat16")
    ),
    *(adapter for mode in _MODES for adapter in _on_gpu(mode)),
)
