"""A Hypothesis strategy for compressed sparse operands: kept codes and their metadata, legal or with one illegal nibble.

Used through `mxspec_conformance.testing.strategies`, which says what is missing where Hypothesis is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from mxspec.sparsity import KEPT, SPARSE_FORMATS, SparseFormat, decompress

Codes = npt.NDArray[np.uint8]
#: Nibbles that PTX leaves undefined: one position twice, or positions in descending order.
ILLEGAL = tuple(n for n in range(16) if n not in KEPT)


@dataclass(frozen=True, eq=False, repr=False)
class SparseStored:
    """Kept codes and metadata, one to a byte."""

    format: SparseFormat
    #: uint8 [rows, K / 2].
    kept: Codes
    #: uint8 [rows, K / group], nibbles.
    metadata: Codes

    @property
    def is_legal(self) -> bool:
        """Whether every nibble names two positions in ascending order."""
        return not np.isin(self.metadata, ILLEGAL).any()

    def dense(self) -> Codes:
        """The codes [rows, K] that are meant. Raises ValueError where a nibble is illegal."""
        found: Codes = decompress(self.kept, self.metadata, sparsity=self.format.sparsity)
        return found

    def __repr__(self) -> str:
        used = ", ".join(f"[{i}, {j}]: {int(self.kept[i, j]):#x}" for i, j in np.argwhere(self.kept != 0).tolist())
        nibbles = ", ".join(f"[{', '.join(f'{n:#x}' for n in row)}]" for row in self.metadata.tolist())
        return f"SparseStored({self.format.name!r}, kept={{{used}}}, metadata=[{nibbles}])"


def sparse_stored(
    fmt: str | SparseFormat, *, max_rows: int = 4, max_groups: int = 16, columns: int | None = None, illegal: bool = False
) -> st.SearchStrategy[SparseStored]:
    """Compressed operands of a sparse format: every metadata nibble, any codes at kept places, zeros of either sign among them.

    >>> from hypothesis import find
    >>> find(sparse_stored("e2m1-2to4"), lambda s: s.kept.any())
    SparseStored('e2m1-2to4', kept={[0, 0]: 0x1}, metadata=[[0x4]])
    >>> find(sparse_stored("e2m1-2to4", illegal=True), lambda s: True).is_legal
    False

    Args:
        fmt: Such as `e2m1-2to4`.
        max_rows: The most rows.
        max_groups: The most groups in a row.
        columns: K is a multiple of this; default: of a group.
        illegal: Whether one nibble at least is none of the six: for tests that it is refused.

    Returns:
        A strategy of `SparseStored`.

    Raises InvalidArgument for a format that is none, and for sizes that do not fit.
    """
    if not isinstance(fmt, SparseFormat) and fmt not in SPARSE_FORMATS:
        raise InvalidArgument(f"fmt={fmt!r} is not a sparse format; known are {', '.join(SPARSE_FORMATS)}")
    chosen = fmt if isinstance(fmt, SparseFormat) else SPARSE_FORMATS[fmt]
    for label, size in (("max_rows", max_rows), ("max_groups", max_groups)):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InvalidArgument(f"{label}={size!r} must be an integer from 1 on")
    step = chosen.group if columns is None else columns
    if not isinstance(step, int) or step <= 0 or step % chosen.group:
        raise InvalidArgument(f"columns={columns!r} must be a multiple of the {chosen.group} codes of a group of {chosen.name}")
    if not isinstance(illegal, bool):
        raise InvalidArgument(f"illegal={illegal!r} must be True or False")
    return _stored(chosen, max_rows, max(max_groups * chosen.group // step, 1), step // chosen.group, illegal)


@st.composite
def _stored(draw: st.DrawFn, fmt: SparseFormat, max_rows: int, most: int, step: int, illegal: bool) -> SparseStored:
    rows, groups = draw(st.integers(1, max_rows)), step * draw(st.integers(1, most))
    width = 2 * fmt.sparsity.unit
    metadata = np.full((rows, groups), draw(st.sampled_from(tuple(KEPT))), np.uint8)
    kept = np.zeros((rows, groups * width), np.uint8)
    group = st.tuples(st.integers(0, rows - 1), st.integers(0, groups - 1))
    for (row, at), nibble in draw(st.lists(st.tuples(group, st.sampled_from(tuple(KEPT))), max_size=6)):
        metadata[row, at] = nibble
    code = st.integers(0, _count(fmt) - 1)
    places = st.tuples(st.integers(0, rows - 1), st.integers(0, groups * width - 1))
    for (row, at), value in draw(st.lists(st.tuples(places, code), max_size=8)):
        kept[row, at] = value
    if illegal:
        for (row, at), nibble in draw(st.lists(st.tuples(group, st.sampled_from(ILLEGAL)), min_size=1, max_size=3)):
            metadata[row, at] = nibble
    return SparseStored(fmt, kept, metadata)


def _count(fmt: SparseFormat) -> int:
    """Codes of the format's kind."""
    table: Any = fmt.codes.table
    assert table is not None
    return len(table)
