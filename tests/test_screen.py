"""What commands print at 80 columns: no trailing blanks, nothing cut, names and numbers whole, repeated reasons once."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec.layouts import get_layout, list_layouts
from mxspec_conformance import check
from mxspec_conformance.cli.console import _Trimmed, make_console
from mxspec_conformance.cli.main import main
from mxspec_conformance.counterexample.failure import make_snippet
from mxspec_conformance.render.headline import list_headlines, pick_lanes
from mxspec_conformance.render.terminal import SCREEN, print_report
from mxspec_conformance.results.report import Failure, Verdict
from mxspec_vectors.cases import load_quantize_cases

PACKED = """
import mxspec
from mxspec.layouts import pack
NAME, VERSION, FORMATS = "packed", "1", ["mxfp4"]
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt)
    return pack(t.codes, "nibble-low").reshape(len(x), -1), t.scales
"""
AWAY = """
import ml_dtypes, numpy as np
NAME, VERSION, ELEMENTS = "away", "1", ["e2m1", "e2m3"]
def encode(x, element):
    dtype = {"e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn}[element]
    y = np.where(np.abs(x) == 0.25, np.sign(x) * 0.5, x).astype(dtype)
    return y.view(np.uint8)
"""


def hold_the_line(text: str) -> None:
    for line in text.splitlines():
        assert line == line.rstrip()
        assert len(line) <= 80
        assert "\u2026" not in line


@pytest.mark.parametrize("arguments", [["{0}", "--quick"], ["{0}", "{1}", "--quick"]], ids=len)
def test_check_at_80_columns(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    paths = [tmp_path / "a_target_of_a_name.py", tmp_path / "away.py"]
    for path, source in zip(paths, (PACKED, AWAY), strict=True):
        path.write_text(source, "utf-8")
    brief = CliRunner().invoke(main, ["check", *(a.format(*paths) for a in arguments)])
    assert brief.exit_code == 1
    hold_the_line(brief.output)
    assert len(arguments) > 2 or SCREEN // 2 < len(brief.output.splitlines()) <= SCREEN
    done = CliRunner().invoke(main, ["check", "-v", *(a.format(*paths) for a in arguments)])
    assert done.exit_code == 1
    hold_the_line(done.output)
    assert (
        " ".join(done.output.split()).count('LAYOUT = "nibble-low"') <= 5
    )  # in the sentence, the table, the case; a refusal adds its own advice
    lines = done.output.splitlines()
    assert "failing: cases that contradict the profile; nearest: the one that agrees best" in lines


def test_a_reason_stands_once_below_its_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "packed.py"
    path.write_text(PACKED, "utf-8")
    print_report(check(path, in_process=True, quick=True, only="quantize/*"), make_console())
    text = " ".join(capsys.readouterr().out.split())
    number = len(re.findall(r"quantize/mxfp4/[a-z-]+ \w+ error", text))
    assert number > 3
    assert text.count("codes have shape") <= 4 < number
    assert re.search(r"the first of these \d+: ", text)


def test_blanks_before_a_line_end_are_dropped_with_colours_kept() -> None:
    stream = io.StringIO()
    trimmed = _Trimmed(stream)
    trimmed.write("a  \n \x1b[1mb \x1b[0m\n  c")
    assert stream.getvalue() == "a\n \x1b[1mb\x1b[0m\n  c"


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_snippets_are_narrow_and_run(fmt: str) -> None:
    block = mxspec.get_block(fmt)
    profile = mxspec.default_profile(fmt)
    cases = [c for c in load_quantize_cases(fmt) if c.is_row and profile.id in c.answers][::40]
    assert len(cases) > 10
    for case in cases:
        snippet = make_snippet(case, block, profile, 0)
        assert max(map(len, snippet.splitlines())) <= 80
        assert not any(line.startswith(" ") for line in snippet.splitlines()[:2])
        names: dict[str, object] = {}
        exec(snippet.rpartition("\n")[0], names)
        tensor = None if case.tensor is None else case.tensor.native(profile)
        expected = mxspec.quantize(case.x[0], fmt, profile=profile, tensor_scale=tensor)
        assert names["q"] == expected


def test_snippets_of_layouts_run(capsys: pytest.CaptureFixture[str]) -> None:
    class Target:
        NAME, VERSION, LAYOUTS = "wrong", "1", [x.name for x in list_layouts()][:6]

        def pack(self, codes: object, layout: str) -> np.ndarray[object, np.dtype[np.uint8]]:
            return get_layout(layout).pack(codes) ^ np.uint8(1)

        def unpack(self, data: object, layout: str, shape: tuple[int, ...]) -> np.ndarray[object, np.dtype[np.uint8]]:
            return get_layout(layout).unpack(data, shape)[0] ^ np.uint8(1)

    failures = [r.first for r in check(Target()).requirements if r.first is not None]
    assert len(failures) >= 12
    for failure in failures:
        assert max(map(len, failure.snippet.splitlines()), default=0) <= 80
        exec(failure.snippet, {})
    assert capsys.readouterr().out


def test_check_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Words wrap; numbers, bits and code that are longer than a line are whole."""

    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        codes = np.array(t.codes)
        codes[x == 0.25] = 1
        return codes, t.scales

    target = SimpleNamespace(NAME="away", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    report = check(target, quick=True, only="quantize/mxfp4/tie-even")
    printed = {}
    for columns in (80, 60, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_report(report, make_console())
        printed[columns] = capsys.readouterr().out
    code = [line for line in printed[80].splitlines() if line.startswith(("import ", "x = ", "x[", "q = ", "print("))]
    numbers = re.findall(r"\b\d+/\d+$|0x[0-9a-f]{8} = \S+", printed[80], re.MULTILINE)
    assert len(code) == 5
    assert len(numbers) >= 3
    for columns in (60, 40):
        lines = printed[columns].splitlines()
        assert "\u2026" not in printed[columns]
        assert set(code) <= set(lines)
        assert all(number in printed[columns] for number in numbers)
        table = re.compile(r" {2,6}(lane|scale|format|mxfp4|\d+) ")
        assert [line for line in lines if len(line) > columns and line not in code and not table.match(line)] == []


def shuffle(x: Any, fmt: str) -> Any:
    """Wrong in most ways at once, so that there is much to show."""
    t = mxspec.quantize(x, fmt)
    codes = np.array(t.codes)
    if fmt == "mxfp8_e4m3":
        raise IndexError("x" * 400)
    codes[..., 3] ^= 1
    return codes, np.roll(t.scales, 1, axis=0)


def wrong_values(codes: Any, scales: Any, fmt: str) -> Any:
    return mxspec.BlockTensor.from_codes(codes, scales, fmt).dequantize("float32") * np.float32(1.0001)


def tail(x: Any, fmt: str) -> Any:
    """Its smallest case is a call, whose lines are long."""
    t = mxspec.quantize(x, fmt)
    codes, scales = np.array(t.codes), np.array(t.scales)
    if len(x) > 64:
        codes[len(x) // 64 * 64 :], scales[len(x) // 64 * 64 :] = 0, 0
    return codes, scales


MANY = SimpleNamespace(NAME="many", VERSION="1", FORMATS=list(mxspec.formats.BLOCKS)[:7], quantize=shuffle, dequantize=wrong_values)
TAIL = SimpleNamespace(NAME="tail", VERSION="1", FORMATS=["mxfp4"], quantize=tail)


@pytest.mark.parametrize("target", [MANY, TAIL], ids=lambda t: t.NAME)
def test_one_screen_says_first_what_is_wrong(target: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    report = check(target, quick=True, only="*antize/*/[cemnpz]*", data=[])
    screens = {}
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_report(report, make_console(), brief=True)
        screens[columns] = capsys.readouterr().out
    for columns, screen in screens.items():
        lines = screen.splitlines()
        assert len(lines) <= SCREEN
        assert lines[0].startswith("wrong: quantize mxfp4")
        assert any(re.match("  scale +[0-9a-f]{2} +[0-9a-f]{2}$", line) for line in lines), "expected and returned bytes"
        assert max(len(line) for line in lines if "=" not in line) <= columns
        assert re.search(r"^requirement  ", screen, re.MULTILINE)
        assert f"{target.NAME} 1: {report.counts_text}; not all requirements pass" in " ".join(screen.split())
    print_report(report, make_console())
    assert len(capsys.readouterr().out.splitlines()) > SCREEN


def test_no_sentence_depends_on_the_words_of_a_cause() -> None:
    """The cause is the judge's, whatever it says; what is right, open or waived has no sentence."""
    report = check(TAIL, quick=True, only="quantize/mxfp4/[cn]*", data=[])
    (result,) = report.formats
    assert (result.causes, len(list_headlines(report))) == (["call-alone"], 1)
    result.deviations = ["pass"]
    assert list_headlines(report) == ["quantize mxfp4: pass; smallest case: only as block 64 of a call of 65 (the others zero)"]
    for requirement in report.requirements:
        requirement.verdict = Verdict.WAIVED
    assert list_headlines(report) == []


def test_the_lanes_that_differ_are_shown() -> None:
    """Of 32 lanes those that differ, and the largest one, before zeros."""
    given = {f"lane {i}": "0x00000000 = 0.0" for i in range(32)} | {"lane 20": "0x40c00000 = 6.0", "lane 25": "0x3f800000 = 1.0"}
    same = dict.fromkeys(given, "00")
    failure = Failure("case", {"x": given}, {"codes": same}, {"codes": same | {"lane 30": "01"}})
    assert pick_lanes(failure, 1) == ["lane 30"]
    assert pick_lanes(failure, 3) == ["lane 20", "lane 25", "lane 30"]
    assert pick_lanes(failure, 32) == list(given)


def test_a_deviation_says_what_is_computed_otherwise() -> None:
    """A profile's name alone helps nobody: the step in which the two differ stands next to it, in any format."""

    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt, profile="torchao-0.18/mx/floor/eager")
        return t.codes, t.scales

    report = check(SimpleNamespace(FORMATS=["mxfp4"], PROFILE="mx-floor", quantize=quantize), in_process=True, quick=True)
    [sentence] = list_headlines(report)
    assert "the bits of torchao-0.18/mx/floor/eager" in sentence
    assert "(it computes scaled x as x / (inf if block scale is nan else max(block scale, 1.1754944e-38" in sentence
    assert "mx-floor: scaled x as x / block scale, exact)" in sentence
