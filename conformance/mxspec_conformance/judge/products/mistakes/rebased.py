"""Block scales that a kernel brings to one scale for a row or for the operand: what lies far below the largest is rounded, kept too large, or lost.

Kernels that expand 4-bit weights to FP8 do so: the matrix unit takes one scale for many blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from mxspec.dot import OperandContract, round_floats
from mxspec.formats import ELEMENTS, ElementFormat
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.mistakes.mistake import Codes, Floats, Mistake, keep_case
from mxspec_conformance.judge.products.mistakes.sides import SIDES
from mxspec_conformance.judge.products.reference import Sides, change_values
from mxspec_conformance.targets.operands import OperandKind

#: Numbers [rows, k], and how many binades each lies under the largest scale of its row or operand [rows, k] -> what is multiplied.
_Hold = Callable[[Floats, Codes, Floats], Floats]

#: Binades below the largest scale that a kernel may keep.
_SPANS = range(4, 33)


def _clamp(values: Floats, below: Codes, _: Floats, *, span: int) -> Floats:
    near: Floats = np.ldexp(values, np.maximum(below.astype(int) - span, 0))
    return near


def _lose(values: Floats, below: Codes, _: Floats, *, span: int) -> Floats:
    return np.where(below > span, values * 0, values)


def _round(values: Floats, _: Codes, largest: Floats, *, element: ElementFormat, top: int) -> Floats:
    """top: the exponent by which codes under the largest scale are multiplied."""
    most = float(element.max_value)
    held = np.clip(np.ldexp(values, top - largest.astype(int)), -most, most)
    rounded: Floats = np.ldexp(round_floats(held, element), largest.astype(int) - top)
    return rounded


def _rebase(hold: _Hold, whole: bool, sides: str, case: ProductCase, found: Sides, _: OperandContract) -> Sides | None:
    factors = dict(zip("ab", found, strict=True))
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.spec.kind is not OperandKind.BLOCK or not numbers.spec.block.is_mx or factors[side].rest is not None:
            return None
        assert numbers.scales is not None
        scales = np.where(numbers.scales == 0xFF, 0, numbers.scales)  # a NaN is not the largest
        largest = scales.max(axis=None if whole else 1, initial=0, keepdims=True)
        below = np.repeat(np.maximum(largest - scales, 0), numbers.spec.block.k, axis=1)
        if below.shape != factors[side].values.shape:
            return None
        with np.errstate(all="ignore"):
            factors[side] = change_values(factors[side], hold(factors[side].values, below, largest - 127.0))
    return factors["a"], factors["b"]


_NARROW = "numbers of {side} are rounded to {name} under one scale for {all}, 2^-{top} times the largest"
_LOST = "blocks of {side} whose scale lies more than {span} binades below the largest of {all} are taken as zero"
_NEAR = "scales of {side} that lie more than {span} binades below the largest of {all} are taken as 2^-{span} times it"


def list_rebased_mistakes() -> Iterator[Mistake]:
    """Each for a row and for the operand, of either operand."""
    ways: list[tuple[str, _Hold, dict[str, object]]] = []
    for element in (ELEMENTS["e4m3"], ELEMENTS["e5m2"]):
        tops = range(element.emax - 1)  # 6 times 2^top is a number of the format
        ways += [(_NARROW, partial(_round, element=element, top=top), {"name": element.name.upper(), "top": top}) for top in tops]
    for span in _SPANS:
        ways += [(text, partial(hold, span=span), {"span": span}) for text, hold in ((_LOST, _lose), (_NEAR, _clamp))]
    for sides, words in SIDES[:2]:
        for text, hold, values in ways:
            for whole, unit in ((False, "the row"), (True, "the operand")):
                yield Mistake(text.format(side=words, all=unit, **values), keep_case, partial(_rebase, hold, whole, sides), is_general=True)
