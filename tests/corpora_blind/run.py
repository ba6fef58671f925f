"""Judge the blind kernels: `python -m tests.corpora_blind.run [--only GLOB] [--jobs N] [--selftest]`.

One line for each: id, operation, axis, verdict, the requirements that fail, seconds. A wrong kernel is found where the exit code is 1,
and has escaped otherwise; a right one passes where it is not 1, and is accused otherwise. Verdicts are kept in build/blind.jsonl, where
a run that was stopped goes on; one of a kernel whose sources changed is asked again if its line is removed.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from mxspec_conformance import check

from . import KERNELS, Kernel, conversions, odd, products, quantizers, same

KEPT = Path("build/blind.jsonl")
TABLES = (quantizers, conversions, products)
for first in {id(kernel.offer): kernel for kernel in reversed(KERNELS.values()) if kernel.wrong}.values():
    odd(f"model-of-{first.id}", first.offer, "the model itself", lambda state, right, *args, **given: right(*args, **given))


def judge(id_: str) -> dict[str, object]:
    """One verdict as it is kept."""
    kernel, start = KERNELS[id_], time.perf_counter()
    try:
        report = check(kernel.target(), in_process=True)
        code, failing = (
            report.exit_code,
            [f"{r.id} {r.verdict}" for r in report.requirements if str(r.verdict) in ("fail", "deviation", "error", "timeout")],
        )
    except Exception:
        code, failing = 3, [traceback.format_exc(limit=-3)]
    words = ("found", "ESCAPED") if kernel.wrong else ("ACCUSED", "passes")
    verdict = "FAILED" if code in (2, 3) else words[code != 1]
    return {
        "id": id_,
        "operation": kernel.offer.operation,
        "axis": kernel.axis,
        "verdict": verdict,
        "failing": failing,
        "seconds": round(time.perf_counter() - start, 1),
    }


def prove(kernel: Kernel) -> str | None:
    """What is wrong with a row: a wrong kernel whose calls show nothing, a right one that the model contradicts."""
    shows = [kernel.show] if kernel.show else list(kernel.offer.calls)
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            differ = [not same(show(*kernel.functions().values()), show(*kernel.offer.functions.values())) for show in shows]
    except Exception:
        return traceback.format_exc()
    if kernel.wrong:
        return None if any(differ) else "its calls show nothing"
    return "the model answers otherwise" if any(differ) else None


def say(result: dict[str, object]) -> None:
    print(
        f"{result['id']:25}{result['operation']:34}{result['axis']:13}{result['verdict']:8}{result['seconds']:6} s  {'; '.join(map(str, result['failing'][:3]))}",
        flush=True,
    )  # type: ignore[index]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="*")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--selftest", action="store_true")
    given = options.parse_args()
    chosen = [id_ for id_ in KERNELS if fnmatchcase(id_, given.only)]
    if given.selftest:
        faults = {id_: fault for id_ in chosen if (fault := prove(KERNELS[id_]))}
        print(*(f"{id_}: {fault}" for id_, fault in faults.items()), sep="\n")
        print(f"{len(chosen)} rows ({sum(KERNELS[id_].wrong for id_ in chosen)} wrong), {len(faults)} at fault")
        return bool(faults)
    KEPT.parent.mkdir(exist_ok=True)
    known = {r["id"]: r for r in map(json.loads, KEPT.read_text().splitlines())} if KEPT.exists() else {}
    for id_ in chosen:
        if id_ in known:
            say(known[id_])
    with ProcessPoolExecutor(given.jobs) as pool:
        for future in as_completed([pool.submit(judge, id_) for id_ in chosen if id_ not in known]):
            result = known[future.result()["id"]] = future.result()
            with KEPT.open("a") as file:
                file.write(json.dumps(result) + "\n")
            say(result)
    verdicts = Counter(known[id_]["verdict"] for id_ in chosen)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return bool(verdicts["ESCAPED"] + verdicts["ACCUSED"] + verdicts["FAILED"])


if __name__ == "__main__":
    raise SystemExit(main())
