"""What a target returned, as the questions about causes read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.causes.comparing import Compared, is_cause
from mxspec_conformance.judge.causes.dividing import Divided, divide
from mxspec_conformance.judge.causes.rows import Rows, collect_rows
from mxspec_conformance.judge.scale_bounds import Bounds, find_bounds
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.quantize import Observed
from mxspec_conformance.observations.scale import ObservedScales
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import TensorScales, native_scale

#: Maxima between these are ordinary, as bits of float32: 2^-95 and 2^97, far from the ends of every scale.
_ORDINARY_MAXIMA = (0x10000000, 0x70000000)


@dataclass(frozen=True, slots=True)
class Maxima:
    """Ordinary block maxima [n] under one tensor scale: float32 bits, the scale bytes that were returned, and the profile's."""

    amax: npt.NDArray[np.uint32]
    returned: Codes
    expected: Codes
    tensor: TensorScales | None


@dataclass(frozen=True)
class Seen:
    """What a target returned, and the profile that it is judged by."""

    fmt: BlockFormat
    profile: Profile
    #: All that the target takes; the first one is that of `rows`.
    dtypes: Sequence[str]
    answered: Sequence[Observed]
    scales: Sequence[ObservedScales]
    rows: Sequence[Rows]
    #: The kind of the tensor scales that it takes.
    kind: str
    #: The layout in which codes are returned.
    layout: str
    #: Whether it returns values alone, of which codes and scales were found.
    of_values: bool
    #: Floors and ceilings of the scale; rows and maxima beyond are left out, so that what else is wrong can be seen.
    bounds: Bounds

    @classmethod
    def of(cls, observations: Observations, profile: Profile) -> Seen:
        """What was observed, next to the answers of a profile."""
        fmt, capabilities, answered = observations.fmt, observations.session.capabilities, observations.answered
        dtypes = capabilities.dtypes
        bounds = find_bounds(observations.scales, fmt, profile)
        of_values = capabilities.fake and not capabilities.scales
        rows = tuple(collect_rows(answered, fmt, profile, dtypes[0], bounds, of_values=of_values))
        layout = capabilities.layout_of(fmt.name)
        return cls(fmt, profile, dtypes, answered, observations.scales, rows, capabilities.tensor_scale, layout, of_values, bounds)

    @cached_property
    def divided(self) -> Sequence[Divided]:
        """`rows` as the profile divides them under the scales that were returned; none where it searches codes."""
        return divide(self.rows, self.fmt, self.profile)

    def rows_of(self, profile: Profile) -> Sequence[Rows]:
        """The same blocks next to the answers of another profile."""
        if profile is self.profile:
            return self.rows
        return tuple(collect_rows(self.answered, self.fmt, profile, self.dtypes[0], self.bounds, of_values=self.of_values))

    def by_others(self) -> Iterator[Seen]:
        """The same next to the answers of each normative profile, first the one that it is judged by."""
        yield self
        for profile in mxspec.list_profiles(self.fmt, kind=Kind.NORMATIVE):
            if profile is not self.profile:
                yield replace(self, profile=profile, rows=self.rows_of(profile))

    def maxima(self, profile: Profile, ends: tuple[int, int] = _ORDINARY_MAXIMA) -> Iterator[Maxima]:
        """The maxima between ends, the ordinary ones, for which a scale was returned and a profile says one."""
        for item in self.scales:
            expected = item.case.answers.get(profile.id)
            if not isinstance(item.returned, NoAnswer) and expected is not None:
                amax, (low, high) = item.case.amax, ends
                ordinary = (amax > low) & (amax < high) & self.bounds.within(amax, item.case.tensor)
                yield Maxima(amax[ordinary], item.returned[ordinary], expected[ordinary], item.case.tensor)

    def maxima_of_rows(self) -> Iterator[Maxima]:
        """The ordinary maxima of `rows`."""
        for rows in self.rows:
            amax = np.abs(rows.x).max(axis=1).view(np.uint32)
            ordinary = (amax > _ORDINARY_MAXIMA[0]) & (amax < _ORDINARY_MAXIMA[1])
            yield Maxima(amax[ordinary], rows.scales[ordinary], rows.want_scales[ordinary], rows.tensor)

    def scale_bytes(self, x: npt.NDArray[np.float32], tensor: TensorScales | None) -> Codes:
        """The scale bytes [n] that the profile gives other blocks [n, k]."""
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, self.fmt, profile=self.profile, tensor_scale=native_scale(self.profile, tensor))
        scales: Codes = t.scales.reshape(-1)
        return scales

    def explains(self, answers: Sequence[tuple[Codes, Codes]]) -> bool:
        """Whether these scales and codes of `rows` are the target's in every block, and the profile's are not."""
        return is_cause(
            Compared(bool(r.agree(s, c, self.fmt).all()), not r.agree(r.want_scales, r.want_codes, self.fmt).all())
            for r, (s, c) in zip(self.rows, answers, strict=True)
        )

    @cached_property
    def wrong_codes(self) -> Sequence[bool]:
        """Of each of `divided`, whether some codes are not the profile's under the scales that were returned."""
        return [not self._agree(d, d.encode()) for d in self.divided]

    def _agree(self, divided: Divided, codes: Codes) -> bool:
        """Whether these codes under the scales that were returned are the target's, but for blocks whose codes are left open."""
        rows = divided.rows
        is_open = (rows.scales == 0) & self.profile.unspecified_codes_under_zero
        return bool((is_open | rows.agree(rows.scales, codes, self.fmt)).all())

    def explains_codes(self, codes: Iterable[Codes]) -> bool:
        """Whether these codes of `divided` are the target's in every block, and the profile's under the same scales are not."""
        return any(self.wrong_codes) and is_cause(
            Compared(self._agree(d, c), wrong) for d, c, wrong in zip(self.divided, codes, self.wrong_codes, strict=True)
        )
