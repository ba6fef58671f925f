"""Affine integer formats as data: how many bits a code has, how many codes share a scale, what else they share.

A group of consecutive values along the last axis has unsigned codes 0 .. 2**bits - 1, one float scale, and one offset:
either a *bias*, a float in the scale's dtype (value = q * s + b), or a *zero point*, a code (value = (q - z) * s).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mxspec.elements import output_dtype
from mxspec.enums import StrEnum
from mxspec.formats import FLOATS, FloatFormat
from mxspec.inputs import as_index

#: What checkpoints hold. Other sizes are formats, too, as long as they are within `MOST_BITS` and `MOST_GROUP`.
BITS = (2, 3, 4, 8)
GROUPS = (32, 64, 128)
MOST_BITS = 8
MOST_GROUP = 1 << 16


class Offset(StrEnum):
    """What a group shares in addition to its scale."""

    #: A float b in the scale's dtype: q * s + b.
    BIAS = "bias"
    #: A code z of as many bits as q: (q - z) * s.
    ZERO = "zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineFormat:
    """One affine integer format.

    Raises ValueError, with what is allowed, for bits, groups and dtypes that are none, and TypeError for what is no integer.
    """

    bits: int = 4
    #: Consecutive values of the last axis that share a scale and an offset.
    group: int = 64
    offset: Offset = Offset.BIAS
    #: Dtype of the scales, and of the biases: float16, bfloat16 or float32.
    dtype: str = "float16"

    def __post_init__(self) -> None:
        for part in ("bits", "group"):
            object.__setattr__(self, part, as_index(getattr(self, part), part))
        if not 1 <= self.bits <= MOST_BITS:
            raise ValueError(f"bits = {self.bits!r}; allowed are 1 to {MOST_BITS}, in checkpoints {', '.join(map(str, BITS))}")
        if not 1 <= self.group <= MOST_GROUP:
            raise ValueError(f"group = {self.group!r}; allowed are 1 to {MOST_GROUP}, in checkpoints {', '.join(map(str, GROUPS))}")
        if self.dtype not in FLOATS:
            raise ValueError(f"dtype = {self.dtype!r} of scales; allowed are {', '.join(FLOATS)}")
        object.__setattr__(self, "offset", Offset(self.offset))

    @property
    def name(self) -> str:
        """As `get_affine` reads it: int4-g64-bias-float16."""
        return f"int{self.bits}-g{self.group}-{self.offset.value}-{self.dtype}"

    @property
    def bins(self) -> int:
        """The largest code: 2**bits - 1."""
        return (1 << self.bits) - 1

    @property
    def scalar(self) -> FloatFormat:
        """The float format of the scales and biases."""
        return FLOATS[self.dtype]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy (or ml_dtypes) dtype of the scales and biases."""
        return output_dtype(self.dtype)

    @property
    def bits_per_element(self) -> float:
        """Stored bits for each value, scale and offset included."""
        shared = self.scalar.bits + (self.scalar.bits if self.offset is Offset.BIAS else self.bits)
        return self.bits + shared / self.group

    def groups(self, k: int) -> int:
        """Groups in k values.

        Raises ValueError where k is no multiple of the group.
        """
        if k % self.group:
            wanted = -(-k // self.group) * self.group
            raise ValueError(
                f"k = {k} is not a multiple of the group of {self.group} values of {self.name}; "
                f"pad the last axis to {wanted}, or choose a group that divides {k}"
            )
        return k // self.group


_NAME = re.compile(r"int([1-9]\d?)-g([1-9]\d{0,5})-(bias|zero)-(float16|bfloat16|float32)")


@lru_cache(maxsize=256)
def get_affine(name: str | AffineFormat) -> AffineFormat:
    """The format of a name such as `int4-g64-bias-float16`.

    Raises ValueError, with the form of a name, for one that is none.
    """
    if isinstance(name, AffineFormat):
        return name
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(
            f"unknown affine format {name!r}; write int<bits>-g<group>-<bias or zero>-<dtype of the scales>, such as int4-g64-bias-float16"
        )
    bits, group, offset, dtype = found.groups()
    return AffineFormat(bits=int(bits), group=int(group), offset=Offset(offset), dtype=dtype)
