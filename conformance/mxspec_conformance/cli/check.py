"""The command `check`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.console import Console
from rich.text import Text

from mxspec_conformance.cli.console import EXIT_ERROR, fail, make_console, show_progress
from mxspec_conformance.cli.numbers import read_data
from mxspec_conformance.cli.parameters import (
    BLOCK_FORMAT,
    INPUT,
    INPUT_FILE,
    OUTPUT_FILE,
    PRINTED_FILE,
    SECONDS,
    TARGET,
    FileCommand,
    need_jinja2,
    read_shard,
)
from mxspec_conformance.cli.streams import Stopped, until_closed
from mxspec_conformance.judge.wanted import Wanted, list_not_judged
from mxspec_conformance.results.report import STALE_STATES, Report, Requirement, Verdict, explain_level
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.sessions import TOTAL_SECONDS
from mxspec_conformance.targets.texts import clean_text
from mxspec_vectors.files import write_files
from mxspec_vectors.topics import Level

if TYPE_CHECKING:
    from mxspec_conformance.cli.ci import Memory


class CheckCommand(FileCommand):
    """With `--ci` errors in the options, and whatever else ends the command early, are annotations on GitHub too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options."""
        with _annotating("--ci" in args):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _annotating(ctx.params["ci"]):
            return super().invoke(ctx)


@contextmanager
def _annotating(ci: bool) -> Iterator[None]:
    try:
        yield
    except (click.UsageError, TargetError, ValueError, ImportError) as error:
        if ci:  # on stderr: stdout may be a document
            _annotate([], [""], [error.format_message() if isinstance(error, click.UsageError) else str(error)], None, err=True)
        raise


@click.command(cls=CheckCommand)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...", type=TARGET)
@click.option(
    "--profile", help="Judge against this profile; default: the claimed one, or the nearest normative one, which 'nearest' requests."
)
@click.option("--format", "formats", multiple=True, type=BLOCK_FORMAT, help="Only this format; repeatable.")
@click.option(
    "--only", "globs", multiple=True, metavar="GLOB", help="Only requirements whose id matches, such as 'quantize/mxfp4/*'; repeatable."
)
@click.option("--quick/--full", default=None, help="Fewer cases, which detect as many of the known mistakes, or all; default: all.")
@click.option(
    "--ci",
    is_flag=True,
    help="For CI: --quick unless --full, cached while nothing changes; JUnit, annotations on GitHub, exit code 2 for whatever was not judged.",
)
@click.option(
    "--shard",
    default="1/1",
    callback=read_shard,
    metavar="I/N",
    help="Only every N-th format, layout and product, from the I-th on; see docs/reports.md.",
)
@click.option("--no-cache", is_flag=True, help="With --ci: judge again, whatever an earlier run has kept.")
@click.option(
    "--data", "data_files", multiple=True, type=INPUT, metavar="FILE",
    help="Also measure what differences mean on the tensors of this .npy, safetensors or GGUF file; repeatable.",
)  # fmt: skip
@click.option(
    "--level",
    type=click.Choice([level.value for level in Level]),
    default=Level.CONTRACT.value,
    show_default=True,
    help="The least binding level that sets the exit code: must, should, contract; open counts what is left open too.",
)
@click.option(
    "--baseline", "baseline_file", type=INPUT_FILE, help="A list of ids that fail, or an earlier --json result: fail only on what is new."
)
@click.option("--write-baseline", "new_baseline", type=OUTPUT_FILE, help="Write the list of ids that fail, or renew it.")
@click.option("--waivers", "waiver_file", type=INPUT_FILE, help="TOML file of known failures; see docs/reports.md.")
@click.option("--write-waivers", "new_waivers", type=OUTPUT_FILE, help="Write a new waiver file for the current failures.")
@click.option("--json", "json_file", type=PRINTED_FILE, help="Write the result as JSON; '-' prints it.")
@click.option("--html", type=OUTPUT_FILE, callback=need_jinja2, help="Write a self-contained HTML report.")
@click.option("--junit", type=OUTPUT_FILE, help="Write a JUnit XML report; with --ci by default mxspec-junit.xml.")
@click.option("--markdown", type=OUTPUT_FILE, help="Write a Markdown report.")
@click.option("--badge", type=OUTPUT_FILE, help="Write JSON for a shields.io endpoint badge.")
@click.option("--missing-calls", type=OUTPUT_FILE, help="For a results file: write the calls that it does not answer, as a bundle.")
@click.option("--verbose", "-v", is_flag=True, help="Show all, on more than one screen.")
@click.option("--failures", type=click.IntRange(min=0), help="With all: failing cases shown per format; default: 2.")
@click.option(
    "--timeout", type=SECONDS, default=60.0, show_default=True,
    help="Timeout of one call, in seconds; a start may take ten times as long, at least 30 s.",
)  # fmt: skip
@click.option(
    "--total-timeout", type=SECONDS,
    help=f"Timeout of all calls together, in seconds; calls not made by then are timeouts. Default: {TOTAL_SECONDS:g}; at --ci's quick level 300.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, help="Number of targets that are judged at a time.")
@click.option("--in-process", is_flag=True, help="Run the target in-process; a crash ends the checker too.")
def check(
    targets: tuple[str, ...],
    profile: str | None,
    formats: tuple[str, ...],
    globs: tuple[str, ...],
    quick: bool | None,
    ci: bool,
    shard: tuple[int, int],
    no_cache: bool,
    level: str,
    baseline_file: Path | None,
    new_baseline: Path | None,
    data_files: tuple[Path, ...],
    waiver_file: Path | None,
    new_waivers: Path | None,
    json_file: Path | None,
    html: Path | None,
    junit: Path | None,
    markdown: Path | None,
    badge: Path | None,
    missing_calls: Path | None,
    verbose: bool,
    failures: int | None,
    timeout: float,
    total_timeout: float | None,
    jobs: int,
    in_process: bool,
) -> None:
    """Judge TARGETs bit for bit by the golden vectors.

    A target is a known library, a Python file or module, a shared library, a program ('cmd:PROGRAM ARGUMENTS') or a results
    file (.json, .jsonl); see docs/targets.md. A target is code that is run; see SECURITY.md.

    With --ci what the target lists counts as named, and a profile has to be named by it or by --profile.

    Exit code: 0 if all supported requirements of --level and above pass, are open, waived, or known to --baseline; 1 if not;
    2 if a target, or anything that was named, could not be judged.
    """
    from mxspec_conformance.judge.impact import normal_data
    from mxspec_conformance.judge.several import check_several
    from mxspec_conformance.results.baseline import BaselineError, apply_baseline, apply_list, read_baseline, read_list, render_list
    from mxspec_conformance.results.waivers import WaiverError, apply_waivers, read_waivers, render_waivers
    from mxspec_conformance.transports.opening import RESULTS_SUFFIXES
    from mxspec_conformance.transports.recorded import ResultsFile, write_bundle

    today = datetime.now(timezone.utc).date()
    if ci:
        quick, junit = quick is not False, junit or Path("mxspec-junit.xml" if shard == (1, 1) else f"mxspec-junit-{shard[0]}.xml")
    total_timeout = total_timeout or (300.0 if ci and quick else TOTAL_SECONDS)
    give_up = partial(_give_up, targets=targets, junit=junit if ci else None, waiver_file=waiver_file, err=str(json_file) == "-")
    if missing_calls is not None and (len(targets) != 1 or not targets[0].endswith(RESULTS_SUFFIXES)):
        give_up(["--missing-calls takes exactly one results file; other targets are called directly"])
    try:
        waivers = [] if waiver_file is None else read_waivers(waiver_file)
        listed = None if baseline_file is None else read_list(baseline_file)
        earlier = None if baseline_file is None or listed is not None else read_baseline(baseline_file)
    except (WaiverError, BaselineError) as error:
        give_up([str(error)])
    if new_waivers is not None and new_waivers.exists() and new_waivers.stat().st_size:
        give_up([f"--write-waivers {new_waivers} exists, and the reasons in it would be lost; name a new file"])
    if len(targets) > 1 and (listed is not None or new_baseline is not None):
        give_up(["a list of ids is of one target; run `mxspec check` for each, with a list of its own"])
    if not all(map(str.strip, globs)):
        give_up(["--only is empty; name requirements, such as 'quantize/mxfp4/*', or leave it out to judge all"])
    only, partial_run = " ".join(globs) or None, bool(globs or formats or shard != (1, 1))
    reports: list[Report] = []
    lost: list[str] = []
    memory: Memory | None = None
    judged_by = None if profile == "nearest" else profile
    if ci:
        from mxspec_conformance.cli.ci import open_memory

        outputs = tuple(p for p in (json_file, html, junit, markdown, badge, new_waivers, new_baseline, missing_calls) if p is not None)
        options = {
            "quick": quick, "profile": profile, "formats": formats, "globs": globs, "level": level, "data": data_files, "in_process": in_process,
            "timeouts": (timeout, total_timeout), "day": today if waiver_file is not None else None, "waivers": waiver_file,
            "baseline": baseline_file, "shard": shard,
        }  # fmt: skip
        memory = open_memory(targets, options, tuple(p for p in (waiver_file, baseline_file, *data_files) if p is not None), outputs)
    paths = {"html": html, "junit": junit, "markdown": markdown, "badge": badge}
    finish = partial(
        _finish, targets=targets, paths=paths, json_file=json_file, waiver_file=waiver_file, failures=failures, verbose=verbose, ci=ci
    )
    if memory is not None and not any((no_cache, new_waivers, new_baseline, missing_calls)) and (kept := memory.recall()) is not None:
        finish(kept, memory.lost, {}, note=f"from the cache, {memory.file}: no file and no variable has changed")
    if ci and junit is not None:  # that of an earlier run would stay where this one ends early
        junit.unlink(missing_ok=True)
    data = (normal_data(), *map(read_data, data_files))
    opened: list[Any] = [ResultsFile(spec) if missing_calls is not None else spec for spec in targets]
    found: list[Report | TargetError] = []
    begun: list[Report] = []
    try:
        with show_progress(f"judging {', '.join(targets)}") as progress:
            judged = check_several(
                opened, jobs, profile=judged_by, formats=formats or None, only=only, in_process=in_process, timeout=timeout,
                total_timeout=total_timeout, quick=bool(quick), shard=shard, data=data, progress=progress, begun=begun.append,
                **({} if memory is None else {"loaded": memory.learn}),
            )  # fmt: skip
            for each in judged:
                found.append(each)  # noqa: PERF402  # an interrupt leaves what is there
    except KeyboardInterrupt as stopped:
        _show_stopped(targets, found, begun, printed=str(json_file) != "-")
        code = stopped.code if isinstance(stopped, Stopped) else 128 + signal.SIGINT
        files = any((json_file, html, junit, markdown, badge, new_waivers))
        fail(_tell_stopped(targets, found, quick=bool(quick), files=files), code=code)
    for report in found:
        if isinstance(report, TargetError):
            if len(targets) == 1:
                give_up([str(report)])
            lost.append(str(report))  # the others have verdicts
            continue
        reports.append(report)
        if missing_calls is not None:
            count = write_bundle(missing_calls, opened[0].missing)
            noun = "call" if count == 1 else "calls"
            click.echo(f"{count} missing {noun} written to {missing_calls}" if count else "no calls are missing", err=True)
    new_text = None if new_waivers is None else render_waivers(reports, today=today)
    if waiver_file is not None:
        for report in reports:
            apply_waivers(report, waivers, today=today)
    if not reports:
        give_up(lost)
    for report in reports:
        if (part := report.details.get("shard")) and not part["names"]:
            lost.append(f"{report.target['name']}: shard {part['part']} is empty; use fewer shards")
        for wanted in Wanted(only).list_each():
            own = [r for r in report.requirements if wanted.fits(r.id)]
            if all(r.verdict is Verdict.UNSUPPORTED for r in own):
                lost.append(f"{report.target['name']}: {_explain_nothing(report, own, wanted)}")
    if only is not None and not any(report.requirements for report in reports):
        give_up(lost)
    for report in reports:
        report.exit_level = Level(level)
        if report.too_mild:
            names = ", ".join(report.too_mild)
            lost.append(
                f"{report.target['name']}: {names} has no requirement of level {level}, so nothing of it is judged; use --level contract"
            )
        if new_baseline is not None:
            try:
                new_list = render_list(report, new_baseline, partial=partial_run)
            except BaselineError as error:
                give_up([str(error)])
        if listed is not None:
            apply_list(report, listed, partial=partial_run, file=str(baseline_file))
        elif earlier is not None and baseline_file is not None:
            try:
                apply_baseline(report, earlier, baseline_file)
            except BaselineError as error:
                give_up([str(error)])
        lost += list_not_judged(report, formats, whole=ci and not globs, nearest=ci and profile is None)
    contents = {} if new_waivers is None or new_text is None else {new_waivers: new_text.encode("utf-8")}
    if new_baseline is not None:
        contents[new_baseline] = new_list.encode("utf-8")
    reason = "" if memory is None else memory.keep(reports, lost)
    finish(reports, lost, contents, note=f"not kept for the next run: {reason}" if reason else "")


def _finish(
    reports: Sequence[Report], lost: Sequence[str], contents: dict[Path, bytes], *, targets: Sequence[str], paths: Mapping[str, Path | None],
    json_file: Path | None, waiver_file: Path | None, failures: int | None, verbose: bool, ci: bool, note: str,
) -> NoReturn:  # fmt: skip
    """Write the files, show what there is, and end with the exit code."""
    from mxspec_conformance.render.junit import render_junit

    results = [r.as_dict() for r in reports]
    text = json.dumps(results[0] if len(targets) == 1 else results, indent=1) + "\n"
    contents = _render(results, **paths) | contents
    if lost and paths["junit"] is not None:
        contents |= {paths["junit"]: render_junit(results, lost)}
    printed = str(json_file) == "-"
    if json_file is not None and not printed:
        contents[json_file] = text.encode("ascii")
    problem: OSError | None = None
    try:  # before anything is printed: the reader of the output may stop
        write_files(contents)
    except OSError as error:
        problem = error
    with until_closed():
        if printed:
            click.echo(text, nl=False)
        else:
            _show(reports, make_console(), 2 if failures is None else failures, brief=failures is None and not verbose)
            if note:
                click.echo(note)
    if problem is not None:
        raise problem
    if ci:
        _annotate(reports, targets, lost, waiver_file, err=printed)
    for message in lost:
        click.echo(f"mxspec: {clean_text(message)}", err=True)
    raise click.exceptions.Exit(EXIT_ERROR if lost else max(r.exit_code for r in reports))


def _give_up(lost: Sequence[str], *, targets: Sequence[str], junit: Path | None, waiver_file: Path | None, err: bool) -> NoReturn:
    """End where nothing was judged; junit: the file of `--ci`."""
    if junit is not None:
        from mxspec_conformance.render.junit import render_junit

        write_files({junit: render_junit([], lost)})
        _annotate([], targets, lost, waiver_file, err=err)
    fail("\n".join(lost))


def _annotate(reports: Sequence[Report], targets: Sequence[str], lost: Sequence[str], waiver_file: Path | None, *, err: bool) -> None:
    from mxspec_conformance.cli.ci import list_annotations

    if os.environ.get("GITHUB_ACTIONS"):
        for line in list_annotations(reports, targets, lost, waiver_file):
            click.echo(line, err=err)


def _explain_nothing(report: Report, unsupported: Sequence[Requirement], wanted: Wanted) -> str:
    """Why nothing that fits a glob has a verdict."""
    if unsupported:
        return "; ".join(f"{r.id} is not judged: {r.note}" for r in unsupported[:8])
    capabilities = report.target["capabilities"]
    lists = ("formats", "elements", "layouts", "sparse_formats", "affine", "products", "fused")
    return wanted.explain_nothing(str(name) for key in lists for name in capabilities.get(key, ()))


def _show_stopped(targets: Sequence[str], found: Sequence[Report | TargetError], begun: Sequence[Report], *, printed: bool) -> None:
    """The formats that were judged before an interrupt, which may have come in the middle of a target."""
    from mxspec_conformance.render.terminal import summary_table

    whole = [r for r in found if isinstance(r, Report)]
    reports = whole + [r for r in begun if r.formats and not any(r is w for w in whole)]
    if printed and reports:
        with until_closed():
            console = make_console()
            console.print(Text("judged before the stop", style="bold"))
            console.print(summary_table(reports))


def _tell_stopped(targets: Sequence[str], found: Sequence[Report | TargetError], *, quick: bool, files: bool) -> str:
    """What an interrupted run leaves, and how to run it again."""
    left = targets[len(found) :]
    words = (
        f"stopped; {len(found)} of {len(targets)} targets are judged, not {', '.join(left)}"
        if len(targets) > 1
        else f"stopped; {targets[0]} is not judged to the end"
    )
    lost = ", and no file is written" if files else ""
    less = "" if quick else " with --quick it takes seconds,"
    return f"{words}. Nothing is kept{lost}: the same command judges all of it again;{less} with --format or --only GLOB parts are judged alone"


def _render(results: Sequence[dict[str, Any]], **paths: Path | None) -> dict[Path, bytes]:
    """The reports that were requested, to be written all or none."""
    from mxspec_conformance.render import RENDERERS

    return {path: RENDERERS[kind](results) for kind, path in paths.items() if path is not None}


def _show(reports: Sequence[Report], console: Console, failures: int, *, brief: bool) -> None:
    from mxspec_conformance.render.terminal import print_reports

    print_reports(reports, console, failures=failures, brief=brief)
    for report in reports:
        for level in dict.fromkeys(waiver.get("level", "") for waiver in report.waivers):
            if level:
                console.print(Text(explain_level("the waiver file", level, report.level)))
        for waiver in report.waivers:
            if waiver["state"] in STALE_STATES:
                console.print(Text(f"stale waiver {waiver['id']}: {waiver['state']}", style="bold red"))
