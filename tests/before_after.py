"""Do tests fail on an older commit, and pass now?

    python -m tests.before_after 273d046 [TEST...]

Each test runs twice: with the packages of a commit, under today's tests, and with those of this checkout. Without tests:
those of `tests/before_after.toml`, by the line that each holds. Exit code 1 where one does not pass now, or passed before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "before_after.toml"
PACKAGES = ("mxspec", "vectors", "conformance", "gpu", "docs", "pyproject.toml", "README.md", "action.yml", "Makefile", "tests/conftest.py", "tests/few_calls.py", "tests/long.py")


def run_test(folder: Path, test: str) -> str:
    """`passes`, `fails`, or `lacks what it calls` where the test cannot be imported."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-x", "-p", "no:cacheprovider", test]
    path = ":".join(str(folder / part) for part in (".", "vectors", "conformance", "gpu"))
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False)
    return {0: "passes", 1: "fails"}.get(done.returncode, "lacks what it calls")


def check_out(commit: str, folder: Path) -> None:
    """Today's files with a commit's packages, and what makes its judge ask few calls."""
    for revision, parts in (("HEAD", ()), (commit, PACKAGES)):
        if parts:
            subprocess.run(["rm", "-rf", *(str(folder / part) for part in parts)], check=True)
        held = [p for p in parts if subprocess.run(["git", "cat-file", "-e", f"{revision}:{p}"], cwd=ROOT, check=False).returncode == 0]
        archive = subprocess.run(["git", "archive", revision, *held], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)


def main() -> int:
    """Print a row for each test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    table = {"": options.tests} if options.tests else tomllib.loads(TABLE.read_text("utf-8"))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        check_out(options.commit, Path(folder))
        print(f"| line | test | {options.commit} | now |\n|---|---|---|---|")
        for line, tests in table.items():
            for test in tests:
                before, now = run_test(Path(folder), test), run_test(ROOT, test)
                wrong += before == "passes" or now != "passes"
                print(f"| {line} | {test} | {before} | {now} |", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
