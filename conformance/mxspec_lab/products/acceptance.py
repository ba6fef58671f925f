"""Common acceptance rules of matrix products, applied to wrong and to right kernels.

python -m mxspec_lab.products.acceptance [--json reports/mutants/acceptance.json] [--page reports/acceptance.md]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mxspec_conformance.scoring.products.rules import (
    PRODUCT_RULES as RULES,
    SEED,
    SHAPE,
    Trial,
    cosine,
    make_operand,
    make_references,
    relative,
)
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_lab.evidence.status import REPORTS, write_result
from mxspec_lab.products.kernels import Kernel
from mxspec_lab.products.right import RIGHT
from mxspec_lab.products.wrong import list_wrong
from mxspec_vectors.files import write_file

SCHEMA = "mxspec-product-acceptance/1"
MATRIX = REPORTS / "mutants" / "products.json"


def ask(kernel: Kernel) -> Trial:
    """One call of a kernel, without an epilogue."""
    a, b = (hand_over(make_operand(side, text)) for side, text in enumerate(kernel.product))
    with np.errstate(all="ignore"):
        returned = np.asarray(kernel.matmul(a, b, kernel.out_dtypes[0])).astype(np.float64)
    return Trial(returned, *make_references(kernel.product))


def describe(kernel: Kernel) -> dict[str, Any]:
    """What the rules say of a kernel."""
    trial = ask(kernel)
    right = ask(Kernel(name="right", product=kernel.product, out_dtypes=kernel.out_dtypes))
    return {
        "kernel": kernel.name, "product": " @ ".join(text.partition("/")[0] for text in kernel.product),
        "same": bool(np.array_equal(trial.returned, right.returned, equal_nan=True)),
        "cosine_unquantized": _digits(cosine(trial.returned, trial.unquantized)),
        "cosine_exact": _digits(cosine(trial.returned, trial.exact)),
        "relative": _digits(relative(trial.returned, trial.exact)),
        "passes": [rule.id for rule in RULES if rule.accepts(trial)],
    }  # fmt: skip


def _digits(x: float) -> float | None:
    return float(f"{x:.5g}") if np.isfinite(x) else None


def count(wrong: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For each rule the wrong kernels that pass, of all and of those whose outputs differ, and the right ones that fail."""
    seen = [row for row in wrong if not row["same"]]
    return {
        "wrong": len(wrong), "different": len(seen), "right": len(right),
        "rules": {
            rule.id: {
                "wrong_pass": sum(rule.id in row["passes"] for row in wrong),
                "different_pass": sum(rule.id in row["passes"] for row in seen),
                "right_fail": sum(rule.id not in row["passes"] for row in right),
            }
            for rule in RULES
        },
    }  # fmt: skip


def count_judge(wrong: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The same of `mxspec check`, by the committed kill matrix."""
    matrix = json.loads(MATRIX.read_text("ascii"))
    missed = {row["kernel"] for row in matrix["wrong"] if not row["topics"]}
    return {
        "wrong_pass": len(missed),
        "different_pass": sum(row["kernel"] in missed for row in wrong if not row["same"]),
        "right_fail": matrix["counts"]["accused"],
    }


def make_document() -> dict[str, Any]:
    """What is published."""
    started = time.process_time()
    wrong, right = ([describe(kernel) for kernel in kernels] for kernels in (list_wrong(), RIGHT))
    return {
        "schema": SCHEMA,
        "shape": list(SHAPE),
        "seed": SEED,
        "rules": [{"id": r.id, "text": r.text, "source": r.source} for r in RULES],
        "counts": count(wrong, right) | {"judge": count_judge(wrong)},
        "seconds": round(time.process_time() - started, 1),
        "wrong": wrong,
        "right": right,
    }


#: Wrong kernels that the page shows.
SHOWN = (
    "last block dropped, b", "last k dropped, a", "next block's scale, b", "scale of two blocks shared, b", "nibbles swapped, b",
    "smallest subnormal flushed, b", "linear e2m1, b", "scale FF is infinite", "float16 additions, not declared",
    "bfloat16 additions, not declared", "13 bits below the largest exponent, not declared", "block sums in float16", "tensor scales in bfloat16",
    "no tensor scale",
)  # fmt: skip


def render_tables(document: Mapping[str, Any]) -> str:
    """The tables of reports/acceptance.md."""
    counts, ids = document["counts"], [rule["id"] for rule in document["rules"]]
    lines = [
        f"| rule | where from | wrong kernels that pass, of {counts['wrong']} | of the {counts['different']} whose outputs differ here | "
        f"right kernels that fail, of {counts['right']} |",
        "|---|---|---:|---:|---:|",
    ]
    for rule in document["rules"]:
        found = counts["rules"][rule["id"]]
        lines.append(f"| {rule['text']} | {rule['source']} | {found['wrong_pass']} | {found['different_pass']} | {found['right_fail']} |")
    judge = counts["judge"]
    lines.append(
        "| `mxspec check` | [kill matrix](../reports/mutants/products.md) | "
        f"{judge['wrong_pass']} | {judge['different_pass']} | {judge['right_fail']} |"
    )
    lines += [
        "",
        "Right kernels, one for each pair of formats:",
        "",
        "| product | cosine to the unquantized product | passes 0.99 |",
        "|---|---:|---|",
    ]
    known: dict[str, Mapping[str, Any]] = {}
    for row in document["right"]:
        known.setdefault(row["product"], row)
    for product, row in known.items():
        lines.append(f"| {product} | {row['cosine_unquantized']:.4f} | {'yes' if ids[0] in row['passes'] else '**no**'} |")
    lines += [
        "", "Some wrong ones:", "",
        "| kernel | product | cosine to the unquantized product | to the product of the operands | relative error | passes |",
        "|---|---|---:|---:|---:|---|",
    ]  # fmt: skip
    rows = {row["kernel"]: row for row in document["wrong"]}
    for name in SHOWN:
        row = rows[name]
        numbers = " | ".join("-" if row[key] is None else f"{row[key]:.5g}" for key in ("cosine_unquantized", "cosine_exact", "relative"))
        passed = "all" if row["passes"] == ids else ", ".join(row["passes"]) or "none"
        lines.append(f"| {name}{' (same outputs here)' if row['same'] else ''} | {row['product']} | {numbers} | {passed} |")
    return "\n".join(lines) + "\n"


_MARKS = re.compile(r"(?<=<!-- numbers -->\n).*?(?=<!-- end -->)", re.DOTALL)


def main(arguments: list[str] | None = None) -> int:
    """Print the counts, and write them, and the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    document = make_document()
    print(json.dumps(document["counts"]))
    if given.json:
        write_result(given.json, document)
    if given.page:
        text = given.page.read_text("utf-8")
        write_file(given.page, _MARKS.sub(lambda _: render_tables(document), text).encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
