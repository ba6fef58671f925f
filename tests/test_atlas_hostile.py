"""The site and what joins it, given forged results: refused with a message, nothing written, nothing executed by a reader."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mxspec_conformance.atlas.entries import make_entry
from mxspec_conformance.atlas.findings import SCHEMA as FINDINGS, read_findings
from mxspec_conformance.atlas.reading import read_collection
from mxspec_conformance.atlas.shapes import SHAPES, check_shape
from mxspec_conformance.cli.main import main

ROOT = Path(__file__).parents[1]
RESULT = json.loads((ROOT / "reports/products/numpy-products-float32.json").read_text("ascii"))["check"]
Change = Callable[[dict[str, Any]], object]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


def changed(change: Change) -> dict[str, Any]:
    document: dict[str, Any] = copy.deepcopy(RESULT)
    change(document)
    return document


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"schema": "mxspec-result/2"}, "mxspec-result/2"),
        (True, "it holds bool"),
        ({"schema": "mxspec-result/1", "kind": "fuzz"}, "a result of fuzz"),
        ({"a": 1}, "it names no schema"),
        ({"schema": "mxspec-products/1"}, "a result is a JSON object, not NoneType"),
        ({"schema": "mxspec-products/1", "check": [1]}, "a result is a JSON object, not list"),
        ({"checks": [1]}, "a result is a JSON object, not int"),
        ({"schema": FINDINGS}, "no list of objects"),
        ({"schema": FINDINGS, "findings": 5}, "no list of objects"),
        ({"schema": FINDINGS, "findings": ["a"]}, "no list of objects"),
        ({"schema": "mxspec-explorer/1"}, "is missing"),
        ({"formats": {"mxfp4": {"pairs": 4}}}, "is not of type 'object'"),
        ({"device": 1, "rows": 2, "tasks": 3, "mixes": 4}, "is not of type"),
        ({"catalogue": 1, "mutants": 2, "levels": 3}, "is not of type 'array'"),
        (changed(lambda d: d["environment"].update(time=12)), "environment.time"),
        (changed(lambda d: d.pop("suite")), "'suite' is missing"),
        (changed(lambda d: d["target"].update(capabilities=None)), "capabilities"),
        (changed(lambda d: d["target"]["capabilities"].update(functions=[])), "capabilities.functions"),
        (changed(lambda d: d["target"]["capabilities"].update(functions={"matmul": 5})), "capabilities.functions.matmul"),
        (changed(lambda d: d["target"]["capabilities"].update(dtypes=[True])), "capabilities.dtypes"),
        (changed(lambda d: d["environment"].update(libraries=[])), "environment.libraries"),
        (changed(lambda d: d["environment"].update(git="abc")), "environment.git"),
    ],
)
def test_a_document_of_another_shape_is_reported_with_its_file(tmp_path: Path, document: object, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    done = run("site", path, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert words in done.output
    assert "x.json" in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_shapes_hold_of_what_is_committed() -> None:
    """Every measurement that the commands write is drawn, and what lacks a field that is read is refused."""
    collection = read_collection([ROOT / "reports" / f for f in ("atlas", "identify", "gpu/bench-h200.json", "mutants/matrix.json")])
    assert {"interop", "model", "attribution", *SHAPES} <= set(collection.others)
    for name, schema in SHAPES.items():
        for field in schema["required"]:
            document = {key: value for key, value in collection.others[name].items() if key != field}
            with pytest.raises(ValueError, match=rf"f\.json: \$: '{field}'"):
                check_shape(name, document, "f.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "../x"}, "names a page"),
        ({"id": "a" * 81}, "names a page"),
        ({"thread": "javascript:alert(1)"}, "https://"),
        ({"thread": "data:text/html,x"}, "https://"),
        ({"text": {"a": 1}}, "text is no text"),
        ({"text": " "}, "lacks text"),
        ({"upstream": "x"}, "has upstream"),
    ],
)
def test_a_finding_cannot_leave_its_folder_or_run_in_a_reader(change: dict[str, Any], words: str) -> None:
    finding = {"id": "a", "title": "t", "target": "t", "requirement": "r", "text": "t", "effect": "e"} | change
    with pytest.raises(ValueError, match=words):
        read_findings({"schema": FINDINGS, "findings": [finding]}, "f.json")
    if "upstream" in change:
        del finding["upstream"]
        with pytest.raises(ValueError, match="one id"):
            read_findings({"schema": FINDINGS, "findings": [finding, finding]}, "f.json")


IDENTITIES = (
    ("a", "1", "CPU"), ("A", "1", "CPU"), ("a b", "1", "CPU"), ("a-b", "1", "CPU"), ("a/b", "1", "CPU"), ("核", "1", "CPU"), ("心", "1", "CPU"),
    ("..", "..", "CPU"), ("a", "b-1", "CPU"), ("a-b-1", "1", "CPU"), ("a", "1", "h"), ("a-1", "h", "CPU"), ("n" * 5000, "1", "CPU"), ("n" * 5001, "1", "CPU"),
)  # fmt: skip


def test_every_implementation_has_a_page_of_its_own() -> None:
    entries = []
    for name, version, device in IDENTITIES:
        document = changed(lambda d: None)
        document["target"].update(name=name, version=version)
        document["environment"].update(device=device)
        entries.append(make_entry(document, source="x", current=True))
    names = [entry.slug for entry in entries]
    assert len({name.lower() for name in names}) == len(names)
    assert all(name and "/" not in name and len(name) < 200 and name.isascii() for name in names)
    assert names[0] == "a-1"


def test_a_foreign_file_stays(tmp_path: Path) -> None:
    path, out = tmp_path / "r.json", tmp_path / "out"
    path.write_text(json.dumps(RESULT))
    out.mkdir()
    (out / "index.html").write_text("mine")
    done = run("site", path, "-o", out)
    assert (done.exit_code, (out / "index.html").read_text()) == (2, "mine")
    assert "of no earlier site" in done.output
    assert [p.name for p in out.iterdir()] == ["index.html"]


def test_submit_replaces_a_result_of_the_same_implementation_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxspec_conformance.atlas.submission._list_lacking", lambda entry: ())
    path, into = tmp_path / "r.json", tmp_path / "in"
    path.write_text(json.dumps(RESULT))
    assert run("submit", path, "--into", into).exit_code == 0
    (held,) = into.iterdir()
    assert run("submit", path, "--into", into).exit_code == 0
    for other in ("mine", "{}", json.dumps(changed(lambda d: d["target"].update(name="another")))):
        held.write_text(other)
        done = run("submit", path, "--into", into)
        assert (done.exit_code, held.read_text()) == (2, other)
        assert "exists and is no result of" in done.output
