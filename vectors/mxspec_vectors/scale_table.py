"""Scale rules as tables of steps: from which block maximum on a block gets which scale byte.

The maximum is the only lane of its block that is not zero. Most tables are step functions of the model, complete by its
search; where a profile tries two scales, the function is evaluated at every bfloat16 magnitude and bisected between them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.stepfunctions import Compute, StepFunction, find_steps
from mxspec_vectors.document import VectorError
from mxspec_vectors.recipes import bfloat16_magnitudes

Words = npt.NDArray[np.uint32]
#: Scale bytes, or REFUSED.
Bytes = npt.NDArray[np.int16]

#: What stands for a maximum that the profile refuses.
REFUSED = -1
#: The distance of two maxima that lie one binade apart.
_BINADE = 0x00800000

_INF = 0x7F800000
#: Finite magnitudes: all bfloat16 numbers, among the smaller ones all of eight significant bits, the largest float32.
_DENSE = np.unique(np.concatenate([bfloat16_magnitudes("finite"), *(np.arange(256) << s for s in range(16)), [_INF - 1]])).astype(np.int64)


@dataclass(frozen=True)
class ScaleTable:
    """A function of float32 magnitude bits: `scale[i]` from `first[i]` up to the next; `first[0]` is 0."""

    #: uint32 [n], ascending.
    first: Words
    #: int16 [n]: bytes, or REFUSED.
    scale: Bytes

    def at(self, amax: npt.NDArray[Any]) -> Bytes:
        """The answers for magnitude bits."""
        found: Bytes = self.scale[np.searchsorted(self.first, amax, side="right") - 1]
        return found

    def bfloat16_digest(self) -> str:
        """SHA-256 of the scale bytes of all bfloat16 magnitudes in ascending order, without those that are refused."""
        # From which bfloat16 magnitude on each step holds.
        starts = np.minimum((self.first.astype(np.int64) + 0xFFFF) >> 16, 1 << 15)
        answers = np.repeat(self.scale, np.diff(starts, append=1 << 15))
        return hashlib.sha256(answers[answers != REFUSED].astype(np.uint8).tobytes()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """As it stands in files: steps that lie one binade apart, and whose bytes count up, are one entry with a count."""
        first, scale, count = [int(self.first[0])], [int(self.scale[0])], [1]
        for bits, byte in zip(self.first[1:].tolist(), self.scale[1:].tolist(), strict=True):
            if (bits, byte) == (first[-1] + count[-1] * _BINADE, scale[-1] + count[-1]) and scale[-1] != REFUSED:
                count[-1] += 1
            else:
                first.append(bits)
                scale.append(byte)
                count.append(1)
        entry: dict[str, Any] = {
            "first": "".join(f"{b:08x}" for b in first),
            "scale": "".join("--" if b == REFUSED else f"{b:02x}" for b in scale),
        }
        # Where few steps repeat, counts would cost more than they save.
        if 2 * len(count) < sum(count):
            return {**entry, "count": count, "bfloat16": self.bfloat16_digest()}
        return {
            "first": "".join(f"{b:08x}" for b in self.first.tolist()),
            "scale": "".join("--" if b == REFUSED else f"{b:02x}" for b in self.scale.tolist()),
            "bfloat16": self.bfloat16_digest(),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any], name: str) -> ScaleTable:
        """The inverse of `as_dict`.

        name: what an error calls it.
        Raises VectorError where the bytes of the bfloat16 magnitudes have another digest.
        """
        text = entry["scale"]
        first = [int(entry["first"][i : i + 8], 16) for i in range(0, len(entry["first"]), 8)]
        scale = [REFUSED if text[i] == "-" else int(text[i : i + 2], 16) for i in range(0, len(text), 2)]
        count = entry.get("count", [1] * len(first))
        if not len(first) == len(scale) == len(count):
            raise VectorError(f"{name}: {len(first)} steps, {len(scale)} scale bytes and {len(count)} counts")
        steps = [(bits + i * _BINADE, byte + i) for bits, byte, n in zip(first, scale, count, strict=True) for i in range(n)]
        table = cls(np.array([s for s, _ in steps], np.uint32), np.array([b for _, b in steps], np.int16))
        if table.bfloat16_digest() != entry["bfloat16"]:
            raise VectorError(f"{name}: the scale bytes of the bfloat16 maxima have another digest than the file says")
        return table

    def find_slice(self, steps: Sequence[int]) -> tuple[int, int] | None:
        """(from, count) such that `first[from : from + count]` are these steps; None where they do not lie side by side."""
        if not steps:
            return None
        start = int(np.searchsorted(self.first, steps[0]))
        return (start, len(steps)) if self.first[start : start + len(steps)].tolist() == list(steps) else None


def find_dense_steps(compute: Compute) -> StepFunction:
    """The steps of a function of finite magnitudes that may turn back within a binade, asked at all bfloat16 numbers.

    Raises NotMonotoneError where it is seen to turn back between two of them.
    """
    return find_steps(lambda _, bits: compute(bits), [_DENSE])[0]


def complete_table(steps: StepFunction, *, at_zero: int, at_inf: int, at_nan: int) -> ScaleTable:
    """The table of a function of magnitudes, with answers of their own for zero, infinity and NaN."""
    finite = steps.below(_INF)
    ordinary = zip(np.maximum(finite.starts, 1).tolist(), finite.values.tolist(), strict=True)
    kept: list[tuple[int, int]] = []
    for bits, byte in [(0, at_zero), *ordinary, (_INF, at_inf), (_INF + 1, at_nan)]:
        if kept and kept[-1][0] == bits:
            kept.pop()
        if not kept or kept[-1][1] != byte:
            kept.append((bits, byte))
    return ScaleTable(np.array([b for b, _ in kept], np.uint32), np.array([s for _, s in kept], np.int16))
