"""Structured sparsity: all groups of four codes, canonical metadata, the ten illegal nibbles, layouts of real packers."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from mxspec import layouts, sparsity
from mxspec.elements import decode_table
from mxspec.formats import E2M1
from mxspec.sparsity import KEPT, Nibble, Sparsity


def every_group() -> np.ndarray:
    """All 65,536 groups of four codes."""
    return np.array(list(product(range(16), repeat=4)), np.uint8)


def test_legal_nibbles_are_the_six_ascending_pairs() -> None:
    assert {second << 2 | first: (first, second) for first, second in combinations(range(4), 2)} == KEPT


@pytest.mark.parametrize("kind", list(Nibble))
def test_the_two_largest_are_kept_and_ties_go_to_the_lower_position(kind: Nibble) -> None:
    groups = every_group()
    if kind is Nibble.E2M1:
        magnitude = np.abs(decode_table(E2M1))[groups]
    else:
        magnitude = np.abs(np.where(groups > 7, groups.astype(int) - 16, groups))
    nibbles = sparsity.choose_kept(groups, kind=kind)[:, 0]
    for group, found in zip(magnitude.tolist(), nibbles.tolist(), strict=True):
        largest = sorted(range(4), key=lambda i: (-group[i], i))[:2]
        assert KEPT[found] == tuple(sorted(largest))


def test_pruned_groups_compress_and_come_back() -> None:
    pruned = sparsity.prune(every_group())
    kept, metadata = sparsity.compress(pruned)
    assert kept.shape == (65536, 2)
    assert (sparsity.decompress(kept, metadata) == pruned).all()


@pytest.mark.parametrize(("group", "nibble"), [("0000", 4), ("x000", 4), ("0x00", 4), ("00x0", 8), ("000x", 12), ("0xx0", 9), ("00xx", 14)])
def test_canonical_metadata(group: str, nibble: int) -> None:
    codes = np.array([[7 if c == "x" else 0 for c in group]], np.uint8)
    assert sparsity.compress(codes)[1].tolist() == [[nibble]]


def test_codes_are_magnitudes_not_numbers() -> None:
    """[6, -0, -0.5, 0.5]: the magnitude of code 8 is zero, that of 9 is a half."""
    assert sparsity.prune(np.array([[7, 8, 9, 1]], np.uint8)).tolist() == [[7, 0, 9, 0]]
    assert sparsity.prune(np.array([[8, 7, 9, 15]], np.uint8), kind="int4").tolist() == [[8, 7, 0, 0]]


def test_pairs() -> None:
    codes = np.array([[0, 1, 7, 0, 0, 0, 2, 2]], np.uint8)
    pruned = sparsity.prune(codes, sparsity="4:8 pairs")
    assert pruned.tolist() == [[0, 0, 7, 0, 0, 0, 2, 2]]
    kept, metadata = sparsity.compress(pruned, sparsity=Sparsity.PAIRS)
    assert (kept.tolist(), metadata.tolist()) == ([[7, 0, 2, 2]], [[13]])
    assert (sparsity.decompress(kept, metadata, sparsity=Sparsity.PAIRS) == pruned).all()


def test_pairs_come_back() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 16, (500, 64)).astype(np.uint8)
    pruned = sparsity.prune(codes, sparsity=Sparsity.PAIRS)
    assert (sparsity.decompress(*sparsity.compress(pruned, sparsity=Sparsity.PAIRS), sparsity=Sparsity.PAIRS) == pruned).all()
    assert ((pruned.reshape(500, 8, 4, 2) != 0).any(axis=-1).sum(axis=-1) <= 2).all()


@pytest.mark.parametrize("nibble", sorted(set(range(16)) - set(KEPT)))
def test_the_ten_illegal_nibbles_are_refused(nibble: int) -> None:
    metadata = np.array([[4, 14], [8, nibble]], np.uint8)
    with pytest.raises(ValueError, match=rf"metadata hold {nibble:#x} at \(1, 1\); legal are 0x4, 0x8, 0x9, 0xc, 0xd, 0xe"):
        sparsity.decompress(np.zeros((2, 4), np.uint8), metadata)


def test_every_legal_encoding_decompresses_to_the_same_values() -> None:
    """Several nibbles may stand for one group; what they mean is what counts."""
    dense = np.array([[0, 5, 0, 0]], np.uint8)
    for nibble, (first, second) in KEPT.items():
        if 1 in (first, second):
            kept = np.array([[5, 0] if first == 1 else [0, 5]], np.uint8)
            assert (sparsity.decompress(kept, np.array([[nibble]], np.uint8)) == dense).all()


def test_linear_words_of_the_worked_example() -> None:
    """K = 32, codes 1 2 3 4 5 6 7 9 at 0 2 5 6 8 11 28 31: values 00654321 97000000, metadata c4444c98."""
    codes = np.zeros((1, 32), np.uint8)
    codes[0, [0, 2, 5, 6, 8, 11, 28, 31]] = [1, 2, 3, 4, 5, 6, 7, 9]
    kept, metadata = sparsity.compress(codes)
    values = layouts.pack(kept, "metal-marlin-values").view("<u4")
    words = layouts.pack(metadata, "metal-marlin-metadata").view("<u4")
    assert [f"{int(w):08x}" for w in values] == ["00654321", "97000000"]
    assert [f"{int(w):08x}" for w in words] == ["c4444c98"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sparsity.prune(np.zeros((1, 6), np.uint8)), "k = 6 is not a multiple of the 4 codes of a 2:4 group; pad"),
        (lambda: sparsity.prune(np.zeros((1, 4), np.uint8), sparsity="4:8 pairs"), "k = 4 is not a multiple of the 8 codes"),
        (lambda: sparsity.prune(np.zeros((1, 4), np.float32)), "codes are float32; pass uint8"),
        (lambda: sparsity.prune(np.full((1, 4), 16, np.uint8)), "codes hold 0x10; allowed are 0 to 0xf"),
        (lambda: sparsity.compress(np.ones((1, 8), np.uint8)), r"codes \[1, 1, 1, 1\] at \(0,\), group 0, are not 2:4-sparse"),
        (lambda: sparsity.decompress(np.zeros((1, 3), np.uint8), np.full((1, 1), 4, np.uint8)), r"kept codes have shape \(1, 3\)"),
        (lambda: sparsity.check_metadata(np.zeros(1, np.int32)), "metadata are int32; pass uint8"),
    ],
)  # fmt: skip
def test_refusals(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises((ValueError, TypeError), match=message):
        call()
