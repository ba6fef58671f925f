"""`mxspec explain`: the quantization of one block step by step, by one profile or by two; or one output of a product."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console, Group, RenderableType
from rich.text import Text as RichText

from mxspec.adjacent import register_named
from mxspec.dot import ACCUMULATORS, CONTRACT_TEXTS, OUTPUTS
from mxspec.explain import BlockExplanation, block_dict, compare_blocks, explain_block, explain_difference, explain_scalar, scalar_dict
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, BlockFormat, Extent, get_block, get_scalar
from mxspec.profiles import get_profile
from mxspec.rounding import DETERMINISTIC
from mxspec.tensorscale import TensorScale, tensor_scale as derive_tensor_scale
from mxspec_conformance.cli.console import make_console
from mxspec_conformance.cli.explain_input import block_from_rows, block_from_values, parse_tensor_scale, parse_value, read_rows
from mxspec_conformance.cli.explain_product import ProductOptions, dump_explanation, explain_stored, read_arrays, read_stored
from mxspec_conformance.cli.explain_result import StoredBlock
from mxspec_conformance.cli.parameters import EXISTING_FILE
from mxspec_conformance.render.block import draw_block, draw_scalar
from mxspec_conformance.render.cells import ASCII, WIDTH, render_text
from mxspec_conformance.render.pair import draw_pair
from mxspec_conformance.render.product import Per, wrap
from mxspec_conformance.targets.errors import is_refusal


def _explain_checked(
    x: npt.NDArray[np.float32], whole: npt.NDArray[np.float32], fmt: BlockFormat, profile: str | None, scale: TensorScale | str | None
) -> BlockExplanation:
    """An explanation; "auto" takes the tensor scale of the whole array.

    Raises ValueError, with a message for the command line, if profile and tensor scale do not fit.
    """
    rules = get_profile(profile, fmt)
    if scale is None and rules.one_level is None:
        raise ValueError(f"profile {rules.id} requires a tensor scale; pass --tensor-scale auto or KIND=NUMBER")
    if scale is not None and rules.two_level is None:
        raise ValueError(f"profile {rules.id} takes no tensor scale; omit --tensor-scale")
    if scale == "auto" and whole.size > fmt.k:
        scale = derive_tensor_scale(whole, fmt, rules)
    try:
        return explain_block(x, fmt, profile=rules, tensor_scale=scale, convert=True)
    except ValueError as error:
        if not is_refusal(error):
            raise
        raise ValueError(f"profile {rules.id} rejects this block: {error}") from error


def _width() -> int:
    """Columns of a drawing: those of the terminal, but at least as many as one needs."""
    return max(WIDTH, make_console().width)


def _show(drawing: RenderableType) -> None:
    """Print a drawing; in colour on a terminal, in ASCII where the output encoding requires it."""
    out = Console()
    text = render_text(drawing, width=_width(), color=out.is_terminal and not out.no_color)
    try:
        text.encode(out.encoding)
    except UnicodeEncodeError:
        text = text.translate(ASCII)
    click.echo(text, nl=False)


def _explain_numbers(name: str, values: Sequence[str], rounding: str, *, as_json: bool) -> None:
    fmt = get_scalar(name)
    numbers = np.array([parse_value(v) for v in values], np.uint32).view(np.float32)
    explanations = [explain_scalar(x, fmt, rounding=rounding) for x in numbers]
    if as_json:
        click.echo(json.dumps([scalar_dict(e) for e in explanations], indent=1))
    else:
        _show(Group(*(draw_scalar(e) for e in explanations)))


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("format_name", metavar="FORMAT")
@click.argument("values", nargs=-1, metavar="VALUES...")
@click.option("--profile", help="The profile; default: mx-floor, nvfp4-te for nvfp4.")
@click.option("--against", help="A second profile, shown next to the first.")
@click.option(
    "--tensor-scale",
    metavar="KIND=NUMBER|auto",
    help="NVFP4: the tensor scale; KIND is decode, encode or amax, NUMBER a decimal or float32 bits.",
)
@click.option("--lane", type=int, help="Show this lane in detail.")
@click.option("--file", type=EXISTING_FILE, help="Read the block from this .npy file, or a product's arrays from this .npz.")
@click.option("--row", type=int, help="Row of the file, or of a product's output.  [default: 0]")
@click.option("--block", type=int, help="Block within the row of the file.  [default: 0]")
@click.option(
    "--rounding",
    type=click.Choice([r.value for r in DETERMINISTIC]),
    default="rne",
    show_default=True,
    help="Rounding mode (scalar formats only).",
)
@click.option("--column", type=int, help="Products: the output's column.  [default: 0]")
@click.option("--array", "arrays", multiple=True, metavar="NAME=FILE.npy", help="Products: an array by name, such as a_codes; repeatable.")
@click.option("--accumulator", metavar="CLASS", type=click.Choice([*ACCUMULATORS]), help="Products: the class of additions that is shown.")
@click.option(
    "--contract",
    metavar="CONTRACT",
    type=click.Choice(CONTRACT_TEXTS),
    help="Products: how numbers are rounded before they are multiplied.",
)
@click.option("--out-dtype", type=click.Choice([*OUTPUTS]), help="Products: dtype of the output.")
@click.option(
    "--per", type=click.Choice([p.value for p in Per]), default=Per.K.value, show_default=True, help="Products: what a line stands for."
)
@click.option("--all", "everything", is_flag=True, help="Products: show every product that is not zero.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: bits and codes in hex, values as exact decimals.")
def explain(
    format_name: str,
    values: tuple[str, ...],
    profile: str | None,
    against: str | None,
    tensor_scale: str | None,
    lane: int | None,
    file: Path | None,
    row: int | None,
    block: int | None,
    rounding: str,
    column: int | None,
    arrays: tuple[str, ...],
    accumulator: str | None,
    contract: str | None,
    out_dtype: str | None,
    per: str,
    everything: bool,
    as_json: bool,
) -> None:
    """Show step by step how a block or a product is computed.

    Blocks: FORMAT is a block format. The steps are: largest magnitude, scale, quotients, neighbouring values, codes. VALUES are
    decimals, the bits of a float32 (0x and eight hex digits), nan or inf; a block that is not full is padded with zeros. With
    an element or scale format each value is encoded on its own.

    Results: FORMAT is a result of `mxspec check --json`, whose smallest wrong block is shown by the profile that it was judged by, next to
    what was returned; VALUES names one by its requirement.

    Products: FORMAT is a result of `mxspec check --json`, a file of `mxspec fuzz --out`, or a product such as
    "mxfp8_e4m3 @ mxfp4", whose arrays --file and --array name. Where a file holds several products, VALUES names one by its
    requirement, or of a file of fuzzing by its number. Shown are every product of two numbers, what the accumulator cuts, and
    why a result is legal.
    """
    of_products: dict[str, object] = {
        "column": column, "array": arrays, "accumulator": accumulator, "contract": contract, "out-dtype": out_dtype, "all": everything
    }  # fmt: skip
    found = read_stored(Path(format_name), values) if format_name.endswith(".json") else None
    if found is not None and isinstance(one := found[0], StoredBlock):
        if file is not None or tensor_scale or row is not None or block is not None or any(of_products.values()):
            raise ValueError(f"{format_name} holds the block of {found[1]}; it takes --profile, --against, --lane and --json")
        also = [f"also in {Path(format_name).name}: {', '.join(found[2])}"] * bool(found[2])
        fmt, profiles = get_block(one.format).sized(len(one.x)), [profile or one.profile, *([against] if against else ())]
        explained = [_explain_checked(one.x, one.x, fmt, p, one.tensor_scale) for p in profiles]
        _show_blocks(explained, [found[1], *one.notes, *also], lane, as_json=as_json)
        return
    if "@" in format_name or found is not None:
        if profile or against or tensor_scale or lane is not None or block is not None:
            raise ValueError("--profile, --against, --tensor-scale, --lane and --block are of blocks; a product takes --accumulator")
        options = ProductOptions(
            row=row, column=column, accumulator=accumulator, contract=contract, out_dtype=out_dtype, per=Per(per), whole=everything
        )
        _explain_product(format_name, values, file, arrays, options, found, as_json=as_json)
        return
    for name, given in of_products.items():
        if given:
            raise ValueError(f'--{name} is of products; FORMAT is then "A @ B", such as "mxfp8_e4m3 @ mxfp4", or a result\'s JSON')
    if bool(values) == (file is not None):
        raise ValueError("pass either VALUES or --file")
    if file is None and (row is not None or block is not None):
        raise ValueError(f"--{'block' if row is None else 'row'} names a place in the file of --file; VALUES are one block")
    register_named([format_name])
    if format_name in ELEMENTS or format_name in SCALES:
        if file is not None or profile or against or tensor_scale or lane is not None:
            raise ValueError(f"{format_name} is a scalar format; it takes VALUES, --rounding and --json only")
        _explain_numbers(format_name, values, rounding, as_json=as_json)
        return
    if format_name not in BLOCKS:
        raise ValueError(
            f"unknown format {format_name!r}; known are {', '.join(BLOCKS)}, and for scalars {', '.join([*ELEMENTS, *SCALES])}"
        )
    fmt = get_block(format_name)
    rows = None if file is None else read_rows(file)
    if rows is not None and fmt.extent is Extent.TENSOR:
        rows = rows.reshape(1, -1)
    fmt = fmt.sized(len(values) if rows is None else rows.shape[1])
    if file is None or rows is None:
        x, notes = block_from_values(values, fmt)
        whole = x
    else:
        whole = rows
        x, notes = block_from_rows(whole, row or 0, block or 0, fmt, file.name)
    scale = None if tensor_scale is None else parse_tensor_scale(tensor_scale)
    if scale == "auto":
        notes.append(f"the tensor scale is computed from {'these values' if file is None else file.name}")
    explained = [_explain_checked(x, whole, fmt, profile, scale)]
    if against is not None:
        explained.append(_explain_checked(x, whole, fmt, against, scale))
    _show_blocks(explained, notes, lane, as_json=as_json)


def _show_blocks(explained: Sequence[BlockExplanation], notes: Sequence[str], lane: int | None, *, as_json: bool) -> None:
    """One block by one profile, or by two."""
    if lane is not None and not 0 <= lane < explained[0].format.k:
        raise ValueError(f"--lane {lane} is out of range; a block of {explained[0].format.name} has lanes 0 to {explained[0].format.k - 1}")
    if lane is not None and len(explained) > 1:
        raise ValueError("--lane and --against exclude each other")
    if as_json:
        _print_json(explained, notes)
    elif len(explained) == 1:
        _show(draw_block(explained[0], lane=lane, notes=notes))
    else:
        _show(draw_pair(*explained, notes=notes, width=_width()))


def _explain_product(
    text: str, wanted: Sequence[str], file: Path | None, arrays: Sequence[str], options: ProductOptions, found: Any, *, as_json: bool
) -> None:
    """found: the product that a file holds, its name and those of others."""
    notes: list[str] = []
    if found is not None:
        if file is not None or arrays:
            raise ValueError(f'{text} holds the operands; --file and --array are for a product such as "mxfp8_e4m3 @ mxfp4"')
        stored, name, others = found
        notes += wrap(f"{name}: {stored.case.label}")
        if others:
            notes += wrap(f"also in {Path(text).name}: {', '.join(others)}")
        notes.append("")
    else:
        if wanted:
            raise ValueError(f"a product takes --file and --array, no VALUES: {wanted[0]!r}")
        if file is None and not arrays:
            raise ValueError("pass the operands: --file OPERANDS.npz with a_codes, a_scales, b_codes, b_scales, or --array NAME=FILE.npy")
        stored = read_arrays(text, file, arrays, options)
    e, lines = explain_stored(stored, options)
    if as_json:
        click.echo(dump_explanation(e))
    else:
        _show(Group(*(RichText(line, no_wrap=True) for line in [*notes, *lines])))


def _print_json(explained: Sequence[BlockExplanation], notes: Sequence[str]) -> None:
    payload: dict[str, Any] = {"notes": list(notes), "explanations": [block_dict(e) for e in explained]}
    if len(explained) == 2:
        divergence = compare_blocks(*explained)
        payload["divergence"] = (
            None
            if divergence is None
            else {"stage": divergence.stage.value, "lane": divergence.lane, "visible": divergence.visible, "words": divergence.words}
        )
    click.echo(json.dumps(payload, indent=1))


__all__ = ["draw_block", "draw_pair", "explain", "explain_difference", "parse_tensor_scale", "parse_value", "render_text"]
