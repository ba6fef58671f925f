"""Quantize a synthetic checkpoint of 2 GB, and measure memory and time beside a plain copy of the file.

    python tests/containers/measure_quantize.py [--json reports/containers/quantize.json] [--folder SCRATCH]

Each row is a process of its own; its memory is what the operating system says was resident at most (ru_maxrss). The last row
is killed (SIGKILL) when half of the output is on the disk, and run again: the bytes must be those of the uninterrupted run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.containers.header import Tensor

from tests.containers.measure_convert import RUN, digest, mxspec, run, write_tensors

#: Bytes of resident memory that a run may take, and how many times as long as a copy the first way may take.
BAR, TIMES = 300 << 20, 6
#: One tensor of half the file, others of a usual size, and some that are carried along.
SHAPES = {
    "model.layers.0.mlp.down_proj.weight": (16384, 32768),
    **{f"model.layers.{i}.mlp.down_proj.weight": (8192, 8192) for i in range(1, 7)},
    "model.embed_tokens.weight": (8192, 8192),
    "model.norm.weight": (8192,),
}
#: Format and convention of each run; the first is the one that the time is asked of.
WAYS = (
    ("mxfp4", "compressed-tensors"), ("nvfp4", "modelopt"), ("mxfp8_e4m3", "lightx2v"), ("int4-g128-zero-float16", "gptq"),
    ("int4-g128-zero-float16", "awq"),
)  # fmt: skip
SEED = 3


def write_source(path: Path) -> int:
    """A bfloat16 checkpoint of N(0, 1) / 64; its size."""
    draw = np.random.default_rng(SEED)
    tensors = [Tensor(n, "BF16", s, 0, 2 * int(np.prod(s)), path) for n, s in SHAPES.items()]
    # One draw for all: what is measured does not depend on it.
    numbers = draw.standard_normal(RUN // 2, np.float32) * np.float32(1 / 64)
    words = (numbers.view(np.uint32) >> np.uint32(16)).astype("<u2").view(np.uint8)
    return write_tensors(path, tensors, lambda tensor, size: words[:size])


def kill_halfway(command: list[str], out: Path, due: str) -> dict[str, Any]:
    """The same command, killed in the middle and run again."""
    journal = out.parent / f".{out.name}.partial" / "journal"
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while child.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 4):
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    left = journal.exists() and not out.exists()
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    resumed = json.loads(again.stdout)["resumed"]
    return {"killed_in_the_middle": left, "resumed": resumed, "same_bytes": digest(out) == due}


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("reports/containers/quantize.json"))
    parser.add_argument("--folder", type=Path, help="where the files go, 6 GB; by default a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        source, out, back = folder / "source.safetensors", folder / "out.safetensors", folder / "back.safetensors"
        # In a process of its own: what is started from here begins with the memory of this one.
        child = os.fork()
        if child == 0:
            write_source(source)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the source could not be written")
        size = source.stat().st_size
        print(f"source: {size / 1e9:.3f} GB", flush=True)
        program = "import shutil, sys, os\nshutil.copyfile(sys.argv[1], sys.argv[2])\nf = open(sys.argv[2], 'rb'); os.fsync(f.fileno())"
        copy = run([sys.executable, "-c", program, str(source), str(back)])
        back.unlink()
        rows = []
        for fmt, convention in WAYS:
            command = mxspec("quantize", source, out, "--format", fmt, "--to", convention)
            row = {"format": fmt, "to": convention, **run(command)}
            row["times_a_copy"] = round(row["seconds"] / copy["seconds"], 2)
            rows.append(row)
            print(row, flush=True)
            if fmt == "mxfp4":
                first = digest(out)
                rows.append({"format": fmt, "from": convention, **run(mxspec("dequantize", out, back))})
                print(rows[-1], flush=True)
                back.unlink()
                out.unlink()
                killed = kill_halfway(command, out, first)
                print(killed, flush=True)
            out.unlink()
        shutil.rmtree(folder / ".out.safetensors.partial", ignore_errors=True)
    document = {
        "command": "python tests/containers/measure_quantize.py",
        "machine": {
            "cpu_count": os.cpu_count(), "machine": platform.machine(), "os": platform.platform(),
            "python": platform.python_version(), "numpy": version("numpy"), "load": round(os.getloadavg()[0], 1),
        },
        "source": {"bytes": size, "dtype": "bfloat16", "seed": SEED, "shapes": {n: list(s) for n, s in SHAPES.items()}},
        "bar_bytes": BAR, "bar_times": TIMES,
        "what": "one process each: wall and CPU time, resident memory at most (ru_maxrss); a copy that is on the disk, for comparison",
        "copy": copy, "runs": rows, "killed": killed,
        "met": {
            "memory": all(r["peak_rss_bytes"] <= BAR for r in rows),
            "time": rows[0]["times_a_copy"] <= TIMES,
            "resumed": all(killed.values()),
        },
    }  # fmt: skip
    from mxspec_lab.evidence.status import write_result  # now: a process that is started begins with the memory of this one

    write_result(options.json, document)
    print(document["met"])
    return 0 if all(document["met"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
