"""The wheel claims nothing generic, holds everything that is used at run time, is small, and needs four libraries."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest

import mxspec
from mxspec_vectors.files import UnreadableFile, read_document, read_vectors, vectors_root

ROOT = Path(__file__).resolve().parents[1]
NEEDED = {"numpy", "ml_dtypes", "click", "rich"}


def build(out: Path, kind: str = "wheel") -> Path:
    """A wheel or sdist of the checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    """Names in a wheel built from the checkout."""
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
        "mxspec_vectors/v1/quantize/mxfp4.json.gz",
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


def test_the_wheel_needs_four_libraries(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        required = Parser().parsestr(archive.read(metadata).decode("utf-8")).get_all("Requires-Dist", [])
    hard = {re.split(r"[^A-Za-z0-9_.-]", text)[0].replace("-", "_") for text in required if "extra ==" not in text}
    assert hard == NEEDED
    recipe = (ROOT / "tests/packaging/recipe.yaml").read_text("utf-8").partition("  run:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^    - (\w+) >=", recipe, re.MULTILINE)) == {"python", *NEEDED}


def test_the_wheel_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    assert wheel.stat().st_size < 6_000_000
    assert unpacked < 10_000_000


def test_every_vector_file_is_in_the_wheel_and_reads_from_there(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    root = tmp_path / "mxspec_vectors/v1"
    plain = {p.relative_to(vectors_root()).as_posix() for p in vectors_root().rglob("*.json")}
    assert {p.relative_to(root).as_posix().removesuffix(".gz") for p in root.rglob("*.*")} == plain
    for name in plain:
        assert read_vectors(root / name) == (vectors_root() / name).read_bytes()
    assert read_document("decode", "e2m1", root) == read_document("decode", "e2m1")


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"{}" + data], ids=["cut short", "no gzip file"])
def test_a_damaged_compressed_file_is_refused(damage: object, wheel: Path, tmp_path: Path) -> None:
    assert callable(damage)
    with zipfile.ZipFile(wheel) as archive:
        (tmp_path / "e2m1.json.gz").write_bytes(damage(archive.read("mxspec_vectors/v1/decode/e2m1.json.gz")))
    with pytest.raises(UnreadableFile, match=r"e2m1\.json\.gz is (cut short|no gzip file).*; install mxspec again"):
        read_vectors(tmp_path / "e2m1.json")


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_two_builds_are_the_same_bytes(kind: str, tmp_path: Path) -> None:
    first, second = (build(tmp_path / name, kind) for name in ("first", "second"))
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()


def test_the_version_is_a_date() -> None:
    assert re.fullmatch(r"20\d\d\.([1-9]|1[0-2])\.(0|[1-9]\d*)", mxspec.__version__)
    for file, line in (
        ("CITATION.cff", f"version: {mxspec.__version__}"),
        ("tests/packaging/recipe.yaml", f'  version: "{mxspec.__version__}"'),
    ):
        assert line in (ROOT / file).read_text("utf-8").splitlines()


#: What a start must not wait for.
HEAVY = (
    "numpy", "ml_dtypes", "rich", "jsonschema", "jinja2", "markdown_it", "torch", "cupy", "hypothesis", "pytest", "unittest",
    "multiprocessing", "asyncio", "http",
)  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "import mxspec",
        "import mxspec_conformance",
        "import mxspec_conformance.entry",
        "from mxspec_conformance.cli.main import main; main(['--version'], standalone_mode=False)",
        "from mxspec_conformance.cli.main import main; main(['--help'], standalone_mode=False)",
    ],
)
def test_a_start_imports_nothing_heavy(code: str) -> None:
    shown = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & set(HEAVY) == set()


@pytest.mark.parametrize("command", [["formats"], ["check", "--help"], ["vectors", "list"]], ids=lambda command: command[0])
def test_a_command_needs_no_jsonschema(command: list[str]) -> None:
    assert find_spec("jsonschema") is not None
    code = "import sys; sys.modules['jsonschema'] = None; from mxspec_conformance.cli.main import main; main(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
