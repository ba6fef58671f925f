"""Products that are right in one shape and wrong in another: a feature of its own in each path of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.products.path_cases import list_path_cases
from mxspec_conformance.judge.products.reference import allow, refer_case, round_exactly
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.operands import parse_product
from mxspec_lab.products.kernels import element_table, scale_table

from tests.judge.failing import list_failing
from tests.judge.test_product_far import ALL, BIAS, E4M3, E5M2, FP4, NVFP4, Target, multiply

Change = Callable[[dict[str, Any]], Any]
BFLOAT16 = ml_dtypes.bfloat16


def in_shape(holds: Callable[[int, int, int], bool], change: Change) -> Change:
    """The change in some shapes alone; shapes are (m, n, k)."""

    def changed(call: dict[str, Any]) -> Any:
        return change(call) if holds(len(call["x"]), len(call["w"]), call["x"].shape[1]) else None

    return changed


def no_tensor_scale(call: dict[str, Any]) -> None:
    call["scale"] = 1.0


def alpha_in_bfloat16(call: dict[str, Any]) -> None:
    call["alpha"] = None if call["alpha"] is None else float(BFLOAT16(call["alpha"]))


def bias_in_half(call: dict[str, Any]) -> None:
    call["bias"] = None if call["bias"] is None else call["bias"].astype(np.float32).astype(np.float16)


def infinite_scale(call: dict[str, Any]) -> None:
    table = scale_table(FP4).copy()
    table[0xFF] = 2.0**128
    call["x"] = element_table(FP4)[call["a"].codes] * np.repeat(table[call["a"].scales], 32, axis=1)


def last_block_lost(call: dict[str, Any]) -> None:
    call["sum"] = multiply(call["x"][:, :-32], call["w"][:, :-32])


def stage_read_twice(call: dict[str, Any]) -> None:
    for side in ("x", "w"):
        call[side] = call[side].copy()
        call[side][:, 640:768] = call[side][:, 512:640]


def sums_by_halves(call: dict[str, Any]) -> None:
    parts = [multiply(call["x"][:, at], call["w"][:, at]).astype(BFLOAT16).astype(np.float64) for at in (slice(None, 512), slice(512, None))]
    call["sum"] = parts[0] + parts[1]


def bias_and_beta_apart(call: dict[str, Any]) -> None:
    if call["alpha"] is None and call["c"] is not None:
        call["bias"] = None


def bias_dropped_by_zero(call: dict[str, Any]) -> None:
    if call["beta"] == 0:
        call["bias"] = None


def equal_rows_kept(call: dict[str, Any]) -> None:
    codes, x = call["a"].codes, call["x"].copy()
    for i in range(1, len(x)):
        if (codes[i] == codes[i - 1]).all():
            x[i] = x[i - 1]
    call["x"] = x


def infinities_of_c_lost(call: dict[str, Any]) -> None:
    if call["c"] is not None:
        call["c"] = np.where(np.isinf(call["c"].astype(np.float32)), np.zeros((), call["c"].dtype), call["c"])


def nan_codes_are_numbers(call: dict[str, Any]) -> None:
    bits = call["a"].view(np.uint8)
    call["x"] = np.where(bits == 0x7F, 57344.0, call["x"])


def numbers_in_bfloat16(call: dict[str, Any]) -> None:
    for side in ("x", "w"):
        call[side] = call[side].astype(np.float32).astype(BFLOAT16).astype(np.float64)


def row(m: int, n: int, k: int) -> bool:
    return m == 1


def tiles(m: int, n: int, k: int) -> bool:
    return m >= 16 and n >= 16


#: name -> (what is wrong, the topic that says so, the sides, the outputs)
WRONG: dict[str, tuple[Change, str, tuple[str, str], tuple[str, ...]]] = {
    "a row without its tensor scale": (in_shape(row, no_tensor_scale), "tensor-scale", (NVFP4, ""), ALL[:1]),
    "tiles without their tensor scale": (in_shape(tiles, no_tensor_scale), "tensor-scale", (NVFP4, ""), ALL[:1]),
    "alpha of a row in bfloat16": (in_shape(row, alpha_in_bfloat16), "epilogue", (E4M3, ""), ALL[:1]),
    "bias in float16": (bias_in_half, "epilogue", (E4M3, ""), ALL[1:2]),
    "FF of a row is 2^128": (in_shape(row, infinite_scale), "nan", (FP4, ""), ALL[:1]),
    "an odd tail of a long k": (in_shape(lambda m, n, k: k > 256 and k % 128 == 96, last_block_lost), "block-scale", (E4M3, ""), ALL[:1]),
    "a stage of tiles read twice": (in_shape(lambda m, n, k: tiles(m, n, k) and k >= 768, stage_read_twice), "block-scale", (E4M3, ""), ALL[:1]),
    "split sums of tiles in bfloat16": (in_shape(lambda m, n, k: tiles(m, n, k) and k > 512, sums_by_halves), "block-scale", (E4M3, ""), ALL[:1]),
    "no bias beside C without alpha": (bias_and_beta_apart, "epilogue", (E4M3, ""), ALL[:1]),
    "no bias where beta is zero": (bias_dropped_by_zero, "epilogue", (E4M3, ""), ALL[:1]),
    "rows of equal codes are one": (equal_rows_kept, "block-scale", (FP4, ""), ALL[:1]),
    "an infinity of C is zero": (infinities_of_c_lost, "inf", (E4M3, ""), ALL[:1]),
    "the NaN of all ones is a number": (nan_codes_are_numbers, "nan", ("float8_e5m2", ""), ALL[:1]),
    "float32 tiles in bfloat16": (in_shape(tiles, numbers_in_bfloat16), "identity", ("float32", ""), ALL[:1]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_path_of_its_own_is_found(name: str) -> None:
    change, topic, (a, b), dtypes = WRONG[name]
    assert topic in list_failing(Target(change, a, b, OUT_DTYPES=dtypes))


@pytest.mark.parametrize("sides", [(E4M3, FP4), (NVFP4, NVFP4), (E5M2, "bfloat16"), ("float16", BIAS), ("bfloat16", "mxfp4-2to4"), ("float8_e5m2", "float8_e5m2")])
@pytest.mark.parametrize("accumulator", ["float32", "fused-f13-32", "bfloat16"])
def test_the_exact_sum_is_right_in_every_path(sides: tuple[str, str], accumulator: str) -> None:
    """Whatever class is declared; and most outputs have one right result in float32."""
    product = parse_product(f"{sides[0]} @ {sides[1]}")
    judged = ACCUMULATORS[accumulator]
    capabilities = Capabilities(
        name="exact", version="1", formats=(), functions=("matmul",), keywords={"matmul": ("alpha", "beta", "c", "bias")}, elements=(),
        products=(product.name,), out_dtypes=ALL,
    )  # fmt: skip
    certain = count = 0
    for case in list_path_cases(Maker(product, capabilities, judged, seed=29), ALL):
        reference = refer_case(case)
        with np.errstate(all="ignore"):
            output = round_exactly(reference, case)
        allowed = allow(reference, case, judged)
        assert allowed.accepts(output).all(), case.label
        certain, count = certain + int(allowed.decided.sum()), count + output.size
    if accumulator == DEFAULT_ACCUMULATOR:
        assert certain > 0.6 * count
