"""One operand of a product: exact numbers with the exponents at which hardware aligns them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import elements
from mxspec.blocktensor import BlockTensor
from mxspec.dot.rounding import DTYPES, OUTPUTS, Float64s, add_to_odd, round_floats
from mxspec.enums import StrEnum
from mxspec.formats import ELEMENTS, TF32, BlockFormat, ScalarFormat, get_block
from mxspec.inputs import as_array
from mxspec.profiles import get_profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import convert_tensor_scale

#: Dtypes that a plain operand may have, and the format of each; FP8 operands are elements without block scales.
PLAIN_DTYPES: dict[str, np.dtype[Any]] = {
    **DTYPES, "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn), "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
PLAIN_FORMATS: dict[str, ScalarFormat] = {**OUTPUTS, "float8_e4m3fn": ELEMENTS["e4m3"], "float8_e5m2": ELEMENTS["e5m2"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """The matrix [rows, k] that one operand of a product stands for; NaN and Inf are among its values.

    A tensor scale is not multiplied in: the number meant is values * tensor_scale.
    """

    values: Float64s
    #: Exponent of each element as hardware sees it: that of a subnormal, and of zero, is the format's smallest, and a block
    #: scale's is added.
    exponents: npt.NDArray[np.int16]
    tensor_scale: float = 1.0
    #: What is added to each value where one float64 does not hold the number, or kernels sum its parts apart; None: nothing.
    rest: Float64s | None = None
    #: Of a sparse operand the places that hold a number: no other one is multiplied, not even with an infinity. None: all.
    kept: npt.NDArray[np.bool_] | None = None

    @property
    def parts(self) -> tuple[Float64s, ...]:
        """Matrices whose exact sum is the operand."""
        return (self.values,) if self.rest is None else (self.values, self.rest)

    @property
    def odd(self) -> Float64s:
        """The numbers, rounded to odd where one float64 does not hold them, so that they can be rounded once more."""
        return self.values if self.rest is None else add_to_odd(self.values, self.rest)

    @property
    def rows(self) -> int:
        """Rows: m of a, n of b."""
        return int(self.values.shape[0])

    @property
    def k(self) -> int:
        """Length of the sums."""
        return int(self.values.shape[1])


def block_factor(
    codes: object, scales: object = None, fmt: str | BlockFormat | None = None, *, tensor_scale: float = 1.0, convert: bool = False
) -> Factor:
    """A matrix in a block format, blocks along k.

    Args:
        codes: uint8 [rows, k], one code for each element in its low bits. Or a `BlockTensor`, which brings all but `convert`.
        scales: uint8 [rows, k / block], a scale code for each block.
        fmt: A block format or its name.
        tensor_scale: NVFP4's second scale, a float32, of the kind that decodes (value = code * block scale * tensor scale).
        convert: Convert a `BlockTensor`'s tensor scale of another kind to the one that decodes, rounded correctly.

    Returns:
        The exact numbers. e8m0 FF, and a NaN code, are NaN.

    Raises:
        TypeError, ValueError: Codes or scales of another dtype or shape, codes beyond the element's bits; a `BlockTensor` whose
            blocks do not lie along k, or whose tensor scale is of another kind, without `convert`.
    """
    if isinstance(codes, BlockTensor):
        if scales is not None or fmt is not None or tensor_scale != 1.0:
            raise TypeError("a BlockTensor brings its scales, format and tensor scale; pass nothing else but convert")
        return _tensor_factor(codes, convert=convert)
    fmt = get_block(fmt)
    code_array = elements.check_codes(codes, fmt.element)
    scale_array = elements.check_codes(scales, fmt.scale, name="scales")
    if code_array.ndim != 2:
        raise ValueError(f"codes have {code_array.ndim} dimensions; an operand of a product has two, [rows, k]")
    rows, k = code_array.shape
    if k % fmt.k:
        raise ValueError(f"k = {k} is not a multiple of the {fmt.k}-element block of {fmt.name}; pad both operands with zero blocks")
    if scale_array.shape != (rows, k // fmt.k):
        raise ValueError(f"scales have shape {scale_array.shape}; {(rows, k // fmt.k)} belong to codes of shape {code_array.shape}")
    scale = elements.decode_codes(scale_array, fmt.scale).astype(np.float64)
    q = elements.decode_table(fmt.element).astype(np.float64)[code_array]
    with np.errstate(all="ignore"):
        values = (q.reshape(rows, k // fmt.k, fmt.k) * scale[:, :, None]).reshape(rows, k)
        own = np.maximum(np.frexp(np.where(np.isfinite(q), q, 0))[1] - 1, 1 - fmt.element.bias)
        fraction, above = np.frexp(np.where(np.isfinite(scale), scale, 0))
        # A kernel aligns numbers before it multiplies their sum by float32 scales: the bound is that of the next power of two.
        above = np.maximum(above - (1 if fmt.scale.bits <= 8 else fraction == 0.5), 1 - fmt.scale.bias)
    exponents = (own.reshape(rows, k // fmt.k, fmt.k) + above[:, :, None]).reshape(rows, k).astype(np.int16)
    return Factor(values=values, exponents=exponents, tensor_scale=float(np.float32(tensor_scale)))


def _tensor_factor(t: BlockTensor, *, convert: bool) -> Factor:
    if t.axis != t.codes.ndim - 1:
        raise ValueError(
            f"blocks lie along axis {t.axis} of {t.codes.ndim}; an operand of a product has them along k, its last one: move it "
            "(numpy.moveaxis) before quantizing"
        )
    if t.tensor_scale is None:
        return block_factor(t.codes, t.scales, t.format)
    if t.tensor_scale.kind is not TensorScaleKind.DECODE and not convert:
        raise ValueError(
            f"the tensor scale is of kind {t.tensor_scale.kind.value}; a product is multiplied by one of kind decode: pass "
            "block_factor(t, convert=True), which rounds it correctly"
        )
    decode = convert_tensor_scale(t.tensor_scale, get_profile("nvfp4-exact", "nvfp4"))
    return block_factor(t.codes, t.scales, t.format, tensor_scale=decode.value)


def plain_factor(x: npt.NDArray[Any]) -> Factor:
    """A matrix [rows, k] of float32, float16, bfloat16, float8_e4m3fn or float8_e5m2 numbers.

    Raises TypeError for other dtypes and ValueError for other ranks.
    """
    x = as_array(x)
    if x.dtype.name not in PLAIN_FORMATS:
        raise TypeError(f"a plain operand of a product is {', '.join(PLAIN_FORMATS)}; {x.dtype} was given")
    if x.ndim != 2:
        raise ValueError(f"x has {x.ndim} dimensions; an operand of a product has two, [rows, k]")
    with np.errstate(invalid="ignore"):  # a signaling NaN is a NaN
        wide = x.astype(np.float64)
    return exact_factor(wide, least=1 - PLAIN_FORMATS[x.dtype.name].bias)


def exact_factor(values: Float64s, *, least: int = -126) -> Factor:
    """Numbers that float64 holds exactly; least: the exponent of subnormals and of zero."""
    finite = np.where(np.isfinite(values), values, 0)
    exponents = np.maximum(np.frexp(finite)[1] - 1, least).astype(np.int16)
    return Factor(values=values, exponents=np.where(finite == 0, least, exponents).astype(np.int16))


class Contract(StrEnum):
    """How a kernel converts an operand before it multiplies. The tensor scale may be applied to the sum, or to each number."""

    #: Nothing is rounded: codes and block scales are multiplied exactly, the tensor scale is applied to the sum.
    EXACT = "exact"
    #: Each number times its scales, rounded to float32.
    FLOAT32 = "float32"
    #: The same, rounded to bfloat16.
    BFLOAT16 = "bfloat16"
    #: The same, rounded to float16.
    FLOAT16 = "float16"
    #: The same, rounded to TF32: to which tensor cores round float32 numbers, plain ones too.
    TF32 = "tf32"


_CONTRACT_FORMATS = {**{Contract(name): fmt for name, fmt in OUTPUTS.items()}, Contract.TF32: TF32}


def apply_contract(factor: Factor, contract: Contract) -> Factor:
    """The operand as a kernel with a contract multiplies it."""
    if contract is Contract.EXACT:
        return factor
    # 24 bits times at most 24: float64 holds the product.
    scaled = factor.odd * np.float64(factor.tensor_scale)
    fmt = _CONTRACT_FORMATS[contract]
    return replace(exact_factor(round_floats(scaled, fmt), least=1 - fmt.bias), kept=factor.kept)
