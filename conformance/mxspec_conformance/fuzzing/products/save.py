"""Wrong products as a file that replays, and that `mxspec explain` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mxspec.dot import get_accumulator
from mxspec_conformance.fuzzing.products.findings import ProductFinding
from mxspec_conformance.fuzzing.replay import Replayed
from mxspec_conformance.judge.products.judging import ask_case
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.judge.products.stored import read_product, store_product
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import NotJson, UnreadableFile, read_json

SCHEMA = "mxspec-product-cases/1"


def save_products(folder: Path, findings: Sequence[ProductFinding]) -> list[Path]:
    """Write the products of each format into a file of its own; operands that are too large are left out."""
    written = []
    for fmt in dict.fromkeys(f.job.fmt for f in findings):
        stored = [store_product(f.stored) for f in findings if f.job.fmt == fmt]
        kept = [s for s in stored if s is not None]
        if kept:
            path = folder / f"matmul-{fmt.replace('#', '-')}.json"
            write_file(path, (json.dumps({"schema": SCHEMA, "products": kept}, indent=1) + "\n").encode("ascii"))
            written.append(path)
    return written


def is_products(path: Path) -> bool:
    """Whether a file is one of products; what cannot be read is said by whoever reads it as something else."""
    try:
        document = read_json(path)
    except (NotJson, UnreadableFile, OSError):
        return False
    return isinstance(document, dict) and document.get("schema") == SCHEMA


def replay_products(path: Path, session: TargetSession) -> list[Replayed]:
    """Every product of a file, asked again.

    Raises ValueError where a product is none.
    """
    document = read_json(path)
    products = document.get("products")
    if not isinstance(products, list):
        raise ValueError(f"{path} has no list of products")
    results = []
    for number, one in enumerate(products):
        stored = read_product(one, f"{path.name}: product {number}")
        answer = ask_case(session, stored.case)
        if isinstance(answer, NoAnswer):
            results.append(Replayed(stored.case.label, answer.kind, answer.message))
            continue
        with np.errstate(all="ignore"):
            allowed = allow(refer_case(stored.case, stored.contract), stored.case, get_accumulator(stored.accumulator))
            wrong = int((~allowed.accepts(answer)).sum())
        words = f"{wrong} of {answer.size} outputs" if wrong else ""
        results.append(Replayed(stored.case.label, "differs" if wrong else "right", words))
    return results
