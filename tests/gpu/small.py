"""Every kernel once or more on small shapes, and every view: what compute-sanitizer watches.

Every array has an allocation of its own, so that a read beyond it is seen.

`compute-sanitizer --tool memcheck python -m tests.gpu.small` (racecheck, initcheck, synccheck likewise).
"""

from __future__ import annotations

import numpy as np

import mxspec
import mxspec_gpu
from mxspec.affine import Offset
from mxspec.tensorscale import TensorScale
from mxspec_gpu import fp8, kernels, product_kernels, records, step_kernels, steps
from mxspec_gpu.arrays import view_array
from mxspec_gpu.build import import_cupy
from mxspec_gpu.tiles import list_tunings, multiply_tiles

from tests.gpu import arithmetic
from tests.gpu.compare import layouts_of
from tests.gpu.device import cp, is_hopper, to_gpu
from tests.gpu.gated import FUSED_LEVELS, draw_norm
from tests.gpu.views import VIEWS, apply

LEVELS = (*((("mx-floor", f, False)) for f in mxspec.BLOCKS if f != "nvfp4"), ("mx-rceil", "mxfp4", False), ("nvfp4-te", "nvfp4", True))


def _transformed(rng: np.random.Generator) -> int:
    """The transform: rows, columns and both, nearest and stochastic."""
    calls = 0
    profile, signs = "te-2.14/nvfp4/kernel-rht", 0x5A3C
    scale = TensorScale.from_float("amax", 3.0)
    for shape in ((160, 192), (3, 96), (130, 33), (48, 80)):
        x = rng.standard_normal(shape).astype(arithmetic.DTYPES["bfloat16"])
        x.reshape(-1)[7] = np.inf
        g = to_gpu(x)
        for axis in (-1, 0):
            for seed in (None, 3):
                mxspec_gpu.quantize(g, "nvfp4", profile=profile, axis=axis, tensor_scale=scale, pad=True, seed=seed, signs=signs)
                calls += 1
            if shape[axis] % 16 == 0:
                mxspec_gpu.tensor_scale(g, "nvfp4", profile, signs=signs, axis=axis)
                calls += 1
    both = to_gpu(rng.standard_normal((160, 192)).astype(arithmetic.DTYPES["bfloat16"]))
    for seed in (None, 3):
        mxspec_gpu.quantize_both(both, "nvfp4", profile=profile, tensor_scale=scale, seed=seed, signs=signs)
        calls += 1
    return calls


def _square(rng: np.random.Generator) -> int:
    """Blocks of 16 x 16."""
    calls = 0
    for shape in ((160, 192), (16, 1040), (33, 47), (5, 96)):
        for dtype in ("float32", "bfloat16"):
            x = rng.standard_normal(shape).astype(arithmetic.DTYPES[dtype])
            x.reshape(-1)[7], x.reshape(-1)[50] = np.nan, np.inf
            for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                for seed in (None, 3):
                    mxspec_gpu.quantize(to_gpu(x), "nvfp4", block=(16, 16), scale_layout=layout, seed=seed, pad=True).dequantize()
                    calls += 2
    return calls


def _lookups(rng: np.random.Generator) -> int:
    """Products with vectors, and rows by number."""
    calls = 0
    for fmt in ("mxfp4", "nvfp4"):
        for n, k in ((1, 32), (40, 160), (64, 1056), (70, 512), (8200, 1280), (8200, 256)):
            codes = to_gpu(rng.integers(0, 256, (n, k // 2), dtype=np.uint8))
            scales = to_gpu(rng.integers(100, 120, (n, k // mxspec.BLOCKS[fmt].k), dtype=np.uint8))
            for m in (1, 3, 9, 17, 40, 50):
                mxspec_gpu.gemv(to_gpu(np.ones((m, k), arithmetic.DTYPES["bfloat16"])), codes, scales, fmt)
                calls += 1
            mxspec_gpu.embedding(to_gpu(np.array([0, n - 1, n, -1])), codes, scales, fmt)
            calls += 1
    return calls


def _experts(rng: np.random.Generator) -> int:
    """Rows of experts, with and without tensor scales."""
    calls = 0
    for fmt, tensor in (("mxfp4", None), ("nvfp4", "auto"), ("mxfp8_e4m3", None), ("mxfp6_e2m3", None)):
        for rows in ((5, 0, 130, 1), (0, 0), (128,)):
            x = to_gpu(rng.standard_normal((sum(rows), 512)).astype(arithmetic.DTYPES["bfloat16"]))
            for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                mxspec_gpu.quantize_experts(x, rows, fmt, tensor_scales=tensor, scale_layout=layout).dequantize()
                calls += 2
    return calls


def _stored(rng: np.random.Generator) -> int:
    """Stored weights and products: records, affine and sparse codes, exact products; and the documents' steps."""
    bf16, calls = arithmetic.DTYPES["bfloat16"], 0
    for fmt, (size, _) in records.RECORDS.items():
        k = mxspec.BLOCKS[fmt].k
        for count in (1, 5, 131):
            held = to_gpu(rng.integers(0, 127, (1, count * size), dtype=np.uint8))
            codes, scales = mxspec_gpu.unpack_records(held, fmt)
            mxspec_gpu.pack_records(codes, scales, fmt)
            for dtype in ("float32", "bfloat16"):
                mxspec_gpu.dequantize_records(held, fmt, dtype=dtype)
            steps.dequantize_elements(held, fmt)
            steps.dequantize_blocks(held, fmt)
            for way in step_kernels.WAYS:
                steps.dequantize_ways(codes, scales, fmt, way)
            calls += 9
        for shape in ((1, 32), (3, 96), (131, 2080)):
            for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                steps.quantize_grid_stride(to_gpu(rng.standard_normal(shape).astype(bf16)), fmt, scale_layout=layout)
                calls += 1
        for n, dense in ((1, 64), (40, 192), (65, 1344)):
            kept, nibbles = to_gpu(rng.integers(0, 256, (n, dense // 4), dtype=np.uint8)), to_gpu(np.full((n, dense // 8), 0x94, np.uint8))
            scales = to_gpu(rng.integers(100, 120, (n, dense // k), dtype=np.uint8))
            for dtype in ("float32", "float16"):
                mxspec_gpu.sparse_dequantize(kept, nibbles, scales, fmt, dtype=dtype)
            mxspec_gpu.sparse_dequantize(kept, nibbles[:, : dense // 16].copy(), scales, fmt, sparsity="4:8")
            for m in (1, 9):
                mxspec_gpu.sparse_gemv(to_gpu(np.ones((m, dense), bf16)), kept, nibbles, scales, fmt)
            calls += 5
        for m, n, deep in ((1, 1, 32), (33, 70, 160)):
            sides = [
                mxspec_gpu.Operand(
                    to_gpu(rng.integers(0, 256, (rows, deep // 2), dtype=np.uint8)), to_gpu(np.full((rows, deep // k), 56, np.uint8)), fmt
                )
                for rows in (m, n)
            ]
            mxspec_gpu.exact_product(*sides)
            for rows in (m, 60):
                bias = to_gpu(np.ones(n, bf16))
                mxspec_gpu.gemm(to_gpu(np.ones((rows, deep), bf16)), sides[1].codes, sides[1].scales, fmt, bias=bias)
            calls += 3
        if is_hopper():
            rows = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((130, 320), (130, 640 // k))]
            arrays = to_gpu(np.ones((40, 640), bf16)), *map(to_gpu, rows), cp().empty((40, 130), np.float32)
            views = [view_array(a, "a") for a in arrays]
            for tuning in list_tunings():
                multiply_tiles(*views[:3], mxspec.BLOCKS[fmt], views[3], alpha=(0, 0x3F800000), bias=0, tuning=tuning)
                calls += 1
            shapes = (3, 130, 96), (3, 130, 192 // k)
            experts = [to_gpu(rng.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]
            for m in (5, 300):
                offsets = to_gpu(np.array([0, 2, 2, m], np.int32))
                mxspec_gpu.grouped_gemm(to_gpu(np.ones((m, 192), bf16)), *experts, fmt, offsets)
                calls += 1
    for affine in (f for f in product_kernels.AFFINE_FORMATS if f.group > 32):
        half = arithmetic.DTYPES[affine.dtype]
        for n, deep in ((1, affine.group), (40, 3 * affine.group), (65, 21 * affine.group), (70, 1536)):
            codes, scales = to_gpu(rng.integers(0, 256, (n, deep // 2), dtype=np.uint8)), to_gpu(np.ones((n, deep // affine.group), half))
            offsets = to_gpu(np.ones((n, deep // affine.group), half if affine.offset is Offset.BIAS else np.uint8))
            for dtype in ("float32", "bfloat16"):
                mxspec_gpu.affine_dequantize(codes, scales, offsets, affine, dtype=dtype)
            for m in (2, 17, 33, 64):
                mxspec_gpu.affine_gemv(to_gpu(np.ones((m, deep), half)), codes, scales, offsets, affine)
            for m in (1, 9):
                mxspec_gpu.affine_gemv(to_gpu(np.ones((m, deep), half)), codes, scales, offsets, affine)
                steps.affine_matmul_naive(to_gpu(np.ones((m, deep), half)), codes, scales, offsets, affine)
            calls += 10
    return calls


def _groups(rng: np.random.Generator) -> int:
    """Groups of 128, and norms, scales in every layout."""
    calls = 0
    for level in arithmetic.GROUP_LEVELS[1::4]:
        for shape in ((160, 640), (3, 300), (129, 256)):
            for dtype in ("float32", "bfloat16"):
                x = rng.standard_normal(shape).astype(arithmetic.DTYPES[dtype])
                x.reshape(-1)[7], x.reshape(-1)[450] = np.nan, np.inf
                for layout in layouts_of(level):
                    for axis in (-1, 0):
                        mxspec_gpu.quantize(to_gpu(x), level[1], profile=level[0], axis=axis, scale_layout=layout, pad=True).dequantize()
                        calls += 2
                    if dtype == "bfloat16" and shape[1] % 256 == 0:
                        mxspec_gpu.quantize_silu_mul(to_gpu(x), level[1], profile=level[0], scale_layout=layout)
                        calls += 1
    for profile, fmt, _ in FUSED_LEVELS:
        for dtype, rows, k in (("bfloat16", 130, 384), ("float16", 3, 4096), ("bfloat16", 2, 16512)):
            x, weight = draw_norm(dtype, rows, k, 1, exact=False)
            for layout in layouts_of((profile, fmt, False)):
                mxspec_gpu.quantize_rms_norm(to_gpu(x), to_gpu(weight), fmt, eps=1e-6, profile=profile, scale_layout=layout)
                calls += 1
    return calls


def _products_of_groups(rng: np.random.Generator) -> int:
    """FP8 in groups: every tile, scales of both kinds, ragged on all sides."""
    calls = 0
    for m, n, k in ((3, 41, 16), (200, 300, 400)):
        codes = [to_gpu(rng.integers(0, 256, (rows, k), dtype=np.uint8)) for rows in (m, n)]
        for kind in (np.float32, np.uint8):
            scales = [to_gpu(np.full((rows, -(-k // 128)), 100, kind)) for rows in (m, -(-n // 128))]
            views = [view_array(a, "a") for pair in zip(codes, scales, strict=True) for a in pair]
            for tuning in fp8.list_tunings():
                out = view_array(cp().empty((m, n), np.float32), "out")
                fp8.multiply_groups(views[0], views[1], views[2], views[3], out, tuning=tuning)
                calls += 1
    return calls


def main() -> None:
    """Run them all."""
    cupy = import_cupy()
    cupy.cuda.set_allocator(None)
    rng = np.random.default_rng(1)
    calls = _products_of_groups(rng) if is_hopper() else 0
    for profile, fmt, two in LEVELS:
        for dtype in ("float32", "bfloat16"):
            tensor = cupy.asarray(np.ones(1, np.float32)) if two else None
            for shape in ((160, 192), (3, 96), (130, 33)):
                x = rng.standard_normal(shape).astype(arithmetic.DTYPES[dtype])
                x.reshape(-1)[7] = np.nan
                x.reshape(-1)[50] = np.inf
                g = to_gpu(x)
                for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                    for axis in (-1, 0):
                        q = mxspec_gpu.quantize(g, fmt, profile=profile, tensor_scale=tensor, axis=axis, scale_layout=layout, pad=True)
                        for out in ("float32", "bfloat16"):
                            q.dequantize(out)
                        q.unpack()
                        calls += 4
                    if dtype != "float32" and shape[0] % 32 == 0 and shape[1] % 32 == 0:
                        mxspec_gpu.quantize_both(g, fmt, profile=profile, tensor_scale=tensor, scale_layout=layout)
                        calls += 1
                words = cupy.asarray(rng.integers(0, 1 << 32, shape, dtype=np.uint32))
                mxspec_gpu.quantize(g, fmt, profile=profile, tensor_scale=tensor, pad=True, random_bits=words)
                mxspec_gpu.quantize(g, fmt, profile=profile, tensor_scale=tensor, pad=True, seed=3)
                calls += 2
            if two:
                mxspec_gpu.quantize(g, fmt, profile=profile, tensor_scale="auto", pad=True)
                calls += 1
    for view in VIEWS:
        for fmt, tensor_scale in (("mxfp4", None), ("nvfp4", "auto")):
            given = apply(view, to_gpu(rng.standard_normal(view.shape).astype(np.float16)))
            for axis in range(given.ndim):
                for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                    mxspec_gpu.quantize(given, fmt, axis=axis, tensor_scale=tensor_scale, scale_layout=layout, pad=True)
                    calls += 1
        codes = apply(view, to_gpu(rng.integers(0, 16, view.shape, dtype=np.uint8)))
        mxspec_gpu.decode(codes, "e2m1")
        mxspec_gpu.unpack(codes, "mxfp4")
        calls += 2
    calls += _square(rng) + _transformed(rng) + _lookups(rng) + _stored(rng) + _experts(rng) + _groups(rng)
    x32 = cupy.asarray(rng.standard_normal(1000).astype(np.float32))
    for name in kernels.SCALARS:
        codes = mxspec_gpu.encode(x32, name)
        mxspec_gpu.decode(codes, name)
        calls += 2
    cupy.cuda.Device().synchronize()
    print(f"{calls} calls")


if __name__ == "__main__":
    main()
