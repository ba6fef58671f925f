"""Smaller and emptier sides: some rows, fewer numbers along k, zeros at a stretch of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine import Offset
from mxspec.sparsity import decompress, take
from mxspec_conformance.judge.products.reference import make_factor
from mxspec_conformance.targets.operands import Numbers, OperandKind

#: The arrays of a side, each with a row for each of its own.
_PARTS = ("values", "codes", "scales", "offsets", "metadata")


def find_used(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Where a side [rows, k] has a number that is not zero, or is none."""
    used: npt.NDArray[np.bool_] = make_factor(numbers).odd != 0
    return used


def take_rows(numbers: Numbers, rows: npt.NDArray[np.intp]) -> Numbers:
    """Some of a side's rows."""
    return replace(numbers, **{name: part[rows] for name in _PARTS if (part := getattr(numbers, name)) is not None})


def cut_length(numbers: Numbers, k: int) -> Numbers:
    """The first k numbers of each row, in whole blocks and groups."""
    spec = numbers.spec
    lengths = {
        "values": k // spec.stored, "codes": k // spec.stored, "scales": k // spec.group, "offsets": k // spec.group,
        "metadata": k if spec.sparsity is None else k // spec.sparsity.group,
    }  # fmt: skip
    return replace(numbers, **{name: part[:, : lengths[name]] for name in _PARTS if (part := getattr(numbers, name)) is not None})


def clear_stretch(numbers: Numbers, start: int, length: int) -> Numbers:
    """A side with zeros at a stretch of k. Under a bias no code need be zero: such a side stays as it is."""
    spec = numbers.spec
    if spec.kind is OperandKind.AFFINE and spec.affine.offset is Offset.BIAS:
        return numbers
    zeros: npt.NDArray[Any] = np.zeros(numbers.shape, numbers.held.dtype)
    if spec.kind is OperandKind.AFFINE:
        assert numbers.offsets is not None
        zeros = np.repeat(numbers.offsets, spec.affine.group, axis=1)
    chosen = np.zeros(numbers.shape, np.bool_)
    chosen[:, start : start + length] = True
    if numbers.metadata is not None:
        assert spec.sparsity is not None
        zeros, chosen = (take(part, numbers.metadata, sparsity=spec.sparsity) for part in (zeros, chosen))
    held = np.where(chosen, zeros, numbers.held)
    return numbers.with_held(held)


def place_dense(numbers: Numbers) -> npt.NDArray[Any]:
    """What is stored [rows, k], in its places; zero bits where nothing is kept."""
    if numbers.metadata is None:
        return numbers.held
    assert numbers.spec.sparsity is not None
    return decompress(numbers.held, numbers.metadata, sparsity=numbers.spec.sparsity)
