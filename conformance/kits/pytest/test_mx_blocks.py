# Golden blocks for MX and NVFP4 quantizers
#
# 140 golden blocks of each of mxfp4, mxfp8_e4m3, nvfp4, and 11 call patterns. What a kit of this size finds of mistakes that were not looked
# at when its blocks were chosen is published with mxspec.
#
# Written by mxspec 0.1.0; data: CC0-1.0, code: Apache-2.0. It needs NumPy and pytest; torch if TORCH is set. Edit the next lines, or set
# the environment variable MX_KIT_TARGET, and run: pytest test_mx_blocks.py
"""MX and NVFP4 golden blocks."""

from __future__ import annotations

# ruff: noqa
# mypy: ignore-errors
import os

#: The function under test: "package.module:function". It is called with (x [rows, columns] float32, fmt) and returns codes (uint8, one to a byte,
#: or two FP4 codes to a byte, the first in the low half) and scales (uint8, float8_e4m3 or float8_e8m0 [rows, columns / k]).
TARGET = os.environ.get("MX_KIT_TARGET", "")
#: The same for the way back, (codes, scales, fmt) -> float32; "" if there is none.
DEQUANTIZE = os.environ.get("MX_KIT_DEQUANTIZE", "")
#: The formats that it supports; () for all.
SUPPORTED = tuple(filter(None, os.environ.get("MX_KIT_FORMATS", "").split(",")))
#: The rule that it follows; "" for whichever is nearest. The rules: mx-ceil, mx-even, mx-floor, mx-rceil, nvfp4-decode, nvfp4-exact, nvfp4-exact-encode, nvfp4-paper, nvfp4-te.
RULE = os.environ.get("MX_KIT_RULE", "")
#: What `tensor_scale` is to it: "amax" (the largest magnitude), "encode" (S) or "decode" (1 / S); "" if it takes none.
TENSOR_SCALE = os.environ.get("MX_KIT_TENSOR_SCALE", "")
#: Pass torch tensors.
TORCH = bool(os.environ.get("MX_KIT_TORCH", ""))
#: Also fail where OCP leaves the answer open (NaN, infinities, the sign of zero, the lowest scale).
STRICT = bool(os.environ.get("MX_KIT_STRICT", ""))
#: Keywords that it takes besides: "axis", "pad", "block".
KEYWORDS = tuple(filter(None, os.environ.get("MX_KIT_KEYWORDS", "").split(",")))

import base64
import json
import lzma
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

Array = Any
#: Quantizes rows: (x [rows, columns], fmt, **options) -> codes, scales.
Quantize = Callable[..., Any]
Blocks = Sequence[Mapping[str, Any]]


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
    "mxfp8_e4m3": Format(32, 4, 3, 7, 0x7E, 0x7F, 0),
    "mxfp8_e5m2": Format(32, 5, 2, 15, 0x7B, 0x7D, 0x7C),
    "mxint8": Format(32, 0, 7, 0, 127, 0, 0),
    "nvfp4": Format(16, 2, 1, 1, 7, 0, 0),
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




def inputs_of(block: Mapping[str, Any]) -> Array:
    """The float32 numbers [k] of a block."""
    return block["x"].view(np.float32)


def as_array(a: Any) -> Array:
    """Bytes of whatever was returned: NumPy, ml_dtypes, torch."""
    if type(a).__module__.startswith("torch"):
        import torch

        a = a.detach().cpu().contiguous()
        a = (a if a.dtype in (torch.uint8, torch.float32) else a.view(torch.uint8)).numpy()
    a = np.asarray(a)
    return a if a.dtype == np.uint8 or a.dtype == np.float32 else a.view(np.uint8)


def plain(quantize: Quantize, *, torch: bool = False) -> Quantize:
    """The same function from NumPy to NumPy, one code to a byte. Two codes in a byte: the first is the low half."""

    def call(x: Array, fmt: str, **options: Any) -> tuple[Array, Array]:
        given = to_torch(x) if torch else x
        codes, scales = quantize(given, fmt, **options)[:2]
        codes, scales = as_array(codes), as_array(scales)
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
            raise AssertionError(f"{fmt}: x {x.shape} gave codes {codes.shape}, scales {scales.shape}; expected {x.shape}, {(len(members), 1)}")
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
    return min(((r, failing_blocks(found, fmt, blocks, r)) for r in rules), key=lambda p: len(closed_blocks(found, fmt, blocks, p[1])))


def shrink(quantize: Quantize, fmt: str, block: Mapping[str, Any], found: tuple[Array, int], rule: str, kind: str) -> tuple[Any, tuple[Array, int]]:
    """The block with its largest lane and a wrong one alone, if it is still wrong then."""
    legal = answers_of(block, rule) or ()
    x = inputs_of(block)
    if len(legal) != 1 or "m" in legal[0] or not np.isfinite(x).all():
        return block, found
    want = np.frombuffer(bytes.fromhex(legal[0]["c"]), np.uint8)
    for lane in np.flatnonzero(fold(found[0], fmt) != fold(want, fmt)).tolist() or [0]:
        keep = np.isin(np.arange(len(x)), [int(np.abs(x).argmax()), lane])
        small = {**block, "x": np.where(keep, block["x"], 0).astype(np.uint32), "a": [[[rule], [{**legal[0], "c": np.where(keep, want, 0).astype(np.uint8).tobytes().hex()}]]]}
        (again,) = ask_blocks(quantize, fmt, [small], kind)
        if failing_blocks([again], fmt, [small], rule):
            return small, again
    return block, found


def describe(quantize: Quantize, fmt: str, blocks: Blocks, found: Sequence[tuple[Array, int]], rule: str, wrong: Sequence[int], kind: str) -> str:
    """The simplest failing block: input, expected, returned."""
    i = min(wrong, key=lambda i: (np.count_nonzero(inputs_of(blocks[i])), i))
    others = [r for r in rules_in(blocks) if (a := answers_of(blocks[i], r)) is not None and matches(a, bool(blocks[i].get("z")), *found[i], fmt)]
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
    return "\n".join([*lines, f"  {rest}; returned is what {', '.join(others)} gives" if others else f"  {rest}; no rule gives what was returned"])


# Calls: the same block must get the same answer, however it comes.


class Calls:
    """Call patterns of one format; each compares with the function's own answers to the blocks in one plain call."""

    def __init__(self, quantize: Quantize, fmt: str, blocks: Blocks, kind: str = "amax") -> None:
        groups = [b.get("g", {}).get(kind, "") for b in blocks]
        commonest = _commonest([g for g in groups if g] or groups)  # a tensor scale, where there are any
        chosen = [b for b, group in zip(blocks, groups) if group == commonest]
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
        """Whether blocks [.., k] and scales [..] are those of the plain call."""
        index = index.reshape(-1)
        got = np.asarray(codes).reshape(-1, self.k)
        if got.shape[0] != len(index) or np.size(scales) != len(index):
            return False
        return self.equal(got, self.codes[index]) and bool((np.ravel(scales) == self.scales[index]).all())

    def rows(self) -> bool:
        """133 blocks and other counts in one call."""
        return all(self.same(i, *self.call(self.x[i])) for i in map(self.order, (2, 5, 9, 16, 17, 33, 128, 133, 259)))

    def single(self) -> bool:
        """One block in a call."""
        return all(self.same(np.array([i]), *self.call(self.x[i : i + 1])) for i in range(0, len(self.x), max(1, len(self.x) // 8)))

    def wide(self) -> bool:
        """Several blocks in a row."""
        return all(self.same(i, *self.call(self.x[i].reshape(r, -1))) for r, i in ((3, self.order(21)), (1, self.order(66)), (5, self.order(35))))

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
            if not all((np.asarray(a) == b).all() for a, b in zip(answer, before)):
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
        return all((p == q).all() for x, y in zip(first, second[::-1]) for p, q in zip(x, y))


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


def wrong_values(dequantize: Callable[..., Any], fmt: str) -> str:
    """Every code under every scale byte; products beyond float32 are left out. "" or what is wrong."""
    f = FORMATS[fmt]
    count = 1 << f.bits
    bytes_ = np.arange(256 if fmt != "nvfp4" else 127, dtype=np.uint8)
    codes = np.resize(np.arange(count, dtype=np.uint8), (len(bytes_), max(f.k, count)))
    scales = np.repeat(bytes_[:, None], codes.shape[1] // f.k, axis=1)
    if fmt == "nvfp4":
        factor = Format(16, 4, 3, 7, 0x7E, 0x7F, 0).value(bytes_)
    else:
        factor = np.where(bytes_ == 255, np.nan, np.ldexp(1.0, bytes_.astype(np.int64) - 127))
    with np.errstate(all="ignore"):
        want = f.value(codes) * factor[:, None]
    got = as_array(dequantize(codes, scales, fmt)).astype(np.float64)
    asked = ~(np.isfinite(want) & (np.abs(want) > 3.4028234663852886e38))
    wrong = asked & ~((got == want) | (np.isnan(got) & np.isnan(want)))
    if f.e:
        wrong |= asked & (want == 0) & (np.signbit(got) != np.signbit(want))
    if not wrong.any():
        return ""
    row, lane = np.argwhere(wrong)[0]
    return f"{fmt}: code {codes[row, lane]:02x} under scale {bytes_[row]:02x}: expected {want[row, lane]!r}, returned {got[row, lane]!r}; {wrong.sum()} of {asked.sum()} differ"

DATA = unpack_data("""
0{{R31poj4|NsC0{{TIR&hwGa`AXYkdM_eTeb3>`a;IoEeMc0*FC~DHZ2$VLAhXr9t}Nh_xfBl`cAuO(;oa`G-NJDx@6tz15nCd0UX<ixVE&!ro}{@cRD`g1L><ahWCf@VVQRjz%#b;=aA2<#s2q&+mzgn#QRhzLs-pVs6!6vu0s^RbJUctHrnX~poero-$8;I?TNK>%Ifh6LRh&jQsnE%F-k`fgt6l5Ae%7BrF1{(gGiVX`xnLeo80E&*1)_SED|vXhF!M`EpTY&r9MV)^$=mi#pn8w5M8Rv!c~MCYR16ShbAeLHaPYF&JlEzusA)SbLIGI(NzoTJn-ZJOIc?&S&AZc*=Y|*-Qw*Ie6zkLDy)!?5fJD*Gb)vF~_tgLNx~<i-oy+m%XFi1Hb5`MWTs>74y^Q7h!v$A#D^8+%8K1T~vSDd<oNqoi<5P8xLNyMJUH)jnpF_5z&qd8ojynL1D(pzBOhW9VpZa<erv@ysh_3W2BYU9Kb_f!kTvzeGrUAm0P(t7;ChqtD-
v_<bvv#<#zO&7rOPs&QAn{yQUUazRt(>g>8vn^SMaq2=y;1`hUS;?=_GOtR!r1wB7+mdkG3kIbH8*(Hj7UHn$7^~XC1$FQ^%O^2(+BRY{$cF_Xma12S5WQaw~ZoW_%Bo`(Um|XOq?oO&9&NdFb|7r2QXU`LmSh)#k?hA#>+pjz>{z6Zm$hr^dnAb7eTV!FwBrC!!ka50+AA+NWAQ}Be>BiO<LUxwy}q7IbFO#Et8bpvnP&$SJk~oO(Kzi$fSU60a6Ptm8and@bvvkQM-2!#vvI56H4{<7X?6LiH~FlN5)}HBDy*iysf#s;Ma=MO;tAZAQKd%rDgCZ8tquG<kZuFFIHpf_Y9hT4&v8&=&x-BJ#DF#L$3`45mAv#f!eB<yXaPtRC8<9OX;>1J+2I^_r(g7P{ZyfG^96(au;fIkaTuYr};|U>w+&ACbY`#J0B&MgfZg%ouq?xQFNJug`092rQDHXwgCbm5SHVQbxw^<6Y^9Nqqi6EMq-%OXmA1|Xb<etbYOW>Y`6xzPK_J~_NFS&z_qRsU7gMahh74?c+ARjU^D8J<gF%Vn3=5fOeo`5^8J)icGxg+O&$QHse&b-7dp6=6<(xw>1nWnzP*FfYUZ6i?=fl$ziJHRy(?$7kE(5ZHC`HqXvDKMqWDY6BWRWQ#!Gc96JSDhjADmX?_2PK=O8_D_HD5G<~oMs#$6)Lo@Q4~HhqAmNWJ{&yd%^WWnirk_A(7_c^MNb#_4A5fjw8asiaF#uvAg_Bk+?H7|XfXQ&Xjej(O&$xjYavIsKU;zYKHFxgja)9#vs~*%k)l&9TiM65TtLq{WAb?jg1YaNKZxvn_^6Tp;9|O4Qu)OiY8QJDvoW!&yY5113He@hqzu9uA!qG%6z4V`{ISO#FiOTiy`=Y>Zl>WVJn(YZK-
O_exv<6n4Tjsh%;exdr*<uVOOuF8e#+iXeo8R-PPOU2mOB+;AbiQ+1O0vA*VQLhtvKpw6d>K{nD?Nzul~WXqP^eL59sW>f2<gqv*TTkfSTL?VVNe$0vcDJ>Po0Cc6x-4v=3;>NP37ywMzpSNB48a?=YFH(1Ne;J%Ix?B?(;@3e(a$%Hjyx_!`2r6uLtWK0&{CL_VSx^4&1|7R3oUZGqdR{FB|BquX9f}-S@|tbLD#NF;6zafWrJed9_(6<P`E+}>uVuJ{ExfaOXYZg(OO}4gc~+U*!I2Bg8}1ecx<asy*>TFG&T{pgSZ3U<0hL-zGiA7GcGGd&DpBBfrjMz7Q>~L{Lj?2rulo`rnz>lku>HW2-a2=OXq+e1L$O!)1}%+8?a31979s3@Yh_``Ua2Nhisjvf7Ra0(Vv#$2Zxx;0%PV`0DAaD2@$te*B^o_z%quNnPc;F(2~?Yd!Iebv6tbJU{zIs|`f&2|Su9531u=wyJ$eHI?W&A#i^1rLYCN|R;N)}vTVRiKExuuL+GZgcE7*@tcK-e7cSV6@(m@65{d3je!=0<1<L3iBvV~M}XE@W?bas|0jsw%aLU`Lx&v(QyNk0?vPijD_P^tXKm)srGL?hWSWaQmU&>mg1i|=|MV+E`llk;$1QJ&|_??OynS9KXA#YIuca{Nfw+aG|%%I|`>Lr;ZATh)S4<|{ML*7-M~3C8XRll5WYFZ~W-(Q85YIkUfBWvUyS#78QI$L>zQeJ6>Zd@QD{reM+*2Q2@F9H&TvrsU|K`4(Mzvq*A2Taxb`uhpH~Mt7s9UFc`MJHuvCEU)kG`sC}BTqoyV<}I(fo}w@A-V;81lkYv}_97E+*^>(x9?@uveG0BNoEhoKn%&?Pb63Q}67b0hrz&&>0ojg?gLn1<`mX#CA@=_+UZx1jTOzUggv&B3o>ZaL!lc4CA3H&>@nIKZ1Xf8=7w{rPU$eKUY%%AJ*JoXrlo)5vIW4a^@cs9H^jBMkvW5OE;;7~(#*e1E61d-
jbHBsq6}pl2EOs;d|0n-i9?pNSK#{RLt~&FYZnW8i0!xjK1YkyW6&X<8!TS0@O;@y{%waIa$Ot0NjPC`0l8iB%#oBCO?9vHlDc#QHL|1YiblPBOepav9b}h?iTd!8WHqUlRT-N749m`}J*X?Y}U^fT)*}&}aURvX<K;j!U{ha&CaoN6#vk5}e^iRK)rNOQrh4BCBEa7pLlda^L7Ea%hjLJdEw>$cd{#gsUMK4_YMezZd9oi5$bFf%TEd9YLrdhdm?(Xrc<$xh0=o#*HbTS_x?rrahplUa3KKp$<JlUr8Ym*u1I8<3Az$mW?wqvvmn-Vy!CwDkQl0;7LG@7Q`DfxON)0-mf$`MX?Q)V2)*PFpjE|C&<H__~BDBF{vz+Phm%K}9oYR4b_4rLes0WpuxI3o9XgbLllL+1L?X)7vDNW6#5xt1baz`LNSxk0hj({>va*`Oj-e5P`@^84n;Tf%|ZsYFRWNA^MladEOe#!~58-6*|As`AglQ9tVFb-9z83olo;`C~*esacm8{3YkaK*KXltei;_w}2v0{zXU|l^Ld<9&2N^08S(Q7Lh~ZH!{m2ih8$F;uCA<!f4fOjsM^EiO#Sn`uAUiDCfvRDzQ#fX!yj{tZ4EQz8D%mKi3999;kh%mmOgf5QuQ<yehs1$8lkYtu@@(Km%<*M_2Sfq|>gf_fzKR7|<Ycd0nhZ4e%QJZr`5(+1UN+GbGvcrB);arF<VH?ouo$kTteov1S@Dt@(C*njD|ou#)XsAoPI=S8wSlq^LL`P6O>$Aq8fi{_R<Fhj-
IigVNB^G4V*_y0?h3C@4u-I%?0tv7}P|+()F&o2qoW6zc$NGs2Y{3+fGKYVk`!WHz&^{mUMI=B84@3k18Bbnk4KULGdS+mcLA{aSEJ#?4n6mXCCASE|m)Lkbw{ehp`v9w`ASrOP|Isn>Iz%o7{Y+7r;>xgV7xvouz1lPUKOv>jog1NHl;iEuw`>3xo;9Oi|kwS(Zc3=rKX7o8NvK8t?K?AsvPD#F89>n0$G*^Ahbc}`cW`0D>z5{jxEm~S`{+sF-HxJ9>ZQ#-c%wV76tf3ulvACRro0#X^x)EaK8R=qz~p?8S2l$YQvILy(g2n!{b^li$mZWa{gK-LpEWtk+2{twiJZO!kR@h*z*ix!>9mt`k=s3DIR&aw5`W){4!rOODs36!V~SPyGea&{u<;SRO0P`;bD!wDQTOzgLQq87DPR{)Pt+3HQO#q5F;fx`;ToHp=kqIq~tK_(HptgJ3b9Sg*A<#1k**w8u=x=iz6n922DbiOJ<ftvP!7Q|>?1NvmgUEE|?QKhvt4Dv5rhg8lxo({QYLbQDguILW8bd$Mg+x`+LZI7`weYPR6h4Yl;ayuw4@jEwrC2I5th)j!r4Rve(Lv=mVyh=y3#^&9+mTR&WeOb-DZSz3~;bSq$_Xt3F45r7FHn8PhBO~MSgaOgE-;uIa<`cf7Crq6n#yhFneiz_Ifx6+Gn4AL~txAD4x#wEcXIPL&PmU{@l5VJBIM3zlNu<)pB&c4uM<WbVAp#|um-^XT-r#r)*Q-k4&exuskWEwwo|xj0_i=-37mqE*NF)L!0QLqo!EW%L?S1K!euaRv(=+@eHlY&xJE;o94?R3_C@|32PX=VS>oJ7+>2Kg~<cogm7el8$-h}k#xT+e|YypMwW?#^&8<b5#TRXIUid)?q3!Dq<Lf&$6ESM`42G`W1Q?m<A!Yw<-
R|;GB^9NVVpv?FvTja><qmxgIqOO?>uMZF`&BU~)6cuWJ8#)WAa4=ht+yyQHf%xBO4HEakUq4gqsccnXVKWcf)hm3IMqxJ<r~uKWzvNd)KOhxCS>eh&F45Czia+`=c^&4agd%TSEf0)A{VToEEy4kfN+a_S1xJHVev#G3yQ96(cbnW^$*=NazPl7_r>cxT7GPXJsq`I{DojCaE@>So@A_U#aGh|uKdYO=^k%DL5U)x-bf(bG{JyJLf|i0j6t1+<oMlPo9H?L28o9hKM&lq&*QZ40dB2nbB)fK6iIcW^&41fTj1=`%xl!2OPm$7UYP<uNTOz+iGC_ea{9*3FaJuSp%yxtT@UpI^mP_#0t`Hq^z3b;>Vd~~3H0nSjDmt=|&_cE?7k6@Drwk)wP1jJXS5*YutAyo6R@73bui8xLM_KNdK4GwrZ5A{Y&wXBebfKJ7uE)X$*yWvboNjD7vZsZ0b8as5RaGW1g=@VMv1C*yU|OD1riekiF#+e;Q%|MoF7-wc7{x1LF;gw8yJG5c{=Q3vQxiFeET>n<s%Lhs4v{S-YJ78LWZX^v+*Wd=DAnG5k$3)kU`5b~%{@-`qK)ePYKL)d94>?evcb5MdJke=Aklu41U#{ykesBTiaYLs(OaM<I=aCZsF{op9LEJN;nx~%%Bf^2Xu5HvC$IJI1BU|`2#{J;qFO!egR8T*67q;DS9O-c9zdL&SwQWkyxn!h#4^$qPr6B4xtzXj|4Ic%8r=&SjlfJvY$0(FiUTx`O2*z(uSst+)@SaY2YOz<$L5Q9ND=1S(EO3T6|f!?CJns!c?_>!zZ{V`l~UdMS=qT*tp(>Ioo9T?RZaaWB1}!!Hf<(%Mi;b3^W%PSInO1wOIkWBpk(3KH_PbGm98gnYPM+<(Dq%*J;{tZO;_$+kiQR-5J$XGG@0Cz&~?0}L*<za`_>xcdX1{J;kHL21*8ZA%FCi8-
xIYhHewGk_KX1cwvpiYi=T@|DrAL34TXgTl)+@aK{nejqls#_51>S4NH2``aG?r1PNop_gT^8iy1X(3Ss{S?D=7o0N0EPUy22*#I5YRf@R}HH#vrQg%+l?~KXz*Sk%I^4ofxtftT5R?;VNKn_ioiTx(<bn*#3v|Bhq_umNC(M<<D)so>YZ07I@SYoM#8Xx{O9`7IIVaJ!?4X%RJDPwYTRYt>=2sx4PWDqs6^D4xour*kBd%i2QaPNe5IAh<R%9{U^&#(;oy7<5{Rb?M`o}?CtSdnvQ}LzKHLhRixItgM!Kkbav{XMF{qoRmhv~e1EGcP6<_{C51S1*th@%>M6}%>DCgSDzfR7a=Z@de_3$)^NDrGa^Ty($$K*1Z@f48LjlaH$#CmcP^uINv@<OVNeY?UB-WJFCrTpRhF;}=Xz9d=n4)OWb}``9KR$A$N&)99RzCILfB4P{MKT2DtS3ZgCnNqR=U~=`jCt`FF?SA-d7!S#Y{^FU?pjt?IIwRvS5oyCUSh4c8Edi1piYKuUwoe;RFKjQAz<gWa~=3t9BVikbRBKWf+>zJkGc}EWYddi&b98#v&#sz?L^=HUSMk-&wZ!QOQYMxVap%t?UKbZy+sIk+80GS=-Lvb=wjN!4rLSqVGpOmj3EI9qq0K#l?y}h)xY8q#TLkqjO;eUY)HT@c+~fFi_nB{68vp@i=iC&1bpvz<9HGQd{~;O^QFlpFt<FPg)$)5RkOd!Fk`0=IfJb}*T!!?hik(d#mhV8Nu$T@HbxHa1(-QT<OX6#sqLE<+7MCwJcptf9nk^ZvythD!a90RnJO?JgKJANoWBx?J}sB>e@f^Psy;POasD9z+q0~4C=;G8eBFk7KzG>X8dcN!D(qVk*9xP15R39eS^wRYTAfc7R{+rXC{W?^IgPYBN1l!lcF|ANbZ;A4iGg2&kL{9}39#-
F78*Y(Umfr%;|POXphZrUvM{hyt2WXgY~1VCz}uBn7}QswT6H<P$Yh#bO`#}}%dtkV)Ie)AcU&<v^r5RQ)HR2>pdi8F-N;uS@vzYJ-|CV8N(w^T);aJ>9|P#B=}c{cIL=~yt-$R`zdD=}$=Y*gD+q-JHnknhRwW0l=J;8uOSFq+UbTG=V)c<xy1f%G0nOeVu?%f+2to&d7@C*DbT(BqcS|Uby*G?jd(Fyob%m@-uvt!<ifBFKg#?<MQ%<r6WPx!Wvj=^(QR3ZxNMh}wUOoSs<)LDMIa4yGF5y_8t5?tDISqLPf~YeoHCW94GM7`;hOMrY#56zEFWK_aRR=6>qxn$0*pR}{WV?>T^i74}sU$)mtt%rL)5ez4gQ$z42)V$sW3JnAmt79r2d2GgOZoLL?(V1YtTjF~jJj0e@2&U=Q$qNszm#;3nmSQOpY<yua$Wjo*>7@w>e(|gZpsu~PntiPK%?~bEb5t4GZ3)&sm6i4)18z2Wrt)oD#c$$Pd<mkYW>Tp0|%snFvJ<FSJhmB&`FSmzIAjhpSHzQ#E~;`4irb=j&D{^qQK)PqicS#iRfMv5OcZr65#$F_$X<Zebp57=X-uokco!?!DuU7yS+I)YN>c8e}0M+w}L!@>p7UC4R+Ldnv8uu8Bx7QhdZ<q_t=E-j2MaID@a(iQ@j%uz9_Azf`Y7fF|X;hn5*5)MJLN&#sf%~oQjP@HQ-
zstfdT$?yr%TRh~8>Dm=R;cNY#g)!5IrJLx{3t!4JpKbk2e*uDDk>*G6|A32rXbdHTj{S5q@)_yxU+T#HapTVPNCWBfY5ixSt_gDHEg#bCxRJx}@4bQiE^iHPtmxv=d46tcw%z2;OUI}cPC%JcJP6Gvmi%@N1hmYu%`g53$+Um84krnwaC-Q>hOv-V|<g4k{k?zxd72T~xm;Ku{uahsiQ%>@$Iu5*{G~y*%6>^5=a!|#Zs&esu0SZxF4#GDw`Qobd=cCeYau0@fq{nyCJvUiQ;B6m={r<0&tnWkG7K%(xvn_HDy;N%vSP-
dz>s^th2&d|>?Fc6$(ftk3sLw>r*7;%GV;gKodDdmwW+v}xA#5w8rW)@E-kx^QF6dAh;geeF|9y->8o%eJL)9`UhB*dheJBrwJXa)d&V`6HE_5wb3M#@DO`gU;i9?Ln1>Xgrly32M>11iC0-Q`7bQ{H%&gIIpP0WwbZ~hV%%<szfOofZ6rX_^&2_aa}xUdVoTJClyEbH|A_6)}(BJx=uTaZ?{a5$!~uz_|LFb^5Nq)m{f>P#rP2;Vk<;hg1rbc(Snl!)%Pv!o_#bHm{?!}FuHJeB&T1arO3cQ7)v3Ohmz(O`%#2Aor`7A^sg)Enn7^jYF;`r<hIufnsSx$1v-w?8bL;GfE|5E?#4qudcs3=j`JxR8hizLDL1E}4LT9!@}cbs3FdDA<eHi3CXQzDbyVHCP2?K8<@^UKgkr3<{<vI4e>-4;ZtFB=%Fg4)SBPwvO0x94kd8H}Y~_koXd(F(sOEND?mvNAVZCe{%E|4kC}_+&!o*w_<H&FLI%18R+4UIqS=n)E|Lufpr$P^&CaPr+7oTnga~6A;IeWC%nqYyVVaiz{Iw1&LUyF$v2@>X%4XuPwTS$eFZel=u8@60<Qu!sSLIhb{Zus)qyhE*VP}`c)CJ-u%)|*Tn552@5!3c2_6z7Q9%pbfd;zz8=B0;cyww9I-f+;X<euBh#4bxJQJU6m7eFWY8ha0%E3i_5F3kTdMNajw9VV@@bThJ@korWx86%v#e7Y61?It<wF8WmM)@HeuW|wH-
TU%fxpU$@?6irsWxNA!92}i7mgxV;r?{;z<ZxDhEyTOs$^Z)19|>rCsDcyxA&RWHX2d^^FT&DP^2wIW!!x^&{3k6awdp^d!?&Ru1<5&G&m>kX*9geEE!7?pkebZC1YBG$gX{wi(&7O5{Ci5ELY=9{gU54Kk$*`tAKDN;LczPtX|P#LLA<;{YZvNtynku;bE5HJ8@r9j9$CFTY$-I020PCi$k%R5E(rUq2x3=$3vN1G@yuw9pkVJS=}TfGA}S#!$QtkNzM;lHSAUWMt5+2dhp~i!>}^S|GBpYLlv+#W5lSM?>vakK-l!UJA-imK6+yEYF7j;G;s*u?j%=5%PA*W`x&N9Of%ixi3@<n$a}E`aeih0<`v2?-PHuZUB|rzS?kmLr<O>zFyo89Y+@WP<eWjg;+4B^8o`@lxsKJ+eQ^MEHcC_x2*08AeX6MkuWRbIUY)c=9h#jUoE2grL{LDGg=%sH?{iM_j_)1;E=1=64KMp4+N^nI}^g&kHBPA&-B9z9($=M8}@16DPTskz=<Cmu(v}L9=*zQM<aO-{&Zx%*#wMs)-dVT0$6}Ps{M~G+Fp(Ap`sPgo!PORb>?(ewRaB<g7^d>w+hufv<_^@qB()GrrH=h6VWM<})28628rpCpq)+5XvR|kPhm`FdlBJoDzWc4yPfj4aBM~hB}?NVoywM`!xS8E2JCu<eL4gRte<>JmYf*beV?VMDg-
QD;V1jD8tCM>PDJ{8d_j_;;jStqadq*z5FUujq{I}X~$UUht|vmgTpOo~MijVF2!)3QOA>o=^L<LA#PWk;w-%xSB5?K_mK-)(2S>fOaRd2Cs(^EaEqMI(#AR%0gv!N6N&x76&j6jX5Mi+H2=zj#3GU(=U9*e!_N`(IY%T`Pg<qWZA;!7j42VEMM*5^$DaJ|66T)o}4OeF_+FEtHr&2Z0eVJzqNdDs)W$O`v(FiI`TLrrf$O?Uq0*A|%3jz^QOBIcQ#Kfp7y)2StUz;9|0gnJp<`<h-i0Rf$p6s2(vfGkq0zubcuP!Yhcxfcq*)X82@}{xzgE%9VU)!bU2|Qf4QgIfiE}FSe3oO499|v3Q$<6-AJ2X%Da&?24C!sNZOMJ2?`!iTpppQ+k26lP-E%Z$z2C6mHa6db^TF4QBr|!Qp@%<%Fpp-W<=0-GQZN856MLO<7rD`Sc&S1%eX^`f5Z%gD1Z{i1|fa<vVWs^i%xhcc@XS--j|1Z^iH<euK&h77tz69Z5CwE7cg%9Fc!nuPoghzswTEA%uEna0Kx?icU;<NwRb!u2EbFs#1l;v7)^AZ0>r8dRTOl_$Dj``H%U@WqxFn^L}G`b|SNPqEQLxK;;-?jiJTFA+8_#RCoBTUCX%<{18WJ!52>66%Q+B^w)jx027{UzE8TlFP&*TzR0fPJjzDmr@^1<6DO$ZtH@t?8#77+If5xN+iFbw?|yTgbP)E_c|#V;>8w$XyN)<(I-v53E|=ssCB6ie$qVK|;_bZAa_F0oScP^rd#U;|?I?en@OQ>1C<ivEfV)~;=<IiL;EgaL;*YyHLfPkcs6-z;wrrmy`1N~jjqmNcOyBWn`Ex4M;A`xdL_Jd`IU02^xXrJ0EPx(zeY;MrxEROW-Q2|yr$8DRl^W<n6q~K0m$FQPf!ywN-
Wbex1#u-I-%DNr6zRWk{ji%eTk59qacKSZ0?VHcSo+n#!KymH`3_1>N~g7(Lz^)a!dTETikN&E)6k)4;6%uv!U{D<-IVc+jsw4+B~H*A29#wovdr0uHFUQYEpWG%9Pig3BzI?P5)rZ3@j|JCu%opSig_di<m2pE?kGtV$vjyUaF~C_7BU=@NRdH2e?4-Om;FiHXQ9f}8`D|x(<#xVsQcL`9!6NpBzi*hOKz=0zI1G6s<i3WSDD&fIm2&5L0H=Gg8z|_#70cV#eSa#Qx4cdo2AZ<t|I3xa#Cc$EzFg>kji|Tsz(JsHx@gI8~hU8?TsT++K<XE!aC)(KjJd(wcSyRsx4m{f&flsH6O_sn6bX6PC1Z7VY?+ALm<mOz-259;=5{D$93q>$HDus7rrQdU9-M7GzdZ}1hP+7IWu*)Oo_>8y89Ki(rnTo8}zIsT^A38DMET8Nr5F~y<%lpcqT2iioRn&CdwTc&!2F`Xm*uvtlDD#2|{3{ax9r*@Xzad#fx(xH{~<cjG&`W{z_DNIknVVfi~nstP1|e1}UMA@A00PpA4V%HQAhdj)es)_;+#u(W}_u)pj2h#*OiY)(=A#2iduH%79p8h`!?D92=-~kF@^80=N?-yy_I!v2;vGr)Z~kdc<a1Ec9dNWi|5Dzd?`VmdeM;69r2O<z>l^gAOC@Cn!qV0zcFMP#FS<3f64(qAhw`iuddtJH)`1Y0nstpTjwF!M5FFP%z&bW%4c)sel)B5ES$%(k2WK?4DWlL%I?I5J5kheLrhD-
MAu7^xK71t@JhA)bU24=!3e@qJrnBG~tTgjP)prWgjD;5&*kg%&6%+M;*6#K#m(J;$JSP#t8mS9xrB>j9j8Efus6<RC9*D^OE5rxZZXtFOWZL1PuCzss629HdTB<%711<)o_tgt3iO0yo}p`0h(;V!FfzN)pL9wf~}ln9}KXo90o0UHOv{$`x}=us!2Fev(PT4O$Xp{))}>=JiUyxePT2X>V7Cq@C%f|waRmGV<^Lv`*<NgY));qV!vd9-BbpKdEyrs#vnp0Qy}x{)x0Gt&Gz_<AAbHF)u2s2^1Gy>A$E%XYyq`;Ub(q7L%(GG$cqD$j30`zu_;9W_OW)+KSC7=loUEif~~R<X?-o3WV&*TGk{jJDnA3KK9}$YW9*ajXb8f7F@qK#`IJbMU=C5er^S`dG-riobMAh_n7#oOWx?)>WL~*2zp*KZvB4ygRwDIffX1{=>ekHHD-J%>sp1qt0_OGK)IfVPPv+B@T4&#&2(em#bG=~;hmXixp(p<tK7Qu{tatI&rxQ9KQ6*%_LRB!Rgh6Hwn`^wOPT({Tm`+RNV*S8I<SreH!!092VbCvIQb8$Vs<?PLZ8hQ<&c|Rgo&Qg!z=VCBHrVdUr|kxzVP-`!<Ee>tp*16>$5G8>K#6|#XBbv%NtT1XYD40Rj6>`YG-==8%<27AiA<fRZ&1(XD}MRMUk6#v^gFaH)==`K9))2F{!}h3gP|%Ty>SH-?^CUT+c@jZiXCgebaZX(-r)@_W_hal@3%<GhdS@d7{h%01%rik^Z!qMAuy1$b=(Erh(|4*81>Mb0`s6Ubp-
d191Ni&aq8|p_4p<}l`)$H;IkYeWKyR)+=gtq)?y#LxsDpuGR6%`5bO(urktIlrc9o~r*a8CI!;T%p|XUnGM~;6j3%M>>ZAg?LfigCfdvWt^DL1($WF0#qdTb>h3T4MVs;kl1)LsO2%x95fzrIOu^mr^HJdM$Td%1l75<QY%9Bmoot1@z&Zm)^k`<(l?(@(*zfR9(Nr+s(@6MmVpfaFpXZ_%ek`FfUuDuS6oJXb_a6D*GBE*fXJ@&R4xT=;}!_z7XeqU5szd^wYhij?g_oz4~u>N@(t9_2XoR5fq$It0^huj9DC?@HITM9ut&mV@|Qu<qUvmRrWkc>)S_D#F&TqLV{3J`;<3eKeeE!RX`a2eif76d1Z03*B3?oGg3qgbhgEeYMe)8F_bPj@u`KY;xk&7AoQp_n$CI1(|fuDdO!>%xF$*S%ey59(8Z!+3dO_@>?#d4=sCgyvXm1oOny%WigYJCtT|5Ithz1Z8q~iO6{u>gx#;N%frOaiAJ(Z$z|)?n5GJ&zPu&E;S=z8lYWxqa%4Cl&!BhFb>w1cze!Wf1c?rnJz#NP#t=kV3EZw@i<+BnpfX{#l3$G_Yx*M$lGQZYsw+}BoN3}Vw&rbwm;Bkd@cQxQg9r_z$J`|5@+rauW@EaZGE7$0b``)BmNN0ic|4KBW!oJSC8;$t6hIzjQaiVX<98u^nxy<Up??@#Q#!7{Y}5P7c+T$?$d&y>f2N*0vLJjUNmi5D)N2MHCo-0g!@aaR>>9F&UF~~Q%h6A{m$_M+PhIF?m#dz(QtZHeO&WUm&Rb*jyb|)5uLOF)S2a5=3{$w(e0!Ti4~!kfIy?&4P86?N=)2B66~jE(Y&vr-
YXf<4}W+S9FX*;DDDi=?An<e@+`@ZQiex^HMR9<!_UBov&Ci=IS39gMQ@r(rz5rMtT_YP`m_JJRg0RS)PkIvphA#Nc|COfD~?*Sp9!Q1>OP8J*TF@8Nd4~&x4P8RoC%a`p0<y`b0mJ10fxJYS;ZLKR-$T&_gB1EOv8+3Mku^smGGhpU`0#o^0-Gff!SOH{EoLh%GZom*D&JB#}^RL9%_w4=;D0Mv<*hUGH!}};>8N!cI#Xjl0ibjlp(lVSHuSigrp9*6ik`)nc?#2eZ{UBMK_T<<Sb!GBoug0ERsZ<IokgR{7njMua{^B_kxR>W*%`DuW2fSb)%P)^uwb%UiaVK=pUuJP;tvG4QG1COuH^zo4^{f{bAW{f{b>ge7=yXBW7D@Et-N%LLXC^UXtW7r~ZheYH}OF@2?0Y5RZ8;nquG?lc8RKP;i}&mw0$bJyrhrOj5Ou37?*nYh{MS63MPU)z=@Ai4d0^k8*>rU^swVZB7wz7(G&@j*+nt8?zpa;1aerG-_VJ5Z&-HRGd|a7na^kunTk>H4!1!E@ym*s<X>zUSn}dRs{pf_>Bkt@Nq;DB4QA*C&#BY@P1)<Q&Y$>&otnOd~x&H#30UTjrP(6X>UwSkuWfG31y!o3sz(^s>!yLg_y76xn6$EHWun)=0%?;{R4T-NWjrL%69^`3^8ymj?8k7>MITK)&V7%VI1cjqYsjPh(bpupLxACvT?WZzO!64#?@?F-5=r}rO;!3x@1pcxt^4(-c<JS;mv|wv2uAQ(c0hpf2*1G?w8St#L~u^1t3&_wze5dH$VxsXXTyA@E%W=*yfGCX*W`~cRm+Sp)x&}jNx-
jTj!~}Nc-7@R^Bwp@M0UPU2xWF_VYdFL5c(oWmv{DE;V+NtkK<;;h}SD@b1+^`3dqXV!Pr?IWQWSv~hDxOa=m(v~DDwWV_g=R?hogmcg!u!Ql+ZJr9y3+ka&vaIc{{;rf0mN~9Rr%%k-TC9kt`^e;8>$#xb?8O(<e`ZNShwI6$cy^J-2<yEj1MO><rY3B=E=c{5VL}S9+V$O{aLw25V5bZ_yckF8a4J?#-T|@!AXCCIFf0b=~<=U-}O=&Zu0y3o=56h$77O0kl3`G<BI7Bo?yS5-t@aGj}=&rDrXL7m2$R+z<{UTdg*uO>moTm#oxeJrL1Hrr1FiB|hOIvjgKxSG{VTgZuncj9lyHSd$%f=5eVAwOuL>Fh5-NDj<CxVXg)w|E@1KG?2i;z*bnNO$^3b?L{Z&r``-3-4{juOGx5u0kXra@5tzt^?HF_6g*I9*nuzWwujunBbTP4<cPvl;#Rd_TdTWHtdR{|o_?se(mZ#T{+5z`kg!)&-r(35NlOB`!`(tx`_*6i6;-Sqn<9u?OJEJyEGy0AOOb)dfcA5`cA+-$j=YV-zMnJ4GJi2Fbsm5guwZ@&4Sp;;4*LAMr@hjZl9XYI)|Q--o$Zp!a2^u)gXM{pq<(W=|0JxG0{W`fBE0x=DV;&Tse^?l3M6_`p`P@A*9<dESsw`q4|6uW@?ms)sX3$&AeP_NKvuL|5_i&d<(wmeH#~aIGW|sH%_wtS*8XLfm#qG=9BZE@IG(Cu2E5e|Py{oZ{glq3!%ya-B09s(=%kmdm}nq2@?g1n^``#=qFD%-er*e)7cC@~LhaA@H%}D$^FsG<su%L-X<;zYYONJX;tNG;(7xq_s=sOlWBlyeZGQuGT6!Kj`~^WBRc1rP4$;Tk8El$zXx7A?(2Hlj62uIk~IRpOBXALvOWJ<G^~{z*2g}@M*yNLyqxzVJ-BwX!TiF5c%+-t_IylP65~C_N|SQDTSo*LK<N|nt1!<T4OH$3zBkq-
6MT&LB+ePn9h&y+TiBWn*G1%M$^o~`xn(}w(FZ{kems?<A{B6mMbrsm9BNbW+J}Su>YNbr7q95_t~Eqea`UuVj*zG&{*#fRYG;Nr{Kt~b|qd;zkHZ-{$tB-2@Yi233S@{o)w3>Y;7vHWlT|vofX$5P)#g00hDwJ;)lM#dNGJ#5n5gL28C*0dVa*IwI{;z^1~|uv)1ChbKD+vj={CVu)L*&pkl@(Tph6ex=7SU1N?Jm(}j1Sjz|d!Wbs&03m-X1^mU(Er90Fp&Nq0T>HeDPz!w8SZyxBo_ch_zg`YN7vtI+hcHSgp69>C(^Pt!$y{GS5pZE?cAddK?*^MYjpYZ*~JizC|oKZO59|`RCS5&|+z;^6G_Qm|ker`G%d@NkP1+N8Wn&xhpniThm<Fcy<G||8q^#3<HSDg|xcXN>!;^Fw1qt^`JGCz6fn_O**11E{h&)2D=CX7Kf=vu<=UAVaKqM!ESiIdc2dvKHxWe#UO@{Y+QPs8m9nk@`{ngQ2by(VjBql@i}1&?(C5$MpmJpr82XJ!(QGGK!h&a@2+qL)=Or65~fo3ONUDK-^8H5kh4(!Ri=YGVN2F-eKKdV;wpMrG8*M&m^5o_d8%jlTF-i?Ala9U8xlUZ^ojG{1sHVmx?zeY`_Y(LHq6s>4_!Pb9ufcUP%L<g$grmzPTY`S5B~(ab)$`k-%B6}drKSN^IJAH3!8UXUVaAcloB13;OQO=-db@iIvOK!i+C^DHDBNrWIw-N#?<;dXEVrJo@i$Oe?HIn$Q?=>qbCW+1hDJq00zWA<u^>OePrY|fHDr-&YN76`gbtJ6V!uE_ZFBES$qTZCZljIp+cJLrBF$Z2vJ%;J?)Q~7Q`?Fk6ystp5JtG55?Qd2*wO@yj@nCw{g*bOhQcxibj`#oBGj4<SJvX~~fS)eOUPHLniCr`c!3c8!GPhSL0;R6w2Q`e^bVOSDVC|LUE)7GH!-
?#|L<?nMmIZ`ku)xh0Ug|%LVRE+e#h!U*j2pL7$erwSP8FIxihK^lClEhk3d;hzx^;O471GFBKn%ueY((vj-+jmrp8DZA*leNm`q_oX}Wr?nCd;2?Lf251Wac%~7yWf|eWZzRq<x+aha>L4G0d24uK+pzRgIG^>D3bA+^j4-7KN~yKIp*GCC;dKa%0(?YiWpx1ZoBjoVwu46%*%qv1Z`2W2pFN9VV~wogOIzRlw^jbNW<B#d|?RQHued$uE@*4!k9r5ngV`?{38TV?kvw+qVR4T3MYtomU3k3KP<)+C*YKS7pe=!I8ZUA{|6NcR$bs3KwkyMRrSaTzOZ>#OXtwh8OLaJbWjHYPtWIHgtO@~2Da)ZIyf*pkY3_f(yT_4voeOKf&^#v!=K9Q82QS=>tDnc&yc0tglV`czaiB=g2xcS!>pTt2Iz!eF7c&<zq?Ye?pI++)a&N|mTv^meQfGqfyPI@_Cus2wJ$5p3?Mu6>9-Z=8DlHUUL@0WfUl5pi8ww}4R)}KL5}9#L#GBy<8f<5>4%f@nL4=lZq;bbz65o3<iJlh<Ej69P~mRaI5t*I2kj_Y12a;fog<jPQ{VV{v6VrvbB_2KVtT6rhUp4d(jlQ7gjWA1?aT0gOd6<ZdM4@m0l$U$!O#X%B0wKe=ii3|Har|c+lvZ}dvt|;y|RfAP{C-}6vAE&X|Jmuh<p2x@!;pG>N4xXZS(t=>T9WsU!NZ1Fzjl;IvbPqWp++hkF2#JWQ2B>hO&;X7L(tmjy$w!BBIag|7Abcm|gzlZsmHBRQg5l;tfUP9FadVAJvjn;%huN>5kk@)kj*07aD0LRuWbcCd86(?It-2lJPH~(>PHAoKjL?=vvJh<l@p>0=kA7pcWf#rAXADuQi-%o1T`aQ&pCTJ~txg0-)^D(IF8clA});IH)*S{u|8+{5zRnEev&>Qjj-1vHzAeg`7U@>qukOa;fFmJ02{_wcqZ>Li%Lpk*XR8{a>=TkSW2_^r-
sI=RRC>@Mn%!GUw|uYhNBG&!eL5*v8c>{&Tk;T_JSEF?pz`B6%$RaY*DLAce_Iid*WUC%gFxyu~1Klq+R~a}j3VBRr1)cfc4^*?M`^h@3m+$#i?ZXwc5F*FXEySjK%Jj>2PfNA(--A5pCw6GYB?yj`_cBMkhC)^NUZh~@R}lZvenPk>6jRp5ge_!oWu<RbKP&&UQLef?u6SE8b!@N>+7(W4!&Gi)|guSPnM0_dB%e&<UAoIy1ta8o2^B4NwIX0E85*RNPkAj|E@`EN#FP{~5N?}WA_Sk~-D!mo6VN$nYNS_6!|auE8@)~6If8g%IUJE*60@E;fHdq)#o*Thk*Pg>0^7hNA>EkhFRHPk;1TN!Q_qLW*i|B2Mm7M~nk7E;yKy)wo~NB*3{xF6ALF(?(qduYqWLN@<|e|SoGWp^!_2h^@py*g}S?&h;4|0pBFG+J|no7A8t%5W*MZfrHoUF7<a=)SVl>j5y+FhWxEp|79b8D(WGYww2P5q>s}#8e7;kfg6Kebw_z7xtPyqDfPbZh$~>k|zgGnp2i-Sv^)nG*=x&^kE@nk25@G%(MJ*7N=`kOim~rIqy4R?|E-h=_>S~lT8C*nSNs}+_OgW_qE<?+C<+*=YV+FXyPof-3X&^kZc}S`o&pW>ep{JBexW+Iyeyp4U)Y1%SlBE<Us^^fun8L`aoZ)ZLbSGmsL{b73n?fG4<Cmv&;}{X}xV=(h(B8$)|=zgY68dPP$8p4&va4qwf|~F8Mxuv$=sUeF7TzPX1lkL9@O%wCm9%j_!hY1wca#!aS{%QQldcZG~CE{z{p#S>3D<xoo<&_$y6!o>NYgk9EiRwJOOK2(Ry++*voe!;WCQF!c0=tr>h5%-WElQt*agWin~0F>?eR#4G-R(%N;csN|aJl>Mxa?ok6}Mp5Y{FB?#;43oLl%LQ${-7!+;RYGkg;^JtiDrJy6^U}gwGefZl{slBtRZ7#RMD=_}@xT9JubLiq!-d19r@H*i-?Yo8S-
6@|l`wO6wx8@AUwB=Y>G}IVK=kLaL19++1lbPaPXW@xH+c_648}{-*-nj0`;!|(MlJRV$;B+^(%B32Gaz{Jn1t;p#bMkO&E~0|Ii?I~lqvIvxb616shW&&bF!!93V-an9qQspuRMuRMGURcK*)km+RK{G*-f8|+FDmu4EAGOGMyCig5@f<Yt-CN&1uEjFTeO&EVTO0HoJg;zBWgO{U~ugUWAKOJB!O-;gW+ko~{!vU(;>G<@>s(3p*Cks~F}K2&jU$M;YiD;n}F2tRr9|gS_v!Z-uLlG;hVbeyuBwH9XJpc0RY9+V0-!Txyh~KU-y(FdZ+APc<T3Orz=;#BLMPw;MVz#tf|6H1yuPUL+~#SNAd+$ty*!;(~}e3REdFk(%glf0HdQaTWFhKf*i}8SNYK&t4i(rsWV88t^xCiN2?a59o}QqfwC{<oEm<f^2xDXzD=MRIDkqwVb@k=jp8Mg2_8kSLbY$X5!&tt_*nj)DDhiBw7lyir!>XlvhxcJP=3OI4*S|Ti9hh!c9?FqK{*Pzti$0GPrYdDlFn8`$%>$kQ{^+2BkY&M~vylup=W3qJ}*c8euGri#q)@q2u2!!Iaqu<eoPQ=@*XD5tS<qR>@bfw1J3y%a5#p#?*`Go*BWh+N8VO;r54k#ox`kKF);r-d6Vib#X>m#A{T|a)KWOOz7eVpUAF(ul#Q58dVwYdyh%V&&^}mf#}P^*Y@&OE*bf5<Z_2>lA{#mzTDb#9~I!VztwXwlT$%7(H|NZ$o&a7h-g3)UaDcBJo8y6n6k7xhF;5k-o-
ZnG3Z%~M#y~31_4{M55aE;ZAT~!B#-S|I3ieU$0OPLP7oB#n-BSqed<XYs@tnlRa22X9}q5q6E|?F^7G_2UErgNDGa}%t3gdg*93KPWy}KqYPPVaJ;<@ge#B5`E$q+r<2Y!xRd8!TGN^)SNB8Ob!(b>Qll%rhNUqtulA{zPM{>9vIQ$QE$%;)q-Cn|p^p|5jzQ0y268jN+ejs=hKd3|A#Ue(6!+D`j(AZ7Ymq@vNw6}dMtoo&J_|$$Fa?87vMBE7Esqon3<XtB`PbcOWP-2DvfGe5nWAIuFmLA1kV_BAVz2_K-KZ{?!kE0>ye2MBobbKHKI8yAGcoq_pme^Cn{AQ&wGXK}+7e!Klk*GTGIXg5s5kM*mana~X;Z^dFgQFdr2dM`=W$kZqTfcm#*+lIp%18;|3#3%kdk_Xw%tYPc_Q5lRsw<TyY}z&DX)$gG(BC!y5B0E~nW7^2tC~FTb=*LZ7ae@JE$Ksg#KL+o|5?UjhiqKaLU6>~PjK^_KT3xFjG8L4E?NJ{>KufV60G>iSH)#n^{>>)=na4+2)rj2>L_O3mbe@a)G%LnczEa&pQi18cDy5dc8v>}$%nM7Rj|YgPM!M<)wcssmn0VKA;Ugw_Cqkr{2yKfW0rAM-h#y=t}Gi^quV+G*-{uhNbC9IN*2!bjq{TnCQmO@<%K~Bbmig?=U#Wi-3kJPZFnKd>~Ml+#O1()Rh!E%@3+YQcU^U=a~Nkd^|q3}5`ZMn#IGqes9rt`4wuGKmAdfaWb9xen#+f$%50R!5{@!>F5t}o%eQ_YK(u9tb@NXNt!&F4+m~OKlE64(zQQUhaIms?9Jg$zcCkl#9Je+Hd=jkjSPw4d6L3jqQc5L}2E$NfPq(lS$fnMoxH4gLYUEHw;4};E-~H<SBeUOYAU>szkkaR@^uL~+HjUNxExkryM?mg&$BEi+5Fn5dcz)nE{G<d<kEZ~&^WS?VJ7?~Wxn0B()mL`#4gQN433i-m(2?(f-
iTZ^O%v8x+L6R!r!8t%@ae_pT0&x(%Tk`XZV>=eZ6iusA>9kK)Gk(o8u`O#ka*PW47>^A3;kmhXzZtlq4SWzc=vxjFrKRaOvM80f_n6y$4MR|Jt|Q9vB{4~17=r2h#0XkIpyiGA}#}x0Ha;3zCfSFbYeaJN8Jlugi`!cL_3X}dX&NDX%7)l6(|h|2&S~u;3DEfBsc{DHQhWmLcze+9;~Ei)6%f~K0t!DzI+^(Pb6rt5+x`Xo<qxRUP;Hu=syn)A-<I|$g6Bk-01J{$w@wYjkHsYCw<kOqexGIU!kHTILS~9dn>kgpHGzpBy_m0<#uLO>*J1EydW0Wc<Tl9f-{O^$mzQCfGTV9F4cxPtUXi;t>df#;p=OaeO~W(i=G}H+9p###(X_Hp|AAcGjvYnB^>{_vx>U{YM+DeR|x1`UrW9ax1?o!1y1XO^Emtramfx>zgBy0R_yR_%&43Op7yr~do7H>lUXiGQmrm?=KzbykwaSfvuyx3{O}`01M=G|5R?rzwEN!(PG|>+i<edt!5V%H45Nu<VO)(hj$fD*0XZtqd#fakCmF~8d{XNu-N1syQ~c^BN5z^Z3-B@rywHug3d2=0o1DpcNqWs5%&bqcziEv6dMShlY(8M`^MWX6H5x*$kL6g`wJbNH90&4hr87D6iauEbW)gS-z$}p3htPV<h<-8gCpGpAlS5epg${?e0t|h!p^7IknfDXrTd^o4gA7mvj^fN_e{3{#gW@LElTW?{{*nevvc|G0QAdzF4upp6VhEj$d_+42??^RCpZG8S>im7NwVNdtrAnF4mlF=g-a|cSc?Cy$#HN?jmmltXw$1a6%xO;}y+rQK=_sykaT)6=TYG)-hmq8s=BBQ6UtvHob9I{*f6_teqIe}kcFYxl1=uv$$?mP{Q3KKoke=gxeCE4{NA;HTtKUryUgW9T;P{g|WhQsYWV>T{APDeLB=K;KTdGLm)6CMr8)*_CO@-_VLmE{XqKt~(wi8IJz-0Xbiw&0#v6t62-
OR!}5&~+(%yq|<l?`adwy;O32A^s+c93y8`H<#+%N%}gA#}<qic=Av3hd@E&6WaYj@)nEB@;oa<R8IZT%ef~nd`~qy~{<r%GIGC=ia#l)sth)W9j6<Z>nSmI0GB>hCLR_rw@rTrj(M&fT6(Vz~E;lO&Q74FN0&S@w_b?Cr|i6v_+oblHfmb<Pn{BD*LIr?yI4Vgvh8L*3SvMPm@x?GvQ`ca6ra#^v)9Dxxv3EenZ^)?|1Fhe+W9kdp!zIrpGNFBmfY+KF8ec5aCtwhf7F4wVjEF?Z<Fx-IuglWm9f%@Rtqx2wvo$SYNWmI}Mu}d@X~c?j$+UfuwrvJ42z(?<P-wq<E1%<V+#hQ}V2RaTZ3ns2>03aRmT>@IPGJOQ%(Knuz}lfhRMja=i)^3vmqWG#`@xXe>5Ke^9~i*z2_Pep=}SxintwWH>Zc3<n8qL%QuqTY4QVOjHZMb`=qVOaH0cJXl*>W10L^tA$pkmCjK20xZ00Lv)^uir?=$a_*l9zwEp$u(SE$Y#H$Kv|dPO6B81sr)XfGggGLUM@4xrZ+HB3LMwi<8~4%SlgDE}nIeL?Lt1R`$~}@v-{T0=S?*cAE5VVkH%;mPpC<gANGlUWu%jNy;)EElggBHGrtq2wn*%sz>J`JUY}EX-0zXjVT$$sVqZ$N3Bpd!cMgX2KPaYycG``w|yoX5-QQx2{BnIiT`YZ+8FJS9YeB?{v7xS;-yecBsMUA7Q3l&fw)}sSs$wH$qTJjo?bYC|||MPYYUH<I*n|!N0g^<KyvICEo9M^y?$@ji(4rLj$blRq)cXI}L6spNjZK1HAkrr7%?ZqlbNel9lax%G>unJ0Y_5ZINq7=ZPrcKpXUD0-5!-Xm@-FNdosvcIji4kIg5uwj{<|1XPQ<aLIXP!?nQ1ZXCe$<FS&B)5;?~yu3Tl7Je2!}O}hzJLWsNpIV`+3E;AIeR$KCph-l|+W54QTJ?*a8=5s>EPm-
YKjW;WT$7j@-HDcsP7&Q^&kQk>7l8p$p4ga$VkR>BqQs1V%%d?;?9-%2=_XADrnPw}Ur?E((1M=^;39+N`m-y<O)Dicwn>hK(~zy#9iP?R)Mo0C8mf;3?)Y>W%;;<(7C)I}?kD(@*!)8(PohH5qRi6fN|3=J884o-<7ISe6t>yk@Xt?eXs0<!Pb+Xkk-Y%K@jON|d>(`h{_h5tu@SH4rKa0yM|vOh6-d)*(Wf#~LAaCzRa$ky-Vb6vW+*M~@n#(f?*y?t{-m{P~~B^W(EvyQ}cmm56{{q9mw`w<YU8`(CeEc5VI3r`?Om>NiJs7je6;1qm#3hdk`%t>8d5l_c#Q>BS@@aY9;AtgvDJTd~HsN&U4GX1j-}b|CtsW#=ZioX%wwd<${zXSh9D65e_=n%r9=q*x2Co2*S|tn);&$6+j)*08&4LzY!&gdy>-^<XK0h1!_a<C^(|ajM0Fz@yh!-iWL>W6|~{YpWfu_ss2$)W*dqh7w^-m*cByis1I*98$HVx*azVlHtnkC5}XZv-6~kv4Hzzi^Q?Zsy+pQ7W!}L_;Ovnp67xi0~WYk@*^C`OjuaYi)4f{7bM4<L%-0&^XrYjxOxaifEVrARw>o8-C^kPG2?2SEU$+&zvheW2;|u+7paBA1LIa@->_rB`=f^__;9GWhT`0jFB|G~T@n7LjI5u<>|}#=Dk_G)h$W>atr}m_LsO1@8n!<8E9PX$nmUc?1Myb4(C!y2!8h_8=;q&h%WlH2D04jUtEg|Xu~j<=lVDw=SV$_w&j#H$E<ybROf)wgWupmR4^7&D0mnzt`YhyIf>7T=Q^XoK06K_antRR<4(i~ZRdG<q`{lWk_+~9o1c=i~RusksbpY(UBC)hyuX5|LU47-fP-<!h2m%G{^P&FLOJ2{#19~MdiCAVL^7IU}yPXCLh^1OSa_$O$t!QI;woxy&mO@>{DWX~>gBU1CThRYVbxNVCcbSaEfZL<XQ7BIYV23nmQuTBfW0Y=o07s-T^D{r_-
Yz8vN#JZX)SFcw%Rg4{=o4-0`d;Lu5Jn%L9{Du$X_>e~!zY<=zl*q`Z5kw`r5HT#c*>cmLHZSSaoP2m%^H`3X@lL%x$5dhele<2kS73XiYa1SVLWd`?%X@%5@yTA1v&PCsMS8F-yEV%tZqGlpyvy)BXxlm1L1}cdStF{Ttm5Fwb|GUEW78$?cGnqv7Y1r_8SzlZ_&kpPSr3w_((eTc!%p{u`aFfZF9A_+&-Sv1N?5;W7{CgsQ@mj3rRK{h<>3jG|wtpG@v{cxf41&C!vgpc7ZWwlD&f3$GFk=lF?Pi>#DBI)yLA?T>DybY);URE|{I(D9{Zu(y^p880X)<D5h8er~#kYV2NQ2G0JH7l;JT4>QtCpeyp!eeOgv@G%8V`TeAy--eJv-Ymfz!0oY?uCOzbBxW!;zart8kelSk~(max_>nAPycjD`f!@*7D?UWz8-^#loOR5cb8{=i7#u-i9&&`Mi$SSn|TxvAIcPwF7HvsB?h<m;_Q~#Hf?t?iM<G-T)Ki1Em3Z49Bo}VN~VyD3?5DzrM0J1%rO;7rs7d6oseztdReyTyzqCrNdYC&hn5sPCc`U2{!!;J1FLh{B*2eM+W=X5fEbmm@|r%vr!Hh)12Sn1i#c4(GCP@;Ju>V64A^g4<+!a}?ug@ddX+br?6XBMVsHXrgV?sy<mAG)DT;ndJlF&QzsyiyLorU-
_K#bP`~8s<lA@+4l&r@3QW)4)VykB@;d#URlKQ{QJc)zu6CsK@}QYr-R@tTZ!Za4fgP1^et(sup|*1Aw9Tb6uFldXq<q7wk#LZ+i8q@hNjL!OlJ@q>q@2jUUk&0KC^E(Qa<9@lCsYDZxa#v6cbnH|)k-K;VWoF%)Y)rrz|>+i<Zq+7Xo4?U(-GBOc{?o4OPQUKr*#QQYpWUBX&NW&Nwe?Cg&DU^2F{g6IB9OZL{Dz;w#tOi+aE^!aj{iiU|wK;~%jsSlD<ub<n55XCwqfBo|V*ClBkhPpwCzaaZNCD8WpVE#DnVt~J&@TR~S)qb7gXhqoeLWZ2njP_E6J&|77?yqSX$^6UP-}FIT=R`s+9^TDch!SS<4tU<bau=)Ik)A3Xd+`Rk$cqBoE%%q(RGM_-ETSer2ER6%y+?&x$!*U?SrII*X5R@ZS|U;O;w7??eh;k*@v;>#u`*UH>aEMJz;?;OEb*TdI9dkH2zacQjuv`p)Tz^47E(1Fe|x9xI_8_9yYC!MFa*4`I~oD}A!lt{UM$*r3?w!*Go42=#m9druLC&n;wK6++&|V*POlJ(smz4zUESMRs@a0v{(pWKy5}|e>Sf**q}$;>v2EXc*fs{-3V6gD4JsnBSbhr=SdfX0!-p=n-{TZPa>=mKi4%z$x$U3N%Ry7>jf~ITtIIYg2broJqjFX4GSW&ZSka=w*DQs<#atyh+Cic}BT1uX$7cfk+^!=Y;Z>=*s?GNo?I0N|i(xPfUquNLjI%<WO4~5Y5?=O&)70sWEn*qAFJ;}9YMZswbgPquhtKd8f8j!=#b4nb3-Q+*Ktc;TDZ7n=ek&Rlg>S$)s~^DRbw&{A>mZ#1^t4$?vr?hiaM4l*qouv71w%am()6|jHm_=ENRyZeYUJ*3H&3Zgg**&HgeD4R(Y-#M=Nw;0ms2VcGfj#xduPR*Cz;~KS%^o?>l#iQPwq+*TWl5YR#+qA0wAn6?a@6~kAm3R&>EKvq1onm(b--
*7<02M;*ucqO{F*>>VY3sm4+qaba86Y!|QWD;Jb4U6T{ATwu0<DLZI2!U_dIXJI7qatn)x~ttakyd-(~?DbhjwBUOGo<vRTuZRC&t&y}Y-jf<^8*5TtxK}R7x1gD`hdnW{5?RulB<;wh4K=YK!Z-gJv@L0yglszUK&xxS+;KmKw?X=Hc-6t5rsU6zcF=7N)5Vd=tKO``<Ekq=#1I!hfjwmZ}Px#a)^O`=f8On1|2gNn*NdD^;TU4v~24fF6Wa>4h=bgtQ?KT3msZzEVcb5cD{0jmq;MkWu@}=OP9zO?q2WA;#-|5T|rl4AR_p69Ia@9xE*7_I1V*Et1;4>>$*<1gC1jGX@I|G;Tc(`LY20#l4weQpnUYP_1tqr2GA0v$$jM^9yu%2*8eO}TI_9gTj?7zF(Sz6vmLz{OouB~}r7W#5_$I+UF$v*AxB*pwZGZ@w;ako?G*Tmk6+gDM26r~4=k-`nEg?VYSMuFm?Q3823Jc}rmqQ9Hw`W1<mOR|UPJOlUm`$qs_14;6sM{>GB@}aF|KWzbHEVH3sbs?Le9@r-1MXzqM3~!H2xTg`}OJ_q#p1XDS>~H&z&DsC6K{b7sLTb9K(0X1Vhli63Y~h^H$K)U~%ijIam4Kv?j6Gns-^IN@ON=1|JtHhqCq2JJQ%zn?&n?}Q(Tnb)a(9e=SUR$1VqVHTTf4q&{$g$sbr~+br|Uy${0yDq4Qd=>dVdHAun4GB$A47qUn7u&1@}p-J~~=`b<BX!&bZ#f8T4O)mo@n8J>x_BR181sNqLQtSc_4(B-^7rKNW-
kvvFf6S8o4s4X;f|dk&~A{XV@i`Y!^rnpp7O>7q-+_pp(xltI<<jNW<_t|P{kZ|g+OG5RAi+;qwI-x>b;-^b*CL+Lxi1VmNdmDntgW}wioszYhf)*5btCgOE5^-MbfK5Iu4IeIF3m36i|cok<{7TWP#;mK=e))o^J(?ly{_)j3v_^!ZD;SKQ_S>|6PGI3EFg>hm%r;yjmUVb@OObu?8qlR6&D0U@O!*Uu~j0VCT5_bOri5#nZgqK+ifOT@>%`7;LK%L+>RAj^{mNln=WZ~dT(!2D>I2r!URhKL_DuMG5VIs)2p}wV@5dpn~m+~yz^!@f~d+yBL*lBNEMA2n?3UZ%<eS!E&L_|7<*Q}?orZMuK@!5A?pu8eu)T1}^{HLoJ26gLdF9mnvG__!UUjuRIyO7-L$bzRJTflQ{)|kmq-DEQH)ukXCuZ+mb-HFwC)*iDP1mW_UoUjQv-3og37|QN*=kC8x%vwQo@9v~%bglt?;p=rB=E<_kxxZ`EvyQg#9QaU4Hq2yj%wb4#t-`uGKi9(9DCQz@9zBB?)vQnx8Nb#R`We6hMN>ANx5X_RRU@u@%;IhVemg1wIWIKUg9~&uYz3i#ou)fTOD@R*4$`k(1i(C8#8h8M3TiQY#M!owOSNc*)%gRl^pW*$U=<6xbbT(A6_Y|URFw{{7^U_7ZaLVHkH>IFmAEb`Y7Vp@3?rQ3Y}Zhf$Zi10;R!X)(gvFZ2n*ZC$Jz8}&C=dHBZk?9t9TcDOm;MEr4@#WzvWfMl2rX7oO`NjPqB|U-bZv9RFKnm0N}Sx(2vqwMC9BhG4=qf<XG~<QO7I!Actu0ds%k0l@|EdT6{07u9u>|k>sJ2d`m){Fwsy3#y?(a@*LQ!`dXPUXO0W25PRS=f4zk?ezbGGxW=OWVygvpr~F$=g1H6<#T%H0X})bVS<?0M9iJ^jSW$`bL@Mydkb+0jlpxF~+p<txK@yp)-7{&X7#h758mGR1ZwBvS8Of2MP_U-
d<d{w#l1(*<W<)LsF<vkq3vlx6WbMZ|lyB24KTiyVMm8@AJ=qBSBp^PBqpczzz;2^7I}G(c$tYexU8aA-H@xw+j@^$?H_Ofy4le<W<~bGYRfnkW;XxG{d0|!W1jQ;qX9;(<PIFAQSXZOBboB{vx&FND{_UDKD}p^Ac$`lWThcfII!3f1E;9ZJJocrE0oyOv7=aGmI45!gqujL*n~*bdL`u^?WaS^kcH0UhP**BALMMlBrQjtmHIFb{a3KODlBy4{V}s}Xi35kbRSY;&r<;+~_=>mHbLyrM8z-K~FFO#!?$v8l<=w}PED#=0*2b=6Z&VN)32y0`f20?d7{>&)zXiMxio{C0KUc*ZxJ8J%9A=z*Bl4tZ6lSESEh_1sv{?AAiVw5-^A4WTa~;-PUw7Hgz>nI~d^S*|jCU2#2x*$F!RZr~6X2fT(@cRK)yERQ04*{jAaaO}7cOW}eeVk1H}>=vN)W1_W;MPt#&m%hUhc@$ShJr=9};>2@QEY}4Grht8B_ynQ&U$}uWea7H7H6l-|`=63_wjNk1j7y8{_jUMIM}6Q?A5+%?tf{m!9=Nn@oDG!p(fz-T$VlqcTbKdI8DM73;7m`R2X@|A2dT;ep`z+xodfn6@>BV+G--
Y1j4X;ZT=3>QE?`kGxZ$o-g=S%O|@jaHMoz(nb0JP1C@ber!h8F+Rg%r8YVNdlt8p0Yuq!Q0EwMy}p9}f7c^>G3vSv=}JB68Tjrd8CvbnHFWe5G$x<%a|szU;U{ye$jPI~SFBd;Dy}PqX<L@^+EhXmR3x#9ZZ0e-*4}{<TX){&Nmh8<7kYK`BY6d3NLlzm91t_SNspW=45GIDnP-t2K9U<fuSB^R+y8<aHOOW|sPI9h&Nmq(^C}3|PU?T_f8R!wi%{k85BaxPS&f<A$tASj4PrE==0C1jir*N3U89Y>RQ`T@Bba*TzHh$1s=(ABjH?zg;fEu1`C4v!++46Z-{QT;DNnO<do&00c-N{3KtViUGgN9SHLM|V35gRtDJ`H<eURo3xb4z)C*}_jLxugLtZ)QV5|;!iiqMnVXH__ZS^L=Q5N8L!Xc;+O1d9wRQ<Rz#RC}PM!po9DI}jf4)7C{CbHK&NL@njnyWDBK-RbOSn)qmV#|(&0MD6NvbF>BJKS^l`YOwPCxTR9-;-*s_hY9&9>=26ECR221_^tFAcaU;ymMK3)iR<r(d^|5YN|8~WM)^y(PlJ~&1E1mlzX1>#)HIpudv!Yn&%+oO{8AqM-vTcDoEg8`lRqB>|1Il9J9|Tt48*(9m}op_r&f*+cDo*+z4ca?5x|todZCv(VRJWMls~+10IQbLbR&A81eW>au!o%>xNZy7$E(fBb;1JZf?U4UCLuoZq74*j1|Rm$6pY-Sdz?!(Bu8x;pY-jYNgwLI-m==@A;4h%+(wv6`39ZCO-)Ze_T3WyK)ris+!GJk?=@gZ?wBcvMR-^siq%Ws{vVllCKt1<&G4j&+J~Lxxd}Bl_a>aFR#?pcVYhJ>2ve+}LY45~*(TyOv{!oOvrSi>RJDrLRSNH~>rxPz-khAkZDNh<UoS|oIgK4V0hn;WGo618apazlwf}LVM|mvpZAcZIssp8$1RuWn%0*Dl=Q3nCh5QJ1n&hF$?~wukRvW;p{>5k4?=uNP
sc~M@$zb_)%Yrv2#3>`Pm`&C2x8XuMtx%oAqq=@b%7jLjBDcdM`Ggk~dl(^-80wu}IwsCxrzAi;-)nFpdYcQ4IOlYP$UTkk>74Z4yKeQ#jJdVr?nc1Has7>2a^^<^y{WFOV@qzl?-^s3(S#Dxr57x>1H(TPvaiGuSZ`1YS6>=Dz(g^^tBKDE*AuJMgZ-3td18=-)#_5fGwaQg&VSbM-`A8WkDT{)VZt!7!ao@p=?=b6>_>#`5gG>1)dNzgU5<(y)OfM)5Qq#Q(eY_m`j{kE(Q?LQA!1heR{S^#Yd2%C-|DH85+eFyPWwMw#=vH4@pP;KlM2;u&;EqgQb?s|ZKibjCBzuJUZ~!O72A%^@^i&iMIGIkq-$!f4rVp(Diq*6-X|%BxD3vs`>s4YqzZbe08j9dfhyaPrMyYFXZ713E#&H&FX#fU70s~@x;GAK&d2EYHv!b=dRfJj98b>^(Sm{U<=!ZAvmlm-c#74TUf%CBxsZegnvI{s#nxdkvkUfjo_qp79+SS18ar&~1-M(TAe!!~cB{iao*@n*C;RlRel%&<j(qwn*fRFjJ<#2O5EOlKMnqkL+L4`brvNiE<OJE?>{(`QMssI$>;+yN5yY=n6(fl2T3cCZ!fJ9F`}U{<4+PVu=Uk|HZCAXS5{xCQz=i4(jGC(a@|ry7t#Gsx#$ZeITQq!)ztoRK5LeWt#setlFI=CubnviU-S=rDod#$XLcYwMcA+m8ui3F%)Z^O4w0n}uM$d6Tw}7_ZN`&4wLcv$#)r5|JbvBYz>Z~Jg+?;-aD2q~62zeR%o6Dl)2#4L8{2iHOr_1qT(U=hF4$X`kW8JPQ=<x#2aR?b+fw1k4)5qLM*o-Bf`;enP=(!y|K*X(i_-w~EX!Wpl3W0nt0y4ygk>lbU#5IW?>1foQRC%|U@E%*2xM1(3B!ha;I-o{;bJ!HQ07b_GV1ID#ea#@*(w9RM;SW18*1`wj$?Fme)o0BPQ^D0^=0_dFD-
8>(`hL;o2BK@#J1Ql@$Ik?pnClGsk6a4DiKteE%L_sZCVo$M4{t7)kC?<Ezd(@Ai0;^q*8UlxZ0|IK?0Stec=n~5{60%eoPZW#io`4XetlnL$q6-^Sg7uhO!B^nO_cN)*Yr~P&#)LEJ9NOZ)8@@qhJ^G7-~o|GvLRgtc=<`pb5(h8Qzcxhn$-I4N>>xHtWCD<No}O#=S2r#`xJXu=lwcjmz~A~sP7@HJwFFs5gFaf)5DGv9tt)G8tdqVpEvNr=eZ{mMk0p>tk?APCym&ISNYOz>?D{twALWa4lnUAA}2SLtOAqTHEUzIv&SbKj(~-P(|X{|2PaDRoO~9BFFEtfJe1x4ImDi<xUv`F*Vf;yKEjLTeN*dLrZKS3&YMwm19Ih@mSmMNB(lG+i{-g``Pi2|pim`0un7**u-u2`{yto=&GQNcesWalmr23_pt;|9C&&M?QTRqROY%&20P&q6dXc@=Jj!rGg!TU>RiJr@6K*J$2^IcUlg2<(H2V0<BZj+)=ozY)Ba;B{sLt*%@6#cdbh6OGQok$w1ZO5G>Ly_Y5hfkg97VYZ+OzNm4T4h)!qxnVbq2zf!#wU>5lV3&x{DB(y=9Ki^>wDIMSppN@fy+=3pYm)uIFhmRj6A=fW&yS5=-_feyKNf8c^dDUQ5;!_G~9^NX^v9mB2g^CD{S+JIr++#_w=D<ib01Go!Av>*5Vys=)Yg_CaCn%)Q_rBJ_aVyMIO0ChJIjTu8}<-$Iemp+JhEbK5^n+&W!rRLI%-fzp(2TJ!n9z9XZiSNe!;1iQp<^8Tw`Dhyx#u-R`{+57|dn|<>QQtq*3X291#F^ov*50tI$rLpvIZ~B5B9uM}Bs<C3^UUeD5XH>Rfw7YoXb%4rG)TU{`pLFxCR(L)J+VREheL2bKmdEWXsoAiQAcG$)yh9ND-R7oTjbFk1bwqupkFL+*9-
;3G{3^e~jN=+n$o5IrE&9Tt0<&TI4nawpFQk`9wcEk$$U)wqz~6mbMp;Ok6us{eC9eiIscMHW|Hh7^8GTu*Nv68EkWgTX7-FAU9LTNSlg4`DXd;hq^YF{pTvmp#C8Q%+HG`^n*pxIc1;<%ep<*CJ($<XlonAxPCLo8?6`d_ee?;&1$ZgBnFqE#aJ}={a>gyp1koLkNO&)YuBeX|z=<EPQ*=<CvVYMF;TsYwP&y5KVKEGs;hY>Tw=Fm5s_5@5ru*w-A!rqL?v4zTlw_u~(swujJlpXn80DE<oJ{nRUu3;vErJ*G~X)V#+pPc-f>_8n~=v?D}Wfu5P@JCK8v`oGvb%d!PKler>D#g#!TZ;e5KEirD2T~8(0odw8n6?&Dzgu3)(;EPSygBuP7Nm09=o5kJZ7q$zk`!kyQtWuyxUA)D$7;`lP%~H+a!u4tRlfK}{?Z43`EqJ6%-d>K#FBb0!3;ltr5qAvsEA}889u<9q(?7>{pT$kl^l-M*6^uYUSG`*JNR2}-wgZu1YY<#9DL@Nsd5m9@92Qmr42l7;hxi)aZvL_D9ZTr8nS%fW;k^9J@7wL5@l6ug-Zr}wa8+wstWtH*1ix&0APQ19<2N~5{twt?MJOrG@Sh%%@tU6cU98;7Cimr4QPa)(T>lx){Ec$r%ne)=%sgpG**p1#^lHzx5x<Hq|ISJ;Az10E7j2+)+&ZB>MSX4c&=S{-h5`A)YQn(I$l$SHn4_Agm?h%j0*@&N_LngZ<7r@t;wR>m6ID-
oO>FfcHiT>iNcE8A&jD$I8yK}&AEo5Cn<VNXK7(&<Uddfh_KNM7AXv4A?^=_%@xk^N~r!vMhj?-ve?ms=I(rMzq@>}7BDf2MF($h$zRH?2jk;0@ui_($oP_kqSoa8VIvdnR<|o1bdALBW7J0za*cBORh_=BCFZh?T#dytoL%1AmGAPiB#d!zr*$N(z=hYHLx+E-C6wwFs84014N*d|R}1x_dtJD8;_BbJdRj5)07Un&eoB%+s+reeYFWqT8p<J89qXgZAepsta^_?a??BKpa<UEqS5S9TDG->K5PBb?KIi=Ea{bOpkB=Pt#w1n}+&O&&>{n(v&n4*g<0ovyn_sF6@TGd*$TqoVVYki7EWfh!8@T36;(D%gT%lflDxL+L!d8r(+PB%ox@6zdnjH+$_k|_n%+#)wq2Jlp1!gM8R?j0jgo{VGfXJPN5`PRZt^egmJoo8k)en<z-`FUzc^0|wd?XvOnxY8*0dmFOod@MK9SMEP_}n(R3vLnTs;e1sgl2u)R~h(FF{J>@7=GwneEEh2A|#j<LlT+0bks;$ik3gq5j7SeUpVI=sqU3QBmTPB3xKPnn%K4pXjPm&Jz<M-y=IpZ=Af5_9@Xe3DZq+!dgPtbW_Bl8BoS3g-BDB4i8N&P@>N)ypJ!f({SuxRKu**IC0jdu=2#ess>Q7tR}aUgN$H+@RYVh3ndZelf<*eJzw(lDxdv(g4qoj1h}<#+<03)O;fAx05E3(;f2IfWbvU-28-0<8+8?yBzf)fQ2NV48hht*M>F*Z9(6TBEn!Vnn5l|P(iKVhqqh*COE$z3)4g<`5=gyD-IH&{#IWMd+lzlsD8xJFu4{CZ8F<JJE5*|NFTvlR-
Xt8{x&H93XV0&nl>4;=7rR~jssfN&Wv{yN_%fYXeh=Ks5M$mR9_CX5sgzsRt@L8L_3(Hj2^8~;@08~zqeMTi8TL^iVopHqDZ+DZ$y*4O#d&D3Pp*&C_)2a<AHU10C?9hhQF#Ap)XQnF?K-114<Z{AAp#UOhe&<^`<gPG!7CG>esXyzR+HB8~`<#fAR{3%EHkPskqN`CGWE0-Tky+2`E8+E~vJ4o`ip|QJOOJlt3D*eP+VS**QGGyLhg}&t5?d7Hg^1Ne@^*xLAPtH!Pv-9!Y#f)pB7_xZ)%>=Bp;>UdF4C=UfkCJ+m5yyO5?S&NuxQn&)Aqd+2CQN=neJKXx>_#%96{|<6e#+4v;>B>s;$@ffp`#|4>N-qjvQ7%0T^Cc*ns3k{Wke-Z&j{kdDI%W6j+VztbiBb?H4ILwF6{ZlzbS2C?F@2wO`(OhXQ;5q1BgLpqdcmQu0Ena%V?Di0u;(FDdkHq{PPO+L7{>n{-2|njHVFBG-Gl`1KP9)5pM}2My0e`@LHWpb;$ZB@RSm+fKxY6LQQxR8i9IcwsPUo~uMTy9fCj)@$c1)A4yE=$H4^W+TSi>pd9pr-n7;o#j_6@b=<KHTDwoxd(KQN>R=`AEV4EHE-9<l=8XV9Xt*s(Pi}cBT3&N1Jj0Ut=tdzv5^Mj93#eP!I5S;0*Y?&xO(9bZ4MEqd^9dgHD>dS0kwVv1)b07ea1)C#c=9;M2sa<=_YfPZY&7)dK6(M=o%m!YF+;@7?mn1e9RRYJ+bCos-
GrLbbXJvvz;sxASX%}n_a<*80jGchDGwxe^DR-E=NP$pH54ls6c0s+k9K(E)FlwQ-8pLK;=o8BB*nPdXa@`DMK_C9p3jG9L(#!zGgVFF+fNn(&+)yI`uPO7^4mmS8!HmKCpp8qwg5XPN{P8`+@dr^3L5fbpEoxn@>~#A=TXK#fQ2TY!SVMUky)P?gj|Xx3A&`Q|IVf(s0^a;j3d~8~8_MOFsX^XAlp%7ojc*3w!JX?>bL$vxLoO6bRDN4VHuKQTN>{&)wOQKi-`>y5mCbDKJ-vh#;Kl70!<!phYnT{l@Lcmct3nK^2l;fRYQwgh_MakUjIg@XoNULr!=^-?6K>gfXHmEe4aKDixB9%BdJ*y=zH2+O2EMEj6M5LXQg7!&8c;I0Go}_#T8Uwsb0b!%&yTW3_{h^2+XjRxx*KiPM44+H|kGMub!yKb>@99qQzWLif^ngGMv~P4mb(fVbgvQuRFtq(EfZ$`-?^7j8kAXR#fMiPVnRmx`}<Mq)q8h#^V7@1Jjp1J1qtYje6io(YFZzq-n8bc*+s*2F@vtJRmQUt9S&e1QrPsoe7D#~DIqg*LYu%bOe*&Coc6q7bprdRWV^Wa37!&i&%Qgpyhp9$q|VNF1GT80rdw%{(eXIW2d{dPn#!IuUl7+?^|Y%T9z0-^RBGaR90GLO+gkLajM7_HGDp1nMmn_uqL-
KfIP|flbPjdT`NRabLfK26-IJgYyr@gZERbZEn5uNC*KUuu!=pP+NV(MZ179@@7i|V2e+VTx*p47Q3ma#D(n$$KG^HrHPU2ZA|Wmpp?kxS}tqng(uL`H&!^c2s-?thD1-Ge+>MTGc!_b0U<%2CbtBIuw=9BXJIEWr>$$>TU}n;_)N~E=6ozls(`@OLc6{W2?xGDVa2d%j_&(x?1nG&A=UUe@UB#pPU&4Qfv9x-UR!J9;J(VTZl|`{bwJ5XSF17Xa)A*tq8byTB^wMn!j6|VVtiJ%{N@JMmZ7OReZa9+XH-42(@3b}X<R|<)T%ic16j&gAF(Pdx-wViWj5KxwHMUkl({N^m1)WAi1$`1B#dcSiU6thplK?_H(18xEX-u1vQnDcTk$2K9#N`yC^@P{F8!`bsjjmLGTpsnc9XCT9HPO>p+ox@U;QY52)|VTY7D0Zoiar8KvU9oKiPLTM2lu0l9U5G>SpLyNqakwtmZo~p#`3LWrmQ3PXbfqG~?Fgxi;?b)zx?Rq&%x8>AAfB?}sjWXQH`u>|=HDoH6bAVM<S3I$`#k^wX+r&;hdd?V3H$$G+a}0R6h|d4!F=use<`xrxtjW&ZfsF-
sOa@z(rB!okJ=v8b%=ZM8D-811R8#D(@gbhJOzKSewl$y>{amez5kqnaLRe2@qXcOM{_xgOuTU)XD^MB4Aq5{_aWxYH)pe^pMt#JmWS1cEH*Ad&0%$9dI%q+y=|RA<wp-$E#Q@**9Z)qj#<+UIR;Jl$DlPNP@w>gPJ7iGCQqFnpr4Aibm^GEji?8Myup`fdMM#BIl>)pGcv;{iR<rcLihk$Klxf**}vN6|mEaxn>H-o5s>7<<eI!!kBmgW<~>%C=DM2ZP6IP6Ai2f)#G}+k-C2H!^(xtxH6xf>jZd3e$Vb{zadpenfPh11X-)I$|89N+Es~r<tAS(pkEiEa#(kNV$ohhUpB_$s(dGYYZAFS$P;54Z@5Jyb|A&yNCw^HhQ6uiBD9-J;g5TlDulzj*2kmRJZQo5!OldPYnLX<yfcZT>c~T>W&yG95WOX4Qe5qyd0WUj~}+9x7srcRAT&NN4wrOt4NFypt_UNZIeZO46Z-IMaQZM))WJLO>KO(2am?!Ga45G<&{A4c}lkiLM|JOp4HHpW@{<e(HyChdC162MRm}*SE3uA*fgK9iDMPY{rB?sl1E>HR0#XC^Vz{xwIu8tgndy>UpM*J9-V9IQ{Y|dC$qcesaA?Iq2`56bF<VRI8?kCLuo?tA!AzJtGt&AJqx!JzvL+2ayEXQUZ;Ja*`QZDKTv~4AK%&e_4_L(JeIwY^k+IQ$C--
Lg@;51i!yj;2jxbq@V~FZ$~OgVdA#nU;@O~trxc%<p=Ar~nY%VyUpMTj`V%5?$J)K`83Sdw-0>5CuxkwEQsnQ7J?!;`gX2fgd^#>Nc}2-9$Y+fP3(;!G4iU7Gz?dfyBp<e20R7Ss!6CgSpV0R7Lic=Va6dsG?0Xcjtz-|FtQ3}dvaPX>T5|g$#=j9?{V;1@*HqtGx_oicc*79j83}&-gihJ(SnO)MR*a{sT&2b|f13x}oi(y@%NN0D0Xz(|OYHqf8plChKb&X+SL3LH2V+~>hYa1nf`|umbfn1_0gs#)nDUh)F<lN2A>9Pek%vgy<-V3NlpV>cQwKxmle_#nmP|(L@GpRdXw!hO5}bCWUW=EX2W$d>w@L={z_YorMz>ylR2YRyU@a|RbS_YP+?9zOoV)JCq18)}{}$WqxH#Ac-ND+wkd1^WX-(gX6<b;JrZcP%e5{G41rOZ$EGjI2YwHYlM8FlA+PK2Y558@m4L>J0kaza~wyGf%(3>Zh!wPe}2kws=8~$$HJ;a0CPi71W6C)^*rB~8UBlVkB6bhRycRX7n=gF?39!$*BfAp08+Za5TzYO*x$gvY<{ISt}08|<zM(b?mlz+rvyuTpZBodBR^X_o5Bb?~AwdO7v3Gj4i>nl(pVzqW;V;@f@%qv(sL)BjKX>ABus-
zYtjhZR}2@4Y5S*GRNl;OxkeiP-|i_%C4TxMM`SC$X})+5yI2@#Y@;%9qWYOr8ROk>l#BfYuH|5C#1Oo@liBz~-aT_LSH3?5s4qKp^Be7q8|*lreTl=JRrwqo(*`CIg$6ip2Uu|>;e<}@|Q+Wrv?e3ryZWlOi&)<_To2m*0BtO_jEQq}pO-9xZp0w7jjEZU;(Ji2mA^8ChKHXhu|%O>#z0xyjy$iH|XH=G+D31D+nvKdQOrlvs&CwE3ZIXpKnsWSUXIr8!_R)wjIbgy@2sD(L2!m1$}B2aq7{pl&uJ$}<+oYtKQ3R-o7JPzkv?2ckCj_oYQdN(uv_biGah2&-FYc`M@3GbiGk!BoqPt_4N>sNdJTqps)liY-
hAZ-3IIs^v%g#)syBA}_|GWy>V4D;PumxE51`C3FVRVSCaGakq;drXyBnsWZSefe3jhrX!I5&8v8K3)`1uxoPE@u+;=VFBH4C)6`j;!7=z5n5OZK5bjM#R5$mAy5Yy%WB%+7}&6oZT8)rEAILVe%5YOFm;or2G6-fQNMfXN>HybVhN;&eeI?t%7z);n3q*<6sIdfGCE1DP3!%WSTFGmY0H$h()7FMs|C!)B4Q2;AbA%WUrw!rFGiut_@b9QIH@bG3sT!H$2)sn4CMfP?s?OFwIS#iKtpH*?KnzE&DXmK!RnD@lqW$r@CKz9aIo}>)L?`8<>LPS+G*Q@l5&gDOlrsk<O}*eJhb#gaY_|LY=j~QVFG)@hO1A>`Bsc|rG+9)6uTa=LWd#Jx5DtYFuTvM&!FMno;Lw)ldl1wp1`X;1tJNYLel!sPfESBl_o0nMB^!I<KBJbik+7kTq%!$7Hxcp-g}JnBJ#tG+GxDLn}I6_EC~oD6P*4~76|#!v9fE*LhdebVyfBAQTttz3zbL4=fM*l<E-LfY3T?Dat+g(X$w|FNOP_p;NLT^z62dB^f8aaPRW!Pq&AUb@$_>Jiv-q!S+^)2v5WET7IFM67n8OYiz||Co@llSu_X@VlDbt{ptrKNk|LB{((6D0ia*7<>}q=lp7<5{9wAh?P3u}9f#0iUR5Atxlhn(vq=;!WyyXBd+$L1|pb5BfP#ZECP|pP6A{WRyrn<;L-7BH5(goRft69)tT=ky3?e6|A2j=RrK9ns-hd<G=Ih!ftyoT~>yeu9`Ok{YJaglGH-<%T@mN&&h**eBDx?js4y<=zRg+-ef7b{1^g%(5W#=ZV%^ql?QAK6dO_udilSsO36BiWIzU{G-
pjl|<0LpixBAcaG$<a~XmT%9baus1A{(YO*>wD{}{jpPJHeLiw9(G~kTqHV&>)S)qb>0zotg!zNN4+${>hWbg&VteRxj%$e`Kkp^=pj7O|^{TBJXx|6E^ZroW5f(+Rq~|5Gt9QiECVS>%?wYaJ?_~46TTQdlTwMDn5cGV>pvS*8_GO1TTvcU_Vyk|B2E!Q;k@BGOY%m_ruGKyHN}41L!s`EOSY|!&nq!8M6of}uH95NKA8-2V4w_YpGO72RbkBHwOT)NdU=4h1EI@8Ilc8CosC@{kUIt3P25FLxNQS1tyuZ0RmnKLcO&Vdij~*|Rt@UUYtCt;YA~?{l@?aO5TP;M#?UDB+Y(Ab@kjQuvnUBa(oa-B+3Qe<{Dsfzf;aVZ1f)sZl$;eW~y@5gp^gMqByYAU2nQh;$+>_J8nVyjE3BU&cmOaK-|7DcUiT+cV$FgE{q?|cVdY%3}L6f@}0SGi6=5ySJ1dC&q!mqRh7ya(NfHta=v*LZnTskor>dGPZUPXtjaY=w_Bp_%1mbMY;kNjjJ0(4qR&v+e;wwZU;C48sRXZAG?Eks&dWRiw8*WjGuAzGFBCJ!W7o+8+yQd_Ngz!WFyR=)K(Z<nO0AL%b{BrFpJz8{(1>2u;u@N1ug0YD<<Yu)DOxB8bIbVq6~FFb;U0P{J)xpZa6<8L5s^UR9D$_E*+%VFGi#&t>64epkr!?k;Ko5nq;!39u>mb#ukb4lLuIRc4GGmC;&-Kv}GVF)Dh*m9k{^;r^Z-F5JuFnO_9gBk}75&qoSd?ynE2L5-McHV#HQ4wS#P*!+%Tb9)$vPfrYiI5~hDbCM#T9iG!G$(Y^xKDG=HnFCuKsjWOA;)qXcSBLB&Kb#>U<O>NvuDL%*{Ei5U9leg+@IDkZ~~@nw7sZZ-a3*@Wcz(-@ku(LBEQ8a_eRdv;Mk@%T^mphdYs9)yuHvlY{!vb6+e+_j#4#;U-
N(!i~lIU2eq)qzZ8yGQI^tA8Wx;iF`j@lKo#!HvD&})k_%%;&K0Eb!4}R8n_k1{3Qx+$X&=3`x99)#YjEW<*_iQa!WK%oIPGG~l2GK8MnaqzF%^yqSlh)#jP*ggV1iL}Bb&-ymxkO>K)j87OI&tg)ZOxm>|6mDdNN$uCW$8`?qu6k4?&&36^rU=hAK^Y$r_w^mWP;8s`RIz_9Jc9|Bh8Hga
""")
CALLS = ['rows', 'single', 'wide', 'large', 'again', 'strides', 'halves', 'axis', 'tail', 'tiles', 'tensor_scales']


def _load(name):
    import importlib

    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


class Refused(Exception):
    """The target raised what libraries refuse with."""


@pytest.fixture
def quantize():
    if not TARGET:
        pytest.skip("set TARGET at the head of this file, or MX_KIT_TARGET, to package.module:function")
    target = _load(TARGET)

    def ask(*given, **options):
        try:
            return target(*given, **options)
        except (AssertionError, RuntimeError, TypeError, ValueError) as e:  # how libraries refuse; an IndexError is a crash
            raise Refused(repr(e)) from e

    return plain(ask, torch=TORCH)


def _blocks(fmt):
    if SUPPORTED and fmt not in SUPPORTED:
        pytest.skip(f"{fmt} is not among SUPPORTED")
    return [b for b in DATA[fmt] if "g" not in b or TENSOR_SCALE]


@pytest.mark.parametrize("fmt", DATA)
def test_blocks(quantize, fmt):
    blocks = _blocks(fmt)
    found = ask_blocks(quantize, fmt, blocks, TENSOR_SCALE)
    rule, wrong = nearest_rule(found, fmt, blocks, RULE)
    failing = wrong if STRICT else closed_blocks(found, fmt, blocks, wrong)
    print(f"{fmt}: {len(blocks)} blocks, nearest rule {rule}, {len(failing)} differ, {len(wrong) - len(failing)} where OCP leaves it open")
    assert not failing, "\n" + describe(quantize, fmt, blocks, found, rule, failing, TENSOR_SCALE)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fmt", DATA)
def test_calls(quantize, fmt, name):
    needed = PATTERNS[name]
    if needed and needed not in KEYWORDS:
        pytest.skip(f"{needed} is not among KEYWORDS")
    calls = Calls(quantize, fmt, _blocks(fmt), TENSOR_SCALE)
    try:
        same = getattr(calls, name)()
    except Refused as e:
        if name not in ("strides", "halves"):
            raise
        pytest.skip(f"refused: {e}")
    assert same, f"{fmt}: {getattr(Calls, name).__doc__} The same block got another answer than in a plain call."


@pytest.mark.parametrize("fmt", DATA)
def test_dequantize(fmt):
    if not DEQUANTIZE:
        pytest.skip("DEQUANTIZE is not set")
    _blocks(fmt)
    wrong = wrong_values(_load(DEQUANTIZE), fmt)
    assert not wrong, wrong
