"""compressed-tensors: FP4 and FP6 bytes, the integers of one to eight bits, and its reader of AutoAWQ checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from compressed_tensors.compressors.mxfp6.helpers import pack_fp6_to_uint8, unpack_fp6_from_uint8
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter

from mxspec import layouts
from mxspec.formats import E2M1, E2M3

from tests.peers.layouts.compare import (
    STRADDLING,
    WIDE,
    Bytes,
    Comparison,
    compare_packed,
    compare_unpacked,
    decode_codes,
    encode_values,
    fit_shapes,
    number_items,
)

PACKAGES = ("torch", "compressed-tensors")


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for shape in fit_shapes("nibble-low", WIDE):
        yield from compare_packed(
            "nibble-low", shape, lambda c: pack_fp4_to_uint8(torch.from_numpy(decode_codes(c, E2M1))).numpy(), codes=16
        )
        yield from compare_unpacked("nibble-low", shape, lambda d, s=shape: _unpack_fp4(d, s), codes=16)
    for shape in fit_shapes("fp6-le", WIDE):
        yield from compare_packed("fp6-le", shape, lambda c: pack_fp6_to_uint8(torch.from_numpy(decode_codes(c, E2M3))).numpy(), codes=64)
        yield from compare_unpacked("fp6-le", shape, lambda d, s=shape: _unpack_fp6(d, s), codes=64)
    for bits in range(1, 9):
        for shape in (*STRADDLING, (3, 11), (5, 31), (2, 32), (7, 33), (3, 64), (4, 65)):
            yield from compare_packed(f"ct-int{bits}", shape, lambda c, b=bits: _pack_int(c, b), codes=1 << bits)
            yield from compare_unpacked(f"ct-int{bits}", shape, lambda d, b=bits, s=shape: _unpack_int(d, b, s), codes=1 << bits)
    for shape in fit_shapes("gptq", WIDE):
        yield from compare_packed("gptq", shape, lambda c: _pack_int(c.T, 4, 0), codes=16)
        if shape[1] > 8:  # of a single row of words its reader takes a view that torch refuses
            yield from compare_unpacked("gptq", shape, lambda d, s=shape: _unpack_int(d, 4, s[::-1], 0).T, codes=16)
    for shape in fit_shapes("awq", WIDE):
        yield from _unpack_awq(shape)


def _unpack_fp4(data: Bytes, shape: tuple[int, int]) -> Bytes:
    values = unpack_fp4_from_uint8(torch.from_numpy(data), *shape, dtype=torch.float32)
    return encode_values(values.numpy(), E2M1)


def _unpack_fp6(data: Bytes, shape: tuple[int, int]) -> Bytes:
    values = unpack_fp6_from_uint8(torch.from_numpy(data), *shape, dtype=torch.float32)
    return encode_values(values.numpy(), E2M3)


def _pack_int(codes: Bytes, bits: int, axis: int = 1) -> np.ndarray:
    values = (codes.astype(np.int16) - (1 << (bits - 1))).astype(np.int8)
    packed: np.ndarray = pack_to_int32(torch.from_numpy(values), bits, packed_dim=axis).numpy()
    return packed


def _unpack_int(data: Bytes, bits: int, shape: tuple[int, ...], axis: int = 1) -> np.ndarray:
    words = data.view("<i4").reshape((shape[0], -1) if axis == 1 else (-1, shape[1]))
    values = unpack_from_int32(torch.from_numpy(words.copy()), bits, torch.Size(shape), packed_dim=axis).numpy()
    return (values.astype(np.int16) + (1 << (bits - 1))).astype(np.uint8)


def _unpack_awq(shape: tuple[int, int]) -> Iterator[Comparison]:
    """Its reader, of weights [K, N / 8] and of zero points [G, N / 8]."""
    for codes in number_items(shape, 16):
        weight, zeros = layouts.pack(codes, "awq"), layouts.pack(np.ascontiguousarray(codes.T), "awq-zeros")
        words = [torch.from_numpy(w.view("<i4").reshape(shape[1], -1).copy()) for w in (weight, zeros)]
        found = AutoAWQConverter.reverse_awq_order(*AutoAWQConverter.unpack_awq(*words, 4), 4)
        yield Comparison("awq", "unpack", shape, layouts.unpack(weight, "awq", shape), found[0].numpy().T & 15)
        back = layouts.unpack(zeros, "awq-zeros", shape[::-1])
        yield Comparison("awq-zeros", "unpack", shape[::-1], back, found[1].numpy() & 15)
