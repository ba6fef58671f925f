"""The sparse cases that are asked: those of the vectors, groups that keep a NaN or an infinity, and groups of adjacent magnitudes.

No other number stands for these two: a packer that takes one for a zero loses it. A NaN has no magnitude; one may refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from mxspec.elements import decode_table
from mxspec.formats import ELEMENTS
from mxspec.sparsity import KEPT, SparseFormat, Sparsity, decompress, find_largest, get_sparse
from mxspec_vectors.cases import SparseCase, SparseFunction, load_sparse_cases

#: Flag of cases that a target may refuse.
REFUSABLE = "refusable"


@lru_cache(maxsize=32)
def list_sparse_cases(fmt: str) -> tuple[SparseCase, ...]:
    """Every case of a format.

    Raises VectorError where a registered format has no vectors.
    """
    return (*load_sparse_cases(fmt), *_list_specials(get_sparse(fmt)), _list_adjacent(get_sparse(fmt)))


def _list_adjacent(fmt: SparseFormat) -> SparseCase:
    """Every two adjacent magnitudes, in groups that hold each twice: of their order nothing but a comparison of the two tells."""
    table = fmt.codes.table
    assert table is not None
    codes = np.arange(1 << fmt.codes.bits)
    order = table[codes].astype(np.int64)
    finite = order >= 0
    if fmt.kind in ELEMENTS:
        finite &= np.isfinite(decode_table(ELEMENTS[fmt.kind]).astype(np.float64))
    sizes, first, of = np.unique(order[finite], return_index=True, return_inverse=True)
    last = np.array([np.flatnonzero(of == n)[-1] for n in range(len(sizes))])  # the same magnitude of the other sign, if there is one
    low, high = (codes[finite][place] for place in (first, last))
    units = np.stack([low[:-1], high[1:], low[1:], high[:-1]], axis=1)
    groups = np.concatenate([units, units[:, [1, 0, 3, 2]]]).astype(np.uint8).repeat(fmt.sparsity.unit, axis=1)
    patterns = find_largest(groups, kind=fmt.kind, sparsity=fmt.sparsity)[:, 0]
    empty = np.empty(0, np.uint8)
    return SparseCase(
        id=f"prune-adjacent-{fmt.name}", topic="largest", function=SparseFunction.PRUNE, codes=groups, kept=empty, metadata=empty,
        patterns=patterns, flags=(),
    )  # fmt: skip


def _list_specials(fmt: SparseFormat) -> Iterator[SparseCase]:
    """Each code that is no finite number, first and second of every pattern: compressed, and decompressed."""
    if fmt.kind not in ELEMENTS or fmt.sparsity is not Sparsity.TWO_OF_FOUR:
        return
    values = decode_table(ELEMENTS[fmt.kind]).astype(np.float64)
    special, other = np.flatnonzero(~np.isfinite(values)), int(np.flatnonzero(values == 1)[0])
    pairs = [pair for code in special.tolist() for pair in ((code, other), (other, code), (code, code))]
    if not pairs:
        return
    kept = np.array([pair for pair in pairs for _ in KEPT], np.uint8)
    metadata = np.resize(np.array(sorted(KEPT), np.uint8), len(kept))
    codes, empty = decompress(kept, metadata[:, None], sparsity=fmt.sparsity), np.empty(0, np.uint8)
    for function in (SparseFunction.COMPRESS, SparseFunction.DECOMPRESS):
        yield SparseCase(
            id=f"{function}-special-{fmt.name}", topic="pattern", function=function, codes=codes, kept=kept, metadata=metadata,
            patterns=empty, flags=(REFUSABLE,),
        )  # fmt: skip
