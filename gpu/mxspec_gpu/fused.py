"""What a layer's products take, quantized in the same pass: SiLU(gate) * up, and RMSNorm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from mxspec.formats import F32, BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_gpu.api import Quantized, launch_on, take_outputs, take_tensor_scale
from mxspec_gpu.arguments import check_apart, check_format, check_profile, find_layout, find_scale_dtype
from mxspec_gpu.arrays import ITEM_BYTES, View, copy_contiguous, current_stream, view_array
from mxspec_gpu.build import KernelSource
from mxspec_gpu.kernels import RowsTuning, rows_kernel
from mxspec_gpu.launch import U32, get_kernel
from mxspec_gpu.plans import HEAD, KernelLaunch, Launch, plan_rows, scale_shape, scale_step, zero_scales
from mxspec_gpu.rules import KernelRules, generate_rules
from mxspec_gpu.views import Matrix

_HALVES = ("float16", "bfloat16")
#: Elements of a row for each thread of `quantize_norm`, as kernels/quantize_norm.cu holds them, and how many threads there may be.
_HELD, _THREADS = 64, (64, 128, 256)


def _pad_scales(rules: KernelRules, rows: int, k: int, tiled: int, shape: tuple[int, ...]) -> list[Launch]:
    """What makes scales zero that no row has."""
    padded = (tiled == 1 and (rows % 128 or k // rules.fmt.k % 4)) or (tiled == 4 and rows % 4)
    return [zero_scales(prod(shape) * ITEM_BYTES[find_scale_dtype(rules.fmt)])] if padded else []


@lru_cache(maxsize=1024)
def plan_fused(rules: KernelRules, rows: int, k: int, dtype: str, device: int, tiled: int, scales_shape: tuple[int, ...]) -> list[Launch]:
    """The launches of rows of k gates and as many ups."""
    fused = plan_rows(
        rules, Matrix(rows, k, 2 * k, 1), dtype, device, (0, 0), source=1, tiled=tiled, stochastic=False, fused=True
    )  # fmt: skip
    return _pad_scales(rules, rows, k, tiled, scales_shape) + fused


def norm_kernel(rules: KernelRules, dtype: str, k: int, *, tiled: int) -> KernelSource:
    """`quantize_norm` of rows of k elements; tiled: as a layout is numbered. The order of its sum follows from the threads, and so from k."""
    threads = next((t for t in _THREADS if t * _HELD >= k), _THREADS[-1])
    way = 2 if tiled == 1 and k // rules.fmt.k % 4 == 0 else tiled
    values = 32 if rules.fmt.element.bits == 6 else 16
    tuning = RowsTuning(values=values, threads=threads, turns=2, load="(*(p))")
    return replace(
        rows_kernel(rules, dtype, tiled=way, stochastic=False, tuning=tuning), file="quantize_norm.cu", function="quantize_norm"
    )  # fmt: skip


def list_norm_kernels(levels: Iterable[tuple[str, str, bool]]) -> list[KernelSource]:
    """Every `quantize_norm` under these (profile, format, with a tensor scale)."""
    found: dict[KernelSource, None] = {}
    for profile, fmt, two_level in levels:
        rules = generate_rules(profile, fmt, two_level=two_level)
        layouts = (0, 4) if rules.fmt.scale == F32 else (0, 1)
        for dtype, tiled, threads, ragged in product(_HALVES, layouts, _THREADS, (0, rules.fmt.k)):
            found[norm_kernel(rules, dtype, threads * _HELD - ragged, tiled=tiled)] = None
    return list(found)


@lru_cache(maxsize=1024)
def plan_norm(rules: KernelRules, rows: int, k: int, dtype: str, device: int, tiled: int, scales_shape: tuple[int, ...]) -> list[Launch]:
    """The launches of rows of k elements, to which a call gives the weight for random words and the bits of eps for a seed."""
    source, per_row = norm_kernel(rules, dtype, k, tiled=tiled), k // rules.fmt.k
    threads = int(dict(source.defines)["MX_THREADS"])
    kernel = get_kernel(source, HEAD + U32 * 2, device)
    launch = KernelLaunch(kernel, (rows, 1), threads, (per_row, scale_step(tiled, rows, per_row)))
    return [*_pad_scales(rules, rows, k, tiled, scales_shape), launch]


def _quantize(
    view: View, block: BlockFormat, k: int, plan: Callable[..., list[Launch]], profile: str | Profile | None, tensor_scale: Any,
    scale_layout: str, out: tuple[Any, Any] | None, weight: View | None = None, eps: int = 0,
) -> Quantized:  # fmt: skip
    """What the launches of a plan make of x, of k elements of a row."""
    if isinstance(tensor_scale, str):
        raise ValueError(
            f"tensor_scale = {tensor_scale!r}; allowed are None, a TensorScale or a float32 array [1]; the values have no scale yet"
        )
    tiled, profile = find_layout(scale_layout, block), check_profile(profile)
    tensor = take_tensor_scale(view, tensor_scale, lambda: generate_rules(profile, block.name, two_level=True))
    rules = generate_rules(profile, block.name, two_level=tensor.two_level)
    view, outer = _align(view), view.shape[:-1]
    rows, per_row = prod(outer), k // block.k
    shapes = (*outer, k * block.element.bits // 8), scale_shape(rows, per_row, scale_layout) if tiled else (*outer, per_row)
    codes, scales, pointers = take_outputs(out, shapes, rules.fmt, view)
    if weight:
        sizes = prod(shapes[0]), prod(shapes[1]) * ITEM_BYTES[find_scale_dtype(block)]
        named = zip(("codes", "scales"), pointers, sizes, strict=True)
        check_apart([(name, first, first + size) for name, first, size in named], [("weight", *weight.range)])
    if view.size:
        launches = plan(rules, rows, k, view.dtype, view.device, tiled, shapes[1])
        stream = current_stream(view.library, view.device)
        given = weight.pointer if weight else 0
        launch_on(view.device, launches, view.pointer, *pointers, tensor.pointer, given, eps, tensor.bits, stream)
    return Quantized(rules.fmt, rules.profile, codes, scales, tensor.given, (*outer, k), scale_layout)


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
    view, block = _view_half(x), check_format(fmt, wide=True)
    if not view.shape or view.shape[-1] % (2 * block.k):
        raise ValueError(
            f"x has shape {view.shape}; pass [..., 2 K]: K gates, then K ups, K a multiple of the {block.k}-element block of {block.name}"
        )
    return _quantize(view, block, view.shape[-1] // 2, plan_fused, profile, tensor_scale, scale_layout, out)


def quantize_rms_norm(
    x: Any, weight: Any, fmt: str | BlockFormat, *, eps: float, profile: str | Profile | None = None, tensor_scale: Any = None,
    scale_layout: str = "row-major", out: tuple[Any, Any] | None = None,
) -> Quantized:  # fmt: skip
    """x / sqrt(mean(x^2) + eps) * weight, quantized along the last axis, in one pass.

    x: float16 or bfloat16 [..., K] on the GPU; K is a multiple of the format's block, of 64 for codes of six bits. weight: [K] of x's dtype.
    eps: a finite number that is not negative, rounded to float32. profile, scale_layout, out, tensor_scale: as in `quantize_silu_mul`.
    Returns what `quantize` gives for f [..., K] = x r, rounded to x's dtype, times the weight, rounded again, where r is 1 / sqrt(sum / K + eps),
        every operation rounded once to float32, as the product with r: the contract `any-2ulp+inner-DTYPE+product-DTYPE` of mxspec.fused.
        The order of the sum (kernels/quantize_norm.cu) follows from K alone: a row's result depends on no other row, and not on the call.

    Raises TypeError and ValueError that say what was given, what is allowed and what to do; GpuMissingError without CuPy or a GPU.
    """
    view, block, factors = _view_half(x), check_format(fmt, wide=True), view_array(weight, "weight")
    step = 64 if block.element.bits == 6 else block.k
    if not view.shape or view.shape[-1] % step or prod(view.shape[:-1]) >= 1 << 31:
        raise ValueError(f"x has shape {view.shape}; pass [..., K], K a multiple of {step} for {block.name}, of fewer than 2**31 rows")
    if factors.dtype != view.dtype or factors.shape != view.shape[-1:] or factors.device != view.device:
        raise ValueError(
            f"weight has dtype {factors.dtype} and shape {factors.shape} on device {factors.device}; pass {view.dtype} of shape "
            f"{view.shape[-1:]} on device {view.device}"
        )
    if isinstance(eps, bool) or not isinstance(eps, (int, float, np.floating)):
        raise TypeError(f"eps = {eps!r} is of type {type(eps).__name__}; pass a number, such as 1e-6")
    if not 0 <= eps <= float(np.finfo(np.float32).max):
        raise ValueError(f"eps = {eps!r}; pass a finite number, of float32 too, that is not negative, such as 1e-6")
    bits = int(np.float32(eps).view(np.uint32))
    return _quantize(view, block, view.shape[-1], plan_norm, profile, tensor_scale, scale_layout, out, _align(factors), bits)


def _align(view: View) -> View:
    """The same, of rows that follow one another, from a multiple of 16 bytes on."""
    return view if view.contiguous and view.pointer % 16 == 0 else copy_contiguous(view)


def _view_half(x: Any) -> View:
    """x of one of the 16-bit dtypes."""
    view = view_array(x)
    if view.dtype not in _HALVES:
        raise TypeError(f"x has dtype {view.dtype}; pass float16 or bfloat16")
    return view
