"""Kits for tools: what simulators and compilers are given, and that what is wrong there is found. Tools that are not installed skip visibly."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import mxspec
from mxspec.dot import block_factor
from mxspec.elements import decode_table, encode
from mxspec.formats import ELEMENTS as FORMATS, BlockFormat, get_block
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
from mxspec_conformance.kits.readmem import Operand, add_products
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


def covered(board: scoreboard.Scoreboard, x: np.ndarray) -> set[str]:
    """The bins that a block [1, k] adds to."""
    before = board.bins()
    board.cover(x.view(np.uint32)[0].tolist())
    return {name for name, hits in board.bins().items() if hits > before[name]}


def test_topics_are_seen(library: Path) -> None:
    board = scoreboard.Scoreboard(library, "mx-floor", "mxfp4")

    def topics(x: np.ndarray) -> set[str]:
        return {name.removeprefix("topic ") for name in covered(board, x) if name.startswith("topic ")}

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


def test_bins_name_thresholds_ends_and_places(library: Path) -> None:
    board = scoreboard.Scoreboard(library, "mx-floor", "mxfp4")
    assert len(board.bins()) == len(set(board.bins())) == 12 + 4 + 256 + 32 + 12 + 6 * 7
    below, tie, above = (float(np.uint32(0x3FA00000 + i).view(np.float32)) for i in (-1, 0, 1))  # 1.25 lies between the codes 2 and 3
    x = blocks_of([below, -tie, above])
    assert {b for b in covered(board, x) if b.startswith("threshold")} == {
        "threshold +02|03 below",
        "threshold -02|03 on",
        "threshold +02|03 above",
    }
    assert {b for b in covered(board, x) if not b.startswith("threshold")} == {
        "topic exact", "topic tie-even", "topic below-tie", "topic above-tie", "topic scale-boundary", "scale differs below", "binade 81", "largest in lane 0",
        "input +zero", "input +normal", "input -normal",
    }  # fmt: skip
    words = np.array([[0x7FC00000, 0xFF800001, 0xFF800000, 0x80000001, *[0x80000000] * 28]], np.uint32)
    assert {b for b in covered(board, words) if b.startswith(("input", "binade"))} == {
        "input +quiet NaN", "input -signaling NaN", "input -infinity", "input -subnormal", "input -zero", "binade ff",
    }  # fmt: skip
    assert {"scale lowest", "largest in lane 0"} <= covered(board, blocks_of([], 2.0**-148))
    assert "scale highest" in covered(board, blocks_of([], 2.0**125))
    assert sum(board.bins().values()) == sum(board._library.mxspec_hits(i) for i in range(2048))
    assert board.covered().startswith("topic ")
    assert board.covered().endswith("threshold 3/42")


def test_a_file_of_blocks_says_what_it_covers(kit: Path, library: Path) -> None:
    command = [sys.executable, kit / "mxspec_scoreboard.py", library, "mx-floor", "mxfp4", kit / "mxfp4.x.hex"]
    covered, *empty = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    met, size = (sum(int(pair[i]) for pair in re.findall(r"(\d+)/(\d+)", covered)) for i in (0, 1))
    assert size - met == len(empty) > 0
    assert all(line.startswith("  not met: ") for line in empty)


UNITS = list(files.UNITS)


def wide_operands(block: BlockFormat, count: int, seed: int) -> tuple[Operand, Operand]:
    """Random finite codes under scales that are near each other, far from each other, or at the ends; a NaN in the last row."""
    rng = np.random.default_rng(seed)
    finite = np.flatnonzero(np.isfinite(decode_table(block.element))).astype(np.uint8)
    low, high = [(1, 127), (0x28, 0x48), (0, 9)][seed % 3] if block.has_tensor_scale else [(115, 140), (0, 255), (125, 130)][seed % 3]
    sides = [
        (rng.choice(finite, (count, 256)), rng.integers(low, high, (count, 256 // block.k)).astype(np.uint8)) for _ in range(2)
    ]  # fmt: skip
    sides[0][1][-1, 2] = 0x7F if block.has_tensor_scale else 0xFF
    return sides[0], sides[1]


def ask_unit(board: scoreboard.Scoreboard, unit: int | str, a: Operand, b: Operand, k: int = 256) -> list[int]:
    size = -(-k * len(a[1][0]) // 256)
    return [
        board.dot(unit, x.tolist()[:k], s.tolist()[:size], y.tolist()[:k], t.tolist()[:size]) for x, s, y, t in zip(*a, *b, strict=True)
    ]


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, scoreboard.Scoreboard]:
    folder = tmp_path_factory.mktemp("units")
    for name, data in write_kit("hardware", ["mxfp8_e5m2", "mxint8", "nvfp4"], 16).items():
        (folder / name).write_bytes(data)
    path = hardware.build_library(folder)
    return {
        fmt: scoreboard.Scoreboard(path, rule, fmt)
        for fmt, rule in (("mxfp8_e5m2", "mx-floor"), ("mxint8", "mx-floor"), ("nvfp4", "nvfp4-te"))
    }


@pytest.mark.parametrize("fmt", ["mxfp8_e5m2", "mxint8", "nvfp4"])
def test_units_add_as_the_model_does(boards: dict[str, scoreboard.Scoreboard], fmt: str) -> None:
    """Random sums, of 256 products and of fewer, by each unit, bit for bit."""
    block, met = get_block(fmt), set[int]()
    for seed in range(3):
        a, b = wide_operands(block, 12, seed)
        for unit in UNITS:
            for k in (256, 160):
                cut = [(codes[:, :k], scales[:, : k // block.k]) for codes, scales in (a, b)]
                want = add_products(cut[0], cut[1], block, unit).diagonal().tolist()
                assert ask_unit(boards[fmt], unit, a, b, k) == want, (unit, seed, k)
                met |= set(want)
    assert len(met) > 100
    assert 0x7FC00000 in met


@pytest.mark.parametrize("unit", UNITS)
def test_units_cut_where_the_model_does(boards: dict[str, scoreboard.Scoreboard], unit: str) -> None:
    """2^t, a number or two, -2^t: for every t what is left, within a step of each size and after it."""
    block, board, one = get_block("mxfp8_e5m2"), boards["mxfp8_e5m2"], 0x3C
    rows = [
        (t, small, at) for t in range(5, 30) for small in ((one,), (one + 2,), (one, one), (one + 1, one + 3)) for at in (1, 5, 9, 17, 33)
    ]
    scales = np.full((len(rows), 8), 127, np.uint8)
    a, b = np.zeros((len(rows), 256), np.uint8), np.full((1, 256), one, np.uint8)
    ends = {1: 3, 5: 7, 9: 15, 17: 31, 33: 63}
    b[0, [0, *ends.values()]] = one + 4 * 15
    for row, (t, small, at) in enumerate(rows):
        a[row, at : at + len(small)] = small
        a[row, [0, ends[at]]] = 4 * t, 0x80 | 4 * t
    want = add_products((a, scales), (b, scales[:1]), block, unit)[:, 0].tolist()
    assert ask_unit(board, unit, (a, scales), (np.repeat(b, len(rows), axis=0), scales)) == want
    assert len(set(want)) > 3


def exact_step(unit: tuple[int, ...], terms: Sequence[tuple[Fraction, int]], total: Fraction) -> Fraction:
    """One step by the definition, in rationals: aligned addends and their sum, each cut (0) or rounded to nearest even (1)."""
    _, fraction, aligned, output, normalised, least, *_ = unit

    def round_to(x: Fraction, place: int, how: int) -> Fraction:
        steps = x / Fraction(2) ** place
        return (Fraction(round(steps)) if how else Fraction(int(steps))) * Fraction(2) ** place

    def exponent(x: Fraction) -> int:
        e = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
        return e if abs(x) >= Fraction(2) ** e else e - 1

    own = [exponent(total)] if total else []
    top = max([least, *own, *(e for x, e in terms if x)])
    total = sum((round_to(x, top - fraction, aligned) for x in (*(x for x, _ in terms), total)), Fraction(0))
    return round_to(total, max(exponent(total), least) - output, normalised) if total else total


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("normalised", [0, 1])
@pytest.mark.parametrize(("group", "fraction", "output"), [(4, 6, 5), (16, 24, 23), (7, 10, 12)])
def test_a_unit_of_ones_own(
    boards: dict[str, scoreboard.Scoreboard], aligned: int, normalised: int, group: int, fraction: int, output: int
) -> None:
    """Every parameter against the definition in rationals."""
    board, block = boards["mxint8"], get_block("mxint8")
    unit = (group, fraction, aligned, output, normalised, -126, 9999, 0)
    number = board.define_unit(*unit)
    assert number == len(UNITS)
    a, b = wide_operands(block, 6, 2)
    values = [block_factor(*side, block) for side in (a, b)]
    for row in range(5):  # the last one has a NaN
        total = Fraction(0)
        pairs = [
            (Fraction(float(x)) * Fraction(float(y)), int(e) + int(f))
            for x, y, e, f in zip(*(v.values[row] for v in values), *(v.exponents[row] for v in values), strict=True)
        ]
        for start in range(0, 256, group):
            total = exact_step(unit, pairs[start : start + group], total)
        assert board.dot(number, *(part[row].tolist() for side in (a, b) for part in side)) == int(np.float32(float(total)).view(np.uint32))


@pytest.mark.parametrize("change", [{0: 0}, {0: 65}, {1: -1}, {1: 59}, {0: 64, 1: 54}, {2: 3}, {4: -1}, {3: 56}, {7: -1}])
def test_a_unit_that_no_63_bits_hold_is_refused(boards: dict[str, scoreboard.Scoreboard], change: dict[int, int]) -> None:
    unit = [32, 25, 0, 23, 0, -126, 127, 0]
    assert boards["mxint8"].define_unit(*unit) == len(UNITS)
    for at, value in change.items():
        unit[at] = value
    with pytest.raises(ValueError, match="no unit of "):
        boards["mxint8"].define_unit(*unit)


def test_a_sum_without_a_unit_is_refused(boards: dict[str, scoreboard.Scoreboard]) -> None:
    with pytest.raises(ValueError, match="unit 'fused-f12' with 32 and 32 products"):
        boards["mxint8"].dot("fused-f12", [0] * 32, [127], [0] * 32, [127])
    with pytest.raises(ValueError, match="257"):
        boards["mxint8"].dot("fused-f13-32", [0] * 257, [127] * 9, [0] * 257, [127] * 9)


@pytest.mark.parametrize("fmt", ["mxfp8_e5m2", "mxint8", "nvfp4"])
def test_the_sums_of_a_file_are_the_units_and_tell_them_apart(boards: dict[str, scoreboard.Scoreboard], fmt: str) -> None:
    files_of = write_kit("hardware", [fmt], 16)
    fields = json.loads(files_of["mxspec_index.json"])["files"][f"{fmt}.dot.hex"]["fields"]
    lines = [int(line.split()[0], 16) for line in files_of[f"{fmt}.dot.hex"].decode("ascii").splitlines() if not line.startswith("//")]

    def read(word: int, name: str) -> list[int]:
        low, bits, count = (fields[name][what] for what in ("low", "bits", "count"))
        return [word >> low + bits * i & (1 << bits) - 1 for i in range(count)]

    operands = [[read(word, name) for name in ("a_code", "a_scale", "b_code", "b_scale")] for word in lines]
    sums = {unit: [read(word, unit)[0] for word in lines] for unit in UNITS}
    for unit in UNITS:
        assert [boards[fmt].dot(unit, *each) for each in operands] == sums[unit]
    assert len({tuple(column) for column in sums.values()}) == len(UNITS)
    # A running sum that is limited to float32, in a unit that limits the result alone.
    name = "fused-f25-16"
    unit = list(next(values for unit, values in files.UNITS.items() if unit == name))
    own = boards[fmt].define_unit(
        *(["MX_CUT", "MX_NEAREST", "MX_STICKY"].index(v) if isinstance(v, str) else 127 if v == 9999 else v for v in unit)
    )
    assert ([boards[fmt].dot(own, *each) for each in operands] == sums[name]) == (fmt == "nvfp4")


@pytest.mark.parametrize("fmt", ["mxfp8_e5m2", "mxint8", "nvfp4"])
def test_covergroups_have_the_bins_of_the_library(boards: dict[str, scoreboard.Scoreboard], fmt: str) -> None:
    points = [name.split()[0] for name in boards[fmt].bins()]
    package = files.write_package([fmt])
    assert [int(n) for n in re.findall(r"bins at\[\] = \{\[[01]:(\d+)\]\}", package)] == [
        points.count("binade") - 1, points.count("largest") - 1, points.count("threshold"),
    ]  # fmt: skip
    assert package.count("bins met") == points.count("topic") + points.count("scale")


def test_a_profile_that_the_library_lacks_is_refused(library: Path) -> None:
    with pytest.raises(ValueError, match="no profile 'mx-flour' of 'mxfp4' without"):
        scoreboard.Scoreboard(library, "mx-flour", "mxfp4")
    assert ctypes.CDLL(str(library)).mxspec_find(b"mx-floor", b"mxfp4", 1) == -1


def has_module(name: str) -> bool:
    return subprocess.run([hardware.PYTHON, "-c", f"import {name}"], capture_output=True).returncode == 0


needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")


@needs_icarus
def test_icarus_passes_the_right_design_and_finds_the_wrong_one(kit: Path) -> None:
    right, wrong = (hardware.simulate_readmem(kit, ties) for ties in (0, 1))
    assert right["blocks"] == wrong["blocks"] > 4
    assert right["failed"] == 0
    assert wrong["failed"] > 0


@needs_icarus
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


@needs_icarus
def test_a_bench_that_does_not_read_its_files_stops(tmp_path: Path, kit: Path) -> None:
    (tmp_path / "mxspec_index.vh").write_bytes((kit / "mxspec_index.vh").read_bytes())
    with pytest.raises(RuntimeError, match="were not read: name their folder by MXSPEC_DIR"):
        hardware.simulate_readmem(tmp_path, 0)


@pytest.mark.share(30)
@pytest.mark.skipif(shutil.which("verilator") is None, reason="needs Verilator")
def test_verilator_finds_the_wrong_design_and_covers_all_thresholds(kit: Path) -> None:
    row = hardware.simulate_dpi(kit, 1, 4000)
    assert row["failed"] > 0
    assert row["name"] == "mx-floor, ties away from zero"
    assert (row["sums"] > 30, row["wrong_sums"]) == (True, 0)
    assert "scale 4/4, binade 256/256, largest 32/32," in row["covered"]
    assert "threshold 42/42" in row["covered"]


@pytest.mark.share(8)
@needs_icarus
@pytest.mark.parametrize("ties_away", [0, 1])
def test_cocotb_passes_the_right_design_and_names_the_wrong_one(kit: Path, ties_away: int) -> None:
    if not has_module("cocotb"):
        pytest.skip("needs cocotb in the interpreter that MXSPEC_HARDWARE_PYTHON names")
    row = hardware.simulate_cocotb(kit, ties_away, hardware.PYTHON)
    assert (row["passed"], row["failed"] == 0) == (not ties_away, not ties_away)
    assert row["name"] == "mx-floor" + ", ties away from zero" * ties_away
    assert row["covered"].startswith("topic 12/12, ")


def test_covergroups_elaborate_with_the_bins_of_the_library(kit: Path, library: Path) -> None:
    if not has_module("pyslang"):
        pytest.skip("needs pyslang in the interpreter that MXSPEC_HARDWARE_PYTHON names")
    found = hardware.elaborate(kit, hardware.PYTHON)
    assert not found["errors"]
    bins = scoreboard.Scoreboard(library, "mx-floor", "mxfp4").bins()
    lanes = sum(name.startswith(("input", "threshold")) for name in bins)
    assert found["bins"] == {"mxspec_mxfp4_blocks": len(bins) - lanes, "mxspec_mxfp4_lanes": lanes}
    package = (kit / "mxspec_pkg.sv").read_text("ascii")
    (kit / "mxspec_pkg.sv").write_text(package.replace("[28:24]", "[28:24"), "ascii")
    try:
        assert hardware.elaborate(kit, hardware.PYTHON)["errors"]
    finally:
        (kit / "mxspec_pkg.sv").write_text(package, "ascii")


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
    assert all(row["log"] for row in document["rows"])
    assert not document["elaborated"]["errors"]


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
