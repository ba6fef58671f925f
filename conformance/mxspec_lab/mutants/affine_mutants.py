"""Mutants of affine integers, and the straightforward implementation that they change.

The implementation is written here once more on plain arrays: nothing of the model's profiles and contracts is used. Each step is
a function that a mutant may replace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec_conformance.mutants.staged import NOTHING, Staged, Step, Variant
from mxspec_conformance.targets.affine import AffineOperand, read_operand

Array = npt.NDArray[Any]


def f32(x: Array) -> Array:
    """As float32."""
    return np.asarray(x, np.float32)


# The steps of quantizing: groups [rows, groups, g] of float32, the operand, and what earlier steps gave.


def grouped(x: Array, o: AffineOperand) -> Array:
    """Values in their groups."""
    return x.reshape(len(x), -1, o.format.group)


def ends(g: Array) -> tuple[Array, Array]:
    """The smallest and largest value of each group."""
    return g.min(axis=-1), g.max(axis=-1)


def scale_of(lo: Array, hi: Array, bins: int) -> Array:
    """A scale with a bias."""
    return (hi - lo) / np.float32(bins)


def zero_ends(lo: Array, hi: Array) -> tuple[Array, Array]:
    """The range of a group with a zero point: it holds zero, and is not empty."""
    low, high = np.minimum(lo, np.float32(0)), np.maximum(hi, np.float32(0))
    empty = (low == 0) & (high == 0)
    return np.where(empty, np.float32(-1), low), np.where(empty, np.float32(1), high)


def quotient(g: Array, scale: Array, bias: Array) -> Array:
    """(v - b) / s."""
    return (g - bias[..., None]) / scale[..., None]


def level(g: Array, scale: Array) -> Array:
    """v / s."""
    return g / scale[..., None]


def to_code(q: Array, bins: int) -> Array:
    """A code."""
    return np.nan_to_num(q, nan=0, posinf=bins, neginf=0).clip(0, bins).astype(np.uint8)


def keep_scale(s: Array, o: AffineOperand) -> Array:
    """The scale that is stored."""
    return s.astype(o.format.numpy_dtype)


def same(*a: Any) -> Any:
    """What is given."""
    return a[0] if len(a) == 1 else a


# The steps of dequantizing.


STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "grouped": grouped, "ends": ends, "scale": scale_of, "bias": lambda lo, hi: lo, "zero_ends": zero_ends, "zero_scale": scale_of, "zero": lambda lo, scale, bins: np.rint(-lo / scale),
        "quotient": quotient, "level": level, "whole": lambda t: np.rint(t), "code": to_code, "keep_scale": keep_scale,
        "used": same, "finish": same, "read": same, "value": lambda q, s, b: q * s + b, "value_zero": lambda q, s, z: (q - z) * s, "emit": same,
        "pack": lambda codes, o: o.give(codes), "unpack": lambda codes, o: o.take(codes),
    }
)  # fmt: skip


class Affine(Staged):
    """The plain implementation as a target, with some steps replaced."""

    def __init__(self, name: str, formats: tuple[str, ...], change: Mapping[str, Step] = NOTHING) -> None:
        super().__init__(name, STEPS, change)
        self.AFFINE = formats

    def quantize_affine(self, x: Array, name: str) -> tuple[Array, Array, Array]:
        """Codes, scales, offsets."""
        o, do = read_operand(name), self._steps
        bins = o.format.bins
        with np.errstate(all="ignore"):
            g = do["grouped"](f32(x), o)
            lo, hi = do["ends"](g)
            if o.format.offset == "bias":
                scale, bias = do["used"](f32(do["scale"](lo, hi, bins)), f32(do["bias"](lo, hi)))
                q = do["whole"](f32(do["quotient"](g, scale, bias)))
                offsets = f32(do["bias"](lo, hi)).astype(o.format.numpy_dtype)
                scale = f32(do["scale"](lo, hi, bins))
            else:
                lo, hi = do["zero_ends"](lo, hi)
                scale = f32(do["zero_scale"](lo, hi, bins))
                zero = do["zero"](lo, scale, bins)
                used, used_zero = do["used"](scale, zero)
                q = do["whole"](f32(do["level"](g, used))) + used_zero[..., None]
                offsets = np.nan_to_num(zero).clip(0, bins).astype(np.uint8)
            codes = do["code"](q, bins)
            codes, scales, offsets = do["finish"](codes, do["keep_scale"](scale, o), offsets)
        return do["pack"](codes.reshape(x.shape), o), scales, offsets

    def dequantize_affine(self, codes: Array, scales: Array, offsets: Array, name: str) -> Array:
        """float32 values."""
        o, do = read_operand(name), self._steps
        with np.errstate(all="ignore"):
            plain = do["unpack"](codes, o)
            q, s, b = do["read"](plain.reshape(*scales.shape, o.format.group), scales, offsets)
            rule = do["value" if o.format.offset == "bias" else "value_zero"]
            values = f32(rule(f32(q), f32(s)[..., None], f32(b)[..., None]))
        return np.asarray(do["emit"](values.reshape(plain.shape)))


# What mutants do.


def other_float(a: Array) -> Array:
    """The bits of 16-bit floats read as the other 16-bit dtype."""
    if a.dtype.itemsize != 2:
        return a
    other = np.dtype(ml_dtypes.bfloat16) if a.dtype == np.float16 else np.dtype(np.float16)
    return a.view(other).astype(np.float32)


def permute(order: tuple[int, ...]) -> Step:
    """Codes of each run in another order."""

    def change(codes: Array, scales: Array, offsets: Array) -> tuple[Array, Array, Array]:
        runs = codes.reshape(*codes.shape[:-1], -1, len(order))
        return runs[..., list(order)].reshape(codes.shape), scales, offsets

    return change


def on(part: int, change: Step) -> Step:
    """A change of codes (0), scales (1) or offsets (2)."""
    return lambda *parts: tuple(change(p) if i == part else p for i, p in enumerate(parts))


def in_turn(*changes: Step) -> Step:
    """One change after the other."""

    def made(*parts: Array) -> Any:
        for change in changes:
            parts = change(*parts)
        return parts

    return made


def roll(by: int) -> Step:
    return lambda a: np.roll(a, by, axis=1)


def first(a: Array) -> Array:
    return np.broadcast_to(a[:, :1], a.shape).copy()


def by_column(a: Array) -> Array:
    return np.ascontiguousarray(a.T).reshape(a.shape)


def last_is_previous(a: Array) -> Array:
    changed = a.copy()
    if a.shape[1] > 1:
        changed[:, -1] = a[:, -2]
    return changed


def without(place: int) -> Step:
    return lambda g: ends(np.delete(g, place, axis=-1))


def start_at(low: float, high: float) -> Step:
    def found(g: Array) -> tuple[Array, Array]:
        lo, hi = ends(g)
        return np.minimum(lo, np.float32(low)), np.maximum(hi, np.float32(high))

    return found


def strided(x: Array, o: AffineOperand) -> Array:
    """Value i belongs to group i mod groups."""
    groups = x.shape[1] // o.format.group
    return x.reshape(len(x), o.format.group, groups).transpose(0, 2, 1)


def next_in_dequantize(by_bits: int) -> Step:
    return lambda q, s, b: (q & np.uint8((1 << by_bits) - 1), s, b)


def signed(bits: int) -> Step:
    """Codes as two's complement."""
    return lambda q, s, b: (np.where(q >> (bits - 1), q.astype(np.int16) - (1 << bits), q), s, b)


def mixed_contract(q: Array, s: Array, b: Array) -> Array:
    plain = f32(q * s + b)
    half = f32((f32(q * s)).astype(np.float16) + b.astype(np.float16))
    return np.where(np.arange(q.shape[-1]) % 2 == 0, plain, half)


def flush(a: Array) -> Array:
    tiny = np.finfo(np.float16).tiny if a.dtype == np.float16 else np.float32(2.0**-126)
    return np.where(np.abs(f32(a)) < tiny, a.dtype.type(0), a)


def halved_groups(q: Array, s: Array, b: Array) -> tuple[Array, Array, Array]:
    """Scales are indexed by i // (g / 2), as if groups were half as long."""
    rows, groups, g = q.shape
    index = np.minimum(np.arange(groups * 2), groups - 1)
    wide = q.reshape(rows, groups * 2, g // 2)
    return wide, s[:, index], b[:, index]


def ten_to_a_word(codes: Array, o: AffineOperand) -> Array:
    """No code crosses a word: 32 // bits codes in each, the rest of its bits empty; cut to the words that there are."""
    bits, per = o.format.bits, 32 // o.format.bits
    rows, k = codes.shape
    padded = np.concatenate([codes, np.zeros((rows, -k % per), np.uint8)], axis=1).reshape(rows, -1, per).astype(np.uint32)
    words = np.bitwise_or.reduce(padded << (np.arange(per, dtype=np.uint32) * np.uint32(bits)), axis=-1)
    return np.asarray(words[:, : k * bits // 32], np.uint32)


def high_first(codes: Array, o: AffineOperand) -> Array:
    """The first code in the highest bits of a word."""
    per = 32 // o.format.bits
    return np.asarray(o.give(codes.reshape(len(codes), -1, per)[..., ::-1].reshape(codes.shape)))


def unpack_high_first(codes: Array, o: AffineOperand) -> Array:
    per = 32 // o.format.bits
    plain = o.take(codes)
    return plain.reshape(len(plain), -1, per)[..., ::-1].reshape(plain.shape)


def in_place(x: Array, o: AffineOperand) -> Array:
    """The input is doubled and halved where it lies, and loses the sign of its zeros."""
    x += 0
    x[:, :1] = np.abs(x[:, :1])
    return grouped(x, o)


class Remembering:
    """What the call before of the same shape was given is used for every second row."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, ...], Array] = {}

    def __call__(self, s: Array) -> Array:
        earlier = self._before.get(s.shape, s)
        self._before[s.shape] = s
        return np.where(np.arange(len(s))[:, None] % 2 == 0, s, earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineMutant(Variant):
    """One mistake."""

    function: str
    #: Whether it is a mistake only where a profile is claimed: the answer is, at least mostly, right under its own scale.
    claimed_only: bool = False


HALF, BRAIN, SINGLE = "int4-g64-bias-float16", "int4-g64-bias-bfloat16", "int4-g32-bias-float32"
BYTE, TWO, THREE = "int8-g32-bias-float16", "int2-g32-bias-bfloat16", "int3-g32-bias-float16"
ZERO_HALF, ZERO_BRAIN, ZERO_BYTE = "int4-g64-zero-float16", "int4-g32-zero-bfloat16", "int8-g32-zero-float32"
BIASES, ZEROS = (HALF, BRAIN, SINGLE, BYTE, TWO, THREE), (ZERO_HALF, ZERO_BRAIN, ZERO_BYTE)
SIXTEEN = (HALF, BRAIN)
ALL = (*BIASES, *ZEROS)
NIBBLES = (HALF, BRAIN, SINGLE, ZERO_HALF, ZERO_BRAIN)


def _mutant(
    function: str, name: str, what: str, formats: tuple[str, ...], source: str = "own", *, claimed_only: bool = False, **change: Step
) -> AffineMutant:  # fmt: skip
    return AffineMutant(
        id=f"affine-{function}-{name}", source=source, what=what, function=f"{function}_affine", formats=formats, change=change,
        claimed_only=claimed_only,
    )  # fmt: skip


_quantize, _dequantize = partial(_mutant, "quantize"), partial(_mutant, "dequantize")
_AWQ = (0, 2, 4, 6, 1, 3, 5, 7)
_REVERSED = (7, 6, 5, 4, 3, 2, 1, 0)
_MESSY = lambda lo, hi, bins: np.where(hi == lo, np.float32(np.nan), (hi - lo) / np.float32(bins))  # noqa: E731

AFFINE_MUTANTS: tuple[AffineMutant, ...] = (
    # Scale and bias.
    _quantize("steps-2-bits", "the range is divided by 2^bits, not 2^bits - 1", BIASES, "S2", scale=lambda lo, hi, bins: (hi - lo) / np.float32(bins + 1)),
    _quantize("steps-one-less", "the range is divided by 2^bits - 2", BIASES, scale=lambda lo, hi, bins: (hi - lo) / np.float32(bins - 1), claimed_only=True),
    _quantize("bias-is-max", "the bias is the maximum under a positive scale", BIASES, "S2", bias=lambda lo, hi: hi),
    _quantize("bias-sign", "the bias is stored with the other sign", BIASES, "S2", finish=on(2, np.negative)),
    _quantize("bias-zero", "the bias is not stored", BIASES, finish=on(2, np.zeros_like)),
    _quantize("bias-is-middle", "the bias is the middle of the range", BIASES, bias=lambda lo, hi: (lo + hi) / np.float32(2)),
    _quantize("bias-magnitude", "the bias is the minimum's magnitude", BIASES, bias=lambda lo, hi: np.abs(lo)),
    _quantize("scale-by-magnitude", "the scale covers the largest magnitude only", BIASES, scale=lambda lo, hi, bins: np.maximum(np.abs(lo), np.abs(hi)) / np.float32(bins)),
    _quantize("scale-halved", "the scale is half of the right one", BIASES, scale=lambda lo, hi, bins: (hi - lo) / np.float32(2 * bins)),
    _quantize("scale-doubled", "the scale is twice the right one: half of the codes are never used", BIASES, scale=lambda lo, hi, bins: (hi - lo) * np.float32(2) / np.float32(bins), claimed_only=True),
    _quantize("range-from-zero", "the range always holds zero", BIASES, ends=start_at(0, 0), claimed_only=True),
    _quantize("maximum-starts-at-flt-min", "the maximum starts at FLT_MIN, which is positive", BIASES, "own", ends=start_at(np.inf, float(np.finfo(np.float32).tiny)), claimed_only=True),
    _quantize("maximum-starts-at-zero-minimum-ignored", "the minimum starts at 0, the maximum at -Inf", BIASES, ends=start_at(0, -np.inf), claimed_only=True),
    _quantize("first-ignored", "the group's first value is left out of minimum and maximum", BIASES, ends=without(0)),
    _quantize("last-ignored", "the group's last value is left out of minimum and maximum", BIASES, ends=without(-1)),
    _quantize("half-searched", "minimum and maximum are those of the group's first half", BIASES, ends=lambda g: ends(g[..., : g.shape[-1] // 2])),
    _quantize("range-in-float16", "the range is computed in float16, where it overflows", (SINGLE, BRAIN, HALF), scale=lambda lo, hi, bins: (lo.astype(np.float16) * np.float16(-1) + hi.astype(np.float16)) / np.float16(bins)),
    _quantize("constant-nan", "a group of one value gets a NaN scale", BIASES, "S2", scale=_MESSY),
    _quantize("constant-lost", "a group of one value is stored as zeros", BIASES, "S2", bias=lambda lo, hi: np.where(lo == hi, np.float32(0), lo)),
    _quantize("range-clamped", "a range below 1e-2 counts as 1e-2", BIASES, scale=lambda lo, hi, bins: np.maximum(hi - lo, np.float32(1e-2)) / np.float32(bins), claimed_only=True),
    # Groups.
    _quantize("next-scale", "codes are computed by the next group's scale", BIASES, "S2", used=on(0, roll(-1))),
    _quantize("next-bias", "codes are computed by the next group's bias", BIASES, "S2", used=on(1, roll(-1))),
    _quantize("stored-shifted", "scales are stored one group on", ALL, finish=on(1, roll(1))),
    _quantize("offsets-shifted", "biases or zero points are stored one group on", ALL, finish=on(2, roll(1))),
    _quantize("first-for-all", "the row's first scale is stored for all groups", ALL, finish=on(1, first)),
    _quantize("scales-by-column", "scales are stored column by column", ALL, finish=in_turn(on(1, by_column), on(2, by_column))),
    _quantize("last-group", "the last group of a row takes the scale of the one before", ALL, finish=on(1, last_is_previous)),
    _quantize("strided-groups", "value i belongs to group i mod groups", ALL, "S2", grouped=strided),
    # Codes.
    _quantize("floor", "quotients are rounded down", ALL, whole=np.floor),
    _quantize("ceil", "quotients are rounded up", ALL, whole=np.ceil),
    _quantize("ties-away", "ties go up", BIASES, whole=lambda t: np.floor(t + np.float32(0.5)), claimed_only=True),
    _quantize("quotient-bfloat16", "the quotient is rounded to bfloat16 before it becomes a code", (BYTE,), quotient=lambda g, s, b: quotient(g, s, b).astype(ml_dtypes.bfloat16)),
    _quantize("no-bias-in-code", "v / s is rounded, the bias is not subtracted", BIASES, "S2", quotient=lambda g, s, b: g / s[..., None]),
    _quantize("bias-after-division", "v / s - b", BIASES, "S2", quotient=lambda g, s, b: g / s[..., None] - b[..., None]),
    _quantize("code-magnitude", "the quotient's fraction is cut before the bias is subtracted", BIASES, quotient=lambda g, s, b: np.trunc(g / s[..., None]) - b[..., None] / s[..., None]),
    _quantize("clamp-low", "codes are clamped to one less than the largest", ALL, code=lambda q, bins: to_code(q, bins).clip(0, bins - 1)),
    _quantize("clamp-127", "codes are clamped as int8", (BYTE, ZERO_BYTE), code=lambda q, bins: to_code(q, bins).clip(0, 127)),
    _quantize("signed", "codes are stored minus half the range", (*NIBBLES,), code=lambda q, bins: to_code(q, bins) ^ np.uint8((bins + 1) // 2)),
    _quantize("more-bits", "codes keep a bit too many", ALL, finish=on(0, lambda c: np.where(c == c.max(), c + 1, c).astype(np.uint8))),
    _quantize("nibbles", "the nibbles of each byte are exchanged", NIBBLES, finish=permute((1, 0))),
    _quantize("word-reversed", "the eight nibbles of a word are in reverse order", NIBBLES, "S2", finish=permute(_REVERSED)),
    _quantize("word-awq", "the eight nibbles of a word are in AWQ's order", NIBBLES, finish=permute(_AWQ)),
    _quantize("words-big-endian", "the bytes of a word are exchanged", (f"{HALF}/words", f"{THREE}/words"), "S2", pack=lambda codes, o: np.asarray(o.give(codes)).byteswap()),
    _quantize("words-high-first", "a word's first code is in its highest bits", (f"{HALF}/words", f"{ZERO_HALF}/words"), "S2", pack=high_first),
    _quantize("words-of-ten", "no 3-bit code crosses a word", (f"{THREE}/words",), pack=ten_to_a_word),
    # What is stored.
    _quantize("scale-bits", "the scale's bits are stored as the other 16-bit float", SIXTEEN, "S2", keep_scale=lambda s, o: other_float(keep_scale(s, o)).astype(o.format.numpy_dtype)),
    _quantize("scale-through-bfloat16", "the scale is rounded to bfloat16 on its way", (HALF, SINGLE, BYTE), "S2", keep_scale=lambda s, o: keep_scale(s.astype(ml_dtypes.bfloat16).astype(np.float32), o)),
    _quantize("scale-reciprocal", "the reciprocal of the scale is stored", ALL, keep_scale=lambda s, o: keep_scale(np.float32(1) / s, o)),
    _quantize("scale-truncated", "the scale is cut, not rounded, when it is stored", (HALF, BRAIN, TWO, THREE), keep_scale=lambda s, o: _truncated(s, o), claimed_only=True),
    # Zero points.
    _quantize("zero-one-more", "the stored zero point is one too high", ZEROS, "GPTQ", finish=on(2, lambda z: (z + 1).astype(np.uint8))),
    _quantize("zero-one-less", "the stored zero point is one too low: GPTQ's v1", ZEROS, "GPTQ", finish=on(2, lambda z: (z - (z > 0)).astype(np.uint8))),
    _quantize("zero-sign", "the zero point is round(min / s), not round(-min / s)", ZEROS, zero=lambda lo, s, bins: np.rint(lo / s)),
    _quantize("zero-floor", "the zero point is rounded down", ZEROS, zero=lambda lo, s, bins: np.floor(-lo / s)),
    _quantize("zero-of-next", "codes are computed by the next group's zero point", ZEROS, used=on(1, roll(-1))),
    _quantize("zero-always-middle", "the stored zero point is always half the range", ZEROS, finish=on(2, lambda z: np.full_like(z, 8))),
    _quantize("zero-without-zero", "the range does not hold zero, and the zero point is cut", ZEROS, "AWQ", zero_ends=lambda lo, hi: (lo, np.maximum(hi, lo + np.float32(1e-5)))),
    _quantize("in-place", "the input is changed where it lies", (SINGLE,), grouped=in_place),
    # Dequantizing.
    _dequantize("remembers", "every second row takes the scales of the call before", (HALF, ZERO_HALF), read=on(1, Remembering())),
    _dequantize("next-scale", "the next group's scale is used", ALL, "S2", read=on(1, roll(-1))),
    _dequantize("scale-before", "the scale of the group before is used", ALL, read=on(1, roll(1))),
    _dequantize("next-offset", "the next group's bias or zero point is used", ALL, "S2", read=on(2, roll(-1))),
    _dequantize("first-for-all", "the row's first scale and offset are used for all groups", ALL, read=in_turn(on(1, first), on(2, first))),
    _dequantize("by-column", "scales are read column by column", ALL, read=in_turn(on(1, by_column), on(2, by_column))),
    _dequantize("last-group", "the last group of a row takes the scale of the one before", ALL, read=on(1, last_is_previous)),
    _dequantize("half-groups", "the group index is i // (g / 2)", ALL, "S2", read=halved_groups),
    _dequantize("bias-sign", "the bias is subtracted", BIASES, "S2", value=lambda q, s, b: q * s - b),
    _dequantize("bias-left-out", "the bias is not added", BIASES, value=lambda q, s, b: q * s),
    _dequantize("bias-twice", "the bias is added twice", BIASES, value=lambda q, s, b: q * s + b + b),
    _dequantize("bias-scaled", "(q + b) * s", BIASES, "S2", value=lambda q, s, b: (q + b) * s),
    _dequantize("bias-as-zero", "(q - b) * s: the bias is taken for a zero point", BIASES, value=lambda q, s, b: (q - b) * s),
    _dequantize("zero-as-bias", "q * s + z: the zero point is taken for a bias", ZEROS, value_zero=lambda q, s, z: q * s + z),
    _dequantize("zero-added", "(q + z) * s", ZEROS, value_zero=lambda q, s, z: (q + z) * s),
    _dequantize("zero-left-out", "q * s", ZEROS, value_zero=lambda q, s, z: q * s),
    _dequantize("zero-one-more", "the zero point is read one too high: GPTQ's v1 rule for v2", ZEROS, "GPTQ", value_zero=lambda q, s, z: (q - (z + 1)) * s),
    _dequantize("zero-one-less", "the zero point is read one too low", ZEROS, "GPTQ", value_zero=lambda q, s, z: (q - (z - 1)) * s),
    _dequantize("zero-always-middle", "the zero point is always half the range", ZEROS, value_zero=lambda q, s, z: (q - np.float32(8)) * s),
    _dequantize("scale-magnitude", "the sign of a negative scale is lost", ALL, "MLX", read=on(1, np.abs)),
    _dequantize("scale-bits", "the scale's 16 bits are read as the other 16-bit float", (HALF, BRAIN, ZERO_HALF, ZERO_BRAIN), "S2", read=on(1, other_float)),
    _dequantize("bias-bits", "the bias's 16 bits are read as the other 16-bit float", SIXTEEN, "S2", read=on(2, other_float)),
    _dequantize("both-bits", "the 16 bits of scale and bias are read as the other 16-bit float", SIXTEEN, "S2", read=in_turn(on(1, other_float), on(2, other_float))),
    _dequantize("scale-through-float16", "float32 or bfloat16 scales are rounded to float16", (SINGLE, BRAIN), "S2", read=on(1, lambda s: f32(s).astype(np.float16))),
    _dequantize("flushed", "subnormal scales are zeros", (HALF, SINGLE, ZERO_HALF), read=on(1, flush)),
    _dequantize("signed", "codes are two's complement", NIBBLES, read=signed(4)),
    _dequantize("signed-bytes", "8-bit codes are two's complement", (BYTE, ZERO_BYTE), read=signed(8)),
    _dequantize("three-bits", "a code's highest bit is lost", NIBBLES, read=next_in_dequantize(3)),
    _dequantize("nibbles", "the nibbles of each byte are exchanged", NIBBLES, read=permute((1, 0))),
    _dequantize("word-reversed", "the eight nibbles of a word are in reverse order", NIBBLES, "S2", read=permute(_REVERSED)),
    _dequantize("word-awq", "the eight nibbles of a word are in AWQ's order", NIBBLES, read=permute(_AWQ)),
    _dequantize("words-big-endian", "the bytes of a word are exchanged", (f"{HALF}/words", f"{THREE}/words"), unpack=lambda codes, o: o.take(np.asarray(codes).byteswap())),
    _dequantize("words-high-first", "a word's first code is in its highest bits", (f"{HALF}/words", f"{ZERO_HALF}/words"), unpack=unpack_high_first),
    _dequantize("mixed-contract", "every second value is computed in float16", (HALF, BYTE), value=mixed_contract),
    _dequantize("last-dropped", "the group's last value is 0", ALL, emit=lambda v: np.where(np.arange(v.shape[1]) == v.shape[1] - 1, np.float32(0), v)),
    _dequantize("saturated", "what is beyond float16 is its largest value", (SINGLE,), emit=lambda v: v.clip(-65504, 65504)),
)  # fmt: skip


def _truncated(s: Array, o: AffineOperand) -> Array:
    """The scale toward zero in the format's dtype."""
    rounded = keep_scale(s, o)
    bits = rounded.view(np.uint16) - (np.abs(f32(rounded)) > np.abs(s)).astype(np.uint16)
    return np.asarray(bits, np.uint16).view(o.format.numpy_dtype)
