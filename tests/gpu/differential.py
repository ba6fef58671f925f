"""The tests of this folder on a GPU, as evidence: `python -m tests.gpu.differential --out FILE [--only NAME ...] [--quick]`.

Runs pytest on the folder with the full volume, counts what every test compared, and writes the counts by module, with the
device, the versions and the digests of the sources. The exit code is 0 where nothing failed and nothing differed. `--compile`
only fills the cache of kernels. `--keep FILE` adds the modules of an earlier or a parallel run of the same sources.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.adjacent import register_named
from mxspec.affine import list_contracts
from mxspec_gpu import step_kernels
from mxspec_gpu.build import KernelSource, import_cupy, name_arch
from mxspec_gpu.compile_all import build_all
from mxspec_gpu.fp8 import list_group_kernels
from mxspec_gpu.fused import list_norm_kernels
from mxspec_gpu.kernels import list_expert_kernels, list_instantiations
from mxspec_gpu.product_kernels import AFFINE_FORMATS, list_product_kernels
from mxspec_gpu.rules import generate_rules
from mxspec_gpu.step_kernels import list_step_kernels
from mxspec_gpu.tiles import list_tile_kernels

from tests.gpu.arithmetic import FORMAT_LEVELS, LEVELS
from tests.gpu.digest import GROUPS, STEP_SECTIONS, digest_sources, find_groups
from tests.gpu.gated import FUSED_LEVELS
from tests.gpu.sweeps import JOBS
from tests.gpu.transformed import list_kernels

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
Result = dict[str, Any]
#: Set where the kernels have been compiled already.
COMPILED = "MXSPEC_GPU_COMPILED"


def merge(tallies: list[Result]) -> Result:
    """Counts of several tests as one."""
    first = [line for t in tallies for line in t["first"]][:12]
    more = {k: v for t in tallies for k, v in t.items() if k not in ("compared", "different", "first")}
    return {"compared": sum(t["compared"] for t in tallies), "different": sum(t["different"] for t in tallies), "first": first, **more}


class Recorder:
    """Counts and outcomes by module, as pytest reports them."""

    def __init__(self) -> None:
        self.tallies: dict[str, list[Result]] = {}
        self.outcomes: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self.skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test."""
        name = Path(report.location[0]).stem.removeprefix("test_")
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if report.when == "call" or report.outcome != "passed":
            outcomes = self.outcomes.setdefault(name, {})
            outcomes[report.outcome] = outcomes.get(report.outcome, 0) + 1
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            self.skipped[f"{name}: {report.nodeid.split('::')[-1]}"] = report.longrepr[2]
        if report.when == "call":
            self.tallies.setdefault(name, []).extend(v for k, v in report.user_properties if k == "tally")

    def sections(self) -> dict[str, Result]:
        """For the report."""
        return {
            name: {"tests": dict(sorted(outcomes.items())), **merge(self.tallies.get(name, [])), "seconds": round(self.seconds[name], 1)}
            for name, outcomes in sorted(self.outcomes.items())
        }  # fmt: skip


def list_test_kernels() -> list[KernelSource]:
    """The steps under every profile of four-bit blocks, which `compile_all` leaves out."""
    found = []
    for profile, fmt, two_level in LEVELS:
        if mxspec.BLOCKS[fmt].element.name == "e2m1":
            rules = generate_rules(profile, fmt, two_level=two_level)
            found += [step_kernels.step_ways_kernel(rules, way, dtype) for way in step_kernels.WAYS for dtype in step_kernels.HALVES]
            found += [
                step_kernels.step_quantize_kernel(rules, dtype, tiled=tiled) for dtype in step_kernels.HALVES for tiled in (False, True)
            ]
    for affine in AFFINE_FORMATS:
        found += [step_kernels.step_affine_kernel(affine, c) for c in list_contracts(affine) if c.dtype == "float32"]
    return found


def list_sources(only: list[str]) -> list[KernelSource]:
    """Every kernel that the tests ask for; of modules of products and stored weights alone, theirs and a few more; of three others, theirs."""
    sweeps = [j.source(write=w) for j in JOBS for w in (False, True)]
    alone = {"fp8": list_group_kernels(), "sweeps": sweeps, "fused": list_norm_kernels(FUSED_LEVELS)}
    if len(only) == 1 and only[0] in alone:
        return alone[only[0]]
    if only and set(only) <= {section for name, group in GROUPS.items() for section in group[2] if name not in ("square", "fused")}:
        few = list_instantiations([level for level in LEVELS if level in FORMAT_LEVELS], (0,))
        products = [*list_product_kernels(), *list_tile_kernels(), *list_group_kernels()] if set(only) - set(STEP_SECTIONS) else []
        steps = [*list_step_kernels(), *list_test_kernels()] if set(only) & set(STEP_SECTIONS) else []
        return [*products, *steps, *few, *list_expert_kernels(FORMAT_LEVELS)]
    return [
        *list_instantiations(LEVELS), *list_kernels(), *list_product_kernels(), *list_tile_kernels(), *list_step_kernels(),
        *list_test_kernels(), *list_expert_kernels(FORMAT_LEVELS), *(kernel for kernels in alone.values() for kernel in kernels),
    ]  # fmt: skip


def compile_kernels(only: list[str]) -> Result:
    """The kernels, into the cache."""
    register_named({level[1] for level in LEVELS})
    text = import_cupy().cuda.Device().compute_capability
    start = time.perf_counter()
    sources = list_sources(only)
    build_all(sources, name_arch((int(text[:-1]), int(text[-1]))), os.cpu_count() or 1)
    return {"kernels": len(sources), "seconds": round(time.perf_counter() - start, 1)}


def compile_apart(only: list[str]) -> Result:
    """The same in a process of its own: one that has forked may not go on to multiply matrices on many threads."""
    command = [sys.executable, "-m", "tests.gpu.differential", "--compile", *(["--only", *only] if only else [])]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def describe_device() -> Result:
    """Chip, driver and versions."""
    cupy = import_cupy()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "device": properties["name"].decode(),
        "devices": cupy.cuda.runtime.getDeviceCount(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "driver": driver.stdout.strip().splitlines()[0] if driver.stdout.strip() else "unknown",
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "cupy": cupy.__version__,
        "torch": _torch_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "python": platform.python_version(),
        "mxspec": mxspec.__version__,
        "commit": os.environ.get("MXSPEC_COMMIT") or git.stdout.strip() or "unknown",
    }


def _torch_version() -> str:
    try:
        import torch
    except ImportError:
        return "not installed"
    return str(torch.__version__)


#: What two runs have in common whose sections may stand in one report.
_SAME = ("what", "compute_capability", "mxspec", "quick", "levels")
#: What is said of a kept section where it was another.
_SAID = ("device", "driver", "nvrtc", "cupy", "torch", "numpy", "ml_dtypes", "python")


def keep_sections(report: Result, kept: Result) -> None:
    """Add the sections and skips that only `kept` has, with where they were run.

    Raises ValueError where a section is of other sources, or `kept` of another compute capability or volume.
    """
    different = [key for key in _SAME if report[key] != kept[key]]
    missing = [name for name in kept["sections"] if name not in report["sections"]]
    different += [
        f"sources ({group})"
        for group in sorted({g for name in missing for g in find_groups(name)})
        if report["sources"][group] != kept["sources"].get(group)
    ]
    if different:
        raise ValueError(f"the kept report has other {', '.join(different)}; run its sections again")
    other = {key: kept[key] for key in _SAID if report[key] != kept[key]}
    for name in missing:
        where = {"commit": kept["commit"], "devices": kept["devices"], **other}
        report["sections"][name] = where | kept["sections"][name]
        report["skipped"] |= {k: v for k, v in kept["skipped"].items() if k.startswith(f"{name}: ")}
    report["sections"] = dict(sorted(report["sections"].items()))


def main() -> int:
    """Run the tests and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="modules without test_, such as views")
    parser.add_argument("--quick", action="store_true", help="the volume of a plain pytest run")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--keep", type=Path, help="read once the tests are done")
    options = parser.parse_args()
    if options.compile:
        print(json.dumps(compile_kernels(options.only)))
        return 0
    if options.out is None:
        parser.error("--out FILE is needed, but with --compile")
    if not options.quick:  # before tests.gpu.device is imported, which reads it
        os.environ["MXSPEC_GPU_VOLUME"] = "full"
    report: Result = {
        "what": "the kernels against the model, on a chip",
        **describe_device(),
        "sources": digest_sources(),
        "quick": options.quick,
        "levels": len(LEVELS),
        "compiled": compile_apart(options.only),
    }
    os.environ[COMPILED] = "1"
    recorder = Recorder()
    files = [str(FOLDER / f"test_{name}.py") for name in options.only] or [str(FOLDER)]
    code = pytest.main([*files, "-q", "-p", "no:cacheprovider", "--tb=short"], plugins=[recorder])
    report |= {"skipped": recorder.skipped, "sections": recorder.sections()}
    if options.keep:
        keep_sections(report, json.loads(options.keep.read_text("utf-8")))
    wrong = any(s["different"] or set(s["tests"]) - {"passed", "skipped"} for s in report["sections"].values())
    report["exit_code"] = int(code) or int(wrong)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = options.out.with_suffix(".part")
    temporary.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    temporary.replace(options.out)
    for name, section in report["sections"].items():
        tests = ", ".join(f"{n} {what}" for what, n in section["tests"].items())
        print(f"{name:14} {tests:28} {section['compared']:>16,} compared {section['different']:>8,} different {section['seconds']:8.1f} s")
    return int(report["exit_code"])


if __name__ == "__main__":
    sys.exit(main())
