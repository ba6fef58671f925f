"""Every profile, format and level that the kernels have, on every path, against the model."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec_gpu.arguments import find_scale_dtype

from tests.gpu import arithmetic
from tests.gpu.arithmetic import GROUP_LEVELS, LEVELS, Level, level_id, native_values, rules_of
from tests.gpu.compare import LAYOUTS, compare, compare_both, gpu_tensor, lay_out, layouts_of, model_tensor, pack_rows
from tests.gpu.device import FULL, SEED, Array, Guarded, Tally, bits_of, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()


def inputs(level: Level, dtype: str, native: float) -> dict[str, Array]:
    """Random blocks, and either all numbers of the dtype (every NaN too) or the rules' thresholds."""
    k = rules_of(level).fmt.k
    found = {"random": arithmetic.random_blocks(dtype, k, 20000 if FULL else 2000, SEED)}
    if dtype == "float32":
        found["thresholds"] = arithmetic.threshold_blocks(level, native)
    else:
        found["all"] = arithmetic.sixteen_bit_blocks(dtype, k)
    return found


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
def test_rows(level: Level, tally: Tally) -> None:
    """The three ways of writing scales, and the plain kernel that takes any strides."""
    k = rules_of(level).fmt.k
    for native in native_values(rules_of(level)):
        for dtype in arithmetic.DTYPES:
            for what, x in inputs(level, dtype, native).items():
                rows = x[: len(x) // 10 * 10].reshape(-1, 5 * k)
                whole = x[: len(x) // 1024 * 1024]
                for layout in layouts_of(level):
                    compare(tally, level, rows, native, layout, label=what)
                tiled = "128x4" in layouts_of(level)
                if tiled:
                    compare(tally, level, rows[:, : 4 * k], native, "128x4", label=f"{what}, tiles by fours")
                if tiled and whole.size:
                    compare(tally, level, whole.reshape(128, -1), native, "128x4", label=f"{what}, whole tiles")
                few = rows[: 500 * 5].reshape(-1, 5 * k)[:500]
                compare(tally, level, few, native, given=to_gpu(np.repeat(few, 2, axis=1))[:, ::2], label=f"{what}, strided")


@pytest.mark.parametrize("level", [level for level in LEVELS if level not in GROUP_LEVELS], ids=level_id)
def test_columns(level: Level, tally: Tally) -> None:
    k = rules_of(level).fmt.k
    native = native_values(rules_of(level))[0]
    for dtype in ("float16", "bfloat16"):
        for what, x in inputs(level, dtype, native).items():
            columns = x[: len(x) // 64 * 64].reshape(-1, 32 * k // 16).T
            columns = np.ascontiguousarray(columns[:, : columns.shape[1] // 32 * 32])
            for layout in LAYOUTS:
                compare(tally, level, columns, native, layout, 0, label=f"{what} columns")
                compare_both(tally, level, columns, native, layout, label=what)


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
def test_dequantize_every_code_under_every_scale(level: Level, tally: Tally) -> None:
    profile, fmt_name, _ = level
    fmt = rules_of(level).fmt
    repeats = -(-fmt.element.code_count // fmt.k)
    scales = np.repeat(arithmetic.scale_codes(fmt)[:, np.newaxis], repeats, axis=1)
    codes = np.resize(np.arange(fmt.element.code_count, dtype=np.uint8), (len(scales), repeats * fmt.k))
    packed = to_gpu(pack_rows(codes, level))
    for native in native_values(rules_of(level)):
        for dtype, kind in arithmetic.DTYPES.items():
            want = mxspec.dequantize(codes, scales, fmt_name, profile=profile, tensor_scale=model_tensor(level, native), dtype=kind)
            for layout in layouts_of(level):
                guarded = Guarded((want.nbytes,))
                out = guarded.arrays[0].view(kind).reshape(want.shape)
                mxspec_gpu.dequantize(
                    packed, to_gpu(lay_out(scales, layout).view(find_scale_dtype(fmt))), fmt_name, profile=profile, tensor_scale=gpu_tensor(level, native),
                    dtype=dtype, scale_layout=layout, out=out,
                )  # fmt: skip
                label = f"{level_id(level)} {native} {dtype} {layout}"
                tally.equal(bits_of(to_host(out)), bits_of(want), label)
                tally.require(guarded.intact(), f"{label}: wrote outside its output")
