"""Inputs for scripts: numbers whose blocks all differ, in many arrangements in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.corpora.calls.catalogue import Ask
from tests.corpora.calls.formats import BFLOAT16, BLOCKS, ELEMENTS, Array

DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": BFLOAT16}
Arrange = Callable[[Array], Array]


def numbers(rows: int, columns: int, seed: int = 1, dtype: str = "float32") -> Array:
    """Normal numbers; groups of 8 have exponents of their own."""
    rng = np.random.default_rng([seed, rows, columns])
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    powers = np.ldexp(np.float32(1), rng.integers(-6, 7, (rows, -(-columns // 8))))
    return np.asarray((x * np.repeat(powers, 8, axis=1)[:, :columns]).astype(DTYPES[dtype]))


def with_specials(rows: int, columns: int, seed: int = 1, dtype: str = "float32") -> Array:
    """The same with NaN, infinities, zeros of both signs and a zero block here and there."""
    x = numbers(rows, columns, seed, dtype)
    flat = x.reshape(-1)
    for start, value in ((5, np.nan), (77, np.inf), (150, -0.0), (211, -np.nan), (300, 0.0)):
        flat[start::331] = value
    x[rows // 2, : min(columns, 64)] = 0
    x[-1, -16:] = 0
    return x


def with_infinities(rows: int, columns: int, seed: int = 1, dtype: str = "float32") -> Array:
    """The same with infinities alone."""
    x = numbers(rows, columns, seed, dtype)
    x.reshape(-1)[77::331] = -np.inf
    return x


def lattice(rows: int, columns: int, seed: int = 1, dtype: str = "float32") -> Array:
    """Multiples of 1 / 16 up to 6: many ties."""
    rng = np.random.default_rng([seed, rows, columns])
    return np.asarray((rng.integers(-96, 97, (rows, columns)) / 16).astype(DTYPES[dtype]))


def zeros(rows: int, columns: int) -> Array:
    """Zeros."""
    return np.zeros((rows, columns), np.float32)


def codes(rows: int, columns: int, bits: int = 4, seed: int = 1) -> Array:
    """Codes of some bits, uint8."""
    return np.random.default_rng([seed, rows, columns]).integers(0, 1 << bits, (rows, columns), dtype=np.uint8)


def scales(rows: int, columns: int, fmt: str = "mxfp4", seed: int = 2) -> Array:
    """Scale bytes of finite numbers."""
    low, high = (1, 0x7F) if fmt == "nvfp4" else (100, 150)
    return np.random.default_rng([seed, rows, columns]).integers(low, high, (rows, columns), dtype=np.uint8)


def plain(a: Array) -> Array:
    """As it is."""
    return a


def fortran(a: Array) -> Array:
    """Columns after one another."""
    return np.asfortranarray(a)


def rows_apart(a: Array) -> Array:
    """Every second row of a larger array."""
    wide = np.empty((2 * a.shape[0], *a.shape[1:]), a.dtype)
    wide[1::2], wide[::2] = a[::-1], a
    return wide[::2]


def columns_apart(a: Array) -> Array:
    """Every second column."""
    wide = np.empty((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2], wide[..., 1::2] = a, a[..., ::-1]
    return wide[..., ::2]


def pitched(pitch: int) -> Arrange:
    """Rows farther apart than they are long."""

    def arrange(a: Array) -> Array:
        wide = np.full((a.shape[0], a.shape[1] + pitch), 3, a.dtype)
        wide[:, : a.shape[1]] = a
        return wide[:, : a.shape[1]]

    return arrange


def offset(count: int) -> Arrange:
    """That many numbers into a larger buffer."""

    def arrange(a: Array) -> Array:
        longer = np.full(a.size + count, 3, a.dtype)
        longer[count:] = a.reshape(-1)
        return longer[count:].reshape(a.shape)

    return arrange


def upside_down(a: Array) -> Array:
    """Rows in falling addresses."""
    return np.ascontiguousarray(a[::-1])[::-1]


def backwards(a: Array) -> Array:
    """Columns in falling addresses."""
    return np.ascontiguousarray(a[:, ::-1])[:, ::-1]


def one_row(a: Array) -> Array:
    """The first row in every row, stride 0."""
    return np.broadcast_to(a[:1].copy(), a.shape)


def one_column(a: Array) -> Array:
    """The first column in every column, stride 0."""
    return np.broadcast_to(a[:, :1].copy(), a.shape)


def read_only(a: Array) -> Array:
    """Not writeable."""
    a = a.copy()
    a.flags.writeable = False
    return a


def quantize(
    fmt: str, rows: int, columns: int, *, seed: int = 1, dtype: str = "float32", arrange: Arrange = plain, of: Any = numbers,
    into: int | None = None, times: int = 1, **options: Any,
) -> Ask:  # fmt: skip
    """A call of quantize."""

    def arrays() -> Sequence[Any]:
        return [arrange(of(rows, columns, seed, dtype))]

    return Ask("quantize", fmt, arrays, options, into=into, times=times)


def quantize_array(fmt: str, make: Callable[[], Any], into: int | None = None, **options: Any) -> Ask:
    """A call of quantize with an array of one's own."""
    return Ask("quantize", fmt, lambda: [make()], options, into=into)


def dequantize(
    fmt: str, rows: int, columns: int, *, seed: int = 1, arrange: Arrange = plain, arrange_scales: Arrange = plain,
    into: int | None = None, times: int = 1, **options: Any,
) -> Ask:  # fmt: skip
    """A call of dequantize."""
    form = BLOCKS[fmt]

    def arrays() -> Sequence[Any]:
        c = codes(rows, columns, ELEMENTS[form.element].bits, seed)
        return [arrange(c), arrange_scales(scales(rows, columns // form.k, fmt, seed + 1))]

    return Ask("dequantize", fmt, arrays, options, into=into, times=times)


def flat(n: int, seed: int = 1, dtype: str = "float32") -> Array:
    """n numbers."""
    return numbers(1, n, seed, dtype).reshape(-1)


def encode(element: str, n: int, *, seed: int = 1, dtype: str = "float32", arrange: Arrange = plain, times: int = 1, into: int | None = None, **options: Any) -> Ask:  # fmt: skip
    """A call of encode."""
    return Ask("encode", element, lambda: [arrange(flat(n, seed, dtype))], options, times=times, into=into)


def decode(element: str, n: int, *, seed: int = 1, arrange: Arrange = plain, into: int | None = None) -> Ask:
    """A call of decode."""
    return Ask("decode", element, lambda: [arrange(codes(1, n, ELEMENTS[element].bits, seed).reshape(-1))], into=into)


def stochastic(element: str, n: int, *, seed: int = 1, arrange: Arrange = plain, into: int | None = None) -> Ask:
    """A call of encode_stochastic."""

    def arrays() -> Sequence[Any]:
        words = np.random.default_rng([seed, n]).integers(0, 1 << 32, n, dtype=np.uint32)
        return [arrange(flat(n, seed)), arrange(words)]

    return Ask("encode_stochastic", element, arrays, into=into)


def tensor_scale(rows: int, columns: int, *, at: int = -1, seed: int = 1, dtype: str = "float32", arrange: Arrange = plain, value: float = 1000.0, into: int | None = None) -> Ask:  # fmt: skip
    """A call of tensor_scale; the largest number stands at a place."""

    def arrays() -> Sequence[Any]:
        x = numbers(rows, columns, seed, dtype)
        x.reshape(-1)[at] = value
        return [arrange(x)]

    return Ask("tensor_scale", "nvfp4", arrays, into=into)


def pack(layout: str, rows: int, columns: int, *, seed: int = 1, arrange: Arrange = plain, times: int = 1, into: int | None = None) -> Ask:  # fmt: skip
    """A call of pack."""
    bits = 6 if layout == "fp6-le" else 4
    return Ask("pack", layout, lambda: [arrange(codes(rows, columns, bits, seed))], times=times, into=into)


def unpack(layout: str, rows: int, columns: int, *, seed: int = 1, arrange: Arrange = plain, into: int | None = None) -> Ask:  # fmt: skip
    """A call of unpack."""
    size = rows * columns * (6 if layout == "fp6-le" else 4) // 8
    return Ask("unpack", layout, lambda: [arrange(codes(1, size, 8, seed).reshape(-1))], shape=(rows, columns), into=into)


def swizzle(rows: int, columns: int, *, seed: int = 1, arrange: Arrange = plain, into: int | None = None) -> Ask:
    """A call of swizzle."""
    return Ask("swizzle", "128x4", lambda: [arrange(codes(rows, columns, 8, seed))], into=into)


def unswizzle(rows: int, columns: int, *, seed: int = 1, arrange: Arrange = plain, into: int | None = None) -> Ask:
    """A call of unswizzle."""
    size = -(-rows // 128) * 128 * (-(-columns // 4)) * 4
    return Ask("unswizzle", "128x4", lambda: [arrange(codes(1, size, 8, seed).reshape(-1))], shape=(rows, columns), into=into)
