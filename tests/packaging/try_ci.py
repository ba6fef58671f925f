"""From an empty environment to a red CI, step by step with seconds, and each template by its local equivalent.

python tests/packaging/try_ci.py [--runners PYTHON] [--write reports/ci.md]

--runners: a Python that has pre-commit and nox; without it these two are left out. Of a workflow the shell steps are run, as they
stand in its YAML. Exit code 1 where a step ends otherwise than it should, or where the steps of the first hour take a minute or more.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that the first hour's steps may take together.
MOST = 60.0
#: Lines of a step's output that are written down: the last ones, and what GitHub reads.
SHOWN = 4
CLAIM = ('FORMATS = ["mxfp4"]', 'PROFILE, FORMATS = "mx-floor", ["mxfp4"]')
BUG = ("return t.codes, t.scales", "return t.codes, t.scales + (t.scales == 128)")


class Trial:
    """Commands in a folder, timed and written down."""

    def __init__(self, work: Path, wheel: Path) -> None:
        self.work, self.wheel, self.lines, self.wrong = work, wheel, list[str](), list[str]()
        self.seconds: dict[str, float] = {}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "MXSPEC_", "PYTHON", "VIRTUAL_ENV"))}
        self.environment = kept | {
            "MXSPEC_PACKAGE": str(wheel),
            "HOME": str(work),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - started

    def run(self, name: str, command: Sequence[str | Path], *, code: int = 0, says: str = "", **environment: str) -> None:
        """Run one step; it has to end with a code and to say something."""
        with self.timed(name):
            done = subprocess.run(
                [str(c) for c in command], cwd=self.work, env=self.environment | environment, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
        text = done.stdout.replace(str(self.work), "WORK").replace(str(ROOT), "CHECKOUT")
        if done.returncode != code or says not in " ".join(text.split()):
            self.wrong.append(f"{name}: exit code {done.returncode}, not {code}, or it does not say {says!r}\n{text}")
        shown = [line for line in text.splitlines() if line.strip()]
        last = [line for i, line in enumerate(shown) if i >= len(shown) - SHOWN or line.startswith("::")]
        title = f"## {name}: {self.seconds[name]:.1f} s, exit code {done.returncode}"
        self.lines += ["", title, "", "```", *(line[:200] for line in last or ["(prints nothing)"]), "```"]

    def edit(self, old: str, new: str) -> None:
        path = self.work / "my_kernel.py"
        text = path.read_text("utf-8")
        assert text.count(old) == 1, f"{old!r} is not what init writes"
        path.write_text(text.replace(old, new), "utf-8")


def read_steps(text: str) -> dict[str, str]:
    """Name -> script of the shell steps of a composite action."""
    found = {}
    for step in re.split(r"^    - ", text, flags=re.MULTILINE)[1:]:
        if script := re.search(r"^      run: (?:\|\n((?:        .*\n|\n)+)|(.*\n))", step, re.MULTILINE):
            found[step.partition("\n")[0].removeprefix("name: ")] = re.sub(r"^        ", "", script[1] or script[2], flags=re.MULTILINE)
    return found


def read_inputs(text: str, given: Mapping[str, str]) -> dict[str, str]:
    """The variables that a runner sets for the judging step."""
    defaults = dict(re.findall(r'^  (\w+):\n    description: .*\n(?:    required: true\n)?    default: "(.*)"$', text, re.MULTILINE))
    return {
        name: given.get(source, defaults.get(source, ""))
        for name, source in re.findall(r"^        (MX_\w+): \$\{\{ inputs\.(\w+) \}\}", text, re.MULTILINE)
    }


def read_script(text: str) -> str:
    """The script of a GitLab job, with its variables."""
    variables = "".join(f'{name}="${{{name}:-{value}}}"\n' for name, value in re.findall(r"^    (MXSPEC_\w+): (.*)$", text, re.MULTILINE))
    block = text.partition("  script:\n")[2].partition("  artifacts:")[0]
    return f"set -e\n{variables}" + "".join(f"{line}\n" for line in re.findall(r"^    - (.*)$", block, re.MULTILINE))


def first_hour(trial: Trial, python: Path, command: Path) -> None:
    """Must be green before the bug and red after it."""
    with trial.timed("an empty environment"):
        venv.create(python.parents[1], with_pip=True)
    trial.run("install from the wheel", [python, "-m", "pip", "install", "--quiet", trial.wheel])
    trial.run("mxspec init quantizer my_kernel.py", [command, "init", "quantizer", "my_kernel.py"], says="ok quantize mxfp4, halves")
    trial.run("verdict: mxspec check my_kernel.py", [command, "check", "my_kernel.py"], says="conforms to mx-floor")
    trial.edit(*CLAIM)
    for name, code, says in (
        ("CI: green", 0, "all supported requirements pass"),
        ("CI: nothing has changed", 0, "from the cache"),
        ("CI: red after a planted bug", 1, "::error file=my_kernel.py,line="),
        ("CI: still red, nothing has changed", 1, "from the cache"),
    ):
        if name.startswith("CI: red"):
            trial.edit(*BUG)
        run_action(trial, name, python, code=code, says=says)


def run_action(trial: Trial, name: str, python: Path, *, code: int, says: str, **given: str) -> None:
    """The step Judge of action.yml, as the runner of GitHub does it."""
    text = (ROOT / "action.yml").read_text("utf-8")
    environment = read_inputs(text, {"target": "my_kernel.py"} | given) | {
        "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(trial.work), "GITHUB_STEP_SUMMARY": str(trial.work.parent / "summary.md"),
        "PATH": f"{python.parent}{os.pathsep}{trial.environment['PATH']}",
    }  # fmt: skip
    script = read_steps(text)["Judge"]
    trial.run(name, ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], code=code, says=says, **environment)


def templates(trial: Trial, python: Path, runners: Path | None) -> None:
    """GitHub's installing step, GitLab's job, the hook and the session, each with the bug and, by a list of what fails, without it."""
    path = {"PATH": f"{python.parent}{os.pathsep}{trial.environment['PATH']}"}
    install = read_steps((ROOT / "action.yml").read_text("utf-8"))["Install"].replace("${{ github.action_path }}", str(ROOT))
    trial.run("Action, step Install", ["bash", "-e", "-c", install], **path)
    job = read_script((ROOT / "docs/gitlab-ci.yml").read_text("utf-8"))
    trial.run("GitLab job, with the bug", ["bash", "-c", job], code=1, says="not all requirements pass", **path)
    known = [python.parent / "mxspec", "check", "my_kernel.py", "--quick", "--write-baseline", "known.txt"]
    trial.run("the list of what fails", known, code=1)
    run_action(trial, "Action, the bug is known", python, code=0, says="nothing new fails", baseline="known.txt")
    trial.edit(*reversed(BUG))
    run_action(trial, "Action, what was known passes", python, code=1, says="passes, but the baseline", baseline="known.txt")
    trial.run("GitLab job", ["bash", "-c", job], says="all supported requirements pass", **path)
    if runners is None:
        return
    (trial.work / "noxfile.py").write_text((ROOT / "docs/noxfile.py").read_text("utf-8"), "utf-8")
    nox = [runners, "-m", "nox", "--default-venv-backend", "venv", "-s", "mxspec"]
    trial.run("nox -s mxspec", nox, says="Session mxspec was successful")
    hook = "repos:\n  - repo: {}\n    rev: {}\n    hooks:\n      - id: mxspec-check\n        files: ^my_kernel\\.py$\n"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    (trial.work / ".pre-commit-config.yaml").write_text(hook.format(ROOT, head), "utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=trial.work, env=trial.environment, check=True)
    subprocess.run(["git", "add", "my_kernel.py"], cwd=trial.work, env=trial.environment, check=True)
    trial.run("pre-commit run", [runners, "-m", "pre_commit", "run", "--verbose"], says="all supported requirements pass")
    trial.edit(*BUG)
    subprocess.run(["git", "add", "my_kernel.py"], cwd=trial.work, env=trial.environment, check=True)
    trial.run("pre-commit run, with the bug", [runners, "-m", "pre_commit", "run", "--verbose"], code=1, says="Failed")


def main() -> int:
    """Run all steps; the table of seconds, and 1 where something is not as it has to be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runners", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        dist, work = Path(scratch, "dist"), Path(scratch, "user")
        work.mkdir()
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)], cwd=ROOT, check=True, capture_output=True
        )
        (wheel,) = dist.glob("*.whl")
        trial = Trial(work, wheel)
        python = Path(scratch, "env", "bin", "python")
        first_hour(trial, python, python.parent / "mxspec")
        table = [f"| {name} | {seconds:.1f} |" for name, seconds in trial.seconds.items()]
        total = sum(trial.seconds.values())
        templates(trial, python, given.runners and given.runners.absolute())
    if total >= MOST:
        trial.wrong.append(f"the steps from an empty environment to a red CI take {total:.1f} s, allowed are {MOST:.0f}")
    command = shlex.join(["python", "tests/packaging/try_ci.py", *(["--runners", "PYTHON"] if given.runners else [])])
    text = [
        "# From an empty environment to a red CI", "", f"Recorded by `{command} --write reports/ci.md`, the last lines of each step.", "",
        "| step | seconds |", "|---|---|", *table, f"| together | {total:.1f} |", *trial.lines, "",
    ]  # fmt: skip
    print("\n".join(text))
    for problem in trial.wrong:
        print(problem, file=sys.stderr)
    if given.write is not None and not trial.wrong:
        given.write.write_text("\n".join(text), "utf-8")
    return bool(trial.wrong)


if __name__ == "__main__":
    sys.exit(main())
