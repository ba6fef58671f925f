"""The chip as a witness: its own instructions over every input, against the model.

`python -m mxspec_gpu.witness FILE` runs `rcp.approx.ftz.f32` and the fp8 conversions over all 2**32 float32 patterns
(and all float16 ones), compares digests of 2**24 inputs with the model's, and writes what it found as JSON.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.arrays import rcp_approx

CHUNK = 1 << 24

#: Instruction -> (kernel, output dtype, inputs are float16).
INSTRUCTIONS: dict[str, tuple[str, Any, bool]] = {
    "rcp.approx.ftz.f32": ("rcp_approx_ftz", np.uint32, False),
    "cvt.rn.satfinite.e4m3x2.f32": ("cvt_e4m3", np.uint8, False),
    "cvt.rn.satfinite.e5m2x2.f32": ("cvt_e5m2", np.uint8, False),
    "cvt.rn.satfinite.e4m3x2.f16x2": ("cvt_f16_e4m3", np.uint8, True),
    "cvt.rn.satfinite.e5m2x2.f16x2": ("cvt_f16_e5m2", np.uint8, True),
}


def import_cupy() -> Any:
    """CuPy, or an ImportError that says how to get it."""
    try:
        import cupy
    except ImportError as error:
        raise ImportError("the GPU witness needs CuPy and an NVIDIA GPU: pip install cupy-cuda13x") from error
    return cupy


def model_answer(instruction: str, first: int, count: int) -> npt.NDArray[Any]:
    """What the model says of consecutive patterns; NaN as 7fc00000."""
    kernel, _, half = INSTRUCTIONS[instruction]
    patterns = np.arange(first, first + count, dtype=np.uint64)
    with np.errstate(all="ignore"):
        if half:
            x = patterns.astype(np.uint16).view(np.float16).astype(np.float32)
        else:
            x = patterns.astype(np.uint32).view(np.float32)
        if kernel == "rcp_approx_ftz":
            return canonical(rcp_approx(x).view(np.uint32))
        return mxspec.encode(x, kernel[-4:], nan="nan-positive")


def canonical(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """float32 bits with every NaN written 7fc00000; codes as they are."""
    if bits.dtype != np.uint32:
        return bits
    return np.where(bits & 0x7FFFFFFF > 0x7F800000, np.uint32(0x7FC00000), bits)


def digest(values: npt.NDArray[Any]) -> str:
    """SHA-256 of the little-endian bytes."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _model_digest(task: tuple[str, int, int]) -> str:
    return digest(model_answer(*task))


def run(out: Path, *, workers: int) -> dict[str, Any]:
    """Run every instruction over every input and write the result."""
    cupy = import_cupy()
    source = files("mxspec_gpu").joinpath("kernels/witness.cu").read_text("ascii")
    module = cupy.RawModule(code=source, options=("--std=c++17",))
    results: dict[str, Any] = {}
    with ProcessPoolExecutor(workers) as pool:
        for name, (kernel, dtype, half) in INSTRUCTIONS.items():
            total = 1 << 16 if half else 1 << 32
            size = min(CHUNK, total)
            tasks = [(name, first, size) for first in range(0, total, size)]
            expected = pool.map(_model_digest, tasks)
            function, buffer = module.get_function(kernel), cupy.empty(size, dtype)
            digests: list[str] = []
            examples: list[dict[str, str]] = []
            different = 0
            for (_, first, _), want in zip(tasks, expected, strict=True):
                buffer.fill(0xA5)
                function((-(-size // 256),), (256,), (np.uint32(first), np.uint32(size), buffer))
                got = canonical(cupy.asnumpy(buffer))
                digests.append(digest(got))
                if digests[-1] != want:
                    wrong = np.flatnonzero(got != model_answer(name, first, size))
                    different += len(wrong)
                    examples += [
                        {
                            "input": f"{first + int(i):08x}",
                            "chip": f"{int(got[i]):x}",
                            "model": f"{int(model_answer(name, first + int(i), 1)[0]):x}",
                        }
                        for i in wrong[: max(0, 8 - len(examples))]
                    ]
            results[name] = {"inputs": total, "different": different, "examples": examples, "digests": digests}
            print(f"{name}: {total} inputs, {different} different", flush=True)
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    document = {
        "what": "the chip's own instructions against the model, digest per 2**24 consecutive inputs, NaN canonical",
        "device": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "mxspec": mxspec.__version__,
        "command": "python -m mxspec_gpu.witness FILE",
        "instructions": results,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_suffix(".part")
    temporary.write_text(json.dumps(document, indent=1) + "\n", "ascii")
    temporary.replace(out)
    return document


if __name__ == "__main__":
    import os

    if len(sys.argv) != 2:
        sys.exit("usage: python -m mxspec_gpu.witness FILE")
    run(Path(sys.argv[1]), workers=os.cpu_count() or 1)
