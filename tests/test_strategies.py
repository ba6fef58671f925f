"""The strategies for third parties: what they draw, how they shrink, what they refuse, and their documentation."""

from __future__ import annotations

import doctest
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings, strategies as st
from hypothesis.errors import InvalidArgument

import mxspec
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec_conformance.testing import relations, strategies as mx

from tests.shrinking import shrink_to
from tests.support import FLOAT_TYPES, bits_of, magnitudes

FORMATS = list(BLOCKS)
QUICK = settings(max_examples=400, database=None, suppress_health_check=list(HealthCheck))


def test_the_examples_of_the_documentation_run() -> None:
    for module, least in ((mx, 12), (relations, 6)):
        failed, tried = doctest.testmod(module)
        assert tried >= least
        assert failed == 0


@given(st.data(), st.sampled_from(FORMATS), st.sampled_from(list(FLOAT_TYPES)))
def test_blocks_have_k_lanes_of_the_dtype_and_no_special_values_by_default(data: st.DataObject, fmt: str, dtype: str) -> None:
    x = data.draw(mx.blocks(fmt, dtype=dtype))
    assert (x.shape, x.dtype) == ((BLOCKS[fmt].k,), FLOAT_TYPES[dtype][0])
    assert np.isfinite(x.astype(np.float32)).all()


@given(st.data(), st.sampled_from(FORMATS))
def test_tensors_are_whole_blocks_unless_ragged(data: st.DataObject, fmt: str) -> None:
    x = data.draw(mx.tensors(fmt, max_rows=3, max_blocks=3))
    assert x.ndim == 2
    assert x.shape[1] % BLOCKS[fmt].k == 0
    assert x.shape[0] <= 3
    cut = data.draw(mx.tensors(fmt, ragged=True))
    assert mxspec.quantize(cut, fmt, pad=True).shape == cut.shape


@given(st.data(), st.sampled_from(FORMATS))
def test_codes_and_scales_are_taken_by_dequantize(data: st.DataObject, fmt: str) -> None:
    k = BLOCKS[fmt].k
    codes = data.draw(mx.codes(fmt, shape=(2, k), finite=True))
    scales = data.draw(mx.scales(fmt, shape=(2, 1), finite=True))
    with np.errstate(all="ignore"):
        values = mxspec.dequantize(codes, scales, fmt)
    assert not np.isnan(values).any()


@given(st.data(), st.sampled_from(list(ELEMENTS)))
def test_ties_lie_midway_between_neighbours(data: st.DataObject, element: str) -> None:
    x = data.draw(mx.ties(element, near=0))
    grid = [float(v) for v in magnitudes(ELEMENTS[element])]
    assert abs(float(x)) in {(a + b) / 2 for a, b in pairwise(grid)}


@given(mx.near_powers_of_two(near=4))
def test_powers_of_two_are_near(x: np.float32) -> None:
    bits = int(bits_of(np.abs(np.asarray(x))))
    exponent = bits >> 23
    if exponent:
        # Where a float32 log2 rounds to an integer is some dozens of floats away.
        assert min(bits & 0x7FFFFF, 0x800000 - (bits & 0x7FFFFF)) < 128
    else:
        assert bits


@given(st.data(), st.sampled_from(FORMATS))
def test_adversarial_rows_are_answered_by_the_model(data: st.DataObject, fmt: str) -> None:
    x = data.draw(mx.adversarial(fmt))
    assert mxspec.quantize(x, fmt).codes.shape == x.shape


def wrong_ties(x: Any) -> bool:
    """A kernel that rounds ties away from zero is wrong on this block."""
    right = mxspec.quantize(x, "mxfp4")
    quotient = x / mxspec.decode(right.scales, "e8m0")
    away = mxspec.encode(quotient.astype(np.float32), "e2m1", rounding="rna")
    return bool((away != right.codes).any())


def is_simple(x: Any) -> bool:
    """Two lanes at most, of ordinary numbers."""
    used = np.abs(x[x != 0])
    return len(used) <= 2 and bool(((used >= 2.0**-6) & (used <= 8)).all())


def test_a_failing_block_shrinks_to_few_simple_numbers() -> None:
    """One search in twelve ends at three lanes, or at subnormals."""
    shrink_to(mx.blocks("mxfp4"), wrong_ties, is_simple, limits=QUICK)


@pytest.mark.parametrize("fmt", FORMATS)
def test_blocks_part_the_normative_scale_rules(fmt: str) -> None:
    first, second = ("nvfp4-te", "nvfp4-paper") if fmt == "nvfp4" else ("mx-floor", "mx-ceil")

    def differ(x: Any) -> bool:
        a, b = (mxspec.quantize(x, fmt, profile=p) for p in (first, second))
        return not np.array_equal(a.codes, b.codes) or not np.array_equal(a.scales, b.scales)

    limits = settings(QUICK, max_examples=3000)
    shrink_to(mx.blocks(fmt), differ, lambda x: bool(np.count_nonzero(x) <= 2), limits=limits)


def test_special_values_come_where_they_are_allowed() -> None:
    assert np.isnan(find(mx.blocks("mxfp4", allow_nan=True), lambda x: bool(np.isnan(x).any()), settings=QUICK)).any()
    assert np.isinf(find(mx.blocks("mxfp4", allow_infinity=True), lambda x: bool(np.isinf(x).any()), settings=QUICK)).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mx.blocks("mxfp5"), "fmt='mxfp5' is not a block format; known are mxfp4,"),
        (lambda: mx.blocks(4), "fmt=4 of type int is not a block format"),
        (lambda: mx.blocks("mxfp4", dtype="float64"), "dtype='float64' is not an input of quantizers; allowed are float32"),
        (lambda: mx.blocks("mxfp4", exponents=(3, 1)), r"exponents=\(3, 1\): the smallest, 3, is beyond the largest, 1"),
        (lambda: mx.blocks("mxfp4", dtype="float16", exponents=(-30, 0)), "go beyond those of float16, which are -24 to 15"),
        (lambda: mx.blocks("mxfp4", exponents=3), "must be a pair of integers"),
        (lambda: mx.codes("mxfp4", shape=(2, 48)), "the last axis, 48, is not a multiple of the 32-element block of mxfp4"),
        (lambda: mx.scales("mxfp4", shape=(-1,)), "must be a tuple of sizes"),
        (lambda: mx.tensors("mxfp4", max_rows=0), "max_rows=0 must be an integer from 1 on"),
        (lambda: mx.ties("e9m9"), "element='e9m9' is not a scalar format; known are e2m1,"),
        (lambda: mx.ties("e2m1", near=-1), "near=-1 must be an integer from 0 on"),
        (lambda: mx.adversarial("mxfp4", max_rows=0), "max_rows=0 must be an integer from 1 on"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_words(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_without_hypothesis_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None\nimport mxspec_conformance.testing.strategies"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs hypothesis, which is not installed: pip install hypothesis" in done.stderr


@given(st.data(), st.sampled_from([p for p in mxspec.list_profiles("nvfp4") if p.tensor is not None]))
def test_tensor_scales_are_native(data: st.DataObject, profile: mxspec.Profile) -> None:
    scale = data.draw(mx.tensor_scales(profile))
    assert profile.tensor is not None
    assert scale.kind is profile.tensor.native
    x = data.draw(mx.blocks("nvfp4"))
    assert mxspec.quantize(x, "nvfp4", profile=profile, tensor_scale=scale).tensor_scale == scale


def test_special_tensor_scales_are_drawn_on_request() -> None:
    assert np.isnan(find(mx.tensor_scales("nvfp4-te", allow_special=True), lambda s: bool(np.isnan(s.value)), settings=QUICK).value)
    with pytest.raises(InvalidArgument, match="profile='mx-floor' has no tensor scale"):
        mx.tensor_scales("mx-floor", fmt="mxfp4")


@given(st.data(), st.integers(1, 32))
def test_random_words_fill_their_shape(data: st.DataObject, bits: int) -> None:
    words = data.draw(mx.random_words((2, 16), bits=bits))
    assert (words.shape, words.dtype) == ((2, 16), np.uint32)
    assert (words <= (1 << bits) - 1).all()
    x = np.broadcast_to(data.draw(mx.blocks("nvfp4")), (2, 16))
    assert mxspec.quantize(x, "nvfp4", random_bits=words, sr_bits=bits).shape == (2, 16)


def test_words_of_no_width_are_refused() -> None:
    for bits in (0, 33, 8.0):
        with pytest.raises(InvalidArgument, match="must be an integer from 1 to 32"):
            mx.random_words((2,), bits=bits)  # type: ignore[arg-type]  # what a caller without types may pass
