"""What a kit does with its blocks. Self-contained: its text is part of every Python kit, which needs NumPy alone (torch if it is there)."""

from __future__ import annotations

import base64
import json
import lzma
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = Any
#: Quantizes rows: (x [rows, columns], fmt, **options) -> codes, scales.
Quantize = Callable[..., Any]
Blocks = Sequence[Mapping[str, Any]]


class Format:
    """k; of the element exponent bits, mantissa bits, bias, largest magnitude code, first NaN code (0: none), Inf code; whether scales are float32."""

    def __init__(self, k: int, e: int, m: int, bias: int, top: int, nan: int, inf: int, wide: int = 0) -> None:
        self.k, self.e, self.m, self.bias, self.top, self.nan, self.inf, self.wide = k, e, m, bias, top, nan, inf, wide
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
    "mxfp8_e4m3": Format(32, 4, 3, 7, 0x7E, 0x7F, 0),
    "mxfp8_e5m2": Format(32, 5, 2, 15, 0x7B, 0x7D, 0x7C),
    "mxint8": Format(32, 0, 7, 0, 127, 0, 0),
    "nvfp4": Format(16, 2, 1, 1, 7, 0, 0),
    "fp8_e4m3-128": Format(128, 4, 3, 7, 0x7E, 0x7F, 0),
    "fp8_e4m3-128-f32": Format(128, 4, 3, 7, 0x7E, 0x7F, 0, 1),
}


def unpack_data(text: str) -> dict[str, list[dict[str, Any]]]:
    """Format -> blocks, from the text that a kit holds: JSON, then the inputs' four bytes in planes, as they pack best."""
    raw = lzma.decompress(base64.b85decode("".join(text.split())))
    end = raw.index(b"\n")
    data: dict[str, list[dict[str, Any]]] = json.loads(raw[:end])
    bits = np.ascontiguousarray(np.frombuffer(raw[end + 1 :], np.uint8).reshape(4, -1).T).view(">u4").astype(np.uint32).reshape(-1)
    at = 0
    for fmt, blocks in data.items():
        for block in blocks:
            block["x"] = bits[at : at + FORMATS[fmt].k]
            at += FORMATS[fmt].k
    return data


def pack_data(data: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The inverse."""
    words = np.concatenate([b["x"] for blocks in data.values() for b in blocks])
    planes = np.ascontiguousarray(words.astype(">u4").view(np.uint8).reshape(-1, 4).T).tobytes()
    rest = {fmt: [{k: v for k, v in b.items() if k != "x"} for b in blocks] for fmt, blocks in data.items()}
    raw = json.dumps(rest, separators=(",", ":")).encode() + b"\n" + planes
    best = {"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "pb": 0}
    return base64.b85encode(lzma.compress(raw, lzma.FORMAT_ALONE, filters=[best])).decode()


def inputs_of(block: Mapping[str, Any]) -> Array:
    """The float32 numbers [k] of a block."""
    return block["x"].view(np.float32)


# Implementations.


def as_array(a: Any) -> Array:
    """Bytes of whatever was returned: NumPy, ml_dtypes, torch."""
    if type(a).__module__.startswith("torch"):
        import torch

        a = a.detach().cpu().contiguous()
        a = (a if a.dtype in (torch.uint8, torch.float32) else a.view(torch.uint8)).numpy()
    a = np.asarray(a)
    return a if a.dtype == np.uint8 or a.dtype == np.float32 else a.view(np.uint8)


def plain(quantize: Quantize, *, torch: bool = False) -> Quantize:
    """The same function from NumPy to NumPy, one code to a byte (of two in a byte the low half first), float32 scales as their bits, any NaN as one."""

    def call(x: Array, fmt: str, **options: Any) -> tuple[Array, Array]:
        given = to_torch(x) if torch else x
        codes, scales = quantize(given, fmt, **options)[:2]
        codes, scales = as_array(codes), as_array(scales)
        if FORMATS[fmt].wide:
            numbers = scales.view(np.float32)
            scales = np.where(np.isnan(numbers), np.uint32(0x7FC00000), numbers.view(np.uint32))
        if FORMATS[fmt].bits == 4 and codes.size * 2 == np.size(x) and not options:
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(np.shape(x))
        return codes, scales

    return call


def to_torch(x: Array) -> Any:
    """A tensor with the strides of the array; bfloat16 by its bits."""
    import torch

    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    if any(s < 0 for s in x.strides):
        x = x.copy()
    return torch.from_numpy(x)


# Blocks.


def fold(codes: Array, fmt: str) -> Array:
    """Codes with -0 made +0."""
    f = FORMATS[fmt]
    return np.where(codes == f.sign, 0, codes) if f.e else codes


def matches(answers: Sequence[Mapping[str, Any]], signs: bool, codes: Array, scale: int, fmt: str) -> bool:
    """Whether one of the legal answers is what was returned."""
    for a in answers:
        if not a["s"] <= scale <= a.get("t", a["s"]):
            continue
        wanted = np.frombuffer(bytes.fromhex(a["c"]), np.uint8)
        mask = np.frombuffer(bytes.fromhex(a["m"]), np.uint8) if "m" in a else np.full(len(wanted), 255, np.uint8)
        got, want = (codes, wanted) if signs else (fold(codes, fmt), fold(wanted, fmt))
        lanes = list(a.get("n", ()))
        if not ((got ^ want) & mask).any() and (not lanes or np.isnan(FORMATS[fmt].value(codes[lanes])).all()):
            return True
    return False


def ask_blocks(quantize: Quantize, fmt: str, blocks: Blocks, kind: str = "amax") -> list[tuple[Array, int]]:
    """(codes, scale) of every block, in one call for each tensor scale."""
    found: list[Any] = [None] * len(blocks)
    groups: dict[str, list[int]] = {}
    for i, b in enumerate(blocks):
        groups.setdefault(b.get("g", {}).get(kind, ""), []).append(i)
    for bits, members in groups.items():
        x = np.stack([inputs_of(blocks[i]) for i in members])
        codes, scales = quantize(x, fmt, **tensor_option(bits))
        codes, scales = np.asarray(codes), np.asarray(scales)
        if codes.shape != x.shape or scales.size != len(members):
            raise AssertionError(
                f"{fmt}: x {x.shape} gave codes {codes.shape}, scales {scales.shape}; expected {x.shape}, {(len(members), 1)}"
            )
        for row, i in enumerate(members):
            found[i] = codes[row], int(scales.reshape(-1)[row])
    return found


def tensor_option(bits: str) -> dict[str, float]:
    """The keyword for a tensor scale, from its float32 bits."""
    return {"tensor_scale": float(np.uint32(int(bits, 16)).view(np.float32))} if bits else {}


def failing_blocks(found: Sequence[tuple[Array, int]], fmt: str, blocks: Blocks, rule: str) -> list[int]:
    """The blocks whose answer is none that a rule allows; those of which the rule says nothing are left out."""
    legal = [answers_of(b, rule) for b in blocks]
    return [i for i, a in enumerate(legal) if a is not None and not matches(a, bool(blocks[i].get("z")), *found[i], fmt)]


def closed_blocks(found: Any, fmt: str, blocks: Blocks, wrong: Sequence[int]) -> list[int]:
    """Those that are not open: "o" is 1 for all answers, 2 for low scales and zeros."""
    far = [s > 1 and (s > 127 or fold(c, fmt).any()) for c, s in found]
    return [i for i in wrong if (o := blocks[i].get("o", 0)) != 1 and (o == 0 or far[i])]


def answers_of(block: Mapping[str, Any], rule: str) -> Sequence[Mapping[str, Any]] | None:
    """The legal answers of a rule."""
    return next((answers for rules, answers in block["a"] if rule in rules), None)


def rules_in(blocks: Blocks) -> list[str]:
    """The rules that blocks speak of."""
    return sorted({rule for b in blocks for rules, _ in b["a"] for rule in rules})


def nearest_rule(found: Sequence[tuple[Array, int]], fmt: str, blocks: Blocks, rule: str = "") -> tuple[str, list[int]]:
    """The rule asked for, or that with the fewest failing blocks; and those."""
    rules = [rule] if rule else rules_in(blocks)
    return min(
        ((r, failing_blocks(found, fmt, blocks, r)) for r in rules), key=lambda p: (len(closed_blocks(found, fmt, blocks, p[1])), len(p[1]))
    )


def shrink(
    quantize: Quantize, fmt: str, block: Mapping[str, Any], found: tuple[Array, int], rule: str, kind: str
) -> tuple[Any, tuple[Array, int]]:
    """The block with its largest lane and a wrong one alone, if it is still wrong then."""
    legal = answers_of(block, rule) or ()
    x = inputs_of(block)
    if len(legal) != 1 or "m" in legal[0] or not np.isfinite(x).all():
        return block, found
    want = np.frombuffer(bytes.fromhex(legal[0]["c"]), np.uint8)
    for lane in np.flatnonzero(fold(found[0], fmt) != fold(want, fmt)).tolist() or [0]:
        keep = np.isin(np.arange(len(x)), [int(np.abs(x).argmax()), lane])
        small = {
            **block,
            "x": np.where(keep, block["x"], 0).astype(np.uint32),
            "a": [[[rule], [{**legal[0], "c": np.where(keep, want, 0).astype(np.uint8).tobytes().hex()}]]],
        }
        (again,) = ask_blocks(quantize, fmt, [small], kind)
        if failing_blocks([again], fmt, [small], rule):
            return small, again
    return block, found


def describe(
    quantize: Quantize, fmt: str, blocks: Blocks, found: Sequence[tuple[Array, int]], rule: str, wrong: Sequence[int], kind: str
) -> str:
    """The simplest failing block: input, expected, returned."""
    i = min(wrong, key=lambda i: (np.count_nonzero(inputs_of(blocks[i])), i))
    others = [
        r for r in rules_in(blocks) if (a := answers_of(blocks[i], r)) is not None and matches(a, bool(blocks[i].get("z")), *found[i], fmt)
    ]
    b, (codes, scale) = shrink(quantize, fmt, blocks[i], found[i], rule, kind)
    legal = answers_of(b, rule) or [{"s": 0, "c": ""}]
    want = np.frombuffer(bytes.fromhex(legal[0]["c"]), np.uint8)
    x = inputs_of(b)
    wrong_lanes = [n for n in range(len(x)) if codes[n] != want[n]]
    lanes = sorted({*wrong_lanes[:6], *[n for n in range(len(x)) if x[n]][:6], int(np.abs(np.nan_to_num(x)).argmax())})
    rest = "all other lanes are +0" if np.count_nonzero(x) <= len(lanes) else f"{len(x)} lanes in all"
    lines = [
        f"{fmt}: nearest rule {rule}; {len(wrong)} of {len(blocks)} blocks differ. The simplest ({b['i']}, {b['p']}):",
        *([f"  tensor scale {b['g']}"] if "g" in b else []),
        f"  scale: expected {legal[0]['s']:02x}, returned {scale:02x}",
    ]
    lines += [
        f"  lane {n:2d}: x = {x[n]!s} (0x{int(x.view(np.uint32)[n]):08x})  expected {want[n]:02x}, returned {codes[n]:02x}{'' if codes[n] == want[n] else '  <--'}"
        for n in lanes
    ]
    return "\n".join(
        [*lines, f"  {rest}; returned is what {', '.join(others)} gives" if others else f"  {rest}; no rule gives what was returned"]
    )


# Calls: the same block must get the same answer, however it comes.


class Calls:
    """Call patterns of one format; each compares with the function's own answers to the blocks in one plain call."""

    def __init__(self, quantize: Quantize, fmt: str, blocks: Blocks, kind: str = "amax") -> None:
        groups = [b.get("g", {}).get(kind, "") for b in blocks]
        commonest = _commonest([g for g in groups if g] or groups)  # a tensor scale, where there are any
        chosen = [b for b, group in zip(blocks, groups) if group == commonest]  # noqa: B905
        self.fmt, self.k = fmt, FORMATS[fmt].k
        # A NaN, and a number that float32 holds as a subnormal alone, are in every pattern.
        x = np.stack([inputs_of(b) for b in chosen])
        tiny = (x != 0) & (np.abs(x) < np.float32(2.0**-126))
        first = [int(i) for has in (np.isnan(x), tiny) for i in np.flatnonzero(has.any(axis=1))[:2]]
        self.x = x[[*first, *(i for i in range(len(x)) if i not in first)]]
        self.options = tensor_option(chosen[0].get("g", {}).get(kind, ""))
        self._quantize = quantize
        self.codes, self.scales = self.call(self.x.copy())
        self.scales = self.scales.reshape(-1)
        self.others = sorted(set(groups) - {""})
        self.seen = ""

    def call(self, x: Array, **more: Any) -> tuple[Array, Array]:
        """A call; what it returned is copied."""
        codes, scales = self._quantize(x, self.fmt, **{**self.options, **more})
        return np.array(codes), np.array(scales)

    def order(self, count: int, seed: int = 1) -> Array:
        """Indices of blocks in a fixed mixed order, repeated as often as needed; unusual ones are few."""
        n = min(len(self.x), count)
        return (np.arange(count) * _coprime(n, 7 * seed) + seed) % n

    def equal(self, a: Array, b: Array) -> bool:
        """Whether codes are equal; -0 counts as 0, a NaN as any other."""
        nan = FORMATS[self.fmt].nan or 128
        a, b = (fold(np.where(c & 127 >= nan, nan, c), self.fmt) for c in (a, b))
        return bool((a == b).all())

    def same(self, index: Array, codes: Array, scales: Array) -> bool:
        """Whether blocks [.., k] and scales [..] are those of the plain call. What an element without NaN makes of one is open."""
        index = index.reshape(-1)
        got, scale = np.asarray(codes).reshape(-1, self.k), np.ravel(scales)
        if got.shape[0] != len(index) or scale.size != len(index):
            self.seen = f"{got.shape[0]} blocks and {scale.size} scales came back for {len(index)}"
            return False
        open_ = ~np.isfinite(self.x).all(axis=1) if not FORMATS[self.fmt].nan else np.zeros(len(self.x), bool)
        for n, i in enumerate(index):
            if not open_[i] and not (scale[n] == self.scales[i] and self.equal(got[n], self.codes[i])):
                lane = int((got[n] != self.codes[i]).argmax())
                self.seen = (
                    f"Block {n} of the call: scale {scale[n]}, alone {self.scales[i]}; lane {lane}, x = {self.x[i][lane]}: code {got[n][lane]:02x}, "
                    f"alone {self.codes[i][lane]:02x}."
                )
                return False
        return True

    def rows(self) -> bool:
        """133 blocks and other counts in one call."""
        return all(self.same(i, *self.call(self.x[i])) for i in map(self.order, (2, 5, 9, 16, 17, 33, 128, 133, 259)))

    def single(self) -> bool:
        """One block in a call."""
        return all(self.same(np.array([i]), *self.call(self.x[i : i + 1])) for i in range(0, len(self.x), max(1, len(self.x) // 8)))

    def wide(self) -> bool:
        """Several blocks in a row."""
        return all(
            self.same(i, *self.call(self.x[i].reshape(r, -1))) for r, i in ((3, self.order(21)), (1, self.order(66)), (5, self.order(35)))
        )

    def large(self) -> bool:
        """More than 4,096 blocks; more than 256 in a row."""
        i, j = self.order(4099), self.order(2 * 261, 2)
        return self.same(i, *self.call(self.x[i])) and self.same(j, *self.call(self.x[j].reshape(2, -1)))

    def again(self) -> bool:
        """The same shape again: other data in it, then the first; what was returned before stays, and so does the input."""
        for count in (len(self.x) | 1, 11):
            first, second = self.order(count), self.order(count)[::-1]
            x = self.x[first].copy()
            kept = x.view(np.uint32).copy()
            answer = self._quantize(x, self.fmt, **self.options)
            before = [np.array(a) for a in answer]
            if not self.same(first, *before) or not self.same(second, *self.call(self.x[second])):
                return False
            if not all((np.asarray(a) == b).all() for a, b in zip(answer, before)):  # noqa: B905
                return False
            if not self.same(first, *self.call(self.x[first])):
                return False
            if (x.view(np.uint32) != kept).any():
                return False
        return True

    def strides(self) -> bool:
        """Views: every second row, part of a wider array, and memory in column order."""
        i = self.order(37)
        x = self.x[i]
        apart = np.full((2 * len(i), self.k), np.float32(1e9))[::2]
        inside = np.full((len(i), 3 * self.k), np.float32(1e9))[:, self.k : 2 * self.k]
        turned = np.empty((self.k, len(i)), np.float32).T
        for view in (apart, inside, turned):
            view[...] = x
            if not self.same(i, *self.call(view)):
                return False
        return True

    def halves(self) -> bool:
        """Inputs in float16, and in bfloat16 where NumPy has it, with numbers that both hold."""
        names: list[Any] = [np.float16]
        if "ml_dtypes" in sys.modules:
            names.append(sys.modules["ml_dtypes"].bfloat16)
        for dtype in names:
            with np.errstate(all="ignore"):
                narrow = self.x.astype(dtype)
                held = [i for i in range(len(self.x)) if (narrow[i].astype(np.float32).view(np.uint32) == self.x[i].view(np.uint32)).all()]
            if held and not self.same(np.array(held), *self.call(narrow[held])):
                return False
        return True

    def axis(self) -> bool:
        """Blocks along axis 0."""
        i = self.order(72)
        x = self.x[i].reshape(24, 3 * self.k)
        codes, scales = self.call(np.ascontiguousarray(x.T), axis=0)
        return bool(np.shape(codes) == (3 * self.k, 24) and self.same(i, codes.T, scales.T))

    def tail(self) -> bool:
        """Rows that end within a block, filled up with zeros."""
        for cut in (1, self.k // 2, self.k - 1):
            i = self.order(72)
            whole = self.x[i].reshape(24, 3 * self.k).copy()
            whole[:, whole.shape[1] - cut :] = 0
            want_codes, want_scales = self.call(whole)
            codes, scales = self.call(np.ascontiguousarray(whole[:, : whole.shape[1] - cut]), pad=True)
            if np.shape(scales) != np.shape(want_scales) or (scales != want_scales).any():
                return False
            n = min(codes.shape[1], want_codes.shape[1])
            if n < whole.shape[1] - cut or not self.equal(codes[:, :n], want_codes[:, :n]):
                return False
        return True

    def tiles(self) -> bool:
        """Tiles of 16 rows that share a scale: that of the row with the largest number, wherever it lies."""
        tops = np.abs(self.x).max(axis=1)
        finite = np.flatnonzero(np.isfinite(tops) & (tops > 0))
        finite = finite[np.argsort(-tops[finite], kind="stable")][:16]
        if len(finite) < 16 or self.k != 16:
            return True
        rows, top = self.x[finite], np.float32(tops[finite[0]])
        answers = []  # what lanes become beside the tile's largest number, which stands in lane 0, then in lane 1
        for lane in (0, 1):
            beside = rows.copy()
            beside[:, lane] = top
            answers.append(self.call(beside))
        codes = answers[0][0].copy()
        codes[:, 0] = answers[1][0][:, 0]
        for shift in (0, 5, 10, 15):
            got, scales = self.call(np.roll(rows, shift, axis=0), block=(16, 16))
            if np.size(scales) != 16 or (np.reshape(scales, -1) != answers[0][1].reshape(-1)[0]).any():
                return False
            if not self.equal(got, np.roll(codes, shift, axis=0)):
                return False
        return True

    def tensor_scales(self) -> bool:
        """Two tensor scales in turn."""
        if len(self.others) < 2:
            return True
        a, b = (tensor_option(bits) for bits in self.others[:2])
        first = [self.call(self.x, **o) for o in (a, b)]
        second = [self.call(self.x, **o) for o in (b, a)]
        return all((p == q).all() for x, y in zip(first, second[::-1]) for p, q in zip(x, y))  # noqa: B905


def _commonest(names: Sequence[str]) -> str:
    return max(sorted(set(names)), key=list(names).count)


def _coprime(n: int, start: int) -> int:
    """A step that reaches all of n places."""
    while np.gcd(start, n) != 1:
        start += 1
    return start


#: Pattern -> the keyword that it needs.
PATTERNS: dict[str, str] = {
    "rows": "", "single": "", "wide": "", "large": "", "again": "", "strides": "", "halves": "", "axis": "axis", "tail": "pad", "tiles": "block",
    "tensor_scales": "",
}  # fmt: skip


# Back.


def wrong_values(dequantize: Callable[..., Any], fmt: str) -> str:
    """Every code under every scale byte; products beyond float32 are left out. "" or what is wrong."""
    f = FORMATS[fmt]
    count = 1 << f.bits
    bytes_ = np.arange(256 if fmt != "nvfp4" else 127, dtype=np.uint8)
    if f.wide:  # 256 floats of all sizes whose products are normal numbers
        n = np.arange(256, dtype=np.uint32)
        bytes_ = (n % 200 + 27 << 23 | n * 32771 & 0x7FFFFF).view(np.float32)
    codes = np.resize(np.arange(count, dtype=np.uint8), (len(bytes_), max(f.k, count)))
    scales = np.repeat(bytes_[:, None], codes.shape[1] // f.k, axis=1)
    if fmt == "nvfp4":
        factor = Format(16, 4, 3, 7, 0x7E, 0x7F, 0).value(bytes_)
    elif f.wide:
        factor = bytes_.astype(np.float64)
    else:
        factor = np.where(bytes_ == 255, np.nan, np.ldexp(1.0, bytes_.astype(np.int64) - 127))
    with np.errstate(all="ignore"):
        want = f.value(codes) * factor[:, None]
        want = want.astype(np.float32).astype(np.float64) if f.wide else want
    got = as_array(dequantize(codes, scales, fmt)).astype(np.float64)
    asked = ~(np.isfinite(want) & (np.abs(want) > 3.4028234663852886e38))
    wrong = asked & ~((got == want) | (np.isnan(got) & np.isnan(want)))
    if f.e:
        wrong |= asked & (want == 0) & (np.signbit(got) != np.signbit(want))
    if not wrong.any():
        return ""
    row, lane = np.argwhere(wrong)[0]
    scale = f"{bytes_[row]}" if f.wide else f"{bytes_[row]:02x}"
    return f"{fmt}: code {codes[row, lane]:02x} under scale {scale}: expected {want[row, lane]!r}, returned {got[row, lane]!r}; {wrong.sum()} of {asked.sum()} differ"
