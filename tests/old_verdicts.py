"""Does today's checker judge as that of an older checkout did?

    git worktree add ../older 1b7a1c2 && make -C ../older .venv/light.done
    python tests/old_verdicts.py ../older

Each checkout, with the environment in its .venv, checks the installed libraries, the README's five-line file and the four
example targets. The results must be equal but for what `RENAMED`, `NEWER` and `LEFT_OUT` say. Exit code 1 where anything
else differs; each difference is printed with its place.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("gguf", "gfloat", "mlx", "ml_dtypes", "mxspec")
EXAMPLES = "conformance/examples"

#: Keys of a result as they were in 1b7a1c2, and as they are now.
RENAMED = {"road": "transport"}
#: Keys that did not exist.
NEWER = {"explained_by"}
#: What differs between any two runs, and the digests of files that are laid out anew.
LEFT_OUT = {"seconds", "environment", "vectors", "digest"}


def normalise(value: Any) -> Any:
    """A result in today's words, without what differs between any two runs."""
    if isinstance(value, dict):
        kept = {RENAMED.get(k, k): normalise(v) for k, v in value.items() if k not in LEFT_OUT | NEWER}
        # The profile that a target claims: one text or none was stored, and now a list, one for each format.
        if "profile" in kept and "dtypes" in kept and kept["profile"] is None:
            kept["profile"] = []
        return kept
    if isinstance(value, list):
        return [normalise(v) for v in value]
    if isinstance(value, str):
        # Cases that were not answered were listed once for each dtype, though float32 is what every case means.
        return value.removesuffix("@float32")
    return value


def compare(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Each place where two results differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                yield f"{place}/{key}: only in the {'older' if key in old else 'newer'} result"
            else:
                yield from compare(old[key], new[key], f"{place}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from compare(a, b, f"{place}/{a.get('id', i) if isinstance(a, dict) else i}")
    elif old != new:
        yield f"{place}: {str(old)[:100]!r} was, {str(new)[:100]!r} is"


def list_targets(tree: Path, scratch: Path) -> Iterator[tuple[str, str]]:
    """(name, target) of everything that is checked; the examples are built against the checkout's own headers."""
    yield from ((name, name) for name in LIBRARIES)
    yield "tests/targets/gfloat_target.py", str(tree / "tests/targets/gfloat_target.py")
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.S)
    kernel = scratch / "my_kernel.py"
    kernel.write_text(next(b for b in blocks if "def quantize" in b), encoding="utf-8")
    yield "five lines", str(kernel)
    headers = [f"-I{p.parent}" for p in (tree / "conformance").rglob("mxspec_target.h*")]
    headers += [f"-I{p}" for p in (tree / "conformance").rglob("include") if p.is_dir()]
    for name, compiler in (("c", ("cc", "-std=c11")), ("cpp", ("g++", "-std=c++17"))):
        library = scratch / f"{name}.so"
        source = tree / EXAMPLES / name / f"target.{name}"
        options = ("-O2", "-shared", "-fPIC", *headers, "-o", str(library), str(source), "-lm")
        subprocess.run([*compiler, *options], check=True)
        yield name, str(library)
    yield "javascript", f"cmd:node {tree / EXAMPLES / 'javascript' / 'target.js'}"
    yield "python", f"cmd:{tree / '.venv/bin/python'} {tree / EXAMPLES / 'python' / 'harness.py'} {kernel}"


def check_tree(tree: Path, scratch: Path) -> dict[str, Any]:
    """Exit code and result of each target in one checkout."""
    scratch.mkdir()
    results: dict[str, Any] = {}
    for name, target in list_targets(tree, scratch):
        out = scratch / "result.json"
        out.unlink(missing_ok=True)
        command = [str(tree / ".venv/bin/mxspec"), "check", target, "--json", str(out)]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        if not out.exists():
            raise SystemExit(f"{tree}: mxspec check {target} wrote no result:\n{done.stdout}{done.stderr}")
        text = out.read_text("ascii").replace(str(scratch), "").replace(str(tree), "")
        results[name] = {"exit code": done.returncode, "result": normalise(json.loads(text))}
        print(f"{tree.name}: {name}, exit code {done.returncode}", file=sys.stderr)
    return results


def main() -> int:
    """Compare the older checkout with this one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older", type=Path, help="an older checkout with its environment in .venv")
    older = parser.parse_args().older.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        old, new = (check_tree(tree, Path(scratch) / side) for tree, side in ((older, "older"), (ROOT, "newer")))
    found = 0
    for name in new:
        differences = list(compare(old[name], new[name]))
        found += len(differences)
        print(f"{name}: {len(differences)} differences")
        for line in differences:
            print(f"    {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
