"""Formats as data: what the bits of an element, a scale and a block mean.

Nothing here is a matter of opinion. A scalar format is about ten facts; everything else is derived from them.
Sources: OCP Microscaling Formats (MX) v1.0 tables 1-7, OCP OFP8 v1.0 table 1, NVIDIA's cuda_fp4/6/8 headers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from mxspec.enums import StrEnum
from mxspec.suggestions import refuse_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFormat:
    """One scalar format.

    A *magnitude code* is a code without its sign. Magnitude codes are ordered like the values that they mean;
    those above `max_code` are `inf_code` or NaN.
    """

    name: str
    #: Bits of a code, the sign included.
    bits: int
    #: Width of the exponent field; 0 makes every value a multiple of the smallest one (int8).
    exponent_bits: int
    #: Width of the trailing significand.
    mantissa_bits: int
    #: Exponent bias; a field e means 2**(e - bias).
    bias: int
    #: Whether the top bit is a sign.
    signed: bool
    #: Whether exponent field 0 holds zero and the subnormals (false for e8m0, where it is 2**-127).
    has_zero: bool
    #: Magnitude code of the largest finite value.
    max_code: int
    #: Magnitude code of infinity, if the format has one.
    inf_code: int | None = None
    #: Magnitude code of the NaN that encoders write, if the format has one; the sign bit where the only NaN has the code of -0.
    nan_code: int | None = None
    #: Whether negative codes are the two's complement of the magnitude (int8).
    twos_complement: bool = False

    @property
    def magnitude_bits(self) -> int:
        """Bits of a magnitude code."""
        return self.bits - 1 if self.signed else self.bits

    @property
    def sign_bit(self) -> int:
        """The bit that marks a negative code (0 where codes are unsigned)."""
        return 1 << (self.bits - 1) if self.signed else 0

    @property
    def has_minus_zero(self) -> bool:
        """Whether zero has a sign: not in two's complement, nor where the code of -0 is the NaN (fnuz)."""
        return self.signed and not self.twos_complement and self.nan_code != self.sign_bit

    @property
    def code_count(self) -> int:
        """Number of codes."""
        return 1 << self.bits

    @property
    def storage_bits(self) -> int:
        """Bits of the unsigned integer that holds a code in memory: 8, or 32 for scales that are float32."""
        return 8 if self.bits <= 8 else 32

    @property
    def has_nonfinite(self) -> bool:
        """Whether the format has an infinity or a NaN, so that overflow need not saturate."""
        return self.inf_code is not None or self.nan_code is not None

    @property
    def is_power_of_two(self) -> bool:
        """Whether every finite value is a power of two (e8m0)."""
        return self.mantissa_bits == 0 and not self.has_zero

    @property
    def max_value(self) -> Fraction:
        """Largest finite value."""
        return self.magnitude(self.max_code)

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value: floor(log2(max_value))."""
        return floor_log2(self.max_value)

    @property
    def min_subnormal(self) -> Fraction:
        """Smallest positive value."""
        return self.magnitude(1 if self.has_zero else 0)

    @property
    def min_normal(self) -> Fraction:
        """Smallest positive value with a full significand; int8, which is fixed-point, has no subnormals."""
        if not self.has_zero or self.exponent_bits == 0:
            return self.min_subnormal
        return Fraction(2) ** (1 - self.bias)

    def magnitude(self, code: int) -> Fraction:
        """The value of a finite magnitude code.

        Codes one past `max_code` give the value that the next code would have if the range went on; overflow is
        decided against it (OFP8 section 5.2.2: round first, then compare).
        """
        field, fraction = code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1)
        if field == 0 and self.has_zero:
            return fraction * _power_of_two(1 - self.bias - self.mantissa_bits)
        if self.exponent_bits == 0:
            return code * _power_of_two(1 - self.bias - self.mantissa_bits)
        return ((1 << self.mantissa_bits) + fraction) * _power_of_two(field - self.bias - self.mantissa_bits)

    def split(self, code: int) -> tuple[int, int]:
        """Sign (0 or 1) and magnitude code of a code."""
        if not 0 <= code < self.code_count:
            raise ValueError(f"code {code:#x} has more than the {self.bits} bits of {self.name}; allowed are 0 to {self.code_count - 1:#x}")
        if not self.signed or not code & self.sign_bit:
            return 0, code
        if code == self.nan_code == self.sign_bit:
            return 0, code
        return 1, (self.code_count - code if self.twos_complement else code ^ self.sign_bit)

    def join(self, sign: int, magnitude_code: int) -> int:
        """The code with this sign and magnitude code; the inverse of `split`. Unsigned formats drop the sign."""
        if not sign or not self.signed:
            return magnitude_code
        if self.twos_complement:
            return -magnitude_code % self.code_count
        if magnitude_code == 0 and not self.has_minus_zero:
            return 0
        return magnitude_code | self.sign_bit

    def is_nan(self, code: int) -> bool:
        """Whether a code means NaN."""
        _, magnitude_code = self.split(code)
        return magnitude_code > self.max_code and magnitude_code != self.inf_code and not self.twos_complement


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementFormat(ScalarFormat):
    """Format of the elements of a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFormat(ScalarFormat):
    """Format of the scale of a block. Unsigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatFormat(ScalarFormat):
    """Format of a computer's own floats, in which profiles do their arithmetic."""


class Extent(StrEnum):
    """What shares one scale."""

    #: k elements.
    BLOCK = "block"
    #: All elements along the axis, however many there are.
    ROW = "row"
    #: All elements.
    TENSOR = "tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFormat:
    """k elements that share one scale."""

    name: str
    element: ElementFormat
    scale: ScaleFormat
    #: Elements of a block; where a whole row or tensor is one (`extent`), those of a row in vectors: `sized` has other lengths.
    k: int
    #: Whether a second, float32 scale for the whole tensor belongs to the format.
    has_tensor_scale: bool = False
    #: Block shapes (rows, columns) that are defined for the format; the first is the default.
    shapes: tuple[tuple[int, int], ...]
    #: Whether a block is k elements, or as long as whatever is quantized.
    extent: Extent = Extent.BLOCK

    def sized(self, length: int) -> BlockFormat:
        """The format whose blocks are rows of this length, where rows or tensors are its blocks; any other format as it is."""
        if self.extent is Extent.BLOCK or length == self.k:
            return self
        return replace(self, k=max(length, 1), shapes=((1, max(length, 1)),))

    @property
    def is_mx(self) -> bool:
        """Whether it is scaled as an MX format is: an E8M0 scale for each block, and no scale for the tensor."""
        return self.scale == E8M0 and not self.has_tensor_scale

    @property
    def is_ocp(self) -> bool:
        """Whether OCP MX v1.0 section 5.2 defines it: an MX format of 32 of the elements that are named there, in rows alone."""
        return self.is_mx and self.shapes == _ROWS_OF_32 and self.element in OCP_ELEMENTS

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits per element, the block's scale included and the tensor's scale not."""
        return Fraction(self.element.bits * self.k + self.scale.storage_bits, self.k)


@lru_cache(maxsize=4096)
def _power_of_two(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(value: Fraction) -> int:
    """The exponent e with 2**e <= value < 2**(e + 1), for a positive rational; exact."""
    e = value.numerator.bit_length() - value.denominator.bit_length()
    return e if _power_of_two(e) <= value else e - 1


def power_of_two(exponent: int) -> Fraction:
    """2**exponent as a rational."""
    return _power_of_two(exponent)


E2M1 = ElementFormat(name="e2m1", bits=4, exponent_bits=2, mantissa_bits=1, bias=1, signed=True, has_zero=True, max_code=0x7)
E2M3 = ElementFormat(name="e2m3", bits=6, exponent_bits=2, mantissa_bits=3, bias=1, signed=True, has_zero=True, max_code=0x1F)
E3M2 = ElementFormat(name="e3m2", bits=6, exponent_bits=3, mantissa_bits=2, bias=3, signed=True, has_zero=True, max_code=0x1F)
E4M3 = ElementFormat(
    name="e4m3", bits=8, exponent_bits=4, mantissa_bits=3, bias=7, signed=True, has_zero=True,
    max_code=0x7E, nan_code=0x7F,
)  # fmt: skip
E5M2 = ElementFormat(
    name="e5m2", bits=8, exponent_bits=5, mantissa_bits=2, bias=15, signed=True, has_zero=True,
    max_code=0x7B, inf_code=0x7C, nan_code=0x7F,
)  # fmt: skip
#: FP8 of AMD's MI300 and of Graphcore: zero has no sign, and the only NaN its code. As ml_dtypes has it. Not registered at first.
E4M3FNUZ = ElementFormat(
    name="e4m3fnuz", bits=8, exponent_bits=4, mantissa_bits=3, bias=8, signed=True, has_zero=True,
    max_code=0x7F, nan_code=0x80,
)  # fmt: skip
E5M2FNUZ = ElementFormat(
    name="e5m2fnuz", bits=8, exponent_bits=5, mantissa_bits=2, bias=16, signed=True, has_zero=True,
    max_code=0x7F, nan_code=0x80,
)  # fmt: skip
INT8 = ElementFormat(
    name="int8", bits=8, exponent_bits=0, mantissa_bits=7, bias=0, signed=True, has_zero=True,
    max_code=0x7F, twos_complement=True,
)  # fmt: skip
E8M0 = ScaleFormat(
    name="e8m0", bits=8, exponent_bits=8, mantissa_bits=0, bias=127, signed=False, has_zero=False,
    max_code=0xFE, nan_code=0xFF,
)  # fmt: skip
UE4M3 = ScaleFormat(
    name="ue4m3", bits=7, exponent_bits=4, mantissa_bits=3, bias=7, signed=False, has_zero=True,
    max_code=0x7E, nan_code=0x7F,
)  # fmt: skip
#: As PTX 9.4 and CUDA 13.5 have it: from 2^-17 to 1.75 x 2^16. Not registered at first (`mxspec.adjacent`).
UE5M3 = ScaleFormat(
    name="ue5m3", bits=8, exponent_bits=5, mantissa_bits=3, bias=15, signed=False, has_zero=True,
    max_code=0xFE, nan_code=0xFF,
)  # fmt: skip
#: A float32 as the scale of a block; its codes are the float's bits, without a sign. Not registered at first.
F32 = ScaleFormat(
    name="f32", bits=31, exponent_bits=8, mantissa_bits=23, bias=127, signed=False, has_zero=True,
    max_code=0x7F7FFFFF, inf_code=0x7F800000, nan_code=0x7FC00000,
)  # fmt: skip
FLOAT32 = FloatFormat(
    name="float32", bits=32, exponent_bits=8, mantissa_bits=23, bias=127, signed=True, has_zero=True,
    max_code=0x7F7FFFFF, inf_code=0x7F800000, nan_code=0x7FC00000,
)  # fmt: skip
FLOAT16 = FloatFormat(
    name="float16", bits=16, exponent_bits=5, mantissa_bits=10, bias=15, signed=True, has_zero=True,
    max_code=0x7BFF, inf_code=0x7C00, nan_code=0x7E00,
)  # fmt: skip
BFLOAT16 = FloatFormat(
    name="bfloat16", bits=16, exponent_bits=8, mantissa_bits=7, bias=127, signed=True, has_zero=True,
    max_code=0x7F7F, inf_code=0x7F80, nan_code=0x7FC0,
)  # fmt: skip
#: What tensor cores keep of a float32 number.
TF32 = FloatFormat(
    name="tf32", bits=19, exponent_bits=8, mantissa_bits=10, bias=127, signed=True, has_zero=True,
    max_code=0x3FBFF, inf_code=0x3FC00, nan_code=0x3FE00,
)  # fmt: skip

#: The names of what comes registered, for type checkers and editors; `register_block` and `register_scalar` add others.
BlockName = Literal["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4"]
ScalarName = Literal["e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "e8m0", "ue4m3"]

_ROWS_OF_32 = ((1, 32),)

#: Those that OCP MX v1.0 names.
OCP_ELEMENTS = (E2M1, E2M3, E3M2, E4M3, E5M2, INT8)
_elements: dict[str, ElementFormat] = {f.name: f for f in OCP_ELEMENTS}
_scales: dict[str, ScaleFormat] = {f.name: f for f in (E8M0, UE4M3)}
_blocks: dict[str, BlockFormat] = {
    f.name: f
    for f in (
        BlockFormat(name="mxfp4", element=E2M1, scale=E8M0, k=32, shapes=_ROWS_OF_32),
        BlockFormat(name="mxfp6_e2m3", element=E2M3, scale=E8M0, k=32, shapes=_ROWS_OF_32),
        BlockFormat(name="mxfp6_e3m2", element=E3M2, scale=E8M0, k=32, shapes=_ROWS_OF_32),
        BlockFormat(name="mxfp8_e4m3", element=E4M3, scale=E8M0, k=32, shapes=_ROWS_OF_32),
        BlockFormat(name="mxfp8_e5m2", element=E5M2, scale=E8M0, k=32, shapes=_ROWS_OF_32),
        BlockFormat(name="mxint8", element=INT8, scale=E8M0, k=32, shapes=_ROWS_OF_32),
        BlockFormat(name="nvfp4", element=E2M1, scale=UE4M3, k=16, has_tensor_scale=True, shapes=((1, 16), (16, 16))),
    )
}

#: The formats that are known, by name; views of what is registered.
ELEMENTS: MappingProxyType[str, ElementFormat] = MappingProxyType(_elements)
SCALES: MappingProxyType[str, ScaleFormat] = MappingProxyType(_scales)
BLOCKS: MappingProxyType[str, BlockFormat] = MappingProxyType(_blocks)
FLOATS: MappingProxyType[str, FloatFormat] = MappingProxyType({f.name: f for f in (FLOAT32, FLOAT16, BFLOAT16)})


def get_scalar(fmt: ScalarName | str | ElementFormat | ScaleFormat) -> ElementFormat | ScaleFormat:
    """The element or scale format of this name.

    Raises ValueError, listing the names, when there is none, and TypeError for what is no name.
    """
    if isinstance(fmt, (ElementFormat, ScaleFormat)):
        return fmt
    known: dict[str, ElementFormat | ScaleFormat] = {**ELEMENTS, **SCALES}
    if not isinstance(fmt, str) or fmt not in known:
        raise _unknown("scalar format", fmt, known)
    return known[fmt]


def get_block(fmt: BlockName | str | BlockFormat | None) -> BlockFormat:
    """The block format of this name.

    Raises ValueError, listing the names, when there is none, and TypeError for what is no name.
    """
    if isinstance(fmt, BlockFormat):
        return fmt
    if not isinstance(fmt, str) or fmt not in BLOCKS:
        raise _unknown("block format", fmt, BLOCKS)
    return BLOCKS[fmt]


def get_rows(fmt: BlockName | str | BlockFormat) -> BlockFormat:
    """`get_block`, with each row of a matrix a tensor of its own where a whole tensor has one scale: for many tensors at a time."""
    block = get_block(fmt)
    return replace(block, extent=Extent.ROW) if block.extent is Extent.TENSOR else block


def refuse_whole(fmt: BlockFormat, what: str) -> None:
    """Raises ValueError for a format whose rows or tensors have one scale; what: where blocks of k are needed."""
    if fmt.extent is not Extent.BLOCK:
        raise ValueError(f"{fmt.name} has one scale for each whole {fmt.extent}; {what} take formats with blocks of a fixed length")


def _unknown(kind: str, given: object, known: Iterable[str]) -> ValueError | TypeError:
    """The names that there are, and what may have been meant: a name like it, or formats of the other kind that hold it."""
    names = tuple(known)
    text = f"unknown {kind} {given!r}; known are {', '.join(names)}"
    if isinstance(given, str) and given in BLOCKS:
        block = BLOCKS[given]
        return ValueError(f"{text}; {given} is a block format, of elements {block.element.name} and scales {block.scale.name}")
    if holders := [b.name for b in BLOCKS.values() if given in (b.element.name, b.scale.name)]:
        return ValueError(f"{text}; {given} is a format of single numbers, which {' and '.join(holders)} hold")
    return refuse_name(given, text, names)


def register_scalar(fmt: ElementFormat | ScaleFormat) -> None:
    """Add a scalar format (UE5M3, a P3109 format ...) to the registry.

    Raises TypeError for something else than an `ElementFormat` or a `ScaleFormat`, and ValueError when its name is taken by a
    different format.
    """
    if not isinstance(fmt, (ElementFormat, ScaleFormat)):
        raise TypeError(f"the format is of type {type(fmt).__name__}; pass an ElementFormat or a ScaleFormat")
    if (fmt != F32 and not 1 <= fmt.bits <= 8) or fmt.bits != int(fmt.signed) + fmt.exponent_bits + fmt.mantissa_bits:
        raise ValueError(
            f"format {fmt.name!r}: bits = {fmt.bits}; give 1 to 8, the sum of sign, exponent_bits and mantissa_bits "
            f"({int(fmt.signed)} + {fmt.exponent_bits} + {fmt.mantissa_bits})"
        )
    if not 0 <= fmt.max_code < 1 << fmt.magnitude_bits:
        raise ValueError(f"format {fmt.name!r}: max_code = {fmt.max_code:#x} has more than {fmt.magnitude_bits} bits")
    _check_name(fmt)
    if isinstance(fmt, ScaleFormat):
        _scales[fmt.name] = fmt
    else:
        _elements[fmt.name] = fmt


def register_block(fmt: BlockFormat) -> None:
    """Add a block format to the registry; its element and scale are known already.

    An MX format (`BlockFormat.is_mx`) has the normative MX profiles; others need profiles of their own.

    Raises TypeError for something else than a `BlockFormat`, and ValueError when its name is taken by a different format, when
    its element or scale is not a registered format, and for block shapes that are not k wide.
    """
    if not isinstance(fmt, BlockFormat):
        raise TypeError(f"the format is of type {type(fmt).__name__}; pass a BlockFormat")
    _check_name(fmt)
    for part, known in ((fmt.element, ELEMENTS), (fmt.scale, SCALES)):
        if known.get(part.name) != part:
            raise ValueError(f"block format {fmt.name!r}: {part.name!r} is not a registered format; register it first")
    if fmt.k < 1 or not fmt.shapes or any(rows < 1 or columns != fmt.k for rows, columns in fmt.shapes):
        raise ValueError(
            f"block format {fmt.name!r}: shapes = {fmt.shapes}; give one or more (rows, k) with k = {fmt.k}, which is at least 1"
        )
    _blocks[fmt.name] = fmt


def _check_name(fmt: ElementFormat | ScaleFormat | BlockFormat) -> None:
    if not isinstance(fmt.name, str) or not fmt.name:
        raise ValueError(f"the name of a format is {fmt.name!r}; give a text that is not empty")
    existing = {**ELEMENTS, **SCALES, **BLOCKS}.get(fmt.name)
    if existing is not None and existing != fmt:
        raise ValueError(f"the name {fmt.name!r} is taken by another format; choose a new name")
