"""cuBLAS's products, on the caller's stream: rows of one matrix times rows of another."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mxspec_gpu.arrays import OnDevice
from mxspec_gpu.build import import_cupy

#: cuBLAS's numbers of dtypes (cudaDataType) and of ways to compute (cublasComputeType_t).
_DTYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_COMPUTE_FLOAT32, _COMPUTE_FLOAT64 = 68, 70
#: CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: parts of a sum meet in float32, whatever the output's dtype.
_FULL_SUMS = 16
_ON_HOST, _ON_DEVICE = 0, 1
_AS_IT_IS, _TRANSPOSED, _DEFAULT_ALGORITHM = 0, 1, -1
#: cuBLAS can put integers in the place of float64 arithmetic; what is added then is not what `exact_product` proves.
EMULATION_VARIABLE = "CUBLAS_EMULATE_DOUBLE_PRECISION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalars:
    """alpha of a product: a number, or the address of a float32 on the GPU (0: none)."""

    alpha: float = 1.0
    pointer: int = 0


def check_no_emulation() -> None:
    """Raises RuntimeError where cuBLAS is set to emulate float64."""
    if os.environ.get(EMULATION_VARIABLE, "0") not in ("", "0"):
        raise RuntimeError(
            f"{EMULATION_VARIABLE} = {os.environ[EMULATION_VARIABLE]!r} makes cuBLAS emulate float64, which proves nothing about "
            "sums; unset it"
        )


class BlasError(RuntimeError):
    """What cuBLAS refused."""


@lru_cache(maxsize=1)
def _load() -> ctypes.CDLL:
    """cuBLAS of the CUDA that CuPy uses: it is in the process already. CuPy's own calls cannot be captured in a graph."""
    cupy = import_cupy()
    cupy.cuda.device.get_cublas_handle()  # loads it
    major = cupy.cuda.runtime.runtimeGetVersion() // 1000
    name = f"cublas64_{major}.dll" if sys.platform == "win32" else f"libcublas.so.{major}"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise BlasError(f"{name} cannot be loaded ({error}); install cuBLAS: pip install 'cupy-cuda13x[ctk]'") from error


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_load(), name)(*arguments)
    if status:
        raise BlasError(f"{name} returned status {status} (cublasStatus_t)")


class _Handles(threading.local):
    """A thread's handles, by device; a handle is one thread's."""

    def __init__(self) -> None:
        self.of_devices: dict[int, ctypes.c_void_p] = {}

    def find(self, device: int) -> ctypes.c_void_p:
        if device not in self.of_devices:
            handle = ctypes.c_void_p()
            _call("cublasCreate_v2", ctypes.byref(handle))
            self.of_devices[device] = handle
        return self.of_devices[device]


_HANDLES = _Handles()


@lru_cache(maxsize=16)
def _zero(device: int) -> Any:
    """0 on the GPU, the beta of products whose alpha is there."""
    cupy = import_cupy()
    with OnDevice(device):
        held = cupy.zeros(1, cupy.float32)
        cupy.cuda.get_current_stream().synchronize()
    return held


def multiply_rows(
    left: int, right: int, out: int, shape: tuple[int, int, int], dtype: str, out_dtype: str, device: int, stream: int,
    scalars: Scalars | None = None,
) -> None:  # fmt: skip
    """out [m, n] = alpha left [m, k] right [n, k]^T, all contiguous, given by their addresses; shape: (m, n, k).

    Sums are float64 of float64 numbers, otherwise float32. A thread's first call on a device makes a handle, so it cannot be
    captured in a graph; later ones can. Raises BlasError where cuBLAS refuses.
    """
    given = scalars or Scalars()
    m, n, k = shape
    exact = dtype == "float64"
    real = ctypes.c_double if exact else ctypes.c_float
    alpha, beta = real(given.alpha), real(0)
    alpha_at, beta_at = ctypes.addressof(alpha), ctypes.addressof(beta)
    if given.pointer:
        alpha_at, beta_at = given.pointer, int(_zero(device).data.ptr)
    with OnDevice(device):
        handle = _HANDLES.find(device)
        _call("cublasSetStream_v2", handle, ctypes.c_void_p(stream))
        _call("cublasSetMathMode", handle, 0 if exact else _FULL_SUMS)
        _call("cublasSetPointerMode_v2", handle, _ON_DEVICE if given.pointer else _ON_HOST)
        # cuBLAS counts columns first: what it sees are the transposed matrices.
        _call(
            "cublasGemmEx", handle, _TRANSPOSED, _AS_IT_IS, n, m, k, ctypes.c_void_p(alpha_at), ctypes.c_void_p(right),
            _DTYPES[dtype], k, ctypes.c_void_p(left), _DTYPES[dtype], k, ctypes.c_void_p(beta_at), ctypes.c_void_p(out),
            _DTYPES[out_dtype], n, _COMPUTE_FLOAT64 if exact else _COMPUTE_FLOAT32, _DEFAULT_ALGORITHM,
        )  # fmt: skip
