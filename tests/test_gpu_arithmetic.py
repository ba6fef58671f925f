"""The kernels' arithmetic, compiled for the host, against the model: bit for bit, without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec import reals
from mxspec.adjacent import ADJACENT
from mxspec.elements import default_nan_policy
from mxspec.formats import OCP_ELEMENTS, get_scalar
from mxspec.profiles.schema import AmaxNan
from mxspec.rounding import DETERMINISTIC
from mxspec.tensorscale import TensorScale, find_tensor_amax
from mxspec_gpu.kernels import SCALARS
from mxspec_gpu.rules import UnsupportedProfileError, generate_rules

from tests.cuda_headers import all_of, directed_float32, wide_float32
from tests.gpu.arithmetic import (
    DTYPES,
    FORMAT_LEVELS,
    GROUP_LEVELS,
    LEVELS,
    Level,
    level_id,
    library,
    native_values,
    pack,
    random_blocks,
    rules_of,
    scale_codes,
    sixteen_bit_blocks,
    threshold_blocks,
)

ELEMENTS = tuple(element.name for element in OCP_ELEMENTS)
SEED = 20240917


def scalar_inputs(name: str) -> npt.NDArray[np.float32]:
    """Directed and wide float32, and all float16 and bfloat16 numbers."""
    small = [all_of(d).astype(np.float32) for d in ("float16", "bfloat16")]
    return np.concatenate([directed_float32(name), wide_float32(), *small])


def nan_pair(name: str) -> tuple[int, int]:
    fmt = get_scalar(name)
    return reals.nan_codes(fmt, default_nan_policy(fmt))


#: Formats without Inf and NaN only saturate.
OVERFLOWS = [
    (name, overflow)
    for name in SCALARS
    for overflow in ("saturate", "own", "saturate-finite")
    if overflow == "saturate" or get_scalar(name).nan_code is not None
]


@pytest.mark.parametrize(("name", "overflow"), OVERFLOWS)
def test_encode(name: str, overflow: str) -> None:
    x = scalar_inputs(name)
    for rounding in DETERMINISTIC:
        expected = mxspec.encode(x, name, rounding=rounding, overflow=overflow, sign="ignore")
        got = library().encode(x, name, rounding.value, overflow, nan_pair(name))
        np.testing.assert_array_equal(got, expected, err_msg=f"{rounding}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SCALARS)
def test_encode_16_bit_numbers(name: str, dtype: str) -> None:
    """As they are stored, so that a NaN of the kernels' own conversion keeps its sign."""
    x = all_of(dtype)
    expected = mxspec.encode(x, name, sign="ignore")
    np.testing.assert_array_equal(library().encode(x, name, "rne", "saturate", nan_pair(name)), expected)
    assert nan_pair("e4m3") == (0x7F, 0xFF)


@pytest.mark.parametrize("nan", list(AmaxNan)[:2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_amax(dtype: str, nan: AmaxNan) -> None:
    """The largest magnitude of a tensor, NaN among it or not."""
    assert nan in (AmaxNan.PROPAGATE, AmaxNan.SKIP)
    rng = np.random.default_rng(SEED)
    for x in (
        rng.standard_normal(1000).astype(DTYPES[dtype]),
        np.array([1, -np.nan, -3, np.nan], DTYPES[dtype]),
        np.array([np.nan, 2, -5, -np.nan, 0, -np.inf], DTYPES[dtype]),
        np.array([-np.nan, np.nan], DTYPES[dtype]),
        np.array([-0.0, 0.0], DTYPES[dtype]),
    ):
        got = library().find_amax(x, skip_nan=nan is AmaxNan.SKIP)
        expected = find_tensor_amax(x, nan=nan)
        assert got == expected or (got > 0x7F800000 and expected > 0x7F800000)


@pytest.mark.parametrize("dtype", DTYPES)
def test_largest_magnitude_of_a_block(dtype: str) -> None:
    """At every place, whatever its sign and those next to it; a NaN is above all, and nothing has a sign."""
    few = random_blocks(dtype, 8 if dtype == "float32" else 16, 2000, SEED)
    x = few if dtype == "float32" else np.concatenate([few, sixteen_bit_blocks(dtype, 16)])
    got = library().find_largest(x)
    expected = np.abs(x.astype(np.float32)).max(axis=1).view(np.uint32) & 0x7FFFFFFF
    lost = expected > 0x7F800000
    assert (got[lost] > 0x7F800000).all()
    assert (got < 0x80000000).all()
    np.testing.assert_array_equal(got[~lost], expected[~lost])


@pytest.mark.parametrize("name", ELEMENTS)
def test_fast_encoder(name: str) -> None:
    x = scalar_inputs(name)
    x = x[np.isfinite(x)]
    x = x[: x.size // 8 * 8]
    np.testing.assert_array_equal(library().encode8(x, name), mxspec.encode(x, name))


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("name", SCALARS)
def test_encode_stochastic(name: str, bits: int) -> None:
    rng = np.random.default_rng(SEED)
    x = np.repeat(scalar_inputs(name)[::3], 2)
    words = rng.integers(0, 1 << 32, x.size, dtype=np.uint32)
    words[::7] = 0
    words[1::7] = 0xFFFFFFFF
    words[2::7] = 0x80000000
    expected = mxspec.encode(x, name, rounding="sr", sr_bits=bits, random_bits=words, sign="ignore")
    np.testing.assert_array_equal(library().encode_stochastic(x, name, words, bits, nan_pair(name)), expected)


@pytest.mark.parametrize("name", SCALARS)
def test_decode(name: str) -> None:
    codes = np.arange(get_scalar(name).code_count, dtype=np.uint8)
    got, expected = library().decode(codes, name), mxspec.decode(codes, name)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("name", ELEMENTS)
def test_fast_decoder(name: str) -> None:
    fmt = get_scalar(name)
    codes = np.random.default_rng(SEED).permutation(np.tile(np.arange(fmt.code_count, dtype=np.uint8), 64))
    got = library().decode(pack(codes[np.newaxis], fmt.bits)[0], name, packed=True)
    expected = mxspec.decode(codes, name)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def compare_blocks(level: Level, x: npt.NDArray[Any], native: float, least_ordinary: int) -> None:
    profile, fmt, two = level
    rules = rules_of(level)
    scale = None
    if two:
        assert rules.native is not None
        scale = TensorScale.from_float(rules.native, native)
    # Profiles are held to their arithmetic on every dtype, also where the stack itself takes fewer.
    expected = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    want = pack(expected.codes, rules.fmt.element.bits)
    for fast in (False, True):
        codes, scales, ordinary = library().quantize(x, LEVELS.index(level), fast=fast, native=native)
        lost = np.zeros(len(x), np.bool_)
        if rules.profile.unspecified_nan_block_codes:
            lost = expected.scales[:, 0] == rules.fmt.scale.nan_code
        np.testing.assert_array_equal(scales, expected.scales[:, 0], err_msg=f"scales, fast={fast}")
        np.testing.assert_array_equal(codes[~lost], want[~lost], err_msg=f"codes, fast={fast}")
        assert ordinary >= least_ordinary * fast


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_quantize_all_16_bit_numbers(level: Level, dtype: str) -> None:
    x = sixteen_bit_blocks(dtype, rules_of(level).fmt.k)
    for native in native_values(rules_of(level)):
        compare_blocks(level, x, native, len(x) // 20)


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
def test_quantize_thresholds(level: Level) -> None:
    for native in native_values(rules_of(level))[:2]:
        x = threshold_blocks(level, native)
        compare_blocks(level, x, native, len(x) // 2)


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_random(level: Level, dtype: str) -> None:
    x = random_blocks(dtype, rules_of(level).fmt.k, 4000, SEED)
    compare_blocks(level, x, native_values(rules_of(level))[0], 1000)


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("level", FORMAT_LEVELS[::3], ids=level_id)
def test_quantize_with_random_words(level: Level, bits: int) -> None:
    profile, fmt, two = level
    x = random_blocks("bfloat16", rules_of(level).fmt.k, 2000, SEED)
    x = np.where(np.isnan(x.astype(np.float32)), 1, x).astype(x.dtype)
    words = np.random.default_rng(SEED).integers(0, 1 << 32, x.shape, dtype=np.uint32)
    native = native_values(rules_of(level))[0]
    scale = TensorScale.from_float(rules_of(level).native or "decode", native) if two else None
    expected = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale, random_bits=words, sr_bits=bits)
    codes, scales, _ = library().quantize(x, LEVELS.index(level), fast=False, native=native, words=words, random=bits)
    np.testing.assert_array_equal(scales, expected.scales[:, 0])
    np.testing.assert_array_equal(codes, pack(expected.codes, rules_of(level).fmt.element.bits))


def counter_bytes(seed: int, count: int, first: int = 0) -> npt.NDArray[np.uint8]:
    """The documented random bytes, from the counter `first` on."""
    groups = -(-count // 16)
    out = np.empty((groups, 4), np.uint32)
    multiply, weyl = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
    for group in range(groups):
        c = [(first + group) & 0xFFFFFFFF, (first + group) >> 32, 0, 0]
        k = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            p0, p1 = c[0] * multiply[0], c[2] * multiply[1]
            c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
            k = [(a + b) & 0xFFFFFFFF for a, b in zip(k, weyl, strict=True)]
        out[group] = c
    return out.view(np.uint8).reshape(-1)[:count]


def test_philox_known_answers() -> None:
    """Random123's known answer for Philox4x32-10 with a counter and a key of zeros."""
    assert counter_bytes(0, 16).view(np.uint32).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFF])
@pytest.mark.parametrize("base", [0, (5 << 32) + 6, (1 << 32) - 8])
def test_counters_side_by_side(base: int, seed: int, pairs: bool) -> None:
    """They give the documented bytes, and say from where on the upper word is another, which they do not read."""
    got, right = library().make_random(base, 24, seed, pairs=pairs)
    expected = counter_bytes(seed, 24 * 16, base).reshape(24, 16)
    theirs = (base + np.arange(24)) >> 32 == base >> 32
    np.testing.assert_array_equal(np.repeat(right, 1 + pairs), theirs)
    np.testing.assert_array_equal(got[theirs], expected[theirs])
    assert not (got[~theirs] == expected[~theirs]).all(axis=1).any()


@pytest.mark.parametrize("level", [FORMAT_LEVELS[0], FORMAT_LEVELS[-1]], ids=level_id)
@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_with_counter(level: Level, dtype: str) -> None:
    profile, fmt, two = level
    x = random_blocks(dtype, rules_of(level).fmt.k, 1000, SEED)
    x = np.where(np.isnan(x.astype(np.float32)), 1, x).astype(x.dtype)
    native = native_values(rules_of(level))[0]
    scale = TensorScale.from_float(rules_of(level).native or "decode", native) if two else None
    seed = 0x0123456789ABCDEF
    words = counter_bytes(seed, x.size).astype(np.uint32).reshape(x.shape)
    expected = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale, random_bits=words, sr_bits=8)
    for fast in (False, True):
        codes, scales, ordinary = library().quantize(x, LEVELS.index(level), fast=fast, native=native, random="counter", seed=seed)
        np.testing.assert_array_equal(scales, expected.scales[:, 0])
        np.testing.assert_array_equal(codes, pack(expected.codes, 4), err_msg=f"fast={fast}")
        assert ordinary >= 500 * fast


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
def test_dequantize_every_code_under_every_byte(level: Level) -> None:
    profile, fmt_name, two = level
    rules = rules_of(level)
    fmt = rules.fmt
    repeats = -(-fmt.element.code_count // fmt.k)
    scales = np.repeat(scale_codes(fmt)[:, np.newaxis], repeats, axis=1)
    codes = np.resize(np.arange(fmt.element.code_count, dtype=np.uint8), (len(scales), repeats * fmt.k))
    for native in native_values(rules):
        scale = TensorScale.from_float(rules.native or "decode", native) if two else None
        expected = mxspec.dequantize(codes, scales, fmt_name, profile=profile, tensor_scale=scale).reshape(-1)
        packed = pack(codes, fmt.element.bits).reshape(-1)
        got = library().dequantize(packed, scales.reshape(-1), LEVELS.index(level), native=native)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        kept = ~np.isnan(expected)
        np.testing.assert_array_equal(got[kept].view(np.uint32), expected[kept].view(np.uint32))


def test_profiles_of_groups() -> None:
    """All that libraries compute, but what needs a float log2, a power of two or a quotient in 16 bits."""
    for fmt in dict.fromkeys(level[1] for level in GROUP_LEVELS):
        block = mxspec.register_adjacent(fmt)
        lacks = []
        for profile in ADJACENT[fmt].profiles:
            # Not among the levels that a card has run: the page names them.
            if (profile.id, fmt, False) not in GROUP_LEVELS and profile.id not in ("sglang-0.5/fp8-128/swiglu", "sglang-0.5/fp8-128/cuda"):
                with pytest.raises(UnsupportedProfileError, match=r"log2f-ceil|by ceil|pow2ceil|amax is inf|the domain b?f16"):
                    generate_rules(profile, block, two_level=False)
                lacks.append(profile.id)
        assert len(lacks) == {"fp8_e4m3-128-f32": 7, "fp8_e5m2-128-f32": 3, "fp8_e4m3-128": 3}[fmt]


def test_refuses_what_kernels_lack() -> None:
    with pytest.raises(UnsupportedProfileError, match=r"profile .* which the kernels do not have; use mxspec\.quantize"):
        generate_rules("torchao-0.18/mxfp4/rceil/eager", "mxfp4", two_level=False)
    with pytest.raises(ValueError, match="has no tensor scale"):
        generate_rules("mx-floor", "mxfp4", two_level=True)
