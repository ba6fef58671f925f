"""aiter on CPU torch, from a checkout: shuffles of scales and weights, its int4 bytes, and the attention kernel's FP6 order."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator

import numpy as np
import torch

from mxspec import layouts
from mxspec.formats import E2M3

from tests.peers.layouts.compare import STRADDLING, WIDE, Bytes, Comparison, compare_packed, decode_codes, fit_shapes, number_items
from tests.peers.layouts.sources import find_checkout, open_packages, stub_modules

PACKAGES = ("torch", "triton")
SOURCE_VARIABLE = "MXSPEC_AITER_SOURCE"


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    root = find_checkout(SOURCE_VARIABLE)
    # Read by Triton when it is imported.
    os.environ["TRITON_INTERPRET"] = "1"
    stub_modules("aiter", real=("aiter.ops.shuffle", "aiter.utility.fp4_utils", "aiter.ops.triton.quant.mxfp6_fmha_pack"))
    open_packages(root, "aiter", "aiter.ops", "aiter.utility", "aiter.ops.triton", "aiter.ops.triton.quant")
    shuffle, fp4, fp6 = (
        importlib.import_module(n) for n in ("aiter.ops.shuffle", "aiter.utility.fp4_utils", "aiter.ops.triton.quant.mxfp6_fmha_pack")
    )
    for shape in (*STRADDLING, (256, 8), (257, 16), (383, 17)):
        yield from compare_packed("cdna4-scale", shape, _on(fp4.e8m0_shuffle), codes=256)
    for shape in ((32, 8), (32, 9), (64, 20), (128, 8), (288, 37)):
        yield from compare_packed("a16w4-scale", shape, _on(lambda s: shuffle.shuffle_scale_a16w4(s, 1, False)), codes=256)
        if shape[1] % 8 == 0:
            both = (2 * shape[0], shape[1])
            yield from compare_packed("a16w4-scale-gate-up", both, _on(lambda s: shuffle.shuffle_scale_a16w4(s, 1, True)), codes=256)
    for shape in ((32, 4), (64, 12), (128, 8), (288, 36)):
        for own in (lambda s: shuffle.shuffle_scale_n32k4(s, 1), shuffle.shuffle_mxfp8fp4_scale, shuffle.shuffle_scale_f4):
            yield from compare_packed("n32k4", shape, _on(own), codes=256)
    for shape in ((32, 8), (64, 24), (128, 16), (288, 40)):
        yield from compare_packed("n32k8", shape, _on(lambda s: shuffle.shuffle_scale_f4(s, intype=8)), codes=256)
    for shape in ((16, 64), (16, 192), (128, 128), (304, 320)):
        yield from compare_packed("aiter-weight-16x16", shape, _on_nibbles(shuffle.shuffle_weight), codes=16)
        yield from compare_packed("aiter-weight-16x16", shape, _on_nibbles(shuffle.shuffle_weight_gfx1250), codes=16)
        yield from compare_packed("aiter-weight-16x16", shape, _on_nibbles(shuffle.shuffle_weight_f4), codes=16)
        yield from compare_packed("aiter-weight-16x16", shape, _on_nibbles(shuffle.shuffle_mxfp8fp4_b), codes=16)
    for shape in ((32, 128), (64, 384), (288, 256)):
        for layout, gate_up in (("aiter-weight-16x16", False), ("a16w4-weight-gate-up", True)):
            own = _by_experts(lambda w, g=gate_up: shuffle.shuffle_weight_a16w4(w, 16, g))
            yield from compare_packed(layout, shape, _on_nibbles(own), codes=16)
    for shape in fit_shapes("nibble-split-8", WIDE):
        signed = _on(lambda c: shuffle.pack_int8_to_packed_int4(c.view(torch.int8)))
        yield from compare_packed("nibble-split-8", shape, signed, codes=16)
    for shape in fit_shapes("nibble-low", WIDE):
        yield from compare_packed("nibble-low", shape, _on(fp4.pack_uint4), codes=16)
    yield from _compare_fields(fp6)


def _on(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Bytes], np.ndarray]:
    return lambda items: function(torch.from_numpy(np.ascontiguousarray(items))).contiguous().view(torch.uint8).numpy()


def _by_experts(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of [experts, rows, bytes], for one expert."""
    return lambda matrix: function(matrix[None])


def _on_nibbles(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Bytes], np.ndarray]:
    """A function of bytes that hold two codes each."""
    return lambda codes: _on(function)(layouts.pack(codes, "nibble-low").reshape(codes.shape[0], -1))


def _compare_fields(fp6: object) -> Iterator[Comparison]:
    """The kernel that packs Q and K, under Triton's interpreter, on blocks that hold a 4 to 7.5: the scale is then 1."""
    order = torch.from_numpy(fp6._qk_field_perm())  # type: ignore[attr-defined]
    for shape in ((1, 32), (31, 96), (129, 160)):
        blocks = shape[0] * shape[1] // 32
        for plane, codes in enumerate(number_items(shape, [c for c in range(64) if c != 32])):
            for place in range(plane, 32, 13):
                kept = codes.copy()
                kept[:, place::32] |= 24
                values = torch.from_numpy(decode_codes(kept, E2M3))
                data, scales = torch.zeros(blocks * 24, dtype=torch.uint8), torch.zeros(blocks, dtype=torch.uint8)
                kernel = fp6._pack_qk_fp6_kernel[(-(-blocks // 16),)]  # type: ignore[attr-defined]
                kernel(values, data, scales, order, shape[1], shape[1] // 32, blocks, BLOCK_N=16)
                assert (scales == 127).all()
                yield Comparison("fp6-interleave-16", "pack", shape, layouts.pack(kept, "fp6-interleave-16"), data.numpy())
