"""Kernels of the set of outsiders: right ones that were accused once, and wrong ones that passed."""

from __future__ import annotations

import pytest

from mxspec_conformance import check
from mxspec_conformance.results.report import Verdict

from tests.judge.shown import assert_shown
from tests.outside import KERNELS


@pytest.mark.parametrize("name", ["work-packing-refuses", "form-tiles-dirty"])
def test_a_right_one_is_not_accused(name: str) -> None:
    report = check(KERNELS[name].build(), in_process=True)
    assert not [r.id for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.ERROR)]
    assert report.exit_code == 0


#: Kernel -> the requirement that fails.
WRONG = {
    "memory-arena": "quantize/mxfp4/memory",
    "memory-input-cleared-later": "quantize/mxfp4/memory",
    "size-blocks-1-mod-256-bfloat16": "quantize/mxfp4/call-size",
    "size-k-18944": "quantize/mxfp4/call-size",
    "size-k-above-a-power-first": "quantize/nvfp4/call-size",
    "encode-threads-to-nearest": "encode/e4m3/state",
    "encode-large-saturates": "encode/e5m2/call-size",
    "words-fortran": "stochastic/mxfp4/random-bits",
    "words-bfloat16": "stochastic/mxfp4/random-bits",
    "words-large": "stochastic/mxfp4/random-bits",
    "amax-one-column": "tensor_scale/nvfp4/call-size",
    "pack-two-experts": "pack/nibble-low/call-size",
    "pack-gptq-rows-24": "pack/gptq/call-size",
    "seed-period-of-rows": "stochastic/mxfp4/independence",
    "seed-large-to-nearest": "stochastic/mxfp4/probability",
}


@pytest.mark.share(8)
@pytest.mark.all_calls
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_found(name: str) -> None:
    report = check(KERNELS[name].build(), in_process=True, only=WRONG[name].rpartition("/")[0] + "/*")
    assert WRONG[name] in {r.id for r in report.requirements if r.verdict is Verdict.FAIL}
    assert_shown(report.requirements)
