"""Right codes, or right scales, that lie in another order."""

from __future__ import annotations

import numpy as np

from mxspec.layouts import Part, get_layout, list_layouts
from mxspec_conformance.counterexample.failure import Order, find_order
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_conformance.targets.operand_words import UNPACKED


def misread_layout(seen: Seen) -> Found | None:
    """Whether codes lie in the bytes of another layout than the declared one; of a target that unpacks them itself, than nibble-low."""
    width = seen.fmt.element.bits
    same = [x for x in list_layouts() if [f.part for f in x.fields] == [Part.CODES] and x.main.packing.width == width]
    declared = get_layout(seen.layout) if seen.layout != UNPACKED else next((x for x in same if x.name == "nibble-low"), None)
    if declared is None:
        return None
    for layout in same:
        try:
            moved = [(r.want_scales, declared.unpack(layout.pack(r.want_codes), r.want_codes.shape)[0]) for r in seen.rows]
        except ValueError:  # of other sizes
            continue
        if layout is not declared and seen.explains(moved):
            return Found(KnownCause.NIBBLE_ORDER, f'codes lie as in LAYOUT = "{layout.name}", and are read as {declared.name}')
    return None


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
