"""The command `mutants`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mxspec_conformance.cli.console import fail, make_console, show_progress
from mxspec_conformance.mutants.instance import list_instances_of
from mxspec_vectors.files import write_file

_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(invoke_without_command=True)
@click.option("--only", metavar="GLOB", help="Only instances whose name matches, such as 'ties-*' or '*/quantize/mxfp4'.")
@click.option("--quick", is_flag=True, help="Only the cases of the quick set.")
@click.option("--list", "as_list", is_flag=True, help="List the catalogue and exit.")
@click.option("--json", "json_file", type=_FILE, help="Write the kill matrix; '-' prints it.")
@click.pass_context
def mutants(context: click.Context, only: str | None, quick: bool, as_list: bool, json_file: Path | None) -> None:
    """Mutation-test the golden vectors.

    Each mutant is a correct implementation with one seeded bug. The result shows which cases kill it.

    Exit code: 0 if every mutant is killed, 1 if one survives.
    """
    if context.invoked_subcommand is not None:
        return
    from fnmatch import fnmatchcase

    from mxspec_conformance.mutants import list_instances, list_mutants

    pattern = only or "*"
    chosen = [i for i in list_instances() if fnmatchcase(i.name, pattern) or fnmatchcase(i.mutant.id, pattern)]
    if not chosen:
        fail(f"no mutant matches {pattern!r}; `python -m mxspec_lab mutants --list` lists them")
    if as_list:
        names = {i.mutant.id for i in chosen}
        _list([m for m in list_mutants() if m.id in names], make_console())
        return
    from mxspec_conformance.observations.selection import EVERYTHING, quick_selection
    from mxspec_lab.mutants.judging import judge_level
    from mxspec_lab.mutants.matrix import matrix_document

    with show_progress(f"{len(chosen)} mutants") as progress:
        jobs = None if len(chosen) > 40 else 1
        level = judge_level(chosen, quick_selection() if quick else EVERYTHING, progress=progress, jobs=jobs)
    partial = [m for m in list_mutants() if all(i.name in level.found for i in list_instances_of(m))]
    if json_file is not None:
        text = json.dumps(matrix_document(partial, level, level), indent=1) + "\n"
        if str(json_file) == "-":
            click.echo(text, nl=False)
        else:
            write_file(json_file, text.encode("ascii"))
    if str(json_file) != "-":
        _show(chosen, level, make_console())
    raise click.exceptions.Exit(1 if level.survivors else 0)


@mutants.command()
@click.argument("folder", type=_FOLDER, default="reports/mutants")
def publish(folder: Path) -> None:
    """Recompute the kill matrix and the quick set.

    Writes FOLDER/matrix.json and quick.json of the package.
    """
    from mxspec_lab.mutants.matrix import render_matrix, run_matrix
    from mxspec_lab.mutants.quick import render_quick

    with show_progress("kill matrix") as progress:
        matrix, quick = run_matrix(progress)
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "matrix.json", render_matrix(matrix).encode("ascii"))
    _print_levels(matrix, make_console())
    if matrix["levels"]["full"]["survivors"]:
        fail("mutants survive; the quick set was not written", code=1)
    write_file(Path(str(files("mxspec_conformance"))) / "observations" / "quick.json", render_quick(quick).encode("ascii"))


@mutants.command()
@click.argument("folder", type=_FOLDER, default="reports/mutants")
@click.argument("page", type=_FILE, default="reports/mutants/tables.md")
def document(folder: Path, page: Path) -> None:
    """Fill the tables of reports/mutants/tables.md.

    The numbers come from matrix.json and independent.json in FOLDER; the table of automatic mutants stays as it was measured.
    """
    from mxspec_lab.mutants.matrix import fill, make_tables

    names = ("matrix.json", "independent.json")
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        fail(f"{folder} has no {', '.join(missing)}; docs/mutants.md says which command makes each")
    tables = make_tables(*(json.loads((folder / name).read_text("ascii")) for name in names))
    write_file(page, fill(page.read_text("utf-8"), tables).encode("utf-8"))


def _list(chosen: Sequence[Any], console: Console) -> None:
    family = ""
    for mutant in chosen:
        if mutant.family.value != family:
            family = mutant.family.value
            console.print(Text(family, style="bold"))
        console.print(Text(f"  {mutant.id}  ", style="bold").append(mutant.source, style="dim"), soft_wrap=True)
        console.print(Text(f"    {mutant.what}"))
    console.print(f"{len(chosen)} mutants")


def _show(chosen: Sequence[Any], level: Any, console: Console) -> None:
    """Few mutants each with its flags; survivors; counts."""
    from mxspec_lab.mutants.judging import flags_of

    if len(chosen) <= 60:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("mutant", "operation/format", "cases", "kill", "most by"):
            table.add_column(column, justify="right" if column in ("cases", "kill") else "left", overflow="fold")
        for instance in chosen:
            found = level.found[instance.name]
            counts = Counter(flag for label in found.kills for flag in flags_of(label) or (found.kills[label],))
            best = ", ".join(f"{flag} {n}" for flag, n in counts.most_common(2))
            table.add_row(
                instance.mutant.id, f"{instance.operation}/{instance.format}", str(len(found.asked)), str(len(found.kills)),
                best or "survives", style="" if found.kills else "bold red",
            )  # fmt: skip
        console.print(table)
    for name in level.survivors:
        console.print(Text(f"survives: {name}", style="bold red"))
    count = len({i.mutant.id for i in chosen})
    console.print(
        f"{count} mutants in {len(chosen)} instances, {len(chosen) - len(level.survivors)} killed, "
        f"{len(level.survivors)} survive ({level.seconds:.0f} s)"
    )


def _print_levels(matrix: Mapping[str, Any], console: Console) -> None:
    counts = matrix["counts"]
    console.print(f"{counts['mutants']} mutants, {counts['distinct']} distinct, {counts['instances']} instances")
    for name, level in matrix["levels"].items():
        console.print(f"{name:5s}  {level['killed']} killed, {level['cases']} cases, {level['seconds']} s")
