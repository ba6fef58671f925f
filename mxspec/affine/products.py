"""Products with affine weights: C = A W^T, exact, and in the orders in which kernels add.

A has shape [m, n], the weights [k, n] with groups along n, as the documents have it; C has shape [m, k].
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.contracts import AffineContract, get_contract
from mxspec.affine.formats import Offset
from mxspec.affine.tensor import AffineTensor
from mxspec.elements import as_float32, output_dtype, round_to
from mxspec.enums import StrEnum
from mxspec.formats import FLOATS
from mxspec.inputs import as_array
from mxspec.reals import encode_real, make_real
from mxspec.rounding import Overflow

Values = npt.NDArray[Any]


class Order(StrEnum):
    """In which order a product adds."""

    #: sum += a * w, column by column, from zero.
    SEQUENTIAL = "sequential"
    #: Per group, column by column, sum_q += a * q and sum_a += a; then sum += s * sum_q + b * sum_a (with zero points
    #: sum += s * (sum_q - z * sum_a)).
    FACTORED = "factored"


def quantized_matmul(
    a: npt.ArrayLike,
    w: AffineTensor,
    *,
    contract: str | AffineContract = "float32",
    accumulate: object = "float32",
    order: str | Order = Order.SEQUENTIAL,
    out: object = None,
) -> Values:
    """C = A W^T, each operation rounded to the accumulator's dtype, in a stated order.

    The defaults are those of the documents: weights, products and sums in float32, column after column, and the result in
    the activations' dtype. MLX on x86-64 computes everything in that dtype: `contract` and `accumulate` are then it.

    Args:
        a: float32, float16 or bfloat16 [..., n].
        w: [k, n].
        contract: What a weight is; one with a dtype (`exact` has none).
        accumulate: Dtype of products and sums.
        order: In which order they are added.
        out: Dtype of the result; default: a's.

    Returns:
        [..., k].

    Raises:
        TypeError: A dtype that is none of the three.
        ValueError: n differs, w is no matrix, or the contract is not one of the format or has no dtype.
    """
    rows, given = _check(a, w)
    domain = output_dtype(accumulate).name
    rule, how = get_contract(contract, w.format), Order(order)
    k = w.shape[0]
    with np.errstate(all="ignore"):
        if how is Order.FACTORED:
            total = _add_factored(rows, w, domain)
        else:
            if rule.dtype is None:
                known = ", ".join(d for d in FLOATS)
                raise ValueError(
                    f"contract {rule.name} holds weights in no dtype; choose one that does ({known}), or quantized_matmul_exact"
                )
            weights = w.dequantize(rule.dtype, contract=rule).astype(np.float32)
            total = np.zeros((len(rows), k), np.float32)
            for n in range(w.shape[1]):
                total = _rounded(total + _rounded(rows[:, n, None] * weights[:, n], domain), domain)
    result = round_to(total.astype(np.float64), given if out is None else output_dtype(out))
    return result.reshape(*np.shape(a)[:-1], k)


def _rounded(x: Values, domain: str) -> Values:
    """A float32 result, rounded once more where the domain is narrower: as frameworks compute float16 and bfloat16."""
    return x if domain == "float32" else round_to(x.astype(np.float64), domain).astype(np.float32)


def _add_factored(rows: Values, w: AffineTensor, domain: str) -> Values:
    group = w.format.group
    total = np.zeros((len(rows), w.shape[0]), np.float32)
    scales, offsets = w.scales.astype(np.float32), w.offsets.astype(np.float32)
    codes = w.codes.astype(np.float32)
    for g in range(scales.shape[1]):
        with_codes = np.zeros_like(total)
        plain = np.zeros((len(rows), 1), np.float32)
        for n in range(g * group, (g + 1) * group):
            with_codes = _rounded(with_codes + _rounded(rows[:, n, None] * codes[:, n], domain), domain)
            plain = _rounded(plain + rows[:, n, None], domain)
        shift = _rounded(offsets[:, g] * plain, domain)
        if w.format.offset is Offset.BIAS:
            part = _rounded(_rounded(scales[:, g] * with_codes, domain) + shift, domain)
        else:
            part = _rounded(scales[:, g] * _rounded(with_codes - shift, domain), domain)
        total = _rounded(total + part, domain)
    return total


def quantized_matmul_exact(
    a: npt.ArrayLike, w: AffineTensor, *, contract: str | AffineContract = "exact", out: object = "float32"
) -> Values:
    """C = A W^T as a real number, rounded once to `out`.

    The weights are those of the contract: under `exact` real numbers, else rounded as it says.

    Args, Returns, Raises: as `quantized_matmul`; every contract is allowed. Where a NaN or an infinity takes part, the
    result is IEEE 754's.
    """
    rows, _ = _check(a, w)
    scalar = FLOATS[output_dtype(out).name]
    sums = _sum_exactly(rows, w, get_contract(contract, w.format))
    plain = w.dequantize("float32", contract=contract).astype(np.float64)
    with np.errstate(all="ignore"):
        special = ~np.isfinite(rows.astype(np.float64) @ plain.T)
        result = round_to(np.where(special, rows.astype(np.float64) @ plain.T, 0), scalar.name)
    unsigned = f"u{scalar.bits // 8}"
    for place in np.ndindex(*sums.shape):
        if not special[place]:
            bits = encode_real(make_real(Fraction(int(sums[place]), 1 << 2 * _UNIT)), scalar, overflow=Overflow.OWN)
            result[place] = np.array(bits, unsigned).view(result.dtype)
    return result.reshape(*np.shape(a)[:-1], w.shape[0])


#: Every float32 is a whole number of 2**-149.
_UNIT = 149


def _as_integers(x: Values) -> Values:
    """float32 values times 2**149, as Python integers; what is not finite as 0."""
    fraction, exponent = np.frexp(np.where(np.isfinite(x), x, 0).astype(np.float64))
    mantissas = (fraction * (1 << 24)).astype(np.int64).reshape(-1).tolist()
    shifts = (exponent + _UNIT - 24).reshape(-1).tolist()
    result = np.empty(x.size, object)
    # A subnormal's lowest bits are zeros: nothing is lost to the right.
    result[:] = [m << s if s >= 0 else m >> -s for m, s in zip(mantissas, shifts, strict=True)]
    return result.reshape(x.shape)


def _sum_exactly(rows: Values, w: AffineTensor, rule: AffineContract) -> Values:
    """The sums times 2**298, as Python integers: object [m, k]."""
    a = _as_integers(rows)
    if rule.dtype is not None:
        values = _as_integers(w.dequantize(rule.dtype, contract=rule).astype(np.float32))
        return np.asarray(a @ values.T)
    scales, offsets = _as_integers(w.scales.astype(np.float32)), w.offsets
    codes = w.codes.astype(np.int64).astype(object)
    repeated = np.repeat(scales, w.format.group, axis=1)
    if w.format.offset is Offset.BIAS:
        values = codes * repeated + np.repeat(_as_integers(offsets.astype(np.float32)), w.format.group, axis=1)
    else:
        values = (codes - np.repeat(offsets.astype(np.int64).astype(object), w.format.group, axis=1)) * repeated
    return np.asarray(a @ values.T)


def _check(a: npt.ArrayLike, w: AffineTensor) -> tuple[Values, str]:
    """The activations as float32 [m, n], and their dtype's name."""
    array = as_array(a, name="a")
    values = as_float32(array, name="a")
    if w.codes.ndim != 2:
        raise ValueError(f"the weights have shape {w.shape}; pass a matrix [k, n], groups along n")
    if values.ndim == 0 or values.shape[-1] != w.shape[1]:
        n = values.shape[-1] if values.ndim else 0
        raise ValueError(f"a has {n} columns, the weights {w.shape} have {w.shape[1]}; C = A W^T needs the same number")
    given = array.dtype.name if array.dtype.name in FLOATS else "float32"
    return values.reshape(-1, w.shape[1]), given
