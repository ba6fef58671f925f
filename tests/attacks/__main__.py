"""`python -m tests.attacks [IDS...]`: run the attacks and print what each gave before, and gives now."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.attacks.model import Attack
from tests.attacks.rows import ATTACKS
from tests.attacks.run import judge, run_attack

BEFORE = json.loads(Path(__file__).with_name("before.json").read_text("ascii"))


def try_attack(attack: Attack) -> dict[str, Any]:
    """A row of the table: what the attack gave at the commit before, and what it gives now."""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        inner = Path(folder) / "in"
        inner.mkdir()
        outcome = run_attack(attack, inner)
        wrong = judge(attack, inner, outcome)
    lines = [line for line in outcome.err.decode("utf-8", "replace").splitlines() if line.strip()]
    return {
        "id": attack.id, "class": attack.kind, "what": attack.what,
        "before": BEFORE["gave"].get(attack.id, "not tried"), "now": "; ".join(wrong) or "as expected",
        "code": outcome.code, "seconds": round(outcome.seconds, 1), "megabytes": round(outcome.memory),
        "last": lines[-1][:160] if lines else "",
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run, print, write; 1 if an attack succeeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("ids", nargs="*", help="ids, or how they begin; all without")
    parser.add_argument("--json", type=Path, help="write the table here")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    chosen = [a for a in ATTACKS if not given.ids or any(a.id.startswith(i) for i in given.ids)]
    rows = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for row in pool.map(try_attack, chosen):
            rows.append(row)
            print(f"{row['id']:24} {row['now']:60.200}  [{row['code']}, {row['seconds']} s, {row['megabytes']} MB] {row['last'][:100]!r}", flush=True)
    failed = [row for row in rows if row["now"] != "as expected"]
    print(f"{len(rows) - len(failed)} of {len(rows)} as expected; at {BEFORE['commit']} {sum(r['before'] == 'as expected' for r in rows)} were")
    if given.json is not None:
        given.json.write_text(json.dumps({"before": BEFORE["commit"], "rows": rows}, indent=1) + "\n", "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
