"""SiLU(gate) * up, and RMSNorm, quantized in the same pass: f as the contract has it, and the codes and scales of f."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import mxspec_gpu
from mxspec.elements import code_dtype
from mxspec_gpu.arguments import find_scale_dtype

from tests.gpu.arithmetic import Level, level_id, native_values, rules_of
from tests.gpu.compare import compare_arrays, expect, gpu_tensor, lay_out, layouts_of, model_tensor
from tests.gpu.device import Array, Guarded, Tally, require_gpu, to_gpu, to_host
from tests.gpu.gated import FUSED_LEVELS, draw_gated, draw_norm, judge_norm, normalize

require_gpu()
pytestmark = pytest.mark.gpu


def _compare(tally: Tally, call: Callable[..., Any], level: Level, want: tuple[Array, Array, Array], label: str) -> None:
    """A call in every layout of scales, into guarded outputs."""
    for layout in layouts_of(level):
        scales = lay_out(want[1], layout)
        guarded = Guarded(want[0].shape, (*scales.shape[:-1], scales.shape[-1] * scales.itemsize))
        out = guarded.arrays[0], guarded.arrays[1].view(find_scale_dtype(rules_of(level).fmt))
        q = call(
            level[1], profile=level[0], tensor_scale=gpu_tensor(level, native_values(rules_of(level))[0]), scale_layout=layout, out=out
        )
        compare_arrays(tally, (q.codes, q.scales), want, layout, f"{level_id(level)} {label} {layout}")
        tally.require(guarded.intact(), "wrote outside its outputs")


@pytest.mark.parametrize("level", FUSED_LEVELS, ids=level_id)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_fused(level: Level, dtype: str, tally: Tally) -> None:
    """Every gate, in every layout of scales; whole tiles, ragged ones and one row; in guarded outputs."""
    native, k = native_values(rules_of(level))[0], rules_of(level).fmt.k
    for rows, columns in ((128, 1024), (37, 3 * k), (1, k), (300, 8 * k)):
        x, f = draw_gated(dtype, rows, columns, 3)
        call = partial(mxspec_gpu.quantize_silu_mul, to_gpu(x))
        _compare(tally, call, level, expect(level, f, native), f"{dtype} {rows} x {columns}")


@pytest.mark.parametrize("level", FUSED_LEVELS, ids=level_id)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_norm(level: Level, dtype: str, tally: Tally) -> None:
    """Rows for each number of threads, and longer: the model's bits where sums are exact, legal ones elsewhere, the same of each row alone."""
    native, fmt = native_values(rules_of(level))[0], rules_of(level).fmt
    unit = 64 if fmt.element.bits == 6 else fmt.k
    for rows, columns in ((128, 1024), (37, 3 * unit), (1, unit), (300, 8 * unit), (130, 4096), (5, 5120), (9, 16384), (2, 20480 + unit)):
        label = f"{dtype} {rows} x {columns}"
        for eps in (1e-6, 0.25):
            x, weight = draw_norm(dtype, rows, columns, 3)
            call = partial(mxspec_gpu.quantize_rms_norm, to_gpu(x), to_gpu(weight), eps=eps)
            _compare(tally, call, level, expect(level, normalize(x, weight, eps), native), f"RMSNorm {label} {eps}")
        x, weight = draw_norm(dtype, rows, columns, 4, exact=False)
        found = []
        for given in (x, x[-1:]):
            q = mxspec_gpu.quantize_rms_norm(
                to_gpu(given), to_gpu(weight), level[1], eps=1e-6, profile=level[0], tensor_scale=gpu_tensor(level, native)
            )  # fmt: skip
            found.append((to_host(q.unpack()), to_host(q.scales).view(code_dtype(fmt.scale))))
        legal = judge_norm(level, x, weight, 1e-6, *found[0], model_tensor(level, native)).wrong.astype(np.uint8)
        tally.equal(legal, np.zeros_like(legal), f"{level_id(level)} {label}: not legal")
        for whole, alone in zip(*found, strict=True):
            tally.equal(alone, whole[-1:], f"{level_id(level)} {label}: a row alone")


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
        (to_gpu(x), {"tensor_scale": "auto"}, ValueError, "the values have no scale yet"), (to_gpu(x), {"out": (1, 2)}, TypeError, "pass an array on the GPU"),
    )  # fmt: skip
    for given, options, error, words in wrong:
        with pytest.raises(error, match=words):
            mxspec_gpu.quantize_silu_mul(given, "mxfp8_e4m3", **options)


def test_views_and_wrong_calls_of_norms(tally: Tally) -> None:
    """A view of x, and a weight that lies anywhere, are copied first; what is refused."""
    level: Level = ("mx-floor", "mxfp8_e4m3", False)
    x, weight = draw_norm("bfloat16", 12, 128, 5)
    want = expect(level, normalize(x, weight, 0.5).reshape(3, 4, 128), 1.0)
    wide, long = np.zeros((3, 4, 136), x.dtype), np.zeros(300, x.dtype)
    wide[:, :, 3:131], long[1:257:2] = x.reshape(3, 4, 128), weight
    g, w = to_gpu(wide)[:, :, 3:131], to_gpu(long)[1:257:2]
    for given in ((to_gpu(x).reshape(3, 4, 128), to_gpu(weight)), (g, w)):
        q = mxspec_gpu.quantize_rms_norm(*given, "mxfp8_e4m3", eps=0.5)
        compare_arrays(tally, (q.codes, q.scales), want, "row-major", "views of norms")
    memory = to_gpu(np.zeros(4096, np.uint8))
    shared = memory[:512].view(weight.dtype)[:128], (memory[:1536].reshape(12, 128), memory[2048:2096].reshape(12, 4))
    x2, w2 = to_gpu(x), to_gpu(weight)
    wrong: tuple[tuple[tuple[Any, Any, str], dict[str, Any], type[Exception], str], ...] = (
        ((x2, to_gpu(weight.astype(np.float32)), "mxfp4"), {}, ValueError, "weight has dtype float32"), ((x2, w2[:96], "mxfp4"), {}, ValueError, "shape"),
        ((x2[:, :96], w2[:96], "mxfp6_e2m3"), {}, ValueError, "a multiple of 64"), ((x2[:, :40], w2[:40], "mxfp4"), {}, ValueError, "a multiple of 32"),
        ((x2, w2, "mxfp4"), {"eps": -1.0}, ValueError, "not negative"), ((x2, w2, "mxfp4"), {"eps": float("nan")}, ValueError, "finite"),
        ((x2, w2, "mxfp4"), {"eps": "1"}, TypeError, "pass a number"), ((x2, w2, "mxfp4"), {"tensor_scale": "auto"}, ValueError, "the values have no scale yet"),
        ((x2, shared[0], "mxfp8_e4m3"), {"out": shared[1]}, ValueError, "shares memory with weight"),
    )  # fmt: skip
    for arguments, options, error, words in wrong:
        with pytest.raises(error, match=words):
            mxspec_gpu.quantize_rms_norm(*arguments, **({"eps": 1e-6} | options))
