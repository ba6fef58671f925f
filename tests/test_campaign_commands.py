"""`mxspec prove` and `mxspec fuzz`: exit codes, files, seeds, and one clear message for what makes no sense."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mxspec_conformance.cli.main import main
from mxspec_conformance.fuzzing.run import fuzz
from mxspec_conformance.results.report import load_result_schema

PLANTED = Path(__file__).parent / "targets" / "planted"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs the command in this process, on 80 columns, in an empty folder, with the target in it too."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def run_command(*args: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*map(str, args), "--in-process"], prog_name="mxspec")
        out, err = capsys.readouterr()
        assert "mxspec failed" not in out + err
        assert all(len(line) <= 80 for line in out.splitlines())
        return int(ended.value.code or 0), out, err

    return run_command


def test_a_shard_of_a_proof_is_reported_as_one_and_its_state_is_removed(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(
        "prove", "mxspec", "--format", "mxfp4", "--dtype", "float16", "--shard", "2/200", "--jobs", 1, "-o", "proof.json"
    )  # fmt: skip
    assert code == 0
    assert "a part, not a proof" in " ".join(out.split())
    jsonschema.validate(json.loads((tmp_path / "proof.json").read_text()), load_result_schema())
    assert [p.name for p in tmp_path.iterdir()] == ["proof.json"]


def test_a_proof_that_ran_out_of_time_keeps_its_state_and_says_so(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(
        "prove", "mxspec", "--format", "mxfp4", "--dtype", "bfloat16", "--minutes", 0.0001, "--jobs", 1,
        "--profile", "mx-floor", "-o", "proof.json",
    )  # fmt: skip
    assert code == 0
    assert "stopped before the end (time); the same command resumes from proof.state" in " ".join(out.split())
    assert (tmp_path / "proof.state").exists()


def test_a_counterexample_ends_with_one_and_is_drawn(run: Run) -> None:
    code, out, _ = run(
        "prove", PLANTED / "one_threshold.py", "--format", "mxfp8_e4m3", "--dtype", "bfloat16", "--shard", "60/127",
        "--jobs", 1, "--profile", "mx-floor",
    )  # fmt: skip
    assert code == 1
    assert "lies midway between 1.125" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "nvfp4", "--block", "16x16"), "there is no proof by pairs: blocks of 16 x 16 take their maximum from"),
        (("--format", "nvfp4", "--block", "wide"), "--block 'wide' is not ROWSxCOLUMNS"),
        (("--format", "mxfp4", "--shard", "3"), "--shard '3' is not I/N"),
        (("--format", "mxfp4", "--profile", "mx-flor"), "has no profile 'mx-flor'; among its"),
        (("--format", "mxfp4", "--tensor-amax", "1"), "mxfp4 has no tensor scale; omit --tensor-amax"),
        (("--format", "nvfp4", "--profile", "te-2.14/nvfp4/kernel-rht"), "Hadamard"),
    ],
)
def test_what_cannot_be_proven_is_refused_with_the_reason(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("prove", "mxspec", *arguments)
    assert code == 2
    assert message in err
    assert out == ""


def test_fuzzing_saves_what_it_finds_and_replays_it(run: Run, tmp_path: Path) -> None:
    target = PLANTED / "one_exponent.py"
    arguments = ("--batches", 2, "--seed", 7, "--jobs", 1, "--out", "found", "--json", "fuzz.json")
    code, out, _ = run("fuzz", target, *arguments)
    assert code == 1
    assert "only under scale byte 27" in " ".join(out.split())
    assert "--seed 7" in out
    jsonschema.validate(json.loads((tmp_path / "fuzz.json").read_text()), load_result_schema())
    code, out, _ = run("fuzz", target, "--replay", "found/quantize-mxint8.json")
    assert (code, out.splitlines()[-1]) == (1, "1 of 1 cases differ")
    code, out, _ = run("fuzz", "mxspec", "--replay", "found/quantize-mxint8.json")
    assert (code, out.splitlines()[-1]) == (0, "1 of 1 cases pass")


def test_the_environments_seed_is_taken_and_must_be_a_number(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXSPEC_SEED", "41")
    code, out, _ = run("fuzz", "mxspec", "--format", "mxfp4", "--batches", 1, "--jobs", 1)
    assert code == 0
    assert "--seed 41" in out
    monkeypatch.setenv("MXSPEC_SEED", "many")
    code, _, err = run("fuzz", "mxspec", "--format", "mxfp4", "--batches", 1, "--jobs", 1)
    assert code == 2
    assert "MXSPEC_SEED='many' is not a seed" in err


def test_fuzzing_that_ends_before_the_first_batch_says_so(run: Run) -> None:
    code, out, _ = run("fuzz", "mxspec", "--format", "mxfp4", "--minutes", 0.0001, "--jobs", 1)
    assert code == 2
    assert "nothing was judged in the time given; allow more with --minutes" in " ".join(out.split())


def test_a_target_that_has_nothing_to_fuzz_is_refused(run: Run) -> None:
    code, _, err = run("fuzz", "ml_dtypes", "--batches", 1)
    assert code == 2
    assert "it needs quantize, dequantize, matmul" in err


@pytest.mark.parametrize("state", [True, False])
def test_a_campaign_that_was_interrupted_says_how_it_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch, state: bool) -> None:
    def interrupted(*args: Any, **given: Any) -> Any:
        campaign = fuzz(*args, **given)
        campaign.report.details["stopped"] = "interrupt"
        return campaign

    monkeypatch.setattr("mxspec_conformance.cli.fuzz.run_fuzz", interrupted)
    options = ("--state", "a.state") if state else ()
    _, out, _ = run("fuzz", "mxspec", "--format", "mxfp4", "--batches", 1, "--seed", 7, "--jobs", 1, *options)
    wanted = "--seed 7 resumes from a.state" if state else "pass --state FILE to make a run resumable"
    assert f"interrupted; {'the same command with ' if state else ''}{wanted}" in " ".join(out.split())
