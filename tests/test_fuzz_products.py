"""Fuzzing products: wrong kernels are found, named and shrunk; right ones are not accused; runs repeat and resume; files replay."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mxspec.dot import Contract, OperandContract
from mxspec_conformance.cli.main import main
from mxspec_conformance.fuzzing.products.batch import settle_batches
from mxspec_conformance.fuzzing.products.draw import draw_products
from mxspec_conformance.fuzzing.products.job import PRODUCTS, ProductJob
from mxspec_conformance.fuzzing.products.subject import is_products, plan_products
from mxspec_conformance.fuzzing.run import fuzz, replay, run_batch, save
from mxspec_conformance.fuzzing.subject import Campaign, Dependence, Request, Settings
from mxspec_conformance.judge.products.reference import make_factor
from mxspec_conformance.render import render_html, render_junit
from mxspec_conformance.results.report import GOOD, Verdict, read_report
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.product_sizes import find_sizes
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.products.kernels import AnyKernel, Kernel, KernelTarget
from mxspec_lab.products.kinds_right import RIGHT_KINDS, SPARSE
from mxspec_lab.products.kinds_wrong import NARROW_KINDS, WRONG_KINDS
from mxspec_lab.products.right import NVFP4, RIGHT
from mxspec_lab.products.wrong import NARROW, list_wrong
from mxspec_vectors.reading import read_json

from tests.support import seed

#: Those that are wrong in one narrow condition are for the judge's designs; random products meet it seldom.
WRONG: dict[str, AnyKernel] = {k.name: k for k in list_wrong() if k not in NARROW}
#: Those with an affine or sparse side.
KINDS: dict[str, AnyKernel] = {k.name: k for k in WRONG_KINDS if k not in NARROW_KINDS}
#: Batches within which every wrong kernel is found, whatever the seed (measured: `reports/fuzz/products.json`).
BATCHES = 60


def plan(kernel: AnyKernel) -> tuple[Any, ProductJob]:
    session = open_target(KernelTarget(kernel))
    (job,) = plan_products(Request(session, session, Settings(seed=seed())))
    return session, job


@pytest.mark.parametrize("kernel", WRONG.values(), ids=list(WRONG))
def test_a_wrong_kernel_is_found(kernel: Kernel) -> None:
    _, job = plan(kernel)
    assert any(run_batch(job, number)["wrong"] for number in range(BATCHES))


@pytest.mark.parametrize("kernel", RIGHT, ids=[f"{i}-{k.name}" for i, k in enumerate(RIGHT)])
def test_a_right_kernel_is_not_accused(kernel: Kernel) -> None:
    _, job = plan(kernel)
    for number in range(2):
        result = run_batch(job, number)
        assert result["wrong"] == []
        assert result["products"] == PRODUCTS
        assert not result["no_answers"]


@pytest.mark.parametrize("kernel", KINDS.values(), ids=list(KINDS))
def test_a_wrong_kernel_with_an_affine_or_sparse_side_is_found(kernel: AnyKernel) -> None:
    _, job = plan(kernel)
    assert any(settle_batches(job, [run_batch(job, number)])[1][0]["wrong"] for number in range(6))


@pytest.mark.parametrize("kernel", RIGHT_KINDS, ids=[f"{i}-{k.name}" for i, k in enumerate(RIGHT_KINDS)])
def test_a_right_kernel_with_an_affine_or_sparse_side_is_not_accused(kernel: AnyKernel) -> None:
    _, job = plan(kernel)
    results = [run_batch(job, number) for number in range(3)]
    assert [r["no_answers"] for r in results] == [{}] * 3
    assert [r["wrong"] for r in settle_batches(job, results)[1]] == [[]] * 3


@cache
def campaign(name: str, batches: int = 3) -> Campaign:
    return fuzz(KernelTarget((WRONG | KINDS)[name]), Settings(seed=3, batches=batches))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("next block's scale, b", "the scale of the next block of b is used, the first one's for the last"),
        ("last k dropped, a", "the last k is dropped"),
        ("epilogue: bias of next", "the bias of the next column is added"),
        ("no tensor scale of a", "the tensor scale of a is ignored"),
        ("zero point one too large", "the zero points of b are one too large"),
        ("biases ignored", "the offsets of b are ignored"),
        ("scale of the next group", "the scale of the next group of b is used, the first one's for the last"),
        ("the two kept exchanged", "the two kept of each group of b are exchanged"),
    ],
)
def test_a_cause_is_named_and_shrunk(name: str, words: str) -> None:
    found = campaign(name)
    assert found.report.exit_code == 1
    first = found.products[0]
    assert first.words == words
    assert first.depends is Dependence.NOTHING
    assert first.nonzero <= 2
    assert first.stored.case.a.shape[0] == 1 or "column" in words
    assert {r.verdict for r in found.report.requirements} == {Verdict.PASS, Verdict.FAIL}


def test_one_of_several_contracts_that_fit_may_be_the_target_s() -> None:
    """Which one it is only a product tells that rounds otherwise: nothing is wrong that one of them allows in all batches."""
    bare = replace(plan(next(k for k in RIGHT_KINDS if k.name == "bias, float16"))[1], contract_name="float16-fma")
    # Two batches in which the other contract shows.
    first, second = [n for n in range(20) if run_batch(bare, n)["wrong"]][:2]
    wrong = [run_batch(bare, number) for number in (first, second)]
    assert [r["doubtful"] for r in wrong] == [[], []]
    job = replace(bare, rival_names=("float16", "bfloat16"))
    results = [run_batch(job, number) for number in (first, second)]
    assert [(r["wrong"], r["failing"]) for r in results] == [([], 0)] * 2
    assert all("float16" in r["rivals"] and r["doubtful"] for r in results)
    settled, same = settle_batches(job, results)
    assert (settled.contract_name, same) == ("float16", results)
    # A batch that no contract allows brings back what the others doubted.
    _, both = settle_batches(job, [results[0], {**wrong[1], "rivals": []}])
    for name in ("wrong", "failing", "wrong_outputs", "topics"):
        assert [r[name] for r in both] == [r[name] for r in wrong]


def test_a_contract_is_read_with_the_sides_that_it_is_of() -> None:
    """float16 of an affine side rounds each operation; of others numbers are rounded once."""
    affine, plain = plan(next(k for k in RIGHT_KINDS if k.name == "bias, float16"))[1], plan(RIGHT[0])[1]
    assert affine.contract == OperandContract(affine="float16")
    assert replace(plain, contract_name="float16").contract == OperandContract(held=Contract.FLOAT16)


def test_what_earlier_calls_leave_is_said() -> None:
    found = campaign("accumulator not cleared")
    assert {f.depends for f in found.products} & {Dependence.LAST_CALL, Dependence.EARLIER_CALLS}


@pytest.mark.parametrize(
    ("name", "found"),
    [("float16 additions, not declared", "float16"), ("13 bits below the largest exponent, not declared", "fused-f13-32")],
)
def test_another_class_is_a_deviation(name: str, found: str) -> None:
    report = campaign(name).report
    bad = [r for r in report.requirements if r.verdict not in GOOD]
    assert {(r.verdict, r.explained_by) for r in bad} == {(Verdict.DEVIATION, found)}


def test_a_class_may_be_requested() -> None:
    kernel = WRONG["float16 additions, not declared"]
    report = fuzz(KernelTarget(kernel), Settings(seed=3, batches=4, accumulator="float16")).report
    assert report.exit_code == 0
    assert (report.formats[0].judged_against, report.formats[0].chosen) == ("float16 sums", "asked")


def test_every_report_form_shows_it(tmp_path: Path) -> None:
    report = campaign("next block's scale, b").report
    again = read_report(json.loads(report.to_json()))
    assert [r.id for r in again.requirements] == [r.id for r in report.requirements]
    totals = report.details["totals"]["mxfp8_e4m3@mxfp4"]
    assert totals["products"] == 3 * PRODUCTS
    assert 0 < totals["certain"] <= totals["outputs"]
    assert sum(n for n, _ in totals["topics"].values()) == totals["products"]
    assert report.details["product_coverage"]["mxfp8_e4m3@mxfp4"]["codes of b"] == [16, 16]
    for render in (render_html, render_junit):
        assert b"fuzz/mxfp8_e4m3@mxfp4/identity" in render([again.as_dict()])


# The same again.


def test_the_same_seed_gives_the_same_products_and_another_others() -> None:
    session, job = plan(RIGHT[0])
    one, again, other = (
        [case.a.as_data()[2].tobytes() for case in draw_products(j, session.capabilities, 1)] for j in (job, job, replace(job, seed=job.seed + 1))
    )  # fmt: skip
    assert one == again != other


def test_a_campaign_goes_on_from_its_state(tmp_path: Path) -> None:
    state, target = tmp_path / "state", "numpy-products-float32"
    fuzz(target, Settings(seed=1, batches=1, products=("mxfp4@mxfp4",)), state_file=state, in_process=True)
    again = fuzz(target, Settings(seed=1, batches=3, products=("mxfp4@mxfp4",)), state_file=state, in_process=True).report
    whole = fuzz(target, Settings(seed=1, batches=3, products=("mxfp4@mxfp4",)), in_process=True).report
    assert again.environment["campaign"]["kept"] == 1
    assert again.details["totals"] == whole.details["totals"]
    assert [(r.id, r.verdict, r.cases) for r in again.requirements] == [(r.id, r.verdict, r.cases) for r in whole.requirements]
    with ThreadPoolExecutor(2) as pool:
        together = fuzz(target, Settings(seed=1, batches=3, products=("mxfp4@mxfp4",)), pool=pool, jobs=2, in_process=True).report
    assert together.details["totals"] == whole.details["totals"]


def test_findings_replay_and_are_explained(tmp_path: Path) -> None:
    found = campaign("next block's scale, b")
    (path,) = save(tmp_path, found.products)
    assert is_products(read_json(path))
    wrong = replay(path, open_target(KernelTarget(WRONG["next block's scale, b"])))
    right = replay(path, open_target(KernelTarget(replace(RIGHT[0], product=("mxfp8_e4m3", "mxfp4/nibble-low+128x4")))))
    assert {r.verdict for r in wrong} == {"differs"}
    assert {r.verdict for r in right} == {"right"}
    done = CliRunner().invoke(main, ["explain", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "wrong, off by" in done.output


# What cannot be.


class Raising:
    NAME, VERSION, OPERANDS = "raising", "1", {"a": "mxfp4", "b": "mxfp4"}

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        if a.shape[0] > 8:
            raise RuntimeError("no more than eight rows")
        raise NotImplementedError


def test_calls_without_an_answer_are_reported() -> None:
    report = fuzz(Raising(), Settings(seed=1, batches=1)).report
    answers = next(r for r in report.requirements if r.topic == "answers")
    assert answers.verdict is Verdict.ERROR
    assert "no more than eight rows" in answers.note


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(products=("mxfp4@mxfp8",)), "has no product 'mxfp4@mxfp8'; it has mxfp8_e4m3@mxfp4"),
        (Settings(accumulator="float8"), "unknown accumulator 'float8'; known are float32-nearest"),
        (Settings(profile="mx-floor"), "nothing that can be fuzzed"),
    ],
)
def test_what_there_is_not_is_refused(settings: Settings, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fuzz(KernelTarget(RIGHT[0]), settings)


def test_no_product_where_there_is_no_matmul() -> None:
    with pytest.raises(ValueError, match="has no matmul; --product is for targets with one"):
        fuzz("ml_dtypes", Settings(products=("mxfp4@mxfp4",)))


# What is drawn.

DRAWN = [
    ("mxfp8_e4m3", "mxfp4"), ("mxfp8_e5m2", "mxint8"), NVFP4, ("nvfp4", "mxfp4"), ("mxfp6_e3m2", "bfloat16"), ("float16", "nvfp4"),
    ("float32/transposed", "float16"), ("float16", "int4-g32-bias-float16"), ("int8-g32-zero-float16", "bfloat16"),
    ("float16", "int3-g64-bias-float16"), ("float32", "int2-g16-zero-float16-2to4"), SPARSE, ("nvfp4", "nvfp4-4to8"),
]  # fmt: skip


@pytest.mark.parametrize("contract", [Contract.EXACT, Contract.FLOAT16])
@pytest.mark.parametrize("product", DRAWN, ids=lambda p: "@".join(p))
def test_numbers_are_such_as_no_legitimate_kernel_treats_otherwise(product: tuple[str, str], contract: Contract) -> None:
    """No number is subnormal in float32 but those of the operands' own formats, none beyond it; sizes fit what is declared."""
    target = KernelTarget(Kernel(name="drawn", product=product))
    session = open_target(target)
    capabilities: Capabilities = replace(session.capabilities, product_shapes=(2, 3, 96))
    job = ProductJob(
        target=None, text=f"{product[0]} @ {product[1]}", fmt="x", class_name="float32", contract_name=contract.value, seed=seed()
    )
    sizes = find_sizes(job.product, capabilities.product_shapes)
    wanted, topics = {"identity", "shape", "interval", "sum"}, set()
    # Which topics a batch has is the seed's choice.
    for number in range(60):
        if number >= 6 and wanted <= topics:
            break
        for case in draw_products(job, capabilities, number):
            topics.add(case.topic)
            (m, k), n = case.a.shape, case.b.shape[0]
            assert (m % sizes.m, n % sizes.n, k % sizes.k) == (0, 0, 0)
            factors = [make_factor(x) for x in (case.a, case.b)]
            with np.errstate(all="ignore"):
                for f in factors:
                    magnitudes = np.abs(f.values[np.isfinite(f.values) & (f.values != 0)])
                    assert magnitudes.min(initial=1) >= 2.0**-126
                    assert magnitudes.max(initial=0) < 2.0**128
                products = np.abs(factors[0].values[:, None] * factors[1].values[None])
            products = products[np.isfinite(products) & (products != 0)]
            assert products.min(initial=1) >= 2.0**-126
            assert products.max(initial=0) < 2.0**120
    assert wanted <= topics
