"""Single numbers and single codes on the GPU: `encode`, `decode`, `pack`, `unpack`."""

from __future__ import annotations

from typing import Any

from mxspec import reals
from mxspec.elements import default_nan_policy
from mxspec.formats import BlockFormat, ElementFormat, ScaleFormat
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec_gpu import kernels
from mxspec_gpu.arguments import check_float_array, check_format, check_overflow, check_scalar, check_sr_bits
from mxspec_gpu.arrays import OnDevice, View, copy_contiguous, current_stream, empty_array, is_capturing, read_integer, view_array
from mxspec_gpu.build import import_cupy
from mxspec_gpu.launch import I32, POINTER, U32, U64, get_kernel

_ROUNDINGS = (Rounding.RNE, Rounding.RNA, Rounding.RNZ, Rounding.RNU, Rounding.RTZ, Rounding.RTN, Rounding.RTP)
_OVERFLOWS = (Overflow.SATURATE, Overflow.OWN, Overflow.SATURATE_FINITE)


def _spread(count: int) -> tuple[int, int]:
    return (min(max(-(-count // 256), 1), 1 << 16), 1)


def _nan_codes(fmt: ElementFormat | ScaleFormat, nan: str | NanPolicy | None) -> tuple[int, int]:
    policy = default_nan_policy(fmt) if nan is None else NanPolicy(nan)
    if policy is NanPolicy.RAISE:
        raise ValueError("nan='raise' would have to wait for the GPU; pass another policy, or use mxspec.encode (NumPy)")
    return reals.nan_codes(fmt, policy)


def encode(
    x: Any, element: str | ElementFormat | ScaleFormat, *, rounding: str = "rne", overflow: str = "saturate",
    nan: str | None = None, random_bits: Any = None, sr_bits: int = 32,
) -> Any:  # fmt: skip
    """Codes (uint8, x's shape) of single numbers, as `mxspec.encode` with sign="ignore".

    rounding: one of the eight modes; `sr` takes `random_bits`, uint32 words of x's shape, and only saturates.
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    view = view_array(x)
    fmt, mode = check_scalar(element), Rounding(rounding)
    check_float_array(view.dtype, "x")
    stochastic = mode is Rounding.SR
    policy = check_overflow(overflow, fmt, stochastic=stochastic)
    positive, negative = _nan_codes(fmt, nan)
    words = _take_words(view, mode, random_bits, sr_bits)
    view = view if view.contiguous else copy_contiguous(view)
    out = empty_array(view.shape, "uint8", view.library, view.device)
    target = view_array(out)
    if words is not None:
        types = POINTER + U64 + POINTER + I32 + U32 * 2 + POINTER
        source = kernels.scalar_kernel("encode_scalars_stochastic", fmt.name, view.dtype)
        arguments = (view.pointer, view.size, words.pointer, sr_bits, positive, negative, target.pointer)
    else:
        types = POINTER + U64 + I32 * 2 + U32 * 2 + POINTER
        source = kernels.scalar_kernel("encode_scalars", fmt.name, view.dtype)
        arguments = (
            view.pointer, view.size, _ROUNDINGS.index(mode), _OVERFLOWS.index(policy), positive, negative, target.pointer
        )  # fmt: skip
    if view.size:
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            get_kernel(source, types, view.device).launch(_spread(view.size), 256, stream, *arguments)
    return out


def _take_words(x: View, mode: Rounding, random_bits: Any, sr_bits: int) -> View | None:
    """The random words of stochastic rounding."""
    if mode is not Rounding.SR:
        if random_bits is not None:
            raise ValueError(f"random_bits were given, but rounding={mode.value!r} takes none; pass rounding='sr'")
        return None
    check_sr_bits(sr_bits)
    if random_bits is None:
        raise ValueError("rounding='sr' needs random_bits; pass uint32 words of x's shape")
    words = view_array(random_bits, "random_bits")
    if words.dtype not in ("uint32", "int32") or words.shape != x.shape or words.device != x.device:
        raise ValueError(
            f"random_bits has dtype {words.dtype} and shape {words.shape} on device {words.device}; pass uint32 words of "
            f"shape {x.shape} on device {x.device}"
        )
    return words if words.contiguous else copy_contiguous(words)


def _take_codes(codes: Any) -> View:
    view = view_array(codes, "codes")
    if view.dtype != "uint8":
        raise TypeError(f"codes have dtype {view.dtype}; codes are uint8")
    return view if view.contiguous else copy_contiguous(view)


class _Widths:
    """Finds codes with bits beyond their width while a kernel reads them."""

    def __init__(self, codes: View, bits: int, stream: int, *, check: bool) -> None:
        self._codes, self._bits = codes, bits
        #: Where the kernel writes the first place, or 0.
        self.pointer, self._first = 0, None
        if not check or bits == 8 or not codes.size:
            return
        if is_capturing(stream):
            raise ValueError("check=True has to wait for the GPU, which a stream that is being captured cannot; pass check=False")
        self._first = empty_array((1,), "int64", codes.library, codes.device)
        self.pointer = view_array(self._first).pointer
        import_cupy().cuda.runtime.memsetAsync(self.pointer, 0xFF, 8, stream)

    def refuse(self, name: str) -> None:
        """Waits for the kernel; raises ValueError with the first such code."""
        place = -1 if self._first is None else read_integer(self._first)
        if place < 0:
            return
        code = read_integer(self._codes.owner.reshape(-1)[place])
        raise ValueError(
            f"codes[{place}] (flat) = {code} has bits beyond the {self._bits} of {name}; pass codes from 0 to "
            f"{(1 << self._bits) - 1}, or check=False to ignore those bits"
        )


def decode(codes: Any, element: str | ElementFormat | ScaleFormat, *, check: bool = True) -> Any:
    """float32 values of single codes (uint8).

    check: refuse codes with bits beyond the format's width, for which the call waits for the GPU (formats of eight bits
    have no such bits, and it never waits). False ignores those bits.
    """
    view, fmt = _take_codes(codes), check_scalar(element)
    out = empty_array(view.shape, "float32", view.library, view.device)
    stream = current_stream(view.library, view.device)
    with OnDevice(view.device):
        widths = _Widths(view, fmt.bits, stream, check=check)
        if view.size:
            kernel = get_kernel(kernels.scalar_kernel("decode_scalars", fmt.name), POINTER + U64 + POINTER * 2, view.device)
            pointer = view_array(out).pointer
            kernel.launch(_spread(view.size), 256, stream, view.pointer, view.size, pointer, widths.pointer)
        widths.refuse(fmt.name)
    return out


def _last_axis(view: View) -> int:
    if not view.shape:
        raise ValueError("codes have no axis; pass at least one dimension")
    return view.shape[-1]


def unpack(codes: Any, fmt: str | BlockFormat) -> Any:
    """uint8 [..., K], one code a byte, from packed codes [..., K bits / 8]."""
    view, element = _take_codes(codes), check_format(fmt, wide=True).element
    length = _last_axis(view)
    if length * 8 % element.bits:
        raise ValueError(
            f"{length} bytes are no whole number of codes of {element.bits} bits; pass codes whose last axis is a multiple of "
            f"{check_format(fmt, wide=True).k * element.bits // 8} bytes (one block)"
        )
    out = empty_array((*view.shape[:-1], length * 8 // element.bits), "uint8", view.library, view.device)
    target = view_array(out)
    if target.size:
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            kernel = get_kernel(kernels.scalar_kernel("unpack_codes", element.name), POINTER + U64 + POINTER, view.device)
            kernel.launch(_spread(target.size), 256, stream, view.pointer, target.size, target.pointer)
    return out


def pack(codes: Any, fmt: str | BlockFormat, *, check: bool = True) -> Any:
    """Packed codes [..., K bits / 8] from one code a byte [..., K]; K bits is a multiple of 8.

    check: refuse codes with bits beyond the format's width, for which the call waits for the GPU (formats of eight bits
    have no such bits, and it never waits). False ignores those bits.
    """
    view, block = _take_codes(codes), check_format(fmt, wide=True)
    element = block.element
    length = _last_axis(view)
    if length * element.bits % 8:
        raise ValueError(f"{length} codes of {element.bits} bits do not fill whole bytes; pad them to whole blocks of {block.k}")
    out = empty_array((*view.shape[:-1], length * element.bits // 8), "uint8", view.library, view.device)
    target, stream = view_array(out), current_stream(view.library, view.device)
    with OnDevice(view.device):
        widths = _Widths(view, element.bits, stream, check=check)
        if target.size:
            types = POINTER + U64 * 2 + POINTER * 2
            kernel = get_kernel(kernels.scalar_kernel("pack_codes", element.name), types, view.device)
            kernel.launch(_spread(target.size), 256, stream, view.pointer, target.size, view.size, target.pointer, widths.pointer)
        widths.refuse(element.name)
    return out
