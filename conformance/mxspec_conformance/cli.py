"""The command `mxspec`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from mxspec_vectors.files import VectorError
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import mxspec
from mxspec.formats import BLOCKS, ELEMENTS, SCALES
from mxspec.profiles.schema import Kind
from mxspec_conformance.targets import KNOWN, TargetError

#: Exit code for a command that could not do its work (bad input, missing files, a full disk).
EXIT_TROUBLE = 2


def make_console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or 80 columns where there is none."""
    columns = os.environ.get("COLUMNS", "")
    width = None if sys.stdout.isatty() else int(columns) if columns.isdecimal() and int(columns) else 80
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


@contextlib.contextmanager
def show_progress(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr that names the step at hand; silent where stderr is no terminal."""
    console = make_console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
        transient=True, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=None)
        yield lambda step: progress.update(task, description=f"{what}: {step}")


#: Commands that live in modules of their own, imported when they are called.
_ELSEWHERE = {
    "attest": "mxspec_conformance.attest",
    "bench": "mxspec_conformance.bench",
    "bundle": "mxspec_conformance.cli_roads",
    "check": "mxspec_conformance.cli_check",
    "convert": "mxspec_conformance.cli_convert",
    "diff": "mxspec_conformance.cli_diff",
    "explain": "mxspec_conformance.cli_explain",
    "fuzz": "mxspec_conformance.fuzz.command",
    "header": "mxspec_conformance.cli_roads",
    "identify": "mxspec_conformance.cli_identify",
    "layouts": "mxspec_conformance.cli_layouts",
    "lint": "mxspec_conformance.cli_lint",
    "mutants": "mxspec_conformance.cli_mutants",
    "protocol": "mxspec_conformance.cli_roads",
    "prove": "mxspec_conformance.prove.command",
    "report": "mxspec_conformance.cli_report",
    "separate": "mxspec_conformance.cli_identify",
    "smoke": "mxspec_conformance.cli_roads",
    "sweep": "mxspec_conformance.sweep",
}


class Command(click.Group):
    """The group; turns the errors that users can mend into one message and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands by name."""
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command; those of other modules are imported now."""
        if cmd_name in _ELSEWHERE:
            command: click.Command = getattr(import_module(_ELSEWHERE[cmd_name]), cmd_name)
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (TargetError, VectorError) as error:
            fail(str(error))
        except KeyboardInterrupt:
            fail("stopped", code=130)
        except BrokenPipeError:
            raise  # the reader of our output has left (`| head`); click ends quietly
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            fail(f"{place}{error.strerror or error}; nothing was changed")


def fail(message: str, *, code: int = EXIT_TROUBLE) -> None:
    """Print one message on stderr and leave."""
    click.echo(f"mxspec: {message}", err=True)
    raise click.exceptions.Exit(code)


@click.group(cls=Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(mxspec.__version__, prog_name="mxspec")
def main() -> None:
    """The truth about microscaling numbers: judge kernels, explain blocks, read the golden vectors."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def targets(as_json: bool) -> None:
    """List the libraries that the judge knows, and whether they are installed."""
    rows = [(k.name, _installed(k.module), k.about) for k in KNOWN.values()]
    if as_json:
        click.echo(json.dumps([{"name": n, "installed": i, "about": a} for n, i, a in rows], indent=1))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("target", "here", "what"):
        table.add_column(column)
    for name, installed, about in rows:
        table.add_row(name, "yes" if installed else "no", about, style="" if installed else "dim")
    make_console().print(table)


_IMPORTS = {
    "gguf_py": "gguf", "gfloat_py": "gfloat", "mlx_py": "mlx", "ml_dtypes_py": "ml_dtypes", "mxspec_py": "mxspec",
    "microxcaling_py": "mx", "compressed_tensors_py": "compressed_tensors", "fouroversix_py": "fouroversix",
    "torchao_floor": "torchao", "torchao_rceil": "torchao", "torchao_even": "torchao", "torchao_ceil": "torchao",
    "modelopt_py": "modelopt", "modelopt_static_py": "modelopt", "auto_round_py": "auto_round",
    "auto_round_export": "auto_round", "quark_py": "quark", "quark_down": "quark", "quark_even": "quark",
    "quark_fake": "quark", "mxspec_gpu_kernels": "cupy", "mxspec_gpu_tiles": "cupy",
}  # fmt: skip
_SOURCES = {
    "te_reference": "MXSPEC_TE_SOURCE",
    "vllm_emulation": "MXSPEC_VLLM_SOURCE",
    "ggml_c": "MXSPEC_GGML_LIBRARY",
}


def _installed(module: str) -> bool:
    if module in _SOURCES:
        return _SOURCES[module] in os.environ
    return find_spec(_IMPORTS[module]) is not None


@main.command()
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
        click.echo(json.dumps({"scalars": rows, "blocks": {n: {"element": b.element.name, "scale": b.scale.name, "k": b.k} for n, b in BLOCKS.items()}}, indent=1))  # fmt: skip
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


@main.command()
@click.argument("name", required=False)
@click.option("--format", "fmt", type=click.Choice(list(BLOCKS)), help="Only profiles of this format.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def profiles(name: str | None, fmt: str | None, as_json: bool) -> None:
    """List profiles, or show the arithmetic of one."""
    known = mxspec.list_profiles(fmt)
    if name is not None:
        matching = [p for p in known if p.id == name]
        if not matching:
            close = [p.id for p in known if name in p.id]
            fail(
                f"unknown profile {name!r}; "
                + (f"did you mean {', '.join(close)}?" if close else "`mxspec profiles` lists them")
            )
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
        "unspecified": list(p.unspecified),
    }  # fmt: skip
    for title, level in (("one_level", p.one_level), ("two_level", p.two_level)):
        if level is not None:
            described[title] = {
                "scale": str(level.scale.value), "step": level.scale.step.value, "scaled": str(level.scaled),
                "dequantize": str(level.dequantize), "rounding": level.element.rounding.value,
            }  # fmt: skip
    return described


def _show_profile(p: mxspec.Profile, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    status = "provisional: no witness was run" if p.provisional else p.witness or p.evidence.value
    rows = [("profile", p.id), ("kind", p.kind.value), ("formats", ", ".join(p.formats)), ("what", p.summary),
            ("source", p.source), ("evidence", f"{p.evidence.value}; {status}"), ("dtypes", ", ".join(p.dtypes))]  # fmt: skip
    if p.tensor is not None:
        rows.append((f"tensor ({p.tensor.native.value})", str(p.tensor.from_amax)))
        rows += [(f"  {leaf}", str(expr)) for leaf, expr in p.tensor.derived]
    for title, level in (("one level", p.one_level), ("two levels", p.two_level)):
        if level is None:
            continue
        rule = level.scale
        minus = " - emax" if rule.subtract_emax else ""
        special = ", ".join(
            f"{n} -> {b:02x}"
            for n, b in (("0", rule.on_zero), ("Inf", rule.on_inf), ("NaN", rule.on_nan))
            if b is not None
        )
        rows += [
            (title, ""),
            ("  scale value", str(rule.value)),
            (
                "  scale code",
                f"{rule.step.value}{minus}, rounding {rule.rounding.value}, {rule.low.value} below"
                + (f"; {special}" if special else ""),
            ),
            ("  scaled", str(level.scaled)),
            ("  element", _element_words(level.element)),
            ("  dequantize", str(level.dequantize)),
        ]
    rows += [("open", u) for u in p.unspecified]
    for key, value in rows:
        table.add_row(key, value)
    console.print(table)


def _element_words(rule: Any) -> str:
    if rule.error is not None:
        return f"code of least {rule.error}, first wins"
    return (
        f"{rule.rounding.value}, overflow {rule.overflow.value}, NaN {rule.nan.value} (own: {rule.nan_own.value}), "
        f"zero {rule.zero.value}"
    )


@main.group()
def vectors() -> None:
    """Build, verify, list and export the golden vectors."""


@vectors.command("build")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to replace; by default the package's own."
)
def vectors_build(out: Path | None) -> None:
    """Compute all vectors from the model."""
    from mxspec_vectors.build import build, list_files

    with _counted_progress("building", len(list_files())) as progress:
        index = build(out, progress)
    size = sum(f["bytes"] for f in index["files"].values())
    click.echo(f"{index['cases']} cases in {len(index['files'])} files, {size / 1e6:.2f} MB\ndigest {index['digest']}")


@vectors.command("verify")
@click.argument("root", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--no-model", is_flag=True, help="Only schema and digests; do not recompute answers.")
def vectors_verify(root: Path | None, no_model: bool) -> None:
    """Check files against digests, schemas and the model. Exit code 1 if anything is wrong."""
    from mxspec_vectors.build import list_files
    from mxspec_vectors.verify import verify

    with _counted_progress("verifying", len(list_files())) as progress:
        problems = verify(root, model=not no_model, progress=progress)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise click.exceptions.Exit(1)
    click.echo("all files match their digests and schemas" + ("" if no_model else ", and the model"))


@vectors.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the index.")
def vectors_list(as_json: bool) -> None:
    """List the files with their number of cases and size."""
    from mxspec_vectors.files import read_index, vectors_root

    index = read_index()
    if as_json:
        click.echo(json.dumps(index, indent=1))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("file", "left"), ("cases", "right"), ("KB", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # a literal that mypy sees as str
    for name, entry in index["files"].items():
        table.add_row(name, str(entry["cases"]), f"{entry['bytes'] / 1000:.0f}")
    console = make_console()
    console.print(table)
    console.print(f"{index['cases']} cases\ndigest {index['digest']}\n{vectors_root()}")


@vectors.command("export")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(["npz", "c", "readmemh"]), required=True)
@click.option("--format", "fmt", type=click.Choice(list(BLOCKS)), required=True)
@click.option("--profile", help="By default the format's default profile.")
def vectors_export(out: Path, kind: str, fmt: str, profile: str | None) -> None:
    """Write one format's quantize vectors flat: .npz, a C header, or $readmemh files."""
    from mxspec_vectors.export import export

    try:
        written = export(out, kind=kind, fmt=fmt, profile=profile or mxspec.default_profile(fmt).id)
    except ValueError as error:
        if isinstance(error, VectorError):
            raise
        fail(str(error))
    for path in written:
        click.echo(str(path))


@contextlib.contextmanager
def _counted_progress(what: str, total: int) -> Iterator[Callable[[str], None]]:
    console = make_console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console,
        transient=True, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=total)

        def step(name: str) -> None:
            progress.update(task, description=f"{what} {name}", advance=1)

        yield step


if __name__ == "__main__":
    main()
