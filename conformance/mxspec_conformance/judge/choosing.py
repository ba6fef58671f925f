"""Which block formats of a target are judged, and the profile that it claims for one."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import mxspec
from mxspec.formats import BLOCKS, get_block
from mxspec.profiles.schema import Kind
from mxspec_conformance.targets.sessions import TargetSession


def choose_formats(session: TargetSession, formats: Sequence[str] | None, profile: str | None) -> list[str]:
    """The block formats to judge, in mxspec's order: those that the target offers, of those named and covered by the profile.

    Raises ValueError for an unknown profile or format, or a profile that covers no format of the target.
    """
    offered = session.capabilities.formats
    for name in formats or ():
        get_block(name)
    chosen = [f for f in BLOCKS if f in offered and (formats is None or f in formats)]
    if profile is not None:
        known = {p.id: p for p in mxspec.list_profiles()}
        if profile not in known:
            close = get_close_matches(profile, known, n=3) or [p.id for p in known.values() if p.kind is Kind.NORMATIVE]
            raise ValueError(
                f"unknown profile {profile!r}; {len(known)} are known, {', '.join(close)} among them: see `mxspec profiles`"
            )
        chosen = [f for f in chosen if f in known[profile].formats]
        if not chosen:
            raise ValueError(
                f"profile {profile} covers {', '.join(known[profile].formats)}; the target offers {', '.join(offered) or 'none'}"
            )
    return chosen


def find_claim(session: TargetSession, fmt: str) -> str | None:
    """The profile that the target claims for a format."""
    covering = {p.id for p in mxspec.list_profiles(fmt)}
    return next((name for name in session.capabilities.claimed_profiles if name in covering), None)
