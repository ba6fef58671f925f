"""Whether what was returned is a legal answer, and whose."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from mxspec.acceptance import flag_nan, fold_zeros
from mxspec.formats import BlockFormat, ElementFormat
from mxspec_conformance.observations.quantize import Observed
from mxspec_vectors.cases import Answer, Codes


def answer_matches(answer: Answer, scales: Codes, codes: Codes, element: ElementFormat, *, signs: bool) -> bool:
    """Whether a returned tensor is this answer; signs: whether the sign of zero counts."""
    flat, returned = scales.reshape(-1), codes.reshape(-1)
    # Asked a million times in a check, of blocks so small that count_nonzero is several times as fast as any.
    if np.count_nonzero(flat < answer.scale) or np.count_nonzero(flat > answer.scale_max):
        return False
    if signs:
        different = returned ^ answer.codes
    else:
        fold = fold_zeros(element)
        different = fold[returned] ^ fold[answer.codes]
    if np.count_nonzero(different & answer.mask):
        return False
    return not answer.nan_lanes or bool(flag_nan(element)[returned[list(answer.nan_lanes)]].all())


def is_legal(seen: Observed, fmt: BlockFormat, profile: str) -> bool:
    """Whether what was returned is a legal answer of a profile, whatever the signs of zeros, or the profile says nothing of the case."""
    legal = seen.case.answers.get(profile)
    return legal is None or any(answer_matches(a, seen.scales, seen.codes, fmt.element, signs=False) for a in legal)


def matching_profiles(seen: Observed, fmt: BlockFormat, *, signs: bool) -> Iterator[tuple[str, bool]]:
    """Each profile that speaks of the case, and whether what was returned is one of its legal answers."""
    known: dict[int, bool] = {}
    for profile, answers in seen.case.answers.items():
        key = id(answers)  # profiles that agree share their answers
        if key not in known:
            known[key] = any(answer_matches(a, seen.scales, seen.codes, fmt.element, signs=signs) for a in answers)
        yield profile, known[key]


def equal_profiles(seen: Observed, fmt: BlockFormat, *, signs: bool) -> frozenset[str]:
    """Profiles of which what was returned is a legal answer."""
    found = matching_profiles(seen, fmt, signs=signs)
    return frozenset(_family_name(profile, seen.dtype) for profile, matches in found if matches)


@lru_cache(maxsize=4096)
def _family_name(profile: str, dtype: str) -> str:
    """A profile's id; that of a stack's 16-bit path counts as the stack's own where the input has that dtype."""
    return profile.removesuffix(f"/{dtype}")
