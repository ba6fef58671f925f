"""`python -m tests.attacks [IDS...]`: run the attacks and print what each gave before, and gives now."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mxspec_conformance.results.environment import describe_environment
from mxspec_vectors.files import write_file

from tests.attacks.model import Attack
from tests.attacks.rows import ATTACKS
from tests.attacks.run import judge, run_attack

LEFT_OUT = json.loads(Path(__file__).with_name("left_out.json").read_text("ascii"))
BEFORE = json.loads(Path(__file__).with_name("before.json").read_text("ascii"))


def try_attack(attack: Attack) -> tuple[dict[str, Any], str]:
    """A row of the table: what the attack gave at the commit before, and what it gives now; and its last word."""
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
    }, lines[-1][:100] if lines else ""  # fmt: skip


def render(rows: list[dict[str, Any]]) -> str:
    """The table as Markdown."""
    lines = [
        f"# Attacks on the command line: commit {BEFORE['commit']} and now", "",
        "Made by `python -m tests.attacks`. \"not tried\": the row is newer than the list of that commit.", "",
        "| id | what | before | now |", "|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        cells = (row["id"], row["what"], row["before"], row["now"])
        lines.append("| " + " | ".join(re.sub(r"([\\`*_<>|\[\]])", r"\\\1", str(c)).replace("\n", " ") for c in cells) + " |")
    lines += ["", "## Not repeated", "", *(f"- {name}: {why}" for name, why in LEFT_OUT.items()), ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run, print, write; 1 if an attack succeeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("ids", nargs="*", help="ids, or how they begin; all without")
    parser.add_argument("--json", type=Path, help="write the table here")
    parser.add_argument("--update", action="store_true", help="replace rows of that table, and keep the others")
    parser.add_argument("--markdown", type=Path, help="write it here as Markdown, too")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    chosen = [a for a in ATTACKS if not given.ids or any(a.id.startswith(i) for i in given.ids)]
    rows = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for row, last in pool.map(try_attack, chosen):
            rows.append(row)
            print(f"{row['id']:24} {row['what'][:60]:60}  before: {row['before'][:60]:60}  now: {row['now'][:200]}", flush=True)
            print(f"{'':24} exit code {row['code']}, {row['seconds']} s, {row['megabytes']} MB {last!r}", flush=True)
    if given.update and given.json is not None and given.json.exists():
        new = {row["id"]: row for row in rows}
        kept = {row["id"]: row for row in json.loads(given.json.read_bytes())["rows"]}
        rows = [(kept | new)[a.id] for a in ATTACKS if a.id in kept or a.id in new]
    failed = [row for row in rows if row["now"] != "as expected"]
    tried = [r for r in rows if r["before"] != "not tried"]
    good = sum(r["before"] == "as expected" for r in tried)
    print(f"{len(rows) - len(failed)} of {len(rows)} as expected; at {BEFORE['commit']} {good} of the {len(tried)} that were tried there")
    if given.json is not None:
        document = {
            "schema": "mxspec-attacks/1", "before": BEFORE["commit"], "rows": rows, "left_out": LEFT_OUT,
            "as_expected": len(rows) - len(failed), "environment": describe_environment(),
        }  # fmt: skip
        write_file(given.json, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    if given.markdown is not None:
        write_file(given.markdown, render(rows).encode("utf-8"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
