"""The command `fuzz`."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mxspec.dot import ACCUMULATORS
from mxspec_conformance.cli.console import CHOSEN_BY, EXIT_ERROR, make_console, show_progress
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, INPUT_FILE, MINUTES, OUTPUT_FOLDER, TARGET, FileCommand, campaign_options
from mxspec_conformance.cli.streams import until_closed
from mxspec_conformance.fuzzing.blocks.coverage import Reach
from mxspec_conformance.fuzzing.run import fuzz as run_fuzz, replay, save
from mxspec_conformance.fuzzing.subject import Campaign, Finding, Settings
from mxspec_conformance.results.report import FormatResult, Report
from mxspec_vectors.files import write_file

#: Environment variable that sets the seed if --seed is not given; the test suite uses it too.
SEED_VARIABLE = "MXSPEC_SEED"


@click.command(cls=FileCommand)
@click.argument("target", type=TARGET)
@click.option("--minutes", type=MINUTES, default=1.0, show_default=True, help="Time limit.")
@click.option("--batches", type=click.IntRange(1), help="Stop after this many batches instead of a time limit (reproducible).")
@click.option("--seed", type=click.IntRange(0), help="Random seed; default: MXSPEC_SEED, or a random one.")
@click.option("--format", "formats", multiple=True, type=BLOCK_FORMAT, help="Only this format; repeatable.")
@click.option("--product", "products", multiple=True, metavar="NAME", help="Only this product, such as mxfp8_e4m3@mxfp4; repeatable.")
@click.option(
    "--operation", "operations", multiple=True, metavar="NAME",
    help="Only this function of affine integers or sparse operands, such as prune or quantize_affine.int4-g64-bias-float16; repeatable.",
)  # fmt: skip
@click.option(
    "--accumulator",
    metavar="CLASS",
    type=click.Choice([*ACCUMULATORS]),
    help="Judge products by this class; default: the declared one, or float32.",
)
@click.option("--profile", help="Compare with this profile; default: the profile nearest to the target.")
@click.option("--stop-on-first", is_flag=True, help="Stop after the first batch that contains a failure.")
@click.option("--out", type=OUTPUT_FOLDER, help="Write minimized failures as vector files to this folder.")
@click.option("--replay", "replay_file", type=INPUT_FILE, help="Only run the cases of this file again.")
@campaign_options(60.0, "Save finished batches to this file and resume from it.")
def fuzz(
    target: str,
    minutes: float,
    batches: int | None,
    seed: int | None,
    formats: tuple[str, ...],
    products: tuple[str, ...],
    operations: tuple[str, ...],
    accumulator: str | None,
    profile: str | None,
    stop_on_first: bool,
    out: Path | None,
    replay_file: Path | None,
    state: Path | None,
    restart: bool,
    jobs: int | None,
    dask: str | None,
    json_file: Path | None,
    timeout: float,
    in_process: bool,
) -> None:
    """Search for inputs that TARGET gets wrong.

    A quantizer is compared with a profile. Blocks are sampled where the rules change their results, and passed in calls of
    many sizes and memory layouts. Each failure is minimized to a block with few non-zero lanes.

    A matmul is given random products. Each output is judged by what its class of additions allows, and each wrong product
    is reduced to the smallest one that is still wrong.

    Functions of affine integers and of sparse operands are given random groups, judged as the vectors are.

    Failures are grouped by cause, and each cause is reported once. See docs/fuzzing.md.

    Ctrl-C stops sampling; failures found so far are still minimized and reported.

    Exit code: 0 if nothing differs, 1 if something does, 2 if nothing could be judged.
    """
    if replay_file is not None:
        raise click.exceptions.Exit(_replay(target, replay_file, timeout, in_process))
    chosen = _choose_seed(seed)
    settings = Settings(
        seed=chosen, minutes=minutes, batches=batches, formats=formats, profile=profile, products=products,
        operations=operations, accumulator=accumulator, first=stop_on_first,
    )  # fmt: skip
    with show_progress("fuzzing") as progress:
        campaign = run_fuzz(
            target, settings, state_file=state, fresh=restart, jobs=jobs or os.cpu_count() or 1, dask=dask,
            timeout=timeout, in_process=in_process, progress=progress,
        )  # fmt: skip
    saved = [] if out is None else save(out, [*campaign.findings, *campaign.products, *campaign.operations])
    if json_file is not None:
        write_file(json_file, (json.dumps(campaign.report.as_dict(), indent=1) + "\n").encode("ascii"))
    console = make_console()
    with until_closed():
        show_campaign(campaign, console)
        for path in saved:
            console.print(Text(f"saved {path}; replay: mxspec fuzz {target} --replay {path}"))
        console.print(Text(f"to repeat this run: --seed {chosen}", style="dim"))
        if campaign.report.details["stopped"] == "interrupt":
            hint = f"the same command with --seed {chosen} resumes from {state}" if state else "pass --state FILE to make a run resumable"
            console.print(Text(f"interrupted; {hint}", style="yellow"))
    raise click.exceptions.Exit(campaign.report.exit_code)


def _choose_seed(seed: int | None) -> int:
    """Raises ValueError if the seed in the environment is not a number."""
    if seed is not None:
        return seed
    text = os.environ.get(SEED_VARIABLE)
    if text is None:
        return secrets.randbelow(1 << 31)
    if not text.isdecimal():
        raise ValueError(f"{SEED_VARIABLE}={text!r} is not a seed; set it to a non-negative integer")
    return int(text)


def _replay(target: str, path: Path, timeout: float, in_process: bool) -> int:
    from mxspec_conformance.campaign import Named
    from mxspec_conformance.judge.shapes import fit_session
    from mxspec_conformance.transports.opening import open_target

    session = fit_session(open_target(target, in_process=in_process, timeout=timeout))
    try:
        results = replay(path, session, partial(Named(target, getattr(session, "limits", {})).open, timeout))
    finally:
        session.close()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("case", "result", "difference"):
        table.add_column(column, overflow="fold")
    for r in results:
        table.add_row(r.id, Text(r.verdict, style="green" if r.verdict == "right" else "bold red"), r.words)
    console = make_console()
    console.print(table)
    wrong = sum(r.verdict != "right" for r in results)
    console.print(f"{wrong} of {len(results)} cases differ" if wrong else f"{len(results)} of {len(results)} cases pass")
    return 1 if wrong else 0


def show_campaign(campaign: Campaign, console: Console) -> None:
    """The amount of input, its coverage, and each cause with its smallest failing block or product."""
    from mxspec_conformance.render.terminal import failure_panel

    report = campaign.report
    for result in report.formats:
        if result.format in report.details["totals"]:
            _show_amount(report, result, console)
    _show_coverage(report.details["coverage"], console)
    for name, counts in report.details.get("product_coverage", {}).items():
        reached = ", ".join(f"{hit} of {size} {what}" for what, (hit, size) in counts.items())
        if reached:
            console.print(Text(f"{name} multiplied {reached}"))
    _show_relations(report.details["totals"], console)
    for requirement in report.requirements:
        if requirement.note and (requirement.first is None or requirement.id.endswith("/answers")):
            console.print(Text(f"{requirement.id}: {requirement.verdict.value}: {requirement.note}", style="yellow"))
            if requirement.first is not None:
                console.print(failure_panel(requirement))
    # Products first, then groups; each kind is numbered by itself.
    for causes in (campaign.products, campaign.operations, campaign.findings):
        _show_causes(report, causes, console)
    rest = report.details["not_reduced"]
    if rest:
        console.print(Text(f"{rest} more mismatches were not minimized", style="yellow"))
    for words in report.details["not_seen_again"]:
        console.print(Text(f"seen once, did not reproduce: {words}", style="yellow"))
    count = len(campaign.findings) + len(campaign.products) + len(campaign.operations)
    others = {0: "nothing differs", EXIT_ERROR: "nothing was judged in the time given; allow more with --minutes"}
    verdict = f"{count} cause{'s' * (count != 1)}" if count else others.get(report.exit_code, "see above")
    stopped = " (interrupted)" if report.details["stopped"] == "interrupt" else ""
    console.print(Text(f"{verdict}{stopped}; {report.seconds:.1f} s on {report.environment['campaign']['workers']}", style="bold"))


def _show_amount(report: Report, result: FormatResult, console: Console) -> None:
    """What a format or product was judged by, and how much was tested."""
    total = report.details["totals"][result.format]
    console.print(
        Text(f"{report.target['name']} {report.target['version']}: {result.format} against {result.judged_against} "
             f"({CHOSEN_BY[result.chosen]})", style="bold")
    )  # fmt: skip
    batches = f"{total['batches']} batch{'es' * (total['batches'] != 1)}"
    if "products" in total:
        share = f"{100 * total['certain'] / max(total['outputs'], 1):.0f} %"
        console.print(
            f"{batches}, {total['products']:,} products, {total['outputs']:,} outputs, "
            f"{share} of them with one right result; {total['failing']:,} products differ"
        )
    elif "groups" in total:
        console.print(f"{batches}, {total['groups']:,} groups, {total['elements']:,} elements; {total['failing']:,} groups differ")
    else:
        console.print(f"{batches}, {total['blocks']:,} blocks, {total['elements']:,} elements; {total['failing']:,} blocks differ")


def _show_causes(report: Report, causes: Sequence[Finding], console: Console) -> None:
    """Each cause, the first four with what was given and returned."""
    from mxspec_conformance.render.terminal import failure_panel

    for number, cause in enumerate(causes, 1):
        console.print()
        console.print(Text(f"cause {number}, {cause.job.fmt}: {cause.words}", style="bold red"))
        console.print(Padding(Text(f"seen {cause.mismatches} times; {cause.how}", style="dim"), (0, 0, 0, 2)))
        if number <= 4:
            requirement = next(r for r in report.requirements if r.id == f"fuzz/{cause.job.fmt}/{cause.topic}")
            console.print(failure_panel(replace(requirement, first=cause.failure)))


#: Short names of the coverage classes, for a table of 80 columns.
_SHORT = {
    Reach.TIES: "ties", Reach.BELOW_TIES: "below", Reach.ABOVE_TIES: "above", Reach.VALUES: "values", Reach.CODES: "codes",
    Reach.SCALES: "scales", Reach.BINADES: "binade", Reach.LANES: "lane", Reach.PAIRS: "pairs", Reach.SPECIALS: "NaN",
    Reach.CODES_UNDER_SCALES: "deq.",
}  # fmt: skip


def _show_coverage(coverage: dict[str, dict[str, list[int]]], console: Console) -> None:
    """The coverage of each class in percent."""
    if not coverage:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("coverage, %", no_wrap=True)
    formats = list(dict.fromkeys(name.partition(" ")[0] for name in coverage))
    classes = list(dict.fromkeys(Reach(c) for counts in coverage.values() for c in counts))
    for c in classes:
        table.add_column(_SHORT[c], justify="right", no_wrap=True)
    for name in formats:
        counts = {c: n for label in (name, f"{name} codes") for c, n in coverage.get(label, {}).items()}
        table.add_row(name, *(str(100 * counts[c][0] // counts[c][1]) if c in counts else "" for c in classes))
    console.print(table)


def _show_relations(totals: dict[str, dict[str, dict[str, dict[str, int]]]], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("relation", ratio=1)
    table.add_column("blocks", justify="right")
    table.add_column("violated", justify="right")
    summed: dict[str, list[int]] = {}
    for total in totals.values():
        for name, numbers in total["relations"].items():
            entry = summed.setdefault(name, [0, 0])
            entry[0] += numbers["compared"]
            entry[1] += numbers["broken"]
    for name, (compared, broken) in summed.items():
        table.add_row(name, f"{compared:,}", Text(f"{broken:,}", style="red" if broken else ""))
    if summed:
        console.print(table)
