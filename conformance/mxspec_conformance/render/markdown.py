"""Results as Markdown, for a job's summary or a pull request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mxspec_conformance.render.view import Deviation, ResultView, view_result
from mxspec_conformance.results.report import STALE_STATES


def render_markdown(documents: Sequence[Mapping[str, Any]]) -> bytes:
    """A section for each result: formats, what is not passed with its first steps, provenance."""
    return "\n".join(_render(view_result(d)) for d in documents).encode("utf-8")


def _render(v: ResultView) -> str:
    lines = [f"## {_escape(v.title)}", "", f"{v.headline}: {v.report.counts_text}.", ""]
    if v.formats:
        lines += ["| format | verdict | failing | identical to | deviations |", "| --- | --- | ---: | --- | --- |"]
        for f in v.formats:
            others = _code(f.others[0]) + (f" and {len(f.others) - 1} more" if len(f.others) > 1 else "") if f.others else ""
            said = [*f.result.deviations, *filter(None, [f.result.unanswered]), *(f"open: {c}" for c in f.result.open_choices), *f.impact]
            deviations = "; ".join(map(_escape, said))
            lines.append(f"| {_escape(f.result.format)} | {_escape(f.conclusion.text)} | {f.conclusion.failing}/{f.conclusion.cases} | {others} | {deviations} |")  # fmt: skip
        lines.append("")
    if v.deviations:
        lines += ["| | requirement | level | failing | note |", "| --- | --- | --- | ---: | --- |"]
        for d in v.deviations:
            r = d.requirement
            lines.append(f"| {d.mark} {v.report.name_verdict(r)} | {_code(r.id)} | {_escape(r.level)} | {r.failing}/{r.cases} | {_escape(r.note or r.text)} |")  # fmt: skip
        lines += ["", "<details><summary>Smallest failing cases</summary>", ""]
        for d in v.deviations:
            lines += _render_case(d)
        lines += ["</details>", ""]
    stale = [w for w in v.report.waivers if w["state"] in STALE_STATES]
    lines += [f"- stale waiver {_escape(w['id'])}: {_escape(str(w['state']))}" for w in stale] + [""] * bool(stale)
    lines += ["<details><summary>Provenance</summary>", "", "| | |", "| --- | --- |"]
    lines += [f"| {_escape(key)} | {_escape(value)} |" for key, value in v.provenance]
    lines += ["", "</details>", ""]
    return "\n".join(lines)


def _render_case(d: Deviation) -> list[str]:
    failure = d.requirement.first
    if failure is None or not (d.lanes or failure.steps):
        return []
    lines = [f"**{_escape(d.requirement.id)}**", ""]
    if d.lanes:
        rows = [("lane", "input", "", "expected", "", "returned", "")]
        for lane in d.lanes:
            cells = [lane.label]
            for word in (lane.given, lane.expected, lane.returned):
                cells += ["", ""] if word is None else [_bits(word), word.meaning]
            rows.append((cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6] + (" <" if lane.differs else "")))  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(7)]
        lines += ["```text"]
        drawn = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
        lines += [line.replace("`", "'") for line in drawn]  # or it could end the fence
        lines += ["```", ""]
    lines += [f"- {_escape(step)}" for step in failure.steps] + [""]
    return lines


def _bits(word: Any) -> str:
    fields = " ".join("".join(b.value for b in f.bits) for f in word.fields)
    return f"{word.hex}  {fields}"


def _code(text: str) -> str:
    """A name as code; one that is none as plain text."""
    return f"`{text}`" if re.fullmatch(r"[\w ./+:,()-]+", text) else _escape(text)


def _escape(text: str) -> str:
    """Text that Markdown and its tables leave as it is."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text).replace("\n", " ")
