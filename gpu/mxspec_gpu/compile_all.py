"""Compile every instantiation into the cache: `python -m mxspec_gpu.compile_all [--arch ARCH ...] [--jobs N]`.

No GPU is needed. Kernels that were never called are then loaded without compiling.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from mxspec_gpu.build import ARCHITECTURES, KernelSource, OldGpuError, cache_folder, find_cubin
from mxspec_gpu.fp8 import list_group_kernels
from mxspec_gpu.fused import list_norm_kernels
from mxspec_gpu.kernels import LEVELS, list_expert_kernels, list_instantiations
from mxspec_gpu.product_kernels import list_product_kernels
from mxspec_gpu.step_kernels import list_step_kernels
from mxspec_gpu.tiles import list_tile_kernels


def _build(source: KernelSource, arch: str) -> int:
    try:
        return find_cubin(source, arch).stat().st_size
    except OldGpuError:
        return 0


def build_all(sources: Sequence[KernelSource], arch: str, jobs: int) -> list[int]:
    """Compile sources that are not in the cache, in processes; the cubins' sizes, 0 of a kernel that the target lacks instructions for."""
    with ProcessPoolExecutor(jobs) as pool:
        sizes = []
        for i, size in enumerate(pool.map(partial(_build, arch=arch), sources, chunksize=4), 1):
            sizes.append(size)
            if sys.stderr.isatty():
                print(f"\r{arch}: {i} of {len(sources)}", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    return sizes


def main() -> int:
    """Compile and say how much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", nargs="*", default=["sm_90"], choices=ARCHITECTURES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    sources = [
        *list_instantiations(LEVELS),
        *list_expert_kernels(LEVELS),
        *list_norm_kernels(LEVELS),
        *list_product_kernels(),
        *list_step_kernels(),
        *list_tile_kernels(),
        *list_group_kernels(),
    ]
    for arch in options.arch:
        sizes = build_all(sources, arch, options.jobs)
        refused = f", {sizes.count(0)} refused" if 0 in sizes else ""
        print(f"{arch}: {len(sizes)} kernels{refused}, {sum(sizes) / 1e6:.1f} MB in {cache_folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
