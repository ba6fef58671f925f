"""Scale bytes that are all so many steps away from a rule's."""

from __future__ import annotations

from collections.abc import Sequence

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.rows import Rows
from mxspec_conformance.judge.causes.seen import Seen


def moved_scales(seen: Seen) -> Found | None:
    """Whether every ordinary scale is one normative profile's, moved; the byte alone, or with the codes that belong to it."""
    normative = [p for p in mxspec.list_profiles(seen.fmt) if p.kind is Kind.NORMATIVE]
    for profile in sorted(normative, key=lambda p: p is not seen.profile):
        steps = _list_steps(seen, profile)
        if len(steps) != 1 or 0 in steps:
            continue
        (offset,) = steps
        count = "one" if abs(offset) == 1 else str(abs(offset))
        words = f"every scale byte is {count} {'above' if offset > 0 else 'below'} {profile.id}'s, a factor of 2^{offset}"
        if _has_own_codes(seen.rows_of(profile), seen.fmt, offset):
            return Found(KnownCause.SCALE_BIAS, f"{words}; the codes are those of its own scale: the byte's bias is wrong, not the scale")
        return Found(KnownCause.SCALE_OFFSET, words)
    return None


def _list_steps(seen: Seen, profile: Profile) -> set[int]:
    """By how much bytes of ordinary maxima differ from a profile's."""
    found: set[int] = set()
    for maxima in seen.maxima(profile):
        found.update((maxima.returned.astype(int) - maxima.expected.astype(int)).tolist())
    return found


def _has_own_codes(rows: Sequence[Rows], fmt: BlockFormat, offset: int) -> bool:
    """Whether codes are those of the scale that was not moved, wherever a byte can be moved."""
    fold = fold_zeros(fmt.element)
    insides = [(r.scales > abs(offset) + 1) & (r.scales < 0xFE - abs(offset)) for r in rows]
    return bool(rows) and all((fold[r.codes[i]] == fold[r.want_codes[i]]).all() for r, i in zip(rows, insides, strict=True))
