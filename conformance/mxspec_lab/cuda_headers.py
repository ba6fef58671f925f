"""NVIDIA's host conversions as a witness: cuda_fp4.h, cuda_fp6.h and cuda_fp8.h, compiled by a C++ compiler.

The headers have plain C++ bodies, so neither a GPU nor nvcc is needed. They are installed as wheels and never
copied; `native/cuda_headers.cpp`, which wraps them, is compiled into a temporary directory.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

#: The wheels that hold the headers and what these include.
PACKAGES = ("nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85", "nvidia-cuda-crt==13.0.88")

#: (element or scale format, rounding, overflow) of every encoder that the headers have.
ENCODERS: tuple[tuple[str, str, str], ...] = (
    *((name, rounding, "saturate") for name in ("e2m1", "e2m3", "e3m2") for rounding in ("rne", "rtz")),
    *((name, "rne", overflow) for name in ("e4m3", "e5m2") for overflow in ("saturate", "own")),
    *(("e8m0", rounding, overflow) for rounding in ("rtz", "rtp") for overflow in ("saturate", "own")),
)
#: Formats that the headers decode.
DECODERS = ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "e8m0")

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_DTYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": _BFLOAT16}


class HeadersMissingError(RuntimeError):
    """The headers or a C++ compiler are not installed; the message says how to install them."""


def find_include() -> Path:
    """The folder that holds cuda_fp4.h: of the installed wheel, else of $CUDA_HOME.

    Raises HeadersMissingError.
    """
    try:
        for file in distribution("nvidia-cuda-runtime").files or ():
            if file.name == "cuda_fp4.h":
                return Path(str(file.locate())).parent
    except PackageNotFoundError:
        pass
    toolkit = os.environ.get("CUDA_HOME")
    if toolkit and (Path(toolkit) / "include" / "cuda_fp4.h").is_file():
        return Path(toolkit) / "include"
    raise HeadersMissingError(f"NVIDIA's headers are not installed; run: pip install --no-deps {' '.join(PACKAGES)} (or set CUDA_HOME)")


def find_compiler() -> str:
    """$CXX, else g++, c++ or clang++.

    Raises HeadersMissingError.
    """
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise HeadersMissingError("no C++ compiler was found; install g++ (apt-get install g++) or set CXX")


def describe() -> dict[str, str]:
    """Versions of the headers and of the compiler.

    Raises HeadersMissingError.
    """
    find_include()
    try:
        headers = f"nvidia-cuda-runtime {version('nvidia-cuda-runtime')}"
    except PackageNotFoundError:
        headers = "CUDA_HOME"
    reply = subprocess.run([find_compiler(), "--version"], capture_output=True, text=True, check=True)
    return {"cuda_headers": headers, "compiler": reply.stdout.splitlines()[0]}


def compile_wrapper(folder: Path) -> Path:
    """Compile the wrapper into `folder` and return the shared library's path.

    Raises HeadersMissingError, and RuntimeError with the compiler's words where it refuses.
    """
    library = folder / "cuda_headers.so"
    with as_file(files("mxspec_lab").joinpath("native/cuda_headers.cpp")) as source:
        flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I", str(find_include())]
        command = [find_compiler(), *flags, str(source), "-o", str(library)]
        reply = subprocess.run(command, capture_output=True, text=True, check=False)
    if reply.returncode:
        raise RuntimeError(f"{source.name} does not compile; are {', '.join(PACKAGES)} all installed?\n{reply.stderr}")
    return library


class CudaHeaders:
    """The compiled wrapper."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def encode(self, x: npt.NDArray[Any], fmt: str, *, rounding: str = "rne", overflow: str = "saturate") -> npt.NDArray[np.uint8]:
        """The header's codes of float32, float16 or bfloat16, by one of `ENCODERS` (no float16 to e8m0).

        Raises ValueError where the headers have no such conversion, and TypeError for other dtypes.
        """
        names = [name for name, dtype in _DTYPES.items() if x.dtype == dtype]
        if not names:
            raise TypeError(f"x has dtype {x.dtype}; allowed are {', '.join(_DTYPES)}")
        if (fmt, rounding, overflow) not in ENCODERS or (fmt, names[0]) == ("e8m0", "float16"):
            raise ValueError(f"the headers have no conversion of {names[0]} to {fmt}, {rounding}, {overflow}")
        given = np.ascontiguousarray(x)
        codes = np.empty(given.shape, np.uint8)
        self._call(f"encode_{fmt}_{rounding}_{overflow}_{names[0]}", given, codes)
        return codes

    def decode(self, codes: npt.NDArray[np.uint8], fmt: str) -> npt.NDArray[np.float32]:
        """The header's values of codes, widened from float16 (e8m0: bfloat16) to float32."""
        if fmt not in DECODERS:
            raise ValueError(f"the headers do not decode {fmt}; they decode {', '.join(DECODERS)}")
        given = np.ascontiguousarray(codes)
        values = np.empty(given.shape, np.uint16)
        self._call(f"decode_{fmt}", given, values)
        dtype = _BFLOAT16 if fmt == "e8m0" else np.dtype(np.float16)
        wide: npt.NDArray[np.float32] = values.view(dtype).astype(np.float32)
        return wide

    def _call(self, name: str, given: npt.NDArray[Any], result: npt.NDArray[Any]) -> None:
        function = getattr(self._library, name)
        function.restype = None
        function(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(result.ctypes.data), ctypes.c_size_t(given.size))


def load(folder: Path | None = None) -> CudaHeaders:
    """Compile and load the wrapper; in `folder`, or in a temporary directory that is removed at once.

    Raises HeadersMissingError.
    """
    if folder is not None:
        return CudaHeaders(compile_wrapper(folder))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        return CudaHeaders(compile_wrapper(Path(temporary)))
