"""SiLU(gate) * up, quantized in the same pass: what the second product of a gated layer takes."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_gpu.api import Quantized, launch_on, take_outputs, take_tensor_scale
from mxspec_gpu.arguments import check_format, check_profile, find_layout, find_scale_dtype
from mxspec_gpu.arrays import ITEM_BYTES, copy_contiguous, current_stream, view_array
from mxspec_gpu.plans import Launch, plan_rows, scale_shape, zero_scales
from mxspec_gpu.rules import KernelRules, generate_rules
from mxspec_gpu.views import Matrix


@lru_cache(maxsize=1024)
def plan_fused(rules: KernelRules, rows: int, k: int, dtype: str, device: int, tiled: int, scales_shape: tuple[int, ...]) -> list[Launch]:
    """The launches of rows of k gates and as many ups."""
    launches: list[Launch] = []
    if (tiled == 1 and (rows % 128 or k // rules.fmt.k % 4)) or (tiled == 4 and rows % 4):
        launches.append(zero_scales(prod(scales_shape) * ITEM_BYTES[find_scale_dtype(rules.fmt)]))
    matrix = Matrix(rows, k, 2 * k, 1)
    return launches + plan_rows(rules, matrix, dtype, device, (0, 0), source=1, tiled=tiled, stochastic=False, fused=True)


def quantize_silu_mul(
    x: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scale: Any = None, scale_layout: str = "row-major",
    out: tuple[Any, Any] | None = None,
) -> Quantized:  # fmt: skip
    """SiLU(gate) * up, quantized along the last axis, in one pass.

    x: float16 or bfloat16 [..., 2 K] on the GPU: K gates, then K ups; K is a multiple of the format's block.
    profile, scale_layout, out: as in `quantize`. tensor_scale: None, a float32 array [1] on the GPU or a `mxspec.TensorScale`, of the
        profile's native kind; "auto" would need a pass of its own.
    Returns what `quantize` gives for f [..., K], where SiLU(gate) is computed in float32 by the GPU's fast exp2 and reciprocal and
    rounded to x's dtype, and its product with up, exact in float32, is rounded to x's dtype: the contract
    `any-fast+inner-DTYPE+product-DTYPE` of mxspec.fused.

    Raises TypeError and ValueError that say what was given, what is allowed and what to do; GpuMissingError without CuPy or a GPU.
    """
    view, block = view_array(x), check_format(fmt, wide=True)
    if view.dtype not in ("float16", "bfloat16"):
        raise TypeError(f"x has dtype {view.dtype}; pass float16 or bfloat16")
    if not view.shape or view.shape[-1] % (2 * block.k):
        raise ValueError(
            f"x has shape {view.shape}; pass [..., 2 K]: K gates, then K ups, K a multiple of the {block.k}-element block of {block.name}"
        )
    if isinstance(tensor_scale, str):
        raise ValueError(
            f"tensor_scale = {tensor_scale!r}; allowed are None, a TensorScale or a float32 array [1]; a product has no scale yet"
        )
    tiled, profile = find_layout(scale_layout, block), check_profile(profile)
    tensor = take_tensor_scale(view, tensor_scale, lambda: generate_rules(profile, block.name, two_level=True))
    rules = generate_rules(profile, block.name, two_level=tensor.two_level)
    if not view.contiguous or view.pointer % 16:
        view = copy_contiguous(view)
    outer, k = view.shape[:-1], view.shape[-1] // 2
    rows, per_row = prod(outer), k // block.k
    shapes = (*outer, k * block.element.bits // 8), scale_shape(rows, per_row, scale_layout) if tiled else (*outer, per_row)
    codes, scales, pointers = take_outputs(out, shapes, rules.fmt, view)
    if view.size:
        launches = plan_fused(rules, rows, k, view.dtype, view.device, tiled, shapes[1])
        stream = current_stream(view.library, view.device)
        launch_on(view.device, launches, view.pointer, *pointers, tensor.pointer, 0, 0, tensor.bits, stream)
    return Quantized(rules.fmt, rules.profile, codes, scales, tensor.given, (*outer, k), scale_layout)
