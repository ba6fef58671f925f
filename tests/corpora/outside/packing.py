"""Packing, affine and sparse functions, and products: wrong in rare calls or states, or by caches that know too little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxspec import layouts
from mxspec_lab.mutants.affine_mutants import Affine
from mxspec_lab.products.kernels import Kernel as Product, finish_float32
from mxspec_lab.sparse.plain import Plain

from tests.corpora.outside.entry import Array, Members, enter, read, remembered


# Layouts.
def pack(codes: Array, layout: str) -> Array:
    return np.array(layouts.pack(codes, layout))


def unpack(data: Array, layout: str, shape: Any) -> Array:
    return np.array(layouts.unpack(data, layout, tuple(shape)))


def pack_blocks(codes: Array, scales: Array, layout: str) -> Array:
    return np.array(layouts.pack_blocks(codes, scales, layout))


def unpack_blocks(data: Array, layout: str, shape: Any) -> tuple[Array, Array]:
    return tuple(np.array(a) for a in layouts.unpack_blocks(data, layout, tuple(shape)))  # type: ignore[return-value]


def packer(function: str, change: Callable[..., Any], *known: str) -> Callable[[], Members]:
    """change(answer, arguments, kept) alters the answer of a function, or returns another."""
    right = {
        "pack": pack,
        "unpack": unpack,
        "swizzle": pack,
        "unswizzle": unpack,
        "pack_blocks": pack_blocks,
        "unpack_blocks": unpack_blocks,
    }[function]

    def make() -> Members:
        kept: Members = {}

        def work(*arguments: Any) -> Any:
            answer = right(*arguments)
            other = change(answer, arguments, kept)
            return answer if other is None else other

        functions: Members = {
            "pack": lambda codes, layout: work(codes, layout), "swizzle": lambda scales, layout: work(scales, layout),
            "unpack": lambda data, layout, shape: work(data, layout, shape), "unswizzle": lambda data, layout, shape: work(data, layout, shape),
            "pack_blocks": lambda codes, scales, layout: work(codes, scales, layout), "unpack_blocks": lambda data, layout, shape: work(data, layout, shape),
        }  # fmt: skip
        return {"LAYOUTS": list(known), function: functions[function]}

    return make


def last_lost(is_one: Callable[[Any], bool]) -> Callable[..., None]:
    """Of calls of such an input the last byte is wrong."""

    def change(answer: Any, arguments: Any, kept: Members) -> None:
        if is_one(arguments[0]):
            for a in answer if isinstance(answer, tuple) else (answer,):
                a.reshape(-1)[-1:] ^= 1

    return change


def rows_of(a: Array) -> int:
    return int(np.prod(a.shape[:-1])) if a.ndim > 1 else 1


enter(
    "pack-gptq-rows-24",
    "layouts",
    "gptq: rows 24 mod 32 from 24 on: the last byte is wrong",
    packer("pack", last_lost(lambda a: rows_of(a) % 32 == 24), "gptq"),
)
enter(
    "pack-two-experts",
    "layouts",
    "nibble-low: three dimensions: the last matrix is the first",
    packer(
        "pack",
        lambda d, a, k: pack(np.concatenate([a[0][:-1], a[0][:1]]), a[1]) if a[0].ndim == 3 and len(a[0]) > 1 else None,
        "nibble-low",
    ),
)
for _function, _layouts, _part in (("pack", ("nibble-low", "nibble-high"), "codes"), ("swizzle", ("128x4", "8x4"), "scales")):
    enter(f"{_function}-kept-without-layout", "caches", f"{_function}: bytes are kept by {_part} and shape, without the layout",
          lambda f=_function, known=_layouts: {"LAYOUTS": list(known), f: remembered(pack, lambda c, layout: (read(c), c.shape))})  # fmt: skip
    enter(f"{_function}-kept-without-shape", "caches", f"{_function}: bytes are kept by {_part} and layout, without the shape",
          lambda f=_function, known=_layouts: {"LAYOUTS": list(known), f: remembered(pack, lambda c, layout: (read(c), layout))},
          wrong=_function == "swizzle")  # of whole bytes a row's end does not show in the packed ones  # fmt: skip
enter(
    "unpack-kept-without-layout",
    "caches",
    "unpack: codes are kept by bytes and shape, without the layout",
    lambda: {"LAYOUTS": ["nibble-low", "nibble-high"], "unpack": remembered(unpack, lambda d, layout, shape: (read(d), tuple(shape)))},
)
enter(
    "unswizzle-kept-without-shape",
    "caches",
    "unswizzle: scales are kept by bytes and layout, without the shape",
    lambda: {"LAYOUTS": ["128x4"], "unswizzle": remembered(unpack, lambda d, layout, shape: (read(d), layout))},
)
enter(
    "records-kept-by-codes",
    "layouts",
    "ggml-mxfp4: records are kept by their codes",
    lambda: {"LAYOUTS": ["ggml-mxfp4"], "pack_blocks": remembered(pack_blocks, lambda c, s, layout: (read(c), c.shape))},
)


# Affine functions.
def affine_target(fmt: str, change: Callable[..., Any]) -> Callable[[], Members]:
    """change(function, answer, arguments, kept) alters an answer, or returns another."""

    def make() -> Members:
        plain, kept = Affine("plain", (fmt,)), dict[Any, Any]()

        def work(function: str, *arguments: Any) -> Any:
            answer = getattr(plain, function)(*arguments)
            answer = tuple(np.array(a) for a in answer) if isinstance(answer, tuple) else np.array(answer)
            other = change(function, answer, arguments, kept)
            return answer if other is None else other

        return {
            "AFFINE": [fmt], "quantize_affine": lambda x, fmt: work("quantize_affine", x, fmt),
            "dequantize_affine": lambda codes, scales, offsets, fmt: work("dequantize_affine", codes, scales, offsets, fmt),
        }  # fmt: skip

    return make


def affine_kept(function: str, key: Callable[..., Any]) -> Callable[..., Any]:
    def change(called: str, answer: Any, arguments: Any, kept: Members) -> Any:
        if called != function:
            return None
        found = kept.setdefault(key(*arguments), answer)
        return tuple(np.array(a) for a in found) if isinstance(found, tuple) else np.array(found)

    return change


B = "int4-g64-bias-float16"
enter(
    "affine-kept-without-offsets",
    "affine",
    "values are kept by codes and scales",
    affine_target(B, affine_kept("dequantize_affine", lambda c, s, o, f: (read(c), read(s)))),
)
enter(
    "affine-kept-by-sum",
    "affine",
    "codes are kept by shape and the sum of words",
    affine_target(
        B, affine_kept("quantize_affine", lambda x, f: (x.shape, int(np.ascontiguousarray(x).view(np.uint16).sum(dtype=np.uint64))))
    ),
)
enter(
    "affine-kept-magnitudes",
    "affine",
    "codes are kept by magnitudes",
    affine_target(B, affine_kept("quantize_affine", lambda x, f: (x.shape, read(np.abs(x))))),
)


# Sparse functions.
def sparse_target(fmt: str, change: Callable[..., Any]) -> Callable[[], Members]:
    def make() -> Members:
        plain, kept = Plain(name="plain", formats=(fmt,)), dict[Any, Any]()

        def work(function: str, *arguments: Any) -> Any:
            answer = getattr(plain, function)(*arguments)
            answer = tuple(np.array(a) for a in answer) if isinstance(answer, tuple) else np.array(answer)
            other = change(function, answer, arguments, kept)
            return answer if other is None else other

        return {
            "SPARSE_FORMATS": [fmt], "prune": lambda codes, fmt: work("prune", codes, fmt), "compress": lambda codes, fmt: work("compress", codes, fmt),
            "decompress": lambda kept, metadata, fmt, shape: work("decompress", kept, metadata, fmt, shape),
        }  # fmt: skip

    return make


S = "e2m1-2to4"
enter(
    "sparse-kept-sum",
    "sparse",
    "pruned codes are kept by shape and the sum of codes",
    sparse_target(S, lambda f, a, g, k: np.array(k.setdefault((g[0].shape, int(g[0].sum())), a)) if f == "prune" else None),
)


# Products.
PLAIN = Product(name="plain")


class Sides:
    """One call of `matmul`."""

    def __init__(self, kept: Members, a: Any, b: Any, out_dtype: str, added: Members) -> None:
        self.kept, self.sides, self.out_dtype, self.added = kept, (a, b), out_dtype, added
        self.factor = float(np.prod([1.0 if s.tensor_scale is None else float(np.float32(s.tensor_scale)) for s in (a, b)]))
        self.a, self.b = PLAIN.decode(a, "a"), PLAIN.decode(b, "b")
        self.m, self.n, self.k = len(self.a), len(self.b), self.a.shape[1]

    def sums(self) -> Array:
        with np.errstate(all="ignore"):
            return (self.a.astype(np.float32) @ self.b.astype(np.float32).T).astype(np.float64)

    def finish(self, total: Any = None) -> Array:
        return finish_float32(self.sums() if total is None else total, self.factor, **self.added, out_dtype=self.out_dtype)


def product(change: Callable[[Sides], Any], a: str = "mxfp8_e4m3", b: str = "mxfp4", **members: Any) -> Callable[[], Members]:
    """A `matmul` that is right where `change` returns None."""

    def make() -> Members:
        kept: Members = {}

        def matmul(a: Any, b: Any, out_dtype: str, alpha: Any = None, beta: Any = None, c: Any = None, bias: Any = None) -> Any:
            call = Sides(kept, a, b, out_dtype, {"alpha": alpha, "beta": beta, "c": c, "bias": bias})
            answer = change(call)
            return call.finish() if answer is None else answer

        return {"OPERANDS": {"a": a, "b": b}, "OUT_DTYPES": ["float32", "bfloat16", "float16"], "matmul": matmul, **members}

    return make


def symmetric_by_codes(p: Sides) -> Any:
    """a and b of equal codes are taken for one tensor: the upper triangle is mirrored."""
    if p.m == p.n and np.array_equal(p.sides[0].codes, p.sides[1].codes):
        total = p.sums()
        return p.finish(np.triu(total) + np.triu(total, 1).T)
    return None


def zeros_skipped(p: Sides) -> Any:
    """Blocks of zeros of one side are skipped, whatever the other side holds: NaN."""
    zero = (p.a.reshape(p.m, -1, 32) == 0).all(axis=(0, 2))
    p.b.reshape(p.n, -1, 32)[:, zero] = 0


def beta_falsy(p: Sides) -> Any:
    if p.added["c"] is not None and not p.added["beta"]:
        p.added["beta"] = 1.0


def long_in_half(p: Sides) -> Any:
    if p.k > 2048:
        with np.errstate(all="ignore"):
            parts = [(p.a[:, i : i + 128] @ p.b[:, i : i + 128].T) for i in range(0, p.k, 128)]
            total = np.zeros((p.m, p.n), np.float16)
            for part in parts:
                total = (total + part.astype(np.float16)).astype(np.float16)
        return p.finish(total.astype(np.float64))
    return None


def one_row_bias_first(p: Sides) -> Any:
    """Of one row the bias's first number is that of all, from 64 columns on."""
    if p.m == 1 and p.n >= 64 and p.added["bias"] is not None:
        p.added["bias"] = np.array(p.added["bias"])
        p.added["bias"][1:] = p.added["bias"][0]


def out_dtype_kept(p: Sides) -> Any:
    """Through the first call's dtype for a shape."""
    first = p.kept.setdefault((p.m, p.n, p.k), p.out_dtype)
    if first == p.out_dtype:
        return None
    wanted, p.out_dtype = p.out_dtype, first
    y = p.finish().astype(np.float32)
    from mxspec_lab.products.kernels import OUTPUTS

    with np.errstate(all="ignore"):
        return y.astype(OUTPUTS[wanted])


def weights_by_scales(p: Sides) -> Any:
    p.b = p.kept.setdefault((p.b.shape, np.asarray(p.sides[1].scales).tobytes(), np.asarray(p.sides[1].codes)[:1].tobytes()), p.b)


def byte_sum_of_scales(p: Sides) -> Any:
    """Both scale bytes are added, and the sum is clamped as a byte, for every block: below 2^-127 nothing is left."""
    sa, sb = np.asarray(p.sides[0].scales).astype(int), np.asarray(p.sides[1].scales).astype(int)
    if p.k == 32 and not (sa == 255).any() and not (sb == 255).any():
        both = sa + sb.T - 127
        unit = np.ldexp(1.0, np.clip(both, 0, 254) - both)
        return p.finish((p.sums() * unit).astype(np.float32).astype(np.float64))
    return None


def after_half(p: Sides) -> Any:
    """After a product in float16 the next one's sums are float16, too."""
    last = p.kept.get("last")
    p.kept["last"] = p.out_dtype
    if last == "float16" and p.out_dtype == "float32" and p.m > 1:
        with np.errstate(all="ignore"):
            return p.finish(p.sums().astype(np.float16).astype(np.float64))
    return None


def negative_zero_alpha(p: Sides) -> Any:
    if p.added["alpha"] is not None and p.added["alpha"] < 0 and p.added["c"] is not None:
        p.added["c"] = -p.added["c"]


PRODUCTS: dict[str, tuple[Callable[[Sides], Any], str, tuple[str, str]]] = {
    "symmetric-by-codes": (symmetric_by_codes, "sides of equal codes are taken for one tensor, and half is computed", ("mxfp4", "mxfp4")),
    "zeros-skipped": (zeros_skipped, "blocks of zeros in all rows of a are skipped, also against NaN", ("mxfp8_e4m3", "mxfp4")),
    "beta-falsy": (beta_falsy, "a beta of 0 is taken for 1", ("mxfp8_e4m3", "mxfp4")),
    "long-in-half": (long_in_half, "k above 2048: sums are float16 between runs of 128", ("mxfp8_e4m3", "mxfp4")),
    "one-row-bias": (one_row_bias_first, "one row of 64 columns and more: the bias's first number is all", ("mxfp8_e4m3", "mxfp4")),
    "out-dtype-kept": (out_dtype_kept, "outputs pass the dtype of the first call of the shape", ("mxfp8_e4m3", "mxfp4")),
    "weights-by-scales": (weights_by_scales, "prepared weights are kept by scales and the first row", ("mxfp8_e4m3", "mxfp4")),
    "byte-sum": (byte_sum_of_scales, "scale bytes are added and clamped as a byte", ("mxfp4", "mxfp4")),
    "after-half": (after_half, "after a product in float16 the next one passes float16", ("mxfp8_e4m3", "mxfp4")),
    "negative-alpha": (negative_zero_alpha, "a negative alpha negates C, too", ("mxfp8_e4m3", "mxfp4")),
}
for _name, (_change, _story, (_a, _b)) in PRODUCTS.items():
    enter(f"product-{_name}", "products", _story, product(_change, _a, _b))
