"""How long an exact product takes, and for how many of its outputs every accumulation gives one result.

python -m mxspec_lab.products.exact [--size 4096] [--json reports/bench/exact-products.json] [--page docs/products.md]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mxspec
from mxspec import dot
from mxspec.dot import ACCUMULATORS, Factor
from mxspec_lab.evidence.status import REPORTS, stamp
from mxspec_vectors.files import write_file

SCHEMA = "mxspec-exact-products/1"
FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")
#: Classes of which the share of certain outputs is given; all other fused ones lie between.
CLASSES = ("float32", "fused-f25-16", "fused-f13-32", "float16")
SEED = 4096


def draw_side(fmt: str, size: int, seed: int) -> Factor:
    """A square side of N(0, 1), quantized by the format's default profile."""
    x = np.random.default_rng(seed).standard_normal((size, size), np.float32)
    t = mxspec.quantize(x, fmt)
    return dot.block_factor(t.codes, t.scales, fmt)


def measure(fmt: str, size: int) -> dict[str, Any]:
    """One format's row; seconds are of a clock on the wall."""
    a, b = draw_side(fmt, size, SEED), draw_side(fmt, size, SEED + 1)
    started = time.perf_counter()
    sums = dot.sum_products(a, b)
    seconds = time.perf_counter() - started
    certain = {name: round(float(ACCUMULATORS[name].decides(sums).mean()), 6) for name in CLASSES}
    return {
        "format": fmt, "seconds": round(seconds, 2), "float64": round(float(sums.fits(53).mean()), 6), "exact": bool((sums.remainder == 0).all()),
        "certain": certain,
    }  # fmt: skip


def measure_baseline(size: int) -> float:
    """Seconds of one float64 product of that size."""
    draw = np.random.default_rng(SEED)
    a, b = draw.standard_normal((size, size)), draw.standard_normal((size, size))
    a[:64] @ b
    started = time.perf_counter()
    a @ b
    return time.perf_counter() - started


def list_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The page's table."""
    base = document["float64_product_seconds"]
    yield (
        "| format | seconds | of a float64 product | decided by float64 alone | one result in every order: "
        + " | ".join(f"`{c}`" for c in CLASSES)
        + " |"
    )
    yield "|---|---:|---:|---:|" + "---:|" * len(CLASSES)
    for row in document["rows"]:
        shares = " | ".join(f"{100 * row['certain'][c]:.4g} %" for c in CLASSES)
        yield f"| {row['format']} | {row['seconds']:.1f} | {row['seconds'] / base:.1f} | {100 * row['float64']:.4g} % | {shares} |"


def main(arguments: Sequence[str]) -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    rows = []
    baseline = measure_baseline(given.size)
    for fmt in FORMATS:
        rows.append(measure(fmt, given.size))
        print(rows[-1], file=sys.stderr, flush=True)
    document = {
        "schema": SCHEMA, "size": given.size, "cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version(),
        "numpy": np.__version__, "mxspec": mxspec.__version__, "float64_product_seconds": round(baseline, 2), "rows": rows,
    }  # fmt: skip
    if given.json is not None:
        write_file(given.json, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        if given.json.resolve().is_relative_to(REPORTS):
            stamp(given.json)
    table = "\n".join(list_lines(document))
    if given.page is not None:
        text = given.page.read_text("utf-8")
        head = re.escape(table.partition("\n")[0])
        text = re.sub(rf"^{head}\n(\|.*\n)*", table + "\n", text, flags=re.MULTILINE)
        write_file(given.page, text.encode("utf-8"))
    print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
