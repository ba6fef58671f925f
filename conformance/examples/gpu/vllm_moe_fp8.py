"""vLLM: experts in FP8, activations in groups of 128 and weights in tiles of 128 x 128, in the default configurations."""

import torch
import vllm
from vllm.model_executor.layers.fused_moe.fused_moe import get_default_config, invoke_fused_moe_triton_kernel
from vllm.triton_utils import tl

NAME, VERSION = "vllm-moe-fp8", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128", "form": "padded"}


def grouped_matmul(a, b, groups, form, out_dtype):
    (e, n, k), rows, tile = b.shape, len(groups), [128, 128]
    config = get_default_config(rows, e, n, k, 1, "fp8_w8a8", tile)
    experts = groups.reshape(-1, config["BLOCK_SIZE_M"]).amax(1)
    order, count = torch.arange(rows, device=groups.device, dtype=torch.int32), torch.tensor([rows], device=groups.device)
    c = torch.empty(rows, 1, n, dtype=torch.bfloat16, device=groups.device)
    codes = [x.codes.view(torch.float8_e4m3fn) for x in (a, b)]
    flags = dict.fromkeys(("use_int8_w8a8", "use_int8_w8a16", "use_int4_w4a16", "per_channel_quant", "mul_routed_weight"), False)
    invoke_fused_moe_triton_kernel(
        *codes, c, a.scales, b.scales, None, order, experts, count, top_k=1, config=config, compute_type=tl.bfloat16, use_fp8_w8a8=True,
        block_shape=tile, **flags,
    )  # fmt: skip
    return c[:, 0]
