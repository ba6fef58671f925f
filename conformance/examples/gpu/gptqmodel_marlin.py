"""GPTQModel: Marlin's products of bfloat16 rows with the INT4 weights of an AWQ checkpoint; with WEIGHTS=mxfp4 and nvfp4 those of FP4."""

import os

import torch
from gptqmodel.utils import marlin
from gptqmodel.utils.marlin_scalar_type import scalar_types
from gptqmodel.version import __version__

WEIGHTS = os.environ.get("WEIGHTS", "int4")
NAME, VERSION = f"gptqmodel-marlin-{WEIGHTS}", __version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
FORMS = {"int4": "int4-g128-zero-bfloat16/awq+awq-zeros+transposed", "mxfp4": "mxfp4/marlin+marlin-scales-mxfp4", "nvfp4": "nvfp4/marlin"}
OPERANDS = {"a": "bfloat16", "b": FORMS[WEIGHTS]}
PRODUCT_SHAPES = {"n": 64, "k": 128}


def interleave(scales):
    """Two rows of FP4's scales in turns of 8, as a thread reads them."""
    return scales.reshape(len(scales) // 2, 2, -1, 8).transpose(1, 2).reshape(scales.shape)


def store_scales(scales, n, k):
    """NVFP4's scales as Marlin reads them: 2^7 times as large in float16, of which the sign is left out and the upper byte kept."""
    permuted = marlin.marlin_permute_scales(scales.view(torch.float8_e4m3fn).half().T.contiguous(), k, n, 16)
    words = interleave(permuted.reshape(-1, 4)[:, [0, 2, 1, 3]].reshape(k // 16, n)) * 128
    return (words.contiguous().view(torch.int16) << 1).view(torch.float8_e4m3fn)[:, 1::2].contiguous()


def prepare(b):
    n, k = b.shape
    words = b.codes.clone().view(torch.int32)
    workspace = marlin.marlin_make_workspace_new(words.device)
    if WEIGHTS == "int4":
        words = marlin.awq_marlin_repack(words.reshape(k, n // 8), k, n, 4, dtype=torch.bfloat16)
        zeros = marlin.awq_to_marlin_zero_points(b.zeros.clone().view(torch.int32).reshape(k // 128, n // 8), k // 128, n, 4)
        return words, marlin.marlin_permute_scales(b.scales, k, n, 128), zeros, workspace, n, k
    words = words.reshape(k // 16, 2 * n)
    if WEIGHTS == "mxfp4":
        return words, interleave(b.scales.reshape(k // 32, n)).view(torch.float8_e8m0fnu), None, workspace, n, k
    # Its bfloat16 kernel reads codes and scales without their biases, which lack 2^126 and hold 2^7.
    tensor_scale = (1.0 if b.tensor_scale is None else float(b.tensor_scale)) * 2.0**119
    return words, store_scales(b.scales, n, k), torch.tensor([tensor_scale], device=words.device), workspace, n, k


def matmul(a, b, out_dtype):
    words, scales, more, workspace, n, k = b
    if WEIGHTS == "int4":
        empty = marlin.marlin_make_empty_g_idx(a.device)
        return marlin.apply_awq_marlin_linear(a, words, scales, more, empty, empty, workspace, scalar_types.uint4, n, k)
    kind = scalar_types.float4_e2m1f
    given = words, None, scales, more, None, None, None, workspace
    return marlin.gptq_marlin_gemm(a, None, *given, kind, a.shape[0], n, k, use_fp32_reduce=True)
