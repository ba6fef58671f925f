"""The kit `hardware` in simulators: `python -m mxspec_lab.hardware [--write]`.

The Verilog quantizer of conformance/examples/verilog, right and with ties away from zero, is simulated by Icarus Verilog with the kit's $readmemh
files, by Verilator with the profile through DPI-C, and by cocotb with the kit's scoreboard. pyslang elaborates the package with its covergroups. What is
not installed is listed as that, never as passed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mxspec_conformance.kits.golden import RULES
from mxspec_conformance.kits.writing import COMMON, write_kit
from mxspec_lab.evidence.status import stamp
from mxspec_vectors.files import write_file

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "kits" / "hardware.json"
EXAMPLES = ROOT / "conformance" / "examples" / "verilog"
QUANTIZER = EXAMPLES / "mxfp4_quantizer.v"
#: The interpreter that has cocotb and pyslang, for tests.
PYTHON = os.environ.get("MXSPEC_HARDWARE_PYTHON", sys.executable)
_RESULT = re.compile(r"^RESULT (.*)$", re.MULTILINE)
#: TIES_AWAY -> what is simulated.
VARIANTS = {0: "right", 1: "ties away"}


def _run(command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None) -> str:
    """Its output. Raises RuntimeError, with the end of what it wrote, where it fails."""
    run = subprocess.run(
        [str(c) for c in command], cwd=folder, capture_output=True, text=True, env=None if env is None else {**os.environ, **env}
    )
    if run.returncode:
        raise RuntimeError(f"{Path(command[0]).name} ended with {run.returncode}: {(run.stdout + run.stderr)[-800:]}")
    return run.stdout


def _version(command: Sequence[str], pattern: str) -> str | None:
    """The version that a tool prints; None where it is not installed."""
    if shutil.which(command[0]) is None:
        return None
    run = subprocess.run(command, capture_output=True, text=True)
    found = re.search(pattern, run.stdout + run.stderr)
    return found.group(1) if found else "unknown"


def _result(text: str, folder: Path) -> dict[str, Any]:
    """The line RESULT of a test bench: name=value, the last value up to the end of the line; and the log."""
    found = _RESULT.search(text)
    if found is None:
        raise RuntimeError(f"no RESULT in what the simulator wrote: {text[-400:]}")
    pairs = re.findall(r"(\w+)=(.*?)(?= \w+=|$)", found.group(1))
    return {name: int(value) if value.isdigit() else value for name, value in pairs} | {"log": _list_log(text, folder)}


def _list_log(text: str, folder: Path) -> list[str]:
    """The lines of a log, without the places of this machine."""
    lines = re.sub(r"(?<![\w/])/[\w./-]*/", "", text.replace(f"{folder}/", "")).splitlines()
    return [line.strip() for line in lines if line.strip()]


def build_library(folder: Path) -> Path:
    """The kit's shared library."""
    library = folder / "libmxspec.so"
    _run(["gcc", "-std=c99", "-O1", "-shared", "-fPIC", "mxspec_dpi.c", "-o", library], folder)
    return library


def simulate_readmem(folder: Path, ties_away: int, quantizer: Path = QUANTIZER) -> dict[str, Any]:
    """Icarus and the kit's files."""
    _run(
        ["iverilog", "-I", folder, f"-Ptb_readmem.TIES_AWAY={ties_away}", "-o", "readmem.vvp", EXAMPLES / "tb_readmem.v", quantizer], folder
    )
    return _result(_run(["vvp", "readmem.vvp"], folder), folder)


def cover_files(folder: Path) -> dict[str, str]:
    """What the blocks of each format's file cover, by the kit's scoreboard."""
    for file, data in write_kit("hardware").items():
        (folder / file).write_bytes(data)
    library = build_library(folder)
    command: list[str | Path] = [sys.executable, "mxspec_scoreboard.py", library]
    return {f: _run([*command, RULES[f == "nvfp4"][0], f, f"{f}.x.hex"], folder).partition("\n")[0] for f in COMMON}


def simulate_dpi(folder: Path, ties_away: int, blocks: int = 20000) -> dict[str, Any]:
    """Verilator and the profile through DPI-C. The package leaves its covergroups out: Verilator has none before 5.050."""
    objects = folder / f"dpi{ties_away}"
    flags = [
        "--binary",
        "--top-module",
        "tb_dpi",
        f"-GTIES_AWAY={ties_away}",
        f"-GBLOCKS={blocks}",
        "-Wno-fatal",
        "-Wno-WIDTH",
        "-CFLAGS",
        f"-I{folder}",
        f"-I{folder}",
    ]
    _run(["verilator", *flags, "--Mdir", objects, "mxspec_pkg.sv", EXAMPLES / "tb_dpi.sv", QUANTIZER, "mxspec_dpi.c"], folder)
    return _result(_run([objects / "Vtb_dpi"], folder), folder)


def simulate_cocotb(folder: Path, ties_away: int, python: str) -> dict[str, Any]:
    """Icarus driven by cocotb, with the kit's scoreboard. `passed` is cocotb's own verdict."""
    library = build_library(folder)
    script = (
        "import os, sys; os.environ.pop('PYTEST_CURRENT_TEST', None)  # with it the runner ends where a test fails\n"
        "from cocotb_tools.runner import get_runner, get_results\n"
        "r = get_runner('icarus'); out = sys.argv[1]\n"
        "r.build(sources=[sys.argv[2]], hdl_toplevel='mxfp4_quantizer', build_dir=out, parameters={'TIES_AWAY': int(sys.argv[3])}, always=True)\n"
        "print('TESTS', *get_results(r.test(hdl_toplevel='mxfp4_quantizer', test_module='test_mxfp4', build_dir=out)))\n"
    )
    paths = os.pathsep.join((str(folder), str(EXAMPLES)))
    env = {
        "MXSPEC_LIBRARY": str(library),
        "MXSPEC_BLOCKS": str(folder / "mxfp4.x.hex"),
        "PYTHONPATH": paths,
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
    }
    text = _run([python, "-c", script, folder / f"cocotb{ties_away}", QUANTIZER, str(ties_away)], folder, env)
    count = re.search(r"^TESTS (\d+) (\d+)$", text, re.MULTILINE)
    said = re.search(
        r"(\d+) of (\d+) blocks are wrong, (\d+) differ where .*?; what was returned follows (.*?)(?:; first: (.*))?$", text, re.MULTILINE
    )
    covered = re.search(r"covered: (.*)$", text, re.MULTILINE)
    if count is None or said is None or covered is None:
        raise RuntimeError(f"cocotb wrote no summary: {text[-800:]}")
    log = [line for line in _list_log(text, folder) if re.search(r" cocotb\.(regression|mxfp4_quantizer) +[^*]*$|AssertionError", line)]
    found = {
        "passed": count.group(2) == "0",
        "blocks": int(said.group(2)),
        "failed": int(said.group(1)),
        "open": int(said.group(3)),
        "name": said.group(4),
    }
    return found | {"covered": covered.group(1), "log": log}


def elaborate(folder: Path, python: str) -> dict[str, Any]:
    """The package, the bench and the design, elaborated by pyslang with all covergroups: errors, and the bins of each group."""
    script = (
        "import sys, json; from pyslang import ast, driver\n"
        "d = driver.Driver(); d.addStandardArgs()\n"
        "assert d.parseCommandLine('slang --top tb_dpi --single-unit ' + sys.argv[1]) and d.processOptions() and d.parseAllSources()\n"
        "c = d.createCompilation(); groups = {}\n"
        "errors = [str(x.code) for x in c.getAllDiagnostics() if x.isError()]\n"
        "def see(s):\n"
        "    if getattr(s, 'kind', None) == ast.SymbolKind.CoverageBin:\n"
        "        group = s.hierarchicalPath.split('::')[1].split('.')[0]\n"
        "        low, high = str(s.values[0].syntax).strip('[] ').split(':') if s.isArray else (1, 1)\n"
        "        groups[group] = groups.get(group, 0) + int(high) - int(low) + 1\n"
        "c.getRoot().visit(see); print(json.dumps({'errors': errors, 'bins': groups}))\n"
    )
    files = " ".join(map(str, ("mxspec_pkg.sv", EXAMPLES / "tb_dpi.sv", QUANTIZER)))
    found: dict[str, Any] = json.loads(_run([python, "-c", script, f"-I {folder} {files}"], folder).splitlines()[-1])
    return found


def simulate(python: str) -> dict[str, Any]:
    """Every flow whose tools are there."""
    versions = {
        "icarus": _version(["iverilog", "-V"], r"Icarus Verilog version (\S+)"), "verilator": _version(["verilator", "--version"], r"Verilator (\S+)"),
        "cocotb": _version([python, "-c", "import cocotb; print('cocotb', cocotb.__version__)"], r"cocotb (\d\S*)"),
        "pyslang": _version([python, "-c", "import pyslang; print('pyslang', pyslang.__version__)"], r"pyslang (\d\S*)"), "gcc": _version(["gcc", "--version"], r"(\d+\.\d+\.\d+)"),
    }  # fmt: skip
    versions |= {name: None for name in ("cocotb", "pyslang") if versions[name] == "unknown"}
    flows: dict[str, tuple[tuple[str, ...], Callable[[Path, int], dict[str, Any]]]] = {
        "readmem": (("icarus",), simulate_readmem), "dpi": (("verilator", "gcc"), simulate_dpi),
        "cocotb": (("icarus", "cocotb", "gcc"), lambda folder, ties: simulate_cocotb(folder, ties, python)),
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, data in write_kit("hardware", ["mxfp4"]).items():
            (folder / file).write_bytes(data)
        for flow, (needed, run) in flows.items():
            missing = [t for t in needed if versions[t] is None]
            for ties_away, variant in VARIANTS.items():
                if missing:
                    rows.append({"flow": flow, "design": variant, "skipped": f"not installed: {', '.join(missing)}"})
                    continue
                started = os.times()
                found = run(folder, ties_away)
                ended = os.times()
                seconds = ended.children_user + ended.children_system - started.children_user - started.children_system
                rows.append({"flow": flow, "design": variant} | found | {"cpu_seconds": round(seconds, 1)})
        elaborated = {"skipped": "not installed: pyslang"} if versions["pyslang"] is None else elaborate(folder, python)
        files = {} if versions["gcc"] is None else cover_files(folder)
    return {"versions": versions, "rows": rows, "elaborated": elaborated, "files": files}


def find_wrong(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a right design failed, or the wrong one passed, or was not named."""
    wrong = []
    for r in rows:
        if "skipped" in r:
            continue
        if (r["failed"] == 0) != (r["design"] == "right"):
            wrong.append(f"{r['flow']}: {r['design']} has {r['failed']} failing blocks")
        if r.get("wrong_sums"):
            wrong.append(f"{r['flow']}: {r['wrong_sums']} sums differ from the file's")
        named = "mx-floor" if r["design"] == "right" else "mx-floor, ties away from zero"
        if r.get("name", named) != named:
            wrong.append(f"{r['flow']}: {r['design']} was named {r['name']!r}")
    return wrong


@click.command()
@click.option("--python", default=PYTHON, show_default=True, help="An interpreter that has cocotb and pyslang.")
@click.option("--write", is_flag=True, help="Write reports/kits/hardware.json.")
def main(python: str, write: bool) -> None:
    """Simulate."""
    started = time.monotonic()
    document = {"schema": "mxspec-hardware/1"} | simulate(python)
    for row in document["rows"]:
        print(json.dumps({name: value for name, value in row.items() if name != "log"}))
    print(json.dumps(document["elaborated"]), json.dumps(document["files"]), sep="\n")
    wrong = find_wrong(document["rows"]) + document["elaborated"].get("errors", [])
    print(*(wrong or ["every right design passed, and every wrong one was found"]), sep="\n")
    print(f"{time.monotonic() - started:.0f} s")
    if write:
        write_file(REPORT, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(REPORT)
    raise click.exceptions.Exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
