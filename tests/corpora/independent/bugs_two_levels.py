"""Bugs in NVFP4's two scales and in `tensor_scale`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpora.independent.bugs_rounding import next_up
from tests.corpora.independent.catalogue import Bug, Stage
from tests.corpora.independent.implementation import FLT_MAX, RECIPROCAL_2688, SIXTH, bits_of, float_of

Array = Any
ONE, SIX = np.float32(1), np.float32(6)
TINY = np.float32(2.0**-126)


def two(id_: str, story: str, profile: str, **change: Stage) -> Bug:
    """A bug of `quantize`."""
    return Bug(id_, story, "quantize", "nvfp4", profile, change)


def flush(x: Array) -> Array:
    """Subnormals to zero."""
    return np.where(np.abs(x) < TINY, np.float32(0), x).astype(np.float32)


def ulps(x: Array, n: int) -> Array:
    """Positive numbers moved by some steps."""
    moved = float_of(bits_of(x) + n).reshape(np.shape(x))
    return np.where((x > TINY) & np.isfinite(x) & (x < FLT_MAX), moved, x).astype(np.float32)


def after(change: Callable[[Array], Array]) -> Stage:
    """A stage's result is changed."""
    return lambda right, *a: change(right(*a))


def first(change: Callable[[Array], Array]) -> Stage:
    """A stage's first argument is changed."""
    return lambda right, x, *a: right(change(x), *a)


def second(change: Callable[[Array], Array]) -> Stage:
    """A stage's second argument is changed."""
    return lambda right, x, y: right(x, change(y))


def cast_tie(bit: int) -> Stage:
    """The scale's cast loses one sticky bit."""

    def split(right: Stage, v: Array, t: Array, e: Any) -> Any:
        q, r = right(v, t, e)
        return q, np.where((r == 0.5 + 2.0**-bit) & (e.name == "ue4m3"), 0.5, r)

    return split


def cast_code(code: int, other: int) -> Stage:
    """One scale byte becomes another."""
    return lambda right, value: np.where(right(value) == code, np.uint8(other), right(value))


def cast_threshold(value: float, code: int) -> Stage:
    """One value gets another byte."""
    return lambda right, v: np.where(v == np.float32(value), np.uint8(code), right(v))


def wide(x: Array) -> Array:
    """float64."""
    return np.asarray(x, np.float64)


def _scales() -> Iterator[Bug]:
    te, paper = "nvfp4-te", "nvfp4-paper"
    for p in (te, paper):
        for bit in (2, 4, 6, 10, 13, 15, 17, 19):
            yield two(f"scale-sticky-lacks-{bit}", f"the scale's cast ignores bit {bit} below the kept ones", p,
                      split=cast_tie(bit))  # fmt: skip
        for code, other in ((0, 1), (1, 0), (7, 8), (8, 7), (0x7E, 0x7D), (0x7D, 0x7E), (0x40, 0x3F), (0x77, 0x78)):
            yield two(f"scale-{code:02x}-is-{other:02x}", f"scale byte {code:02x} is stored as {other:02x}", p,
                      cast_scale=cast_code(code, other))  # fmt: skip
        for value, n, code in ((2.0**-10, 0, 1), (2.0**-10, 1, 0), (15 * 2.0**-10, 0, 7), (17.0, 0, 0x59), (240.0, 1, 0x78),
                               (464.0, 0, 0x7F), (464.0, 1, 0x7F), (3 * 2.0**-10, -1, 2)):  # fmt: skip
            yield two(f"scale-threshold-{value:g}-{n}", "one threshold of the scale's cast is off", p,
                      cast_scale=cast_threshold(next_up(value, n), code))  # fmt: skip
        yield two("scale-subnormals-flushed", "subnormal scales become 0", p,
                  cast_scale=after(lambda c: np.where(c < 8, np.uint8(0), c)))  # fmt: skip
        yield two("scale-fp16", "the scale's value passes through float16", p,
                  scale_value=after(lambda v: v.astype(np.float16).astype(np.float32)))  # fmt: skip
        yield two("scale-bf16", "the scale's value passes through bfloat16", p,
                  scale_value=after(lambda v: v.astype(ml_dtypes.bfloat16).astype(np.float32)))  # fmt: skip
        for n in (1, -1):
            yield two(f"scale-value-{n}", f"the scale's value is {n} ulp off", p,
                      scale_value=after(partial(ulps, n=n)))  # fmt: skip
            yield two(f"multiplier-{n}", f"the approximate reciprocal is {n} ulp off", p,
                      multiplier=after(partial(ulps, n=n)))  # fmt: skip
            yield two(f"multiplier-{n}-large-bytes", f"the same for scales above 1e0 only, {n} ulp", p,
                      multiplier=lambda right, sf, S, n=n: np.where(sf > 256, ulps(right(sf, S), n), right(sf, S)))  # fmt: skip
        yield two("scale-float64", "the scale's value in float64, rounded once", p,
                  scale_value=lambda right, a, S: (wide(a) / 6 * wide(S)).astype(np.float32))  # fmt: skip
        yield two("multiplier-float64", "the multiplier in float64, rounded once", p,
                  multiplier=lambda right, sf, S: np.where(sf == 0, right(sf, S), np.minimum(wide(S) / wide(sf), FLT_MAX).astype(np.float32)))  # fmt: skip
        yield two("multiplier-s-over-sf", "S / sf instead of 1 / (sf / S)", p,
                  multiplier=lambda right, sf, S: np.where(sf == 0, right(sf, S), np.minimum(S / sf, FLT_MAX)))  # fmt: skip
        yield two("divides", "lanes are divided by sf * g", p, scale_lanes=lambda right, b, m: np.where(
            m[..., None] > 0, (wide(b) / (1 / wide(m[..., None])).astype(np.float32)).astype(np.float32), right(b, m)))  # fmt: skip
        yield two("daz-amax", "subnormal maxima count as 0", p, scale_value=first(flush))
        yield two("ftz-scale-value", "a subnormal scale value is flushed", p, scale_value=after(flush))
        yield two("ftz-multiplier", "a subnormal multiplier is flushed", p, multiplier=after(flush))
        yield two("ftz-lanes", "subnormal scaled lanes are flushed, sign kept", p,
                  scale_lanes=after(lambda v: np.where(np.abs(v) < TINY, np.copysign(np.float32(0), v), v)))  # fmt: skip
        yield two("ftz-lanes-sign", "negative subnormal scaled lanes become +0", p, scale_lanes=after(flush))
        yield two("daz-lanes", "subnormal lanes count as zeros", p,
                  scale_lanes=first(lambda b: np.where(np.abs(b) < TINY, np.copysign(np.float32(0), b), b)))  # fmt: skip
        yield two("g-flushed", "1 / S is flushed where S is above 2^126", p, multiplier=g_flushed(p))
        yield two("sf-times-g-flushed", "sf * (1 / S) is flushed", p, multiplier=product_flushed(p))
        if p == te:  # the paper's S comes from the caller
            yield two("s-not-clamped", "S of a tiny tensor is Inf", p, encode_scale=lambda right, t: np.float32(2688) / np.float32(t))
        yield two("zero-sf-multiplier-one", "a scale of zero multiplies by 1", p,
                  multiplier=lambda right, sf, S: np.where(sf == 0, ONE, right(sf, S)))  # fmt: skip
        yield two("one-level-sixth", "a / 6 and a * fl(1/6) swapped without a tensor scale", p,
                  scale_value=lambda right, a, S, p=p: (np.minimum(a / SIX, FLT_MAX) if p == te else a * SIXTH) if S == 1 else right(a, S))  # fmt: skip
        yield two("inf-lane-nan", "Inf lanes become NaN: 7 whatever the sign", p,
                  scale_lanes=after(lambda v: np.where(np.isinf(v), np.float32(np.nan), v)))  # fmt: skip
        yield two("tile-misses-row-15", "tiles of 16 rows miss the last row", p, tile=tile_misses_last)
        yield two("tile-second-uses-first", "the second band of tiles takes the first band's maxima", p, tile=tile_first)
        yield two("nan-scale-7e", "a NaN block gets the largest scale", p, cast_scale=cast_code(0x7F, 0x7E))
        yield two("nan-negative-lost", "negative NaN is passed over in the maximum", p, amax=lambda right, b: right(
            np.where(np.isnan(b) & np.signbit(b), np.float32(0), b)))  # fmt: skip
        yield two("lane-15", "lane 15 is not reduced", p, amax=lambda right, b: right(b * (np.arange(16) < 15).astype(np.float32)))
        yield two("max-cut-to-bf16", "the maximum is taken of the upper 16 bits", p,
                  magnitude_bits=lambda right, b: right(b) & 0x7FFF0000)  # fmt: skip
        yield two("max-23-bits", "the maximum loses its last bit", p, magnitude_bits=lambda right, b: right(b) & 0x7FFFFFFE)
    yield two("order-paper", "amax / 6 * S instead of amax * (S / 6)", te, scale_value=lambda right, a, S: np.minimum(a / SIX * S, FLT_MAX))
    yield two("order-sixth-first", "amax * fl(1/6) first", te, scale_value=lambda right, a, S: np.minimum(a * SIXTH * S, FLT_MAX))
    yield two("order-te", "amax * (S * fl(1/6)) instead of amax / 6 * S", paper, scale_value=lambda right, a, S: a * (S * SIXTH))
    yield two("order-vllm", "S * (amax * fl(1/6))", paper, scale_value=lambda right, a, S: S * (a * SIXTH))
    yield two("multiplier-not-clamped", "the multiplier may be Inf", te, multiplier=lambda right, sf, S: ONE / (sf * (ONE / S)))
    yield two("scale-value-not-clamped", "the scale's value may be Inf", te, scale_value=lambda right, a, S: a * (S * SIXTH))


def g_flushed(profile: str) -> Stage:
    """1 / S under FTZ."""

    def multiplier(right: Stage, sf: Array, S: Array) -> Array:
        g = flush(ONE / S)
        m = ONE / (sf * g)
        return np.minimum(m, FLT_MAX) if profile == "nvfp4-te" else np.where(sf == 0, np.float32(0), m)

    return multiplier


def product_flushed(profile: str) -> Stage:
    """sf * g under FTZ."""

    def multiplier(right: Stage, sf: Array, S: Array) -> Array:
        m = ONE / flush(sf * (ONE / S))
        return np.minimum(m, FLT_MAX) if profile == "nvfp4-te" else np.where(sf == 0, np.float32(0), m)

    return multiplier


def tile_misses_last(right: Stage, amax: Array, rows: int) -> Array:
    """The last row of each tile counts as zeros."""
    kept = np.where((np.arange(amax.shape[0]) % rows == rows - 1)[:, None], np.float32(0), amax)
    return right(kept, rows)


def tile_first(right: Stage, amax: Array, rows: int) -> Array:
    """All bands take the first one's maxima."""
    result = right(amax, rows)
    return result[np.arange(amax.shape[0]) % rows]


def tensor(id_: str, story: str, profile: str, **change: Stage) -> Bug:
    """A bug of `tensor_scale`."""
    return Bug(id_, story, "tensor_scale", "nvfp4", profile, change)


def flat(change: Callable[[Array], Array]) -> Stage:
    """The tensor is changed before its maximum is taken."""
    return lambda right, b: right(change(b))


def _tensor() -> Iterator[Bug]:
    paper, te = "nvfp4-paper", "nvfp4-te"
    yield tensor("448-first", "448 / tmax * 6", paper, encode_scale=lambda right, t: edges(t, np.float32(448) / t * SIX))
    yield tensor("reciprocal", "2688 * (1 / tmax)", paper, encode_scale=lambda right, t: edges(t, np.float32(2688) * (ONE / t)))
    yield tensor("through-g", "1 / (tmax * fl(1/2688))", paper, encode_scale=lambda right, t: edges(t, ONE / (t * RECIPROCAL_2688)))
    yield tensor("through-g-divided", "1 / (tmax / 2688)", paper, encode_scale=lambda right, t: edges(t, ONE / (t / np.float32(2688))))
    yield tensor("inf-not-clamped", "S may be Inf", paper, encode_scale=lambda right, t: np.float32(2688) / t)
    yield tensor(
        "zero-is-zero",
        "S of an Inf tensor is 0",
        paper,
        encode_scale=lambda right, t: right(t) if t == 0 else np.minimum(np.float32(2688) / t, FLT_MAX),
    )
    yield tensor("daz", "a subnormal maximum counts as 0", paper, encode_scale=lambda right, t: right(flush(t)))
    yield tensor("fp16-max", "the maximum passes through float16", paper, encode_scale=lambda right, t: right(np.float32(np.float16(t))))
    for p in (paper, te):
        yield tensor("last-missing", "the last element is missing", p, amax=flat(lambda b: b[:, :-1]))
        yield tensor("tail-of-32", "a rest of less than 32 is missing", p, amax=flat(lambda b: b[:, : b.shape[1] // 32 * 32]))
        yield tensor("tail-of-64", "a rest of less than 64 after the first 64 is missing", p,
                     amax=flat(lambda b: b[:, : max(b.shape[1] // 64 * 64, min(b.shape[1], 64))]))  # fmt: skip
        yield tensor("tail-of-1024", "a rest of less than 1024 after the first 1024 is missing", p,
                     amax=flat(lambda b: b[:, : b.shape[1] // 1024 * 1024 or b.shape[1]]))  # fmt: skip
        yield tensor("from-4096", "elements from 4096 on are missing", p, amax=flat(lambda b: b[:, :4096]))
        yield tensor("from-65536", "elements from 65536 on are missing", p, amax=flat(lambda b: b[:, :65536]))
        yield tensor("signed", "the maximum is signed", p, magnitude_bits=lambda right, b: np.where(bits_of(b) >> 31, 0, bits_of(b)))
        yield tensor("bf16", "the maximum in bfloat16", p, amax=after(lambda a: a.astype(ml_dtypes.bfloat16).astype(np.float32)))
        yield tensor("cut", "the maximum loses its last bit", p, magnitude_bits=lambda right, b: right(b) & 0x7FFFFFFE)
        yield tensor("nan-lost", "NaN is passed over", p, amax=flat(lambda b: np.where(np.isnan(b), np.float32(0), b)))
        yield tensor("nan-negative-lost", "negative NaN is passed over", p,
                     amax=flat(lambda b: np.where(np.isnan(b) & np.signbit(b), np.float32(0), b)))  # fmt: skip
        yield tensor("inf-lost", "Inf is passed over", p, amax=flat(lambda b: np.where(np.isinf(b), np.float32(0), b)))


def edges(tmax: Array, s: Array) -> Array:
    """The profile's answers at the ends."""
    s = np.minimum(s, FLT_MAX)
    return ONE if tmax == 0 or s == 0 else np.float32(s)


BUGS = tuple(bug for make in (_scales, _tensor) for bug in make())
