"""Arrays of others: what is taken as an array, and in which words anything else is refused."""

from __future__ import annotations

import sys
from contextlib import suppress
from operator import index
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.environment import check_environment

#: torch's dtypes that its own `Tensor.numpy` refuses -> the integer of their size, and NumPy's name for them.
_TORCH_VIEWS = {
    "bfloat16": ("int16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": ("uint8", ml_dtypes.float8_e8m0fnu),
}


def as_array(x: object, *, name: str = "x") -> npt.NDArray[Any]:
    """x as a NumPy array.

    Tensors of torch and CuPy are copied from their device, without a gradient; torch's bfloat16 and float8 become those of
    ml_dtypes, bit for bit. Nothing is imported: where there is such a tensor, its library is loaded.

    Args:
        x: Anything that NumPy reads as an array, a `torch.Tensor` or a `cupy.ndarray`.
        name: What messages call it.

    Returns:
        An array of the same shape and numbers: x itself or a view where that is one, else a copy.

    Raises:
        TypeError: x is no array, or a tensor without plain data (sparse, quantized, meta).
        ValueError: Nested lists of unequal lengths, or a masked array with masked entries, which have no number.
        FloatEnvironmentError: The thread does not round to nearest, or flushes subnormal numbers. Arrays come in by this function,
            so that no bits come out that are not those of the profile.
    """
    check_environment()
    if _is_instance(x, "torch", "Tensor"):
        return _from_torch(x, name)
    if _is_instance(x, "cupy", "ndarray"):
        device: Any = x
        return np.asarray(device.get())
    if isinstance(x, np.ma.MaskedArray):
        hidden = int(np.ma.getmaskarray(x).sum())
        if hidden:
            raise ValueError(f"{name} is a masked array with {hidden} masked entries, which have no number; fill them ({name}.filled(0))")
    try:
        return np.asarray(x)
    except ValueError:
        raise ValueError(f"{name} is nested lists of unequal lengths; pass an array, or lists of one length") from None
    except Exception as error:
        raise TypeError(
            f"{name} is of type {type(x).__name__}, which does not convert to an array ({type(error).__name__}: {error}); pass a NumPy array"
        ) from error


def torch_dtype_name(dtype: object) -> str | None:
    """The name of a `torch.dtype`, such as "float32"; None for anything else."""
    return str(dtype).removeprefix("torch.") if _is_instance(dtype, "torch", "dtype") else None


def to_torch(array: npt.NDArray[Any], name: str) -> Any:
    """A tensor on the CPU of the torch dtype of this name, with the bits of an array of the same."""
    torch = sys.modules["torch"]
    if name in _TORCH_VIEWS:
        return torch.from_numpy(array.view(_TORCH_VIEWS[name][0])).view(getattr(torch, name))
    return torch.from_numpy(array)


def _is_instance(x: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(x, kind)


def _from_torch(x: Any, name: str) -> npt.NDArray[Any]:
    dtype = str(x.dtype).removeprefix("torch.")
    try:
        plain = x.detach().cpu().resolve_conj().resolve_neg()
        if dtype not in _TORCH_VIEWS:
            return np.asarray(plain.numpy())
        integer, numpy_dtype = _TORCH_VIEWS[dtype]
        viewed: npt.NDArray[Any] = plain.view(getattr(sys.modules["torch"], integer)).numpy()
        return viewed.view(numpy_dtype)
    except (TypeError, RuntimeError, NotImplementedError) as error:
        raise TypeError(
            f"{name} is a torch tensor of {dtype} on {x.device}, layout {x.layout}, without numbers that NumPy can hold; "
            "pass a dense tensor of float32, float16 or bfloat16 (codes: uint8)"
        ) from error


def as_index(value: object, name: str) -> int:
    """An integer, NumPy's too. Raises TypeError for something else, True and False among it."""
    if not isinstance(value, (bool, np.bool_)):
        with suppress(TypeError):
            return index(value)  # type: ignore[arg-type]  # what is none is refused in words
    raise TypeError(f"{name} is of type {type(value).__name__}; pass an integer")


def check_flag(value: object, name: str) -> bool:
    """True or False, NumPy's too. Raises TypeError for something else: any text, "no" as well, would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is of type {type(value).__name__}; pass True or False")
    return bool(value)
