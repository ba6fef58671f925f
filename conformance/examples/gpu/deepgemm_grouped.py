"""DeepGEMM: FP8 rows of experts in groups of 128 with FP8 weights in tiles of 128 x 128, contiguous and masked."""

import deep_gemm
import torch

NAME, VERSION = "deepgemm-grouped", deep_gemm.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
GROUPED = [{"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128", "form": form} for form in ("padded", "masked")]
PRODUCT_SHAPES = {"n": 8, "k": 128}


def grouped_matmul(a, b, groups, form, out_dtype):
    d = torch.empty(*a.codes.shape[:-1], b.shape[1], dtype=torch.bfloat16, device="cuda")
    given = ((part.codes.view(torch.float8_e4m3fn), part.scales) for part in (a, b))
    if form == "masked":
        deep_gemm.m_grouped_fp8_gemm_nt_masked(*given, d, groups, a.codes.shape[1], compiled_dims="")
    else:
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(*given, d, groups, compiled_dims="")
    return d
