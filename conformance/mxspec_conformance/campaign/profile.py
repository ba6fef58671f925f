"""Which profile a target is held to, where none is named: the one that explains most of the golden vectors."""

from __future__ import annotations

from difflib import get_close_matches

import mxspec
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge import dequantize as judge_dequantize, quantize as judge_quantize
from mxspec_conformance.judge.quantize import Observed
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
    """The profile with the fewest failing vectors, how many fail, and of how many; normative before others, then those
    with a witness.

    Raises ValueError where the target answers nothing.
    """
    profiles = list(mxspec.list_profiles(fmt))
    counted = dict.fromkeys((p.id for p in profiles), 0)
    asked = 0
    if session.capabilities.has("quantize"):
        observed = judge_quantize.observe(session, fmt.name, judge_quantize.load_cases(fmt.name))
        seen = [o for o in observed if isinstance(o, Observed)]
        asked += len(seen)
        for name, count in judge_quantize.distances(seen, [], fmt, profiles).items():
            counted[name] += count
        answerable = {p.id: sum(p.id in s.case.answers for s in seen) for p in profiles}
        for name, count in answerable.items():  # what a profile does not speak of, it does not explain
            counted[name] += len(seen) - count
    elif session.capabilities.has("dequantize"):
        tables = judge_dequantize.observe_tables(session, fmt.name)
        asked = judge_dequantize.count_asked(tables, fmt)
        counted = {p.id: judge_dequantize.count_wrong_values(tables, fmt, p) for p in profiles}
    if not asked:
        raise ValueError(f"{session.capabilities.name} answers nothing of {fmt.name}")
    best = min(profiles, key=lambda p: (counted[p.id], p.kind is not Kind.NORMATIVE, p.provisional))
    return best, counted[best.id], asked
