"""The result as a document: its schema, the same twice, the same from a child; progress; scripts that call `check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec_conformance.cli.console import make_console
from mxspec_conformance.cli.main import main
from mxspec_conformance.judge.check import check
from mxspec_conformance.render import render_html, render_junit
from mxspec_conformance.render.terminal import print_report
from mxspec_conformance.results.report import Report, load_result_schema
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.opening import open_target

from tests.bugs.building import Answer, Array, make, right
from tests.judge.reading import AWAY, FIVE


def stripped(report: Report) -> dict[str, Any]:
    """A result without time and environment."""
    result = json.loads(report.to_json())
    del result["environment"], result["seconds"]
    return dict(result)


def quantize_in_part(x: Array, fmt: str, tensor_scale: float | None = None) -> Answer:
    """Passes, failures, deviations, errors and unsupported functions, all in one."""
    if fmt == "mxfp6_e2m3":
        raise NotImplementedError("no fp6")
    if np.isnan(x).any():
        raise ValueError("no NaN")
    if len(x) == 3:
        raise ZeroDivisionError("three rows")
    if tensor_scale is not None:
        raise NotImplementedError("no tensor scale")
    return right(x, fmt, profile={"mxfp4": "gguf-0.19/mxfp4"}.get(fmt))


def test_results_follow_their_schema_and_repeat() -> None:
    """A target of every verdict: twice the same document."""
    target = make(
        ["mxfp4", "mxfp6_e2m3", "nvfp4"],
        quantize=quantize_in_part,
        dequantize=lambda codes, scales, fmt: mxspec.dequantize(codes, scales, fmt) + np.float32(0),
        encode=lambda x, element: mxspec.encode(x, element, rounding="rtz"),
    )
    first, second = (check(target) for _ in range(2))
    assert set(first.counts) == {"pass", "fail", "deviation", "open", "unsupported", "error"}
    schema = load_result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for report in (first, second):
        document = json.loads(report.to_json())
        assert [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []
        assert document["counts"] == report.counts
        assert document["exit_code"] == 1
        assert sum(report.counts.values()) == len(document["requirements"])
    assert stripped(first) == stripped(second)
    assert first.to_json().isascii()


def test_a_child_and_this_process_agree() -> None:
    here, there = (check(AWAY, in_process=here, formats=["mxfp4"]) for here in (True, False))
    assert (here.target.pop("transport"), there.target.pop("transport")) == ("python", "python-child")
    assert stripped(here) == stripped(there)


def test_progress_is_told() -> None:
    steps: list[str] = []
    check(FIVE, in_process=True, formats=["mxfp4", "mxint8"], progress=steps.append)
    assert steps == ["mxfp4", "mxint8", "e2m1", "int8"]


def test_a_guarded_script_may_call_check(tmp_path: Path) -> None:
    """The child process imports the script that started it; a guard keeps it from running twice."""
    script = tmp_path / "script.py"
    script.write_text(
        "from mxspec_conformance.judge.check import check\n"
        f"if __name__ == '__main__':\n    print(check({FIVE!r}, formats=['mxint8'], only='scale/*').exit_code)\n",
        encoding="ascii",
    )
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


@pytest.mark.parametrize(
    ("ends", "kind", "last"), [("raise IndexError('too far')", "error", "IndexError: too far"), ("os._exit(3)", "crash", "(crash)")]
)
def test_a_call_that_has_no_answer_is_shown(tmp_path: Path, ends: str, kind: str, last: str) -> None:
    """Which call it was, on the screen and by `show`: function, dtype and shape, and the end of the traceback."""
    target, file = tmp_path / "ends.py", tmp_path / "result.json"
    target.write_text(
        "import os, mxspec\nFORMATS = ['mxfp4']\ndef inner():\n    " + ends + "\n"
        "def quantize(x, fmt):\n    if x.shape == (3, 96):\n        inner()\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n"
    )
    done = CliRunner().invoke(main, ["check", str(target), "--quick", "--only", "*/call-size", "--json", str(file)])
    assert done.exit_code == 1
    (found,) = json.loads(file.read_text())["requirements"]
    assert (found["verdict"], found["first"]["given"]) == ("error", {"call": "quantize(float32 [3, 96], 'mxfp4')"})
    shown = CliRunner().invoke(main, ["show", found["failing_cases"][0], "--result", str(file)])
    assert shown.exit_code == 0
    for text in (done.stdout, shown.stdout):
        assert "given     call    quantize(float32 [3, 96], 'mxfp4')" in text
        assert f"returned  answer  {kind}: " in text
        assert last in text
        assert (", in inner\n" in text) == (kind == "error")
    missing = CliRunner().invoke(main, ["show", "other", "--result", str(file)])
    assert (missing.exit_code, "is named 'other'" in missing.output) == (2, True)


def test_a_call_names_strides_that_are_not_plain() -> None:
    def quantize(x: Any, fmt: str) -> Any:
        raise ValueError("no")

    session = open_target(SimpleNamespace(FORMATS=["mxfp4"], quantize=quantize))
    with pytest.raises(CallError) as failed:
        session.call("quantize", np.zeros((4, 64), np.float16)[:, ::2], "mxfp4", axis=0)
    assert failed.value.call == "quantize(float16 [4, 32], strides [128, 4] bytes, 'mxfp4', axis=0)"


def drawing(x: Array, fmt: str, seed: int) -> Answer:
    t = mxspec.quantize(x, fmt, random_bits=np.random.default_rng(seed).integers(1 << 32, size=x.shape, dtype=np.uint32))
    return t.codes, t.scales


@pytest.mark.all_calls
@pytest.mark.parametrize("target", ["mxspec", SimpleNamespace(FORMATS=["mxint8"], quantize=drawing)], ids=["model", "generator"])
def test_a_results_file_s_report_says_what_had_fewer_cases(
    target: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every requirement of which a target that runs gets more cases, and no other."""
    live = check(target, formats=["mxint8"], data=[], in_process=True)
    monkeypatch.setattr(InProcessSession, "transport", "results-file")
    stored = check(target, formats=["mxint8"], data=[], in_process=True)
    of_live = {r.id: r.cases for r in live.requirements}
    assert stored.details["fewer_cases"] == [r.id for r in stored.requirements if 0 < r.cases < of_live[r.id]]
    assert "fewer_cases" not in live.details
    print_report(stored, make_console())
    assert f"fewer cases: {stored.details['fewer_cases'][0]}, " in " ".join(capsys.readouterr().out.split())
    document = json.loads(stored.to_json())
    assert f'name="fewer cases" value="{stored.details["fewer_cases"][0]}, ' in render_junit([document]).decode()
    assert f"of {len(stored.details['fewer_cases'])} requirements a results file stores fewer cases" in render_html([document]).decode()
