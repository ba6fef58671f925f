"""The table of what the bytes of the vectors buy: it counts every byte and case once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mxspec_vectors import budget
from mxspec_vectors.files import read_document, read_index, vectors_root

MATRIX = Path(__file__).resolve().parents[1] / "reports" / "mutants" / "matrix.json"


def test_every_byte_and_case_is_counted() -> None:
    files, topics = budget.measure(vectors_root(), json.loads(MATRIX.read_bytes()))
    index = read_index()
    assert {name: (row.bytes, row.cases) for name, row in files.items()} == {
        name: (entry["bytes"], entry["cases"]) for name, entry in index["files"].items()
    }
    total = budget.sum_rows(topics.values())
    assert (total.bytes, total.cases) == (sum(e["bytes"] for e in index["files"].values()), index["cases"])
    cases = [c["topic"] for o in ("quantize", "scale") for c in read_document(o, "mxfp4")["cases"]]
    mine = budget.measure_topics((vectors_root() / "quantize/mxfp4.json").read_bytes())
    other = budget.measure_topics((vectors_root() / "scale/mxfp4.json").read_bytes())
    for topic in set(cases):
        assert mine.get(topic, (0, 0))[1] + other.get(topic, (0, 0))[1] == cases.count(topic)


def test_kills_are_those_of_the_matrix() -> None:
    matrix = json.loads(MATRIX.read_bytes())
    _, topics = budget.measure(vectors_root(), matrix)
    instances = [i for m in matrix["mutants"] for i in m["instances"]]
    assert budget.sum_rows(topics.values()).kills == sum(i["kills"] for i in instances)
    row = topics["dequantize", "code"]
    found = [i for i in instances if i["operation"] == "dequantize" and "code" in i["topics"]]
    assert (row.kills, len(row.found)) == (sum(i["topics"]["code"] for i in found), len(found))
    assert len(row.alone) == sum(list(i["topics"]) == ["code"] for i in found)


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert budget.main(["--matrix", str(MATRIX), "--markdown", "--files"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("| operation | bytes | cases | kills | mutants | alone | kills/KB | mutants/KB |\n")
    assert all(f"| {name.removesuffix('.json')} |" in printed for name in read_index()["files"])
    assert budget.main(["--matrix", str(MATRIX)]) == 0
    assert capsys.readouterr().out.startswith("operation ")
    with pytest.raises(SystemExit) as stopped:
        budget.main(["--matrix", str(tmp_path / "none.json")])
    assert stopped.value.code == 2
