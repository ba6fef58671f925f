"""The oracle: never wrong about a legal answer, wrong about a mistake; layouts, products and errors as a framework's test meets them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance.kits import runtime
from mxspec_conformance.kits.choosing import chosen_blocks
from mxspec_conformance.testing.oracle import Recipe, Status, oracle

#: As FlashInfer's quantizers return them: two codes to a byte, scales in tiles of 128 x 4, the tensor scale as a factor.
FLASHINFER = Recipe("nvfp4", profile="nvfp4-te", tensor_scale="encode", codes="nibble-low", scales="128x4")


def draw(rows: int, columns: int) -> Any:
    return np.random.default_rng(7).normal(size=(rows, columns)).astype(np.float32)


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4", "fp8_e4m3-128-f32"])
def test_legal_answers_are_never_wrong_and_others_are(fmt: str) -> None:
    """Every legal answer of every rule to the blocks of the kit, judged as every rule; what the kit rejects is wrong."""
    found = dict.fromkeys(Status, 0)
    for block in chosen_blocks(fmt, 60):
        tensor = np.uint32(int(block["g"]["amax"], 16)).view(np.float32) if "g" in block else None
        answers = [(set(named), a) for named, legal in block["a"] for a in legal]
        for rule in sorted(set().union(*(named for named, _ in answers))):
            judge = oracle(Recipe(fmt, profile=rule, tensor_scale="amax" if "g" in block else ""))
            for named, a in answers:
                codes, scale = np.array(bytearray.fromhex(a["c"]), np.uint8), np.array([[a["s"]]], np.uint32 if "f32" in fmt else np.uint8)
                codes[a.get("n", [])] = 0x7F
                seen = judge.check(block["x"].view(np.float32)[None], codes[None], scale, tensor)
                found[seen.status] += 1
                closed = runtime.closed_blocks(
                    [(codes, a["s"])], fmt, [block], runtime.failing_blocks([(codes, a["s"])], fmt, [block], rule)
                )
                assert seen.status is not Status.WRONG or rule not in named, (block["i"], rule, seen.message)
                assert seen.status is Status.WRONG or not closed or block["p"] == "nan", (block["i"], rule)  # a NaN that is kept is enough
    assert min(found[Status.RIGHT], found[Status.WRONG]) > 50


def test_a_framework_asks_in_its_own_layouts() -> None:
    x, factor = draw(130, 96), np.float32(448 * 6 / 5)
    fp4 = oracle(FLASHINFER)
    codes, scales = fp4.quantize(x, factor)
    assert (codes.shape, scales.shape) == ((130, 48), (256 * 8,))
    assert fp4.check(x, codes, scales, factor).status is Status.RIGHT
    expected = mxspec.quantize(x, "nvfp4", profile="nvfp4-te", tensor_scale=mxspec.TensorScale("encode", factor), convert=True)
    assert np.array_equal(fp4.dequantize(codes, scales, x.shape, factor), expected.dequantize())
    codes[3, 5] ^= 0x10
    seen = fp4.check(x, codes, scales, factor)
    assert (seen.status, seen.count, seen.wrong, seen.open) == (Status.WRONG, 130 * 6, 1, 0)
    assert "Row 3, block 0: scale expected" in seen.message
    assert "lane 11, x = " in seen.message
    with pytest.raises(AssertionError, match="1 of 780 blocks are wrong"):
        seen.require()


def test_what_is_open_is_no_mistake() -> None:
    x = draw(1, 64)
    x[0, 3], x[0, 40] = np.nan, -1e-9
    mxfp4 = oracle(Recipe("mxfp4"))
    codes, scales = mxfp4.quantize(x)
    codes[0, 40], scales[0, 0] = 0, 77
    seen = mxfp4.check(x, codes, scales)
    assert (seen.status, seen.wrong, seen.open) == (Status.OPEN, 0, 2)
    seen.require()


def test_outputs_of_a_product_lie_in_an_interval() -> None:
    fp8 = oracle(Recipe("fp8_e4m3-128-f32", profile="deepgemm-2.6/fp8-128/float32"))
    a, b = (fp8.read(*fp8.quantize(draw(rows, 256)), (rows, 256)) for rows in (3, 4))
    y = (a.dequantize().astype(float) @ b.dequantize().astype(float).T).astype(np.float32)
    assert fp8.check_product(a, b, y).status is Status.RIGHT
    y[1, 2] *= np.float32(1.01)
    seen = fp8.check_product(a, b, y)
    assert (seen.status, seen.wrong, seen.count) == (Status.WRONG, 1, 12)
    assert "Row 1, column 2: expected " in seen.message
    with pytest.raises(ValueError, match=r"shape \(4, 3\); the product has \(3, 4\)"):
        fp8.check_product(a, b, y.T)


def test_errors_say_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="mxfp5"):
        oracle(Recipe("mxfp5"))
    x = draw(2, 64)
    codes, _ = oracle(FLASHINFER).quantize(x, 1.0)
    with pytest.raises(ValueError, match="codes of e2m1 in the layout bytes"):
        oracle(Recipe("mxfp4")).check(x, codes & 15, np.zeros((2, 2), np.uint8))
    with pytest.raises(ValueError, match="no tensor scale"):
        oracle(Recipe("mxfp4")).quantize(x, 1.0)
