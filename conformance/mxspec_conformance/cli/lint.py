"""`mxspec lint`: findings as a table of 80 columns, or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import mxspec
from mxspec.containers.text import clip
from mxspec_conformance.cli.affine import CHECKPOINT_FORMAT
from mxspec_conformance.cli.parameters import EXISTING, INPUT
from mxspec_conformance.lint import RULES, SCHEMA, LintResult, Severity, exit_code, lint as run_lint
from mxspec_conformance.lint.against import list_profiles_found

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
#: Findings of one rule that are shown individually; `--json` and `--all` show all.
_LISTED = 4


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...", type=INPUT)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema mxspec-lint/1).")
@click.option("--all", "show_all", is_flag=True, help=f"Show every finding, not only {_LISTED} per rule.")
@click.option("--rules", is_flag=True, help="List the rules and how to fix each finding.")
@click.option(
    "--format", "formats", multiple=True, type=CHECKPOINT_FORMAT,
    help="A format that FILE contains, if names and shapes do not determine it; repeatable.",
)  # fmt: skip
@click.option(
    "--against", metavar="ORIGINAL", type=EXISTING,
    help="The unquantized checkpoint: find by the bits what became of each tensor.",
)  # fmt: skip
@click.option("--profile", help="With --against: the profile that tensors should follow.")
def lint(
    files: tuple[Path, ...], as_json: bool, show_all: bool, rules: bool, formats: tuple[str, ...], against: Path | None, profile: str | None
) -> None:
    """Check quantized checkpoints for inconsistencies.

    FILE is a GGUF or safetensors file, a shard index or a folder. Checked are the container, names, dtypes, shapes, block
    scales, tensor scales and their direction, codes and configuration. Damaged or malicious files are reported as findings.
    With --against each tensor is compared with its original: the order of nibbles, swizzled or shifted scales, wrong tensor
    scales, double quantization, scales of another profile, codes of another tensor.

    Exit code: 0 if there are only notes, 1 for errors or warnings, 2 if a file could not be read, or nothing in it could be judged
    because its quantized tensors are of forms that lint does not know, or fit two formats.
    """
    from mxspec_conformance.cli.console import make_console, show_progress

    console = make_console()
    if rules:
        print_rules(console)
        return
    if not files:
        raise click.UsageError("pass at least one FILE, or --rules")
    results = []
    for file in files:
        with show_progress(f"checking {file.name}") as progress:
            found = run_lint(file, formats=formats, against=against, profile=profile, progress=progress)
            results.append(found)
    if as_json:
        click.echo(json.dumps(as_document(results), indent=1))
    else:
        for result in results:
            print_result(result, console, show_all=show_all)
    raise click.exceptions.Exit(exit_code(results))


def as_document(results: list[LintResult]) -> dict[str, object]:
    """The results as one JSON document; `schema/lint.schema.json` describes it."""
    counts = {s.value: sum(f.rule.severity is s for r in results for f in r.findings) for s in Severity}
    return {
        "schema": SCHEMA, "mxspec": mxspec.__version__, "exit_code": exit_code(results), "counts": counts,
        "results": [r.as_dict() for r in results],
    }  # fmt: skip


def print_result(result: LintResult, console: Console, *, show_all: bool) -> None:
    """One file's findings."""
    kinds = ", ".join(f"{n} {name}" for name, n in result.quantized.items()) or "none quantized"
    if result.unchecked:
        kinds = f"{kinds if result.quantized else 'none checked'}, {sum(result.unchecked.values())} not checked"
    console.print(Text(clip(str(result.path), 1000), style="bold"), soft_wrap=True)
    if result.container is not None:
        console.print(Text(f"{result.container}, {result.stored} tensors: {kinds}", style="dim"))
    if result.comparison is not None:
        kinds = ", ".join(f"{n} {name}" for name, n in list_profiles_found(result.comparison.explanations).items())
        text = f"{len(result.comparison.explanations)} compared with the original; follow from it, bit for bit: {kinds or 'none'}"
        console.print(Text(text, style="dim"))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    shown: dict[str, int] = {}
    for finding in result.findings:
        rule = finding.rule
        shown[rule.id] = shown.get(rule.id, 0) + 1
        if shown[rule.id] > _LISTED and not show_all:
            continue
        where = clip(finding.tensor or finding.file or "", 400)
        if finding.offset is not None:
            where += f"  byte {finding.offset}"
        name = Text.assemble((rule.severity.value, _STYLES[rule.severity]), f"\n{rule.id}")
        what = Text.assemble((f"{where}\n" if where else "", "bold"), f"{finding.text}\n", (f"-> {rule.advice}", "dim"))
        table.add_row(name, what)
    console.print(table)
    for rule_id, number in shown.items():
        if number > _LISTED and not show_all:
            console.print(f"{rule_id}: {number - _LISTED} more; --all shows them")
    counts = [f"{n} {s.value}{'s' if n > 1 else ''}" for s in Severity
              if (n := sum(f.rule.severity is s for f in result.findings))]  # fmt: skip
    console.print(
        (", ".join(counts) or "nothing found")
        + ("" if result.complete else "; the file was not checked further")
        + ("" if result.judged else "; nothing could be judged")
    )


def print_rules(console: Console) -> None:
    """All rules."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("meaning and remedy", overflow="fold")
    for rule in RULES.values():
        text = Text.assemble(rule.means, "\n", (f"-> {rule.advice}", "dim"))
        table.add_row(rule.id, Text(rule.severity.value, style=_STYLES[rule.severity]), text)
    console.print(table)
