"""Hypotheses of what became of a tensor of affine integers, by how many elements of a sample agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from mxspec.affine.formats import AffineFormat, Offset
from mxspec.affine.profiles import default_affine_profile
from mxspec.affine.schema import AffineProfile
from mxspec.affine.tensor import AffineTensor
from mxspec.containers.header import Tensor
from mxspec_conformance.lint.against.affine.case import AffineCase, Flags, Rows, expect, is_nearest, merge
from mxspec_conformance.lint.against.affine.stored import Array
from mxspec_conformance.lint.against.candidates import Candidate
from mxspec_conformance.lint.against.material import Float32s
from mxspec_conformance.lint.hypotheses import AffineHypothesis, Basis, GroupOrder, Reading

Found = Iterator[Candidate[AffineHypothesis]]
#: Departures that a hypothesis of codes under given scales may have at once, and numbers and rows that it is tried on.
_MOST_READ, _GIVEN, _FEWEST_ROWS = 2, 1 << 12, 4


@dataclass(frozen=True)
class _Match:
    """Parts in the readings in which most of them agree."""

    reading: Reading
    codes: Flags
    groups: Flags
    plain_codes: Flags
    plain_groups: Flags


def _count(codes: Flags, groups: Flags) -> int:
    return int((codes.reshape(*groups.shape, -1) & groups[..., None]).sum())


def _match(case: AffineCase, due: AffineTensor, dtype: str | None) -> _Match:
    """due: of the first rows of the sample."""
    sample, fmt, rows = case.sample, due.format, len(due.codes)

    def best(kept: Sequence[tuple[Reading, Array]], wanted: Array) -> tuple[Reading, Flags, Flags]:
        tried = [(reading, part[:rows] == wanted) for reading, part in kept]
        return *max(tried, key=lambda t: int(t[1].sum())), tried[0][1]

    codes, right_codes, plain_codes = best(sample.codes, due.codes)
    scales, right_scales, plain_scales = best(sample.scales(dtype), due.scales)
    offsets, right_offsets, plain_offsets = best(sample.offsets(dtype), due.offsets)
    step = 0
    if fmt.offset is Offset.ZERO and not case.group.symmetric:
        for reading, part in sample.offsets(dtype):
            steps = (due.offsets - part[:rows]) & np.uint8(fmt.bins)
            common = int(np.bincount(steps.reshape(-1)).argmax())
            if common and int((steps == common).sum()) > int(right_offsets.sum()):
                offsets, right_offsets = reading, steps == common
                step = common if 2 * common <= fmt.bins + 1 else common - fmt.bins - 1
    return _Match(
        merge(codes, scales, offsets, step=step), right_codes, right_scales & right_offsets, plain_codes, plain_scales & plain_offsets
    )


def _read(case: AffineCase, bands: tuple[Rows, ...], *, name: str | None = None, of_columns: bool = False) -> Float32s:
    return np.concatenate([case.read(rows, name=name, of_columns=of_columns) for rows in bands])


def rank_own(case: AffineCase) -> Found:
    """Every profile on the tensor's own original, with codes, scales and offsets read in any way."""
    square = case.group.shape[0] == case.group.shape[1]
    for of_columns in (True,) if case.is_turned else (False, True) if square else (False,):
        x = _read(case, case.sample.bands, of_columns=of_columns)
        for dtype, fmt in case.list_formats():
            for profile in case.list_profiles(fmt):
                match = _match(case, expect(x, fmt, profile), dtype)
                plain = AffineHypothesis(basis=Basis.PROFILE, profile=profile.id, of_columns=of_columns)
                if dtype is None:
                    yield Candidate(plain, _count(match.plain_codes, match.plain_groups), x.size)
                if match.reading != Reading():
                    read = AffineHypothesis(basis=Basis.PROFILE, profile=profile.id, of_columns=of_columns, reading=match.reading)
                    yield Candidate(read, _count(match.codes, match.groups), x.size)
    if case.is_turned:
        # What the file says as it is: nothing can follow from an original of another shape.
        fallback = AffineHypothesis(basis=Basis.PROFILE, profile=default_affine_profile(case.group.format).id)
        yield Candidate(fallback, 0, case.group.elements)


def rank_between(case: AffineCase) -> Found:
    """The original quantized to something else first."""
    if case.is_turned:
        return
    x, fmt = _read(case, case.sample.bands), case.group.format
    for name, apply in case.list_between():
        changed = apply(x)
        if np.array_equal(changed.view(np.uint32), x.view(np.uint32)):
            continue
        for profile in case.list_profiles(fmt):
            match = _match(case, expect(changed, fmt, profile), None)
            hypothesis = AffineHypothesis(basis=Basis.PROFILE, profile=profile.id, between=name)
            yield Candidate(hypothesis, _count(match.plain_codes, match.plain_groups), x.size)


def rank_others(case: AffineCase, likely: str | None) -> Found:
    """Codes, scales and offsets, or both of another tensor of the same shape; on one band.

    likely: the only profile that is tried, where something is known of it.
    """
    fmt, bands = case.group.format, case.sample.bands[:1]
    others = [t for t in case.originals.plain if t.name != case.original.name and t.shape == case.group.shape]
    if case.is_turned or not others:
        return
    profiles = [p for p in case.list_profiles(fmt) if likely in (None, p.id)]

    def match(tensor: Tensor, profile: AffineProfile, fmt: AffineFormat) -> _Match:
        return _match(case, expect(_read(case, bands, name=tensor.name), fmt, profile), None)

    size = (bands[0][1] - bands[0][0]) * case.group.shape[1]
    for profile in profiles:
        own = match(case.original, profile, fmt)
        for other in others:
            there = match(other, profile, fmt)
            for codes_of, scales_of in ((other.name, other.name), (other.name, None), (None, other.name)):
                codes = there.plain_codes if codes_of else own.plain_codes
                groups = there.plain_groups if scales_of else own.plain_groups
                found = AffineHypothesis(basis=Basis.PROFILE, profile=profile.id, codes_of=codes_of, scales_of=scales_of)
                yield Candidate(found, _count(codes, groups), size)


def rank_given(case: AffineCase) -> Found:
    """Codes against the original and the stored scales and offsets, read in any way, whatever rule chose them; on some rows."""
    if case.is_turned:
        return
    sample, band = case.sample, case.sample.bands[0]
    rows = min(band[1] - band[0], max(_GIVEN // case.group.shape[1], _FEWEST_ROWS))
    x = case.read((band[0], band[0] + rows))
    steps = (0, 1, -1) if case.group.format.offset is Offset.ZERO and not case.group.symmetric else (0,)
    profile = default_affine_profile(case.group.format).id
    for dtype, fmt in case.list_formats():
        ways = [(replace(r, step=step), (o[:rows] + np.uint8(step % 256)) & np.uint8(fmt.bins) if step else o[:rows])
                for r, o in sample.offsets(dtype) for step in steps]  # fmt: skip
        for (of_codes, q), (of_scales, s), (of_offsets, o) in product(sample.codes, sample.scales(dtype), ways):
            reading = merge(of_codes, of_scales, of_offsets, step=of_offsets.step)
            moved = {of_scales.scales, of_offsets.offsets} - {GroupOrder.STORED}
            if len(reading.departures) <= _MOST_READ and len(moved) < 2:
                hypothesis = AffineHypothesis(basis=Basis.GIVEN_SCALES, profile=profile, reading=reading)
                yield Candidate(hypothesis, int(is_nearest(x, q[:rows], s[:rows], o, fmt).sum()), x.size)
