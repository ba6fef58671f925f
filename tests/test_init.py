"""`mxspec init`: every combination that it writes is a target that answers; what makes no sense is refused."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mxspec_conformance.cli.init import FRAMEWORKS, KINDS, MARK, write_template
from mxspec_conformance.cli.main import main
from mxspec_conformance.judge.check import check

PAIRS = [(kind, framework) for kind in KINDS for framework in FRAMEWORKS]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments], catch_exceptions=False)


@pytest.mark.parametrize(("kind", "framework"), PAIRS, ids=" ".join)
def test_what_is_written_answers(kind: str, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if framework in KINDS[kind].refused:
        done = run(kind, "--with", framework)
        assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
        assert "allowed are numpy, torch" in done.output
        return
    file = tmp_path / f"my_{kind}{FRAMEWORKS[framework].suffix}"
    if file.suffix == ".py":
        compile(write_template(kind, framework, file), file.name, "exec")
    if FRAMEWORKS[framework].needs and not find_spec(FRAMEWORKS[framework].needs):
        done = run(kind, "--with", framework)
        assert (done.exit_code, file.exists()) == (0, True)
        assert f"Not tried: {FRAMEWORKS[framework].needs} is not installed here" in done.output
        return
    if framework == "cupy":
        pytest.skip("CuPy needs a GPU")
    if framework == "c" and not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    done = run(kind, "--with", framework)
    assert done.exit_code == 0, done.output
    assert {p.name for p in tmp_path.iterdir()} == {file.name}, "what was compiled or written to try it is gone"
    tried = [line for line in done.output.splitlines() if line.startswith(("ok  ", "no  "))]
    functions = [f.name for f in KINDS[kind].functions if kind != "checkpoint"]
    assert all(any(line.startswith(f"ok  {name} ") for line in tried) for name in functions), done.output
    assert done.output.count("unsupported: not filled in") == (len(tried) - 2 if framework in ("c", "process") else 0)
    assert MARK in file.read_text("ascii")
    assert len(done.output.partition("\nNext: ")[2].splitlines()) in (2, 3)


def test_the_placeholder_is_the_model_and_says_so(tmp_path: Path) -> None:
    """Green until a kernel is called, under a name that no report of a kernel has."""
    file = tmp_path / "k.py"
    file.write_text(write_template("quantizer", "numpy", file), "ascii")
    report = check(file, quick=True, data=[])
    assert (report.exit_code, report.target["name"]) == (0, "placeholder")
    file.write_text(file.read_text("ascii").replace("return t.codes,", "return t.codes ^ 1,"), "ascii")
    assert check(file, quick=True, data=[]).exit_code == 1


def test_what_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("mine", "ascii")
    done = run("quantizer", str(file))
    assert (done.exit_code, file.read_text("ascii")) == (2, "mine")
    assert "exists, and is left as it is" in done.output
    other = run("quantizer", str(tmp_path / "kernel.c"), "--with", "torch")
    assert other.exit_code == 2
    assert "a quantizer in torch is a .py file" in other.output


def test_a_file_that_does_not_answer_is_kept_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mxspec_conformance.cli.init.write_template", lambda *_: f"raise SystemError('{MARK}')\n")
    done = run("quantizer", "x.py")
    assert done.exit_code == 1
    assert "no  start" in done.output
    assert (tmp_path / "x.py").exists()


@pytest.mark.parametrize("kind", ["quantizer", "dequantizer"])
@pytest.mark.parametrize("fmt", ["nvfp4", "mxfp8_e4m3"])
def test_a_template_of_another_format_conforms(kind: str, fmt: str, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    assert run(kind, str(file), "--format", fmt).exit_code == 0
    report = check(file, quick=True, data=[])
    assert (report.exit_code, [f.format for f in report.formats]) == (0, [fmt])
    assert run("product", str(tmp_path / "p.py"), "--format", fmt).exit_code == 2


def test_what_is_in_comments_is_legal(tmp_path: Path) -> None:
    """The options of a target, uncommented where the model's answer does not depend on them."""
    file = tmp_path / "k.py"
    lines = write_template("quantizer", "triton", file).splitlines()
    assert any("your_kernel[" in line for line in lines)
    text = write_template("quantizer", "numpy", file)
    for option in ("DTYPES", "PROFILE"):
        assert f"\n# {option} = " in text
        text = text.replace(f"\n# {option} = ", f"\n{option} = ")
    file.write_text(
        text.replace("(x, fmt)", '(x, fmt, profile="mx-rceil")').replace("def quantize(x, fmt, profile=", "def quantize(x, fmt, _="),
        "ascii",
    )
    assert check(file, quick=True, data=[]).exit_code == 0
