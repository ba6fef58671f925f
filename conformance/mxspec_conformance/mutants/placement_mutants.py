"""Mutants of paths that only some calls take: other axes, ragged ends, long rows, tiles, strided inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxspec.formats import BLOCKS
from mxspec_conformance.mutants.call_mutants import Pair, quantize_as, with_keyword
from mxspec_conformance.mutants.reference import Array
from mxspec_conformance.mutants.schema import Family, Mutant
from mxspec_conformance.mutants.staged import Step, Wrap, around

_B, _C = Family.BLOCKS, Family.CALLS
_SOME = ("mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxint8", "nvfp4")


def reads(keyword: str, change: Callable[[Array], Array]) -> Wrap:
    """Calls that pass a keyword read the input otherwise: change(a copy)."""
    return with_keyword(keyword, lambda right, x, fmt, kwargs: right(change(np.array(x)), fmt, **kwargs))


def without_tensor_scale(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
    return right(x, fmt, **{name: value for name, value in kwargs.items() if name != "tensor_scale"})


def cut_to_bfloat16(x: Array) -> Array:
    if x.dtype != np.float32:
        return x
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def nan_lost(x: Array) -> Array:
    return np.where(np.isnan(x), np.zeros_like(x), x)


def tiny_lost(x: Array) -> Array:
    """Subnormal float32 numbers, and what float16 and bfloat16 hold of them, count as zeros."""
    return np.where(np.abs(x.astype(np.float32)) < np.float32(2.0**-126), np.zeros_like(x), x)


def lane_lost(lane: int) -> Callable[[Array], Array]:
    """Every 16th row of an array along its first axis, from `lane` on, is not read."""

    def change(x: Array) -> Array:
        x[lane::16] = 0
        return x

    return change


def last_lost(x: Array) -> Array:
    x[..., -1:] = 0
    return x


def ragged(change: Callable[[Array], Array]) -> Wrap:
    """The partial last block along the last axis is read otherwise."""

    def run(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
        whole = x.shape[-1] // BLOCKS[fmt].k * BLOCKS[fmt].k
        if kwargs.get("axis", -1) != -1 or whole == x.shape[-1]:
            return right(x, fmt, **kwargs)
        return right(np.concatenate([x[..., :whole], change(np.array(x[..., whole:]))], axis=-1), fmt, **kwargs)

    return with_keyword("pad", run)


def long_rows(blocks: int, change: Callable[[Array], Array]) -> Wrap:
    """Rows of so many blocks or more are read otherwise."""

    def run(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
        is_long = x.ndim > 1 and x.shape[-1] >= blocks * BLOCKS[fmt].k
        return right(change(np.array(x)) if is_long else x, fmt, **kwargs)

    return quantize_as(run)


def beyond(blocks: int) -> Wrap:
    """Of a row only so many blocks are written."""

    def run(right: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Pair:
        codes, scales = (np.array(a) for a in right(x, fmt, **kwargs))
        if not set(kwargs) - {"tensor_scale"}:
            codes[..., blocks * BLOCKS[fmt].k :], scales[..., blocks:] = 0, 0
        return codes, scales

    return quantize_as(run)


def strided(change: Callable[[Array], Array]) -> Wrap:
    """Inputs that are not contiguous are read otherwise."""
    return around(lambda right, x, fmt, **kwargs: right(x if x.flags.c_contiguous else change(np.array(x)), fmt, **kwargs))


MUTANTS: tuple[Mutant, ...] = (
    Mutant(id="axis-tensor-scale-lost", source="own", family=_B, formats=("nvfp4",), what="along another axis the tensor scale is not applied", wrap={"quantize": with_keyword("axis", without_tensor_scale)}),
    Mutant(id="axis-in-bf16", source="own", family=_B, formats=_SOME, what="along another axis float32 is cut to bfloat16", wrap={"quantize": reads("axis", cut_to_bfloat16)}),
    Mutant(id="axis-nan-lost", source="own", family=_B, formats=_SOME, what="along another axis NaN counts as zero", wrap={"quantize": reads("axis", nan_lost)}),
    Mutant(id="axis-subnormals-lost", source="own", family=_B, formats=("mxfp4", "mxfp8_e4m3"), what="along another axis subnormal inputs count as zeros", wrap={"quantize": reads("axis", tiny_lost)}),
    Mutant(id="axis-lane-13-lost", source="own", family=_B, formats=_SOME, what="along another axis every 16th element is not read", wrap={"quantize": reads("axis", lane_lost(13))}),
    Mutant(id="end-in-bf16", source="own", family=_B, formats=_SOME, what="a partial last block is cut to bfloat16", wrap={"quantize": ragged(cut_to_bfloat16)}),
    Mutant(id="end-last-lost", source="own", family=_B, formats=_SOME, what="the last element of a partial block is not read", wrap={"quantize": ragged(last_lost)}),
    Mutant(id="end-nan-lost", source="own", family=_B, formats=_SOME, what="in a partial last block NaN counts as zero", wrap={"quantize": ragged(nan_lost)}),
    Mutant(id="end-tensor-scale-lost", source="own", family=_B, formats=("nvfp4",), what="with padding the tensor scale is not applied", wrap={"quantize": with_keyword("pad", without_tensor_scale)}),
    Mutant(id="row-beyond-128", source="own", family=_C, formats=_SOME, what="of a row only 128 blocks are written", wrap={"quantize": beyond(128)}),
    Mutant(id="row-beyond-256", source="own", family=_C, formats=_SOME, what="of a row only 256 blocks are written", wrap={"quantize": beyond(256)}),
    Mutant(id="row-nan-lost", source="own", family=_C, formats=_SOME, what="in rows of several blocks NaN counts as zero", wrap={"quantize": long_rows(2, nan_lost)}),
    Mutant(id="row-in-bf16", source="own", family=_C, formats=_SOME, what="rows of 64 blocks and more are cut to bfloat16", wrap={"quantize": long_rows(64, cut_to_bfloat16)}),
    Mutant(id="tile-row-5-lost", source="own", family=_B, formats=("nvfp4",), what="row 5 of each tile is not read", wrap={"quantize": reads("block", lane_lost(5))}),
    Mutant(id="tile-row-15-lost", source="own", family=_B, formats=("nvfp4",), what="row 15 of each tile is not read", wrap={"quantize": reads("block", lane_lost(15))}),
    Mutant(id="tile-nan-lost", source="own", family=_B, formats=("nvfp4",), what="in tiles NaN counts as zero", wrap={"quantize": reads("block", nan_lost)}),
    Mutant(id="tile-in-bf16", source="own", family=_B, formats=("nvfp4",), what="tiles are cut to bfloat16", wrap={"quantize": reads("block", cut_to_bfloat16)}),
    Mutant(id="strided-in-bf16", source="own", family=_C, formats=_SOME, what="inputs that are not contiguous are cut to bfloat16", wrap={"quantize": strided(cut_to_bfloat16)}),
    Mutant(id="strided-tiny-lost", source="own", family=_C, formats=("mxfp4", "mxfp8_e4m3"), what="in inputs that are not contiguous subnormal numbers count as zeros", wrap={"quantize": strided(tiny_lost)}),
)  # fmt: skip
