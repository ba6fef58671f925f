"""Rows of a cache: the numbers that they hold, exactly, and every way in which a contract lets numbers become rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.attention.formats import RowFormat, Scaling
from mxspec.blocks import quantize
from mxspec.elements import decode, encode
from mxspec.formats import get_scalar
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import Kind, TensorScaleKind
from mxspec.tensorscale import TensorScale

Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]
#: (numbers [rows, d] in float32, the given scale) -> rows.
Quantizer = Callable[[npt.NDArray[np.float32], np.float32], npt.NDArray[Any]]


def join_rows(codes: Bytes, scales: npt.NDArray[Any], fmt: RowFormat) -> Bytes:
    """Rows [..., width] of codes [..., d], one to a byte, and of scales: bytes [..., d / k], float32 [..., 1], or none [..., 0]."""
    if fmt.bits == 4:
        codes = codes[..., ::2] | codes[..., 1::2] << np.uint8(4)
    return np.concatenate([codes, np.ascontiguousarray(scales).view(np.uint8)], -1)


def split_rows(rows: npt.NDArray[Any], fmt: RowFormat) -> tuple[Bytes, Bytes]:
    """Codes [..., d], one to a byte, and the bytes of the scales."""
    d = fmt.columns(rows.shape[-1])
    codes, scales = rows[..., : fmt.count_codes(d)], rows[..., fmt.count_codes(d) :]
    if fmt.bits == 4:
        codes = np.stack([codes & 15, codes >> 4], -1).reshape(*rows.shape[:-1], d)
    return codes, scales


def decode_rows(rows: npt.NDArray[Any], fmt: RowFormat, scale: npt.ArrayLike = 1.0) -> Doubles:
    """The numbers of rows [..., heads, width]: exact, as a code has 8 bits and both scales together at most 28.

    Args:
        rows: As a kernel has them.
        fmt: Their format.
        scale: The given scale: one number, or one for each head.

    Returns:
        float64 [..., heads, d].
    """
    if fmt.scaling is Scaling.NONE:
        return rows.astype(np.float64)
    codes, scales = split_rows(rows, fmt)
    values = _decode_codes(codes, fmt)
    with np.errstate(invalid="ignore", over="ignore"):
        if fmt.block is not None:
            values = values * np.repeat(decode(scales, fmt.block.scale).astype(np.float64), fmt.block.k, -1)
        elif fmt.scaling is Scaling.TOKEN:
            values = values * np.ascontiguousarray(scales).view(np.float32).astype(np.float64)
        if fmt.takes_scale:
            values = values * np.asarray(scale, np.float32).astype(np.float64).reshape(-1, 1)
    return values


def _decode_codes(codes: Bytes, fmt: RowFormat) -> Doubles:
    if fmt.element == "int8" and fmt.block is None:  # whole numbers, where MXINT8 has multiples of 1/64
        return np.ascontiguousarray(codes).view(np.int8).astype(np.float64)
    return decode(codes, fmt.element).astype(np.float64)


def largest(fmt: RowFormat) -> float:
    """The largest number of a code."""
    return 127.0 if fmt.element == "int8" and fmt.block is None else float(get_scalar(fmt.element).max_value)


def quantize_heads(x: npt.NDArray[np.float32], quantizer: Quantizer, scale: npt.ArrayLike) -> npt.NDArray[Any]:
    """The rows that a quantizer makes of numbers [tokens, heads, d]; scale: one, or one for each head."""
    scales = np.broadcast_to(np.asarray(scale, np.float32).reshape(-1), x.shape[1])
    return np.stack([quantizer(x[:, head], scales[head]) for head in range(x.shape[1])], 1)


def list_quantizers(fmt: RowFormat, least: float = 0) -> Iterator[tuple[str, Quantizer]]:
    """(name, quantizer) for each rule that a contract leaves open. least: what the scale of a token is at least; no contract has one.

    Of blocks these are the profiles, the default and the normative ones first. FP8 under a given scale divides by it, or multiplies
    by its reciprocal, in float32 or in the dtype of the numbers. A scale of a token is the largest magnitude over that of the format.
    """
    if fmt.scaling is Scaling.NONE:
        yield "rounded to nearest", lambda x, _: x.astype(fmt.dtype)
    elif fmt.block is not None:
        for profile in sorted(list_profiles(fmt.name), key=lambda p: p.kind is not Kind.NORMATIVE):
            yield profile.id, partial(_quantize_blocks, fmt, profile.id)
    else:
        for name, divide in _DIVIDE.items():
            if fmt.scaling is Scaling.GIVEN:
                yield name, partial(_quantize_given, fmt, divide)
                continue
            for of_scale, find in _SCALES.items():
                for rounding in ("rne", "rna") if fmt.element == "int8" else ("rne",):
                    yield f"{name}, {of_scale}, {rounding}", partial(_quantize_tokens, fmt, divide, find, rounding, np.float32(least))


def _divide_narrow(x: Any, scale: Any, *, by_reciprocal: bool, dtype: Any) -> Any:
    """In 16 bits: both sides and the result are rounded."""
    of = (np.float32(1) / scale if by_reciprocal else np.asarray(scale)).astype(dtype)
    return (x.astype(dtype) * of if by_reciprocal else x.astype(dtype) / of).astype(np.float32)


#: How numbers are divided by a scale.
_DIVIDE: dict[str, Callable[[Any, Any], Any]] = {
    "divided by the scale": lambda x, scale: x / scale,
    "times the reciprocal of the scale": lambda x, scale: x * (np.float32(1) / scale),
    "divided in bfloat16": partial(_divide_narrow, by_reciprocal=False, dtype=ml_dtypes.bfloat16),
    "times the reciprocal in bfloat16": partial(_divide_narrow, by_reciprocal=True, dtype=ml_dtypes.bfloat16),
    "divided in float16": partial(_divide_narrow, by_reciprocal=False, dtype=np.float16),
    "times the reciprocal in float16": partial(_divide_narrow, by_reciprocal=True, dtype=np.float16),
}  # fmt: skip
#: The scale of a token.
_SCALES: dict[str, Callable[[Any, np.float32], Any]] = {
    "scale amax / max": lambda amax, most: amax / most,
    "scale amax * (1 / max)": lambda amax, most: amax * (np.float32(1) / most),
}


def _quantize_given(fmt: RowFormat, divide: Any, x: Any, scale: np.float32) -> Bytes:
    with np.errstate(all="ignore"):
        return encode(divide(x, scale), fmt.element)


def _quantize_tokens(fmt: RowFormat, divide: Any, find: Any, rounding: str, least: np.float32, x: Any, _: np.float32) -> Bytes:
    scales = np.maximum(find(np.abs(x).max(-1, keepdims=True), np.float32(largest(fmt))), least)
    with np.errstate(all="ignore"):
        quotient = np.where(scales == 0, np.float32(0), divide(x, scales))
    if fmt.element != "int8":
        return join_rows(encode(quotient, fmt.element), scales, fmt)
    whole = np.rint(quotient) if rounding == "rne" else np.copysign(np.floor(np.abs(quotient) + 0.5), quotient)
    return join_rows(np.clip(whole, -127, 127).astype(np.int8).view(np.uint8), scales, fmt)


def _quantize_blocks(fmt: RowFormat, profile: str, x: Any, scale: np.float32) -> Bytes:
    """Raises ValueError where the profile does not take the scale."""
    options: dict[str, Any] = {}
    if fmt.takes_scale:
        options = {"tensor_scale": TensorScale.from_float(TensorScaleKind.DECODE, float(scale)), "convert": True}
    found = quantize(np.ascontiguousarray(x), fmt.name, profile=profile, **options)
    return join_rows(found.codes, found.scales, fmt)
