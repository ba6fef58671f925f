"""Tokens sorted by expert: every group of rows quantized by itself, its tiles of scales padded by themselves.

Grouped products of experts read, for each of them, whole 128x4 tiles of scales, so a group of 130 rows takes the tiles of 256.
`mxspec.layouts.pack_groups` says which bytes those are. All experts are one launch: a table on the GPU says where each begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import gcd, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec.tensorscale import TensorScale
from mxspec_gpu import kernels
from mxspec_gpu.api import Quantized, dequantize, stores_largest
from mxspec_gpu.arguments import check_float_array, check_float_name, check_format, check_integer, check_layout, check_profile
from mxspec_gpu.arrays import OnDevice, View, copy_contiguous, current_stream, empty_array, upload_array, view_array
from mxspec_gpu.build import import_cupy
from mxspec_gpu.launch import POINTER, U32, get_kernel, make_division
from mxspec_gpu.plans import MAX_BLOCKS
from mxspec_gpu.rules import KernelRules, generate_rules
from mxspec_gpu.views import TILE_BYTES, TILE_ROWS, count_tiles

_QUANTIZE = POINTER * 5 + U32 * 5
_AMAX = POINTER * 3 + U32 * 2


@dataclass(frozen=True, slots=True)
class QuantizedExperts:
    """Groups of rows on the GPU, one after the other, in the caller's library."""

    format: BlockFormat
    profile: Profile
    #: Rows of each expert.
    rows: tuple[int, ...]
    #: uint8 [sum of rows, K bits / 8]: packed codes; no rows lie between groups.
    codes: Any
    #: uint8: for "128x4" flat, each group's tiles padded to 128 rows; for "row-major" [sum of rows, K / k].
    scales: Any
    #: Where each group's scales begin, in bytes for "128x4" and in rows otherwise, and at last their end.
    scale_starts: tuple[int, ...]
    #: float32 [experts] on the GPU, of the profile's native kind, or None. Under "auto" an expert without rows has that of zeros.
    tensor_scales: Any
    scale_layout: str

    def expert(self, number: int) -> Quantized:
        """One group, as `quantize` gives it; its arrays are views. Raises TypeError, and IndexError for one that is not there."""
        number = check_integer(number, "number", "the number of an expert")
        if not 0 <= number < len(self.rows):
            raise IndexError(f"expert {number} of {len(self.rows)}; the first is 0")
        first = sum(self.rows[:number])
        a, b = self.scale_starts[number : number + 2]
        shape = self.rows[number], int(self.codes.shape[1]) * 8 // self.format.element.bits
        tensor = None if self.tensor_scales is None else self.tensor_scales[number : number + 1]
        return Quantized(
            self.format, self.profile, self.codes[first : first + self.rows[number]], self.scales[a:b], tensor, shape, self.scale_layout
        )

    def dequantize(self, dtype: str = "bfloat16") -> Any:
        """The values [sum of rows, K]. Raises ValueError for an unknown dtype."""
        check_float_name(dtype)
        codes = view_array(self.codes, "codes")
        out = empty_array((sum(self.rows), codes.shape[1] * 8 // self.format.element.bits), dtype, codes.library, codes.device)
        for number, (first, last) in enumerate(pairwise(accumulate(self.rows, initial=0))):
            if first < last:
                part = self.expert(number)
                dequantize(
                    part.codes, part.scales, self.format, profile=self.profile, tensor_scale=part.tensor_scale,
                    scale_layout=self.scale_layout, dtype=dtype, out=out[first:last],
                )  # fmt: skip
        return out


def _check_rows(rows: Sequence[int], total: int) -> tuple[int, ...]:
    if not hasattr(rows, "__iter__"):
        raise TypeError(f"rows is of type {type(rows).__name__}; pass how many rows each expert has, such as [{total}] for one")
    counts = tuple(
        count if type(count) is int else check_integer(count, f"rows[{number}]", "0 or more rows of an expert")
        for number, count in enumerate(rows)
    )
    if min(counts, default=0) < 0 or sum(counts) != total:
        raise ValueError(f"rows = {list(counts)} make {sum(counts)} rows; x has {total}; pass how many rows each expert has, none below 0")
    return counts


def _check_columns(columns: int, block: BlockFormat, tiled: bool) -> None:
    """That every group's codes, and row-major scales, begin at 16 bytes, as the kernels write them."""
    step = lcm(block.k, 128 // gcd(128, block.element.bits)) if tiled else 16 * block.k
    if columns % step:
        raise ValueError(
            f"x has {columns} columns, no multiple of {step}: an expert's {'codes' if tiled else 'scales'} would not begin at 16 bytes; "
            f"pad x to {-(-columns // step) * step} columns"
        )


def _take_arrays(given: Sequence[Any], x: View) -> Any:
    """One float32 array of many of one number each, in x's library."""
    views = [view_array(scale, f"tensor_scales[{number}]") for number, scale in enumerate(given)]
    for number, v in enumerate(views):
        if (v.dtype, v.size, v.device, v.library) != ("float32", 1, x.device, x.library):
            raise ValueError(
                f"tensor_scales[{number}] is a {v.library} array of {v.dtype} with shape {v.shape} on device {v.device}; pass one float32 of "
                f"{x.library}, as x is, on device {x.device}"
            )
    array = empty_array((len(views),), "float32", x.library, x.device)
    with OnDevice(x.device):
        for number, v in enumerate(views):
            array[number : number + 1] = v.owner.reshape(1)
    return array


def _take_tensor_scales(tensor_scales: Any, experts: int, x: View, rules: KernelRules) -> Any:
    """float32 [experts] on the GPU."""
    try:
        given = len(tensor_scales)
    except TypeError:
        kind = type(tensor_scales).__name__
        raise TypeError(
            f"tensor_scales is of type {kind} and holds no sequence; pass one for each of {experts} experts, or 'auto'"
        ) from None
    if given != experts:
        raise ValueError(f"{given} tensor scales were given for {experts} experts; pass one for each, or 'auto'")
    if hasattr(tensor_scales, "dtype"):
        view = view_array(tensor_scales, "tensor_scales")
        if view.dtype != "float32" or view.size != experts or view.device != x.device:
            raise ValueError(
                f"tensor_scales have dtype {view.dtype} and shape {view.shape} on device {view.device}; pass float32 [{experts}] on device "
                f"{x.device}"
            )
        return (view if view.contiguous else copy_contiguous(view)).owner.reshape(experts)
    if not all(isinstance(scale, TensorScale) for scale in tensor_scales):
        return _take_arrays(tensor_scales, x)
    for number, scale in enumerate(tensor_scales):
        if scale.kind is not rules.native:
            raise ValueError(
                f"tensor_scales[{number}] is of kind {scale.kind.value}, profile {rules.profile.id} takes "
                f"{rules.native.value if rules.native else 'none'}; pass that kind (mxspec.tensor_scale gives it), or 'auto'"
            )
    return upload_array(np.array([scale.bits for scale in tensor_scales], np.uint32).view(np.float32), x.library, x.device)


def plan_experts(
    rows: Sequence[int], columns: int, block: BlockFormat, scale_layout: str, tuning: kernels.RowsTuning
) -> npt.NDArray[np.int64]:
    """int64 [experts + 1, 3]: where each expert begins among the blocks of threads, the rows of x and the bytes of the scales, and
    at last the end of all."""
    counts, per_row = np.array(rows, np.int64), columns // block.k
    blocks = -(-counts * columns // (tuning.values * tuning.threads))
    tiles = -(-counts // TILE_ROWS) * (count_tiles(per_row) * TILE_BYTES)
    starts = np.zeros((len(counts) + 1, 3), np.int64)
    np.cumsum(np.stack([blocks, counts, tiles if scale_layout == "128x4" else counts * per_row], axis=-1), axis=0, out=starts[1:])
    return starts


def quantize_experts(
    x: Any, rows: Sequence[int], fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scales: Any = None,
    scale_layout: str = "128x4",
) -> QuantizedExperts:  # fmt: skip
    """Quantize rows that are sorted by expert, each expert's by itself.

    x: float32, float16 or bfloat16 [M, K] on the GPU, blocks along K. K is a multiple of what makes an expert's codes begin at
        16 bytes (32 for formats of four and eight bits, 64 for those of six), for row-major scales of 16 blocks.
    rows: how many rows each expert has, in order; they add up to M. An expert may have none. They are numbers of the host, of which
        a table is copied to the GPU.
    tensor_scales: None; "auto", each expert's own; or one for each expert: a sequence of TensorScale, or of float32 arrays [1] on
        the GPU, or one such array [experts].
    scale_layout: "128x4": each expert's scales in NVIDIA's tiles, padded to 128 rows and 4 columns with zeros; "row-major".

    Raises TypeError and ValueError that say what was given, what is allowed and what to do; GpuMissingError without CuPy or a GPU.
    """
    view, block, tiled = view_array(x), check_format(fmt), check_layout(scale_layout)
    check_float_array(view.dtype, "x")
    if len(view.shape) != 2:
        raise ValueError(f"x has shape {view.shape}; pass a matrix [rows, K] whose rows are sorted by expert")
    counts = _check_rows(rows, view.shape[0])
    columns = view.shape[1]
    _check_columns(columns, block, tiled)
    auto = isinstance(tensor_scales, str)
    if auto and tensor_scales != "auto":
        raise ValueError(f"tensor_scales = {tensor_scales!r}; allowed are None, 'auto', or one for each expert")
    per_row, experts = columns // block.k, len(counts)
    if max(counts, default=0) * per_row > MAX_BLOCKS:
        raise ValueError(f"an expert has {max(counts)} rows of {per_row} blocks; at most {MAX_BLOCKS} blocks are done at once; pass parts")
    rules = generate_rules(check_profile(profile), block.name, two_level=tensor_scales is not None)
    if auto:
        natives = empty_array((experts,), "float32", view.library, view.device)
    else:
        natives = None if tensor_scales is None else _take_tensor_scales(tensor_scales, experts, view, rules)
    if not view.contiguous or view.pointer % 16:
        view = copy_contiguous(view)
    tuning = kernels.tune_experts(block.name, view.dtype, per_row)
    starts = plan_experts(counts, columns, block, scale_layout, tuning)
    codes = empty_array((view.shape[0], columns * block.element.bits // 8), "uint8", view.library, view.device)
    size = int(starts[-1, 2])
    scales = empty_array((size,) if tiled else (view.shape[0], per_row), "uint8", view.library, view.device)
    if experts:
        outputs = view_array(codes, "codes").pointer, view_array(scales, "scales").pointer
        tensors = 0 if natives is None else view_array(natives, "tensor_scales").pointer
        _launch(view, rules, starts, outputs, tensors, tuning=tuning, tiled=tiled, auto=auto)
    begins = tuple(starts[:, 2 if tiled else 1].tolist())
    return QuantizedExperts(rules.fmt, rules.profile, counts, codes, scales, begins, natives, scale_layout)


def _launch(
    view: View, rules: KernelRules, starts: npt.NDArray[np.int64], outputs: tuple[int, int], tensors: int, *,
    tuning: kernels.RowsTuning, tiled: bool, auto: bool,
) -> None:  # fmt: skip
    device, dtype, experts = view.device, view.dtype, len(starts) - 1
    per_row = view.shape[1] // rules.fmt.k
    stream = current_stream(view.library, device)
    table = view_array(upload_array(starts, view.library, device), "table")
    grid, size = (int(starts[-1, 0]), 1), int(starts[-1, 2])
    ragged = per_row % 4 or (np.diff(starts[:, 1]) % TILE_ROWS).any()
    memset = import_cupy().cuda.runtime.memsetAsync
    with OnDevice(device):
        if tiled and size and ragged:
            memset(outputs[1], 0, size, stream)
        if auto:
            memset(tensors, 0, 4 * experts, stream)
            if grid[0]:
                source = kernels.experts_kernel(rules, dtype, "experts_amax", tiled=0, tuning=tuning)
                get_kernel(source, _AMAX, device).launch(
                    grid, tuning.threads, stream, view.pointer, table.pointer, tensors, experts, per_row
                )
            if not stores_largest(rules):
                source = kernels.experts_kernel(rules, dtype, "derive_natives", tiled=0, tuning=tuning)
                get_kernel(source, POINTER, device).launch((experts, 1), 1, stream, tensors)
        if grid[0]:
            way = 0 if not tiled else 1 if per_row % 4 else 2
            source = kernels.experts_kernel(rules, dtype, "quantize_experts", tiled=way, tuning=tuning)
            division = make_division(per_row)
            get_kernel(source, _QUANTIZE, device).launch(
                grid, tuning.threads, stream, view.pointer, *outputs, tensors, table.pointer, experts, per_row, division.multiplier,
                division.shift, count_tiles(per_row),
            )  # fmt: skip
