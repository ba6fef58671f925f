"""Does this checkout still say what an older commit said?

    python -m tests.equality 273d046 [--targets gguf,mlx]

Compares what must stay equal when code is rebuilt: the cases of the golden vectors, `mxspec_target.h`, the schema of the process
protocol, the headers of the kit for C, and of each target the exit code and, of each requirement about vectors, the verdict, the number
of failing cases and the first of them. Exit code 1 where something that the commit had is gone or differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("mxspec", "gguf", "gfloat", "mlx", "ml_dtypes")
EXAMPLES = "conformance/examples"
#: Topics that are about calls: they grow with every axis, and are held to planted kernels instead.
CALLS = {"call-size", "memory", "state", "axis", "tail", "position", "refusal", "repeat"}
PACKAGES = ("", "vectors", "conformance", "gpu")
#: What changed since 273d046 on purpose: its digest, and why.
CHANGED = {
    "mxspec protocol": ("1829fc74c44b", "quantize may be called with given scales"),
    "kit c: mxspec_kit.h": ("d11543ae202f", "below 30 kB; blocks between the two lowest scales have an open answer of their own"),
}


def run_mxspec(tree: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line of a checkout, in this environment."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tree / part) for part in PACKAGES)}
    command = [sys.executable, "-m", "mxspec_conformance", *arguments]
    return subprocess.run(command, cwd=cwd or tree, env=environment, capture_output=True, text=True, check=False)


def digest(data: bytes) -> str:
    """What stands for a text in the table."""
    return hashlib.sha256(data).hexdigest()[:12]


def find_texts(tree: Path, scratch: Path) -> dict[str, str]:
    """Artefact -> digest."""
    header = Path(run_mxspec(tree, "header").stdout.strip()).read_bytes()
    found = {"mxspec_target.h": digest(header), "mxspec protocol": digest(run_mxspec(tree, "protocol").stdout.encode())}
    for kit in ("c", "hardware"):
        done = run_mxspec(tree, "kit", kit, "-o", str(scratch / kit))
        if done.returncode:
            raise SystemExit(f"{tree}: mxspec kit {kit}: {done.stderr}")
        found |= {f"kit {kit}: {path.name}": digest(path.read_bytes()) for path in sorted((scratch / kit).rglob("*.h"))}
    return found


def list_targets(tree: Path, scratch: Path) -> dict[str, str]:
    """Everything that is checked; the examples are built against the checkout's own headers."""
    block = next(b for b in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S) if "def quantize" in b)
    kernel = scratch / "my_kernel.py"
    kernel.write_text(block, encoding="utf-8")
    targets = {name: name for name in LIBRARIES} | {"README": str(kernel)}
    for name, compiler in (("c", ("cc", "-std=c11")), ("cpp", ("g++", "-std=c++17"))):
        library, includes = scratch / f"{name}.so", {f"-I{path.parent}" for path in (tree / "conformance").rglob("mxspec_target.h*")}
        subprocess.run(
            [
                *compiler,
                "-O2",
                "-shared",
                "-fPIC",
                *sorted(includes),
                "-o",
                str(library),
                str(tree / EXAMPLES / name / f"target.{name}"),
                "-lm",
            ],
            check=True,
        )
        targets[name] = str(library)
    return targets | {"python": f"cmd:{sys.executable} {tree / EXAMPLES / 'python' / 'harness.py'} {kernel}"}


def check_target(tree: Path, target: str, scratch: Path) -> dict[str, Any]:
    """Exit code, and of each requirement about vectors verdict, failing cases and the first."""
    out = scratch / "result.json"
    out.unlink(missing_ok=True)
    done = run_mxspec(tree, "check", target, "--json", str(out), cwd=scratch)
    if not out.exists():
        raise SystemExit(f"{tree}: mxspec check {target} wrote no result:\n{done.stdout}{done.stderr}")
    rows = {r["id"]: r for r in json.loads(out.read_text("ascii"))["requirements"] if r["id"].rpartition("/")[2] not in CALLS}
    lines = {
        i: (r["verdict"], r.get("failing", 0), next(iter(r.get("failing_cases", ())), "").removesuffix("@float32")) for i, r in rows.items()
    }
    return {"exit code": done.returncode, **lines}


def compare(name: str, old: dict[str, Any], new: dict[str, Any]) -> int:
    """Print what differs; how much of the older is lost."""
    differ = [key for key in old if old[key] != new.get(key)]
    lost = [key for key in differ if new.get(key) != CHANGED.get(key, ("", ""))[0]]
    print(f"{name}: {len(old)} compared, {len(lost)} differ, {len(new.keys() - old.keys())} are new", flush=True)
    for key in set(differ) - set(lost):
        print(f"    {key} changed on purpose: {CHANGED[key][1]}")
    for key in lost:
        print(f"    {key}: was {old[key]}, is {new.get(key, 'not there')}")
    return len(lost)


def main() -> int:
    """Compare an older commit with this checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--targets", help="only these, separated by commas")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch, older = Path(folder), Path(folder) / "older"
        older.mkdir()
        archive = subprocess.run(["git", "archive", options.commit], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(older)], input=archive, check=True)
        sides = []
        for number, tree in enumerate((older, ROOT)):
            (own := scratch / str(number)).mkdir()
            sides.append((tree, own, list_targets(tree, own)))
        lost = compare("texts", *(find_texts(tree, own) for tree, own, _ in sides))
        vectors = subprocess.run([sys.executable, "tests/old_vectors.py", options.commit], cwd=ROOT, check=False)
        lost += vectors.returncode != 0
        for name in options.targets.split(",") if options.targets else sides[0][2]:
            lost += compare(name, *(check_target(tree, targets[name], own) for tree, own, targets in sides))
    print(f"{lost} differ")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
