"""The GitHub Action and the pre-commit hook, run step by step as their runners would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mxspec_conformance.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
RIGHT = "from mxspec_conformance.mutants.reference import Reference\n_r = Reference('mx-floor')\nNAME, VERSION, FORMATS = 'k', '1', ['mxfp4']\ndef quantize(x, fmt): return _r.quantize(x, fmt)\n"
WRONG = RIGHT.replace(
    "Reference('mx-floor')",
    "__import__('mxspec_conformance.scoring.subjects').scoring.subjects.find_subject('mutant/quantize/mxfp4/mx-floor/ties-away').build()",
)


CLAIMED = f"PROFILE = 'mx-floor'\n{RIGHT}"


def read_action() -> tuple[dict[str, str], str]:
    """The inputs' defaults, and the script of the last step."""
    text = (ROOT / "action.yml").read_text("utf-8")
    inputs = dict(
        re.findall(
            r"^  (\w+):\n    description: .*\n(?:    required: true\n)?(?:    default: \"(.*)\"\n)?",
            text.partition("outputs:")[0],
            re.MULTILINE,
        )
    )
    script = text.rpartition("      run: |\n")[2]
    return inputs, "\n".join(line[8:] for line in script.splitlines())


def run_action(folder: Path, **given: str) -> tuple[int, str]:
    inputs, script = read_action()
    assert set(given) <= set(inputs)
    program = folder / "mxspec"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mxspec_conformance "$@"\n', "utf-8")
    program.chmod(0o755)
    environment: dict[str, Any] = os.environ | {f"MX_{name.upper()}": given.get(name, default) for name, default in inputs.items()}
    environment |= {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_ACTIONS": "true",
    }
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(os.name == "nt", reason="the step is bash's")
@pytest.mark.parametrize(
    ("text", "given", "code"),
    [
        (RIGHT, {"format": "mxfp4", "profile": "mx-floor"}, 0), (WRONG, {"profile": "mx-floor"}, 1), (WRONG, {"profile": "nearest", "xfail": "true"}, 0),
        (CLAIMED, {"xfail": "true"}, 1),
        # Nothing says which profile it has to follow: a change of its rule would stay green.
        (RIGHT, {}, 2), (WRONG, {"xfail": "true"}, 2),
    ],
)  # fmt: skip
def test_the_step_ends_as_the_verdict(tmp_path: Path, text: str, given: dict[str, str], code: int) -> None:
    (tmp_path / "my_kernel.py").write_text(text, "utf-8")
    ended, said = run_action(tmp_path, target="my_kernel.py", **given)
    assert ended == code, said
    assert ("names no profile" in said) == (code == 2)
    assert ("::error file=my_kernel.py,line=4,title=mxspec::quantize mxfp4: elements are rounded" in said) == (text == WRONG), said
    for name in ("mxspec.json", "mxspec-junit.xml", "mxspec-badge.json", "summary.md"):
        assert (tmp_path / name).stat().st_size


def test_the_hook_is_a_command_that_exists() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    (entry,) = re.findall(r"^  entry: mxspec (.*)$", text, re.MULTILINE)
    assert CliRunner().invoke(main, [*entry.split(), "--help"]).exit_code == 0


def test_every_input_is_used() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    for name in read_action()[0]:
        assert f"inputs.{name}" in text
