"""The tensor scale: what a profile computes for a tensor, and the ways to pass one."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.tensorscale import TensorScale

from tests.gpu.arithmetic import DTYPES, LEVELS, Level, level_id, native_values, rules_of
from tests.gpu.compare import LAYOUTS, compare_arrays, compare_both, expect, normal
from tests.gpu.device import FULL, LIBRARIES, SEED, Array, Tally, bits_of, import_torch, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

TWO_LEVELS = tuple(level for level in LEVELS if level[2])
#: NaN of either sign, of any payload, signalling ones too.
NANS = {"float32": (0x7FC00000, 0xFFC00001, 0x7F800001), "float16": (0x7E00, 0xFE01, 0x7C01), "bfloat16": (0x7FC0, 0xFFC1, 0x7F81)}


def cases(dtype: str) -> dict[str, Array]:
    """Tensors of all sizes with what is special in them."""
    kind = DTYPES[dtype]
    rng = np.random.default_rng(SEED)
    shapes = ((1,), (3, 5), (1000, 1031), (64, 64), *(((4096, 4096),) if FULL else ()))
    found = {str(s): (rng.standard_normal(s) * 5).astype(kind) for s in shapes}
    found |= {"empty": np.zeros((0,), kind), "zeros": np.zeros((64, 64), kind), "negative zeros": -np.zeros((64, 64), kind)}
    x = found["(64, 64)"]
    unsigned = np.uint32 if dtype == "float32" else np.uint16
    for name, value in (("inf", np.inf), ("-inf", -np.inf), ("smallest", 1e-45 if dtype == "float32" else 6e-8)):
        found[name] = x.copy()
        found[name][17, 3] = value
    for nan in NANS[dtype]:
        found[f"NaN {nan:x}"] = x.copy()
        found[f"NaN {nan:x}"].view(unsigned)[40, 41] = nan
        found[f"only NaN {nan:x}"] = np.full((32, 48), nan, unsigned).view(kind)
        found[f"ragged NaN {nan:x}"] = np.append(x.reshape(-1)[:77], np.array([nan], unsigned).view(kind))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", TWO_LEVELS, ids=level_id)
def test_computed(level: Level, dtype: str, tally: Tally) -> None:
    """Bits, a NaN's payload included."""
    profile, fmt, _ = level
    for name, x in cases(dtype).items():
        for shift in (0, 1):
            with np.errstate(all="ignore"):
                want = mxspec.tensor_scale(x, fmt, profile)
            shifted = to_gpu(np.concatenate([np.zeros(shift, x.dtype), x.reshape(-1)]))[shift:].reshape(x.shape)
            got = to_host(mxspec_gpu.tensor_scale(shifted, fmt, profile)).view(np.uint32)
            tally.equal(got, np.array([want.bits], np.uint32), f"{level_id(level)} {dtype} {name} shifted by {shift}")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("level", TWO_LEVELS, ids=level_id)
def test_every_way_to_pass_one(level: Level, library: str, tally: Tally) -> None:
    """As an array, as a TensorScale, and computed: the same bits, on rows, columns and both."""
    profile, fmt, _ = level
    kind = rules_of(level).native
    assert kind is not None
    for dtype in ("float32", "bfloat16"):
        x = normal((64, 128), dtype)
        given = to_gpu(x, library)
        for native in (*native_values(rules_of(level)), 0.0, float("inf"), float("nan"), 1e-40):
            scale = TensorScale(kind, int(np.float32(native).view(np.uint32)))
            array = to_gpu(np.array([scale.bits], np.uint32).view(np.float32), library)
            for axis in (1, 0):
                with np.errstate(all="ignore"):
                    want = expect(level, x, scale.value, axis)
                for layout in LAYOUTS:
                    for way in (array, scale):
                        q = mxspec_gpu.quantize(given, fmt, profile=profile, tensor_scale=way, axis=axis, scale_layout=layout)
                        label = f"{level_id(level)} {dtype} {native} {type(way).__name__} axis {axis}"
                        compare_arrays(tally, (q.codes, q.scales), want, layout, label)
                        tally.require(q.tensor_scale is way, f"{label}: not what was given")
                values = [
                    mxspec_gpu.dequantize(q.codes, q.scales, fmt, profile=profile, tensor_scale=way, scale_layout=layout)
                    for way in (array, scale)
                ]
                tally.equal(bits_of(to_host(values[0])), bits_of(to_host(values[1])), f"{level_id(level)} {native} values")
        if dtype == "bfloat16":
            for layout in LAYOUTS:
                compare_both(tally, level, x, native_values(rules_of(level))[0], layout, given)
        finite = np.where(np.isfinite(x.astype(np.float32)), x, 1).astype(x.dtype)
        q = mxspec_gpu.quantize(to_gpu(finite, library), fmt, profile=profile, tensor_scale="auto")
        want = expect(level, finite, mxspec.tensor_scale(finite, fmt, profile).value)
        compare_arrays(tally, (q.codes, q.scales), want, "row-major", f"{level_id(level)} {dtype} auto")
        tally.require(type(q.tensor_scale) is type(given), "the computed tensor scale is of the caller's library")


def test_into_memory_of_the_caller(tally: Tally) -> None:
    torch = import_torch()
    x = torch.randn(64, 64, device="cuda")
    out = torch.full((1,), -1.0, device="cuda")
    tally.require(mxspec_gpu.tensor_scale(x, out=out) is out, "out is returned")
    want = mxspec.tensor_scale(to_host(x), "nvfp4").bits
    tally.equal(to_host(out).view(np.uint32), np.array([want], np.uint32), "out")
