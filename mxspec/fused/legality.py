"""Which scales and codes are legal for numbers that are known up to an interval, under a profile.

A scale is a step function of the block's maximum (`stepfunctions`) or, in float32, rises with it, and a code rises with its number under a given
scale: the legal ones are those between what both ends give. Elements are judged under the scale that was returned, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan, flag_nan_codes, is_lowest_allowed
from mxspec.blocks import quantize_rows
from mxspec.elements import Codes, ScaleCodes, decode_codes, decode_table
from mxspec.formats import BlockFormat
from mxspec.fused.enclosures import Floats, Interval
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import Profile
from mxspec.stepfunctions import Compute, StepFunction, maximum_scales, scale_steps
from mxspec.tensorscale import TensorScale, bind_arrays

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Legality:
    """What of an answer is legal, and what was decided before it came: [n] of blocks, [n, k] of elements."""

    scales: Bools
    codes: Bools
    #: Where one scale, and one code under the returned scale, is legal.
    decided_scales: Bools
    decided_codes: Bools
    #: The legal codes lie between these.
    lowest: Codes
    highest: Codes

    @property
    def wrong(self) -> Bools:
        """Elements that nothing explains: wrong codes, and every element under a wrong scale."""
        return np.asarray(~(self.scales[:, None] & self.codes))


def list_judged(fmt: BlockFormat, *, with_tensor_scale: bool) -> Iterator[Profile]:
    """The profiles by which fused quantizers are judged: those whose scale follows from the maximum, and a code, rising, from the number
    and the scale."""
    for profile in list_profiles(fmt.name):
        steps = profile.two_level if with_tensor_scale else profile.one_level
        if steps is None or profile.flush_inputs or steps.normalize is not None or steps.needs_maximum or not steps.is_lane_local:
            continue
        if steps.element.is_deterministic and steps.element.is_monotone and steps.element.error is None:
            yield profile


def judge_answer(
    found: tuple[Interval, Interval],
    scales: ScaleCodes,
    codes: Codes,
    fmt: BlockFormat,
    profile: Profile,
    tensor_scale: TensorScale | None = None,
) -> Legality:
    """What is legal of scales [..., blocks] and codes [..., columns], for intervals (`evaluate`) in the shape of the codes."""
    value, of_amax = (Interval(i.lo.reshape(-1, fmt.k), i.hi.reshape(-1, fmt.k)) for i in found)
    given, blocks, element = scales.reshape(-1, 1), codes.reshape(-1, fmt.k), fmt.element
    scale = given[:, 0]
    steps = scale_steps(profile, fmt, tensor_scale) if fmt.scale.bits <= 8 else maximum_scales(profile, fmt)
    legal_scales, decided = _find_legal(steps, of_amax, scale)
    bindings: dict[str, Any] = {} if tensor_scale is None else dict(bind_arrays(profile, tensor_scale))
    rules = profile.steps(with_tensor_scale=tensor_scale is not None)
    lost, is_nan = np.isnan(value.lo) | np.isnan(value.hi), flag_nan(element)[blocks]
    with np.errstate(all="ignore"):  # NaN, which some profiles refuse, is judged by itself
        ends = (np.where(lost, np.float32(0), end) for end in (_outward(value.lo, -1), _outward(value.hi, 1)))
        known = np.where(flag_nan_codes(given, fmt.scale), given.dtype.type(0), given)
        low, high = (quantize_rows(end, fmt, profile, rules, bindings, scales=known)[1] for end in ends)
        lowest = is_lowest_allowed(element, value.lo / decode_codes(known, fmt.scale).astype(np.float64))
    # By value: the sign of zero is open, and a NaN is between nothing.
    values = np.full(256, np.nan)
    values[: element.code_count] = decode_table(element)
    legal = (values[low] <= values[blocks]) & (values[blocks] <= values[high]) | (blocks == element.sign_bit) & lowest
    legal = np.where(lost, is_nan if element.nan_code is not None else True, legal)
    if fmt.is_mx:  # what `acceptance` says of zeros, of Inf and of NaN, which may be kept under the scale of what remains
        infinite, has_nan = np.isinf(of_amax.hi).any(axis=1), lost.any(axis=1)
        zero = ~of_amax.lo.any(axis=1) & ~of_amax.hi.any(axis=1)
        legal |= ((scale == 0xFF) & (has_nan | infinite))[:, None]
        legal_scales |= (
            (scale == 0xFF) & (has_nan | infinite) | (scale == 255 - element.emax) & infinite & ~has_nan | (scale != 0xFF) & zero
        )
        rest = Interval(*(np.where(lost, 0, end) for end in (of_amax.lo, of_amax.hi)))
        legal_scales |= has_nan & is_nan.any(axis=1) & _find_legal(steps, rest, scale)[0]
    return Legality(np.asarray(legal_scales), np.asarray(legal), decided, np.asarray(values[low] == values[high]), low, high)


def _find_legal(steps: StepFunction | Compute, i: Interval, given: ScaleCodes) -> tuple[Bools, Bools]:
    """Whether a scale is that of a maximum that the block may have, and whether there is one such scale."""
    inside, outside = np.maximum(np.maximum(i.lo, -i.hi), 0).max(axis=1), np.maximum(np.abs(i.lo), np.abs(i.hi)).max(axis=1)
    low, high = (end.view(np.uint32).astype(np.int64) & 0x7FFFFFFF for end in (_outward(inside, -1), _outward(outside, 1)))
    if not isinstance(steps, StepFunction):
        ends = steps(low), steps(high)
        while (apart := low < high).any():  # the first maximum with no lower scale
            middle = np.where(apart, (low + high) // 2, low)
            below = apart & (steps(middle) < given)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        return np.asarray(steps(low) == given), np.asarray(ends[0] == ends[1])
    first, last = (np.searchsorted(steps.starts, b, side="right") - 1 for b in (low, high))
    found = np.asarray((steps.values[first] == given) | (steps.values[last] == given))
    for at in np.flatnonzero(~found & (last - first > 1)):
        found[at] = given[at] in steps.values[first[at] : last[at] + 1]
    return found, np.asarray(first == last)


def _outward(x: Floats, sign: int) -> npt.NDArray[np.float32]:
    """The nearest float32 that is not above (-1), or not below (1)."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = x.astype(np.float32)
        return np.where((near - x) * sign < 0, np.nextafter(near, np.float32(sign * np.inf)), near)
