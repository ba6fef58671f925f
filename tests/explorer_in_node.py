"""Judges the explorer's JavaScript in node: `python -m tests.explorer_in_node [--write] [--add]`.

One program for each profile, called by JSON lines. It is given every block of the vectors and some random ones, every code under every scale byte,
and then judged by `mxspec check`. Writes reports/atlas/explorer.json.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

import mxspec
from mxspec.formats import get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile
from mxspec_conformance.atlas.explorer import target_command, write_target
from mxspec_conformance.atlas.javascript import write_javascript
from mxspec_conformance.judge.check import check
from mxspec_conformance.results.conclusion import conclude
from mxspec_conformance.results.report import Report
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.c99 import group_blocks, random_blocks, refuses_nan
from mxspec_lab.evidence.status import write_result
from mxspec_vectors.files import vector_digest
from mxspec_vectors.tensor_scales import TensorScales

REPORT = Path(__file__).resolve().parents[1] / "reports" / "atlas" / "explorer.json"
SCHEMA = "mxspec-explorer/1"
#: Blocks of one call.
_BATCH = 512

Row = dict[str, Any]


def node_version(node: str) -> str:
    """What `node --version` prints. Raises CalledProcessError or OSError where there is no node."""
    return subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout.strip()


def compare_blocks(session: TargetSession, profile: Profile, fmt: str, two_level: bool, count: int) -> Counter[str]:
    """Codes and scales of the vectors' blocks, and of `count` random ones, against the model: {blocks, differ}."""
    groups = list(group_blocks(fmt, two_level))
    if count:
        tensor = next((t for t, _ in groups if t is not None), None)
        groups.append((tensor, random_blocks(count, get_block(fmt).k, len(profile.id))))
    found: Counter[str] = Counter(blocks=0, differ=0)
    for tensor, rows in groups:
        x = rows[np.isfinite(rows).all(axis=1)] if refuses_nan(profile, fmt, two_level) else rows
        with np.errstate(all="ignore"):
            want = mxspec.quantize(x, fmt, profile=profile, tensor_scale=None if tensor is None else tensor.native(profile))
        for start in range(0, len(x), _BATCH):
            part = slice(start, start + _BATCH)
            got = session.call("quantize", x[part], fmt, **_tensor(tensor, profile))
            wrong = (got[0] != want.codes[part]).any(axis=1) | (got[1] != want.scales[part]).any(axis=1)
            if profile.unspecified_nan_input_scales:
                wrong &= ~np.isnan(x[part]).any(axis=1)
            found.update(blocks=len(wrong), differ=int(wrong.sum()))
    return found


def compare_values(session: TargetSession, profile: Profile, fmt: str, two_level: bool) -> Counter[str]:
    """Every code under every scale byte, and under some tensor scales of the vectors, against the model: {values, differ}."""
    block = get_block(fmt)
    width = max(block.element.code_count, block.k)
    bytes_ = np.arange(block.scale.code_count, dtype=np.uint8)
    codes = np.resize(np.arange(block.element.code_count, dtype=np.uint8), (len(bytes_), width))
    scales = np.repeat(bytes_[:, None], width // block.k, axis=1)
    found: Counter[str] = Counter(values=0, differ=0)
    for tensor, _ in list(group_blocks(fmt, two_level))[:4]:
        scale = None if tensor is None else tensor.native(profile)
        with np.errstate(all="ignore"):
            want = np.asarray(mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=scale), np.float32)
        got = session.call("dequantize", codes, scales, fmt, **_tensor(tensor, profile))
        found.update(values=codes.size, differ=int((got.view(np.uint32) != want.view(np.uint32)).sum()))
    return found


def _tensor(tensor: TensorScales | None, profile: Profile) -> dict[str, float]:
    assert tensor is None or profile.tensor is not None
    return {} if tensor is None or profile.tensor is None else {"tensor_scale": tensor.value(profile.tensor.native)}


def compare(command: str, profile_id: str, levels: Iterable[tuple[str, bool]], count: int) -> list[Row]:
    """A profile's formats, with and without a tensor scale, against the model."""
    session = open_target(command)
    try:
        rows = []
        for fmt, two_level in levels:
            profile = get_profile(profile_id, fmt)
            blocks = compare_blocks(session, profile, fmt, two_level, count)
            values = compare_values(session, profile, fmt, two_level)
            differ = blocks.pop("differ") + values.pop("differ")
            rows.append({"profile": profile_id, "format": fmt, "tensor_scale": two_level, **blocks, **values, "differ": differ})
        return rows
    finally:
        session.close()


def summarize(report: Report, profile_id: str) -> list[Row]:
    """The verdict of `check` on each format of a profile."""
    rows = []
    for entry in report.formats:
        asked = [r for r in report.requirements if r.format == entry.format]
        counts = Counter(r.verdict.value for r in asked)
        rows.append(
            {
                "profile": profile_id, "format": entry.format, "judged_against": entry.judged_against, "conclusion": conclude(entry, asked).text,
                "requirements": dict(sorted(counts.items())), "cases": sum(r.cases for r in asked), "failing": sum(r.failing for r in asked),
                "failed": [r.id for r in asked if r.verdict.value in ("fail", "deviation", "error", "timeout")],
            }
        )  # fmt: skip
    return rows


def judge_scalars(report: Report) -> list[Row]:
    """The verdicts on `encode` and `decode`, which are no profile's."""
    chosen = [r for r in report.requirements if r.operation in ("encode", "decode") and r.verdict.value != "unsupported"]
    return [{"requirement": r.id, "verdict": r.verdict.value, "cases": r.cases, "failing": r.failing} for r in chosen]


def list_lacking(report: Mapping[str, Any], rows: Iterable[tuple[str, str, bool]]) -> list[str]:
    """The profiles of which a report lacks a row. rows: (profile, format, with tensor scale)."""
    known = {(r["profile"], r["format"], r["tensor_scale"]) for r in report["compared"]}
    return list(dict.fromkeys(row[0] for row in rows if row not in known))


@click.command()
@click.option("--profile", "wanted", multiple=True, help="Only this profile; repeatable.")
@click.option("--blocks", default=512, show_default=True, help="Random blocks of each profile, in addition to those of the vectors.")
@click.option("--full", is_flag=True, help="Judge by every case of `mxspec check`, not by the quick set.")
@click.option("--node", default="node", show_default=True, help="The program that runs JavaScript.")
@click.option("--write", is_flag=True, help="Write the report.")
@click.option("--add", is_flag=True, help="Ask only about profiles of which the report lacks a row; the others keep their results.")
@click.option(
    "--files", type=click.Path(file_okay=False, path_type=Path), help="Write the judged program into this folder, and do nothing else."
)
def main(wanted: tuple[str, ...], blocks: int, full: bool, node: str, write: bool, add: bool, files: Path | None) -> None:
    """Compare and judge."""
    if files is not None:
        files.mkdir(parents=True, exist_ok=True)
        print(write_target(files))
        return
    if shutil.which(node) is None:
        raise click.ClickException(f"{node} is not installed; install node, or name it by --node")
    script, started = write_javascript(), time.process_time()
    names = list(dict.fromkeys(p for p, _, _ in script.rows))
    compared: list[Row] = []
    judged: list[Row] = []
    scalars: dict[str, Row] = {}
    if add:
        known = json.loads(REPORT.read_text("ascii"))
        names = list_lacking(known, script.rows)
        compared, judged = ([r for r in known[part] if r["profile"] not in names] for part in ("compared", "judged"))
        scalars = {row["requirement"]: row for row in known["scalars"]}
    with tempfile.TemporaryDirectory() as folder:
        program = write_target(Path(folder))
        for name in names:
            if wanted and name not in wanted:
                continue
            command = target_command(program, name, node=node)
            compared += compare(command, name, [(f, t) for p, f, t in script.rows if p == name], blocks)
            report = check(command, quick=not full, data=[])
            judged += summarize(report, name)
            scalars.update((row["requirement"], row) for row in judge_scalars(report))
            print(
                name, *(f"{r['format']}: {r['conclusion']}" for r in judged if r["profile"] == name), sep="  ", file=sys.stderr, flush=True
            )
    wrong = [*(r for r in compared if r["differ"]), *(r for r in judged if r["failed"]), *(r for r in scalars.values() if r["failing"])]
    for row in wrong:
        print(row, file=sys.stderr)
    print(
        f"{len(judged)} profiles and formats, {sum(r['blocks'] for r in compared)} blocks, {sum(r['values'] for r in compared)} values, "
        f"{sum(r['cases'] for r in judged)} cases judged, {len(wrong)} differ, {time.process_time() - started:.0f} s without node"
    )
    if write and not wanted:
        document = {
            "schema": SCHEMA, "mxspec": mxspec.__version__, "node": node_version(node), "vectors": vector_digest(), "case_set": "all" if full else "quick",
            "script_bytes": len(script.text), "conforms": not wrong, "judged": judged, "compared": compared, "scalars": list(scalars.values()),
            "left_out": [{"profile": p, "format": f, "why": w} for p, f, w in script.left_out],
        }  # fmt: skip
        write_result(REPORT, document)
    raise click.exceptions.Exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
