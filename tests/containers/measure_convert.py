"""Convert a synthetic checkpoint of 2 GB, there and back, and measure memory and time.

    python tests/containers/measure_convert.py [--json reports/containers/convert.json] [--folder SCRATCH]

Each conversion is a process of its own, `mxspec convert`; its memory is what the operating system says was resident at most
(ru_maxrss). The way back must give the file that was started from, byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.containers.header import Tensor
from mxspec.containers.resuming import OutputFile
from mxspec.containers.safetensors import lay_out

#: Bytes of resident memory that a conversion may take.
BAR = 512 << 20
#: One tensor of half the file, which no piece holds whole, and others of a usual size.
SHAPES = {"model.layers.0.mlp.up_proj": (32768, 65536), **{f"model.layers.{i}.mlp.up_proj": (16384, 16384) for i in range(1, 7)}}
WAYS = ("compressed-tensors", "gguf", "lightx2v")
SEED = 3
RUN = 1 << 24


def write_source(path: Path) -> int:
    """A ModelOpt NVFP4 checkpoint of random codes and scales; its size."""
    draw = np.random.default_rng(SEED)
    tensors = []
    for base, (rows, columns) in SHAPES.items():
        tensors += [
            Tensor(f"{base}.weight", "U8", (rows, columns // 2), 0, rows * columns // 2, path),
            Tensor(f"{base}.weight_scale", "F8_E4M3", (rows, columns // 16), 0, rows * columns // 16, path),
            Tensor(f"{base}.weight_scale_2", "F32", (), 0, 4, path),
        ]

    def fill(tensor: Tensor, size: int) -> Any:
        if tensor.dtype == "F32":
            return draw.uniform(1e-5, 1e-3, 1).astype("<f4").view(np.uint8)
        return draw.integers(0, 256 if tensor.dtype == "U8" else 0x7F, size, np.uint8)

    return write_tensors(path, tensors, fill)


def write_tensors(path: Path, tensors: Sequence[Tensor], fill: Callable[[Tensor, int], Any]) -> int:
    """A safetensors file, piece by piece: fill(tensor, bytes of a piece); its size."""
    header, placed = lay_out(tensors, {"format": "pt"}, path)
    size = placed[-1].offset + placed[-1].size
    out = OutputFile(path, header, placed, size)
    for tensor in placed:
        for start in range(0, tensor.size, RUN):
            out.write(tensor.name, start, fill(tensor, min(RUN, tensor.size - start)))
    out.close()
    return size


def run(command: Sequence[str], answer: str = os.devnull) -> dict[str, Any]:
    """One process: wall and CPU time, memory; answer: the file that its output goes to."""
    began = time.monotonic()
    child = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, answer, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    )
    _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - began
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "seconds": round(seconds, 2), "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2), "peak_rss_bytes": peak,
    }  # fmt: skip


def mxspec(*words: object) -> list[str]:
    """A command line."""
    return [sys.executable, "-m", "mxspec_conformance", *map(str, words)]


def run_conversion(source: Path, out: Path, convention: str) -> dict[str, Any]:
    """One conversion in a process of its own: what it said, its memory and its time."""
    answer = out.with_suffix(".json")
    used = run(mxspec("convert", source, out, "--to", convention, "--json"), str(answer))
    said = json.loads(answer.read_text("ascii"))
    answer.unlink()
    return {
        "to": convention, **used, "mb_per_s": round(source.stat().st_size / used["seconds"] / 1e6, 1), "elements": said["elements"],
        "values_changed": said["values_changed"], "met": used["peak_rss_bytes"] <= BAR,
    }  # fmt: skip


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("reports/containers/convert.json"))
    parser.add_argument("--folder", type=Path, help="where the files go, 6 GB; by default a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        source = folder / "source.safetensors"
        size = write_source(source)
        first = digest(source)
        print(f"source: {size / 1e9:.3f} GB, sha256 {first}", flush=True)
        rows = []
        for way in WAYS:
            there = folder / ("there.gguf" if way == "gguf" else "there.safetensors")
            back = folder / "back.safetensors"
            rows.append({"from": "modelopt", **run_conversion(source, there, way)})
            rows.append({"from": way, **run_conversion(there, back, "modelopt")})
            rows[-1]["same_bytes"] = digest(back) == first
            there.unlink()
            back.unlink()
            for row in rows[-2:]:
                print(row, flush=True)
    document = {
        "command": "python tests/containers/measure_convert.py",
        "machine": {
            "cpu_count": os.cpu_count(), "machine": platform.machine(), "os": platform.platform(),
            "python": platform.python_version(), "numpy": version("numpy"), "mxspec": version("mxspec"),
        },
        "source": {"bytes": size, "convention": "modelopt", "format": "nvfp4", "seed": SEED, "sha256": first,
                   "shapes": {n: list(s) for n, s in SHAPES.items()}},
        "bar_bytes": BAR,
        "what": "resident memory at most of one process `mxspec convert` (ru_maxrss), and its wall time",
        "conversions": rows,
        "met": all(r["met"] and r.get("same_bytes", True) for r in rows),
    }  # fmt: skip
    from mxspec_lab.evidence.status import write_result  # now: a process that is started begins with the memory of this one

    write_result(options.json, document)
    return 0 if document["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
