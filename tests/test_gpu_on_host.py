"""Whole launches of the quantizing kernels on a host: what each thread reads and writes, in every layout, held to the model."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda_on_host import on_host as on_host, run_quantize
from tests.gpu.arithmetic import Level, native_values, rules_of
from tests.gpu.compare import expect, lay_out, normal

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


@pytest.mark.parametrize("shape", [(32, 64), (16, 48)])
def test_square_blocks(shape: tuple[int, int], on_host: None) -> None:
    level: Level = ("nvfp4-te", "nvfp4", True)
    native = native_values(rules_of(level))[0]
    x = normal(shape, "bfloat16")
    codes, scales = run_quantize(x, "nvfp4", "nvfp4-te", tensor=int(np.float32(native).view(np.uint32)), square=True)
    want, want_scales, _ = expect(level, x, native, block=(16, 16))
    np.testing.assert_array_equal(scales, want_scales)
    np.testing.assert_array_equal(codes, want)
