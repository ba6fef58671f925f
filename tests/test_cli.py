"""The command: help, tables and JSON of every subcommand; exit codes; one clear message for bad input and nothing written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import formats
from mxspec.adjacent import ADJACENT
from mxspec.formats import BLOCKS, ELEMENTS, SCALES
from mxspec_conformance.cli.main import main
from mxspec_conformance.observations.tables import load_table_cases
from mxspec_conformance.results.report import load_result_schema
from mxspec_lab.__main__ import main as lab
from mxspec_vectors import build as builder, files
from mxspec_vectors.cases import forget_cases
from mxspec_vectors.verify import load_schema

from tests.test_atomic import snapshot

GOOD = """
import mxspec
NAME, VERSION, FORMATS, ELEMENTS = "good", "1", ["mxint8"], ["int8"]
def quantize(x, fmt): return (t := mxspec.quantize(x, fmt)).codes, t.scales
"""
WRONG = GOOD.replace("t.scales", "t.scales ^ 1").replace("good", "a-kernel-with-quite-a-long-name")
REFUSES = "FORMATS = ['mxint8']\ndef quantize(x, fmt): raise NotImplementedError('later')\n"
GARBAGE = "FORMATS = ['mxint8']\ndef quantize(x, fmt): return b'garbage'\n"


class Result:
    """The outcome of a run of the command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs the command in this process, on 80 columns, in an empty folder."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def run_command(*args: object) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in args], prog_name="mxspec")
        out, err = capsys.readouterr()
        assert "mxspec failed" not in out + err
        return Result(ended.value.code if isinstance(ended.value.code, int) else 99, out, err)

    return run_command


@pytest.fixture
def targets(tmp_path: Path) -> dict[str, Path]:
    """Target files, next to the folder in which the command runs."""
    folder = tmp_path / "targets"
    folder.mkdir()
    sources = {"good": GOOD, "wrong": WRONG, "refuses": REFUSES, "garbage": GARBAGE}
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source, encoding="ascii")
    return {name: folder / f"{name}.py" for name in sources}


def narrow(text: str) -> None:
    """No line is wider than 80 columns."""
    wide = [line for line in text.splitlines() if len(line.rstrip()) > 80]
    assert wide == []


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


COMMANDS = list(commands(main))
#: (program, its group, a command's path).
PAGES = [("mxspec", main, path) for path in [(), *COMMANDS]] + [("mxspec_lab", lab, path) for path in [(), *commands(lab)]]


# Help


@pytest.mark.parametrize(("program", "group", "path"), PAGES, ids=[" ".join((program, *path)) for program, _, path in PAGES])
def test_help_fits_80_columns(program: str, group: click.Group, path: tuple[str, ...]) -> None:
    for option in ("--help", "-h"):
        result = CliRunner().invoke(group, [*path, option], prog_name=program, terminal_width=80)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith(f"Usage: {' '.join((program, *path))} ")
        assert "--help" in result.stdout
        assert len(result.stdout.splitlines()) > 5, "more than the usage line"
        narrow(result.stdout)


def test_the_maintainers_commands_are_no_commands_of_mxspec(run: Run) -> None:
    theirs = {path[0] for path in commands(lab)}
    assert theirs == {"bench", "evidence", "mutants", "record", "sweep", "verdicts"}
    assert theirs.isdisjoint(path[0] for path in COMMANDS)
    assert run("evidence").code == 2
    found = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # the wheel has no laboratory
    listed = subprocess.run([sys.executable, "-m", "mxspec_lab", "sweep", "--list"], capture_output=True, text=True, check=False, env=found)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "encode/e2m1/rne/saturate" in listed.stdout.split()


def test_every_command_has_its_summary_on_one_line_under_a_heading(run: Run) -> None:
    listed = dict(re.findall(r"^  ([a-z-]+) +(\S.*)$", run("help", "all").out, re.MULTILINE))
    context = click.Context(main)
    assert list(listed) == list(main.modules)
    assert listed == {n: (c.get_short_help_str(80) if (c := main.get_command(context, n)) else "") for n in main.list_commands(context)}


def test_help_names_eight_commands_and_the_way_to_the_others(run: Run) -> None:
    alone = run("--help")
    assert run("help").out == alone.out
    named = re.findall(r"^  ([a-z]+)  +\S", alone.out, re.MULTILINE)
    assert named == ["init", "check", "fuzz", "explain", "identify", "lint", "quantize", "kit"]
    assert "All commands: mxspec help all." in alone.out
    assert len(alone.out.splitlines()) <= 40
    assert run("help", "smoke").out == run("smoke", "--help").out


@pytest.mark.parametrize(
    ("given", "meant"), [("chek", "check"), ("smok", "smoke"), ("quantise", "quantize"), ("scoretests", "score-tests")]
)
def test_a_misspelt_command_is_suggested(run: Run, given: str, meant: str) -> None:
    for call in ([given], ["help", given]):
        done = run(*call)
        assert (done.code, done.out) == (2, "")
        assert f"No such command '{given}'; did you mean {meant}" in done.err
    assert "`mxspec help all` lists all commands" in run("xyzzy").err


def test_a_quantizer_is_judged_without_the_judges_of_other_operations(targets: dict[str, Path]) -> None:
    code = (
        "import sys; from mxspec_conformance.cli.main import main; main(sys.argv[1:], standalone_mode=False);"
        "print(*(name for name in sys.modules if name.startswith(('mxspec', 'jsonschema'))))"
    )
    done = subprocess.run([sys.executable, "-c", code, "check", targets["good"], "--quick"], capture_output=True, text=True, check=False)
    loaded = done.stdout.splitlines()[-1].split()
    assert not [name for name in loaded if re.match(r"jsonschema|mxspec_conformance\.judge\.(affine|products|sparse|stochastic)", name)]
    assert 200 < len(loaded) <= 312


def test_version(run: Run) -> None:
    result = run("--version")
    assert (result.code, result.out.strip()) == (0, f"mxspec, version {mxspec.__version__}")


# Tables


@pytest.mark.parametrize(
    "args",
    [
        ["targets"],
        ["formats"],
        ["profiles"],
        ["profiles", "--format", "nvfp4"],
        ["vectors", "list"],
        ["explain", "mxfp4", "0.25", "5", "-1.3", "--against", "gguf-0.19/mxfp4"],
        ["explain", "nvfp4", "0.1", "nan", "--tensor-scale", "auto"],
        ["explain", "e4m3", "nan", "-inf", "1e-9", "449"],
    ],
    ids=" ".join,
)
def test_tables_fit_80_columns(run: Run, args: list[str]) -> None:
    result = run(*args)
    assert (result.code, result.err) == (0, "")
    assert len(result.out.splitlines()) >= 3
    narrow(result.out)


def test_every_profile_is_shown_on_80_columns(run: Run) -> None:
    for profile in mxspec.list_profiles():
        result = run("profiles", profile.id)
        assert (result.code, result.err) == (0, "")
        assert profile.id in result.out
        assert result.out.count("provisional") >= profile.provisional
        narrow(result.out)


def test_a_verdict_on_80_columns(run: Run, targets: dict[str, Path]) -> None:
    """One target with its failures drawn, and a table of several."""
    one = run("check", targets["wrong"], "--in-process", "-v")
    assert (one.code, one.err) == (1, "")
    assert "a-kernel-with-quite-a-long-name" in one.out
    assert "scale/mxint8/scale-boundary" in one.out
    assert "import numpy as np, mxspec" in one.out, "lines that reproduce the answer"
    assert "not all requirements pass" in " ".join(one.out.split())
    narrow(one.out)
    many = run("check", targets["good"], targets["wrong"], targets["garbage"], "--in-process")
    assert (many.code, many.err) == (1, "")
    assert "conforms to mx-rceil" in many.out or "conforms to mx-floor" in many.out
    narrow(many.out)
    undrawn = run("check", targets["wrong"], "--in-process", "--failures", 0)
    assert len(undrawn.out) < len(one.out)
    assert "import numpy" not in undrawn.out


# JSON


def test_check_writes_what_its_schema_says(run: Run, targets: dict[str, Path], tmp_path: Path) -> None:
    schema = jsonschema.Draft202012Validator(load_result_schema())
    file = tmp_path / "new" / "result.json"
    to_file = run("check", targets["wrong"], "--in-process", "--json", file)
    printed = run("check", targets["wrong"], "--in-process", "--json", "-")
    assert (to_file.code, printed.code, printed.err) == (1, 1, "")
    documents = json.loads(file.read_text("ascii")), json.loads(printed.out)
    for document in documents:
        assert [e.message for e in schema.iter_errors(document)] == []
        assert document["exit_code"] == 1
        assert document["target"]["name"] == "a-kernel-with-quite-a-long-name"
        del document["environment"], document["seconds"]
    assert documents[0] == documents[1]
    assert snapshot(file.parent).keys() == {"result.json"}
    several = json.loads(run("check", targets["good"], targets["wrong"], "--in-process", "--json", "-").out)
    assert [d["exit_code"] for d in several] == [0, 1]
    assert all(schema.is_valid(d) for d in several)


def test_results_on_layouts_follow_the_schema_too(run: Run, tmp_path: Path) -> None:
    """Names of layouts hold hyphens."""
    path = tmp_path / "layouts.py"
    path.write_text("FORMATS = []\ndef swizzle(scales, layout): raise NotImplementedError('later')\n", encoding="ascii")
    document = json.loads(run("check", path, "--in-process", "--json", "-").out)
    assert any("-" in r["id"].split("/")[1] for r in document["requirements"])
    jsonschema.Draft202012Validator(load_result_schema()).validate(document)


def parsed(result: Result) -> Any:
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_lists_as_json(run: Run) -> None:
    index = parsed(run("vectors", "list", "--json"))
    jsonschema.Draft202012Validator(load_schema("index")).validate(index)
    assert index == files.read_index()
    formats = parsed(run("formats", "--json"))
    assert set(formats["scalars"]) == {*ELEMENTS, *SCALES}
    assert {n: b["k"] for n, b in formats["blocks"].items()} == {n: b.k for n, b in BLOCKS.items()}
    profiles = parsed(run("profiles", "--json", "--format", "mxfp4"))
    assert [p["id"] for p in profiles] == [p.id for p in mxspec.list_profiles("mxfp4")]
    assert {t["name"]: t["installed"] for t in parsed(run("targets", "--json"))}["mxspec"] is True
    block = parsed(run("explain", "mxfp4", "0x40a00000", "nan", "--json"))
    assert len(block["explanations"]) == 1
    (number,) = parsed(run("explain", "e2m1", "5", "--json"))
    assert number


# Exit codes


@pytest.mark.parametrize(("target", "code"), [("good", 0), ("wrong", 1), ("garbage", 1), ("refuses", 2)])
def test_exit_codes_of_check(run: Run, targets: dict[str, Path], target: str, code: int) -> None:
    result = run("check", targets[target], "--in-process", "--failures", 0)
    assert (result.code, result.err) == (code, "")
    words = {0: "all supported requirements pass", 1: "not all requirements pass", 2: "nothing could be judged"}
    assert words[code] in " ".join(result.out.split())


#: Command -> its arguments, and the function within that fails. Files: a target, a table of numbers, a JSON object.
WITHIN: dict[tuple[str, ...], tuple[str, str]] = {
    ("attest",): ("{json}", "mxspec_lab.attest.check_probe"),
    ("attribute",): ("{good}", "mxspec_conformance.attribution.run.open_checkpoint"),
    ("bundle",): ("out.jsonl --like {good}", "mxspec_conformance.judge.planning.plan_requests"),
    ("check",): ("{good} --in-process", "mxspec_conformance.judge.check.check_format"),
    ("compare",): ("{numbers}", "mxspec.comparing.compare"),
    ("convert",): ("{good} out --to modelopt", "mxspec_conformance.cli.convert.open_source"),
    ("dequantize",): ("{good} out", "mxspec_conformance.cli.quantize.open_source"),
    ("diff",): ("{good} {good}", "mxspec_conformance.identification.diff._diff_quantize"),
    ("distinguish",): ("mx-floor mx-rceil", "mxspec_conformance.cli.identify.find_any_profile"),
    ("explain",): ("mxfp4 1", "mxspec_conformance.cli.explain.explain_block"),
    ("footprint",): ("{good}", "mxspec_conformance.cli.footprint.open_source"),
    ("formats",): ("", "mxspec_conformance.cli.catalogue.make_console"),
    ("fuzz",): ("{good} --in-process --jobs 1 --batches 1", "mxspec_conformance.cli.fuzz.run_fuzz"),
    ("header",): ("", "mxspec_conformance.transports.library.header_path"),
    ("help",): ("all", "mxspec_conformance.cli.help.write_sections"),
    ("identify",): ("{good}", "mxspec_conformance.identification.target.rank_profiles"),
    ("init",): ("quantizer new.py", "mxspec_conformance.cli.init.write_file"),
    ("kit",): ("pytest -o out", "mxspec_conformance.cli.kit.write_kit"),
    ("layouts",): ("", "mxspec_conformance.cli.layouts.list_layouts"),
    ("layouts", "show"): ("128x4", "mxspec_conformance.cli.layouts.default_shape"),
    ("lint",): ("{good}", "mxspec_conformance.lint.find_files"),
    ("profiles",): ("mx-floor", "mxspec_conformance.cli.catalogue.make_console"),
    ("protocol",): ("", "mxspec_conformance.transports.description.load_protocol_schema"),
    ("prove",): ("{good} --in-process --jobs 1", "mxspec_conformance.cli.prove.run_proof"),
    ("quantize",): ("{numbers} out --format mxfp4 --to modelopt", "mxspec_conformance.cli.quantize.quantize_checkpoint"),
    ("report",): ("{json} -o out", "mxspec_conformance.cli.report.list_result_digests"),
    ("score-tests",): ("rule:mxspec --format mxfp4", "mxspec_conformance.cli.score_tests.score_test"),
    ("show",): ("code-0d", "mxspec_conformance.counterexample.replay.replay_case"),
    ("site",): ("{json} -o out", "mxspec_conformance.atlas.reading.read_collection"),
    ("smoke",): ("{good}", "mxspec_conformance.transports.smoke.try_target"),
    ("submit",): ("{json} --into out", "mxspec_conformance.atlas.submission.read_submission"),
    ("targets",): ("", "mxspec_conformance.cli.catalogue.make_console"),
    ("vectors", "build"): ("--out out", "mxspec_vectors.build.build"),
    ("vectors", "export"): ("out --kind c --format mxfp4", "mxspec_vectors.export.export"),
    ("vectors", "list"): ("", "mxspec_vectors.files.read_index"),
    ("vectors", "verify"): ("", "mxspec_vectors.verify.verify"),
}


@pytest.mark.parametrize("error", [ValueError("cannot reshape"), IndexError("index 240 is out of bounds")], ids=["value", "index"])
@pytest.mark.parametrize("command", [c for c in COMMANDS if c != ("vectors",)], ids=" ".join)  # which only groups others
def test_a_defect_is_no_verdict(
    targets: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...], error: Exception
) -> None:
    """Exit code 3, whatever the type: 1 would be a result, and 2 the fault of what was given."""

    def fails(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.chdir(tmp_path)
    (tmp_path / "object.json").write_text('{"schema": "mxprobe/1"}', encoding="ascii")
    np.save(tmp_path / "numbers.npy", np.ones((2, 32), np.float32))
    arguments, within = WITHIN[command]
    files = {**targets, "json": tmp_path / "object.json", "numbers": tmp_path / "numbers.npy"}
    module, _, function = within.rpartition(".")
    monkeypatch.setattr(import_module(module), function, fails)
    done = CliRunner().invoke(main, [*command, *(part.format(**files) for part in arguments.split())], prog_name="mxspec")
    assert done.exit_code == 3, done.output
    first, second, *rest = done.stderr.splitlines()
    assert first == f"mxspec failed: {type(error).__name__}: {error}"
    assert second.startswith("This is a defect of mxspec and no verdict")
    assert rest[0].startswith(f"  mxspec {mxspec.__version__}, python 3.")
    assert rest[1].startswith(f"  mxspec {command[0]}")
    assert " in fails: raise error" in rest[-1]


@pytest.mark.parametrize("command", [("check",), ("diff",), ("identify",)], ids=" ".join)
def test_what_the_model_refuses_of_the_judge_is_a_defect(
    targets: dict[str, Path], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A check for a verdict gives nothing that the model refuses."""

    def fails(*_: Any, **__: Any) -> Any:
        return mxspec.quantize(np.ones(3, np.float32), "mxfp4")

    arguments, within = WITHIN[command]
    module, _, function = within.rpartition(".")
    monkeypatch.setattr(import_module(module), function, fails)
    done = CliRunner().invoke(main, [*command, *arguments.format(**targets).split()], prog_name="mxspec")
    assert (done.exit_code, done.stderr.splitlines()[0][:26]) == (3, "mxspec failed: ValueError:")


def test_no_memory_is_no_defect(targets: dict[str, Path], monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr(import_module("mxspec_conformance.judge.check"), "check_format", fails)
    done = run("check", targets["good"])
    assert (done.code, done.err) == (2, "mxspec: out of memory; Unable to allocate 1 TiB\n")


def test_only_with_nothing_to_judge(run: Run, targets: dict[str, Path]) -> None:
    """The message says what the glob resembles, and what lists the ids."""
    for glob, meant in (
        ("quantise/mxint8/nan", "quantize/mxint8/nan"),
        ("tie-even/", ""),
        ("tieeven", "*/*/tie-even"),
        ("scale/mxitn8/*", "scale/mxint8/*"),
        ("quantize/mxint8", "quantize/mxint8/*"),
        ("bogus", ""),
    ):
        result = run("check", targets["good"], "--in-process", "--only", glob)
        assert (result.code, result.out) == (2, "")
        first, second = result.err.splitlines()
        assert first == f"mxspec: good: no requirement of what was judged fits --only {glob!r}" + (
            f"; did you mean {meant!r}?" if meant else ""
        )
        assert second.endswith("`pytest --mxspec-target TARGET --collect-only -q` lists those of a target")


def test_several_parts_are_judged_together(run: Run, targets: dict[str, Path]) -> None:
    """In either order; one that fits nothing is no pass."""
    parts = ["--only", "quantize/mxint8/exact", "--only", "quantize/mxint8/zero-block"]
    for given in (parts, [*parts[2:], *parts[:2]]):
        result = run("check", targets["good"], "--in-process", "--quick", *given)
        assert result.code == 0
        assert "2 pass" in result.out
    for given in ([*parts, "--only", "bogus/*"], ["--only", "bogus/*", *parts]):
        result = run("check", targets["good"], "--in-process", "--quick", *given)
        assert result.code == 2
        assert "fits --only 'bogus/*'" in result.err


def test_only_what_one_of_two_targets_has(run: Run, targets: dict[str, Path], tmp_path: Path) -> None:
    """No verdict hides that another target was not judged."""
    other = tmp_path / "other.py"
    other.write_text(GOOD.replace("mxint8", "mxfp4").replace("good", "other"))
    result = run("check", targets["good"], other, "--in-process", "--quick", "--only", "*/mxint8/zero-block")
    assert result.code == 2
    assert "good 1" in result.out
    assert "other: no requirement of what was judged fits --only '*/mxint8/zero-block'" in result.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["check", "{good}", "--format", "fp8_e4m3-128"], "good offers mxint8; not fp8_e4m3-128, so"),
        (["check", "{good}", "--format", "mxint8", "--format", "mxfp4", "--format", "nvfp4"], "good offers mxint8; not mxfp4, nvfp4, so"),
        (["check", "mxspec", "--format", "mxfp4", "--format", "nvfp4", "--profile", "mx-floor"], "; not nvfp4"),
        (["diff", "{good}", "{wrong}", "--format", "mxint8", "--format", "mxfp4"], "good offers mxint8; not mxfp4, so"),
        (["identify", "{good}", "--format", "mxint8", "--format", "mxfp4"], "good offers mxint8; not mxfp4, so"),
        (["fuzz", "{good}", "--in-process", "--format", "mxint8", "--format", "mxfp4"], "good offers mxint8; not mxfp4, so"),
        (["bundle", "out.jsonl", "--like", "{good}", "--format", "mxfp4"], "good offers mxint8; not mxfp4, so"),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else None,
)
def test_a_format_that_cannot_be_judged_is_refused(
    run: Run, targets: dict[str, Path], monkeypatch: pytest.MonkeyPatch, command: list[str], words: str
) -> None:
    """Whatever else was named with it: what is left out must not look as if it had passed."""
    monkeypatch.setitem(formats._blocks, "fp8_e4m3-128", ADJACENT["fp8_e4m3-128"].block)  # for this test alone
    result = run(*(part.format(**targets) for part in command))
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_one_reason_for_no_answer_at_all_is_said_once(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "short.py"
    path.write_text(
        "import mxspec\nNAME, VERSION, FORMATS = 'short', '1', ['mxfp4']\n"
        "def quantize(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes[:, 1:], t.scales\n"
    )
    result = run("check", path, "--in-process", "--quick", "--json", tmp_path / "result.json")
    words = " ".join(result.out.split())
    assert result.code == 1
    assert "answers nothing" in words
    assert "blocks has an answer: codes have shape (1, 31); (1, 32) was expected" in words
    assert words.count("alone in its call it gave no answer") == 1
    assert "nearest profile" not in words  # nothing was compared with any
    assert json.loads((tmp_path / "result.json").read_text())["formats"][0]["causes"] == ["no-answer"]


def test_garbage_is_an_error_in_words(run: Run, targets: dict[str, Path]) -> None:
    """In a child process, as users run it."""
    result = run("check", targets["garbage"], "--failures", 0)
    assert (result.code, result.err) == (1, "")
    assert "quantize returned a bytes; return (codes, scales)" in " ".join(result.out.split())
    narrow(result.out)


# NaN

NAN_KEPT = """
import numpy as np, mxspec
FORMATS, ELEMENTS = [], ["e2m1", "e4m3", "e8m0"]
def encode(x, element): return mxspec.encode(x, element, sign="ignore"{policy})
"""


@pytest.mark.parametrize(
    ("policy", "fp8"), [("", 0), (", nan='max-positive'", 1), (", nan='zero'", 1)], ids=["the default", "the largest value", "zero"]
)
def test_policies_for_nan_are_open_but_for_fp8(run: Run, tmp_path: Path, policy: str, fp8: int) -> None:
    path = tmp_path / "policy.py"
    path.write_text(NAN_KEPT.format(policy=policy), encoding="ascii")
    for element, code in (("e2m1", 0), ("e8m0", 0), ("e4m3", fp8)):
        result = run("check", path, "--in-process", "--only", f"encode/{element}/nan")
        assert (element, result.code, result.err) == (element, code, "")


# Bad input

SYNTAX = "def quantize(x, fmt:\n    pass\n"
#: Arguments -> the message, which is all that is printed.
BAD: dict[str, tuple[list[str], str]] = {
    "no values": (["explain", "mxfp4"], "mxspec: pass either VALUES or --file"),
    "unknown format to explain": (["explain", "mxfp5", "1"], "mxspec: unknown format 'mxfp5'; known are mxfp4,"),
    "no number": (["explain", "mxfp4", "1,5"], "mxspec: '1,5' is not a number; write a decimal, 0x and the eight hex digits of a float32, nan or inf, and spaces between numbers"),
    "no such file": (["check", "missing.py"], "mxspec: missing.py does not exist; pass a Python file, a module or a known library\n"),
    "no such target": (["check", "nothing-of-the-kind"], "mxspec: 'nothing-of-the-kind' is neither a file, an importable module nor a known library; `mxspec targets` lists them\n"),
    "close to a target": (["check", "quark-dwn"], "mxspec: 'quark-dwn' is neither a file, an importable module nor a known library; did you mean quark-down"),
    "not installed": (["check", "modelopt"], "mxspec: modelopt needs nvidia-modelopt, which does not import here ("),
    "syntax error": (["check", "syntax.py"], "mxspec: syntax.py, line 1: '(' was never closed; the file is not valid Python\n"),
    "syntax error, here": (["check", "syntax.py", "--in-process"], "mxspec: syntax.py, line 1: '(' was never closed; the file is not valid Python\n"),
    "unknown profile": (["check", "good.py", "--profile", "mx-flor"], "mxspec: unknown profile 'mx-flor'; "),
    "profile of others": (["check", "good.py", "--profile", "nvfp4-te"], "mxspec: profile nvfp4-te covers nvfp4; the target offers mxint8\n"),
    "unknown profile to show": (["profiles", "mx-flo"], "mxspec: unknown profile 'mx-flo'; did you mean mx-floor?\n"),
    "unlike any profile": (["profiles", "zzz"], "mxspec: unknown profile 'zzz'; `mxspec profiles` lists them\n"),
    "no vectors there": (["vectors", "verify", "empty"], f"mxspec: empty{os.sep}index.json does not exist; build the vectors with `mxspec vectors build`\n"),
    "other files there": (["vectors", "build", "--out", "others"], "mxspec: others is not empty and holds files that are no vectors, mine.txt among them; name a new folder, an empty one, or one that holds vectors\n"),
    "profile to export": (["vectors", "export", "out", "--kind", "c", "--format", "mxfp4", "--profile", "zzz"], "mxspec: mxfp4 has no profile 'zzz'; known are mx-floor,"),
}  # fmt: skip
#: The same of what the parser of arguments refuses: usage, then the message.
BAD_USAGE: dict[str, tuple[list[str], str]] = {
    "no such command": (["chek"], "No such command 'chek'; did you mean check?"),
    "no target": (["check"], "Missing argument 'TARGET...'."),
    "unknown format": (["check", "good.py", "--format", "zzz"], "'zzz' is not one of 'mxfp4', 'mxfp6_e2m3',"),
    "misspelt format": (["check", "good.py", "--format", "mxpf4"], "'mxpf4' is no block format; did you mean mxfp4"),
    "no time": (["check", "good.py", "--timeout", "0"], "0.0 is not in the range 0<x<="),
    "negative count": (["check", "good.py", "--failures", "-1"], "-1 is not in the range x>=0."),
    "unknown kind": (["vectors", "export", "out", "--kind", "csv", "--format", "mxfp4"], "'csv' is not one of 'npz', 'c', 'readmemh'."),
    "a file as folder": (["vectors", "build", "--out", "good.py"], "Directory 'good.py' is a file."),
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder in which the command runs, with what the arguments of bad calls name."""
    contents = {"good.py": GOOD, "syntax.py": SYNTAX, "others/mine.txt": "mine"}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="ascii")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message(run: Run, place: Path, name: str) -> None:
    args, message = BAD[name]
    before = snapshot(place)
    if name == "not installed" and sys.modules.get("modelopt"):
        pytest.fail("this test needs an environment without modelopt")
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(message)
    assert result.err.count("\n") == 1
    assert snapshot(place) == before


@pytest.mark.parametrize("name", BAD_USAGE)
def test_bad_arguments_are_one_message(run: Run, place: Path, name: str) -> None:
    args, message = BAD_USAGE[name]
    before = snapshot(place)
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    usage, error = result.err.split("Error: ")
    assert usage.startswith("Usage: mxspec ")
    assert message in error
    assert error.count("\n") == 1
    assert snapshot(place) == before


# Vectors that are damaged


def forget_observed_cases() -> None:
    forget_cases()
    load_table_cases.cache_clear()


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the vectors, taken for the package's own."""
    folder = tmp_path / "vectors"
    shutil.copytree(files.vectors_root(), folder)
    monkeypatch.setattr(files, "vectors_root", lambda: folder)
    forget_observed_cases()
    yield folder
    forget_observed_cases()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def test_truncated_and_missing_files_are_found(run: Run, vectors: Path, targets: dict[str, Path]) -> None:
    cut, missing = vectors / "quantize" / "mxint8.json", vectors / "scale" / "mxint8.json"
    whole = cut.read_bytes()
    missing.unlink()
    truncate(cut)
    before = snapshot(vectors)
    for args in (["check", targets["good"], "--in-process"], ["vectors", "export", "out", "--kind", "npz", "--format", "mxint8"]):
        result = run(*args)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"mxspec: {cut} has SHA-256 ")
        assert result.err.endswith("the file is truncated or edited: restore it, or rebuild with `mxspec vectors build`\n")
    verified = run("vectors", "verify", vectors, "--no-model")
    assert (verified.code, verified.out) == (1, "")
    assert verified.err == (
        "scale/mxint8.json: does not exist\nquantize/mxint8.json: SHA-256 differs from the index; the file is truncated or edited\n"
    )
    assert snapshot(vectors) == before
    assert not Path("out").exists()
    cut.write_bytes(whole)
    result = run("check", targets["good"], "--in-process")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"mxspec: {missing} does not exist; rebuild with `mxspec vectors build`\n"


@pytest.mark.parametrize("command", [["verify", "vectors"], ["list"], ["list", "--json"]], ids=" ".join)
def test_a_truncated_index_is_found(run: Run, vectors: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    truncate(vectors / "index.json")
    monkeypatch.chdir(vectors.parent)
    vectors = Path("vectors") if "verify" in command else vectors
    result = run("vectors", *command)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"mxspec: {vectors / 'index.json'} is not JSON (")
    assert result.err.endswith("; it may be truncated: restore it, or rebuild with `mxspec vectors build`\n")


# Destinations that cannot be written; full disks and Ctrl-C are in test_atomic


@pytest.fixture
def small_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """`vectors build` builds two files."""
    monkeypatch.setattr(builder, "list_files", lambda: [("decode", "e2m1"), ("decode", "e4m3")])


@pytest.mark.usefixtures("small_build")
def test_build_says_what_it_built(run: Run, place: Path) -> None:
    result = run("vectors", "build", "--out", "new")
    assert (result.code, result.err) == (0, "")
    index = json.loads((place / "new" / "index.json").read_text("ascii"))
    assert result.out.splitlines() == [
        f"{index['cases']} cases in 2 files, {sum(f['bytes'] for f in index['files'].values()) / 1e6:.2f} MB",
        f"digest {index['digest']}",
    ]
