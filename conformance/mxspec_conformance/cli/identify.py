"""`mxspec identify` and `mxspec distinguish`: which profile a target follows, and an input on which two profiles differ."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import mxspec
from mxspec.adjacent import find_any_profile
from mxspec_conformance.cli.console import fail, make_console, show_progress
from mxspec_conformance.cli.parameters import BLOCK_FORMAT, PRINTED_FILE, SECONDS, TARGET, FileCommand
from mxspec_conformance.cli.streams import until_closed
from mxspec_conformance.identification import distinguish as separating
from mxspec_conformance.identification.distinguish import STEPS, DistinguishingInput, explain_sameness
from mxspec_vectors.files import write_file
from mxspec_vectors.tensor_scales import TensorScales, native_scale

#: Lanes of a block that are printed.
_SHOWN = 4
#: Which of two profiles an answer agrees with -> text.
_AGREES = {"nearest": "as the nearest profile", "neighbour": "as the other profile", "neither": "as neither", "": "no answer"}


@click.command(cls=FileCommand)
@click.argument("target", type=TARGET)
@click.option("--format", "formats", multiple=True, type=BLOCK_FORMAT, help="Only this format; repeatable.")
@click.option("--json", "json_file", type=PRINTED_FILE, help="Write the result as JSON; '-' prints it.")
@click.option("--timeout", type=SECONDS, default=60.0, show_default=True, help="Timeout of one call, in seconds.")
@click.option("--in-process", is_flag=True, help="Run the target in-process; a crash ends the checker too.")
def identify(target: str, formats: tuple[str, ...], json_file: Path | None, timeout: float, in_process: bool) -> None:
    """Identify the profile that TARGET follows.

    Print, for each format, the scale rule, rounding, overflow, special values and storage layout, and the inputs that
    distinguish TARGET from the nearest other profiles.

    Exit code: 0, or 2 if the target quantizes none of the formats.
    """
    from mxspec_conformance.identification.products import describe_product, identify_products_of
    from mxspec_conformance.identification.target import has_quantize, identify as identify_target

    started = time.monotonic()
    with show_progress(f"identifying {target}") as progress:
        products = [] if formats else identify_products_of(target, in_process=in_process, timeout=timeout, progress=progress)
        found = []
        if not products or has_quantize(target, in_process=in_process, timeout=timeout):
            found = identify_target(target, formats=formats, in_process=in_process, timeout=timeout, progress=progress)
    if json_file is not None:
        text = json.dumps([as_dict(i) for i in found] + [asdict(p) for p in products], indent=1) + "\n"
        click.echo(text, nl=False) if str(json_file) == "-" else write_file(json_file, text.encode("ascii"))
    if str(json_file) != "-":
        console = make_console()
        with until_closed():
            for identity in found:
                _print_identity(identity, console)
            for product in products:
                console.print(Text(product.product, style="bold"))
                rows = Table(box=None, pad_edge=False, show_header=False)
                for trait, words in describe_product(product).items():
                    rows.add_row(trait, Text(words))
                console.print(Padding(rows, (0, 0, 0, 2)))
            console.print(Text(f"{target}: {time.monotonic() - started:.1f} s", style="dim"))


@click.command()
@click.argument("first")
@click.argument("second")
@click.option("--format", "fmt", type=BLOCK_FORMAT, help="Default: every format that both profiles cover.")
@click.option("--dtype", type=click.Choice(list(STEPS)), default="float32", show_default=True, help="Input dtype.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def distinguish(first: str, second: str, fmt: str | None, dtype: str, as_json: bool) -> None:
    """Print the simplest block on which two profiles differ.

    If no such block is known, print whether the profiles are proven equal.

    Exit code: 0 if the profiles differ, 1 if no input distinguishes them, 2 if a profile is unknown.
    """
    first, second = (find_any_profile(name, fmt).id for name in (first, second))
    known = {p.id: p for p in mxspec.list_profiles()}
    common = [f for f in known[first].formats if f in known[second].formats and fmt in (None, f)]
    if not common:
        fail(f"{first} covers {', '.join(known[first].formats)}; {second} covers {', '.join(known[second].formats)}")
    console, rows, apart = make_console(), [], False
    for name in common:
        separation = separating.distinguish(first, second, name, dtype=dtype)
        apart = apart or separation is not None
        reason = "" if separation is not None else explain_sameness(first, second, name, dtype=dtype)
        rows.append({"format": name, "separation": None if separation is None else _separation_dict(separation), "why": reason})
        if not as_json:
            console.print(Text(name, style="bold"))
            for line in [reason] if separation is None else describe_separation(separation, first, second):
                console.print(Padding(Text(line), (0, 0, 0, 2)))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    raise click.exceptions.Exit(0 if apart else 1)


def describe_separation(s: DistinguishingInput, first: str, second: str) -> Iterator[str]:
    """The block, and the two answers, in lines."""
    lanes = ", ".join(f"0x{b:08x} = {_number(b)}" for b in s.lanes[:_SHOWN])
    rest = ", then +0" if len(s.lanes) <= _SHOWN else f" ... ({len(s.lanes)} lanes in all)"
    tensor = "" if s.tensor_amax is None else f"; tensor maximum 0x{s.tensor_amax:08x} = {_number(s.tensor_amax)}"
    yield f"block {lanes}{rest}{tensor}"
    width = max(len(first), len(second))
    for name, answer in zip((first, second), s.answers, strict=True):
        yield f"{name.ljust(width)}  {_answer_text(answer, s)}"
    yield f"because {_explain(s, first, second)}"


def _explain(s: DistinguishingInput, first: str, second: str) -> str:
    """The first step at which two profiles part on a block, in words."""
    from mxspec.explain import compare_blocks, explain_block

    scales = None if s.tensor_amax is None else TensorScales.from_amax(s.tensor_amax)
    fmt = mxspec.get_block(s.format)
    x = np.zeros(fmt.k, np.uint32)
    x[: len(s.lanes)] = s.lanes
    explained = []
    for name in (first, second):
        profile = mxspec.get_profile(name, fmt)
        scale = native_scale(profile, scales) if profile.two_level is not None else None
        explained.append(explain_block(x.view(np.float32), fmt, profile=profile, tensor_scale=scale))
    divergence = compare_blocks(*explained)
    return "every step is the same" if divergence is None else divergence.words


def _answer_text(answer: tuple[int, bytes], s: DistinguishingInput) -> str:
    scale, codes = answer
    if len(s.lanes) <= _SHOWN:
        shown = list(range(max(len(s.lanes), 2)))
    else:  # of long blocks the lanes that differ
        shown = [i for i, (x, y) in enumerate(zip(s.answers[0][1], s.answers[1][1], strict=True)) if x != y][:_SHOWN] or [0]
    lanes = " ".join(f"{i}:{codes[i]:02x}" for i in shown)
    return f"scale {scale:02x}  codes {lanes}"


def _number(bits: int) -> str:
    return repr(float(np.uint32(bits).view(np.float32)))


def _print_identity(identity: Any, console: Console) -> None:
    console.print(Text(identity.format, style="bold"))
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    if identity.nearest:
        same = "same bits as" if identity.identical else "nearest"
        mark = " (provisional)" if identity.provisional else ""
        names = ", ".join(identity.identical) or identity.nearest
        table.add_row(Text(same), Text(names + mark))
        if not identity.identical:
            table.add_row("distance", f"{identity.distance} of {identity.cases} cases")
    for key, value in identity.traits.items():
        table.add_row(Text(key), Text(value))
    for part, layout in identity.layouts.items():
        table.add_row(Text(f"layout of {part}"), Text(layout))
    if identity.arithmetic and not identity.identical:
        table.add_row("", Text(f"What follows is the arithmetic of {identity.nearest}, not that of the target.", style="dim"))
    for key, value in identity.arithmetic.items():
        table.add_row(Text(key, style="dim"), Text(value, style="dim"))
    console.print(table)
    for n in identity.neighbours:
        console.print(
            Text(
                f"  not {n.profile} (differs in {n.distance} cases)"
                if n.agrees_with != "neighbour"
                else f"  like {n.profile} on this block (differs in {n.distance} cases)"
            )
        )
        if n.separation is None:
            console.print(Text("    no distinguishing input is known", style="dim"))
            continue
        for line in describe_separation(n.separation, identity.nearest, n.profile):
            console.print(Padding(Text(line, style="dim"), (0, 0, 0, 4)))
        if n.returned is not None:
            console.print(Text(f"    returned {_answer_text(n.returned, n.separation)}: {_AGREES[n.agrees_with]}"))
    console.print()


def _separation_dict(s: DistinguishingInput) -> dict[str, Any]:
    return {
        "format": s.format, "lanes": [f"{b:08x}" for b in s.lanes],
        "tensor_amax": None if s.tensor_amax is None else f"{s.tensor_amax:08x}",
        "answers": [{"scale": f"{scale:02x}", "codes": codes.hex()} for scale, codes in s.answers],
    }  # fmt: skip


def as_dict(identity: Any) -> dict[str, Any]:
    """An identity as JSON."""
    found = asdict(identity)
    found["neighbours"] = [
        {"profile": n.profile, "distance": n.distance, "agrees_with": n.agrees_with,
         "separation": None if n.separation is None else _separation_dict(n.separation),
         "returned": None if n.returned is None else {"scale": f"{n.returned[0]:02x}", "codes": n.returned[1].hex()}}
        for n in identity.neighbours
    ]  # fmt: skip
    return found
