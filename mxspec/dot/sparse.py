"""A sparse operand: two of four numbers of any kind, or two of four pairs, at the places that metadata name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine import AffineContract, AffineFormat, get_affine
from mxspec.dot.affine import affine_factor
from mxspec.dot.factor import PLAIN_DTYPES, Factor, block_factor, plain_factor
from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec.inputs import as_array
from mxspec.sparsity import Sparsity, check_group, decompress, get_sparsity


def sparse_factor(
    kept: npt.ArrayLike,
    metadata: npt.ArrayLike,
    fmt: str | BlockFormat | AffineFormat,
    scales: object = None,
    offsets: object = None,
    *,
    sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR,
    contract: str | AffineContract = "exact",
    tensor_scale: float = 1.0,
) -> Factor:
    """A matrix of which two of four neighbours along k (or two of four pairs) are kept.

    Args:
        kept: [rows, k / 2], in the order of their places: codes (uint8, one to a byte), or numbers of the dtype.
        metadata: uint8 [rows, k / 4], of pairs [rows, k / 8]: a nibble to each group, as `mxspec.sparsity` has them.
        fmt: What is kept: a block format, an affine format, or the name of a dtype that plain sides have.
        scales: Of a block or affine format; they lie in dense k: [rows, k / block] or [rows, k / group].
        offsets: Of an affine format, [rows, k / group].
        sparsity: "2:4", or "4:8" for pairs.
        contract: Of affine codes, as `affine_factor` takes it.
        tensor_scale: NVFP4's.

    Returns:
        [rows, k]: zero where nothing is kept (of affine codes, too), and not multiplied there: an infinity across from such a
        place does not count.

    Raises:
        TypeError, ValueError: As `block_factor`, `affine_factor` and `plain_factor`; illegal nibbles; a group of scales that
            does not consist of whole sparse groups.
    """
    rule = get_sparsity(sparsity)
    items = as_array(kept, name="kept codes")
    dense = decompress(items, metadata, sparsity=rule)
    mask = decompress(np.ones(items.shape, np.bool_), metadata, sparsity=rule)
    factor = _make_dense(dense, fmt, scales, offsets, rule, contract, tensor_scale)
    rest = None if factor.rest is None else np.where(mask, factor.rest, 0)
    return replace(factor, values=np.where(mask, factor.values, 0), rest=rest, kept=mask)


def _make_dense(
    dense: npt.NDArray[Any], fmt: str | BlockFormat | AffineFormat, scales: object, offsets: object, rule: Sparsity,
    contract: str | AffineContract, tensor_scale: float,
) -> Factor:  # fmt: skip
    """The operand without its metadata, code 0 where nothing is kept."""
    if isinstance(fmt, str) and fmt in PLAIN_DTYPES:
        if dense.dtype != PLAIN_DTYPES[fmt]:
            raise TypeError(f"kept numbers are {dense.dtype}; pass {fmt}, as fmt says")
        return plain_factor(dense)
    if isinstance(fmt, BlockFormat) or (isinstance(fmt, str) and fmt in BLOCKS):
        block = get_block(fmt)
        check_group(block.k, dense.shape[-1], rule)
        return block_factor(dense, scales, block, tensor_scale=tensor_scale)
    affine = get_affine(fmt)
    check_group(affine.group, dense.shape[-1], rule)
    return affine_factor(dense, scales, offsets, affine, contract=contract)
