"""Blocks that are put to a vendor's functions, and how their answers are held against a profile."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec.stepfunctions import LAST_FINITE, scale_steps
from mxspec.tensorscale import derive_tensor_scale
from mxspec_conformance.proving.maxima import maxima_blocks, threshold_maxima
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_lab.crosscheck import Batch, Comparison, compare_quantize
from mxspec_vectors.points import TENSOR_AMAXES

from tests.peers.vendor.record import Function

#: Maxima that are drawn beside those at the thresholds, for each tensor scale.
DRAWS = 1 << 10
#: Tensor maxima at which thresholds are asked: of those of the vectors, the two at which their own blocks are.
THRESHOLD_AMAXES = (TENSOR_AMAXES["unit"], TENSOR_AMAXES["odd"])


class VendorTarget:
    """An exported function as a target that quantizes."""

    def __init__(self, function: Function, library: ctypes.CDLL) -> None:
        self.function = function
        self.NAME = function.symbol
        #: The kind of tensor scale that it takes.
        self.TENSOR_SCALE = (function.tensor or TensorScaleKind.AMAX).value
        #: Raises AttributeError where the library does not export it.
        self._run = getattr(library, function.symbol)
        self._run.restype = None

    def quantize(
        self, x: npt.NDArray[Any], fmt: str, tensor_scale: float | None = None
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Codes [n, k] and scales [n, 1], both uint8, of blocks [n, k] in the function's dtype."""
        given = np.ascontiguousarray(x)
        if given.dtype != DTYPES[self.function.dtype] or given.shape[1] != get_block(fmt).k:
            raise TypeError(f"{self.NAME} takes {self.function.dtype} [n, {get_block(fmt).k}]; given {given.dtype} {given.shape}")
        codes, scales = np.zeros(given.shape, np.uint8), np.zeros((len(given), 1), np.uint8)
        self._run(
            ctypes.c_void_p(given.ctypes.data), ctypes.c_uint64(len(given)), ctypes.c_float(1.0 if tensor_scale is None else tensor_scale),
            ctypes.c_void_p(codes.ctypes.data), ctypes.c_void_p(scales.ctypes.data),
        )  # fmt: skip
        return codes, scales


def threshold_blocks(fmt: BlockFormat, profile: Profile, tensor: int | None, dtype: str, seed: int) -> npt.NDArray[np.float32]:
    """Blocks [n, k] with the maxima around every change of the scale byte, and the lanes around every change of a code.

    tensor: bits of the tensor's maximum; None: no tensor scale. The other lanes of a block lie at most two numbers of the dtype
    from the middle of two neighbouring values under the block's scale.
    """
    native = None if tensor is None else derive_tensor_scale(tensor, profile)
    largest = LAST_FINITE if tensor is None else min(tensor, LAST_FINITE)
    blocks = maxima_blocks(threshold_maxima(scale_steps(profile, fmt, native), largest, seed, DRAWS), fmt.k)
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, fmt.element.code_count // 2 - 1, blocks.shape).astype(np.uint8)
    with np.errstate(all="ignore"):
        scales = mxspec.quantize(blocks, fmt.name, profile=profile, tensor_scale=native).scales
        below, above = (
            mxspec.dequantize(c, scales, fmt.name, profile=profile, tensor_scale=native).astype(np.float64)
            for c in (codes, codes + np.uint8(1))
        )
        middle = ((below + above) / 2).astype(DTYPES[dtype])
    words = middle.view(np.uint32 if dtype == "float32" else np.uint16)
    near = (words + rng.integers(-2, 3, words.shape).astype(words.dtype)).view(middle.dtype).astype(np.float32)
    near = np.copysign(near, rng.choice(np.asarray([-1, 1], np.float32), near.shape))
    fits = np.isfinite(near) & (np.abs(near) <= np.abs(blocks).max(axis=1, keepdims=True))
    return np.concatenate([blocks, np.where((blocks == 0) & fits, near, blocks)])


def _threshold_batches(function: Function, profile: Profile) -> Iterator[Batch]:
    for seed, tensor in enumerate((None,) if function.tensor is None else THRESHOLD_AMAXES):
        yield threshold_blocks(get_block(function.format), profile, tensor, function.dtype, seed), tensor


def ask(function: Function, library: ctypes.CDLL) -> tuple[Comparison, Comparison]:
    """A function against its profile: on the vectors' blocks with random ones, and on blocks at thresholds.

    Raises AttributeError where the library does not export it, and ValueError where the profile does not take the dtype or has no
    such form.
    """
    profile = mxspec.get_profile(function.profile, function.format)
    if function.dtype not in profile.dtypes:
        raise ValueError(f"{function.symbol}: {profile.id} takes {', '.join(profile.dtypes)}, not {function.dtype}")
    target, two_level = VendorTarget(function, library), function.tensor is not None
    common = compare_quantize(target, function.format, profile, function.dtype, two_level=two_level)
    thresholds = _threshold_batches(function, profile)
    chosen = compare_quantize(target, function.format, profile, function.dtype, two_level=two_level, blocks=thresholds)
    return common, chosen
