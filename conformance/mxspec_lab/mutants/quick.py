"""The quick level: a few cases that find out what all cases find out, chosen twice over, and how far that carries.

A choice fitted to a list finds that list. Its worth is what it finds of bugs that were not looked at: mutants are split in halves
many times, cases are chosen by one half and tried on the other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from mxspec_conformance.judge.invariance.answered import ORDINARY
from mxspec_conformance.kits.cover import cover_greedily
from mxspec_conformance.mutants.instance import Instance
from mxspec_conformance.observations.selection import CALLS, Selection
from mxspec_lab.mutants.cover import _level, split_levels
from mxspec_lab.mutants.judging import Found, Label
from mxspec_lab.mutants.level import Level, judge_level
from mxspec_lab.mutants.slices import list_slice, list_unfitted, select
from mxspec_vectors.cases import load_quantize_cases

QUICK_SCHEMA = "mxspec-quick/1"
#: A call costs more than a case: it repeats many.
CALL_COST = 4.0
#: Cases, of those that find a mutant out, that are chosen: a bug that resembles it is found by some of them alone.
DEPTH = 3
#: Times that the mutants are split in halves.
SPLITS = 20

Progress = Callable[[str], None]


def _cost(label: Label) -> float:
    return CALL_COST if label[0] == CALLS else 1.0


def choose_quick(instances: Sequence[Instance], full: Level, progress: Progress = lambda _: None) -> Selection:
    """The slice, and the cases that find out all that the full level finds out; calls that repeat too little get more to repeat."""
    wanted = [s for i in instances for s in split_levels(full.found[i.name].kills)]
    chosen = set(cover_greedily(wanted, _cost, times=DEPTH)) | list_slice()
    pending = list(instances)
    while True:
        selection = select(chosen)
        progress(f"quick level: {len(chosen)} cases")
        alive = judge_level(pending, selection, stop=True, jobs=None).survivors
        if not alive:
            return selection
        pending = [i for i in pending if i.name in alive]
        before = len(chosen)
        more = [{label for label in full.found[name].kills if label not in chosen} for name in alive]
        chosen |= set(cover_greedily(filter(None, more)))
        for name, others in zip(alive, more, strict=True):
            if not others:
                chosen |= surroundings(name, full.found[name])
        if len(chosen) == before:
            raise ValueError(f"the quick level cannot find out {', '.join(alive)}")


#: Blocks that calls repeat: a prime number, so that no regular mistake falls on equal blocks.
BLOCKS_TO_REPEAT = 17


def surroundings(name: str, found: Found) -> set[Label]:
    """What an instance needs beside the cases that find it out: blocks to repeat in calls, the other lanes of its case."""
    cases = [label for label in found.kills if label[0] != CALLS]
    if cases:
        kind, fmt, first = min(cases)
        case = first.partition("[")[0]
        return {label for label in found.asked if label[:2] == (kind, fmt) and label[2].partition("[")[0] == case}
    _, operation, fmt = name.split("/")
    if operation != "quantize":
        return set()
    ordinary = [c for c in load_quantize_cases(fmt) if c.is_row and c.topic in ORDINARY and c.tensor is None]
    step = len(ordinary) / BLOCKS_TO_REPEAT
    return {("quantize", fmt, ordinary[int(i * step)].id) for i in range(BLOCKS_TO_REPEAT)}


def quick_document(selection: Selection) -> dict[str, Any]:
    """The quick level as JSON: its cases by vector file, and its calls."""
    files, calls = [], []
    for (operation, fmt), labels in sorted(selection.labels.items()):
        if operation == CALLS:
            function, _, name = fmt.partition("/")
            calls.append({"function": function, "format": name, "calls": sorted(labels)})
        else:
            files.append({"operation": operation, "format": fmt, "cases": sorted(labels)})
    return {
        "schema": QUICK_SCHEMA,
        "files": files,
        "calls": calls,
    }


def render_quick(document: Mapping[str, Any]) -> str:
    """Canonical text: one file of vectors to a line."""
    lines = [f' "{key}": {json.dumps(document[key])},' for key in ("schema",)]
    for key in ("files", "calls"):
        rows = [json.dumps(row, separators=(",", ":")) for row in document[key]]
        lines += [f' "{key}": [', ",\n".join(rows), " ]" + ("," if key == "files" else "")]
    return "{\n" + "\n".join(lines) + "\n}\n"


def choose_places(instances: Sequence[Instance], places: int, *, mutants: int | None = None, seed: int = 5) -> list[Instance]:
    """So many instances of each mutant, drawn, all where it has fewer; mutants: only of so many, drawn too."""
    chance = random.Random(seed)
    members: dict[str, list[Instance]] = {}
    for instance in instances:
        members.setdefault(instance.mutant.id, []).append(instance)
    for own in members.values():
        chance.shuffle(own)
    drawn = [own[-places:] for own in members.values()]
    chance.shuffle(drawn)
    return [instance for own in drawn[:mutants] for instance in own]


def _thin(kills: Mapping[str, Iterable[Label]]) -> dict[str, set[Label]]:
    """The same sets with fewer labels: of those that find the same instances the first few, of which no cover takes more.

    Hundreds of thousands of labels are thousands then, and covers of any of these sets are the same.
    """
    finds: dict[Label, list[str]] = {}
    for name, labels in kills.items():
        for label in labels:
            finds.setdefault(label, []).append(name)
    alike: dict[tuple[tuple[str, ...], Any, Any], list[Label]] = {}
    for label, names in finds.items():
        alike.setdefault((tuple(names), _cost(label), _level(label)), []).append(label)
    kept: dict[str, set[Label]] = {name: set() for name in kills}
    for (finders, _, _), labels in alike.items():
        for name in finders:
            kept[name].update(sorted(labels, key=str)[:DEPTH])
    return kept


def hold_out(instances: Sequence[Instance], full: Level, *, splits: int = SPLITS, seed: int = 1) -> dict[str, Any]:
    """Shares of the instances that were not looked at which the quick level finds out, as the others would have it chosen.

    Mutants are split, not instances: no variant of one is on the other side. Counted is what the level asks whatever the mutants,
    and beside it so many cases for each mutant that was looked at; 0: none. What only calls after wrong answers find counts as
    missed where no such label is among its kills.
    """
    ids = sorted({i.mutant.id for i in instances})
    chance, unfitted = random.Random(seed), list_unfitted(instances)
    found: dict[int, list[float]] = {0: [], 1: [], DEPTH: []}
    # What is always asked stays in sight: of labels that find the same, any will do.
    always = {i.name: not unfitted.isdisjoint(full.found[i.name].kills) for i in instances}
    kept = _thin({i.name: full.found[i.name].kills for i in instances})
    for _ in range(splits):
        looked = set(chance.sample(ids, len(ids) // 2))
        groups = [s for i in instances if i.mutant.id in looked for s in split_levels(kept[i.name])]
        others = [i.name for i in instances if i.mutant.id not in looked]
        for depth, shares in found.items():
            chosen = set(cover_greedily(groups, _cost, times=depth) if depth else ())
            shares.append(sum(always[name] or not chosen.isdisjoint(kept[name]) for name in others) / len(others))
    return {"mutants": len(ids), "places": len(instances), "splits": splits, "seed": seed, "depths": [
        {"depth": depth, "mean": round(mean(shares), 4), "worst": round(min(shares), 4), "best": round(max(shares), 4)}
        for depth, shares in found.items()
    ]}  # fmt: skip
