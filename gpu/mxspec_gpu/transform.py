"""The random Hadamard transform of a profile's `Transform`: its definition in NumPy, and the signs of a call.

Every value is one of sixteen neighbours times +-1/4, summed in float32 in four rounds: sums and differences of elements 1, 2, 4
and 8 apart. The order is this package's; a tensor core sums in one of its own, so another implementation of the same transform
may differ in the last bit of a value (see `mxspec.profiles.Transform`).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.profiles import Profile, TransformKind
from mxspec_gpu.arguments import check_integer
from mxspec_gpu.kernels import Signs

SIZE = 16


def find_signs(signs: Any, profile: Profile) -> Signs:
    """The signs of a call with a profile.

    Raises TypeError and ValueError for what is no mask of 16 bits, and for a profile without this transform.
    """
    allowed = f"an integer from 0 to {(1 << SIZE) - 1}: bit i negates element i of each {SIZE}"
    mask = check_integer(signs, "signs", allowed)
    if not 0 <= mask < 1 << SIZE:
        raise ValueError(f"signs = {mask} is out of range; pass {allowed}")
    transform = profile.transform
    if transform is None or transform.kind is not TransformKind.RANDOM_HADAMARD or transform.size != SIZE:
        raise ValueError(
            f"signs were given, but profile {profile.id} has no random Hadamard transform of {SIZE} elements; pass "
            "te-2.14/nvfp4/kernel-rht, or a profile with such a Transform"
        )
    return Signs(mask, "bfloat16" if "bfloat16" in profile.dtypes else "float32")


def transform_rows(x: npt.ArrayLike, signs: Signs) -> npt.NDArray[Any]:
    """The transformed values of x [..., K], K a multiple of 16, in the dtype that `signs` names; NaN are positive.

    x: float16 or bfloat16.
    """
    values = np.asarray(x)
    factors = np.where(signs.mask >> np.arange(SIZE) & 1, np.float32(-0.25), np.float32(0.25))
    with np.errstate(invalid="ignore", over="ignore"):
        v = values.astype(np.float32).reshape(-1, SIZE) * factors.astype(np.float32)
        for step in (1, 2, 4, 8):
            pairs = v.reshape(-1, SIZE // (2 * step), 2, step)
            v = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(-1, SIZE)
        v = np.where(np.isnan(v), np.float32(np.nan), v).reshape(values.shape)
        return v.astype(ml_dtypes.bfloat16) if signs.dtype == "bfloat16" else v
