"""`mxspec footprint`: where the bytes of a checkpoint are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mxspec.affine import Offset
from mxspec.affine.checkpoints import AffineShare, measure_affine
from mxspec.containers import Footprint, Share, measure_footprint
from mxspec.containers.text import clip
from mxspec_conformance.cli.affine import CHECKPOINT_FORMAT, describe_share, open_source
from mxspec_conformance.cli.parameters import EXISTING

SCHEMA = "mxspec-footprint/1"


@click.command()
@click.argument("checkpoint", metavar="CKPT", type=EXISTING)
@click.option(
    "--format", "formats", multiple=True, type=CHECKPOINT_FORMAT,
    help="A format that CKPT contains, if names and shapes do not determine it; repeatable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def footprint(checkpoint: Path, formats: tuple[str, ...], as_json: bool) -> None:
    """Show where the bytes of a checkpoint are.

    CKPT is a GGUF or safetensors file, a shard index or a folder. Shown are, by format and layout, the bytes of codes, block
    scales, padding and tensor scales, then other tensors and headers; together they are the size of the files.
    """
    from mxspec_conformance.cli.console import make_console

    affine, _ = open_source(checkpoint, formats, None)
    apart = {t.name for g in affine.groups.values() for t in g.members}
    found, shares = measure_footprint(affine.checkpoint, apart=apart), measure_affine(affine)
    if as_json:
        click.echo(json.dumps(as_document(found, shares), indent=1))
    else:
        _print(found, shares, make_console())


def as_document(found: Footprint, affine: Sequence[AffineShare] = ()) -> dict[str, Any]:
    """The footprint as JSON; sizes in bytes."""
    return {
        "schema": SCHEMA, "path": str(found.path), "container": found.container, "files": found.files, "size": found.size,
        "quantized": [_describe(s) for s in found.shares], "affine": [describe_share(s) for s in affine],
        "others": [{"dtype": o.dtype, "tensors": o.tensors, "size": o.size} for o in found.others],
        "headers": found.headers, "alignment": found.alignment,
    }  # fmt: skip


def _describe(share: Share) -> dict[str, Any]:
    return {
        "convention": share.convention, "format": share.format_name, "codes_layout": share.codes_layout,
        "scales_layout": share.scales_layout, "tensors": share.tensors, "elements": share.elements, "codes": share.codes,
        "scales": share.scales, "padding": share.padding, "tensor_scales": share.tensor_scales, "size": share.size,
        "padding_in_128x4_tiles": share.padding_in_tiles, "bits_per_element": float(share.bits_per_element),
        "bits_of_the_format": float(share.format_bits),
    }  # fmt: skip


def _print_affine(share: AffineShare, console: Console) -> None:
    many = "s" if share.tensors != 1 else ""
    console.print(Text(f"{share.convention} {share.format.name}: {share.tensors} tensor{many}, {share.elements:,} elements"))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    offsets = "biases" if share.format.offset is Offset.BIAS else "zero points"
    for name, size in (("codes", share.codes), ("scales", share.scales), (offsets, share.offsets), ("indices, shapes", share.extras)):
        if size:
            table.add_row(f"  {name}", f"{size:,}", "")
    bits = f"{float(share.bits_per_element):.4g} bits an element; the format itself {share.format.bits_per_element:.4g}"
    table.add_row("  together", f"{share.size:,}", bits)
    console.print(table)


def _print(found: Footprint, affine: Sequence[AffineShare], console: Console) -> None:
    console.print(Text(clip(str(found.path), 1000), style="bold"), soft_wrap=True)
    for share in found.shares:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(overflow="fold")
        layout = share.codes_layout
        if share.scales_layout != share.codes_layout:
            layout += f", scales {share.scales_layout}"
        console.print(
            Text(
                f"{share.convention} {share.format_name}: {share.tensors} tensor{'s' if share.tensors != 1 else ''}, {share.elements:,} elements; {layout}"
            )
        )
        table.add_row("  codes", f"{share.codes:,}", "")
        table.add_row("  block scales", f"{share.scales:,}", "")
        table.add_row("  padding", f"{share.padding:,}", _note(share))
        if share.tensor_scales:
            table.add_row("  tensor scales", f"{share.tensor_scales:,}", "")
        bits = f"{float(share.bits_per_element):.4g} bits an element; the format itself {float(share.format_bits):g}"
        table.add_row("  together", f"{share.size:,}", bits)
        console.print(table)
    for affine_share in affine:
        _print_affine(affine_share, console)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for other in found.others:
        table.add_row(f"other {other.dtype}", f"{other.size:,}", f"{other.tensors} tensors")
    table.add_row("headers", f"{found.headers:,}", f"{found.files} files" if found.files > 1 else "")
    if found.alignment:
        table.add_row("alignment", f"{found.alignment:,}", "")
    table.add_row("all", f"{found.size:,}", "bytes")
    console.print(table)


def _note(share: Share) -> str:
    return f"{share.padding_in_tiles:,} in 128x4 tiles" if share.padding != share.padding_in_tiles else ""
