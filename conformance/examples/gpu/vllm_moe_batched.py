"""vLLM: experts in FP8 whose rows lie in an array of their own each, by its batched kernel in the default configurations."""

import torch
import vllm
from vllm.model_executor.layers.fused_moe.experts.fused_batched_moe import invoke_moe_batched_triton_kernel
from vllm.model_executor.layers.fused_moe.fused_moe import get_default_config
from vllm.triton_utils import tl

NAME, VERSION = "vllm-moe-batched", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128", "form": "masked"}


def grouped_matmul(a, b, groups, form, out_dtype):
    (e, n, k), rows, tile = b.shape, a.shape[1], [128, 128]
    config = get_default_config(rows, e, n, k, 1, "fp8_w8a8", tile)
    c = torch.zeros(e, rows, n, dtype=torch.bfloat16, device=groups.device)
    codes = [x.codes.view(torch.float8_e4m3fn) for x in (a, b)]
    invoke_moe_batched_triton_kernel(
        *codes, c, groups, tl.bfloat16, a.scales, b.scales, None, True, False, False, config, False, tile
    )  # fmt: skip
    return c
