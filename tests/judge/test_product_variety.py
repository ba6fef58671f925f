"""Kernels that are wrong in one shape, one memory or one state alone, and right ones that look like them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.products.kernels import OUTPUTS, Kernel, KernelTarget, finish_float32
from mxspec_lab.products.kinds import KindKernel

from tests.judge.failing import list_failing

PRODUCTS = (("mxfp8_e4m3", "mxfp4/nibble-low+128x4"), ("nvfp4", "nvfp4"))
PLAIN = Kernel(name="plain")


class Call:
    """One call of `matmul`: its sides as numbers, what is added, and what the target remembers."""

    def __init__(self, kept: dict[Any, Any], a: Any, b: Any, out_dtype: str, added: dict[str, Any]) -> None:
        self.kept, self.out_dtype, self.added = kept, out_dtype, added
        self.codes = [np.asarray(side.codes) for side in (a, b)]
        self.factor = float(np.prod([1.0 if s.tensor_scale is None else float(np.float32(s.tensor_scale)) for s in (a, b)]))
        self.a, self.b = PLAIN.decode(a, "a"), PLAIN.decode(b, "b")

    @property
    def is_square(self) -> bool:
        return len(self.a) == len(self.b)

    def output(self, total: Any = None) -> Any:
        total = self.a @ self.b.T if total is None else total
        return finish_float32(total, self.factor, **self.added, out_dtype=self.out_dtype)


def without_bias_in_a_row(call: Call) -> Any:
    call.added["bias"] = None if len(call.a) == 1 else call.added["bias"]
    return call.output()


def without_c_in_a_column(call: Call) -> Any:
    call.added["c"] = None if len(call.b) == 1 else call.added["c"]
    return call.output()


def with_c_transposed(call: Call) -> Any:
    c = call.added["c"]
    call.added["c"] = c.T if c is not None and call.is_square else c
    return call.output()


def with_bias_of_rows(call: Call) -> Any:
    bias = call.added["bias"]
    if bias is None or not call.is_square:
        return call.output()
    call.added["bias"] = None
    return (call.output().astype(np.float32) + bias.astype(np.float32)[:, None]).astype(OUTPUTS[call.out_dtype])


def row_left_out(last: int, call: Call) -> Any:
    total = call.a @ call.b.T
    if len(total) == last + 1:
        total[last] = 0
    return call.output(total)


def prepared_by_codes(side: int, call: Call) -> Any:
    key = side, call.codes[side].tobytes()
    if side:
        call.b = call.kept.setdefault(key, call.b)
    else:
        call.a = call.kept.setdefault(key, call.a)
    return call.output()


def added_in_16_bits_in_a_row(call: Call) -> Any:
    if len(call.a) > 1:
        return call.output()
    parts = (call.a * call.b).astype(np.float32).reshape(len(call.b), -1, 16).sum(axis=-1).astype(np.float16)
    return call.output(parts.astype(np.float64).sum(axis=-1)[None])


def nan_in_whole_rows(call: Call) -> Any:
    total = call.a @ call.b.T
    if len(total) >= 8:
        total[np.isnan(total).any(axis=1)] = np.nan
    return call.output(total)


def written_into_c(call: Call) -> Any:
    output, c = call.output(), call.added["c"]
    if c is not None and c.dtype == output.dtype and c.flags.writeable:
        c[...] = output
    return output


def c_returned(call: Call) -> Any:
    output, c = call.output(), call.added["c"]
    if c is None or c.dtype != output.dtype or not c.flags.writeable:
        return output
    c[...] = output
    return c


def c_by_its_memory(call: Call) -> Any:
    c = call.added["c"]
    call.added["c"] = None if c is None else c.ravel(order="K").reshape(c.shape)
    return call.output()


def bias_by_its_memory(call: Call) -> Any:
    bias = call.added["bias"]
    if bias is not None and bias.strides[0] != bias.itemsize:
        call.added["bias"] = np.resize(np.asarray(bias.base).ravel(), bias.shape)
    return call.output()


def bias_kept(call: Call) -> Any:
    if call.added["bias"] is not None:
        call.kept["bias"] = call.added["bias"]
    elif len(call.kept.get("bias", ())) == len(call.b):
        call.added["bias"] = call.kept["bias"]
    return call.output()


def strides_refused(call: Call) -> Any:
    if any(x is not None and not x.flags.c_contiguous for x in (call.added["c"], call.added["bias"])):
        raise ValueError("C and bias must be contiguous")
    return call.output()


#: What a kernel does -> a topic that it fails.
WRONG: dict[str, tuple[Callable[[Call], Any], str]] = {
    "no bias where a is one row": (without_bias_in_a_row, "epilogue"),
    "no C where b is one row": (without_c_in_a_column, "epilogue"),
    "C transposed where it is square": (with_c_transposed, "epilogue"),
    "bias of rows where C is square": (with_bias_of_rows, "epilogue"),
    "the last of 129 rows left out": (partial(row_left_out, 128), "shape"),
    "the last of 257 rows left out": (partial(row_left_out, 256), "shape"),
    "b prepared once for its codes": (partial(prepared_by_codes, 1), "state"),
    "a prepared once for its codes": (partial(prepared_by_codes, 0), "state"),
    "float16 additions where a is one row": (added_in_16_bits_in_a_row, "interval"),
    "NaN in whole rows": (nan_in_whole_rows, "nan"),
    "the output written into C": (written_into_c, "memory"),
    "C returned": (c_returned, "memory"),
    "C read as it lies": (c_by_its_memory, "memory"),
    "bias read as it lies": (bias_by_its_memory, "memory"),
    "the last bias kept": (bias_kept, "epilogue"),
}
RIGHT: dict[str, Callable[[Call], Any]] = {"as it is": Call.output, "strides refused": strides_refused}


@dataclass
class Target:
    """A `matmul` that is computed by one of the functions above."""

    OPERANDS: dict[str, str]
    compute: Callable[[Call], Any]
    NAME: str = "varied"
    VERSION: str = "1"
    OUT_DTYPES: tuple[str, ...] = ("float32", "bfloat16")

    def __post_init__(self) -> None:
        self.kept: dict[Any, Any] = {}

    def matmul(
        self, a: Any, b: Any, out_dtype: str, alpha: float | None = None, beta: float | None = None, c: Any = None, bias: Any = None
    ) -> Any:
        call = Call(self.kept, a, b, out_dtype, {"alpha": alpha, "beta": beta, "c": c, "bias": bias})
        return self.compute(call)


def judge(compute: Callable[[Call], Any], product: tuple[str, str]) -> set[str]:
    return list_failing(Target(dict(zip("ab", product, strict=True)), compute))


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: p[0])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_one_way_alone_is_found(name: str, product: tuple[str, str]) -> None:
    compute, topic = WRONG[name]
    failing = judge(compute, product)
    # Short sums of MXFP4 have the bits of float16: what is added in 16 bits shows in long ones, or in those with other scales.
    assert topic in failing or (topic == "interval" and "shape" in failing)


@pytest.mark.parametrize("product", ["float16 @ int4-g32-zero-float16/awq+awq-zeros+transposed", "mxfp8_e4m3 @ mxfp4", "nvfp4 @ nvfp4"])
def test_an_epilogue_is_asked_in_a_square(product: str) -> None:
    """Also where a layout takes multiples of eight columns alone."""
    kernel = KindKernel(name="any", product=(product.partition(" @ ")[0], product.partition(" @ ")[2]))
    capabilities = InProcessSession(KernelTarget(kernel), "any").capabilities
    cases = list_cases(parse_product(product), capabilities, ACCUMULATORS[DEFAULT_ACCUMULATOR])
    squares = [c for c in cases if c.options.get("c") is not None and c.a.shape[0] == c.b.shape[0] > 1]
    assert squares
    assert all((c.options["c"] != c.options["c"].T).any() for c in squares)


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: p[0])
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_accused(name: str, product: tuple[str, str]) -> None:
    assert judge(RIGHT[name], product) == set()
