"""How many random products `mxspec fuzz` needs to find each wrong kernel, and that it accuses no right one.

    python -m mxspec_lab.products.fuzzed [--seeds 1 2] [--out reports/fuzz/products.json] [--state FILE] [--restart]

Kernels of block formats and floats, and kernels with an affine or sparse side. Ctrl-C ends it; the same command goes on from the state
file, which holds what is finished. Ends with 1 where a right kernel is accused, or a wrong one is not found that is wrong in more than
one narrow condition: random products meet such a condition seldom, and the judge's own cases are for it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mxspec_conformance.campaign import WorkItem, open_state, open_workers, run_work_items
from mxspec_conformance.campaign.state import StateError
from mxspec_conformance.fuzzing.products.batch import settle_batches
from mxspec_conformance.fuzzing.products.job import PRODUCTS, ProductJob
from mxspec_conformance.fuzzing.products.subject import plan_products
from mxspec_conformance.fuzzing.run import run_batch
from mxspec_conformance.fuzzing.subject import Request, Settings
from mxspec_conformance.results.environment import describe_environment
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.evidence.status import write_result
from mxspec_lab.products.kernels import AnyKernel, KernelTarget
from mxspec_lab.products.kinds_right import RIGHT_KINDS
from mxspec_lab.products.kinds_wrong import NARROW_KINDS, WRONG_KINDS
from mxspec_lab.products.right import RIGHT
from mxspec_lab.products.wrong import NARROW, list_wrong

SCHEMA = "mxspec-fuzzed-products/2"
#: Batches within which wrong kernels are looked for, and in which right ones are not accused.
LIMIT, QUIET = 40, 6
#: Numbers of draws for which the share that was found is told.
SHARES = (16, 32, 64, 160, 320, LIMIT * PRODUCTS)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels that are counted together."""

    name: str
    kernels: Sequence[AnyKernel]
    #: Those of them that are wrong in one narrow condition.
    narrow: Sequence[AnyKernel] = ()
    is_right: bool = False

    @property
    def batches(self) -> int:
        """Batches of one seed."""
        return QUIET if self.is_right else LIMIT


def list_groups() -> tuple[Group, ...]:
    """All kernels."""
    return (
        Group("wrong", list_wrong(), NARROW),
        Group("wrong_kinds", WRONG_KINDS, NARROW_KINDS),
        Group("right", RIGHT, is_right=True),
        Group("right_kinds", RIGHT_KINDS, is_right=True),
    )


def plan(kernel: AnyKernel) -> ProductJob:
    """The job of a kernel, as `mxspec fuzz` plans it."""
    session = open_target(KernelTarget(kernel))
    (job,) = plan_products(Request(session, session, Settings()))
    return job


def count_draws(job: ProductJob, batches: int) -> int | None:
    """Products drawn until the first that no contract allows; None where there was none.

    Raises RuntimeError where a call had no answer.
    """
    drawn, results = 0, []
    for number in range(batches):
        result = run_batch(job, number)
        if result["no_answers"]:
            raise RuntimeError(f"{job.fmt}: {next(iter(result['no_answers']))}")
        results.append(result)
        _, settled = settle_batches(job, results)
        if any(r["wrong"] for r in settled):
            return drawn + int((result["wrong"] or [place for place, _, _ in result["doubtful"]])[0]) + 1
        drawn += int(result["products"])
    return None


def measure(group: str, place: int, seeds: Sequence[int]) -> Row:
    """For one kernel the draws of each seed until it is found."""
    (chosen,) = (g for g in list_groups() if g.name == group)
    started = time.perf_counter()
    with np.errstate(all="ignore"):
        job = plan(chosen.kernels[place])
        draws = [count_draws(replace(job, seed=seed), chosen.batches) for seed in seeds]
    return {"draws": draws, "seconds": round(time.perf_counter() - started, 1)}


def list_items(seeds: Sequence[int]) -> Iterator[WorkItem]:
    """One piece of work for each kernel."""
    for group in list_groups():
        yield from (WorkItem(f"{group.name}/{place:03d}", (group.name, place, tuple(seeds))) for place in range(len(group.kernels)))


def make_document(seeds: Sequence[int], finished: Mapping[str, Row]) -> dict[str, Any]:
    """What is published, of all pieces of work."""
    rows: dict[str, list[Row]] = {}
    for group in list_groups():
        narrow = {id(kernel) for kernel in group.narrow}
        rows[group.name] = [
            {
                "kernel": kernel.name, "product": " @ ".join(kernel.product), "narrow": id(kernel) in narrow,
                "draws": finished[f"{group.name}/{place:03d}"]["draws"],
            }
            for place, kernel in enumerate(group.kernels)
        ]  # fmt: skip
    counts = {group.name: (count_accused if group.is_right else count_found)(rows[group.name]) for group in list_groups()}
    return {
        "schema": SCHEMA,
        "command": f"python -m mxspec_lab.products.fuzzed --seeds {' '.join(map(str, seeds))}",
        "seeds": list(seeds),
        "products_of_a_batch": PRODUCTS,
        "batches": {"wrong": LIMIT, "right": QUIET},
        "counts": counts,
        "seconds": round(sum(row["seconds"] for row in finished.values()), 1),
        "environment": describe_environment(),
        **rows,
    }


def count_accused(rows: Sequence[Row]) -> dict[str, Any]:
    """How many right kernels were asked how many products, and how many were accused."""
    runs = sum(len(r["draws"]) for r in rows)
    accused = sum(any(n is not None for n in r["draws"]) for r in rows)
    return {"kernels": len(rows), "runs": runs, "products": runs * QUIET * PRODUCTS, "accused": accused}


def count_found(rows: Sequence[Row]) -> dict[str, Any]:
    """How many wrong kernels were found, by any seed and by every one, and within how many draws.

    narrow: those that are wrong in one narrow condition, which the other counts leave out.
    """
    broad, narrow = ([r for r in rows if r["narrow"] is wanted] for wanted in (False, True))
    runs = [n for r in broad for n in r["draws"]]
    return {
        "kernels": len(broad), "found": sum(any(n is not None for n in r["draws"]) for r in broad),
        "found_by_every_seed": sum(all(n is not None for n in r["draws"]) for r in broad),
        "narrow": len(narrow), "narrow_found": sum(any(n is not None for n in r["draws"]) for r in narrow),
        "runs": len(runs), "runs_found_within": {str(most): sum(n is not None and n <= most for n in runs) for most in SHARES},
    }  # fmt: skip


def is_as_wanted(counts: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether each wrong kernel that is not narrow is found by every seed, and no right one is accused."""
    missed = any(counts[g.name]["found_by_every_seed"] < counts[g.name]["kernels"] for g in list_groups() if not g.is_right)
    return not missed and not any(counts[g.name]["accused"] for g in list_groups() if g.is_right)


def main(arguments: list[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="seeds of the draws")
    parser.add_argument("--out", type=Path, default=Path("reports/fuzz/products.json"), help="the result")
    parser.add_argument("--state", type=Path, default=Path("build/fuzzed-products.state"), help="what is finished, to go on from")
    parser.add_argument("--restart", action="store_true", help="ignore what the state file holds")
    given = parser.parse_args(arguments)
    items = list(list_items(given.seeds))
    names = {key: (group, place) for key, (group, place, _) in ((item.key, item.arguments) for item in items)}
    kernels = {group.name: group.kernels for group in list_groups()}
    identity = {"command": "fuzzed products", "seeds": given.seeds, "batches": [LIMIT, QUIET], "kernels": len(items)}
    given.state.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        with open_state(given.state, identity, fresh=given.restart) as state, open_workers(1, None, None) as workers:
            before = len(state.finished)

            def tell(key: str, row: Row) -> bool:
                group, place = names[key]
                done, left = len(state.finished), len(items) - len(state.finished)
                rest = (time.monotonic() - started) / max(done - before, 1) * left / 60
                found = ", ".join("-" if n is None else str(n) for n in row["draws"])
                print(f"{done} of {len(items)}, {rest:.0f} min left: {group}, {kernels[group][place].name}: {found}", flush=True)
                return True

            outcome = run_work_items(items, measure, state, workers, on_result=tell)
            finished = dict(state.finished)
    except StateError as error:
        print(error, file=sys.stderr)
        return 2
    for key, why in outcome.lost.items():
        print(f"{key}: {why}", file=sys.stderr)
    if len(finished) < len(items):
        print(f"{len(finished)} of {len(items)} kernels are done; the same command goes on from {given.state}", file=sys.stderr)
        return 130 if outcome.stopped == "interrupt" else 1
    document = make_document(given.seeds, finished)
    write_result(given.out, document)
    for name, counted in document["counts"].items():
        print(f"{name}: {', '.join(f'{what} {n}' for what, n in counted.items() if isinstance(n, int))}")
    return 0 if is_as_wanted(document["counts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
