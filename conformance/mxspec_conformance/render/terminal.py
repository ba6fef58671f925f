"""A report as terminal output in 80 columns: one table, then the failures."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mxspec_conformance.render.affine import list_affine
from mxspec_conformance.render.headline import list_headlines, pick_lanes
from mxspec_conformance.render.impact import describe_impact
from mxspec_conformance.render.rows import Row, Rows
from mxspec_conformance.results.baseline import list_unmatched
from mxspec_conformance.results.conclusion import NO_ANSWER, conclude, is_provisional, list_unmet
from mxspec_conformance.results.report import FormatResult, Report, Requirement, Verdict, explain_level
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_vectors.topics import Level

#: Verdicts of which a screen of several targets gives an example.
_UNMET = (Verdict.FAIL, Verdict.DEVIATION, Verdict.ERROR, Verdict.TIMEOUT)
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


#: Lines of a screen; at most those of its sentences and of the remarks at its end, and at least those of its tables.
SCREEN, _HEAD, _TAIL, _TABLES = 40, 7, 6, 9
_NO_END = sys.maxsize
#: Requirements of one reason that the screen names.
_MOST_NAMED = 6
#: A profile that has this many times fewer failing cases than the one that was judged by is named.
_MUCH_CLOSER = 4
#: What the words on the screen mean, for people who see them for the first time; each at most 80 columns.
_OF_FORMATS = "failing: cases that contradict the profile; nearest: the one that agrees best"
_OF_VERDICTS = "deviation: one other profile explains every failing case; fail: none does"


def _name_subject(report: Report) -> str:
    """What a target without block formats was judged in."""
    subjects = {OPERATIONS[r.operation].subject if r.operation in OPERATIONS else "" for r in report.requirements}
    return max(subjects) if len(subjects) == 1 and all(subjects) else "elements"


def summary_table(reports: Sequence[Report]) -> Rows:
    """For each target its formats: nearest profile, failing cases; below, once for alike formats, what they are like."""
    rows = []
    for report in reports:
        name = f"{report.target['name']} {report.target['version']}"
        lines = list(list_affine(report))
        if not report.formats and not lines:
            rows.append(Row((Text(name), Text(_name_subject(report)), Text(report.counts_text), Text(""))))
        alike: dict[tuple[str, ...], list[FormatResult]] = {}
        for result in report.formats:
            key = (*(line.plain for line in _describe_format(result)), *_name_unmet(result, report.requirements, "*"))
            alike.setdefault(key, []).append(result)
        for group in alike.values():
            for result in group:
                conclusion = conclude(result, report.requirements)
                verdict = Text(conclusion.text, style="bold")
                failing = Text(f"{conclusion.failing}/{conclusion.cases}")
                unmet = _name_unmet(result, report.requirements, "*" if len(group) > 1 else result.format)
                below = (*_describe_format(result), *(Text(f"- {line}", style="yellow") for line in unmet))
                if below and result is not group[-1]:
                    below = (Text(f"as {group[-1].format}, below", style="dim"),)
                named = f"{result.format} " if len(group) > 1 else ""
                below += tuple(Text(f"{named}{line}", style="cyan") for line in describe_impact(result))
                rows.append(Row((Text(name), Text(result.format), verdict, failing), below))
                name = ""
        for line in lines:
            cells = (Text(name), Text(line.format), Text(line.text, style="bold"), Text(f"{line.failing}/{line.cases}"))
            rows.append(Row(cells))
            name = ""
    return Rows(("target", "format", "verdict and deviations", "failing"), rows)


def _name_unmet(result: FormatResult, requirements: Sequence[Requirement], name: str) -> tuple[str, ...]:
    """Which requirements fail where no case of the vectors does; name: stands for the format."""
    if result.failing or result.deviations or result.unanswered:
        return ()
    unmet = [r for r in requirements if r.format == result.format and r.verdict in _UNMET]
    return (f"fails {', '.join(f'{r.operation}/{name}/{r.topic}' for r in unmet)}",) if unmet else ()


def _describe_format(result: FormatResult) -> tuple[Text, ...]:
    lines = []
    others = sorted((i for i in result.identical_to if i != result.judged_against), key=is_provisional)
    if others and "quantize" in result.operations:
        more = f" (+{len(others) - 1})" if len(others) > 1 else ""
        lines.append(Text(f"same bits as {others[0]}{' (provisional)' if is_provisional(others[0]) else ''}{more}"))
    lines += [Text(f"- {d}", style="yellow") for d in result.deviations]
    lines += [Text(f"- {result.unanswered}", style="yellow")] if result.declined else []
    return (*lines, *(Text(f"- open: {c}", style="cyan") for c in result.open_choices))


def requirement_table(report: Report) -> Rows:
    """Every requirement that is neither passed nor unsupported; a reason that several have stands once, below the last."""
    alike: dict[tuple[Verdict, str], list[Requirement]] = {}
    for r in list_unmet(report):
        alike.setdefault((r.verdict, _without_numbers(r.note or r.text)), []).append(r)
    rows = []
    for (verdict, _), group in alike.items():
        reason = group[0].note or group[0].text
        if len(group) > 1:
            reason = f"the first of these {len(group)}: {reason}"
        for r in group:
            cells = (Text(r.id), Text(r.level), Text(report.name_verdict(r), style=_STYLES[verdict]), Text(f"{r.failing}/{r.cases}"))
            rows.append(Row(cells, (Text(reason, style="dim"),) if r is group[-1] else ()))
    return Rows(("requirement", "level", "verdict", "failing"), rows)


def _without_numbers(text: str) -> str:
    """A reason as far as alike ones agree: targets put shapes and counts into their messages."""
    return re.sub(r"\d+", "0", text)


def list_legend(reports: Sequence[Report]) -> list[Text]:
    """What the words on the screen mean, in at most two lines; nothing where all is well."""
    verdicts = {r.verdict for report in reports for r in report.requirements}
    failing = any(f.failing for report in reports for f in report.formats)
    explained = bool(verdicts & {Verdict.DEVIATION, Verdict.FAIL})
    return [Text(line, style="dim") for line, due in ((_OF_FORMATS, failing), (_OF_VERDICTS, explained)) if due]


def failure_panel(requirement: Requirement, *, brief: bool = False, code: bool = True) -> RenderableType:
    """One failing case: input, expected and returned values, the first step that differs, the lines that reproduce it.

    brief: of all of these the most telling; code: with those lines.
    """
    failure = requirement.first
    assert failure is not None
    lines: list[RenderableType] = [Text(f"{requirement.id}  {requirement.text}", style="bold"), Text(f"  case {failure.case}", style="dim")]
    rows: list[tuple[str, str, str, Text]] = []
    given = failure.given.get("x")
    if isinstance(given, dict):
        wanted, returned = failure.expected.get("codes", {}), failure.returned.get("codes", {})
        if "scale" in failure.expected:
            rows.append(("scale", "", failure.expected["scale"], _marked(failure.returned["scale"], failure.expected["scale"])))
        lanes = pick_lanes(failure, 4 if brief else 12)
        for lane in lanes:
            want, got = wanted.get(lane, ""), returned.get(lane, "")
            rows.append((lane.removeprefix("lane "), given[lane], want, _marked(got, want)))
        answered = "answer" not in failure.returned
        if not answered:
            lines.append(Text(f"  returned: {failure.returned['answer']}", style="bold red"))
        lines.append(_lay_lanes(rows, ("  lane", "input", "expected", "returned")[: 4 if answered else 2]))
        if len(given) > len(lanes):
            lines.append(Text(f"  ... and {len(given) - len(lanes)} more lanes (see --json)"))
        for key, value in failure.given.items():
            if key not in ("x", "other lanes"):
                lines.append(Text(f"  {key}: {_plain(value)}"))
    else:
        facts = Table(box=None, pad_edge=False, show_header=False)
        for key, value in failure.given.items():
            facts.add_row("given", key, _plain(value))
        for name, values in (("expected", failure.expected), ("returned", failure.returned)):
            for key, value in values.items():
                facts.add_row(name, key, Text(_plain(value), style="bold red" if name == "returned" else ""))
        lines.append(Padding(facts, (0, 0, 0, 2)))
    ended = requirement.verdict in (Verdict.ERROR, Verdict.TIMEOUT)  # its steps are the last frames
    below = [Text(step) for step in (failure.steps[:1] if brief and not ended else failure.steps)]
    if failure.also and not brief:
        below.append(Text(f"profiles returning the same bits: {', '.join(failure.also[:4])}", style="yellow"))
    lines += [Padding(text, (0, 0, 0, 2)) for text in below]
    if failure.snippet and code:
        # As it is, so that it can be pasted.
        lines.append(Text("  to reproduce:"))
        lines.append(Text(failure.snippet, style="dim", no_wrap=True, overflow="ignore"))
    return Group(*lines, Text(""))


def _lay_lanes(rows: Sequence[tuple[str, str, str, Text]], columns: Sequence[str]) -> Table:
    """A table of lanes, indented, whose bits are whole on a narrow terminal, too: no padding, which would cut its lines."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        grid.add_column(column, no_wrap=True, min_width=max([len(column), *(len(row[i]) + 2 * (i == 0) for row in rows)]))
    for row in rows:
        grid.add_row(f"  {row[0]}", *row[1 : len(columns)])
    return grid


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


def _marked(got: str, want: str) -> Text:
    return Text(got, style="" if got == want else "bold red")


def print_report(report: Report, console: Console, *, failures: int = 3, brief: bool = False) -> None:
    """What is wrong in a sentence, the smallest failing cases, the tables, and the verdict.

    failures: cases of each format. brief: at most one screen of `SCREEN` lines at 80 columns, with the first case of what counts.
    """
    left = SCREEN if brief else _NO_END

    def show(*lines: RenderableType) -> None:
        nonlocal left
        left -= _count_lines(console, lines)
        for line in lines:
            console.print(line)

    tail = _list_tail(report)
    if brief:
        kept = _fit(console, [_shorten(line, 2, console) for line in tail], _TAIL)
        tail = [*kept, *_say_more(tail, kept)]
    else:
        tail += list_legend([report])
    left -= _count_lines(console, tail)
    headlines = [Text(f"wrong: {line}", style="bold red") for line in list_headlines(report)]
    kept = _fit(console, [_shorten(line, 4, console) for line in headlines], _HEAD) if brief else headlines
    if kept:
        show(*kept, *_say_more(headlines, kept), Text(""))
    if brief:
        first = next((r for r in _choose_cases(report, 1) if report.counts_as_wrong(r)), None)
        if first is not None:
            panels = (failure_panel(first, brief=True, code=code) for code in (True, False))
            # The tables keep some lines; a case that leaves none is shown by -v.
            longer = Text(f"the smallest case of {first.id} is longer than a screen: -v\n")
            show(next((panel for panel in panels if _count_lines(console, [panel]) <= left - _TABLES), longer))
    else:
        show(*(failure_panel(requirement) for requirement in _choose_cases(report, failures)))
    unmet = requirement_table(report)
    wanted = min(_count_lines(console, [unmet]), left // 2) if unmet.rows else 0
    show(_cut(summary_table([report]), left - wanted - 2, console), Text(""))
    if unmet.rows:
        show(_cut(unmet, left - 1, console), Text(""))
    show(*tail)


def print_reports(reports: Sequence[Report], console: Console, *, failures: int = 3, brief: bool = False) -> None:
    """The same of one target or several; brief, of several: what is wrong with each in sentences, and one table."""
    if len(reports) == 1:
        print_report(reports[0], console, failures=failures, brief=brief)
        return
    table = summary_table(reports)
    if brief:
        headlines = [
            _shorten(Text(f"{report.target['name']}: wrong: {line}", style="bold red"), 2, console)
            for report in reports for line in list_headlines(report)
        ]  # fmt: skip
        kept = _fit(console, headlines, SCREEN - _count_lines(console, [table]) - len(reports) - 3)
        for line in (*kept, *_say_more(headlines, kept), *([Text("")] if kept else [])):
            console.print(line)
    for report in () if brief else reports:
        print_report(report, console, failures=failures)
        console.print()
    console.print(table)
    console.print()
    for report in reports:
        console.print(Text(f"{report.target['name']}: {report.counts_text or 'nothing could be judged'} ({report.seconds:.1f} s)"))


def _count_lines(console: Console, parts: Sequence[RenderableType]) -> int:
    return sum(len(console.render_lines(part, pad=False)) for part in parts)


def _fit(console: Console, lines: Sequence[Text], most: int) -> list[Text]:
    """The first of the lines that fit, and at least one of them."""
    kept: list[Text] = []
    for line in lines:
        if kept and _count_lines(console, [*kept, line]) > most:
            break
        kept.append(line)
    return kept


def _shorten(text: Text, most: int, console: Console) -> Text:
    """A text of at most so many lines."""
    shorter = text.copy()
    while len(shorter.wrap(console, console.width)) > most:
        shorter = text[: len(shorter) - console.width // 4] + Text(" ...")
    return shorter


def _say_more(all_lines: Sequence[Text], kept: Sequence[Text]) -> list[Text]:
    more = len(all_lines) - len(kept)
    return [Text(f"and {more} more: -v lists all", style="dim")] if more else []


def _cut(table: Rows, most: int, console: Console) -> Rows:
    """The table's first rows that fit, and how many more there are."""
    if len(table.rows) <= most and _count_lines(console, [table]) <= most:
        return table
    rows = [replace(row, below=tuple(_shorten(text, 2, console) for text in row.below)) for row in table.rows[: max(1, most)]]
    while len(rows) > 1 and _count_lines(console, [replace(table, rows=rows)]) > most - 1:
        rows.pop()
    more = len(table.rows) - len(rows)
    if more:
        rows[-1] = replace(rows[-1], below=(*rows[-1].below, Text(f"and {more} more rows: -v shows all", style="dim")))
    return replace(table, rows=rows)


def _choose_cases(report: Report, failures: int) -> Iterator[Requirement]:
    """The requirements whose first cases are shown: so many of each format, each reason and each input once."""
    shown: dict[str, int] = {}
    shown_reasons: set[tuple[str, str]] = set()
    for requirement in list_unmet(report):
        fmt, first = requirement.format, requirement.first
        # One reason, one input.
        reason = (fmt, _without_numbers(requirement.note) if requirement.verdict in (Verdict.ERROR, Verdict.TIMEOUT) else repr(first))
        if first is None or not first.given or shown.get(fmt, 0) >= failures or reason in shown_reasons:
            continue
        shown_reasons.add(reason)
        if requirement.verdict is Verdict.WAIVED:
            continue
        shown[fmt] = shown.get(fmt, 0) + 1
        yield requirement


def _list_tail(report: Report) -> list[Text]:
    """The verdict in one sentence, what was not judged, and what else a reader has to know."""
    counts = report.counts_text or "no requirement applies"
    waived = " or are waived" if Verdict.WAIVED.value in report.counts else ""
    limited = "" if report.exit_level is Level.CONTRACT else f" at level {report.exit_level.value}"
    conclusion = {
        0: report.excuse or f"all {'requested requirements' if 'only' in report.details else 'supported requirements'} pass{waived}",
        1: "not all requirements pass",
        2: f"nothing of {', '.join(report.too_mild)} is judged{limited}" if report.too_mild else "nothing could be judged",
    }
    summary = (
        f"{report.target['name']} {report.target['version']}: {counts}; {conclusion[report.exit_code]} "
        f"({report.seconds:.1f} s, vectors {report.vectors[:12]})"
    )
    lines = [Text(summary, style="bold")]
    unsupported: dict[str, list[str]] = {}
    for requirement in report.requirements:
        if requirement.verdict is Verdict.UNSUPPORTED:
            unsupported.setdefault(requirement.note, []).append(requirement.id)
    for note, names in unsupported.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        lines.append(Text(f"unsupported: {', '.join(names[:_MOST_NAMED])}{more}{f' ({note})' if note else ''}"))
    if fewer := report.details.get("fewer_cases", ()):
        more = f" and {len(fewer) - _MOST_NAMED} more" if len(fewer) > _MOST_NAMED else ""
        lines.append(Text(f"fewer cases: {', '.join(fewer[:_MOST_NAMED])}{more} (a results file stores fewer calls)"))
    if shapes := report.details.get("shapes"):
        lines.append(Text(f"judged in matrices that the target takes: {shapes}"))
    for result in report.formats:
        if sizes := result.behaviour.get("sizes"):
            lines.append(Text(f"{result.format} {sizes}"))
    if changes := report.environment.get("float_environment"):
        lines.append(Text(
            f"The target changes the floating-point environment of its process: {changes}. Whatever else computes there gets other "
            "bits; libraries built with -ffast-math do this when they are loaded (link them without crtfastmath.o).",
            style="yellow",
        ))  # fmt: skip
    if report.baseline is not None:
        b = report.baseline
        whose = f" of version {b.version}" if b.version else ""
        lines.append(Text(f"compared with the baseline{whose}: {len(b.known)} known, {len(b.new)} new, {len(b.gone)} gone"))
        if b.level:
            lines.append(Text(explain_level("the baseline", b.level, report.level)))
        lines += [Text(f"  new: {name}", style="bold red") for name in b.new]
        lines += [Text(f"  {line}", style="yellow") for line in list_unmatched(report)]
    nearest = sorted({f.judged_against for f in report.formats if f.chosen == "nearest" and NO_ANSWER not in f.causes})
    for result in report.formats:
        name, count = min(result.distances.items(), key=lambda item: item[1], default=("", 0))
        if result.chosen == "nearest" and name != result.judged_against and count * _MUCH_CLOSER < result.distance:
            closer = f"{result.format}: {name} is closer: {count:,} cases differ from it, not {result.distance:,}"
            lines.append(Text(f"{closer}; --profile {name} judges by it"))
    if nearest:
        lines.append(Text(f"judged by the nearest profile; to pin it in CI: PROFILE = {nearest[0]!r} in the target"))
    return lines
