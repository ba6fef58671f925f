"""AMD Quark's `fake_quantize_mx` on the CPU as a target, scale calculation mode "even" (its default).

The function returns dequantized floats. The scale is what the library's `even_round` returns inside the call
(a NaN scale is byte FF). FP4 and FP6 codes are what the library's own packers make of the values that its C++
kernel returns inside the call; FP8 codes are the values that its cast returns. Its MXINT8 form yields floats
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import torch
from quark.torch.kernel.hw_emulation import hw_emulation_interface as interface
from quark.torch.utils.pack import Pack_fp4, Pack_fp6

from mxspec_conformance.adapters import quark_py

NAME, VERSION = "quark-fake", quark_py.VERSION
FORMATS = ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2"]
DTYPES = ["float32", "float16", "bfloat16"]
PROFILES = {fmt: f"quark-0.13/{fmt}/fake-even" for fmt in FORMATS}

_ELEMENTS = {
    "mxfp4": "fp4",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp8_e4m3": "fp8_e4m3",
    "mxfp8_e5m2": "fp8_e5m2",
}
_FP8: dict[str, Any] = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2}
_FP6_BITS = {"mxfp6_e2m3": (2, 3), "mxfp6_e3m2": (3, 2)}


class _Recorder:
    """Calls the library's functions and keeps what they return."""

    def __init__(self) -> None:
        self._even_round = interface.even_round
        self._cast = interface.cast_to_float8_and_back
        self._kernels = interface.kernel_ext
        self.scale: torch.Tensor | None = None
        self.values: torch.Tensor | None = None

    def even_round(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        result: torch.Tensor = self._even_round(*args, **kwargs)
        self.scale = result.clone()
        return result

    def cast(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        result: torch.Tensor = self._cast(*args, **kwargs)
        self.values = result.clone()
        return result

    def fake_quantize_to_low_precision_fp(self, *args: Any) -> torch.Tensor:
        result: torch.Tensor = self._kernels.fake_quantize_to_low_precision_fp(*args)
        self.values = result.clone()
        return result


@contextmanager
def _recording() -> Iterator[_Recorder]:
    recorder = _Recorder()
    names = ("even_round", "cast_to_float8_and_back", "kernel_ext")
    originals = {name: getattr(interface, name) for name in names}
    interface.even_round = recorder.even_round
    interface.cast_to_float8_and_back = recorder.cast
    interface.kernel_ext = recorder
    try:
        yield recorder
    finally:
        for name, original in originals.items():
            setattr(interface, name, original)


def _codes(values: torch.Tensor, fmt: str) -> Any:
    if fmt in _FP8:
        return values.to(_FP8[fmt]).view(torch.uint8).numpy()
    if fmt == "mxfp4":
        packed = Pack_fp4(None, "fp4").pack(values, False)
        return torch.stack([packed & 0x0F, packed >> 4], dim=-1).reshape(values.shape).numpy()
    data = Pack_fp6(None, _ELEMENTS[fmt], *_FP6_BITS[fmt]).pack(values, False).reshape(-1, 3).numpy()
    low, mid, high = data[:, 0], data[:, 1], data[:, 2]
    fields = [low & 63, (low >> 6) | ((mid & 15) << 2), (mid >> 4) | ((high & 3) << 4), high >> 2]
    return np.stack(fields, axis=-1).reshape(tuple(values.shape))


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
    if tensor_scale is not None:
        raise NotImplementedError("Quark's MX formats have no tensor scale")
    data = quark_py.to_torch(x)
    with _recording() as recorder:
        interface.fake_quantize_mx(data, -1, 32, mx_element_dtype=_ELEMENTS[fmt])
    assert recorder.scale is not None
    assert recorder.values is not None
    codes = _codes(recorder.values.reshape(data.shape), fmt)
    scales = recorder.scale.numpy().astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    return codes, scales.reshape(data.shape[0], -1)
