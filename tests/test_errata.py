"""The page of errata: what it says shows a mistake is there, and shows it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mxspec
import mxspec.containers.dtypes
from mxspec.dot import ACCUMULATORS
from mxspec_conformance.mutants import list_mutants
from mxspec_gpu.build import import_nvrtc

PAGE = (Path(__file__).parents[1] / "reports/errata.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| claim |")
]
EXPRESSIONS = re.findall(r"`([^`]+)` = `([^`]+)`", PAGE)
NAMES = {
    "mutant": {mutant.id for mutant in list_mutants()},
    "profile": {profile.id for profile in mxspec.list_profiles()},
    "class": set(ACCUMULATORS),
}


def test_every_row_has_a_witness() -> None:
    assert len(ROWS) > 25
    for row in ROWS:
        assert len(row) == 3, row
        assert re.search(r"`|\]\(", row[2]), row


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS)
def test_expressions_have_the_stated_value(expression: str, value: str) -> None:
    assert eval(expression, {"mxspec": mxspec, "np": np}) == eval(value)


def test_what_is_named_exists() -> None:
    found = [
        (kind, name)
        for kind, names in re.findall(r"(mutant|profile|class)s? (`[^`]+`(?:, `[^`]+`)*)", PAGE)
        for name in re.findall("`([^`]+)`", names)
    ]
    assert len(found) > 25
    assert [(kind, name) for kind, name in found if name not in NAMES[kind]] == []


# What NVIDIA's compiler takes

#: Shape, kind and types of an `mma.sync`, and how many words of a, b and scales it takes.
FP8 = ("m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, 0)
FP4_IN_BYTES = ("m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", 4, 2, 0)
FP4_IN_BYTES_16 = ("m16n8k16.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", 2, 1, 0)
FP4_SCALED = ("m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 4, 2, 2)
FP4_SCALED_32 = (FP4_SCALED[0].replace("k64", "k32"), 4, 2, 2)


def multiply(name: str, a: int, b: int, scales: int) -> str:
    sums = "{%0,%1,%2,%3}"
    sides = [f"{{{','.join(f'%{4 + n}' for n in part)}}}" for part in (range(a), range(a, a + b))]
    scaled = [part for n in range(scales) for part in (f"{{%{4 + a + b + n}}}", "{0,0}")]
    outputs, inputs = (
        ", ".join(f'"{how}"({array}[{n}])' for n in range(count)) for how, array, count in (("+f", "d", 4), ("r", "a", a + b + scales))
    )
    return f'asm("mma.sync.aligned.{name} {",".join([sums, *sides, sums, *scaled])};" : {outputs} : {inputs});'


def ask_compiler(instruction: tuple[str, int, int, int], arch: str) -> str:
    """What the compiler objects to; "" where it does not."""
    nvrtc = import_nvrtc()
    program = nvrtc.createProgram(f'extern "C" __global__ void k(float* d, unsigned* a) {{ {multiply(*instruction)} }}', "k.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"-arch={arch}",))
        return ""
    except nvrtc.NVRTCError:
        return str(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


@pytest.mark.parametrize(
    ("instruction", "arch", "objection"),
    [
        (FP8, "sm_80", "requires .target sm_89 or higher"), (FP8, "sm_86", "requires .target sm_89 or higher"), (FP8, "sm_89", ""),
        (FP4_IN_BYTES, "sm_90a", "not supported on .target"), (FP4_SCALED, "sm_90a", "not supported on .target"),
        (FP4_IN_BYTES, "sm_120a", ""), (FP4_SCALED, "sm_120a", ""), (FP4_SCALED_32, "sm_120a", "Illegal matrix shape"),
        (FP4_IN_BYTES_16, "sm_120a", "Illegal matrix shape"),
    ],
)  # fmt: skip
def test_instructions_that_a_chip_has(instruction: tuple[str, int, int, int], arch: str, objection: str) -> None:
    said = ask_compiler(instruction, arch)
    assert objection in said if objection else said == ""
