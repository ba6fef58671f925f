"""What is legal beside the canonical answer, where OCP MX v1.0 leaves a choice.

Canonical is what the model writes; legal is what the judge accepts of an implementation of a normative MX profile.
This is the one place that lists it:

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

import numpy as np
import numpy.typing as npt

from mxspec.blocks import quantize_rows
from mxspec.elements import decode_table
from mxspec.exact import choose_level
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec.rounding import Overflow


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
    if profile.kind is not Kind.NORMATIVE or fmt.has_tensor_scale:
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


def _rows_beside_nan(x: npt.NDArray[np.float32], fmt: BlockFormat, profile: Profile) -> Iterator[LegalRow]:
    """The legal answers for what remains of a block without its NaN lanes, these any NaN of the element."""
    level = choose_level(profile, with_tensor_scale=False)
    lanes = np.isnan(x)
    kept = np.where(lanes, np.float32(0), x)
    scales, codes = quantize_rows(kept[None, :], fmt, profile, level, {})
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
        sf = float(decode_table(fmt.scale)[byte])
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
    scaled = x.astype(np.float64) / float(decode_table(fmt.scale)[scale])
    below = scaled <= -127.5 / 64
    if not below.any():
        return None
    return replace(canonical, codes=tuple(0x80 if low else c for c, low in zip(canonical.codes, below, strict=True)))
