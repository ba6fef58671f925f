"""Rules of pruning as data: what is kept where magnitudes leave a choice, and what real procedures do instead.

Which two of four are the largest is no matter of opinion unless some are equal. A rule pins the choice; descriptive rules also
reproduce procedures that do not keep the largest.
"""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.enums import StrEnum
from mxspec.layouts.schema import Evidence
from mxspec.suggestions import refuse_name


class Weigh(StrEnum):
    """By what an item is weighed."""

    MAGNITUDE = "magnitude"
    #: The code as an unsigned number: what `abs` of a code gives.
    CODE = "code"
    #: Not at all: only zero or not counts.
    NONZERO = "nonzero"


class Norm(StrEnum):
    """How the weights of a pair become one; of single items all are the same."""

    SUM = "sum"
    SQUARES = "squares"
    MAX = "max"


class Ties(StrEnum):
    """Which of equal weights are kept."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRule:
    """One function from a group to the two that are kept."""

    name: str
    summary: str
    ties: Ties = Ties.LOWER
    weigh: Weigh = Weigh.MAGNITUDE
    norm: Norm = Norm.SUM
    #: Nibble by which of the four are not zero (bit i: position i); overrides everything else.
    by_nonzero: tuple[int, ...] = ()
    source: str
    evidence: Evidence

    @property
    def keeps_largest(self) -> bool:
        """Whether no larger magnitude is ever dropped for a smaller one."""
        return self.weigh is Weigh.MAGNITUDE and not self.by_nonzero


RULES: dict[str, PruneRule] = {
    r.name: r
    for r in (
        PruneRule(
            name="lower", summary="of equal magnitudes the lower position; pairs by the sum of their magnitudes",
            source="Metal Marlin, sparse format, 8.1: ties broken by lower index", evidence=Evidence.READ,
        ),
        PruneRule(
            name="higher", summary="of equal magnitudes the higher position; pairs by the sum of their magnitudes",
            ties=Ties.HIGHER, source="the last two of a stable sort", evidence=Evidence.READ,
        ),
        PruneRule(
            name="lower-squares", summary="as lower; pairs by the sum of squares", norm=Norm.SQUARES,
            source="the Euclidean norm of a pair", evidence=Evidence.READ,
        ),
        PruneRule(
            name="lower-max", summary="as lower; pairs by the larger magnitude", norm=Norm.MAX,
            source="the maximum norm of a pair", evidence=Evidence.READ,
        ),
        PruneRule(
            name="metal-marlin/procedure", weigh=Weigh.CODE, ties=Ties.HIGHER,
            summary="the two largest codes as unsigned numbers: every negative code before every positive one",
            source="Metal Marlin, sparse format, 8.2: argsort(abs(codes))[-2:]", evidence=Evidence.MEASURED,
        ),
        PruneRule(
            name="torch-2.13/from-dense", weigh=Weigh.NONZERO,
            summary="of more than two that are not zero those that torch's conversion happens to take",
            by_nonzero=(14, 8, 9, 4, 14, 8, 9, 4, 14, 12, 13, 4, 14, 12, 13, 4),
            source="torch.sparse._semi_structured_conversions.sparse_semi_structured_from_dense_cutlass",
            evidence=Evidence.MEASURED,
        ),
    )
}  # fmt: skip


def get_rule(rule: str | PruneRule) -> PruneRule:
    """The rule of this name. Raises ValueError, listing the names, where there is none."""
    if isinstance(rule, PruneRule):
        return rule
    if not isinstance(rule, str) or rule not in RULES:
        raise refuse_name(rule, f"unknown rule of pruning {rule!r}; known are {', '.join(RULES)}", RULES)
    return RULES[rule]
