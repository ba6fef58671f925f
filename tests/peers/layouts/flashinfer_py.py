"""FlashInfer on the CPU: its row shuffles, its readers and writers of 128 x 4 tiles, and its own places in 8 x 4 tiles.

The 8 x 4 places are computed by the Python function that its CuTe kernels are made of, on whole numbers: the compiler's
decorators are mocked, the arithmetic is FlashInfer's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import torch
from flashinfer.diffusion_ops.minimax_h3_fc1_swiglu import _swizzle_sf_128x4
from flashinfer.gemm.gemm_bf16_fp4 import _unswizzle_sf_128x4
from flashinfer.quantization.fp4_quantization import shuffle_matrix_a

from tests.peers.layouts.compare import STRADDLING, Comparison, compare_offsets, compare_packed, compare_unpacked
from tests.peers.layouts.sources import find_package, load_file, stub_modules

PACKAGES = ("torch", "flashinfer-python")


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for layout, block, epilogue in (("row-shuffle-32", 32, 128), ("row-shuffle-32", 32, 256), ("row-shuffle-16", 16, 64)):
        for rows, columns in ((1, 1), (2, 5), (5, 127), (9, 64)):
            yield from compare_packed(
                layout, (rows * block, columns),
                lambda b, e=epilogue: shuffle_matrix_a(torch.from_numpy(b), e).numpy(), codes=256,
            )  # fmt: skip
    for shape in (*STRADDLING, (256, 8), (383, 17)):
        for layout in ("128x4", "128x4-zeroed"):
            yield from compare_packed(layout, shape, lambda s: _swizzle_sf_128x4(torch.from_numpy(s)).numpy(), codes=256)
            yield from compare_unpacked(layout, shape, lambda d, s=shape: _unswizzle_sf_128x4(torch.from_numpy(d), *s).numpy(), codes=256)
    places = _load_places()
    for shape in (*STRADDLING, (9, 8), (16, 16), (383, 17)):
        columns = -(-shape[1] // 4) * 4
        yield from compare_offsets(
            "128x4", shape, lambda m, c, w=columns: 8 * np.asarray(places.compute_sf_index_swizzled_128x4_gpu(m, c, w))
        )
        yield from compare_offsets("8x4", shape, lambda m, c, w=columns: 8 * np.asarray(places.compute_sf_index_swizzled_8x4_gpu(m, c, w)))
        yield from compare_offsets("row-major", shape, lambda m, c, w=shape[1]: 8 * np.asarray(places.compute_sf_index_linear_gpu(m, c, w)))


def _load_places() -> ModuleType:
    for name in [n for n in sys.modules if n.partition(".")[0] == "cutlass"]:
        del sys.modules[name]
    stub_modules("cutlass", "flashinfer.cute_dsl", "flashinfer.quantization.nvfp4_quantization_utils")
    import cutlass
    import cutlass.cute
    import cutlass.cutlass_dsl

    cutlass.Int32 = lambda x: x
    cutlass.cute.jit = lambda function: function
    cutlass.cutlass_dsl.dsl_user_op = lambda function: function
    path = find_package("flashinfer") / "quantization" / "quantization_cute_dsl_utils.py"
    return load_file("flashinfer.quantization.places", path)
