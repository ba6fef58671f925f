"""Floors and ceilings of scales: the ends of the maxima that all get one scale byte, where the profile has many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.scale import ObservedScales
from mxspec_vectors.cases import Codes
from mxspec_vectors.points import INF
from mxspec_vectors.tensor_scales import TensorScales

Bits = npt.NDArray[np.uint32]
#: Steps of the profile's scale byte that the one byte replaces: fewer are another rule, or the format's own end.
_STEPS = 3


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of the scales: its byte; as bits of float32 the first maximum within, and the last one that was seen to have the byte."""

    byte: int
    amax: int
    last: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The floors and ceilings under each tensor scale, if there are any."""

    floors: Mapping[TensorScales | None, Bound] = field(default_factory=dict)
    ceilings: Mapping[TensorScales | None, Bound] = field(default_factory=dict)
    fmt: BlockFormat | None = None

    def within(self, amax: Bits, tensor: TensorScales | None) -> npt.NDArray[np.bool_]:
        """Whether maxima (bits of float32) lie between the floor and the ceiling, or are zero."""
        inside: npt.NDArray[np.bool_] = np.ones(amax.shape, np.bool_)
        if tensor in self.floors:
            inside &= (amax >= self.floors[tensor].amax) | (amax == 0)
        if tensor in self.ceilings:
            inside &= amax <= self.ceilings[tensor].amax
        return inside

    @property
    def text(self) -> str:
        """For people; empty where there is none."""
        ends = (
            ("floored", self.floors, "below", "up to {}, and for none from {} on"),
            ("capped", self.ceilings, "above", "from {} on, and for none up to {}"),
        )
        return "; ".join(
            f"scale {what} at {_list_scales(found, self.fmt)}, for every amax {_say_where(found, where, between)}"
            for what, found, where, between in ends
            if found
        )


def _list_scales(found: Mapping[TensorScales | None, Bound], fmt: BlockFormat | None) -> str:
    low, high = min(b.byte for b in found.values()), max(b.byte for b in found.values())
    if fmt is not None and fmt.scale.bits > 8:
        return f"{np.uint32(low).view(np.float32):.4g}"
    return f"byte {low:02x}" if low == high else f"byte {low:02x} to {high:02x}"


def _say_where(found: Mapping[TensorScales | None, Bound], exactly: str, between: str) -> str:
    """Where an end begins: exactly, or between the maxima that were tested."""
    if all(abs(b.amax - b.last) == 1 for b in found.values()) or len(found) > 1:
        return f"{exactly} {_list_maxima(b.amax for b in found.values())}"
    return between.format(*(_list_maxima([getattr(b, end) for b in found.values()]) for end in ("last", "amax")))


def _list_maxima(bits: Iterable[int]) -> str:
    some = list(bits)
    low, high = (np.uint32(end(some)).view(np.float32) for end in (min, max))
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}, by the tensor scale"


def find_bounds(results: Sequence[ObservedScales], fmt: BlockFormat, profile: Profile) -> Bounds:
    """The floors and ceilings of a target's scale bytes; one that the profile has, too, is none."""
    floors: dict[TensorScales | None, Bound] = {}
    ceilings: dict[TensorScales | None, Bound] = {}
    for tensor, amax, returned, expected in _join(results, profile):
        if floor := _find_end(amax, returned.astype(int), expected.astype(int)):
            floors[tensor] = floor
        ceiling = _find_end(amax[::-1], -returned[::-1].astype(int), -expected[::-1].astype(int))
        if ceiling and -ceiling.byte != fmt.scale.nan_code:
            ceilings[tensor] = Bound(-ceiling.byte, ceiling.amax, ceiling.last)
    return Bounds(floors, ceilings, fmt)


def _find_end(amax: Bits, returned: npt.NDArray[np.int_], expected: npt.NDArray[np.int_]) -> Bound | None:
    """The byte of all maxima from the first on, where it lies above the profile's and the profile's changes."""
    others = np.flatnonzero(returned != returned[:1])
    if not others.size:
        return None
    run = int(others[0])
    replaced = expected[:run]
    if np.ptp(replaced) < _STEPS or returned[0] < replaced.min() + _STEPS:
        return None
    return Bound(int(returned[0]), int(amax[run]), int(amax[run - 1]))


def _join(results: Sequence[ObservedScales], profile: Profile) -> Iterator[tuple[TensorScales | None, Bits, Codes, Codes]]:
    """Of each tensor scale the finite maxima above zero in order, what was returned, and what is expected."""
    groups: dict[TensorScales | None, list[tuple[Bits, Codes, Codes]]] = {}
    for item in results:
        expected = item.case.answers.get(profile.id)
        special = item.case.tensor is not None and item.case.tensor.is_special
        if expected is not None and not special and not isinstance(item.returned, NoAnswer):
            groups.setdefault(item.case.tensor, []).append((item.case.amax, item.returned, expected))
    for tensor, members in groups.items():
        amax, returned, expected = (np.concatenate(part) for part in zip(*members, strict=True))
        usable = np.flatnonzero((amax > 0) & (amax < INF))
        order = usable[np.argsort(amax[usable], kind="stable")]
        yield tensor, amax[order], returned[order], expected[order]
