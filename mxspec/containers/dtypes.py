"""Types of stored tensors: safetensors' dtype names and ggml's type numbers.

Sources: safetensors 0.8 (names, bits, and the order in which its writer sorts), gguf 0.19 constants (block and byte sizes); types newer than
that package: ggml/include/ggml.h and ggml-common.h of llama.cpp, ggml-org/llama.cpp#24448 (Q2_0: a float16 scale and 64 codes of 2 bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Bits of one item, in the order of safetensors' own list, by which its writer sorts (last first).
SAFETENSORS_BITS: Final[dict[str, int]] = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
SAFETENSORS_ORDER: Final[dict[str, int]] = {name: rank for rank, name in enumerate(SAFETENSORS_BITS)}


@dataclass(frozen=True, slots=True)
class GgmlType:
    """One of ggml's tensor types: `items` along the fastest axis take `size` bytes."""

    number: int
    name: str
    items: int
    size: int


GGML_TYPES: Final[dict[int, GgmlType]] = {
    t.number: t
    for t in (
        GgmlType(0, "F32", 1, 4), GgmlType(1, "F16", 1, 2), GgmlType(2, "Q4_0", 32, 18), GgmlType(3, "Q4_1", 32, 20),
        GgmlType(6, "Q5_0", 32, 22), GgmlType(7, "Q5_1", 32, 24), GgmlType(8, "Q8_0", 32, 34),
        GgmlType(9, "Q8_1", 32, 40), GgmlType(10, "Q2_K", 256, 84), GgmlType(11, "Q3_K", 256, 110),
        GgmlType(12, "Q4_K", 256, 144), GgmlType(13, "Q5_K", 256, 176), GgmlType(14, "Q6_K", 256, 210),
        GgmlType(15, "Q8_K", 256, 292), GgmlType(16, "IQ2_XXS", 256, 66), GgmlType(17, "IQ2_XS", 256, 74),
        GgmlType(18, "IQ3_XXS", 256, 98), GgmlType(19, "IQ1_S", 256, 50), GgmlType(20, "IQ4_NL", 32, 18),
        GgmlType(21, "IQ3_S", 256, 110), GgmlType(22, "IQ2_S", 256, 82), GgmlType(23, "IQ4_XS", 256, 136),
        GgmlType(24, "I8", 1, 1), GgmlType(25, "I16", 1, 2), GgmlType(26, "I32", 1, 4), GgmlType(27, "I64", 1, 8),
        GgmlType(28, "F64", 1, 8), GgmlType(29, "IQ1_M", 256, 56), GgmlType(30, "BF16", 1, 2),
        GgmlType(34, "TQ1_0", 256, 54), GgmlType(35, "TQ2_0", 256, 66), GgmlType(39, "MXFP4", 32, 17),
        GgmlType(40, "NVFP4", 64, 36), GgmlType(41, "Q1_0", 128, 18),
        GgmlType(42, "Q2_0", 64, 18),
    )
}  # fmt: skip
GGML_NUMBERS: Final[dict[str, int]] = {t.name: t.number for t in GGML_TYPES.values()}
#: Types that both containers have, under one name.
SHARED: Final = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8")
