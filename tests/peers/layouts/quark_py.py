"""Quark: FP4 and FP6 bytes, its blocks with the exponent in front, and AWQ words; both ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from quark.torch.utils.pack import Pack_4_bits, Pack_fp4, Pack_fp6, Pack_mxfp4, Pack_mxfp6, _pack, _unpack

from mxspec import layouts
from mxspec.formats import E2M1, E2M3, E3M2, ElementFormat

from tests.peers.layouts.compare import (
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

PACKAGES = ("torch", "amd-quark")
_FP4, _FP6 = Pack_fp4(None, "fp4"), {E2M3: (2, 3), E3M2: (3, 2)}


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for shape in fit_shapes("nibble-low", WIDE):
        yield from compare_packed(
            "nibble-low", shape, lambda c: _FP4.pack(torch.from_numpy(decode_codes(c, E2M1)), False).numpy(), codes=16
        )
        yield from compare_unpacked("nibble-low", shape, lambda d, s=shape: _unpack_with(_FP4, d, s, E2M1), codes=16)
        # Its helper packs the upper nibble first; its own FP4 classes do not use it.
        yield from compare_packed("nibble-high", shape, lambda c: _pack(torch.from_numpy(c), 4).numpy(), codes=16)
        yield from compare_unpacked(
            "nibble-high", shape, lambda d, s=shape: _unpack(torch.from_numpy(d.reshape(s[0], -1)), 4).numpy(), codes=16
        )
    for fmt, bits in _FP6.items():
        packer = Pack_fp6(None, fmt.name, *bits)
        for shape in fit_shapes("fp6-le", WIDE, tile=(1, 32)):
            yield from compare_packed(
                "fp6-le", shape, lambda c, f=fmt, p=packer: p.pack(torch.from_numpy(decode_codes(c, f)), False).numpy(), codes=64
            )  # fmt: skip
            yield from compare_unpacked("fp6-le", shape, lambda d, s=shape, f=fmt, p=packer: _unpack_with(p, d, s, f), codes=64)
    yield from _compare_blocks("quark-mxfp4", Pack_mxfp4(None, "mx"), E2M1)
    for fmt, bits in _FP6.items():
        yield from _compare_blocks("quark-mxfp6", Pack_mxfp6(None, "mx", *bits), fmt)
    awq = Pack_4_bits("per_group", "uint4")
    for shape in fit_shapes("awq", WIDE):
        yield from compare_packed("awq", shape, lambda c: awq.pack(torch.from_numpy(c.astype(np.int32)), True).numpy(), codes=16)
        yield from compare_unpacked(
            "awq", shape,
            lambda d, s=shape: awq.unpack(torch.from_numpy(d.view("<i4").reshape(s[1], -1).copy()), True).numpy(), codes=16,
        )  # fmt: skip


def _unpack_with(packer: Pack_fp4 | Pack_fp6, data: Bytes, shape: tuple[int, int], fmt: ElementFormat) -> Bytes:
    return encode_values(packer.unpack(torch.from_numpy(data.reshape(shape[0], -1)), False).numpy(), fmt)


def _compare_blocks(layout: str, packer: Pack_mxfp4 | Pack_mxfp6, fmt: ElementFormat) -> Iterator[Comparison]:
    """Blocks of a scale and 32 values, as Quark hands them to its packer. Scales from 2^-126 on: below, its log2 clamps."""
    chosen = layouts.get_layout(layout)
    for shape in ((1, 32), (3, 64), (127, 96), (129, 32), (300, 224)):
        own = (shape[0], shape[1] // 32)
        planes = list(number_items(shape, fmt.code_count))
        for n, codes in enumerate(planes):
            scales = list(number_items(own, range(1, 255)))[-1 - n % 2]
            data = chosen.pack(scales, codes)
            powers = np.ldexp(np.float32(1), scales.astype(int) - 127).astype(np.float32)
            blocks = np.concatenate([powers[..., None], decode_codes(codes, fmt).reshape(*own, 32)], axis=-1)
            theirs = packer.pack(torch.from_numpy(blocks.reshape(shape[0], -1)), False).numpy()
            yield Comparison(layout, "pack", shape, data, np.ascontiguousarray(theirs).reshape(-1))
            back = packer.unpack(torch.from_numpy(data.reshape(shape[0], -1)), False).numpy().reshape(*own, 33)
            ours = chosen.unpack(data, shape)
            yield Comparison(layout, "unpack", shape, ours[1], encode_values(back[..., 1:].reshape(shape), fmt))
            exponent = (np.ascontiguousarray(back[..., 0]).view(np.uint32) >> 23).astype(np.uint8)
            yield Comparison(layout, "unpack", own, ours[0], exponent)
            if layout == "quark-mxfp6":
                planes_only = np.ascontiguousarray(theirs.reshape(-1, 25)[:, 1:]).reshape(-1)
                yield Comparison("fp6-planes", "pack", shape, layouts.pack(codes, "fp6-planes"), planes_only)
