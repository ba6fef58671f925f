"""A straightforward implementation of the sparse functions, in steps that mutants replace; nothing of the model is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.mutants.staged import NOTHING, Staged, Step, Variant, Wrap

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Form:
    """What the steps need to know of a sparse format."""

    name: str
    #: Codes that are kept or dropped together.
    unit: int
    #: Bits of a code, and whether its top bit is a sign.
    bits: int
    signed_magnitude: bool
    #: Magnitude by code without its sign; None: as the code.
    table: tuple[int, ...] | None = None


_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12)
FORMS = {
    f.name: f
    for f in (
        Form("e2m1-2to4", 1, 4, True, _E2M1),
        Form("e2m1-4to8", 2, 4, True, _E2M1),
        Form("int4-2to4", 1, 4, False),
        Form("int4-4to8", 2, 4, False),
        Form("e2m3-2to4", 1, 6, True),
        Form("e3m2-2to4", 1, 6, True),
        Form("e4m3-2to4", 1, 8, True),
        Form("e5m2-2to4", 1, 8, True),
        Form("int8-2to4", 1, 8, False),
    )
}


def magnitude(codes: Array, form: Form) -> Array:
    """Whole numbers in the order of the magnitudes; of 4-bit codes proportional to them."""
    if not form.signed_magnitude:
        wide = codes.astype(np.int64)
        return np.abs(np.where(wide >= 1 << form.bits - 1, wide - (1 << form.bits), wide))
    low = codes & (1 << form.bits - 1) - 1
    return low.astype(np.int64) if form.table is None else np.array(form.table, np.int64)[low]


def split(codes: Array, form: Form) -> Array:
    """Groups [..., n, 4, unit] of rows [..., K]. Raises ValueError for rows that are no whole groups."""
    if codes.shape[-1] % (4 * form.unit):
        raise ValueError(f"{codes.shape[-1]} columns are no whole groups")
    return codes.reshape(*codes.shape[:-1], -1, 4, form.unit)


def weigh(codes: Array, form: Form) -> Any:
    """One weight for each unit."""
    return magnitude(codes, form).sum(axis=-1)


def select(weights: Array) -> Array:
    """Positions of the two that are kept, ascending: the heavier ones, of equal ones the lower."""
    return np.sort(np.argsort(-weights, axis=-1, kind="stable")[..., :2], axis=-1)


def blank(groups: Array, kept: Array, form: Form) -> Array:
    """Groups with zeros where nothing is kept."""
    out = np.zeros_like(groups)
    np.put_along_axis(out, kept[..., None], np.take_along_axis(groups, kept[..., None], axis=-2), axis=-2)
    return out


def join(groups: Array, form: Form) -> Array:
    """Rows of groups."""
    return groups.reshape(*groups.shape[:-3], -1)


def find(groups: Array, form: Form) -> Array:
    """Positions to store of groups that are sparse: those of numbers, then zeros at the lowest positions."""
    return select((magnitude(groups, form) != 0).any(axis=-1).astype(np.int64))


def gather(groups: Array, kept: Array, form: Form) -> Array:
    """Kept units [..., n, 2, unit]."""
    return np.take_along_axis(groups, kept[..., None], axis=-2)


def encode(kept: Array, form: Form) -> Array:
    """Nibbles of ascending positions."""
    return (kept[..., 1] << 2 | kept[..., 0]).astype(np.uint8)


def decode(nibbles: Array, form: Form) -> Array:
    """Positions of nibbles."""
    return np.stack([nibbles & 3, nibbles >> 2 & 3], axis=-1).astype(np.intp)


def scatter(units: Array, kept: Array, form: Form) -> Array:
    """Groups with units at positions."""
    out = np.zeros((*units.shape[:-2], 4, form.unit), np.uint8)
    np.put_along_axis(out, kept[..., None], units, axis=-2)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVariant(Variant):
    """A variant of the target below, wrong or right."""

    #: The function by which a wrong one is judged; right ones are judged by all.
    function: str = ""
    #: What the target declares: a rule, a layout.
    declared: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def build(self, formats: tuple[str, ...]) -> Plain:
        """The target."""
        return Plain(name=self.id, formats=formats, change=self.change, wrap=self.wrap, **self.declared)


#: Steps by name, in the order in which the functions take them.
STEPS: Mapping[str, Step] = {
    f.__name__: f for f in (split, weigh, select, blank, join, find, gather, encode, decode, scatter)
}  # fmt: skip


class Plain(Staged):
    """A target."""

    def __init__(
        self, *, name: str = "plain", formats: tuple[str, ...] = tuple(FORMS), change: Mapping[str, Step] = NOTHING,
        wrap: Mapping[str, Wrap] = NOTHING, **declared: Any,
    ) -> None:  # fmt: skip
        super().__init__(name, STEPS, change, wrap)
        self.SPARSE_FORMATS = formats
        for key, value in declared.items():
            setattr(self, key, value)

    def prune(self, codes: Any, fmt: str) -> Any:
        """Codes with the two heaviest units of each group."""
        form, step = FORMS[fmt], self._steps
        groups = step["split"](np.asarray(codes), form)
        kept = step["select"](step["weigh"](groups, form))
        return step["join"](step["blank"](groups, kept, form), form)

    def compress(self, codes: Any, fmt: str) -> Any:
        """Kept codes and nibbles."""
        form, step = FORMS[fmt], self._steps
        groups = step["split"](np.asarray(codes), form)
        kept = step["find"](groups, form)
        return step["join"](step["gather"](groups, kept, form), form), step["encode"](kept, form)

    def decompress(self, kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
        """Dense codes."""
        form, step = FORMS[fmt], self._steps
        units = np.asarray(kept).reshape(*np.shape(metadata), 2, form.unit)
        return step["join"](step["scatter"](units, step["decode"](np.asarray(metadata), form), form), form)
