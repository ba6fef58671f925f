"""Affine tensors: quantize, dequantize, and what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mxspec.affine.arrays import dequantize_groups, quantize_groups
from mxspec.affine.contracts import AffineContract, get_contract
from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.affine.profiles import default_affine_profile, get_affine_profile
from mxspec.affine.schema import AffineProfile
from mxspec.elements import as_float32, output_dtype
from mxspec.inputs import as_array

Values = npt.NDArray[Any]
Codes = npt.NDArray[np.uint8]
OffsetName = Literal["bias", "zero"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AffineTensor:
    """Affine integers as they are stored; an operand of kind "affine" of a product is one of these.

    Raises TypeError and ValueError, with what is allowed, for parts that do not fit each other.
    """

    format: AffineFormat
    #: uint8 [..., k], one code in the low bits of each.
    codes: Codes
    #: [..., k / group] in the format's dtype.
    scales: Values
    #: [..., k / group]: biases in the format's dtype, or zero points, uint8.
    offsets: Values
    #: The profile that made it; None: it was made elsewhere.
    profile: AffineProfile | None = None

    def __post_init__(self) -> None:
        check_parts(self.codes, self.scales, self.offsets, self.format)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the values: that of the codes."""
        return self.codes.shape

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return self.format.bits

    @property
    def group(self) -> int:
        """Values that share a scale."""
        return self.format.group

    @property
    def biases(self) -> Values | None:
        """The offsets where they are biases."""
        return self.offsets if self.format.offset is Offset.BIAS else None

    @property
    def zeros(self) -> Codes | None:
        """The offsets where they are zero points."""
        return self.offsets if self.format.offset is Offset.ZERO else None

    def dequantize(self, dtype: object = "float32", *, contract: str | AffineContract = "exact") -> Values:
        """The values [..., k]: those of the contract, rounded once to `dtype` where that is another.

        Raises ValueError for a contract that the format does not have, TypeError for a dtype that is no output.
        """
        return dequantize(self.codes, self.scales, self.offsets, self.format, dtype=dtype, contract=contract)


def quantize(
    w: npt.ArrayLike,
    *,
    bits: int = 4,
    group: int = 64,
    profile: str | AffineProfile | None = None,
    offset: OffsetName | Offset | None = None,
    scale_dtype: object = None,
) -> AffineTensor:
    """Affine integers of a tensor, in groups along the last axis.

    Args:
        w: float32, float16 or bfloat16 [..., k] (float64 whose values are float32's), k a multiple of the group.
        bits: Of a code: 2, 3, 4 or 8 in checkpoints, 1 to 8 here.
        group: Consecutive values that share a scale: 32, 64 or 128 in checkpoints.
        profile: The rule; `mxspec.affine.list_affine_profiles()` lists them. Default: the documents' min/max rule, with
            zero points GPTQ's.
        offset: "bias" or "zero"; default: the profile's.
        scale_dtype: float16, bfloat16 or float32; default: w's own (float32 for float64).

    Returns:
        Codes, scales and biases or zero points.

    Raises:
        TypeError: w has another dtype.
        ValueError: k is no multiple of the group, or bits, group, offset or profile are none or do not fit each other.
    """
    array = as_array(w, name="w")
    values = as_float32(array, name="w")
    own = array.dtype.name if array.dtype.name in ("float16", "bfloat16") else "float32"
    dtype = own if scale_dtype is None else output_dtype(scale_dtype).name
    rule = None if profile is None else get_affine_profile(profile)
    kind = Offset(offset) if offset is not None else Offset.BIAS if rule is None else rule.offset
    fmt = AffineFormat(bits=bits, group=group, offset=kind, dtype=dtype)
    rule = get_affine_profile(rule or default_affine_profile(fmt), fmt)
    if values.ndim == 0:
        raise ValueError("w is a number; pass an array whose last axis is a multiple of the group")
    grouped = values.reshape(*values.shape[:-1], fmt.groups(values.shape[-1]), group)
    codes, scales, offsets = quantize_groups(grouped, fmt, rule)
    return AffineTensor(format=fmt, codes=codes.reshape(values.shape), scales=scales, offsets=offsets, profile=rule)


def dequantize(
    codes: npt.ArrayLike,
    scales: npt.ArrayLike,
    offsets: npt.ArrayLike,
    fmt: str | AffineFormat,
    *,
    dtype: object = "float32",
    contract: str | AffineContract = "exact",
) -> Values:
    """The values of affine integers.

    Args:
        codes: uint8 [..., k].
        scales: [..., k / group] in the format's dtype.
        offsets: [..., k / group]: biases in that dtype, or zero points, uint8.
        fmt: Such as `int4-g64-bias-float16`.
        dtype: Of the result: float32, float16 or bfloat16.
        contract: Where it rounds (`mxspec.affine.list_contracts`); its result is rounded once more to `dtype` where it is
            held in another.

    Returns:
        [..., k].

    Raises:
        TypeError: A part or the result has a dtype that it cannot have.
        ValueError: Shapes do not fit, a code has too many bits, or the format does not have the contract.
    """
    affine = get_affine(fmt)
    q, s, o = (as_array(a, name=n) for a, n in ((codes, "codes"), (scales, "scales"), (offsets, affine.offset.value)))
    check_parts(q, s, o, affine)
    grouped = q.reshape(*s.shape, affine.group)
    values = dequantize_groups(grouped, s, o, affine, get_contract(contract, affine), output_dtype(dtype).name)
    return values.reshape(q.shape)


def check_parts(codes: Values, scales: Values, offsets: Values, fmt: AffineFormat) -> None:
    """Raise TypeError or ValueError where codes, scales and offsets are not those of one tensor of the format."""
    if codes.dtype != np.uint8:
        raise TypeError(f"codes are {codes.dtype}; pass uint8, one code in the low {fmt.bits} bits of each")
    if codes.ndim == 0:
        raise ValueError(f"codes are a number; pass an array [..., k], k a multiple of {fmt.group}")
    wanted = (*codes.shape[:-1], fmt.groups(codes.shape[-1]))
    plural = "biases" if fmt.offset is Offset.BIAS else "zero points"
    offset_dtype = fmt.numpy_dtype if fmt.offset is Offset.BIAS else np.dtype(np.uint8)
    for array, what, dtype in ((scales, "scales", fmt.numpy_dtype), (offsets, plural, offset_dtype)):
        if array.dtype != dtype:
            raise TypeError(
                f"{what} are {array.dtype}; {fmt.name} has {dtype}. Convert the values (astype), never the bits (view): float16 "
                "read as bfloat16 is another number"
            )
        if array.shape != wanted:
            raise ValueError(f"{what} have shape {array.shape}; codes of shape {codes.shape} in groups of {fmt.group} need {wanted}")
    for array, what in ((codes, "codes"), *(((offsets, plural),) if fmt.offset is Offset.ZERO else ())):
        if array.size and int(array.max()) > fmt.bins:
            raise ValueError(f"{what} hold {int(array.max())}; {fmt.bits} bits allow 0 to {fmt.bins}")
