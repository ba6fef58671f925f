"""32-bit words of checkpoints: GPTQ, AWQ, compressed-tensors."""

from __future__ import annotations

from mxspec.layouts.catalogue.build import codes
from mxspec.layouts.packing import NIBBLES_LOW, dense
from mxspec.layouts.schema import Evidence, Layout, Padding, Part

_MINUS_ONE = tuple((code - 1) % 16 for code in range(16))


def _pack_quantized(bits: int) -> Layout:
    return Layout(
        name=f"ct-int{bits}",
        summary=f"int{bits} plus {1 << (bits - 1)} as unsigned codes, lowest bit first, each row to its last 32-bit word",
        fields=(
            codes(
                "M K -> M K", dense(bits, word_bits=32),
                byte=f"m * (ceil({bits} * K, 32) // 8) + {bits} * k // 8", bit=f"{bits} * k % 8",
            ),
        ),
        padding=Padding.SPECIFIED,
        word=4,
        source="compressed-tensors pack_to_int32 (pack-quantized weight_packed)",
        evidence=Evidence.MEASURED,
        users=("compressed-tensors", "vLLM"),
        notes=("items are the unsigned codes: the value plus half the range",),
    )  # fmt: skip


LAYOUTS = (
    Layout(
        name="gptq",
        aliases=("metal-marlin-values", "metal-marlin-metadata"),
        summary="eight nibbles along K in a 32-bit word, lowest first; words [K/8, N]",
        fields=(codes("N (K i:8) -> K N i", NIBBLES_LOW, byte="(k // 8 * M + m) * 4 + k % 8 // 2", bit="4 * (k % 2)"),),
        source="AutoGPTQ QuantLinear.pack, vLLM gptq_pack; compressed-tensors pack_to_int32 along the first axis (value plus 8); Metal-Marlin's linear 2:4 form (kept codes, and metadata nibbles)",
        evidence=Evidence.MEASURED,
        users=("GPTQ checkpoints", "Metal-Marlin"),
        notes=("rows are output features N, columns are K (kept codes K/2, metadata K/4)",),
    ),
    Layout(
        name="gptq-v1-zeros",
        summary="zero points minus one, eight along N in a 32-bit word",
        fields=(
            codes(
                "G N -> G N", NIBBLES_LOW, byte="m * (K // 2) + k // 2", bit="4 * (k % 2)", part=Part.ZEROS,
                stored=_MINUS_ONE,
            ),
        ),
        source="AutoGPTQ QuantLinear.pack; GPTQModel convert_gptq_v2_to_v1_format_module (checkpoint_format gptq)",
        evidence=Evidence.MEASURED,
        users=("GPTQ checkpoints",),
        notes=(
            "gptq_v2 stores the zero point itself: nibble-low",
            "a zero point of 0 has no agreed form: AutoGPTQ fills the rest of its word with ones, GPTQModel borrows from the next nibble and, reading, carries back",
        ),
    ),
    Layout(
        name="awq",
        summary="eight nibbles along N in a 32-bit word, slots 0..7 hold columns 0 2 4 6 1 3 5 7; words [K, N/8]",
        fields=(
            codes(
                "(N j:4 h:2) K -> K N h j", NIBBLES_LOW,
                byte="k * (M // 2) + m // 8 * 4 + (m % 2 * 4 + m % 8 // 2) // 2", bit="4 * (m % 8 // 2 % 2)",
            ),
        ),
        source="AutoAWQ WQLinear_GEMM, vLLM awq_pack, Quark Pack_4_bits",
        evidence=Evidence.MEASURED,
        users=("AWQ checkpoints", "vLLM", "Quark"),
        notes=("the inverse table 0 4 1 5 2 6 3 7 is in circulation under the same name",),
    ),
    Layout(
        name="awq-zeros",
        summary="zero points [G, N], eight along N in a 32-bit word, slots 0..7 hold columns 0 2 4 6 1 3 5 7",
        fields=(
            codes(
                "G (N j:4 h:2) -> G N h j", NIBBLES_LOW,
                byte="m * (K // 2) + k // 8 * 4 + (k % 2 * 4 + k % 8 // 2) // 2", bit="4 * (k % 8 // 2 % 2)",
                part=Part.ZEROS,
            ),
        ),
        source="AutoAWQ WQLinear_GEMM, vLLM awq_pack",
        evidence=Evidence.MEASURED,
        users=("AWQ checkpoints", "vLLM", "Quark"),
    ),
    *(_pack_quantized(bits) for bits in range(1, 9)),
)  # fmt: skip
