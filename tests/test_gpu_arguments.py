"""What calls of the GPU package may be given: the checks that need no GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.adjacent import ADJACENT
from mxspec_gpu import arguments
from mxspec_gpu.rules import UnsupportedProfileError

SEEDS = r"an integer from 0 to 2\*\*64 - 1"
#: A wrong call, the type of its error, what its message says.
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: arguments.check_axis(1.0, 2), TypeError, "axis = 1.0 is of type float; pass an integer from -2 to 1"),
    (lambda: arguments.check_axis(None, 2), TypeError, "axis = None is of type NoneType; pass an integer from -2 to 1"),
    (lambda: arguments.check_axis("a", 2), TypeError, "axis = 'a' is of type str; pass an integer from -2 to 1"),
    (lambda: arguments.check_axis(True, 2), TypeError, "axis = True is of type bool; pass an integer from -2 to 1"),
    (lambda: arguments.check_axis(-3, 2), ValueError, "axis = -3 is out of range for 2 dimensions; allowed are -2 to 1"),
    (lambda: arguments.check_axis(0, 0), ValueError, r"x has no axis to cut into blocks; .* say x\.reshape\(1, -1\)"),
    (lambda: arguments.check_seed(-1), ValueError, rf"seed = -1 is out of range; pass {SEEDS}"),
    (lambda: arguments.check_seed(1 << 64), ValueError, rf"seed = {1 << 64} is out of range; pass {SEEDS}"),
    (lambda: arguments.check_seed(1.5), TypeError, rf"seed = 1\.5 is of type float; pass {SEEDS}"),
    (lambda: arguments.check_seed(True), TypeError, rf"seed = True is of type bool; pass {SEEDS}"),
    (lambda: arguments.check_seed(np.ones(1, int)), TypeError, rf"seed = array\(\[1\]\) is of type ndarray; pass {SEEDS}"),
    (lambda: arguments.check_sr_bits(16), ValueError, "sr_bits = 16; allowed are 32 and 8"),
    (
        lambda: arguments.check_block((16, 16), mxspec.BLOCKS["mxfp4"], 1, 2), ValueError,
        r"block = \(16, 16\) is not a block shape of mxfp4; allowed are \(1, 32\)$",
    ),
    (
        lambda: arguments.check_block((16, 16), mxspec.BLOCKS["nvfp4"], 0, 3), ValueError,
        r"block = \(16, 16\) along axis 0 of 3; pass a matrix, or blocks along the last axis of two or more",
    ),
    (lambda: arguments.check_layout("tiles"), ValueError, "scale_layout = 'tiles'; allowed are row-major, 128x4"),
    (lambda: arguments.check_layout(["128x4"]), ValueError, r"scale_layout = \['128x4'\]; allowed are row-major, 128x4"),
    (
        lambda: arguments.check_block((128, 128), ADJACENT["fp8_e4m3-128-f32"].block, 1, 2), UnsupportedProfileError,
        r"the kernels have no blocks of 128 x 128; use mxspec\.quantize",
    ),
    (lambda: arguments.check_layout("column-major"), ValueError, "scale_layout = 'column-major'; allowed are row-major, 128x4"),
    (
        lambda: arguments.find_layout("128x4", ADJACENT["fp8_e4m3-128-f32"].block), ValueError,
        "scale_layout = '128x4'; allowed for float32 scales are row-major, column-major",
    ),
    (
        lambda: arguments.check_format(mxspec.register_adjacent("fp8_e4m3-128-f32")), UnsupportedProfileError,
        "of fp8_e4m3-128-f32 the kernels have quantize and dequantize alone, with blocks of 1 x 128",
    ),
    (
        lambda: arguments.check_format(mxspec.register_adjacent("fp8_e4m3-row-f32").name, wide=True), UnsupportedProfileError,
        "the kernels do not have this format 'fp8_e4m3-row-f32'; they have mxfp4, .*, nvfp4[.] Use mxspec",
    ),
    (lambda: arguments.check_format(None), TypeError, "fmt = None is of type NoneType; pass a name .*mxfp4"),
    (lambda: arguments.check_format("mxfp5"), ValueError, "unknown block format 'mxfp5'; known are"),
    (
        lambda: arguments.check_format(replace(mxspec.BLOCKS["mxfp4"], k=16)), UnsupportedProfileError,
        "the kernels do not have this format 'mxfp4'",
    ),
    (lambda: arguments.check_scalar(8), TypeError, "element = 8 is of type int; pass a name"),
    (
        lambda: arguments.check_scalar(replace(mxspec.ELEMENTS["e4m3"], bias=8)), UnsupportedProfileError,
        "the kernels do not have this format 'e4m3'",
    ),
    (lambda: arguments.check_profile(3), TypeError, "profile = 3 is of type int; pass a name, a Profile or None"),
    (lambda: arguments.check_float_name(np.dtype("float32")), TypeError, "allowed are the names float32, float16, bfloat16"),
    (lambda: arguments.check_float_array("uint8", "x"), TypeError, "x has dtype uint8; allowed are float32, float16, bfloat16"),
    (
        lambda: arguments.check_overflow("own", mxspec.get_scalar("e2m1"), stochastic=False), ValueError,
        "e2m1 has neither Inf nor NaN, so overflow='own' cannot be honoured",
    ),
    (
        lambda: arguments.check_overflow("own", mxspec.get_scalar("e4m3"), stochastic=True), ValueError,
        "with rounding='sr' the kernels only saturate",
    ),
    (
        lambda: arguments.check_outputs((), ("codes", "scales")), ValueError,
        r"out has 0 arrays; pass a tuple of 2 arrays \(codes, scales\) or None",
    ),
    (
        lambda: arguments.check_outputs(np.zeros(2), ("codes", "scales")), TypeError,
        r"out is of type ndarray; pass a tuple of 2 arrays \(codes, scales\) or None",
    ),
    (
        lambda: arguments.check_apart([("codes", 0, 10), ("scales", 9, 12)], []), ValueError,
        "out: codes shares memory with scales; pass arrays that do not overlap",
    ),
    (
        lambda: arguments.check_apart([("codes", 0, 10), ("scales", 10, 12)], [("x", 11, 20)]), ValueError,
        "out: scales shares memory with x",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), WRONG, ids=lambda v: v[:48] if isinstance(v, str) else "")
def test_refused(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_taken() -> None:
    assert [arguments.check_axis(a, 3) for a in (-3, -1, 0, np.int64(2))] == [0, 2, 0, 2]
    assert arguments.check_seed((1 << 64) - 1) == (1 << 64) - 1
    assert arguments.check_seed(np.uint64(3)) == 3
    assert arguments.check_layout("128x4")
    assert not arguments.check_layout("row-major")
    assert arguments.check_format("mxfp4") is arguments.check_format(mxspec.BLOCKS["mxfp4"])
    groups = mxspec.register_adjacent("fp8_e4m3-128-f32")
    assert arguments.check_format(groups.name, wide=True) is groups
    assert [arguments.find_layout(layout, groups) for layout in arguments.FLOAT_SCALE_LAYOUTS] == [0, 4]
    assert [arguments.find_scale_dtype(fmt) for fmt in (groups, mxspec.BLOCKS["nvfp4"])] == ["float32", "uint8"]
    assert arguments.check_scalar("ue4m3").bits == 7
    assert arguments.check_outputs([1, 2], ("codes", "scales")) == (1, 2)
    arguments.check_apart([("codes", 0, 10), ("scales", 10, 12)], [("x", 12, 20)])
