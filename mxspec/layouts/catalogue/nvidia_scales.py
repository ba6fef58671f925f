"""Scale tiles of NVIDIA's block-scaled matrix products."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes, scales
from mxspec.layouts.packing import BYTES
from mxspec.layouts.schema import Evidence, Layout, Padding, Part

_TILE = "(M i:4 r:32) (C c:4) -> M C r i c"
_PLACE = "m % 32 * 16 + m % 128 // 32 * 4 + c % 4"

LAYOUTS = (
    Layout(
        name="row-major",
        aliases=("linear",),
        summary="scales row-major, one byte each",
        fields=(scales("M C -> M C", byte="m * C + c"),),
        source="every checkpoint format",
        evidence=Evidence.MEASURED,
        users=("checkpoints", "gpt-oss", "compressed-tensors", "ModelOpt", "MLX"),
    ),
    Layout(
        name="row-major-padded",
        summary="scales row-major in a matrix rounded up to 128 x 4",
        fields=(scales("M C -> M C", byte="m * ceil(C, 4) + c"),),
        pad_to=(128, 4),
        padding=Padding.UNSPECIFIED,
        source="Transformer Engine MXFP8 row-wise scales before the swizzle",
        evidence=Evidence.READ,
        users=("Transformer Engine",),
    ),
    Layout(
        name="mn-major-4",
        aliases=("deepgemm-packed-ue8m0",),
        summary="four scales of a row in an int32, the first lowest; words column by column, rows padded to 4",
        fields=(scales("M (C c:4) -> C M c", byte="c // 4 * (4 * ceil(M, 4)) + 4 * m + c % 4"),),
        pad_to=(4, 4),
        padding=Padding.UNSPECIFIED,
        source="DeepGEMM get_mn_major_tma_aligned_packed_ue8m0_tensor (its test's torch form, at 54e22612)",
        evidence=Evidence.READ,
        users=("DeepGEMM on SM100", "SGLang", "vLLM"),
        notes=("an int32 view [rows, columns / 4] of it has the strides 1 and rows up to 4", "float32 scales on SM90: the same with one scale in a word"),
    ),
    Layout(
        name="128x4",
        aliases=("cublas", "tcgen05", "blocked", "vllm-int32-view"),
        summary="tiles of 128 rows x 4 columns: 512 bytes, row r at 16 (r % 32) + 4 (r / 32)",
        fields=(scales(_TILE, byte=f"(m // 128 * (ceil(C, 4) // 4) + c // 4) * 512 + {_PLACE}"),),
        padding=Padding.UNSPECIFIED,
        source="cuBLAS D-block scaling factors layout; cuDNN; CUTLASS sm100_blockscaled_layout",
        evidence=Evidence.MEASURED,
        users=("cuBLAS", "cuDNN", "CUTLASS", "Transformer Engine", "vLLM", "FlashInfer", "TensorRT-LLM", "torchao", "LightX2V", "nvmath"),
        notes=(
            "rows are padded to 128 and columns to 4; torchao and FlashInfer write zeros there, LightX2V's mxfp8 nothing: "
            "only valid scales are compared",
            "vLLM and LightX2V show the same bytes as int32 [rows up to 128, columns up to 4 / 4]: row r of that view is "
            "not row r of the scales",
            "E8M0 byte 00 means 2^-127, not zero",
        ),
    ),
    Layout(
        name="128x4-zeroed",
        aliases=("triton-gfx1250",),
        summary="128x4 whose padding is zero bytes",
        fields=(scales(_TILE, byte=f"(m // 128 * (ceil(C, 4) // 4) + c // 4) * 512 + {_PLACE}"),),
        padding=Padding.SPECIFIED,
        source="torchao to_blocked, FlashInfer, triton_kernels gfx1250_scale; LightX2V nvfp4, mxfp4 and mxfp6",
        evidence=Evidence.MEASURED,
        users=("torchao", "FlashInfer", "triton_kernels", "LightX2V"),
        notes=(
            "the map of 128x4, for those whose consumers read the padding",
            "triton_kernels for gfx1250 pads one to three columns to no more than they are: that is another layout",
        ),
    ),
    Layout(
        name="128x8",
        aliases=("triton-blackwell",),
        summary="128x4 with the columns padded to 8",
        fields=(scales(_TILE, byte=f"(m // 128 * (ceil(C, 8) // 4) + c // 4) * 512 + {_PLACE}"),),
        pad_to=(128, 8),
        padding=Padding.SPECIFIED,
        source="triton_kernels blackwell_scale: [1, rows / 128, columns / 4, 2, 256]",
        evidence=Evidence.MEASURED,
        users=("triton_kernels on Blackwell", "vLLM"),
        notes=("in ragged mode each expert is padded to 128 rows by itself: pack_groups",),
    ),
    Layout(
        name="8x4",
        summary="tiles of 8 rows x 4 columns: 32 bytes, row-major inside",
        fields=(
            scales("(M r:8) (C c:4) -> M C r c", byte="(m // 8 * (ceil(C, 4) // 4) + c // 4) * 32 + m % 8 * 4 + c % 4"),
        ),
        padding=Padding.UNSPECIFIED,
        source="FlashInfer compute_sf_index_swizzled_8x4_gpu; TensorRT-LLM get_sf_out_offset_8x4",
        evidence=Evidence.MEASURED,
        users=("FlashInfer", "TensorRT-LLM (small M)"),
    ),
    Layout(
        name="row-shuffle-32",
        summary="blocks of 32 rows in the order 0, 4, 8, ... 28, 1, 5, ...",
        fields=(
            codes(
                "(M j:8 i:4) K -> M i j K", BYTES, part=Part.BYTES,
                byte="(m // 32 * 32 + m % 4 * 8 + m % 32 // 4) * K + k",
            ),
        ),
        source="FlashInfer shuffle_matrix_a, epilogue_tile_m a multiple of 128",
        evidence=Evidence.MEASURED,
        users=("FlashInfer", "TensorRT-LLM"),
        notes=("moves rows of bytes, of weights and of row-major scales alike",),
    ),
    Layout(
        name="row-shuffle-16",
        summary="blocks of 16 rows in the order 0, 2, 4, ... 14, 1, 3, ...",
        fields=(
            codes(
                "(M j:8 i:2) K -> M i j K", BYTES, part=Part.BYTES,
                byte="(m // 16 * 16 + m % 2 * 8 + m % 16 // 2) * K + k",
            ),
        ),
        source="FlashInfer shuffle_matrix_a, other epilogue tiles",
        evidence=Evidence.MEASURED,
        users=("FlashInfer", "TensorRT-LLM"),
    ),
)  # fmt: skip
