"""Right implementations of unusual form, which nobody may accuse."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np

import mxspec
from mxspec import layouts
from mxspec_lab.mutants.affine_mutants import Affine
from mxspec_lab.sparse.plain import Plain

from tests.corpora.outside.entry import (
    DTYPES,
    Array,
    Members,
    as_scale,
    decode,
    dequantize,
    encode,
    offers,
    quantize,
    remembered,
    tensor_scale,
    with_options,
)
from tests.corpora.outside.others import philox, quantize_bits
from tests.corpora.outside.packing import Sides, pack, pack_blocks, product, unpack, unpack_blocks

Make = Callable[[], Members]


def right(group: str, story: str) -> Callable[[Make], Make]:
    return offers(group, story, wrong=False)


FORMS, WORK, CHOICES = "right: form", "right: work", "right: open choices"


def both(change: Any, fmt: str = "mxfp4", **members: Any) -> Members:
    return {"FORMATS": [fmt], "quantize": lambda x, fmt: change(*quantize(x, fmt)), **members}


@right(FORMS, "Fortran order, read-only, in one call each")
def form_alternating() -> Members:
    count = [0]

    def change(codes: Array, scales: Array) -> Any:
        count[0] += 1
        codes, scales = (np.asfortranarray(codes), scales) if count[0] % 2 else (codes, np.asfortranarray(scales))
        codes.flags.writeable = False
        return codes, scales

    return both(change)


@right(FORMS, "scales as float8_e8m0fnu of ml_dtypes, codes as float4")
def form_float_types() -> Members:
    import ml_dtypes

    return both(lambda c, s: (c.view(ml_dtypes.float4_e2m1fn), s.view(ml_dtypes.float8_e8m0fnu)))


@right(FORMS, "signed bytes")
def form_int8() -> Members:
    return both(lambda c, s: (c.view(np.int8), s.view(np.int8)), "mxfp8_e4m3")


@right(FORMS, "an object that computes when it is read")
def form_lazy() -> Members:
    class Later:
        def __init__(self, x: Array, fmt: str, part: int) -> None:
            self.x, self.fmt, self.part = np.array(x), fmt, part

        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            return quantize(self.x, self.fmt)[self.part]

    return {"FORMATS": ["mxfp4"], "quantize": lambda x, fmt: (Later(x, fmt, 0), Later(x, fmt, 1))}


@right(FORMS, "a generator of two arrays as a tuple subclass with names")
def form_named() -> Members:
    from collections import namedtuple

    Quantized = namedtuple("Quantized", "qdata scale")
    return both(lambda c, s: Quantized(c, s))


@right(FORMS, "codes are a part of a larger array of zeros, in steps of two")
def form_steps() -> Members:
    def change(codes: Array, scales: Array) -> Any:
        home = np.zeros((codes.shape[0] * 2 + 1, codes.shape[1] * 3 + 1), np.uint8)
        home[::2, ::3][: codes.shape[0], : codes.shape[1]] = codes
        return home[::2, ::3][: codes.shape[0], : codes.shape[1]], scales

    return both(change)


@right(FORMS, "laid out: scales of tiles come as [tiles, 32, 4, 4], codes flat bytes")
def form_tiles_5d() -> Members:
    def quantize_(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        return layouts.pack(codes, "nibble-low").reshape(codes.shape[0], -1), np.array(layouts.pack(scales, "128x4")).reshape(-1, 32, 4, 4)

    return {"FORMATS": ["mxfp4"], "LAYOUT": ["nibble-low", "128x4"], "quantize": quantize_}


@right(FORMS, "laid out: padding of tiles holds the bytes of the call before")
def form_tiles_dirty() -> Members:
    kept = {"byte": 0}

    def quantize_(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        tiles = np.array(layouts.pack(scales, "128x4"))
        used = np.array(layouts.get_layout("128x4").mask(scales.shape)).reshape(tiles.shape)
        kept["byte"] = (kept["byte"] + 1) % 256
        tiles[used == 0] = kept["byte"]
        return layouts.pack(codes, "nibble-low").reshape(codes.shape[0], -1), tiles

    return {"FORMATS": ["mxfp4"], "LAYOUT": ["nibble-low", "128x4"], "quantize": quantize_}


@right(FORMS, "values as float16 where they fit: E2M1 under its scales does not, so float32; of two levels float32")
def form_values_fortran_readonly() -> Members:
    def read_(codes: Array, scales: Array, fmt: str) -> Any:
        values = np.asfortranarray(dequantize(codes, scales, fmt))
        values.flags.writeable = False
        return values

    return {"FORMATS": ["mxfp4"], "dequantize": read_}


@right(FORMS, "values of a larger array in float32 with NaN of another sign and payload")
def form_values_other_nan() -> Members:
    def read_(codes: Array, scales: Array, fmt: str) -> Any:
        values = dequantize(codes, scales, fmt)
        bits = values.view(np.uint32)
        bits[np.isnan(values)] = 0xFFABCDEF
        return values

    return {"FORMATS": ["mxfp8_e5m2"], "dequantize": read_}


@right(WORK, "NumPy's floating-point errors raise, set when it is imported")
def work_seterr() -> Members:
    np.seterr(all="raise")

    def called(x: Array, fmt: str) -> Any:
        with np.errstate(all="ignore"):
            return quantize(x, fmt)

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(WORK, "changes the folder, the locale, the limit of recursion, and stops collecting garbage")
def work_changes_process() -> Members:
    import gc
    import os
    import sys

    os.chdir("/")
    gc.disable()
    sys.setrecursionlimit(400)
    return {"FORMATS": ["mxfp4"], "quantize": quantize}


@right(WORK, "warnings are errors")
def work_warnings() -> Members:
    import warnings

    warnings.simplefilter("error")
    return {"FORMATS": ["mxfp4"], "quantize": quantize}


@right(WORK, "halves of rows in a pool of threads, joined")
def work_pool() -> Members:
    pool = ThreadPoolExecutor(3)

    def called(x: Array, fmt: str) -> Any:
        if len(x) < 8:
            return quantize(x, fmt)
        parts = list(pool.map(lambda p: quantize(p, fmt), np.array_split(x, 3)))
        return tuple(np.concatenate(p) for p in zip(*parts, strict=True))

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(WORK, "a pool of buffers, from which callers get copies")
def work_buffers() -> Members:
    buffers: dict[Any, list[Array]] = {}
    lock = threading.Lock()

    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        with lock:
            home = buffers.setdefault(x.shape, [np.zeros_like(codes), np.zeros_like(scales)])
            home[0][...], home[1][...] = codes, scales
            return home[0].copy(), home[1].copy()

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(WORK, "one block at a time in whole numbers")
def work_fractions() -> Members:
    """Rational arithmetic; what is not finite, and large calls, go to the model."""

    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        if x.size > 256 or x.size == 0 or x.shape[1] % 32 or not np.isfinite(x).all():
            return codes, scales
        levels = [Fraction(v) for v in ("0", "1/2", "1", "3/2", "2", "3", "4", "6")]
        for r, row in enumerate(x.reshape(-1, 32)):
            top = max(abs(Fraction(float(v))) for v in row)
            if top == 0:
                continue
            e = int(np.frexp(float(top))[1]) - 1 if float(top) else 0
            e = e - 1 if Fraction(2) ** e > top else e
            byte = min(max(e - 2 + 127, 0), 254)
            unit = Fraction(2) ** (byte - 127)
            for i, v in enumerate(row):
                q = abs(Fraction(float(v))) / unit
                best = min(range(8), key=lambda n, q=q: (abs(levels[n] - q), n % 2))
                codes.reshape(-1, 32)[r, i] = best | (8 if np.signbit(v) else 0)
            scales.reshape(-1)[r] = byte
        return codes, scales

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(WORK, "answers are kept by everything that matters, for ever")
def work_memo_all() -> Members:
    def key(x: Array, fmt: str, **o: Any) -> Any:
        return np.ascontiguousarray(x).tobytes(), x.shape, x.dtype.name, fmt, tuple(sorted((k, str(v)) for k, v in o.items()))

    kept: dict[Any, Any] = {}

    def called(x: Array, fmt: str, **o: Any) -> Any:
        name = key(x, fmt, **o)
        if len(kept) > 50:
            kept.clear()
        kept.setdefault(name, quantize(x, fmt, **o))
        return tuple(a.copy() for a in kept[name])

    return {
        "FORMATS": ["mxfp4", "nvfp4"],
        "TENSOR_SCALE": "amax",
        "DTYPES": DTYPES,
        "quantize": with_options(called, "tensor_scale", "axis", "pad"),
    }


@right(WORK, "the transposed matrix is quantized along the other axis")
def work_turned() -> Members:
    def called(x: Array, fmt: str, axis: int = -1) -> Any:
        if axis not in (-2, -1, 0, 1):
            raise ValueError("a matrix has two axes")
        other = 1 if axis in (0, -2) else 0
        t = mxspec.quantize(np.asarray(x).T, fmt, axis=other)
        return t.codes.T, t.scales.T

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(WORK, "refuses calls above a size by MemoryError's own class, and float64, and what is not aligned")
def work_refuses_much() -> Members:
    class NotNow(Exception):
        """No."""

    def called(x: Array, fmt: str) -> Any:
        if x.dtype != np.float32 or x.size > 100_000 or x.ctypes.data % 4 or not x.flags.c_contiguous or x.size == 0 or x.shape[1] % 32:
            raise NotNow("not this one")
        return quantize(x, fmt)

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(CHOICES, "blocks with NaN: scale FF, codes of their own; Inf as NaN")
def choice_inf_is_nan() -> Members:
    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        if x.shape[1] % 32 == 0 and x.size:
            bad = ~np.isfinite(x.reshape(-1, 32)).all(axis=1)
            scales.reshape(-1)[bad] = 0xFF
            codes.reshape(-1, 32)[bad] = 5
        return codes, scales

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(CHOICES, "zeros of either sign are positive, blocks of zeros have the scale 127")
def choice_zeros() -> Members:
    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        codes[codes == 8] = 0
        if x.shape[1] % 32 == 0 and x.size:
            scales.reshape(-1)[(x.reshape(-1, 32) == 0).all(axis=1)] = 127
        return codes, scales

    return {"FORMATS": ["mxfp4"], "quantize": called}


@right(CHOICES, "NaN becomes the NaN of the other sign in E4M3 and E5M2")
def choice_nan_codes() -> Members:
    def called(x: Array, element: str) -> Any:
        codes = encode(x, element)
        codes[np.isnan(x)] = 0xFE if element == "e5m2" else 0xFF
        return codes

    return {"ELEMENTS": ["e4m3", "e5m2"], "encode": called, "decode": decode}


@right(CHOICES, "NVFP4: blocks of zeros have the scale 1.0")
def choice_nv_zero() -> Members:
    def called(x: Array, fmt: str, tensor_scale: Any = None) -> Any:
        codes, scales = quantize(x, fmt, tensor_scale=tensor_scale)
        if x.shape[1] % 16 == 0 and x.size:
            scales.reshape(-1)[(x.reshape(-1, 16) == 0).all(axis=1)] = 0x38
        return codes, scales

    return {"FORMATS": ["nvfp4"], "TENSOR_SCALE": "amax", "quantize": called, "tensor_scale": tensor_scale}


@right(WORK, "single numbers through a memo of each number")
def work_numbers_memo() -> Members:
    table: dict[Any, int] = {}

    def called(x: Array, element: str) -> Any:
        if x.dtype != np.float32:
            raise TypeError("float32 alone")
        codes = encode(x, element)
        for bits, code in zip(np.array(x).view(np.uint32)[:50].tolist(), codes[:50].tolist(), strict=True):
            table[(bits, element)] = code
        out = codes.copy()
        for i, bits in enumerate(np.array(x).view(np.uint32)[:50].tolist()):
            out[i] = table[(bits, element)]
        return out

    return {"ELEMENTS": ["e4m3", "e2m1"], "encode": called}


@right(WORK, "a seed is a key of Philox, words by place")
def work_seed_philox() -> Members:
    return {"FORMATS": ["mxfp4"], "quantize": lambda x, fmt, seed: quantize_bits(x, fmt, philox(x.shape, seed))}


@right(WORK, "a seed is hashed with the shape")
def work_seed_by_shape() -> Members:
    return {
        "FORMATS": ["mxfp4"],
        "quantize": lambda x, fmt, seed: quantize_bits(
            x, fmt, np.random.default_rng([seed, *x.shape]).integers(0, 1 << 32, x.shape, np.uint32)
        ),
    }


@right(WORK, "packing by tables of its own, answers as memoryviews and bytes")
def work_packing() -> Members:
    return {
        "LAYOUTS": ["nibble-low", "gptq", "awq", "128x4", "8x4", "ggml-mxfp4"], "pack": lambda codes, layout: bytes(pack(codes, layout)), "unpack": unpack,
        "swizzle": lambda scales, layout: memoryview(pack(scales, layout)), "unswizzle": lambda data, layout, shape: np.asfortranarray(unpack(data, layout, shape)),
        "pack_blocks": lambda codes, scales, layout: bytearray(pack_blocks(codes, scales, layout)),
        "unpack_blocks": lambda data, layout, shape: [np.asfortranarray(a) for a in unpack_blocks(data, layout, shape)],
    }  # fmt: skip


@right(WORK, "packing refuses three dimensions and what is not contiguous")
def work_packing_refuses() -> Members:
    def plain(function: Any) -> Any:
        def called(a: Array, layout: str, *more: Any) -> Any:
            if isinstance(a, np.ndarray) and (a.ndim > 2 or not a.flags.c_contiguous or a.size == 0):
                raise ValueError("two dimensions, contiguous")
            return function(a, layout, *more)

        return called

    return {
        "LAYOUTS": ["nibble-low", "128x4"],
        "pack": lambda codes, layout: plain(pack)(codes, layout),
        "swizzle": lambda scales, layout: plain(pack)(scales, layout),
    }


def affine(change: Any, fmt: str) -> Members:
    plain = Affine("plain", (fmt,))
    return {
        "AFFINE": [fmt], "quantize_affine": lambda x, fmt: change(plain.quantize_affine(x, fmt)),
        "dequantize_affine": lambda codes, scales, offsets, fmt: change(plain.dequantize_affine(codes, scales, offsets, fmt)),
    }  # fmt: skip


@right(FORMS, "affine: Fortran order and lists")
def form_affine() -> Members:
    return affine(lambda a: [np.asfortranarray(p) for p in a] if isinstance(a, tuple) else np.asfortranarray(a), "int4-g64-bias-float16")


@right(WORK, "affine: kept by all that matters")
def work_affine_memo() -> Members:
    plain = Affine("plain", ("int4-g128-zero-float16",))
    whole = lambda *a: tuple((np.ascontiguousarray(p).tobytes(), p.shape, p.dtype.name) if isinstance(p, np.ndarray) else p for p in a)  # noqa: E731
    return {
        "AFFINE": ["int4-g128-zero-float16"], "quantize_affine": remembered(lambda x, fmt: plain.quantize_affine(x, fmt), whole),
        "dequantize_affine": remembered(lambda codes, scales, offsets, fmt: plain.dequantize_affine(codes, scales, offsets, fmt), whole),
    }  # fmt: skip


@right(CHOICES, "sparse: of equal magnitudes the higher is kept; zeros' nibbles are another legal one")
def choice_sparse() -> Members:
    from mxspec import sparsity

    plain = Plain(name="plain", formats=("e2m1-2to4",))
    return {
        "SPARSE_FORMATS": ["e2m1-2to4"], "prune": lambda codes, fmt: sparsity.prune(codes, rule="higher"),
        "compress": plain.compress, "decompress": lambda kept, metadata, fmt, shape: np.asfortranarray(plain.decompress(kept, metadata, fmt, shape)),
    }  # fmt: skip


def added(order: Any) -> Any:
    return product(lambda p: p.finish(order(p)))


def pairwise(p: Sides) -> Array:
    """Blocks summed alone, then in a tree, in float32."""
    with np.errstate(all="ignore"):
        parts = [(p.a[:, i : i + 32].astype(np.float32) @ p.b[:, i : i + 32].T.astype(np.float32)) for i in range(0, p.k, 32)]
        while len(parts) > 1:
            parts = [parts[i] + parts[i + 1] if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0].astype(np.float64)


def backwards(p: Sides) -> Array:
    with np.errstate(all="ignore"):
        return (p.a[:, ::-1].astype(np.float32) @ p.b[:, ::-1].T.astype(np.float32)).astype(np.float64)


def by_parity(p: Sides) -> Array:
    with np.errstate(all="ignore"):
        even, odd = ((p.a[:, i::2].astype(np.float32) @ p.b[:, i::2].T.astype(np.float32)) for i in (0, 1))
        return (even + odd).astype(np.float64)


def in_double(p: Sides) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(p.a @ p.b.T)


def _enter_products() -> None:
    from tests.corpora.outside.entry import enter

    for order in (pairwise, backwards, by_parity, in_double):
        enter(f"right-product-{order.__name__.replace('_', '-')}", "right: products", f"sums: {order.__name__}", added(order), wrong=False)

    def turned(p: Sides) -> Any:
        return np.asfortranarray(p.finish())

    def locked(p: Sides) -> Any:
        y = np.array(p.finish())
        y.flags.writeable = False
        return y

    def other_nan(p: Sides) -> Any:
        y = np.array(p.finish())
        y[np.isnan(y.astype(np.float32))] = -y.dtype.type(np.nan)
        return y

    def zero_sign(p: Sides) -> Any:
        y = np.array(p.finish())
        y[y == 0] = -0.0
        return y

    def saturating(p: Sides) -> Any:
        y = p.finish()
        if p.out_dtype == "float16":
            y = np.where(np.isinf(y.astype(np.float32)) & np.isfinite(p.sums()), np.copysign(np.float16(65504), y), y)
        return y

    for change, story in (
        (turned, "outputs in Fortran order"), (locked, "read-only outputs"), (other_nan, "NaN of the other sign"),
        (zero_sign, "zeros are negative"), (saturating, "float16 outputs saturate"),
    ):  # fmt: skip
        enter(f"right-product-{change.__name__.replace('_', '-')}", "right: products", story, product(change), wrong=False)
    enter(
        "right-product-nvfp4",
        "right: products",
        "nvfp4 by nvfp4, backwards",
        product(lambda p: p.finish(backwards(p)), "nvfp4", "nvfp4"),
        wrong=False,
    )
    enter("right-product-prepared", "right: products", "weights prepared once for all of their bytes",
          product(lambda p: setattr(p, "b", p.kept.setdefault((p.b.shape, np.asarray(p.sides[1].codes).tobytes(), np.asarray(p.sides[1].scales).tobytes()), p.b))), wrong=False)  # fmt: skip


_enter_products()
_ = as_scale
