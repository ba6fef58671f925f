"""comfy-kitchen, ComfyUI's kernels: `quantize_nvfp4`, `quantize_mxfp8` and their inverses, in each backend of the library.

On the CPU it has the eager backend alone, on a GPU its compiled CUDA kernels and its Triton kernels too; a target keeps to one of
them, and does not offer what that backend lacks. The Triton kernel of NVFP4 is no target: it holds an instruction (`cvt` to e2m1x2)
that chips before compute capability 10.0 do not have. The kernels take rows in groups of 32, so rows are filled with zeros here.

`comfy-kitchen` takes its containers apart with the library's own functions. `comfy-kitchen-raw` returns the bytes as the library
does, declared in the layouts that other libraries use: the first of two codes lies in the high nibble.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library

#: Rows of a group of the kernels.
_ROWS = 32


class _Kernels:
    FORMATS: tuple[str, ...] = ("mxfp8_e4m3", "nvfp4")
    TENSOR_SCALE = "decode"

    def __init__(self, device: str = "cpu", backend: str = "eager") -> None:
        import comfy_kitchen
        import torch
        from comfy_kitchen import float_utils

        self.VERSION = version("comfy-kitchen")
        self._torch = torch
        self._library: Any = comfy_kitchen
        self._utils: Any = float_utils
        self._device, self._backend = device, backend
        # The only one: the library would fall back to another.
        comfy_kitchen.set_backend_priority([backend])
        # The library's table promises float32 of the CUDA kernels as well; they refuse it.
        self.DTYPES = ("float16", "bfloat16") if backend == "cuda" else ("float32", "float16", "bfloat16")
        found = comfy_kitchen.list_backends()[backend]
        if not found["available"]:
            raise ImportError(f"comfy-kitchen's backend {backend} is not available: {found['unavailable_reason']}")

    def _scalar(self, tensor_scale: float | None) -> Any:
        if tensor_scale is None:
            raise NotImplementedError("comfy-kitchen's NVFP4 has no form without a tensor scale")
        return self._torch.tensor(tensor_scale, dtype=self._torch.float32, device=self._device)

    def _run(self, function: str, *given: Any, **options: Any) -> Any:
        """A function of the library in one backend."""
        try:
            return getattr(self._library, function)(*given, **options)
        except self._library.NoCapableBackendError as error:
            raise NotImplementedError(f"comfy-kitchen's backend {self._backend} has no {function} here") from error

    def _stored(self, x: Any, fmt: str, tensor_scale: float | None) -> tuple[Any, Any]:
        if fmt == "nvfp4":
            codes, scales = self._run("quantize_nvfp4", to_torch(x, self._device), self._scalar(tensor_scale))
            return codes, scales.view(self._torch.uint8)
        if tensor_scale is not None:
            raise NotImplementedError("comfy-kitchen has a tensor scale for nvfp4 only")
        codes, scales = self._run("quantize_mxfp8", to_torch(x, self._device))
        return codes.view(self._torch.uint8), scales.view(self._torch.uint8)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        codes, scales = self._stored(_fill(x), fmt, tensor_scale)
        if fmt == "nvfp4":
            codes = self._utils.unpack_uint4(codes)
        rows = self._utils.from_blocked(scales, len(codes), x.shape[1] // get_block(fmt).k)
        return from_torch(codes[: len(x)]), from_torch(rows[: len(x)])

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        torch, rows = self._torch, len(codes)
        stored = self._utils.to_blocked(to_torch(_fill(scales), self._device), flatten=False)
        elements = to_torch(_fill(codes), self._device)
        if fmt == "nvfp4":
            values = self._run(
                "dequantize_nvfp4", self._utils.pack_uint4(elements), self._scalar(tensor_scale), stored.view(torch.float8_e4m3fn),
                output_type=torch.float32,
            )  # fmt: skip
        else:
            values = self._run(
                "dequantize_mxfp8", elements.view(torch.float8_e4m3fn), stored.view(torch.float8_e8m0fnu), output_type=torch.float32
            )
        return from_torch(values[:rows])


def _fill(x: Any) -> Any:
    """Rows in whole groups, those that were added zero."""
    return np.concatenate([x, np.zeros((-len(x) % _ROWS, x.shape[1]), x.dtype)])


class _Raw(_Kernels):
    """NVFP4 as it is stored, taken for the layout of the others."""

    FORMATS = ("nvfp4",)
    LAYOUT = ("nibble-low", "128x4")

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Bytes of two codes, and scale bytes in tiles of 128 x 4."""
        codes, scales = self._stored(x, fmt, tensor_scale)
        return from_torch(codes), from_torch(scales)

    dequantize = None  # type: ignore[assignment]  # not offered


_LIBRARY = Library(
    name="comfy-kitchen",
    requires="comfy-kitchen",
    imports="comfy_kitchen",
    packages=(TORCH, "packaging==26.3"),
    bare_packages=("comfy-kitchen==0.2.40",),
)

_EAGER = _LIBRARY.target(
    "comfy-kitchen",
    "ComfyUI's kernels, eager backend",
    _Kernels,
    {fmt: f"comfy-kitchen-0.2/{fmt}/eager" for fmt in ("mxfp8_e4m3", "nvfp4")},
)

ADAPTERS = (
    _EAGER,
    _LIBRARY.target("comfy-kitchen-raw", "ComfyUI's kernels, bytes as they are stored", partial(_Raw)),
    *(
        on_gpu(
            _EAGER,
            name="comfy-kitchen" if backend == "cuda" else f"comfy-kitchen-{backend}",
            about=f"ComfyUI's kernels, backend {backend}",
            make=partial(_Kernels, backend=backend),
        )
        for backend in ("cuda", "eager")
    ),
)
