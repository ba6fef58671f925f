"""vLLM: experts in MXFP8 by `tl.dot_scaled`."""

import torch
import vllm
from vllm.model_executor.layers.fused_moe.experts.mxfp8_native_moe import _grouped_gemm_mxfp8

NAME, VERSION = "vllm-moe-mxfp8", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16", "float32"]
GROUPED = {"a": "mxfp8_e4m3", "b": "mxfp8_e4m3", "form": "padded"}
PRODUCT_SHAPES = {"k": 128}
BLOCK = 64


def grouped_matmul(a, b, groups, form, out_dtype):
    rows, device = len(groups), groups.device
    experts = groups.reshape(-1, BLOCK).amax(1).clamp(min=0)  # the kernel has no tiles of padding alone
    order, count = torch.arange(rows, device=device, dtype=torch.int32), torch.tensor([rows], device=device)
    codes = [x.codes.view(torch.float8_e4m3fn) for x in (a, b)]
    return _grouped_gemm_mxfp8(codes[0], a.scales, codes[1], b.scales, order, experts, count, rows, 1, BLOCK, getattr(torch, out_dtype), 1)
