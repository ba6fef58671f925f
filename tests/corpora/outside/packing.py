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
    "pack-gptq-large",
    "layouts",
    "gptq: from 2^15 codes on the last byte is wrong",
    packer("pack", last_lost(lambda a: a.size >= 1 << 15), "gptq"),
)
enter(
    "pack-gptq-rows-24",
    "layouts",
    "gptq: rows 24 mod 32 from 24 on: the last byte is wrong",
    packer("pack", last_lost(lambda a: rows_of(a) % 32 == 24), "gptq"),
)
enter(
    "pack-awq-rows-128",
    "layouts",
    "awq: 128 rows and more: the last byte is wrong",
    packer("pack", last_lost(lambda a: rows_of(a) >= 128), "awq"),
)
enter(
    "pack-marlin-two-tiles",
    "layouts",
    "marlin: more than one tile of columns: the last byte is wrong",
    packer("pack", last_lost(lambda a: rows_of(a) > 64), "marlin"),
)
enter(
    "pack-fp6-three-rows",
    "layouts",
    "fp6-le: three rows and more, odd: the last byte is wrong",
    packer("pack", last_lost(lambda a: rows_of(a) % 2 == 1 and rows_of(a) > 2), "fp6-le"),
)
enter(
    "pack-nibble-fortran-odd",
    "layouts",
    "nibble-low: Fortran order of odd rows: the last byte is wrong",
    packer("pack", last_lost(lambda a: not a.flags.c_contiguous and rows_of(a) % 2 == 1), "nibble-low"),
)
enter(
    "unpack-ct-int4-large",
    "layouts",
    "ct-int4: from 2^14 bytes on the last code is wrong",
    packer("unpack", last_lost(lambda a: a.size >= 1 << 14), "ct-int4"),
)
enter(
    "swizzle-8x4-rows-128",
    "layouts",
    "8x4: 128 rows and more: the last scale is wrong",
    packer("swizzle", lambda d, a, k: d.reshape(-1).__setitem__(0, d.reshape(-1)[0] ^ 1) if rows_of(a[0]) >= 128 else None, "8x4"),
)
enter(
    "swizzle-128x4-stale",
    "layouts",
    "128x4-zeroed: padding that is to be zero holds the call before",
    packer(
        "swizzle",
        lambda d, a, k: np.where(
            pack(np.ones_like(a[0]), a[1]).reshape(d.shape) == 0, np.resize(k.setdefault("old", np.full(1, 7, np.uint8)), d.shape), d
        ),
        "128x4-zeroed",
    ),
)
enter(
    "swizzle-two-experts",
    "layouts",
    "128x4: three dimensions: the last matrix is the first",
    packer(
        "swizzle", lambda d, a, k: pack(np.concatenate([a[0][:-1], a[0][:1]]), a[1]) if a[0].ndim == 3 and len(a[0]) > 1 else None, "128x4"
    ),
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
enter(
    "records-many",
    "layouts",
    "ggml-mxfp4: of 2^10 records and more the last scale is wrong",
    packer(
        "pack_blocks",
        lambda d, a, k: d.reshape(-1).__setitem__(-17, d.reshape(-1)[-17] ^ 1) if a[1].size >= 1 << 10 else None,
        "ggml-mxfp4",
    ),
)
enter(
    "records-nvfp4-odd",
    "layouts",
    "ggml-nvfp4: three rows and more: the last byte is wrong",
    packer("pack_blocks", last_lost(lambda a: rows_of(a) >= 3), "ggml-nvfp4"),
)
enter(
    "records-unpack-wide",
    "layouts",
    "ggml-mxfp4: from eight records a row on the last scale is wrong",
    packer(
        "unpack_blocks",
        lambda d, a, k: d[1].reshape(-1).__setitem__(-1, d[1].reshape(-1)[-1] ^ 1) if d[1].shape[-1] >= 8 else None,
        "ggml-mxfp4",
    ),
)
enter(
    "records-fortran",
    "layouts",
    "ggml-mxfp4: scales in Fortran order are read as they lie",
    packer(
        "pack_blocks",
        lambda d, a, k: pack_blocks(a[0], np.ascontiguousarray(a[1].T).reshape(a[1].shape), a[2]) if not a[1].flags.c_contiguous else None,
        "ggml-mxfp4",
    ),
)
enter(
    "records-shared",
    "layouts",
    "ggml-mxfp4: records of one size share a buffer",
    packer("pack_blocks", lambda d, a, k: (k.setdefault(d.shape, np.array(d)).__setitem__(..., d), k[d.shape])[1], "ggml-mxfp4"),
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


def affine_numbers(function: str, bad: Callable[[Any], Any]) -> Callable[..., Any]:
    """Where `bad` of the first argument and answer's groups holds, codes or values are changed."""

    def change(called: str, answer: Any, arguments: Any, kept: Members) -> None:
        if called == function:
            bad((answer, arguments))

    return change


def constant_groups_wide(given: Any) -> None:
    (codes, scales, _), (x, *_rest) = given
    groups = np.asarray(x, np.float32).reshape(*scales.shape, -1)
    if scales.shape[1] >= 4:
        with np.errstate(all="ignore"):
            flat = (groups == groups[..., :1]).all(axis=-1)
        codes.reshape(*scales.shape, -1)[flat] ^= 1


def negative_scales(given: Any) -> None:
    values, (_, scales, *_rest) = given
    if scales.shape[1] > 1:
        values.reshape(*scales.shape, -1)[np.asarray(scales, np.float32) < 0] *= -1


def subnormal_scales(given: Any) -> None:
    values, (_, scales, offsets, *_rest) = given
    low = np.abs(np.asarray(scales, np.float32)) < 2.0**-14
    if scales.shape[0] > 16:
        values.reshape(*scales.shape, -1)[low] = np.asarray(offsets, np.float32)[low][:, None]


def last_group_of_row(given: Any) -> None:
    values, (_, scales, *_rest) = given
    if scales.shape[1] % 3 == 0:
        values.reshape(*scales.shape, -1)[:, -1] = values.reshape(*scales.shape, -1)[:, 0]


B, Z = "int4-g64-bias-float16", "int4-g128-zero-float16"
enter(
    "affine-kept-without-scales",
    "affine",
    "values are kept by codes and biases",
    affine_target(B, affine_kept("dequantize_affine", lambda c, s, o, f: (read(c), read(o)))),
)
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
enter(
    "affine-constant-wide",
    "affine",
    "rows of four groups and more: groups of one number get odd codes",
    affine_target(B, affine_numbers("quantize_affine", constant_groups_wide)),
)
enter(
    "affine-negative-scales",
    "affine",
    "rows of several groups: under a negative scale values are negated",
    affine_target(B, affine_numbers("dequantize_affine", negative_scales)),
)
enter(
    "affine-subnormal-scales",
    "affine",
    "more than 16 rows: subnormal scales are zero",
    affine_target(B, affine_numbers("dequantize_affine", subnormal_scales)),
)
enter(
    "affine-three-groups",
    "affine",
    "rows in threes of groups: the last group is the first",
    affine_target(Z, affine_numbers("dequantize_affine", last_group_of_row)),
)
enter(
    "affine-words-odd",
    "affine",
    "words: odd rows above one lose the last word",
    affine_target(
        B + "/words",
        lambda f, a, g, k: (
            a[0].reshape(-1).__setitem__(-1, 0) if f == "quantize_affine" and a[1].shape[0] % 2 and a[1].shape[0] > 1 else None
        ),
    ),
)
enter(
    "affine-shared",
    "affine",
    "values of one shape share a buffer",
    affine_target(
        Z, lambda f, a, g, k: (k.setdefault(a.shape, np.array(a)).__setitem__(..., a), k[a.shape])[1] if f == "dequantize_affine" else None
    ),
)
enter(
    "affine-compiled",
    "affine",
    "after 100 calls the zero point is one too large",
    affine_target(
        Z,
        lambda f, a, g, k: (
            k.__setitem__("n", k.get("n", 0) + 1)
            or (a.__isub__(np.repeat(np.asarray(g[1], np.float32), 128, axis=1)) if f == "dequantize_affine" and k["n"] > 100 else None)
        ),
    ),
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


def stale_between(called: str, answer: Any, arguments: Any, kept: Members) -> None:
    """Dropped codes are not written: from the second call of a shape on they are those of the call before."""
    if called == "decompress":
        old = kept.get(answer.shape)
        kept[answer.shape] = answer.copy()
        if old is not None:
            answer[answer == 0] = old[answer == 0]


def tie_across(called: str, answer: Any, arguments: Any, kept: Members) -> None:
    """Where the largest magnitude stands three times, the first of them is dropped for nothing."""
    if called == "prune" and answer.shape[1] >= 64:
        groups, given = answer.reshape(-1, 4), np.asarray(arguments[0]).reshape(-1, 4)
        same = (given[:, :3] == given[:, :1]).all(axis=1) & (given[:, 0] != 0)
        groups[same, 0] = 0


def lost_negative_zero(called: str, answer: Any, arguments: Any, kept: Members) -> None:
    """-8 of INT4 has no magnitude of four bits."""
    if called == "prune" and answer.shape[0] > 2:
        given = np.asarray(arguments[0])
        low = (given.reshape(-1, 4) == 8).sum(axis=1) == 1
        answer.reshape(-1, 4)[low] = np.where(given.reshape(-1, 4)[low] == 8, 0, answer.reshape(-1, 4)[low])


def in_place(called: str, answer: Any, arguments: Any, kept: Members) -> None:
    if called == "compress" and arguments[0].flags.writeable and arguments[0].shape[1] > 64:
        arguments[0][..., -1] = 0


S, P = "e2m1-2to4", "e2m1-4to8"
enter("sparse-stale", "sparse", "decompressing leaves what the call before wrote where nothing is kept", sparse_target(S, stale_between))
enter(
    "sparse-three-equal",
    "sparse",
    "three equal codes at the start of a group: the first is dropped, and one is kept",
    sparse_target(S, tie_across),
)
enter("sparse-lowest", "sparse", "int4, more than two rows: -8 alone is dropped", sparse_target("int4-2to4", lost_negative_zero))
enter("sparse-in-place", "sparse", "compress clears its input's last column", sparse_target(S, in_place))
enter(
    "sparse-pairs-many",
    "sparse",
    "pairs, 33 rows and more: metadata of the last group is the first's",
    sparse_target(P, lambda f, a, g, k: a[1].__setitem__((-1, -1), a[1][0, 0]) if f == "compress" and a[1].shape[0] > 32 else None),
)
enter(
    "sparse-kept-sum",
    "sparse",
    "pruned codes are kept by shape and the sum of codes",
    sparse_target(S, lambda f, a, g, k: np.array(k.setdefault((g[0].shape, int(g[0].sum())), a)) if f == "prune" else None),
)
enter(
    "sparse-decompress-one-row",
    "sparse",
    "one row of more than 256: the last group is lost",
    sparse_target(
        S, lambda f, a, g, k: a.__setitem__((0, slice(-4, None)), 0) if f == "decompress" and a.shape[0] == 1 and a.shape[1] > 256 else None
    ),
)
enter(
    "sparse-compress-fortran",
    "sparse",
    "codes in Fortran order are compressed as they lie",
    sparse_target(
        P,
        lambda f, a, g, k: (
            Plain(name="p", formats=(P,)).compress(
                np.ascontiguousarray(g[0].T).reshape(g[0].shape) if False else np.roll(g[0], 8, axis=1), P
            )
            if f == "compress" and not g[0].flags.c_contiguous
            else None
        ),
    ),
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


def alpha_falsy(p: Sides) -> Any:
    p.added["alpha"] = p.added["alpha"] or None


def beta_falsy(p: Sides) -> Any:
    if p.added["c"] is not None and not p.added["beta"]:
        p.added["beta"] = 1.0


def alpha_on_bias(p: Sides) -> Any:
    if p.added["bias"] is not None and p.added["alpha"] is not None:
        p.added["bias"] = p.added["bias"].astype(np.float32) * np.float32(p.added["alpha"])


def alpha_half(p: Sides) -> Any:
    if p.added["alpha"] is not None:
        p.added["alpha"] = float(np.float16(p.added["alpha"]))


def bfloat16_cut(p: Sides) -> Any:
    if p.out_dtype == "bfloat16" and p.n > 32:
        p.out_dtype = "float32"
        import ml_dtypes

        return (p.finish().view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(ml_dtypes.bfloat16)
    return None


def bfloat16_through_half(p: Sides) -> Any:
    if p.out_dtype == "bfloat16":
        import ml_dtypes

        p.out_dtype = "float32"
        y = p.finish()
        with np.errstate(all="ignore"):
            return np.where(np.abs(y) < 6e4, y.astype(np.float16).astype(np.float32), y).astype(ml_dtypes.bfloat16)
    return None


def long_in_half(p: Sides) -> Any:
    if p.k > 2048:
        with np.errstate(all="ignore"):
            parts = [(p.a[:, i : i + 128] @ p.b[:, i : i + 128].T) for i in range(0, p.k, 128)]
            total = np.zeros((p.m, p.n), np.float16)
            for part in parts:
                total = (total + part.astype(np.float16)).astype(np.float16)
        return p.finish(total.astype(np.float64))
    return None


def split_k_bfloat16(p: Sides) -> Any:
    """From k = 1024 on halves are summed apart, and stored in bfloat16 between."""
    if p.k >= 1024:
        import ml_dtypes

        h = p.k // 2
        with np.errstate(all="ignore"):
            parts = [
                (x @ y.T).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
                for x, y in ((p.a[:, :h], p.b[:, :h]), (p.a[:, h:], p.b[:, h:]))
            ]
            return p.finish(parts[0] + parts[1])
    return None


def split_k_not_cleared(p: Sides) -> Any:
    """From k = 512 on the workspace of sums is not cleared where it has the size of the call before."""
    if p.k < 512:
        return None
    total = p.sums()
    old = p.kept.get("w")
    p.kept["w"] = total
    return p.finish(total + old) if old is not None and old.shape == total.shape and np.isfinite(old).all() else None


def tail_of_k(p: Sides) -> Any:
    if p.k > 256 and p.k % 128 == 32:
        p.a[:, -32:] = 0


def last_row_tile(p: Sides) -> Any:
    if p.m > 64 and p.m % 64 == 1:
        p.a[-1] = p.a[-2]


def last_column_tile(p: Sides) -> Any:
    if p.n > 128 and p.n % 8 == 7:
        p.b[-1] = p.b[-2]


def tall(p: Sides) -> Any:
    if p.m > 8 * p.n > 8:
        p.a[0] = p.a[1]


def one_row_bias_first(p: Sides) -> Any:
    """Of one row the bias's first number is that of all, from 64 columns on."""
    if p.m == 1 and p.n >= 64 and p.added["bias"] is not None:
        p.added["bias"] = np.array(p.added["bias"])
        p.added["bias"][1:] = p.added["bias"][0]


def nan_in_tiles(p: Sides) -> Any:
    if p.m >= 16:
        total = p.sums()
        bad = np.isnan(total[:16]).any(axis=0)
        total[:16, bad] = np.nan
        return p.finish(total)
    return None


def clamped_float32(p: Sides) -> Any:
    return np.clip(p.finish(), -65504, 65504) if p.out_dtype == "float32" else None


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


def weights_by_sum(p: Sides) -> Any:
    side = p.sides[1]
    p.b = p.kept.setdefault((p.b.shape, int(np.asarray(side.codes).sum()), int(np.asarray(side.scales).sum())), p.b)


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


def factor_first_side(p: Sides) -> Any:
    """Several rows of b: its tensor scale is left out where a has none of its own but one."""
    s = p.sides[1].tensor_scale
    if s is not None and p.k >= 64 and p.n > 1:
        p.factor /= float(np.float32(s))


def factor_kept(p: Sides) -> Any:
    p.factor = p.kept.setdefault((p.m, p.n, p.k, np.asarray(p.sides[1].codes).tobytes()), p.factor)


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
    "alpha-falsy": (alpha_falsy, "an alpha of 0 is taken for none", ("mxfp8_e4m3", "mxfp4")),
    "beta-falsy": (beta_falsy, "a beta of 0 is taken for 1", ("mxfp8_e4m3", "mxfp4")),
    "alpha-on-bias": (alpha_on_bias, "alpha multiplies the bias, too", ("mxfp8_e4m3", "mxfp4")),
    "alpha-half": (alpha_half, "alpha is held in float16", ("mxfp8_e4m3", "mxfp4")),
    "bfloat16-cut": (bfloat16_cut, "more than 32 columns: bfloat16 outputs are cut", ("mxfp8_e4m3", "mxfp4")),
    "bfloat16-through-half": (bfloat16_through_half, "bfloat16 outputs pass float16", ("mxfp8_e4m3", "mxfp4")),
    "long-in-half": (long_in_half, "k above 2048: sums are float16 between runs of 128", ("mxfp8_e4m3", "mxfp4")),
    "split-k-bfloat16": (split_k_bfloat16, "from k = 1024 on the two halves are stored in bfloat16", ("mxfp8_e4m3", "mxfp4")),
    "split-k-not-cleared": (split_k_not_cleared, "from k = 512 on the workspace is not cleared", ("mxfp8_e4m3", "mxfp4")),
    "tail-of-k": (tail_of_k, "k 32 mod 128 above 256: the last block is left", ("mxfp8_e4m3", "mxfp4")),
    "last-row-tile": (last_row_tile, "m 1 mod 64 above 64: the last row is the one before", ("mxfp8_e4m3", "mxfp4")),
    "last-column-tile": (last_column_tile, "n 7 mod 8 above 128: the last column is the one before", ("mxfp8_e4m3", "mxfp4")),
    "tall": (tall, "more than eight times as many rows as columns: the first row is the second", ("mxfp8_e4m3", "mxfp4")),
    "one-row-bias": (one_row_bias_first, "one row of 64 columns and more: the bias's first number is all", ("mxfp8_e4m3", "mxfp4")),
    "nan-in-tiles": (nan_in_tiles, "a NaN is in all 16 rows of its tile", ("mxfp8_e4m3", "mxfp4")),
    "clamped-float32": (clamped_float32, "float32 outputs are clamped to 65504", ("mxfp8_e4m3", "mxfp4")),
    "out-dtype-kept": (out_dtype_kept, "outputs pass the dtype of the first call of the shape", ("mxfp8_e4m3", "mxfp4")),
    "weights-by-sum": (weights_by_sum, "prepared weights are kept by the sums of codes and scales", ("mxfp8_e4m3", "mxfp4")),
    "weights-by-scales": (weights_by_scales, "prepared weights are kept by scales and the first row", ("mxfp8_e4m3", "mxfp4")),
    "byte-sum": (byte_sum_of_scales, "scale bytes are added and clamped as a byte", ("mxfp4", "mxfp4")),
    "factor-first-side": (factor_first_side, "k of 64 and more: the tensor scale of b is left out", ("nvfp4", "nvfp4")),
    "factor-kept": (factor_kept, "the tensor scales of the first call with these codes are kept", ("nvfp4", "nvfp4")),
    "after-half": (after_half, "after a product in float16 the next one passes float16", ("mxfp8_e4m3", "mxfp4")),
    "negative-alpha": (negative_zero_alpha, "a negative alpha negates C, too", ("mxfp8_e4m3", "mxfp4")),
}
for _name, (_change, _story, (_a, _b)) in PRODUCTS.items():
    enter(f"product-{_name}", "products", _story, product(_change, _a, _b))
