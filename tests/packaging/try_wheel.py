"""Build a wheel from the sdist, install it in an empty environment away from the checkout, and use it.

python tests/packaging/try_wheel.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP_LEVEL = {"mxspec", "mxspec_vectors", "mxspec_conformance", "mxspec_gpu"}


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


def main() -> None:
    """Build, inspect, install, check gguf."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        # `build` without flags makes the sdist and then the wheel from it.
        run(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT, cwd=work)
        (wheel,) = (work / "dist").glob("*.whl")
        print(run(sys.executable, "-m", "check_wheel_contents", "--toplevel", ",".join(sorted(TOP_LEVEL)), wheel, cwd=work), end="")
        names = top_level_names(wheel)
        if names != TOP_LEVEL:
            sys.exit(f"the wheel claims {sorted(names)}, not {sorted(TOP_LEVEL)}")
        venv.create(work / "env", with_pip=True)
        python = work / "env" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel, "gguf==0.19.0", cwd=work)
        print(run(work / "env" / "bin" / "mxspec", "check", "gguf", "--failures", "1", cwd=work, ok=(1,)), end="")
        print(run(work / "env" / "bin" / "mxspec", "vectors", "verify", "--no-model", cwd=work), end="")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, top level {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
