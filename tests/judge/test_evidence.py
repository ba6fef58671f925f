"""Every failing requirement shows an input and both answers, in bits; the smallest case still fails what it is shown for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import mxspec
from mxspec_conformance.judge.check import check
from mxspec_conformance.render.terminal import failure_text
from mxspec_conformance.results.report import Report, Requirement, Verdict

from tests.bugs import find
from tests.bugs.building import Answer, Array, by_amax, make, model, on_blocks, right

WRONG = (Verdict.FAIL, Verdict.DEVIATION, Verdict.ERROR, Verdict.TIMEOUT, Verdict.OPEN)


def shown(report: Report) -> list[Requirement]:
    return [r for r in report.requirements if r.verdict in WRONG]


def swapped(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
    other = np.where(codes == 13, 14, np.where(codes == 14, 13, codes)).astype(np.uint8)
    tensor = None if tensor_scale is None else by_amax(tensor_scale)
    with np.errstate(all="ignore"):
        return mxspec.dequantize(other, scales, fmt, tensor_scale=tensor)


def decode_swapped(codes: Array, element: str) -> Array:
    return mxspec.decode(np.where(codes == 13, 14, codes).astype(np.uint8), element)


def reciprocal(x: Array, fmt: str) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(2688) / np.float32(np.abs(x).max()))


def transposed(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    return codes, scales.reshape(scales.shape[::-1]).T


TARGETS: dict[str, Callable[[], SimpleNamespace]] = {
    "dequantize": lambda: make(["mxfp4", "nvfp4"], TENSOR_SCALE="amax", dequantize=swapped),
    "encode": lambda: make(["mxfp4"], encode=lambda x, element: mxspec.encode(x, element, rounding="rtz")),
    "decode": lambda: make(["mxfp4"], decode=decode_swapped),
    "encode_stochastic": lambda: make(
        ["mxfp4"], encode_stochastic=lambda x, element, random_bits: mxspec.encode(np.nan_to_num(x), element, rounding="rtz")
    ),
    "tensor_scale": lambda: make(["nvfp4"], tensor_scale=reciprocal),
    "several blocks": lambda: make(["mxfp4"], quantize=transposed),
    "scales": lambda: make(["mxfp4"], quantize=on_blocks(lambda x, fmt: (model(x, fmt)[0], model(x, fmt)[1] ^ 1))),
    "pack": lambda: make(["mxfp4"], LAYOUTS=["nibble-low"], pack=lambda codes, layout: (codes[:, 1::2] | codes[:, ::2] << 4).reshape(-1)),
}


@pytest.mark.parametrize("name", TARGETS)
def test_what_fails_shows_its_input_and_both_answers(name: str) -> None:
    found = shown(check(TARGETS[name]()))
    assert found
    for requirement in found:
        failure = requirement.first
        assert failure is not None, requirement.id
        assert all((failure.given, failure.expected, failure.returned)), requirement.id
        assert failure.expected != failure.returned, requirement.id
        text = failure_text(requirement)
        assert all(str(v).split(" ")[0] in text for k, v in failure.given.items() if isinstance(v, str) and k != "other lanes"), (
            requirement.id
        )


def test_transposed_scales_are_called_so() -> None:
    (axis,) = [r for r in shown(check(TARGETS["several blocks"]())) if r.topic == "axis"]
    assert axis.first is not None
    assert any("transposed" in step for step in axis.first.steps)
    assert axis.first.given["block"] == "1"


def raise_at_65504(x: Array, fmt: str) -> Answer:
    if (np.abs(x) == 65504).any():
        raise RuntimeError("an illegal memory access")
    return right(x, fmt)


def test_an_exception_shows_the_guilty_input_and_its_frames() -> None:
    found = [r for r in shown(check(make(["mxfp4"], quantize=raise_at_65504))) if r.verdict is Verdict.ERROR]
    guilty = [r for r in found if r.operation == "quantize" and r.first is not None and "x" in r.first.given]
    assert guilty
    for requirement in guilty:
        failure = requirement.first
        assert failure is not None
        assert any("65504.0" in text for text in failure.given["x"].values())
        assert any("raise_at_65504" in step for step in failure.steps)
        assert failure.returned["answer"] == "error: RuntimeError: an illegal memory access"


def nan_and_zero_under_7c(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    lost = ~(np.abs(x).max(axis=1) > 0)
    codes[lost], scales[lost] = 0, 0x7C
    return codes, scales


def test_a_smaller_case_still_fails_what_it_is_shown_for() -> None:
    """A block of zeros under 7c is legal: the NaN has to stay."""
    report = check(make(["mxfp4"], quantize=on_blocks(nan_and_zero_under_7c)))
    (nan,) = shown(report)
    assert nan.first is not None
    assert any("nan" in text for text in nan.first.given["x"].values())
    assert nan.first.expected["scale"] == "ff"


def test_blocks_of_16_bit_targets_are_made_smaller() -> None:
    entry = find("bfloat16 goes another way")
    found = [r for r in check(entry.target(), formats=["mxfp4"]).requirements if r.verdict is Verdict.FAIL]
    drawn = [r.first for r in found if r.first is not None and r.first.given.get("dtype") == "bfloat16" and "block" not in r.first.given]
    assert drawn
    assert all(len(f.given["x"]) <= 2 for f in drawn)


@pytest.mark.parametrize(("rule", "bits"), [("carry", 32), ("carry", 16), ("carry", 8), ("below", 32), ("below", 16), ("below", 8)])
@pytest.mark.parametrize("exact", [True, False])
def test_conventions_of_random_bits(rule: str, bits: int, exact: bool) -> None:
    """Up where the word carries, or where it is less than the fraction, exact or cut; each fails under the other's name."""

    def encode_stochastic(x: Array, element: str, random_bits: Array) -> Array:
        fmt = mxspec.ELEMENTS[element]
        grid = np.array([float(fmt.magnitude(m)) for m in range(fmt.max_code + 1)])
        magnitude = np.minimum(np.abs(np.nan_to_num(x.astype(np.float64), nan=0, posinf=grid[-1])), grid[-1])
        low = np.searchsorted(grid, magnitude, side="right") - 1
        high = np.minimum(low + 1, len(grid) - 1)
        random_bits = random_bits.astype(np.uint64) % 2**bits
        steps = np.where(high > low, (magnitude - grid[low]) / np.where(high > low, grid[high] - grid[low], 1), 0) * 2.0**bits
        if rule == "below":
            up = random_bits < (steps if exact else np.floor(steps))
        else:
            up = np.floor(steps) + random_bits >= 2.0**bits
        signed = np.signbit(x) & (exact | (low + up > 0))  # which sign a zero has is open
        return np.where(np.isnan(x), 0, np.where(signed, fmt.sign_bit, 0) | (low + up)).astype(np.uint8)

    if rule == "carry" and not exact:
        pytest.skip("the carry rule cuts the fraction")
    target = make(["mxfp4"], SR_BITS=bits, SR_RULE=rule, encode_stochastic=encode_stochastic)
    assert shown(check(target)) == []
    other = make(["mxfp4"], SR_BITS=bits, SR_RULE="below" if rule == "carry" else "carry", encode_stochastic=encode_stochastic)
    assert [r.topic for r in shown(check(other)) if r.verdict is Verdict.FAIL] == ["random-bits"]


def test_a_word_of_ones_that_never_comes_is_no_zeros() -> None:
    """A number rounded down in one case of hundreds is not taken for a kernel of zeros, which right answers contradict."""

    def encode_stochastic(x: Array, element: str, random_bits: Array) -> Array:
        return mxspec.encode(np.nan_to_num(x), element, rounding="sr", random_bits=np.minimum(random_bits, 0xFFFE), sr_bits=16)

    found = shown(check(make(["mxfp4"], SR_BITS=16, ELEMENTS=["e2m1"], encode_stochastic=encode_stochastic)))
    assert [r.topic for r in found if r.verdict is Verdict.FAIL] == ["random-bits"]
    assert "zero" not in found[0].note
