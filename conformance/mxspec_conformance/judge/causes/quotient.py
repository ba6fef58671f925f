"""Quotients x / scale that lose something before they become codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.elements import decode_codes
from mxspec.elements_given_scale import LaneClass, classify_lanes, encode_given_scale
from mxspec.expressions import ONE, SF, ZERO, Expr, G, S, X, f32, if_equal, put_in_words
from mxspec.formats import E4M3, ElementFormat
from mxspec.profiles.schema import Kind
from mxspec.rounding import Overflow, Rounding
from mxspec_conformance.judge.causes.dividing import Divided, bind_tensor, divide, usable_scales
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.narrowing import FP8_DTYPES, NARROW_DTYPES, WAYS
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_conformance.judge.conversions import DISTANCES, find_nearest
from mxspec_conformance.judge.explanation import LEAF_NAMES, ROUNDING_TEXT
from mxspec_conformance.targets.fake import reserved_end
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import bind_profile


def lost_sticky_bit(seen: Seen) -> Found | None:
    """Whether of a quotient only one bit beyond the last place counts; everywhere, or below the smallest normal number."""
    element = seen.fmt.element
    normal = float(element.magnitude(1 << element.mantissa_bits))
    for cause, where, below in (
        (KnownCause.STICKY_LOST, "", np.inf),
        (KnownCause.COARSE_BELOW, "below the smallest normal number ", normal),
    ):
        if seen.explains_codes(d.encode(_cut_to_half_steps(d.scaled, element, below)) for d in seen.divided):
            text = f"{where}one bit beyond the last place is looked at, and what lies under it is lost: more than a tie counts as a tie"
            return Found(cause, text if where else f"the sticky bit is lost: {text}")
    return None


def _cut_to_half_steps(scaled: npt.NDArray[Any], element: ElementFormat, below: float) -> npt.NDArray[Any]:
    """Quotients whose magnitudes lie below a bound, without what lies under one bit beyond the last place."""
    with np.errstate(all="ignore"):
        half = np.ldexp(0.5, np.maximum(np.frexp(scaled)[1] - 1, 1 - element.bias) - element.mantissa_bits)
        return np.where(np.abs(scaled) < below, np.trunc(scaled / half) * half, scaled).astype(scaled.dtype)


def whole_numbers(seen: Seen) -> Found | None:
    """Whether elements of a format of integers are x / scale itself, without the format's factor."""
    element = seen.fmt.element
    if not element.twos_complement:
        return None
    for (rounding, words), lowest in product(ROUNDING_TEXT.items(), (False, True)):
        if seen.explains_codes(_count_steps(d, element, rounding, lowest=lowest) for d in seen.divided):
            return Found(
                KnownCause.WHOLE_NUMBERS,
                f"elements are x / scale as whole numbers, {words}: the factor 2^{1 - element.mantissa_bits} of the format is left out",
            )
    return None


def _count_steps(divided: Divided, element: ElementFormat, rounding: Rounding, *, lowest: bool) -> Codes:
    """x / scale as integers; what becomes of blocks under the smallest scale is another question. lowest: -2^(bits - 1) is one of them."""
    codes = divided.encode(np.ldexp(divided.scaled, 1 - element.mantissa_bits), rounding=rounding)
    if lowest:  # one more than it is the lowest integer that the format's rule gives
        more = divided.encode(np.ldexp(divided.scaled + 1, 1 - element.mantissa_bits), rounding=rounding)
        codes = np.where(more == element.sign_bit + 1, element.sign_bit, codes).astype(np.uint8)
    return np.where(divided.rows.scales[:, None] == 0, divided.rows.codes, codes)


def own_overflow(seen: Seen) -> Found | None:
    """Whether quotients beyond the largest number become the format's own NaN or infinity."""
    element = seen.fmt.element
    if element.nan_code is None or not seen.explains_codes(d.encode(overflow=Overflow.OWN) for d in seen.divided):
        return None
    what = "NaN" if element.inf_code is None else "infinity"
    return Found(
        KnownCause.OWN_OVERFLOW, f"quotients beyond {float(element.max_value):g} become {what}: they are not clamped before the conversion"
    )


def reserved_exponent(seen: Seen) -> Found | None:
    """Whether the largest exponent holds no numbers, in a format in which it does."""
    element, largest = seen.fmt.element, reserved_end(seen.fmt.element)
    first = element.max_code >> element.mantissa_bits << element.mantissa_bits
    if largest is None:
        return None
    for instead in (first - 1, first):
        every = np.arange(256)
        magnitude = every & (element.sign_bit - 1)
        table: Codes = np.where((magnitude >= first) & (magnitude <= element.max_code), every & element.sign_bit | instead, every).astype(
            np.uint8
        )
        if seen.explains_codes(table[d.encode()] for d in seen.divided):
            return Found(
                KnownCause.TOP_RESERVED,
                f"elements end at {largest:g}: the largest exponent is reserved for infinity and NaN, as in IEEE 754",
            )
    return None


def half_added(seen: Seen) -> Found | None:
    """Whether elements are floor(steps + 0.5), with the sum in float32, which rounds it before it is cut."""
    for rounding, words in ((Rounding.RNA, ""), (Rounding.RNE, ", and exact ties are then taken back to even")):
        if seen.explains_codes(d.encode(add_half_floor_f32=True, rounding=rounding) for d in seen.divided):
            return Found(
                KnownCause.HALF_ADDED, f"elements are floor(v + 0.5) in float32: the sum rounds up what lies just below a tie{words}"
            )
    return None


#: Divisions under a tensor scale that no normative profile has; what is divided by a scale of zero counts as zero.
_DIVISIONS: tuple[Expr, ...] = (
    f32.mul(f32.mul(X, S), f32.div(ONE, SF)), f32.div(f32.mul(X, S), SF), f32.mul(X, f32.div(S, SF)), f32.div(X, f32.div(SF, S)),
    f32.mul(X, f32.div(f32.div(ONE, G), SF)), f32.div(f32.div(X, G), SF), f32.mul(X, f32.div(ONE, f32.mul(SF, G))),
)  # fmt: skip


class _Way(NamedTuple):
    """How quotients become codes: words, the codes, and the cause where it is one under the profile's own division, too."""

    words: str
    encode: Callable[[Divided], Codes]
    cause: KnownCause | None = None


def _list_ways(element: ElementFormat) -> Iterator[_Way]:
    for rounding, words in ROUNDING_TEXT.items():
        cause = KnownCause.TIES_BY_SIGN if rounding is Rounding.RNU else None
        yield _Way(words, partial(Divided.encode, rounding=rounding), cause)
    yield _Way(
        "nearest, ties toward -infinity", lambda d: _negate(d.encode(-d.scaled, rounding=Rounding.RNU), d.element), KnownCause.TIES_BY_SIGN
    )
    for (positive, words), (negative, other) in product(ROUNDING_TEXT.items(), repeat=2):
        if positive is not negative and Rounding.RNE in (positive, negative):  # a mistake with one sign
            yield _Way(
                f"{words}, and {other} where they are negative", partial(_encode_by_sign, positive, negative), KnownCause.TIES_BY_SIGN
            )
    if not element.twos_complement:
        for words, flush in (
            (", and zero where that is subnormal", _drop_subnormals),
            (", and zero below the smallest normal number", _flush_quotients),
        ):
            yield _Way(f"nearest, ties to even{words}", flush, KnownCause.COARSE_BELOW)
    if not element.twos_complement and element.bits <= 6:  # distances to all codes of wider formats are many
        for mistake, less in DISTANCES.items():
            yield _Way(f"found as if {mistake}", partial(_find_nearest, less), KnownCause.WIDE_TIES)


def _negate(codes: Codes, element: ElementFormat) -> Codes:
    return ((-codes.astype(int)) & 0xFF if element.twos_complement else codes ^ element.sign_bit).astype(np.uint8)


def _drop_subnormals(divided: Divided) -> Codes:
    codes, element = divided.encode(), divided.element
    return np.where((codes & (element.sign_bit - 1)) < 1 << element.mantissa_bits, codes & element.sign_bit, codes).astype(np.uint8)


def _flush_quotients(divided: Divided) -> Codes:
    small = np.abs(divided.scaled) < float(divided.element.min_normal)
    return divided.encode(np.where(small, np.copysign(0, divided.scaled), divided.scaled).astype(divided.scaled.dtype))


def _encode_by_sign(positive: Rounding, negative: Rounding, divided: Divided) -> Codes:
    return np.where(np.signbit(divided.scaled), divided.encode(rounding=negative), divided.encode(rounding=positive)).astype(np.uint8)


def _find_nearest(less: float, divided: Divided) -> Codes:
    return find_nearest(divided.scaled, divided.element, less).astype(np.uint8)


def other_quotient(seen: Seen) -> Found | None:
    """Whether elements are rounded in a way that has a cause, or those of another division in any way; not where the profile's own explains them."""
    for words, divided in _list_divisions(seen):
        for way in _list_ways(seen.fmt.element):
            if divided and seen.explains_codes(map(way.encode, divided)):
                if divided is not seen.divided:
                    return Found(way.cause or KnownCause.OTHER_QUOTIENT, f"elements are {way.words}, of {words}")
                return Found(way.cause, f"elements are {way.words}") if way.cause else None
    return None


def _list_divisions(seen: Seen) -> Iterator[tuple[str, Sequence[Divided]]]:
    """The profile's own, those of the other normative profiles, and others."""
    yield "", seen.divided
    for profile in mxspec.list_profiles(seen.fmt):
        if profile.kind is Kind.NORMATIVE and profile is not seen.profile:
            yield f"{profile.id}'s quotient", divide(seen.rows, seen.fmt, profile)
    for quotient in _DIVISIONS if seen.fmt.has_tensor_scale else ():
        guarded = if_equal(SF, ZERO, ZERO, quotient)
        yield put_in_words(quotient, LEAF_NAMES), [d.with_values(bind_tensor(d.rows.tensor), guarded) for d in seen.divided]


def narrow_quotient(seen: Seen) -> Found | None:
    """Whether the quotient is rounded or cut to 16 bits, or FP8, before it becomes a code; all are named that explain it."""
    names = []
    fp8 = FP8_DTYPES if seen.fmt.element.bits < 8 else {}
    for (name, dtype), (how, narrow) in product({**NARROW_DTYPES, **fp8}.items(), WAYS.items()):
        end = np.float32(float(E4M3.max_value) if name in fp8 else np.inf)  # no narrower element's largest number is as large
        with np.errstate(all="ignore"):
            narrowed = [d.encode(narrow(np.clip(np.asarray(d.scaled, np.float32), -end, end), dtype)) for d in seen.divided]
        if seen.explains_codes(narrowed):
            names.append(name + how)
    if not names:
        return None
    return Found(KnownCause.NARROW_QUOTIENT, f"as if the quotient x / scale were held in {' or in '.join(names)}")


def inexact_reciprocal(seen: Seen) -> Found | None:
    """Whether all that is wrong lies next to midpoints, on one side, and is off by one code in one direction.

    What becomes of a division by a scale of zero is another question.
    """
    fmt, element, fold = seen.fmt, seen.fmt.element, fold_zeros(seen.fmt.element)
    directions: set[int] = set()
    near = False
    wrong_lanes = 0
    for r in seen.rows:
        steps, bindings = bind_profile(seen.profile, r.tensor)
        usable = usable_scales(r, fmt)
        with np.errstate(all="ignore"):
            expected, scaled = encode_given_scale(r.x, usable, fmt, seen.profile, steps, bindings)
        wrong = (fold[expected] != fold[r.codes]) & (decode_codes(usable, fmt.scale) != 0)[:, None]
        if not wrong.any():
            continue
        classes = classify_lanes(scaled, r.x, element)[wrong]
        if not np.isin(classes, (LaneClass.BELOW_TIE, LaneClass.TIE, LaneClass.ABOVE_TIE)).all():
            return None
        near |= bool((classes != LaneClass.TIE).any())
        magnitude = element.sign_bit - 1
        steps_off = (r.codes[wrong] & magnitude).astype(int) - (expected[wrong] & magnitude).astype(int)
        directions.update(steps_off.tolist())
        wrong_lanes += int(wrong.sum())
    if not near or directions not in ({1}, {-1}):
        return None
    side, fix = ("small", "down") if directions == {-1} else ("large", "up")
    text = f"as if x / scale came out slightly too {side}: all {wrong_lanes} wrong codes lie next to midpoints and go {fix}"
    return Found(KnownCause.RECIPROCAL, f"{text} (a reciprocal that is approximate or rounded)")
