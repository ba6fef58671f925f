"""triton_kernels at a commit whose torch_utils packs halves of an axis, from a checkout: both ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from tests.peers.layouts.compare import Bytes, Comparison, compare_packed, compare_unpacked
from tests.peers.layouts.sources import find_checkout, load_file

PACKAGES = ("torch",)
SOURCE_VARIABLE = "MXSPEC_TRITON_HALVES_SOURCE"
_FILE = "python/triton_kernels/triton_kernels/tensor_details/layout_details/torch_utils.py"


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    halves = load_file("triton_kernels_halves", find_checkout(SOURCE_VARIABLE) / _FILE)
    for shape in ((1, 2), (31, 6), (127, 64), (300, 130)):
        yield from compare_packed(
            "nibble-halves", shape, lambda c: np.ascontiguousarray(halves.pack(_tensor(c), -1, True).numpy()), codes=16
        )
        yield from compare_unpacked(
            "nibble-halves", shape, lambda d, s=shape: halves.unpack(_tensor(d.reshape(s[0], -1)), -1, True).numpy(), codes=16
        )


def _tensor(matrix: Bytes) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix))
