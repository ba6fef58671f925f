"""The model's functions as users call them: odd arrays, BlockTensor, tensors of torch, short names, threads."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec import BlockTensor, TensorScale, affine, containers, dot, layouts
from mxspec.measures import measure_error
from mxspec.profiles import Kind

from tests.support import assert_same

X = np.linspace(-6, 6, 128, dtype=np.float32).reshape(2, 64)
T = mxspec.quantize(X, "mxfp4")
N = mxspec.quantize(X, "nvfp4", tensor_scale="auto")


class Subclass(np.ndarray):
    """An array that is not exactly ndarray."""


class Broken:
    """Promises an array and does not give it."""

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no device")


def _memmap(path: Path) -> np.ndarray[Any, Any]:
    np.save(path, X)
    loaded: np.ndarray[Any, Any] = np.load(path, mmap_mode="r")
    return loaded


#: Ways to hold the same numbers: each gives the bits of the plain array.
SAME: dict[str, Callable[[Path], Any]] = {
    "negative strides": lambda _: X[::-1, ::-1].copy()[::-1, ::-1],
    "Fortran order": lambda _: np.asfortranarray(X),
    "every other column of a wider one": lambda _: np.repeat(X, 2, axis=1)[:, ::2],
    "at an odd address": lambda _: np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(X.shape),
    "read-only": lambda _: np.frombuffer(X.tobytes(), np.float32).reshape(X.shape),
    "memmap": lambda folder: _memmap(folder / "x.npy"),
    "matrix": lambda _: np.asmatrix(X),
    "subclass": lambda _: X.view(Subclass),
    "unmasked masked array": lambda _: np.ma.masked_array(X),  # type: ignore[no-untyped-call]
    "float64": lambda _: X.astype(np.float64),
    "lists": lambda _: X.tolist(),
    "memoryview": lambda _: memoryview(X),
    "field of a record": lambda _: np.rec.fromarrays([X], names="a").a,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("way", SAME)
def test_the_same_numbers_give_the_same_bits(way: str, tmp_path: Path) -> None:
    x = SAME[way](tmp_path)
    found = mxspec.quantize(x, "mxfp4")
    assert found == T
    assert type(found.codes) is np.ndarray
    assert found.codes.flags.writeable
    assert_same(mxspec.encode(x, "e4m3"), mxspec.encode(X, "e4m3"))
    assert mxspec.tensor_scale(x) == mxspec.tensor_scale(X)


MASKED = np.ma.masked_array(X, mask=X > 3)  # type: ignore[no-untyped-call]
CODES = T.codes.copy()


def written() -> containers.Checkpoint:
    """A checkpoint with one tensor."""
    path = Path(tempfile.mkdtemp()) / "m.safetensors"
    containers.write(path, {"a": N}, "modelopt", convert=True)
    return containers.open_checkpoint(path, formats="nvfp4")


#: Calls that are refused, with the error and parts of its message.
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], tuple[str, ...]]] = {
    "masked numbers": (lambda: mxspec.quantize(MASKED, "mxfp4"), ValueError, ("x is a masked array with 32 masked", "filled(0)")),
    "masked numbers, encode": (lambda: mxspec.encode(MASKED, "e2m1"), ValueError, ("masked array",)),
    "masked numbers, tensor scale": (lambda: mxspec.tensor_scale(MASKED), ValueError, ("masked array",)),
    "masked codes": (
        lambda: mxspec.decode(np.ma.masked_array(CODES, mask=CODES > 3), "e2m1"),  # type: ignore[no-untyped-call]
        ValueError, ("codes is a masked array",),
    ),
    "masked codes, pack": (
        lambda: layouts.pack(np.ma.masked_array(CODES, mask=CODES > 3), "nibble-low"),  # type: ignore[no-untyped-call]
        ValueError, ("codes is a masked array",),
    ),
    "lists of unequal lengths": (lambda: mxspec.quantize([[1.0], [1.0, 2.0]], "mxfp4"), ValueError, ("x is nested lists of unequal",)),
    "array that is none": (lambda: mxspec.encode(Broken(), "e2m1"), TypeError, ("x is of type Broken", "no device")),
    "a BlockTensor as numbers": (lambda: mxspec.quantize(T, "mxfp4"), TypeError, ("x is of type BlockTensor", ".dequantize()")),
    "a dict": (lambda: mxspec.quantize({1: 2}, "mxfp4"), TypeError, ("x has dtype object (a dict)",)),
    "axis True": (lambda: mxspec.quantize(X, "mxfp4", axis=True), TypeError, ("axis is of type bool; pass an integer",)),
    "axis True of codes": (lambda: mxspec.dequantize(T.codes, T.scales, "mxfp4", axis=True), TypeError, ("axis is of type bool",)),
    "block as an array": (lambda: mxspec.quantize(X, "mxfp4", block=np.array([1, 32])), TypeError, ("is not a block shape of mxfp4; allowed are (1, 32), as tuples",)),  # type: ignore[arg-type]
    "format as a list": (lambda: mxspec.quantize(X, ["mxfp4"]), TypeError, ("unknown block format ['mxfp4']",)),  # type: ignore[arg-type]
    "element as a list": (lambda: mxspec.encode(X, ["e2m1"]), TypeError, ("unknown scalar format ['e2m1']",)),  # type: ignore[arg-type]
    "profile as a list": (lambda: mxspec.quantize(X, "mxfp4", profile=["mx-floor"]), TypeError, ("unknown profile ['mx-floor']",)),  # type: ignore[arg-type]
    "layout as a list": (lambda: layouts.get_layout(["nibble-low"]), TypeError, ("unknown layout ['nibble-low']",)),  # type: ignore[arg-type]
    "format as a number": (lambda: mxspec.quantize(X, 5), TypeError, ("unknown block format 5; known are mxfp4",)),  # type: ignore[arg-type]
    "profile as a number": (lambda: mxspec.quantize(X, "mxfp4", profile=5), TypeError, ("unknown profile 5; those of mxfp4 are",)),  # type: ignore[arg-type]
    "rounding as a number": (lambda: mxspec.encode(X, "e2m1", rounding=5), TypeError, ("5 is not a valid Rounding; allowed are rne",)),  # type: ignore[arg-type]
    "words as a number": (lambda: mxspec.quantize(X, "mxfp4", random_bits=5), TypeError, ("random_bits has dtype int64; pass unsigned integers",)),
    "bits of an affine format as a fraction": (lambda: affine.quantize(X, bits=3.5), TypeError, ("bits is of type float; pass an integer",)),  # type: ignore[arg-type]
    "accumulator as a list": (lambda: dot.get_accumulator(["float32"]), TypeError, ("unknown accumulator ['float32']",)),  # type: ignore[arg-type]
    "product of arrays": (lambda: dot.matmul(X, X), TypeError, ("a is of type ndarray; pass a BlockTensor, or what block_factor",)),  # type: ignore[arg-type]
    "product along axis 0": (lambda: dot.matmul(mxspec.quantize(X.T.copy(), "mxfp4", axis=0), T), ValueError, ("blocks lie along axis 0 of 2",)),
    "product of tensor scales that do not decode": (lambda: dot.matmul(N, N), ValueError, ("the tensor scale is of kind amax", "convert=True")),
    "factor of a BlockTensor and its scales": (lambda: dot.block_factor(T, T.scales), TypeError, ("pass nothing else but convert",)),
    "format in capitals": (lambda: mxspec.get_block("MXFP4"), ValueError, ("did you mean mxfp4?",)),
    "element for a format": (lambda: mxspec.get_block("e2m1"), ValueError, ("e2m1 is a format of single numbers, which mxfp4 and nvfp4 hold",)),
    "format for an element": (lambda: mxspec.get_scalar("nvfp4"), ValueError, ("nvfp4 is a block format, of elements e2m1 and scales ue4m3",)),
    "layout misspelt": (lambda: layouts.get_layout("nibble_lo"), ValueError, ("did you mean nibble-low",)),
    "scales left out": (lambda: mxspec.dequantize(T.codes), TypeError, ("scales are missing", "dequantize(t)")),
    "format left out": (lambda: mxspec.dequantize(T.codes, T.scales), TypeError, ("unknown block format None",)),
    "a BlockTensor and its scales": (lambda: mxspec.dequantize(T, T.scales), TypeError, ("pass nothing else but dtype",)),
    "output None": (lambda: T.dequantize(None), TypeError, ("dtype None is not an output; allowed are float32, float16 and bfloat16",)),
    "codes as a list": (lambda: mxspec.decode([1, 2], "e2m1"), TypeError, ("codes has dtype int64", "numpy.asarray(codes, dtype=numpy.uint8)")),
    "tensor scale of nothing": (lambda: TensorScale("decode", None), TypeError, ("bits is None", "0.001")),  # type: ignore[arg-type]
    "tensor scale in words": (lambda: TensorScale("decode", "0.5"), TypeError, ("bits is '0.5', a str",)),  # type: ignore[arg-type]
    "tensor scale True": (lambda: TensorScale("decode", True), TypeError, ("bits is True, a bool",)),
    "tensor scale beyond float32": (lambda: TensorScale("decode", 1e39), ValueError, ("1e+39 is beyond float32",)),
    "tensor scale from words": (lambda: TensorScale.from_float("decode", "abc"), TypeError, ("value is 'abc', a str; pass a number",)),  # type: ignore[arg-type]
    "tensor scale from a huge integer": (lambda: TensorScale.from_float("decode", 10**400), ValueError, ("not exactly a float32",)),
    "register a name as scalar": (lambda: mxspec.register_scalar("e2m1"), TypeError, ("the format is of type str; pass an ElementFormat",)),  # type: ignore[arg-type]
    "register a block format as scalar": (lambda: mxspec.register_scalar(T.format), TypeError, ("the format is of type BlockFormat",)),  # type: ignore[arg-type]
    "register an element as block": (lambda: mxspec.register_block(mxspec.ELEMENTS["e2m1"]), TypeError, ("pass a BlockFormat",)),  # type: ignore[arg-type]
    "register a name as profile": (lambda: mxspec.register_profile("mx-floor"), TypeError, ("profile is of type str",)),  # type: ignore[arg-type]
    "unpack into an integer": (lambda: layouts.unpack(np.zeros(4, np.uint8), "nibble-low", 8), TypeError, ("shape is 8; pass a tuple",)),  # type: ignore[arg-type]
    "unpack into floats": (lambda: layouts.unpack(np.zeros(4, np.uint8), "nibble-low", (1.0, 8.0)), TypeError, ("shape is (1.0, 8.0)",)),  # type: ignore[arg-type]
    "unpack into -1": (lambda: layouts.unpack(np.zeros(4, np.uint8), "nibble-low", (-1, 8)), ValueError, ("shape (-1, 8) has a negative length",)),
    "unpack into two negatives": (lambda: layouts.unpack(np.zeros(4, np.uint8), "nibble-low", (-1, -8)), ValueError, ("negative length",)),
    "item beside the matrix": (lambda: layouts.get_layout("128x4").locate(300, 3, (300, 5)), ValueError, ("m = 300 lies outside", "0 to 299")),
    "item before the matrix": (lambda: layouts.get_layout("128x4").locate(0, -1, (300, 5)), ValueError, ("k = -1 lies outside", "0 to 4")),
    "item of a line": (lambda: layouts.get_layout("128x4").locate(0, 0, (5,)), ValueError, ("shape (5,) has 1 axes",)),
    "group of negative rows": (lambda: layouts.pack_groups(CODES, "nibble-low", [3, -1]), ValueError, ("groups of [3, -1] rows",)),
    "write a list": (lambda: containers.write("o.safetensors", [T], "modelopt"), TypeError, ("tensors is of type list; pass a mapping",)),  # type: ignore[arg-type]
    "write a BlockTensor": (lambda: containers.write("o.safetensors", T, "modelopt"), TypeError, ("tensors is of type BlockTensor",)),  # type: ignore[arg-type]
    "write an array": (lambda: containers.write("o.safetensors", {"a": X}, "modelopt"), TypeError, ("tensors['a'] is of type ndarray",)),  # type: ignore[dict-item]
    "write under a number": (lambda: containers.write("o.safetensors", {1: N}, "modelopt"), TypeError, ("tensors[1]",)),  # type: ignore[dict-item]
    "write by no convention": (lambda: containers.write("o.safetensors", {"a": N}, None), ValueError, ("unknown convention",)),  # type: ignore[arg-type]
    "write by a misspelt one": (lambda: containers.write("o.safetensors", {"a": N}, "model-opt"), ValueError, ("did you mean modelopt?",)),
    "add to a BlockTensor": (lambda: X + T, TypeError, ()),  # type: ignore[operator]
    "a BlockTensor as an array": (lambda: np.asarray(T), TypeError, ("take its .codes",)),
    "errors of other shapes": (lambda: T.sqnr(X.T), ValueError, ("x has shape (64, 2) and y (2, 64)",)),
    "same bits as an array": (lambda: T.same_bits(T.codes), TypeError, ("other is of type ndarray",)),  # type: ignore[arg-type]
    "metadata of a BlockTensor": (lambda: T.pack("torch-metadata-16"), TypeError, ("a BlockTensor has codes and scales",)),
    "packed along axis 0": (lambda: mxspec.quantize(X.T.copy(), "mxfp4", axis=0).pack("nibble-low"), ValueError, ("blocks lie along axis 0",)),
    "stochastic words that are too narrow": (lambda: mxspec.encode(X, "e4m3", rounding="sr", random_bits=np.zeros(X.shape, np.uint8)), ValueError, ("random_bits has dtype uint8", "sr_bits=8")),
    "bits of words that are not given": (lambda: mxspec.quantize(X, "mxfp4", sr_bits=8), ValueError, ("sr_bits = 8 without random_bits",)),
    "stochastic choice of a scale": (
        lambda: mxspec.quantize(X, "nvfp4", profile="fouroversix-0.1/nvfp4/mse", tensor_scale="auto", random_bits=np.zeros(X.shape, np.uint32)),
        ValueError, ("chooses between answers by their errors",),
    ),
    "padding in words": (lambda: mxspec.quantize(X, "mxfp4", pad="no"), TypeError, ("pad is of type str; pass True or False",)),  # type: ignore[arg-type]
    "converting by a number": (lambda: mxspec.quantize(X, "mxfp4", convert=1), TypeError, ("convert is of type int; pass True or False",)),  # type: ignore[arg-type]
    "sign of a signed format": (lambda: mxspec.encode(X, "e2m1", sign="bogus"), ValueError, ("sign='bogus'; allowed are",)),  # type: ignore[arg-type]
    "tensor scale of two": (lambda: TensorScale("decode", np.array([1.0, 2.0])), TypeError, ("bits is array([1., 2.])",)),  # type: ignore[arg-type]
    "tensor scale converted from words": (lambda: TensorScale("amax", 3, "junk"), TypeError, ("converted_from is 'junk'",)),  # type: ignore[arg-type]
    "profiles of no kind": (lambda: mxspec.list_profiles(kind="bogus"), ValueError, ("'bogus' is not a valid Kind",)),  # type: ignore[arg-type]
    "blocks of nothing": (lambda: mxspec.register_block(replace(T.format, name="zz", k=0, shapes=((1, 0),))), ValueError, ("which is at least 1",)),
    "a number as a name": (lambda: mxspec.register_block(replace(T.format, name=3)), ValueError, ("the name of a format is 3",)),  # type: ignore[arg-type]
    "nine bits": (lambda: mxspec.register_scalar(replace(T.format.element, name="zz", bits=9)), ValueError, ("bits = 9; give 1 to 8",)),
    "bits that are no sum": (lambda: mxspec.register_scalar(replace(T.format.element, name="zz", bits=5)), ValueError, ("(1 + 2 + 1)",)),
    "a largest code beyond the bits": (lambda: mxspec.register_scalar(replace(T.format.element, name="zz", max_code=8)), ValueError, ("max_code = 0x8",)),
    "item of a fraction": (lambda: layouts.get_layout("128x4").locate(1.5, 0, (300, 5)), TypeError, ("m is 1.5, a float",)),
    "item of a truth": (lambda: layouts.get_layout("128x4").locate(0, True, (300, 5)), TypeError, ("k is True, a bool",)),
    "mask of a negative shape": (lambda: layouts.get_layout("128x4").mask((-1, 4)), ValueError, ("negative length",)),
    "groups of fractions": (lambda: layouts.pack_groups(CODES, "nibble-low", [1.0, 1.0]), TypeError, ("groups of [1.0, 1.0] rows; pass integers",)),  # type: ignore[list-item]
    "index by an array": (lambda: T[np.array([True, False])], TypeError, ("the index of axis 0 is of type ndarray",)),
    "input scales as numbers": (lambda: containers.write("o.safetensors", {"a": N}, "modelopt", input_scales={"a": 1.0}), TypeError, ("input_scales['a'] is of type float",)),  # type: ignore[dict-item]
    "input scales as a list": (lambda: containers.write("o.safetensors", {"a": N}, "modelopt", input_scales=[1]), TypeError, ("input_scales is of type list",)),  # type: ignore[arg-type]
    "a name that is no text": (lambda: containers.write("o.safetensors", {"\ud800": N}, "modelopt"), containers.ContainerError, ("is not valid Unicode",)),
    "a checkpoint of unknown formats": (lambda: containers.open_checkpoint("o.safetensors", formats=["bogus"]), ValueError, ("unknown block format 'bogus'",)),
    "a checkpoint's item in words": (lambda: written().read("a", item="0"), TypeError, ("item is of type str; pass an integer",)),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_is_refused_in_words(call: str) -> None:
    function, error, parts = REFUSED[call]
    with pytest.raises(error) as info:
        function()
    for part in parts:
        assert part in str(info.value)
    assert not Path("o.safetensors").exists()


class TestMaking:
    """`BlockTensor` from codes and scales."""

    def test_from_codes(self) -> None:
        assert BlockTensor.from_codes(T.codes, T.scales, "mxfp4") == T
        assert BlockTensor.from_codes(N.codes, N.scales, "nvfp4", tensor_scale=N.tensor_scale) == N
        along = mxspec.quantize(X.T.copy(), "mxfp4", axis=0)
        assert BlockTensor.from_codes(along.codes, along.scales, "mxfp4", axis=-2) == along
        ragged = mxspec.quantize(X[:, :40], "mxfp4", pad=True)
        made = BlockTensor.from_codes(ragged.codes, ragged.scales, "mxfp4", shape=(2, 40))
        assert made == ragged
        assert_same(made.dequantize(), ragged.dequantize())
        tiles = mxspec.quantize(X[:, :32], "nvfp4", block=(16, 16), pad=True)
        assert BlockTensor.from_codes(tiles.codes, tiles.scales, "nvfp4", shape=(2, 32)) == tiles

    def test_names_are_not_formats(self) -> None:
        with pytest.raises(TypeError, match=r"format is of type str; .* BlockTensor\.from_codes\("):
            BlockTensor("mxfp4", "mx-floor", T.codes, T.scales, None, (2, 64), 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="profile is of type str"):
            BlockTensor(T.format, "mx-floor", T.codes, T.scales, None, (2, 64), 1)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"codes": T.codes.astype(int)}, "codes has dtype int64"),
            ({"codes": T.codes | 0x10}, "more than the 4 bits of e2m1"),
            ({"scales": T.scales[:1]}, r"scales have shape \(1, 2\); .* needs \(2, 2\)"),
            ({"scales": T.scales.astype(np.int8)}, "scales has dtype int8"),
            ({"axis": 2}, "axis = 2 is out of range"),
            ({"axis": 0}, "codes of shape"),
            ({"shape": (2, 32)}, "do not hold shape"),
            ({"shape": (2, 65)}, "do not hold shape"),
            ({"shape": (1, 64)}, "do not hold shape"),
            ({"shape": (2, 64, 1)}, "do not hold shape"),
            ({"shape": (2.0, 64)}, "pass a tuple of integers"),
            ({"shape": 128}, "pass a tuple of integers"),
            ({"tensor_scale": N.tensor_scale}, "has no tensor scale"),
            ({"tensor_scale": 1.0}, "tensor_scale is of type float"),
            ({"profile": mxspec.get_profile("nvfp4-te", "nvfp4")}, "does not cover mxfp4"),
        ],
    )
    def test_what_does_not_fit(self, change: dict[str, Any], words: str) -> None:
        facts = {
            "format": T.format, "profile": T.profile, "codes": T.codes, "scales": T.scales, "tensor_scale": None,
            "shape": T.shape, "axis": 1,
        }  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=words):
            BlockTensor(**{**facts, **change})

    def test_the_axis_is_a_python_integer(self) -> None:
        assert type(mxspec.quantize(X, "mxfp4", axis=np.int8(1)).axis) is int  # type: ignore[arg-type]
        assert BlockTensor(T.format, T.profile, T.codes, T.scales, None, (2, 64), -1) == T

    def test_codes_in_dtypes_of_their_own(self) -> None:
        t = mxspec.quantize(X, "mxfp8_e4m3")
        typed = (t.codes.view(ml_dtypes.float8_e4m3fn), t.scales.view(ml_dtypes.float8_e8m0fnu))
        assert BlockTensor.from_codes(*typed, "mxfp8_e4m3") == t
        with pytest.raises(TypeError, match="codes has dtype float8_e5m2"):
            BlockTensor.from_codes(t.codes.view(ml_dtypes.float8_e5m2), t.scales, "mxfp8_e4m3")


class TestUsing:
    """What a `BlockTensor` answers."""

    def test_short_texts(self) -> None:
        assert repr(T) == "<BlockTensor mxfp4 by mx-floor, shape (2, 64), blocks of 32 along axis 1>"
        assert "tensor scale amax 0x40c00000 = 6.0" in repr(N)
        assert max(len(repr(t)) for t in (T, N)) < 150

    def test_bytes(self) -> None:
        assert (T.nbytes, T.stored_nbytes) == (128 + 4, 64 + 4)
        assert N.stored_nbytes == 64 + 8 + 4

    def test_same_bits_leave_out_the_profile(self) -> None:
        other = mxspec.quantize(X, "mxfp4", profile="gfloat")
        assert other != T
        assert other.same_bits(T)
        assert not T.same_bits(N)
        changed = T.codes.copy()
        changed[0, 0] ^= 1
        assert not T.same_bits(BlockTensor.from_codes(changed, T.scales, "mxfp4"))
        bare = mxspec.quantize(X, "nvfp4")
        assert not N.same_bits(bare)

    def test_comparison_with_an_array_is_false(self) -> None:
        assert T.__eq__(T.codes) is NotImplemented
        assert (T.codes == T) is False

    def test_dequantize_takes_it(self) -> None:
        assert_same(mxspec.dequantize(N), N.dequantize())
        assert mxspec.dequantize(T, dtype="bfloat16").dtype == ml_dtypes.bfloat16

    def test_pack(self) -> None:
        assert_same(T.pack("nibble-low"), layouts.pack(T.codes, "nibble-low"))
        assert_same(N.pack("128x4"), layouts.pack(N.scales, "128x4"))
        assert_same(T.pack("ggml-mxfp4"), layouts.pack_blocks(T.codes, T.scales, "ggml-mxfp4"))
        line = mxspec.quantize(X[0], "mxfp4")
        assert_same(line.pack("nibble-low"), layouts.pack(line.codes[None], "nibble-low"))

    def test_save_and_load(self, tmp_path: Path) -> None:
        path = tmp_path / "t.npz"
        for t in (T, N, mxspec.quantize(X[:, :40].T.copy(), "mxfp8_e5m2", axis=0, profile="mx-rceil", pad=True)):
            t.save(path)
            assert BlockTensor.load(path) == t
        converted = mxspec.quantize(X, "nvfp4", tensor_scale=TensorScale("decode", 0.01), convert=True)
        converted.save(str(path))
        assert BlockTensor.load(path).tensor_scale == converted.tensor_scale
        assert [p.name for p in tmp_path.iterdir()] == ["t.npz"]

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        path = tmp_path / "t.npz"
        for data in (b"", b"PK\3\4 no zip", b"words"):
            path.write_bytes(data)
            with pytest.raises(ValueError, match="is not a file of mxspec-blocktensor/1"):
                BlockTensor.load(path)
        np.savez(path, a=X)
        with pytest.raises(ValueError, match="is not a file of mxspec-blocktensor/1"):
            BlockTensor.load(path)
        with pytest.raises(OSError, match="No such file"):
            BlockTensor.load(tmp_path / "none.npz")
        with pytest.raises(OSError, match="No such file"):
            T.save(tmp_path / "no folder" / "t.npz")

    def test_sqnr(self) -> None:
        x = np.array([[3.0, 4.0] + [0.0] * 30], np.float32)
        assert mxspec.quantize(x, "mxfp4").sqnr(x) == float("inf")
        y = x.copy()
        y[0, 2] = 0.25  # becomes 0 under the scale of 4
        t = mxspec.quantize(y, "mxfp4")
        noise = float(((y - t.dequantize()) ** 2).sum())
        assert noise == 0.0625
        assert t.sqnr(y) == 10 * np.log10((25 + 0.0625) / noise)
        assert np.isnan(mxspec.quantize(x * 0, "mxfp4").sqnr(x * 0))
        measured = measure_error(np.float32([1, np.nan, np.inf, 2]), np.float32([1.5, 0, 0, 2]))
        assert (measured.elements, measured.left_out, measured.largest, measured.signal, measured.noise) == (2, 2, 0.5, 5, 0.25)

    def test_cut(self) -> None:
        x = np.linspace(-3, 3, 3 * 4 * 96, dtype=np.float32).reshape(3, 4, 96)
        t = mxspec.quantize(x, "mxfp4")
        for key in (
            1,
            -1,
            slice(1, 3),
            (slice(None), 2),
            (..., slice(32, 96)),
            (0, slice(None, None, -1)),
            (slice(2, 0, -1), 3, slice(64)),
        ):
            assert t[key] == mxspec.quantize(np.ascontiguousarray(x[key]), "mxfp4")
        assert len(t) == 3
        assert [part.shape for part in t] == [(4, 96)] * 3
        ragged = mxspec.quantize(x[..., :80], "mxfp4", pad=True)
        assert ragged[1, :, 32:] == mxspec.quantize(x[1, :, 32:80], "mxfp4", pad=True)
        along = mxspec.quantize(x.transpose(2, 0, 1).copy(), "mxfp4", axis=0)
        assert along[:, 1] == mxspec.quantize(x.transpose(2, 0, 1)[:, 1].copy(), "mxfp4", axis=0)
        for key, error in (((0, 0, 0), ValueError), ((..., slice(0, 40)), ValueError), ((..., slice(None, None, 2)), ValueError), (3, IndexError), ((0, 0, slice(None), 0), IndexError), ("a", TypeError), ([0, 1], TypeError), (True, TypeError)):  # fmt: skip
            with pytest.raises(error):
                t[key]

    def test_copies(self) -> None:
        for t in (T, N):
            assert pickle.loads(pickle.dumps(t)) == t
            assert copy.deepcopy(t) == t
            assert copy.copy(t) == t


def test_tensor_scales_as_numbers() -> None:
    assert TensorScale("decode", 0.001) == TensorScale("decode", 0x3A83126F)
    assert TensorScale("amax", np.float32(6)) == TensorScale("amax", np.float64(6)) == TensorScale("amax", 0x40C00000)
    assert TensorScale("amax", np.array(6.0)).bits == 0x40C00000  # type: ignore[arg-type]
    assert TensorScale("encode", float("inf")).bits == 0x7F800000
    assert eval(repr(N.tensor_scale), {"TensorScale": TensorScale}) == N.tensor_scale


class TestShortNames:
    """Profiles by short names; what is meant by several is refused with their names."""

    def test_one_alone_is_meant(self) -> None:
        assert mxspec.get_profile("gfloat", "mxfp4").id == "gfloat-0.5/mx"
        assert mxspec.get_profile("torchao/compiled-sm100", "mxfp4").id == "torchao-0.18/mxfp4/rceil/compiled-sm100"
        assert mxspec.get_profile("torchao/floor", "mxfp4").id == "torchao-0.18/mx/floor/eager"

    @pytest.mark.parametrize(
        ("name", "suggested"),
        [
            ("torchao", "did you mean torchao-0.18/mx/floor/eager"),
            ("mx-rcel", "did you mean mx-rceil"),
            ("MX-Floor", "did you mean mx-floor?"),
            ("floor", "did you mean mx-floor"),
            ("rceil", "did you mean mx-rceil"),
        ],
    )
    def test_several_or_none(self, name: str, suggested: str) -> None:
        with pytest.raises(ValueError, match=f"unknown profile '{name}'; those of mxfp4 are .*; {suggested}"):
            mxspec.get_profile(name, "mxfp4")

    def test_a_library_of_other_formats(self) -> None:
        with pytest.raises(ValueError, match=r"flashinfer has profiles of .*nvfp4"):
            mxspec.get_profile("flashinfer", "mxint8")


def test_profiles_from_threads() -> None:
    """The first to ask for a library's profiles may be several at once."""
    program = """
import threading
import mxspec
failed = []
start = threading.Barrier(8)
def ask():
    start.wait()
    try:
        assert mxspec.get_profile("torchao-0.18/mxfp4/rceil/eager", "mxfp4")
        assert len(mxspec.list_profiles("nvfp4")) > 20
    except Exception as error:
        failed.append(error)
threads = [threading.Thread(target=ask) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(failed)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_profiles_of_a_kind_by_its_name() -> None:
    assert mxspec.list_profiles("mxfp4", kind="normative") == mxspec.list_profiles("mxfp4", kind=Kind.NORMATIVE)
    assert len(mxspec.list_profiles("mxfp4", kind="normative")) == 4


def test_a_long_axis() -> None:
    t = mxspec.quantize(np.broadcast_to(np.float32(1), (1 << 21,)), "mxfp4")
    assert (t.codes == 6).all()
    assert (t.scales == 125).all()


class TestTorch:
    """Tensors of torch in, and out where a dtype of torch is requested. Skipped where there is no torch."""

    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    def test_in(self, torch: Any) -> None:
        x = torch.from_numpy(X)
        assert mxspec.quantize(x, "mxfp4") == T
        assert mxspec.quantize(x.clone().requires_grad_(), "mxfp4") == T
        half = X.astype(ml_dtypes.bfloat16)
        assert mxspec.quantize(x.bfloat16(), "mxfp4") == mxspec.quantize(half, "mxfp4")
        assert mxspec.quantize(x.t().bfloat16().t()[:, ::2], "mxfp4") == mxspec.quantize(half[:, ::2].copy(), "mxfp4")
        assert mxspec.tensor_scale(x.bfloat16()) == mxspec.tensor_scale(half)
        assert_same(mxspec.encode(x[0, 0], "e2m1"), mxspec.encode(X[0, 0], "e2m1"))
        codes, scales = torch.from_numpy(T.codes), torch.from_numpy(T.scales)
        assert BlockTensor.from_codes(codes, scales.view(torch.float8_e8m0fnu), "mxfp4") == T
        assert TensorScale("amax", torch.tensor(6.0)).bits == 0x40C00000
        with pytest.raises(TypeError, match="x is a torch tensor of float32 on meta"):
            mxspec.quantize(x.to("meta"), "mxfp4")
        with pytest.raises(TypeError, match="sparse"):
            mxspec.quantize(x.to_sparse(), "mxfp4")
        with pytest.raises(TypeError, match="x has dtype int32"):
            mxspec.quantize(x.int(), "mxfp4")

    def test_out(self, torch: Any) -> None:
        for name in ("float32", "float16", "bfloat16"):
            found = T.dequantize(getattr(torch, name))
            assert found.dtype == getattr(torch, name)
            wanted = T.dequantize(name)
            assert bytes(found.view(torch.uint8).contiguous().numpy()) == wanted.tobytes()
        with pytest.raises(TypeError, match="dtype float64 is not an output"):
            T.dequantize(torch.float64)


class TestLikeTorch:
    """The same without torch: the few methods that are called of a tensor, in a module of that name."""

    class Tensor:
        """bfloat16 that wants a gradient, on another device."""

        dtype, device, layout = "torch.bfloat16", "cuda:0", "torch.strided"

        def __init__(self, bits: Any, steps: tuple[str, ...] = ()) -> None:
            self.bits, self.steps = bits, steps

        def __getattr__(self, name: str) -> Any:
            if name in ("detach", "cpu", "resolve_conj", "resolve_neg"):
                return lambda: type(self)(self.bits, (*self.steps, name))
            raise AttributeError(name)

        def view(self, dtype: str) -> Any:
            assert self.steps == ("detach", "cpu", "resolve_conj", "resolve_neg")
            assert dtype == "torch.int16"
            return self

        def numpy(self) -> Any:
            return self.bits

    def test_bfloat16_on_a_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = types.SimpleNamespace(Tensor=self.Tensor, int16="torch.int16")
        monkeypatch.setitem(sys.modules, "torch", module)  # type: ignore[arg-type]
        half = X.astype(ml_dtypes.bfloat16)
        assert mxspec.quantize(self.Tensor(half.view(np.int16)), "mxfp4") == mxspec.quantize(half, "mxfp4")


def test_a_checkpoint_with_bytes_that_are_no_scales(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    containers.write(path, {"a": N}, "modelopt", convert=True)
    data = bytearray(path.read_bytes())
    data[data.rindex(N.scales.tobytes())] |= 0x80
    path.write_bytes(data)
    with pytest.raises(containers.ContainerError, match=r"m\.safetensors, a: scales\[0, 0\] = .* more than the 7 bits of ue4m3"):
        containers.open_checkpoint(path).read("a")
