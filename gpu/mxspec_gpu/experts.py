"""Tokens sorted by expert: every group of rows quantized by itself, its tiles of scales padded by themselves.

Grouped products of experts read, for each of them, whole 128x4 tiles of scales, so a group of 130 rows takes the tiles of 256.
`mxspec.layouts.pack_groups` says which bytes those are. One launch for each expert that has rows, of the kernels that `quantize`
has: what it costs beyond one call is the launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import gcd, lcm
from typing import Any

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_gpu.api import Quantized, dequantize, quantize
from mxspec_gpu.arguments import check_float_array, check_float_name, check_format, check_integer, check_layout
from mxspec_gpu.arrays import empty_array, view_array
from mxspec_gpu.plans import scale_shape


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
    #: Of each expert, of the profile's native kind; None for an expert without rows under "auto"; or None.
    tensor_scales: tuple[Any, ...] | None
    scale_layout: str

    def expert(self, number: int) -> Quantized:
        """One group, as `quantize` gives it; its arrays are views. Raises TypeError, and IndexError for one that is not there."""
        number = check_integer(number, "number", "the number of an expert")
        if not 0 <= number < len(self.rows):
            raise IndexError(f"expert {number} of {len(self.rows)}; the first is 0")
        first = sum(self.rows[:number])
        a, b = self.scale_starts[number : number + 2]
        shape = self.rows[number], int(self.codes.shape[1]) * 8 // self.format.element.bits
        tensor = None if self.tensor_scales is None else self.tensor_scales[number]
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
    counts = tuple(check_integer(count, f"rows[{number}]", "0 or more rows of an expert") for number, count in enumerate(rows))
    if any(count < 0 for count in counts) or sum(counts) != total:
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


def _check_tensor_scales(tensor_scales: Any, experts: int) -> None:
    if isinstance(tensor_scales, str):
        if tensor_scales != "auto":
            raise ValueError(f"tensor_scales = {tensor_scales!r}; allowed are None, 'auto', or one for each expert")
        return
    try:
        given = len(tensor_scales)
    except TypeError:
        kind = type(tensor_scales).__name__
        raise TypeError(f"tensor_scales is of type {kind} and holds no sequence; pass one for each of {experts} experts, or 'auto'") from None
    if given != experts:
        raise ValueError(f"{given} tensor scales were given for {experts} experts; pass one for each, or 'auto'")


def quantize_experts(
    x: Any, rows: Sequence[int], fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scales: Any = None,
    scale_layout: str = "128x4",
) -> QuantizedExperts:  # fmt: skip
    """Quantize rows that are sorted by expert, each expert's by itself.

    x: float32, float16 or bfloat16 [M, K] on the GPU, blocks along K. K is a multiple of what makes an expert's codes begin at
        16 bytes (32 for formats of four and eight bits, 64 for those of six), for row-major scales of 16 blocks.
    rows: how many rows each expert has, in order; they add up to M. An expert may have none.
    tensor_scales: None; "auto", each expert's own; or one for each expert: a sequence of TensorScale, or of float32 arrays [1] on
        the GPU, such as an array [experts].
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
    if tensor_scales is not None:
        _check_tensor_scales(tensor_scales, len(counts))
    sizes = [scale_shape(count, columns // block.k, scale_layout)[0] for count in counts]
    starts = tuple(accumulate(sizes, initial=0))
    codes = empty_array((view.shape[0], columns * block.element.bits // 8), "uint8", view.library, view.device)
    whole = (starts[-1],) if tiled else (starts[-1], columns // block.k)
    scales = empty_array(whole, "uint8", view.library, view.device)
    used: list[Any] = []
    done: Quantized | None = None
    for number, (first, last) in enumerate(pairwise(accumulate(counts, initial=0))):
        tensor = tensor_scales
        if tensor is not None and not isinstance(tensor, str):
            tensor = tensor[number : number + 1] if hasattr(tensor, "dtype") else tensor[number]
        if first == last:
            used.append(None if isinstance(tensor, str) else tensor)
            continue
        outputs = codes[first:last], scales[starts[number] : starts[number + 1]]
        done = quantize(x[first:last], block, profile=profile, tensor_scale=tensor, scale_layout=scale_layout, out=outputs)
        used.append(done.tensor_scale)
    if done is None:  # no expert has a row: the profile is checked all the same
        tensor = used[0] if used else None
        done = quantize(x[:0], block, profile=profile, tensor_scale=tensor, scale_layout=scale_layout)
    return QuantizedExperts(
        done.format, done.profile, counts, codes, scales, starts, None if tensor_scales is None else tuple(used), scale_layout
    )
