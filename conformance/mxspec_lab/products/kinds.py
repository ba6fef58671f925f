"""A product with an affine or sparse side whose every step can be replaced: codes, scales, offsets, numbers, places, additions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.layouts import get_layout
from mxspec_conformance.targets.operands import Side
from mxspec_lab.products.kernels import AnyKernel, Floats, add_float32, element_table, finish_float32, keep, scale_table

Array = npt.NDArray[Any]
FLOATS: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}


def rounded(x: Floats, dtype: str) -> Floats:
    """x in a dtype. float64 has room for one product or sum of narrower floats of like size."""
    return np.asarray(x.astype(FLOATS[dtype]).astype(np.float64))


def add_bias(dtype: str, q: Floats, s: Floats, o: Floats) -> Floats:
    """q * s rounded, plus b rounded."""
    return rounded(rounded(q * s, dtype) + o, dtype)


in_float32 = partial(add_bias, "float32")


def fuse_bias(dtype: str, q: Floats, s: Floats, o: Floats) -> Floats:
    """fma(q, s, b): exact in float64 for scales of 16 bits and biases near them."""
    return rounded(q * s + o, dtype)


def subtract_zero(dtype: str, q: Floats, s: Floats, o: Floats) -> Floats:
    """(q - z) * s, rounded once."""
    return rounded((q - o) * s, dtype)


def subtract_products(dtype: str, q: Floats, s: Floats, o: Floats) -> Floats:
    """q * s - z * s, each rounded."""
    return rounded(rounded(q * s, dtype) - rounded(o * s, dtype), dtype)


def by_float32(then: str, q: Floats, s: Floats, o: Floats) -> Floats:
    """In float32, then in a narrower dtype."""
    return rounded(add_bias("float32", q, s, o), then)


def scatter(kept: Array, nibbles: Array, unit: int) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Kept items at the places that nibbles name, and where they are."""
    rows, groups = nibbles.shape
    dense = np.zeros((rows, groups, 4, unit), kept.dtype)
    where = np.zeros(dense.shape, np.bool_)
    each = kept.reshape(rows, groups, 2, unit)
    r, g = np.mgrid[0:rows, 0:groups]
    for number, places in enumerate((nibbles & 3, nibbles >> 2)):
        dense[r, g, places] = each[:, :, number]
        where[r, g, places] = True
    return dense.reshape(rows, -1), where.reshape(rows, -1)


def spread(x: Array, k: int) -> Array:
    """One for each number along k, of one for each group."""
    return np.repeat(x, k // x.shape[1], axis=1)


def take_layout(spec: str, ending: str) -> str:
    """The word of a declaration that ends so; none: empty."""
    return next((w for w in spec.partition("/")[2].split("+") if w.endswith(ending)), "")


def read_words(words: Array, bits: int, k: int) -> Array:
    """Codes of 32-bit words, lowest bits first, across the edges of words."""
    rows = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)
    each = np.unpackbits(rows, axis=1, bitorder="little")[:, : k * bits].reshape(len(words), k, bits)
    codes: Array = (each << np.arange(bits, dtype=np.uint8)).sum(axis=-1).astype(np.uint8)
    return codes


@dataclass(frozen=True, kw_only=True)
class KindKernel(AnyKernel):
    """One kernel; by default a right one. The steps of `side` alone are replaced."""

    product: tuple[str, str] = ("float16", "int4-g32-bias-float16")
    #: codes [rows, k] -> codes.
    codes: Callable[[Array], Array] = keep
    #: scales [rows, groups], offsets [rows, groups] -> the same, before they are numbers.
    stored_scales: Callable[[Array], Array] = keep
    stored_offsets: Callable[[Array], Array] = keep
    #: The same as float64.
    scales: Callable[[Floats], Floats] = keep
    offsets: Callable[[Floats], Floats] = keep
    #: (one for each group, k) -> one for each number.
    spread: Callable[[Array, int], Array] = spread
    #: (codes, scales, offsets), each [rows, k] -> numbers.
    number: Callable[[Floats, Floats, Floats], Floats] = in_float32
    nibbles: Callable[[Array], Array] = keep
    kept: Callable[[Array], Array] = keep
    place: Callable[[Array, Array, int], tuple[Array, npt.NDArray[np.bool_]]] = scatter
    #: Whether what a sparse side drops counts as zero; else it counts as code 0 of its group.
    drop: bool = True
    #: Numbers of both sides, [m, k] and [n, k] -> sums [m, n].
    add: Callable[[Floats, Floats], Floats] = add_float32
    #: (numbers of a; codes, scales and offsets of b, each [n, k]; group) -> sums, by a kernel that never forms b's numbers.
    whole: Callable[[Floats, Floats, Floats, Floats, int], Floats] | None = None
    side: str = "b"

    @np.errstate(all="ignore")
    def matmul(
        self, a: Any, b: Any, out_dtype: str, alpha: float | None = None, beta: float | None = None, c: Any = None, bias: Any = None
    ) -> Array:
        """The product of two sides."""
        scale = 1.0
        for side in (a, b):
            given = getattr(side, "tensor_scale", None)
            scale *= 1.0 if given is None else float(np.float32(given))
        if self.whole is None:
            total = self.add(self.decode(a, mine=self.side == "a"), self.decode(b, mine=self.side == "b"))
        else:
            q, s, o, _ = self.take_apart(b)
            total = self.whole(self.decode(a, mine=False), q, s, o, int(b.format.split("-")[1][1:]))
        return finish_float32(total, scale, alpha, beta, c, bias, out_dtype)

    def decode(self, side: Any, *, mine: bool) -> Floats:
        """The numbers of one side."""
        if not isinstance(side, Side):
            return np.asarray(side).astype(np.float64)
        me = self if mine else KindKernel(name="", product=self.product, number=self.number)
        if side.biases is not None or side.zeros is not None:
            q, s, o, where = me.take_apart(side)
            numbers = me.number(q, s, o)
            return np.where(where, numbers, 0) if self.drop or not mine else numbers
        dense, where = me.place_kept(side, side.values if side.codes is None else me.take_codes(side))
        if side.codes is None:
            return dense.astype(np.float64)
        scales = me.spread(me.stored_scales(np.asarray(side.scales)), side.shape[1])
        q, sf = element_table(side.format.rpartition("-")[0] or side.format), scale_table(side.format.partition("-")[0])
        return np.where(where, q[dense] * sf[scales], 0)

    def take_apart(self, side: Side) -> tuple[Floats, Floats, Floats, npt.NDArray[np.bool_]]:
        """Codes, scales and offsets of an affine side, each [rows, k], and where a number is."""
        rows, k = side.shape
        groups = k // int(side.format.split("-")[1][1:])
        dense, where = self.place_kept(side, self.take_codes(side))
        turned = side.spec.endswith("transposed")
        scales = np.asarray(side.scales).T if turned else np.asarray(side.scales)
        layout = take_layout(side.spec, "-zeros")
        if layout:
            offsets = get_layout(layout).unpack(np.asarray(side.zeros), (groups, rows))[0].T
        else:
            offsets = np.asarray(side.offsets).T if turned else np.asarray(side.offsets)
        s = self.scales(self.stored_scales(scales).astype(np.float64))
        o = self.offsets(self.stored_offsets(offsets).astype(np.float64))
        return dense.astype(np.float64), self.spread(s, k), self.spread(o, k), where

    def take_codes(self, side: Side) -> Array:
        """Codes one to a byte, of a sparse side those kept."""
        rows, k = side.shape
        wide = k if side.metadata is None else k // 2
        words = [
            w
            for w in side.spec.partition("/")[2].split("+")
            if w and w != "transposed" and not w.endswith(("-zeros", "-metadata", "128x4"))
        ]
        codes = np.asarray(side.codes)
        if words == ["words"]:
            codes = read_words(codes, int(side.format[3]), wide)
        elif words:
            codes = get_layout(words[0]).unpack(codes.reshape(-1), (rows, wide))[0]
        elif side.spec.endswith("/transposed"):
            codes = codes.T
        return self.codes(codes)

    def place_kept(self, side: Side, kept: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
        """What is stored at its dense places."""
        if side.metadata is None:
            return np.asarray(kept), np.ones(side.shape, np.bool_)
        unit = 2 if "-4to8" in side.format else 1
        layout = take_layout(side.spec, "-metadata")
        nibbles = np.asarray(side.metadata)
        if layout:
            nibbles = get_layout(layout).unpack(nibbles, (side.shape[0], side.shape[1] // (4 * unit)))[0]
        return self.place(self.kept(np.asarray(kept)), self.nibbles(nibbles), unit)
