"""Scale bytes that are all so many steps away from a rule's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.arrays import ARRAYS
from mxspec.elements import decode_codes
from mxspec.expressions import AMAX, ONE, ONE_SIXTH, Expr, G, Leaf, M, S, const, evaluate, exact, f32, leaves, put_in_words
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile, ScaleRule, ScaleStep
from mxspec.scales import encode_scale
from mxspec_conformance.judge.causes.comparing import Compared, is_cause
from mxspec_conformance.judge.causes.dividing import bind_tensor
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.rows import Rows
from mxspec_conformance.judge.causes.seen import Maxima, Seen
from mxspec_conformance.judge.explanation import LEAF_NAMES, ROUNDING_TEXT
from mxspec_conformance.targets.fake import reserved_end
from mxspec_vectors.tensor_scales import bind_profile


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


def constant_scale(seen: Seen) -> Found | None:
    """Whether all ordinary maxima have one scale, where the profile has more than the two next to a step."""
    maxima = np.hstack([np.zeros((2, 0), np.int64), *([m.returned, m.expected] for m in seen.maxima(seen.profile))])
    (code, *others), expected = map(np.unique, maxima) if maxima.size else ((0, 0), ())
    if others or len(expected) < 3:
        return None
    value = float(decode_codes(code, seen.fmt.scale))
    return Found(KnownCause.SCALE_CONSTANT, f"every scale is {value:g} (code {code:02x}), whatever the block holds")


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


def flushed_scales(seen: Seen) -> Found | None:
    """Whether subnormal scales are zero or the smallest normal one; before they are rounded, or after."""
    scale = seen.fmt.scale
    if not scale.mantissa_bits or scale.bits > 8:
        return None
    normal = 1 << scale.mantissa_bits
    for (byte, early), profile in product(((0, False), (0, True), (normal, False)), mxspec.list_profiles(seen.fmt, kind=Kind.NORMATIVE)):
        if is_cause(_flush(maxima, seen.fmt, profile, byte, early=early) for maxima in seen.maxima(profile)):
            text = f"subnormal block scales, {scale.name} below {float(decode_codes(normal, scale)):g}, become {'the smallest normal one' if byte else 'zero'}"
            return Found(KnownCause.SCALE_SUBNORMALS, text)
    return None


def _flush(maxima: Maxima, fmt: BlockFormat, profile: Profile, byte: int, *, early: bool) -> Compared:
    scale, (steps, bound) = fmt.scale, bind_profile(profile, maxima.tensor)
    known = {"amax": maxima.amax.view(np.float32), "M": np.float32(float(fmt.element.max_value)), **bound}
    with np.errstate(all="ignore"):
        value = np.asarray(evaluate(steps.scale.value, known, ARRAYS))
    stored = encode_scale(value, steps.scale, scale, fmt.element)
    normal = 1 << scale.mantissa_bits
    small = (value < float(decode_codes(normal, scale)) if early else stored < normal) & (stored > 0)
    return Compared(bool((np.where(small, byte, stored) == maxima.returned).all()), bool((maxima.returned != maxima.expected).any()))


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


_SIX, _TOP = const(6), Leaf("top")
#: What a scale of a two-level format may be made of, and one of powers of two.
_OF_TENSORS: tuple[Expr, ...] = (
    f32.div(AMAX, _SIX), f32.div(f32.mul(AMAX, S), _SIX), f32.mul(f32.div(AMAX, _SIX), S), f32.mul(AMAX, f32.mul(S, ONE_SIXTH)),
    f32.mul(f32.mul(AMAX, ONE_SIXTH), S), f32.mul(f32.mul(AMAX, S), ONE_SIXTH), f32.div(f32.div(AMAX, _SIX), G), f32.div(AMAX, f32.mul(_SIX, G)),
)  # fmt: skip
_OF_MAXIMA: tuple[Expr, ...] = (f32.div(AMAX, M), f32.mul(AMAX, f32.div(ONE, M)), f32.div(ONE, f32.div(M, AMAX)), exact.div(AMAX, _TOP))
#: Step -> in words, of a value v.
_STEPS = {ScaleStep.LOG2F_FLOOR: "floor(log2f v)", ScaleStep.LOG2F_CEIL: "ceil(log2f v)", ScaleStep.LOG2F_ROUND: "round(log2f v)"}


def _list_rules(fmt: BlockFormat) -> Iterator[tuple[str, ScaleRule, float]]:
    """Scale rules in words: values as they are computed, and what becomes of one; how inexact that is, relatively."""
    names = LEAF_NAMES | {"M": f"{float(fmt.element.max_value):g}", "top": f"2^{fmt.element.emax}"}
    end = reserved_end(fmt.element)
    for value in _OF_TENSORS if not fmt.is_mx else (*_OF_MAXIMA, *([] if end is None else [f32.div(AMAX, const(end))])):
        words = put_in_words(value, names)
        for step, text in _STEPS.items() if fmt.is_mx else ():
            yield f"{text}, v = {words}", ScaleRule(value=value, step=step), 0
        for rounding, text in ROUNDING_TEXT.items():
            rule = ScaleRule(value=value, step=ScaleStep.ENCODE, rounding=rounding, byte_range=(0, fmt.scale.max_code))
            yield f"{words}, in {fmt.scale.name} {text}", rule, 0
    for step in (ScaleStep.FLOOR, ScaleStep.CEIL) if fmt.is_mx else ():
        yield (
            f"{step.value} of an inexact float log2 of amax / {names['M']}",
            ScaleRule(value=_OF_MAXIMA[0], step=step),
            2.0**-17,  # its step from 64 on,
        )


def other_rule(seen: Seen) -> Found | None:
    """Whether scales are those of a rule that no profile has."""
    every = list(seen.maxima(seen.profile))
    known = [sum(len(m.amax) for m in seen.maxima(p) if (m.returned == m.expected).all()) for p in mxspec.list_profiles(seen.fmt)]
    if seen.fmt.scale.bits > 8 or max(known) == sum(len(m.amax) for m in every):
        return None
    every += seen.maxima_of_rows()
    scaled = any(m.tensor is not None for m in every)
    found = [
        (words, inexact) for words, rule, inexact in _list_rules(seen.fmt)
        if (scaled or not leaves(rule.value) & {"S", "g"}) and is_cause(_follow(rule, inexact, maxima, seen.fmt) for maxima in every)
    ]  # fmt: skip
    others = sum(inexact == found[0][1] for _, inexact in found) - 1
    more = f"; {others} more of the known rules {'has' if others == 1 else 'have'} the same scales here" if others > 0 else ""
    return Found(KnownCause.SCALE_RULE, f"scale: {found[0][0]}{more}") if found else None


def _follow(rule: ScaleRule, inexact: float, maxima: Maxima, fmt: BlockFormat) -> Compared:
    known = {"amax": maxima.amax.view(np.float32), "M": np.float32(fmt.element.max_value), "top": np.float32(2.0**fmt.element.emax)}
    with np.errstate(all="ignore"):
        value = np.asarray(evaluate(rule.value, known | bind_tensor(maxima.tensor), ARRAYS))
        low, high = (encode_scale(value * value.dtype.type(1 + off), rule, fmt.scale, fmt.element) for off in (-inexact, inexact))
    return Compared(bool(((low <= maxima.returned) & (maxima.returned <= high)).all()), bool((maxima.returned != maxima.expected).any()))
