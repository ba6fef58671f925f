"""LightX2V's eight operators on NumPy arrays: the profiles' bits, and products that are the exact sums, rounded once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import dot, layouts
from mxspec.blocks import quantize
from mxspec.inputs import as_array
from mxspec.lightx2v import facts
from mxspec.lightx2v.facts import Given, Product, Quantizer
from mxspec.tensorscale import TensorScale

Array = npt.NDArray[Any]

SCALE_DTYPES: dict[str, np.dtype[Any]] = {
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn), "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
    "int32": np.dtype("<i4"), "uint8": np.dtype(np.uint8),
}  # fmt: skip
#: What a null pointer in place of the global scale means.
NO_SCALE = TensorScale("encode", 1.0)


def describe(x: Array, name: str) -> Given:
    """What the checks look at."""
    return Given(name, x.shape, x.dtype.name)


def _take_scale(scale: Any) -> TensorScale:
    found = facts.check_global_scale(scale)
    if found is None:
        array = as_array(scale, name="input_global_scale")
        facts.check_one_float(describe(array, "input_global_scale"))
        found = TensorScale("encode", int(array.reshape(-1).view(np.uint32)[0]))
    return found


def _quantize(quantizer: Quantizer, x: object, scale: TensorScale | None, scale_dtype: object) -> tuple[Array, Array]:
    values = as_array(x, name="input")
    m, n = facts.check_input(quantizer, describe(values, "input"))
    shown = facts.check_scale_dtype(quantizer, scale_dtype)
    t = quantize(values, quantizer.format, profile=quantizer.profile, tensor_scale=scale)
    codes = layouts.pack(t.codes, quantizer.layout).reshape(m, quantizer.count_bytes(n))
    scales = layouts.pack(t.scales, "128x4-zeroed").reshape(quantizer.shape_scales(m, n))
    return codes, scales.view(SCALE_DTYPES[shown])


def scaled_nvfp4_quant(
    input: object,  # noqa: A002
    input_global_scale: Any,
    *,
    ue8m0: bool = False,
    scale_dtype: str | None = None,  # the library's name
) -> tuple[Array, Array]:
    """Quantize a matrix to NVFP4 by the profile `lightx2v-0.0.1/nvfp4`.

    Args:
        input: float16 or bfloat16 [m, n], n a multiple of 16: an array, or a tensor of torch or CuPy.
        input_global_scale: S, about 2688 / max(abs(input)): float32 of shape () or (1,), a float, or a TensorScale of kind encode.
            None: the form without, whose bits are those of S = 1.
        ue8m0: The kernel's other form, which the library compiles and never calls: E8M0 scales, rounded up (`facts.UE8M0`).
        scale_dtype: How scales are shown: None for the library's type, "int32" (four of them to a word, [rows, columns / 4]) or
            "uint8". The bytes are the same.

    Returns:
        Codes uint8 [m, n / 2], the first of two in the low nibble, and scales float8_e4m3fn (with ue8m0 float8_e8m0fnu)
        [m up to a multiple of 128, n / 16 up to one of 4], which lie in tiles of 128 x 4: row r of the array is not row r of
        the matrix. The padding is zero.

    Raises:
        TypeError: Another dtype.
        ValueError: No matrix, an n that is no multiple of 16, a TensorScale of another kind.

    Source: lightx2v_kernel's gemm.py and nvfp4_quant_kernels_sm120.cu.
    """
    scale = NO_SCALE if input_global_scale is None else _take_scale(input_global_scale)
    return _quantize(facts.NVFP4_UE8M0 if ue8m0 else facts.NVFP4, input, scale, scale_dtype)


def scaled_mxfp4_quant(input: object, *, scale_dtype: str | None = None) -> tuple[Array, Array]:  # noqa: A002
    """Quantize a matrix to MXFP4 by the profile `lightx2v-0.0.1/mxfp4`: zeros in a block of zeros become NaN, so code 7.

    Args:
        input: float16 or bfloat16 [m, n], n a multiple of 32.
        scale_dtype: As for `scaled_nvfp4_quant`.

    Returns:
        Codes uint8 [m, n / 2], scales float8_e8m0fnu [m up to a multiple of 128, n / 32 up to one of 4] in tiles.

    Raises:
        TypeError: Another dtype.
        ValueError: No matrix, or an n that is no multiple of 32.

    Source: mxfp4_quant_kernels_sm120.cu.
    """
    return _quantize(facts.MXFP4, input, None, scale_dtype)


def scaled_mxfp6_quant(input: object, *, scale_dtype: str | None = None) -> tuple[Array, Array]:  # noqa: A002
    """Quantize a matrix to MXFP6 (E3M2) by the profile `lightx2v-0.0.1/mxfp6_e3m2`.

    Args:
        input: float16 or bfloat16 [m, n], n a multiple of 32.
        scale_dtype: As for `scaled_nvfp4_quant`.

    Returns:
        Codes uint8 [m, 3 n / 4], four of them in three bytes (layout `fp6-le`); scales as those of `scaled_mxfp4_quant`.

    Raises:
        TypeError: Another dtype.
        ValueError: No matrix, or an n that is no multiple of 32.

    Source: mxfp6_quant_kernels_sm120.cu.
    """
    return _quantize(facts.MXFP6, input, None, scale_dtype)


def scaled_mxfp8_quant(input: object, *, scale_dtype: str | None = None) -> tuple[Array, Array]:  # noqa: A002
    """Quantize a matrix to MXFP8 (E4M3) by the profile `lightx2v-0.0.1/mxfp8_e4m3`.

    Args:
        input: float16 or bfloat16 [m, n], n a multiple of 32.
        scale_dtype: As for `scaled_nvfp4_quant`.

    Returns:
        Codes uint8 [m, n]; scales as those of `scaled_mxfp4_quant`. The library leaves their padding as it finds it; here it is
        zero.

    Raises:
        TypeError: Another dtype.
        ValueError: No matrix, or an n that is no multiple of 32.

    Source: mxfp8_quant_kernels_sm120.cu.
    """
    return _quantize(facts.MXFP8, input, None, scale_dtype)


def unpack_side(quantizer: Quantizer, codes: Array, scales: Array, k: int) -> tuple[Array, Array]:
    """Codes [rows, k], one to a byte, and scales [rows, k / block], of what an operator returned."""
    rows = codes.shape[0]
    plain = layouts.unpack(codes.reshape(-1), quantizer.layout, (rows, k))
    tiles = np.ascontiguousarray(scales).view(np.uint8).reshape(-1)
    return plain, layouts.unpack(tiles, "128x4", (rows, k // quantizer.format.k))


def _take_alpha(alpha: Any) -> float:
    if isinstance(alpha, (bool, str)):
        raise TypeError(f"alpha is of type {type(alpha).__name__}; pass one float32")
    if isinstance(alpha, (int, float, np.floating)):
        return float(np.float32(alpha))
    array = as_array(alpha, name="alpha")
    facts.check_one_float(describe(array, "alpha"))
    return float(array.reshape(-1)[0])


def _multiply(product: Product, mat_a: object, mat_b: object, scales_a: object, scales_b: object, alpha: Any, bias: object) -> Array:
    a, b = as_array(mat_a, name="a"), as_array(mat_b, name="b")
    scale_a, scale_b = as_array(scales_a, name="scale_a"), as_array(scales_b, name="scale_b")
    added = None if bias is None else as_array(bias, name="bias")
    _, _, k = facts.check_product(
        product, describe(a, "a"), describe(b, "b"), describe(scale_a, "scale_a"), describe(scale_b, "scale_b"),
        None if added is None else describe(added, "bias"),
    )  # fmt: skip
    sides = [
        dot.block_factor(*unpack_side(quantizer, codes, scales, k), quantizer.format)
        for quantizer, codes, scales in ((product.a, a, scale_a), (product.b, b, scale_b))
    ]
    return dot.matmul(sides[0], sides[1], alpha=_take_alpha(alpha), bias=None if added is None else added.reshape(-1), out_dtype="bfloat16")


def cutlass_scaled_nvfp4_mm(mat_a: object, mat_b: object, scales_a: object, scales_b: object, alpha: Any, bias: object = None) -> Array:
    """alpha a b^T + bias of two NVFP4 matrices: the exact sum, scaled and added to exactly, rounded once.

    Args:
        mat_a: Codes uint8 [m, k / 2], as `scaled_nvfp4_quant` returns them.
        mat_b: Codes uint8 [n, k / 2]; k and n are multiples of 32.
        scales_a: Its scales, in any of the types of `scale_dtype`.
        scales_b: The scales of mat_b.
        alpha: float32 of shape () or (1,), or a number, of which the nearest float32 is taken; for both global scales
            1 / (global scale of a times that of b).
        bias: bfloat16 (1, n) or (n,), or None.

    Returns:
        bfloat16 [m, n]. The library's kernel adds in float32; every result of that lies in the interval by which `mxspec check`
        judges products, and so does this one.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes that do not belong together, or that the kernel refuses.

    Source: lightx2v_kernel's gemm.py and nvfp4_scaled_mm_kernels_sm120.cu.
    """
    return _multiply(facts.NVFP4_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias)


def cutlass_scaled_mxfp4_mm(mat_a: object, mat_b: object, scales_a: object, scales_b: object, alpha: Any, bias: object = None) -> Array:
    """The same of two MXFP4 matrices; k and n are multiples of 128. Source: mxfp4_scaled_mm_kernels_sm120.cu."""
    return _multiply(facts.MXFP4_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias)


def cutlass_scaled_mxfp6_mxfp8_mm(
    mat_a: object, mat_b: object, scales_a: object, scales_b: object, alpha: Any, bias: object = None
) -> Array:
    """The same of MXFP8 activations a and MXFP6 weights b; k and n are multiples of 128.

    Source: mxfp6_mxfp8_scaled_mm_kernels_sm120.cu.
    """
    return _multiply(facts.MXFP6_MXFP8_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias)


def cutlass_scaled_mxfp8_mm(mat_a: object, mat_b: object, scales_a: object, scales_b: object, alpha: Any, bias: object = None) -> Array:
    """The same of two MXFP8 matrices; k is a multiple of 32, n of 128. Source: mxfp8_scaled_mm_kernels_sm120.cu."""
    return _multiply(facts.MXFP8_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias)
