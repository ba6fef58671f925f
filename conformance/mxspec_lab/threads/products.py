"""Threads about matrix products, with affine sides among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mxspec_lab.products.kernels import Bytes, Floats, Kernel
from mxspec_lab.products.kinds import KindKernel
from mxspec_lab.products.kinds_right import zero_steps
from mxspec_lab.products.wrong import list_wrong
from mxspec_lab.threads.building import kernel
from mxspec_lab.threads.schema import Family, Source, Thread

MX, FP8, NVFP4 = ("mxfp4", "mxfp4"), ("mxfp8_e4m3", "mxfp8_e4m3"), ("nvfp4", "nvfp4")
GPTQ = ("float16", "int4-g32-zero-float16/gptq+gptq-v2-zeros+transposed")
ZEROS = ("float16", "int4-g32-zero-float16")


def shifted_bytes(table: Floats, fmt: str) -> Floats:
    """Scale bytes as exponent fields: 00 is zero, FF infinity."""
    changed = table.copy()
    changed[0], changed[255] = 0.0, np.inf
    return changed


def lanes_of_two_blocks(codes: Bytes, run: int) -> Bytes:
    """Lanes 4 to 7 of each sixteen change places with those of the next sixteen, on both sides: what is summed stays, its scale does not."""
    if codes.shape[1] % (2 * run):
        return codes
    pairs = codes.reshape(len(codes), -1, 2, run).copy()
    pairs[:, :, :, 4:8] = pairs[:, :, ::-1, 4:8]
    return pairs.reshape(codes.shape)


def zero_is_fifteen(zeros: Floats) -> Floats:
    """Zero point 0 less one, plus one, in four bits."""
    return np.where(zeros == 0, 15, zeros)


_mx, _fp8, _nvfp4 = (Kernel(name="fixed", product=p) for p in (MX, FP8, NVFP4))
_gptq, _zeros = (KindKernel(name="fixed", **zero_steps(product=p)) for p in (GPTQ, ZEROS))
_fourteen_bits = next(k for k in list_wrong() if k.name == "13 bits below the largest exponent, not declared")

THREADS = (
    Thread(
        id="triton-11624", reference="triton-lang/triton#11624", also=("triton-lang/triton#11737",), family=Family.PRODUCTS, operations=("matmul",), formats=("mxfp4",), only="matmul/*",
        title="A scaled product takes scale byte 00 as zero, and FF as infinity", wrong="The byte is shifted into an exponent field.",
        broken=kernel(replace(_mx, scales=shifted_bytes)), fixed=kernel(_mx), fails=("matmul/mxfp4@mxfp4/scale-code",), names="scale code 00 of a and b is taken as zero",
    ),
    Thread(
        id="flashinfer-3548", reference="flashinfer-ai/flashinfer#3548", family=Family.PRODUCTS, operations=("matmul",), formats=("nvfp4",), only="matmul/*",
        title="Outputs are 2,400 times too large: the tensor scale never reaches the kernel", wrong="The interface has no place for it, and the kernel takes 1.", differs="The report is of a mixture of experts; here it is one product.",
        broken=kernel(replace(_nvfp4, scale=lambda a, b: 1.0)), fixed=kernel(_nvfp4), fails=("matmul/nvfp4@nvfp4/tensor-scale",), names="tensor scale of a and b is ignored",
    ),
    Thread(
        id="llama.cpp-21462", reference="ggml-org/llama.cpp#21462", also=("ggml-org/llama.cpp#21559",), family=Family.PRODUCTS, operations=("matmul",), formats=("nvfp4",), only="matmul/*",
        title="NVFP4 products have a high error on ARM without dot-product instructions", wrong="Partial sums are grouped otherwise than block scales, so that some products get the neighbour's scale.",
        differs="Which lanes change places follows no one's registers; that they take the neighbour's scale is the report's.",
        broken=kernel(replace(_nvfp4, place_codes=lanes_of_two_blocks)), fixed=kernel(_nvfp4), fails=("matmul/nvfp4@nvfp4/block-scale",), names="",
    ),
    Thread(
        id="deepseek-v3-197", reference="deepseek-ai/DeepSeek-V3#197", also=("deepseek-ai/DeepSeek-V3#750", "NVIDIA/cutlass#1329"), source=Source.NOTE, family=Family.PRODUCTS, operations=("matmul",), formats=("mxfp8_e4m3",), only="matmul/*",
        title="FP8 products add up in about 14 bits", wrong="The accumulator keeps 13 bits below the largest exponent, and nothing says so.", differs="No mistake if it is declared: the mended one adds in float32.",
        broken=kernel(_fourteen_bits), fixed=kernel(_fp8), fails=("matmul/mxfp8_e4m3@mxfp8_e4m3/interval",), names="13 bits below the largest exponent",
    ),
    Thread(
        id="onnxruntime-31155", reference="microsoft/onnxruntime#31155", source=Source.NOTE, family=Family.PRODUCTS, operations=("matmul",), formats=("mxfp4",), only="matmul/*",
        title="A kernel that writes zeros passes the test", wrong="All outputs are zero; the tolerance is larger than the largest right output.", differs="The report is of the test; the pair is the kernel that it lets pass.",
        broken=kernel(replace(_mx, returned=np.zeros_like)), fixed=kernel(_mx), fails=("matmul/mxfp4@mxfp4/sum",), names="all outputs are zero",
    ),
    Thread(
        id="vllm-26092", reference="vllm-project/vllm#26092", also=("vllm-project/vllm#26343", "vllm-project/vllm#38966"), family=Family.AFFINE, operations=("matmul",), formats=("int4-g32-zero-float16",), only="matmul/*",
        title="GPTQ v2 checkpoints are read as v1", wrong="One is added to zero points that are stored as they are.",
        broken=kernel(replace(_gptq, offsets=lambda zeros: zeros + 1)), fixed=kernel(_gptq), fails=("matmul/float16@int4-g32-zero-float16/sum",), names="zero points of b are one too large",
    ),
    Thread(
        id="gptqmodel-2351", reference="ModelCloud/GPTQModel#2351", also=("ModelCloud/GPTQModel#2350", "ModelCloud/GPTQModel#2352"), family=Family.AFFINE, operations=("matmul",), formats=("int4-g32-zero-float16",), only="matmul/*",
        title="Zero point 0 becomes 15", wrong="One is subtracted before packing and added after, and 0 - 1 wraps to 15 in between.",
        differs="The report is of AWQ's words; here each zero point has its byte, since of words the judge asks for no zero point 0.",
        broken=kernel(replace(_zeros, offsets=zero_is_fifteen)), fixed=kernel(_zeros), fails=("matmul/float16@int4-g32-zero-float16/sum",), names="zero points 0 of b",
    ),
)  # fmt: skip
