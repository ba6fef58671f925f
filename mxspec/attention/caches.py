"""Places in pages: writing rows by slots, and reading the rows of sequences by a page table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.attention.formats import CacheSpec
from mxspec.attention.rows import Quantizer, decode_rows, list_quantizers, quantize_heads

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]


def view_rows(cache: Array, spec: CacheSpec) -> Array:
    """A view [pages, tokens of a page, heads, width] of a cache, whichever of tokens and heads lies closer."""
    return cache.swapaxes(1, 2) if spec.heads_first else cache


def find_swizzled(page: int, scales: int) -> tuple[Ints, Ints]:
    """Where the scale of token t and block s lies within a page and head: at token 4 (t / 4) + s / (S / 4), block 4 (s % (S / 4)) + t % 4.

    Read in vLLM, csrc/libtorch_stable/nvfp4_kv_cache_kernels.cu (swizzle_scale_offset), which calls it that of the SM100 trtllm-gen kernel.

    Raises ValueError where these are no multiples of 4.
    """
    t, s = np.meshgrid(np.arange(page, dtype=np.int32), np.arange(scales, dtype=np.int32), indexing="ij")
    if page % 4 or scales % 4 or not scales:
        raise ValueError(f"{scales} scales of a row in pages of {page} tokens: both are multiples of 4")
    quarter = scales // 4
    return t // 4 * 4 + s // quarter, s % quarter * 4 + t % 4


def read_rows(v_cache: Array, spec: CacheSpec) -> Array:
    """Rows of V [pages, tokens, heads, width] with their scales in order: a copy where they lie otherwise."""
    rows = view_rows(v_cache, spec)
    if not spec.swizzled:
        return rows
    rows = rows.copy()
    first = spec.v.count_codes(spec.v.columns(rows.shape[-1]))
    t, s = find_swizzled(rows.shape[1], rows.shape[-1] - first)
    rows[..., first:] = rows.transpose(0, 2, 1, 3)[:, :, t, first + s].transpose(0, 2, 1, 3)
    return rows


def write_rows(v_rows: Array, spec: CacheSpec) -> Array:
    """Inverts `read_rows`: a cache of V of rows with their scales in order."""
    rows = v_rows.copy()
    if spec.swizzled:
        first = spec.v.count_codes(spec.v.columns(rows.shape[-1]))
        t, s = find_swizzled(rows.shape[1], rows.shape[-1] - first)
        rows.transpose(0, 2, 1, 3)[:, :, t, first + s] = v_rows[..., first:].transpose(0, 2, 1, 3)
    return np.ascontiguousarray(view_rows(rows, spec))


def find_places(slots: Array, page: int) -> tuple[Array, Array, Array]:
    """Which tokens are stored at all, and their pages and places in these: slot // page, slot % page; -1 is no slot."""
    kept = np.flatnonzero(slots >= 0)
    return kept, slots[kept] // page, slots[kept] % page


def append_cache(
    k: Array, v: Array, slots: Ints, k_cache: Array, v_cache: Array, cache: CacheSpec, *, k_scale: npt.ArrayLike = 1.0,
    v_scale: npt.ArrayLike = 1.0, quantizers: tuple[Quantizer, Quantizer] | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """New rows of K and V, quantized and written to their slots.

    Args:
        k: Numbers [tokens, heads, d].
        v: The same of V.
        slots: int32 [tokens]: page * tokens of a page + place, or -1: the token is not stored. No slot comes twice.
        k_cache: [pages, tokens of a page, heads, width], or heads before tokens.
        v_cache: The same of V.
        cache: The formats.
        k_scale: float32 by which FP8 codes are multiplied when they are read, NVFP4's tensor scale; one, or one for each head.
        v_scale: The same of V.
        quantizers: What makes rows of K, and of V; None: the first of `list_quantizers`.

    Returns:
        Both caches; all other bytes are as before.
    """
    rows = view_rows(k_cache, cache)
    kept, pages, places = find_places(slots, rows.shape[1])
    new_k, new_v = rows.copy(), read_rows(v_cache, cache).copy()
    of_k, of_v = quantizers or (next(list_quantizers(cache.k))[1], next(list_quantizers(cache.v))[1])
    if len(kept):
        new_k[pages, places] = quantize_heads(k[kept].astype(np.float32), of_k, k_scale)
        new_v[pages, places] = quantize_heads(v[kept].astype(np.float32), of_v, v_scale)
    return np.ascontiguousarray(view_rows(new_k, cache)), write_rows(new_v, cache)


def gather(rows: Array, page_table: Ints, lengths: Ints) -> list[Array]:
    """The rows [tokens, heads, width] of each sequence."""
    page = rows.shape[1]
    return [rows[pages[: -(-n // page)]].reshape(-1, *rows.shape[2:])[:n] for pages, n in zip(page_table, lengths, strict=True)]


def read_cache(
    k_cache: Array, v_cache: Array, page_table: Ints, lengths: Ints, cache: CacheSpec, *, k_scale: npt.ArrayLike = 1.0,
    v_scale: npt.ArrayLike = 1.0,
) -> tuple[Array, Array]:  # fmt: skip
    """The numbers of K and V of all sequences, one behind the other: float32 [sum of lengths, heads, d].

    Args:
        k_cache: As `append_cache` takes it.
        v_cache: The same of V.
        page_table: int32 [sequences, pages]: the page that holds each stretch of a sequence; more than its length needs mean nothing.
        lengths: int32 [sequences].
        cache: The formats.
        k_scale: As `append_cache` takes it.
        v_scale: The same of V.
    """
    k, v = view_rows(k_cache, cache), read_rows(v_cache, cache)
    with np.errstate(over="ignore"):
        return (
            decode_rows(np.concatenate(gather(k, page_table, lengths)), cache.k, k_scale).astype(np.float32),
            decode_rows(np.concatenate(gather(v, page_table, lengths)), cache.v, v_scale).astype(np.float32),
        )
