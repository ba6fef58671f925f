"""A report as terminal output in 80 columns: one table, then the failures."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mxspec_conformance.results.conclusion import conclude, is_provisional
from mxspec_conformance.results.report import GOOD, Report, Requirement, Verdict
from mxspec_vectors.topics import Level

_STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.DEVIATION: "yellow",
    Verdict.OPEN: "cyan",
    Verdict.UNSUPPORTED: "dim",
    Verdict.ERROR: "bold red",
    Verdict.TIMEOUT: "bold red",
    Verdict.WAIVED: "cyan",
    Verdict.STALE_WAIVER: "red",
}


def summary_table(reports: list[Report]) -> Table:
    """One row per target and format: nearest profile, identical profile, deviations."""
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
    table.add_column("target", no_wrap=True)
    table.add_column("format", no_wrap=True)
    table.add_column("verdict and deviations", ratio=1, overflow="fold")
    table.add_column("failing", justify="right", no_wrap=True)
    for report in reports:
        name = f"{report.target['name']} {report.target['version']}"
        if not report.formats:
            counts = ", ".join(f"{n} {v}" for v, n in report.counts.items())
            table.add_row(name, "elements", Text(counts), "")
        for result in report.formats:
            lines = [Text(conclude(result, report.requirements).text, style="bold")]
            others = sorted((i for i in result.identical_to if i != result.judged_against), key=is_provisional)
            if others and "quantize" in result.operations:
                more = f" (+{len(others) - 1})" if len(others) > 1 else ""
                lines.append(
                    Text(f"same bits as {others[0]}{' (provisional)' if is_provisional(others[0]) else ''}{more}")
                )
            lines += [Text(f"- {d}", style="yellow") for d in result.deviations]
            lines += [Text(f"- open: {c}", style="cyan") for c in result.open_choices]
            table.add_row(name, result.format, Group(*lines), f"{result.failing}/{result.cases}")
            name = ""
    return table


def requirement_table(report: Report) -> Table:
    """Every requirement that is neither passed nor unsupported."""
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
    table.add_column("requirement", no_wrap=True)
    table.add_column("level", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("failing", justify="right", no_wrap=True)
    table.add_column("note", ratio=1, overflow="fold")
    for r in report.requirements:
        if r.verdict in (Verdict.PASS, Verdict.UNSUPPORTED):
            continue
        table.add_row(
            r.id, r.level, Text(r.verdict.value, style=_STYLES[r.verdict]), f"{r.failing}/{r.cases}", r.note or r.text
        )
    return table


def failure_panel(requirement: Requirement) -> RenderableType:
    """One failing case: input, expected and returned values, the first step that differs."""
    failure = requirement.first
    assert failure is not None
    lines: list[RenderableType] = [
        Text(f"{requirement.id}  {requirement.text}", style="bold"),
        Text(f"  case {failure.case}", style="dim"),
    ]
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("lane", "input", "expected", "returned"):
        grid.add_column(column, no_wrap=True)
    given = failure.given.get("x")
    if isinstance(given, dict):
        wanted, returned = failure.expected.get("codes", {}), failure.returned.get("codes", {})
        if "scale" in failure.expected:
            grid.add_row("scale", "", failure.expected["scale"], _marked(failure.returned["scale"], failure.expected["scale"]))
        for lane in list(given)[:12]:
            want, got = wanted.get(lane, ""), returned.get(lane, "")
            grid.add_row(lane.removeprefix("lane "), given[lane], want, _marked(got, want))
        lines.append(Padding(grid, (0, 0, 0, 2)))
        if len(given) > 12:
            lines.append(Text(f"  ... and {len(given) - 12} more lanes (see --json)"))
        for key, value in failure.given.items():
            if key not in ("x", "other lanes"):
                lines.append(Text(f"  {key}: {_plain(value)}"))
        if "answer" in failure.returned:
            lines.append(Text(f"  returned: {failure.returned['answer']}", style="bold red"))
    else:
        facts = Table(box=None, pad_edge=False, show_header=False)
        for key, value in failure.given.items():
            facts.add_row("given", key, _plain(value))
        for name, values in (("expected", failure.expected), ("returned", failure.returned)):
            for key, value in values.items():
                facts.add_row(name, key, Text(_plain(value), style="bold red" if name == "returned" else ""))
        lines.append(Padding(facts, (0, 0, 0, 2)))
    lines += [Text(f"  {step}") for step in failure.steps]
    if failure.also:
        lines.append(Text(f"  profiles returning the same bits: {', '.join(failure.also[:4])}", style="yellow"))
    if failure.snippet:
        lines.append(Padding(Text(failure.snippet, style="dim"), (0, 0, 0, 4)))
    return Group(*lines, Text(""))


def _plain(value: object) -> str:
    """A value of a failure as text; of a tensor scale each kind by its bits."""
    if isinstance(value, dict):
        return ", ".join(f"{k} 0x{v}" for k, v in value.items())
    return str(value)


def failure_text(requirement: Requirement) -> str:
    """The same as plain text of at most 100 columns; the requirement's text if no case can be shown."""
    if requirement.first is None:
        return f"{requirement.id}  {requirement.text}\n{requirement.failing} of {requirement.cases} cases fail"
    console = Console(width=100, file=StringIO(), color_system=None, highlight=False, markup=False)
    console.print(failure_panel(requirement))
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines())


def print_divergences(report: Report, console: Console, *, most: int = 3) -> None:
    """For each format the first few failing requirements: the smallest input, and the first step that differs."""
    shown: dict[str, int] = {}
    for requirement in report.requirements:
        failure, fmt = requirement.first, requirement.format
        if failure is None or not isinstance(failure.given.get("x"), dict) or shown.get(fmt, 0) >= most:
            continue
        shown[fmt] = shown.get(fmt, 0) + 1
        inputs = "; ".join(list(failure.given["x"].values())[:3])
        console.print(Text.assemble((f"{report.target['name']} {requirement.id}", "bold"), f": {inputs}"))
        for step in failure.steps[:2]:
            console.print(Padding(Text(step), (0, 0, 0, 4)))


def _marked(got: str, want: str) -> Text:
    return Text(got, style="" if got == want else "bold red")


def print_report(report: Report, console: Console, *, failures: int = 3) -> None:
    """The summary, the requirements that do not pass, the first failures of each format, and the verdict."""
    console.print(summary_table([report]))
    console.print()
    open_requirements = [r for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED)]
    if open_requirements:
        console.print(requirement_table(report))
        console.print()
    shown: dict[str, int] = {}
    for requirement in open_requirements:
        fmt = requirement.format
        if requirement.first is None or not requirement.first.given or shown.get(fmt, 0) >= failures:
            continue
        if requirement.verdict is Verdict.WAIVED:
            continue
        shown[fmt] = shown.get(fmt, 0) + 1
        console.print(failure_panel(requirement))
    counts = ", ".join(f"{n} {v}" for v, n in report.counts.items()) or "no requirement applies"
    waived = " or are waived" if Verdict.WAIVED.value in report.counts else ""
    limited = "" if report.exit_level is Level.CONTRACT else f" at level {report.exit_level.value}"
    fine = not any(r.verdict not in GOOD for r in report.requirements)
    conclusion = {
        0: f"all supported requirements pass{waived}" if fine else f"nothing fails that counts{limited}",
        1: "not all requirements pass",
        2: "nothing could be judged",
    }
    console.print(
        Text(f"{report.target['name']} {report.target['version']}: {counts}; {conclusion[report.exit_code]} "
             f"({report.seconds:.1f} s, vectors {report.vectors[:12]})", style="bold")
    )  # fmt: skip
    if report.baseline is not None:
        b = report.baseline
        console.print(Text(f"beside the baseline of version {b.version}: {len(b.known)} known, {len(b.new)} new, {len(b.gone)} gone"))
        for name in b.new:
            console.print(Text(f"  new: {name}", style="bold red"))
    if nearest := sorted({f.judged_against for f in report.formats if f.chosen == "nearest"}):
        console.print(
            f"Judged against the nearest profile: if the kernel's rule changes, so does the profile. To fix the profile, write "
            f"PROFILE = {nearest[0]!r} in the target, or pass --profile {nearest[0]}."
        )
