"""Four bits: two codes in a byte, and plain bytes. See reports/layouts.md for the sources' addresses."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes
from mxspec.layouts.packing import BYTES, NIBBLES_HIGH, NIBBLES_LOW, boxed
from mxspec.layouts.schema import Evidence, Layout, Padding

LAYOUTS = (
    Layout(
        name="bytes",
        aliases=("unpacked", "fp8-bytes", "fp6-in-bytes", "mlx-mxfp8-words"),
        summary="one code in the low bits of each byte, row-major",
        fields=(codes("M K -> M K", BYTES, byte="m * K + k"),),
        source="plain arrays; aiter batched GEMM for FP6; CUTLASS kind::f8f6f4 registers (6-bit codes in bits 5..0)",
        evidence=Evidence.MEASURED,
        users=("everything with FP8 or INT8", "aiter FP6", "CUTLASS FP6 registers"),
    ),
    Layout(
        name="nibble-low",
        aliases=("fp4-x2", "mlx-u32", "gpt-oss-blocks", "ct-fp4", "tiny-llm-int4", "gptq-v2-zeros"),
        summary="two codes in a byte, the first in the low nibble, row-major",
        fields=(codes("M K -> M K", NIBBLES_LOW, byte="m * (K // 2) + k // 2", bit="4 * (k % 2)"),),
        source="torchao pack_uint4, compressed-tensors pack_fp4_to_uint8, gpt-oss blocks, MLX words (code i at bit 4 i)",
        evidence=Evidence.MEASURED,
        users=("torchao", "compressed-tensors", "ModelOpt", "gpt-oss", "MLX", "Quark", "aiter", "vLLM", "FlashInfer"),
        notes=("torch float4_e2m1fn_x2: shape[-1] counts bytes; safetensors F4: shape counts codes",),
    ),
    Layout(
        name="nibble-low-flat",
        aliases=("onnx-float4e2m1",),
        summary="the matrix as one row of nibbles, low first; an odd last one leaves a zero nibble",
        fields=(codes("M K -> M K", NIBBLES_LOW, byte="(m * K + k) // 2", bit="4 * ((m * K + k) % 2)"),),
        padding=Padding.SPECIFIED,
        flat=True,
        source="ONNX TensorProto raw_data for FLOAT4E2M1, UINT4 and INT4",
        evidence=Evidence.MEASURED,
        users=("ONNX",),
    ),
    Layout(
        name="nibble-high",
        summary="two codes in a byte, the first in the high nibble, row-major",
        fields=(codes("M K -> M K", NIBBLES_HIGH, byte="m * (K // 2) + k // 2", bit="4 - 4 * (k % 2)"),),
        source="bitsandbytes fp4 and nf4 (whose fp4 table is not E2M1); Quark _pack; XLA PackIntN in older versions",
        evidence=Evidence.MEASURED,
        users=("bitsandbytes", "XLA (older)"),
    ),
    Layout(
        name="nibble-split-32",
        summary="blocks of 32: byte j holds codes j (low) and j + 16 (high)",
        fields=(codes("M (K h:2 j:16) -> M K j h", NIBBLES_LOW, byte="m * (K // 2) + k // 32 * 16 + k % 16", bit="4 * (k % 32 // 16)"),),
        source="ggml block_mxfp4.qs, without the scale",
        evidence=Evidence.MEASURED,
        users=("ggml (inside its blocks)",),
    ),
    Layout(
        name="nibble-split-16",
        summary="blocks of 16: byte j holds codes j (low) and j + 8 (high)",
        fields=(codes("M (K h:2 j:8) -> M K j h", NIBBLES_LOW, byte="m * (K // 2) + k // 16 * 8 + k % 8", bit="4 * (k % 16 // 8)"),),
        source="ggml block_nvfp4.qs, without the scales",
        evidence=Evidence.MEASURED,
        users=("ggml (inside its blocks)",),
    ),
    Layout(
        name="nibble-split-8",
        aliases=("aiter-int4",),
        summary="groups of 8: byte j holds codes j (low) and j + 4 (high)",
        fields=(codes("M (K h:2 j:4) -> M K j h", NIBBLES_LOW, byte="m * (K // 2) + k // 8 * 4 + k % 4", bit="4 * (k % 8 // 4)"),),
        source="aiter pack_int8_to_packed_int4",
        evidence=Evidence.MEASURED,
        users=("aiter int4",),
    ),
    Layout(
        name="nibble-halves",
        summary="byte j of a row holds codes j (low) and j + K/2 (high)",
        fields=(codes("M (h:2 K) -> M K h", NIBBLES_LOW, byte="m * (K // 2) + k % (K // 2)", bit="4 * (k // (K // 2))"),),
        source="triton_kernels torch_utils.pack in its first form (torch.chunk), January 2026",
        evidence=Evidence.MEASURED,
        users=("triton_kernels, for some days",),
        notes=("the form that came back after its revert, and stayed, is nibble-low",),
    ),
    Layout(
        name="fp4-align16",
        aliases=("b4x16_p64", "16U4_ALIGN16B"),
        summary="16 codes in 8 bytes, low nibble first, then a gap of 8 bytes",
        fields=(codes("M K -> M K", boxed(4, codes=16, size=16), byte="m * K + k // 16 * 16 + k % 16 // 2", bit="4 * (k % 2)"),),
        source="cuda.h CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B; PTX .b4x16_p64",
        evidence=Evidence.READ,
        users=("TMA into shared memory",),
        notes=("what the gap holds is not specified",),
    ),
    Layout(
        name="fp4-in-bytes-shifted",
        aliases=("e2m1-f8f6f4-register",),
        summary="one 4-bit code in bits 5..2 of each byte",
        fields=(codes("M K -> M K", boxed(4, codes=1, size=1, shift=2), byte="m * K + k", bit="2"),),
        source="CUTLASS mma_traits_sm120 fp4_shift_A: e2m1 operands of kind::f8f6f4 are shifted left by two",
        evidence=Evidence.MEASURED,
        users=("mma kind::f8f6f4 registers",),
    ),
)
