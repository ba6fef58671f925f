"""What blocks of a format and profile are drawn from: where quotients round, where scales change, how far a maximum goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_codes
from mxspec.formats import BlockFormat, get_rows
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile, QuantizationSteps
from mxspec.stepfunctions import scale_steps
from mxspec.tensorscale import TensorScale, bind_arrays
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_vectors.points import scale_points
from mxspec_vectors.scale_values import list_maxima
from mxspec_vectors.tensor_scales import TensorScales, native_scale

Codes = npt.NDArray[np.uint8]
Float32s = npt.NDArray[np.float32]
LAST_FINITE = 0x7F7FFFFF


@dataclass(slots=True)
class SampleSpace:
    """One format, profile, tensor scale and input dtype."""

    fmt: BlockFormat
    profile: Profile
    #: float32 bits of the tensor's largest magnitude, or None.
    tensor: int | None
    dtype: str
    entry: TensorScales | None = field(init=False)
    native: TensorScale | None = field(init=False)
    steps: QuantizationSteps = field(init=False)
    bindings: dict[str, Any] = field(init=False)
    #: Quotients at which something is decided: values, midpoints, beyond the largest; ascending.
    points: npt.NDArray[np.float64] = field(init=False)
    #: Midpoints alone: `ties[m]` lies between the magnitude codes m and m + 1.
    ties: npt.NDArray[np.float64] = field(init=False)
    values: npt.NDArray[np.float64] = field(init=False)
    #: float32 bits of maxima where the exact scale changes (of float32 scales those of `scale_values`), and low 23 bits of interesting maxima of any binade.
    changes: npt.NDArray[np.int64] = field(init=False)
    significands: npt.NDArray[np.int64] = field(init=False)
    #: Exponent fields (0: subnormal) that a maximum may have.
    exponents: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        element = self.fmt.element
        self.entry = None if self.tensor is None else TensorScales.from_amax(self.tensor)
        self.native = native_scale(self.profile, self.entry)
        self.steps = self.profile.steps(with_tensor_scale=self.native is not None)
        self.bindings = {} if self.native is None else dict(bind_arrays(self.profile, self.native))
        grid = [float(element.magnitude(m)) for m in range(element.max_code + 1)]
        self.values = np.array(grid)
        self.ties = np.array([(a + b) / 2 for a, b in pairwise(grid)])
        step = grid[-1] - grid[-2]
        beyond = [grid[-1] + step * f for f in (0.25, 0.5, 0.75, 1.0)]
        self.points = np.unique(np.concatenate([self.values, self.ties, beyond, [grid[1] / 4, grid[1] * 0.75]]))
        self.significands = np.array(
            sorted({p & 0x7FFFFF for p in scale_points(self.fmt)} | {0, 1, 0x7FFFFF, 0x400000, 0x2AAAAA}), np.int64
        )
        if self.fmt.scale.bits > 8:
            starts = np.unique(np.array([b for _, run in list_maxima(self.fmt, [self.profile]) for b in run], np.int64))
        else:
            starts = self._find_changes()
        self.changes = starts[(starts > 0) & (starts <= self.largest)]
        top = self.largest >> 23
        self.exponents = (max(0, top - 24), top) if self.tensor is not None else (0, top)
        if self.dtype == "float16":
            self.exponents = (max(self.exponents[0], 127 - 24), min(self.exponents[1], 127 + 15))

    def _find_changes(self) -> npt.NDArray[np.int64]:
        try:
            return scale_steps(self.profile, self.fmt, self.native).starts
        except ValueError:  # the scale is no function of the maximum alone
            return np.empty(0, np.int64)

    @property
    def largest(self) -> int:
        """float32 bits of the largest maximum that may be drawn."""
        return LAST_FINITE if self.tensor is None else min(self.tensor, LAST_FINITE)

    def cast(self, bits: npt.NDArray[Any]) -> Float32s:
        """float32 numbers that the input dtype holds, from float32 bits."""
        x = bits.astype(np.uint32).view(np.float32)
        if self.dtype == "float32":
            return x
        with np.errstate(all="ignore"):
            return x.astype(DTYPES[self.dtype]).astype(np.float32)

    def as_input(self, x: Float32s) -> npt.NDArray[Any]:
        """The numbers in the input dtype."""
        with np.errstate(all="ignore"):
            return x.astype(DTYPES[self.dtype])

    def expect(self, x: Float32s) -> tuple[Codes, Codes]:
        """Scales [rows, blocks] and codes [rows, columns] by the profile."""
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, self.fmt, profile=self.profile, tensor_scale=self.native)
        return t.scales, t.codes

    def units(self, scales: Codes) -> npt.NDArray[np.float64]:
        """What one means in the input under each scale byte; 1 where that is no positive number."""
        sf = decode_codes(np.minimum(scales, self.fmt.scale.code_count - 1), self.fmt.scale).astype(np.float64)
        if self.entry is not None:
            sf = sf * self.entry.value("decode")
        return np.where(np.isfinite(sf) & (sf > 0), sf, 1.0)


@lru_cache(maxsize=64)
def get_sample_space(fmt: str, profile: str, tensor: int | None, dtype: str) -> SampleSpace:
    """The space of a campaign's job, prepared once."""
    return SampleSpace(get_rows(fmt), get_profile(profile, fmt), tensor, dtype)
