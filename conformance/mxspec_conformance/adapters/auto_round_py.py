"""auto-round's fake quantizers on the CPU as a target: `quant_mx` and `nv_fp4`, RTN, no tuning.

Both return dequantized floats. The element values are those that the library's own `quant_element` and
`cast_to_fp4` return inside the call; the scale bytes are the returned shared exponents and block scales. A
block whose shared exponent is NaN is all NaN: scale FF, codes 00. The tensor scale is of the encode kind,
2688 / amax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import torch
from auto_round.data_type import mxfp, nvfp

NAME = "auto-round"
VERSION = version("auto-round")
FORMATS = ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "encode"
PROFILES = {**dict.fromkeys(FORMATS[:-1], "auto-round-0.16/mx/fake"), "nvfp4": "auto-round-0.16/nvfp4/fake"}

_DATA_TYPES: dict[str, tuple[str, int]] = {
    "mxfp4": ("mx_fp4", 4),
    "mxfp6_e2m3": ("mx_fp6e2m3", 6),
    "mxfp6_e3m2": ("mx_fp6e3m2", 6),
    "mxfp8_e4m3": ("mx_fp8e4m3", 8),
    "mxfp8_e5m2": ("mx_fp8e5m2", 8),
    "mxint8": ("mx_int8", 8),
}
_NUMPY: dict[str, Any] = {
    "mxfp4": ml_dtypes.float4_e2m1fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "nvfp4": ml_dtypes.float4_e2m1fn,
}


def to_torch(x: Any) -> torch.Tensor:
    """The array as a torch tensor of the same bits."""
    if isinstance(x, torch.Tensor):
        return x
    array = np.ascontiguousarray(x)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


@contextmanager
def _record(module: Any, function: str) -> Iterator[list[torch.Tensor]]:
    """What one of the library's functions returns while the context is open."""
    original: Callable[..., torch.Tensor] = getattr(module, function)
    seen: list[torch.Tensor] = []

    def recorder(*args: Any, **kwargs: Any) -> torch.Tensor:
        result = original(*args, **kwargs)
        seen.append(result.clone())
        return result

    setattr(module, function, recorder)
    try:
        yield seen
    finally:
        setattr(module, function, original)


def _codes(values: Any, fmt: str) -> Any:
    """Codes of element values that lie on the grid; NaN, nearly always in whole blocks, gets code 00."""
    nan = np.isnan(values)
    clean = np.where(nan, np.float32(0), values)
    if fmt == "mxint8":
        codes = (clean * 64).astype(np.int8)
        back = codes.astype(np.float32) / 64
    else:
        codes = clean.astype(_NUMPY[fmt])
        back = codes.astype(np.float32)
    if not np.array_equal(back, clean):
        raise ValueError(f"an element value of {fmt} has no code")
    return codes.view(np.uint8)


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
    data = to_torch(x)
    rows = data.shape[0]
    if fmt == "nvfp4":
        if tensor_scale is None:
            raise NotImplementedError("nv_fp4 has no form without a tensor scale")
        with _record(nvfp, "cast_to_fp4") as seen:
            _, scale, _ = nvfp.nv_fp4(data, global_scale=torch.tensor(tensor_scale, dtype=torch.float32))
        stored = scale.to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        return _codes(seen[0].numpy(), fmt).reshape(data.shape), stored.reshape(rows, -1)
    if tensor_scale is not None:
        raise NotImplementedError("quant_mx has no tensor scale")
    data_type, bits = _DATA_TYPES[fmt]
    with _record(mxfp, "quant_element") as seen:
        _, exponent, _ = mxfp.quant_mx(data, bits=bits, group_size=32, data_type=data_type)
    biased = exponent.float().numpy() + 127
    stored = np.where(np.isnan(biased), 255, np.nan_to_num(biased)).astype(np.uint8)
    return _codes(seen[0].numpy(), fmt).reshape(data.shape), stored.reshape(rows, -1)


def tensor_scale(x: Any, fmt: str) -> float:
    """The library's NVFP4 global scale of a whole tensor, from `calculate_gparam`."""
    if fmt != "nvfp4":
        raise NotImplementedError("auto-round has a tensor scale for nvfp4 only")
    return float(nvfp.calculate_gparam(to_torch(x)).item())
