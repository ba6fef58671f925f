"""How hardware and libraries add products: classes as data, and the interval that each class proves for a sum.

No text fixes this: OCP MX v1.0 section 6.1 leaves precision and order of a dot product to the implementation. A verdict
therefore names the class that it was made by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec.dot.rounding import Float64s
from mxspec.dot.sums import Sums
from mxspec.enums import StrEnum
from mxspec.suggestions import refuse_name

#: What one float64 operation of a bound may have lost, with room.
_OUTWARD = 1 + 2.0**-40


class Grade(StrEnum):
    """Where the parameters of a class come from."""

    DEFINITION = "definition"
    #: Published measurements of others on the chip.
    SECOND_HAND = "second-hand"
    #: Measured by this project's probes.
    MEASURED = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulator:
    """One class of accumulations.

    Without `group`: each addition is rounded to `precision` bits, in any order, as any tree, products exact or rounded alike.
    With `group`: that many exact products and the running sum are cut toward zero to multiples of 2**(e - fraction), e the
    largest of their exponents, added exactly, and the result is cut to `output_fraction` bits.
    """

    name: str
    text: str
    #: Bits of the running sum.
    precision: int
    #: Whether an addition may give either neighbour; otherwise the nearest.
    faithful: bool = True
    #: Exponents of the running sum: the smallest normal one, and the largest.
    least: int = -126
    most: int = 127
    group: int = 0
    fraction: int = 0
    output_fraction: int = 23
    #: After so many products the sum goes to a float32 sum and starts again; 0: never.
    promoted: int = 0
    source: str = ""
    grade: Grade = Grade.DEFINITION

    @property
    def sure_bits(self) -> int:
        """A sum all of whose partial sums have so many bits has one result in this class."""
        return min(self.precision, self.fraction + 1) if self.group else self.precision

    @property
    def largest(self) -> float:
        """The largest finite number of the running sum."""
        return math.ldexp(2 - math.ldexp(1.0, 1 - self.precision), self.most)

    def decides(self, sums: Sums) -> npt.NDArray[np.bool_]:
        """The outputs for which every accumulation of the class gives the exact sum."""
        one: npt.NDArray[np.bool_] = sums.fits(self.sure_bits) & (sums.unit >= self.least - (0 if self.faithful else self.precision - 1))
        one &= sums.magnitude < math.ldexp(1.0, self.most)
        if self.group:  # nothing is cut: the largest exponent, of zeros too, leaves room for the lowest bit
            one &= sums.top.astype(np.int64) - self.fraction <= sums.unit
        one |= sums.magnitude == 0
        return one

    def bound_error(self, sums: Sums) -> Float64s:
        """At most how far an accumulation of the class is from the exact sum; infinite where nothing is proven."""
        lost = self.bound_rounding(sums)
        beyond = math.ldexp(1.0, self.most + 1) - math.ldexp(1.0, self.most + 1 - self.precision)
        return np.where(sums.magnitude + lost >= beyond, np.inf, lost)  # a partial sum may overflow

    def bound_rounding(self, sums: Sums) -> Float64s:
        """The same as if no partial sum could overflow."""
        if not self.group:
            return _bound_rounded(sums.magnitude, sums.k, self.precision, faithful=self.faithful, least=self.least)
        top = np.ldexp(1.0, np.minimum(sums.top.astype(np.int64), 1000))
        if not self.promoted:
            return self._bound_fused(np.maximum(top, sums.magnitude), sums.k)
        chunks = -(-sums.k // self.promoted)
        # However products are shared out, the largest exponents of the runs are those of as many products.
        tops = chunks * top if sums.aligned is None else np.minimum(chunks * top, sums.aligned)
        each = self._bound_fused(sums.magnitude + tops, min(self.promoted, sums.k))
        total = sums.magnitude + each
        return (each + _bound_rounded(total, chunks + 1, 24, faithful=True, least=-126)) * _OUTWARD

    def _bound_fused(self, most: Float64s, k: int) -> Float64s:
        """A step loses at most (group + 1) units of the last place that is kept, and one of the output."""
        steps = -(-k // self.group)
        share = steps * ((self.group + 1) * math.ldexp(1.0, -self.fraction) + math.ldexp(1.0, -self.output_fraction))
        if share >= 1:
            return np.full(most.shape, np.inf)
        smallest = math.ldexp(1.0, self.least - min(self.fraction, self.output_fraction))
        return most * (share / (1 - share) * _OUTWARD) + 2 * steps * (self.group + 2) * smallest


def _bound_rounded(magnitude: Float64s, k: int, precision: int, *, faithful: bool, least: int) -> Float64s:
    """((1 + e)**k - 1) times the sum of magnitudes, whatever the order; each of k roundings may flush to zero."""
    unit = math.ldexp(1.0, 1 - precision if faithful else -precision)
    share = math.expm1(k * math.log1p(unit)) * _OUTWARD
    flushed = 2 * k * math.ldexp(1.0, least) if faithful else 0.0
    lost: Float64s = magnitude * share + np.where(magnitude == 0, 0.0, flushed)
    return lost


#: Where parameters were read, and where they were measured: `reports/products`, random operands bit for bit.
_READ = "MMA-Sim c785138; MATLAB-tensor-core b12b5a7"
_H200 = "torch's products on an H200 (reports/products)"


def _fused(name: str, text: str, group: int, fraction: int, output: int = 23, promoted: int = 0, measured: str = "") -> Accumulator:
    return Accumulator(
        name=name, text=text, precision=output + 1, group=group, fraction=fraction, output_fraction=output, promoted=promoted,
        source=f"{_READ}; {measured}" if measured else _READ, grade=Grade.MEASURED if measured else Grade.SECOND_HAND,
    )  # fmt: skip


#: Classes by name, the most demanding first: the order in which a target's class is looked for.
ACCUMULATORS: dict[str, Accumulator] = {
    a.name: a
    for a in (
        Accumulator(name="float32-nearest", text="float32 additions to nearest, in any order", precision=24, faithful=False),
        Accumulator(name="float32", text="float32 additions in any order and rounding, subnormals flushed or not", precision=24),
        _fused("fused-f25-16", "groups of 16, 25 bits below the largest exponent (Hopper and Blackwell, 16-bit operands)", 16, 25, measured=_H200),
        _fused("fused-f25-8", "groups of 8, 25 bits below the largest exponent (Hopper, TF32 operands)", 8, 25, measured=_H200),
        _fused("fused-f25-32", "groups of 32, 25 bits below the largest exponent (Blackwell, 8-bit and narrower operands)", 32, 25),
        _fused("fused-f24-8", "groups of 8, 24 bits below the largest exponent (Ampere and Ada, 16-bit operands)", 8, 24),
        _fused("fused-f23-4", "groups of 4, 23 bits below the largest exponent (Volta)", 4, 23),
        _fused(
            "fused-f13-32-promoted-128",
            "groups of 32, 13 bits below the largest exponent, every 128 products added to a float32 sum", 32, 13, 13, 128, _H200,
        ),
        _fused("fused-f13-32", "groups of 32, 13 bits below the largest exponent (Hopper's wgmma, FP8 operands)", 32, 13, 13, measured=_H200),
        _fused("fused-f13-16", "groups of 16, 13 bits below the largest exponent (Ada, FP8 operands)", 16, 13, 13),
        Accumulator(name="float16", text="float16 additions in any order and rounding", precision=11, least=-14, most=15),
        Accumulator(name="bfloat16", text="bfloat16 additions in any order and rounding", precision=8),
    )
}  # fmt: skip

#: The class that is demanded where a target declares none.
DEFAULT_ACCUMULATOR = "float32"


def get_accumulator(name: str) -> Accumulator:
    """A class by its name.

    Raises ValueError for an unknown one.
    """
    if not isinstance(name, str) or name not in ACCUMULATORS:
        raise refuse_name(name, f"unknown accumulator {name!r}; known are {', '.join(ACCUMULATORS)}", ACCUMULATORS)
    return ACCUMULATORS[name]
