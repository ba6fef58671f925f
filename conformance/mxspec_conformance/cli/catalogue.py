"""`mxspec targets`, `formats` and `profiles`: the registries."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import mxspec
from mxspec.adjacent import ADJACENT, find_any_profile
from mxspec.formats import BLOCKS, ELEMENTS, SCALES
from mxspec.profiles.schema import Kind
from mxspec_conformance.adapters.registry import known_adapters
from mxspec_conformance.cli.console import fail, make_console
from mxspec_conformance.cli.parameters import BLOCK_FORMAT
from mxspec_conformance.render.profile import list_profile_rows
from mxspec_conformance.render.rows import Row, Rows

#: Columns of a terminal from which on a target's description stands next to its name, not below.
WIDE = 80


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def targets(as_json: bool) -> None:
    """List the libraries that have an adapter."""
    rows = [(a.name, a.library.is_here(), a.about) for a in known_adapters().values()]
    if as_json:
        click.echo(json.dumps([{"name": n, "installed": i, "about": a} for n, i, a in rows], indent=1))
        return
    console = make_console()
    if console.width < WIDE:
        lines = [Row((Text(n), Text("yes" if i else "no")), (Text(about, style="dim"),)) for n, i, about in rows]
        console.print(Rows(("target", "installed"), lines))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("target", no_wrap=True)
    for column in ("installed", "description"):
        table.add_column(column)
    for name, installed, about in rows:
        table.add_row(name, "yes" if installed else "no", about, style="" if installed else "dim")
    console.print(table)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def formats(as_json: bool) -> None:
    """List element, scale and block formats."""
    scalars = {**ELEMENTS, **SCALES}
    if as_json:
        rows = {
            n: {"bits": f.bits, "emax": f.emax, "max": str(f.max_value), "min_normal": str(f.min_normal),
                "min_subnormal": str(f.min_subnormal), "inf": f.inf_code, "nan": f.nan_code}
            for n, f in scalars.items()
        }  # fmt: skip
        click.echo(json.dumps({"scalars": rows, "blocks": {n: {"element": b.element.name, "scale": b.scale.name, "k": b.k} for n, b in BLOCKS.items()}, "adjacent": {n: {"element": a.block.element.name, "scale": a.block.scale.name, "k": a.block.k, "source": a.source} for n, a in ADJACENT.items()}}, indent=1))  # fmt: skip
        return
    console = make_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("scalar", "bits", "e m", "bias", "emax", "max", "min normal", "min", "Inf", "NaN"):
        table.add_column(column, justify="left" if column == "scalar" else "right")
    for name, f in scalars.items():
        table.add_row(
            name, str(f.bits), f"{f.exponent_bits} {f.mantissa_bits}", str(f.bias), str(f.emax), f"{float(f.max_value):g}",
            f"{float(f.min_normal):.4g}", f"{float(f.min_subnormal):.4g}",
            "-" if f.inf_code is None else f"{f.inf_code:02x}", "-" if f.nan_code is None else f"{f.nan_code:02x}",
        )  # fmt: skip
    console.print(table)
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("block", "element", "scale", "k", "bits per element", "shapes", "tensor scale"):
        table.add_column(column)
    for name, b in BLOCKS.items():
        table.add_row(
            name, b.element.name, b.scale.name, str(b.k), f"{float(b.bits_per_element):g}",
            ", ".join(f"{r} x {c}" for r, c in b.shapes), "float32" if b.has_tensor_scale else "-",
        )  # fmt: skip
    console.print(table)
    console.print()
    console.print(Text("adjacent (not OCP's; known as soon as they are named)", style="bold"))
    for name, entry in ADJACENT.items():
        console.print(Text.assemble("  ", (name, "bold"), "  ", entry.source), soft_wrap=False)


@click.command()
@click.argument("name", required=False)
@click.option("--format", "fmt", type=BLOCK_FORMAT, help="Only profiles of this format.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def profiles(name: str | None, fmt: str | None, as_json: bool) -> None:
    """List the profiles, or print the arithmetic of one."""
    with suppress(ValueError):  # which is said below
        find_any_profile(name or "")
    known = mxspec.list_profiles(fmt)
    if name is not None:
        matching = [p for p in known if p.id == name]
        if not matching:
            close = [p.id for p in known if name in p.id]
            fail(f"unknown profile {name!r}; " + (f"did you mean {', '.join(close)}?" if close else "`mxspec profiles` lists them"))
        known = tuple(matching)
    if as_json:
        click.echo(json.dumps([_profile_dict(p) for p in known], indent=1))
        return
    console = make_console()
    if name is not None:
        _show_profile(known[0], console)
        return
    for p in known:
        evidence = "normative" if p.kind is Kind.NORMATIVE else "provisional" if p.provisional else p.evidence.value
        console.print(Text.assemble((p.id, "bold"), f"  {evidence}  ", (", ".join(p.formats), "dim")))
        console.print(Padding(Text(p.summary), (0, 0, 0, 4)))
    console.print(f"{len(known)} profiles; `mxspec profiles NAME` shows the arithmetic of one")


def _profile_dict(p: mxspec.Profile) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": p.id, "kind": p.kind.value, "formats": list(p.formats), "summary": p.summary, "source": p.source,
        "evidence": p.evidence.value, "provisional": p.provisional, "witness": p.witness, "dtypes": list(p.dtypes),
        "unspecified": list(p.unspecified), "variant_of": p.variant_of,
        "transform": None if p.transform is None else asdict(p.transform),
    }  # fmt: skip
    for title, steps in (("one_level", p.one_level), ("two_level", p.two_level)):
        if steps is not None:
            described[title] = {
                "scale": str(steps.scale.value), "step": steps.scale.step.value, "scaled": str(steps.scaled),
                "dequantize": str(steps.dequantize), "rounding": steps.element.rounding.value,
            }  # fmt: skip
    return described


def _show_profile(p: mxspec.Profile, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in list_profile_rows(p):
        table.add_row("  " * row.inner + row.name, row.value)
    console.print(table)
