"""comfy-kitchen, ComfyUI's kernels, on the CPU: `quantize_nvfp4`, `quantize_mxfp8` and their inverses in the eager backend.

`comfy-kitchen` takes its containers apart with the library's own functions. `comfy-kitchen-raw` returns the bytes as the library
does, declared in the layouts that other libraries use: the first of two codes lies in the high nibble.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

from mxspec.formats import get_block
from mxspec_conformance.adapters._convert import to_torch
from mxspec_conformance.adapters.registry import TORCH, Adapter, Library


class _Eager:
    FORMATS: tuple[str, ...] = ("mxfp8_e4m3", "nvfp4")
    DTYPES = ("float32", "float16", "bfloat16")
    TENSOR_SCALE = "decode"

    def __init__(self) -> None:
        import comfy_kitchen
        import torch
        from comfy_kitchen import float_utils

        self.VERSION = version("comfy-kitchen")
        self._torch = torch
        self._library: Any = comfy_kitchen
        self._utils: Any = float_utils

    def _scalar(self, tensor_scale: float | None) -> Any:
        if tensor_scale is None:
            raise NotImplementedError("comfy-kitchen's NVFP4 has no form without a tensor scale")
        return self._torch.tensor(tensor_scale, dtype=self._torch.float32)

    def _stored(self, x: Any, fmt: str, tensor_scale: float | None) -> tuple[Any, Any]:
        if fmt == "nvfp4":
            codes, scales = self._library.quantize_nvfp4(to_torch(x), self._scalar(tensor_scale))
            return codes, scales.view(self._torch.uint8)
        if tensor_scale is not None:
            raise NotImplementedError("comfy-kitchen has a tensor scale for nvfp4 only")
        codes, scales = self._library.quantize_mxfp8(to_torch(x))
        return codes.view(self._torch.uint8), scales.view(self._torch.uint8)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        codes, scales = self._stored(x, fmt, tensor_scale)
        if fmt == "nvfp4":
            codes = self._utils.unpack_uint4(codes)
        return codes.numpy(), self._utils.from_blocked(scales, len(x), x.shape[1] // get_block(fmt).k).numpy()

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        torch = self._torch
        stored = self._utils.to_blocked(to_torch(scales), flatten=False)
        if fmt == "nvfp4":
            packed = self._utils.pack_uint4(to_torch(codes))
            return self._library.dequantize_nvfp4(
                packed, self._scalar(tensor_scale), stored.view(torch.float8_e4m3fn), output_type=torch.float32
            ).numpy()
        elements = to_torch(codes).view(torch.float8_e4m3fn)
        return self._library.dequantize_mxfp8(
            elements, stored.view(torch.float8_e8m0fnu), output_type=torch.float32
        ).numpy()


class _Raw(_Eager):
    """NVFP4 as it is stored, taken for the layout of the others."""

    FORMATS = ("nvfp4",)
    LAYOUT = ("nibble-low", "128x4")

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Bytes of two codes, and scale bytes in tiles of 128 x 4."""
        codes, scales = self._stored(x, fmt, tensor_scale)
        return codes.numpy(), scales.numpy()

    dequantize = None  # type: ignore[assignment]  # not offered


_LIBRARY = Library(
    name="comfy-kitchen",
    requires="comfy-kitchen",
    imports="comfy_kitchen",
    packages=(TORCH, "packaging==26.3"),
    bare_packages=("comfy-kitchen==0.2.40",),
)

ADAPTERS = (
    Adapter(
        name="comfy-kitchen",
        library=_LIBRARY,
        about="ComfyUI's kernels, eager backend",
        make=_Eager,
        profiles={fmt: f"comfy-kitchen-0.2/{fmt}/eager" for fmt in ("mxfp8_e4m3", "nvfp4")},
    ),
    Adapter(
        name="comfy-kitchen-raw",
        library=_LIBRARY,
        about="ComfyUI's kernels, bytes as they are stored",
        make=partial(_Raw),
    ),
)
