"""The random Hadamard transform before quantizing: rows, columns and both, nearest and stochastic, held to its definition in
NumPy and the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.profiles import Profile
from mxspec.tensorscale import TensorScale
from mxspec_gpu.transform import find_signs, transform_rows

from tests.gpu import arithmetic
from tests.gpu.arithmetic import DTYPES
from tests.gpu.compare import LAYOUTS, compare_arrays, message_of, normal
from tests.gpu.device import LIBRARIES, Array, Tally, require_gpu, to_gpu, to_host
from tests.gpu.transformed import CASES, KINDS, SIGNS
from tests.test_gpu_arithmetic import counter_bytes

pytestmark = pytest.mark.gpu
require_gpu()

SHAPES = ((64, 64), (96, 160), (3, 96), (130, 48), (257, 512), (32, 33), (40, 80))
#: A tensor scale's value for each kind.
NATIVE = 3.5


def tensor_of(profile: Profile) -> TensorScale | None:
    """A tensor scale of the profile's kind."""
    return None if profile.tensor is None else TensorScale.from_float(profile.tensor.native, NATIVE)


def expect(kind: str, x: Array, axis: int, signs: int, seed: int | None) -> tuple[Array, Array, Array]:
    """Packed codes and scales of the transformed values, blocks last; all of them count."""
    profile, fmt, _ = KINDS[kind]
    block = mxspec.BLOCKS[fmt]
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[-1] % block.k)))
    values = transform_rows(rows, find_signs(signs, profile))
    random: dict[str, Any] = {}
    if seed is not None:
        counted = counter_bytes(seed, values.size).astype(np.uint32).reshape(values.shape)
        random = {"random_bits": counted, "sr_bits": 8}
    q = mxspec.quantize(values, fmt, profile=profile, tensor_scale=tensor_of(profile), **random)
    codes = arithmetic.pack(np.asarray(q.codes).reshape(-1, block.k), block.element.bits).reshape(values.shape[0], -1)
    return codes, np.asarray(q.scales), np.ones(codes.shape, np.bool_)


def compare(tally: Tally, kind: str, x: Array, given: Any, axis: int, signs: int, layout: str, seed: int | None, label: str) -> None:
    profile, fmt, _ = KINDS[kind]
    q = mxspec_gpu.quantize(
        given, fmt, profile=profile, axis=axis, tensor_scale=tensor_of(profile), scale_layout=layout, pad=True, seed=seed,
        signs=signs,
    )  # fmt: skip
    want = expect(kind, x, axis, signs, seed)
    compare_arrays(tally, (q.codes, q.scales), want, layout, f"{label} {kind} {x.dtype} {x.shape} axis {axis} {signs:04x} {seed}")


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_quantize(kind: str, dtype: str, tally: Tally) -> None:
    four_bits = mxspec.BLOCKS[KINDS[kind][1]].element.bits == 4
    for number, shape in enumerate(SHAPES):
        x = normal(shape, dtype, seed=number)
        if number % 2:  # NaN and infinities elsewhere: a stochastic block without them
            x = np.nan_to_num(x.astype(np.float32), posinf=1, neginf=1).astype(DTYPES[dtype])
        wide = np.concatenate([np.ones((shape[0], 1), x.dtype), x, np.ones((shape[0], 2), x.dtype)], axis=1)
        for seed in (None, 7) if four_bits else (None,):
            if seed is not None and not number % 2:
                continue
            for axis in (1, 0):
                for layout in LAYOUTS:
                    compare(tally, kind, x, to_gpu(x), axis, SIGNS, layout, seed, "")
                compare(tally, kind, x, to_gpu(wide)[:, 1:-2], axis, SIGNS, "row-major", seed, "misaligned")
                compare(tally, kind, x.T, to_gpu(x).T, axis, SIGNS, "row-major", seed, "transposed")
                compare(tally, kind, x[:, ::2], to_gpu(x)[:, ::2], axis, SIGNS, "row-major", seed, "every second")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_random_bits(dtype: str, tally: Tally) -> None:
    """Random bits: subnormals, sums that cancel, overflow, infinities and NaN."""
    words = np.random.default_rng(11).integers(0, 1 << 16, (512, 512), dtype=np.uint16)
    x = words.view(DTYPES[dtype])
    small = (words & 0x80FF).view(DTYPES[dtype])
    for kind in ("te", "mxfp4") if dtype == "float16" else ("te", "te-fastmath", "nvfp4-te", "mxfp4"):
        for values in (x, small):
            for axis in (1, 0):
                with np.errstate(all="ignore"):
                    compare(tally, kind, values, to_gpu(values), axis, SIGNS, "row-major", None, "random bits")


@pytest.mark.parametrize("kind", [k for k in KINDS if KINDS[k][1] in ("nvfp4", "mxfp4")])
def test_both(kind: str, tally: Tally) -> None:
    profile, fmt, _ = KINDS[kind]
    for shape in ((64, 64), (288, 96), (512, 2080)):
        x = np.nan_to_num(normal(shape, "bfloat16").astype(np.float32), posinf=1, neginf=1).astype(DTYPES["bfloat16"])
        for seed in (None, 9):
            for layout in LAYOUTS:
                results = mxspec_gpu.quantize_both(
                    to_gpu(x), fmt, profile=profile, tensor_scale=tensor_of(profile), scale_layout=layout, seed=seed,
                    signs=SIGNS,
                )  # fmt: skip
                for q, axis in zip(results, (1, 0), strict=True):
                    want = expect(kind, x, axis, SIGNS, seed)
                    compare_arrays(tally, (q.codes, q.scales), want, layout, f"both {kind} {shape} {axis} {seed}")
    x = to_gpu(normal((64, 64), "bfloat16"))
    plain = [mxspec_gpu.quantize(x, fmt, profile=profile, tensor_scale=tensor_of(profile), axis=a, seed=4) for a in (1, 0)]
    for q, want in zip(mxspec_gpu.quantize_both(x, fmt, profile=profile, tensor_scale=tensor_of(profile), seed=4), plain, strict=True):
        tally.equal(to_host(q.codes), to_host(want.codes), f"{kind}: both with a seed against two calls")


@pytest.mark.parametrize("library", LIBRARIES)
def test_tensor_scale(library: str, tally: Tally) -> None:
    for kind in ("te", "te-fastmath", "nvfp4-te"):
        profile, fmt, _ = KINDS[kind]
        for dtype in ("bfloat16", "float16"):
            for shape in ((16, 16), (64, 96), (1000, 1040)):
                x = np.nan_to_num(normal(shape, dtype).astype(np.float32), posinf=1, neginf=1).astype(DTYPES[dtype])
                if shape[0] % 16 == 0:
                    axes: tuple[int, ...] = (1, 0)
                else:
                    axes = (1,)
                for axis in axes:
                    values = transform_rows(np.moveaxis(x, axis, -1), find_signs(SIGNS, profile))
                    want = mxspec.tensor_scale(values, fmt, profile)
                    got = mxspec_gpu.tensor_scale(to_gpu(x, library), fmt, profile, signs=SIGNS, axis=axis)
                    tally.equal(to_host(got).view(np.uint32), np.array([want.bits], np.uint32), f"{kind} {dtype} {shape} {axis}")
                    q = mxspec_gpu.quantize(to_gpu(x, library), fmt, profile=profile, tensor_scale="auto", axis=axis, pad=True, signs=SIGNS)
                    tally.equal(to_host(q.tensor_scale), to_host(got), f"auto {kind} {dtype} {shape} {axis}")


@pytest.mark.parametrize("signs", [0x0000, 0x0001, 0x8000, 0xFFFF])
def test_other_signs(signs: int, tally: Tally) -> None:
    x = normal((64, 96), "bfloat16", seed=signs)
    for axis in (1, 0):
        compare(tally, "te", x, to_gpu(x), axis, signs, "row-major", None, "")


def test_wrong_calls(tally: Tally) -> None:
    x = to_gpu(normal((64, 64), "bfloat16"))
    rht: dict[str, Any] = {"profile": "te-2.14/nvfp4/kernel-rht", "tensor_scale": TensorScale.from_float("amax", 1.0)}
    for call, kind, words in (
        (lambda: mxspec_gpu.quantize(x, "nvfp4", signs=1), ValueError, "has no random Hadamard transform of 16 elements"),
        (lambda: mxspec_gpu.quantize(x, "nvfp4", signs=-1, **rht), ValueError, "signs = -1 is out of range"),
        (lambda: mxspec_gpu.quantize(x, "nvfp4", signs=1 << 16, **rht), ValueError, "signs = 65536 is out of range"),
        (lambda: mxspec_gpu.quantize(x, "nvfp4", signs=1.0, **rht), TypeError, "signs = 1.0 is of type float"),
        (lambda: mxspec_gpu.quantize(x, "nvfp4", signs=True, **rht), TypeError, "signs = True is of type bool"),
        (lambda: mxspec_gpu.quantize(x.astype("float32"), "nvfp4", signs=1, **rht), TypeError, "x has dtype float32; the transform takes"),
        (lambda: mxspec_gpu.tensor_scale(x[:, :24], "nvfp4", rht["profile"], signs=1), ValueError, "no multiple of the 16"),
        (lambda: mxspec_gpu.quantize_both(x, "mxfp8_e4m3", seed=1), ValueError, "only formats of four bits stochastically"),
        (lambda: mxspec_gpu.quantize_both(x, "mxfp4", seed=-1), ValueError, "seed = -1 is out of range"),
    ):  # fmt: skip
        message = message_of(call, kind)
        tally.require(words in message, message)
