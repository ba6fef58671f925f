"""The kernels on a chip against the model. `python -m tests.gpu.chip --out FILE [--only NAME ...] [--minutes N]`.

Every section returns counts; a section that finds a difference names the first and the run ends with exit code 1.
Outputs are poisoned before each run, with guard bytes around them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
import mxspec_gpu
from mxspec import reals
from mxspec.elements import default_nan_policy
from mxspec.tensorscale import TensorScale
from mxspec_conformance.sweep import read_results
from mxspec_conformance.sweep_functions import CHUNK, EncodeFunction, ScaleFunction, list_functions
from mxspec_gpu import kernels
from mxspec_gpu.build import import_cupy, name_arch
from mxspec_gpu.compile_all import build_all
from mxspec_gpu.kernels import list_instantiations
from mxspec_gpu.launch import POINTER, U32, Kernel
from mxspec_gpu.rules import UnsupportedProfileError, generate_rules

from tests.gpu import arithmetic

ROOT = Path(__file__).resolve().parents[2]
POISON = 0xA5
GUARD = 64
SEED = 20240917

Result = dict[str, Any]


@lru_cache(maxsize=1)
def cp() -> Any:
    return import_cupy()


def to_gpu(x: npt.NDArray[Any]) -> Any:
    """A NumPy array on the GPU; bfloat16 stays bfloat16."""
    cupy = cp()
    if x.dtype == ml_dtypes.bfloat16:
        return cupy.asarray(np.ascontiguousarray(x).view(np.uint16)).view(ml_dtypes.bfloat16)
    return cupy.asarray(x)


def to_host(x: Any) -> npt.NDArray[Any]:
    cupy = cp()
    if x.dtype == ml_dtypes.bfloat16:
        return cupy.asnumpy(x.view(cupy.uint16)).view(ml_dtypes.bfloat16)
    return cupy.asnumpy(x)


class Guarded:
    """Poisoned uint8 outputs with guard bytes around them."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.buffers = [cp().full(int(np.prod(s)) + 2 * GUARD, POISON, cp().uint8) for s in shapes]
        self.arrays = tuple(
            b[GUARD : GUARD + int(np.prod(s))].reshape(s) for b, s in zip(self.buffers, shapes, strict=True)
        )

    def intact(self) -> bool:
        """Whether nobody wrote into the guards."""
        return all(bool((b[:GUARD] == POISON).all() & (b[-GUARD:] == POISON).all()) for b in self.buffers)


def swizzle(scales: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """[rows, columns] into 128x4 tiles, padding zero; by the published index formula."""
    rows, columns = scales.shape
    tiles = -(-columns // 4)
    out = np.zeros(-(-rows // 128) * tiles * 512, np.uint8)
    r, c = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    out[((r // 128) * tiles + c // 4) * 512 + (r % 32) * 16 + (r % 128) // 32 * 4 + c % 4] = scales
    return out


class Tally:
    """Comparisons and differences of a section."""

    def __init__(self) -> None:
        self.compared = 0
        self.different = 0
        self.first: list[str] = []
        self.more: Result = {}

    def equal(self, got: npt.NDArray[Any], want: npt.NDArray[Any], what: str) -> None:
        """Count two arrays of the same shape."""
        if got.shape != want.shape:
            self.fail(f"{what}: shape {got.shape}, expected {want.shape}")
            return
        self.compared += got.size
        wrong = np.flatnonzero(got.reshape(-1) != want.reshape(-1))
        if wrong.size:
            i = int(wrong[0])
            self.different += int(wrong.size)
            self.note(
                f"{what}: {wrong.size} of {got.size}, first at {i}: {got.reshape(-1)[i]:#x}, expected {want.reshape(-1)[i]:#x}"
            )

    def note(self, text: str) -> None:
        """Keep the first few."""
        if len(self.first) < 12:
            self.first.append(text)

    def fail(self, text: str) -> None:
        """One difference."""
        self.different += 1
        self.note(text)

    def result(self) -> Result:
        """For the report."""
        return {"compared": self.compared, "different": self.different, "first": self.first, **self.more}


# Sweeps


def _sweep(source: Any, runs: Any, tally: Tally, name: str, chunks: range | None = None, out: Any = None) -> float:
    cupy = cp()
    kernel = Kernel(source, U32 + POINTER * 2 + U32 + POINTER * 2, 0)
    starts = cupy.asarray(runs.starts.astype(np.uint32))
    codes = cupy.asarray(runs.codes)
    found = cupy.zeros(16, cupy.uint64)
    blocks = runs.pattern_count >> 16
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    stream = cupy.cuda.get_current_stream()
    if out is None:
        begin.record()
        kernel.launch((blocks, 1), 256, stream.ptr, 0, starts.data.ptr, codes.data.ptr, len(codes), found.data.ptr, 0)
        end.record()
        end.synchronize()
        tally.compared += runs.pattern_count
        different, *rest = found.get().tolist()
        if different:
            tally.different += different
            tally.note(
                f"{name}: {different}, such as " + " ".join(f"{r & 0xFFFFFFFF:08x}->{r >> 32:x}" for r in rest[1:4])
            )
        return float(cupy.cuda.get_elapsed_time(begin, end))
    assert chunks is not None
    kernel.launch(
        (len(chunks) * CHUNK >> 16, 1),
        256,
        stream.ptr,
        chunks[0] * CHUNK,
        starts.data.ptr,
        codes.data.ptr,
        len(codes),
        found.data.ptr,
        out.data.ptr,
    )
    return 0.0


def _encode_defines(function: EncodeFunction, *, fast: bool) -> dict[str, object]:
    positive, negative = reals.nan_codes(function.fmt, default_nan_policy(function.fmt))
    defines: dict[str, object] = {
        "MX_SCALAR": function.fmt.name.upper(), "MX_NAN_POSITIVE": positive, "MX_NAN_NEGATIVE": negative,
    }  # fmt: skip
    if not fast:
        defines["MX_ROUNDING"] = function.rounding.value.upper()
        defines["MX_OVERFLOW"] = function.overflow.value.upper().replace("-", "_")
    return defines


def _sweep_sources() -> Iterator[tuple[str, Any, str]]:
    """(function, kernel, which) for everything that the kernels have."""
    for name, function in list_functions().items():
        if isinstance(function, EncodeFunction):
            yield name, ("plain", function), f"{name} (plain)"
            if function.rounding.value == "rne" and function.overflow.value == "saturate" and function.fmt.signed:
                yield name, ("fast", function), f"{name} (fast)"
        else:
            assert isinstance(function, ScaleFunction)
            for profile in function.profiles:
                block = next(
                    b for b in mxspec.BLOCKS.values() if b.element == function.element and b.scale.name == "e8m0"
                )
                try:
                    rules = generate_rules(profile, block.name, two_level=False)
                except (UnsupportedProfileError, ValueError):
                    continue
                yield name, ("scale", rules), f"{name} ({profile})"
                break


def _source_of(kind: str, what: Any, *, write: bool) -> Any:
    if kind == "scale":
        return kernels.sweep_kernel(2, {}, what, write=write)
    fast = kind == "fast"
    return kernels.sweep_kernel(int(fast), _encode_defines(what, fast=fast), None, write=write)


def sweep_sources() -> list[Any]:
    """The kernels of all sweeps."""
    return [_source_of(kind, what, write=False) for _, (kind, what), _ in _sweep_sources()]


def _capability() -> tuple[int, int]:
    text = cp().cuda.Device().compute_capability
    return int(text[:-1]), int(text[-1])


def check_sweeps(quick: bool) -> Result:
    """All 2**32 patterns of every encoder, all 2**31 largest magnitudes of every scale rule, in the kernel against the
    committed complete answers."""
    committed = read_results(ROOT / "reports" / "sweeps")
    tally = Tally()
    times: dict[str, float] = {}
    covered = set()
    jobs = list(_sweep_sources())
    if quick:
        jobs = [j for j in jobs if j[1][0] != "plain" or "/rne/" in j[0]][:40]

    for job in jobs:
        if job[0] not in committed:
            tally.fail(f"{job[0]} has no committed sweep")
            continue
        times[job[2]] = round(_sweep(_source_of(*job[1], write=False), committed[job[0]].runs, tally, job[2]), 4)
        covered.add(job[0])
    tally.more = {"functions": len(covered), "milliseconds": times}
    return tally.result()


def check_digests(quick: bool) -> Result:
    """Answers written out, hashed on the host and compared with the digests of the committed CPU sweeps."""
    committed = read_results(ROOT / "reports" / "sweeps")
    tally = Tally()
    cupy = cp()
    wanted = []
    for name, (kind, what), label in _sweep_sources():
        normative = kind == "scale" and what.profile.id in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")
        if (
            kind == "fast"
            or normative
            or (kind == "plain" and name in ("encode/ue4m3/rne/saturate", "encode/e8m0/rne/saturate"))
        ):
            wanted.append((name, kind, what, label))
    group = 16
    pinned = cupy.cuda.alloc_pinned_memory(group * CHUNK)
    host = np.frombuffer(pinned, np.uint8, group * CHUNK)
    with ThreadPoolExecutor(16) as pool:
        for name, kind, what, label in wanted[:3] if quick else wanted:
            result = committed[name]
            source = _source_of(kind, what, write=True)
            out = cupy.empty(group * CHUNK, cupy.uint8)
            for start in range(0, result.chunk_count, group):
                out.fill(POISON)
                _sweep(source, result.runs, tally, label, range(start, start + group), out)
                out.get(out=host)
                found = pool.map(
                    lambda i: hashlib.blake2b(host[i * CHUNK : (i + 1) * CHUNK], digest_size=16).hexdigest(),
                    range(group),
                )
                for i, digest in enumerate(found):
                    tally.compared += CHUNK
                    if digest != result.digests[start + i]:
                        tally.fail(
                            f"{label}: chunk {start + i} has the digest {digest}, committed is {result.digests[start + i]}"
                        )
    tally.more = {"functions": [w[3] for w in wanted]}
    return tally.result()


# Blocks


def _tensor(level: tuple[str, str, bool], native: float) -> TensorScale | None:
    rules = arithmetic.rules_of(level)
    return TensorScale.from_float(rules.native, native) if rules.native is not None else None


def _compare(
    tally: Tally, level: tuple[str, str, bool], x: npt.NDArray[Any], native: float, layout: str, label: str,
    view: Callable[[Any], Any] | None = None, **options: Any,
) -> None:  # fmt: skip
    """One call against the model, last axis."""
    profile, fmt, _ = level
    rules = arithmetic.rules_of(level)
    scale = _tensor(level, native)
    words = options.get("random_bits")
    expected = mxspec.quantize(
        x, fmt, profile=profile, tensor_scale=scale, pad=True,
        **({"random_bits": words, "sr_bits": options.get("sr_bits", 32)} if words is not None else {}),
    )  # fmt: skip
    want_codes = np.asarray(expected.codes)
    want_codes = arithmetic.pack(want_codes.reshape(-1, rules.fmt.k), rules.fmt.element.bits)
    want_codes = want_codes.reshape(*expected.codes.shape[:-1], -1)
    want_scales = np.asarray(expected.scales)
    given = view(to_gpu(x)) if view else to_gpu(x)
    shape = (
        want_scales.shape if layout == "row-major" else (len(swizzle(want_scales.reshape(-1, want_scales.shape[-1]))),)
    )
    guarded = Guarded(want_codes.shape, shape)
    tensor = None if scale is None else cp().asarray(np.array([native], np.float32))
    if words is not None:
        options = {**options, "random_bits": cp().asarray(words)}
    q = mxspec_gpu.quantize(
        given, fmt, profile=profile, tensor_scale=tensor, scale_layout=layout, pad=True, out=guarded.arrays, **options
    )
    codes, scales = to_host(q.codes), to_host(q.scales)
    kept = np.ones(want_scales.shape, np.bool_)
    if not rules.profile.pins_nan_blocks:
        kept = want_scales != rules.fmt.scale.nan_code
    lanes = np.repeat(kept, rules.fmt.k * rules.fmt.element.bits // 8, axis=-1)
    tally.equal(
        scales,
        want_scales if layout == "row-major" else swizzle(want_scales.reshape(-1, want_scales.shape[-1])),
        f"{label} scales",
    )
    tally.equal(np.where(lanes, codes, 0), np.where(lanes, want_codes, 0), f"{label} codes")
    if not guarded.intact():
        tally.fail(f"{label}: wrote outside its outputs")


def check_blocks(quick: bool) -> Result:
    """All 16-bit numbers, thresholds and random blocks of every level, dtype and layout against the model."""
    tally = Tally()
    for level in arithmetic.LEVELS:
        rules = arithmetic.rules_of(level)
        k = rules.fmt.k
        for native in arithmetic.native_values(rules)[: 1 if quick else 3]:
            for dtype in arithmetic.DTYPES:
                inputs = [("random", arithmetic.random_blocks(dtype, k, 20000, SEED))]
                if dtype == "float32":
                    inputs.append(("thresholds", arithmetic.threshold_blocks(level, native)))
                else:
                    inputs.append(("all", arithmetic.sixteen_bit_blocks(dtype, k)))
                for what, x in inputs:
                    n = len(x) // 10 * 10
                    for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                        label = f"{arithmetic.level_id(level)} {native} {dtype} {what} {layout}"
                        _compare(tally, level, x[:n].reshape(-1, 5 * k), native, layout, label)
    return tally.result()


SHAPES: tuple[tuple[int, ...], ...] = (
    (1, 32), (1, 4096), (3, 96), (7, 33), (5, 31), (129, 160), (128, 128), (1, 1), (2, 3, 64), (2, 1, 5, 48), (300, 1000), (33,), (64,), (257, 512), (128, 1024), (256, 3072), (384, 512),
)  # fmt: skip


def check_shapes(quick: bool) -> Result:
    """Ragged tails, one row, many axes, strides, unaligned data, the first axis, both at once, empty tensors."""
    tally = Tally()
    cupy = cp()
    levels = [level for level in arithmetic.LEVELS if level[0] in ("mx-floor", "nvfp4-te", "mx-rceil")]
    rng = np.random.default_rng(SEED)
    for level in levels:
        profile, fmt, _ = level
        rules = arithmetic.rules_of(level)
        native = arithmetic.native_values(rules)[0]
        for dtype in arithmetic.DTYPES:
            for shape in SHAPES:
                x = (rng.standard_normal(shape) * 3).astype(arithmetic.DTYPES[dtype])
                if x.size > 1000:
                    x.reshape(-1)[[x.size // 2, x.size // 3]] = np.nan, np.inf
                for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                    label = f"{arithmetic.level_id(level)} {dtype} {shape} {layout}"
                    _compare(tally, level, x, native, layout, label)
                    if len(shape) == 2:
                        wide = np.repeat(x, 2, axis=1)
                        _compare(tally, level, wide[:, ::2], native, layout, f"{label} strided", view=None)
                        big = to_gpu(np.repeat(np.repeat(x, 2, axis=1), 3, axis=0))
                        _compare(tally, level, x, native, layout, f"{label} view", view=lambda _, b=big: b[::3, ::2])
                        shifted = to_gpu(np.concatenate([x.reshape(-1)[:1], x.reshape(-1)]))
                        _compare(
                            tally, level, x, native, layout, f"{label} offset",
                            view=lambda _, s=shifted, d=shape: s[1:].reshape(d),
                        )  # fmt: skip
            for shape in ((32, 2), (64, 64), (256, 64), (288, 66), (320, 130), (1024, 256), (64, 33), (40, 64)):
                x = (rng.standard_normal(shape) * 3).astype(arithmetic.DTYPES[dtype])
                x.reshape(-1)[3] = np.inf
                x[5, 1] = np.nan
                for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                    _compare_columns(tally, level, x, native, layout)
                    if dtype != "float32" and shape[0] % 32 == 0 and shape[1] % 32 == 0:
                        _compare_both(tally, level, x, native, layout)
        for shape in ((0, 32), (4, 0), (0,)):
            q = mxspec_gpu.quantize(
                cupy.empty(shape, cupy.float32), fmt, profile=profile,
                tensor_scale=None if rules.native is None else cupy.ones(1, cupy.float32),
            )  # fmt: skip
            if q.codes.size or q.scales.size:
                tally.fail(f"{shape}: not empty")
    return tally.result()


def _column_expectation(
    level: tuple[str, str, bool], x: npt.NDArray[Any], native: float, axis: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    profile, fmt, _ = level
    rules = arithmetic.rules_of(level)
    expected = mxspec.quantize(x, fmt, profile=profile, tensor_scale=_tensor(level, native), axis=axis, pad=True)
    codes = np.ascontiguousarray(np.moveaxis(expected.codes, axis, -1))
    scales = np.ascontiguousarray(np.moveaxis(expected.scales, axis, -1))
    packed = arithmetic.pack(codes.reshape(-1, rules.fmt.k), rules.fmt.element.bits).reshape(len(codes), -1)
    return packed, scales


def _compare_columns(
    tally: Tally, level: tuple[str, str, bool], x: npt.NDArray[Any], native: float, layout: str
) -> None:
    profile, fmt, two = level
    codes, scales = _column_expectation(level, x, native, 0)
    if layout == "128x4":
        scales = swizzle(scales)
    guarded = Guarded(codes.shape, scales.shape)
    tensor = cp().asarray(np.array([native], np.float32)) if two else None
    mxspec_gpu.quantize(
        to_gpu(x), fmt, profile=profile, tensor_scale=tensor, axis=0, scale_layout=layout, pad=True, out=guarded.arrays
    )
    label = f"{arithmetic.level_id(level)} {x.dtype} {x.shape} {layout} axis 0"
    tally.equal(to_host(guarded.arrays[1]), scales, f"{label} scales")
    tally.equal(to_host(guarded.arrays[0]), codes, f"{label} codes")
    if not guarded.intact():
        tally.fail(f"{label}: wrote outside its outputs")


def _compare_both(tally: Tally, level: tuple[str, str, bool], x: npt.NDArray[Any], native: float, layout: str) -> None:
    profile, fmt, two = level
    want = [*_column_expectation(level, x, native, 1), *_column_expectation(level, x, native, 0)]
    if layout == "128x4":
        want[1], want[3] = swizzle(want[1]), swizzle(want[3])
    guarded = Guarded(*(w.shape for w in want))
    tensor = cp().asarray(np.array([native], np.float32)) if two else None
    mxspec_gpu.quantize_both(
        to_gpu(x), fmt, profile=profile, tensor_scale=tensor, scale_layout=layout, out=guarded.arrays
    )
    label = f"{arithmetic.level_id(level)} {x.dtype} {x.shape} {layout} both"
    for got, expected, what in zip(
        guarded.arrays, want, ("codes", "scales", "column codes", "column scales"), strict=True
    ):
        tally.equal(to_host(got), expected, f"{label} {what}")
    if not guarded.intact():
        tally.fail(f"{label}: wrote outside its outputs")


def check_stochastic(quick: bool) -> Result:
    """Explicit words of 32 and 8 bits, and bytes from the counter, against the model."""
    from tests.test_gpu_arithmetic import counter_bytes

    tally = Tally()
    rng = np.random.default_rng(SEED)
    for level in arithmetic.STOCHASTIC_LEVELS:
        rules = arithmetic.rules_of(level)
        native = arithmetic.native_values(rules)[0]
        for dtype in arithmetic.DTYPES:
            x = arithmetic.random_blocks(dtype, rules.fmt.k, 600, SEED)
            x = np.where(np.isnan(x.astype(np.float32)), 1, x).astype(x.dtype).reshape(-1, 3 * rules.fmt.k)
            words = rng.integers(0, 1 << 32, x.shape, dtype=np.uint32)
            for bits in (32, 8):
                _compare(
                    tally, level, x, native, "row-major", f"{arithmetic.level_id(level)} {dtype} words {bits}",
                    random_bits=words, sr_bits=bits,
                )  # fmt: skip
            seed = 0x0123456789ABCDEF
            counted = counter_bytes(seed, x.size).astype(np.uint32).reshape(x.shape)
            expected = mxspec.quantize(
                x, level[1], profile=level[0], tensor_scale=_tensor(level, native), random_bits=counted, sr_bits=8
            )
            tensor = None if rules.native is None else cp().asarray(np.array([native], np.float32))
            q = mxspec_gpu.quantize(to_gpu(x), level[1], profile=level[0], tensor_scale=tensor, seed=seed)
            label = f"{arithmetic.level_id(level)} {dtype} counter"
            tally.equal(to_host(q.unpack()), np.asarray(expected.codes), f"{label} codes")
            tally.equal(to_host(q.scales), np.asarray(expected.scales), f"{label} scales")
    return tally.result()


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bits with every NaN made one."""
    unsigned = values.view(np.uint32 if values.dtype == np.float32 else np.uint16)
    return np.where(np.isnan(values.astype(np.float32)), unsigned.dtype.type(0x7FFF), unsigned)


def check_dequantize(quick: bool) -> Result:
    """Every code under every scale byte, every level, output dtype and layout."""
    tally = Tally()
    for level in arithmetic.LEVELS:
        profile, fmt_name, two = level
        rules = arithmetic.rules_of(level)
        fmt = rules.fmt
        repeats = -(-fmt.element.code_count // fmt.k)
        codes = np.resize(np.arange(fmt.element.code_count, dtype=np.uint8), (fmt.scale.code_count, repeats * fmt.k))
        scales = np.repeat(np.arange(fmt.scale.code_count, dtype=np.uint8)[:, np.newaxis], repeats, axis=1)
        packed = arithmetic.pack(codes.reshape(-1, fmt.k), fmt.element.bits).reshape(len(codes), -1)
        for native in arithmetic.native_values(rules):
            tensor = cp().asarray(np.array([native], np.float32)) if two else None
            for dtype, numpy_dtype in arithmetic.DTYPES.items():
                want = mxspec.dequantize(
                    codes, scales, fmt_name, profile=profile, tensor_scale=_tensor(level, native), dtype=numpy_dtype
                )
                for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                    given = swizzle(scales) if layout == "128x4" else scales
                    guarded = Guarded((want.nbytes,))
                    out = guarded.arrays[0].view(numpy_dtype).reshape(want.shape)
                    mxspec_gpu.dequantize(
                        cp().asarray(packed), cp().asarray(given), fmt_name, profile=profile, tensor_scale=tensor,
                        dtype=dtype, scale_layout=layout, out=out,
                    )  # fmt: skip
                    tally.equal(
                        _bits(to_host(out)), _bits(want), f"{arithmetic.level_id(level)} {native} {dtype} {layout}"
                    )
                    if not guarded.intact():
                        tally.fail(f"{level} {dtype}: wrote outside its output")
    return tally.result()


def check_tensor_scale(quick: bool) -> Result:
    """The tensor scale of several tensors and profiles, and quantizing with it."""
    tally = Tally()
    rng = np.random.default_rng(SEED)
    for profile in ("nvfp4-te", "vllm-0.33/nvfp4/kernel", "torchao-0.18/nvfp4/eager"):
        for dtype in arithmetic.DTYPES:
            for shape in ((1,), (3, 5), (1000, 1031), (64, 64), (4096, 4096), (0,)):
                x = (rng.standard_normal(shape) * 5).astype(arithmetic.DTYPES[dtype])
                for special in (None, np.nan, np.inf):
                    if special is not None and x.size:
                        x = x.copy()
                        x.reshape(-1)[x.size // 2] = special
                    if not x.size and profile != "nvfp4-te":
                        continue
                    want = mxspec.tensor_scale(x, "nvfp4", profile)
                    got = to_host(mxspec_gpu.tensor_scale(to_gpu(x), "nvfp4", profile))
                    tally.equal(
                        _bits(got),
                        _bits(np.array([want.bits], np.uint32).view(np.float32)),
                        f"{profile} {dtype} {shape} {special}",
                    )
    return tally.result()


# Volume


def _fuzz_input(kind: int, elements: int, dtype: str, seed: int) -> Any:
    """Random bits of three kinds: all patterns; exponents near each other in a block; halves of a power of two's grid."""
    cupy = cp()
    rng = cupy.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, elements * (4 if dtype == "float32" else 2) // 4, dtype=cupy.uint32)
    if dtype == "float32":
        if kind == 0:
            return words.view(cupy.float32)
        base = cupy.repeat(rng.integers(1, 247, elements // 32, dtype=cupy.uint32), 32)
        exponent = base + (words >> cupy.uint32(23) & cupy.uint32(7))
        mantissa = words & cupy.uint32(0x7FFFFF if kind == 1 else 0x780001)
        return ((words & cupy.uint32(0x80000000)) | exponent << cupy.uint32(23) | mantissa).view(cupy.float32)
    bits = words.view(cupy.uint16)
    mantissa_bits, top = (7, 247) if dtype == "bfloat16" else (10, 23)
    if kind:
        base = cupy.repeat(rng.integers(1, top, elements // 32, dtype=cupy.uint16), 32)
        low = cupy.uint16((1 << mantissa_bits) - 1)
        if kind == 2:
            low = cupy.uint16(((1 << mantissa_bits) - 1) & ~((1 << (mantissa_bits - 4)) - 2))
        bits = (
            (bits & cupy.uint16(0x8000))
            | (base + (bits >> cupy.uint16(12) & cupy.uint16(7))) << cupy.uint16(mantissa_bits)
            | (bits & low)
        )
    return bits.view(ml_dtypes.bfloat16 if dtype == "bfloat16" else cupy.float16)


def check_fuzz(quick: bool) -> Result:
    """Fast kernels against the plain ones on the chip (every element compared), and samples against the model."""
    cupy = cp()
    tally = Tally()
    elements = 1 << (22 if quick else 26)
    sampled = 0
    for number, level in enumerate(arithmetic.LEVELS):
        profile, fmt, two = level
        rules = arithmetic.rules_of(level)
        native = arithmetic.native_values(rules)[0]
        tensor = cupy.asarray(np.array([native], np.float32))
        for dtype in arithmetic.DTYPES:
            for kind in range(3):
                x = _fuzz_input(kind, elements, dtype, SEED + 100 * number + kind).reshape(-1, 4096)
                q = mxspec_gpu.quantize(x, fmt, profile=profile, tensor_scale=tensor if two else None)
                plain_codes, plain_scales = cupy.full_like(q.codes, POISON), cupy.full_like(q.scales, POISON)
                plan = mxspec_gpu.api._plan_any(
                    rules, x.shape[0], x.shape[1], (4096, 1), dtype, 0, tiled=False, random=0
                )
                plan[0](
                    x.data.ptr,
                    plain_codes.data.ptr,
                    plain_scales.data.ptr,
                    tensor.data.ptr,
                    0,
                    0,
                    cupy.cuda.get_current_stream().ptr,
                )
                different = int((plain_codes != q.codes).sum()) + int((plain_scales != q.scales).sum())
                tally.compared += elements
                if different:
                    tally.different += different
                    tally.note(
                        f"{arithmetic.level_id(level)} {dtype} kind {kind}: {different} bytes differ between the fast and the plain kernel"
                    )
                few = to_host(x[:16])
                expected = mxspec.quantize(few, fmt, profile=profile, tensor_scale=_tensor(level, native))
                keep = np.asarray(expected.scales) != (
                    rules.fmt.scale.nan_code if not rules.profile.pins_nan_blocks else 999
                )
                got = to_host(mxspec_gpu.unpack(q.codes[:16], fmt))
                lanes = np.repeat(keep, rules.fmt.k, axis=-1)
                wrong = int((np.where(lanes, got, 0) != np.where(lanes, expected.codes, 0)).sum()) + int(
                    (to_host(q.scales[:16]) != expected.scales).sum()
                )
                sampled += few.size
                if wrong:
                    tally.different += wrong
                    tally.note(f"{arithmetic.level_id(level)} {dtype} kind {kind}: {wrong} differ from the model")
    tally.more = {"of which also against the model": sampled}
    return tally.result()


def check_fuzz_model(quick: bool) -> Result:
    """10**10 elements of random blocks, every one compared with the CPU model (a run of its own: minutes)."""
    tally = Tally()
    cupy = cp()
    elements, goal, most_seconds = 1 << (22 if quick else 26), 10**8 if quick else 10**10, 20 if quick else 240
    start, count, round_ = time.perf_counter(), 0, 0
    seconds = {"model": 0.0}
    levels = [level for level in arithmetic.LEVELS if level[0] in ("mx-floor", "nvfp4-te", "vllm-0.33/nvfp4/kernel")]
    while count < goal and time.perf_counter() - start < most_seconds:
        for level in levels:
            profile, fmt, two = level
            rules = arithmetic.rules_of(level)
            natives = arithmetic.native_values(rules)
            native = natives[round_ % len(natives)]
            tensor = cupy.asarray(np.array([native], np.float32)) if two else None
            for dtype in ("bfloat16", "float32"):
                kind = 1 + round_ % 2
                x = _fuzz_input(kind, elements, dtype, SEED + 7919 * round_ + count % 104729).reshape(-1, 4096)
                q = mxspec_gpu.quantize(x, fmt, profile=profile, tensor_scale=tensor)
                codes, scales = to_host(q.unpack()), to_host(q.scales)
                host = to_host(x)
                begin = time.perf_counter()
                expected = mxspec.quantize(host, fmt, profile=profile, tensor_scale=_tensor(level, native))
                seconds["model"] += time.perf_counter() - begin
                label = f"{arithmetic.level_id(level)} {dtype} kind {kind} round {round_}"
                if not np.array_equal(codes, expected.codes) or not np.array_equal(scales, expected.scales):
                    tally.equal(codes, np.asarray(expected.codes), f"{label} codes")
                    tally.equal(scales, np.asarray(expected.scales), f"{label} scales")
                count += elements
            if count >= goal or time.perf_counter() - start > most_seconds:
                break
        round_ += 1
    tally.compared = count
    tally.more = {"rounds": round_, "seed": SEED, "seconds of the model": round(seconds["model"], 1)}
    return tally.result()


def check_conditions(quick: bool) -> Result:
    """Graph capture, a stream of one's own, torch, more than 2**31 elements, repeated calls without allocation."""
    cupy = cp()
    tally = Tally()
    x = cupy.random.default_rng(3).standard_normal((512, 2048), dtype=cupy.float32)
    want = mxspec_gpu.quantize(x, "mxfp4", scale_layout="128x4")
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        codes, scales = cupy.full_like(want.codes, POISON), cupy.full_like(want.scales, POISON)
        stream.begin_capture()
        mxspec_gpu.quantize(x, "mxfp4", scale_layout="128x4", out=(codes, scales))
        graph = stream.end_capture()
        for _ in range(2):
            graph.launch(stream)
    stream.synchronize()
    tally.equal(to_host(codes), to_host(want.codes), "captured codes")
    tally.equal(to_host(scales), to_host(want.scales), "captured scales")
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes(), pool.total_bytes()
    for _ in range(10):
        mxspec_gpu.quantize(x, "mxfp4", scale_layout="128x4", out=(codes, scales))
    if (pool.used_bytes(), pool.total_bytes()) != before:
        tally.fail("a call with outputs given allocated memory")
    try:
        import torch
    except ImportError:
        tally.more["torch"] = "not installed"
    else:
        t = torch.randn(512, 2048, device="cuda", dtype=torch.bfloat16)
        q = mxspec_gpu.quantize(t, "mxfp4", scale_layout="128x4")
        expected = mxspec.quantize(t.cpu().view(torch.uint16).numpy().view(ml_dtypes.bfloat16), "mxfp4")
        tally.equal(q.unpack().cpu().numpy(), np.asarray(expected.codes), "torch codes")
        tally.equal(q.scales.cpu().numpy(), swizzle(np.asarray(expected.scales)), "torch scales")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = q.dequantize("bfloat16")
        torch.cuda.synchronize()
        values = mxspec.dequantize(expected.codes, expected.scales, "mxfp4", dtype=ml_dtypes.bfloat16)
        tally.equal(y.cpu().view(torch.uint16).numpy(), values.view(np.uint16), "torch values")
        graph = torch.cuda.CUDAGraph()
        out = (torch.full_like(q.codes, POISON), torch.full_like(q.scales, POISON))
        with torch.cuda.graph(graph):
            mxspec_gpu.quantize(t, "mxfp4", scale_layout="128x4", out=out)
        graph.replay()
        torch.cuda.synchronize()
        tally.equal(out[0].cpu().numpy(), q.codes.cpu().numpy(), "torch graph codes")
        tally.more["torch"] = torch.__version__
    if not quick:
        rows, columns = 131328, 32768  # 4.3e9 elements
        big = cupy.zeros((rows, columns), cupy.float16)
        piece = cupy.random.default_rng(4).standard_normal((256, columns), dtype=cupy.float32).astype(cupy.float16)
        big[-256:] = piece
        q = mxspec_gpu.quantize(big, "mxfp8_e4m3", scale_layout="128x4")
        small = mxspec_gpu.quantize(piece, "mxfp8_e4m3", scale_layout="128x4")
        tally.equal(to_host(q.codes[-256:]), to_host(small.codes), "beyond 2**32 codes")
        tally.equal(to_host(q.scales[-small.scales.size :]), to_host(small.scales), "beyond 2**32 scales")
        if int(q.codes[:-256].any()):
            tally.fail("zeros were not quantized to zeros")
        values = q.dequantize("float16")
        if not bool((values[-256:] == small.dequantize("float16")).all()):
            tally.fail("beyond 2**32 elements: values differ")
        tally.compared += rows * columns
    return tally.result()


SECTIONS: dict[str, Callable[[bool], Result]] = {
    "sweeps": check_sweeps,
    "digests": check_digests,
    "blocks": check_blocks,
    "shapes": check_shapes,
    "dequantize": check_dequantize,
    "stochastic": check_stochastic,
    "tensor-scale": check_tensor_scale,
    "conditions": check_conditions,
    "fuzz": check_fuzz,
    "fuzz-model": check_fuzz_model,
}
#: Those that a run without --only does.
DEFAULT_SECTIONS = tuple(name for name in SECTIONS if name != "fuzz-model")


def describe_device() -> Result:
    """Chip, driver and versions."""
    cupy = cp()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    commit = os.environ.get("MXSPEC_COMMIT") or git.stdout.strip() or "unknown"
    return {
        "device": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "driver": driver.stdout.strip().splitlines()[0] if driver.stdout.strip() else "unknown",
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "python": platform.python_version(),
        "mxspec": mxspec.__version__,
        "commit": commit,
    }


def main() -> int:
    """Run sections and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(DEFAULT_SECTIONS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    report: Result = {
        "what": "the kernels against the model, on a chip",
        **describe_device(),
        "quick": options.quick,
        "sections": {},
    }
    failed = False
    start = time.perf_counter()
    sources = [
        *list_instantiations(arithmetic.LEVELS, (0,)),
        *(list_instantiations(arithmetic.STOCHASTIC_LEVELS) if options.only != ["fuzz-model"] else ()),
        *(s for n in ("sweeps", "digests") if n in options.only for s in sweep_sources()),
    ]
    build_all(sources, name_arch(_capability()), os.cpu_count() or 1)
    report["compiled"] = {"kernels": len(sources), "seconds": round(time.perf_counter() - start, 1)}
    print(f"{len(sources)} kernels compiled in {report['compiled']['seconds']} s", flush=True)
    for name in options.only:
        start = time.perf_counter()
        try:
            result = SECTIONS[name](options.quick)
        except Exception as error:
            import traceback

            traceback.print_exc()
            result = {"compared": 0, "different": 1, "first": [f"{type(error).__name__}: {error}"[:600]]}
        result["seconds"] = round(time.perf_counter() - start, 2)
        report["sections"][name] = result
        failed |= result["different"] > 0
        print(
            f"{name:14} {result['compared']:>16,} compared {result['different']:>8,} different {result['seconds']:8.1f} s",
            flush=True,
        )
        for line in result["first"]:
            print("   ", line, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = options.out.with_suffix(".part")
    temporary.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    temporary.replace(options.out)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
