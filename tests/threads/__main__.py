"""Judge the pairs: a table, and with --write reports/atlas/threads.json and the page next to it.

python -m tests.threads [IDS] [--write]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.status import write_result
from mxspec_lab.threads import list_threads
from mxspec_lab.threads.judging import Outcome, judge, show_smallest
from mxspec_lab.threads.schema import Thread
from mxspec_vectors.files import write_file

from tests.threads import NOT_PAIRS, THREADS

SCHEMA, COMMAND = "mxspec-threads/1", "python -m tests.threads"
REPORT = Path(__file__).resolve().parents[2] / "reports" / "atlas" / "threads.json"
PAGE = REPORT.with_suffix(".md")
_COLUMNS = ("thread", "broken", "failing requirements", "cause named", "mended", "separated")
_WIDTHS = (22, 9, 34, 46, 22, 9)


def describe(thread: Thread, outcome: Outcome) -> dict[str, Any]:
    """A row of the result: what the thread is, and what the judge said."""
    cause = outcome.find_cause(thread.names)
    verdicts = [v.value for v in outcome.failing.values()]
    return {
        "id": thread.id, "family": thread.family.value, "reference": thread.reference, "url": thread.url, "also": list(thread.also), "title": thread.title,
        "wrong": thread.wrong, "date": thread.date, "expected": list(thread.fails), "source": thread.source.value, "differs": thread.differs, "formats": [thread.format], "operations": [thread.operation],
        "level": thread.level.value, "only": thread.only, "command": f"{COMMAND} {thread.id}",
        "broken": {"verdict": "fail" if "fail" in verdicts else next(iter(verdicts), "pass"), "requirements": {k: v.value for k, v in outcome.failing.items()}},
        "fixed": {"accused": list(outcome.accused), "passed": outcome.passed, "profile": thread.profile, "identical": outcome.identical},
        "separated": outcome.separated and set(thread.fails) <= set(outcome.failing),
        "cause": None if cause is None else {"by": cause.by.value, "text": cause.text},
        "said": [{"by": one.by.value, "text": one.text} for one in outcome.named[:6]],
        "smallest": show_smallest(outcome.shown),
    }  # fmt: skip


def count(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Pairs, those that are separated, and those whose cause is named, by a step of the arithmetic alone or in words."""
    named = [row["cause"] for row in rows if row["cause"] is not None]
    return {
        "pairs": len(rows), "separated": sum(row["separated"] for row in rows), "named": len(named),
        "named by a step alone": sum(cause["by"] == "step" for cause in named),
        "separated and named": sum(row["separated"] and row["cause"] is not None for row in rows),
        "threads": sum(1 + len(row["also"]) for row in rows), "refused": len(NOT_PAIRS),
    }  # fmt: skip


def render_page(document: dict[str, Any]) -> bytes:
    """The page of a result: each pair with what fails, what is named, and whether the mended one passes."""
    counts = document["counts"]
    lines = [
        "# Public bug threads, replayed", "", f"Made by `{document['command']}`. Each thread is written anew as two small targets, with the mistake and without;",
        f"of {counts['pairs']} pairs {counts['separated']} are separated, of {counts['named']} the cause is named. [How](README.md#replayed-threads).", "",
        "| thread | what was wrong | fails | cause, in the judge's words | fixed |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in document["threads"]:
        link = f"[{row['reference'].partition('/')[2]}]({row['url']})" + f" {row['date']}" * bool(row["date"])
        failing = [key for key in row["broken"]["requirements"] if key in row["expected"]] or ["none"]
        cause = "" if row["cause"] is None else row["cause"]["text"].replace("|", "\\|").replace("\n", " ")
        wrong = f"{row['wrong']} {row['differs']}".strip()
        clean = f"{row['fixed']['passed']} pass" if not row["fixed"]["accused"] else "fails"
        lines.append(f"| {link} | {wrong} | `{failing[0]}` | {cause} | {clean} |")
    lines += ["", "## Not replayed", "", "| thread | about | why not |", "|---|---|---|"]
    lines += [f"| {r['reference']} | {r['what']} | {r['reason']} |" for r in document["refused"]]
    return ("\n".join(lines) + "\n").encode("utf-8")


def format_line(cells: Sequence[str]) -> str:
    """A line of the table; what is too wide ends in a mark."""
    cut = [text if len(text) <= width else text[: width - 1] + "…" for text, width in zip(cells, _WIDTHS, strict=True)]
    return "  ".join(text.ljust(width) for text, width in zip(cut, _WIDTHS, strict=True)).rstrip()


def format_row(row: dict[str, Any]) -> str:
    """A pair as a line."""
    failing = list(row["broken"]["requirements"])
    first = failing[0] + (f" and {len(failing) - 1} more" if len(failing) > 1 else "") if failing else "none"
    fixed = row["fixed"]
    mended = f"fails {fixed['accused'][0]}" if fixed["accused"] else f"= {fixed['profile']}" if fixed["identical"] else "conforms"
    return format_line(
        (
            row["id"],
            row["broken"]["verdict"],
            first,
            "" if row["cause"] is None else row["cause"]["text"],
            mended,
            "yes" if row["separated"] else "no",
        )
    )


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--write", is_flag=True, help="Write reports/atlas/threads.json and threads.md; with IDS only their rows are renewed.")
def main(ids: tuple[str, ...], write: bool) -> None:
    """Judge pairs of targets, each made after a public thread: the broken one, and the mended one."""
    threads = {t.id: t for t in list_threads(THREADS)}
    unknown = [i for i in ids if i not in threads]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: no such thread; known are {', '.join(threads)}", param_hint="IDS")
    started, rows = time.process_time(), []
    click.echo(format_line(_COLUMNS))
    for number, thread in enumerate((threads[i] for i in ids) if ids else threads.values(), 1):
        if sys.stderr.isatty():
            click.echo(f"\r{number} of {len(ids) or len(threads)}: {thread.id} ", nl=False, err=True)
        rows.append(describe(thread, judge(thread)))
        click.echo(format_row(rows[-1]))
    counts, seconds = count(rows), round(time.process_time() - started, 1)
    click.echo(
        f"\n{counts['pairs']} pairs after {counts['threads']} threads; {counts['separated']} separated, {counts['named']} causes named "
        f"({counts['named by a step alone']} by a step alone), {counts['separated and named']} both; {counts['refused']} threads refused; {seconds} CPU seconds"
    )
    if write:
        if ids:
            kept = json.loads(REPORT.read_text("ascii"))
            renewed = {row["id"]: row for row in (*kept["threads"], *rows)}
            if set(renewed) != set(threads):
                raise click.UsageError("the result lacks threads, or has others; write it without IDS")
            rows, seconds = [renewed[i] for i in threads], kept["cpu_seconds"]
            counts = count(rows)
        document = {
            "schema": SCHEMA, "command": f"{COMMAND} --write", "environment": describe_environment(), "cpu_seconds": seconds,
            "counts": counts, "threads": rows,
            "refused": [{"reference": r.reference, "what": r.what, "reason": r.reason} for r in NOT_PAIRS],
        }  # fmt: skip
        write_result(REPORT, document)
        write_file(PAGE, render_page(document))
        click.echo(f"{REPORT.relative_to(REPORT.parents[2])} and {PAGE.name} written")
    sys.exit(0 if all(row["separated"] for row in rows) else 1)


if __name__ == "__main__":
    main()
