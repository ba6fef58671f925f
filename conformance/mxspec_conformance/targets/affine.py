"""Affine integers as targets take and return them: one code to a byte, or 32-bit words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.affine.words import pack_words, unpack_words
from mxspec_conformance.targets.errors import BadReturn

Values = npt.NDArray[Any]

AFFINE_FUNCTIONS = ("quantize_affine", "dequantize_affine")
#: The suffix of a format whose codes are 32-bit words.
_WORDS = "/words"


@dataclass(frozen=True, slots=True)
class AffineOperand:
    """A format, and how its codes lie."""

    format: AffineFormat
    #: uint32 words [rows, k * bits / 32], lowest bits first, and not one code to a byte.
    words: bool

    def shapes(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of codes, as the target has them, and of scales and offsets, of values of a shape."""
        columns = shape[-1] * self.format.bits // 32 if self.words else shape[-1]
        return (*shape[:-1], columns), (*shape[:-1], shape[-1] // self.format.group)

    def give(self, codes: Values) -> Values:
        """Codes as the target takes them."""
        return pack_words(codes, self.format.bits) if self.words else codes

    def take(self, codes: Values) -> Values:
        """Codes as the judge reads them, one to a byte. Raises BadReturn for another dtype."""
        if self.words:
            if codes.dtype.itemsize != 4 or codes.dtype.kind not in "iu":
                raise BadReturn(f"codes have dtype {codes.dtype}; return uint32 words, as AFFINE says")
            return unpack_words(np.ascontiguousarray(codes).view(np.uint32), self.format.bits)
        if codes.dtype.itemsize != 1 or codes.dtype.kind not in "iu":
            raise BadReturn(f"codes have dtype {codes.dtype}; return uint8, or declare {self.format.name}{_WORDS}")
        return np.ascontiguousarray(codes).view(np.uint8)


def read_operand(name: str) -> AffineOperand:
    """The format and the words of a declared name.

    Raises ValueError for one that is none, and where a group does not fill whole words.
    """
    plain = name.removesuffix(_WORDS)
    fmt = get_affine(plain)
    if plain != name and fmt.group * fmt.bits % 32:
        raise ValueError(f"a group of {fmt.group} codes of {fmt.bits} bits does not fill whole 32-bit words: omit {_WORDS}")
    return AffineOperand(fmt, plain != name)


def read_floats(array: Values, fmt: AffineFormat, what: str) -> Values:
    """Scales or biases in the format's dtype; wider floats that hold its values are converted.

    Raises BadReturn for others: a value that was not rounded to the dtype is not what is stored.
    """
    dtype = fmt.numpy_dtype
    if array.dtype == dtype:
        return array
    if array.dtype not in (np.float32, np.float64):
        raise BadReturn(f"{what} have dtype {array.dtype}; return {fmt.dtype}, as {fmt.name} says")
    with np.errstate(all="ignore"):
        narrow = array.astype(dtype)
    changed = (narrow.astype(array.dtype) != array) & ~np.isnan(array)
    if changed.any():
        raise BadReturn(f"{what} hold {float(array[changed][0])!r}, which {fmt.dtype} does not; round them as they are stored")
    return narrow


def read_offsets(array: Values, fmt: AffineFormat) -> Values:
    """Biases in the format's dtype, or zero points as uint8. Raises BadReturn for something else."""
    if fmt.offset is Offset.BIAS:
        return read_floats(array, fmt, "biases")
    if array.dtype.kind not in "iu":
        raise BadReturn(f"zero points have dtype {array.dtype}; return whole numbers, uint8")
    if array.size and (int(array.min()) < 0 or int(array.max()) > 255):
        raise BadReturn(f"zero points hold {int(array.min())} to {int(array.max())}; they are codes of {fmt.bits} bits")
    return array.astype(np.uint8)
