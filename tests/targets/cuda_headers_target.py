"""A quantizer made of NVIDIA's host conversions alone: elements by cuda_fp4.h and cuda_fp8.h, scales by frexp.

mxfp4, mxfp8_e4m3 and mxfp8_e5m2 by the floor rule. The headers come from the installed wheel and are compiled by g++
when the file is loaded.
"""

import ctypes
import shutil
import subprocess
import tempfile
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import numpy as np

NAME = "cuda-headers"
VERSION = version("nvidia-cuda-runtime")
FORMATS = ["mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"]

_ELEMENTS = {"mxfp4": "e2m1", "mxfp8_e4m3": "e4m3", "mxfp8_e5m2": "e5m2"}
_EMAX = {"e2m1": 2, "e4m3": 8, "e5m2": 15}
_BLOCK = 32
_SOURCE = """
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <stddef.h>
#include <string.h>
#define ENCODER(name, call) extern "C" void encode_##name(const float *x, unsigned char *codes, size_t n) \\
    { for (size_t i = 0; i < n; i++) codes[i] = call; }
#define DECODER(name, call) \\
    extern "C" void decode_##name(const unsigned char *codes, unsigned short *halves, size_t n) \\
    { for (size_t i = 0; i < n; i++) { __half_raw h = call; halves[i] = h.x; } }
ENCODER(e2m1, __nv_cvt_float_to_fp4(x[i], __NV_E2M1, cudaRoundNearest))
ENCODER(e4m3, __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3))
ENCODER(e5m2, __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E5M2))
DECODER(e2m1, __nv_cvt_fp4_to_halfraw(codes[i], __NV_E2M1))
DECODER(e4m3, __nv_cvt_fp8_to_halfraw(codes[i], __NV_E4M3))
DECODER(e5m2, __nv_cvt_fp8_to_halfraw(codes[i], __NV_E5M2))
"""


def _compile() -> ctypes.CDLL:
    header = next(f for f in distribution("nvidia-cuda-runtime").files or () if f.name == "cuda_fp4.h")
    compiler = shutil.which("g++")
    if compiler is None:
        raise ImportError("g++ is not installed")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "convert.cpp", Path(folder) / "convert.so"
        source.write_text(_SOURCE, encoding="ascii")
        include = str(Path(str(header.locate())).parent)
        flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I", include]
        subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True, capture_output=True)
        return ctypes.CDLL(str(library))


_library = _compile()


def _call(name: str, given: Any, result: Any) -> Any:
    function = getattr(_library, name)
    function.restype = None
    function(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(result.ctypes.data), ctypes.c_size_t(given.size))
    return result


def encode(x: Any, element: str) -> Any:
    """Codes of single numbers, saturating."""
    x = np.ascontiguousarray(x, np.float32)
    return _call(f"encode_{element}", x, np.empty(x.shape, np.uint8))


def decode(codes: Any, element: str) -> Any:
    """Values of single codes."""
    codes = np.ascontiguousarray(codes)
    codes = np.ascontiguousarray(codes, np.uint8)  # its bytes are read
    return _call(f"decode_{element}", codes, np.empty(codes.shape, np.uint16)).view(np.float16).astype(np.float32)


def quantize(x: Any, fmt: str) -> tuple[Any, Any]:
    """Codes and scale bytes; a block with a NaN gets the scale FF, Inf counts as the largest exponent."""
    element = _ELEMENTS[fmt]
    blocks = x.reshape(-1, _BLOCK)
    amax = np.abs(blocks).max(axis=1)
    exponent = np.where(np.isinf(amax), 128, np.frexp(amax)[1] - 1)
    exponent = np.clip(np.where(amax == 0, -127, exponent - _EMAX[element]), -127, 127)
    codes = encode(np.ldexp(blocks, -exponent[:, None]), element)
    scales = np.where(np.isnan(amax), 255, exponent + 127).astype(np.uint8)
    return codes.reshape(x.shape), scales.reshape(len(x), -1)


def dequantize(codes: Any, scales: Any, fmt: str) -> Any:
    """float32 values."""
    values = decode(codes, _ELEMENTS[fmt]).reshape(*scales.shape, _BLOCK)
    exponent = scales.astype(np.int32)[..., None] - 127
    values = np.where(exponent == 128, np.float32(np.nan), np.ldexp(values, exponent))
    return values.astype(np.float32).reshape(codes.shape)
