"""Weights for Ampere and Hopper: triton_kernels' swizzles, Marlin's tiles."""

from __future__ import annotations

import numpy as np

from mxspec.elements import decode_table
from mxspec.formats import UE4M3
from mxspec.layouts.catalogue.build import codes, scales
from mxspec.layouts.packing import NIBBLES_LOW, Packing
from mxspec.layouts.schema import Evidence, Layout, Padding

#: Eight codes in a 32-bit word so that two masks and shifts yield bfloat16 pairs: byte i of four, nibble h.
_TWIDDLED = Packing(
    "eight codes, bits interleaved", 4, 8, 4,
    tuple(
        16 * h + (((13, 10, 11, 14) if i == 3 else (6 - 3 * i, 7 - 3 * i, 8 - 3 * i, 15 - 3 * i))[b])
        for i in range(4)
        for h in range(2)
        for b in range(4)
    ),
)  # fmt: skip


def _twiddled_bit(byte: str) -> str:
    first_three = f"(6 - 3 * ({byte}) + b + 6 * (b // 3))"
    fourth = "(9 + b + 4 * (1 - (b + 3) // 4) + 2 * (b // 3))"
    return f"(1 - ({byte}) // 3) * {first_three} + ({byte}) // 3 * {fourth} + 16 * (k % 2)"


def _store_s0e5m3() -> tuple[int, ...]:
    """UE4M3 code -> the upper byte of twice the float16 bits of 2^7 times its value."""
    half = (decode_table(UE4M3)[:127] * np.float32(128)).astype(np.float16)
    return (*(int(bits) for bits in (half.view(np.uint16) << 1) >> 8), -1)


def _hopper_scale(warps: int) -> Layout:
    return Layout(
        name=f"hopper-scale-{warps}",
        summary=f"MX scales for {warps} warps: [rows / 32, 32 columns]",
        fields=(
            scales(
                f"(M a:2 w:{warps} b:2 r:8) (C c:2) -> M w C a r c b",
                byte=(
                    f"(m // {32 * warps} * {warps} + m % {16 * warps} // 16) * (32 * ceil(C, 2))"
                    f" + c // 2 * 64 + m % {32 * warps} // {16 * warps} * 32 + m % 8 * 4 + c % 2 * 2 + m % 16 // 8"
                ),
            ),
        ),
        padding=Padding.SPECIFIED,
        source="triton_kernels hopper_scale",
        evidence=Evidence.MEASURED,
        users=("triton_kernels on Hopper", "vLLM"),
    )  # fmt: skip


#: Suffix of the name -> rows and columns that values are padded to, by the age of triton_kernels.
_VALUE_PADS = {"": (256, 128), "-64": (64, 128), "-16": (16, 64)}
_VALUE_SOURCES = {
    "": "triton_kernels hopper_value, later in 2026: rows to 256, columns to 128",
    "-64": "triton_kernels hopper_value, January to May 2026: rows to 64, columns to 128",
    "-16": "triton_kernels hopper_value of 2025, as vLLM 0.33 carries it: bare tiles",
}
_VALUE_USERS = {"": ("triton_kernels",), "-64": ("triton_kernels",), "-16": ("vLLM", "gpt-oss")}


def _hopper_value(mma: str, pad: str) -> Layout:
    columns = _VALUE_PADS[pad][1]
    if mma == "wgmma":
        pattern = "(M a:2 b:4 c:2) (K t:4 d:2 e:4 j:2) -> M b K c e t d a j"
        place = "((k // 64 * 2 + m % 2) * 4 + k % 8 // 2) * 16 + k % 64 // 16 * 4"
        byte = "k % 16 // 8 * 2 + m % 16 // 8"
    else:
        pattern = "(M a:2 b:4 c:2) (K d:2 e:4 w:4 j:2) -> M b K c e d a w j"
        place = "((k // 64 * 2 + m % 2) * 4 + k % 32 // 8) * 16 + k % 64 // 32 * 8 + m % 16 // 8 * 4"
        byte = "k % 8 // 2"
    return Layout(
        name=f"hopper-value-{mma}{pad}",
        summary=f"FP4 weights for {'wgmma (version 3)' if mma == 'wgmma' else 'mma version 2'}: [rows / 4, 4 K], bits of eight codes interleaved",
        fields=(
            codes(
                pattern, _TWIDDLED,
                byte=f"(m // 16 * 4 + m % 8 // 2) * (2 * ceil(K, {columns})) + {place}", bit=_twiddled_bit(byte),
            ),
        ),
        pad_to=_VALUE_PADS[pad],
        padding=Padding.SPECIFIED,
        source=_VALUE_SOURCES[pad],
        evidence=Evidence.MEASURED if pad else Evidence.TRANSCRIBED,
        users=_VALUE_USERS[pad],
        notes=("the same tiles at every age, only the padding differs; gpt-oss stores the matrix transposed, same bytes",),
    )  # fmt: skip


LAYOUTS = (
    _hopper_scale(4),
    _hopper_scale(8),
    *(_hopper_value(mma, pad) for mma in ("wgmma", "mma") for pad in _VALUE_PADS),
    Layout(
        name="marlin",
        summary="4-bit weights in 16 x 64 tiles: [K/16, 2 N] 32-bit words",
        fields=(
            codes(
                "(N j:4 b:2 c:8) (K u:2 q:4 t:2) -> K N c q j t b u", NIBBLES_LOW,
                byte=(
                    "(((k // 16 * (M // 64) + m // 64) * 8 + m % 8) * 4 + k % 8 // 2) * 16"
                    " + m % 64 // 16 * 4 + k % 2 * 2 + m % 16 // 8"
                ),
                bit="4 * (k % 16 // 8)",
            ),
        ),
        source="vLLM marlin_utils_test get_weight_perm and marlin_weights; the same tiles for INT4 and FP4",
        evidence=Evidence.MEASURED,
        users=("vLLM", "SGLang", "transformers"),
        notes=("rows are output features N, columns are K",),
    ),
    Layout(
        name="marlin-scales",
        summary="block scales [K/g, N], each 64 columns transposed as 8 x 8",
        fields=(scales("(N j:8 i:8) C -> C N i j", byte="c * M + m // 64 * 64 + m % 8 * 8 + m % 64 // 8"),),
        source="vLLM marlin_permute_scales",
        evidence=Evidence.MEASURED,
        users=("vLLM", "SGLang"),
    ),
    Layout(
        name="marlin-scales-mxfp4",
        summary="marlin-scales with each four in the order 0 2 1 3",
        fields=(
            scales(
                "(N h:2 a:2 b:2 i:8) C -> C N i h b a",
                byte="c * M + m // 64 * 64 + m % 8 * 8 + m % 64 // 32 * 4 + m % 16 // 8 * 2 + m % 32 // 16",
            ),
        ),
        source="vLLM marlin_permute_scales and mxfp4_marlin_process_scales",
        evidence=Evidence.MEASURED,
        users=("vLLM", "SGLang"),
        notes=("with 8-bit activations vLLM adds 6 to each byte and needs bytes of at most 249",),
    ),
    Layout(
        name="marlin-scales-nvfp4",
        summary="marlin-scales-mxfp4 of S0E5M3 bytes: the scale times 2^7 as float16, shifted left, upper byte",
        fields=(
            scales(
                "(N h:2 a:2 b:2 i:8) C -> C N i h b a",
                byte="c * M + m // 64 * 64 + m % 8 * 8 + m % 64 // 32 * 4 + m % 16 // 8 * 2 + m % 32 // 16",
                stored=_store_s0e5m3(),
            ),
        ),
        source="vLLM marlin_permute_scales and nvfp4_marlin_process_scales",
        evidence=Evidence.MEASURED,
        users=("vLLM", "SGLang"),
        notes=(
            "negative scales cannot be stored; the tensor scale is multiplied by 2^(exponent bias - 7) in turn",
            "vLLM 0.33 first multiplies the scales by a power of two, then writes 00 for what is still below 2^-6; with float16 activations the power is 1, so that codes 1 to 7 are lost",
        ),
    ),
)  # fmt: skip
