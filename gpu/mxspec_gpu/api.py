"""`quantize`, `dequantize` and what belongs to them, on the GPU.

Every call works on the caller's current stream (that of x's library) and never waits for the GPU, but for `pack` and
`decode` where they check their codes. With outputs given it allocates nothing, but for the copy of a view that is no matrix
(see `views.find_matrix`), so it can be captured in a CUDA graph (call once before: the first call of a kind compiles or
loads its kernel).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mxspec.expressions import TMAX
from mxspec.formats import BlockFormat
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec.tensorscale import TensorScale
from mxspec_gpu import kernels
from mxspec_gpu.arguments import (
    SCALE_LAYOUTS,
    check_apart,
    check_axis,
    check_block,
    check_float_array,
    check_float_name,
    check_format,
    check_layout,
    check_outputs,
    check_profile,
    check_seed,
    check_sr_bits,
    find_layout,
    find_scale_dtype,
)
from mxspec_gpu.arrays import ITEM_BYTES, OnDevice, View, check_gpu, copy_contiguous, current_stream, empty_array, view_array, view_output
from mxspec_gpu.build import import_cupy
from mxspec_gpu.launch import POINTER, U32, U64, get_kernel, make_division
from mxspec_gpu.plans import NotAMatrixError, find_plan, launch_both, most_blocks, scale_shape, scale_step
from mxspec_gpu.quick import find_output, remember, run_again
from mxspec_gpu.rules import KernelRules, generate_rules
from mxspec_gpu.scalars import decode, encode, pack, unpack
from mxspec_gpu.transform import SIZE as TRANSFORM_SIZE, find_signs
from mxspec_gpu.views import Matrix, split_launches

#: The default of `sr_bits`, which calls that give none have as this object.
_BITS = 32


@dataclass(slots=True)
class Quantized:
    """A quantized tensor on the GPU, in the caller's library."""

    format: BlockFormat
    profile: Profile
    #: uint8 [..., K bits / 8]: packed codes, little-endian, the first code in the lowest bits. Blocks lie along the last
    #: axis, which is padded to whole blocks; for `axis=0` that is the first axis of x, moved.
    codes: Any
    #: uint8 [..., K / k], or the flat bytes of 128x4 tiles; of formats with float32 scales float32, or column-major [K / k, rows
    #: padded to a multiple of 4].
    scales: Any
    #: Of the profile's native kind: the TensorScale that was given, or float32 [1]; or None.
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
        return values[tuple(slice(n) for n in self.shape)]

    def unpack(self) -> Any:
        """uint8 [..., K]: one code a byte."""
        return unpack(self.codes, self.format)


def launch_on(device: int, launches: Sequence[Callable[..., None]], *arguments: int) -> None:
    """Queue launches on a device, made current where it is not."""
    if import_cupy().cuda.runtime.getDevice() == device:
        for launch in launches:
            launch(*arguments)
        return
    with OnDevice(device):
        for launch in launches:
            launch(*arguments)


# Quantize


@dataclass(frozen=True, slots=True)
class LaunchTensor:
    """A tensor scale as a launch takes it: an address to read, or where that is 0 the float32 bits themselves."""

    given: Any = None
    pointer: int = 0
    bits: int = 0

    @property
    def two_level(self) -> bool:
        """Whether there is one."""
        return self.given is not None


_NO_TENSOR = LaunchTensor()


def _take_signs(x: View, fmt: str, profile: str | Profile | None, signs: Any, random_bits: Any = None) -> kernels.Signs | None:
    """The signs of a call's transform."""
    if signs is None:
        return None
    found = find_signs(signs, get_profile(profile, fmt))
    if x.dtype == "float32":
        raise TypeError("x has dtype float32; the transform takes float16 and bfloat16; convert it first")
    if random_bits is not None:
        raise ValueError("both random_bits and signs were given; with a transform pass seed")
    return found


def take_tensor_scale(
    x: View, tensor_scale: Any, rules_of: Callable[[], KernelRules], signs: kernels.Signs | None = None, axis: int = -1
) -> LaunchTensor:
    """The tensor scale of a call. A TensorScale travels in the launch: it needs no memory and touches no stream."""
    if tensor_scale is None:
        return _NO_TENSOR
    if isinstance(tensor_scale, TensorScale):
        native = rules_of().native
        if tensor_scale.kind is not native:
            raise ValueError(
                f"tensor_scale is of kind {tensor_scale.kind.value}, profile {rules_of().profile.id} takes "
                f"{native.value if native else 'none'}; pass that kind (mxspec.tensor_scale gives it), or 'auto' to compute it "
                "from x. The kinds are not reciprocals of each other bit for bit"
            )
        return LaunchTensor(tensor_scale, 0, tensor_scale.bits)
    array = tensor_scale
    if isinstance(tensor_scale, str):
        if tensor_scale != "auto":
            raise ValueError(f"tensor_scale = {tensor_scale!r}; allowed are None, 'auto', a TensorScale or a float32 array [1]")
        array = _find_tensor_scale(x, rules_of(), None, signs, axis)
    view = view_array(array, "tensor_scale")
    if view.dtype != "float32" or view.size != 1 or view.device != x.device:
        raise ValueError(
            f"tensor_scale has dtype {view.dtype} and shape {view.shape} on device {view.device}; pass one float32 on "
            f"device {x.device} (of the kind that the profile stores), a TensorScale, or 'auto'"
        )
    # The view's own array, which for a negated one is not what was given.
    return LaunchTensor(view.owner, view.pointer)


def _take_random(x: View, axis: int, random_bits: Any, sr_bits: int, seed: int | None) -> tuple[int, View | None, int]:
    """Which randomness (as in `kernels.any_kernel`), the words, and the seed."""
    check_sr_bits(sr_bits)
    if random_bits is None:
        return (0, None, 0) if seed is None else (3, None, check_seed(seed))
    if seed is not None:
        raise ValueError("both random_bits and seed were given; pass one")
    words = view_array(random_bits, "random_bits")
    if words.dtype not in ("uint32", "int32") or words.shape != x.shape or words.device != x.device:
        raise ValueError(
            f"random_bits has dtype {words.dtype} and shape {words.shape} on device {words.device}; pass uint32 words of "
            f"shape {x.shape} on device {x.device}"
        )
    if axis != len(x.shape) - 1:
        raise ValueError("random_bits need blocks along the last axis; pass x and random_bits transposed")
    return (1 if sr_bits == 32 else 2), words if words.contiguous else copy_contiguous(words), 0


def quantize(
    x: Any,
    fmt: str | BlockFormat,
    *,
    profile: str | Profile | None = None,
    axis: int = -1,
    block: tuple[int, int] | None = None,
    tensor_scale: Any = None,
    scale_layout: str = "row-major",
    pad: bool = False,
    random_bits: Any = None,
    sr_bits: int = 32,
    seed: int | None = None,
    signs: int | None = None,
    out: tuple[Any, Any] | None = None,
) -> Quantized:
    """Quantize along one axis, as `mxspec.quantize` does, into packed codes.

    x: float32, float16 or bfloat16 on the GPU (CuPy, torch, DLPack), any strides. It is read in place where its axes but the
        blocks' have one stride between them; otherwise a copy is made first.
    profile: a name or Profile that the kernels have; by default `mx-floor`, for nvfp4 `nvfp4-te`.
    axis: where blocks lie. The result has that axis last: `axis=0` of a matrix gives the transposed one's codes.
    block: (1, k), or (16, 16) for nvfp4: sixteen rows share a scale, which is written for each. Rows run along the axis before
        `axis`, or after it where that is 0; of more than two axes `axis` is the last.
    tensor_scale: None, "auto" (a pass over x finds it), a float32 array [1] on the GPU of the profile's native kind, or
        a `mxspec.TensorScale` of that kind.
    scale_layout: "row-major", or "128x4": NVIDIA's tiles, flat, padding zero. Of float32 scales "row-major" or "column-major":
        `scales[:, :rows].T` has the strides that DeepGEMM's `get_mn_major_tma_aligned_tensor` gives, padding is zero.
    pad: fill a ragged tail with zeros; otherwise it raises.
    random_bits: uint32 words, x's shape: elements round stochastically by the integer rule with the low `sr_bits`.
    seed: stochastic rounding with random bytes made in the kernel (see kernels/philox.cuh).
    signs: of the profile's random Hadamard transform, which is then applied to x first, along the blocks (see transform.py):
        16 bits, bit i negates element i of each 16. x is float16 or bfloat16. None: x has been transformed already.
    out: (codes, scales), uint8 (scales of float32 formats float32), contiguous, 16-byte aligned, of the shapes that the result
        has, overlapping neither x nor each other.

    Raises TypeError and ValueError that say what was given, what is allowed and what to do; GpuMissingError without CuPy
    or a GPU.
    """
    again = type(out) is tuple and len(out) == 2 and random_bits is None and sr_bits is _BITS and signs is None and block is None
    if out is not None and again:
        try:
            known = run_again(x, fmt, profile, axis, tensor_scale, scale_layout, pad, seed, out)
        except (RuntimeError, TypeError, ValueError):  # a tensor without memory, say: the long way finds the words
            known = None
        if known is not None:
            rules = known.rules
            return Quantized(rules.fmt, rules.profile, out[0], out[1], tensor_scale, known.logical, scale_layout)
    given = x, fmt, profile, axis, tensor_scale, scale_layout, pad, seed
    view = view_array(x)
    format_ = check_format(fmt, wide=True)
    name = format_.name
    check_float_array(view.dtype, "x")
    find_layout(scale_layout, format_)
    axis = check_axis(axis, len(view.shape))
    square = block is not None and check_block(block, format_, axis, len(view.shape))
    if square and (random_bits is not None or signs is not None):
        raise ValueError(f"block = {block} with random_bits or signs; pass seed to round stochastically, and no transform")
    profile = check_profile(profile)
    tensor = _NO_TENSOR
    turned = _take_signs(view, name, profile, signs, random_bits)
    if tensor_scale is not None:
        tensor = take_tensor_scale(view, tensor_scale, lambda: generate_rules(profile, name, two_level=True), turned, axis)
    random, words, key = 0, None, 0
    if random_bits is not None or seed is not None:
        random, words, key = _take_random(view, axis, random_bits, sr_bits, seed)
    rest = tensor.two_level, scale_layout, random, bool(pad), turned, square
    copied = False
    try:
        plan = find_plan(view, name, profile, axis, *rest)
    except NotAMatrixError:
        view, copied = copy_contiguous(view, axis), True
        plan = find_plan(view, name, profile, len(view.shape) - 1, *rest)
    codes, scales, pointers = take_outputs(out, (plan.codes_shape, plan.scales_shape), plan.rules.fmt, view, plan.extent)
    stream = current_stream(view.library, view.device)
    launch_on(
        view.device, plan.launches, view.pointer, *pointers, tensor.pointer,
        words.pointer if words is not None else 0, key, tensor.bits, stream,
    )  # fmt: skip
    if again and not copied:
        remember(view, plan, *given)
    return Quantized(plan.rules.fmt, plan.rules.profile, codes, scales, tensor.given, plan.logical, scale_layout)


def take_outputs(
    out: tuple[Any, Any] | None,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    block: BlockFormat,
    x: View,
    extent: tuple[int, int] | None = None,
) -> tuple[Any, Any, tuple[int, int]]:
    """Codes and scales of these shapes, new or given, and their addresses; given ones overlap neither x, of that extent, nor each other."""
    scale_dtype = find_scale_dtype(block)
    if out is None:
        codes = empty_array(shapes[0], "uint8", x.library, x.device)
        scales = empty_array(shapes[1], scale_dtype, x.library, x.device)
    else:
        codes, scales = check_outputs(out, ("codes", "scales"))
    pointers = (
        _output_pointer(codes, shapes[0], "codes", x.device), _output_pointer(scales, shapes[1], "scales", x.device, scale_dtype)
    )  # fmt: skip
    if out is not None:
        low, high = extent or (0, x.size * ITEM_BYTES[x.dtype])
        scale_bytes = (*shapes[1], ITEM_BYTES[scale_dtype])
        _check_memory(x.pointer, (low, high), (("codes", pointers[0], shapes[0]), ("scales", pointers[1], scale_bytes)))
    return codes, scales, pointers


def _check_memory(x: int, extent: tuple[int, int], outputs: Sequence[tuple[str, int, tuple[int, ...]]]) -> None:
    """That outputs of bytes, as (name, address, shape), overlap neither x nor each other."""
    ranges = []
    for name, pointer, shape in outputs:
        size = 1
        for n in shape:
            size *= n
        ranges.append((name, pointer, pointer + size))
    check_apart(ranges, [("x", x + extent[0], x + extent[1])])


def _output_pointer(array: Any, shape: tuple[int, ...], name: str, device: int, dtype: str = "uint8") -> int:
    pointer = find_output(array, shape, device) if dtype == "uint8" else 0
    if pointer:
        return pointer
    view = view_output(array, name)
    if view.dtype != dtype or view.shape != shape or not view.contiguous or view.device != device or view.pointer % 16:
        raise ValueError(
            f"out: {name} has dtype {view.dtype}, shape {view.shape}, strides {view.strides}, device {view.device}; pass "
            f"{dtype} of shape {shape}, contiguous and 16-byte aligned, on device {device}"
        )
    return view.pointer


def _fits_both(view: View) -> bool:
    """Whether `quantize_both` takes a view: 16-bit numbers, rows contiguous, in pairs of 4 bytes, not overlapping."""
    if len(view.shape) != 2 or view.dtype == "float32" or view.shape[0] % 32 or view.shape[1] % 32:
        return False
    pitch, step = view.strides
    fits = step == 1 and pitch % 2 == 0 and view.pointer % 4 == 0 and pitch >= view.shape[1]
    return 0 in view.shape or (fits and max(view.shape) < 1 << 31)


_find_both = lru_cache(maxsize=1024)(
    lambda rules, matrix, dtype, device, aligned, tiled, stochastic, signs: launch_both(
        rules, matrix, dtype, device, aligned=aligned, tiled=tiled, stochastic=stochastic, signs=signs
    )
)


def quantize_both(
    x: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scale: Any = None,
    scale_layout: str = "row-major", seed: int | None = None, signs: int | None = None,
    out: tuple[Any, Any, Any, Any] | None = None,
) -> tuple[Quantized, Quantized]:  # fmt: skip
    """A matrix quantized along its last axis and along its first, in one pass over it.

    x: float16 or bfloat16 [rows, columns], both multiples of 32, the last axis contiguous and 4-byte aligned.
    seed (formats of four bits), signs: as in `quantize`, for both directions.
    out: codes and scales of the rows, then of the columns. Returns both as `quantize` does for `axis=-1` and `axis=0`.
    """
    view = view_array(x)
    name = check_format(fmt).name
    check_float_array(view.dtype, "x")
    profile, tiled = check_profile(profile), check_layout(scale_layout)
    turned = _take_signs(view, name, profile, signs)
    key = 0 if seed is None else check_seed(seed)
    tensor = take_tensor_scale(view, tensor_scale, lambda: generate_rules(profile, name, two_level=True), turned)
    rules = generate_rules(profile, name, two_level=tensor.two_level)
    block = rules.fmt
    if seed is not None and block.element.bits != 4:
        raise ValueError(
            f"seed: both directions in one pass round only formats of four bits stochastically, not {name}; call quantize twice"
        )
    if not _fits_both(view):
        raise ValueError(
            f"x has dtype {view.dtype}, shape {view.shape} and strides {view.strides}; both directions in one pass need a "
            "float16 or bfloat16 matrix of multiples of 32 with contiguous rows; call quantize twice"
        )
    rows, columns = view.shape
    bits = block.element.bits
    shapes = [
        (rows, columns * bits // 8), scale_shape(rows, columns // block.k, scale_layout),
        (columns, rows * bits // 8), scale_shape(columns, rows // block.k, scale_layout),
    ]  # fmt: skip
    names = ("codes", "scales", "column codes", "column scales")
    if out is None:
        arrays = tuple(empty_array(s, "uint8", view.library, view.device) for s in shapes)
    else:
        arrays = check_outputs(out, names)
    pointers = [_output_pointer(a, s, n, view.device) for a, s, n in zip(arrays, shapes, names, strict=True)]
    low, high = view.range
    _check_memory(view.pointer, (low - view.pointer, high - view.pointer), list(zip(names, pointers, shapes, strict=True)))
    if view.size:
        matrix = Matrix(rows, columns, view.strides[0], 1)
        launch = _find_both(rules, matrix, view.dtype, view.device, view.pointer % 16, tiled, seed is not None, turned)
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            if tiled:
                for which, (r, c) in ((1, (rows, columns // block.k)), (3, (columns, rows // block.k))):
                    if r % 128 or c % 4:
                        import_cupy().cuda.runtime.memsetAsync(pointers[which], 0, shapes[which][0], stream)
            if launch is not None:
                launch(view.pointer, tuple(pointers), tensor.pointer, key, tensor.bits, stream)
        if launch is None:
            for axis, codes, scales in ((1, *pointers[:2]), (0, *pointers[2:])):
                random = 0 if seed is None else 3
                plan = find_plan(view, name, profile, axis, tensor.two_level, scale_layout, random, False, turned)
                launch_on(view.device, plan.launches, view.pointer, codes, scales, tensor.pointer, 0, key, tensor.bits, stream)
    return (
        Quantized(block, rules.profile, arrays[0], arrays[1], tensor.given, (rows, columns), scale_layout),
        Quantized(block, rules.profile, arrays[2], arrays[3], tensor.given, (columns, rows), scale_layout),
    )


# Tensor scale


def _find_tensor_scale(view: View, rules: KernelRules, out: Any, signs: kernels.Signs | None = None, axis: int = -1) -> Any:
    check_float_array(view.dtype, "x")
    if signs is not None and view.shape[axis] % TRANSFORM_SIZE:
        raise ValueError(
            f"axis {axis} of x has {view.shape[axis]} elements, no multiple of the {TRANSFORM_SIZE} that the transform mixes; pad it"
        )
    last = axis % max(len(view.shape), 1) == len(view.shape) - 1
    if not view.contiguous or (signs is not None and (view.pointer % 16 or not last)):
        view = copy_contiguous(view, axis if signs is not None else -1)
    array = empty_array((1,), "float32", view.library, view.device) if out is None else out
    target = view_output(array)
    if target.dtype != "float32" or target.size != 1 or target.device != view.device:
        raise ValueError(f"out has dtype {target.dtype} and shape {target.shape}; pass one float32 on device {view.device}")
    check_apart([("out", *target.range)], [("x", *view.range)])
    stream = current_stream(view.library, view.device)
    with OnDevice(view.device):
        import_cupy().cuda.runtime.memsetAsync(target.pointer, 0, 4, stream)
        if view.size:
            _launch_amax(view, rules, target.pointer, stream, signs)
        if not stores_largest(rules):
            get_kernel(kernels.amax_kernel(rules, view.dtype, "derive_native"), POINTER, view.device).launch(
                (1, 1), 1, stream, target.pointer
            )
    return array


def stores_largest(rules: KernelRules) -> bool:
    """Whether the largest magnitude itself is the profile's native tensor scale."""
    assert rules.profile.tensor is not None
    return rules.native is TensorScaleKind.AMAX and rules.profile.tensor.from_amax == TMAX


def _launch_amax(view: View, rules: KernelRules, target: int, stream: int, signs: kernels.Signs | None) -> None:
    """The largest magnitude of a contiguous array, maximised into `target`."""
    most = _multiprocessors(view.device) * 4
    if signs is not None:
        groups = view.size // TRANSFORM_SIZE
        source = kernels.amax_kernel(rules, view.dtype, "transformed_amax", signs)
        kernel = get_kernel(source, POINTER + U64 + POINTER, view.device)
        kernel.launch((min(-(-groups // 512), most), 1), 512, stream, view.pointer, groups, target)
        return
    item = ITEM_BYTES[view.dtype]
    # Elements before the first 16 aligned bytes.
    head = min(-view.pointer % 16 // item, view.size)
    vectors = (view.size - head) // (16 // item)
    types = POINTER + U32 + U64 * 2 + POINTER
    kernel = get_kernel(kernels.amax_kernel(rules, view.dtype, "tensor_amax"), types, view.device)
    grid = min(max(-(-vectors // 512 // 4), 1), most)
    kernel.launch((grid, 1), 512, stream, view.pointer, head, vectors, view.size, target)


@lru_cache(maxsize=16)
def _multiprocessors(device: int) -> int:
    count: int = import_cupy().cuda.runtime.getDeviceProperties(device)["multiProcessorCount"]
    return count


def tensor_scale(
    x: Any, fmt: str = "nvfp4", profile: str | Profile | None = None, *, out: Any = None, signs: int | None = None,
    axis: int = -1,
) -> Any:  # fmt: skip
    """float32 [1] on the GPU: the tensor scale that a profile computes for x, of the profile's native kind.

    signs: of the profile's transform, which is then applied first, along `axis` (a multiple of 16 elements long), as
    `quantize` does; x is float16 or bfloat16.
    A pass over x; nothing waits for it. Raises ValueError for profiles without a tensor scale.
    """
    view, name = view_array(x), check_format(fmt).name
    profile = check_profile(profile)
    turned = _take_signs(view, name, profile, signs)
    if turned is not None:
        axis = check_axis(axis, len(view.shape))
    return _find_tensor_scale(view, generate_rules(profile, name, two_level=True), out, turned, axis)


# Dequantize

#: Types of the kernel's parameters: at the end the rows to take, and of how many.
DEQUANTIZE_TYPES = POINTER * 4 + U32 * 6 + POINTER + U64


@lru_cache(maxsize=1024)
def _dequantize_launches(
    rules: KernelRules, rows: int, columns: int, dtype: str, tiled: int, device: int,
    tuning: kernels.DequantizeTuning | None = None,
) -> tuple[Callable[..., None], ...]:  # fmt: skip
    fmt = rules.fmt
    tune = tuning or kernels.tune_dequantize(fmt.name, dtype)
    kernel = get_kernel(kernels.dequantize_kernel(rules, dtype, tiled=tiled, tuning=tune), DEQUANTIZE_TYPES, device)
    per_row = columns // fmt.k
    division, tiles = make_division(per_row), scale_step(tiled, rows, per_row)
    code_bytes, block_bytes = fmt.k * fmt.element.bits // 8, fmt.k * ITEM_BYTES[dtype]
    launches: list[Callable[..., None]] = []
    # Half of what quantizes, so that groups of eight elements are counted in 32 bits.
    for part in split_launches(rows, per_row, most_blocks(fmt.k) // 2, tiled=tiled, scale_bytes=fmt.scale.storage_bits // 8):
        eights = part.blocks * fmt.k // 8

        def launch(
            codes: int, scales: int, out: int, tensor: int, bits: int, stream: int,
            *, eights: int = eights, first: int = part.first_block, offset: int = part.scale_offset,
        ) -> None:  # fmt: skip
            kernel.launch(
                (-(-eights // (tune.threads * tune.unroll)), 1), tune.threads, stream,
                codes + first * code_bytes, scales + offset, out + first * block_bytes,
                tensor, eights, per_row, division.multiplier, division.shift, tiles, bits, 0, 0,
            )  # fmt: skip

        launches.append(launch)
    return tuple(launches)


def check_packed(codes: Any, scales: Any, block: BlockFormat, scale_layout: str) -> tuple[View, View]:
    """Packed codes, and their scales contiguous.

    Raises TypeError and ValueError for what does not match.
    """
    view, scale_view = view_array(codes, "codes"), view_array(scales, "scales")
    tiled, scale_dtype = find_layout(scale_layout, block), find_scale_dtype(block)
    if view.dtype != "uint8" or scale_view.dtype != scale_dtype:
        allowed = "both are uint8" if scale_dtype == "uint8" else f"pass uint8 and {scale_dtype}"
        raise TypeError(f"codes have dtype {view.dtype} and scales {scale_view.dtype}; {allowed}")
    if scale_view.device != view.device:
        raise ValueError(f"codes are on device {view.device} and scales on device {scale_view.device}; pass both on one")
    block_bytes = block.k * block.element.bits // 8
    if not view.shape or view.shape[-1] % block_bytes:
        raise ValueError(
            f"codes have shape {view.shape}; the last axis of packed {block.name} is a multiple of {block_bytes} bytes (one block)"
        )
    blocks_of_row = view.shape[-1] // block_bytes
    rows = view.size // view.shape[-1] if view.size else 0
    expected = scale_shape(rows, blocks_of_row, scale_layout) if tiled else (*view.shape[:-1], blocks_of_row)
    if scale_view.shape != expected:
        raise ValueError(
            f"codes of shape {view.shape} and scales of shape {scale_view.shape} do not match for packed {block.name} in "
            f"scale_layout={scale_layout!r}; pass scales of shape {expected}"
        )
    return view, scale_view if scale_view.contiguous else copy_contiguous(scale_view)


def find_dequantize_rules(
    view: View, block: BlockFormat, profile: str | Profile | None, tensor_scale: Any
) -> tuple[KernelRules, LaunchTensor]:
    """The rules of the values of packed codes, and the tensor scale as a launch takes it."""
    profile = check_profile(profile)
    if isinstance(tensor_scale, str):
        raise ValueError(
            f"tensor_scale = {tensor_scale!r}; pass the tensor scale that the codes were made with, as a TensorScale or a float32 array [1]"
        )
    tensor = take_tensor_scale(view, tensor_scale, lambda: generate_rules(profile, block.name, two_level=True))
    return generate_rules(profile, block.name, two_level=tensor.two_level), tensor


def check_values_output(target: View, dtype: str, shape: tuple[int, ...], device: int) -> None:
    """That values can be written to an array as it is."""
    if target.dtype != dtype or target.shape != shape or not target.contiguous or target.device != device or target.pointer % 16:
        raise ValueError(
            f"out has dtype {target.dtype}, shape {target.shape}, strides {target.strides}, device {target.device}; pass "
            f"{dtype} of shape {shape}, contiguous and 16-byte aligned, on device {device}"
        )


def dequantize(
    codes: Any, scales: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scale: Any = None,
    scale_layout: str = "row-major", dtype: str = "bfloat16", out: Any = None,
) -> Any:  # fmt: skip
    """The values of packed codes [..., K bits / 8], blocks along the last axis, as float32, float16 or bfloat16 [..., K].

    scales: as `quantize` gives them, in `scale_layout`. out: contiguous, 16-byte aligned.
    Values are the profile's, rounded once to nearest even; NaN has the chip's payload. The unused upper bit of a UE4M3 scale
    is not checked: to refuse it, a call would have to wait for the GPU.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = check_format(fmt, wide=True)
    tiled = find_layout(scale_layout, block)
    check_float_name(dtype)
    view, scale_view = check_packed(codes, scales, block, scale_layout)
    rules, tensor = find_dequantize_rules(view, block, profile, tensor_scale)
    blocks_of_row = view.shape[-1] // (block.k * block.element.bits // 8)
    rows, columns = view.size // view.shape[-1] if view.size else 0, blocks_of_row * block.k
    if not view.contiguous or view.pointer % 8:
        view = copy_contiguous(view)
    shape = (*view.shape[:-1], columns)
    if out is None:
        out = empty_array(shape, dtype, view.library, view.device)
    target = view_output(out)
    check_values_output(target, dtype, shape, view.device)
    check_apart([("out", *target.range)], [("codes", *view.range), ("scales", *scale_view.range)])
    if rows * columns:
        launch_on(
            view.device, _dequantize_launches(rules, rows, columns, dtype, tiled, view.device), view.pointer,
            scale_view.pointer, target.pointer, tensor.pointer, tensor.bits, current_stream(view.library, view.device),
        )  # fmt: skip
    return out


__all__ = [
    "SCALE_LAYOUTS", "Quantized", "check_gpu", "decode", "dequantize", "encode", "pack", "quantize", "quantize_both",
    "scale_shape", "tensor_scale", "unpack",
]  # fmt: skip
