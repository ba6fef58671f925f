"""With the source weights: how many blocks each profile gives bit for bit, over the whole tensor, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.calibration import RunningAmax
from mxspec.containers import ContainerError
from mxspec.containers.scalars import convert_bits
from mxspec.enums import StrEnum
from mxspec.formats import BlockFormat
from mxspec.profiles import Profile
from mxspec.rounding import NanPolicy
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_conformance.lint.against.case import Case
from mxspec_conformance.lint.against.expecting import in_native_kind, is_same_scale, zero_table
from mxspec_conformance.lint.against.grids import GridCase, explain_grid
from mxspec_conformance.lint.against.material import Codes, Float32s, whole_runs
from mxspec_conformance.lint.against.search import explain
from mxspec_conformance.lint.hypotheses import Basis, Explanation, Hypothesis

#: Profiles that are counted on all blocks where none gives every block of the sample.
_NEAREST = 3


class ScaleOrigin(StrEnum):
    """Where a stored tensor scale comes from, by a profile's own rule."""

    #: From the largest magnitude of the tensor.
    OWN = "own"
    #: From the largest magnitude of the layers that loaders join with it.
    JOINED = "joined"
    #: The same maximum in other roundings, such as a reciprocal of the other direction.
    ROUNDED = "rounded"
    #: From neither.
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Match:
    """How far one profile gives the tensor."""

    profile: str
    #: Blocks whose scale byte and codes are the profile's, every bit; and with -0 as +0 and any scale over zero codes.
    equal: int
    same_values: int
    blocks: int
    #: The first block that is not equal in values; None: all are.
    first: int | None
    scale: ScaleOrigin | None = None

    @property
    def exact(self) -> bool:
        """Whether every bit is the profile's."""
        return self.equal == self.blocks

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {
            "profile": self.profile, "equal": self.equal, "same_values": self.same_values, "blocks": self.blocks,
            "first": self.first, "tensor_scale_from": None if self.scale is None else self.scale.value,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the source weights say of a tensor."""

    source: str
    #: Every profile that gives all bits, or the nearest ones; the best first.
    matches: tuple[Match, ...]
    #: What else explains the tensor, where no profile gives its values: quantized twice, another tensor scale, ...
    explanation: Explanation | None = None

    @property
    def exact(self) -> tuple[Match, ...]:
        """The profiles that give every bit."""
        return tuple(m for m in self.matches if m.exact)

    @property
    def same_values(self) -> tuple[Match, ...]:
        """The profiles that give every value."""
        return tuple(m for m in self.matches if m.same_values == m.blocks)

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {
            "source": self.source, "matches": [m.as_dict() for m in self.matches],
            "explanation": None if self.explanation is None else self.explanation.as_dict(),
        }  # fmt: skip


def match(case: Case) -> Provenance:
    """Compare a tensor with what every profile gives for its source."""
    sample = case.sample()
    fmt = case.group.form.format
    x = case.originals.read(case.original, iter(sample.runs), fmt.k)
    codes = np.concatenate([p.codes for p in case.stored.pieces(iter(sample.runs))])
    scales = next(iter(sample.scales.values()))
    tried: list[tuple[int, int, Profile, TensorScale | None]] = []
    for profile in case.profiles:
        native = _native(case, profile)
        found = _compare(x, codes, scales, fmt, profile, native)
        if found is not None:
            tried.append((int(found[0].sum()), int(found[1].sum()), profile, native))
    tried.sort(key=lambda t: (-t[0], -t[1]))
    whole = [t for t in tried if t[1] == len(codes)] or tried[:_NEAREST]
    matches = sorted(_count(case, [(p, s) for _, _, p, s in whole]), key=lambda m: (-m.equal, -m.same_values))
    given = any(m.same_values == m.blocks and m.scale is not ScaleOrigin.OTHER for m in matches)
    return Provenance(case.original.name, tuple(matches), None if given else explain(case))


def match_grid(case: GridCase) -> Provenance:
    """The same for a tensor with a scale for each tile of 128 x 128; blocks are rows of a tile."""
    fmt, stored = case.group.form.format, Hypothesis(basis=Basis.PROFILE, profile=case.profiles[0].id)
    totals = np.zeros((len(case.profiles), 2), np.int64)
    first: list[int | None] = [None] * len(case.profiles)
    blocks = 0
    for window in case.bands():
        codes, scales = case.raw(window), case.scales_of(stored, window).reshape(-1)
        for n, profile in enumerate(case.profiles):
            due = mxspec.quantize(window.x, fmt, profile=profile, block=(128, 128), pad=True)
            rows = len(window.x)
            equal, same = compare_blocks(due.codes[:rows].reshape(-1, fmt.k), due.scales[:rows].reshape(-1), codes, scales, zero_table(fmt))
            totals[n] += equal.sum(), same.sum()
            if first[n] is None and not same.all():
                first[n] = blocks + int((~same).argmax())
        blocks += len(codes)
    found = [Match(p.id, int(totals[n][0]), int(totals[n][1]), blocks, first[n]) for n, p in enumerate(case.profiles)]
    found.sort(key=lambda m: (-m.equal, -m.same_values))
    matches = [m for m in found if m.same_values == m.blocks] or found[:_NEAREST]
    return Provenance(case.original.name, tuple(matches), None if matches[0].same_values == blocks else explain_grid(case))


def _native(case: Case, profile: Profile) -> TensorScale | None:
    """The stored tensor scale as the profile uses it: in the other direction the source's own, if that was stored rounded."""
    kept = case.tensor_scale
    if kept is None or profile.tensor is None:
        return None
    if kept.kind is not profile.tensor.native:
        for due in _list_due(case, profile):
            try:
                turned = convert_bits(due.bits, due.kind, kept.kind)
            except ContainerError:  # it has no reciprocal
                continue
            if abs(turned - kept.bits) <= 1:
                return due
    return in_native_kind(kept, profile)


def _list_due(case: Case, profile: Profile) -> tuple[TensorScale, TensorScale]:
    """The tensor scales of the tensor's own maximum, and of the layers that loaders join with it."""
    assert profile.tensor is not None
    own = case.originals.amax(case.original)
    joined = RunningAmax()
    for tensor in case.fused or (case.original,):
        joined = joined.merge(case.originals.amax(tensor))
    nan = profile.tensor.amax_nan
    return derive_tensor_scale(own.amax_bits(nan), profile), derive_tensor_scale(joined.amax_bits(nan), profile)


def _compare(
    x: Float32s, codes: Codes, scales: Codes, fmt: BlockFormat, profile: Profile, native: TensorScale | None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None:
    """Which blocks [n] are the profile's, in bits and in values; None where it refuses what is in them."""
    policy = profile.steps(with_tensor_scale=native is not None).element
    refuses = (policy.nan if fmt.element.nan_code is None else policy.nan_own) is NanPolicy.RAISE
    if refuses and not np.isfinite(x).all():
        return None
    due = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native)
    return compare_blocks(due.codes, due.scales.reshape(-1), codes, scales, zero_table(fmt))


def compare_blocks(
    due: Codes, due_scales: Codes, codes: Codes, scales: Codes, fold: Codes
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which blocks [n, k] with scales [n] are equal in bits, and in values: zeros of either sign, and of any scale, are one.

    fold: the code that stands for each of 256; k is a multiple of 8. Only blocks that differ are compared twice.
    """
    words = [np.ascontiguousarray(a).view(np.uint64) for a in (due, codes)]
    equal: npt.NDArray[np.bool_] = (words[0] == words[1]).all(axis=1) & (due_scales == scales)
    same = equal.copy()
    rest = np.flatnonzero(~equal)
    folded, kept = fold[due[rest]], fold[codes[rest]]
    zero = ~folded.any(axis=1) & ~kept.any(axis=1)
    same[rest] = (folded == kept).all(axis=1) & ((due_scales[rest] == scales[rest]) | zero)
    return equal, same


def _count(case: Case, profiles: Sequence[tuple[Profile, TensorScale | None]]) -> list[Match]:
    fmt = case.group.form.format
    equal, same = [0] * len(profiles), [0] * len(profiles)
    first: list[int | None] = [None] * len(profiles)
    scales = next(iter(case.stored.scales.values()))
    for start, stop in whole_runs(case.group.elements):
        (piece,) = case.stored.pieces(iter([(start, stop)]))
        x = case.originals.read(case.original, iter([(start, stop)]), fmt.k)
        for number, (profile, native) in enumerate(profiles):
            found = _compare(x, piece.codes, scales[piece.blocks], fmt, profile, native)
            if found is None:
                continue
            equal[number] += int(found[0].sum())
            same[number] += int(found[1].sum())
            if first[number] is None and not found[1].all():
                first[number] = piece.start + int((~found[1]).argmax())
    return [
        Match(p.id, equal[n], same[n], len(scales), first[n], None if s is None else _find_origin(case, p, s))
        for n, (p, s) in enumerate(profiles)
    ]


def _find_origin(case: Case, profile: Profile, native: TensorScale) -> ScaleOrigin:
    due = _list_due(case, profile)
    for scale, origin in zip(due, (ScaleOrigin.OWN, ScaleOrigin.JOINED), strict=True):
        if scale.bits == native.bits:
            return origin
    return ScaleOrigin.ROUNDED if any(is_same_scale(s, native) for s in due) else ScaleOrigin.OTHER
