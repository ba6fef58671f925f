"""Kits: the command writes what it wrote; each runs where it should; right implementations pass, mutants do not."""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec.adjacent import register_named
from mxspec_conformance.cli.main import main
from mxspec_conformance.kits import golden, reciprocal, runtime, scoreboard
from mxspec_conformance.kits.c99 import list_levels, write_c99
from mxspec_conformance.kits.choosing import CHOSEN, SIZES, chosen_blocks, chosen_formats
from mxspec_conformance.kits.golden import GROUPS, Kit, find_kills
from mxspec_conformance.kits.readmem import find_topics
from mxspec_conformance.kits.writing import KITS, LARGEST, write_kit
from mxspec_conformance.scoring.subjects import Kind, list_controls, list_mutant_subjects, list_right
from mxspec_lab.c99 import build, compare, compare_reciprocal
from mxspec_lab.kits import cross_validate, format_choice, make_table
from mxspec_vectors.export import export
from mxspec_vectors.topics import BLOCK_TOPICS

from tests.judge.test_float_scales import RIGHT, WRONG

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "reports" / "kits"


kit_files = cache(write_kit)
#: Kit -> digest of its files.
DIGESTS = {
    "pytest": "57e2bc00524168b9aa5246282924add3", "c": "09d32fd8e372c06b232b3f2897265e52",
    "json": "0690e2149f0c29942b4f331ec75f41d1", "hardware": "237f4c61d823b1b573fe9a8b655a6d68", "products": "0d3a83db5396dd652d37ab85002008b5",
}  # fmt: skip


@pytest.mark.share(60)  # all of them on every commit
@pytest.mark.parametrize("name", DIGESTS)
def test_a_kit_is_what_it_was(name: str) -> None:
    """Packed data counts unpacked: libraries of other versions pack the same into other bytes."""

    def unpack(found: re.Match[str]) -> str:
        return str(lzma.decompress(base64.b85decode("".join(found[1].split()))))

    files = kit_files(name, (), None if name in ("hardware", "products") else 16)
    plain = [(file, re.sub(r'(?<=""")([^"]{1000,})', unpack, data.decode("ascii"))) for file, data in sorted(files.items())]
    digest = hashlib.blake2b(repr(plain).encode(), digest_size=16).hexdigest()
    assert digest == DIGESTS[name], f"if kit {name} is meant to change, its digest here is now {digest}"


def test_data_goes_through_the_text_unchanged() -> None:
    blocks = {"mxfp4": chosen_blocks("mxfp4", 16), "nvfp4": chosen_blocks("nvfp4", 16)}
    back = runtime.unpack_data(runtime.pack_data(blocks))
    for fmt, listed in blocks.items():
        for a, b in zip(listed, back[fmt], strict=True):
            assert np.array_equal(a["x"], b["x"])
            assert {k: v for k, v in a.items() if k != "x"} == {k: v for k, v in b.items() if k != "x"}


def test_sizes_are_prefixes_and_every_block_is_a_case() -> None:
    for fmt in chosen_formats():
        longest = [b["i"] for b in chosen_blocks(fmt, SIZES[-1])]
        assert len(set(longest)) == len(longest) <= SIZES[-1]
        assert [b["i"] for b in chosen_blocks(fmt, SIZES[0])] == longest[: SIZES[0]]


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e5m2", "mxint8"])
def test_no_right_implementation_is_rejected(fmt: str) -> None:
    kit = Kit(fmt, tuple(chosen_blocks(fmt, 140)), ("rows", "wide"))
    for subject in [*list_controls(fmt), *list(list_right(fmt))[::9]]:
        kills = find_kills(subject.build, kit, subject.profile)
        assert not kills.blocks, subject.what
        assert not kills.calls, subject.what


@pytest.mark.parametrize(("changed", "accepted"), [(0x80, True), (0x01, False)])
@pytest.mark.parametrize("pattern", ["strides", "tail"])
def test_a_call_may_give_a_nan_another_sign(pattern: str, changed: int, accepted: bool) -> None:
    """As casts in vectors do, where the memory is not dense, or at the end of a row."""

    def quantize(x: Any, fmt: str, **_: Any) -> tuple[Any, Any]:
        cut = -x.shape[1] % 32
        made = mxspec.quantize(np.pad(x, ((0, 0), (0, cut))), fmt, profile="vllm-0.33/mxfp8/torch")
        unusual = bool(cut) or not x.flags.c_contiguous
        return np.where(made.codes & 127 == 127, made.codes ^ (changed * unusual), made.codes).astype(np.uint8), made.scales

    calls = runtime.Calls(quantize, "mxfp8_e4m3", chosen_blocks("mxfp8_e4m3", 16))
    assert (calls.codes & 127 == 127).any()
    assert getattr(calls, pattern)() == accepted


@pytest.mark.parametrize(
    "ident", ["ties-away", "eps-1e-5", "amax-but-lane-17", "nan-ignored", "scales-of-row-shared", "cached-answer", "buffers-reused"]
)
def test_mutants_are_found(ident: str) -> None:
    subject = next(s for s in list_mutant_subjects("mxfp4") if s.id == ident)
    assert find_kills(subject.build, Kit("mxfp4", tuple(chosen_blocks("mxfp4", 70))), subject.profile).all


def test_cross_validation_looks_at_one_half_alone() -> None:
    found = cross_validate({f"mutant/quantize/mxfp4/mx-floor/{n}": golden.Kills(frozenset({f"only-{n}"})) for n in range(10)}, splits=3)
    assert found["140"] == {"mean": 0.0, "worst": 0.0, "best": 0.0}
    shared = cross_validate({f"mutant/quantize/mxfp4/mx-floor/{n}": golden.Kills(frozenset({"all"})) for n in range(10)}, splits=3)
    assert shared["16"] == {"mean": 1.0, "worst": 1.0, "best": 1.0}


def test_the_published_numbers_are_of_the_published_choice() -> None:
    report = json.loads((REPORT / "cross-validation.json").read_text("ascii"))
    assert [f["format"] for f in report["formats"]] == list(chosen_formats())
    for entry in report["formats"]:
        assert entry["candidates"] == len(golden.list_blocks(entry["format"]))
        assert entry["sizes"]["140"]["blocks"] == len(chosen_blocks(entry["format"], 140))
        assert entry["sizes"]["140"]["right_rejected"]["found"] == 0
    document = json.loads(CHOSEN.read_text("ascii"))
    assert CHOSEN.read_text("ascii") == format_choice(document["formats"], report["formats"])
    page = (ROOT / "docs" / "kits.md").read_text("utf-8")
    assert page.partition("<!-- kits -->\n")[2].partition("\n<!-- end -->")[0] == make_table(report)


# What every file is.


@pytest.mark.parametrize(
    ("name", "fmt"),
    [(name, fmt) for name in ("pytest", "c", "json", "products") for fmt in KITS[name].others if name != "products" or "@" in fmt],
)
def test_a_file_of_one_format_is_small_and_says_what_it_is(name: str, fmt: str) -> None:
    """Below 30 kB, its licence, and what it does not detect."""
    (data, *driver) = kit_files(name, (fmt,)).values()
    head = data.decode("ascii")[:1500]
    assert len(data) < LARGEST == 30_000
    assert "CC0-1.0" in head
    assert "Not looked at: " in re.sub(r"\n( \*|#) ", " ", head)
    assert all(len(text) < LARGEST and b"CC0-1.0" in text for text in driver)


# JSON.


def read_and_judge(text: str, quantize: Any, rule: str) -> list[str]:
    """The blocks that a quantizer (inputs -> codes, scale code) gets wrong, as the keys of the file say; open ones are left out."""
    kit = json.loads(text)
    wrong = []
    for block in kit["blocks"]:
        runs = [(word, int(n or 1)) for word, _, n in (part.partition("*") for part in block["x"].split())]
        x = np.array([int(word, 16) for word, n in runs for _ in range(n)], np.uint32).view(np.float32)
        assert len(x) == kit["k"]
        answers = [a for a in block["answers"] if kit["rules"].index(rule) in a["rules"]]
        codes, scale = quantize(x)
        if not answers or block.get("open"):
            continue
        for a in answers:
            want, mask = (np.frombuffer(bytes.fromhex(a.get(key, "ff" * len(x))), np.uint8) for key in ("codes", "mask"))
            same = ((codes ^ want) & mask == 0) | (~np.bool_(block.get("signs", 0)) & ((codes | want) & 127 == 0))
            same[a.get("nan", [])] = True
            if int(a["scale"], 16) <= scale <= int(a.get("to", a["scale"]), 16) and same.all():
                break
        else:
            wrong.append(block["id"])
    return wrong


@pytest.mark.parametrize(("fmt", "rule"), [("mxfp8_e4m3", "mx-rceil"), ("fp8_e4m3-128-f32", "deepgemm-2.6/fp8-128/float32")])
def test_the_json_file_is_read_in_twenty_lines(fmt: str, rule: str) -> None:
    register_named([fmt])
    (data,) = kit_files("json", (fmt,)).values()

    def right(x: Any) -> tuple[Any, int]:
        t = mxspec.quantize(x, fmt, profile=rule)
        return t.codes, int(t.scales[0])

    def wrong(x: Any) -> tuple[Any, int]:
        codes, scale = right(x)
        return np.roll(codes, 1), scale

    assert read_and_judge(data.decode("ascii"), right, rule) == []
    assert len(read_and_judge(data.decode("ascii"), wrong, rule)) > 5


# FP8 in groups.


def test_each_rule_of_groups_passes_as_itself() -> None:
    for rule in golden.rules_of(GROUPS[0]):

        def quantize(x: Any, fmt: str, rule: str = rule) -> tuple[Any, Any]:
            t = mxspec.quantize(x, fmt, profile=rule)
            return t.codes, mxspec.decode(t.scales, "f32")

        assert not group_kills(quantize, rule), rule
        calls = runtime.Calls(runtime.plain(quantize), GROUPS[0], chosen_blocks(GROUPS[0], 28))
        assert all(getattr(calls, name)() for name in ("rows", "single", "wide", "again", "strides")), rule


def group_kills(quantize: Any, rule: str) -> list[int]:
    blocks = chosen_blocks(GROUPS[0], 28)
    found = runtime.ask_blocks(runtime.plain(quantize), GROUPS[0], blocks)
    return runtime.closed_blocks(found, GROUPS[0], blocks, runtime.failing_blocks(found, GROUPS[0], blocks, rule))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_quantizers_of_groups_are_found(name: str) -> None:
    """Those of the judge's own tests; what takes another group's scale takes more than one group in a row."""
    kernel, rule = WRONG[name][0], "deepgemm-2.6/fp8-128/float32"
    if name == "scale of the next group":
        assert not runtime.Calls(runtime.plain(kernel.quantize), GROUPS[0], chosen_blocks(GROUPS[0], 28)).wide()
    else:
        assert group_kills(kernel.quantize, rule)
    assert not group_kills(RIGHT.quantize, rule)


def test_the_file_of_groups_fails_under_a_named_rule_alone(tmp_path: Path) -> None:
    """No text fixes their scales, so that a rule of nobody's is no mistake."""
    path = tmp_path / "test_mx_blocks.py"
    path.write_bytes(kit_files("pytest", (GROUPS[0],))[path.name])
    (tmp_path / "kernel.py").write_text(
        "import numpy as np, ml_dtypes\n"
        "def other(x, fmt):\n"
        "    groups = np.asarray(x, np.float32).reshape(*x.shape[:-1], -1, 128)\n"
        "    scales = np.maximum(np.abs(groups).max(-1), np.float32(1e-3)) / np.float32(448)\n"
        "    codes = np.clip(groups * (np.float32(1) / scales[..., None]), -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)\n"
        "    return codes.reshape(x.shape), scales\n"
        "def back(codes, scales, fmt): return codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.repeat(scales, 128, axis=1)\n",
        "utf-8",
    )
    given = {"TARGET": "kernel:other", "DEQUANTIZE": "kernel:back"}
    named = run_kit(tmp_path, path, RULE="deepgemm-2.6/fp8-128/float32", **given)
    assert "1 failed" in named.stdout, named.stdout
    assert "scale: expected" in named.stdout
    free = run_kit(tmp_path, path, **given)
    assert free.returncode == 0, free.stdout


# The pytest file.


def run_kit(folder: Path, path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = (
        os.environ
        | {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
        | {f"MX_KIT_{k}": v for k, v in settings.items()}
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
        cwd=folder, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def test_the_pytest_file_runs_alone(tmp_path: Path) -> None:
    path = tmp_path / "test_mx_blocks.py"
    path.write_bytes(kit_files("pytest")[path.name])
    assert "import mxspec" not in path.read_text("ascii")
    (tmp_path / "kernel.py").write_text(
        "import numpy as np\nfrom mxspec_conformance.mutants.reference import Reference\n"
        "from mxspec_conformance.scoring.subjects import find_subject\n"
        "RIGHT = {'mxfp4': Reference('mx-rceil'), 'mxfp8_e4m3': Reference('mx-even'), 'nvfp4': Reference('nvfp4-te')}\n"
        "def right(x, fmt, **options): return RIGHT[fmt].quantize(x, fmt, **options)\n"
        "def packed(x, fmt, **options):\n"
        "    codes, scales = right(x, fmt, **options)\n"
        "    return (codes[:, ::2] | codes[:, 1::2] << 4 if fmt == 'mxfp4' else codes), scales\n"
        "def picky(x, fmt, most=10**9):\n"
        "    if x.dtype != np.float32 or not x.flags.c_contiguous or len(x) > most: raise TypeError('float32 rows only')\n"
        "    return right(x, fmt)\n"
        "def small(x, fmt): return picky(x, fmt, 200)\n"
        "def crashing(x, fmt):\n"
        "    if not x.flags.c_contiguous: raise IndexError('out of range')\n"
        "    return right(x, fmt)\n"
        "def back(codes, scales, fmt): return RIGHT[fmt].dequantize(codes, scales, fmt)\n"
        "wrong = find_subject('mutant/quantize/mxfp4/mx-floor/ties-away').build().quantize\n"
        "wrong_back = find_subject('mutant/dequantize/mxfp4/mx-floor/byte-0-is-zero').build().dequantize\n",
        "utf-8",
    )
    every = {"TENSOR_SCALE": "amax", "KEYWORDS": "axis,pad,block", "STRICT": "1", "DEQUANTIZE": "kernel:back"}
    right = run_kit(tmp_path, path, TARGET="kernel:right", **every)
    assert right.returncode == 0, right.stdout
    assert "skipped" not in right.stdout
    assert run_kit(tmp_path, path, TARGET="kernel:packed", FORMATS="mxfp4").returncode == 0
    wrong = run_kit(tmp_path, path, TARGET="kernel:wrong", FORMATS="mxfp4", DEQUANTIZE="kernel:wrong_back")
    assert wrong.returncode == 1
    assert "nearest rule mx-floor" in wrong.stdout
    assert "<--" in wrong.stdout
    assert "code 01 under scale 00" in wrong.stdout
    # A kernel may refuse views and other dtypes, with its own words; not a plain call.
    assert run_kit(tmp_path, path, TARGET="kernel:picky", FORMATS="mxfp4").returncode == 0
    assert run_kit(tmp_path, path, TARGET="kernel:small", FORMATS="mxfp4").returncode == 1
    crashing = run_kit(tmp_path, path, TARGET="kernel:crashing", FORMATS="mxfp4")
    assert crashing.returncode == 1, "a crash on a view is no refusal"
    untouched = run_kit(tmp_path, path)
    assert untouched.returncode == 0
    assert "skipped" in untouched.stdout


# C.


def test_the_c_kit_finds_a_scale_that_wraps(tmp_path: Path) -> None:
    """Where OCP leaves the lowest scale open it is one of two, or the block becomes zeros; it is never the highest."""
    text = kit_files("c")["driver.c"].decode("ascii")
    assert "(int)(top >> 23) < 2 ? 0 :" in text
    (tmp_path / "driver.c").write_text(text.replace("(int)(top >> 23) < 2 ? 0 :", "top && (int)(top >> 23) < 2 ? 254 :"), "ascii")
    (tmp_path / "mxspec_kit.h").write_bytes(kit_files("c")["mxspec_kit.h"])
    subprocess.run(["gcc", "-std=c99", str(tmp_path / "driver.c"), "-o", str(tmp_path / "wraps")], check=True)
    done = subprocess.run([str(tmp_path / "wraps")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "scale expected 00, returned fe" in done.stdout


@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O2", "-O3"])
def test_the_c_kit_compiles_clean_and_finds_ties_away(tmp_path: Path, flags: str) -> None:
    for name, data in kit_files("c").items():
        (tmp_path / name).write_bytes(data)
    strict = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", flags]
    driver = tmp_path / "driver.c"
    subprocess.run([*strict, str(driver), "-o", str(tmp_path / "right")], check=True)
    right = subprocess.run([str(tmp_path / "right")], capture_output=True, text=True, check=False)
    assert (right.returncode, right.stdout.split(",")[0]) == (0, "mxfp4: nearest rule mx-floor")
    driver.write_text(driver.read_text("ascii").replace("(q == ties[c] && c % 2)", "q == ties[c]"), "ascii")
    subprocess.run([*strict, str(driver), "-o", str(tmp_path / "wrong")], check=True)
    wrong = subprocess.run([str(tmp_path / "wrong")], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "<--" in wrong.stdout
    other = subprocess.run([str(tmp_path / "right"), "mxfp4", "mx-fancy"], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "no rule is named mx-fancy" in other.stdout


@pytest.mark.parametrize(("flags", "words"), [((), "mxfp4: ok, 0 blocks changed"), (("-DTIES_AWAY",), "mxfp4: FAILED, 0 blocks changed")])
def test_the_example_in_cpp_finds_ties_away(tmp_path: Path, flags: tuple[str, ...], words: str) -> None:
    (tmp_path / "mxspec_kit.h").write_bytes(kit_files("c", ("mxfp4",))["mxspec_kit.h"])
    source = ROOT / "conformance" / "examples" / "cpp" / "test_quantize_fns.cpp"
    strict = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-I", str(tmp_path), *flags, str(source)]
    subprocess.run([*strict, "-o", str(tmp_path / "fns")], check=True)
    done = subprocess.run([str(tmp_path / "fns")], capture_output=True, text=True, check=False)
    assert done.returncode == len(flags)
    assert words in done.stdout


# Hardware.


def test_the_generated_header_equals_the_model(tmp_path: Path) -> None:
    """All profiles that it has, all cases and some random blocks; `python -m mxspec_lab.c99` tests more."""
    header = write_c99()
    assert header.text.count("\n") <= 3000
    assert not any(word in header.text for word in ("math.h", "float x", "float y", "(float", "double "))
    library = build(header, tmp_path)
    different = []
    for row, (name, fmt, two_level) in enumerate(header.rows):
        if row % 9 == 0 or name in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil") or name.startswith("nvfp4-"):
            entry = compare(library, row, name, fmt, two_level, 64)
            assert entry["cases"] > 300
            if entry["differ"]:
                different.append(entry)
    assert not different


def test_the_reciprocal_of_the_header_is_the_measured_one(tmp_path: Path) -> None:
    """All significands at the exponent where results become subnormal; `python -m mxspec_lab.c99` tests more exponents."""
    assert compare_reciprocal(build(write_c99(["mxfp6_e3m2"]), tmp_path), [253]) == {"inputs": 1 << 24, "differ": 0}


def test_the_pieces_of_the_reciprocal_are_those_of_the_measured_table() -> None:
    """Found anew from the table; one answer moved leaves no piece that gives it."""
    measured = reciprocal.measured_significands()
    assert reciprocal.find_pieces(measured[: 1 << 16]) == reciprocal.PIECES[:1]
    measured[-1] += 1
    with pytest.raises(ValueError, match="one was expected"):
        reciprocal.find_pieces(measured[-(1 << 16) :])


def test_the_header_has_each_profile() -> None:
    header = write_c99()
    assert not header.left_out
    assert {(name, fmt) for name, fmt, _ in header.rows} == {(p.id, fmt) for fmt in chosen_formats() for p, _, _ in list_levels(fmt)}
    for name in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil"):
        assert sum(row[0] == name for row in header.rows) == 6


def test_readmem_files_have_a_line_for_each_block() -> None:
    blocks = chosen_blocks("mxfp4", 140)
    inputs, answers = read_hex("mxfp4.x.hex"), read_hex("mxfp4.mx-floor.hex")
    assert sum(name.startswith("mxfp4.") for name in kit_files("hardware")) == 6
    assert [[word >> 32 * i & 0xFFFFFFFF for i in range(32)] for word in inputs] == [b["x"].tolist() for b in blocks]
    assert sorted({word >> 528 & 0xFFFF for word in answers}) == list(range(140))
    (first,) = (word for word in answers if word >> 528 == 0)
    answer = runtime.answers_of(blocks[0], "mx-floor")
    assert answer is not None
    codes = np.frombuffer(bytes.fromhex(answer[0]["c"]), np.uint8)
    assert first >> 256 & 0xFF == answer[0]["s"]
    assert [first >> 8 * i & 7 for i in range(32)] == (codes & 7).tolist()


def read_hex(name: str) -> list[int]:
    return [int(line.split()[0], 16) for line in kit_files("hardware")[name].decode("ascii").splitlines() if not line.startswith("//")]


def judge_hex(found: Sequence[tuple[Any, int]], name: str, k: int) -> tuple[set[int], set[int]]:
    """The blocks that fail by the lines of a file, and those that differ where the answer is open, as the head of the file says."""
    width, matched = 8 * k + 8, {0: set[int](), 1: set[int]()}
    for word in read_hex(name):
        codes, scale = found[word >> 2 * width & 0xFFFF]
        returned = scale << 8 * k | int.from_bytes(np.asarray(codes, np.uint8).tobytes(), "little")
        if not (returned ^ word) & (word >> width) & ((1 << width) - 1):
            matched[word >> 2 * width + 16].add(word >> 2 * width & 0xFFFF)
    differ = set(range(len(found))) - matched[0]
    return differ - matched[1], differ & matched[1]


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3"])
def test_readmem_files_and_the_library_judge_as_the_blocks_do(tmp_path: Path, fmt: str) -> None:
    """Every mutant fails the lines that it fails in the Python kit, a scale that wraps among them, and those that the masks make narrower; no right
    implementation does. The library calls the same blocks wrong."""
    blocks, path, narrower = chosen_blocks(fmt, 140), build_kit_library(tmp_path), 0
    subjects = [s for s in (*list_controls(fmt), *list(list_right(fmt))[::9], *list_mutant_subjects(fmt)) if s.operation == "quantize"]
    failed = {}
    for subject in subjects:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = runtime.ask_blocks(subject.build().quantize, fmt, blocks)
            except (ValueError, TypeError, AssertionError, IndexError):
                continue
        wrong = set(runtime.failing_blocks(found, fmt, blocks, subject.profile))
        in_kit = set(runtime.closed_blocks(found, fmt, blocks, sorted(wrong)))
        closed, left_open = judge_hex(found, f"{fmt}.{subject.profile}.hex", 32)
        assert in_kit <= closed, subject.name
        assert closed | left_open == wrong, subject.name
        assert all(blocks[i].get("o") for i in closed - in_kit), subject.name
        assert not closed or subject.kind is Kind.MUTANT, subject.name
        assert judge_by_library(path, subject.profile, fmt, found) == closed, subject.name
        failed[subject.id] = closed
        narrower += closed != in_kit
    assert len(failed) > 130
    assert failed["byte-wraps"]
    assert narrower


def judge_by_library(path: Path, rule: str, fmt: str, found: Sequence[tuple[Any, int]]) -> set[int]:
    """The blocks that the scoreboard calls wrong."""
    board = scoreboard.Scoreboard(path, rule, fmt)
    return {i for i, (b, (codes, scale)) in enumerate(zip(chosen_blocks(fmt, 140), found, strict=True)) if not board.check(b["x"].tolist(), codes.tolist(), scale)}  # fmt: skip


def build_kit_library(folder: Path) -> Path:
    for name in ("mxspec_c99.h", "mxspec_dot.h", "mxspec_dpi.c"):
        (folder / name).write_bytes(kit_files("hardware")[name])
    subprocess.run(["gcc", "-std=c99", "-O1", "-shared", "-fPIC", folder / "mxspec_dpi.c", "-o", folder / "lib.so"], check=True)
    return folder / "lib.so"


@pytest.mark.parametrize("design", ["any codes of NaN blocks", "stuck at 55"])
def test_kit_export_and_library_agree(tmp_path: Path, design: str) -> None:
    """A right design that returns anything under the scale FF for a NaN fails nowhere; one that is stuck fails blocks at the lowest scale everywhere."""
    fmt, rule, blocks = "mxfp8_e4m3", "mx-floor", chosen_blocks("mxfp8_e4m3", 140)
    found = runtime.ask_blocks(mxspec_quantize, fmt, blocks)
    if design == "stuck at 55":
        changed = {i for i, (_, scale) in enumerate(found) if scale <= 1 and blocks[i]["p"] != "zero-block"}
    else:
        changed = {i for i, b in enumerate(blocks) if b["p"] == "nan"}
    for i in changed:
        found[i] = (np.full(32, 0x55, np.uint8), 0xFF if design != "stuck at 55" else found[i][1])
    closed, left_open = judge_hex(found, f"{fmt}.{rule}.hex", 32)
    wrong = changed if design == "stuck at 55" else set()
    assert len(changed) > 5
    assert (closed, left_open) == (wrong, set())
    path = build_kit_library(tmp_path)
    assert judge_by_library(path, rule, fmt, found) == wrong
    if not wrong:
        board = scoreboard.Scoreboard(path, rule, fmt)
        assert all(board.check(b["x"].tolist(), codes.tolist(), scale) for b, (codes, scale) in zip(blocks, found, strict=True))
        assert (board.name(), board.open) == (rule, 0)
    # The export has a line for each line of the kit.
    export(tmp_path, kind="readmemh", fmt=fmt, profile=rule)
    exported, inputs = ((tmp_path / f"{fmt}-{rule}-{name}.mem").read_text("ascii").splitlines() for name in ("answers", "x"))
    numbers = {line.partition("// ")[2]: n for n, line in enumerate(x for x in inputs if not x.startswith("//"))}
    lines = {int(line, 16) for line in exported if not line.startswith("//")}
    for word in read_hex(f"{fmt}.{rule}.hex"):
        at = word >> 528 & 0xFFFF
        assert word + (numbers[blocks[at]["i"]] - at << 528) in lines


def mxspec_quantize(x: Any, fmt: str) -> tuple[Any, Any]:
    made = mxspec.quantize(x, fmt, profile="mx-floor")
    return made.codes, made.scales


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3", "nvfp4"])
def test_readmem_files_say_what_they_find(tmp_path: Path, fmt: str) -> None:
    """The bins are those that the library of the kit counts; all of them are met."""
    head = kit_files("hardware")[f"{fmt}.x.hex"].decode("ascii").splitlines()[0]
    found = re.fullmatch(
        rf"// {fmt}: (\d+) blocks, 12 of 12 bins, kills (\d+) of (\d+) mutants of quantizers, (\d+) more where the answer is left open; mistakes of calls.*",
        head,
    )
    assert found, head
    inputs = read_hex(f"{fmt}.x.hex")
    assert int(found[1]) == len(inputs)
    assert 50 < int(found[2]) < int(found[3])
    rule, k = ("nvfp4-te", 16) if fmt == "nvfp4" else ("mx-floor", 32)
    library = scoreboard.Scoreboard(build_kit_library(tmp_path), rule, fmt)
    for word in inputs:
        words, before = [word >> 32 * i & 0xFFFFFFFF for i in range(k)], library.bins()
        library.cover(words)
        named = {t for t in BLOCK_TOPICS if library.bins()[f"topic {t}"] > before[f"topic {t}"]}
        # In NVFP4 the profile rounds the quotient, which may move it onto a code, or away from a neighbour of a tie.
        assert (named ^ find_topics(np.array(words, np.uint32), fmt, rule)) <= (
            {"exact", "below-tie", "above-tie"} if fmt == "nvfp4" else set()
        )
    assert library.covered().startswith("topic 12/12, ")


def test_the_index_says_what_the_files_hold() -> None:
    """Lines, bits and fields of every file; topics by ranges; the same in JSON and in Verilog."""
    index = json.loads(kit_files("hardware")["mxspec_index.json"])
    constants = dict(
        re.findall(
            r"^localparam (?:\[\d+:0\] )?(\w+) = (.*);(?: // .*)?$", kit_files("hardware")["mxspec_index.vh"].decode("ascii"), re.MULTILINE
        )
    )
    assert set(index["files"]) == {name for name in kit_files("hardware") if name.endswith(".hex")}
    for name, file in index["files"].items():
        lines = [line.split()[0] for line in kit_files("hardware")[name].decode("ascii").splitlines() if not line.startswith("//")]
        assert (file["lines"], {4 * len(line) for line in lines}) == (len(lines), {file["bits"]})
        covered = sorted(bit for f in file["fields"].values() for bit in range(f["low"], f["low"] + f["bits"] * f["count"]))
        assert covered == list(range(file["bits"]))
        stem = re.sub(r"\W", "_", name.removesuffix(".hex")).upper()
        assert constants[f"{stem}_FILE"] == f'`MXSPEC_FILE("{name}")'
        assert (constants[f"{stem}_LINES"], constants[f"{stem}_BITS"]) == (str(file["lines"]), str(file["bits"]))
        for field, place in file["fields"].items():
            key = f"{stem}_{re.sub(r'[^A-Z0-9]', '_', field.upper())}"
            assert [constants.get(f"{key}_{what.upper()}", "1") for what in ("low", "bits", "count")] == [
                str(place[what]) for what in ("low", "bits", "count")
            ]
    blocks = chosen_blocks("mxfp4", 140)
    assert {t: [i for low, high in runs for i in range(low, high + 1)] for t, runs in index["topics"]["mxfp4.x.hex"].items()} == {
        t: [i for i, b in enumerate(blocks) if b["p"] == t] for t in {b["p"] for b in blocks}
    }
    bits, _, digits = constants["MXFP4_X_TOPICS"].partition("'h")
    assert int(bits) == 8 * len(blocks)
    vector = int(digits, 16)
    assert all(vector >> 8 * i & 255 == int(constants["TOPIC_" + b["p"].replace("-", "_").upper()]) for i, b in enumerate(blocks))


# ONNX.


def test_onnx_node_tests_hold_in_the_reference_evaluator(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    files = write_kit("onnx")
    assert sum(name.endswith("model.onnx") for name in files) == 13  # both operators, three elements, two kinds of scales; a cast of scales
    for folder in sorted({name.partition("/")[0] for name in files}):
        model = onnx.load_model_from_string(files[f"{folder}/model.onnx"])
        read = {name: onnx.load_tensor_from_string(data) for name, data in files.items() if name.startswith(f"{folder}/test")}
        inputs = {t.name: onnx.numpy_helper.to_array(t) for name, t in read.items() if "input" in name}
        (want,) = (onnx.numpy_helper.to_array(t) for name, t in read.items() if "output" in name)
        assert want.shape[0] >= 40
        got = np.asarray(ReferenceEvaluator(model).run(None, inputs)[0])
        assert got.astype(np.float32).tobytes() == want.astype(np.float32).tobytes(), folder


# The command.


def test_the_command_writes_and_lists(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["kit"])
    assert all(name in listed.output for name in KITS)
    made = runner.invoke(main, ["kit", "pytest", "-o", str(tmp_path / "new"), "--format", "mxint8", "--size", "16"])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "new" / "test_mx_blocks.py").stat().st_size < 30_000
    assert runner.invoke(main, ["kit", "pytest"]).exit_code == 2
    wrong = runner.invoke(main, ["kit", "paper", "-o", str(tmp_path)])
    assert wrong.exit_code == 2
    assert "there are pytest, json, products, c, hardware, llvm, tosa, onnx" in wrong.output


def test_the_published_comparison_found_no_difference_and_is_of_every_row() -> None:
    report = json.loads((REPORT / "c99.json").read_text("ascii"))
    rows = {(r["profile"], r["format"], r["tensor_scale"]) for r in report["rows"]}
    assert rows == set(write_c99().rows)
    assert not any(r["differ"] for r in (*report["rows"], report["reciprocal"]))
    assert all(r["cases"] > 300 and r["random"] >= 1000 for r in report["rows"])
