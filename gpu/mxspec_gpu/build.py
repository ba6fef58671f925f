"""Kernels from source to cubin, through NVRTC and with exact arithmetic.

CuPy adds flush-to-zero to whatever it compiles, so this module calls NVRTC itself and loads the cubin. Compiling needs
neither a GPU nor a driver. Cubins are kept in a cache, named by a digest of sources, options and compiler.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

#: Subnormals kept, no contraction, division and square root rounded correctly.
EXACT_ARITHMETIC = ("-ftz=false", "-fmad=false", "-prec-div=true", "-prec-sqrt=true")

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100a", "sm_103a", "sm_120a")

#: Those without arithmetic on pairs of bfloat16, asynchronous copies and larger tensor-core products: kernels that use them are refused.
LIMITED = ("sm_75",)

#: Capabilities whose block-format conversions need the architecture-specific target.
_SPECIFIC = {(10, 0): "sm_100a", (10, 3): "sm_103a", (12, 0): "sm_120a", (12, 1): "sm_121a"}

CACHE_VARIABLE = "MXSPEC_GPU_CACHE"


class GpuMissingError(RuntimeError):
    """CuPy or a usable GPU is missing. The message says which, and how to get it."""


class OldGpuError(GpuMissingError):
    """The GPU lacks instructions that a kernel needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """One kernel with its compile-time choices."""

    #: File in `kernels/`.
    file: str
    #: Name of the function.
    function: str
    defines: tuple[tuple[str, str], ...] = ()
    #: Generated headers: name -> text.
    generated: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Bytes of shared memory that a launch gives a block, in addition to what the kernel declares.
    shared: int = 0

    def options(self, arch: str) -> tuple[str, ...]:
        """NVRTC's options."""
        return (f"-arch={arch}", "-std=c++17", *EXACT_ARITHMETIC, "-default-device", *(f"-D{name}={value}" for name, value in self.defines))


@lru_cache(maxsize=1)
def read_sources() -> Mapping[str, str]:
    """Text of every file in `kernels/`."""
    folder = files("mxspec_gpu").joinpath("kernels")
    return {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".cu", ".cuh"))}


@lru_cache(maxsize=1)
def import_cupy() -> Any:
    """CuPy.

    Raises GpuMissingError, saying how to get it.
    """
    try:
        import cupy
    except ImportError as error:
        raise GpuMissingError(f"the GPU kernels need CuPy, which does not import here ({error}): pip install cupy-cuda13x") from error
    return cupy


def import_nvrtc() -> Any:
    """CuPy's binding of NVRTC, which compiles without a GPU.

    Raises GpuMissingError, saying how to get it.
    """
    import_cupy()
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:
        raise GpuMissingError(
            f"NVRTC does not load here ({error}): pip install nvidia-cuda-nvrtc nvidia-cuda-runtime, both of CUDA 13"
        ) from error
    return nvrtc


def name_arch(capability: tuple[int, int]) -> str:
    """The target of a compute capability.

    Raises OldGpuError before 7.5, for which NVRTC no longer compiles.
    """
    if capability < (7, 5):
        raise OldGpuError(f"the GPU has compute capability {capability[0]}.{capability[1]}; the kernels need 7.5, most of them 8.0")
    return _SPECIFIC.get(capability, f"sm_{capability[0]}{capability[1]}")


def _program_digest(source: KernelSource, arch: str, version: Any) -> str:
    sources = read_sources()
    h = hashlib.blake2b(digest_size=16)
    for part in (
        repr(version),
        *source.options(arch),
        source.file,
        *(f"{n}\0{t}" for n, t in source.generated),
        *(f"{n}\0{sources[n]}" for n in sorted(sources) if n.endswith(".cuh") or n == source.file),
    ):
        h.update(part.encode())
        h.update(b"\1")
    return h.hexdigest()


def compile_cubin(source: KernelSource, arch: str) -> bytes:
    """The cubin of one kernel for one architecture; no GPU is needed.

    Raises RuntimeError with the compiler's log; OldGpuError, one of them, for a kernel that a `LIMITED` target lacks instructions for.
    """
    nvrtc = import_nvrtc()
    sources = read_sources()
    headers = {n: t for n, t in sources.items() if n.endswith(".cuh")} | dict(source.generated)
    texts, names = ([t.encode() for t in part] for part in (headers.values(), headers))
    program = nvrtc.createProgram(sources[source.file], source.file, texts, names)
    try:
        nvrtc.compileProgram(program, source.options(arch))
        cubin: bytes = nvrtc.getCUBIN(program)
        # CuPy cuts the last byte off, as it must off PTX; disassemblers want the whole file. It is padding, a zero.
        return cubin + b"\0" * (-len(cubin) % 8)
    except nvrtc.NVRTCError as error:
        failed = RuntimeError(f"{source.file} does not compile for {arch}:\n{nvrtc.getProgramLog(program)}")
        if arch in LIMITED:
            raise OldGpuError(
                f"{source.function} needs compute capability 8.0, and this GPU has 7.5, where dequantize, quantize along one axis, encode, "
                "decode, pack and unpack, records and all steps but quantize_grid_stride run; use another call, or mxspec (NumPy)"
            ) from failed
        raise failed from error
    finally:
        nvrtc.destroyProgram(program)


def cache_folder() -> Path:
    """Where cubins are kept: $MXSPEC_GPU_CACHE, or mxspec/cubin in the user's cache."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mxspec" / "cubin"


def find_cubin(source: KernelSource, arch: str) -> Path:
    """The cubin's file, compiled now if it is not in the cache."""
    path = cache_folder() / f"{_program_digest(source, arch, import_nvrtc().getVersion())}.cubin"
    if not path.exists():
        cubin = compile_cubin(source, arch)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(cubin)
        Path(temporary).replace(path)
    return path


@lru_cache(maxsize=16)
def find_arch(device: int) -> str:
    """The target of a device."""
    capability = import_cupy().cuda.Device(device).compute_capability
    return name_arch((int(capability[:-1]), int(capability[-1])))


@lru_cache(maxsize=512)
def load_kernel(source: KernelSource, device: int) -> Any:
    """The kernel as a CuPy function on a device."""
    cupy = import_cupy()
    with cupy.cuda.Device(device):
        function = cupy.RawModule(path=str(find_cubin(source, find_arch(device)))).get_function(source.function)
        if source.shared:
            # One function for all launches of a program: none may take what another needs.
            function.max_dynamic_shared_size_bytes = max(function.max_dynamic_shared_size_bytes, source.shared)
        return function
