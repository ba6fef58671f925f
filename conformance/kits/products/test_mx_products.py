# Golden calls for products of MX and NVFP4 operands. Written by mxspec 0.1.0; the data is CC0-1.0.
# 288 golden calls of mxfp4@mxfp4, mxfp6_e2m3@mxfp6_e2m3, mxfp6_e3m2@mxfp6_e3m2, mxfp8_e4m3@mxfp8_e4m3, mxfp8_e5m2@mxfp8_e5m2, mxint8@mxint8,
# nvfp4@nvfp4, mxfp8_e4m3@mxfp4, and 6 patterns of calls that it computes. What they find of mistakes that were not looked at when calls were
# chosen is published with mxspec.
# Edit the lines below, or set the environment variable MX_KIT_MATMUL, and run: pytest test_mx_products.py
"""Golden calls of MX and NVFP4 products."""

from __future__ import annotations

# ruff: noqa
# mypy: ignore-errors
import os

#: The function under test: "package.module:function". It is called with (a_codes, a_scales, b_codes, b_scales, out_dtype="float32") and returns
#: the product [m, n] of a [m, k] and the transpose of b [n, k]. Codes are uint8, one to a byte; scales uint8 [rows, k / block], row-major. NVFP4
#: sides come with a_tensor_scale, b_tensor_scale: floats that multiply.
MATMUL = os.environ.get("MX_KIT_MATMUL", "")
#: The pairs that it supports; () for all: mxfp4@mxfp4, mxfp6_e2m3@mxfp6_e2m3, mxfp6_e3m2@mxfp6_e3m2, mxfp8_e4m3@mxfp8_e4m3, mxfp8_e5m2@mxfp8_e5m2, mxint8@mxint8, nvfp4@nvfp4, mxfp8_e4m3@mxfp4.
PAIRS = tuple(filter(None, os.environ.get("MX_KIT_PAIRS", "").split(",")))
#: How it adds: float32-nearest, float32, fused-f25-16, fused-f25-32, fused-f24-8, fused-f23-4, fused-f13-32-promoted-128, fused-f13-32, fused-f13-16, float16, bfloat16.
CLASS = os.environ.get("MX_KIT_CLASS", "float32")
#: The dtype to which it rounds code times scale before it multiplies, as W4A16 kernels do: "", "float16" or "bfloat16".
NUMBERS = os.environ.get("MX_KIT_NUMBERS", "")
#: The dtypes of outputs that it has.
OUTPUTS = tuple(os.environ.get("MX_KIT_OUTPUTS", "float32").split(","))
#: "alpha" if it takes alpha, beta, c [m, n] and bias [n]: alpha a b^T + beta c + bias.
KEYWORDS = tuple(filter(None, os.environ.get("MX_KIT_KEYWORDS", "").split(",")))
#: Pass torch tensors.
TORCH = bool(os.environ.get("MX_KIT_TORCH", ""))

import base64
import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

Array = Any


class Format:
    """A block format: k, and its element: exponent bits, mantissa bits, bias, largest magnitude code, first NaN code (0: none), Inf code."""

    def __init__(self, k: int, e: int, m: int, bias: int, top: int, nan: int, inf: int) -> None:
        self.k, self.e, self.m, self.bias, self.top, self.nan, self.inf = k, e, m, bias, top, nan, inf
        self.bits = 1 + e + m
        self.sign = 1 << (e + m)

    def value(self, codes: Array) -> Array:
        """Values of codes, in float64."""
        c = np.asarray(codes).astype(np.int64)
        if not self.e:
            return np.where(c & 128, c - 256, c) / 64.0
        low = c & (self.sign - 1)
        field, part = low >> self.m, low & ((1 << self.m) - 1)
        v = np.ldexp(np.where(field == 0, part, part + (1 << self.m)).astype(float), np.maximum(field, 1) - self.bias - self.m)
        if self.nan:
            v = np.where(low >= self.nan, np.nan, v)
        if self.inf:
            v = np.where(low == self.inf, np.inf, v)
        return np.where(c & self.sign, -v, v)


FORMATS = {
    "mxfp4": Format(32, 2, 1, 1, 7, 0, 0),
    "mxfp6_e2m3": Format(32, 2, 3, 1, 31, 0, 0),
    "mxfp6_e3m2": Format(32, 3, 2, 3, 31, 0, 0),
    "mxfp8_e4m3": Format(32, 4, 3, 7, 126, 127, 0),
    "mxfp8_e5m2": Format(32, 5, 2, 15, 123, 125, 124),
    "mxint8": Format(32, 0, 7, 0, 127, 0, 0),
    "nvfp4": Format(16, 2, 1, 1, 7, 0, 0),
}

#: (a_codes, a_scales, b_codes, b_scales, **options) -> outputs [m, n].
Matmul = Callable[..., Any]

#: Classes of accumulations by the letter that stands for them in the data.
CLASSES = {
    "a": "float32-nearest", "b": "float32", "c": "fused-f25-16", "d": "fused-f25-32", "e": "fused-f24-8", "f": "fused-f23-4",
    "g": "fused-f13-32-promoted-128", "h": "fused-f13-32", "i": "fused-f13-16", "j": "float16", "k": "bfloat16",
}
#: Those whose sums have 16 bits.
SHORT = "jk"
PARTS = ("a", "a_scales", "b", "b_scales")
_E4M3 = Format(16, 4, 3, 7, 0x7E, 0x7F, 0)


def unpack_calls(text: str) -> dict[str, Any]:
    """Pair of formats -> its tables and calls, from the text that a kit holds."""
    data: dict[str, Any] = json.loads(lzma.decompress(base64.b85decode("".join(text.split()))))
    return data




def mix(seed: int, count: int) -> Array:
    """Numbers without a pattern, the same for the same seed."""
    h = np.arange(count, dtype=np.uint32) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return h ^ h >> np.uint32(16)


def choose(choice: Sequence[Any], table: Array, rows: int, columns: int) -> Array:
    """A matrix of a table's entries: see the vectors' recipe `sides`."""
    kind, _, *numbers = choice
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if kind == "draw":
        return table[(mix(numbers[0], rows * columns) % np.uint32(len(table))).reshape(rows, columns)]
    if kind == "turn":
        return table[(numbers[0] * row + numbers[1] * column) % len(table)]
    if kind == "hot":
        return table[(column == (numbers[0] * row + numbers[1]) % columns).astype(int)]
    return table[(column < numbers[0] * row + numbers[1]).astype(int)]


class Operand:
    """One side: codes [rows, k] one to a byte, scales [rows, k / block], the tensor scale that decodes or None."""

    def __init__(self, fmt: str, codes: Array, scales: Array, tensor: float | None = None) -> None:
        self.fmt, self.codes, self.scales, self.tensor = fmt, codes.astype(np.uint8), scales.astype(np.uint8), tensor

    def values(self) -> Array:
        """The numbers, in float64."""
        with np.errstate(all="ignore"):
            x = FORMATS[self.fmt].value(self.codes) * np.repeat(scale_values(self.fmt)[self.scales], FORMATS[self.fmt].k, axis=1)
            return x * (1.0 if self.tensor is None else self.tensor)


def scale_values(fmt: str) -> Array:
    """What each scale byte is worth."""
    if fmt == "nvfp4":
        return _E4M3.value(np.arange(256))
    return np.append(np.ldexp(1.0, np.arange(-127, 128)), np.nan)


def operands_of(pair: str, tables: Mapping[str, Mapping[str, str]], call: Mapping[str, Any]) -> tuple[Operand, Operand]:
    """Both sides of a stored call."""
    m, n, k = call["s"]
    made = []
    for number, fmt in enumerate(pair.split("@")):
        found = []
        for part, choice in zip(PARTS[2 * number :], call["r"][2 * number : 2 * number + 2]):
            digits = 1 if part in "ab" and FORMATS[fmt].bits == 4 else 2
            text = tables[part][choice[1]]
            table = np.array([int(text[i : i + digits], 16) for i in range(0, len(text), digits)], np.uint8)
            x = choose(choice, table, (m, n)[number], k if part in "ab" else k // FORMATS[fmt].k).copy()
            for where, row, column, entry in call["r"][4:]:
                if where == part:
                    x[row, column] = int(entry, 16)
            found.append(x)
        bits = call.get("t", (None, None))[number]
        tensor = None if bits is None else float(np.uint32(int(bits, 16)).view(np.float32))
        made.append(Operand(fmt, found[0], found[1], (1.0 if fmt == "nvfp4" else None) if tensor is None else tensor))
    return made[0], made[1]


def round_to(y: Array, out: str) -> Array:
    """Numbers rounded to an output's dtype, in float64."""
    with np.errstate(all="ignore"):
        if out != "bfloat16":
            return y.astype(out).astype(np.float64)
        bits = y.astype(np.float32).view(np.uint32).astype(np.int64)
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return np.where(np.isnan(y), np.nan, bits.astype(np.uint32).view(np.float32).astype(np.float64))


def exact_product(a: Operand, b: Operand, out: str) -> Array:
    """The product, rounded once; the operands are such that float64 sums it exactly."""
    with np.errstate(all="ignore"):
        return round_to(a.values() @ b.values().T, out)


def answer_of(pair: str, tables: Mapping[str, Any], call: Mapping[str, Any], letter: str) -> tuple[Array, Array] | None:
    """(smallest, largest) legal outputs of a class; None: the call says nothing of it."""
    for letters, answer in call["e"].items():
        if letter in letters:
            if answer == 1:
                y = exact_product(*operands_of(pair, tables, call), call["o"])
                return y, y
            ends = [_read(text, call["o"]).reshape(call["s"][:2]) for text in answer]
            return ends[0], ends[-1]
    return None


def _read(text: str, out: str) -> Array:
    if out == "float32":
        return np.frombuffer(bytes.fromhex(text.replace("nan.....", "7fc00000")), ">u4").astype(np.uint32).view(np.float32).astype(np.float64)
    words = np.frombuffer(bytes.fromhex(text.replace("nan.", "7e00" if out == "float16" else "7fc0")), ">u2")
    if out == "float16":
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def wrong_outputs(y: Array, low: Array, high: Array) -> Array:
    """Which outputs are not legal. Zeros of both signs are one number; between two infinities all is legal."""
    inside = ((low <= y) & (y <= high)) | ((low == -np.inf) & (high == np.inf))
    return ~np.where(np.isnan(low), np.isnan(y), inside)


def as_numbers(y: Any) -> Array:
    """Outputs of NumPy or torch, in float64."""
    if type(y).__module__.startswith("torch"):
        y = y.detach().cpu().double().numpy()
    return np.asarray(y).astype(np.float64)


def ask(matmul: Matmul, a: Operand, b: Operand, out: str = "float32", **options: Any) -> Any:
    """The target's own answer to a call; tensor scales are passed where a side has one."""
    given = {f"{w}_tensor_scale": x.tensor for w, x in (("a", a), ("b", b)) if x.tensor is not None}
    return matmul(a.codes, a.scales, b.codes, b.scales, out_dtype=out, **given, **options)


def is_held(a: Operand, b: Operand, numbers: str) -> bool:
    """Whether rounding the numbers to a dtype first changes none of them."""
    return not numbers or all(np.array_equal(x.values(), round_to(x.values(), numbers), equal_nan=True) for x in (a, b))


def check_call(matmul: Matmul, pair: str, tables: Mapping[str, Any], call: Mapping[str, Any], letter: str, numbers: str = "") -> str | None:
    """ "" if every output is legal, else the first that is not; None where the call says nothing of the class."""
    legal = answer_of(pair, tables, call, letter)
    a, b = operands_of(pair, tables, call)
    if legal is None or not is_held(a, b, numbers):
        return None
    return describe(a, b, as_numbers(ask(matmul, a, b, call["o"])), *legal, f"{call['i']} ({call['p']}, {call['o']})")


def describe(a: Operand, b: Operand, y: Array, low: Array, high: Array, what: str) -> str:
    """The first wrong output: where, expected, returned, and the longest products of its sum."""
    m, n, k = len(a.codes), len(b.codes), a.codes.shape[1]
    if y.shape != low.shape:
        return f"{what}: {m} x {n} x {k} gave outputs {y.shape}; expected {low.shape}"
    wrong = np.argwhere(wrong_outputs(y, low, high))
    if not len(wrong):
        return ""
    i, j = wrong[0]
    legal = repr(float(low[i, j])) if low[i, j] == high[i, j] or np.isnan(low[i, j]) else f"{float(low[i, j])!r} to {float(high[i, j])!r}"
    with np.errstate(all="ignore"):
        terms = a.values()[i] * b.values()[j]
    shown = np.argsort(-np.abs(np.nan_to_num(terms, nan=np.inf)), kind="stable")[:4]
    parts = ", ".join(f"k {t}: codes {a.codes[i, t]:02x} x {b.codes[j, t]:02x} = {float(terms[t])!r}" for t in shown if terms[t])
    return (
        f"{what}: {m} x {n} x {k}, {len(wrong)} of {y.size} outputs are not legal. Row {i}, column {j}: expected {legal}, returned {float(y[i, j])!r}\n"
        f"  largest products: {parts}"
    )


class Designs:
    """Call patterns of one pair of formats; each yields what is wrong."""

    def __init__(self, matmul: Matmul, pair: str, letter: str = "b", numbers: str = "", outs: Sequence[str] = ("float32",)) -> None:
        self.matmul, self.letter, self.numbers, self.outs = matmul, letter, numbers, outs
        self.a, self.b = pair.split("@")
        self.run = max(FORMATS[f].k for f in (self.a, self.b))

    def code(self, fmt: str, value: float) -> int:
        """The first code of a value."""
        return int(np.flatnonzero(FORMATS[fmt].value(np.arange(1 << FORMATS[fmt].bits)) == value)[0])

    def power(self, fmt: str, exponents: Array) -> Array:
        """Scale bytes of powers of two."""
        return np.asarray(exponents) + 127 if fmt != "nvfp4" else (np.asarray(exponents) + 7) * 8

    def side(self, fmt: str, codes: Array, exponents: Array) -> Operand:
        """A side under scales that are powers of two."""
        shape = (len(codes), codes.shape[1] // FORMATS[fmt].k)
        return Operand(fmt, codes, np.broadcast_to(self.power(fmt, exponents), shape), 1.0 if fmt == "nvfp4" else None)

    def sparse(self, m: int, n: int, k: int, seed: int = 1) -> tuple[Operand, Operand]:
        """Rows of a with two numbers: one near the end, one that moves; b has halves up to 1.5; scales differ by row and block."""
        one = np.array([self.code(self.a, v) for v in (1.0, -1.0)])
        few = np.array([self.code(self.b, v) for v in (0.5, 1.0, 1.5, -0.5, -1.0, -1.5)])
        row = np.arange(m)
        a = np.full((m, k), self.code(self.a, 0.0))
        a[row, (5 * row + seed) % k] = one[row % 2]
        a[row, k - 1 - row % k] = one[(row + seed) % 2]
        b = few[(mix(seed, n * k) % np.uint32(6)).reshape(n, k)]
        i, j = np.arange(k // FORMATS[self.a].k)[None, :], np.arange(k // FORMATS[self.b].k)[None, :]
        return self.side(self.a, a, (row[:, None] + i + seed) % 3 - 1), self.side(self.b, b, (np.arange(n)[:, None] + 2 * j) % 3 - 1)

    def compare(self, a: Operand, b: Operand, what: str, out: str = "float32", want: Array = None, **options: Any) -> Iterator[str]:
        """What is wrong with a call whose outputs are certain."""
        if not is_held(a, b, self.numbers):
            return
        want = exact_product(a, b, out) if want is None else want
        found = describe(a, b, as_numbers(ask(self.matmul, a, b, out, **options)), want, want, what)
        if found:
            yield found

    def rows(self) -> Iterator[str]:
        """Sizes of m and n at and beside tiles, up to 1,024."""
        for i, (m, n) in enumerate(SIZES):
            yield from self.compare(*self.sparse(m, n, self.run * (1 + i % 5), i + 1), f"m = {m}, n = {n}")

    def depths(self) -> Iterator[str]:
        """Lengths of k up to 4,128."""
        for blocks in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 33, 48, 64, 65, 128, 129):
            yield from self.compare(*self.sparse(3, 5, 32 * blocks, blocks), f"k = {32 * blocks}")

    def scales(self) -> Iterator[str]:
        """Every scale byte that is a number, a row or column each, on either side; no product is subnormal in float32."""
        for first in (True, False) if self.letter != "j" else ():  # float16 sums have no such range
            fmt, other = (self.a, self.b) if first else (self.b, self.a)
            worth = scale_values(fmt)
            bytes_ = np.flatnonzero(np.isfinite(worth) & (worth > 0))
            two = FORMATS[fmt].e > 0
            bytes_ = bytes_[bytes_ < 0x80] if fmt == "nvfp4" else bytes_ if two else bytes_[1:]
            low = np.array([self.code(fmt, v) for v in ((2.0, -2.0) if two else (1.0, -1.0))])
            high = np.array([self.code(fmt, v) for v in (1.0, -1.0)])
            row = np.arange(len(bytes_))
            x = np.full((len(row), 2 * self.run), self.code(fmt, 0.0))
            x[row, (7 * row) % (2 * self.run)] = np.where(worth[bytes_] < 1, low[row % 2], high[row % 2])
            y = np.array([self.code(other, v) for v in (1.0, 1.5)])[np.arange(2 * self.run) % 2][None, :].repeat(3, axis=0)
            mine = Operand(fmt, x, np.broadcast_to(bytes_[:, None], (len(row), 2 * self.run // FORMATS[fmt].k)), 1.0 if fmt == "nvfp4" else None)
            yield from self.compare(*((mine, self.side(other, y, 0)) if first else (self.side(other, y, 0), mine)), f"scale bytes of {'a' if first else 'b'}")

    def again(self) -> Iterator[str]:
        """The same shape with other data, a larger one between, then the first again; outputs and inputs stay what they were."""
        calls = [self.sparse(m, n, k, s) for m, n, k, s in ((7, 9, 96, 1), (7, 9, 96, 2), (33, 40, 128, 3), (7, 9, 96, 1), (3, 4, 64, 5))]
        kept = []
        for a, b in calls:
            before = a.codes.copy(), b.codes.copy()
            y = ask(self.matmul, a, b)
            kept.append((a, b, y))
            want = exact_product(a, b, "float32")
            yield from filter(None, [describe(a, b, as_numbers(y), want, want, "one call after another")])
            if (a.codes != before[0]).any() or (b.codes != before[1]).any():
                yield "the call wrote into its operands"
        for a, b, y in kept:
            want = exact_product(a, b, "float32")
            yield from filter(None, [describe(a, b, as_numbers(y), want, want, "outputs of an earlier call")])

    def outputs(self) -> Iterator[str]:
        """Ties and subnormal numbers of 16-bit outputs."""
        for out in ("float16", "bfloat16"):
            if out not in self.outs or self.letter in SHORT:
                continue
            # A number of 12 bits (bfloat16: 9) that lies between two outputs: 2^11 + 1, or 2^8 + 1, and three halves of that.
            yield from self.compare(*self.ladder(11 if out == "float16" else 8, 0), f"{out} ties", out)
            if out == "float16":
                yield from self.compare(*self.ladder(11, -16), f"{out} ties", out)
                yield from self.compare(*self.ladder(6, -22), "subnormal float16", out)

    def ladder(self, high: int, shift: int) -> tuple[Operand, Operand]:
        """Sums 2^high + 1 and 3/2 of each, times a power of two, of both signs. NVFP4's tensor scales hold that power."""
        k = 2 * self.run
        a = np.full((4, k), self.code(self.a, 0.0))
        a[:, [0, -1]] = np.array([self.code(self.a, v) for v in (1.0, -1.0)])[[[0, 0], [1, 1], [0, 1], [1, 0]]]
        b = np.tile(np.array([self.code(self.b, v) for v in (1.0, 1.5)])[:, None], (1, k))
        up, down = high // 2, shift // 2
        blocks = [np.arange(k // FORMATS[f].k) * FORMATS[f].k < self.run for f in (self.a, self.b)]
        two_level = [f for f in (self.a, self.b) if f == "nvfp4"]
        ea = np.where(blocks[0], up, 0) + (0 if two_level else down)
        eb = np.where(blocks[1], high - up, 0) + (0 if two_level else shift - down)
        sides = self.side(self.a, a, ea[None, :]), self.side(self.b, b, eb[None, :])
        for side in sides:
            if side.tensor is not None:
                side.tensor = 2.0 ** (shift if len(two_level) == 1 else down if side is sides[0] else shift - down)
        return sides

    def epilogue(self) -> Iterator[str]:
        """alpha, beta, C and bias, alone and together, all exact in float32."""
        for m, n, alpha, beta, has_c, has_bias in (
            (5, 7, 0.5, None, 0, 0), (5, 7, 2.5, None, 0, 0), (6, 131, None, None, 0, 1), (9, 9, None, -0.75, 1, 0), (7, 5, None, 1.03125, 1, 0),
            (7, 5, 0.5, 2.0, 1, 0), (5, 131, 0.5, None, 0, 1), (6, 35, -2.0, 3.0, 1, 1), (131, 3, 0.25, -1.5, 1, 1), (1, 1, 2.0, 0.5, 1, 1),
        ):
            a, b = self.sparse(m, n, 2 * self.run, m + n)
            want = a.values() @ b.values().T * (1.0 if alpha is None else alpha)
            options: dict[str, Any] = {} if alpha is None else {"alpha": alpha}
            if has_c and beta is not None:
                options["c"] = (1025.0 + 64 * np.arange(m * n) % 4096).astype(np.float32).reshape(m, n) * np.where(np.arange(n) % 2, 1, -1).astype(np.float32)
                options["beta"] = beta
                want = want + beta * options["c"].astype(np.float64)
            if has_bias:
                options["bias"] = (4099.0 + 3 * np.arange(n)).astype(np.float32)
                want = want + options["bias"].astype(np.float64)
            assert (want.astype(np.float32) == want).all()
            yield from self.compare(a, b, f"epilogue {', '.join(options)}", want=want, **options)
        if "float16" in self.outs and self.letter not in SHORT:
            a, b = self.ladder(11, 0)
            yield from self.compare(a, b, "alpha before the rounding", "float16", want=round_to(a.values() @ b.values().T * 0.375, "float16"), alpha=0.375)


SIZES = (
    (8, 5), (16, 7), (17, 8), (31, 9), (32, 15), (33, 16), (63, 17), (64, 64), (65, 31), (127, 32), (128, 33), (129, 63), (5, 65), (7, 127), (9, 128),
    (3, 129), (199, 3), (200, 2), (255, 4), (256, 5), (257, 3), (2, 200), (3, 255), (2, 256), (5, 257), (511, 2), (512, 1), (513, 2), (1, 511), (2, 512),
    (1, 513), (1024, 2), (2, 1024), (1, 1), (128, 128), (300, 150),
)

#: Pattern -> the keyword that it needs.
PATTERNS: dict[str, str] = {"rows": "", "depths": "", "scales": "", "again": "", "outputs": "", "epilogue": "alpha"}

DATA = unpack_calls("""
0{{R31poj4|NsC0{{TIR&hwGa`AaX+J&d4)tgG4*kdhvgJ^TF|Y28=R4K#2?g~48uI-I~Fy(y_933Ze!@7WA|8Aljz{aMr?(|2sWE|1|9@jC}$e$?UyC(aKwz+cFNs}jh1P&bF61BsOzo!*UbP_x>Wt~}w>KUh*LVFf0{cwWE-Mi&me!4jQ9x{oVqoz+rF^}e2V54LM)Qu=!{aK-zQ>6U(rF5BRt;k0oY1lU(BHLhy!{T8yTu91!gJH~f{=+k(e84H=U;MNtS*BALaB#@CL_lJ!03Upd)2-HA@Q(9kHswr1}GZ%1LWgNEq)$aPh8&RRz)Qp4IM2gnhFWHB%JcS@5KiaOScS<RmfT?BO#_a;y(il)=PCIVREvOb!YuZZ={!hna^j3&^b@n}g#|=i97o$xH=WX7he4BD}PUk`ki^BLt4Ug>Yq#N5Qlx|r4BweT%lC`d=mZ*$TVlwV%XRwp)iml%mE>i%LKmI)xT1^PSYGAg_>f2QqviNdw%LNEDYmI}K0+lz7IUVB3zCJIL&++gT80PZ}#UqtBbEr(EvIPAmZQH&vX1F@upqqS5?eGWoE9u<SIG)k?sJZ|#F?aGN9;m#t95ZHEEtOCnB-
XXA*=zBW(Tc5zp1udA$wkSI6*9KObDb-J1=N0+myt>ekO&@>7Qj+Lq#Gwzwp%(ORBn0KBnc~<kehRQ^Md8{Kx+HAyMD}v&=rEVTsCT6B=cqp(b*c;(on?x7Fnz1O4Ji=x3F8eM#;SCN8#=`%0t2KC8EnG?srbxl01DmI`R1ArxbO1X~nHg3<lZvC^(<Y!DbzHw1C3qfM<5YysN+*m#rK?Z!heJu5~RYEmk(X8TQi8tDAP<Rs&B#tz*B{-W@e5OC6rlD^S3tA2*`p9vdM|CWApe=8PYi0TXuh9*Eop8I7Cf1cPOW8djC~GX#b>ou-6G94-1TrZ{U68VSRtqtm|i?}8Y2Rk9|%lve$YpOq>k7W6WOB0|q1yq;Rw8yCk+8`kc)V+T`A0uOd_6y|JF*jr+yeTQFOf!nmWiMY-E=SY|6M1cxwq>zlKjZclv7Uef*_9#qNkN!C;)rfUY5;ZaZc&eu|JJnQuWGoSz8-l~7H7~DHdUQ~jFKbiFYvV;zfh$cS(th&oTT%xmoS;LV4nDd}k!PL>Egu;hPRLXmxpQHRK>@f0InCvmUDm}CRf@LIyLI-VEp5#M#aG>3jWmE+m&44Ro1e!5pZsVZZv`vt3RR#6lBlHE74cp=VLQ&Q%xd<^V9W6}vktop(8h~PpN-
Yt6YcZ1gr3{)-t)~Gf5&b~VO5>?0al&4l|GUY!p9u7Y!BE13q9R|9WZQ_LE1x(ZW4EVA_3?{nll(G!V611#oDpT<WHcr2+Ld3V#oxnI!@W!TiZJP%vG4R(=2tO`suql-1_13r77SrG8^OxN(8pxo^InBcG9H~SP0X)$@QNBSb`>)MSC}RG3q_sS7~HN*c>-$lGIelxkH412x^B1v36A_dl6rN{Uw3>AKQ5ToHxFg`sEO_tObg#GU7G+sEt7yI!r$U2%=7d-1QtDJxJ(vjBT3N$D|<6nF3OFAOg-1l;eFQ5QDRk%yyICIJu?Z(C^c$O$J5_+omebcb#J`yt>ROO~%@T{j%K4F>6+%P5}0GH&xg$KZpktZP{}dXd(5jSALQW@k;5s{h}(eSfmLHTAEFcj2Dah2I>97LusD6>mB^h|03Rv))Cw%?mjO`X)A+!%a|VpiGO{EDYc#L{=!JkV>LUlH!2mPJu@XlYm1<E9omrnG{#nlE2Hk<YlSjL16S3s=nZe|>**sS^Aoi%!OLO3L-gY8nXk2TFk|~in8&+RMh+KH#_un8p4_Ds$+YTUScK*nfKWyM&)he-G!CvO_fB~|UAP4Qm&@f-ucq64O^@Hs%mrh^jtC-XHJ}phamdRuR@<bv<Jr@y3CpuT{5-VE`H;ubSTY(CBL!sNP>NfVvtW2k!F9jAY`66n0mJRtJtE2bHyF!5$|(z=QEqx-
kvHjGuR=)XTJ|s=%_%Czfttus5Gc}+r=o6u^&|)H@0)n|`whInk!Xf+APLw!J_$dbikqP6a|7`5Lp2gn4t`I<nj3K;X{-P1(A|4|fB1@Muzp>-a~WHLwJ+MxAM03&hf@pUf;}RQ;M>fSo9@@A$h5u0x%g1bHd2~?Sd!4Gk0rk)Sn2<JcN!zh?QNZxfV8kSJ+)B5S0k?jNH}vVO2e+8e<T;`=TuV{Pil2`{9~pYZ|w{yDc?-l9Q1z|N5S$;DZ9u?4WYS4)05hhR^Ah#`RjdrNjCW$e#P(~ajE^XFwbb}BO5isG0U;Kc4En3Q)60CFIPl!i~*Xj*Dfs?jHfus9bj~%Du3-Xxrk~6Y`JMjt(+s*cNb1Q58Y}O#wS>Fn6T<449xcU33)t&wx1jcvbpCiG1;|Do10DUJa*$KJ*sN!n3j@hYl1_}&RtEN<PFs|H8JyS>jQp$N%(bfG2Sp=GV7xctc$S&o5<!IdWE7nMYc_Vm3fEmK`N6*c{CcKXt$IHATc$@0wwsGWfu_zE{)RcVI9gcjgg@KOmGYoiJ{xC+QP#=rZ*FPpCp21J6Y>43cOp2Pm20P<x~z(joZct(l)~ZwD-7x4?HaA0&pjw10C?U#U$~K-B11$m|Cj#J!}K5?x7ku1^wfY1JF53`kl&dq)#&*r%sQ`RJgc#18H4%zKJdW<P)p|ids;`eB~G_e6%B_b~Vi`%&(-$o@CR-Y&kVPL%7T(Of1mO03lYXyK;ix@y4l{XsY=L9(n|S)IuTdNDGDV)t-6?9Z0T>u?<`;d)(@<i1utX4O#v8I3xV-+`}q3XkTinx^4Ng7JmR-
KQjm?))a(dU&Z~_`K&!zw?<{`pOn;MEJi0I_02JPF<4R|4$X_ZWUJn`OAb4|$xW0+D2o*!y+7ou7+*r3%01((W!rVhn&lsia!>?j$s=ptf;O)kMLC1s{>NC~&()-d>6q05$hp(m-mp?UclH4q&hUbMWr1@etWTCvd1p=m8?2s@-pMnoJlP^8%^XEqVpSw&=Mad7Q=SPrBUt{(6FVOC%kObJ*77(wJ?YQ3abbou!BecLvQQBMQi$R14#3WW#N#Yu8d_wHZQZBAclf{Fm0Zq7Vdah6tA4%S52{5y<tXNK*AentZ{3i!omV;5bbK<gtgY<|w`HOEbu%a{1b=KB%drTLS}0t)Cc8Qf@bibbF`d@am~+djP+98uHw%BC(3?aiX{khSa<K`PY3~8~q^;>$KWcT&5tg!Zq*()<10I&OG;vrDW?3^-z2`e9%)ef!PE=R*!vGK^CC{;5FqpT-IEZF1-8p?1Ru70aMymcExOO7vF%UZAC<D^OXef(VUSG-v%_Gap5_l_5{uTwAU>fsyFp#nWf>viF&?~_-<nQH=II#4IR$^4srP9V#V*|$sobrjZCv<zg&<~Gv4|e8zKLDSoF-midKbHp{4S%iBCMl^H-1c#L|F<PdK>uOFf>w3R&oW(GNIP88>FhTJ`&%gEA9M=}P^)MgOz}ROeA_=#i11l1%3+7X)B+$1^=5~+KB-DT&=>+X?6SLh%g%d_DOE3T|HBohnfD0-={(Zh6VhF&*tDeCFcabqNWo#XGUozLJd@aAC<16OW3DC_0(4#fZ@X6NIB{ik88pZeptv^lcdx&5F|_XAQ0NNM@5A`loua=IW=Cdcu*6>d0Fh~FsJu@qT1vIngSqIj&kYWQ%Yl8r!Ca<I(}0Z15;GsJ2sWe(x1i#5++Hob54N@)r!!rs6H#?K?^tU)CSk^xa!QbaNt~Qru-
VPwb<t?Vejc<=Jt}2xLk5(k8beM|&LL)r1$etw(4EhAbdYR?<eI80S>AARDjaJvK}NA#Q3Sc*9ru-X5<eUXNWaMZCig%+;Msk2he%+8&4BJUlj#=tr@!wcS&s>$6X$MeTJBQ^!)AvSfk{5LdYGhy<>0^verb5cEV8#*HO?+tiR2o%p6Q7G(MRhr=O<a*f^h(vLVzmhbw|RRh?u(QyN6QLu@~V&$&awMO8<(}mtmp#?#yJR8ft<nc_P%K7_uA(2%N=)xK|$4y)N+~`3RxAnY^Q-i%^K#PgqhO>-fo&4{vErJsO$%HG$4obM9XC#MhnHH>$25Ej)VoeC_gjrcvHN9cE8SNXi~Y%%pKg*4R?u(6%t!`@w>>7Sm(oD8L7_VZlH6hI(g4HakTpcbW6~x)R{+cUPFA9yixp25XTwgCE>Um#Xxn+$Hh<@UHA2G#;Ib(rA+|!1b^j@^gn6SDZ(Fhg}s_X{Mryq?F!ubO^e(XFH(TR~qW^5qB=H68eI9`Ka@e!fCUDj#7t^Y#vfN31c`axJmnZzH|8!U>P=nHSuC+ytA&2wU%78>*Txah&8}~qmZq#W)&-sn0|6SBA61{nz*0QOQ+pC&qMyQpPtq$cjO?0&Iih{Z6Z0C65?#1{~6Fv8ol(Opa7}~tmj}7_NS@T^_lMlV;B)@A|o4leaxS^z*ULrB4Er)O0G1Sd`IE8+8qJ~y+6C9b%djdFLIZW3Y0ZCd^WMN)Qufq`GvJ1Lb2^l=*$2bKDuH-m<#wN=m(%f#K4Pc=ZwD2n}eI&oH^j4Vt{D%P4`a~d27;Z{Dq>>oo{FCxXt8fWXZh@NgssgK6V6-FO`JWs-
Hwk9n(vZ=|(?|TAjSjgvwl!CjHWPDBmc0U^KJO*)fi%*k$Z492{6_jZ%PuHCURzxnSz9VO{1Bv4}K~_U{8<awGT;ccTVh`31@Z^{I2VO8^v8$ksDE_F#`M(rWWQhh}V$>AHryY_lVM_-{_3Ba049CPm{Tx8+P+IkR501O^x$EBL4{kD5-~K4}6BA&ILT&hTtS*8e&!l?Nse7G^!&<WtA^R0Oax74tl0@np~+(HfRPb@y2EsDx_UV<74FHyn%-w3&6_BYyzb=wMSm452kN0?>c74tR<3S<L}72e-*A#&BBV4J(e`RJSpFZO(`$IeyEWEhk}rIy(#_4*2K=CH+Typz1;}>)^RUbE&{H&AuLBR}B0z;BEXNFBt_#M!Xqeg`!HkaMZdi??Y*dezQqsqc18q()privcR-<HTLX-{CEP`mI17F__j3k7(L)otW#R@7?D;fAf!YJ#7Hqt9?w0MC#d<pAiJFMxaGLB>Kz#)^xV=}0-8?DK7d0j14lVTJbb@ZY4OE}!(fjcJDt-qsG`u3(i>%z@D|NTDo#XmTJPK8LQX7!Px?}M!*bf->?~O$+LIFmHrQ=bi!Y9c5AxG7rI>NxV<P})9U6$`LRB5y@F@HAe1(X%M5=#sVrP<xG$v!jL3I4D4a3tK+TtsHcYaw*@uh(xSR#MFasQJnUyX0Yj=6m6*@0xQ;K%BDz>o$igouQtrRW~;WTp@aQWs;-Y~DJn2B`{DdA?30I_hm?EE2xz`bD>h6jF&sdY)W-PSCvR^xY)WkTxglyNwItng>|Gd!Pj(A(dvatKSckf9?PAk{SgKF|MT**kpVR$w+j(5+9)PavL@DB<OAfe2JSY&Iy?%Y{m#b<-MC4spTOOp*kb5sv4$@pMHd87FaI@Kp)`w|C1xpcy`Em#W^mK`PV0AA^U&dnl(1biQgU6)!u<wuF9A+p?a7PqwNJwW-YHlHuOcs=OWARazzPq3g5rnl-
fide-#Sp1A?x1Vw}yLHnPr(qU`umV?SR@HFwq`Q63zBGYS#y^8S-NkRRt@|D-0%Hpk~kr%=nsm?p!e1w3o6hitI`4*4^|=w{I6%76$I-v183Tp45xtvpSmq#EC_6kOcQ%wN?S$=Mp!(**~z<w;0l%tvI~SlkHWF$t8}P1zw_Z~GOH^KFru3c`uW)i&#vt|<tR%0%P8juf8Jf^rAuLb&GC1hJiLg#2i^0L0NJmWVKGb|xmu5zX?0e*??fLNWT%PQz~zN+<|$F!Am5THJi*1ph5@@@v%-kZo)#7Hm7yhE*xagTa4ljsnn9K>Cz%c-}ND6A3?<&=!8We$3lOJ&D3Lj@Q@fTk=R3I{z<#%HL$nVI~f8xYF6TGcS#DgFIUC7kV}6MlHc-hy{FD^|`i<e`tZ=ueY=Qwi*Hs>a~vWHURG8WXCX^lc-(@Q5KEY1~KVbuO-HX4_QO04N6)P5$=wXKSPPqGtJ7X+DT@JV0`JCX4s2sgvNI#u*|rU+(;AQOML;fDyOS<hQ{xf3PP#U6qm#HmPNGdw37sfcza18N*BW8_T*#`Dp52<x%EFj+9A==^0lx(U786i8&G)OA-
Ktke!#9EshFR^R!Z{B(#b>yUP<sf@%2Fn-o%QUSXx%fx#aFWaVqrk>PbF6g`c}uKvk!tjO|5V&Zd6Gi}#X<RgaLsMi?p|cAIdKPoGJ-!#b)AU>yKNr43^<{xVwz&U*L);@2&V0~`Zi|G8TF^oO~=sk=>VZ1L3Z=f3XJc?zR1_L82l8-g9|e!CVWxTJ>$(tIUA*bY1iln4$xnfS!Ve`f(~gv%zdvcmmB%`D0fO&e2%qC1-0%bKQv+_UA`^>Gq379Y>mVPY5ppXKg=77A7NSq=|}maN<l-%rmU(y<XTM7LWUVl*h9^bzW#9oP#>VPZDUA~Q~ctXvEozE84m_v8G3^R#9)`Bvn=u-l|*l<@Q@zhkgt;StjZgN?~d$iQ7d*&82n+4->p#(AUn))gM+p{1b{VP$$dk58Z;SW@;&tkK4|TBFK>s4KH?Jvl&}??}mb(a<^ZxVXt)S0IofP`PLGdYI1gikLbPn1vD}IVdt=4^aN&Z#n$DwXD~lawh%JRmq-zO;rST%+TRmumNmcthpCt8w*==&E!<c>1UDMeVB;O>h*vlcGmmP89LVA92)<Uh2A(V(VGBG4?kzcnOEPLRk<SZY~C*^zBG#>+tc`O#ZS(Y-c|C72RXaPo-gXKKlpk0Tbf))msTQ>x*1r2UN_U1)2Uppc2O=YZQRBu9wnRla@o`XW0^oi?`op-
ol9twKP?5H0cZ2E`9&b%9V@mrE{F%q4>*ji?+$N{R&m86@)Mw}gpX>oQIJg9SDo^v7A;c45X{CC|KNB%L0;zeG9>1V)W7od2RYIpSha0xiquFtJ;tIoarbEDzbcov1@4MC@8hd0vQ3j;P<PL*MG_XhNIfj4T9Sc$uT_UvE`AnLeM_)3?IcoDxQGp!HK#@4(!oc6)XYDd6&HN_L&(Y_J{O-4=~`*QgOZi7Aa%%5JgH}et>rf;iM-+&XRg91cK_SfrM0S&S2c34A2UY^zWNImV(8xOly4rz4MUyGgXqFST_yKDRDDO;-!Z<KMA|emCw@1z)}(j;f8z>@CE2#KfMvc;Y0u%1H1p56X4FDgJ&vA`2wX^IW%aQEdmf0jySEp#+!qti6aBw%n|ulC*I8D07O(U|hog13<bn}6D$$vqRZnkNEM6342ni`mV=WG!6WfSMc+3AOl93RfxbE^g>_)*o_&ay&q-2;$2egC{VLD7<G2!?svekXyIFfztH<|=(VW<+l4p!BK<6bhu4;$*CP3yb@d?+E;Z?H3>B@1k}iT$E&9^w62HWR%uUO}eYjXG!=$jc9c2fhJK%g`#2-rXQd2&z62V_>yzlzq%DYbmctd5vHu&Q~A!Ukrou8X&<cMeoO>QKtt`lD!Zk04v;;qSZn~m=}}fe}A*EaG?&UXM?k#qVuZ@C>pVc(;-!KlfV;mKPmI|;s{1HrY)dh75sNkjWYsjaK;Y(LU*aPc_UVw%J@?CXJatH%eF7Xij)8{woZ--
Nr_qTTSs1e$Xc>b7R^#yq}XkVV@!@JZqUC)n`1?nVHy7v^X8=%;J*+Xt=>__#Gm_4^*Zll4y({ql(b|jg9K<doOkIFS5%qEl724mx2q@X-Bl#_LNec4Zx2YB?0Xg%1V?k2xtEN90QGNGzMI`cJi5U;z?}Tt$!9>9Id2b_9Vk4&DR9N_`?Ki$+eYu2x8vB@iOTa4QU*(7@b?I}q2_y!(}HD|nx>y#^K)z!q}m!sh#1lBO;$fxt#fLCK}%tGER<}rN#|f8AB4#02>EruMJl%DcKc7=T$4yUwu)3)?{lU6=8FayXHJtOlB6zr9&6$=C%EvMO*b~Y(=aC=^otz8z5D1_sn*DMQK4z_Je;Ffa_g&`rK8Y|<pxsR`H?hWYeUT326Q`2svytXoEP~;Ff`6=dX}?sCy2@VdQ>v-Dd~S{DJ@>&-<WtnkgaoGL6j8M)d1KvVDxK+838!q=>JNmwI{0I{ImeHMEXQqUoUD=tLPD5BM%-~!#uR1_}2w<YuK@VJL5!Ixg}r!^Yf$Zw7+Qrg2iLnO%j4;)3f-nN~-Zjp9U;ENVtm2w>*i2N%|O`&z;=RR{-vA_Ec(7@s*v1MG7p9?fgqkY1iH{uI9J=TZ}q+r<=I*3}*$(wP1ImAMF@_e=zZ8@S=W<2~*S_wpJ+%dE%E{97|)H9Dv|};wP8_A{wm8><ZmUfO?5O`UChrI%7A#fFk4dE-I|!U?+=pwJuqW?Gmb(8KA0D;vh0`i=N4k5+0@+mM!7~S1Cpe{u*)mUTDsb4=A5QBR(9z*LDx7$z(G5J_HXBoD?!+c1Cdx1j%8d+W&_n&T^LrZkjQXX!PF0Vb~8AlI<AVx`zZtDu5T*ntyG;b;M`Kb|Xj|#d7n|Sp8GrYb}qetV-Xp9XkQ~{op(t`9dAguiCEnO4hAO{?t^IR-
umAq0o`T%e16mjP5VDq3hY2Ih1o94V7qTj=8-!-!U-~oR?Q~&7AXGA6W4!wl)+AH2i83La__svi}woWFepY76oZ>+}e(WjV1tqfZekh6uf5S&Y&25i_qqq+b~)~FcT)mh#nPYQusxfIp4PKXC3Ww9>)R1B3PaJ5bNE(LB59c!=VV`E`UW5#_{7B_eTUFtXZOn$Y+`Pn5}t1+wQ(tRd3)tTDdw|97qqPBrGkX2sMpRV&17Z?F8bQL_Rvged-JW!tOx~|1b-38TJwbZ8*Sg(|-eMMNAFEs1wiRWaM=69Sn_IDwiBCgjM1=otOZXr9HX7x#%d0oiIi#th;C2OO&UH=}C6E6uWPw3lDNF`)3Ri=CTIuq}p9ppX*nzNNMuVLGC$z{kQ07AsOdGLKmkmwil6=+9!oPs`Bbe9)}8>q}|@#3~u|1#o>S~2`Od*js4x1G9fL2d@=d!zR$Mu$r)MF@JlqaqCz{pQcefauP+jD!rcYk*GlR%HhA5kdVDuO4Rih9V0u?A&fu4%@o{$PvgZUgd^lNsb};oUddr^wweXy>;+^LR5zqkt$*&;*3X2O<)hLtZxPojDSdaG>=fXiJ9#d-z0XL$)HgLdl!T}A<-QchOoCtjpV1Uw#9G|Qt!~kfiu=wF#kVY&Pjho~(*We~aJG_@YStOOzwteREj@Rd3auFIVH#XT8w{}01AM{Vk29o!?yzn_)7*F_@YtP})wxyZq2)Tof#-YAJ^7NmvK7dSDOC>rj2U1c60$qf;w5F81Y=P7A1lPA;BqjA4fzF_IaD8iGMy!Z}6x8j7J~W!ZBW!Sd&@|BXR-
alg>L`O%EHNW5f2>%NSYp&mT~pozex<<C3B-4~1hifR3^^<+>T5sC+Q1M}B~!zbN_b3toe}Zg0Xyu0nBNs*)T>(4A7;5*oyNc*=z%)q`We*Ik-L2?WA<;~YwI?4U!8{l9cD(-(%;Np8Yl(+;%<#ea3WN`UcT6G+j>Z^i(W$n{_AKWLl%436!Ar&+8xBIW5ZP*Wzx84py0AG1%TU5=`!Za+}tp6L>&W-e7^}au9Qc$<-$qLPnea?YarQFk2zPCVC=u|v>VYNkN~1cr(+zPBci2XRfbo0U>ko25!cMumpdoMNVb!t2S`pm8VZD#z~EA-A(<4Px-z@1*-jBfV@G;--@}bONR5h-ND9>D`jIyjii1F;nj0hK0l(t~GKD7~vNFnCgc9>k*@5}^@H0gwe?~!m;-soJt8Z`gNDA6K`H6?0f8p&JXR6jNGm)d6X7go@ODN`Vr=OxU1J}d_a)qa0#6|=hx{znQDYAn!hJ+jo45IjuTM{x{*PiTNvQD+m%B$4+wu3E^AcWAe=b*}o;uL@Z>-Y(s=}zIX!lekhU#3uk<r`9o&r(6D6hp;*3!l5M(W^<UM%Y7()c3Eg&^4t9Y0ADY>37Km`+k`nYcFH;E>+dNzdX+4_;#{XJ)g8<*Yxd9D2;+(3O~Rc)dAJ>P!s}YLK<FYL}^abniH@ZGe5XLsk<GdJ+fYa=<tsrjy*r-^TBWTIO5=22T%wF`55!VM}b-gqcf=qRTK0F0D&1jTeILDy`Rdjumt&6NIh_Wj1gY6id{CZ`L4&=8FFP?HstW=SI*uZ7#40w;?Bye*M!BkJ2-YbMVM8a#y9FY`Ib-
lDwMk*?Kt}iCyXIbLb*P@;yKIrXBGY7QiG7pQ;HiO1>?E1-1J9;c@$b^2_Hx<9)vCS9Ogfr891HV84e}z#Xe<y3al>EMwX6kw70#*-FBlF(OV7%4&Je<U;TFcP}fCA9LQxHR7ndkAQ{Hmg;|1L$VaojEHLDR58L5l`okXIIgydTA+AX&s#h-tkWs=X>f~U{paa;&W6op09dDX`Bt)Y8;nO*u@#JYoG&65QJ3@!jdx@{gJjSLvY&ghMnB`haPgob0<0gejJ2?+D<zKl|d(-kdRPJQiS!a@6_Wv<lZgGil@HO}&66y(sk!^|uDZ0RHUI_V2mM!Oa=6^xB;eouOfpRj^d5p3be5_yEjcSqdbPk;z-#v*_;S?MYz$?$^#)QJ$K9MYP;p&`XyKok^T)gW5Yfd36kfyzz<*K_kFph&#693R|n2nX<tV5SKh{3~qt__)F&f%L@am3oJG==+arVsnRi9fStrh6t)C2IIMS8nOWO%Kt+qSl*zxz}{GUTzm}m|VBn16n?(ND>q;fH=>smW13>1sqo>og9S0RnxxQI@^_64=OCz8k03+8Y2x!0Yl<Zr-X%qgvZ<=@<8HsMe@d;nIBiy-T<!LI%_!n`-mR9iEo==)9YeaF<i#w{R!Fpa-NHwvQm$uL9Ey~b`M6!UhY-}rsxmo*}dLBHQ3f8_?-^@l990RcCr)Az!#XH&Fm3=C}+FTe#WbOuv-#a4W?vRJAc}&?(AG7+PS%o%Ico=p2v+?-<3tcq|m{|em??zoI($&4#mnlWy?QdS5DXP-GWt$c$nW<5G5KYWGGwaqEk7x4#+tHrrfw|foa;K6MyFHKb2C$%vgw<qxKQr9|UZOHQ6*u*Cuoj4`uA&@M8Ai+^9)8dV2LH|F>ihZU
""")
DESIGNS = ['rows', 'depths', 'scales', 'again', 'outputs', 'epilogue']
LETTER = next((letter for letter, name in CLASSES.items() if name == CLASS), "")


@pytest.fixture
def matmul():
    if not MATMUL:
        pytest.skip("set MATMUL at the head of this file, or MX_KIT_MATMUL, to package.module:function")
    assert LETTER, f"CLASS is {CLASS!r}; allowed are {', '.join(CLASSES.values())}"
    import importlib

    module, _, function = MATMUL.partition(":")
    target = getattr(importlib.import_module(module), function)

    def call(*given, **options):
        if TORCH:
            import torch

            given = [torch.from_numpy(x.copy()) for x in given]
            options = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
            options["out_dtype"] = getattr(torch, options["out_dtype"])
        return target(*given, **options)

    return call


def _check(pair):
    if PAIRS and pair not in PAIRS:
        pytest.skip(f"{pair} is not among PAIRS")


@pytest.mark.parametrize("pair", DATA)
def test_calls(matmul, pair):
    _check(pair)
    found = [check_call(matmul, pair, DATA[pair]["t"], c, LETTER, NUMBERS) for c in DATA[pair]["c"] if c["o"] in OUTPUTS]
    wrong = [w for w in found if w]
    print(f"{pair}: {sum(w is not None for w in found)} calls, {len(wrong)} differ")
    assert not wrong, f"{pair}, class {CLASS}: {len(wrong)} of {len(found)} calls differ. The first:\n{wrong[0]}"


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("pair", DATA)
def test_designs(matmul, pair, name):
    _check(pair)
    if PATTERNS[name] and PATTERNS[name] not in KEYWORDS:
        pytest.skip(f"{PATTERNS[name]} is not among KEYWORDS")
    for wrong in getattr(Designs(matmul, pair, LETTER, NUMBERS, OUTPUTS), name)():
        pytest.fail(f"{pair}: {wrong}", pytrace=False)
