"""What every operation is judged by alike: rings of buffers, one wrong answer among equal calls, answers kept by too little, and what
another function leaves behind."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import mxspec
from mxspec import affine, attention as attending, sparsity
from mxspec.fused.evaluating import compute
from mxspec.layouts import get_layout
from mxspec_conformance import check
from mxspec_conformance.judge.invariance import history, pace
from mxspec_conformance.judge.invariance.others import list_others
from mxspec_conformance.results.report import GOOD, Verdict
from mxspec_conformance.targets.operands import Side
from mxspec_conformance.transports.opening import open_target

Function = Callable[..., Any]
AFFINE, SPARSE, LAYOUT, FUSED = "int4-g64-bias-float16", "e2m1-2to4", "nibble-low", "silu_mul-mxfp4"


def parts_of(answer: Any) -> tuple[np.ndarray[Any, Any], ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def in_a_ring(function: Function, buffers: int = 6) -> Function:
    """Answers lie in buffers that come round."""
    rings: dict[Any, list[Any]] = defaultdict(list)
    calls: Counter[Any] = Counter()

    def called(*args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        ring = rings[shape := tuple(part.shape for part in parts_of(answer))]
        if len(ring) < buffers:
            ring.append(tuple(np.array(part) for part in parts_of(answer)))
        kept = ring[calls[shape] % len(ring)]
        calls[shape] += 1
        for old, new in zip(kept, parts_of(answer), strict=True):
            old[...] = new
        return kept if isinstance(answer, tuple) else kept[0]

    return called


def wrong_once(function: Function, number: int = 256) -> Function:
    """The so-manieth of equal calls in a row is wrong."""
    last: list[Any] = [None, 0]

    def called(*args: Any, **options: Any) -> Any:
        given = tuple(
            a.tobytes() if isinstance(a, np.ndarray) else getattr(getattr(a, "codes", None), "tobytes", lambda a=a: a)() for a in args
        )
        last[:] = [given, last[1] + 1 if last[0] == given else 1]
        answer = function(*args, **options)
        if last[1] % number == 0:
            answer = tuple(np.array(part) for part in parts_of(answer)) if isinstance(answer, tuple) else np.array(answer)
            parts_of(answer)[0].reshape(-1).view(np.uint8)[0] ^= 1
        return answer

    return called


def one_shape_at_once(function: Function) -> Function:
    """Calls of several shapes at once share a workspace: the shape that was noted last is taken for one's own."""
    noted: list[Any] = [None]
    met = threading.Barrier(2)

    def called(*args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        noted[0] = shape = tuple(map(len, list_bytes(args)))
        if threading.current_thread() is not threading.main_thread():
            with contextlib.suppress(threading.BrokenBarrierError):
                met.wait(0.02)
            met.reset()
        if noted[0] == shape:
            return answer
        parts = tuple(np.zeros_like(part) + 1 for part in parts_of(answer))
        return parts if isinstance(answer, tuple) else parts[0]

    return called


def list_bytes(args: tuple[Any, ...]) -> list[bytes]:
    """The arrays of a call, also those of a product's operands."""
    found = []
    for a in args:
        parts = [a] if isinstance(a, np.ndarray) else [getattr(a, n, None) for n in ("codes", "scales")]
        found += [np.ascontiguousarray(part).tobytes() for part in parts if isinstance(part, np.ndarray)]
    return found


def kept_by(part: Callable[[bytes], Any]) -> Callable[[Function], Function]:
    """Answers are kept by a part of each array, and by the shapes of the answers."""

    def wrap(function: Function) -> Function:
        kept: dict[Any, Any] = {}

        def called(*args: Any, **options: Any) -> Any:
            answer = function(*args, **options)
            shapes = tuple(p.shape for p in parts_of(answer))
            names = tuple(a for a in args if isinstance(a, str))
            return kept.setdefault((shapes, names, *map(part, list_bytes(args))), answer)

        return called

    return wrap


def kept_by_ends(function: Function) -> Function:
    """What is kept by 64 bytes from either end of each array is given for what differs between them."""
    return kept_by(lambda data: (data[:64], data[-64:]))(function)


def kept_by_bytes_in_any_order(function: Function) -> Function:
    return kept_by(lambda data: (sum(data), len(data)))(function)


def into_the_input(function: Function) -> Function:
    """The first array that may be written into is another one after the call."""

    def called(*args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        for a in (getattr(a, "codes", a) for a in args):
            if isinstance(a, np.ndarray) and a.flags.writeable and a.size > 64:
                a[-1:] = 0
                break
        return answer

    return called


def without_a_pitch(function: Function) -> Function:
    """Each array is read as if its rows followed each other."""

    def read(a: Any) -> Any:
        if isinstance(a, Side):
            return replace(a, codes=read(a.codes), scales=read(a.scales))
        if not isinstance(a, np.ndarray) or a.flags.c_contiguous or min(a.strides) < 0:
            return a
        return as_strided(a, a.shape, np.empty(a.shape, a.dtype).strides)

    return lambda *args, **options: function(*map(read, args), **options)


def quantize_affine(x: Any, name: str) -> Any:
    tensor = affine.quantize(x, bits=4, group=64, offset="bias", scale_dtype="float16")
    return tensor.codes, tensor.scales, tensor.offsets


def prune(codes: Any, fmt: str) -> Any:
    return np.array(sparsity.prune(codes))


def compress(codes: Any, fmt: str) -> Any:
    return sparsity.compress(codes)


def pack(codes: Any, layout: str) -> Any:
    return np.array(get_layout(layout).pack(codes))


def unpack(data: Any, layout: str, shape: Any) -> Any:
    return np.array(get_layout(layout).unpack(data, shape)[0])


def quantize(x: Any, fmt: str) -> Any:
    tensor = mxspec.quantize(x, fmt)
    return tensor.codes, tensor.scales


def quantize_fused(x: Any, function: str, fmt: str) -> Any:
    return quantize(compute(x, function), fmt)


def encode(x: Any, element: str) -> Any:
    return mxspec.encode(x, element)


def encode_stochastic(x: Any, element: str, random_bits: Any) -> Any:
    return mxspec.encode(x, element, rounding="sr", random_bits=random_bits)


def dequantize_affine(codes: Any, scales: Any, offsets: Any, name: str) -> Any:
    return affine.dequantize(codes, scales, offsets, name)


def decompress(kept: Any, metadata: Any, fmt: str, shape: Any) -> Any:
    return np.array(sparsity.decompress(kept, metadata))


def unpack_all(data: Any, layout: str, shape: Any) -> Any:
    """Codes and scales, in the order in which the interface has them."""
    found = [np.array(part) for part in get_layout(layout).unpack(data, shape)]
    return found[0] if len(found) == 1 else tuple(reversed(found))


def pack_all(*parts: Any) -> Any:
    *items, layout = parts
    return np.array(get_layout(layout).pack(*reversed(items)))


def matmul(a: Any, b: Any, out_dtype: str) -> Any:
    a, b = (
        side.codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
        * np.repeat(side.scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32), 32, axis=1)
        for side in (a, b)
    )
    return a @ b.T


def grouped_matmul(a: Any, b: Any, groups: Any, form: str, out_dtype: str) -> Any:
    each = (replace(b, codes=codes, scales=scales) for codes, scales in zip(b.codes, b.scales, strict=True))
    whole = [matmul(a, matrix, out_dtype) for matrix in each]
    return np.stack(whole)[np.repeat(np.arange(len(groups)), groups), np.arange(len(a.codes))]


def append_cache(k: Any, v: Any, slots: Any, k_cache: Any, v_cache: Any, cache: str) -> Any:
    return attending.append_cache(k, v, slots, k_cache, v_cache, attending.parse_cache(cache))


def read_cache(k_cache: Any, v_cache: Any, page_table: Any, lengths: Any, cache: str) -> Any:
    return attending.read_cache(k_cache, v_cache, page_table, lengths, attending.parse_cache(cache))


def attention(q: Any, k: Any, v: Any, starts: Any, lengths: Any, form: str, out_dtype: str) -> Any:
    return attending.attend_as(q, k, v, starts, lengths, form, out_dtype)


#: Operation -> a right function, and what else a target declares.
OPERATIONS: dict[str, tuple[Function, dict[str, Any]]] = {
    "quantize": (quantize, {"FORMATS": ["mxfp4"]}),
    "quantize_fused": (quantize_fused, {"FUSED": [FUSED]}),
    "dequantize": (lambda codes, scales, fmt: mxspec.dequantize(codes, scales, fmt), {"FORMATS": ["mxfp4"]}),
    "tensor_scale": (
        lambda x, fmt: np.array([mxspec.tensor_scale(x, fmt).value], np.float32),
        {"FORMATS": ["nvfp4"], "TENSOR_SCALE": "amax"},
    ),
    "encode": (encode, {"ELEMENTS": ["e2m1"]}),
    "decode": (lambda codes, element: mxspec.decode(codes, element), {"ELEMENTS": ["e2m1"]}),
    "encode_stochastic": (encode_stochastic, {"ELEMENTS": ["e2m1"]}),
    "quantize_affine": (quantize_affine, {"AFFINE": [AFFINE]}),
    "dequantize_affine": (dequantize_affine, {"AFFINE": [AFFINE]}),
    "prune": (prune, {"SPARSE_FORMATS": [SPARSE]}),
    "compress": (compress, {"SPARSE_FORMATS": [SPARSE]}),
    "decompress": (decompress, {"SPARSE_FORMATS": [SPARSE]}),
    "swizzle": (pack_all, {"LAYOUTS": ["128x4"], "unswizzle": unpack_all}),
    "unswizzle": (unpack_all, {"LAYOUTS": ["128x4"], "swizzle": pack_all}),
    "pack_blocks": (pack_all, {"LAYOUTS": ["ggml-mxfp4"], "unpack_blocks": unpack_all}),
    "unpack_blocks": (unpack_all, {"LAYOUTS": ["ggml-mxfp4"], "pack_blocks": pack_all}),
    "pack": (pack, {"LAYOUTS": [LAYOUT], "unpack": unpack}),
    "unpack": (unpack, {"LAYOUTS": [LAYOUT], "pack": pack}),
    "matmul": (matmul, {"OPERANDS": {"a": "mxfp8_e4m3", "b": "mxfp8_e4m3"}}),
    "grouped_matmul": (grouped_matmul, {"GROUPED": {"a": "mxfp8_e4m3", "b": "mxfp8_e4m3", "form": "counts"}}),
    "append_cache": (append_cache, {"CACHES": ["fp8_e4m3/page-1"]}),
    "read_cache": (read_cache, {"CACHES": ["fp8_e4m3/page-1"]}),
    "attention": (attention, {"ATTENTION": ["bfloat16 @ fp8_e4m3/ragged"], "OUT_DTYPES": ["bfloat16"]}),
}


#: What requirement ids begin with, where that is another name.
PREFIXES = {"encode_stochastic": "stochastic"}


@pytest.mark.share(12)
@pytest.mark.all_calls
@pytest.mark.parametrize(
    "fault", [in_a_ring, wrong_once, kept_by_ends, kept_by_bytes_in_any_order, into_the_input, without_a_pitch, one_shape_at_once]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_depends_on_other_calls_fails_whatever_the_operation(operation: str, fault: Callable[[Function], Function]) -> None:
    function, more = OPERATIONS[operation]
    members = {operation: fault(function), **more}
    report = check(SimpleNamespace(NAME="faulty", VERSION="1", **members), only=f"{PREFIXES.get(operation, operation)}/*")
    failing = {r.topic for r in report.requirements if r.verdict is Verdict.FAIL}
    assert failing & {"memory", "state", "call-size"}, [(r.id, r.verdict) for r in report.requirements]


@pytest.mark.all_calls
@pytest.mark.parametrize(("operation", "part"), [("dequantize", 1), ("dequantize_affine", 1), ("dequantize_affine", 2), ("decompress", 1)])
def test_answers_that_are_kept_without_a_part_are_found(operation: str, part: int) -> None:
    """Also where of that part what was given first, for each shape, is taken for all."""
    function, more = OPERATIONS[operation]
    for key in (lambda a: (a.shape, a.tobytes()), np.shape):
        kept: dict[Any, Any] = {}

        def called(*args: Any, key: Callable[[Any], Any] = key, kept: dict[Any, Any] = kept) -> Any:
            name = tuple(key(a) for i, a in enumerate(args) if isinstance(a, np.ndarray) and i != part)
            answer = function(*args[:part], kept.get(name, args[part]), *args[part + 1 :])
            kept.setdefault(name, np.array(args[part]))
            return answer

        report = check(SimpleNamespace(NAME="faulty", VERSION="1", **more, **{operation: called}), only=f"{operation}/*/state")
        assert {r.topic for r in report.requirements if r.verdict is Verdict.FAIL} == {"state"}


def fail_where(special: str, function: Function) -> Function:
    """Code that fails, and refuses nothing."""

    def called(*args: Any, **options: Any) -> Any:
        if special == "rows" and len(args[0]) > 512:
            raise IndexError("list index out of range")
        if special == "pitch" and not args[0].flags.c_contiguous:
            raise KeyError("pitch")
        if special == "threads" and threading.current_thread() is not threading.main_thread():
            raise AttributeError("no handle")
        return function(*args, **options)

    return called


@pytest.mark.all_calls
@pytest.mark.parametrize(("special", "topic"), [("rows", "call-size"), ("pitch", "memory"), ("threads", "state")])
@pytest.mark.parametrize("operation", ["quantize_affine", "prune", "pack"])
def test_code_that_fails_refuses_nothing(operation: str, special: str, topic: str) -> None:
    function, more = OPERATIONS[operation]
    report = check(SimpleNamespace(NAME="faulty", VERSION="1", **more, **{operation: fail_where(special, function)}), only=f"{operation}/*")
    assert {r.topic for r in report.requirements if r.verdict not in GOOD} == {topic}


def rows_of(args: tuple[Any, ...]) -> int:
    """Rows of a call: of what is unpacked they stand in its shape."""
    return int(args[-1][0]) if isinstance(args[-1], tuple) else len(getattr(args[0], "codes", args[0]))


def matrix_of(args: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """What is looked at by rows; one row of what has none."""
    found = np.asarray(getattr(args[0], "codes", args[0]))
    found = found.reshape(len(found), -1) if found.ndim > 2 and found.size else found
    return found if found.ndim == 2 and len(found) > 2 and found.shape[1] > 3 else found.reshape(1, -1)


def has_rows(matrix: np.ndarray[Any, Any]) -> bool:
    return len(matrix) > 1 and len(np.unique(matrix)) > 1


def halves_alike(matrix: np.ndarray[Any, Any]) -> bool:
    """Whether the rows of the first half come again, and are no copies of one."""
    first, second = matrix[: len(matrix) // 2], matrix[len(matrix) // 2 :]
    return len(first) > 3 and first.shape == second.shape and bool((first == second).all()) and bool((first[0] != first[-1]).any())


#: Columns -> rows of the last call with as many.
LAST: dict[int, int] = {}


def halves(rows: int, k: int) -> bool:
    """Whether a call has half as many rows as the last one with as many columns."""
    before, LAST[k] = LAST.get(k, 0), rows
    return before == 2 * rows > 64


#: What a call is like that is wrong, by size and by content.
SIZES: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "257 rows": lambda args: rows_of(args) == 257,
    "511 rows": lambda args: rows_of(args) == 511,
    "rows beyond 16 bits": lambda args: rows_of(args) > 65535,
}
#: The same of operations on matrices of codes or numbers, by rows and columns of what is stored for each number.
SHAPES: dict[str, Callable[[int, int], bool]] = {
    "17 rows": lambda rows, k: rows == 17,
    "129 rows": lambda rows, k: rows == 129,
    "k of 384": lambda rows, k: k == 384,
    "k above 4096": lambda rows, k: k > 4096,
    "one long row": lambda rows, k: rows == 1 and k > 512,
    "half as many rows as the last call with as many columns": halves,
    "several tiles of rows and groups": lambda rows, k: rows > 64 and k >= 512,
    "as many rows as numbers": lambda rows, k: rows == k,
    "a million numbers": lambda rows, k: rows * k > 1 << 20,
    "four million numbers": lambda rows, k: rows * k > 1 << 22,
}
OF_SHAPES = ("quantize_affine", "dequantize_affine", "prune", "compress", "decompress")
CONTENTS: dict[str, Callable[[np.ndarray[Any, Any]], bool]] = {
    "equal rows": lambda matrix: has_rows(matrix) and bool((matrix == matrix[:1]).all()),
    "first row zero": lambda matrix: has_rows(matrix) and not matrix[0].astype(bool).any(),
    "second half as the first": lambda matrix: has_rows(matrix) and halves_alike(matrix),
    "last row as the first": lambda matrix: has_rows(matrix) and bool((matrix[0] == matrix[-1]).all()) and len(np.unique(matrix[0])) > 1,
}  # fmt: skip
#: Operations that are given rows.
OF_ROWS = tuple(name for name in OPERATIONS if not name.startswith("un") and "code" not in name)


def wrong_where(function: Function, is_wrong: Callable[[tuple[Any, ...]], bool]) -> Function:
    """The first byte of some answers is wrong; what comes last may be padding."""

    def called(*args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        if not is_wrong(args):
            return answer
        parts = tuple(np.array(part) for part in parts_of(answer))
        parts[0].reshape(-1).view(np.uint8)[0] ^= 1
        return parts if isinstance(answer, tuple) else parts[0]

    return called


@pytest.mark.share(12)
@pytest.mark.all_calls
@pytest.mark.parametrize(
    ("operation", "fault"),
    [(operation, fault) for operation in OPERATIONS for fault in SIZES]
    + [(operation, fault) for operation in OF_ROWS for fault in CONTENTS if (operation, fault) != ("attention", "first row zero")]
    + [(operation, fault) for operation in OF_SHAPES for fault in SHAPES],
)
def test_what_is_wrong_for_a_size_or_a_content_fails_whatever_the_operation(
    operation: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "measure_speed", lambda call: pace.Speed.FAST)  # however busy the machine is
    function, more = OPERATIONS[operation]
    wide = 1 + (operation == "decompress")  # of two numbers one is kept
    by_shape = SHAPES.get(fault) and (lambda args: SHAPES[fault](len(args[0]), args[0].shape[1] * wide))
    is_wrong = SIZES.get(fault) or by_shape or (lambda args: CONTENTS[fault](matrix_of(args)))
    topic = "*" if operation.endswith("matmul") else "call-size"
    report = check(
        SimpleNamespace(NAME="faulty", VERSION="1", **{**more, operation: wrong_where(function, is_wrong)}),
        only=f"{PREFIXES.get(operation, operation)}/*/{topic}",
    )
    assert report.exit_code == 1, [(r.id, r.verdict) for r in report.requirements]


#: What is asked of every operation on the axis of history.
WAYS = ("_probe", "_view", "_reuse", "_hold", "_repeat", "_call_at_once", "_call_after_twins", "_call_after_others")


@pytest.mark.all_calls
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_right_passes_in_every_way(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, more = OPERATIONS[operation]
    asked: set[str] = set()
    for way in WAYS:
        plain = getattr(history, way)

        def recorded(work: Any, *args: Any, way: str = way, plain: Function = plain, **options: Any) -> Any:
            asked.add(way if work.function == operation else "")
            return plain(work, *args, **options)

        monkeypatch.setattr(history, way, recorded)
    members = {operation: function, **more}
    prefix = PREFIXES.get(operation, operation)
    assert check(SimpleNamespace(NAME="right", VERSION="1", **members), only=f"{prefix}/*").exit_code == 0
    # Blocks have views of their own: of matrices of many sizes.
    assert asked >= set(WAYS) - ({"_view"} if operation in ("quantize", "dequantize") else set())


def declare(*targets: dict[str, Any]) -> dict[str, Any]:
    """What one target declares that is like several."""
    found: dict[str, Any] = {}
    for members in targets:
        for name, value in members.items():
            found[name] = [*dict.fromkeys([*found.get(name, []), *value])] if isinstance(value, list) else value
    return found


def list_pairs() -> list[tuple[str, str]]:
    """An operation, and another one that may spoil it: each once as either."""
    names = list(OPERATIONS)
    return list(zip(names, names[1:] + names[:1], strict=True))


@pytest.mark.all_calls
@pytest.mark.parametrize(("operation", "other"), list_pairs())
def test_what_another_function_leaves_behind_is_found(operation: str, other: str) -> None:
    """The first item is wrong in the call after one of the other function."""
    (function, more), (function_2, more_2) = OPERATIONS[operation], OPERATIONS[other]
    left: list[bool] = []

    def spoiled(*args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        if left:
            left.clear()
            parts_of(answer)[0].reshape(-1).view(np.uint8)[0] ^= 1
        return answer

    def spoils(*args: Any, **options: Any) -> Any:
        left.append(True)
        return function_2(*args, **options)

    members = {**declare(more_2, more), other: spoils, operation: spoiled}
    report = check(SimpleNamespace(NAME="faulty", VERSION="1", **members), only=f"{PREFIXES.get(operation, operation)}/*/state")
    assert {r.topic for r in report.requirements if r.verdict is Verdict.FAIL} == {"state"}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_calls_of_other_functions_are_such_as_a_target_answers(operation: str) -> None:
    """What is refused leaves nothing behind."""
    members = declare(*(more for _, more in OPERATIONS.values()))
    members |= {name: function for name, (function, _) in OPERATIONS.items()}
    session = open_target(SimpleNamespace(NAME="right", VERSION="1", **members))
    others = list(list_others(session, operation, OPERATIONS[operation][1].get("FORMATS", [""])[0]))
    assert {o.function for o in others} >= set(OPERATIONS) - {operation}
    for other in others:
        if "a ragged row" not in other.name:
            session.call(*other.call, **other.options)
