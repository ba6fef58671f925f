"""What became of the wrong blocks of a call, from their bytes: a scale, then codes."""

from __future__ import annotations

import numpy as np
import pytest

from mxspec_conformance.judge.invariance.misplaced import Displacement, classify

ALONE = np.array([[5, 1, 2], [6, 3, 4], [7, 5, 6], [8, 7, 8]], np.uint8)
NO_SCALES = np.where(np.arange(3) == 0, 0, ALONE).astype(np.uint8)


@pytest.mark.parametrize(
    ("got", "want", "kind", "distance"),
    [
        (NO_SCALES, ALONE, Displacement.SCALES_ZERO, 0),
        (ALONE, NO_SCALES, Displacement.SCALES_ZERO_ELSEWHERE, 0),
        (np.zeros_like(ALONE), ALONE, Displacement.ZERO, 0),
        (ALONE[[1, 0, 3, 2]], ALONE, Displacement.EXCHANGED, 0),
        (ALONE[[0, 0, 1, 2]], ALONE, Displacement.MOVED, -1),
        (ALONE + np.uint8(100), ALONE, Displacement.OTHER, 0),
    ],
)
def test_what_became_of_blocks(got: np.ndarray, want: np.ndarray, kind: Displacement, distance: int) -> None:
    wrong = (got != want).any(axis=1)
    assert classify(got, want, wrong, 1) == (kind, distance)
