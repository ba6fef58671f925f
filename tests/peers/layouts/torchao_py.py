"""torchao: nibbles and the 128 x 4 scale tiles, both ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torchao.prototype.mx_formats.kernels import pack_uint4, unpack_uint4
from torchao.prototype.mx_formats.utils import from_blocked, to_blocked

from tests.peers.layouts.compare import STRADDLING, WIDE, Comparison, compare_packed, compare_unpacked, fit_shapes

PACKAGES = ("torch", "torchao")


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for shape in fit_shapes("nibble-low", WIDE):
        half = (shape[0], shape[1] // 2)
        yield from compare_packed("nibble-low", shape, lambda c: pack_uint4(torch.from_numpy(c)).numpy(), codes=16)
        yield from compare_unpacked(
            "nibble-low", shape, lambda d, half=half: unpack_uint4(torch.from_numpy(d.reshape(half))).numpy(), codes=16
        )
    for shape in (*STRADDLING, (128, 5), (256, 8), (383, 17)):
        for layout in ("128x4", "128x4-zeroed"):
            yield from compare_packed(layout, shape, lambda s: to_blocked(torch.from_numpy(s)).numpy(), codes=256)
            yield from compare_unpacked(
                layout, shape,
                lambda d, shape=shape: np.ascontiguousarray(from_blocked(torch.from_numpy(d), *shape).numpy()), codes=256,
            )  # fmt: skip
