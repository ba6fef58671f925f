"""How long `mxspec fuzz` takes to find each planted bug, as a user runs it: two processes, the target in a child.

    python tests/targets/run_planted.py [--seeds 1 2 3] [--out FILE]

Writes reports/fuzz/planted.json; ends with 1 where a bug is not found within 60 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mxspec_conformance.results.environment import describe_environment

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).parent / "planted"
LIMIT = 60.0


def run(target: Path, seed: int, folder: Path) -> dict[str, Any]:
    """One campaign that ends with its first find."""
    result = folder / f"{target.stem}-{seed}.json"
    command = [
        sys.executable, "-m", "mxspec_conformance", "fuzz", str(target), "--minutes", "1", "--stop-on-first", "--jobs", "2",
        "--seed", str(seed), "--json", str(result),
    ]  # fmt: skip
    started = time.monotonic()
    subprocess.run(command, capture_output=True, check=False, cwd=folder, timeout=300)
    seconds = time.monotonic() - started
    if not result.exists():
        return {"seed": seed, "seconds": round(seconds, 1), "causes": []}
    details = json.loads(result.read_text("ascii"))["details"]
    causes = [{"cause": f["cause"], "nonzero_lanes": f["nonzero_lanes"]} for f in details["findings"]]
    return {"seed": seed, "seconds": round(seconds, 1), "causes": causes}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "fuzz" / "planted.json")
    arguments = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for target in sorted(PLANTED.glob("*.py")):
            if target.stem != "planted_base":
                rows[target.stem] = [run(target, seed, Path(folder)) for seed in arguments.seeds]
                for r in rows[target.stem]:
                    print(f"{target.stem:16} {r['seconds']:6.1f} s  {'; '.join(c['cause'] for c in r['causes']) or 'NOT FOUND'}")
    good = all(r["causes"] and r["seconds"] <= LIMIT for row in rows.values() for r in row)
    document = {
        "command": "mxspec fuzz TARGET --minutes 1 --stop-on-first --jobs 2 --seed SEED",
        "limit_seconds": LIMIT,
        "all_found": good,
        "planted": rows,
        "environment": describe_environment() | {"load": [round(x, 2) for x in os.getloadavg()]},
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "ascii")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
