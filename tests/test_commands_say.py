"""What single commands answer: where an item lies, why two profiles differ, decimals and short names as arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mxspec.layouts import get_layout, list_layouts
from mxspec_conformance.cli.explain_input import parse_tensor_scale
from mxspec_conformance.cli.main import main
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.transports.opening import open_target


def run(*arguments: object, columns: int = 80) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], env={"COLUMNS": str(columns)})


@pytest.mark.parametrize("layout", [x.name for x in list_layouts()][::7])
def test_places_are_the_formulas(layout: str) -> None:
    found = get_layout(layout)
    rows, columns = (2 * n for n in (found.pad_to or found.tile))
    item = (rows - 1, columns - 1)
    done = run("layouts", "show", layout, "--shape", f"{rows}x{columns}", "--at", f"{item[0]},{item[1]}", "--json")
    places = json.loads(done.output)["at"]
    assert [p["part"] for p in places] == [f.part.value for f in found.fields]
    for place, field in zip(places, found.fields, strict=True):
        for b, bit in enumerate(place["bits"]):
            at = (item[0], item[1] // field.covers)
            assert (bit["byte"], bit["bit"]) == found.locate(*at, (rows, columns), part=field.part, b=b)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["128x4", "--shape", "300x12", "--at", "200,7"], "128x4: scales 200,7 of 300 x 12: byte 2187 (0x88b)"),
        (["128x4", "--at", "200,3"], "128x4: scales 200,3 of 256 x 4: byte 651 (0x28b)"),
        (["nibble-low", "--at", "3,5"], "nibble-low: codes 3,5 of 4 x 6: byte 11 (0xb), 4 bits from bit 4 up"),
        (["ggml-mxfp4", "--at", "1,40"], "ggml-mxfp4: scales 1,1 of 2 x 64: byte 51 (0x33)"),
    ],
)
def test_where_an_item_lies(arguments: list[str], words: str) -> None:
    assert words in run("layouts", "show", *arguments).output.splitlines()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--at", "300,3", "--shape", "300x5"], "m = 300 lies outside scales of shape (300, 5)"),
        (["--at", "x"], "--at 'x': write row,column"),
    ],
)
def test_places_that_are_none(arguments: list[str], words: str) -> None:
    done = run("layouts", "show", "128x4", *arguments)
    assert done.exit_code == 2
    assert words in done.output


def test_distinguish_says_why_and_takes_short_names() -> None:
    done = run("distinguish", "torchao/rceil/eager", "mx-rceil", "--format", "mxfp4")
    assert done.exit_code == 0
    text = " ".join(done.output.split())
    assert "torchao-0.18/mxfp4/rceil/eager scale" in text
    assert "because the scale code differs: 7a against 7b, because log2 of" in text
    lines = done.output.splitlines()
    assert all(line.startswith("  ") and len(line) <= 80 for line in lines[1:])
    unknown = run("distinguish", "torchao", "mx-rceil", "--format", "mxfp4")
    assert unknown.exit_code == 2
    assert "did you mean torchao-0.18/mx/floor/eager" in unknown.output


def test_names_of_profiles_are_whole_at_every_width() -> None:
    names = ("torchao-0.18/mxfp4/rceil/eager-cuda", "microxcaling-7bc4195/mxfp/nearest")
    for columns in (60, 80, 120, 200):
        done = run("explain", "mxfp4", "7.5", "--profile", names[0], "--against", names[1], columns=columns)
        assert done.exit_code == 0
        assert "\u2026" not in done.output
        assert max(map(len, done.output.splitlines())) <= max(columns, 80)
    assert any(all(name in line for name in names) for line in done.output.splitlines()[6:])


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("decode=0.001", 0x3A83126F),
        ("decode=3a83126f", 0x3A83126F),
        ("amax=0x45280000", 0x45280000),
        ("amax=2688", 0x45280000),
        ("amax=45280000", 0x45280000),
        ("encode=1e3", 0x447A0000),
    ],
)
def test_tensor_scales_are_decimals_or_bits(text: str, bits: int) -> None:
    scale = parse_tensor_scale(text)
    assert not isinstance(scale, str)
    assert (scale.bits, scale.kind.value) == (bits, text.partition("=")[0])


@pytest.mark.parametrize("text", ["decode", "decode=", "g=1", "amax=1e99", "amax=one", "amax=0x1"])
def test_other_tensor_scales_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"tensor-scale|larger than the largest"):
        parse_tensor_scale(text)


@pytest.mark.parametrize("text", ["decode=-1", "encode=bf000000", "amax=-0.0"])
def test_a_negative_tensor_scale_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is negative; it follows from a tensor's largest magnitude"):
        parse_tensor_scale(text)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "nul.py",
            b"NAME = 'a\0b'\n",
            "nul.py: source code string cannot contain null bytes; the file is not valid Python; save it as UTF-8",
        ),
        ("wide.py", "NAME = 'a'\n".encode("utf-16"), "the file is not valid Python; save it as UTF-8"),
        ("line.py", b"NAME = (\n", "line.py, line 1: "),
    ],
)
def test_a_target_that_is_no_text(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    done = run("check", file)
    assert done.exit_code == 2
    assert words in done.output
    assert "None" not in done.output


def test_a_folder_and_nothing_are_no_target(tmp_path: Path) -> None:
    assert "is a folder; pass a Python file" in run("check", tmp_path).output
    assert "'' names no target" in run("check", "").output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"\x93NUM", "it is cut short"),
        (b"\x80\x04]\x94.", "it does not begin as files of numpy.save do"),
        (None, "it holds Python objects, not numbers; save an array of numbers"),
    ],
)
def test_arrays_that_are_none(content: bytes | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    if content is None:
        np.save(file, np.array([1, "x"], object), allow_pickle=True)
    else:
        file.write_bytes(content)
    for done in (run("explain", "mxfp4", "--file", file), run("explain", "mxfp4@mxfp4", "--file", file)):
        assert done.exit_code == 2
        assert words in " ".join(done.output.split())
        assert "allow_pickle" not in done.output


def test_places_in_a_file_are_refused_without_one(tmp_path: Path) -> None:
    for option in ("--row", "--block"):
        done = run("explain", "mxfp4", "1", option, "0")
        assert done.exit_code == 2
        assert f"{option} names a place in the file of --file" in " ".join(done.output.split())
    np.save(tmp_path / "x.npy", np.ones((2, 64), np.float32))
    assert "row 1 of 2, block 1 of 2" in run("explain", "mxfp4", "--file", tmp_path / "x.npy", "--row", "1", "--block", "1").output
    assert "--block are of blocks" in " ".join(run("explain", "mxfp4@mxfp4", "--block", "1").output.split())


def test_products_are_taken_as_requirement_ids_have_them(tmp_path: Path) -> None:
    one = {"codes": np.zeros((1, 32), np.uint8), "scales": np.full((1, 1), 127, np.uint8)}
    np.savez(tmp_path / "x.npz", **{f"{side}_{part}": array for side in "ab" for part, array in one.items()})
    outputs = {run("explain", name, "--file", tmp_path / "x.npz").output for name in ("mxfp4@mxfp4", "mxfp4 @ mxfp4", "mxfp4 @mxfp4")}
    assert len(outputs) == 1
    assert "mxfp4" in outputs.pop()


GROUPS = """
import mxspec
NAME, VERSION, FORMATS = "groups", "1", ["fp8_e4m3-128-f32", "mxint8"]
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
"""


def test_a_level_that_a_format_has_nothing_of_is_no_pass(tmp_path: Path) -> None:
    """OCP requires nothing of float32 scales: by its words alone nothing of such a format is judged."""
    file, result = tmp_path / "groups.py", tmp_path / "result.json"
    file.write_text(GROUPS, encoding="ascii")
    given = ("check", file, "--in-process", "--quick", "--only", "quantize/*/tie-even", "--json", result)
    done = run(*given, "--level", "must")
    assert done.exit_code == 2
    assert "groups: fp8_e4m3-128-f32 has no requirement of level must, so nothing of it is judged; use --level contract" in done.stderr
    assert "nothing of fp8_e4m3-128-f32 is judged at level must" in " ".join(done.stdout.split())
    assert json.loads(result.read_text("ascii"))["exit_code"] == 2
    assert run(*given, "--level", "must", "--format", "mxint8").exit_code == 0
    assert run(*given, "--level", "contract").exit_code == 0


def test_values_of_float_scales_are_refused_with_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "fake.py"
    file.write_text('FORMATS = ["mxfp4", "fp8_e4m3-row-f32"]\ndef fake_quantize(x, fmt): return x\n', encoding="ascii")
    done = run("check", file)
    assert done.exit_code == 2
    assert (
        "fake_quantize is not judged in fp8_e4m3-row-f32: values alone do not show a float32 scale; write quantize(x, fmt)" in done.output
    )


def test_format_says_where_all_names_are() -> None:
    assert "all: mxspec formats]" in run("check", "--help").output
    assert "fp8_e4m3-128-f32" in run("formats").output


def unsupported_dtype(*_: object) -> None:
    memoryview(1)  # type: ignore[arg-type]  # as torch.from_numpy, whose TypeError no statement raises


def attribute(x: object, _: str) -> object:
    return x.cuda()  # type: ignore[attr-defined]


def refusal(*_: object) -> None:
    raise TypeError("float32 alone")


@pytest.mark.parametrize(
    ("quantize", "arrays", "library", "due"),
    [
        (unsupported_dtype, "numpy", "torch", True),
        (attribute, "numpy", "cupy", True),
        (refusal, "numpy", "torch", False),
        (unsupported_dtype, "numpy", None, False),
    ],
)
def test_a_library_that_met_numpy_arrays_gets_the_way_out(
    quantize: object, arrays: str, library: str | None, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    session = open_target(SimpleNamespace(FORMATS=["mxfp4"], ARRAYS=arrays, quantize=quantize), in_process=True)
    if library:
        monkeypatch.setitem(sys.modules, library, ModuleType(library))
    with pytest.raises(CallError) as caught:
        session.call("quantize", np.ones((1, 32), np.float32), "mxfp4")
    assert (f'ARRAYS = "{library}" in the target' in str(caught.value)) == due
