"""Rows sorted by expert: each group's codes and scales, in tiles padded by themselves, and back."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec_gpu

from tests.gpu.arithmetic import FORMAT_LEVELS, Level, level_id
from tests.gpu.compare import LAYOUTS, compare_arrays, expect, normal
from tests.gpu.device import LIBRARIES, Tally, bits_of, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

GROUPS = ((5, 0, 128, 130, 1), (0, 0), (256,), (1,) * 40, (300, 7, 0))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("level", FORMAT_LEVELS, ids=level_id)
def test_each_expert_is_quantized_by_itself(level: Level, layout: str, library: str, tally: Tally) -> None:
    for number, rows in enumerate(GROUPS):
        x = normal((sum(rows), 512), "bfloat16", seed=number)
        natives = [2.0 ** (i % 3 - 1) for i in range(len(rows))]
        scales = to_gpu(np.array(natives, np.float32), library) if level[2] else None
        q = mxspec_gpu.quantize_experts(to_gpu(x, library), rows, level[1], profile=level[0], tensor_scales=scales, scale_layout=layout)
        back = to_host(q.dequantize("float32"))
        first = 0
        for expert, count in enumerate(rows):
            if not count:
                continue
            label = f"{level_id(level)} {rows} {layout} expert {expert}"
            part = q.expert(expert)
            compare_arrays(tally, (part.codes, part.scales), expect(level, x[first : first + count], natives[expert]), layout, label)
            tally.equal(bits_of(back[first : first + count]), bits_of(to_host(part.dequantize("float32"))), f"{label} values")
            first += count


def test_auto_gives_each_expert_its_own_scale(tally: Tally) -> None:
    rows = (40, 0, 200)
    x = normal((240, 256), "bfloat16", seed=7)
    q = mxspec_gpu.quantize_experts(to_gpu(x), rows, "nvfp4", tensor_scales="auto")
    assert q.tensor_scales is not None
    assert q.tensor_scales[1] is None
    for expert, (first, last) in ((0, (0, 40)), (2, (40, 240))):
        alone = mxspec_gpu.quantize(to_gpu(x[first:last]), "nvfp4", tensor_scale="auto", scale_layout="128x4")
        part = q.expert(expert)
        for name, a, b in (("codes", part.codes, alone.codes), ("scales", part.scales, alone.scales)):
            tally.equal(to_host(a), to_host(b), f"{name} of expert {expert}")
        tally.equal(to_host(part.tensor_scale).view("u4"), to_host(alone.tensor_scale).view("u4"), f"tensor scale of expert {expert}")
