"""An operand of affine integers: numbers rounded as a dequantization contract says, or real numbers in two parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mxspec.affine import AffineContract, AffineFormat, Offset, get_affine, get_contract
from mxspec.affine.arrays import dequantize_groups
from mxspec.affine.tensor import check_parts
from mxspec.dot.factor import Factor, exact_factor
from mxspec.dot.rounding import Float64s
from mxspec.formats import FLOATS
from mxspec.inputs import as_array


def affine_factor(
    codes: object, scales: object, offsets: object, fmt: str | AffineFormat, *, contract: str | AffineContract = "exact"
) -> Factor:
    """A matrix of affine integers, groups along k.

    Args:
        codes: uint8 [rows, k], one unsigned code to a byte.
        scales: [rows, k / group] in the format's dtype.
        offsets: [rows, k / group]: biases in that dtype, or zero points, uint8.
        fmt: Such as `int4-g64-bias-float16`.
        contract: What a code's number is (`mxspec.affine.list_contracts`). Under `exact` it is a real number, in the two parts
            q * s and b, or q * s and -z * s: a kernel may add the products of both parts apart, group by group.

    Returns:
        The numbers; those of other contracts are rounded as these say.

    Raises:
        TypeError, ValueError: As `mxspec.affine.dequantize`, and for codes of other than two dimensions.
    """
    affine = get_affine(fmt)
    rule = get_contract(contract, affine)
    q, s, o = (as_array(x, name=n) for x, n in ((codes, "codes"), (scales, "scales"), (offsets, "offsets")))
    check_parts(q, s, o, affine)
    if q.ndim != 2:
        raise ValueError(f"codes have {q.ndim} dimensions; an operand of a product has two, [rows, k]")
    scale, offset = (np.repeat(x.astype(np.float64), affine.group, axis=1) for x in (s, o))
    return combine_numbers(q.astype(np.float64), scale, offset, affine, rule)


def combine_numbers(q: Float64s, s: Float64s, o: Float64s, fmt: AffineFormat, rule: AffineContract) -> Factor:
    """The numbers of codes, scales and offsets, one of each to a number: float32 values of any range, unchecked."""
    if rule.dtype is not None:
        # A mistake may read codes that are no uint8: they come as floats, which the arithmetic takes as well.
        values = dequantize_groups(q[..., None], s, o, fmt, rule, rule.dtype)[..., 0]  # type: ignore[arg-type]
        return exact_factor(values.astype(np.float64), least=1 - FLOATS[rule.dtype].bias)
    with np.errstate(invalid="ignore", over="ignore"):
        first = q * s
        rest = o if fmt.offset is Offset.BIAS else -o * s
    return replace(exact_factor(first, least=1 - fmt.scalar.bias), rest=rest)
