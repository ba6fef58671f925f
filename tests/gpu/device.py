"""What the tests on a GPU share: arrays of both libraries, poisoned outputs, counting, and whether there is a GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import mxspec_gpu
from mxspec_gpu.build import find_arch, import_cupy

Array = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parents[2]
POISON = 0xA5
GUARD = 64
SEED = 20240917
LIBRARIES = ("cupy", "torch")
#: The amount of random input: `full` is what the committed evidence is made with.
FULL = os.environ.get("MXSPEC_GPU_VOLUME") == "full"


def require_gpu() -> None:
    """Skips a module where its tests cannot run: all of them in one line of pytest's summary."""
    try:
        mxspec_gpu.check_gpu()
    except mxspec_gpu.GpuMissingError as error:
        pytest.skip(f"tests/gpu is not run: {error}", allow_module_level=True)


def is_hopper() -> bool:
    """Whether the GPU has wgmma."""
    return find_arch(0) == "sm_90"


def require_memory(needed: int) -> None:
    """Skips the calling test where the GPU has less memory free."""
    free, _ = cp().cuda.runtime.memGetInfo()
    if free < needed:
        pytest.skip(f"needs {needed >> 30} GiB of the GPU's memory, {free >> 30} are free")


@lru_cache(maxsize=1)
def cp() -> Any:
    """CuPy."""
    return import_cupy()


def import_torch() -> Any:
    """torch with CUDA; skips the calling test without it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    return torch


def to_gpu(x: Array, library: str = "cupy") -> Any:
    """A copy of a NumPy array on the GPU, contiguous; bfloat16 stays bfloat16."""
    x = np.ascontiguousarray(x).reshape(x.shape)
    plain = x.view(np.int16) if x.dtype == ml_dtypes.bfloat16 else x
    if library == "cupy":
        array = cp().asarray(plain)
        return array.view(ml_dtypes.bfloat16) if x.dtype == ml_dtypes.bfloat16 else array
    torch = import_torch()
    tensor = torch.from_numpy(plain.copy()).cuda()
    return tensor.view(torch.bfloat16) if x.dtype == ml_dtypes.bfloat16 else tensor


def to_host(x: Any) -> Array:
    """A GPU array of either library as NumPy's."""
    if type(x).__module__.startswith("torch"):
        torch = import_torch()
        x = x.contiguous()
        host: Array = (x.view(torch.int16) if x.dtype == torch.bfloat16 else x).cpu().numpy()
        return host.view(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else host
    if x.dtype == ml_dtypes.bfloat16:
        return np.asarray(cp().asnumpy(cp().ascontiguousarray(x.view(np.int16)))).view(ml_dtypes.bfloat16)
    return np.asarray(cp().asnumpy(x))


class Guarded:
    """Poisoned uint8 outputs with guard bytes around them."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        sizes = [int(np.prod(s)) for s in shapes]
        self.buffers = [cp().full(n + 2 * GUARD, POISON, cp().uint8) for n in sizes]
        self.arrays = tuple(b[GUARD : GUARD + n].reshape(s) for b, n, s in zip(self.buffers, sizes, shapes, strict=True))

    def intact(self) -> bool:
        """Whether nobody wrote into the guards."""
        return all(bool((b[:GUARD] == POISON).all() & (b[-GUARD:] == POISON).all()) for b in self.buffers)


def swizzle(scales: Array) -> Array:
    """[rows, columns] into 128x4 tiles, padding zero; by the published index formula."""
    rows, columns = scales.shape
    tiles = -(-columns // 4)
    out = np.zeros(-(-rows // 128) * tiles * 512, scales.dtype)
    r, c = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    out[((r // 128) * tiles + c // 4) * 512 + (r % 32) * 16 + (r % 128) // 32 * 4 + c % 4] = scales
    return out


def bits_of(values: Array) -> Array:
    """The bits of floats, every NaN the same: dequantizing gives the chip's payload."""
    unsigned = values.view(np.uint32 if values.dtype == np.float32 else np.uint16)
    return np.where(np.isnan(values.astype(np.float32)), unsigned.dtype.type(0x7FFF), unsigned)


@dataclass
class Tally:
    """Comparisons and differences of a test. The test fails when it ends with a difference, or without a comparison."""

    compared: int = 0
    different: int = 0
    first: list[str] = field(default_factory=list)
    #: What else the evidence is to say.
    more: dict[str, Any] = field(default_factory=dict)

    def equal(self, got: Array, want: Array, what: str) -> None:
        """Count two arrays of the same shape and dtype."""
        if got.shape != want.shape or got.dtype != want.dtype:
            self.fail(f"{what}: {got.dtype} {got.shape}, expected {want.dtype} {want.shape}")
            return
        self.compared += got.size
        wrong = np.flatnonzero(got.reshape(-1) != want.reshape(-1))
        if wrong.size:
            i = int(wrong[0])
            self.different += int(wrong.size) - 1
            self.fail(f"{what}: {wrong.size} of {got.size}, first at {i}: {got.reshape(-1)[i]:#x}, expected {want.reshape(-1)[i]:#x}")

    def fail(self, text: str) -> None:
        """One difference."""
        self.different += 1
        if len(self.first) < 12:
            self.first.append(text)

    def require(self, holds: bool, text: str) -> None:
        """Something else that is to hold."""
        self.compared += 1
        if not holds:
            self.fail(text)

    def verify(self) -> None:
        """Raises AssertionError with the first differences."""
        assert not self.different, f"{self.different} of {self.compared} different:\n" + "\n".join(self.first)
        assert self.compared, "nothing was compared"
