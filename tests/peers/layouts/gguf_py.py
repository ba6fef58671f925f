"""gguf: ggml's blocks, both ways. Values are chosen so that gguf's quantizer keeps the codes and the scale byte."""

from __future__ import annotations

from collections.abc import Iterator

import gguf
import numpy as np

from mxspec import layouts
from mxspec.formats import E2M1, UE4M3

from tests.peers.layouts.compare import Comparison, decode_codes, encode_values, number_items

PACKAGES = ("gguf",)
_TYPES = {"ggml-mxfp4": gguf.GGMLQuantizationType.MXFP4, "ggml-nvfp4": gguf.GGMLQuantizationType.NVFP4}
#: gguf has no code 8: it writes zeros of either sign as 0.
_NO_MINUS_ZERO = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for shape in ((1, 64), (3, 128), (127, 64), (129, 192), (300, 448)):
        yield from _unpack_blocks("ggml-mxfp4", shape, 32, range(1, 254))
        yield from _unpack_blocks("ggml-nvfp4", shape, 16, range(1, 127))
        yield from _pack_blocks(shape)


def _unpack_blocks(layout: str, shape: tuple[int, int], block: int, scales: range) -> Iterator[Comparison]:
    """gguf's values of our blocks: the codes under a scale of 1, then every scale over codes of 1."""
    chosen, one = layouts.get_layout(layout), 127 if block == 32 else 0x38
    own = (shape[0], shape[1] // block)
    for codes in number_items(shape, 16):
        data = chosen.pack(np.full(own, one, np.uint8), codes)
        values = gguf.quants.dequantize(data.reshape(shape[0], -1), _TYPES[layout])
        found = encode_values(values, E2M1)
        yield Comparison(layout, "unpack", shape, np.where(codes == 8, 0, codes), found)
    for bytes_ in number_items(own, list(scales)):
        data = chosen.pack(bytes_, np.full(shape, 2, np.uint8))
        values = np.ascontiguousarray(gguf.quants.dequantize(data.reshape(shape[0], -1), _TYPES[layout]))
        wanted = decode_codes(bytes_, UE4M3) if block == 16 else np.ldexp(np.float32(1), bytes_.astype(int) - 127)
        expected = np.repeat(wanted.astype(np.float32), block, axis=1)
        yield Comparison(layout, "unpack", shape, expected.view(np.uint32), values.view(np.uint32))


def _pack_blocks(shape: tuple[int, int]) -> Iterator[Comparison]:
    """Our blocks and gguf's of the same values; one item of each block is a 4 or -4, which fixes the scale."""
    for plane, codes in enumerate(number_items(shape, _NO_MINUS_ZERO)):
        for place in range(plane, 32, 11):
            kept = codes.copy()
            kept[:, place::32] = np.where(kept[:, place::32] < 8, 6, 14)
            scales = next(iter(number_items((shape[0], shape[1] // 32), range(100, 150))))
            powers = np.ldexp(np.float32(1), scales.astype(int) - 127).astype(np.float32)
            values = decode_codes(kept, E2M1) * np.repeat(powers, 32, axis=1)
            theirs = gguf.quants.quantize(values, gguf.GGMLQuantizationType.MXFP4)
            yield Comparison("ggml-mxfp4", "pack", shape, layouts.get_layout("ggml-mxfp4").pack(scales, kept), theirs)
            split = layouts.pack(kept, "nibble-split-32")
            yield Comparison("nibble-split-32", "pack", shape, split, np.ascontiguousarray(theirs.reshape(-1, 17)[:, 1:]))
