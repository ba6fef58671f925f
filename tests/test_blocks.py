"""Block tensors: axes, shapes, tails, strides, dtypes, 16 x 16 blocks, outputs rounded once, random bits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import exact
from mxspec.formats import BLOCKS
from mxspec.profiles import get_profile
from mxspec.reals import encode_real
from mxspec.rounding import NanPolicy, Rounding
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_vectors.inputs import quantize_inputs

from tests.support import FLOAT_TYPES, NAN, Array, Codes, ExactValues, Float32s, assert_same, float_bits, floats, reals_of, rng

FORMATS = sorted(BLOCKS)
AMAX_40 = float_bits(40)


def tensor(shape: tuple[int, ...], name: str) -> Float32s:
    """Numbers of mixed size and sign, many on quarters, some special."""
    draw = rng("tensor", name)
    size = int(np.prod(shape))
    values = [draw.choice((draw.randrange(-64, 65) / 4, draw.gauss(0, 1), draw.gauss(0, 2.0**-20), 0.0, -0.0)) for _ in range(size)]
    return np.array(values, np.float32).reshape(shape)


def row_by_row(x: Float32s, fmt: str, axis: int, **options: Any) -> tuple[Codes, Codes]:
    """Codes and scales along an axis, one line of the tensor at a time."""
    k = BLOCKS[fmt].k
    moved = np.moveaxis(x, axis, -1)
    codes = np.zeros(moved.shape, np.uint8)
    scales = np.zeros((*moved.shape[:-1], moved.shape[-1] // k), np.uint8)
    for index in np.ndindex(*moved.shape[:-1]):
        for block in range(moved.shape[-1] // k):
            part = slice(block * k, block * k + k)
            result = mxspec.quantize(np.ascontiguousarray(moved[index][part]), fmt, **options)
            codes[index][part] = result.codes
            scales[(*index, block)] = result.scales[0]
    return np.moveaxis(codes, -1, axis), np.moveaxis(scales, -1, axis)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_any_axis(fmt: str, axis: int) -> None:
    k = BLOCKS[fmt].k
    shape = [3, 2, 2]
    shape[axis] = 2 * k
    x = tensor(tuple(shape), f"axis {fmt}")
    result = mxspec.quantize(x, fmt, axis=axis)
    codes, scales = row_by_row(x, fmt, axis)
    assert_same(result.codes, codes)
    assert_same(result.scales, scales)
    assert result.axis == axis % 3
    values = result.dequantize()
    direct = mxspec.dequantize(result.codes, result.scales, fmt, axis=axis)
    assert_same(values, direct)
    lines = mxspec.dequantize(np.moveaxis(codes, axis, -1), np.moveaxis(scales, axis, -1), fmt)
    assert_same(values, np.ascontiguousarray(np.moveaxis(lines, -1, axis)))


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 3), (0, 0)])
@pytest.mark.parametrize("axis", [0, -1])
def test_empty_tensors(fmt: str, shape: tuple[int, ...], axis: int) -> None:
    if shape[axis] % BLOCKS[fmt].k:
        with pytest.raises(ValueError, match=f"k = {shape[axis]} is not a multiple"):
            mxspec.quantize(np.zeros(shape, np.float32), fmt, axis=axis)
    result = mxspec.quantize(np.zeros(shape, np.float32), fmt, axis=axis, pad=True)
    k = BLOCKS[fmt].k
    padded = list(shape)
    padded[axis] = -(-shape[axis] // k) * k
    blocks_shape = list(padded)
    blocks_shape[axis] //= k
    assert result.shape == shape
    assert result.codes.shape == tuple(padded)
    assert result.scales.shape == tuple(blocks_shape)
    assert result.codes.dtype == result.scales.dtype == np.uint8
    values = result.dequantize()
    assert (values.shape, values.dtype.name) == (shape, "float32")


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1), (7,), (2, 3, 33), (1, 31), (2, 47)])
def test_ragged_tails(fmt: str, shape: tuple[int, ...]) -> None:
    """An error by default; padded with zeros on request, which do not touch the rest."""
    x = tensor(shape, f"ragged {fmt}") + np.float32(0.25)
    k = BLOCKS[fmt].k
    length = shape[-1]
    whole = -(-length // k) * k
    message = f"{length} is not a multiple of the {k}-element block of {fmt}; pad axis {len(shape) - 1} to {whole}"
    with pytest.raises(ValueError, match=f"k = {message} or pass pad=True"):
        mxspec.quantize(x, fmt)
    result = mxspec.quantize(x, fmt, pad=True)
    assert result.shape == shape
    assert result.codes.shape == (*shape[:-1], whole)
    assert result.scales.shape == (*shape[:-1], whole // k)
    assert not result.codes[..., length:].any()
    by_hand = np.zeros((*shape[:-1], whole), np.float32)
    by_hand[..., :length] = x
    unpadded = mxspec.quantize(by_hand, fmt)
    assert_same(result.codes, unpadded.codes)
    assert_same(result.scales, unpadded.scales)
    values = result.dequantize()
    assert values.shape == shape
    assert_same(values, np.ascontiguousarray(unpadded.dequantize()[..., :length]))


@pytest.mark.parametrize("fmt", FORMATS)
def test_strides(fmt: str) -> None:
    k = BLOCKS[fmt].k
    base = tensor((6, 4 * k), f"strides {fmt}")
    views = {
        "reversed": base[:, ::-1],
        "every other": base[::2, ::2],
        "Fortran": np.asfortranarray(base),
        "broadcast": np.broadcast_to(base[:1], (3, 4 * k)),
        "swapped": base.reshape(6, k, 4).transpose(2, 0, 1),
    }
    for name, view in views.items():
        got, expected = mxspec.quantize(view, fmt), mxspec.quantize(np.array(view, order="C"), fmt)
        assert_same(got.codes, expected.codes, lambda i: name)  # noqa: B023
        assert_same(got.scales, expected.scales, lambda i: name)  # noqa: B023
        codes = np.asfortranarray(got.codes)
        scales = np.asfortranarray(got.scales)
        assert_same(mxspec.dequantize(codes, scales, fmt), np.array(expected.dequantize(), order="C"))


def test_the_input_is_left_alone() -> None:
    x = tensor((2, 32), "alone")
    x.flags.writeable = False
    before = x.tobytes()
    result = mxspec.quantize(x, "mxfp8_e4m3")
    codes = result.codes.tobytes()
    result.dequantize()
    assert (x.tobytes(), result.codes.tobytes()) == (before, codes)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_input_dtypes(fmt: str, kind: str) -> None:
    """A 16-bit or float64 tensor is its values: the codes of the same values in float32."""
    dtype = np.dtype(np.float64) if kind == "float64" else FLOAT_TYPES[kind][0]
    cases = [c for c in quantize_inputs(fmt) if len(c.bits) == 1 and len(c.bits[0]) == BLOCKS[fmt].k]
    sample = rng("dtypes", fmt, kind).sample(cases, 120)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        x: Array = np.array([c.bits[0] for c in sample], np.uint32).view(np.float32).astype(dtype)
        wide = x.astype(np.float32)
    got, expected = mxspec.quantize(x, fmt), mxspec.quantize(wide, fmt)
    assert_same(got.codes, expected.codes)
    assert_same(got.scales, expected.scales)
    if fmt == "nvfp4":
        scale = TensorScale.from_float("amax", 40)
        assert_same(mxspec.quantize(x, fmt, tensor_scale=scale).codes, mxspec.quantize(wide, fmt, tensor_scale=scale).codes)


@pytest.mark.parametrize("fmt", FORMATS)
def test_fields(fmt: str) -> None:
    block = BLOCKS[fmt]
    x = tensor((3, 2 * block.k), f"fields {fmt}")
    result = mxspec.quantize(x, fmt)
    assert isinstance(result, mxspec.BlockTensor)
    assert result.format is block
    assert result.profile is mxspec.default_profile(fmt)
    assert (result.codes.dtype.name, result.codes.shape) == ("uint8", (3, 2 * block.k))
    assert (result.scales.dtype.name, result.scales.shape) == ("uint8", (3, 2))
    assert result.tensor_scale is None
    assert (result.shape, result.axis) == ((3, 2 * block.k), 1)
    assert result.codes.max() < block.element.code_count
    assert mxspec.quantize(x, block, profile=get_profile(None, fmt)).profile is result.profile
    with pytest.raises(AttributeError):
        setattr(result, "codes", x)  # noqa: B010  # mypy would refuse the assignment


@pytest.mark.parametrize("kind", FLOAT_TYPES)
@pytest.mark.parametrize("fmt", FORMATS)
def test_outputs_are_rounded_once(fmt: str, kind: str) -> None:
    """Every code under bytes at both ends of the output's range, against the rational product."""
    block = BLOCKS[fmt]
    dtype, fmt_out, _ = FLOAT_TYPES[kind]
    k = block.k
    every = np.arange(block.element.code_count, dtype=np.uint8)
    codes = np.resize(every, -(-len(every) // k) * k).reshape(-1, k)
    if block.has_tensor_scale:
        bytes_ = [*range(0, 128, 5), 1, 126, 127]
    else:
        low, high = 127 + fmt_out.emax - 15, 127 + 1 - fmt_out.bias - fmt_out.mantissa_bits
        step = 1 if block.element.bits < 8 else 4
        near = [*range(low, low + 20, step), *range(high - 12, high + 14, step), 0, 1, 126, 127, 253, 254, 255]
        bytes_ = sorted({min(max(b, 0), 255) for b in near})
    tiled = np.tile(codes, (len(bytes_), 1))
    scales = np.repeat(np.array(bytes_, np.uint8), len(codes))[:, None]
    profile = mxspec.default_profile(fmt)
    got = mxspec.dequantize(tiled, scales, fmt, dtype=dtype)
    assert_same(got, ExactValues(fmt, profile, None).bits(tiled, scales, kind))
    finite = np.isfinite(got.astype(np.float32))
    assert finite.any()


@pytest.mark.parametrize("name", ["nvfp4-te", "nvfp4-paper"])
def test_two_level_outputs_follow_the_order_of_multiplication(name: str) -> None:
    """float32 products as the profile orders them, and then one rounding to the output."""
    profile = get_profile(name, "nvfp4")
    scales = np.array([*range(0, 126, 6), 1, 7, 8, 0x7E], np.uint8)[:, None]
    codes = np.tile(np.arange(16, dtype=np.uint8), (len(scales), 1))
    for amax in (AMAX_40, 0x3A83126F, 0x00800000, 0x7F7FFFFF):
        scale = derive_tensor_scale(amax, profile)
        values = ExactValues("nvfp4", profile, scale)
        for kind, (dtype, _, _) in FLOAT_TYPES.items():
            got = mxspec.dequantize(codes, scales, "nvfp4", profile=profile, tensor_scale=scale, dtype=dtype)
            assert_same(got, values.bits(codes, scales, kind))


def test_nan_outputs_are_canonical() -> None:
    x = np.zeros(32, np.float32)
    x[3] = floats([0xFFC00001])[0]
    result = mxspec.quantize(x, "mxfp4")
    for kind, (dtype, fmt, unsigned) in FLOAT_TYPES.items():
        assert set(result.dequantize(dtype).view(unsigned).tolist()) == {fmt.nan_code}, kind


def exact_tile(x: Float32s, profile_name: str, scale: TensorScale | None) -> tuple[Codes, Codes]:
    """A [16 n, 16 m] matrix by the exact model: each 16 x 16 tile's rows share the tile's maximum."""
    profile = get_profile(profile_name, "nvfp4")
    codes, scales = np.zeros(x.shape, np.uint8), np.zeros((x.shape[0], x.shape[1] // 16), np.uint8)
    for top in range(0, x.shape[0], 16):
        for left in range(0, x.shape[1], 16):
            tile = x[top : top + 16, left : left + 16]
            amax = exact.find_amax(reals_of(tile), profile.amax_nan)
            for row in range(16):
                block = exact.quantize_block(
                    reals_of(tile[row]), "nvfp4", profile=profile, amax=amax, tensor_scale=None if scale is None else scale.real
                )
                codes[top + row, left : left + 16] = block.codes
                scales[top + row, left // 16] = block.scale_code
    return codes, scales


@pytest.mark.parametrize("name", ["nvfp4-te", "nvfp4-paper", "te-2.14/nvfp4/kernel"])
@pytest.mark.parametrize("two_level", [False, True])
def test_tiles(name: str, two_level: bool) -> None:
    """16 x 16 blocks: one byte for 16 rows, stored in each of them."""
    x = tensor((32, 32), f"tiles {name}")
    x[3, 4] = np.nan
    x[20, 20] = 100
    scale = derive_tensor_scale(AMAX_40, get_profile(name, "nvfp4")) if two_level else None
    result = mxspec.quantize(x, "nvfp4", profile=name, block=(16, 16), tensor_scale=scale)
    codes, scales = exact_tile(x, name, scale)
    assert_same(result.codes, codes)
    assert_same(result.scales, scales)
    assert (result.scales[:16] == result.scales[0]).all()
    assert (result.scales[16:] == result.scales[16]).all()
    assert result.dequantize().shape == (32, 32)


def test_tiles_along_the_other_axis_and_in_batches() -> None:
    """Rows of a tile run along the axis before `axis`, after it where `axis` is first."""
    x = tensor((3, 32, 16), "batches")
    last = mxspec.quantize(x, "nvfp4", block=(16, 16))
    for index in range(3):
        assert_same(np.ascontiguousarray(last.codes[index]), exact_tile(x[index], "nvfp4-te", None)[0])
    middle = mxspec.quantize(x.transpose(0, 2, 1), "nvfp4", block=(16, 16), axis=2)
    assert middle.codes.shape == (3, 16, 32)
    first = mxspec.quantize(x[0], "nvfp4", block=(16, 16), axis=0)
    codes, scales = exact_tile(np.ascontiguousarray(x[0].T), "nvfp4-te", None)
    assert_same(first.codes, np.ascontiguousarray(codes.T))
    assert_same(first.scales, np.ascontiguousarray(scales.T))


def test_ragged_tiles() -> None:
    x = tensor((5, 20), "ragged tiles")
    with pytest.raises(ValueError, match="k = 20 is not a multiple of the 16-element block of nvfp4; pad axis 1 to 32"):
        mxspec.quantize(x, "nvfp4", block=(16, 16))
    with pytest.raises(ValueError, match="k = 5 is not a multiple of the 16-element block of nvfp4; pad axis 0 to 16"):
        mxspec.quantize(x[:, :16], "nvfp4", block=(16, 16))
    result = mxspec.quantize(x, "nvfp4", block=(16, 16), pad=True)
    whole = np.zeros((16, 32), np.float32)
    whole[:5, :20] = x
    codes, scales = exact_tile(whole, "nvfp4-te", None)
    assert_same(result.codes, codes)
    assert_same(result.scales, scales)
    assert result.shape == (5, 20)
    assert result.dequantize().shape == (5, 20)


def test_many_blocks_equal_few() -> None:
    """More blocks than one chunk of the array code: every block as if alone, at the seams too."""
    x = np.tile(tensor((257, 32), "many"), (65, 1))
    x[[8191, 8192, 16383, 16384]] = tensor((4, 32), "seams") * np.float32(1000)
    for name in ("mx-floor", "torchao-0.18/mx/floor/eager", "gguf-0.19/mxfp4"):
        whole = mxspec.quantize(x, "mxfp4", profile=name)
        values = whole.dequantize()
        for start, end in pairwise((0, 1, 4000, 8191, 8193, 16383, 16385, len(x))):
            part = mxspec.quantize(x[start:end], "mxfp4", profile=name)
            assert_same(np.ascontiguousarray(whole.codes[start:end]), part.codes)
            assert_same(np.ascontiguousarray(whole.scales[start:end]), part.scales)
            assert_same(np.ascontiguousarray(values[start:end]), part.dequantize())


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("fmt", FORMATS)
def test_random_bits(fmt: str, bits: int) -> None:
    """Scales as ever; elements by the integer rule on the scaled value, whatever the profile's rounding."""
    block = BLOCKS[fmt]
    profile = mxspec.default_profile(fmt)
    draw = rng("random bits", fmt, bits)
    cases = [c for c in quantize_inputs(fmt) if len(c.bits) == 1 and len(c.bits[0]) == block.k and c.topic != "nan"]
    x = np.array([c.bits[0] for c in draw.sample(cases, 24)], np.uint32).view(np.float32)
    words = np.array([draw.choice((0, 2**bits - 1, draw.randrange(2**bits))) for _ in range(x.size)], np.uint32)
    words = words.reshape(x.shape)
    result = mxspec.quantize(x, fmt, random_bits=words, sr_bits=bits)
    deterministic = mxspec.quantize(x, fmt)
    assert_same(result.scales, deterministic.scales)
    for row, row_words, codes in zip(x, words, result.codes, strict=True):
        stages = exact.quantize_block(reals_of(row), fmt, profile=profile)
        expected = [
            encode_real(s, block.element, rounding=Rounding.SR, random=int(w), random_bits=bits, nan=NanPolicy.ZERO)
            for s, w in zip(stages.scaled, row_words, strict=True)
        ]
        assert codes.tolist() == expected


def test_random_bits_follow_their_elements() -> None:
    """Words go with their elements along any axis, in tiles and past padding."""
    x = tensor((32, 48), "words")
    draw = rng("words")
    words = np.array([draw.randrange(2**32) for _ in range(x.size)], np.uint32).reshape(x.shape)
    across = mxspec.quantize(x, "nvfp4", random_bits=words)
    down = mxspec.quantize(x.T, "nvfp4", axis=0, random_bits=words.T)
    assert_same(down.codes, np.ascontiguousarray(across.codes.T))
    for row in (0, 7, 31):
        line = mxspec.quantize(x[row], "nvfp4", random_bits=words[row])
        assert_same(np.ascontiguousarray(across.codes[row]), line.codes)
    cut = mxspec.quantize(x[:, :40], "nvfp4", random_bits=words[:, :40], pad=True)
    assert_same(np.ascontiguousarray(cut.codes[:, :32]), np.ascontiguousarray(across.codes[:, :32]))
    tiled = mxspec.quantize(x, "nvfp4", block=(16, 16), random_bits=words)
    assert_same(tiled.scales, mxspec.quantize(x, "nvfp4", block=(16, 16)).scales)
    assert not np.array_equal(across.codes, mxspec.quantize(x, "nvfp4").codes)


def test_random_bits_under_a_nan_scale() -> None:
    x = np.ones(32, np.float32)
    x[5] = floats([NAN])[0]
    result = mxspec.quantize(x, "mxfp4", random_bits=np.full(32, 2**32 - 1, np.uint32))
    assert result.scales.tolist() == [0xFF]
    assert not result.codes.any()
