"""Every function but `quantize`: wrong in rare calls, for rare numbers, after other calls, or by a cache that knows too little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mxspec
from mxspec import layouts

from tests.corpora.outside.entry import (
    DTYPES,
    Array,
    Members,
    as_scale,
    decode,
    dequantize,
    encode,
    encode_stochastic,
    enter,
    offers,
    quantize,
    read,
    remembered,
    tensor_scale,
    with_options,
)

VALUES = ("codes", "scales", "fmt")


# Dequantize.
def dequantizer(change: Callable[..., Any], formats: tuple[str, ...] = ("mxfp4",), *options: str, **members: Any) -> Callable[[], Members]:
    """change(values, codes, scales, fmt, kept, **options) alters values, or returns others."""

    def make() -> Members:
        kept: Members = {}

        def called(codes: Array, scales: Array, fmt: str, **given: Any) -> Any:
            values = dequantize(codes, scales, fmt, **given)
            other = change(values, codes, scales, fmt, kept, **given)
            return values if other is None else other

        return {"FORMATS": list(formats), "dequantize": with_options(called, *options, positional=VALUES), **members}

    return make


def kept_values(key: Callable[..., Any], formats: tuple[str, ...] = ("mxfp4",), *options: str, **members: Any) -> Callable[[], Members]:
    return lambda: {
        "FORMATS": list(formats),
        "dequantize": with_options(remembered(dequantize, key), *options, positional=VALUES),
        **members,
    }


enter("values-kept-without-scales", "caches", "values are kept by codes and shape", kept_values(lambda c, s, f: (read(c), c.shape)))
enter(
    "values-kept-without-format",
    "caches",
    "values are kept by codes and scales, without the format",
    kept_values(lambda c, s, f: (read(c), read(s), c.shape), ("mxfp8_e4m3", "mxfp8_e5m2")),
)
enter(
    "values-kept-without-tensor-scale",
    "caches",
    "values are kept without the tensor scale",
    kept_values(lambda c, s, f, tensor_scale=None: (read(c), read(s), c.shape), ("nvfp4",), "tensor_scale", TENSOR_SCALE="amax"),
)
enter(
    "values-kept-by-sums",
    "caches",
    "values are kept by the sums of codes and of scales",
    kept_values(lambda c, s, f: (int(c.sum(dtype=np.int64)), int(s.sum(dtype=np.int64)), c.shape)),
)
enter(
    "values-kept-scales-first",
    "caches",
    "values are kept by codes and the first scale",
    kept_values(lambda c, s, f: (read(c), read(s[:1, :1]), c.shape)),
)
enter("values-kept-without-shape", "caches", "values are kept by bytes alone", kept_values(lambda c, s, f: (read(c), read(s))))


def equal_codes_once(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    """Blocks of equal codes are computed once."""
    if codes.size and scales.size * 32 == codes.size:
        _, first, inverse = np.unique(np.ascontiguousarray(codes).reshape(-1, 32), axis=0, return_index=True, return_inverse=True)
        values[...] = values.reshape(-1, 32)[first][inverse.reshape(-1)].reshape(values.shape)


def nan_scale_spreads(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    if scales.shape[1] >= 8:
        values[(scales == 0xFF).any(axis=1)] = np.nan


def zero_sign_wide(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    if codes.shape[1] >= 256:
        values[values == 0] = 0


def subnormal_values_many(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    if codes.shape[0] >= 64:
        values[np.abs(values) < 2.0**-126] = 0


def overflow_many(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    if codes.shape[0] >= 64:
        values[np.abs(values) >= 2.0**127] = np.float32(3.4e38)


def largest_scale_wide(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    if codes.shape[1] % 128 == 0:
        values.reshape(-1, 32)[(scales == 0).reshape(-1)] = 0


def code_8_once_seen(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    """After 100 calls the table's entry of one code is lost."""
    kept["n"] = kept.get("n", 0) + 1
    if kept["n"] > 100:
        values[codes == 0x9] = 0


def written_later(values: Array, codes: Array, scales: Array, fmt: str, kept: Members) -> None:
    old = kept.pop("old", None)
    if old is not None and codes.size > 1024:
        old[-1, -1] = 0
    kept["old"] = values


for _change, _story in (
    (equal_codes_once, "blocks of equal codes are decoded once, under the first one's scale"),
    (nan_scale_spreads, "rows of eight blocks and more: a NaN scale makes its row NaN"),
    (zero_sign_wide, "rows of 256 and more: -0 is 0"),
    (subnormal_values_many, "64 rows and more: subnormal values are flushed"),
    (overflow_many, "64 rows and more: values from 2^127 on are clamped"),
    (largest_scale_wide, "rows in 128s: the scale 00 is zero"),
    (code_8_once_seen, "after 100 calls -0.5 is zero"),
    (written_later, "after a call of more than 1024 codes the answer before loses its last value"),
):
    enter("values-" + _change.__name__.replace("_", "-"), "dequantize", _story, dequantizer(_change))


def half_of_two_levels(values: Array, codes: Array, scales: Array, fmt: str, kept: Members, tensor_scale: Any = None) -> None:
    if tensor_scale is not None and codes.shape[0] > 1:
        values[codes.shape[0] // 2 :] = dequantize(codes[codes.shape[0] // 2 :], scales[codes.shape[0] // 2 :], fmt)


enter(
    "values-second-half-one-level",
    "tensor scales",
    "more than one row: the second half of rows lacks the tensor scale",
    dequantizer(half_of_two_levels, ("nvfp4",), "tensor_scale", TENSOR_SCALE="amax"),
)


# Codes and scales in the layouts that kernels take.
def to_layout(codes: Array, scales: Array) -> tuple[Array, Array]:
    return layouts.pack(codes, "nibble-low").reshape(codes.shape[0], -1), layouts.pack(scales, "128x4")


def packed_quantizer(change: Callable[[Array, Array, Array, Array, Members], Any]) -> Callable[[], Members]:
    """change(packed codes, tiles, x, scales, kept)."""

    def make() -> Members:
        kept: Members = {}

        def called(x: Array, fmt: str) -> Any:
            codes, scales = quantize(x, fmt)
            packed, tiles = (np.array(a) for a in to_layout(codes, scales))
            answer = change(packed, tiles, x, scales, kept)
            return (packed, tiles) if answer is None else answer

        return {"FORMATS": ["mxfp4"], "LAYOUT": ["nibble-low", "128x4"], "quantize": called}

    return make


def tiles_by_column(packed: Array, tiles: Array, x: Array, scales: Array, kept: Members) -> Any:
    rows, columns = -(-scales.shape[0] // 128), -(-scales.shape[1] // 4)
    if rows > 1 and columns > 1:
        return packed, tiles.reshape(rows, columns, 512).swapaxes(0, 1).copy()
    return None


def second_tile_lost(packed: Array, tiles: Array, x: Array, scales: Array, kept: Members) -> None:
    if scales.shape[0] > 256:
        tiles.reshape(-1, 512)[-1] = tiles.reshape(-1, 512)[0]


def odd_tail_not_swizzled(packed: Array, tiles: Array, x: Array, scales: Array, kept: Members) -> None:
    if scales.shape[1] % 4 and scales.shape[1] > 4:
        whole = layouts.pack(scales[:, : scales.shape[1] // 4 * 4], "128x4")
        tiles.reshape(-1)[: whole.size] = whole.reshape(-1)


def map_kept_by_rows(packed: Array, tiles: Array, x: Array, scales: Array, kept: Members) -> Any:
    columns = kept.setdefault(scales.shape[0], scales.shape[1])
    if columns < scales.shape[1]:
        other = np.array(tiles)
        other.reshape(-1)[:512] = 0
        return packed, other
    return None


def odd_rows_nibbles(packed: Array, tiles: Array, x: Array, scales: Array, kept: Members) -> None:
    if x.shape[0] % 2 and x.shape[0] > 2 and x.shape[1] % 64 == 0:
        packed[-1] = packed[-1] << 4 | packed[-1] >> 4


def answers_shared(packed: Array, tiles: Array, x: Array, scales: Array, kept: Members) -> Any:
    home = kept.setdefault(tiles.shape, np.array(tiles))
    home[...] = tiles
    return packed, home


def aligned_identity(packed: Array, tiles: Array, x: Array, scales: Array, kept: Members) -> Any:
    if scales.shape[0] % 128 == 0 and scales.shape[1] % 4 == 0 and scales.size > 512:
        return packed, np.array(scales)
    return None


for _packing, _story in (
    (tiles_by_column, "tiles lie column by column where there are several of both"),
    (second_tile_lost, "more than 256 rows: the last tile is the first"),
    (odd_tail_not_swizzled, "a ragged column of tiles moves the others"),
    (map_kept_by_rows, "the order of scales is kept by rows alone"),
    (odd_rows_nibbles, "odd rows in 64s: nibbles of the last row are exchanged"),
    (answers_shared, "scales of one size share a buffer"),
    (aligned_identity, "several whole tiles are not swizzled"),
):
    enter("laid-out-" + _packing.__name__.replace("_", "-"), "layouts of answers", _story, packed_quantizer(_packing))


def packed_reader(change: Callable[[Array, Array], Any]) -> Callable[[], Members]:
    """change(codes [rows, k], scales [rows, k / 32]), alters what was read."""

    def called(codes: Array, scales: Array, fmt: str) -> Any:
        plain = np.array(layouts.unpack(codes, "nibble-low", (codes.shape[0], codes.shape[1] * 2)))
        own = np.array(layouts.unpack(scales, "128x4", (codes.shape[0], codes.shape[1] // 16)))
        change(plain, own)
        return dequantize(plain, own, fmt)

    return lambda: {"FORMATS": ["mxfp4"], "LAYOUT": ["nibble-low", "128x4"], "dequantize": called}


def reads_first_tile(codes: Array, scales: Array) -> None:
    if len(scales) > 128:
        scales[128:] = scales[np.arange(128, len(scales)) % 128]


def reads_first_columns(codes: Array, scales: Array) -> None:
    if scales.shape[1] > 4:
        scales[:, 4:] = scales[:, np.arange(4, scales.shape[1]) % 4]


def reads_pairs(codes: Array, scales: Array) -> None:
    if codes.shape[1] >= 512:
        codes[:] = codes.reshape(len(codes), -1, 2)[..., ::-1].reshape(codes.shape)


for _reading, _story in (
    (reads_first_tile, "scales of rows beyond 128 are those of the first tile"),
    (reads_first_columns, "scales of columns beyond four are those of the first tile"),
    (reads_pairs, "rows of 512 and more: the high nibble is read first"),
):
    enter("laid-out-" + _reading.__name__.replace("_", "-"), "layouts of answers", _story, packed_reader(_reading))


# Single numbers.
def kept_codes(key: Callable[..., Any], elements: tuple[str, ...], *options: str) -> Callable[[], Members]:
    return lambda: {"ELEMENTS": list(elements), "encode": with_options(remembered(encode, key), *options, positional=("x", "element"))}


enter(
    "encode-kept-without-element",
    "caches",
    "codes are kept by bytes, without the element",
    kept_codes(lambda x, e: read(x), ("e4m3", "e5m2", "e2m1")),
)
enter(
    "encode-kept-without-rounding",
    "caches",
    "codes are kept by bytes and element, without the rounding",
    kept_codes(lambda x, e, rounding="rne": (read(x), e), ("e4m3",), "rounding"),
)
enter(
    "encode-kept-without-overflow",
    "caches",
    "codes are kept by bytes and element, without the overflow",
    kept_codes(lambda x, e, rounding="rne", overflow="saturate": (read(x), e, rounding), ("e5m2",), "rounding", "overflow"),
)
enter(
    "encode-kept-sorted",
    "caches",
    "codes are kept by the numbers in order",
    kept_codes(lambda x, e: (np.sort(np.array(x).view(np.uint32)).tobytes(), e), ("e4m3",)),
)
enter(
    "decode-kept-without-element",
    "caches",
    "values are kept by codes, without the element",
    lambda: {"ELEMENTS": ["e4m3", "e5m2"], "decode": remembered(decode, lambda c, e: read(c))},
)


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


def tail_to_nearest(codes: Array, x: Array, element: str, given: Members, kept: Members) -> None:
    n = len(x) // 8 * 8
    codes[n:] = encode(x[n:], element)


def threads_to_nearest(codes: Array, x: Array, element: str, given: Members, kept: Members) -> Any:
    import threading

    if threading.get_ident() != kept.setdefault("thread", threading.get_ident()):
        return encode(x, element)
    return None


def large_saturates(codes: Array, x: Array, element: str, given: Members, kept: Members) -> Any:
    return encode(x, element, rounding=given.get("rounding", "rne")) if len(x) >= 4096 else None


def large_ties_away(codes: Array, x: Array, element: str, given: Members, kept: Members) -> Any:
    return encode(x, element, rounding="rna") if len(x) >= 512 and element == "e2m1" else None


def strided_ties_away(codes: Array, x: Array, element: str, given: Members, kept: Members) -> Any:
    return encode(x, element, rounding="rna") if not x.flags.c_contiguous else None


def later_subnormals(codes: Array, x: Array, element: str, given: Members, kept: Members) -> None:
    kept["n"] = kept.get("n", 0) + 1
    if kept["n"] > 60:
        codes[(np.abs(x) < 2.0**-14) & (np.abs(x) > 0)] = 0


def unique_by_value(codes: Array, x: Array, element: str, given: Members, kept: Members) -> None:
    """Equal numbers get the code of the first: -0 that of 0."""
    if len(x) > 64:
        _, first, inverse = np.unique(np.where(np.isnan(x), 0, x), return_index=True, return_inverse=True)
        ok = ~np.isnan(x)
        codes[ok] = codes[first[inverse.reshape(-1)]][ok]


for _encode, _elements, _options, _story in (
    (tail_to_nearest, ("e4m3",), ("rounding",), "a tail of fewer than 8 is rounded to nearest, whatever was asked"),
    (threads_to_nearest, ("e4m3",), ("rounding",), "threads but the first round to nearest, whatever was asked"),
    (large_saturates, ("e5m2",), ("rounding", "overflow"), "from 4096 numbers on overflow saturates, whatever was asked"),
    (large_ties_away, ("e2m1",), (), "from 512 numbers on ties go away from zero"),
    (strided_ties_away, ("e4m3",), (), "strided numbers: ties go away from zero"),
    (later_subnormals, ("e5m2",), (), "after 60 calls subnormals are flushed"),
    (unique_by_value, ("e4m3",), (), "more than 64 numbers: equal ones get one code, -0 that of 0"),
):
    enter("encode-" + _encode.__name__.replace("_", "-"), "single numbers", _story, encoder(_encode, _elements, *_options))


# Random bits.
def stochastic(change: Callable[[Array, Array], Array]) -> Callable[[], Members]:
    return lambda: {
        "ELEMENTS": ["e2m1"],
        "encode_stochastic": lambda x, element, random_bits: encode_stochastic(x, element, change(x, random_bits)),
    }


enter("words-period-4096", "random bits", "words from 4096 on are those from 0 on", stochastic(lambda x, r: r[np.arange(len(r)) % 4096]))
enter(
    "words-of-strided-numbers",
    "random bits",
    "where numbers are strided words are read backwards",
    stochastic(lambda x, r: r if x.flags.c_contiguous else r[::-1]),
)
enter(
    "words-tail-of-32",
    "random bits",
    "above 32 numbers a tail takes the words of the start",
    stochastic(lambda x, r: np.concatenate([r[: len(r) // 32 * 32], r[: len(r) % 32]]) if len(r) > 32 else r),
)
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
    "words-second-block",
    "random bits",
    "the second and later blocks of a row take the words of the first",
    bits(lambda x, r, o: np.tile(r[:, :32], (1, -(-r.shape[1] // 32)))[:, : r.shape[1]]),
)
enter("words-second-row", "random bits", "rows from 16 on take the words of rows 0 on", bits(lambda x, r, o: r[np.arange(len(r)) % 16]))
enter(
    "words-axis",
    "random bits",
    "along axis 0 words lie as if along the rows",
    bits(lambda x, r, o: np.ascontiguousarray(r.T).reshape(r.shape) if o.get("axis", -1) == 0 else r, "axis"),
)
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


def goes_on(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    rng = kept.setdefault(seed, np.random.default_rng(seed))
    return rng.integers(0, 1 << 32, shape, np.uint32)


def period_of_rows(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    words = philox(shape, seed)
    return words[np.arange(shape[0]) % 256]


def counter_plus_seed(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    n = int(np.prod(shape))
    return philox((n + seed,), 0)[seed : seed + n].reshape(shape)


def counter_xor_seed(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    n = int(np.prod(shape))
    z = (np.arange(n, dtype=np.uint64) ^ np.uint64(seed)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).astype(np.uint32).reshape(shape)


def same_in_blocks(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    """One block's words for all blocks of a row."""
    return np.tile(philox((shape[0], 32), seed), (1, -(-shape[1] // 32)))[:, : shape[1]]


def large_to_nearest(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    return np.full(shape, 1 << 31, np.uint32) if shape[0] >= 512 else philox(shape, seed)


def first_seed_kept(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    return philox(shape, kept.setdefault(shape, seed))


def seven_bits(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    return philox(shape, seed) & np.uint32(0xFE000000)


def seed_after_other_shape(shape: tuple[int, ...], seed: int, kept: Members) -> Array:
    last = kept.get("shape", shape)
    kept["shape"] = shape
    return philox(shape, seed + (last != shape))


for _words, _story in (
    (goes_on, "a seed's generator goes on in the next call"),
    (period_of_rows, "rows 256 apart take the same words"),
    (counter_plus_seed, "the seed is added to the counter: the next seed's words are moved by one"),
    (counter_xor_seed, "the seed is joined to the counter by exclusive or: seeds permute words"),
    (same_in_blocks, "all blocks of a row take the same words"),
    (large_to_nearest, "from 512 rows on numbers are rounded to nearest"),
    (first_seed_kept, "the first seed of a shape is kept"),
    (seven_bits, "seven random bits"),
    (seed_after_other_shape, "the words depend on whether the shape is that of the call before"),
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
    "amax-decays",
    "tensor scales",
    "a running maximum, nine tenths of the one before at least",
    scaler(lambda x, kept: kept.__setitem__("m", max(top(x), 0.9 * kept.get("m", 0))) or kept["m"]),
)
enter("amax-of-last-rows", "tensor scales", "more than 1024 rows: the maximum of the last 1024", scaler(lambda x, kept: top(x[-1024:])))
enter(
    "amax-one-column",
    "tensor scales",
    "one column: the maximum of every second number",
    scaler(lambda x, kept: top(x[::2] if x.shape[1] == 1 else x)),
)
enter(
    "amax-subnormal",
    "tensor scales",
    "subnormal maxima of more than one row are zero",
    scaler(lambda x, kept: 0.0 if 0 < top(x) < 2.0**-126 and len(x) > 1 else top(x)),
)
enter(
    "amax-negative-zero",
    "tensor scales",
    "a maximum held by a negative number alone is missed, from 64 columns on",
    scaler(lambda x, kept: top(np.maximum(x, 0)) if x.shape[1] >= 64 and np.isfinite(x).all() else top(x)),
)
enter(
    "amax-kept-by-shape-and-corner",
    "caches",
    "maxima are kept by shape and first number",
    scaler(lambda x, kept: kept.setdefault((x.shape, read(x[:1, :1])), top(x))),
)
enter(
    "amax-float16-overflow",
    "tensor scales",
    "float32 maxima pass float16 from 2^14 numbers on",
    scaler(lambda x, kept: float(np.float16(top(x))) if x.size >= 1 << 14 and top(x) < 65504 else top(x)),
)
_ = (as_scale, offers)
