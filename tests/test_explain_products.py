"""One output of a product explained: its steps are the simulation's, its verdict the judge's, its lines fit a terminal."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import affine, dot, quantize, sparsity
from mxspec.dot import ACCUMULATORS, EXACTLY, Contract, OperandContract, Why
from mxspec_conformance import check
from mxspec_conformance.cli.explain_product import ProductOptions, explain_stored, find_products
from mxspec_conformance.cli.main import main
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.draw import make_writer
from mxspec_conformance.judge.products.reference import allow, make_sides, refer_case
from mxspec_conformance.judge.products.stored import MAX_BYTES, StoredProduct, read_product, store_product
from mxspec_conformance.render.product import Per, number_cell
from mxspec_conformance.results.report import read_report
from mxspec_conformance.targets.operands import Numbers, parse_operand
from mxspec_lab.products.kernels import Kernel, KernelTarget
from mxspec_lab.products.wrong import list_wrong


def numbers(x: Any, text: str) -> Numbers:
    spec = parse_operand(text)
    if spec.kind.value == "plain":
        return Numbers(spec=spec, values=x.astype(dot.rounding.DTYPES[spec.format]))  # type: ignore[attr-defined]
    t = quantize(x.astype(np.float32), spec.format)
    return Numbers(spec=spec, codes=t.codes, scales=t.scales)


def make_case(a: str, b: str, k: int = 96, **more: Any) -> ProductCase:
    draw = np.random.default_rng(5)
    x, w = draw.standard_normal((3, k)), draw.standard_normal((4, k)) * np.exp2(draw.integers(-6, 7, (4, k)))
    return ProductCase(topic="interval", label="drawn", a=numbers(x, a), b=numbers(w, b), **more)


PAIRS = [("mxfp8_e4m3", "mxfp8_e5m2"), ("mxfp4/nibble-low", "bfloat16"), ("nvfp4", "mxint8"), ("float32", "float32")]


@pytest.mark.parametrize("name", ACCUMULATORS)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_steps_are_those_of_the_simulation(a: str, b: str, name: str) -> None:
    """The same numbers as `simulate_product` and `allow_outputs`, output by output, and every loss is reported."""
    case = make_case(a, b, out_dtype="bfloat16")
    left, right = make_sides(case)
    unit = ACCUMULATORS[name]
    with np.errstate(all="ignore"):
        whole = dot.simulate_product(left, right, unit)
    allowed = allow(refer_case(case), case, unit)
    for row, column in ((0, 0), (2, 3)):
        with np.errstate(all="ignore"):
            e = dot.explain_output(left, right, row=row, column=column, accumulator=name, out_dtype=case.out_dtype)
        assert np.array_equal(e.total, whole[row, column], equal_nan=True)
        assert (e.low, e.high) == (allowed.low[row, column], allowed.high[row, column])
        assert (e.why is Why.CERTAIN) == bool(allowed.decided[row, column])
        assert [t.k for s in e.steps for t in s.terms] == list(range(96))
        if np.isfinite(e.total):
            promoted = sum((Fraction(s.before) for s in e.steps if s.start), Fraction()) if unit.promoted else None
            exact = sum((Fraction(t.product) for s in e.steps for t in s.terms), Fraction())
            if promoted is None:
                assert exact - sum((s.lost for s in e.steps), Fraction()) == Fraction(e.total)


def test_what_is_cut_is_said_by_place() -> None:
    a = dot.plain_factor(np.float32([[2.0**14, 1.0, 3.0]]))
    b = dot.plain_factor(np.float32([[2.0**14, 2.0**16, 5.0]]))
    e = dot.explain_output(a, b, accumulator="fused-f13-32")
    (step,) = e.steps
    assert (step.top, step.place, e.bits_needed, e.accumulator.sure_bits) == (28, 15, 29, 14)
    assert [t.kept for t in step.terms] == [2.0**28, 2.0**16, 0.0]
    assert (float(step.lost), e.total, e.exact_sum, e.is_exact) == (15.0, 2.0**28 + 2.0**16, 2.0**28 + 2.0**16 + 15, True)
    assert e.why is Why.UNBOUNDED or e.low < e.exact_sum < e.high


def test_every_reason_has_an_example() -> None:
    one = dot.plain_factor(np.float32([[1, 1]]))
    wide = dot.plain_factor(np.float32([[2.0**30, 1, 3]]))
    ones = dot.plain_factor(np.float32([[1, 1, 1]]))
    nan = dot.plain_factor(np.float32([[np.nan, 1]]))
    far = dot.plain_factor(np.float32([[2.0**126, 2.0**126]]))
    two = dot.plain_factor(np.float32([[2, -2]]))
    assert dot.explain_output(one, one).why is Why.CERTAIN
    assert dot.explain_output(wide, ones).why is Why.INTERVAL
    assert dot.explain_output(wide, ones, out_dtype="bfloat16").why is Why.ONE_OUTPUT
    assert dot.explain_output(nan, one, returned=1.0).accepted is False
    assert dot.explain_output(nan, one, returned=float("nan")).why is Why.SPECIAL
    assert dot.explain_output(far, two).why is Why.UNBOUNDED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"row": 1}, "row = 1 is none of the product's: it has rows 0 to 0"),
        ({"column": -1}, "column = -1 is none"),
        ({"accumulator": "float8"}, "unknown accumulator 'float8'; known are float32-nearest"),
        ({"out_dtype": "float64"}, "out_dtype = 'float64'; allowed are float32, bfloat16, float16"),
    ],
)
def test_what_there_is_not_is_refused(arguments: dict[str, Any], words: str) -> None:
    one = dot.plain_factor(np.float32([[1, 1]]))
    with pytest.raises(ValueError, match=words):
        dot.explain_output(one, one, **arguments)


def test_an_empty_sum_is_zero() -> None:
    empty = dot.plain_factor(np.zeros((1, 0), np.float32))
    assert dot.explain_output(empty, empty).total == 0
    assert dot.explain_output(empty, empty, accumulator="fused-f13-32").why is Why.CERTAIN


# Files and the command.


def explain(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["explain", *arguments], catch_exceptions=False)
    return done.exit_code, done.output


EPILOGUE = {"alpha": 0.3, "beta": -2.0, "c": np.arange(12, dtype=np.float32).reshape(3, 4), "bias": np.arange(4, dtype=np.float32)}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_a_stored_product_comes_back(a: str, b: str) -> None:
    case = make_case(a, b, options={k: float(np.float32(v)) if isinstance(v, float) else v for k, v in EPILOGUE.items()})
    if a == "nvfp4":
        case = replace(case, a=replace(case.a, tensor_scale=float(np.float32(0.3712))))
    stored = StoredProduct(
        case=case, place=(2, 1), accumulator="fused-f25-32", contract=OperandContract(held=Contract.FLOAT32), returned=np.float32([1.5])
    )
    document = json.loads(json.dumps(store_product(stored)))
    again = read_product(document, "it")
    assert store_product(again) == document
    assert again.place == (2, 1)
    assert again.case.a.tensor_scale == case.a.tensor_scale
    for one, other in ((case.a, again.case.a), (case.b, again.case.b)):
        assert all(np.array_equal(x, y) for x, y in zip(one.as_data(), other.as_data(), strict=True) if isinstance(x, np.ndarray))


def test_operands_that_are_too_large_for_a_result_are_left_out() -> None:
    side = Numbers(spec=parse_operand("float32"), values=np.zeros((1, MAX_BYTES // 4), np.float32))
    case = ProductCase(topic="sum", label="large", a=side, b=side)
    stored = StoredProduct(case=case, place=(0, 0), accumulator="float32", contract=OperandContract(held=Contract.EXACT))
    assert store_product(stored) is None


def damage(document: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    return {**document, where: value}


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("schema", "x", "is no product"),
        ("out_dtype", "float64", "out_dtype is 'float64'; allowed are float32"),
        ("accumulator", ["float32"], "accumulator is"),
        ("output", [0, 9], r"output \[0, 9\] is none of a product of 3 x 4"),
        ("output", [0], "output"),
        ("output", None, "not whole"),
        ("a", ["mxfp4"], "a side is a list of 7 parts"),
        ("a", ["mxfp9", *[None] * 6], "neither a block format"),
        ("options", {"gamma": {"float32": "3f800000"}}, "'gamma' is no option of matmul"),
        ("options", {"alpha": {"float32": "xx"}}, "not the eight hex digits"),
        ("options", {"c": {"float32": "3f800000"}}, "c is an array"),
        ("options", {"bias": {"dtype": "float32", "shape": [1], "hex": "00000000"}}, "bias has shape"),
        ("returned", {"dtype": "float32", "shape": [2], "hex": "0000000000000000"}, "one float32 is stored there"),
        ("contract", "float8", "float8"),
    ],
)
def test_a_file_that_is_no_product_is_one_message(where: str, value: Any, words: str) -> None:
    stored = StoredProduct(
        case=make_case("mxfp4", "mxfp4"), place=(0, 0), accumulator="float32", contract=OperandContract(held=Contract.EXACT)
    )
    document = store_product(stored)
    assert document is not None
    with pytest.raises(ValueError, match=words):
        read_product(damage(document, where, value), "it")


def test_a_result_is_explained(tmp_path: Path) -> None:
    """From what `check --json` writes: the operands, and the verdict of the judge."""
    kernel = next(k for k in list_wrong() if k.name == "last k dropped, b")
    report = check(KernelTarget(kernel), only="matmul/*/identity")
    path = tmp_path / "result.json"
    path.write_text(report.to_json())
    assert read_report(json.loads(report.to_json())).requirements[0].first == report.requirements[0].first
    code, text = explain(str(path))
    assert code == 0, text
    assert "mxfp8_e4m3 @ mxfp4/nibble-low+128x4, output [0, 0]" in text
    assert "returned      0 (00000000): wrong, off by" in text
    assert "127 38·" in text
    assert "every order of additions gives it" in text
    code, text = explain(str(path), "matmul/x/y")
    assert code == 2
    assert "has no product or block 'matmul/x/y'; it has matmul/mxfp8_e4m3@mxfp4/identity" in text
    code, text = explain(str(path), "--json", "--accumulator", "fused-f13-32")
    found = json.loads(text)
    assert (found["accepted"], found["accumulator"], found["why"], len(found["steps"])) == (False, "fused-f13-32", "certain", 4)


def test_a_result_without_a_wrong_product_says_so(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(check(KernelTarget(Kernel(name="right")), only="matmul/*/identity").to_json())
    code, text = explain(str(path))
    assert code == 2
    assert "holds no wrong product and no wrong block" in text
    assert "mxspec explain FORMAT VALUES" in text


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_the_wrong_block_of_a_result_is_explained_next_to_what_was_returned(fmt: str, tmp_path: Path) -> None:
    def quantize(x: Any, fmt: str, **scale: float) -> Any:
        given = {n: mxspec.TensorScale("decode", np.float32(v)) for n, v in scale.items()}
        t = mxspec.quantize(x, fmt, profile=mxspec.default_profile(fmt), convert=True, **given)
        return np.where(t.codes == 3, np.uint8(2), t.codes), t.scales

    def with_scale(x: Any, fmt: str, tensor_scale: float) -> Any:
        return quantize(x, fmt, tensor_scale=tensor_scale)

    path = tmp_path / "result.json"
    target = SimpleNamespace(NAME="t", FORMATS=[fmt], quantize=quantize if fmt == "mxfp4" else with_scale)
    report = check(target, formats=[fmt], quick=True, only=f"quantize/{fmt}/exact")
    path.write_text(report.to_json())
    first = report.requirements[0].first
    assert first is not None
    lane = next(lane for lane, code in first.returned["codes"].items() if code != first.expected["codes"][lane])
    code, text = explain(str(path), "--lane", lane.removeprefix("lane "))
    assert code == 0, text
    assert f"{fmt}, a block of" in text
    assert f"quantize/{fmt}/exact" in text
    assert f"{lane}: 02" in text
    assert "= 0011" in text  # what is right: code 3
    code, text = explain(str(path), "--json")
    stored = json.loads(text)
    assert stored["explanations"][0]["profile"] == report.formats[0].judged_against
    assert any(note.startswith("returned: scale") for note in stored["notes"])
    code, text = explain(str(path), "--column", "1")
    assert (code, "it takes --profile, --against, --lane and --json" in text) == (2, True)
    document = json.loads(path.read_text())
    document["requirements"][0]["first"]["steps"] = ["\x1b[31mred"]
    path.write_text(json.dumps(document))
    assert "\x1b" not in explain(str(path))[1]
    for spoiled in (
        {"formats": 3},
        {"requirements": [{"id": f"quantize/{fmt}/exact", "first": {"given": {"x": {"lane 99": "0x3f800000"}}}}]},
    ):
        path.write_text(json.dumps(document | spoiled))
        code, text = explain(str(path))
        assert (code, "holds no wrong product and no wrong block" in text) == (2, True)


def test_arrays_are_explained(tmp_path: Path) -> None:
    case = make_case("mxfp8_e4m3", "bfloat16")
    file, codes = tmp_path / "operands.npz", tmp_path / "codes.npy"
    assert case.b.values is not None
    arrays = {
        "a_scales": case.a.scales,
        "b": case.b.values.view(np.uint16),
        "bias": np.ones(4, np.float32),
        "returned": np.zeros((3, 4), np.float32),
    }
    np.savez(file, **arrays)  # type: ignore[arg-type]
    np.save(codes, case.a.codes)  # type: ignore[arg-type]
    command = ("mxfp8_e4m3 @ bfloat16", "--file", str(file), "--array", f"a_codes={codes}", "--row", "1", "--column", "3")
    code, text = explain(*command)
    assert code == 0, text
    assert "output [1, 3] in float32, k = 96" in text
    assert "plus bias 1 (3f800000)" in text
    code, text = explain(*command, "--accumulator", "fused-f25-16", "--per", "block")
    assert code == 0, text
    assert "block k" in text
    for wrong, words in (
        (command[:3], "a_codes is missing; an operand mxfp8_e4m3 has a_codes, a_scales"),
        ((*command, "--array", f"q={codes}"), "unknown array 'q'; known are"),
        ((*command, "--profile", "mx-floor"), "are of blocks"),
        (("mxfp8_e4m3 @ bfloat16",), "pass the operands"),
        ((*command[:-1], "4"), "column = 4 is none of the product's"),
        (("mxfp4", "1", "--accumulator", "float32"), "--accumulator is of products"),
        (("mxfp8_e4m3 @ float8", "--file", str(file)), "neither a block format nor a dtype"),
        (
            ("float32 @ bfloat16", "--file", str(file), "--array", f"a={codes}"),
            "unknown array 'a_scales'|a_values is uint8; float32 is needed",
        ),
    ):
        code, text = explain(*wrong)
        assert code == 2, text
        assert any(w in " ".join(text.split()) for w in words.split("|")), text


@pytest.mark.parametrize("per", Per)
@pytest.mark.parametrize("name", ["float32", "fused-f25-32", "fused-f13-32-promoted-128", "float16"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: "@".join(p))
def test_lines_fit_and_long_sums_are_folded(pair: tuple[str, str], name: str, per: Per) -> None:
    case = make_case(*pair, k=1024, out_dtype="float16", options=dict(EPILOGUE))
    stored = StoredProduct(
        case=case, place=(0, 3), accumulator=name, contract=OperandContract(held=Contract.EXACT), returned=np.float16([7])
    )
    with np.errstate(all="ignore"):
        _, lines = explain_stored(stored, ProductOptions(per=per))
        _, whole = explain_stored(stored, ProductOptions(per=per, whole=True))
    assert max(map(len, lines + whole)) <= 80
    assert len(lines) < 100
    if per is Per.K:
        assert any("…" in line for line in lines)
        assert len(whole) > 500


def test_nan_and_infinity_are_reported() -> None:
    case = make_case("float32", "float32")
    assert case.a.values is not None
    values = case.a.values.copy()
    values[0, 4], values[1, 5] = np.nan, np.inf
    case = replace(case, a=replace(case.a, values=values))
    for row, words in ((0, "NaN alone"), (1, "Inf alone")):
        for name in ("float32", "fused-f24-8"):
            stored = StoredProduct(
                case=case, place=(row, 0), accumulator=name, contract=OperandContract(held=Contract.EXACT), returned=np.float32([1])
            )
            with np.errstate(all="ignore"):
                _, lines = explain_stored(stored)
            text = "\n".join(lines)
            assert words in text
            assert "wrong" in text


@pytest.mark.parametrize(
    ("x", "cell"), [(0.0, "0"), (-0.5, "-0.5"), (2.0**-40, "2^-40"), (-3 * 2.0**-30, "-3*2^-30"), (1 / 3, "~0.3333"), (np.inf, "Inf")]
)
def test_numbers_are_exact_or_say_so(x: float, cell: str) -> None:
    assert number_cell(x) == cell


def test_a_file_of_several_products() -> None:
    stored = StoredProduct(
        case=make_case("mxfp4", "mxfp4"), place=(0, 0), accumulator="float32", contract=OperandContract(held=Contract.EXACT)
    )
    document = {"products": [store_product(stored), store_product(stored)]}
    assert list(find_products(document, "it")) == ["0", "1"]


#: Sides with offsets, whose numbers are sums of two parts, and sides that keep half of their numbers.
MIXED = (
    ("float16", "int4-g32-bias-float16"), ("int4-g32-zero-float16", "mxfp4"), ("int4-g32-bias-float16", "int2-g16-zero-float16"),
    ("mxfp4-2to4", "bfloat16"), ("nvfp4", "nvfp4-4to8"), ("float16", "int4-g32-bias-float16-2to4"), ("float16-2to4", "mxfp4-2to4"),
)  # fmt: skip


def make_mixed(a: str, b: str) -> ProductCase:
    draw = np.random.default_rng(5)
    sides = [make_writer(parse_operand(text), draw).quantized(draw.standard_normal((rows, 128))) for text, rows in ((a, 2), (b, 3))]
    return ProductCase(topic="interval", label="drawn", a=sides[0], b=sides[1])


@pytest.mark.parametrize("name", ["float32", "fused-f25-16", "fused-f13-32-promoted-128"])
@pytest.mark.parametrize("pair", MIXED, ids=lambda p: "@".join(p))
def test_affine_and_sparse_sides_are_explained(pair: tuple[str, str], name: str) -> None:
    case = make_mixed(*pair)
    with np.errstate(all="ignore"):
        factors = make_sides(case, EXACTLY)
        for row, column in ((0, 0), (1, 2)):
            e = dot.explain_output(*factors, row=row, column=column, accumulator=name)
            terms = [t for s in e.steps for t in s.terms]
            left, right = (
                [sum(Fraction(float(part[at, k])) for part in f.parts) for k in range(128)]
                for f, at in zip(factors, (row, column), strict=True)
            )
            assert sum(Fraction(t.product) for t in terms) == sum(x * y for x, y in zip(left, right, strict=True))
            assert e.low <= e.output <= e.high
            assert {t.k for t in terms} == set(range(128))
            for per in Per:
                stored = StoredProduct(case=case, place=(row, column), accumulator=name, contract=EXACTLY, returned=np.float32([7]))
                _, lines = explain_stored(stored, ProductOptions(per=per, whole=True))
                assert max(map(len, lines)) <= 80


def test_what_a_sparse_side_drops_meets_no_infinity() -> None:
    case = make_mixed("float16", "float16-2to4")
    assert case.a.values is not None
    values = np.ones_like(case.a.values)
    with np.errstate(all="ignore"):
        kept = make_sides(case, EXACTLY)[1].kept
        assert kept is not None
        dropped = int(np.flatnonzero(~kept[0])[0])
        values[0, dropped] = np.inf
        e = dot.explain_output(*make_sides(replace(case, a=replace(case.a, values=values)), EXACTLY))
    assert e.special is dot.Special.FINITE
    assert e.low <= e.output <= e.high


def test_the_page_shows_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[1] / "docs" / "products.md").read_text("utf-8")
    (source,) = (s for s in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "operands.npz" in s)
    (command,) = re.findall(r"^\$ mxspec explain (\".*--file operands\.npz.*)$", page, re.MULTILINE)
    shown = page.partition("From the last of its eight steps:\n\n```\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(source, "docs/products.md", "exec"), {})
    code, text = explain(*shlex.split(command))
    assert code == 0, text
    assert shown
    assert shown in text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "output [0, 0] in float32, k = 64"),
        ({"b_offsets": None}, "b_offsets is missing; an operand int4-g32-bias-bfloat16 has b_codes, b_scales, b_offsets"),
        ({"a_metadata": None}, "a_metadata is missing; an operand mxfp4-2to4 has a_codes, a_scales, a_metadata"),
        ({"b_codes": None}, "b_codes is missing"),
        ({"b_metadata": np.zeros((3, 16), np.uint8)}, "unknown array 'b_metadata'; an operand int4-g32-bias-bfloat16 has"),
        ({"b_tensor_scale": np.float32(2)}, "unknown array 'b_tensor_scale'"),
        ({"b_scales": np.ones((3, 2), np.float32)}, "b_scales is float32; bfloat16 is needed (or its bits as uint16)"),
        ({"b_codes": np.ones((3, 64), np.float32)}, "operand b: codes"),
        ({"a_metadata": np.full((2, 16), 5, np.uint8)}, "operand a: metadata hold 0x5"),
    ],
)  # fmt: skip
def test_arrays_of_affine_and_sparse_sides(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    t = affine.quantize(np.linspace(-1, 1, 192).astype(ml_dtypes.bfloat16).reshape(3, 64), bits=4, group=32)
    x = quantize(np.linspace(-4, 4, 128, dtype=np.float32).reshape(2, 64), "mxfp4")
    kept, metadata = sparsity.compress(sparsity.prune(x.codes))
    arrays = {
        "a_codes": kept, "a_metadata": metadata, "a_scales": x.scales, "b_codes": t.codes, "b_scales": t.scales.view(np.uint16),
        "b_offsets": t.offsets.view(np.uint16),
    }  # fmt: skip
    file = tmp_path / "operands.npz"
    np.savez(file, **{name: part for name, part in (arrays | changed).items() if part is not None})
    code, text = explain("mxfp4-2to4 @ int4-g32-bias-bfloat16", "--file", str(file))
    assert code == (0 if not changed else 2), text
    assert words in " ".join(text.split())


def test_a_recording_holds_products_as_a_result_does() -> None:
    name = "matmul/float16@int4-g128-zero-float16/sum"
    recorded = json.loads((Path(__file__).parents[1] / "reports/card/vllm-awq.json").read_text("ascii"))
    assert find_products(recorded, "r")[name].place == find_products(recorded["check"], "r")[name].place
