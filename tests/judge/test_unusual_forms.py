"""Right kernels of unusual form are right, and kernels that are wrong in one kind of memory or in their first call are found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import mxspec
from mxspec_conformance import check
from mxspec_conformance.judge.shapes import find_first_calls, fit_session
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.arrays import arrange_array
from mxspec_conformance.targets.capabilities import ARRANGEMENTS, MATRIX_ARRANGEMENTS
from mxspec_conformance.targets.declared import describe_target
from mxspec_conformance.targets.errors import BadReturn, CallError, TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.transports.in_process import InProcessSession

X = np.arange(15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize("arrangement", [*ARRANGEMENTS, *MATRIX_ARRANGEMENTS])
@pytest.mark.parametrize("x", [X, X[0], X.astype(np.uint8)], ids=["matrix", "row", "codes"])
def test_an_arrangement_holds_the_same_numbers(x: Any, arrangement: str) -> None:
    got = arrange_array(x, "numpy", arrangement)
    assert got.shape == x.shape
    assert got.dtype == x.dtype
    assert np.array_equal(got, x)


def test_arrangements_are_what_they_are_called() -> None:
    given = {name: arrange_array(X, "numpy", name) for name in MATRIX_ARRANGEMENTS}
    assert given["slice"].strides == (160, 4)
    assert given["far-slice"].strides[0] > 1 << 17
    assert given["fortran-padded"].strides == (4, 16)
    assert given["rows-reversed"].strides == (-20, 4)
    assert given["columns-reversed"].strides == (20, -4)
    assert not given["read-only"].flags.writeable
    assert given["rows-and-columns"].strides == (80, 8)
    assert given["third-columns"].strides == (60, 12)
    assert given["fortran-reversed"].strides == (4, -12)
    assert given["8-bytes"].flags.c_contiguous
    assert given["8-bytes"].ctypes.data % 16 == 8
    assert X.flags.writeable


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_rows_that_overlap_lie_in_memory_once(arrays: str) -> None:
    if arrays == "torch":
        pytest.importorskip("torch")
    x = np.lib.stride_tricks.sliding_window_view(np.arange(18, dtype=np.float32), 6)[::2]
    given = arrange_array(x, arrays, "windows")
    assert np.array_equal(np.asarray(given), x)
    assert (given.strides if arrays == "numpy" else tuple(4 * n for n in given.stride())) == (8, 4)


class Pair(NamedTuple):
    codes: Any
    scales: Any


class Lazy:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.make()


class Described:
    def __init__(self, a: Any) -> None:
        self.held, self.__array_interface__ = a, a.__array_interface__


class Stubborn(np.ndarray):
    def reshape(self, *shape: Any, **given: Any) -> Any:
        raise RuntimeError("not for others")

    def __eq__(self, other: object) -> Any:
        raise RuntimeError("not for others")

    __hash__ = None


def read_only(a: Any) -> Any:
    kept = a.copy()
    kept.flags.writeable = False
    return kept


FORMS: dict[str, Callable[[Any], Any]] = {
    "Fortran order": np.asfortranarray,
    "both axes backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "read-only": read_only,
    "a memoryview": lambda a: np.ascontiguousarray(a).data,
    "the array interface": Described,
    "__array__": lambda a: Lazy(a.copy),
    "a subclass": lambda a: a.copy().view(Stubborn),
    "a masked array": np.ma.array,
    "signed bytes": lambda a: a.view(np.int8),
    "unaligned": lambda a: np.frombuffer(b"\0" + np.ascontiguousarray(a).tobytes(), np.uint8, offset=1).reshape(a.shape),
    "one byte for all": lambda a: np.broadcast_to(a.flat[0], a.shape) if a.size and (a == a.flat[0]).all() else a,
}


def call(answer: Callable[[Any, Any], Any], fmt: str = "mxfp4") -> Any:
    target = SimpleNamespace(NAME="t", FORMATS=["mxfp4", "nvfp4"], quantize=lambda x, fmt: answer(*quantize(x, fmt)))
    return Marshaller(target, describe_target(target, "t.py")).call("quantize", np.ones((2, 32), np.float32), fmt)


def quantize(x: Any, fmt: str) -> tuple[Any, Any]:
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
@pytest.mark.parametrize("pack", [tuple, list, lambda pair: Pair(*pair)], ids=["tuple", "list", "namedtuple"])
@pytest.mark.parametrize("form", FORMS)
def test_both_outputs_in_any_form(form: str, pack: Any, fmt: str) -> None:
    codes, scales = call(lambda c, s: pack((FORMS[form](c), FORMS[form](s))), fmt)
    want = quantize(np.ones((2, 32), np.float32), fmt)
    assert np.array_equal(codes, want[0])
    assert np.array_equal(scales, want[1])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda c, s: (x for x in (c, s)), "returned a generator; return (codes, scales)"),
        (lambda c, s: {"codes": c, "scales": s}, "returned a dict; return (codes, scales)"),
        (lambda c, s: (c, s, None), "returned a tuple of 3; return (codes, scales)"),
        (lambda c, s: (c.tolist(), s), "codes is a list, not an array; return one of NumPy, torch or CuPy"),
        (lambda c, s: (c.astype(">u2"), s), "codes have dtype >u2; return uint8"),
        (lambda c, s: (c.astype(np.int64), s), "codes have dtype int64; return uint8"),
        (lambda c, s: Pair(s, c), "codes have shape (2, 1); (2, 32) was expected"),
        (lambda c, s: (c, s.reshape(-1)), "scales have shape (2,); (2, 1) was expected"),
    ],
)
def test_what_is_refused_is_told_in_a_sentence(answer: Any, words: str) -> None:
    with pytest.raises(BadReturn) as raised:
        call(answer)
    assert words in str(raised.value)


def test_arguments_by_name_alone_are_refused() -> None:
    def by_name(*, x: Any, fmt: str) -> Any:
        return quantize(x, fmt)

    with pytest.raises(TargetError, match=r"quantize takes x, fmt only by name; .* take the \* out"):
        describe_target(SimpleNamespace(FORMATS=["mxfp4"], quantize=by_name), "t.py")

    def with_an_option(x: Any, fmt: str, *, tensor_scale: Any) -> Any:
        return quantize(x, fmt)

    assert not describe_target(SimpleNamespace(FORMATS=["mxfp4"], quantize=with_an_option), "t.py").one_level


def test_a_library_that_met_no_tensor_scale_is_told_why() -> None:
    target = SimpleNamespace(FORMATS=["nvfp4"], dequantize=lambda c, s, f, tensor_scale=None: c.astype(np.float32) * tensor_scale)
    session = InProcessSession(target, "t.py")
    given = np.zeros((1, 16), np.uint8), np.zeros((1, 1), np.uint8), "nvfp4"
    assert session.call("dequantize", *given, tensor_scale=1.0).shape == (1, 16)
    with pytest.raises(CallError, match=r"NoneType.*; tensor_scale is None in calls of one level: handle None"):
        session.call("dequantize", *given)


# Wrong in one kind of memory, or once.


def last_block_lost(codes: Any, scales: Any) -> None:
    if scales.size:
        codes[-1, -1] ^= 1


WRONG: dict[str, Callable[[Any], bool]] = {
    "a slice of a wide matrix": lambda x: len(x) > 1 and x.strides[0] > 4 * x.shape[1] * x.itemsize,
    "rows backwards": lambda x: x.strides[0] < 0 < x.strides[1],
    "columns backwards": lambda x: x.strides[1] < 0 < x.strides[0],
    "memory that must not be written": lambda x: not x.flags.writeable,
    "a pitch beyond 16 bits": lambda x: len(x) > 1 and x.strides[0] >= 1 << 16 and not x.flags.c_contiguous,
    "Fortran order with a pitch": lambda x: min(x.shape) > 1 and 4 * len(x) < x.strides[1] and x.strides[0] == 4,
    "every second row and column": lambda x: x.strides[1] == 2 * x.itemsize and x.strides[0] > 2 * x.itemsize * x.shape[1],
    "every third column": lambda x: x.strides[1] == 3 * x.itemsize,
    "Fortran order backwards": lambda x: x.strides[0] == x.itemsize and x.strides[1] < 0,
    "rows that overlap": lambda x: 0 < x.strides[0] < x.shape[1] * x.itemsize == x.shape[1] * x.strides[1],
    "an address of 8 bytes": lambda x: len(x) > 1 and x.flags.c_contiguous and x.ctypes.data % 16 == 8,
}


def kernel(wrong: Callable[[Any], bool]) -> Any:
    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        codes = np.array(t.codes)
        if wrong(x):
            last_block_lost(codes, t.scales)
        return codes, t.scales

    return SimpleNamespace(NAME="unusual", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)


@pytest.mark.parametrize("name", [*WRONG, "nothing"])
def test_a_kernel_wrong_in_one_kind_of_memory_is_found(name: str) -> None:
    report = check(kernel(WRONG.get(name, lambda x: False)), in_process=True, only="quantize/mxfp4/memory")
    assert [r.topic for r in report.requirements if r.verdict is Verdict.FAIL] == (["memory"] if name in WRONG else [])


@pytest.mark.parametrize("name", ["codes", "scales", "neither"])
def test_dequantize_of_one_input_in_other_memory(name: str) -> None:
    def dequantize(codes: Any, scales: Any, fmt: str) -> Any:
        values = np.array(mxspec.dequantize(codes, scales, fmt))
        given = {"codes": codes, "scales": scales}
        views = {n for n, a in given.items() if a.size and not a.flags.c_contiguous}
        if views == {name}:
            values[-1] = 0
        return values

    target = SimpleNamespace(NAME="unusual", VERSION="1", FORMATS=["mxfp4"], dequantize=dequantize)
    report = check(target, in_process=True, only="dequantize/mxfp4/memory")
    assert [r.topic for r in report.requirements if r.verdict is Verdict.FAIL] == (["memory"] if name != "neither" else [])


@pytest.mark.all_calls
def test_large_views_are_asked() -> None:
    def wrong(x: Any) -> bool:
        return bool(x.size > 1 << 18 and not x.flags.c_contiguous)

    report = check(kernel(wrong), in_process=True, only="quantize/mxfp4/memory")
    assert [r.topic for r in report.requirements if r.verdict is Verdict.FAIL] == ["memory"]


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("call", [0, 1, 2])
def test_one_of_the_first_calls_that_is_wrong_is_found(call: int, even: bool) -> None:
    """Of a kernel of even rows, too, whose session is another than the one in which its sizes were found."""
    made: list[int] = []

    def is_wrong(x: Any) -> bool:
        if even and len(x) % 2:
            raise ValueError("an even number of rows")
        made.append(1)
        return len(made) == call

    report = check(kernel(is_wrong), in_process=True, only="quantize/mxfp4/state")
    (state,) = [r for r in report.requirements if r.topic == "state"]
    assert state.verdict is (Verdict.FAIL if call else Verdict.PASS)
    assert state.failing == min(call, 1)


def test_the_first_call_that_was_answered_is_kept() -> None:
    def refuses_four_rows(x: Any, fmt: str) -> Any:
        if len(x) == 4:
            raise ValueError("not four")
        return quantize(x, fmt)

    session = InProcessSession(SimpleNamespace(FORMATS=["mxfp4"], quantize=refuses_four_rows), "t.py")
    assert fit_session(session, ["mxfp4"]) is session
    first = find_first_calls(session)[0]
    assert first.arguments[0].shape == (1, 32)
    assert np.array_equal(first.answer[0], quantize(first.arguments[0], "mxfp4")[0])


def test_kernels_for_even_rows_are_judged_in_even_rows() -> None:
    def even(x: Any, fmt: str) -> Any:
        if len(x) % 2:
            raise ValueError("an even number of rows")
        return quantize(x, fmt)

    report = check(SimpleNamespace(NAME="even", VERSION="1", FORMATS=["mxfp4"], quantize=even), in_process=True)
    assert report.exit_code == 0
    assert "2" in report.details["shapes"]

    def stumbles(x: Any, fmt: str) -> Any:
        if len(x) % 2:
            raise IndexError(len(x))
        return quantize(x, fmt)

    report = check(SimpleNamespace(NAME="odd", VERSION="1", FORMATS=["mxfp4"], quantize=stumbles), in_process=True)
    assert report.exit_code == 1


@pytest.mark.parametrize("always", [True, False])
def test_a_kernel_that_belongs_to_a_thread_may_refuse_others(always: bool) -> None:
    mine, calls = threading.get_ident(), []

    def bound(x: Any, fmt: str) -> Any:
        if threading.get_ident() != mine:
            calls.append(1)
            if always or len(calls) % 2:
                raise RuntimeError("of another thread")
        return quantize(x, fmt)

    target = SimpleNamespace(NAME="bound", VERSION="1", FORMATS=["mxfp4"], quantize=bound)
    report = check(target, in_process=True, only="quantize/mxfp4/state")
    assert report.exit_code == (0 if always else 1)


def test_codes_under_a_nan_scale_may_be_what_lay_in_memory() -> None:
    """They mean nothing: a kernel that returns early leaves them unwritten, in several threads as in one."""
    rng = np.random.default_rng(0)

    def early(x: Any, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        lost = np.repeat(np.asarray(scales) == 0xFF, 32, axis=1)
        return np.where(lost, rng.integers(0, 16, codes.shape, np.uint8), codes), scales

    x = np.ones((2, 64), np.float32)
    x[1, 40] = np.nan
    calls: list[Any] = [("quantize", (x, "mxfp4"), {})] * 2
    target = SimpleNamespace(NAME="early", VERSION="1", FORMATS=["mxfp4"], quantize=early)
    marshaller = Marshaller(target, describe_target(target, "early"))
    assert not marshaller.call("threads", 20, calls)[0]
    assert marshaller.call("repeated", 20, 60.0, "quantize", x, "mxfp4") == (-1, 20)
    held = ("held", 20, 60.0, "quantize", (x, "mxfp4"), (2 * x, "mxfp4"))
    assert marshaller.call(*held) == (-1, -1, 20)
    target.quantize = lambda x, fmt: (np.array(quantize(x, fmt)[0]) ^ rng.integers(0, 2, x.shape, np.uint8), quantize(x, fmt)[1])
    assert marshaller.call("threads", 20, calls)[0]  # codes under a number mean something
    assert 2 <= marshaller.call(*held)[1] < 20, "the first call that was answered otherwise before"


def test_a_tensor_scale_that_is_no_number_is_told_in_a_sentence() -> None:
    target = SimpleNamespace(NAME="list", VERSION="1", FORMATS=["nvfp4"], TENSOR_SCALE="amax", tensor_scale=lambda x, fmt: [1.0])
    with pytest.raises(BadReturn, match="tensor_scale returned a list of 1; return one number"):
        Marshaller(target, describe_target(target, "list")).call("tensor_scale", X, "nvfp4")
