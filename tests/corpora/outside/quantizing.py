"""Quantizers that are wrong in rare calls, for rare numbers, after other calls, or because too little is kept of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.corpora.outside.entry import DTYPES, Array, Call, Members, enter, offers, quantize, quantizer, read, remembered, with_options


# Sizes.
def in_calls(is_one: Callable[[Call], bool], where: Any = -1) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        if call.whole and is_one(call):
            call.spoil(where)

    return change


def grid(call: Call) -> int:
    return int(call.scales.size)


SIZES: dict[str, tuple[str, Callable[[Call], bool]]] = {
    "blocks-1-mod-256": ("one block in the last CTA of 256", lambda c: grid(c) > 256 and grid(c) % 256 == 1),
    "k-above-a-power": (
        "K is a power of two and one block, from 288 on",
        lambda c: c.columns >= 288 and ((c.columns - c.k) & (c.columns - c.k - 1)) == 0,
    ),
    "k-18944": ("K = 18944", lambda c: c.columns == 18944),
}
for _name, (_story, _is_one) in SIZES.items():
    enter(f"size-{_name}", "sizes", f"{_story}: the last block is wrong", quantizer(in_calls(_is_one)))
    if _name != "k-18944":
        enter(f"size-{_name}-bfloat16", "sizes", f"in bfloat16, {_story}: the last block is wrong",
              quantizer(in_calls(lambda c, is_one=_is_one: c.x.dtype.name == "bfloat16" and is_one(c)), DTYPES=DTYPES))  # fmt: skip
        enter(f"size-{_name}-first", "sizes", f"{_story}: the first block is wrong", quantizer(in_calls(_is_one, 0), ("nvfp4",)))


# What answers are kept by.
def kept_by(key: Callable[..., Any], formats: tuple[str, ...] = ("mxfp4",), *options: str, **members: Any) -> Callable[[], Members]:
    return lambda: {"FORMATS": list(formats), "quantize": with_options(remembered(quantize, key), *options), **members}


KEYS: dict[str, tuple[str, Callable[[], Members]]] = {
    "without-dtype": ("bytes and shape, without the dtype", kept_by(lambda x, fmt: (read(x), x.shape), DTYPES=DTYPES)),
    "without-axis": ("bytes and shape, without the axis", kept_by(lambda x, fmt, axis=-1: (read(x), x.shape), ("mxfp4",), "axis")),
    "tensor-scale-three-digits": ("bytes, and the tensor scale in three digits", kept_by(lambda x, fmt, tensor_scale=None: (read(x), x.shape, None if tensor_scale is None else f"{float(tensor_scale):.3g}"), ("nvfp4",), "tensor_scale", TENSOR_SCALE="amax")),
    "without-block": ("bytes and shape, without the form of blocks", kept_by(lambda x, fmt, block=None: (read(x), x.shape), ("nvfp4",), "block")),
    "float16": ("bytes in float16", kept_by(lambda x, fmt: (read(x.astype(np.float16)), x.shape))),
    "by-equality": ("shape, and numbers that are equal as numbers: -0 is 0", kept_by(lambda x, fmt: (x.shape, read(np.asarray(x) + np.float32(0))), ("mxfp8_e4m3",))),
}  # fmt: skip
for _name, (_story, _make) in KEYS.items():
    enter(f"kept-{_name}", "caches", f"answers are kept by {_story}", _make)


# Memory.
@offers("memory", "answers lie in an arena that begins anew every 64 calls")
def memory_arena() -> Members:
    arena: list[Array] = []
    count = [0]

    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        if codes.size + scales.size > 1 << 14:
            return codes, scales
        if not arena:
            arena.extend(np.zeros((2, 1 << 14), np.uint8) for _ in range(64))
        home = arena[count[0] % 64]
        count[0] += 1
        home[0, : codes.size], home[1, : scales.size] = codes.reshape(-1), scales.reshape(-1)
        return home[0, : codes.size].reshape(codes.shape), home[1, : scales.size].reshape(scales.shape)

    return {"FORMATS": ["mxfp4"], "quantize": called}


@offers("memory", "the input of a call is cleared in the next one")
def memory_input_cleared_later() -> Members:
    kept: list[Array] = []

    def called(x: Array, fmt: str) -> Any:
        answer = quantize(x, fmt)
        while kept:
            old = kept.pop()
            if old.flags.writeable:
                old[...] = 0
        kept.append(x)
        return answer

    return {"FORMATS": ["mxfp4"], "quantize": called}


@offers("memory", "read-only inputs are read as if they were contiguous")
def memory_read_only_contiguous() -> Members:
    def called(x: Array, fmt: str) -> Any:
        if not x.flags.writeable and not x.flags.c_contiguous and x.flags.f_contiguous:
            x = np.ascontiguousarray(x.T).reshape(x.shape)
        return quantize(x, fmt)

    return {"FORMATS": ["mxfp4"], "quantize": called}
