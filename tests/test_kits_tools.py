"""Kits for tools: what simulators and compilers are given, and that what is wrong there is found. Tools that are not installed skip visibly."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mxspec
from mxspec.elements import encode
from mxspec.formats import ELEMENTS as FORMATS
from mxspec.rounding import Rounding
from mxspec_conformance.kits import hardware as files, scoreboard
from mxspec_conformance.kits.llvm import (
    ELEMENTS,
    FACTOR,
    cast_steps,
    digest_steps,
    elements_of,
    write_cases,
    write_lit,
    write_nan_lit,
    write_scaling_lit,
)
from mxspec_conformance.kits.writing import write_kit
from mxspec_lab import hardware, llvm

REPORTS = Path(__file__).resolve().parents[1] / "reports" / "kits"


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hardware")
    for name, data in write_kit("hardware", ["mxfp4"], 16).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def library(kit: Path) -> Path:
    path = kit / "libmxspec.so"
    subprocess.run(
        ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", kit / "mxspec_dpi.c", "-o", path],
        check=True,
    )
    return path


def blocks_of(values: list[float], scale: float = 1.0) -> np.ndarray:
    """A block [1, 32] with a maximum of 4 and these values, times a scale."""
    return np.array([[4.0, *values, *[0.0] * (31 - len(values))]], np.float32) * np.float32(scale)


def ask(board: scoreboard.Scoreboard, x: np.ndarray, codes: np.ndarray, scales: np.ndarray) -> bool:
    return board.check(x.view(np.uint32)[0].tolist(), codes[0].tolist(), int(scales[0, 0]))


def test_the_scoreboard_passes_what_is_right_and_names_ties_away(library: Path) -> None:
    board = scoreboard.Scoreboard(library, "mx-floor", "mxfp4")
    assert board.name() == "nothing judged"
    x = blocks_of([0.25, -0.25, 0.75, 1.25, 2.5, 3.5, 0.26])
    right = mxspec.quantize(x, "mxfp4", profile="mx-floor")
    assert ask(board, x, right.codes, right.scales)
    assert board.name() == "mx-floor"
    assert not board.failed
    codes = right.codes.copy()
    codes[0, [1, 2, 4, 5]] += 1  # the ties that went to an even code below
    assert not ask(board, x, codes, right.scales)
    assert board.name() == "no rule"
    again = scoreboard.Scoreboard(library, "mx-floor", "mxfp4")
    for away in (x, x * np.float32(4)):
        assert not ask(again, away, codes, mxspec.quantize(away, "mxfp4", profile="mx-floor").scales)
    assert again.name() == "mx-floor, ties away from zero"
    assert "lane 1: x = 3e800000" in again.summary()


@pytest.mark.parametrize("rule", ["mx-rceil", "mx-ceil"])
def test_the_scoreboard_names_another_rule(library: Path, rule: str) -> None:
    board = scoreboard.Scoreboard(library, "mx-floor", "mxfp4")
    for top in (4.5, 6.5, 7.9):
        x = blocks_of([top, 1.0, -2.0])
        other = mxspec.quantize(x, "mxfp4", profile=rule)
        ask(board, x, other.codes, other.scales)
    assert board.failed
    assert board.name() == rule


def test_topics_are_seen(library: Path) -> None:
    board = scoreboard.Scoreboard(library, "mx-floor", "mxfp4")

    def topics(x: np.ndarray) -> set[str]:
        board.topics = 0
        t = mxspec.quantize(x, "mxfp4", profile="mx-floor")
        ask(board, x, t.codes, t.scales)
        return {name for i, name in enumerate(files.BLOCK_TOPICS) if board.topics >> i & 1}

    with np.errstate(all="ignore"):
        assert topics(blocks_of([])) == {"exact", "scale-boundary"}
        assert topics(blocks_of([0.25, 0.5])) == {"exact", "tie-even", "subnormal", "scale-boundary"}
        assert topics(blocks_of([float(np.nextafter(np.float32(0.25), np.float32(1)))])) == {
            "exact",
            "above-tie",
            "subnormal",
            "scale-boundary",
        }
        assert topics(blocks_of([float(np.nextafter(np.float32(1.25), np.float32(1)))])) == {"exact", "below-tie", "scale-boundary"}
        assert topics(blocks_of([7.5, -0.0])) == {"exact", "overflow", "zero-sign"}
        assert topics(np.zeros((1, 32), np.float32)) == {"zero-block"}
        assert topics(blocks_of([], 2.0**-140)) == {"scale-clamp"}
        assert topics(blocks_of([float("nan")])) == {"nan"}
        assert topics(blocks_of([float("inf")])) == {"inf"}


def test_a_profile_that_the_library_lacks_is_refused(library: Path) -> None:
    with pytest.raises(ValueError, match="no profile 'mx-flour' of 'mxfp4' without"):
        scoreboard.Scoreboard(library, "mx-flour", "mxfp4")
    assert ctypes.CDLL(str(library)).mxspec_find(b"mx-floor", b"mxfp4", 1) == -1


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")
def test_icarus_passes_the_right_design_and_finds_the_wrong_one(kit: Path) -> None:
    right, wrong = (hardware.simulate_readmem(kit, ties) for ties in (0, 1))
    assert right["blocks"] == wrong["blocks"] > 4
    assert right["failed"] == 0
    assert wrong["failed"] > 0


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")
@pytest.mark.parametrize(
    ("text", "other", "failed", "left_open"),
    [
        ("amax[30:23] < 2 ? 8'd0 : amax[30:23] - 8'd2", "amax[30:23] < 2 ? 8'hFE : amax[30:23] - 8'd2", True, False),
        ("amax > 31'h7F800000", "1'b0", False, True),  # OCP leaves open what becomes of a NaN in MXFP4
        ("scale = 8'hFE", "scale = 8'hFF", False, False),  # an infinity makes the block NaN, which is right
    ],
    ids=["scale-wraps", "no-nan", "inf-as-nan"],
)  # fmt: skip
def test_a_design_is_judged_by_the_lines_of_a_file(tmp_path: Path, text: str, other: str, failed: bool, left_open: bool) -> None:
    for name, data in write_kit("hardware", ["mxfp4"]).items():
        (tmp_path / name).write_bytes(data)
    design = hardware.QUANTIZER.read_text("ascii")
    assert text in design
    (tmp_path / "design.v").write_text(design.replace(text, other), "ascii")
    row = hardware.simulate_readmem(tmp_path, 0, tmp_path / "design.v")
    assert (row["failed"] > 0, row["open"] > 0) == (failed, left_open), row


def test_a_row_that_was_not_simulated_is_neither_right_nor_wrong() -> None:
    rows = [
        {"flow": "dpi", "design": "right", "skipped": "not installed"},
        {"flow": "dpi", "design": "ties away", "failed": 3, "name": "no rule"},
    ]
    assert hardware.find_wrong(rows) == ["dpi: ties away was named 'no rule'"]
    assert hardware.find_wrong(
        [{"flow": "readmem", "design": "ties away", "failed": 0}, {"flow": "readmem", "design": "right", "failed": 0}]
    )


def test_the_published_simulations() -> None:
    if not (REPORTS / "hardware.json").exists():
        pytest.skip("reports/kits/hardware.json has not been made")
    document = json.loads((REPORTS / "hardware.json").read_text("ascii"))
    assert {(r["flow"], r["design"]) for r in document["rows"]} == {
        (f, d) for f in ("readmem", "dpi", "cocotb") for d in ("right", "ties away")
    }
    assert not any("skipped" in r for r in document["rows"])
    assert not hardware.find_wrong(document["rows"])


# LLVM.


def test_cases_are_the_encoders_steps() -> None:
    rng = np.random.default_rng(19)
    bits = rng.integers(0, 1 << 32, 4096, dtype=np.uint32)
    for name, mode in (("e4m3", Rounding.RNE), ("e2m1", Rounding.RTN)):
        steps = cast_steps(FORMATS[name], mode)
        overflow = "own" if name == "e4m3" else "saturate"
        assert (steps.at(bits) == encode(bits.view(np.float32), name, rounding=mode, overflow=overflow)).all()
    text = write_cases(["e2m1"])
    assert "MX_STEP(Float4E2M1FN, NearestTiesToEven, 0x40200001, 0x05)" in text  # 2.5 is a tie and goes to 2
    assert "MX_STEP(Float4E2M1FN, NearestTiesToAway, 0x40200000, 0x05)" in text
    assert "MX_OPEN(Float4E2M1FN, TowardZero, 0x7F800001, 0x07)" in text
    assert "Float8" not in text


def test_digests_are_those_of_each_code() -> None:
    steps = cast_steps(FORMATS["e3m2"], Rounding.RNE)
    total = 0
    for code in steps.at(np.arange(1 << 16, dtype=np.int64) << 16).tolist():
        total = (total * FACTOR + code + 1) % 2**64
    assert digest_steps(steps, 16) == total
    assert digest_steps(steps) != total


def test_formats_without_semantics_are_refused() -> None:
    assert elements_of(["mxfp4", "nvfp4", "mxfp8_e5m2"]) == ("e2m1", "e5m2")
    with pytest.raises(ValueError, match="no floating-point semantics for int8"):
        write_kit("llvm", ["mxint8"])


def test_lit_lanes_hold_every_code_that_is_no_nan() -> None:
    text = write_lit()
    assert text.count("f8E5M2>\n") + text.count("f8E4M3FN>\n") == 32
    assert "0x7F" not in "".join(line for line in text.splitlines() if "f8E4M3FN>" in line)
    assert "0x00, 0x01" in text


def test_scaling_casts_are_products_of_values_and_scales() -> None:
    text = write_scaling_lit(["e2m1", "e5m2"])
    assert text.count("// CHECK-LABEL: @e8m0_") == 16  # 255 bytes, 16 to a function
    body = text.partition("func.func @e2m1_01_0_extf")[2].partition("}")[0]
    assert "0x01, 0x01" in body
    assert "scaling_extf" in body
    wide = text.partition("// CHECK-LABEL: @e2m1_01_0_extf(\n// CHECK: arith.constant dense<[")[2].partition("]")[0]
    got = np.array([int(n) for n in wide.split(",")], np.int32).view(np.float32)
    want = mxspec.dequantize(np.resize(np.arange(16, dtype=np.uint8), (1, 32)), np.array([[1]], np.uint8), "mxfp4")[0, :16]
    assert got.tobytes() == np.asarray(want, np.float32).tobytes()
    assert "dense<[0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1]> : vector<16xi4>" in text
    assert "inf" not in text
    assert f"{0x7F800000} : i32" in write_nan_lit()


@pytest.mark.skipif(shutil.which("c++") is None or llvm.find_tool("llvm-config") is None, reason="needs LLVM's development package")
def test_the_published_comparison_with_apfloat() -> None:
    document = json.loads((REPORTS / "llvm.json").read_text("ascii"))
    assert document["apfloat"]["wrong"] == 0 < document["apfloat"]["asked"]
    assert document["apfloat"]["casts"] == document["apfloat"]["digests_equal"] == 5 * len(ELEMENTS)
    assert document["lit"]["passed"]
    assert document["lit"]["files"]["mx-scaling.mlir"]
    assert all(row["equal"] for row in document["swept"])
    assert {r["semantics"] for r in document["swept"] if r["mode"] == "NearestTiesToEven"} == set(ELEMENTS.values())
    assert document["changed_row"]["differs"] == ["Float4E2M1FN NearestTiesToEven 40200000 expected 05 returned 04"]
