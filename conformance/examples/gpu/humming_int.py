"""humming-kernels: bfloat16 rows with integer weights: METHOD=awq, gptq (zero points minus one), gptq_v2, int4 and int8 of its own."""

import os

import humming
import torch
from humming.layer import HummingLayer

METHOD = os.environ.get("METHOD", "awq")
NAME, VERSION = f"humming-{METHOD}", humming.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
FORMS = {"awq": "/awq+awq-zeros+transposed", "gptq": "/gptq+gptq-v1-zeros+transposed", "gptq_v2": "/gptq+gptq-v2-zeros+transposed"}
BITS = 8 if METHOD == "int8" else 4
OPERANDS = {"a": "bfloat16", "b": f"int{BITS}-g128-zero-bfloat16" + FORMS.get(METHOD, "/words")}
OWN = {"quant_method": "humming", "dtype": f"uint{BITS}", "group_size": 128, "has_zero_point": True}
GPTQ = {"quant_method": "gptq", "sym": False}
CONFIGS = {"awq": {"quant_method": "awq"}, "gptq": GPTQ, "gptq_v2": GPTQ}


def prepare(b):
    n, k = b.shape
    config = {**CONFIGS[METHOD], "bits": BITS, "group_size": 128} if METHOD in CONFIGS else OWN
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config=dict(config), torch_dtype=torch.bfloat16).cuda()
    if METHOD in CONFIGS:
        shape = (k, n // 8) if METHOD == "awq" else (k // 8, n)
        words, zeros = (part.clone().view(torch.int32) for part in (b.codes, b.zeros))
        layer.load_from_tensors({"qweight": words.reshape(shape), "scales": b.scales, "qzeros": zeros.reshape(k // 128, n // 8)})
    else:
        codes = b.zeros.int().reshape(n * BITS // 32, 32 // BITS, k // 128)
        zeros = (codes << BITS * torch.arange(32 // BITS, device=codes.device)[:, None]).sum(1).int()
        layer.load_from_tensors({"weight": b.codes.clone().view(torch.int32), "weight_scale": b.scales, "zero_point": zeros})
    layer.transform()
    return layer


def matmul(a, b, out_dtype):
    return b(a)
