"""Naming what is wrong: a known mistake, or what the wrong calls have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mxspec.dot import EXACTLY, Accumulator, OperandContract, Special
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.products.asked import Asked
from mxspec_conformance.judge.products.mistakes import Mistake, list_mistakes
from mxspec_conformance.judge.products.mistakes.mistake import pick_places
from mxspec_conformance.judge.products.reference import allow, make_sides, refer, round_exactly
from mxspec_conformance.judge.tally import Tally
from mxspec_conformance.results.report import FormatResult
from mxspec_conformance.targets.operands import OperandKind, Product

#: Topics of NaN and infinities.
_SPECIAL = ("nan", "inf")


@dataclass(frozen=True, slots=True)
class Rule:
    """What the sizes of all wrong calls have in common, and those of few right ones: of m, n or k (0, 1, 2) something holds."""

    parts: tuple[tuple[int, str, Callable[[int], bool]], ...]

    @property
    def text(self) -> str:
        """In words."""
        return "where " + " and ".join(f"{'mnk'[axis]} {words}" for axis, words, _ in self.parts)

    def holds(self, x: Asked) -> bool:
        """Whether a call is such."""
        return all(test(x.size[axis]) for axis, _, test in self.parts)


_TILES = (2, 4, 8, 16, 32, 64, 128, 256)
#: Of one size.
_RULES: tuple[tuple[str, Callable[[int], bool]], ...] = (
    ("is 1", lambda size: size == 1),
    *((f"is less than {t}", lambda size, t=t: size < t) for t in _TILES),
    *((f"is more than {t}", lambda size, t=t: size > t) for t in _TILES),
    *((f"is no multiple of {t}", lambda size, t=t: size % t > 0) for t in _TILES),
)  # fmt: skip
#: A rule says something if it holds for no more right calls than one in so many calls, and one in so many right ones.
_RARE, _FEW = 16, 4


def find_rule(wrong: Sequence[Asked], right: Sequence[Asked]) -> Rule | None:
    """The rule that holds for every wrong call and the fewest right ones; of two sizes, where none of one size is rare enough."""
    rules = [Rule(((axis, *rule),)) for rule in _RULES for axis in range(3)]
    holding = [rule for rule in rules if len(wrong) > 1 and all(map(rule.holds, wrong))]
    pairs = [Rule(a.parts + b.parts) for a in holding for b in holding if a.parts[0][0] < b.parts[0][0]]
    for some in (holding, pairs):
        few, rule = min(((sum(map(r.holds, right)), r) for r in some), key=lambda found: found[0], default=(len(right), None))
        if few * _RARE <= len(wrong) + len(right) and few * _FEW <= len(right):
            return rule
    return None


#: What wrong outputs look like: of them, and of right ones in their place.
_LOOKS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("what is wrong is zero, as if it were not written", lambda y, right: y == 0),
    ("what is wrong is NaN, as if a NaN of another place reached it", lambda y, right: np.isnan(y)),
    ("what is wrong is twice what it should be", lambda y, right: y == 2 * right),
    ("what is wrong has the other sign", lambda y, right: y == -right),
)


#: The same with a power of two that is read from the outputs; whether the tensor scales are left out first.
_POWERS = (
    ("what is wrong is 2^{power} times what it should be", False),
    ("the tensor scale has no effect, and what is wrong is 2^{power} times what it should be without one", True),
)
_LEAST_NORMAL = 2.0**-126


def describe_power(wrong: Sequence[Asked], accumulator: Accumulator, contract: OperandContract) -> str | None:
    """The power of two that all wrong outputs have too much or too little, in words; None where there is no one power. Of what is added, such
    as a bias, nothing is known: those calls do not count."""
    wrong = [x for x in wrong if all(x.case.options.get(added) is None for added in ("c", "bias"))]
    for words, is_without in _POWERS:
        powers: set[int] = set()
        for x in wrong:
            case = x.case
            if is_without:
                case = replace(case, a=replace(case.a, tensor_scale=None), b=replace(case.b, tensor_scale=None))
            due = allow(refer(*make_sides(case, contract)), case, accumulator)
            y = x.output.astype(np.float64)
            # Below the least normal number an output may have lost bits.
            seen = due.decided & (due.special == Special.FINITE) & (due.low != 0) & np.isfinite(y) & (np.abs(y) >= _LEAST_NORMAL)
            parts, exponents = np.frexp(y[seen] / due.low[seen])
            powers |= set((exponents - 1).tolist()) if (parts == 0.5).all() else {0, 1}
            if len(powers) > 1:
                break
        if len(powers) == 1 and powers != {0}:
            return words.format(power=powers.pop())
    return None


def describe_common(
    result: FormatResult, wrong: Sequence[Asked], right: Sequence[Asked], rule: Rule | None, tallies: Sequence[Tally],
    accumulator: Accumulator, contract: OperandContract, unsteady: Asked | None = None, *, other: bool = False,
) -> None:  # fmt: skip
    """Enter what all wrong calls have in common, where no mistake is known that gives them, and whether calls depend on each other.

    unsteady: a wrong call that returns other bits when it is made again. other: whether a mistake explains more calls than these.
    """
    alone = not result.deviations
    if wrong and alone:
        with np.errstate(all="ignore"):
            allowed = [(x.output, allow(x.refer(contract), x.case, accumulator)) for x in wrong]
            pairs = [(y[~due.accepts(y)].astype(np.float64), due.low[~due.accepts(y)]) for y, due in allowed]
            result.deviations += [text for text, looks in _LOOKS if all(looks(*pair).all() for pair in pairs)]
            if not result.deviations and (text := describe_power(wrong, accumulator, contract)):
                result.deviations.append(text)
    if rule is not None and (alone or other):
        result.deviations.append(
            f"all {len(wrong)} {'other ' * other}wrong calls are ones {rule.text}, and of {len(right)} right ones {sum(map(rule.holds, right))}"
        )
    if unsteady is not None:
        size = " x ".join(map(str, unsteady.size))
        result.deviations.append(
            f"equal calls return different bits (m x n x k = {size}): parts are added in no fixed order, or an answer depends on earlier calls"
        )
    elif any(tally.topic == "state" and tally.failing for tally in tallies):
        result.deviations.append("the answer depends on earlier calls, or on others at the same time")


def _may_show(mistake: Mistake, x: Asked, accumulator: Accumulator, contract: OperandContract) -> bool:
    """Whether the outputs are the mistake's, or it changes none of them."""
    right = round_exactly(x.refer(contract), x.case)
    return any(mistake.fits(x.case, output, accumulator, contract) for output in (x.output, right))


def _find_clause(
    mistake: Mistake, wrong: Sequence[Asked], right: Sequence[Asked], accumulator: Accumulator, contract: OperandContract, *, by_size: bool
) -> str | None:
    """Where a mistake shows in no right call: everywhere (empty); in calls of a size, as all wrong ones are; None: nowhere."""
    unlike = (x for x in right if not mistake.fits(x.case, x.output, accumulator, contract))
    if not by_size:
        return None if any(True for _ in unlike) else ""
    shown = list(unlike)
    rules = (Rule(((axis, *rule),)) for rule in _RULES for axis in range(3))
    return next((f"{r.text}, " for r in rules if all(map(r.holds, wrong)) and not any(map(r.holds, shown))), None) if shown else ""


def name_mistakes(
    wrong: Sequence[Asked], right: Sequence[Asked], accumulator: Accumulator, contract: OperandContract = EXACTLY, *, by_size: bool = False
) -> dict[int, frozenset[Explanation]]:
    """For each wrong case the mistakes that explain it and all others of its topic, and would have shown in no right one.

    by_size: also those that would have, but in no right one of a size that all wrong ones have.
    """
    by_topic: dict[str, list[Asked]] = {}
    for x in wrong:
        by_topic.setdefault(x.case.topic, []).append(x)
    mistakes = list(list_mistakes())
    named: dict[int, frozenset[Explanation]] = {}
    for topic, group in by_topic.items():
        left = mistakes
        special = topic in _SPECIAL
        # Whether what is left out or read wrongly meets a NaN is another question than what it does to numbers.
        others, unlike = ([x for x in cases if x.case.topic == topic or x.case.topic not in _SPECIAL] for cases in (right, wrong))
        for x in sorted(group, key=lambda x: x.output.size * x.case.a.shape[1]):
            with np.errstate(all="ignore"):
                first = pick_places(~allow(x.refer(contract), x.case, accumulator).accepts(x.output))
                left = [m for m in left if m.explains(x.case, x.output, accumulator, contract, first=first)]
        with np.errstate(all="ignore"):
            clauses = {m.text: _find_clause(m, group, others, accumulator, contract, by_size=by_size) for m in left}
            left = [m for m in left if clauses[m.text] is not None]
            # What becomes of every output, or shows in no number alone, would show in the wrong cases of other topics, too.
            left = [
                m
                for m in left
                if (m.outputs is None and not special and not m.is_general) or all(_may_show(m, x, accumulator, contract) for x in unlike)
            ]
        explained = frozenset(Explanation(Cause.PRODUCT_MISTAKE, f"{clauses[mistake.text]}{mistake.text}") for mistake in left)
        named |= {id(x): explained for x in group}
    return named


def naming_contract(product: Product, contract: OperandContract) -> OperandContract:
    """The contract under which mistakes are looked for: codes of an affine side become numbers by it; of sides with scales a
    mistake shows in numbers that nothing rounds, and plain ones are rounded only where that is declared."""
    return contract if contract.plain or OperandKind.AFFINE in (product.a.kind, product.b.kind) else EXACTLY
