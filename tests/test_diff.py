"""Two targets against each other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec_conformance.cli.main import main
from mxspec_conformance.identification.diff import diff_format, diff_product
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.library import header_path
from mxspec_conformance.transports.opening import open_target

from tests.test_transports_products import CC, GEMV
from tests.transports import EXAMPLES

FILE = """
import mxspec
NAME, VERSION, FORMATS = {name!r}, "1", ["mxfp4"]
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt, profile={profile!r})
    return t.codes, t.scales
def dequantize(codes, scales, fmt):
    return mxspec.dequantize(codes, scales, fmt)
"""


def target(profile: str, **more: Any) -> Any:
    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt, profile=profile)
        return t.codes, t.scales

    return open_target(SimpleNamespace(NAME=profile, VERSION="1", FORMATS=["mxfp4"], **({"quantize": quantize} | more)))


def test_equal_targets_differ_nowhere() -> None:
    found = diff_format(target("mx-floor"), target("mx-floor"), mxspec.get_block("mxfp4"))
    assert not found.differ
    assert found.first is None
    assert found.counts["quantize"][0] > 500


@pytest.mark.parametrize("other", ["mx-rceil", "gguf-0.19/mxfp4", "microxcaling-7bc4195/mxfp/nearest"])
def test_the_first_difference_is_small_and_named(other: str) -> None:
    found = diff_format(target("mx-floor"), target(other), mxspec.get_block("mxfp4"))
    assert found.differ
    assert found.first is not None
    assert np.count_nonzero(found.first.case.x) <= 2
    assert "mx-floor" in found.first.profiles[0]
    assert other in found.first.profiles[1]
    assert found.first.profiles[0][0] == "mx-floor"
    a, b = found.first.answers
    assert a[0] != b[0] or (a[1] != b[1]).any()


def test_a_dequantizer_that_differs() -> None:
    def right(codes: Any, scales: Any, fmt: str) -> Any:
        return mxspec.dequantize(codes, scales, fmt)

    def wrong(codes: Any, scales: Any, fmt: str) -> Any:
        return mxspec.dequantize(codes, np.maximum(scales, 1), fmt)

    found = diff_format(target("mx-floor", dequantize=right), target("mx-floor", dequantize=wrong), mxspec.get_block("mxfp4"))
    compared, different = found.counts["dequantize"]
    # 16 codes under byte 00; the two zeros are zeros under any scale.
    assert (different, compared % 16) == (14 * compared // 4096, 0)
    assert found.counts["quantize"][1] == 0


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = {}
    for name, profile in (("a", "mx-floor"), ("b", "mx-rceil")):
        files[name] = tmp_path / f"{name}.py"
        files[name].write_text(FILE.format(name=name, profile=profile), "utf-8")
    out = tmp_path / "diff.json"
    run = CliRunner().invoke(main, ["diff", str(files["a"]), str(files["b"]), "--json", str(out)])
    assert run.exit_code == 1, run.output
    assert "mx-floor against mx-rceil" in run.output
    assert max(map(len, run.output.splitlines())) <= 80
    assert json.loads(out.read_text("ascii"))["formats"][0]["counts"]["quantize"]["different"] > 0
    run = CliRunner().invoke(main, ["diff", str(files["a"]), str(files["a"])])
    assert run.exit_code == 0, run.output
    run = CliRunner().invoke(main, ["diff", str(files["a"]), str(files["a"]), "--format", "nvfp4"])
    assert run.exit_code == 2
    assert "a offers mxfp4; not nvfp4, so nothing is judged" in run.output


def test_a_target_that_never_answers_says_why(tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    files[0].write_text(FILE.format(name="a", profile="mx-floor"), "utf-8")
    raising = "def quantize(x, fmt):\n    raise RuntimeError('no kernel for sm_90')\n"
    files[1].write_text(f"{FILE.format(name='b', profile='mx-floor')}{raising}", "utf-8")
    run = CliRunner().invoke(main, ["diff", *map(str, files)])
    said = " ".join(run.output.split())
    assert run.exit_code == 0, run.output
    assert "quantize: the second target, b 1, leaves" in said
    line = len(files[1].read_text("utf-8").splitlines())
    assert f'RuntimeError: no kernel for sm_90; File "b.py", line {line}, in quantize' in said
    assert said.count("no kernel for sm_90") == 1
    assert "the first target" not in said


def test_products_are_compared() -> None:
    """Which calls differ, whose answers are right, and the smallest; in sizes that both take."""

    def make(*, doubled: bool = False) -> Any:
        def matmul(a: Any, b: Any, out_dtype: str) -> Any:
            if b.shape[1] % 64:
                raise ValueError("whole tiles")
            with np.errstate(all="ignore"):
                y = a.astype(np.float32) @ mxspec.dequantize(b.codes, b.scales, "mxfp4").T
            return y * 2 if doubled and len(y) == 3 else y

        return SimpleNamespace(OPERANDS={"a": "float32", "b": "mxfp4"}, matmul=matmul)

    right, wrong = (InProcessSession(make(doubled=doubled), "target") for doubled in (False, True))
    same = diff_product(right, right, parse_product("float32 @ mxfp4"))
    assert same.counts["matmul"][0] > 100
    assert not same.differ
    result = diff_product(right, wrong, parse_product("float32 @ mxfp4"))
    compared, differ = result.counts["matmul"]
    assert 0 < differ < compared
    assert result.notes[0].startswith(f"of {differ} calls that differ {differ} and 0 are right in float32 additions")
    assert "m x n x k = 3 x " in result.notes[1]
    assert result.notes[2].startswith("by requirement: ")


@pytest.mark.skipif(CC is None, reason="a C compiler is needed")
def test_two_builds_of_a_product_differ_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    builds = [tmp_path / f"libmykernel_{number}.so" for number in (1, 2)]
    for build, mistake in zip(builds, ([], ["-DBROKEN_NEXT_SCALE"]), strict=True):
        line = [str(CC), "-shared", "-fPIC", "-O2", "-I", str(header_path().parent), *mistake, str(GEMV), "-o", str(build), "-lm"]
        subprocess.run(line, check=True)
    run = CliRunner().invoke(main, ["diff", *map(str, builds)])
    assert run.exit_code == 1
    page = (EXAMPLES.parents[1] / "docs" / "identify.md").read_text("utf-8")
    assert f"```\n{run.output}```" in page
