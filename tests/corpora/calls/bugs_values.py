"""Tensor scales of NVFP4 at the ends of their range, and calls that have to be refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tests.corpora.calls.bugs_numbers import DQ4, DQ8, DQN, E4
from tests.corpora.calls.catalogue import Ask, script
from tests.corpora.calls.effects import MX4, MX8, NV, NV2, bug, with_options
from tests.corpora.calls.formats import BFLOAT16, BLOCKS, Array
from tests.corpora.calls.inputs import dequantize, numbers, quantize, quantize_array
from tests.corpora.calls.kernel import Call, Grid, Hooks, Next

level = partial(bug, "two-levels")
refusal = partial(bug, "refusals")

SMALLEST_NORMAL = 2.0**-126


def used(change: Any) -> Hooks:
    """Another tensor scale is used where there is one."""
    return Hooks(tensor_scale=lambda given, call: given if given is None else change(given, call))


def cut(value: float, bits: int) -> float:
    """The float32 with its low bits cleared."""
    return float((np.float32(value).view(np.uint32) >> np.uint32(bits) << np.uint32(bits)).view(np.float32))


def signless_overflow(values: Array, g: Grid) -> Array:
    """Inf loses its sign."""
    return np.where(np.isinf(values), np.float32(np.inf), values)


def signless_zero(values: Array, g: Grid) -> Array:
    """-0 becomes 0 where a row has several blocks."""
    return values + np.float32(0) if g.columns > 1 and g.call.tensor_scale is not None else values


def around(act: Any) -> Hooks:
    """The whole call."""
    return Hooks(around=act)


def never(call: Call) -> None:
    """Nothing is refused."""


def drop_tail(where: Any = lambda call: True) -> Hooks:
    """K // k blocks: what is left over is dropped."""

    def act(call: Call, right: Next) -> Any:
        if call.function != "quantize" or call.pad or not where(call):
            return right(call)
        k, x = BLOCKS[call.name].k, np.asarray(call.x)
        kept = x.shape[call.axis] // k * k
        whole = np.moveaxis(np.moveaxis(x, call.axis, -1)[..., :kept], -1, call.axis)
        return right(replace(call, arrays=(whole,)))

    return around(act)


def tail_of_zeros(call: Call, right: Next) -> Any:
    """Codes in x's shape, those of the tail never written."""
    x = np.asarray(call.x)
    kept = x.shape[-1] // 32 * 32
    if kept == x.shape[-1]:
        return right(call)
    codes, scales = right(replace(call, arrays=(x[:, :kept],)))
    return np.pad(codes, ((0, 0), (0, x.shape[-1] - kept))), scales


def cast(change: Any) -> Hooks:
    """Inputs of other dtypes are taken."""

    def act(call: Call, right: Next) -> Any:
        return right(replace(call, arrays=(change(np.asarray(call.x)), *call.arrays[1:])))

    return around(act)


def reinterpreted(kind: Any, dtype: Any) -> Any:
    """The first half, or twice, of the bytes of one dtype as another."""

    def change(x: Array) -> Array:
        if x.dtype != kind:
            return x
        flat = np.ascontiguousarray(x).reshape(-1).view(dtype)
        return np.resize(flat, x.shape)

    return change


def truncated(x: Array) -> Array:
    """float64 with its low 29 bits cut off: toward zero, not to the nearest float32."""
    return (
        (np.ascontiguousarray(x).view(np.uint64) >> np.uint64(29) << np.uint64(29)).view(np.float64).astype(np.float32)
        if x.dtype == np.float64
        else x
    )


def reshaped_scales(call: Call, right: Next) -> Any:
    """As many scales as there are blocks, in whatever shape."""
    codes, scales = (np.asarray(a) for a in call.arrays)
    wanted = (codes.shape[0], codes.shape[-1] // BLOCKS[call.name].k)
    return right(replace(call, arrays=(codes, scales.reshape(wanted) if scales.size == wanted[0] * wanted[1] else scales)))


def cropped_scales(call: Call, right: Next) -> Any:
    """Scales beyond the codes' blocks are not looked at, rows are taken as they come."""
    codes, scales = (np.asarray(a) for a in call.arrays)
    wanted = (codes.shape[0], codes.shape[-1] // BLOCKS[call.name].k)
    return right(replace(call, arrays=(codes, np.resize(scales, wanted))))


def dropped_codes(call: Call, right: Next) -> Any:
    """A partial block of codes is decoded to zeros."""
    codes, scales = (np.asarray(a) for a in call.arrays)
    kept = codes.shape[-1] // BLOCKS[call.name].k * BLOCKS[call.name].k
    if kept == codes.shape[-1]:
        return right(call)
    values = right(replace(call, arrays=(codes[:, :kept], scales[:, : kept // BLOCKS[call.name].k])))
    return np.pad(values, ((0, 0), (0, codes.shape[-1] - kept)))


def folded_codes(call: Call, right: Next) -> Any:
    """Bits beyond a code's width run into the sign."""
    codes = np.asarray(call.x)
    folded = (codes & 7) | np.where(codes > 7, 8, 0).astype(np.uint8)
    return right(replace(call, arrays=(folded.astype(np.uint8), *call.arrays[1:])))


def float_scales(call: Call, right: Next) -> Any:
    """Scales of any dtype are cast to bytes."""
    return right(replace(call, arrays=(call.x, np.asarray(call.arrays[1]).astype(np.uint8))))


def wrapped_axis(call: Call, right: Next) -> Any:
    """The axis modulo the dimensions."""
    return right(replace(call, axis=call.axis % np.ndim(call.x)))


def asked(fmt: str, codes: Any, scales: Any) -> Ask:
    """A dequantize of one's own arrays."""
    return Ask("dequantize", fmt, lambda: [codes(), scales()])


def some(shape: tuple[int, ...], value: int = 120) -> Any:
    """Bytes that differ."""
    return lambda: (np.arange(int(np.prod(shape))) % 8 + value).astype(np.uint8).reshape(shape)


A4 = with_options(MX4, "axis")

BUGS = (
    level("zero-is-none", DQN, "`if tensor_scale:` takes 0 for no tensor scale", Hooks(tensor_scale=lambda t, call: t or None), script(dequantize("nvfp4", 2, 32, tensor_scale=0.0))),
    level("nan-is-none", NV2, "a tensor scale that is NaN is taken for none", used(lambda t, call: None if np.isnan(t) else t), script(quantize("nvfp4", 2, 32, tensor_scale=float("nan")))),
    level("inf-clamped", NV2, "a tensor scale of Inf is clamped to FLT_MAX", used(lambda t, call: min(t, 3.4028234663852886e38)),
          script(quantize_array("nvfp4", lambda: numbers(2, 32) * np.float32(1e30), tensor_scale=float("inf")))),
    level("tiny-flushed", NV2, "a subnormal tensor scale is flushed to 0", used(lambda t, call: 0.0 if abs(t) < SMALLEST_NORMAL else t),
          script(quantize_array("nvfp4", lambda: numbers(2, 32) * np.float32(1e-41), tensor_scale=1e-40))),
    level("tiny-flushed-dequantize", DQN, "dequantize flushes a subnormal tensor scale", used(lambda t, call: 0.0 if abs(t) < SMALLEST_NORMAL else t),
          script(dequantize("nvfp4", 2, 32, tensor_scale=1e-39))),
    level("floor-1e-12", NV2, "the tensor's maximum is at least 1e-12", used(lambda t, call: max(t, 1e-12)),
          script(quantize_array("nvfp4", lambda: numbers(2, 32) * np.float32(1e-20), tensor_scale=1e-18))),
    level("held-in-float16", replace(NV2, functions=("quantize", "dequantize")), "the tensor's maximum is clamped to 65504 on the way back",
          Hooks(tensor_scale=lambda t, call: t if t is None or call.function == "quantize" else min(t, 65504.0)), script(dequantize("nvfp4", 2, 32, tensor_scale=1e6))),
    level("cut-to-tf32", NV2, "the tensor's maximum is cut to 10 mantissa bits from 64 blocks on", used(lambda t, call: cut(t, 13) if call.x.size >= 1024 else t),
          script(quantize("nvfp4", 32, 128, tensor_scale=123.456789))),
    level("cut-on-the-way-back", DQN, "dequantize cuts the tensor scale to bfloat16 where a row has several blocks",
          used(lambda t, call: cut(t, 16) if call.x.shape[-1] > 16 else t), script(dequantize("nvfp4", 2, 48, tensor_scale=123.456789))),
    level("overflow-sign", DQN, "values beyond float32 come back as +Inf whatever their sign", Hooks(output=signless_overflow), script(dequantize("nvfp4", 4, 64, tensor_scale=3e38))),
    level("zero-sign", DQN, "with a tensor scale and several blocks a row -0 comes back as 0", Hooks(output=signless_zero), script(dequantize("nvfp4", 4, 64, tensor_scale=5.0))),
    level("huge-lost", NV2, "maxima above 2^120 lose the tensor scale", used(lambda t, call: None if 2.0**120 < t < np.inf else t),
          script(quantize_array("nvfp4", lambda: numbers(2, 32) * np.float32(2.0**110), tensor_scale=2.0**121))),
    refusal("tail-16", NV, "of ragged rows K // 16 blocks are returned", drop_tail(), script(quantize("nvfp4", 3, 40))),
    refusal("tail-32", MX4, "of ragged rows K // 32 blocks are returned", drop_tail(), script(quantize("mxfp4", 3, 80))),
    refusal("tail-32-wide", MX8, "from 256 columns on they are", drop_tail(lambda call: call.x.shape[-1] > 256), script(quantize("mxfp8_e4m3", 2, 300))),
    refusal("tail-32-many", MX4, "from 128 rows on they are", drop_tail(lambda call: call.x.shape[0] >= 128), script(quantize("mxfp4", 128, 48))),
    refusal("tail-axis-0", A4, "along axis 0 they are", drop_tail(lambda call: call.axis == 0), script(quantize("mxfp4", 48, 4, axis=0))),
    refusal("tail-short-k", MX4, "K below 32: nothing is returned, and nothing raised", drop_tail(lambda call: call.x.shape[-1] < 32), script(quantize("mxfp4", 3, 16))),
    refusal("tail-of-zeros", MX8, "codes come in x's shape, and those of the tail are zero", around(tail_of_zeros), script(quantize("mxfp8_e4m3", 3, 72))),
    refusal("float64-reinterpreted", MX4, "the bytes of float64 are read as float32", cast(reinterpreted(np.float64, np.float32)),
            script(quantize_array("mxfp4", lambda: numbers(4, 64).astype(np.float64)))),
    refusal("float64-truncated", MX8, "float64 is cut to float32 toward zero", cast(truncated), script(quantize_array("mxfp8_e4m3", lambda: numbers(4, 64).astype(np.float64) + 2.0**-40))),
    refusal("int32-reinterpreted", NV, "the bytes of int32 are read as float32", cast(reinterpreted(np.int32, np.float32)),
            script(quantize_array("nvfp4", lambda: np.arange(64, dtype=np.int32).reshape(2, 32) << 24))),
    refusal("float16-as-bfloat16", MX4, "where float32 is offered alone, float16 is read as bfloat16", cast(reinterpreted(np.float16, BFLOAT16)),
            script(quantize("mxfp4", 2, 64, dtype="float16"))),
    refusal("scales-reshaped", DQ4, "scales of another shape with as many bytes are taken", around(reshaped_scales), script(asked("mxfp4", some((4, 64), 0), some((2, 4))))),
    refusal("scales-too-many", DQ8, "scales of more columns are taken as they come", around(cropped_scales), script(asked("mxfp8_e4m3", some((4, 64), 0), some((4, 3))))),
    refusal("scales-too-few", DQ4, "fewer scales are used again and again", around(cropped_scales), script(asked("mxfp4", some((4, 64), 0), some((4, 1))))),
    refusal("scales-too-few-rows", DQN, "scales of one row are used for all", around(cropped_scales), script(asked("nvfp4", some((4, 32), 0), some((1, 2), 40)))),
    refusal("scales-float", DQ8, "float32 scales are cast to bytes", around(float_scales), script(asked("mxfp8_e4m3", some((2, 64), 0), lambda: np.full((2, 2), 0.5, np.float32)))),
    refusal("codes-partial-block", DQ4, "a partial block of codes comes back as zeros", around(dropped_codes), script(asked("mxfp4", some((2, 48), 0), some((2, 1))))),
    refusal("codes-too-wide", DQ4, "bits beyond a code run into its sign", around(folded_codes), script(asked("mxfp4", some((2, 64), 16), some((2, 2))))),
    refusal("codes-too-wide-decode", E4, "decode does so, too", Hooks(around=lambda call, right: folded_codes(call, right) if call.function == "decode" else right(call)),
            script(Ask("decode", "e2m1", lambda: [np.arange(64, dtype=np.uint8)]))),
    refusal("axis-2", A4, "axis 2 of a matrix is taken modulo 2", around(wrapped_axis), script(quantize("mxfp4", 64, 64, axis=2))),
)  # fmt: skip
