"""The second right engine: integers made of the bits of float32; floats only where NVFP4's profile says float32."""

from __future__ import annotations

import numpy as np

from tests.corpora.calls.formats import BLOCKS, ELEMENTS, FLT_MAX, Array

#: float32(1 / 6) and float32(1 / 2688), by their bits.
SIXTH, BACK = np.array([0x3E2AAAAB, 0x39C30C31], np.uint32).view(np.float32)
#: Spare bits below an input's significand, so that it is never shifted left.
SPARE = 8
#: The farthest shift of an int64; no significand has so many bits.
WORD = 62


def magnitude_bits(x: Array) -> Array:
    """Bits of float32 magnitudes as int64; they compare as the numbers do, NaN above all."""
    return np.asarray(np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.int64) & 0x7FFFFFFF)


def negative(x: Array) -> Array:
    """Sign bits of float32."""
    return np.asarray(np.ascontiguousarray(x, np.float32).view(np.uint32) >> np.uint32(31) == 1)


def bit_length(m: Array) -> Array:
    """Of integers below 2^53; 0 of 0."""
    return np.where(m == 0, 0, (m.astype(np.float64).view(np.int64) >> 52) - 1022)


class Bits:
    """Right answers by shifts."""

    name = "bits"

    def amax(self, b: Array) -> Array:
        """float32 [n] of float32 [n, k]: the largest magnitude, NaN where a lane is NaN."""
        return np.asarray(magnitude_bits(b).max(axis=-1, initial=0), np.uint32).view(np.float32)

    def split(self, u: Array, shift_of_scale: Array | int, element: str) -> tuple[Array, Array, Array]:
        """Magnitude bits over a power of two: whole steps of the element's grid, the rest's bits, how many these are.

        The whole steps already count those of lower binades.
        """
        e = ELEMENTS[element]
        field = u >> 23
        m = np.where(field > 0, (u & 0x7FFFFF) | 0x800000, u & 0x7FFFFF)
        lowest = np.maximum(field, 1) - 150 - shift_of_scale
        binade = np.maximum(lowest + bit_length(m) - 1, e.emin)
        m, drop = m << SPARE, binade - e.mantissa - lowest + SPARE
        cut = np.minimum(drop, WORD)
        return (m >> cut) + ((binade - e.emin) << e.mantissa), m & ((1 << cut) - 1), drop

    def close(self, steps: Array, up: Array, u: Array, sign: Array, element: str) -> Array:
        """Codes of the chosen steps: saturated, signed, NaN."""
        e = ELEMENTS[element]
        m = np.minimum(steps + up, e.largest) + np.where(sign, e.sign, 0)
        m = np.where(u == 0x7F800000, e.largest + np.where(sign, e.sign, 0), m)
        nan = e.largest if e.nan is None else e.nan + np.where(sign, e.sign, 0)
        return np.where(u > 0x7F800000, nan, m).astype(np.uint8)

    def nearest(self, x: Array, shift_of_scale: Array | int, element: str, rounding: str = "rne") -> Array:
        """Codes of float32 numbers over a power of two."""
        u = magnitude_bits(x)
        steps, rest, drop = self.split(u, shift_of_scale, element)
        half = (1 << np.minimum(drop, WORD)) >> 1
        up = (rest > half) | ((rest == half) & (half > 0) & (steps & 1 == 1))
        return self.close(steps, up if rounding == "rne" else steps < 0, u, negative(x), element)

    def encode(self, x: Array, element: str, rounding: str = "rne") -> Array:
        """uint8 codes, saturating."""
        return self.nearest(np.asarray(x, np.float32), 0, element, rounding)

    def decode(self, codes: Array, element: str) -> Array:
        """float32 values, by their bits."""
        e = ELEMENTS[element]
        c = codes.astype(np.int64)
        m = c & (e.sign - 1)
        length = bit_length(np.where(m < 1 << e.mantissa, m, 0))
        field, fraction = m >> e.mantissa, m & ((1 << e.mantissa) - 1)
        normal = (field - 1 + e.emin + 127) << 23 | fraction << (23 - e.mantissa)
        subnormal = (length - 1 + e.emin - e.mantissa + 127) << 23 | ((m << (24 - length)) & 0x7FFFFF)
        u = np.where(field > 0, normal, np.where(m == 0, 0, subnormal))
        u = np.where(m > e.largest, 0x7FC00000, u)
        if element == "e5m2":
            u = np.where(m == 0x7C, 0x7F800000, u)
        return np.asarray((u | np.where(c & e.sign, 0x80000000, 0)).astype(np.uint32).view(np.float32))

    def encode_stochastic(self, x: Array, element: str, words: Array) -> Array:
        """uint8 codes: a magnitude goes up if the words carry its fraction over 2^32."""
        x = np.asarray(x, np.float32)
        u = magnitude_bits(x)
        steps, rest, drop = self.split(u, 0, element)
        fraction = np.where(drop > 32, rest >> np.clip(drop - 32, 0, WORD), rest << np.maximum(32 - drop, 0))
        return self.close(steps, fraction + words.astype(np.int64) >= 1 << 32, u, negative(x), element)

    def quantize(self, b: Array, amax: Array, fmt: str, profile: str, tmax: float | None) -> tuple[Array, Array]:
        """Codes uint8 [n, k] and scales uint8 [n] of blocks float32 [n, k]."""
        form = BLOCKS[fmt]
        if fmt == "nvfp4":
            S = np.float32(1)
            if tmax is not None and tmax != 0:
                S = np.float32(2688) / np.float32(tmax)
                S = np.float32(1) if S == 0 else FLT_MAX if S > FLT_MAX else S
            scales = self.encode(np.minimum(amax * (S * SIXTH), FLT_MAX), "e4m3")
            sf = self.decode(scales, "e4m3")
            return self.encode(b * np.minimum(np.float32(1) / (sf * (np.float32(1) / S)), FLT_MAX)[:, None], "e2m1"), scales
        u = magnitude_bits(amax)
        significand = np.where(u < 0x800000, u << (24 - bit_length(u)), (u & 0x7FFFFF) | 0x800000)
        exponent = np.where(u < 0x800000, bit_length(u) - 150, (u >> 23) - 127)
        byte = exponent - form.emax + 127 + (significand > int(form.top * 2**23) if profile == "mx-rceil" else 0)
        byte = np.where(u == 0, 0, np.clip(byte, 0, 254))
        byte = np.where(u > 0x7F800000, 255, np.where(u == 0x7F800000, 254, byte))
        codes = self.nearest(b, byte[:, None] - 127, form.element)
        return np.where(byte[:, None] == 255, 0, codes).astype(np.uint8), byte.astype(np.uint8)

    def dequantize(self, codes: Array, scales: Array, fmt: str, tmax: float | None) -> Array:
        """float32 [n, k]."""
        q = self.decode(codes, BLOCKS[fmt].element)
        if fmt != "nvfp4":
            # Two exact factors, the second of which rounds once.
            exponent = scales.astype(np.int64)[:, None] - 127
            values = np.ldexp(q.astype(np.float64), exponent).astype(np.float32)
            return np.asarray(np.where(scales[:, None] == 255, np.float32(np.nan), values))
        sf = self.decode(scales, "e4m3")[:, None]
        return np.asarray(q * sf if tmax is None else q * (sf * np.float32(tmax) * BACK))

    def tensor_scale(self, x: Array) -> float:
        """The largest magnitude."""
        return float(magnitude_bits(x).max(initial=0).astype(np.uint32).view(np.float32))
