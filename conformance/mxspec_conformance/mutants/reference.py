"""A straightforward implementation of the normative profiles, in steps that can be replaced one by one.

It shares nothing with the model's array paths: no tables, no expressions; values are computed in float64, which holds every
product and quotient here exactly, and NVFP4's float32 operations one after the other in float32. With every step as it stands
it passes its profiles; a mutant is this implementation with one step replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from mxspec.formats import BLOCKS, E4M3, E8M0, ELEMENTS, SCALES, BlockFormat, ScalarFormat
from mxspec_conformance.mutants.staged import NOTHING, Staged, Step, Wrap

#: Arrays, of float64 for the most part; expressions of them have types that say nothing.
Array = Any

FLT_MAX = np.float32(np.finfo(np.float32).max)
ONE = np.float32(1)
ONE_SIXTH = np.float32(1 / 6)
ONE_2688TH = np.float32(1 / 2688)


@dataclass(frozen=True, slots=True)
class Context:
    """What every step knows."""

    element: ScalarFormat
    #: None where single numbers are encoded.
    fmt: BlockFormat | None
    profile: str
    #: The tensor scale that the call was given: amax for `nvfp4-te`, encode for `nvfp4-paper`.
    given: np.float32 | None = None
    #: The encode scale that follows from it; 1 without one.
    S: np.float32 = ONE

    @property
    def block(self) -> BlockFormat:
        """The block format; there is one."""
        assert self.fmt is not None
        return self.fmt


# Elements: magnitudes in float64.


def lowest(f: ScalarFormat) -> int:
    """Exponent below which the spacing no longer shrinks."""
    return 1 - f.bias


def largest(f: ScalarFormat) -> float:
    """The largest finite value."""
    return float(f.max_value)


def exponent_of(magnitude: Array) -> Array:
    """floor(log2) of positive numbers; of 0 something lower than any."""
    exponent: Array = np.where(magnitude == 0, -2000, np.frexp(magnitude)[1].astype(np.int64) - 1)
    return exponent


def spacing(f: ScalarFormat, magnitude: Array) -> Array:
    """The distance between neighbouring values around a magnitude."""
    if f.exponent_bits == 0:
        return np.full(np.shape(magnitude), 2.0 ** (lowest(f) - f.mantissa_bits))
    return np.ldexp(1.0, np.maximum(exponent_of(magnitude), lowest(f)) - f.mantissa_bits)


def goes_up(count: Array, negative: Array, mode: str) -> Array:
    """Whether a magnitude of `count` spacings becomes the whole number above; mode: a name of `Rounding`."""
    low = np.floor(count)
    rest = count - low
    away: Array = rest > 0.5
    tie = rest == 0.5
    never = np.zeros(np.shape(count), bool)
    return {
        "rne": away | (tie & (low % 2 == 1)),
        "rna": away | tie,
        "rnz": away,
        "rnu": away | (tie & ~negative),
        "rtz": never,
        "rtn": (rest > 0) & negative,
        "rtp": (rest > 0) & ~negative,
    }[mode]


def round_magnitude(c: Context, magnitude: Array, negative: Array, mode: str = "rne") -> Array:
    """Magnitudes on the element's grid, as if that had no end."""
    step = spacing(c.element, magnitude)
    count = magnitude / step
    return (np.floor(count) + goes_up(count, negative, mode)) * step


def saturate(c: Context, rounded: Array, magnitude: Array) -> Array:
    """Rounded magnitudes within the element's range."""
    del magnitude
    return np.minimum(rounded, largest(c.element))


def code_magnitude(c: Context, value: Array) -> Array:
    """Magnitude codes (integers) of values on the grid."""
    f = c.element
    above = 0 if f.exponent_bits == 0 else np.maximum(exponent_of(value), lowest(f)) - lowest(f)
    codes: Array = (value / spacing(f, value)).astype(np.int64) + above * (1 << f.mantissa_bits)
    return codes


def join_sign(c: Context, codes: Array, negative: Array) -> Array:
    """Codes with their sign."""
    signed = -codes if c.element.twos_complement else codes | c.element.sign_bit
    return np.where(negative & bool(c.element.signed), signed, codes) & (c.element.code_count - 1)


def code_nan(c: Context, codes: Array, x: Array, scaled: Array) -> Array:
    """Codes with those of NaN entered: the format's NaN with its sign, else the largest value."""
    f = c.element
    if f.nan_code is None:
        return np.where(np.isnan(scaled), f.max_code, codes)
    return np.where(np.isnan(scaled), np.where(np.signbit(x), f.nan_code | f.sign_bit, f.nan_code), codes)


# Scales of the MX formats.


def load(c: Context, x: Array) -> Array:
    """Elements [n, k] as the kernel sees them."""
    return x


def find_amax(c: Context, x: Array) -> Array:
    """The largest magnitude [n] of each block; NaN if there is one."""
    return np.abs(x).max(axis=1)


def exponent_floor(c: Context, amax: Array) -> Array:
    """`mx-floor`."""
    return exponent_of(amax) - c.element.emax


def exponent_ceil(c: Context, amax: Array) -> Array:
    """`mx-ceil`."""
    return exponent_of(amax) + (np.frexp(amax)[0] != 0.5) - c.element.emax


def exponent_even(c: Context, amax: Array) -> Array:
    """`mx-even`: half a unit of the element's significand is added first."""
    bits = c.element.mantissa_bits - (c.element.exponent_bits == 0)
    exponent = exponent_of(amax)
    return exponent + (amax * np.ldexp(1.0, -exponent) + 2.0 ** -(bits + 1) >= 2) - c.element.emax


def exponent_rceil(c: Context, amax: Array) -> Array:
    """`mx-rceil`: the smallest power of two that leaves nothing beyond the largest value."""
    exponent = exponent_of(amax) - c.element.emax
    return exponent + (amax > np.ldexp(largest(c.element), exponent))


EXPONENTS = {"mx-floor": exponent_floor, "mx-ceil": exponent_ceil, "mx-even": exponent_even, "mx-rceil": exponent_rceil}


def find_exponent(c: Context, amax: Array) -> Array:
    """The exponent of the scale of positive, finite float64 maxima."""
    return EXPONENTS[c.profile](c, amax)


def store_exponent(c: Context, exponent: Array) -> Array:
    """The scale byte of an exponent."""
    return np.clip(exponent + 127, 0, 254)


def store_special(c: Context, stored: Array, amax: Array) -> Array:
    """Scale bytes with those of blocks of zeros, of blocks with infinities and with NaN entered."""
    stored = np.where(amax == 0, 0, stored)
    return np.where(np.isnan(amax), 255, np.where(np.isinf(amax), 254, stored))


def use_scale(c: Context, stored: Array, amax: Array) -> Array:
    """The number [n] by which elements are divided."""
    return np.where(stored == 255, np.nan, np.ldexp(1.0, stored - 127))


def divide(c: Context, x: Array, scale: Array) -> Array:
    """Quotients in float64, which holds them exactly."""
    return x.astype(np.float64) / scale[:, None]


def finish(c: Context, codes: Array, stored: Array, x: Array) -> tuple[Array, Array]:
    """Codes and scales of a call: under a NaN scale all codes are 0."""
    return np.where((stored == 255)[:, None], 0, codes), stored


# Scales of NVFP4.


def find_encode_scale(c: Context) -> np.float32:
    """S of the tensor scale that was given."""
    if c.given is None:
        return ONE
    if c.profile == "nvfp4-paper":
        return c.given
    return encode_scale_of(c, c.given)


def encode_scale_of(c: Context, amax: np.float32) -> np.float32:
    """S of a tensor with this largest magnitude."""
    if amax == 0:
        return ONE
    ratio = np.minimum(np.float32(2688) / amax, FLT_MAX)
    return ONE if ratio == 0 else np.float32(ratio)


def scale_ratio(c: Context, amax: Array) -> Array:
    """What becomes the block's scale, in float32."""
    if c.profile == "nvfp4-paper":
        return amax / np.float32(6) * c.S
    return np.minimum(amax * (c.S * ONE_SIXTH), FLT_MAX)


def store_ratio(c: Context, ratio: Array) -> Array:
    """The byte of the block's scale: e4m3, nearest even, at most 7E."""
    f = Context(E4M3, None, c.profile)
    magnitude = np.where(np.isnan(ratio), 0, np.minimum(ratio.astype(np.float64), 1e6))
    rounded = saturate(f, round_magnitude(f, magnitude, np.zeros(ratio.shape, bool)), magnitude)
    return np.where(np.isnan(ratio), 0x7F, code_magnitude(f, rounded))


def find_factor(c: Context, scale: Array, amax: Array) -> Array:
    """The float32 that elements are multiplied by."""
    if c.profile == "nvfp4-paper":
        return np.where(scale == 0, np.float32(0), ONE / (scale * (ONE / c.S)))
    return np.minimum(ONE / (scale * (ONE / c.S)), FLT_MAX)


def multiply(c: Context, x: Array, factor: Array) -> Array:
    """Scaled elements, in float32."""
    return x * factor[:, None]


# Back.


def decode_element(c: Context, codes: Array) -> Array:
    """Values (float64) of codes."""
    f = c.element
    codes = codes.astype(np.int64)
    negative = (codes & f.sign_bit) != 0 if f.signed else np.zeros(codes.shape, bool)
    if f.twos_complement:
        return np.where(negative, codes - f.code_count, codes) / 64
    magnitude = codes & (f.sign_bit - 1 if f.signed else f.code_count - 1)
    field, fraction = magnitude >> f.mantissa_bits, magnitude & ((1 << f.mantissa_bits) - 1)
    normal = np.ldexp(1 + fraction / (1 << f.mantissa_bits), field - f.bias)
    subnormal = np.ldexp(fraction / (1 << f.mantissa_bits), lowest(f))
    value = np.where(field == 0, subnormal, normal)
    if f.nan_code is not None:
        value = np.where(magnitude > f.max_code, np.nan, value)
    if f.inf_code is not None:
        value = np.where(magnitude == f.inf_code, np.inf, value)
    return np.where(negative, -value, value)


def decode_scale(c: Context, stored: Array) -> Array:
    """Values (float64) of scale bytes."""
    stored = stored.astype(np.int64)
    if c.block.has_tensor_scale:
        return decode_element(Context(E4M3, None, c.profile), stored & 0x7F)
    return np.where(stored == 255, np.nan, np.ldexp(1.0, stored - 127))


def combine(c: Context, values: Array, scales: Array) -> Array:
    """Dequantized float32 values."""
    if c.given is None:
        return (values * scales).astype(np.float32)
    q, sf = values.astype(np.float32), scales.astype(np.float32)
    if c.profile == "nvfp4-paper":
        return q * sf * (ONE / c.S)
    return q * (sf * c.given * ONE_2688TH)


# Single numbers and tensors.


def encode_e8m0(c: Context, magnitude: Array, mode: str = "rne", own: bool = False) -> Array:
    """e8m0 codes; ties to even look at the code. 0 gives 00, NaN gives FF; own: so does what rounds beyond 2^127."""
    finite = np.isfinite(magnitude) & (magnitude > 0)
    exponent = exponent_of(np.where(finite, magnitude, 1))
    rest = np.ldexp(np.where(finite, magnitude, 1), -exponent)
    low = exponent + 127
    up = {
        "rne": (rest > 1.5) | ((rest == 1.5) & (low % 2 == 1)),
        "rna": rest >= 1.5,
        "rnz": rest > 1.5,
        "rnu": rest >= 1.5,
        "rtp": rest > 1,
    }.get(mode, np.zeros(np.shape(rest), bool))
    code = np.clip(low + up, 0, 255 if own and mode not in ("rtz", "rtn") else 254)
    code = np.where(np.isinf(magnitude), 255 if own else 254, np.where(magnitude == 0, 0, code))
    return np.where(np.isnan(magnitude), 255, code)


def decode_e8m0(c: Context, codes: Array) -> Array:
    """Values of e8m0 codes."""
    return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int64) - 127))


def read_words(c: Context, words: Array, bits: int) -> Array:
    """The low bits of random words, moved up to be the highest of 32: what lies below them carries nothing."""
    return (words % np.uint64(1 << bits)).astype(np.float64) * 2.0 ** (32 - bits)


def round_stochastic(c: Context, magnitude: Array, words: Array) -> Array:
    """Magnitudes on the grid, up where floor(fraction * 2**32) plus the random word carries."""
    step = spacing(c.element, magnitude)
    count = magnitude / step
    low = np.floor(count)
    carry = np.floor((count - low) * 2.0**32) + words >= 2.0**32
    return (low + carry) * step


def overflows(c: Context, values: Array, mode: str) -> Array:
    """Which numbers are beyond the largest value after rounding; one that is rounded toward zero stops there."""
    negative, magnitude = np.signbit(values), np.minimum(np.abs(np.nan_to_num(values, nan=0)), 2.0**300)
    down = (mode == "rtz") | ((mode == "rtn") & ~negative) | ((mode == "rtp") & negative)
    beyond = (round_magnitude(c, magnitude, negative, mode) > largest(c.element)) & ~down
    return (beyond | np.isinf(values)) & ~np.isnan(values)


def own_code(c: Context, values: Array) -> Array:
    """The format's infinity, or its NaN, with the sign of the number; saturated where it has neither."""
    f = c.element
    code = f.inf_code if f.inf_code is not None else f.nan_code if f.nan_code is not None else f.max_code
    return join_sign(c, np.full(np.shape(values), code), np.signbit(values))


def find_tensor_amax(c: Context, x: Array) -> np.float32:
    """The largest magnitude of a tensor; NaN if there is one."""
    return np.float32(np.abs(x).max())


def find_tensor_scale(c: Context, amax: np.float32) -> np.float32:
    """The tensor scale in the profile's own kind."""
    return amax if c.profile == "nvfp4-te" else encode_scale_of(c, amax)


#: The steps by name.
STEPS: Mapping[str, Step] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            load, find_amax, find_exponent, store_exponent, store_special, use_scale, divide, round_magnitude, saturate,
            code_magnitude, join_sign, code_nan, finish, find_encode_scale, scale_ratio, store_ratio, find_factor, multiply,
            decode_element, decode_scale, combine, encode_e8m0, decode_e8m0, read_words, round_stochastic, overflows, own_code, find_tensor_amax,
            find_tensor_scale,
        )
    }
)  # fmt: skip


class Reference(Staged):
    """A target: the steps above, some of them replaced.

    profile: for one block format, or several that share the profile.
    """

    #: Random bits of a word.
    SR_BITS = 32
    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(
        self, profile: str = "mx-floor", *, name: str = "plain", change: Mapping[str, Step] = NOTHING, wrap: Mapping[str, Wrap] = NOTHING
    ) -> None:  # fmt: skip
        super().__init__(name, STEPS, change, wrap)
        self.profile = profile
        self.FORMATS = ["nvfp4"] if profile.startswith("nvfp4") else [f for f in BLOCKS if f != "nvfp4"]
        self.ELEMENTS = [*ELEMENTS, *SCALES]
        self.TENSOR_SCALE = "amax" if profile == "nvfp4-te" else "encode"

    def _do(self, step: str, *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return self._steps[step](*args)

    # The interface of targets.

    def quantize(
        self, x: Any, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False,
        block: tuple[int, int] | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Codes and scales."""
        f, c = BLOCKS[fmt], self._context(fmt, tensor_scale)
        values = np.moveaxis(np.asarray(x).astype(np.float32), axis, -1)
        if pad:
            values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % f.k)])
        square = block is not None and block[0] > 1
        if square and pad:
            values = np.pad(values, [(0, -values.shape[0] % 16), (0, 0)])
        rows = self._do("load", c, np.ascontiguousarray(values).reshape(-1, f.k))
        amax = self._do("find_amax", c, rows)
        if square:
            amax = self._tile_maxima(amax, values.shape, f.k)
        codes, scales = self._quantize_blocks(c, rows, amax)
        shape = (*values.shape[:-1], values.shape[-1] // f.k)
        return (
            np.moveaxis(codes.astype(np.uint8).reshape(values.shape), -1, axis),
            np.moveaxis(scales.astype(np.uint8).reshape(shape), -1, axis),
        )

    def _tile_maxima(self, amax: Array, shape: tuple[int, ...], k: int) -> Array:
        tiles = amax.reshape(-1, 16, shape[-1] // k)
        return np.broadcast_to(tiles.max(axis=1, keepdims=True), tiles.shape).reshape(-1)

    def _quantize_blocks(self, c: Context, x: Array, amax: Array) -> Any:
        if c.block.has_tensor_scale:
            stored = self._do("store_ratio", c, self._do("scale_ratio", c, amax))
            scale = self._do("decode_scale", c, stored).astype(np.float32)
            factor = self._do("find_factor", c, scale, amax)
            scaled = self._do("multiply", c, x, factor).astype(np.float64)
        else:
            ordinary = np.isfinite(amax) & (amax > 0)
            exponent = self._do("find_exponent", c, np.where(ordinary, amax, 1).astype(np.float64))
            stored = self._do("store_special", c, self._do("store_exponent", c, exponent), amax)
            scaled = self._do("divide", c, x, self._do("use_scale", c, stored, amax))
        codes = self._encode(c, scaled, x, "rne")
        if c.block.has_tensor_scale:
            return codes, stored
        return self._do("finish", c, codes, stored, x)

    def _context(self, fmt: str, tensor_scale: float | None) -> Context:
        f = BLOCKS[fmt]
        c = Context(f.element, f, self.profile, None if tensor_scale is None else np.float32(tensor_scale))
        return replace(c, S=self._do("find_encode_scale", c))

    def _encode(self, c: Context, scaled: Array, x: Array, mode: str) -> Array:
        magnitude = np.where(np.isnan(scaled), 0, np.minimum(np.abs(scaled), 2.0**300))
        negative = np.signbit(scaled)
        rounded = self._do("round_magnitude", c, magnitude, negative, mode)
        value = self._do("saturate", c, rounded, magnitude)
        codes = self._do("join_sign", c, self._do("code_magnitude", c, value), negative)
        return self._do("code_nan", c, codes, x, scaled)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values."""
        f, c = BLOCKS[fmt], self._context(fmt, tensor_scale)
        values = self._do("decode_element", c, np.asarray(codes))
        wide = np.repeat(self._do("decode_scale", c, np.asarray(scales)), f.k, axis=-1)
        return self._do("combine", c, values, wide).astype(np.float32)

    def encode(self, x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
        """Codes of single numbers."""
        f = {**ELEMENTS, **SCALES}[element]
        c = Context(f, None, self.profile)
        values = np.asarray(x).astype(np.float64)
        if f is E8M0:
            return self._do("encode_e8m0", c, np.abs(values), rounding, overflow == "own").astype(np.uint8)
        values = values if f.signed else np.abs(values)
        codes = self._encode(c, values, np.asarray(x), rounding)
        if overflow == "own":
            codes = np.where(self._do("overflows", c, values, rounding), self._do("own_code", c, values), codes)
        return codes.astype(np.uint8)

    def decode(self, codes: Any, element: str) -> Any:
        """Values of single codes."""
        f = {**ELEMENTS, **SCALES}[element]
        step = "decode_e8m0" if f is E8M0 else "decode_element"
        return self._do(step, Context(f, None, self.profile), np.asarray(codes)).astype(np.float32)

    def encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        """Codes by the integer rule."""
        c = Context(ELEMENTS[element], None, self.profile)
        values, words = (np.asarray(x).astype(np.float64), self._do("read_words", c, np.asarray(random_bits), self.SR_BITS))
        magnitude = np.where(np.isnan(values), 0, np.minimum(np.abs(values), 2.0**300))
        rounded = self._do("saturate", c, self._do("round_stochastic", c, magnitude, words), magnitude)
        codes = self._do("join_sign", c, self._do("code_magnitude", c, rounded), np.signbit(values))
        return self._do("code_nan", c, codes, np.asarray(x), values).astype(np.uint8)

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The tensor scale in the profile's own kind."""
        c = Context(BLOCKS[fmt].element, BLOCKS[fmt], self.profile)
        return float(self._do("find_tensor_scale", c, self._do("find_tensor_amax", c, np.asarray(x, np.float32))))
