"""MLX on the CPU: the words of its FP4 and FP8 modes and of the affine integers of every width, both ways."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx
import numpy as np

from mxspec import layouts
from mxspec.formats import E2M1, E4M3

from tests.peers.layouts.compare import Bytes, Comparison, decode_codes, encode_values, number_items

PACKAGES = ("mlx",)
#: Affine codes of so many bits, and the layouts that hold them where rows are whole words.
_AFFINE = {2: "ct-int2", 3: "ct-int3", 4: "nibble-low", 5: "ct-int5", 6: "fp6-le", 8: "bytes"}


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for shape in ((1, 32), (8, 64), (127, 96), (128, 128), (129, 32), (300, 448)):
        for bits, layout in _AFFINE.items():
            yield from _unpack_affine(layout, bits, shape)
            yield from _pack_affine(layout, bits, shape)
        yield from _unpack_mode("nibble-low", "mxfp4", 32, shape)
        yield from _unpack_mode("nibble-low", "nvfp4", 16, shape)
        yield from _unpack_mode("bytes", "mxfp8", 32, shape)
        yield from _pack_fp4(shape)
        yield from _unpack_scales(shape)


def _words(data: Bytes, rows: int) -> mx.array:
    return mx.array(data.view("<u4").reshape(rows, -1))


def _bytes(words: mx.array) -> Bytes:
    return np.ascontiguousarray(np.array(words)).reshape(-1).view(np.uint8)


def _unpack_affine(layout: str, bits: int, shape: tuple[int, int]) -> Iterator[Comparison]:
    ones = mx.ones((shape[0], shape[1] // 32), mx.float32)
    for codes in number_items(shape, 1 << bits):
        data = layouts.pack(codes, layout)
        values = mx.dequantize(_words(data, shape[0]), ones, mx.zeros_like(ones), group_size=32, bits=bits)
        yield Comparison(layout, "unpack", shape, layouts.unpack(data, layout, shape), np.array(values).astype(np.int64))


def _pack_affine(layout: str, bits: int, shape: tuple[int, int]) -> Iterator[Comparison]:
    """MLX's words of values that are codes: the codes that it means are read back from its own scale and bias."""
    for codes in number_items(shape, 1 << bits):
        wanted = codes.copy()
        # Lowest and highest code in each group: MLX's scale is then 1 or -1.
        wanted[:, ::32], wanted[:, 1::32] = 0, (1 << bits) - 1
        words, scales, biases = mx.quantize(mx.array(wanted.astype(np.float32)), group_size=32, bits=bits)
        scale, bias = (np.repeat(np.array(a), 32, axis=1) for a in (scales, biases))
        meant = (wanted - bias) / scale
        yield Comparison(layout, "pack", shape, layouts.pack(meant.astype(np.uint8), layout), _bytes(words))


def _unpack_mode(layout: str, mode: str, group: int, shape: tuple[int, int]) -> Iterator[Comparison]:
    fmt, bits = (E4M3, 8) if mode == "mxfp8" else (E2M1, 4)
    one = 0x38 if mode == "nvfp4" else 127
    scales = mx.array(np.full((shape[0], shape[1] // group), one, np.uint8))
    finite = [c for c in range(1 << bits) if c & 0x7F != 0x7F]
    for codes in number_items(shape, finite):
        data = layouts.pack(codes, layout)
        values = mx.dequantize(_words(data, shape[0]), scales, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        yield Comparison(layout, "unpack", shape, codes, encode_values(np.array(values), fmt))


def _pack_fp4(shape: tuple[int, int]) -> Iterator[Comparison]:
    """MLX's words of values under a scale of 1: each block holds a 6 or -6. Zeros have no sign in MLX."""
    for plane, codes in enumerate(number_items(shape, (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15))):
        for place in range(plane, 32, 11):
            kept = codes.copy()
            kept[:, place::32] = np.where(kept[:, place::32] < 8, 7, 15)
            words, scales = mx.quantize(mx.array(decode_codes(kept, E2M1)), group_size=32, bits=4, mode="mxfp4")
            assert (np.array(scales) == 127).all()
            yield Comparison("nibble-low", "pack", shape, layouts.pack(kept, "nibble-low"), _bytes(words))


def _unpack_scales(shape: tuple[int, int]) -> Iterator[Comparison]:
    """Which value MLX multiplies by which scale byte: row-major, one for each 32 columns."""
    own = (shape[0], shape[1] // 32)
    ones = _words(layouts.pack(np.full(shape, 2, np.uint8), "nibble-low"), shape[0])
    for scales in number_items(own, list(range(1, 254))):
        data = layouts.pack(scales, "row-major")
        values = mx.dequantize(ones, mx.array(data.reshape(own)), group_size=32, bits=4, mode="mxfp4", dtype=mx.float32)
        found = (np.ascontiguousarray(np.array(values)).view(np.uint32) >> 23).astype(np.uint8)
        expected = np.repeat(layouts.unpack(data, "row-major", own), 32, axis=1)
        yield Comparison("row-major", "unpack", shape, expected, found)
