"""gfloat as a target: `compute_scale_amax` per block, then its array rounding and encoding; `decode_block`.

The steps are those of gfloat's `quantize_block`, with its array functions in place of its scalar ones.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from gfloat import (
    RoundMode,
    compute_scale_amax,
    decode_block,
    decode_ndarray,
    encode_ndarray,
    round_ndarray,
)
from gfloat.formats import (
    format_info_mxfp4_e2m1,
    format_info_mxfp6_e2m3,
    format_info_mxfp6_e3m2,
    format_info_mxfp8_e4m3,
    format_info_mxfp8_e5m2,
    format_info_mxint8,
    format_info_ocp_e2m1,
    format_info_ocp_e2m3,
    format_info_ocp_e3m2,
    format_info_ocp_e4m3,
    format_info_ocp_e5m2,
    format_info_ocp_e8m0,
    format_info_ocp_int8,
)

NAME = "gfloat"
VERSION = version("gfloat")
DTYPES = ["float32"]
SR_BITS = 32

_BLOCKS = {
    "mxfp4": format_info_mxfp4_e2m1,
    "mxfp6_e2m3": format_info_mxfp6_e2m3,
    "mxfp6_e3m2": format_info_mxfp6_e3m2,
    "mxfp8_e4m3": format_info_mxfp8_e4m3,
    "mxfp8_e5m2": format_info_mxfp8_e5m2,
    "mxint8": format_info_mxint8,
}
FORMATS = list(_BLOCKS)
PROFILES = {fmt: "gfloat-0.5/mxfp8" if fmt.startswith("mxfp8") else "gfloat-0.5/mx" for fmt in FORMATS}

_ELEMENTS = {
    "e2m1": format_info_ocp_e2m1,
    "e2m3": format_info_ocp_e2m3,
    "e3m2": format_info_ocp_e3m2,
    "e4m3": format_info_ocp_e4m3,
    "e5m2": format_info_ocp_e5m2,
    "int8": format_info_ocp_int8,
    "e8m0": format_info_ocp_e8m0,
}

_MODES = {
    "rne": RoundMode.TiesToEven,
    "rna": RoundMode.TiesToAway,
    "rtz": RoundMode.TowardZero,
    "rtn": RoundMode.TowardNegative,
    "rtp": RoundMode.TowardPositive,
}


def _format(element: str) -> Any:
    if element not in _ELEMENTS:
        raise NotImplementedError(f"gfloat has no format for {element}")
    return _ELEMENTS[element]


def quantize(x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
    """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
    if tensor_scale is not None:
        raise NotImplementedError("gfloat has no tensor scale")
    info = _BLOCKS[fmt]
    blocks = x.reshape(-1, info.k)
    emax = info.etype.emax
    scales = np.array([compute_scale_amax(emax, block) for block in blocks], dtype=x.dtype)
    scaled = blocks / scales[:, None]
    rounded = round_ndarray(info.etype, scaled, RoundMode.TiesToEven, sat=True)
    codes = encode_ndarray(info.etype, rounded)
    rounded_scales = round_ndarray(info.stype, scales, RoundMode.TiesToEven, sat=True)
    scale_codes = encode_ndarray(info.stype, rounded_scales)
    rows = x.shape[0]
    return codes.astype(np.uint8).reshape(x.shape), scale_codes.astype(np.uint8).reshape(rows, -1)


def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
    """Float32 values [rows, k]; gfloat multiplies in double precision, exactly."""
    if tensor_scale is not None:
        raise NotImplementedError("gfloat has no tensor scale")
    info = _BLOCKS[fmt]
    stored = np.concatenate([scales.reshape(-1, 1), codes.reshape(-1, info.k)], axis=1)
    values = np.array([list(decode_block(info, block)) for block in stored.tolist()], dtype=np.float64)
    with np.errstate(over="ignore"):
        return values.astype(np.float32).reshape(codes.shape)


def encode(x: Any, element: str, rounding: str = "rne") -> Any:
    """Code of each value; out-of-range values saturate."""
    info = _format(element)
    if rounding not in _MODES:
        raise NotImplementedError(f"gfloat has no rounding {rounding}")
    return encode_ndarray(info, round_ndarray(info, x, _MODES[rounding], sat=True)).astype(np.uint8)


def decode(codes: Any, element: str) -> Any:
    """Float32 value of each code."""
    return decode_ndarray(_format(element), codes).astype(np.float32)


def encode_stochastic(x: Any, element: str, random_bits: Any) -> Any:
    """Code of each value, rounded by gfloat's `Stochastic` mode with one 32-bit word per element."""
    info = _format(element)
    rounded = round_ndarray(
        info, x, RoundMode.Stochastic, sat=True, srbits=random_bits.astype(np.int64), srnumbits=SR_BITS
    )
    return encode_ndarray(info, rounded).astype(np.uint8)
