"""Which profile a target is held to by `prove` and `fuzz`: the one named, or the nearest."""

from __future__ import annotations

from difflib import get_close_matches

import mxspec
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.nearest import answers_anything, count_asked, rank_profiles
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.targets.sessions import TargetSession


def find_profile(name: str, fmt: BlockFormat) -> Profile:
    """A profile of a format by its id.

    Raises ValueError, naming close ones, for another name.
    """
    known = {p.id: p for p in mxspec.list_profiles(fmt)}
    if name not in known:
        close = get_close_matches(name, known, n=3) or [p.id for p in known.values() if p.kind is Kind.NORMATIVE]
        raise ValueError(f"{fmt.name} has no profile {name!r}; among its {len(known)} are {', '.join(close)}")
    return known[name]


def nearest_profile(session: TargetSession, fmt: BlockFormat) -> tuple[Profile, int, int]:
    """The profile that agrees with all that was observed, else the nearest normative one (`judge.nearest`), how many cases fail under it,
    and of how many: what describes another library is no reference for a target that departs from it.

    Of a registered format without a normative profile, the nearest of all.

    Raises ValueError where the target answers nothing.
    """
    observations = Observations(session, fmt)
    compared = count_asked(observations)
    if not compared or not answers_anything(observations):
        raise ValueError(f"{session.capabilities.name} answers nothing of {fmt.name}")
    ranked = rank_profiles(observations, mxspec.list_profiles(fmt))
    nearest = next((s for s in ranked if s.identical or s.profile.kind is Kind.NORMATIVE), ranked[0])
    return nearest.profile, nearest.failing, compared
