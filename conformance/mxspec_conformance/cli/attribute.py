"""`mxspec attribute`: which profiles a checkpoint's bytes are consistent with, as a table of 80 columns, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import mxspec
from mxspec.containers.text import clip
from mxspec_conformance.attribution import SCHEMA, Attribution, Candidate, Standing, TensorAttribution, attribute as run
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, EXISTING

#: Profiles that are listed by name in one line, and reasons that are shown, without --all.
_NAMED, _SHOWN = 8, 3


@click.command()
@click.argument("checkpoint", metavar="CHECKPOINT", type=EXISTING)
@click.option(
    "--source", metavar="WEIGHTS", type=EXISTING,
    help="The weights before quantization (float32, float16, bfloat16): compare every block of every profile.",
)  # fmt: skip
@click.option(
    "--format", "formats", multiple=True, type=BLOCK_FORMAT,
    help="A format that CHECKPOINT contains, if names and shapes do not determine it; repeatable.",
)  # fmt: skip
@click.option("--all", "show_all", is_flag=True, help="Show every profile, and what speaks against it.")
@click.option("--json", "as_json", is_flag=True, help=f"Print JSON (schema {SCHEMA}).")
def attribute(checkpoint: Path, source: Path | None, formats: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """Find the profiles that checkpoints are consistent with.

    CHECKPOINT is a GGUF or safetensors file, a shard index or a folder. A profile is excluded where a block is one that it
    gives of no finite weights: its scale byte, the largest code under it, the scale of zeros, a code of -0. It is improbable
    where the weights would have to be peculiar. Bytes never prove who made them: several profiles are often consistent.

    With --source every profile's bits are compared with the stored ones, block by block; found are also weights that were
    quantized twice, and wrong tensor scales.

    Exit code: 0 if nothing contradicts the metadata or the source, 1 if something does, 2 if nothing could be examined.
    """
    from mxspec_conformance.cli.console import make_console, show_progress

    with show_progress(f"attributing {checkpoint.name}") as progress:
        found = run(checkpoint, source=source, formats=formats, progress=progress)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "mxspec": mxspec.__version__, **found.as_dict()}, indent=1))
    else:
        print_attribution(found, make_console(), show_all=show_all)
    raise click.exceptions.Exit(found.exit_code)


def print_attribution(found: Attribution, console: Console, *, show_all: bool) -> None:
    """One checkpoint."""
    console.print(Text(clip(str(found.path), 1000), style="bold"), soft_wrap=True)
    if not found.tensors:
        console.print("no block-quantized tensor can be examined; `mxspec footprint` shows what the file holds")
    for number, tensors in enumerate(_join_alike(found)):
        if number:
            console.print()
        _print_alike(tensors, console, show_all=show_all)
    for base, why in found.skipped.items():
        console.print(Text.assemble(("skipped  ", "yellow"), f"{clip(base, 200)}: {clip(why, 400)}"), soft_wrap=False)
    for remark in found.remarks:
        _line(console, remark.topic.value, remark.text, "bold red")
    if not found.tensors:  # nothing was examined, so nothing is confirmed
        return
    remarks = len(found.remarks) + sum(len(t.remarks) for t in found.tensors)
    if len(found.tensors) > 1:
        console.print()
        for name, profiles in found.common.items():
            count = sum(t.format_name == name for t in found.tensors)
            _line(console, f"all {count} {name}", _join_names(profiles, show_all), "bold" if profiles else "yellow")
    text = f"{remarks} contradiction{'s' if remarks != 1 else ''}" if remarks else "nothing contradicts the metadata or the source"
    if found.source is None and not remarks:
        text = "nothing contradicts the metadata"
    console.print(Text(text, style="bold red" if remarks else "green"))


def _join_alike(found: Attribution) -> Iterator[list[TensorAttribution]]:
    """Groups of tensors with the same findings, in the order of their first."""
    joined: dict[object, list[TensorAttribution]] = {}
    for t in found.tensors:
        standings = tuple(sorted((c.profile, c.standing) for c in t.candidates))
        exact = None if t.provenance is None else tuple((m.profile, m.exact) for m in t.provenance.matches)
        remarks = tuple(r.topic for r in t.remarks)
        key = (t.format_name, t.convention, standings, exact, remarks, t.base if remarks else None)
        joined.setdefault(key, []).append(t)
    yield from joined.values()


def _print_alike(tensors: list[TensorAttribution], console: Console, *, show_all: bool) -> None:
    first = tensors[0]
    more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
    console.print(Text.assemble((clip(first.base, 200), "bold"), more), soft_wrap=True)
    blocks = sum(t.observed.blocks for t in tensors)
    _line(console, "stored as", f"{first.convention} {first.format_name}, {blocks:,} blocks")
    _line(console, "seen", "; ".join(_describe(first)))
    if first.claim is not None:
        _line(console, "metadata", f"{'contract' if first.claim.contract else 'configuration'}: {first.claim.name}")
    _print_source(first, console, show_all=show_all)
    if first.provenance is not None and first.provenance.exact and not first.remarks and not show_all:
        counts = [f"{len(first.list(s))} {s.value}" for s in Standing if first.list(s)]
        _line(console, "by bytes alone", f"{', '.join(counts)} (--all lists them)", "dim")
        return
    for standing, style in (
        (Standing.CONSISTENT, "green"), (Standing.IMPROBABLE, "yellow"), (Standing.UNKNOWN, "dim"), (Standing.EXCLUDED, "dim"),
    ):  # fmt: skip
        _print_standing(first, standing, style, console, show_all=show_all)
    for remark in first.remarks:
        _line(console, remark.topic.value, remark.text, "bold red")


_LABELS = {
    Standing.CONSISTENT: "consistent with", Standing.IMPROBABLE: "improbable", Standing.UNKNOWN: "cannot tell", Standing.EXCLUDED: "excluded",
}  # fmt: skip


def _print_standing(t: TensorAttribution, standing: Standing, style: str, console: Console, *, show_all: bool) -> None:
    found = [c for c in t.candidates if c.standing is standing]
    if not found:
        if standing is Standing.CONSISTENT:
            _line(console, _LABELS[standing], "no known profile", "yellow")
        return
    if not found[0].reasons:
        _line(console, _LABELS[standing], _join_names([c.profile for c in found], show_all), style)
        return
    if show_all:
        for c in found:
            _line(console, _LABELS[standing], f"{c.profile}: {'; '.join(r.text for r in c.reasons)}", style)
        return
    by_sign: dict[tuple[str, ...], list[Candidate]] = {}
    for c in found:
        by_sign.setdefault(tuple(r.sign.value for r in c.reasons), []).append(c)
    groups = sorted(by_sign.values(), key=len, reverse=True)
    _line(console, _LABELS[standing], f"{len(found)} profiles", style)
    for alike in groups[:_SHOWN]:
        names = _join_names([c.profile for c in alike], show_all, 2)
        _line(console, "", f"{names}: {alike[0].reasons[0].text}", "dim")
    if len(groups) > _SHOWN:
        rest = sum(len(g) for g in groups[_SHOWN:])
        _line(console, "", f"{rest} for other reasons; --all shows them", "dim")


def _print_source(t: TensorAttribution, console: Console, *, show_all: bool) -> None:
    if t.provenance is None:
        return
    exact, same = t.provenance.exact, t.provenance.same_values
    if exact:
        _line(console, "from the source", f"every bit of every block: {_join_names([m.profile for m in exact], show_all)}", "bold green")
    elif same:
        text = f"every value, other zeros: {_join_names([m.profile for m in same], show_all)}"
        _line(console, "from the source", text, "green")
    else:
        for m in t.provenance.matches:
            share = 100 * m.equal / m.blocks
            _line(console, "from the source", f"{m.profile}: {m.equal:,} of {m.blocks:,} blocks ({share:.4g} %)", "yellow")


def _describe(t: TensorAttribution) -> Iterator[str]:
    """What tells profiles apart."""
    o = t.observed
    if o.scale_bytes is not None:
        kind = "exponents of scales" if t.format_name.endswith("-f32") else "scale bytes"
        yield f"{kind} {o.scale_bytes[0]:02X} to {o.scale_bytes[1]:02X}"
    for byte, number in list(o.zero_blocks.items())[:3]:
        yield f"{byte:02X} for {number} block{'s' if number != 1 else ''} of zeros"
    if o.zeros:
        yield f"{o.minus_zeros:,} of {o.zeros:,} zeros are -0"
    values = [v for v in o.largest if v]
    if values:
        yield f"largest values {min(values):g} to {max(values):g} x scale"
    if o.special:
        yield f"{o.special} blocks with NaN or infinity, not examined"
    maxima = {c.maximum.dtype: c.maximum for c in t.candidates if c.maximum is not None and c.standing is not Standing.EXCLUDED}
    if t.tensor_scale is not None:
        narrow = next((maxima[d] for d in ("bfloat16", "float16", "float32") if d in maxima), None)
        made = "of no maximum" if narrow is None else f"as of the {narrow.dtype} maximum {narrow.value:g}"
        yield f"tensor scale {t.tensor_scale.value:g} ({t.tensor_scale.kind.value}), {made}"


def _join_names(names: list[str] | tuple[str, ...], show_all: bool, most: int = _NAMED) -> str:
    if not names:
        return "no known profile"
    shown = names if show_all else names[:most]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more


def _line(console: Console, label: str, text: str, style: str = "") -> None:
    row = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    row.add_column(width=17, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(Text(f"  {label}"), Text(clip(text, 3000), style=style))
    console.print(row)
