"""Arrays as targets take and return them: libraries and devices, arrangements in memory, packed codes and swizzled scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mxspec.layouts import get_layout
from mxspec_conformance.targets.capabilities import FAR_PITCH, SLICED_OF, WINDOWS
from mxspec_conformance.targets.checks import lies_by_rows
from mxspec_conformance.targets.errors import BadReturn
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.texts import name_with_article

#: Layouts whose pairs may lie along the axis that was quantized, and whose rows may end in half a byte.
NIBBLES = ("nibble-low", "nibble-high")

T = TypeVar("T")


def to_target_array(x: npt.NDArray[Any], arrays: str, device: str | None = None) -> Any:
    """x as the arrays that the target takes; a fresh copy, which a target may write into.

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

    if x.dtype.isbuiltin != 1:  # ml_dtypes' floats, which torch has under the same names and NumPy knows by their bits alone
        tensor = torch.from_numpy(x.view(f"u{x.itemsize}")).view(getattr(torch, x.dtype.name))
    else:
        tensor = torch.from_numpy(x)
    return tensor if device is None else tensor.to(device)


def arrange_array(x: npt.NDArray[Any], arrays: str, arrangement: str, device: str | None = None, *, between: float = 1) -> Any:
    """x as a fresh array that the target takes, in one of `ARRANGEMENTS` or `MATRIX_ARRANGEMENTS`; other values of x lie between,
    times `between`. What an array library does not have is contiguous.
    """
    other = x if between == 1 else x * x.dtype.type(between)
    if arrangement == "rows":
        wide = np.stack([x, other[::-1]], axis=1).reshape(-1, *x.shape[1:])
        return to_target_array(wide, arrays, device)[::2]
    if arrangement == "columns":
        wide = np.stack([x, np.flip(other)], axis=-1).reshape(*x.shape[:-1], -1)
        return to_target_array(wide, arrays, device)[..., ::2]
    if arrangement == "offset":
        longer = np.concatenate([other.reshape(-1)[-1:], x.reshape(-1)])
        return to_target_array(longer, arrays, device)[1:].reshape(x.shape)
    if arrangement == "padded":
        wide = np.concatenate([x, other[..., :1]], axis=-1)
        return to_target_array(wide, arrays, device)[..., :-1]
    if arrangement == "fortran" and x.ndim == 2:
        return to_target_array(np.ascontiguousarray(x.T), arrays, device).T
    if arrangement == "reversed" and arrays != "torch":  # torch has no negative strides
        everywhere = (slice(None, None, -1),) * x.ndim
        return to_target_array(np.ascontiguousarray(x[everywhere]), arrays, device)[everywhere]
    if arrangement == "fortran-padded" and x.ndim == 2:
        wide = np.concatenate([x.T, other.T[:, :1]], axis=1)
        return to_target_array(np.ascontiguousarray(wide), arrays, device)[:, :-1].T
    if arrangement in ("slice", "far-slice"):
        far = arrangement == "far-slice" and x.size
        wide = np.tile(np.flip(other), FAR_PITCH // (x.shape[-1] * x.itemsize) + SLICED_OF if far else SLICED_OF)
        columns = slice(3 * x.shape[-1], 4 * x.shape[-1])
        wide[..., columns] = x
        return to_target_array(wide, arrays, device)[..., columns]
    if arrangement in ("rows-reversed", "columns-reversed") and x.ndim == 2 and arrays != "torch":
        axis = 0 if arrangement == "rows-reversed" else 1
        return np.flip(to_target_array(np.flip(x, axis), arrays, device), axis)
    if arrangement in ("rows-and-columns", "third-columns") and x.ndim == 2:
        down, across = (2, 2) if arrangement == "rows-and-columns" else (1, 3)
        wide = np.repeat(np.repeat(np.flip(other), down, axis=0), across, axis=1)
        wide[::down, ::across] = x
        return to_target_array(wide, arrays, device)[::down, ::across]
    if arrangement == "fortran-reversed" and x.ndim == 2 and arrays != "torch":
        return to_target_array(np.ascontiguousarray(x.T[::-1]), arrays, device)[::-1].T
    if arrangement == "8-bytes" and x.size:
        longer = np.concatenate([np.resize(other, 8 // x.itemsize), x.reshape(-1)])
        return to_target_array(longer, arrays, device)[8 // x.itemsize :].reshape(x.shape)
    if arrangement == "windows" and _is_overlapping(x):
        return _lay_windows(x, arrays, device)
    if arrangement == "read-only" and arrays == "numpy":
        kept = to_target_array(x, arrays)
        kept.flags.writeable = False
        return kept
    if arrangement == "broadcast" and x.ndim == 2 and len(x) and _has_equal_rows(x):
        return _repeat_row(to_target_array(x[:1], arrays, device), x.shape, arrays)
    if arrangement == "broadcast" and x.ndim == 1 and len(x) and _has_equal_rows(x[:, None]):
        return _repeat_row(to_target_array(x[:1], arrays, device), x.shape, arrays)
    if arrangement == "one-column" and x.ndim == 2 and x.size and _has_equal_columns(x):
        return _repeat_row(to_target_array(np.ascontiguousarray(x[:, :1].T), arrays, device), x.shape[::-1], arrays).T
    return to_target_array(x, arrays, device)


def _is_overlapping(x: npt.NDArray[Any]) -> bool:
    """Whether each row of a matrix begins as the one before goes on from its first third."""
    if x.ndim != 2 or not x.size or x.shape[1] % WINDOWS:
        return False
    pitch = x.shape[1] // WINDOWS
    return np.ascontiguousarray(x[1:, :-pitch]).tobytes() == np.ascontiguousarray(x[:-1, pitch:]).tobytes()


def _lay_windows(x: npt.NDArray[Any], arrays: str, device: str | None) -> Any:
    """Such a matrix as windows on one row that holds each number once."""
    pitch = x.shape[1] // WINDOWS
    row = to_target_array(np.concatenate([x[:-1, :pitch].reshape(-1), x[-1]]), arrays, device)
    if arrays == "torch":
        return row.as_strided(x.shape, (pitch, 1))
    if arrays == "cupy":
        import cupy

        return cupy.lib.stride_tricks.as_strided(row, x.shape, (pitch * x.itemsize, x.itemsize))
    return np.ndarray(x.shape, x.dtype, row.view(np.uint8), strides=(pitch * x.itemsize, x.itemsize))


def _has_equal_columns(x: npt.NDArray[Any]) -> bool:
    return _has_equal_rows(np.ascontiguousarray(x.T))


def _has_equal_rows(x: npt.NDArray[Any]) -> bool:
    rows = np.ascontiguousarray(x).view(np.uint8)
    return bool((rows == rows[:1]).all())


def _repeat_row(row: Any, shape: tuple[int, ...], arrays: str) -> Any:
    """One row [1, n], or number [1], as a matrix or row whose parts all lie in its memory."""
    if arrays == "torch":
        return row.expand(shape)
    if arrays == "cupy":
        import cupy

        return cupy.broadcast_to(row, shape)
    return np.ndarray(shape, row.dtype, row.view(np.uint8).reshape(-1), strides=(0, *row.strides[1:]))


def from_target_array(a: Any, what: str) -> npt.NDArray[Any]:
    """A returned array as a NumPy one (torch, cupy, DLPack, the array interface, `__array__`, a memoryview).

    Raises BadReturn for something that is no array.
    """
    if hasattr(a, "detach"):
        import torch

        a = a.detach().cpu()
        if a.dtype == torch.bfloat16:
            a = a.to(torch.float32)
        elif str(a.dtype).startswith("torch.float8") or str(a.dtype).startswith("torch.float4"):
            a = a.view(torch.uint8)  # NumPy has no such types; what counts are their bits
        a = a.numpy()
    elif hasattr(a, "get") and type(a).__module__.startswith("cupy"):
        a = a.get()
    elif not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__"):
        import cupy

        a = cupy.asnumpy(cupy.asarray(a))
    elif not isinstance(a, np.ndarray) and hasattr(a, "__dlpack__"):
        a = _from_dlpack(a)
    elif isinstance(a, memoryview) or (not isinstance(a, np.ndarray) and (hasattr(a, "__array_interface__") or hasattr(a, "__array__"))):
        a = np.asarray(a)
    if not isinstance(a, np.ndarray):
        raise BadReturn(f"{what} is {name_with_article(a)}, not an array; return one of NumPy, torch or CuPy")
    return np.asarray(a)  # of a subclass the plain array: the subclass's methods are the target's


def _from_dlpack(a: Any) -> Any:
    """NumPy reads what lies in the host's memory; what lies on a GPU goes through CuPy."""
    kind = a.__dlpack_device__()[0] if hasattr(a, "__dlpack_device__") else 1
    if kind == 1:
        return np.from_dlpack(a)
    import cupy

    return cupy.asnumpy(cupy.from_dlpack(a))


def pack_nibbles(codes: npt.NDArray[np.uint8], layout: str = "nibble-low") -> npt.NDArray[np.uint8]:
    """Two codes to a byte along the last axis, the even element in the low nibble, or the high one."""
    return get_layout(layout).pack(codes[None]).reshape(*codes.shape[:-1], -1)


def unpack_nibbles(
    packed: npt.NDArray[np.uint8], shape: tuple[int, ...], axis: int = -1, layout: str = "nibble-low"
) -> npt.NDArray[np.uint8]:
    """Inverts `pack_nibbles`; the pairs lie along the last axis, or along the axis that was quantized.

    A row of an odd number of codes ends in half a byte, whatever its other half holds.
    Raises BadReturn for another shape than that of packed codes.
    """
    nibbles = get_layout(layout)
    along_last = (*shape[:-1], -(-shape[-1] // 2))
    place = axis % len(shape)
    along_axis = tuple(n // 2 if a == place else n for a, n in enumerate(shape))
    if packed.shape == along_last:
        wide = (*shape[:-1], 2 * along_last[-1])
        unpacked: npt.NDArray[np.uint8] = nibbles.unpack(packed, (1, *wide))[0].reshape(wide)[..., : shape[-1]]
        return unpacked
    if packed.shape == along_axis:
        moved = np.ascontiguousarray(np.moveaxis(packed, place, -1))
        turned = (*(n for a, n in enumerate(shape) if a != place), shape[place])
        return np.moveaxis(nibbles.unpack(moved, (1, *turned))[0].reshape(turned), -1, place)
    others = "" if along_axis == along_last else f" (or {along_axis}, with pairs along the axis quantized)"
    raise BadReturn(f"packed codes have shape {packed.shape}; {along_last} was expected{others}")


def lay_codes(codes: npt.NDArray[np.uint8], layout: str) -> npt.NDArray[np.uint8]:
    """Codes as a target takes them: bytes by rows, or flat where a layout mixes rows.

    Raises NotImplementedError where the layout does not hold the shape.
    """
    if layout == UNPACKED:
        return codes
    found = get_layout(layout)
    packed = _held(found.pack, np.atleast_2d(codes), layout)
    return packed.reshape(*codes.shape[:-1], laid_size((1, codes.shape[-1]), layout)) if lies_by_rows(found) else packed


def lay_scales(scales: npt.NDArray[np.uint8], layout: str) -> npt.NDArray[np.uint8]:
    """Scales as a target takes them: as they are, or the bytes of a layout.

    Raises NotImplementedError where the layout does not hold the shape.
    """
    return scales if layout == ROW_MAJOR else _held(get_layout(layout).pack, np.atleast_2d(scales), layout)


def laid_size(shape: tuple[int, ...], layout: str) -> int:
    """Bytes of codes or scales in a layout. Raises NotImplementedError where it does not hold the shape."""
    return _held(get_layout(layout).size, shape if len(shape) > 1 else (1, *shape), layout)


def _held(compute: Callable[[Any], T], given: Any, layout: str) -> T:
    try:
        return compute(given)
    except ValueError as error:
        raise NotImplementedError(f"the declared layout {layout} does not hold this call: {error}") from error


def take_laid(data: npt.NDArray[np.uint8], shape: tuple[int, ...], layout: str, what: str) -> npt.NDArray[np.uint8]:
    """Codes or scales out of a layout's bytes.

    Raises BadReturn for another number of bytes, and NotImplementedError where the layout does not hold the shape.
    """
    size = laid_size(shape, layout)
    if data.size != size:
        raise BadReturn(f"{what} hold {data.size} bytes; {size} were expected ({layout} of {shape})")
    return get_layout(layout).unpack(data.reshape(-1), shape if len(shape) > 1 else (1, *shape))[0].reshape(shape)
