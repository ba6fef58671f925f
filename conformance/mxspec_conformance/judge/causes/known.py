"""The causes that are known, and what is said of one."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.enums import StrEnum
from mxspec_conformance.results import conclusion


class KnownCause(StrEnum):
    """What makes many requirements fail at once."""

    NOT_DETERMINISTIC = "not-deterministic"
    NIBBLE_ORDER = "nibble-order"
    TENSOR_SCALE_KIND = "tensor-scale-kind"
    TRANSPOSED_SCALES = "scales-transposed"
    TILED_SCALES = "scales-tiled"
    WIDE_BLOCKS = "wide-blocks"
    OTHER_BLOCKS = "other-blocks"
    NAN_STATE = "nan-state"
    SUBNORMALS_FLUSHED = "subnormals-flushed"
    NARROW_INPUT = "narrow-input"
    SCALE_CONSTANT = "scale-constant"
    SCALE_OFFSET = "scale-offset"
    SCALE_BIAS = "scale-bias"
    SCALE_BOUNDED = "scale-bounded"
    SCALE_WRAPS = "scale-wraps"
    SCALE_NEAREST_LOG2 = "scale-nearest-log2"
    SCALE_RULE = "scale-rule"
    SCALE_SUBNORMALS = "scale-subnormals"
    SCALE_MISREAD = "scale-misread"
    TENSOR_SCALE_LEFT_OUT = "tensor-scale-left-out"
    TENSOR_SCALE_NARROW = "tensor-scale-narrow"
    TENSOR_SCALE_MISREAD = "tensor-scale-misread"
    TENSOR_SCALE_OWN = "tensor-scale-own"
    ZERO_SCALE = "zero-scale"
    COARSE_BELOW = "subnormals-cut"
    STICKY_LOST = "sticky-lost"
    OWN_OVERFLOW = "overflow-not-clamped"
    TOP_RESERVED = "top-exponent-reserved"
    HALF_ADDED = "half-added"
    OTHER_QUOTIENT = "other-quotient"
    TIES_BY_SIGN = "ties-by-sign"
    WIDE_TIES = "wide-ties"
    NARROW_QUOTIENT = "narrow-quotient"
    NARROW_RECIPROCAL = "narrow-reciprocal"
    UNROUNDED_SCALE = "unrounded-scale"
    UNCLAMPED_SCALE = "unclamped-scale"
    WHOLE_NUMBERS = "whole-numbers"
    NARROW_MAXIMUM = "narrow-maximum"
    RECIPROCAL = "reciprocal"
    ONE_DTYPE = "one-dtype"
    SIGNED_MAXIMUM = "signed-maximum"
    RANGE_AS_MAXIMUM = "range-as-maximum"
    HALF_OF_THE_LANES = "lanes-not-looked-at"
    CALL_ALONE = "call-alone"
    SCALE_SEARCH = conclusion.SCALE_SEARCH
    NO_ANSWER = conclusion.NO_ANSWER
    NO_NUMBER = "no-number"


#: Causes of wrong scale bytes that say nothing of elements, which are judged under the scale that was returned.
OF_SCALE = frozenset({
    KnownCause.SCALE_OFFSET, KnownCause.SCALE_WRAPS, KnownCause.SCALE_NEAREST_LOG2, KnownCause.SCALE_RULE,
    KnownCause.SCALE_SUBNORMALS, KnownCause.SCALE_CONSTANT,
})  # fmt: skip
#: Causes of wrong elements under the scale that was returned, which say nothing of how that is chosen.
OF_ELEMENTS = frozenset({
    KnownCause.COARSE_BELOW, KnownCause.STICKY_LOST, KnownCause.OWN_OVERFLOW, KnownCause.TOP_RESERVED, KnownCause.HALF_ADDED,
    KnownCause.OTHER_QUOTIENT, KnownCause.NARROW_QUOTIENT, KnownCause.NARROW_RECIPROCAL, KnownCause.TIES_BY_SIGN, KnownCause.WIDE_TIES,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """A cause, and what is said of it."""

    cause: KnownCause
    text: str
