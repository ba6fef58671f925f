"""What a target says of itself decides what it is asked: keywords, dtypes, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxspec_conformance.judge.check import check

from tests.bugs import find
from tests.bugs.building import Answer, Array, make, right
from tests.bugs.judging import judge
from tests.judge.reading import failing, passed, requirement


@pytest.mark.parametrize("name", ["codes two to a byte", "scales in tiles", "nibbles and tiles"])
def test_quantize_may_return_its_layout(name: str) -> None:
    assert {"quantize/mxfp4/call-size", "quantize/nvfp4/call-size"} <= passed(judge(find(name)))


@pytest.mark.parametrize("name", ["dequantize of nibbles", "dequantize of tiles", "dequantize of nibbles and tiles"])
def test_dequantize_gets_its_inputs_in_its_layout(name: str) -> None:
    """Also with more than one tile of scales, and with tensor scales."""
    topics = ("code", "scale-code", "call-size")
    found = passed(judge(find(name)))
    assert {f"dequantize/{f}/{t}" for f in ("mxfp4", "nvfp4") for t in topics} <= found
    assert "dequantize/nvfp4/tensor-scale" in found


def test_a_wrong_nibble_order_is_no_matter_of_scales() -> None:
    assert not any("scale" in i for i in failing(judge(find("nibbles the wrong way round"))))


def test_keywords_are_capabilities() -> None:
    """axis, pad and block are asked for only where the signature takes them."""

    def with_axis_and_pad(x: Array, fmt: str, axis: int = -1, pad: bool = False) -> Answer:
        return right(x, fmt, axis=axis, pad=pad)

    def with_block(x: Array, fmt: str, tensor_scale: float | None = None, block: Any = None) -> Answer:
        return right(x, fmt, tensor_scale, block=block)

    plain = check(make(["mxfp4"], quantize=lambda x, fmt: right(x, fmt)))
    unsupported = {r.id: r.note for r in plain.requirements if r.verdict == "unsupported"}
    assert unsupported == {"quantize/mxfp4/tail": "quantize takes no pad"}
    assert plain.exit_code == 0
    both = check(make(["mxfp4"], quantize=with_axis_and_pad))
    assert (failing(both), both.exit_code) == ({}, 0)
    assert {"quantize/mxfp4/axis", "quantize/mxfp4/tail"} <= passed(both)
    axis = "quantize/mxfp4/axis"
    assert requirement(plain, axis).cases < requirement(both, axis).cases
    tiles = check(make(["nvfp4"], TENSOR_SCALE="amax", quantize=with_block))
    assert (failing(tiles), tiles.exit_code) == ({}, 0)


@pytest.mark.parametrize("dtypes", [["float32", "float16", "bfloat16"], ["bfloat16"], "float16"])
def test_a_target_is_called_with_the_dtypes_that_it_declares(dtypes: Any) -> None:
    def quantize(x: Array, fmt: str) -> Answer:
        assert x.dtype.name in dtypes, x.dtype
        return right(x, fmt)

    report = check(make(["mxfp4"], DTYPES=dtypes, quantize=quantize))
    assert (failing(report), report.exit_code) == ({}, 0)
    assert "scale/mxfp4/scale-boundary" in passed(report)


def test_arrays_that_are_no_copies_are_answers() -> None:
    """Signed bytes, read-only, strided: see the catalogue; here a view of a larger array."""

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = right(x, fmt)
        larger = np.zeros((len(codes), codes.shape[1] + 3), np.uint8)
        larger[:, 3:] = codes
        return larger[:, 3:], scales

    assert failing(check(make(["mxfp4"], quantize=quantize))) == {}
