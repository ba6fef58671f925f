"""Products of block-scaled, plain and other matrices: the exact result, and every result that an accumulation may give.

>>> import numpy as np
>>> from mxspec import dot, quantize
>>> x = quantize(np.ones((2, 64), np.float32), "mxfp4")
>>> dot.matmul(x, x)
array([[64., 64.],
       [64., 64.]], dtype=float32)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.blocktensor import BlockTensor
from mxspec.dot.accumulators import ACCUMULATORS, DEFAULT_ACCUMULATOR, Accumulator, get_accumulator
from mxspec.dot.affine import affine_factor
from mxspec.dot.contracts import CONTRACT_TEXTS, EXACTLY, OperandContract, list_operand_contracts, parse_operand_contract
from mxspec.dot.explain import ClassVerdict, EpilogueStep, OutputExplanation, Step, Term, Why, explain_output
from mxspec.dot.factor import PLAIN_DTYPES, PLAIN_FORMATS, Contract, Factor, apply_contract, block_factor, exact_factor, plain_factor
from mxspec.dot.outputs import Allowed, Epilogue, allow_outputs, finish_product
from mxspec.dot.rounding import OUTPUTS, Direction, round_floats
from mxspec.dot.simulate import Order, simulate_product
from mxspec.dot.sparse import sparse_factor
from mxspec.dot.sums import Special, Sums, sum_alignments, sum_products
from mxspec.suggestions import refuse_name

__all__ = [
    "ACCUMULATORS",
    "CONTRACT_TEXTS",
    "DEFAULT_ACCUMULATOR",
    "EXACTLY",
    "OUTPUTS",
    "PLAIN_DTYPES",
    "PLAIN_FORMATS",
    "Accumulator",
    "Allowed",
    "ClassVerdict",
    "Contract",
    "Direction",
    "Epilogue",
    "EpilogueStep",
    "Factor",
    "OperandContract",
    "Order",
    "OutputExplanation",
    "Special",
    "Step",
    "Sums",
    "Term",
    "Why",
    "affine_factor",
    "allow_outputs",
    "apply_contract",
    "block_dot",
    "block_factor",
    "exact_factor",
    "explain_output",
    "finish_product",
    "get_accumulator",
    "list_operand_contracts",
    "matmul",
    "parse_operand_contract",
    "plain_factor",
    "round_floats",
    "simulate_product",
    "sparse_factor",
    "sum_alignments",
    "sum_products",
]


def matmul(
    a: Factor | BlockTensor,
    b: Factor | BlockTensor,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: npt.NDArray[Any] | None = None,
    bias: npt.NDArray[Any] | None = None,
    out_dtype: str = "float32",
) -> npt.NDArray[Any]:
    """The product a b^T, correctly rounded: the exact sums, scaled and added to exactly, rounded once to nearest even.

    Args:
        a: [m, k], as `block_factor`, `affine_factor`, `sparse_factor` or `plain_factor` make it, or a `BlockTensor`.
        b: [n, k].
        alpha: Factor of the sum, a float32; both tensor scales are applied as well.
        beta: Factor of c, a float32.
        c: [m, n]; None: nothing is added.
        bias: [n], added to every row; None: nothing is added.
        out_dtype: "float32", "bfloat16" or "float16".

    Returns:
        [m, n] of that dtype. NaN where a NaN is among the products or infinities cancel.

    Raises:
        TypeError: A side that is neither.
        ValueError: Lengths that do not belong together, an unknown dtype, an alpha or beta that is not finite.
    """
    a, b = _read_side(a, "a"), _read_side(b, "b")
    if not isinstance(out_dtype, str) or out_dtype not in OUTPUTS:
        raise refuse_name(out_dtype, f"out_dtype = {out_dtype!r}; allowed are {', '.join(OUTPUTS)}")
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not np.isfinite(value):
            raise ValueError(f"{name} = {value}; it has to be finite")
    shape = (a.rows, b.rows)
    if c is not None and np.shape(c) != shape:
        raise ValueError(f"c has shape {np.shape(c)}; the product has {shape}")
    if bias is not None and np.shape(bias) != shape[1:]:
        raise ValueError(f"bias has shape {np.shape(bias)}; it has one number for each row of b: {shape[1:]}")
    epilogue = Epilogue(alpha=alpha, beta=beta, c=c, bias=bias)
    return finish_product(sum_products(a, b), out_dtype, tensor_scale=a.tensor_scale * b.tensor_scale, epilogue=epilogue)


def _read_side(side: object, name: str) -> Factor:
    if isinstance(side, BlockTensor):
        return block_factor(side)
    if not isinstance(side, Factor):
        raise TypeError(
            f"{name} is of type {type(side).__name__}; pass a BlockTensor, or what block_factor, affine_factor, sparse_factor or "
            "plain_factor make of it"
        )
    return side


def block_dot(
    a_codes: object, a_scale: int, b_codes: object, b_scale: int, a_fmt: str, b_fmt: str | None = None,
    *, a_tensor_scale: float = 1.0, b_tensor_scale: float = 1.0,
) -> float:  # fmt: skip
    """The dot product of two blocks, OCP MX v1.0 section 6.1, rounded once to float32.

    Args:
        a_codes: uint8 [k]: one block's element codes.
        a_scale: The block's scale code.
        b_codes: uint8 [k].
        b_scale: The block's scale code.
        a_fmt: Name of a's format.
        b_fmt: Name of b's format; default: a's.
        a_tensor_scale: NVFP4's second scale of a.
        b_tensor_scale: NVFP4's second scale of b.

    Returns:
        The number, NaN where an operand is NaN.

    Raises:
        ValueError: Blocks of different lengths, or codes that the format does not have.
    """
    sides = []
    for codes, scale, fmt, tensor_scale in (
        (a_codes, a_scale, a_fmt, a_tensor_scale), (b_codes, b_scale, b_fmt or a_fmt, b_tensor_scale)
    ):  # fmt: skip
        row = np.asarray(codes, np.uint8)[None, :]
        sides.append(block_factor(row, np.array([[scale]], np.uint8), fmt, tensor_scale=tensor_scale))
    return float(matmul(sides[0], sides[1])[0, 0])
