"""Profiles whose blocks do not come apart into pairs, and why."""

from __future__ import annotations

from mxspec.profiles.schema import Profile


def name_obstacle(profile: Profile, *, two_level: bool, block: tuple[int, int] | None = None) -> str | None:
    """Why pairs do not determine this profile's blocks, or None where they do."""
    if block is not None and block[0] > 1:
        return (
            f"blocks of {block[0]} x {block[1]} take their maximum from {block[0] * block[1]} lanes in {block[0]} rows; "
            "the pairs cover blocks of one row"
        )
    steps = profile.two_level if two_level else profile.one_level
    if steps is None:
        return f"{profile.id} has no form with {'a tensor scale' if two_level else 'no tensor scale'}"
    if steps.alternative is not None:
        return (
            f"{profile.id} tries two scales and keeps the one whose error, summed over the block, is smaller "
            "(Four-over-Six): every lane decides about every other"
        )
    if not steps.element.is_lane_local:
        return f"{profile.id} packs codes by OR without masking them: bits of one lane reach the next"
    if not steps.element.is_deterministic:
        return f"{profile.id} rounds stochastically: the answer is a function of random bits too"
    if profile.transform is not None:
        return (
            f"{profile.id} is fused with a Hadamard transform: every stored lane mixes {profile.transform.size} inputs, and "
            "the order of their sums is open"
        )
    return None
