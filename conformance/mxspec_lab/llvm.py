"""The kit `llvm` against LLVM itself: `python -m mxspec_lab.llvm [--write]`.

Builds the kit's driver with the LLVM that llvm-config names and runs it; runs it again on cases of which one is changed, which must be reported; and
runs the decodes through mlir-opt and FileCheck. A tool that is not installed is listed as that. `--sweep` asks APFloat about all 2^32 inputs of
casts, minutes of CPU each; a journal keeps those that are done.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mxspec_conformance.kits.llvm import ELEMENTS, MODES
from mxspec_conformance.kits.writing import write_kit
from mxspec_vectors.files import write_file

#: The lit tests of the kit. MLIR 19 reads the first alone; LLVM 22.1 folds E8M0's FF to an infinity, which the last one shows.
LIT = ("mx-decode.mlir", "mx-scaling.mlir", "mx-nan.mlir")
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
    subprocess.run(
        ["c++", "-std=c++17", "-O2", "-pthread", *flags, "mx_apfloat.cpp", *libraries, "-o", str(program)],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return program


def run_driver(program: Path, *arguments: str) -> dict[str, Any]:
    """What the driver counted, and the steps that differ."""
    text = subprocess.run([str(program), *arguments], capture_output=True, text=True).stdout
    result = re.search(r"^RESULT (.*)$", text, re.MULTILINE)
    if result is None:
        raise RuntimeError(f"the driver did not end: {text[-400:]}")
    pairs = dict(p.split("=") for p in result.group(1).split())
    numbers = {k: int(v) if v.isdigit() else v for k, v in pairs.items()}
    return numbers | {
        "differs": re.findall(r"^DIFFERS (.*)$", text, re.MULTILINE),
        "sweeps": re.findall(r"^SWEEP (.*)$", text, re.MULTILINE),
    }


def list_casts(named: Sequence[str]) -> list[tuple[str, str]]:
    """The casts to sweep: SEMANTICS, SEMANTICS:MODE, or `all`; first all modes that ask for the nearest even, which OCP binds.

    Raises ValueError for a name that the cases do not have.
    """
    known = [(s, m) for m in MODES.values() for s in ELEMENTS.values()]
    for name in named:
        if name != "all" and name not in {n for s, m in known for n in (s, f"{s}:{m}")}:
            raise ValueError(
                f"{name!r} is no cast of the cases; use all, one of {', '.join(ELEMENTS.values())}, or one of them with :MODE of {', '.join(MODES.values())}"
            )
    return [(s, m) for s, m in known if {"all", s, f"{s}:{m}"} & set(named)]


def sweep(program: Path, semantics: str, mode: str) -> dict[str, Any]:
    """One cast asked about all 2^32 inputs, with the seconds that it took."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    found = run_driver(program, "--sweep", semantics, mode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if found["sweeps"] not in ([f"{semantics} {mode} equal"], [f"{semantics} {mode} differs"]):
        raise RuntimeError(f"the driver was asked for one sweep, {semantics} {mode}, and printed {found['sweeps']}")
    return {
        "semantics": semantics, "mode": mode, "equal": found["sweeps"][0].endswith("equal"), "llvm": found["llvm"], "cpu_seconds": round(used, 1),
        "seconds": round(time.perf_counter() - began, 1), "cores": os.cpu_count(),
    }  # fmt: skip


def sweep_all(program: Path, casts: Sequence[tuple[str, str]], key: str, journal: Path | None) -> list[dict[str, Any]]:
    """Sweeps of these casts, of which the journal holds some; a line of it counts for the kit and the LLVM of its key alone."""
    lines = [json.loads(line) for line in journal.read_text("ascii").splitlines()] if journal is not None and journal.exists() else []
    done = {(row["semantics"], row["mode"]): row for written, row in lines if written == key}
    for semantics, mode in casts:
        if (semantics, mode) in done:
            continue
        done[semantics, mode] = sweep(program, semantics, mode)
        print(json.dumps(done[semantics, mode]), file=sys.stderr, flush=True)
        if journal is not None:
            with journal.open("a", encoding="ascii") as file:
                file.write(json.dumps([key, done[semantics, mode]]) + "\n")
    return [done[cast] for cast in casts]


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
    version = re.search(r"LLVM version (\S+)", _output([opt, "--version"], folder))
    lanes = sum(int(n) for n in re.findall(r"vector<(\d+)xi32> \{", (folder / "mx-decode.mlir").read_text("ascii")))
    passed = {name: _passes(folder, opt, check, name) for name in LIT}
    return {"mlir": version.group(1) if version else "unknown", "codes": lanes, "passed": passed["mx-decode.mlir"], "files": passed}


def _passes(folder: Path, opt: str, check: str, name: str) -> bool:
    """Whether a file's own RUN line passes."""
    text = (folder / name).read_text("ascii")
    options = shlex.split(text.partition("mlir-opt ")[2].partition(" %s |")[0])
    folded = subprocess.run([opt, *options, name], cwd=folder, capture_output=True, text=True)
    checked = subprocess.run([check, name], cwd=folder, input=folded.stdout, capture_output=True, text=True)
    return folded.returncode == 0 and checked.returncode == 0


@click.command()
@click.option(
    "--sweep",
    "named",
    multiple=True,
    metavar="CAST",
    help="Also all 2^32 inputs of these casts: Float4E2M1FN, Float4E2M1FN:TowardZero, or all; minutes of CPU each.",
)
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), help="Note each sweep here, and go on from what it holds.")
@click.option("--write", is_flag=True, help="Write reports/kits/llvm.json.")
def main(named: tuple[str, ...], journal: Path | None, write: bool) -> None:
    """Build and run."""
    try:
        casts = list_casts(named)
    except ValueError as e:
        raise click.BadParameter(str(e)) from None
    config = find_tool("llvm-config")
    if config is None:
        raise click.ClickException("llvm-config is not installed; install LLVM's development package (llvm-19-dev, or newer)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_kit("llvm")
        for file, data in files.items():
            (folder / file).write_bytes(data)
        program = build(folder, config)
        document: dict[str, Any] = {
            "schema": "mxspec-llvm/1",
            "bytes": {f: len(d) for f, d in files.items()},
            "apfloat": run_driver(program),
        }
        key = hashlib.blake2b(
            files["MXCases.inc"] + files["mx_apfloat.cpp"] + str(document["apfloat"]["llvm"]).encode(), digest_size=16
        ).hexdigest()
        document["swept"] = sweep_all(program, casts, key, journal)
        document["lit"] = run_lit(folder)
        (folder / "MXCases.inc").write_text(change_a_row(files["MXCases.inc"].decode("ascii")), "ascii")
        document["changed_row"] = run_driver(build(folder, config))
    print(json.dumps(document, indent=1))
    found = document["changed_row"]["wrong"] > 0 and document["changed_row"]["digests_equal"] == document["apfloat"]["digests_equal"]
    good = (
        document["apfloat"]["wrong"] == 0 and document["lit"].get("passed", True) and found and all(s["equal"] for s in document["swept"])
    )
    if write:
        write_file(REPORT, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    raise click.exceptions.Exit(0 if good else 1)


if __name__ == "__main__":
    main()
