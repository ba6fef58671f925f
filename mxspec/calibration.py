"""Calibration: the largest magnitude over batches, and the tensor scale that a profile makes of it.

A maximum does not depend on order or on how numbers are cut into batches, so neither does anything here: results of
several processes are merged, and equal that of one which saw everything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mxspec.elements import as_float32
from mxspec.formats import FLOAT32, BlockFormat, BlockName, get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import AmaxNan, Profile
from mxspec.tensorscale import TensorScale, derive_tensor_scale, find_tensor_amax

_INFINITY = 0x7F800000


@dataclass(frozen=True, slots=True)
class RunningAmax:
    """The largest magnitude of all numbers seen so far; each step gives a new one.

    >>> import numpy as np
    >>> seen = RunningAmax().update(np.float32([1, -3])).update(np.float32([2]))
    >>> seen.value, seen.count
    (3.0, 3)
    >>> seen.tensor_scale(profile="nvfp4-paper").kind.value
    'decode'

    Raises ValueError for bits or a count that no numbers give.
    """

    #: float32 bits of the largest magnitude; NaN left aside.
    bits: int = 0
    #: Whether a NaN was seen.
    has_nan: bool = False
    #: Numbers seen, NaN included.
    count: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.bits <= _INFINITY:
            raise ValueError(f"bits = {self.bits:#x} are no magnitude of a float32; pass 0 to {_INFINITY:#x}")
        if self.count < 0 or (self.count == 0 and (self.bits or self.has_nan)):
            raise ValueError(f"count = {self.count} numbers do not give this maximum; pass how many were seen")

    @property
    def value(self) -> float:
        """The largest magnitude, NaN left aside."""
        return float(np.uint32(self.bits).view(np.float32))

    def update(self, x: object) -> RunningAmax:
        """This, and the numbers of one more batch.

        Args:
            x: float32, float16 or bfloat16, or float64 whose values are exactly float32; any shape. An array, or a tensor of
                torch or CuPy.

        Raises:
            TypeError: x has another dtype.
            ValueError: x is float64 and not exactly float32.
        """
        values = as_float32(x)
        own = find_tensor_amax(values)
        is_nan = own > _INFINITY
        top = find_tensor_amax(values, nan=AmaxNan.SKIP) if is_nan else own
        return self.merge(RunningAmax(top, is_nan, int(values.size)))

    def merge(self, other: RunningAmax) -> RunningAmax:
        """What one would have that had seen the numbers of both."""
        if not isinstance(other, RunningAmax):
            raise TypeError(f"other is of type {type(other).__name__}; pass a RunningAmax")
        # Bits of float32 that are not negative rise with their values.
        return RunningAmax(max(self.bits, other.bits), self.has_nan or other.has_nan, self.count + other.count)

    def amax_bits(self, nan: AmaxNan = AmaxNan.PROPAGATE) -> int:
        """float32 bits of the maximum, after a NaN the quiet NaN unless the rule is to skip it."""
        assert FLOAT32.nan_code is not None
        return FLOAT32.nan_code if self.has_nan and nan is not AmaxNan.SKIP else self.bits

    def tensor_scale(self, fmt: BlockName | str | BlockFormat = "nvfp4", profile: str | Profile | None = None) -> TensorScale:
        """The tensor scale that a profile computes for a tensor of all numbers seen.

        Args:
            fmt: A block format with a tensor scale, or its name.
            profile: A profile or its name; default: `default_profile` of the format. Its `tensor.amax_nan` says whether a NaN
                that was seen makes the scale NaN.

        Returns:
            The scale in the profile's native kind: the same bits as `mxspec.tensor_scale` of all numbers in one array.

        Raises:
            ValueError: The profile has no tensor scale, or no numbers were seen.

        Source: the profile's `source`.
        """
        chosen = get_profile(profile, get_block(fmt))
        if chosen.tensor is None:
            raise ValueError(f"profile {chosen.id} has no tensor scale; calibrate for one that has (nvfp4)")
        if self.count == 0:
            raise ValueError("no numbers were seen; update this with at least one batch")
        return derive_tensor_scale(self.amax_bits(chosen.tensor.amax_nan), chosen)
