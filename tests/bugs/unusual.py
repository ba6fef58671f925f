"""Targets that are right by unusual means, or in an unusual form."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

import mxspec
from mxspec.formats import BLOCKS
from mxspec.rounding import Rounding

from tests.bugs.building import Answer, Array, make, model, on_blocks, right
from tests.bugs.entry import Entry, Kind


def integers_alone(x: Array, fmt: str) -> Answer:
    """Shifts and comparisons on the bits of float32; no floating-point arithmetic."""
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.int64).reshape(-1, 32)
    sign, magnitude = bits >> 31, bits & 0x7FFFFFFF
    largest = magnitude.max(axis=1, keepdims=True)
    infinite = largest == 0x7F800000
    scale = np.where(infinite, 254, np.maximum((largest >> 23) - 2, 0))
    exponent = magnitude >> 23
    significand = np.where(exponent > 0, magnitude & 0x7FFFFF | 1 << 23, magnitude & 0x7FFFFF)
    # The value over the scale is significand * 2**shift in units of 2**-24 (a half of the smallest element is 2**22).
    shift = np.clip(np.maximum(exponent, 1) - scale + 1, -40, 4)
    fixed = np.where(shift >= 0, significand << np.maximum(shift, 0), significand >> np.maximum(-shift, 0))
    lost = (shift < 0) & ((significand & ((1 << np.maximum(-shift, 0)) - 1)) != 0)
    fixed = fixed << 1 | lost  # a sticky bit below, so that ties differ from what lies just above them
    limits = [(0.25, 0), (0.75, 1), (1.25, 0), (1.75, 1), (2.5, 0), (3.5, 1), (5, 0)]
    code: Any = sum((fixed > int(v * 2**25)) | ((fixed == int(v * 2**25)) & bool(up)) for v, up in limits)
    code = np.where(magnitude == 0x7F800000, 7, code) | sign << 3
    nan = (magnitude > 0x7F800000).any(axis=1, keepdims=True)
    code, scale = np.where(nan, 0, code), np.where(nan, 255, scale)
    return code.astype(np.uint8).reshape(x.shape), scale.astype(np.uint8).reshape(len(x), -1)


def last_block_first(x: Array, fmt: str) -> Answer:
    """One block at a time, from the last to the first, each turned round and back."""
    k = BLOCKS[fmt].k
    if x.shape[1] % k:
        raise ValueError(f"{x.shape[1]} columns are no multiple of {k}")
    codes, scales = np.empty(x.shape, np.uint8), np.empty((len(x), x.shape[1] // k), np.uint8)
    for i in reversed(range(scales.shape[0])):
        for j in reversed(range(scales.shape[1])):
            t = mxspec.quantize(np.ascontiguousarray(x[i, j * k : (j + 1) * k][::-1]), fmt)
            codes[i, j * k : (j + 1) * k], scales[i, j] = t.codes[::-1], t.scales[0]
    return codes, scales


def float64_inside(x: Array, fmt: str) -> Answer:
    """The nearest of a table's values, by differences in float64."""
    wide = x.astype(np.float64)
    largest = np.abs(wide).max(axis=1)
    element = BLOCKS[fmt].element
    exponent = np.where(np.isfinite(largest), np.frexp(largest)[1] - 1, 128)
    scales = np.clip(np.where(largest == 0, -127, exponent - element.emax), -127, 127)
    table = mxspec.decode(np.arange(element.sign_bit, dtype=np.uint8), element).astype(np.float64)
    table = table[np.isfinite(table)]
    quotient = np.abs(wide) * 2.0 ** -scales[:, None]
    upper = np.clip(np.searchsorted(table, quotient), 0, len(table) - 1)
    lower = np.maximum(upper - 1, 0)
    down, up = quotient - table[lower], table[upper] - quotient
    code = np.where((down < up) | ((down == up) & (lower % 2 == 0)), lower, upper)
    code |= np.where(np.signbit(wide), element.sign_bit, 0)
    nan = np.asarray(np.isnan(wide).any(axis=1))
    return np.where(nan[:, None], 0, code).astype(np.uint8), np.where(nan, 255, scales + 127)


def int8_lowest(x: Array, fmt: str) -> Answer:
    """Where a quotient is nearest to -2 the code is 80."""
    codes, scales = model(x, fmt)
    with np.errstate(all="ignore"):
        below = x.astype(np.float64) / 2.0 ** (scales.astype(float)[:, None] - 127) <= -127.5 / 64
    codes[below & (scales < 255)[:, None]] = 0x80
    return codes, scales


def encode_int8_lowest(x: Array, element: str) -> Array:
    return np.where(x <= -127.5 / 64, np.uint8(0x80), mxspec.encode(x, element))


def encode_stochastic_int8_lowest(x: Array, element: str, random_bits: Array) -> Array:
    steps = np.clip(-np.nan_to_num(x).astype(np.float64) * 64, 0, 128)
    up = np.floor((steps - 127) * 2.0**32) + random_bits >= 2.0**32
    codes = mxspec.encode(x, element, rounding="sr", random_bits=random_bits)
    return np.where((steps >= 128) | (up & (steps > 127)), np.uint8(0x80), codes)


def signed_bytes(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    return codes.view(np.int8), scales.view(np.int8)


def read_only_and_strided(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    codes = np.asfortranarray(codes)
    codes.flags.writeable = False
    return codes, np.stack([scales, scales], axis=-1)[..., 0]


def shuffled(x: Array, fmt: str) -> Answer:
    order = np.random.default_rng().permutation(len(x))
    codes, scales = model(x[order], fmt)
    back = np.argsort(order)
    return codes[back], scales[back]


class Stored(NamedTuple):
    """An answer with names."""

    codes: Array
    scales: Array


class Bytes(np.ndarray):
    """An array of another class, which no other process knows."""


def named(x: Array, fmt: str) -> Stored:
    return Stored(*right(x, fmt))


def of_another_class(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    return codes.view(Bytes), scales.view(Bytes)


def masked(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    return np.ma.masked_array(codes), np.ma.masked_array(scales)


class Float8Tensor:
    """What a torch tensor of float8 offers of its interface."""

    def __init__(self, bits: Array, dtype: str) -> None:
        self.bits, self.dtype = bits, dtype

    def detach(self) -> Float8Tensor:
        return self

    def cpu(self) -> Float8Tensor:
        return self

    def view(self, dtype: object) -> Float8Tensor:
        return Float8Tensor(self.bits, "torch.uint8")

    def numpy(self) -> Array:
        if "float8" in self.dtype:
            raise TypeError("Got unsupported ScalarType")
        return self.bits


def packed_along_the_axis(x: Array, fmt: str, axis: int = -1) -> Answer:
    t = mxspec.quantize(x, fmt, axis=axis)
    codes = np.moveaxis(t.codes, axis, -1)
    return np.moveaxis(codes[..., ::2] | codes[..., 1::2] << 4, -1, axis), t.scales


def packed_in_rows(x: Array, fmt: str, axis: int = -1) -> Answer:
    t = mxspec.quantize(x, fmt, axis=axis)
    codes = np.pad(t.codes, [(0, 0)] * (t.codes.ndim - 1) + [(0, t.codes.shape[-1] % 2)])
    return codes[..., ::2] | codes[..., 1::2] << 4, t.scales


def values_in(dtype: str) -> Any:
    """`dequantize` whose values are rounded once to a shorter dtype."""

    def dequantize(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
        scale = None if tensor_scale is None else mxspec.TensorScale.from_float("amax", tensor_scale)
        with np.errstate(all="ignore"):
            return mxspec.dequantize(codes, scales, fmt, tensor_scale=scale).astype(dtype)

    return dequantize


def e8m0_by(rounding: Rounding) -> Any:
    """`encode` to E8M0 in one rounding."""
    return lambda x, element: mxspec.encode(np.abs(x), element, rounding=rounding)


def by_rule(profile: str) -> Entry:
    """The scale rule is only recommended: each of the others is right too."""
    return Entry(
        id=f"scales by {profile}", what=f"the scale rule of {profile}, where OCP MX recommends another", formats=("mxfp4", "mxfp8_e5m2"),
        target=lambda: make(["mxfp4", "mxfp8_e5m2"], quantize=on_blocks(lambda x, fmt: model(x, fmt, profile))),
        kind=Kind.UNUSUAL, nearest=profile,
    )  # fmt: skip


def _entry(id_: str, what: str, *formats: str, **members: Any) -> Entry:
    return Entry(id=id_, what=what, formats=formats, target=lambda: make(formats, **members), kind=Kind.UNUSUAL)


ENTRIES: tuple[Entry, ...] = (
    Entry(
        id="integers alone", what="no floating-point arithmetic, and no functions on single numbers", formats=("mxfp4",),
        target=lambda: make(["mxfp4"], ELEMENTS=[], quantize=integers_alone), kind=Kind.UNUSUAL,
    ),
    _entry("from the last block to the first", "one block at a time, each turned round and back", "mxfp4", quantize=last_block_first),
    _entry("float64 inside", "the nearest table value, by differences in float64", "mxfp4", "mxfp8_e5m2", quantize=on_blocks(float64_inside)),
    _entry(
        "int8 down to 80", "what is nearest to -2 gets the code of -2", "mxint8",
        quantize=on_blocks(int8_lowest), encode=encode_int8_lowest, encode_stochastic=encode_stochastic_int8_lowest,
    ),
    _entry("signed bytes", "codes and scales are int8", "mxfp4", quantize=signed_bytes),
    _entry("read-only and strided answers", "codes are read-only, scales strided", "mxfp4", quantize=read_only_and_strided),
    _entry("a named tuple", "codes and scales in a named tuple", "mxfp4", quantize=named),
    _entry("a subclass of array", "arrays of a class that the target defines", "mxfp4", quantize=of_another_class),
    _entry("masked arrays", "arrays with a mask that hides nothing", "mxfp4", quantize=masked),
    _entry("packed along the axis", "two codes to a byte, paired along the axis that is quantized", "mxfp4", LAYOUT="nibble-low", quantize=packed_along_the_axis),
    _entry("packed in rows", "two codes to a byte, paired along the last axis, which may end in half a byte", "mxfp4", LAYOUT="nibble-low", quantize=packed_in_rows),
    *(
        _entry(f"values in {dtype}", f"dequantize returns {dtype}, rounded once", "nvfp4", "mxfp8_e4m3", TENSOR_SCALE="amax", dequantize=values_in(dtype))
        for dtype in ("bfloat16", "float16")
    ),
    *(
        Entry(
            id=f"E8M0 by {rounding}", what="numbers are converted to E8M0 in another rounding than nearest even", formats=("e8m0",), kind=Kind.UNUSUAL,
            target=partial(make, ["mxfp4"], ELEMENTS=["e8m0"], encode=e8m0_by(rounding)),
        )
        for rounding in (Rounding.RTP, Rounding.RTZ, Rounding.RNA)
    ),
    *(by_rule(profile) for profile in ("mx-rceil", "mx-even", "mx-ceil")),
    _entry("blocks shuffled and put back", "the order of blocks is random inside", "mxfp6_e2m3", quantize=on_blocks(shuffled)),
)  # fmt: skip
