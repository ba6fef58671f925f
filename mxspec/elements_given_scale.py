"""What must follow from a given scale.

OCP says that elements MUST be the right rounding of V / X for the X that was stored, and only that X SHOULD follow the
sample rule. Judging an implementation therefore starts from the scale that it returned.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import elements
from mxspec.arrays import ARRAYS
from mxspec.blocks import _search_codes, encode_elements, find_amax, prepare_rows
from mxspec.elements import Codes, Float32s, ScaleCodes
from mxspec.expressions import evaluate
from mxspec.formats import BlockFormat, ElementFormat
from mxspec.profiles.schema import ElementRule, Profile, QuantizationSteps


class LaneClass(IntEnum):
    """What a lane tests, given its scale."""

    PLAIN = 0
    EXACT = 1
    TIE = 2
    BELOW_TIE = 3
    ABOVE_TIE = 4
    OVERFLOW = 5
    SUBNORMAL = 6
    ZERO = 7
    SPECIAL = 8


def scale_lanes(
    x: Float32s, scales: ScaleCodes, fmt: BlockFormat, profile: Profile, steps: QuantizationSteps, bindings: dict[str, Any]
) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """The scaled elements [n, k] of blocks x [n, k] under stored scale bytes [n], and the bindings used."""
    bindings = {**bindings, "M": np.asarray(np.float32(float(fmt.element.max_value)))}
    x = prepare_rows(x, profile, steps, bindings)
    sf = elements.decode_codes(scales, fmt.scale)[:, None]
    known = {**bindings, "amax": find_amax(x, profile.amax_nan), "sf": sf, "x": x}
    return np.ascontiguousarray(np.broadcast_to(evaluate(steps.scaled, known, ARRAYS), x.shape)), known


def encode_given_scale(
    x: Float32s,
    scales: ScaleCodes,
    fmt: BlockFormat,
    profile: Profile,
    steps: QuantizationSteps,
    bindings: dict[str, Any],
    rule: ElementRule | None = None,
) -> tuple[Codes, npt.NDArray[Any]]:
    """Codes [n, k] that the profile gives under stored scale bytes [n], and the scaled elements.

    rule: another element rule than the profile's, to ask what a variant would return.
    """
    scaled, known = scale_lanes(x, scales, fmt, profile, steps, bindings)
    chosen = steps.element if rule is None else rule
    if chosen.error is not None:
        return _search_codes({**known, "scaled": scaled}, chosen, fmt.element, x.shape), scaled
    return encode_elements(scaled, known["x"], np.isnan(known["sf"]), chosen, fmt.element), scaled


def find_neighbours(scaled: npt.NDArray[Any], element: ElementFormat) -> tuple[Codes, Codes, npt.NDArray[np.float64]]:
    """The two codes between which each scaled element lies, the one nearer to zero first, and the fraction of the way.

    Args:
        scaled: Scaled elements, float32, or float64 that holds them exactly; NaN is taken for zero.
        element: The element format.

    Returns:
        uint8 codes, and float64 fractions in [0, 1) that are exact. Where the element is a value of the format, or beyond the
        largest, both codes are its own and the fraction is 0.

    Source: stochastic rounding goes to one of these two, to the second one as often as the fraction says.
    """
    values = np.nan_to_num(scaled.astype(np.float64), nan=0.0)
    steps = np.array([float(element.magnitude(m)) for m in range(element.max_code + 1)])
    magnitude = np.minimum(np.abs(values), steps[-1])
    low = np.searchsorted(steps, magnitude, side="right") - 1
    high = np.minimum(low + (magnitude > steps[low]), element.max_code)
    # The two operands share a binade, or the lower one is 0, and steps are powers of two: nothing is rounded.
    gap = np.where(high > low, steps[high] - steps[low], 1.0)
    joined = np.array([[element.join(s, m) for m in range(element.max_code + 1)] for s in (0, 1)], np.uint8)
    sign = np.signbit(values).astype(np.intp)
    return joined[sign, low], joined[sign, high], (magnitude - steps[low]) / gap


#: A quotient within this relative distance of a midpoint tests the rounding on that side of it: four float32 steps.
_NEAR = 4 * 2.0**-23


def classify_lanes(scaled: npt.NDArray[Any], x: Float32s, element: ElementFormat) -> npt.NDArray[np.int8]:
    """The `LaneClass` of each scaled element."""
    magnitude = np.abs(scaled.astype(np.float64))
    values = np.abs(elements.decode_table(element).astype(np.float64))
    grid = np.unique(values[np.isfinite(values)])
    grid = grid[grid <= float(element.max_value)]
    middles = (grid[1:] + grid[:-1]) / 2
    with np.errstate(invalid="ignore", over="ignore"):
        index = np.clip(np.searchsorted(middles, magnitude), 0, len(middles) - 1)
        lower = np.clip(index - 1, 0, len(middles) - 1)
        nearest = np.where(np.abs(middles[lower] - magnitude) < np.abs(middles[index] - magnitude), middles[lower], middles[index])
        close = np.abs(magnitude - nearest) <= nearest * _NEAR
        result = np.full(scaled.shape, LaneClass.PLAIN, np.int8)
        result[np.isin(magnitude, grid)] = LaneClass.EXACT
        result[magnitude < float(element.min_normal)] = LaneClass.SUBNORMAL
        result[close & (magnitude < nearest)] = LaneClass.BELOW_TIE
        result[close & (magnitude > nearest)] = LaneClass.ABOVE_TIE
        result[magnitude == nearest] = LaneClass.TIE
        result[magnitude > float(element.max_value)] = LaneClass.OVERFLOW
        result[(magnitude == 0) | (magnitude < grid[1] / 2 * (1 - _NEAR))] = LaneClass.ZERO
        result[~np.isfinite(scaled) | ~np.isfinite(x)] = LaneClass.SPECIAL
    return result
