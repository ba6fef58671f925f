"""Kernels as the package launches them, run on a host: plans, grids and all that threads do, compiled by g++."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mxspec_gpu import plans
from mxspec_gpu.build import KernelSource
from mxspec_gpu.host import find_compiler
from mxspec_gpu.launch import Kernel

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "gpu" / "mxspec_gpu" / "kernels"
_FLAGS = ("-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-w", "-include", str(ROOT / "tests" / "cuda_on_host.h"))
_ENTRY = """#include "{file}"
extern "C" void run(unsigned across, unsigned down, unsigned threads, void** parameters) {{
  host::launch(mx::{function}, across, down, threads, parameters);
}}
"""


class HostKernel(Kernel):
    """A kernel in a library of the host."""

    def __init__(self, source: KernelSource, types: str, device: int) -> None:
        self.source = source
        self._pack = struct.Struct("@" + types)
        self._offsets = [struct.calcsize("@" + types[: i + 1]) - struct.calcsize(types[i]) for i in range(len(types))]
        self._folder = tempfile.TemporaryDirectory(prefix="mxspec-host-kernel-")
        folder = Path(self._folder.name)
        for name, text in (*source.generated, ("entry.cpp", _ENTRY.format(file=source.file, function=source.function))):
            (folder / name).write_text(text, "utf-8")
        defines = [f"-D{name}={value}" for name, value in source.defines]
        command = [
            find_compiler(),
            *_FLAGS,
            *defines,
            f"-I{folder}",
            f"-I{KERNELS}",
            "-o",
            str(folder / "kernel.so"),
            str(folder / "entry.cpp"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        self._run = ctypes.CDLL(str(folder / "kernel.so")).run

    def launch(self, grid: tuple[int, int], threads: int, stream: int, *parameters: int) -> None:
        """Run it."""
        _, addresses = self.pack(parameters)
        self._run(grid[0], grid[1], threads, addresses)


@lru_cache(maxsize=64)
def host_kernel(source: KernelSource, types: str, device: int) -> HostKernel:
    """A kernel, compiled once."""
    return HostKernel(source, types, device)


def _zero(size: int) -> plans.Launch:
    return lambda x, codes, scales, tensor, random, seed, bits, stream: ctypes.memset(scales, 0, size) and None


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans whose kernels are the host's, of compute capability 9.0."""
    monkeypatch.setattr(plans, "get_kernel", host_kernel)
    monkeypatch.setattr(plans, "find_arch", lambda device: "sm_90")
    monkeypatch.setattr(plans, "zero_scales", _zero)


def run_quantize(
    x: npt.NDArray[Any], fmt: str, profile: str, *, axis: int = -1, scale_layout: str = "row-major", pad: bool = False, tensor: int | None = None,
    seed: int | None = None, square: bool = False,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:  # fmt: skip
    """The packed codes and the scales that a call writes; tensor: the bits of the tensor scale."""
    dtype, item = str(x.dtype), x.itemsize
    strides = tuple(s // item for s in x.strides)
    address = x.ctypes.data
    plan = plans.make_plan(
        x.shape, strides, dtype, 0, address % 16, fmt, profile, axis % x.ndim, tensor is not None, scale_layout, 0 if seed is None else 3,
        pad, None, square,
    )  # fmt: skip
    outputs = [_Guarded(shape) for shape in (plan.codes_shape, plan.scales_shape)]
    for launch in plan.launches:
        launch(address, *(out.array.ctypes.data for out in outputs), 0, 0, seed or 0, tensor or 0, 0)
    assert all(out.is_intact() for out in outputs), "wrote outside its outputs"
    return outputs[0].array, outputs[1].array


class _Guarded:
    """An output at a multiple of 16 bytes, in which and around which no byte is zero."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        size = int(np.prod(shape))
        self.memory = np.full(size + 528, 0xA5, np.uint8)
        self.start = 256 + -self.memory.ctypes.data % 16
        self.array = self.memory[self.start : self.start + size].reshape(shape)

    def is_intact(self) -> bool:
        """Whether nobody wrote around it."""
        end = self.start + self.array.size
        return bool((self.memory[: self.start] == 0xA5).all() and (self.memory[end:] == 0xA5).all())
