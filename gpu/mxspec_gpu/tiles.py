"""Products of four-bit weights with many rows on Hopper: tiles of y by wgmma, the weights where they lie (kernels/tiles.cu)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

from mxspec.affine import AffineFormat
from mxspec.formats import BLOCKS, BlockFormat
from mxspec_gpu import products
from mxspec_gpu.api import check_packed, check_values_output
from mxspec_gpu.arguments import check_apart, check_format
from mxspec_gpu.arrays import OnDevice, View, current_stream, empty_array, view_array, view_output
from mxspec_gpu.build import KernelSource, find_arch, import_cupy
from mxspec_gpu.kernels import INPUTS
from mxspec_gpu.launch import POINTER, U32, Kernel, get_kernel
from mxspec_gpu.vectors import take_alpha, take_bias, take_rows

#: The chip that has wgmma, and its target.
CHIP, TARGET = "sm_90", "sm_90a"
#: Rows of x that tiles are for: more than so many, and by the rows of the weights, at most so many, up to so many. On an H200 fewer are faster as
#: vectors, and more by cuBLAS with dequantized weights.
_LEAST_ROWS = 16
_MOST_ROWS = ((1 << 11, 32), (1 << 22, 512))
#: Columns of a stage of the pipeline: K is a multiple of it.
COLUMNS = 128
#: Bytes of shared memory of a block of threads.
MOST_SHARED = 227 << 10
_MULTIPLY, _ORDER = POINTER * 6 + U32 * 4, POINTER * 2 + U32 * 3
_ORDER_THREADS = 64


@dataclass(frozen=True, slots=True)
class TileTuning:
    """How a tile of y is cut into work."""

    #: Rows of x: 32, 64 or 128.
    rows: int
    #: Warpgroups that multiply, each with `halves` times 64 rows of W.
    groups: int
    halves: int
    stages: int
    #: Groups of products that go on while the next are decoded.
    ahead: int
    #: Blocks of threads that share a tile, each with a range of columns: a cluster.
    splits: int = 1

    @property
    def weights(self) -> int:
        """Rows of W."""
        return 64 * self.groups * self.halves

    @property
    def threads(self) -> int:
        """Of a block: one warpgroup loads."""
        return 128 * (self.groups + 1)

    def count_shared(self, block: BlockFormat) -> int:
        """Bytes of shared memory: the stages with their two barriers, in the end the sums."""
        stage = self.rows * COLUMNS * 2 + self.weights * (COLUMNS // 2 + COLUMNS // block.k) + 16
        return max(self.stages * stage, self.rows * (self.weights + 4) * 4)


#: Of as many rows of x: tiles with 256 and with 128 rows of W. More stages than these, or more products ahead, were no faster on an H200.
_WIDE = {32: TileTuning(32, 4, 1, 7, 2), 64: TileTuning(64, 4, 1, 6, 2), 128: TileTuning(128, 2, 2, 4, 3)}
_NARROW = {32: TileTuning(32, 2, 1, 9, 2), 64: TileTuning(64, 2, 1, 8, 1), 128: TileTuning(128, 2, 1, 5, 1)}
#: A cluster of more blocks leaves multiprocessors without work: those of one group of the chip are no multiple of four.
_SPLITS = (1, 2)
#: Time of a narrow tile's stage, of a wide one's, as measured.
_NARROW_STAGE = 0.55


def list_tunings() -> list[TileTuning]:
    """All that `choose_tiles` chooses from."""
    return [replace(tuning, splits=splits) for tuning, splits in product([*_WIDE.values(), *_NARROW.values()], _SPLITS)]


@lru_cache(maxsize=4096)
def choose_tiles(rows: int, shape: tuple[int, int], multiprocessors: int) -> TileTuning:
    """The tuning with the shortest way through the stages of all tiles, for rows of x and weights [N, K]."""
    tile = next((r for r in _WIDE if rows <= r), 128)
    stages = -(-shape[1] // COLUMNS)

    def count(t: TileTuning) -> float:
        blocks = -(-rows // t.rows) * -(-shape[0] // t.weights) * t.splits
        turns = -(-blocks // (multiprocessors // t.splits * t.splits))
        return turns * (-(-stages // t.splits) + 4) * (1.0 if t.weights == 256 else _NARROW_STAGE)

    return min((t for t in list_tunings() if t.rows == tile), key=count)


def generate_wgmma(columns: int) -> str:
    """`multiply_tile`: 64 rows of A in registers, 16 columns, times as many rows of x; the instruction has an operand for each sum."""
    count = columns // 2
    sums, operands = ", ".join(f"%{i}" for i in range(count)), ", ".join(f'"+f"(d[{i}])' for i in range(count))
    a = ", ".join(f"%{count + i}" for i in range(4))
    return f"""#pragma once
namespace mx {{
__device__ __forceinline__ void multiply_tile(float (&d)[{count}], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {{
  asm volatile("{{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 "
               "{{{sums}}}, {{{a}}}, %{count + 4}, p, 1, 1, 0;}}"
               : {operands} : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}}
}}  // namespace mx
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSource(KernelSource):
    """A kernel with instructions of one architecture alone."""

    def options(self, arch: str) -> tuple[str, ...]:
        """NVRTC's options, for that architecture."""
        return (f"-arch={TARGET}", *KernelSource.options(self, arch)[1:])


def tiles_kernel(block: BlockFormat, output: str, tuning: TileTuning, function: str = "multiply_tiles") -> KernelSource:
    """`multiply_tiles`."""
    defines = {
        "MX_SCALE": block.scale.name.upper(), "MX_BLOCK": block.k, "MX_OUTPUT": INPUTS[output], "MX_TILE": tuning.rows,
        "MX_HALVES": tuning.halves, "MX_GROUPS": tuning.groups, "MX_STAGES": tuning.stages, "MX_SPLITS": tuning.splits,
        "MX_AHEAD": tuning.ahead,
    }  # fmt: skip
    return TileSource(
        file="tiles.cu", function=function, defines=tuple((name, str(value)) for name, value in defines.items()),
        generated=(("wgmma.generated.cuh", generate_wgmma(tuning.rows)),),
        shared=tuning.count_shared(block) if function == "multiply_tiles" else 0,
    )  # fmt: skip


def order_kernel(rows: int) -> KernelSource:
    """`order_rows` for tiles of so many rows of x, on which alone it depends."""
    return tiles_kernel(BLOCKS["mxfp4"], "bfloat16", _WIDE[rows], "order_rows")


def list_tile_kernels() -> list[KernelSource]:
    """All that calls use."""
    calls = product(("mxfp4", "nvfp4"), ("bfloat16", "float32"), list_tunings())
    return [*(order_kernel(rows) for rows in _WIDE), *(tiles_kernel(BLOCKS[fmt], output, tuning) for fmt, output, tuning in calls)]


def list_tile_templates() -> dict[str, KernelSource]:
    """One instantiation of each template, by a short name: what the test command compiles."""
    return {
        "multiply_tiles-mxfp4": tiles_kernel(BLOCKS["mxfp4"], "bfloat16", _WIDE[128]),
        "multiply_tiles-nvfp4": tiles_kernel(BLOCKS["nvfp4"], "float32", replace(_WIDE[64], splits=2)),
        "order_rows": order_kernel(64),
    }


def is_tiled(rows: int, codes: View, scales: View, block: BlockFormat) -> bool:
    """Whether rows of x are multiplied so by weights [N, K / 2] with row-major scales: on the chip, in whole stages, aligned."""
    n, k = codes.shape[0], codes.shape[-1] * 2
    most = next((most for least, most in _MOST_ROWS if n <= least), 0)
    return (
        block.element.name == "e2m1"
        and len(codes.shape) == 2
        and k % COLUMNS == 0
        and _LEAST_ROWS < rows <= most
        and codes.contiguous
        and codes.pointer % 16 == scales.pointer % 8 == 0
        and find_arch(codes.device) == CHIP
    )


def gemm(
    x: Any, codes: Any, scales: Any, fmt: str | BlockFormat | AffineFormat, *, offsets: Any = None, alpha: Any = 1.0,
    bias: Any = None, dtype: str | None = None, scale_layout: str = "row-major", out: Any = None,
) -> Any:  # fmt: skip
    """alpha x W^T + bias for quantized weights W and any number of rows of x.

    x: [K] or [M, K]; bfloat16, with affine weights the dtype of their scales. codes, scales: of W [N, K], packed: a block format
        with scales in `scale_layout`, or four-bit affine codes with their `offsets` (see `affine_gemv`).
    alpha: a number or a float32 array [1] on the GPU, such as the weights' decode scale. bias: [N] of the output's dtype.
    dtype: of the result, x's (the default) or float32.
    Returns [N] or [M, N] in x's library. A weight is its code times its scale rounded to x's dtype (exact for four-bit elements
    but beyond its largest number), or the affine value under `affine_gemv`'s contract; sums are float32. Up to 64 rows (fewer
    where the weights have 4096 rows or less) are multiplied by the weights where they lie; on compute capability 9.0 17 to 512 rows by
    `multiply_tiles`; more by cuBLAS after `dequantize`. A bias is added to float32 sums, and their sum is rounded once.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """

    def multiply_otherwise() -> Any:
        return products.gemm(
            x, codes, scales, fmt, offsets=offsets, alpha=alpha, bias=bias, dtype=dtype, scale_layout=scale_layout, out=out
        )  # fmt: skip

    if (
        offsets is not None
        or scale_layout != "row-major"
        or isinstance(fmt, AffineFormat)
        or (isinstance(fmt, str) and fmt.startswith("int"))
    ):
        return multiply_otherwise()
    block = check_format(fmt)
    weights, weight_scales = check_packed(codes, scales, block, scale_layout)
    view, lead = take_rows(x, "bfloat16")
    n, k, device, wanted = weights.shape[0], weights.shape[-1] * 2, weights.device, dtype or "bfloat16"
    fits = len(lead) == 1 and view.shape[-1] == k and view.device == device and wanted in ("bfloat16", "float32")
    if not (fits and is_tiled(lead[0], weights, weight_scales, block)):
        return multiply_otherwise()
    pointer, bits, _kept = take_alpha(alpha, device)
    added = take_bias(bias, wanted, n, device)
    if out is None:
        out = empty_array((*lead, n), wanted, view.library, device)
    target = view_output(out)
    check_values_output(target, wanted, (*lead, n), device)
    sources = [("x", view), ("codes", weights), ("scales", weight_scales), *([("bias", added)] if added else [])]
    check_apart([("out", *target.range)], [(name, *v.range) for name, v in sources])
    multiply_tiles(view, weights, weight_scales, block, target, alpha=(pointer, bits), bias=added.pointer if added else 0)
    return out


def multiply_tiles(
    x: View, codes: View, scales: View, block: BlockFormat, target: View, *, alpha: tuple[int, int], bias: int,
    tuning: TileTuning | None = None,
) -> None:  # fmt: skip
    """alpha x W^T + bias into `target`, for contiguous, aligned bfloat16 x [M, K] and weights that are so, too; K is a multiple of COLUMNS.

    alpha: the address of a float32, or 0 and its bits; bias: an address, or 0. The sums of 16 columns are the instruction's; those of a
    cluster's ranges of columns are added in order. Neither depends on other rows, nor on the call.
    """
    n, k = codes.shape[0], codes.shape[1] * 2
    m, device = x.size // k, x.device
    chosen = tuning or choose_tiles(m, (n, k), _count_multiprocessors(device))
    tiles, stages = -(-m // chosen.rows), k // COLUMNS
    ordered = empty_array((tiles * chosen.rows, k), "bfloat16", x.library, device)
    multiply = get_kernel(tiles_kernel(block, target.dtype, chosen), _MULTIPLY, device)
    order = get_kernel(order_kernel(chosen.rows), _ORDER, device)
    stream, place = current_stream(x.library, device), view_array(ordered, "ordered").pointer
    with OnDevice(device):
        threads = tiles * chosen.rows * stages * (COLUMNS // 32)
        order.launch((-(-threads // _ORDER_THREADS), 1), _ORDER_THREADS, stream, x.pointer, place, k, m, tiles)
        _launch_deep(
            multiply, (tiles, -(-n // chosen.weights), chosen.splits), chosen.threads, stream,
            codes.pointer, scales.pointer, place, target.pointer, alpha[0], bias, alpha[1], n, k, m,
        )  # fmt: skip


def _launch_deep(kernel: Kernel, grid: tuple[int, int, int], threads: int, stream: int, *parameters: int) -> None:
    """A launch with a third number of blocks, of which a cluster is made."""
    _kept, pointers = kernel.pack(parameters)
    kernel.driver.launchKernel(kernel.handle, *grid, threads, 1, 1, kernel.source.shared, stream, ctypes.addressof(pointers), 0)


@lru_cache(maxsize=16)
def _count_multiprocessors(device: int) -> int:
    count: int = import_cupy().cuda.runtime.getDeviceProperties(device)["multiProcessorCount"]
    return count
