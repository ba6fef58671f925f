"""The search for what became of a tensor: hypotheses are ranked on a sample, and the best are counted on all elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from mxspec.calibration import RunningAmax
from mxspec.containers.checkpoint import read_scales
from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor, count_items
from mxspec.formats import E8M0
from mxspec.profiles import Profile, default_profile, get_profile
from mxspec.profiles.schema import Kind, TensorScaleKind
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_conformance.lint.against.expecting import (
    Flags,
    expect,
    in_native_kind,
    is_nearest,
    is_same_scale,
    list_between,
    list_suited,
    zero_table,
)
from mxspec_conformance.lint.against.material import (
    Codes,
    Float32s,
    Originals,
    Stored,
    reorder,
    sample_runs,
    whole_runs,
)
from mxspec_conformance.lint.hypotheses import (
    Agreement,
    Basis,
    CodeOrder,
    Departure,
    Explanation,
    Hypothesis,
    ScaleOrder,
)

#: Hypotheses of the sample that are counted on all elements before the search goes on to other kinds of them.
_COUNTED = 6
#: Profiles beside the normative ones that are tried after a first quantization to something else.
_KEPT = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hypothesis and how many elements of a sample agree."""

    hypothesis: Hypothesis
    agreeing: int
    #: Elements of the sample.
    elements: int

    @property
    def rank(self) -> tuple[int, int]:
        """Best first when sorted: most elements, then fewest departures."""
        return -self.agreeing, len(self.hypothesis.departures)


@dataclass(frozen=True, slots=True)
class _Scale:
    """A tensor scale that may have been used, and what is wrong if it was."""

    scale: TensorScale | None
    fault: Departure | None = None


@dataclass
class Sample:
    """Blocks of a tensor on which hypotheses are ranked."""

    stored: Stored
    runs: tuple[tuple[int, int], ...]

    @cached_property
    def codes(self) -> dict[CodeOrder, Codes]:
        """Codes [n, k] in each order, without -0."""
        table = zero_table(self.stored.group.form.format)
        raw = table[np.concatenate([p.codes for p in self.stored.pieces(iter(self.runs))])]
        return {order: reorder(raw, order) for order in self.stored.orders}

    @cached_property
    def scales(self) -> dict[ScaleOrder, Codes]:
        """Scales [n] in each order."""
        k = self.stored.group.form.format.k
        blocks = np.concatenate([np.arange(a // k, b // k) for a, b in self.runs])
        return {order: kept[blocks] for order, kept in self.stored.scales.items()}


@dataclass
class Case:
    """One tensor of the file with its original, and all that is asked of them."""

    group: Group
    original: Tensor
    originals: Originals
    #: Originals of the tensors with which loaders join this one: their common maximum may have made the tensor scale.
    fused: tuple[Tensor, ...] = ()
    #: Profiles to try first: what the file or the user says, and what explained other tensors.
    first: Sequence[str] = ()
    stored: Stored = field(init=False)

    def __post_init__(self) -> None:
        self.stored = Stored(self.group)

    @cached_property
    def tensor_scale(self) -> TensorScale | None:
        """The stored tensor scale, if there is one and it is one number."""
        found = read_scales(self.group).tensor
        return TensorScale(found[0], found[1][0]) if found is not None and len(found[1]) == 1 else None

    @cached_property
    def profiles(self) -> list[Profile]:
        """Every profile that can have made the tensor, the likeliest first."""
        fmt = self.group.form.format
        known = list_suited(fmt, with_tensor_scale=fmt.has_tensor_scale)
        if fmt.has_tensor_scale and self.group.form.tensor_scale is not None and self.tensor_scale is None:
            known += list_suited(fmt, with_tensor_scale=False)
        order = {name: number for number, name in enumerate(dict.fromkeys((*self.first, self.group.form.profile)))}
        return sorted({p.id: p for p in known}.values(), key=lambda p: order.get(p.id, len(order)))

    def sample(self, runs: int = 16) -> Sample:
        """A sample of so many runs."""
        return Sample(self.stored, tuple(sample_runs(self.group.elements, runs) if runs > 1 else _one_run(self.group)))

    def list_scales(self, profile: Profile, source: Tensor) -> Iterator[_Scale]:
        """Tensor scales that a profile may have used for numbers of `source`."""
        if not self.group.form.format.has_tensor_scale or profile.tensor is None or profile.two_level is None:
            yield _Scale(None)
            return
        kept = self.tensor_scale
        native = None if kept is None else in_native_kind(kept, profile)
        if kept is None and profile.one_level is not None:
            yield _Scale(None)
        if native is not None:
            yield _Scale(native)
        maxima = [self.originals.amax(source)]
        if source is self.original and len(self.fused) > 1:
            maxima.append(_merge(self.originals, self.fused))
        seen = {None if native is None else native.bits}
        for amax in maxima:
            due = derive_tensor_scale(amax.amax_bits(profile.tensor.amax_nan), profile)
            if due.bits not in seen and 0 < due.bits < 0x7F800000:
                seen.add(due.bits)
                yield _Scale(due, None if kept is None else name_scale_fault(kept, due))


def _one_run(group: Group) -> Iterator[tuple[int, int]]:
    size = min(group.elements, 4096)
    start = (group.elements - size) // 2 // 64 * 64
    yield start, start + size


def _merge(originals: Originals, tensors: Sequence[Tensor]) -> RunningAmax:
    found = RunningAmax()
    for tensor in tensors:
        found = found.merge(originals.amax(tensor))
    return found


def name_scale_fault(kept: TensorScale, due: TensorScale) -> Departure | None:
    """What is wrong with a stored scale, where another is due."""
    if is_same_scale(kept, due):
        return None
    other = TensorScaleKind.ENCODE if kept.kind is TensorScaleKind.DECODE else TensorScaleKind.DECODE
    turned = TensorScale(other, kept.bits)
    return Departure.INVERTED if is_same_scale(turned, due) else Departure.TENSOR_SCALE


@dataclass(frozen=True, slots=True)
class _Match:
    """How one expectation meets the sample: codes in their best order, scales in theirs."""

    hypothesis: Hypothesis
    #: bool [n, k] and bool [n], both as stored and in the best order.
    codes: Flags
    scales: Flags
    plain_codes: Flags
    plain_scales: Flags


def _match(sample: Sample, hypothesis: Hypothesis, due: tuple[Codes, Codes] | None) -> _Match | None:
    if due is None:
        return None
    codes, scales = due
    equal = {order: kept == codes for order, kept in sample.codes.items()}
    order = max(equal, key=lambda o: int(equal[o].sum()))
    zero = ~codes.any(axis=1)
    right = {o: (kept == scales) | (zero & ~sample.codes[order].any(axis=1)) for o, kept in sample.scales.items()}
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
    return _Match(found, equal[order], best, equal[CodeOrder.STORED], right[ScaleOrder.STORED])


def _count(codes: Flags, scales: Flags) -> int:
    return int((codes & scales[:, None]).sum())


def rank_own(case: Case, sample: Sample, x: Float32s) -> list[Candidate]:
    """Every profile and tensor scale on the tensor's own original, with codes and scales in any order."""
    fmt = case.group.form.format
    found: list[Candidate] = []
    best_codes: _Match | None = None
    best_scales: _Match | None = None
    for profile in case.profiles:
        for tried in case.list_scales(profile, case.original):
            hypothesis = Hypothesis(
                basis=Basis.PROFILE, profile=profile.id, scale_fault=tried.fault,
                tensor_scale=None if tried.scale is None else tried.scale.bits,
            )  # fmt: skip
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
    return found


def rank_between(case: Case, sample: Sample, x: Float32s, own: Sequence[Candidate]) -> Iterator[Candidate]:
    """The original quantized to something else first."""
    fmt = case.group.form.format
    plain = sorted((c for c in own if not c.hypothesis.departures), key=lambda c: c.rank)
    kept = _name_likely(plain)
    chosen = [p for p in case.profiles if p.id in kept or p.kind is Kind.NORMATIVE]
    amax = case.originals.amax(case.original)
    for between in list_between(fmt, case.group.shape[-1]):
        changed = between.apply(x, amax)
        if np.array_equal(changed.view(np.uint32), x.view(np.uint32)):
            continue
        for profile in chosen:
            for tried in case.list_scales(profile, case.original):
                if tried.fault is not None:
                    continue
                hypothesis = Hypothesis(
                    basis=Basis.PROFILE, profile=profile.id, between=between.name,
                    tensor_scale=None if tried.scale is None else tried.scale.bits,
                )  # fmt: skip
                match = _match(sample, hypothesis, expect(changed, fmt, profile, tried.scale))
                if match is None:
                    continue
                yield Candidate(hypothesis, _count(match.plain_codes, match.plain_scales), x.size)


def _name_likely(plain: Sequence[Candidate]) -> frozenset[str]:
    """Profiles that explain most of a tensor with nothing wrong."""
    return frozenset(list(dict.fromkeys(c.hypothesis.profile for c in plain))[:_KEPT])


def rank_others(case: Case, likely: frozenset[str] | None) -> Iterator[Candidate]:
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
                base = Hypothesis(
                    basis=Basis.PROFILE, profile=profile.id, scale_fault=tried.fault,
                    tensor_scale=None if tried.scale is None else tried.scale.bits,
                )  # fmt: skip
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


def rank_given(case: Case, sample: Sample, x: Float32s) -> Iterator[Candidate]:
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
            found: list[Candidate] = []
            for scale_order, kept in sample.scales.items():
                for shift in _list_shifts(sample, x, kept, profile, tried.scale):
                    for order, codes in sample.codes.items():
                        right = is_nearest(x, codes, kept - np.uint8(shift % 256), fmt, profile, tried.scale)
                        hypothesis = Hypothesis(
                            basis=Basis.GIVEN_SCALES, profile=profile.id, scale_fault=tried.fault, codes=order,
                            scales=scale_order, shift=shift,
                            tensor_scale=None if tried.scale is None else tried.scale.bits,
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


@dataclass
class Counting:
    """Counts hypotheses on all elements of a tensor."""

    case: Case

    def count(self, hypothesis: Hypothesis) -> Agreement:
        """How many elements agree."""
        case, fmt = self.case, self.case.group.form.format
        table = zero_table(fmt)
        agreeing = silent = 0
        first: int | None = None
        for start, stop in whole_runs(case.group.elements):
            (piece,) = case.stored.pieces(iter([(start, stop)]))
            codes = reorder(table[piece.codes], hypothesis.codes)
            scales = case.stored.scales[hypothesis.scales][piece.blocks]
            x = self._read(None, start, stop)
            right = self._judge(hypothesis, x, codes, scales, (start, stop))
            agreeing += int(right.sum())
            silent += int(((x == 0) & (codes == 0) & right).sum())
            if first is None and not right.all():
                first = start + int((~right).reshape(-1).argmax())
        return Agreement(agreeing, case.group.elements, silent, first)

    def _read(self, name: str | None, start: int, stop: int) -> Float32s:
        tensor = self.case.original if name is None else self.case.originals.checkpoint.tensors[name]
        return self.case.originals.read(tensor, iter([(start, stop)]), self.case.group.form.format.k)

    def _judge(
        self, hypothesis: Hypothesis, x: Float32s, codes: Codes, scales: Codes, ends: tuple[int, int]
    ) -> Flags:
        case, fmt = self.case, self.case.group.form.format
        profile = get_profile(hypothesis.profile, fmt)
        scale = self._scale(profile, hypothesis)
        unshifted = scales - np.uint8(hypothesis.shift % 256)
        if hypothesis.basis is Basis.GIVEN_SCALES:
            return is_nearest(x, codes, unshifted, fmt, profile, scale)
        if hypothesis.between is not None:
            between = next(b for b in list_between(fmt, case.group.shape[-1]) if b.name == hypothesis.between)
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


def explain(case: Case) -> Explanation:
    """What became of a tensor: what is stored if that explains it, else the best hypothesis that explains more."""
    sample = case.sample()
    x = case.originals.read(case.original, iter(sample.runs), case.group.form.format.k)
    counting = Counting(case)
    counted: dict[Hypothesis, Agreement] = {}

    def count(hypothesis: Hypothesis) -> Agreement:
        if hypothesis not in counted:
            counted[hypothesis] = counting.count(hypothesis)
        return counted[hypothesis]

    def result(hypothesis: Hypothesis) -> Explanation:
        plain = max((a for h, a in counted.items() if not h.departures), key=lambda a: a.agreeing)
        return Explanation(case.group.base, case.original.name, hypothesis, count(hypothesis), plain)

    def settle(found: Sequence[Candidate], most: int = _COUNTED) -> Explanation | None:
        """The first of the candidates that explains every element; only those are counted that do so on the sample."""
        whole = [c for c in found if c.agreeing == c.elements]
        for candidate in sorted(whole, key=lambda c: c.rank)[:most]:
            if count(candidate.hypothesis).complete:
                return result(candidate.hypothesis)
        return None

    own = rank_own(case, sample, x)
    plain = sorted((c for c in own if not c.hypothesis.departures), key=lambda c: c.rank)
    count(plain[0].hypothesis)
    if done := settle(plain, most=len(plain)):
        return done
    given = list(rank_given(case, sample, x))
    straight = sorted((c for c in given if not c.hypothesis.departures), key=lambda c: c.rank)
    if done := settle(straight):
        return done
    steps: tuple[Callable[[], Iterable[Candidate]], ...] = (
        lambda: (c for c in own if c.hypothesis.departures),
        lambda: rank_between(case, sample, x, own),
        lambda: rank_others(case, _name_likely(plain) if counted[plain[0].hypothesis].majority else None),
        lambda: (c for c in given if c.hypothesis.departures),
    )
    best: list[Candidate] = []
    for step in steps:
        new = sorted(step(), key=lambda c: c.rank)
        if done := settle(new):
            return done
        best += new[:1]
    for candidate in best:
        count(candidate.hypothesis)
    if straight:
        count(straight[0].hypothesis)
    best_plain = max((h for h in counted if not h.departures), key=lambda h: counted[h].agreeing)
    best_other = max((h for h in counted if h.departures), key=lambda h: counted[h].agreeing, default=best_plain)
    if counted[best_other].majority and not counted[best_plain].majority:
        return result(best_other)
    return result(best_plain)
