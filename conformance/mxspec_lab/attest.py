"""`mxspec attest FILE`: compares the output of a GPU probe (gpu/probe/mxprobe.cu) with the model.

The probe records complete functions, so a conversion that agrees here agrees on every input.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Column, Table

import mxspec
from mxspec import reals
from mxspec.expressions import Apply as ApplyNode, Domain, walk
from mxspec.formats import FLOAT32, get_scalar
from mxspec.rcp_table import load_rcp_table
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec.stepfunctions import StepFunction, find_float32_steps, one_by_one
from mxspec_conformance.cli.console import CleanConsole, fail
from mxspec_conformance.cli.main import SETTINGS
from mxspec_conformance.cli.parameters import INPUT_FILE, OUTPUT_FILE, FileCommand
from mxspec_conformance.targets.errors import is_refusal
from mxspec_conformance.targets.texts import clean_name
from mxspec_lab.probe import CASTS, SumVerdict, check_probe, read_sums, read_unanswered, show_bits
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import read_json

SCHEMA = "mxprobe/1"
#: Characters of the probe's own reasons.
_REASON = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """One instruction's."""

    instruction: str
    inputs: int
    #: Inputs on which chip and model differ; None: the probe saw something that the model does not cover.
    different: int | None
    note: str = ""

    @property
    def evidence(self) -> str:
        """The word for it: what agrees on every input is confirmed on hardware."""
        return "hardware" if self.different == 0 else "provisional" if self.different is None else "DIFFERS"


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


#: Key of `subnormals` -> what the probe computes, and its word where operands and results are kept as IEEE 754 has it.
SUBNORMALS: dict[str, tuple[str, str]] = {
    "mul": ("float32 2^-126 * 2^-1", "00400000"),
    "mul_up": ("float32 2^-149 * 2^30", "04000000"),
    "sub": ("float32 2^-126 - 2^-149", "007fffff"),
    "fma": ("float32 fma(2^-126, 2^-1, 2^-149)", "00400001"),
    "bf16x2": ("fma.rn.bf16x2 2^-126 * 2^-1 - 0", "0040"),
    "f16x2": ("mul.rn.f16x2 2^-14 * 2^-1", "0200"),
}
#: What the operations are if a subnormal operand or result counts as zero.
_FLUSHED: dict[str, tuple[str, ...]] = {
    "mul": ("00000000",), "mul_up": ("00000000",), "sub": ("00000000", "00800000"), "fma": ("00000000", "00400000", "00000001"),
    "bf16x2": ("0000",), "f16x2": ("0000",),
}  # fmt: skip
#: Codes of e2m1 on both sides of the probe's numbers, which lie from 1 up to below 1.5; the first of them is 1.
_ONE, _ABOVE = "2", "3"


def read_subnormals(seen: Mapping[str, str]) -> Iterator[Verdict]:
    """A verdict for each operation: whether it keeps subnormals, as the model's do."""
    for key, word in seen.items():
        name, kept = SUBNORMALS[key]
        said = "subnormals kept" if word == kept else "subnormals flushed" if word in _FLUSHED[key] else f"{word}, not {kept}"
        yield Verdict(name, 1, int(word != kept), said)


def read_stochastic(seen: Mapping[str, Sequence[str]]) -> Iterator[Verdict]:
    """A verdict for each instruction: every code is a neighbour of its number, and of 1 the code of 1.

    Which random bit serves which element is recorded and not compared: the model has no certain rule of it.
    """
    for name, lines in seen.items():
        words = [(m, word) for m, line in enumerate(lines) for word in line.split()]
        wrong = sum(not set(word) <= ({_ONE} if m == 0 else {_ONE, _ABOVE}) for m, word in words)
        note = (
            "no neighbour of its number"
            if wrong
            else "neighbours of their numbers; which bit serves which element is recorded, not compared"
        )
        yield Verdict(name, len(words), wrong or None, note)


def attest_probe(probe: dict[str, Any]) -> list[Verdict]:
    """A verdict for each thing that the probe saw, sums aside."""
    return [
        *_attest_conversions(probe["conversions"]), attest_reciprocal(probe["reciprocal"]),
        *read_subnormals(probe["subnormals"]), *read_stochastic(probe["stochastic"]),
    ]  # fmt: skip


def _attest_conversions(conversions: dict[str, Any]) -> Iterator[Verdict]:
    for name, seen in conversions.items():
        inputs = int(seen["inputs"])
        if name in CASTS:
            yield Verdict(name, inputs, int(seen["different_from_nearest_even"]), "a cast, any NaN")
        elif name in CONVERSIONS and inputs != 1 << CONVERSIONS[name][-1]:
            raise ValueError(f"{name}: {inputs} inputs are not all 2^{CONVERSIONS[name][-1]}")
        elif name not in CONVERSIONS or "runs" not in seen:
            yield Verdict(name, inputs, None, "not comparable: the result changes too often, or the model does not cover it")
        else:
            steps = StepFunction.from_text(seen["runs"], inputs)
            yield Verdict(name, inputs, steps.count_differences(model_steps(*CONVERSIONS[name])))


def attest_reciprocal(seen: dict[str, Any]) -> Verdict:
    """The verdict on the approximate reciprocal, whose table is known by its CRC.

    Raises ValueError where the CRC is the known table's and the counts are not.
    """
    table = np.ascontiguousarray(load_rcp_table())
    same = int(seen["table_crc32"], 16) == zlib.crc32(table.tobytes())
    below, above = int((table < 0).sum()), int((table > 0).sum())
    known = {"least": int(table.min()), "largest": int(table.max()), "below": below, "above": above}
    given = {key: seen[key] for key in known}
    if same and given != known:
        raise ValueError(f"reciprocal: the table of CRC {seen['table_crc32']} has {known}, not {given}")
    other = f"another table: {seen['below']} below, {seen['above']} above; sm_90 {(below, above)}"
    return Verdict(
        seen["instruction"],
        int(seen["inputs"]),
        int(seen["different_from_table"]) if same else None,
        "table as measured on sm_90" if same else other,
    )


#: Conversions of NVIDIA's FP8; the others came with FP4, and are compiled for the targets of these chips alone.
_FP8 = tuple(name for name, (fmt, *_) in CONVERSIONS.items() if fmt in ("e4m3", "e5m2"))
_FP4_TARGETS = {(10, 0): "sm_100a", (10, 3): "sm_103a", (12, 0): "sm_120a"}


def explain_missing(probe: dict[str, Any]) -> Iterator[str]:
    """Why conversions are not in a probe's output: the chip lacks them, or what the probe was compiled for does."""
    if probe["vendor"] != "nvidia":
        yield "conversions are NVIDIA's: none was asked"
        return
    major, minor = map(int, probe["compute_capability"].split("."))
    groups: dict[str, list[str]] = {}
    for name in CONVERSIONS:
        if name in probe["conversions"]:
            continue
        if (major, minor) < ((8, 9) if name in _FP8 else (10, 0)):
            why = "not on this chip; the evidence stays read, or measured through headers"
        elif name in _FP8:
            why = f"not in this probe's output; compile it for sm_{major}{minor}{'a' * (major >= 9)}"
        elif (major, minor) in _FP4_TARGETS:
            why = f"not in this probe's output; compile it for {_FP4_TARGETS[major, minor]}"
        else:
            why = f"not in this probe's output; it asks for them only if compiled for {', '.join(_FP4_TARGETS.values())}"
        groups.setdefault(why, []).append(name)
    for why, names in groups.items():
        yield f"{why}: {', '.join(names)}"


def name_chip(probe: dict[str, Any]) -> str:
    """A chip and its architecture, as its maker calls it."""
    version = probe["compute_capability"]
    return f"{clean_name(probe['device'])} ({f'compute capability {version}' if probe['vendor'] == 'nvidia' else f'AMD, gfx {version}'})"


def profiles_on_reciprocal() -> list[str]:
    """Profiles whose arithmetic uses the approximate reciprocal."""
    names = []
    for profile in mxspec.list_profiles():
        forms = [steps for steps in (profile.one_level, profile.two_level) if steps is not None]
        nodes = [n for steps in forms for e in (steps.scale.value, steps.scaled, steps.dequantize) for n in walk(e)]
        if any(isinstance(n, ApplyNode) and n.domain is Domain.RCP_APPROX for n in nodes):
            names.append(profile.id)
    return names


@click.command(cls=FileCommand, context_settings=SETTINGS)
@click.argument("file", type=INPUT_FILE)
@click.option("--json", "json_file", type=OUTPUT_FILE, help="Write the comparison as JSON.")
def attest(file: Path, json_file: Path | None) -> None:
    """Compare the output of a GPU probe with the model.

    FILE is the output of gpu/probe/mxprobe.cu; see docs/gpu.md.

    Exit code: 0 if everything that the chip implements agrees on every input, 1 if something differs, 2 if FILE is not the
    output of the probe.
    """
    try:
        probe = read_json(file, twice=False)
        if not isinstance(probe, dict) or probe.get("schema") != SCHEMA:
            found = probe.get("schema") if isinstance(probe, dict) else type(probe).__name__
            raise ValueError(f"schema {str(found)[:40]!r} is not {SCHEMA!r}")
        check_probe(probe)
        verdicts = attest_probe(probe)
        sums = list(read_sums(probe))
        unanswered = read_unanswered(probe)
    except ValueError as error:
        if not is_refusal(error):
            raise
        fail(f"{file} is not what mxprobe writes ({error}); compile gpu/probe/mxprobe.cu and run it")
    table = Table(
        "instruction", Column("inputs", justify="right"), Column("different", justify="right"), "evidence", box=None, pad_edge=False
    )
    for v in verdicts:
        different = "-" if v.different is None else f"{v.different:,}"
        table.add_row(clean_name(v.instruction), f"{v.inputs:,}", different, f"{v.evidence}{', ' if v.note else ''}{v.note}")
    console = CleanConsole(width=None if Console().is_terminal else 100, highlight=False, markup=False)
    console.print(name_chip(probe), soft_wrap=True)
    console.print(table)
    reciprocal = attest_reciprocal(probe["reciprocal"]).different == 0
    if reciprocal:
        console.print(
            f"the table of the reciprocal is right on this chip; profiles that use it: {', '.join(profiles_on_reciprocal())}",
            soft_wrap=True,
        )
    for words in explain_missing(probe):
        console.print(words, soft_wrap=True)
    console.print(_show_sums(sums))
    for name, why in unanswered.items():
        console.print(f"no answer from {name}: {clean_name(why, _REASON)}", soft_wrap=True)
    if json_file is not None:
        document = {
            "schema": "mxspec-attest/1", "device": clean_name(probe["device"]), "compute_capability": probe["compute_capability"],
            "probe": file.name, "mxspec": mxspec.__version__, "ml_dtypes": ml_dtypes.__version__,
            "verdicts": [asdict(v) for v in verdicts], "sums": [asdict(s) for s in sums], "unanswered": unanswered, "profiles_on_reciprocal": profiles_on_reciprocal() if reciprocal else [],
        }  # fmt: skip
        write_file(json_file, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    if any(v.different for v in verdicts):
        raise click.exceptions.Exit(1)


def _show_sums(sums: Sequence[SumVerdict]) -> Table:
    columns = Column("sums of", no_wrap=True), Column("products", justify="right")
    table = Table(*columns, "bits below the largest: within, handed on", "as the class", box=None, pad_edge=False)
    for s in sums:
        if s.emulated:
            words = "made of other instructions: not the FP8 unit"
        elif s.is_blind:
            words = "none: its format has no numbers to ask further"
        else:
            words = ", ".join(s.classes) or "none that is known"
        table.add_row(s.instruction, str(s.k), show_bits(s), words)
    return table
