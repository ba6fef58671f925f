"""The committed kill matrix of products: it speaks of today's kernels, and a sample of it is judged again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mxspec_conformance import check
from mxspec_lab.evidence.kinds import KINDS
from mxspec_lab.evidence.status import State, judge_result, render_result
from mxspec_lab.products.kernels import Kernel, KernelTarget
from mxspec_lab.products.kinds_right import RIGHT_KINDS
from mxspec_lab.products.kinds_wrong import WRONG_KINDS
from mxspec_lab.products.right import RIGHT
from mxspec_lab.products.run import ask_vectors, describe_kernel, describe_wrong, list_failing, main, render_markdown
from mxspec_lab.products.wrong import NARROW, list_wrong

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "reports" / "mutants" / "products.json"
FUZZED = ROOT / "reports" / "fuzz" / "products.json"
DOCUMENT: dict[str, Any] = json.loads(REPORT.read_text("ascii"))
RENEW = "run `python -m mxspec_lab.products.run --json reports/mutants/products.json --markdown reports/mutants/products.md`"
WRONG = {kernel.name: kernel for kernel in list_wrong()}


def test_it_speaks_of_every_kernel() -> None:
    for rows, kernels in ((DOCUMENT["wrong"], list_wrong()), (DOCUMENT["right"], RIGHT)):
        heads = [{key: row[key] for key in describe_kernel(RIGHT[0])} for row in rows]
        assert heads == [describe_kernel(kernel) for kernel in kernels], RENEW


def test_it_is_current() -> None:
    kind = next(k for k in KINDS if k.pattern == "mutants/products.json")
    assert judge_result(REPORT, kind).state is State.CURRENT, RENEW


def test_counts_are_those_of_the_rows() -> None:
    counts = DOCUMENT["counts"]
    assert counts["killed"] == counts["wrong"] == len(DOCUMENT["wrong"]) >= 110
    assert counts["accused"] == sum(bool(row["accused"]) for row in DOCUMENT["right"]) == 0
    assert counts["named"] == sum(bool(row["named"]) for row in DOCUMENT["wrong"])
    assert counts["killed_kinds"] == counts["wrong_kinds"] == len(DOCUMENT["wrong_kinds"]) == len(WRONG_KINDS)
    assert counts["accused_kinds"] == sum(bool(row["accused"]) for row in DOCUMENT["right_kinds"]) == 0
    assert [row["kernel"] for row in DOCUMENT["right_kinds"]] == [kernel.name for kernel in RIGHT_KINDS], RENEW
    assert counts["by_vectors"] == sum(row["vectors"]["failing"] > 0 for row in DOCUMENT["wrong"])


def test_the_documents_quote_the_counts() -> None:
    """The table and the sentence of docs/products.md, and the table of docs/fuzzing.md, have the numbers of the results."""
    counts = DOCUMENT["counts"]
    page = " ".join((ROOT / "docs" / "products.md").read_text("utf-8").split())
    assert f"The vectors find {counts['by_vectors']} of the {counts['wrong']} wrong kernels" in page
    for words, ending in (("block formats and floats", ""), ("with an affine or sparse operand", "_kinds")):
        killed, wrong, right, accused = (counts[name + ending] for name in ("killed", "wrong", "right", "accused"))
        assert f"| {words} | {killed} of {wrong} | {right - accused} of {right} |" in page
    drawn = json.loads(FUZZED.read_text("ascii"))
    page = " ".join((ROOT / "docs" / "fuzzing.md").read_text("utf-8").split())
    for words, ending in (("block formats and floats", ""), ("with an affine or sparse operand", "_kinds")):
        wrong, right = drawn["counts"][f"wrong{ending}"], drawn["counts"][f"right{ending}"]
        row = (
            f"| {words} | {wrong['found_by_every_seed']} of {wrong['kernels']} | {wrong['runs_found_within']['32']} of {wrong['runs']} runs "
            f"| {wrong['narrow_found']} of {wrong['narrow']} | {right['accused']} of {right['kernels']} |"
        )
        assert row in page
    most = drawn["batches"]
    assert f"{most['wrong']} batches of {drawn['products_of_a_batch']} products at most, a right one {most['right']}." in page
    assert len(drawn["seeds"]) == 2, "the page says: both seeds"


def test_the_page_is_that_of_the_numbers() -> None:
    assert REPORT.with_suffix(".md").read_text("ascii") == render_markdown(DOCUMENT), RENEW


@pytest.mark.parametrize("name", ["next block's scale, b", "bfloat16 output cut", "scale 00 is zero"])
def test_a_row_is_judged_again(name: str) -> None:
    row = next(r for r in DOCUMENT["wrong"] if r["kernel"] == name)
    assert describe_wrong(WRONG[name], check(KernelTarget(WRONG[name]))) == row


#: Kernels whose bug is what they keep of earlier calls.
REMEMBERS = ("accumulator not cleared", "workspace of a larger call")


@pytest.mark.parametrize("kernel", WRONG.values(), ids=list(WRONG))
def test_what_the_vectors_alone_find(kernel: Kernel) -> None:
    row = next(r for r in DOCUMENT["wrong"] if r["kernel"] == kernel.name)
    found = ask_vectors(kernel)
    if kernel.name in REMEMBERS:  # earlier calls decide how much is wrong
        assert found["failing"]
        return
    assert found == row["vectors"]


def test_what_the_vectors_alone_miss_is_what_they_do_not_ask() -> None:
    missed = {row["kernel"] for row in DOCUMENT["wrong"] if not row["vectors"]["failing"]}
    narrow = {kernel.name for kernel in NARROW}
    beyond = {"rows beyond tiles of 128", "columns beyond tiles of 128"}
    assert {name for name in missed - narrow if not name.startswith("epilogue: ")} == beyond
    assert narrow - missed == {"the last is lost at n = 32", "square scales transposed", "scales in float16"}


@pytest.mark.parametrize("kernel", RIGHT, ids=[f"{i}-{k.name}" for i, k in enumerate(RIGHT)])
def test_the_vectors_accuse_no_right_kernel(kernel: Kernel) -> None:
    """But those that round operands, or operands times the tensor scale, to 16 bits first."""
    topics = {case.topic for case in list_failing(kernel)}
    assert topics <= ({"tensor-scale", "block-scale", "scale-code", "overflow"} if kernel.fold in ("bfloat16", "float16") else set())


def test_the_command_says_what_survives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mxspec_lab.products import run

    monkeypatch.setattr(run, "list_wrong", lambda: [RIGHT[0]])
    monkeypatch.setattr(run, "RIGHT", (WRONG["scale 00 is zero"],))
    monkeypatch.setattr(run, "WRONG_KINDS", ())
    monkeypatch.setattr(run, "RIGHT_KINDS", ())
    out = tmp_path / "products.json"
    assert main(["--json", str(out)]) == 1
    said = capsys.readouterr().out
    assert f"survives: {RIGHT[0].name}\n" in said
    assert "accused: scale 00 is zero: scale-code\n" in said
    written = json.loads(out.read_text("ascii"))
    assert (written["counts"]["killed"], written["counts"]["accused"]) == (0, 1)
    assert render_result(written) == out.read_text("ascii")
