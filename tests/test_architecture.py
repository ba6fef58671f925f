"""Who may import whom: the contract holds, and it would be seen if it did not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("", "vectors", "conformance", "gpu")
PACKAGES = ("mxspec", "vectors/mxspec_vectors", "gpu/mxspec_gpu", "conformance/mxspec_conformance", "conformance/mxspec_lab")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(root / f) for f in FOLDERS), "COLUMNS": "200"}
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=root, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("importlinter")
    root = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("*.json", "__pycache__", "*.npz"))
    return root


def test_the_contract_holds(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout
    assert "4 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("conformance/mxspec_conformance/judge/tally.py", "from mxspec_conformance.cli import main", "layers of the checker"),
        ("conformance/mxspec_conformance/proving/run.py", "from mxspec_conformance.fuzzing import run", "layers of the checker"),
        ("conformance/mxspec_conformance/results/report.py", "import mxspec_lab", "packages"),
        ("mxspec/formats.py", "import torch", "the model needs NumPy and ml_dtypes alone"),
        ("mxspec/formats.py", "from mxspec import blocks", "no cycles"),
    ],
)
def test_an_import_that_is_not_allowed_is_seen(copy: Path, module: str, line: str, broken: str) -> None:
    """Within a function, where nothing but the contract would notice."""
    path = copy / module
    text = path.read_text("utf-8")
    path.write_text(f"{text}\n\ndef _planted() -> None:\n    {line}\n", "utf-8")
    try:
        done = lint(copy)
    finally:
        path.write_text(text, "utf-8")
    assert done.returncode == 1
    assert f"{broken} BROKEN" in done.stdout, done.stdout


def test_what_is_public_is_what_it_says() -> None:
    code = (
        "from mxspec_conformance import check, identify, diff, fuzz, open_target, Report\n"
        "import mxspec_conformance as m\n"
        "assert [f.__name__ for f in (check, identify, diff, fuzz, open_target, Report)] == "
        "['check', 'identify', 'diff', 'fuzz', 'open_target', 'Report']\n"
        "assert all(hasattr(m, name) for name in m.__all__) and set(m.__all__) <= set(dir(m))\n"
        "assert m.fuzz is fuzz and m.identify is identify\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_package_imports_none_of_its_packages() -> None:
    code = "import sys, mxspec_conformance; print([m for m in sys.modules if m.startswith('mxspec_conformance.')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
