"""vLLM: experts in NVFP4, which the kernel dequantizes to bfloat16."""

import torch
import vllm
from vllm.model_executor.layers.fused_moe.experts.nvfp4_emulation_moe import invoke_fused_moe_nvfp4_emulation_kernel
from vllm.model_executor.layers.fused_moe.fused_moe import get_default_config
from vllm.triton_utils import tl

NAME, VERSION = "vllm-moe-nvfp4", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = {"a": "bfloat16", "b": "nvfp4/nibble-low", "form": "padded"}


def grouped_matmul(a, b, groups, form, out_dtype):
    (e, n, k), rows, device = b.shape, len(groups), a.device
    config = get_default_config(rows, e, n, k, 1, None)
    experts = groups.reshape(-1, config["BLOCK_SIZE_M"]).amax(1)
    order, count = torch.arange(rows, device=device, dtype=torch.int32), torch.tensor([rows], device=device)
    scale = torch.ones(e, device=device) if b.tensor_scale is None else b.tensor_scale
    c = torch.empty(rows, 1, n, dtype=torch.bfloat16, device=device)
    invoke_fused_moe_nvfp4_emulation_kernel(
        a, b.codes.reshape(e, n, k // 2), c, b.scales, None, scale, None, order, experts, count, False, 1, config, tl.bfloat16
    )
    return c[:, 0]
