"""triton_kernels: on the CPU its Torch reference, `downcast_to_mxfp_torch` and `upcast_from_mxfp_torch`; on a GPU its kernels.

The kernels, `downcast_to_mxfp` and `upcast_from_mxfp`, need a GPU: Triton's interpreter does not run their inline assembly as
the hardware does. NVFP4 has one level (`scale_dtype` float8_e4m3fn in blocks of 16).
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

from mxspec_conformance.adapters._convert import from_torch, pack_nibbles, refuse_tensor_scale, to_torch, unpack_nibbles
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library

_FP8 = {"mxfp8_e4m3": "float8_e4m3fn", "mxfp8_e5m2": "float8_e5m2"}
_MX = ("mxfp4", *_FP8)


class _Casts:
    """One mode of rounding the scale: the reference on the CPU, the kernels on a GPU."""

    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self, mode: str, formats: tuple[str, ...], device: str = "cpu") -> None:
        import torch

        mxfp = _import_library()
        self.VERSION = version("tokenspeed-triton-kernels")
        self.FORMATS = formats
        self._torch, self._device = torch, device
        on_cpu = device == "cpu"
        self._downcast: Any = mxfp.downcast_to_mxfp_torch if on_cpu else mxfp.downcast_to_mxfp
        self._upcast: Any = mxfp.upcast_from_mxfp_torch if on_cpu else mxfp.upcast_from_mxfp
        self._mode: Any = mxfp.DequantScaleRoundingMode[mode]

    def _type(self, fmt: str) -> Any:
        return getattr(self._torch, _FP8[fmt]) if fmt in _FP8 else self._torch.uint8

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        refuse_tensor_scale(tensor_scale, "triton_kernels' formats have")
        options: dict[str, Any] = {"scale_dtype": self._torch.float8_e4m3fn, "microblock_size": 16} if fmt == "nvfp4" else {}
        codes, scales = self._downcast(
            to_torch(x, self._device), self._type(fmt), axis=-1, DEQUANT_SCALE_ROUNDING_MODE=self._mode, **options
        )
        data = from_torch(codes.view(self._torch.uint8))
        return data if fmt in _FP8 else unpack_nibbles(data), from_torch(scales.view(self._torch.uint8))

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        refuse_tensor_scale(tensor_scale, "triton_kernels' formats have")
        data = to_torch(codes if fmt in _FP8 else pack_nibbles(codes), self._device).view(self._type(fmt))
        stored = to_torch(scales, self._device)
        if fmt == "nvfp4":
            stored = stored.view(self._torch.float8_e4m3fn)
        return from_torch(self._upcast(data, stored, self._torch.float32, axis=-1))


def _is_not_here() -> bool:
    return False


def _import_library() -> Any:
    """The module of the casts.

    It asks Triton for the name of an AMD chip that Triton has known since 3.7; an older one learns that no chip is that one.
    """
    import triton
    from triton.language import target_info

    if not hasattr(target_info, "is_hip_gfx1250"):
        target_info.is_hip_gfx1250 = triton.constexpr_function(_is_not_here)
    return import_module("triton_kernels.numerics_details.mxfp")


_LIBRARY = Library(
    name="triton-kernels",
    requires="tokenspeed-triton-kernels",
    imports="triton_kernels",
    packages=(TORCH, "triton==3.9.0"),
    bare_packages=("tokenspeed-triton-kernels==1.0.0.post20260510",),
)


_REFERENCES = (
    _LIBRARY.target(
        "triton-kernels",
        "triton_kernels' Torch reference, ROUND_UP",
        partial(_Casts, "ROUND_UP", (*_MX, "nvfp4")),
        {fmt: f"triton-kernels-1.0/{fmt}/round-up" for fmt in _MX},
        profiles_one_level={"nvfp4": "triton-kernels-1.0/nvfp4"},
    ),
    _LIBRARY.target(
        "triton-kernels-down",
        "triton_kernels' Torch reference, ROUND_DOWN",
        partial(_Casts, "ROUND_DOWN", _MX),
        {fmt: f"triton-kernels-1.0/{fmt}/round-down" for fmt in _MX},
    ),
)

ADAPTERS = (*_REFERENCES, *(on_gpu(a, about=a.about.replace("Torch reference", "Triton kernels")) for a in _REFERENCES))
