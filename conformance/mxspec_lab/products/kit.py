"""What the kit of products finds, by cross-validation.

    python -m mxspec_lab.products.kit [--write]

Golden calls are chosen by half of the mutants and measured on the other half, 20 times. Writes reports/kits/products.json, and the table of docs/kits.md.
"""

from __future__ import annotations

import json
import random
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from mxspec_conformance.kits.choosing import order_blocks
from mxspec_conformance.kits.products import PAIRS, list_calls, write_products_file
from mxspec_conformance.kits.products_runtime import PATTERNS
from mxspec_conformance.scoring.products.score import find_product_kills
from mxspec_conformance.scoring.products.subjects import ALL, MOVED, list_subjects
from mxspec_conformance.scoring.subjects import Kind, Subject
from mxspec_lab.evidence.status import REPORTS, write_result
from mxspec_lab.kits import Matrix, find_matrix
from mxspec_vectors.files import write_file

SCHEMA = "mxspec-product-kits/1"
#: Pairs that all mutants are moved to; the others are asked about their own.
SCOPES = ("mxfp4@mxfp4", "mxfp8_e4m3@mxfp4", "nvfp4@nvfp4")
SIZES = (4, 8, 16, 40)
SPLITS, SEED = 20, 15
PAGE = REPORTS.parent / "docs" / "kits.md"
_MARKS = re.compile(r"(?<=<!-- products -->\n).*?(?=<!-- end -->)", re.DOTALL)


def _find(subject: Subject) -> Any:
    warnings.simplefilter("ignore")
    return find_product_kills(subject)


def cross_validate(matrix: Matrix, splits: int = SPLITS, seed: int = SEED) -> dict[str, Any]:
    """Size -> shares of the mutants that were not looked at which calls chosen by the others find, over the splits.

    Mutants are those that some golden call finds. `with_patterns`: the largest size with all patterns, of all mutants that anything finds.
    """
    ids = sorted(name for name, kills in matrix.items() if kills.all)
    chance = random.Random(seed)
    shares: dict[str, list[float]] = {name: [] for name in (*map(str, SIZES), "with_patterns")}
    for _ in range(splits):
        looked = set(chance.sample(ids, len(ids) // 2))
        order = order_blocks([matrix[n].blocks for n in looked if matrix[n].blocks], max(SIZES))
        others = [matrix[n] for n in ids if n not in looked]
        visible = [k for k in others if k.blocks]
        for size in SIZES:
            prefix = set(order[:size])
            shares[str(size)].append(sum(bool(prefix & k.blocks) for k in visible) / len(visible))
        shares["with_patterns"].append(sum(bool(k.calls or set(order) & k.blocks) for k in others) / len(others))
    return {n: {"mean": round(mean(s), 4), "worst": round(min(s), 4), "best": round(max(s), 4)} for n, s in shares.items()}


def measure(scope: str) -> dict[str, Any]:
    """What the golden calls and patterns of a scope find, and which right kernels they reject."""
    subjects = [s for s in list_subjects(scope) if s.format in PAIRS and s.kind is not Kind.CONTROL]
    matrix = find_matrix(subjects, _find)
    wrong = {s: matrix[s.name] for s in subjects if s.kind is Kind.MUTANT}
    own = {s: k for s, k in wrong.items() if MOVED not in s.what}
    right = {s: matrix[s.name] for s in subjects if s.kind is Kind.RIGHT}
    found = {s.name: k for s, k in wrong.items() if k.all}
    return {
        "scope": scope, "mutants": len(wrong), "found": len(found), "by_calls": sum(bool(k.blocks) for k in wrong.values()),
        "own": len(own), "own_found": sum(bool(k.all) for k in own.values()), "right": len(right), "right_rejected": sum(bool(k.all) for k in right.values()),
        "cross_validation": cross_validate(found), "survive": sorted(s.id for s, k in own.items() if not k.all),
        "not_found_elsewhere": sorted(s.id for s, k in wrong.items() if not k.all and MOVED in s.what),
        "rejected": sorted(s.id for s, k in right.items() if k.all),
    }  # fmt: skip


def make_table(document: Mapping[str, Any]) -> str:
    """The table of docs/kits.md."""
    lines = [
        "| products | mutants | 4 calls | 8 | 16 | all calls | all calls and the patterns | own mutants found | right ones rejected |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in document["scopes"]:
        shares = [f"{100 * v['mean']:.0f} % ({100 * v['worst']:.0f} %)" for v in row["cross_validation"].values()]
        name = "each by its own pair" if row["scope"] == ALL else row["scope"]
        cells = [name, str(row["found"]), *shares, f"{row['own_found']} of {row['own']}", f"{row['right_rejected']} of {row['right']}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write."""
    scopes = []
    for scope in (ALL, *SCOPES):
        scopes.append(measure(scope))
        print(json.dumps(scopes[-1]), file=sys.stderr, flush=True)
    text = write_products_file(
        {pair: [c["i"] for c in list_calls(pair)[1]] for pair in PAIRS}, tuple(PATTERNS), name="test_mx_products.py", title="", about=""
    )
    document = {
        "schema": SCHEMA, "splits": SPLITS, "seed": SEED, "sizes": list(SIZES), "patterns": list(PATTERNS), "pairs": list(PAIRS), "bytes": len(text), "scopes": scopes,
    }  # fmt: skip
    print(make_table(document))
    if "--write" in arguments:
        write_result(REPORTS / "kits" / "products.json", document)
        write_file(PAGE, _MARKS.sub(lambda _: f"{make_table(document)}\n", PAGE.read_text("utf-8")).encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
