"""Affine integers are judged: what follows any profile or none passes, each mistake is found and named."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxspec import affine
from mxspec.affine.arrays import dequantize_groups, quantize_groups
from mxspec.affine.exact import quantize_group
from mxspec.affine.formats import AffineFormat, Offset
from mxspec.reals import make_real
from mxspec_conformance.judge.affine.mistakes import MISTAKES, Stored, list_mistakes
from mxspec_conformance.judge.affine.off_midpoints import list_off_midpoints
from mxspec_conformance.judge.affine.soundness import Fault, find_faults, half_ulp
from mxspec_conformance.judge.check import check
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.errors import TargetError
from mxspec_vectors.affine_cases import load_affine_groups, load_affine_stored
from mxspec_vectors.build_affine import AFFINE_FILES

BIAS, ZERO = "int4-g64-bias-float16", "int4-g32-zero-float16"
#: Formats of which no file is shipped.
OTHERS = ("int4-g128-bias-bfloat16", "int8-g64-zero-bfloat16", "int2-g128-bias-float32")


class Kernel:
    """A target that follows a profile and a contract."""

    NAME, VERSION = "kernel", "1"

    def __init__(self, name: str, profile: str = "", contract: str = "exact", out: str = "float32") -> None:
        self.AFFINE = [name]
        self._operand = read_operand(name)
        self._format = self._operand.format
        self._profile = affine.get_affine_profile(profile or affine.default_affine_profile(self._format))
        self._contract, self._out = affine.get_contract(contract, self._format), out

    def quantize_affine(self, x: Any, fmt: str) -> Any:
        grouped = x.astype(np.float32).reshape(len(x), -1, self._format.group)
        codes, scales, offsets = quantize_groups(grouped, self._format, self._profile)
        return self._operand.give(codes.reshape(x.shape)), scales, offsets

    def dequantize_affine(self, codes: Any, scales: Any, offsets: Any, fmt: str) -> Any:
        plain = self._operand.take(codes)
        grouped = plain.reshape(*scales.shape, self._format.group)
        return dequantize_groups(grouped, scales, offsets, self._format, self._contract, self._out).reshape(plain.shape)


def judged(target: Any) -> Report:
    return check(target, in_process=True)


def failing(report: Report) -> set[str]:
    return {r.id for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.OPEN)}


@pytest.mark.parametrize("name", [BIAS, ZERO, *OTHERS, "int3-g32-bias-float16/words"])
def test_every_profile_passes_and_is_named(name: str) -> None:
    fmt = read_operand(name).format
    for profile in affine.list_affine_profiles(fmt):
        report = judged(Kernel(name, profile.id))
        assert not failing(report), profile.id
        named = report.details["affine"][fmt.name]["quantize_affine"]
        assert named["failing"] == 0
        right = load_affine_groups(fmt.name)
        assert all(np.array_equal(c.answers[named["judged_against"]].codes, c.answers[profile.id].codes) for c in right), profile.id


@pytest.mark.parametrize("out", ["float32", "float16"])
@pytest.mark.parametrize("name", [BIAS, ZERO])
def test_every_contract_passes_and_is_named(name: str, out: str) -> None:
    for contract in affine.list_contracts(name):
        report = judged(Kernel(name, contract=contract.name, out=out))
        assert not failing(report), contract.name
        assert report.details["affine"][name]["dequantize_affine"]["failing"] == 0


def test_what_follows_no_profile_passes_where_it_is_right_under_its_own_scale() -> None:
    """A wider scale, codes from the stored or the unrounded scale, ties to any side."""

    class Wide(Kernel):
        stored, away = True, False

        def quantize_affine(self, x: Any, fmt: str) -> Any:
            g = x.astype(np.float64).reshape(len(x), -1, 64)
            lo, hi = g.min(-1), g.max(-1)
            with np.errstate(all="ignore"):
                wide = (hi - lo) / 15 * 1.03125
                scales = wide.astype(np.float16)
                used = scales.astype(np.float64) if self.stored else wide
                t = np.nan_to_num((g - lo[..., None]) / used[..., None], nan=0, posinf=0)
            q = np.floor(t + 0.5) if self.away else np.rint(t)
            return q.clip(0, 15).astype(np.uint8).reshape(x.shape), scales, lo.astype(np.float16)

    for stored in (True, False):
        for away in (True, False):
            kernel = Wide(BIAS)
            kernel.stored, kernel.away = stored, away
            report = judged(kernel)
            assert not failing(report)
            (profile,) = (r for r in report.requirements if r.topic == "affine-profile")
            assert (profile.verdict, profile.level) == (Verdict.OPEN, "open")
            assert "nearest is affine-minmax" in profile.note


@pytest.mark.parametrize("form", ["reciprocal", "fused", "bias divided"])
def test_float32_in_another_order_is_no_fault(form: str) -> None:
    """Groups far from zero included, where v / s and b / s are large and nearly equal."""

    class Ordered(Kernel):
        def quantize_affine(self, x: Any, fmt: str) -> Any:
            g = x.astype(np.float32).reshape(len(x), -1, 64)
            lo, hi = g.min(-1), g.max(-1)
            with np.errstate(all="ignore"):
                s = (hi - lo) / np.float32(15)
                inverse = np.where(s == 0, np.float32(0), np.float32(1) / s)[..., None]
                if form == "reciprocal":
                    t = (g - lo[..., None]) * inverse
                elif form == "fused":
                    t = (g.astype(np.float64) * inverse - (lo[..., None] * inverse).astype(np.float64)).astype(np.float32)
                else:
                    t = g * inverse - lo[..., None] * inverse
            codes = np.nan_to_num(np.rint(t)).clip(0, 15).astype(np.uint8)
            return codes.reshape(x.shape), s.astype(np.float16), lo.astype(np.float16)

    assert not failing(judged(Ordered(BIAS)))
    random = np.random.default_rng(4)
    x = (1000 + random.standard_normal((300, 64)) * 0.5).astype(np.float16)
    codes, scales, offsets = Ordered(BIAS).quantize_affine(x, BIAS)
    faults = find_faults(x.astype(np.float32), codes, scales[:, 0], offsets[:, 0], affine.get_affine(BIAS))
    assert not any(f.any() for f in faults.values())


def test_a_case_can_be_shown_and_asked_again(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from mxspec_conformance.cli.main import main

    (quantized,) = (c for c in load_affine_groups(BIAS) if c.id.startswith("worked-example"))
    stored = load_affine_stored("int4-g32-zero-bfloat16")[3]
    target = tmp_path / "target.py"
    target.write_text(
        "from mxspec import affine\nAFFINE = ['int4-g64-bias-float16', 'int4-g32-zero-bfloat16']\n"
        "def quantize_affine(x, fmt):\n    t = affine.quantize(x)\n    return t.codes, t.scales, t.biases\n"
        "def dequantize_affine(codes, scales, zeros, fmt):\n"
        "    return affine.dequantize(codes, scales, zeros, fmt, dtype='float16') + WRONG\n"
    )
    for wrong, status in ((0, 0), (1, 1)):
        path = tmp_path / f"target{wrong}.py"
        path.write_text(target.read_text().replace("WRONG", str(wrong)))
        shown = CliRunner().invoke(main, ["show", quantized.id, "--against", str(path)])
        assert (shown.exit_code, "0.08666" in shown.output) == (0, True), shown.output
        shown = CliRunner().invoke(main, ["show", stored.id, "--against", str(path)])
        assert (shown.exit_code, "contract exact" in shown.output) == (status, True), shown.output


def test_a_claim_is_checked() -> None:
    kernel = Kernel(BIAS, "mlx-0.32/affine/cpu", "float16")
    kernel.AFFINE_PROFILE, kernel.AFFINE_CONTRACT = "mlx-0.32/affine/cpu", "float16"  # type: ignore[attr-defined]
    assert not failing(judged(kernel))
    kernel.AFFINE_PROFILE, kernel.AFFINE_CONTRACT = "affine-minmax", "float16-fma"  # type: ignore[attr-defined]
    report = judged(kernel)
    by_topic = {(r.operation, r.topic): r for r in report.requirements}
    assert by_topic["quantize_affine", "mixture"].verdict is Verdict.DEVIATION
    assert by_topic["quantize_affine", "mixture"].explained_by == "mlx-0.32/affine/cpu"
    assert by_topic["dequantize_affine", "affine-rounding"].note == "as contract float16"
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({}, "no AFFINE"),
        ({"AFFINE": ["int4"]}, "such as int4-g64-bias-float16"),
        ({"AFFINE": ["int3-g1-bias-float16/words"]}, "does not fill whole 32-bit words"),
        ({"AFFINE": [ZERO], "AFFINE_PROFILE": "affine-minmax"}, "does not cover"),
        ({"AFFINE": [ZERO], "AFFINE_CONTRACT": "fp16"}, "unknown contract 'fp16'"),
    ],
)
def test_declarations_that_are_none_are_refused(declared: dict[str, Any], words: str) -> None:
    class Target:
        NAME = "target"

        def quantize_affine(self, x: Any, fmt: str) -> Any:
            return None

    target = Target()
    for key, value in declared.items():
        setattr(target, key, value)
    with pytest.raises(TargetError, match=words):
        judged(target)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c, s, o: (c, s), "return \\(codes, scales, biases or zero points\\)"),
        (lambda c, s, o: (c[:, :-1], s, o), "codes have shape"),
        (lambda c, s, o: (c.astype(np.int32), s, o), "or declare int4-g64-bias-float16/words"),
        (lambda c, s, o: (c, s.view(np.uint16), o), "scales have dtype uint16; return float16"),
        (lambda c, s, o: (c, s, o + np.float32(1e-7)), "biases hold .* which float16 does not"),
    ],
)
def test_malformed_answers_are_errors_with_words(change: Callable[..., Any], words: str) -> None:
    class Malformed(Kernel):
        def quantize_affine(self, x: Any, fmt: str) -> Any:
            return change(*super().quantize_affine(x, fmt))

    report = judged(Malformed(BIAS))
    (first, *_) = (r for r in report.requirements if r.operation == "quantize_affine")
    assert first.verdict is Verdict.ERROR
    assert re.search(words, first.note), first.note


def test_torchs_float32_scales_of_bfloat16_values_are_taken() -> None:
    class Wider(Kernel):
        def quantize_affine(self, x: Any, fmt: str) -> Any:
            codes, scales, offsets = super().quantize_affine(x, fmt)
            return codes, scales.astype(np.float32), offsets.astype(np.float32)

    assert not failing(judged(Wider("int4-g64-bias-bfloat16")))


@pytest.mark.parametrize("fmt", [AffineFormat(dtype=d, offset=o) for d in ("float16", "bfloat16") for o in Offset])
def test_a_code_is_wrong_one_step_from_the_interval(fmt: AffineFormat) -> None:
    """Every code beside the nearest ones is accused, no nearest one is."""
    random = np.random.default_rng(11)
    x = random.standard_normal((200, 64)).astype(np.float32)
    rule = affine.default_affine_profile(fmt)
    x = x.astype(fmt.numpy_dtype).astype(np.float32)
    codes, scales, offsets = quantize_groups(x, fmt, rule)
    faults = find_faults(x, codes, scales, offsets, fmt)
    assert not any(f.any() for f in faults.values())
    for step in (-1, 1):
        moved = codes.astype(int) + step
        inside = (moved >= 0) & (moved <= 15)
        found = find_faults(x, moved.clip(0, 15).astype(np.uint8), scales, offsets, fmt)[Fault.CODES]
        z = np.zeros_like(scales, float) if fmt.offset is Offset.BIAS else offsets.astype(float)
        b = offsets.astype(float) if fmt.offset is Offset.BIAS else np.zeros_like(scales, float)
        t = (x - b[:, None]) / scales.astype(float)[:, None] + z[:, None]
        far = inside & (np.abs(t - moved) > 0.6)
        near = np.abs(t - np.rint(t)) > 0.499
        assert found[far].mean() > 0.99
        assert not (found & (np.abs(t - moved) <= 0.5)).any()
        assert near.sum() < found.size


def test_half_an_ulp() -> None:
    for dtype in ("float16", "bfloat16", "float32"):
        fmt = AffineFormat(dtype=dtype)
        scalar = fmt.scalar
        for value in (1.0, 1.5, float(scalar.min_normal), float(scalar.min_subnormal), float(scalar.min_subnormal) * 3, 0.0):
            bits = np.array(value, fmt.numpy_dtype).view(f"u{scalar.bits // 8}") + 1
            above = float(np.asarray(bits).astype(f"u{scalar.bits // 8}").view(fmt.numpy_dtype).astype(np.float64))
            assert half_ulp(np.array(value), fmt) == (above - value) / 2, (dtype, value)


def test_the_vectors_say_what_the_document_says() -> None:
    (case,) = (c for c in load_affine_groups(BIAS) if c.id.startswith("worked-example"))
    assert case.answers["affine-minmax"].codes[:5].tolist() == [0, 2, 7, 10, 15]
    assert case.answers["mlx-0.32/affine/cpu"].codes[:5].tolist() == [15, 12, 8, 4, 0]


@pytest.mark.parametrize("name", AFFINE_FILES)
def test_cases_kill_what_they_are_for(name: str) -> None:
    """Profiles and contracts of a format are told apart, except where they are the same rule in its dtype."""
    groups, stored = load_affine_groups(name), load_affine_stored(name)
    profiles = list(groups[0].answers)
    for i, one in enumerate(profiles):
        for other in profiles[:i]:
            assert any(not np.array_equal(g.answers[one].codes, g.answers[other].codes) or g.answers[one].scale != g.answers[other].scale for g in groups)  # fmt: skip
    distinct = {b"".join(c.values[contract].tobytes() for c in stored) for contract in stored[0].values}
    assert len(distinct) >= 4


def test_mistakes_have_words_of_their_own() -> None:
    """But for those of a group next to the right one: at a row's end that is one of two."""
    twice = [words for words, count in Counter(m.words for m in MISTAKES).items() if count > 1]
    assert len(twice) == 5
    assert all("group" in words for words in twice)


@pytest.mark.parametrize("fmt", ["int4-g64-bias-float32", "int4-g32-zero-float16", "int8-g128-bias-bfloat16"])
def test_groups_beside_midpoints_have_the_answers_of_the_definition(fmt: str) -> None:
    parsed = affine.get_affine(fmt)
    names = tuple(p.id for p in affine.list_affine_profiles(parsed))
    for case in list_off_midpoints(parsed, names):
        assert case.x.shape == (parsed.group,)
        values = [make_real(Fraction(float(v))) for v in case.x]
        for name in names:
            right = quantize_group(values, parsed, affine.get_affine_profile(name))
            assert case.answers[name].codes.tolist() == list(right.codes)


@pytest.mark.parametrize("spoil", [lambda q: q.astype(np.float16), lambda q: q + 1e-3], ids=["quotients in float16", "nearly one half"])
def test_numbers_off_midpoints_are_asked(spoil: Callable[[Any], Any]) -> None:
    def quantize_affine(x: Any, fmt: str) -> Any:
        groups = x.reshape(len(x), -1, 64).astype(np.float64)
        with np.errstate(all="ignore"):
            lo, hi = groups.min(axis=-1), groups.max(axis=-1)
            scales = np.where(hi > lo, (hi - lo) / 15, 1).astype(np.float32)
            biases = lo.astype(np.float32)
            codes = np.nan_to_num(np.clip(np.rint(spoil((groups - biases[..., None]) / scales[..., None])), 0, 15)).astype(np.uint8)
        return codes.reshape(x.shape), scales, biases

    target = SimpleNamespace(NAME="off", VERSION="1", AFFINE=["int4-g64-bias-float32"], quantize_affine=quantize_affine)
    report = check(target, in_process=True, only="quantize_affine/int4-g64-bias-float32/mixture")
    (row,) = [r for r in report.requirements if r.verdict is Verdict.FAIL]
    assert row.id == "quantize_affine/int4-g64-bias-float32/mixture"


def test_a_mistake_that_right_groups_refute_is_not_named() -> None:
    """The scale of equal numbers is zero: read as the other 16-bit float it would be that, too, but others are right."""

    class Zero(Kernel):
        def quantize_affine(self, x: Any, fmt: str) -> Any:
            codes, scales, offsets = super().quantize_affine(x, fmt)
            groups = x.reshape(*scales.shape, -1)
            return codes, np.where((groups == groups[..., :1]).all(axis=2), 0, scales).astype(scales.dtype), offsets

    report = judged(Zero(ZERO))
    (constant,) = [r for r in report.requirements if r.topic == "constant" and r.operation == "quantize_affine"]
    assert constant.verdict is Verdict.FAIL
    assert not constant.note.startswith("as if")


class Spreading(Kernel):
    """A NaN in one group of a larger call is in all of its row, or in all values."""

    def quantize_affine(self, x: Any, fmt: str) -> Any:
        codes, scales, offsets = super().quantize_affine(x, fmt)
        if self.NAME == "rows" and scales.shape[1] > 4:
            scales = np.where(np.isnan(scales.astype(np.float32)).any(axis=1, keepdims=True), scales.dtype.type(np.nan), scales)
        return codes, scales, offsets

    def dequantize_affine(self, codes: Any, scales: Any, offsets: Any, fmt: str) -> Any:
        values = super().dequantize_affine(codes, scales, offsets, fmt)
        return np.full_like(values, np.nan) if self.NAME == "values" and len(values) > 8 and np.isnan(values).any() else values


@pytest.mark.all_calls
@pytest.mark.parametrize("name", ["rows", "values"])
def test_a_nan_of_one_group_stays_there(name: str) -> None:
    kernel = Spreading(BIAS)
    kernel.NAME = name
    assert f"{'quantize' if name == 'rows' else 'dequantize'}_affine/{BIAS}/call-size" in failing(judged(kernel))


def test_a_scale_of_zero_is_not_one_whose_bits_are_read_otherwise() -> None:
    """No group but those of equal numbers is a profile's, so that no right answer refutes a mistake: awq's scale of them vanishes as bfloat16."""
    zero, tiny = np.zeros((1, 1), np.uint8), np.array([[2.0**-20, 0.125]], np.float16)
    right = Stored(np.zeros((1, 2, 32), np.uint8), tiny, np.repeat(zero, 2, axis=1))
    made = dict(list_mistakes(right, read_operand(ZERO).format))["the scale's 16 bits are read as the other 16-bit float"]
    assert np.isnan(made.scales[0, 0])
    assert made.scales[0, 1] not in (0, 0.125)
