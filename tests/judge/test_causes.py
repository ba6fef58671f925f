"""A headline names the cause where one is known; what it names is a type, and nothing is named of a right target."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.formats import BLOCKS
from mxspec.layouts import get_layout
from mxspec.rounding import Rounding
from mxspec_conformance.judge.causes import KnownCause, questions
from mxspec_conformance.judge.causes.questions import Need
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.invariance.misplaced import Displacement
from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.mutants.two_level_mutants import stored
from mxspec_conformance.render.impact import describe_impact
from mxspec_conformance.results.conclusion import Stand, conclude
from mxspec_lab.threads.numbers import low_half

from tests.bugs import Kind, list_entries
from tests.bugs.building import Answer, Array, find_amax, given, is_ordinary, make, model, on_blocks, right
from tests.bugs.judging import judge


def of_scales(choose: Callable[[Array, str, Array], Array]) -> Any:
    """The scales of ordinary blocks are chosen by their numbers, the format and the model's scales; the codes belong to them."""

    def quantize(x: Array, fmt: str) -> Answer:
        scales, used = model(x, fmt)[1], is_ordinary(x)
        with np.errstate(all="ignore"):
            scales[used] = choose(x[used], fmt, scales[used])
        return given(x, scales, fmt), scales

    return quantize


def scales_of(largest: Array, fmt: str) -> Array:
    """The model's scales of blocks with these maxima."""
    return model(largest[:, None] * (np.arange(BLOCKS[fmt].k) == 0).astype(np.float32), fmt)[1]


def moved(step: int) -> Any:
    """Every scale so many steps away."""
    return of_scales(lambda x, fmt, s: np.where((s > 3) & (s < 250), s + np.uint8(step % 256), s))


def maximum_in(dtype: Any) -> Any:
    def choose(x: Array, fmt: str, scales: Array) -> Array:
        largest = find_amax(x).astype(dtype).astype(np.float32)
        return np.where(np.isfinite(largest), scales_of(np.where(np.isfinite(largest), largest, 0), fmt), scales)

    return of_scales(choose)


def signed_maximum(x: Array, fmt: str, scales: Array) -> Array:
    return np.where((x > 0).any(axis=1), model(np.where(x > 0, x, np.float32(0)), fmt)[1], scales)


def bounded(low: float = 0, high: float = np.inf, step: int = 0) -> Any:
    """The maximum clamped before the scale is made of it; the scale some steps away."""
    return of_scales(
        lambda x, fmt, s: np.clip(scales_of(np.clip(find_amax(x), np.float32(low), np.float32(high)), fmt).astype(int) + step, 0, 254)
    )


def unclamped(x: Array, fmt: str, scales: Array) -> Array:
    """The exponent field less emax, in eight bits."""
    field = find_amax(x).view(np.uint32) >> 23
    return np.where(x.any(axis=1), (field.astype(int) - BLOCKS[fmt].element.emax) % 256, scales)


def nearest_in_log2(x: Array, fmt: str, scales: Array) -> Array:
    fraction, exponent = np.frexp(find_amax(x) / np.float32(BLOCKS[fmt].element.max_value))
    return np.where(x.any(axis=1), np.clip(exponent - 1 + (2 * fraction > np.sqrt(2)) + 127, 0, 254), scales)


def turning_at(mantissa: float) -> Any:
    """amax / M as a power of two, the upper one beyond so many times the lower."""

    def choose(x: Array, fmt: str, scales: Array) -> Array:
        fraction, exponent = np.frexp(find_amax(x) / np.float32(BLOCKS[fmt].element.max_value))
        return np.where(x.any(axis=1), np.clip(exponent - 1 + (2 * fraction > mantissa) + 127, 0, 254), scales)

    return of_scales(choose)


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3"])
@pytest.mark.parametrize(("mantissa", "named"), [(1.3, False), (np.sqrt(2), True), (1.5, False)])
def test_another_turning_point_than_that_of_a_logarithm_is_not_called_one(mantissa: float, named: bool, fmt: str) -> None:
    report = check(make([fmt], quantize=on_blocks(turning_at(mantissa))), only="*/scale-boundary")
    assert (KnownCause.SCALE_NEAREST_LOG2 in report.formats[0].causes) is named
    assert (KnownCause.SCALE_RULE in report.formats[0].causes) == (mantissa == 1.5)  # nearest without a logarithm


def of_range(half: int) -> Any:
    return of_scales(lambda x, fmt, s: scales_of(np.nan_to_num((x.max(axis=1) - x.min(axis=1)) / np.float32(half)), fmt))


def of_quotients(encode: Callable[[Array, Any], Array]) -> Any:
    """Codes of ordinary blocks made of x / scale in float32."""

    def quantize(x: Array, fmt: str) -> Answer:
        (codes, scales), ordinary = model(x, fmt), is_ordinary(x)
        with np.errstate(all="ignore"):
            quotient = (x.astype(np.float64) / 2.0 ** (scales.astype(float)[:, None] - 127)).astype(np.float32)
            codes[ordinary] = encode(quotient[ordinary], BLOCKS[fmt].element)
        return codes, scales

    return quantize


def quotient_in(dtype: Any) -> Any:
    return of_quotients(lambda v, element: mxspec.encode(v.astype(dtype).astype(np.float32), element))


def cut_to_float16(quotient: Array, element: Any) -> Array:
    narrow = quotient.astype(np.float16)
    above = np.abs(narrow.astype(np.float32)) > np.abs(quotient)
    return mxspec.encode(np.where(above, np.nextafter(narrow, np.float16(0)), narrow).astype(np.float32), element)


def biased(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    return codes, np.where((scales > 0) & (scales < 255), scales - 1, scales)


def flushed(x: Array, fmt: str) -> Answer:
    return model(np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x), fmt)


def unrounded_scale(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt, profile="mx-rceil")
    largest = np.abs(x).max(axis=1)
    ordinary = np.isfinite(x).all(axis=1) & (largest > 0)
    ratio = largest[ordinary] / np.float32(BLOCKS[fmt].element.max_value)
    codes[ordinary] = mxspec.encode((x[ordinary] / ratio[:, None]).astype(np.float32), BLOCKS[fmt].element)
    return codes, scales


def unclamped_scale(x: Array, fmt: str, *, step: float = 0.0) -> Answer:
    """Elements times the float32 reciprocal of a scale that is clamped only where it is stored; step: of the logarithm that finds it."""
    codes, scales = model(x, fmt)
    element = BLOCKS[fmt].element
    with np.errstate(all="ignore"):
        largest = np.abs(x).max(axis=1).astype(np.float64) * (1 + step)
        exponent = np.frexp(largest)[1] - 1 - element.emax
        small = np.isfinite(x).all(axis=1) & (largest > 0) & (exponent < -127)
        scaled = x * (np.float32(1) / np.ldexp(np.float32(1), exponent))[:, None]
        codes[small] = mxspec.encode(np.where(np.isnan(scaled), 0, scaled)[small], element)
    return codes, scales


def whole_numbers(x: Array, fmt: str) -> Answer:
    """Elements as integers from -128 to 127, under the profile's scales."""
    codes, scales = model(x, fmt)
    with np.errstate(all="ignore"):
        ordinary = np.isfinite(x).all(axis=1) & (scales > 0)
        scaled = np.ldexp(x.astype(np.float64), 127 - scales[:, None].astype(int))
        steps = np.clip(np.copysign(np.floor(np.abs(scaled) + 0.5), scaled), -128, 127)
    codes[ordinary] = steps[ordinary].astype(np.int8).view(np.uint8)
    return codes, scales


def zero_byte(x: Array, fmt: str) -> Answer:
    """Elements under byte 00 are divided by zero."""
    codes, scales = model(x, fmt)
    lowest = (scales == 0) & np.isfinite(x).all(axis=1)
    divided = np.where(x == 0, np.float32(np.nan), np.copysign(np.float32(np.inf), x))
    codes[lowest] = mxspec.encode(divided[lowest], BLOCKS[fmt].element)
    return codes, scales


def without_tensor_scale(x: Array, fmt: str, tensor_scale: float) -> Answer:
    """The tensor scale is in the block scales, and elements are divided by these alone."""
    scales = mxspec.quantize(
        x, fmt, profile="nvfp4-paper", tensor_scale=mxspec.TensorScale("encode", int(np.float32(tensor_scale).view(np.uint32)))
    ).scales
    stored = np.repeat(mxspec.decode(scales, "ue4m3"), 16, axis=1)
    factor = np.divide(np.float32(1), stored, out=np.zeros_like(stored), where=stored != 0)
    with np.errstate(all="ignore"):
        return mxspec.encode(x * factor, "e2m1"), scales


def least_block_scale(x: Array, fmt: str, tensor_scale: float) -> Answer:
    """Block scales of E4M3 are never subnormal; the codes are those of the model's own scale."""
    codes, scales = right(x, fmt, tensor_scale)
    return codes, np.maximum(scales, 8)


def with_half_added(quotient: Array, element: Any) -> Array:
    size = np.minimum(np.abs(quotient), np.float32(element.max_value))
    step = np.ldexp(np.float32(1), np.maximum(np.frexp(size)[1] - 1, 1 - element.bias) - element.mantissa_bits).astype(np.float32)
    rounded = np.floor(size / step + np.float32(0.5)) * step
    return mxspec.encode(np.copysign(rounded, quotient), element)


def without_sticky(quotient: Array, element: Any) -> Array:
    step = np.ldexp(0.5, np.maximum(np.frexp(quotient)[1] - 1, 1 - element.bias) - element.mantissa_bits)
    return mxspec.encode((np.trunc(quotient / step) * step).astype(np.float32), element)


def ieee_like(quotient: Array, element: Any) -> Array:
    first = element.max_code >> element.mantissa_bits << element.mantissa_bits
    codes = mxspec.encode(quotient, element)
    return np.where((codes & (element.sign_bit - 1)) >= first, codes & element.sign_bit | first - 1, codes).astype(np.uint8)


def ties_toward(side: str) -> Callable[[Array, Any], Array]:
    """The nearest number, looked up among all with their signs; of two, the lower one ("left") or the upper one."""

    def encode(quotient: Array, element: Any) -> Array:
        values = mxspec.decode(np.arange(element.code_count, dtype=np.uint8), element.name).astype(np.float64)
        codes = np.flatnonzero((np.abs(values) <= element.max_value) & ~((values == 0) & np.signbit(values)))
        codes = codes[np.argsort(values[codes])]
        middles = (values[codes][1:] + values[codes][:-1]) / 2
        return codes[np.searchsorted(middles, quotient.astype(np.float64), side=side)].astype(np.uint8)  # type: ignore[call-overload, no-any-return]

    return encode


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def least_distance(quotient: Array, less: float) -> Array:
    """E2M1 codes by distances in float32, which are smaller by `less` for even codes."""
    distances = np.abs(np.abs(quotient)[..., None] - _E2M1) - np.float32(less) * (np.arange(8) % 2 == 0).astype(np.float32)
    return (np.argmin(distances, axis=-1) | np.signbit(quotient) * 8).astype(np.uint8)


def with_wide_ties(x: Array, fmt: str, tensor_scale: float) -> Answer:
    """A kernel of NVFP4 that multiplies by the encode scale first, and by a reciprocal then, and finds codes by distances."""
    with np.errstate(all="ignore"):
        blocks = (x.astype(np.float32) * np.float32(tensor_scale)).reshape(-1, 16)
        scales = mxspec.encode(np.abs(blocks).max(axis=1) / np.float32(6), "ue4m3")
        stored = mxspec.decode(scales, "ue4m3")
        inverse = np.where(stored == 0, np.float32(0), np.float32(1) / stored)
        codes = least_distance(blocks * inverse[:, None], 1e-6)
    return codes.reshape(x.shape), scales.reshape(len(x), -1)


def block_scales_toward_zero(x: Array, fmt: str) -> Answer:
    """Ties of block scales go to the smaller one; elements are right under these scales."""
    blocks = x.astype(np.float32).reshape(-1, 16)
    values = mxspec.decode(np.arange(127, dtype=np.uint8), "ue4m3").astype(np.float64)
    with np.errstate(all="ignore"):
        scales = np.searchsorted((values[1:] + values[:-1]) / 2, (np.abs(blocks).max(axis=1) / np.float32(6)).astype(np.float64)).astype(
            np.uint8
        )
        stored = values[scales][:, None]
        codes = mxspec.encode(np.where(stored == 0, 0, blocks / stored).astype(np.float32), "e2m1")
    plain = np.isfinite(blocks).all(axis=1).reshape(len(x), -1)
    wanted, bytes_ = right(x, fmt)
    return np.where(np.repeat(plain, 16, axis=1), codes.reshape(x.shape), wanted), np.where(plain, scales.reshape(len(x), -1), bytes_)


def log2f_of(quotient: Callable[[Array, Array], Array], whole: Any) -> Any:
    """The scale's exponent is a logarithm of a quotient, both in float32."""

    def choose(x: Array, fmt: str, scales: Array) -> Array:
        logarithm = np.log2(quotient(find_amax(x), np.float32(BLOCKS[fmt].element.max_value)).astype(np.float64)).astype(np.float32)  # noqa: TID251
        return np.where(x.any(axis=1), np.clip(np.nan_to_num(whole(logarithm)) + 127, 0, 254), scales)

    return of_scales(choose)


def away_below_zero(quotient: Array, element: Any) -> Array:
    even, away = (mxspec.encode(quotient, element, rounding=mode) for mode in (Rounding.RNE, Rounding.RNA))
    return np.where(quotient < 0, away, even)


def without_subnormals(quotient: Array, element: Any, *, before: bool) -> Array:
    codes = mxspec.encode(quotient, element)
    small = np.abs(quotient) < float(element.min_normal) if before else (codes & (element.sign_bit - 1)) < 1 << element.mantissa_bits
    return np.where(small, codes & element.sign_bit, codes).astype(np.uint8)


def by_tensor_scale(x: Array, fmt: str, tensor_scale: float, *, narrow: bool) -> Answer:
    """NVFP4 in the order of nvfp4-decode, the tensor scale in bfloat16, or elements divided by the scale that was not rounded."""
    g, blocks = np.float32(tensor_scale), x.reshape(len(x), -1, 16)
    g = g.astype(ml_dtypes.bfloat16).astype(np.float32) if narrow else g
    amax = np.abs(blocks).max(axis=2)
    with np.errstate(all="ignore"):
        scales = np.clip(np.nan_to_num(amax / np.float32(6) / g), 0, 448).astype(ml_dtypes.float8_e4m3fn)
        quotient = blocks / (scales.astype(np.float32) * g if narrow else amax / np.float32(6))[..., None]
    codes = mxspec.encode(np.where(blocks == 0, blocks, np.nan_to_num(quotient, nan=6)).astype(np.float32), BLOCKS[fmt].element)
    return codes.reshape(x.shape), scales.view(np.uint8)


def late_scales_wrong(x: Array, fmt: str) -> Answer:
    """Behind the middle of the last tile of 128 rows, each has the scale of the row before."""
    codes, scales = right(x, fmt)
    middle = len(x) // 128 * 128 + 64
    scales[middle + 1 :] = scales[middle:-1].copy()
    return codes, scales


def by_chance() -> SimpleNamespace:
    chance = np.random.default_rng(1)

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = right(x, fmt)
        return codes ^ (chance.random(codes.shape) < 0.001).astype(np.uint8), scales

    return make(["mxfp4"], quantize=quantize)


def swapped(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    return codes[:, 1::2] | codes[:, ::2] << 4, scales


def transposed(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    return codes, scales.reshape(scales.shape[::-1]).T


def tiled(x: Array, fmt: str) -> Answer:
    """The first bytes of what a kernel for tiles writes."""
    codes, scales = right(x, fmt)
    return codes, get_layout("128x4").pack(scales)[: scales.size].reshape(scales.shape)


def behind_nan(*, later_calls: bool) -> Callable[[], SimpleNamespace]:
    """A flag that a block with NaN sets, and that the end of the call clears, or nothing."""

    def make_target() -> SimpleNamespace:
        flag = False

        def quantize(x: Array, fmt: str) -> Answer:
            nonlocal flag
            codes, scales = right(x, fmt)
            seen = np.isnan(x).any(axis=1).cumsum() > 0
            scales[seen | flag] = BLOCKS[fmt].scale.nan_code
            flag |= later_calls and bool(seen.any())
            return codes, scales

        return make(["mxfp4"], quantize=quantize)

    return make_target


def wrong_in_bfloat16(x: Array, fmt: str) -> Answer:
    if x.dtype == np.float32:
        return right(x, fmt)
    with np.errstate(invalid="ignore"):
        return right(x, fmt, profile="mx-ceil")


def last_columns_missing(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    scales[:, 8:] = 0
    return codes, scales


def of_blocks(function: Any, *formats: str) -> Callable[[], SimpleNamespace]:
    return lambda: make(formats or ["mxfp4"], quantize=on_blocks(function))


def late_rows_wrong(x: Array, fmt: str) -> Answer:
    """Blocks of the vectors stand there, too: their elements are wrong in that call alone."""
    codes, scales = right(x, fmt)
    codes[200:] ^= 1
    return codes, scales


def laid_otherwise(fmt: str, layout: str, declared: str) -> Any:
    """Codes that lie in a layout that is not the declared one."""

    def quantize(x: Array, fmt: str) -> Any:
        codes, scales = right(x, fmt)
        return get_layout(layout).pack(codes).reshape(len(x), -1), scales

    return make([fmt], LAYOUT=declared, quantize=quantize)


def of_pairs(choose: Callable[[Array], Array]) -> Any:
    """NVFP4 in which two blocks of a row that lie next to each other have the scale of one maximum, which is chosen from theirs [n, 2]."""

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = right(x, fmt)
        blocks = x.astype(np.float32).reshape(len(x), -1, 16)
        whole = blocks[:, : blocks.shape[1] // 2 * 2].reshape(-1, 2, 16)
        if np.isfinite(whole).all() and whole.size:
            largest = np.repeat(choose(np.abs(whole).max(axis=2)), 2)
            shared = scales_of(largest, fmt)
            with np.errstate(all="ignore"):
                quotient = np.nan_to_num(whole.reshape(-1, 16) * (np.float32(1) / mxspec.decode(shared, "ue4m3"))[:, None])
            there = np.arange(scales.shape[1]) < blocks.shape[1] // 2 * 2
            scales[:, there] = shared.reshape(len(x), -1)
            codes[:, np.repeat(there, 16)] = mxspec.encode(quotient, "e2m1").reshape(len(x), -1)
        return codes, scales

    return lambda: make(["nvfp4"], quantize=quantize)


def of_scale_bytes(change: Callable[[Array, Array], Array], profile: str = "nvfp4-paper") -> Any:
    """NVFP4 with other scale bytes: (bytes, the ratios that they round)."""
    return lambda: Reference(profile, change={"store_ratio": stored(change)})


def in_float16(x: Array, scale: Array, *, end: float = np.inf) -> Array:
    """x times the reciprocal of a scale in float16; end: at most that."""
    with np.errstate(all="ignore"):
        return (x * np.minimum((1 / scale).astype(np.float16).astype(np.float32), np.float32(end))[:, None]).astype(np.float64)


def with_reciprocal(fmt: str, end: float = np.inf) -> Any:
    def make_target() -> Reference:
        target = Reference("mx-floor", change={"divide": lambda c, x, s: in_float16(x, s, end=end)})
        target.FORMATS = [fmt]
        return target

    return make_target


def encode_scale_over_float16(c: Any, scale: Array, amax: Array) -> Array:
    return np.where(scale == 0, np.float32(0), (np.float32(1) / (scale * (np.float32(1) / c.S))).astype(np.float16).astype(np.float32))


CAUSES: dict[str, tuple[KnownCause, Callable[[], SimpleNamespace], str]] = {
    "one scale step up": (KnownCause.SCALE_OFFSET, of_blocks(moved(1)), "one above mx-floor's, a factor of 2^1"),
    "two scale steps down": (KnownCause.SCALE_OFFSET, of_blocks(moved(-2), "mxfp8_e4m3"), "2 below mx-floor's, a factor of 2^-2"),
    "bias 126": (KnownCause.SCALE_BIAS, of_blocks(biased), "bias"),
    "flush to zero": (KnownCause.SUBNORMALS_FLUSHED, of_blocks(flushed, "mxfp4", "mxfp8_e5m2"), "subnormals"),
    "quotient in bfloat16": (KnownCause.NARROW_QUOTIENT, of_blocks(quotient_in(ml_dtypes.bfloat16), "mxfp8_e4m3"), "in bfloat16"),
    "quotient in float16": (KnownCause.NARROW_QUOTIENT, of_blocks(quotient_in(np.float16), "mxint8"), "in float16"),
    "quotient cut to float16": (KnownCause.NARROW_QUOTIENT, of_blocks(of_quotients(cut_to_float16), "mxfp8_e4m3"), "float16 by cutting"),
    "unrounded scale": (
        KnownCause.UNROUNDED_SCALE, lambda: make(["mxfp8_e4m3"], PROFILE="mx-rceil", quantize=on_blocks(unrounded_scale)), "before it was rounded",
    ),
    "unclamped scale": (KnownCause.UNCLAMPED_SCALE, of_blocks(unclamped_scale, "mxfp4", "mxfp6_e3m2"), "whose scale byte is 00"),
    "unclamped scale, by a logarithm": (
        KnownCause.UNCLAMPED_SCALE, of_blocks(partial(unclamped_scale, step=2.64e-6), "mxfp4", "mxfp8_e4m3"), "whose scale byte is 00",
    ),
    "whole numbers": (KnownCause.WHOLE_NUMBERS, of_blocks(whole_numbers, "mxint8"), "nearest, ties away from zero: the factor 2^-6"),
    "maximum in bfloat16": (KnownCause.NARROW_MAXIMUM, of_blocks(maximum_in(ml_dtypes.bfloat16)), "in bfloat16"),
    "inputs in bfloat16": (
        KnownCause.NARROW_INPUT, of_blocks(lambda x, f: model(x.astype(ml_dtypes.bfloat16).astype(np.float32), f), "mxfp4", "mxfp8_e4m3", "mxint8"), "inputs were held in bfloat16",
    ),
    "the least scale of an end at 240": (
        KnownCause.SCALE_RULE, of_blocks(log2f_of(lambda a, m: a / np.float32(240), np.ceil), "mxfp8_e4m3"), "ceil(log2f v), v = amax / 240",
    ),
    "reciprocal too small": (KnownCause.RECIPROCAL, of_blocks(of_quotients(lambda v, e: mxspec.encode((v.astype(float) * (1 - 2.0**-22)).astype(np.float32), e))), "slightly too small"),
    "maximum without abs": (KnownCause.SIGNED_MAXIMUM, of_blocks(of_scales(signed_maximum)), "not of |x|"),
    "sixteen lanes": (KnownCause.HALF_OF_THE_LANES, of_blocks(of_scales(lambda x, f, s: model(np.where(np.arange(32) < 16, x, np.float32(0)), f)[1])), "lanes 0 to 15 alone"),
    "byte 00 is zero": (KnownCause.SCALE_MISREAD, of_blocks(zero_byte, "mxfp8_e4m3"), "byte 00 were zero"),
    "elements without the tensor scale": (
        KnownCause.TENSOR_SCALE_LEFT_OUT, lambda: make(["nvfp4"], TENSOR_SCALE="encode", PROFILE="nvfp4-paper", quantize=without_tensor_scale),
        "left out of the elements",
    ),
    "maximum of 1e-10 and more": (KnownCause.SCALE_BOUNDED, of_blocks(bounded(low=1e-10)), "floored at byte 5b, for every amax below 1.164e-10"),
    "maximum of 1e10 and less": (KnownCause.SCALE_BOUNDED, of_blocks(bounded(high=1e10)), "capped at byte 9e, for every amax above 8.59e+09"),
    "block scales of 2^-6 and more": (
        KnownCause.SCALE_BOUNDED, lambda: make(["nvfp4"], TENSOR_SCALE="amax", quantize=least_block_scale), "floored at byte 08, for every amax below",
    ),
    "half the scale above a floor": (KnownCause.SCALE_OFFSET, of_blocks(bounded(low=1e-10, step=-1), "mxint8"), "one below mx-floor's"),
    "half added": (KnownCause.HALF_ADDED, of_blocks(of_quotients(with_half_added), "mxfp4", "mxfp6_e2m3"), "floor(v + 0.5) in float32"),
    "no clamp": (
        KnownCause.OWN_OVERFLOW, of_blocks(of_quotients(lambda v, e: v.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)), "mxfp8_e4m3"), "beyond 448 become NaN",
    ),
    "no sticky bit": (KnownCause.STICKY_LOST, of_blocks(of_quotients(without_sticky), "mxfp4", "mxfp8_e4m3"), "sticky bit is lost"),
    "top exponent reserved": (KnownCause.TOP_RESERVED, of_blocks(of_quotients(ieee_like)), "elements end at 3:"),
    "scale of one": (KnownCause.SCALE_CONSTANT, of_blocks(of_scales(lambda x, f, scales: np.full_like(scales, 0x7F))), "every scale is 1 (code 7f)"),
    "scale that wraps": (KnownCause.SCALE_WRAPS, of_blocks(of_scales(unclamped)), "wrap: ff, fe for"),
    "nearest in log2": (KnownCause.SCALE_NEAREST_LOG2, of_blocks(of_scales(nearest_in_log2), "mxfp8_e4m3"), "amax / 448 rounded to the nearest power of two in log2"),
    "ties toward minus infinity": (
        KnownCause.TIES_BY_SIGN, of_blocks(of_quotients(ties_toward("left")), "mxfp4", "mxfp8_e4m3", "mxint8"), "nearest, ties toward -infinity",
    ),
    "ties toward plus infinity": (
        KnownCause.TIES_BY_SIGN, of_blocks(of_quotients(ties_toward("right")), "mxfp6_e2m3", "mxint8"), "nearest, ties toward +infinity",
    ),
    "ties by distances": (KnownCause.WIDE_TIES, of_blocks(of_quotients(lambda v, e: least_distance(v, 1e-6))), "less 1e-6 for even codes"),
    "reciprocal of a rounded quotient": (
        KnownCause.SCALE_RULE, of_blocks(log2f_of(lambda a, m: np.float32(1) / (m / a), np.ceil), "mxfp8_e4m3"),
        "ceil(log2f v), v = 1 / (448 / amax), each result rounded to float32",
    ),
    "floor of a reciprocal of a rounded quotient": (
        KnownCause.SCALE_RULE, of_blocks(log2f_of(lambda a, m: np.float32(1) / (m / a), np.floor), "mxfp4", "mxfp6_e3m2"),
        "floor(log2f v), v = 1 / (",
    ),
    "floor of a product with a rounded reciprocal": (
        KnownCause.SCALE_RULE, of_blocks(log2f_of(lambda a, m: a * (np.float32(1) / m), np.floor), "mxfp8_e5m2"),
        "v = amax * (1 / 57344), each result rounded to float32; 2 more of the known rules have the same scales here",
    ),
    "ceil of a logarithm that is off by a unit": (
        KnownCause.SCALE_RULE,
        of_blocks(log2f_of(lambda a, m: np.float32(1) / (m / a), lambda e: np.ceil(np.where(e == np.rint(e), np.nextafter(e, np.float32(np.inf)), e))), "mxfp8_e4m3"),
        "ceil of an inexact float log2 of amax / 448",
    ),
    "block scales toward zero": (
        KnownCause.SCALE_RULE, lambda: make(["nvfp4"], quantize=block_scales_toward_zero), "amax / 6, rounded to float32, in ue4m3 nearest, ties toward zero",
    ),
    "quotient in FP8": (
        KnownCause.NARROW_QUOTIENT, of_blocks(quotient_in(ml_dtypes.float8_e4m3fn), "mxfp4"), "as if the quotient x / scale were held in float8_e4m3",
    ),
    "ties of negative numbers away from zero": (
        KnownCause.TIES_BY_SIGN, of_blocks(of_quotients(away_below_zero), "mxfp4", "mxfp8_e4m3"), "nearest, ties away from zero where they are negative",
    ),
    "no subnormal elements": (
        KnownCause.COARSE_BELOW, of_blocks(of_quotients(partial(without_subnormals, before=False)), "mxfp6_e3m2"), "zero where that is subnormal",
    ),
    "no subnormal quotients": (
        KnownCause.COARSE_BELOW, of_blocks(of_quotients(partial(without_subnormals, before=True)), "mxfp4", "mxfp8_e4m3"), "below the smallest normal",
    ),
    "tensor scale in bfloat16": (
        KnownCause.TENSOR_SCALE_NARROW, lambda: make(["nvfp4"], quantize=partial(by_tensor_scale, narrow=True)), "held in bfloat16",
    ),
    "block scale that was not rounded": (
        KnownCause.UNROUNDED_SCALE, lambda: make(["nvfp4"], quantize=partial(by_tensor_scale, narrow=False)), "before it was rounded to ue4m3",
    ),
    "late scales": (KnownCause.CALL_ALONE, lambda: make(["mxfp4"], quantize=late_scales_wrong), "right block by block"),
    "by chance": (KnownCause.NOT_DETERMINISTIC, by_chance, "not deterministic"),
    "nibbles": (KnownCause.NIBBLE_ORDER, lambda: make(["mxfp4"], LAYOUT="nibble-low", quantize=swapped), "nibble-high"),
    "halves of blocks": (KnownCause.NIBBLE_ORDER, lambda: laid_otherwise("mxfp4", "nibble-split-32", "nibble-split-16"), 'lie as in LAYOUT = "nibble-split-32", and are read as nibble-split-16'),
    "6 bits": (KnownCause.NIBBLE_ORDER, lambda: laid_otherwise("mxfp6_e2m3", "fp6-planes", "fp6-le"), 'lie as in LAYOUT = "fp6-planes"'),
    "transposed scales": (KnownCause.TRANSPOSED_SCALES, lambda: make(["mxfp4"], quantize=transposed), "transposed"),
    "scales in tiles": (KnownCause.TILED_SCALES, lambda: make(["mxfp4"], quantize=tiled), 'in the order of 128x4 tiles, LAYOUT = "128x4"'),
    "flag of NaN within a call": (KnownCause.NAN_STATE, behind_nan(later_calls=False), "behind one with NaN in the same call"),
    "flag of NaN for ever": (KnownCause.NAN_STATE, behind_nan(later_calls=True), "all blocks of later calls"),
    "scale of max - min": (KnownCause.RANGE_AS_MAXIMUM, of_blocks(of_range(1)), "that of equal numbers is 0"),
    "scale of half the range": (KnownCause.RANGE_AS_MAXIMUM, of_blocks(of_range(2), "mxfp8_e4m3"), "(max - min) / 2"),
    "bfloat16 alone": (
        KnownCause.ONE_DTYPE, lambda: make(["mxfp4"], DTYPES=["float32", "bfloat16"], quantize=wrong_in_bfloat16), "only inputs in bfloat16",
    ),
    "blocks of 32": (KnownCause.WIDE_BLOCKS, of_pairs(lambda a: a.max(axis=1)), "blocks of 32 numbers share a scale, where nvfp4 has one for 16"),
    "no subnormal scales": (KnownCause.SCALE_SUBNORMALS, of_scale_bytes(lambda s, r: np.where(s < 8, 0, s)), "ue4m3 below 0.015625, become zero"),
    "no subnormal ratios": (
        KnownCause.SCALE_SUBNORMALS, of_scale_bytes(lambda s, r: np.where(r < 2.0**-6, 0, s), "nvfp4-te"), "ue4m3 below 0.015625, become zero",
    ),
    "normal scales": (
        KnownCause.SCALE_SUBNORMALS, of_scale_bytes(lambda s, r: np.where((s > 0) & (s < 8), 8, s)), "become the smallest normal one",
    ),
    "two bytes of a tensor scale": (
        KnownCause.TENSOR_SCALE_MISREAD, lambda: Reference("nvfp4-paper", change={"find_encode_scale": low_half}), "two bytes of float16 or bfloat16 were read as four",
    ),
    "reciprocal in float16": (KnownCause.NARROW_RECIPROCAL, with_reciprocal("mxfp4"), "reciprocal of the scale were held in float16"),
    "reciprocal under a tensor scale in float16": (
        KnownCause.NARROW_RECIPROCAL, lambda: Reference("nvfp4-paper", change={"find_factor": encode_scale_over_float16}), "were held in float16",
    ),
    "late rows": (KnownCause.CALL_ALONE, lambda: make(["mxfp4"], quantize=late_rows_wrong), "right block by block"),
    "many columns": (KnownCause.CALL_ALONE, lambda: make(["mxfp4"], quantize=last_columns_missing), "depends on the call"),
}  # fmt: skip


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_named(name: str) -> None:
    cause, target, words = CAUSES[name]
    for result in check(target()).formats:
        assert result.causes[:1] == [cause.value]
        assert words in result.deviations[0]


def slightly_large(x: Array, fmt: str) -> Answer:
    """Quotients one unit in the last place too large, so that ties and what lies just below go up: of ties alone one block shows no more."""
    scales = ((np.abs(x).reshape(len(x), -1, 32).max(axis=-1).view(np.uint32) >> 23).clip(2) - 2).astype(np.uint8)
    quotients = np.abs(x) / np.repeat(np.ldexp(np.float32(1), scales.astype(int) - 127), 32, axis=-1)
    codes = np.searchsorted([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], np.nextafter(quotients, np.float32(np.inf)), side="right")
    return (codes | np.signbit(x) << 3).astype(np.uint8), scales


def test_no_guess_at_one_block_stands_beside_a_cause_of_all() -> None:
    report = check(make(["mxfp4"], quantize=slightly_large), quick=True, data=[])
    assert "as if x / scale came out slightly too large" in report.formats[0].deviations[0]
    steps = [step for r in report.requirements if r.first is not None for step in r.first.steps]
    assert any(step.endswith(": one code away from zero") for step in steps)
    assert not any("as if" in step for step in steps), steps


def late_rows_nan(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    scales[200:] = 0xFF
    return codes, scales


#: Kernels with another mistake than a cause that they resemble.
RESEMBLING = {
    "transposed": (KnownCause.TILED_SCALES, lambda: make(["mxfp4"], quantize=transposed)),
    "rows from the last to the first": (
        KnownCause.TILED_SCALES,
        lambda: make(["mxfp4"], quantize=lambda x, f: (right(x, f)[0], right(x, f)[1][::-1])),
    ),
    "NaN in late rows": (KnownCause.NAN_STATE, lambda: make(["mxfp4"], quantize=late_rows_nan)),
    "the first of two blocks": (KnownCause.WIDE_BLOCKS, of_pairs(lambda a: a[:, 0])),
    "four subnormal scales": (KnownCause.SCALE_SUBNORMALS, of_scale_bytes(lambda s, r: np.where(s < 5, 0, s))),
    "a floor of the scale": (KnownCause.SCALE_SUBNORMALS, of_scale_bytes(lambda s, r: np.maximum(s, 8))),
    "no tensor scale": (
        KnownCause.TENSOR_SCALE_MISREAD,
        lambda: Reference("nvfp4-paper", change={"find_encode_scale": lambda c: np.float32(1)}),
    ),
    "reciprocal of 1024 and less": (KnownCause.NARROW_RECIPROCAL, with_reciprocal("mxfp4", 1024.0)),
    "maximum without abs": (KnownCause.RANGE_AS_MAXIMUM, of_blocks(of_scales(signed_maximum))),
}


@pytest.mark.parametrize("name", RESEMBLING)
def test_a_cause_is_not_named_of_what_resembles_it(name: str) -> None:
    cause, target = RESEMBLING[name]
    (result,) = check(target(), quick=True, data=[]).formats
    assert result.failing
    assert cause.value not in result.causes


def test_ties_of_a_window_are_named_next_to_the_rule_of_the_scale() -> None:
    (result,) = check(make(["nvfp4"], TENSOR_SCALE="encode", quantize=with_wide_ties)).formats
    assert result.causes == [KnownCause.SCALE_RULE.value, KnownCause.WIDE_TIES.value]
    assert result.deviations[0] == "scale: (amax * encode scale) / 6, each result rounded to float32, in ue4m3 nearest, ties to even"
    assert result.deviations[1].endswith(
        "less 1e-6 for even codes: more than ties go to even, of (x * encode scale) * (1 / block scale), each result rounded to float32"
    )


def test_a_cause_of_elements_says_nothing_of_the_scale() -> None:
    def quantize(x: Array, fmt: str) -> Answer:
        (codes, scales), ordinary = model(x, fmt, "mx-ceil"), is_ordinary(x)
        with np.errstate(all="ignore"):
            quotient = (x[ordinary].astype(np.float64) / 2.0 ** (scales[ordinary].astype(float)[:, None] - 127)).astype(np.float32)
        codes[ordinary] = ties_toward("left")(quotient, BLOCKS[fmt].element)
        return codes, scales

    (result,) = check(of_blocks(quantize)(), profile="mx-floor").formats
    assert result.causes == [KnownCause.TIES_BY_SIGN.value]
    assert result.deviations[1:] == ["scale: ceil(log2 amax) - emax, exact"]


def test_a_floor_is_named_beside_another_cause() -> None:
    (result,) = check(CAUSES["half the scale above a floor"][1]()).formats
    assert result.causes == [KnownCause.SCALE_OFFSET.value, KnownCause.SCALE_BOUNDED.value]
    assert "floored at byte 5c, for every amax below 1.164e-10" in result.deviations[1]


def test_a_rounding_that_right_elements_refute_is_not_named() -> None:
    """Without a sticky bit all that is wrong goes toward zero, but other elements go up."""
    report = check(of_blocks(of_quotients(without_sticky))())
    assert not any("toward zero" in r.note for r in report.requirements)


def by_reference(fmt: str, *, flushes: bool = False, **change: Any) -> Any:
    """MX by the reference, in float32; flushes: float32 subnormals of the input."""

    def make_target() -> Reference:
        load = {"load": lambda c, x: np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)} if flushes else {}
        target = Reference("mx-floor", change=load | change)
        target.FORMATS, target.DTYPES = [fmt], ("float32",)  # type: ignore[misc]
        return target

    return make_target


def in_mode(mode: str) -> Any:
    return lambda c, magnitude, negative, _="rne": reference.round_magnitude(c, magnitude, negative, mode)


def without_clamp(c: Any, value: Array) -> Array:
    return np.where(value > 448, c.element.nan_code, reference.code_magnitude(c, np.minimum(value, 448)))


def quotient_in_bfloat16(c: Any, x: Array, scale: Array) -> Array:
    return reference.divide(c, x, scale).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def one_up(c: Any, amax: Array) -> Array:
    return reference.exponent_floor(c, amax) + 1


_FTZ, _AWAY = "subnormals of the input count as zeros", "nearest, ties away from zero"
#: Two mistakes at once: the causes, and what the sentences hold.
TWICE: dict[str, tuple[Any, list[KnownCause], list[str]]] = {
    "flush and a narrow quotient": (by_reference("mxfp8_e4m3", flushes=True, divide=quotient_in_bfloat16), [KnownCause.NARROW_QUOTIENT], ["in bfloat16", _FTZ]),
    "ties away and no clamp": (
        by_reference("mxfp8_e4m3", round_magnitude=in_mode("rna"), saturate=lambda c, r, m: r, code_magnitude=without_clamp), [KnownCause.OWN_OVERFLOW],
        ["beyond 448 become NaN", _AWAY],
    ),
    "cut and flush": (by_reference("mxfp4", flushes=True, round_magnitude=in_mode("rtz")), [KnownCause.SUBNORMALS_FLUSHED], [_FTZ, "elements are rounded toward zero"]),
    "one step up and ties away": (by_reference("mxfp4", find_exponent=one_up, round_magnitude=in_mode("rna")), [KnownCause.SCALE_OFFSET], ["a factor of 2^1", _AWAY]),
    "no subnormal scales and ties away": (
        lambda: Reference("nvfp4-te", change={"store_ratio": stored(lambda s, r: np.where(s < 8, 0, s)), "round_magnitude": in_mode("rna")}),
        [KnownCause.SCALE_SUBNORMALS], ["become zero", _AWAY],
    ),
    "another scale and a narrow quotient": (
        by_reference("mxfp8_e4m3", find_exponent=reference.exponent_ceil, divide=quotient_in_bfloat16), [KnownCause.NARROW_QUOTIENT], ["in bfloat16"],
    ),
    "cut alone": (by_reference("mxfp4", round_magnitude=in_mode("rtz")), [], ["toward zero"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_each_of_two_mistakes_is_named(name: str) -> None:
    target, causes, words = TWICE[name]
    (result,) = check(target(), only="quantize/*", quick=True, data=[]).formats
    assert result.causes == [c.value for c in causes]
    assert all(w in "; ".join(result.deviations) for w in words)
    assert len(causes) == 1 or "besides" not in "; ".join(result.deviations)


def test_an_assertion_without_a_text_is_shown_by_its_place_in_the_target() -> None:
    library: dict[str, Any] = {}
    exec(compile("def need(x):\n    assert x", "/usr/lib/python3/site-packages/library/checks.py", "exec"), library)

    def quantize(x: Array, fmt: str) -> Answer:
        library["need"](not np.isnan(x).any())  # the target's line
        return right(x, fmt)

    (result,) = check(make(["mxfp4"], quantize=quantize), only="quantize/*/nan").formats
    assert re.fullmatch(r"error: AssertionError: \S+test_causes\.py:\d+: library\[\"need\"\].*", result.behaviour["NaN in a block"])


def test_values_that_are_nan_have_no_quality() -> None:
    (result,) = check(CAUSES["no clamp"][1]()).formats
    (text,) = describe_impact(result)
    assert "some values are NaN or infinite" in text
    assert "none" not in text


def test_what_a_nan_leaves_behind_is_told() -> None:
    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = model(x, fmt)
        late = np.isnan(x).any(axis=1).cumsum() > 0
        codes[late], scales[late] = 0, 0xFF
        return codes, scales

    report = check(of_blocks(quantize)(), only="quantize/mxfp4/call-size", quick=True)
    (first,) = [r.first for r in report.requirements if r.topic == "call-size"]
    assert first is not None
    assert Displacement.NAN.value in first.steps


@pytest.mark.parametrize("entry", [*list_entries(Kind.UNUSUAL)[:6], *list_entries(Kind.OPEN)[:4]], ids=lambda e: e.id)
def test_of_right_targets_no_cause_is_named(entry: Any) -> None:
    assert all(result.causes == [] for result in judge(entry).formats)


def encode_taken_for_decode(x: Array, fmt: str, tensor_scale: float) -> Answer:
    """A kernel of its own, which is no profile's: float64, by the decode scale, of which it is given the inverse."""
    g = float(tensor_scale)
    blocks = x.astype(np.float64).reshape(len(x), -1, 16)
    with np.errstate(all="ignore"):
        scale = np.clip(np.abs(blocks).max(axis=2) / 6 / g, 0, 448).astype(np.float32)
        codes = mxspec.encode(scale.reshape(-1), "ue4m3").reshape(scale.shape)
        stored = mxspec.decode(codes, "ue4m3").astype(np.float64)
        quotient = np.nan_to_num(blocks / (stored * g)[..., None], posinf=6, neginf=-6).astype(np.float32)
    return mxspec.encode(quotient.reshape(x.shape), "e2m1"), codes


def test_a_kernel_that_is_no_profile_is_told_of_its_tensor_scale() -> None:
    target = make(["nvfp4"], TENSOR_SCALE="encode", quantize=encode_taken_for_decode)
    (result,) = check(target).formats
    assert result.causes[0] == KnownCause.TENSOR_SCALE_KIND.value
    assert result.behaviour["tensor scale of quantize"] == "decode"


def test_tensor_scale_returning_the_reciprocal_is_told() -> None:
    def tensor_scale(x: Array, fmt: str) -> float:
        with np.errstate(all="ignore"):
            return float(np.float32(2688) / np.float32(np.abs(x).max()))

    (result,) = check(make(["nvfp4"], TENSOR_SCALE="decode", tensor_scale=tensor_scale)).formats
    assert result.deviations[0] == "tensor_scale returns the encode scale; TENSOR_SCALE says decode"


def test_what_holds_for_the_minority_is_not_printed() -> None:
    """Codes that follow no rule are not said to follow one."""
    target = make(["mxfp4"], quantize=on_blocks(lambda x, f: (model(x, f)[0] ^ 5, model(x, f)[1])))
    (result,) = check(target).formats
    assert not any("except for" in d for d in result.deviations)
    assert "by no rounding that is known here" in result.behaviour["elements"]


@pytest.mark.parametrize("profile", ["mx-floor", "mx-rceil", "mx-even", "mx-ceil"])
def test_failing_cases_never_exceed_those_asked_and_what_was_asked_is_not_called_nearest(profile: str) -> None:
    report = check(make(["mxfp4"], DTYPES=["float32", "float16", "bfloat16"], quantize=right), profile=profile, formats=["mxfp4"])
    (result,) = report.formats
    assert 0 <= result.failing <= result.distance <= result.cases
    stand = conclude(result, report.requirements).stand
    assert stand is (Stand.CONFORMS if profile == "mx-floor" else Stand.DIFFERS)


def test_every_need_can_be_met_and_is_some_question_s() -> None:
    assert set(Need) == set(questions.MET) == {need for question in questions.QUESTIONS for need in question.needs}
    assert len({question.ask for question in questions.QUESTIONS}) == len(questions.QUESTIONS)


def test_a_tensor_scale_of_the_kernels_own_is_named() -> None:
    """A dynamic quantizer whose third output is left out."""

    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt, tensor_scale="auto")
        return t.codes, t.scales

    report = check(SimpleNamespace(FORMATS=["nvfp4"], quantize=quantize), in_process=True, quick=True)
    assert report.exit_code == 1
    assert (report.formats[0].causes, report.formats[0].deviations[0][:34]) == (["tensor-scale-own"], "the tensor has a scale of its own:")
