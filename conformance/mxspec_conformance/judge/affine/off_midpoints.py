"""Groups of numbers just beyond the floats that are adjacent to a midpoint: an intermediate rounding moves them.

The vectors hold midpoints and the floats adjacent to them, which an interval of legal quotients holds where offsets are floats. A quotient
held in 16 bits, or a constant that is nearly one half, goes wrong further away.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mxspec.affine.arrays import quantize_groups
from mxspec.affine.formats import AffineFormat, Offset
from mxspec.affine.profiles import get_affine_profile
from mxspec_vectors.affine_cases import AffineAnswer, AffineGroupCase

#: How the names of these groups begin.
OFF_MIDPOINTS = "next to midpoints, "
#: Binary logarithms of the distance from a midpoint, in steps.
DISTANCES = (-6, -8, -9, -10, -12)


@lru_cache(maxsize=64)
def list_off_midpoints(fmt: AffineFormat, profiles: tuple[str, ...]) -> Sequence[AffineGroupCase]:
    """One group for each distance, with the answers of these profiles; ends are whole steps of 1/4, below zero and above.

    Nothing where a group has no more than its two ends.
    """
    if fmt.group < 3:
        return ()
    places = np.arange(fmt.group - 2)
    middle = (places * 7 + places // fmt.bins) % fmt.bins + 0.5
    below = fmt.bins // 2
    cases = []
    for number, distance in enumerate(DISTANCES):
        moved = middle + np.where((places + places // 2 + number) % 2, 1, -1) * 2.0**distance
        x = ((np.concatenate([[0, fmt.bins], moved]) - below) / 4).astype(fmt.numpy_dtype)
        answers = {}
        for name in profiles:
            codes, scales, offsets = quantize_groups(x.astype(np.float32)[None], fmt, get_affine_profile(name))
            kind = fmt.numpy_dtype if fmt.offset is Offset.BIAS else np.dtype(np.uint8)
            answers[name] = AffineAnswer(codes[0], np.asarray(scales[0]), np.asarray(offsets[0]).astype(kind))
        cases.append(AffineGroupCase(f"{OFF_MIDPOINTS}2^{distance} of a step", "mixture", x, answers))
    return tuple(cases)
