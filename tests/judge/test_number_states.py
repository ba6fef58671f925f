"""What is remembered between calls with single numbers is found: of other functions, elements, memory and parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance.judge.check import check

from tests.bugs.building import Array


def target(elements: list[str], **functions: Callable[..., Any]) -> Any:
    members = {name: staticmethod(function) for name, function in functions.items()}
    return type("Target", (), {"NAME": "target", "ELEMENTS": elements, **members})


def left_by_decode() -> Any:
    """The table of the element that was decoded last is used to encode."""
    last = {"element": ""}

    def encode(x: Array, element: str) -> Array:
        other = last["element"] or element
        last["element"] = ""
        return mxspec.encode(x, other)

    def decode(codes: Array, element: str) -> Array:
        last["element"] = element
        return mxspec.decode(codes, element)

    return target(["e2m1", "e2m3"], encode=encode, decode=decode)


def rounding_left() -> Any:
    """A rounding mode that another call asked for stays on."""
    mode = {"rounding": "rne"}

    def encode(x: Array, element: str, rounding: str = "rne") -> Array:
        used, mode["rounding"] = mode["rounding"], rounding
        return mxspec.encode(x, element, rounding=rounding if rounding != "rne" else used)

    return target(["e2m1"], encode=encode)


def remembered_by(key: Callable[[Array], Any]) -> Any:
    known: dict[Any, Array] = {}

    def encode(x: Array, element: str) -> Array:
        at = (element, x.shape, key(x))
        if at not in known:
            known.clear()
            known[at] = mxspec.encode(x, element)
        return known[at].copy()

    return target(["e2m1"], encode=encode)


WRONG = {
    "left by decode": left_by_decode,
    "rounding left on": rounding_left,
    "by pointer": lambda: remembered_by(lambda x: x.ctypes.data),
    "by every sixteenth number": lambda: remembered_by(lambda x: x[::16].tobytes()),
    "by a sum of bits": lambda: remembered_by(lambda x: int(x.view(np.uint32).astype(np.uint64).sum())),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_remembered_is_found(name: str) -> None:
    report = check(WRONG[name](), only="encode/e2m1/*")
    assert "state" in {r.topic for r in report.requirements if r.verdict == "fail"}


def test_a_right_target_passes() -> None:
    report = check(target(["e2m1", "e2m3"], encode=mxspec.encode, decode=mxspec.decode))
    assert {r.verdict.value for r in report.requirements if r.topic in ("state", "call-size")} == {"pass"}


def scale_of(x: Array) -> float:
    return float(np.abs(x.astype(np.float32)).max() / np.float32(2688))


def judge_scale(tensor_scale: Callable[..., float]) -> set[str]:
    functions = {"tensor_scale": staticmethod(tensor_scale), "quantize": staticmethod(quantize)}
    module = type("Target", (), {"NAME": "target", "FORMATS": ["nvfp4"], "TENSOR_SCALE": "decode", **functions})
    report = check(module, only="tensor_scale/nvfp4/*")
    assert {r.topic for r in report.requirements} >= {"state", "call-size"}
    return {r.topic for r in report.requirements if r.verdict == "fail"}


def quantize(x: Array, fmt: str, tensor_scale: float) -> Any:
    raise NotImplementedError


def test_tensor_scales_are_not_remembered() -> None:
    known: dict[Any, float] = {}
    shared = np.zeros(1)

    def by_pointer(x: Array, fmt: str) -> float:
        return known.setdefault((x.ctypes.data, x.shape), scale_of(x))

    def running(x: Array, fmt: str) -> float:
        known["largest"] = max(known.get("largest", 0), scale_of(x))
        return known["largest"]

    def shared_between_threads(x: Array, fmt: str) -> float:
        shared[0] = 0
        for row in x:
            if len(x) == 64:
                time.sleep(0)  # another thread's turn
            shared[0] = max(float(shared[0]), scale_of(row))
        return float(shared[0])

    assert judge_scale(lambda x, fmt: scale_of(x)) == set()
    assert "state" in judge_scale(by_pointer)
    assert "state" in judge_scale(shared_between_threads)
    known.clear()
    assert judge_scale(running)


def in_narrow_dtypes(spoil: Callable[[Array, Array], Array] | None) -> Any:
    """Numbers in bfloat16 and float16, too; spoil: (x, codes) -> codes, of the narrow ones; None: they are refused."""

    def encode(x: Array, element: str) -> Array:
        if x.dtype == np.float32:
            return mxspec.encode(x, element)
        if spoil is None:
            raise TypeError(f"{x.dtype}; encode takes float32")
        return spoil(x, mxspec.encode(x.astype(np.float32), element))

    made = target(["e4m3"], encode=encode)
    made.DTYPES = ("float32", "bfloat16", "float16")
    return made


def lost_at_the_end(x: Array, codes: Array) -> Array:
    if len(x) % 2 and len(x) > 64:
        codes = codes.copy()
        codes[-1] = codes[-2]
    return codes


def clearing_nan(x: Array, codes: Array) -> Array:
    x[np.isnan(x)] = 0
    return codes


def misread(x: Array, codes: Array) -> Array:
    return codes if x.dtype == np.float16 else mxspec.encode(x.view(np.float16).astype(np.float32), "e4m3")


@pytest.mark.parametrize(
    ("spoil", "failing"),
    [
        (None, set()), (lambda x, codes: codes, set()), (lost_at_the_end, {"call-size"}), (clearing_nan, {"call-size"}),
        (misread, {"refusal"}),
    ],
)  # fmt: skip
def test_encode_in_other_dtypes_is_refused_or_right(spoil: Callable[[Array, Array], Array] | None, failing: set[str]) -> None:
    report = check(in_narrow_dtypes(spoil))
    found = {r.topic for r in report.requirements if r.verdict == "fail"}
    assert found == failing if not failing else failing <= found


@pytest.mark.parametrize(("error", "verdict"), [(ValueError, "pass"), (IndexError, "fail")])
def test_code_that_fails_on_no_numbers_refuses_nothing(error: type[Exception], verdict: str) -> None:
    def encode(x: Array, element: str) -> Array:
        if not x.size:
            raise error("nothing")
        return mxspec.encode(x, element)

    report = check(target(["e2m1"], encode=encode), only="encode/e2m1/refusal")
    assert [r.verdict for r in report.requirements] == [verdict]


def zeros_left_out() -> Any:
    last = [1]

    def encode(x: Array, element: str) -> Array:
        codes = np.array(mxspec.encode(x, element))
        whole = codes[: len(x) // 8 * 8].reshape(-1, 8)
        whole[(x[: whole.size].reshape(-1, 8) == 0).all(axis=1)] = last[0]
        last[0] = int(codes[0]) if len(codes) else 1
        return codes

    return target(["e4m3"], encode=encode)


def carrying() -> Any:
    """Two numbers in 64 bits: what is added to round the lower one carries into the upper one."""

    def encode(x: Array, element: str) -> Array:
        bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
        carry = np.zeros(len(bits), np.uint32)
        carry[1:] = (bits[:-1] + np.uint64(0x7FFFF) >> np.uint64(32)).astype(np.uint32)
        carry[::2] = 0
        return mxspec.encode(np.where(np.isnan(x), x, (bits.astype(np.uint32) + carry).view(np.float32)), element)

    return target(["e4m3"], encode=encode)


@pytest.mark.parametrize(("make", "told"), [(zeros_left_out, "zeros"), (carrying, "numbers between NaN of all ones")])
def test_what_lies_beside_a_number_is_no_matter(make: Callable[[], Any], told: str) -> None:
    report = check(make(), in_process=True, only="encode/e4m3/call-size")
    (found,) = report.requirements
    assert found.verdict == "fail"
    assert any(told in case for case in found.failing_cases)


@pytest.mark.parametrize("kind", ["few numbers", "the last of eleven columns", "the last call's maximum"])
def test_a_tensor_scale_of_every_shape_is_its_own(kind: str) -> None:
    given: dict[Any, float] = {}

    def tensor_scale(x: Array, fmt: str) -> float:
        if kind == "few numbers":
            return scale_of(x) if x.size >= 8 else 0.0
        if kind == "the last call's maximum":
            return given.get(x.shape, scale_of(x))
        return scale_of(x[:, :-1]) if x.shape[1] % 8 == 3 and x.shape[1] > 8 and len(x) > 1 else scale_of(x)

    def quantize(x: Array, fmt: str, tensor_scale: float) -> Any:
        given[x.shape] = tensor_scale
        t = mxspec.quantize(x, fmt, tensor_scale=mxspec.TensorScale.from_float("amax", tensor_scale * 2688))
        return t.codes, t.scales

    module = type("Target", (), {
        "NAME": "target", "FORMATS": ["nvfp4"], "TENSOR_SCALE": "decode", "tensor_scale": staticmethod(tensor_scale), "quantize": staticmethod(quantize),
    })  # fmt: skip
    report = check(module, in_process=True, only="tensor_scale/nvfp4/*")
    found = {r.topic for r in report.requirements if r.verdict == "fail"}
    assert ("state" if "maximum" in kind else "call-size") in found
