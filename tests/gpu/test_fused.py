"""SiLU(gate) * up, quantized in the same pass: f as the contract has it, and the codes and scales of f."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxspec_gpu
from mxspec_gpu.arguments import find_scale_dtype

from tests.gpu.arithmetic import FORMAT_LEVELS, GROUP_LEVELS, Level, level_id, native_values, rules_of
from tests.gpu.compare import compare_arrays, expect, gpu_tensor, lay_out, layouts_of
from tests.gpu.device import Guarded, Tally, require_gpu, to_gpu, to_host
from tests.gpu.gated import draw_gated

require_gpu()
pytestmark = pytest.mark.gpu
#: One level of each format.
LEVELS = (*FORMAT_LEVELS, GROUP_LEVELS[1], GROUP_LEVELS[3], GROUP_LEVELS[-1])


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_fused(level: Level, dtype: str, tally: Tally) -> None:
    """Every gate, in every layout of scales; whole tiles, ragged ones and one row; in guarded outputs."""
    native, k = native_values(rules_of(level))[0], rules_of(level).fmt.k
    for rows, columns in ((128, 1024), (37, 3 * k), (1, k), (300, 8 * k)):
        x, f = draw_gated(dtype, rows, columns, 3)
        want = expect(level, f, native)
        for layout in layouts_of(level):
            scales = lay_out(want[1], layout)
            guarded = Guarded(want[0].shape, (*scales.shape[:-1], scales.shape[-1] * scales.itemsize))
            q = mxspec_gpu.quantize_silu_mul(
                to_gpu(x), level[1], profile=level[0], tensor_scale=gpu_tensor(level, native), scale_layout=layout,
                out=(guarded.arrays[0], guarded.arrays[1].view(find_scale_dtype(rules_of(level).fmt))),
            )  # fmt: skip
            compare_arrays(tally, (q.codes, q.scales), want, layout, f"{level_id(level)} {dtype} {rows} x {columns} {layout}")
            tally.require(guarded.intact(), "wrote outside its outputs")


def test_lost_values(tally: Tally) -> None:
    """NaN gates, and minus infinity, whose SiLU is one, make NaN; as do infinities times zero."""
    for dtype in ("bfloat16", "float16"):
        x, _ = draw_gated(dtype, 96, 64, 4)
        x[5, 3], x[9, 40], x[20, 70], x[30, 0], x[30, 64] = np.nan, -np.inf, -np.float32("nan"), np.inf, 0
        values = to_host(mxspec_gpu.quantize_silu_mul(to_gpu(x), "mxfp8_e4m3", profile="mx-floor").dequantize("float32"))
        lost = np.argwhere(np.isnan(values).reshape(96, 2, 32).any(axis=2))
        tally.equal(lost, np.array([[5, 0], [9, 1], [20, 0], [30, 0]]), f"{dtype}: blocks with NaN")


def test_views_and_wrong_calls(tally: Tally) -> None:
    """A view that is copied first, more axes, and what is refused."""
    level: Level = ("mx-floor", "mxfp8_e4m3", False)
    x, f = draw_gated("bfloat16", 12, 64, 5)
    want = expect(level, f.reshape(3, 4, 64), 1.0)
    wide = np.zeros((3, 4, 136), x.dtype)
    wide[:, :, 3:131] = x.reshape(3, 4, 128)
    for given in (to_gpu(x).reshape(3, 4, 128), to_gpu(wide)[:, :, 3:131]):
        q = mxspec_gpu.quantize_silu_mul(given, "mxfp8_e4m3")
        compare_arrays(tally, (q.codes, q.scales), want, "row-major", "views")
    wrong: tuple[tuple[Any, dict[str, Any], type[Exception], str], ...] = (
        (to_gpu(x.astype(np.float32)), {}, TypeError, "pass float16 or bfloat16"), (to_gpu(x)[:, :96], {}, ValueError, "K gates, then K ups"),
        (to_gpu(x), {"tensor_scale": "auto"}, ValueError, "a product has no scale yet"), (to_gpu(x), {"out": (1, 2)}, TypeError, "pass an array on the GPU"),
    )  # fmt: skip
    for given, options, error, words in wrong:
        with pytest.raises(error, match=words):
            mxspec_gpu.quantize_silu_mul(given, "mxfp8_e4m3", **options)
