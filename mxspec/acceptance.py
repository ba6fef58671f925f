"""What is accepted in addition to the canonical answer, where OCP MX v1.0 leaves a choice.

Canonical is what the model writes; legal is what the judge accepts of an implementation of a normative MX profile.
This is the one place that says so, for whole blocks (`legal_rows`), for lanes (`is_lowest_allowed`, `fold_zeros`, `flag_nan`),
and for blocks of which only what was returned is known (`is_open`):

================================ ============================== ===================================================
case                             canonical                      also legal
================================ ============================== ===================================================
a NaN in the block               scale FF, codes 00             scale FF with any codes; fp8: any legal answer for
                                                                the block without that lane (what remains may be
                                                                zeros or hold an Inf), the lane any NaN code
Inf, no NaN                      scale FE, Inf -> signed max,   scale FF with any codes; scale 255 - emax with
                                 the rest x / 2**127            Inf -> max; e5m2: the lane Inf
zero block                       scale 00, signs kept           any scale 00..FE with zero codes
int8 below -127.5/64, -Inf too   81                             80
sign of zero                     kept                           its own topic; elsewhere codes of zero match either
================================ ============================== ===================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.blocks import quantize_rows
from mxspec.elements import decode_codes
from mxspec.formats import F32, BlockFormat, ElementFormat, ScalarFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec.rounding import Overflow, Rounding

Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

#: The code 80 of int8 may be left out (a symmetric quantizer gives 81), and need not be: it is right for quotients below this
#: value, and at it where so said. OCP MX v1.0, 5.3.4.
LOWEST_FROM: dict[Rounding, tuple[float, bool]] = {
    Rounding.RNE: (-127.5 / 64, True),
    Rounding.RNA: (-127.5 / 64, True),
    Rounding.RNZ: (-127.5 / 64, False),
    Rounding.RNU: (-127.5 / 64, False),
    Rounding.RTN: (-127 / 64, False),
    Rounding.RTZ: (-128 / 64, True),
    Rounding.RTP: (-128 / 64, True),
}


@lru_cache(maxsize=32)
def fold_zeros(fmt: ScalarFormat) -> Codes:
    """For each of 256 codes the code itself, negative zero made positive; read-only."""
    fold = np.arange(256, dtype=np.uint8)
    if fmt.has_minus_zero:
        fold[fmt.sign_bit] = 0
    fold.flags.writeable = False
    return fold


@lru_cache(maxsize=32)
def flag_nan(fmt: ScalarFormat) -> Flags:
    """For each of 256 codes whether it is a NaN; codes beyond the format's width are none. Read-only."""
    flags = np.array([code < fmt.code_count and fmt.is_nan(code) for code in range(256)])
    flags.flags.writeable = False
    return flags


@lru_cache(maxsize=32)
def flag_nan_bytes(fmt: ScalarFormat) -> Flags:
    """For each of 256 bytes whether the code in its low bits is a NaN, whatever the bits above. Read-only."""
    flags = np.array([fmt.is_nan(byte & (fmt.code_count - 1)) for byte in range(256)])
    flags.flags.writeable = False
    return flags


def flag_nan_codes(codes: npt.NDArray[Any] | int, fmt: ScalarFormat) -> Flags:
    """Which codes, of any shape, are a NaN, whatever the bits above the format's."""
    if fmt.bits <= 8:
        flags: Flags = flag_nan_bytes(fmt)[codes]
    else:
        flags = np.asarray(codes, np.uint32) & np.uint32(fmt.code_count - 1) > np.uint32(fmt.inf_code or fmt.max_code)
    return flags


def is_lowest_allowed(element: ScalarFormat, scaled: npt.NDArray[np.floating], rounding: Rounding = Rounding.RNE) -> Flags:
    """Where a two's complement element may be its lowest code instead of the one above; nowhere for other elements.

    scaled: the quotients, of any shape.
    """
    if not element.twos_complement:
        return np.zeros(scaled.shape, bool)
    limit, reached = LOWEST_FROM[rounding]
    allowed: Flags = (scaled < limit) | ((scaled == limit) & reached)
    return allowed


def is_open(x: npt.NDArray[np.float32], scales: Codes, codes: Codes, fmt: BlockFormat) -> Flags:
    """MX blocks [n] that may be what was returned (scales [n], codes [n, k]) whatever they were in another call: a NaN that was
    kept, an infinity at one of its scales, zeros under any scale.

    It asks whether a choice is left at all; which answers are legal under a profile `legal_rows` says.
    """
    element = fmt.element
    lost, is_nan = flag_nan_codes(scales, fmt.scale), flag_nan(element)
    nan, infinite = np.isnan(x), np.isinf(x)
    nan_kept = lost | (is_nan[codes] | ~nan).all(axis=1)
    largest = _flag_infinity_codes(element)
    at_end = np.isin(scales, (254, 255 - element.emax))
    inf_kept = lost | at_end & (largest[np.signbit(x).astype(int), codes] | ~infinite).all(axis=1)
    nothing = ~(x.view(np.uint32) << 1).any(axis=1)
    zeros = nothing & ~lost & (fold_zeros(element)[codes] == 0).all(axis=1)
    result: Flags = np.where(nan.any(axis=1), nan_kept, np.where(infinite.any(axis=1), inf_kept, zeros))
    return result


@lru_cache(maxsize=32)
def _flag_infinity_codes(element: ElementFormat) -> Flags:
    """[sign, code]: what an infinity may become."""
    flags = np.zeros((2, 256), bool)
    for sign in (0, 1):
        for magnitude in (element.max_code, element.inf_code or element.max_code):
            flags[sign, element.join(sign, magnitude)] = True
    if element.twos_complement:
        flags[1, element.sign_bit] = True
    return flags


@dataclass(frozen=True, slots=True)
class LegalRow:
    """One whole legal answer for a block: correlated choices stay together."""

    #: Lowest and highest legal scale byte.
    scale: int
    scale_max: int
    #: Codes, compared after both sides are ANDed with `mask`.
    codes: tuple[int, ...]
    mask: tuple[int, ...]
    #: Lanes that hold any NaN code of the element instead.
    nan_lanes: tuple[int, ...] = ()

    def matches(self, scale: int, codes: npt.NDArray[np.uint8], is_nan: npt.NDArray[np.bool_]) -> bool:
        """Whether a returned block is this answer; is_nan: 256 flags, which codes of the element are NaN."""
        if not self.scale <= scale <= self.scale_max:
            return False
        mask = np.array(self.mask, np.uint8)
        wanted = np.array(self.codes, np.uint8)
        if ((codes ^ wanted) & mask).any():
            return False
        return bool(is_nan[codes[list(self.nan_lanes)]].all())


def exact_row(scale: int, codes: npt.NDArray[np.uint8]) -> LegalRow:
    """The answer that matches in every bit."""
    return LegalRow(scale, scale, tuple(int(c) for c in codes), (0xFF,) * len(codes))


def with_any_codes(scale: int, k: int) -> LegalRow:
    """Any codes under one scale byte."""
    return LegalRow(scale, scale, (0,) * k, (0,) * k)


def legal_rows(
    x: npt.NDArray[np.float32], fmt: BlockFormat, profile: Profile, scale: int, codes: npt.NDArray[np.uint8]
) -> tuple[LegalRow, ...]:
    """All legal answers for one block [k], the canonical one (scale, codes) first."""
    canonical = exact_row(scale, codes)
    if profile.unspecified_nan_block_codes and fmt.scale == F32 and flag_nan_codes(scale, fmt.scale):
        return (canonical, with_any_codes(scale, len(x)))
    if profile.kind is not Kind.NORMATIVE or not fmt.is_mx:
        return (canonical,)
    k = len(x)
    if np.isnan(x).any():
        rows = [canonical, with_any_codes(0xFF, k)]
        if fmt.element.nan_code is not None:
            rows += _rows_beside_nan(x, fmt, profile)
        return tuple(rows)
    if np.isinf(x).any():
        symmetric = [canonical, *_infinity_rows(x, fmt, canonical)]
        others = [_int8_lowest_row(x, fmt, row.scale, row) for row in symmetric]
        return (canonical, with_any_codes(0xFF, k), *symmetric[1:], *(row for row in others if row is not None))
    if not x.any():
        magnitude_mask = 0xFF if fmt.element.twos_complement else fmt.element.sign_bit - 1
        return (canonical, LegalRow(0x00, 0xFE, (0,) * k, (magnitude_mask,) * k))
    other = _int8_lowest_row(x, fmt, scale, canonical)
    return (canonical,) if other is None else (canonical, other)


def low_end_rows(x: npt.NDArray[np.float32], fmt: BlockFormat, profile: Profile, scale: int) -> tuple[LegalRow, ...]:
    """Answers for a block [k] that OCP leaves open next to the profile's, where that has the lowest scale, 2^-127, which float32 holds as a
    subnormal alone: the next scale with the codes under it, and zeros under a scale of one or less. The sign of zero does not count."""
    if profile.kind is not Kind.NORMATIVE or not fmt.is_mx or scale or not x.any() or not np.isfinite(x).all():
        return ()
    _, codes = quantize_rows(x[None, :], fmt, profile, profile.steps(with_tensor_scale=False), {}, scales=np.array([[1]], np.uint8))
    under = fold_zeros(fmt.element)[codes[0]]
    return (replace(exact_row(1, under), mask=_mask_zeros(under, fmt)), zero_row(fmt, 0x7F))


def zero_row(fmt: BlockFormat, scale_max: int) -> LegalRow:
    """Zeros of either sign under any scale byte up to one."""
    zeros = np.zeros(fmt.k, np.uint8)
    return replace(exact_row(0, zeros), scale_max=scale_max, mask=_mask_zeros(zeros, fmt))


def _mask_zeros(codes: Codes, fmt: BlockFormat) -> tuple[int, ...]:
    """Every bit but the sign of zeros."""
    sign = fmt.element.sign_bit if fmt.element.has_minus_zero else 0
    return tuple(0xFF if code else 0xFF ^ sign for code in codes.tolist())


def _rows_beside_nan(x: npt.NDArray[np.float32], fmt: BlockFormat, profile: Profile) -> Iterator[LegalRow]:
    """The legal answers for what remains of a block without its NaN lanes, these any NaN of the element."""
    steps = profile.steps(with_tensor_scale=False)
    lanes = np.isnan(x)
    kept = np.where(lanes, np.float32(0), x)
    scales, codes = quantize_rows(kept[None, :], fmt, profile, steps, {})
    for row in legal_rows(kept, fmt, profile, int(scales[0, 0]), codes[0]):
        if row.scale != 0xFF:
            yield replace(
                row,
                codes=tuple(0 if lost else c for c, lost in zip(row.codes, lanes, strict=True)),
                mask=tuple(0 if lost else m for m, lost in zip(row.mask, lanes, strict=True)),
                nan_lanes=tuple(int(i) for i in np.flatnonzero(lanes)),
            )


def _infinity_rows(x: npt.NDArray[np.float32], fmt: BlockFormat, canonical: LegalRow) -> list[LegalRow]:
    from mxspec.blocks import element_table
    from mxspec.elements import exact_table_index
    from mxspec.profiles.schema import ElementRule

    rows = []
    infinite = np.isinf(x)
    bytes_ = [canonical.scale]
    if fmt.element.emax > 0:
        bytes_.append(255 - fmt.element.emax)
    for byte in bytes_:
        sf = float(decode_codes(byte, fmt.scale))
        for overflow in (Overflow.SATURATE, Overflow.SATURATE_FINITE):
            if overflow is Overflow.SATURATE_FINITE and fmt.element.inf_code is None:
                continue
            rule = ElementRule(overflow=overflow)
            codes = element_table(fmt.element, rule)[exact_table_index(x.astype(np.float64) / sf)]
            row = exact_row(byte, codes)
            if row != canonical:
                rows.append(row)
    assert infinite.any()
    return rows


def _int8_lowest_row(x: npt.NDArray[np.float32], fmt: BlockFormat, scale: int, canonical: LegalRow) -> LegalRow | None:
    if not fmt.element.twos_complement or scale == 0xFF:
        return None
    below = is_lowest_allowed(fmt.element, x.astype(np.float64) / float(decode_codes(scale, fmt.scale)))
    if not below.any():
        return None
    return replace(canonical, codes=tuple(0x80 if low else c for c, low in zip(canonical.codes, below, strict=True)))
