"""The kill matrix: every mutant, every case that finds it out, at both levels; and the tables of its page."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import sqrt
from typing import Any

from mxspec_conformance.judge.stages import Source
from mxspec_conformance.mutants import list_instances
from mxspec_conformance.mutants.instance import list_instances_of
from mxspec_conformance.mutants.layout_mutants import PACKERS
from mxspec_conformance.mutants.schema import Mutant
from mxspec_conformance.observations.selection import EVERYTHING
from mxspec_lab.mutants.judging import Label, Level, flags_of, judge_level, render_rows
from mxspec_lab.mutants.quick import choose_quick, hold_out, quick_document
from mxspec_vectors.digests import content_digest
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest

SCHEMA = "mxspec-mutants/1"

Progress = Callable[[str], None]


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


def matrix_document(mutants: Sequence[Mutant], full: Level, quick: Level, held_out: Mapping[str, Any] | None = None) -> dict[str, Any]:
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
            "quick": _level_dict(quick) | ({} if held_out is None else {"held_out": held_out}),
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
            "calls": sum(label[0] == Source.CALLS for label in found.kills),
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
            total += sum(label[0] != Source.CALLS for label in found.asked)
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
        return matrix_document(mutants, full, full), quick_document(EVERYTHING)
    chosen = choose_quick(instances, full, progress)
    quick = judge_level(instances, chosen, progress=progress, jobs=None)
    return matrix_document(mutants, full, quick, hold_out(instances, full)), quick_document(chosen)


def render_matrix(document: Mapping[str, Any]) -> str:
    """Canonical text: one mutant, or flag, to a line."""
    return render_rows(document, "mutants", "flags", separators=(",", ":"))


def fill(text: str, tables: Mapping[str, str]) -> str:
    """The text with each `<!-- name -->` ... `<!-- /name -->` filled anew."""
    for name, table in tables.items():
        pattern = re.compile(rf"<!-- {name} -->.*?<!-- /{name} -->", re.S)
        if not pattern.search(text):
            raise ValueError(f"there is no place for {name}: <!-- {name} --> ... <!-- /{name} -->")
        text = pattern.sub(lambda _, n=name, t=table: f"<!-- {n} -->\n{t}\n<!-- /{n} -->", text)  # type: ignore[misc]
    return text


def make_tables(matrix: Mapping[str, Any], independent: Mapping[str, Any]) -> dict[str, str]:
    """The tables that change with the mutants, by the name of their place in the page."""
    return {"numbers": _numbers(matrix), "independent": _independent(independent), "flags": _flags(matrix)}


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _numbers(matrix: Mapping[str, Any]) -> str:
    counts, levels = matrix["counts"], matrix["levels"]
    families = Counter(m["family"] for m in matrix["mutants"])
    clones = Counter(m["family"] for m in matrix["mutants"] if "clone_of" in m)
    places = Counter(m["family"] for m in matrix["mutants"] for _ in m["instances"])
    words = (
        f"Vectors `{matrix['suite']['vectors'][:12]}`: {counts['mutants']} mutants, {counts['distinct']} of them distinct "
        f"({counts['known_bugs']} rows of the list of known bugs, {counts['own']} others), in {counts['instances']} operations and formats."
    )
    head = ("level", "killed", "survive", "cases", "seconds of one core")
    level_rows = [
        (
            name,
            level["killed"],
            len(level["survivors"]),
            f"{level['cases']:,}",
            "not measured" if level["seconds"] is None else level["seconds"],
        )
        for name, level in levels.items()
    ]
    rows = [(family, n, n - clones[family], places[family]) for family, n in families.items()]
    parts = [words, _table(head, level_rows), *_held_out(levels["quick"].get("held_out"))]
    return "\n\n".join((*parts, _table(("family", "mutants", "distinct", "places"), rows)))


def _held_out(held_out: Mapping[str, Any] | None) -> list[str]:
    """How the choice of the quick level carries over to mutants that it was not made by."""
    if held_out is None:
        return []
    words = (
        f"Of {held_out['mutants']} mutants in {held_out['places']} places, {held_out['splits']} times one half was looked at and the other tried: "
        "these shares of the other half are found by what the quick level asks whatever the mutants, and by so many cases for each mutant of the first half."
    )
    rows = [(row["depth"], *(f"{100 * row[key]:.1f} %" for key in ("mean", "worst", "best"))) for row in held_out["depths"]]
    return [words, _table(("cases for each mutant", "mean", "worst", "best"), rows)]


def _independent(document: Mapping[str, Any]) -> str:
    bugs = document["bugs"]
    alive = [bug for bug in bugs if bug["verdict"] == "survives"]
    words = (
        f"Vectors `{document['vectors'][:12]}`: {len(bugs)} bugs in operations, formats and profiles, "
        f"{len(bugs) - len(alive)} killed, "
        + ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(bug["kind"] for bug in alive).items()))
        + "."
    )
    operations = [
        (operation, n, sum(bug["operation"] == operation for bug in alive))
        for operation, n in Counter(bug["operation"] for bug in bugs).items()
    ]
    reasons = Counter((bug["kind"], bug["reason"]) for bug in alive)
    rows = [(n, kind, reason) for (kind, reason), n in sorted(reasons.items(), key=lambda p: (p[0][0], -p[1]))]
    head = ("operation", "bugs", "survive")
    return "\n\n".join((words, _table(head, operations), _table(("survivors", "kind", "reason"), rows)))


def _flags(matrix: Mapping[str, Any]) -> str:
    rows = []
    for row in matrix["flags"]:
        names = row["closest"]
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        rows.append((f"`{row['flag']}`", len(names), f"({len(row['alone'])})", shown))
    return _table(("flag", "mutants", "alone", "such as"), rows)
