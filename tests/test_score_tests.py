"""`mxspec score-tests`: what tests see of mutants; tests that hang, crash, flicker or are wrong themselves are reported, and never crash the judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mxspec_conformance.cli.main import main
from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.scoring.asking import load_test
from mxspec_conformance.scoring.implementation import Implementation
from mxspec_conformance.scoring.outcomes import Verdict
from mxspec_conformance.scoring.pool import Question, ask_all
from mxspec_conformance.scoring.rules import RULES, run_rule
from mxspec_conformance.scoring.score import Score, Status, score_test
from mxspec_conformance.scoring.subjects import (
    Kind,
    Subject,
    find_subject,
    list_controls,
    list_independent,
    list_mutant_subjects,
    list_right,
)
from mxspec_conformance.scoring.worker import FORKS
from mxspec_conformance.targets.errors import TargetError

TESTS = '''
import os, sys, time
import numpy as np

def exact(quantize):
    """Ties, and the sign."""
    x = np.zeros((1, 32), np.float32)
    x[0, :8] = [6, 0.25, 0.75, 1.25, 1.75, -2.5, 3.5, -5]
    codes, scales = quantize(x)
    assert scales[0, 0] == 127
    assert codes[0, :8].tolist() == [7, 0, 2, 2, 4, 12, 6, 14]

def returns_false(impl):
    return bool(impl.quantize(np.ones((1, 32), np.float32))[1][0, 0] == 125)

def asks_nothing(quantize):
    pass

def right_is_wrong(quantize):
    assert quantize(np.ones((1, 32), np.float32))[1][0, 0] == 3

def hangs(quantize):
    x = np.zeros((1, 32), np.float32)
    x[0, 0] = 0.25
    x[0, 1] = 6
    if quantize(x)[0][0, 0]:
        time.sleep(1000)

def ends(quantize):
    x = np.zeros((1, 32), np.float32)
    x[0, 0] = 0.25
    x[0, 1] = 6
    if quantize(x)[0][0, 0]:
        os._exit(0)

def flickers(quantize):
    quantize(np.ones((1, 32), np.float32))
    assert time.time_ns() // 1000 % 2

def exits(quantize):
    quantize(np.ones((1, 32), np.float32))
    sys.exit("no")
'''


@pytest.fixture(scope="module")
def tests_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scored") / "their_tests.py"
    path.write_text(TESTS, "utf-8")
    return path


def only(*names: str) -> object:
    return lambda subject: subject.id in names


def score(test: str, *names: str, fmt: str = "mxfp4", **options: object) -> Score:
    return score_test(test, fmt, jobs=1, right=False, independent=False, repeat=1, only=only(*names), **options)  # type: ignore[arg-type]


def control(profile: str = "mx-floor") -> Subject:
    return next(s for s in list_controls("mxfp4") if s.profile == profile)


def mutant(name: str) -> Subject:
    return next(s for s in list_mutant_subjects("mxfp4") if s.id == name)


def test_a_function_sees_what_it_calls_and_the_patch_finds_the_rest(tests_file: Path) -> None:
    found = score(f"{tests_file}::exact", "ties-away", "truncate", "eps-1e-5", "tail-dropped", "byte-0-is-zero")
    assert found.status is Status.SCORED
    assert "mx-floor" in found.rules
    assert {row.subject.id for row in found.mutants if row.is_seen} == {"ties-away", "truncate"}
    assert {row.subject.id for row in found.survivors} == {"eps-1e-5", "tail-dropped"}, "dequantize was not called"
    assert len(found.patch) == 1
    assert found.patch_calls == ("tail",)


@pytest.mark.parametrize(
    ("function", "verdicts"),
    [
        ("returns_false", (Verdict.ACCEPTS, Verdict.ACCEPTS)), ("asks_nothing", (Verdict.SKIPPED, Verdict.SKIPPED)),
        ("hangs", (Verdict.ACCEPTS, Verdict.TIMEOUT)), ("ends", (Verdict.ACCEPTS, Verdict.ENDED)),
        ("exits", (Verdict.REJECTS, Verdict.REJECTS)),
    ],
)  # fmt: skip
def test_hostile_tests_are_reported(tests_file: Path, function: str, verdicts: tuple[Verdict, ...]) -> None:
    questions = [Question(s, "mx-floor", 3.0) for s in (control(), mutant("ties-away"))]
    assert tuple(o.verdict for o in ask_all(f"{tests_file}::{function}", questions, jobs=1)) == verdicts


def test_a_test_that_accepts_nothing_right_has_no_score(tests_file: Path) -> None:
    found = score(f"{tests_file}::right_is_wrong")
    assert found.status is Status.NO_CONTROL
    assert not found.mutants


def test_a_flickering_test_has_no_score(tests_file: Path) -> None:
    found = score_test(f"{tests_file}::flickers", "mxfp4", jobs=1, repeat=8, only=only())  # type: ignore[arg-type]
    assert found.status is Status.FLAKY


@pytest.mark.parametrize(
    "text", ["import nothing_of_this_name", "import os; os._exit(3)", "raise SystemExit(2)", "1 / 0", "while True: break\n("]
)
def test_a_file_that_does_not_load_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad_tests.py"
    path.write_text(f"{text}\ndef test(quantize): ...\n", "utf-8")
    with pytest.raises(TargetError, match=r"bad_tests\.py"):
        ask_all(f"{path}::test", [Question(control(), "mx-floor", 3.0)], jobs=1)


def test_a_pytest_file_with_fixtures_and_replacements(tmp_path: Path) -> None:
    loads = tmp_path / "loads"
    (tmp_path / "their_kernel.py").write_text(
        f"import sys\nopen({str(loads)!r}, 'a').write('x' if 'pytest' in sys.modules else 'without pytest')\ndef quantize_fp4(x): raise NotImplementedError\n",
        "utf-8",
    )
    path = tmp_path / "test_theirs.py"
    path.write_text(
        "import gc\nimport numpy as np\nimport pytest\nimport their_kernel\n"
        "@pytest.mark.parametrize('value', [1.0, 2.0])\n"
        "def test_scale(quantize, value):\n"
        "    assert quantize(np.full((1, 32), value, np.float32))[1][0, 0] == {1.0: 125, 2.0: 126}[value]\n"
        "def test_ties():\n"
        "    x = np.zeros((1, 32), np.float32)\n"
        "    x[0, 0], x[0, 1] = 0.25, 6\n"
        "    assert their_kernel.quantize_fp4(x)[0][0, 0] == 0\n"
        "    assert gc.get_freeze_count() > 10_000, 'pytest walks through all that is loaded'\n",
        "utf-8",
    )
    questions = [Question(s, "mx-floor", 20.0) for s in (control(), mutant("ties-away"), mutant("exponent-plus-one"), mutant("eps-1e-5"))]
    sys.path.insert(0, str(tmp_path))
    try:
        outcomes = ask_all(str(path), questions, replace=["their_kernel.quantize_fp4=quantize"], jobs=1)
    finally:
        sys.path.remove(str(tmp_path))
    assert [o.verdict for o in outcomes] == [Verdict.ACCEPTS, Verdict.REJECTS, Verdict.REJECTS, Verdict.ACCEPTS]
    assert "test_ties" in outcomes[1].reason
    assert loads.read_text("ascii") == "x" or not FORKS  # a framework is not imported again for each implementation


def test_a_program_is_given_a_command_that_quantizes(tmp_path: Path) -> None:
    program = tmp_path / "their_test.py"
    program.write_text(
        "import os, shlex, subprocess, struct, sys\n"
        "open('x', 'wb').write(struct.pack('<32f', 0.25, 6, *[0] * 30))\n"
        "done = subprocess.run([*shlex.split(sys.argv[1]), 'quantize', '1', '32', 'x', 'codes', 'scales'])\n"
        "assert done.returncode == 0\n"
        "sys.exit(open('codes', 'rb').read()[:2] != bytes([0, 7]) or open('scales', 'rb').read() != bytes([127]))\n",
        "utf-8",
    )
    ask = load_test(f"cmd:{sys.executable} {program} {{implementation}}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert ask(control(), "mx-floor").verdict is Verdict.ACCEPTS
        assert ask(mutant("ties-away"), "mx-floor").verdict is Verdict.REJECTS


def test_specs_that_name_no_test_say_what_to_do() -> None:
    for spec, words in (
        ("rule:nothing", "known are"),
        ("cmd:", "names no program"),
        ("no_such_file.py", "FILE.py::FUNCTION"),
        ("no.py::f", "no such file"),
    ):
        with pytest.raises(TargetError, match=words):
            load_test(spec)


def test_every_right_implementation_passes_every_rule() -> None:
    """The control of the table: each rule accepts the rule that it is compared with."""
    for name, rule in RULES.items():
        fmt = rule.formats[0]
        for subject in list_controls(fmt):
            outcome = run_rule(rule, subject, subject.profile)
            accepted = outcome.verdict is Verdict.ACCEPTS
            assert accepted or name in ("triton-rounding", "ggml-quantize-fns"), (name, subject.name, outcome.reason)
        assert run_rule(rule, list_controls(fmt)[0], list_controls(fmt)[0].profile).verdict is Verdict.ACCEPTS


def test_subjects_are_found_by_their_names_and_there_are_many() -> None:
    assert len(list(list_right("mxfp4"))) >= 40
    for fmt in ("mxfp4", "nvfp4"):
        names = [s.name for s in (*list_controls(fmt), *list_right(fmt), *list_mutant_subjects(fmt), *list_independent(fmt))]
        assert len(set(names)) == len(names)
    for kind in (Kind.RIGHT, Kind.MUTANT, Kind.INDEPENDENT):
        subject = {Kind.RIGHT: list_right, Kind.MUTANT: list_mutant_subjects, Kind.INDEPENDENT: list_independent}[kind]("mxfp4")
        first = next(iter(subject))
        assert find_subject(first.name).name == first.name


def test_an_implementation_passes_views_of_tensors_on() -> None:
    torch = pytest.importorskip("torch")
    seen = Implementation(Reference("mx-floor"), "mxfp4")
    x = torch.zeros((4, 64), dtype=torch.bfloat16)
    x[:, 0] = 6
    codes, scales = seen.quantize(x[::2, :32])
    assert isinstance(codes, torch.Tensor)
    assert codes.shape == (2, 32)
    assert scales.flatten().tolist() == [127, 127]


def test_the_command_scores_a_rule_and_writes_a_patch_that_runs(tmp_path: Path) -> None:
    out, patch = tmp_path / "score.json", tmp_path / "test_patch.py"
    arguments = ["score-tests", "rule:torchao-sqnr", "--only", "ties-*", "--jobs", "1", "--json", str(out), "--patch", str(patch)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1, result.output
    assert "does not see" in result.output
    document = json.loads(out.read_text("ascii"))
    assert document["counts"]["mutants"] == 4
    assert document["patch"]["blocks"]
    (tmp_path / "kernel.py").write_text(
        "from mxspec_conformance.mutants.reference import Reference\n"
        "right = Reference('mx-rceil').quantize\n"
        "from mxspec_conformance.scoring.subjects import find_subject\n"
        "wrong = find_subject('mutant/quantize/mxfp4/mx-floor/ties-away').build().quantize\n",
        "utf-8",
    )
    environment = {"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])}
    for name, code in (("right", 0), ("wrong", 1)):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(patch)], cwd=tmp_path, capture_output=True, text=True, check=False,
            env=environment | {"MX_KIT_TARGET": f"kernel:{name}"},
        )  # fmt: skip
        assert done.returncode == code, done.stdout
    assert "nearest rule mx-" in done.stdout
    assert "<--" in done.stdout


def test_the_command_says_what_it_cannot_score(tests_file: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(main, ["score-tests"]).exit_code == 2
    wrong = runner.invoke(main, ["score-tests", "rule:normal-numbers", "--profile", "mx-fancy"])
    assert wrong.exit_code == 2
    assert "allowed are mx-floor" in wrong.output
    none = runner.invoke(main, ["score-tests", f"{tests_file}::right_is_wrong", "--jobs", "1"])
    assert none.exit_code == 2
    assert "accepts no right implementation" in " ".join(none.output.split())
    listed = runner.invoke(main, ["score-tests", "--rules"])
    assert "torchao" in listed.output
