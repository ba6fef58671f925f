"""Scales that follow from something else than the block's largest magnitude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mxspec_conformance.judge.causes.comparing import Compared, is_cause
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.narrowing import NARROW_DTYPES, Floats, to_nearest
from mxspec_conformance.judge.causes.rows import Rows
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_conformance.targets.fake import lay_range

#: Bits of float32: beyond float16 (2^16), and what it holds as a normal number, with some room (2^-14 to 2^15).
_BEYOND_FLOAT16 = 0x47800000
_INSIDE_FLOAT16 = (0x38800000, 0x47000000)
#: Below this, scales lie at the end of their range whatever the maximum was taken of.
_SMALL = 2.0**-100


def narrow_maximum(seen: Seen) -> Found | None:
    """Whether scales follow from the maximum in 16 bits; all are named that explain it."""
    for other in seen.by_others():
        if names := [name for name, dtype in NARROW_DTYPES.items() if is_cause(_hold_maxima(other, name, dtype))]:
            by = "" if other is seen else f", and the rule were {other.profile.id}'s"
            return Found(KnownCause.NARROW_MAXIMUM, f"as if the block's maximum were held in {' or in '.join(names)}{by}")
    return None


def _hold_maxima(seen: Seen, name: str, dtype: Any) -> Iterator[Compared]:
    for maxima in seen.maxima(seen.profile):
        amax, returned, expected = maxima.amax, maxima.returned, maxima.expected
        asked = np.ones(len(amax), np.bool_)
        if name == "float16":
            # Beyond its range nothing is left of the maximum: a target that still follows the rule there holds it elsewhere.
            if (returned == expected)[amax > _BEYOND_FLOAT16].any():
                yield Compared(explained=False, wrong=False)
            low, high = _INSIDE_FLOAT16
            asked = (amax > low) & (amax < high)
        if not asked.any():
            continue
        x = np.zeros((int(asked.sum()), seen.fmt.k), np.float32)
        x[:, 0] = to_nearest(amax[asked].view(np.float32), dtype)
        scales = seen.scale_bytes(x, maxima.tensor)
        yield Compared(bool((scales == returned[asked]).all()), bool((expected != returned)[asked].any()))


def signed_maximum(seen: Seen) -> Found | None:
    """Whether scales follow from the largest x of blocks that hold a positive number."""
    if not is_cause(_compare(seen, r, np.where(r.x > 0, r.x, np.float32(0))) for r in seen.rows):
        return None
    return Found(KnownCause.SIGNED_MAXIMUM, "as if the maximum were taken of x, not of |x|")


def range_as_maximum(seen: Seen) -> Found | None:
    """Whether scales follow from max - min of a block, or from half of it."""
    for words, half in (("max - min", 1), ("(max - min) / 2", 2)):
        if is_cause(_compare(seen, r, lay_range(r.x, seen.fmt.k) / np.float32(half)) for r in seen.rows):
            return Found(
                KnownCause.RANGE_AS_MAXIMUM,
                f"as if the scale followed from {words} of a block, not from the maximum of |x|: that of equal numbers is 0",
            )
    return None


def lanes_looked_at(seen: Seen) -> Found | None:
    """Whether scales follow from the maximum of some lanes alone: one half, every second one, or all but one at an end."""
    k = seen.fmt.k
    lanes = np.arange(k)
    parts = {
        f"lanes 0 to {k // 2 - 1}": lanes < k // 2, f"lanes {k // 2} to {k - 1}": lanes >= k // 2,
        "even lanes": lanes % 2 == 0, "odd lanes": lanes % 2 == 1, f"lanes 0 to {k - 2}": lanes < k - 1, f"lanes 1 to {k - 1}": lanes > 0,
    }  # fmt: skip
    for name, part in parts.items():
        if is_cause(_compare(seen, r, np.where(part, r.x, np.float32(0))) for r in seen.rows):
            return Found(KnownCause.HALF_OF_THE_LANES, f"as if the maximum were looked for in {name} alone")
    return None


def _compare(seen: Seen, rows: Rows, x: Floats) -> Compared:
    """The scales of what is left of blocks, where enough is left."""
    usable = np.abs(x).max(axis=1) > _SMALL
    returned = rows.scales[usable]
    same = not usable.any() or (seen.scale_bytes(x[usable], rows.tensor) == returned).all()
    return Compared(bool(same), bool((rows.want_scales[usable] != returned).any()))
