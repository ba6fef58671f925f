"""Arrays as targets take and return them: libraries and devices, arrangements in memory, packed codes and swizzled scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.layouts import get_layout
from mxspec_conformance.targets.capabilities import DTYPES
from mxspec_conformance.targets.errors import BadReturn

_NIBBLES, _TILES = get_layout("nibble-low"), get_layout("128x4")


def to_target_array(x: npt.NDArray[Any], arrays: str, device: str | None = None) -> Any:
    """x as the arrays that the target takes; a fresh copy, so that a target that writes into it harms nobody.

    device: for torch what `Tensor.to` takes; for cupy `cuda:N`. cupy arrays lie on the current GPU without it.
    """
    x = np.array(x, order="C", copy=True)
    if arrays == "numpy":
        return x
    if arrays == "cupy":
        import cupy

        with cupy.cuda.Device(int((device or "").rpartition(":")[2] or cupy.cuda.runtime.getDevice())):
            return cupy.asarray(x)
    import torch

    if x.dtype == DTYPES["bfloat16"]:
        tensor = torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(x)
    return tensor if device is None else tensor.to(device)


def quantized_shapes(
    shape: tuple[int, ...], block: BlockFormat, *, axis: int = -1, square: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of codes (one to an element) and of scales that `quantize` gives for x; square: 16 x 16 blocks."""
    axis %= len(shape)
    padded = tuple(-(-n // block.k) * block.k if a == axis else n for a, n in enumerate(shape))
    if square:
        padded = tuple(-(-n // 16) * 16 for n in padded)
    return padded, tuple(n // block.k if a == axis else n for a, n in enumerate(padded))


def arrange_array(x: npt.NDArray[Any], arrays: str, arrangement: str, device: str | None = None) -> Any:
    """x as a fresh array that the target takes, in one of `ARRANGEMENTS`; other values of x lie between."""
    if arrangement == "rows":
        wide = np.stack([x, x[::-1]], axis=1).reshape(-1, *x.shape[1:])
        return to_target_array(wide, arrays, device)[::2]
    if arrangement == "columns":
        wide = np.stack([x, np.flip(x)], axis=-1).reshape(*x.shape[:-1], -1)
        return to_target_array(wide, arrays, device)[..., ::2]
    if arrangement == "offset":
        longer = np.concatenate([x.reshape(-1)[-1:], x.reshape(-1)])
        return to_target_array(longer, arrays, device)[1:].reshape(x.shape)
    if arrangement == "padded":
        wide = np.concatenate([x, x[..., :1]], axis=-1)
        return to_target_array(wide, arrays, device)[..., :-1]
    return to_target_array(x, arrays, device)


def from_target_array(a: Any, what: str) -> npt.NDArray[Any]:
    """A returned array as a NumPy one (torch, cupy, DLPack or anything NumPy converts).

    Raises BadReturn for something that is no array.
    """
    if hasattr(a, "detach"):
        import torch

        a = a.detach().cpu()
        if a.dtype == torch.bfloat16:
            a = a.to(torch.float32)
        a = a.numpy()
    elif hasattr(a, "get") and type(a).__module__.startswith("cupy"):
        a = a.get()
    elif not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__"):
        import cupy

        a = cupy.asnumpy(cupy.asarray(a))
    elif not isinstance(a, np.ndarray) and hasattr(a, "__dlpack__"):
        a = _from_dlpack(a)
    elif not isinstance(a, np.ndarray) and hasattr(a, "__array_interface__"):
        a = np.asarray(a)
    if not isinstance(a, np.ndarray):
        raise BadReturn(f"{what} is a {type(a).__name__}, not an array")
    return np.asarray(a)  # of a subclass the plain array: its methods are the target's


def _from_dlpack(a: Any) -> Any:
    """NumPy reads what lies in the host's memory; what lies on a GPU goes through CuPy."""
    kind = a.__dlpack_device__()[0] if hasattr(a, "__dlpack_device__") else 1
    if kind == 1:
        return np.from_dlpack(a)
    import cupy

    return cupy.asnumpy(cupy.from_dlpack(a))


def pack_nibbles(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two codes to a byte along the last axis, the even element in the low nibble."""
    return _NIBBLES.pack(codes[None]).reshape(*codes.shape[:-1], -1)


def unpack_nibbles(packed: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Inverts `pack_nibbles`.

    Raises BadReturn for another shape than that of packed codes.
    """
    if packed.shape != (*shape[:-1], shape[-1] // 2):
        raise BadReturn(f"packed codes have shape {packed.shape}; {(*shape[:-1], shape[-1] // 2)} was expected")
    return _NIBBLES.unpack(packed, (1, *shape))[0].reshape(shape)


def swizzled_size(shape: tuple[int, ...]) -> int:
    """Bytes of scales in NVIDIA's 128 x 4 tiles, padding included."""
    return _TILES.size(shape)


def unswizzle_128x4(data: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Scales out of NVIDIA's 128 x 4 tiles.

    Raises BadReturn for another number of bytes than the tiles hold.
    """
    size = swizzled_size(shape)
    if data.size != size:
        raise BadReturn(f"swizzled scales hold {data.size} bytes; {size} were expected (128 x 4 tiles of {shape})")
    return _TILES.unpack(data, shape)[0]


def swizzle_128x4(scales: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Scales in NVIDIA's 128 x 4 tiles, zeros between."""
    return _TILES.pack(scales)
