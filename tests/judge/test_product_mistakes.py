"""Products that are wrong in one part alone are found: at the ends of what is held, in one shape, memory, path or state, in large calls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec_conformance import check
from mxspec_conformance.judge.products.naming import find_rule
from mxspec_lab.products.kernels import OUTPUTS, Kernel, KernelTarget, element_table, finish_float32, scale_table
from mxspec_lab.products.kinds import scatter

from tests.judge.failing import list_failing
from tests.judge.product_target import (
    ALL,
    BFLOAT16,
    BIAS,
    E4M3,
    E5M2,
    FP4,
    INT8,
    NVFP4,
    ZERO,
    Call,
    Change,
    Target,
    drop,
    given,
    half,
    in_shape,
    multiply,
)
from tests.threads import wrapped_columns

LAID = "mxfp4/nibble-low+128x4"


@dataclass(frozen=True)
class Mistake:
    """What is wrong, the topics of which one says so, the sides and the outputs."""

    change: Change
    topics: str
    a: str = E4M3
    b: str = ""
    dtypes: tuple[str, ...] = ALL[:1]


def scaled(fmt: str, codes: Any, table: Any, scales: Any) -> Any:
    """Numbers by a table of scales."""
    return element_table(fmt)[codes] * np.repeat(table[scales], 16 if fmt == NVFP4 else 32, axis=1)


def with_scale(fmt: str, code: int, value: float, call: Call) -> dict[str, Any]:
    """One scale code of a means something else."""
    table = scale_table(fmt).copy()
    table[code] = value
    return {"x": scaled(fmt, call.a.codes, table, call.a.scales)}


def empty_tiles_left_out(call: Call) -> dict[str, Any]:
    tiles = range(0, call.x.shape[1], 128)
    pairs = [(call.x[:, i : i + 128], call.w[:, i : i + 128]) for i in tiles]
    return {"sum": sum((multiply(x, w) for x, w in pairs if x.any() and w.any()), np.zeros((len(call.x), len(call.w))))}


def infinity_times_zero(call: Call) -> dict[str, Any]:
    total = multiply(call.x, call.w)
    special = [(test(call.x).any(1)[:, None] | test(call.w).any(1)[None, :]) for test in (np.isnan, np.isinf)]
    return {"sum": np.where(np.isnan(total) & special[1] & ~special[0], np.inf, total)}


def signed_compare(call: Call) -> dict[str, Any]:
    table = element_table(E5M2).copy()
    table[0xFD:] = -np.inf
    return {n: table[s.codes] * np.repeat(scale_table(E5M2)[s.scales], 32, axis=1) for n, s in (("x", call.a), ("w", call.b))}


def no_affine_scale(call: Call) -> dict[str, Any]:
    b = call.b
    scales = np.where(np.asarray(b.scales) == 0, 1, b.scales).astype(np.float64)
    return {"w": b.codes * np.repeat(scales, 64, axis=1) + np.repeat(np.asarray(b.biases).astype(np.float64), 64, axis=1)}


def exponents_come_round(call: Call) -> dict[str, Any]:
    a, b, total = call.a, call.b, 0
    for block in range(a.scales.shape[1]):
        at = slice(block * 32, block * 32 + 32)
        one, other = (s.scales[:, block].astype(int) for s in (a, b))
        power = np.minimum(one[:, None] + other[None, :] - 127, 255) & 255
        scale = np.where(power == 255, np.inf, np.ldexp(1.0, power - 127))
        scale = np.where((one == 255)[:, None] | (other == 255)[None, :], np.nan, scale)
        total = total + multiply(element_table(FP4)[a.codes[:, at]], element_table(FP4)[b.codes[:, at]]) * scale
    return {"sum": total}


def saturating_blocks(call: Call) -> dict[str, Any]:
    a, b, total = call.a, call.b, 0
    codes = [x.codes.view(np.int8).astype(np.float64) for x in (a, b)]
    for block in range(a.scales.shape[1]):
        at = slice(block * 32, block * 32 + 32)
        sums = np.clip(codes[0][:, at] @ codes[1][:, at].T, -(2.0**18), 2.0**18) / 4096
        total = total + sums * scale_table(INT8)[a.scales[:, block]][:, None] * scale_table(INT8)[b.scales[:, block]][None, :]
    return {"sum": total}


def narrow_sums(call: Call) -> dict[str, Any]:
    total = np.zeros((len(call.x), len(call.w)))
    for i in range(0, call.x.shape[1], 16):
        terms = np.concatenate([call.x[:, None, i : i + 16] * call.w[None, :, i : i + 16], total[:, :, None]], axis=2)
        unit = np.ldexp(1.0, np.frexp(np.where(np.isfinite(terms), np.abs(terms), 0).max(axis=2))[1] - 22)[:, :, None]
        total = (np.trunc(terms / unit) * unit).sum(axis=2)
    return {"sum": total}


def c_under_tensor_scales(call: Call) -> Any:
    y = finish_float32(multiply(call.x, call.w), 1.0, call.alpha, call.beta, call.c, call.bias, "float32")
    return (y * np.float32(call.scale)).astype(OUTPUTS[call.out])


def sums_in_half(call: Call) -> dict[str, Any]:
    total = multiply(call.x, call.w)
    return {"sum": np.where(np.isfinite(total), np.clip(total, -65504, 65504), total)}


def as_they_lie(part: str, call: Call) -> Any:
    """Codes or scales of a are read with one stride: along rows with that of rows, or as if rows followed each other."""
    held = getattr(call.a, part)
    pitch = held.strides[0] if part == "codes" else held.shape[1]
    if held.strides[0] < held.shape[1] or held.shape[1] == 1 or (part == "scales" and held.strides[0] == pitch):
        return None
    lies = np.lib.stride_tricks.as_strided(held, held.shape, (pitch, 1))
    codes, scales = (lies, call.a.scales) if part == "codes" else (call.a.codes, lies)
    return {"x": scaled(E4M3, codes, scale_table(E4M3), scales)}


def kept_without_metadata(call: Call) -> dict[str, Any]:
    nibbles = call.kept.setdefault((call.a.values.tobytes(), call.a.shape), call.a.metadata.copy())
    x, where = scatter(call.a.values.astype(np.float64), nibbles, 1)
    return {"sum": np.stack([np.where(where[i], x[i] * call.w, 0).sum(axis=1) for i in range(len(x))])}


def one_answer_in_bfloat16(call: Call) -> Any:
    y = call.finish()
    if call.out != "bfloat16":
        return y
    held = call.kept.setdefault(y.shape, y)
    held[...] = y
    return held


def shared_bias(call: Call) -> Any:
    if call.bias is None:
        return None
    call.kept["bias"] = call.bias
    time.sleep(0.0005)
    return {"bias": call.kept["bias"]}


def last_bias(call: Call) -> Any:
    if call.bias is not None:
        call.kept["bias"] = call.bias
    return {"bias": call.kept["bias"]} if len(call.kept.get("bias", ())) == len(call.w) else None


def long_sums_go_on(call: Call) -> dict[str, Any]:
    total = multiply(call.x, call.w)
    call.kept[total.shape] = total = total + call.kept.get(total.shape, 0)
    return {"sum": total}


def two_bfloat16(call: Call) -> dict[str, Any]:
    high = call.a.astype(BFLOAT16).astype(np.float32)
    low = np.where(np.isfinite(call.a), call.a - high, 0).astype(BFLOAT16)
    return {"x": high.astype(np.float64) + low.astype(np.float64)}


def stage_read_twice(call: Call) -> dict[str, Any]:
    return {n: np.concatenate([s[:, :640], s[:, 512:640], s[:, 768:]], axis=1) for n, s in (("x", call.x), ("w", call.w))}


def sums_by_halves(call: Call) -> dict[str, Any]:
    parts = (multiply(call.x[:, at], call.w[:, at]).astype(BFLOAT16).astype(np.float64) for at in (slice(None, 512), slice(512, None)))
    return {"sum": sum(parts)}


def equal_rows_kept(call: Call) -> dict[str, Any]:
    codes, x = call.a.codes, call.x.copy()
    for i in range(1, len(x)):
        if (codes[i] == codes[i - 1]).all():
            x[i] = x[i - 1]
    return {"x": x}


def bias_of_rows(call: Call) -> Any:
    if call.bias is None:
        return None
    bias, call.bias = call.bias, None
    return (call.finish().astype(np.float32) + bias.astype(np.float32)[:, None]).astype(OUTPUTS[call.out])


def row_in_16_bits(call: Call) -> dict[str, Any]:
    parts = (call.x * call.w).astype(np.float32).reshape(len(call.w), -1, 16).sum(axis=-1)
    return {"sum": half(parts).sum(axis=-1)[None]}


def nan_in_whole_rows(call: Call) -> dict[str, Any]:
    total = multiply(call.x, call.w)
    return {"sum": np.where(np.isnan(total).any(axis=1, keepdims=True), np.nan, total)}


def into_c(returned: bool, call: Call) -> Any:
    y = call.finish()
    if call.c is None or call.c.dtype != y.dtype or not call.c.flags.writeable:
        return y
    call.c[...] = y
    return call.c if returned else y


def bias_by_its_memory(call: Call) -> Any:
    if call.bias is None or call.bias.strides[0] == call.bias.itemsize:
        return None
    return {"bias": np.resize(np.asarray(call.bias.base).ravel(), call.bias.shape)}


def scales_from_256(call: Call) -> dict[str, Any]:
    k = call.a.shape[1]
    return {
        n: element_table(E4M3)[s.codes] * scale_table(E4M3)[s.scales[:, np.arange(k) // 32 % 256]]
        for n, s in (("x", call.a), ("w", call.b))
    }


def cut_in_bfloat16(call: Call) -> Any:
    if call.out != "bfloat16" or len(call.x) * len(call.w) < 4096:
        return None
    y = multiply(call.x, call.w).astype(np.float32)
    return (y.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(ml_dtypes.bfloat16)


def nan_of_the_next_row(call: Call) -> Any:
    y = multiply(call.x, call.w)
    y[:-1][np.isnan(call.x[1:, :32]).any(1)] = np.nan
    return {"sum": y}


def begun_with_bias(call: Call) -> Any:
    if call.out != "float32" or call.bias is None or call.c is not None or call.alpha not in (None, 1):
        return None
    y = np.broadcast_to(call.bias.astype(np.float32), (len(call.x), len(call.w)))
    for i in range(0, call.x.shape[1], 64):
        y = y + multiply(call.x[:, i : i + 64], call.w[:, i : i + 64]).astype(np.float32)
    return y


def rows(x: Any, number: Any) -> Any:
    """Rows by other numbers."""
    return x[number(np.arange(len(x)))]


def in_row(change: Change) -> Change:
    return in_shape(lambda m, n, k: m == 1, change)


def in_tiles(change: Change) -> Change:
    return in_shape(lambda m, n, k: m >= 16 and n >= 16, change)


def in_long_sums(change: Change) -> Change:
    return in_shape(lambda m, n, k: k > 2048, change)


def in_squares(change: Change) -> Change:
    return in_shape(lambda m, n, k: m == n, change)


WRONG: dict[str, Mistake] = {
    # At the ends of what is held.
    "empty tiles left out": Mistake(empty_tiles_left_out, "nan"),
    "infinity times zero": Mistake(infinity_times_zero, "inf", E5M2),
    "NaN by a signed compare": Mistake(signed_compare, "nan", E5M2),
    "FF is a number": Mistake(lambda c: {"x": np.where(c.a.view(np.uint8) == 0xFF, -480, c.x)}, "nan", "float8_e4m3fn"),
    "the NaN of all ones is a number": Mistake(lambda c: {"x": np.where(c.a.view(np.uint8) == 0x7F, 57344.0, c.x)}, "nan", "float8_e5m2"),
    "scale 00 is one": Mistake(partial(with_scale, NVFP4, 0, 1), "scale-code", NVFP4),
    "FF of a row is 2^128": Mistake(in_row(partial(with_scale, FP4, 0xFF, 2.0**128)), "nan", FP4),
    "affine scale 0 is one": Mistake(no_affine_scale, "scale-code", "float16", BIAS),
    "subnormal float16 flushed": Mistake(lambda c: {"x": np.where(np.abs(c.x) < 2.0**-14, 0, c.x)}, "identity", "float16", ZERO),
    "subnormal e5m2 flushed": Mistake(lambda c: {"x": np.where(np.abs(c.x) < 2.0**-14, 0, c.x)}, "identity", "float8_e5m2"),
    "zeros under NaN": Mistake(lambda c: {"x": np.where(c.a.codes & 127 == 0, 0, c.x)}, "nan"),
    "exponents come round": Mistake(exponents_come_round, "scale-code", FP4),
    # Sums.
    "blocks saturate": Mistake(saturating_blocks, "sum", INT8),
    "22 bits": Mistake(narrow_sums, "sum"),
    "sums in float16": Mistake(sums_in_half, "tensor-scale", NVFP4, dtypes=ALL[2:]),
    "sums in float16 before alpha": Mistake(sums_in_half, "epilogue", dtypes=ALL[2:]),
    # Short sums of MXFP4 have the bits of float16: what is added in 16 bits shows in long ones, or in those with other scales.
    "float16 additions where a is one row": Mistake(in_row(row_in_16_bits), "interval shape", b=LAID),
    "NaN in whole rows": Mistake(in_shape(lambda m, n, k: m >= 8, nan_in_whole_rows), "nan", b=LAID),
    "float32 tiles in bfloat16": Mistake(in_tiles(lambda c: {n: getattr(c, n).astype(BFLOAT16).astype(np.float64) for n in "xw"}), "identity", "float32"),
    "two bfloat16": Mistake(two_bfloat16, "identity", "float32", E4M3),
    # Epilogues.
    "alpha for tensor scales": Mistake(lambda c: {} if c.alpha is None else {"scale": 1.0}, "tensor-scale", NVFP4),
    "C under tensor scales": Mistake(c_under_tensor_scales, "tensor-scale", NVFP4),
    "alpha in float16": Mistake(lambda c: {"alpha": given(lambda a: 0.0 if abs(a) < 2.0**-14 else a, c.alpha)}, "epilogue"),
    "NaN of C cleaned": Mistake(lambda c: {"c": given(np.nan_to_num, c.c)}, "nan"),
    "an infinity of C is zero": Mistake(lambda c: {"c": given(lambda y: np.where(np.isinf(y.astype(np.float32)), y.dtype.type(0), y), c.c)}, "inf"),
    "alpha of a row in bfloat16": Mistake(in_row(lambda c: {"alpha": given(lambda a: float(BFLOAT16(a)), c.alpha)}), "epilogue"),
    "bias in float16": Mistake(lambda c: {"bias": given(lambda b: b.astype(np.float32).astype(np.float16), c.bias)}, "epilogue", dtypes=ALL[1:2]),
    "no bias beside C without alpha": Mistake(lambda c: {"bias": None} if c.alpha is None and c.c is not None else {}, "epilogue"),
    "no bias where beta is zero": Mistake(lambda c: {"bias": None} if c.beta == 0 else {}, "epilogue"),
    "no bias where a is one row": Mistake(in_row(lambda c: {"bias": None}), "epilogue", b=LAID),
    "no C where b is one row": Mistake(in_shape(lambda m, n, k: n == 1, lambda c: {"c": None}), "epilogue", NVFP4),
    "C transposed where it is square": Mistake(in_squares(lambda c: {"c": given(np.transpose, c.c)}), "epilogue", b=LAID),
    "bias of rows where C is square": Mistake(in_squares(bias_of_rows), "epilogue", NVFP4, dtypes=ALL[:2]),
    "bias of each split": Mistake(in_long_sums(lambda c: {"bias": given(lambda b: b * 2, c.bias)}), "epilogue"),
    "C of each split": Mistake(in_long_sums(lambda c: {"beta": given(lambda b: b * 2, c.beta)}), "epilogue"),
    # One shape.
    "the last of 129 rows left out": Mistake(in_shape(lambda m, n, k: m == 129, partial(drop, where=lambda i, j: i == 128)), "shape", NVFP4),
    "the last of 257 rows left out": Mistake(in_shape(lambda m, n, k: m == 257, partial(drop, where=lambda i, j: i == 256)), "shape", b=LAID),
    "a row without its tensor scale": Mistake(in_row(lambda c: {"scale": 1.0}), "tensor-scale", NVFP4),
    "tiles without their tensor scale": Mistake(in_tiles(lambda c: {"scale": 1.0}), "tensor-scale", NVFP4),
    "an odd tail of a long k": Mistake(in_shape(lambda m, n, k: k > 256 and k % 128 == 96, lambda c: {"sum": multiply(c.x[:, :-32], c.w[:, :-32])}), "block-scale"),
    "a stage of tiles read twice": Mistake(in_tiles(in_shape(lambda m, n, k: k >= 768, stage_read_twice)), "block-scale"),
    "split sums of tiles in bfloat16": Mistake(in_tiles(in_shape(lambda m, n, k: k > 512, sums_by_halves)), "block-scale"),
    "NaN behind a ragged k": Mistake(in_shape(lambda m, n, k: k % 128 > 0, nan_of_the_next_row), "nan"),
    "subnormal float16 of tiles flushed": Mistake(in_shape(lambda m, n, k: m > 16, lambda c: {"x": np.where(np.abs(c.x) < 2.0**-14, 0, c.x)}), "identity", "float16", ZERO),
    "sums of tiles in float16 before alpha": Mistake(in_tiles(sums_in_half), "epilogue", dtypes=ALL[2:]),
    "beta of tiles in bfloat16": Mistake(in_shape(lambda m, n, k: min(m, n) >= 64, lambda c: {"beta": given(lambda b: float(BFLOAT16(b)), c.beta)}), "epilogue"),
    "long sums of few rows in bfloat16": Mistake(in_shape(lambda m, n, k: m < 16 and n > 128 and k > 2048, sums_by_halves), "block-scale"),
    "rows of equal codes are one": Mistake(equal_rows_kept, "block-scale", FP4),
    # Memory.
    "codes as they lie": Mistake(partial(as_they_lie, "codes"), "memory"),
    "scales as they lie": Mistake(partial(as_they_lie, "scales"), "memory"),
    "one answer in bfloat16": Mistake(one_answer_in_bfloat16, "memory", dtypes=ALL[:2]),
    "the output written into C": Mistake(partial(into_c, False), "memory", b=LAID),
    "C returned": Mistake(partial(into_c, True), "memory", NVFP4),
    "C read as it lies": Mistake(lambda c: {"c": given(lambda y: y.ravel(order="K").reshape(y.shape), c.c)}, "memory", b=LAID),
    "bias read as it lies": Mistake(bias_by_its_memory, "memory", NVFP4),
    # State.
    "kept without offsets": Mistake(lambda c: {"w": c.kept.setdefault((c.b.codes.tobytes(), c.b.scales.tobytes(), c.b.shape), c.w)}, "state", "float16", ZERO),
    "kept without metadata": Mistake(kept_without_metadata, "state", "bfloat16-2to4", "bfloat16"),
    "b prepared once for its codes": Mistake(lambda c: {"w": c.kept.setdefault(c.b.codes.tobytes(), c.w)}, "state", b=LAID),
    "a prepared once for its codes": Mistake(lambda c: {"x": c.kept.setdefault(c.a.codes.tobytes(), c.x)}, "state", NVFP4),
    "bias shared by threads": Mistake(shared_bias, "state"),
    "the last bias kept": Mistake(last_bias, "epilogue", b=LAID),
    "long sums go on": Mistake(in_long_sums(long_sums_go_on), "state"),
    # Large calls.
    "rows from 2048": Mistake(lambda c: {"x": rows(c.x, lambda i: i % 2048)}, "call-size"),
    "columns from 4096": Mistake(lambda c: {"w": rows(c.w, lambda i: i % 4096)}, "call-size"),
    "rows of broken tiles in int16": Mistake(in_shape(lambda m, n, k: m % 64 > 0, lambda c: {"x": rows(c.x, lambda i: i.astype(np.int16).astype(int) % len(i))}), "call-size"),
    "columns in uint16": Mistake(lambda c: {"w": rows(c.w, lambda i: i.astype(np.uint16))}, "call-size"),
    "the last of two tiles of k": Mistake(in_shape(lambda m, n, k: m > 64 and n >= 64 and 128 < k <= 256, lambda c: {"sum": multiply(c.x[:, :128], c.w[:, :128])}), "call-size"),
    "several tiles both ways": Mistake(partial(drop, where=lambda i, j: (i >= 128) & (j >= 128)), "call-size"),
    "outputs from 65536": Mistake(lambda c: drop(c, lambda i, j: i * len(c.w) + j >= 65536), "call-size"),
    "tiles in float16": Mistake(in_shape(lambda m, n, k: min(m, n) >= 64, lambda c: {"sum": half(multiply(c.x, c.w))}), "call-size"),
    "a column in float16": Mistake(in_shape(lambda m, n, k: n == 1 and k > 2048, lambda c: {"sum": half(multiply(c.x, c.w))}), "call-size"),
    "scales from 256": Mistake(in_shape(lambda m, n, k: k > 16384, scales_from_256), "call-size"),
    "bias of 128 columns": Mistake(in_shape(lambda m, n, k: m > 128, lambda c: {"bias": given(lambda b: rows(b, lambda i: i % 128), c.bias)}), "call-size"),
    "bfloat16 cut": Mistake(cut_in_bfloat16, "call-size", dtypes=ALL[:2]),
}  # fmt: skip


@pytest.mark.share(5)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_found(name: str) -> None:
    wrong = WRONG[name]
    assert list_failing(Target(wrong.change, wrong.a, wrong.b, wrong.dtypes)) & set(wrong.topics.split())


def refuse_strides(call: Call) -> None:
    if any(x is not None and not x.flags.c_contiguous for x in (call.c, call.bias)):
        raise ValueError("C and bias must be contiguous")


@pytest.mark.parametrize("sides", [(E5M2, ""), (NVFP4, ""), ("float16", ZERO), ("float8_e4m3fn", ""), (E4M3, LAID)])
def test_right_products_conform(sides: tuple[str, str]) -> None:
    for change in (lambda call: None, refuse_strides)[: 1 + (LAID in sides)]:
        assert not list_failing(Target(change, *sides, ALL if sides[0] == NVFP4 else ALL[:2]))


@pytest.mark.parametrize("first", "ab")
def test_block_sums_scaled_one_scale_after_the_other_are_right(first: str) -> None:
    def scale(call: Call) -> dict[str, Any]:
        q = [element_table(E4M3)[side.codes].astype(np.float32) for side in (call.a, call.b)]
        s, t = (scale_table(E4M3)[side.scales].astype(np.float32) for side in (call.a, call.b))
        total = np.zeros((len(q[0]), len(q[1])), np.float32)
        for i in range(s.shape[1]):
            dot, one, other = q[0][:, i * 32 : i * 32 + 32] @ q[1][:, i * 32 : i * 32 + 32].T, s[:, i][:, None], t[:, i][None, :]
            total = total + (dot * one * other if first == "a" else dot * other * one)
        return {"sum": total.astype(np.float64)}

    assert list_failing(Target(scale)) == set()


def test_sums_that_begin_with_the_bias_are_right() -> None:
    assert not list_failing(Target(begun_with_bias))


#: A mistake that is made in tiles alone -> the topic that shows it, and its note.
NAMED_BY_SIZE = {
    "subnormal float16 of tiles flushed": ("identity", "as if where m is more than 8, subnormal numbers of a are taken as zero")
}


@pytest.mark.parametrize("name", NAMED_BY_SIZE)
def test_a_mistake_in_calls_of_a_size_is_named(name: str) -> None:
    wrong, (topic, note) = WRONG[name], NAMED_BY_SIZE[name]
    (found,) = check(Target(wrong.change, wrong.a, wrong.b, wrong.dtypes), only=f"matmul/*/{topic}").requirements
    assert found.note == note


def test_a_rule_of_sizes_holds_for_all_wrong_calls_and_few_right_ones() -> None:
    def ask(*sizes: tuple[int, int, int]) -> Any:
        return [SimpleNamespace(size=size) for size in sizes]

    right = ask(*((m, n, k) for m in (2, 3, 33) for n in (4, 40) for k in (32, 64, 96)))
    for wrong, text in (
        (ask((1, 4, 32), (1, 40, 64)), "where m is 1"),
        (ask((33, 257, 32), (2, 300, 64)), "where n is more than 64"),
        (ask((3, 4, 32), (33, 40, 64)), ""),
        (ask((1, 4, 32)), ""),
    ):
        rule = find_rule(wrong, right)
        assert ("" if rule is None else rule.text) == text
    both = find_rule(ask((33, 4, 40), (40, 40, 104)), right)
    assert both is not None
    assert all(map(both.holds, ask((33, 4, 40))))


def test_what_a_known_mistake_does_not_explain_may_have_sizes_in_common() -> None:
    both = Kernel(
        name="two mistakes", product=(FP4, FP4), returned=wrapped_columns, scales=lambda t, _: np.where(np.isnan(t), np.inf, t), sides="b"
    )
    (found,) = check(KernelTarget(both), quick=True).formats
    one, other = found.deviations
    assert one == "the scale code FF of b is taken as infinity"
    assert "other wrong calls are ones where n is more than 256" in other


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda call: {"scale": 2.0**-119},
            "the tensor scale has no effect, and what is wrong is 2^-119 times what it should be without one",
        ),
        (lambda call: {"scale": call.scale * 2.0**-20}, "what is wrong is 2^-20 times what it should be"),
    ],
)
def test_a_power_of_two_too_many_is_named(change: Change, named: str) -> None:
    """As where a kernel reads codes without their bias and the scale that brings it back reaches no output."""
    report = check(Target(change, a="bfloat16", b=NVFP4), quick=True)
    assert report.formats[0].deviations == [named]
