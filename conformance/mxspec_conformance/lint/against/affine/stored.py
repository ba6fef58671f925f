"""Stored affine integers, read as the convention says or in another way: a reading is a form with another axis or order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.checkpoints.forms import FORMS, Floats, Packed
from mxspec.affine.checkpoints.groups import AffineGroup
from mxspec.affine.formats import Offset
from mxspec.containers.problems import ContainerError
from mxspec_conformance.lint.hypotheses import GroupOrder, Reading, WordOrder

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.uint8]

#: The order of AWQ's words.
_INTERLEAVED = next(f.codes.order for f in FORMS if f.codes.order is not None)
#: The 16-bit floats, each with the other.
_OTHERS = {"float16": "bfloat16", "bfloat16": "float16"}


def reorder_words(part: Packed, order: WordOrder) -> Packed:
    """The part as it is where words are read in an order."""
    if order is WordOrder.STORED:
        return part
    if order is WordOrder.SWAPPED:
        own = part.order or tuple(range(8))
        return replace(part, order=tuple(own[i ^ 1] for i in range(8)))
    return replace(part, order=None if order is WordOrder.LOWEST_FIRST else _INTERLEAVED)


@dataclass
class StoredIntegers:
    """A tensor of affine integers of the file."""

    group: AffineGroup

    @cached_property
    def columns(self) -> npt.NDArray[np.intp] | None:
        """Which stored column each column of the groups is; None: the same, or an index that lint reports by itself."""
        try:
            return self.group.read_order()
        except ContainerError:
            return None

    @property
    def dtypes(self) -> tuple[str | None, ...]:
        """Of which dtype the bits of scales may be, as `Reading` has it."""
        other = _OTHERS.get(self.group.format.dtype)
        return (None,) if other is None else (None, other)

    @property
    def word_orders(self) -> tuple[WordOrder, ...]:
        """In which orders words may be read: only four bits are mistaken."""
        if self.group.format.bits != 4:
            return (WordOrder.STORED,)
        other = WordOrder.INTERLEAVED if self.group.form.codes.order is None else WordOrder.LOWEST_FIRST
        return WordOrder.STORED, WordOrder.SWAPPED, other

    @property
    def group_orders(self) -> tuple[GroupOrder, ...]:
        """In which orders scales may be read."""
        n, groups = self.group.shape[0], self.group.shape[1] // self.group.format.group
        turned = (GroupOrder.TRANSPOSED,) if n > 1 and groups > 1 else ()
        moved = (GroupOrder.BEFORE, GroupOrder.AFTER) if groups > 1 else ()
        return GroupOrder.STORED, *turned, *moved

    def list_codes(self) -> Iterator[Reading]:
        """The ways in which codes may be read, the convention's first."""
        for complement in (False, True):
            for turned in (False, True):
                for order in self.word_orders:
                    yield Reading(codes=order, turned=turned, complement=complement)

    def list_scales(self, dtype: str | None) -> Iterator[Reading]:
        """The same of scales."""
        return (Reading(scales=order, dtype=dtype) for order in self.group_orders)

    def list_offsets(self, dtype: str | None) -> Iterator[Reading]:
        """The same of zero points or biases; steps of zero points are found by comparing."""
        if self.group.symmetric:
            yield Reading(dtype=dtype)
            return
        for order in self.group_orders:
            if self.group.format.offset is Offset.ZERO:
                yield from (Reading(offsets=order, zeros=words, dtype=dtype) for words in self.word_orders)
            else:
                yield from (Reading(offsets=order, negated=negated, dtype=dtype) for negated in (False, True))

    def read_codes(self, rows: tuple[int, int], reading: Reading) -> Codes:
        """Codes [rows, K] in the order of the groups."""
        group, bits = self.group, self.group.format.bits
        part = reorder_words(group.form.codes, reading.codes)
        found = group.read_part(replace(part, transposed=part.transposed != reading.turned), rows)
        if self.columns is not None:
            found = np.ascontiguousarray(found[:, self.columns])
        return (found + np.uint8(1 << (bits - 1))) & np.uint8(group.format.bins) if reading.complement else found

    def read_scales(self, reading: Reading) -> Array:
        """Scales [N, groups]."""
        return self._read_groups(self.group.form.scales, reading.scales, reading.dtype)

    def read_offsets(self, reading: Reading) -> Array:
        """Zero points or biases [N, groups]; a stored zero point that the convention has no form for is 2^bits."""
        group, offsets, fmt = self.group, self.group.form.offsets, self.group.format
        if group.symmetric:
            return np.full((group.shape[0], group.shape[1] // fmt.group), 1 << (fmt.bits - 1), np.uint8)
        if isinstance(offsets, Floats):
            found = self._read_groups(offsets, reading.offsets, reading.dtype)
            return -found if reading.negated else found
        zeros = self._read_groups(reorder_words(offsets, reading.zeros), reading.offsets)
        return (zeros + np.uint8(reading.step % (fmt.bins + 1))) & np.uint8(fmt.bins) if reading.step else zeros

    def _read_groups(self, part: Packed | Floats, order: GroupOrder, dtype: str | None = None) -> Array:
        turned = replace(part, transposed=part.transposed != (order is GroupOrder.TRANSPOSED))
        return _move(self.group.read_part(turned, (0, self.group.shape[0]), dtype), order)


def _move(array: Array, order: GroupOrder) -> Array:
    by = {GroupOrder.BEFORE: 1, GroupOrder.AFTER: -1}.get(order)
    return array if by is None else np.roll(array, by, axis=1)
