"""The kill matrix: every mutant, every case that finds it out, at both levels."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import Any

from mxspec_conformance.judge.invariance.answered import ORDINARY
from mxspec_conformance.kits.cover import cover_greedily
from mxspec_conformance.mutants import list_instances
from mxspec_conformance.mutants.instance import Instance, list_instances_of
from mxspec_conformance.mutants.layout_mutants import PACKERS
from mxspec_conformance.mutants.schema import Mutant
from mxspec_conformance.observations.selection import CALLS, EVERYTHING, Selection, use_selection
from mxspec_lab.mutants.cover import choose_layout_cases, split_levels
from mxspec_lab.mutants.judging import Found, Label, flags_of, judge_instance, share
from mxspec_vectors.cases import load_quantize_cases
from mxspec_vectors.digests import content_digest
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest

SCHEMA = "mxspec-mutants/1"
QUICK_SCHEMA = "mxspec-quick/1"
#: A call costs more than a case: it repeats many.
CALL_COST = 4.0

Progress = Callable[[str], None]


@dataclass(slots=True)
class Level:
    """All instances, judged at one level."""

    found: dict[str, Found] = field(default_factory=dict)
    #: Processor seconds.
    seconds: float = 0.0

    @property
    def survivors(self) -> list[str]:
        """Instances that no case finds out."""
        return [name for name, found in self.found.items() if not found.kills]


def judge_level(
    instances: Sequence[Instance], selection: Selection = EVERYTHING, *, progress: Progress = lambda _: None,
    stop: bool = False, jobs: int | None = 1,
) -> Level:  # fmt: skip
    """Judge instances within a selection; stop: each only until it is killed; jobs: processes, None one for each core."""
    level = Level()
    with ExitStack() as stack:
        results: Iterable[tuple[Found, float]]
        if jobs == 1:
            results = (_judge_one(instance, selection, stop) for instance in instances)
        else:
            # Instances hold functions that cannot be sent to a process; forked ones have them.
            fork = multiprocessing.get_context("fork")
            pool = ProcessPoolExecutor(jobs, fork, initializer=_keep, initargs=(instances, selection, stop))
            results = stack.enter_context(pool).map(_judge_kept, range(len(instances)))
        for number, (instance, (found, seconds)) in enumerate(zip(instances, results, strict=True), 1):
            found.asked = share(found.asked)
            level.found[instance.name] = found
            level.seconds += seconds
            progress(f"{number} of {len(instances)}, {len(level.survivors)} alive: {instance.name}")
    return level


#: What a worker judges.
_kept: list[tuple[Sequence[Instance], Selection, bool]] = []


def _keep(instances: Sequence[Instance], selection: Selection, stop: bool) -> None:
    _kept[:] = [(instances, selection, stop)]


def _judge_kept(number: int) -> tuple[Found, float]:
    instances, selection, stop = _kept[0]
    return _judge_one(instances[number], selection, stop)


def _judge_one(instance: Instance, selection: Selection, stop: bool) -> tuple[Found, float]:
    """An instance's verdict, and its seconds of one core."""
    started = time.process_time()
    with use_selection(selection):
        found = judge_instance(instance, stop=stop)
    return found, time.process_time() - started


# The quick level.


def choose_quick(instances: Sequence[Instance], full: Level, progress: Progress = lambda _: None) -> Selection:
    """The cases that find out all that the full level finds out; calls that repeat too little get more to repeat."""
    layouts = {("layout", name): cases for name, cases in choose_layout_cases().items()}
    wanted = [s for i in instances for s in split_levels(full.found[i.name].kills)]
    chosen = set(cover_greedily(wanted, lambda label: CALL_COST if label[0] == CALLS else 1.0))
    pending = list(instances)
    while True:
        selection = _select(chosen, layouts)
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


def _select(chosen: Iterable[Label], layouts: Mapping[tuple[str, str], Sequence[str]]) -> Selection:
    labels: dict[tuple[str, str], set[str]] = {key: set(cases) for key, cases in layouts.items()}
    for kind, fmt, name in chosen:
        if kind != "decode":  # a file is one case
            labels.setdefault((kind, fmt), set()).add(name)
    return Selection({key: frozenset(names) for key, names in labels.items()})


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


# The matrix.


def find_clones(mutants: Sequence[Mutant], full: Level) -> dict[str, str]:
    """Mutant -> an earlier one that returns the same in everything that the later one is judged in."""
    answers = {m.id: {i.name.removeprefix(m.id): full.found[i.name].answers for i in list_instances_of(m)} for m in mutants}
    clones: dict[str, str] = {}
    for number, mutant in enumerate(mutants):
        for earlier in mutants[:number]:
            mine, other = answers[mutant.id], answers[earlier.id]
            if earlier.id not in clones and all(other.get(place) == digest for place, digest in mine.items()):
                clones[mutant.id] = earlier.id
                break
    return clones


def place_digests() -> dict[str, str]:
    """The digests of the layouts' cases that mutants are judged by."""
    return {name: content_digest("layout", name) for name in PACKERS}


@lru_cache(maxsize=1)
def catalogue_digest() -> str:
    """The digest of what mutants say of themselves."""
    rows = [[i.name, i.profile, i.mutant.source, i.mutant.what] for i in list_instances()]
    return hashlib.sha256(json.dumps(rows).encode("ascii")).hexdigest()


def matrix_document(mutants: Sequence[Mutant], full: Level, quick: Level, chosen: Selection) -> dict[str, Any]:
    """The published form."""
    from mxspec_conformance.results.report import _own_version

    clones = find_clones(mutants, full)
    return {
        "schema": SCHEMA,
        "suite": {"version": _own_version(), "vectors": vector_digest(operations=NUMERIC_OPERATIONS), "layouts": place_digests()},
        "catalogue": catalogue_digest(),
        "counts": {
            "mutants": len(mutants), "distinct": len(mutants) - len(clones), "instances": len(full.found),
            "known_bugs": len({m.source for m in mutants if _is_row(m.source)}),
            "own": sum(1 for m in mutants if not _is_row(m.source) and m.id not in clones),
        },
        "levels": {
            "full": _level_dict(full),
            "quick": _level_dict(quick),
        },
        "mutants": [_mutant_dict(m, full, quick, clones.get(m.id)) for m in mutants],
        "flags": _flag_table(mutants, full),
    }  # fmt: skip


def _is_row(source: str) -> bool:
    return source[0] == "P" and source[1:].isdecimal()


def _level_dict(level: Level) -> dict[str, Any]:
    asked = {id(found.asked): found.asked for found in level.found.values()}
    return {
        "killed": len(level.found) - len(level.survivors), "survivors": level.survivors,
        "cases": len(frozenset().union(*asked.values())),
        "seconds": round(level.seconds, 1),
    }  # fmt: skip


def _mutant_dict(mutant: Mutant, full: Level, quick: Level, clone: str | None) -> dict[str, Any]:
    rows = []
    for instance in list_instances_of(mutant):
        found, few = full.found[instance.name], quick.found[instance.name]
        counts = Counter(flag for label in found.kills for flag in flags_of(label))
        topics = Counter(found.kills.values())
        rows.append({
            "operation": instance.operation, "format": instance.format, "profile": instance.profile,
            "asked": len(found.asked), "kills": len(found.kills), "quick": len(few.kills),
            "calls": sum(label[0] == CALLS for label in found.kills),
            "topics": dict(sorted(topics.items())), "flags": dict(sorted(counts.items())),
            "by": sorted(label[2] for label in few.kills)[:3],
        })  # fmt: skip
    described = {"id": mutant.id, "family": mutant.family.value, "source": mutant.source, "what": mutant.what}
    return described | ({"clone_of": clone} if clone else {}) | {"instances": rows}


_COUNTED: dict[int, Counter[str]] = {}


def _count_flags(asked: frozenset[Label]) -> Counter[str]:
    """How many of these cases carry each flag; sets that were asked are kept, so that their identity is enough."""
    if id(asked) not in _COUNTED:
        _COUNTED[id(asked)] = Counter(flag for label in asked for flag in flags_of(label))
    return _COUNTED[id(asked)]


def _flag_table(mutants: Sequence[Mutant], full: Level) -> list[dict[str, Any]]:
    """Flag -> the mutants that it is closest to, and those that no case without it finds out.

    Close: over the cases asked, carrying the flag and killing the mutant go together more than for any other flag.
    """
    closest: dict[str, list[str]] = {}
    alone: dict[str, list[str]] = {}
    for mutant in mutants:
        kills, asked = Counter[str](), Counter[str]()
        killed = total = 0
        common: set[str] | None = None
        for instance in list_instances_of(mutant):
            found = full.found[instance.name]
            flagged = [flags for label in found.kills if (flags := flags_of(label))]
            kills.update(flag for flags in flagged for flag in flags)
            asked.update(_count_flags(found.asked))
            killed += len(flagged)
            total += sum(label[0] != CALLS for label in found.asked)
            for label in found.kills:
                common = set(flags_of(label)) if common is None else common & set(flags_of(label))
        if kills:
            best = max(kills, key=lambda f: (_correlate(kills[f], killed, asked[f], total), kills[f], f))
            closest.setdefault(best, []).append(mutant.id)
        for flag in sorted(common or ()):
            alone.setdefault(flag, []).append(mutant.id)
    return [{"flag": f, "closest": closest.get(f, []), "alone": alone.get(f, [])} for f in sorted({*closest, *alone})]


def _correlate(both: int, killed: int, flagged: int, total: int) -> float:
    """The phi coefficient of two properties of cases; 0 where one of them holds for all."""
    scale = killed * flagged * (total - killed) * (total - flagged)
    return (both * total - killed * flagged) / sqrt(scale) if scale > 0 else 0.0


def run_matrix(progress: Progress = lambda _: None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The matrix and the quick level, computed anew."""
    from mxspec_conformance.mutants import list_mutants

    mutants, instances = list_mutants(), list_instances()
    full = judge_level(instances, progress=progress, jobs=None)
    if full.survivors:
        chosen = EVERYTHING
        quick = full
    else:
        chosen = choose_quick(instances, full, progress)
        quick = judge_level(instances, chosen, progress=progress, jobs=None)
    return matrix_document(mutants, full, quick, chosen), quick_document(chosen)


def render_matrix(document: Mapping[str, Any]) -> str:
    """Canonical text: one mutant, or flag, to a line."""
    lines = []
    for key, value in document.items():
        if key in ("mutants", "flags"):
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            lines.append(f' "{key}": [\n{rows}\n ]')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


__all__ = ["Level", "choose_quick", "judge_level", "matrix_document", "quick_document", "render_matrix", "render_quick", "run_matrix"]  # fmt: skip
