"""What is kept of a group and the nibble that says so: the six patterns, checking, and placing kept items back.

A metadata nibble is (position of the second kept << 2) | position of the first, positions 0 to 3 in ascending order. Six
nibbles are legal; PTX leaves the other ten undefined. Source: PTX ISA, sparse matrix storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec.inputs import as_array

Codes = npt.NDArray[np.uint8]

#: Metadata nibble -> positions of the two that are kept.
KEPT: dict[int, tuple[int, int]] = {4: (0, 1), 8: (0, 2), 9: (1, 2), 12: (0, 3), 13: (1, 3), 14: (2, 3)}
#: The legal nibbles, in the order in which bits of a mask of patterns stand for them.
NIBBLES = np.array(list(KEPT), np.uint8)
#: Positions of the two that are kept, by the place of the nibble in `NIBBLES`.
POSITIONS = np.array(list(KEPT.values()), np.intp)
#: Nibble -> whether each of four is kept; of illegal ones none.
_IS_KEPT = np.zeros((16, 4), np.bool_)
for _nibble, _places in KEPT.items():
    _IS_KEPT[_nibble, list(_places)] = True


class Sparsity(StrEnum):
    """What is kept."""

    #: Two of four items.
    TWO_OF_FOUR = "2:4"
    #: Two of four pairs of neighbours: four of eight codes. NVIDIA's packed 4-bit operands.
    PAIRS = "4:8 pairs"

    @classmethod
    def _missing_(cls, value: object) -> Sparsity | None:
        return cls.PAIRS if value == "4:8" else None

    @property
    def unit(self) -> int:
        """Items that are kept or dropped together."""
        return 2 if self is Sparsity.PAIRS else 1

    @property
    def group(self) -> int:
        """Items that one nibble speaks of."""
        return 4 * self.unit


def get_sparsity(sparsity: str | Sparsity) -> Sparsity:
    """The sparsity of this name. Raises ValueError, listing the names, where there is none."""
    try:
        return Sparsity(sparsity)
    except ValueError:
        raise ValueError(f'unknown sparsity {sparsity!r}; known are "2:4", and "4:8" for pairs of 4-bit codes') from None


def find_illegal(metadata: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Where nibbles are illegal."""
    illegal: npt.NDArray[np.bool_] = (metadata > 15) | ~_IS_KEPT[metadata & 15].any(axis=-1)
    return illegal


def check_metadata(metadata: npt.ArrayLike) -> None:
    """Raise ValueError, with the first place and all legal nibbles, where a nibble is illegal."""
    nibbles = as_array(metadata, name="metadata")
    if nibbles.dtype != np.uint8:
        raise TypeError(f"metadata are {nibbles.dtype}; pass uint8, one nibble in the low bits of each")
    bad = find_illegal(nibbles)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"metadata hold {int(nibbles[place]):#x} at {place}; legal are {', '.join(f'{n:#x}' for n in sorted(KEPT))}: two "
            "positions in ascending order"
        )


def check_k(k: int, rule: Sparsity, multiple: int | None = None) -> None:
    """Raise ValueError where k items do not make whole groups, or no multiple of what a layout takes."""
    wanted = rule.group if multiple is None else multiple
    if k % wanted:
        what = f"the {rule.group} codes of a {rule} group" if multiple is None else f"{wanted}"
        raise ValueError(f"k = {k} is not a multiple of {what}; pad the last axis with zeros to {-(-k // wanted) * wanted}")


def gather(items: npt.NDArray[Any], metadata: Codes, rule: Sparsity) -> npt.NDArray[Any]:
    """The items [..., K / 2] that legal nibbles keep of [..., K]."""
    grouped = items.reshape(*metadata.shape, 4, rule.unit)
    found = grouped[_IS_KEPT[metadata]]  # kept ones ascend in their group, as they lie
    return found.reshape(*metadata.shape[:-1], 2 * rule.unit * metadata.shape[-1])


def scatter(kept: npt.NDArray[Any], metadata: Codes, rule: Sparsity) -> npt.NDArray[Any]:
    """Items [..., K] of the type of those kept: each at its position, zero bits elsewhere."""
    dense = np.zeros((*metadata.shape, 4, rule.unit), kept.dtype)
    dense[_IS_KEPT[metadata]] = kept.reshape(-1, rule.unit)
    return dense.reshape(*metadata.shape[:-1], rule.group * metadata.shape[-1])


def decompress(kept: npt.ArrayLike, metadata: npt.ArrayLike, *, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR) -> npt.NDArray[Any]:
    """The dense codes, or numbers, [..., K]: kept ones at their positions, 0 elsewhere.

    Args:
        kept: [..., K / 2]: codes (uint8, one to a byte) or numbers of a float type, which the result has, too.
        metadata: uint8 [..., K / group], one nibble to a byte.
        sparsity: "2:4", or "4:8" for pairs.

    Raises:
        TypeError: Metadata are not uint8.
        ValueError: An illegal nibble, with its place, or shapes that do not fit each other.
    """
    rule, values, nibbles = get_sparsity(sparsity), as_array(kept, name="kept codes"), as_array(metadata, name="metadata")
    check_metadata(nibbles)
    check_fit(values, nibbles, rule)
    return scatter(values, nibbles, rule)


def check_fit(kept: npt.NDArray[Any], metadata: Codes, rule: Sparsity) -> None:
    """Raise ValueError where the shapes of kept items and metadata do not fit each other."""
    if metadata.ndim == 0:
        raise ValueError("metadata are a single number; pass at least one axis, along which the groups lie")
    wanted = (*metadata.shape[:-1], 2 * rule.unit * metadata.shape[-1])
    if kept.shape != wanted:
        raise ValueError(f"kept codes have shape {kept.shape}; metadata of shape {metadata.shape} need {wanted} under {rule}")
