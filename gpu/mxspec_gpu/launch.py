"""Launching compiled kernels: parameters packed once, no allocation, no synchronisation."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from mxspec_gpu.build import KernelSource, import_cupy, load_kernel

#: struct codes of parameter types.
POINTER, I64, U64, U32, I32 = "P", "q", "Q", "I", "i"


class _Parameters(threading.local):
    """A launch's parameters in memory, one copy for each thread."""

    buffer: Any = None
    pointers: Any = None


class Kernel:
    """A loaded kernel and the types of its parameters."""

    def __init__(self, source: KernelSource, types: str, device: int) -> None:
        self.source = source
        self._function = load_kernel(source, device)
        # Natural alignment, as the kernel's parameters have.
        self._pack = struct.Struct("@" + types)
        self._offsets = [struct.calcsize("@" + types[: i + 1]) - struct.calcsize(types[i]) for i in range(len(types))]
        self._local = _Parameters()
        self.driver = import_cupy().cuda.driver

    @cached_property
    def handle(self) -> int:
        """The driver's handle."""
        pointer: int = self._function.kernel.ptr
        return pointer

    @property
    def attributes(self) -> dict[str, int]:
        """Registers, local and shared bytes."""
        return dict(self._function.attributes)

    def pack(self, parameters: tuple[int, ...]) -> tuple[Any, Any]:
        """Parameters in new memory, and the array of their addresses that a launch takes."""
        buffer = ctypes.create_string_buffer(self._pack.size)
        self._pack.pack_into(buffer, 0, *parameters)
        base = ctypes.addressof(buffer)
        return buffer, (ctypes.c_void_p * len(self._offsets))(*(base + o for o in self._offsets))

    def launch(self, grid: tuple[int, int], threads: int, stream: int, *parameters: int) -> None:
        """Queue the kernel on a stream of the current device."""
        local = self._local
        if local.buffer is None:
            local.buffer, local.pointers = self.pack(parameters)
            local.address = ctypes.addressof(local.pointers)
        self._pack.pack_into(local.buffer, 0, *parameters)
        self.driver.launchKernel(self.handle, grid[0], grid[1], 1, threads, 1, 1, self.source.shared, stream, local.address, 0)


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: which, and a union of 64 bytes, of which one number is used."""

    _fields_ = (("which", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
_BESIDE = 6


@lru_cache(maxsize=1)
def _load_driver() -> Any:
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


def launch_beside(kernel: Kernel, grid: tuple[int, int, int], threads: int, stream: int, *parameters: int) -> None:
    """Queue a kernel that may start while the one before it in the stream, which lets it, still runs; it waits for that by itself."""
    _kept, pointers = kernel.pack(parameters)
    attribute = _Attribute(_BESIDE, 0, 1)
    config = _Config(grid, (threads, 1, 1), kernel.source.shared, stream, ctypes.pointer(attribute), 1)
    status = _load_driver().cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(kernel.handle), pointers, None)
    if status:
        raise import_cupy().cuda.driver.CUDADriverError(status)


class Prepared:
    """A launch whose parameters lie ready in memory of its own, all but the first few, which are zeros. One thread's: another would
    overwrite them. To launch: set `words`, the first parameters of eight bytes, then `launch(*place, stream, 0, where)`."""

    __slots__ = ("_buffer", "_extra", "_size", "launch", "place", "where", "words")

    def __init__(self, kernel: Kernel, head: str, grid: tuple[int, int], threads: int, fixed: tuple[int, ...]) -> None:
        self._buffer, _ = kernel.pack((0,) * len(head) + fixed)
        self._size = ctypes.c_size_t(len(self._buffer))
        # The driver takes all parameters in one piece: CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE, each with its value.
        addresses = (1, ctypes.addressof(self._buffer), 2, ctypes.addressof(self._size), 0)
        self._extra = (ctypes.c_void_p * len(addresses))(*addresses)
        self.where = ctypes.addressof(self._extra)
        whole = len(head) - len(head.lstrip(POINTER + U64 + I64))
        self.words = memoryview(self._buffer).cast("B")[: 8 * whole].cast("Q")
        self.launch = kernel.driver.launchKernel
        self.place = (kernel.handle, grid[0], grid[1], 1, threads, 1, 1, 0)


@lru_cache(maxsize=512)
def get_kernel(source: KernelSource, types: str, device: int) -> Kernel:
    """The kernel on a device, loaded once."""
    return Kernel(source, types, device)


@dataclass(frozen=True, slots=True)
class Division:
    """A division of a number below 2**31 by multiplication: n // d == n * multiplier >> shift."""

    divisor: int
    multiplier: int
    shift: int


def make_division(divisor: int) -> Division:
    """The multiplier of a divisor from 1 to 2**31."""
    shift = 31 + max(divisor - 1, 0).bit_length()
    return Division(divisor, -(-(1 << shift) // divisor), shift)
