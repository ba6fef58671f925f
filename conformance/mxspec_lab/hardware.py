"""The kit `hardware` in simulators, for tests where they are installed.

The Verilog quantizer of conformance/examples/verilog, right and with ties away from zero, is simulated by Icarus Verilog with the kit's $readmemh
files, by Verilator with the profile through DPI-C, and by cocotb with the kit's scoreboard. pyslang elaborates the package with its
covergroups.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "conformance" / "examples" / "verilog"
QUANTIZER = EXAMPLES / "mxfp4_quantizer.v"
#: The interpreter that has cocotb and pyslang, for tests.
PYTHON = os.environ.get("MXSPEC_HARDWARE_PYTHON", sys.executable)
_RESULT = re.compile(r"^RESULT (.*)$", re.MULTILINE)


def _run(command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None) -> str:
    """Its output. Raises RuntimeError, with the end of what it wrote, where it fails."""
    run = subprocess.run(
        [str(c) for c in command], cwd=folder, capture_output=True, text=True, env=None if env is None else {**os.environ, **env}
    )
    if run.returncode:
        raise RuntimeError(f"{Path(command[0]).name} ended with {run.returncode}: {(run.stdout + run.stderr)[-800:]}")
    return run.stdout


def _result(text: str) -> dict[str, Any]:
    """The line RESULT of a test bench: name=value, the last value up to the end of the line."""
    found = _RESULT.search(text)
    if found is None:
        raise RuntimeError(f"no RESULT in what the simulator wrote: {text[-400:]}")
    pairs = re.findall(r"(\w+)=(.*?)(?= \w+=|$)", found.group(1))
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


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
    return _result(_run(["vvp", "readmem.vvp"], folder))


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
    return _result(_run([objects / "Vtb_dpi"], folder))


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
    return {
        "passed": count.group(2) == "0",
        "blocks": int(said.group(2)),
        "failed": int(said.group(1)),
        "open": int(said.group(3)),
        "name": said.group(4),
        "covered": covered.group(1),
    }


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
