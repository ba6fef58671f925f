"""Which classes of behaviour a campaign has reached: thresholds, scale bytes, binades, lanes, pairs of codes, special values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements_given_scale import scale_lanes
from mxspec_conformance.counterexample.sample_space import Codes, Float32s, SampleSpace

#: A quotient this near to a midpoint tests that side of it: four float32 steps.
_NEAR = 4 * 2.0**-23


def _sizes(space: SampleSpace) -> dict[str, int]:
    element, k = space.fmt.element, space.fmt.k
    return {
        "ties": 2 * len(space.ties),
        "below ties": 2 * len(space.ties),
        "above ties": 2 * len(space.ties),
        "values": 2 * len(space.values),
        "codes in lanes": element.code_count * k,
        "scale bytes": space.fmt.scale.code_count,
        "binades of maxima": 255,
        "lanes of maxima": k,
        **({"pairs of codes": 512} if element.bits == 4 else {}),
        "special values in lanes": 5 * k,
    }


@dataclass(slots=True)
class Coverage:
    """Flags of what was hit, by class."""

    hit: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def empty(cls, space: SampleSpace) -> Coverage:
        """Nothing hit yet."""
        return cls({name: np.zeros(size, np.bool_) for name, size in _sizes(space).items()})

    def enter(self, space: SampleSpace, x: Float32s, scales: Codes, codes: Codes) -> None:
        """Blocks [n, k] of finite numbers with the profile's scales [n] and codes [n, k]."""
        element, k = space.fmt.element, space.fmt.k
        with np.errstate(all="ignore"):
            scaled, _ = scale_lanes(
                x, np.minimum(scales, space.fmt.scale.code_count - 1).astype(np.uint8), space.fmt, space.profile,
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
                self.hit["ties"][place[distance == 0]] = True
                self.hit["below ties"][place[close & (distance < 0)]] = True
                self.hit["above ties"][place[close & (distance > 0)]] = True
            value = np.clip(np.searchsorted(space.values, quotient), 0, len(space.values) - 1)
            self.hit["values"][(value * 2 + sign)[space.values[value] == quotient]] = True
        usable = np.minimum(codes, element.code_count - 1).astype(np.intp)
        self.hit["codes in lanes"][(usable * k + np.arange(k)).reshape(-1)] = True
        self.hit["scale bytes"][scales[scales < space.fmt.scale.code_count]] = True
        magnitude = np.abs(x).view(np.uint32)
        largest = magnitude.max(axis=1)
        self.hit["binades of maxima"][largest >> 23] = True
        self.hit["lanes of maxima"][magnitude.argmax(axis=1)] = True
        if "pairs of codes" in self.hit:
            pairs = usable[:, :-1] << 4 | usable[:, 1:]
            parity = (np.arange(k - 1) & 1) << 8
            self.hit["pairs of codes"][(pairs | parity).reshape(-1)] = True

    def enter_special(self, space: SampleSpace, x: Float32s) -> None:
        """Blocks with NaN, infinities or zeros."""
        k = space.fmt.k
        kinds = (np.isnan(x), x == np.inf, x == -np.inf, (x == 0) & ~np.signbit(x), (x == 0) & np.signbit(x))
        for number, mask in enumerate(kinds):
            self.hit["special values in lanes"][number * k + np.flatnonzero(mask.any(axis=0))] = True

    def merge(self, packed: Mapping[str, str]) -> None:
        """Add what `pack` wrote."""
        for name, text in packed.items():
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))[: len(self.hit[name])]
            self.hit[name] |= bits.astype(np.bool_)

    def pack(self) -> dict[str, str]:
        """As hex, for a result."""
        return {name: np.packbits(flags).tobytes().hex() for name, flags in self.hit.items()}

    def counts(self) -> dict[str, Any]:
        """Class -> [hit, of]."""
        return {name: [int(flags.sum()), len(flags)] for name, flags in self.hit.items()}
