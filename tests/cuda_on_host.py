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

from mxspec.elements import code_dtype
from mxspec.profiles import Profile
from mxspec.rcp_table import load_rcp_table
from mxspec_gpu import api, fused as fused_module, plans
from mxspec_gpu.arguments import find_layout
from mxspec_gpu.build import KernelSource
from mxspec_gpu.fused import plan_fused, plan_norm
from mxspec_gpu.host import find_compiler
from mxspec_gpu.launch import Kernel
from mxspec_gpu.rules import KernelRules, generate_rules

from tests.gpu.arithmetic import DTYPES

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "gpu" / "mxspec_gpu" / "kernels"
#: No unique symbols: shared memory of an inline function, whose size follows from the threads, would be one for all kernels of a process.
_FLAGS = (
    "-std=c++17", "-O1", "-ffp-contract=off", "-fno-gnu-unique", "-fPIC", "-shared", "-w", "-include", str(ROOT / "tests" / "cuda_on_host.h"),
)  # fmt: skip
_ENTRY = """#include "{file}"
extern "C" void run(unsigned across, unsigned down, unsigned threads, void** parameters) {{
  host::launch(mx::{function}, across, down, threads, parameters);
}}
extern "C" void set_rcp_table(const signed char* table) {{ mx::rcp_table() = table; }}
"""


_RCP = np.ascontiguousarray(load_rcp_table())


class HostKernel(Kernel):
    """A kernel in a library of the host."""

    def __init__(self, source: KernelSource, types: str, device: int) -> None:
        self.source = source
        self._pack = struct.Struct("@" + types)
        self._offsets = [struct.calcsize("@" + types[: i + 1]) - struct.calcsize(types[i]) for i in range(len(types))]
        with tempfile.TemporaryDirectory(prefix="mxspec-host-kernel-") as folder:
            self._run = _load(source, Path(folder))

    def launch(self, grid: tuple[int, int], threads: int, stream: int, *parameters: int) -> None:
        """Run it."""
        _, addresses = self.pack(parameters)
        self._run(grid[0], grid[1], threads, addresses)


def _load(source: KernelSource, folder: Path) -> Any:
    """A kernel's launch, compiled in a folder that is not needed once it is loaded."""
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
    library = ctypes.CDLL(str(folder / "kernel.so"))
    library.set_rcp_table(ctypes.c_void_p(_RCP.ctypes.data))
    return library.run


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
    monkeypatch.setattr(api, "get_kernel", host_kernel)
    monkeypatch.setattr(plans, "find_arch", lambda device: "sm_90")
    monkeypatch.setattr(plans, "zero_scales", _zero)
    monkeypatch.setattr(fused_module, "zero_scales", _zero)
    monkeypatch.setattr(fused_module, "get_kernel", host_kernel)


def run_quantize(
    x: npt.NDArray[Any], fmt: str, profile: str | Profile, *, axis: int = -1, scale_layout: str = "row-major", pad: bool = False, tensor: int | None = None,
    seed: int | None = None, square: bool = False, fused: bool = False, norm: tuple[npt.NDArray[Any], float] | None = None,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:  # fmt: skip
    """The packed codes and the scales that a call writes; tensor: the bits of the tensor scale; norm: a weight and eps."""
    dtype, item = str(x.dtype), x.itemsize
    strides = tuple(s // item for s in x.strides)
    address = x.ctypes.data
    weight, eps = (0, 0) if norm is None else (norm[0].ctypes.data, int(np.float32(norm[1]).view(np.uint32)))
    if fused or norm:
        rules = generate_rules(profile, fmt, two_level=tensor is not None)
        rows, k, tiled = len(x), x.shape[1] // (2 if fused else 1), find_layout(scale_layout, rules.fmt)
        shape = plans.scale_shape(rows, k // rules.fmt.k, scale_layout) if tiled else (rows, k // rules.fmt.k)
        launches = (plan_fused if fused else plan_norm).__wrapped__(rules, rows, k, dtype, 0, tiled, shape)
        plan = plans.Plan(tuple(launches), (rows, k * rules.fmt.element.bits // 8), shape, (rows, k), rules, (0, 0))
    else:
        plan = plans.make_plan(
        x.shape, strides, dtype, 0, address % 16, fmt, profile, axis % x.ndim, tensor is not None, scale_layout, 0 if seed is None else 3,
        pad, None, square,
    )  # fmt: skip
    outputs = [_Guarded(plan.codes_shape, np.dtype(np.uint8)), _Guarded(plan.scales_shape, code_dtype(plan.rules.fmt.scale))]
    for launch in plan.launches:
        launch(address, *(out.array.ctypes.data for out in outputs), 0, weight, seed or eps, tensor or 0, 0)
    assert all(out.is_intact() for out in outputs), "wrote outside its outputs"
    return outputs[0].array, outputs[1].array


def run_dequantize(
    codes: npt.NDArray[np.uint8], scales: npt.NDArray[Any], rules: KernelRules, dtype: str, *, scale_layout: str = "row-major"
) -> npt.NDArray[Any]:
    """The values [rows, K] that a call writes for packed codes [rows, bytes] and scales as they lie."""
    columns = codes.shape[-1] * 8 // rules.fmt.element.bits
    out = _Guarded((len(codes), columns), np.dtype(DTYPES[dtype]))
    # Not what calls on a chip have found before, nor for them.
    find = api._dequantize_launches.__wrapped__
    for launch in find(rules, len(codes), columns, dtype, find_layout(scale_layout, rules.fmt), 0):
        launch(codes.ctypes.data, scales.ctypes.data, out.array.ctypes.data, 0, 0, 0)
    assert out.is_intact(), "wrote outside its output"
    return out.array


class _Guarded:
    """An output at a multiple of 16 bytes, in which and around which no byte is zero."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        size = int(np.prod(shape)) * dtype.itemsize
        self.memory = np.full(size + 528, 0xA5, np.uint8)
        self.start = 256 + -self.memory.ctypes.data % 16
        self.array = self.memory[self.start : self.start + size].view(dtype).reshape(shape)

    def is_intact(self) -> bool:
        """Whether nobody wrote around it."""
        end = self.start + self.array.nbytes
        return bool((self.memory[: self.start] == 0xA5).all() and (self.memory[end:] == 0xA5).all())
