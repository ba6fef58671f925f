"""Metadata of 2:4 (and pair-wise 4:8) structured sparsity: one nibble for each group, (second position << 2) | first."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes
from mxspec.layouts.packing import NIBBLES_LOW
from mxspec.layouts.schema import Evidence, Layout, Padding, Part

LAYOUTS = (
    Layout(
        name="torch-metadata-16",
        summary="metadata of 16-bit elements: int16 words of four nibbles, rows and 2 x 2 words interleaved",
        fields=(
            codes(
                "(M a:2 d:2 b:8) (C c:2 n:4) -> C M b a c d n", NIBBLES_LOW, part=Part.METADATA,
                byte=(
                    "2 * (k // 8 * M * 2 + (m // 32 * 32 + m % 8 * 4 + m % 32 // 16 * 2 + k // 4 % 2) * 2 + m // 8 % 2)"
                    " + k % 4 // 2"
                ),
                bit="4 * (k % 2)",
            ),
        ),
        source="torch.sparse._semi_structured_conversions, CUTLASS 2 metadata",
        evidence=Evidence.MEASURED,
        users=("torch", "CUTLASS 2"),
        notes=("torch lets an odd number of words in a row through its check, then indexes out of bounds",),
    ),
    Layout(
        name="torch-metadata-32",
        summary="metadata of 8-bit elements: int32 words of eight nibbles, rows and 2 x 2 words interleaved",
        fields=(
            codes(
                "(M d:2 b:8) (C c:2 n:8) -> C M b c d n", NIBBLES_LOW, part=Part.METADATA,
                byte=(
                    "4 * (k // 16 * M * 2 + (m // 16 * 16 + m % 8 * 2 + k // 8 % 2) * 2 + m // 8 % 2) + k % 8 // 2"
                ),
                bit="4 * (k % 2)",
            ),
        ),
        source="torch.sparse._semi_structured_conversions, CUTLASS 2 metadata",
        evidence=Evidence.MEASURED,
        users=("torch", "CUTLASS 2"),
        notes=("torch lets an odd number of words in a row through its check, then indexes out of bounds",),
    ),
    Layout(
        name="cutlass3-e-narrow",
        aliases=("cutlass3-e-f4", "cutlass3-e-f8"),
        summary="E tensor of 4-, 6- and 8-bit elements: tiles of 128 rows x 32 nibbles, column tiles outermost",
        fields=(
            codes(
                "(M r:128) (C c:32) -> C M r c", NIBBLES_LOW, part=Part.METADATA,
                byte="k // 32 * (ceil(M, 128) * 16) + m // 128 * 2048 + m % 128 * 16 + k % 32 // 2", bit="4 * (k % 2)",
            ),
        ),
        padding=Padding.UNSPECIFIED,
        source="CUTLASS Sm1xxGemmSparseConfig::fill_layoutE; a nibble covers 4 codes (f8, f6, padded f4) or 8 (packed f4)",
        evidence=Evidence.MEASURED,
        users=("CUTLASS 3 on Blackwell",),
        notes=("CUTLASS clears padding rows to nibble 0, which PTX calls undefined",),
    ),
    Layout(
        name="cutlass3-e-16",
        aliases=("cutlass3-e-32",),
        summary="E tensor of 16- and 32-bit elements: tiles of 128 rows x 32 nibbles, interleaved",
        fields=(
            codes(
                "(M z:8 y:2 x:8) (C h:4 g:2 c:4) -> C M z g x h y c", NIBBLES_LOW, part=Part.METADATA,
                byte=(
                    "k // 32 * (ceil(M, 128) * 16) + m // 128 * 2048 + m % 128 // 16 * 256 + k // 4 % 2 * 128 + m % 8 * 16"
                    " + k % 32 // 8 * 4 + m // 8 % 2 * 2 + k % 4 // 2"
                ),
                bit="4 * (k % 2)",
            ),
        ),
        padding=Padding.UNSPECIFIED,
        source="CUTLASS Sm1xxGemmSparseConfig::fill_layoutE, f16 atom ((8,2,8),(16,2,4)):((128,16,2048),(1,1024,32)) elements / 8",
        evidence=Evidence.MEASURED,
        users=("CUTLASS 3 on Blackwell",),
    ),
)  # fmt: skip
