"""Which block formats of a target are judged, and the profile that it claims for one."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

import mxspec
from mxspec.adjacent import register_named
from mxspec.formats import BLOCKS, get_block
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.nearest import rank_profiles
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.targets.sessions import TargetSession


def require_formats(capabilities: Capabilities, formats: Collection[str] | None) -> None:
    """Refuse a format that was named and cannot be judged, so that what is left out never looks as if it had passed.

    Args:
        capabilities: What the target offers.
        formats: The block formats that were named, if any.

    Raises:
        TargetError: The target neither quantizes nor dequantizes one of them, nor has a product of it.
        ValueError: One of them is unknown.
    """
    named = tuple(formats or ())
    register_named(named)
    for name in named:
        get_block(name)
    blocks = capabilities.formats if capabilities.has("quantize") or capabilities.has("dequantize") else ()
    products = [parse_product(text) for text in capabilities.products]
    missing = [f for f in named if f not in blocks and not any(product.has_format([f]) for product in products)]
    if missing:
        offered = ", ".join((*blocks, *capabilities.products)) or "no block format"
        raise TargetError(f"{capabilities.name} offers {offered}; not {', '.join(missing)}, so nothing is judged")


def choose_formats(session: TargetSession, formats: Collection[str] | None, profile: str | None) -> list[str]:
    """The block formats to judge, in mxspec's order: those that the target offers, of those named and covered by the profile.

    Raises ValueError for an unknown profile or format, or a profile that does not cover the formats named, or none of the target;
    TargetError for a format that the target does not offer.
    """
    offered = session.capabilities.formats
    require_formats(session.capabilities, formats)
    chosen = [f for f in BLOCKS if f in offered and (formats is None or f in formats)]
    if profile is not None:
        known = {p.id: p for p in mxspec.list_profiles()}
        if profile not in known:
            close = get_close_matches(profile, known, n=3) or [p.id for p in known.values() if p.kind is Kind.NORMATIVE]
            raise ValueError(f"unknown profile {profile!r}; {len(known)} are known, {', '.join(close)} among them: see `mxspec profiles`")
        covered = known[profile].formats
        if missing := [f for f in formats or () if f not in covered]:
            raise ValueError(f"profile {profile} covers {', '.join(covered)}; not {', '.join(missing)}")
        chosen = [f for f in chosen if f in covered]
        if not chosen:
            raise ValueError(f"profile {profile} covers {', '.join(covered)}; the target offers {', '.join(offered) or 'none'}")
    return chosen


def find_claim(session: TargetSession, fmt: str) -> str | None:
    """The profile that the target claims for a format."""
    covering = {p.id for p in mxspec.list_profiles(fmt)}
    return next((name for name in session.capabilities.claimed_profiles if name in covering), None)


def find_judged(session: TargetSession, fmt: str) -> str:
    """The id of the profile by which `check` judges a format: the claimed one, or the nearest normative one."""
    claimed = find_claim(session, fmt)
    return claimed or rank_profiles(Observations(session, fmt), list_candidates(fmt))[0].profile.id


def list_candidates(fmt: str) -> list[Profile]:
    """The profiles of which the nearest one is judged by: normative ones; all where a registered format has none."""
    profiles = mxspec.list_profiles(fmt)
    return [p for p in profiles if p.kind is Kind.NORMATIVE] or list(profiles)
