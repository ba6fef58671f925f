"""The tables of reports/mutants/tables.md, made of the published JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def fill(text: str, tables: Mapping[str, str]) -> str:
    """The text with each `<!-- name -->` ... `<!-- /name -->` filled anew."""
    for name, table in tables.items():
        pattern = re.compile(rf"<!-- {name} -->.*?<!-- /{name} -->", re.S)
        if not pattern.search(text):
            raise ValueError(f"there is no place for {name}: <!-- {name} --> ... <!-- /{name} -->")
        text = pattern.sub(lambda _, n=name, t=table: f"<!-- {n} -->\n{t}\n<!-- /{n} -->", text)  # type: ignore[misc]
    return text


def make_tables(matrix: Mapping[str, Any], automatic: Mapping[str, Any], independent: Mapping[str, Any]) -> dict[str, str]:
    """All tables, by the name of their place in the page."""
    return {
        "numbers": _numbers(matrix),
        "automatic": _automatic(automatic),
        "independent": _independent(independent),
        "flags": _flags(matrix),
    }


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
        (name, level["killed"], len(level["survivors"]), f"{level['cases']:,}", "not measured" if level["seconds"] is None else level["seconds"])
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
    rows = [
        (row["depth"], *(f"{100 * row[key]:.1f} %" for key in ("mean", "worst", "best"))) for row in held_out["depths"]
    ]
    return [words, _table(("cases for each mutant", "mean", "worst", "best"), rows)]


def _automatic(automatic: Mapping[str, Any]) -> str:
    words = (
        f"Vectors `{automatic['vectors'][:12]}`, seed {automatic['seed']}: {automatic['tried']} of {automatic['possible']} possible changes tried, "
        f"{automatic['killed']} killed ("
        + ", ".join(f"{n} at {level}" for level, n in automatic["killed_by"].items())
        + "), "
        + (", ".join(f"{n} {kind}" for kind, n in automatic["survivors"].items()) or "none survive")
        + "."
    )
    modules = [
        (m, c.get("killed", 0) + c.get("survives", 0), c.get("killed", 0), c.get("survives", 0))
        for m, c in automatic["by_module"].items()
    ]
    reasons = Counter((row["kind"], row["reason"]) for row in automatic["alive"])
    rows = [(n, kind, reason) for (kind, reason), n in sorted(reasons.items(), key=lambda p: (p[0][0], -p[1]))]
    head = ("module", "tried", "killed", "survive")
    return "\n\n".join((words, _table(head, modules), _table(("survivors", "kind", "reason"), rows)))


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
