"""Bugs in dequantize, decode and stochastic rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpora.independent.bugs_two_levels import TINY, after, flush
from tests.corpora.independent.catalogue import Bug, Stage
from tests.corpora.independent.implementation import FLT_MAX, RECIPROCAL_2688

Array = Any
FLT_MIN = 2.0**-126


def out(id_: str, story: str, fmt: str, profile: str, **change: Stage) -> Bug:
    """A bug of `dequantize`."""
    return Bug(id_, story, "dequantize", fmt, profile, change)


def _dequantize() -> Iterator[Bug]:
    for fmt in ("mxfp4", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8"):
        yield out("byte-00-zero", "scale byte 00 means 0", fmt, "mx-floor",
                  power=lambda right, byte: np.where(byte == 0, 0.0, right(byte)))  # fmt: skip
        yield out("byte-ff-2-128", "scale byte FF means 2^128", fmt, "mx-floor",
                  power=lambda right, byte: np.where(byte == 255, 2.0**128, right(byte)))  # fmt: skip
        yield out("ftz", "subnormal values are flushed", fmt, "mx-floor",
                  product=after(lambda y: np.where(np.abs(y) < TINY, np.copysign(np.float32(0), y), y)))  # fmt: skip
        yield out("truncates", "subnormal values are cut, not rounded", fmt, "mx-floor", product=truncated)
        yield out("away", "subnormal ties go away from zero", fmt, "mx-floor", product=ties_away)
        yield out("bf16", "values pass through bfloat16", fmt, "mx-floor",
                  product=after(lambda y: y.astype(ml_dtypes.bfloat16).astype(np.float32)))  # fmt: skip
        yield out("fp16-element", "elements pass through float16", fmt, "mx-floor",
                  product=lambda right, q, sf: right(q.astype(np.float16).astype(np.float64), sf))  # fmt: skip
        yield out("overflow-saturates", "values beyond float32 become its largest", fmt, "mx-floor",
                  product=after(lambda y: np.copysign(np.where(np.isinf(y), FLT_MAX, np.abs(y)), y)))  # fmt: skip
        yield out("zero-under-nan", "zero codes under a NaN scale stay 0", fmt, "mx-floor",
                  product=lambda right, q, sf: np.where(q == 0, np.float32(0), right(q, sf)))  # fmt: skip
        yield out("minus-zero", "-0 becomes +0", fmt, "mx-floor", product=after(lambda y: y + np.float32(0)))
        yield out("scale-of-next", "the last lane takes the next block's scale", fmt, "mx-floor", product=next_scale)
        yield out("steps-exponent", "the exponent is added to the field: subnormal results wrap", fmt, "mx-floor",
                  product=lambda right, q, sf: np.where(np.abs(q * sf) < FLT_MIN, np.float32(0) * np.sign(q).astype(np.float32), right(q, sf)))  # fmt: skip
    for p in ("nvfp4-te", "nvfp4-paper"):
        for name, story, fn in (
            ("float64", "in float64, rounded once", lambda q, sf, g: (q * sf * g).astype(np.float32)),
            ("sf-g-first", "q * (sf * g)", lambda q, sf, g: f32(q) * (f32(sf) * f32(g))),
            ("q-sf-first", "(q * sf) * g", lambda q, sf, g: f32(q) * f32(sf) * f32(g)),
            ("q-g-first", "(q * g) * sf", lambda q, sf, g: f32(q) * f32(g) * f32(sf)),
        ):
            yield out(f"order-{name}", story, "nvfp4", p, two_level_product=in_order(p, fn))
        yield out("ftz", "subnormal values are flushed", "nvfp4", p, two_level_product=after(flush))
        yield out("ftz-product", "sf * g is flushed", "nvfp4", p, two_level_product=flushed_inside(p))
        yield out("bf16", "values pass through bfloat16", "nvfp4", p,
                  two_level_product=after(lambda y: y.astype(ml_dtypes.bfloat16).astype(np.float32)))  # fmt: skip
        yield out("scale-top-bit", "bit 7 of the scale byte is taken as a sign", "nvfp4", p, decode_value=top_bit)
        yield out("scale-7f", "scale 7F means 480", "nvfp4", p, decode_value=nan_scale)
        yield out("one-level", "without a tensor scale through float16", "nvfp4", p,
                  product=after(lambda y: y.astype(np.float16).astype(np.float32)))  # fmt: skip
    yield out(
        "divides",
        "sf * (tmax / 2688)",
        "nvfp4",
        "nvfp4-te",
        two_level_product=lambda right, q, sf, t: f32(q) * (f32(sf) * (t / np.float32(2688))),
    )
    yield out("constant-low", "fl(1/2688) is one ulp low", "nvfp4", "nvfp4-te",
              two_level_product=lambda right, q, sf, t: f32(q) * (f32(sf) * t * np.nextafter(RECIPROCAL_2688, np.float32(0))))  # fmt: skip
    yield out("divides", "q * sf / S", "nvfp4", "nvfp4-paper", two_level_product=lambda right, q, sf, S: f32(q) * f32(sf) / S)


def f32(x: Array) -> Array:
    """As float32."""
    return np.asarray(x).astype(np.float32)


def in_order(profile: str, fn: Callable[[Array, Array, Array], Array]) -> Stage:
    """Another order of the products, with the g that the profile has."""

    def product(right: Stage, q: Array, sf: Array, scale: Array) -> Array:
        g = scale * RECIPROCAL_2688 if profile == "nvfp4-te" else np.float32(1) / scale
        return fn(q, sf, g)

    return product


def flushed_inside(profile: str) -> Stage:
    """The inner product under FTZ."""

    def product(right: Stage, q: Array, sf: Array, scale: Array) -> Array:
        if profile == "nvfp4-te":
            return f32(q) * flush(flush(f32(sf) * scale) * RECIPROCAL_2688)
        return f32(q) * f32(sf) * flush(np.float32(1) / scale)

    return product


def top_bit(right: Stage, codes: Array, e: Any) -> Array:
    """Scales with bit 7 set are negative."""
    if e.name != "ue4m3":
        return right(codes, e)
    return right(codes & 0x7F, e) * np.where(codes & 0x80, -1, 1)


def nan_scale(right: Stage, codes: Array, e: Any) -> Array:
    """7F as a number."""
    return np.where((codes == 0x7F) & (e.name == "ue4m3"), 480.0, right(codes, e))


def truncated(right: Stage, q: Array, sf: Array) -> Array:
    """Toward zero below 2^-126."""
    exact = q * sf
    return np.where(np.abs(exact) < FLT_MIN, np.trunc(exact * 2.0**149) * 2.0**-149, right(q, sf)).astype(np.float32)


def ties_away(right: Stage, q: Array, sf: Array) -> Array:
    """Half up below 2^-126."""
    exact = q * sf
    steps = np.floor(np.abs(exact) * 2.0**149 + 0.5) * 2.0**-149
    return np.where(np.abs(exact) < FLT_MIN, np.copysign(steps, exact), right(q, sf)).astype(np.float32)


def next_scale(right: Stage, q: Array, sf: Array) -> Array:
    """The last lane's scale is read one too far."""
    shifted = sf.copy()
    shifted[:, 31:-1:32] = sf[:, 32::32][:, : shifted[:, 31:-1:32].shape[1]]
    return right(q, shifted)


def random(id_: str, story: str, element: str, **change: Stage) -> Bug:
    """A bug of `encode_stochastic`."""
    return Bug(id_, story, "encode_stochastic", element, "", change)


def words(change: Callable[[Array], Array]) -> Stage:
    """Other random bits."""
    return lambda right, r, w: right(r, change(w.astype(np.uint64)).astype(np.uint64))


def reverse(w: Array) -> Array:
    """Bits in reverse order."""
    return sum(((w >> np.uint64(i)) & np.uint64(1)) << np.uint64(31 - i) for i in range(32))


def _stochastic() -> Iterator[Bug]:
    for e in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8"):
        yield random("strict", "the sum must exceed one", e, stochastic_up=lambda right, r, w: np.floor(r * 2.0**32) + w > 2.0**32)
        yield random(
            "ceil", "the fraction is rounded up to 32 bits", e, stochastic_up=lambda right, r, w: np.ceil(r * 2.0**32) + w >= 2.0**32
        )
        yield random("rint", "the fraction is rounded to 32 bits", e, stochastic_up=lambda right, r, w: np.rint(r * 2.0**32) + w >= 2.0**32)
        yield random("not-floored", "the whole fraction is added", e, stochastic_up=lambda right, r, w: r * 2.0**32 + w >= 2.0**32)
        for bits in (31, 30, 24, 23, 16):
            yield random(f"fraction-{bits}", f"the fraction is cut to {bits} bits", e,
                         stochastic_up=lambda right, r, w, b=bits: right(np.floor(r * 2.0**b) / 2.0**b, w))  # fmt: skip
            yield random(f"words-{bits}-high", f"only the upper {bits} random bits", e,
                         stochastic_up=words(partial(np.bitwise_and, np.uint64((1 << 32) - (1 << (32 - bits))))))  # fmt: skip
        yield random("lowest-bit", "the lowest random bit is always set", e, stochastic_up=words(lambda w: w | np.uint64(1)))
        yield random("highest-bit", "the highest random bit is dropped", e, stochastic_up=words(lambda w: w & np.uint64(0x7FFFFFFF)))
        yield random("reversed", "random bits reversed", e, stochastic_up=words(reverse))
        yield random("float-words", "random words become float32 in [0, 1]", e,
                     stochastic_up=lambda right, r, w: right(r, np.minimum(w.astype(np.float32).astype(np.float64), 2.0**32 - 1)))  # fmt: skip
        yield random("float-sum", "fraction and word are added in float32", e,
                     stochastic_up=lambda right, r, w: (r.astype(np.float32) + w.astype(np.float32) * np.float32(2.0**-32)) >= 1)  # fmt: skip
        yield random("pair", "a pair of lanes shares its word", e, stochastic_up=words(lambda w: np.repeat(w[::2], 2)[: len(w)]))
        yield random("zero-word", "the word 0 counts as 1", e, stochastic_up=words(lambda w: np.maximum(w, np.uint64(1))))
        yield random(
            "all-ones", "the word ffffffff counts as fffffffe", e, stochastic_up=words(lambda w: np.minimum(w, np.uint64(0xFFFFFFFE)))
        )
        yield random(
            "exact-moves",
            "exact numbers go up with ffffffff",
            e,
            stochastic_up=lambda right, r, w: right(r, w) | ((r == 0) & (w == 0xFFFFFFFF)),
        )
        yield random("tiny-never", "fractions below 2^-24 never go up", e, stochastic_up=lambda right, r, w: right(r, w) & (r >= 2.0**-24))
        for bit in (3, 9, 17, 26):
            yield random(f"word-lacks-{bit}", f"bit {bit} of the word is dropped", e,
                         stochastic_up=words(partial(np.bitwise_and, ~np.uint64(1 << bit))))  # fmt: skip
            yield random(f"fraction-lacks-{bit}", f"bit {bit} of the fraction (of 32) is dropped", e,
                         stochastic_up=lambda right, r, w, b=bit: right((np.floor(r * 2.0**32).astype(np.int64) & ~(1 << b)) / 2.0**32, w))  # fmt: skip


def _decode() -> Iterator[Bug]:
    for e in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2"):
        yield Bug(
            "subnormal-hidden",
            "subnormals get a hidden bit",
            "decode",
            e,
            "",
            {"assemble": lambda right, f, m, e: right(np.maximum(f, 1), m, e)},
        )
        yield Bug("subnormal-exponent", "subnormals one binade low", "decode", e, "",
                  {"assemble": lambda right, f, m, e: np.where(f == 0, right(f, m, e) / 2, right(f, m, e))})  # fmt: skip
        yield Bug("last-code", "one entry of the table", "decode", e, "",
                  {"assemble": lambda right, f, m, e: np.where((f << e.mantissa) + m == e.largest, 0.0, right(f, m, e))})  # fmt: skip


BUGS = tuple(bug for make in (_dequantize, _stochastic, _decode) for bug in make())
