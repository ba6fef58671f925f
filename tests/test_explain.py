"""`mxspec.explain` and the command `explain`: the model's own bits, step by step, and sentences that name the step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner, Result

import mxspec
from mxspec import exact, reals
from mxspec.exact import EXACT
from mxspec.explain import (
    Stage,
    Where,
    block_dict,
    compare_blocks,
    explain_block,
    explain_difference,
    explain_scalar,
    lane_words,
    locate,
    scalar_words,
    scale_words,
)
from mxspec.explain.difference import without_rounding
from mxspec.explain.steps import with_scale_code
from mxspec.explain.text import exact_text, number_text, plain_text
from mxspec.explain.trace import RECORDING, leaf_node
from mxspec.expressions import AMAX, Const, Domain, S, evaluate, f32, ftz, if_equal, minimum, rcp_approx
from mxspec.formats import BLOCKS, E2M1, E4M3, E8M0, ELEMENTS, FLOAT32, INT8, SCALES, get_block
from mxspec.profiles import get_profile, list_profiles
from mxspec.profiles.schema import Kind, Profile, TensorScaleKind
from mxspec.reals import Real, decode_real, make_real
from mxspec.rounding import DETERMINISTIC
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_conformance.cli.explain import draw_block, draw_pair, parse_tensor_scale, parse_value, render_text
from mxspec_conformance.cli.main import main
from mxspec_vectors.input_case import Input
from mxspec_vectors.inputs import quantize_inputs
from mxspec_vectors.points import TENSOR_AMAXES, Stream

AMAX_KIND = TensorScaleKind.AMAX
Floats = npt.NDArray[np.float32]


def block_of(fmt: str, *values: float) -> Floats:
    """A block that begins with these values."""
    x = np.zeros(get_block(fmt).k, np.float32)
    x[: len(values)] = values
    return x


def from_bits(*bits: int) -> Floats:
    return np.array(bits, np.uint32).view(np.float32)


#: amax just below 8, ties of both signs, a value off a tie.
ODD_BLOCK = block_of("mxfp4", float(from_bits(0x40FFFFFE)[0]), 0.25, -0.75, 1.25, 0.3, -0.3)


def row_cases(fmt: str) -> list[Input]:
    k = get_block(fmt).k
    return [c for c in quantize_inputs(fmt) if len(c.bits) == 1 and len(c.bits[0]) == k and c.axis == -1 and not c.pad]


def sampled(profile: Profile, fmt: str, seed: int, count: int) -> list[tuple[Floats, TensorScale | None]]:
    """Blocks of the vectors with the tensor scale that the profile takes; other blocks for every seed."""
    draw = Stream(seed)
    cases = row_cases(fmt)
    chosen = [cases[draw.below(len(cases))] for _ in range(count)]
    result: list[tuple[Floats, TensorScale | None]] = []
    for case in chosen:
        scale = None
        if profile.tensor is not None and (case.tensor_amax is not None or profile.one_level is None):
            amax = TENSOR_AMAXES["odd"] if case.tensor_amax is None else case.tensor_amax
            scale = derive_tensor_scale(amax, profile)
        if scale is not None or profile.one_level is not None:
            result.append((case.x[0], scale))
    return result


def parted_nvfp4() -> Iterator[tuple[Floats, TensorScale, bool]]:
    """Blocks on which the two normative profiles part, the tensor scale, and whether their scale codes are equal."""
    for case in row_cases("nvfp4"):
        if case.tensor_amax is None:
            continue
        scale = TensorScale(AMAX_KIND, case.tensor_amax)
        one, other = (mxspec.quantize(case.x, "nvfp4", profile=p, tensor_scale=scale, convert=True) for p in ("nvfp4-te", "nvfp4-paper"))
        same = bool((one.scales == other.scales).all())
        if not same or (one.codes != other.codes).any():
            yield case.x[0], scale, same


PAIRS = [(p, fmt) for p in list_profiles() for fmt in p.formats]


def refuses(profile: Profile, x: Floats) -> bool:
    """Whether a profile raises on NaN."""
    levels = [level for level in (profile.one_level, profile.two_level) if level is not None]
    return bool(np.isnan(x).any()) and any("raise" in (lv.element.nan, lv.element.nan_own) for lv in levels)


class TestBits:
    """Explanations hold the model's own bits."""

    @pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=lambda v: v if isinstance(v, str) else v.id)
    def test_codes_are_those_of_both_models(self, profile: Profile, fmt: str) -> None:
        seed = PAIRS.index((profile, fmt)) + 1
        for x, scale in sampled(profile, fmt, seed, 4 if profile.kind is Kind.NORMATIVE else 1):
            if refuses(profile, x):
                with pytest.raises(ValueError, match="NaN"):
                    explain_block(x, fmt, profile=profile, tensor_scale=scale)
                continue
            e = explain_block(x, fmt, profile=profile, tensor_scale=scale)
            native = None if scale is None else scale.real
            given = [decode_real(int(b), FLOAT32) for b in x.view(np.uint32)]
            slow = exact.quantize_block(given, fmt, profile=profile, tensor_scale=native)
            with np.errstate(all="ignore"):
                fast = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
                back = fast.dequantize()
            assert (e.scale.code, e.codes) == (slow.scale_code, slow.codes)
            assert (e.amax, e.scale.value, tuple(lane.scaled for lane in e.lanes)) == (slow.amax, slow.scale_value, slow.scaled)
            assert (e.scale.code, list(e.codes)) == (int(fast.scales[0]), fast.codes.tolist())
            assert [lane.value_bits for lane in e.lanes] == back.view(np.uint32).tolist()
            assert compare_blocks(e, e) is None
            json.dumps(block_dict(e), allow_nan=False)

    @pytest.mark.parametrize("fmt", BLOCKS)
    def test_drawings_fit(self, fmt: str) -> None:
        draw = Stream(2)
        for number, profile in enumerate(p for p in list_profiles(fmt) if p.kind is Kind.NORMATIVE):
            for x, scale in sampled(profile, fmt, number + 1, 2):
                e = explain_block(x, fmt, profile=profile, tensor_scale=scale)
                for lane in (None, draw.below(len(e.lanes))):
                    assert max(map(len, render_text(draw_block(e, lane=lane)).splitlines())) <= 80

    @pytest.mark.parametrize("name", [*ELEMENTS, *SCALES])
    def test_scalars_are_those_of_encode(self, name: str) -> None:
        fmt = mxspec.get_scalar(name)
        points = {0, 0x80000000, 0x7F800000, 0x7F7FFFFF, 1, 0x007FFFFF}
        for m in range(0, fmt.max_code + 1, 1 if fmt.bits < 8 else 9):
            middle = (fmt.magnitude(m) + fmt.magnitude(m + 1)) / 2
            bits = reals.encode_real(make_real(min(middle, Fraction(2) ** 127)), FLOAT32)
            points |= {bits - 1, bits, bits + 1}
        if fmt.signed:
            points |= {p | 0x80000000 for p in points}
        x = from_bits(*sorted(p for p in points if p >= 0))
        for rounding in DETERMINISTIC:
            codes = mxspec.encode(x, name, rounding=rounding)
            explained = [explain_scalar(v, name, rounding=rounding) for v in x]
            assert [e.code for e in explained] == codes.tolist()
            assert all(scalar_words(e).endswith(f"{e.code:0{(fmt.bits + 3) // 4}x}") for e in explained)

    def test_stochastic_rounding_tells_its_sum(self) -> None:
        x = np.float32(0.3)
        for random in (0, 100, 102, 103, 255):
            e = explain_scalar(x, "e2m1", rounding="sr", random=random, random_bits=8)
            want = mxspec.encode(x.reshape(1), "e2m1", rounding="sr", random_bits=np.array([random], np.uint8), sr_bits=8)
            assert e.code == int(want[0])
            assert e.random == (random, 8, 153)
        assert str(e.rule) == "0x99 + 0xff >= 2^8: away from zero"

    def test_blocks_with_a_foreign_maximum(self) -> None:
        e = explain_block(ODD_BLOCK, "mxfp4", amax=make_real(100))
        assert (e.scale.code, e.amax_lane) == (0x83, None)
        assert "in no lane of its own" in render_text(draw_block(e))

    def test_a_forced_scale_is_taken_whatever_the_block_holds(self) -> None:
        for code in (0x00, 0x7F, 0x80, 0xFE, 0xFF):
            forced = with_scale_code(get_profile("mx-rceil", "mxfp4"), code, two_level=False)
            assert explain_block(ODD_BLOCK, "mxfp4", profile=forced).scale.code == code


class TestSteps:
    """Recorded operations."""

    def test_each_operation_has_its_exact_and_its_rounded_result(self) -> None:
        third = 0x3EAAAAAB
        expr = minimum(f32.mul(AMAX, f32.mul(S, Const(0x3E2AAAAB))), Const(0x7F7FFFFF))
        bound = {"amax": decode_real(third, FLOAT32), "S": decode_real(0x40490FDB, FLOAT32)}
        node = evaluate(expr, {n: leaf_node(n, v) for n, v in bound.items()}, RECORDING)
        assert node.result == evaluate(expr, bound, EXACT)
        inner = node.parts[0].parts[1]
        assert inner.exact == reals.multiply(bound["S"], decode_real(0x3E2AAAAB, FLOAT32))
        assert inner.result == reals.round_real(inner.exact, FLOAT32) != inner.exact

    def test_steps_of_nvfp4(self) -> None:
        e = explain_block(block_of("nvfp4", 1.7, 0.33, -2.9, 0.01, 5), "nvfp4", tensor_scale="auto")
        assert [(s.name, s.operation) for s in (*e.tensor_steps, *e.scale.steps, *e.shared_steps)] == [
            ("t1", "2688 / tmax"),
            ("t2", "min(t1, FLT_MAX)"),
            ("t3", "t2 == 0 is false: t2"),
            ("S", "tmax == 0 is false: t3"),
            ("t4", "S * fl(1/6)"),
            ("t5", "amax * t4"),
            ("t6", "min(t5, FLT_MAX)"),
            ("t7", "1 / S"),
            ("t8", "sf * t7"),
            ("t9", "1 / t8"),
            ("t10", "min(t9, FLT_MAX)"),
        ]
        assert [(s.name, s.operation) for s in e.lanes[0].steps] == [("t11", "x * t10")]
        assert e.scale.steps[1].rounded
        assert e.scale.steps[1].bits == 0x43E00000

    def test_a_choice_keeps_only_the_side_taken(self) -> None:
        expr = if_equal(AMAX, Const(0), f32.div(S, S), f32.mul(S, S))
        bound = {"amax": leaf_node("amax", reals.ZERO), "S": leaf_node("S", make_real(3))}
        node = evaluate(expr, bound, RECORDING)
        assert node.held
        assert [plain_text(p.expr) for p in node.parts] == ["amax", "0", "S / S"]

    def test_flushing_and_approximate_operations(self) -> None:
        tiny = leaf_node("amax", decode_real(0x00000001, FLOAT32))
        assert evaluate(ftz.mul(AMAX, Const(0x7F000000)), {"amax": tiny}, RECORDING).exact == reals.ZERO
        three = leaf_node("amax", make_real(3))
        node = evaluate(rcp_approx(AMAX), {"amax": three}, RECORDING)
        assert node.exact == make_real(Fraction(1, 3))
        assert node.result == exact.rcp_approx(make_real(3))

    @pytest.mark.parametrize("fmt", [E2M1, E4M3, INT8, E8M0])
    def test_places_enclose_the_number(self, fmt: mxspec.ScalarFormat) -> None:
        draw = Stream(7)
        for _ in range(300):
            x = decode_real(draw.below(0x7F800000), FLOAT32)
            place = locate(x, fmt)
            assert x.magnitude is not None
            if place.where is Where.UNDER:
                assert x.magnitude < fmt.min_subnormal
                continue
            assert place.lower is not None
            assert place.lower.value.magnitude is not None
            assert place.lower.value.magnitude <= x.magnitude
            if place.upper is not None and place.where not in (Where.EXACT, Where.BEYOND):
                assert place.upper.value.magnitude is not None
                assert x.magnitude < place.upper.value.magnitude
                assert place.midpoint is not None
                assert place.distance == x.magnitude - place.midpoint

    def test_infinities_and_nan_have_a_place(self) -> None:
        assert locate(reals.INFINITY, E2M1).where is Where.INFINITE
        assert locate(reals.NAN, E2M1).where is Where.NAN
        assert locate(make_real(Fraction(-3, 100)), INT8).where is Where.ABOVE

    def test_wrong_shapes_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"shape \(31,\); one block of mxfp4 is 32"):
            explain_block(np.zeros(31, np.float32), "mxfp4")
        with pytest.raises(ValueError, match="allowed are None, a TensorScale and 'auto'"):
            explain_block(np.zeros(16, np.float32), "nvfp4", tensor_scale="automatic")
        with pytest.raises(ValueError, match="pass one number"):
            explain_scalar(np.zeros(2, np.float32), "e2m1")


class TestWords:
    """Sentences."""

    @pytest.mark.parametrize(
        ("profile", "fmt", "bits", "words"),
        [
            (
                "mx-floor", "mxfp4", 0x40FFFFFE,
                "amax 0x40fffffe = 7.999999 has exponent 2, minus emax 2 gives 0, code 7f",
            ),
            (
                "mx-ceil", "mxfp4", 0x40FFFFFE,
                "amax 0x40fffffe = 7.999999 lies above 2^2, so its exponent rounds up to 3, "
                "minus emax 2 gives 1, code 80",
            ),
            ("mx-ceil", "mxfp4", 0x40800000, "amax 0x40800000 = 4 is 2^2, exponent 2, minus emax 2 gives 0, code 7f"),
            (
                "mx-even", "mxfp4", 0x40E00000,
                "amax 0x40e00000 = 7 rounded half up to the element's precision reaches 2^3, exponent 3, "
                "minus emax 2 gives 1, code 80",
            ),
            (
                "mx-rceil", "mxfp4", 0x40C00001,
                "amax / M = 1.0000000794… lies between 2^0 (code 7f) and 2^1 (code 80), 0.49999992… below the "
                "midpoint; away from zero gives 80",
            ),
            ("mx-rceil", "mxfp4", 0x40C00000, "amax / M = 1 is a value of e8m0, code 7f"),
            (
                "gguf-0.19/mxfp4", "mxfp4", 0x40FFFFFF,
                "log2 of amax 0x40ffffff = 7.9999995 is 3 in float32 (exactly it is less), floor 3, "
                "minus emax 2 gives 1, code 80",
            ),
            ("mx-floor", "mxfp4", 0, "amax 0x00000000 = 0: zero is stored as 00, the lowest code"),
            ("mx-floor", "mxfp4", 0x7F800000, "amax 0x7f800000 = inf: Inf is stored as fe, the highest code"),
            ("mx-floor", "mxfp4", 0x7FC00000, "amax 0x7fc00000 = nan: NaN is stored as ff, the NaN code"),
            (
                "mx-floor", "mxfp8_e4m3", 1,
                "amax 0x00000001 = 1e-45 has exponent -149, minus emax 8 gives -157; below the lowest code, clamped, "
                "code 00",
            ),
            (
                "nvfp4-paper", "nvfp4", 0x45800000,
                "amax / 6 = 682.6667 lies beyond the largest value 448 (code 7e); saturation gives 7e",
            ),
        ],
    )  # fmt: skip
    def test_of_the_scale(self, profile: str, fmt: str, bits: int, words: str) -> None:
        x = block_of(fmt)
        x.view(np.uint32)[3] = bits
        assert scale_words(explain_block(x, fmt, profile=profile)) == words

    def test_of_the_lanes(self) -> None:
        e = explain_block(ODD_BLOCK, "mxfp4")
        assert [lane_words(e, lane) for lane in e.lanes[:7]] == [
            "x / scale = 7.999999 lies beyond the largest value 6 (code 7); saturation gives 7",
            "x / scale = 0.25 lies midway between 0 (code 0) and 0.5 (code 1); to even gives 0",
            "x / scale = -0.75 lies midway between -0.5 (code 9) and -1 (code a); to even gives a",
            "x / scale = 1.25 lies midway between 1 (code 2) and 1.5 (code 3); to even gives 2",
            "x / scale = 0.3 lies between 0 (code 0) and 0.5 (code 1), 0.050000012 above the midpoint; the nearer gives 1",
            "x / scale = -0.3 lies between -0 (code 8) and -0.5 (code 9), 0.050000012 above the midpoint; the nearer gives 9",
            "x / scale = 0 is a value of the format, code 0",
        ]

    def test_numbers_are_exact_or_say_that_digits_are_missing(self) -> None:
        assert exact_text(Fraction(-3, 16)) == "-0.1875"
        assert exact_text(Fraction(1, 3)) == "1/3"
        assert exact_text(decode_real(1, FLOAT32)).startswith("0.000000000000000000000000000000000000000000001401298")
        assert [number_text(v, 11) for v in (Fraction(1, 3), Fraction(1, 4), Fraction(2**24 + 1, 2**24))] == [
            "0.33333333…",
            "0.25",
            "1.00000005…",
        ]
        assert number_text(Fraction(10**40, 3), 9) == "3.33…e+39"
        draw = Stream(3)
        for _ in range(2000):
            value = decode_real(draw.below(1 << 31) * 2, FLOAT32)
            other = Fraction(draw.below(10**9) + 1, draw.below(10**9) + 1)
            for x, width in ((value, 11), (make_real(other), 8), (make_real(other), 13)):
                text = number_text(x, width)
                assert len(text) <= width
                if x.is_finite and "…" not in text:
                    assert np.float32(text) == np.float32(float(x.value))

    @pytest.mark.parametrize("profile", list_profiles(), ids=lambda p: p.id)
    def test_every_expression_prints(self, profile: Profile) -> None:
        for level in (profile.one_level, profile.two_level):
            if level is not None:
                for expr in (level.scale.value, level.scaled, level.dequantize):
                    assert "_f32" not in plain_text(expr)


class TestPartings:
    """The first step where two profiles part."""

    def part(self, a: str, b: str, x: Floats, fmt: str, scale: TensorScale | None = None) -> tuple[Stage, int | None, str]:
        one, other = (explain_block(x, fmt, profile=p, tensor_scale=scale, convert=True) for p in (a, b))
        found = compare_blocks(one, other)
        assert found is not None
        back = compare_blocks(other, one)
        assert back is not None
        assert (back.stage, back.lane, back.visible) == (found.stage, found.lane, found.visible)
        assert max(map(len, render_text(draw_pair(one, other)).splitlines())) <= 80
        assert "▶" in render_text(draw_pair(one, other)) or not found.visible
        assert "▶ lane 2 back" in render_text(draw_pair(one, other)) or (found.stage, found.lane) != (Stage.VALUE, 2)
        same_bits = (one.scale.code, one.codes) == (other.scale.code, other.codes)
        assert found.visible == (found.stage is Stage.VALUE or not same_bits)
        return found.stage, found.lane, found.words

    def test_exponent(self) -> None:
        assert self.part("mx-floor", "mx-ceil", ODD_BLOCK, "mxfp4") == (
            Stage.EXPONENT,
            None,
            "the scale code differs: 7f against 80, because amax 0x40fffffe = 7.999999 has exponent 2, "
            "minus emax 2 gives 0, code 7f; against amax 0x40fffffe = 7.999999 lies above 2^2, "
            "so its exponent rounds up to 3, minus emax 2 gives 1, code 80",
        )

    def test_ties(self) -> None:
        assert self.part("mx-floor", "gguf-0.19/mxfp4", ODD_BLOCK, "mxfp4") == (
            Stage.CODE,
            2,
            "the code of lane 2 differs: a against 9, because x / scale = -0.75 lies midway between "
            "-0.5 (code 9) and -1 (code a): tie to even; against least error, first of equals",
        )

    def test_amax_with_nan(self) -> None:
        x = block_of("nvfp4", 1, float("nan"), 3)
        skipping = next(p.id for p in list_profiles("nvfp4") if p.amax_nan == "skip" and p.one_level is not None)
        stage, _, words = self.part("nvfp4-te", skipping, x, "nvfp4")
        assert stage is Stage.AMAX
        assert words.endswith("because amax is nan against 3: one passes NaN lanes over")

    def test_scale_value_and_quotient(self) -> None:
        found = set()
        for x, scale, same_scale in parted_nvfp4():
            stage, _, words = self.part("nvfp4-te", "nvfp4-paper", x, "nvfp4", scale)
            assert (stage is Stage.SCALE_VALUE) != same_scale
            assert "differs: " in words
            found.add(stage)
            if {Stage.SCALE_VALUE, Stage.QUOTIENT} <= found:
                return
        assert found == {Stage.SCALE_VALUE, Stage.QUOTIENT}

    def test_neighbour_of_the_lowest_int8(self) -> None:
        stage, lane, words = self.part("mx-floor", "gfloat-0.5/mx", block_of("mxint8", -1.9999), "mxint8")
        assert (stage, lane) == (Stage.NEIGHBOUR, 0)
        assert "81 against 80" in words

    def test_value_alone(self) -> None:
        x = block_of("nvfp4", 1.7, 0.33, -2.9, 0.01, 5)
        scale = TensorScale(AMAX_KIND, 0x40A00000)
        stage, lane, words = self.part("nvfp4-te", "nvfp4-paper", x, "nvfp4", scale)
        assert (stage, lane) == (Stage.VALUE, 2)
        assert words.startswith("scale and codes are equal; lane 2 comes back as -2.5 ")

    def test_steps_that_move_no_bit(self) -> None:
        stage, _, words = self.part("mx-floor", "mx-ceil", from_bits(*[0x00000003] * 32), "mxfp4")
        assert stage is Stage.EXPONENT
        assert words == "all bits are equal, though the exponent before the clamp is -150 against -149"

    def test_of_different_things_is_refused(self) -> None:
        e = explain_block(ODD_BLOCK, "mxfp4")
        with pytest.raises(ValueError, match="mxfp4 and of mxint8"):
            compare_blocks(e, explain_block(ODD_BLOCK, "mxint8"))
        with pytest.raises(ValueError, match="different inputs"):
            compare_blocks(e, explain_block(-ODD_BLOCK, "mxfp4"))

    @pytest.mark.parametrize("fmt", BLOCKS)
    def test_any_two_profiles(self, fmt: str) -> None:
        """Whatever the pair, a divergence is found exactly where bits differ, and the drawing fits."""
        profiles = [p for p in list_profiles(fmt) if p.one_level is not None][:: 1 if fmt == "nvfp4" else 3]
        draw = Stream(11)
        cases = [c for c in row_cases(fmt) if not np.isnan(c.x).any()]
        for i, other in enumerate(profiles[1:], 1):
            first = profiles[draw.below(i)]
            x = cases[draw.below(len(cases))].x[0]
            a, b = explain_block(x, fmt, profile=first), explain_block(x, fmt, profile=other)
            found = compare_blocks(a, b)
            bits = [(e.scale.code, e.codes, [lane.value_bits for lane in e.lanes]) for e in (a, b)]
            assert (found is not None and found.visible) == (bits[0] != bits[1])
            assert max(map(len, render_text(draw_pair(a, b)).splitlines())) <= 80


class TestDifference:
    """Returned blocks against a profile."""

    def explain(self, x: Floats, fmt: str, scale: int | None = None, codes: dict[int, int] | None = None) -> tuple[str, ...]:
        e = explain_block(x, fmt)
        got = list(e.codes)
        for lane, code in (codes or {}).items():
            got[lane] = code
        return explain_difference(x, fmt, None, None, e.scale.code if scale is None else scale, got)

    def test_equal_bits_give_no_sentence(self) -> None:
        assert self.explain(ODD_BLOCK, "mxfp4") == ()

    def test_ties(self) -> None:
        assert self.explain(ODD_BLOCK, "mxfp4", codes={1: 1}) == (
            "lane 1: x / scale = 0.25 lies midway between 0 (code 0) and 0.5 (code 1); to even gives 0; returned 1: "
            "as if ties went away from zero",
        )
        assert self.explain(ODD_BLOCK, "mxfp4", codes={1: 1, 3: 3})[-1] == (
            "every code is as if ties went away from zero or codes were floor(steps + 1/2), summed in float32"
        )

    def test_scale_and_codes_are_reported_apart(self) -> None:
        e = explain_block(ODD_BLOCK, "mxfp4")
        ceil = explain_block(ODD_BLOCK, "mxfp4", profile="mx-ceil")
        assert explain_difference(ODD_BLOCK, "mxfp4", "mx-floor", None, 0x80, e.codes) == (
            "scale: amax 0x40fffffe = 7.999999 has exponent 2, minus emax 2 gives 0, code 7f; returned 80, one step "
            "higher: as if by amax / max rounded up or by ceil(log2 amax) - emax",
            "codes: they belong to the profile's scale 7f, not to the one returned",
        )
        assert explain_difference(ODD_BLOCK, "mxfp4", "mx-floor", None, 0x80, ceil.codes)[1:] == (
            "codes: all are what the profile gives under the returned scale",
        )

    @pytest.mark.parametrize(
        ("values", "scale", "end"),
        [
            ([7.9], 0x81, "2 steps higher: as if emax were not subtracted"),
            ([5, float("nan")], 0x7F, "returned 7f: as if NaN lanes were passed over"),
            ([1, -5, -3], 0x7D, "2 steps lower: as if the maximum were taken of x, not of |x|"),
            ([1, 5], 0xFF, "returned ff, a NaN"),
            ([7.999], 0x80, "amax / max rounded up or by ceil(log2 amax) - emax"),
        ],
    )
    def test_mistakes_in_the_scale(self, values: list[float], scale: int, end: str) -> None:
        assert self.explain(block_of("mxfp4", *values), "mxfp4", scale=scale)[0].endswith(end)

    def test_a_scale_wider_than_its_format(self) -> None:
        sentences = self.explain(block_of("nvfp4", 1), "nvfp4", scale=0xFE)
        assert len(sentences) == 1
        assert sentences[0].endswith("returned fe, which has more than the 7 bits of ue4m3")

    @pytest.mark.parametrize(
        ("fmt", "values", "code", "end"),
        [
            ("mxfp4", [4, 0.3], 0x0, "as if cut toward zero"),
            ("mxfp4", [4, 0.2], 0x1, "as if rounded away from zero"),
            ("mxfp4", [4, float(from_bits(0x3E7FFFFF)[0])], 0x1,
             "as if 1/2 were added in float32, which rounds up to the next step"),
            ("mxfp4", [4, 0.7497], 0x2, "as if x / scale were held in bfloat16"),
            ("mxfp4", [4, 1], 0xA, "the sign is wrong"),
            ("mxfp4", [4, 1], 0x3, "one code away from zero"),
            ("mxfp4", [4, 1], 0x21, "more than the 4 bits of e2m1; are the codes packed?"),
            ("mxfp4", [4, -0.0], 0x0, "zero with the other sign"),
            ("mxfp8_e4m3", [448, 300], 0x7F, "a NaN"),
            ("mxfp8_e5m2", [57344, 300], 0x7C, "an infinity"),
            ("mxfp8_e4m3", [448, 300], 0x00, "zero"),
        ],
    )  # fmt: skip
    def test_mistakes_in_a_code(self, fmt: str, values: list[float], code: int, end: str) -> None:
        sentences = self.explain(block_of(fmt, *values), fmt, codes={1: code})
        assert sentences[0].endswith(f": {end}")

    @pytest.mark.parametrize(
        ("fmt", "values", "codes", "words"),
        [
            ("mxfp4", [4, -0.1, -0.0, -1], {1: 0, 2: 0}, "every code is as if zeros lost their sign"),
            ("mxint8", [-1.9999, 1, -1.9999], {0: 0x80, 2: 0x80}, "every code is as if the lowest code were 80"),
            ("mxfp4", [4, 0.3, -0.3, 1.9], {1: 0, 2: 8, 3: 3}, "every code is as if cut toward zero"),
        ],
    )
    def test_one_mistake_in_all_codes(self, fmt: str, values: list[float], codes: dict[int, int], words: str) -> None:
        assert self.explain(block_of(fmt, *values), fmt, codes=codes)[-1] == words

    def test_many_wrong_lanes_are_counted(self) -> None:
        sentences = self.explain(block_of("mxfp4", 4, *[0.3] * 9), "mxfp4", codes=dict.fromkeys(range(1, 10), 0))
        assert len(sentences) == 5
        assert sentences[3] == "6 more wrong lanes, from lane 4 on; all 9: as if cut toward zero"

    def test_float32_arithmetic_of_nvfp4(self) -> None:
        """Codes that the exact product would give are reported as such."""
        profile = get_profile("nvfp4-te", "nvfp4")
        assert profile.two_level is not None
        level = replace(profile.two_level, scaled=without_rounding(profile.two_level.scaled))
        exactly = replace(profile, two_level=level)
        for case in row_cases("nvfp4"):
            if not case.slug.startswith("element-te-odd") or case.tensor_amax is None:
                continue
            x, scale = case.x[0], TensorScale(AMAX_KIND, case.tensor_amax)
            e = explain_block(x, "nvfp4", tensor_scale=scale)
            other = explain_block(x, "nvfp4", profile=exactly, tensor_scale=scale)
            if e.codes != other.codes:
                sentences = explain_difference(x, "nvfp4", None, scale, e.scale.code, other.codes)
                assert sentences[0].endswith("nothing were rounded on the way to scaled x")
                assert sentences[-1].endswith("nothing were rounded on the way to scaled x")
                return
        pytest.fail("the vectors hold no such block")

    @pytest.mark.parametrize("fmt", BLOCKS)
    def test_any_answer_is_explained(self, fmt: str) -> None:
        """Whatever a stack returns, there are sentences, and none where it returned the profile's bits."""
        block, draw = get_block(fmt), Stream(5)
        cases = row_cases(fmt)
        for number in range(12):
            case = cases[draw.below(len(cases))]
            scale = None if case.tensor_amax is None else TensorScale(AMAX_KIND, case.tensor_amax)
            e = explain_block(case.x[0], fmt, tensor_scale=scale)
            codes = [draw.below(block.element.code_count) if number % 2 else c for c in e.codes]
            got = e.scale.code if number % 3 else draw.below(256)
            sentences = explain_difference(case.x[0], fmt, None, scale, got, np.array(codes, np.uint8))
            assert bool(sentences) == ((got, tuple(codes)) != (e.scale.code, e.codes))
            assert explain_difference(case.x[0], fmt, None, scale, e.scale.code, e.codes) == ()

    def test_wrong_counts_are_refused(self) -> None:
        with pytest.raises(ValueError, match="16 codes were returned; a block of mxfp4 has 32"):
            explain_difference(ODD_BLOCK, "mxfp4", None, None, 0x7F, [0] * 16)


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["explain", *args])


class TestCommand:
    """The command `explain`."""

    def test_one_block(self) -> None:
        result = run("mxfp4", "0x40fffffe", "0.25", "-0.75", "1.25", "0.3", "-0.3")
        assert result.exit_code == 0
        assert result.output.splitlines() == [
            "mxfp4, a block of 32 · mx-floor",
            "lanes 0–5 are given, lanes 6–31 are padded with zeros",
            "scale exponent floor(log2 amax) - emax, from the exponent field",
            "",
            "amax    7.999999 = 0x40fffffe, lane 0",
            "               sign │ exponent │ mantissa",
            "        hex    0    │ 81 = 2^2 │ 7ffffe",
            "        binary 0    │ 10000001 │ 11111111111111111111110",
            "",
            "scale   amax 0x40fffffe = 7.999999 has exponent 2, minus emax 2 gives 0, code 7f",
            "        7f = 01111111 = 2^0",
            "",
            "lane         x  x / scale  toward 0    away  where   code  bits  back",
            "0*    7.999999   7.999999       6 7    8 --  beyond     7  0111     6",
            "1         0.25       0.25       0 0   0.5 1  tie        0  0000     0",
            "2        -0.75      -0.75    -0.5 9    -1 a  tie        a  1010    -1",
            "3         1.25       1.25       1 2   1.5 3  tie        2  0010     1",
            "4          0.3        0.3       0 0   0.5 1  above      1  0001   0.5",
            "5         -0.3       -0.3      -0 8  -0.5 9  above      9  1001  -0.5",
            "6–31         0          0       0 0          exact      0  0000     0",
            "* largest magnitude; beyond → saturates; tie → to even; above → nearest",
        ]

    def test_one_lane(self) -> None:
        lines = run("mxfp4", "0x40fffffe", "0x3e7fffff", "--lane", "1").output.splitlines()
        assert "        ├─────────────────────────●┼──────────────────────────┤" in lines
        assert "        0                        0.25                       0.5" in lines

    def test_two_profiles(self) -> None:
        output = run("mxfp4", "7.9", "0.25", "--against", "mx-rceil").output
        assert "▶ exponent" in output
        assert "cause   the scale code differs: 7f against 80, because" in output
        assert "every step on the way, are equal" in run("mxfp4", "6", "--against", "mx-floor").output

    def test_json(self) -> None:
        payload = json.loads(run("mxfp4", "7.9", "0.25", "--against", "mx-rceil", "--json").output)
        one, other = payload["explanations"]
        assert (one["scale"]["code"], other["scale"]["code"]) == ("7f", "80")
        assert one["lanes"][1]["place"] == {
            "where": "tie",
            "lower": {"code": "0", "value": "0"},
            "upper": {"code": "1", "value": "0.5"},
            "midpoint": "0.25",
            "distance": "0",
        }
        assert payload["divergence"]["stage"] == "exponent"
        assert payload["notes"] == ["lanes 0–1 are given, lanes 2–31 are padded with zeros"]

    def test_single_numbers(self) -> None:
        output = run("e4m3", "0.0009765625", "-464", "nan", "--rounding", "rna").output
        assert "lies midway between 0 (code 00) and 0.001953125 (code 01);" in output
        assert "saturation gives fe" in output
        assert json.loads(run("e8m0", "0.3", "--json").output)[0]["code"] == "7d"

    def test_files(self, tmp_path: Path) -> None:
        path = tmp_path / "x.npy"
        np.save(path, np.arange(2 * 40, dtype=np.float32).reshape(2, 40))
        output = run("mxfp4", "--file", str(path), "--row", "1", "--block", "1").output
        assert "x.npy, row 1 of 2, block 1 of 2" in output
        assert "lanes 0–7 are given, lanes 8–31 are padded with zeros" in output
        assert "79 = 0x429e0000, lane 7" in output
        whole = run("nvfp4", "--file", str(path), "--tensor-scale", "auto").output
        assert "tensor  amax 429e0000 = 79" in whole
        np.save(path, np.float32(3))
        assert "at least one row" in run("mxfp4", "--file", str(path)).output
        path.write_bytes(b"nothing")
        assert run("mxfp4", "--file", str(path)).exit_code == 2
        np.savez(tmp_path / "many.npz", a=np.zeros(3))
        assert "contains several arrays" in run("mxfp4", "--file", str(tmp_path / "many.npz")).output

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["mxfp4", "1_0"], "'1_0' is not a number"),
            (["mxfp4", "0x3f80"], "'0x3f80' is not the bits of a float32"),
            (["mxfp4", "1e39"], "1e39 is larger than the largest float32"),
            (["mxfp4", "0x7fc00001"], "0x7fc00001 is a NaN"),
            (["mxfp4", *["1"] * 33], "33 values are too many; a block of mxfp4 holds 32"),
            (["mxfp4", "1", "--profil", "x"], "no such option: --profil"),
            (["mxfp4", "1", "--profile", "x"], "unknown profile 'x'"),
            (["mxfp4", "1", "--profile", "nvfp4-te"], "does not cover mxfp4"),
            (["mxfp4", "1", "--lane", "32"], "lanes 0 to 31"),
            (["mxfp4", "1", "--lane", "0", "--against", "mx-even"], "--lane and --against exclude each other"),
            (["mxfp4", "1", "--tensor-scale", "auto"], "takes no tensor scale; omit --tensor-scale"),
            (["nvfp4", "1", "--tensor-scale", "g=1"], "neither auto nor KIND=NUMBER"),
            (["mxfp4", "nan", "--profile", "gfloat-0.5/mx"], "profile gfloat-0.5/mx rejects this block"),
            (["e2m1", "1", "--profile", "mx-floor"], "is a scalar format"),
            (["mxfp4", "--file", "no-such-file.npy"], "does not exist"),
        ],
    )
    def test_bad_input_is_one_message_and_code_2(self, args: list[str], message: str) -> None:
        result = run(*args)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        assert message in " ".join(result.output.split())

    def test_values_as_they_are_typed(self) -> None:
        typed = {
            "0.3": 0x3E99999A, "-.5": 0xBF000000, "1.": 0x3F800000, "-0.0": 0x80000000, "-0": 0x80000000,
            "0X3F800000": 0x3F800000, "nan": 0x7FC00000, "-NaN": 0xFFC00000, "-inf": 0xFF800000,
            "+Infinity": 0x7F800000,
            "1e-45": 1, "7e-46": 0, "-1e-999999": 0x80000000, "3.4028235e38": 0x7F7FFFFF, "16777217": 0x4B800000,
            "1.00000005960464477539062500001": 0x3F800001, "1.000000059604644775390625": 0x3F800000,
        }  # fmt: skip
        assert {text: parse_value(text) for text in typed} == typed
        for bad in ("3.4028236e38", "1e999999", "", "0x", "0x1.8p3", "1e", "--3", "nan(1)", "0x7f800001", "١"):
            with pytest.raises(ValueError, match=r".+"):
                parse_value(bad)
        assert parse_tensor_scale("decode=3f800000") == TensorScale(TensorScaleKind.DECODE, 0x3F800000)


def test_real_numbers_keep_their_sign() -> None:
    e = explain_block(block_of("mxfp4", 4, -0.0), "mxfp4")
    assert e.lanes[1].x == Real(1, Fraction(0))
    assert e.lanes[1].code == 8
    assert Domain.EXACT not in {step.domain for step in e.scale.steps}
