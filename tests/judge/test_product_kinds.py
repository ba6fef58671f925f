"""Products with affine and sparse sides: right kernels pass whatever is left open, wrong ones fail and are named."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from mxspec import dot
from mxspec.affine import Offset, dequantize, get_affine
from mxspec.dot import ACCUMULATORS, EXACTLY, OperandContract
from mxspec.layouts import Part, list_layouts
from mxspec.sparsity import KEPT
from mxspec_conformance import Report, check
from mxspec_conformance.identification.products import identify_product
from mxspec_conformance.judge.products.cases import ProductCase, list_cases
from mxspec_conformance.judge.products.draw import make_writer
from mxspec_conformance.judge.products.editing import clear_stretch, cut_length, find_used, take_rows
from mxspec_conformance.judge.products.reference import allow, list_contracts, make_factor, refer_case
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.laying_out import lay_out
from mxspec_conformance.targets.operands import parse_operand, parse_product, read_numbers
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.products.kernels import KernelTarget
from mxspec_lab.products.kinds import KindKernel
from mxspec_lab.products.kinds_right import RIGHT_KINDS
from mxspec_lab.products.kinds_wrong import WRONG_KINDS

from tests.witnesses import assert_wrong

GOOD = (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.OPEN)
SPECS = (
    "int4-g32-bias-float16", "int4-g32-zero-float16", "int8-g16-zero-bfloat16", "int8-g64-bias-float32", "int1-g32-bias-float16",
    "int2-g32-zero-float32", "int3-g32-bias-bfloat16", "int4-g32-zero-float16/awq+awq-zeros", "int4-g32-zero-float16/gptq+gptq-v1-zeros",
    "mxfp4-2to4", "mxfp8_e4m3-2to4", "nvfp4-4to8", "float16-2to4", "bfloat16-2to4", "int4-g32-bias-float16-2to4", "int4-g32-zero-float16-4to8",
)  # fmt: skip
#: Formats of which each layout of codes holds one.
LAID_OUT = tuple(f"int{bits}-g32-zero-float16" for bits in (1, 2, 3, 4, 8))


@cache
def judge(kernel: KindKernel) -> Report:
    return check(KernelTarget(kernel))


def find_wrong(name: str) -> KindKernel:
    return next(k for k in WRONG_KINDS if k.name == name)


def cases_of(product: str) -> list[ProductCase]:
    given = KernelTarget(RIGHT_KINDS[0])
    given.OPERANDS = product  # type: ignore[assignment]
    capabilities = InProcessSession(given, "t").capabilities
    return list_cases(parse_product(product), capabilities, ACCUMULATORS["float32"])


@pytest.mark.parametrize("kernel", RIGHT_KINDS, ids=[f"{i}-{k.name}" for i, k in enumerate(RIGHT_KINDS)])
def test_right_kernels_pass(kernel: KindKernel) -> None:
    report = judge(kernel)
    assert {r.topic: r.verdict for r in report.requirements if r.verdict not in GOOD} == {}
    assert report.exit_code == 0
    assert len(report.requirements) >= 12


@pytest.mark.share(60)
@pytest.mark.parametrize("kernel", WRONG_KINDS, ids=[k.name for k in WRONG_KINDS])
def test_wrong_kernels_fail(kernel: KindKernel) -> None:
    """Each by its witness alone; what the whole report says of some is tested below."""
    assert_wrong(kernel)


#: Wrong kernel -> what the report says of it.
NAMED = {
    "zero point one too large": "the zero points of b are one too large",
    "bias subtracted": "the biases of b are subtracted",
    "bias of the next group": "the offset of the next group of b is used, the first one's for the last",
    "biases ignored": "the offsets of b are ignored",
    "scale of the next group": "the scale of the next group of b is used, the first one's for the last",
    "groups twice as long": "groups of b are taken as twice as long",
    "float16 scales read as bfloat16": "the scales of b are read as the other 16-bit float",
    "nibbles exchanged": "the two nibbles of a byte of b are swapped",
    "AWQ's order not undone": "eight rows of b's codes are taken in AWQ's order",
    "codes signed": "the codes of b are read as two's complement",
    "GPTQ v1 zeros taken as v2": "the zero points of b are one too small",
    "bias to whole steps": "the biases of b are rounded to whole steps of the scale",
    "metadata of the next group": "the metadata of the next group of b is used, the first one's for the last",
    "nibbles of a byte of metadata exchanged": "the two nibbles of a byte of b's metadata are swapped",
    "the two kept exchanged": "the two kept of each group of b are exchanged",
    "places from the other end": "places in groups of b are counted from the other end",
    "kept at the first two places": "the kept of b stand in the first two places of each group, whatever metadata say",
    "metadata ignored": "the kept of b are taken as the first half of k, and metadata are ignored",
    "scales by kept places": "scales of b are those of kept places, not of dense ones",
    "dropped codes count with their bias": "what was dropped of b counts with its group's offset",
    # Both sides are 4-bit blocks here: on which one, no sum tells.
    "the numbers of each pair exchanged": "the two nibbles of a byte are swapped on one side",
    "the numbers of each pair exchanged, of floats": "the numbers of each pair of b are exchanged",
}


@pytest.mark.parametrize("name", NAMED)
def test_mistakes_are_named(name: str) -> None:
    report = judge(find_wrong(name))
    assert report.formats[0].deviations == [NAMED[name]]
    assert any(r.note == f"as if {NAMED[name]}" for r in report.requirements)


def test_a_coarse_class_excuses_no_offset_and_no_scale() -> None:
    report = judge(find_wrong("scales of groups beyond the fourth"))
    assert {r.verdict for r in report.requirements if r.verdict not in GOOD} == {Verdict.FAIL}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bias, float16, not declared", "by the affine contract float16"), ("bias, fma in float16", "by the affine contract float16-fma"),
        ("zero, products in float16", "by the affine contract float16-products"), ("bias, group by group", None),
    ],
)  # fmt: skip
def test_the_contract_is_found(name: str, words: str | None) -> None:
    (found,) = judge(next(k for k in RIGHT_KINDS if k.name == name)).formats
    assert found.behaviour.get("numbers before they are multiplied") == words


def test_the_smallest_product_is_shown_with_what_is_stored() -> None:
    report = judge(find_wrong("bias subtracted"))
    first = next(r.first for r in report.requirements if r.topic == "identity")
    assert first is not None
    assert first.given["m x n x k"] == "1 x 1 x 32"
    assert first.given["b codes"].count("k") == 1
    assert {"b scales", "b biases"} <= set(first.given)
    sparse = next(r.first for r in judge(find_wrong("metadata ignored")).requirements if r.topic == "metadata")
    assert sparse is not None
    assert sparse.given["b metadata"].startswith("group 0:")


@pytest.mark.parametrize("spec", SPECS)
def test_every_side_has_cases_of_all_topics_that_are_certain(spec: str) -> None:
    cases = cases_of(f"bfloat16 @ {spec}")
    topics = {c.topic for c in cases}
    assert {"identity", "code", "sum", "block-scale", "shape", "interval", "nan", "state", "memory"} <= topics
    assert ("metadata" in topics) == ("to" in spec.partition("/")[0].rpartition("-")[2])
    for case in cases:
        if case.topic in ("identity", "code", "sum", "block-scale", "metadata", "shape"):
            decided = allow(refer_case(case), case, ACCUMULATORS["float32"]).decided
            assert decided.all(), case.label
        assert read_numbers(case.b.as_data()).spec == case.b.spec


@pytest.mark.parametrize("spec", [s for s in SPECS if s.startswith("int")])
def test_designs_do_not_depend_on_the_contract(spec: str) -> None:
    """What is certain has one result whatever a kernel rounds numbers to; only the ends of scales and ordinary numbers differ."""
    product = parse_product(f"bfloat16 @ {spec}")
    for case in cases_of(product.text):
        if case.topic in ("scale-code", "interval", "inf") or "beyond float16" in case.label:
            continue
        exact = refer_case(case).sums
        for contract in list_contracts(product):
            sums = refer_case(case, contract).sums
            assert ((sums.nearest == exact.nearest) | (exact.special != 0)).all(), (case.label, contract.text)
            assert (sums.special == exact.special).all(), (case.label, contract.text)


@pytest.mark.parametrize("spec", SPECS)
def test_offsets_metadata_and_codes_differ_where_they_may(spec: str) -> None:
    """Designs leave no part of a side constant: what is read from another place shows."""
    case = next(c for c in cases_of(f"bfloat16 @ {spec}") if c.label.startswith("reciprocal block scales 1"))
    assert len(np.unique(case.b.held)) > 1
    for part in (case.b.scales, case.b.offsets if "int1" not in spec else None, case.b.metadata):
        if part is not None:
            assert (part[:, 1:] != part[:, :-1]).any()
            assert (part[1:] != part[:-1]).any() or part is case.b.scales
    if case.b.metadata is not None:
        assert set(np.unique(case.b.metadata)) == set(KEPT)


@pytest.mark.parametrize("spec", SPECS)
def test_sides_are_made_smaller_without_other_numbers(spec: str) -> None:
    numbers = next(c for c in cases_of(f"bfloat16 @ {spec}") if c.label.startswith("integers 0")).b
    values = make_factor(numbers).odd
    rows = np.array([2, 0])
    assert (make_factor(take_rows(numbers, rows)).odd == values[rows]).all()
    k = numbers.shape[1] // 2 // numbers.spec.group * numbers.spec.group if numbers.spec.group > 1 else 32
    assert (make_factor(cut_length(numbers, k)).odd == values[:, :k]).all()
    cleared = make_factor(clear_stretch(numbers, 5, 9)).odd
    keeps = "bias" in spec
    assert (cleared[:, 5:14] == 0).all() or keeps
    rest = np.delete(np.arange(numbers.shape[1]), range(5, 14))
    assert (cleared[:, rest] == values[:, rest]).all()
    assert (find_used(numbers) == (values != 0)).all()


def test_sparse_rows_of_ones_are_multiplied_where_they_are_kept() -> None:
    writer = make_writer(parse_operand("mxfp4-2to4"), np.random.default_rng(0))
    hot = writer.one_hot(64, 64, np.arange(64))
    assert (make_factor(hot).values == np.eye(64)).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mxfp8_e4m3-4to8", "kept 2:4"), ("float16-4to8", "kept 2:4"), ("int4-g6-bias-float16-2to4", "group = 6"),
        ("int4-g32-bias-float16/awq-zeros", "no zero points"), ("int8-g32-zero-float16/awq-zeros", "zero points of 4 bits"),
        ("int4-g32-bias-float16/128x4", "scales of one byte"), ("int8-g32-bias-float16/awq", "codes of 4 bits"),
        ("int3-g8-bias-float16/words", "whole 32-bit words"), ("mxfp4/metal-marlin-metadata", "is not sparse"),
        ("mxfp4-2to4/ggml-mxfp4", "next to their scales"), ("float16-2to4/nibble-low", "are plain"), ("mxfp4/words", "which is none"),
        ("int4-g32-zero-float16/awq+gptq", "says twice"), ("int9-g32-bias-float16", "neither a block format"), ("int4-g1024-bias-float16", "up to groups of 512"),
        ("mxfp4-2to5", "neither a block format"), ("-2to4", "neither a block format"), ("int4-g64-bias-float16/ggml-mxfp4", "scales of one byte"),
    ],
)  # fmt: skip
def test_words_that_do_not_fit_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_operand(text)
    target = KernelTarget(RIGHT_KINDS[0])
    target.OPERANDS = {"a": "float16", "b": text}
    with pytest.raises(TargetError, match="OPERANDS"):
        check(target)


@pytest.mark.parametrize("text", [*SPECS, "bfloat16", "mxfp8_e4m3/128x4", "mxfp4/nibble-low+128x4", "nvfp4/transposed", "mxfp4/ggml-mxfp4", "int4-g128-zero-float16/gptq+gptq-v2-zeros+transposed", "int4-g64-bias-float16/words",
                                  "mxfp4-2to4/metal-marlin-values+metal-marlin-metadata", "int4-g32-bias-float16/transposed", "float16-2to4/cutlass3-e-16"])  # fmt: skip
def test_texts_are_read_back_and_laid_out(text: str) -> None:
    assert parse_operand(text).text == text
    for case in cases_of(f"float32 @ {text}")[::9]:
        parts = lay_out(case.b)
        assert ("offsets" in parts) == text.startswith("int")
        assert all(part.size for part in parts.values())


@pytest.mark.parametrize("layout", [x.name for x in list_layouts() if {f.part for f in x.fields} & {Part.CODES, Part.ZEROS, Part.METADATA}])
def test_every_layout_is_taken_or_refused_in_words(layout: str) -> None:
    taken = 0
    for fmt in (*LAID_OUT, "mxfp4-2to4", "mxfp6_e2m3-2to4", "float16-2to4"):
        try:
            cases = cases_of(f"bfloat16 @ {fmt}/{layout}")
        except TargetError:
            continue
        taken += 1
        for case in cases[::12]:
            assert all(part.size for part in lay_out(case.b).values())
    assert taken or "ggml" in layout or "quark" in layout


def test_a_declared_contract_is_asked_for() -> None:
    kernel = find_wrong("float16 numbers, declared as float32")
    assert judge(kernel).exit_code == 1
    with pytest.raises(TargetError, match="CONTRACT names"):
        check(KernelTarget(KindKernel(name="t", contract="float8")))


def test_a_right_kernel_is_not_held_to_what_the_order_of_operations_decides() -> None:
    """An infinity times a code and times its zero point cancel where they are multiplied apart: neither is asked. What is added may be
    infinite."""

    def list_labels(text: str) -> list[str]:
        return [c.label for c in cases_of(text) if c.topic == "inf" and not c.options and "the end of" not in c.label]

    assert list_labels("float16 @ int4-g32-zero-float16") == []
    labels = list_labels("float16 @ int4-g32-bias-float16")
    once = ["a positive Inf in a", "an infinite scale in b", "an infinite bias in b", "a negative Inf in a"]
    of_shapes = [f"{label}, 17 x 20" for label in once[:3]]
    assert sorted(labels) == sorted([*once, *of_shapes, *(label + out for out in (", bfloat16", ", float16") for label in once)])


def test_nothing_that_was_dropped_decides_a_special_row() -> None:
    """Whether a kernel multiplies zeros where nothing is kept is left open: NaN and Inf stand where all rows keep a number."""
    affine = "int4-g16-bias-float16-2to4 @ int8-g16-bias-bfloat16-2to4"
    for product in ("float16 @ mxfp4-2to4", "mxfp8_e5m2-2to4 @ float16-2to4", "nvfp4 @ nvfp4-4to8", affine):
        for case in cases_of(product):
            if case.topic not in ("nan", "inf"):
                continue
            kept = refer_case(case).sums.special
            sides = [make_factor(x) for x in (case.a, case.b)]
            dense = dot.sum_products(*(dot.exact_factor(x.odd) for x in sides)).special
            assert (kept == dense).all(), case.label


def test_identify_names_the_contract_of_numbers() -> None:
    session = InProcessSession(KernelTarget(next(k for k in RIGHT_KINDS if k.name == "bias, pairs")), "t")
    found = identify_product(session, parse_product("float16 @ int4-g32-bias-float16"))
    assert found.model == "float32-nearest, pairs, each sum nearest even, numbers by the affine contract float32"
    sparse = InProcessSession(KernelTarget(next(k for k in RIGHT_KINDS if k.name == "2:4 of float16")), "t")
    assert identify_product(sparse, parse_product("float16 @ float16-2to4")).compared


class Refusing(KernelTarget):
    """Two products, one of which the kernel does not offer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.OPERANDS = [{"a": "float16", "b": "int4-g32-bias-float16"}, {"a": "float16", "b": "int4-g32-zero-float16"}]  # type: ignore[assignment]
        inner = self.matmul

        def matmul(a: Any, b: Any, out_dtype: str) -> Any:
            if b.zeros is not None:
                raise NotImplementedError("no zero points here")
            return inner(a, b, out_dtype)

        self.matmul = matmul  # type: ignore[method-assign]


def test_what_is_not_offered_is_no_failure() -> None:
    report = check(Refusing(RIGHT_KINDS[0]))
    assert report.exit_code == 0
    assert {r.verdict for r in report.requirements if "zero" in r.format} == {Verdict.UNSUPPORTED}


def test_numbers_are_those_of_the_model() -> None:
    """One arithmetic: the judge's numbers are mxspec.affine's."""
    case = next(c for c in cases_of("float16 @ int4-g32-bias-float16") if c.label.startswith("ordinary numbers"))
    fmt = get_affine("int4-g32-bias-float16")
    assert fmt.offset is Offset.BIAS
    assert case.b.codes is not None
    values = dequantize(case.b.codes, case.b.scales, case.b.offsets, fmt, contract="float16")  # type: ignore[arg-type]
    assert (make_factor(case.b, OperandContract(affine="float16")).values == values.astype(np.float64)).all()
    assert make_factor(case.b, EXACTLY).rest is not None
