"""mmaemu's FP8 sums against the fused classes, output by output. Its bits are those that its authors recorded on an H100 PCIe and an RTX 4060.

    python -m tests.peers.products_mmaemu [--json reports/sums/mmaemu.json]

Needs mmaemu and torch; no GPU. Sums of one run of k are compared bit for bit, split-k ones also with the runs' sums, added in float32.
With scales, and in every output dtype, each output has to be legal in its class. Exit code 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot.rounding import add_to_odd, round_floats
from mxspec.formats import FLOAT32
from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_lab.evidence.status import stamp
from mxspec_vectors.writing import write_file

Array = npt.NDArray[Any]
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
PAIRS = ((E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2))
#: Class, mmaemu's profile, use_fast_accum. The last one promotes on Ada: a class that mxspec has under no name.
CLASSES = (
    (dot.ACCUMULATORS["fused-f13-32"], "hopper", True),
    (dot.ACCUMULATORS["fused-f13-32-promoted-128"], "hopper", False),
    (dot.ACCUMULATORS["fused-f13-16"], "ada", True),
    (replace(dot.ACCUMULATORS["fused-f13-16"], name="fused-f13-16, promoted every 128", promoted=128), "ada", False),
)
#: Ends of runs of 16, 32, 128, and next to them.
LENGTHS = (16, 112, 128, 144, 256, 272, 400)


def list_numbers(dtype: np.dtype[Any]) -> Array:
    """Every finite number of a dtype, both zeros among them."""
    numbers = np.arange(256).astype(np.uint8).view(dtype)
    return numbers[np.isfinite(numbers.astype(np.float32))]


def list_designs(a: np.dtype[Any], b: np.dtype[Any]) -> Iterator[tuple[str, Array, Array]]:
    """Name, operand a [m, k], operand b [n, k]."""
    x, y = list_numbers(a), list_numbers(b)
    for place, last in product((1, 16, 32, 128), (False, True)):
        left, right = np.zeros((len(x) // 2, 144), a), np.zeros((len(y), 144), b)
        left[:, 0], right[:, 0] = x.max(), y.max()
        left[:, place], right[:, place] = x[: len(x) // 2], y  # those of a without a sign
        if last:  # what was cut does not come back
            left[:, 143], right[:, 143] = -left[:, 0], right[:, 0]
        yield f"every pair of numbers after the largest product{', whose negative follows' if last else ''}", left, right
    draw = np.random.default_rng(5)
    for k in LENGTHS:
        few = [v[np.abs(v.astype(np.float64)) < least] for v, least in ((x, 2.0**-6), (y, 2.0**-14 if b == E5M2 else 2.0**-6))]
        left, right = draw.choice(x, (64, k)), draw.choice(y, (64, k))
        yield "random codes", left, right
        yield "random codes, half of them zeros", *(np.where(draw.random(v.shape) < 0.5, v.dtype.type(0), v) for v in (left, right))
        yield "subnormals and zeros", draw.choice(few[0], (64, k)), draw.choice(few[1], (64, k))
        yield "normal", *(draw.standard_normal((64, k)).astype(np.float32).astype(t) for t in (a, b))
        order = draw.permutation(k)
        yield (
            "sums that cancel", np.concatenate([left[:, : k // 2], -left[:, : k // 2]], axis=1)[:, order],
            np.concatenate([right[:, : k // 2]] * 2, axis=1)[:, order],
        )  # fmt: skip


def accumulate(a: Array, b: Array, profile: str, fast: bool, split: Any = 1) -> Array:
    """mmaemu's float32 sums."""
    import mmaemu

    found = mmaemu.accumulate(to_torch(a), to_torch(b), use_fast_accum=fast, profile=profile, splitk=split, backend="reference")
    return from_torch(found).astype(np.float64)


def simulate(a: Array, b: Array, unit: dot.Accumulator) -> Array:
    """The same sums by the class."""
    return dot.simulate_product(dot.plain_factor(a), dot.plain_factor(b), unit)


def find_illegal(returned: Array, sums: dot.Sums, unit: dot.Accumulator, dtype: str = "float32", alpha: float = 1.0) -> int:
    """Outputs that the class does not allow."""
    allowed = dot.allow_outputs(sums, unit, dtype, epilogue=dot.Epilogue(alpha=alpha))
    return int((~allowed.accepts(returned)).sum())


def compare_split(a: Array, b: Array, unit: dot.Accumulator, profile: str, fast: bool) -> Iterator[tuple[str, int]]:
    """Of Hopper in parts of whole tiles of 128, the last ones shorter or empty: bits; of both chips: what is not legal."""
    k, sums = a.shape[1], dot.sum_products(dot.plain_factor(a), dot.plain_factor(b))
    for parts in (2, 3, 4, 7):
        for scheme in ("contiguous",) if profile == "hopper" else ("serial", "pairwise"):
            found = accumulate(a, b, profile, fast, (parts, scheme))
            yield "split-k: not legal in the class", find_illegal(found, sums, unit)
            if scheme == "contiguous":
                tiles, total = -(-k // 128), np.zeros(found.shape)
                run = -(-tiles // parts) * 128
                for start in range(0, k, run):
                    part = simulate(a[:, start : start + run], b[:, start : start + run], unit)
                    total = round_floats(add_to_odd(total, part), FLOAT32)
                yield "split-k: runs' sums, added in float32", int((found != total).sum())


def compare_outputs(a: Array, b: Array, unit: dot.Accumulator, profile: str, fast: bool) -> Iterator[tuple[str, int]]:
    """Scales that are powers of two and others; outputs that overflow, or are subnormal, among them."""
    import mmaemu
    import torch

    sums = dot.sum_products(dot.plain_factor(a), dot.plain_factor(b))
    for alpha, dtype in product((1.0, 2.0**-30, 2.0**12, 1 / 3, 3e-6), ("float32", "bfloat16", "float16")):
        scales = (torch.tensor(s, dtype=torch.float32) for s in (alpha, 1.0))
        y = mmaemu.scaled_mm(
            to_torch(a), to_torch(b).T, *scales, out_dtype=getattr(torch, dtype), use_fast_accum=fast, profile=profile, splitk=1, backend="reference"
        )  # fmt: skip
        yield "scaled outputs: not legal in the class", find_illegal(from_torch(y), sums, unit, dtype, alpha)


def compare() -> list[dict[str, Any]]:
    """A row for each class and design: outputs compared, and how many differ."""
    rows: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for unit, profile, fast in CLASSES:

        def note(what: str, compared: int, differ: int, name: str = unit.name) -> None:
            rows[name, what][0] += compared
            rows[name, what][1] += differ

        for left, right in PAIRS:
            for what, a, b in list_designs(left, right):
                note(what, len(a) * len(b), int((accumulate(a, b, profile, fast) != simulate(a, b, unit)).sum()))
                if what in ("random codes", "normal"):
                    others = (*compare_outputs(a, b, unit, profile, fast), *compare_split(a, b, unit, profile, fast))
                    for other, differ in others:
                        note(other, len(a) * len(b), differ)
    return [{"class": name, "operands": what, "compared": all_, "differ": differ} for (name, what), (all_, differ) in rows.items()]


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 where a bit differs or an output is not legal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    rows = compare()
    versions = {name: version(name) for name in ("mmaemu", "torch", "numpy")} | {"python": platform.python_version()}
    for row in rows:
        print(f"{row['differ']:>7} of {row['compared']:>9} differ: {row['class']}: {row['operands']}")
    if given.json:
        document = {"schema": "mxspec-products-mmaemu/1", "versions": versions, "comparisons": rows}
        write_file(given.json, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(given.json)
    return int(any(row["differ"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
