"""Quotients x / scale that lose something before they become codes."""

from __future__ import annotations

from itertools import product

import numpy as np

from mxspec.acceptance import fold_zeros
from mxspec.elements import decode_table
from mxspec.elements_given_scale import LaneClass, classify_lanes, encode_given_scale
from mxspec_conformance.judge.causes.dividing import usable_scales
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.narrowing import NARROW_DTYPES, WAYS
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_vectors.tensor_scales import bind_profile


def cut_below_normal(seen: Seen) -> Found | None:
    """Whether of a quotient below the smallest normal number only one bit beyond the last place is looked at."""
    element = seen.fmt.element
    half, normal = float(element.magnitude(1)) / 2, float(element.magnitude(1 << element.mantissa_bits))
    answers = []
    for d in seen.divided:
        with np.errstate(all="ignore"):
            cut = np.where(np.abs(d.scaled) < normal, np.trunc(d.scaled / half) * half, d.scaled).astype(d.scaled.dtype)
        answers.append((d.rows.scales, d.encode(cut)))
    if not seen.explains(answers):
        return None
    return Found(KnownCause.COARSE_BELOW, "below the smallest normal number one bit beyond the last place is looked at, and what lies under it is lost: more than a tie counts as a tie")


def narrow_quotient(seen: Seen) -> Found | None:
    """Whether the quotient is rounded or cut to 16 bits before it becomes a code; all are named that explain it."""
    names = []
    for (name, dtype), (how, narrow) in product(NARROW_DTYPES.items(), WAYS.items()):
        with np.errstate(all="ignore"):
            answers = [(d.rows.scales, d.encode(narrow(np.asarray(d.scaled, np.float32), dtype))) for d in seen.divided]
        if seen.explains(answers):
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
        wrong = (fold[expected] != fold[r.codes]) & (decode_table(fmt.scale)[usable] != 0)[:, None]
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
