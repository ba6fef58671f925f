"""Build sdist and wheel twice, compare and check them, install the wheel in an empty environment away from the checkout, and use it.

python tests/packaging/try_wheel.py [OUT]      OUT: a folder for both files, if all went well
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP_LEVEL = {"mxspec", "mxspec_vectors", "mxspec_conformance", "mxspec_gpu"}
PACKAGES = {"numpy", "ml_dtypes", "click", "rich", "markdown-it-py", "mdurl", "Pygments", "mxspec", "pip", "setuptools"}


def run(*command: str | Path, cwd: Path, ok: tuple[int, ...] = (0,)) -> str:
    """Run a command, show it, and give back what it printed."""
    print("$", *command, flush=True)
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode not in ok:
        sys.exit(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def top_level_names(wheel: Path) -> set[str]:
    """The import names that a wheel claims."""
    with zipfile.ZipFile(wheel) as archive:
        return {name.split("/")[0] for name in archive.namelist() if ".dist-info/" not in name}


def build_twice(work: Path) -> Path:
    """The folder of sdist and wheel, which two builds made alike."""
    digests = []
    for name in ("dist", "again"):
        # `build` without flags makes the sdist and then the wheel from it.
        run(sys.executable, "-m", "build", "--outdir", work / name, ROOT, cwd=work)
        digests.append({p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted((work / name).iterdir())})
    if digests[0] != digests[1]:
        sys.exit(f"two builds differ: {digests}")
    for name, digest in digests[0].items():
        print(f"{digest}  {name}")
    return work / "dist"


def main() -> None:
    """Build, inspect, install, judge the README's kernel and gguf."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        dist = build_twice(work)
        (wheel,) = dist.glob("*.whl")
        print(run(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()), cwd=work), end="")
        print(run(sys.executable, "-m", "check_wheel_contents", "--toplevel", ",".join(sorted(TOP_LEVEL)), wheel, cwd=work), end="")
        names = top_level_names(wheel)
        if names != TOP_LEVEL:
            sys.exit(f"the wheel claims {sorted(names)}, not {sorted(TOP_LEVEL)}")
        venv.create(work / "env", with_pip=True)
        python, command = work / "env" / "bin" / "python", work / "env" / "bin" / "mxspec"
        run(python, "-m", "pip", "install", "--quiet", wheel, cwd=work)
        installed = set(re.findall(r"^([\w-]+)==", run(python, "-m", "pip", "list", "--format=freeze", cwd=work), re.MULTILINE))
        if not installed <= PACKAGES:
            sys.exit(f"the wheel installs {sorted(installed - PACKAGES)}, too")
        (kernel,) = re.findall(r"^```python\n# my_kernel.py\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)[
            :1
        ]
        (work / "my_kernel.py").write_text(kernel, "utf-8")
        print(run(command, "--version", cwd=work), end="")
        print(run(command, "check", "my_kernel.py", "--quick", "--failures", "0", cwd=work, ok=(1,)), end="")
        print(run(command, "vectors", "verify", "--no-model", cwd=work), end="")
        run(python, "-m", "pip", "install", "--quiet", "gguf==0.19.0", cwd=work)
        print(run(command, "check", "gguf", "--failures", "1", cwd=work, ok=(1,)), end="")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, top level {', '.join(sorted(names))}")
        if len(sys.argv) > 1:
            shutil.copytree(dist, sys.argv[1], dirs_exist_ok=True)


if __name__ == "__main__":
    main()
