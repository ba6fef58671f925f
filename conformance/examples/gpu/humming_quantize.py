"""humming-kernels: the quantizers of rows, which zeros fill up to 4096 columns, as a kernel is compiled for each width."""

import humming
import torch
import torch.nn.functional as nn
from humming.ops import process_input

NAME, VERSION = "humming-quantize", humming.__version__
ARRAYS, DEVICE, DTYPES = "torch", "cuda", ["bfloat16", "float32"]
GROUPS = {
    "fp8_e4m3-128-f32": ("float8e4m3", 128, "float32"),
    "mxfp8_e4m3": ("float8e4m3", 32, "float8e8m0"),
    "mxfp8_e5m2": ("float8e5m2", 32, "float8e8m0"),
}
FORMATS = [*GROUPS, "fp8_e4m3-row-f32"]


def quantize(x, fmt):
    k = x.shape[1]
    x = nn.pad(x, (0, -k % 4096))
    if fmt == "fp8_e4m3-row-f32":
        codes, _, scales = process_input(x, quant_mode="dynamic_token", quant_dtype="float8e4m3")
        return codes.view(torch.uint8)[:, :k], scales
    dtype, size, scale = GROUPS[fmt]
    codes, scales, _ = process_input(x, quant_mode="dynamic_group", quant_dtype=dtype, quant_group_size=size, group_scale_dtype=scale)
    scales = scales if scale == "float32" else scales.view(torch.uint8)
    return codes.view(torch.uint8)[:, :k], scales[:, : k // size]
