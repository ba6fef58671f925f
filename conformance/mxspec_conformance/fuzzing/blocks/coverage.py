"""Which classes of behaviour a campaign has reached: thresholds, scale bytes, binades, lanes, pairs of codes, special values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mxspec.elements import ScaleCodes
from mxspec.elements_given_scale import scale_lanes
from mxspec.enums import StrEnum
from mxspec.formats import ScaleFormat
from mxspec_conformance.counterexample.sample_space import Codes, Float32s, SampleSpace
from mxspec_conformance.fuzzing.subject import Coverage

#: A quotient this near to a midpoint tests that side of it: four float32 steps.
_NEAR = 4 * 2.0**-23


class Reach(StrEnum):
    """Classes of behaviour, as results call them."""

    TIES = "ties"
    BELOW_TIES = "below ties"
    ABOVE_TIES = "above ties"
    VALUES = "values"
    CODES = "codes in lanes"
    SCALES = "scale bytes"
    BINADES = "binades of maxima"
    LANES = "lanes of maxima"
    PAIRS = "pairs of codes"
    SPECIALS = "special values in lanes"
    #: Of values.
    CODES_UNDER_SCALES = "codes under scale bytes"


def place_scales(scales: ScaleCodes, scale: ScaleFormat) -> npt.NDArray[np.intp]:
    """Where scale codes are counted: each byte by itself, float32 scales by their binade."""
    return scales.astype(np.intp) >> (0 if scale.bits <= 8 else scale.mantissa_bits)


def count_scale_places(scale: ScaleFormat) -> int:
    """How many places `place_scales` has."""
    return scale.code_count >> (0 if scale.bits <= 8 else scale.mantissa_bits)


def _sizes(space: SampleSpace) -> dict[str, int]:
    element, k = space.fmt.element, space.fmt.k
    return {
        Reach.TIES: 2 * len(space.ties),
        Reach.BELOW_TIES: 2 * len(space.ties),
        Reach.ABOVE_TIES: 2 * len(space.ties),
        Reach.VALUES: 2 * len(space.values),
        Reach.CODES: element.code_count * k,
        Reach.SCALES: count_scale_places(space.fmt.scale),
        Reach.BINADES: 255,
        Reach.LANES: k,
        **({Reach.PAIRS: 512} if element.bits == 4 else {}),
        Reach.SPECIALS: 5 * k,
    }


class BlockCoverage(Coverage):
    """What blocks hit."""

    @classmethod
    def empty(cls, space: SampleSpace) -> BlockCoverage:
        """Nothing hit yet."""
        return cls.of_sizes(_sizes(space))

    def enter(self, space: SampleSpace, x: Float32s, scales: Codes, codes: Codes) -> None:
        """Blocks [n, k] of finite numbers with the profile's scales [n] and codes [n, k]."""
        element, k = space.fmt.element, space.fmt.k
        with np.errstate(all="ignore"):
            scaled, _ = scale_lanes(
                x, np.minimum(scales, space.fmt.scale.code_count - 1).astype(scales.dtype), space.fmt, space.profile,
                space.steps, space.bindings,
            )  # fmt: skip
            quotient = np.abs(scaled.astype(np.float64))
            sign = np.signbit(scaled).astype(np.intp)
            above = np.clip(np.searchsorted(space.ties, quotient), 0, len(space.ties) - 1)
            for index in (above, np.maximum(above - 1, 0)):
                tie = space.ties[index]
                place = index * 2 + sign
                distance = quotient - tie
                close = np.abs(distance) <= tie * _NEAR
                self.hit[Reach.TIES][place[distance == 0]] = True
                self.hit[Reach.BELOW_TIES][place[close & (distance < 0)]] = True
                self.hit[Reach.ABOVE_TIES][place[close & (distance > 0)]] = True
            value = np.clip(np.searchsorted(space.values, quotient), 0, len(space.values) - 1)
            self.hit[Reach.VALUES][(value * 2 + sign)[space.values[value] == quotient]] = True
        usable = np.minimum(codes, element.code_count - 1).astype(np.intp)
        self.hit[Reach.CODES][(usable * k + np.arange(k)).reshape(-1)] = True
        self.hit[Reach.SCALES][place_scales(scales[scales < space.fmt.scale.code_count], space.fmt.scale)] = True
        magnitude = np.abs(x).view(np.uint32)
        largest = magnitude.max(axis=1)
        self.hit[Reach.BINADES][largest >> 23] = True
        self.hit[Reach.LANES][magnitude.argmax(axis=1)] = True
        if Reach.PAIRS in self.hit:
            pairs = usable[:, :-1] << 4 | usable[:, 1:]
            parity = (np.arange(k - 1) & 1) << 8
            self.hit[Reach.PAIRS][(pairs | parity).reshape(-1)] = True

    def enter_special(self, space: SampleSpace, x: Float32s) -> None:
        """Blocks with NaN, infinities or zeros."""
        k = space.fmt.k
        kinds = (np.isnan(x), x == np.inf, x == -np.inf, (x == 0) & ~np.signbit(x), (x == 0) & np.signbit(x))
        for number, mask in enumerate(kinds):
            self.hit[Reach.SPECIALS][number * k + np.flatnonzero(mask.any(axis=0))] = True
