"""The model itself: what a conforming implementation looks like."""

from __future__ import annotations

from typing import Any

import mxspec
from mxspec import affine, attention as caches, layouts, sparsity
from mxspec.fused.evaluating import compute
from mxspec.fused.functions import EPS
from mxspec_conformance.adapters.registry import Library
from mxspec_vectors.build_affine import AFFINE_FILES


class _Model:
    VERSION = mxspec.__version__
    FORMATS = tuple(mxspec.BLOCKS)
    ELEMENTS = (*mxspec.ELEMENTS, *mxspec.SCALES)
    DTYPES = ("float32", "float16", "bfloat16")
    TENSOR_SCALE = "amax"
    AFFINE = AFFINE_FILES
    SPARSE_FORMATS = tuple(sparsity.SPARSE_FORMATS)
    PRUNE_RULE = "lower"
    FUSED = ("silu_mul-mxfp8_e4m3", "add_rmsnorm-mxfp4", "hadamard-16-nvfp4")
    CACHES = ("fp8_e4m3", "nvfp4/v-4x4")
    ATTENTION = ("bfloat16 @ fp8_e4m3", "float32 @ nvfp4/ragged")
    OUT_DTYPES = ("float32", "bfloat16")

    def quantize(
        self,
        x: Any,
        fmt: str,
        tensor_scale: float | None = None,
        axis: int = -1,
        pad: bool = False,
        block: tuple[int, int] | None = None,
        random_bits: Any = None,
        scales: Any = None,
    ) -> tuple[Any, Any]:
        """Codes and scales by the format's default profile."""
        t = mxspec.quantize(
            x, fmt, tensor_scale=_scale(tensor_scale), axis=axis, pad=pad, block=block, random_bits=random_bits, scales=scales
        )
        return t.codes, t.scales

    def quantize_fused(
        self, x: Any, f: str, fmt: str, up: Any = None, residual: Any = None, weight: Any = None, eps: float = EPS, tensor_scale: Any = None
    ) -> tuple[Any, Any]:
        """Codes and scales of a function, by the first of its contracts."""
        return self.quantize(compute(x, f, up=up, residual=residual, weight=weight, eps=eps), fmt, tensor_scale)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values by the format's default profile."""
        return mxspec.dequantize(codes, scales, fmt, tensor_scale=_scale(tensor_scale))

    def quantize_affine(self, x: Any, fmt: str) -> tuple[Any, Any, Any]:
        """Codes, scales and biases or zero points by the format's default profile."""
        found = affine.get_affine(fmt)
        t = affine.quantize(x, bits=found.bits, group=found.group, offset=found.offset, scale_dtype=found.dtype)
        return t.codes, t.scales, t.offsets

    def dequantize_affine(self, codes: Any, scales: Any, offsets: Any, fmt: str) -> Any:
        """float32 values: real numbers, rounded once."""
        return affine.dequantize(codes, scales, offsets, fmt)

    def encode(self, x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
        """Codes of single numbers."""
        return mxspec.encode(x, element, rounding=mxspec.Rounding(rounding), overflow=mxspec.Overflow(overflow))

    def decode(self, codes: Any, element: str) -> Any:
        """Values of single codes."""
        return mxspec.decode(codes, element)

    def encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        """Codes by the integer rule with 32 random bits."""
        return mxspec.encode(x, element, rounding="sr", random_bits=random_bits)

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The tensor's largest magnitude."""
        return mxspec.tensor_scale(x, fmt).value

    def prune(self, codes: Any, fmt: str) -> Any:
        """Codes with the two largest of each group kept."""
        chosen = sparsity.get_sparse(fmt)
        return sparsity.prune(codes, kind=chosen.kind, sparsity=chosen.sparsity)

    def compress(self, codes: Any, fmt: str) -> tuple[Any, Any]:
        """Kept codes and canonical metadata."""
        chosen = sparsity.get_sparse(fmt)
        return sparsity.compress(codes, kind=chosen.kind, sparsity=chosen.sparsity)

    def decompress(self, kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
        """Dense codes."""
        return sparsity.decompress(kept, metadata, sparsity=sparsity.get_sparse(fmt).sparsity)

    def pack(self, codes: Any, layout: str) -> Any:
        """The bytes of codes in a layout."""
        return layouts.pack(codes, layout)

    def unpack(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        """The codes that bytes hold."""
        return layouts.unpack(data, layout, shape)

    swizzle, unswizzle = pack, unpack

    def pack_blocks(self, codes: Any, scales: Any, layout: str) -> Any:
        """The bytes of codes and their scales in a layout that stores them together."""
        return layouts.pack_blocks(codes, scales, layout)

    def unpack_blocks(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        """Codes and scales."""
        return layouts.unpack_blocks(data, layout, shape)

    def append_cache(
        self, k: Any, v: Any, slots: Any, k_cache: Any, v_cache: Any, cache: str, k_scale: Any = 1.0, v_scale: Any = 1.0
    ) -> Any:
        """Both caches with new rows."""
        return caches.append_cache(k, v, slots, k_cache, v_cache, caches.parse_cache(cache), k_scale=k_scale, v_scale=v_scale)

    def read_cache(
        self, k_cache: Any, v_cache: Any, page_table: Any, lengths: Any, cache: str, k_scale: Any = 1.0, v_scale: Any = 1.0
    ) -> Any:  # fmt: skip
        """The numbers of all sequences."""
        return caches.read_cache(k_cache, v_cache, page_table, lengths, caches.parse_cache(cache), k_scale=k_scale, v_scale=v_scale)

    def attention(
        self, q: Any, k: Any, v: Any, starts: Any, lengths: Any, attention: str, out_dtype: str, page_table: Any = None,
        causal: bool = False, window: int | None = None, scale: float | None = None, q_scale: Any = 1.0, k_scale: Any = 1.0,
        v_scale: Any = 1.0,
    ) -> Any:  # fmt: skip
        """Attention in float64, rounded once."""
        return caches.attend_as(
            q, k, v, starts, lengths, attention, out_dtype, page_table=page_table, causal=causal, window=window, scale=scale,
            q_scale=q_scale, k_scale=k_scale, v_scale=v_scale,
        )  # fmt: skip


def _scale(value: float | None) -> mxspec.TensorScale | None:
    return None if value is None else mxspec.TensorScale.from_float("amax", value)


ADAPTERS = (Library(name="mxspec", requires="mxspec", imports="mxspec", light=True).target("mxspec", "this model itself", _Model),)
