"""CUTLASS: where its CuTe layouts, compiled for the host, put scales and the metadata of sparse operands."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mxspec import layouts

from tests.peers.layouts.compare import Comparison, compare_offsets
from tests.peers.layouts.sources import find_package

PACKAGES = ("nvidia-cutlass", "nvidia-cuda-cccl", "nvidia-cuda-runtime", "nvidia-cuda-crt")
_HERE = Path(__file__).resolve().parent
_SHAPES = ((1, 1), (1, 33), (127, 31), (128, 32), (129, 64), (300, 70))
#: Name in the C++ program, layout, bits of an item.
_KINDS = (
    ("scales-16", "128x4", 8), ("scales-32", "128x4", 8), ("scales-16", "128x4-zeroed", 8),
    ("f4", "cutlass3-e-narrow", 4), ("e4m3", "cutlass3-e-narrow", 4), ("e2m3", "cutlass3-e-narrow", 4),
    ("e2m1", "cutlass3-e-narrow", 4), ("f16", "cutlass3-e-16", 4),
    ("int8", "cutlass3-e-narrow", 4), ("tf32", "cutlass3-e-16", 4),
)  # fmt: skip


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    toolkit = find_package("nvidia") / "cu13" / "include"
    includes = [find_package("cutlass_library") / "source" / "include", toolkit, toolkit / "cccl"]
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "places"
        flags = ["-std=c++17", "-O1", "-w", *(f"-I{folder}" for folder in includes)]
        subprocess.run(["g++", *flags, "-o", program, _HERE / "cutlass_places.cpp"], check=True)
        for kind, layout, bits in _KINDS:
            for shape in _SHAPES:
                done = subprocess.run([program, kind, *map(str, shape)], check=True, capture_output=True, text=True)
                places = bits * np.array(done.stdout.split(), np.int64)
                yield from compare_offsets(layout, shape, lambda m, k, p=places: _check(p, m))
        for shape in ((1, 4), (16, 16), (31, 12)):
            done = subprocess.run([program, "shifted", *map(str, shape)], check=True, capture_output=True, text=True)
            codes = (np.arange(shape[0] * shape[1]) % 16).astype(np.uint8).reshape(shape)
            theirs = np.array(done.stdout.split(), np.uint8)
            yield Comparison("fp4-in-bytes-shifted", "pack", shape, layouts.pack(codes, "fp4-in-bytes-shifted"), theirs)


def _check(places: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    assert places.shape == rows.shape
    return places
