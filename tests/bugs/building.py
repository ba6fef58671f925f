"""What targets are made of: the model's right answer, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import Rounding
from mxspec.formats import BLOCKS
from mxspec.profiles.schema import Profile

Array = npt.NDArray[Any]
#: Codes and scale bytes.
Answer = tuple[Array, Array]
#: (blocks [n, k], format) -> codes [n, k], scale bytes [n].
BlockFunction = Callable[[Array, str], Answer]
#: (input, format) -> what the interface's `quantize` returns.
Quantize = Callable[[Array, str], Answer]


def make(formats: Sequence[str], **members: Any) -> SimpleNamespace:
    """A target with these functions and declarations."""
    return SimpleNamespace(NAME="target", VERSION="1", FORMATS=list(formats), **members)


def on_blocks(function: BlockFunction) -> Quantize:
    """The interface's `quantize` of a function of blocks."""

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = function(x.astype(np.float32).reshape(-1, BLOCKS[fmt].k), fmt)
        return codes.reshape(x.shape), np.asarray(scales).astype(np.uint8).reshape(len(x), -1)

    return quantize


def right(x: Array, fmt: str, tensor_scale: float | None = None, **options: Any) -> Answer:
    """The interface's answer by the format's default profile, writable; tensor_scale: the largest magnitude."""
    scale = None if tensor_scale is None else by_amax(tensor_scale)
    t = mxspec.quantize(x, fmt, tensor_scale=scale, **options)
    return t.codes.copy(), t.scales.copy()


def right_values(codes: Array, scales: Array, fmt: str) -> Array:
    """The interface's `dequantize`, writable."""
    with np.errstate(all="ignore"):
        return np.array(mxspec.dequantize(codes, scales, fmt))


def by_amax(amax: float) -> mxspec.TensorScale:
    """A tensor scale of the kind `amax`."""
    return mxspec.TensorScale.from_float("amax", amax)


def model(x: Array, fmt: str, profile: str | Profile | None = None) -> Answer:
    """Codes [n, k] and scale bytes [n] of blocks, writable."""
    t = mxspec.quantize(x, fmt, profile=profile)
    return t.codes.copy(), t.scales[:, 0].copy()


def rounded(profile: Profile, mode: Rounding) -> Profile:
    """A profile with its elements rounded otherwise."""
    assert profile.one_level is not None
    return replace(profile, one_level=replace(profile.one_level, element=replace(profile.one_level.element, rounding=mode)))


def by_rounding(mode: Rounding) -> BlockFunction:
    """The model with its elements rounded otherwise."""
    return lambda x, fmt: model(x, fmt, rounded(mxspec.default_profile(fmt), mode))


def find_amax(x: Array) -> Array:
    """The largest magnitude [n] of each block."""
    found: Array = np.abs(x).max(axis=1)
    return found


def is_ordinary(x: Array) -> npt.NDArray[np.bool_]:
    """Blocks [n] without NaN and infinities."""
    return np.asarray(np.isfinite(x).all(axis=1))


def is_zero(x: Array) -> npt.NDArray[np.bool_]:
    """Blocks [n] of zeros."""
    return np.asarray(~x.any(axis=1))


def scaled(x: Array, scales: Array) -> Array:
    """Elements over their block's MX scale, within float32."""
    with np.errstate(all="ignore"):
        return np.clip(x.astype(np.float64) / 2.0 ** (scales.astype(float)[:, None] - 127), -1e30, 1e30)


def given(x: Array, scales: Array, fmt: str) -> Array:
    """Codes of ordinary blocks under these scale bytes; those of blocks with NaN or Inf are the model's."""
    codes = model(x, fmt)[0]
    ordinary = is_ordinary(x)
    codes[ordinary] = mxspec.encode(scaled(x, scales)[ordinary].astype(np.float32), BLOCKS[fmt].element)
    return codes
