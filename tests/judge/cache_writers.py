"""Plain functions that write and read KV caches, by steps: right ones and wrong ones. Nothing here comes from `mxspec.attention`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

import mxspec

from tests.judge.attention_kernels import Kernel, own_pages

E4M3 = ml_dtypes.float8_e4m3fn
Array = Any


class Cache:
    """The steps, for FP8 under given scales, int8 with a scale a token, MXFP8 and NVFP4."""

    def divide(self, x: Array, scale: Array) -> Array:
        return x / scale

    def scale(self, x: Array) -> Array:
        return np.abs(x).max(-1, keepdims=True) / np.float32(127)

    def whole(self, x: Array) -> Array:
        return np.rint(x)

    def clamp(self, x: Array) -> Array:
        return np.clip(x, -448, 448)

    def profile(self, fmt: str) -> str | None:
        return None

    def quantize(self, x: Array, cache: str, scale: Array) -> Array:
        """Rows [tokens, heads, width]."""
        fmt = cache.partition("/")[0]
        if fmt == "fp8_e4m3":
            return self.clamp(self.divide(x, scale[:, None])).astype(E4M3).view(np.uint8)
        if fmt == "int8-token":
            scales = self.scale(x)
            with np.errstate(all="ignore"):
                codes = self.whole(np.nan_to_num(x / scales)).astype(np.int8).view(np.uint8)
            return np.concatenate([codes, self.store(scales).astype(np.float32).view(np.uint8)], -1)
        options: dict[str, Any] = (
            {} if fmt != "nvfp4" else {"tensor_scale": mxspec.TensorScale.from_float("decode", float(scale[0])), "convert": True}
        )
        t = mxspec.quantize(np.ascontiguousarray(x), fmt, profile=self.profile(fmt), **options)
        codes = t.codes if fmt != "nvfp4" else self.pack(t.codes)
        return np.concatenate([codes, self.store(t.scales)], -1)

    def pack(self, codes: Array) -> Array:
        return codes[..., ::2] | codes[..., 1::2] << 4

    def store(self, scales: Array) -> Array:
        return scales

    def places(self, slots: Array, page: int, pages: int) -> tuple[Array, Array, Array]:
        kept = np.flatnonzero(slots >= 0)
        return kept, slots[kept] // page, slots[kept] % page

    def put(self, cache: Array, pages: Array, places: Array, rows: Array) -> None:
        cache[pages, places] = rows

    def scales(self, k_scale: Array, v_scale: Array) -> tuple[Array, Array]:
        return k_scale, v_scale

    def order(self, k: Array, v: Array) -> tuple[Array, Array]:
        return k, v

    def finish(self, cache: Array) -> Array:
        return cache

    def append_cache(
        self, k: Array, v: Array, slots: Array, k_cache: Array, v_cache: Array, cache: str, k_scale: Array = None, v_scale: Array = None
    ) -> Array:  # fmt: skip
        heads, caches = k.shape[1], (k_cache.copy(), v_cache.copy())
        given = [np.broadcast_to(np.ones(1, np.float32) if s is None else s, heads) for s in (k_scale, v_scale)]
        kept, pages, places = self.places(slots, k_cache.shape[1], len(k_cache))
        for x, held, scale in zip(self.order(k, v), caches, self.scales(*given), strict=True):
            if len(kept):
                self.put(held, pages, places, self.quantize(x[kept].astype(np.float32), cache, scale))
        return tuple(map(self.finish, caches))

    def read_cache(
        self, k_cache: Array, v_cache: Array, page_table: Array, lengths: Array, cache: str, k_scale: Array = None, v_scale: Array = None
    ) -> Array:  # fmt: skip
        kernel, found = self.kernel(), []
        for held, scale in ((k_cache, k_scale), (v_cache, v_scale)):
            rows = [kernel.gather(held, kernel.table(page_table, n), int(length)) for n, length in enumerate(lengths)]
            given = np.broadcast_to(np.ones(1, np.float32) if scale is None else scale, held.shape[2])
            found.append(kernel.decode(np.concatenate(rows), cache.partition("/")[0], given))
        return tuple(found)

    def kernel(self) -> Kernel:
        return Kernel()


@dataclass(frozen=True)
class Writer:
    """A cache that differs from the plain one in some steps."""

    text: str
    steps: dict[str, Callable[..., Any]] = field(default_factory=dict)
    cache: str = "fp8_e4m3"
    #: What a requirement has to say; "": nothing is asked of it.
    note: str = ""
    reads: bool = False

    def make(self) -> Any:
        """A target; a wrong writer only writes."""
        varied = type("Varied", (Cache,), dict(self.steps))()
        functions = {"read_cache": varied.read_cache} if self.reads else {}
        return SimpleNamespace(NAME="cache", VERSION="1", CACHES=[self.cache], append_cache=varied.append_cache, **functions)


def _twice(self: Cache, x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x)


RIGHT_WRITERS = [
    Writer("FP8, divided", reads=True),
    Writer("FP8, times the reciprocal", {"divide": lambda s, x, scale: x * (np.float32(1) / scale)}),
    Writer("FP8, divided in bfloat16", {"divide": lambda s, x, scale: (x.astype(ml_dtypes.bfloat16) / scale.astype(ml_dtypes.bfloat16)).astype(np.float32)}),
    Writer("int8, a scale a token", cache="int8-token", reads=True),
    Writer("int8, ties away from zero", {"whole": _twice}, "int8-token"),
    Writer("NVFP4", cache="nvfp4", reads=True),
    Writer("MXFP8 by another rule of scales", {"profile": lambda s, fmt: "mx-rceil"}, "mxfp8_e4m3/page-16", reads=True),
]  # fmt: skip


def _at(change: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Slots that are others."""
    return {"places": lambda s, slots, page, pages: Cache.places(s, change(slots, page, pages), page, pages)}


def _by_heads(self: Cache, cache: Array, pages: Array, places: Array, rows: Array) -> None:
    """A page is [heads, tokens]."""
    view = cache.reshape(len(cache), cache.shape[2], cache.shape[1], -1)
    for head in range(rows.shape[1]):
        view[pages, head, places] = rows[:, head]


def _and_behind(self: Cache, cache: Array, pages: Array, places: Array, rows: Array) -> None:
    cache[pages, places] = rows
    cache[-1, -1, -1, -1] ^= 1


def _whole_page(self: Cache, cache: Array, pages: Array, places: Array, rows: Array) -> None:
    cache[pages] = 0
    cache[pages, places] = rows


def _largest_of_nine(self: Cache, x: Array, cache: str, scale: Array) -> Array:
    """Numbers beyond the largest of the first nine of a block are that."""
    blocks = x.reshape(*x.shape[:-1], x.shape[-1] // 16, 16)
    top = np.abs(blocks[..., :9]).max(-1, keepdims=True)
    return Cache.quantize(self, np.clip(blocks, -top, top).reshape(x.shape), cache, scale)


def _stride(slots: Array, page: int, pages: int) -> tuple[Array, Array, Array]:
    kept = np.flatnonzero(slots >= 0)
    return kept, slots[kept] // max(page - 1, 1) % pages, slots[kept] % page


INT8, NV, MX = "int8-token", "nvfp4", "mxfp8_e4m3"
WRONG_WRITERS = [
    Writer("slots are one off", _at(lambda slots, page, pages: np.where(slots >= 0, (slots + 1) % (page * pages), -1))),
    Writer("-1 is the last slot", _at(lambda slots, page, pages: np.where(slots < 0, page * pages - 1, slots)), note="as if -1 were the last slot"),
    Writer("-1 is slot 0", _at(lambda slots, page, pages: np.maximum(slots, 0))),
    Writer("the stride of a page", {"places": lambda s, slots, page, pages: _stride(slots, page, pages)}),
    Writer("tokens in order, whatever the slots", _at(lambda slots, page, pages: np.where(slots < 0, -1, np.arange(len(slots)) % (page * pages)))),
    Writer("heads and tokens exchanged", {"put": _by_heads}, note="as if heads and tokens of a page were exchanged"),
    Writer("heads backwards", {"put": lambda s, c, p, o, rows: c.__setitem__((p, o), rows[:, ::-1])}),
    Writer("K and V exchanged", {"order": lambda s, k, v: (v, k)}, note="as if K and V were exchanged"),
    Writer("V is K", {"order": lambda s, k, v: (k, k)}),
    Writer("V has the scale of K", {"scales": lambda s, k, v: (k, k)}, note="as if V had the given scale of K"),
    Writer("scales are inverse", {"divide": lambda s, x, scale: x * scale}),
    Writer("scales are left out", {"divide": lambda s, x, scale: x}, note="as if given scales were left out"),
    Writer("codes are truncated", {"clamp": lambda s, x: (np.clip(x, -448, 448).view(np.uint32) & np.uint32(0xFFF00000)).view(np.float32)}),
    Writer("overflow is NaN", {"clamp": lambda s, x: x}),
    Writer("NaN is zero", {"clamp": lambda s, x: np.nan_to_num(np.clip(x, -448, 448))}),
    Writer("the token behind a first one without a slot is lost", _at(lambda slots, page, pages: np.where((np.arange(len(slots)) < 2) & (slots[:1] < 0), -1, slots))),
    Writer("overflow is 240", {"clamp": lambda s, x: np.clip(x, -240, 240)}),
    Writer("the last byte is written", {"put": _and_behind}),
    Writer("a page is cleared first", {"put": _whole_page}),
    Writer("the cache is new", {"finish": lambda s, cache: np.zeros_like(cache)}),
    Writer("int8: the scale of the next token", {"store": lambda s, x: np.roll(x, -1, 0)}, INT8),
    Writer("int8: the scale is inverse", {"store": lambda s, x: 1 / np.maximum(x, np.float32(1e-30))}, INT8),
    Writer("int8: one scale for all heads", {"scale": lambda s, x: np.broadcast_to(np.abs(x).max((-2, -1), keepdims=True) / np.float32(127), (*x.shape[:-1], 1))}, INT8),
    Writer("int8: truncated", {"whole": lambda s, x: np.trunc(x)}, INT8),
    Writer("int8: the scale is over 128", {"scale": lambda s, x: np.abs(x).max(-1, keepdims=True) / np.float32(128)}, INT8),
    Writer("int8: the scale of zeros is NaN", {"store": lambda s, x: np.where(x == 0, np.float32(np.nan), x)}, INT8),
    Writer("int8: no scale is below 0.001", {"scale": lambda s, x: np.maximum(Cache.scale(s, x), np.float32(0.001))}, INT8, "as if scales were never below 0.001"),
    Writer("NVFP4: the largest of nine", {"quantize": _largest_of_nine}, NV),
    Writer("-1 is the last slot of many", _at(lambda slots, page, pages: np.where((slots < 0) & (len(slots) > 400), page * pages - 1, slots))),
    Writer("pages of one byte", {"places": lambda s, slots, page, pages: tuple(part & 255 if n == 1 else part for n, part in enumerate(Cache.places(s, slots, page, pages)))}),
    Writer("NVFP4: nibbles exchanged", {"pack": lambda s, x: x[..., 1::2] | x[..., ::2] << 4}, NV),
    Writer("NVFP4: the first scale of four, four times", {"store": lambda s, x: np.repeat(x[..., :1], x.shape[-1], -1)}, NV),
    Writer("MXFP8: scales backwards", {"store": lambda s, x: x[..., ::-1]}, MX),
    Writer("scales are not written", {"store": lambda s, x: np.zeros_like(x)}, MX),
    Writer("written for one order of scales, read by another", {}, "nvfp4/v-4x4+page-16", "as if the block scales of V lay in the other order (v-4x4)"),
]  # fmt: skip


def _with_kernel(**steps: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {"kernel": lambda self: type("Varied", (Kernel,), dict(steps))()}


WRONG_READERS = [
    Writer("128 sequences, over and over", _with_kernel(table=lambda s, t, n: t[n % 128]), reads=True),
    Writer("a page is one sequence's", _with_kernel(table=own_pages), reads=True),
    Writer("of scales the exponents", _with_kernel(decode=lambda s, r, f, x: Kernel.decode(s, r, f, np.ldexp(np.float32(1), np.frexp(x)[1] - 1))), reads=True),
]  # fmt: skip
