"""The kit `llvm` against LLVM itself: `python -m mxspec_lab.llvm [--write]`.

Builds the kit's driver with the LLVM that llvm-config names and runs it; runs it again on cases of which one is changed, which must be reported; and
runs the decodes through mlir-opt and FileCheck. A tool that is not installed is listed as that.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mxspec_conformance.kits.writing import write_kit
from mxspec_vectors.files import write_file

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "kits" / "llvm.json"


def find_tool(name: str) -> str | None:
    """A tool of LLVM, with the highest version at its end, or without one."""
    found = [path for n in (*(f"-{v}" for v in range(40, 18, -1)), "") if (path := shutil.which(name + n))]
    return found[0] if found else None


def _output(command: Sequence[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def build(folder: Path, config: str) -> Path:
    """The driver, compiled beside its cases. Raises CalledProcessError where it does not compile."""
    flags = _output([config, "--cppflags"], folder).split()
    libraries = _output([config, "--ldflags", "--libs", "support"], folder).split()
    program = folder / "mx_apfloat"
    subprocess.run(["c++", "-std=c++17", "-O2", *flags, "mx_apfloat.cpp", *libraries, "-o", str(program)], cwd=folder, check=True, capture_output=True)
    return program


def run_driver(program: Path, *arguments: str) -> dict[str, Any]:
    """What the driver counted, and the steps that differ."""
    text = subprocess.run([str(program), *arguments], capture_output=True, text=True).stdout
    result = re.search(r"^RESULT (.*)$", text, re.MULTILINE)
    if result is None:
        raise RuntimeError(f"the driver did not end: {text[-400:]}")
    pairs = dict(p.split("=") for p in result.group(1).split())
    numbers = {k: int(v) if v.isdigit() else v for k, v in pairs.items()}
    return numbers | {"differs": re.findall(r"^DIFFERS (.*)$", text, re.MULTILINE), "sweeps": re.findall(r"^SWEEP (.*)$", text, re.MULTILINE)}


def change_a_row(text: str) -> str:
    """The cases with the code of one tie changed: e2m1's 2.5 to 3 instead of 2."""
    old, new = "MX_STEP(Float4E2M1FN, NearestTiesToEven, 0x40200001, 0x05)", "MX_STEP(Float4E2M1FN, NearestTiesToEven, 0x40200000, 0x05)"
    if text.count(old) != 1:
        raise ValueError(f"{old} is not among the cases")
    return text.replace(old, new)


def run_lit(folder: Path) -> dict[str, Any]:
    """The decodes, folded."""
    opt, check = find_tool("mlir-opt"), find_tool("FileCheck")
    if opt is None or check is None:
        return {"skipped": "mlir-opt or FileCheck is not installed"}
    folded = subprocess.run([opt, "--canonicalize", "mx-decode.mlir"], cwd=folder, capture_output=True, text=True)
    checked = subprocess.run([check, "mx-decode.mlir"], cwd=folder, input=folded.stdout, capture_output=True, text=True)
    version = re.search(r"LLVM version (\S+)", _output([opt, "--version"], folder))
    lanes = sum(int(n) for n in re.findall(r"vector<(\d+)xi32> \{", (folder / "mx-decode.mlir").read_text("ascii")))
    return {"mlir": version.group(1) if version else "unknown", "codes": lanes, "passed": folded.returncode == 0 and checked.returncode == 0}


@click.command()
@click.option("--sweep", multiple=True, help="Also all 2^32 inputs of the casts to these semantics, for example Float4E2M1FN; minutes for each cast.")
@click.option("--write", is_flag=True, help="Write reports/kits/llvm.json.")
def main(sweep: tuple[str, ...], write: bool) -> None:
    """Build and run."""
    config = find_tool("llvm-config")
    if config is None:
        raise click.ClickException("llvm-config is not installed; install LLVM's development package (llvm-19-dev, or newer)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_kit("llvm")
        for file, data in files.items():
            (folder / file).write_bytes(data)
        program = build(folder, config)
        document: dict[str, Any] = {"schema": "mxspec-llvm/1", "bytes": {f: len(d) for f, d in files.items()}, "apfloat": run_driver(program)}
        document["swept"] = [line for s in sweep for line in run_driver(program, "--sweep", s)["sweeps"]]
        document["lit"] = run_lit(folder)
        (folder / "MXCases.inc").write_text(change_a_row(files["MXCases.inc"].decode("ascii")), "ascii")
        document["changed_row"] = run_driver(build(folder, config))
    print(json.dumps(document, indent=1))
    found = document["changed_row"]["wrong"] > 0 and document["changed_row"]["digests_equal"] == document["apfloat"]["digests_equal"]
    good = document["apfloat"]["wrong"] == 0 and document["lit"].get("passed", True) and found and not any(s.endswith("differs") for s in document["swept"])
    if write:
        write_file(REPORT, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    raise click.exceptions.Exit(0 if good else 1)


if __name__ == "__main__":
    main()
