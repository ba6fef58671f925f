"""Every function but `quantize`: wrong in rare calls, for rare numbers, after other calls, or by a cache that knows too little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mxspec

from tests.corpora.outside.entry import (
    DTYPES,
    Array,
    Members,
    dequantize,
    encode,
    encode_stochastic,
    enter,
    quantize,
    read,
    remembered,
    tensor_scale,
    with_options,
)

VALUES = ("codes", "scales", "fmt")


# Dequantize.
def kept_values(key: Callable[..., Any], formats: tuple[str, ...] = ("mxfp4",), *options: str, **members: Any) -> Callable[[], Members]:
    return lambda: {
        "FORMATS": list(formats),
        "dequantize": with_options(remembered(dequantize, key), *options, positional=VALUES),
        **members,
    }


enter("values-kept-without-scales", "caches", "values are kept by codes and shape", kept_values(lambda c, s, f: (read(c), c.shape)))
enter(
    "values-kept-scales-first",
    "caches",
    "values are kept by codes and the first scale",
    kept_values(lambda c, s, f: (read(c), read(s[:1, :1]), c.shape)),
)


# Single numbers.
def encoder(
    change: Callable[[Array, Array, str, Members, Members], Any], elements: tuple[str, ...], *options: str
) -> Callable[[], Members]:
    """change(codes, x, element, options, kept)."""

    def make() -> Members:
        kept: Members = {}

        def called(x: Array, element: str, **given: Any) -> Any:
            codes = encode(x, element, **given)
            answer = change(codes, x, element, given, kept)
            return codes if answer is None else answer

        return {"ELEMENTS": list(elements), "encode": with_options(called, *options, positional=("x", "element"))}

    return make


def threads_to_nearest(codes: Array, x: Array, element: str, given: Members, kept: Members) -> Any:
    import threading

    if threading.get_ident() != kept.setdefault("thread", threading.get_ident()):
        return encode(x, element)
    return None


def large_saturates(codes: Array, x: Array, element: str, given: Members, kept: Members) -> Any:
    return encode(x, element, rounding=given.get("rounding", "rne")) if len(x) >= 4096 else None


for _encode, _elements, _options, _story in (
    (threads_to_nearest, ("e4m3",), ("rounding",), "threads but the first round to nearest, whatever was asked"),
    (large_saturates, ("e5m2",), ("rounding", "overflow"), "from 4096 numbers on overflow saturates, whatever was asked"),
):
    enter("encode-" + _encode.__name__.replace("_", "-"), "single numbers", _story, encoder(_encode, _elements, *_options))


# Random bits.
enter(
    "words-kept-by-numbers-and-sum",
    "caches",
    "codes are kept by numbers and the sum of words",
    lambda: {
        "ELEMENTS": ["e2m1"],
        "encode_stochastic": remembered(encode_stochastic, lambda x, e, r: (read(x), int(r.sum(dtype=np.uint64)))),
    },
)


def quantize_bits(x: Array, fmt: str, random_bits: Array, **options: Any) -> Any:
    t = mxspec.quantize(x, fmt, random_bits=random_bits, **options)
    return np.array(t.codes), np.array(t.scales)


def bits(change: Callable[[Array, Array, Members], Array], *options: str, **members: Any) -> Callable[[], Members]:
    def called(x: Array, fmt: str, random_bits: Array = None, **options: Any) -> Any:
        return quantize(x, fmt, **options) if random_bits is None else quantize_bits(x, fmt, change(x, random_bits, options), **options)

    return lambda: {"FORMATS": ["mxfp4"], "quantize": with_options(called, *options, "random_bits"), **members}


enter(
    "words-fortran",
    "random bits",
    "words in Fortran order are read as they lie",
    bits(lambda x, r, o: r if r.flags.c_contiguous else np.ascontiguousarray(r.T).reshape(r.shape)),
)
enter(
    "words-bfloat16",
    "random bits",
    "for bfloat16 numbers two bits of each word count",
    bits(lambda x, r, o: r & np.uint32(0xC0000000) if x.dtype.name == "bfloat16" else r, DTYPES=DTYPES),
)
enter(
    "words-large",
    "random bits",
    "from 2^14 numbers on words are used in pairs, exchanged",
    bits(lambda x, r, o: np.ascontiguousarray(r).reshape(-1, 2)[:, ::-1].reshape(r.shape) if x.size >= 1 << 14 else r),
)


# A generator of the target's own.
def seeded(words: Callable[[tuple[int, ...], int, Members], Array], **members: Any) -> Callable[[], Members]:
    def make() -> Members:
        kept: Members = {}
        return {"FORMATS": ["mxfp4"], "quantize": lambda x, fmt, seed: quantize_bits(x, fmt, words(x.shape, int(seed), kept)), **members}

    return make


def philox(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.Generator(np.random.Philox(seed)).integers(0, 1 << 32, shape, np.uint32)


def period_of_rows(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    words = philox(shape, seed)
    return words[np.arange(shape[0]) % 256]


def large_to_nearest(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    return np.full(shape, 1 << 31, np.uint32) if shape[0] >= 512 else philox(shape, seed)


for _words, _story in (
    (period_of_rows, "rows 256 apart take the same words"),
    (large_to_nearest, "from 512 rows on numbers are rounded to nearest"),
):
    enter("seed-" + _words.__name__.replace("_", "-"), "generators", _story, seeded(_words))


# Tensor scales.
def scaler(change: Callable[[Array, Members], Any], formats: tuple[str, ...] = ("nvfp4",), **members: Any) -> Callable[[], Members]:
    """change(x, kept) -> the maximum, of the kind amax."""

    def make() -> Members:
        kept: Members = {}
        return {
            "FORMATS": list(formats), "TENSOR_SCALE": "amax", "tensor_scale": lambda x, fmt: change(x, kept),
            "quantize": with_options(quantize, "tensor_scale"), **members,
        }  # fmt: skip

    return make


def top(x: Array) -> float:
    return float(tensor_scale(x, "nvfp4"))


enter(
    "amax-one-column",
    "tensor scales",
    "one column: the maximum of every second number",
    scaler(lambda x, kept: top(x[::2] if x.shape[1] == 1 else x)),
)
