"""Threads about operations: where codes and scales lie, products, stochastic rounding, calls and what earlier ones leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_conformance.mutants import call_mutants as calls, layout_mutants as layouts, reference
from mxspec_conformance.mutants.reference import Array, Context, Reference
from mxspec_lab.products.kernels import AnyKernel, Bytes, Kernel, KernelTarget
from mxspec_lab.products.kinds import KindKernel
from mxspec_lab.products.kinds_right import zero_steps
from mxspec_lab.products.wrong import list_wrong
from mxspec_lab.threads.schema import Family, Level, Maker, Source, Thread

_L, _P, _A, _K, _C = Family.LAYOUTS, Family.PRODUCTS, Family.AFFINE, Family.STOCHASTIC, Family.CALLS
QUICK, NOTE = Level.QUICK, Source.NOTE
FLOOR = "mx-floor"
_ZEROS = "int4-g32-zero-float16"
_mx, _fp8, _nvfp4 = (Kernel(name="fixed", product=(f, f)) for f in ("mxfp4", "mxfp8_e4m3", "nvfp4"))
_gptq, _zeros = (
    KindKernel(name="fixed", **zero_steps(product=("float16", f))) for f in (f"{_ZEROS}/gptq+gptq-v2-zeros+transposed", _ZEROS)
)
_fourteen_bits = next(k for k in list_wrong() if k.name == "13 bits below the largest exponent, not declared")


class Packing:
    """NVFP4 with two codes to a byte."""

    NAME, VERSION, FORMATS, TENSOR_SCALE, LAYOUT = "packing", "1", ("nvfp4",), "amax", "nibble-low"
    PROFILE = ("nvfp4-te",)

    def __init__(self, pack: Callable[[Array], Array]) -> None:
        self._pack, self._plain = pack, Reference("nvfp4-te")

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Packed codes, and scales."""
        codes, scales = self._plain.quantize(x, fmt, tensor_scale=tensor_scale)
        return self._pack(codes).reshape(*codes.shape[:-1], codes.shape[-1] // 2), scales


def kernel(one: AnyKernel) -> Maker:
    """A product."""
    return lambda: KernelTarget(one)


def lanes_of_two_blocks(codes: Bytes, run: int) -> Bytes:
    """Lanes 4 to 7 of each sixteen change places with those of the next sixteen, on both sides: what is summed stays, its scale does not."""
    if codes.shape[1] % (2 * run):
        return codes
    pairs = codes.reshape(len(codes), -1, 2, run).copy()
    pairs[:, :, :, 4:8] = pairs[:, :, ::-1, 4:8]
    return pairs.reshape(codes.shape)


def carry_dropped(c: Context, magnitude: Array, words: Array) -> Array:
    """What would carry into the exponent starts its binade again."""
    rounded = reference.round_stochastic(c, magnitude, words)
    start = np.ldexp(1.0, reference.exponent_of(magnitude))
    return np.where((rounded >= 2 * start) & (magnitude >= 2.0**-6), start, rounded)


def noise_in_bfloat16(c: Context, magnitude: Array, words: Array) -> Array:
    """floor(x + r) with r in bfloat16, which rounds up to 1."""
    step = reference.spacing(c.element, magnitude)
    noise = (words * 2.0**-32).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    return np.floor(magnitude / step + noise) * step


def no_scales_in_large_calls(x: Array, codes: Array, scales: Array, k: int) -> None:
    """In calls of more than 64 blocks scales are not written."""
    if len(scales) > 64:
        scales[...] = 0


def neighbours_of_nan(x: Array, codes: Array, scales: Array, k: int) -> None:
    """Four blocks reduce together: a NaN in one is one of all."""
    lost = np.isnan(x.astype(np.float32)).any(axis=1)
    groups = np.arange(len(lost)) // 4
    marked = np.isin(groups, groups[lost])
    codes[marked], scales[marked] = 0, 0xFF


THREADS: tuple[Thread, ...] = (
    Thread(reference="vllm-project/vllm#38148", also=("vllm-project/vllm#37564", "vllm-project/vllm#45739", "vllm-project/vllm#45741", "vllm-project/vllm#30260"), family=_L, operation="swizzle", format="128x4-zeroed",
        title="NaN from old bytes in the padding of swizzled scales", wrong="The buffer is allocated and not cleared, and the quantizer does not write its padding.",
        wrap={"swizzle": layouts.left_dirty}, fails=("swizzle/128x4-zeroed/padding",), names="it holds padding"),
    Thread(reference="vllm-project/vllm#55456", also=("vllm-project/vllm#23140",), family=_L, operation="swizzle", format="128x4",
        title="The buffer of swizzled scales holds rows x columns bytes, not whole tiles", wrong="Rows are not padded to 128, so that the tiles do not fit.", differs="Writing outside the buffer becomes cutting here.",
        wrap={"swizzle": layouts.instead(layouts.swizzle(crop=True))}, fails=("swizzle/128x4/place",), names="bytes came back; 128x4 takes"),
    Thread(reference="flashinfer-ai/flashinfer#3604", also=("flashinfer-ai/flashinfer#3455", "flashinfer-ai/flashinfer#3666"), family=_L, operation="swizzle", format="128x4",
        title="Products of a batch are garbage beyond the first matrix if M is no multiple of 128", wrong="The batch is padded as one matrix, so that tiles reach over from one matrix into the next.",
        wrap={"swizzle": layouts.instead(lambda scales: layouts.swizzle()(scales.reshape(-1, scales.shape[-1])))}, fails=("swizzle/128x4/batch",), names="bytes came back; 128x4 takes"),
    Thread(reference="ROCm/aiter#2900", source=NOTE, family=_L, operation="swizzle", format="128x4",
        title="A wrong stride of shuffled scales corrupts nearly all outputs", wrong="Tiles are counted by the width before padding.",
        wrap={"swizzle": layouts.instead(layouts.swizzle(layouts.unpadded_stride))}, fails=("swizzle/128x4/place",), names="rounded down"),
    Thread(reference="NVIDIA/Fuser#4801", family=_L, operation="swizzle", format="128x4",
        title="A product is handed block scales that were never swizzled", wrong="Scales stay row by row where the kernel reads tiles of 128 x 4.",
        wrap={"swizzle": layouts.instead(lambda scales: scales.reshape(-1))}, fails=("swizzle/128x4/place",), names="layout row-major"),
    Thread(reference="vllm-project/vllm#50084", also=("vllm-project/vllm#50085", "vllm-project/vllm#55976"), family=_L, operation="unswizzle", format="128x4",
        title="Scales of the V cache are written swizzled and read row by row", wrong="Writer and reader disagree about the layout; every shape and dtype fits.", differs="The cache has tiles of 4 x 4; here they are 128 x 4.",
        wrap={"unswizzle": layouts.instead(lambda data, shape: data.reshape(-1)[: int(np.prod(shape))].reshape(shape))}, fails=("unswizzle/128x4/place",), names="layout row-major"),
    Thread(reference="flashinfer-ai/flashinfer#3882", family=_L, operation="quantize", format="mxfp8_e4m3", profile=FLOOR, level=QUICK,
        title="A flaky test: one operand was quantized along the wrong dimension", wrong="Blocks run along n where the sum runs along k.", differs="The mistake was in the test, beside scales that were not swizzled.",
        wrap={"quantize": calls.with_keyword("axis", calls.wrong_axis)}, fails=("quantize/mxfp8_e4m3/axis",), names=""),
    Thread(reference="Comfy-Org/comfy-kitchen#41", also=("sgl-project/sglang#23625",), family=_L, operation="quantize", format="nvfp4", profile="nvfp4-te", level=QUICK,
        title="Two FP4 codes share a byte, in either order", wrong="The even code lies in the high nibble where the reader expects it in the low one.",
        broken=lambda: Packing(layouts.high_first), fixed=lambda: Packing(layouts.pack_nibbles), fails=("quantize/nvfp4/exact",), names="codes lie as in LAYOUT = "),
    Thread(reference="amd/Quark#30", family=_L, operation="pack", format="awq",
        title="int4 weights are stored in plain order under metadata that say AWQ's", wrong="The nibbles of a word are not interleaved.",
        wrap={"pack": layouts.instead(layouts.words_of(layouts.IN_ORDER, True))}, fails=("pack/awq/place",), names="nibbles in plain order"),
    Thread(reference="kekzl/imp#722", also=("1bit-MONSTER/1bit-MONSTER#572",), family=_L, operation="unpack_blocks", format="ggml-mxfp4",
        title="A ggml block is read as neighbours that share a byte", wrong="Byte j holds elements j and j + 16, and is read as 2j and 2j + 1.", differs="The reports are of Q4_0, whose codes lie as those of ggml's MXFP4.",
        wrap={"unpack_blocks": layouts.instead(layouts.read_linear)}, fails=("unpack_blocks/ggml-mxfp4/place",), names="neighbours shared a byte"),
    Thread(reference="triton-lang/triton#11624", also=("triton-lang/triton#11737",), family=_P, operation="matmul", format="mxfp4",
        title="A scaled product takes scale byte 00 as zero, and FF as infinity", wrong="The byte is shifted into an exponent field.",
        broken=kernel(replace(_mx, scales=lambda table, _: np.concatenate([[0.0], table[1:255], [np.inf]]))), fixed=kernel(_mx), fails=("matmul/mxfp4@mxfp4/scale-code",), names="scale code 00 of a and b is taken as zero"),
    Thread(reference="flashinfer-ai/flashinfer#3548", family=_P, operation="matmul", format="nvfp4",
        title="Outputs are 2,400 times too large: the tensor scale never reaches the kernel", wrong="The interface has no place for it, and the kernel takes 1.", differs="The report is of a mixture of experts; here it is one product.",
        broken=kernel(replace(_nvfp4, scale=lambda a, b: 1.0)), fixed=kernel(_nvfp4), fails=("matmul/nvfp4@nvfp4/tensor-scale",), names="tensor scale of a and b is ignored"),
    Thread(reference="ggml-org/llama.cpp#21462", also=("ggml-org/llama.cpp#21559",), family=_P, operation="matmul", format="nvfp4",
        title="NVFP4 products have a high error on ARM without dot-product instructions", wrong="Partial sums are grouped otherwise than block scales, so that some products get the neighbour's scale.", differs="Which lanes change places follows no one's registers; that they take the neighbour's scale is the report's.",
        broken=kernel(replace(_nvfp4, place_codes=lanes_of_two_blocks)), fixed=kernel(_nvfp4), fails=("matmul/nvfp4@nvfp4/block-scale",), names=""),
    Thread(reference="deepseek-ai/DeepSeek-V3#197", also=("deepseek-ai/DeepSeek-V3#750", "NVIDIA/cutlass#1329"), source=NOTE, family=_P, operation="matmul", format="mxfp8_e4m3",
        title="FP8 products add up in about 14 bits", wrong="The accumulator keeps 13 bits below the largest exponent, and nothing says so.", differs="No mistake if it is declared: the mended one adds in float32.",
        broken=kernel(_fourteen_bits), fixed=kernel(_fp8), fails=("matmul/mxfp8_e4m3@mxfp8_e4m3/interval",), names="13 bits below the largest exponent"),
    Thread(reference="microsoft/onnxruntime#31155", source=NOTE, family=_P, operation="matmul", format="mxfp4",
        title="A kernel that writes zeros passes the test", wrong="All outputs are zero; the tolerance is larger than the largest right output.", differs="The report is of the test; the pair is the kernel that it lets pass.",
        broken=kernel(replace(_mx, returned=np.zeros_like)), fixed=kernel(_mx), fails=("matmul/mxfp4@mxfp4/sum",), names="all outputs are zero"),
    Thread(reference="vllm-project/vllm#26092", also=("vllm-project/vllm#26343", "vllm-project/vllm#38966"), family=_A, operation="matmul", format="int4-g32-zero-float16",
        title="GPTQ v2 checkpoints are read as v1", wrong="One is added to zero points that are stored as they are.",
        broken=kernel(replace(_gptq, offsets=lambda zeros: zeros + 1)), fixed=kernel(_gptq), fails=("matmul/float16@int4-g32-zero-float16/sum",), names="zero points of b are one too large"),
    Thread(reference="ModelCloud/GPTQModel#2351", also=("ModelCloud/GPTQModel#2350", "ModelCloud/GPTQModel#2352"), family=_A, operation="matmul", format="int4-g32-zero-float16",
        title="Zero point 0 becomes 15", wrong="One is subtracted before packing and added after, and 0 - 1 wraps to 15 in between.", differs="The report is of AWQ's words; here each zero point has its byte, since of words the judge asks for no zero point 0.",
        broken=kernel(replace(_zeros, offsets=lambda zeros: np.where(zeros == 0, 15, zeros))), fixed=kernel(_zeros), fails=("matmul/float16@int4-g32-zero-float16/sum",), names="zero points 0 of b"),
    Thread(reference="NVIDIA/TransformerEngine#3281", id="te-3281", family=_K, operation="encode_stochastic", format="e2m1",
        title="Stochastic rounding returns zeros on devices without the instruction", wrong="The branch without the instruction is an assertion that release builds leave out; the output stays zero.",
        change={"round_stochastic": lambda c, magnitude, words: np.zeros_like(magnitude)}, fails=("stochastic/e2m1/random-bits",), names="every number were zero"),
    Thread(reference="uxlfoundation/oneDNN#2903", family=_K, operation="encode_stochastic", format="e5m2",
        title="Stochastic rounding is biased: its random bits are misaligned", wrong="Random bits are added below the place where they could carry.", differs="By how many places is not said; here it is four.",
        change={"round_stochastic": calls.stochastic(lambda fraction, words: fraction + np.floor(words / 16) >= 2.0**32)}, fails=("stochastic/e5m2/random-bits",), names="the random bits were added too low"),
    Thread(reference="ROCm/llvm-project#3275", id="rocm-llvm-3275", family=_K, operation="encode_stochastic", format="e4m3",
        title="3 % of stochastically rounded results are off by the whole fraction", wrong="Fraction and noise are added and masked, and the carry into the exponent is dropped.", differs="The report is of E5M3; here it is E4M3.",
        change={"round_stochastic": carry_dropped}, fails=("stochastic/e4m3/random-bits",), names="a carry out of the fraction were dropped"),
    Thread(reference="Comfy-Org/comfy-kitchen#60", family=_K, operation="encode_stochastic", format="int8",
        title="Whole numbers move under stochastic rounding", wrong="The noise is rounded to the input's 16 bits, where it becomes 1.", differs="Said in a review.",
        change={"round_stochastic": noise_in_bfloat16}, fails=("stochastic/int8/random-bits",), names="rounded to bfloat16"),
    Thread(reference="vllm-project/vllm#57014", family=_C, operation="quantize", format="mxfp4", profile=FLOOR, level=QUICK,
        title="With 1 to 4 rows beyond a multiple of 8 the last rows hold old data", wrong="The tail's threads read shared memory before it is written.", differs="The report is of a transform that stands before quantization.",
        wrap={"quantize": calls.stateful(calls.stale_rows)}, fails=("quantize/mxfp4/call-size",), names="not deterministic"),
    Thread(reference="mirage-project/mirage#719", family=_C, operation="quantize", format="mxfp4", profile=FLOOR, level=QUICK,
        title="Under a persistent kernel rows are quantized by the wrong worker", wrong="The physical block's number is taken for the row's.", differs="132 workers, each for the block with its number; the report's are rows of FP8.",
        wrap={"quantize": calls.from_neighbour(True, lambda i, n: i % 132)}, fails=("quantize/mxfp4/call-size",), names="the answer depends on the call"),
    Thread(reference="bitsandbytes-foundation/bitsandbytes#1342", source=NOTE, family=_C, operation="quantize", format="mxfp4", profile=FLOOR, level=QUICK,
        title="A strided tensor is quantized in memory order", wrong="Strides are not looked at.",
        wrap={"quantize": calls.ignores_strides}, fails=("quantize/mxfp4/memory",), names=""),
    Thread(reference="flashinfer-ai/flashinfer#5053", family=_C, operation="quantize", format="mxfp4", profile=FLOOR, level=QUICK,
        title="For some sizes the kernel writes codes and no scales, and returns success", wrong="Block scales stay as they were, here zero.", differs="The report is of a product's epilogue in NVFP4; here it is the quantizer, in calls of more than 64 blocks.",
        wrap={"quantize": calls.on_result(no_scales_in_large_calls)}, fails=("quantize/mxfp4/call-size",), names="scales are not written"),
    Thread(reference="vllm-project/vllm#40047", family=_C, operation="quantize", format="mxfp4", profile=FLOOR, level=QUICK,
        title="NaN in rows of padding spoils the scales of other rows", wrong="A reduction over a warp takes in the blocks of neighbouring rows.",
        wrap={"quantize": calls.on_result(neighbours_of_nan)}, fails=("quantize/mxfp4/call-size",), names=""),
)  # fmt: skip
