"""A second, plain implementation of the normative profiles, written from the documents alone.

Every step of the arithmetic is one method of `Kernel`, on whole arrays, so that a bug is one method replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
FLT_MAX = np.float32(np.finfo(np.float32).max)
#: float32(1 / 6) and float32(1 / 2688).
SIXTH = np.float32(1) / np.float32(6)
RECIPROCAL_2688 = np.float32(1) / np.float32(2688)


@dataclass(frozen=True)
class Element:
    """A scalar format: mantissa bits, exponent of its smallest normal number, largest magnitude code."""

    name: str
    bits: int
    mantissa: int
    emin: int
    largest: int
    inf: int | None = None
    nan: int | None = None
    signed: bool = True
    #: Fixed point in two's complement; `emin` is then the only exponent.
    fixed: bool = False

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1) if self.signed else 0


@dataclass(frozen=True)
class Block:
    """A block format: its element, number of lanes, exponent and significand of the element's largest value."""

    element: Element
    k: int
    emax: int
    #: Mantissa field, as float32 has it, of the element's largest value.
    top: int


E2M1 = Element("e2m1", 4, 1, 0, 0x07)
E2M3 = Element("e2m3", 6, 3, 0, 0x1F)
E3M2 = Element("e3m2", 6, 2, -2, 0x1F)
E4M3 = Element("e4m3", 8, 3, -6, 0x7E, nan=0x7F)
E5M2 = Element("e5m2", 8, 2, -14, 0x7B, inf=0x7C, nan=0x7E)
INT8 = Element("int8", 8, 6, 0, 127, fixed=True)
UE4M3 = Element("ue4m3", 7, 3, -6, 0x7E, nan=0x7F, signed=False)
E8M0 = Element("e8m0", 8, 0, -126, 0xFE, nan=0xFF, signed=False)
ELEMENTS = {e.name: e for e in (E2M1, E2M3, E3M2, E4M3, E5M2, INT8, UE4M3, E8M0)}
BLOCKS = {
    "mxfp4": Block(E2M1, 32, 2, 0x400000),
    "mxfp6_e2m3": Block(E2M3, 32, 2, 0x700000),
    "mxfp6_e3m2": Block(E3M2, 32, 4, 0x600000),
    "mxfp8_e4m3": Block(E4M3, 32, 8, 0x600000),
    "mxfp8_e5m2": Block(E5M2, 32, 15, 0x600000),
    "mxint8": Block(INT8, 32, 0, 0x7E0000),
    "nvfp4": Block(E2M1, 16, 2, 0x400000),
}


def bits_of(x: Array) -> Array:
    """The bits of float32 numbers as int64."""
    return np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.int64)


def float_of(bits: Array) -> Array:
    """float32 numbers from their bits."""
    return np.asarray(bits).astype(np.uint32).view(np.float32)


class Kernel:
    """One profile; the stages in the order in which they run."""

    def __init__(self, profile: str = "mx-floor") -> None:
        self.profile = profile

    # The block and its largest magnitude.

    def load(self, x: Array) -> Array:
        """The input in float32."""
        return np.asarray(x).astype(np.float32)

    def arrange(self, x: Array, k: int, pad: bool) -> Array:
        """Rows of blocks [rows, blocks, k], ragged tails filled with zeros."""
        missing = -x.shape[-1] % k if pad else 0
        padded = np.concatenate([x, np.zeros((*x.shape[:-1], missing), np.float32)], axis=-1)
        return padded.reshape(-1, padded.shape[-1] // k, k)

    def magnitude_bits(self, b: Array) -> Array:
        """What the maximum is taken of: magnitudes compare like integers, and a NaN lies above all."""
        return bits_of(b) & 0x7FFFFFFF

    def amax(self, b: Array) -> Array:
        """The largest magnitude of each block."""
        return float_of(self.magnitude_bits(b).max(axis=-1))

    def tile(self, amax: Array, rows: int) -> Array:
        """The same for tiles of some rows."""
        groups = bits_of(amax).reshape(-1, rows, amax.shape[-1]).max(axis=1)
        return float_of(np.repeat(groups, rows, axis=0))

    # The scale of MX.

    def exponent(self, amax: Array) -> Array:
        """floor(log2 amax), of subnormals too."""
        return np.frexp(amax.astype(np.float64))[1] - 1

    def significand(self, amax: Array) -> Array:
        """Mantissa field of amax as if it were normal."""
        fraction = np.frexp(amax.astype(np.float64))[0] * 2 - 1
        return np.where(np.isfinite(fraction), fraction, 0) * 2.0**23

    def bump(self, significand: Array, block: Block) -> Array:
        """What the profile adds to the exponent for the significand."""
        if self.profile == "mx-rceil":
            return significand > block.top
        if self.profile == "mx-ceil":
            return significand > 0
        if self.profile == "mx-even":
            return significand + 2.0 ** (22 - block.element.mantissa) >= 2.0**23
        return np.zeros(significand.shape, bool)

    def clamp(self, byte: Array) -> Array:
        """Into the bytes that mean numbers."""
        return np.clip(byte, 0x00, 0xFE)

    def special_scale(self, byte: Array, amax: Array) -> Array:
        """Bytes of maxima that are not positive numbers."""
        byte = np.where(amax == 0, 0x00, byte)
        byte = np.where(np.isinf(amax), 0xFE, byte)
        return np.where(np.isnan(amax), 0xFF, byte)

    def mx_scale(self, amax: Array, block: Block) -> Array:
        """E8M0 bytes."""
        e = self.exponent(amax).astype(np.int64) - block.emax + self.bump(self.significand(amax), block)
        return self.special_scale(self.clamp(e + 127), amax).astype(np.uint8)

    def power(self, byte: Array) -> Array:
        """The numbers that E8M0 bytes mean."""
        return np.where(byte == 0xFF, np.nan, np.ldexp(1.0, byte.astype(np.int64) - 127))

    def divide(self, b: Array, sf: Array) -> Array:
        """Lanes by the scale, exactly."""
        return b.astype(np.float64) / sf[..., None]

    # The scale of NVFP4, all in float32.

    def encode_scale(self, tmax: Array) -> Array:
        """S from the tensor's largest magnitude."""
        s = np.minimum(np.float32(2688) / np.float32(tmax), FLT_MAX)
        return np.float32(1) if tmax == 0 or s == 0 else s

    def scale_value(self, amax: Array, S: Array) -> Array:
        """What is cast to E4M3."""
        if self.profile == "nvfp4-te":
            return np.minimum(amax * (S * SIXTH), FLT_MAX)
        return amax / np.float32(6) * S

    def cast_scale(self, value: Array) -> Array:
        """UE4M3 bytes."""
        return self.encode_value(value, UE4M3)

    def multiplier(self, sf: Array, S: Array) -> Array:
        """What lanes are multiplied by."""
        g = np.float32(1) / S
        if self.profile == "nvfp4-te":
            return np.minimum(np.float32(1) / (sf * g), FLT_MAX)
        return np.where(sf == 0, np.float32(0), np.float32(1) / (sf * g))

    def scale_lanes(self, b: Array, multiplier: Array) -> Array:
        """Lanes times the multiplier."""
        return b * multiplier[..., None]

    # One element.

    def grid_exponent(self, v: Array, e: Element) -> Array:
        """Exponent of the binade whose step applies: subnormals share that of the smallest normal number."""
        exponent = np.where(v > 0, np.frexp(v)[1] - 1, e.emin)
        return np.full(v.shape, e.emin) if e.fixed else np.maximum(exponent, e.emin)

    def split(self, v: Array, t: Array, e: Element) -> tuple[Array, Array]:
        """Whole steps in a magnitude, and the rest of a step."""
        steps = np.ldexp(v, e.mantissa - t)
        whole = np.floor(steps)
        return np.minimum(whole, 2.0**40).astype(np.int64), steps - whole

    def round_up(self, q: Array, r: Array, negative: Array, rounding: str) -> Array:
        """Whether a magnitude goes to the next one."""
        nearest = {"rne": (q & 1) == 1, "rna": q >= 0, "rnz": q < 0, "rnu": ~negative}
        if rounding in nearest:
            return (r > 0.5) | ((r == 0.5) & nearest[rounding])
        return (r > 0) & {"rtz": q < 0, "rtn": negative, "rtp": ~negative}[rounding]

    def saturate(self, m: Array, infinite: Array, negative: Array, e: Element, rounding: str, overflow: str) -> Array:
        """Magnitude codes beyond the largest one."""
        beyond = (m > e.largest) | infinite
        own = e.inf if e.inf is not None else e.nan
        if overflow != "own" or own is None:
            return np.where(beyond, e.largest, m)
        stops = {"rtz": negative | True, "rtn": ~negative, "rtp": negative}.get(rounding, negative & False) & ~infinite
        return np.where(beyond, np.where(stops, e.largest, own), m)

    def join(self, m: Array, negative: Array, e: Element) -> Array:
        """Sign and magnitude code to a code."""
        if e.fixed:
            return np.where(negative, -m, m) & 0xFF
        return np.where(negative & e.signed, m | e.sign, m)

    def nan_code(self, v: Array, e: Element) -> Array:
        """Codes of NaN lanes."""
        if e.nan is None:
            return np.full(v.shape, e.largest)
        return np.where(np.signbit(v) & e.signed, e.nan | e.sign, e.nan)

    def power_code(self, a: Array, rounding: str, negative: Array) -> Array:
        """E8M0: code 00 is 2^-127, there is no zero, and a tie is halfway between two powers."""
        fraction, exponent = np.frexp(a)
        byte = np.maximum(exponent.astype(np.int64) - 1 + 127, 0)
        rest = np.where(a < 2.0**-127, -1.0, fraction * 2 - 1)
        return np.where(a == 0, 0, byte + self.round_up(byte, rest, negative & False, rounding))

    def encode_value(self, x: Array, e: Element, rounding: str = "rne", overflow: str = "saturate") -> Array:
        """Codes of numbers."""
        v = np.asarray(x, np.float64)
        negative = np.signbit(v) if e.signed else np.zeros(v.shape, bool)
        finite = np.isfinite(v)
        a = np.where(finite, np.abs(v), 0)
        if e is E8M0:
            m = self.power_code(a, rounding, negative)
        else:
            t = self.grid_exponent(a, e)
            q, r = self.split(a, t, e)
            up = self.round_up(q, r, negative, rounding)
            m = self.carry(q, up, t, e)
        m = self.saturate(m, np.isinf(v), negative, e, rounding, overflow)
        codes: Array = np.where(np.isnan(v), self.nan_code(v, e), self.join(m, negative, e))
        return codes.astype(np.uint8)

    def carry(self, q: Array, up: Array, t: Array, e: Element) -> Array:
        """Magnitude codes: codes go on across binades."""
        offset = np.zeros(q.shape, np.int64) if e.fixed else (t - e.emin).astype(np.int64) << e.mantissa
        return offset + q + up

    def decode_value(self, codes: Array, e: Element) -> Array:
        """Numbers of codes, in float64."""
        c = codes.astype(np.int64)
        if e is E8M0:
            return self.power(codes)
        if e.fixed:
            return codes.astype(np.uint8).view(np.int8) / 64.0
        m = c & ((1 << (e.bits - e.signed)) - 1)
        field, fraction = m >> e.mantissa, m & ((1 << e.mantissa) - 1)
        value = self.assemble(field, fraction, e)
        value = np.where(m > e.largest, np.inf if e.inf is not None else np.nan, value)
        value = np.where((m > e.largest) & (m != (e.inf or 0)), np.nan, value)
        return np.where((c & e.sign) != 0, -value, value)

    def assemble(self, field: Array, fraction: Array, e: Element) -> Array:
        """Magnitudes from exponent and mantissa fields."""
        hidden = np.where(field > 0, 1 << e.mantissa, 0)
        return np.ldexp((hidden + fraction).astype(np.float64), np.maximum(field, 1) - 1 + e.emin - e.mantissa)

    def stochastic_up(self, r: Array, words: Array) -> Array:
        """Whether the random bits carry a fraction over."""
        return np.floor(r * 2.0**32) + words.astype(np.float64) >= 2.0**32

    # Dequantize.

    def product(self, q: Array, sf: Array) -> Array:
        """Elements times the scale, rounded once."""
        return (q * sf).astype(np.float32)

    def two_level_product(self, q: Array, sf: Array, scale: Array) -> Array:
        """The same with a tensor scale: float32, in the profile's order."""
        q, sf = q.astype(np.float32), sf.astype(np.float32)
        if self.profile == "nvfp4-te":
            return q * (sf * scale * RECIPROCAL_2688)
        return q * sf * (np.float32(1) / scale)

    # The functions of the interface.

    def quantize_blocks(self, b: Array, amax: Array, block: Block, S: Array) -> tuple[Array, Array]:
        """Codes and scale bytes of blocks [rows, blocks, k]."""
        if block is BLOCKS["nvfp4"]:
            scales = self.cast_scale(self.scale_value(amax, S))
            sf = self.decode_value(scales, UE4M3).astype(np.float32)
            codes = self.encode_value(self.scale_lanes(b, self.multiplier(sf, S)), block.element)
            return codes, scales
        scales = self.mx_scale(amax, block)
        codes = self.encode_value(self.divide(b, self.power(scales)), block.element)
        return np.where(scales[..., None] == 0xFF, 0x00, codes).astype(np.uint8), scales

    def quantize(
        self, x: Array, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False,
        block: tuple[int, int] | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Codes in x's shape and scale bytes."""
        with np.errstate(all="ignore"):
            form = BLOCKS[fmt]
            moved = np.moveaxis(self.load(x), axis, -1)
            b = self.arrange(moved, form.k, pad)
            amax = self.amax(b)
            if block is not None:
                amax = self.tile(amax, block[0])
            S = np.float32(1 if tensor_scale is None else tensor_scale)
            if tensor_scale is not None and self.profile == "nvfp4-te":
                S = self.encode_scale(S)
            codes, scales = self.quantize_blocks(b, amax, form, S)
            shape = (*moved.shape[:-1], -1)
            return np.moveaxis(codes.reshape(shape), -1, axis), np.moveaxis(scales.reshape(shape), -1, axis)

    def dequantize(self, codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
        """float32 values."""
        with np.errstate(all="ignore"):
            form = BLOCKS[fmt]
            q = self.decode_value(codes, form.element)
            sf = self.decode_value(scales, UE4M3 if fmt == "nvfp4" else E8M0)
            sf = np.repeat(sf, form.k, axis=-1)
            if tensor_scale is None:
                return self.product(q, sf)
            return self.two_level_product(q, sf, np.float32(tensor_scale)).astype(np.float32)

    def encode(self, x: Array, element: str, rounding: str = "rne", overflow: str = "saturate") -> Array:
        """Codes of single numbers; of formats without a sign, those of magnitudes."""
        return self.encode_value(x, ELEMENTS[element], rounding, overflow)

    def decode(self, codes: Array, element: str) -> Array:
        """float32 values of codes."""
        with np.errstate(all="ignore"):
            return self.decode_value(codes, ELEMENTS[element]).astype(np.float32)

    def encode_stochastic(self, x: Array, element: str, random_bits: Array) -> Array:
        """Codes rounded by 32 random bits each."""
        e = ELEMENTS[element]
        v = np.asarray(x, np.float64)
        a = np.where(np.isfinite(v), np.abs(v), 0)
        t = self.grid_exponent(a, e)
        q, r = self.split(a, t, e)
        negative = np.signbit(v)
        m = self.carry(q, self.stochastic_up(r, random_bits), t, e)
        m = self.saturate(m, np.isinf(v), negative, e, "rne", "saturate")
        codes: Array = np.where(np.isnan(v), self.nan_code(v, e), self.join(m, negative, e))
        return codes.astype(np.uint8)

    def tensor_scale(self, x: Array, fmt: str) -> float:
        """S (paper's order) or the tensor's largest magnitude (Transformer Engine's)."""
        with np.errstate(all="ignore"):
            tmax = self.amax(self.load(x).reshape(1, -1))[0]
            return float(tmax if self.profile == "nvfp4-te" else self.encode_scale(tmax))
