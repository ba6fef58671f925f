"""`mxspec quantize` and `mxspec dequantize`: checkpoints by a profile, resumable, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from mxspec.affine.checkpoints import CONVENTIONS as AFFINE, dequantize_affine, quantize_affine
from mxspec.containers import CONVENTIONS, ContainerError, Dequantization, Quantization, dequantize_checkpoint, quantize_checkpoint
from mxspec.containers.checkpoint import read_json
from mxspec.containers.dequantizing import OUTPUT_DTYPES
from mxspec.containers.text import clip
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale
from mxspec_conformance.cli.affine import CHECKPOINT_FORMAT, ConventionChoice, from_option, is_affine, open_source
from mxspec_conformance.cli.convert import show_bytes
from mxspec_conformance.cli.parameters import INPUT_FILE, FileCommand, InputPath, OutputPath
from mxspec_vectors.writing import NothingWritten

_HOW = "A run that was stopped leaves a folder .OUT.partial; the same command goes on there."


@click.command(cls=FileCommand, epilog=_HOW)
@click.argument("source", metavar="IN", type=InputPath(exists=True, path_type=Path))
@click.argument("out", metavar="OUT", type=OutputPath(path_type=Path))
@click.option(
    "--format", "fmt", required=True, type=CHECKPOINT_FORMAT,
    help="The block format, or one of affine integers: int4-g128-zero-float16, int4-g64-bias-bfloat16.",
)  # fmt: skip
@click.option(
    "--profile",
    help="The arithmetic; default: mx-floor, for nvfp4 that of the convention's library, for affine integers gptq/asymmetric or affine-minmax.",
)
@click.option(
    "--to", "convention", required=True, type=ConventionChoice((*CONVENTIONS, *AFFINE)), metavar="NAME",
    help=f"The convention to write: {', '.join(CONVENTIONS)}; of affine integers {', '.join(AFFINE)}.",
)  # fmt: skip
@click.option(
    "--input-scales", type=INPUT_FILE,
    help='JSON with scales of the layers\' inputs: {"model.layers.0.mlp.up_proj": {"amax": 3.5}}; kinds are amax, decode, encode.',
)  # fmt: skip
@click.option("--include", multiple=True, metavar="GLOB", help="Quantize only these tensors; repeatable.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Carry these tensors along as they are; repeatable.")
@click.option(
    "--convert", is_flag=True, help="Convert a tensor scale that the profile and the convention have in different kinds, rounded once more."
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it is an existing file.")
@click.option("--restart", is_flag=True, help="Begin anew, even if a stopped run left something.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def quantize(
    source: Path, out: Path, fmt: str, profile: str | None, convention: str, input_scales: Path | None,
    include: tuple[str, ...], exclude: tuple[str, ...], convert: bool, force: bool, restart: bool, as_json: bool,
) -> None:  # fmt: skip
    """Quantize a checkpoint by a profile, bit for bit.

    IN holds float32, float16 or bfloat16. Quantized are matrices named *.weight (and stacks of experts), except embeddings,
    norms, routers and lm_head; everything else is carried along bit for bit. Layers that loaders join (q, k and v; gate and up)
    get one tensor scale. The profile, its version and the digest of its arithmetic are written into the metadata.

    Exit code: 0 if OUT was written, 2 if not.
    """
    from mxspec_conformance.cli.console import fail, make_console

    try:
        scales = None if input_scales is None else read_scales(input_scales)
        _check_pair(fmt, convention)
        if is_affine(fmt) and scales is not None:
            raise ContainerError("affine integers have no place for scales of inputs; leave --input-scales out")
        with show_bytes(make_console(stderr=True), "quantizing") as progress:
            if is_affine(fmt):
                done = quantize_affine(
                    source, out, fmt, convention, profile=profile, include=include, exclude=exclude, force=force, restart=restart,
                    progress=progress,
                )  # fmt: skip
            else:
                done = quantize_checkpoint(
                    source, out, fmt, convention, profile=profile, input_scales=scales, include=include, exclude=exclude, convert=convert,
                    force=force, restart=restart, progress=progress,
                )  # fmt: skip
    except ContainerError as error:
        fail(f"{clip(str(error), 1500)}; nothing was written")
    except OSError as error:  # what was written of it is gone
        raise NothingWritten(error.errno, error.strerror, str(error.filename or out)) from error
    if as_json:
        click.echo(json.dumps(describe(done, fmt, convention), indent=1))
    else:
        _print(done, fmt, convention, make_console())


def _check_pair(fmt: str, convention: str) -> None:
    """Raise ContainerError for a format of affine integers in a convention of blocks, or the reverse."""
    if is_affine(fmt) != (convention in AFFINE):
        stored = "integers with a scale and an offset, int4-g128-zero-float16" if convention in AFFINE else "block formats"
        raise ContainerError(f"{convention} does not store {fmt}; it stores {stored}")


def read_scales(path: Path) -> dict[str, TensorScale]:
    """Input scales of a JSON file. Raises ContainerError for one that is not as `--input-scales` says."""
    found = {}
    for name, entry in read_json(path, "the file of input scales").items():
        kinds = [k.value for k in TensorScaleKind]
        if not isinstance(entry, Mapping) or len(entry) != 1 or next(iter(entry)) not in kinds:
            raise ContainerError(f'{path}: {clip(name)} is not {{"KIND": NUMBER}} with one of the kinds {", ".join(kinds)}')
        (kind, value), *_ = entry.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ContainerError(f"{path}: {kind} of {clip(name)} is a {type(value).__name__}; give a number")
        try:
            scale = TensorScale(kind, float(value))
        except (OverflowError, ValueError) as error:
            raise ContainerError(f"{path}: {kind} of {clip(name)}: {error}") from error
        if not 0 < scale.bits < 0x7F800000:
            raise ContainerError(f"{path}: {kind} of {clip(name)} is {scale.value!r}; a scale is positive and finite")
        found[name] = scale
    return found


def describe(done: Quantization, fmt: str, convention: str) -> dict[str, Any]:
    """A quantization as JSON."""
    return {
        "files": [str(f) for f in done.files], "format": fmt, "convention": convention, "profile": done.profile,
        "elements": done.elements, "resumed": done.resumed, "notes": list(done.notes), "carried": list(done.carried),
        "tensors": [
            {
                "name": t.base, "from": t.name, "elements": t.elements,
                "tensor_scale": None if t.tensor_scale is None
                else {"kind": t.tensor_scale.kind.value, "bits": f"{t.tensor_scale.bits:08x}"},
            }
            for t in done.tensors
        ],
    }  # fmt: skip


def _table() -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _name_files(files: tuple[Path, ...]) -> str:
    return ", ".join(str(f) for f in files[:3]) + (" ..." if len(files) > 3 else "")


def _print(done: Quantization, fmt: str, convention: str, console: Console) -> None:
    table = _table()
    table.add_row("written", _name_files(done.files) + ("; went on with a stopped run" if done.resumed else ""))
    table.add_row("quantized", f"{len(done.tensors)} {fmt} ({done.elements:,} elements) by {done.profile}, as {convention}")
    table.add_row("carried along", f"{len(done.carried)} tensors, bit for bit")
    # Matrices that stay are what a user asks about first.
    matrices = [n for n in done.carried if n.endswith(".weight") and "norm" not in n]
    if matrices:
        more = f" and {len(matrices) - 4} more" if len(matrices) > 4 else ""
        table.add_row("", f"weights among them: {', '.join(clip(n) for n in matrices[:4])}{more}")
    for note in done.notes:
        table.add_row("note", note)
    console.print(table)


@click.command(cls=FileCommand, epilog=_HOW)
@click.argument("source", metavar="IN", type=InputPath(exists=True, path_type=Path))
@click.argument("out", metavar="OUT", type=OutputPath(path_type=Path))
@click.option("--dtype", type=click.Choice(list(OUTPUT_DTYPES)), default="bfloat16", show_default=True, help="Type of the numbers.")
@click.option(
    "--format", "formats", multiple=True, type=CHECKPOINT_FORMAT,
    help="A format that IN contains, if names and shapes do not determine it; repeatable.",
)  # fmt: skip
@from_option
@click.option("--force", is_flag=True, help="Overwrite OUT if it is an existing file.")
@click.option("--restart", is_flag=True, help="Begin anew, even if a stopped run left something.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def dequantize(
    source: Path, out: Path, dtype: str, formats: tuple[str, ...], origin: str | None, force: bool, restart: bool, as_json: bool
) -> None:
    """Decode a quantized checkpoint to plain numbers.

    Numbers are those that the convention's library decodes, rounded once to the type; other tensors are carried along bit for bit. Of a
    checkpoint with blocks and affine integers, blocks are decoded first; the affine integers of OUT by the same command.

    Exit code: 0 if OUT was written, 2 if not.
    """
    from mxspec_conformance.cli.console import fail, make_console

    try:
        with show_bytes(make_console(stderr=True), "dequantizing") as progress:
            found, blocks = open_source(source, formats, origin)
            if (found.groups or found.doubts) and not found.checkpoint.blocks:
                done = dequantize_affine(found, out, dtype=dtype, force=force, restart=restart, progress=progress)
            else:
                done = dequantize_checkpoint(source, out, dtype=dtype, formats=blocks, force=force, restart=restart, progress=progress)
    except ContainerError as error:
        fail(f"{clip(str(error), 1500)}; nothing was written")
    except OSError as error:
        raise NothingWritten(error.errno, error.strerror, str(error.filename or out)) from error
    if as_json:
        click.echo(json.dumps(_describe_back(done, dtype), indent=1))
        return
    table = _table()
    table.add_row("written", _name_files(done.files) + ("; went on with a stopped run" if done.resumed else ""))
    table.add_row("dequantized", f"{len(done.made)} tensors ({done.elements:,} elements) to {dtype}")
    table.add_row("carried along", f"{len(done.carried)} tensors, bit for bit")
    if done.dropped:
        table.add_row("left out", f"{len(done.dropped)} scales of layers' inputs")
    make_console().print(table)


def _describe_back(done: Dequantization, dtype: str) -> dict[str, Any]:
    return {
        "files": [str(f) for f in done.files], "dtype": dtype, "elements": done.elements, "resumed": done.resumed,
        "tensors": list(done.made), "carried": list(done.carried), "left_out": list(done.dropped),
    }  # fmt: skip


__all__ = ["dequantize", "describe", "quantize", "read_scales"]
