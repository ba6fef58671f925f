"""`mxspec lint --against` for affine integers: GPTQ, AWQ, compressed-tensors' pack-quantized, MLX's affine mode."""

from __future__ import annotations

from collections.abc import Sequence

from mxspec.affine.checkpoints.groups import AffineGroup
from mxspec.containers.header import Tensor
from mxspec_conformance.lint.against.affine.case import AffineCase
from mxspec_conformance.lint.against.affine.counting import count
from mxspec_conformance.lint.against.affine.ranking import rank_between, rank_given, rank_others, rank_own
from mxspec_conformance.lint.against.candidates import choose, list_plain
from mxspec_conformance.lint.against.material import Originals
from mxspec_conformance.lint.hypotheses import Explanation

__all__ = ["explain_affine"]


def explain_affine(group: AffineGroup, original: Tensor, originals: Originals, first: Sequence[str] = ()) -> Explanation:
    """What became of a tensor of affine integers; first: profiles to try before others."""
    case = AffineCase(group, original, originals, first)
    own = list(rank_own(case))
    return choose(
        group.base, original.name, own, lambda: rank_given(case),
        lambda best: (
            lambda: rank_between(case), lambda: rank_others(case, list_plain(own)[0].hypothesis.profile if best.majority else None),
        ),
        lambda hypothesis: count(case, hypothesis),
    )  # fmt: skip
