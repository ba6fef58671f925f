"""Every function of the interface goes over every transport: options, layouts, products, arrays of other kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.layouts import get_layout
from mxspec_conformance.judge.check import check
from mxspec_conformance.targets.arrays import from_target_array
from mxspec_conformance.targets.errors import BadReturn, TargetError
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.targets.operands import Side
from mxspec_conformance.transports.description import find_reply_violation
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.library import load_library
from mxspec_conformance.transports.remote import RemoteModule, read_reply
from mxspec_conformance.transports.wire import digest_call, read_array, write_array, write_request

from tests.transports import build_library, canonical, harness_command, judged, no_answers, of_vectors

TARGETS = Path(__file__).resolve().parent / "targets"

#: The affine format of the library with every function.
AFFINE = "int4-g32-bias-float32/words"
#: All that the model offers, of two formats.
EVERYTHING = """
from mxspec_conformance.adapters.registry import known_adapters
model = known_adapters()["mxspec"].load()
globals().update({name: getattr(model, name) for name in dir(model) if not name.startswith("_")})
FORMATS, ELEMENTS, DTYPES = ["nvfp4"], ["e2m1"], ["float32", "bfloat16"]
AFFINE = ["int4-g64-bias-bfloat16", "int4-g32-zero-float16"]
LAYOUTS = ["nibble-low", "128x4", "ggml-mxfp4"]
CACHES, ATTENTION = ["nvfp4/page-16"], ["bfloat16 @ fp8_e4m3/page-16"]
print("what a target prints is no reply")
"""


def test_any_python_target_goes_over_the_process_transport(tmp_path: Path) -> None:
    """The harness without the judge, for every function that the model offers, gets the verdict of the Python transport."""
    path = tmp_path / "everything.py"
    path.write_text(EVERYTHING, encoding="utf-8")
    here = judged(str(path))
    there = judged(harness_command(path))
    assert no_answers(here) == {}
    assert {r.id.split("/")[0] for r in here.requirements} >= {
        "quantize",
        "dequantize",
        "encode",
        "decode",
        "pack",
        "unswizzle",
        "quantize_affine",
        "dequantize_affine",
        "append_cache",
        "read_cache",
        "attention",
    }
    assert of_vectors(canonical(there)) == of_vectors(canonical(here))


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A library with every function of the header."""
    library = build_library(TARGETS / "every.cpp", tmp_path_factory.mktemp("every") / "libevery.so")
    return load_library(Path(library))


def test_the_library_has_every_function_of_the_interface(every: Any) -> None:
    assert set(every.MXSPEC_CAPABILITIES.functions) == set(OPERATIONS)
    assert {f: tuple(o) for f, o in every.MXSPEC_CAPABILITIES.keywords.items()} == {
        # A struct has no field for block scales that are given.
        name: tuple(sorted(set(o.options) - {"scales"}, key=every.MXSPEC_CAPABILITIES.keywords[name].index))
        for name, o in OPERATIONS.items()
    }
    assert every.MXSPEC_SURROUNDINGS == {"device": "abacus", "libraries": {"beads": "2"}}


@pytest.mark.parametrize(("dtype", "number"), [(np.float32, 0), (np.float16, 1), (ml_dtypes.bfloat16, 2)])
def test_quantize_hands_every_option_over(every: Any, dtype: Any, number: int) -> None:
    codes, scales = every.quantize(np.zeros((3, 64), dtype), "mxfp4")
    assert codes[0, :6].tolist() == [number, 1, 3, 64, 0, 1]
    assert (codes.shape, scales.tolist()) == ((3, 64), [[99, 99]] * 3)
    codes, scales = every.quantize(np.zeros((33, 5), dtype), "mxfp4", axis=0, pad=True, tensor_scale=7.0)
    assert codes.reshape(-1)[:6].tolist() == [number, 0, 33, 5, 1, 1]
    assert (codes.shape, scales.shape, int(scales[0, 0])) == ((64, 5), (2, 5), 7)
    assert every.quantize(np.zeros((32, 32), dtype), "mxfp4", block=(16, 16))[0][0, 5] == 16


def test_strided_inputs_arrive_dense(every: Any) -> None:
    x = np.arange(8, dtype=np.uint8)[::2]
    assert every.decode(x, "e2m1").tolist() == [0, 2, 4, 6]


def test_scalar_functions(every: Any) -> None:
    x = np.array([1, 2], np.float32)
    assert every.encode(x, "e2m1").tolist() == [1, 2]
    assert every.encode(x, "e2m1", rounding="rtz", overflow="own").tolist() == [1 + ord("r") + ord("o"), 2 + ord("r") + ord("o")]
    assert every.encode_stochastic(x, "e2m1", np.array([5, 6], np.uint32) << np.uint32(24)).tolist() == [6, 8]
    assert every.tensor_scale(np.array([[1, 2], [3, 4]], np.float32), "mxfp4").tolist() == [4]
    values = every.dequantize(np.full((1, 32), 2, np.uint8), np.full((1, 1), 3, np.uint8), "mxfp4", tensor_scale=0.5)
    assert (values == 3).all()


def test_fused(every: Any) -> None:
    x = np.full((2, 64), 3, np.float32)
    codes, scales = every.quantize_fused(x, "silu_mul", "mxfp4", residual=x + 1, weight=x[0] + 2, eps=7.0)
    assert (codes.shape, codes[0, :6].tolist(), scales.tolist()) == ((2, 32), [3, 99, 4, 5, 7, 99], [[128]] * 2)


def test_affine(every: Any) -> None:
    x = np.arange(192, dtype=np.float32).reshape(3, 64)
    codes, scales, offsets = every.quantize_affine(x, AFFINE)
    assert (codes.shape, codes.dtype, codes[0, 0]) == ((3, 8), np.uint32, 364)
    assert scales.tolist() == [[0, 32], [64, 96], [128, 160]]
    assert offsets.tolist() == [[24, 24]] * 3
    given = np.full((1, 8), 0x76543210, np.uint32)
    values = every.dequantize_affine(given, np.array([[1, 2]], np.float32), np.array([[-1, 1]], np.float32), AFFINE)
    assert values[0, :8].tolist() == list(range(-1, 7))
    assert values[0, 32:40].tolist() == [2 * q + 1 for q in range(8)]


def test_layouts(every: Any) -> None:
    rng = np.random.default_rng(1)
    for shape in ((2, 64), (3, 2, 64)):
        codes = rng.integers(0, 16, shape, np.uint8)
        scales = rng.integers(0, 256, (*shape[:-1], 2), np.uint8)
        packed = every.pack(codes, "nibble-low")
        assert np.array_equal(packed.reshape(-1), get_layout("nibble-low").pack(codes).reshape(-1))
        assert np.array_equal(every.unpack(packed, "nibble-low", shape), codes)
        assert np.array_equal(every.unswizzle(every.swizzle(scales, "row-major"), "row-major", scales.shape), scales)
        blocks = every.pack_blocks(codes, scales, "ggml-mxfp4")
        assert np.array_equal(blocks.reshape(-1), get_layout("ggml-mxfp4").pack(scales, codes).reshape(-1))
        again = every.unpack_blocks(blocks, "ggml-mxfp4", shape)
        assert np.array_equal(again[0], codes)
        assert np.array_equal(again[1], scales)


def test_sparse_functions(every: Any) -> None:
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32) % 16
    pruned = every.prune(codes, "e2m1-2to4")
    assert (pruned.reshape(-1, 4) == codes.reshape(-1, 4) * [1, 1, 0, 0]).all()
    kept, metadata = every.compress(codes, "e2m1-2to4")
    assert (kept.shape, metadata.tolist()) == ((2, 16), [0x44] * 8)
    assert np.array_equal(every.decompress(kept, metadata, "e2m1-2to4", (2, 32)), pruned)


def sides() -> tuple[Side, Side, Any]:
    a, b = np.arange(64, dtype=np.uint8).reshape(2, 32) % 5, np.arange(96, dtype=np.uint8).reshape(3, 32) % 7
    a_scales, b_scales = np.array([[1], [2]], np.uint8), np.array([[1], [2], [3]], np.uint8)
    product = (a.astype(int) * a_scales) @ (b.astype(int) * b_scales).T
    left = Side(codes=a, scales=a_scales, format="mxfp4", shape=(2, 32), spec="mxfp4", tensor_scale=2.0)
    return left, Side(codes=b, scales=b_scales, format="mxfp4", shape=(3, 32), spec="mxfp4"), 2 * product


def test_matmul(every: Any) -> None:
    a, b, expected = sides()
    assert np.array_equal(every.matmul(a, b, "float32"), expected)
    c, bias = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.float32)
    assert np.array_equal(every.matmul(a, b, "float32", alpha=0.5, beta=3.0, c=c, bias=bias), expected / 2 + 3 * c + bias)
    plain = np.arange(64, dtype=np.float32).reshape(2, 32)
    side = Side(codes=None, scales=None, values=plain, shape=(2, 32), spec="float32")
    assert np.array_equal(every.matmul(side, b, "float32"), plain @ (b.codes.astype(np.float32) * b.scales).T)
    with pytest.raises(NotImplementedError):
        every.matmul(a, b, "float16")


def grouped() -> tuple[Side, Side, Any]:
    """Rows of float32 and matrices of two experts, and their products [experts, rows, n]."""
    x, (_, b, _) = np.arange(96, dtype=np.float32).reshape(3, 32) % 7, sides()
    each = [replace(b, codes=(b.codes + i) % 8, scales=b.scales + np.uint8(i)) for i in range(2)]
    stack = replace(b, codes=np.stack([e.codes for e in each]), scales=np.stack([e.scales for e in each]), shape=(2, 3, 32))
    product = np.stack([x @ (e.codes.astype(np.float32) * e.scales).T for e in each])
    return Side(codes=None, scales=None, values=x, shape=(3, 32), spec="float32"), stack, product


def test_grouped_matmul(every: Any) -> None:
    a, b, of = grouped()
    alpha, bias = np.array([0.5, 2], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = np.concatenate([of[0, :1] * alpha[0] + bias[0], of[1, 1:] * alpha[1] + bias[1]])
    assert np.array_equal(every.grouped_matmul(a, b, (1, 2), "counts", "float32", alpha=alpha, bias=bias), expected)
    assert a.values is not None
    masked = replace(a, values=np.stack([a.values, a.values]), shape=(2, 3, 32))
    returned = every.grouped_matmul(masked, b, (1, 3), "masked", "float32")
    assert returned.shape == (2, 3, 3)
    assert np.array_equal(returned[0, :1], of[0, :1])
    assert np.array_equal(returned[1], of[1])


def cache_calls() -> dict[str, tuple[Any, ...]]:
    """Two pages of four tokens, of one head of 64 numbers."""
    k = np.arange(256).reshape(2, 4, 1, 32).repeat(2, -1).astype(np.uint8)
    new, table, lengths = np.arange(3 * 64, dtype=np.float32).reshape(3, 1, 64), np.array([[1, 0]], np.int32), np.array([5], np.int32)
    return {
        "append_cache": (new, new + 1, np.array([6, -1, 0], np.int32), k, k + np.uint8(1), "fp8_e4m3"),
        "read_cache": (k, k + np.uint8(1), table, lengths, "fp8_e4m3"),
        "attention": (new, k, k, np.array([0, 3], np.int32), lengths, "float32 @ fp8_e4m3", "float32"),
    }


def test_caches_and_attention(every: Any) -> None:
    calls, scale = cache_calls(), np.array([2], np.float32)
    new, _, _, k, *_ = calls["append_cache"]
    k_cache, v_cache = every.append_cache(*calls["append_cache"], k_scale=scale)
    expected = k.copy().reshape(8, 64)
    expected[6], expected[0] = new[0, 0] + 2, new[2, 0] + 2
    assert np.array_equal(k_cache.reshape(8, 64), expected)
    assert (v_cache[1, 2] == new[0] + 1).all()
    assert (v_cache[0, 1] == k[0, 1] + 1).all()
    rows = np.concatenate([k[1], k[0, :1]]).astype(np.float32)
    read = every.read_cache(*calls["read_cache"], v_scale=scale)
    assert np.array_equal(read[0], rows)
    assert np.array_equal(read[1], 2 * ((rows + 1) % 256))
    q = calls["attention"][0]
    sizes = 3 + 1 + 1 + 1 + 64 + 2 + 4 + 0 + 64 + 3 + 5
    assert np.array_equal(every.attention(*calls["attention"]), q + sizes + 1000)
    options = {"page_table": np.array([[1, 0]], np.int32), "causal": True, "window": 7, "scale": 0.5, "k_scale": scale}
    assert np.array_equal(every.attention(*calls["attention"], **options), q + sizes + 2 + 1 + 1 + 7 + 0.5 + 2)


def test_every_function_goes_over_the_wire(every: Any) -> None:
    """Requests of all functions to the library, by way of JSON and back."""
    asked: list[str] = []

    def ask(identifier: str, function: str, arguments: Any) -> Any:
        request = write_request(identifier, function, arguments, "hex")
        given = {k: read_array(v, k) if isinstance(v, dict) and "dtype" in v else v for k, v in request["arguments"].items()}
        operation = OPERATIONS[function]
        asked.append(function)
        if "a" in operation.arguments:
            *experts, m, n, k = given["shape"]
            for name, rows in (("a", m), ("b", n)):
                parts = {p: given.get(f"{name}_{p}") for p in ("codes", "scales", "values", "spec")}
                scale = given.get(f"{name}_tensor_scale")
                factor = None if scale is None else float(np.uint32(int(scale["float32"], 16)).view(np.float32))
                given[name] = Side(**parts, tensor_scale=factor, shape=(*experts * (name == "b"), rows, k))
        result = getattr(every, function)(*(given[a] for a in operation.arguments))
        results = result if len(operation.outputs) > 1 else (result,)
        return {"id": identifier, "outputs": {o.name: write_array(r) for o, r in zip(operation.outputs, results, strict=True)}}

    remote = RemoteModule(every.MXSPEC_CAPABILITIES, ask)
    codes, scales, x = np.zeros((2, 32), np.uint8), np.ones((2, 1), np.uint8), np.ones((2, 32), np.float32)
    calls: dict[str, tuple[Any, ...]] = {
        "quantize": (x, "mxfp4"), "quantize_fused": (np.ones((2, 64), np.float32), "silu_mul", "mxfp4"), "dequantize": (codes, scales, "mxfp4"), "encode": (x[0], "e2m1"), "decode": (codes[0], "e2m1"),
        "quantize_affine": (x, AFFINE), "dequantize_affine": (np.zeros((2, 4), np.uint32), x[:, :1], x[:, :1], AFFINE),
        "encode_stochastic": (x[0], "e2m1", np.zeros(32, np.uint32)), "tensor_scale": (x, "mxfp4"),
        "prune": (codes, "e2m1-2to4"), "compress": (codes, "e2m1-2to4"),
        "decompress": (np.zeros((2, 16), np.uint8), np.full(8, 0x44, np.uint8), "e2m1-2to4", (2, 32)),
        "pack": (codes, "nibble-low"), "unpack": (np.zeros(32, np.uint8), "nibble-low", (2, 32)),
        "swizzle": (scales, "row-major"), "unswizzle": (np.zeros(2, np.uint8), "row-major", (2, 1)),
        "pack_blocks": (codes, scales, "ggml-mxfp4"), "unpack_blocks": (np.zeros(34, np.uint8), "ggml-mxfp4", (2, 32)),
        "matmul": (*sides()[:2], "float32"), "grouped_matmul": (*grouped()[:2], (2, 1), "counts", "float32"), **cache_calls(),
    }  # fmt: skip
    for function, args in calls.items():
        over, direct = getattr(remote, function)(*args), getattr(every, function)(*args)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (over, direct)), strict=True):
            assert np.array_equal(a, b)
    assert sorted(asked) == sorted(OPERATIONS)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.uint8, np.uint32])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_arrays_survive_the_wire(dtype: Any, encoding: str) -> None:
    for array in (np.arange(6).astype(dtype).reshape(2, 3), np.zeros((0, 3), dtype), np.array(3).astype(dtype)):
        again = read_array(write_array(array, encoding), "x")
        assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_sizes_may_be_written_with_a_point() -> None:
    """Languages with one kind of number write 3.0, which JSON Schema takes for an integer."""
    document = write_array(np.arange(6, dtype=np.uint8).reshape(2, 3)) | {"shape": [2.0, 3.0]}
    assert find_reply_violation({"id": "0" * 16, "outputs": {"codes": document}}) is None
    assert read_array(document, "codes").shape == (2, 3)


def test_ids_are_of_the_content() -> None:
    """Another value, name, option, shape or type is another call; another spelling of the same is not."""
    x = np.arange(32, dtype=np.float32)
    base = {"x": x, "format": "mxfp4"}
    others = [
        {"x": -x, "format": "mxfp4"}, {"x": x, "format": "mxfp8_e4m3"}, {"x": x.reshape(1, -1), "format": "mxfp4"},
        {"x": x.astype(np.float16), "format": "mxfp4"}, {**base, "tensor_scale": 1.0}, {**base, "axis": 0}, {**base, "pad": True},
    ]  # fmt: skip
    digests = [digest_call("quantize", a) for a in (base, *others)] + [digest_call("encode", base)]
    assert len(set(digests)) == len(digests)
    assert digest_call("quantize", {"format": "mxfp4", "x": x.copy()}) == digests[0]


def test_a_reply_with_other_outputs_is_no_answer() -> None:
    with pytest.raises(BadReturn, match="the outputs of quantize are codes, scales; the reply holds codes"):
        read_reply("quantize", {"outputs": {"codes": write_array(np.zeros(1, np.uint8))}})


# Arrays that are not NumPy's


class Dlpack:
    """Offers an array through DLPack alone."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class ArrayInterface:
    """Offers an array through NumPy's array interface alone."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("kind", [Dlpack, ArrayInterface])
def test_arrays_come_in_through_dlpack_and_the_array_interface(kind: Any) -> None:
    array = np.arange(6, dtype=np.uint8)
    assert from_target_array(kind(array), "codes").tolist() == array.tolist()

    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        return kind(t.codes), kind(t.scales)

    target = SimpleNamespace(NAME="t", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    assert check(InProcessSession(target, "t"), only="quantize/mxfp4/tie-even").exit_code == 0


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(BadReturn, match="codes is a list, not an array"):
        from_target_array([1, 2], "codes")


def test_a_helper_with_the_name_of_a_function_is_refused_with_words() -> None:
    target = SimpleNamespace(FORMATS=["mxfp4"], quantize=lambda x, fmt: None, swizzle=lambda scales: scales)
    with pytest.raises(TargetError, match=r"swizzle\(scales\) cannot be called as swizzle\(scales, layout\).*rename it if"):
        InProcessSession(target, "t")
