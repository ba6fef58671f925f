"""Committed results: each says what it used, and is stale when that has changed, and not before."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mxspec_lab.__main__ import main
from mxspec_lab.evidence import status
from mxspec_lab.evidence.kinds import KINDS
from mxspec_lab.evidence.status import REPORTS, State, judge_result, list_results, render_result, stamp, write_result

#: Results without digests: pictures' sources, a probe's answers, recordings that a test computes again.
WITHOUT = {
    "gpu/attest-h100.json", "gpu/attest-h200.json", "gpu/ncu-h100.json", "gpu/ncu-steps-h100.json", "gpu/probe-h100.json",
    "gpu/probe-h200.json", "gpu/sm90-instructions.json",
}  # fmt: skip
RESULTS = {path.relative_to(REPORTS).as_posix(): (path, kind) for path, kind in list_results()}


def test_every_committed_result_is_of_a_kind() -> None:
    committed = {p.relative_to(REPORTS).as_posix() for p in REPORTS.rglob("*.json")}
    swept = {name for name in committed if name.startswith("sweeps/") and name != "sweeps/index.json"}
    assert committed - swept - WITHOUT == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_result_is_not_stale(name: str) -> None:
    standing = judge_result(*RESULTS[name])
    assert standing.state in (State.CURRENT,), f"{standing.why}; run: {standing.command}"


def test_the_command_lists_them() -> None:
    done = CliRunner().invoke(main, ["evidence", "--json"])
    rows = json.loads(done.output)
    assert [row["result"] for row in rows] == list(RESULTS)
    assert done.exit_code == 0
    assert all(row["command"] and row["time"] and "{" not in row["command"] for row in rows)
    assert all(re.fullmatch(r"(\d{4}-\d\d-\d\d [0-9a-f]{7,})?", row["date"]) for row in rows)


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed verdict in a folder of its own."""
    monkeypatch.setattr(status, "REPORTS", tmp_path)
    path = tmp_path / "html" / "gguf.json"
    path.parent.mkdir()
    path.write_bytes((REPORTS / "html" / "gguf.json").read_bytes())
    return path


def change_use(path: Path, change: dict[str, Any]) -> None:
    document = json.loads(path.read_text("ascii"))
    first, *others = document["uses"]["vectors"]
    stamp(path, {"vectors": [first | change, *others]})


def judge(path: Path) -> status.Standing:
    return judge_result(*next((p, k) for p, k in status.list_results() if p == path))


def test_a_changed_answer_makes_a_result_stale(result: Path) -> None:
    assert judge(result).state is State.CURRENT
    change_use(result, {"digest": "0" * 64})
    assert judge(result).state is State.STALE
    assert "have changed" in judge(result).why


def test_a_profile_that_is_gone_makes_a_result_stale(result: Path) -> None:
    change_use(result, {"profiles": ["nobody-1.0/mxfp4"]})
    assert judge(result).state is State.STALE
    assert "nobody-1.0/mxfp4" in judge(result).why


def test_a_stamp_changes_nothing_else(result: Path) -> None:
    before = result.read_bytes()
    stamp(result)
    assert result.read_bytes() == before
    result.write_bytes(before.partition(b',\n "uses": ')[0] + b"\n}\n")
    assert judge(result).state is State.UNSTAMPED
    stamp(result)
    assert result.read_bytes() == before


@pytest.mark.parametrize("last", [{"a": {"b": 1}}, {}, [{}], 1])
def test_a_stamp_leaves_the_member_before_it_whole(result: Path, last: object) -> None:
    document = json.loads(result.read_bytes())
    uses = document.pop("uses")
    result.write_text(json.dumps(document | {"last": last}, indent=1))
    for _ in range(2):
        stamp(result)
        assert json.loads(result.read_bytes()) == document | {"last": last, "uses": uses}


def test_what_is_no_committed_result_is_not_stamped(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match="none of the committed results"):
        stamp(path)


def test_every_kind_has_its_command_and_time() -> None:
    assert all(kind.command and kind.time for kind in KINDS)


def test_no_result_says_where_anything_is_installed() -> None:
    """Frames of a target's exception name its files from the package on."""
    found = re.compile(r'File \\"(?:/|[A-Za-z]:)|/(?:site|dist)-packages/')
    assert [path.name for path, _ in list_results() if found.search(path.read_text("ascii"))] == []


def test_a_result_has_a_row_to_a_line(tmp_path: Path) -> None:
    document = {"schema": "s/1", "shape": [2, 3], "rows": [{"a": 1}, {"a": [2, 3]}], "none": []}
    text = '{\n "schema": "s/1",\n "shape": [2, 3],\n "rows": [\n{"a":1},\n{"a":[2,3]}\n ],\n "none": [\n\n ]\n}\n'
    assert render_result(document) == text
    assert json.loads(text) == document
    path = tmp_path / "result.json"
    write_result(path, document)  # elsewhere than below reports/ nothing is stamped
    assert path.read_text("ascii") == text
