"""Slips with inputs that do not lie in memory row by row, and answers that share memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.corpora.calls.bugs_numbers import DQ4, DQ8, DQN, E4, E8, S8, TS
from tests.corpora.calls.catalogue import script
from tests.corpora.calls.effects import MX4, MX4R, MX8, NV, NV2, bug, with_dtypes, with_options
from tests.corpora.calls.formats import BFLOAT16, Array
from tests.corpora.calls.inputs import (
    backwards,
    columns_apart,
    decode,
    dequantize,
    encode,
    fortran,
    offset,
    one_column,
    one_row,
    pitched,
    quantize,
    rows_apart,
    stochastic,
    tensor_scale,
    upside_down,
    with_specials,
)
from tests.corpora.calls.kernel import Call, Hooks, Next

memory = partial(bug, "memory")
in_place = partial(bug, "in-place")
aliased = partial(bug, "aliased")

Fit = Callable[[Array], bool]


def owner(a: Array) -> Array:
    """The array that holds the memory of a view."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def from_pointer(a: Array) -> Array:
    """size numbers from the first one's address on, as a pointer without strides gives them; what lies outside is zero."""
    whole = owner(a)
    raw = np.frombuffer(whole.tobytes(order="A"), np.uint8)
    start = a.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    taken = raw[start : start + a.size * a.itemsize]
    taken = np.concatenate([taken, np.zeros(a.size * a.itemsize - taken.size, np.uint8)])
    return taken.view(a.dtype).reshape(a.shape)


def lies(fits: Fit, believes: Callable[[Array], Array], number: int = 0) -> Hooks:
    """Arrays that lie in some way are read in another."""

    def load(a: Any, which: int, call: Call) -> Any:
        return believes(a) if which == number and isinstance(a, np.ndarray) and a.size > 1 and fits(a) else a

    return Hooks(load=load)


def is_fortran(a: Array) -> bool:
    """Columns one after the other, and not rows."""
    return a.ndim == 2 and a.flags.f_contiguous and not a.flags.c_contiguous


def in_memory_order(a: Array) -> Array:
    """The numbers as they lie."""
    return a.ravel(order="K").reshape(a.shape)


def has_negative_stride(a: Array) -> bool:
    """Some addresses fall."""
    return any(s < 0 for s in a.strides)


def pitch_of(a: Array) -> int:
    """Bytes from row to row."""
    return int(a.strides[0])


def is_pitched(a: Array) -> bool:
    """Rows lie apart."""
    return a.ndim == 2 and a.strides[1] == a.itemsize and a.shape[0] > 1 and pitch_of(a) > a.shape[1] * a.itemsize


def absolute_strides(a: Array) -> Array:
    """As if no stride were negative."""
    return a[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in a.strides)]


def floor_to_16(a: Array) -> Array:
    """Vector loads that round an address down to 16 bytes."""
    start = a.__array_interface__["data"][0] % 16
    whole = owner(a)
    first = (a.__array_interface__["data"][0] - whole.__array_interface__["data"][0] - start) // a.itemsize
    flat = whole.reshape(-1)
    return flat[max(first, 0) :][: a.size].reshape(a.shape) if flat.size - max(first, 0) >= a.size else a


def misaligned(a: Array) -> bool:
    """Not at a multiple of 16 bytes, which NumPy's own buffers are."""
    return bool(a.flags.c_contiguous and a.__array_interface__["data"][0] % 16) and owner(a) is not a


def zero_stride(a: Array, axis: int) -> bool:
    """A broadcast along an axis."""
    return a.ndim == 2 and a.shape[axis] > 1 and a.strides[axis] == 0


def transposed_view(a: Array) -> Array:
    """The square view of the same memory."""
    return a.T if a.shape[0] == a.shape[1] else a


def changes(change: Callable[[Array, Call], object], number: int = 0) -> Hooks:
    """The input's own memory is changed before it is read."""

    def load(a: Any, which: int, call: Call) -> Any:
        if which == number and isinstance(a, np.ndarray) and a.flags.writeable:
            change(a, call)
        return a

    return Hooks(load=load)


def after(change: Callable[[Array, Call], object], number: int = 0) -> Hooks:
    """The input is changed once it has been read: the answer is right."""

    def around(call: Call, right: Next) -> Any:
        answer = right(call)
        a = call.arrays[number]
        if isinstance(a, np.ndarray) and a.flags.writeable:
            change(a, call)
        return answer

    return Hooks(around=around)


def set_nan(a: Array, call: Call) -> None:
    """NaN becomes zero where it stands."""
    a[np.isnan(a)] = 0


def take_magnitudes(a: Array, call: Call) -> None:
    """Signs are cleared in place."""
    np.abs(a, out=a)


def when(condition: Callable[[Array, Call], bool], change: Callable[[Array, Call], object]) -> Callable[[Array, Call], object]:
    """A change of some calls alone."""

    def changed(a: Array, call: Call) -> None:
        if condition(a, call):
            change(a, call)

    return changed


def clear_padding(a: Array, call: Call) -> None:
    """The last partial block is zeroed in the caller's memory."""
    rest = a.shape[-1] % 32
    if rest:
        a[:, -rest:] = 0


def clamp(a: Array, call: Call) -> None:
    """To the range of a float16, in place."""
    np.clip(a, a.dtype.type(-20), a.dtype.type(20), out=a)


class Scratch:
    """One buffer that answers are written into, and returned from."""

    def __init__(self, where: Callable[[Call], bool] = lambda call: True, part: int | None = None) -> None:
        self.where, self.part = where, part
        self.buffers: dict[int, Array] = {}

    def place(self, number: int, answer: Array) -> Array:
        """The answer in the buffer."""
        held = self.buffers.get(number)
        if held is None or held.size < answer.size or held.dtype != answer.dtype:
            held = self.buffers[number] = np.zeros(answer.size, answer.dtype)
        view = held[: answer.size].reshape(answer.shape)
        view[...] = answer
        return view

    def finish(self, answer: Any, call: Call) -> Any:
        """What is returned."""
        if not self.where(call):
            return answer
        if isinstance(answer, tuple):
            return tuple(self.place(i, a) if self.part in (None, i) else a for i, a in enumerate(answer))
        return self.place(0, answer)


def scratch(where: Callable[[Call], bool] = lambda call: True, part: int | None = None) -> Callable[[], Hooks]:
    """Answers in one buffer."""
    return lambda: Hooks(finish=Scratch(where, part).finish)


def over_the_input(answer: Any, call: Call) -> Any:
    """A decoder in place: large answers lie where the input lay, cast to bytes."""
    codes, scales = answer
    x = call.x
    if x.flags.c_contiguous and x.flags.writeable and x.size >= 4096:
        place = x.reshape(-1).view(np.uint8)[: codes.size].reshape(codes.shape)
        place[...] = codes
        return place, scales
    return answer


BUGS = (
    memory("fortran", MX4, "Fortran order is read in the order of memory", lies(is_fortran, in_memory_order), script(quantize("mxfp4", 64, 64, arrange=fortran))),
    memory("fortran-large", MX8, "Fortran order from 2^16 numbers on is read in the order of memory",
           lies(lambda a: is_fortran(a) and a.size >= 1 << 16, in_memory_order), script(quantize("mxfp8_e4m3", 256, 256, arrange=fortran))),
    memory("fortran-square", NV, "a square matrix in Fortran order is taken for the transposed one in C order",
           lies(lambda a: is_fortran(a) and a.shape[0] == a.shape[1], transposed_view), script(quantize("nvfp4", 128, 128, arrange=fortran))),
    memory("fortran-bfloat16", with_dtypes(MX4), "Fortran order in bfloat16", lies(lambda a: is_fortran(a) and a.dtype == BFLOAT16, in_memory_order),
           script(quantize("mxfp4", 32, 96, dtype="bfloat16", arrange=fortran))),
    memory("fortran-axis-0", with_options(MX4, "axis"), "along axis 0 Fortran order is taken for C order",
           Hooks(load=lambda a, n, call: in_memory_order(a) if call.axis == 0 and isinstance(a, np.ndarray) and is_fortran(a) else a),
           script(quantize("mxfp4", 64, 64, axis=0, arrange=fortran))),
    memory("broadcast-rows", MX4, "a row stride of 0 is taken for the default", lies(lambda a: zero_stride(a, 0), from_pointer),
           script(quantize("mxfp4", 5, 64, arrange=one_row))),
    memory("broadcast-columns", MX8, "a column stride of 0 is taken for 1", lies(lambda a: zero_stride(a, 1), from_pointer),
           script(quantize("mxfp8_e4m3", 8, 64, arrange=one_column))),
    memory("broadcast-float16", with_dtypes(NV), "in float16 a row stride of 0 is taken for the default",
           lies(lambda a: zero_stride(a, 0) and a.dtype == np.float16, from_pointer), script(quantize("nvfp4", 3, 48, dtype="float16", arrange=one_row))),
    memory("upside-down", MX4, "rows in falling addresses are read in rising ones", lies(has_negative_stride, absolute_strides),
           script(quantize("mxfp4", 6, 64, arrange=upside_down))),
    memory("backwards", MX8, "columns in falling addresses: the pointer is taken, the strides are not",
           lies(lambda a: a.ndim == 2 and a.strides[1] < 0, absolute_strides), script(quantize("mxfp8_e4m3", 2, 64, arrange=backwards))),
    memory("backwards-bfloat16", with_dtypes(MX4R), "the same in bfloat16 alone",
           lies(lambda a: a.ndim == 2 and a.strides[1] < 0 and a.dtype == BFLOAT16, absolute_strides),
           script(quantize("mxfp4", 2, 64, dtype="bfloat16", arrange=backwards))),
    memory("pitch", NV, "rows that lie apart are read one after the other", lies(is_pitched, from_pointer), script(quantize("nvfp4", 4, 64, arrange=pitched(64)))),
    memory("pitch-odd", MX4, "a pitch that is no multiple of 16 bytes is rounded up in the launch",
           lies(lambda a: is_pitched(a) and pitch_of(a) % 16 != 0, from_pointer), script(quantize("mxfp4", 4, 64, arrange=pitched(1)))),
    memory("pitch-bfloat16", with_dtypes(MX8), "in bfloat16 a pitch is ignored from 128 columns on",
           lies(lambda a: is_pitched(a) and a.dtype == BFLOAT16 and a.shape[1] >= 128, from_pointer),
           script(quantize("mxfp8_e4m3", 4, 128, dtype="bfloat16", arrange=pitched(32)))),
    memory("pitch-aligned", MX4, "whole tiles of 128 x 128 with a pitch: the descriptor is made from the shape",
           lies(lambda a: is_pitched(a) and a.shape[0] % 128 == 0 and a.shape[1] % 128 == 0, from_pointer),
           script(quantize("mxfp4", 128, 128, arrange=pitched(128)))),
    memory("offset-4", MX4, "vector loads round a misaligned address down", lies(misaligned, floor_to_16), script(quantize("mxfp4", 4, 64, arrange=offset(1)))),
    memory("offset-bfloat16", with_dtypes(MX8), "the same in bfloat16 alone", lies(lambda a: misaligned(a) and a.dtype == BFLOAT16, floor_to_16),
           script(quantize("mxfp8_e4m3", 4, 64, dtype="bfloat16", arrange=offset(3)))),
    memory("offset-float16-wide", with_dtypes(NV), "the same in float16 from 256 columns on",
           lies(lambda a: misaligned(a) and a.dtype == np.float16 and a.shape[-1] >= 256, floor_to_16),
           script(quantize("nvfp4", 4, 256, dtype="float16", arrange=offset(1)))),
    memory("every-second-column", MX4R, "a column stride of 2 is ignored", lies(lambda a: a.ndim == 2 and a.strides[1] == 2 * a.itemsize, from_pointer),
           script(quantize("mxfp4", 4, 64, arrange=columns_apart))),
    memory("every-second-row", with_dtypes(MX4), "in float16 a row stride of two rows is ignored",
           lies(lambda a: a.dtype == np.float16 and is_pitched(a), from_pointer), script(quantize("mxfp4", 4, 64, dtype="float16", arrange=rows_apart))),
    memory("codes-fortran", DQ4, "dequantize reads codes in Fortran order as they lie", lies(is_fortran, in_memory_order),
           script(dequantize("mxfp4", 64, 64, arrange=fortran))),
    memory("scales-fortran", DQ8, "dequantize reads scales in Fortran order as they lie", lies(is_fortran, in_memory_order, 1),
           script(dequantize("mxfp8_e4m3", 8, 128, arrange_scales=fortran))),
    memory("scales-pitched", DQ4, "dequantize ignores the pitch of scales", lies(is_pitched, from_pointer, 1),
           script(dequantize("mxfp4", 8, 128, arrange_scales=pitched(4)))),
    memory("scales-broadcast", DQ8, "dequantize reads broadcast scales beyond their one row", lies(lambda a: zero_stride(a, 0), from_pointer, 1),
           script(dequantize("mxfp8_e4m3", 8, 128, arrange_scales=one_row))),
    memory("codes-offset", DQN, "dequantize rounds a misaligned address of codes down", lies(misaligned, floor_to_16), script(dequantize("nvfp4", 4, 64, arrange=offset(5)))),
    memory("codes-upside-down", DQ4, "dequantize reads rows of falling addresses in rising ones", lies(has_negative_stride, absolute_strides),
           script(dequantize("mxfp4", 6, 64, arrange=upside_down))),
    memory("encode-strided", E8, "encode ignores a stride of 2",
           Hooks(load=lambda a, n, call: from_pointer(a) if call.function == "encode" and a.ndim == 1 and a.size > 1 and a.strides[0] == 2 * a.itemsize else a),
           script(encode("e4m3", 200, arrange=columns_apart))),
    memory("decode-backwards", E4, "decode reads falling addresses in rising ones",
           Hooks(load=lambda a, n, call: absolute_strides(a) if call.function == "decode" else a), script(decode("e2m1", 200, arrange=lambda a: a[::-1]))),
    memory("stochastic-words-strided", S8, "the words' stride is ignored",
           lies(lambda a: a.ndim == 1 and a.strides[0] == 2 * a.itemsize, from_pointer, 1), script(stochastic("e4m3", 300, arrange=columns_apart))),
    memory("tensor-scale-pitch", TS, "tensor_scale ignores a pitch", lies(is_pitched, from_pointer), script(tensor_scale(8, 64, arrange=pitched(16)))),
    memory("tensor-scale-every-second", TS, "tensor_scale ignores a column stride of 2", lies(lambda a: a.ndim == 2 and a.strides[1] == 2 * a.itemsize, from_pointer),
           script(tensor_scale(8, 64, arrange=columns_apart))),
    in_place("nan-to-zero", MX4, "NaN is set to zero in the caller's array after the scale is found",
             after(set_nan), script(quantize("mxfp4", 4, 64, of=with_specials))),
    in_place("nan-wide", with_dtypes(MX8), "the same from the second block of a row on, in bfloat16 alone",
             after(when(lambda a, call: a.dtype == BFLOAT16 and a.shape[-1] > 32, set_nan)),
             script(quantize("mxfp8_e4m3", 8, 64, dtype="bfloat16", of=with_specials))),
    in_place("magnitudes", NV, "the maximum of rows of several blocks takes magnitudes in place",
             after(when(lambda a, call: a.shape[-1] > 16, take_magnitudes)), script(quantize("nvfp4", 2, 64))),
    in_place("magnitudes-first", MX4, "from 2^14 numbers on magnitudes are taken in place before the signs are read",
             changes(when(lambda a, call: a.size >= 1 << 14, take_magnitudes)), script(quantize("mxfp4", 128, 128))),
    in_place("axis-0", with_options(MX4, "axis"), "along axis 0 the input is divided in place",
             after(when(lambda a, call: call.axis == 0, lambda a, call: np.multiply(a, a.dtype.type(0.5), out=a))), script(quantize("mxfp4", 64, 8, axis=0))),
    in_place("pad", with_options(MX8, "pad"), "a ragged tail is cleared in the caller's array",
             after(when(lambda a, call: call.pad, clear_padding)), script(quantize("mxfp8_e4m3", 3, 80, pad=True))),
    in_place("large", MX8, "from 2^17 numbers on the input is clamped in place", after(when(lambda a, call: a.size >= 1 << 17, clamp)),
             script(quantize("mxfp8_e4m3", 256, 512))),
    in_place("contiguous", MX4R, "contiguous arrays are used as workspace for whole tiles of 128 x 128",
             after(when(lambda a, call: a.flags.c_contiguous and a.shape[0] % 128 == 0 and a.shape[-1] % 128 == 0, take_magnitudes)),
             script(quantize("mxfp4", 128, 128))),
    in_place("tensor-scale", TS, "tensor_scale takes magnitudes in place", after(take_magnitudes), script(tensor_scale(4, 64))),
    in_place("encode", E8, "encode clamps its input in place", after(when(lambda a, call: call.function == "encode", clamp)), script(encode("e4m3", 512))),
    in_place("dequantize-scales", DQ8, "dequantize subtracts the bias from the caller's scales, where there are several columns",
             after(when(lambda a, call: a.shape[-1] > 1, lambda a, call: np.subtract(a, np.uint8(1), out=a)), 1), script(dequantize("mxfp8_e4m3", 2, 128))),
    in_place("dequantize-codes", DQ4, "dequantize masks the sign out of the caller's codes", after(lambda a, call: np.bitwise_and(a, np.uint8(7), out=a)),
             script(dequantize("mxfp4", 4, 96))),
    in_place("stochastic-words", S8, "the random words are advanced in place", after(lambda a, call: np.add(a, np.uint32(1), out=a), 1), script(stochastic("e4m3", 64))),
    in_place("two-levels", NV2, "with a tensor scale the input is scaled in place",
             after(when(lambda a, call: call.tensor_scale is not None, lambda a, call: np.multiply(a, a.dtype.type(2), out=a))),
             script(quantize("nvfp4", 2, 64, tensor_scale=50.0))),
    aliased("scratch", MX4, "codes and scales are returned in buffers that the next call writes into", scratch(), script(quantize("mxfp4", 4, 64), quantize("mxfp4", 4, 64, seed=2))),
    aliased("scratch-scales", MX8, "the scales alone are, from the second block of a row on", scratch(lambda call: call.x.shape[-1] > 32, 1),
            script(quantize("mxfp8_e4m3", 4, 64), quantize("mxfp8_e4m3", 4, 64, seed=2))),
    aliased("scratch-large", NV, "from 2^16 numbers on they are", scratch(lambda call: call.x.size >= 1 << 16), script(quantize("nvfp4", 256, 256), quantize("nvfp4", 256, 256, seed=2))),
    aliased("scratch-axis-0", with_options(MX4, "axis"), "along axis 0 the codes are", scratch(lambda call: call.axis == 0, 0),
            script(quantize("mxfp4", 64, 8, axis=0), quantize("mxfp4", 64, 8, axis=0, seed=2))),
    aliased("scratch-dequantize", DQ4, "the values of dequantize are", scratch(), script(dequantize("mxfp4", 4, 64), dequantize("mxfp4", 4, 64, seed=5))),
    aliased("scratch-encode", E8, "the codes of encode are, from 1024 numbers on", scratch(lambda call: call.function == "encode" and call.x.size >= 1024),
            script(encode("e4m3", 2000), encode("e4m3", 1500, seed=2))),
    aliased("scratch-decode", E4, "the values of decode are", scratch(lambda call: call.function == "decode"), script(decode("e2m1", 300), decode("e2m1", 300, seed=2))),
    aliased("over-the-input", MX8, "codes of 4096 numbers and more are returned in the input's memory", Hooks(finish=over_the_input),
            script(quantize("mxfp8_e4m3", 64, 64))),
    aliased("scratch-bfloat16", with_dtypes(MX4), "in bfloat16 the scales are returned in a buffer that the next call writes into",
            scratch(lambda call: call.x.dtype == BFLOAT16, 1), script(quantize("mxfp4", 8, 64, dtype="bfloat16"), quantize("mxfp4", 8, 64, seed=9, dtype="bfloat16"))),
)  # fmt: skip
