"""Volume: random bits through the fast kernels against the plain ones and against the model, and tensors beyond 32 bits.

A plain run takes a small amount; MXSPEC_GPU_VOLUME=full, which the committed evidence is made with, takes all.
"""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec_gpu.plans import plan_any
from mxspec_gpu.views import Matrix

from tests.gpu.arithmetic import DTYPES, FORMAT_LEVELS, LEVELS, Level, level_id, native_values, rules_of
from tests.gpu.compare import compare_arrays, expect, gpu_tensor, model_tensor
from tests.gpu.device import FULL, POISON, SEED, Tally, cp, require_gpu, require_memory, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

ELEMENTS = 1 << (26 if FULL else 20)


def fuzz_input(kind: int, elements: int, dtype: str, seed: int) -> Any:
    """Random bits of three kinds: all patterns; exponents near each other in a block; halves of a power of two's grid."""
    cupy = cp()
    rng = cupy.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, elements * (4 if dtype == "float32" else 2) // 4, dtype=cupy.uint32)
    if dtype == "float32":
        if kind == 0:
            return words.view(cupy.float32)
        base = cupy.repeat(rng.integers(1, 247, elements // 32, dtype=cupy.uint32), 32)
        exponent = base + (words >> cupy.uint32(23) & cupy.uint32(7))
        mantissa = words & cupy.uint32(0x7FFFFF if kind == 1 else 0x780001)
        return ((words & cupy.uint32(0x80000000)) | exponent << cupy.uint32(23) | mantissa).view(cupy.float32)
    bits = words.view(cupy.uint16)
    mantissa_bits, top = (7, 247) if dtype == "bfloat16" else (10, 23)
    if kind:
        base = cupy.repeat(rng.integers(1, top, elements // 32, dtype=cupy.uint16), 32)
        low = cupy.uint16((1 << mantissa_bits) - 1)
        if kind == 2:
            low = cupy.uint16(((1 << mantissa_bits) - 1) & ~((1 << (mantissa_bits - 4)) - 2))
        bits = (
            (bits & cupy.uint16(0x8000)) | (base + (bits >> cupy.uint16(12) & cupy.uint16(7))) << cupy.uint16(mantissa_bits) | (bits & low)
        )
    return bits.view(ml_dtypes.bfloat16 if dtype == "bfloat16" else cupy.float16)


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
def test_fast_kernels_against_plain_ones(level: Level, tally: Tally) -> None:
    """Every byte on the chip; some against the model."""
    profile, fmt, _ = level
    rules, native = rules_of(level), native_values(rules_of(level))[0]
    tensor = gpu_tensor(level, native)
    for dtype in DTYPES:
        for kind in range(3):
            x = fuzz_input(kind, ELEMENTS, dtype, SEED + 100 * LEVELS.index(level) + kind).reshape(-1, 4096)
            q = mxspec_gpu.quantize(x, fmt, profile=profile, tensor_scale=tensor)
            codes, scales = cp().full_like(q.codes, POISON), cp().full_like(q.scales, POISON)
            (plain,) = plan_any(rules, Matrix(x.shape[0], 4096, 4096, 1), dtype, 0, tiled=False, random=0)
            address = 0 if tensor is None else tensor.data.ptr
            plain(x.data.ptr, codes.data.ptr, scales.data.ptr, address, 0, 0, 0, cp().cuda.get_current_stream().ptr)
            different = sum(int((a.view("uint8") != b.view("uint8")).sum()) for a, b in ((codes, q.codes), (scales, q.scales)))
            tally.compared += codes.size + scales.size
            if different:
                tally.fail(f"{level_id(level)} {dtype} kind {kind}: {different} bytes differ between fast and plain")
            label = f"{level_id(level)} {dtype} kind {kind}"
            compare_arrays(tally, (q.codes[:16], q.scales[:16]), expect(level, to_host(x[:16]), native), "row-major", label)


def test_every_element_against_the_model(tally: Tally) -> None:
    """Blocks of random bits until 10**10 elements (10**7 in a plain run) were compared with the CPU model, or 240 s are over."""
    goal, most_seconds = (10**10, 240) if FULL else (10**7, 60)
    levels = [*FORMAT_LEVELS, ("vllm-0.33/nvfp4/kernel", "nvfp4", True)]
    start, rounds = time.perf_counter(), 0
    while tally.compared < goal and time.perf_counter() - start < most_seconds:
        for level in levels:
            natives = native_values(rules_of(level))
            native = natives[rounds % len(natives)]
            for dtype in ("bfloat16", "float32"):
                x = fuzz_input(1 + rounds % 2, ELEMENTS, dtype, SEED + 7919 * rounds + tally.compared % 104729).reshape(-1, 4096)
                q = mxspec_gpu.quantize(x, level[1], profile=level[0], tensor_scale=gpu_tensor(level, native))
                want = mxspec.quantize(to_host(x), level[1], profile=level[0], tensor_scale=model_tensor(level, native))
                got = to_host(q.unpack()), to_host(q.scales)
                label = f"{level_id(level)} {dtype} round {rounds}"
                if not (np.array_equal(got[0], want.codes) and np.array_equal(got[1], want.scales)):
                    tally.equal(got[0], np.asarray(want.codes), f"{label} codes")
                    tally.equal(got[1], np.asarray(want.scales), f"{label} scales")
                tally.compared += x.size
        rounds += 1
    tally.more["elements compared with the model"] = tally.compared


@pytest.mark.skipif(not FULL, reason="takes 30 GiB; MXSPEC_GPU_VOLUME=full runs it")
def test_more_than_32_bits_of_elements(tally: Tally) -> None:
    require_memory(30 << 30)
    rows, columns = 131328, 32768  # 4.3e9 elements
    big = cp().zeros((rows, columns), cp().float16)
    piece = cp().random.default_rng(4).standard_normal((256, columns), dtype=cp().float32).astype(cp().float16)
    big[-256:] = piece
    q = mxspec_gpu.quantize(big, "mxfp8_e4m3", scale_layout="128x4")
    small = mxspec_gpu.quantize(piece, "mxfp8_e4m3", scale_layout="128x4")
    tally.equal(to_host(q.codes[-256:]), to_host(small.codes), "codes")
    tally.equal(to_host(q.scales[-small.scales.size :]), to_host(small.scales), "scales")
    tally.require(not int(q.codes[:-256].any()), "zeros were not quantized to zeros")
    values = q.dequantize("float16")
    tally.require(bool((values[-256:] == small.dequantize("float16")).all()), "values differ")
    del q, values
    turned = big.reshape(2, -1, columns).transpose(1, 0, 2)
    q = mxspec_gpu.quantize(turned, "mxfp8_e4m3")
    plain = mxspec_gpu.quantize(piece, "mxfp8_e4m3")
    tally.equal(to_host(q.codes[-256:, 1]), to_host(plain.codes), "codes of a view that is copied")
    tally.compared += rows * columns


@pytest.mark.skipif(not FULL, reason="takes 30 GiB; MXSPEC_GPU_VOLUME=full runs it")
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("fmt", "columns"), [("mxfp4", (1 << 30) + 128), ("nvfp4", (1 << 29) + 64), ("nvfp4", (1 << 29) + 32)])
def test_tiles_beyond_32_bits(fmt: str, columns: int, rows: int, tally: Tally) -> None:
    """Padded scales of more than 4 GiB: the last ones lie where the index formula says, the first ones are not overwritten."""
    require_memory(30 << 30)
    k = mxspec.BLOCKS[fmt].k
    level = ("mx-floor", "mxfp4", False) if fmt == "mxfp4" else ("nvfp4-te", "nvfp4", False)
    piece = np.random.default_rng(5).standard_normal((rows, 4 * k)).astype(ml_dtypes.bfloat16) * 9
    x = cp().zeros((rows, columns), ml_dtypes.bfloat16)
    x[:, -4 * k :] = to_gpu(piece.astype(ml_dtypes.bfloat16))
    q = mxspec_gpu.quantize(x, fmt, profile=level[0], scale_layout="128x4")
    _, scales, _ = expect(level, piece.astype(ml_dtypes.bfloat16), 1.0)
    blocks = columns // k
    at = [[(c // 4) * 512 + r % 32 * 16 + r // 32 * 4 + c % 4 for c in range(blocks - 4, blocks)] for r in range(rows)]
    tally.equal(to_host(q.scales[cp().asarray(np.array(at))]), scales, f"{fmt} {rows} {columns}: last scales")
    counts = int((q.scales != 0).sum()), int((scales != 0).sum())
    tally.require(counts[0] == counts[1], f"{fmt} {rows} {columns}: {counts[0]} scales are not zero, expected {counts[1]}")
    values = q.dequantize("bfloat16")
    want = mxspec_gpu.quantize(to_gpu(piece.astype(ml_dtypes.bfloat16)), fmt, profile=level[0]).dequantize("bfloat16")
    tally.equal(to_host(values[:, -4 * k :]).view(np.uint16), to_host(want).view(np.uint16), f"{fmt} {rows} {columns}: values")
    tally.require(not bool(values[:, : -4 * k].any()), f"{fmt} {rows} {columns}: zeros came back as something else")
    tally.compared += rows * columns
