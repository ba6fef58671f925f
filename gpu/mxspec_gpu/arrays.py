"""Arrays of any library on the GPU, as pointer, shape, strides and dtype; outputs in the caller's library.

torch tensors and CuPy arrays are taken as they are, anything else on the GPU through DLPack; nothing is copied.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxspec_gpu.build import GpuMissingError, import_cupy

#: dtype -> its name, which NumPy takes a microsecond to find.
_NAMES: dict[Any, str] = {}

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "uint32": 4, "int32": 4, "uint16": 2}


@dataclass(slots=True)
class View:
    """An array of the caller's."""

    pointer: int
    shape: tuple[int, ...]
    #: In elements.
    strides: tuple[int, ...]
    dtype: str
    device: int
    #: "torch" or "cupy": what outputs are made with.
    library: str
    #: Keeps the memory alive.
    owner: Any

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def contiguous(self) -> bool:
        """Whether rows follow one another without gaps."""
        step = 1
        if 0 in self.shape:
            return True
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != step:
                return False
            step *= length
        return True


def view_array(x: Any, name: str = "x") -> View:
    """The view of a GPU array.

    Raises TypeError for something that is no GPU array, and says what to do.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        if not x.is_cuda:
            raise TypeError(f"{name} is a torch tensor on {x.device}; move it to the GPU: {name}.cuda()")
        dtype = x.dtype
        if dtype not in _NAMES:
            _NAMES[dtype] = str(dtype).removeprefix("torch.")
        return View(x.data_ptr(), tuple(x.shape), x.stride(), _NAMES[dtype], x.get_device(), "torch", x)
    cupy = import_cupy()
    if not isinstance(x, cupy.ndarray):
        if isinstance(x, (np.ndarray, list, tuple, int, float)) or not hasattr(x, "__dlpack__"):
            raise TypeError(
                f"{name} is a {type(x).__module__}.{type(x).__name__}; pass an array on the GPU (CuPy, torch, or anything "
                f"with DLPack), say cupy.asarray({name})"
            )
        x = cupy.from_dlpack(x)
    dtype = x.dtype
    if dtype not in _NAMES:
        _NAMES[dtype] = dtype.name
    item, data = dtype.itemsize, x.data
    strides = tuple([s // item for s in x.strides])
    return View(data.ptr, x.shape, strides, _NAMES[dtype], data.device_id, "cupy", x)


def current_stream(library: str, device: int) -> int:
    """The caller's current stream on a device."""
    if library == "torch":
        stream: int = sys.modules["torch"].cuda.current_stream(device).cuda_stream
        return stream
    pointer: int = import_cupy().cuda.get_current_stream().ptr
    return pointer


def empty_array(shape: tuple[int, ...], dtype: str, library: str, device: int) -> Any:
    """An uninitialised array of the caller's library."""
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{device}")
    cupy = import_cupy()
    if dtype == "bfloat16":
        import ml_dtypes

        return cupy.empty(shape, ml_dtypes.bfloat16)
    return cupy.empty(shape, dtype)


def copy_contiguous(view: View) -> View:
    """The same values without gaps; a copy in the caller's library."""
    if view.library == "torch":
        return view_array(view.owner.contiguous())
    return view_array(import_cupy().ascontiguousarray(view.owner))


def check_gpu() -> int:
    """Number of usable GPUs.

    Raises GpuMissingError, saying what is missing, where there is none.
    """
    cupy = import_cupy()
    try:
        count: int = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise GpuMissingError(
            f"no NVIDIA GPU can be used here ({error}); the kernels need one of compute capability 8.0 or later and its "
            "driver. mxspec.quantize computes the same on the CPU"
        ) from error
    return count
