"""Which profile a target is nearest to: the one definition, for `check`, `identify`, `prove` and `fuzz`.

A profile that agrees in every bit comes first. Then the one whose scale rule agrees on most block maxima; then the one with the
fewest failing cases; a case that it says nothing of counts as failing in both; then a normative one, a confirmed one, the format's
default, and the order of registration. Failing cases alone would not do: where the cases lie depends on which other profiles have
boundaries there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mxspec
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.dequantize import count_refused, count_supported as count_values, count_wrong_values, tables_identical
from mxspec_conformance.judge.quantize import count_failing, identical_profiles
from mxspec_conformance.judge.scale import count_supported as count_maxima, count_wrong_scales, scales_identical, weigh_wrong_scales
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.format import Observations


@dataclass(frozen=True, slots=True)
class Standing:
    """How a profile fares with a target."""

    profile: Profile
    #: Whether it agrees in every bit of everything observed.
    identical: bool
    #: Maxima with another scale byte, each for its surroundings (`weigh_wrong_scales`).
    scale_distance: int
    #: Failing cases, of those that the profile speaks of.
    failing: int
    #: Quantize cases that the target answers and the profile says nothing of.
    silent: int


def count_asked(observations: Observations) -> int:
    """Cases that were answered, or should have been: quantize and scale cases, or else the entries of dequantize tables."""
    asked = len(observations.answered) + len(observations.lost) + count_maxima(observations.scales)
    return asked or count_values(observations.tables, observations.fmt)


def answers_anything(observations: Observations) -> bool:
    """Whether a single block, maximum or table has an answer."""
    returned = [*(i.returned for i in observations.scales), *(t.returned for t in observations.tables)]
    return bool(observations.answered) or any(not isinstance(r, NoAnswer) for r in returned)


def count_declined(observations: Observations, profile: Profile) -> int:
    """Cases of a profile for which `quantize` was called, and says that it does not offer them; where tables alone are judged, the
    entries that `dequantize` refuses.
    """
    if not observations.answered:
        return 0 if observations.lost or count_maxima(observations.scales) else count_refused(observations.tables, observations.fmt)
    blocks = [item.reason for item in observations.unanswered if profile.id in item.case.answers]
    runs = [(item.returned, len(item.case.amax)) for item in observations.scales if profile.id in item.case.answers]
    declined = sum(reason.is_declined for reason in blocks)
    return declined + sum(count for answer, count in runs if isinstance(answer, NoAnswer) and answer.is_declined)


def find_identical(observations: Observations, profiles: Sequence[Profile]) -> list[str]:
    """Profiles that agree in every bit of everything observed; both directions must have been compared where offered.

    A case that the target does not answer speaks against the profiles that do; blocks under a tensor scale that it answers, against
    the profiles that know no tensor scale.
    """
    fmt, lost = observations.fmt, observations.lost
    if observations.session.capabilities.stochastic:
        return []
    profiles = [p for p in profiles if not any(p.id in case.answers for case in lost)]
    if not observations.answered:
        tables = observations.tables
        return [p.id for p in profiles if tables and tables_identical(tables, fmt, p)]
    if any(one.case.tensor is not None for one in observations.answered):
        profiles = [p for p in profiles if p.two_level is not None]
    equal = identical_profiles(observations.answered, fmt, profiles)
    return [
        p.id
        for p in profiles
        if p.id in equal and scales_identical(observations.scales, fmt, p) and tables_identical(observations.tables, fmt, p)
    ]


def rank_profiles(observations: Observations, candidates: Sequence[Profile]) -> list[Standing]:
    """The candidates, nearest first."""
    fmt, answered = observations.fmt, observations.answered
    identical = find_identical(observations, candidates)
    if answered or observations.lost or count_maxima(observations.scales):
        failing = count_failing(answered, observations.lost, fmt, candidates)
        for p in candidates:
            failing[p.id] += count_wrong_scales(observations.scales, p.id)
        silent = {p.id: sum(p.id not in s.case.answers for s in answered) for p in candidates}
    else:
        failing = {p.id: count_wrong_values(observations.tables, fmt, p) for p in candidates}
        silent = dict.fromkeys(failing, 0)
    default = mxspec.default_profile(fmt)
    standings = [
        Standing(
            profile=p,
            identical=p.id in identical,
            scale_distance=weigh_wrong_scales(observations.scales, p.id, silence_is_wrong=True),
            failing=failing[p.id],
            silent=silent[p.id],
        )
        for p in candidates
    ]

    def key(standing: Standing) -> tuple[int, ...]:
        profile = standing.profile
        return (
            not standing.identical,
            standing.scale_distance,
            standing.failing + standing.silent,
            profile.kind is not Kind.NORMATIVE,
            profile.provisional,
            profile is not default,
        )

    return sorted(standings, key=key)
