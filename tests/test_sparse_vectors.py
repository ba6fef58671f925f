"""The sparse vectors against plain Python: magnitudes from the formats' own tables, patterns by trying all of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest

from mxspec.formats import ELEMENTS
from mxspec.sparsity import SPARSE_FORMATS, Sparsity
from mxspec_vectors.cases import SparseCase, SparseFunction, load_sparse_cases

PAIRS = list(combinations(range(4), 2))
#: The file's order of patterns: by nibble.
PATTERNS = sorted(PAIRS, key=lambda p: p[1] << 2 | p[0])
#: Of the 4-bit formats every 5th group.
STEP = 5


def size(code: int, kind: str) -> Fraction:
    if kind == "int4":
        return Fraction(abs(code - 16 if code > 7 else code))
    return ELEMENTS[kind].magnitude(ELEMENTS[kind].split(code)[1])


def of(name: str, function: SparseFunction) -> list[SparseCase]:
    return [case for case in load_sparse_cases(name) if case.function is function]


def values(codes: list[int], kind: str) -> list[tuple[int, Fraction]]:
    """What codes mean, as far as can be known without their sign bit's meaning: sign and magnitude, one zero."""
    return [(0 if not size(c, kind) else c, size(c, kind)) for c in codes]


@pytest.mark.parametrize("name", SPARSE_FORMATS)
def test_patterns_that_keep_the_largest(name: str) -> None:
    fmt = SPARSE_FORMATS[name]
    unit = fmt.sparsity.unit
    for case in of(name, SparseFunction.PRUNE):
        for group, mask in list(zip(case.codes.tolist(), case.patterns.tolist(), strict=True))[::STEP]:
            units = [[size(c, fmt.kind) for c in group[unit * i : unit * i + unit]] for i in range(4)]
            found = 0
            for norm in (sum, max, lambda u: sum(m * m for m in u)):
                weights = [norm(u) for u in units]
                most = max(sum(weights[i] for i in p) for p in PATTERNS)
                for i, p in enumerate(PATTERNS):
                    rest = [weights[j] for j in range(4) if j not in p]
                    best = min(weights[j] for j in p) >= max(rest)
                    assert best == (sum(weights[j] for j in p) == most)
                    found |= best << i
            assert found == mask, group
            pruned = {
                tuple(v if k // unit in p else (0, Fraction(0)) for k, v in enumerate(values(group, fmt.kind)))
                for i, p in enumerate(PATTERNS)
                if mask >> i & 1
            }
            few = sum(any(u) for u in units) <= 2
            topic = "few" if few else "largest" if len(pruned) == 1 else "prune-tie"
            assert case.topic == topic


@pytest.mark.parametrize("name", SPARSE_FORMATS)
def test_what_is_compressed_and_decompressed_is_the_same(name: str) -> None:
    fmt = SPARSE_FORMATS[name]
    unit = fmt.sparsity.unit
    for case in (*of(name, SparseFunction.COMPRESS), *of(name, SparseFunction.DECOMPRESS)):
        seen = set()
        for kept, nibble, dense in list(zip(case.kept.tolist(), case.metadata.tolist(), case.codes.tolist(), strict=True))[::STEP]:
            first, second = nibble & 3, nibble >> 2
            legal = first < second
            seen.add(nibble)
            assert legal == (case.topic != "illegal-metadata")
            out = [0] * fmt.group
            out[unit * first : unit * first + unit] = kept[:unit]
            out[unit * second : unit * second + unit] = kept[unit:]
            assert values(out, fmt.kind) == values(dense, fmt.kind)
            if case.function is SparseFunction.DECOMPRESS:
                assert out == dense
        if case.topic == "pattern":
            assert len(seen) == 6
        if case.topic == "illegal-metadata":
            assert len(seen) >= 2


def test_the_four_bit_files_ask_for_every_group_of_magnitudes() -> None:
    for name in ("e2m1-2to4", "int4-2to4"):
        fmt = SPARSE_FORMATS[name]
        asked = {tuple(size(c, fmt.kind) for c in g) for case in of(name, SparseFunction.PRUNE) for g in case.codes.tolist()}
        sizes = {size(c, fmt.kind) for c in range(16)}
        assert len(asked) == len(sizes) ** 4
    for case in of("e2m1-2to4", SparseFunction.DECOMPRESS)[:1]:
        assert len({(*k, n) for k, n in zip(case.kept.tolist(), case.metadata.tolist(), strict=True)}) == 6 * 256


def test_every_sparsity_and_kind_has_a_file() -> None:
    assert {f.sparsity for f in SPARSE_FORMATS.values()} == set(Sparsity)
    assert {f.kind for f in SPARSE_FORMATS.values()} == {*ELEMENTS, "int4"}
    assert all(load_sparse_cases(name) for name in SPARSE_FORMATS)
