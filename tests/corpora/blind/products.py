"""Blind kernels of `matmul`, with operands of every kind."""
# ruff: noqa: F403, F405

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np

import mxspec
from mxspec import affine, sparsity

from . import *

PARTS = ("codes", "scales", "values", "biases", "zeros", "offsets", "metadata", "tensor_scale", "format", "shape")
DTYPES = {"float32": np.float32, "bfloat16": BF16, "float16": np.float16}


def numbers(side, scales=True):
    """The numbers of a side in float64 [rows, k], without its tensor scale."""
    if isinstance(side, np.ndarray):
        return side.astype(np.float32).astype(np.float64)
    kind, _, _ = side.format.partition("-2to4")
    kept = side.values if side.values is not None else side.codes
    if kept.shape[1] * 2 == side.shape[1] and side.metadata is not None:
        kept = sparsity.decompress(kept, side.metadata)
    if side.values is not None:
        return kept.astype(np.float64)
    if kind.startswith("int"):
        k = affine.get_affine(kind).group
        s, o = (part.astype(np.float64).repeat(k, 1) for part in (side.scales, side.offsets))
        value = (kept - o) * s if side.zeros is not None else kept * s + o
        return value if side.metadata is None else np.where(sparsity.decompress(np.ones_like(side.codes), side.metadata) > 0, value, 0)
    fmt = mxspec.get_block(kind)
    value = mxspec.decode(kept, fmt.element).astype(np.float64)
    return value * mxspec.decode(side.scales, fmt.scale).astype(np.float64).repeat(fmt.k, 1) if scales else value


def finish(sums, a, b, out_dtype, alpha=1.0, beta=0.0, c=None, bias=None):
    """Tensor scales, the epilogue and one rounding."""
    with np.errstate(all="ignore"):
        for side in (a, b):
            sums = sums * np.float64(1 if getattr(side, "tensor_scale", None) is None else side.tensor_scale)
        sums = np.float64(alpha) * sums
        sums = sums if c is None else sums + np.float64(beta) * c.astype(np.float64)
        return (sums if bias is None else sums + bias.astype(np.float64)).astype(DTYPES[out_dtype])


def product(a, b, out_dtype, x=None, y=None, add=lambda x, y: x @ y.T, **epilogue):
    """The product, of other numbers and sums where they are given."""
    with np.errstate(all="ignore"):
        return finish(add(numbers(a) if x is None else x, numbers(b) if y is None else y), a, b, out_dtype, **epilogue)


def matmul(a, b, out_dtype):
    return product(a, b, out_dtype)


def with_epilogue(a, b, out_dtype, alpha=1.0, beta=0.0, c=None, bias=None):
    return product(a, b, out_dtype, alpha=alpha, beta=beta, c=c, bias=bias)


def side(fmt, rows, k, seed=1, tensor_scale=None):
    """Operands whose sums are whole numbers of small steps: every order of additions gives the same bits."""
    given = dict.fromkeys(PARTS) | {"format": fmt, "shape": (rows, k)}
    kind, _, _ = fmt.partition("-2to4")
    if kind.startswith("int"):
        f = affine.get_affine(kind)
        offsets = (
            whole(16, rows, k // f.group, seed=seed) if f.offset == "zero" else whole(5, rows, k // f.group, seed=seed).astype(f.dtype)
        )
        given |= {
            "codes": whole(16, rows, k, seed=seed),
            "scales": np.exp2(whole(4, rows, k // f.group, seed=seed)).astype(f.dtype),
            "offsets": offsets,
            {"bias": "biases", "zero": "zeros"}[f.offset]: offsets,
        }
    else:
        f = mxspec.get_block(kind)
        low = (127, 48)[f.scale.name == "ue4m3"]
        given |= {
            "codes": mxspec.encode(np.random.default_rng(seed).integers(-3, 4, (rows, k)).astype(np.float32), f.element),
            "tensor_scale": tensor_scale,
            "scales": whole(low + 4, rows, k // f.k, seed=seed + 9, low=low),
        }
    if fmt.endswith("2to4"):
        codes = sparsity.prune(given["codes"])
        given["codes"], given["metadata"] = sparsity.compress(codes)
    return SimpleNamespace(**given)


def plain(dtype, rows, k, seed=1):
    return np.random.default_rng(seed).integers(-4, 5, (rows, k)).astype(dtype)


def offering(a, b, function=matmul, out=("float32",), **declared):
    def make(text, rows, k, seed):
        return plain(DTYPES[text], rows, k, seed) if text in DTYPES else side(text, rows, k, seed)

    calls = [ask(make(a, m, k, 1), make(b, n, k, 2), out[0]) for m, n, k in ((3, 5, 256), (17, 33, 128))]
    return Offer(f"matmul {a} @ {b}", {"matmul": function}, {"OPERANDS": [{"a": a, "b": b}], "OUT_DTYPES": list(out), **declared}, calls)


M4, M8, MI, MN = (offering(f, f) for f in ("mxfp4", "mxfp8_e4m3", "mxint8", "nvfp4"))
ME = offering("mxfp4", "mxfp4", with_epilogue, ("float32", "bfloat16"))
MA, MZ, MS, MH = (
    offering("float16", "int4-g64-bias-float16"),
    offering("float16", "int4-g128-zero-float16"),
    offering("bfloat16", "mxfp4-2to4"),
    offering("float16", "float16"),
)
MB = offering("bfloat16", "bfloat16", out=("bfloat16",))
F = "float32"


def two(fmt, m, n, k, **options):
    return ask(side(fmt, m, k, **options), side(fmt, n, k, 2, **options), F)


def changed(x=None, y=None, when=lambda m, n, k: True, add=None):
    """A kernel that multiplies `x(a, numbers)` by `y(b, numbers)`, in shapes for which `when` holds."""

    def kernel(s, right, a, b, out_dtype, **epilogue):
        if not when(*(na := numbers(a)).shape[:1], *(nb := numbers(b)).shape):
            return right(a, b, out_dtype, **epilogue)
        with np.errstate(all="ignore"):
            return product(a, b, out_dtype, x(a, na) if x else na, y(b, nb) if y else nb, **({"add": add} if add else {}), **epilogue)

    return kernel


def scaled(change):
    """Numbers under scales that are changed as an array."""
    return lambda part, known: numbers(remade(part, scales=change(part.scales)))


def remade(part, **others):
    """The same operand with other parts."""
    return SimpleNamespace(**{n: getattr(part, n) for n in PARTS} | others)


def zeros_from(n):
    return lambda part, known: np.where(np.arange(known.shape[1]) < known.shape[1] // n * n, known, 0)


def split_half(x, y):
    half = x.shape[1] // 2
    return sum((x[:, part] @ y[:, part].T).astype(BF16).astype(np.float64) for part in (slice(half), slice(half, None)))


def half_sums(x, y):
    total = np.zeros((len(x), len(y)), np.float16)
    for k in range(x.shape[1]):
        total = (total + (x[:, k : k + 1] * y[:, k]).astype(np.float16)).astype(np.float16)
    return total.astype(np.float64)


def skipping(x, y):
    return np.where((x != 0).any(axis=1)[:, None], x @ y.T, 0)


def _saturates(s, right, a, b, out_dtype):
    if a.shape[0] * b.shape[0] * a.shape[1] > 1 << 22:
        return right(a, b, out_dtype)
    x, y = (part.codes.view(np.int8).astype(np.int32) for part in (a, b))
    pairs = (
        np.clip(x[:, None, ::2] * y[:, ::2] + x[:, None, 1::2] * y[:, 1::2], -32768, 32767).reshape(len(x), len(y), -1, 16).sum(axis=3)
        / 4096
    )
    sa, sb = (mxspec.decode(part.scales, "e8m0").astype(np.float64) for part in (a, b))
    return finish((pairs * sa[:, None] * sb).sum(axis=2), a, b, out_dtype)


def _workspace(s, right, a, b, out_dtype):
    out = right(a, b, out_dtype).astype(np.float64)
    if a.shape[1] >= 1024 and np.isfinite(out).all():
        out += s.memo.get("left", 0) if np.shape(s.memo.get("left", 0)) == out.shape else 0
        s.memo["left"] = np.where(np.arange(out.size).reshape(out.shape) < 64, 0, out)
    return out.astype(DTYPES[out_dtype])


def _mirrored(s, right, a, b, out_dtype):
    out = copied(right(a, b, out_dtype))
    if a.codes.shape == b.codes.shape and np.array_equal(a.codes, b.codes):
        out[np.tril_indices(len(out), -1)] = out.T[np.tril_indices(len(out), -1)]
    return out


def _added_scales(s, right, a, b, out_dtype):
    """Both scales of a block are added as bytes, which are clamped; FF stays NaN."""
    if a.shape[0] * b.shape[0] * a.shape[1] > 1 << 22:
        return right(a, b, out_dtype)
    x, y = (numbers(part, scales=False).reshape(part.shape[0], -1, 32) for part in (a, b))
    both = np.exp2(np.clip(a.scales[:, None].astype(int) + b.scales - 127, 0, 254) - 127.0)
    both = np.where((a.scales[:, None] == 255) | (b.scales == 255), np.nan, both)
    return finish((np.einsum("mgk,ngk->mng", x, y) * both).sum(axis=2), a, b, out_dtype)


def _staged(s, right, a, b, out_dtype):
    room = s.memo.setdefault(tuple(a.shape), np.zeros(a.shape))
    room[...] = numbers(a)
    threading.Event().wait(2e-4)
    return product(a, b, out_dtype, room)


def epilogue(change):
    """A kernel whose keywords are those of `change(a, b, keywords)`, which may answer in its place."""

    def kernel(s, right, a, b, out_dtype, alpha=1.0, beta=0.0, c=None, bias=None):
        answer = change(a, b, out_dtype, known := {"alpha": alpha, "beta": beta, "c": c, "bias": bias})
        return right(a, b, out_dtype, **known) if answer is None else answer

    return kernel


def _bias_unscaled(a, b, out_dtype, e):
    e["bias"] = e["bias"] if e["bias"] is None else (e["bias"].astype(np.float64) * e["alpha"])


def _bias_of_rows(a, b, out_dtype, e):
    if e["bias"] is not None and a.shape[0] == b.shape[0]:
        return (
            with_epilogue(a, b, F, e["alpha"], e["beta"], e["c"] if e["c"] is not None else np.zeros((1, 1)), None)
            .astype(np.float64)
            .__add__(e["bias"].astype(np.float64)[:, None])
            .astype(DTYPES[out_dtype])
        )
    return None


def _bias_late(a, b, out_dtype, e):
    if out_dtype == "bfloat16" and e["bias"] is not None:
        return (with_epilogue(a, b, out_dtype, e["alpha"], e["beta"], e["c"]).astype(np.float32) + e["bias"].astype(np.float32)).astype(
            BF16
        )
    return None


def _bias_turns(a, b, out_dtype, e):
    e["bias"] = e["bias"] if e["bias"] is None else e["bias"][np.arange(len(e["bias"])) % 96]


def _writes_c(a, b, out_dtype, e):
    if e["c"] is not None and e["c"].flags.writeable and e["beta"] not in (0, 1):
        e["c"] *= np.float32(e["beta"])
        e["beta"] = 1.0


def _c_dense(a, b, out_dtype, e):
    e["c"] = e["c"] if e["c"] is None else dense(e["c"])


def _alpha_zero(a, b, out_dtype, e):
    return np.zeros((a.shape[0], b.shape[0]), DTYPES[out_dtype]) if e["alpha"] == 0 else None


E_ = {"alpha": 2.0, "beta": 3.0, "c": plain(np.float32, 7, 7), "bias": np.arange(7, dtype=np.float32)}
A7, B7 = side("mxfp4", 7, 64), side("mxfp4", 7, 64, 2)
HUGE = put(side("mxfp8_e4m3", 3, 64).codes, (..., 1))
SIZE.around(
    "m-k-tail",
    M8,
    "k goes by 128, and a rest behind the first 128 is dropped",
    two("mxfp8_e4m3", 4, 5, 160),
    changed(zeros_from(128), when=lambda m, n, k: k > 128),
)
SIZE.around(
    "m-scale-row-byte",
    M4,
    "the row of b's scales is counted in 8 bits",
    two("mxfp4", 3, 260, 64),
    changed(y=scaled(lambda s: s[np.arange(len(s)) % 256])),
)
SIZE.around(
    "m-decode-rows",
    M8,
    "of 5 to 7 rows those beyond the fourth have the scales of the rows four above",
    two("mxfp8_e4m3", 6, 9, 64),
    changed(scaled(lambda s: s[np.arange(len(s)) % 4]), when=lambda m, n, k: 5 <= m <= 7),
)
SIZE.after(
    "m-n-tail",
    M4,
    "columns behind the last whole tile of 48 are written for 16 rows and more",
    two("mxfp4", 3, 50, 64),
    lambda out, a, b, o: len(out) < 16 and out.shape[1] > 48 and write(out, ((..., slice(out.shape[1] // 48 * 48, None)), 0)),
)
ARITHMETIC.around(
    "m-split-k-bfloat",
    M8,
    "k of 2048 and more is halved, and both sums are kept in bfloat16",
    two("mxfp8_e4m3", 3, 4, 2048),
    changed(when=lambda m, n, k: k >= 2048, add=split_half),
)
HISTORY.around(
    "m-split-k-left",
    M4,
    "from k = 1024 on partial sums go to a workspace of which 64 outputs are cleared",
    then(two("mxfp4", 10, 10, 1024), two("mxfp4", 10, 10, 1024)),
    _workspace,
)
ARITHMETIC.around(
    "m-scales-added",
    M8,
    "scale bytes are added and clamped to a byte",
    ask(side("mxfp8_e4m3", 3, 64), remade(side("mxfp8_e4m3", 3, 64), scales=np.full((3, 2), 254, np.uint8), codes=HUGE), F),
    _added_scales,
)
ARITHMETIC.around(
    "m-zero-scale",
    M4,
    "the scale byte 00 of b is zero",
    ask(remade(A7, scales=A7.scales + np.uint8(100)), remade(B7, scales=B7.scales * 0), F),
    changed(y=lambda part, known: np.where((part.scales == 0).repeat(32, 1), 0, known)),
)
CONTENT.around(
    "m-zero-rows",
    MH,
    "a row of zeros is not multiplied: NaN and infinity of the other side are lost",
    ask(np.zeros((2, 64), np.float16), put(plain(np.float16, 3, 64), ((1, 1), np.nan)), F),
    changed(add=skipping),
)
OPTION.around(
    "m-one-row-scale",
    MN,
    "for one row a's tensor scale is left out",
    two("nvfp4", 1, 5, 64, tensor_scale=2.0),
    lambda s, right, a, b, o: right(remade(a, tensor_scale=None) if a.shape[0] == 1 else a, b, o),
)
SIZE.around(
    "m-odd-block",
    MN,
    "the last block of an odd number, three and more, has the scale before it",
    two("nvfp4", 3, 4, 80),
    changed(scaled(lambda s: put(s.copy(), ((..., -1), s[:, -2])) if s.shape[1] % 2 and s.shape[1] > 2 else s)),
)
ARITHMETIC.around("e-bias-times-alpha", ME, "the bias is multiplied by alpha", ask(A7, B7, F, **E_), epilogue(_bias_unscaled))
SIZE.around("e-bias-of-rows", ME, "with as many rows as columns the bias goes along rows", ask(A7, B7, F, **E_), epilogue(_bias_of_rows))
ARITHMETIC.around(
    "e-bias-late",
    ME,
    "a bfloat16 output is rounded before the bias is added",
    ask(side("mxfp4", 7, 512), side("mxfp4", 7, 512, 2), "bfloat16", bias=np.full(7, 0.75, np.float32)),
    epilogue(_bias_late),
)
SIZE.around(
    "e-bias-turns",
    ME,
    "column 96 has the bias of column 0",
    ask(A7, side("mxfp4", 100, 64), F, bias=np.arange(100, dtype=np.float32)),
    epilogue(_bias_turns),
)
MEMORY.around("e-writes-c", ME, "C is multiplied by beta in place", inputs_after(A7, B7, F, **E_), epilogue(_writes_c))
MEMORY.around(
    "e-c-dense", ME, "the distance of C's rows is not looked at", as_is(A7, B7, F, beta=1.0, c=pitched(E_["c"])), epilogue(_c_dense)
)
MEMORY.around(
    "e-c-square",
    ME,
    "a square C in Fortran's order is read in C's",
    as_is(A7, B7, F, beta=1.0, c=np.asfortranarray(E_["c"])),
    epilogue(lambda a, b, o, e: e.update(c=None if e["c"] is None else untransposed(e["c"]))),
)
OPTION.around("e-alpha-zero", ME, "alpha = 0 gives zeros, C and bias or not", ask(A7, B7, F, **{**E_, "alpha": 0.0}), epilogue(_alpha_zero))
HISTORY.row(
    "m-kept-by-address",
    M8,
    "answers are kept by the addresses of both sides",
    overwritten(
        (A8 := side("mxfp8_e4m3", 5, 64), side("mxfp8_e4m3", 6, 64), F), (side("mxfp8_e4m3", 5, 64, 5), side("mxfp8_e4m3", 6, 64, 6))
    ),
    memo(pointer),
)
HISTORY.row(
    "m-weights-by-head",
    M4,
    "answers are kept by the first 64 bytes of each part",
    then(
        two("mxfp4", 5, 6, 64),
        ask(side("mxfp4", 5, 64), remade(side("mxfp4", 6, 64, 2), codes=put(side("mxfp4", 6, 64, 2).codes, (5, 2))), F),
    ),
    memo(head(64)),
)
ARITHMETIC.around(
    "m-pairs-saturate",
    MI,
    "sums of two int8 products saturate at 16 bits",
    ask(*[remade(side("mxint8", 3, 64), codes=np.full((3, 64), 128, np.uint8))] * 2, F),
    _saturates,
)
CONTENT.around(
    "m-equal-codes",
    MI,
    "equal codes on both sides: half of the outputs is mirrored, whatever the scales",
    ask(side("mxint8", 5, 64), remade(side("mxint8", 5, 64), scales=side("mxint8", 5, 64, 8).scales), F),
    _mirrored,
)
CONCURRENCY.around(
    "m-scratch",
    M4,
    "numbers of a are staged in one buffer for each shape",
    at_once(two("mxfp4", 5, 6, 64), ask(side("mxfp4", 5, 64, 3), side("mxfp4", 6, 64, 4), F)),
    _staged,
)
SIZE.around(
    "w-zero-of-last",
    MZ,
    "the last of three groups and more has the zero point before it",
    ask(plain(np.float16, 3, 384), side("int4-g128-zero-float16", 4, 384), F),
    changed(
        y=lambda b, known: (
            known
            + np.where(
                (np.arange(known.shape[1]) >= known.shape[1] - 128) & (b.scales.shape[1] > 2),
                ((b.offsets[:, -1].astype(float) - b.offsets[:, b.scales.shape[1] - 2 :][:, 0]) * b.scales[:, -1])[:, None],
                0,
            )
        )
    ),
)
SIZE.around(
    "w-few-rows-groups",
    MA,
    "up to 8 rows: a kernel for groups of 128, with the scale of the first of two",
    ask(plain(np.float16, 3, 128), side("int4-g64-bias-float16", 4, 128), F),
    changed(y=scaled(lambda s: s[:, np.arange(s.shape[1]) & ~1]), when=lambda m, n, k: m <= 8 and k >= 128),
)
HISTORY.row(
    "w-kept-by-codes",
    MZ,
    "weights are kept by the bytes of their codes and scales",
    then(
        ask(plain(np.float16, 3, 256), side("int4-g128-zero-float16", 4, 256), F),
        ask(
            plain(np.float16, 3, 256),
            remade(side("int4-g128-zero-float16", 4, 256), offsets=np.zeros((4, 2), np.uint8), zeros=np.zeros((4, 2), np.uint8)),
            F,
        ),
    ),
    memo(lambda *arrays: tuple(x.tobytes() for x in arrays[:3])),
)
SIZE.around(
    "s-kept-places",
    MS,
    "more than 32 columns: scales are taken by the kept places, half as far along",
    ask(plain(BF16, 3, 128), side("mxfp4-2to4", 40, 128), F),
    changed(y=scaled(lambda s: s[:, np.arange(s.shape[1]) // 2]), when=lambda m, n, k: n > 32),
)
CONTENT.around(
    "s-metadata-13",
    MS,
    "the nibble 13 is read as 9",
    ask(plain(BF16, 3, 128), side("mxfp4-2to4", 5, 128), F),
    lambda s, right, a, b, o: right(a, remade(b, metadata=np.where(b.metadata == 13, 9, b.metadata).astype(np.uint8)), o),
)
ARITHMETIC.around(
    "h-short-sums",
    MH,
    "up to k = 64 sums are float16",
    ask(plain(np.float16, 3, 64) * np.float16(63), plain(np.float16, 4, 64) * np.float16(61), F),
    changed(when=lambda m, n, k: k <= 64, add=half_sums),
)
CONTENT.around(
    "h-subnormal",
    MH,
    "subnormal float16 numbers are zero in tiles of 16 rows and more",
    ask(plain(np.float16, 16, 64), plain(np.float16, 4, 64) * np.float16(2.0**-20), F),
    changed(y=lambda b, known: np.where(np.abs(known) < 2.0**-14, 0, known), when=lambda m, n, k: m >= 16),
)
MEMORY.around(
    "h-square",
    MB,
    "a square b in Fortran's order is read in C's",
    as_is(plain(BF16, 3, 64), np.asfortranarray(plain(BF16, 64, 64)), "bfloat16"),
    lambda s, right, a, b, o: right(a, untransposed(b), o),
)
SIZE.after(
    "h-large-tile",
    MB,
    "beyond column 512 the last of an odd number of columns is not written",
    ask(plain(BF16, 3, 64), plain(BF16, 515, 64), "bfloat16"),
    lambda out, a, b, o: out.shape[1] > 512 and out.shape[1] % 2 and write(out, ((..., -1), 0)),
)
OPTION.around(
    "e-bias-one-row",
    ME,
    "for one row the bias is left out",
    ask(side("mxfp4", 1, 64), B7, F, bias=E_["bias"]),
    forgets("bias", lambda a, b, o: a.shape[0] == 1),
)
OPTION.around(
    "e-c-one-column",
    ME,
    "for one column C is left out",
    ask(A7, side("mxfp4", 1, 64), F, beta=1.0, c=E_["c"][:, :1]),
    forgets("c", lambda a, b, o: b.shape[0] == 1),
)
OPTION.around(
    "e-alpha-tiles",
    ME,
    "with more than 64 rows and columns alpha is left out",
    ask(side("mxfp4", 70, 64), side("mxfp4", 80, 64), F, alpha=2.0),
    forgets("alpha", lambda a, b, o: min(a.shape[0], b.shape[0]) > 64),
)
MEMORY.around(
    "m-square-codes",
    M8,
    "square codes of b in Fortran's order are read in C's",
    as_is(side("mxfp8_e4m3", 3, 64), remade(side("mxfp8_e4m3", 64, 64), codes=np.asfortranarray(side("mxfp8_e4m3", 64, 64).codes)), F),
    lambda s, right, a, b, o: right(a, remade(b, codes=untransposed(b.codes)), o),
)


# Right kernels.
def float32_sums(x, y, order=slice(None), parts=1):
    """Sums in float32, by parts of k, in an order."""
    x, y = x.astype(np.float32)[:, order], y.astype(np.float32)[:, order]
    return sum(a @ b.T for a, b in zip(np.array_split(x, parts, axis=1), np.array_split(y, parts, axis=1), strict=True))


def bfloat16_sums(x, y):
    total = np.zeros((len(x), len(y)), np.float32)
    for k in range(x.shape[1]):
        total = (total + x[:, k : k + 1] * y[:, k]).astype(BF16).astype(np.float32)
    return total


def _saturated(s, right, a, b, out_dtype):
    out, most = right(a, b, out_dtype), np.float32(np.finfo(np.float32).max)
    sources = [part.scales.max(initial=0) < 255 and not np.isin(part.codes & 127, (127,)).any() for part in (a, b)]
    return np.where(np.isinf(out) & all(sources), np.copysign(most, out), out)


def _factored(s, right, a, b, out_dtype):
    x, s_ = a.astype(np.float64).reshape(len(a), -1, 64), b.scales.astype(np.float64)
    with np.errstate(all="ignore"):
        sums = np.einsum("mgk,ngk,ng->mn", x, b.codes.astype(np.float64).reshape(len(b.codes), -1, 64), s_) + np.einsum(
            "mgk,ng->mn", x, b.offsets.astype(np.float64)
        )
    return sums.astype(np.float32)


M4.odd("ok-float32-sums", "sums in float32", changed(add=float32_sums))
M8.odd("ok-backward-sums", "sums in float32, the last product first", changed(add=lambda x, y: float32_sums(x, y, slice(None, None, -1))))
MN.odd("ok-three-parts", "k in three parts", changed(add=lambda x, y: float32_sums(x, y, parts=3)))
offering("bfloat16", "bfloat16", ACCUMULATOR="bfloat16").odd(
    "ok-claims-bfloat", "bfloat16 sums, which are claimed", changed(add=bfloat16_sums), ask(plain(BF16, 3, 64), plain(BF16, 4, 64, 2), F)
)
offering("bfloat16", "nvfp4", CONTRACT="bfloat16").odd(
    "ok-claims-operands",
    "numbers of b are bfloat16, which is claimed",
    lambda s, right, a, b, o: finish(
        numbers(a)
        @ (numbers(b) * (1 if b.tensor_scale is None else float(b.tensor_scale))).astype(np.float32).astype(BF16).astype(np.float64).T,
        a,
        None,
        o,
    ),
)
M4.odd("ok-negative-zeros", "zeros are negative", lambda s, right, a, b, o: np.where((r := right(a, b, o)) == 0, np.float32(-0.0), r))
M8.odd("ok-saturates", "what is beyond the largest number becomes it", _saturated)
MI.odd("ok-fortran-outputs", "outputs lie in Fortran's order", lambda s, right, a, b, o: np.asfortranarray(right(a, b, o)))
MB.odd("ok-up-to-256-rows", "refuses more than 256 rows", lambda s, right, a, b, o: right(a, b, o) if len(a) <= 256 else refuse())
MA.odd("ok-factored", "s * sum(a q) + b * sum(a)", _factored)
M8.odd(
    "ok-flushes-outputs",
    "subnormal outputs are zero",
    lambda s, right, a, b, o: np.where(np.abs(r := right(a, b, o)) < np.finfo(np.float32).tiny, np.float32(0), r),
)
ODD.row("ok-products-kept", MZ, "answers are kept by all that they depend on", None, memo(whole_bytes))
