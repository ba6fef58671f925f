"""The kit of products, and the judge of tests on products: what is stored is legal, right kernels pass, wrong ones do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mxspec_conformance.cli.main import main
from mxspec_conformance.kits import products_runtime as runtime
from mxspec_conformance.kits.products import GROUP_PAIRS, PAIRS, list_calls, select
from mxspec_conformance.kits.writing import LARGEST, write_kit
from mxspec_conformance.scoring.outcomes import Verdict
from mxspec_conformance.scoring.products.implementation import ProductImplementation
from mxspec_conformance.scoring.products.rules import PRODUCT_RULES, Trial, find_rule, run_product_rule
from mxspec_conformance.scoring.products.score import find_product_kills, score_products
from mxspec_conformance.scoring.products.subjects import ALL, MOVED, find_product, list_subjects
from mxspec_conformance.scoring.score import Status
from mxspec_conformance.scoring.subjects import Kind, Subject
from mxspec_conformance.targets.errors import TargetError
from mxspec_vectors.cases import load_dot_cases

from tests.float_scale_kernels import RIGHT, ROWS, WRONG, _spread, make_kernel

ROOT = Path(__file__).resolve().parents[1]
ACCEPTANCE = json.loads((ROOT / "reports" / "mutants" / "acceptance.json").read_text("ascii"))
LETTER = {name: letter for letter, name in runtime.CLASSES.items()}

#: A product by ml_dtypes for every pair of block formats, and one that reads the next block's scale.
KERNELS = """
import ml_dtypes
import numpy as np

NAMES = {"mxfp4": "float4_e2m1fn", "nvfp4": "float4_e2m1fn", "mxfp6_e2m3": "float6_e2m3fn", "mxfp6_e3m2": "float6_e3m2fn", "mxfp8_e4m3": "float8_e4m3fn",
         "mxfp8_e5m2": "float8_e5m2"}
PAIR = ["mxfp8_e4m3", "mxfp4"]


def decode(fmt, codes, scales, tensor):
    q = codes.view(np.int8) / np.float32(64) if fmt == "mxint8" else codes.view(getattr(ml_dtypes, NAMES[fmt])).astype(np.float32)
    s = scales.view(ml_dtypes.float8_e4m3fn if fmt == "nvfp4" else ml_dtypes.float8_e8m0fnu).astype(np.float32)
    return q * np.repeat(s, codes.shape[1] // s.shape[1], axis=1)


def matmul(a, a_scales, b, b_scales, out_dtype="float32", a_tensor_scale=1.0, b_tensor_scale=1.0, alpha=1.0, beta=0.0, c=None, bias=None):
    with np.errstate(all="ignore"):
        y = decode(PAIR[0], a, a_scales, 1) @ decode(PAIR[1], b, b_scales, 1).T * (np.float32(alpha) * np.float32(a_tensor_scale * b_tensor_scale))
        y = y if c is None else y + np.float32(beta) * c
        y = y if bias is None else y + bias
        return y.astype(getattr(ml_dtypes, out_dtype, None) or out_dtype)


def next_scale(a, a_scales, b, b_scales, **options):
    return matmul(a, a_scales, b, np.roll(b_scales, -1, axis=1), **options)
"""


def by_name(name: str, scope: str = ALL, kind: Kind = Kind.MUTANT) -> Subject:
    return next(s for s in list_subjects(scope) if s.id == name and s.kind is kind)


def plain_text(text: str) -> tuple[str, Any]:
    before, mark, rest = text.partition('DATA = unpack_calls("""')
    packed, _, after = rest.partition('"""')
    assert mark
    return before + after, runtime.unpack_calls(packed)


@cache
def kit_file(*formats: str) -> bytes:
    (data,) = write_kit("products", formats).values()
    return data


def test_the_file_is_small_and_can_hold_one_pair() -> None:
    assert len(kit_file()) < LARGEST
    for alone in ("nvfp4", "nvfp4@nvfp4"):
        assert list(plain_text(kit_file(alone).decode("ascii"))[1]) == ["nvfp4@nvfp4"]
    with pytest.raises(ValueError, match="no kit products for mxfp6_e2m3@mxfp4; there are kits for"):
        write_kit("products", ["mxfp6_e2m3@mxfp4"])


@pytest.mark.parametrize("pair", PAIRS)
def test_every_stored_call_is_a_case_with_its_answers(pair: str) -> None:
    tables, calls = list_calls(pair)
    cases = {case.id: case for case in load_dot_cases(pair)}
    for call in calls:
        case = cases[call["i"]]
        a, b = runtime.operands_of(pair, tables, call)
        assert np.array_equal(a.codes, case.a.data)
        assert case.b.scales is not None
        assert np.array_equal(b.scales, case.b.scales)
        for name, answer in case.answers.items():
            found = runtime.answer_of(pair, tables, call, LETTER[name])
            assert found is not None
            for mine, theirs in zip(found, (answer.low, answer.high), strict=True):
                assert np.array_equal(mine, np.asarray(theirs).astype(np.float64), equal_nan=True), (call["i"], name)
    assert {c["i"] for c in calls} == {c.id for c in cases.values() if c.topic != "zero-block"}
    assert select(pair, [calls[0]["i"]])["c"] == [calls[0]]


def run_kit(tmp_path: Path, function: str, pair: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_mx_products.py").write_bytes(kit_file(pair))
    a, b = pair.split("@")
    (tmp_path / "their_kernels.py").write_text(KERNELS.replace('["mxfp8_e4m3", "mxfp4"]', repr([a, b])), "utf-8")
    given = {"MX_KIT_MATMUL": f"their_kernels:{function}", "MX_KIT_PAIRS": pair, "PYTHONPATH": str(tmp_path)} | environment
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:mxspec", "-c", os.devnull, "test_mx_products.py"]
    return subprocess.run(command, cwd=tmp_path, env=kept | given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_right_kernel_passes_the_file_alone(pair: str, tmp_path: Path) -> None:
    done = run_kit(tmp_path, "matmul", pair, MX_KIT_KEYWORDS="alpha", MX_KIT_OUTPUTS="float32,float16,bfloat16")
    assert "7 passed" in done.stdout, done.stdout


def test_a_wrong_kernel_is_shown_with_its_smallest_sum(tmp_path: Path) -> None:
    done = run_kit(tmp_path, "next_scale", "mxfp8_e4m3@mxfp4")
    assert "outputs are not legal. Row 0, column 0: expected" in done.stdout, done.stdout
    assert "4 failed" in done.stdout


def group_kernel(compute: Any, spread: Any) -> Any:
    """A kernel of groups as the kit calls it."""

    def matmul(a: Any, a_scales: Any, b: Any, b_scales: Any, out_dtype: str) -> Any:
        sides = [SimpleNamespace(codes=x, scales=s, shape=x.shape, spec=ROWS) for x, s in ((a, a_scales), (b, b_scales))]
        return make_kernel(compute, spread).matmul(*sides, out_dtype)

    return matmul


@pytest.mark.parametrize("name", [*RIGHT, *(name for name in WRONG if name != "tiles of 64 rows")])
def test_products_of_groups_are_computed(name: str) -> None:
    """Kernels of the judge's own tests: right ones in other orders pass, wrong ones do not. Tiles are no pair of the kit."""
    kernel = group_kernel(RIGHT[name], _spread) if name in RIGHT else group_kernel(*WRONG[name])
    with np.errstate(all="ignore"):
        designs = runtime.Designs(kernel, GROUP_PAIRS[0], "b", "", ("float32", "bfloat16"))
        found = [pattern for pattern in ("rows", "depths", "scales", "again", "outputs") if next(getattr(designs, pattern)(), None)]
    assert bool(found) == (name in WRONG)


def test_the_file_of_groups_has_calls_without_vectors() -> None:
    text = kit_file(GROUP_PAIRS[1]).decode("ascii")
    assert plain_text(text)[1] == {GROUP_PAIRS[1]: {"t": {part: {} for part in runtime.PARTS}, "c": []}}
    compile(text, "test_mx_products.py", "exec")


def test_subjects_have_names_of_their_own_and_are_found_by_them() -> None:
    for scope in (ALL, "nvfp4@nvfp4"):
        subjects = list_subjects(scope)
        assert len({s.name for s in subjects}) == len(subjects)
        assert all(s.family for s in subjects if s.kind is Kind.MUTANT)
        for s in subjects[::29]:
            assert find_product(s.name) == s
    with pytest.raises(TargetError, match="mxfp4@mxfp4"):
        list_subjects("mxfp4@mxfp6_e2m3")


@pytest.mark.parametrize(
    "name", ["next block's scale, b", "epilogue: c transposed", "accumulator not cleared", "the last is lost at m = 64"]
)
def test_golden_calls_and_patterns_find_mutants(name: str) -> None:
    assert find_product_kills(by_name(name)).all


@pytest.mark.parametrize(
    "name", ["NumPy's float32 product", "split-k of 7", "epilogue fused", "bfloat16 operands", "fused-f13-32", "other NaN bits"]
)
def test_right_kernels_are_not_rejected(name: str) -> None:
    assert not find_product_kills(by_name(name, kind=Kind.RIGHT)).all


@pytest.mark.parametrize("name", ["last block dropped, b", "no tensor scale", "scale FF is infinite"])
def test_named_rules_agree_with_the_published_table(name: str) -> None:
    row = next(r for r in ACCEPTANCE["wrong"] if r["kernel"] == name)
    passed = [rule.id for rule in PRODUCT_RULES if run_product_rule(rule, by_name(name)).verdict is Verdict.ACCEPTS]
    assert passed == row["passes"]


def test_stated_rules_decide_as_they_say() -> None:
    y = np.array([[3.0, -4.0], [0.5, 12.0]])
    near = Trial(y * np.array([[1.0, 1.0], [1.5, 1.0]]), y, y)
    verdicts = {"cosine=0.999": True, "sqnr=30": True, "sqnr=40": False, "norm=0.02": True, "norm=0.01": False, "rtol=0.4": False, "rtol=0.4,misses=0.25": True,
                "atol=0.25": True, "rtol=0.1,atol=0.1": False}  # fmt: skip
    assert {name: find_rule(name).accepts(near) for name in verdicts} == verdicts
    for wrong in ("cosine", "cosine=x", "cosine=1,rtol=2", "sqnr=nan"):
        with pytest.raises(TargetError, match="allowed are"):
            find_rule(wrong)


def test_the_implementation_takes_packed_codes_and_refuses_shapes() -> None:
    product = ProductImplementation(by_name("plain", "mxfp4@mxfp4", Kind.CONTROL).build(), "mxfp4@mxfp4")
    codes, scales = np.full((3, 64), 2, np.uint8), np.full((3, 2), 127, np.uint8)
    packed = np.full((3, 32), 0x22, np.uint8)
    assert (product.matmul(codes, scales, packed, scales) == 64).all()
    with pytest.raises(ValueError, match="needed are"):
        product.matmul(codes, scales[:, :1], codes, scales)
    assert product.calls["matmul"] == 2


THEIR_TEST = '''
import numpy as np

def small(matmul, fmt):
    """Ones and twos under equal scales."""
    assert fmt == "mxfp4@mxfp4"
    a = np.resize(np.array([2, 4, 2], np.uint8), (4, 64))
    b = np.resize(np.array([2, 4, 10, 4, 4], np.uint8), (5, 64))
    scales = np.full((5, 2), 127, np.uint8)
    value = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1])
    assert np.array_equal(matmul(a, scales[:4], b, scales), value[a] @ value[b].T)
'''


def test_a_function_is_scored_and_its_patch_finds_the_rest(tmp_path: Path) -> None:
    (tmp_path / "their_tests.py").write_text(THEIR_TEST, "utf-8")
    names = {"nibbles swapped, a", "next block's scale, a", "the last is lost at n = 16", "no tensor scale"}
    score = score_products(f"{tmp_path}/their_tests.py::small", "mxfp4@mxfp4", jobs=1, repeat=1, only=lambda s: s.id in names)
    assert score.status is Status.SCORED
    verdicts = {row.subject.id: row.is_seen for row in score.mutants}
    # A mutant of tensor scales is none of MXFP4's: no call shows it, and it is left out.
    assert verdicts == {"nibbles swapped, a": True, "next block's scale, a": False, "the last is lost at n = 16": False}
    assert score.left_out == 1
    assert not score.rejected_right
    assert len(score.patch) == 1
    assert score.patch_calls == ("rows",)
    assert any(MOVED in s.what for s in list_subjects("mxfp4@mxfp4"))


def test_the_command_scores_a_rule_of_products(tmp_path: Path) -> None:
    patch = tmp_path / "test_gap.py"
    done = CliRunner().invoke(
        main,
        ["score-tests", "rule:cosine=0.9", "--format", "nvfp4@nvfp4", "--only", "no tensor scale*", "--jobs", "1", "--patch", str(patch)],
    )
    assert done.exit_code == 1, done.output
    assert "sees 0 of 3 mutants" in done.output
    assert "golden calls" in done.output
    assert plain_text(patch.read_text("ascii"))[1]["nvfp4@nvfp4"]["c"]
    refused = CliRunner().invoke(main, ["score-tests", "rule:cosine=0.9", "--format", "nvfp4@nvfp4", "--profile", "mx-floor"])
    assert refused.exit_code == 2
