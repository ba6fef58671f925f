"""Mistakes in reading a sparse side: metadata of other groups, kept numbers in other places, scales by kept places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from mxspec.dot import Factor, OperandContract
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.editing import place_dense
from mxspec_conformance.judge.products.mistakes.mistake import Codes, Mistake, keep_case, replace_side
from mxspec_conformance.judge.products.mistakes.other_places import OTHER_PLACES
from mxspec_conformance.judge.products.mistakes.sides import SIDES
from mxspec_conformance.judge.products.reference import Sides, make_factor
from mxspec_conformance.targets.operands import Numbers, OperandKind

# Metadata.


def _swap_nibbles(nibbles: Codes) -> Codes | None:
    return nibbles.reshape(len(nibbles), -1, 2)[:, :, ::-1].reshape(nibbles.shape) if nibbles.shape[1] % 2 == 0 else None


def _first_two(nibbles: Codes) -> Codes:
    return np.full_like(nibbles, 4)


def _last_two(nibbles: Codes) -> Codes:
    return np.full_like(nibbles, 14)


#: Legal nibble -> that of the same places counted from the other end.
_MIRRORED = np.zeros(16, np.uint8)
_MIRRORED[[4, 8, 9, 12, 13, 14]] = [14, 13, 9, 12, 8, 4]


def _exchange(numbers: Numbers) -> Numbers:
    """The two items, or pairs, of each group in each other's place."""
    assert numbers.spec.sparsity is not None
    held = numbers.held.reshape(len(numbers.held), -1, 2, numbers.spec.sparsity.unit)[:, :, ::-1].reshape(numbers.held.shape)
    return numbers.with_held(held)


def _from_the_end(numbers: Numbers) -> Numbers:
    assert numbers.metadata is not None
    return replace(_exchange(numbers), metadata=_MIRRORED[numbers.metadata])


def _neighbours(numbers: Numbers) -> Numbers | None:
    """Two neighbours of what is stored in each other's place: of pairs within one pair."""
    held = numbers.held.reshape(len(numbers.held), -1, 2)[:, :, ::-1].reshape(numbers.held.shape)
    if numbers.spec.sparsity is None or numbers.spec.sparsity.unit == 1:
        return None
    return numbers.with_held(held)


def _scales_of_kept(numbers: Numbers) -> Numbers | None:
    """Scales and offsets are looked up by the place among the kept: half of k / group."""
    if numbers.scales is None or numbers.scales.shape[1] < 2:
        return None
    index = np.arange(numbers.scales.shape[1]) // 2
    offsets = None if numbers.offsets is None else numbers.offsets[:, index]
    return replace(numbers, scales=numbers.scales[:, index], offsets=offsets)


def _change_metadata(change: Callable[[Codes], Codes | None], numbers: Numbers) -> Numbers | None:
    assert numbers.metadata is not None
    found = change(numbers.metadata)
    return None if found is None else replace(numbers, metadata=np.ascontiguousarray(found))


CHANGES: tuple[tuple[str, Callable[[Numbers], Numbers | None]], ...] = (
    *((words.format(what="metadata", unit="group", side="{side}").replace("metadatas", "metadata"), partial(_change_metadata, place))
      for words, place in OTHER_PLACES),
    ("the two nibbles of a byte of {side}'s metadata are swapped", partial(_change_metadata, _swap_nibbles)),
    ("the kept of {side} stand in the first two places of each group, whatever metadata say", partial(_change_metadata, _first_two)),
    ("the kept of {side} stand in the last two places of each group, whatever metadata say", partial(_change_metadata, _last_two)),
    ("the two kept of each group of {side} are exchanged", _exchange),
    ("places in groups of {side} are counted from the other end", _from_the_end),
    ("the numbers of each pair of {side} are exchanged", _neighbours),
    ("scales of {side} are those of kept places, not of dense ones", _scales_of_kept),
)  # fmt: skip


def _change_sides(change: Callable[[Numbers], Numbers | None], sides: str, case: ProductCase) -> ProductCase | None:
    for side in sides:
        numbers = case.a if side == "a" else case.b
        changed = None if numbers.metadata is None else change(numbers)
        if changed is None:
            return None
        case = replace_side(case, side, changed) or case
    return case


# What no sparse side holds.


def _as_dense(numbers: Numbers) -> Numbers:
    """Zero bits where nothing is kept, as if they were stored."""
    held = place_dense(numbers)
    dense = replace(numbers, spec=replace(numbers.spec, sparsity=None), metadata=None)
    return dense.with_held(held)


def _without_metadata(numbers: Numbers, contract: OperandContract) -> Factor | None:
    """What is kept is taken as the first half of k."""
    kept = numbers.held
    dense = replace(numbers, spec=replace(numbers.spec, sparsity=None), metadata=None)
    held = np.concatenate([kept, np.zeros_like(kept)], axis=1)
    factor = make_factor(dense.with_held(held), contract)
    half = np.arange(factor.k) < factor.k // 2
    rest = None if factor.rest is None else np.where(half, factor.rest, 0)
    return replace(factor, values=np.where(half, factor.values, 0), rest=rest)


def _dropped_count(numbers: Numbers, contract: OperandContract) -> Factor | None:
    """Code 0 of affine integers, where nothing is kept, counts as the number that it stands for."""
    return make_factor(_as_dense(numbers), contract) if numbers.spec.kind is OperandKind.AFFINE else None


FACTORS: tuple[tuple[str, Callable[[Numbers, OperandContract], Factor | None]], ...] = (
    ("the kept of {side} are taken as the first half of k, and metadata are ignored", _without_metadata),
    ("what was dropped of {side} counts with its group's offset", _dropped_count),
)


def _change_factors(
    change: Callable[[Numbers, OperandContract], Factor | None], sides: str, case: ProductCase, found: Sides, contract: OperandContract
) -> Sides | None:
    factors = dict(zip("ab", found, strict=True))
    for side in sides:
        numbers = case.a if side == "a" else case.b
        factor = None if numbers.metadata is None else change(numbers, contract)
        if factor is None:
            return None
        factors[side] = factor
    return factors["a"], factors["b"]


def list_sparse_mistakes() -> Iterator[Mistake]:
    """Mistakes on either side and on both."""
    for sides, words in SIDES:
        for text, change in CHANGES:
            yield Mistake(text.format(side=words), partial(_change_sides, change, sides))
        for text, change_factor in FACTORS:
            yield Mistake(text.format(side=words), keep_case, partial(_change_factors, change_factor, sides))
