"""Whole launches of the quantizing kernels on a host: what each thread reads and writes, in every layout, held to the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mxspec
from mxspec.adjacent import ADJACENT
from mxspec.rounding import Overflow
from mxspec_gpu import plans
from mxspec_gpu.arguments import FLOAT_SCALE_LAYOUTS, check_format

from tests.cuda_on_host import on_host as on_host, run_dequantize, run_quantize
from tests.gpu.arithmetic import (
    DTYPES,
    GROUP_LEVELS,
    Level,
    level_id,
    native_values,
    random_blocks,
    rules_of,
    scale_codes,
    threshold_blocks,
)
from tests.gpu.compare import expect, lay_out, layouts_of, model_tensor, normal, pack_rows
from tests.gpu.device import Array, bits_of
from tests.gpu.gated import draw_gated, draw_norm, judge_norm, normalize
from tests.test_gpu_arithmetic import counter_bytes

#: Calls that take each kernel and each of its ways of reading and of writing scales: level, dtype, shape, axis, layout of the scales.
CALLS: tuple[tuple[Level, str, tuple[int, ...], int, str], ...] = (
    (("mx-floor", "mxfp4", False), "bfloat16", (256, 256), -1, "128x4"),
    (("mx-floor", "mxfp4", False), "float32", (5, 96), -1, "row-major"),
    (("mx-floor", "mxfp4", False), "bfloat16", (40, 70), -1, "128x4"),
    (("mx-rceil", "mxfp8_e4m3", False), "bfloat16", (3, 320), -1, "row-major"),
    (("mx-floor", "mxfp8_e5m2", False), "float16", (64, 96), 0, "128x4"),
    (("mx-even", "mxfp6_e2m3", False), "float16", (33, 160), -1, "128x4"),
    (("mx-ceil", "mxint8", False), "bfloat16", (96, 21), 0, "row-major"),
    (("nvfp4-te", "nvfp4", True), "bfloat16", (130, 208), -1, "128x4"),
    (("nvfp4-te", "nvfp4", True), "float32", (48, 30), 0, "row-major"),
    (("mx-floor", "mxfp4", False), "bfloat16", (300, 5), 0, "128x4"),
    (("mx-rceil", "fp8_e4m3-128", False), "bfloat16", (256, 1024), -1, "128x4"),
    (("deepgemm-2.6/fp8-128/ue8m0-cuda", "fp8_e4m3-128", False), "float32", (37, 512), -1, "128x4"),
    (("deepgemm-2.6/fp8-128/ue8m0", "fp8_e4m3-128", False), "float16", (9, 300), -1, "row-major"),
    (("vllm-0.33/fp8-128/cuda", "fp8_e4m3-128-f32", False), "bfloat16", (3, 5, 1280), -1, "column-major"),
    (("deepgemm-2.6/fp8-128/float32-cuda", "fp8_e4m3-128-f32", False), "float16", (64, 200), 0, "column-major"),
    (("te-2.20/fp8-128/float32/e5m2", "fp8_e5m2-128-f32", False), "float32", (7, 129), -1, "row-major"),
)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0][1]}-{call[1]}-{call[2][0]}x{call[2][1]}-axis{call[3]}-{call[4]}")
def test_launches_write_what_the_model_gives(call: tuple[Level, str, tuple[int, ...], int, str], on_host: None) -> None:
    level, dtype, shape, axis, layout = call
    native = native_values(rules_of(level))[0]
    x = normal(shape, dtype)
    bits = int(np.float32(native).view(np.uint32)) if level[2] else None
    codes, scales = run_quantize(x, level[1], level[0], axis=axis, scale_layout=layout, pad=True, tensor=bits)
    want, want_scales, pinned = expect(level, x, native, axis)
    np.testing.assert_array_equal(scales, lay_out(want_scales, layout))
    np.testing.assert_array_equal(np.where(pinned, codes, 0), np.where(pinned, want, 0))


@pytest.mark.parametrize(
    ("level", "dtype", "layout"),
    [
        (("mx-floor", "mxfp8_e4m3", False), "bfloat16", "128x4"), (("nvfp4-te", "nvfp4", True), "float16", "row-major"),
        (GROUP_LEVELS[1], "bfloat16", "column-major"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1],
)  # fmt: skip
def test_fused(level: Level, dtype: str, layout: str, on_host: None) -> None:
    """SiLU(gate) * up of every gate: the same codes and scales as of the product, quantized apart."""
    native = native_values(rules_of(level))[0]
    bits = int(np.float32(native).view(np.uint32)) if level[2] else None
    x, f = draw_gated(dtype, 130, 512, 3)
    codes, scales = run_quantize(x, level[1], level[0], scale_layout=layout, tensor=bits, fused=True)
    want, want_scales, pinned = expect(level, f, native)
    np.testing.assert_array_equal(scales, lay_out(want_scales, layout))
    np.testing.assert_array_equal(np.where(pinned, codes, 0), np.where(pinned, want, 0))


#: Whole and ragged rows of each number of threads, one longer than they hold, in every layout of scales.
NORMS: tuple[tuple[Level, str, tuple[int, int], str], ...] = (
    (("mx-floor", "mxfp8_e4m3", False), "bfloat16", (130, 1056), "128x4"),
    (("mx-floor", "mxfp4", False), "bfloat16", (3, 4096), "128x4"),
    (("mx-rceil", "mxfp4", False), "float16", (5, 5120), "row-major"),
    (("mx-floor", "mxfp6_e2m3", False), "bfloat16", (5, 192), "row-major"),
    (("mx-floor", "mxfp6_e2m3", False), "bfloat16", (2, 5120), "128x4"),
    (("nvfp4-te", "nvfp4", True), "bfloat16", (2, 16400), "row-major"),
    (("nvfp4-te", "nvfp4", True), "float16", (9, 2064), "128x4"),
    (GROUP_LEVELS[1], "bfloat16", (6, 16384), "column-major"),
    (GROUP_LEVELS[-1], "bfloat16", (5, 640), "128x4"),
)


@pytest.mark.parametrize("call", NORMS, ids=lambda call: f"{call[0][1]}-{call[1]}-{call[2][0]}x{call[2][1]}-{call[3]}")
def test_norm(call: tuple[Level, str, tuple[int, int], str], on_host: None) -> None:
    """RMSNorm: where every sum is exact, the model's bits of what the stated operations give; otherwise legal, and no other row counts."""
    level, dtype, shape, layout = call
    native = native_values(rules_of(level))[0]
    bits = int(np.float32(native).view(np.uint32)) if level[2] else None
    x, weight = draw_norm(dtype, *shape, 3)
    for eps in (1e-6, 0.25):
        codes, scales = run_quantize(x, level[1], level[0], scale_layout=layout, tensor=bits, norm=(weight, eps))
        want, want_scales, _ = expect(level, normalize(x, weight, eps), native)
        np.testing.assert_array_equal(scales, lay_out(want_scales, layout))
        np.testing.assert_array_equal(codes, want)
    x, weight = draw_norm(dtype, *shape, 4, exact=False)
    codes, scales = run_quantize(x, level[1], level[0], tensor=bits, norm=(weight, 1e-6))
    unpacked = np.unpackbits(codes, axis=1, bitorder="little").reshape(*x.shape, -1)
    found = np.packbits(unpacked, axis=2, bitorder="little")[..., 0]
    legal = judge_norm(level, x, weight, 1e-6, found, scales, model_tensor(level, native))
    assert not legal.wrong.any()
    assert legal.decided_codes.mean() > 0.98
    again = run_quantize(x[1:2], level[1], level[0], tensor=bits, norm=(weight, 1e-6))
    np.testing.assert_array_equal(again[0], codes[1:2])
    np.testing.assert_array_equal(again[1], scales[1:2])


def test_norm_of_lost_values(on_host: None) -> None:
    """A NaN makes its row NaN; an infinity, which makes r zero, itself; a sum beyond float32 makes zeros, as does a row of zeros."""
    x, weight = draw_norm("bfloat16", 5, 256, 3)
    x[0, 40], x[1, 70], x[2, 0], x[3] = np.nan, -np.inf, 3e38, 0
    codes, scales = run_quantize(x, "mxfp8_e4m3", "mx-floor", norm=(weight, 0.5))
    lost = scales == 255
    assert lost[0].all()
    assert np.flatnonzero(lost[1]).tolist() == [2]
    assert not lost[2:].any()
    assert not (codes[2:4] & 0x7F).any()
    assert (codes[4] & 0x7F).any()


@pytest.mark.parametrize("shape", [(32, 64), (16, 48)])
def test_square_blocks(shape: tuple[int, int], on_host: None) -> None:
    level: Level = ("nvfp4-te", "nvfp4", True)
    native = native_values(rules_of(level))[0]
    x = normal(shape, "bfloat16")
    codes, scales = run_quantize(x, "nvfp4", "nvfp4-te", tensor=int(np.float32(native).view(np.uint32)), square=True)
    want, want_scales, _ = expect(level, x, native, block=(16, 16))
    np.testing.assert_array_equal(scales, want_scales)
    np.testing.assert_array_equal(codes, want)


def _group_rows(level: Level, dtype: str) -> Array:
    """Blocks at every threshold of the rules where they can be, and blocks of every kind, five to a row."""
    blocks = [random_blocks(dtype, 128, 400, 11)]
    if dtype == "float32":
        blocks.append(threshold_blocks(level, 1.0)[::3])
    x = np.concatenate(blocks)
    return x[: len(x) // 5 * 5].reshape(-1, 640)


@pytest.mark.parametrize("level", GROUP_LEVELS, ids=level_id)
def test_groups_of_128(level: Level, on_host: None) -> None:
    """Contiguous rows, rows a pitch apart, rows that end within a block and start anywhere, by turns; scales in both layouts."""
    number = GROUP_LEVELS.index(level)
    x = _group_rows(level, tuple(DTYPES)[number % 3])
    wide = np.zeros((len(x), 704), x.dtype)
    wide[:, 32:672] = x
    views = (x, wide[:, 31:640]) if number % 2 else (wide[:, 32:672], x[::-1, 5:])
    for layout, view in zip(layouts_of(level), views, strict=True):
        codes, scales = run_quantize(view, level[1], level[0], scale_layout=layout, pad=True)
        want, want_scales, pinned = expect(level, view, 1.0)
        np.testing.assert_array_equal(scales, lay_out(want_scales, layout))
        np.testing.assert_array_equal(np.where(pinned, codes, 0), np.where(pinned, want, 0))


@pytest.mark.parametrize("level", [*GROUP_LEVELS[::5], ("mx-floor", "mxfp6_e2m3", False)], ids=level_id)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(level: Level, dtype: str, on_host: None) -> None:
    rules = rules_of(level)
    scales = scale_codes(rules.fmt)
    scales = scales[: len(scales) // 3 * 3].reshape(-1, 3)
    codes = np.resize(np.arange(rules.fmt.element.code_count, dtype=np.uint8), (len(scales), 3 * rules.fmt.k))
    want = mxspec.dequantize(codes, scales, level[1], profile=level[0], dtype=DTYPES[dtype])
    for layout in layouts_of(level):
        got = run_dequantize(pack_rows(codes, level), lay_out(scales, layout), rules, dtype, scale_layout=layout)
        np.testing.assert_array_equal(bits_of(got), bits_of(want))


@pytest.mark.parametrize("layout", ["row-major", "column-major"])
def test_groups_of_several_launches(layout: str, on_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more blocks than one launch takes: cut anywhere, or after whole rows."""
    monkeypatch.setattr(plans, "MAX_BLOCKS", 40)  # of 32 elements: ten of 128, five back
    level = GROUP_LEVELS[1]
    rules, x = rules_of(level), _group_rows(level, "bfloat16")[:6]
    codes, scales = run_quantize(x, level[1], level[0], scale_layout=layout)
    want, want_scales, _ = expect(level, x, 1.0)
    np.testing.assert_array_equal(codes, want)
    np.testing.assert_array_equal(scales, lay_out(want_scales, layout))
    values = run_dequantize(codes, scales, rules, "float32", scale_layout=layout)
    np.testing.assert_array_equal(bits_of(values), bits_of(mxspec.quantize(x, level[1], profile=level[0]).dequantize()))


@pytest.mark.parametrize("seed", [None, 0x0123456789ABCDEF])
@pytest.mark.parametrize(
    ("fmt", "overflow"), [("mxfp8_e4m3", Overflow.OWN), ("mxfp8_e5m2", Overflow.OWN), ("mxfp8_e4m3", Overflow.SATURATE_FINITE)]
)
def test_overflow_that_does_not_saturate(fmt: str, overflow: Overflow, seed: int | None, on_host: None) -> None:
    """Under the floor rule, which leaves numbers beyond the largest value in half of the blocks; stochastic rounding saturates them."""
    floor = mxspec.get_profile("mx-floor", fmt)
    assert floor.one_level is not None
    steps = replace(floor.one_level, element=replace(floor.one_level.element, overflow=overflow))
    profile = replace(floor, id="mx-floor-with-overflow", one_level=steps)
    x = normal((40, 96), "float32")
    words = {} if seed is None else {"random_bits": counter_bytes(seed, x.size).astype(np.uint32).reshape(x.shape), "sr_bits": 8}
    want = mxspec.quantize(x, fmt, profile=profile, **words)
    codes, scales = run_quantize(x, fmt, profile, seed=seed)
    np.testing.assert_array_equal(scales, want.scales)
    np.testing.assert_array_equal(codes, want.codes)
    assert (codes != mxspec.quantize(x, fmt, profile=floor, **words).codes).any() == (seed is None)


def test_numbers_of_a_launch_fit(on_host: None) -> None:
    """2**39 bytes of float32: its threads are counted in 32 bits, and every block is in one launch."""
    level = GROUP_LEVELS[1]
    rules_of(level)
    plan = plans.make_plan((1 << 24, 8192), (8192, 1), "float32", 0, 0, level[1], level[0], 1, False, "row-major", 0, False)
    launches = [launch for launch in plan.launches if isinstance(launch, plans.KernelLaunch)]
    assert [(launch.fixed[0], launch.offsets[2]) for launch in launches] == [(1 << 31, i << 30) for i in range(4)]


def test_blocks_of_64(on_host: None) -> None:
    block = replace(ADJACENT["fp8_e4m3-128-f32"].block, name="fp8_e4m3-64-f32", k=64, shapes=((1, 64),))
    level = GROUP_LEVELS[2]
    rules_of(level)
    mxspec.register_block(block)
    profile = replace(mxspec.get_profile(level[0], level[1]), id="fp8-64", formats=(block.name,))
    assert check_format(block, wide=True) is block
    x = random_blocks("bfloat16", 64, 400, 5).reshape(-1, 320)
    want = mxspec.quantize(x, block, profile=profile)
    for layout in FLOAT_SCALE_LAYOUTS:
        codes, scales = run_quantize(x, block.name, profile, scale_layout=layout)
        np.testing.assert_array_equal(codes, want.codes)
        np.testing.assert_array_equal(scales, lay_out(want.scales, layout))
