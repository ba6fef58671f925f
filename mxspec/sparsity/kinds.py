"""What items are, as far as pruning goes: which have a magnitude of zero, and which is the larger of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_table
from mxspec.enums import StrEnum
from mxspec.formats import ELEMENTS, ElementFormat
from mxspec.inputs import as_array
from mxspec.suggestions import refuse_name

Magnitudes = npt.NDArray[np.int64]


class Nibble(StrEnum):
    """What a 4-bit code means, as far as its magnitude goes."""

    E2M1 = "e2m1"
    #: Two's complement, -8 to 7.
    INT4 = "int4"


#: Numbers that are pruned as they are, without codes.
FLOATS = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


#: Dtypes whose bytes are codes.
_NATIVE = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Codes of one scalar format, or plain numbers."""

    name: str
    #: Bits of a code, which lies in the low bits of a byte; of a number all of its own.
    bits: int
    #: Order of magnitudes by code: equal for equal magnitudes, 0 for zeros, -1 for NaN; None for plain numbers, whose bits say it.
    #: Of 4-bit codes multiples of the smallest magnitude, so that those of a pair can be added.
    table: Magnitudes | None

    @property
    def digits(self) -> int:
        """Hex digits of a code."""
        return 1 if self.bits <= 4 else 2

    def check(self, items: npt.ArrayLike, name: str = "codes") -> npt.NDArray[Any]:
        """The items as an array. Raises TypeError for another type, ValueError for a code with too many bits."""
        array = as_array(items, name=name)
        native = _NATIVE.get(self.name)
        if native is not None and array.dtype == native:
            array = array.view(np.uint8)
        if self.table is None:
            if array.dtype != FLOATS[self.name]:
                raise TypeError(f"{name} are {array.dtype}; pass {self.name}, as kind says")
            return array
        if array.dtype != np.uint8:
            floats = f'; for plain numbers pass kind="{array.dtype}"' if array.dtype.name in FLOATS else ""
            low = "four" if self.bits == 4 else f"{self.bits}"
            raise TypeError(f"{name} are {array.dtype}; pass uint8, one code in the low {low} bits of each{floats}")
        if array.size and int(array.max()) >> self.bits:
            raise ValueError(f"{name} hold {int(array.max()):#x}; allowed are 0 to {(1 << self.bits) - 1:#x}")
        return array

    def order(self, items: npt.NDArray[Any], name: str = "codes") -> Magnitudes:
        """Whole numbers in the order of the magnitudes, 0 for zeros. Raises ValueError for NaN, which has no magnitude."""
        if self.table is not None:
            found: Magnitudes = self.table[items]
        else:
            width = items.dtype.itemsize
            bits = np.ascontiguousarray(items).view(np.uint32 if width == 4 else np.uint16).astype(np.int64)
            found = bits & ((1 << 8 * width - 1) - 1)
            found[np.isnan(items.astype(np.float32))] = -1
        if (found < 0).any():
            place = tuple(int(i) for i in np.argwhere(found < 0)[0])
            raise ValueError(f"{name} hold a NaN at {place}, which has no magnitude; replace it before pruning")
        return found


def get_kind(kind: str | Nibble | ElementFormat) -> Kind:
    """The kind of this name: `int4`, the name of an element format, `float32`, `float16` or `bfloat16`.

    Raises ValueError, listing the names, where there is none.
    """
    if isinstance(kind, ElementFormat):
        return _of_element(kind)
    name = str(kind)
    if name in ELEMENTS:
        return _of_element(ELEMENTS[name])
    if name == Nibble.INT4:
        return Kind(name, 4, np.array([abs(c - 16 if c > 7 else c) for c in range(16)], np.int64))
    if name in FLOATS:
        return Kind(name, 8 * FLOATS[name].itemsize, None)
    known = [*ELEMENTS, Nibble.INT4.value, *FLOATS]
    raise refuse_name(kind, f"unknown kind {kind!r}; known are {', '.join(known)}", known)


@lru_cache(maxsize=32)
def _of_element(element: ElementFormat) -> Kind:
    values = np.abs(decode_table(element).astype(np.float64))
    if element.bits <= 4:
        order = (values / float(element.min_subnormal)).astype(np.int64)
    else:
        ranks = np.unique(values[~np.isnan(values)], return_inverse=True)[1]
        order = np.full(values.shape, -1, np.int64)
        order[~np.isnan(values)] = ranks
    return Kind(element.name, element.bits, order)


__all__ = ["FLOATS", "Kind", "Nibble", "get_kind"]
