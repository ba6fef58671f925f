"""The first right engine: float64 numbers looked up in tables of values and of midpoints."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.corpora.calls.formats import BLOCKS, ELEMENTS, FLT_MAX, Array

SIXTH = np.float32(1) / np.float32(6)
BACK = np.float32(1) / np.float32(2688)


@cache
def magnitudes(element: str) -> Array:
    """float64 values of the magnitude codes 0 .. largest, ascending."""
    e = ELEMENTS[element]
    codes = np.arange(e.largest + 1)
    field, fraction = codes >> e.mantissa, codes & ((1 << e.mantissa) - 1)
    whole = np.where(field > 0, 1 << e.mantissa, 0) + fraction
    return np.asarray(np.ldexp(whole.astype(np.float64), np.maximum(field, 1) - 1 + e.emin - e.mantissa))


@cache
def thresholds(element: str) -> Array:
    """The least float64 that goes to code i + 1: the midpoint, or its successor where the tie belongs to an even i."""
    values = magnitudes(element)
    middle = (values[:-1] + values[1:]) / 2
    return np.where(np.arange(middle.size) % 2 == 1, middle, np.nextafter(middle, np.inf))


@cache
def table(element: str) -> Array:
    """float64 values of all codes."""
    e = ELEMENTS[element]
    half = np.full(e.sign, np.nan)
    half[: e.largest + 1] = magnitudes(element)
    if element == "e5m2":
        half[0x7C] = np.inf
    return np.concatenate([half, -half])


class Tables:
    """Right answers by lookup."""

    name = "tables"

    def amax(self, b: Array) -> Array:
        """float32 [n] of float32 [n, k]: the largest magnitude, NaN where a lane is NaN."""
        return np.asarray(np.abs(b).max(axis=-1, initial=np.float32(0)), np.float32)

    def encode(self, x: Array, element: str, rounding: str = "rne") -> Array:
        """uint8 codes, saturating."""
        e, v = ELEMENTS[element], np.asarray(x, np.float64)
        steps = thresholds(element) if rounding == "rne" else magnitudes(element)[1:]
        codes = np.searchsorted(steps, np.abs(v), side="right").astype(np.uint8)
        codes |= np.where(np.signbit(v), e.sign, 0).astype(np.uint8)
        lost = np.isnan(v)
        if lost.any():
            codes[lost] = e.largest if e.nan is None else np.where(np.signbit(v[lost]), e.nan | e.sign, e.nan)
        return codes

    def decode(self, codes: Array, element: str) -> Array:
        """float32 values."""
        return table(element).astype(np.float32)[codes]

    def encode_stochastic(self, x: Array, element: str, words: Array) -> Array:
        """uint8 codes: a magnitude goes up if the words carry its fraction over 2^32."""
        e, v = ELEMENTS[element], np.asarray(x, np.float64)
        values = magnitudes(element)
        a = np.minimum(np.where(np.isnan(v), 0, np.abs(v)), values[-1])
        low = np.minimum(np.searchsorted(values, a, side="right") - 1, values.size - 2)
        fraction = (a - values[low]) / (values[low + 1] - values[low])
        up = np.floor(fraction * 2.0**32) + words.astype(np.float64) >= 2.0**32
        codes = np.minimum(low + up, e.largest) | np.where(np.signbit(v), e.sign, 0)
        sign = np.where(np.signbit(v), e.sign, 0)
        return np.where(np.isnan(v), e.largest if e.nan is None else e.nan | sign, codes).astype(np.uint8)

    def quantize(self, b: Array, amax: Array, fmt: str, profile: str, tmax: float | None) -> tuple[Array, Array]:
        """Codes uint8 [n, k] and scales uint8 [n] of blocks float32 [n, k]."""
        form = BLOCKS[fmt]
        if fmt == "nvfp4":
            S = np.float32(1)
            if tmax is not None and np.float32(tmax) != 0:
                S = np.minimum(np.float32(2688) / np.float32(tmax), FLT_MAX)
                S = np.float32(1) if S == 0 else S
            scales = self.encode(np.minimum(amax * (S * SIXTH), FLT_MAX), "e4m3")
            factor = np.minimum(np.float32(1) / (self.decode(scales, "e4m3") * (np.float32(1) / S)), FLT_MAX)
            return self.encode(b * factor[:, None], form.element), scales
        fraction, exponent = np.frexp(np.where(np.isfinite(amax), amax, 1).astype(np.float64))
        byte = exponent - 1 - form.emax + 127
        if profile == "mx-rceil":
            byte = byte + (fraction * 2 > form.top)
        byte = np.clip(byte, 0, 254)
        byte = np.where(amax == 0, 0, np.where(np.isnan(amax), 255, np.where(np.isinf(amax), 254, byte)))
        codes = self.encode(b.astype(np.float64) / np.ldexp(1.0, byte - 127)[:, None], form.element)
        codes[byte == 255] = 0
        return codes, byte.astype(np.uint8)

    def dequantize(self, codes: Array, scales: Array, fmt: str, tmax: float | None) -> Array:
        """float32 [n, k]."""
        q = table(BLOCKS[fmt].element)[codes]
        if fmt != "nvfp4":
            sf = np.where(scales == 255, np.nan, np.ldexp(1.0, scales.astype(int) - 127))
            return np.asarray((q * sf[:, None]).astype(np.float32))
        sf = self.decode(scales, "e4m3")
        if tmax is None:
            return np.asarray(q.astype(np.float32) * sf[:, None])
        return np.asarray(q.astype(np.float32) * (sf * np.float32(tmax) * BACK)[:, None])

    def tensor_scale(self, x: Array) -> float:
        """The largest magnitude."""
        return float(self.amax(x.reshape(1, -1))[0])
