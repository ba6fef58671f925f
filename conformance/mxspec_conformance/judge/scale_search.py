"""Scales that were searched: of a few candidates the one whose block comes back with the least error.

OCP recommends a rule for the scale and forbids none. A quantizer that tries several scales follows no rule of the maximum;
its elements are judged under the scale that it chose, and the choice is reported with the error that it minimises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_codes, decode_table
from mxspec.elements_given_scale import encode_given_scale
from mxspec.enums import StrEnum
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec.rounding import Rounding
from mxspec_conformance.judge.invariance.answered import ORDINARY
from mxspec_conformance.judge.scale_bounds import Bounds, find_bounds
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.observations.scale import scale_blocks
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.errors import CallError
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import TensorScales, bind_profile

#: More different distances from the rule's scale than this are no search.
MOST_CANDIDATES = 64


class ErrorKind(StrEnum):
    """What a search minimises over a block."""

    SQUARED = "sum of squared errors"
    ABSOLUTE = "sum of absolute errors"
    LARGEST = "largest error"
    #: Which is named where the plain sum does not explain what was chosen.
    SQUARED_FLOAT32 = "sum of squared errors in float32, where those of small blocks vanish and those of large ones overflow"


@dataclass(frozen=True, slots=True)
class Search:
    """A search that explains every scale."""

    #: Each error that explains it; often several do.
    errors: tuple[ErrorKind, ...]
    #: Distances of the candidates from the profile's scale, in scale codes.
    offsets: tuple[int, ...]
    profile: str
    blocks: int
    #: Floors and ceilings of the scales.
    bounds: Bounds

    @property
    def text(self) -> str:
        """For people."""
        listed = ", ".join(f"{o:+d}" if o else "0" for o in self.offsets)
        return (
            f"a search: of the scales {listed} codes from {self.profile}'s, in all {self.blocks} blocks the one with the least "
            f"{' or '.join(self.errors)}{'; ' if self.bounds.text else ''}{self.bounds.text}"
        )


@dataclass(frozen=True, slots=True)
class _Blocks:
    x: npt.NDArray[np.float32]
    returned: Codes
    expected: Codes
    tensor: TensorScales | None


def find_search(observations: Observations, profile: Profile, rounding: Rounding | None = None) -> Search | None:
    """The error that the target's scales minimise among those that it uses; None where no error explains every block.

    rounding: how the target rounds elements, where it is not as the profile does.
    """
    fmt = observations.fmt
    bounds = find_bounds(observations.scales, fmt, profile)
    groups = [b for b in _collect(observations, fmt, profile, bounds) if len(b.x)]
    if not groups:
        return None
    steps = np.concatenate([b.returned.astype(int) - b.expected.astype(int) for b in groups])
    offsets = tuple(sorted(set(steps.tolist())))
    if not 2 <= len(offsets) <= MOST_CANDIDATES or not _depends_on_others(observations, groups):
        return None
    kinds = list(ErrorKind)
    for blocks in groups:
        errors = _errors(blocks, offsets, fmt, profile, rounding)  # [kind, candidate, block]
        chosen = np.searchsorted(offsets, blocks.returned.astype(int) - blocks.expected.astype(int))
        own = np.take_along_axis(errors, chosen[None, None, :], axis=1)[:, 0]
        # A target sums k float32 terms: it cannot tell errors apart that are closer than k roundings.
        least = np.nanmin(errors, axis=1) * (1 + fmt.k * 2.0**-23)
        least[-1] += fmt.k * 2.0**-149  # the last kind may be a subnormal number
        kinds = [kind for i, kind in enumerate(ErrorKind) if kind in kinds and (own[i] <= least[i]).all()]
        if not kinds:
            return None
    if ErrorKind.SQUARED in kinds:
        kinds.remove(ErrorKind.SQUARED_FLOAT32)
    return Search(tuple(kinds), offsets, profile.id, int(sum(len(b.x) for b in groups)), bounds)


def _depends_on_others(observations: Observations, groups: Sequence[_Blocks]) -> bool:
    """Whether some block gets another scale where its maximum stands alone: what is a function of the maximum is a rule.

    A rule that is off by a constant may well have the least error among the scales that it gives.
    """
    session, fmt = observations.session, observations.fmt
    dtype = session.capabilities.dtypes[0]
    # Blocks as they come, too: those of the vectors hold few numbers next to the maximum that would weigh against it.
    drawn = np.random.default_rng(16).standard_normal((512, fmt.k)).astype(np.float32)
    for blocks in groups:
        x = np.concatenate([blocks.x[(blocks.x != 0).sum(axis=1) > 1], cast_input(drawn, dtype).astype(np.float32)])
        if blocks.tensor is not None:
            x = x[(np.abs(x) <= blocks.tensor.value("amax")).all(axis=1)]
        if not len(x):
            continue
        lane = np.abs(x).argmax(axis=1)[:, None]
        alone = np.zeros_like(x)
        np.put_along_axis(alone, lane, np.take_along_axis(x, lane, axis=1), axis=1)
        extra = tensor_argument(blocks.tensor, session.capabilities)
        try:
            whole, single = (session.call("quantize", cast_input(a, dtype), fmt.name, **extra)[1] for a in (x, alone))
        except CallError:
            continue
        if (whole != single).any():
            return True
    return False


def _collect(observations: Observations, fmt: BlockFormat, profile: Profile, bounds: Bounds) -> Iterator[_Blocks]:
    """Ordinary blocks far from the ends of the scale's range, and not beyond its bounds."""
    dtype = observations.session.capabilities.dtypes[0]
    rows: dict[TensorScales | None, list[tuple[npt.NDArray[np.float32], Codes, Codes]]] = {}
    for item in observations.answered:
        case, answers = item.case, item.case.answers.get(profile.id)
        if case.is_row and item.dtype == dtype and answers is not None and case.topic in (*ORDINARY, "scale-boundary", "scale-tie"):
            rows.setdefault(case.tensor, []).append((case.x, item.scales.reshape(-1), answers[0].scale.reshape(-1)))
    for scale in observations.scales:
        expected = scale.case.answers.get(profile.id)
        if expected is not None and not isinstance(scale.returned, NoAnswer):
            rows.setdefault(scale.case.tensor, []).append((scale_blocks(scale.case, fmt.k), scale.returned, expected))
    for tensor, members in rows.items():
        x, returned, expected = (np.concatenate(part) for part in zip(*members, strict=True))
        low, high = (16, 235) if fmt.is_mx else (16, fmt.scale.max_code - 8)
        usable = np.isfinite(x).all(axis=1) & (x != 0).any(axis=1)
        usable &= bounds.within(np.abs(x).max(axis=1).view(np.uint32), tensor)
        usable &= (expected > low) & (expected < high) & (returned > low) & (returned < high)
        yield _Blocks(x[usable], returned[usable], expected[usable], tensor)


def _errors(
    blocks: _Blocks, offsets: Sequence[int], fmt: BlockFormat, profile: Profile, rounding: Rounding | None
) -> npt.NDArray[np.float64]:
    """The errors [kind, candidate, block] of each candidate scale, with elements as the profile rounds them, or as given."""
    steps, bindings = bind_profile(profile, blocks.tensor)
    rule = None if rounding is None else steps.element.with_rounding(rounding)
    values = decode_table(fmt.element).astype(np.float64)
    unit = 1.0 if blocks.tensor is None else blocks.tensor.value("decode")
    x = blocks.x.astype(np.float64)
    found = np.empty((len(ErrorKind), len(offsets), len(x)))
    for i, offset in enumerate(offsets):
        scales = (blocks.expected.astype(int) + offset).astype(blocks.expected.dtype)
        with np.errstate(all="ignore"):
            codes = encode_given_scale(blocks.x, scales, fmt, profile, steps, bindings, rule)[0]
            scale = decode_codes(scales, fmt.scale).astype(np.float64)[:, None] * unit
            error = np.abs(values[codes] - x / scale) * scale  # in units of the block, so that nothing under- or overflows
            largest = np.abs(x).max(axis=1, keepdims=True)
            error = error / largest
            plain = (values[codes] * scale).astype(np.float32) - blocks.x
            squares = (plain * plain).sum(axis=1, dtype=np.float32)
        found[:, i] = (error**2).sum(axis=1), error.sum(axis=1), error.max(axis=1), squares
    return found
