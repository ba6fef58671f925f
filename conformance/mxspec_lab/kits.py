"""Choose the blocks of kits, and measure by cross-validation what they find: `python -m mxspec_lab.kits`.

Writes the choice (`mxspec_conformance/kits/chosen.json`, which the wheel has) and `reports/kits/cross-validation.json`.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from mxspec_conformance.kits.choosing import CHOSEN, SCHEMA, SIZES, order_blocks
from mxspec_conformance.kits.golden import Kills, Kit, find_kills, list_blocks, select
from mxspec_conformance.mutants import list_mutants
from mxspec_conformance.scoring.subjects import Subject, list_controls, list_independent, list_mutant_subjects, list_right
from mxspec_vectors.files import vector_digest, write_file

FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")
SPLITS, SEED = 20, 15
REPORT = Path(__file__).resolve().parents[2] / "reports" / "kits" / "cross-validation.json"

#: Subject's name -> what finds it out among all blocks and calls.
Matrix = dict[str, Kills]


def _kills_of(subject: Subject) -> Kills:
    warnings.simplefilter("ignore")
    return find_kills(subject.build, Kit(subject.format, list_blocks(subject.format)), subject.profile)


def _kills_by(size: int, order: Sequence[str], subject: Subject) -> Kills:
    warnings.simplefilter("ignore")
    return find_kills(subject.build, Kit(subject.format, select(subject.format, order[:size])), subject.profile)


def find_matrix(subjects: Sequence[Subject], find: Callable[[Subject], Kills] = _kills_of) -> Matrix:
    """What finds each subject out."""
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(mp_context=fork) as pool:
        return dict(zip((s.name for s in subjects), pool.map(find, subjects, chunksize=8), strict=True))


def cross_validate(matrix: Mapping[str, Kills], splits: int = SPLITS, seed: int = SEED) -> dict[str, Any]:
    """Size -> shares of the mutants that were not looked at which a choice by the others finds, over the splits.

    Mutants are those that some block finds; their ids are split, so that no variant of one is on the other side.
    """
    names = sorted(name for name, kills in matrix.items() if kills.blocks or kills.open_blocks)
    ids = sorted({name.rpartition("/")[2] for name in names})
    chance = random.Random(seed)
    shares: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(splits):
        chosen_on = set(chance.sample(ids, len(ids) // 2))
        looked = {n: matrix[n] for n in names if n.rpartition("/")[2] in chosen_on}
        others = [matrix[n] for n in names if n.rpartition("/")[2] not in chosen_on]
        order = order_blocks([k.blocks | k.open_blocks for k in looked.values()], max(SIZES))
        for size in SIZES:
            prefix = set(order[:size])
            shares[size].append(sum(bool(prefix & (k.blocks | k.open_blocks)) for k in others) / len(others))
    return {
        str(size): {"mean": round(mean(s), 4), "worst": round(min(s), 4), "best": round(max(s), 4)} for size, s in shares.items()
    } | {"mutants": len(names)}  # fmt: skip


def measure(fmt: str) -> tuple[list[str], dict[str, Any]]:
    """The order of a format's blocks, and what its kits find."""
    subjects = [s for s in list_mutant_subjects(fmt) if s.operation == "quantize"]
    independent = [s for s in list_independent(fmt) if s.operation == "quantize"]
    right_ones = [*list_controls(fmt), *list_right(fmt)]
    matrix = find_matrix(subjects)
    order = order_blocks([k.blocks | k.open_blocks for k in matrix.values() if k.blocks or k.open_blocks], max(SIZES))
    entry: dict[str, Any] = {"format": fmt, "candidates": len(list_blocks(fmt)), "cross_validation": cross_validate(matrix), "sizes": {}}
    for size in SIZES:
        prefix = set(order[:size])
        run = partial(_kills_by, size, order)
        kit, kit_others, kit_right = find_matrix(subjects, run), find_matrix(independent, run), find_matrix(right_ones, run)
        entry["sizes"][str(size)] = {
            "blocks": len(prefix),
            "blocks_alone": _count(kit, lambda k: bool(k.blocks or k.open_blocks)), "with_calls": _count(kit, lambda k: bool(k.all)),
            "without_open": _count(kit, lambda k: bool(k.blocks or k.calls)), "by_other_authors": _count(kit_others, lambda k: bool(k.all)),
            "right_rejected": _count(kit_right, lambda k: bool(k.blocks or k.calls)),
            "right_differ_where_open": _count(kit_right, lambda k: bool(k.open_blocks)),
        }  # fmt: skip
        entry["survive"] = sorted(name for name, k in kit.items() if not k.all)
        entry["survive_by_other_authors"] = sorted(name for name, k in kit_others.items() if not k.all)
    return order, entry


def sum_up(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What kits say of a format: mutants and bugs by other authors, those that blocks, and blocks and calls, find, and the classes of the missed."""
    classes = {m.id: m.family.value for m in list_mutants()}
    names = ("blocks_alone", "with_calls", "by_other_authors")
    sizes = entry["sizes"]
    return {
        "of": sizes["140"]["with_calls"]["of"], "others": sizes["140"]["by_other_authors"]["of"],
        "found": {size: [counts[name]["found"] for name in names] for size, counts in sizes.items()},
        "missed": sorted({classes[name.rpartition("/")[2]] for name in entry["survive"]}),
    }  # fmt: skip


def _count(matrix: Mapping[str, Kills], found: Callable[[Kills], bool]) -> dict[str, int]:
    return {"found": sum(map(found, matrix.values())), "of": len(matrix)}


def make_table(report: Mapping[str, Any]) -> str:
    """The table of docs/kits.md."""
    lines = [
        "| format | 16 blocks | 70 blocks | 140 blocks | all mutants | by other authors | right ones rejected |", "|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for entry in report["formats"]:
        held, kit = entry["cross_validation"], entry["sizes"]["140"]
        shares = [f"{100 * held[str(size)]['mean']:.0f} % ({100 * held[str(size)]['worst']:.0f} %)" for size in SIZES]
        counts = [f"{kit[n]['found']} of {kit[n]['of']}" for n in ("with_calls", "by_other_authors", "right_rejected")]
        lines.append(f"| {' | '.join([entry['format'], *shares, *counts])} |")
    return "\n".join(lines)


def format_choice(chosen: Mapping[str, Sequence[str]], rows: Sequence[Mapping[str, Any]]) -> str:
    """The text of the file that the wheel has: a line for each format."""

    def listed(entries: Mapping[str, Any]) -> str:
        return ",\n  ".join(f'"{fmt}": {json.dumps(entry)}' for fmt, entry in entries.items())

    found = listed({row["format"]: sum_up(row) for row in rows})
    return f'{{\n "schema": "{SCHEMA}",\n "sizes": {list(SIZES)},\n "formats": {{\n  {listed(chosen)}\n }},\n "found": {{\n  {found}\n }}\n}}\n'


def main() -> int:
    """Choose and measure."""
    chosen, rows = {}, []
    for fmt in FORMATS:
        chosen[fmt], entry = measure(fmt)
        rows.append(entry)
        print(fmt, json.dumps(entry["cross_validation"]), json.dumps(entry["sizes"]), entry["survive"], file=sys.stderr, flush=True)
    digest = vector_digest(operations=("quantize",))
    write_file(CHOSEN, format_choice(chosen, rows).encode("ascii"))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {"schema": "mxspec-kits/1", "vectors": digest, "splits": SPLITS, "seed": SEED, "formats": rows}
    write_file(REPORT, (json.dumps(report, indent=1) + "\n").encode("ascii"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
