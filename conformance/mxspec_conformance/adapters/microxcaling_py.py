"""microsoft/microxcaling (`import mx` must work: put the checkout on the path) behind the target interface.

The library returns dequantized values only. The shared exponent and the element values it computed on the
way are read from the running `_quantize_mx` itself and written as bytes by exact look-up; nothing is computed
here. A block that the library turns into NaN (its shared exponent is NaN) is scale FF with codes 00. An
element value without a code raises.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import torch
from mx import mx_ops

NAME = "microxcaling"
VERSION = "7bc4195"
FLOAT_FORMATS = ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2"]
FORMATS = [*FLOAT_FORMATS, "mxint8"]
#: Of float16 tensors, whose every step is rounded to float16, no profile speaks.
DTYPES = ["float32", "bfloat16"]
PROFILES = {
    **dict.fromkeys(FLOAT_FORMATS, "microxcaling-7bc4195/mxfp/nearest"),
    "mxint8": "microxcaling-7bc4195/mxint8/nearest",
}
BLOCK = 32
SCALE_BITS = 8

_ELEMENT = {
    "mxfp4": "fp4_e2m1",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp8_e4m3": "fp8_e4m3",
    "mxfp8_e5m2": "fp8_e5m2",
    "mxint8": "int8",
}
_VALUES: dict[str, tuple[int, Any]] = {  # sign bit, type of the codes
    "mxfp4": (0x08, ml_dtypes.float4_e2m1fn),
    "mxfp6_e2m3": (0x20, ml_dtypes.float6_e2m3fn),
    "mxfp6_e3m2": (0x20, ml_dtypes.float6_e3m2fn),
    "mxfp8_e4m3": (0x80, ml_dtypes.float8_e4m3fn),
    "mxfp8_e5m2": (0x80, ml_dtypes.float8_e5m2),
}
_ROUND = {"rna": "nearest", "rne": "even", "rtz": "floor"}


def _tensor(x: Any) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x.contiguous()
    array = np.ascontiguousarray(x)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def run(x: Any, fmt: str, rounding: str = "rna") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The library's dequantized result, and the element values and shared exponents it came from."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    quantize_elements = mx_ops._quantize_elemwise_core

    def watched(*args: Any, **kwargs: Any) -> torch.Tensor:
        elements: torch.Tensor = quantize_elements(*args, **kwargs)
        seen.append((elements, sys._getframe(1).f_locals["shared_exp"]))
        return elements

    with mock.patch.object(mx_ops, "_quantize_elemwise_core", watched):
        data = _tensor(x)
        result = mx_ops._quantize_mx(
            data, SCALE_BITS, _ELEMENT[fmt], axes=[-1], block_size=BLOCK, round=_ROUND[rounding]
        )
    elements, exponents = seen[0]
    return result, elements, exponents


def _codes(values: Any, fmt: str) -> Any:
    """Exact look-up of element values; the sign of zero is kept where the format has one."""
    if fmt == "mxint8":
        steps = values * np.float32(64)
        codes = steps.astype(np.int8)
        if not np.array_equal(codes.astype(np.float32), steps):
            raise ValueError("an element value has no int8 code")
        return codes.view(np.uint8)
    sign, dtype = _VALUES[fmt]
    table = np.arange(sign, dtype=np.uint8).view(dtype).astype(np.float32)
    table = table[np.isfinite(table)]
    magnitude = np.abs(values)
    codes = np.minimum(np.searchsorted(table, magnitude), len(table) - 1).astype(np.uint8)
    if not np.array_equal(table[codes], magnitude):
        raise ValueError(f"an element value has no {fmt} code")
    return codes | np.where(np.signbit(values), sign, 0).astype(np.uint8)


def quantize(x: Any, fmt: str, tensor_scale: float | None = None, rounding: str = "rna") -> tuple[Any, Any]:
    """float32, bfloat16 or float16 [rows, k] to codes and scale bytes; rna is the library's default."""
    _, elements, exponents = run(x, fmt, rounding)
    rows, k = elements.shape[0], elements.shape[1] * elements.shape[2]
    values = elements.to(torch.float32).numpy()
    exponent = exponents.to(torch.float32).numpy()
    lost = np.isnan(exponent)
    codes = _codes(np.where(lost, np.float32(0), values), fmt)
    scales = (np.where(lost, np.float32(128), exponent) + 127).astype(np.uint8)
    return codes.reshape(rows, k), scales.reshape(rows, k // BLOCK)
