"""How many of all elements of a tensor of affine integers agree with a hypothesis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mxspec.affine.checkpoints.bands import cut
from mxspec.affine.profiles import get_affine_profile
from mxspec_conformance.lint.against.affine.case import AffineCase, Flags, Rows, expect, is_nearest, match_groups
from mxspec_conformance.lint.against.candidates import tally
from mxspec_conformance.lint.hypotheses import AffineHypothesis, Agreement, Basis


def count(case: AffineCase, hypothesis: AffineHypothesis) -> Agreement:
    """How many elements agree, in bands of rows."""
    if case.is_turned and not hypothesis.of_columns:
        return Agreement(0, case.group.elements, 0, 0)
    scales, offsets = case.stored.read_scales(hypothesis.reading), case.stored.read_offsets(hypothesis.reading)

    def list_runs() -> Iterator[tuple[int, Flags, Flags]]:
        for rows in cut(case.group.shape):
            x = case.read(rows, of_columns=hypothesis.of_columns)
            right = _judge(case, hypothesis, x, rows, scales[rows[0] : rows[1]], offsets[rows[0] : rows[1]])
            yield rows[0] * case.group.shape[1], right, x == 0

    return tally(case.group.elements, list_runs())


def _judge(case: AffineCase, hypothesis: AffineHypothesis, x: np.ndarray, rows: Rows, scales: np.ndarray, offsets: np.ndarray) -> Flags:
    reading = hypothesis.reading
    fmt = replace(case.group.format, dtype=reading.dtype or case.group.format.dtype)
    codes = case.stored.read_codes(rows, reading)
    if hypothesis.basis is Basis.GIVEN_SCALES:
        return is_nearest(x, codes, scales, offsets, fmt)
    if hypothesis.between is not None:
        x = next(apply for name, apply in case.list_between() if name == hypothesis.between)(x)
    profile = get_affine_profile(hypothesis.profile, fmt)
    of_codes = x if hypothesis.codes_of is None else case.read(rows, name=hypothesis.codes_of)
    due = shared = expect(of_codes, fmt, profile)
    if hypothesis.scales_of != hypothesis.codes_of:
        shared = expect(x if hypothesis.scales_of is None else case.read(rows, name=hypothesis.scales_of), fmt, profile)
    groups = match_groups(scales, shared.scales) & match_groups(offsets, shared.offsets)
    right: Flags = (codes == due.codes) & np.repeat(groups, fmt.group, axis=1)
    return right
