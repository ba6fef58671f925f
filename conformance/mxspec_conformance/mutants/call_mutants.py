"""Mutants of blocks, axes and tails, of calls and state, of stochastic rounding, and of single numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxspec.formats import BLOCKS
from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.decode_mutants import MX, exactly, magnitudes, where
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_conformance.mutants.rounding_mutants import after, always, clamp
from mxspec_conformance.mutants.scale_mutants import EVERY
from mxspec_conformance.mutants.schema import Family, Mutant
from mxspec_conformance.mutants.staged import Step, Wrap, around

#: Codes and scales.
Pair = Any


def quantize_as(change: Callable[..., Pair]) -> Wrap:
    """A quantize built from the right one: change(right, x, fmt, kwargs)."""
    return around(lambda right, x, fmt, **kwargs: change(right, np.asarray(x), fmt, kwargs))


def on_result(change: Callable[[Array, Array, Array, int], Any]) -> Wrap:
    """Change codes and scales (as blocks [n, k] and [n], fresh copies) of plain calls: change(x blocks, codes, scales, k)."""

    def run(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
        codes, scales = right(x, fmt, **kwargs)
        if set(kwargs) - {"tensor_scale"}:
            return codes, scales
        k = BLOCKS[fmt].k
        flat, bytes_ = np.array(codes).reshape(-1, k), np.array(scales).reshape(-1)
        change(x.reshape(-1, k), flat, bytes_, k)
        return flat.reshape(codes.shape), bytes_.reshape(scales.shape)

    return quantize_as(run)


def with_keyword(keyword: str, change: Callable[..., Pair]) -> Wrap:
    """Change calls alone that pass a keyword: change(right, x, fmt, kwargs)."""

    def run(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
        given = kwargs.get(keyword)
        if given is None or given is False or (keyword == "axis" and given == -1):
            return right(x, fmt, **kwargs)
        return change(right, x, fmt, kwargs)

    return quantize_as(run)


def wrong_axis(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """Blocks along the last axis; the scales are given the shape that is expected."""
    codes, scales = right(x, fmt, **kwargs)
    if x.shape[-1] % BLOCKS[fmt].k:
        return np.zeros_like(codes), np.zeros_like(scales)
    other = right(x, fmt, **{**kwargs, "axis": -1})
    return other[0], other[1].reshape(scales.shape)


def tail_dropped(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    axis, k = kwargs.get("axis", -1), BLOCKS[fmt].k
    whole = x.shape[axis] // k * k
    return right(np.take(x, range(whole), axis=axis), fmt, **{**kwargs, "pad": False})


def tail_padded(fill: Callable[[Array, int], Array]) -> Wrap:
    """A ragged tail is filled with something else than zeros."""

    def run(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
        axis, k = kwargs.get("axis", -1), BLOCKS[fmt].k
        moved = np.moveaxis(x, axis, -1)
        missing = -moved.shape[-1] % k
        full = np.concatenate([moved, fill(moved, missing)], axis=-1) if missing else moved
        return right(np.moveaxis(full, -1, axis), fmt, **kwargs)

    return with_keyword("pad", run)


def tail_cleared(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """The last, partial block is there but was never written."""
    axis, k = kwargs.get("axis", -1), BLOCKS[fmt].k
    codes, scales = (np.array(np.moveaxis(a, axis, -1)) for a in right(x, fmt, **kwargs))
    if x.shape[axis] % k:
        codes[..., -k:], scales[..., -1:] = 0, 0
    return np.moveaxis(codes, -1, axis), np.moveaxis(scales, -1, axis)


def tail_scale_of_neighbour(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    axis = kwargs.get("axis", -1)
    codes, scales = right(x, fmt, **kwargs)
    moved = np.array(np.moveaxis(scales, axis, -1))
    if x.shape[axis] % BLOCKS[fmt].k and moved.shape[-1] > 1:
        moved[..., -1] = moved[..., -2]
    return codes, np.moveaxis(moved, -1, axis)


def tile_of_8(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """Tiles of 8 rows: every other group of 8 rows is put among zeros."""
    codes, scales = (np.array(a) for a in right(x, fmt, **kwargs))
    rows = x.shape[0]
    for parity in (0, 1):
        mine = np.arange(rows) // 8 % 2 == parity
        part = np.where(mine[:, None], x, np.zeros_like(x))
        c, s = right(part, fmt, **kwargs)
        full = np.resize(mine, codes.shape[0])
        full[rows:] = False
        codes[full], scales[full] = c[full], s[full]
    return codes, scales


def axis_reversed(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """Scales of an axis other than the last come out in reversed order."""
    codes, scales = right(x, fmt, **kwargs)
    return codes, np.flip(scales, axis=kwargs["axis"])


def transposed_order(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """The data are right, their order in memory is taken for that of the shape."""
    codes, scales = right(x, fmt, **kwargs)
    moved = np.ascontiguousarray(np.moveaxis(codes, kwargs["axis"], -1)).reshape(codes.shape)
    return moved, scales


# Rows of a call.


def only(keep: Callable[[Array, int], Array]) -> Wrap:
    """Blocks that are not kept stay zero: keep(index, count)."""

    def change(x: Array, codes: Array, scales: Array, k: int) -> None:
        lost = ~keep(np.arange(len(codes)), len(codes))
        codes[lost], scales[lost] = 0, 0

    return on_result(change)


def from_neighbour(codes_too: bool, source: Callable[[Array, int], Array]) -> Wrap:
    """Blocks take the scale, or the whole answer, of other blocks: source(index, count)."""

    def change(x: Array, codes: Array, scales: Array, k: int) -> None:
        place = source(np.arange(len(codes)), len(codes))
        scales[...] = scales[place]
        if codes_too:
            codes[...] = codes[place]

    return on_result(change)


def row_scale_shared(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """All blocks of a row are quantized with the row's first scale."""
    codes, scales = right(x, fmt, **kwargs)
    if set(kwargs) - {"tensor_scale"} or scales.shape[-1] < 2:
        return codes, scales
    return codes, np.broadcast_to(scales[..., :1], scales.shape)


def pair_maximum(c: Context, x: Array) -> Array:
    """Blocks of 64: two neighbours share the larger maximum."""
    amax = reference.find_amax(c, x)
    paired = amax[: len(amax) // 2 * 2].reshape(-1, 2)
    return np.concatenate([np.repeat(paired.max(axis=1), 2), amax[len(paired) * 2 :]])


def stateful(change: Callable[[dict[str, Any], Step, Array, str, dict[str, Any]], Pair]) -> Wrap:
    """A quantize that remembers something between calls: change(state, right, x, fmt, kwargs)."""
    return lambda right: quantize_as(partial(change, {}))(right)


def cached_by_shape(state: dict[str, Any], right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """The last answer is returned again while shape and sum of the input stay the same, whatever its order."""
    magnitudes = np.sort(np.nan_to_num(np.abs(x.astype(np.float64))), axis=None)
    key = (x.shape, str(x.dtype), fmt, repr(kwargs), float(magnitudes.sum()))
    if state.get("key") != key:
        state["key"], state["answer"] = key, right(x, fmt, **kwargs)
    return tuple(np.array(a) for a in state["answer"])


def buffers_reused(state: dict[str, Any], right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """Every call of a shape writes into, and returns, the same buffers."""
    answer = right(x, fmt, **kwargs)
    kept = state.setdefault(f"{x.shape} {fmt}", tuple(np.array(a) for a in answer))
    for buffer, part in zip(kept, answer, strict=True):
        if buffer.shape == part.shape:
            buffer[...] = part
    return kept if all(b.shape == p.shape for b, p in zip(kept, answer, strict=True)) else answer


def running_maximum(state: dict[str, Any], right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """The scale of the last block of one call is the first scale of the next."""
    codes, scales = right(x, fmt, **kwargs)
    if set(kwargs) - {"tensor_scale"}:
        return codes, scales
    first = state.get(fmt)
    state[fmt] = int(scales.reshape(-1)[-1])
    if first is None or scales.size < 2:
        return codes, scales
    scales = np.array(scales)
    scales.reshape(-1)[0] = first
    return codes, scales


def second_call(state: dict[str, Any], right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """Every second call of the same shape is wrong in its last block."""
    codes, scales = right(x, fmt, **kwargs)
    count = state[repr(x.shape)] = state.get(repr(x.shape), 0) + 1
    if count % 2 or set(kwargs) - {"tensor_scale"}:
        return codes, scales
    codes = np.array(codes)
    codes[-1] = 0
    return codes, scales


def stale_rows(state: dict[str, Any], right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """The last rows of a call whose count is 1 to 4 beyond a multiple of 8 hold what the buffer held before."""
    codes, scales = (np.array(a) for a in right(x, fmt, **kwargs))
    before = state.get(fmt)
    state[fmt] = (np.array(codes), np.array(scales))
    if set(kwargs) - {"tensor_scale"} or codes.ndim != 2 or len(codes) % 8 not in (1, 2, 3, 4) or before is None:
        return codes, scales
    if before[0].shape[1:] != codes.shape[1:]:
        return codes, scales
    n = len(codes) % 8
    codes[-n:], scales[-n:] = before[0][-1], before[1][-1]
    return codes, scales


def tensor_scale_kept(state: dict[str, Any], right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """The tensor scale of the first call is used for ever."""
    if kwargs.get("tensor_scale") is not None:
        kwargs["tensor_scale"] = state.setdefault("tensor_scale", kwargs["tensor_scale"])
    return right(x, fmt, **kwargs)


def tensor_scale_late(state: dict[str, Any], right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    """Delayed scaling: the tensor scale of the call before."""
    if (given := kwargs.get("tensor_scale")) is not None:
        kwargs["tensor_scale"], state["tensor_scale"] = state.get("tensor_scale", given), given
    return right(x, fmt, **kwargs)


@around
def writes_into_input(wrapped: Step, x: Any, fmt: str, **kwargs: Any) -> Pair:
    """The input is scaled in place."""
    answer = wrapped(x, fmt, **kwargs)
    with np.errstate(all="ignore"):
        x *= x.dtype.type(0.5)
    return answer


@around
def ignores_strides(wrapped: Step, x: Any, fmt: str, **kwargs: Any) -> Pair:
    """The input is read from its first element on as if it were contiguous."""
    if not x.flags.c_contiguous and x.base is not None and x.base.size >= x.size:
        x = x.base.reshape(-1)[: x.size].reshape(x.shape)
    return wrapped(x, fmt, **kwargs)


def dequantize_rows(limit: Callable[[int], int]) -> Wrap:
    """Of so many rows only those below a limit are written."""

    def dequantize(right: Step, codes: Any, scales: Any, fmt: str, **kwargs: Any) -> Any:
        values = np.array(right(codes, scales, fmt, **kwargs))
        values[limit(len(values)) :] = 0
        return values

    return around(dequantize)


@around
def first_scale_of_row(right: Step, codes: Any, scales: Any, fmt: str, **kwargs: Any) -> Any:
    """Dequantize uses a row's first scale for all its blocks."""
    return right(codes, np.broadcast_to(np.asarray(scales)[..., :1], np.shape(scales)), fmt, **kwargs)


def load_16(through: Any, dtype_of: str) -> Wrap:
    """Inputs of one 16-bit type pass through another type."""

    def run(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
        if str(x.dtype) == dtype_of:
            with np.errstate(all="ignore"):
                x = through(x)
        return right(x, fmt, **kwargs)

    return quantize_as(run)


def equal_maxima(c: Context, codes: Array, stored: Array, x: Array) -> Pair:
    """Where several lanes hold the maximum only the first of them is written."""
    codes, stored = reference.finish(c, codes, stored, x)
    top = np.abs(x) == np.abs(x).max(axis=1, keepdims=True)
    later = top & (np.cumsum(top, axis=1) > 1) & (x != 0)
    return np.where(later, 0, codes), stored


# Stochastic rounding.


def stochastic(change: Callable[[Array, Array], Array]) -> Step:
    """The words' part in the sum: change(fraction times 2^32 (floor), words) -> whether it goes up."""

    def step(c: Context, magnitude: Array, words: Array) -> Array:
        spacing = reference.spacing(c.element, magnitude)
        count = magnitude / spacing
        low = np.floor(count)
        return (low + change(np.floor((count - low) * 2.0**32), words)) * spacing

    return step


def reversed_bits(words: Array) -> Array:
    bits = words.astype(np.uint32)[..., None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
    return (bits.astype(np.float64) * 2.0 ** np.arange(31, -1, -1)).sum(axis=-1)


def stochastic_magnitude(change: Callable[[Context, Array, Array, Array], Array]) -> Step:
    """change(c, right result, magnitude, words)."""
    return lambda c, m, w: change(c, reference.round_stochastic(c, m, w), m, w)


FULL = 2.0**32
_B, _C, _K, _N = Family.BLOCKS, Family.CALLS, Family.CHANCE, Family.ENCODE
SR = ("e2m1", "e4m3", "e5m2")
_SR = ("encode_stochastic",)
_EN, _DE = ("encode",), ("decode",)
ELEMENTS = ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2")


NO_CONTEXT: Any = None


def e8m0(change: Callable[[Array, Array, str], Array]) -> Step:
    """e8m0 codes, changed: (magnitude, right codes, mode)."""
    return lambda c, m, mode, own: change(m, reference.encode_e8m0(c, m, mode, own), mode)


def swap_modes(a: str, b: str) -> Step:
    """Two rounding modes are taken for each other."""
    return lambda c, m, n, mode: reference.round_magnitude(c, m, n, b if mode == a else a if mode == b else mode)


def one_mode(mode: str, instead: str) -> Step:
    """One rounding mode does what another does."""
    return lambda c, m, n, asked: reference.round_magnitude(c, m, n, instead if asked == mode else asked)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(id="wrong-axis", source="P58", family=_B, formats=EVERY, what="axis 0 is asked for, the last one is quantized", wrap={"quantize": with_keyword("axis", wrong_axis)}),
    Mutant(id="tail-dropped", source="P59", family=_B, formats=EVERY, what="the partial last block is not emitted", wrap={"quantize": with_keyword("pad", tail_dropped)}),
    Mutant(id="tail-edge-repeated", source="P60", family=_B, formats=EVERY, what="the tail is padded with the last element", wrap={"quantize": tail_padded(lambda x, n: np.repeat(x[..., -1:], n, axis=-1))}),
    Mutant(id="sr-never-up", source="P61", family=_K, formats=SR, operations=_SR, what="random bits lie below the kept bits: never up", change={"round_stochastic": stochastic(lambda f, w: np.zeros(f.shape, bool))}),
    Mutant(id="sr-inverted", source="P62", family=_K, formats=SR, operations=_SR, what="up if 1 - frac exceeds the random number", change={"round_stochastic": stochastic(lambda f, w: (f > 0) & (FULL - f > w))}),
    Mutant(id="first-128-blocks", source="P67", family=_C, formats=EVERY, what="only the first 128 blocks of a call are written", wrap={"quantize": only(lambda i, n: i < 128)}),
    Mutant(id="blocks-of-64", source="S0", family=_B, formats=MX, what="two neighbouring blocks share a scale", change={"find_amax": pair_maximum}),
    Mutant(id="nv-blocks-of-32", source="own", family=_B, formats=("nvfp4",), what="two neighbouring blocks share a scale", change={"find_amax": pair_maximum}),
    Mutant(id="tail-padded-with-ones", source="own", family=_B, formats=("mxfp4", "mxfp8_e4m3", "nvfp4"), what="the tail is padded with ones", wrap={"quantize": tail_padded(lambda x, n: np.ones((*x.shape[:-1], n), x.dtype))}),
    Mutant(id="tail-padded-with-row", source="own", family=_B, formats=("mxfp4", "mxint8", "nvfp4"), what="the tail reads on into the row's beginning", wrap={"quantize": tail_padded(lambda x, n: np.resize(x[..., ::-1], (*x.shape[:-1], n)))}),
    Mutant(id="tail-not-written", source="own", family=_B, formats=("mxfp4", "mxfp6_e3m2", "nvfp4"), what="the partial last block stays zero", wrap={"quantize": with_keyword("pad", tail_cleared)}),
    Mutant(id="tail-scale-of-neighbour", source="own", family=_B, formats=("mxfp4", "mxfp8_e5m2", "nvfp4"), what="the partial last block gets the scale byte before it", wrap={"quantize": with_keyword("pad", tail_scale_of_neighbour)}),
    Mutant(id="tile-of-one-row", source="own", family=_B, formats=("nvfp4",), what="16 x 16 blocks are quantized row by row", wrap={"quantize": with_keyword("block", lambda right, x, fmt, kwargs: right(x, fmt, **{**kwargs, "block": None}))}),
    Mutant(id="tile-of-8-rows", source="own", family=_B, formats=("nvfp4",), what="16 x 16 blocks take the maximum of 8 rows", wrap={"quantize": with_keyword("block", tile_of_8)}),
    Mutant(id="axis-scales-reversed", source="own", family=_B, formats=("mxfp4", "mxint8", "nvfp4"), what="scales along another axis come out in reversed order", wrap={"quantize": with_keyword("axis", axis_reversed)}),
    Mutant(id="axis-codes-transposed", source="own", family=_B, formats=("mxfp4", "mxfp6_e2m3", "nvfp4"), what="codes along another axis keep the transposed order", wrap={"quantize": with_keyword("axis", transposed_order)}),
    Mutant(id="row-count-multiple-of-128", source="own", family=_C, formats=EVERY, what="blocks beyond the last multiple of 128 stay zero", wrap={"quantize": only(lambda i, n: i < (n // 128 * 128 if n > 128 else n))}),
    Mutant(id="beyond-4096-blocks", source="own", family=_C, formats=EVERY, what="blocks from 4096 on stay zero", wrap={"quantize": only(lambda i, n: i < 4096)}),
    Mutant(id="odd-last-block", source="own", family=_C, formats=EVERY, what="the last of an odd number of blocks stays zero", wrap={"quantize": only(lambda i, n: (i < n - 1) | (n % 2 == 0))}),
    Mutant(id="single-block", source="own", family=_C, formats=EVERY, what="a call of one block writes nothing", wrap={"quantize": only(lambda i, n: i < (n if n > 1 else 0))}),
    Mutant(id="every-32nd-block", source="own", family=_C, formats=EVERY, what="block 32, 64 ... of a call stay zero", wrap={"quantize": only(lambda i, n: (i % 32 != 0) | (i == 0))}),
    Mutant(id="block-127", source="own", family=_C, formats=EVERY, what="block 127 of a call is skipped", wrap={"quantize": only(lambda i, n: i != 127)}),
    Mutant(id="scale-of-next-block", source="own", family=_C, formats=EVERY, what="each block stores the next one's scale", wrap={"quantize": from_neighbour(False, lambda i, n: np.minimum(i + 1, n - 1))}),
    Mutant(id="worker-row", source="mirage-project/mirage#719", family=_C, formats=EVERY, what="a worker's number is taken for the block's: block i returns block i modulo 132", wrap={"quantize": from_neighbour(True, lambda i, n: i % 132)}),
    Mutant(id="last-tile-mirrored", source="own", family=_C, formats=EVERY, what="pairs of blocks are swapped in calls of exactly 16", wrap={"quantize": from_neighbour(True, lambda i, n: i ^ 1 if n == 16 else i)}),
    Mutant(id="scales-of-row-shared", source="own", family=_C, formats=EVERY, what="all blocks of a row store the row's first scale", wrap={"quantize": quantize_as(row_scale_shared)}),
    Mutant(id="cached-answer", source="own", family=_C, formats=EVERY, what="an answer is kept and returned again while shape and sum of magnitudes are the same", wrap={"quantize": stateful(cached_by_shape)}),
    Mutant(id="buffers-reused", source="own", family=_C, formats=EVERY, what="calls of one shape return the same buffers", wrap={"quantize": stateful(buffers_reused)}),
    Mutant(id="running-scale", source="own", family=_C, formats=EVERY, what="the first block gets the last scale of the call before", wrap={"quantize": stateful(running_maximum)}),
    Mutant(id="second-call", source="own", family=_C, formats=EVERY, what="every second call of a shape loses its last row", wrap={"quantize": stateful(second_call)}),
    Mutant(id="stale-tail-rows", source="vllm-project/vllm#57014", family=_C, formats=EVERY, what="with 1 to 4 rows beyond a multiple of 8 those hold old data", wrap={"quantize": stateful(stale_rows)}),
    Mutant(id="tensor-scale-kept", source="own", family=_C, formats=("nvfp4",), what="the first tensor scale is used for ever", wrap={"quantize": stateful(tensor_scale_kept)}),
    Mutant(id="tensor-scale-delayed", source="own", family=_C, formats=("nvfp4",), what="each call uses the tensor scale of the one before", wrap={"quantize": stateful(tensor_scale_late)}),
    Mutant(id="writes-into-input", source="own", family=_C, formats=EVERY, what="the input is scaled in place", wrap={"quantize": writes_into_input}),
    Mutant(id="ignores-strides", source="bitsandbytes-foundation/bitsandbytes#1342", family=_C, formats=EVERY, what="strided inputs are read in memory order", wrap={"quantize": ignores_strides}),
    Mutant(id="equal-maxima", source="own", family=_C, formats=MX, what="of several lanes that hold the maximum only the first is written", change={"finish": equal_maxima}),
    Mutant(id="bf16-through-fp16", source="own", family=_C, formats=EVERY, what="bfloat16 inputs pass through float16", wrap={"quantize": load_16(lambda x: x.astype(np.float16), "bfloat16")}),
    Mutant(id="fp16-subnormals-flushed", source="own", family=_C, formats=EVERY, what="subnormal float16 inputs count as zeros", wrap={"quantize": load_16(lambda x: np.where(np.abs(x) < np.float16(2.0**-14), np.copysign(np.float16(0), x), x), "float16")}),
    Mutant(id="fp16-through-bf16", source="own", family=_C, formats=EVERY, what="float16 inputs are cut to bfloat16", wrap={"quantize": load_16(lambda x: (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32), "float16")}),
    Mutant(id="dequantize-first-128", source="own", family=_C, formats=EVERY, operations=("dequantize",), what="only the first 128 rows are written", wrap={"dequantize": dequantize_rows(lambda n: 128)}),
    Mutant(id="dequantize-tail-rows", source="own", family=_C, formats=EVERY, operations=("dequantize",), what="rows beyond the last multiple of 128 stay zero", wrap={"dequantize": dequantize_rows(lambda n: n // 128 * 128)}),
    Mutant(id="dequantize-beyond-4096", source="own", family=_C, formats=EVERY, operations=("dequantize",), what="rows from 4096 on stay zero", wrap={"dequantize": dequantize_rows(lambda n: 4096)}),
    Mutant(id="dequantize-row-scale", source="own", family=_C, formats=EVERY, operations=("dequantize",), what="a row's first scale serves all its blocks", wrap={"dequantize": first_scale_of_row}),
    # Stochastic rounding.
    Mutant(id="sr-misaligned", source="uxlfoundation/oneDNN#2903", family=_K, formats=(*SR, "e2m3", "e3m2", "int8"), operations=_SR, what="random bits lie four places too low: up in one case of sixteen", change={"round_stochastic": stochastic(lambda f, w: f + np.floor(w / 16) >= FULL)}),
    Mutant(id="sr-exclusive", source="own", family=_K, formats=(*SR, "e2m3", "e3m2", "int8"), operations=_SR, what="a sum that just carries does not", change={"round_stochastic": stochastic(lambda f, w: f + w > FULL)}),
    Mutant(id="sr-inclusive-of-exact", source="own", family=_K, formats=SR, operations=_SR, what="exact values go up where all random bits are set", change={"round_stochastic": stochastic(lambda f, w: f + w >= FULL - 1)}),
    Mutant(id="sr-low-16-bits", source="own", family=_K, formats=SR, operations=_SR, what="only the lower 16 random bits are used", change={"round_stochastic": stochastic(lambda f, w: np.floor(f / 65536) + w % 65536 >= 65536)}),
    Mutant(id="sr-high-16-bits", source="own", family=_K, formats=SR, operations=_SR, what="only the upper 16 random bits are used", change={"round_stochastic": stochastic(lambda f, w: np.floor(f / 65536) + np.floor(w / 65536) >= 65536)}),
    Mutant(id="sr-reversed-bits", source="own", family=_K, formats=SR, operations=_SR, what="the random word's bits are reversed", change={"round_stochastic": stochastic(lambda f, w: f + reversed_bits(w) >= FULL)}),
    Mutant(id="sr-complement", source="own", family=_K, formats=SR, operations=_SR, what="up if frac exceeds the random number: the complement of the words", change={"round_stochastic": stochastic(lambda f, w: f + (FULL - 1 - w) >= FULL)}),
    Mutant(id="sr-nearest", source="ROCm/composable_kernel#1048", family=_K, formats=(*SR, "e2m3", "e3m2", "int8"), operations=_SR, what="the random words are ignored: nearest even", change={"round_stochastic": lambda c, m, w: reference.round_magnitude(c, m, np.zeros(m.shape, bool), "rne")}),
    Mutant(id="sr-always-up", source="own", family=_K, formats=(*SR, "e2m3", "e3m2", "int8"), operations=_SR, what="everything that is not exact goes up", change={"round_stochastic": stochastic(lambda f, w: f > 0)}),
    Mutant(id="sr-subnormals-cut", source="own", family=_K, formats=SR, operations=_SR, what="subnormals are cut", change={"round_stochastic": stochastic_magnitude(lambda c, r, m, w: np.where(m < float(c.element.min_normal), np.floor(m / float(c.element.min_subnormal)) * float(c.element.min_subnormal), r))}),
    Mutant(id="sr-subnormal-step", source="own", family=_K, formats=SR, operations=_SR, what="below the smallest normal the spacing shrinks on", change={"round_stochastic": lambda c, m, w: _sr_small_step(c, m, w)}),
    Mutant(id="sr-float32-fraction", source="own", family=_K, formats=SR, operations=_SR, what="the fraction is added to the random number in float32", change={"round_stochastic": lambda c, m, w: _sr_float32(c, m, w)}),
    Mutant(id="sr-no-saturation", source="ROCm/rocm-systems#8800", family=_K, formats=("e4m3",), operations=_SR, what="a step up beyond 448 gives NaN", change={"saturate": lambda c, r, m: np.minimum(r, 480)}),
    Mutant(id="sr-words-not-masked", source="own", family=_K, formats=SR, operations=_SR, what="of 8 random bits in a word the bits above are added too", change={"read_words": lambda c, w, bits: w.astype(np.float64) * 2.0 ** (32 - bits)}),
    Mutant(id="sr-pairs-share-word", source="own", family=_K, formats=SR, operations=_SR, what="neighbours share a random word", wrap={"encode_stochastic": around(lambda right, x, element, words: right(x, element, np.repeat(np.asarray(words)[::2], 2)[: np.size(words)]))}),
    Mutant(id="sr-by-value", source="own", family=_K, formats=SR, operations=_SR, what="negative numbers go up in value, not in magnitude", wrap={"encode_stochastic": around(lambda right, x, element, words: right(x, element, np.where(np.signbit(x), ~np.asarray(words), words)))}),
    # Single numbers.
    Mutant(id="encode-e8m0-zero-nan", source="jax-ml/ml_dtypes", family=_N, formats=("e8m0",), operations=_EN, what="0 becomes NaN", change={"encode_e8m0": e8m0(lambda m, right, _: np.where(m == 0, 255, right))}),
    Mutant(id="encode-e8m0-ties-up", source="jax-ml/ml_dtypes", family=_N, formats=("e8m0",), operations=_EN, what="ties go up", change={"encode_e8m0": lambda c, m, mode, own: reference.encode_e8m0(c, m, "rna" if mode == "rne" else mode, own)}),
    Mutant(id="encode-e8m0-overflow-nan", source="jax-ml/ml_dtypes", family=_N, formats=("e8m0",), operations=_EN, what="what rounds beyond 2^127 becomes NaN where it should saturate", change={"encode_e8m0": lambda c, m, mode, own: reference.encode_e8m0(c, m, mode, True)}),
    Mutant(id="encode-e8m0-cut", source="own", family=_N, formats=("e8m0",), operations=_EN, what="the exponent field is taken as it is", change={"encode_e8m0": lambda c, m, mode, own: reference.encode_e8m0(c, m, "rtz", own)}),
    Mutant(id="encode-e8m0-subnormals", source="openvinotoolkit/openvino#34165", family=_N, formats=("e8m0",), operations=_EN, what="float32 subnormals become 00 whatever their size", change={"encode_e8m0": e8m0(lambda m, right, _: np.where(m < 2.0**-126, 0, right))}),
    Mutant(id="encode-e8m0-up-of-exact", source="tile-ai/tilelang-metax#101", family=_N, formats=("e8m0",), operations=_EN, what="toward +infinity adds one to exact powers too", change={"encode_e8m0": e8m0(lambda m, right, mode: np.where((mode == "rtp") & (m > 0) & (right < 254), np.minimum(reference.encode_e8m0(NO_CONTEXT, m, "rtz") + 1, 254), right))}),
    Mutant(id="encode-own-saturates", source="stillwater-sc/universal#1302", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="overflow saturates where the format's own Inf or NaN is asked for", change={"overflows": lambda c, v, mode: np.isinf(v)}),
    Mutant(id="encode-own-inf-saturates", source="stillwater-sc/universal#1302", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="infinities saturate where the format's own Inf or NaN is asked for", change={"overflows": lambda c, v, mode: reference.overflows(c, v, mode) & ~np.isinf(v)}),
    Mutant(id="encode-own-before-rounding", source="stillwater-sc/universal#1351", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="overflow is decided before rounding", change={"overflows": lambda c, v, mode: np.abs(v) > reference.largest(c.element)}),
    Mutant(id="encode-own-toward-zero", source="own", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="rounding toward zero overflows too", change={"overflows": lambda c, v, mode: reference.overflows(c, v, "rna" if mode in ("rtz", "rtn", "rtp") else mode)}),
    Mutant(id="encode-directed-swapped", source="own", family=_N, formats=(*ELEMENTS, "ue4m3", "int8"), operations=_EN, what="toward -infinity and toward +infinity are swapped", change={"round_magnitude": swap_modes("rtn", "rtp")}),
    Mutant(id="encode-rtp-is-away", source="own", family=_N, formats=ELEMENTS, operations=_EN, what="toward +infinity is away from zero for negative numbers too", change={"round_magnitude": lambda c, m, n, mode: reference.round_magnitude(c, m, n & (mode != "rtp"), mode)}),
    Mutant(id="encode-rna-is-even", source="own", family=_N, formats=(*ELEMENTS, "ue4m3", "int8"), operations=_EN, what="ties away does ties to even", change={"round_magnitude": one_mode("rna", "rne")}),
    Mutant(id="encode-rnu-is-away", source="own", family=_N, formats=ELEMENTS, operations=_EN, what="ties up does ties away", change={"round_magnitude": one_mode("rnu", "rna")}),
    Mutant(id="encode-rnz-is-even", source="own", family=_N, formats=(*ELEMENTS, "ue4m3", "int8"), operations=_EN, what="ties toward zero does ties to even", change={"round_magnitude": one_mode("rnz", "rne")}),
    Mutant(id="encode-rtz-rounds", source="own", family=_N, formats=(*ELEMENTS, "ue4m3", "int8"), operations=_EN, what="toward zero rounds to nearest", change={"round_magnitude": one_mode("rtz", "rne")}),
    Mutant(id="encode-nan-zero", source="own", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="NaN becomes 0 for positive and the largest value for negative NaN", change={"code_nan": lambda c, k, x, s: np.where(np.isnan(s), np.where(np.signbit(x), 0, c.element.max_code), k)}),
    Mutant(id="encode-nan-is-zero", source="own", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="NaN becomes 0", change={"code_nan": lambda c, k, x, s: np.where(np.isnan(s), 0, k)}),
    Mutant(id="encode-nan-is-largest", source="mlx to_fp8", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="NaN becomes the largest value, sign kept", change={"code_nan": lambda c, k, x, s: np.where(np.isnan(s), c.element.max_code | np.signbit(x) * c.element.sign_bit, k)}),
    Mutant(id="encode-inf-zero", source="stillwater-sc/universal#1302", family=_N, formats=(*ELEMENTS, "ue4m3", "int8"), operations=_EN, what="Inf becomes 0", change={"round_magnitude": after(lambda c, r, m, n: np.where(m >= 2.0**300, 0, r))}),
    Mutant(id="encode-clamp-short", source="own", family=_N, formats=("e4m3", "e5m2"), operations=_EN, what="saturation at the value below the largest", change={"saturate": clamp({"e4m3": 416, "e5m2": 49152})}),
    Mutant(id="encode-ties-away", source="P01", family=_N, formats=(*ELEMENTS, "ue4m3", "int8"), operations=_EN, what="ties to even goes away from zero", change={"round_magnitude": one_mode("rne", "rna")}),
    Mutant(id="encode-int8-truncate", source="P64", family=_N, formats=("int8",), operations=_EN, what="the cast cuts, whatever the mode", change={"round_magnitude": always("rtz")}),
    Mutant(id="decode-ue4m3-signed", source="own", family=_N, formats=("ue4m3",), operations=_DE, what="the largest scale decodes as negative: a 7-bit sign", change={"decode_element": lambda c, k: np.where(k & 64, -1.0, 1.0) * reference.decode_element(c, k & 63)}),
    Mutant(id="decode-e8m0-ff-inf", source="llvm/llvm-project#214919", family=_N, formats=("e8m0",), operations=_DE, what="FF is infinity", change={"decode_e8m0": lambda c, k: np.ldexp(1.0, k.astype(np.int64) - 127 + 1000 * (k == 255))}),
    Mutant(id="decode-e8m0-00-zero", source="S0", family=_N, formats=("e8m0",), operations=_DE, what="00 is zero", change={"decode_e8m0": lambda c, k: np.where(k == 0, 0.0, reference.decode_e8m0(c, k))}),
    Mutant(id="decode-int8-positive-lowest", source="own", family=_N, formats=("int8",), operations=_DE, what="80 is +2", change={"decode_element": where(exactly(0x80), lambda c, k: 2.0)}),
    Mutant(id="decode-last-value", source="own", family=_N, formats=("e2m1", "e2m3", "e3m2"), operations=_DE, what="the last code decodes twice as large", change={"decode_element": where(lambda c, k: magnitudes(c.element.max_code)(c, k), lambda c, k: 2 * reference.decode_element(c, k))}),
)  # fmt: skip


def _sr_small_step(c: Context, magnitude: Array, words: Array) -> Array:
    shrunk = np.ldexp(1.0, np.maximum(reference.exponent_of(magnitude), reference.lowest(c.element) - 3) - c.element.mantissa_bits)
    count = magnitude / shrunk
    low = np.floor(count)
    rounded = (low + (np.floor((count - low) * FULL) + words >= FULL)) * shrunk
    return reference.round_magnitude(c, rounded, np.zeros(rounded.shape, bool), "rtz")


def _sr_float32(c: Context, magnitude: Array, words: Array) -> Array:
    spacing = reference.spacing(c.element, magnitude)
    count = magnitude / spacing
    low = np.floor(count)
    total = (count - low).astype(np.float32) + (words / FULL).astype(np.float32)
    return (low + (total >= 1)) * spacing
