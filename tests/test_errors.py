"""Bad input: every message names what was given, what is allowed and what to do; nothing is guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec.profiles import get_profile

from tests.support import BFLOAT, Codes, Float32s

X32: Float32s = np.ones(32, np.float32)
X16: Float32s = np.ones(16, np.float32)
CODES: Codes = np.zeros(32, np.uint8)
SCALES: Codes = np.full(1, 127, np.uint8)

Call = Callable[[], object]


def q(x: Any = X32, fmt: Any = "mxfp4", **options: Any) -> Call:
    return lambda: mxspec.quantize(x, fmt, **options)


def dq(codes: Any = CODES, scales: Any = SCALES, fmt: Any = "mxfp4", **options: Any) -> Call:
    return lambda: mxspec.dequantize(codes, scales, fmt, **options)


def enc(x: Any = X32, element: Any = "e2m1", **options: Any) -> Call:
    return lambda: mxspec.encode(x, element, **options)


def dec(codes: Any = CODES, element: Any = "e2m1") -> Call:
    return lambda: mxspec.decode(codes, element)


def ts(x: Any = X16, fmt: Any = "nvfp4", profile: Any = None) -> Call:
    return lambda: mxspec.tensor_scale(x, fmt, profile)


def refused(call: Call, error: type[Exception], *parts: str) -> None:
    """Raises this error, whose message holds all the parts."""
    with pytest.raises(error) as info:
        call()
    assert type(info.value) is error
    for part in parts:
        assert part in str(info.value), f"{part!r} not in {str(info.value)!r}"


DTYPES = ("float32, float16, bfloat16", "float64 whose values are exactly float32", "convert it first")
WRONG_DTYPES: dict[str, Any] = {
    "int64": np.ones(32, np.int64),
    "uint8": np.ones(32, np.uint8),
    "bool": np.ones(32, np.bool_),
    "complex64": np.ones(32, np.complex64),
    "object": np.array([1.0] * 32, object),
    ">f4": np.ones(32, ">f4"),
    "datetime64": np.zeros(32, "datetime64[s]"),
    "<U": np.array(["1"] * 32),
    "float8_e4m3fn": np.ones(32, ml_dtypes.float8_e4m3fn),
}


@pytest.mark.parametrize("dtype", WRONG_DTYPES)
@pytest.mark.parametrize(
    "take",
    [
        lambda x: mxspec.quantize(x, "mxfp4"),
        lambda x: mxspec.encode(x, "e4m3"),
        lambda x: mxspec.encode(x, "e8m0"),
        lambda x: mxspec.tensor_scale(x),
        lambda x: mxspec.quantize(x, "nvfp4", tensor_scale="auto"),
    ],
    ids=["quantize", "encode", "encode scale", "tensor_scale", "auto"],
)
def test_wrong_dtypes(take: Callable[[Any], object], dtype: str) -> None:
    refused(lambda: take(WRONG_DTYPES[dtype]), TypeError, "x has dtype ", dtype, *DTYPES)


@pytest.mark.parametrize("x", [[1, 2], [None] * 32, [1 + 2j], "text", None], ids=str)
def test_lists_of_other_things(x: Any) -> None:
    refused(q(x), TypeError, "x has dtype", *DTYPES)
    refused(enc(x), TypeError, "x has dtype", *DTYPES)


@pytest.mark.parametrize("value", [0.1, 1e300, -1e-50, 1 + 2.0**-24, 2.0**128, 5e-324])
def test_float64_that_is_not_float32(value: float) -> None:
    """The first index and the value are named, in all dimensions; no rounding is hidden."""
    x = np.ones((3, 32))
    x[1, 7] = x[2, 0] = value
    parts = (f"x[1, 7] = np.float64({value!r})", "is float64 and not exactly a float32", "x.astype('float32')")
    refused(q(x), ValueError, *parts)
    refused(enc(x), ValueError, *parts)
    refused(ts(x), ValueError, *parts)
    refused(enc(value), ValueError, f"x = np.float64({value!r})")
    refused(q([1.0] * 31 + [value]), ValueError, f"x[31] = np.float64({value!r})")


WORDS = np.zeros(32, np.uint32)
ENCODE_SCALE = mxspec.TensorScale.from_float("encode", 2.0)
DIRTY_CODES = np.array([0, 0, 0, 0x21, *[0] * 28], np.uint8)
#: What is wrong -> the call, the error, and parts of its message.
REFUSED: dict[str, tuple[Call, type[Exception], tuple[str, ...]]] = {
    "a number": (q(np.float32(1)), ValueError, ("x has no axis to cut into blocks; pass at least one dimension",)),
    "a float": (q(1.0), ValueError, ("x has no axis to cut into blocks",)),
    "one code": (dq(np.uint8(1), np.uint8(1)), ValueError, ("codes has no axis to cut into blocks; pass at least one dimension",)),
    "a number in tiles": (q(1.0, "nvfp4", block=(16, 16)), ValueError, ("x has no axis",)),
    **{f"axis {axis!r}": (take(axis=axis), TypeError, (f"axis is of type {type(axis).__name__}; pass an integer",)) for axis in (1.0, "0", None, (0,)) for take in (q, dq)},
    "block of 32": (q(X16, "nvfp4", block=(1, 32)), ValueError, ("block = (1, 32)", "nvfp4; allowed are (1, 16), (16, 16)")),
    "a row in tiles": (q(X16, "nvfp4", block=(16, 16)), ValueError, ("block = (16, 16) needs two axes, x has 1",)),
    "profile of another format": (q(profile="nvfp4-te"), ValueError, ("profile nvfp4-te does not cover mxfp4, only nvfp4; those of mxfp4 are mx-floor",)),
    "the same to dequantize": (dq(profile="nvfp4-te"), ValueError, ("profile nvfp4-te does not cover mxfp4",)),
    "the profile itself": (q(profile=get_profile("nvfp4-te", "nvfp4")), ValueError, ("profile nvfp4-te does not cover mxfp4",)),
    "profile without tensor scale": (ts(profile="mx-floor"), ValueError, ("profile mx-floor does not cover nvfp4, only mxfp4, mxfp6_e2m3",)),
    "packed codes": (dq(DIRTY_CODES), ValueError, ("codes[3] = 0x21 has more than the 4 bits of e2m1; are the codes packed?",)),
    "a signed scale": (dq(CODES[:16], np.array([0xB8], np.uint8), "nvfp4"), ValueError, ("scales[0] = 0xb8 has more than the 7 bits of ue4m3",)),
    "rounding": (enc(rounding="nearest"), ValueError, ("'nearest' is not a valid Rounding", "rne, rna, rnz, rnu, rtz, rtn, rtp, sr")),
    "overflow": (enc(overflow="clip"), ValueError, ("'clip' is not a valid Overflow", "saturate, own, saturate-finite")),
    "NaN policy": (enc(nan="zeros"), ValueError, ("'zeros' is not a valid NanPolicy", "max-positive", "raise")),
    "sign": (enc(element="e8m0", sign="drop"), ValueError, ("sign='drop'; allowed are 'raise' and 'ignore'",)),
    "kind": (lambda: mxspec.TensorScale.from_float("max", 0), ValueError, ("'max' is not a valid TensorScaleKind", "decode, encode, amax")),
    "own overflow": (enc(overflow="own"), ValueError, ("e2m1 has neither Inf nor NaN", "overflow='own'", "use overflow='saturate'")),
    "finite overflow": (enc(element="int8", overflow="saturate-finite"), ValueError, ("int8 has neither", "use overflow='saturate'")),
    "own NaN": (enc(nan="nan"), ValueError, ("e2m1 has no NaN", "nan='nan'", "choose one of max-positive")),
    "no words": (enc(rounding="sr"), ValueError, ("rounding='sr' needs random_bits: one unsigned word for each element of x",)),
    "words to nearest": (enc(random_bits=WORDS), ValueError, ("random_bits were given, but rounding='rne' takes none; pass rounding='sr'",)),
    **{f"words {w.dtype}": (enc(rounding="sr", random_bits=w), TypeError, ("random_bits has dtype", "pass unsigned integers, uint32 say")) for w in (WORDS.astype(np.int64), WORDS.astype(np.float32))},
    "words in a list": (enc(rounding="sr", random_bits=[1] * 32), TypeError, ("random_bits has dtype", "pass unsigned integers")),
    "a word too few": (enc(rounding="sr", random_bits=WORDS[:31]), ValueError, ("random_bits has shape (31,), x has (32,)", "one word for each")),
    **{f"{n} random bits": (enc(rounding="sr", random_bits=WORDS, sr_bits=n), ValueError, (f"sr_bits = {n}; allowed are 1 to 32",)) for n in (0, -1, 33, 64)},
    **{f"random bits {n!r}": (enc(rounding="sr", random_bits=WORDS, sr_bits=n), TypeError, (f"sr_bits is of type {type(n).__name__}; pass an integer",)) for n in (8.0, "8", True, None)},
    "words of blocks": (q(random_bits=WORDS[None]), ValueError, ("random_bits has shape (1, 32), x has (32,); pass one word for each element",)),
    "signed words of blocks": (q(random_bits=WORDS.astype(np.int32)), TypeError, ("random_bits has dtype int32; pass unsigned integers",)),
    "64 random bits of blocks": (q(random_bits=WORDS, sr_bits=64), ValueError, ("sr_bits = 64; allowed are 1 to 32",)),
    **{f"tensor scale {s!r}": (q(X16, "nvfp4", tensor_scale=s), TypeError, (f"tensor_scale is of type {type(s).__name__}; pass a TensorScale", "bare number", "'auto'")) for s in (1.0, np.float32(2), 3, "max", b"auto")},
    "tensor scale of values": (dq(CODES[:16], SCALES, "nvfp4", tensor_scale=1.0), TypeError, ("tensor_scale is of type float; pass a TensorScale",)),
    "auto of values": (dq(CODES[:16], SCALES, "nvfp4", tensor_scale="auto"), TypeError, ("tensor_scale is of type str", "for quantize 'auto'")),
    "kind of tensor scale": (q(X16, "nvfp4", tensor_scale=ENCODE_SCALE), ValueError, ("tensor_scale is of kind encode, profile nvfp4-te stores amax", "pass convert=True to convert it")),
    "no place for it": (q(tensor_scale=ENCODE_SCALE), ValueError, ("profile mx-floor has no tensor scale; pass tensor_scale=None",)),
    "auto without place": (q(tensor_scale="auto"), ValueError, ("mxfp4 has no tensor scale; only nvfp4 has one",)),
    "no tensor scale": (q(X16, "nvfp4", profile="vllm-0.33/nvfp4/kernel"), ValueError, ("no tensor scale was given", "vllm-0.33/nvfp4/kernel has no such form", "pass tensor_scale='auto' or a")),
    "no float32": (lambda: mxspec.TensorScale.from_float("decode", 0.1), ValueError, ("value = ", "not exactly a float32", "round it yourself")),
    "no bits": (lambda: mxspec.TensorScale(ENCODE_SCALE.kind, -1), ValueError, ("bits = -0x1 are not those of a float32; pass 0 to 0xffffffff",)),
    "a profile's id": (lambda: mxspec.register_profile(replace(get_profile("mx-floor", "mxfp4"), summary="x")), ValueError, ("the profile id 'mx-floor' is taken; choose a new one",)),
    "a format's name": (lambda: mxspec.register_scalar(replace(ELEMENTS["e2m1"], bias=2)), ValueError, ("the name 'e2m1' is taken by another format; choose a new name",)),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_in_words(what: str) -> None:
    call, error, parts = REFUSED[what]
    refused(call, error, *parts)
    assert ELEMENTS["e2m1"].bias == 1


@pytest.mark.parametrize("axis", [1, -2, 7, -100])
def test_axis_out_of_range(axis: int) -> None:
    parts = (f"axis = {axis} is out of range for 1 dimensions", "allowed are -1 to 0")
    refused(q(axis=axis), ValueError, *parts)
    refused(dq(axis=axis), ValueError, *parts)
    refused(q(np.ones((2, 3, 32), np.float32), axis=3), ValueError, "axis = 3", "3 dimensions; allowed are -3 to 2")


@pytest.mark.parametrize(("fmt", "length"), [(f, n) for f in BLOCKS for n in (1, BLOCKS[f].k - 1, BLOCKS[f].k + 1)])
def test_ragged_axis(fmt: str, length: int) -> None:
    k = BLOCKS[fmt].k
    whole = k if length < k else 2 * k
    x = np.ones((2, length), np.float32)
    parts = (f"k = {length} is not a multiple of the {k}-element block of {fmt}", f"pad axis 1 to {whole} or pass pad=True")
    refused(q(x, fmt), ValueError, *parts)
    refused(q(x.T, fmt, axis=0), ValueError, f"k = {length}", f"pad axis 0 to {whole}")


@pytest.mark.parametrize("block", [(32, 32), (16, 16), (1, 16), 32, [1, 32], "1x32"])
def test_block_shapes_of_mx(block: Any) -> None:
    refused(
        q(block=block),
        ValueError if isinstance(block, tuple) else TypeError,
        f"block = {block}",
        "is not a block shape of mxfp4; allowed are (1, 32)",
    )


@pytest.mark.parametrize("fmt", ["mxfp5", "e2m1", "", "MXFP4", 4, None])
def test_unknown_formats(fmt: Any) -> None:
    parts = (f"unknown block format {fmt!r}; known are ", *BLOCKS)
    error = ValueError if isinstance(fmt, str) else TypeError
    for call in (q(fmt=fmt), dq(fmt=fmt), ts(fmt=fmt)):
        refused(call, error, *parts)
    refused(lambda: mxspec.get_block(fmt), error, *parts)
    refused(lambda: mxspec.default_profile(fmt), error, *parts)


@pytest.mark.parametrize("element", ["fp4", "mxfp4", "e4m3fn", None, 8])
def test_unknown_elements(element: Any) -> None:
    parts = (f"unknown scalar format {element!r}; known are ", *ELEMENTS, "e8m0", "ue4m3")
    for call in (enc(element=element), dec(element=element), lambda: mxspec.get_scalar(element)):
        refused(call, ValueError if isinstance(element, str) else TypeError, *parts)


@pytest.mark.parametrize("profile", ["floor", "mx-floor ", "torchao", "nvfp4-tee"])
def test_unknown_profiles(profile: str) -> None:
    for call in (q(profile=profile), dq(profile=profile)):
        refused(call, ValueError, f"unknown profile {profile!r}; those of mxfp4 are mx-floor, mx-rceil", "of libraries")
    refused(ts(profile=profile), ValueError, f"unknown profile {profile!r}; those of nvfp4 are nvfp4-paper, nvfp4-te")
    refused(lambda: mxspec.get_profile(profile, "mxint8"), ValueError, f"unknown profile {profile!r}; those of mxint8 are")


WRONG_CODES: dict[str, Any] = {
    "int64": np.zeros(32, np.int64),
    "int8": np.zeros(32, np.int8),
    "float32": np.zeros(32, np.float32),
    "bool": np.zeros(32, np.bool_),
    "object": np.zeros(32, object),
}


@pytest.mark.parametrize("dtype", WRONG_CODES)
def test_codes_of_another_dtype(dtype: str) -> None:
    wrong = WRONG_CODES[dtype]
    refused(dec(wrong), TypeError, f"codes has dtype {dtype}; codes are uint8, one code in the low 4 bits of each")
    refused(dq(wrong), TypeError, f"codes has dtype {dtype}; codes are uint8")
    refused(dq(scales=wrong[:1]), TypeError, f"scales has dtype {dtype}; codes are uint8, one code in the low 8 bits")


@pytest.mark.parametrize(("element", "width", "dirty"), [("e2m1", 4, 0x10), ("e2m3", 6, 0x40), ("e3m2", 6, 0xFF), ("ue4m3", 7, 0x80)])
def test_codes_with_dirty_bits(element: str, width: int, dirty: int) -> None:
    codes = np.zeros((2, 32), np.uint8)
    codes[1, 30] = dirty
    hint = f"has more than the {width} bits of {element}; are the codes packed? unpack them to one code per byte"
    refused(dec(codes, element), ValueError, f"codes[1, 30] = {dirty:#04x} {hint}")
    refused(dec(np.uint8(dirty), element), ValueError, f"codes = {dirty:#04x} {hint}")
    codes[1, 30] = dirty - 1 if element != "e3m2" else 0x3F
    mxspec.decode(codes, element)


@pytest.mark.parametrize(
    ("codes", "scales", "axis"),
    [
        ((32,), (2,), -1),
        ((32,), (), -1),
        ((2, 32), (2,), -1),
        ((2, 32), (1, 2), -1),
        ((33,), (1,), -1),
        ((32, 2), (32, 1), 0),
        ((64, 3), (2, 3), 1),
    ],
)
def test_shapes_that_do_not_match(codes: tuple[int, ...], scales: tuple[int, ...], axis: int) -> None:
    parts = (f"codes of shape {codes} and scales of shape {scales} do not match for mxfp4", "must be a multiple of 32")
    refused(dq(np.zeros(codes, np.uint8), np.zeros(scales, np.uint8), axis=axis), ValueError, *parts)


@pytest.mark.parametrize("dtype", [np.float64, np.int8, "uint8", object, np.complex64, "f2x"])
def test_output_dtypes(dtype: Any) -> None:
    parts = ("is not an output; allowed are float32, float16 and bfloat16",)
    refused(dq(dtype=dtype), TypeError, *parts)
    refused(lambda: mxspec.quantize(X32, "mxfp4").dequantize(dtype), TypeError, *parts)


def test_output_dtypes_by_name() -> None:
    found = [mxspec.dequantize(CODES, SCALES, "mxfp4", dtype=d).dtype for d in ("float32", "float16", "bfloat16", BFLOAT)]
    assert found == [np.float32, np.float16, BFLOAT, BFLOAT]


def test_nan_that_is_forbidden() -> None:
    x = np.ones((2, 3), np.float32)
    x[1, 2] = np.nan
    refused(enc(x, nan="raise"), ValueError, "x[1, 2] is NaN and nan='raise' forbids it for e2m1")
    refused(enc(np.float32(np.nan), "e4m3", nan="raise"), ValueError, "x is NaN and nan='raise' forbids it for e4m3")
    assert mxspec.encode(x[0], "e2m1", nan="raise").tolist() == [2, 2, 2]
    refused(q(np.full(32, np.nan, np.float32), profile="gfloat-0.5/mx"), ValueError, "holds a NaN and nan='raise' forbids it")


@pytest.mark.parametrize("element", ["e8m0", "ue4m3"])
def test_negative_scales(element: str) -> None:
    x = np.ones((2, 3), np.float32)
    x[1, 0] = -0.5
    parts = ("= np.float32(-0.5) is negative and", f"{element} is unsigned", "pass sign='ignore' to encode the magnitude")
    refused(enc(x, element), ValueError, "x[1, 0] ", *parts)
    refused(enc(np.float32(-0.5), element), ValueError, "x ", *parts)


def test_an_id_of_a_stack_is_taken_before_its_profiles_load() -> None:
    """Descriptive profiles load on first use; registering comes after them whatever the order of calls."""
    program = (
        "import mxspec\n"
        "from dataclasses import replace\n"
        "floor = mxspec.get_profile('mx-floor', 'mxfp4')\n"
        "try:\n"
        "    mxspec.register_profile(replace(floor, id='gguf-0.19/mxfp4'))\n"
        "except ValueError as error:\n"
        "    print(error)\n"
        "mine = replace(floor, id='mine')\n"
        "mxspec.register_profile(mine)\n"
        "print(mxspec.list_profiles()[-1].id)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["the profile id 'gguf-0.19/mxfp4' is taken; choose a new one", "mine"]


def test_nothing_is_half_done() -> None:
    """A refused call leaves its arguments as they were."""
    x = X32.copy()
    codes, scales = CODES.copy(), SCALES.copy()
    before = x.tobytes(), codes.tobytes(), scales.tobytes()
    for call in (q(x[:31]), q(x, axis=3), dq(codes, scales, axis=2), dq(codes, scales, dtype=np.int8), enc(x, rounding="sr")):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert (x.tobytes(), codes.tobytes(), scales.tobytes()) == before


PUBLIC_FUNCTIONS: dict[str, list[Call]] = {
    "decode": [dec(element="fp4")],
    "default_profile": [lambda: mxspec.default_profile("fp4")],
    "dequantize": [dq(fmt="fp4")],
    "encode": [enc(element="fp4")],
    "find_codes": [lambda: mxspec.find_codes(X32, "fp4")],
    "get_block": [lambda: mxspec.get_block("fp4")],
    "get_profile": [lambda: mxspec.get_profile("fp4", "mxfp4")],
    "get_scalar": [lambda: mxspec.get_scalar("fp4")],
    "list_profiles": [lambda: mxspec.list_profiles("fp4")],
    "quantize": [q(fmt="fp4")],
    "register_adjacent": [lambda: mxspec.register_adjacent("fp4")],
    "register_profile": [lambda: mxspec.register_profile(replace(get_profile("mx-floor", "mxfp4"), id="a", formats=("fp4",)))],
    "register_block": [lambda: mxspec.register_block(replace(BLOCKS["mxfp4"], name="e2m1"))],
    "register_scalar": [lambda: mxspec.register_scalar(replace(ELEMENTS["e2m1"], bias=3))],
    "tensor_scale": [ts(fmt="fp4")],
}


def test_every_public_function_refuses() -> None:
    functions = {n for n in mxspec.__all__ if callable(getattr(mxspec, n)) and not isinstance(getattr(mxspec, n), type)}
    assert functions == set(PUBLIC_FUNCTIONS)
    for name, calls in PUBLIC_FUNCTIONS.items():
        for call in calls:
            with pytest.raises(ValueError, match=r"fp4|e2m1") as info:
                call()
            words = str(info.value)
            assert "known are" in words or "those of" in words or "choose" in words, f"{name}: {words}"
