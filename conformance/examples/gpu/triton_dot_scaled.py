"""Triton: `tl.dot_scaled`, which a Hopper GPU computes by converting to bfloat16."""

import torch
import triton
import triton.language as tl

NAME, VERSION = "triton-dot-scaled", triton.__version__
ARRAYS, DEVICE, OUT_DTYPES = "torch", "cuda", ["float32"]
OPERANDS = [
    {"a": a, "b": b} for a, b in (("mxfp8_e4m3", "mxfp4/nibble-low"), ("mxfp8_e4m3", "mxfp8_e4m3"), ("bfloat16", "mxfp4/nibble-low"))
]


@triton.jit
def kernel(a, sa, b, sb, c, M, N, K, AF: tl.constexpr, BF: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    pack: tl.constexpr = 2 if BF == "e2m1" else 1
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ka, kb, ks = k + tl.arange(0, BK), k // pack + tl.arange(0, BK // pack), k // 32 + tl.arange(0, BK // 32)
        x = tl.load(a + m[:, None] * K + ka[None], (m[:, None] < M) & (ka[None] < K), 0)
        y = tl.load(b + n[None] * (K // pack) + kb[:, None], (n[None] < N) & (kb[:, None] < K // pack), 0)
        t = tl.load(sb + n[:, None] * (K // 32) + ks[None], (n[:, None] < N) & (ks[None] < K // 32), 0)
        if AF == "bf16":
            acc = tl.dot_scaled(x, None, AF, y, t, BF, acc)
        else:
            s = tl.load(sa + m[:, None] * (K // 32) + ks[None], (m[:, None] < M) & (ks[None] < K // 32), 0)
            acc = tl.dot_scaled(x, s, AF, y, t, BF, acc)
    tl.store(c + m[:, None] * N + n[None], acc, (m[:, None] < M) & (n[None] < N))


def matmul(a, b, out_dtype):
    m, (n, k) = a.shape[0], b.shape
    is_plain = isinstance(a, torch.Tensor)
    x, s = (a, a) if is_plain else (a.codes, a.scales)
    given = [part.contiguous() for part in (x, s, b.codes, b.scales)]
    c = torch.empty(m, n, device="cuda")
    forms = "bf16" if is_plain else "e4m3", "e2m1" if b.format == "mxfp4" else "e4m3"
    kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](*given, c, m, n, k, *forms, 64, 64, 128)
    return c
