"""What reports of benchmarks share: the machine, the kernels built beforehand, and writing them whole."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mxspec
from mxspec_gpu.build import KernelSource, import_cupy, name_arch
from mxspec_gpu.ceilings import Ceilings, measure_bandwidths
from mxspec_gpu.compile_all import build_all
from mxspec_gpu.timing import LEAST_SETS, import_torch


def describe_environment() -> dict[str, Any]:
    """Chip, driver, versions and commit."""
    cupy, torch = import_cupy(), import_torch()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    query = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    versions = {}
    for name in ("torch", "triton", "torchao", "bitsandbytes", "humming-kernels", "numpy"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "device": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": properties["multiProcessorCount"],
        "driver": query.stdout.strip().splitlines()[0] if query.stdout.strip() else "unknown",
        "cuda": torch.version.cuda,
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "cupy": cupy.__version__,
        **versions,
        "python": platform.python_version(),
        "mxspec": mxspec.__version__,
        "commit": os.environ.get("MXSPEC_COMMIT") or git.stdout.strip() or "unknown",
    }


def build_here(sources: Sequence[KernelSource]) -> None:
    """Compile kernels for this GPU, so that no measurement waits for a compiler."""
    capability = import_cupy().cuda.Device().compute_capability
    build_all(list(sources), name_arch((int(capability[:-1]), int(capability[-1]))), os.cpu_count() or 1)


def round_bandwidths(bandwidth: dict[str, float]) -> dict[str, int]:
    """Bytes a second, whole."""
    return {k: round(v) for k, v in bandwidth.items()}


def write_report(out: Path, report: dict[str, Any]) -> None:
    """Write a report; what was there before stays until the new one is whole."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_suffix(".part")
    temporary.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    temporary.replace(out)


def run_command(description: str | None, what: str, sources: Sequence[KernelSource], parts: Mapping[str, Callable[[Ceilings], Any]]) -> int:
    """A command with `--out FILE` and `--only PART ...`: build kernels, measure the bandwidths, then what is requested, and write the report.

    what: the report's first line. parts: key in the report -> what measures it, from the ceilings of the same run.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="parts of the report")
    options = parser.parse_args()
    build_here(sources)
    bandwidth = measure_bandwidths()
    ceilings = Ceilings(bandwidth)
    report = {
        "what": what, **describe_environment(), "least_sets_of_buffers": LEAST_SETS, "bandwidth": round_bandwidths(bandwidth),
        **{name: measure(ceilings) for name, measure in parts.items() if name in options.only}, "mixes": ceilings.describe(),
    }  # fmt: skip
    write_report(options.out, report)
    return 0
