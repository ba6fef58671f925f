"""The kernels' arithmetic on a host: the same `.cuh` files through g++, called by ctypes.

For tests on machines without a GPU; nothing here is fast.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import code_dtype
from mxspec.formats import get_scalar
from mxspec.rcp_table import load_rcp_table
from mxspec_gpu.kernels import SCALARS
from mxspec_gpu.rules import KernelRules

FORMATS = SCALARS
ROUNDINGS = ["rne", "rna", "rnz", "rnu", "rtz", "rtn", "rtp"]
OVERFLOWS = ["saturate", "own", "saturate-finite"]
INPUTS = ["float32", "float16", "bfloat16"]
RANDOM = {None: 0, 32: 1, 8: 2, "counter": 3}

# Not optimised: compiling the rules of all profiles takes most of the time.
_FLAGS = ("-std=c++17", "-O0", "-shared", "-fPIC", "-ffp-contract=off", "-fno-fast-math", "-w", "-fno-strict-aliasing")


class CompilerMissingError(RuntimeError):
    """No g++."""


def combine_rules(rules: Sequence[KernelRules]) -> str:
    """One header with the rules of several profiles, each in its namespace."""
    parts = [f"namespace rules_{i} {{\n{r.text}}}  // namespace rules_{i}\n" for i, r in enumerate(rules)]
    cases = " ".join(f"MX_CASE({i})" for i in range(len(rules)))
    return "".join(parts) + f"#define MX_ALL_RULES {cases}\n"


class HostLibrary:
    """The compiled arithmetic. Arrays in, arrays out; rules are named by their place in the list it was built with."""

    def __init__(self, path: Path, rules: Sequence[KernelRules]) -> None:
        self.path, self.rules = path, list(rules)
        self._library = ctypes.CDLL(str(path))
        self._library.mx_quantize.restype = ctypes.c_int64
        self._library.mx_amax.restype = ctypes.c_uint32
        self._table = np.ascontiguousarray(load_rcp_table())
        self._library.set_rcp_table(_pointer(self._table))

    def encode(self, x: npt.NDArray[Any], fmt: str, rounding: str, overflow: str, nan: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """Codes of every number (float32, float16 or bfloat16) by the plain encoder."""
        out = np.empty(x.size, np.uint8)
        self._library.mx_encode(
            FORMATS.index(fmt), INPUTS.index(x.dtype.name), ROUNDINGS.index(rounding), OVERFLOWS.index(overflow), nan[0],
            nan[1], ctypes.c_int64(x.size), _pointer(x), _pointer(out),
        )  # fmt: skip
        return out

    def find_amax(self, x: npt.NDArray[Any], *, skip_nan: bool) -> int:
        """float32 bits of the largest magnitude of an even number of numbers."""
        bits: int = self._library.mx_amax(INPUTS.index(x.dtype.name), int(skip_nan), ctypes.c_int64(x.nbytes // 4), _pointer(x))
        return bits

    def find_largest(self, x: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
        """float32 bits of the largest magnitude of every 32 bytes."""
        out = np.empty(x.nbytes // 32, np.uint32)
        self._library.mx_largest(INPUTS.index(x.dtype.name), ctypes.c_int64(x.nbytes // 4), _pointer(x), _pointer(out))
        return out

    def encode8(self, x: npt.NDArray[np.float32], fmt: str) -> npt.NDArray[np.uint8]:
        """Codes by the fast encoder, eight at a time; no NaN among them."""
        out = np.empty(x.size, np.uint8)
        self._library.mx_encode8(FORMATS.index(fmt), ctypes.c_int64(x.size), _pointer(x), _pointer(out))
        return out

    def encode_stochastic(
        self, x: npt.NDArray[np.float32], fmt: str, words: npt.NDArray[np.uint32], bits: int, nan: tuple[int, int]
    ) -> npt.NDArray[np.uint8]:
        """Codes by the integer rule of stochastic rounding."""
        out = np.empty(x.size, np.uint8)
        self._library.mx_stochastic(
            FORMATS.index(fmt), bits, nan[0], nan[1], ctypes.c_int64(x.size), _pointer(x), _pointer(words), _pointer(out)
        )
        return out

    def decode(self, codes: npt.NDArray[np.uint8], fmt: str, *, packed: bool = False) -> npt.NDArray[np.float32]:
        """Values of codes; of packed codes by the fast decoder, eight at a time."""
        count = codes.size * 8 // get_scalar(fmt).bits if packed else codes.size
        out = np.empty(count, np.float32)
        call = self._library.mx_decode8 if packed else self._library.mx_decode
        call(FORMATS.index(fmt), ctypes.c_int64(count), _pointer(codes), _pointer(out))
        return out

    def hadamard(self, x: npt.NDArray[np.float32], signs: int) -> npt.NDArray[np.float32]:
        """The random Hadamard transform of whole sixteens, for the signs 0000, 5A3C, 8001 and FFFF."""
        out = np.empty_like(x)
        code = self._library.mx_hadamard(signs, ctypes.c_int64(x.size), _pointer(x), _pointer(out))
        if code:
            raise ValueError(f"signs = {signs:#x} are not compiled for the host")
        return out

    def make_random(self, base: int, count: int, seed: int, *, pairs: bool) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """The random bytes [count, 16] of an even number of counters from `base`, an even number, one or two at a time; and of
        which, [count] or [count / 2], the upper word is that of `base`: the others' bytes are not theirs."""
        out, right = np.empty((count, 16), np.uint8), np.empty(count // 2 if pairs else count, np.bool_)
        self._library.mx_philox(
            int(pairs), ctypes.c_uint64(base), ctypes.c_uint64(seed), ctypes.c_int64(count), _pointer(out), _pointer(right)
        )
        return out, right

    def find_lowest_bits(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.int16]:
        """The exponent of the lowest set bit of each number."""
        out = np.empty(x.shape, np.int16)
        self._library.mx_lowest_bits(ctypes.c_int64(x.size), _pointer(x), _pointer(out))
        return out

    def find_certain(self, magnitude: npt.NDArray[np.float64], unit: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
        """Which sums float64 adds exactly."""
        out = np.empty(magnitude.shape, np.bool_)
        self._library.mx_certain(ctypes.c_int64(magnitude.size), _pointer(magnitude), _pointer(unit), _pointer(out))
        return out

    def dequantize_affine(
        self, q: npt.NDArray[np.float32], s: npt.NDArray[np.float32], o: npt.NDArray[np.float32], *, zero: bool, held: str,
        form: int, fused: bool,
    ) -> npt.NDArray[np.float32]:  # fmt: skip
        """Values of affine codes, one scale and offset to each, rounded to the dtype `held`."""
        out = np.empty(q.shape, np.float32)
        self._library.mx_affine(
            int(zero), INPUTS.index(held), form, int(fused), ctypes.c_int64(q.size), _pointer(q), _pointer(s), _pointer(o),
            _pointer(out),
        )  # fmt: skip
        return out

    def write_records(self, codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8], k: int) -> npt.NDArray[np.uint8]:
        """ggml's records of packed e2m1 codes and scales, blocks of k elements."""
        count, size = (scales.size, 17) if k == 32 else (scales.size // 4, 36)
        out = np.empty(count * size, np.uint8)
        self._library.mx_records(k, 1, ctypes.c_int64(count), _pointer(codes), _pointer(scales), _pointer(out))
        return out

    def read_records(self, records: npt.NDArray[np.uint8], k: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Packed codes and scales of ggml's records."""
        count = records.size // (17 if k == 32 else 36)
        codes, scales = np.empty(count * (16 if k == 32 else 32), np.uint8), np.empty(count * (1 if k == 32 else 4), np.uint8)
        self._library.mx_records(k, 0, ctypes.c_int64(count), _pointer(codes), _pointer(scales), _pointer(records))
        return codes, scales

    def spread_sparse(
        self, kept: npt.NDArray[np.uint8], metadata: npt.NDArray[np.uint8], *, pairs: bool
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """Packed dense codes of packed kept ones and packed nibbles, and whether the nibbles of each four codes are legal."""
        codes, legal = np.empty(kept.size * 2, np.uint8), np.empty(kept.size, np.bool_)
        self._library.mx_spread(
            int(pairs), ctypes.c_int64(kept.size // 2), _pointer(kept), _pointer(metadata), _pointer(codes), _pointer(legal)
        )
        return codes, legal

    def encode_scale(self, value: npt.NDArray[np.float32], rules: int) -> npt.NDArray[Any]:
        """Codes of scale values."""
        out = np.empty(value.size, code_dtype(self.rules[rules].fmt.scale))
        self._library.mx_scale(rules, ctypes.c_int64(value.size), _pointer(value), _pointer(out))
        return out

    def quantize(
        self,
        x: npt.NDArray[Any],
        rules: int,
        *,
        fast: bool,
        native: float = 1.0,
        words: npt.NDArray[np.uint32] | None = None,
        random: int | str | None = None,
        seed: int = 0,
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any], int]:
        """Packed codes and codes of scales of whole blocks [n, k], and how many blocks went the fast way."""
        fmt = self.rules[rules].fmt
        codes = np.empty((len(x), fmt.k * fmt.element.bits // 8), np.uint8)
        scales = np.empty(len(x), code_dtype(fmt.scale))
        ordinary = self._library.mx_quantize(
            rules, INPUTS.index(x.dtype.name), int(fast), RANDOM[random], ctypes.c_int64(len(x)), _pointer(x),
            ctypes.c_float(native), None if words is None else _pointer(words), ctypes.c_uint64(seed),
            _pointer(codes), _pointer(scales),
        )  # fmt: skip
        return codes, scales, int(ordinary)

    def dequantize(
        self, packed: npt.NDArray[np.uint8], scales: npt.NDArray[Any], rules: int, *, native: float = 1.0
    ) -> npt.NDArray[np.float32]:
        """float32 values of packed codes."""
        out = np.empty(packed.size * 8 // self.rules[rules].fmt.element.bits, np.float32)
        self._library.mx_dequantize(
            rules, ctypes.c_int64(out.size), _pointer(packed), _pointer(scales), ctypes.c_float(native), _pointer(out)
        )
        return out


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def find_compiler() -> str:
    """The path of g++; CompilerMissingError without one."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise CompilerMissingError("g++ is not on the PATH; install a C++17 compiler (Debian: apt install g++)")
    return compiler


@lru_cache(maxsize=4)
def build_host_library(rules: tuple[KernelRules, ...]) -> HostLibrary:
    """Compile the headers with these rules.

    Raises CompilerMissingError without g++, and RuntimeError with the compiler's words if they do not compile.
    """
    compiler = find_compiler()
    text = combine_rules(rules)
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    folder = Path(tempfile.mkdtemp(prefix=f"mxspec-gpu-host-{digest}-"))
    # Loaded until the process ends, so it is only then that the file may go.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "all_rules.generated.cuh").write_text(text, "utf-8")
    library = folder / "arithmetic.so"
    with as_file(files("mxspec_gpu").joinpath("kernels")) as kernels:
        command = [compiler, *_FLAGS, f"-I{folder}", f"-I{kernels}", "-o", str(library), str(kernels / "host.cpp")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"g++ refused the kernels' arithmetic:\n{done.stderr[:4000]}")
    return HostLibrary(library, rules)
