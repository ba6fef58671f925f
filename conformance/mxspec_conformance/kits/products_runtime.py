"""What the kit of products does with its calls. Self-contained: its text is part of the file, which needs NumPy alone (torch if it is there)."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mxspec_conformance.kits.runtime import FORMATS, Format

Array = Any
#: (a_codes, a_scales, b_codes, b_scales, **options) -> outputs [m, n].
Matmul = Callable[..., Any]

#: Classes of accumulations by the letter that stands for them in the data.
CLASSES = {
    "a": "float32-nearest", "b": "float32", "c": "fused-f25-16", "d": "fused-f25-32", "e": "fused-f24-8", "f": "fused-f23-4",
    "g": "fused-f13-32-promoted-128", "h": "fused-f13-32", "i": "fused-f13-16", "j": "float16", "k": "bfloat16",
}  # fmt: skip
#: Those whose sums have 16 bits.
SHORT = "jk"
PARTS = ("a", "a_scales", "b", "b_scales")
_E4M3 = Format(16, 4, 3, 7, 0x7E, 0x7F, 0)


def unpack_calls(text: str) -> dict[str, Any]:
    """Pair of formats -> its tables and calls, from the text that a kit holds."""
    data: dict[str, Any] = json.loads(lzma.decompress(base64.b85decode("".join(text.split()))))
    return data


def pack_calls(data: Mapping[str, Any]) -> str:
    """The inverse."""
    raw = json.dumps(data, separators=(",", ":")).encode()
    best = {"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "pb": 0}
    return base64.b85encode(lzma.compress(raw, lzma.FORMAT_ALONE, filters=[best])).decode()


# Operands.


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
        kind = np.float32 if FORMATS[fmt].wide else np.uint8
        self.fmt, self.codes, self.scales, self.tensor = fmt, codes.astype(np.uint8), scales.astype(kind), tensor

    def values(self) -> Array:
        """The numbers, in float64."""
        with np.errstate(all="ignore"):
            scales = self.scales.astype(float) if FORMATS[self.fmt].wide else scale_values(self.fmt)[self.scales]
            x = FORMATS[self.fmt].value(self.codes) * np.repeat(scales, FORMATS[self.fmt].k, axis=1)
            return x * (1.0 if self.tensor is None else self.tensor)


def scale_values(fmt: str) -> Array:
    """What each scale byte is worth; 200 float32 scales of 21 bits."""
    if FORMATS[fmt].wide:
        return np.ldexp(1 + np.arange(200) * 4099 % 2**20 / 2**20, np.arange(-100, 100))
    if fmt == "nvfp4":
        return _E4M3.value(np.arange(256))
    return np.append(np.ldexp(1.0, np.arange(-127, 128)), np.nan)


def operands_of(pair: str, tables: Mapping[str, Mapping[str, str]], call: Mapping[str, Any]) -> tuple[Operand, Operand]:
    """Both sides of a stored call."""
    m, n, k = call["s"]
    made = []
    for number, fmt in enumerate(pair.split("@")):
        found = []
        for part, choice in zip(PARTS[2 * number :], call["r"][2 * number : 2 * number + 2]):  # noqa: B905
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


# Outputs.


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
        return (
            np.frombuffer(bytes.fromhex(text.replace("nan.....", "7fc00000")), ">u4").astype(np.uint32).view(np.float32).astype(np.float64)
        )
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


# Calls that are computed. All sums have at most two products, of few bits: exact in every class and order.


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
        """Scales of powers of two."""
        if FORMATS[fmt].wide:
            return np.ldexp(1.0, exponents)
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
            k = 32 * blocks if self.run <= 32 else self.run * blocks
            if k <= 4224:
                yield from self.compare(*self.sparse(3, 5, k, blocks), f"k = {k}")

    def scales(self) -> Iterator[str]:
        """Every scale and every code that is a number, a row or column each, of either operand; no product is subnormal in float32."""
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
            given = (worth[bytes_] if FORMATS[fmt].wide else bytes_)[:, None]
            mine = Operand(fmt, x, np.broadcast_to(given, (len(row), 2 * self.run // FORMATS[fmt].k)), 1.0 if fmt == "nvfp4" else None)
            yield from self.compare(
                *((mine, self.side(other, y, 0)) if first else (self.side(other, y, 0), mine)), f"scales of {'a' if first else 'b'}"
            )
            codes = np.arange(1 << FORMATS[fmt].bits)
            codes = codes[np.isfinite(FORMATS[fmt].value(codes))]
            x = np.full((len(codes), 2 * self.run), self.code(fmt, 0.0))
            x[np.arange(len(codes)), (7 * codes) % (2 * self.run)] = codes
            both = self.side(fmt, x, 0), self.side(other, y, 0)
            yield from self.compare(*(both if first else both[::-1]), f"codes of {'a' if first else 'b'}")

    def again(self) -> Iterator[str]:
        """The same shape with other data, a larger one between, then the first again; outputs and inputs stay what they were."""
        unit = max(32, self.run)
        calls = [self.sparse(m, n, k * unit, s) for m, n, k, s in ((7, 9, 3, 1), (7, 9, 3, 2), (33, 40, 4, 3), (7, 9, 3, 1), (3, 4, 2, 5))]
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
        ):  # fmt: skip
            a, b = self.sparse(m, n, 2 * self.run, m + n)
            want = a.values() @ b.values().T * (1.0 if alpha is None else alpha)
            options: dict[str, Any] = {} if alpha is None else {"alpha": alpha}
            if has_c and beta is not None:
                options["c"] = (1025.0 + 64 * np.arange(m * n) % 4096).astype(np.float32).reshape(m, n) * np.where(
                    np.arange(n) % 2, 1, -1
                ).astype(np.float32)
                options["beta"] = beta
                want = want + beta * options["c"].astype(np.float64)
            if has_bias:
                options["bias"] = (4099.0 + 3 * np.arange(n)).astype(np.float32)
                want = want + options["bias"].astype(np.float64)
            assert (want.astype(np.float32) == want).all()
            yield from self.compare(a, b, f"epilogue {', '.join(options)}", want=want, **options)
        if "float16" in self.outs and self.letter not in SHORT:
            a, b = self.ladder(11, 0)
            yield from self.compare(
                a, b, "alpha before the rounding", "float16", want=round_to(a.values() @ b.values().T * 0.375, "float16"), alpha=0.375
            )


SIZES = (
    (8, 5), (16, 7), (17, 8), (31, 9), (32, 15), (33, 16), (63, 17), (64, 64), (65, 31), (127, 32), (128, 33), (129, 63), (5, 65), (7, 127), (9, 128),
    (3, 129), (199, 3), (200, 2), (255, 4), (256, 5), (257, 3), (2, 200), (3, 255), (2, 256), (5, 257), (511, 2), (512, 1), (513, 2), (1, 511), (2, 512),
    (1, 513), (1024, 2), (2, 1024), (1, 1), (128, 128), (300, 150),
)  # fmt: skip

#: Pattern -> the keyword that it needs.
PATTERNS: dict[str, str] = {"rows": "", "depths": "", "scales": "", "again": "", "outputs": "", "epilogue": "alpha"}
