"""The tuned array paths give the bits of the profile's expressions, and are taken where they are promised."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec import blocks, dequantizing, fast
from mxspec.elements import round_to
from mxspec.expressions import AMAX, ONE, SF, M, X, const, exact, f32, if_less, if_nan
from mxspec.formats import E2M1, E8M0, FLOAT32, INT8, UE4M3, BlockFormat, get_block
from mxspec.profiles.schema import Profile, QuantizationSteps, ScaleStep
from mxspec.reals import encode_real, make_real
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec.tensorscale import TensorScale, bind_arrays, derive_tensor_scale
from mxspec_vectors.inputs import quantize_inputs
from mxspec_vectors.points import TENSOR_AMAXES

Floats = npt.NDArray[np.float32]

ALL = [(p.id, f) for p in mxspec.list_profiles() for f in p.formats]
NORMATIVE_MX = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")
ENDS = (0x0000, 0x0001, 0x7FFF, 0x8000, 0xFFFF)


def read_bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array's bits: zeros of both signs differ, NaN of the same bits are equal."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def draw(shape: tuple[int, ...], seed: int = 0) -> Floats:
    """N(0, 1)."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def draw_bits(rows: int, k: int, seed: int) -> Floats:
    """Any float32: half of the rows any bits, half finite ones of one binade or so, some with one special lane."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, (rows, k), dtype=np.uint32)
    near = (rng.integers(0, 250, (rows, 1), dtype=np.uint32) << np.uint32(23)) + (bits & np.uint32(0x81FFFFFF))
    bits[1::2] = near[1::2]
    special = np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0, 0x80000000, 1], np.uint32)
    bits[::5, k // 2] = rng.choice(special, len(bits[::5]))
    return bits.view(np.float32)


def sweep_maxima(fmt: BlockFormat) -> Floats:
    """Blocks whose maxima run through the upper halves of float32 at many exponents, with five lower ones each."""
    exponents = [*range(13), *range(120, 132), *range(243, 256)]
    upper = np.array([(e << 7) + m for e in exponents for m in range(128)], np.uint32)
    largest = (upper[:, None] << np.uint32(16) | np.array(ENDS, np.uint32)).reshape(-1)
    bits = np.zeros((len(largest), fmt.k), np.uint32)
    bits[:, 1:8] = largest[:, None] >> np.arange(1, 8, dtype=np.uint32)
    bits[np.arange(len(largest)), np.arange(len(largest)) % fmt.k] = largest
    bits[::2] |= np.uint32(0x80000000)
    return bits.view(np.float32)


def sweep_lanes(fmt: BlockFormat) -> Floats:
    """Blocks under one maximum whose lanes run through all float32 upper halves below it, with five lower ones."""
    top = encode_real(make_real(fmt.element.max_value), FLOAT32)
    lanes = (np.arange(top >> 16, dtype=np.uint32)[:, None] << np.uint32(16) | np.array(ENDS, np.uint32)).reshape(-1)
    lanes[::2] |= np.uint32(0x80000000)
    blocks_of_lanes = np.pad(lanes, (0, -len(lanes) % (fmt.k - 1))).reshape(-1, fmt.k - 1)
    bits = np.pad(blocks_of_lanes, ((0, 0), (1, 0)), constant_values=top)
    return bits.view(np.float32)


@cache
def directed_rows(fmt: BlockFormat) -> Floats:
    """The inputs of the vectors, as blocks."""
    cases = [c.x for c in quantize_inputs(fmt.name) if c.axis == -1]
    return np.concatenate([x.reshape(-1, fmt.k) for x in cases if x.shape[-1] % fmt.k == 0])


@cache
def all_rows(fmt: BlockFormat) -> Floats:
    return np.concatenate([directed_rows(fmt), sweep_maxima(fmt), sweep_lanes(fmt), draw_bits(2000, fmt.k, seed=1)])


def levels(profile: Profile, fmt: BlockFormat) -> Iterator[tuple[QuantizationSteps, dict[str, Any], Floats]]:
    """Every level of a profile with bound leaves, and the blocks to try on it."""
    if profile.one_level is not None:
        yield profile.one_level, {}, all_rows(fmt)
    if profile.two_level is not None:
        some = np.concatenate([directed_rows(fmt), sweep_maxima(fmt)[::7], draw_bits(500, fmt.k, seed=2)])
        for amax in TENSOR_AMAXES.values():
            yield profile.two_level, bind_arrays(profile, derive_tensor_scale(amax, profile)), some


def assert_expression(x: Floats, fmt: BlockFormat, profile: Profile, level: QuantizationSteps, bindings: dict[str, Any]) -> bool:
    """What the tuned path fills is what the expressions give; whether it applies."""
    codes, scales = np.full(x.shape, 0xEE, np.uint8), np.full((len(x), 1), 0xEE, np.uint8)
    table = blocks.element_table(fmt.element, level.element)
    left = fast.quantize(x, fmt, profile, level, bindings, table, scales, codes)
    if left is None:
        assert (codes == 0xEE).all()
        assert (scales == 0xEE).all()
        return False
    assert len(left) == len(set(left.tolist()))
    done = np.setdiff1d(np.arange(len(x)), left)
    expected_scales, expected_codes = blocks.quantize_rows(x[done], fmt, profile, level, bindings)
    np.testing.assert_array_equal(scales[done], expected_scales)
    np.testing.assert_array_equal(codes[done], expected_codes)
    return True


@pytest.mark.parametrize(("name", "fmt_name"), ALL)
def test_tuned_quantize_is_the_expression(name: str, fmt_name: str) -> None:
    profile, fmt = mxspec.get_profile(name, fmt_name), get_block(fmt_name)
    for level, bindings, x in levels(profile, fmt):
        if not assert_expression(x, fmt, profile, level, bindings):
            return


def vary(
    level: QuantizationSteps, *, scale: dict[str, Any] | None = None, element: dict[str, Any] | None = None, **parts: Any
) -> QuantizationSteps:
    """A level with fields of its rules replaced."""
    return replace(level, scale=replace(level.scale, **scale or {}), element=replace(level.element, **element or {}), **parts)


def one_level_of(fmt: str) -> QuantizationSteps:
    """The one-level arithmetic of a format's default profile."""
    level = mxspec.default_profile(fmt).one_level
    assert level is not None
    return level


MX_LEVEL, NV_LEVEL = one_level_of("mxfp4"), one_level_of("nvfp4")
CEIL_SCALE: dict[str, Any] = {"value": exact.div(AMAX, M), "step": ScaleStep.ENCODE, "subtract_emax": False}

#: Levels of no profile, each with something that the tuned path must see or refuse; whether it applies.
MADE_UP: dict[str, tuple[str, QuantizationSteps, bool]] = {
    "underflow-counts": ("mxfp4", vary(MX_LEVEL, element={"rounding": Rounding.RTP}), False),
    "overflow-counts": (
        "mxfp8_e5m2",
        vary(MX_LEVEL, scale={"byte_range": (0, 0x10)}, element={"overflow": Overflow.SATURATE_FINITE}),
        False,
    ),
    "overflow-saturates": ("mxfp8_e5m2", vary(MX_LEVEL, scale={"byte_range": (0, 0x10)}), True),
    "scale-no-power": ("nvfp4", vary(NV_LEVEL, scaled=exact.div(X, SF)), False),
    "zero-divisor": ("nvfp4", vary(NV_LEVEL, element={"nan": NanPolicy.ZERO}, scaled=f32.div(X, SF)), True),
    "nan-scale": (
        "mxfp8_e4m3",
        vary(MX_LEVEL, scale={"on_zero": 0xFF}, element={"under_nan_scale": 0x05}, scaled=f32.mul(if_nan(SF, ONE, f32.div(ONE, SF)), X)),
        True,
    ),
    "scale-to-nearest": ("mxint8", vary(MX_LEVEL, scale={**CEIL_SCALE, "rounding": Rounding.RNE}), True),
    "scale-downward": ("mxint8", vary(MX_LEVEL, scale={**CEIL_SCALE, "rounding": Rounding.RTZ}), True),
    "exact-scale": ("nvfp4", vary(NV_LEVEL, scale={"value": exact.div(AMAX, const(6))}), True),
    "ceil-to-ue4m3": ("nvfp4", vary(NV_LEVEL, scale={"value": exact.div(AMAX, M), "rounding": Rounding.RTP}), True),
    "factor-of-amax": ("mxfp4", vary(MX_LEVEL, scaled=f32.div(X, f32.mul(SF, if_less(AMAX, ONE, ONE, M)))), True),
    "factor-not-rounded": ("mxfp4", vary(MX_LEVEL, scaled=f32.mul(X, exact.div(ONE, SF))), False),
    "no-single-operation": ("mxfp4", vary(MX_LEVEL, scaled=f32.mul(f32.mul(X, X), SF)), False),
}


@pytest.mark.parametrize("k", [1, 2, 6, 15, 16, 24])
def test_blocks_of_any_length(k: int) -> None:
    fmt = BlockFormat(name="made-up", element=E2M1, scale=E8M0, k=k, shapes=((1, k),))
    assert assert_expression(draw_bits(3000, k, seed=k), fmt, mxspec.default_profile("mxfp4"), MX_LEVEL, {})


@pytest.mark.parametrize("name", MADE_UP)
def test_other_levels(name: str) -> None:
    fmt_name, level, applies = MADE_UP[name]
    fmt = get_block(fmt_name)
    assert assert_expression(all_rows(fmt), fmt, mxspec.default_profile(fmt), level, {}) == applies


def test_a_scale_finer_than_the_table() -> None:
    """Steps of ue4m3 times 127/64 have eleven significand bits."""
    fmt = BlockFormat(name="int8-ue4m3", element=INT8, scale=UE4M3, k=16, shapes=((1, 16),))
    level = vary(NV_LEVEL, scale={"value": exact.div(AMAX, M), "rounding": Rounding.RTP})
    assert assert_expression(sweep_maxima(fmt), fmt, mxspec.default_profile("nvfp4"), level, {})


def test_flushed_inputs() -> None:
    fmt, profile = get_block("mxfp8_e5m2"), replace(mxspec.get_profile("mx-floor", "mxfp8_e5m2"), flush_inputs=True)
    assert profile.one_level is not None
    assert not assert_expression(all_rows(fmt), fmt, profile, profile.one_level, {})


def every_pair(fmt: BlockFormat) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Codes and scales in which every pair of neighbouring 4-bit codes, or every code, meets every scale code."""
    count = fmt.element.code_count
    lanes = np.indices((count, count)).reshape(2, -1).T if count == 16 else np.arange(count)
    per_scale = lanes.reshape(-1, fmt.k).astype(np.uint8)
    codes = np.tile(per_scale, (fmt.scale.code_count, 1))
    scales = np.repeat(np.arange(fmt.scale.code_count, dtype=np.uint8), len(per_scale))[:, None]
    return codes, scales


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("name", "fmt_name"), ALL)
def test_tuned_dequantize_is_the_expression(monkeypatch: pytest.MonkeyPatch, name: str, fmt_name: str, dtype: npt.DTypeLike) -> None:
    monkeypatch.setattr(fast, "CODES_PER_ENTRY", 1)
    profile, fmt = mxspec.get_profile(name, fmt_name), get_block(fmt_name)
    codes, scales = every_pair(fmt)
    seen: list[QuantizationSteps] = []
    for level, bindings, _ in levels(profile, fmt):
        if level in seen and np.dtype(dtype) != np.float32:
            continue  # one tensor scale is enough here
        seen.append(level)
        known = {**bindings, "M": np.asarray(np.float32(float(fmt.element.max_value)))}
        out = np.empty(codes.shape, dtype)
        assert fast.dequantize(codes, scales, fmt, level, known, out)
        values = dequantizing.dequantize_rows(codes, scales, level, fmt, known)
        expected = round_to(values.astype(np.float64), dtype)
        np.testing.assert_array_equal(read_bits(out), read_bits(expected))


def quantize_both(monkeypatch: pytest.MonkeyPatch, *args: Any, **keywords: Any) -> list[mxspec.BlockTensor]:
    """`mxspec.quantize` as it is and without the tuned path."""
    tuned = mxspec.quantize(*args, **keywords)
    with monkeypatch.context() as patch:
        patch.setattr(fast, "quantize", lambda *_: None)
        return [tuned, mxspec.quantize(*args, **keywords)]


def assert_same(tensors: list[mxspec.BlockTensor]) -> None:
    first, *others = tensors
    for other in others:
        np.testing.assert_array_equal(first.codes, other.codes)
        np.testing.assert_array_equal(first.scales, other.scales)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 15, 16, 17, 65])
@pytest.mark.parametrize("fmt", ["mxfp4", "mxint8", "nvfp4"])
def test_chunk_borders(monkeypatch: pytest.MonkeyPatch, fmt: str, rows: int) -> None:
    monkeypatch.setattr(fast, "CHUNK_ELEMENTS", 8 * get_block(fmt).k)
    x = draw_bits(rows, get_block(fmt).k, seed=rows)
    assert_same(quantize_both(monkeypatch, x, fmt))


def test_chunks_smaller_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "CHUNK_ELEMENTS", 5)
    assert_same(quantize_both(monkeypatch, draw_bits(6, 32, seed=3), "mxfp8_e5m2"))


def test_any_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw((32, 64, 96))
    x[3, 5, 7], x[4, 4, 4] = np.nan, -np.inf
    for view in (x, x[::-1, ::2, :], x[:, ::-2, ::-1], x[:, :32, 32:], x.transpose(2, 1, 0), np.asfortranarray(x)):
        for axis in range(3):
            if view.shape[axis] % 32 == 0:
                assert_same(quantize_both(monkeypatch, view, "mxfp4", axis=axis))
                assert_same(quantize_both(monkeypatch, view, "nvfp4", axis=axis, tensor_scale="auto"))
    assert_same(quantize_both(monkeypatch, x[..., :37], "mxfp6_e3m2", pad=True))
    assert_same(quantize_both(monkeypatch, x.astype(np.float16), "mxfp8_e4m3"))


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3", "nvfp4"])
def test_any_number_of_threads(monkeypatch: pytest.MonkeyPatch, fmt: str) -> None:
    x = draw((300, 320))
    x[::40, 5] = np.inf
    scale = "auto" if fmt == "nvfp4" else None
    monkeypatch.setattr(fast, "CHUNK_ELEMENTS", 1000)
    monkeypatch.setattr(fast, "CHUNKS_OF_A_SHARE", 3)
    monkeypatch.setattr(fast, "CODES_PER_ENTRY", 1)
    results, values = [], []
    for threads in (1, 2, 3, 8, 10_000):
        monkeypatch.setattr(fast, "_thread_count", lambda shares, threads=threads: min(threads, shares))
        t = mxspec.quantize(x, fmt, tensor_scale=scale)
        results.append(t)
        values.append(read_bits(t.dequantize()))
    assert_same(results)
    for other in values[1:]:
        np.testing.assert_array_equal(values[0], other)


def test_threads_are_few_and_only_for_large_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    share = fast.CHUNK_ELEMENTS // 32 * fast.CHUNKS_OF_A_SHARE
    threads = [len(fast._spread(list, n, 32)) for n in (0, 1, share, 2 * share - 1, 2 * share, 50 * share)]
    assert threads == [1, 1, 1, 1, 2, 6]
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert len(fast._spread(list, 50 * share, 32)) == 1


def test_every_block_is_in_one_chunk() -> None:
    for count in (0, 1, 4095, 4096, 4097, 65536, 200_001):
        chunks = sorted((c.start, c.stop) for part in fast._spread(list, count, 32) for c in part)
        assert [i for start, stop in chunks for i in range(start, stop)] == list(range(count))


def test_a_thread_that_fails_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "_thread_count", lambda shares: 2)

    def work(_: Iterator[slice]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fast._spread(work, 100, 32)


PROMISED = [(p, f, None) for p in NORMATIVE_MX for f in mxspec.get_profile(p, "mxfp4").formats]
PROMISED_NVFP4 = [("nvfp4-te", "nvfp4", None), ("nvfp4-te", "nvfp4", "auto")]


@pytest.mark.parametrize(("profile", "fmt", "scale"), [*PROMISED, *PROMISED_NVFP4])
def test_the_tuned_path_is_taken(monkeypatch: pytest.MonkeyPatch, profile: str, fmt: str, scale: str | None) -> None:
    """Ordinary data never reaches the evaluator of rows, in either direction."""

    def refuse(*_: Any) -> None:
        raise AssertionError("the tuned path was not taken")

    monkeypatch.setattr(blocks, "quantize_rows", refuse)
    monkeypatch.setattr(dequantizing, "dequantize_rows", refuse)
    monkeypatch.setattr(blocks, "dequantize_rows", refuse)
    x = draw((512, 512))
    x[5] = 0
    t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    t.dequantize()
    t.dequantize(np.float16)


def test_special_blocks_alone_are_left() -> None:
    x = draw((64, 32))
    x[3, 4], x[10, 0], x[11, 31] = np.nan, np.inf, -np.inf
    x[20] = 1e-40
    profile, fmt = mxspec.get_profile("mx-floor", "mxfp4"), get_block("mxfp4")
    level = profile.one_level
    assert level is not None
    codes, scales = np.empty(x.shape, np.uint8), np.empty((64, 1), np.uint8)
    table = blocks.element_table(fmt.element, level.element)
    left = fast.quantize(x, fmt, profile, level, {}, table, scales, codes)
    assert left is not None
    assert left.tolist() == [3, 10, 11, 20]


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3", "nvfp4"])
def test_memory(fmt: str) -> None:
    """Beyond input and output, half of the input at most."""
    x = draw((1024, 4096))
    scale = "auto" if fmt == "nvfp4" else None

    def peak(run: Callable[[], Any], output: int) -> int:
        run()
        tracemalloc.start()
        run()
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top - output

    t = mxspec.quantize(x, fmt, tensor_scale=scale)
    assert peak(lambda: mxspec.quantize(x, fmt, tensor_scale=scale), t.codes.nbytes + t.scales.nbytes) <= x.nbytes // 2
    assert peak(t.dequantize, x.nbytes) <= x.nbytes // 2


def test_tensor_scales_of_any_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative, infinite and NaN tensor scales give what the expressions give."""
    monkeypatch.setattr(fast, "CODES_PER_ENTRY", 1)
    x = draw((192, 192))
    for profile in mxspec.list_profiles("nvfp4"):
        if profile.tensor is None:
            continue
        for bits in (0xC0490FDB, 0x7F800000, 0x7FC00000, 0x00000001):
            scale = TensorScale(profile.tensor.native, bits)
            both = quantize_both(monkeypatch, x, "nvfp4", profile=profile, tensor_scale=scale)
            assert_same(both)
            with monkeypatch.context() as patch:
                tuned = both[0].dequantize()
                patch.setattr(fast, "dequantize", lambda *_: False)
                np.testing.assert_array_equal(read_bits(tuned), read_bits(both[0].dequantize()))
