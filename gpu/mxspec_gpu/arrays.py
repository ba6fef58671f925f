"""Arrays of any library on the GPU, as pointer, shape, strides and dtype; outputs in the caller's library.

torch tensors and CuPy arrays are taken as they are, anything else on the GPU through DLPack. Nothing is copied, but for a
torch tensor that torch holds negated (its memory has the opposite signs).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mxspec_gpu.build import GpuMissingError, import_cupy
from mxspec_gpu.views import find_extent, is_contiguous

#: dtype -> its name, which NumPy takes a microsecond to find.
_NAMES: dict[Any, str] = {}

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "uint32": 4, "int32": 4, "int64": 8}


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
        return is_contiguous(self.shape, self.strides)

    @property
    def range(self) -> tuple[int, int]:
        """The first address that it touches and the one after the last."""
        low, high = find_extent(self.shape, self.strides)
        item = ITEM_BYTES[self.dtype]
        return self.pointer + low * item, self.pointer + high * item


#: What the GPU's memory is called in DLPack: CUDA's own and managed.
_DLPACK_CUDA = (2, 13)


def _view_torch(x: Any, name: str, torch: Any) -> View:
    if not x.is_cuda:
        raise TypeError(f"{name} is a torch tensor on {x.device}; move it to the GPU: {name}.cuda()")
    if x.layout is not torch.strided or x.is_nested:
        kind = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
        raise TypeError(f"{name} is a torch tensor of layout {kind}; pass a dense one, say {name}.to_dense()")
    if x.is_neg():
        x = x.resolve_neg()
    dtype = x.dtype
    if dtype not in _NAMES:
        _NAMES[dtype] = str(dtype).removeprefix("torch.")
    return View(x.data_ptr(), tuple(x.shape), x.stride(), _NAMES[dtype], x.get_device(), "torch", x)


def _view_cupy(x: Any, name: str) -> View:
    cupy = import_cupy()
    if not isinstance(x, cupy.ndarray):
        if isinstance(x, (np.ndarray, list, tuple, int, float)) or not hasattr(x, "__dlpack__"):
            raise TypeError(
                f"{name} is of type {type(x).__module__}.{type(x).__name__}; pass an array on the GPU (CuPy, torch, or anything "
                f"with DLPack), say cupy.asarray({name})"
            )
        if x.__dlpack_device__()[0] not in _DLPACK_CUDA:
            raise TypeError(f"{name}, a {type(x).__module__}.{type(x).__name__}, is not in the GPU's memory; move it there first")
        x = cupy.from_dlpack(x)
    dtype = x.dtype
    if dtype not in _NAMES:
        _NAMES[dtype] = dtype.name
    item, data = dtype.itemsize, x.data
    if any(s % item for s in x.strides):
        raise ValueError(f"{name} has strides of {x.strides} bytes, which are no whole elements of {item} bytes; pass a copy of it")
    strides = tuple([s // item for s in x.strides])
    return View(data.ptr, x.shape, strides, _NAMES[dtype], data.device_id, "cupy", x)


def view_array(x: Any, name: str = "x") -> View:
    """The view of a GPU array.

    Raises TypeError for something that is no GPU array, and ValueError for one whose memory cannot be read element by
    element; both say what to do.
    """
    torch = sys.modules.get("torch")
    view = _view_torch(x, name, torch) if torch is not None and isinstance(x, torch.Tensor) else _view_cupy(x, name)
    if view.pointer % ITEM_BYTES.get(view.dtype, 1):
        raise ValueError(
            f"{name} starts at address {view.pointer:#x}, which is no multiple of the {ITEM_BYTES[view.dtype]} bytes of "
            f"{view.dtype}; pass a copy of it"
        )
    if not view.pointer and 0 not in view.shape:
        raise ValueError(f"{name} has no memory of its own (a fake or deferred tensor); pass one that holds its values")
    return view


def view_output(x: Any, name: str = "out") -> View:
    """The view of an array to write to.

    Raises as `view_array` does, and ValueError where what is written would not be what is read.
    """
    view = view_array(x, name)
    if view.library == "torch" and view.owner is not x:
        raise ValueError(f"{name} is a torch tensor that torch holds negated; pass a new one, say torch.empty_like")
    return view


class OnDevice:
    """Makes a device current, where it is not."""

    __slots__ = ("_before", "_device", "_runtime")

    def __init__(self, device: int) -> None:
        self._runtime = runtime = import_cupy().cuda.runtime
        self._device, self._before = device, runtime.getDevice()

    def __enter__(self) -> None:
        if self._before != self._device:
            self._runtime.setDevice(self._device)

    def __exit__(self, *_: object) -> None:
        if self._before != self._device:
            self._runtime.setDevice(self._before)


@lru_cache(maxsize=2)
def find_stream(library: str) -> Callable[[int], int]:
    """The function that gives the caller's current stream on a device."""
    if library == "torch":
        torch = sys.modules["torch"]
        # What torch's own compiled code asks; its public way makes an object first, for 2 to 4 us.
        raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))
    current = import_cupy().cuda.get_current_stream
    return lambda device: int(current(device).ptr)


def current_stream(library: str, device: int) -> int:
    """The caller's current stream on a device."""
    return find_stream(library)(device)


def empty_array(shape: tuple[int, ...], dtype: str, library: str, device: int) -> Any:
    """An uninitialised array of the caller's library."""
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{device}")
    cupy = import_cupy()
    kind: Any = dtype
    if dtype == "bfloat16":
        import ml_dtypes

        kind = ml_dtypes.bfloat16
    with OnDevice(device):
        return cupy.empty(shape, kind)


def upload_array(data: np.ndarray[Any, Any], library: str, device: int) -> Any:
    """A copy of the host's numbers on a GPU, in the caller's library and on its current stream."""
    cupy = import_cupy()
    if library == "torch":
        torch = sys.modules.get("torch") or __import__("torch")
        return torch.from_numpy(data.copy()).to(f"cuda:{device}")
    with OnDevice(device):
        return cupy.asarray(data)


def copy_contiguous(view: View, axis: int = -1) -> View:
    """The same values without gaps, with `axis` last; a copy in the caller's library, on its current stream."""
    order = list(range(len(view.shape)))
    if order:
        order.append(order.pop(axis))
    if view.library == "torch":
        torch = sys.modules["torch"]
        return view_array(view.owner.permute(order).clone(memory_format=torch.contiguous_format))
    with OnDevice(view.device):
        return view_array(view.owner.transpose(order).copy(order="C"))


def read_integer(array: Any) -> int:
    """The one number of an array, which waits for the caller's current stream."""
    number: int = array.item()
    return number


def is_capturing(stream: int) -> bool:
    """Whether a stream is being captured into a graph, so that nothing may wait for it."""
    captured: bool = import_cupy().cuda.runtime.streamIsCapturing(stream)
    return captured


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
