"""In a floating-point environment other than the default no function returns bits, and the judge names who changed it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import affine, dot, explain, measures, sparsity, stochastic
from mxspec.environment import describe_changes
from mxspec_conformance import check
from mxspec_conformance.cli.main import main
from mxspec_conformance.targets.errors import TargetError
from mxspec_vectors.generate import build_document

from tests.transports import build_library

SOURCE = r"""
#include <cfenv>
#if defined(__x86_64__)
#include <xmmintrin.h>
static void set_bits(unsigned bits) { _mm_setcsr(_mm_getcsr() | bits); }
extern "C" __attribute__((visibility("default"))) void flush_results() { set_bits(0x8000); }
extern "C" __attribute__((visibility("default"))) void flush_operands() { set_bits(0x0040); }
#elif defined(__aarch64__)
extern "C" __attribute__((visibility("default"))) void flush_results() {
    unsigned long v;
    asm volatile("mrs %0, fpcr" : "=r"(v));
    asm volatile("msr fpcr, %0" : : "r"(v | 1ul << 24));
}
extern "C" __attribute__((visibility("default"))) void flush_operands() { flush_results(); }
#endif
extern "C" __attribute__((visibility("default"))) void round_upward() { std::fesetround(FE_UPWARD); }
extern "C" __attribute__((visibility("default"))) void round_downward() { std::fesetround(FE_DOWNWARD); }
extern "C" __attribute__((visibility("default"))) void round_toward_zero() { std::fesetround(FE_TOWARDZERO); }
extern "C" __attribute__((visibility("default"))) void restore() { std::fesetenv(FE_DFL_ENV); }
"""

WORDS = {
    "flush_results": "flushed to zero", "flush_operands": "", "round_upward": "rounded upward",
    "round_downward": "rounded downward", "round_toward_zero": "rounded toward zero",
}  # fmt: skip

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
T = mxspec.quantize(X, "mxfp4")
A = affine.quantize(X, bits=4, group=64)
S = sparsity.SparseTensor.from_blocks(T)
F = dot.block_factor(T.codes, T.scales, "mxfp4")
SUMS, UNIT = dot.sum_products(F, F), dot.get_accumulator("fused-f25-32")

CALLS: dict[str, Callable[[], Any]] = {
    "quantize": lambda: mxspec.quantize(X, "mxfp4"),
    "dequantize": lambda: mxspec.dequantize(T.codes, T.scales, "mxfp4"),
    "BlockTensor.dequantize": T.dequantize,
    "sqnr": lambda: T.sqnr(X),
    "encode": lambda: mxspec.encode(X, "e2m1"),
    "decode": lambda: mxspec.decode(T.codes, "e2m1"),
    "tensor_scale": lambda: mxspec.tensor_scale(X, "nvfp4"),
    "TensorScale": lambda: mxspec.TensorScale("decode", 0.1),
    "RunningAmax": lambda: mxspec.RunningAmax().update(X),
    "RunningAmax.tensor_scale": lambda: mxspec.RunningAmax(bits=0x40000000, count=1).tensor_scale("nvfp4", "nvfp4-exact"),
    "stochastic": lambda: stochastic.encode_te_stochastic(X, np.zeros(X.shape, np.uint8)),
    "measures": lambda: measures.measure_error(X, X),
    "explain": lambda: explain.explain_block(X[0, :32], "mxfp4"),
    "affine.quantize": lambda: affine.quantize(X, bits=4, group=64),
    "affine.dequantize": A.dequantize,
    "affine.quantized_matmul": lambda: affine.quantized_matmul(X, A),
    "affine.quantized_matmul_exact": lambda: affine.quantized_matmul_exact(X, A),
    "SparseTensor": lambda: sparsity.SparseTensor.from_dense(X, kind="float32"),
    "SparseTensor.dequantize": S.dequantize,
    "prune": lambda: sparsity.prune(T.codes),
    "dot.block_factor": lambda: dot.block_factor(T.codes, T.scales, "mxfp4"),
    "dot.plain_factor": lambda: dot.plain_factor(X),
    "dot.apply_contract": lambda: dot.apply_contract(F, dot.Contract.BFLOAT16),
    "dot.matmul": lambda: dot.matmul(F, F),
    "dot.sum_products": lambda: dot.sum_products(F, F),
    "dot.sum_alignments": lambda: dot.sum_alignments(F, F),
    "dot.finish_product": lambda: dot.finish_product(SUMS, "float32"),
    "dot.allow_outputs": lambda: dot.allow_outputs(SUMS, UNIT, "float32"),
    "dot.simulate_product": lambda: dot.simulate_product(F, F, UNIT),
    "vectors": lambda: build_document("decode", "e2m1"),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("environment")
    source = folder / "environment.cpp"
    source.write_text(SOURCE, encoding="ascii")
    return build_library(source, folder / "environment.so")


@contextmanager
def changed(library: str, how: str) -> Iterator[None]:
    loaded = ctypes.CDLL(library)
    if not hasattr(loaded, how):
        pytest.skip(f"no {how} on this machine")
    getattr(loaded, how)()
    try:
        yield
    finally:
        loaded.restore()


@pytest.mark.parametrize("how", WORDS)
def test_no_function_returns_bits(how: str, library: str) -> None:
    before = {name: repr(call()) for name, call in CALLS.items()}
    answers = {}
    with changed(library, how):
        for name, call in CALLS.items():
            try:
                answers[name] = f"no error: {call()!r}"
            except mxspec.FloatEnvironmentError as error:
                answers[name] = str(error)
    wanted = (WORDS[how], "round to nearest even with subnormal numbers kept", "in C: fesetenv(FE_DFL_ENV)")
    assert {name: said for name, said in answers.items() if not all(word in said for word in wanted)} == {}
    assert describe_changes() == ""
    assert {name: repr(call()) for name, call in CALLS.items()} == before


def test_every_change_is_named(library: str) -> None:
    with changed(library, "flush_results"), changed(library, "flush_operands"):
        assert describe_changes() == "subnormal results are flushed to zero, subnormal operands count as zero"


def test_an_environment_is_its_threads_own(library: str) -> None:
    found: list[Any] = []

    def run() -> None:
        with changed(library, "round_upward"):
            for call in (describe_changes, CALLS["quantize"]):
                try:
                    found.append(call())
                except mxspec.FloatEnvironmentError as error:
                    found.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == ["results are rounded upward", mxspec.FloatEnvironmentError]
    assert mxspec.quantize(X, "mxfp4") == T


def test_nothing_is_kept_of_another_environment(library: str) -> None:
    """Tables are made when they are first needed; what is made under flush-to-zero must not outlive it."""
    mxspec.elements.decode_table.cache_clear()
    with changed(library, "flush_results"), pytest.raises(mxspec.FloatEnvironmentError):
        mxspec.elements.decode_table(mxspec.get_scalar("e8m0"))
    assert mxspec.decode(np.zeros(1, np.uint8), "e8m0")[0] == 2.0**-127


#: A right kernel, whatever it does to others: it computes in the default environment.
TARGET = """
import ctypes, mxspec
NAME, VERSION, FORMATS = "example", "1", ["mxfp4"]
library = ctypes.CDLL({library!r})
library.{loading}()
def dequantize(codes, scales, fmt):
    library.restore()
    values = mxspec.dequantize(codes, scales, fmt)
    library.{after}()
    return values
"""


def write_target(library: str, folder: Path, loading: str, after: str) -> str:
    path = folder / "target.py"
    path.write_text(TARGET.format(library=library, loading=loading, after=after), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("loading", "after", "when"),
    [("flush_results", "restore", "once it is loaded"), ("restore", "round_upward", "after a call of dequantize")],
)
def test_the_judge_names_who_changes_its_environment(loading: str, after: str, when: str, library: str, tmp_path: Path) -> None:
    path = write_target(library, tmp_path, loading, after)
    words = f"{when} the floating-point environment of this process is changed"
    try:
        with pytest.raises(TargetError, match=words):
            check(path, formats=["mxfp4"], only="dequantize/mxfp4/*code", in_process=True)
    finally:
        ctypes.CDLL(library).restore()


def test_a_process_of_its_own_is_named_and_judged_by_its_answers(library: str, tmp_path: Path) -> None:
    path = write_target(library, tmp_path, "restore", "flush_results")
    done = CliRunner().invoke(main, ["check", path, "--only", "dequantize/mxfp4/*code", "--json", str(tmp_path / "r.json")])
    assert done.exit_code == 0, done.output
    assert "subnormal results are flushed to zero" in " ".join(done.output.split())
    assert '"float_environment": "subnormal results are flushed to zero"' in (tmp_path / "r.json").read_text("utf-8")
