"""Hypotheses of what became of a tensor, by how many elements of a sample agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mxspec.containers.header import count_items
from mxspec.formats import E8M0
from mxspec.profiles import Profile, default_profile
from mxspec.profiles.schema import Kind
from mxspec.tensorscale import TensorScale
from mxspec_conformance.lint.against.candidates import Candidate, list_plain
from mxspec_conformance.lint.against.case import Case, Sample
from mxspec_conformance.lint.against.expecting import Flags, expect, is_nearest, list_between, list_suited
from mxspec_conformance.lint.against.material import Codes, Float32s
from mxspec_conformance.lint.hypotheses import Basis, CodeOrder, Hypothesis, ScaleOrder

#: Profiles other than the normative ones that are tried after a first quantization to something else.
_KEPT = 4
#: Rows of the sample by which scales of other rows are recognized.
_ROWS = 8


@dataclass(frozen=True, slots=True)
class _Match:
    """How one expectation meets the sample: codes in their best order, scales in theirs."""

    hypothesis: Hypothesis
    #: bool [n, k] and bool [n], both as stored and in the best order.
    codes: Flags
    scales: Flags
    plain_codes: Flags
    plain_scales: Flags
    #: Scales [n] that are due, and where any is right: for a block of zeros.
    due: Codes
    free: Flags


def _match(sample: Sample, hypothesis: Hypothesis, due: tuple[Codes, Codes] | None) -> _Match | None:
    if due is None:
        return None
    codes, scales = due
    equal = {order: kept == codes for order, kept in sample.codes.items()}
    order = max(equal, key=lambda o: int(equal[o].sum()))
    zero = ~codes.any(axis=1)
    free: Flags = np.logical_and(zero, ~sample.codes[order].any(axis=1))
    right = {o: (kept == scales) | free for o, kept in sample.scales.items()}
    scale_order, shift = max(right, key=lambda o: int(right[o].sum())), 0
    best = right[scale_order]
    if sample.stored.group.form.format.scale is E8M0 and (~zero).any():
        for o, kept in sample.scales.items():
            steps = (kept - scales)[~zero]  # modulo 256
            step = int(np.bincount(steps, minlength=256).argmax())
            if step:
                shifted = (kept - scales == step) | zero
                if int(shifted.sum()) > int(best.sum()):
                    scale_order, shift, best = o, step, shifted
    found = replace(hypothesis, codes=order, scales=scale_order, shift=shift if shift < 128 else shift - 256)
    return _Match(found, equal[order], best, equal[CodeOrder.STORED], right[ScaleOrder.STORED], scales, free)


def _count(codes: Flags, scales: Flags) -> int:
    return int((codes & scales[:, None]).sum())


def rank_own(case: Case, sample: Sample, x: Float32s) -> list[Candidate[Hypothesis]]:
    """Every profile and tensor scale on the tensor's own original, with codes and scales in any order."""
    fmt = case.group.form.format
    found: list[Candidate[Hypothesis]] = []
    best_codes: _Match | None = None
    best_scales: _Match | None = None
    for profile in case.profiles:
        for tried in case.list_scales(profile, case.original):
            hypothesis = Hypothesis(basis=Basis.PROFILE, profile=profile.id, scale_fault=tried.fault, tensor_scale=tried.bits)
            match = _match(sample, hypothesis, expect(x, fmt, profile, tried.scale))
            if match is None:
                continue
            found.append(Candidate(hypothesis, _count(match.plain_codes, match.plain_scales), x.size))
            if match.hypothesis != hypothesis:
                found.append(Candidate(match.hypothesis, _count(match.codes, match.scales), x.size))
            if tried.fault is None:
                if best_codes is None or match.codes.sum() > best_codes.codes.sum():
                    best_codes = match
                if best_scales is None or match.scales.sum() > best_scales.scales.sum():
                    best_scales = match
    if best_codes and best_scales and best_codes.hypothesis.profile != best_scales.hypothesis.profile:
        mixed = replace(
            best_codes.hypothesis, scale_profile=best_scales.hypothesis.profile, scales=best_scales.hypothesis.scales,
            shift=best_scales.hypothesis.shift,
        )  # fmt: skip
        found.append(Candidate(mixed, _count(best_codes.codes, best_scales.scales), x.size))
    if best_codes and not best_codes.scales.all() and (rolled := _find_roll(sample, best_codes.due)):
        kept = sample.stored.roll_back(rolled)[sample.blocks]
        hypothesis = replace(best_codes.hypothesis, scales=ScaleOrder.STORED, shift=0, rolled=rolled)
        found.append(Candidate(hypothesis, _count(best_codes.codes, (kept == best_codes.due) | best_codes.free), x.size))
    return found


def _find_roll(sample: Sample, due: Codes) -> int:
    """How many rows below its own most scales of a few rows of the sample are found."""
    kept = sample.stored.as_rows()
    _, rows, columns = kept.shape
    votes = np.zeros(rows, np.int64)
    number = sample.blocks // columns
    for row in np.unique(number)[:: max(1, len(np.unique(number)) // _ROWS)][:_ROWS]:
        here = number == row
        same = kept[row // rows][:, sample.blocks[here] % columns] == due[here]
        votes += np.roll(same.sum(axis=1), -int(row % rows))
    found = int(votes.argmax())
    return found if 2 * found <= rows else found - rows


def rank_between(case: Case, sample: Sample, x: Float32s, own: Sequence[Candidate[Hypothesis]]) -> Iterator[Candidate[Hypothesis]]:
    """The original quantized to something else first."""
    fmt = case.group.form.format
    kept = name_likely(list_plain(own))
    chosen = [p for p in case.profiles if p.id in kept or p.kind is Kind.NORMATIVE]
    amax = case.originals.amax(case.original)
    for between in list_between(case.group.shape[-1]):
        changed = between.apply(x, amax)
        if np.array_equal(changed.view(np.uint32), x.view(np.uint32)):
            continue
        for profile in chosen:
            for tried in case.list_scales(profile, case.original):
                if tried.fault is not None:
                    continue
                hypothesis = Hypothesis(basis=Basis.PROFILE, profile=profile.id, between=between.name, tensor_scale=tried.bits)
                match = _match(sample, hypothesis, expect(changed, fmt, profile, tried.scale))
                if match is None:
                    continue
                yield Candidate(hypothesis, _count(match.plain_codes, match.plain_scales), x.size)


def name_likely(plain: Sequence[Candidate[Hypothesis]]) -> frozenset[str]:
    """Profiles that explain most of a tensor with nothing wrong."""
    return frozenset(list(dict.fromkeys(c.hypothesis.profile for c in plain))[:_KEPT])


def rank_others(case: Case, likely: frozenset[str] | None) -> Iterator[Candidate[Hypothesis]]:
    """Codes, scales, or both of another tensor of the same size; on a small sample.

    likely: the only profiles that are tried, where something is known of them.
    """
    fmt, sample = case.group.form.format, case.sample(1)
    items = count_items(case.original.shape)
    others = [
        t for t in case.originals.plain
        if t.name != case.original.name and count_items(t.shape) == items and t.shape[-1] == case.original.shape[-1]
    ]  # fmt: skip
    if not others:
        return
    own = case.originals.read(case.original, iter(sample.runs), fmt.k)
    profiles = [p for p in case.profiles if likely is None or p.id in likely]
    matches = [
        (p.id, match)
        for p in profiles
        for t in case.list_scales(p, case.original)
        if (match := _match(sample, Hypothesis(basis=Basis.PROFILE, profile=p.id), expect(own, fmt, p, t.scale)))
    ]
    if not matches:
        return
    own_codes = max(matches, key=lambda m: int(m[1].plain_codes.sum()))
    own_scales = max(matches, key=lambda m: int(m[1].plain_scales.sum()))
    for other in others:
        there = case.originals.read(other, iter(sample.runs), fmt.k)
        for profile in profiles:
            for tried in case.list_scales(profile, other):
                base = Hypothesis(basis=Basis.PROFILE, profile=profile.id, scale_fault=tried.fault, tensor_scale=tried.bits)
                match = _match(sample, base, expect(there, fmt, profile, tried.scale))
                if match is None:
                    continue
                both = replace(base, codes_of=other.name, scales_of=other.name)
                yield Candidate(both, _count(match.plain_codes, match.plain_scales), own.size)
                if tried.fault is None or case.tensor_scale is None:
                    codes = replace(base, scale_fault=None, codes_of=other.name, scale_profile=own_scales[0])
                    yield Candidate(codes, _count(match.plain_codes, own_scales[1].plain_scales), own.size)
                    scales = replace(base, profile=own_codes[0], scale_profile=profile.id, scale_fault=None, scales_of=other.name)
                    yield Candidate(scales, _count(own_codes[1].plain_codes, match.plain_scales), own.size)


def rank_given(case: Case, sample: Sample, x: Float32s) -> Iterator[Candidate[Hypothesis]]:
    """Codes against the original and the stored scales, in any order, whatever rule the scales follow."""
    fmt = case.group.form.format
    with_scale = fmt.has_tensor_scale and case.tensor_scale is not None
    profiles = list_suited(fmt, with_tensor_scale=with_scale, kind=Kind.NORMATIVE if fmt.has_tensor_scale else None)
    if not fmt.has_tensor_scale:
        profiles = [default_profile(fmt)]
    for profile in profiles:
        if profile.one_level is None and not with_scale:
            continue
        for tried in case.list_scales(profile, case.original):
            found: list[Candidate[Hypothesis]] = []
            for scale_order, kept in sample.scales.items():
                for shift in _list_shifts(sample, x, kept, profile, tried.scale):
                    for order, codes in sample.codes.items():
                        right = is_nearest(x, codes, kept - np.uint8(shift % 256), fmt, profile, tried.scale)
                        hypothesis = Hypothesis(
                            basis=Basis.GIVEN_SCALES, profile=profile.id, scale_fault=tried.fault, codes=order,
                            scales=scale_order, shift=shift, tensor_scale=tried.bits,
                        )  # fmt: skip
                        found.append(Candidate(hypothesis, int(right.sum()), x.size))
            yield from found


def _list_shifts(sample: Sample, x: Float32s, kept: Codes, profile: Profile, scale: TensorScale | None) -> Iterator[int]:
    yield 0
    fmt = sample.stored.group.form.format
    if fmt.scale is not E8M0:
        return
    due = expect(x, fmt, profile, scale)
    if due is None:
        return
    codes, scales = due
    live = codes.any(axis=1)
    if live.any():
        step = int(np.bincount((kept - scales)[live], minlength=256).argmax())
        # The rule may be one that is a step above or below this profile's.
        for near in (step - 1, step, step + 1):
            if near % 256 not in (0, 1, 255):
                yield near if near < 128 else near - 256
