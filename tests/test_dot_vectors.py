"""The vectors of products: against rationals, against simulated accumulations of every class, and against wrong kernels."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from mxspec import dot
from mxspec.dot import ACCUMULATORS, Direction, Order
from mxspec.dot.rounding import OUTPUTS, round_floats
from mxspec.elements import decode_table
from mxspec.formats import BLOCKS, get_block
from mxspec_vectors import build_dot
from mxspec_vectors.build_dot import CERTAIN, CLASSES, DOT_FILES
from mxspec_vectors.cases import DotCase, DotOperand, load_dot_cases
from mxspec_vectors.files import file_name, read_document, render, vectors_root
from mxspec_vectors.recipes_dot import mix

#: Files of both kinds of scales, a plain operand, and mixed formats: what the quick tests check.
SOME = ("mxfp4@mxfp4", "nvfp4@nvfp4", "bfloat16@mxfp8_e4m3")


def numbers_of(side: DotOperand) -> list[list[Fraction | None]]:
    """The exact numbers of a side, by the formats' tables alone; None: not finite."""
    if side.scales is None:
        return [[Fraction(float(x)) if np.isfinite(x) else None for x in row.astype(np.float64)] for row in side.data]
    fmt = get_block(side.format)
    element, scale = (decode_table(part).astype(np.float64).tolist() for part in (fmt.element, fmt.scale))
    tensor = Fraction(1 if side.tensor_scale is None else float(side.tensor_scale))
    rows = []
    for codes, scales in zip(side.data.tolist(), side.scales.tolist(), strict=True):
        row = []
        for i, code in enumerate(codes):
            q, s = element[code], scale[scales[i // fmt.k]]
            row.append(Fraction(q) * Fraction(s) * tensor if np.isfinite(q) and np.isfinite(s) else None)
        rows.append(row)
    return rows


def factor_of(side: DotOperand) -> dot.Factor:
    if side.scales is None:
        return dot.plain_factor(side.data)
    return dot.block_factor(
        side.data, side.scales, side.format, tensor_scale=1.0 if side.tensor_scale is None else float(side.tensor_scale)
    )


def cases_of(pair: str, *, without: tuple[str, ...] = ()) -> list[DotCase]:
    return [case for case in load_dot_cases(pair) if case.topic not in without]


@pytest.mark.parametrize("pair", DOT_FILES)
def test_certain_outputs_are_the_rounded_rational_sums(pair: str) -> None:
    """Where a class has one result, it is the exact sum, rounded once to the output's dtype."""
    certain = 0
    for case in cases_of(pair, without=("nan", "inf", "overflow")):
        if case.a.data.shape[1] > 700 or case.topic in ("code", "identity"):
            continue  # long in rationals; the next test checks those
        a, b = numbers_of(case.a), numbers_of(case.b)
        for i, j in np.ndindex(len(a), len(b)):
            exact = sum((x * y for x, y in zip(a[i], b[j], strict=True) if x and y), Fraction(0))
            fmt = OUTPUTS[case.out]
            wanted = float(round_floats(np.array(float(exact)), fmt))
            for name, answer in case.answers.items():
                low, high = float(answer.low[i, j]), float(answer.high[i, j])
                if low == high:
                    if case.topic in CERTAIN:
                        assert Fraction(float(exact)) == exact, (case.id, name)
                    assert low == wanted, (case.id, name)
                    certain += 1
                assert low <= wanted <= high, (case.id, name)
    assert certain > 300


@pytest.mark.parametrize("pair", DOT_FILES)
def test_one_hot_rows_give_the_other_side(pair: str) -> None:
    for case in load_dot_cases(pair):
        if case.topic not in ("identity", "code"):
            continue
        a, b = numbers_of(case.a), numbers_of(case.b)
        hot = all(sum(map(bool, row)) == 1 for row in a)
        rows, other = (a, b) if hot else (b, a)
        assert all(sum(x or 0 for x in row) == 1 for row in rows)
        picked = [[float(o[row.index(Fraction(1))]) for o in other] for row in rows]  # type: ignore[arg-type]
        wanted = np.array(picked) if hot else np.array(picked).T
        assert (case.answers["float32"].low.astype(np.float64) == wanted).all(), case.id
        if case.topic == "code":
            side = case.b if hot else case.a
            if side.scales is not None:
                table = decode_table(get_block(side.format).element).astype(np.float64)
                assert set(side.data.reshape(-1).tolist()) == set(np.flatnonzero(np.isfinite(table)).tolist())


@pytest.mark.parametrize("pair", SOME)
def test_every_accumulation_of_a_class_is_allowed(pair: str) -> None:
    """Simulated: orders and directions of rounded additions, fused groups."""
    asked = 0
    for case in cases_of(pair, without=("identity", "code")):
        if case.a.data.shape[1] > 300:
            continue
        a, b = factor_of(case.a), factor_of(case.b)
        for name, answer in case.answers.items():
            unit = ACCUMULATORS[name]
            ways = [{}] if unit.group else [{"order": o} for o in (Order.FORWARD, Order.PAIRS)]
            if not unit.group and unit.faithful:
                ways.append({"direction": Direction.ZERO})
            for way in ways:
                with np.errstate(all="ignore"):
                    total = dot.simulate_product(a, b, unit, **way) * (a.tensor_scale * b.tensor_scale)  # type: ignore[arg-type]
                    y = round_floats(round_floats(total, OUTPUTS["float32"]), OUTPUTS[case.out])
                assert answer.accepts(y).all(), (case.id, name, way)
                asked += 1
    assert asked > 250


@pytest.mark.parametrize("pair", DOT_FILES)
def test_the_questions_of_a_file(pair: str) -> None:
    cases = load_dot_cases(pair)
    topics = {case.topic for case in cases}
    assert {"identity", "code", "sum", "block-scale", "shape", "interval", "scale-code", "nan", "overflow"} <= topics
    assert ("tensor-scale" in topics) == ("nvfp4" in pair)
    assert {case.out for case in cases} == {"float32", "bfloat16", "float16"}
    assert all({"float32", "float32-nearest"} <= set(case.answers) for case in cases)
    assert all((x.low == x.high).all() or np.isnan(x.low).any() for c in cases if c.topic in CERTAIN for x in c.answers.values())
    widest = {name for case in cases if case.topic == "interval" for name in case.answers}
    assert set(CLASSES) - widest <= ({"float16"} if "mxfp8" in pair or pair.startswith("float32") else set())
    assert not any((np.isinf(x.low) & np.isinf(x.high) & (x.low != x.high)).any() for c in cases for x in c.answers.values())
    for name in CLASSES:  # each class has sums that are certain
        assert any(name in c.answers for c in cases if c.topic == "sum"), name
    nan = [c for c in cases if c.topic == "nan"]
    assert all(np.isnan(c.answers["float32"].low.astype(np.float64)).any() for c in nan)
    assert all(not np.isnan(c.answers["float32"].low.astype(np.float64)).all() for c in nan)


def test_the_classes_are_those_of_the_model() -> None:
    assert set(ACCUMULATORS) - set(CLASSES) == {"fused-f25-8"}, "the class of TF32 numbers; every other class belongs in the vectors"
    assert set(CLASSES) <= set(ACCUMULATORS)
    for pair in DOT_FILES:
        assert read_document("dot", pair)["profiles"] == list(CLASSES)
        assert {x for x in pair.split("@") if x not in BLOCKS} <= set(OUTPUTS)


def test_ties_of_16_bit_outputs() -> None:
    """Counts of ones next to midpoints: 257 is 256 in bfloat16, 2049 is 2048 in float16."""
    for out, tie, even in (("bfloat16", 257, 256), ("float16", 2049, 2048)):
        case = next(c for c in load_dot_cases("mxfp4@mxfp4") if c.id.startswith(f"ties-{out}"))
        counts = (np.arange(len(case.a.data)) + (255 if out == "bfloat16" else 2046)).tolist()
        answer = case.answers["float32"].low.astype(np.float64)
        assert answer[counts.index(tie)].tolist() == [even, -even]
        assert answer[counts.index(tie + 2)].tolist() == [even + 4, -even - 4]


def test_overflow_is_infinite_or_the_largest_number() -> None:
    """Of the class, where that is less: 13 bits reach less far than 24."""
    case = next(c for c in load_dot_cases("mxfp8_e4m3@mxfp8_e4m3") if c.id.startswith("overflow-float32"))
    float32 = np.finfo(np.float32).max
    assert case.answers["float32"].low[:, 0].tolist() == [0, float32]
    assert case.answers["float32"].high[:, 0].tolist() == [0, np.inf]
    assert case.answers["fused-f13-32"].low[1, 0] == (2 - 2.0**-13) * 2.0**127
    for wrong in (0, 1e38, -np.inf, np.nan):
        assert not case.answers["float32"].accepts(np.array([[0], [wrong]], np.float32)).all()


def test_an_answer_takes_what_lies_between_its_ends() -> None:
    case = next(c for c in load_dot_cases("mxfp8_e4m3@mxfp8_e4m3") if c.topic == "interval")
    answer = case.answers["bfloat16"]
    assert (answer.low < answer.high).any()
    assert answer.accepts(answer.low).all()
    assert answer.accepts(answer.high).all()
    assert not answer.accepts(np.nextafter(answer.high, np.float32(np.inf))).any()
    assert not answer.accepts(np.full_like(answer.low, np.nan)).any()


def test_numbers_without_a_pattern() -> None:
    """`mix` in whole numbers, as the page of the vectors states it."""
    for seed in (0, 1, 40503):
        for n, found in enumerate(mix(seed, 64).tolist()):
            h = (n + seed * 0x9E3779B9) % (1 << 32)
            h = (h ^ h >> 16) * 0x85EBCA6B % (1 << 32)
            h = (h ^ h >> 13) * 0xC2B2AE35 % (1 << 32)
            assert found == h ^ h >> 16


def test_a_class_that_joins_only_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for the class, answers at the end of some cases; no other line changes."""
    pair = "mxfp4@mxfp4"
    before = (vectors_root() / file_name("dot", pair)).read_text("ascii").splitlines()
    coarse = replace(ACCUMULATORS["bfloat16"], name="coarse", precision=6)
    monkeypatch.setitem(ACCUMULATORS, "coarse", coarse)
    monkeypatch.setattr(build_dot, "CLASSES", (*CLASSES, "coarse"))
    after = render(build_dot.build_dot(pair)).decode("ascii").splitlines()
    added = [line for line in after if line.startswith(',"coarse":')]
    assert len(added) == 1
    after.remove(added[0])
    grown = 0
    for old, new in zip(before, after, strict=True):
        if old != new:
            assert old.endswith("]}")
            assert new.startswith(old[:-2] + ",")
            grown += 1
    assert grown > 0
