"""Rows sorted by expert: each group's codes and scales, in tiles padded by themselves, and back."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec_gpu
from mxspec.tensorscale import TensorScale

from tests.gpu.arithmetic import FORMAT_LEVELS, Level, level_id, rules_of
from tests.gpu.compare import LAYOUTS, compare_arrays, expect, normal
from tests.gpu.device import LIBRARIES, Tally, bits_of, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

GROUPS = ((5, 0, 128, 130, 1), (0, 0), (256,), (1,) * 40, (300, 7, 0), (0, 1, 0, 2) * 150)
#: Columns: of whole groups of four blocks, and not, where tiles are padded on the right.
COLUMNS = (512, 64 * 5)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("level", FORMAT_LEVELS, ids=level_id)
def test_each_expert_is_quantized_by_itself(level: Level, layout: str, library: str, tally: Tally) -> None:
    for number, rows in enumerate(GROUPS):
        for columns in COLUMNS if layout == "128x4" else COLUMNS[:1]:
            dtype = ("bfloat16", "float16", "float32")[number % 3]
            x = normal((sum(rows), columns), dtype, seed=number)
            natives = [2.0 ** (i % 3 - 1) for i in range(len(rows))]
            scales = to_gpu(np.array(natives, np.float32), library) if level[2] else None
            given = to_gpu(x, library)
            q = mxspec_gpu.quantize_experts(given, rows, level[1], profile=level[0], tensor_scales=scales, scale_layout=layout)
            back = to_host(q.dequantize("float32")) if len(rows) < 50 else None
            first = 0
            for expert, count in enumerate(rows):
                if not count:
                    continue
                label = f"{level_id(level)} {len(rows)} {layout} {columns} expert {expert}"
                part = q.expert(expert)
                compare_arrays(tally, (part.codes, part.scales), expect(level, x[first : first + count], natives[expert]), layout, label)
                if back is not None:
                    tally.equal(bits_of(back[first : first + count]), bits_of(to_host(part.dequantize("float32"))), f"{label} values")
                first += count
            wide = to_gpu(np.concatenate([x[:, :1], x, x], axis=1), library)[:, 1 : 1 + columns]
            again = mxspec_gpu.quantize_experts(wide, rows, level[1], profile=level[0], tensor_scales=scales, scale_layout=layout)
            tally.equal(to_host(again.codes), to_host(q.codes), f"{level_id(level)} codes of a view")
            tally.equal(to_host(again.scales), to_host(q.scales), f"{level_id(level)} scales of a view")


@pytest.mark.parametrize("level", [level for level in FORMAT_LEVELS if level[2]], ids=level_id)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_auto_gives_each_expert_its_own_scale(level: Level, dtype: str, tally: Tally) -> None:
    rows = (40, 0, 200, 1, 300, 3)
    x = normal((sum(rows), 256), dtype, seed=7)
    x[40:240] *= np.asarray(64, x.dtype)
    x[-1, 7], x[-2, 5], x[0, :] = np.nan, np.inf, 0
    q = mxspec_gpu.quantize_experts(to_gpu(x), rows, "nvfp4", profile=level[0], tensor_scales="auto")
    first = 0
    for expert, count in enumerate(rows):
        part, group = q.expert(expert), to_gpu(x[first : first + count])
        alone = mxspec_gpu.quantize(group, "nvfp4", profile=level[0], tensor_scale="auto", scale_layout="128x4")
        for name, a, b in (("codes", part.codes, alone.codes), ("scales", part.scales, alone.scales)):
            tally.equal(to_host(a), to_host(b), f"{name} of expert {expert}")
        tally.equal(to_host(part.tensor_scale).view("u4"), to_host(alone.tensor_scale).view("u4"), f"tensor scale of expert {expert}")
        first += count


def test_scales_of_every_kind(tally: Tally) -> None:
    """An array of all, arrays of one, and TensorScale objects."""
    level = next(level for level in FORMAT_LEVELS if level[2])
    native, rows, values = rules_of(level).native, (3, 130), np.array([0.5, 3.0], np.float32)
    assert native is not None
    x = to_gpu(normal((133, 256), "bfloat16", seed=1))
    whole = mxspec_gpu.quantize_experts(x, rows, "nvfp4", profile=level[0], tensor_scales=to_gpu(values))
    others = [to_gpu(values[:1]), to_gpu(values[1:])], [TensorScale.from_float(native, float(v)) for v in values]
    for given in others:
        again = mxspec_gpu.quantize_experts(x, rows, "nvfp4", profile=level[0], tensor_scales=given)
        for name in ("codes", "scales"):
            tally.equal(to_host(getattr(again, name)), to_host(getattr(whole, name)), f"{name} under {type(given[0]).__name__}")
        tally.equal(to_host(again.tensor_scales), values, "tensor scales")
