"""A fuzzing campaign on a local Dask cluster, one of whose workers is killed in the middle, against the same one alone.

    python tests/clusters/run_dask.py            # needs the extra `dask`
    python tests/clusters/run_dask.py --out FILE

Every piece must have a result, none twice, and the sums must be those of the campaign in one process. Writes
reports/clusters/dask.json and ends with 1 where something is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mxspec_conformance.fuzzing.run import fuzz
from mxspec_conformance.fuzzing.subject import Settings
from mxspec_conformance.results.environment import describe_environment

REPORTS = Path(__file__).resolve().parents[2] / "reports" / "clusters" / "dask.json"
#: Batches of each job; formats. Large enough that the killed worker holds pieces.
BATCHES, FORMATS, SEED = 8, ("mxfp4", "mxfp8_e4m3"), 11
#: Results after which a worker is killed.
KILL_AFTER = 5


class Killer:
    """Kills one worker after some results; told of each by the campaign's progress."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids, self._results = pids, 0
        self.killed_after = 0

    def __call__(self, words: str) -> None:
        if " batches, " not in words:
            return
        self._results += 1
        if self._results == KILL_AFTER and not self.killed_after:
            os.kill(sorted(self._pids.values())[0], signal.SIGKILL)
            self.killed_after = self._results


def sums(report: Any) -> dict[str, Any]:
    """What must not depend on who computed it."""
    totals = report.details["totals"]
    return {
        fmt: {name: total[name] for name in ("batches", "blocks", "elements", "calls", "failing")} | {
            "relations": total["relations"], "coverage": report.details["coverage"][fmt],
        }
        for fmt, total in totals.items()
    }  # fmt: skip


def read_keys(state: Path) -> list[str]:
    return [json.loads(line)["key"] for line in state.read_text("ascii").splitlines()[1:]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=REPORTS)
    out = parser.parse_args().out
    from distributed import Client, LocalCluster

    settings = Settings(seed=SEED, batches=BATCHES, formats=FORMATS, profile="mx-floor")
    started = time.monotonic()
    alone = fuzz("mxspec", settings, in_process=True).report
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        local = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        with local as cluster, Client(cluster) as client:
            killer = Killer(client.run(os.getpid))
            address = cluster.scheduler_address
            result = fuzz("mxspec", settings, state_file=state, dask=address, in_process=True, progress=killer)
            after = client.run(os.getpid)
        keys = read_keys(state)
    together = result.report
    wanted = together.environment["campaign"]["done"]
    facts = {
        "campaign": {"command": "fuzz mxspec", "seed": SEED, "batches": BATCHES, "formats": list(FORMATS)},
        "workers": 2,
        "killed_after_results": killer.killed_after,
        "workers_replaced": len(set(after.values()) - set(killer._pids.values())),
        "pieces": wanted,
        "lost": sorted(together.details["pieces"]["lost"]),
        "entered_twice": len(keys) - len(set(keys)),
        "retried": together.environment["campaign"]["retried"],
        "same_pieces": len(keys) == alone.environment["campaign"]["done"],
        "same_sums": sums(alone) == sums(together),
        "sums": sums(together),
        "seconds": round(time.monotonic() - started, 1),
        "environment": describe_environment()
        | {"load": [round(x, 2) for x in os.getloadavg()], "distributed": version("distributed"), "node": platform.system()},
    }
    good = (
        facts["same_sums"] and facts["same_pieces"] and not facts["lost"] and not facts["entered_twice"]
        and facts["killed_after_results"] and facts["workers_replaced"]
    )  # fmt: skip
    facts["nothing_lost_nothing_twice"] = bool(good)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n", "ascii")
    print(json.dumps({k: v for k, v in facts.items() if k not in ("sums", "environment")}, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
