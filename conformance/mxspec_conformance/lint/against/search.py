"""The search for what became of a tensor of a block format."""

from __future__ import annotations

from mxspec_conformance.lint.against.candidates import choose, list_plain
from mxspec_conformance.lint.against.case import Case
from mxspec_conformance.lint.against.counting import Counting
from mxspec_conformance.lint.against.ranking import name_likely, rank_between, rank_given, rank_others, rank_own
from mxspec_conformance.lint.hypotheses import Explanation


def explain(case: Case) -> Explanation:
    """What became of a tensor: what is stored if that explains it, else the best hypothesis that explains more."""
    sample = case.sample()
    x = case.originals.read(case.original, iter(sample.runs), case.group.form.format.k)
    own = rank_own(case, sample, x)
    return choose(
        case.group.base, case.original.name, own, lambda: rank_given(case, sample, x),
        lambda best: (
            lambda: rank_between(case, sample, x, own),
            lambda: rank_others(case, name_likely(list_plain(own)) if best.majority else None),
        ),
        Counting(case).count,
    )  # fmt: skip
