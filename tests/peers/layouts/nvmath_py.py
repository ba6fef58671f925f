"""nvmath: its offset of a block scale, for rows and columns in whole tiles as it demands, and its documented examples."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import numpy as np

from tests.peers.layouts.compare import Comparison, compare_offsets
from tests.peers.layouts.sources import find_package, open_packages, stub_modules

PACKAGES = ("nvmath-python",)
_HELPERS = "nvmath.linalg.advanced.helpers"


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    parts, root = _HELPERS.split("."), find_package("nvmath").parent
    stub_modules("nvmath", real=(f"{_HELPERS}.matmul",))
    open_packages(root, *(".".join(parts[: n + 1]) for n in range(len(parts))))
    matmul = importlib.import_module(f"{_HELPERS}.matmul")

    def places(m: np.ndarray, c: np.ndarray, shape: tuple[int, int], block: int) -> np.ndarray:
        found = matmul._validate_shape_axes_block_scaling_format
        matmul._validate_shape_axes_block_scaling_format = lambda *_: ((shape[0], shape[1] * block), -2, -1, None, block)
        try:
            return 8 * np.asarray(matmul.get_block_scale_offset((m, c), None, None))
        finally:
            matmul._validate_shape_axes_block_scaling_format = found

    assert places(np.array(5), np.array(2), (128, 8), 16) == 8 * 82
    assert places(np.array(5), np.array(5), (128, 8), 16) == 8 * 593
    for shape in ((128, 4), (128, 8), (256, 12), (384, 20)):
        for block in (16, 32):
            yield from compare_offsets("128x4", shape, lambda m, c, s=shape, b=block: places(m, c, s, b))
