"""How many of all elements of a tensor agree with a hypothesis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mxspec.profiles import Profile, get_profile
from mxspec.tensorscale import TensorScale
from mxspec_conformance.lint.against.candidates import tally
from mxspec_conformance.lint.against.case import Case
from mxspec_conformance.lint.against.expecting import Flags, expect, in_native_kind, is_nearest, list_between, zero_table
from mxspec_conformance.lint.against.material import Codes, Float32s, reorder, whole_runs
from mxspec_conformance.lint.hypotheses import Agreement, Basis, Hypothesis


@dataclass
class Counting:
    """Counts hypotheses on all elements of a tensor."""

    case: Case

    def count(self, hypothesis: Hypothesis) -> Agreement:
        """How many elements agree."""
        return tally(self.case.group.elements, self._list_runs(hypothesis))

    def _list_runs(self, hypothesis: Hypothesis) -> Iterator[tuple[int, Flags, Flags]]:
        stored, table = self.case.stored, zero_table(self.case.group.form.format)
        kept = stored.roll_back(hypothesis.rolled) if hypothesis.rolled else stored.scales[hypothesis.scales]
        for start, stop in whole_runs(self.case.group.elements):
            (piece,) = stored.pieces(iter([(start, stop)]))
            codes, x = reorder(table[piece.codes], hypothesis.codes), self._read(None, start, stop)
            yield start, self._judge(hypothesis, x, codes, kept[piece.blocks], (start, stop)), (x == 0) & (codes == 0)

    def _read(self, name: str | None, start: int, stop: int) -> Float32s:
        tensor = self.case.original if name is None else self.case.originals.checkpoint.tensors[name]
        return self.case.originals.read(tensor, iter([(start, stop)]), self.case.group.form.format.k)

    def _judge(self, hypothesis: Hypothesis, x: Float32s, codes: Codes, scales: Codes, ends: tuple[int, int]) -> Flags:
        case, fmt = self.case, self.case.group.form.format
        profile = get_profile(hypothesis.profile, fmt)
        scale = self._scale(profile, hypothesis)
        unshifted = scales - np.uint8(hypothesis.shift % 256)
        if hypothesis.basis is Basis.GIVEN_SCALES:
            return is_nearest(x, codes, unshifted, fmt, profile, scale)
        if hypothesis.between is not None:
            between = next(b for b in list_between(case.group.shape[-1]) if b.name == hypothesis.between)
            x = between.apply(x, case.originals.amax(case.original))
        of_codes = x if hypothesis.codes_of is None else self._read(hypothesis.codes_of, *ends)
        expected = expect(of_codes, fmt, profile, scale)
        if expected is None:
            return np.zeros(codes.shape, np.bool_)
        due, due_scales = expected
        if hypothesis.scale_profile is not None or hypothesis.scales_of != hypothesis.codes_of:
            other = get_profile(hypothesis.scale_profile or hypothesis.profile, fmt)
            of_scales = x if hypothesis.scales_of is None else self._read(hypothesis.scales_of, *ends)
            native = scale if hypothesis.scale_profile in (None, hypothesis.profile) else self._stored_scale(other)
            expected = expect(of_scales, fmt, other, native)
            if expected is None:
                return np.zeros(codes.shape, np.bool_)
            due_scales = expected[1]
        zero = ~due.any(axis=1) & ~codes.any(axis=1)
        right: Flags = (codes == due) & ((unshifted == due_scales) | zero)[:, None]
        return right

    def _scale(self, profile: Profile, hypothesis: Hypothesis) -> TensorScale | None:
        if hypothesis.tensor_scale is None or profile.tensor is None:
            return None
        return TensorScale(profile.tensor.native, hypothesis.tensor_scale)

    def _stored_scale(self, profile: Profile) -> TensorScale | None:
        kept = self.case.tensor_scale
        return None if kept is None or profile.tensor is None else in_native_kind(kept, profile)
