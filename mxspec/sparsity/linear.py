"""The linear form of Metal Marlin's document: 32-bit words of kept codes and of nibbles, both running along K.

values [K / 16, N]: word (k // 16, n) holds the eight codes that four groups of four keep, first in the lowest bits.
metadata [K / 32, N]: word (k // 32, n) holds the nibbles of eight groups. Matrices are K x N here, as in the document; the
rest of mxspec has rows of K.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import layouts
from mxspec.formats import ElementFormat
from mxspec.inputs import as_array, check_flag
from mxspec.sparsity.kinds import Nibble, get_kind
from mxspec.sparsity.patterns import Codes, Sparsity, check_k, decompress, gather, get_sparsity
from mxspec.sparsity.pruning import choose_kept
from mxspec.sparsity.rules import PruneRule
from mxspec.sparsity.tensor import check_group

Words = npt.NDArray[np.uint32]

#: Codes along K that one word of metadata speaks of.
WORD = 32


def pack_sparse(
    codes: npt.ArrayLike, group: int | None = None, *, kind: str | Nibble | ElementFormat = Nibble.E2M1,
    rule: str | PruneRule = "lower", pad: bool = False,
) -> tuple[Words, Words]:  # fmt: skip
    """Prune a matrix of 4-bit codes 2:4 along K and pack it: the document's `pack_sparse_fp4`, its mistakes put right.

    Args:
        codes: uint8 [K, N], one code to a byte.
        group: Neighbours along K that share a scale; checked alone, since scales lie in dense K and do not change.
        kind: "e2m1" or "int4".
        rule: Which of equal magnitudes are kept.
        pad: Fill K up to a multiple of 32 with zeros, which give kept codes 0 and nibbles 4.

    Returns:
        values uint32 [K / 16, N] and metadata uint32 [K / 32, N].

    Raises:
        TypeError: The codes are not uint8.
        ValueError: The codes are no matrix or have more than 4 bits, K is no multiple of 32 (without `pad`) or of the group,
            or the group is no multiple of 4.
    """
    what = get_kind(kind)
    array = what.check(codes)
    if what.bits != 4 or what.table is None:
        raise ValueError(f"the linear form holds 4-bit codes; {what.name} has {what.bits}: use compress and a layout of yours")
    if array.ndim != 2:
        raise ValueError(f"codes have shape {array.shape}; pass a matrix [K, N]")
    if group is not None:
        check_group(group, array.shape[0])
    if check_flag(pad, "pad"):
        array = np.pad(array, ((0, -array.shape[0] % WORD), (0, 0)))
    k = array.shape[0]
    if k % WORD:
        raise ValueError(
            f"k = {k} is not a multiple of the {WORD} that a word of metadata speaks of; pad K with zeros to "
            f"{-(-k // WORD) * WORD}, or pass pad=True"
        )
    rows = np.ascontiguousarray(array.T)
    nibbles = choose_kept(rows, kind=kind, rule=rule)
    return _to_words(gather(rows, nibbles, Sparsity.TWO_OF_FOUR)), _to_words(nibbles)


def unpack_sparse(values: npt.ArrayLike, metadata: npt.ArrayLike) -> Codes:
    """The dense codes uint8 [K, N] of words packed by `pack_sparse` or elsewhere.

    Raises TypeError where they are not 32-bit words, ValueError for an illegal nibble, with its place in K and N, or shapes that
    do not fit each other.
    """
    kept, nibbles = _from_words(values, "values"), _from_words(metadata, "metadata")
    if values_shape_of(nibbles) != kept.shape:
        n, k = nibbles.shape[0], nibbles.shape[1] * 4
        raise ValueError(
            f"values have shape {np.shape(values)}, metadata {np.shape(metadata)}; metadata of K = {k}, N = {n} need values of "
            f"{(k // 16, n)}"
        )
    dense: Codes = decompress(kept, nibbles).T
    return np.ascontiguousarray(dense)


def values_shape_of(nibbles: Codes) -> tuple[int, int]:
    """The shape of the kept codes [N, K / 2] for nibbles [N, K / 4]."""
    return nibbles.shape[0], 2 * nibbles.shape[1]


def _to_words(items: npt.NDArray[Any]) -> Words:
    """Rows of 4-bit items [N, C] as words [C / 8, N]."""
    packed = layouts.pack(items, "metal-marlin-values")
    return packed.view("<u4").astype(np.uint32).reshape(items.shape[1] // 8, items.shape[0])


def _from_words(words: npt.ArrayLike, name: str) -> Codes:
    array = as_array(words, name=name)
    if array.dtype not in (np.uint32, np.int32):
        raise TypeError(f"{name} are {array.dtype}; pass uint32 words")
    if array.ndim != 2:
        raise ValueError(f"{name} have shape {array.shape}; pass a matrix of words, [K / 16, N] of values or [K / 32, N] of metadata")
    data = np.ascontiguousarray(array.astype("<u4")).reshape(-1).view(np.uint8)
    return layouts.unpack(data, "metal-marlin-values", (array.shape[1], 8 * array.shape[0]))


@dataclass(frozen=True, slots=True)
class SparseSize:
    """Bytes of a K x N matrix of 4-bit codes, dense and sparse."""

    #: Packed dense codes.
    dense: int
    values: int
    metadata: int
    #: Scales, which both forms have alike.
    scales: int

    @property
    def sparse(self) -> int:
        """Kept codes and metadata."""
        return self.values + self.metadata

    @property
    def ratio(self) -> Fraction:
        """Sparse bytes to dense ones, without scales: 3/4 of 2:4, 5/8 of pairs."""
        return Fraction(self.sparse, self.dense)

    @property
    def ratio_with_scales(self) -> Fraction:
        """The same with the scales on both sides."""
        return Fraction(self.sparse + self.scales, self.dense + self.scales)


def describe_size(
    k: int, n: int, group: int | None = None, *, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR, scale_bytes: int = 2
) -> SparseSize:
    """Bytes of the parts of a K x N matrix of 4-bit codes.

    group: neighbours along K that share a scale of `scale_bytes`; None: no scales.
    Raises ValueError where K does not fill whole bytes of metadata, or the group does not suit it.
    """
    rule = get_sparsity(sparsity)
    check_k(k, rule, 2 * rule.group)
    if group is not None:
        check_group(group, k, rule)
    scales = 0 if group is None else k // group * n * scale_bytes
    return SparseSize(dense=k * n // 2, values=k * n // 4, metadata=k * n // (2 * rule.group), scales=scales)
