"""The pytest plugin in a user's repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import mxspec
from mxspec_conformance import check, open_target
from mxspec_conformance.judge import listing
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.results.report import load_result_schema
from mxspec_conformance.testing.tensor_diff import explain_difference

pytest_plugins = ["pytester"]

#: Decodes e2m1, one code wrongly; quick to judge.
KERNEL = """
import ml_dtypes
NAME, VERSION, ELEMENTS = "kernel", "1.0", ["e2m1"]

def decode(codes, element):
    values = codes.view(ml_dtypes.float4_e2m1fn).astype("float32")
    values[codes == 3] = 2
    return values
"""
RIGHT = KERNEL.replace("    values[codes == 3] = 2\n", "")
WAIVERS = """
[[waiver]]
id = "{id}"
reason = "code 3 is reserved on this chip"
link = "https://example.org/3"
expires = {expires}
"""


@pytest.fixture
def kernel(pytester: pytest.Pytester) -> Path:
    path = pytester.path / "kernel.py"
    path.write_text(KERNEL, encoding="utf-8")
    return path


def write_waivers(folder: Path, identifier: str = "decode/e2m1/code", expires: str = "2999-12-31") -> str:
    path = folder / "waivers.toml"
    path.write_text(WAIVERS.format(id=identifier, expires=expires), encoding="utf-8")
    return str(path)


def test_each_requirement_is_a_test(pytester: pytest.Pytester, kernel: Path) -> None:
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "-v", "-rA")
    result.assert_outcomes(passed=5, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "mxspec: *, target *kernel.py",
            "mxspec::kernel::decode/e2m1/zero-sign PASSED*",
            "mxspec::kernel::decode/e2m1/code FAILED*",
            "1 of 16 cases break the rule: *",
            "*every element code means its value*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_target_without_fault_passes(pytester: pytest.Pytester, kernel: Path) -> None:
    kernel.write_text(RIGHT, encoding="utf-8")
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel))
    result.assert_outcomes(passed=6)
    assert result.ret == 0


def test_without_the_option_nothing_is_added(pytester: pytest.Pytester, kernel: Path) -> None:
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_own_tests_run_with_it_and_k_chooses(pytester: pytest.Pytester, kernel: Path) -> None:
    pytester.makepyfile("def test_one(): pass")
    both = pytester.runpytest_inprocess("--mxspec-target", str(kernel))
    both.assert_outcomes(passed=6, failed=1)
    chosen = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "-k", "zero-sign")
    chosen.assert_outcomes(passed=1, deselected=6)


def test_the_ini_file_can_name_all(pytester: pytest.Pytester, kernel: Path) -> None:
    write_waivers(pytester.path)
    pytester.makeini("[pytest]\nmxspec_target = kernel.py\nmxspec_waivers = waivers.toml")
    pytester.runpytest_inprocess().assert_outcomes(passed=5, xfailed=1)


@pytest.mark.parametrize(
    ("listed", "kernel_text", "outcomes"),
    [
        ("decode/e2m1/code", KERNEL, {"passed": 5, "xfailed": 1}),
        ("decode/e2m1/code", RIGHT, {"passed": 5, "failed": 1}),
        ("decode/e2m1/kode", KERNEL, {"passed": 5, "failed": 1}),
    ],
)  # fmt: skip
def test_what_the_baseline_lists_is_a_strict_xfail(
    pytester: pytest.Pytester, listed: str, kernel_text: str, outcomes: dict[str, int]
) -> None:
    (pytester.path / "kernel.py").write_text(kernel_text, "utf-8")
    (pytester.path / "known.txt").write_text(f"{listed}\n", "utf-8")
    result = pytester.runpytest_inprocess("--mxspec-target", "kernel.py", "--mxspec-baseline", "known.txt")
    result.assert_outcomes(**outcomes)
    assert ("the baseline lists decode/e2m1/kode, which matches nothing" in result.stdout.str()) == (listed == "decode/e2m1/kode")


def test_a_waiver_is_a_strict_xfail(pytester: pytest.Pytester, kernel: Path) -> None:
    waivers = write_waivers(pytester.path)
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "--mxspec-waivers", waivers, "-rx")
    result.assert_outcomes(passed=5, xfailed=1)
    result.stdout.fnmatch_lines(["XFAIL mxspec::kernel::decode/e2m1/code*code 3 is reserved*https://example.org/3*"])
    kernel.write_text(RIGHT, encoding="utf-8")
    mended = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "--mxspec-waivers", waivers)
    mended.assert_outcomes(passed=5, failed=1)
    mended.stdout.fnmatch_lines(["*XPASS(strict)*code 3 is reserved*"])


@pytest.mark.parametrize("ini", [False, True])
def test_the_quick_level_takes_waivers_of_the_full_one(pytester: pytest.Pytester, kernel: Path, ini: bool) -> None:
    """Its cases are those of `check --quick`; a waiver of all cases, with their count, holds by its id."""
    path = pytester.path / "waivers.toml"
    path.write_text('level = "full"\n' + WAIVERS.format(id="decode/e2m1/*", expires="2999-12-31") + "failing = 1\n", encoding="utf-8")
    if ini:
        pytester.makeini("[pytest]\nmxspec_quick = true")
    options = ["--mxspec-target", str(kernel), "--mxspec-waivers", str(path), "--mxspec-json", "r.json", *["--mxspec-quick"] * (not ini)]
    result = pytester.runpytest_inprocess(*options)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["mxspec: *, quick level"])
    document = json.loads((pytester.path / "r.json").read_text())
    assert document["details"]["level"] == "quick"
    due = check(str(kernel), quick=True)
    assert {r["id"]: r["cases"] for r in document["requirements"]} == {r.id: r.cases for r in due.requirements}
    assert [(w["level"], w["state"]) for w in document["waivers"]] == [
        ("full", "used" if due.exit_code else "covers what the quick level does not fail")
    ]


@pytest.mark.parametrize(
    ("identifier", "expires", "outcomes", "words"),
    [
        ("decode/e2m1/nothing", "2999-12-31", {"passed": 5, "failed": 2}, "stale waiver: matches nothing"),
        ("decode/e2m1/code", "2020-01-01", {"passed": 5, "failed": 2}, "stale waiver: expired"),
    ],
)
def test_a_stale_waiver_fails(
    pytester: pytest.Pytester, kernel: Path, identifier: str, expires: str, outcomes: dict[str, int], words: str
) -> None:
    waivers = write_waivers(pytester.path, identifier, expires)
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "--mxspec-waivers", waivers)
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines([f"*{words}*"])


def test_workers_are_handed_the_result_and_it_is_written(pytester: pytest.Pytester, kernel: Path) -> None:
    """Judged once, by the controlling process; the JSON and JUnit files are those of the run."""
    kernel.write_text(KERNEL + "\nimport pathlib\npathlib.Path(__file__).with_name('loads').open('a').write('x')\n", "utf-8")
    result = pytester.runpytest_subprocess(
        "--mxspec-target", str(kernel), "-n", "2", "--mxspec-json", "result.json", "--junit-xml", "junit.xml"
    )
    result.assert_outcomes(passed=5, failed=1)
    assert (pytester.path / "loads").read_text("utf-8") == "x"
    document: dict[str, Any] = json.loads((pytester.path / "result.json").read_bytes())
    jsonschema.validate(document, load_result_schema())
    assert document["counts"] == {"pass": 4, "fail": 1}
    junit = (pytester.path / "junit.xml").read_text("utf-8")
    assert 'name="decode/e2m1/code"' in junit
    assert 'name="mxspec_verdict" value="fail"' in junit


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mxspec-target", "kernel.py", "--mxspec-profile", "no"], "unknown profile 'no'"),
        (["--mxspec-target", "kernel.py", "--mxspec-waivers", "no.toml"], "no.toml does not exist"),
    ],
)
def test_wrong_options_are_a_usage_error(pytester: pytest.Pytester, kernel: Path, arguments: list[str], words: str) -> None:
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: mxspec: *{words}*"])


# Tensors that are compared


def tensor(*lanes: float, profile: str = "mx-floor") -> mxspec.BlockTensor:
    """Two rows of one mxfp4 block; the second begins with lanes."""
    x = np.zeros((2, 32), np.float32)
    x[:, 0] = 6
    x[1, 1 : 1 + len(lanes)] = lanes
    return mxspec.quantize(x, "mxfp4", profile=profile)


def test_tensors_are_equal_by_bits() -> None:
    assert tensor(1, 2) == tensor(1, 2)
    assert tensor(1, 2) != tensor(1, 3)
    assert tensor(0.0) != tensor(-0.0)
    assert tensor(1) != 3


def test_what_differs_is_drawn_bit_by_bit() -> None:
    assert explain_difference(tensor(1, 2), tensor(1, -3)) == [
        "BlockTensor mxfp4 == BlockTensor mxfp4",
        "1 of 2 blocks differ: 0 in the scale, 1 codes",
        "block (1, 0):",
        "  lane 2  4 0 10 0  2  != d 1 10 1  −3",
    ]
    scale = explain_difference(tensor(1), tensor(25))
    assert "  scale   7f 01111111  2⁰  != 81 10000001  2²" in scale


def test_a_failing_assertion_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import numpy as np, mxspec

        def test_it():
            x = np.arange(32, dtype=np.float32)
            assert mxspec.quantize(x, "mxfp4") == mxspec.quantize(x, "mxfp4", profile="mx-rceil")
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*profile: mx-floor != mx-rceil", "E*1 of 1 blocks differ: 1 in the scale*", "E*scale*"])


COUNTED = (
    KERNEL
    + """
import pathlib
def _note(word):
    pathlib.Path(__file__).with_name("calls").open("a").write(word)
_note("load ")
_decode = decode
def decode(codes, element):
    _note("call ")
    return _decode(codes, element)
"""
)


def test_collecting_calls_nothing_and_counts_rightly(pytester: pytest.Pytester, kernel: Path) -> None:
    kernel.write_text(COUNTED, encoding="utf-8")
    pytester.makepyfile("def test_one(): pass")
    listed = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "--collect-only", "-q")
    listed.stdout.fnmatch_lines(["*test_one", "mxspec::kernel::decode/e2m1/zero-sign", "*7 tests collected in *"])
    assert (pytester.path / "calls").read_text("utf-8").split() == ["load"]
    chosen = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "-k", "zero-sign")
    chosen.stdout.fnmatch_lines(["collected 7 items / 6 deselected / 1 selected"])


def test_a_target_that_breaks_between_collection_and_run(pytester: pytest.Pytester, kernel: Path) -> None:
    """It was described, and does not load again: every requirement fails with the reason."""
    text = "import pathlib\nmark = pathlib.Path(__file__).with_name('once')\nassert not mark.exists()\nmark.touch()\n"
    kernel.write_text(text + RIGHT, encoding="utf-8")
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel))
    result.assert_outcomes(failed=6)
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_unforeseen_failure_fails_the_test_of_all(pytester: pytest.Pytester, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.write_text(KERNEL, encoding="utf-8")
    monkeypatch.setattr(listing, "list_requirements", lambda *_, **__: ["decode/e2m1/zero-sign", "decode/e2m1/nan"])
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel))
    result.assert_outcomes(passed=1, skipped=1, failed=1)
    result.stdout.fnmatch_lines(["decode/e2m1/code was not foreseen, and is not met"])


def test_what_is_judged_was_listed() -> None:
    """Of whole formats it is the same list; of everything, at the quick level, no requirement is missing."""
    formats = ["mxint8", "nvfp4"]
    found = check("mxspec", in_process=True, formats=formats)
    listed = list_requirements(open_target("mxspec", in_process=True), formats=formats)
    assert sorted(listed) == sorted(r.id for r in found.requirements)
    quick = check("mxspec", in_process=True, quick=True)
    assert {r.id for r in quick.requirements} <= set(list_requirements(open_target("mxspec", in_process=True)))


PRODUCT = """
import numpy as np
NAME, VERSION, OPERANDS = "gemm", "1.0", {"a": "float32", "b": "float32"}

def matmul(a, b, out_dtype):
    return a[:, :-1] @ b[:, :-1].T
"""


def test_requirements_of_a_product_are_tests(pytester: pytest.Pytester) -> None:
    """Each is a test, and a failing one shows the smallest wrong product; the written result is one that is read again."""
    path = pytester.path / "gemm.py"
    path.write_text(PRODUCT, encoding="utf-8")
    result = pytester.runpytest_inprocess("--mxspec-target", str(path), "--mxspec-json", "result.json", "-rA")
    result.stdout.fnmatch_lines_random(["FAILED mxspec::gemm::matmul/float32@float32/identity*", "*every order of additions gives it*"])
    outcomes = result.parseoutcomes()
    planned = list_requirements(open_target(str(path)))
    assert len([name for name in planned if name.startswith("matmul/float32@float32/")]) >= 8
    assert outcomes["failed"] >= 3
    document = json.loads((pytester.path / "result.json").read_text())
    jsonschema.validate(document, load_result_schema())


BLOCKS = """
import mxspec
NAME, VERSION, FORMATS = "kernel", "1.0", ["mxfp4"]

def quantize(x, fmt):
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
"""


@pytest.mark.parametrize(
    ("body", "options", "failed", "words"),
    [
        ("raise NotImplementedError", ["--mxspec-profile", "mx-floor"], 1, "kernel: mxfp4 is not judged: *"),
        ("t = mxspec.quantize(x, fmt)", [], 1, "kernel names no profile*write PROFILE = 'mx-floor' in it, or pass --mxspec-profile *"),
        ("t = mxspec.quantize(x, fmt)", ["--mxspec-profile", "nearest"], 0, "*PASSED*"),
        ("t = mxspec.quantize(x, fmt)", ["--mxspec-profile", "mx-floor"], 0, "*PASSED*"),
    ],
)
def test_skipped_tests_alone_are_no_pass(
    pytester: pytest.Pytester, kernel: Path, body: str, options: list[str], failed: int, words: str
) -> None:
    kernel.write_text(BLOCKS.replace("t = mxspec.quantize(x, fmt)", body), "utf-8")
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel), "--mxspec-quick", "-k", "judged or inf", "-rA", "-v", *options)
    assert result.parseoutcomes().get("failed", 0) == failed == result.ret
    result.stdout.fnmatch_lines([f"mxspec::kernel::judged {'FAILED' if failed else 'PASSED'}*", words] if failed else [words])


def test_a_target_of_which_nothing_is_judged_is_no_pass(pytester: pytest.Pytester, kernel: Path) -> None:
    kernel.write_text(KERNEL.replace("    values =", "    raise NotImplementedError\n    values ="), "utf-8")
    result = pytester.runpytest_inprocess("--mxspec-target", str(kernel))
    result.assert_outcomes(skipped=5, failed=1)
    result.stdout.fnmatch_lines(["*nothing could be judged*"])


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=len)
def test_a_target_that_does_not_load_is_one_failure_among_the_own_tests(pytester: pytest.Pytester, workers: list[str]) -> None:
    pytester.makepyfile("def test_one(): pass")
    pytester.makeini("[pytest]\nmxspec_target = absent.py")
    result = pytester.runpytest_subprocess("-rf", *workers)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*absent.py does not exist; pass a Python file*", "FAILED mxspec::absent.py::judged*"])


def test_the_ini_file_is_where_its_paths_begin_and_named_tests_run_alone(pytester: pytest.Pytester, kernel: Path) -> None:
    pytester.makeini("[pytest]\nmxspec_target = kernel.py\nmxspec_baseline = known.txt")
    (pytester.path / "known.txt").write_text("decode/e2m1/code\n", "utf-8")
    folder = pytester.mkdir("tests")
    (folder / "test_own.py").write_text("def test_own(): pass\n", "utf-8")
    pytester.chdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pytester.runpytest_inprocess().assert_outcomes(passed=6, xfailed=1)
    pytester.runpytest_inprocess("tests").assert_outcomes(passed=6, xfailed=1)
    for named in ("tests/test_own.py", "tests/test_own.py::test_own"):
        pytester.runpytest_inprocess(named).assert_outcomes(passed=1)
    pytester.runpytest_subprocess("-n", "1", "tests").assert_outcomes(passed=6, xfailed=1)
    pytester.runpytest_subprocess("-n", "1", "tests/test_own.py").assert_outcomes(passed=1)
    pytester.runpytest_inprocess("tests/test_own.py", "--mxspec-target", "kernel.py").assert_outcomes(passed=6, xfailed=1)
