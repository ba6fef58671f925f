"""Mistakes with affine integers that have a name: what a stored tensor would be, or would mean, under each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import AffineFormat, Offset

Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """Codes [rows, groups, g], scales and offsets [rows, groups]."""

    codes: Values
    scales: Values
    offsets: Values


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake."""

    words: str
    #: What is stored, or read, in place of what is right; None where the format has no such thing.
    make: Callable[[Stored, AffineFormat], Stored | None]


def list_mistakes(right: Stored, fmt: AffineFormat) -> Iterator[tuple[str, Stored]]:
    """(the mistake in words, what is stored under it), of those that change something."""
    for mistake in MISTAKES:
        made = mistake.make(right, fmt)
        if made is not None and any(
            _bits(a).tobytes() != _bits(b).tobytes()
            for a, b in ((made.codes, right.codes), (made.scales, right.scales), (made.offsets, right.offsets))
        ):
            yield mistake.words, made


def _bits(a: Values) -> Values:
    return np.ascontiguousarray(a).view(np.uint8)


def _along_row(a: Values, by: int) -> Values:
    return np.roll(a, by, axis=1)


def _along_all(a: Values, by: int) -> Values:
    return np.roll(a.reshape(-1), by).reshape(a.shape)


def _swap(right: Stored, fmt: AffineFormat, order: tuple[int, ...]) -> Stored | None:
    """Codes of each run put into another order."""
    if fmt.bits != 4 or fmt.group % len(order):
        return None
    runs = right.codes.reshape(*right.codes.shape[:-1], -1, len(order))
    return Stored(runs[..., list(order)].reshape(right.codes.shape), right.scales, right.offsets)


def _negate(right: Stored, fmt: AffineFormat) -> Stored | None:
    return Stored(right.codes, right.scales, -right.offsets) if fmt.offset is Offset.BIAS else None


def _no_offset(right: Stored, _: AffineFormat) -> Stored:
    return Stored(right.codes, right.scales, np.zeros_like(right.offsets))


def _move_zero(right: Stored, fmt: AffineFormat, by: int) -> Stored | None:
    if fmt.offset is Offset.BIAS:
        return None
    return Stored(right.codes, right.scales, (right.offsets.astype(np.int16) + by).clip(0, 255).astype(np.uint8))


def _reinterpret(a: Values) -> Values:
    """The bits of 16-bit floats as those of the other 16-bit dtype, in the nearest value of their own; NaN where that is zero, which
    shows nothing of the bits."""
    other = np.dtype(ml_dtypes.bfloat16) if a.dtype == np.float16 else np.dtype(np.float16)
    with np.errstate(all="ignore"):
        read = a.view(other).astype(np.float32).astype(a.dtype)
    return np.where((read == 0) & (a != 0), np.array(np.nan, a.dtype), read)


def _reinterpret_scales(right: Stored, fmt: AffineFormat) -> Stored | None:
    return Stored(right.codes, _reinterpret(right.scales), right.offsets) if fmt.scalar.bits == 16 else None


def _reinterpret_biases(right: Stored, fmt: AffineFormat) -> Stored | None:
    if fmt.scalar.bits != 16 or fmt.offset is Offset.ZERO:
        return None
    return Stored(right.codes, right.scales, _reinterpret(right.offsets))


def _reinterpret_both(right: Stored, fmt: AffineFormat) -> Stored | None:
    once = _reinterpret_scales(right, fmt)
    return None if once is None else _reinterpret_biases(once, fmt)


def _magnitude(right: Stored, _: AffineFormat) -> Stored:
    return Stored(right.codes, np.abs(right.scales), right.offsets)


def _shift(words: str, by: int, *, scales: bool, offsets: bool) -> Iterator[Mistake]:
    """Scales, offsets, or both of a group next to the right one: at a row's end the first one of the row, or of the next row."""
    for shift in (_along_row, _along_all):

        def make(r: Stored, _: AffineFormat, shift: Callable[[Values, int], Values] = shift) -> Stored:
            return Stored(r.codes, shift(r.scales, by) if scales else r.scales, shift(r.offsets, by) if offsets else r.offsets)

        yield Mistake(words, make)


MISTAKES = (
    *_shift("the scale of the next group is used", -1, scales=True, offsets=False),
    *_shift("the scale of the group before is used", 1, scales=True, offsets=False),
    *_shift("the bias or zero point of the next group is used", -1, scales=False, offsets=True),
    *_shift("the bias or zero point of the group before is used", 1, scales=False, offsets=True),
    *_shift("the scale and the offset of the next group are used", -1, scales=True, offsets=True),
    Mistake(
        "the scale and the offset of the row's first group are used for all",
        lambda r, _: Stored(r.codes, np.broadcast_to(r.scales[:, :1], r.scales.shape), np.broadcast_to(r.offsets[:, :1], r.offsets.shape)),
    ),
    Mistake(
        "scales are indexed as if they were stored column by column",
        lambda r, _: Stored(r.codes, _transposed(r.scales), _transposed(r.offsets)),
    ),
    Mistake("the sign of the bias is wrong", _negate),
    Mistake("the bias or zero point is left out", _no_offset),
    Mistake("the zero point is one too high (GPTQ's stored zero minus one, read as v1)", lambda r, f: _move_zero(r, f, 1)),
    Mistake("the zero point is one too low (GPTQ's stored zero minus one, read as v2)", lambda r, f: _move_zero(r, f, -1)),
    Mistake("the sign of a negative scale is lost", _magnitude),
    Mistake("the scale's 16 bits are read as the other 16-bit float", _reinterpret_scales),
    Mistake("the bias's 16 bits are read as the other 16-bit float", _reinterpret_biases),
    Mistake("the 16 bits of scale and bias are read as the other 16-bit float", _reinterpret_both),
    Mistake("the nibbles of each byte are exchanged", lambda r, f: _swap(r, f, (1, 0))),
    Mistake("the eight nibbles of a word are in reverse order", lambda r, f: _swap(r, f, (7, 6, 5, 4, 3, 2, 1, 0))),
    Mistake("the eight nibbles of a word are in AWQ's order", lambda r, f: _swap(r, f, (0, 2, 4, 6, 1, 3, 5, 7))),
    Mistake("the eight nibbles of a word are in the inverse of AWQ's order", lambda r, f: _swap(r, f, (0, 4, 1, 5, 2, 6, 3, 7))),
)


def _transposed(a: Values) -> Values:
    return np.ascontiguousarray(a.T).reshape(a.shape)
