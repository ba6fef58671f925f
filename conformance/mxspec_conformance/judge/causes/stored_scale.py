"""Scale bytes that are all so many steps away from a rule's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.causes.comparing import Compared, is_cause
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.rows import Rows
from mxspec_conformance.judge.causes.seen import Maxima, Seen


def moved_scales(seen: Seen) -> Found | None:
    """Whether every ordinary scale is one normative profile's, moved; the byte alone, or with the codes that belong to it."""
    normative = [p for p in mxspec.list_profiles(seen.fmt) if p.kind is Kind.NORMATIVE]
    for profile in sorted(normative, key=lambda p: p is not seen.profile):
        steps, below = (_list_steps(seen, profile, below=below) for below in (False, True))
        if len(steps) != 1 or 0 in steps:
            continue
        (offset,) = steps
        count = "one" if abs(offset) == 1 else str(abs(offset))
        words = f"every scale byte is {count} {'above' if offset > 0 else 'below'} {profile.id}'s, a factor of 2^{offset}"
        if below - steps:
            words += ", but just below powers of two, where a float32 log2 is wrong"
        if _has_own_codes(seen.rows_of(profile), seen.fmt, offset):
            return Found(KnownCause.SCALE_BIAS, f"{words}; the codes are those of its own scale: the byte's bias is wrong, not the scale")
        return Found(KnownCause.SCALE_OFFSET, words)
    return None


#: Fractions of maxima whose float32 log2 may be a whole number.
_JUST_BELOW = 0x7FFFC0


def _list_steps(seen: Seen, profile: Profile, *, below: bool) -> set[int]:
    """By how much bytes of ordinary maxima differ from a profile's; of those just below a power of two, or of all others."""
    found: set[int] = set()
    for maxima in seen.maxima(profile):
        kept = ((maxima.amax & 0x7FFFFF) >= _JUST_BELOW) == below
        found.update((maxima.returned[kept].astype(int) - maxima.expected[kept].astype(int)).tolist())
    return found


def _has_own_codes(rows: Sequence[Rows], fmt: BlockFormat, offset: int) -> bool:
    """Whether codes are those of the scale that was not moved, wherever a byte can be moved."""
    fold = fold_zeros(fmt.element)
    insides = [(r.scales > abs(offset) + 1) & (r.scales < 0xFE - abs(offset)) for r in rows]
    return bool(rows) and all((fold[r.codes[i]] == fold[r.want_codes[i]]).all() for r, i in zip(rows, insides, strict=True))


#: All finite maxima above zero, as bits of float32.
_FINITE = (0, 0x7F800000)
#: The exponent of a float32 subnormal as its field has it.
_SUBNORMAL = np.float32(2.0**-127)


def wrapped_scales(seen: Seen) -> Found | None:
    """Whether exponents below the range wrap round to the largest bytes."""
    for flush in (False, True):
        wrapped: set[int] = set()
        if is_cause(_wrap(seen, flush, wrapped)):
            listed = ", ".join(f"{b:02x}" for b in sorted(wrapped)[-3:][::-1])
            return Found(KnownCause.SCALE_WRAPS, f"scale bytes below 00 wrap: {listed} for what is to be clamped to 00")
    return None


def _wrap(seen: Seen, flush: bool, wrapped: set[int]) -> Iterator[Compared]:
    """flush: the exponent is the field of a float32, of which all subnormals have the same."""
    for maxima in seen.maxima(seen.profile, _FINITE):
        x = np.zeros((len(maxima.amax), seen.fmt.k), np.float32)
        x[:, 0] = maxima.amax.view(np.float32)
        if flush:
            x[:, 0] = np.where(x[:, 0] < np.finfo(np.float32).tiny, _SUBNORMAL, x[:, 0])
        # Far from the lower end nothing is clamped.
        low = x[:, 0] < 1
        x[low] *= np.float32(2.0**120)
        expected = seen.scale_bytes(x, maxima.tensor).astype(np.int64) - np.where(low, 120, 0)
        wrapped.update((expected[expected < 0] % 256).tolist())
        yield Compared(bool((expected % 256 == maxima.returned).all()), bool((maxima.returned != maxima.expected).any()))


#: Numbers so near to the square root of two, which no float32 logarithm tells from it.
_NEAR_ROOT = 2.0**-16


def nearest_log2(seen: Seen) -> Found | None:
    """Whether the scale is the power of two nearest to amax / M, or to amax / 2^emax, in log2."""
    element = seen.fmt.element
    for words, largest in (
        (f"amax / {float(element.max_value):g}", float(element.max_value)),
        (f"amax / 2^{element.emax}", 2.0**element.emax),
    ):
        # Maxima lie where rules of profiles change; those of ordinary blocks lie anywhere.
        if is_cause(_round_log2(maxima, largest) for maxima in (*seen.maxima(seen.profile), *seen.maxima_of_rows())):
            return Found(KnownCause.SCALE_NEAREST_LOG2, f"scale: {words} rounded to the nearest power of two in log2, round(log2(v))")
    return None


def _round_log2(maxima: Maxima, largest: float) -> Compared:
    fraction, exponent = np.frexp(maxima.amax.view(np.float32).astype(np.float64) / largest)
    distance = 2 * fraction - np.sqrt(2)
    nearest = exponent - 1 + (distance > 0) + 127
    same = (nearest == maxima.returned) | (np.abs(distance) < _NEAR_ROOT)
    return Compared(bool(same.all()), bool((maxima.returned != maxima.expected).any()))
