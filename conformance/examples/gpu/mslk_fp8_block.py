"""MSLK: products of FP8 matrices with a scale for 128 x 128 numbers; ACCUMULATE=slow chooses its other kernel, TILES=first the first of its tiles."""

import os
from importlib.metadata import version

import torch
from mslk.gemm.triton import fp8_gemm

ACCUMULATE, TILES = os.environ.get("ACCUMULATE", "fast"), os.environ.get("TILES", "small")
NAME, VERSION = f"mslk-fp8-block-{ACCUMULATE}-{TILES}", version("mslk-cuda")
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["bfloat16"]
OPERANDS = {"a": "fp8_e4m3-128-f32/128x128", "b": "fp8_e4m3-128-f32/128x128"}


def is_small(config):
    """Whether tiles are smaller than the scales' blocks, as the kernels assert, and their tuner does not ensure."""
    return all(config.kwargs[size] < 128 for size in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))


for kernel in (fp8_gemm._kernel_matmul_fp8_block_fastacc, fp8_gemm._kernel_matmul_fp8_block_slowacc):
    # One tile: the tuner would measure ten for each shape.
    kernel.configs = [config for config in kernel.configs if TILES == "first" or is_small(config)][:1]


def matmul(a, b, out_dtype):
    codes = (part.codes.view(torch.float8_e4m3fn) for part in (a, b))
    return fp8_gemm.matmul_fp8_block(*codes, a.scales, b.scales, 128, 128, 128, fp8_fast_accum=ACCUMULATE == "fast")
