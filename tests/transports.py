"""What the tests of the transports share: the worked examples, built or found, and targets written as files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mxspec_conformance.judge.check import check
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.transports.library import header_path

EXAMPLES = Path(__file__).resolve().parents[1] / "conformance" / "examples"

#: The same target in Python, on top of the model.
PYTHON = """
from dataclasses import replace
import mxspec

NAME, VERSION, FORMATS, TENSOR_SCALE = "example", "1.0", ["mxfp4", "nvfp4"], "amax"
TIES_AWAY = {ties_away}

def _profile(fmt):
    p = mxspec.default_profile(fmt)
    if not TIES_AWAY:
        return p
    away = [None if a is None else replace(a, element=replace(a.element, rounding=mxspec.Rounding.RNA))
            for a in (p.one_level, p.two_level)]
    return replace(p, one_level=away[0], two_level=away[1])

def _scale(value):
    return None if value is None else mxspec.TensorScale.from_float("amax", value)

def quantize(x, fmt, tensor_scale=None):
    t = mxspec.quantize(x, fmt, profile=_profile(fmt), tensor_scale=_scale(tensor_scale))
    return t.codes, t.scales

def dequantize(codes, scales, fmt, tensor_scale=None):
    return mxspec.dequantize(codes, scales, fmt, tensor_scale=_scale(tensor_scale))

def tensor_scale(x, fmt):
    return mxspec.tensor_scale(x, fmt).value
"""


def write_python(folder: Path, *, ties_away: bool = False) -> str:
    """The example in Python; returns its path."""
    path = folder / f"example_{'away' if ties_away else 'even'}.py"
    path.write_text(PYTHON.format(ties_away=ties_away), encoding="utf-8")
    return str(path)


def build_library(source: Path, out: Path, *defines: str) -> str:
    """A shared library compiled from C or C++ with all warnings as errors; returns its path."""
    compiler, standard = ("g++", "-std=c++17") if source.suffix == ".cpp" else (_find_c_compiler(), "-std=c11")
    command = [
        compiler, standard, "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-shared", "-fPIC",
        "-fvisibility=hidden", "-I", str(header_path().parent), *(f"-D{d}" for d in defines), str(source), "-lm",
        "-o", str(out),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(out)


def _find_c_compiler() -> str:
    """A C compiler: g++ alone compiles C++, so where there is no C compiler its own driver is given the language."""
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        pytest.skip("no C compiler (cc or gcc) here: the example in C is not built")
    return found


def node_command(*arguments: str) -> str:
    """The example in JavaScript as a target; skips, visibly, where there is no node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here: the example in JavaScript is not run (apt-get install nodejs)")
    return " ".join(["cmd:" + node, str(EXAMPLES / "javascript" / "target.js"), *arguments])


def python_command(script: Path) -> str:
    """A Python script as a program that speaks the protocol."""
    return f"cmd:{sys.executable} -u {script}"


def harness_command(target: Path) -> str:
    """A target in Python behind the example's harness, as a program that speaks the protocol."""
    return f"{python_command(EXAMPLES / 'python' / 'harness.py')} {target}"


def answer_bundle(target: Path, folder: Path) -> str:
    """Write the calls for a target in Python to a bundle, let the harness answer them; returns the path of the answers."""
    bundle, answers = folder / "bundle.jsonl", folder / "results.jsonl"
    command = [sys.executable, "-m", "mxspec_conformance", "bundle", "--like", str(target), str(bundle)]
    subprocess.run(command, check=True, capture_output=True)
    with bundle.open() as lines, answers.open("w") as replies:
        subprocess.run([sys.executable, str(EXAMPLES / "python" / "harness.py"), str(target)], stdin=lines, stdout=replies, check=True)
    return str(answers)


def judged(target: Any, **options: Any) -> Report:
    """The verdicts on a target."""
    return check(os.fspath(target) if isinstance(target, Path) else target, **options)


def canonical(report: Report) -> dict[str, Any]:
    """A result without transport, time and environment: what has to be the same on every transport."""
    document = report.as_dict()
    del document["environment"], document["seconds"]
    document["target"] = {k: v for k, v in document["target"].items() if k != "transport"}
    return document


def no_answers(report: Report) -> dict[str, tuple[str, str]]:
    """Requirement -> (verdict, note), of those that are neither passed nor unsupported."""
    return {r.id: (r.verdict.value, r.note) for r in report.requirements if r.verdict not in ("pass", "unsupported")}


#: Topics with calls about memory and threads, which only a target on this machine can get.
LOCAL_TOPICS = ("memory", "state")


def counted_verdicts(report: Report) -> dict[str, tuple[Verdict, int, int]]:
    """Requirement -> (verdict, cases, failing); local calls that pass are left out, as their number depends on the transport."""
    found = {r.id: (r.verdict, 0 if r.topic in (*LOCAL_TOPICS, "call-size") else r.cases, r.failing) for r in report.requirements}
    return {name: seen for name, seen in found.items() if seen not in ((Verdict.PASS, 0, 0), (Verdict.UNSUPPORTED, 0, 0))}


def assert_roads_agree(target: Path) -> Report:
    """A passing target has the same verdicts in this process, in a child and behind the harness; returns those of here."""
    here = check(str(target), in_process=True)
    assert here.exit_code == 0, [(r.id, r.note) for r in here.requirements if r.verdict is not Verdict.PASS]
    for road in (str(target), harness_command(target)):
        assert counted_verdicts(check(road)) == counted_verdicts(here), road
    return here


def assert_recorded_agrees(target: Path, folder: Path) -> None:
    """A passing target's recorded answers have the verdicts of the target."""
    report = check(answer_bundle(target, folder))
    assert report.exit_code == 0, [(r.id, r.note) for r in report.requirements if r.verdict is not Verdict.PASS]
    assert counted_verdicts(report) == counted_verdicts(check(str(target), in_process=True))


#: Topics of calls whose number depends on what a transport can carry.
OF_CALLS = ("random-bits", "given-scale", "call-size", "memory", "state", "refusal", "axis", "tail", "position")


def of_vectors(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what depends on the calls: those have to pass, or fail, alike."""
    calls = {r["id"]: r["verdict"] for r in result["requirements"] if r["id"].split("/")[-1] in OF_CALLS}
    assert set(calls.values()) <= {"pass", "unsupported"}
    kept = [r for r in result["requirements"] if r["id"] not in calls]
    details = {k: v for k, v in result.get("details", {}).items() if k != "fewer_cases"}
    rest = {k: v for k, v in result.items() if k not in ("requirements", "counts", "details")}
    return rest | ({"details": details} if details else {}) | {"requirements": kept}
