"""Products of FP8 codes in groups of 128 columns, on Hopper's tensor cores (kernels/fp8.cu)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

from mxspec_gpu.api import check_values_output
from mxspec_gpu.arguments import check_apart
from mxspec_gpu.arrays import OnDevice, View, copy_contiguous, current_stream, empty_array, view_array, view_output
from mxspec_gpu.build import KernelSource, OldGpuError, find_arch, import_cupy
from mxspec_gpu.kernels import INPUTS
from mxspec_gpu.launch import POINTER, U32, U64, _load_driver, get_kernel
from mxspec_gpu.tiles import CHIP, MOST_SHARED, TileSource, count_multiprocessors, generate_wgmma

#: Columns of a group, which is a stage of the pipeline; rows and columns of a block of b's scales.
GROUP = 128
#: Dtypes of scales, and what the kernel calls them.
_SCALES = {"float32": "FLOAT32", "uint8": "E8M0"}
_TYPES = POINTER * 3 + U32 * 3 + U64 * 4 + U32 * 3


@dataclass(frozen=True, slots=True)
class GroupTuning:
    """How a tile of y is cut into work."""

    #: Warpgroups that multiply, each 64 rows of a.
    groups: int
    #: Rows of b, a part of 128 or all.
    columns: int
    #: Blocks of threads with tiles beside each other, which share what they read of a.
    cluster: int = 1
    #: 64 rows of each warpgroup.
    waves: int = 1

    @property
    def rows(self) -> int:
        """Rows of a."""
        return 64 * self.groups * self.waves

    @property
    def parts(self) -> int:
        """Of 64 rows of a warpgroup, whose sums registers hold beside all that are moved."""
        return 2 if self.columns // 2 * (self.waves + 2) <= 192 else 1

    @property
    def stage(self) -> int:
        """Bytes of one: codes of both, two barriers."""
        return (self.rows + self.columns) * GROUP + 16

    @property
    def scales(self) -> int:
        """Bytes of the scales of three times four groups, and their barriers."""
        return 3 * (4 * 4 * (self.rows + 2) + 16)

    @property
    def stages(self) -> int:
        """As many as shared memory holds, and no more than hide its latency."""
        return min((MOST_SHARED - 1024 - self.scales) // self.stage, 12)


#: The tiles, with the microseconds of a stage of each on an H200.
_TILES = {
    GroupTuning(2, 128, cluster=2, waves=2): 0.76, GroupTuning(2, 128, cluster=2): 0.394, GroupTuning(2, 64): 0.27, GroupTuning(1, 64): 0.197,
    GroupTuning(1, 32): 0.16,
}  # fmt: skip


def list_tunings() -> list[GroupTuning]:
    """All that `choose_tuning` chooses from."""
    return list(_TILES)


@lru_cache(maxsize=4096)
def choose_tuning(m: int, n: int, k: int, multiprocessors: int) -> GroupTuning:
    """The one with the shortest estimate of its way through the stages of all tiles."""
    groups = -(-k // GROUP)

    def estimate(tuning: GroupTuning) -> float:
        blocks = -(-m // tuning.rows) * -(-n // (tuning.columns * tuning.cluster)) * tuning.cluster
        return -(-blocks // (multiprocessors // tuning.cluster * tuning.cluster)) * (groups + 3) * _TILES[tuning]

    return min(_TILES, key=estimate)


def groups_kernel(scale: str, output: str, tuning: GroupTuning) -> KernelSource:
    """`multiply_groups`."""
    defines = {
        "MX_SCALE": scale, "MX_OUTPUT": INPUTS[output], "MX_GROUPS": tuning.groups, "MX_COLUMNS": tuning.columns,
        "MX_STAGES": tuning.stages, "MX_CLUSTER": tuning.cluster,
        "MX_WAVES": tuning.waves, "MX_PARTS": tuning.parts,
    }  # fmt: skip
    return TileSource(
        file="fp8.cu", function="multiply_groups", defines=tuple((name, str(value)) for name, value in defines.items()),
        generated=(("wgmma.generated.cuh", generate_wgmma(tuning.columns, codes=True)),),
        shared=tuning.stages * tuning.stage + tuning.scales,
    )  # fmt: skip


def list_group_templates() -> dict[str, KernelSource]:
    """One instantiation with each way of its own, by a short name: what the test command compiles."""
    return {
        "multiply_groups": groups_kernel("FLOAT32", "bfloat16", GroupTuning(2, 128, cluster=2)),
        "multiply_groups-tall": groups_kernel("E8M0", "bfloat16", GroupTuning(2, 128, cluster=2, waves=2)),
        "multiply_groups-narrow": groups_kernel("E8M0", "float32", GroupTuning(1, 32)),
    }


def list_group_kernels() -> list[KernelSource]:
    """All that calls use."""
    return [groups_kernel(*choice) for choice in product(("FLOAT32", "E8M0"), ("bfloat16", "float32"), _TILES)]


@lru_cache(maxsize=4096)
def encode_map(pointer: int, rows: int, k: int, box: int) -> Any:
    """The driver's description of codes [rows, k], of which `box` rows and 128 columns are copied at a time; zeros lie around them."""
    memory = ctypes.create_string_buffer(192)
    place = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
    status = _load_driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(place), 0, 2, ctypes.c_void_p(pointer), (ctypes.c_uint64 * 2)(k, rows), (ctypes.c_uint64 * 1)(k),
        (ctypes.c_uint32 * 2)(GROUP, box), (ctypes.c_uint32 * 2)(1, 1), 0, 3, 2, 0,  # swizzled by 128 bytes; L2 takes 128 bytes ahead
    )  # fmt: skip
    if status:
        raise import_cupy().cuda.driver.CUDADriverError(status)
    return memory, place


def _view_bytes(array: Any, name: str, dtype: str) -> View:
    """The view of an array, whose bytes may have a dtype of their own."""
    view = view_array(array, name)
    return replace(view, dtype="uint8") if view.dtype == dtype else view


def _take_codes(codes: Any, name: str) -> View:
    view = _view_bytes(codes, name, "float8_e4m3fn")
    if view.dtype != "uint8" or len(view.shape) != 2 or not view.shape[1] or view.shape[1] % 16:
        raise ValueError(
            f"{name} has dtype {view.dtype} and shape {view.shape}; pass codes of e4m3, uint8 or float8_e4m3fn [rows, K], K a multiple of 16"
        )
    return view if view.contiguous and view.pointer % 16 == 0 else replace(copy_contiguous(view), dtype="uint8")


def _take_scales(scales: Any, name: str, shape: tuple[int, int], device: int) -> View:
    view = _view_bytes(scales, name, "float8_e8m0fnu")
    if view.dtype not in _SCALES or view.shape != shape or view.device != device:
        raise ValueError(
            f"{name} has dtype {view.dtype} and shape {view.shape} on device {view.device}; pass float32, or uint8 of E8M0, {shape} on device {device}"
        )
    return view if all(0 <= stride < 1 << 31 for stride in view.strides) else replace(copy_contiguous(view), dtype=view.dtype)


def fp8_gemm(a: Any, a_scales: Any, b: Any, b_scales: Any, *, dtype: str = "bfloat16", out: Any = None) -> Any:
    """a b^T of e4m3 codes in groups of 128: rows of a in groups of 1 x 128, b in blocks of 128 x 128.

    a: [M, K], b: [N, K], uint8 or float8_e4m3fn, K a multiple of 16. a_scales: [M, ceil(K / 128)], row by row or column by column (the
        transpose of [ceil(K / 128), M], without a copy); b_scales: [ceil(N / 128), ceil(K / 128)]; both float32, or both bytes of E8M0.
    dtype: of the result, bfloat16 (the default) or float32.
    Returns [M, N] in a's library. The 128 products of a group are added by the tensor cores (groups of 32 on a grid of 13 bits below the
    largest exponent: `fused-f13-32` of mxspec.dot), which gives s; y = fma(s, float32(scale_a * scale_b), y) in float32, from the first
    group to the last, rounded once to the dtype: the same bits in every call, whatever other rows hold.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do; OldGpuError but on compute capability 9.0.
    """
    x, w = _take_codes(a, "a"), _take_codes(b, "b")
    (m, k), n, device = x.shape, w.shape[0], x.device
    if find_arch(device) != CHIP:
        raise OldGpuError("fp8_gemm needs wgmma, of compute capability 9.0; dequantize both and multiply them")
    if w.shape[1] != k or w.device != device or max(m, n, k) >= 1 << 31:
        raise ValueError(
            f"a has shape {x.shape} on device {device}, b {w.shape} on device {w.device}; pass a [M, K] and b [N, K] on one, less than 2**31 each"
        )
    if dtype not in ("bfloat16", "float32"):
        raise ValueError(f"dtype = {dtype!r}; allowed are 'bfloat16' and 'float32'")
    groups = -(-k // GROUP)
    sx, sw = _take_scales(a_scales, "a_scales", (m, groups), device), _take_scales(b_scales, "b_scales", (-(-n // GROUP), groups), device)
    if _SCALES[sx.dtype] != _SCALES[sw.dtype]:
        raise TypeError(f"a_scales have dtype {sx.dtype} and b_scales {sw.dtype}; pass both as float32, or both as bytes of E8M0")
    if out is None:
        out = empty_array((m, n), dtype, x.library, device)
    target = view_output(out)
    check_values_output(target, dtype, (m, n), device)
    check_apart([("out", *target.range)], [("a", *x.range), ("b", *w.range), ("a_scales", *sx.range), ("b_scales", *sw.range)])
    if m and n:
        multiply_groups(x, sx, w, sw, target)
    return out


def multiply_groups(a: View, a_scales: View, b: View, b_scales: View, target: View, *, tuning: GroupTuning | None = None) -> None:
    """The product into `target`, of contiguous codes at multiples of 16 bytes, none of them empty."""
    (m, k), n, device = a.shape, b.shape[0], a.device
    processors = count_multiprocessors(device)
    chosen = tuning or choose_tuning(m, n, k, processors)
    kernel = get_kernel(groups_kernel(_SCALES[a_scales.dtype], target.dtype, chosen), _TYPES, device)
    clusters = min(-(-m // chosen.rows) * -(-n // (chosen.columns * chosen.cluster)), processors // chosen.cluster)
    size, both = 4 if a_scales.dtype == "float32" else 1, (a_scales, b_scales)
    whole = int(-(-k // GROUP) % 4 == 0 and all(s.strides[1] == 1 and s.strides[0] % 4 == 0 and s.pointer % (4 * size) == 0 for s in both))
    aligned = int(n % 8 == 0 and target.pointer % 16 == 0)
    with OnDevice(device):
        # The copy engine takes longer for rows that are not there than for those that are.
        box = min(chosen.rows, -(-m // 8) * 8) if chosen.cluster == 1 else chosen.rows // 2
        maps = encode_map(a.pointer, m, k, box), encode_map(b.pointer, n, k, chosen.columns)
        _kept, places = kernel.pack(
            (
                a_scales.pointer,
                b_scales.pointer,
                target.pointer,
                m,
                n,
                k,
                *(size * stride for s in both for stride in s.strides),
                (box * chosen.cluster + chosen.columns) * GROUP,
                aligned,
                whole,
            )
        )
        pointers = (ctypes.c_void_p * (2 + len(places)))(*(place for _, place in maps), *places)
        kernel.driver.launchKernel(
            kernel.handle, clusters * chosen.cluster, 1, 1, 128 * (chosen.groups + 1), 1, 1, kernel.source.shared,
            current_stream(a.library, device), ctypes.addressof(pointers), 0,
        )  # fmt: skip
