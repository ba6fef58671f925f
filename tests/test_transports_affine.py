"""Affine integers go over every transport: the harness, a bundle, and a kernel in C with its mistakes named."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import InvalidArgument, NoSuchExample

from mxspec import affine
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.testing import affine_groups, strategies as mx
from mxspec_conformance.transports.opening import open_target
from mxspec_conformance.transports.smoke import try_target
from mxspec_vectors.build_affine import AFFINE_FILES

from tests.shrinking import shrink_to
from tests.transports import EXAMPLES, LOCAL_TOPICS, answer_bundle, build_library, harness_command

TARGET = """
from mxspec import affine
NAME, VERSION = "affine", "1"
AFFINE = ["int4-g64-bias-float16/words", "int4-g64-bias-bfloat16", "int4-g64-zero-float16"]
AFFINE_CONTRACT = "float32"

def quantize_affine(x, fmt):
    found = affine.get_affine(fmt.removesuffix("/words"))
    t = affine.quantize(x, bits=found.bits, group=found.group, offset=found.offset)
    return affine.pack_words(t.codes, t.bits) if "words" in fmt else t.codes, t.scales, t.offsets

def dequantize_affine(codes, scales, offsets, fmt):
    plain = affine.unpack_words(codes, 4) if "words" in fmt else codes
    return affine.dequantize(plain, scales, offsets, fmt.removesuffix("/words"), contract="float32")
"""


def verdicts(report: Report) -> dict[str, Verdict]:
    return {r.id: r.verdict for r in report.requirements}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "affine_target.py"
    path.write_text(TARGET, encoding="utf-8")
    return path


def test_a_bundle_and_the_harness_give_the_verdicts_of_python(target: Path, tmp_path: Path) -> None:
    here = check(str(target), in_process=True)
    assert set(verdicts(here).values()) == {Verdict.PASS}
    assert set(verdicts(here)) == set(list_requirements(open_target(str(target), in_process=True)))
    assert verdicts(check(harness_command(target))) == verdicts(here)
    # Memory and state cannot be tested in a file.
    recorded = {name: v for name, v in verdicts(here).items() if name.rpartition("/")[2] not in LOCAL_TOPICS}
    of_file = verdicts(check(answer_bundle(target, tmp_path)))
    assert {name: v for name, v in of_file.items() if name.rpartition("/")[2] not in LOCAL_TOPICS} == recorded


def test_small_calls_are_tried(target: Path) -> None:
    steps = list(try_target(str(target)))
    assert all(step.ok for step in steps)
    assert any(step.name.startswith("dequantize_affine int4-g64-zero-float16") for step in steps)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("", ""),
        ("NEXT_SCALE", "as if the scale of the next group is used"),
        ("BIAS_SIGN", "as if the sign of the bias is wrong"),
        ("BFLOAT16", "as if the 16 bits of scale and bias are read as the other 16-bit float"),
        ("STEPS", ""),
    ],
)
def test_a_c_kernel_and_its_mistakes(broken: str, words: str, tmp_path: Path) -> None:
    defines = [f"BROKEN_{broken}"] if broken else []
    library = build_library(EXAMPLES / "c" / "affine.c", tmp_path / "libaffine.so", *defines)
    report = check(library)
    bad = [r for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.OPEN)]
    assert bool(bad) == bool(broken)
    assert not words or any(r.note == words for r in bad), [r.note for r in bad]
    if not broken:
        entry = report.details["affine"]["int4-g64-bias-float16"]
        assert entry["quantize_affine"]["judged_against"] == "affine-minmax-float32"
        assert {e["failing"] for e in entry.values()} == {0}


# The strategy.


QUICK = settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", AFFINE_FILES)
def test_drawn_groups_are_finite_and_of_the_dtype(name: str) -> None:
    fmt = affine.get_affine(name)

    @settings(QUICK, max_examples=10)
    @given(mx.affine_groups(name, rows=2, groups=2))
    def looks_right(x: np.ndarray) -> None:
        assert (x.shape, x.dtype) == ((2, 2 * fmt.group), fmt.numpy_dtype)
        assert np.isfinite(x.astype(np.float32)).all()

    looks_right()


def test_the_strategy_finds_what_rounds_otherwise_and_shrinks_to_few_values() -> None:
    def differs(x: np.ndarray) -> bool:
        right = affine.quantize(x, group=32, profile="affine-minmax-float32")
        assert right.biases is not None
        lo, hi = (f(x.astype(np.float32)) for f in (np.min, np.max))
        with np.errstate(all="ignore"):
            t = np.nan_to_num((x.astype(np.float32) - lo) / ((hi - lo) / np.float32(15)))
        return not np.array_equal(np.floor(t + np.float32(0.5)).clip(0, 15), right.codes)

    limits = settings(QUICK, max_examples=500)
    shrink_to(mx.affine_groups("int4-g32-bias-float32"), differs, lambda x: len(np.unique(x)) <= 3, limits=limits)


def test_the_examples_of_the_documentation_run() -> None:
    for module in (affine, affine_groups):
        failed, tried = doctest.testmod(module)
        assert tried >= 4
        assert failed == 0


def test_other_formats_are_refused() -> None:
    for arguments in (("int4",), ("mxfp4",)):
        with pytest.raises(InvalidArgument, match="such as int4-g64-bias-float16"):
            mx.affine_groups(*arguments)
    with pytest.raises(InvalidArgument, match="rows=0"):
        mx.affine_groups("int4-g32-bias-float16", rows=0)
    with pytest.raises(NoSuchExample):
        find(mx.affine_groups("int4-g32-bias-float16"), lambda x: x.size != 32, settings=QUICK)
