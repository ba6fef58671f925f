"""vLLM: experts in FP8, activations in groups of 128 and weights in tiles of 128 x 128, in the default configurations."""

import torch
import vllm
from vllm.model_executor.layers.fused_moe.fused_moe import get_default_config, invoke_fused_moe_triton_kernel
from vllm.triton_utils import tl

NAME, VERSION = "vllm-moe-fp8", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = {"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128", "form": "indexed"}


def _align(groups, experts, step):
    """Rows by expert, each expert's filled up to whole tiles with a row that does not exist; the expert of each tile."""
    rows, order = len(groups), groups.argsort(stable=True)
    counts = torch.bincount(groups, minlength=experts)
    tiles = -(-counts // step)
    moved = (tiles * step).cumsum(0) - tiles * step - counts.cumsum(0) + counts
    placed = torch.full((int(tiles.sum()) * step,), rows, device=groups.device)
    placed[torch.arange(rows, device=groups.device) + moved[groups[order]]] = order
    return placed.int(), torch.arange(experts, device=groups.device).repeat_interleave(tiles).int()


def grouped_matmul(a, b, groups, form, out_dtype):
    (e, n, k), rows, tile = b.shape, len(groups), [128, 128]
    config = get_default_config(rows, e, n, k, 1, "fp8_w8a8", tile)
    order, experts = _align(groups.long(), e, config["BLOCK_SIZE_M"])
    c = torch.empty(rows, 1, n, dtype=torch.bfloat16, device=groups.device)
    codes = [x.codes.view(torch.float8_e4m3fn) for x in (a, b)]
    flags = dict.fromkeys(("use_int8_w8a8", "use_int8_w8a16", "use_int4_w4a16", "per_channel_quant", "mul_routed_weight"), False)
    invoke_fused_moe_triton_kernel(
        *codes, c, a.scales, b.scales, None, order, experts, torch.tensor([len(order)], device=groups.device), top_k=1, config=config,
        compute_type=tl.bfloat16, use_fp8_w8a8=True, block_shape=tile, **flags,
    )  # fmt: skip
    return c[:, 0]
