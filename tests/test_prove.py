"""Proof by pairs: every pair is there, the tables are the model's, independence that does not hold is noticed, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import mxspec
from mxspec import exact
from mxspec.formats import BLOCKS
from mxspec_conformance.cli.parameters import parse_shard
from mxspec_conformance.cli.prove import parse_tensor_maximum
from mxspec_conformance.proving import values, work
from mxspec_conformance.proving.answers import PairAnswers, compare_chunk, digest_answers
from mxspec_conformance.proving.maxima import threshold_maxima
from mxspec_conformance.proving.pairs import PairSpace, as_float32
from mxspec_conformance.proving.refusals import name_obstacle
from mxspec_conformance.proving.run import Plan, prove
from mxspec_conformance.results.report import Report, Verdict, load_result_schema
from mxspec_vectors.tensor_scales import TensorScales

from tests.support import reals_of, rng

PLANTED = Path(__file__).parent / "targets" / "planted"
SMALL = Plan(fmt="mxfp4", dtypes=("bfloat16",), part=(1, 400))


def requirement(report: Report, topic: str) -> Any:
    return next(r for r in report.requirements if r.id.endswith(f"/{topic}"))


@pytest.mark.parametrize("k", [16, 32])
def test_every_pair_of_magnitudes_and_signs_is_tested(k: int) -> None:
    space = PairSpace("bfloat16", k, 70)
    patterns = space.inputs(0, 70)
    seen = set()
    for row in patterns.tolist():
        magnitudes = [p & 0x7FFF for p in row]
        top = max(magnitudes)
        for lane, maximum in enumerate(row):
            if maximum & 0x7FFF == top:
                seen |= {(maximum, other) for i, other in enumerate(row) if i != lane}
    wanted = {(m | s, e | t) for m in range(71) for e in range(m + 1) for s in (0, 0x8000) for t in (0, 0x8000)}
    assert wanted <= seen
    assert len(wanted) == space.elements()


@pytest.mark.parametrize(("dtype", "count"), [("bfloat16", 0x7F80), ("float16", 0x7C00)])
def test_chunks_cover_all_finite_maxima_once(dtype: str, count: int) -> None:
    space = PairSpace.below(dtype, 32)
    chunks = space.chunks()
    assert chunks[0][0] == 0
    assert chunks[-1][1] == count - 1
    assert all(chunks[i][1] + 1 == chunks[i + 1][0] for i in range(len(chunks) - 1))
    assert sum(space.elements(*c) for c in chunks) == space.elements() == 2 * count * (count + 1)
    assert space.pairs == count * (count + 1) // 2


def test_a_tensors_maximum_bounds_the_blocks() -> None:
    space = PairSpace.below("bfloat16", 16, 2688.0)
    assert as_float32(np.array([space.largest], np.uint16), "bfloat16")[0] == 2688


@pytest.mark.parametrize(
    ("fmt", "profile", "dtype", "tensor"),
    [
        ("mxfp4", "mx-floor", "bfloat16", None),
        ("mxfp4", "gguf-0.19/mxfp4", "float16", None),
        ("mxfp4", "mlx-0.32/mxfp4/cpu/bfloat16", "bfloat16", None),
        ("mxfp6_e3m2", "mx-rceil", "float16", None),
        ("mxfp8_e5m2", "mx-even", "bfloat16", None),
        ("mxint8", "mx-ceil", "bfloat16", None),
        ("nvfp4", "nvfp4-te", "bfloat16", 0x40490FDB),
        ("nvfp4", "nvfp4-paper", "float16", None),
    ],
)
def test_expected_answers_are_the_exact_models(fmt: str, profile: str, dtype: str, tensor: int | None) -> None:
    block = BLOCKS[fmt]
    entry = None if tensor is None else TensorScales.from_amax(tensor)
    bound = None if tensor is None else float(np.uint32(tensor).view(np.float32))
    space = PairSpace.below(dtype, block.k, bound)
    answers = PairAnswers(block, mxspec.get_profile(profile, fmt), space, entry)
    random = rng("pairs", fmt, profile)
    native = answers._native
    for _ in range(6):
        m = random.randrange(1, space.largest + 1)
        patterns = space.inputs(m, m)
        scales, codes = answers.expect(m, m)
        for row in random.sample(range(len(patterns)), 3):
            x = as_float32(patterns[row], dtype)
            wanted = exact.quantize_block(reals_of(x), fmt, profile=answers.profile, tensor_scale=None if native is None else native.real)
            assert (scales[row], codes[row].tolist()) == (wanted.scale_code, list(wanted.codes))


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3", "nvfp4"])
def test_threshold_maxima_are_scaled_by_the_array_model_as_the_exact_steps_say(fmt: str) -> None:
    block, profile = BLOCKS[fmt], mxspec.default_profile(fmt)
    steps = work.exact_scale_steps(fmt, profile.id, None)
    bits = threshold_maxima(steps, 0x7F7FFFFF, seed=rng("maxima").randrange(1 << 30), draws=2000)
    x = np.zeros((len(bits), block.k), np.float32)
    x[:, 3] = bits.view(np.float32)
    assert np.array_equal(mxspec.quantize(x, fmt).scales[:, 0], steps.at(bits))


def test_dequantize_tests_every_code_in_every_lane_and_every_pair() -> None:
    for fmt in (BLOCKS["mxfp4"], BLOCKS["mxfp8_e4m3"]):
        rows = values.code_rows(fmt)
        for lane in range(fmt.k):
            assert set(rows[:, lane].tolist()) == set(range(fmt.element.code_count))
    rows = values.code_rows(BLOCKS["mxfp4"])
    assert len(set(zip(rows[:, ::2].ravel().tolist(), rows[:, 1::2].ravel().tolist(), strict=True))) == 256
    assert len(set(zip(rows[:, 1:-1:2].ravel().tolist(), rows[:, 2::2].ravel().tolist(), strict=True))) > 230


def test_the_model_is_proven_on_a_part_and_the_result_is_a_result() -> None:
    report = prove("mxspec", SMALL, in_process=True)
    jsonschema.validate(json.loads(report.to_json()), load_result_schema())
    assert report.exit_code == 0
    assert report.kind == "proof"
    assert {r.verdict for r in report.requirements} == {Verdict.PASS}
    assert "not a proof" in requirement(report, "element").note
    statements = " ".join(report.details["statements"])
    assert "a part, not a proof" in statements
    assert "exhaustive under lane independence" not in statements
    assert report.details["independence"]["bfloat16/one-level"]["broken"] == {}


def test_a_whole_proof_says_exhaustive_and_only_under_independence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PairSpace, "below", classmethod(lambda cls, dtype, k, bound=None: cls(dtype, k, 300)))
    report = prove("mxspec", Plan(fmt="mxfp6_e2m3", dtypes=("bfloat16",)), in_process=True)
    statement = next(s for s in report.details["statements"] if s.startswith("bfloat16"))
    assert "all 45,451 pairs" in statement
    assert "exhaustive under lane independence, which was tested" in statement
    assert requirement(report, "element").note == ""
    claim = next(c for c in report.details["claims"] if c["what"] == "pairs")
    answers = PairAnswers(BLOCKS["mxfp6_e2m3"], mxspec.get_profile("mx-floor", "mxfp6_e2m3"), PairSpace("bfloat16", 32, 300))
    assert claim["digests"] == [digest_answers(*answers.expect(0, 300))]


def test_chunks_of_all_float32_maxima_are_tested_and_reported() -> None:
    # 127 chunks of pairs, the thresholds, then the chunks of maxima: this part holds the last of them alone.
    plan = Plan(fmt="mxfp4", dtypes=("bfloat16",), all_maxima=True, part=(256, 257), profile="mx-floor")
    report = prove(Sparse(), plan)
    claim = next(c for c in report.details["claims"] if c["what"] == "maxima")
    assert claim["chunks"] == "127"
    assert claim["exhaustive"] == (1 << 24) - (1 << 23)
    assert requirement(report, "scale-float32").cases == claim["exhaustive"]
    assert "8,388,608 of all 2,139,095,039 tested, a part" in " ".join(report.details["statements"])


class Sparse:
    """The scales of mx-floor from exponent fields, and no codes: enough for blocks of one number, and fast."""

    NAME, VERSION, FORMATS = "sparse", "1", ["mxfp4"]

    def quantize(self, x: Any, fmt: str) -> Any:
        largest = np.abs(x).max(axis=1, keepdims=True).view(np.uint32) >> np.uint32(23)
        return np.zeros(x.shape, np.uint8), np.maximum(largest.astype(np.int16) - 2, 0).astype(np.uint8)


def test_a_wrong_threshold_is_a_counterexample_with_its_step() -> None:
    plan = Plan(fmt="mxfp8_e4m3", dtypes=("bfloat16",), part=(60, 127))
    report = prove(str(PLANTED / "one_threshold.py"), plan, in_process=True)
    element = requirement(report, "element")
    assert element.verdict is Verdict.FAIL
    assert report.exit_code == 1
    assert len(element.first.given["x"]) <= 2
    assert "midway" in element.first.steps[0]


@pytest.mark.parametrize(
    ("name", "fmt", "context"), [("last_block", "mxfp6_e3m2", "call sizes"), ("two_maxima", "mxfp8_e4m3", "other lanes")]
)
def test_lanes_that_depend_on_the_call_end_the_proof(name: str, fmt: str, context: str) -> None:
    report = prove(str(PLANTED / f"{name}.py"), Plan(fmt=fmt, dtypes=("bfloat16",), part=(1, 200)), in_process=True)
    lanes = requirement(report, "lane-independence")
    assert lanes.verdict is Verdict.FAIL
    assert any(label.endswith(context) for label in lanes.failing_cases)
    assert not any(c["what"] == "pairs" for c in report.details["claims"])
    assert "no proof, as lanes depend" in report.details["statements"][0]


class Kernel:
    """The model; scales of several rows and columns lie transposed, or columns from the second on are wrong."""

    NAME, VERSION, FORMATS = "kernel", "1", ["mxfp4"]
    transposed = shifted = False

    def quantize(self, x: Any, fmt: str, axis: int = -1) -> Any:
        t = mxspec.quantize(x, fmt, axis=axis)
        codes, scales = t.codes.copy(), t.scales.copy()
        if self.transposed:
            scales = np.ascontiguousarray(scales.reshape(scales.shape[::-1]).T)
        if self.shifted and axis == 0:
            codes[:, 1:] = codes[:, :-1]
        return codes, scales


class Transposed(Kernel):
    transposed = True


class Shifted(Kernel):
    shifted = True


class Narrow:
    """One block to a row, along the last axis."""

    NAME, VERSION, FORMATS = "narrow", "1", ["mxfp4"]

    def quantize(self, x: Any, fmt: str) -> Any:
        if x.shape[1] > 32:
            raise ValueError("one block to a row")
        t = mxspec.quantize(x, fmt)
        return t.codes, t.scales


@pytest.mark.parametrize(("target", "context"), [(Transposed(), "rows of several blocks"), (Shifted(), "the first axis")])
def test_blocks_in_wide_rows_and_along_the_first_axis_end_the_proof(target: Kernel, context: str) -> None:
    report = prove(target, SMALL)
    assert requirement(report, "lane-independence").verdict is Verdict.FAIL
    assert context in report.details["independence"]["bfloat16/one-level"]["broken"]


def test_what_was_not_varied_is_named() -> None:
    whole, narrow = (prove(target, SMALL) for target in (Kernel(), Narrow()))
    assert {r.verdict for r in whole.requirements} | {r.verdict for r in narrow.requirements} == {Verdict.PASS}
    (statement,) = [s for s in whole.details["statements"] if s.startswith("not varied")]
    assert "threads" in statement
    assert "axis" not in statement
    (statement,) = [s for s in narrow.details["statements"] if s.startswith("not varied")]
    assert "the axis (not offered)" in statement
    assert "rows of several blocks, 2 (refused)" in statement


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("te-2.14/nvfp4/kernel-rht", "Hadamard"),
        *[(p.id, "") for p in mxspec.list_profiles("nvfp4") if p.two_level is not None and p.two_level.alternative is not None],
    ],
)
def test_profiles_that_search_or_mix_lanes_are_refused(profile: str, words: str) -> None:
    reason = name_obstacle(mxspec.get_profile(profile, "nvfp4"), two_level=True)
    assert reason is not None
    assert (words or "Four-over-Six") in reason


def test_blocks_of_several_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="256 lanes in 16 rows"):
        prove("mxspec", Plan(fmt="nvfp4", block=(16, 16)), in_process=True)


def test_a_proof_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state"
    plan = Plan(fmt="mxfp4", dtypes=("bfloat16",), part=(1, 100), profile="mx-floor")
    first = prove("mxspec", plan, state_file=state, in_process=True)
    again = prove("mxspec", plan, state_file=state, in_process=True)
    assert again.environment["campaign"]["done"] == 0
    assert again.environment["campaign"]["kept"] == first.environment["campaign"]["done"]
    assert again.details["claims"] == first.details["claims"]


def test_zero_blocks_and_int8s_lowest_code_are_not_held_against_anyone() -> None:
    space = PairSpace("bfloat16", 32, 40)
    profile = mxspec.get_profile("mx-floor", "mxfp4")
    answers = PairAnswers(BLOCKS["mxfp4"], profile, space)
    scales, codes = answers.expect(0, 40)
    zero = ~as_float32(space.inputs(0, 40), "bfloat16").any(axis=1)
    scales, codes = scales.copy(), codes.copy()
    scales[zero], codes[zero] = 0x7F, 0
    assert compare_chunk(answers, 0, 40, space.inputs(0, 40), scales, codes) is None
    scales[zero] = 0xFF
    wrong = compare_chunk(answers, 0, 40, space.inputs(0, 40), scales, codes)
    assert wrong["scale"]["count"] == int(zero.sum())


def test_options_that_make_no_sense_are_refused_in_words() -> None:
    assert parse_shard("2/8") == (2, 8)
    with pytest.raises(ValueError, match="I/N"):
        parse_shard("9/8")
    assert parse_tensor_maximum("1") == 0x3F800000
    assert parse_tensor_maximum("none") is None
    with pytest.raises(ValueError, match="positive and finite"):
        parse_tensor_maximum("-1")
    with pytest.raises(ValueError, match="or one of unit"):
        parse_tensor_maximum("big")
