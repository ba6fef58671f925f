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
_RUN = 1 << 24


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
    header, placed = lay_out(tensors, {"format": "pt"}, path)
    size = placed[-1].offset + placed[-1].size
    out = OutputFile(path, header, placed, size)
    for tensor in placed:
        if tensor.dtype == "F32":
            out.write(tensor.name, 0, draw.uniform(1e-5, 1e-3, 1).astype("<f4").view(np.uint8))
            continue
        high = 256 if tensor.dtype == "U8" else 0x7F
        for start in range(0, tensor.size, _RUN):
            out.write(tensor.name, start, draw.integers(0, high, min(_RUN, tensor.size - start), np.uint8))
    out.close()
    return size


def run_conversion(source: Path, out: Path, convention: str) -> dict[str, Any]:
    """One conversion in a process of its own: what it said, its memory and its time."""
    answer = out.with_suffix(".json")
    command = [sys.executable, "-m", "mxspec_conformance", "convert", str(source), str(out), "--to", convention, "--json"]
    began = time.monotonic()
    with answer.open("wb") as sink:
        child = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, sink.fileno(), 1)])
        _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - began
    if status:
        raise SystemExit(f"conversion to {convention} failed with status {status}")
    said = json.loads(answer.read_text("ascii"))
    answer.unlink()
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "to": convention, "seconds": round(seconds, 1), "mb_per_s": round(source.stat().st_size / seconds / 1e6, 1),
        "peak_rss_bytes": peak, "elements": said["elements"], "values_changed": said["values_changed"], "met": peak <= BAR,
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
    options.json.parent.mkdir(parents=True, exist_ok=True)
    temporary = options.json.with_suffix(".part")
    temporary.write_text(json.dumps(document, indent=1) + "\n", "ascii")
    temporary.replace(options.json)
    return 0 if document["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
