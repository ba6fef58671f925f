"""Blocks that carry their scale: ggml's and Quark's."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes, scales
from mxspec.layouts.catalogue.fp6 import PLANES, PLANES_BIT, PLANES_BYTE
from mxspec.layouts.packing import NIBBLES_LOW
from mxspec.layouts.schema import Evidence, Layout

#: E8M0 byte -> the exponent as a signed byte; the NaN byte has none.
_SIGNED_EXPONENT = (*((code - 127) % 256 for code in range(255)), -1)

LAYOUTS = (
    Layout(
        name="ggml-mxfp4",
        summary="17 bytes for 32 codes: the E8M0 byte, then byte j holds codes j (low) and j + 16 (high)",
        fields=(
            scales("M B -> M B |", byte="(m * C + c) * 17", covers=32),
            codes(
                "M (B h:2 j:16) -> M B | j h", NIBBLES_LOW,
                byte="(m * (K // 32) + k // 32) * 17 + 1 + k % 16", bit="4 * (k % 32 // 16)",
            ),
        ),
        source="ggml block_mxfp4, type 39",
        evidence=Evidence.MEASURED,
        users=("llama.cpp", "GGUF"),
        notes=("ggml decodes with a doubled table under 2^(e - 128); the stored byte is plain E8M0 all the same",),
    ),
    Layout(
        name="ggml-nvfp4",
        summary="36 bytes for 64 codes: four UE4M3 bytes, then for each 16 codes 8 bytes, j (low) and j + 8 (high)",
        fields=(
            scales("M (B s:4) -> M B | s", byte="(m * (C // 4) + c // 4) * 36 + c % 4", covers=16),
            codes(
                "M (B s:4 h:2 j:8) -> M B | s j h", NIBBLES_LOW,
                byte="(m * (K // 64) + k // 64) * 36 + 4 + 8 * (k % 64 // 16) + k % 8", bit="4 * (k % 16 // 8)",
            ),
        ),
        source="ggml block_nvfp4, type 40",
        evidence=Evidence.MEASURED,
        users=("llama.cpp", "GGUF"),
        notes=("the tensor scale is a tensor of its own (NAME.scale); a converter that drops it is wrong",),
    ),
    Layout(
        name="quark-mxfp4",
        summary="17 bytes for 32 codes: the exponent as a signed byte, then nibbles, low first",
        fields=(
            scales("M B -> M B |", byte="(m * C + c) * 17", covers=32, stored=_SIGNED_EXPONENT),
            codes(
                "M (B j:32) -> M B | j", NIBBLES_LOW,
                byte="(m * (K // 32) + k // 32) * 17 + 1 + k % 32 // 2", bit="4 * (k % 2)",
            ),
        ),
        source="Quark Pack_mxfp4",
        evidence=Evidence.MEASURED,
        users=("Quark",),
        notes=(
            "the first byte is the exponent itself, not E8M0: 2^0 is 00",
            "a scale of 2^-127 is packed as 2^-126: Quark's log2 clamps there",
        ),
    ),
    Layout(
        name="quark-mxfp6",
        summary="25 bytes for 32 codes: the exponent as a signed byte, then fp6-planes",
        fields=(
            scales("M B -> M B |", byte="(m * C + c) * 25", covers=32, stored=_SIGNED_EXPONENT),
            codes(
                "M (B j:32) -> M B | j", PLANES,
                byte="(m * (K // 32) + k // 32) * 25 + 1 + k % 32 // 4 * 3 + " + PLANES_BYTE, bit=PLANES_BIT,
            ),
        ),
        source="Quark Pack_mxfp6",
        evidence=Evidence.MEASURED,
        users=("Quark",),
    ),
)  # fmt: skip
