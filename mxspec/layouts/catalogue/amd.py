"""AMD's shuffles of scales and weights."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes, scales
from mxspec.layouts.packing import NIBBLES_LOW
from mxspec.layouts.schema import Evidence, Layout, Padding

LAYOUTS = (
    Layout(
        name="cdna4-scale",
        aliases=("e8m0-shuffle", "a16w4-scale"),
        summary="tiles of 32 rows x 8 columns, rows 16 apart and columns 4 apart side by side",
        fields=(
            scales(
                "(N g:2 r:16) (C h:2 c:4) -> N C c r h g",
                byte="m // 32 * (32 * ceil(C, 8)) + c // 8 * 256 + c % 4 * 64 + m % 16 * 4 + c // 4 % 2 * 2 + m // 16 % 2",
            ),
        ),
        pad_to=(256, 8),
        padding=Padding.UNSPECIFIED,
        source="aiter e8m0_shuffle; shuffle_scale_a16w4 without gate and up has the same order in each expert",
        evidence=Evidence.MEASURED,
        users=("aiter", "vLLM on ROCm", "SGLang on ROCm"),
        notes=("aiter pads rows to 256 and columns to 8 with uninitialised memory; a16w4 does not pad",),
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
        notes=("the rows of one expert: gate above up; aiter fills what it pads beforehand with 7F",),
    ),
    Layout(
        name="n32k4",
        aliases=("gfx1250-scale",),
        summary="tiles of 32 rows x 4 columns, row-major inside",
        fields=(
            scales(
                "(N r:32) (C c:4) -> N C r c",
                byte="m // 32 * (32 * C) + c // 4 * 128 + m % 32 * 4 + c % 4",
            ),
        ),
        source="aiter shuffle_scale_n32k4",
        evidence=Evidence.MEASURED,
        users=("aiter on gfx1250",),
    ),
    *(
        Layout(
            name=f"gfx1250-f4gemm-{rows}x32",
            summary=f"tiles of {rows} rows x 32 columns, row-major inside",
            fields=(
                scales(
                    f"(N r:{rows}) (C c:32) -> N C r c",
                    byte=f"m // {rows} * ({rows} * C) + c // 32 * {32 * rows} + m % {rows} * 32 + c % 32",
                ),
            ),
            source=f"aiter shuffle_scale_f4, {fmt}",
            evidence=Evidence.READ,
            users=("aiter on gfx1250",),
        )
        for rows, fmt in ((8, "MXFP4"), (4, "NVFP4"))
    ),
    Layout(
        name="aiter-weight-16x16",
        summary="packed FP4 weights in tiles of 16 rows x 16 bytes, two tiles of columns together",
        fields=(
            codes(
                "(N r:16) (K h:2 b:16 j:2) -> N K h r b j", NIBBLES_LOW,
                byte="m // 16 * (8 * K) + k // 64 * 512 + k % 64 // 32 * 256 + m % 16 * 16 + k % 32 // 2", bit="4 * (k % 2)",
            ),
        ),
        source="aiter shuffle_weight, layout (16, 16)",
        evidence=Evidence.MEASURED,
        users=("aiter", "vLLM on ROCm"),
    ),
)  # fmt: skip
