"""Choosing what to keep: pruning, compressing, and which choices are right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import ElementFormat
from mxspec.inputs import as_array
from mxspec.sparsity.kinds import Kind, Magnitudes, Nibble, get_kind
from mxspec.sparsity.patterns import POSITIONS, Codes, Sparsity, check_k, check_metadata, gather, get_sparsity, scatter
from mxspec.sparsity.rules import Norm, PruneRule, Ties, Weigh, get_rule

#: Pairs of positions, a bit of a comparison for each.
_PAIRS = tuple(itertools.combinations(range(4), 2))


def _compare(weight: Magnitudes, ties: Ties) -> npt.NDArray[np.uint8]:
    """Of weights [..., 4] a bit for each of `_PAIRS`: whether its first position goes before its second."""
    found = np.zeros(weight.shape[:-1], np.uint8)
    before = np.greater_equal if ties is Ties.LOWER else np.greater
    for bit, (first, second) in enumerate(_PAIRS):
        found |= before(weight[..., first], weight[..., second]).astype(np.uint8) << bit
    return found


def _rank() -> Codes:
    """The nibble that keeps the first two, by what `_compare` says of an order."""
    nibbles = np.zeros(1 << len(_PAIRS), np.uint8)
    for order in itertools.permutations(range(4)):
        compared = sum((order.index(first) < order.index(second)) << bit for bit, (first, second) in enumerate(_PAIRS))
        low, high = sorted(order[:2])
        nibbles[compared] = high << 2 | low
    return nibbles


_RANKED = _rank()


def choose_kept(
    codes: npt.ArrayLike, *, kind: str | Nibble | ElementFormat = Nibble.E2M1,
    sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR, rule: str | PruneRule = "lower",
) -> Codes:  # fmt: skip
    """The metadata nibbles that a rule of pruning gives: uint8 [..., K / group].

    Args:
        codes: [..., K]: uint8 codes, one to a byte, or numbers of a float type.
        kind: What they are: "e2m1" or another element format, "int4", or "float32", "float16", "bfloat16" for plain numbers.
        sparsity: "2:4", or "4:8" for pairs of 4-bit codes.
        rule: Which are kept of equal ones; see `RULES`. By default magnitudes decide (of pairs their sum), ties go to the
            lower position. -0 is zero.

    Raises:
        TypeError: The items have another type than the kind.
        ValueError: K is no multiple of the group, an item is NaN or has too many bits, pairs of anything but 4-bit codes.
    """
    what, pattern, chosen = get_kind(kind), get_sparsity(sparsity), get_rule(rule)
    grouped = _group(codes, what, pattern)
    order = what.order(grouped)
    if chosen.by_nonzero:
        nonzero = (order != 0).any(axis=-1) @ (1 << np.arange(4))
        by_mask: Codes = np.array(chosen.by_nonzero, np.uint8)[nonzero]
        return by_mask
    weight = grouped.astype(np.int64).sum(axis=-1) if chosen.weigh is Weigh.CODE else _measure(order, chosen.norm)
    return _RANKED[_compare(weight, chosen.ties)]


def find_largest(
    codes: npt.ArrayLike, *, kind: str | Nibble | ElementFormat = Nibble.E2M1,
    sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR,
) -> Codes:  # fmt: skip
    """Which patterns keep the largest, ties in any way: uint8 [..., K / group], bit i for the i-th nibble of `KEPT`.

    Of pairs a pattern counts that keeps the largest by the sum of magnitudes, by their squares, or by the larger one: no text
    says which. Arguments and errors are those of `choose_kept`.
    """
    what, pattern = get_kind(kind), get_sparsity(sparsity)
    order = what.order(_group(codes, what, pattern))
    found = np.zeros(order.shape[:-2], np.uint8)
    for norm in Norm if pattern.unit > 1 else (Norm.SUM,):
        weight = _measure(order, norm)
        for number, kept in enumerate(POSITIONS):
            dropped = [i for i in range(4) if i not in kept]
            best = weight[..., kept].min(axis=-1) >= weight[..., dropped].max(axis=-1)
            found |= (best << number).astype(np.uint8)
    return found


def prune(
    codes: npt.ArrayLike, *, kind: str | Nibble | ElementFormat = Nibble.E2M1,
    sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR, rule: str | PruneRule = "lower",
) -> npt.NDArray[Any]:  # fmt: skip
    """The codes, or numbers, with all but those that `choose_kept` keeps set to 0; same shape and type."""
    nibbles = choose_kept(codes, kind=kind, sparsity=sparsity, rule=rule)
    pattern = get_sparsity(sparsity)
    return scatter(gather(get_kind(kind).check(codes), nibbles, pattern), nibbles, pattern)


def compress(
    codes: npt.ArrayLike, *, kind: str | Nibble | ElementFormat = Nibble.E2M1,
    sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR,
) -> tuple[npt.NDArray[Any], Codes]:  # fmt: skip
    """Kept codes [..., K / 2] and canonical metadata [..., K / group] of codes that are sparse already.

    Canonical: where fewer than two are non-zero, zeros at the lowest positions are kept too (0000 gives 4). Others choose
    otherwise, and mean the same: compare what is decompressed.

    Raises:
        ValueError: More than two of a group are non-zero: prune first. The message names the group. Also as `choose_kept`.
    """
    what, pattern = get_kind(kind), get_sparsity(sparsity)
    array = what.check(codes)
    nibbles = choose_kept(array, kind=kind, sparsity=pattern)
    kept = gather(array, nibbles, pattern)
    order = what.order(array)
    lost = what.order(scatter(kept, nibbles, pattern)) != order
    if lost.any():
        place = tuple(int(i) for i in np.argwhere(lost)[0])
        first = place[-1] // pattern.group * pattern.group
        group = array[place[:-1]][first : first + pattern.group]
        raise ValueError(
            f"codes {group.tolist()} at {place[:-1]}, group {place[-1] // pattern.group}, are not {pattern}-sparse "
            f"(k = {first} to {first + pattern.group - 1}); call prune first"
        )
    return kept, nibbles


def take(items: npt.ArrayLike, metadata: npt.ArrayLike, *, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR) -> npt.NDArray[Any]:
    """What legal nibbles [..., K / group] keep of items [..., K] of any type: [..., K / 2].

    For items whose code 0 is no zero, such as affine ones: choose by their numbers, then take their codes.
    """
    pattern, array, nibbles = get_sparsity(sparsity), as_array(items, name="items"), as_array(metadata, name="metadata")
    check_metadata(nibbles)
    wanted = (*nibbles.shape[:-1], nibbles.shape[-1] * pattern.group)
    if array.shape != wanted:
        raise ValueError(f"items have shape {array.shape}; metadata of shape {nibbles.shape} speak of {wanted} under {pattern}")
    return gather(array, nibbles, pattern)


def _measure(order: Magnitudes, norm: Norm) -> Magnitudes:
    """One weight for each unit [..., 4, unit]."""
    if order.shape[-1] == 1:
        return order[..., 0]
    found: Magnitudes = order.max(axis=-1) if norm is Norm.MAX else (order**2 if norm is Norm.SQUARES else order).sum(axis=-1)
    return found


def _group(codes: npt.ArrayLike, kind: Kind, pattern: Sparsity) -> npt.NDArray[Any]:
    """[..., groups, 4, unit]."""
    array = kind.check(codes)
    if pattern is Sparsity.PAIRS and (kind.bits != 4 or kind.table is None):
        raise ValueError(f"{pattern} are pairs of 4-bit codes that share a byte; {kind.name} is kept {Sparsity.TWO_OF_FOUR}")
    if array.ndim == 0:
        raise ValueError("codes are a single number; pass at least one axis, along which the groups lie")
    check_k(array.shape[-1], pattern)
    return array.reshape(*array.shape[:-1], array.shape[-1] // pattern.group, 4, pattern.unit)


__all__ = ["choose_kept", "compress", "find_largest", "prune", "take"]
