"""The command `check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from mxspec_conformance.cli.console import fail, make_console, show_progress
from mxspec_conformance.cli.numbers import read_data
from mxspec_conformance.cli.parameters import BLOCK_FORMAT
from mxspec_conformance.results.report import STALE_STATES, Report, WaiverState
from mxspec_vectors.files import VectorError, write_file, write_files

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--profile", help="Judge against this profile; default: the claimed one, or the nearest normative one.")
@click.option(
    "--format", "formats", multiple=True, type=BLOCK_FORMAT, help="Only this format; repeatable."
)
@click.option("--only", metavar="GLOB", help="Only requirements whose id matches, such as 'quantize/mxfp4/*'.")
@click.option("--quick", is_flag=True, help="Run a reduced case set with the same mutation score.")
@click.option(
    "--data", "data_files", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Also measure what differences mean on the tensors of this .npy, safetensors or GGUF file; repeatable.",
)  # fmt: skip
@click.option("--waivers", "waiver_file", type=_FILE, help="TOML file of known failures; see docs/reports.md.")
@click.option("--write-waivers", "new_waivers", type=_FILE, help="Write a waiver file for the current failures.")
@click.option("--json", "json_file", type=_FILE, help="Write the result as JSON; '-' prints it.")
@click.option("--html", type=_FILE, help="Write a self-contained HTML report.")
@click.option("--junit", type=_FILE, help="Write a JUnit XML report.")
@click.option("--markdown", type=_FILE, help="Write a Markdown report.")
@click.option("--badge", type=_FILE, help="Write JSON for a shields.io endpoint badge.")
@click.option(
    "--missing-calls", type=_FILE, help="For a results file: write the calls that it does not answer, as a bundle."
)
@click.option(
    "--failures", type=click.IntRange(min=0), default=2, show_default=True, help="Failing cases shown per format."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True,
    help="Timeout of one call, in seconds.",
)  # fmt: skip
@click.option("--in-process", is_flag=True, help="Run the target in-process; a crash ends the checker too.")
def check(
    targets: tuple[str, ...],
    profile: str | None,
    formats: tuple[str, ...],
    only: str | None,
    quick: bool,
    data_files: tuple[Path, ...],
    waiver_file: Path | None,
    new_waivers: Path | None,
    json_file: Path | None,
    html: Path | None,
    junit: Path | None,
    markdown: Path | None,
    badge: Path | None,
    missing_calls: Path | None,
    failures: int,
    timeout: float,
    in_process: bool,
) -> None:
    """Judge TARGETs bit for bit by the golden vectors.

    A target is a known library, a Python file or module, a shared library, a program ('cmd:PROGRAM ARGUMENTS') or a results
    file (.json, .jsonl); see docs/targets.md. A target is code that is run; see SECURITY.md.

    Exit code: 0 if all supported requirements pass or are waived, 1 if not, 2 if nothing could be judged.
    """
    from mxspec_conformance.judge.check import check as run_check
    from mxspec_conformance.judge.impact import normal_data
    from mxspec_conformance.results.waivers import WaiverError, apply_waivers, read_waivers, render_waivers
    from mxspec_conformance.transports.opening import RESULTS_SUFFIXES
    from mxspec_conformance.transports.recorded import ResultsFile, write_bundle

    today = datetime.now(UTC).date()
    if missing_calls is not None and (len(targets) != 1 or not targets[0].endswith(RESULTS_SUFFIXES)):
        fail("--missing-calls takes exactly one results file; other targets are called directly")
    try:
        waivers = [] if waiver_file is None else read_waivers(waiver_file)
    except WaiverError as error:
        fail(str(error))
    data = (normal_data(), *map(read_data, data_files))
    reports = []
    for spec in targets:
        target: Any = ResultsFile(spec) if missing_calls is not None else spec
        try:
            with show_progress(f"judging {spec}") as progress:
                report = run_check(
                    target, profile=profile, formats=formats or None, only=only,
                    in_process=in_process, timeout=timeout, quick=quick, data=data, progress=progress,
                )  # fmt: skip
        except ValueError as error:
            if isinstance(error, VectorError):
                raise
            fail(str(error))
        reports.append(report)
        if missing_calls is not None:
            count = write_bundle(missing_calls, target.missing)
            noun = "call" if count == 1 else "calls"
            click.echo(
                f"{count} missing {noun} written to {missing_calls}" if count else "no calls are missing", err=True
            )
    new_text = None if new_waivers is None else render_waivers(reports, today=today)
    if waiver_file is not None:
        for report in reports:
            apply_waivers(report, waivers, today=today)
    if str(json_file) != "-":
        _show(reports, make_console(), failures)
    if new_waivers is not None and new_text is not None:
        write_file(new_waivers, new_text.encode("utf-8"))
    results = [r.as_dict() for r in reports]
    _write_documents(results, html=html, junit=junit, markdown=markdown, badge=badge)
    if json_file is not None:
        text = json.dumps(results[0] if len(results) == 1 else results, indent=1) + "\n"
        if str(json_file) == "-":
            click.echo(text, nl=False)
        else:
            write_file(json_file, text.encode("ascii"))
    raise click.exceptions.Exit(max(r.exit_code for r in reports))


def _write_documents(results: Sequence[dict[str, Any]], **paths: Path | None) -> None:
    """Write the reports that were requested: all files, or none."""
    from mxspec_conformance.render import RENDERERS

    chosen = {kind: path for kind, path in paths.items() if path is not None}
    write_files({path: RENDERERS[kind](results) for kind, path in chosen.items()})


def _show(reports: Sequence[Report], console: Console, failures: int) -> None:
    from mxspec_conformance.render.terminal import print_divergences, print_legend, print_report, summary_table

    if len(reports) == 1:
        print_report(reports[0], console, failures=failures)
    else:
        console.print(summary_table(list(reports)))
        console.print(Text("\nSmallest failing inputs, and the first step that differs from the profile", style="bold"))
        for report in reports:
            print_divergences(report, console)
        console.print()
        print_legend(reports, console)
        for report in reports:
            counts = ", ".join(f"{n} {v}" for v, n in report.counts.items())
            console.print(
                Text(f"{report.target['name']}: {counts or 'nothing could be judged'} ({report.seconds:.1f} s)")
            )
    for report in reports:
        for waiver in report.waivers:
            if waiver["state"] in STALE_STATES:
                console.print(Text(f"stale waiver {waiver['id']}: {waiver['state']}", style="bold red"))
            elif waiver["state"] == WaiverState.UNFINISHED:
                text = f"waiver {waiver['id']} is {waiver['state']}: write why the failure is accepted, and a link"
                console.print(Text(text, style="bold yellow"))
