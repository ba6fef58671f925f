"""LightX2V's operators as data: which format, profile, layout and multiples each has, and what its calls may be given.

The NumPy form and the GPU form share this module, so that they refuse alike. Messages begin with the words of the library's
own checks. Source: the library's notes on lightx2v_kernel, and ModelTC/LightX2V@f8aee98b:lightx2v_kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mxspec.adjacent import ADJACENT
from mxspec.expressions import AMAX, ONE_SIXTH, SF, TMAX, Q, S, X, const, f32, rcp_approx
from mxspec.formats import BLOCKS, BlockFormat
from mxspec.profiles.schema import (
    AmaxNan,
    Evidence,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
)  # fmt: skip
from mxspec.rounding import Rounding
from mxspec.tensorscale import TensorScale

#: Rows and columns of a tile of scales.
TILE = (128, 4)
#: In place of a scale type's name: four bytes of a row to one word, and plain bytes.
SCALE_VIEWS = ("int32", "uint8")

#: The kernel template with `UE8M0_SF = true`, which the library's host function never uses: blocks of 16 with E8M0 scales,
#: still times the global scale. Its test that the scale is not 0 never fails, since byte 00 is 2**-127.
UE8M0 = Profile(
    id="lightx2v-0.0.1/mxfp4-16/ue8m0",
    formats=("mxfp4-16",),
    summary="scale S * (amax * fl(1/6)) rounded up to a power of two, elements times S * rcp(sf)",
    source="ModelTC/LightX2V@f8aee98b:lightx2v_kernel/csrc/gemm/nvfp4_quant_kernels_sm120.cu cvt_warp_fp16_to_fp4<Type, true>",
    evidence=Evidence.READ,
    two_level=QuantizationSteps(
        scale=ScaleRule(value=f32.mul(S, f32.mul(AMAX, ONE_SIXTH)), step=ScaleStep.ENCODE, rounding=Rounding.RTP),
        scaled=f32.mul(X, f32.mul(S, rcp_approx(SF))),
        dequantize=f32.mul(Q, f32.div(SF, S)),
    ),
    tensor=TensorRule(native=TensorScaleKind.ENCODE, from_amax=f32.div(const(2688), TMAX)),
    amax_nan=AmaxNan.SKIP_UNLESS_ALL,
    dtypes=("float16", "bfloat16"),
    unspecified=("the approximate reciprocal on Blackwell: the table is sm_90's",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantizer:
    """One `scaled_*_quant`, or a form of it."""

    name: str
    format: BlockFormat
    profile: str | Profile
    #: Of the codes.
    layout: str
    #: The type in which scales are shown.
    scale_dtype: str

    @property
    def has_global_scale(self) -> bool:
        """Whether the call takes a float32 scale of the whole tensor."""
        return self.profile is UE8M0 or self.format.has_tensor_scale

    def count_bytes(self, n: int) -> int:
        """Bytes of a row of n codes."""
        return n * self.format.element.bits // 8

    def shape_scales(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of the scales of [m, n] elements, padded to whole tiles."""
        return -(-m // TILE[0]) * TILE[0], -(-(n // self.format.k) // TILE[1]) * TILE[1]


def _quantizer(fmt: str, layout: str, scale_dtype: str) -> Quantizer:
    name = f"scaled_{fmt.partition('_')[0]}_quant"
    return Quantizer(name=name, format=BLOCKS[fmt], profile=f"lightx2v-0.0.1/{fmt}", layout=layout, scale_dtype=scale_dtype)


NVFP4 = _quantizer("nvfp4", "nibble-low", "float8_e4m3fn")
NVFP4_UE8M0 = Quantizer(
    name=NVFP4.name, format=ADJACENT["mxfp4-16"].block, profile=UE8M0, layout="nibble-low", scale_dtype="float8_e8m0fnu"
)
MXFP4 = _quantizer("mxfp4", "nibble-low", "float8_e8m0fnu")
MXFP6 = _quantizer("mxfp6_e3m2", "fp6-le", "float8_e8m0fnu")
MXFP8 = _quantizer("mxfp8_e4m3", "bytes", "float8_e8m0fnu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One `cutlass_scaled_*_mm`: alpha a b^T + bias, bfloat16."""

    name: str
    a: Quantizer
    b: Quantizer
    #: What k and n are multiples of.
    k: int
    n: int


#: mxfp6_mxfp8 names its operands in the other order: a is MXFP8, b is MXFP6. Its host function asks for a k of 16, and CUTLASS then
#: for the 128 of six-bit operands; MXFP8's asks for 16 as well, which is half a block.
NVFP4_MM = Product(name="cutlass_scaled_nvfp4_mm", a=NVFP4, b=NVFP4, k=32, n=32)
MXFP4_MM = Product(name="cutlass_scaled_mxfp4_mm", a=MXFP4, b=MXFP4, k=128, n=128)
MXFP6_MXFP8_MM = Product(name="cutlass_scaled_mxfp6_mxfp8_mm", a=MXFP8, b=MXFP6, k=128, n=128)
MXFP8_MM = Product(name="cutlass_scaled_mxfp8_mm", a=MXFP8, b=MXFP8, k=32, n=128)


@dataclass(frozen=True, slots=True)
class Given:
    """What a check looks at: an array of any library, by its name in messages."""

    name: str
    shape: tuple[int, ...]
    #: Name of its dtype.
    dtype: str


def check_input(quantizer: Quantizer, x: Given) -> tuple[int, int]:
    """m and n of what is to be quantized.

    Raises TypeError for another dtype than float16 and bfloat16, ValueError for a shape that is no matrix of whole blocks.
    """
    k = quantizer.format.k
    if x.dtype not in ("float16", "bfloat16"):
        raise TypeError(
            f"Unsupported input data type for quantize_to_fp{quantizer.format.element.bits}: {x.name} is {x.dtype}; allowed are "
            "float16 and bfloat16, so convert it first"
        )
    if len(x.shape) != 2:
        raise ValueError(f"{x.name} must be a matrix: it has shape {x.shape}; reshape it to [rows, n]")
    if x.shape[1] % k:
        raise ValueError(f"The N dimension must be multiple of {k}: {x.name} has shape {x.shape}; pad its rows with zeros")
    return x.shape[0], x.shape[1]


def check_scale_dtype(quantizer: Quantizer, scale_dtype: object) -> str:
    """The type in which scales are shown: the operator's own, or one of SCALE_VIEWS.

    Raises ValueError for another.
    """
    allowed = (quantizer.scale_dtype, *SCALE_VIEWS)
    if scale_dtype is None:
        return quantizer.scale_dtype
    if scale_dtype not in allowed:
        raise ValueError(f"scale_dtype = {scale_dtype!r}; allowed are {', '.join(allowed)}, or None for the first")
    return str(scale_dtype)


def check_global_scale(scale: Any) -> TensorScale | None:
    """A global scale that is a number or a TensorScale, as a TensorScale; None for an array, which the forms look at.

    Raises TypeError for something else, ValueError for a TensorScale of another kind.
    """
    if isinstance(scale, TensorScale):
        if scale.kind is not TensorScaleKind.ENCODE:
            raise ValueError(
                f"input_global_scale is of kind {scale.kind.value}; the operator multiplies by it: pass kind encode, about "
                "2688 / max(abs(x))"
            )
        return scale
    if isinstance(scale, (float, np.floating)):
        return TensorScale("encode", float(scale))
    if isinstance(scale, (str, bool, int, bytes)) or not hasattr(scale, "shape"):
        raise TypeError(
            f"input_global_scale is of type {type(scale).__name__}; pass one float32 (an array of shape () or (1,), or a float), a "
            "TensorScale of kind encode, or None for the form without"
        )
    return None


def check_one_float(given: Given) -> None:
    """An array that is one float32; the kernels read its memory as that, whatever it is.

    Raises TypeError for another dtype and ValueError for another size.
    """
    if given.dtype != "float32":
        raise TypeError(f"Inconsistency of Tensor type: {given.name} is {given.dtype}; pass float32")
    if np.prod(given.shape, dtype=np.int64) != 1:
        raise ValueError(f"{given.name} has shape {given.shape}; pass one number, of shape () or (1,)")


def check_product(product: Product, a: Given, b: Given, scale_a: Given, scale_b: Given, bias: Given | None) -> tuple[int, int, int]:
    """m, n and k of a product.

    Raises TypeError for another dtype, ValueError for shapes that do not belong together.
    """
    sizes = []
    for side, quantizer, scales in ((a, product.a, scale_a), (b, product.b, scale_b)):
        if side.dtype != "uint8":
            raise TypeError(
                f"Inconsistency of Tensor type: {side.name} is {side.dtype}; pass the uint8 codes that {quantizer.name} returns"
            )
        if len(side.shape) != 2:
            raise ValueError(f"{side.name} must be a matrix: it has shape {side.shape}")
        allowed = (quantizer.scale_dtype, *SCALE_VIEWS)
        if scales.dtype not in allowed:
            raise TypeError(
                f"Inconsistency of Tensor type: {scales.name} is {scales.dtype}; pass the scales of {quantizer.name}, as {', '.join(allowed)}"
            )
        sizes.append(side.shape[1] * 8 // quantizer.format.element.bits)
    m, n, k = a.shape[0], b.shape[0], sizes[0]
    if sizes[0] != sizes[1] or product.b.count_bytes(k) != b.shape[1]:
        raise ValueError(
            f"a and b shapes cannot be multiplied: {a.shape} holds k = {sizes[0]}, {b.shape} holds k = {sizes[1]}; both sides have one k"
        )
    for name, size, multiple in (("k", k, product.k), ("n", n, product.n)):
        if size % multiple:
            raise ValueError(
                f"Expected {name} to be divisible by {multiple}, but got {name} = {size}: a has shape {a.shape}, b has shape {b.shape}; "
                "pad with zeros before quantizing"
            )
    for rows, quantizer, scales in ((m, product.a, scale_a), (n, product.b, scale_b)):
        due = quantizer.shape_scales(rows, k)
        shown = (due[0], due[1] // 4) if scales.dtype == "int32" else due
        if scales.shape != shown:
            raise ValueError(
                f"{scales.name} must be padded and swizzled to shape ({shown[0]}x{shown[1]}), but got shape {scales.shape}; pass "
                f"what {quantizer.name} returns"
            )
    if bias is not None:
        if bias.dtype != "bfloat16":
            raise TypeError(f"Inconsistency of Tensor type: bias is {bias.dtype}; the kernels read bfloat16, so convert it first")
        if bias.shape not in ((n,), (1, n)):
            raise ValueError(f"bias has shape {bias.shape}; it has one number for each column of the result: (1, {n})")
    return m, n, k
