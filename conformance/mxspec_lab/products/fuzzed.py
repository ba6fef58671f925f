"""How many random products `mxspec fuzz` needs to find each wrong kernel, and that it accuses no right one.

    python -m mxspec_lab.products.fuzzed [--seeds 1 2 3 4 5] [--out reports/fuzz/products.json]

Ends with 1 where a wrong kernel is not found, or a right one is accused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mxspec_conformance.fuzzing.products.batch import run_product_batch
from mxspec_conformance.fuzzing.products.job import PRODUCTS, ProductJob
from mxspec_conformance.fuzzing.products.report import plan_products
from mxspec_conformance.results.environment import describe_environment
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.products.kernels import Kernel, KernelTarget
from mxspec_lab.products.right import RIGHT
from mxspec_lab.products.wrong import list_wrong
from mxspec_vectors.files import write_file

#: Batches within which a wrong kernel has to be found, and in which a right one is not accused.
LIMIT, QUIET = 60, 12
#: Numbers of draws for which the share that was found is told.
SHARES = (16, 32, 64, 160, 320, LIMIT * PRODUCTS)


def plan(kernel: Kernel) -> ProductJob:
    """The job of a kernel, as `mxspec fuzz` plans it."""
    session = open_target(KernelTarget(kernel))
    (job,) = plan_products(
        session, session, names=(), formats=(), accumulator=None, seed=0, timeout=60.0, in_process=True, progress=lambda _: None
    )  # fmt: skip
    return job


def count_draws(job: ProductJob, batches: int) -> int | None:
    """Products drawn until the first wrong one; None where none was.

    Raises RuntimeError where a call had no answer.
    """
    drawn = 0
    for number in range(batches):
        result = run_product_batch(job, number)
        if result["no_answers"]:
            raise RuntimeError(f"{job.fmt}: {next(iter(result['no_answers']))}")
        if result["wrong"]:
            return drawn + int(result["wrong"][0]) + 1
        drawn += int(result["products"])
    return None


def measure(kernels: Sequence[Kernel], seeds: Sequence[int], batches: int) -> dict[str, list[int | None]]:
    """For each kernel and seed the draws until it is found; kernels of one name are told apart by their place."""
    found: dict[str, list[int | None]] = {}
    for place, kernel in enumerate(kernels):
        job = plan(kernel)
        found[f"{place} {kernel.name}"] = [count_draws(replace(job, seed=seed), batches) for seed in seeds]
        print(f"{place} {kernel.name}: {found[f'{place} {kernel.name}']}", flush=True)
    return found


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--out", type=Path, default=Path("reports/fuzz/products.json"))
    arguments = parser.parse_args()
    np.seterr(all="ignore")
    wrong = measure(list_wrong(), arguments.seeds, LIMIT)
    right = measure(RIGHT, arguments.seeds, QUIET)
    runs = [n for draws in wrong.values() for n in draws]
    accused = sum(n is not None for draws in right.values() for n in draws)
    document: dict[str, Any] = {
        "command": f"python -m mxspec_lab.products.fuzzed --seeds {' '.join(map(str, arguments.seeds))}",
        "products_of_a_batch": PRODUCTS,
        "found_within": {str(n): sum(x is not None and x <= n for x in runs) for n in SHARES},
        "runs": len(runs),
        "right_runs": sum(map(len, right.values())),
        "right_products": QUIET * PRODUCTS * sum(map(len, right.values())),
        "right_accused": accused,
        "wrong": wrong,
        "environment": describe_environment(),
    }
    write_file(arguments.out, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    return 1 if accused or None in runs else 0


if __name__ == "__main__":
    sys.exit(main())
