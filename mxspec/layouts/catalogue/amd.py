"""AMD's shuffles of scales and weights."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes, scales
from mxspec.layouts.packing import NIBBLES_LOW
from mxspec.layouts.schema import Evidence, Layout, Padding

_CDNA4 = "(N g:2 r:16) (C h:2 c:4) -> N C c r h g"
_CDNA4_BYTE = "m // 32 * (32 * ceil(C, 8)) + c // 8 * 256 + c % 4 * 64 + m % 16 * 4 + c // 4 % 2 * 2 + m // 16 % 2"

LAYOUTS = (
    Layout(
        name="cdna4-scale",
        aliases=("e8m0-shuffle",),
        summary="tiles of 32 rows x 8 columns, rows 16 apart and columns 4 apart side by side; rows padded to 256",
        fields=(scales(_CDNA4, byte=_CDNA4_BYTE),),
        pad_to=(256, 8),
        padding=Padding.UNSPECIFIED,
        source="aiter shuffle_scale (e8m0_shuffle)",
        evidence=Evidence.MEASURED,
        users=("aiter", "vLLM on ROCm", "SGLang on ROCm"),
        notes=("aiter leaves the memory of padding rows and columns uninitialised",),
    ),
    Layout(
        name="cdna4-scale-32",
        aliases=("triton-cdna4",),
        summary="cdna4-scale whose rows are padded to 32 only; padding is zero bytes",
        fields=(scales(_CDNA4, byte=_CDNA4_BYTE),),
        padding=Padding.SPECIFIED,
        source="triton_kernels cdna4_scale: [rows / 32, 32 columns]",
        evidence=Evidence.MEASURED,
        users=("triton_kernels on CDNA4",),
    ),
    Layout(
        name="a16w4-scale",
        summary="cdna4-scale of one expert: rows in whole tiles of 32, columns padded to 8 with bytes 7F",
        fields=(scales(_CDNA4, byte=_CDNA4_BYTE),),
        padding=Padding.SPECIFIED,
        fill=0x7F,
        source="aiter shuffle_scale with is_guinterleave (shuffle_scale_a16w4), without gate and up",
        evidence=Evidence.MEASURED,
        users=("aiter",),
        notes=("aiter refuses rows that are no multiple of 32; experts lie one after the other",),
    ),
    Layout(
        name="a16w4-scale-gate-up",
        summary="cdna4-scale that pairs row n of gate with row n of up instead of rows 16 apart",
        fields=(
            scales(
                "(g:2 N r:16) (C h:2 c:4) -> N C c r h g",
                byte=(
                    "m % (M // 2) // 16 * (32 * C) + c // 8 * 256 + c % 4 * 64 + m % 16 * 4 + c // 4 % 2 * 2 + m // (M // 2)"
                ),
            ),
        ),
        source="aiter shuffle_scale_a16w4, gate_up",
        evidence=Evidence.MEASURED,
        users=("aiter",),
        notes=("the rows of one expert: gate above up; aiter pads columns to 8 with bytes 7F beforehand",),
    ),
    Layout(
        name="n32k4",
        aliases=("gfx1250-scale", "gfx1250-f4gemm-mxfp4"),
        summary="tiles of 32 rows x 4 columns, row-major inside",
        fields=(
            scales(
                "(N r:32) (C c:4) -> N C r c",
                byte="m // 32 * (32 * C) + c // 4 * 128 + m % 32 * 4 + c % 4",
            ),
        ),
        source="aiter shuffle_scale_n32k4, shuffle_mxfp8fp4_scale, and shuffle_scale_f4 for MXFP4",
        evidence=Evidence.MEASURED,
        users=("aiter on gfx1250",),
    ),
    Layout(
        name="n32k8",
        aliases=("gfx1250-f4gemm-nvfp4",),
        summary="tiles of 32 rows x 8 columns, row-major inside",
        fields=(
            scales(
                "(N r:32) (C c:8) -> N C r c",
                byte="m // 32 * (32 * C) + c // 8 * 256 + m % 32 * 8 + c % 8",
            ),
        ),
        source="aiter shuffle_scale_f4 for NVFP4",
        evidence=Evidence.MEASURED,
        users=("aiter on gfx1250",),
    ),
    Layout(
        name="aiter-weight-16x16",
        aliases=("gfx1250-weight", "a16w4-weight"),
        summary="packed FP4 weights in tiles of 16 rows x 16 bytes",
        fields=(
            codes(
                "(N r:16) (K b:16 j:2) -> N K r b j", NIBBLES_LOW,
                byte="m // 16 * (8 * K) + k // 32 * 256 + m % 16 * 16 + k % 32 // 2", bit="4 * (k % 2)",
            ),
        ),
        source="aiter shuffle_weight with layout (16, 16), shuffle_weight_gfx1250, shuffle_weight_f4, shuffle_mxfp8fp4_b",
        evidence=Evidence.MEASURED,
        users=("aiter", "vLLM on ROCm"),
        notes=("shuffle_weight wants K to be a multiple of 64",),
    ),
    Layout(
        name="a16w4-weight-gate-up",
        summary="aiter-weight-16x16 whose tiles of gate and up rows take turns",
        fields=(
            codes(
                "(g:2 N r:16) (K b:16 j:2) -> N g K r b j", NIBBLES_LOW,
                byte=(
                    "m % (M // 2) // 16 * (16 * K) + m // (M // 2) * (8 * K) + k // 32 * 256 + m % 16 * 16 + k % 32 // 2"
                ),
                bit="4 * (k % 2)",
            ),
        ),
        source="aiter shuffle_weight_a16w4, gate_up",
        evidence=Evidence.MEASURED,
        users=("aiter",),
        notes=("the rows of one expert: gate above up; aiter wants K to be a multiple of 128",),
    ),
)  # fmt: skip
