"""Affine integers on the GPU: INT4 with groups, a scale and a bias or zero point; values, and products with a few vectors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mxspec.affine import AffineContract, AffineFormat, Offset, get_affine, get_contract, list_contracts
from mxspec_gpu import product_kernels
from mxspec_gpu.api import check_values_output
from mxspec_gpu.arguments import check_apart, check_float_name
from mxspec_gpu.arrays import ITEM_BYTES, OnDevice, View, copy_contiguous, current_stream, empty_array, view_array, view_output
from mxspec_gpu.gemv_tunings import MOST_VECTORS, GemvTuning, plan_gemv
from mxspec_gpu.launch import POINTER, U32, Kernel, get_kernel
from mxspec_gpu.vectors import read_shared_memory, take_alpha, take_vectors

_DEQUANTIZE = POINTER * 4 + U32
_GEMV = POINTER * 6 + U32 * 4


def check_affine(fmt: Any) -> AffineFormat:
    """An affine format that the kernels have."""
    if not isinstance(fmt, (str, AffineFormat)):
        raise TypeError(f"fmt = {fmt!r} is of type {type(fmt).__name__}; pass a name such as int4-g64-bias-float16, or an AffineFormat")
    affine = get_affine(fmt)
    if affine.bits != 4 or affine.group % 8:
        raise ValueError(
            f"fmt = {affine.name}; the kernels have four bits and groups of a multiple of 8; use mxspec.affine.dequantize (NumPy)"
        )
    return affine


def check_contract(contract: str | AffineContract, fmt: AffineFormat, dtype: str) -> AffineContract:
    """A contract that the kernels compute."""
    rule = get_contract(contract, fmt)
    if fmt.dtype == "float32" and (rule.dtype or dtype) != "float32":
        held = [c.name for c in list_contracts(fmt) if c.dtype == "float32"]
        raise ValueError(
            f"contract = {rule.name!r} to {dtype} with float32 scales is not computed here; allowed are {', '.join(held)}, and "
            "exact to float32"
        )
    return rule


def check_parts(codes: Any, scales: Any, offsets: Any, fmt: AffineFormat) -> tuple[View, View, View]:
    """Codes as words, scales and offsets, contiguous and aligned.

    Raises TypeError and ValueError for what does not match.
    """
    views = view_array(codes, "codes"), view_array(scales, "scales"), view_array(offsets, "offsets")
    held, s, o = views
    kind = fmt.dtype if fmt.offset is Offset.BIAS else "uint8"
    if held.dtype not in ("uint8", "uint32", "int32"):
        raise TypeError(f"codes have dtype {held.dtype}; pass uint8 [..., K / 2], or uint32 (int32) words [..., K / 8]")
    if s.dtype != fmt.dtype or o.dtype != kind:
        raise TypeError(f"scales have dtype {s.dtype} and offsets {o.dtype}; {fmt.name} has scales of {fmt.dtype} and offsets of {kind}")
    if len({v.device for v in views}) > 1:
        raise ValueError(f"codes are on device {held.device}, scales on {s.device} and offsets on {o.device}; pass all on one")
    per_item = 2 * ITEM_BYTES[held.dtype]
    k = held.shape[-1] * per_item if held.shape else 0
    if not held.shape or k % fmt.group:
        raise ValueError(f"codes have shape {held.shape}, {k} codes in a row; the last axis of {fmt.name} has a multiple of {fmt.group}")
    wanted = (*held.shape[:-1], k // fmt.group)
    if s.shape != wanted or o.shape != wanted:
        raise ValueError(
            f"codes of shape {held.shape}, scales of shape {s.shape} and offsets of shape {o.shape} do not match for {fmt.name}; "
            f"pass scales and offsets of shape {wanted}"
        )
    held = held if held.contiguous and held.pointer % 16 == 0 else copy_contiguous(held)
    return held, *(v if v.contiguous else copy_contiguous(v) for v in (s, o))  # type: ignore[return-value]


def affine_dequantize(
    codes: Any, scales: Any, offsets: Any, fmt: str | AffineFormat, *, contract: str | AffineContract = "exact",
    dtype: str = "bfloat16", out: Any = None,
) -> Any:  # fmt: skip
    """The values of four-bit affine codes, groups along the last axis: `mxspec.affine.dequantize`, bit for bit.

    codes: uint32 words [..., K / 8], the first code in the lowest bits (MLX's), or the same bytes, uint8 [..., K / 2].
    scales: [..., K / group] in the format's dtype; offsets: biases in that dtype, or zero points, uint8 (below 16).
    contract: where the value is rounded (`mxspec.affine.list_contracts`); `exact`: once, to `dtype`.
    Returns [..., K] of `dtype` in the caller's library. out: contiguous, 16-byte aligned.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    affine = check_affine(fmt)
    check_float_name(dtype)
    rule = check_contract(contract, affine, dtype)
    held, s, o = check_parts(codes, scales, offsets, affine)
    eights = held.size * ITEM_BYTES[held.dtype] // 4
    if eights >= 1 << 31:
        raise ValueError(f"codes of shape {held.shape}: fewer than 2**34 codes are done at once; pass parts")
    shape = (*held.shape[:-1], held.shape[-1] * 2 * ITEM_BYTES[held.dtype])
    if out is None:
        out = empty_array(shape, dtype, held.library, held.device)
    target = view_output(out)
    check_values_output(target, dtype, shape, held.device)
    check_apart([("out", *target.range)], [(n, *v.range) for n, v in (("codes", held), ("scales", s), ("offsets", o))])
    if eights:
        tuning = product_kernels.AffineTuning()
        kernel = get_kernel(product_kernels.affine_kernel(affine, rule, dtype, tuning), _DEQUANTIZE, held.device)
        stream = current_stream(held.library, held.device)
        with OnDevice(held.device):
            kernel.launch(
                (-(-eights // (tuning.threads * tuning.unroll)), 1), tuning.threads, stream, held.pointer, s.pointer, o.pointer,
                target.pointer, eights,
            )  # fmt: skip
    return out


@lru_cache(maxsize=256)
def _gemv(fmt: AffineFormat, dtype: str, tuning: GemvTuning, shared: int, device: int) -> Kernel:
    return get_kernel(product_kernels.gemv_affine_kernel(fmt, dtype, tuning, shared), _GEMV, device)


def gemv_contract(fmt: AffineFormat) -> str:
    """The contract of the weights of `affine_gemv`: rounded once to the dtype of the scales."""
    return f"{fmt.dtype}-fma" if fmt.offset is Offset.BIAS else fmt.dtype


def affine_gemv(
    x: Any, codes: Any, scales: Any, offsets: Any, fmt: str | AffineFormat, *, alpha: Any = 1.0, dtype: str | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """alpha * W x for up to 64 vectors: four-bit affine weights as they lie in a checkpoint, sums in float32.

    x: [K] or [M, K] in the dtype of the scales, float16 or bfloat16. codes: uint32 words [N, K / 8] or uint8 [N, K / 2];
        scales, offsets: [N, K / group]; the group is a multiple of 32. alpha: a number or a float32 array [1] on the GPU.
    Returns [N] or [M, N] of `dtype`, by default x's. A weight is the value of the contract `float16-fma` (`bfloat16-fma`) of
    biases, `float16` (`bfloat16`) of zero points: rounded once. The order of the sums is the same in every call, for every M.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    affine = check_affine(fmt)
    if affine.group % 32 or affine.dtype == "float32":
        raise ValueError(
            f"fmt = {affine.name}; affine_gemv takes groups of a multiple of 32 and 16-bit scales; use affine_dequantize and multiply"
        )
    wanted = affine.dtype if dtype is None else check_float_name(dtype)
    view, lead = take_vectors(x, affine.dtype, MOST_VECTORS)
    weights, s, o = check_parts(codes, scales, offsets, affine)
    k = weights.shape[-1] * 2 * ITEM_BYTES[weights.dtype]
    n = weights.shape[0]
    if len(weights.shape) != 2 or view.shape[-1] != k:
        raise ValueError(
            f"codes of shape {weights.shape} and x of shape {view.shape} do not match; pass codes of N rows of K codes and x [..., K]"
        )
    if view.device != weights.device:
        raise ValueError(f"x is on device {view.device} and codes on device {weights.device}; pass all on one")
    if n >= 1 << 31 or k >= 1 << 31:
        raise ValueError(f"codes have shape {weights.shape}; pass fewer than 2**31 rows and columns")
    pointer, bits, _kept = take_alpha(alpha, view.device)
    shape = (*lead, n)
    if out is None:
        out = empty_array(shape, wanted, view.library, view.device)
    target = view_output(out)
    check_values_output(target, wanted, shape, view.device)
    check_apart(
        [("out", *target.range)], [(name, *v.range) for name, v in (("x", view), ("codes", weights), ("scales", s), ("offsets", o))]
    )
    if n and k:
        batch = lead[0] if lead else 1
        copy = not (s.pointer | o.pointer) % 16 and product_kernels.can_copy(affine, k)
        factors, memory = product_kernels.count_factor_bytes(affine), read_shared_memory(view.device)
        plan = plan_gemv("affine", (n, k), batch, copy=copy, factors=factors, memory=memory)
        kernel = _gemv(affine, wanted, plan.tuning, plan.shared, view.device)
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            for first in range(0, batch, plan.vectors):
                kernel.launch(
                    (-(-n // plan.tuning.rows), 1), plan.tuning.threads, stream, weights.pointer, s.pointer, o.pointer,
                    view.pointer + first * k * ITEM_BYTES[view.dtype], target.pointer + first * n * ITEM_BYTES[wanted], pointer, bits,
                    n, k, min(plan.vectors, batch - first),
                )  # fmt: skip
    return out
