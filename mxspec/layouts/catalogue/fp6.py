"""Six bits."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes
from mxspec.layouts.packing import SIX_BITS, Packing, boxed
from mxspec.layouts.schema import Evidence, Layout, Padding

#: Per four codes: one byte of their upper two bits, then their lower nibbles, the first of each highest.
PLANES = Packing(
    "6-bit, upper bits apart", 6, 4, 3,
    tuple(
        8 + 8 * (i // 2) + 4 * (1 - i % 2) + b if b < 4 else 6 - 2 * i + b - 4
        for i in range(4)
        for b in range(6)
    ),
)  # fmt: skip
PLANES_BYTE = "(1 - b // 4) * (1 + k % 4 // 2)"
PLANES_BIT = "(1 - b // 4) * (4 - 4 * (k % 2) + b) + b // 4 * (2 - 2 * (k % 4) + b)"

LAYOUTS = (
    Layout(
        name="fp6-le",
        aliases=("fp6-4in3", "mlx-6bit", "ct-fp6"),
        summary="four codes in three bytes, code k in bits 6 k to 6 k + 5 of the row",
        fields=(codes("M K -> M K", SIX_BITS, byte="m * (K * 3 // 4) + 6 * k // 8", bit="6 * k % 8"),),
        source="compressed-tensors mxfp6, Quark Pack_fp6, MLX affine 6-bit; LightX2V mxfp6 kernel",
        evidence=Evidence.MEASURED,
        users=("LightX2V", "compressed-tensors", "Quark", "MLX", "CUTLASS global memory"),
        notes=("LightX2V's kernel needs K to be a multiple of 32",),
    ),
    Layout(
        name="fp6-le-flat",
        aliases=("onnx-float6",),
        summary="the matrix as one row of 6-bit codes, four in three bytes; zero bits fill the last byte",
        fields=(codes("M K -> M K", SIX_BITS, byte="6 * (m * K + k) // 8", bit="6 * (m * K + k) % 8"),),
        padding=Padding.SPECIFIED,
        flat=True,
        word=1,
        source="ONNX TensorProto raw_data for FLOAT6E2M3 and FLOAT6E3M2",
        evidence=Evidence.MEASURED,
        users=("ONNX",),
    ),
    Layout(
        name="fp6-planes",
        summary="four codes in three bytes: their upper two bits, then their lower nibbles, first highest",
        fields=(
            codes("M K -> M K", PLANES, byte="m * (K * 3 // 4) + k // 4 * 3 + " + PLANES_BYTE, bit=PLANES_BIT),
        ),
        source="Quark Pack_mxfp6, codes only",
        evidence=Evidence.MEASURED,
        users=("Quark (inside its blocks)",),
    ),
    Layout(
        name="fp6-align16",
        aliases=("b6x16_p32", "16U6_ALIGN16B"),
        summary="16 codes in 12 bytes as fp6-le, then a gap of 4 bytes",
        fields=(
            codes(
                "M K -> M K", boxed(6, codes=16, size=16),
                byte="m * K + k // 16 * 16 + 6 * (k % 16) // 8", bit="6 * k % 8",
            ),
        ),
        source="cuda.h CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B; PTX .b6x16_p32",
        evidence=Evidence.READ,
        users=("TMA into shared memory",),
        notes=("what the gap holds is not specified",),
    ),
    Layout(
        name="fp6-24in32",
        summary="32 codes in 24 bytes as fp6-le, then 8 zero bytes",
        fields=(
            codes(
                "M K -> M K", boxed(6, codes=32, size=32),
                byte="m * K + k // 32 * 32 + 6 * (k % 32) // 8", bit="6 * k % 8",
            ),
        ),
        gap=0,
        source="Quark flydsl GEMM, A operand",
        evidence=Evidence.READ,
        users=("Quark flydsl GEMM",),
    ),
    Layout(
        name="fp6-interleave-16",
        aliases=("aiter-fmha-fp6",),
        summary="blocks of 32 as fp6-le, in the order 0, 16, 1, 17, ... 15, 31",
        fields=(
            codes(
                "M (K h:2 i:16) -> M K i h", SIX_BITS,
                byte="m * (K * 3 // 4) + k // 32 * 24 + 6 * (k % 16 * 2 + k % 32 // 16) // 8",
                bit="6 * (k % 16 * 2 + k % 32 // 16) % 8",
            ),
        ),
        source="aiter mxfp6_fmha_pack, kernel _pack_qk_fp6_kernel (Q and K operands)",
        evidence=Evidence.MEASURED,
        users=("aiter FP6 attention",),
        notes=("private to that kernel; its V operand and its LDS order are further permutations and not listed here",),
    ),
)  # fmt: skip
