"""An unknown library: its profile module and its adapter module are all that a new one takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mxspec_lab.evidence.status import REPORTS, judge_result, list_results

from tests.fresh import write_index

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("mxspec", "vectors/mxspec_vectors", "conformance/mxspec_conformance", "conformance/mxspec_lab")
#: The two files, and what they hold.
PROFILE_FILE = "mxspec/profiles/imaginary.py"
ADAPTER_FILE = "conformance/mxspec_conformance/adapters/imaginary.py"

PROFILE = '''
"""Descriptive profiles of Imaginary."""

from mxspec.expressions import AMAX, SF, Q, X, exact
from mxspec.profiles.schema import ElementRule, Evidence, Profile, QuantizationSteps, ScaleRule, ScaleStep

PROFILES: tuple[Profile, ...] = (
    Profile(
        id="imaginary-1.0/mxint8",
        formats=("mxint8",),
        summary="one exponent more than floor(log2 amax): no element saturates",
        source="tests/test_new_library.py",
        evidence=Evidence.READ,
        one_level=QuantizationSteps(
            scale=ScaleRule(value=AMAX, step=ScaleStep.FLOOR, subtract_emax=True, offset=1),
            scaled=exact.div(X, SF),
            dequantize=exact.mul(Q, SF),
            element=ElementRule(under_nan_scale=0x00),
        ),
        dtypes=("float32",),
    ),
)
'''

ADAPTER = '''
"""Imaginary, which is imagined to be NumPy."""

from typing import Any

import numpy as np

from mxspec_conformance.adapters.registry import Library


class _Imaginary:
    VERSION = "1.0"
    FORMATS = ("mxint8",)
    DTYPES = ("float32",)

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes and scale bytes."""
        blocks = x.reshape(-1, 32).astype(np.float64)
        amax = np.abs(blocks).max(axis=1)
        scales = np.clip(np.frexp(amax)[1] + 127, 0, 254)
        scales = np.where(amax == 0, 0, np.where(np.isinf(amax), 254, np.where(np.isnan(amax), 255, scales)))
        steps = np.clip(np.rint(np.ldexp(blocks, 127 + 6 - scales[:, None])), -127, 127)
        codes = np.where(np.isnan(amax)[:, None], 0, steps).astype(np.int8).view(np.uint8)
        return codes.reshape(x.shape), scales.astype(np.uint8).reshape(len(x), -1)

    def dequantize(self, codes: Any, scales: Any, fmt: str) -> Any:
        """Float32 values."""
        steps = codes.reshape(-1, 32).view(np.int8).astype(np.float64)
        exponents = scales.reshape(-1, 1).astype(np.int64) - 127 - 6
        values = np.where(scales.reshape(-1, 1) == 255, np.nan, np.ldexp(steps, exponents))
        return values.astype(np.float32).reshape(codes.shape)


LIBRARY = Library(name="imaginary", requires="imagination", imports="numpy")
ADAPTERS = (LIBRARY.target("imaginary", "a library of this test", _Imaginary, {"mxint8": "imaginary-1.0/mxint8"}),)
'''

#: What `mxspec vectors build` does for every format: the answers of the new profile join those of the others.
REBUILD = """
import mxspec
from pathlib import Path
from mxspec_vectors.build import build_document
from mxspec_vectors.files import file_name, render, vectors_root
for operation in ("quantize", "scale", "dequantize"):
    (vectors_root() / file_name(operation, "mxint8")).write_bytes(render(build_document(operation, "mxint8")))
print(Path(mxspec.__file__).parents[1])
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with two more files, its vectors rebuilt where the new profile has something to say."""
    scratch = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, scratch / package, ignore=shutil.ignore_patterns("__pycache__"))
    (scratch / PROFILE_FILE).write_text(PROFILE, encoding="utf-8")
    (scratch / ADAPTER_FILE).write_text(ADAPTER, encoding="utf-8")
    used = run(scratch, "-c", REBUILD)
    assert Path(used.strip()) == scratch, "the copy must not be shadowed by the sources"
    v1 = scratch / "vectors" / "mxspec_vectors" / "v1"
    write_index(v1, [p.relative_to(v1).as_posix() for p in sorted(v1.glob("*/*.json"))])
    return scratch


def run(tree: Path, *arguments: str, code: int = 0) -> str:
    """What Python prints in a copy of the sources."""
    path = os.pathsep.join(str((tree / package).parent) for package in PACKAGES)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_its_target_is_listed(tree: Path) -> None:
    listed = json.loads(run(tree, "-m", "mxspec_conformance", "targets", "--json"))
    assert {"name": "imaginary", "installed": True, "about": "a library of this test"} in listed


def test_its_profile_is_shown(tree: Path) -> None:
    shown = run(tree, "-m", "mxspec_conformance", "profiles", "imaginary-1.0/mxint8")
    assert "no element saturates" in shown


def test_it_is_judged_and_found_identical_to_its_profile(tree: Path) -> None:
    out = tree / "result.json"
    printed = run(tree, "-m", "mxspec_conformance", "check", "imaginary", "--in-process", "--json", str(out), code=1)
    (found,) = json.loads(out.read_text("ascii"))["formats"]
    assert found["identical_to"] == ["imaginary-1.0/mxint8"]
    assert "same bits as" in printed
    assert "imaginary-1.0/mxint8" in printed


def test_it_is_compared_with_its_profile(tree: Path) -> None:
    assert "0 different" in run(tree, "-m", "mxspec_lab.crosscheck", "imaginary").splitlines()[-1]


def test_every_committed_result_stays_as_it_was(tree: Path) -> None:
    """Additions make no result stale."""
    for folder in ("reports", "gpu", "tests", "conformance/examples"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    states = {row["result"]: row["state"] for row in json.loads(run(tree, "-m", "mxspec_lab", "evidence", "--json"))}
    assert states == {path.relative_to(REPORTS).as_posix(): judge_result(path, kind).state for path, kind in list_results()}


def test_no_other_source_was_touched(tree: Path) -> None:
    def sources(root: Path) -> dict[str, bytes]:
        found = (p for package in PACKAGES for p in (root / package).rglob("*") if p.suffix not in (".json", ".pyc"))
        return {p.relative_to(root).as_posix(): p.read_bytes() for p in found if p.is_file()}

    before, after = sources(ROOT), sources(tree)
    assert {name for name in after if before.get(name) != after[name]} == {PROFILE_FILE, ADAPTER_FILE}
    assert before.keys() <= after.keys()
