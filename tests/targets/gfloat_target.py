"""A quantizer made of gfloat's elements alone: rounding and codes by gfloat, scales from float32's exponent field."""

from importlib.metadata import version
from typing import Any

import numpy as np
from gfloat import RoundMode, decode_ndarray, encode_ndarray, round_ndarray
from gfloat.formats import (
    format_info_ocp_e2m1,
    format_info_ocp_e2m3,
    format_info_ocp_e3m2,
    format_info_ocp_e4m3,
    format_info_ocp_e5m2,
    format_info_ocp_int8,
)

NAME = "gfloat-elements"
VERSION = version("gfloat")

_ELEMENTS = {
    "mxfp4": format_info_ocp_e2m1,
    "mxfp6_e2m3": format_info_ocp_e2m3,
    "mxfp6_e3m2": format_info_ocp_e3m2,
    "mxfp8_e4m3": format_info_ocp_e4m3,
    "mxfp8_e5m2": format_info_ocp_e5m2,
    "mxint8": format_info_ocp_int8,
}
_EMAX = {"mxfp4": 2, "mxfp6_e2m3": 2, "mxfp6_e3m2": 4, "mxfp8_e4m3": 8, "mxfp8_e5m2": 15, "mxint8": 0}
FORMATS = list(_ELEMENTS)
_BLOCK = 32


def _scale_bytes(blocks: Any, emax: int) -> Any:
    """The largest exponent field less emax; 00 at the low end, FE for Inf, FF where a NaN is."""
    bits = np.ascontiguousarray(blocks).view(np.uint32) & 0x7FFFFFFF
    field = (bits.max(axis=1) >> 23).astype(np.int64)
    field = np.where(field == 255, 255 + emax, field)
    scales = np.clip(np.maximum(field, 0) - emax, 0, 254)
    return np.where((bits > 0x7F800000).any(axis=1), 255, scales)


def quantize(x: Any, fmt: str) -> tuple[Any, Any]:
    """Codes and scale bytes."""
    x = np.asarray(x, np.float32)  # its bits are read
    element, blocks = _ELEMENTS[fmt], x.reshape(-1, _BLOCK)
    scales = _scale_bytes(blocks, _EMAX[fmt])
    lost = scales == 255
    scaled = np.where(lost[:, None], 0, blocks.astype(np.float64)) / 2.0 ** np.where(lost, 0, scales - 127)[:, None]
    rounded = round_ndarray(element, scaled, RoundMode.TiesToEven, sat=True)
    codes = encode_ndarray(element, rounded).astype(np.uint8)
    return codes.reshape(x.shape), scales.astype(np.uint8).reshape(len(x), -1)


def dequantize(codes: Any, scales: Any, fmt: str) -> Any:
    """float32 values."""
    values = decode_ndarray(_ELEMENTS[fmt], codes).reshape(*scales.shape, _BLOCK)
    factors = np.where(scales == 255, np.nan, 2.0 ** (scales.astype(np.float64) - 127))
    return (values * factors[..., None]).astype(np.float32).reshape(codes.shape)
