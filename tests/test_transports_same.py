"""Four transports, one verdict: the same implementation gets the same result file, whatever way it comes in."""

from __future__ import annotations

import re
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.planning import plan_requests
from mxspec_conformance.render.terminal import print_report
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.transports.opening import open_target
from mxspec_conformance.transports.recorded import ResultsFile, write_bundle

from tests.transports import EXAMPLES, build_library, canonical, judged, node_command, of_vectors, python_command, write_python


@pytest.fixture(scope="module", params=[False, True], ids=["conforming", "ties-away"])
def broken(request: pytest.FixtureRequest) -> bool:
    """Whether the implementation rounds exact ties away from zero."""
    return bool(request.param)


@pytest.fixture(scope="module")
def python_result(broken: bool, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The verdict on the implementation as a Python file."""
    report = judged(write_python(tmp_path_factory.mktemp("python"), ties_away=broken))
    assert report.target["transport"] == "python-child"
    assert report.exit_code == int(broken)
    return canonical(report)


def test_a_broken_one_differs_in_ties_alone(broken: bool, python_result: dict[str, Any]) -> None:
    off = {r["id"]: r["note"] for r in python_result["requirements"] if r["verdict"] not in ("pass", "unsupported")}
    assert set(off) == ({"quantize/mxfp4/tie-even", "quantize/nvfp4/tie-even"} if broken else set())
    assert all(note.endswith("ties away from zero") for note in off.values())


@pytest.mark.parametrize("source", ["c/target.c", "cpp/target.cpp"])
def test_shared_library(source: str, broken: bool, python_result: dict[str, Any], tmp_path: Path) -> None:
    library = build_library(EXAMPLES / source, tmp_path / "libtarget.so", *["TIES_AWAY"] * broken)
    report = judged(library)
    assert report.target["transport"] == "library-child"
    assert of_vectors(canonical(report)) == of_vectors(python_result)


@pytest.mark.parametrize("language", ["JavaScript", "Python"])
def test_process(language: str, broken: bool, python_result: dict[str, Any], tmp_path: Path) -> None:
    command = node_command(*["--ties-away"] * broken) if language == "JavaScript" else harness_command(tmp_path, broken)
    report = judged(command)
    assert report.target["transport"] == "process"
    assert report.environment["language"] == language
    assert of_vectors(canonical(report)) == of_vectors(python_result)


def test_results_file(broken: bool, python_result: dict[str, Any], tmp_path: Path) -> None:
    """Run where the judge is not: a bundle through the program, and the judge's next calls through it again."""
    command = harness_command(tmp_path, broken)
    session = open_target(command)
    session.close()
    bundle, results = tmp_path / "bundle.jsonl", tmp_path / "results.jsonl"
    write_bundle(bundle, plan_requests(session.capabilities))
    results.write_bytes(_run(command, bundle))
    target = ResultsFile(results)
    report = check(target)
    assert report.target["transport"] == "results-file"
    if not broken:
        assert _verdicts(of_vectors(canonical(report))) == _verdicts(of_vectors(python_result))
    if broken:  # failing blocks in other places, and their smaller forms, are requested next
        assert 0 < write_bundle(bundle, target.missing) < 200
        with results.open("ab") as file:
            file.write(_run(command, bundle))
        target = ResultsFile(results)
        report = check(target)
    assert not target.missing
    assert of_vectors(canonical(report)) == of_vectors(python_result)
    # Every requirement is named; those that need further calls as not judged, on the screen, too.
    assert {r.id for r in report.requirements} == {r["id"] for r in python_result["requirements"]}
    left = {r.id for r in report.requirements if r.verdict is Verdict.UNSUPPORTED} - {
        r["id"] for r in python_result["requirements"] if r["verdict"] == "unsupported"
    }
    assert {"quantize/mxfp4/memory", "quantize/mxfp4/refusal", "quantize/mxfp4/state"} < left
    assert {i.split("/")[2] for i in left} == {"memory", "refusal", "state"}
    screen = StringIO()
    print_report(report, Console(file=screen, width=10_000))
    assert re.search(r"unsupported: .*quantize/mxfp4/memory.*not judged: a results file holds no calls", screen.getvalue())


def harness_command(folder: Path, broken: bool) -> str:
    """The Python example as a program: served by the harness that needs no judge."""
    return f"{python_command(EXAMPLES / 'python' / 'harness.py')} {write_python(folder, ties_away=broken)}"


def _run(command: str, bundle: Path) -> bytes:
    with bundle.open("rb") as file:
        return subprocess.run(command.removeprefix("cmd:").split(), stdin=file, capture_output=True, check=True).stdout


def _verdicts(result: dict[str, Any]) -> list[Any]:
    return [(r["id"], r["verdict"], r["cases"], r["failing"], r["note"]) for r in result["requirements"]]


def test_the_bundle_depends_on_the_capabilities_alone(tmp_path: Path) -> None:
    """Twice the same bytes; and hex says the same as base64."""
    session = open_target(write_python(tmp_path), in_process=True)
    requests = plan_requests(session.capabilities, ["mxfp4"])
    again = plan_requests(session.capabilities, ["mxfp4"])
    for encoding in ("hex", "base64"):
        paths = tmp_path / f"{encoding}-1", tmp_path / f"{encoding}-2"
        for path, planned in zip(paths, (requests, again), strict=True):
            write_bundle(path, planned, encoding)
        assert paths[0].read_bytes() == paths[1].read_bytes()
    assert [r[0] for r in requests] == [r[0] for r in again]
    assert len({r[0] for r in requests}) == len(requests)
    assert all(np.array_equal(a[2]["x"], b[2]["x"], equal_nan=True) for a, b in zip(requests, again, strict=True) if "x" in a[2])  # fmt: skip
