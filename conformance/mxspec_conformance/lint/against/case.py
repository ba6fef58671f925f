"""One tensor with its original, a sample of its blocks, and the tensor scales that may have been used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mxspec.calibration import RunningAmax
from mxspec.containers.checkpoint import read_scales
from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor
from mxspec.profiles import Profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_conformance.lint.against.expecting import in_native_kind, is_same_scale, list_suited, zero_table
from mxspec_conformance.lint.against.material import Codes, Originals, Stored, reorder, sample_runs
from mxspec_conformance.lint.hypotheses import CodeOrder, Departure, ScaleOrder


@dataclass(frozen=True, slots=True)
class TriedScale:
    """A tensor scale that may have been used, and what is wrong if it was."""

    scale: TensorScale | None
    fault: Departure | None = None

    @property
    def bits(self) -> int | None:
        """The float32 bits of the scale; None: there is none."""
        return None if self.scale is None else self.scale.bits


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
    def blocks(self) -> npt.NDArray[np.intp]:
        """Numbers of the blocks in row-major order."""
        k = self.stored.group.form.format.k
        return np.concatenate([np.arange(a // k, b // k) for a, b in self.runs])

    @cached_property
    def scales(self) -> dict[ScaleOrder, Codes]:
        """Scales [n] in each order."""
        blocks = self.blocks
        return {order: kept[blocks] for order, kept in self.stored.scales.items()}


@dataclass
class Case:
    """One tensor of the file with its original, and all that is computed from them."""

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
        found = read_scales(self.group)
        return found.of_item() if found.tensor is not None and len(found.tensor[1]) == 1 else None

    @cached_property
    def profiles(self) -> list[Profile]:
        """Every profile that can have made the tensor, the likeliest first."""
        fmt, scaled = self.group.form.format, self.group.form.tensor_scale is not None
        known = list_suited(fmt, with_tensor_scale=scaled)
        if scaled and self.tensor_scale is None:
            known += list_suited(fmt, with_tensor_scale=False)
        order = {name: number for number, name in enumerate(dict.fromkeys((*self.first, self.group.form.profile)))}
        return sorted({p.id: p for p in known}.values(), key=lambda p: order.get(p.id, len(order)))

    def sample(self, runs: int = 16) -> Sample:
        """A sample of so many runs."""
        return Sample(self.stored, tuple(sample_runs(self.group.elements, runs) if runs > 1 else _one_run(self.group)))

    def list_scales(self, profile: Profile, source: Tensor) -> Iterator[TriedScale]:
        """Tensor scales that a profile may have used for numbers of `source`."""
        if self.group.form.tensor_scale is None or profile.tensor is None or profile.two_level is None:
            yield TriedScale(None)
            return
        kept = self.tensor_scale
        native = None if kept is None else in_native_kind(kept, profile)
        if kept is None and profile.one_level is not None:
            yield TriedScale(None)
        if native is not None:
            yield TriedScale(native)
        maxima = [self.originals.amax(source)]
        if source is self.original and len(self.fused) > 1:
            maxima.append(_merge(self.originals, self.fused))
        seen = {None if native is None else native.bits}
        for amax in maxima:
            due = derive_tensor_scale(amax.amax_bits(profile.tensor.amax_nan), profile)
            if due.bits not in seen and 0 < due.bits < 0x7F800000:
                seen.add(due.bits)
                yield TriedScale(due, None if kept is None else name_scale_fault(kept, due))


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
