"""The kernels' arithmetic, compiled for the host once a run, and the inputs that it is compared on."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.adjacent import register_named
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import TensorScaleKind
from mxspec_gpu.host import HostLibrary, build_host_library
from mxspec_gpu.rules import KernelRules, generate_rules

from tests.once import once

Level = tuple[str, str, bool]


def _list_levels() -> tuple[Level, ...]:
    found: list[Level] = []
    for fmt in (b.name for b in mxspec.BLOCKS.values() if b.is_ocp or b.has_tensor_scale):
        for profile in mxspec.list_profiles(fmt):
            for two_level in (False, True):
                try:
                    generate_rules(profile.id, fmt, two_level=two_level)
                except ValueError:  # a part that the kernels lack, or a level that the profile lacks
                    continue
                found.append((profile.id, fmt, two_level))
    return tuple(found)


#: FP8 in groups of 128, whose formats are registered where a test asks for the rules of one.
_GROUPS = {
    "fp8_e4m3-128-f32": (
        "deepgemm-2.6/fp8-128/float32", "deepgemm-2.6/fp8-128/float32-cuda", "vllm-0.33/fp8-128/native", "vllm-0.33/fp8-128/cuda",
        "vllm-0.33/fp8-128/triton", "sglang-0.5/fp8-128/triton", "te-2.20/fp8-128/float32", "transformers-5.23/fp8-128/float32",
        "torchao-0.18/fp8-128/torch",
    ),
    "fp8_e5m2-128-f32": ("te-2.20/fp8-128/float32/e5m2", "torchao-0.18/fp8-128/torch/e5m2"),
    "fp8_e4m3-128": ("deepgemm-2.6/fp8-128/ue8m0", "deepgemm-2.6/fp8-128/ue8m0-cuda"),
}  # fmt: skip
GROUP_LEVELS: tuple[Level, ...] = tuple((profile, fmt, False) for fmt, profiles in _GROUPS.items() for profile in profiles)
#: (profile, format, with a tensor scale): every level that the kernels have.
LEVELS: tuple[Level, ...] = (*_list_levels(), *GROUP_LEVELS)
#: One level of each format, and both of nvfp4: where what is tried does not depend on the profile.
FORMAT_LEVELS: tuple[Level, ...] = tuple(level for level in LEVELS if level[0] in ("mx-floor", "nvfp4-te"))
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def level_id(level: Level) -> str:
    """A short name for a test."""
    profile, fmt, two = level
    return f"{profile}-{fmt}{'-two' if two else ''}".replace("/", "_")


@lru_cache(maxsize=1)
def library() -> HostLibrary:
    """The compiled arithmetic with the rules of all `LEVELS`."""
    rules = tuple(rules_of(level) for level in LEVELS)
    return HostLibrary(Path(once("host library", lambda: str(build_host_library(rules).path).encode()).decode()), rules)


def rules_of(level: Level) -> KernelRules:
    """The generated rules of a level, whose format is registered from then on."""
    profile, fmt, two = level
    register_named([fmt])
    return generate_rules(profile, fmt, two_level=two)


def native_values(rules: KernelRules) -> tuple[float, ...]:
    """Tensor scales to try, as float32 numbers of the profile's native kind; their reciprocals are inexact."""
    if rules.native is None:
        return (1.0,)
    amax = (3.7109375, 0.0173, 61423.0)
    numbers = {
        TensorScaleKind.AMAX: amax,
        TensorScaleKind.DECODE: tuple(a / 2688 for a in amax),
        TensorScaleKind.ENCODE: tuple(2688 / a for a in amax),
    }[rules.native]
    return tuple(float(np.float32(n)) for n in numbers)


@lru_cache(maxsize=32)
def sixteen_bit_blocks(dtype: str, k: int) -> npt.NDArray[Any]:
    """All 65,536 numbers of a 16-bit dtype, each in a block whose largest number is 0 to 12 binades above it, then shuffled
    blocks of them all; NaN and Inf have blocks of their own and blocks with others."""
    rng = np.random.default_rng(20)
    bits = np.arange(1 << 16, dtype=np.uint32)
    plain = bits.astype(np.uint16).reshape(-1, k)
    shuffled = rng.permutation(plain.ravel()).reshape(-1, k)
    exponent_shift = 7 if dtype == "bfloat16" else 10
    finite = bits[(bits & 0x7FFF) < (0x7F80 if dtype == "bfloat16" else 0x7C00)]
    rows = finite[: finite.size // (k - 1) * (k - 1)].reshape(-1, k - 1)
    raised = np.minimum(
        (rows.max(axis=1, initial=0, where=(rows & 0x8000) == 0) & 0x7FFF) + (rng.integers(0, 13, len(rows)) << exponent_shift),
        (0x7F7F if dtype == "bfloat16" else 0x7BFF),
    )
    with_largest = np.concatenate([rows, raised[:, np.newaxis]], axis=1).astype(np.uint16)
    return np.concatenate([plain, shuffled, with_largest]).view(DTYPES[dtype])


def random_blocks(dtype: str, k: int, count: int, seed: int) -> npt.NDArray[Any]:
    """Blocks whose binades lie near each other, at every place of the dtype's range; some hold zeros, NaN or Inf."""
    rng = np.random.default_rng(seed)
    spread = rng.integers(0, 9, (count, 1)) * 2.0
    low, high = (-24, 15) if dtype == "float16" else (-148, 127)
    base = rng.uniform(low, high, (count, 1))
    x = rng.choice([-1.0, 1.0], (count, k)) * np.exp2(base - rng.uniform(0, 1, (count, k)) * spread)
    with np.errstate(all="ignore"):
        x32 = x.astype(np.float32)
        # A quarter of the blocks: multiples of a sixteenth of the block's power of two, where the ties lie.
        few = rng.random(count) < 0.25
        grid = np.exp2(np.floor(base)) / 16
        x32[few] = (np.round(x / grid) * grid).astype(np.float32)[few]
        for value, share in ((0.0, 0.02), (-0.0, 0.02), (np.nan, 0.001), (np.inf, 0.001), (-np.inf, 0.001)):
            x32[rng.random(x32.shape) < share] = value
        x32[rng.random(count) < 0.01] = 0.0
        return x32.astype(DTYPES[dtype])


def threshold_blocks(level: Level, native: float) -> npt.NDArray[np.float32]:
    """float32 blocks made backwards from the rules: elements that land on, just below and just above every rounding
    threshold of the format, under scales of every magnitude."""
    rules = rules_of(level)
    fmt = rules.fmt
    values = mxspec.decode(np.arange(fmt.element.code_count, dtype=np.uint8), fmt.element).astype(np.float64)
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    points = np.unique(np.concatenate([finite, (finite[1:] + finite[:-1]) / 2]))
    top = float(fmt.element.max_value)
    factor = {None: 1.0, "decode": native, "encode": 1 / native, "amax": native / 2688}[
        None if rules.native is None else rules.native.value
    ]
    blocks = []
    rng = np.random.default_rng(7)
    if fmt.scale.name == "e8m0":
        scales = np.exp2(rng.integers(-126, 118, 60).astype(np.float64))
    elif fmt.scale.name == "f32":  # few bits, so that products are exact
        scales = rng.integers(128, 256, 60) * np.exp2(rng.integers(-130, 100, 60).astype(np.float64))
    else:
        scales = rng.uniform(1, 448, 60) * factor
    for scale in scales:
        near = np.concatenate([points * scale, -points * scale])
        with np.errstate(over="ignore", under="ignore"):
            middle = near.astype(np.float32)
            near32 = np.concatenate([middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))])
        near32 = near32[np.isfinite(near32)]
        rng.shuffle(near32)
        rows = np.zeros((-(-near32.size // (fmt.k - 1)), fmt.k), np.float32)
        rows[:, : fmt.k - 1].reshape(-1)[: near32.size] = near32[: rows[:, : fmt.k - 1].size]
        flat = np.resize(near32, (len(rows), fmt.k - 1))
        rows[:, : fmt.k - 1] = flat
        rows[:, fmt.k - 1] = np.float32(min(top * scale, 3e38))
        blocks.append(rows)
    return np.concatenate(blocks)


def pack(codes: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """Codes [n, k] as little-endian bit strings [n, k bits / 8], the first code in the lowest bits."""
    places = np.unpackbits(codes[..., np.newaxis], axis=-1, count=bits, bitorder="little")
    return np.packbits(places.reshape(len(codes), -1), axis=-1, bitorder="little")


def scale_codes(fmt: BlockFormat) -> npt.NDArray[Any]:
    """All codes of a scale format; of float32 those at its edges, and some of every binade."""
    if fmt.scale.bits <= 8:
        return np.arange(fmt.scale.code_count, dtype=np.uint8)
    edges = [0, 1, 0x7FFFFF, 0x800000, 0x36924925, fmt.scale.max_code, 0x7F800000, 0x7FC00000]
    return np.concatenate([np.array(edges, np.uint32), np.random.default_rng(9).integers(1, 0x7F800000, 500, dtype=np.uint32)])


def block_k(fmt: str) -> int:
    """Elements of a block."""
    return get_block(fmt).k
