"""Sparse e2m1 codes on the GPU: two of four kept, or two of four pairs, to the dense numbers."""

from __future__ import annotations

from typing import Any

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec.sparsity import Sparsity
from mxspec.sparsity.patterns import get_sparsity
from mxspec_gpu import product_kernels
from mxspec_gpu.api import check_values_output, find_dequantize_rules
from mxspec_gpu.arguments import check_apart, check_float_name, check_format
from mxspec_gpu.arrays import OnDevice, copy_contiguous, current_stream, empty_array, view_array, view_output
from mxspec_gpu.launch import POINTER, U32, get_kernel

_TYPES = POINTER * 5 + U32 * 2


def sparse_dequantize(
    kept: Any, metadata: Any, scales: Any, fmt: str | BlockFormat, *, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR,
    profile: str | Profile | None = None, tensor_scale: Any = None, dtype: str = "bfloat16", out: Any = None,
) -> Any:  # fmt: skip
    """The dense numbers of sparse block-scaled codes: `mxspec.sparsity.SparseTensor.dequantize`, bit for bit.

    kept: uint8 [..., K / 4]: the codes that are kept, in order, packed two to a byte. metadata: uint8 [..., K / 8] for 2:4,
        [..., K / 16] for pairs: nibbles packed two to a byte, the first one low. scales: uint8 [..., K / k] of the dense K, row-major.
    fmt: mxfp4 or nvfp4; K is a multiple of its block. profile, tensor_scale, dtype, out: as `dequantize` takes them.
    Returns [..., K]. A dropped code is a zero under its block's scale. A group whose nibble is illegal is NaN, since a call
    cannot wait to refuse it.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block, pattern = check_format(fmt), get_sparsity(sparsity)
    if block.element.name != "e2m1":
        raise ValueError(f"fmt = {block.name!r}; sparse codes are of mxfp4 or nvfp4 here; use mxspec.sparsity for others (NumPy)")
    check_float_name(dtype)
    views = tuple(view_array(a, name) for a, name in ((kept, "kept"), (metadata, "metadata"), (scales, "scales")))
    if {v.dtype for v in views} != {"uint8"}:
        raise TypeError(f"kept, metadata and scales have dtypes {', '.join(v.dtype for v in views)}; all are uint8")
    if len({v.device for v in views}) > 1:
        raise ValueError(f"kept, metadata and scales are on devices {', '.join(str(v.device) for v in views)}; pass all on one")
    codes, nibbles, scale_view = (v if v.contiguous and v.pointer % 2 == 0 else copy_contiguous(v) for v in views)
    k = codes.shape[-1] * 4 if codes.shape else 0
    if not codes.shape or k % block.k:
        raise ValueError(f"kept has shape {codes.shape}: K = {k} is not a multiple of the {block.k}-element block of {block.name}")
    shape = (*codes.shape[:-1], k)
    wanted = (*shape[:-1], k // (2 * pattern.group)), (*shape[:-1], k // block.k)
    if nibbles.shape != wanted[0] or scale_view.shape != wanted[1]:
        raise ValueError(
            f"kept of shape {codes.shape}, metadata of shape {nibbles.shape} and scales of shape {scale_view.shape} do not match for "
            f"{pattern} {block.name}; pass metadata of shape {wanted[0]} and scales of shape {wanted[1]}"
        )
    rules, tensor = find_dequantize_rules(codes, block, profile, tensor_scale)
    eights = codes.size // 2
    if eights >= 1 << 31:
        raise ValueError(f"kept has shape {codes.shape}: fewer than 2**34 elements are done at once; pass parts")
    if out is None:
        out = empty_array(shape, dtype, codes.library, codes.device)
    target = view_output(out)
    check_values_output(target, dtype, shape, codes.device)
    check_apart(
        [("out", *target.range)], [(name, *v.range) for name, v in (("kept", codes), ("metadata", nibbles), ("scales", scale_view))]
    )
    if eights:
        tuning = product_kernels.SparseTuning()
        source = product_kernels.sparse_kernel(rules, dtype, pairs=pattern is Sparsity.PAIRS, tuning=tuning)
        kernel = get_kernel(source, _TYPES, codes.device)
        stream = current_stream(codes.library, codes.device)
        with OnDevice(codes.device):
            kernel.launch(
                (-(-eights // (tuning.threads * tuning.unroll)), 1), tuning.threads, stream, codes.pointer, nibbles.pointer,
                scale_view.pointer, target.pointer, tensor.pointer, tensor.bits, eights,
            )  # fmt: skip
    return out
