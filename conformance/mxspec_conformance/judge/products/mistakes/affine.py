"""Mistakes in reading affine integers: scales and offsets of other groups, offsets of another meaning, codes in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import ml_dtypes
import numpy as np

from mxspec.affine import Offset, get_contract
from mxspec.dot import Factor, OperandContract
from mxspec.dot.affine import combine_numbers
from mxspec.sparsity import decompress
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.editing import place_dense
from mxspec_conformance.judge.products.mistakes.mistake import Floats, Mistake, keep_case
from mxspec_conformance.judge.products.mistakes.other_places import OTHER_PLACES
from mxspec_conformance.judge.products.mistakes.sides import SIDES
from mxspec_conformance.judge.products.reference import Sides
from mxspec_conformance.targets.operands import Numbers, OperandKind


@dataclass(frozen=True, slots=True)
class Parts:
    """What each number [rows, k] is made of: its code, its scale, its offset."""

    q: Floats
    s: Floats
    o: Floats


Change = Callable[[Numbers, Parts], Parts | None]


def _spread(numbers: Numbers, shared: Floats) -> Floats:
    """One for each number, of one for each group."""
    return np.repeat(shared.astype(np.float64), numbers.spec.group, axis=1)


def _from_elsewhere(place: Callable[[Floats], Floats | None], what: str, numbers: Numbers, parts: Parts) -> Parts | None:
    """The scale, the offset or both of another group."""
    assert numbers.scales is not None
    assert numbers.offsets is not None
    found = {}
    for name, shared in (("s", numbers.scales), ("o", numbers.offsets)):
        if name in what:
            moved = place(shared.astype(np.float64))
            if moved is None:
                return None
            found[name] = _spread(numbers, moved)
    return replace(parts, **found)


def _index_groups(numerator: int, denominator: int, numbers: Numbers, parts: Parts) -> Parts | None:
    """Groups of another length: the last one's scale and offset for what lies beyond all."""
    group, (_, k) = numbers.spec.group, numbers.shape
    length = group * numerator // denominator
    if length == 0 or numbers.spec.sparsity is not None:
        return None
    index = np.minimum(np.arange(k) // length, k // group - 1)
    return replace(parts, s=parts.s[:, ::group][:, index], o=parts.o[:, ::group][:, index])


# Offsets.


def _of_zero(change: Callable[[Parts], Parts]) -> Change:
    return lambda numbers, parts: change(parts) if numbers.spec.affine.offset is Offset.ZERO else None


def _of_bias(change: Callable[[Parts], Parts]) -> Change:
    return lambda numbers, parts: change(parts) if numbers.spec.affine.offset is Offset.BIAS else None


def _round_bias(parts: Parts) -> Parts:
    with np.errstate(all="ignore"):
        whole = np.rint(parts.o / parts.s) * parts.s
    return replace(parts, o=np.where(np.isfinite(whole), whole, parts.o))


def _unscaled_zero(parts: Parts) -> Parts:
    with np.errstate(all="ignore"):
        return replace(parts, o=parts.o / parts.s)


def _half_range(numbers: Numbers, parts: Parts) -> Parts | None:
    half = 1 << (numbers.spec.affine.bits - 1)
    zero = numbers.spec.affine.offset is Offset.ZERO
    return replace(parts, o=np.full_like(parts.o, half)) if zero else replace(parts, q=parts.q - half)


def _zero_wraps(numbers: Numbers, parts: Parts) -> Parts | None:
    """A zero point less one, plus one, that is 15 of four bits in between, or stays so."""
    if numbers.spec.affine.offset is not Offset.ZERO:
        return None
    return replace(parts, o=np.where(parts.o == 0, (1 << numbers.spec.affine.bits) - 1, parts.o))


def _last_ignored(numbers: Numbers, parts: Parts) -> Parts | None:
    offsets = parts.o.copy()
    offsets[:, -numbers.spec.group :] = 0
    return replace(parts, o=offsets)


# Scales and biases as numbers.

_OTHER = {"float16": (np.float16, ml_dtypes.bfloat16), "bfloat16": (ml_dtypes.bfloat16, np.float16)}


def _reread(what: str, numbers: Numbers, parts: Parts) -> Parts | None:
    """The 16 bits of a scale or bias as the other 16-bit float."""
    fmt = numbers.spec.affine
    if fmt.dtype not in _OTHER or ("o" in what and fmt.offset is Offset.ZERO):
        return None
    own, other = _OTHER[fmt.dtype]
    found = {name: getattr(parts, name).astype(own).view(other).astype(np.float64) for name in what}
    return replace(parts, **found)


def _divide(_: Numbers, parts: Parts) -> Parts | None:
    with np.errstate(all="ignore"):
        return replace(parts, s=1 / parts.s)


# Codes.


def _signed(numbers: Numbers, parts: Parts) -> Parts | None:
    bits = numbers.spec.affine.bits
    return replace(parts, q=np.where(parts.q >= 1 << (bits - 1), parts.q - (1 << bits), parts.q))


def _swapped(numbers: Numbers, parts: Parts) -> Parts | None:
    if numbers.spec.affine.bits != 4 or numbers.spec.sparsity is not None:
        return None
    return _reordered([1, 0], 1, numbers, parts)


#: Where AWQ's words hold each of eight codes, and the inverse.
_AWQ, _AWQ_BACK = [0, 2, 4, 6, 1, 3, 5, 7], [0, 4, 1, 5, 2, 6, 3, 7]


def _reordered(order: list[int], axis: int, numbers: Numbers, parts: Parts) -> Parts | None:
    """Codes of each run along an axis in another order."""
    q = parts.q if axis else parts.q.T
    if q.shape[1] % len(order) or numbers.spec.sparsity is not None:
        return None
    moved = q.reshape(len(q), -1, len(order))[:, :, order].reshape(q.shape)
    return replace(parts, q=moved if axis else moved.T)


_WHAT = (("scale", "s"), ("offset", "o"), ("scale and offset", "so"))

CHANGES: tuple[tuple[str, Change], ...] = (
    *((words.format(what=what if "{unit}" in words else f"group {what}", unit="group", side="{side}"), partial(_from_elsewhere, place, names))
      for what, names in _WHAT for words, place in OTHER_PLACES),
    ("the zero points of {side} are one too large", _of_zero(lambda p: replace(p, o=p.o + 1))),
    ("the zero points of {side} are one too small", _of_zero(lambda p: replace(p, o=p.o - 1))),
    ("the zero points of {side} are added", _of_zero(lambda p: replace(p, o=-p.o))),
    ("the zero points of {side} are not scaled", _of_zero(_unscaled_zero)),
    ("the biases of {side} are subtracted", _of_bias(lambda p: replace(p, o=-p.o))),
    ("the biases of {side} are scaled", _of_bias(lambda p: replace(p, o=p.o * p.s))),
    ("the biases of {side} are rounded to whole steps of the scale", _of_bias(_round_bias)),
    ("the offsets of {side} are ignored", lambda _, p: replace(p, o=np.zeros_like(p.o))),
    ("the offset of the last group of {side} is ignored", _last_ignored),
    ("half the range of the codes of {side} is subtracted", _half_range),
    ("the codes of {side} are read as two's complement", _signed),
    ("the scales of {side} are read as the other 16-bit float", partial(_reread, "s")),
    ("the biases of {side} are read as the other 16-bit float", partial(_reread, "o")),
    ("the scales and biases of {side} are read as the other 16-bit float", partial(_reread, "so")),
    ("the scales of {side} are ignored", lambda _, p: replace(p, s=np.ones_like(p.s))),
    ("the scales of {side} divide", _divide),
    ("the signs of {side}'s scales are dropped", lambda _, p: replace(p, s=np.abs(p.s))),
    ("groups of {side} are taken as half as long", partial(_index_groups, 1, 2)),
    ("groups of {side} are taken as twice as long", partial(_index_groups, 2, 1)),
    ("the two nibbles of a byte of {side} are swapped", _swapped),
    ("eight codes of {side} along k are taken in AWQ's order", partial(_reordered, _AWQ, 1)),
    ("eight codes of {side} along k are taken in the inverse of AWQ's order", partial(_reordered, _AWQ_BACK, 1)),
    ("eight rows of {side}'s codes are taken in AWQ's order", partial(_reordered, _AWQ, 0)),
    ("eight rows of {side}'s codes are taken in the inverse of AWQ's order", partial(_reordered, _AWQ_BACK, 0)),
    ("zero points 0 of {side} are read as the largest: one is subtracted, and wraps", _zero_wraps),
)  # fmt: skip


def _make_side(numbers: Numbers, change: Change, contract: OperandContract) -> Factor | None:
    assert numbers.scales is not None
    assert numbers.offsets is not None
    shared = (_spread(numbers, part.astype(np.float64)) for part in (numbers.scales, numbers.offsets))
    changed = change(numbers, Parts(place_dense(numbers).astype(np.float64), *shared))
    if changed is None:
        return None
    fmt = numbers.spec.affine
    factor = combine_numbers(changed.q, changed.s, changed.o, fmt, get_contract(contract.affine, fmt))
    if factor.rest is not None and not factor.rest.any():
        # What is ignored is multiplied by nothing: an infinity times a zero offset would be NaN.
        factor = replace(factor, rest=None)
    if numbers.metadata is None:
        return factor
    assert numbers.spec.sparsity is not None
    kept = decompress(np.ones(numbers.held.shape, np.bool_), numbers.metadata, sparsity=numbers.spec.sparsity)
    rest = None if factor.rest is None else np.where(kept, factor.rest, 0)
    return replace(factor, values=np.where(kept, factor.values, 0), rest=rest, kept=kept)


def _change_sides(change: Change, sides: str, case: ProductCase, found: Sides, contract: OperandContract) -> Sides | None:
    factors = dict(zip("ab", found, strict=True))
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.spec.kind is not OperandKind.AFFINE:
            return None
        factor = _make_side(numbers, change, contract)
        if factor is None:
            return None
        factors[side] = factor
    return factors["a"], factors["b"]


def list_affine_mistakes() -> Iterator[Mistake]:
    """Mistakes on either side and on both."""
    for sides, words in SIDES:
        for text, change in CHANGES:
            yield Mistake(text.format(side=words), keep_case, partial(_change_sides, change, sides))
