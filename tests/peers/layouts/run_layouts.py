"""Compare every layout with the libraries that use it, in one environment, and record what they showed.

The environment `.venv-layouts` is made if it is not there. Libraries that were run once from checkouts are left as they were
recorded. Results go to `reports/peers/layouts.json`; the test command fails when a layout has changed since, or differs.

    python tests/peers/layouts/run_layouts.py [NAME...] [--python PATH]
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "reports" / "peers" / "layouts.json"
TORCH = "torch==2.13.0"
#: Installed with what they ask for, in this order.
PACKAGES = (
    "gguf==0.19.0", "mlx[cpu]==0.32.4", "onnx==1.23.2", TORCH, "triton==3.9.0", "torchao==0.18.0",
    "compressed-tensors==0.20.0", "transformers==5.23.0", "scipy", "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88", "omegaconf", "pulp", "onnxslim==0.1.98", "apache-tvm-ffi",
    "nvidia-ml-py", "einops",
)  # fmt: skip
#: Installed alone: what they ask for would replace torch, bring GPU packages, or is not needed by what is run.
BARE = (
    "nvidia-modelopt==0.47.0", "amd-quark==0.13", "bitsandbytes==0.50.2", "flashinfer-python==0.7.2.post1",
    "vllm==0.33.0", "tokenspeed-triton-kernels==1.0.0.post20260510", "nvidia-cutlass==4.2.0.0", "nvmath-python==1.0.0",
)  # fmt: skip
#: Libraries, in the order of the result.
LIBRARIES = (
    "gguf_py", "mlx_py", "onnx_py", "torchao_py", "compressed_tensors_py", "modelopt_py", "quark_py", "bitsandbytes_py", "transformers_py",
    "torch_sparse_py", "flashinfer_py", "trtllm_places", "nvmath_py", "cutlass_cute", "vllm_py", "triton_kernels_py", "triton_ragged_py",
)  # fmt: skip
#: Those that were run once, from checkouts: the commits of their records have the scripts, and the records stay.
ONCE = ("ggml_c", "triton_halves_py", "autogptq_py", "gptqmodel_py", "autoawq_py", "aiter_py")


def make_environment() -> Path:
    """The interpreter of the environment, made if it is not there."""
    folder = ROOT / ".venv-layouts"
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet"]
        for package in PACKAGES:
            subprocess.run([*install, package], check=True)
        for package in BARE:
            subprocess.run([*install, "--no-deps", package], check=True)
        subprocess.run([*install, "--editable", ROOT], check=True)
        (folder / "done").touch()
    return python


def run_library(python: Path, name: str) -> dict[str, Any]:
    """The record of one library, from a process of its own."""
    command = [python, "-W", "ignore", "-m", "tests.peers.layouts.record", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    line = done.stdout.rpartition("\n@@")[2]
    if done.returncode or not line.startswith("{"):
        raise SystemExit(f"{name} could not be compared:\n{done.stderr[-2000:]}")
    document: dict[str, Any] = json.loads(line)
    return document


def describe_machine(python: Path) -> dict[str, str]:
    """The interpreter and the machine."""
    asked = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
    return {"python": asked.split()[-1], "platform": platform.platform(), "machine": platform.machine()}


def print_rows(document: dict[str, Any]) -> None:
    """A table of 80 columns: one row for each layout and direction."""
    for row in document["rows"]:
        first = f"  {row['first']}" if row["different"] else ""
        print(
            f"{document['library']:<22.22}{row['layout']:<24.24}{row['direction']:<8}"
            f"{len(row['shapes']):>4}{row['compared']:>11}{row['different']:>10}{first}",
            flush=True,
        )


def main() -> int:
    """Run the libraries named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LIBRARIES))
    parser.add_argument("--python", type=Path, help="use this interpreter instead of the environment's")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(LIBRARIES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(LIBRARIES)}")
    python = options.python or make_environment()
    known = json.loads(OUT.read_text("ascii"))["libraries"] if OUT.exists() else []
    records = {document["library"]: document for document in known}
    bad = 0
    print(f"{'library':<22}{'layout':<24}{'way':<8}{'shapes':>4}{'compared':>9}{'different':>10}")
    for name in LIBRARIES:
        if options.names and name not in options.names:
            continue
        records[name] = {**run_library(python, name), **describe_machine(python)}
        print_rows(records[name])
        bad += sum(row["different"] for row in records[name]["rows"])
    document = {
        "command": "python tests/peers/layouts/run_layouts.py",
        "libraries": [records[name] for name in (*LIBRARIES, *ONCE) if name in records],
    }
    temporary = OUT.with_suffix(".part")
    temporary.write_text(json.dumps(document, indent=1) + "\n", "ascii")
    temporary.replace(OUT)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
