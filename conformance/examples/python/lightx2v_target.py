"""LightX2V's operators as a target: `mxspec check lightx2v_target.py` judges the installed lightx2v_kernel on an sm_120 card.

MXSPEC_LIGHTX2V names another module with the same operators: `mxspec.lightx2v` (NumPy), `mxspec_gpu.lightx2v` (torch on any
NVIDIA GPU), or a file of your own that is on the path. The operators are called as their library's Python code calls them: packed
codes, scales in tiles, alpha and bias on the device.

SPDX-License-Identifier: Apache-2.0
"""

import importlib
import os

import numpy as np

MODULE = os.environ.get("MXSPEC_LIGHTX2V", "lightx2v_kernel.gemm")
IN_NUMPY = MODULE == "mxspec.lightx2v"
#: Compute capabilities of the cards for which lightx2v_kernel is built.
CARDS = {(12, 0), (12, 1)}


def load_operators():
    """The module, where it can run; ImportError says what is missing."""
    try:
        found = importlib.import_module(MODULE)
    except ImportError as error:
        raise ImportError(
            f"{MODULE} cannot be imported ({error}); build lightx2v_kernel from its sources for the sm_120 card of this machine, or set "
            "MXSPEC_LIGHTX2V=mxspec.lightx2v to judge the NumPy form"
        ) from error
    if IN_NUMPY:
        return found
    import torch

    if not torch.cuda.is_available():
        raise ImportError(f"{MODULE} needs an NVIDIA GPU, and torch {torch.__version__} finds none on this machine")
    card = torch.cuda.get_device_capability()
    if MODULE.startswith("lightx2v_kernel") and card not in CARDS:
        raise ImportError(
            f"lightx2v_kernel is built for sm_120, and this card ({torch.cuda.get_device_name()}) is sm_{card[0]}{card[1]}; run on one of "
            "that family, or set MXSPEC_LIGHTX2V=mxspec_gpu.lightx2v to judge the GPU form"
        )
    return found


OPERATORS = load_operators()
if not IN_NUMPY:
    import torch

    ARRAYS, DEVICE = "torch", "cuda"

NAME = f"lightx2v-operators, {MODULE}"
VERSION = str(getattr(importlib.import_module(MODULE.partition(".")[0]), "__version__", "unknown"))
DTYPES = ["float16", "bfloat16"]
LAYOUT = "128x4"
TENSOR_SCALE = "encode"
QUANTIZERS = {
    "nvfp4": OPERATORS.scaled_nvfp4_quant,
    "mxfp4": OPERATORS.scaled_mxfp4_quant,
    "mxfp6_e3m2": OPERATORS.scaled_mxfp6_quant,
    "mxfp8_e4m3": OPERATORS.scaled_mxfp8_quant,
}
FORMATS = list(QUANTIZERS)
PROFILE = [f"lightx2v-0.0.1/{fmt}" for fmt in FORMATS]
#: The operands as the kernels take them -> the operator. mxfp6_mxfp8 takes MXFP8 as its a.
PRODUCTS = {
    ("nvfp4/nibble-low+128x4", "nvfp4/nibble-low+128x4"): OPERATORS.cutlass_scaled_nvfp4_mm,
    ("mxfp4/nibble-low+128x4", "mxfp4/nibble-low+128x4"): OPERATORS.cutlass_scaled_mxfp4_mm,
    ("mxfp8_e4m3/bytes+128x4", "mxfp6_e3m2/fp6-le+128x4"): OPERATORS.cutlass_scaled_mxfp6_mxfp8_mm,
    ("mxfp8_e4m3/bytes+128x4", "mxfp8_e4m3/bytes+128x4"): OPERATORS.cutlass_scaled_mxfp8_mm,
}
OPERANDS = [{"a": a, "b": b} for a, b in PRODUCTS]
BY_FORMATS = {tuple(side.partition("/")[0] for side in sides): operator for sides, operator in PRODUCTS.items()}
OUT_DTYPES = ["bfloat16"]
#: The strictest of the kernels' own checks.
PRODUCT_SHAPES = {"n": 128, "k": 128}
BLOCK = {"nvfp4": 16}


def one_float(value):
    """A float32 on the device."""
    return np.float32(value) if IN_NUMPY else torch.tensor(float(value), dtype=torch.float32, device="cuda")


def as_bytes(array):
    """The same memory as uint8."""
    return np.ascontiguousarray(array).view(np.uint8) if IN_NUMPY else array.contiguous().view(torch.uint8)


def to_codes(packed, bits):
    """Codes, one to a byte: little-endian, the first code in the lowest bits."""
    if bits == 8:
        return packed
    host = packed if IN_NUMPY else packed.cpu().numpy()
    rows = host.shape[0]
    places = np.unpackbits(host, axis=-1, bitorder="little").reshape(rows, -1, bits)
    codes = (places << np.arange(bits, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8)
    return codes if IN_NUMPY else torch.from_numpy(codes)


def quantize(x, fmt, tensor_scale=None):
    """Codes [rows, k] and the flat bytes of the scales' tiles."""
    if fmt == "nvfp4" and tensor_scale is None:
        raise NotImplementedError("the operator takes a global scale")
    arguments = (one_float(tensor_scale),) if fmt == "nvfp4" else ()
    codes, scales = QUANTIZERS[fmt](x, *arguments)
    return to_codes(codes, {"nvfp4": 4, "mxfp4": 4, "mxfp6_e3m2": 6, "mxfp8_e4m3": 8}[fmt]), as_bytes(scales).reshape(-1)


def take_side(side, fmt):
    """Codes and scales as a quantizer returns them."""
    rows, k = side.shape
    columns = -(-(k // BLOCK.get(fmt, 32)) // 4) * 4
    scales = side.scales.reshape(-(-rows // 128) * 128, columns)
    if IN_NUMPY:
        import ml_dtypes

        dtype = ml_dtypes.float8_e4m3fn if fmt == "nvfp4" else ml_dtypes.float8_e8m0fnu
    else:
        dtype = torch.float8_e4m3fn if fmt == "nvfp4" else torch.float8_e8m0fnu
    return side.codes.reshape(rows, -1), scales.view(dtype)


def matmul(a, b, out_dtype, alpha=1.0, bias=None):
    """bfloat16 [m, n]; NVFP4's tensor scales are part of alpha."""
    formats = tuple(str(getattr(side.format, "name", side.format)) for side in (a, b))
    factor = np.float32(alpha)
    for side in (a, b):
        if side.tensor_scale is not None:
            factor = factor * np.float32(side.tensor_scale)
    (mat_a, scales_a), (mat_b, scales_b) = take_side(a, formats[0]), take_side(b, formats[1])
    if bias is not None:
        bias = bias.reshape(1, -1)
    return BY_FORMATS[formats](mat_a, mat_b, scales_a, scales_b, one_float(factor), bias)
