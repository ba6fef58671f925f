"""The judge's verdicts on targets written as files: right ones, known bugs, subtle bugs, and what is no answer at all."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

import mxspec
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec.profiles import list_profiles
from mxspec_conformance.judge.check import check
from mxspec_conformance.results.conclusion import conclude
from mxspec_conformance.results.report import Report, load_result_schema
from mxspec_conformance.targets import sessions as sessions
from mxspec_conformance.targets.errors import FailureKind, TargetError
from mxspec_conformance.transports.child import SubprocessSession

#: What targets here start from: the model, and `on_blocks`, which makes `quantize` of a function of blocks [n, k].
PRELUDE = '''
import ml_dtypes
import numpy as np
import mxspec
from dataclasses import replace
from mxspec import Rounding

NAME, VERSION, FORMATS = "target", "1", ["mxfp4"]
ELEMENT = {"mxfp4": "e2m1", "mxfp6_e2m3": "e2m3", "mxfp6_e3m2": "e3m2", "mxfp8_e4m3": "e4m3", "mxfp8_e5m2": "e5m2",
           "mxint8": "int8", "nvfp4": "e2m1"}

def model(x, fmt, profile=None, tensor=None, **options):
    """Codes [n, k] and scale bytes [n] of blocks."""
    t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor, **options)
    return t.codes.copy(), t.scales[:, 0].copy()

def rounding(x, fmt, mode):
    """The model with its elements rounded otherwise."""
    p = mxspec.default_profile(fmt)
    level = replace(p.one_level, element=replace(p.one_level.element, rounding=mode))
    return model(x, fmt, replace(p, one_level=level))

def scaled(x, s):
    """Elements over their block's scale, within float32."""
    with np.errstate(all="ignore"):
        return np.clip(x.astype(np.float64) / 2.0 ** (s.astype(float)[:, None] - 127), -1e30, 1e30)

def given(x, s, fmt):
    """Codes of ordinary blocks under scale bytes; those of blocks with NaN or Inf are the model's."""
    codes = model(x, fmt)[0]
    ordinary = np.isfinite(x).all(axis=1)
    codes[ordinary] = mxspec.encode(scaled(x, s)[ordinary].astype(np.float32), ELEMENT[fmt])
    return codes

def amax(x):
    return np.abs(x).max(axis=1)

def on_blocks(f):
    def quantize(x, fmt):
        k = mxspec.BLOCKS[fmt].k
        codes, scales = f(x.astype(np.float32).reshape(-1, k), fmt)
        return codes.reshape(x.shape), np.asarray(scales).astype(np.uint8).reshape(len(x), -1)
    return quantize
'''


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a target file; returns its path."""
    counter = itertools.count()

    def write_target(source: str, formats: list[str] | None = None, *, prelude: str = PRELUDE) -> str:
        path = tmp_path / f"target_{next(counter)}.py"
        lines = [prelude, textwrap.dedent(source)] + ([f"FORMATS = {formats!r}"] if formats else [])
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    return write_target


def off(report: Report) -> dict[str, str]:
    """Requirements that are neither passed nor unsupported, with their verdicts."""
    return {r.id: r.verdict.value for r in report.requirements if r.verdict not in ("pass", "unsupported")}


def topics_off(report: Report) -> set[str]:
    """operation/topic of what is off, of whatever format."""
    return {"/".join((i.split("/")[0], i.split("/")[2])) for i in off(report)}


def passed(report: Report) -> set[str]:
    """Requirements that pass."""
    return {r.id for r in report.requirements if r.verdict == "pass"}


def note(report: Report, requirement: str) -> str:
    return next(r.note for r in report.requirements if r.id == requirement)


# Five lines

FIVE = """
import mxspec
NAME, VERSION, FORMATS = "five-lines", "1.0", list(mxspec.BLOCKS)
def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes, t.scales
def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt)
encode, decode = mxspec.encode, mxspec.decode
"""
AWAY = """
from dataclasses import replace
import mxspec
NAME, VERSION, FORMATS = "five-lines-away", "1.0", list(mxspec.BLOCKS)
def away(p): return replace(p, one_level=replace(p.one_level, element=replace(p.one_level.element, rounding=mxspec.Rounding.RNA)))
def quantize(x, fmt): return (t := mxspec.quantize(x, fmt, profile=away(mxspec.default_profile(fmt)))).codes, t.scales
def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt)
def encode(x, element): return mxspec.encode(x, element, rounding="rna")
decode = mxspec.decode
"""


def test_five_lines_conform_everywhere(write: Callable[..., str]) -> None:
    """In a child process, as the command does it."""
    report = check(write(FIVE, prelude=""))
    assert off(report) == {}
    assert report.exit_code == 0
    assert report.target["transport"] == "python-child"
    assert [f.format for f in report.formats] == list(BLOCKS)
    for result in report.formats:
        default = mxspec.default_profile(result.format).id
        assert (result.judged_against, result.chosen, result.distance) == (default, "nearest", 0)
        assert default in result.identical_to
        assert result.deviations == []
        assert result.cases > 3000
        assert conclude(result, report.requirements).text == f"conforms to {default}"
    assert {f"{o}/{e}/{t}" for e in ELEMENTS for o, t in (("encode", "tie-even"), ("decode", "code"))} <= passed(report)
    assert {f"quantize/{f}/{t}" for f in BLOCKS for t in ("tie-even", "nan", "inf", "call-size")} <= passed(report)


def test_ties_away_fail_the_ties_and_nothing_else(write: Callable[..., str]) -> None:
    report = check(write(AWAY, prelude=""), in_process=True)
    assert report.exit_code == 1
    assert set(off(report)) == {
        *(f"quantize/{f}/tie-even" for f in BLOCKS),
        *(f"encode/{e}/tie-even" for e in ELEMENTS),
    }
    assert set(off(report).values()) == {"fail"}
    for result in report.formats:
        default = mxspec.default_profile(result.format).id
        assert result.judged_against == default
        assert result.deviations == ["nearest, ties away from zero"]
        words = f"as {default} with elements rounded nearest, ties away from zero"
        assert note(report, f"quantize/{result.format}/tie-even") == words
    for element in ELEMENTS:
        assert note(report, f"encode/{element}/tie-even") == "as rounding rna"


def test_a_failure_shows_what_it_must(write: Callable[..., str]) -> None:
    """Requirement in words, id, input bits, expected and returned bits, the step, a profile that agrees, a snippet."""
    source = "@on_blocks\ndef quantize(x, fmt): return rounding(x, fmt, Rounding.RNZ)"
    report = check(write(source), in_process=True, only="quantize/mxfp4/tie-even")
    (requirement,) = report.requirements
    assert requirement.text == "a quotient midway between two codes goes to the even one"
    assert requirement.level == "must"
    assert requirement.failing_cases
    failure = requirement.first
    assert failure is not None
    assert failure.case in requirement.failing_cases
    differs = [n for n, code in failure.expected["codes"].items() if failure.returned["codes"][n] != code]
    assert len(differs) == 1, "the case is shrunk to the lane that differs"
    assert failure.expected["scale"] == failure.returned["scale"]
    assert len(failure.given["x"]) == 2
    assert any("tie" in step for step in failure.steps)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(failure.snippet, namespace := {})
    answer = namespace["q"]
    lane = int(differs[0].removeprefix("lane "))
    assert f"{int(answer.scales[0]):02x}" == failure.expected["scale"]
    assert f"{int(answer.codes[lane]):02x}" == failure.expected["codes"][differs[0]]
    bits = int(answer_input := namespace["x"][lane])
    assert failure.given["x"][differs[0]].startswith(f"0x{answer_input:08x} = ")
    assert bits & 0x7FFFFFFF
    assert printed.getvalue()


# Known bugs

MX = ["mxfp4", "mxfp8_e4m3"]
NV = ["nvfp4"]
#: Name -> (formats, source, requirements that must be off, those that may be). Names are those of the bug classes.
BUGS: dict[str, tuple[list[str], str, set[str], set[str]]] = {
    "P01 ties away": (
        MX, "@on_blocks\ndef quantize(x, fmt): return rounding(x, fmt, Rounding.RNA)",
        {"quantize/tie-even"}, set(),
    ),
    "P02 truncate": (
        MX, "@on_blocks\ndef quantize(x, fmt): return rounding(x, fmt, Rounding.RTZ)",
        {"quantize/tie-even", "quantize/above-tie", "quantize/mixture", "quantize/subnormal"}, {"quantize/inf"},
    ),
    "P03 element subnormals flushed": (
        ["mxfp8_e4m3"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[(codes & 0x78) == 0] &= 0x80
            return codes, scales
        """,
        {"quantize/subnormal"}, {"quantize/above-tie", "quantize/below-tie", "quantize/tie-even", "quantize/exact"},
    ),
    "P04 one threshold inclusive": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[np.abs(scaled(x, scales)) == 1.25] += 1
            return codes, scales
        """,
        {"quantize/tie-even"}, set(),
    ),
    "P06 rounded to float16 first": (
        MX, """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            ordinary = np.isfinite(x).all(axis=1)
            with np.errstate(all="ignore"):
                half = scaled(x, scales).astype(np.float16).astype(np.float32)
            codes[ordinary] = mxspec.encode(half[ordinary], ELEMENT[fmt])
            return codes, scales
        """,
        {"quantize/below-tie", "quantize/above-tie"}, {"quantize/mixture", "quantize/subnormal"},
    ),
    "P07 e4m3 overflows to NaN": (
        ["mxfp8_e4m3"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[(np.abs(scaled(x, scales)) > 464) & np.isfinite(x)] |= 0x7f
            return codes, scales
        """,
        {"quantize/overflow"}, set(),
    ),
    "P09 clamped to 224": (
        ["mxfp8_e4m3"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            large = ((codes & 0x7f) > 0x76) & np.isfinite(x) & (scales < 255)[:, None]
            codes[large] = codes[large] & 0x80 | 0x76
            return codes, scales
        """,
        {"quantize/overflow", "quantize/exact"},
        {"quantize/tie-even", "quantize/above-tie", "quantize/below-tie", "quantize/mixture", "quantize/position"},
    ),
    "P20 emax not subtracted": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            scales = model(x, fmt)[1]
            ordinary = np.isfinite(x).all(axis=1) & x.any(axis=1)
            scales[ordinary] = np.minimum(scales[ordinary].astype(int) + 2, 254)
            return given(x, scales, fmt), scales
        """,
        {"quantize/scale-boundary", "scale/scale-boundary"},
        {"quantize/scale-clamp", "quantize/position", "quantize/axis"},
    ),
    "P22 float log2": (
        MX, """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            ordinary = np.isfinite(x).all(axis=1) & x.any(axis=1)
            with np.errstate(all="ignore"):
                exponent = np.floor(np.log2(amax(x).astype(np.float64)).astype(np.float32))
            emax = {"mxfp4": 2, "mxfp8_e4m3": 8}[fmt]
            scales[ordinary] = np.clip(exponent[ordinary] - emax + 127, 0, 254)
            return given(x, scales, fmt), scales
        """,
        {"quantize/scale-boundary", "scale/scale-boundary"}, {"quantize/scale-clamp"},
    ),
    "P23 amax of the first half": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            half = x.copy()
            half[:, 16:][np.isfinite(x[:, 16:])] = 0
            scales = model(half, fmt)[1]
            return given(x, scales, fmt), scales
        """,
        {"quantize/position", "scale/scale-boundary"},
        {"quantize/scale-boundary", "quantize/scale-clamp", "quantize/inf", "quantize/nan"},
    ),
    "P24 amax without abs": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            scales = model(np.where(x < 0, np.float32(0), x), fmt)[1]
            return given(x, scales, fmt), scales
        """,
        {"quantize/position", "scale/scale-boundary"},
        {"quantize/scale-boundary", "quantize/scale-clamp", "quantize/inf", "quantize/nan"},
    ),
    "P25 scale byte wraps": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            scales = model(x, fmt)[1].astype(int)
            low = (amax(x) < 2.0**-125) & x.any(axis=1)
            scales[low] = (np.frexp(amax(x)[low])[1] - 1 - 2 + 127) % 256
            return given(x, scales, fmt), scales
        """,
        {"quantize/scale-clamp"}, {"scale/scale-boundary", "quantize/scale-boundary", "quantize/mixture"},
    ),
    "P26 amax in float16": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            ordinary = np.isfinite(x).all(axis=1) & x.any(axis=1)
            with np.errstate(all="ignore"):
                held = amax(x).astype(np.float16).astype(np.float32)
            field = (held.view(np.uint32) >> 23).astype(int)
            scales[ordinary] = np.clip(field - 2, 0, 254)[ordinary]
            return given(x, scales, fmt), scales
        """,
        {"quantize/scale-clamp", "quantize/scale-boundary", "scale/scale-boundary"}, {"quantize/mixture"},
    ),
    "P34 zero block gives the largest code": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[~x.any(axis=1)] = 7
            return codes, scales
        """,
        {"quantize/zero-block"}, {"quantize/zero-sign"},
    ),
    "P35 NaN ignored": (
        MX, "@on_blocks\ndef quantize(x, fmt): return model(np.where(np.isnan(x), np.float32(0), x), fmt)",
        {"quantize/nan"}, {"quantize/position"},
    ),
    "P36 inputs flushed": (
        ["mxfp8_e4m3"], """
        @on_blocks
        def quantize(x, fmt):
            return model(np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x), fmt)
        """,
        {"quantize/subnormal", "quantize/exact"},
        {"quantize/tie-even", "quantize/below-tie", "quantize/above-tie", "quantize/mixture", "quantize/scale-clamp"},
    ),
    "P37 amax at least 1e-5": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            tiny = (amax(x) < 1e-5) & np.isfinite(x).all(axis=1)
            scales[tiny] = 127 - 17 - 2
            return given(x, scales, fmt), scales
        """,
        {"quantize/scale-clamp", "quantize/scale-boundary", "scale/scale-boundary"}, {"quantize/mixture"},
    ),
    "P64 int8 truncates": (
        ["mxint8"], "@on_blocks\ndef quantize(x, fmt): return rounding(x, fmt, Rounding.RTZ)",
        {"quantize/tie-even", "quantize/above-tie", "quantize/mixture"}, {"quantize/inf", "quantize/subnormal"},
    ),
    "P10 exponent field 0 decoded as a normal": (
        ["mxfp4"], """
        def dequantize(codes, scales, fmt):
            values = mxspec.dequantize(codes, scales, fmt)
            values[(codes & 7) == 1] *= 1.5
            return values
        """,
        {"dequantize/code"}, {"dequantize/scale-code"},
    ),
    "P11 e4m3 7F decoded as 480": (
        ["mxfp8_e4m3"], """
        def dequantize(codes, scales, fmt):
            with np.errstate(over="ignore"):
                best = mxspec.dequantize(np.where((codes & 0x7f) == 0x7f, codes - 1, codes).astype(np.uint8), scales, fmt)
                return np.where((codes & 0x7f) == 0x7f, best / 448 * 480, best).astype(np.float32)
        """,
        {"dequantize/code"}, {"dequantize/scale-code"},
    ),
    "P13 negative zero lost": (
        ["mxfp4"], "def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt) + np.float32(0)",
        {"dequantize/zero-sign"}, set(),
    ),
    "P29 byte 0 is zero": (
        ["mxfp4"], """
        def dequantize(codes, scales, fmt):
            zero = np.repeat(scales == 0, 32, axis=1)
            return np.where(zero, np.float32(0), mxspec.dequantize(codes, scales, fmt))
        """,
        {"dequantize/scale-code"}, {"dequantize/zero-sign"},
    ),
    "P30 byte FF is infinity": (
        ["mxfp4"], """
        def dequantize(codes, scales, fmt):
            values = mxspec.dequantize(codes, scales, fmt)
            values[np.repeat(scales == 255, 32, axis=1)] = np.inf
            return values
        """,
        {"dequantize/scale-code"}, set(),
    ),
    "P31 bias 128": (
        MX, """
        def dequantize(codes, scales, fmt):
            with np.errstate(all="ignore"):
                return mxspec.dequantize(codes, scales, fmt) * np.float32(0.5)
        """,
        {"dequantize/scale-code"}, set(),
    ),
    "P63 int8 without its 2**-6": (
        ["mxint8"], """
        def dequantize(codes, scales, fmt):
            with np.errstate(all="ignore"):
                return mxspec.dequantize(codes, scales, fmt) * np.float32(64)
        """,
        {"dequantize/scale-code"}, set(),
    ),
    "P65 int8 unsigned": (
        ["mxint8"], """
        def decode(codes, element):
            return codes.astype(np.float32) / 64
        """,
        {"decode/code"}, set(),
    ),
    "P67 only the first 128 blocks": (
        ["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[128:] = 0
            scales[128:] = 0
            return codes, scales
        """,
        {"quantize/call-size", "scale/scale-boundary"}, {"*"},
    ),
    "P40 tensor scale ignored": (
        NV, """
        TENSOR_SCALE = "amax"
        def quantize(x, fmt, tensor_scale=None):
            return (t := mxspec.quantize(x, fmt)).codes, t.scales
        """,
        {"quantize/tensor-scale", "quantize/scale-tie", "scale/scale-tie"}, {"*"},
    ),
    "P41 block scale truncated": (
        NV, """
        def quantize(x, fmt):
            p = mxspec.default_profile(fmt)
            level = replace(p.one_level, scale=replace(p.one_level.scale, rounding=Rounding.RTZ))
            return (t := mxspec.quantize(x, fmt, profile=replace(p, one_level=level))).codes, t.scales
        """,
        {"scale/scale-tie"},
        {"quantize/scale-tie", "quantize/scale-clamp", "quantize/position", "quantize/overflow", "quantize/mixture",
         "quantize/subnormal", "quantize/inf", "quantize/nan"},
    ),
    "P43 times a reciprocal": (
        NV, """
        def quantize(x, fmt):
            t = mxspec.quantize(x, fmt)
            codes, values = t.codes.copy(), mxspec.decode(t.scales, "ue4m3")
            with np.errstate(all="ignore"):
                sixth = np.float32(1) / (values * np.float32(3))
                y = x * np.repeat(sixth, 16, axis=1) * np.float32(3)
            usual = np.isfinite(y) & np.isfinite(x)
            codes[usual] = mxspec.encode(y[usual].astype(np.float32), "e2m1")
            return codes, t.scales
        """,
        {"quantize/tie-even"}, {"*"},
    ),
    "P46 tensor scale twice": (
        NV, """
        TENSOR_SCALE = "amax"
        def dequantize(codes, scales, fmt, tensor_scale=None):
            if tensor_scale is None:
                return mxspec.dequantize(codes, scales, fmt)
            with np.errstate(all="ignore"):
                g = np.float32(np.float32(tensor_scale) / np.float32(2688))
                scale = mxspec.TensorScale.from_float("amax", tensor_scale)
                return mxspec.dequantize(codes, scales, fmt, tensor_scale=scale) * g
        """,
        {"dequantize/tensor-scale"}, {"dequantize/zero-sign"},
    ),
    "P61 stochastic never up": (
        ["mxfp4"], """
        def encode_stochastic(x, element, random_bits):
            return mxspec.encode(x, element, rounding="rtz")
        """,
        {"stochastic/random-bits"}, set(),
    ),
    "P62 stochastic inverted": (
        ["mxfp4"], """
        def encode_stochastic(x, element, random_bits):
            return mxspec.encode(x, element, rounding="sr", random_bits=~random_bits)
        """,
        {"stochastic/random-bits"}, set(),
    ),
    "P66 tensor amax in bfloat16": (
        NV, """
        TENSOR_SCALE = "amax"
        def tensor_scale(x, fmt):
            with np.errstate(all="ignore"):
                return float(np.abs(x).max().astype(ml_dtypes.bfloat16))
        """,
        {"tensor_scale/tensor-scale"}, set(),
    ),
    "P58 wrong axis": (
        ["mxfp4"], """
        def quantize(x, fmt, axis=-1):
            if axis == -1 or x.shape[0] != x.shape[1]:
                t = mxspec.quantize(x, fmt, axis=axis)
                return t.codes, t.scales
            t = mxspec.quantize(x, fmt, axis=-1)
            return t.codes, np.ascontiguousarray(t.scales.T)
        """,
        {"quantize/axis"}, {"quantize/exact", "quantize/overflow", "quantize/subnormal"},
    ),
    "P59 tail dropped": (
        ["mxfp4"], """
        def quantize(x, fmt, pad=False):
            t = mxspec.quantize(np.ascontiguousarray(x[:, : x.shape[1] // 32 * 32]), fmt)
            return t.codes, t.scales
        """,
        {"quantize/tail"}, set(),
    ),
    "P60 tail repeats the edge": (
        ["mxfp4"], """
        def quantize(x, fmt, pad=False):
            t = mxspec.quantize(np.pad(x, ((0, 0), (0, -x.shape[1] % 32)), mode="edge"), fmt)
            return t.codes, t.scales
        """,
        {"quantize/tail"}, set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found_where_it_is(write: Callable[..., str], name: str) -> None:
    formats, source, needed, allowed = BUGS[name]
    report = check(write(source, formats), in_process=True)
    assert report.exit_code == 1
    for fmt in formats:
        mine = {"/".join((i.split("/")[0], i.split("/")[2])) for i in off(report) if fmt in i} or topics_off(report)
        assert needed <= mine, f"{fmt}: {mine}"
        if "*" not in allowed:
            # The cases of the last axis are rows of ordinary blocks.
            flooded = mine - needed - allowed - {"quantize/axis"}
            assert flooded == set(), fmt
    assert passed(report) or needed == topics_off(report)


@pytest.mark.parametrize("profile", ["mx-rceil", "mx-even", "mx-ceil"])
def test_another_scale_rule_is_no_bug(write: Callable[..., str], profile: str) -> None:
    """The scale rule is only recommended: the nearest normative profile is found; asked for floor, it deviates."""
    path = write(f"@on_blocks\ndef quantize(x, fmt): return model(x, fmt, {profile!r})", ["mxfp4", "mxfp8_e5m2"])
    report = check(path, in_process=True)
    assert (report.exit_code, off(report)) == (0, {})
    assert {f.judged_against for f in report.formats} == {profile}
    asked = check(path, in_process=True, profile="mx-floor", formats=["mxfp4"])
    assert asked.formats[0].chosen == "asked"
    assert asked.exit_code == 1
    about_scales = {"quantize/scale-boundary", "quantize/scale-clamp", "scale/scale-boundary"}
    assert topics_off(asked) <= about_scales | {"quantize/position", "quantize/axis"}
    assert off(asked)["scale/mxfp4/scale-boundary"] == "deviation"
    assert note(asked, "scale/mxfp4/scale-boundary") == f"as {profile}"


def test_one_wrong_scale_byte_is_one_finding(write: Callable[..., str]) -> None:
    """One block of all gets twice its scale, its codes with it: one requirement, one case."""
    source = """
    @on_blocks
    def quantize(x, fmt):
        codes, scales = model(x, fmt)
        hit = (x[:, 0] == np.float32(5)) & (amax(x) == 5)
        scales[hit] += 1
        return given(x, scales, fmt), scales
    """
    report = check(write(source), in_process=True)
    assert set(off(report)) == {"quantize/mxfp4/position"}
    (requirement,) = [r for r in report.requirements if r.id in off(report)]
    assert requirement.failing == 1
    assert report.formats[0].distance == 1


LOG2 = """
@on_blocks
def quantize(x, fmt):
    codes, scales = model(x, fmt, {rule!r})
    bits = amax(x).view(np.uint32)
    beside = ((bits + np.uint32({ahead})) & 0x7fffff) < {count}
    hit = beside & (bits >= 0x10000000) & (bits < 0x7f000000)
    scales[hit] = scales[hit] + np.uint8({step})
    return given(x, scales, fmt), scales
"""


@pytest.mark.parametrize(
    ("rule", "ahead", "count", "step", "words"),
    [
        ("mx-floor", 1, 1, 1, "floor of a float log2: one too high just below some powers of two"),
        ("mx-floor", 9, 9, 1, "floor of a float log2: one too high just below some powers of two"),
        ("mx-ceil", -1, 1, 255, "ceil of a float log2: one too low just above some powers of two"),
        ("mx-floor", 0x60000, 0x60000, 1, None),
        ("mx-floor", 1, 1, 255, None),
    ],
    ids=["the float below", "nine floats below", "the float above", "much of the binade", "the other way"],
)
def test_scales_by_a_float_log2_are_named(
    write: Callable[..., str], rule: str, ahead: int, count: int, step: int, words: str | None
) -> None:
    """Wrong scales only next to powers of two, where no profile has them: the profile stays, the cause is named."""
    source = LOG2.format(rule=rule, ahead=ahead % 2**32, count=count, step=step)
    report = check(write(source, ["mxfp4", "mxfp8_e5m2"]), in_process=True)
    assert report.exit_code == 1
    assert [f.judged_against for f in report.formats] == [rule, rule]
    assert topics_off(report) <= {"quantize/scale-boundary", "quantize/scale-clamp", "scale/scale-boundary"}
    assert "scale/scale-boundary" in topics_off(report)
    for result in report.formats:
        found = [d for d in result.deviations if "float log2" in d]
        assert found == ([] if words is None else [f"scale: {words}"])
        assert result.identical_to == []
    assert not any(r.note.startswith("as mx-") for r in report.requirements), "another rule explains it by chance alone"


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3"])
def test_scales_by_the_float_log2_of_a_library_are_named(write: Callable[..., str], fmt: str) -> None:
    report = check(write(BUGS["P22 float log2"][1], [fmt]), in_process=True, only="*/mx*/scale-*")
    (result,) = report.formats
    assert result.judged_against == "mx-floor"
    words = "scale: floor of a float32 log2: one too high just below some powers of two"
    assert result.deviations == [words]


# Subtle bugs

#: Source, and the requirements of which at least one must be off.
SUBTLE: dict[str, tuple[list[str], str, set[str]]] = {
    "one scale for a row of blocks": (["mxfp4"], """
        def quantize(x, fmt):
            t = mxspec.quantize(x, fmt)
            return t.codes, np.repeat(t.scales[:, :1], t.scales.shape[1], axis=1)
        """, {"quantize/call-size"}),
    "tiles of swizzled scales in the wrong order": (["mxfp4"], """
        LAYOUT = ["nibble-low", "128x4"]
        def quantize(x, fmt):
            t = mxspec.quantize(x, fmt)
            rows, columns = (-(-n // m) for n, m in zip(t.scales.shape, (128, 4)))
            padded = np.zeros((rows * 128, columns * 4), np.uint8)
            padded[: t.scales.shape[0], : t.scales.shape[1]] = t.scales
            tiles = padded.reshape(rows, 4, 32, columns, 4).transpose(3, 0, 2, 1, 4)
            return t.codes[:, ::2] | t.codes[:, 1::2] << 4, np.ascontiguousarray(tiles).reshape(-1)
        """, {"quantize/call-size"}),
    "two blocks swapped in large calls": (["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            if len(x) > 1000:
                codes[[700, 701]], scales[[700, 701]] = codes[[701, 700]], scales[[701, 700]]
            return codes, scales
        """, {"quantize/call-size", "scale/scale-boundary"}),
    "one tie of one sign": (["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[scaled(x, scales) == -5] = 0xf
            return codes, scales
        """, {"quantize/tie-even"}),
    "the last lane is not in the maximum": (["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            rest = x.copy()
            rest[:, 31][np.isfinite(x[:, 31])] = 0
            scales = model(rest, fmt)[1]
            return given(x, scales, fmt), scales
        """, {"quantize/position"}),
    "NaN found in the first half only": (["mxfp8_e4m3"], """
        @on_blocks
        def quantize(x, fmt):
            seen = x.copy()
            seen[:, 16:][np.isnan(x[:, 16:])] = 0
            return model(seen, fmt)
        """, {"quantize/nan"}),
    "underflow loses its sign": (["mxfp6_e3m2"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[(codes == 0x20) & (x != 0)] = 0
            return codes, scales
        """, {"quantize/zero-sign"}),
    "e5m2 overflows to infinity": (["mxfp8_e5m2"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[(np.abs(scaled(x, scales)) >= 61440) & np.isfinite(x) & ((codes & 0x7f) == 0x7b)] += 1
            return codes, scales
        """, {"quantize/overflow"}),
    "int8 goes to 80 too early": (["mxint8"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[(scaled(x, scales) * 64 < -127) & (scales < 255)[:, None]] = 0x80
            return codes, scales
        """, {"quantize/overflow"}),
    "int8 81 is encoded as 80": (["mxint8"], """
        def encode(x, element):
            codes = mxspec.encode(x, element)
            codes[codes == 0x81] = 0x80
            return codes
        """, {"encode/exact"}),
    "int8 half up in float32": (["mxint8"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            steps = (scaled(x, scales) * 64).astype(np.float32)
            whole = np.copysign(np.floor(np.abs(steps) + np.float32(0.5)), steps)
            ordinary = np.isfinite(x).all(axis=1)
            codes[ordinary] = np.clip(whole, -127, 127)[ordinary].astype(np.int64).astype(np.uint8)
            return codes, scales
        """, {"quantize/below-tie"}),
    "the block of zeros is NaN": (["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            scales[~x.any(axis=1)] = 255
            return codes, scales
        """, {"quantize/zero-block"}),
    "EVEN leaves its own threshold out": (["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt, "mx-even")
            low = model(x, fmt, "mx-floor")
            at = (amax(x).astype(np.float32).view(np.uint32) & 0x7fffff) == 0x600000
            codes[at], scales[at] = low[0][at], low[1][at]
            return codes, scales
        """, {"scale/scale-boundary"}),
    "one scale byte decodes wrong": (["mxfp6_e2m3"], """
        def dequantize(codes, scales, fmt):
            values = mxspec.dequantize(codes, scales, fmt)
            values[np.repeat(scales == 254, 32, axis=1)] *= np.float32(0.5)
            return values
        """, {"dequantize/scale-code"}),
    "31 random bits": (["mxfp4"], """
        def encode_stochastic(x, element, random_bits):
            return mxspec.encode(x, element, rounding="sr", random_bits=random_bits & np.uint32(0xfffffffe))
        """, {"stochastic/random-bits"}),
    "24 random bits": (["mxfp8_e4m3"], """
        def encode_stochastic(x, element, random_bits):
            return mxspec.encode(x, element, rounding="sr", random_bits=random_bits & np.uint32(0xffffff00))
        """, {"stochastic/random-bits"}),
    "bfloat16 goes another way": (["mxfp4"], """
        DTYPES = ["float32", "bfloat16"]
        def quantize(x, fmt):
            t = mxspec.quantize(x, fmt)
            codes = t.codes.copy()
            if x.dtype != np.float32:
                codes[(codes & 7) == 7] -= 1
            return codes, t.scales
        """, {"quantize/exact", "quantize/mixture", "quantize/overflow"}),
    "the answer depends on chance": (["mxfp4"], """
        import random
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            codes[0, 0] ^= random.random() < 0.5
            return codes, scales
        """, {"quantize/call-size"}),
    "answers kept by the shape of the input": (["mxfp4"], """
        kept = {}
        def quantize(x, fmt):
            t = mxspec.quantize(x, fmt)
            return kept.setdefault(x.shape, (t.codes, t.scales))
        """, {"quantize/call-size"}),
    "16 x 16 blocks take one row": (["nvfp4"], """
        TENSOR_SCALE = "amax"
        def quantize(x, fmt, tensor_scale=None, block=None):
            scale = None if tensor_scale is None else mxspec.TensorScale.from_float("amax", tensor_scale)
            t = mxspec.quantize(x, fmt, tensor_scale=scale)
            return t.codes, t.scales
        """, {"quantize/position"}),
    "the tensor scale is rounded to bfloat16": (["nvfp4"], """
        TENSOR_SCALE = "amax"
        def dequantize(codes, scales, fmt, tensor_scale=None):
            if tensor_scale is None:
                return mxspec.dequantize(codes, scales, fmt)
            short = float(np.float32(tensor_scale).astype(ml_dtypes.bfloat16))
            return mxspec.dequantize(codes, scales, fmt, tensor_scale=mxspec.TensorScale.from_float("amax", short))
        """, {"dequantize/tensor-scale"}),
    "codes with bits beyond their width": (["mxfp4"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            return codes | 0xf0, scales
        """, {"quantize/mixture"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SUBTLE)
def test_a_subtle_bug_does_not_pass(write: Callable[..., str], name: str) -> None:
    formats, source, expected = SUBTLE[name]
    report = check(write(source, formats), in_process=True)
    assert report.exit_code == 1
    assert topics_off(report) & expected, f"only {topics_off(report)}"
    assert not [f for f in report.formats if conclude(f, report.requirements).text.startswith("conforms")] or any(
        i.split("/")[1] not in formats for i in off(report)
    )


# Right but unusual

INTEGERS = '''
"""Integers alone: shifts and comparisons on the bits of float32; no floating-point arithmetic."""
import numpy as np
NAME, VERSION, FORMATS, ELEMENTS = "integers", "1", ["mxfp4"], []

def quantize(x, fmt):
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.int64).reshape(-1, 32)
    sign, magnitude = bits >> 31, bits & 0x7fffffff
    largest = magnitude.max(axis=1, keepdims=True)
    infinite = largest == 0x7f800000
    scale = np.where(infinite, 254, np.maximum((largest >> 23) - 2, 0))
    exponent = magnitude >> 23
    significand = np.where(exponent > 0, magnitude & 0x7fffff | 1 << 23, magnitude & 0x7fffff)
    # The value over the scale is significand * 2**shift in units of 2**-24 (a half of the smallest element is 2**22).
    shift = np.clip(np.maximum(exponent, 1) - scale + 1, -40, 4)
    fixed = np.where(shift >= 0, significand << np.maximum(shift, 0), significand >> np.maximum(-shift, 0))
    lost = (shift < 0) & ((significand & ((1 << np.maximum(-shift, 0)) - 1)) != 0)
    fixed = fixed << 1 | lost  # a sticky bit below, so that ties are told from what lies just above them
    limits = [(0.25, 0), (0.75, 1), (1.25, 0), (1.75, 1), (2.5, 0), (3.5, 1), (5, 0)]
    code = sum((fixed > int(v * 2**25)) | ((fixed == int(v * 2**25)) & bool(up)) for v, up in limits)
    code = np.where(magnitude == 0x7f800000, 7, code) | sign << 3
    nan = (magnitude > 0x7f800000).any(axis=1, keepdims=True)
    code, scale = np.where(nan, 0, code), np.where(nan, 255, scale)
    return code.astype(np.uint8).reshape(x.shape), scale.astype(np.uint8).reshape(len(x), -1)
'''
REVERSED = """
def quantize(x, fmt):
    k = mxspec.BLOCKS[fmt].k
    codes, scales = np.empty(x.shape, np.uint8), np.empty((len(x), x.shape[1] // k), np.uint8)
    for i in reversed(range(scales.shape[0])):
        for j in reversed(range(scales.shape[1])):
            t = mxspec.quantize(np.ascontiguousarray(x[i, j * k : (j + 1) * k][::-1]), fmt)
            codes[i, j * k : (j + 1) * k], scales[i, j] = t.codes[::-1], t.scales[0]
    return codes, scales
"""
DOUBLE = """
@on_blocks
def quantize(x, fmt):
    wide = x.astype(np.float64)
    largest = np.abs(wide).max(axis=1)
    emax = {"mxfp4": 2, "mxfp8_e5m2": 15}[fmt]
    exponent = np.where(np.isfinite(largest), np.frexp(largest)[1] - 1, 128)
    scales = np.clip(np.where(largest == 0, -127, exponent - emax), -127, 127)
    table = mxspec.decode(np.arange(128 if fmt == "mxfp8_e5m2" else 8, dtype=np.uint8), ELEMENT[fmt]).astype(np.float64)
    table = table[np.isfinite(table)]
    quotient = np.abs(wide) * 2.0 ** -scales[:, None]
    upper = np.clip(np.searchsorted(table, quotient), 0, len(table) - 1)
    lower = np.maximum(upper - 1, 0)
    down, up = quotient - table[lower], table[upper] - quotient
    code = np.where((down < up) | ((down == up) & (lower % 2 == 0)), lower, upper)
    code |= np.signbit(wide).astype(code.dtype) << (7 if fmt == "mxfp8_e5m2" else 3)
    nan = np.isnan(wide).any(axis=1)
    return np.where(nan[:, None], 0, code).astype(np.uint8), np.where(nan, 255, scales + 127)
"""
LOWEST = """
@on_blocks
def quantize(x, fmt):
    codes, scales = model(x, fmt)
    with np.errstate(all="ignore"):
        below = x.astype(np.float64) / 2.0 ** (scales.astype(float)[:, None] - 127) <= -127.5 / 64
    codes[below & (scales < 255)[:, None]] = 0x80
    return codes, scales

def encode(x, element):
    return np.where(x <= -127.5 / 64, np.uint8(0x80), mxspec.encode(x, element))

def encode_stochastic(x, element, random_bits):
    steps = np.clip(-np.nan_to_num(x).astype(np.float64) * 64, 0, 128)
    up = np.floor((steps - 127) * 2.0**32) + random_bits >= 2.0**32
    codes = mxspec.encode(x, element, rounding="sr", random_bits=random_bits)
    return np.where((steps >= 128) | (up & (steps > 127)), np.uint8(0x80), codes)
"""
RIGHT: dict[str, tuple[list[str], str]] = {
    "integers alone": (["mxfp4"], INTEGERS),
    "from the last block to the first": (["mxfp4"], REVERSED),
    "float64 inside": (["mxfp4", "mxfp8_e5m2"], DOUBLE),
    "int8 down to 80": (["mxint8"], LOWEST),
    "signed bytes": (["mxfp4"], """
        def quantize(x, fmt):
            t = mxspec.quantize(x, fmt)
            return t.codes.view(np.int8), t.scales.view(np.int8)
        """),
    "read-only and strided answers": (["mxfp4"], """
        def quantize(x, fmt):
            t = mxspec.quantize(x, fmt)
            codes = np.asfortranarray(t.codes)
            codes.flags.writeable = False
            return codes, np.stack([t.scales, t.scales], axis=-1)[..., 0]
        """),
    "blocks shuffled and put back": (["mxfp6_e2m3"], """
        @on_blocks
        def quantize(x, fmt):
            order = np.random.default_rng().permutation(len(x))
            codes, scales = model(x[order], fmt)
            back = np.argsort(order)
            return codes[back], scales[back]
        """),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_but_unusual_passes(write: Callable[..., str], name: str) -> None:
    formats, source = RIGHT[name]
    report = check(write(source, formats, prelude="" if source is INTEGERS else PRELUDE), in_process=True)
    assert (off(report), report.exit_code) == ({}, 0)
    assert [(f.judged_against, f.distance) for f in report.formats] == [("mx-floor", 0)] * len(formats)


# What OCP leaves open

OPEN: dict[str, tuple[list[str], str]] = {
    "NaN block FF with any codes": (["mxfp4", "mxfp8_e4m3", "mxint8"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            nan = np.isnan(x).any(axis=1)
            codes[nan] = np.arange(32) % (16 if fmt == "mxfp4" else 256)
            return codes, scales
        """),
    "fp8: the NaN lane alone": (["mxfp8_e4m3", "mxfp8_e5m2"], """
        @on_blocks
        def quantize(x, fmt):
            nan = np.isnan(x)
            codes, scales = model(np.where(nan, np.float32(0), x), fmt)
            return np.where(nan, np.uint8(0xff), codes), scales
        """),
    "Inf block FF": (["mxfp4", "mxfp8_e5m2"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            scales[np.isinf(x).any(axis=1)] = 255
            return codes, scales
        """),
    "Inf by the exponent of 2**128": (["mxfp4", "mxfp6_e3m2", "mxfp8_e4m3"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            infinite = np.isinf(x).any(axis=1) & ~np.isnan(x).any(axis=1)
            scales[infinite] = 255 - mxspec.ELEMENTS[ELEMENT[fmt]].emax
            rest = scaled(x, scales)[infinite].astype(np.float32)
            codes[infinite] = mxspec.encode(rest, ELEMENT[fmt])
            return codes, scales
        """),
    "e5m2: the lane Inf": (["mxfp8_e5m2"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            lanes = np.isinf(x) & (scales < 255)[:, None]
            codes[lanes] = codes[lanes] & 0x80 | 0x7c
            return codes, scales
        """),
    "any scale for zeros": (["mxfp4", "mxfp8_e4m3"], """
        @on_blocks
        def quantize(x, fmt):
            codes, scales = model(x, fmt)
            zero = ~x.any(axis=1)
            scales[zero] = np.arange(zero.sum()) * 7 % 255
            return codes, scales
        """),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_what_ocp_leaves_open_passes(write: Callable[..., str], name: str) -> None:
    formats, source = OPEN[name]
    report = check(write(source, formats), in_process=True)
    assert (off(report), report.exit_code) == ({}, 0)
    for result in report.formats:
        assert conclude(result, report.requirements).text == "conforms to mx-floor"


# Capabilities

PACKED = """
LAYOUT = {layout!r}
def nibbles(codes): return codes[:, ::2] | codes[:, 1::2] << 4
def tile(scales):
    rows, columns = -(-scales.shape[0] // 128), -(-scales.shape[1] // 4)
    padded = np.zeros((rows * 128, columns * 4), np.uint8)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    return padded.reshape(rows, 4, 32, columns, 4).transpose(0, 3, 2, 1, 4).reshape({shape})
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt)
    return {codes}, {scales}
"""


@pytest.mark.parametrize(
    ("layout", "codes", "scales", "shape"),
    [
        ("nibble-low", "nibbles(t.codes)", "t.scales", "-1"),
        ("128x4", "t.codes", "tile(t.scales)", "-1"),
        (["nibble-low", "128x4"], "nibbles(t.codes)", "tile(t.scales)", "rows * 128, columns * 4"),
    ],
    ids=["nibble-low", "128x4", "both"],
)
def test_layouts(write: Callable[..., str], layout: Any, codes: str, scales: str, shape: str) -> None:
    source = PACKED.format(layout=layout, codes=codes, scales=scales, shape=shape)
    report = check(write(source, ["mxfp4", "nvfp4"]), in_process=True)
    assert (off(report), report.exit_code) == ({}, 0)
    assert {"quantize/mxfp4/call-size", "quantize/nvfp4/call-size"} <= passed(report)


UNPACKED = """
seen = set()
LAYOUT = {layout!r}
def codes_of(data):
    assert data.dtype == np.uint8 and data.max(initial=0) < {limit}
    return {codes}
def scales_of(data, rows, columns):
    assert data.dtype == np.uint8
    tiles = -(-rows // 128), -(-columns // 4)
    if {swizzled}:
        assert data.size == 512 * tiles[0] * tiles[1]
        whole = data.reshape(*tiles, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(tiles[0] * 128, tiles[1] * 4)
        assert not whole[rows:].any() and not whole[:, columns:].any(), "padding is zero"
        data = np.ascontiguousarray(whole[:rows, :columns])
    assert data.shape == (rows, columns)
    return data
def dequantize(codes, scales, fmt, tensor_scale=None):
    codes = codes_of(codes)
    scales = scales_of(scales, len(codes), codes.shape[1] // mxspec.BLOCKS[fmt].k)
    scale = None if tensor_scale is None else mxspec.TensorScale.from_float("amax", tensor_scale)
    return mxspec.dequantize(codes, scales, fmt, tensor_scale=scale)
TENSOR_SCALE = "amax"
"""


@pytest.mark.parametrize("layout", ["nibble-low", "128x4", ["nibble-low", "128x4"]], ids=str)
def test_dequantize_gets_its_inputs_in_its_layout(write: Callable[..., str], layout: Any) -> None:
    """As `test_layouts`, the other way: also with more than one tile of scales, and with tensor scales."""
    packed = "np.stack([data & 15, data >> 4], axis=-1).reshape(len(data), -1)"
    nibbles = "nibble-low" in layout
    source = UNPACKED.format(
        layout=layout, limit=256 if nibbles else 16, codes=packed if nibbles else "data", swizzled="128x4" in layout
    )
    report = check(write(source, ["mxfp4", "nvfp4"]), in_process=True)
    assert (off(report), report.exit_code) == ({}, 0)
    assert {f"dequantize/{f}/{t}" for f in ("mxfp4", "nvfp4") for t in ("code", "scale-code", "call-size")} <= passed(
        report
    )
    assert "dequantize/nvfp4/tensor-scale" in passed(report)


def test_dequantize_with_nibbles_the_wrong_way_round(write: Callable[..., str]) -> None:
    packed = "np.stack([data >> 4, data & 15], axis=-1).reshape(len(data), -1)"
    source = UNPACKED.format(layout="nibble-low", limit=256, codes=packed, swizzled=False)
    report = check(write(source), in_process=True)
    assert report.exit_code == 1
    assert {"dequantize/mxfp4/code", "dequantize/mxfp4/scale-code"} & set(off(report))


def test_wrong_nibble_order_does_not_pass(write: Callable[..., str]) -> None:
    source = PACKED.format(
        layout="nibble-low", codes="nibbles(t.codes[:, ::-1])[:, ::-1]", scales="t.scales", shape="-1"
    )
    report = check(write(source), in_process=True)
    assert report.exit_code == 1
    assert "quantize/mxfp4/exact" in off(report)
    assert not any("scale" in i for i in off(report)), "the scales are right"


TENSOR = """
TENSOR_SCALE, FOLLOWED = {kind!r}, {profile!r}
def tensor(g): return None if g is None else mxspec.TensorScale.from_float(TENSOR_SCALE, g)
def quantize(x, fmt, tensor_scale=None):
    t = mxspec.quantize(x, fmt, profile=FOLLOWED, tensor_scale=tensor(tensor_scale))
    return t.codes, t.scales
def dequantize(codes, scales, fmt, tensor_scale=None):
    return mxspec.dequantize(codes, scales, fmt, profile=FOLLOWED, tensor_scale=tensor(tensor_scale))
def tensor_scale(x, fmt): return mxspec.tensor_scale(x, fmt, FOLLOWED).value
"""


@pytest.mark.parametrize(
    ("kind", "profile"), [("amax", "nvfp4-te"), ("encode", "nvfp4-paper"), ("decode", "torchao-0.18/nvfp4/eager")]
)
def test_kinds_of_tensor_scale(write: Callable[..., str], kind: str, profile: str) -> None:
    path = write(TENSOR.format(kind=kind, profile=profile), NV)
    asked = check(path, in_process=True, profile=profile)
    assert (off(asked), asked.exit_code) == ({}, 0)
    assert {"quantize/nvfp4/tensor-scale", "tensor_scale/nvfp4/tensor-scale"} <= passed(asked)
    nearest = check(path, in_process=True)
    assert profile in nearest.formats[0].identical_to
    if kind == "decode":
        # The normative profiles store other kinds; the tensor scale itself, amax / 2688, is right all the same.
        assert nearest.formats[0].judged_against in ("nvfp4-paper", "nvfp4-te")
        assert set(off(nearest).values()) == {"deviation"}
        assert "tensor_scale/nvfp4/tensor-scale" in passed(nearest)
    else:
        assert nearest.formats[0].judged_against == profile
        assert (off(nearest), nearest.exit_code) == ({}, 0)


KIND_PAIRS = [
    (named, used, profile)
    for used, profile in (("amax", "nvfp4-te"), ("encode", "nvfp4-paper"), ("decode", "torchao-0.18/nvfp4/eager"))
    for named in ("amax", "encode", "decode")
    if named != used
]


@pytest.mark.parametrize(("named", "used", "profile"), KIND_PAIRS)
def test_the_wrong_kind_of_tensor_scale_does_not_pass(
    write: Callable[..., str], named: str, used: str, profile: str
) -> None:
    """What the target does is said; what is fine without a tensor scale, and every scale byte of dequantize, passes."""
    source = TENSOR.format(kind=named, profile=profile).replace("from_float(TENSOR_SCALE", f"from_float({used!r}")
    report = check(write(source, NV), in_process=True, profile=profile)
    assert report.exit_code == 1
    must = {"quantize/nvfp4/tensor-scale", "scale/nvfp4/scale-tie", "dequantize/nvfp4/tensor-scale"}
    assert must <= set(off(report))
    assert set(off(report).values()) == {"fail"}
    assert {i for i in off(report) if i.startswith("dequantize/")} == {"dequantize/nvfp4/tensor-scale"}
    assert {"dequantize/nvfp4/scale-code", "dequantize/nvfp4/code", "quantize/nvfp4/nan"} <= passed(report)
    (result,) = report.formats
    assert result.deviations == [
        f"{function} uses its tensor scale as {used}; TENSOR_SCALE says {named}"
        for function in ("quantize", "dequantize")
    ]
    assert result.identical_to == []


def test_the_wrong_kind_of_tensor_scale_without_a_one_level_form(write: Callable[..., str]) -> None:
    """As real kernels are: there is no table without a tensor scale to compare with."""
    source = """
    TENSOR_SCALE = "decode"
    def dequantize(codes, scales, fmt, tensor_scale):
        return mxspec.dequantize(codes, scales, fmt, tensor_scale=mxspec.TensorScale.from_float("amax", tensor_scale))
    """
    report = check(write(source, NV), in_process=True)
    assert set(off(report)) == {"dequantize/nvfp4/tensor-scale"}
    assert report.formats[0].deviations == ["dequantize uses its tensor scale as amax; TENSOR_SCALE says decode"]


def test_a_wrong_scale_byte_under_tensor_scales_is_no_matter_of_the_tensor_scale(write: Callable[..., str]) -> None:
    source = """
    TENSOR_SCALE = "amax"
    def dequantize(codes, scales, fmt, tensor_scale):
        with np.errstate(all="ignore"):
            values = mxspec.dequantize(codes, scales, fmt, tensor_scale=mxspec.TensorScale.from_float("amax", tensor_scale))
            return np.where(np.repeat(scales == 0x38, 16, axis=1), np.float32(2) * values, values)
    """
    report = check(write(source, NV), in_process=True)
    assert set(off(report)) == {"dequantize/nvfp4/scale-code"}
    assert report.formats[0].deviations == []


def test_keywords_are_capabilities(write: Callable[..., str]) -> None:
    """axis, pad and block are asked for only where the signature takes them."""
    body = "\n    t = mxspec.quantize(x, fmt{})\n    return t.codes, t.scales"
    plain = check(write("def quantize(x, fmt):" + body.format("")), in_process=True)
    unsupported = {r.id: r.note for r in plain.requirements if r.verdict == "unsupported"}
    assert unsupported == {"quantize/mxfp4/tail": "quantize takes no pad"}
    assert plain.exit_code == 0
    asked = {r.id: r.cases for r in plain.requirements}
    both = check(
        write("def quantize(x, fmt, axis=-1, pad=False):" + body.format(", axis=axis, pad=pad")), in_process=True
    )
    assert (off(both), both.exit_code) == ({}, 0)
    assert {"quantize/mxfp4/axis", "quantize/mxfp4/tail"} <= passed(both)
    assert asked["quantize/mxfp4/axis"] < next(r.cases for r in both.requirements if r.id == "quantize/mxfp4/axis")
    tiles = "def quantize(x, fmt, tensor_scale=None, block=None):\n    s = tensor_scale\n" + body.format(
        ", block=block, tensor_scale=None if s is None else mxspec.TensorScale.from_float('amax', s)"
    )
    report = check(write("TENSOR_SCALE = 'amax'\n" + tiles, NV), in_process=True)
    assert (off(report), report.exit_code) == ({}, 0)


@pytest.mark.parametrize("dtypes", [["float32", "float16", "bfloat16"], ["bfloat16"], "float16"])
def test_dtypes(write: Callable[..., str], dtypes: Any) -> None:
    """A target is called with the dtypes that it declares, and no other."""
    source = f"""
    DTYPES = {dtypes!r}
    def quantize(x, fmt):
        assert x.dtype.name in DTYPES, x.dtype
        t = mxspec.quantize(x, fmt)
        return t.codes, t.scales
    """
    report = check(write(source), in_process=True)
    assert (off(report), report.exit_code) == ({}, 0)
    assert "scale/mxfp4/scale-boundary" in passed(report)


def test_provisional_profiles_never_conform(write: Callable[..., str]) -> None:
    provisional = [p for p in list_profiles("mxfp4") if p.provisional and p.one_level and "float32" in p.dtypes]
    provisional += [p for p in list_profiles("mxfp8_e4m3") if p.provisional and p.one_level and "float32" in p.dtypes]
    assert provisional
    profile = provisional[0]
    fmt = profile.formats[0]
    source = f"@on_blocks\ndef quantize(x, fmt): return model(x, fmt, {profile.id!r})"
    report = check(write(source, [fmt]), in_process=True, profile=profile.id)
    assert (off(report), report.exit_code) == ({}, 0)
    (result,) = report.formats
    assert result.provisional
    assert conclude(result, report.requirements).text == f"matches (provisional) {profile.id}"


def test_without_a_profile_only_normative_ones_are_judged_against(write: Callable[..., str]) -> None:
    """A target that equals a descriptive profile is told so; it is judged against the nearest normative one."""
    source = "@on_blocks\ndef quantize(x, fmt): return model(x, fmt, 'gguf-0.19/mxfp4')"
    report = check(write(source), in_process=True)
    (result,) = report.formats
    assert result.judged_against == "mx-floor"
    assert result.identical_to == ["gguf-0.19/mxfp4"]
    assert "nearest, ties toward zero" in result.deviations
    assert set(off(report).values()) == {"deviation"}
    assert {r.note for r in report.requirements if r.verdict == "deviation"} == {"as gguf-0.19/mxfp4"}


# No answer

REFUSALS: dict[str, tuple[str, str, str]] = {
    "always raises": ("def quantize(x, fmt): raise ValueError('no thanks')", "error", "ValueError: no thanks"),
    "a list": ("def quantize(x, fmt): return [a.tolist() for a in model(x, fmt)]", "error", "codes is a list, not an array"),
    "None": ("def quantize(x, fmt): return None", "error", "quantize returned a NoneType; return (codes, scales)"),
    "codes alone": ("def quantize(x, fmt): return mxspec.quantize(x, fmt).codes", "error", "quantize returned a ndarray"),
    "one lane short": (
        "def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes[:, 1:], t.scales",
        "error", "was expected for x of shape (",
    ),
    "scales flat": (
        "def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes, t.scales.reshape(-1)",
        "error", "scales have shape (",
    ),
    "codes as int64": (
        "def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes.astype(np.int64), t.scales",
        "error", "codes have dtype int64; return uint8",
    ),
    "codes as floats": (
        "def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes.astype(np.float32), t.scales",
        "error", "codes have dtype float32; return uint8",
    ),
    "scales as floats": (
        "def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes, np.ldexp(1.0, t.scales.astype(int) - 127)",
        "error", "scales have dtype float64; return uint8",
    ),
    "sys.exit": ("import sys\ndef quantize(x, fmt): sys.exit(3)", "error", "SystemExit: 3"),
    "a wrong signature": ("def quantize(x): return x", "error", "TypeError: quantize() takes 1 positional argument"),
    "an exception that cannot be read": (
        "class E(Exception):\n    def __str__(self): raise RuntimeError\ndef quantize(x, fmt): raise E",
        "error", "E: its message cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_no_answer_is_an_error_everywhere(write: Callable[..., str], name: str) -> None:
    source, verdict, message = REFUSALS[name]
    report = check(write(source), in_process=True)
    assert report.exit_code == 1
    assert set(off(report).values()) == {verdict}
    assert passed(report) == set()
    for requirement in report.requirements:
        if requirement.verdict == verdict:
            assert message in requirement.note
            assert requirement.failing == requirement.cases > 0
    (result,) = report.formats
    assert result.distance == result.cases > 0, "a target that answers nothing is right nowhere"
    assert result.identical_to == []


def test_raising_on_nan_alone(write: Callable[..., str]) -> None:
    source = """
    def quantize(x, fmt):
        if np.isnan(x).any():
            raise FloatingPointError("NaN is not supported")
        return (t := mxspec.quantize(x, fmt)).codes, t.scales
    def encode(x, element):
        if np.isnan(x).any():
            raise FloatingPointError("NaN is not supported")
        return mxspec.encode(x, element)
    def encode_stochastic(x, element, random_bits):
        if np.isnan(x).any():
            raise FloatingPointError("NaN is not supported")
        return mxspec.encode(x, element, rounding="sr", random_bits=random_bits)
    """
    report = check(write(source), in_process=True)
    assert off(report) == {"quantize/mxfp4/nan": "error", "encode/e2m1/nan": "error"}
    assert "FloatingPointError: NaN is not supported" in note(report, "quantize/mxfp4/nan")
    assert report.formats[0].identical_to == []


def test_one_guilty_case_is_found_by_bisection(write: Callable[..., str]) -> None:
    """One block of hundreds raises: one case is in error, all others are judged."""
    source = """
    @on_blocks
    def quantize(x, fmt):
        if ((x[:, 0] == 5) & (amax(x) == 5)).any():
            raise RuntimeError("this one")
        return model(x, fmt)
    """
    report = check(write(source), in_process=True)
    assert off(report)["quantize/mxfp4/position"] == "error"
    assert set(off(report)) <= {"quantize/mxfp4/position", "quantize/mxfp4/call-size"}
    (requirement,) = [r for r in report.requirements if r.id == "quantize/mxfp4/position"]
    assert (requirement.failing, requirement.note.split(":")[0]) == (1, f"1 of {requirement.cases} cases")
    assert requirement.failing_cases[0].startswith("position-0-p-")


def test_not_implemented_is_unsupported(write: Callable[..., str]) -> None:
    nothing = check(write("def quantize(x, fmt): raise NotImplementedError('later')"), in_process=True)
    assert {r.verdict.value for r in nothing.requirements} == {"unsupported"}
    assert nothing.exit_code == 2
    assert (nothing.formats[0].distance, nothing.formats[0].cases) == (0, 0)
    part = """
    def quantize(x, fmt):
        if fmt == "mxfp8_e4m3":
            raise NotImplementedError("fp4 only")
        return (t := mxspec.quantize(x, fmt)).codes, t.scales
    """
    report = check(write(part, MX), in_process=True)
    assert (off(report), report.exit_code) == ({}, 0)
    verdicts = {r.verdict.value for r in report.requirements if "/mxfp8_e4m3/" in r.id}
    assert verdicts == {"unsupported"}
    assert all(r.note == "fp4 only" for r in report.requirements if r.id == "quantize/mxfp8_e4m3/nan")


BAD_VALUES: dict[str, tuple[str, str, str]] = {
    "NaN where none may be": (
        "def dequantize(codes, scales, fmt): return np.full(codes.shape, np.nan, np.float32)",
        "dequantize/mxfp4/scale-code", "fail",
    ),
    "float64 values": (
        "def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt).astype(np.float64)",
        "dequantize/mxfp4/code", "error",
    ),
    "a list of values": (
        "def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt).tolist()",
        "dequantize/mxfp4/code", "error",
    ),
    "values of another shape": (
        "def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt)[:1, :3]",
        "dequantize/mxfp4/code", "error",
    ),
    "decode gives None": ("def decode(codes, element): return None", "decode/e2m1/code", "error"),
    "encode gives floats": ("def encode(x, element): return x", "encode/e2m1/exact", "error"),
    "a tensor scale of two numbers": (
        "FORMATS = ['nvfp4']\ndef tensor_scale(x, fmt): return np.ones(2, np.float32)",
        "tensor_scale/nvfp4/tensor-scale", "error",
    ),
    "a tensor scale of None": (
        "FORMATS = ['nvfp4']\ndef tensor_scale(x, fmt): return None", "tensor_scale/nvfp4/tensor-scale", "error"
    ),
    "a tensor scale beyond float32": (
        "FORMATS = ['nvfp4']\ndef tensor_scale(x, fmt): return 1e300", "tensor_scale/nvfp4/tensor-scale", "fail"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_values(write: Callable[..., str], name: str) -> None:
    source, requirement, verdict = BAD_VALUES[name]
    report = check(write(source), in_process=True)
    assert off(report)[requirement] == verdict
    assert report.exit_code == 1
    assert all(not f.identical_to for f in report.formats)


def test_a_target_that_writes_into_its_input_harms_itself_alone(write: Callable[..., str]) -> None:
    source = """
    def quantize(x, fmt):
        t = mxspec.quantize(x, fmt)
        x[...] = 7
        return t.codes, t.scales
    """
    report = check(write(source), in_process=True)
    assert off(report) == {"quantize/mxfp4/call-size": "fail"}
    assert report.formats[0].distance == 0


# Processes


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Counts the processes that are started; functions that never answer are given up sooner than usual."""
    started: list[float] = []
    start = SubprocessSession._start

    def counted(self: SubprocessSession) -> Any:
        started.append(1)
        return start(self)

    monkeypatch.setattr(SubprocessSession, "_start", counted)
    monkeypatch.setattr(sessions, "MAX_UNANSWERED", {"timeout": 2, "crash": 3})
    return started


def test_a_crash_is_an_error(write: Callable[..., str], starts: list[float]) -> None:
    report = check(write("import ctypes\ndef quantize(x, fmt): ctypes.string_at(0)"))
    assert set(off(report).values()) == {"error"}
    assert report.exit_code == 1
    notes = {r.note.split(": ", 1)[1] for r in report.requirements if r.verdict == "error"}
    assert notes == {"quantize was given up after 3 crashes: the process died (exit code -11, SIGSEGV)"}
    assert len(starts) <= 4, "a target that always crashes is not started for every case"


def test_a_hang_is_a_timeout(write: Callable[..., str], starts: list[float]) -> None:
    report = check(write("import time\ndef quantize(x, fmt): time.sleep(600)"), timeout=0.3)
    assert set(off(report).values()) == {"timeout"}
    assert report.exit_code == 1
    assert len(starts) <= 3
    assert report.formats[0].distance == report.formats[0].cases > 0


def test_a_crash_on_nan_spoils_nothing_else(write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Special values are batched apart, and the process is started again."""
    monkeypatch.setattr("mxspec_conformance.observations.bisection.MAX_IN_BATCH", {FailureKind.TIMEOUT: 3, FailureKind.CRASH: 5})
    source = """
    import os
    def quantize(x, fmt):
        if np.isnan(x).any():
            os._exit(7)
        return (t := mxspec.quantize(x, fmt)).codes, t.scales
    """
    report = check(write(source))
    assert off(report) == {"quantize/mxfp4/nan": "error"}
    assert "the process died (exit code 7)" in note(report, "quantize/mxfp4/nan")


def test_a_hang_on_infinity_spoils_nothing_else(write: Callable[..., str], starts: list[float]) -> None:
    source = """
    import time
    def quantize(x, fmt):
        if np.isinf(x).any() and not np.isnan(x).any():
            time.sleep(600)
        return (t := mxspec.quantize(x, fmt)).codes, t.scales
    """
    report = check(write(source), timeout=1.5)
    assert off(report) == {"quantize/mxfp4/inf": "timeout"}
    assert len(starts) <= 5


def test_garbage_on_stdout_is_not_ours(write: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    source = """
    import os
    print("loading garbage")
    def quantize(x, fmt):
        print("garbage")
        os.write(1, b"\\xff\\x00raw garbage")
        os.write(2, b"noise")
        return (t := mxspec.quantize(x, fmt)).codes, t.scales
    """
    report = check(write(source))
    assert (off(report), report.exit_code) == ({}, 0)
    captured = capfd.readouterr()
    assert "garbage" not in captured.out + captured.err
    assert "noise" not in captured.err


def test_what_a_target_imports_of_its_own_is_found(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "kernel_of_mine.py").write_text(
        "import mxspec\ndef run(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n",
        encoding="ascii",
    )
    report = check(
        write("import kernel_of_mine\ndef quantize(x, fmt): return kernel_of_mine.run(x, fmt)"), only="scale/*"
    )
    assert report.exit_code == 0


# Loading

UNLOADABLE: dict[str, tuple[str, str]] = {
    "does not import": ("import no_such_module_at_all", "does not import: ModuleNotFoundError: No module named 'no_such"),
    "raises": ("1 / 0", "does not import: ZeroDivisionError: division by zero"),
    "exits": ("import sys; sys.exit(5)", "does not import: SystemExit: 5"),
    "syntax error": ("def quantize(x, fmt:\n    pass", r", line \d+: .*; the file is not valid Python"),
    "null byte": ("x = 1\0", "(not valid Python|does not import)"),
    "nothing": ("x = 1", "defines none of the functions quantize, dequantize, encode"),
    "not callable": ("FORMATS = ['mxfp4']\nquantize = 3", "defines none of the functions"),
    "no formats": ("def quantize(x, fmt): pass", "has no FORMATS; list the block formats it supports: mxfp4, mxfp6"),
    "unknown format": ("FORMATS = ['mxfp5']\ndef quantize(x, fmt): pass", "FORMATS names 'mxfp5'; allowed are mxfp4,"),
    "formats of None": ("FORMATS = None\ndef quantize(x, fmt): pass", "FORMATS is a NoneType; write a name or a list"),
    "unknown element": ("ELEMENTS = ['e9m9']\ndef encode(x, e): pass", "ELEMENTS names 'e9m9'; allowed are e2m1,"),
    "unknown layout": (
        "FORMATS, LAYOUT = ['mxfp4'], 'nibble-high'\ndef quantize(x, fmt): pass",
        "LAYOUT names 'nibble-high'; allowed are unpacked, nibble-low, row-major, 128x4",
    ),
    "unknown dtype": (
        "FORMATS, DTYPES = ['mxfp4'], ['float64']\ndef quantize(x, fmt): pass", "DTYPES names 'float64'; allowed are float32"
    ),
    "unknown arrays": ("FORMATS, ARRAYS = ['mxfp4'], 'jax'\ndef quantize(x, fmt): pass", "ARRAYS names 'jax'; allowed are"),
    "unknown kind": (
        "FORMATS, TENSOR_SCALE = ['nvfp4'], 'g'\ndef quantize(x, fmt): pass",
        "TENSOR_SCALE names 'g'; allowed are decode, encode, amax",
    ),
    "unknown bits": ("FORMATS, SR_BITS = ['mxfp4'], 16\ndef quantize(x, fmt): pass", "SR_BITS = 16; allowed are 32 and 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLOADABLE)
def test_what_does_not_load_has_a_message(write: Callable[..., str], name: str) -> None:
    source, message = UNLOADABLE[name]
    path = write(source, prelude="")
    with pytest.raises(TargetError, match=message) as raised:
        check(path, in_process=True)
    assert path in str(raised.value)


@pytest.mark.parametrize("name", ["syntax error", "exits", "unknown layout"])
def test_what_does_not_load_has_the_same_message_from_a_process(write: Callable[..., str], name: str) -> None:
    source, message = UNLOADABLE[name]
    with pytest.raises(TargetError, match=message):
        check(write(source, prelude=""))


def test_a_process_that_ends_while_loading(write: Callable[..., str]) -> None:
    with pytest.raises(TargetError, match=r"ended the process while it was loaded \(exit code 4\)"):
        check(write("import os; os._exit(4)", prelude=""))


def test_a_process_that_hangs_while_loading(write: Callable[..., str]) -> None:
    with pytest.raises(TargetError, match=r"did not load within 1 s"):
        SubprocessSession(write("import time; time.sleep(600)", prelude=""), start_timeout=1.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no/such/file.py", r"no/such/file\.py does not exist; pass a Python file, a module or a known library"),
        (
            "no_such_module_at_all",
            "is neither a file, an importable module nor a known library; `mxspec targets` lists them",
        ),
        ("json", "defines none of the functions"),
        (os.devnull, "is not a Python file|does not exist"),
    ],
)
def test_what_is_no_target(spec: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        check(spec, in_process=True)


# The report


def test_only_format_and_profile(write: Callable[..., str]) -> None:
    path = write(FIVE, prelude="")
    some = check(path, in_process=True, formats=["mxfp4"], only="quantize/*/tie-*")
    assert [r.id for r in some.requirements] == ["quantize/mxfp4/tie-even"]
    assert [f.format for f in some.formats] == ["mxfp4"]
    none = check(path, in_process=True, formats=["mxfp4"], only="nothing/*")
    assert (none.requirements, none.exit_code) == ([], 2)
    scalars = check(path, in_process=True, formats=["mxint8"])
    assert {r.id.split("/")[1] for r in scalars.requirements} == {"mxint8", "int8"}
    with pytest.raises(
        ValueError, match=r"unknown profile 'mx-flor'; \d+ are known, mx-floor among them: see `mxspec profiles`"
    ):
        check(path, in_process=True, profile="mx-flor")
    with pytest.raises(ValueError, match=r"profile nvfp4-te covers nvfp4; the target offers mxfp4"):
        check(write("def quantize(x, fmt): pass"), in_process=True, profile="nvfp4-te")
    with pytest.raises(ValueError, match="unknown block format 'mxfp5'"):
        check(path, in_process=True, formats=["mxfp5"])


def stripped(report: Report) -> dict[str, Any]:
    """A result without time and environment."""
    result = json.loads(report.to_json())
    del result["environment"], result["seconds"]
    return dict(result)


def test_results_follow_their_schema_and_repeat(write: Callable[..., str]) -> None:
    """A target with passes, failures, deviations, errors and unsupported functions: twice the same document."""
    source = """
    def quantize(x, fmt, tensor_scale=None):
        if fmt == "mxfp6_e2m3":
            raise NotImplementedError("no fp6")
        if np.isnan(x).any():
            raise ValueError("no NaN")
        if tensor_scale is not None:
            raise NotImplementedError("no tensor scale")
        return (t := mxspec.quantize(x, fmt, profile={"mxfp4": "gguf-0.19/mxfp4"}.get(fmt))).codes, t.scales
    def dequantize(codes, scales, fmt): return mxspec.dequantize(codes, scales, fmt) + np.float32(0)
    def encode(x, element): return mxspec.encode(x, element, rounding="rtz")
    """
    path = write(source, ["mxfp4", "mxfp6_e2m3", "nvfp4"])
    first, second = (check(path, in_process=True) for _ in range(2))
    assert set(first.counts) == {"pass", "fail", "deviation", "unsupported", "error"}
    schema = load_result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for report in (first, second):
        document = json.loads(report.to_json())
        assert [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []
        assert document["counts"] == report.counts
        assert document["exit_code"] == 1
        assert sum(report.counts.values()) == len(document["requirements"])
    assert stripped(first) == stripped(second)
    assert first.to_json().isascii()


def test_a_child_and_this_process_agree(write: Callable[..., str]) -> None:
    path = write(BUGS["P02 truncate"][1])
    here, there = check(path, in_process=True), check(path)
    assert (here.target.pop("transport"), there.target.pop("transport")) == ("python", "python-child")
    assert stripped(here) == stripped(there)


def test_objects_and_paths_are_targets(write: Callable[..., str]) -> None:
    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        return t.codes, t.scales

    report = check(SimpleNamespace(FORMATS=["mxfp4"], quantize=quantize))
    assert (off(report), report.exit_code) == ({}, 0)
    assert report.target["name"] == "SimpleNamespace"
    path = Path(write("def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes, t.scales"))
    assert check(path, in_process=True, only="scale/*").exit_code == 0


def test_progress_is_told(write: Callable[..., str]) -> None:
    steps: list[str] = []
    check(write(FIVE, prelude=""), in_process=True, formats=["mxfp4", "mxint8"], progress=steps.append)
    assert steps == ["mxfp4", "mxint8", "e2m1", "int8"]


def test_a_guarded_script_may_call_check(tmp_path: Path) -> None:
    """The child process imports the script that started it; a guard keeps it from running twice."""
    target = tmp_path / "target.py"
    target.write_text(FIVE, encoding="ascii")
    script = tmp_path / "script.py"
    script.write_text(
        "from mxspec_conformance.judge.check import check\n"
        f"if __name__ == '__main__':\n    print(check({str(target)!r}, formats=['mxint8'], only='scale/*').exit_code)\n",
        encoding="ascii",
    )
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_numbers_of_the_report_add_up(write: Callable[..., str]) -> None:
    source = "@on_blocks\ndef quantize(x, fmt): return rounding(x, fmt, Rounding.RTZ)"
    report = check(write(source), in_process=True)
    (result,) = report.formats
    assert 0 < result.distance < result.cases
    assert result.distance == result.distances["mx-floor"] == min(result.distances.values())
    assert set(result.distances) == {"mx-floor", "mx-rceil", "mx-even", "mx-ceil"}
    for requirement in report.requirements:
        assert 0 <= requirement.failing <= requirement.cases
        assert (requirement.failing == 0) == (requirement.verdict in ("pass", "unsupported"))
        assert len(requirement.failing_cases) == min(requirement.failing, 20)
        assert np.unique(requirement.failing_cases).size == len(requirement.failing_cases)
