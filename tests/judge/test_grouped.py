"""Grouped products: wrong kernels fail, right ones pass whatever the contract leaves open, on every transport."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxspec_conformance import check
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.judge.planning import plan_requests
from mxspec_conformance.results.report import GOOD, Report, Verdict, read_report
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.grouped import GroupForm, place_rows
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.opening import open_target

from tests.grouped_kernels import NVFP4, RIGHT, WRONG, Wrong, build
from tests.transports import EXAMPLES, build_library

#: The wrong kernels whose cause is named.
NAMED = {
    "last-expert-skipped": "the last expert is left out",
    "one-row-is-none": "experts of one row are left out",
    "experts-without-rows-shift": "each expert has the matrix of an expert that is counted among those with rows",
    "padding-not-skipped": "the rows of experts lie in order and without padding",
    "scales-of-the-first": "each expert has the block scales of the first expert",
    "tensor-scale-of-the-first": "each expert has the tensor scale of the first expert",
    "bias-of-the-one-before": "each expert has the bias of the expert before it",
    "writes-whole-tiles": "whole tiles of 64 rows are written, and overwrite rows of the next experts",
    "writes-tiles-of-zeros": "whole tiles of 128 rows are written, and overwrite rows of the next experts with zeros",
    "tile-of-the-first-row": "all rows of a tile of 16 are those of the first one's expert",
}


def list_unmet(report: Report) -> set[str]:
    return {r.topic for r in report.requirements if r.verdict not in GOOD}


@pytest.mark.share(12)
@pytest.mark.all_calls
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id)
def test_every_wrong_kernel_is_found(wrong: Wrong) -> None:
    report = check(build(wrong.form, wrong.pair, **wrong.steps))
    assert report.exit_code == 1
    assert any(r.verdict is Verdict.FAIL and r.first is not None for r in report.requirements)
    named = report.formats[0].deviations
    assert named == ([NAMED[wrong.id]] if wrong.id in NAMED else named)


def test_the_page_is_true() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "products.md").read_text("utf-8")
    assert f"| grouped products | {len(WRONG)} of {len(WRONG)} | {len(RIGHT)} of {len(RIGHT)} |" in page
    (shown,) = re.findall(r"^# my_experts.py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (right, wrong) = ({}, {})  # type: dict[str, Any], dict[str, Any]
    exec(shown, right)
    report = check(SimpleNamespace(**right))
    assert f"{report.formats[0].format}  conforms to float32 sums           0/{sum(r.cases for r in report.requirements)}" in page
    exec(shown.replace("    return np.conc", "    rows = [x for x in rows if len(x)]\n    return np.conc"), wrong)
    report = check(SimpleNamespace(**wrong), only="*/identity")
    assert f"    - {report.formats[0].deviations[0]}\n" in page
    first = report.requirements[0].first
    assert first is not None
    assert all(f"  given     {name:<15}  {first.given[name]}\n" in page for name in ("output", "rows of experts"))


@pytest.mark.share(12)
@pytest.mark.all_calls
@pytest.mark.parametrize("name", RIGHT)
def test_no_right_kernel_is_accused(name: str) -> None:
    report = check(build(**RIGHT[name]))
    assert (report.exit_code, list_unmet(report)) == (0, set())
    assert report.formats[0].behaviour.keys() == {"outputs with one right result"}
    ids = {r.id for r in report.requirements}
    assert ids <= set(list_requirements(open_target(build(**RIGHT[name]))))
    assert ids >= {
        f"grouped_matmul/{report.formats[0].format}/{topic}" for topic in ("position", "state", "memory", "refusal", "call-size")
    }


@pytest.mark.all_calls
def test_additions_of_another_class_are_a_deviation_unless_claimed() -> None:
    def add_in_float16(x: Any, w: Any) -> Any:
        y = np.zeros((len(x), len(w)), np.float16)
        for j in range(x.shape[1]):
            y = (y + x[:, j, None] * w[None, :, j]).astype(np.float16)
        return y.astype(np.float32)

    target = build(pair="mxfp4 @ mxfp4", multiply=add_in_float16)
    report = check(target)
    assert {r.verdict for r in report.requirements} == {Verdict.PASS, Verdict.DEVIATION}
    assert {r.explained_by for r in report.requirements if r.verdict is Verdict.DEVIATION} == {"float16"}
    target.ACCUMULATOR = "float16"
    assert check(target).exit_code == 0


@pytest.mark.all_calls
def test_more_experts_than_a_kernel_has_may_be_refused() -> None:
    target = build()
    plain = target.grouped_matmul

    def refuse(a: Any, b: Any, groups: Any, form: str, out_dtype: str) -> Any:
        if len(groups) > 256:
            raise ValueError("at most 256 experts")
        return plain(a, b, groups, form, out_dtype)

    target.grouped_matmul = refuse
    assert check(target, only="grouped_matmul/*/position").exit_code == 0


def test_the_report_names_expert_and_row() -> None:
    wrong = next(w for w in WRONG if w.id == "rows-beyond-128-come-again")
    report = check(build(wrong.form, wrong.pair, **wrong.steps), only="grouped_matmul/*/position")
    first = report.requirements[0].first
    assert first is not None
    assert (first.case, first.given["rows of experts"]) == ("257 rows", "200, 57 (padded)")
    assert first.given["output"] == "row 128 of 512, expert 0 of 2, its row 128 of 200, column 0"
    assert "expert 0: 216 of 600 outputs are wrong: rows 128 to 199, each whole" in first.steps
    assert "1 of 2 experts that have rows are wrong: 0" in first.steps
    assert first.product is not None


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("mxfp4 @ mxfp4 : sorted", "'sorted' is no form.*counts, offsets, padded, masked, indexed"),
        ({"a": "mxfp4", "b": "mxfp4"}, "it names no form"),
        ("float16 @ int4-g64-bias-float16 : counts", "affine or sparse operand"),
        ("bfloat16 @ mxfp4-2to4 : counts", "affine or sparse operand"),
        ([], "it is empty"),
    ],
)
def test_what_is_no_grouped_product_is_refused_with_words(declared: Any, said: str) -> None:
    target = SimpleNamespace(GROUPED=declared, grouped_matmul=lambda *_: None)
    with pytest.raises(TargetError, match=said):
        open_target(target)


@pytest.mark.parametrize("form", GroupForm)
def test_rows_lie_where_the_form_says(form: GroupForm) -> None:
    placing = place_rows(form, (3, 0, 5), 4)
    groups, counts = placing.groups, [len(p) for p in placing.places]
    assert len(np.unique(np.concatenate(placing.places))) == sum(counts)
    expected: dict[GroupForm, Any] = {
        GroupForm.COUNTS: (4, 0, 8), GroupForm.OFFSETS: (0, 4, 4, 12), GroupForm.MASKED: (3, 0, 5),
        GroupForm.PADDED: (0, 0, 0, -1, 2, 2, 2, 2, 2, -1, -1, -1, -1, -1, -1, -1),
    }  # fmt: skip
    assert groups == expected.get(form, groups)
    if form is GroupForm.INDEXED:
        assert [groups.count(e) for e in range(3)] == [4, 0, 8]
    assert placing.rows == {GroupForm.PADDED: 16, GroupForm.MASKED: 36}.get(form, 12)


#: A target that needs NumPy and ml_dtypes alone, of every form.
TARGET = """
import ml_dtypes, numpy as np
GROUPED = [{"a": "bfloat16", "b": "mxfp8_e4m3/128x4", "form": form} for form in ("counts", "offsets", "padded", "masked", "indexed")]
OUT_DTYPES = ["bfloat16", "float32"]

def untile(laid, n, k):  # 128x4 tiles of one expert's scales
    tiles = laid.reshape(-1, -(-k // 4), 32, 4, 4).transpose(0, 3, 2, 1, 4)
    return tiles.reshape(-1, 4 * -(-k // 4))[:n, :k]

def grouped_matmul(a, b, groups, form, out_dtype, bias=None):
    (experts, n, k), rows = b.shape, a.reshape(-1, a.shape[-1]).astype(np.float32)
    ids = {"counts": lambda: np.repeat(np.arange(experts), groups), "offsets": lambda: np.repeat(np.arange(experts), np.diff(groups))}
    ids["masked"] = lambda: np.where(np.arange(a.shape[1]) < groups[:, None], np.arange(experts)[:, None], -1).reshape(-1)
    of_row = ids.get(form, lambda: groups)()
    y = np.zeros((len(rows), n), np.float32)
    for e in range(experts):
        scales = untile(b.scales[e], n, k // 32).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
        w = b.codes[e].view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.repeat(scales, 32, axis=1)
        y[of_row == e] = rows[of_row == e] @ w.T + (0 if bias is None else bias[e].astype(np.float32))
    return y.reshape(*a.shape[:-1], n).astype(out_dtype)
"""


@pytest.mark.share(12)
@pytest.mark.parametrize("transport", ["python", "process", "library"])
def test_every_transport_is_judged(transport: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(TARGET, encoding="utf-8")
    harness = EXAMPLES / "python" / "harness.py"
    targets = {"python": lambda: str(path), "process": lambda: f"cmd:{sys.executable} {harness} {path}"}
    targets["library"] = lambda: build_library(EXAMPLES / "c" / "grouped.c", tmp_path / "libgrouped.so")
    report = read_report(check(targets[transport]()).as_dict())
    assert (report.exit_code, list_unmet(report)) == (0, set())
    assert len(report.formats) == (2 if transport == "library" else 5)


def test_a_wrong_library_is_named(tmp_path: Path) -> None:
    report = check(build_library(EXAMPLES / "c" / "grouped.c", tmp_path / "libgrouped.so", "BROKEN_TILES"), only="*/position")
    assert report.formats[1].deviations == ["all rows of a tile of 16 are those of the first one's expert"]


def test_a_bundle_holds_every_call() -> None:
    """What is judged of a results file does not depend on the answers, but for calls about calls, which it does not hold."""
    target = build("masked", NVFP4)
    planned = plan_requests(open_target(target).capabilities)
    plain, forms = target.grouped_matmul, list[str]()

    def count(a: Any, b: Any, groups: Any, form: str, out_dtype: str, alpha: Any = None, bias: Any = None) -> Any:
        forms.append(form)
        return plain(a, b, groups, form, out_dtype, alpha, bias)

    target.grouped_matmul = count
    assert check(InProcessSession(target, "kernel", transport="results-file")).exit_code == 0
    assert (len(forms), set(forms)) == (len(planned), {"masked"})
