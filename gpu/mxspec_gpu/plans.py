"""Which launches quantize a view: what fits its shape, strides and address, worked out once for each kind of call.

Every kernel that quantizes along one axis takes (x, codes, scales, tensor scale, random words, seed, bits of the tensor scale)
first and what the plan fixes after that (`HEAD`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_gpu import kernels
from mxspec_gpu.arguments import check_layout, find_layout, find_scale_dtype
from mxspec_gpu.arrays import ITEM_BYTES, View
from mxspec_gpu.build import LIMITED, find_arch, import_cupy
from mxspec_gpu.launch import I64, POINTER, U32, U64, Kernel, get_kernel, make_division
from mxspec_gpu.rules import KernelRules, generate_rules
from mxspec_gpu.views import Matrix, count_tiles, find_extent, find_matrix, pad_column, split_launches, tiled_bytes

#: Blocks of one launch, so that a block's number fits in 31 bits.
MAX_BLOCKS = 1 << 30
#: Types of the parameters that change from call to call.
HEAD = POINTER * 5 + U64 + U32
_ROWS = HEAD + U32 * 5 + U64 + I64 + U64 + I64 * 2
_ANY = HEAD + I64 * 2 + U64 * 3
_COLUMNS = HEAD + I64 + U32 * 4
_SQUARE = HEAD + I64 + U64 * 2 + U32 * 3 + I64 * 2
#: Blocks of threads one under the other that a grid may have; those of `quantize_square` go on from there.
_MOST_DOWN = 65535
_BOTH = POINTER * 6 + I64 + U32 * 12 + I64 + U64 + U32
#: Fewer columns than this leave most of a warp idle in `quantize_columns`.
_LEAST_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A launch of a kernel that starts with `HEAD`."""

    kernel: Kernel
    grid: tuple[int, int]
    threads: int
    #: Parameters after the head.
    fixed: tuple[int, ...]
    #: Bytes from x, the codes and the scales to where this launch starts.
    offsets: tuple[int, int, int] = (0, 0, 0)

    def __call__(self, x: int, codes: int, scales: int, tensor: int, random: int, seed: int, bits: int, stream: int) -> None:
        a, b, c = self.offsets
        self.kernel.launch(self.grid, self.threads, stream, x + a, codes + b, scales + c, tensor, random, seed, bits, *self.fixed)


#: A launch with everything but (x, codes, scales, tensor scale, random words, seed, bits of the tensor scale, stream).
Launch = Callable[[int, int, int, int, int, int, int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How one kind of call is done."""

    launches: tuple[Launch, ...]
    codes_shape: tuple[int, ...]
    scales_shape: tuple[int, ...]
    logical: tuple[int, ...]
    rules: KernelRules
    #: Bytes from x's address to the first that is read, and to the one after the last.
    extent: tuple[int, int]


class NotAMatrixError(ValueError):
    """The leading axes have no one stride; a copy is needed."""


def most_blocks(k: int) -> int:
    """Blocks of one launch, so that also the number of a thread, which has 16 elements or more, fits in 31 bits."""
    return MAX_BLOCKS * kernels.WIDEST // max(k, kernels.WIDEST)


def scale_shape(rows: int, columns: int, scale_layout: str) -> tuple[int, ...]:
    """Shape of the scales of a matrix with this many rows and blocks in a row; column-major ones are [blocks, rows padded to fours]."""
    if scale_layout == "column-major":
        return columns, pad_column(rows)
    return (tiled_bytes(rows, columns),) if check_layout(scale_layout) else (rows, columns)


def scale_step(tiled: int, rows: int, per_row: int) -> int:
    """The parameter `tiles` of the kernels: tiles in a row of tiles, or scales from a column to the next."""
    return pad_column(rows) if tiled == 4 else count_tiles(per_row)


def _tiling(tiled: int, rows: int, per_row: int, warp_blocks: int, source: int) -> int:
    """Which way of writing tiles fits (see kernels/rows.cuh). Of rows that are not contiguous: one way."""
    if tiled != 1 or source:
        return int(tiled)
    if rows % 128 == 0 and per_row % warp_blocks == 0:
        return 3
    return 1 if per_row % 4 else 2


def find_source(matrix: Matrix, k: int, item: int, aligned: int) -> int:
    """How `quantize_rows` reads a matrix whose columns follow one another: 0 contiguous, 1 a pitch apart, 2 loosely."""
    if matrix.columns % k or aligned % 16:
        return 2
    if matrix.packed:
        return 0
    return 2 if matrix.row_stride * item % 16 else 1


def plan_rows(
    rules: KernelRules, matrix: Matrix, dtype: str, device: int, extent: tuple[int, int], *, source: int, tiled: int,
    stochastic: bool, signs: kernels.Signs | None = None, fused: bool = False,
) -> list[Launch]:  # fmt: skip
    """Rows whose elements follow one another, at most `most_blocks` of them if they are not contiguous and aligned.
    extent: as a Plan's; source: of `find_source`; fused: SiLU(gate) * up of a matrix of gates, each row's ups behind them."""
    fmt, item = rules.fmt, ITEM_BYTES[dtype]
    per_row = -(-matrix.columns // fmt.k)
    tiles = scale_step(tiled, matrix.rows, per_row)
    launches: list[Launch] = []
    for part in split_launches(matrix.rows, per_row, most_blocks(fmt.k), tiled=tiled, scale_bytes=fmt.scale.storage_bits // 8):
        tune = kernels.tune_rows(fmt.name, dtype, stochastic=stochastic)
        if signs is not None:
            tune = kernels.tune_transformed(tune, stochastic=stochastic)
        if tune.values > fmt.k and (per_row if source or tiled else part.blocks) % (tune.values // fmt.k):
            tune = replace(tune, values=fmt.k)
        warp_blocks = 32 * tune.values // fmt.k
        way = _tiling(tiled, part.rows, per_row, warp_blocks, source)
        if way == 3:
            tune = replace(tune, threads=128)
        kernel = get_kernel(
            kernels.rows_kernel(rules, dtype, source=source, tiled=way, stochastic=stochastic, tuning=tune, signs=signs, fused=fused),
            _ROWS,
            device,
        )
        division = make_division(per_row // warp_blocks if way == 3 else per_row)
        threads = part.blocks * fmt.k // tune.values
        grid = (-(-threads // (tune.threads * tune.turns)), 1)
        fixed = (
            threads, per_row, division.multiplier, division.shift, tiles, part.first_block, matrix.row_stride,
            matrix.columns, *extent,
        )  # fmt: skip
        start = part.first_block * fmt.k * item if source == 0 else 0
        offsets = (start, part.first_block * fmt.k * fmt.element.bits // 8, part.scale_offset)
        launches.append(KernelLaunch(kernel, grid, tune.threads, fixed, offsets))
    return launches


def plan_square(
    rules: KernelRules, matrix: Matrix, dtype: str, device: int, extent: tuple[int, int], *, aligned: int, tiled: int, stochastic: bool
) -> list[Launch]:
    """Blocks of k x k, of rows whose elements follow one another; a ragged end, below too, counts as zeros."""
    k = rules.fmt.k
    per_row, tile_rows = -(-matrix.columns // k), -(-matrix.rows // k)
    source = 2 if matrix.rows % k else max(find_source(matrix, k, ITEM_BYTES[dtype], aligned), 1)
    tune = kernels.SQUARE_TUNING
    kind = kernels.square_kernel(rules, dtype, source=source, tiled=tiled, wide=per_row % 4 == 0, stochastic=stochastic)
    grid = (-(-per_row // (kernels.SQUARE_ACROSS * (tune.threads // 32))), min(tile_rows, _MOST_DOWN))
    fixed = (matrix.row_stride, matrix.rows, matrix.columns, per_row, tile_rows, count_tiles(per_row), *extent)
    return [KernelLaunch(get_kernel(kind, _SQUARE, device), grid, tune.threads, fixed)]


def plan_any(rules: KernelRules, matrix: Matrix, dtype: str, device: int, *, tiled: int, random: int) -> list[Launch]:
    """Any matrix."""
    fmt = rules.fmt
    kernel = get_kernel(kernels.any_kernel(rules, dtype, tiled=tiled, random=random), _ANY, device)
    per_row = -(-matrix.columns // fmt.k)
    grid = (min(-(-matrix.rows * per_row // 128), 1 << 20), 1)
    fixed = (matrix.row_stride, matrix.column_stride, matrix.rows, matrix.columns, per_row)
    return [KernelLaunch(kernel, grid, 128, fixed)]


def plan_columns(
    rules: KernelRules, matrix: Matrix, dtype: str, device: int, *, aligned: int, tiled: int, stochastic: bool = False,
    signs: kernels.Signs | None = None,
) -> list[Launch]:  # fmt: skip
    """A matrix whose rows follow one another, element after element: the kernel sees it transposed."""
    k = rules.fmt.k
    rows, columns, pitch = matrix.columns, matrix.rows, matrix.column_stride
    loose = dtype == "float32" or bool(rows % 32 or columns % 2 or pitch % 2 or aligned % 4)
    find = kernels.tune_columns if signs is None else kernels.tune_transformed_columns
    tune = find(rules.fmt.name, dtype, loose=loose)
    source = kernels.columns_kernel(rules, dtype, tiled=tiled, loose=loose, stochastic=stochastic, tuning=tune, signs=signs)
    kernel = get_kernel(source, _COLUMNS, device)
    padded = -(-rows // k) * k
    grid = kernels.columns_grid(rows, columns, dtype, tune)
    return [KernelLaunch(kernel, (grid, 1), 32 * tune.warps, (pitch, rows, padded, columns, count_tiles(padded // k)))]


def fits_columns(matrix: Matrix, k: int) -> bool:
    """Whether `quantize_columns` does a matrix: its rows follow one another and there are enough of them."""
    rows, columns = matrix.columns, matrix.rows
    numbers = rows + 2 * k < 1 << 31 and columns < 1 << 31 and (rows // 128 + 1) * (columns // 32 + 4) < 1 << 31
    return matrix.row_stride == 1 and columns >= _LEAST_COLUMNS and k <= kernels.WIDEST and numbers


def zero_scales(size: int) -> Launch:
    """Padding of scales."""
    memset = import_cupy().cuda.runtime.memsetAsync

    def launch(x: int, codes: int, scales: int, tensor: int, random: int, seed: int, bits: int, stream: int) -> None:
        memset(scales, 0, size, stream)

    return launch


#: Plans by everything that they depend on; profiles that are no names go by their identity and are kept alive.
_plans: dict[tuple[object, ...], Plan] = {}
_kept_profiles: dict[int, Profile] = {}
_MOST_PLANS = 4096


def find_plan(view: View, fmt: str, profile: str | Profile | None, *rest: Any) -> Plan:
    """`make_plan`, remembered."""
    named = profile
    if isinstance(profile, Profile):
        named = str(id(_kept_profiles.setdefault(id(profile), profile)))
    key = (view.shape, view.strides, view.dtype, view.device, view.pointer & 15, fmt, named, *rest)
    plan = _plans.get(key)
    if plan is None:
        plan = make_plan(view.shape, view.strides, view.dtype, view.device, view.pointer & 15, fmt, profile, *rest)
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


def make_plan(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: int, aligned: int,
    fmt: str, profile: str | Profile | None, axis: int, two_level: bool, scale_layout: str, random: int, pad: bool,
    signs: kernels.Signs | None = None, square: bool = False,
) -> Plan:  # fmt: skip
    """The launches of a call. aligned: the address modulo 16; random as in `kernels.any_kernel`; signs: of the profile's
    transform, applied first; square: blocks of k x k, whose rows run along the last of the other axes.

    Raises ValueError for an axis of no whole blocks without `pad`, and NotAMatrixError.
    """
    rules = generate_rules(profile, fmt, two_level=two_level)
    block = rules.fmt
    length = shape[axis]
    padded = _pad(length, block, axis, allowed=pad)
    tiled = find_layout(scale_layout, block)
    logical = (*shape[:axis], *shape[axis + 1 :], length)
    outer = logical[:-1]
    if square:
        outer = (*outer[:-1], _pad(outer[-1], block, axis - 1 if axis else 1, allowed=pad and prod(outer[:-1]) == 1))
    rows = prod(outer)
    per_row = padded // block.k
    codes_shape = (*outer, padded * block.element.bits // 8)
    scales_shape = scale_shape(rows, per_row, scale_layout) if tiled else (*outer, per_row)
    low, high = find_extent(shape, strides)
    extent = low * ITEM_BYTES[dtype], high * ITEM_BYTES[dtype]
    launches: list[Launch] = []
    if rows * length:
        if (tiled == 1 and (rows % 128 or per_row % 4)) or (tiled == 4 and rows % 4):
            launches.append(zero_scales(prod(scales_shape) * ITEM_BYTES[find_scale_dtype(block)]))
        matrix = find_matrix(shape, strides, axis)
        if matrix is None:
            raise NotAMatrixError("the axes other than the blocks' have no one stride")
        counted = random == 3 and block.element.bits == 4
        along = matrix.column_stride == 1 or matrix.columns == 1
        # One launch takes rows that are not contiguous and aligned.
        source = find_source(matrix, block.k, ITEM_BYTES[dtype], aligned)
        fits = source == 0 or rows * per_row <= most_blocks(block.k)
        # What a limited chip has of the quantizing kernels is the plain one.
        fast = (random == 0 or counted) and find_arch(device) not in LIMITED
        if square:
            if not along:
                raise NotAMatrixError("16 x 16 blocks are read along rows that follow one another")
            launches += plan_square(rules, matrix, dtype, device, extent, aligned=aligned, tiled=tiled, stochastic=counted)
        elif along and fits and fast:
            launches += plan_rows(rules, matrix, dtype, device, extent, source=source, tiled=tiled, stochastic=counted, signs=signs)
        elif fast and fits_columns(matrix, block.k):
            launches += plan_columns(rules, matrix, dtype, device, aligned=aligned, tiled=tiled, stochastic=counted, signs=signs)
        elif signs is not None:
            raise NotAMatrixError("the plain kernel has no transform; a copy has rows that follow one another")
        else:
            launches += plan_any(rules, matrix, dtype, device, tiled=tiled, random=random)
    return Plan(tuple(launches), codes_shape, scales_shape, logical, rules, extent)


def _pad(length: int, block: BlockFormat, axis: int, *, allowed: bool) -> int:
    padded = -(-length // block.k) * block.k
    if padded != length and not allowed:
        raise ValueError(
            f"k = {length} is not a multiple of the {block.k}-element block of {block.name}; "
            f"pad axis {axis} to {padded} or pass pad=True (of 16 x 16 blocks it pads the rows of one matrix, not of several)"
        )
    return padded


def launch_both(
    rules: KernelRules, matrix: Matrix, dtype: str, device: int, *, aligned: int, tiled: bool, stochastic: bool,
    signs: kernels.Signs | None,
) -> Callable[[int, tuple[int, ...], int, int, int, int], None] | None:  # fmt: skip
    """The launch that quantizes a matrix [rows, columns] of 16-bit numbers, multiples of 32, along both axes, as a function of
    (x, (row codes, row scales, column codes, column scales), tensor scale, seed, its bits, stream). None where blocks are too many
    for one launch."""
    k, item = rules.fmt.k, ITEM_BYTES[dtype]
    rows, columns = matrix.rows, matrix.columns
    if rows * columns // k > MAX_BLOCKS:
        return None
    tune = (kernels.tune_both if signs is None else kernels.tune_transformed_both)(rules.fmt.name)
    source = find_source(matrix, k, item, aligned)
    source = 0 if source == 0 else 2
    per_row = columns // k
    way = _tiling(tiled, 1, per_row, 1, source)
    kind = kernels.both_kernel(rules, dtype, source=source, tiled=way, stochastic=stochastic, tuning=tune, signs=signs)
    kernel = get_kernel(kind, _BOTH, device)
    threads = 32 * tune.columns.warps
    panels, across = -(-rows // threads), -(-columns // kernels.TILE_COLUMNS)
    row_blocks = -(-(threads * columns // tune.rows.values) // (threads * tune.rows.turns))
    row_jobs = max(1, round(row_blocks / across))
    groups = max(across, -(-row_blocks // row_jobs))
    jobs = groups * (row_jobs + 1)
    if (panels + 1) * jobs >= 1 << 31:
        return None
    step, group, division = make_division(jobs), make_division(row_jobs + 1), make_division(per_row)
    fixed = (
        matrix.row_stride, rows, columns, count_tiles(rows // k), count_tiles(per_row), division.multiplier, division.shift,
        jobs, step.multiplier, step.shift, row_jobs, group.multiplier, group.shift,
        ((rows - 1) * matrix.row_stride + columns) * item,
    )  # fmt: skip

    def launch(x: int, outputs: tuple[int, ...], tensor: int, seed: int, bits: int, stream: int) -> None:
        row_codes, row_scales, column_codes, column_scales = outputs
        kernel.launch(
            ((panels + 1) * jobs, 1), threads, stream, x, row_codes, row_scales, tensor, column_codes, column_scales,
            *fixed, seed, bits,
        )  # fmt: skip

    return launch
