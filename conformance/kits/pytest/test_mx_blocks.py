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


def ask_blocks(quantize: Quantize, fmt: str, blocks: Sequence[Mapping[str, Any]], kind: str = "amax") -> list[tuple[Array, int]]:
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


def failing_blocks(found: Sequence[tuple[Array, int]], fmt: str, blocks: Sequence[Mapping[str, Any]], rule: str) -> list[int]:
    """The blocks whose answer is none that a rule allows; those of which the rule says nothing are left out."""
    wrong = []
    for i, ((codes, scale), b) in enumerate(zip(found, blocks)):
        legal = answers_of(b, rule)
        if legal is not None and not matches(legal, bool(b.get("z")), codes, scale, fmt):
            wrong.append(i)
    return wrong


def answers_of(block: Mapping[str, Any], rule: str) -> Sequence[Mapping[str, Any]] | None:
    """The legal answers of a rule."""
    for rules, answers in block["a"]:
        if rule in rules:
            return answers
    return None


def rules_in(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rules that blocks speak of."""
    return sorted({rule for b in blocks for rules, _ in b["a"] for rule in rules})


def nearest_rule(found: Sequence[tuple[Array, int]], fmt: str, blocks: Sequence[Mapping[str, Any]], rule: str = "") -> tuple[str, list[int]]:
    """The rule asked for, or that with the fewest failing blocks; and those."""
    rules = [rule] if rule else rules_in(blocks)
    return min(((r, failing_blocks(found, fmt, blocks, r)) for r in rules), key=lambda p: len([i for i in p[1] if not blocks[i].get("o")]))


def shrink(quantize: Quantize, fmt: str, block: Mapping[str, Any], found: tuple[Array, int], rule: str, kind: str) -> tuple[Any, tuple[Array, int]]:
    """The block with its largest lane and a wrong one alone, if it is still wrong then; the other lanes do not change what is right."""
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


def describe(quantize: Quantize, fmt: str, blocks: Sequence[Mapping[str, Any]], found: Sequence[tuple[Array, int]], rule: str, wrong: Sequence[int], kind: str) -> str:
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

    def __init__(self, quantize: Quantize, fmt: str, blocks: Sequence[Mapping[str, Any]], kind: str = "amax") -> None:
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
        """Indices of blocks in a fixed mixed order, repeated as often as needed; few are the unusual ones and those that come first."""
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
0{{R31poj4|NsC0{{TIR&hwGa`AXYkdM_eTeb3>`a;IoEeMc0*FC~DHZ2$VLAhXr9t}Nh_xfBl`cAuO(;oa`G-NJDx@6tz15nCd0UX<ixVE&!ro}{@cRD`g1L><ahWCf@VVQRjz%#b;=aA2<#s2q&+mzgn#QRhzLs-pVs6!6vu0s^RbJUctHrnX~poero-$8;I?TNK>%Ifh6LRh&jQsnE%F-k`fgt6l5Ae%7BrF1{(gGiVX`xnLeo80E&*1)_SED|vXhF!M`EpTY&r9MV)^$=mi#pn8w5M8Rv!c~MCYR16ShbAeLHaPYF&JlEzusA)SbLIGI(NzoTJn-ZJOIc?&S&AZc*=Y|*-Qw*Ie6zkLDy)!?5fJD*Gb)vF~_tgLNx~<i-oy+m%XFi1Hb5`MWTs>74y^Q7h!v$A#D^8+%8K1Or6D+|Vg7U&a0dDwPpXd*9GvTb-XJxA>O-KaUsFz&y!b%g0KTV7?t|B#Bji-2P5xECp9Z6=2>5`$v6v>t}mF`Jt-)|f}Ft_?bylh<<LqcFSCLCN=Nv=+mIsVhfwJl%EWVZ61A*)vbg}1!_7${iho8L3`Omt6z`5|IvQ9oGB#QX>bJH<f!R!{pEAVb_*$4?tx)h9+5nhrJuZY!>x$|)Q6F*@(Z#JQ~3RaAfcC;t@>jhH2GYjJ2I<25HX%mXXW3Vi$nPU|7dQ5(s#Addc;2P`GuNSM{0Ajy8m0s_|Q98Vfu1z$mO#RyDPd){;$N9!#G0DvmQn56U0h=TYcSU;Qh=^8qCzFT(KqASS)$nxs%o9s`TqRo5Ji#w6-Qvs+f0cse5`x`~D975~$x{F?CqLNv0T5d&H_Gq;Sl`6UNpT@oHvI$A{kd&5{A_5`NI~grvKLN<gfkjR+@j#IkbSHiez+Nu3&}8Qzf%#jFc)gOdyOQ<l`o_o)9k)@^IG1<>+}iy3$-mAE^{>rnKn^f{4cJ=U-Q5si#9nCZsv-
UFopIg%8r+TWxPg-h9y+;4_mP`e{X`Q8n(!H4F=<;7Item?<lIeg?;8jwJF&(+_x?fYMD}k;IM?3OW;B&{TxFVzH5T)OHkQps9i(bxsSBk5F3<!I2x-)C!(ovLq7{w1>v<i6+0_RE+ZQwAv|{`R#whI;qLjb>b?ubrI6YxLoTtju#I*t5xaA9+ksS0KH21U_xy??amonAY{a5~6z(3nN*)Gh|(f17{D)naRjdYQ#`Xba`oKUv>yhU(0wp9~m58qCGpnGD;K@b;E6Oigl`J3c<pI4<tyVcVbyg%vKJY|k^Lx+b-uAkF%S13!D!wI%&qFsB)9XME(0Q8eH&11IOA%1XLcB%APBin1qbs&-xH2&aaC^=Y~_p_7KQ(Tk;CF)GbCOc4u>FwenR{{z+-}{AJw+P+(c$);o)=LR-
aRW0Xl_g5u<-z}=XUof%c+P0;JnFz<wi-{n6s3~zT3#5}X^jmH|D?p!mD|Q%{AO|L_oqg&Z~V)EeeLVkmfSR$^_`Z3kk=M6WIe4j5UY^gmrG}sQ4aUlXErs5+~^3Jm>+hkZVIB{ZS<=-V+Sxy7}j+g5bVjQG`>{?683B|^bJjk#A?&gL*F@f6H<?$UIoK%aMm9*2L@Un9xIFQZ$}`buMbC9&7Pix$PV?<RMmPv6Fw^jPMC)l)poP2DJ6~FB(1Qp?C*#saJPyQWweFFFb)LWcM3u4UAI@f8SJ(|Q?3mW`&!P|Ir#Gpn<M3gz5UPQB=M-_e<1(DccO@hkW>O~T)Jq@PNTOW_<`Gzut7nt;_yVG7PEiAc_N+Wy;ST?TEk)wjCD6VUVPLjjU<spR~89_ovd#zhi?_2w&Ugb?@*_FMuYpwHP^f&9VX*vL0*|G2|AvHB371efGd*4ix<8MB>b5g0D23f8cpI^tU|PES=J+XSI66&q<1_s@Y&E_&M+<CGX)9C31}+6DH`xo_#&9#bD7Ho%Rx`*G=or86wxca%Pn@VDrs=%mEC&2U5+x>QDU$;5!0LrCW@U-Yq+YH;M<o9^#}ew=Py>+SuQm5pAR#&mVkr``hDjQ@KDwbhx&`D!jzTxg)M<m0bf}@=O)}ToWiitYUtQPGh2R%g+^jEs@lS{Q_+BaWN{a6<1syO45(=qn}_jbmlYH!rZwVRB~xHNH*5o#f>b|H^Me>{TV{XQ@F;>$599t$y)<Eu(7QpfRsN12e$TpIKC4!Fu{Nv~jI1AMYu01&XFjP*D?s2kcW6s-$N=qqNn=CSvI<`Fd=HEaAwF-&`X*26|B>b<?O9CUc@mzvur@omA!Ow!VhsM#4Fcz0XyLo@&l|yXTFx(IK(DFxFtC-^Fcfz-
Yi+B=LFQb_WuN1vNIN;}0|?**rw-D*XItrbqU2$CajWj=xQ~ouW7}B)UYE3VYDbSOV#ksO@J%SfKGz6&c#iBW2;QXLCk#=a3@g0@++=NwA1XjI+|SHxch*|uKsP&acWDSkhgU~>vchDH!8(9P$wsVfV4);8m96k0B?^X?Wel*qHqke})Ll_WRMBBe=WLi_BG0?F;`j-fT|eIp9SXeNqyUAiX{Uz*avAax&#kW5<X=^QR`4*<b#zrg2RM9R+Hzh66d7qG9@6G4C;RA5+}i&slcZ4xJu9g4jG{U(sOz2G4V013!P$iabdq5~!w<dL&|3MFH%Nhyd0f}%%5SL_T9R-<UWx#Kqov`x1a-(kLa4z6^g=ww>o0Voe89mG-JP>aC=<EvQF1q${(Mi9jije2(?y&f!78p!{GcJfO4X#{2+>O9I+!Q%I5D&h79p@GPUFCPa23~F_s)=(iy)o>HL>ERnWq3^zLL))gdH_Vh9PXswnv!?tY{p#WM?xAJUM=EWUSkx!Cz^E`>E;p5rTVM>14^E<aq?`t$_B%H#%*bl;A>CCnlZVU!WrGmp2%5JQZJ7aXt?sJ+d0c<qlY$08TsL=)-&RqL+&0ULnieh1y4gd|MeTo0x&^_j^7$W=5~Eet_a4BgvEtNQE)`%h37-_8-=e>NQHY6j-(rMH+?fC>5IBLOqwG&_+IW-}9iIwwp|x2fDszf(^UQ<Bts3`s)Ou%<2BF8?wOf_RU(61Ly365RY86ev}MgcHZQJlOP8OR{3afum&#KPAF7%aYy-#_&5=>2QoVtW$I&^?Ss3$FEN9zKUpCkuZSES>eVp<9Ckz3QDE`ty6%$@x-@YJ?a40WMK6~{_2_wH>;G(GaxUIKu$C&%-bnm=G7ax?^-
1r|d94JtOIK+c|9)b)4mP<_n*$s)aDhLu?Xj`ZD7N$giW)>{E_zr}UIu4ocq@j?IT__p9STI^z!J1<##jykt+W1QLX%<O%M1&9MCp(c7)&n(*^sU+t&&6RP|@BgDu{(nw+0c~Vue#Q-32VZ%qwg$Fsyk9+&5@BR=Ok*22GqoAG_g@cPS~86D$@wggVx=fQmhqba~%WxGJ%Ir`T_bSEDX)d6pMumt~WW)v<3MLob%Jr{Q+E5;>LLB}fAoup^27GToLMcX2c_Y9ysig2w=R1UyX+0F^ym>_0~EumwO6EqCGF6z4&dV_=l9#*C^p*}~``0uAJB16PAe$oR%+<?CiHZ^aAsO$r0Jsp!1d??epIOl#R!WCNs~n0B?!Xduxj&(elpW#Z5iqX;@n*unZgeOWlR1N*I?vgX7ip^!!W;ftFcPBbHWib460HNLG(z<H^(1y;ub$7GVo&#fDU5#5@tAYP@gpVUucrXQxLm>X5PP`9g>t>@aPuG@a4#vd9wi2+&mz+nffSig+Fuxigu=dx#&c^`0Xo7%AUfd4{!g2h7nbs37^G)`cXFu(NR@C*HTFCYDsuXLC;K?2Fco#;IiZA|6(V_DJgL#1ne1NZ5A0x|FH<$>Zl&Ojpat)2|H*dz$F#o3-kKX(NTfWeALu&3gq+<%d^QV`I56dsXDN(QK706@y}w54N2&ZkX3PkF6YWzEq~b?>OrZ4bTU5dcB9?E?Y|U$!&&fE({w-M#g+=D}`tIpdBGry)CFV8}o7r1TjM(CLr_W(@YdDmMO=;a^Rqv^|wb5?`jLI*Wb^UtCt~{ZQ$fevxJu0!M{+Owp)=U_X`BC=fCj9Xk`&zbwhXCMd4xBfo|<DPLN?ug@x%&<NDB0@=<9%8-
FZMA0z9OnX&&?G&tE!$baB_ng>_=oh(UBSe#;SHX*$B|ijXeZwfCN8QW+#D9D!B(&^2_@!yXj=Gu~yS!9&Z~7IM!&$~+|EMvr;IIV`s>|hsWtrfP@O4uog*0$kq!93+JL1v`f3@aIvN1yqVKeb4NBuze15a6TgQ}T3wE5W_-@`X&YoNQ@9Dqu#FTb;|hmJlFh(8t?UqWel<*45IV@3}E{Oxznmm%X@AuS@aC0nNur8!&}=SXBpmjUu%MSI}n5ys0#OaOlg$I4rD+8mWWpCQK(dJD0W>ldS_An7I;!K%1P8wySraj$q5WhIC}6J2y2cW^XwTX>MwT`R{s$^<;G)>6xpBkEt4YFw(o=qB4y*wj4{IZIauU&5h&r!sMVn#!Cx!S0<oh2Sv!Vp<`jONaBqSXcJksx}9SXy4{xaZML>j5?wm9*vzT3J=cEP07blXz{$e_nE_CB(NA7F1#7W9@i8^1JOz%pl?Daqz(_B02YxPQ5Q_xOU=;*5K7LT$B#FN<khL<S^p|q@xj2Do97cE#GQ^hLpg#sxqL-f4(<hxhCFEUB-p)Jd^liXF2ZobU2NTb*Y5>b+Af&V;^Jvl-
SP8Wzri=gt`@#ZRaVgk;u@)CcYToVSa8I&K9xy0bOb)TOi*-);k4O%-{E4(v6Ry7b4W_l_!j$6HV(*Y*7jg*L|Q_v1<UXN+UXt-(Sorw7G#)FLCX3yq44xNQ>!EKdT&1YZ?!($s5%FZR(#S9U7<(6hJKIP;*c8*n;>={h5yv|oI<lX$dq8Ig_Vl)<(UwZq@)Jp{8#qP^ACXaj9T=mvHoGC<KR;wl|azpk6tJ<qX!n$=6x1N6VWolWtCbd*a}jW6|4LPtG}$r#^u_IWE=)BzSwSs0fJ<{Eha~Fx66#l+f7xIn=>D!|IQHyQadyaNUn_DJWJr^A900Lnz$}<I6qRl#zWp;wUP>12E~F$C{;KK*IlaE8moWB+IYa?Qo+khmqJ3mD8iKb)hNUeW>8zMtPVB6+8HtOgeO0TVVyWuYMb^WcLl#N1|gsL&8#>8|9HKX87TBYmFFTwW0pOzA`kR&Qrm$^!Qw@U1LN%s4wAjym~6{q|4*JD^rJ0XW-
_PVZ%Uy#^MWIuHa5ncPxwpsgKf}qs<jQ*db9bdA>dBM5uDxqU<@N3F0i?LwpWKd&5#){zz&iO2mHjKz7Rk1m!qBzgZF0@oFUoyfEhxXnT0W7!v6;ARj7de{_3EcyI3=ll+w`BOc6sr{$O&&#wN;kAm;5uVm!sVD6?+i9ug^bMQS%SQskzKY(Pe#xd~mrz^Omnya+kb)`sY$!l)MEJhFUH$NK=Y7neP`X^wwyx03|9zu3RrX>JW!0l-XhMH}I@0bGh+H4XH&_iEq1fmLl>ojeR%!6iMTFUQ$iPNS*WKItBAajHIgbxXd`RP{;cQVgTNoP4vIvBa3z0eE)0K=P+E#1gprza&|`3s@j2$=6vw4Iq2PcR*RrL_SA<qZw@|QrYA}Si6IRI{Gz!Y7sN=6D5|7cYjLTA2-WI{e=ol0Ei4_pJ0FUg(jc{$8mPrJo8$;U?zM<8UXT^1#3YtauJ7dxd%|mkN29yzg2P*VOF$iOdG6tn5I+y<{#mgg5L`>T?Cfj0A_>O4K#4i(b`GISsrTq`2p9nZQKl7=ZT5MDkgV>+u}`yZ0Nj)dQ0Mf>b8vs(spy3nXOv0yfHnJu9${QiGlSKcK*KTrKP2xskxkVUm$Yq1-0|dM^x;{Y%3^-fHBci6<9u8u&Ip)o5`nJph^zew!WHm_x?lL<Nuqg@Y9@89!ERAPa<4ORH!fGCVf9w+`xBU6CuX44mi9>(9*ME!f1){+{mN6v=yo^epb*p`)44>=jz3(Dv#`m_vow+V2R*bT#eV?9tUoU<2ZMW@jPD!a3O57f)YPiw;}G1+>Zq+I(|(jO`j7tme(d{O1IakAif1{n>RBw`kzXiqmY=p;a`yCJ?YC>c3&^spEpuu<<TTBOrnWPPQKNgDEy`m|CwyE^OB)wYl?2ZZ;nxEna(vwiSVI@1d%^l|7Arh|8H;~)M}qPj3Sv#2psAcfk-w(KMwYaTCKw6yXl>k)>QZ{n~3f8bGBpPw~)vyOpl-
d_5}E@UfKbT$czODVNj>-@oP3aK$C)@6dr>5tC&}fAA?O~e7g|gmU8}F**eea7fu9d*0vBLULfy?@NvOu3sGflCCXh?yon$1qrO|7T3%xy$}4;wb?A}PF4L3~eksD~acO{;&Dg3fUuE^%yF~B-A0l4DH?luJ1Ii~xVK5yUE?^wJ;KKjeRO=3~<mJs6bV6lr)w{$;L4Ds9drRbGaqmW1p?m^9K-J*LY{*@3{8J}L{7S3V<*#f8+n#(DI1!R8m-~MWAxP*bEILK0U#;N5u`9tPt<IW{U*1tl!D6Ii%-Q~?kj<jI_=KGLJ^f(~hZIY;qu&ysSw4``YMacWGz#Q?b+2wYOZmXE;4w`J%}Z!M53pe5vt4xXp?|YzYtE4Y-!X!ivuy*utGK&a<&9oqH}2;UFe+!mY|Jc+to$^xqcD7P;mc$AjkP04k^{tg;nrW~Oq7;y*B9y1hW1@~g6)_tolFB4%E}Y!2~HmO`ZKran0CA7mDhP3<bzbi(ABu*e5ihUG&@1*NkLN=mS><iZ=0=IM-L(wbNv@rLq0%9+*P+lesY*2h4-CH^<jAIm)T{xd?=y|E>k5SPQjY*W>p^8BbmU9G9s5C@Bn5}ln+(sX7$yTQH7M9E;9p4w#qktBn(8QBu@aG0&Q0&J!Du3xxz?{wI*SCnPokRC+IaI#m*pj&(R^j^UfCpFXuTyGKpk2VJb9-NWy>x9<?HdGJ@Wb5lgK2mvlu~@Ul<O#HT13rpxN{`px;@u%s~<-TG`IKldV2?A{Du{a^?|mVgI>d0uc7PU?8zf57K^k;6n1KLF4gp+s<BsOzG=8`1-y@lT8aILeQ&FuBR-
qY!A8v0mw^h~%h6WH2`r#iNffad!wVI&a{f?9G!7*Nwsyv7JD#9Z_;@*nI)8HZe64__;|XY#7Za0;<M(S@7|~y2YpWE1(G-h<-x7J3$X=jk=TYY$S)gaRw}O9J1{`2hc}so*E-A?VJlcM%SVgr)K17)GjRIx<3BsrBw0C7q(jbRAbjWYb*@0v@1jUh+@1g|1CWZ>axYWO1N_&C5<gonZ9|l31>sU;-$42MQOu@a@flv1xI{y=`ZMw(FY4Ra`{xrh%Spk-k%d?&>Xoy&|UN5dL!-8DI_&UX}F?BAK6&n5?3;<p5um-1zG;q`o4Rz1V2fk%O*YQtI)jy254J|GpoEeZoSSlOJnCAKN1+RPv;VJ|JN#rchpYGM>HCrp&@_O4YDU3s90|lxmTF~s4lJHV|Q8y=0)8C`&A5BW_nlfDi^Oo-qmcPs?k8?{DudWOeE|sokOhWoT-W#w}2<UINAykVbX6g0>aSkP3k>bR&cFPc^Hvnc@Y+e(Q#EZ`gfUtA-->sH+o$YNacYI;VtY>#>M-w=3_!}Y@nJHicDt#Lj3;Kp(mqjbSjgtZez=e#}Zf0;a-|nEt2&(3R>om78-W?k56UbQr$e0;Xr7T{~wMO0F~3KuMU<noo%-{T{40q2s*98;v7Iw5bE~Ox%Jhy(T?(^$$;j1a_kOQx5;%%eyTiVSLsXM*dc>8j+#$uKZUX3-vKChS+@l!Jy}<jhDIKZYYI}yqQHrZ<X*YPWAhr-1T+=0mMQ~GX#-$KUwUK#d5MpcQ1{b%S6xy9;wG1s8BJ=oe8<LJIn%jwqvN2ymX+gGaFBIl-
hU8zKWBpZ=6ros4rNk%i5SI%{OJA%)?`G`Wp-?B2A|<Hj$gR=bL-8PJDNx^kTek+n#iq`oakU2H2-MV4=bCi(hiP`Kb<m%Z}Pf$ETWOHao_wM&9h6*Z8YI?l4k_Q8p@io7liDC8m?V5IVYinvdixTsN}l|i$n-gj+pbAo8jfcKOl4pAzg;`WY(B@yR#YZxfJEoLiPpr|8BU|<cOZvLn@i*zel{Xy_yEzq#HMKWk2A9v)wxph=IliMG*7Vkr1G9rKIFQJiH?awUwR;+nwA~H%_XH<E}?(5qA{ng_+(U1&XS|B2bV0e<bZ}a0{k)$B&t*&{tpAxs$Fo*#jqFo-43Pbz<q|hW(M!&KbOdVuKz`NzzGuQupFa86B6JHn`Ji9rIR~0R@>l3$PjX+j6nNoe(SMEb%wSpyn>Mt^nV?Z?kk*GmurjXcUeoSaMW0hxYLn*3B<!rsQ(Bs#H1D7n>2&gB$#{u*HI1LCfMdV_!co#(2%yO+dhRze_}U7Sr<}NJON&RLbWZGom|mS>+M}H-csRa6pD-vvydtGnz5J#WoH)Ox|u!8i!d_Co;8=Wh4YV1L5Vp$%a$iag@!DzrGSK2>^)aC7oy19`{M?HQCGA%P3NYv!k;3FoO)iNS+JJVZPCb&RDC;*lwxkQ|PLVQ`vTeycDSAiX*(e!YO$LYz|GfKTo|QZ0QF3Gkh2wWEKCxYQ|$gWxzF?{#8i-s!QuOS6B=8J_(>7>6%*LVHvtA=2l4MG1<ja-9As=s<+^WL2;NLIltWUNdcVb+e{*6oUT<1owreO-WLSrvMWGQYiA);J=kxf(NRH4?THZpOPkuUh5#*H+;TR)q(J8%Q#@7(R9c6&E3yg4pfx7q)uEwBtijYUG+{$T)k;@2fJ}L~#R9mkO;a6AAkaOys)S72AST^thK&IBp8LeZ_MVxzSiv*g4xj?MzDk^T=nZFNOIA?)L8b|HC8h!+QxUJcGs1F*1Xp?UQpyUo_%dly3HAt*<lm*ie|NfVP7%O}j
p0-KS7Zsz!Jw7d7Tl#-?p}vK7n{WsJIi}%y-hSy_1`qh{$y#pKl2=Y2j`TM3TX)L$LLZt%oe!dckNMLZZC3G45^jef9)?Mc`oA45=@v!!)!Z8C4>SEHZrk@lZ3VR`fD_3p>*=Ff2C${{1qg$K(d)4D7~n8bnV>M0Hrc|T=baMw^DL}d;RnMB%#%U7>b-J<hxWXTXo*#f9Ev4K3LaT5IoY5YQ0DpBwRN1?Pt*Tc(z7$$3{o)*L&Vul?QHtoa*M50m5lCl9;M~x&d>eKXY6WS3NzeLSB~GG1bZlRtj<J=S+6ku&GU4tHK!tGnfv<x8a1!8%E2_uIa}F7+6lq!(Q3K{UWDZhm?itm(*(XwIxfg=_GElsl9ASG+qpT=)VH%9!f^fZ_^!HThExl&TNu52#p3@mj#i~7qcbtp*dPBWUO6Hy^S;$A6vghMjA1Em3*Bq%d77%BxTiPS#`}qtP8~5Vpz!Q!go0W{Hm@@^KgQ@(AU-!txVS~U@lN+@mbt>zrb{*XERpnuQZC&X(hG_4!Z{6i9?(YVQFKUxyAkiBWOjly^CbLzwtS;I>e#Jg5<zrGQP;&irtxra<!{@s!TkrWs}Ap)%fouD^jtD+`KX5<i;F7Mrv^BJtc$z9<9>z(Cq^I-)iOK>nAiulYDz50bcI?Bvd9PrG;id2iLu?V7f=4_1q$u=0)1@66EK)SJdgYS3X*ljQ<(7Yu&?}t)VjxDA9z&%0KY?`{Y{l`EGcfG!8}|V+k2FP*D4jnf?!0e1Lz-1dBhp%}6vBKJZ5D9$qjHC3!3iq>&6P#XGsQ4&hq>BQ~1p)q9`n|E!tc=**;@*ue{~%hXY5)R#*V3FI;yranl`=WmxJGIN8~Z$-
SGvpdhUvDPH0(yFwGHS6QE731&CyvDDlMs=Qs(Rg5AQ<xix9@8aUVnk9MGK2W3SV+G2MLhkk+W+=;0D_`0Gmg0^$>XaOlDu&?fyU<tv5J@e@xLrcZu#)oaQ!jO*p<u@u#X~c^(E6<fkN01s?$-Ad%TzJ6_Gvhf}qxxmn5^>QZ!<(wZ8M3B$e`8ojIQYzsOS#xMp1Z?IQV-K>d6m!W*C$<J!4~QD+SOmZFQkFCN$|n;6i7P1N@NQO5i7fhv(jvYU-vij=XxvpN0}&?}9nl`bJk3D%EL_6$Si6NsJ-tb5^*hgC?O7-b`+v4OB8!1tq{Ld?vy>LM0cN5&AED^t;6Qy7u>k!vI~ABx^Ta&b477uIhA;V=Z?txIK{^OKS_H{;$44KukT>`z^MD9OKQvNxzxCo&<;(PY<%?WmKMZxAMOJV~Iji=c(4;)geb5l(?5tak$T6MGD$=S!BKgjGThdSOFI5o&IXp^@xEo-r&KGvhTbIl&ARn_J(%53Ybh2<qMg-DX8}aq-jc-K_MyV$&HmK?zwk1iFg7CoEqT0~5<&FNkN|8Flte_B0;Ik+xK<{|Gy|e~E+Eqm&C=Fl-~egq4Mz;WnAC(Zg|#e)xo<7wpX4RQ#%c)nn0Ux6gX_$xo_7#g{j01fK>!85RUWG{b3TQG{eqBhWL?LQ*OZVG_~c;+s(aUlWNA4_yg(@OxR-UZbV6&Xe#yG&ipv*{`TVGX1PnDs=e$U~F!(UT&m6Xs0=hbXzJiE%~tr+}?EiC4^+Y1UsbhurQ#bYvL6^!JQXQ4wN*l-ePw1Gv#Mk_`;14t+V0<S94`%Bi`pSTT<w^FW;?;=oI2X0b}N`tZNLq7I3ETX#863@_X|0lE~)SMv$w8V)jLR01C>Hi_8ty4%dd7C60fmg?**iR*iGz05oIb34yh5cJ;0SJ__ljwlHbar=LcvcA=WbmUSYj>|-*|><8oUCI(#5>oCMcA5-
d^O)Z;{h&bmAyBrdru}dV8beZ;3W|N;*J{{BGWPj@;7pK4ig)>ERqr|53DwiMs>B#BS#dT$$3|MGroZlu3=HV7W=sMdABhMcu_S98-m;2gB*CsCsEQH|RP%nxZ_6^njaop)q^9yCJq+wKT>8}L+jT^UqTF#d8Hd3_B?kCj1ImaVJ`@}zT7^lze5q-)}_Q{o?4Nh2D2ad!Lhi~-fu7NrS5{!kRkdzd30X3-(<gZ|?<AbfBpy!qb%y5^w>^;jhSA5225}ptDkRM_?Xy$nxI2y8R>=S9PIfoIgFz`A0k;^V&-at)69f~OmjG5#__=T3IA%%@SZo{7R%%23srMuFqw@j4wCPRR`m4eFgf#vCzLt}VJEiHPR?Ib5^)Z?(+OC%L*3~HvP-1#3KrvFNNnn{;XdtafL?8@q~?}${;@|eu?<_IS3W9k~IDTvUazY7VOZ4ltMH4^m8FHEn#!-S8^WI9umpyh&o4&XH`<t$2JYle(5u+#atsE817fs~owWa){zXalY$WROlDNI`GH_!uRhWR!{6v6(=6{vj*D1pXk;_qD2%B9fr`Zdif@x}ysS)vf6f0=YrzQg#Du$(Xa=4a2YF=d`xTe*~Fp@f`G(i{8o~UIk-A`SiOwNz(TNlf#=dPfTVbY>vz&rOn~8F1h=~LKfASKS)4l&BG@dqAMD2p3ry(HM<f~ATyjP^q30zx;ax6tKUOj^Qw8p2k5ywA|)a|>3Y5T%o=w&Z;ge#f(v69Vz&E6SkzgqmlVWJ3|F`5qPTS%p}fe}GaRp{nRA&FJtLS_IY6i|55lb380UNzSi{)<r!luzN!`w~-qJC^#I(HbFf4ILiVzmJAiDFEjVR<BKGOD&|5;XRGY@|?fDu6S+M=Lu)xN0<n~j3a!8IfC*S?MGT{bN-S|tnoDw10P@XsoZbR>4O6S+<-#393}zo^6Fjgp2!Td44Y3Ik#>kkF0w;<JM$g+pv;CawK-
D9YLJ0QemGPoToVO|)$km%Nes#8_{UUJXcqrx>!<Fq+b3dIGp;8QvORIl|;c*RHXga8?wv4ziJRQL~#vr2k$Fi`2!1i?ZEOx9WXn4t-6`+2*yL!&%LQYK_OeeHSi3V5Z54LDu^_8iP(jAEk;4JS&-?>Up;AY8pLjxl?WtjbaQ|T3G95KeOP(w(`9;9G|h~5lkSqUC_S&w}=>*K1@XF4@rUD9)6;DwV%<&>PE*`(qYlpHX}V}4au`O<FVZmJR!0A7&t=t%{ERZYg4o_QuQ=+!V38LxCuif(Rfnvvju(Lsb<G2V2MW{70@0A5eofu<sEFWo6e+9O_<l=#mx4*M6Bw-4UD$^rb7yd<s8dtb-0GxC!@y~PSYr}>Kky=`%W)ISV^A<x>~rCs=$wTC+L%%>%=hAOY<8dv;)$|e=}rw+Mt7IPl^N5nQUA7_wAWA4=Qd=?Vj~b$+7}Z6lp<RLK#bu7|0(wl}(M-f||mH>$`{OfZl{V876p`1`45h^i3ha|F5W!b!j@jzz_gUec$ZztWt(sHtbS)N+7g_muDI4c3GRz03>s#Z;$e9a_`AYe;Xy2sIM^&tdpc1Rqv;j)e<A6VLnv0l;Leq_U(|Ph&KD?0IJcX&k_vr>Apn;^#WqsAPlUZFLC;97?CN0IUF|ko0EQhpX%Zd$`d`7Vuft4EYcg@x(Y)ri<<noh(YR=1rBqSNhcwvv1V3(q;mS=dcnWDUcCdKq`Nf35-JCp>7?9=IdPvC6r5KPcpK||uC_p)E~?|_iFUzkxd)MNUV`bfnl=>1usOb{_H>*NX7eLwK+jfP>ICULmBiz$+cK>{)IYIG-V;+H7-I!}y3)o$)jF88rD6o(tD#b6+fw%A5{Cg~Yzd>bm*Wcxsp%2=mhX~k;D1}wley9h2-oHaS(_LSxCR)$>(Q%3>!I2m=vlBdrY(KUFo=5&uTSC}XEqg#nRom3_kbdsdpwz7!`E-
0&|(pR*Ho5(@cLZ3rMC(%+u9~I6_V`<TXWv6TixAgJvX6OGV&y1HBW60pNnSnM2c-~&71ys_9-go>EQQLB}m}wOdy5{XZLFDcS98%@F_BX@242L-{o2I^`*1BEN%m%hS-d?sWeNhWY{vNCRzq_h#Huw_%xAN86YxCkVfSQ#riY<<s~vE@SNNXG^U9Mbg+x+J;23B^uC$f<=CRoFKb97dY<VGz0$B<KCNgg*S~1@dHnYOs5RbV6VP2vqW+A@!mqUv*F#sysxA`Q@~`oW=CD;)3m`U5Dp@`_iZBOKoTP?(6?PLqwT89JW7IhPD$^f)NN>4GPV7oV3k;!v&$Q94SKWaXciqRdjIK}1;-aZq%hA1m&@7$pbCOb(0rHtVvj-_>y9@145lT`Eg^-J19kn5l5>Pfk-Q~k3vXG5s+<plpaTcobL2T#MF)5$mXYNQW?>zU@gr_9BHpsgD6?f{<PI&4|1bi)J0@i^WxuFAus$HNA4|un$)R80?&1`cnPrcA%u?x?^17kxZ@RW*^&Urg^<Rni?q8friS9tUOVzzUW&GPt>mx`GrBoVYu5CBN2zJH5jDWWSmdqk^Sz$Ou+c};KLHBXlP(cHxV-M}H@!r!si+;J9N0Hna`w1|<R^+*jJ>NQYN`b@v0dJ=@RPWTEQ)D0r+G_9-Y(VmVF;vYpo{4Wcz9sWHxAq<wqw}8BboHtE{!r0|zTkTxCqAhIBW*iL%fCM=#BJ6`Xy0knWvRcOz13vKWK4BRVaCTDW-9AzP;D9}*FQz*01!!jE1T)64CVm8*0%2t$J>$m0GM)?&u-8@};?AdE5n9BLulu6QA?~_aFYJH-A+MG@dSbQ8$jdD51r08-
d0!=HVEhc?l?rFBbO3YQ*rViuoHPB;Im=qLS@ft~totSvK=BH;qz3LBO^QZs8<s+FTqbJ9j}!2?!NSiTlcxDbUr#+m(mn3VRT*n2kJwQVTKpWahm8p*7{#ZD9~^oSc!CrFxWsqw8_cmMDr~NC)p!Oh2UfT{Jq7p-m#s_Jl*Z2Pi}2zEf5R1vw%i(i(pEo^&t8r;(uMl;wW`d?R$xfs-YtnxOlr^AS&|4}Y4kK3%dTcN2?XXmR^dX$2hKH7vM~60e$J9}p(DNSH{$-p;D>v#I4kXzX(nCUNTW=%Re70IFgb{14izIl2V)-wlRd^wWX!VDjzMx)ns#mXYMGr`icLW30CVP&Xxyy*R~(2Tq?@U^D){~a1_8)Z9EeXe1F`;U!_B4P|6|HW0LUL)zV}sZ*K;?=uUduD4%2rgJt0iNx^Y0p;q=k;ZOyW)DyxxC7v`k8yhpONtx`XDe1Khe%L%Jxra@k%%d}=f<71ds8blH8Tic=c^9GVvHQs5%l3T3q97qW^L~8-z;ky8>tX^)uE~`{YYjK6HeKf9+ZitB>RS?IHe7mT1X{>w63`q)`H?`SKW$$rb)8kbpn>O7!oSFdn?klYCL<Pc0at(LP@OoM)8k_3`pZ3)N!V4vxs*X7_NQkuqZ3^i(V)`s^8uk?y%YsXsfQ;{Lbl=4XPw(C@SBhI5q&A`g@%us?I<yG5|2i`JaU09Qf4yBY%VZStoQlL0MU?Y~L_`P5;dK<@b?!&gT#~hh+$Lm9$GmHmPWX>?JTOsdv48rHs#sf_eHF@j^_Dtz9{XU@c#Y_?pZZshCfmoUB1ST5&@3J+oOJJU@C<lH6-@#JONVVN<llJaoL`FtYMTG;xPVI4UZkQ|4f-GvnPw0}sAVJ&?eq*YD7H6z0AtnM4(kPP860nqD~`FOIaQLU3Z0a5QrJ#;ep}fZ7#+2@f^yX@4`4_=i76zCp95D}oIU~9HnTR9NUaS!{C9Nc4T-
z|gu@@)h|Ocpk`atx9((2f+QT9KdirmP1C4}Q1NDn^aQ4=ywA$4#knzwWhZu)?HH9d9bt?Nn2MT#>Roxi!$DIx&$1H!0%AJwgPPboq5Ju5o`_;x7WA4oJ{tDkz1&ZTP7TK#M11sD+FI_6U93}JkdFUF`9qR>dmrBAi*-j#r6GU-09+Ni}jLY!p+<-x(Q$86XvQ1_D|9x-<yeLG%CRw_l1@?*|pR)!4;M%b2$DfFAm3BdZ#+^$<70fz0?@Ki^21@B{0d)2PN)n$kiJ|tA95G!2Z%O!Gi!szA2y@(t73NjaxVPP(EL+-}tefjA^s_FIuI!>ZIuwd8K}A=A)S#x>JG>Ch4{MT5s?3|5ovy;kfusfLUl8a;zIL}YupPloR!*{npMA7;=tcFja+9MCTGl>cLI*g`A5cDaf@ZqNDdC$aI8+ZCm3IyMw}Orcb%wo~haTUI!oaoKyL-5M;u<CHcz8tK9OtD@lD*ctaF1s>b^MXjNbqYO>^KTS`m(;}R*-Uzim@Y_9*p6401$nnMGRrdM})cxi`FiVFrGxTVTZ}iT_Q5A2@Nuu2R#nxisKSB@}kF@qRl_2!tk3&Z)C(tZtI{Se$K4cLYQxr?@K8=MMV?-0IoYUm;#8{8w^Py3UkQ7@22~r-0}S_c;mzI;c2;N-VfNEs?c%ad#~$>??zebS|(a1;bLeXQJ~5j+Z|D!V^QEs=9(dx+zfK9y$=ki6p0t(;M6h!<4rOKA!kXNSn_EV+(cSq<_rCyfHSF2&+zC5K?N|Y__&s`4C9*+=I>~eZ>wgb?lhZGhNv-%VLXAm@IylU<}eb5Rk1Cg7H5_&7GQAi&1bJg8Lw?}{6Y_WV&kbhoSHy@P%ZTRX`}2ZMk$X&S8mP&ptwis8Mhv2lV@~&phQrFk@6v=Yg;<sh$B20`Pw2Ko5+kxZwc;B8*6A$H0XZ75?*+47d1no-BZhLMuiqX2@xHDg&sN&yC}M&$(<&8fuLn~l)mD*%~z#5llr<qG3Qz3T!0(#n%B
}wA6*1lp?{XKCt_N}K!eR}PB}0Z(q|Upc%@uw5lLpZ!dcQ4<Vb&31O9gDdYyx@QCp<yfv8_E4Jh_UX=+guVf4?nK!<zc9`{%R;B$v$A{x1*DB|jDsmXZAFjy@X)X4wwp3G173K!T%-iDq&9@EOqAg8V)PZ{4Cl26bavRZ0Ju+Cm|P>K5zr;|9s4MCfsi_8&|hU+;DSnrWhEBKe55o$3(>J2dsV<y+15=*MrZlrKDcK=)$oqW>zR}Ph55VJK;7?)NAc<l)!ek5iBKZJ$)1p&To?s_*u5rg55`_*mAuvl9Xu3Bl%EFJd2Ol9l=c>`OWsAh?_U+|L2n~!P22$$3Hy4F%O43<bpFpXFsX9g&UMYY0`aYM})rn=`dI%BX4+MR{jd?9lbqUP;|3Ha$l@%^l)J`Gir?Z2Z;$k0%aPj{Cr`Ctsc3G#(-U?kkPcN;CHmap7gMB=p@gl9Ny{!eYZ*02hFY*)(rP~Gd5zNf7pGTsxQoMhBJBDjC9TW2i&G><WV^+j|+Bo=-r&y(q|d$xy9GcG6&yKDrU^FDkdTzT=NVy`$O)0z0hE0U#X8!bv@`F~sVAh3SK{F0oqusZ=3Q`cC9BxO}+`9S*fWYJI~jcuHn#hy*Rmz#bVeDx|aXl=w{oTPzBIl6l=#<RkzyDp0}aptyBqUD2e2xJ}R2wi6GFJHLjDtq$TArW|z)<+TS0LKkoW@zOU<Btb8Nw)$ZxF6&{gAUJ!qXqYyqx}@r4VJp%JY_y=u~tIlBP#XOq8yUBXK0+LT;s}BJZgr?G#R~roc0?e;bWQX^it<4Q%%pznj|NH@5KS$Nn}N~3CAHe-F1#`69jS)t%a#~d|~A=CjS5dXI)uftkv=$pz-6VPtdhHa<eJnUKm5Q<e+Z6l_}-+IGk$IQeCj?3-
3=BjuK(LDWbv!37hEwCs!UNJ$0c_Mg=j;QY*Ra8tf4KjKL~S9_Fqik7Fd{kbL7tG<WkTOguOFd(hJESID0ZjoM={2nf&3k3|$JBq!VlC#}HhYO+klwzbs8c=$`D{u%+&T8^r`?qJvQBKMJDU;#C^ISx>o^Xnt4T7#oj7fjY(qKmv5C&1EHQ{91z*SvOMp)BEIhEKfRTl6}#iBrLvLN!qZtINPw4ALIi0OJHv9%U~F%y_OVj>=l|2H$;s!O(5%5ga%ZYqY&Zpl@^~PpCKCN)QJS-i8^}4ObtaWn{NS1KNt&_O2;1FXzR?;B;j>Q_twM-}nWEksqR{jVm@-FtjH&5$8)2e=a7DZT<wdvcd0Kz>kf-l$M*^taaa%OJy*ZgBkO#cv>ko$%MisnuhC-)-G*K1x)Oo+)?kmBEpdM3we|6Dezj8=^U%FZk+-TxETKi0FoXEETVtB&NiGICjAXqLZN-IM#mJ#pK5dSeL;AkW5?MeLZ5rSwjmzna&%7M^?szmsZw_fY^-6@$p(B2_XL%$Q>_LJ{rc(;g61%E7l5Q7FckkRFcKac^DKL_H1{~s!q&ga^}}G9VPVQK6x$Lq`;llc1(1p=Pw&N52yAHIaiNAY|G4qgyJOiKS4B{T0R!TJXcP5a?0jS7RBU+S(&R?%trpG!P>Pk&#mkwh`3WsVK0q7SFv}ZSoM%yP1u=>{My7gumWpGOvPJ0YH^UWl_-|V^atP%^>|h_!{t&vZTa&=;U|?%4y+!!K8ahgx##68m4-X3rJvYu5#t@<+^Ezp0d5$1js09oLNL|$eHZy<)aw?43a}r#K5A_mJ@2rM0(;KIpfjs7OQmQ2xt*BO}u0Vuug}e6}e)uQd2yI42Y~0K99g|1q-
n@c)qP~*VK13BSAO?_XGDV|jy{3?7Ce0|b8dk$|CtXQM_r4XsJh5G5!OW3<I%9?zzMu*L+bD*W;#P=%<%EFg=*vrQic(7c)|?bscUT98%rcI0U0j_417ut8GX9TOV5|hQ!>B!y8KsFK{saAi(04+KJFFZUX6WR~ylkv?@AH>e(Qb6JfxVVD>JcI9EA=$feB3G9d)Xd#pCw)AFB_n9Yz=FIQRw<V5c9xp@OAVa3c-MMdLTd1EvsggoE}<)oaG7c+2eT&E3oK+`1#nX!zPf~=*(Us4`trDVayPGbPYh(ZdlOB7Qb*@_I+X`X;IEtA_7|7d)wEAw3=>`!eEv363^i&#6!&mbJ|pW>RdWPn!8s63wkfdF<gy}_Q_ZEMX0>3pMA3m_zlY<tas?f3iI|==-yg>Y5ehtS>lQ^HtFNF+ziwUdd32nK5q~kbK@-dFGc_sEnz4@k62GZ9pFiXYSN4oA#rB!2SUSrY5rGJn_9S3Bq{C5T9@tHHD$8r^wfvX+BmBNXUSY&5;_CSYF#D{F`XrqWQfblP0ZPYFMFWZ|2ac-0gKmtzZZBnh5K&f{=tEz4}J$r`p#P5j1zYx355w{MFGBh=$qXiEI6Hzd22;3*4ga@HwmTJSf9C5`aHfu?JGsPD4W`Wx<90!NDH($GWJaVB_oG&=lQ7s!D@LGjw`0f4tHP(nN`iiidFtYYF>=pjQQ{bmatk7o4T>|1K`7(hb;DC%Pxcy$0)s8UD*EQGK<`pW<psUj_%|?VthufZ=34XAT#q&+oawZQwA^B{%G+gvv2l)K_h^9rbDX;{P<Ha(~5!hVOSaMy3#m;L18D$9Qf?+U(DZQ4-Xla$#}(T@Kq=$n~kI|PFxu%!#H<opKoo3UeGxXfC(iJaBcN}Y&-wO?VytMiFy>C=pJQ`(KT3*>f0J6LhYPr!Sg4lxXP|0nB*Jlp#~XW9b^mW{M&C(iOKneV$2)aPl@VQQm%S9nm)>kjs8D51srCWz^c7aqIU3xO0-
xdC)!e&_2lnBpvf~3%6P{&xMH`_`=g+fx%@M?+2dnc`g%3RZp8qW*KQ%Ta!(Y_^$RJS1oJ^RUpbzotvNT!O}~&;`*jT;L`|TcX}NS2O$)TF;>D*E+n_kUmrt*1Q6(Y-)>rnf0AhuWc6E0VhCqrXb%)lvX4ZkSt0os%W!aGS3Up<%0fHyzB2rO^+z+_qdPyBXX~GmaC0QPl4GR6WpjBBq5(%ELC~E;^bpzB|5pl9DLhTm1@EfclSoy!@)VHJ*N+k~78^gpX1`?E@`lW6z`8f_{RMDf?pma6Am)ZQ=NORZdk68OS-qg@a%Hs1kil&_e%|=Pa#CiO=^-~cWG`DjYerQu?GFFJUuwDiR6d+{J_~pBMnA6WfwtQ8Y|7&V$o4shzjwt&><Xs{rk({>?p5iM<bbn#&B;SczMnxI7etA%Erb!MB8#evaT-&s51jI$|45jL^`f$uB3rGk`{>>MSfj3P2p-bT)2V&W&fgAA%8`Oqcyvaa(4G3y4Usp6-^bGV0R3rO^MKqQwTBAoDS+$j5t4LiJvvZ5t&QdNMV^c8-!!mT%CQ8x!WKVY-xiaD|h$0z*IavPm7q4JR3LS6vNf5|9@6v{uDYfhDV@R{2O}|V4o1VF9x)6Jb;%&|TPNK|77qpEFPgoqs&#C2DE8YX6t4>;?YHD<z7hz$M7KOL+FL|)mZC|D3;=}Izf=p&Ih+iWD7ZfY~He5Cq&XwAFbWoHF?t@p}A+DD8eUovu;yYjfX3!FmW;kp&1^|b{h=#b1Jp&+{{z?;~X;+qL*ivP_HyAmm7j{@WoYIBNy=&Xm-iR{cQ7=s7Bf9KoNz{nNe(J<73hT>aYyQjV9T|zNuK{q)ZGE62(rpRjY?0S+BnvaPtVPG?7xAoH-!6w}7cuj5Jk-
SYTNa1BOAoyDOZ>uu88sCW9p-I2lgtF>Nk}K_6iUzb_e6LugjT<1x)-6r!&@TMW+N!IsD8QNoxQ@~yw$5#Z1Xl45%WjIr+_z>&-~bVaP<!L`&Du0V5>G*8xXiV#>D63oU3T!q$&mmb5G521fk1}d4dt}V6M{+NwQTCR@g(^LgSK>S&`XzU*D{<U+YD1BX4AgB0)#f`GQ2hb+H{&=dcp1>}dv1jIvpN!S)N_7`BmGMB&(y<>wI3X<#rNqq7z7!C(?$V_+|tqO3s3wvxdez%<2K1bsXf@;3+rpivOGokp5Tr>K%Ow9}f+I{0)jY6M2s$`pV#LS}Gti!fhx_jA&vrnO@Hnw}@B%cSiJ_vUzQ9CQ*r+iDkMmLl6>kejKB2wwA`F|Y?e9OdoZToAX!Ay4B}mx7Ls<`ZlIv6C^Jf5<5uXMogzFpf<cZz$Vwaj%!EqjFUB;pGdx9k8FhDnYzQ1ehx$-LXgyTJEE<B?cF>Gz6=TMvCMyyo;O~#ZVO3;s<3eyrko1#i3?u0|6xNO!7x{5kXMZ_x?4i$nd>@GWV5n(onb1lQfBFx(QtG9(WfeeWuHZ>#k=@0?&5D$J(W7X?e=sq;Yv+z*;gAQvq3L%>q7))tLd+1)&!4R4Y^5#w9mCjw#_u1nvK*3Ym>XObP$WydfM|(!Iqe_?>dKtLJ5O({;-C*oi*Vs?bnM=6U|>r>~0Y4o~TjQKWLyv@ZB1V=oQz9nDM-RfL#Unpmm6I?#)COAEs8)#okahk#~RQTxz4;IN;<QGpR2DEo$FNqvK<$eM%RYr!lVlXpEmnBfe5U%{%sgG@WrU!gwGi}v7u)IH~`CB(U`Y!V(+cX%uCTKBo?gkNm|&th$i;1zXD(A~i}9Q{4%<X@MeD=)mSSZAE_S9+i&)m*3fjUF>E{bmANG)U2+Tf2<M`6p1Qa|2DnnA}gw6;arEPRjfU#Ku7Q{Ak1e*QQ1*34aFLO|!?Dhy{w*ZpjlYH0j|f6XEdG51T^A9%4A{qh#N-
7c*UM$g6LSvkEPEOb8JH$f}HbR^q4s%j7Z_<2*X+9<!-BXW9C56P<(6tu<{ZSk^~9m8_p@-{qzSa@oL6dhu9w*L5&$sYx48(2+vEZ$QXZVf(=b&hhIiKDQNI(UEws>CfL$`1HFTL@S2^(_=QgEFfSuO=*mIO&QoJfYNKHr}2JUb=w<B{XsrGCWQsq^)-kCm(2n@sa0<IkSj&5-F@U0)lvcH$Z7X9e0?td&#5jj5mL9EEw*0Bp#q>eRI8i58#&m)*n<4AgNg*kU3UYNn~oM23|cx!n`8w2mgIAvS-4HUwnM-X`*68N&xInt=!Vc=U*W)IRnrTYx6->@x75+oLDLSxaKR0h5^M8!eAQ#KB{50iAWJRzX{UNPZ+tn{EAY+?z>uVteIvNuRkmO{%*WfQ5oN6MX!l~SwdvzOCV(*UpXgxTtShBF<*>6$I|e_b)gvijQ{GSoZ)R=y`-rA>O}4*vFuYrUtXPo%Qv%2m!=&NAoUD~=m_Znkox-}>sD~CK4@!+1OInq=&)4*BDgycrMya}XvCCAg)*)6O!n9Adihq4lc}^Ev4DWwe6V|4LuG3<mHc&a*%4<T0<eg5f5Be6`Yw+8sIxew1%CL_RL+eZPlc9np!K05t#mt0vcJuJY((kqTJonO)77uGwPljr<E*=bcBgNHMZWR5Tg1AA*+jj5hMK0CP0oCnz^7`S|_Qvxs2%@8!w2Sz~Za13~bFe2Gp6*bjR}>wKx?%FZTEohuNn3TakZBO*wKE!R<L~H5IOm>LFwPJ3k#k}Gh1#z+C>3y7jTD42tAvwTP0Osls~>qD^fM5pl$imBH+CNZe!!z5oT-bT6<(BinB0h2|7l@iM5;Q5R;rh}ErRMjY#wevNSlpMiW%lA`D06rJZjU~`;^hj2ycQ4cC3XWBcA~LDN`lDYUJj5n45hWm0XAFv@SZ}tLdJB1;ymO<Lq--=L6@(O5Tg~(b_h>JGx}$!9a#|EA@p^f>|iw5CsB1EPd<#-t(-
vpBcmbf_ms}7Kc7-C1Jf7kH<MN(;5+@4NL)}P`F7AGyup8&-+xb#Yi)wLxTR=9|$Qq+h=eZwSRBu?C%E4jv~;#-=X;94I6t=(;(y)@nv#!abX?Tzzef9{pNFXquo6Tf0T{g^iz4-n0CfG;bWJ6nfY3T`EsL#^{9YF_S3WJl8&JX$)7B}yLVNO+s9Lk_$UN31pmaXNDQxXE^yW_$q&r<{a0z0)sKB?9Jf7T4ESA@*lS5f5zPq^STZ{XoB)E7blxz!No(Km&B7ty0H5-xpA3J)<e}x;A$7M#{+FYyLzB2Dl1KQly{a3OOE)F~x^G+_2rHwju?3yR3R<eLBI!#R-Cl2(@5fX~O8j+gEIN)p9)}jWnoizKM^Ho<3oi<jyFRBw=nB11NCg2H!7YJO_CCBvVWz9#5hP!_cWqGSc)1~{7%5H0^1$`5H(wL3?;rlB&*PAw4#Ca_)tXSa`-@yO;$dU8gDH-w==2N}45+%fzW$Sk76Mb{`q0&SQ9Wth8G|%M>kbG*x}tSHu!-
lR*dm5j=mOmUbKRsh%%Y6jBW((><&W{oy0v|(&O%vhJgmBp)BynnA!4kn6b7Hw0x;xIPh;R7>WDpXS5sf=mST*6{lnEs^Gu1^%ktbm<w(xSm^ee{vu?M#p|*LKZaz2`b?f)`=+>sVYI$ju?>~s3fkZC_xGp3kU@Qb0Dge%EU=0fU^K1hjXQrt_WQH3?R4SHzG3=b}!!kEEfMLybQEl*7HkVGLBmbO!g{}6uS^XkH)eJ$UA2vS9Tz;qDhyBz{uM_eh(mPPJ`(Wy#kEtyM30d2ijRmn{;&$tS?_h>>kqth|*0=K?*a${v7R*m*S(8)U5ilPqp7YSOxjmvx#=EJhZPNj=5j9O19>$fV|L`z7EF0!ThgHlWQ(@|BHvh8EtTb^l;XRAdX{}V$m6OBd2fvnyljB5X+F!^P^QQ_~If%;b=mw^gyVhNX7F+mgg>r}dxYT4s^F@H)8G&zI&c71Y9p`b7x8a%vuiif3Mm`4-i3$et?&87<&M;cT%A*VUyfwhj7AT8+oD+{de6ZmB@dTv^U0UE%PYVI8ynCcO>9k^*4ZLwf2<^}a(>llvblr;OG6ykm$3wGMEVn@1m%=r|l|ULVTzQb6#qZkCNX{>B#@6(NxYEE<;&SQk!DMB+cbQ&%G4Ck;k*HaE2u*<C_GtO1r+o3UKf9ILj8R(*UAYhTSAGN2Kddg@8v{@e^fH*X;JJdO-<oX=Xw1A$2gBzIvV^cyNV#@3tvst9Qvxl&-2dOtYM$PJ2l;+{Fs1H$1sW5PRt(ey=(Fm5kan=0XCzA3$pAYIZ2nr|^tge7cH@IcTadZQqCXBoAAt0{6WVWG>J$oLdGXLX*FuUyqflkUlO+HGg8qj12eIRd+%}0Wl;*Det?Pefb>65HfypEQWX(d&d<XmFC@OcIphPrVU0Zh%uMMi|>my#fsLmF9irSq1L-
YXb#$FMIpt?+_SFT2{PXgTf$&>{+JoeB2>_Q70Sv4oioh;Xn&zM&{0+>e>%wuF8x1r``pewnhz#iq=Cl@RP=}fdM5K`S!5ENB+REG1j>Z7FB^{#qaRSwIgauO9u;Lxtl$IpTPSy~Dz<2)KU*OH~YrUd)?G?|irg89^01U>Ofw_7R@?${`NZ!*gyHkWRtVTqQ=ao6%dGjH$pY(?1+ztOs$iN?lDscL}|YX{^ZDcmyJL^dSvVUx9^y^+b-<?TS=9eV&c(UV2;h%5FJ2vX~LI<n=7t_BVMF)B`9Bbe|1Gy06x)SjT{6t&hi&>iZ%ILX7>P5;E_mB7iyg<+Q>E=z*$eMJd*VVe`c_g~oO-oXp8&92+y^Y1v)oftB41_abzF!8VjzQZ=?7H;q0wOi(}FJ2^he%Z}9UcW(=qL%GMpOldkGUCC-LNz7=>Sk?lLd5z=D(v2bBGvbE^*T+N9+8}_O!G}yIs`TDP*AU7z}*arvnJ{9V%|9555{!^>?kd~)vvJ-
gz9C}eBq{iT_GX6&xNb)CqVKfHBx}u{G4gu$$**fRD%(4jgZ;pSR-&I;_g3keLdpyu}OFh+}OKiR!YKyoK9J%N7uN3erE$*R!9(o51gbPczQbM51uclL1_$y*5i<e3k?0Oz{w98b<IZG*8;6+Td?D&$_-5P^$jG=Ss(NmSUDTA8C;^o^&R79J4t4PMIhu<7Jj8%#!Gz<jV<A<b3u_ckazzrD8hdz8!h(S`!}DnVNZS3JrAN6%OLwAMaed!TIoe-Q1xB_DlQ7=xBBXhgV^_J_Hn0}k9-U6!9LmF&tEldRhSFVz>&qLW;X)^Fbo~gC(U_fv<NjHR-W0Gz~b~jw~psQxPjr5qEa8ABH|{V-u4+{SYFe{o{Pq;z0Z|R`A~9dp7JJ@D@w%9D{BM=II*Zet0Yh@@pR9&8Fe?3uEkK-2uF6!wPpgE`xFG6aPl=l)==esr|YpzuPDEA<|&+XtjRX#lH@Z;YqvoB!c7TJUP_Lh=&poW2TnT~>$xqSTUwKfSJ4F*+FA%@tPy>ODuFKv@?zt1=J_RLbbF$x;GyD<o*(Da2MrCYwGCfs1NZUf_KNXJrr=_a-SVzRDWW@po$2;7U#j`lM~IR@Q)UBncK%1{mC?p5qJqreGi!T!c#Pu)QE(F_)=-j%8*ll4m=b_?Ss%^VXz;grylV6(+dzn8gDp?d(HbkOz<2^CecZ5&WiTc%Kuv<4W8})^ODA1hc|FSDgT*E^#NO4Fhgc5&IX(@z*gj;Q9UJ*tM_kr%vc$LLrETUr+M$x=c=bnaY8C2xvIu8U$YxuE&|FT-ckQ1DIoY1$!y|swF3uN(8WOVs9aV>nd?&X|jkJ<92lX>+Jm60LtH6)RHjl?|nZ|H3%p!z_7We3Y?Iws4a;Kc(3o3}M4{S0jobF50?^1;nfrRO684OUi#5~VByu!P~BNe-
dqH^6(gsg%38Y-;e@=EH+HO3-5n^ifC8UuoUn4nFOJ`Jq%bc;YCH~6|*d?!TS!7+LlEBhxDiUrJ$@?a`ddaH+g%LF9(3e~8uyTF(9pkX5t^0-pO0AR|l<JDCx8toL!?#gwR6t-bq1*KeRUPRMBM;F5E@j{rlcGCjhX`7{S%NqBxQp;5NBb#6UA%WU}ze7#iOTT-BqT!!6aa9R!b{Id~dtiE^&H}<UidYc6X2@xxs(3}+zV@kCLFX(oN8a(vGK`tSYLH}kgALu239o9{W3TrOq~^hf6C|4f)(rRX(tLYCz?3+CWy%R}>T>iXcy*aW0p94j`xav!LQH6#Rq?!I=Jg-;e+7Z8s`q<jv$!OpXzqEIv!Mqee>Yhy970bv{^I%J;Q)e8(Rtd@BJpZDC*$@H!+dsdMfPA}hXfb=%v{i|+?$pgNk$mBe5vU<R}9BNz(l}EDY)iP`f8z%bVn%?C8k|J7L}IZXv7UC`D-X^C6$~q4jo75Szt9u(g{?XDmGo_0h-<q9`y!IKHJ$u94&j0oct}A^0JPC=^;@v6%ekG73k!ql|Hexs~i5EPu3v#P-f0)N-m6@*bGh~*c(v6`+9#7a9cW=#aXCnd*kj-ajH;1&wmGa&B>S45x|Qu9z3CIIm2EdwA8{SKa5h)qv4QTQWZfA_nhnZ_mYF}@kKX<n`~F-aP%l<vVivI8j()|i8h&Rlu!$LeHx|`aFS086q4DU;UkB=W`0)sW?v%Tav5aW9e?YkPm+BIs8B0#yg~Hvb}P#o3vQmd4wZXe0^`k0IVz-kw}pBN%<olTkl_TtyZ*D$B09Xv6~#FO1s?lh!SoS#@ul!$`T!+`D>Z}UPz*)@+i3q-p;*>ywquf-
sKVU~>CxYHN@h78H5UsD1(iE<OuJxE`BgQJ2WE4jC$Jm|45qi!z(ygzs#mDIjNj+%NJgS~Z@iZx4a}2rY&l*e^cx$ad4ziP9r6vfqh3x4u+DEH_t#dlAKZ?d7EVZy+?)&ni1WUF)A!I~czVni{>s_M@*I!~Lm`bn&lZQnSxXgDx}-hy&U5D%CZ=t&ZzXEGv&y!`*<XMhd0NOFD4k6G;Z;$6cw%u1D$;qI%1#3H>_&6Pm`_dCe0i`9i7TZ|hje?J%;R>`AlRLOG$s5`t#=p_*;lM=lFhGE@E&ub^Le_Q3D>}_l2c_w3=k-deEFX?{emK@+zG5c7+)7(PP8hoEuti~W)ejlHn^#jISJGp9d$hHJL>CNK*g_>VXD+tyS@<PX}2tU6|R88s%FWrg|JN#F3)AI;BB@enYvNcMMf50td+-&=3d#(x$Rd{9h<jgKOw%E4t?g&>3yi>Aguh6Yq^Vs>rPKAQkOGf+g~W?yIcw0eYe{dZ7h5raPi35NDJMse3twZ?TFI*G>+{_J?-`#)a~3aEsvM2voi?m%fT!VeWqr`K1@L5Zt$~2yMIeieG#<aa^owiVo1GkE=ER9+-Y1(WT9AlxB5d?aW1cV9MVIY!>G{Ut&UOzM9oCdK#Dc;vgyr-
hX#MmTpE?iHzcX}^6{aLQ$#N;%-&(I#6IN&jGP?BN1|f<G%WQ&DObYQN=m{t5xIV8S&-I}9_izM?k{H&n3amq>rnk+{8ei@hk?_aCh6pXs?Y}Nu2pNycuo%*zc}V-siQ;6yDeoScbngtlPc)Ky&9idxQeZfu?Xz^>?}Hpx70(~6R2(8#v0|VjSARfG=2hjKet;bK@BAaLHkK0ph_!QYxp}aAO$XS823VLZ3=DQz33~zmxOfK)^-3R8W~Nhd%`?g_X+cAe4efyVCfjIeA}+t>~pv5xgCYtU)M=8K5JA)mA-v@>wsEjrf$!*IvA_iY=g#2G;c;X?jSQ@6Y3v)OiJ}_-`R@Ng7i3VrihsfMz0C(C?$a1PS^xQI42yd?11`0FJ7=_GcZbN5V)=Jv{Pd|gTJHTk7Q%4u@nh)&~<^fjcFg|3)&kWk5lUVUS~7k<PBd`RN>^V@ys*f$6F>l>jEiqi{#ZxLZJ(yGz2x*%=@|ILC^`7Y2!}<m?t4Eaij~Tap)G$JkjyLqg*9-FLYI~lZZnj@?Dg;F96mCmdmu!2f`5nQE0)FfZRI8b6YMJr`B8|5`w5UEQ-oT#P^+B{jBT4BeO)cCo)64rqPjT+$0aveh2-4o^LanBaWGLo@fHOW<$mgGkAUQ-X1a5O{L0Qhl8tOVWqdnexg4V6Yoe=*(G|bSW7P&HPxR8>?v8Jzx6nctq2tg?eCH<QrnWM0`lZzkuP0*U&No^{a)zpNN*GrH<|pAfPl>?6Nu_3zu}in>otaZ*3Y3M@lPn{u{!a}6S$^&06c^4*@|c9ini!W&AKF;E#CCvOX4%WbcTSIZ>KH-WV%i5IUi|7kNuh^*>a_aGPE0{=er5Z)BI3$%zvmEFKv&s*+f=zCJ=$HMW{0Bi!a6O`y<XadB(8wcaI>T0VR<Y-?oA&!Db-
dO#2V^4}bM>?1gPaZ2r@i3A2F^hy>{WL?=pA{`mWJQ-$(U%=Y&)knJFnYIl%=qr@zJ+y#EBL6*(?Z;B0c1D#fvv9XswWwCVJ!L`YK%*`IAE-QCt_IkpfgZ$CZ4#)9c|6HB&SeT8}Q&2=oX9E2@d`8NHv}4`gRs%AY2xr7MzTZ(aPh-Jsfh0Q|#;h07v@Ag+jFFW0@<)pg%I}1i3!5dIvm;L~8ZxhkYWB*wxUaUr-cak3Hz!dPET4TjO)6Ak!;1f?&_U0680Q%g@WygRgkEHv5#?c*nEE?wq?Iu6mvug<vc0AEw;|ckADK&TmPc+JbH6Y}BnREJ#Q~8ObbiF4s<9_04!qix1&U$*29hg@>GI-+`_5&O=R`4K>-FVMmtDv5vP1uAk1}vWdXt7Bi{1g1gNa9I_XidFw6a~W4|P1z5p42f{F+DsEnhG(OJ(uLV83GP+e^}vwu&oQeoS!x?Kd@o11ooD$_G=;@|18j=H;YThq2@-gGE=S$gyvO;B>e5G0CSQ$p09K(y(VOymME^OuRa+>6%kIhyxl)2*Hp)n*G=}-Q0ayPuW+JUp8rfnA=`lx^QWIW|kB;N~a~CMZm=LQ7}Od5)6XCSX4#%?J!t`jQ7HH7^8d8?P1)&?$Pc5yo#35f-WY(p4>#=ApM*3c(>i3WSSCyVE^1|94sKyic&BhTosdvsrryKKay2YE{s&SnHYltwrk4K;@BsrH7QKuJfa+Mjuc|8gw?n^2Zqxx_KGrxmEx{^PMxBguugPH87L`J;wti<=J&nn&_@CZFxJ!u)3=?=w*#?<W0LV?kdS4s|9`ylml1kn72sqFAM#WUHS5%rFed}@2J*v(>X<u=S&j~nH!5oOl;t0UGf>G7iyMM8?(Kx7l_SSK{>UP~6`L(+C^{pscF%0c(8s$2bGi&<x0=Nirmg|VrLj>K(R)KvBEQ%p68*vkB?(|j#Nb-
AOT`JLhwrlc{qh`g{x&Q%P(gbI&pP+R7{IRDrC+=;O8;F$p}c!`{(oA$78|2uifpm=kb2H|gFpbkv5$6rbxfMSLiZpy_dl-9v**6KB7-Ax*?qB^gY{}XCBtRCDJ#E7IxlHXGzCwo`grUcE;48(FBykc1|@`p+4^5D*$2V*2MG)>VNFXX*hbaD5)ty1Rk+G^C5!jqdF_y-DqlOGtG-I351Nhs)scqiC9G9ub3tv4;FS1l5q?BML~kj#I6suNd$tehOn<Azxfz@r%gjAm5-P6L4vIB(hGVBqVDpx`#>fb7Z#X!$ew#bFsQ@?d3y)(A5P{vdu`5%VC2?_NBfwX%sgqg8qlKn#w6n894B#73sx2l;QJ#_(8bx{B+SQ_OkMWUaK=SNES2`XjwPK;vQlCy5N4(EFL+R}RsCg@@-mXs0mg_3Vz@dPvPW5hijvxh~{E4S0r9iY5$GjxS!>?x}bJ?DogS>P?3m_`RT2hh57~Z2G^0a3nO+eSp)Yjt!(Xj~PS|P&77A5Egn7CEKJLa%=%_7yYU%Ugru9wtJu~D}W`;WZCidUOmcb`<)6;J0rN`eWbi=QUCURVZlBb0*%XbuRsqE~VaBzjj1dd0&O1ABuK)x2;q(jH}~a#H0lja31|Y%`pZC)sH18U{5;Xgs#xeb&C;Fv;I}Mbpw`c-`9yh?P?8V*cHr5h9hSB7Y=Q;q>o?0lhnweCm`2R_{}fuc^16&>`(3>GV3z_bXgLcJMBSQn|y`xN{RWR)#3#MPNvQ%fX`O-6|DN&cLg^ccqO|_W6O~k_emO3Usan_Et)0cwmya(UoFtr^{zMQ6WUJ`oYf>@l~?O_zkGaiuMyido{st#L~1Hd%gu?Y~!RoGYcI^=j@o=x_J#7Lm^GCjsO(mwSI?G**uZU{}&gA-
ix_y9K3@@#gC!cW^(7Jc*=j&Ow`ebd}V7Q??`-m3RD@_xr6oz3t{dyQWVg`9~oY$8$>}((%<U|X8B~8<lfXYn+vW}P39y#aE3#IJsDURDQ9{2Iyhr~WBb1-j@1~<025KD-obIiK|%8HO#5TJUzD_9pOLU^+tV;NxE$8t1}zF8<9kh*E<~UY;)3f&$0iR^u0zSwN!G-#8gRskS(XDiRIp=KdYK6tY=3FrmgMb`v|p#9$GKhhX><rLUyJ@}Syq9PyOg)<+a}e{ii0W;T0A*?QcZHzbvCKP-$`A)K~^=wft7tcILXi3OF{ALQR5C*7S-(UR<@{T)ug-ix$ZR5ELc8XZ**Svxk4Cve%3zrWj)w~mq#&Et~LDLh|Gi_n~pJ{^T0t8ty2XQ5DL7RZ51EFD&OS^*{zmw8gR(rckM+SlK;fl&Bb})%8D3R=xFf4t55woA8SM>kLZK8CphAt{iX%%K!~HtU+N8y>HZ>qJm~SHun0OW-
MIYQFSOLY*z3-0BfzCyE_fYL&;KLR>*g)$JxBNNN^gy-V9*w8xn4OCMR}T?l4*)bY%-}vbE=(SMK*x~*<k(|F=;$Oi(|HKg7q#Qol?<%`w~o-N81xSg6;z%EU|MPFVG*i`x4j<$i7NqY#h5qZZ%}EGPtRh8k_jc^ZQvp<v0_?f>S5-(x}G(y&$1r(3hH3MBPJ4M3fJ2t8PIF2nfEnrVZQtDDq=Bnh9U3(%JFO4qg`xqFpIfSh_0&;H84yI?Q{!y?Mlv^6>TF=~d56LY^MmgN#|@?9UGB7F^&Au4SlysbCDt-;#~%Ra~%6C;H<y@J*m;biN(z*g5hd=8Q>Bt*~cmjH?8pR=#alIdh2;(Gw}c5|58tX6?$9ZCEmuDl6H!s~8RZpo?mO3NA0dBDHM!UkWu4xFrbHZJiGR9I>>e@^rYetv)1YJ4+e%chq|J?=%+D=%B>>GBEXz?1KX7=Qn%ttSR>Dj=!3qOSR8rFWoH<PvU0Y2!H(HV}x=G1w9TwXTlpqb2{A1&GelWtK=93bWLs{hN{_zKS;)`B(3`JqHc8;*poukPBv+%_k#<luy|3HNU^;aVl6VP!qcv^iq#>xqD3VlcrzHC5pZCu>u}M-m9z(*2As|w3*|4-PhKQ{?#QfsNyXl0vwn%7;WjxHq_Ko70hakF1<fA>Sk0RU#9|)eL|f*;h&%I2a?17)Ia$X$>cmt4hh5Jyb3OLlE@~3i(%LpD7KFv4HT}TO*bqgL@2hwaT=^6r-D8i|Y$J3h|J0oP#yrMS;(sJHUpj*gq>95W*F3jePK*jEx-
Gw=bR}(eMJ+bMh7-w6g67BNyvvtb07+^qlJ82G=z3Xeo$~3#feqM+1;cQiJ(J|bOmISGTt%ApncoojRrz;S6qiD%C1PlgXgD0q%sk6wLF1+WL^F=MU6I{c6<N8OdLcY4YZ^?MmW%h;Uz#0vv<EqITTbTADx<bCbdEzt7LiUBP9u1@A|W*wCJeB`5jAYZl1Cg}yI#G3N_=l*9PZ3zla$!Ui-)*9Xqe=<QDnSsNDfUxUZ-UMB$c+<6@hdieqNq5J1#TpyaI;ZXIhruP-n550|>eTgqyZKy@($cy6(n+U)5TzZItJOL04@VWCfvwn0%n@K$FpP_JV-JLVb1DK3JM#;ux8pml`Gyz>lSP(#5Sf{r*7B&2^P2F|ZHoBpn5!AqN`HcRGeqoO>_*H^W)z;M$@fa&IOJF?&fdpXD^m60MqU)jX7RByFkzbn4_A^oI=;s?Mj4Xv(qW2fxXN;?Zl(%0_tfvCh)X!g*b4Qt*G7Xy?`GmRtGLeWvVg#>+^)c5l1L$?gesyjZ5_C-
In!pW^h>YCBs+$yFk^h{o}s<N=Zj*Z^>>EWZ-;>A@E_))E(}BPNkIJ!xi&3$GUb8`WNdXhy1y6=i%yDnx;*bi{kMYU=Saa{mcTaoPyf_u=77#&4YyeS*N?`0wjex&XF2W1X)$5arB&6E_CY^T>Ogc%?N#QbHJBaMh29dm%DMpbnnK*kd`g6vdA`BQ!L8G3j9c^vl7k49NM~DCWrd;$%ltcREo)=&D$eFg8>9E1Bf_+Sr;vsok?F+=p~lD!X|#=7>AciZ!yfb|OCZ1tF=LZl>}$7e!!KJsL!|5tv^Js!}*jX;||!Y@a^6JYQ64#vq%}41zTGVjH;R{Q<aS7haz%8Gn!oWWTb~Hq`eL`ny-d0{1yNyEYKRa$2uIMD2D20BU|Ma<8aJ9Ir{0Z$@?e<^6gdTNky;?A=FAtd|eZ^8SK~%#uUx6M*N!OZoFNM%<uAK?KyW^sZlMC=v}+twgKVOX--*agrrlv7<vbX_q7UE~_vRHkUs-
lSPlnqNHo;i+54h&T^Zj0a_)(9cFw1W-1|4UnqJS$dfK!`7sF_Yq(J(g`vM;ow~kLd|?PbWZ$nufA`GNUAReHL(8fJ!Fq#sD0G5Qr4H1y=0yKh+$kc3=tLO!-^*YLoWOb%R>R75ZH?M|%HRR*Ly$_jtzApfl588g+<S?N)Yt7wju8^y*)v%HaQ>!0is<3ip@_OzMNI(q1OOx$_I}PBoOzFR)6`Fxz|88rGo&KyiU`hl^+c1d(?}vt&-AR9S!n}#N&Xh+Ch+upP&XX}u<7~^EbUIzp4BC>x@)tyvJDsSb{d?X+qd&sw$Tu?CW`9I;6K6_+xz#-8#}Cil!rjw^PM#zBP~KcZ&l6&%<+g!(<zuSyq&NFhh}m4Z9OLUs!|LF_6VN(BDvP2M}c_@;NxhT9kEW~@w#@?i8MN*-7nmfyVzVo*Q-5x+?^urf%;5$v!a!f-2TdmPflldtW(j3)lI*gv6L8^L#jYjxf6_-A>pUggkMM*16i-<85OpfyMXXQK#tKv5jHs_-E6LrUoJ{>*?F6z0v=X*W%k~>J=xhgA7`xlIIiQW33Txxp44bI5A-R3vo-?bBRS#*3Tc$gKfL8j0@uI}w;Ys(BQKuY#pEs$J&!Xe+E`ezAuIa$*nIRfJW?uYweD6^jC{srX5k2aX;&HU8!>#CT9V_XpYYyP^r7J9c39$Xu6SrLv%|&83|FEY^IsGc>ysE|;Gx1+R>Uc%rjypyU<ldDPp>SzK-e~)d>S0Ts>q)I2{kEHYaT!id4tB+{m#Xo3MLe55GKS-
vIvQb2y>f>l}G<MNIQ_VgdT)DTgn-c^5?y`1TQ%X_X((|8?m0{>)=Zv-065YAaAl2Fo0saOMp@$>%l7)H6E@RU&H@~SwiBgVLv+QJm0`v=aV+!=`Q|re&j&b?&oq<pjQ5ioE}(H5Wh~2ODz?iNje9oYCd@3O_6z)G~K9y9^9of(&*<@63{#Yl~EPd00SvReS)Sc90*tcR2%(8Hm2eY9ket@Jz5u1b;H_Ak4HeKCss3`+7&kzsZowS0n6GocJ!SwkTMc8Hi;iD4t^E`dfd`Jzy6d<&IQ3OMl;GpS_?#AUOm;J9(6@nS~XRaz3b1$#|!GbWhWN;Ur{aqPvAuB&f9>Ohep60Gfoo)2gP7^#~MiiR;o&qUVuq<E-@RP2-J)DP{p&ir-AA$p?6TjG?@6ZlMa=`-W4A^k=;iDv($_7#fDgiv!7zqNQmAC?;<ypm$>z+1h4;mZjcb2xDr3%J#m|uKGy1xs>r&ayp(&u?rRJtF^&0)$Y(djqgatg+$i9xjZ0)hPak@YLLzhst-C_i62mzxl-*%YE!D>pla)#*#0<)G@JHtdWor-+eSAVmX@~sHJl1q-pneAT00|7=hnxSkU9Z7aSI!iP*N99?i%M)*!Mxv-j((3Btoy3gR9bLKh`~6J69>LB{hcaj*?IHWDho`6Y9v<hlQPx^w#osTe1Mh09;RJvCY)=4vyfBtSYy*U1gkbrCP}QuAS7p)uuko`;%<9?Yq>D|SzUGY@3D9L;tn;D$Dp_}xRqeqy=MIFT#6bN7u9?DQm%<ADmXMviQ>8rq7@Xdc6E+XO0HPYrZYn{<9ins2)@;M-}3@oQZ*=0`I3Ar8JX3Nrt7H~<Sia5&GOFrc?KyymSOqF{>1x=_!E-7*YKUio+g6hyWj#9bMLM_C+>wkqD?R<o5T3x9h#`Ja|Yi#CY!l*KYT@4lsPe*-w^S&DL|T^#jj|=_qaJ0_t(g=WY=ZnAXzTYa+1>8dB-
JF001^(!a<TAak0-oCfRT!pFmwi-b*YRJrp7dL|V6ASeQo?v0^Nm!c!;~x3M6sfwJDU4nnwgI8KP^O$P;i;D*}*CNsg$5-aWZz16PxL;x`Gzb~?;1XCG6Lx5ZBm-HXQLCQ3q;y_uMOUCTS2p&lv>rjPPLtLbx8jn{;66#x3s+wIQsA?L;z1=YO94^A)@x<p$F1S@xJxgJOoTx#U(1Iy<*25iFTG<J7C91tA^)|u%OQzIWLzDo;6T?&{j)@pnHNL%!AF>BF#}WGOluc-a1=iMJ^onqxh)BC4uaZ-xc!^S1au}_3Y*?$UTg-F!h&n2=x1%?q-9+)lU<zMlT6=ffImi~M_7h|e=i_~!KD;yg_hL}*b>7~dr$H^n0lyX^M-I=nq}ZO8Y>TwOOs1Rk%nKHZjI2B#DyPdcEHxRndk}%j^6p>N7y9wUkhFAD7n=B-5`usnBHE{wYnYo|cY0HKYRxcM)8%s%+~OQxR#bV8QgvE5%d;cmQm*tq>1=^cFW)i8lF1tG59dr$Qa>p;#0L*lM|vZ;e0@x~qbi0lr%4&uZ2MM9XJzFY`^Qu@yZ5gWJOMcTLjty$nh)hCFQ`1<)^~-Z)WQ>d<rCof<r8H(WHjEI(>G6=u{8d`pq^7>>u)eC{~swK^a!`z5&B9|F$huVWJlF6^qGZz@5kT42|9|%F5Y%;n_~fz=;2D97r#?f5NJWmK!815kM0(TLXUpSvP{Cr&Uven$35_9&in*?G8Fy-+tgN2E!v_0X)-Jd#Kd?hs7iaAV8p}8G{-1YfEHqr@&dkO0!OPMVL48-vHG@;N4?B#wMhk~3!4RRq@M*BHP^(4mRUli3V34INH4bB9)YN0a}kHrd(B1L4b)a^gW!IrzPy@khcgV}JPEPWoG~fUyr&Fo<0K`iuQ(sp!p2fUkzcoQ4zzMX<ysy@#^Hyx3Kcl=5DOWwha5w;)_R5VUr;19w6^s(KK{HpnboFM6Ul$<<P498%mlJFh0so8IYc-
TwZg1IlytUEY;im@%oqPl(na-aSCsFfoD^sdi^SZ2VnIoi;k4QPT03hZXNE-m<xl+l=Z_G1{PIHI7pgh!W5)q12`4+8b+0J$kI9a=?X>E77edd#B_6gqKu&P?qHkQCW2U07aHC+P1F>h$PZDbCv>Ds1)c$$}+QB1<gn~gNLHdtvRJ+8zAK||gmWnS;ER!rndP<A`?y^$ctaWZ^odY1pNIkf*x_WWIJoF7kiB@TE%Ru4NLve^|<ocvc<0+#RKpB>K?lz<+lqyva`T|6@g1pTp=tNi|KZ4ctfVPWCd@Q`BfEu5-u41MwXT)%u*HcbGY^m_v;2=CxTuVAq5=qO+b=&`BDp|!!<hbxMS5K8YV-$jj9Ca0)MraWGfy3CE;PC26F{wZ<kn^{Tsptn6OWb!}U0QxsV{F3jQw2N7SiVi7U#@wZ!Sjl4T$@v1Mq#g2{r{;Mkzq9B(FnnX(wcZU+0NV)Q6W#hp*s1dWwRV552<N8?y_bAQAdADw<*JpLwxynfaX?U|L}os#TELk0RO4&pBtd|+7{OVjM1UlPk!!-?m1Vq)1InBFIA6n;G+wm4#q2yG%UD=2e%H2@*GP^*z#-TpkHTGihBpLkv6B#+$EMiw!fMOUIq%Mp%B(OPqpju!t<+6Vd)A-#pj2amZ?pkB$unfP25B?2f->(=%Toc>E7q3sBmu3E>%OY3O=hiz?Kz6-=ygDmt_W0Z?w17L)(KTi(AS)ErF*!5GWR#oajgdRwcK>L%VHBKB;b^%rpN!b4bjts8tt!HIKG^X><$8zvC(|u82i@7D!Q0jpx>ZrkKC0E=*bYrOPuj_T8EJ!-8aMN_o3rCEt2Q;e>H~58lWJsTn7jqRT|%6b6L&04}GxQo_n?PQ~M<83vvv#Jp@BiyA_>v5`iPt!^noNz{WmDXRn(OTEdH-#(gYkhsxmgskIQc7PDuFoDcJuB`@VDZE<tq4e8>cJyK$e?<K?+aBdv61qIUk~booz5^yq5K;Q1kUh5ds9KZ-
2xdcjuh5_n+_A5;DtfJ3g)%oD+9vJFqT5@5P2{;XGF?L|`U2!DerC%y{rg8ix3R5Gk^dsLT2d9l3X3%+#v+nMiyPjI(f+P}n{)LdH?GMNHEF>7QU7k~D*92~0R$HHoM!|Ko@exULUG=MHoUEBhh0M%_mntQhNy1CI&BC>zJ?2vxA5oqYtc95T=eRRA*e~9TxkpH%)zzm7~y{SsL#QGICDAt(O;O&8Y$}=L#0t1IF9Q0QA^=Z6(+-xCJqsd7QZazz0tJnjc4%~5>vXSl{9~tPF1(1Q`ukIf3X6Z7!K)?D^0QckeB$XWRX+(E`G&(Oxsi4JGkeo_LEsGPZ>Cf-L%ks=5$vtlZ=~ymT|Hr<aq`B$<=BWurT4bA*ZIE?)4oHBN7rgg{LLpA|b4$*w?A`5Qi*YHzsiAQ4<iWHfAduC8}eL`KiT-?iO$$8FyT|@Zd74>G5m+zpIybPYMI7t1^NVF5GIYNU!Q6(4V=qNyNBpB`8G+00<p*MVXmAYrkEO%qKMStvE=yp;p?Skz`=b7vr%EP0d^jjHdXRP=&OXN@8Je9%aLqla@IRXT;s{m@ydqB0W5?Zy=q!$mz^o!2#QIHtPy65zV4nf*LpFQ2bGcVSK=($mOc)5lKXz?mI0TWZg|jpH`KZA%n`6ZqjSV4%gSiF?(u;JMI#MBF4e@zvs2GSFtexvUX$UnaM|;g=9)Pu1b&!to`g}FKc5_A|2Mv3m6n@OjQq=INQ7fk6LB%jOS>{QykHquf-*WlCYUz%p@&;0Y4s=kiiO9%(+{o-vLKO9~Ao2QfVuA0`km}R=USi!<)zQ>*%*s=ctwYUEN}pFS*sZm+ajGDx*m~-`}uHzTnvkh=rJ18(N8$_YHIrY4vBkYeAj%dr`UlyIzpzQCatgVlZ@tE$Y?2bsS0@T{F2F5M3E?O>$urtpq9cL1n~sGOy0V{zDqZtdcjjUN9Z3YEll|xaEo?UnTY1bZm$6?0$3F5_$@@L#{k#$%=c6GR~aytuqjc-
)o<c;yJnFE$uE71pa=ndCAk0z1==zhw#ef@Oj_E__7=ecC8zG)mQ{`NA#uF0ToF4`yCTBL`;P&6r0j4PFkTSpo>w+7#ke*kTEnc`<o)QAC4hE(${xX4n6TdaQopkVQP25O=au-q)P6lBT$aA5SMebFfb~_8=YAIU*)lz_-?@SLb}2tFJzo0Tsai-Mk6?@Aw33WJ1_e$^0xXhvwf{`H5qZK`F7MoEt}^MgpXFsXYxL0$#Y}O%`kbaEi-eLqC#FEPZFRy$4P9<{F>H1aTH2Ku!#YiSkuen{+A%xx&mVU80;XYf1q@mEFL(9pN4^psj=_ne8?vyWECI<_yKOW%anm~hxDs*D@0<mPZggXEHpN8FGfH$aC$%Wb?vB0m0`3E(Yh1%$|$PRT$AyfR0L68rcBrk`m1Hr1wt4zSWH9T<l}Ua@j6<s!D`G&7f`5eW-SLcQK+X#BtiRd@~6EZi;(6K)TK1y|2lcU$2y&BGb?*6y%AzX$^=kYGK<A8ur!nVy4jy<!p?5^c4N1B95Tw^vs3hHSzX30d0?*w`33&dF?0+ID-}=YvPRaQOh|WqvpJk@P-B~nN_tSWmjCh7Gj3$P1THqXep2=}i7E@#!U#~$ezQ3Q0s^I3|E-7HT39=O_aA{X|J^6<Ed
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
    failing = [i for i in wrong if STRICT or not blocks[i].get("o")]
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
