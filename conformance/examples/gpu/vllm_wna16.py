"""vLLM: the Triton kernel of experts with integer weights, for one expert: bfloat16 rows, INT4 weights with zero points."""

import torch
import vllm
from vllm.model_executor.layers.fused_moe.fused_moe import get_default_config, invoke_fused_moe_wna16_triton_kernel
from vllm.triton_utils import tl

NAME, VERSION = "vllm-moe-wna16", vllm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "bfloat16", "b": "int4-g128-zero-bfloat16/nibble-low"}
PRODUCT_SHAPES = {"n": 2, "k": 128}  # a byte holds the zero points of two columns


def prepare(b):
    n, k = b.shape
    zeros = b.zeros.reshape(n // 2, 2, k // 128)
    return b.codes.reshape(1, n, k // 2), b.scales[None], (zeros[:, 0] | zeros[:, 1] << 4)[None].contiguous()


def matmul(a, b, out_dtype):
    codes, scales, zeros = b
    (m, k), n, device = a.shape, codes.shape[1], a.device
    config = get_default_config(max(m, 7), 1, n, k, 1, "int4_w4a16", [0, 128])  # fewer rows go to another kernel
    tile = config["BLOCK_SIZE_M"]
    tiles = -(-m // tile)
    order, count = torch.arange(tiles * tile, device=device, dtype=torch.int32), torch.tensor([tiles * tile], device=device)
    c = torch.empty(m, 1, n, dtype=torch.bfloat16, device=device)
    invoke_fused_moe_wna16_triton_kernel(
        a, codes, c, scales, zeros, None, order, torch.zeros(tiles, device=device, dtype=torch.int32), count, False, 1, config,
        tl.bfloat16, False, True, [0, 128],
    )  # fmt: skip
    return c[:, 0]
