"""Several targets of one command, judged at the same time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mxspec_conformance import Report
from mxspec_conformance.cli.main import main
from mxspec_conformance.judge.several import check_several
from mxspec_conformance.targets.errors import TargetError

KERNEL = """
import mxspec
NAME, FORMATS = {name!r}, ["mxfp4"]
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt, profile={profile!r})
    return t.codes, t.scales
"""


@pytest.fixture
def targets(tmp_path: Path) -> list[str]:
    found = []
    for name, profile in (("one", "mx-floor"), ("two", "mx-rceil"), ("three", "mx-even")):
        path = tmp_path / f"{name}.py"
        path.write_text(KERNEL.format(name=name, profile=profile), "utf-8")
        found.append(str(path))
    broken = tmp_path / "broken.py"
    broken.write_text("raise OSError('no such driver')\n", "utf-8")
    return [*found[:2], str(broken), found[2]]


def test_each_gets_its_own_verdict_in_order(targets: list[str]) -> None:
    alone = list(check_several(targets, formats=["mxfp4"], quick=True))
    together = list(check_several(targets, 2, formats=["mxfp4"], quick=True))
    assert [type(x) for x in together] == [Report, Report, TargetError, Report]
    for x, y in zip(alone, together, strict=True):
        if isinstance(x, Report) and isinstance(y, Report):
            assert y.target["name"] == x.target["name"]
            # How many calls are made hangs on the target's speed.
            assert [(r.id, r.verdict) for r in y.requirements] == [(r.id, r.verdict) for r in x.requirements]
        else:
            assert str(x) == str(y)


def test_the_command(targets: list[str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = CliRunner().invoke(main, ["check", "--quick", "--jobs", "2", *targets, "--json", str(path)])
    assert result.exit_code == 2
    assert "no such driver" in result.output
    assert [r["target"]["name"] for r in json.loads(path.read_text("utf-8"))] == ["one", "two", "three"]
