"""Numbers above zero, and the places among them at which a NaN or an infinity has one right result whatever a kernel does."""

from __future__ import annotations

import numpy as np

from mxspec.affine import Offset
from mxspec_conformance.judge.products.draw import OperandWriter
from mxspec_conformance.judge.products.draw_affine import AffineWriter
from mxspec_conformance.judge.products.thinning import find_stored
from mxspec_conformance.targets.operands import Numbers, OperandKind

__all__ = ["SPOILT", "find_place", "has_one_infinity", "subtracts", "write_few", "write_positive"]

#: The place along k at which the judge's cases have a NaN or an infinity; every row of a sparse side keeps it.
SPOILT = 3
#: How many numbers a row has that has few: a block's, or two blocks'.
_FEW = 32


def write_positive(writer: OperandWriter, rows: int, k: int, keep: int = SPOILT) -> Numbers:
    """Small numbers above zero, under the scale one. keep: a place along k that a sparse side does not drop."""
    if isinstance(writer, AffineWriter):
        return writer.all_positive(rows, k, keep=keep)
    return writer.numbers(writer.pick(writer.positive, rows, k), keep=keep)


def write_few(writer: OperandWriter, rows: int, k: int, keep: int) -> Numbers:
    """Small numbers above zero in the block of `keep`, and zeros elsewhere: sums of few bits. Affine ones are all above zero."""
    if isinstance(writer, AffineWriter):
        return write_positive(writer, rows, k, keep)
    codes = writer.pick(writer.positive, rows, k)
    codes[:, np.arange(k) // _FEW != keep // _FEW] = writer.code_of(0.0)
    return writer.numbers(codes, keep=keep)


def find_place(numbers: Numbers, row: int, place: int = SPOILT) -> int:
    """Where in its row the number of a place along k is stored; a sparse side has to keep it."""
    if numbers.metadata is None:
        return place
    rule = numbers.spec.sparsity
    assert rule is not None
    group, inside = divmod(place, rule.group)
    return group * (rule.group // 2) + find_stored(int(numbers.metadata[row, group]), inside, rule)


def subtracts(writer: OperandWriter) -> bool:
    """Whether a side's numbers are differences of a code and a zero point."""
    return writer.spec.kind is OperandKind.AFFINE and writer.spec.affine.offset is Offset.ZERO


def has_one_infinity(writer: OperandWriter, other: OperandWriter) -> bool:
    """Whether an infinity of a side has one right product with the numbers of the other.

    A product of an infinity with both code and zero point is NaN, with their difference it is not; and a group of infinities meets
    what a sparse side has dropped.
    """
    return not subtracts(other) and not (other.spec.sparsity is not None and writer.spec.kind is OperandKind.AFFINE)
