"""Wrong calls: a TypeError or a ValueError that says what was given, what is allowed and what to do; then all works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.tensorscale import TensorScale

from tests.gpu.compare import compare, message_of, normal
from tests.gpu.device import Tally, cp, import_torch, require_gpu, to_gpu

pytestmark = pytest.mark.gpu
require_gpu()


def x(*shape: int) -> Any:
    return cp().ones(shape, cp().float32)


def u8(*shape: int) -> Any:
    return cp().zeros(shape, cp().uint8)


def q(*arguments: Any, **options: Any) -> Any:
    return mxspec_gpu.quantize(*arguments, **options)


def overlapping() -> tuple[Any, Any]:
    memory = u8(4096)
    return memory[:128].reshape(4, 32), memory[112:120].reshape(4, 2)


def inside(array: Any) -> tuple[Any, Any]:
    return array.view(cp().uint8).reshape(-1)[64:192].reshape(4, 32), u8(4, 2)


def misaligned(dtype: Any) -> Any:
    memory = cp().zeros(4096, cp().uint8)
    return cp().ndarray((32,), dtype, memory.data + 1)


def crooked() -> Any:
    return cp().lib.stride_tricks.as_strided(cp().zeros(256, cp().float32), (4, 32), (130, 4))


INDEX, RANGE = "an integer from -2 to 1", "an integer from 0 to 2**64 - 1"
OUT2 = r"pass a tuple of 2 arrays (codes, scales) or None"
#: What is called -> (call, type of error, words of its message).
CALLS: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "axis 1.0": (lambda: q(x(4, 32), "mxfp4", axis=1.0), TypeError, ("axis = 1.0 is of type float", INDEX)),
    "axis None": (lambda: q(x(4, 32), "mxfp4", axis=None), TypeError, ("axis = None is of type NoneType", INDEX)),
    "axis 'a'": (lambda: q(x(4, 32), "mxfp4", axis="a"), TypeError, ("axis = 'a' is of type str", INDEX)),
    "axis True": (lambda: q(x(4, 32), "mxfp4", axis=True), TypeError, ("axis = True is of type bool", INDEX)),
    "axis 2": (lambda: q(x(4, 32), "mxfp4", axis=2), ValueError, ("axis = 2 is out of range", "-2 to 1")),
    "no axes": (lambda: q(x(), "mxfp4"), ValueError, ("x has no axis", "x.reshape(1, -1)")),
    "no axes, random words": (
        lambda: q(x(), "mxfp4", random_bits=cp().zeros((), cp().uint32)), ValueError, ("x has no axis",)),
    "format None": (lambda: q(x(4, 32), None), TypeError, ("fmt = None is of type NoneType", "mxfp4")),
    "format of another name": (lambda: q(x(4, 32), "mxfp5"), ValueError, ("unknown block format 'mxfp5'", "mxfp4")),
    "format of one's own": (
        lambda: q(x(4, 32), replace(mxspec.BLOCKS["mxfp4"], k=16)), ValueError, ("do not have this format 'mxfp4'",)),
    "profile 3": (lambda: q(x(4, 32), "mxfp4", profile=3), TypeError, ("profile = 3 is of type int", "a name")),
    "profile unknown": (lambda: q(x(4, 32), "mxfp4", profile="a"), ValueError, ("unknown profile 'a'",)),
    "layout": (lambda: q(x(4, 32), "mxfp4", scale_layout=["128x4"]), ValueError, ("allowed are row-major, 128x4",)),
    "ragged": (lambda: q(x(4, 33), "mxfp4"), ValueError, ("k = 33 is not a multiple", "pad=True")),
    "seed -1": (lambda: q(x(4, 32), "mxfp4", seed=-1), ValueError, ("seed = -1 is out of range", RANGE)),
    "seed 2**64": (lambda: q(x(4, 32), "mxfp4", seed=1 << 64), ValueError, ("is out of range", RANGE)),
    "seed 1.5": (lambda: q(x(4, 32), "mxfp4", seed=1.5), TypeError, ("seed = 1.5 is of type float", RANGE)),
    "seed True": (lambda: q(x(4, 32), "mxfp4", seed=True), TypeError, ("seed = True is of type bool", RANGE)),
    "seed array": (lambda: q(x(4, 32), "mxfp4", seed=cp().ones(1, int)), TypeError, ("is of type ndarray", RANGE)),
    "seed and words": (
        lambda: q(x(4, 32), "mxfp4", seed=1, random_bits=cp().zeros((4, 32), cp().uint32)), ValueError, ("pass one",)),
    "words of another shape": (
        lambda: q(x(4, 32), "mxfp4", random_bits=cp().zeros((32, 4), cp().uint32)), ValueError, ("of shape (4, 32)",)),
    "words of another dtype": (lambda: q(x(4, 32), "mxfp4", random_bits=u8(4, 32)), ValueError, ("pass uint32",)),
    "words of 16 bits": (
        lambda: q(x(4, 32), "mxfp4", random_bits=cp().zeros((4, 32), cp().uint32), sr_bits=16), ValueError,
        ("sr_bits = 16; allowed are 32 and 8",)),
    "words along columns": (
        lambda: q(x(32, 4), "mxfp4", axis=0, random_bits=cp().zeros((32, 4), cp().uint32)), ValueError, ("transposed",)),
    "integers": (lambda: q(u8(4, 32), "mxfp4"), TypeError, ("x has dtype uint8", "float32, float16, bfloat16")),
    "complex": (lambda: q(cp().ones((4, 32), cp().complex64), "mxfp4"), TypeError, ("x has dtype complex64",)),
    "a list": (lambda: q([1.0] * 32, "mxfp4"), TypeError, ("x is a builtins.list", "cupy.asarray(x)")),
    "address off an element": (lambda: q(misaligned(cp().float16), "mxfp4"), ValueError, ("no multiple of the 2 bytes",)),
    "strides off an element": (lambda: q(crooked(), "mxfp4"), ValueError, ("no whole elements of 4 bytes",)),
    "out ()": (lambda: q(x(4, 32), "mxfp4", out=()), ValueError, ("out has 0 arrays", OUT2)),
    "out of one": (lambda: q(x(4, 32), "mxfp4", out=(u8(4, 16),)), ValueError, ("out has 1 arrays", OUT2)),
    "out an array": (lambda: q(x(4, 32), "mxfp4", out=u8(2, 4)), TypeError, ("out is of type ndarray", OUT2)),
    "out of another shape": (
        lambda: q(x(4, 32), "mxfp4", out=(u8(4, 15), u8(4, 1))), ValueError, ("shape (4, 15)", "uint8 of shape (4, 16)")),
    "out with gaps": (
        lambda: q(x(4, 32), "mxfp4", out=(u8(4, 32)[:, ::2], u8(4, 1))), ValueError, ("strides (32, 2)", "contiguous")),
    "out that overlaps itself": (
        lambda: q(x(4, 64), "mxfp4", out=overlapping()), ValueError, ("codes shares memory with scales",)),
    "out inside x": (lambda: q(*[(a := x(4, 64)), "mxfp4"], out=inside(a)), ValueError, ("codes shares memory with x",)),
    "tensor scale 'max'": (lambda: q(x(4, 32), "nvfp4", tensor_scale="max"), ValueError, ("'auto'",)),
    "tensor scale a number": (lambda: q(x(4, 32), "nvfp4", tensor_scale=1.0), TypeError, ("tensor_scale is a builtins.float",)),
    "tensor scale of two": (lambda: q(x(4, 32), "nvfp4", tensor_scale=x(2)), ValueError, ("pass one float32",)),
    "tensor scale of a format without": (
        lambda: q(x(4, 32), "mxfp4", tensor_scale="auto"), ValueError, ("has no tensor scale",)),
    "both of integers": (
        lambda: mxspec_gpu.quantize_both(u8(32, 32), "mxfp4"), TypeError, ("x has dtype uint8", "float32, float16, bfloat16")),
    "both of float32": (lambda: mxspec_gpu.quantize_both(x(32, 32), "mxfp4"), ValueError, ("call quantize twice",)),
    "both of no matrix": (
        lambda: mxspec_gpu.quantize_both(cp().ones((2, 32, 32), cp().float16), "mxfp4"), ValueError, ("float16 or bfloat16 matrix",)),
    "both, out ()": (
        lambda: mxspec_gpu.quantize_both(cp().ones((32, 32), cp().float16), "mxfp4", out=()), ValueError,
        ("out has 0 arrays; pass a tuple of 4 arrays (codes, scales, column codes, column scales) or None",)),
    "both, short out": (
        lambda: mxspec_gpu.quantize_both(cp().ones((32, 32), cp().float16), "mxfp4", out=(u8(32, 16), u8(32, 1))), ValueError,
        ("out has 2 arrays; pass a tuple of 4",)),
    "both, one array twice": (
        lambda: mxspec_gpu.quantize_both(
            cp().ones((32, 32), cp().float16), "mxfp4", out=((a := u8(32, 16)), u8(32, 1), a, u8(32, 1))), ValueError,
        ("codes shares memory with column codes",)),
    "dequantize without axes": (lambda: mxspec_gpu.dequantize(u8(), u8(), "mxfp4"), ValueError, ("shape ()", "16 bytes")),
    "dequantize half a block": (
        lambda: mxspec_gpu.dequantize(u8(4, 8), u8(4, 1), "mxfp4"), ValueError, ("a multiple of 16 bytes (one block)",)),
    "dequantize other scales": (
        lambda: mxspec_gpu.dequantize(u8(4, 16), u8(4, 2), "mxfp4"), ValueError, ("pass scales of shape (4, 1)",)),
    "dequantize to a dtype object": (
        lambda: mxspec_gpu.dequantize(u8(4, 16), u8(4, 1), "mxfp4", dtype=np.dtype("float32")), TypeError, ("the names float32",)),
    "dequantize by 'auto'": (
        lambda: mxspec_gpu.dequantize(u8(4, 8), u8(4, 1), "nvfp4", tensor_scale="auto"), ValueError, ("were made with",)),
    "dequantize into another shape": (
        lambda: mxspec_gpu.dequantize(u8(4, 16), u8(4, 1), "mxfp4", out=x(4, 32)), ValueError, ("pass bfloat16 of shape (4, 32)",)),
    "unpack without axes": (lambda: mxspec_gpu.unpack(u8(), "mxfp4"), ValueError, ("codes have no axis",)),
    "unpack parts of codes": (lambda: mxspec_gpu.unpack(u8(2, 4), "mxfp6_e2m3"), ValueError, ("4 bytes are no whole number", "24 bytes")),
    "pack without axes": (lambda: mxspec_gpu.pack(u8(), "mxfp4"), ValueError, ("codes have no axis",)),
    "pack parts of bytes": (lambda: mxspec_gpu.pack(u8(2, 3), "mxfp4"), ValueError, ("do not fill whole bytes",)),
    "pack floats": (lambda: mxspec_gpu.pack(x(2, 32), "mxfp4"), TypeError, ("codes have dtype float32; codes are uint8",)),
    "encode, no such format": (lambda: mxspec_gpu.encode(x(3), "e9m9"), ValueError, ("unknown scalar format 'e9m9'",)),
    "encode, format None": (lambda: mxspec_gpu.encode(x(3), None), TypeError, ("element = None",)),
    "encode, no such rounding": (lambda: mxspec_gpu.encode(x(3), "e4m3", rounding="up"), ValueError, ("allowed are rne",)),
    "encode, overflow of a format without": (
        lambda: mxspec_gpu.encode(x(3), "e2m1", overflow="own"), ValueError, ("neither Inf nor NaN",)),
    "encode, stochastic overflow": (
        lambda: mxspec_gpu.encode(x(3), "e4m3", rounding="sr", overflow="own", random_bits=cp().zeros(3, cp().uint32)), ValueError,
        ("only saturate",)),
    "encode, NaN refused": (lambda: mxspec_gpu.encode(x(3), "e4m3", nan="raise"), ValueError, ("mxspec.encode (NumPy)",)),
    "encode, words for nearest": (
        lambda: mxspec_gpu.encode(x(3), "e4m3", random_bits=cp().zeros(3, cp().uint32)), ValueError, ("pass rounding='sr'",)),
    "encode, no words": (lambda: mxspec_gpu.encode(x(3), "e4m3", rounding="sr"), ValueError, ("needs random_bits",)),
    "tensor_scale of mxfp4": (lambda: mxspec_gpu.tensor_scale(x(32), "mxfp4"), ValueError, ("has no tensor scale",)),
    "tensor_scale into two": (lambda: mxspec_gpu.tensor_scale(x(32), out=x(2)), ValueError, ("pass one float32",)),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_wrong_call(what: str, tally: Tally) -> None:
    call, kind, words = CALLS[what]
    text = message_of(call, kind)
    for part in words:
        tally.require(part in text, f"{what}: {part!r} is not in {text!r}")
    good = normal((4, 64), "float32")
    compare(tally, ("mx-floor", "mxfp4", False), good, label=f"after {what}")


def test_wrong_kind_of_tensor_scale(tally: Tally) -> None:
    """The words name nothing that this function has not."""
    text = message_of(lambda: q(x(4, 32), "nvfp4", tensor_scale=TensorScale.from_float("decode", 2.0)), ValueError)
    tally.require("of kind decode, profile nvfp4-te takes amax" in text, text)
    tally.require("convert=True" not in text, text)


def test_torch_tensors_that_hold_no_plain_memory(tally: Tally) -> None:
    torch = import_torch()
    dense = torch.ones(4, 32, device="cuda")
    for tensor, words in (
        (dense.to_sparse(), "layout sparse_coo; pass a dense one, say x.to_dense()"),
        (dense.cpu(), "on cpu; move it to the GPU: x.cuda()"),
    ):
        text = message_of(lambda t=tensor: q(t, "mxfp4"), TypeError)
        tally.require(words in text, text)
    text = message_of(lambda: q(dense, "mxfp4", seed=torch.tensor(3, device="cuda")), TypeError)
    tally.require("is of type Tensor" in text, text)
    compare(tally, ("mx-floor", "mxfp4", False), normal((4, 64), "float32"))


def test_other_libraries(tally: Tally) -> None:
    """DLPack: what lies on the GPU is taken, what lies on the host is refused."""
    import_torch()

    class Wrapped:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    host = normal((4, 64), "float32")
    compare(tally, ("mx-floor", "mxfp4", False), host, given=Wrapped(to_gpu(host)), label="DLPack")
    text = message_of(lambda: q(Wrapped(host), "mxfp4"), TypeError)
    tally.require("not in the GPU's memory" in text, text)
