"""fouroversix's PyTorch reference: MXFP4, and NVFP4 under each of its scale rules.

The library takes bfloat16 only. Its tensor scale is of the decode kind, in bfloat16: amax / 1536 under the
Four-over-Six rules (`mse`, its default; `l1_norm`, the sum of absolute errors; `abs_max`, the largest error),
amax / 2688 under `always_6`, which is plain NVFP4. It works in tiles of 128 rows and of four scales, so rows
and columns are filled with zeros here.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

from mxspec_conformance.adapters._convert import from_torch, pack_nibbles, to_torch, unpack_nibbles
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters.registry import TORCH, Library

_ROWS, _SCALES = 128, 4


class _Nvfp4:
    """NVFP4 under one scale rule; the functions take MXFP4 as well, which has `always_6` alone."""

    FORMATS: tuple[str, ...] = ("nvfp4",)
    DTYPES = ("bfloat16",)
    TENSOR_SCALE = "decode"

    def __init__(self, rule: str, device: str = "cpu") -> None:
        import torch
        from fouroversix import utils
        from fouroversix.quantize import reference

        self.VERSION = version("fouroversix")
        self._rule, self._device = rule, device
        self._torch, self._utils = torch, utils
        self._reference: Any = reference

    def _norm_constant(self, fmt: str, tensor_scale: float | None) -> Any:
        if fmt == "mxfp4":
            if tensor_scale is not None:
                raise NotImplementedError("fouroversix has no tensor scale for mxfp4")
            return None
        if tensor_scale is None:
            raise NotImplementedError("fouroversix's nvfp4 has no form without a tensor scale")
        return self._torch.tensor([tensor_scale], dtype=self._torch.float32, device=self._device)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        data = to_torch(x, self._device)
        rows, k = data.shape
        fp4_format = self._utils.FP4Format(fmt)
        block = fp4_format.block_size()
        padded = self._torch.nn.functional.pad(data, (0, -k % (block * _SCALES), 0, -rows % _ROWS))
        packed, blocked, _ = self._reference.quantize_to_fp4(
            padded,
            self._norm_constant(fmt, tensor_scale),
            fp4_format=fp4_format,
            scale_rule=self._utils.AdaptiveBlockScalingRule("always_6" if fmt == "mxfp4" else self._rule),
        )
        codes = unpack_nibbles(from_torch(packed)).reshape(tuple(padded.shape))
        scales = self._reference.from_blocked(blocked, (padded.shape[0], padded.shape[1] // block))
        return codes[:rows, :k], from_torch(scales.view(self._torch.uint8)[:rows, : k // block])

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        fp4_format = self._utils.FP4Format(fmt)
        values = self._reference.dequantize_from_fp4(
            to_torch(pack_nibbles(codes), self._device),
            to_torch(scales, self._device).view(fp4_format.scale_dtype()),
            self._norm_constant(fmt, tensor_scale),
            dtype=self._torch.float32,
            fp4_format=fp4_format,
        )
        return from_torch(values)

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The library's norm constant of a whole tensor."""
        if fmt != "nvfp4":
            raise NotImplementedError("fouroversix has a tensor scale for nvfp4 only")
        four_over_six = self._rule != "always_6"
        return float(self._reference.get_nvfp4_tensor_scale(to_torch(x, self._device), enable_four_over_six=four_over_six).item())


class _Fouroversix(_Nvfp4):
    """Both formats, and the library's layouts."""

    FORMATS = ("mxfp4", "nvfp4")

    def pack(self, codes: Any, layout: str) -> Any:
        """Two codes per byte, first code in the low nibble; the library packs along the second axis."""
        _require_layout(layout, "nibble-low")
        if codes.ndim != 2:
            raise NotImplementedError(f"pack_unpacked_fp4 packs the second axis, which is not the last of {codes.ndim}")
        return from_torch(self._reference.pack_unpacked_fp4(to_torch(codes, self._device)))

    def swizzle(self, scales: Any, layout: str) -> Any:
        """Row-major scale bytes to flat 128x4 tiles; the library takes whole tiles only."""
        _require_layout(layout, "128x4")
        _require_whole_tiles("to_blocked", tuple(scales.shape))
        return from_torch(self._reference.to_blocked(to_torch(scales, self._device)))

    def unswizzle(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        """The inverse of `swizzle`."""
        _require_layout(layout, "128x4")
        _require_whole_tiles("from_blocked", tuple(shape))
        return from_torch(self._reference.from_blocked(to_torch(data, self._device), (shape[0], shape[1])))


def _require_layout(layout: str, known: str) -> None:
    if layout != known:
        raise NotImplementedError(f"layout {layout}")


def _require_whole_tiles(function: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise NotImplementedError(f"{function} takes two dimensions, not {len(shape)}")
    if shape[0] % _ROWS or shape[1] % _SCALES:
        raise NotImplementedError(f"{function} takes whole 128x4 tiles, not {shape[0]} x {shape[1]} scales")


_LIBRARY = Library(
    name="fouroversix",
    requires="fouroversix",
    imports="fouroversix",
    packages=(TORCH, "transformers==5.23.0", "scipy"),
    bare_packages=("fouroversix==0.1.0",),
)

_ON_CPU = (
    _LIBRARY.target(
        "fouroversix",
        "Four Over Six reference, rule mse",
        partial(_Fouroversix, "mse"),
        {"mxfp4": "fouroversix-0.1/mxfp4", "nvfp4": "fouroversix-0.1/nvfp4/mse"},
    ),
    *(
        _LIBRARY.target(
            f"fouroversix-{rule.replace('_', '-')}",
            f"Four Over Six reference, rule {rule}",
            partial(_Nvfp4, rule),
            {"nvfp4": f"fouroversix-0.1/nvfp4/{rule.replace('_', '-')}"},
        )
        for rule in ("always_6", "l1_norm", "abs_max")
    ),
)

ADAPTERS = (*_ON_CPU, *map(on_gpu, _ON_CPU))
