"""A whole product of a target on the GPU; here the model stands for the GPU's exact sums."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import mxspec_gpu
from mxspec import dot
from mxspec.formats import get_block
from mxspec_conformance import check
from mxspec_conformance.judge.products import whole_calls
from mxspec_conformance.targets.operands import Numbers, parse_operand
from mxspec_conformance.transports.opening import open_target

from tests.judge.product_target import E4M3, FP4, NVFP4, Call, Target, multiply


def multiply_here(a: Numbers, b: Numbers) -> tuple[dot.Sums, npt.NDArray[np.bool_]]:
    sums = dot.sum_products(*(dot.block_factor(x.codes, x.scales, x.spec.block) for x in (a, b)))
    return sums, sums.fits(53)


def wrong_in_the_last_rows(call: Call) -> dict[str, Any]:
    total = multiply(call.x, call.w)
    if len(total) > 600:
        total[560:, 200:] = np.roll(total[560:, 200:], 1, axis=0)
    return {"sum": total}


@pytest.mark.parametrize("sides", [(E4M3, FP4), (NVFP4, NVFP4)])
@pytest.mark.parametrize("wrong", [False, True])
def test_every_output_is_judged(sides: tuple[str, str], wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_calls, "find_oracle", lambda capabilities, blocks: multiply_here)
    monkeypatch.setattr(whole_calls, "SIZE", (640, 300, 256))
    target = Target(wrong_in_the_last_rows if wrong else lambda call: None, *sides)
    (found,) = check(target, in_process=True, only="matmul/*/call-size").requirements
    assert set(found.failing_cases) & {"every output of 640 x 300 x 256"} == ({"every output of 640 x 300 x 256"} if wrong else set())
    assert found.verdict == ("fail" if wrong else "pass")


def test_targets_on_the_host_are_not_asked() -> None:
    (found,) = check(Target(), in_process=True, only="matmul/*/call-size").requirements
    assert found.verdict == "pass"


@pytest.mark.parametrize(("fmt", "known"), [("mxfp4", True), ("fp8_e4m3-128", False)])
def test_formats_without_exact_sums_on_the_gpu_are_not_asked(fmt: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mxspec_gpu, "check_gpu", lambda: 1)
    with closing(open_target(Target(), in_process=True)) as session:
        capabilities = replace(session.capabilities, arrays="cupy")
    assert (whole_calls.find_oracle(capabilities, [get_block("mxfp4"), parse_operand(fmt).block]) is not None) == known
