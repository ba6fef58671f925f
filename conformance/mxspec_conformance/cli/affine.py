"""What the commands for checkpoints share about affine integers: names of formats, the convention of a file, what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mxspec.affine import get_affine
from mxspec.affine.checkpoints import CONVENTIONS, AffineCheckpoint, AffineConversion, AffineShare, find_affine, open_affine
from mxspec.containers import open_checkpoint
from mxspec.containers.refused import explain_refusal
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, BlockFormatType


class CheckpointFormatType(BlockFormatType):
    """The name of a block format, or of one of affine integers: int4-g128-zero-float16."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name."""
        if isinstance(value, str) and value.startswith("int") and "-" in value:
            try:
                return get_affine(value).name
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return BLOCK_FORMAT.convert(value, param, ctx)


class ConventionChoice(click.Choice[str]):
    """A convention to write; a form that is refused is reported with the reason."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name."""
        refusal = explain_refusal(str(value))
        if refusal is not None:
            self.fail(refusal, param, ctx)
        return super().convert(value, param, ctx)


CHECKPOINT_FORMAT = CheckpointFormatType()
from_option = click.option(
    "--from", "origin", type=click.Choice(CONVENTIONS), metavar="NAME",
    help="Convention of affine integers in IN, if neither tensors nor configuration determine it: gptq or gptq-v2.",
)  # fmt: skip


def is_affine(fmt: str) -> bool:
    """Whether the name that `CHECKPOINT_FORMAT` gave is one of affine integers."""
    return find_affine(fmt) is not None


def open_source(source: Path, formats: Sequence[str], origin: str | None) -> tuple[AffineCheckpoint, list[str]]:
    """A checkpoint's affine integers, and the block formats among those named.

    Raises ContainerError for what is no checkpoint, and ValueError where more than one affine format is named.
    """
    affine, blocks = [f for f in formats if is_affine(f)], [f for f in formats if not is_affine(f)]
    if len(affine) > 1:
        raise ValueError(f"--format names {', '.join(affine)}; name one format of affine integers")
    checkpoint = open_checkpoint(source, formats=blocks)
    return open_affine(checkpoint, convention=origin, fmt=affine[0] if affine else None), blocks


def describe_conversion(done: AffineConversion, convention: str) -> dict[str, Any]:
    """A conversion as JSON."""
    return {
        "files": [str(f) for f in done.files], "elements": done.elements, "values_changed": 0, "from": list(done.sources),
        "to": convention, "tensors": list(done.tensors), "carried": list(done.carried), "notes": list(done.notes),
    }  # fmt: skip


def describe_share(share: AffineShare) -> dict[str, Any]:
    """A share of a footprint as JSON."""
    return {
        "convention": share.convention, "format": share.format.name, "tensors": share.tensors, "elements": share.elements,
        "codes": share.codes, "scales": share.scales, "offsets": share.offsets, "extras": share.extras, "size": share.size,
        "bits_per_element": float(share.bits_per_element), "bits_of_the_format": share.format.bits_per_element,
    }  # fmt: skip
