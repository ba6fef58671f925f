"""Sparse tensors: scales in dense K, exact numbers, the linear form, torch's form, rules of pruning, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import mxspec
from mxspec import affine, sparsity
from mxspec.elements import decode_table
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec.sparsity import KEPT, RULES, SPARSE_FORMATS, GroupScales, SparseTensor, Sparsity
from mxspec.sparsity.kinds import FLOATS

RNG = np.random.default_rng(4)
GROUPS = np.array(list(product(range(16), repeat=4)), np.uint8)


def u8(values: list[list[int]]) -> np.ndarray:
    return np.array(values, np.uint8)


def f32(values: list[list[float]]) -> np.ndarray:
    return np.array(values, np.float32)


E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def number(code: int, kind: str) -> Fraction:
    if kind == "int4":
        return Fraction(code - 16 if code > 7 else code)
    return Fraction(float(decode_table(ELEMENTS[kind])[code]))


# Blocks and groups.


@pytest.mark.parametrize(
    ("fmt", "pattern"), [(f, p) for f, b in BLOCKS.items() for p in Sparsity if p is Sparsity.TWO_OF_FOUR or b.element.bits == 4]
)
def test_a_pruned_block_tensor_is_the_dense_one_with_zeros(fmt: str, pattern: Sparsity) -> None:
    block = BLOCKS[fmt]
    x = RNG.standard_normal((3, 4 * block.k)).astype(np.float32)
    dense = mxspec.quantize(x, fmt, tensor_scale="auto" if block.has_tensor_scale else None)
    t = SparseTensor.from_blocks(dense, sparsity=pattern)
    assert t.shape == x.shape
    pruned = sparsity.prune(dense.codes, kind=block.element.name, sparsity=pattern)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        wanted = mxspec.dequantize(pruned, dense.scales, fmt, profile=dense.profile, tensor_scale=dense.tensor_scale, dtype=dtype)
        assert t.dequantize(dtype).tobytes() == wanted.tobytes()
    assert (t.decompress() == pruned).all()
    assert t.mask.reshape(-1, 4).sum(axis=-1).max() <= (4 if pattern is Sparsity.PAIRS else 2)


@pytest.mark.parametrize("group", [4, 12, 32, 96])
@pytest.mark.parametrize("kind", ["e2m1", "int4", "e4m3"])
def test_group_scales_lie_in_dense_k(group: int, kind: str) -> None:
    """Position by position, in rationals: the scale is that of k // G of the dense position."""
    limit = 0x7F if kind == "e4m3" else 16
    codes = RNG.integers(0, limit, (2, 96)).astype(np.uint8)
    scales = RNG.standard_normal((2, 96 // group)).astype(np.float16)
    t = SparseTensor.from_dense(codes, kind, scales=GroupScales(group, scales))
    got = t.dequantize()
    for m, k in np.ndindex(got.shape):
        g, place = k // 4, k % 4
        kept = KEPT[int(t.metadata[m, g])]
        q = number(int(t.kept[m, 2 * g + kept.index(place)]), kind) if place in kept else Fraction(0)
        exact = q * Fraction(float(scales[m, k // group]))
        assert Fraction(float(got[m, k])) == exact, (m, k)
    assert t.same_numbers(SparseTensor(t.kept, t.metadata, kind, scales=GroupScales(group, scales)))


@pytest.mark.parametrize("affine", ["zeros", "biases"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_affine_numbers_are_exact_and_rounded_once(affine: str, dtype: type) -> None:
    codes = RNG.integers(0, 16, (4, 64)).astype(np.uint8)
    scales = np.exp2(RNG.uniform(-20, 3, (4, 4))).astype(np.float32)
    zeros, biases = RNG.integers(0, 16, (4, 4)), RNG.standard_normal((4, 4)) * 2.0 ** RNG.integers(-40, 9, (4, 4))
    part = zeros if affine == "zeros" else biases.astype(np.float32)
    given = GroupScales(16, scales, zeros=part) if affine == "zeros" else GroupScales(16, scales, biases=part)
    t = SparseTensor.from_dense(codes, "uint8", scales=given)
    got, mask = t.dequantize(dtype), t.mask
    for m, k in np.ndindex(got.shape):
        s, p, q = Fraction(float(scales[m, k // 16])), Fraction(float(part[m, k // 16])), int(codes[m, k])
        exact = ((q - p) * s if affine == "zeros" else q * s + p) if mask[m, k] else Fraction(0)
        assert Fraction(float(got[m, k])) == round_fraction(exact, dtype), (m, k)


def round_fraction(exact: Fraction, dtype: type) -> Fraction:
    """To nearest, ties to even, by trying the neighbours of a first guess."""
    guess: np.ndarray = np.asarray(float(exact), np.float64).astype(dtype)
    bits = int(guess.view(np.uint32 if guess.dtype.itemsize == 4 else np.uint16))
    near = [b for b in (bits - 1, bits, bits + 1) if b >= 0]
    kind = np.uint32 if guess.dtype.itemsize == 4 else np.uint16
    values = [(b, Fraction(float(np.array(b, kind).view(guess.dtype)))) for b in near]
    return min(values, key=lambda v: (abs(v[1] - exact), v[0] & 1))[1]


def test_a_dropped_affine_code_is_zero_and_no_bias() -> None:
    given = GroupScales(4, f32([[2]]), biases=f32([[-5]]))
    t = SparseTensor.from_dense(u8([[0, 3, 9, 2]]), "uint8", scales=given)  # numbers -5, 1, 13, -1
    assert t.dequantize().tolist() == [[-5, 0, 13, 0]]


@pytest.mark.parametrize("fmt", ["int4-g64-bias-float16", "int4-g32-bias-bfloat16", "int4-g128-zero-float16", "int8-g64-bias-float32"])
def test_a_pruned_affine_tensor_keeps_its_numbers(fmt: str) -> None:
    x = RNG.standard_normal((3, 256)).astype(np.float32)
    given = affine.get_affine(fmt)
    dense = affine.quantize(x, bits=given.bits, group=given.group, offset=given.offset, scale_dtype=given.dtype)
    t = SparseTensor.from_affine(dense)
    for dtype in ("float32", "float16"):
        assert (t.dequantize(dtype) == np.where(t.mask, dense.dequantize(dtype), 0)).all()
    numbers = np.abs(dense.dequantize()).reshape(-1, 4)
    kept, dropped = (np.where(m, numbers, fill) for m, fill in ((t.mask.reshape(-1, 4), np.inf), (~t.mask.reshape(-1, 4), 0)))
    assert (kept.min(axis=-1) >= dropped.max(axis=-1)).all()


def test_scales_reach_dropped_positions_as_in_the_dense_tensor() -> None:
    """A NaN scale makes its group NaN; zeros under a negative scale are negative."""
    codes, scales = u8([[7, 0, 0, 0, 1, 2, 3, 4]]), f32([[np.nan, -1]])
    got = SparseTensor.from_dense(codes, scales=GroupScales(4, scales)).dequantize()
    assert np.isnan(got[0, :4]).all()
    assert np.signbit(got[0, 4:]).all()
    assert got[0, 4:].tolist() == [-0.0, -0.0, -1.5, -2]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_plain_numbers(dtype: str) -> None:
    x = RNG.standard_normal((5, 32)).astype(FLOATS[dtype])
    t = SparseTensor.from_dense(x, dtype)
    wanted = x.astype(np.float64).reshape(-1, 4)
    for row in wanted:
        row[np.argsort(-np.abs(row), kind="stable")[2:]] = 0  # of equal ones the first stay
    assert (t.dequantize().reshape(-1, 4) == wanted).all()


@given(st.integers(0, 2**32 - 1))
def test_numbers_do_not_depend_on_the_metadata(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = sparsity.prune(rng.integers(0, 16, (2, 32)).astype(np.uint8) * rng.integers(0, 2, (2, 32)).astype(np.uint8))
    one = SparseTensor.from_dense(dense)
    nibbles = one.metadata.copy()
    for m, g in np.ndindex(nibbles.shape):
        full = set(np.flatnonzero(dense[m, 4 * g : 4 * g + 4] & 7).tolist())
        nibbles[m, g] = rng.choice([n for n, kept in KEPT.items() if full <= set(kept)])
    other = SparseTensor(sparsity.take(dense, nibbles), nibbles, "e2m1")
    assert one.same_numbers(other)


# Rules.


def test_the_largest_by_brute_force() -> None:
    for kind in ("e2m1", "int4"):
        legal = sparsity.find_largest(GROUPS, kind=kind)[:, 0]
        size = [abs(number(c, kind)) for c in range(16)]
        for group, mask in zip(GROUPS[::7].tolist(), legal[::7].tolist(), strict=True):
            sums = [size[group[a]] + size[group[b]] for a, b in KEPT.values()]
            assert mask == sum((s == max(sums)) << i for i, s in enumerate(sums))


def test_every_rule_that_keeps_the_largest_does() -> None:
    order = list(KEPT)
    for name, rule in RULES.items():
        nibbles = sparsity.choose_kept(GROUPS, rule=name)[:, 0]
        legal = sparsity.find_largest(GROUPS)[:, 0]
        right = np.array([mask >> order.index(n) & 1 for mask, n in zip(legal.tolist(), nibbles.tolist(), strict=True)])
        assert right.all() == rule.keeps_largest, name


def test_rules_decide_ties_as_they_say() -> None:
    threes = np.full((1, 4), 5, np.uint8)
    found = {name: int(sparsity.choose_kept(threes, rule=name)[0, 0]) for name in RULES}
    assert found == {
        "lower": 4, "higher": 14, "lower-squares": 4, "lower-max": 4, "metal-marlin/procedure": 14, "torch-2.13/from-dense": 4
    }  # fmt: skip
    # Negative codes are the larger numbers: 6 is dropped, -0 and -0.5 are kept.
    assert sparsity.prune(u8([[7, 8, 9, 1]]), rule="metal-marlin/procedure").tolist() == [[0, 8, 9, 0]]


def test_norms_of_pairs_differ() -> None:
    """1.5 + 1.5 against 2 + 0 against 1 + 1.5: sum, squares and maximum choose differently."""
    codes = u8([[3, 3, 4, 0, 5, 5, 2, 3]])
    found = {norm: int(sparsity.choose_kept(codes, sparsity="4:8", rule=norm)[0, 0]) for norm in ("lower", "lower-squares", "lower-max")}
    assert KEPT[found["lower"]] == (0, 2)
    assert KEPT[found["lower-max"]] == (1, 2)
    assert len({*found.values()}) > 1
    legal = int(sparsity.find_largest(codes, sparsity="4:8")[0, 0])
    assert all(legal >> list(KEPT).index(n) & 1 for n in found.values())


def test_magnitudes_of_eight_bit_codes_and_nan() -> None:
    codes = u8([[0x38, 0xB9, 0x80, 0x01]])  # 1, -1.125, -0, 2^-9
    assert sparsity.prune(codes, kind="e4m3").tolist() == [[0x38, 0xB9, 0, 0]]
    with pytest.raises(ValueError, match=r"codes hold a NaN at \(0, 0, 1, 0\), which has no magnitude"):
        sparsity.prune(u8([[0, 0x7F, 0, 0]]), kind="e4m3")


@pytest.mark.parametrize("shape", [(0, 8), (2, 0), (0, 0), (3, 0, 8)])
@pytest.mark.parametrize("pattern", list(Sparsity))
def test_nothing_is_sparse(shape: tuple[int, ...], pattern: Sparsity) -> None:
    kept, metadata = sparsity.compress(sparsity.prune(np.zeros(shape, np.uint8), sparsity=pattern), sparsity=pattern)
    assert kept.shape == (*shape[:-1], shape[-1] // 2)
    assert sparsity.decompress(kept, metadata, sparsity=pattern).shape == shape
    assert SparseTensor(kept, metadata, "e2m1", pattern).dequantize().shape == shape


def test_words_of_nothing() -> None:
    for shape in ((0, 3), (32, 0)):
        values, metadata = sparsity.pack_sparse(np.zeros(shape, np.uint8))
        assert (values.shape, metadata.shape) == ((shape[0] // 16, shape[1]), (shape[0] // 32, shape[1]))
        assert sparsity.unpack_sparse(values, metadata).shape == shape


def test_codes_of_their_own_dtype_and_views_are_taken() -> None:
    codes = RNG.integers(0, 0x7F, (4, 16)).astype(np.uint8)
    native = codes.view(ml_dtypes.float8_e4m3fn)
    assert (sparsity.prune(native, kind="e4m3") == sparsity.prune(codes, kind="e4m3")).all()
    wide = np.zeros((4, 32), np.uint8)
    wide[:, ::2] = codes & 15
    assert (sparsity.prune(wide[:, ::2]) == sparsity.prune(codes & 15)).all()
    wide[:, ::2].flags.writeable = False
    before = wide.copy()
    sparsity.compress(sparsity.prune(wide[::-1, ::2]))
    assert (wide == before).all()
    masked = np.ma.MaskedArray(codes & 15, codes > 200)
    assert (sparsity.prune(masked) == sparsity.prune(codes & 15)).all()


# The linear form.


def loops(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Words by plain loops over the document's text, its mistakes put right."""
    k, n = codes.shape
    values, metadata = np.zeros((k // 16, n), np.uint32), np.zeros((k // 32, n), np.uint32)
    for column in range(n):
        for block in range(k // 4):
            group = codes[4 * block : 4 * block + 4, column]
            first, second = sorted(sorted(range(4), key=lambda i: (-E2M1[group[i] & 7], i))[:2])
            values[block // 4, column] |= np.uint32(int(group[first]) | int(group[second]) << 4) << np.uint32(block % 4 * 8)
            metadata[block // 8, column] |= np.uint32(second << 2 | first) << np.uint32(block % 8 * 4)
    return values, metadata


def test_pack_sparse_is_the_documents_procedure_put_right() -> None:
    codes = RNG.integers(0, 16, (96, 5)).astype(np.uint8)
    values, metadata = sparsity.pack_sparse(codes, 32)
    assert values.dtype == metadata.dtype == np.uint32
    assert (values.shape, metadata.shape) == ((6, 5), (3, 5))
    for mine, theirs in zip((values, metadata), loops(codes), strict=True):
        assert (mine == theirs).all()
    assert (sparsity.unpack_sparse(values, metadata) == sparsity.prune(codes.T).T).all()


def test_the_documents_example() -> None:
    """Section 4.1: [a, 0, b, 0] gives the nibble 8 and the values a, b; and back."""
    codes = np.zeros((32, 1), np.uint8)
    codes[[0, 2], 0] = [3, 12]
    values, metadata = sparsity.pack_sparse(codes)
    assert [f"{int(w):08x}" for w in values[:, 0]] == ["000000c3", "00000000"]
    assert [f"{int(w):08x}" for w in metadata[:, 0]] == ["44444448"]
    assert (sparsity.unpack_sparse(values, metadata) == codes).all()


def test_padding_gives_zeros_under_nibble_4() -> None:
    values, metadata = sparsity.pack_sparse(np.full((20, 2), 7, np.uint8), pad=True)
    assert values.tolist() == [[0x77777777] * 2, [0x77] * 2]
    assert metadata.tolist() == [[0x44444444] * 2]


def test_sizes() -> None:
    """Three quarters of the dense bytes, not 0.625; metadata are half of the values, not a quarter."""
    size = sparsity.describe_size(4096, 4096)
    assert (size.dense, size.values, size.metadata) == (8388608, 4194304, 2097152)
    assert size.ratio == Fraction(3, 4)
    assert Fraction(size.metadata, size.values) == Fraction(1, 2)
    assert sparsity.describe_size(4096, 4096, sparsity="4:8").ratio == Fraction(5, 8)
    values, metadata = sparsity.pack_sparse(np.zeros((64, 3), np.uint8))
    of_words = sparsity.describe_size(64, 3, 32)
    assert (of_words.values, of_words.metadata, of_words.scales) == (values.nbytes, metadata.nbytes, 2 * 3 * 2)
    assert of_words.ratio_with_scales == Fraction(96 * 3 // 4 + 12, 96 + 12)


# Conversion.


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8])
def test_torchs_form_there_and_back(dtype: type) -> None:
    nibbles = RNG.choice(list(KEPT), (64, 32)).astype(np.uint8)
    kept: np.ndarray = RNG.integers(-8, 8, (64, 64)).astype(dtype)
    packed, meta = sparsity.convert(kept, nibbles, to="torch")
    assert meta.dtype == (np.int32 if dtype is np.int8 else np.int16)
    assert meta.shape == ((64, 4) if dtype is np.int8 else (64, 8))
    back = sparsity.convert_from_torch(packed, meta)
    assert (back[0] == kept).all()
    assert (back[1] == nibbles).all()


@pytest.mark.parametrize("fmt", SPARSE_FORMATS.values(), ids=list(SPARSE_FORMATS))
def test_formats(fmt: sparsity.SparseFormat) -> None:
    assert fmt.name == f"{fmt.kind}-{'4to8' if fmt.sparsity is Sparsity.PAIRS else '2to4'}"
    assert sparsity.get_sparse(fmt.name) is fmt
    assert fmt.codes.bits == (4 if fmt.kind == "int4" else ELEMENTS[fmt.kind].bits)


_K, _M = np.zeros((1, 2), np.uint8), np.full((1, 1), 4, np.uint8)
REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: sparsity.pack_sparse(np.zeros((16, 1), np.uint8)), "k = 16 is not a multiple of the 32 that a word of metadata speaks of; pad K with zeros to 32"),
    (lambda: sparsity.pack_sparse(np.zeros((48, 1), np.uint8)), "k = 48 is not a multiple of the 32 .*to 64, or pass pad=True"),
    (lambda: sparsity.pack_sparse(np.zeros((32, 1), np.uint8), 6), "group = 6 is not a positive multiple of the 4 codes of a 2:4 group"),
    (lambda: sparsity.pack_sparse(np.zeros((32, 1), np.uint8), 64), "k = 32 is not a multiple of the 64 neighbours that share a scale"),
    (lambda: sparsity.pack_sparse(np.zeros((32, 1), np.uint8), 32.0), "group is of type float"),  # type: ignore[arg-type]
    (lambda: sparsity.pack_sparse(np.zeros((32, 1)), 32), "codes are float64; pass uint8"),
    (lambda: sparsity.pack_sparse(np.full((32, 1), 0x21, np.uint8)), "codes hold 0x21; allowed are 0 to 0xf"),
    (lambda: sparsity.pack_sparse(np.zeros((32, 1), np.uint8), kind="e4m3"), "the linear form holds 4-bit codes; e4m3 has 8"),
    (lambda: sparsity.pack_sparse(np.zeros(32, np.uint8)), r"pass a matrix \[K, N\]"),
    (lambda: sparsity.unpack_sparse(np.zeros((2, 3), np.uint32), np.full((1, 2), 0x44444444, np.uint32)), r"metadata of K = 32, N = 2 need values of \(2, 2\)"),
    (lambda: sparsity.unpack_sparse(np.zeros((2, 1), np.uint32), np.full((1, 1), 0x44444404, np.uint32)), r"metadata hold 0x0 at \(0, 1\)"),
    (lambda: sparsity.unpack_sparse(np.zeros((2, 1), np.uint8), np.zeros((1, 1), np.uint8)), "values are uint8; pass uint32 words"),
    (lambda: sparsity.convert(_K, _M, to="4:8"), "2:4 does not convert to 4:8 pairs: .*prune again"),
    (lambda: sparsity.convert(np.zeros((1, 4), np.uint8), _M, to="2:4", sparsity="4:8"), "4:8 pairs does not convert to 2:4"),
    (lambda: sparsity.convert(np.zeros((1, 4), np.uint8), _M, to="torch", sparsity="4:8"), "torch has no 4:8 pairs"),
    (lambda: sparsity.convert(np.zeros((1, 2), np.float32), _M, to="torch"), "float32 is 1:2 there"),
    (lambda: sparsity.convert(_K, _M, to="torch"), "m = 1 is not a multiple of the 16 rows"),
    (lambda: sparsity.convert(np.zeros((16, 16), np.uint8), np.full((16, 8), 4, np.uint8), to="torch"), "k = 32 is not a multiple of the 64 that two words of torch's metadata speak of; pad K with zeros to 64"),
    (lambda: sparsity.convert_from_torch(np.zeros((32, 8), np.float16), np.zeros((32, 1), np.int32)), "meta is int32"),
    (lambda: sparsity.describe_size(36, 1), "k = 36 is not a multiple of 8; pad the last axis with zeros to 40"),
    (lambda: sparsity.prune(np.zeros((1, 8), np.uint8), kind="e4m3", sparsity="4:8"), "pairs of 4-bit codes that share a byte; e4m3 is kept 2:4"),
    (lambda: sparsity.prune(np.zeros((1, 4), np.uint8), kind="fp4"), "unknown kind 'fp4'; known are"),
    (lambda: sparsity.prune(np.zeros((1, 4), np.uint8), rule="upper"), "unknown rule of pruning 'upper'; known are lower, higher"),
    (lambda: sparsity.prune(np.zeros((1, 4), np.float16), kind="float32"), "codes are float16; pass float32"),
    (lambda: sparsity.prune(np.zeros((1, 4), np.uint8), sparsity="1:2"), "unknown sparsity '1:2'; known are \"2:4\", and \"4:8\""),
    (lambda: sparsity.convert(_K, _M, to="linear"), "unknown form 'linear'; known are \"torch\""),
    (lambda: sparsity.prune([[0, 1], [2]]), "nested lists of unequal lengths"),
    (lambda: sparsity.prune(object()), "codes is of type object|codes are object"),
    (lambda: sparsity.get_sparse("e2m1"), "unknown sparse format 'e2m1'; .*did you mean e2m1-2to4 or e2m1-4to8"),
    (lambda: sparsity.prune(np.uint8(3)), "codes are a single number"),
    (lambda: SparseTensor(_K, np.full((1, 1), 5, np.uint8), "e2m1"), "metadata hold 0x5"),
    (lambda: SparseTensor(np.zeros((1, 4), np.uint8), _M, "e2m1"), r"need \(1, 2\) under 2:4"),
    (lambda: SparseTensor(_K, _M, "uint8"), "affine codes mean nothing without GroupScales"),
    (lambda: SparseTensor(_K, _M, "e2m1", scales=GroupScales(4, np.ones((1, 2), np.float32))), r"scales have shape \(1, 2\); a dense shape of \(1, 4\) in groups of 4 needs \(1, 1\)"),
    (lambda: SparseTensor(np.zeros((1, 6), np.uint8), np.full((1, 3), 4, np.uint8), "e2m1", scales=GroupScales(8, np.ones((1, 1), np.float32))), "k = 12 is not a multiple of the 8 neighbours"),
    (lambda: SparseTensor(np.zeros((1, 8), np.uint8), np.full((1, 2), 4, np.uint8), "e2m1", Sparsity.PAIRS, GroupScales(4, np.ones((1, 4), np.float32))), "group = 4 is not a positive multiple of the 8 codes of a 4:8 pairs group"),
    (lambda: SparseTensor(np.zeros((1, 2), np.float32), _M, "float32", scales=GroupScales(4, np.ones((1, 1), np.float32))), "plain numbers have no scales"),
    (lambda: SparseTensor(_K, _M, "e2m1", scales=np.ones(1)), "scales are a ndarray; pass GroupScales"),  # type: ignore[arg-type]
    (lambda: GroupScales(4, np.ones((1, 1), np.float32), zeros=np.ones((1, 1))), "zeros are float64; zero points are integers"),
    (lambda: GroupScales(4, np.ones((1, 1), np.float32), biases=np.ones((1, 2), np.float32)), "biases have shape"),
    (lambda: GroupScales(4, np.ones((1, 1), np.float32), zeros=np.ones((1, 1), int), biases=np.ones((1, 1), np.float32)), "pass one of them"),
    (lambda: SparseTensor.from_blocks(mxspec.quantize(np.zeros((2, 40), np.float32), "mxfp4", pad=True)), "a sparse tensor's lie along the last one, unpadded"),
    (lambda: SparseTensor.from_affine(np.zeros(4)), "tensor is of type ndarray; pass an AffineTensor"),  # type: ignore[arg-type]
    (lambda: SparseTensor.from_blocks(np.zeros(4)), "tensor is of type ndarray; pass a BlockTensor"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[re.sub(r"[^a-z0-9 =:]", "", m)[:40] for _, m in REFUSALS])
def test_refusals(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_sums_are_rounded_once() -> None:
    """1 + 2^-11 + 2^-60: in float64 a tie of float16, which would go down."""
    for bias, wanted in ((2.0**-60, 1 + 2.0**-10), (-(2.0**-60), 1.0), (0.0, 1.0)):
        given = GroupScales(4, f32([[1 + 2.0**-11]]), biases=f32([[bias]]))
        t = SparseTensor(u8([[1, 0]]), u8([[4]]), "uint8", scales=given)
        assert float(t.dequantize(np.float16)[0, 0]) == wanted
