"""Products that are wrong at the ends of what is held, where nothing is left of a side, in other parts under equal codes, or in large calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec.dot import ACCUMULATORS, OUTPUTS, round_floats
from mxspec_conformance import check
from mxspec_conformance.judge.products.large_calls import list_large_calls
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.products.kernels import OUTPUTS as DTYPES, element_table, finish_float32, scale_table
from mxspec_lab.products.kinds import scatter

from tests.judge.failing import list_failing

E4M3, E5M2, FP4, INT8, NVFP4 = "mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "mxint8", "nvfp4"
ZERO, BIAS = "int4-g64-zero-float16", "int4-g64-bias-float16"
ALL = ("float32", "bfloat16", "float16")


def read(side: Any) -> Any:
    """The numbers of a side."""
    if isinstance(side, np.ndarray):
        return side.astype(np.float64)
    if side.format.startswith("int"):
        q, s = np.asarray(side.codes).astype(np.float64), np.repeat(np.asarray(side.scales).astype(np.float64), 64, axis=1)
        offsets = np.repeat(np.asarray(side.offsets).astype(np.float64), 64, axis=1)
        return (q - offsets) * s if side.biases is None else q * s + offsets
    return element_table(side.format)[side.codes] * np.repeat(scale_table(side.format)[side.scales], 16 if side.format == NVFP4 else 32, axis=1)


def multiply(x: Any, w: Any) -> Any:
    """Their sums, by NumPy in float32."""
    return (x.astype(np.float32) @ w.astype(np.float32).T).astype(np.float64)


@dataclass
class Target:
    """A `matmul` with an epilogue: `change` alters the call's parts, or returns the outputs."""

    change: Callable[[dict[str, Any]], Any] = lambda call: None
    a: str = E4M3
    b: str = ""
    NAME: str = "far"
    VERSION: str = "1"
    CONTRACT: str = ""
    OUT_DTYPES: tuple[str, ...] = ("float32",)
    kept: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.OPERANDS = {"a": self.a, "b": self.b or self.a}
        self.CONTRACT = "exact" if self.b in (ZERO, BIAS) else ""

    def matmul(
        self, a: Any, b: Any, out_dtype: str, alpha: float | None = None, beta: float | None = None, c: Any = None, bias: Any = None
    ) -> Any:
        with np.errstate(all="ignore"):
            scale = float(np.prod([np.float32(getattr(x, "tensor_scale", None) or 1) for x in (a, b)], dtype=np.float64))
            call = {"a": a, "b": b, "scale": scale, "alpha": alpha, "beta": beta, "c": c, "bias": bias, "out": out_dtype, "kept": self.kept}
            call |= {side: read(call[of]) for side, of in (("x", "a"), ("w", "b")) if not isinstance(getattr(call[of], "metadata", None), np.ndarray)}
            found = self.change(call)
            if found is not None:
                return found
            total = call["sum"] if "sum" in call else multiply(call["x"], call["w"])
            return finish_float32(total, call["scale"], call["alpha"], beta, call["c"], call["bias"], out_dtype)


def empty_tiles_left_out(call: dict[str, Any]) -> None:
    tiles = range(0, call["x"].shape[1], 128)
    pairs = [(call["x"][:, i : i + 128], call["w"][:, i : i + 128]) for i in tiles]
    call["sum"] = sum((multiply(x, w) for x, w in pairs if x.any() and w.any()), np.zeros((len(call["x"]), len(call["w"]))))


def infinity_times_zero(call: dict[str, Any]) -> None:
    total = multiply(call["x"], call["w"])
    special = [(test(call["x"]).any(1)[:, None] | test(call["w"]).any(1)[None, :]) for test in (np.isnan, np.isinf)]
    call["sum"] = np.where(np.isnan(total) & special[1] & ~special[0], np.inf, total)


def signed_compare(call: dict[str, Any]) -> None:
    table = element_table(E5M2).copy()
    table[0xFD:] = -np.inf
    for side, of in (("x", "a"), ("w", "b")):
        call[side] = table[call[of].codes] * np.repeat(scale_table(E5M2)[call[of].scales], 32, axis=1)


def negative_nan(call: dict[str, Any]) -> None:
    call["x"] = np.where(call["a"].view(np.uint8) == 0xFF, -480, call["x"])


def zero_scale_is_one(call: dict[str, Any]) -> None:
    table = scale_table(NVFP4).copy()
    table[0] = 1
    call["x"] = element_table(NVFP4)[call["a"].codes] * np.repeat(table[call["a"].scales], 16, axis=1)


def no_affine_scale(call: dict[str, Any]) -> None:
    b = call["b"]
    scales = np.where(np.asarray(b.scales) == 0, 1, b.scales).astype(np.float64)
    call["w"] = b.codes * np.repeat(scales, 64, axis=1) + np.repeat(np.asarray(b.biases).astype(np.float64), 64, axis=1)


def subnormals_flushed(call: dict[str, Any]) -> None:
    call["x"] = np.where(np.abs(call["x"]) < 2.0**-14, 0, call["x"])


def exponents_come_round(call: dict[str, Any]) -> None:
    a, b, total = call["a"], call["b"], 0
    for block in range(a.scales.shape[1]):
        at = slice(block * 32, block * 32 + 32)
        one, other = (s.scales[:, block].astype(int) for s in (a, b))
        power = np.minimum(one[:, None] + other[None, :] - 127, 255) & 255
        scale = np.where(power == 255, np.inf, np.ldexp(1.0, power - 127))
        scale = np.where((one == 255)[:, None] | (other == 255)[None, :], np.nan, scale)
        total = total + multiply(element_table(FP4)[a.codes[:, at]], element_table(FP4)[b.codes[:, at]]) * scale
    call["sum"] = total


def saturating_blocks(call: dict[str, Any]) -> None:
    a, b, total = call["a"], call["b"], 0
    codes = [x.codes.view(np.int8).astype(np.float64) for x in (a, b)]
    for block in range(a.scales.shape[1]):
        at = slice(block * 32, block * 32 + 32)
        sums = np.clip(codes[0][:, at] @ codes[1][:, at].T, -(2.0**18), 2.0**18) / 4096
        total = total + sums * scale_table(INT8)[a.scales[:, block]][:, None] * scale_table(INT8)[b.scales[:, block]][None, :]
    call["sum"] = total


def narrow_sums(call: dict[str, Any]) -> None:
    total = np.zeros((len(call["x"]), len(call["w"])))
    for i in range(0, call["x"].shape[1], 16):
        terms = np.concatenate([call["x"][:, None, i : i + 16] * call["w"][None, :, i : i + 16], total[:, :, None]], axis=2)
        unit = np.ldexp(1.0, np.frexp(np.where(np.isfinite(terms), np.abs(terms), 0).max(axis=2))[1] - 22)[:, :, None]
        total = (np.trunc(terms / unit) * unit).sum(axis=2)
    call["sum"] = total


def alpha_for_tensor_scales(call: dict[str, Any]) -> None:
    call["scale"] = call["scale"] if call["alpha"] is None else 1.0


def c_under_tensor_scales(call: dict[str, Any]) -> Any:
    total = multiply(call["x"], call["w"])
    y = finish_float32(total, 1.0, call["alpha"], call["beta"], call["c"], call["bias"], "float32")
    return (y * np.float32(call["scale"])).astype(DTYPES[call["out"]])


def sums_in_half(call: dict[str, Any]) -> None:
    total = multiply(call["x"], call["w"])
    call["sum"] = np.where(np.isfinite(total), np.clip(total, -65504, 65504), total)


def alpha_in_half(call: dict[str, Any]) -> None:
    if call["alpha"] is not None and abs(call["alpha"]) < 2.0**-14:
        call["alpha"] = 0.0


def nan_of_c_cleaned(call: dict[str, Any]) -> None:
    if call["c"] is not None:
        call["c"] = np.nan_to_num(call["c"])


def rows_apart(call: dict[str, Any]) -> None:
    codes = call["a"].codes
    if codes.strides[0] >= codes.shape[1] > 1:
        lies = np.lib.stride_tricks.as_strided(codes, codes.shape, (codes.strides[0], 1))
        call["x"] = element_table(E4M3)[lies] * np.repeat(scale_table(E4M3)[call["a"].scales], 32, axis=1)


def kept_without_offsets(call: dict[str, Any]) -> None:
    b = call["b"]
    call["w"] = call["kept"].setdefault((b.codes.tobytes(), b.scales.tobytes(), b.shape), call["w"])


def kept_without_metadata(call: dict[str, Any]) -> None:
    a, w = call["a"], call["w"]
    nibbles = call["kept"].setdefault((a.values.tobytes(), a.shape), a.metadata.copy())
    x, where = scatter(a.values.astype(np.float64), nibbles, 1)
    call["sum"] = np.stack([np.where(where[i], x[i] * w, 0).sum(axis=1) for i in range(len(x))])


def one_answer_in_bfloat16(call: dict[str, Any]) -> Any:
    y = finish_float32(multiply(call["x"], call["w"]), 1.0, call["alpha"], call["beta"], call["c"], call["bias"], call["out"])
    if call["out"] != "bfloat16":
        return y
    held = call["kept"].setdefault(y.shape, y)
    held[...] = y
    return held


def shared_bias(call: dict[str, Any]) -> None:
    if call["bias"] is not None:
        call["kept"]["bias"] = call["bias"]
        time.sleep(0.0005)
        call["bias"] = call["kept"]["bias"]


#: name -> (what is wrong, the topic that says so, the sides, the outputs)
WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str, tuple[str, str], tuple[str, ...]]] = {
    "empty tiles left out": (empty_tiles_left_out, "nan", (E4M3, ""), ALL[:1]),
    "infinity times zero": (infinity_times_zero, "inf", (E5M2, ""), ALL[:1]),
    "NaN by a signed compare": (signed_compare, "nan", (E5M2, ""), ALL[:1]),
    "FF is a number": (negative_nan, "nan", ("float8_e4m3fn", ""), ALL[:1]),
    "scale 00 is one": (zero_scale_is_one, "scale-code", (NVFP4, ""), ALL[:1]),
    "affine scale 0 is one": (no_affine_scale, "scale-code", ("float16", BIAS), ALL[:1]),
    "subnormal float16 flushed": (subnormals_flushed, "identity", ("float16", ZERO), ALL[:1]),
    "subnormal e5m2 flushed": (subnormals_flushed, "identity", ("float8_e5m2", ""), ALL[:1]),
    "exponents come round": (exponents_come_round, "scale-code", (FP4, ""), ALL[:1]),
    "blocks saturate": (saturating_blocks, "sum", (INT8, ""), ALL[:1]),
    "22 bits": (narrow_sums, "sum", (E4M3, ""), ALL[:1]),
    "alpha for tensor scales": (alpha_for_tensor_scales, "tensor-scale", (NVFP4, ""), ALL[:1]),
    "C under tensor scales": (c_under_tensor_scales, "tensor-scale", (NVFP4, ""), ALL[:1]),
    "sums in float16": (sums_in_half, "tensor-scale", (NVFP4, ""), ALL[2:]),
    "sums in float16 before alpha": (sums_in_half, "epilogue", (E4M3, ""), ALL[2:]),
    "alpha in float16": (alpha_in_half, "epilogue", (E4M3, ""), ALL[:1]),
    "NaN of C cleaned": (nan_of_c_cleaned, "nan", (E4M3, ""), ALL[:1]),
    "rows apart": (rows_apart, "memory", (E4M3, ""), ALL[:1]),
    "kept without offsets": (kept_without_offsets, "state", ("float16", ZERO), ALL[:1]),
    "kept without metadata": (kept_without_metadata, "state", ("bfloat16-2to4", "bfloat16"), ALL[:1]),
    "one answer in bfloat16": (one_answer_in_bfloat16, "memory", (E4M3, ""), ALL[:2]),
    "bias shared by threads": (shared_bias, "state", (E4M3, ""), ALL[:1]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_found(name: str) -> None:
    change, topic, (a, b), dtypes = WRONG[name]
    assert topic in list_failing(Target(change, a, b, OUT_DTYPES=dtypes))


def rows_from_2048(call: dict[str, Any]) -> None:
    call["x"] = call["x"][np.arange(len(call["x"])) % 2048]


def columns_from_4096(call: dict[str, Any]) -> None:
    call["w"] = call["w"][np.arange(len(call["w"])) % 4096]


def rows_in_int16(call: dict[str, Any]) -> None:
    """In kernels for broken tiles alone."""
    if len(call["x"]) % 64:
        call["x"] = call["x"][np.arange(len(call["x"])).astype(np.int16).astype(int) % len(call["x"])]


def columns_in_uint16(call: dict[str, Any]) -> None:
    call["w"] = call["w"][np.arange(len(call["w"])).astype(np.uint16)]


def several_tiles(call: dict[str, Any]) -> None:
    call["sum"] = multiply(call["x"], call["w"])
    call["sum"][128:, 128:] = 0


def outputs_from_65536(call: dict[str, Any]) -> None:
    call["sum"] = multiply(call["x"], call["w"])
    call["sum"].reshape(-1)[65536:] = 0


def half_sums_of_tiles(call: dict[str, Any]) -> None:
    if min(len(call["x"]), len(call["w"])) >= 64:
        call["sum"] = multiply(call["x"], call["w"]).astype(np.float16).astype(np.float64)


def half_sums_of_a_column(call: dict[str, Any]) -> None:
    if len(call["w"]) == 1 and call["x"].shape[1] > 2048:
        call["sum"] = multiply(call["x"], call["w"]).astype(np.float16).astype(np.float64)


def scales_from_256(call: dict[str, Any]) -> None:
    for side, of in (("x", "a"), ("w", "b")):
        blocks = np.arange(call[of].shape[1]) // 32 % 256
        if call[of].shape[1] > 16384:
            call[side] = element_table(E4M3)[call[of].codes] * scale_table(E4M3)[call[of].scales[:, blocks]]


def bias_of_128(call: dict[str, Any]) -> None:
    if call["bias"] is not None and len(call["x"]) > 128:
        call["bias"] = call["bias"][np.arange(len(call["w"])) % 128]


def cut_in_bfloat16(call: dict[str, Any]) -> Any:
    if call["out"] != "bfloat16" or len(call["x"]) * len(call["w"]) < 4096:
        return None
    y = multiply(call["x"], call["w"]).astype(np.float32)
    return (y.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(ml_dtypes.bfloat16)


LARGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "rows from 2048": rows_from_2048,
    "columns from 4096": columns_from_4096,
    "rows in int16": rows_in_int16,
    "columns in uint16": columns_in_uint16,
    "several tiles both ways": several_tiles,
    "outputs from 65536": outputs_from_65536,
    "tiles in float16": half_sums_of_tiles,
    "a column in float16": half_sums_of_a_column,
    "scales from 256": scales_from_256,
    "bias of 128 columns": bias_of_128,
    "bfloat16 cut": cut_in_bfloat16,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_product_that_is_wrong_is_found(name: str) -> None:
    assert "call-size" in list_failing(Target(LARGE[name], OUT_DTYPES=ALL[:2] if name == "bfloat16 cut" else ALL[:1]))


@pytest.mark.parametrize(("a", "b"), [(E4M3, E4M3), (E5M2, E5M2), (INT8, INT8), (FP4, NVFP4), ("float16", ZERO), ("mxfp4-2to4", E4M3), ("float32", "float8_e5m2")])
def test_large_products_have_one_result(a: str, b: str) -> None:
    """The outputs that float64 has at once are those of the model, in every dtype."""
    target = Target(a=a, b=b, OUT_DTYPES=ALL)
    session, product = InProcessSession(target, "far"), parse_product(f"{a} @ {b}")
    maker = Maker(product, session.capabilities, ACCUMULATORS["float32"], 28)
    for call in list_large_calls(maker, ALL):
        allowed = allow(refer_case(call.case), call.case, ACCUMULATORS["float32"])
        assert allowed.decided.all(), call.case.label
        assert (allowed.low == round_floats(call.exact, OUTPUTS[call.case.out_dtype])).all(), call.case.label


class Loop:
    """A product in a loop: too slow for large calls."""

    NAME, VERSION, OPERANDS = "loop", "1", {"a": E4M3, "b": E4M3}

    def __init__(self) -> None:
        self.largest = 0

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        x, w = read(a), read(b)
        self.largest = max(self.largest, len(x) * len(w))
        end = time.process_time() + 0.02 * (len(x) * len(w) == 72 * 68)
        while time.process_time() < end:
            pass
        with np.errstate(all="ignore"):
            return multiply(x, w).astype(np.float32)


def test_a_slow_kernel_is_asked_for_no_large_product() -> None:
    target = Loop()
    assert check(target, in_process=True).exit_code == 0
    assert target.largest < 65536


def test_right_products_conform() -> None:
    for a, b in ((E5M2, ""), (NVFP4, ""), ("float16", ZERO), ("float8_e4m3fn", "")):
        assert not list_failing(Target(a=a, b=b, OUT_DTYPES=ALL if a == NVFP4 else ALL[:1]))
