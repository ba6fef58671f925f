"""The wheel claims nothing generic and holds everything that is used at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names in a wheel built from the checkout."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_top_level_names_are_the_projects_own(names: list[str]) -> None:
    tops = {n.split("/")[0] for n in names if ".dist-info/" not in n}
    assert tops == {"mxspec", "mxspec_vectors", "mxspec_conformance", "mxspec_gpu"}


@pytest.mark.parametrize(
    "needed",
    [
        "mxspec/py.typed",
        "mxspec/data/rcp_approx_ftz_sm90.npz",
        "mxspec_vectors/py.typed",
        "mxspec_vectors/v1/index.json",
        "mxspec_vectors/v1/quantize/mxfp4.json",
        "mxspec_vectors/schema/quantize.schema.json",
        "mxspec_conformance/schema/result.schema.json",
        "mxspec_conformance/schema/protocol.schema.json",
        "mxspec_conformance/transports/include/mxspec_target.h",
        "mxspec_conformance/render/templates/page.html.j2",
        "mxspec_conformance/render/templates/style.css",
        "mxspec_conformance/adapters/gguf.py",
        "mxspec_gpu/kernels/witness.cu",
    ],
)
def test_wheel_holds(names: list[str], needed: str) -> None:
    assert needed in names
