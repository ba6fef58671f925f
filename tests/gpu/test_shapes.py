"""Ragged tails, one row, unaligned data, the first axis, both axes at once, empty tensors."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec_gpu

from tests.gpu.arithmetic import DTYPES, GROUP_LEVELS, LEVELS, Level, level_id, native_values, rules_of
from tests.gpu.compare import LAYOUTS, compare, compare_both, gpu_tensor, layouts_of, normal
from tests.gpu.device import Tally, cp, require_gpu, to_gpu

pytestmark = pytest.mark.gpu
require_gpu()

NORMATIVE = tuple(level for level in LEVELS if level[0] in ("mx-floor", "nvfp4-te", "mx-rceil"))
#: And groups of 128, one profile for each way of scales, along rows and columns.
SHAPED = (*NORMATIVE, *(level for level in GROUP_LEVELS if level[0].startswith("deepgemm") and level[0].endswith("cuda")))
SHAPES: tuple[tuple[int, ...], ...] = (
    (1, 32), (1, 4096), (3, 96), (7, 33), (5, 31), (129, 160), (128, 128), (1, 1), (2, 3, 64), (2, 1, 5, 48), (300, 1000), (33,), (64,), (257, 512), (128, 1024), (256, 3072), (384, 512),
)  # fmt: skip
MATRICES = (
    (32, 2), (64, 64), (256, 64), (288, 66), (320, 130), (1024, 256), (64, 33), (40, 64), (48, 80), (513, 31), (1030, 77),
    (33, 1), (544, 2080),
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", SHAPED, ids=level_id)
def test_rows(level: Level, dtype: str, tally: Tally) -> None:
    native = native_values(rules_of(level))[0]
    for shape in SHAPES:
        x = normal(shape, dtype)
        shifted = to_gpu(np.concatenate([x.reshape(-1)[:1], x.reshape(-1)]))
        for layout in layouts_of(level):
            compare(tally, level, x, native, layout)
            compare(tally, level, x, native, layout, given=shifted[1:].reshape(shape), label="off by one element")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", SHAPED, ids=level_id)
def test_columns_and_both(level: Level, dtype: str, tally: Tally) -> None:
    native = native_values(rules_of(level))[0]
    for shape in MATRICES:
        x = normal(shape, dtype)
        for layout in layouts_of(level):
            compare(tally, level, x, native, layout, 0)
            shifted = to_gpu(np.concatenate([x.reshape(-1)[:1], x.reshape(-1)]))[1:].reshape(shape)
            compare(tally, level, x, native, layout, 0, given=shifted, label="off by one element")
            if dtype != "float32" and shape[0] % 32 == 0 and shape[1] % 32 == 0 and level in NORMATIVE:
                compare_both(tally, level, x, native, layout)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", SHAPED, ids=level_id)
def test_pitched(level: Level, dtype: str, tally: Tally) -> None:
    """Cut out of a wider tensor, from an aligned element and from others, as it is and transposed, rows reversed."""
    native = native_values(rules_of(level))[0]
    for shape in ((130, 256), (65, 131), (257, 64), (128, 2048)):
        wide = normal((shape[0], shape[1] + 24), dtype)
        for first in (0, 8, 1):
            host, given = (a[:, first : first + shape[1]] for a in (wide, to_gpu(wide)))
            for layout in layouts_of(level):
                compare(tally, level, host, native, layout, given=given, label=f"from {first}")
                compare(tally, level, host[::-1], native, layout, given=given[::-1], label=f"reversed, from {first}")
                compare(tally, level, host.T, native, layout, given=given.T, label=f"transposed, from {first}")
                compare(tally, level, host.T[::-1], native, layout, 0, given=given.T[::-1], label=f"columns, from {first}")


@pytest.mark.parametrize("level", NORMATIVE, ids=level_id)
def test_empty(level: Level, tally: Tally) -> None:
    """No block, no launch, and outputs of the shapes that the rule gives."""
    tensor = gpu_tensor(level, 1.0)
    fmt = rules_of(level).fmt
    width = 32 * fmt.element.bits // 8
    for layout in LAYOUTS:
        for shape, axis, codes in (
            ((0, 32), -1, (0, width)), ((4, 0), -1, (4, 0)), ((0,), -1, (0,)), ((32, 0), 0, (0, width)), ((2, 0, 32), 1, (2, 32, 0)),
        ):  # fmt: skip
            q = mxspec_gpu.quantize(
                cp().empty(shape, cp().float32), fmt.name, profile=level[0], axis=axis, tensor_scale=tensor, scale_layout=layout
            )
            tally.require(q.codes.shape == codes and q.scales.size == 0, f"{shape} {axis}: {q.codes.shape} {q.scales.shape}")
            tally.require(q.dequantize("float32").size == 0, f"{shape} {axis}: values")
        for shape in ((0, 64), (64, 0), (0, 0)):
            x = cp().empty(shape, cp().float16)
            rows, columns = mxspec_gpu.quantize_both(x, fmt.name, profile=level[0], tensor_scale=tensor, scale_layout=layout)
            for q, n in ((rows, shape), (columns, shape[::-1])):
                want = (n[0], n[1] * fmt.element.bits // 8)
                tally.require(q.codes.shape == want and not q.scales.size, f"both {shape}: {q.codes.shape}")
