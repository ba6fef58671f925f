"""The quick level: a few cases that find out what all cases find out, chosen twice over, and how far that carries.

A choice fitted to a list finds that list. Its worth is what it finds of bugs that were not looked at: mutants are split in halves
many times, cases are chosen by one half and tried on the other. Beside it stands a slice that is asked whatever the mutants are: a
few cases of every kind, spread over each file, so that no threshold, no kind of special value and no table is left out. Which
cases stand for a kind follows from their order in the file alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, TypeVar

from mxspec.formats import BLOCKS
from mxspec.layouts import Layout, list_layouts
from mxspec_conformance.judge.explanation import Explanation
from mxspec_conformance.judge.invariance.answered import ORDINARY
from mxspec_conformance.judge.layout_mistakes import list_alternatives
from mxspec_conformance.judge.stages import Source
from mxspec_conformance.kits.cover import cover_greedily
from mxspec_conformance.mutants.instance import LAYOUT_OPERATIONS, Instance, build_target
from mxspec_conformance.observations.selection import Selection, use_selection
from mxspec_conformance.observations.tables import load_table_cases
from mxspec_lab.mutants.judging import Found, Label, Level, judge_level, judge_target, render_rows
from mxspec_vectors.cases import load_encode_cases, load_layout_file, load_quantize_cases, load_scale_cases, load_stochastic_cases
from mxspec_vectors.files import read_index


def split_levels(kills: Iterable[Label]) -> list[frozenset[Label]]:
    """Kills by what a target may lack: cases with and without a tensor scale, random words of 32 and of 8 bits.

    A mutant has to be killed by a target's own kind of cases.
    """
    groups: dict[str, set[Label]] = {}
    for label in kills:
        groups.setdefault(_level(label), set()).add(label)
    return [frozenset(members) for members in groups.values()]


_TENSOR_CASES: dict[tuple[str, str], frozenset[str]] = {}


def _level(label: Label) -> str:
    kind, fmt, name = label
    if kind == "stochastic":
        return name.split("-")[1]
    if kind == "dequantize":
        return "one-level" if name == "table-one-level" else "two-level"
    if kind in ("quantize", "scale"):
        if (kind, fmt) not in _TENSOR_CASES:
            cases = load_quantize_cases(fmt) if kind == Source.QUANTIZE else load_scale_cases(fmt)
            _TENSOR_CASES[kind, fmt] = frozenset(c.id for c in cases if c.tensor is not None)
        return "two-level" if name.partition("[")[0] in _TENSOR_CASES[kind, fmt] else "one-level"
    return ""


def choose_layout_cases() -> dict[str, list[str]]:
    """For each layout the cases that tell it from every other layout and slip that the judge can name, in either direction."""
    return {layout.name: _cases_of(layout) for layout in list_layouts()}


def _cases_of(layout: Layout) -> list[str]:
    wanted: dict[str | Explanation, set[str]] = {}
    for case in load_layout_file(layout.name).cases:
        wanted.setdefault(f"topic {case.topic}", set()).add(case.id)
        for explanation, data, mask in list_alternatives(layout, case.parts, case.data):
            mask = mask & case.mask if mask.shape == case.mask.shape else mask
            if data.shape != case.data.shape or ((data ^ case.data) & mask).any():
                wanted.setdefault(explanation, set()).add(case.id)
    return sorted(cover_greedily(wanted.values()))


T = TypeVar("T")

#: Blocks of each topic and flag, with and without a tensor scale; maxima of each run; numbers of each array of numbers.
BLOCKS_EACH, MAXIMA_EACH, NUMBERS_EACH = 8, 2, 4


def spread(members: Sequence[T], count: int) -> list[T]:
    """So many of them, evenly, the first always; all where there are fewer."""
    if len(members) <= count:
        return list(members)
    return [members[i * len(members) // count] for i in range(count)]


def list_slice() -> frozenset[Label]:
    """Every case of the slice; the layouts' cases are those that tell a layout from all others."""
    found: set[Label] = {("layout", name, case) for name, cases in choose_layout_cases().items() for case in cases}
    for fmt in BLOCKS:
        found.update((Source.QUANTIZE.value, fmt, case) for case in _spread_blocks(fmt))
        for run in load_scale_cases(fmt):
            found.update((Source.SCALE.value, fmt, run.label(i)) for i in spread(range(len(run.amax)), MAXIMA_EACH))
        found.update((Source.DEQUANTIZE.value, fmt, table.id) for table in load_table_cases(fmt))
    for element in _list_elements("encode"):
        found.update(_spread_numbers(Source.ENCODE, element, ((c.id, len(c.x)) for c in load_encode_cases(element))))
    for element in _list_elements("stochastic"):
        found.update(_spread_numbers(Source.STOCHASTIC, element, ((c.id, len(c.x)) for c in load_stochastic_cases(element))))
    return frozenset(found)


def _spread_blocks(fmt: str) -> Iterator[str]:
    kinds: dict[tuple[bool, str], list[str]] = {}
    for case in load_quantize_cases(fmt):
        for kind in (case.topic, *case.flags):
            kinds.setdefault((case.tensor is None, kind), []).append(case.id)
    for members in kinds.values():
        yield from spread(members, BLOCKS_EACH)


def _spread_numbers(source: Source, element: str, cases: Iterable[tuple[str, int]]) -> Iterator[Label]:
    for case, count in cases:
        yield from ((source.value, element, f"{case}[{lane}]") for lane in spread(range(count), NUMBERS_EACH))


def _list_elements(operation: str) -> list[str]:
    names = (name.partition("/") for name in sorted(read_index()["files"]))
    return [file.removesuffix(".json") for folder, _, file in names if folder == operation]


def select(labels: Iterable[Label]) -> Selection:
    """The selection of these labels; files of which none is among them are judged in full."""
    chosen: dict[tuple[str, str], set[str]] = {}
    for kind, fmt, name in labels:
        if kind != Source.DECODE:  # a file is one case
            chosen.setdefault((kind, fmt), set()).add(name)
    return Selection({key: frozenset(names) for key, names in chosen.items()})


def list_unfitted(instances: Iterable[Instance]) -> frozenset[Label]:
    """What the quick level asks if no case is chosen by mutants: the slice, tables of single codes, and calls.

    instances: places whose operations and formats are looked at; found by asking the plain implementation.
    """
    found = set(list_slice())
    places = {(i.operation, i.format): i.profile for i in instances if i.operation not in LAYOUT_OPERATIONS}
    with use_selection(select(found)):
        for (operation, fmt), profile in places.items():
            target = build_target(operation, profile)
            target.SR_BITS = 32
            found |= judge_target(target, operation, fmt, profile).asked
    return frozenset(found)


QUICK_SCHEMA = "mxspec-quick/1"
#: Cases, of those that find a mutant out, that are chosen: a bug that resembles it is found by some of them alone.
DEPTH = 3
#: Times that the mutants are split in halves.
SPLITS = 20

Progress = Callable[[str], None]


def choose_quick(instances: Sequence[Instance], full: Level, progress: Progress = lambda _: None) -> Selection:
    """The slice, and the cases that find out all that the full level finds out; calls that repeat too little get more to repeat.

    Calls are not chosen: those are made whose `quick` says so, and one that all of them miss is an error.
    """
    kills = {i.name: {label for label in full.found[i.name].kills if label[0] != Source.CALLS} for i in instances}
    wanted = [s for own in kills.values() for s in split_levels(own)]
    chosen = set(cover_greedily(wanted, times=DEPTH)) | list_slice()
    pending = list(instances)
    while True:
        selection = select(chosen)
        progress(f"quick level: {len(chosen)} cases")
        alive = judge_level(pending, selection, stop=True, jobs=None).survivors
        if not alive:
            return selection
        pending = [i for i in pending if i.name in alive]
        before = len(chosen)
        more = [kills[name] - chosen for name in alive]
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
    cases = [label for label in found.kills if label[0] != Source.CALLS]
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
    """The quick level as JSON: its cases by vector file."""
    files = [{"operation": o, "format": fmt, "cases": sorted(labels)} for (o, fmt), labels in sorted(selection.labels.items())]
    return {"schema": QUICK_SCHEMA, "files": files}


def render_quick(document: Mapping[str, Any]) -> str:
    """Canonical text: one file of vectors to a line."""
    return render_rows(document, "files", separators=(",", ":"))


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
        alike.setdefault((tuple(names), label[0] == Source.CALLS, _level(label)), []).append(label)
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
        groups = [s for i in instances if i.mutant.id in looked for s in split_levels(x for x in kept[i.name] if x[0] != Source.CALLS)]
        others = [i.name for i in instances if i.mutant.id not in looked]
        for depth, shares in found.items():
            chosen = set(cover_greedily(groups, times=depth) if depth else ())
            shares.append(sum(always[name] or not chosen.isdisjoint(kept[name]) for name in others) / len(others))
    return {"mutants": len(ids), "places": len(instances), "splits": splits, "seed": seed, "depths": [
        {"depth": depth, "mean": round(mean(shares), 4), "worst": round(min(shares), 4), "best": round(max(shares), 4)}
        for depth, shares in found.items()
    ]}  # fmt: skip
