"""Structured sparsity of 4-bit codes: two of four codes kept, or two of four pairs, and the nibble that says which.

A metadata nibble is (position of the second kept << 2) | position of the first, positions 0 to 3 in ascending order. Six
nibbles are legal; PTX leaves the other ten undefined. Source: PTX ISA, sparse matrix storage; NVIDIA's packed e2m1
(kind::mxf4) keeps whole pairs of neighbouring codes, one nibble to eight codes.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]

#: Metadata nibble -> positions of the two that are kept.
KEPT: dict[int, tuple[int, int]] = {4: (0, 1), 8: (0, 2), 9: (1, 2), 12: (0, 3), 13: (1, 3), 14: (2, 3)}
_NIBBLES = np.array(list(KEPT), np.uint8)
_POSITIONS = np.array(list(KEPT.values()), np.intp)
#: Row of `KEPT` by nibble; -1 where the nibble is illegal.
_ROW = np.full(16, -1, np.intp)
_ROW[_NIBBLES] = np.arange(len(KEPT))


class Sparsity(StrEnum):
    """What is kept."""

    #: Two of four codes.
    TWO_OF_FOUR = "2:4"
    #: Two of four pairs of neighbours: four of eight codes.
    PAIRS = "4:8 pairs"

    @property
    def unit(self) -> int:
        """Codes that are kept or dropped together."""
        return 2 if self is Sparsity.PAIRS else 1

    @property
    def group(self) -> int:
        """Codes that one nibble speaks of."""
        return 4 * self.unit


class Nibble(StrEnum):
    """What a 4-bit code means, as far as its magnitude goes."""

    E2M1 = "e2m1"
    #: Two's complement, -8 to 7.
    INT4 = "int4"


#: Twice the magnitude of each code.
_MAGNITUDES = {
    Nibble.E2M1: np.array([0, 1, 2, 3, 4, 6, 8, 12] * 2, np.int64),
    Nibble.INT4: np.array([2 * abs(c - 16 if c > 7 else c) for c in range(16)], np.int64),
}


def choose_kept(
    codes: npt.ArrayLike, *, kind: str | Nibble = Nibble.E2M1, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR
) -> Codes:
    """The metadata nibbles that keep the largest: uint8 [..., K / group].

    codes: uint8 [..., K], 4 bits each. Magnitudes decide (of pairs their sum), ties go to the lower position, -0 is zero.
    Raises ValueError where K is no multiple of the group.
    """
    grouped, rule = _group(codes, Sparsity(sparsity)), Sparsity(sparsity)
    weight = _MAGNITUDES[Nibble(kind)][grouped].reshape(*grouped.shape[:-1], 4, rule.unit).sum(axis=-1)
    # A stable sort keeps the lower of equals.
    order = np.sort(np.argsort(-weight, axis=-1, kind="stable")[..., :2], axis=-1)
    nibbles: Codes = (order[..., 1] << 2 | order[..., 0]).astype(np.uint8)
    return nibbles


def prune(
    codes: npt.ArrayLike, *, kind: str | Nibble = Nibble.E2M1, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR
) -> Codes:
    """The codes with all but the largest of each group set to 0; see `choose_kept`."""
    nibbles = choose_kept(codes, kind=kind, sparsity=sparsity)
    return decompress(_take(codes, nibbles, Sparsity(sparsity)), nibbles, sparsity=sparsity)


def compress(
    codes: npt.ArrayLike, *, kind: str | Nibble = Nibble.E2M1, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR
) -> tuple[Codes, Codes]:
    """Kept codes [..., K / 2] and canonical metadata [..., K / group] of codes that are sparse already.

    Canonical: where fewer than two are non-zero, zeros at the lowest positions are kept too (0000 gives 4).
    Raises ValueError, naming the group, where more than two of a group are non-zero: prune first.
    """
    rule, array = Sparsity(sparsity), np.asarray(codes)
    nibbles = choose_kept(array, kind=kind, sparsity=rule)
    kept = _take(array, nibbles, rule)
    magnitudes = _MAGNITUDES[Nibble(kind)]
    lost = magnitudes[decompress(kept, nibbles, sparsity=rule)] != magnitudes[array]
    if lost.any():
        place = tuple(int(i) for i in np.argwhere(lost)[0])
        group = array[place[:-1]][place[-1] // rule.group * rule.group :][: rule.group]
        raise ValueError(
            f"codes {group.tolist()} at {place[:-1]}, group {place[-1] // rule.group}, are not {rule}-sparse; "
            "call prune first"
        )
    return kept, nibbles


def decompress(
    kept: npt.ArrayLike, metadata: npt.ArrayLike, *, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR
) -> Codes:
    """The dense codes [..., K]: kept ones at their positions, 0 elsewhere.

    Raises ValueError for an illegal nibble, with its place, and for shapes that do not fit each other.
    """
    rule, values, nibbles = Sparsity(sparsity), np.asarray(kept), np.asarray(metadata)
    check_metadata(nibbles)
    wanted = (*nibbles.shape[:-1], 2 * rule.unit * nibbles.shape[-1])
    if values.shape != wanted:
        raise ValueError(
            f"kept codes have shape {values.shape}; metadata of shape {nibbles.shape} need {wanted} under {rule}"
        )
    dense = np.zeros((*nibbles.shape, 4, rule.unit), np.uint8)
    positions = _POSITIONS[_ROW[nibbles]][..., None]
    np.put_along_axis(dense, positions, values.reshape(*nibbles.shape, 2, rule.unit), axis=-2)
    return dense.reshape(*nibbles.shape[:-1], -1)


def check_metadata(metadata: npt.ArrayLike) -> None:
    """Raise ValueError, with the first place and all legal nibbles, where a nibble is illegal."""
    nibbles = np.asarray(metadata)
    if nibbles.dtype != np.uint8:
        raise TypeError(f"metadata are {nibbles.dtype}; pass uint8, one nibble in the low bits of each")
    bad = find_illegal(nibbles)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"metadata hold {int(nibbles[place]):#x} at {place}; legal are {', '.join(f'{n:#x}' for n in sorted(KEPT))}: two "
            "positions in ascending order"
        )


def find_illegal(metadata: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Where nibbles are illegal."""
    illegal: npt.NDArray[np.bool_] = (metadata > 15) | (_ROW[metadata & 15] < 0)
    return illegal


def _take(codes: npt.ArrayLike, nibbles: Codes, rule: Sparsity) -> Codes:
    grouped = _group(codes, rule).reshape(*nibbles.shape, 4, rule.unit)
    found = np.take_along_axis(grouped, _POSITIONS[_ROW[nibbles]][..., None], axis=-2)
    return np.ascontiguousarray(found).reshape(*nibbles.shape[:-1], -1)


def _group(codes: npt.ArrayLike, rule: Sparsity) -> Codes:
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise TypeError(f"codes are {array.dtype}; pass uint8, one code in the low four bits of each")
    if array.size and int(array.max()) > 15:
        raise ValueError(f"codes hold {int(array.max()):#x}; allowed are 0 to 0xf")
    if array.ndim == 0 or array.shape[-1] % rule.group:
        raise ValueError(
            f"k = {array.shape[-1] if array.ndim else 0} is not a multiple of the {rule.group} codes of a {rule} group; "
            "pad the last axis with zeros"
        )
    return array.reshape(*array.shape[:-1], array.shape[-1] // rule.group, rule.group)
