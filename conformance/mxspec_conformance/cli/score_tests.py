"""`mxspec score-tests TEST`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mxspec_conformance.cli.console import fail, make_console, show_progress
from mxspec_conformance.cli.parameters import OUTPUT_FILE, PRINTED_FILE, SECONDS, BlockFormatType, FileCommand
from mxspec_conformance.cli.streams import until_closed
from mxspec_conformance.kits.products import PAIRS, write_products_file
from mxspec_conformance.kits.pytest_file import write_pytest_file
from mxspec_conformance.scoring.products.rules import PRODUCT_RULES
from mxspec_conformance.scoring.products.score import score_products
from mxspec_conformance.scoring.products.subjects import ALL, is_product
from mxspec_conformance.scoring.rules import RULES
from mxspec_conformance.scoring.score import Row, Score, Status, as_dict, by_family, score_test
from mxspec_conformance.scoring.subjects import Subject, rules_of
from mxspec_vectors.files import write_file


class ScoredType(BlockFormatType):
    """A block format, a pair of them, or all pairs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name."""
        return value if value == ALL or value in PAIRS else super().convert(value, param, ctx)


@click.command(name="score-tests", cls=FileCommand)
@click.argument("test", required=False)
@click.option(
    "--format", "fmt", type=ScoredType(), default="mxfp4", show_default=True,
    help=f"The block format that the test is about; of a test of matmul the pair of formats, such as nvfp4@nvfp4, or {ALL} for all pairs.",
)  # fmt: skip
@click.option("--profile", help="Score against this rule alone; default: each rule whose plain implementation the test accepts.")
@click.option(
    "--replace", "replace_by", multiple=True, metavar="MODULE.NAME=FUNCTION",
    help="For a pytest file: put the implementation in the place of the function under test. FUNCTION: quantize, dequantize, or FILE.py::MAKER, which "
    "is given the implementation; repeatable.",
)  # fmt: skip
@click.option("--only", help="Only mutants whose id matches this pattern.")
@click.option("--jobs", type=click.IntRange(1), help="Worker processes; default: one per core.")
@click.option("--timeout", type=SECONDS, default=60.0, show_default=True, help="Timeout of the test on one implementation, in seconds.")
@click.option("--patch", "patch_file", type=OUTPUT_FILE, help="Write the blocks and calls that close its gap to this pytest file.")
@click.option("--json", "json_file", type=PRINTED_FILE, help="Write the result as JSON; '-' prints it.")
@click.option("--rules", "list_rules", is_flag=True, help="List the named rules.")
def score_tests(
    test: str | None, fmt: str, profile: str | None, replace_by: tuple[str, ...], only: str | None, jobs: int | None, timeout: float,
    patch_file: Path | None, json_file: Path | None, list_rules: bool,
) -> None:  # fmt: skip
    """Measure what an acceptance test sees.

    Run TEST against right implementations and against mutants, right implementations with one mistake each, and say which mutants it does not see.
    TEST: FILE.py::FUNCTION, a pytest file whose tests request a fixture quantize, dequantize, matmul or impl (mxspec supplies it), 'cmd:PROGRAM {implementation}', or rule:NAME.

    Exit code: 0 if it sees every mutant and rejects nothing right, 1 if not, 2 if it could not be scored.
    """
    if list_rules:
        with until_closed():
            _list_rules(make_console())
        return
    if test is None:
        fail("name a test: FILE.py::FUNCTION, a pytest file, cmd:PROGRAM or rule:NAME (--rules lists them)")
    if is_product(fmt) and profile is not None:
        fail("products follow no profile: leave out --profile, and name their pair of formats by --format")
    if profile is not None and profile not in rules_of(fmt):
        fail(f"{profile!r} is no rule that {fmt} is scored by; allowed are {', '.join(rules_of(fmt))}")
    started = time.monotonic()
    with show_progress(f"scoring {test}") as progress:
        options: dict[str, Any] = {
            "replace_by": replace_by,
            "jobs": jobs or 0,
            "timeout": timeout,
            "only": _matching(only),
            "progress": progress,
        }
        score = score_products(test, fmt, **options) if is_product(fmt) else score_test(test, fmt, profile=profile or "", **options)
    if json_file is not None:
        text = json.dumps(as_dict(score), indent=1) + "\n"
        click.echo(text, nl=False) if str(json_file) == "-" else write_file(json_file, text.encode("ascii"))
    if patch_file is not None and (score.patch or (is_product(fmt) and score.patch_calls)):
        write_file(patch_file, patch_text(score, patch_file.name).encode("ascii"))
    if str(json_file) != "-":
        with until_closed():
            _show(score, make_console(), time.monotonic() - started, patch_file)
    complete = score.status is Status.SCORED and score.seen == len(score.mutants) and not score.rejected_right
    raise click.exceptions.Exit(2 if score.status is not Status.SCORED else 0 if complete else 1)


def _matching(pattern: str | None) -> Callable[[Subject], bool]:
    def keeps(subject: Subject) -> bool:
        return pattern is None or fnmatchcase(subject.id, pattern)

    return keeps


def patch_text(score: Score, name: str) -> str:
    """The pytest file that closes a test's gap."""
    calls = "calls" if is_product(score.format) else "blocks and calls"
    about = f"What {score.test} does not see of {len(score.mutants)} mutants of {score.format}: {len(score.survivors)}. These {calls} find them out."
    if is_product(score.format):
        chosen: dict[str, list[str]] = {pair: [] for pair in PAIRS if pair in score.rules}
        for block in score.patch:
            pair, _, call = block["i"].partition("/")
            chosen[pair].append(call)
        return write_products_file(chosen, score.patch_calls, name=name, title="A patch for an acceptance test of products", about=about)
    return write_pytest_file({score.format: score.patch}, score.patch_calls, name=name, title="A patch for an acceptance test", about=about)


def _list_rules(console: Console) -> None:
    for name, rule in RULES.items():
        console.print(Text(name, style="bold").append(f"  {rule.suite}: {', '.join(rule.formats)}", style="not bold"))
        console.print(Text(f"  {rule.words}"), soft_wrap=True)
        if rule.repository:
            console.print(Text(f"  {rule.repository} {rule.file} at {rule.commit[:10]}", style="dim"), soft_wrap=True)
    for product_rule in PRODUCT_RULES:
        console.print(Text(product_rule.id, style="bold").append(f"  {product_rule.source}: products", style="not bold"), soft_wrap=True)
        console.print(Text(f"  {product_rule.text}"), soft_wrap=True)
    console.print(
        Text("cosine=X, sqnr=DECIBELS, norm=X, rtol=X,atol=Y,misses=SHARE", style="bold").append(
            "  any other threshold: products", style="not bold"
        )
    )


def _show(score: Score, console: Console, seconds: float, patch_file: Path | None) -> None:
    for note in score.notes:
        console.print(Text(f"note: {note}"))
    if score.status is Status.NO_CONTROL:
        console.print(
            Text(
                f"{score.test} accepts no right implementation of {score.format}: what it says of mutants would say nothing",
                style="bold red",
            )
        )
        for row in score.controls:
            console.print(Text(f"  {row.subject.profile}: {row.outcome.verdict.value} {row.outcome.reason}"))
        return
    if score.status is Status.FLAKY:
        console.print(
            Text(f"{score.test} is flaky: its verdict of the same right implementation changes from run to run", style="bold red")
        )
        return
    total = len(score.mutants)
    share = f" ({100 * score.seen / total:.0f} %)" if total else ""
    console.print(Text(f"{score.test} sees {score.seen} of {total} mutants of {score.format}{share}", style="bold"))
    console.print(
        f"{'pairs whose plain kernel it accepts' if is_product(score.format) else 'rules that it accepts'}: {', '.join(score.rules)}"
        + (f"; {score.left_out} mutants of other rules left out" if score.left_out else "")
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kind of mistake")
    table.add_column("seen", justify="right")
    for family, (seen, count) in sorted(by_family(score.mutants).items()):
        table.add_row(family, f"{seen}/{count}")
    if score.independent:
        table.add_row("by other authors", f"{sum(r.is_seen for r in score.independent)}/{len(score.independent)}")
    console.print(table)
    if score.survivors:
        console.print(Text("does not see:", style="bold"))
        for row in score.survivors:
            console.print(Text(f"  {row.subject.id}: {row.subject.what}"), soft_wrap=True)
    _show_right(score.rejected_right, score, console)
    if score.patch or score.patch_calls:
        calls = (
            f" and the {'patterns' if is_product(score.format) else 'calls'} {', '.join(score.patch_calls)}" if score.patch_calls else ""
        )
        where = f", written to {patch_file}" if patch_file is not None else "; --patch FILE writes them"
        what, shown = ("golden calls", "a golden call") if is_product(score.format) else ("blocks", "quantize")
        console.print(f"{len(score.patch)} {what}{calls} find all of them out that {shown} shows{where}")
    console.print(f"{total + len(score.right) + len(score.independent)} implementations in {seconds:.0f} s")


def _show_right(rejected: tuple[Row, ...], score: Score, console: Console) -> None:
    if not rejected:
        console.print(f"rejects none of {len(score.right) + len(score.rules)} right implementations")
        return
    console.print(
        Text(f"rejects {len(rejected)} of {len(score.right) + len(score.rules)} right implementations, among them:", style="bold")
    )
    for row in rejected[:5]:
        name = f"{row.subject.id}: " if is_product(score.format) else ""
        console.print(Text(f"  {name}{row.subject.what}: {row.outcome.reason}"), soft_wrap=True)
