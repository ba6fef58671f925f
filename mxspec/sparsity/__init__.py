"""Structured sparsity: two of four items kept, or two of four pairs of 4-bit codes, and the nibble that says which.

A metadata nibble is (position of the second kept << 2) | position of the first, positions 0 to 3 in ascending order. Six
nibbles are legal; PTX leaves the other ten undefined. NVIDIA's packed e2m1 (kind::mxf4) keeps whole pairs of neighbouring
codes, one nibble to eight codes. Items are codes, one to a byte, or plain numbers; groups lie along the last axis. Scales
of groups lie in the dense K: whatever their rule, they do not change. Source: PTX ISA, sparse matrix storage.

>>> import numpy as np
>>> from mxspec import sparsity
>>> codes = np.array([[7, 8, 9, 1, 0, 5, 0, 0]], np.uint8)  # 6, -0, -0.5, 0.5, 0, 3, 0, 0
>>> kept, metadata = sparsity.compress(sparsity.prune(codes))
>>> kept.tolist(), metadata.tolist()
([[7, 9, 0, 5]], [[8, 4]])
>>> sparsity.decompress(kept, metadata).tolist()
[[7, 0, 9, 0, 0, 5, 0, 0]]
"""

from __future__ import annotations

from mxspec.sparsity.conversion import Form, convert, convert_from_torch
from mxspec.sparsity.formats import SPARSE_FORMATS, SparseFormat, get_sparse
from mxspec.sparsity.kinds import Kind, Nibble, get_kind
from mxspec.sparsity.linear import SparseSize, describe_size, pack_sparse, unpack_sparse
from mxspec.sparsity.patterns import KEPT, Sparsity, check_metadata, decompress, find_illegal, get_sparsity
from mxspec.sparsity.pruning import choose_kept, compress, find_largest, prune, take
from mxspec.sparsity.rules import RULES, Norm, PruneRule, Ties, Weigh, get_rule
from mxspec.sparsity.tensor import BlockScales, GroupScales, SparseTensor, check_group

__all__ = [
    "KEPT",
    "RULES",
    "SPARSE_FORMATS",
    "BlockScales",
    "Form",
    "GroupScales",
    "Kind",
    "Nibble",
    "Norm",
    "PruneRule",
    "SparseFormat",
    "SparseSize",
    "SparseTensor",
    "Sparsity",
    "Ties",
    "Weigh",
    "check_group",
    "check_metadata",
    "choose_kept",
    "compress",
    "convert",
    "convert_from_torch",
    "decompress",
    "describe_size",
    "find_illegal",
    "find_largest",
    "get_kind",
    "get_rule",
    "get_sparse",
    "get_sparsity",
    "pack_sparse",
    "prune",
    "take",
    "unpack_sparse",
]
