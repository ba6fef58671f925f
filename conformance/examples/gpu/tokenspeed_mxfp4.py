"""tokenspeed-triton-kernels: bfloat16 rows with MXFP4 weights as a checkpoint has them; with ORDER=hopper in the layouts of a Hopper GPU."""

import os
from importlib.metadata import version

import torch
import triton.language.target_info as info
from triton import constexpr_function
from triton.runtime.jit import JITFunction

if not hasattr(info, "is_hip_gfx1250"):  # Triton 3.6 lacks what this version imports

    @constexpr_function
    def is_hip_gfx1250():
        return False

    info.is_hip_gfx1250 = is_hip_gfx1250
    JITFunction.def_file_line_number = JITFunction.def_file_col_number = 1

from triton_kernels.matmul import PrecisionConfig, matmul as multiply
from triton_kernels.matmul_details.opt_flags import scoped_opt_flags_constraints
from triton_kernels.tensor import FP4, convert_layout, wrap_torch_tensor
from triton_kernels.tensor_details.layout import make_default_matmul_mxfp4_w_layout, make_default_matmul_mxfp4_w_scale_layout

ORDER = os.environ.get("ORDER", "strided")
NAME, VERSION = f"tokenspeed-mxfp4-{ORDER}", version("tokenspeed-triton-kernels")
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "bfloat16", "b": "mxfp4/nibble-low"}
if ORDER != "strided":
    PRODUCT_SHAPES = {"n": 2, "k": 64 if ORDER == "hopper-64" else 1}  # the layout packs two columns, in tiles of 64 along k


def prepare(b):
    n, k = b.shape
    codes, scales = wrap_torch_tensor(b.codes.reshape(n, k // 2).T, dtype=FP4), wrap_torch_tensor(b.scales.T)
    if ORDER == "strided":
        return codes, scales
    layouts = make_default_matmul_mxfp4_w_layout(mx_axis=-2), make_default_matmul_mxfp4_w_scale_layout(mx_axis=-2, num_warps=8)
    return convert_layout(codes, layouts[0]), convert_layout(scales, layouts[1])


def matmul(a, b, out_dtype):
    config = PrecisionConfig(b_mx_scale=b[1], b_microblock_size=32, out_dtype=torch.bfloat16)
    with scoped_opt_flags_constraints({"split_k": 1}):  # the sum of parts is a kernel that Triton 3.6 does not compile
        return multiply(a, b[0], None, precision_config=config)
