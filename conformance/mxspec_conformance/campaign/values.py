"""Dequantized values held to a profile's: which differ, which have another sign of zero, and which nothing is said of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_table
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec.tensorscale import TensorScale
from mxspec_conformance.observations.tables import same_values

Codes = npt.NDArray[np.uint8]


def expect_values(fmt: BlockFormat, profile: Profile, scale: TensorScale | None, codes: Codes, scales: Codes) -> npt.NDArray[np.float32]:
    """The profile's values [n, k] of codes [n, k] and scales [n, 1], under a tensor scale or none."""
    with np.errstate(all="ignore"):
        values: npt.NDArray[np.float32] = mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=scale)
    return values


def find_wrong_values(fmt: BlockFormat, profile: Profile, codes: Codes, want: Any, got: Any) -> tuple[Any, Any]:
    """Lanes [n, k] with a wrong value, and with the wrong sign of zero; NaN is NaN."""
    same, unsigned = same_values(got, want), same_values(got, want, signs=False)
    judged = np.ones(want.shape, bool)
    if profile.kind is Kind.NORMATIVE:  # products beyond float32 are open
        judged = ~np.isinf(want) | np.isinf(decode_table(fmt.element)[codes])
    return ~unsigned & judged, ~same & unsigned & judged
