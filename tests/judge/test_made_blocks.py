"""Blocks whose lanes are all alike have the profile's answers; kernels that are wrong where all lanes agree are found."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance import check
from mxspec_conformance.judge.made_blocks import list_made, list_tests
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.dtypes import is_representable
from mxspec_vectors.tensor_scales import TensorScales

from tests.judge.failing import list_failing

Array = Any
TIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5)


def kernel(wrong: Callable[[Array, Array], Array]) -> Any:
    """wrong: blocks [n, 32] and their quotients -> which of them are wrong."""

    def quantize(x: Array, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        codes, blocks = np.array(t.codes), np.abs(x).reshape(-1, 32)
        with np.errstate(all="ignore"):
            quotients = blocks / np.exp2(t.scales.reshape(-1, 1).astype(np.float64) - 127)
            codes.reshape(-1, 32)[wrong(x.reshape(-1, 32), quotients), 31] ^= 1
        return codes, t.scales

    return SimpleNamespace(NAME="votes", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)


def oppose(x: Array, distance: int) -> Array:
    largest = np.abs(x).max(axis=1, keepdims=True)
    first = (x[:, :-distance] == largest) & (x[:, distance:] == -largest) & (np.abs(x) == largest).any(axis=1, keepdims=True)
    return first.any(axis=1) & ((np.abs(x) == largest).sum(axis=1) == 2)


WRONG: dict[str, Callable[[Array, Array], Array]] = {
    "all are ties": lambda x, q: np.isin(q, TIES).all(axis=1),
    "all saturate": lambda x, q: (q > 6).all(axis=1) & np.isfinite(x).all(axis=1),
    "all are exact": lambda x, q: np.isin(q, (0.5, 1, 1.5, 2, 3, 4)).all(axis=1),
    "all are one": lambda x, q: (x == x[:, :1]).all(axis=1) & (x[:, 0] > 0),
    "all but one are nothing": lambda x, q: ((q > 0) & (q < 0.25)).sum(axis=1) == 31,
    **{f"opposite at {d}": lambda x, q, d=d: oppose(x, d) for d in (1, 2, 4, 8, 16)},  # type: ignore[misc]
}


@pytest.mark.parametrize("name", [*WRONG, "nothing"])
def test_a_kernel_wrong_where_lanes_agree_is_found(name: str) -> None:
    report = check(kernel(WRONG.get(name, lambda x, q: np.zeros(len(x), bool))), in_process=True, quick=True)
    failing = [r for r in report.requirements if r.verdict is Verdict.FAIL]
    assert bool(failing) == (name in WRONG)
    assert any(c.startswith("made/") for r in failing for c in r.failing_cases) == bool(failing)


def test_the_first_such_block_is_drawn_with_its_steps() -> None:
    report = check(kernel(WRONG["all are ties"]), in_process=True, only="quantize/mxfp4/tie-even")
    first = next(r.first for r in report.requirements if r.verdict is Verdict.FAIL)
    assert first is not None
    assert first.case.startswith("made/tie/")
    assert first.snippet


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e5m2", "mxint8", "nvfp4"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_blocks_are_numbers_of_the_dtype(fmt: str, dtype: str) -> None:
    tensors = [None] + [TensorScales.from_amax(0x41200000)] * (fmt == "nvfp4")
    for tensor in tensors:
        made = list_made(fmt, dtype, tensor)
        assert len({x.tobytes() for _, x in made}) == len({name for name, _ in made}) == len(made)
        assert all(is_representable(x, dtype).all() for _, x in made)
        assert {t.name for t in list_tests(mxspec.formats.get_block(fmt).element)[:4]} <= {name.split("/")[0] for name, _ in made}


def test_what_ocp_leaves_open_stays_open() -> None:
    def quantize(x: Array, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        codes = np.array(t.codes)
        lowest = np.repeat(np.exp2(t.scales.astype(np.float32) - 127), 32, axis=1) * np.float32(-127.5 / 64)
        codes[(x <= lowest) & np.isfinite(x)] = 0x80
        return codes, t.scales

    target = SimpleNamespace(NAME="lowest", VERSION="1", FORMATS=["mxint8"], quantize=quantize)
    assert list_failing(target) == set()


def test_a_rule_that_is_another_profiles_is_still_named() -> None:
    def quantize(x: Array, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt, profile="mx-rceil")
        return t.codes, t.scales

    target = SimpleNamespace(NAME="ceil", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    report = check(target, in_process=True, profile="mx-floor", quick=True)
    wrong = [r for r in report.requirements if r.operation == "quantize" and r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    assert {r.verdict for r in wrong} == {Verdict.DEVIATION}
