"""Which outputs of attention are right, whatever its order, splits, exp and weights are.

Let z be the logits that a query sees, m the largest, w = exp(z - m), l their sum. There are two kinds of queries.

*Certain.* Each z - m is 0 or below -104, and the number n of zeros is a power of two. exp(-104) is less than half of the smallest
float32, so that every other weight is zero in float32, and in any narrower dtype; with a running maximum too, since what is added
before the maximum is known is multiplied by exp(m_old - m) = 0. Weights of the n keys are equal; 1, 1/n and either times a power of
two or 448 are numbers of every dtype in `WEIGHTS`. So the output is the mean of n rows of V, but for the roundings of float32 behind
the sum: 1 / l, its product, a factor of the weights and its inverse, the given scale of V, and merges of parts, whose logarithms are
off by some units of 2^-24 themselves. 64 units, 2^-18, hold them all. Where m is not 0, exp2(fma(z, c, -(m c))) with m c rounded is
off by |m c| 2^-24 < |m| 2^-23 in the exponent, in a weight and not in l where only one of both is rounded.

*Others.* A weight is exp(z - m) (1 + a) + b: |a| <= the half unit of its dtype and 2^-12 for exp, |b| <= half of its smallest
number, of l where weights are divided by l first. A logit is off by (|z| + |m|) 2^-9, as queries may be multiplied by scale and
log2(e) in 16 bits. Where all numbers of a query are one number times powers of two, and all keys are so, each such rounding changes
all of them alike: three of them change z - m by less than 2^-7 of it, and sums in float32, or in accumulators of 13 bits or more, are
off by 2^-12 of the sums of magnitudes. The quotient of the intervals of sum and l encloses the output, with 2^-10 of the sum of magnitudes for what
accumulators of 13 bits or more lose. The largest weight is 1, which every dtype has, so that l >= 1 - 2^-11.

Outputs are rounded to nearest; that is monotone, so that an output is right exactly if it lies between the rounded ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.attention.rows import Doubles
from mxspec.attention.softmax import Call, Flags, list_sequences

#: Dtype of weights -> half a unit of 1, and half of the smallest number.
_ROUNDED = {
    "float32": (2.0**-24, 0.0), "bfloat16": (2.0**-9, 0.0), "float16": (2.0**-11, 2.0**-25), "fp8_e4m3": (2.0**-4, 2.0**-10),
    "fp8_e5m2": (2.0**-3, 2.0**-17),
}  # fmt: skip
_OUTPUTS = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
#: A logit that is so much smaller than the largest has the weight zero; from that one on it may have.
GONE, FADING = 104.0, 80.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The ends between which outputs [queries, heads, d] lie."""

    low: Doubles
    high: Doubles
    #: [queries, heads]: whether one key, or the mean of some, is certain; and whether a query sees no key.
    certain: Flags
    empty: Flags

    def accept(self, values: npt.NDArray[Any], out_dtype: str) -> Flags:
        """Which outputs are right; of a query that sees no key zeros are, and NaN."""
        with np.errstate(over="ignore"):
            low, high = (end.astype(_OUTPUTS[out_dtype]).astype(np.float64) for end in (self.low, self.high))
        found = values.astype(np.float64)
        free = self.empty[..., None] & ((found == 0) | np.isnan(found))
        right: Flags = free | (~self.empty[..., None] & (low <= found) & (found <= high))
        return right


def _are_alike(x: Doubles, axes: tuple[int, ...]) -> Flags:
    """Whether numbers along some axes are zeros, and one number times powers of two; these axes have one item."""
    fractions = np.frexp(np.abs(x))[0]
    alike: Flags = np.where(x == 0, 1, fractions).min(axes, keepdims=True) >= fractions.max(axes, keepdims=True)
    return alike


def bound_outputs(call: Call) -> Bounds:
    """The outputs of a call that are right. Rows that a query does not see may hold anything."""
    shape = (call.q.shape[0], call.q.shape[1], call.spec.v.columns(call.v.shape[-1]))
    low, high = np.zeros(shape), np.zeros(shape)
    certain, empty = np.zeros(shape[:2], bool), np.ones(shape[:2], bool)
    for part in list_sequences(call):
        z = part.logits
        seen = np.isfinite(z)
        most = z.max(-1, keepdims=True, initial=-np.inf)
        none = ~np.isfinite(most[..., 0])
        most = np.where(np.isfinite(most), most, 0)
        gap = np.where(seen, z - most, -np.inf)
        equal = gap == 0
        count = equal.sum(-1, keepdims=True)
        sure = (equal | (gap < -GONE)).all(-1) & (count[..., 0] & (count[..., 0] - 1) == 0) & ~none
        # What no query sees of the values may be NaN: it has the weight zero here.
        v = np.where(np.isfinite(part.values), part.values, 0).transpose(1, 0, 2)[part.groups]
        slack = (2.0**-18 + np.abs(most) * 2.0**-22) * np.matmul(equal / np.maximum(count, 1), np.abs(v))
        mean = np.matmul(equal / np.maximum(count, 1), v)
        ends = [mean - slack, mean + slack]
        if not (sure | none).all():
            off, (unit, least) = (np.abs(np.where(seen, z, 0)) + np.abs(most)) * 2.0**-9, _ROUNDED[call.spec.coarsest]
            sums = 2.0**-11 * np.matmul(np.abs(part.q), np.abs(part.k)).max(-1, keepdims=True)  # of a key and of the largest one
            alike = _are_alike(part.q, (-1,)) & _are_alike(part.k, (-2, -1))
            off = np.where(alike, np.minimum(off, np.where(seen, -gap, 0) * 2.0**-7 + sums), off)
            up, down = np.exp(np.minimum(gap + off, 0)), np.exp(gap - off)
            b = least * up.sum(-1, keepdims=True)
            up = np.where(gap + off < -GONE, 0, up * (1 + unit + 2.0**-12) + b)
            down = np.where(gap - off < -FADING, 0, np.maximum(down * (1 - unit - 2.0**-12) - b, 0))
            sums = np.maximum(down.sum(-1, keepdims=True), 1 - 2.0**-11), up.sum(-1, keepdims=True)
            lost = 2.0**-10 * np.matmul(up, np.abs(v)) / sums[0]
            above, below = np.maximum(v, 0), np.minimum(v, 0)
            least_sum, most_sum = (np.matmul(x, above) + np.matmul(y, below) for x, y in ((down, up), (up, down)))
            wide = least_sum / np.where(least_sum < 0, *sums) - lost, most_sum / np.where(most_sum > 0, *sums) + lost
            ends = [np.where(sure[..., None], exact, other) for exact, other in zip(ends, wide, strict=True)]
        low[part.queries], high[part.queries] = (end.transpose(1, 0, 2) for end in ends)
        certain[part.queries], empty[part.queries] = sure.T, none.T
    return Bounds(low, high, certain, empty)
