"""AMD Quark on the CPU: `downcast_to_mxfp_torch` with `upcast_from_mxfp_torch`, and `fake_quantize_mx`.

The scale modes of the downcast: ROUND_UP; ROUND_DOWN, the exponent field of amax / max; EVEN, amax rounded
half up (MXFP4 only).

`fake_quantize_mx`, with its default scale mode "even", returns dequantized floats. The scale is what the
library's `even_round` returns inside the call (a NaN scale is byte FF). FP4 and FP6 codes are what the
library's own packers make of the values that its C++ kernel returns inside the call; FP8 codes are the values
that its cast returns. Its MXINT8 form yields floats alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_conformance.adapters._convert import pack_nibbles, refuse_tensor_scale, to_torch, unpack_nibbles, unpack_six_bits
from mxspec_conformance.adapters._watching import WATCHING
from mxspec_conformance.adapters.registry import TORCH, Adapter, Library

_FP8 = {"mxfp8_e4m3": "float8_e4m3fn", "mxfp8_e5m2": "float8_e5m2"}
_FORMATS = ("mxfp4", *_FP8)
_FAKE_ELEMENTS = {"mxfp4": "fp4", "mxfp6_e2m3": "fp6_e2m3", "mxfp6_e3m2": "fp6_e3m2", "mxfp8_e4m3": "fp8_e4m3", "mxfp8_e5m2": "fp8_e5m2"}
_FP6_BITS = {"mxfp6_e2m3": (2, 3), "mxfp6_e3m2": (3, 2)}


class _Downcast:
    """One scale mode of the downcast."""

    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self, mode: str, *formats: str) -> None:
        import torch
        from quark.torch.kernel.mx import triton

        self.VERSION = version("amd-quark")
        self.FORMATS = formats
        self._torch = torch
        self._kernels: Any = triton
        self._mode: Any = triton.DequantScaleRoundingMode[mode]
        self._types: dict[str, Any] = {"mxfp4": torch.uint8, **{f: getattr(torch, name) for f, name in _FP8.items()}}

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        refuse_tensor_scale(tensor_scale, "Quark's MX formats have")
        codes, scales = self._kernels.downcast_to_mxfp_torch(to_torch(x), self._types[fmt], axis=-1, DEQUANT_SCALE_ROUNDING_MODE=self._mode)
        data = codes.view(self._torch.uint8).numpy()
        return unpack_nibbles(data) if fmt == "mxfp4" else data, scales.numpy()

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        refuse_tensor_scale(tensor_scale, "Quark's MX formats have")
        data = to_torch(pack_nibbles(codes)) if fmt == "mxfp4" else to_torch(codes).view(self._types[fmt])
        return self._kernels.upcast_from_mxfp_torch(data, to_torch(scales), self._torch.float32, axis=-1).numpy()


class _Fake:
    """The fake quantizer."""

    FORMATS = tuple(_FAKE_ELEMENTS)
    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self) -> None:
        import torch
        from quark.torch.kernel.hw_emulation import hw_emulation_interface
        from quark.torch.utils import pack

        self.VERSION = version("amd-quark")
        self._torch = torch
        self._interface: Any = hw_emulation_interface
        self._packers: Any = pack

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        refuse_tensor_scale(tensor_scale, "Quark's MX formats have")
        data = to_torch(x)
        with _record(self._interface) as seen:
            self._interface.fake_quantize_mx(data, -1, 32, mx_element_dtype=_FAKE_ELEMENTS[fmt])
        scales = seen["scale"].numpy().astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
        return self._codes(seen["values"].reshape(data.shape), fmt), scales.reshape(data.shape[0], -1)

    def _codes(self, values: Any, fmt: str) -> Any:
        if fmt in _FP8:
            return values.to(getattr(self._torch, _FP8[fmt])).view(self._torch.uint8).numpy()
        if fmt == "mxfp4":
            packed = self._packers.Pack_fp4(None, "fp4").pack(values, False)
            return unpack_nibbles(packed.numpy()).reshape(tuple(values.shape))
        packed = self._packers.Pack_fp6(None, _FAKE_ELEMENTS[fmt], *_FP6_BITS[fmt]).pack(values, False)
        return unpack_six_bits(packed.reshape(-1).numpy()).reshape(tuple(values.shape))


@contextmanager
def _record(interface: Any) -> Iterator[dict[str, Any]]:
    """The last scale and the last values that the library's functions return while the context is open."""
    with WATCHING:
        yield from _record_alone(interface)


def _record_alone(interface: Any) -> Iterator[dict[str, Any]]:
    names = ("even_round", "cast_to_float8_and_back", "kernel_ext")
    originals = {name: getattr(interface, name) for name in names}
    seen: dict[str, Any] = {}

    def keep(what: str, function: Any) -> Any:
        def recorder(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            seen[what] = result.clone()
            return result

        return recorder

    class Kernels:
        """Stands in for the extension module."""

        fake_quantize_to_low_precision_fp = staticmethod(keep("values", originals["kernel_ext"].fake_quantize_to_low_precision_fp))

    interface.even_round = keep("scale", originals["even_round"])
    interface.cast_to_float8_and_back = keep("values", originals["cast_to_float8_and_back"])
    interface.kernel_ext = Kernels
    try:
        yield seen
    finally:
        for name, original in originals.items():
            setattr(interface, name, original)


_LIBRARY = Library(
    name="quark",
    requires="amd-quark",
    imports="quark",
    packages=(
        TORCH, "triton==3.9.0", "onnx==1.23.2", "onnxslim==0.1.98", "transformers==5.23.0", "ninja", "psutil", "scipy",
    ),
    bare_packages=("amd-quark==0.13",),
)  # fmt: skip


def _downcast(name: str, mode: str, *formats: str) -> Adapter:
    path = mode.lower().replace("_", "-")
    return _LIBRARY.target(
        name,
        f"AMD Quark downcast, {mode}",
        partial(_Downcast, mode, *formats),
        {fmt: f"quark-0.13/{'mxfp8' if fmt in _FP8 else fmt}/{path}" for fmt in formats},
    )


ADAPTERS = (
    _downcast("quark", "ROUND_UP", *_FORMATS),
    _downcast("quark-down", "ROUND_DOWN", *_FORMATS),
    _downcast("quark-even", "EVEN", "mxfp4"),
    _LIBRARY.target("quark-fake", "AMD Quark fake quantization", _Fake, {fmt: f"quark-0.13/{fmt}/fake-even" for fmt in _FAKE_ELEMENTS}),
)
