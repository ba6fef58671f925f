"""The documents' steps: each gives the model's bits, and what the real kernels give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec import affine, layouts
from mxspec_gpu import steps
from mxspec_gpu.product_kernels import AFFINE_FORMATS
from mxspec_gpu.step_kernels import HALVES, WAYS

from tests.gpu.arithmetic import DTYPES, LEVELS, Level, level_id, native_values, pack, random_blocks, rules_of, sixteen_bit_blocks
from tests.gpu.compare import LAYOUTS, compare_arrays, expect, gpu_tensor, lay_out, message_of, model_tensor
from tests.gpu.device import FULL, LIBRARIES, SEED, Guarded, Tally, bits_of, require_gpu, to_gpu, to_host
from tests.gpu.products import draw_affine

pytestmark = pytest.mark.gpu
require_gpu()

#: Levels of four-bit blocks: the only ones that the steps have.
FOUR_BITS = tuple(level for level in LEVELS if mxspec.BLOCKS[level[1]].element.name == "e2m1")
#: Columns: one thread, lanes that leave the loop in its first, second and last turn, whole turns (E42 of the documents).
WIDTHS = (32, 48, 96, 256, 288, 2048, 2064, 2400, 4096, 4128)
STEPS = (steps.dequantize_elements, steps.dequantize_blocks)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("level", FOUR_BITS, ids=level_id)
def test_grid_stride_of_all_numbers(level: Level, dtype: str, tally: Tally) -> None:
    """All 16-bit numbers, NaN and infinities among them, in both layouts of scales."""
    k = rules_of(level).fmt.k
    blocks = np.concatenate([sixteen_bit_blocks(dtype, k), random_blocks(dtype, k, 4096, SEED)])
    x = blocks[: len(blocks) // 128 * 128].reshape(-1, 128 * k)
    for native in native_values(rules_of(level)):
        want = expect(level, x, native)
        for layout in LAYOUTS:
            guarded = Guarded(want[0].shape, lay_out(want[1], layout).shape)
            guarded.arrays[1].fill(0)
            label = f"{level_id(level)} {dtype} {layout} {native}"
            given = gpu_tensor(level, native)
            got = steps.quantize_grid_stride(
                to_gpu(x), level[1], profile=level[0], tensor_scale=given, scale_layout=layout, out=guarded.arrays
            )
            compare_arrays(tally, got, want, layout, label)
            tally.require(guarded.intact(), f"{label}: wrote outside its outputs")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("level", [level for level in FOUR_BITS if level[0].startswith(("mx-floor", "nvfp4-te", "lightx2v"))], ids=level_id)
def test_grid_stride_of_every_width(level: Level, library: str, tally: Tally) -> None:
    """Rows that end within a warp, more rows than blocks of threads, one row; views are copied."""
    fmt, native = rules_of(level).fmt, native_values(rules_of(level))[0]
    tensor = model_tensor(level, native)
    for columns in WIDTHS:
        if columns % fmt.k:
            continue
        for rows in (1, 7, 130, 3000):
            x = random_blocks("bfloat16", fmt.k, rows * columns // fmt.k, rows).reshape(rows, columns)
            want = expect(level, x, native)
            for layout in LAYOUTS:
                label = f"{level_id(level)} {rows} x {columns} {layout} {library}"
                got = steps.quantize_grid_stride(to_gpu(x, library), level[1], profile=level[0], tensor_scale=tensor, scale_layout=layout)
                compare_arrays(tally, got, want, layout, label)
    x = random_blocks("float16", fmt.k, 256, 3).reshape(16, -1)
    turned = to_gpu(np.ascontiguousarray(x[::-1].T), library)
    got = steps.quantize_grid_stride(turned.T, level[1], profile=level[0], tensor_scale=tensor)
    compare_arrays(tally, got, expect(level, x[::-1], native), "row-major", f"{level_id(level)} transposed")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("level", FOUR_BITS, ids=level_id)
def test_ways(level: Level, dtype: str, tally: Tally) -> None:
    """Every code under every scale byte, two, four and eight a thread; ragged counts; both libraries."""
    fmt, kind = rules_of(level).fmt, DTYPES[dtype]
    codes = np.resize(np.arange(16, dtype=np.uint8), (256, 3 * fmt.k))
    scales = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    if fmt.scale.name != "e8m0":
        scales &= 0x7F
    for native in native_values(rules_of(level)):
        tensor = model_tensor(level, native)
        with np.errstate(all="ignore"):
            want = mxspec.dequantize(codes, scales, level[1], profile=level[0], tensor_scale=tensor, dtype=kind)
        for way in WAYS:
            for rows in (256, 1):
                for library in LIBRARIES:
                    got = steps.dequantize_ways(
                        to_gpu(pack(codes[-rows:], 4), library), to_gpu(scales[-rows:], library), level[1], way, profile=level[0],
                        tensor_scale=tensor, dtype=dtype,
                    )  # fmt: skip
                    tally.equal(bits_of(to_host(got)), bits_of(want[-rows:]), f"{level_id(level)} {way} {dtype} {rows} {library}")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_records(fmt: str, library: str, tally: Tally) -> None:
    """Every code under every scale byte in ggml's records, a thread an element and a thread a record."""
    block = mxspec.BLOCKS[fmt]
    rng = np.random.default_rng(SEED)
    blocks = 256 * 8
    codes = rng.integers(0, 16, (blocks // 8, 8 * block.k), dtype=np.uint8)
    codes[:, : block.k] = np.resize(np.arange(16), block.k)
    scales = rng.permutation(np.resize(np.arange(256 if fmt == "mxfp4" else 128, dtype=np.uint8), blocks)).reshape(blocks // 8, 8)
    records = layouts.pack_blocks(codes, scales, f"ggml-{fmt}").reshape(blocks // 8, -1)
    for dtype in HALVES:
        with np.errstate(all="ignore"):
            want = mxspec.dequantize(codes, scales, fmt, dtype=DTYPES[dtype])
        for step in STEPS:
            for rows in (blocks // 8, 1, 0):
                got = step(to_gpu(records[:rows], library), fmt, dtype=dtype)
                tally.equal(bits_of(to_host(got)), bits_of(want[:rows]), f"{step.__name__} {fmt} {dtype} {library} {rows}")
        guarded = Guarded((want.nbytes,))
        for step in STEPS:
            step(to_gpu(records), fmt, dtype=dtype, out=guarded.arrays[0].view(DTYPES[dtype]).reshape(want.shape))
            tally.require(guarded.intact(), f"{step.__name__} {fmt}: wrote outside its output")


@pytest.mark.parametrize("fmt", AFFINE_FORMATS, ids=lambda fmt: fmt.name)
def test_affine_product(fmt: affine.AffineFormat, tally: Tally) -> None:
    """The sequential float32 product of the model under every contract in float32: one right answer for each output."""
    for contract in affine.list_contracts(fmt):
        if contract.dtype != "float32":
            continue
        for m, n, k in ((1, fmt.group, 1), (33, 3 * fmt.group, 9), (70, 1024, 40)):
            codes, scales, offsets = draw_affine(fmt, k, n, m)
            x = np.random.default_rng(m).standard_normal((m, n)).astype(DTYPES[fmt.dtype])
            want = affine.quantized_matmul(
                x, affine.AffineTensor(format=fmt, codes=codes, scales=scales, offsets=offsets), contract=contract
            )
            for library in LIBRARIES:
                parts = to_gpu(pack(codes, 4), library), to_gpu(scales, library), to_gpu(offsets, library)
                label = f"{fmt.name} {contract.name} {m} {n} {k} {library}"
                guarded = Guarded((want.nbytes,))
                out = guarded.arrays[0].view(DTYPES[fmt.dtype]).reshape(want.shape) if library == "cupy" else None
                got = steps.affine_matmul_naive(to_gpu(x, library), *parts, fmt, contract=contract, out=out)
                tally.equal(bits_of(to_host(got)), bits_of(want), label)
                tally.require(guarded.intact(), f"{label}: wrote outside its output")
            one = steps.affine_matmul_naive(to_gpu(x[-1]), *(to_gpu(a) for a in (pack(codes, 4), scales, offsets)), fmt, contract=contract)
            tally.equal(bits_of(to_host(one)), bits_of(want[-1]), f"{fmt.name} {contract.name}: one vector")


def test_the_real_kernels_agree(tally: Tally) -> None:
    """On more than the model can be asked for in a test."""
    rows = 8192 if FULL else 1024
    for fmt, profile in (("mxfp4", "lightx2v-0.0.1/mxfp4"), ("nvfp4", "lightx2v-0.0.1/nvfp4")):
        x = to_gpu(random_blocks("bfloat16", 32, rows * 128, 7).reshape(rows, -1))
        tensor = to_gpu(np.array([3.5], np.float32)) if fmt == "nvfp4" else None
        want = mxspec_gpu.quantize(x, fmt, profile=profile, tensor_scale=tensor, scale_layout="128x4")
        got = steps.quantize_grid_stride(x, fmt, profile=profile, tensor_scale=tensor, scale_layout="128x4")
        tally.equal(to_host(got[0]), to_host(want.codes), f"{fmt} codes")
        tally.equal(to_host(got[1]), to_host(want.scales), f"{fmt} scales")


def test_wrong_calls(tally: Tally) -> None:
    x, codes, scales = to_gpu(np.zeros((4, 64), np.float16)), to_gpu(np.zeros((4, 32), np.uint8)), to_gpu(np.zeros((4, 2), np.uint8))
    records, groups = to_gpu(np.zeros((4, 34), np.uint8)), to_gpu(np.ones((4, 1), np.float16))
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: steps.quantize_grid_stride(x.astype("float32"), "mxfp4"), TypeError, "the steps have float16, bfloat16"),
        (lambda: steps.quantize_grid_stride(x[:, :48], "mxfp4"), ValueError, "K a multiple of the 32-element block"),
        (lambda: steps.quantize_grid_stride(x, "mxfp8_e4m3"), ValueError, "the steps are of mxfp4 and nvfp4"),
        (lambda: steps.quantize_grid_stride(x, "mxfp4", out=(codes, x)), ValueError, "out has dtype float16"),
        (lambda: steps.dequantize_ways(codes, scales, "mxfp4", 3), ValueError, "way = 3; allowed are 2, 4, 8"),
        (lambda: steps.dequantize_ways(codes, scales, "mxfp4", 8, dtype="float32"), TypeError, "the steps have float16, bfloat16"),
        (lambda: steps.dequantize_ways(codes, scales[:, :1], "mxfp4", 8), ValueError, "do not match for packed mxfp4"),
        (lambda: steps.dequantize_elements(records[:, :33], "mxfp4"), ValueError, "a multiple of 17 bytes"),
        (lambda: steps.dequantize_blocks(records, "mxfp4", out=records), ValueError, "out has dtype uint8"),
        (
            lambda: steps.affine_matmul_naive(x, codes, groups, groups, "int4-g64-bias-float16", contract="exact"),
            ValueError,
            "this step has float32",
        ),
        (lambda: steps.affine_matmul_naive(x[:, :32], codes, groups, groups, "int4-g64-bias-float16"), ValueError, "do not match"),
    )
    for call, kind, words in calls:
        message = message_of(call, kind)
        tally.require(words in message, message)
