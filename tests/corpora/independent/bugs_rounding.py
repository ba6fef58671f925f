"""Bugs in rounding one element: sticky bits, thresholds, carries, intermediates, signs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpora.independent.catalogue import Bug, Stage
from tests.corpora.independent.implementation import BLOCKS, bits_of, float_of

Array = Any
FORMATS = tuple(BLOCKS)


def profile_of(fmt: str) -> str:
    """The profile that these bugs are put into."""
    return "nvfp4-te" if fmt == "nvfp4" else "mx-floor"


def is_element(e: Any) -> bool:
    """Elements only: the scale of NVFP4 goes through the same stages."""
    return bool(e.name != "ue4m3")


def lose_sticky(bit: int) -> Stage:
    """The mask of the sticky bits lacks one: a number that is a tie but for this bit looks like a tie."""

    def split(right: Stage, v: Array, t: Array, e: Any) -> Any:
        q, r = right(v, t, e)
        return q, np.where((r == 0.5 + 2.0**-bit) & is_element(e), 0.5, r)

    return split


def cut_rest(depth: int) -> Stage:
    """Bits of the rest below a depth are shifted out before anybody looks."""

    def split(right: Stage, v: Array, t: Array, e: Any) -> Any:
        q, r = right(v, t, e)
        return q, np.where(is_element(e), np.floor(r * 2.0**depth) / 2.0**depth, r)

    return split


def through(dtype: Any) -> Stage:
    """The quotient is rounded to a narrower type first."""

    def encode(right: Stage, x: Array, e: Any, rounding: str = "rne", overflow: str = "saturate") -> Any:
        if not is_element(e):
            return right(x, e, rounding, overflow)
        with np.errstate(all="ignore"):
            narrow = np.asarray(x, np.float32).astype(dtype).astype(np.float32)
        return right(narrow, e, rounding, overflow)

    return encode


def drop_bits(count: int) -> Stage:
    """The quotient's lowest float32 bits are cut off first (tf32 and the like)."""

    def encode(right: Stage, x: Array, e: Any, rounding: str = "rne", overflow: str = "saturate") -> Any:
        cut = float_of(bits_of(x) & ~((1 << count) - 1)).reshape(np.shape(x))
        return right(cut if is_element(e) else x, e, rounding, overflow)

    return encode


def move(value: float, code: int) -> Stage:
    """One number, and no other, gets another code."""

    def encode(right: Stage, x: Array, e: Any, rounding: str = "rne", overflow: str = "saturate") -> Any:
        codes = right(x, e, rounding, overflow)
        return np.where((np.asarray(x, np.float64) == value) & is_element(e), np.uint8(code), codes)

    return encode


def next_up(value: float, ulps: int) -> float:
    """A float32 some steps away in magnitude."""
    return float(np.copysign(float_of(bits_of(abs(value)) + ulps), value)[0])


def _sticky() -> Iterator[Bug]:
    for fmt in FORMATS:
        for bit in (2, 4, 7, 11, 14, 16, 18):
            yield Bug(
                f"sticky-lacks-{bit}", f"mask of the sticky bits lacks bit {bit} below the kept ones", "quantize", fmt,
                profile_of(fmt), {"split": lose_sticky(bit)},
            )  # fmt: skip
    for element in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "ue4m3"):
        for bit in (3, 6, 12, 15, 22):
            yield Bug(
                f"sticky-lacks-{bit}", f"mask of the sticky bits lacks bit {bit} below the kept ones", "encode", element,
                "", {"split": lose_every(bit)},
            )  # fmt: skip
    for fmt, depth in (("mxfp4", 21), ("mxfp6_e2m3", 19), ("mxfp6_e3m2", 20), ("mxfp8_e4m3", 19), ("mxfp8_e5m2", 20),
                       ("mxint8", 16), ("nvfp4", 21), ("mxfp8_e5m2", 22), ("mxfp4", 23), ("mxint8", 22)):  # fmt: skip
        yield Bug(
            f"rest-of-{depth}-bits", f"the shifter keeps {depth} bits below the code; the sticky of the rest is dropped",
            "quantize", fmt, profile_of(fmt), {"split": cut_rest(depth)},
        )  # fmt: skip


def lose_every(bit: int) -> Stage:
    """As `lose_sticky`, in scales too."""

    def split(right: Stage, v: Array, t: Array, e: Any) -> Any:
        q, r = right(v, t, e)
        return q, np.where(r == 0.5 + 2.0**-bit, 0.5, r)

    return split


def _intermediates() -> Iterator[Bug]:
    for fmt in FORMATS:
        yield Bug("quotient-bf16", "the quotient passes through bfloat16", "quantize", fmt, profile_of(fmt),
                  {"encode_value": through(ml_dtypes.bfloat16)})  # fmt: skip
        yield Bug("quotient-fp16", "the quotient passes through float16", "quantize", fmt, profile_of(fmt),
                  {"encode_value": through(np.float16)})  # fmt: skip
        yield Bug("quotient-one-bit-short", "an internal format of 23 bits cuts the last bit off", "quantize", fmt,
                  profile_of(fmt), {"encode_value": drop_bits(1)})  # fmt: skip
        yield Bug("quotient-tf32", "the quotient is cut to tf32", "quantize", fmt, profile_of(fmt),
                  {"encode_value": drop_bits(13)})  # fmt: skip


def _thresholds() -> Iterator[Bug]:
    rows = (
        ("mxfp4", 2.5, 1, 4, "2.5 and one ulp still goes down"), ("mxfp4", -5.0, 1, 0xE, "as for +5, on one sign"),
        ("mxfp4", 0.25, 1, 0, "the smallest tie compares with <= of the next float"),
        ("mxfp4", 1.75, -1, 4, "constant of the comparison rounded down by one ulp"),
        ("mxfp6_e2m3", 0.0625, 1, 0, "lowest threshold"), ("mxfp6_e3m2", -26.0, 0, 0x3F, "one tie away from zero"),
        ("mxfp8_e4m3", 2.0**-10, 1, 0, "half the smallest subnormal and one ulp is flushed"),
        ("mxfp8_e4m3", -3 * 2.0**-10, 0, 0x81, "one subnormal tie goes toward zero"),
        ("mxfp8_e5m2", 7 * 2.0**-17, 0, 3, "the carry from subnormals to normals is lost at its tie"),
        ("mxfp8_e5m2", 57344.0, 1, 0x7F, "one above the largest value"), ("mxint8", 126.5 / 64, 0, 0x7F, "last tie up"),
        ("mxint8", -0.5 / 64, 0, 0xFF, "half a step goes to -1"), ("nvfp4", 3.5, 0, 5, "one tie toward zero"),
        ("nvfp4", -1.25, -1, 0xB, "one ulp below a tie"),
    )  # fmt: skip
    for fmt, tie, ulps, code, story in rows:
        yield Bug(f"threshold-{tie:g}-{ulps}", story, "quantize", fmt, profile_of(fmt),
                  {"encode_value": move(next_up(tie, ulps), code)})  # fmt: skip
    for element, value, code in (("e4m3", 464.0, 0x7D), ("e4m3", -0.0, 0x00), ("e5m2", 61440.0, 0x7A),
                                 ("e2m3", 7.25, 0x1D), ("e3m2", -0.03125, 0x21), ("int8", 1.9921875, 0x80),
                                 ("e2m1", 2.0**-149, 1), ("e8m0", 3.0, 0x80), ("ue4m3", 2.0**-10, 1)):  # fmt: skip
        yield Bug(f"number-{value:g}", "one entry of a threshold table is wrong", "encode", element, "",
                  {"encode_value": move_any(value, code)})  # fmt: skip


def move_any(value: float, code: int) -> Stage:
    """As `move`, in scales too."""

    def encode(right: Stage, x: Array, e: Any, rounding: str = "rne", overflow: str = "saturate") -> Any:
        x64 = np.asarray(x, np.float64)
        hit = (x64 == value) & (np.signbit(x64) == np.signbit(value))
        return np.where(hit, np.uint8(code), right(x, e, rounding, overflow))

    return encode


def _one_lut_entry(index: int) -> Stage:
    """A table indexed by the upper 12 bits (sign, exponent, 3 bits) has a wrong entry for inputs with zeros below."""

    def encode(right: Stage, x: Array, e: Any, rounding: str = "rne", overflow: str = "saturate") -> Any:
        codes = right(x, e, rounding, overflow)
        hit = (bits_of(x).reshape(np.shape(x)) == index << 20) & is_element(e)
        return np.where(hit, codes ^ 1, codes)

    return encode


def carry_lost(right: Stage, q: Array, up: Array, t: Array, e: Any) -> Any:
    """A mantissa that rounds over goes to zero without a new exponent, in the topmost binade but one."""
    m = right(q, up, t, e)
    lost = up & ((q + 1) == 2 << e.mantissa) & (t == e.emin + 1) & is_element(e)
    return np.where(lost, m - (1 << e.mantissa), m)


def subnormal_carry_lost(right: Stage, q: Array, up: Array, t: Array, e: Any) -> Any:
    """A subnormal that rounds up to the smallest normal number stays the largest subnormal."""
    m = right(q, up, t, e)
    return np.where(up & (m == 1 << e.mantissa) & is_element(e), m - 1, m)


def shift_modulo_32(right: Stage, v: Array, t: Array, e: Any) -> Any:
    """The shift of a tiny subnormal is taken modulo 32, as x86 and old GPUs do: it comes out large again."""
    exponent = np.frexp(v)[1] - 1
    far = (v > 0) & (e.emin - exponent + 23 - e.mantissa >= 32) & is_element(e)
    return right(np.where(far, v * 2.0**32, v), t, e)


def zero_of_tiny(right: Stage, m: Array, negative: Array, e: Any) -> Any:
    """Underflow loses the sign."""
    return right(m, negative & ((m != 0) | (not is_element(e))), e)


def _logic() -> Iterator[Bug]:
    for fmt in FORMATS:
        yield Bug("carry-lost", "carry into the exponent lost in one binade", "quantize", fmt, profile_of(fmt),
                  {"carry": carry_lost})  # fmt: skip
        if fmt != "mxint8":
            yield Bug("subnormal-carry-lost", "carry from subnormal to normal lost", "quantize", fmt, profile_of(fmt),
                      {"carry": subnormal_carry_lost})  # fmt: skip
        yield Bug("shift-modulo-32", "shift counts wrap at 32 for tiny lanes", "quantize", fmt, profile_of(fmt),
                  {"split": shift_modulo_32})  # fmt: skip
        for index in (0x402, 0xBE9, 0x3D0):
            yield Bug(f"lut-{index:03x}", f"entry {index:03x} of a table by the upper 12 bits is wrong", "quantize", fmt,
                      profile_of(fmt), {"encode_value": _one_lut_entry(index)})  # fmt: skip
    for element in ("e2m1", "e4m3", "e5m2", "int8"):
        yield Bug("shift-modulo-32", "shift counts wrap at 32 for tiny numbers", "encode", element, "",
                  {"split": shift_modulo_32})  # fmt: skip
        for index in (0x402, 0xBE9, 0x3D0, 0x430, 0x7F0):
            yield Bug(f"lut-{index:03x}", f"entry {index:03x} of a table by the upper 12 bits is wrong", "encode",
                      element, "", {"encode_value": _one_lut_entry(index)})  # fmt: skip
    for fmt in ("mxfp4", "mxfp8_e5m2", "nvfp4"):
        yield Bug("underflow-sign", "what rounds to zero loses its sign", "quantize", fmt, profile_of(fmt),
                  {"join": zero_of_tiny})  # fmt: skip
    for rounding in ("rtz", "rtn", "rtp", "rnz", "rna", "rnu"):
        for element in ("e2m1", "e4m3"):
            yield Bug(f"{rounding}-drops-sticky-10", f"{rounding} looks at 10 bits below the code only", "encode", element,
                      "", {"split": directed_cut(10)})  # fmt: skip


def directed_cut(depth: int) -> Stage:
    """As `cut_rest`, for single numbers."""

    def split(right: Stage, v: Array, t: Array, e: Any) -> Any:
        q, r = right(v, t, e)
        return q, np.floor(r * 2.0**depth) / 2.0**depth

    return split


BUGS = tuple(bug for make in (_sticky, _intermediates, _thresholds, _logic) for bug in make())
