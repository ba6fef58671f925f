"""Right codes, or right scales, that lie in another order."""

from __future__ import annotations

import numpy as np

from mxspec_conformance.counterexample.failure import Order, find_order
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.seen import Seen


def swapped_nibbles(seen: Seen) -> Found | None:
    """Whether the two codes of each byte are swapped."""
    swapped = [(r.want_scales, r.want_codes.reshape(len(r.x), -1, 2)[..., ::-1].reshape(r.want_codes.shape)) for r in seen.rows]
    if not seen.explains(swapped):
        return None
    return Found(KnownCause.NIBBLE_ORDER, "the two codes of each pair are swapped: the even element lies in the high nibble (nibble-high)")


def transposed_scales(seen: Seen) -> Found | None:
    """Whether the scales of a matrix come column by column."""
    for item in seen.answered:
        case, answers = item.case, item.case.answers.get(seen.profile.id)
        if answers is None or case.is_row or case.block is not None or case.x.ndim != 2:
            continue
        want, got = np.asarray(answers[0].scale), item.scales
        if want.size == got.size and find_order(want.reshape(got.shape), got) is Order.TRANSPOSED:
            return Found(KnownCause.TRANSPOSED_SCALES, "scales come transposed where there are several rows and blocks")
    return None
