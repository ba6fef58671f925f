"""Fuzzing calls with wide rows and the other axis: what is wrong there alone is found, called as it was, and saved so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance.counterexample.calls import Call
from mxspec_conformance.counterexample.kinds import CallKind, PatternKind
from mxspec_conformance.counterexample.probe import CallPattern, Prober
from mxspec_conformance.counterexample.sample_space import get_sample_space
from mxspec_conformance.counterexample.shrink import find_pattern
from mxspec_conformance.fuzzing.blocks.findings import BlockFinding
from mxspec_conformance.fuzzing.run import fuzz, replay, save
from mxspec_conformance.fuzzing.subject import Settings
from mxspec_conformance.results.report import Report
from mxspec_conformance.transports.opening import open_target

from tests.support import seed


class Kernel:
    """The model, damaged along an axis or in rows of several blocks."""

    NAME, VERSION, FORMATS, PROFILE = "kernel", "1", ["mxfp4"], "mx-floor"

    def quantize(self, x: Any, fmt: str, axis: int = -1) -> Any:
        t = mxspec.quantize(x, fmt, profile="mx-floor", axis=axis)
        return self.damage(t.codes.copy(), t.scales.copy(), axis)

    def damage(self, codes: Any, scales: Any, axis: int) -> Any:
        return codes, scales


class Transposed(Kernel):
    """Scales lie column by column."""

    def damage(self, codes: Any, scales: Any, axis: int) -> Any:
        return codes, np.ascontiguousarray(scales.reshape(scales.shape[::-1]).T) if axis == -1 else scales


class Misshaped(Kernel):
    """Scales come in the transposed shape."""

    def damage(self, codes: Any, scales: Any, axis: int) -> Any:
        return codes, scales.T if axis == -1 else scales


class LastRow(Kernel):
    """Along the first axis the scale of the last row of blocks is one too large."""

    def damage(self, codes: Any, scales: Any, axis: int) -> Any:
        if axis == 0:
            scales[-1] = np.minimum(scales[-1], 253) + 1
        return codes, scales


def search(target: Any) -> tuple[Report, list[BlockFinding]]:
    found = fuzz(target, Settings(seed=seed(), batches=1))
    return found.report, found.findings


@pytest.mark.parametrize(("target", "axis"), [(Transposed(), -1), (LastRow(), 0)])
def test_what_is_wrong_in_rows_or_columns_is_found_and_saved(target: Kernel, axis: int, tmp_path: Path) -> None:
    report, findings = search(target)
    assert report.exit_code == 1
    assert findings
    assert {f.pattern.axis for f in findings} == {axis}
    assert all(("column" if axis == 0 else "row") in f.words for f in findings)
    (path,) = save(tmp_path, findings)
    assert {r.verdict for r in replay(path, open_target(target), None)} == {"differs"}
    assert {r.verdict for r in replay(path, open_target(Kernel()), None)} == {"right"}


def test_scales_of_the_wrong_shape_in_wide_rows_are_no_refusal() -> None:
    report, _ = search(Misshaped())
    assert report.exit_code == 1


def test_a_right_kernel_with_an_axis_is_not_accused() -> None:
    report, findings = search(Kernel())
    assert report.exit_code == 0
    assert not findings
    assert report.details["totals"]["mxfp4"]["relations"]["the axis changes nothing"]["compared"] >= 990


def test_patterns_in_words() -> None:
    assert CallKind("axis") is CallKind.AXIS
    column = CallPattern(PatternKind.WIDE, width=3, place=2, axis=0)
    assert column.words == "as block 2 of a column of 3"
    assert column.flags == ["call-wide-3", "call-axis-0"]


def test_what_a_column_of_one_block_shows_is_found_again() -> None:
    """A call of one block has no second place at which to try it."""
    prober = Prober(open_target(LastRow()), get_sample_space("mxfp4", "mx-floor", None, "float32"))
    call = Call(CallKind.AXIS, np.arange(3), width=1, axis=0)
    found = find_pattern(prober, call, np.ones((3, 32), np.float32), 0)
    assert found is not None
    assert (found[0].kind, found[0].width, found[0].axis) == (PatternKind.WIDE, 1, 0)
