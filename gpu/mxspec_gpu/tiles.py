"""Products of four-bit weights with many rows on Hopper: tiles of y by wgmma, the weights where they lie (kernels/tiles.cu)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil
from typing import Any

from mxspec.affine import AffineFormat
from mxspec.formats import BLOCKS, BlockFormat
from mxspec_gpu import products
from mxspec_gpu.api import check_packed, check_values_output
from mxspec_gpu.arguments import check_apart, check_format
from mxspec_gpu.arrays import OnDevice, View, current_stream, empty_array, view_array, view_output
from mxspec_gpu.build import KernelSource, OldGpuError, find_arch, import_cupy
from mxspec_gpu.kernels import INPUTS
from mxspec_gpu.launch import POINTER, U32, get_kernel, launch_beside
from mxspec_gpu.vectors import take_alpha, take_bias, take_rows

#: The chip that has wgmma, and its target.
CHIP, TARGET = "sm_90", "sm_90a"
#: Rows of x that tiles are for: more than so many, and at most so many, up to which they are faster than as vectors and than cuBLAS with
#: dequantized weights where `estimate_apart` says so.
_LEAST_ROWS, _MOST_ROWS = 16, 2048
#: Columns of a stage of the pipeline: K is a multiple of half of it.
COLUMNS = 128
#: Bytes of shared memory of a block of threads.
MOST_SHARED = 227 << 10
_MULTIPLY, _ORDER = POINTER * 7 + U32 * 5, POINTER * 3 + U32 * 4
_ORDER_THREADS = 64


@dataclass(frozen=True, slots=True)
class TileTuning:
    """How a tile of y is cut into work."""

    #: Rows of x: 16 to 256.
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

    def count_shared(self) -> int:
        """Bytes of shared memory: the stages with their two barriers, in the end the sums."""
        stage = self.rows * COLUMNS * 2 + self.weights * (COLUMNS // 2 + 8) + 16
        return max(self.stages * stage, self.rows * (self.weights + 4) * 4)


#: The tiles, with the microseconds of a stage of each on an H200. More stages than these, or more products ahead, were no faster there.
_TILES = {
    TileTuning(16, 4, 1, 9, 2): 0.95, TileTuning(16, 2, 1, 8, 1): 0.53, TileTuning(32, 4, 1, 7, 2): 0.95, TileTuning(32, 2, 1, 9, 2): 0.55,
    TileTuning(64, 4, 1, 6, 2): 1.12, TileTuning(64, 2, 1, 8, 1): 0.61, TileTuning(128, 2, 2, 4, 3): 1.5, TileTuning(128, 2, 1, 5, 1): 0.79,
    TileTuning(256, 2, 1, 3, 2): 1.28,
}  # fmt: skip
#: A cluster of more blocks leaves multiprocessors without work: those of one group of the chip are no multiple of four.
_SPLITS = (1, 2)
#: The wide ones, by rows of x.
_NAMED = {t.rows: t for t in reversed(_TILES)}


def list_tunings(*, half: bool = False) -> list[TileTuning]:
    """All that `choose_tiles` chooses from; half: where the last stage is half of one, which leaves too few registers for one of them."""
    return [replace(t, splits=splits) for t, splits in product(_TILES, _SPLITS) if not (half and t.rows * t.groups == 256)]


#: What parts of the experts have how many times the mean number of rows, as routing goes: an estimate.
_SKEW = ((0.5, 0.3), (0.25, 1.0), (0.25, 2.4))


def estimate_tiles(tuning: TileTuning, rows: int, shape: tuple[int, int], multiprocessors: int, experts: int = 1) -> float:
    """Microseconds of the way through the stages of all tiles, for rows of x and weights [N, K]; of experts, whose rows differ in number."""
    stages, busy, splits = -(-shape[1] // COLUMNS), min(rows, experts), tuning.splits
    shares = _SKEW if experts > 1 else ((1.0, 1.0),)
    tiles = ceil(busy * sum(part * ceil(times * rows / (busy * tuning.rows)) for part, times in shares))
    blocks = tiles * -(-shape[0] // tuning.weights) * splits
    turns = -(-blocks // (multiprocessors // splits * splits))
    return turns * (-(-stages // splits) + 4) * _TILES[replace(tuning, splits=1)] + rows * shape[1] * 1.3e-6 + 1


def estimate_apart(rows: int, shape: tuple[int, int]) -> float:
    """Microseconds of `dequantize` and cuBLAS, by an H200's bandwidth and its rate of products."""
    size = shape[0] * shape[1]
    return size * 0.64e-6 + max(size * 0.5e-6, rows * size * 2.6e-9) + 3.75


@lru_cache(maxsize=4096)
def choose_tiles(rows: int, shape: tuple[int, int], multiprocessors: int, experts: int = 1) -> TileTuning:
    """The tuning that is estimated as the fastest, of those that take up to 128 rows at once."""
    least = 16 if experts > 1 else min(rows, 128)
    return min(
        (t for t in list_tunings(half=shape[1] % COLUMNS != 0) if t.rows >= least),
        key=lambda t: estimate_tiles(t, rows, shape, multiprocessors, experts),
    )


@lru_cache(maxsize=4096)
def _is_faster(rows: int, shape: tuple[int, int], multiprocessors: int) -> bool:
    """Whether tiles are, than apart."""
    return estimate_tiles(choose_tiles(rows, shape, multiprocessors), rows, shape, multiprocessors) <= estimate_apart(rows, shape)


def generate_wgmma(columns: int, *, codes: bool = False) -> str:
    """`multiply_tile`: 64 rows of A, times as many rows of B; the instruction has an operand for each sum.

    16 columns of bfloat16, A in registers; codes: 32 of e4m3, both in shared memory, added to the sums or (not `more`) in their place.
    """
    count = columns // 2
    sums, operands = ", ".join(f"%{i}" for i in range(count)), ", ".join(f'"+f"(d[{i}])' for i in range(count))
    if codes:
        given, kind, a, tail = "u64 a, u64 b, u32 more", "k32.f32.e4m3.e4m3", f"%{count}", ""
        inputs, b, more = '"l"(a), "l"(b), "r"(more)', f"%{count + 1}", f"%{count + 2}"
    else:
        words = ", ".join(f"%{count + i}" for i in range(4))
        given, kind, a, tail = "u32 a0, u32 a1, u32 a2, u32 a3, u64 b", "k16.f32.bf16.bf16", f"{{{words}}}", ", 0"
        inputs, b, more = '"r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b)', f"%{count + 4}", "1"
    return f"""#pragma once
namespace mx {{
__device__ __forceinline__ void multiply_tile(float (&d)[{count}], {given}) {{
  asm volatile("{{.reg .pred p; setp.ne.u32 p, {more}, 0; wgmma.mma_async.sync.aligned.m64n{columns}{kind} "
               "{{{sums}}}, {a}, {b}, p, 1, 1{tail};}}"
               : {operands} : {inputs});
}}
}}  // namespace mx
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSource(KernelSource):
    """A kernel with instructions of one architecture alone."""

    def options(self, arch: str) -> tuple[str, ...]:
        """NVRTC's options, for that architecture."""
        return (f"-arch={TARGET}", *KernelSource.options(self, arch)[1:])


def tiles_kernel(
    block: BlockFormat, output: str, tuning: TileTuning, function: str = "multiply_tiles", *, half: bool = False
) -> KernelSource:
    """`multiply_tiles`; half: the last stage is half of one."""
    defines = {
        "MX_SCALE": block.scale.name.upper(), "MX_BLOCK": block.k, "MX_OUTPUT": INPUTS[output], "MX_TILE": tuning.rows,
        "MX_HALVES": tuning.halves, "MX_GROUPS": tuning.groups, "MX_STAGES": tuning.stages, "MX_SPLITS": tuning.splits,
        "MX_AHEAD": tuning.ahead, "MX_HALF": int(half),
    }  # fmt: skip
    return TileSource(
        file="tiles.cu", function=function, defines=tuple((name, str(value)) for name, value in defines.items()),
        generated=(("wgmma.generated.cuh", generate_wgmma(tuning.rows)),),
        shared=tuning.count_shared() if function == "multiply_tiles" else 0,
    )  # fmt: skip


def order_kernel(rows: int) -> KernelSource:
    """`order_rows` for tiles of so many rows of x, on which alone it depends."""
    return tiles_kernel(BLOCKS["mxfp4"], "bfloat16", _NAMED[rows], "order_rows")


def list_tile_kernels() -> list[KernelSource]:
    """All that calls use."""
    tunings = [(tuning, half) for half in (False, True) for tuning in list_tunings(half=half)]
    calls = product(("mxfp4", "nvfp4"), ("bfloat16", "float32"), tunings)
    kernels = (tiles_kernel(BLOCKS[fmt], output, tuning, half=half) for fmt, output, (tuning, half) in calls)
    return [*map(order_kernel, _NAMED), *kernels]


def list_tile_templates() -> dict[str, KernelSource]:
    """One instantiation of each template, by a short name: what the test command compiles."""
    return {
        "multiply_tiles-mxfp4": tiles_kernel(BLOCKS["mxfp4"], "bfloat16", _NAMED[128]),
        "multiply_tiles-nvfp4": tiles_kernel(BLOCKS["nvfp4"], "float32", replace(_NAMED[64], splits=2)),
        "multiply_tiles-half": tiles_kernel(BLOCKS["mxfp4"], "bfloat16", _NAMED[256], half=True),
        "order_rows": order_kernel(64),
    }


def is_whole(k: int) -> bool:
    """Whether so many columns are whole or half stages."""
    return k > 0 and k % (COLUMNS // 2) == 0


def is_tiled(rows: int, codes: View, scales: View, block: BlockFormat) -> bool:
    """Whether rows of x are multiplied so by weights [N, K / 2] with row-major scales: on the chip, in whole or half stages, aligned."""
    n, k = codes.shape[0], codes.shape[-1] * 2
    return (
        block.element.name == "e2m1"
        and len(codes.shape) == 2
        and n > 0
        and is_whole(k)
        and _LEAST_ROWS < rows <= _MOST_ROWS
        and codes.contiguous
        and codes.pointer % 16 == scales.pointer % 8 == 0
        and find_arch(codes.device) == CHIP
        and _is_faster(rows, (n, k), count_multiprocessors(codes.device))
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
    where the weights have 4096 rows or less) are multiplied by the weights where they lie; on compute capability 9.0 17 to 2048 rows by
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


def grouped_gemm(
    x: Any, codes: Any, scales: Any, fmt: str | BlockFormat, offsets: Any, *, alpha: Any = 1.0, bias: Any = None, dtype: str | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """alpha[e] x W[e]^T + bias[e] for rows of x that are sorted by expert, each with quantized weights of its own.

    x: bfloat16 [M, K], K a multiple of 64. codes: uint8 [E, N, K / 2], scales: uint8 [E, N, K / k], row-major, as a checkpoint has them.
    offsets: int32 [E + 1] on the GPU: where the rows of each expert begin, and where the last ones end; they start with 0, never fall
        and end with M, which is not checked, for it would need a copy to the host. An expert may have no rows.
    alpha: a number, or float32 [E] on the GPU, such as the experts' decode scales. bias: [E, N] of the output's dtype.
    dtype: of the result, bfloat16 (the default) or float32.
    Returns [M, N] in x's library: what `gemm` promises, for each expert. All experts are one launch; nothing is copied from the GPU, so a graph
    may hold the call, and replays read `offsets` anew.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do; OldGpuError but on compute capability 9.0.
    """
    block = check_format(fmt)
    weights, weight_scales = view_array(codes, "codes"), view_array(scales, "scales")
    view, lead = take_rows(x, "bfloat16")
    if block.element.name != "e2m1":
        raise ValueError(f"grouped_gemm takes mxfp4 and nvfp4, not {block.name}; dequantize the weights and multiply them")
    if find_arch(weights.device) != CHIP:
        raise OldGpuError("grouped_gemm needs wgmma, of compute capability 9.0; call gemm for each expert")
    if len(weights.shape) != 3 or len(lead) != 1 or weights.shape[2] * 2 != view.shape[1] or not is_whole(view.shape[1]):
        raise ValueError(
            f"x has shape {(*lead, view.shape[-1])} and codes {weights.shape}; pass x [M, K] and codes [E, N, K / 2], K a "
            f"multiple of {COLUMNS // 2} above zero"
        )
    (experts, n, _), k = weights.shape, view.shape[1]
    starts, wanted = view_array(offsets, "offsets"), dtype or "bfloat16"
    for name, v, kind, shape in (
        ("codes", weights, "uint8", weights.shape), ("scales", weight_scales, "uint8", (experts, n, k // block.k)),
        ("offsets", starts, "int32", (experts + 1,)),
    ):  # fmt: skip
        aligned = v.pointer % (4 if kind == "int32" else 16) == 0
        if v.dtype != kind or v.shape != shape or not (v.contiguous and aligned) or v.device != view.device:
            raise ValueError(
                f"{name} has dtype {v.dtype} and shape {v.shape} on device {v.device}{'' if aligned else ', not at a multiple of 16 bytes'}; "
                f"pass contiguous {kind} {shape}, weights at a multiple of 16 bytes, on device {view.device}"
            )
    if wanted not in ("bfloat16", "float32"):
        raise ValueError(f"dtype = {wanted!r}; allowed are 'bfloat16' and 'float32'")
    pointer, bits, _kept = take_alpha(alpha, view.device, experts)
    added = take_bias(bias, wanted, n, view.device, experts)
    if out is None:
        out = empty_array((*lead, n), wanted, view.library, view.device)
    target = view_output(out)
    check_values_output(target, wanted, (*lead, n), view.device)
    sources = [("x", view), ("codes", weights), ("scales", weight_scales), ("offsets", starts), *([("bias", added)] if added else [])]
    check_apart([("out", *target.range)], [(name, *v.range) for name, v in sources])
    if view.size and n:
        biased = added.pointer if added else 0
        multiply_tiles(view, weights, weight_scales, block, target, alpha=(pointer, bits), bias=biased, offsets=starts)
    return out


def multiply_tiles(
    x: View, codes: View, scales: View, block: BlockFormat, target: View, *, alpha: tuple[int, int], bias: int, offsets: View | None = None,
    tuning: TileTuning | None = None,
) -> None:  # fmt: skip
    """alpha x W^T + bias into `target`, for contiguous, aligned bfloat16 x [M, K] and weights that are so, too; K is a multiple of half a
    stage. offsets: of experts, each with weights of its own.

    alpha: the address of a float32 for each expert, or 0 and the bits of one; bias: an address, or 0. The sums of 16 columns are the
    instruction's; those of a cluster's ranges of columns are added in order. Neither depends on other rows, nor on the call.
    """
    n, k = codes.shape[-2], codes.shape[-1] * 2
    m, device, experts = x.size // k, x.device, offsets.size - 1 if offsets else 1
    chosen = tuning or choose_tiles(m, (n, k), count_multiprocessors(device), experts)
    # Expert e has its tiles from offsets[e] // rows + e on.
    tiles, stages = m // chosen.rows + experts if offsets else -(-m // chosen.rows), -(-k // COLUMNS)
    ordered = empty_array((tiles * chosen.rows, stages * COLUMNS), "bfloat16", x.library, device)
    multiply = get_kernel(tiles_kernel(block, target.dtype, chosen, half=k % COLUMNS != 0), _MULTIPLY, device)
    order = get_kernel(order_kernel(chosen.rows), _ORDER, device)
    stream, place = current_stream(x.library, device), view_array(ordered, "ordered").pointer
    starts = offsets.pointer if offsets else 0
    with OnDevice(device):
        threads = tiles * chosen.rows * stages * (COLUMNS // 32)
        order.launch((-(-threads // _ORDER_THREADS), 1), _ORDER_THREADS, stream, x.pointer, place, starts, k, m, tiles, experts)
        launch_beside(
            multiply, (tiles, -(-n // chosen.weights), chosen.splits), chosen.threads, stream,
            codes.pointer, scales.pointer, place, target.pointer, alpha[0], bias, starts, alpha[1], n, k, m, experts,
        )  # fmt: skip


@lru_cache(maxsize=16)
def count_multiprocessors(device: int) -> int:
    """Of a device."""
    count: int = import_cupy().cuda.runtime.getDeviceProperties(device)["multiProcessorCount"]
    return count
