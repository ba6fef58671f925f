"""`quantize`, `dequantize` and what belongs to them, on the GPU.

Every call works on the caller's current stream and never waits for the GPU. With outputs given it allocates nothing, so
it can be captured in a CUDA graph (call once before: the first call of a kind compiles or loads its kernel).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from mxspec import reals
from mxspec.elements import default_nan_policy
from mxspec.expressions import TMAX
from mxspec.formats import BlockFormat, get_block, get_scalar
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec.tensorscale import TensorScale, check_tensor_scale
from mxspec_gpu import kernels
from mxspec_gpu.arrays import ITEM_BYTES, View, check_gpu, copy_contiguous, current_stream, empty_array, view_array
from mxspec_gpu.build import import_cupy
from mxspec_gpu.launch import I32, I64, POINTER, U32, U64, Kernel, make_division
from mxspec_gpu.rules import KernelRules, generate_rules

SCALE_LAYOUTS = ("row-major", "128x4")
FLOATS = ("float32", "float16", "bfloat16")
#: Blocks of one launch, so that a block's number fits in 31 bits.
MAX_BLOCKS = 1 << 30
_BYTE = np.dtype(np.uint8)
_ROUNDINGS = (Rounding.RNE, Rounding.RNA, Rounding.RNZ, Rounding.RNU, Rounding.RTZ, Rounding.RTN, Rounding.RTP)
_OVERFLOWS = (Overflow.SATURATE, Overflow.OWN, Overflow.SATURATE_FINITE)


@dataclass(slots=True)
class Quantized:
    """A quantized tensor on the GPU, in the caller's library."""

    format: BlockFormat
    profile: Profile
    #: uint8 [..., K bits / 8]: packed codes, little-endian, the first code in the lowest bits. Blocks lie along the last
    #: axis, which is padded to whole blocks; for `axis=0` that is the first axis of x, moved.
    codes: Any
    #: uint8 [..., K / k], or the flat bytes of 128x4 tiles.
    scales: Any
    #: float32 [1] of the profile's native kind, or None.
    tensor_scale: Any
    #: The shape of x with the blocks' axis last, before padding.
    shape: tuple[int, ...]
    scale_layout: str

    def dequantize(self, dtype: str = "bfloat16", out: Any = None) -> Any:
        """The values, blocks along the last axis, padding cut off."""
        values = dequantize(
            self.codes, self.scales, self.format, profile=self.profile, tensor_scale=self.tensor_scale,
            scale_layout=self.scale_layout, dtype=dtype, out=out,
        )  # fmt: skip
        return values[..., : self.shape[-1]]

    def unpack(self) -> Any:
        """uint8 [..., K]: one code a byte."""
        return unpack(self.codes, self.format)


def _fail_dtype(view: View, name: str) -> None:
    if view.dtype not in FLOATS:
        raise TypeError(f"{name} has dtype {view.dtype}; allowed are {', '.join(FLOATS)}; convert it first")


def _check_layout(scale_layout: str) -> bool:
    if scale_layout not in SCALE_LAYOUTS:
        raise ValueError(f"scale_layout = {scale_layout!r}; allowed are {', '.join(SCALE_LAYOUTS)}")
    return scale_layout == "128x4"


def scale_shape(rows: int, columns: int, scale_layout: str) -> tuple[int, ...]:
    """Shape of the scales of a matrix with this many rows and blocks in a row."""
    if _check_layout(scale_layout):
        return (-(-rows // 128) * 128 * (-(-columns // 4) * 4),)
    return (rows, columns)


@lru_cache(maxsize=512)
def _kernel(source: Any, types: str, device: int) -> Kernel:
    return Kernel(source, types, device)


class _OnDevice:
    """Makes a device current for the time of a launch, where it is not."""

    __slots__ = ("_before", "_device", "_runtime")

    def __init__(self, device: int) -> None:
        self._runtime = runtime = import_cupy().cuda.runtime
        self._device, self._before = device, runtime.getDevice()

    def __enter__(self) -> None:
        if self._before != self._device:
            self._runtime.setDevice(self._device)

    def __exit__(self, *_: object) -> None:
        if self._before != self._device:
            self._runtime.setDevice(self._before)


def launch_on(device: int, launches: Sequence[Callable[..., None]], *arguments: int) -> None:
    """Queue launches on a device, made current where it is not."""
    if import_cupy().cuda.runtime.getDevice() == device:
        for launch in launches:
            launch(*arguments)
        return
    with _OnDevice(device):
        for launch in launches:
            launch(*arguments)


# Quantize

#: Launches with everything but pointers: (x, codes, scales, tensor, random, seed, stream) -> None.
_Launch = Callable[[int, int, int, int, int, int, int], None]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one kind of call is done."""

    launches: tuple[_Launch, ...]
    codes_shape: tuple[int, ...]
    scales_shape: tuple[int, ...]
    logical: tuple[int, ...]
    rules: KernelRules


_ROWS = POINTER * 4 + U32 * 5 + U64 * 2
_ANY = POINTER + I64 * 2 + U64 * 3 + POINTER * 4 + U64
_COLUMNS = POINTER + U64 + U32 * 2 + POINTER * 3 + U32 + POINTER * 2 + U32


def _tiling(tiled: bool, rows: int, per_row: int, warp_blocks: int) -> int:
    """Which way of writing tiles fits (see kernels/quantize_rows.cu)."""
    if not tiled:
        return 0
    if rows % 128 == 0 and per_row % warp_blocks == 0:
        return 3
    return 1 if per_row % 4 else 2


def _plan_rows(
    rules: KernelRules, view: tuple[int, int, str, int], *, tiled: bool, stochastic: bool,
    tuning: kernels.RowsTuning | None = None,
) -> list[_Launch]:  # fmt: skip
    """Contiguous rows of whole blocks."""
    rows, columns, dtype, device = view
    fmt = rules.fmt
    tune = tuning or kernels.tune_rows(fmt.name, dtype, stochastic=stochastic)
    per_row = columns // fmt.k
    if tune.values > fmt.k and rows * per_row % (tune.values // fmt.k):
        tune = replace(tune, values=fmt.k)
    warp_blocks = 32 * tune.values // fmt.k
    way = _tiling(tiled, rows, per_row, warp_blocks)
    if way == 3:
        tune = replace(tune, threads=128)
    kernel = _kernel(kernels.rows_kernel(rules, dtype, tiled=way, stochastic=stochastic, tuning=tune), _ROWS, device)
    division = make_division(per_row // warp_blocks if way == 3 else per_row)
    tiles = -(-per_row // 4)
    code_bytes, item = fmt.k * fmt.element.bits // 8, ITEM_BYTES[dtype]
    step = max(1, MAX_BLOCKS // per_row // 128) * 128
    launches: list[_Launch] = []
    for first in range(0, rows, step):
        blocks = min(step, rows - first) * per_row
        threads = blocks * fmt.k // tune.values
        block = first * per_row
        grid = (-(-threads // (tune.threads * tune.turns)), 1)
        scale_offset = first // 128 * tiles * 512 if tiled else block

        def launch(
            x: int, codes: int, scales: int, tensor: int, random: int, seed: int, stream: int,
            *, grid: tuple[int, int] = grid, threads: int = threads, block: int = block, scale_offset: int = scale_offset,
        ) -> None:  # fmt: skip
            kernel.launch(
                grid, tune.threads, stream, x + block * fmt.k * item, codes + block * code_bytes, scales + scale_offset,
                tensor, threads, per_row, division.multiplier, division.shift, tiles, seed, block,
            )  # fmt: skip

        launches.append(launch)
    return launches


def _plan_any(
    rules: KernelRules,
    rows: int,
    columns: int,
    strides: tuple[int, int],
    dtype: str,
    device: int,
    *,
    tiled: bool,
    random: int,
) -> list[_Launch]:
    """Any matrix."""
    fmt = rules.fmt
    kernel = _kernel(kernels.any_kernel(rules, dtype, tiled=tiled, random=random), _ANY, device)
    per_row = -(-columns // fmt.k)
    grid = (min(-(-rows * per_row // 128), 1 << 20), 1)

    def launch(x: int, codes: int, scales: int, tensor: int, words: int, seed: int, stream: int) -> None:
        kernel.launch(
            grid, 128, stream, x, strides[0], strides[1], rows, columns, per_row, codes, scales, tensor, words, seed
        )

    return [launch]


def _plan_columns(
    rules: KernelRules, rows: int, columns: int, pitch: int, dtype: str, device: int, *, tiled: bool
) -> list[_Launch]:
    """The columns of a matrix [rows, columns] of 16-bit numbers."""
    tune = kernels.tune_columns(rules.fmt.name, both=False)
    kernel = _kernel(kernels.columns_kernel(rules, dtype, tiled=tiled, both=False, tuning=tune), _COLUMNS, device)
    grid, threads = (-(-columns // 64), -(-rows // (32 * tune.warps))), 32 * tune.warps
    tiles = -(-rows // rules.fmt.k // 4)

    def launch(x: int, codes: int, scales: int, tensor: int, random: int, seed: int, stream: int) -> None:
        kernel.launch(grid, threads, stream, x, pitch // 2, rows, columns, codes, scales, tensor, tiles, 0, 0, 0)

    return [launch]


def _zero_scales(size: int) -> _Launch:
    memset = import_cupy().cuda.runtime.memsetAsync

    def launch(x: int, codes: int, scales: int, tensor: int, random: int, seed: int, stream: int) -> None:
        memset(scales, 0, size, stream)

    return launch


def _fits_columns(shape: tuple[int, ...], strides: tuple[int, ...], aligned: int, dtype: str, fmt: BlockFormat) -> bool:
    return (
        len(shape) == 2 and dtype != "float32" and strides[1] == 1 and strides[0] % 2 == 0 and aligned % 4 == 0
        and shape[0] % 32 == 0 and shape[1] % 2 == 0 and -(-shape[0] // 64) < 1 << 16 and strides[0] >= shape[1]
        and shape[0] < 1 << 31 and shape[1] < 1 << 31
    )  # fmt: skip


#: Plans by everything that they depend on; profiles that are no names go by their identity and are kept alive.
_plans: dict[tuple[object, ...], _Plan] = {}
_kept_profiles: dict[int, Profile] = {}
_MOST_PLANS = 4096


def _find_plan(view: View, fmt: str, profile: str | Profile | None, *rest: Any) -> _Plan:
    named = profile
    if isinstance(profile, Profile):
        named = str(id(_kept_profiles.setdefault(id(profile), profile)))
    key = (view.shape, view.strides, view.dtype, view.device, view.pointer & 15, fmt, named, *rest)
    plan = _plans.get(key)
    if plan is None:
        plan = _make_plan(view.shape, view.strides, view.dtype, view.device, view.pointer & 15, fmt, profile, *rest)
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


def _make_plan(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: int, aligned: int,
    fmt: str, profile: str | Profile | None, axis: int, two_level: bool, scale_layout: str, random: int, pad: bool,
) -> _Plan:  # fmt: skip
    """The launches of a call. aligned: the address modulo 16; random as in `kernels.any_kernel`."""
    rules = generate_rules(profile, fmt, two_level=two_level)
    block = rules.fmt
    if not shape:
        raise ValueError("x has no axis to cut into blocks; pass at least one dimension")
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"axis = {axis} is out of range for {len(shape)} dimensions; allowed are {-len(shape)} to {len(shape) - 1}"
        )
    axis %= len(shape)
    length = shape[axis]
    padded = -(-length // block.k) * block.k
    if padded != length and not pad:
        raise ValueError(
            f"k = {length} is not a multiple of the {block.k}-element block of {block.name}; "
            f"pad axis {axis} to {padded} or pass pad=True"
        )
    tiled = _check_layout(scale_layout)
    logical = (*shape[:axis], *shape[axis + 1 :], length)
    moved = (*strides[:axis], *strides[axis + 1 :], strides[axis])
    rows = 1
    for n in logical[:-1]:
        rows *= n
    per_row = padded // block.k
    codes_shape = (*logical[:-1], padded * block.element.bits // 8)
    scales_shape = scale_shape(rows, per_row, scale_layout) if tiled else (*logical[:-1], per_row)
    launches: list[_Launch] = []
    if rows * length:
        if tiled and (rows % 128 or per_row % 4):
            launches.append(_zero_scales(scales_shape[0]))
        row_stride = _row_stride(logical[:-1], moved[:-1])
        contiguous = moved[-1] == 1 and padded == length and row_stride in (length, None) and aligned == 0
        if rows == 1:
            contiguous = moved[-1] == 1 and padded == length and aligned == 0
            row_stride = 0
        counted = random == 3 and block.element.bits == 4
        if contiguous and (random == 0 or counted):
            launches += _plan_rows(rules, (rows, length, dtype, device), tiled=tiled, stochastic=counted)
        elif axis == 0 and random == 0 and _fits_columns(shape, strides, aligned, dtype, block):
            launches += _plan_columns(rules, shape[0], shape[1], strides[0], dtype, device, tiled=tiled)
        elif row_stride is None:
            raise _NotAMatrixError
        else:
            launches += _plan_any(
                rules, rows, length, (row_stride, moved[-1]), dtype, device, tiled=tiled, random=random
            )
    return _Plan(tuple(launches), codes_shape, scales_shape, logical, rules)


class _NotAMatrixError(Exception):
    """The leading axes have no one stride; a copy is needed."""


def _row_stride(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """The one stride of all leading axes taken together, or None."""
    kept = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if not kept:
        return 0
    for (_, outer), (n, inner) in pairwise(kept):
        if outer != n * inner:
            return None
    return kept[-1][1]


def _tensor_pointer(x: View, tensor_scale: Any, rules_of: Callable[[bool], KernelRules]) -> tuple[bool, Any, int]:
    """Whether there is a tensor scale, the array that holds it, and its address."""
    if tensor_scale is None:
        return False, None, 0
    if isinstance(tensor_scale, str):
        if tensor_scale != "auto":
            raise ValueError(
                f"tensor_scale = {tensor_scale!r}; allowed are None, 'auto', a TensorScale or a float32 array [1]"
            )
        array = _find_tensor_scale(x, rules_of(True), None)
    elif isinstance(tensor_scale, TensorScale):
        scale = check_tensor_scale(tensor_scale, rules_of(True).profile, convert=False)
        cupy = import_cupy()
        array = cupy.full(1, scale.bits, cupy.uint32).view(cupy.float32)
        if x.library == "torch":
            import torch

            array = torch.from_dlpack(array)
    else:
        array = tensor_scale
    view = view_array(array, "tensor_scale")
    if view.dtype != "float32" or view.size != 1 or view.device != x.device:
        raise ValueError(
            f"tensor_scale has dtype {view.dtype} and shape {view.shape} on device {view.device}; pass one float32 on "
            f"device {x.device} (of the kind that the profile stores), a TensorScale, or 'auto'"
        )
    return True, array, view.pointer


def quantize(
    x: Any,
    fmt: str | BlockFormat,
    *,
    profile: str | Profile | None = None,
    axis: int = -1,
    tensor_scale: Any = None,
    scale_layout: str = "row-major",
    pad: bool = False,
    random_bits: Any = None,
    sr_bits: int = 32,
    seed: int | None = None,
    out: tuple[Any, Any] | None = None,
) -> Quantized:
    """Quantize along one axis, as `mxspec.quantize` does, into packed codes.

    x: float32, float16 or bfloat16 on the GPU (CuPy, torch, DLPack), any strides.
    profile: a name or Profile that the kernels have; by default `mx-floor`, for nvfp4 `nvfp4-te`.
    axis: where blocks lie. The result has that axis last: `axis=0` of a matrix gives the transposed one's codes.
    tensor_scale: None, "auto" (a pass over x finds it), a float32 array [1] on the GPU of the profile's native kind, or
        a `mxspec.TensorScale` of that kind.
    scale_layout: "row-major", or "128x4": NVIDIA's tiles, flat, padding zero.
    pad: fill a ragged tail with zeros; otherwise it raises.
    random_bits: uint32 words, x's shape: elements round stochastically by the integer rule with the low `sr_bits`.
    seed: stochastic rounding with random bytes made in the kernel (see kernels/philox.cuh).
    out: (codes, scales), uint8, contiguous, of the shapes that the result has.

    Raises TypeError and ValueError that say what was given, what is allowed and what to do; GpuMissingError without CuPy
    or a GPU.
    """
    view = view_array(x)
    name = fmt if isinstance(fmt, str) else fmt.name
    _fail_dtype(view, "x")
    two_level, tensor, tensor_pointer = False, None, 0
    if tensor_scale is not None:
        two_level, tensor, tensor_pointer = _tensor_pointer(
            view, tensor_scale, lambda two: generate_rules(profile, name, two_level=two)
        )
    random, words, word_view = 0, 0, None
    if random_bits is not None:
        if seed is not None:
            raise ValueError("both random_bits and seed were given; pass one")
        if sr_bits not in (8, 32):
            raise ValueError(f"sr_bits = {sr_bits}; allowed are 32 and 8")
        word_view = view_array(random_bits, "random_bits")
        if word_view.dtype not in ("uint32", "int32") or word_view.shape != view.shape:
            raise ValueError(
                f"random_bits has dtype {word_view.dtype} and shape {word_view.shape}; pass uint32 words of shape {view.shape}"
            )
        if axis % len(view.shape) != len(view.shape) - 1:
            raise ValueError("random_bits need blocks along the last axis; pass x and random_bits transposed")
        word_view = word_view if word_view.contiguous else copy_contiguous(word_view)
        random, words = (1 if sr_bits == 32 else 2), word_view.pointer
    elif seed is not None:
        random = 3
    try:
        plan = _find_plan(view, name, profile, axis, two_level, scale_layout, random, pad)
    except _NotAMatrixError:
        view = _collapse(view, axis)
        plan = _find_plan(view, name, profile, -1, two_level, scale_layout, random, pad)
    if out is None:
        codes = empty_array(plan.codes_shape, "uint8", view.library, view.device)
        scales = empty_array(plan.scales_shape, "uint8", view.library, view.device)
    else:
        codes, scales = out
    code_pointer = _output_pointer(codes, plan.codes_shape, "codes", view.device)
    scale_pointer = _output_pointer(scales, plan.scales_shape, "scales", view.device)
    stream = current_stream(view.library, view.device)
    launch_on(
        view.device, plan.launches, view.pointer, code_pointer, scale_pointer, tensor_pointer, words, seed or 0, stream
    )
    return Quantized(plan.rules.fmt, plan.rules.profile, codes, scales, tensor, plan.logical, scale_layout)


def _collapse(view: View, axis: int) -> View:
    """A copy with the blocks' axis last."""
    order = [a for a in range(len(view.shape)) if a != axis % len(view.shape)] + [axis % len(view.shape)]
    if view.library == "torch":
        return view_array(view.owner.permute(order).contiguous())
    return view_array(import_cupy().ascontiguousarray(view.owner.transpose(order)))


def _output_pointer(array: Any, shape: tuple[int, ...], name: str, device: int) -> int:
    torch = sys.modules.get("torch")
    pointer: int
    # The quick way for what is right.
    if torch is not None and type(array) is torch.Tensor:
        if (
            array.shape == shape
            and array.dtype == torch.uint8
            and array.is_contiguous()
            and array.get_device() == device
        ):
            pointer = array.data_ptr()
            if not pointer & 15:
                return pointer
    elif type(array) is import_cupy().ndarray:
        data = array.data
        pointer = data.ptr
        right = array.shape == shape and array.dtype == _BYTE and array._c_contiguous
        if right and not pointer & 15 and data.device_id == device:
            return pointer
    view = view_array(array, name)
    if (
        view.dtype != "uint8"
        or view.shape != shape
        or not view.contiguous
        or view.device != device
        or view.pointer % 16
    ):
        raise ValueError(
            f"out: {name} has dtype {view.dtype}, shape {view.shape}, strides {view.strides}, device {view.device}; pass "
            f"uint8 of shape {shape}, contiguous and 16-byte aligned, on device {device}"
        )
    return view.pointer


def quantize_both(
    x: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scale: Any = None,
    scale_layout: str = "row-major", out: tuple[Any, Any, Any, Any] | None = None,
) -> tuple[Quantized, Quantized]:  # fmt: skip
    """A matrix quantized along its last axis and along its first, in one pass over it.

    x: float16 or bfloat16 [rows, columns], both multiples of 32, the last axis contiguous and 4-byte aligned.
    out: codes and scales of the rows, then of the columns. Returns both as `quantize` does for `axis=-1` and `axis=0`.
    """
    view = view_array(x)
    name = fmt if isinstance(fmt, str) else fmt.name
    two_level, tensor, tensor_pointer = _tensor_pointer(
        view, tensor_scale, lambda two: generate_rules(profile, name, two_level=two)
    )
    rules = generate_rules(profile, name, two_level=two_level)
    fmt_ = rules.fmt
    if not _fits_columns(view.shape, view.strides, view.pointer % 16, view.dtype, fmt_) or view.shape[1] % 32:
        raise ValueError(
            f"x has dtype {view.dtype}, shape {view.shape} and strides {view.strides}; both directions in one pass need a "
            "float16 or bfloat16 matrix of multiples of 32 with contiguous rows; call quantize twice"
        )
    rows, columns = view.shape
    tiled = _check_layout(scale_layout)
    bits = fmt_.element.bits
    shapes = [
        ((rows, columns * bits // 8), scale_shape(rows, columns // fmt_.k, scale_layout)),
        ((columns, rows * bits // 8), scale_shape(columns, rows // fmt_.k, scale_layout)),
    ]
    flat = [s for pair in shapes for s in pair]
    arrays = out or tuple(empty_array(s, "uint8", view.library, view.device) for s in flat)
    pointers = [
        _output_pointer(a, s, n, view.device)
        for a, s, n in zip(arrays, flat, ("codes", "scales", "column codes", "column scales"), strict=True)
    ]
    tune = kernels.tune_columns(name, both=True)
    kernel = _kernel(
        kernels.columns_kernel(rules, view.dtype, tiled=tiled, both=True, tuning=tune), _COLUMNS, view.device
    )
    stream = current_stream(view.library, view.device)
    with _OnDevice(view.device):
        if tiled:
            for which, (r, c) in ((1, (rows, columns // fmt_.k)), (3, (columns, rows // fmt_.k))):
                if r % 128 or c % 4:
                    import_cupy().cuda.runtime.memsetAsync(pointers[which], 0, flat[which][0], stream)
        kernel.launch(
            (-(-columns // 64), -(-rows // (32 * tune.warps))), 32 * tune.warps, stream, view.pointer, view.strides[0] // 2, rows, columns, pointers[2],
            pointers[3], tensor_pointer, -(-rows // fmt_.k // 4), pointers[0], pointers[1], -(-columns // fmt_.k // 4),
        )  # fmt: skip
    return (
        Quantized(fmt_, rules.profile, arrays[0], arrays[1], tensor, (rows, columns), scale_layout),
        Quantized(fmt_, rules.profile, arrays[2], arrays[3], tensor, (columns, rows), scale_layout),
    )


# Tensor scale


def _find_tensor_scale(view: View, rules: KernelRules, out: Any) -> Any:
    _fail_dtype(view, "x")
    if not view.contiguous:
        view = copy_contiguous(view)
    array = empty_array((1,), "float32", view.library, view.device) if out is None else out
    target = view_array(array, "out")
    if target.dtype != "float32" or target.size != 1 or target.device != view.device:
        raise ValueError(
            f"out has dtype {target.dtype} and shape {target.shape}; pass one float32 on device {view.device}"
        )
    per_vector = 16 // ITEM_BYTES[view.dtype]
    vectors = 0 if view.pointer % 16 else view.size // per_vector
    amax = _kernel(kernels.amax_kernel(rules, view.dtype, "tensor_amax"), POINTER + U64 * 2 + POINTER, view.device)
    stream = current_stream(view.library, view.device)
    with _OnDevice(view.device):
        import_cupy().cuda.runtime.memsetAsync(target.pointer, 0, 4, stream)
        if view.size:
            grid = min(max(-(-vectors // 512 // 4), 1), _multiprocessors(view.device) * 4)
            amax.launch((grid, 1), 512, stream, view.pointer, vectors, view.size, target.pointer)
        # The maximum itself is the native scale of some profiles.
        assert rules.profile.tensor is not None
        if rules.native is not TensorScaleKind.AMAX or rules.profile.tensor.from_amax != TMAX:
            _kernel(kernels.amax_kernel(rules, view.dtype, "derive_native"), POINTER, view.device).launch(
                (1, 1), 1, stream, target.pointer
            )
    return array


@lru_cache(maxsize=16)
def _multiprocessors(device: int) -> int:
    count: int = import_cupy().cuda.runtime.getDeviceProperties(device)["multiProcessorCount"]
    return count


def tensor_scale(x: Any, fmt: str = "nvfp4", profile: str | Profile | None = None, *, out: Any = None) -> Any:
    """float32 [1] on the GPU: the tensor scale that a profile computes for x, of the profile's native kind.

    A pass over x; nothing waits for it. Raises ValueError for profiles without a tensor scale.
    """
    return _find_tensor_scale(view_array(x), generate_rules(profile, fmt, two_level=True), out)


# Dequantize

_DEQUANTIZE = POINTER * 4 + U32 * 5


@lru_cache(maxsize=1024)
def _dequantize_launches(
    rules: KernelRules, rows: int, columns: int, dtype: str, tiled: bool, device: int,
    tuning: kernels.DequantizeTuning | None = None,
) -> tuple[_Launch, ...]:  # fmt: skip
    fmt = rules.fmt
    tune = tuning or kernels.tune_dequantize(fmt.name, dtype)
    kernel = _kernel(kernels.dequantize_kernel(rules, dtype, tiled=tiled, tuning=tune), _DEQUANTIZE, device)
    per_row = columns // fmt.k
    division, tiles = make_division(per_row), -(-per_row // 4)
    step = max(1, MAX_BLOCKS // 8 // per_row // 128) * 128
    launches: list[_Launch] = []
    for first in range(0, rows, step):
        eights, block = min(step, rows - first) * columns // 8, first * per_row
        offset = first // 128 * tiles * 512 if tiled else block

        def launch(
            codes: int, scales: int, out: int, tensor: int, unused: int, seed: int, stream: int,
            *, eights: int = eights, block: int = block, offset: int = offset,
        ) -> None:  # fmt: skip
            kernel.launch(
                (-(-eights // (tune.threads * tune.unroll)), 1), tune.threads, stream,
                codes + block * fmt.k * fmt.element.bits // 8, scales + offset, out + block * fmt.k * ITEM_BYTES[dtype],
                tensor, eights, per_row, division.multiplier, division.shift, tiles,
            )  # fmt: skip

        launches.append(launch)
    return tuple(launches)


def dequantize(
    codes: Any, scales: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scale: Any = None,
    scale_layout: str = "row-major", dtype: str = "bfloat16", out: Any = None,
) -> Any:  # fmt: skip
    """The values of packed codes [..., K bits / 8], blocks along the last axis, as float32, float16 or bfloat16 [..., K].

    scales: uint8 [..., K / k], or the flat bytes of 128x4 tiles. out: contiguous, 16-byte aligned.
    Values are the profile's, rounded once to nearest even; NaN has the chip's payload.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    name = fmt if isinstance(fmt, str) else fmt.name
    view, scale_view = view_array(codes, "codes"), view_array(scales, "scales")
    if dtype not in FLOATS:
        raise TypeError(f"dtype = {dtype!r}; allowed are {', '.join(FLOATS)}")
    two_level, _, tensor_pointer = _tensor_pointer(
        view, tensor_scale, lambda two: generate_rules(profile, name, two_level=two)
    )
    rules = generate_rules(profile, name, two_level=two_level)
    block = rules.fmt
    if view.dtype != "uint8" or scale_view.dtype != "uint8":
        raise TypeError(f"codes have dtype {view.dtype} and scales {scale_view.dtype}; both are uint8")
    block_bytes = block.k * block.element.bits // 8
    columns = view.shape[-1] * 8 // block.element.bits if view.shape else 0
    rows = view.size // view.shape[-1] if view.size else 0
    expected = scale_shape(rows, columns // block.k, scale_layout)
    if _check_layout(scale_layout):
        fits = scale_view.shape == expected
    else:
        expected = (*view.shape[:-1], columns // block.k)
        fits = scale_view.shape == expected
    if not view.shape or view.shape[-1] % block_bytes or not fits:
        raise ValueError(
            f"codes of shape {view.shape} and scales of shape {scale_view.shape} do not match for packed {block.name}; the last "
            f"axis of codes is a multiple of {block_bytes} bytes (one block), and scales have the shape {expected}"
        )
    if not view.contiguous or view.pointer % 8:
        view = _realign(view)
    if not scale_view.contiguous:
        scale_view = copy_contiguous(scale_view)
    shape = (*view.shape[:-1], columns)
    if out is None:
        out = empty_array(shape, dtype, view.library, view.device)
    target = view_array(out, "out")
    if target.dtype != dtype or target.shape != shape or not target.contiguous or target.pointer % 16:
        raise ValueError(
            f"out has dtype {target.dtype} and shape {target.shape}; pass {dtype} of shape {shape}, contiguous and 16-byte aligned"
        )
    if rows * columns:
        stream = current_stream(view.library, view.device)
        with _OnDevice(view.device):
            for launch in _dequantize_launches(rules, rows, columns, dtype, scale_layout == "128x4", view.device):
                launch(view.pointer, scale_view.pointer, target.pointer, tensor_pointer, 0, 0, stream)
    return out


def _realign(view: View) -> View:
    if view.library == "torch":
        return view_array(view.owner.clone(memory_format=__import__("torch").contiguous_format))
    return view_array(view.owner.copy())


# Scalars


def _spread(count: int) -> tuple[int, int]:
    return (min(max(-(-count // 256), 1), 1 << 16), 1)


def _nan_codes(fmt: Any, nan: str | NanPolicy | None) -> tuple[int, int]:
    return reals.nan_codes(fmt, default_nan_policy(fmt) if nan is None else NanPolicy(nan))


def _as_float32(x: Any) -> View:
    view = view_array(x)
    _fail_dtype(view, "x")
    if view.dtype != "float32":
        owner = view.owner.float() if view.library == "torch" else view.owner.astype("float32")
        view = view_array(owner)
    return view if view.contiguous else copy_contiguous(view)


def encode(
    x: Any, element: str, *, rounding: str = "rne", overflow: str = "saturate", nan: str | None = None,
    random_bits: Any = None, sr_bits: int = 32,
) -> Any:  # fmt: skip
    """Codes (uint8, x's shape) of single numbers, as `mxspec.encode` with sign="ignore".

    rounding: one of the eight modes; `sr` takes `random_bits`, uint32 words of x's shape.
    """
    fmt, mode = get_scalar(element), Rounding(rounding)
    view = _as_float32(x)
    positive, negative = _nan_codes(fmt, nan)
    out = empty_array(view.shape, "uint8", view.library, view.device)
    target, stream = view_array(out), current_stream(view.library, view.device)
    with _OnDevice(view.device):
        if mode is Rounding.SR:
            if random_bits is None or sr_bits not in (8, 32):
                raise ValueError("rounding='sr' needs random_bits (uint32 words, x's shape) and sr_bits of 32 or 8")
            words = view_array(random_bits, "random_bits")
            if words.dtype not in ("uint32", "int32") or words.shape != view.shape:
                raise ValueError(
                    f"random_bits has dtype {words.dtype} and shape {words.shape}; pass uint32 of shape {view.shape}"
                )
            words = words if words.contiguous else copy_contiguous(words)
            types = POINTER + U64 + POINTER + I32 + U32 * 2 + POINTER
            kernel = _kernel(kernels.scalar_kernel("encode_scalars_stochastic", fmt.name), types, view.device)
            arguments = (view.pointer, view.size, words.pointer, sr_bits, positive, negative, target.pointer)
        else:
            types = POINTER + U64 + I32 * 2 + U32 * 2 + POINTER
            kernel = _kernel(kernels.scalar_kernel("encode_scalars", fmt.name), types, view.device)
            arguments = (
                view.pointer, view.size, _ROUNDINGS.index(mode), _OVERFLOWS.index(Overflow(overflow)), positive, negative,
                target.pointer,
            )  # fmt: skip
        if view.size:
            kernel.launch(_spread(view.size), 256, stream, *arguments)
    return out


def _one_to_one(
    x: Any, function: str, fmt: str, dtype: str, shape: Callable[[View], tuple[int, ...]], *sizes: Callable[[View], int]
) -> Any:
    view = view_array(x, "codes")
    if view.dtype != "uint8":
        raise TypeError(f"codes have dtype {view.dtype}; codes are uint8")
    view = view if view.contiguous else copy_contiguous(view)
    out = empty_array(shape(view), dtype, view.library, view.device)
    target = view_array(out)
    counts = [size(view) for size in sizes]
    kernel = _kernel(kernels.scalar_kernel(function, fmt), POINTER + U64 * len(counts) + POINTER, view.device)
    with _OnDevice(view.device):
        if target.size:
            stream = current_stream(view.library, view.device)
            kernel.launch(_spread(target.size), 256, stream, view.pointer, *counts, target.pointer)
    return out


def decode(codes: Any, element: str) -> Any:
    """float32 values of single codes (uint8)."""
    return _one_to_one(
        codes, "decode_scalars", get_scalar(element).name, "float32", lambda v: v.shape, lambda v: v.size
    )


def unpack(codes: Any, fmt: str | BlockFormat) -> Any:
    """uint8 [..., K], one code a byte, from packed codes [..., K bits / 8]."""
    block = get_block(fmt)
    bits = block.element.bits

    def shape(v: View) -> tuple[int, ...]:
        return (*v.shape[:-1], v.shape[-1] * 8 // bits)

    return _one_to_one(codes, "unpack_codes", block.element.name, "uint8", shape, lambda v: v.size * 8 // bits)


def pack(codes: Any, fmt: str | BlockFormat) -> Any:
    """Packed codes [..., K bits / 8] from one code a byte [..., K]; K bits is a multiple of 8."""
    block = get_block(fmt)
    bits = block.element.bits

    def shape(v: View) -> tuple[int, ...]:
        if v.shape[-1] * bits % 8:
            raise ValueError(
                f"{v.shape[-1]} codes of {bits} bits do not fill whole bytes; pad them to whole blocks of {block.k}"
            )
        return (*v.shape[:-1], v.shape[-1] * bits // 8)

    return _one_to_one(
        codes, "pack_codes", block.element.name, "uint8", shape, lambda v: v.size * bits // 8, lambda v: v.size
    )


__all__ = [
    "Quantized", "check_gpu", "decode", "dequantize", "encode", "pack", "quantize", "quantize_both", "scale_shape",
    "tensor_scale", "unpack",
]  # fmt: skip
