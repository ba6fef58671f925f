"""From which maximum of a tensor a profile makes a stored tensor scale, and the scale byte of the block that holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.arrays import ARRAYS
from mxspec.blocks import quantize_rows
from mxspec.expressions import Expr, evaluate
from mxspec.formats import BlockFormat
from mxspec.profiles import Profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TWO_LEVEL_MAX, TensorScale, bind_arrays

_DTYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
#: float32 numbers tried on either side of 2688 x the scale: three roundings, each of which may be a division by 2688.
_NEAR = 8


@dataclass(frozen=True, slots=True)
class Maximum:
    """A largest magnitude that gives a tensor scale."""

    #: float32 bits.
    bits: int
    #: The narrowest dtype that holds it: bfloat16, float16 or float32.
    dtype: str

    @property
    def value(self) -> float:
        """The number."""
        return float(np.uint32(self.bits).view(np.float32))

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {"value": self.value, "dtype": self.dtype}


def find_maximum(profile: Profile, scale: TensorScale) -> Maximum | None:
    """The maximum of the narrowest dtype from which a profile makes a stored tensor scale.

    A scale of the other kind is compared with the correctly rounded reciprocal of the profile's and its two neighbours. None:
    no float32 number gives it.
    """
    if profile.tensor is None or not 0 < scale.bits < 0x7F800000:
        return None
    return _find(profile.tensor.from_amax, profile.tensor.native, scale)


@lru_cache(maxsize=1024)
def _find(rule: Expr, native: TensorScaleKind, scale: TensorScale) -> Maximum | None:
    for name in _DTYPES:
        maxima = _list_maxima(name)
        hits = maxima[_gives(rule, native, maxima, scale)]
        if hits.size:
            return Maximum(int(hits.view(np.uint32)[0]), name)
    value = np.float64(scale.value)
    with np.errstate(all="ignore"):
        near = {
            TensorScaleKind.DECODE: value * TWO_LEVEL_MAX, TensorScaleKind.ENCODE: TWO_LEVEL_MAX / value,
            TensorScaleKind.AMAX: value,
        }[scale.kind].astype(np.float32)  # fmt: skip
    tried = int(near.view(np.uint32)) + np.arange(-_NEAR, _NEAR + 1)
    maxima = tried[(tried > 0) & (tried < 0x7F800000)].astype(np.uint32).view(np.float32)
    hits = maxima[_gives(rule, native, maxima, scale)]
    return Maximum(int(hits.view(np.uint32)[0]), "float32") if hits.size else None


@lru_cache(maxsize=2)
def _list_maxima(name: str) -> npt.NDArray[np.float32]:
    values = np.arange(1, 1 << 15, dtype=np.uint16).view(_DTYPES[name]).astype(np.float32)
    finite: npt.NDArray[np.float32] = values[np.isfinite(values)]
    return finite


def _gives(rule: Expr, native: TensorScaleKind, maxima: npt.NDArray[np.float32], scale: TensorScale) -> npt.NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        made = np.asarray(evaluate(rule, {"tmax": maxima}, ARRAYS)).astype(np.float32)
        if native is scale.kind:
            same: npt.NDArray[np.bool_] = made.view(np.uint32) == scale.bits
            return same
        wide = made.astype(np.float64)
        kinds = (native, scale.kind)
        if TensorScaleKind.AMAX not in kinds:
            turned = 1 / wide
        elif kinds[1] is TensorScaleKind.DECODE:
            turned = wide / TWO_LEVEL_MAX
        elif kinds[1] is TensorScaleKind.ENCODE or kinds[0] is TensorScaleKind.ENCODE:
            turned = TWO_LEVEL_MAX / wide
        else:
            turned = wide * TWO_LEVEL_MAX
        bits = turned.astype(np.float32).view(np.uint32).astype(np.int64)
    near: npt.NDArray[np.bool_] = np.abs(bits - scale.bits) <= 1
    return near


def find_due_byte(profile: Profile, fmt: BlockFormat, scale: TensorScale, maximum: Maximum) -> int:
    """The largest scale byte that a profile gives a block with this maximum; scale: of its native kind."""
    steps = profile.steps(with_tensor_scale=True)
    bindings: dict[str, Any] = dict(bind_arrays(profile, scale))
    row = np.zeros((1, fmt.k), np.float32)
    row[0, 0] = np.float32(maximum.value)
    found = []
    for rule in (steps.scale, *([steps.alternative.scale] if steps.alternative else [])):
        with np.errstate(all="ignore"):
            form = replace(steps, scale=rule, alternative=None)
            found.append(int(quantize_rows(row, fmt, profile, form, bindings)[0][0, 0]))
    return max(found)
