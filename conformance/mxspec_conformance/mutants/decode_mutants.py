"""Mutants of decoding: what element codes and scale bytes mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxspec.formats import E2M3, E3M2, E4M3
from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_conformance.mutants.rounding_mutants import FLOATS, FP4
from mxspec_conformance.mutants.schema import Family, Mutant
from mxspec_conformance.mutants.staged import Step

MX = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8")
FP6 = ("mxfp6_e2m3", "mxfp6_e3m2")
FP8 = ("mxfp8_e4m3", "mxfp8_e5m2")


def fields(c: Context, codes: Array) -> tuple[Array, Array, Array]:
    """Whether negative, exponent field, fraction."""
    f, codes = c.element, codes.astype(np.int64)
    magnitude = codes & (f.sign_bit - 1)
    return (codes & f.sign_bit) != 0, magnitude >> f.mantissa_bits, magnitude & ((1 << f.mantissa_bits) - 1)


def where(condition: Callable[[Context, Array], Array], value: Callable[[Context, Array], Any] | float) -> Step:
    """Some codes decode as something else; a positive number keeps the code's sign."""

    def step(c: Context, codes: Array) -> Array:
        right = reference.decode_element(c, codes)
        if callable(value):
            return np.where(condition(c, codes), value(c, codes), right)
        negative = (codes & c.element.sign_bit) != 0
        return np.where(condition(c, codes), np.where(negative, -value, value), right)

    return step


def as_table(*values: float) -> Step:
    """e2m1 codes through another table."""
    table = np.array([*values, *(-v for v in values)])
    return lambda c, codes: table[codes.astype(np.intp)]


def as_format(other: Any) -> Step:
    """Codes read in another format."""
    return lambda c, codes: reference.decode_element(Context(other if not callable(other) else other(c), None, c.profile), codes)


def as_normal(c: Context, codes: Array) -> Array:
    negative, field, fraction = fields(c, codes)
    value = np.ldexp(1 + fraction / (1 << c.element.mantissa_bits), field - c.element.bias)
    return np.where(negative, -value, value)


def subnormal(c: Context, codes: Array) -> Array:
    _, field, fraction = fields(c, codes)
    return (field == 0) & (fraction != 0)


def magnitudes(*codes: int) -> Callable[[Context, Array], Array]:
    """Codes with one of these magnitude codes."""
    return lambda c, given: np.isin(given & (c.element.sign_bit - 1), codes)


def exactly(*codes: int) -> Callable[[Context, Array], Array]:
    """One of these codes."""
    return lambda c, given: np.isin(given, codes)


def scaled(factor: float) -> Step:
    """All values off by a factor."""
    return lambda c, codes: reference.decode_element(c, codes) * factor


def no_sign(c: Context, codes: Array) -> Array:
    value = reference.decode_element(c, codes)
    return np.where(value == 0, 0.0, value)


# Scale bytes of the MX formats.


def byte(*codes: int) -> Callable[[Array], Array]:
    """One of these bytes."""
    return lambda stored: np.isin(stored, codes)


def scale_where(condition: Callable[[Array], Array], value: float) -> Step:
    """Some bytes mean something else."""
    return lambda c, stored: np.where(condition(stored), value, reference.decode_scale(c, stored))


def scale_as(make: Callable[[Array], Any]) -> Step:
    """All bytes mean something else."""
    return lambda c, stored: make(stored.astype(np.int64))


def in_float16(c: Context, stored: Array) -> Array:
    return reference.decode_scale(c, stored).astype(np.float16).astype(np.float64)


_D, _E, _I = Family.DECODE, Family.E8M0, Family.INT8
_DQ = ("dequantize",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(id="exponent-0-as-normal", source="P10", family=_D, formats=FP4, operations=_DQ, what="exponent field 0 decodes as a normal: 0 as 0.5, 1 as 0.75", change={"decode_element": where(lambda c, codes: fields(c, codes)[1] == 0, as_normal)}),
    Mutant(id="e4m3-7f-is-480", source="P11", family=_D, formats=("mxfp8_e4m3",), operations=_DQ, what="7F and FF decode as 480", change={"decode_element": where(magnitudes(0x7F), 480.0)}),
    Mutant(id="doubled-table", source="P12", family=_D, formats=FP4, operations=_DQ, what="a doubled table is used, the scale not halved", change={"decode_element": scaled(2)}),
    Mutant(id="negative-zero-lost", source="P13", family=_D, formats=FLOATS, operations=_DQ, what="negative zero decodes as +0", change={"decode_element": no_sign}),
    Mutant(id="fp8-subnormal-as-normal", source="P14", family=_D, formats=FP8, operations=_DQ, what="subnormals get a leading one", change={"decode_element": where(subnormal, as_normal)}),
    Mutant(id="bitsandbytes-table", source="P15", family=_D, formats=FP4, operations=_DQ, what="bitsandbytes' FP4 order of values", change={"decode_element": as_table(0, 1 / 16, 8, 12, 4, 6, 2, 3)}),
    Mutant(id="fp6-variants-swapped", source="P16", family=_D, formats=FP6, operations=_DQ, what="e2m3 is read as e3m2 and the reverse", change={"decode_element": as_format(lambda c: E3M2 if c.element is E2M3 else E2M3)}),
    Mutant(id="e5m2-nan-is-inf", source="P17", family=_D, formats=("mxfp8_e5m2",), operations=_DQ, what="7D to 7F decode as Inf", change={"decode_element": where(magnitudes(0x7D, 0x7E, 0x7F), np.inf)}),
    Mutant(id="byte-0-is-zero", source="P29", family=_E, formats=MX, operations=_DQ, what="scale byte 00 is 0", change={"decode_scale": scale_where(byte(0), 0.0)}),
    Mutant(id="byte-255-is-inf", source="P30", family=_E, formats=MX, operations=_DQ, what="scale byte FF is +Inf", change={"decode_scale": scale_where(byte(255), np.inf)}),
    Mutant(id="bias-128", source="P31", family=_E, formats=MX, operations=_DQ, what="scales are 2^(byte - 128)", change={"decode_scale": scale_as(lambda b: np.where(b == 255, np.nan, np.ldexp(1.0, b - 128)))}),
    Mutant(id="raw-byte", source="P32", family=_E, formats=MX, operations=_DQ, what="the byte itself is the multiplier", change={"decode_scale": scale_as(lambda b: b.astype(np.float64))}),
    Mutant(id="byte-0-is-min-normal", source="P33", family=_E, formats=MX, operations=_DQ, what="scale byte 00 is 2^-126", change={"decode_scale": scale_where(byte(0), 2.0**-126)}),
    Mutant(id="int8-no-implicit-scale", source="P63", family=_I, formats=("mxint8",), operations=_DQ, what="the implicit 2^-6 is forgotten", change={"decode_element": scaled(64)}),
    Mutant(id="int8-unsigned", source="P65", family=_I, formats=("mxint8",), operations=_DQ, what="codes from 80 on are positive", change={"decode_element": lambda c, codes: codes.astype(np.int64) / 64}),
    Mutant(id="decode-linear-table", source="S0", family=_D, formats=FP4, operations=_DQ, what="codes of e2m1 decode as 0, 0.5, ... 3.5", change={"decode_element": as_table(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5)}),
    Mutant(id="decode-1.5-as-1", source="S1", family=_D, formats=FP4, operations=_DQ, what="e2m1 code 3 decodes as 1", change={"decode_element": as_table(0, 0.5, 1, 1, 2, 3, 4, 6)}),
    Mutant(id="decode-to-3", source="S3", family=_D, formats=FP4, operations=_DQ, what="e2m1 ends at 3", change={"decode_element": as_table(0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3)}),
    Mutant(id="byte-signed-range", source="S1", family=_E, formats=MX, operations=_DQ, what="the top bit of the scale byte is a sign", change={"decode_scale": scale_as(lambda b: np.where(b & 128, -1.0, 1.0) * np.ldexp(1.0, (b & 127) - 63))}),
    Mutant(id="negative-zero-is-nan", source="own", family=_D, formats=("mxfp8_e4m3",), operations=_DQ, what="80 is NaN, as in the fnuz types", change={"decode_element": where(exactly(0x80), np.nan)}),
    Mutant(id="e4m3-bias-8", source="ROCm/triton#330", family=_D, formats=("mxfp8_e4m3",), operations=_DQ, what="the bias of the fnuz type: all values half as large", change={"decode_element": scaled(0.5)}),
    Mutant(id="e4m3-ieee", source="own", family=_D, formats=("mxfp8_e4m3",), operations=_DQ, what="exponent field 15 holds Inf and NaN only", change={"decode_element": where(lambda c, k: (k & 0x78) == 0x78, lambda c, k: np.where(k & 7, np.nan, np.where(k & 128, -np.inf, np.inf)))}),
    Mutant(id="e4m3-ff-is-minus-480", source="own", family=_D, formats=("mxfp8_e4m3",), operations=_DQ, what="only 7F is NaN, FF is -480", change={"decode_element": where(exactly(0xFF), 480.0)}),
    Mutant(id="e5m2-inf-is-nan", source="own", family=_D, formats=("mxfp8_e5m2",), operations=_DQ, what="7C is NaN", change={"decode_element": where(magnitudes(0x7C), np.nan)}),
    Mutant(id="e5m2-finite-top", source="own", family=_D, formats=("mxfp8_e5m2",), operations=_DQ, what="exponent field 31 is a number: 7C decodes as 65536", change={"decode_element": where(lambda c, k: (k & 0x7C) == 0x7C, as_normal)}),
    Mutant(id="e5m2-one-nan", source="own", family=_D, formats=("mxfp8_e5m2",), operations=_DQ, what="only 7F is NaN, 7D and 7E are numbers", change={"decode_element": where(magnitudes(0x7D, 0x7E), as_normal)}),
    Mutant(id="subnormals-decode-to-zero", source="own", family=_D, formats=FLOATS, operations=_DQ, what="subnormal codes decode as 0", change={"decode_element": where(subnormal, 0.0)}),
    Mutant(id="subnormal-exponent-low", source="1bit-MONSTER/1bit-MONSTER#300", family=_D, formats=FLOATS, operations=_DQ, what="subnormals are half as large: exponent -bias instead of 1 - bias", change={"decode_element": where(subnormal, lambda c, k: reference.decode_element(c, k) / 2)}),
    Mutant(id="sign-lost-on-decode", source="own", family=_D, formats=FLOATS, operations=_DQ, what="the sign bit is masked off", change={"decode_element": lambda c, k: reference.decode_element(c, k & (c.element.sign_bit - 1))}),
    Mutant(id="fp6-sign-extended", source="own", family=_D, formats=FP6, operations=_DQ, what="a 6-bit code is taken for two's complement", change={"decode_element": lambda c, k: reference.decode_element(c, np.where(k & 32, 32 | (-k.astype(np.int64) & 31), k))}),
    Mutant(id="e2m3-top-binade-short", source="own", family=_D, formats=("mxfp6_e2m3",), operations=_DQ, what="the last code decodes as the one before it", change={"decode_element": where(magnitudes(0x1F), 7.0)}),
    Mutant(id="e3m2-bias-4", source="own", family=_D, formats=("mxfp6_e3m2",), operations=_DQ, what="bias 4 instead of 3", change={"decode_element": scaled(0.5)}),
    Mutant(id="last-code-8", source="own", family=_D, formats=FP4, operations=_DQ, what="the last code decodes as 8: powers of two above 4", change={"decode_element": where(magnitudes(7), 8.0)}),
    Mutant(id="int8-lowest-clamped", source="own", family=_I, formats=("mxint8",), operations=_DQ, what="80 decodes as -127/64", change={"decode_element": where(exactly(0x80), lambda c, k: -127 / 64)}),
    Mutant(id="int8-lowest-positive", source="own", family=_I, formats=("mxint8",), operations=_DQ, what="80 decodes as +2: its negation overflows", change={"decode_element": where(exactly(0x80), lambda c, k: 2.0)}),
    Mutant(id="int8-sign-magnitude", source="own", family=_I, formats=("mxint8",), operations=_DQ, what="codes are read as sign and magnitude", change={"decode_element": lambda c, k: np.where(k & 128, -1.0, 1.0) * (k & 127).astype(np.float64) / 64}),
    Mutant(id="int8-over-127", source="own", family=_I, formats=("mxint8",), operations=_DQ, what="codes are divided by 127 instead of 64", change={"decode_element": scaled(64 / 127)}),
    Mutant(id="int8-scale-128", source="own", family=_I, formats=("mxint8",), operations=_DQ, what="the implicit scale is 2^-7", change={"decode_element": scaled(0.5)}),
    Mutant(id="byte-255-is-zero", source="own", family=_E, formats=MX, operations=_DQ, what="scale byte FF is 0", change={"decode_scale": scale_where(byte(255), 0.0)}),
    Mutant(id="byte-254-is-inf", source="own", family=_E, formats=MX, operations=_DQ, what="scale byte FE is +Inf", change={"decode_scale": scale_where(byte(254), np.inf)}),
    Mutant(id="byte-254-is-nan", source="own", family=_E, formats=MX, operations=_DQ, what="scale byte FE is NaN", change={"decode_scale": scale_where(byte(254), np.nan)}),
    Mutant(id="byte-0-is-one", source="own", family=_E, formats=MX, operations=_DQ, what="scale byte 00 means that there is no scale", change={"decode_scale": scale_where(byte(0), 1.0)}),
    Mutant(id="byte-as-int8", source="own", family=_E, formats=MX, operations=_DQ, what="the byte is a signed exponent", change={"decode_scale": scale_as(lambda b: np.ldexp(1.0, np.where(b > 127, b - 256, b)))}),
    Mutant(id="scale-in-float16", source="own", family=_E, formats=MX, operations=_DQ, what="scales are held in float16", change={"decode_scale": in_float16}),
    Mutant(id="bias-126", source="own", family=_E, formats=MX, operations=_DQ, what="scales are 2^(byte - 126)", change={"decode_scale": scale_as(lambda b: np.where(b == 255, np.nan, np.ldexp(1.0, b - 126)))}),
    Mutant(id="byte-one-low-flushed", source="own", family=_E, formats=MX, operations=_DQ, what="scale byte 01 is flushed together with 00", change={"decode_scale": scale_where(byte(0, 1), 0.0)}),
    Mutant(id="ue4m3-7f-is-480", source="own", family=Family.NVFP4, formats=("nvfp4",), operations=_DQ, what="block scale 7F is 480", change={"decode_scale": scale_where(byte(0x7F), 480.0)}),
    Mutant(id="ue4m3-subnormal-zero", source="own", family=Family.NVFP4, formats=("nvfp4",), operations=_DQ, what="subnormal block scales decode as 0", change={"decode_scale": scale_where(byte(*range(8)), 0.0)}),
    Mutant(id="ue4m3-as-e5m3", source="own", family=Family.NVFP4, formats=("nvfp4",), operations=_DQ, what="block scales have one exponent bit more", change={"decode_scale": scale_as(lambda b: np.ldexp(1 + (b & 7) / 8, (b >> 3) - 15))}),
    Mutant(id="ue4m3-fnuz", source="own", family=Family.NVFP4, formats=("nvfp4",), operations=_DQ, what="block scales are read with bias 8", change={"decode_scale": scale_as(lambda b: reference.decode_element(Context(E4M3, None, ""), b) / 2)}),
    Mutant(id="ue4m3-byte-00-min", source="own", family=Family.NVFP4, formats=("nvfp4",), operations=_DQ, what="block scale 00 means the smallest one", change={"decode_scale": scale_where(byte(0), 2.0**-9)}),
)  # fmt: skip
