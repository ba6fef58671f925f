"""A plain attention kernel and cache writer in NumPy, by steps; right ones compute a step otherwise, wrong ones make one mistake in it.

Nothing here comes from `mxspec.attention`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
NARROW = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "fp8_e4m3": ml_dtypes.float8_e4m3fn}
Array = Any


class Kernel:
    """The steps. A form is `Q @ K` in the formats below, NHD pages or ragged rows."""

    def __init__(self, form: str = "") -> None:
        self.form = form
        self.top_left, self.ragged = "top-left" in form, "ragged" in form

    def note(self, what: Any, value: Any) -> Any:
        """A value; what is kept for a later step."""
        self.noted = what
        return value

    def decode(self, rows: Array, fmt: str, scale: Array) -> Array:
        """float32 numbers [..., d] of rows."""
        if fmt in ("float32", "float16", "bfloat16"):
            return rows.astype(np.float32)
        codes, scales = self.split(rows, fmt)
        with np.errstate(invalid="ignore"):
            return codes * self.spread(scales, codes.shape[-1]) * (scale[:, None] if fmt in ("fp8_e4m3", "nvfp4") else np.float32(1))

    def split(self, rows: Array, fmt: str) -> tuple[Array, Array]:
        """Codes as numbers, and the scales behind them."""
        if fmt == "fp8_e4m3":
            return rows.view(ml_dtypes.float8_e4m3fn).astype(np.float32), np.ones((*rows.shape[:-1], 1), np.float32)
        if fmt == "int8-token":
            return rows[..., :-4].view(np.int8).astype(np.float32), np.ascontiguousarray(rows[..., -4:]).view(np.float32)
        if fmt == "mxfp8_e4m3":
            d = rows.shape[-1] * 32 // 33
            scales = rows[..., d:].view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
            return rows[..., :d].view(ml_dtypes.float8_e4m3fn).astype(np.float32), scales
        d = rows.shape[-1] * 16 // 9
        packed = rows[..., : d // 2]
        return self.unpack(packed), rows[..., d // 2 :].view(ml_dtypes.float8_e4m3fn).astype(np.float32)

    def unpack(self, packed: Array) -> Array:
        return np.stack([E2M1[packed & 15], E2M1[packed >> 4]], -1).reshape(*packed.shape[:-1], 2 * packed.shape[-1])

    def spread(self, scales: Array, d: int) -> Array:
        return np.repeat(scales, d // scales.shape[-1], -1)

    def decode_k(self, rows: Array, fmt: str, k_scale: Array, v_scale: Array) -> Array:
        return self.decode(rows, fmt, k_scale)

    def decode_v(self, rows: Array, fmt: str, k_scale: Array, v_scale: Array) -> Array:
        return self.decode(rows, fmt, v_scale)

    def decode_q(self, q: Array, fmt: str, scale: float) -> Array:
        return q.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(scale) if fmt == "fp8_e4m3" else q.astype(np.float32)

    def count(self, length: int, page: int) -> int:
        """Keys that are read."""
        return length

    def table(self, tables: Array, n: int) -> Array:
        return tables[n]

    def gather(self, cache: Array, pages: Array, count: int) -> Array:
        page = cache.shape[1]
        return cache[pages[: -(-count // page)]].reshape(-1, *cache.shape[2:])[:count]

    def share(self, heads: int, shared: int) -> Array:
        return np.arange(heads) // (heads // shared)

    def offset(self, queries: int, keys: int) -> int:
        return 0 if self.top_left else keys - queries

    def see(self, queries: int, keys: int, causal: bool, window: int | None) -> Array:
        own, key = np.arange(queries)[:, None] + self.offset(queries, keys), np.arange(keys)
        seen = key <= own if causal else np.ones((queries, keys), bool)
        return seen & (key > own - window) if window else seen

    def scale(self, scale: float | None, d: int) -> float:
        return float(1 / np.sqrt(d)) if scale is None else scale

    def logits(self, q: Array, k: Array, scale: float) -> Array:
        with np.errstate(all="ignore"):
            return (q @ k.T) * np.float32(scale)

    def fill(self, z: Array, seen: Array) -> Array:
        return np.where(seen, z, -np.inf)

    def top(self, z: Array) -> Array:
        return np.maximum(z.max(-1, keepdims=True, initial=-np.inf), np.float32(-1e30))

    def narrow(self, p: Array) -> Array:
        return p

    def weigh(self, z: Array, v: Array) -> Array:
        """Two passes: weights, then their sum."""
        with np.errstate(all="ignore"):
            p = np.exp(z - self.top(z))
            return self.divide(self.narrow(p) @ v, self.total(p, z))

    def total(self, p: Array, z: Array) -> Array:
        return p.sum(-1, keepdims=True)

    def divide(self, o: Array, total: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.where(total > 0, o / total, np.float32(0))

    def clean(self, v: Array) -> Array:
        return v

    def arrange(self, out: Array) -> Array:
        return out

    def attention(
        self, q: Array, k: Array, v: Array, starts: Array, lengths: Array, attention: str, out_dtype: str, page_table: Array = None,
        causal: bool = False, window: int | None = None, scale: float | None = None, q_scale: Array = None, k_scale: Array = None,
        v_scale: Array = None,
    ) -> Array:  # fmt: skip
        of_q, *of = (part.strip() for part in attention.partition("/")[0].split("@"))
        shared = k.shape[-2]
        of_k, of_v = of[0], of[-1]
        scales = [np.broadcast_to(np.ones(1, np.float32) if s is None else s, shared) for s in (k_scale, v_scale)]
        d = q.shape[-1]
        out = np.zeros((*q.shape[:2], d), np.float32)
        q = self.decode_q(q, of_q, 1.0 if q_scale is None else float(q_scale[0]))
        ends = np.cumsum(lengths)
        for n, length in enumerate(lengths.tolist()):
            if page_table is None:
                rows = [part[ends[n] - length : ends[n]] for part in (k, v)]
            else:
                count = self.count(length, k.shape[1])
                rows = [self.gather(part, self.table(page_table, n), count) for part in (k, v)]
            keys, values = self.decode_k(rows[0], of_k, *scales), self.clean(self.decode_v(rows[1], of_v, *scales))
            mine = slice(starts[n], starts[n + 1])
            seen = self.see(int(starts[n + 1] - starts[n]), len(keys), causal, window)
            for head, group in enumerate(self.share(q.shape[1], shared)):
                z = self.fill(self.logits(q[mine, head], keys[:, group], self.scale(scale, d)), seen)
                out[mine, head] = self.weigh(z, values[:, group])
        return self.arrange(out).astype(NARROW[out_dtype])


@dataclass(frozen=True)
class Variation:
    """A kernel that differs from the plain one in some steps."""

    text: str
    steps: dict[str, Callable[..., Any]] = field(default_factory=dict)
    form: str = "bfloat16 @ fp8_e4m3"
    out: str = "float32"

    def make(self, base: type[Kernel] = Kernel) -> Any:
        """A target."""
        kernel = type("Varied", (base,), dict(self.steps))(self.form)
        return SimpleNamespace(NAME="kernel", VERSION="1", ATTENTION=[self.form], OUT_DTYPES=[self.out], attention=kernel.attention)


# Right ones


def _blocks(z: Array, size: int) -> list[slice]:
    return [slice(i, i + size) for i in range(0, z.shape[-1], size)] or [slice(0, 0)]


def online(size: int, *, backwards: bool = False) -> Callable[..., Any]:
    """One pass with a running maximum, whose change rescales sum and output."""

    def weigh(self: Kernel, z: Array, v: Array) -> Array:
        most = np.full((len(z), 1), -1e30, np.float32)
        total, o = np.zeros((len(z), 1), np.float32), np.zeros((len(z), v.shape[-1]), np.float32)
        for part in reversed(_blocks(z, size)) if backwards else _blocks(z, size):
            new = np.maximum(most, z[:, part].max(-1, keepdims=True, initial=-np.inf))
            with np.errstate(all="ignore"):
                p, again = np.exp(z[:, part] - new), np.exp(most - new)
            total, o, most = total * again + p.sum(-1, keepdims=True), o * again + self.narrow(p) @ v[part], new
        return self.divide(o, total)

    return weigh


def split(size: int, *, rescale: bool = True, by_sum: bool = True) -> Callable[..., Any]:
    """Parts of the keys, each normalized by itself, merged by their logarithms."""

    def weigh(self: Kernel, z: Array, v: Array) -> Array:
        parts, logs = [], []
        for part in _blocks(z, size):
            most = np.maximum(z[:, part].max(-1, keepdims=True, initial=-np.inf), np.float32(-1e30))
            with np.errstate(all="ignore"):
                p = np.exp(z[:, part] - most)
                total = p.sum(-1, keepdims=True)
                parts.append(np.where(total > 0, self.narrow(p) @ v[part] / total, np.float32(0)))
                logs.append((most if rescale else 0 * most) + (np.log(total) if by_sum else 0))
        most = np.maximum(np.max(logs, axis=0), np.float32(-1e30))
        with np.errstate(all="ignore"):
            weights = [np.exp(log - most) for log in logs]
        return self.divide(sum(w * o for w, o in zip(weights, parts, strict=True)), sum(weights))

    return weigh


def rounded(name: str, factor: float = 1) -> Callable[..., Any]:
    """Weights in a narrower dtype, multiplied by a factor before that."""
    dtype: Any = NARROW[name]
    return lambda self, p: (p * np.float32(factor)).astype(dtype).astype(np.float32) * np.float32(1 / factor)


def base_two(self: Kernel, z: Array, v: Array) -> Array:
    """exp2 with log2(e) folded in, as one fused operation: the product with the maximum is rounded before."""
    c = np.float32(1.4426950408889634)
    top = self.top(z)
    with np.errstate(all="ignore"):
        p = np.exp2((z.astype(np.float64) * c - (top * c).astype(np.float64)).astype(np.float32))
    return self.divide(self.narrow(p) @ v, p.sum(-1, keepdims=True))


def folded(self: Kernel, q: Array, k: Array, scale: float) -> Array:
    """Queries times scale and log2(e), in bfloat16; the logits are those of base two."""
    q = (q * np.float32(scale * 1.4426950408889634)).astype(ml_dtypes.bfloat16).astype(np.float32)
    return (q @ k.T) * np.float32(0.6931471805599453)


def divided_first(self: Kernel, z: Array, v: Array) -> Array:
    with np.errstate(all="ignore"):
        p = np.exp(z - self.top(z))
    p = self.divide(p, p.sum(-1, keepdims=True))
    return self.narrow(p) @ v


def in_float64(self: Kernel, z: Array, v: Array) -> Array:
    return Kernel.weigh(self, z.astype(np.float64), v.astype(np.float64)).astype(np.float32)


def by_reciprocal(self: Kernel, o: Array, total: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(total > 0, o * (np.float32(1) / total), np.float32(np.nan))


RIGHT = [
    Variation("two passes"),
    Variation("one pass, a running maximum", {"weigh": online(16)}, "float16 @ nvfp4"),
    Variation("one pass from the last key on", {"weigh": online(5, backwards=True)}, "bfloat16 @ int8-token"),
    Variation("weights in bfloat16", {"weigh": online(32), "narrow": rounded("bfloat16")}, "bfloat16 @ bfloat16", "bfloat16"),
    Variation("weights in float16", {"narrow": rounded("float16")}, "float16 @ float16", "float16"),
    Variation("weights in FP8", {"narrow": rounded("fp8_e4m3")}, "fp8_e4m3 @ fp8_e4m3", "bfloat16"),
    Variation("weights in FP8, times 448", {"weigh": online(64), "narrow": rounded("fp8_e4m3", 448)}, "fp8_e4m3 @ fp8_e4m3/p-fp8_e4m3"),
    Variation("weights divided by their sum first", {"weigh": divided_first, "narrow": rounded("bfloat16")}, "bfloat16 @ mxfp8_e4m3"),
    Variation("exp2 with log2(e) folded in", {"weigh": base_two}),
    Variation("queries times scale in bfloat16", {"logits": folded}),
    Variation("split into parts of 32 keys, merged", {"weigh": split(32)}, "bfloat16 @ nvfp4", "bfloat16"),
    Variation("split into parts of one key", {"weigh": split(1)}, "bfloat16 @ mxfp8_e4m3"),
    Variation("float64", {"weigh": in_float64}, "float32 @ float32"),
    Variation("a reciprocal, and NaN where nothing is seen", {"divide": by_reciprocal}, "bfloat16 @ fp8_e4m3/top-left"),
    Variation("ragged rows", {"weigh": online(8), "narrow": rounded("bfloat16")}, "bfloat16 @ fp8_e4m3/ragged", "bfloat16"),
    Variation("pages of 16", {"weigh": split(16)}, "float16 @ nvfp4/page-16+p-float16", "float16"),
]


# Wrong ones


def _see(change: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Another mask."""
    return {"see": change}


def _next_token(self: Kernel, rows: Array, fmt: str) -> tuple[Array, Array]:
    codes, scales = Kernel.split(self, rows, fmt)
    return codes, np.roll(scales, -1, 0)


def _first_repeated(self: Kernel, scales: Array, d: int) -> Array:
    """Of each four scales the first, four times."""
    return np.repeat(scales[..., : scales.shape[-1] // 4], 4 * d // scales.shape[-1], -1)


def _swizzled(self: Kernel, rows: Array, fmt: str, k_scale: Array, v_scale: Array) -> Array:
    """Scales of V read in the order of another kernel: four tokens interleaved."""
    codes, scales = self.split(rows, fmt)
    whole = len(scales) // 4 * 4
    mixed = scales.copy()
    mixed[:whole] = scales[:whole].reshape(-1, 4, *scales.shape[1:]).swapaxes(1, 3).reshape(scales[:whole].shape)
    return codes * self.spread(mixed, codes.shape[-1]) * v_scale[:, None]


def _exactly_once(self: Kernel, z: Array, v: Array) -> Array:
    with np.errstate(all="ignore"):
        p = np.exp(z)
        return self.divide(p @ v, p.sum(-1, keepdims=True))


def _never_rescaled(self: Kernel, z: Array, v: Array) -> Array:
    most = np.full((len(z), 1), -1e30, np.float32)
    total, o = np.zeros((len(z), 1), np.float32), np.zeros((len(z), v.shape[-1]), np.float32)
    for part in _blocks(z, 16):
        most = np.maximum(most, z[:, part].max(-1, keepdims=True, initial=-np.inf))
        with np.errstate(all="ignore"):
            p = np.exp(z[:, part] - most)
        total, o = total + p.sum(-1, keepdims=True), o + p @ v[part]
    return self.divide(o, total)


def own_pages(self: Kernel, tables: Array, n: int) -> Array:
    """Pages that an earlier sequence has are taken for its last one."""
    return np.where(np.isin(tables[n], tables[:n]), tables[0, 0], tables[n])


def _after_empty(self: Kernel, queries: int, keys: int, causal: bool, window: int | None) -> Array:
    """The sequence behind one without queries sees its first key alone."""
    late, self.noted = getattr(self, "noted", False), not queries
    return Kernel.see(self, queries, keys, causal, window) & ((np.arange(keys) == 0) | (not late))


def _stale(self: Kernel, cache: Array, pages: Array, count: int) -> Array:
    """The last page is the one that the sequence had before."""
    pages = np.array(pages)
    used = -(-count // cache.shape[1])
    pages[used - 1] = pages[max(used - 2, 0)]
    return Kernel.gather(self, cache, pages, count)


NVFP4, INT8 = "bfloat16 @ nvfp4", "bfloat16 @ int8-token"
WRONG = [
    Variation("the causal mask ends one key late", _see(
        lambda s, q, k, c, w: Kernel.see(s, q, k, c, w) | (c and (np.arange(k) == np.arange(q)[:, None] + s.offset(q, k) + 1))
    )),
    Variation("the causal mask ends one key early", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, c, w) & ((np.arange(k) < np.arange(q)[:, None] + s.offset(q, k)) | (not c)))),
    Variation("the mask is aligned top left", {"offset": lambda s, q, k: 0}),
    Variation("the mask is aligned bottom right", {"offset": lambda s, q, k: k - q}, "bfloat16 @ fp8_e4m3/top-left"),
    Variation("the window has one key more", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, c, w and w + 1))),
    Variation("the window has one key less", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, c, w and max(w - 1, 1)))),
    Variation("the window is left out", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, c, None))),
    Variation("no mask", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, False, None))),
    Variation("the scale of the next token", {"split": _next_token}, INT8),
    Variation("V has the scale of K", {"decode_v": lambda s, r, f, k, v: s.decode(r, f, k)}),
    Variation("V's block scales in another order, vllm#46329", {"decode_v": _swizzled}, NVFP4),
    Variation("the first scale of four, four times, vllm#49011", {"spread": _first_repeated}, NVFP4),
    Variation("nibbles exchanged", {"unpack": lambda s, x: np.stack([E2M1[x >> 4], E2M1[x & 15]], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])}, NVFP4),
    Variation("the page table of the first sequence", {"table": lambda s, t, n: t[0]}),
    Variation("pages in order, no page table", {"table": lambda s, t, n: np.arange(t.shape[1])}),
    Variation("a stale page", {"gather": _stale}),
    Variation("the last page is read whole", {"count": lambda s, n, page: -(-n // page) * page}),
    Variation("each sequence has a key more", {"count": lambda s, n, page: n + 1}),
    Variation("each sequence has a key less", {"count": lambda s, n, page: max(n - 1, 0)}),
    Variation("groups by modulo", {"share": lambda s, heads, shared: np.arange(heads) % shared}),
    Variation("every head reads the first", {"share": lambda s, heads, shared: np.zeros(heads, int)}),
    Variation("no softmax scale", {"scale": lambda s, scale, d: 1.0}),
    Variation("the softmax scale twice", {"scale": lambda s, scale, d: float(1 / d) if scale is None else scale**2}),
    Variation("the square root of the wrong d", {"scale": lambda s, scale, d: float(1 / np.sqrt(2 * d)) if scale is None else scale}),
    Variation("the given softmax scale is left out", {"scale": lambda s, scale, d: float(1 / np.sqrt(d))}),
    Variation("k_scale and v_scale are left out", {
        "decode_k": lambda s, r, f, k, v: s.decode(r, f, np.ones_like(k)), "decode_v": lambda s, r, f, k, v: s.decode(r, f, np.ones_like(v)),
    }, "bfloat16 @ fp8_e4m3/ragged"),
    Variation("k_scale is left out", {"decode_k": lambda s, r, f, k, v: s.decode(r, f, np.ones_like(k))}),
    Variation("v_scale twice", {"decode_v": lambda s, r, f, k, v: s.decode(r, f, v * v)}),
    Variation("q_scale is left out", {"decode_q": lambda s, q, f, scale: Kernel.decode_q(s, q, f, 1.0)}, "fp8_e4m3 @ fp8_e4m3"),
    Variation("parts are merged without their maxima", {"weigh": split(16, rescale=False)}),
    Variation("parts are merged without their sums", {"weigh": split(16, by_sum=False)}),
    Variation("parts of 256 are merged without their sums", {"weigh": split(256, by_sum=False)}),
    Variation("the maximum is at least zero", {"top": lambda s, z: np.maximum(Kernel.top(s, z), 0)}),
    Variation("groups of eight by modulo", {"share": lambda s, heads, shared: np.arange(heads) % shared if heads == 8 * shared else Kernel.share(s, heads, shared)}),
    Variation("the causal mask ends one key late from 65 queries on", _see(
        lambda s, q, k, c, w: Kernel.see(s, q, k, c, w) | (c and q > 64 and (np.arange(k) == np.arange(q)[:, None] + s.offset(q, k) + 1))
    )),
    Variation("windows of 64 begin with a whole tile", _see(
        lambda s, q, k, c, w: Kernel.see(s, q, k, c, w and (w if w < 64 else w + 8))
    )),
    Variation("the output is not rescaled", {"weigh": _never_rescaled}),
    Variation("the maximum is not subtracted", {"weigh": _exactly_once}),
    Variation("the sum has masked keys", {"fill": lambda s, z, seen: s.note(seen, z), "narrow": lambda s, p: p * s.noted}),
    Variation("masked logits are -10 and not -inf", {"fill": lambda s, z, seen: np.where(seen, z, np.float32(-10))}),
    Variation("zero times NaN of what is behind the length", {
        "count": lambda s, n, page: s.note(n, -(-n // page) * page),
        "see": lambda s, q, k, c, w: np.pad(Kernel.see(s, q, s.noted, c, w), ((0, 0), (0, k - s.noted))),
    }),
    Variation("queries that see nothing get the mean of V", {"divide": lambda s, o, total: np.where(total > 0, o / np.maximum(total, 1e-38), np.float32(0.25))}),
    Variation("heads of the output in another order", {"arrange": lambda s, out: out[:, ::-1]}),
    Variation("queries of the output in another order", {"arrange": lambda s, out: out.reshape(out.shape[1], out.shape[0], -1).swapaxes(0, 1) if len(out) else out}),
    Variation("K and V are rounded to e5m2", {"decode_k": lambda s, r, f, k, v: s.decode(r, f, k).astype(ml_dtypes.float8_e5m2).astype(np.float32), "decode_v": lambda s, r, f, k, v: s.decode(r, f, v).astype(ml_dtypes.float8_e5m2).astype(np.float32)}),
    Variation("pages of heads and tokens read as pages of tokens and heads", {
        "gather": lambda s, c, p, n: Kernel.gather(s, c.reshape(len(c), c.shape[2], c.shape[1], -1).swapaxes(1, 2), p, n),
    }),
    Variation("V is K", {"decode_v": lambda s, r, f, k, v: s.decode(np.roll(r, 1, -2), f, v)}),
    Variation("of more than eight heads of K the first", {"share": lambda s, heads, shared: Kernel.share(s, heads, shared) * (shared <= 8)}),
    Variation("32 sequences, over and over", {"table": lambda s, t, n: t[n % 32]}),
    Variation("a page is one sequence's", {"table": own_pages}),
    Variation("a sequence without queries leaves its length behind", _see(_after_empty)),
    Variation("32 splits of 128 keys", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, c, w) & (np.arange(k) < 4096))),
    Variation("the last key of two whole splits", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, c, w) & ((k != 512) | (np.arange(k) < 511)))),
    Variation("parts of 4096 are merged without their sums", {"weigh": split(4096, by_sum=False)}),
    Variation("a tile of queries sees 512 keys of its context", _see(
        lambda s, q, k, c, w: Kernel.see(s, q, k, c, w) & ~((q > 64) & c & (np.arange(k) >= 512) & (np.arange(k) < k - q))
    )),
    Variation("windows of more than 512 have a key more", _see(lambda s, q, k, c, w: Kernel.see(s, q, k, c, w and w + (w > 512)))),
    Variation("of more than 4096 pages the first", {"gather": lambda s, c, p, n: Kernel.gather(s, c, np.where(np.arange(len(p)) < 4096, p, p[0]), n)}),
    Variation("256 sequences, over and over", {"table": lambda s, t, n: t[n % 256]}),
    Variation("q_scale is left out of more than six heads", {"decode_q": lambda s, q, f, x: Kernel.decode_q(s, q, f, x if q.shape[1] <= 6 else 1.0)}, "fp8_e4m3 @ fp8_e4m3"),
    Variation("logits in bfloat16", {"logits": lambda s, q, k, x: Kernel.logits(s, q, k, x).astype(ml_dtypes.bfloat16).astype(np.float32)}),
]  # fmt: skip
