"""Attention over quantized rows in float64: which key a query sees, its logits, and the weighted mean of V."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.attention.caches import gather, read_rows, view_rows
from mxspec.attention.formats import ROW_FORMATS, CacheSpec, parse_attention
from mxspec.attention.rows import Doubles, decode_rows

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """One call of attention, as a kernel gets it."""

    spec: CacheSpec
    #: [queries of all sequences, heads, d]: numbers, or FP8 codes.
    q: npt.NDArray[Any]
    #: Caches as `append_cache` has them; of a ragged spec the rows of all sequences [tokens, heads of K and V, width].
    k: npt.NDArray[Any]
    v: npt.NDArray[Any]
    #: int32 [sequences + 1]: where the queries of each sequence begin, and where the last end.
    starts: npt.NDArray[np.int32]
    #: int32 [sequences]: keys of each.
    lengths: npt.NDArray[np.int32]
    #: int32 [sequences, pages]; None: the spec is ragged.
    page_table: npt.NDArray[np.int32] | None = None
    causal: bool = False
    #: Keys that a query sees at most, its own the last of them; None: all. Only where it is causal.
    window: int | None = None
    #: What logits are multiplied by; None: 1 / sqrt(d).
    scale: float | None = None
    q_scale: npt.ArrayLike = 1.0
    k_scale: npt.ArrayLike = 1.0
    v_scale: npt.ArrayLike = 1.0
    #: What kernels do wrong: keys by which the mask ends late, and heads of K and V by modulo, not by division.
    late: int = 0
    by_modulo: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """The part of a call that is about one sequence."""

    queries: slice
    #: Queries times what multiplies logits [heads, queries, d], and keys [heads, d, keys].
    q: Doubles
    k: Doubles
    #: [heads, queries, keys]; what is not seen is -inf.
    logits: Doubles
    #: [keys, heads of K and V, d].
    values: Doubles
    #: Head of V that each head of the queries reads.
    groups: npt.NDArray[np.intp]


def find_visible(queries: int, keys: int, *, causal: bool, top_left: bool = False, window: int | None = None, late: int = 0) -> Flags:
    """Which keys each query sees, [queries, keys]. The last query belongs to the last key; with top_left the first to the first."""
    own = np.arange(queries)[:, None] + (0 if top_left else keys - queries)
    key = np.arange(keys)[None]
    seen = key <= own + late if causal else np.ones((queries, keys), bool)
    return seen if window is None else seen & (key > own - window)


def list_sequences(call: Call) -> Iterator[Sequence]:
    """Each sequence of a call, with logits in float64: exact where all products are multiples of a power of two that sums to 53 bits."""
    spec = call.spec
    q = decode_rows(call.q, spec.q, call.q_scale) if spec.q is not None else call.q.astype(np.float64)
    if call.page_table is None:
        ends = np.cumsum(call.lengths)[:-1]
        rows = np.split(call.k, ends), np.split(call.v, ends)
    else:
        rows = tuple(gather(part, call.page_table, call.lengths) for part in (view_rows(call.k, spec), read_rows(call.v, spec)))  # type: ignore[assignment]
    scale = 1 / np.sqrt(call.q.shape[-1]) if call.scale is None else call.scale
    for n, (k_rows, v_rows) in enumerate(zip(*rows, strict=True)):
        where = slice(int(call.starts[n]), int(call.starts[n + 1]))
        k, v = decode_rows(k_rows, spec.k, call.k_scale), decode_rows(v_rows, spec.v, call.v_scale)
        heads, shared = q.shape[1], k.shape[1]
        groups = np.arange(heads) % shared if call.by_modulo else np.arange(heads) // (heads // shared)
        queries, keys = q[where].transpose(1, 0, 2), k.transpose(1, 2, 0)[groups]
        logits = scale * np.matmul(queries, keys)
        seen = find_visible(q[where].shape[0], len(k), causal=call.causal, top_left=spec.top_left, window=call.window, late=call.late)
        yield Sequence(where, scale * queries, keys, np.where(seen, logits, -np.inf), v, groups)


def attend(call: Call) -> Doubles:
    """The outputs [queries, heads, d] in float64; zeros where a query sees no key."""
    outputs = np.zeros((call.q.shape[0], call.q.shape[1], call.spec.v.columns(call.v.shape[-1])))
    for part in list_sequences(call):
        most = part.logits.max(-1, keepdims=True, initial=-np.inf)
        weights = np.exp(part.logits - np.where(np.isfinite(most), most, 0))
        total = weights.sum(-1, keepdims=True)
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
        outputs[part.queries] = np.matmul(weights, part.values.transpose(1, 0, 2)[part.groups]).transpose(1, 0, 2)
    return outputs


def attend_as(
    q: npt.NDArray[Any], k: npt.NDArray[Any], v: npt.NDArray[Any], starts: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32],
    attention: str, out_dtype: str, **options: Any,
) -> npt.NDArray[Any]:  # fmt: skip
    """The outputs as a target returns them, in an output dtype; the arguments are those of `Call`, and the text of its spec."""
    call = Call(spec=parse_attention(attention), q=q, k=k, v=v, starts=starts, lengths=lengths, **options)
    return attend(call).astype(ROW_FORMATS[out_dtype].dtype)
