"""What goes wrong on a transport is a verdict with words that help, and never the end of the judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec_conformance.judge.planning import plan_requests
from mxspec_conformance.targets import sessions as sessions
from mxspec_conformance.targets.errors import CallError, TargetError
from mxspec_conformance.transports import abi, process
from mxspec_conformance.transports.library import header_path
from mxspec_conformance.transports.opening import open_target
from mxspec_conformance.transports.recorded import ResultsFile, write_bundle
from mxspec_conformance.transports.smoke import try_target

from tests.transports import build_library, judged, no_answers

TARGETS = Path(__file__).resolve().parent / "targets"
CODES = np.arange(16, dtype=np.uint8)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fault of each kind is enough: what is tested is its verdict."""
    for limits in ("MAX_UNANSWERED", "MAX_IN_ALL"):
        monkeypatch.setattr(sessions, limits, {"timeout": 1, "crash": 1, "garbage": 1})
    monkeypatch.setattr(process, "MAX_LINE", 1 << 22)


def program(fault: str) -> str:
    return f"cmd:{sys.executable} {TARGETS / 'faulty_program.py'} {fault}"


def library(tmp_path: Path, *defines: str) -> str:
    return build_library(TARGETS / "faulty.cpp", tmp_path / "libfaulty.so", *defines)


def call_failure(target: str, timeout: float = 30) -> CallError:
    """The outcome of one call."""
    session = open_target(target, timeout=timeout)
    try:
        with pytest.raises(CallError) as caught:
            session.call("decode", CODES, "e2m1")
    finally:
        session.close()
    return caught.value


# Shared libraries


def test_a_library_without_fault_passes(tmp_path: Path) -> None:
    report = judged(library(tmp_path))
    assert (no_answers(report), report.exit_code) == ({}, 0)


@pytest.mark.parametrize(
    ("defines", "verdict", "words"),
    [
        (["SEGFAULT"], "error", "the process died (exit code -11, SIGSEGV)"),
        (["ABORT"], "error", "the process died (exit code -6, SIGABRT)"),
        (["LOOP"], "timeout", "no answer within 1 s"),
        (["STATUS=2"], "error", "see https://example.org/why"),
        (["STATUS=7"], "error", "mxspec_decode returned status 7; allowed are 0, 1 and 2"),
        (["BEYOND"], "error", "wrote past the end of values (4 bytes)"),
        (["BEFORE"], "error", "wrote before the start of values"),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else None,
)
def test_a_faulty_library(defines: list[str], verdict: str, words: str, tmp_path: Path) -> None:
    report = judged(library(tmp_path, *defines), timeout=1)
    found = no_answers(report)
    assert found
    assert {v for v, _ in found.values()} == {verdict}
    assert words in found["decode/e2m1/code"][1]
    assert report.exit_code == 1


def test_a_library_that_refuses_gets_no_verdict(tmp_path: Path) -> None:
    report = judged(library(tmp_path, "STATUS=1"))
    assert {r.verdict.value for r in report.requirements} == {"unsupported"}
    assert report.requirements[0].note == "see https://example.org/why"
    assert report.exit_code == 2


def test_a_library_that_writes_into_its_input(tmp_path: Path) -> None:
    assert list(no_answers(judged(library(tmp_path, "INPUT")))) == ["decode/e2m1/call-size"]


@pytest.mark.parametrize(
    ("defines", "words"),
    [
        (["ABI=3"], "was compiled for ABI 3; this judge speaks ABI 2"),
        (["NO_DECODE"], "describes decode, but does not export mxspec_decode"),
        (['DESCRIPTION="{"'], "mxspec_describe returned no JSON"),
        (['DESCRIPTION="{}"'], "describes itself wrongly: the object: 'mxspec' is missing"),
    ],
    ids=["abi", "symbol", "json", "schema"],
)
def test_a_library_that_is_none(defines: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=words.replace("(", r"\(")):
        open_target(library(tmp_path, *defines), in_process=True)


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(b"no ELF")
    with pytest.raises(TargetError, match="does not load"):
        open_target(str(path))
    with pytest.raises(TargetError, match="does not exist"):
        open_target(str(tmp_path / "absent.so"))


def test_structures_have_the_offsets_of_the_header(tmp_path: Path) -> None:
    """What the compiler says of the header is what ctypes uses."""
    lines = ["#include <cstddef>", "#include <cstdio>", '#include "mxspec_target.h"', "int main() {"]
    for name, structure in abi.STRUCTURES.items():
        lines.append(f'std::printf("{name} %zu\\n", sizeof({name}));')
        for field in structure._fields_:
            lines.append(f'std::printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));')
    source, binary = tmp_path / "offsets.cpp", tmp_path / "offsets"
    source.write_text("\n".join([*lines, "}"]), encoding="ascii")
    subprocess.run(["g++", "-I", str(header_path().parent), str(source), "-o", str(binary)], check=True)
    printed = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout.splitlines()
    expected = []
    for name, structure in abi.STRUCTURES.items():
        expected.append(f"{name} {__import__('ctypes').sizeof(structure)}")
        expected += [f"{name}.{f[0]} {getattr(structure, f[0]).offset}" for f in structure._fields_]
    assert printed == expected


# Programs


@pytest.mark.parametrize("fault", ["none", "hex", "stderr"])
def test_a_program_without_fault_passes(fault: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = judged(program(fault))
    assert (no_answers(report), report.exit_code) == ({}, 0)
    passed_on = capfd.readouterr().err
    assert (len(passed_on) > 1000) == (fault == "stderr")
    assert len(passed_on) < 70_000  # of 500 kB a call


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("garbage", "garbage", "a line on stdout is no reply: 'decoding...' (Expecting value); print notes to stderr"),
        ("half-line", "garbage", 'a line on stdout is no reply: \'{"id": '),
        ("half-exit", "crash", "the process ended in the middle of a reply, after 30 bytes of it (exit code 0)"),
        ("half-hang", "timeout", "no answer within 1 s; 30 bytes of a reply without its end had come"),
        ("hang", "timeout", "no answer within 1 s"),
        ("exit", "crash", "the process ended (exit code 3); its last words: 'out of memory: buy more'"),
        ("flood", "garbage", "a line on stdout is longer than 4194304 bytes"),
        ("many-lines", "garbage", "a reply holds one of outputs, skipped, error; this holds nothing"),
        ("nan", "garbage", "NaN is no JSON number"),
        ("twice", "garbage", "an object holds 'outputs' twice; write each name once"),
        ("wrong-id", "garbage", "the reply is to '0000000000000000'"),
        ("other-outputs", "bad-return", "the outputs of decode are values; the reply holds codes"),
        ("short-bytes", "bad-return", "values: 64 bytes came; float32 [1048576] takes 4194304"),
        ("error", "error", "CUDA error 700"),
        ("skipped", "unsupported", "no decode on this chip (https://example.org/1)"),
    ],
)
def test_a_faulty_program(fault: str, kind: str, words: str) -> None:
    failure = call_failure(program(fault), timeout=1 if kind == "timeout" else 30)
    assert failure.kind == kind
    assert words in str(failure)


@pytest.mark.parametrize(
    ("fault", "verdict"), [("garbage", "error"), ("half-exit", "error"), ("half-hang", "timeout"), ("hang", "timeout"), ("error", "error")]
)  # fmt: skip
def test_the_verdict_on_a_faulty_program(fault: str, verdict: str) -> None:
    report = judged(program(fault), timeout=1)
    assert {v for v, _ in no_answers(report).values()} == {verdict}
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("banner", "did not answer start: a line on stdout is no reply: 'Welcome!'"),
        ("mute", "did not answer start: the process ended .exit code 1.; its last words: 'no licence'"),
        ("unknown-format", "formats names 'mxfp5'; allowed are mxfp4,"),
        ("unknown-function", "describes itself wrongly: capabilities.functions: 'quantise' is unknown; known are quantize,"),
    ],
)
def test_a_program_that_describes_itself_wrongly(fault: str, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        open_target(program(fault))


def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(TargetError, match="does not start"):
        open_target("cmd:/no/such/program")


def test_smoke_names_what_is_wrong() -> None:
    steps = {s.name: s for s in try_target(program("garbage"))}
    assert steps["start"].ok
    assert not steps["decode e2m1"].ok
    assert "print notes to stderr" in steps["decode e2m1"].note
    slow = {s.name: s for s in try_target(program("never-stops"))}
    assert slow["decode e2m1"].ok
    assert not slow["stop"].ok


# Results files


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Results of the program without fault."""
    session = open_target(program("none"))
    session.close()
    bundle, results = tmp_path / "bundle.jsonl", tmp_path / "results.jsonl"
    write_bundle(bundle, plan_requests(session.capabilities))
    with bundle.open("rb") as file:
        command = program("none").removeprefix("cmd:").split()
        results.write_bytes(subprocess.run(command, stdin=file, capture_output=True, check=True).stdout)
    return results


def test_recorded_results_pass(recorded: Path) -> None:
    assert judged(recorded).exit_code == 0


def test_results_that_end_too_early_are_errors(recorded: Path) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"".join(lines[:3]))
    target = ResultsFile(recorded)
    report = judged(target)
    assert {v for v, _ in no_answers(report).values()} == {"error"}
    answered = {json.loads(line)["id"] for line in lines[1:3]}
    assert not answered & {identifier for identifier, _, _ in target.missing}
    assert len(target.missing) > 10


#: A reply whose array is there twice.
HEX_AND_BASE64 = b'{"id": "x", "outputs": {"codes": {"dtype": "uint8", "shape": [100], "hex": "' + b"00" * 100 + b'", "base64": "AA=="}}}\n'


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines[:-1], lines[-1][:40]], r"line \d+ is not JSON \(.*\); the file is cut short"),
        (lambda lines: lines[1:], "line 1 comes before the reply to start"),
        (lambda lines: [], "is empty"),
        (lambda lines: [*lines, b'{"id": "x"}\n'], "is no reply: a reply holds one of outputs, skipped, error"),
        (lambda lines: [*lines, lines[1].replace(b"float32", b"float16")], "answers .* otherwise than an earlier line"),
        (lambda lines: [*lines, lines[0].replace(b"faulty", b"other")], "describes another target than before"),
        (
            lambda lines: [b"".join(lines).replace(b"\n", b"\r")],
            r"line 1 holds carriage returns \(CR\) alone; end each line with a line feed",
        ),
        (lambda lines: [b"\xef\xbb\xbf", *lines], "line 1 is not JSON .it begins with a byte order mark"),
        (
            lambda lines: [*lines, b'{"id": "x", "outputs": {"codes": ' + b"9" * 5000 + b"}}\n"],
            "holds a whole number of more than 4300 digits",
        ),
        (lambda lines: [*lines, HEX_AND_BASE64], r"outputs.codes: .{60} \.\.\. fits 2 of the allowed forms"),
        (lambda lines: [b'{\n "schema": "mxspec-result/1"\n}'], "holds verdicts; `mxspec report"),
    ],
    ids=["cut", "no start", "empty", "no reply", "twice", "two targets", "CR alone", "byte order mark", "long number", "both", "verdicts"],
)
def test_a_file_that_holds_no_results(change: Any, words: str, recorded: Path) -> None:
    recorded.write_bytes(b"".join(change(recorded.read_bytes().splitlines(keepends=True))))
    with pytest.raises(TargetError, match=words):
        open_target(str(recorded))


def test_the_table_knows_what_travels() -> None:
    """Every argument and option of an operation has a kind, and the schema no other arguments."""
    from mxspec_conformance.targets.interface import OPERATIONS
    from mxspec_conformance.transports.description import load_protocol_schema

    named = {n for o in OPERATIONS.values() for n in (*(o.parts or o.arguments), *o.options)}
    assert named == set(load_protocol_schema()["$defs"]["arguments"]["properties"])


def test_requests_are_as_the_schema_says(tmp_path: Path) -> None:
    from mxspec_conformance.transports.description import find_violation

    session = open_target(program("none"))
    session.close()
    write_bundle(tmp_path / "b.jsonl", plan_requests(session.capabilities), "hex")
    lines = (tmp_path / "b.jsonl").read_text("ascii").splitlines()
    assert len(lines) > 10
    assert [find_violation(json.loads(line), "request") for line in lines] == [None] * len(lines)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/someone/.venv/lib/python3.12/site-packages/mlx/core.py", "mlx/core.py"),
        ("/usr/lib/python3/dist-packages/gguf/quants.py", "gguf/quants.py"),
        (sessions.__file__, "mxspec_conformance/targets/sessions.py"),
        (str(Path.cwd() / "kernels" / "mine.py"), "kernels/mine.py"),
        ("/home/someone/kernels/mine.py", "mine.py"),
    ],
)
def test_frames_name_no_folder_of_the_machine(path: str, shown: str) -> None:
    assert sessions.shorten_path(path) == shown
