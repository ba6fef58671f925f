"""From codes and scales back to numbers, on arrays, by a profile's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import elements, fast
from mxspec.arrays import ARRAYS
from mxspec.elements import Codes, ScaleCodes
from mxspec.expressions import evaluate
from mxspec.formats import BlockFormat, get_block
from mxspec.inputs import as_index, to_torch, torch_dtype_name
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile, QuantizationSteps
from mxspec.tensorscale import TensorScale, bind_arrays, check_tensor_scale

_CHUNK_BLOCKS = 1 << 13


def check_axis(axis: object, ndim: int, name: str) -> int:
    """The axis as a non-negative integer.

    Raises TypeError for something else than an integer, and ValueError for an axis that there is not.
    """
    number = as_index(axis, "axis")
    if ndim == 0:
        raise ValueError(f"{name} has no axis to cut into blocks; pass at least one dimension")
    if not -ndim <= number < ndim:
        raise ValueError(f"axis = {number} is out of range for {ndim} dimensions; allowed are {-ndim} to {ndim - 1}")
    return number % ndim


def dequantize_rows(
    codes: Codes, scales: ScaleCodes, steps: QuantizationSteps, fmt: BlockFormat, bindings: dict[str, Any]
) -> npt.NDArray[Any]:
    """Values [n, k], not yet rounded to an output dtype, of codes [n, k] and scales [n, 1], by the profile's expressions."""
    q = elements.decode_table(fmt.element)[codes]
    sf = elements.decode_codes(scales, fmt.scale)
    return np.broadcast_to(evaluate(steps.dequantize, {**bindings, "q": q, "sf": sf}, ARRAYS), codes.shape)


def dequantize_arrays(
    codes: object,
    scales: object,
    fmt: str | BlockFormat | None,
    *,
    profile: str | Profile | None,
    axis: int,
    tensor_scale: TensorScale | None,
    convert: bool,
    dtype: object,
) -> npt.NDArray[Any]:
    """`mxspec.dequantize` of codes and scales."""
    fmt, profile = get_block(fmt), get_profile(profile, fmt)
    of_torch = torch_dtype_name(dtype)
    output = elements.output_dtype(dtype if of_torch is None else of_torch)
    code_array = elements.check_codes(codes, fmt.element)
    scale_array = elements.check_codes(scales, fmt.scale, name="scales")
    axis = check_axis(axis, code_array.ndim, "codes")
    fmt = fmt.sized(code_array.shape[axis])
    expected = tuple(n // fmt.k if a == axis else n for a, n in enumerate(code_array.shape))
    if code_array.shape[axis] % fmt.k or scale_array.shape != expected:
        raise ValueError(
            f"codes of shape {code_array.shape} and scales of shape {scale_array.shape} do not match for {fmt.name}; "
            f"axis {axis} of codes must be a multiple of {fmt.k}, and scales the same shape with it divided by {fmt.k}"
        )
    if tensor_scale is not None:
        tensor_scale = check_tensor_scale(tensor_scale, profile, convert=convert)
    steps = profile.steps(with_tensor_scale=tensor_scale is not None)
    bindings: dict[str, Any] = {} if tensor_scale is None else bind_arrays(profile, tensor_scale)
    bindings["M"] = np.asarray(np.float32(float(fmt.element.max_value)))
    moved = np.moveaxis(code_array, axis, -1)
    flat = np.ascontiguousarray(moved).reshape(-1, fmt.k)
    flat_scales = np.ascontiguousarray(np.moveaxis(scale_array, axis, -1)).reshape(-1, 1)
    out = np.empty(flat.shape, output)
    if not fast.dequantize(flat, flat_scales, fmt, steps, bindings, out):
        for start in range(0, flat.shape[0], _CHUNK_BLOCKS):
            part = slice(start, start + _CHUNK_BLOCKS)
            exact = dequantize_rows(flat[part], flat_scales[part], steps, fmt, bindings)
            out[part] = elements.round_to(exact.astype(np.float64), out.dtype)
    values = np.moveaxis(out.reshape(moved.shape), -1, axis)
    return values if of_torch is None else to_torch(values, of_torch)
