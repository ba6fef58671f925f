"""`mxspec attest FILE`: compares the output of a GPU probe (gpu/probe/mxprobe.cu) with the model.

The probe records complete functions, so a conversion that agrees here agrees on every input.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table

import mxspec
from mxspec import reals
from mxspec.expressions import Apply as ApplyNode, Domain, walk
from mxspec.formats import FLOAT32, get_scalar
from mxspec.rcp_table import load_rcp_table
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec.stepfunctions import StepFunction, find_float32_steps, one_by_one
from mxspec_conformance.cli.console import CleanConsole
from mxspec_conformance.cli.parameters import INPUT_FILE, OUTPUT_FILE, FileCommand
from mxspec_lab.attest_sums import SumVerdict, read_sums, read_unanswered, show_bits
from mxspec_lab.probe_shape import check_probe
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import read_json

SCHEMA = "mxprobe/1"

#: Instruction -> format, rounding, NaN, bits of the input.
CONVERSIONS: dict[str, tuple[str, Rounding, NanPolicy, int]] = {
    "cvt.rn.satfinite.e4m3x2.f32": ("e4m3", Rounding.RNE, NanPolicy.NAN_POSITIVE, 32),
    "cvt.rn.satfinite.e5m2x2.f32": ("e5m2", Rounding.RNE, NanPolicy.NAN_POSITIVE, 32),
    "cvt.rn.satfinite.e2m1x2.f32": ("e2m1", Rounding.RNE, NanPolicy.MAX_POSITIVE, 32),
    "cvt.rn.satfinite.e2m3x2.f32": ("e2m3", Rounding.RNE, NanPolicy.MAX_POSITIVE, 32),
    "cvt.rn.satfinite.e3m2x2.f32": ("e3m2", Rounding.RNE, NanPolicy.MAX_POSITIVE, 32),
    "cvt.rz.satfinite.ue8m0x2.f32": ("e8m0", Rounding.RTZ, NanPolicy.NAN, 32),
    "cvt.rp.satfinite.ue8m0x2.f32": ("e8m0", Rounding.RTP, NanPolicy.NAN, 32),
    "cvt.rn.satfinite.e4m3x2.f16x2": ("e4m3", Rounding.RNE, NanPolicy.NAN_POSITIVE, 16),
    "cvt.rn.satfinite.e5m2x2.f16x2": ("e5m2", Rounding.RNE, NanPolicy.NAN_POSITIVE, 16),
}


class ProbeError(click.ClickException):
    """A file that no probe wrote."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """One instruction's."""

    instruction: str
    inputs: int
    #: Inputs on which chip and model differ; None: the probe saw something that the model does not cover.
    different: int | None
    note: str = ""


def model_steps(fmt: str, rounding: Rounding, nan: NanPolicy, bits: int) -> StepFunction:
    """The model's complete answer, as steps over the input's patterns."""
    scalar = get_scalar(fmt)
    if bits == 16:
        x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16).astype(np.float32)
        codes = mxspec.encode(x, scalar, rounding=rounding, nan=nan, sign="ignore")
        return StepFunction.from_pairs(enumerate(codes.tolist()), 1 << 16)

    def answer(pattern: int) -> int:
        value = reals.decode_real(pattern, FLOAT32)
        if not scalar.signed:
            value = reals.absolute(value)
        return reals.encode_real(value, scalar, rounding=rounding, overflow=Overflow.SATURATE, nan=nan)

    return find_float32_steps(one_by_one(answer), 1 << 32)


def attest_probe(probe: dict[str, Any]) -> list[Verdict]:
    """A verdict for each thing that the probe saw and the model knows."""
    verdicts = []
    for name, seen in probe["conversions"].items():
        inputs = int(seen["inputs"])
        if "different_from_nearest_even" in seen:
            verdicts.append(Verdict(name, inputs, int(seen["different_from_nearest_even"]), "a cast, any NaN"))
        elif name in CONVERSIONS and inputs != 1 << CONVERSIONS[name][-1]:
            raise ValueError(f"{name}: {inputs} inputs are not all 2^{CONVERSIONS[name][-1]}")
        elif name not in CONVERSIONS or "runs" not in seen:
            verdicts.append(
                Verdict(name, inputs, None, "not comparable: the result changes too often, or the model does not cover it")
            )
        else:
            verdicts.append(
                Verdict(
                    name,
                    inputs,
                    StepFunction.from_text(seen["runs"], inputs).count_differences(model_steps(*CONVERSIONS[name])),
                )
            )
    seen = probe["reciprocal"]
    table = np.ascontiguousarray(load_rcp_table())
    same = int(seen["table_crc32"], 16) == zlib.crc32(table.tobytes())
    own = (int((table < 0).sum()), int((table > 0).sum()))
    note = (
        "table as measured on sm_90"
        if same
        else f"another table: {seen['below']} below, {seen['above']} above; sm_90 {own}"
    )
    verdicts.append(
        Verdict(seen["instruction"], int(seen["inputs"]), int(seen["different_from_table"]) if same else None, note)
    )
    return verdicts


def profiles_on_reciprocal() -> list[str]:
    """Profiles whose arithmetic uses the approximate reciprocal."""
    names = []
    for profile in mxspec.list_profiles():
        forms = [steps for steps in (profile.one_level, profile.two_level) if steps is not None]
        nodes = [n for steps in forms for e in (steps.scale.value, steps.scaled, steps.dequantize) for n in walk(e)]
        if any(isinstance(n, ApplyNode) and n.domain is Domain.RCP_APPROX for n in nodes):
            names.append(profile.id)
    return names


@click.command(cls=FileCommand)
@click.argument("file", type=INPUT_FILE)
@click.option(
    "--json", "json_file", type=OUTPUT_FILE, help="Write the comparison as JSON."
)
def attest(file: Path, json_file: Path | None) -> None:
    """Compare the output of a GPU probe with the model.

    FILE is the output of gpu/probe/mxprobe.cu; see docs/gpu.md.

    Exit code: 0 if everything that the chip implements agrees on every input, 1 if something differs, 2 if FILE is not the
    output of the probe.
    """
    try:
        probe = read_json(file)
        if probe.get("schema") != SCHEMA:
            raise ValueError(f"schema {probe.get('schema')!r} is not {SCHEMA!r}")
        check_probe(probe)
        verdicts = attest_probe(probe)
        sums = list(read_sums(probe))
        unanswered = read_unanswered(probe)
        chip = f"{probe['device']} (compute capability {probe['compute_capability']})"
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ProbeError(
            f"{file} is not what mxprobe writes ({error}); compile gpu/probe/mxprobe.cu and run it"
        ) from error
    table = Table(box=None, pad_edge=False)
    table.add_column("instruction")
    table.add_column("inputs", justify="right")
    table.add_column("different", justify="right")
    table.add_column("evidence")
    for v in verdicts:
        word = "hardware" if v.different == 0 else "provisional" if v.different is None else "DIFFERS"
        table.add_row(
            v.instruction,
            f"{v.inputs:,}",
            "-" if v.different is None else f"{v.different:,}",
            f"{word}{', ' if v.note else ''}{v.note}",
        )
    console = CleanConsole(width=None if Console().is_terminal else 100, highlight=False, markup=False)
    console.print(chip)
    console.print(table)
    reciprocal = verdicts[-1].different == 0
    if reciprocal:
        console.print(
            f"the table of the reciprocal is right on this chip; profiles that use it: {', '.join(profiles_on_reciprocal())}",
            soft_wrap=True,
        )
    missing = [name for name in CONVERSIONS if name not in probe["conversions"]]
    if missing:
        console.print(
            f"not on this chip; the evidence stays read, or measured through headers: {', '.join(missing)}", soft_wrap=True
        )
    console.print(_show_sums(sums))
    for name, why in unanswered.items():
        console.print(f"no answer from {name}: {why}", soft_wrap=True)
    if json_file is not None:
        document = {
            "schema": "mxspec-attest/1", "device": probe["device"], "compute_capability": probe["compute_capability"],
            "probe": file.name, "mxspec": mxspec.__version__, "ml_dtypes": ml_dtypes.__version__,
            "verdicts": [asdict(v) for v in verdicts], "sums": [asdict(s) for s in sums], "unanswered": unanswered, "profiles_on_reciprocal": profiles_on_reciprocal() if reciprocal else [],
        }  # fmt: skip
        write_file(json_file, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    if any(v.different for v in verdicts):
        raise click.exceptions.Exit(1)


def _show_sums(sums: Sequence[SumVerdict]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("sums of", no_wrap=True)
    table.add_column("products", justify="right")
    table.add_column("bits below the largest: within, handed on")
    table.add_column("as the class")
    for s in sums:
        if s.emulated:
            words = "made of other instructions: not the FP8 unit"
        elif any(s.open_ends):
            words = "none: its format has no numbers to ask further"
        else:
            words = ", ".join(s.classes) or "none that is known"
        table.add_row(s.instruction, str(s.k), show_bits(s), words)
    return table
