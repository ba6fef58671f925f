"""A Triton kernel as a target, with a planted bug: ties go away from zero.

It is compiled where there is a card. Elsewhere Triton interprets the same kernel, on torch's tensors in memory.
"""

import os
import threading

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # it counts while triton is imported

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

NAME, VERSION, FORMATS, ARRAYS = "my-kernel", "1.0", ["mxfp4"], "torch"
BLOCKS = 64 if DEVICE == "cuda" else 1024  # of a program; an interpreted one costs a millisecond, whatever it holds
ONE_LAUNCH = threading.Lock()  # the interpreter keeps one grid for all threads


@triton.jit
def kernel(x, codes, scales, blocks, N: tl.constexpr):
    block = tl.program_id(0) * N + tl.arange(0, N)
    at, inside = block[:, None] * 32 + tl.arange(0, 32)[None], block < blocks
    bits = tl.load(x + at, inside[:, None], 0).to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    scale = tl.maximum(tl.max(magnitude, axis=1) >> 23, 2) - 2
    q = magnitude.to(tl.float32, bitcast=True) * ((254 - scale) << 23).to(tl.float32, bitcast=True)[:, None]
    code = 7 - (q < 0.25) - (q < 0.75) - (q < 1.25) - (q < 1.75) - (q < 2.5) - (q < 3.5) - (q < 5)
    tl.store(codes + at, code | (bits >> 28 & 8), inside[:, None])
    tl.store(scales + block, scale, inside)


def quantize(x, fmt):  # float32 [rows, k] -> codes uint8 [rows, k], scales uint8 [rows, k / 32]
    x = x.contiguous().unflatten(1, (-1, 32))  # refuses a row that is no whole number of blocks
    codes, scales = torch.empty_like(x, dtype=torch.uint8), torch.empty(x.shape[:2], dtype=torch.uint8, device=x.device)
    with ONE_LAUNCH:
        kernel[(triton.cdiv(scales.numel(), BLOCKS),)](x, codes, scales, scales.numel(), BLOCKS)
    return codes.flatten(1), scales
